"""Say which extra of this distribution brings a package that is missing, where it is needed, and what to type for it."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["NAME", "ROOT", "MissingPackageError", "install_line", "installer", "needed_by"]

NAME = "ctrnn-ode"
ROOT = Path(__file__).resolve().parents[1]  # a copy of the repository, or site-packages

# Modules that `pip install ctrnn-ode` does not bring: their names in a sentence, and the extra that does.
BROUGHT_BY = {
    "sympy": ("SymPy", "prove"),
    "flint": ("python-flint", "prove"),
    "latex2mathml": ("latex2mathml", "prove"),
    "lark": ("lark", "prove"),
    "pint": ("pint", "prove"),
    "scipy": ("SciPy", "lab"),
    "matplotlib": ("Matplotlib", "lab"),
    "pandas": ("pandas", "lab"),
    "tqdm": ("tqdm", "lab"),
    "tyro": ("tyro", "lab"),
    "jinja2": ("Jinja2", "lab"),
    "markupsafe": ("Jinja2", "lab"),
    "filelock": ("filelock", "lab"),
    "torchdiffeq": ("torchdiffeq", "all"),
    "sklearn": ("scikit-learn", "all"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "wandb": ("wandb", "wandb"),
    "xarray": ("xarray", "xarray"),
    "mlflow": ("mlflow-skinny", "mlflow"),
    "ray": ("Ray", "cluster"),
    "submitit": ("submitit", "cluster"),
    "pooch": ("pooch", "fetch"),
    "requests": ("pooch", "fetch"),
}


class MissingPackageError(ModuleNotFoundError):
    """Raised where a package of an extra is needed and not installed; says which extra brings it."""


@contextmanager
def needed_by(caller: str, extra: str | None = None) -> Iterator[None]:
    """Turn the ImportError of a missing package into a sentence that names `caller` and `extra`, by default the package's own."""
    try:
        yield
    except MissingPackageError:
        raise  # from a call within, which names its caller more precisely
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in BROUGHT_BY:
            raise
        name, own = BROUGHT_BY[module]
        raise MissingPackageError(f"{caller} needs {name}: {install_line(extra or own)}", name=error.name) from None


def install_line(extra: str) -> str:
    """Write what to type to install an extra from where this distribution came: a folder, a repository, a file, or an index.

    Where it came from is what installers write down, direct_url.json; a copy of the repository is told by its pyproject.toml.
    """
    wanted = f"{NAME}[{extra}]"
    if (ROOT / "pyproject.toml").is_file():
        wanted = f"-e {shlex.quote(f'{ROOT}[{extra}]')}"
    else:
        try:
            origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
        except PackageNotFoundError:
            origin = {}
        url, parts = str(origin.get("url", "")), urlsplit(origin.get("url", ""))
        if "vcs_info" in origin:
            revision = origin["vcs_info"].get("requested_revision")
            wanted += f" @ {origin['vcs_info']['vcs']}+{url}{f'@{revision}' if revision else ''}"
        elif parts.scheme == "file" and Path(url2pathname(parts.path)).is_dir():
            wanted = f"{url2pathname(parts.path)}[{extra}]"
        elif url and (parts.scheme != "file" or Path(url2pathname(parts.path)).is_file()):
            wanted += f" @ {url}"
        wanted = shlex.quote(wanted)
    return f"{installer()} install {wanted}"


def installer() -> str:
    """Write the command that installs here: uv makes environments without pip."""
    # Not by find_spec, at which setuptools of Python 3.11 takes its distutils away, and cannot be imported from then on.
    return "pip" if PathFinder.find_spec("pip") else "uv pip"
