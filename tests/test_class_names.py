"""A class name stands for one thing in all four packages."""

import re
from collections import Counter
from pathlib import Path

PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")


def test_no_class_has_the_name_of_another_one():
    files = (file for package in PACKAGES for file in (Path(__file__).parents[1] / package).rglob("*.py"))
    defined = Counter(name for file in files for name in re.findall(r"^class (\w+)\b", file.read_text("utf-8"), re.MULTILINE))
    doubled = {name for name, times in defined.items() if times > 1}
    assert not doubled, "another class has this name: choose one that says what this one is"
