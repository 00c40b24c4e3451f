"""Say which extra of this distribution brings a package that is missing, where it is needed."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["MissingPackageError", "needed_by"]

# Modules that `pip install ctrnn-ode` does not bring: their names in a sentence, and the extra that does.
BROUGHT_BY = {
    "sympy": ("SymPy", "prove"),
    "flint": ("python-flint", "prove"),
    "latex2mathml": ("latex2mathml", "prove"),
    "scipy": ("SciPy", "lab"),
    "matplotlib": ("Matplotlib", "lab"),
    "pandas": ("pandas", "lab"),
    "tqdm": ("tqdm", "lab"),
    "tyro": ("tyro", "lab"),
    "jinja2": ("Jinja2", "lab"),
    "markupsafe": ("Jinja2", "lab"),
    "filelock": ("filelock", "lab"),
    "torchdiffeq": ("torchdiffeq", "all"),
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
        raise MissingPackageError(f"{caller} needs {name}: pip install 'ctrnn-ode[{extra or own}]'", name=error.name) from None
