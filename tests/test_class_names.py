"""A class name stands for one thing in all four packages."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")


def test_no_class_has_the_name_of_another_one():
    files = (file for package in PACKAGES for file in (Path(__file__).parents[1] / package).rglob("*.py"))
    defined = Counter(name for file in files for name in re.findall(r"^class (\w+)\b", file.read_text("utf-8"), re.MULTILINE))
    doubled = {name for name, times in defined.items() if times > 1}
    assert not doubled, "another class has this name: choose one that says what this one is"


def test_another_name_of_a_class_stands_in_a_line_of_its_own():
    # Of `Part, Verdict = ClaimPart, ClaimVerdict` mypy makes two variables, which are no types in a user's annotations.
    paired = [
        f"{file}:{line.lineno}"
        for package in PACKAGES
        for file in (Path(__file__).parents[1] / package).rglob("*.py")
        if "class " in (text := file.read_text("utf-8"))
        for tree in [ast.parse(text)]
        for classes in [{each.name for each in tree.body if isinstance(each, ast.ClassDef)}]
        for line in tree.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple) and isinstance(line.targets[0], ast.Tuple)
        if any(isinstance(value, ast.Name) and value.id in classes for value in line.value.elts)
    ]
    assert not paired
