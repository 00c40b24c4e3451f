"""What conftest.py does for all tests."""

import math
import os
import subprocess
import sys
from collections import Counter, OrderedDict
from itertools import combinations, product
from types import SimpleNamespace

import processor_time
import pytest
import torch
from covering import covering, pytest_collection_modifyitems

import ctrnn
from discretize import DiscreteRNN
from discretize.kernels import registry
from discretize.kernels.record import stored


class Own(ctrnn.VectorField):
    """Of this test alone."""

    def flow(self, projected, h):
        return torch.sin(projected) - 3 * h


def recordings(monkeypatch, calls):
    """How many programs are recorded where each call is like that of a process of its own."""
    found, record = [], stored.program_of
    monkeypatch.setattr(stored, "program_of", lambda *given: found.append(given) or record(*given))
    for _ in range(calls):
        monkeypatch.setattr(registry, "_made", OrderedDict())
        rnn = DiscreteRNN(Own(2, 2), dt=0.1, fused="always")
        rnn(torch.randn(3, 2, 2))
        assert rnn.stats["engine"] == "compiled", rnn.stats
    return len(found)


@pytest.mark.kernels
def test_the_same_code_is_recorded_once_in_a_run(monkeypatch):
    assert recordings(monkeypatch, calls=3) <= 1


@pytest.mark.kernels
@pytest.mark.records
def test_tests_of_recording_find_no_program_of_another_test(monkeypatch):
    assert recordings(monkeypatch, calls=2) == 2


def test_programs_of_a_run_lie_in_its_own_folder(tmp_path_factory, programs_of_the_run):
    assert programs_of_the_run.parent in (base := tmp_path_factory.getbasetemp(), base.parent)
    assert stored.Cache().folder == programs_of_the_run


class Terminal:
    """What is said at the end of a run."""

    def __init__(self):
        self.lines = []

    def section(self, title):
        self.lines.append(title)

    def line(self, text):
        self.lines.append(text)


def said(tmp_path, spent):
    (tmp_path / "test_it.py").write_text(
        "# long: all numbers\n@mark\ndef test_above(): ...\ndef test_plain(): ...\n"
        "def test_within():\n    ...  # two seconds are the compiler's\n"
    )
    config = SimpleNamespace(rootpath=tmp_path, option=SimpleNamespace(markexpr="not slow"))
    reports = [SimpleNamespace(nodeid=node, user_properties=[(processor_time.PROPERTY, time)]) for node, time in spent.items()]
    terminal = Terminal()
    processor_time.summary(terminal, config, reports)
    return terminal.lines


def test_the_costliest_tests_and_the_sum_of_all_are_told(tmp_path):
    title, *lines = said(tmp_path, {f"test_it.py::test_plain[{k}]": k / 10 for k in range(20)})
    assert "19 s in 20 tests" in title
    assert [line.split() for line in lines] == [[f"{k / 10}", "s", f"test_it.py::test_plain[{k}]"] for k in range(19, 9, -1)]


def test_long_tests_are_told_where_no_comment_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    spent = {f"test_it.py::{name}": 3.5 for name in ("test_above", "test_plain[of more]", "test_within")}
    lines = said(tmp_path, spent | {"test_it.py::test_plain[of less]": 2.9})
    assert [line.split()[-1] for line in lines[6:]] == ["more]"]
    assert "says why" in lines[5]


def test_a_test_is_charged_with_its_processes(request):
    before = request.node.stash[processor_time._before]
    subprocess.run([sys.executable, "-S", "-c", "sum(range(3_000_000))"], check=True)
    of_processes = os.times().children_user
    report = SimpleNamespace(when="teardown", user_properties=[])
    hook = processor_time.pytest_runtest_makereport(request.node, None)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    ((name, found),) = report.user_properties
    assert name == processor_time.PROPERTY
    assert 0.02 < found <= processor_time.seconds() - before
    assert of_processes > 0


PRODUCT = [*product(range(4), "abc", (False, True))]


def test_a_default_run_shows_each_pair_of_values_of_a_product():
    kept = [PRODUCT[k] for k in covering(PRODUCT)]
    for places in combinations(range(3), 2):
        assert len({tuple(case[k] for k in places) for case in kept}) == math.prod((4, 3, 2)[k] for k in places)
    assert len(kept) == 12


@pytest.mark.parametrize(
    "cases", [[*product(range(4), "ab")], [*zip(range(9))], [("a", 0, 0), ("b", 1, 1), ("c", 2, 2)]], ids=len
)
def test_of_two_parameters_and_of_cases_that_are_no_product_it_shows_all(cases):
    assert covering(cases) == {*range(len(cases))}


def test_a_run_of_each_value_shows_each_and_each_as_often_as_others():
    kept = [PRODUCT[k] for k in covering(PRODUCT, together=1)]
    assert [len({case[k] for case in kept}) for k in range(3)] == [4, 3, 2]
    assert len(kept) == 4
    assert Counter(flag for *_, flag in kept) == {False: 2, True: 2}


class Case:
    """A test of a product, as pytest collects it."""

    parent, originalname = "a file", "test_it"

    def __init__(self, values, marks=(), **of_its_test):
        self.callspec, self.added, self.of_its_test = SimpleNamespace(_idlist=values, marks=marks), [], of_its_test
        self.add_marker = self.added.append

    def get_closest_marker(self, name):
        return SimpleNamespace(args=self.of_its_test[name]) if name in self.of_its_test else None


@pytest.mark.parametrize(
    ("markexpr", "word", "marked", "left"),
    [
        ("not slow", "tests", {}, 12),
        ("slow", "tests", {}, 12),  # which runs the others
        ("not slow", "tests/it.py::test_it", {}, 24),
        ("slow or not slow", "tests", {}, 24),
        ("not slow", "tests", {"marks": (1,)}, 24),
        ("not slow", "tests", {"each_value": ()}, 4),
        ("slow", "tests", {"each_value": ()}, 4),
        ("not slow", "tests", {"by_default": (5,)}, 5),
        ("slow", "tests", {"by_default": (5,)}, 5),
        ("not slow", "tests", {"by_default": (30,)}, 24),
        ("not slow", "tests", {"by_default": (5,), "slow": ()}, 24),
    ],
)
def test_the_other_cases_are_slow_but_where_they_are_asked_for(markexpr, word, marked, left):
    config = SimpleNamespace(option=SimpleNamespace(markexpr=markexpr), args=[word])
    cases = [Case(values, **marked) for values in PRODUCT]
    pytest_collection_modifyitems(config, cases)
    assert [case.added for case in cases if case.added] == [["slow"]] * (24 - left)
