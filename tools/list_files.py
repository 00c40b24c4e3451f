"""Write the list of files in CONTRIBUTING.md: a folder a table, each file with the first sentence of its docstring.

python tools/list_files.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")
BEGIN, END = "<!-- files: written by tools/list_files.py -->\n", "<!-- end of files -->\n"


def first_sentence(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def folder_table(folder: Path) -> str:
    files = sorted(file for file in folder.glob("*.py") if file.name != "__init__.py")
    rows = [f"| `{file.name}` | {first_sentence(file).replace('|', chr(92) + '|')} |" for file in files]
    title = f"**{folder.relative_to(ROOT).as_posix()}/** {first_sentence(folder / '__init__.py')}"
    return "\n".join([title, "", *(["| file | |", "|---|---|", *rows, ""] if rows else [])])


def listing() -> str:
    """The tables of all folders, packages in the order in which they may import one another."""
    folders = [init.parent for package in PACKAGES for init in sorted((ROOT / package).rglob("__init__.py"))]
    return "\n".join(map(folder_table, folders))


def filled(page: str) -> str:
    """The page with the present list between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{listing()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
