"""Tells after a run which tests took the most processor time, that of their processes included, also under pytest-xdist.

Of tests that are not `slow`, those of more than LONG seconds are listed where no comment says why: one in or right above the test
that has the word "long", "seconds" or "minutes". `conftest.py` registers this as a plugin.
"""

import ast
import os
import re
from functools import cache
from pathlib import Path

import pytest

COSTLIEST = 10
LONG = 3.0  # seconds of processor time
WHY = re.compile(r"#.*\b(long|seconds?|minutes?)\b")
PROPERTY = "processor seconds"
_before = pytest.StashKey[float]()


def seconds():
    """Of this process and of those that it has started and that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_before] = seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """The last report of a test says what all of it took, the fixtures that it was the first to ask for included."""
    report = yield
    if report.when == "teardown" and _before in item.stash:
        report.user_properties = [*report.user_properties, (PROPERTY, seconds() - item.stash[_before])]
    return report


def pytest_terminal_summary(terminalreporter, config):
    reports = [
        report for found in terminalreporter.stats.values() for report in found if getattr(report, "when", "") == "teardown"
    ]
    summary(terminalreporter, config, reports)


def summary(terminalreporter, config, reports):
    spent = {report.nodeid: dict(report.user_properties)[PROPERTY] for report in reports}
    if not spent or (len(spent) < COSTLIEST and not os.environ.get("CI")):
        return
    costliest = sorted(spent, key=spent.get, reverse=True)
    terminalreporter.section(f"processor time: {sum(spent.values()):.0f} s in {len(spent)} tests, that of processes included")
    for node in costliest[:COSTLIEST]:
        terminalreporter.line(f"{spent[node]:7.1f} s  {node}")
    unexplained = [node for node in costliest if spent[node] > LONG and not says_why(config.rootpath, node)]
    if unexplained and config.option.markexpr == "not slow":
        terminalreporter.line(f"More than {LONG:g} s, neither slow nor with a comment at the test that says why:")
        for node in unexplained:
            terminalreporter.line(f"{spent[node]:7.1f} s  {node}")


def says_why(root, node):
    file, _, name = node.partition("::")
    return name.rpartition("::")[2].partition("[")[0] in explained(Path(root) / file)


@cache
def explained(file):
    """The tests of a file of which a comment says why they take long: within, or in the line above."""
    if not file.is_file():
        return set()
    text = file.read_text(encoding="utf-8")
    lines, found = text.splitlines(), set()
    for each in ast.walk(ast.parse(text)):
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            if any(map(WHY.search, lines[max(first - 2, 0) : each.end_lineno])):
                found.add(each.name)
    return found
