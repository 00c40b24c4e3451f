"""Where a figure comes from: processor, cores, threads, versions, compiler, date. Without them a ratio means nothing."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import ctrnn

__all__ = ["cores", "facts", "limited", "version_of"]

PACKAGES = ("ctrnn", "torch", "torchdiffeq", "numpy", "torchode", "diffrax", "jax", "torchsde")
COMPILERS = ("c++", "g++", "clang++")
VECTORS = {"avx512f": "AVX512", "avx2": "AVX2", "avx": "AVX", "asimd": "NEON"}


def facts(device: str = "cpu") -> dict[str, str]:
    """Describe this machine in words, by name; absent packages and unknowns are named as such."""
    model, flags = _processor()
    known = {
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": model,
        "vectors": ", ".join(word for flag, word in VECTORS.items() if flag in flags) or "unknown",
        "torch's vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": str(os.cpu_count() or 1),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
        "compiler": _compiler(),
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    }
    if device == "cuda":
        known["device"] = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return known


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Limit the threads of everyone, torch or not: this process and its children keep to so many cores."""
    before, allowed = torch.get_num_threads(), _affinity()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
            if allowed is not None and threads < len(allowed):
                os.sched_setaffinity(0, sorted(allowed)[:threads])
        yield
    finally:
        torch.set_num_threads(before)
        if allowed is not None:
            os.sched_setaffinity(0, allowed)


def cores() -> int:
    """Count the cores that this process may use: those it is bound to, and in a Slurm job at most as many as it asked for."""
    here = len(_affinity() or ()) or os.cpu_count() or 1
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(here, int(asked)) if asked.isdecimal() and int(asked) else here


def _affinity() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _processor() -> tuple[str, frozenset[str]]:
    """Its name and what it can do, from /proc or sysctl."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines) if value}
        flags = values.get("flags") or values.get("Features") or ""
        family = f" (family {values['cpu family']}, model {values['model']})" if "cpu family" in values else ""
        return values.get("model name", platform.processor() or "unknown") + family, frozenset(flags.split())
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip(), frozenset()
    return platform.processor() or "unknown", frozenset()


def _compiler() -> str:
    """The first line that the compiler says of itself: the one CXX names, else the first there is."""
    named = os.environ.get("CXX")
    command = shlex.split(named) if named else next(([found] for name in COMPILERS if (found := shutil.which(name))), [])
    if not command:
        return "none"
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return f"none ({shlex.join(command)} does not run)"
    return said.partition("\n")[0]


def version_of(package: str) -> str:
    """Return the version of a package; this project is installed under another name."""
    try:
        return ctrnn.__version__ if package == "ctrnn" else version(package)
    except PackageNotFoundError:
        return "not installed"
