"""Docstrings, comments and pages name no file that is not there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("ctrnn", "discretize", "derivations", "experiments", "docs", "tests", "tools")
NAME = re.compile(r"(?<![\w./{}*<-])((?:[\w.-]+/)*[\w-]+\.(?:py|pyi|h|cpp|jinja))\b(?![\w(])")
# Of users, in examples; of other projects; and written while a kernel is compiled.
USERS = {"FILE.py", "mine.py", "helpers/cells.py", "odd_ones.py", "experiments/studies/claims/more_units.py"}
USERS |= {"ctrnn/cells/published/coupled_oscillators.py", "tests/ctrnn/cells/published/test_coupled_oscillators.py"}
THEIRS = {
    "torch/__init__.py",
    "examples/models/sinewave.py",
    "PATH/test_ivp.py",
    "test_ivp.py",
    "interpolation_test.py",
    "cnf.py",
}
THEIRS |= {"single_step_methods_test.py", "step_size_controllers_test.py", "learn_physics.py", "odenet_mnist.py"}
THEIRS |= {"latent_ode.py", "ode_demo.py", "bouncing_ball.py", "text8.py"}
WRITTEN = {"program.h"}
STATES = {"found.h", "rest.h", "b.h"}  # attributes of objects


def test_every_file_that_a_docstring_a_comment_or_a_page_names_is_there():
    unknown = [f"{file.relative_to(ROOT)}: {name}" for file in spoken() for name in names_of(file) if not is_there(name)]
    assert not unknown, "it was renamed, or moved"


@cache
def files():
    inside = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.*")) if file.is_file()]
    return [
        file for file in [*sorted(ROOT.glob("*.*")), *inside] if file.suffix in {".py", ".pyi", ".h", ".cpp", ".md", ".jinja"}
    ]


def spoken():
    """Those whose words are looked at: tests have names of files that they write."""
    return [file for file in files() if "tests" not in file.relative_to(ROOT).parts and file.suffix != ".jinja"]


@cache
def endings():
    """All paths of files, and all their ends: discretize/steps/step.py, steps/step.py, step.py."""
    paths = (file.relative_to(ROOT).parts for file in files())
    return {"/".join(parts[k:]) for parts in paths for k in range(len(parts))}


def is_there(name):
    return name in endings() | USERS | THEIRS | WRITTEN | STATES


def names_of(file):
    text = file.read_text(encoding="utf-8")
    names = [name for name in NAME.findall(text) if not is_there(name)]
    if names and file.suffix != ".md":  # read closer only then: to parse all files takes seconds
        names = NAME.findall("\n".join(prose(text) if file.suffix in {".py", ".pyi"} else re.findall("//.*", text)))
    return names


def prose(text):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    yield from (ast.get_docstring(node, clean=False) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    yield from re.findall(r"#.*", text)
