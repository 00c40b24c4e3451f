"""Says what is installed, which engines work here and why others do not, and which packages hide one another.

Imports the standard library alone until it looks at engines, so that it runs where the rest does not.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main", "overwritten", "run"]

NAME = "ctrnn-ode"  # as in ctrnn.extras, which cannot be imported where another project has files among ours
PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")
CORE = ("torch", "numpy", "safetensors")
DEVELOPERS = {"all", "test", "check", "docs", "judges"}  # extras that users do not ask for one by one
REQUIREMENT = re.compile(r"""([\w.-]+)(?!.*\[).*extra == ["']([\w-]+)["']""")  # as in: scipy>=1.15; extra == "lab"


def main(words: Sequence[str], hidden_by: Mapping[str, Path]) -> int:
    """Parse what stands after `ctrnn doctor`; `hidden_by` are folders that Python would have imported in place of ours."""
    parser = argparse.ArgumentParser("ctrnn doctor", description=__doc__)
    parser.add_argument("--build", action="store_true", help="build kernels for a small network, and compare all engines")
    return run(build=parser.parse_args(words).build, hidden_by=hidden_by)


def run(*, build: bool, hidden_by: Mapping[str, Path] | None = None) -> int:
    """Print the report, and 0 whatever it says. build: build kernels, and compare them with the steps."""
    for title, lines in (("", _installed()), ("Extras", _extras()), ("Engines", _engines()), ("Names", _names(hidden_by or {}))):
        print(f"\n{title}" if title else "", end="\n" if title else "")
        for name, words in lines:
            print(f"  {name:<12}{words}")
    if build:
        print(f"\n{_compared()}")
    return 0


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _installed() -> Iterator[tuple[str, str]]:
    yield NAME, f"{_version(NAME) or 'not installed by pip,'} in {Path(__file__).resolve().parents[1]}"
    yield "Python", f"{platform.python_version()}, {sys.executable}, {platform.platform()}"
    for name in CORE:
        yield name, _version(name) or f"missing: pip install {name}"


def _extras() -> Iterator[tuple[str, str]]:
    extras: dict[str, list[str]] = {}
    for requirement in (metadata.requires(NAME) or []) if _version(NAME) else []:
        if (found := REQUIREMENT.match(requirement)) and found[2] not in DEVELOPERS:
            extras.setdefault(found[2], []).append(found[1])
    for extra, names in extras.items():
        missing = [name for name in names if _version(name) is None]
        here = ", ".join(f"{name} {_version(name)}" for name in names if name not in missing)
        yield extra, here or "nothing of it"
        if missing:
            yield "", f"missing {', '.join(missing)}: {_install_line(extra)}"
    if not extras:
        yield "unknown", f"{NAME} is not installed by pip; pyproject.toml lists its extras"


def _install_line(extra: str) -> str:
    try:
        from ctrnn.extras import install_line  # noqa: PLC0415
    except ImportError:  # refused, as the names below say
        return f"pip install '{NAME}[{extra}]'"
    return install_line(extra)


def _engines() -> Iterator[tuple[str, str]]:
    try:
        import torch  # noqa: PLC0415

        from discretize.kernels import build, cache  # noqa: PLC0415
    except Exception as error:  # whatever half an installation raises
        yield "none", f"torch or discretize cannot be imported: {type(error).__name__}: {error}"
        return
    yield "steps", "by torch, everywhere"
    if os.environ.get("CTRNN_FUSED") == "0":
        yield "compiled", "no: CTRNN_FUSED=0 turns kernels off"
        return
    try:
        yield "compiled", f"in C++, at first use, by {build.compiler()}"
        kept = cache.Cache()
        if kept.folder is None or not os.access(kept.folder, os.W_OK):
            yield "", f"built anew in each process: {f'{kept.folder} cannot be written to' if kept.folder else kept.why}"
        else:
            yield "", f"kept in {kept.folder}"
    except (build.Unavailable, OSError) as error:
        yield "compiled", f"no: {error}"
    if not torch.cuda.is_available():
        yield "triton", f"no: torch {torch.__version__} sees no GPU"
    elif find_spec("triton") is None:
        yield "triton", f"no: triton is not installed; {_install_line('gpu')}"
    else:
        yield "triton", f"for tensors on {torch.cuda.get_device_name()}, by triton {_version('triton')}"


def _names(hidden_by: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    for name, place in hidden_by.items():
        yield name, f"Python imports {place} first; `ctrnn` takes its own, programs of yours do not. Rename or move that one."
    others = overwritten()
    try:
        import ctrnn  # noqa: F401, PLC0415
    except ImportError as error:  # its text names the cause, so it is shown
        others = {"refused": str(error)}
    yield from others.items()
    if not hidden_by and not others:
        yield "all right", f"{', '.join(PACKAGES)} are those of {NAME}"


def overwritten() -> dict[str, str]:
    """Say of which of our packages another distribution has one too, in the same folder, over ours or under it."""
    words = "of another project has a package of that name too, over ours or under it; uninstall it and install"
    return {
        name: f"the distribution {name} {_version(name)} {words} {NAME} again, or give each an environment of its own."
        for name in PACKAGES
        if _version(name) is not None
    }


def _compared() -> str:
    import torch  # noqa: PLC0415

    import ctrnn  # noqa: PLC0415
    from discretize import verify_engines  # noqa: PLC0415

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return str(verify_engines(ctrnn.gated(3, 5).to(device), torch.randn(5, 2, 3, device=device)))
