"""A class name stands for one thing in all four packages; those that still stand for several are listed, and none is added."""

import re
from collections import Counter
from pathlib import Path

PACKAGES = ("ctrnn", "discretize", "derivations", "experiments")
SEVERAL = """
Part Verdict
"""


def test_no_class_has_the_name_of_another_one():
    files = (file for package in PACKAGES for file in (Path(__file__).parents[1] / package).rglob("*.py"))
    defined = Counter(name for file in files for name in re.findall(r"^class (\w+)\b", file.read_text("utf-8"), re.MULTILINE))
    known, doubled = set(SEVERAL.split()), {name for name, times in defined.items() if times > 1}
    assert not doubled - known, "another class has this name: choose one that says what this one is"
    assert not known - doubled, "these names stand for one class now: take them out of SEVERAL"
