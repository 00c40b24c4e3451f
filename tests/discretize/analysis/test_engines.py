"""Engines compared on a user's field and data: which ran, how far apart they are, and an engine that is off is found."""

import math

import pytest
import torch
from problems import NAMED_FIELDS, PUBLISHED, thinned

import ctrnn
import discretize
from discretize.analysis import engines
from discretize.kernels.eligibility import takes_triton

XS = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


FIELD = ctrnn.gru(3, 4, dtype=torch.float64)  # one, so that its kernels are built once


def ran(report):
    return {(each.call, each.engine) for each in report.results if each.why is None}


@pytest.mark.kernels
def test_every_engine_runs_and_agrees():
    report = discretize.verify_engines(FIELD, XS, 0.1 * torch.ones(2, 4, dtype=torch.float64), dt=0.7)
    sequence = {("sequence", engine) for engine in ("steps", "compiled")}
    given = {("sequence", "triton"), ("solve", "triton")} if takes_triton(XS.device) else set()
    solve = {("solve", engine) for engine in ("steps", "compiled", "torchdiffeq")}
    assert ran(report) == sequence | given | solve, str(report)
    assert report.agree
    engines_alone = [each for each in report.results if each.engine != "torchdiffeq"]
    assert all(each.states <= 1e-12 and each.gradients <= 1e-10 for each in engines_alone if each.why is None)
    assert "All agree." in str(report)


@pytest.mark.kernels
def test_an_engine_that_does_not_run_says_why():
    report = discretize.verify_engines(FIELD, XS, step=discretize.ExponentialRosenbrock())
    assert {("sequence", "steps"), ("solve", "steps")} <= ran(report)
    why = {(each.call, each.engine): each.why for each in report.results}
    assert "Jacobian as a matrix" in why["sequence", "compiled"]
    assert "Jacobian as a matrix" in str(report)
    assert report.agree


def test_steps_whose_states_grow_beyond_all_bounds_are_told():
    steps = engines.EngineResult("sequence", "steps", 0.0, 0.0, 1.0, largest=1e9)
    grown = [steps, engines.EngineResult("sequence", "compiled", 1.0, 1.0, 1.0)]
    report = str(engines.EngineReport(tuple(grown), 1e-9))
    assert "the states of the sequence reach 1e+09 by steps too, and rounding grows with them; take a smaller `dt`." in report


def test_other_dtypes_and_data_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="`xs` must be float32 or float64"):
        discretize.verify_engines(ctrnn.gated(3, 4, dtype=torch.bfloat16), XS.bfloat16())
    with pytest.raises(ValueError, match="`xs`"):
        discretize.verify_engines(ctrnn.gated(2, 4, dtype=torch.float64), XS)


def test_a_field_that_torchdiffeq_cannot_solve_says_why(monkeypatch):
    monkeypatch.setattr(engines, "JUDGE_STEPS", 50)
    report, judge = judged(ctrnn.leaky(3, 4, alpha=1e4, dtype=torch.float64), XS[:1], method="rodas5p")
    assert "more than `max_num_steps`=50 steps" in judge.why
    assert report.agree


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
@pytest.mark.parametrize("of", ["samples", "start"])
def test_a_wrong_gradient_alone_is_found(monkeypatch, of):
    right = engines.run_written

    def wrong(problem, fused):
        name = {"samples": "xs", "start": "h0"}[of]
        given = getattr(problem, name)
        return right(problem._replace(**{name: given + 1e-3 * (given - given.detach())}), fused)

    monkeypatch.setattr(engines, "run_written", wrong)
    report = discretize.verify_engines(FIELD, XS)
    (compiled,) = [each for each in report.results if (each.call, each.engine) == ("sequence", "compiled")]
    assert compiled.states <= 1e-12
    assert not report.agree
    assert not math.isnan(compiled.seconds)
    monkeypatch.undo()


def judged(field, xs=XS, **how):
    report = discretize.verify_engines(field, xs, **how)
    return report, next(each for each in report.results if each.engine == "torchdiffeq")


@pytest.mark.parametrize("name", thinned([*NAMED_FIELDS, *PUBLISHED], ("gated power 2", "lem")))
def test_torchdiffeq_judges_the_solves_of_every_named_field(name):
    report, judge = judged((NAMED_FIELDS | PUBLISHED)[name](3, 4, dtype=torch.float64))
    assert judge.why is None
    assert judge.gradients < engines.JUDGED, str(report)  # not `agree`: Euler steps of some cells grow beyond all bounds
    assert 1e-10 < judge.states < 1e-3  # steps of its own, so not to the bit


def test_a_solve_that_is_off_is_found_by_torchdiffeq_alone(monkeypatch):
    right = engines.integrate

    def wrong(field, path, *call, **how):
        if not how["method"].startswith("torchdiffeq"):
            path = ctrnn.HeldPath(1.2 * path.xs, path.knots)
        return right(field, path, *call, **how)

    monkeypatch.setattr(engines, "integrate", wrong)
    report, judge = judged(FIELD)
    assert judge.states > 0.02
    assert not report.agree
    assert "torchdiffeq does not agree, the engines do" in str(report)
