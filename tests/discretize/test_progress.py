"""Bars of long calls, which are shown wherever they are asked for, and change no number."""

import io
import sys
from types import ModuleType

import pytest
import torch
from torch import nn

import ctrnn
import derivations
import discretize
from discretize import progress
from discretize.analysis import Flow, continuation, fixed_points, lyapunov
from discretize.analysis.engines import EngineReport
from discretize.text_report import TextReport

FIELD = ctrnn.plain(1, 2, generator=torch.Generator().manual_seed(0)).double()
HELD = torch.zeros(1, dtype=torch.float64)
STARTS = torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def solved(**how):
    ts = torch.linspace(0, 5, 40, dtype=torch.float64)
    return discretize.integrate(
        FIELD, ctrnn.HeldPath(torch.ones(40, 1, 1, dtype=torch.float64), ts), STARTS[:1], ts, fused=False, **how
    ).hs


def rests(**how):
    return fixed_points(Flow(FIELD, HELD), STARTS, **how).h


def branch(**how):
    pitchfork = Flow(lambda p, h: p * h - h**3)
    return continuation(pitchfork, torch.zeros(1, dtype=torch.float64), -1.0, (-1.0, 1.0), **how).p


def exponents(**how):
    return lyapunov(Flow(FIELD, HELD).stepped("euler"), STARTS, intervals=16, **how).exponents


def proof(**how):
    return torch.tensor(bool(derivations.verify(ctrnn.leaky(1, 1), **how)))


CALLS = {"verify": proof, "integrate": solved, "fixed_points": rests, "continuation": branch, "lyapunov": exponents}


@pytest.mark.parametrize("name", CALLS)
def test_who_asks_for_a_bar_sees_it_where_stderr_is_no_terminal(name, monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(progress, "DELAY", 0)  # shown at once, however short the call
    with_a_bar = CALLS[name](progress=True)
    assert name in written.getvalue()
    length = written.tell()
    assert torch.equal(CALLS[name](), with_a_bar)
    assert written.tell() == length, "who does not ask sees nothing"


@pytest.mark.parametrize("name", CALLS)
def test_progress_is_a_flag(name):
    with pytest.raises((TypeError, ValueError), match="`progress` must be True or False"):
        CALLS[name](progress="yes")


def test_the_bar_counts_every_interval(monkeypatch):
    counted = []

    class Bar:
        def __init__(self, **about):
            self.n, self.total = 0, about["total"]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            counted.append((self.n, self.total))

        def update(self, by):
            self.n += by

    monkeypatch.setitem(sys.modules, "tqdm.auto", ModuleType("tqdm.auto"))
    sys.modules["tqdm.auto"].tqdm = Bar
    exponents(progress=True, transient=4)
    solved(progress=True)
    with progress.progress_bar("steps", True, 9) as show:
        show(4)
        show(7)
    assert counted == [(20, 20), (39, 39), (7, 9)]


def test_results_are_text_in_a_notebook_and_one_line_otherwise():
    model = nn.Sequential(discretize.DiscreteRNN(FIELD))
    xs = torch.ones(6, 2, 1, dtype=torch.float64)
    with discretize.Monitor(model) as monitor:
        model(xs)
    for found in (
        monitor,
        *monitor.records.values(),
        fixed_points(Flow(FIELD, HELD), STARTS),
        discretize.refine(model, xs),
        discretize.breakdown(model, xs),
        discretize.analysis.decay_law(torch.exp(-torch.arange(20.0))),
        EngineReport((), 1e-12),
    ):
        lines = repr(found).splitlines()
        assert len(lines) == 1
        assert lines[0].startswith(f"<{type(found).__name__}: ")
        assert str(found).splitlines()[-1].split("<")[0].split("'")[0].split('"')[0].split("&")[0] in found._repr_html_()


def test_text_of_a_report_is_text_in_html_too():
    class Compared(TextReport):
        def __str__(self):
            return "a < b & c"

    assert Compared()._repr_html_() == '<pre class="ctrnn">a &lt; b &amp; c</pre>'
