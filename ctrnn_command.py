"""`ctrnn` at the prompt: its own packages first, whatever else the path has by their names, a folder `experiments` of the user's
say."""

import importlib.util
import sys
from pathlib import Path

__all__ = ["main", "ours_first"]

HERE = Path(__file__).resolve().parent


def ours_first() -> dict[str, Path]:
    """Have Python import our packages, not what else has their names; return where that is, by name."""
    found = {name: _place(name) for name in ("ctrnn", "discretize", "derivations", "experiments")}
    if any(place != HERE / name for name, place in found.items()):
        sys.path.insert(0, str(HERE))
    return {name: place for name, place in found.items() if place and place != HERE / name}


def main() -> int:
    hidden = ours_first()
    if sys.argv[1:2] == ["doctor"]:  # which needs nothing else, and tells what is missing
        from experiments.doctor import main as examine  # noqa: PLC0415

        return examine(sys.argv[2:], hidden)
    from ctrnn.extras import MissingPackageError, needed_by  # noqa: PLC0415

    try:
        with needed_by("this command", "all"):
            from experiments.__main__ import main as run  # noqa: PLC0415 - tyro, and more
    except MissingPackageError as error:
        print(f"ctrnn: {error}", file=sys.stderr)
        return 2
    return run()


def _place(package: str) -> Path | None:
    """The folder that Python would import."""
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0]).resolve() if places else None
