"""`ctrnn` at the prompt: its own packages first, whatever else the path has by their names, a folder `experiments` of the user's
say."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
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
    hidden, words = ours_first(), sys.argv[1:]
    if words[:1] == ["doctor"]:  # which needs nothing else, and tells what is missing
        from experiments.doctor import main as examine  # noqa: PLC0415

        return examine(words[1:], hidden)
    try:
        from ctrnn.extras import MissingPackageError, needed_by  # noqa: PLC0415
    except ImportError as error:  # another project has files among ours
        print(f"ctrnn: {error}", file=sys.stderr)
        return 2
    try:
        with needed_by("this command", "all"):
            from experiments.__main__ import main as run  # noqa: PLC0415 - tyro, and more
    except MissingPackageError as error:
        return _without_extras(words, str(error))
    return run()


def _without_extras(words: Sequence[str], why: str) -> int:
    """Answer what can be answered where tyro is missing: the version, the pages, and which commands there are."""
    from ctrnn.extras import install_line  # noqa: PLC0415

    if words == ["--version"]:
        from ctrnn.version import __version__  # noqa: PLC0415

        print(f"ctrnn {__version__}")
    elif words == ["docs"]:
        from experiments.documents import open_pages  # noqa: PLC0415

        return open_pages()
    elif words in (["--help"], ["-h"]):
        print("usage: ctrnn COMMAND ...\n")
        for command, about in _commands():
            print(f"  {command:<11}{about}")
        print(f"\nAll but docs and doctor need the extra `all`: {install_line('all')}")
    else:
        print(f"ctrnn: {why}", file=sys.stderr)
        return 2
    return 0


def _commands() -> Iterator[tuple[str, str]]:
    """The commands and the first sentences about them, read in the code that cannot be imported."""
    code = _code("experiments.__main__")
    homes = {each.name: node.module for node in code if isinstance(node, ast.ImportFrom) for each in node.names}
    table: ast.Dict = next(each.value for each in code if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Dict))
    for function in map(ast.unparse, table.values):
        home = _code(homes.get(function) or "experiments.__main__")
        about = next(
            ast.get_docstring(each) or "" for each in home if isinstance(each, ast.FunctionDef) and each.name == function
        )
        yield function, re.split(r"[;.:](?:\s|$)", about)[0].replace("\n", " ") + "."


def _code(module: str) -> list[ast.stmt]:
    return ast.parse(HERE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")).body


def _place(package: str) -> Path | None:
    """The folder that Python would import."""
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0]).resolve() if places else None
