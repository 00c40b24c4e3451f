"""Refuse to be imported from a folder into which another project has put a package of the same name, over ours or under it.

SimPEG's mesh package is called `discretize` too. Installers write one over the other without asking, and taking one out again
takes files of the other along.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from ctrnn.extras import NAME, ROOT, install_line, installer

__all__ = ["other_projects", "refuse_others"]

PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")
DISTRIBUTION = re.compile(rf"({'|'.join([*PACKAGES, NAME.replace('-', '_')])})-([^-]+)\.dist-info")


def refuse_others(folder: Path = ROOT) -> None:
    """Raises: ImportError, with what to type, where another project has a package in the same place, or took files of ours."""
    if others := other_projects(folder):
        raise ImportError(
            f"{' '.join(others.values())} Take both out and put one back, or give each an environment of its own: "
            f"{installer()} uninstall {' '.join(others)} {NAME}, then {install_line('all')}"
        )


def other_projects(folder: Path) -> Mapping[str, str]:
    """Say of the projects that have a package of ours in a folder where pip has put ours, or had one, what is the matter.

    Their names are those of the packages. Read is what installers write down, and the first file of packages.
    """
    try:
        matches = [match for entry in folder.iterdir() if (match := DISTRIBUTION.fullmatch(entry.name))]
    except OSError:
        return {}
    if not any(match[1] not in PACKAGES for match in matches):
        return {}  # a copy of the repository, or of a part of it
    others = {
        match[1]: f"`{match[1]}` {match[2]} of another project and {NAME} were put one over the other, in {folder / match[1]}."
        for match in matches
        if match[1] in PACKAGES and _brings(folder / match[0], match[1])
    }
    for name in {"discretize", "derivations"} - others.keys():
        first = folder / name / "__init__.py"
        if not first.is_file():
            others[name] = f"{first} is missing; another project's `{name}` took it along as it was taken out."
        elif "from ctrnn." not in first.read_text(encoding="utf-8", errors="replace"):
            others[name] = f"{first} is of another project, installed over {NAME}."
    return others


def _brings(distribution: Path, package: str) -> bool:
    try:
        return f"{package}/__init__.py," in (distribution / "RECORD").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
