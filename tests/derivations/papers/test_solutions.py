r"""Paths of a paper that solve equations where the time, or the path, has an interval or a sign. Right by putting in by hand."""

import pytest

from derivations.claim import decided
from derivations.papers.paper import read_paper

PAPER = """---
{letters}
solves: eq:path is eq:ode{start_label}
---
$$ {ode} \\label{{eq:ode}} $$
{start}
$$ {path} \\label{{eq:path}} $$
"""
HOLDS, CONDITION, FAILS, UNDECIDED = "holds", "holds under the stated assumptions", "does not hold as printed", "undecided"
OPEN, CLOSED = "t: real in (0, 1)", "t: real in [0, 1]"
B = "B, x: function of t\nC: real in (0, 1/2)"


def claim_of(letters, ode, path, start=None):
    start, label = (f"$$ {start} \\label{{eq:start}} $$", ", eq:start") if start else ("", "")
    text = PAPER.format(letters=letters, ode=ode, path=path, start=start, start_label=label)
    return decided(next(entry for entry in read_paper(text, "paper", False).entries if entry.label == "eq:path"))


@pytest.mark.by_default(6)
@pytest.mark.parametrize("time", [OPEN, CLOSED, "t: real in (-oo, 2)"])
@pytest.mark.parametrize(
    ("ode", "path", "start", "verdict"),
    [
        (r"\frac{dB}{dt} = -B", r"B(t) = C e^{-t}", None, HOLDS),
        (r"\frac{dB}{dt} = -B", r"B(t) = C e^{-t}", "B(0) = C", HOLDS),
        (r"\frac{dB}{dt} = -B", r"B(t) = C e^{-t}", "B(0) = 2 C", FAILS),
        (r"\frac{dB}{dt} = -B", r"B(t) = C e^{-2 t}", None, FAILS),
        (r"\frac{d^2 B}{dt^2} = -C^2 B", r"B(t) = \cos(C t)", None, HOLDS),
        (r"\frac{d^2 B}{dt^2} = -C B", r"B(t) = \cos(C t)", None, FAILS),
        (r"\frac{dB}{dt} = \frac{dx}{dt} - B + x", r"B(t) = x(t) + C e^{-t}", None, HOLDS),
        (r"\frac{dB}{dt} = \frac{dx}{dt} + B + x", r"B(t) = x(t) + C e^{-t}", None, FAILS),
        (r"\frac{dB}{dt} = x(t)", r"B(t) = C + \int_0^t x(s) ds", "B(0) = C", HOLDS),
        (r"\frac{dB}{dt} = 2 x(t)", r"B(t) = C + \int_0^t x(s) ds", None, FAILS),
    ],
)
def test_a_path_solves_its_equation_on_an_interval_as_it_does_everywhere(time, ode, path, start, verdict):
    assert claim_of(f"{time}\n{B}", ode, path, start).verdict == verdict


@pytest.mark.by_default(5)
@pytest.mark.parametrize(
    ("time", "ode", "path", "verdict"),
    [
        # Right within the interval, and wrong outside of it: |t - 3| falls as long as t < 3.
        (OPEN, r"\frac{dB}{dt} = -1", r"B(t) = |t - 3|", HOLDS),
        ("t: real", r"\frac{dB}{dt} = -1", r"B(t) = |t - 3|", FAILS),
        ("t: real in (2, 4)", r"\frac{dB}{dt} = -1", r"B(t) = |t - 3|", FAILS),
        (OPEN, r"\frac{dB}{dt} = 1", r"B(t) = |t|", HOLDS),
        # Right outside of the interval alone.
        (OPEN, r"\frac{dB}{dt} = -1", r"B(t) = |t|", FAILS),
        (OPEN, r"\frac{dB}{dt} = 1", r"B(t) = |t - 1|", FAILS),
        # With a corner, or a pole, within.
        (OPEN, r"\frac{dB}{dt} = 1", r"B(t) = |t - 1/2|", FAILS),
        (OPEN, r"\frac{dB}{dt} = -B^2", r"B(t) = \frac{1}{t - 1/2}", CONDITION),
        (OPEN, r"\frac{dB}{dt} = B^2", r"B(t) = \frac{1}{C - t}", CONDITION),
        (OPEN, r"\frac{dB}{dt} = B^2", r"B(t) = \frac{1}{t - C}", FAILS),
        # At the end of the interval or not.
        (OPEN, r"\frac{dB}{dt} = \frac{1}{2 B}", r"B(t) = \sqrt{t}", HOLDS),
        (CLOSED, r"\frac{dB}{dt} = \frac{1}{2 B}", r"B(t) = \sqrt{t}", CONDITION),
        (CLOSED, r"\frac{dB}{dt} = 1", r"B(t) = |t|", CONDITION),
        (OPEN, r"\frac{dB}{dt} = 1 + B^2", r"B(t) = \tan(t + C)", CONDITION),
        (OPEN, r"\frac{dB}{dt} = 1 + B^2", r"B(t) = \tanh(t + C)", FAILS),
        # Of another time nothing is known.
        (OPEN, r"\frac{dB}{dt} = B(t - 1)", r"B(t) = e^t", UNDECIDED),
        (OPEN, r"\frac{dB}{dt} = B(1/2)", r"B(t) = t/2", UNDECIDED),
    ],
)
def test_what_a_path_does_outside_of_the_interval_is_not_asked(time, ode, path, verdict):
    found = claim_of(f"{time}\n{B}", ode, path)
    assert found.verdict == verdict
    if verdict == FAILS and time == OPEN:
        (t,) = [value for letter, value in found.counterexample.items() if str(letter) == "t"]
        assert 0 < t < 1


@pytest.mark.by_default(5)
@pytest.mark.parametrize("time", ["t: positive", OPEN])
@pytest.mark.parametrize(
    ("function", "path", "verdict"),
    [
        ("positive function of t", "e^{-t}", HOLDS),
        ("positive function of t", "-e^{-t}", FAILS),
        ("negative function of t", "-e^{-t}", HOLDS),
        ("nonnegative function of t", "-e^{-t}", FAILS),
        ("nonpositive function of t", "-e^{-t}", HOLDS),
        ("function of t in (0, 1)", "e^{-t}/4", HOLDS),
        ("function of t in (0, oo)", "e^{-t}/4", HOLDS),
        ("function of t in (0, 1)", "3 e^{-t}", FAILS),
        ("function of t in [-1, 0)", "e^{-t}/4", FAILS),
        ("nonzero function of t", "e^{-t}", UNDECIDED),
    ],
)
def test_a_path_is_within_what_is_declared_of_its_function(time, function, path, verdict):
    assert claim_of(f"{time}\nh: {function}", r"\frac{dh}{dt} = -h", f"h(t) = {path}").verdict == verdict


def test_a_condition_in_the_letter_of_an_interval_says_what_it_stands_for():
    found = claim_of(f"{OPEN}\n{B}", r"\frac{dB}{dt} = B^2", r"B(t) = \frac{1}{C - t}")
    assert "p(t)" in found.defined_on[0]
    assert "t = p(t)/(p(t) + 1)" in found.evidence
