"""Engines compared on a user's field and data: which ran, how far apart they are, and an engine that is off is found."""

import math

import pytest
import torch

import ctrnn
import discretize
from discretize.analysis import engines
from discretize.kernels.eligibility import takes_triton

XS = torch.randn(40, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


FIELD = ctrnn.gru(3, 4, dtype=torch.float64)  # one, so that its kernels are built once


def ran(report):
    return {(each.call, each.engine) for each in report.results if each.why is None}


@pytest.mark.kernels
def test_every_engine_runs_and_agrees():
    report = discretize.verify_engines(FIELD, XS, 0.1 * torch.ones(2, 4, dtype=torch.float64))
    sequence = {("sequence", engine) for engine in ("steps", "compiled")}
    given = {("sequence", "triton"), ("solve", "triton")} if takes_triton(XS.device) else set()
    assert ran(report) == sequence | given | {("solve", "steps"), ("solve", "compiled")}, str(report)
    assert report.agree
    assert all(each.states <= 1e-12 and each.gradients <= 1e-10 for each in report.results if each.why is None)
    assert "All agree." in str(report)


@pytest.mark.kernels
def test_what_does_not_run_says_why():
    report = discretize.verify_engines(FIELD, XS, step=discretize.Taylor2())
    assert {("sequence", "steps"), ("solve", "steps")} <= ran(report)
    why = {(each.call, each.engine): each.why for each in report.results}
    assert "takes derivatives of the field" in why["sequence", "compiled"]
    assert "takes derivatives of the field" in str(report)
    assert report.agree


def test_steps_whose_states_grow_beyond_all_bounds_are_told():
    steps = engines.EngineResult("sequence", "steps", 0.0, 0.0, 1.0, largest=1e9)
    grown = [steps, engines.EngineResult("sequence", "compiled", 1.0, 1.0, 1.0)]
    report = str(engines.EngineReport(tuple(grown), 1e-9))
    assert "the states of the sequence reach 1e+09 by steps too, and rounding grows with them; take a smaller `dt`." in report


@pytest.mark.kernels
def test_an_engine_that_is_off_is_found(monkeypatch):
    right = engines.run_written

    def wrong(*call):
        states, stats = right(*call)
        return states * (1 + 1e-7), stats

    monkeypatch.setattr(engines, "run_written", wrong)
    report = discretize.verify_engines(FIELD, XS)
    (compiled,) = [each for each in report.results if (each.call, each.engine) == ("sequence", "compiled")]
    assert 1e-9 < compiled.states < 1e-6
    assert not report.agree
    assert str(report).endswith("They do not agree.")


@pytest.mark.kernels
def test_a_wrong_gradient_alone_is_found(monkeypatch):
    right = engines.run_written

    def wrong(field, step, xs, *rest):
        return right(field, step, xs + 1e-3 * (xs - xs.detach()), *rest)

    monkeypatch.setattr(engines, "run_written", wrong)
    report = discretize.verify_engines(FIELD, XS)
    (compiled,) = [each for each in report.results if (each.call, each.engine) == ("sequence", "compiled")]
    assert compiled.states <= 1e-12
    assert not report.agree
    assert not math.isnan(compiled.seconds)


def test_other_dtypes_and_data_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="`xs` must be float32 or float64"):
        discretize.verify_engines(ctrnn.gated(3, 4, dtype=torch.bfloat16), XS.bfloat16())
    with pytest.raises(ValueError, match="`xs`"):
        discretize.verify_engines(ctrnn.gated(2, 4, dtype=torch.float64), XS)
