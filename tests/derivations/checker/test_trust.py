"""What is trusted: the checks in two lists, what these call, and how much that is; and a checker that is not ours."""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from derivations.book import chapter
from derivations.claim import decided
from derivations.contents import SOURCES
from derivations.rules import conclusions, replay
from experiments.derive.run import as_json

RULES = Path(replay.__file__).parent
PAGE = Path(__file__).resolve().parents[3] / "docs" / "checker.md"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text):
    """Lines that hold more than a comment or a docstring."""
    words = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    docstrings = {line for node in words for line in range(node.lineno, node.end_lineno + 1)}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_CODE]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docstrings


def imports(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_the_trusted_lines_are_as_few_as_the_page_says():
    count = sum(len(lines_of_code(file.read_text())) for file in RULES.glob("*.py"))
    most = int(re.search(r"fewer than (\d+) lines of code", PAGE.read_text())[1])
    assert most - 100 < count < most


def test_the_trusted_files_import_python_flint_and_each_other():
    found = {name for file in RULES.glob("*.py") for name in imports(file.read_text())}
    inside = {name for name in found if name.startswith("derivations.rules")}
    assert {name.partition(".")[0] for name in found - inside} - sys.stdlib_module_names == {"flint"}


def test_checking_loads_neither_sympy_nor_torch_nor_any_other_room():
    code = "import derivations.rules.conclusions, sys; print(*(m for m in sys.modules if m[:5] in ('sympy', 'torch', 'deriv')))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert {m.split(".")[1] if "." in m else m for m in loaded} == {"derivations", "rules"}


def test_every_check_in_the_lists_is_of_the_trusted_files():
    checks = [check for check, _ in replay.RULES.values()] + list(conclusions.STATEMENTS.values())
    assert {check.__module__.rpartition(".")[0] for check in checks} == {"derivations.rules"}


@pytest.fixture(scope="module")
def theirs():
    """The names that the first block of the page defines."""
    names = {"__name__": "page"}
    exec(re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1], names)
    return names


def verdict(theirs, says, steps):
    try:
        return theirs["is_true"](says, steps)
    except (theirs["Refused"], theirs["NotMine"]) as reason:
        return type(reason).__name__


def data(entry):
    return json.loads(json.dumps(as_json(decided(entry))))["certificate"]


CHAPTERS = [chapter for chapters in SOURCES.values() for chapter in chapters]


@pytest.mark.parametrize(
    "name", [name if name == "tallec_ollivier_tasks" else pytest.param(name, marks=pytest.mark.slow) for name in CHAPTERS]
)
def test_a_checker_of_another_hand_refuses_nothing_that_ours_accepts(theirs, name):
    statements = [statement for entry in chapter(name) for statement in data(entry) if statement["says"]]
    found = [(verdict(theirs, each["says"], each["steps"]), each["holds"]) for each in statements]
    assert [pair for pair in found if pair[0] not in ("NotMine", pair[1])] == []
    assert name == "own_code" or any(said is holds for said, holds in found)


X, ONE, REAL = ["v", "x"], ["q", 1, 1], {"pairs": [[["v", "x"], {"set": ["positive", "real"]}]]}
INVERSE = ["^", X, ["q", -1, 1]]


def at(number):
    return {"pairs": [[X, {"fraction": number}]]}


@pytest.mark.parametrize(
    ("lhs", "rhs", "step", "found"),
    [
        (["*", X, INVERSE], ONE, {"rule": "equal"}, True),
        (["+", X, ONE], X, {"rule": "equal"}, "NotMine"),
        (["*", ["q", 2, 1], ["q", 5, 1]], ["q", 8, 1], {"rule": "equal"}, "Refused"),
        (["^", ["+", X, ["*", ["q", -1, 1], X]], ["q", -1, 1]], ONE, {"rule": "equal"}, "Refused"),
        (["exp", X], ["exp", X], {"rule": "equal"}, True),
        (["*", X, X], X, {"rule": "differs", "numbers": at([2, 1])}, False),
        (["*", X, X], X, {"rule": "differs", "numbers": at([1, 1])}, "Refused"),
        (["*", X, X], X, {"rule": "differs", "numbers": at([-2, 1])}, "Refused"),
        (["exp", X], X, {"rule": "differs", "numbers": at([2, 1])}, "NotMine"),
    ],
)
def test_the_checker_of_the_page_decides_by_arithmetic_alone(theirs, lhs, rhs, step, found):
    says = {"kind": "equal", "pairs": [[lhs, rhs]], "where": {}, "facts": REAL}
    assert verdict(theirs, says, [{"lhs": lhs, "rhs": rhs, "facts": REAL, **step}]) == found


def test_a_step_of_another_statement_shows_nothing_to_the_checker_of_the_page(theirs):
    says = {"kind": "equal", "pairs": [[X, ONE]], "where": {}, "facts": REAL}
    assert verdict(theirs, says, [{"rule": "equal", "lhs": X, "rhs": X, "facts": REAL}]) == "NotMine"
