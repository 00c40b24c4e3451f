r"""Tests adaptive steps of fields with noise, along one Brownian path.

geometric   dh = -h dt + s h dW          h(t) = e^(-(1 + s^2/2) t + s W(t)) h0, without s^2/2 in Stratonovich's calculus
well        dh = (h - h^3) dt + s dW     against 2^9 steps of strong order 1.5 on the same path
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, SolverError, SolverWarning, StepDoubling, integrate
from discretize.solvers.control import Round, StepPlace
from discretize.solvers.doubling import FINEST, DyadicControl, PathDoubling

TWICE: dict[str, Any] = {"dtype": torch.float64}
SEED, BATCH = 5, 50
END = torch.tensor([0.0, 1.0], **TWICE)


class Geometric(ctrnn.VectorField):
    sigma = 0.8

    def __init__(self) -> None:
        super().__init__(0, 1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -h

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.sigma * h


class Well(ctrnn.VectorField):
    """Noise does not depend on the state; the input, if there is one, makes drift and noise stronger."""

    def __init__(self, inputs: int = 0) -> None:
        super().__init__(inputs, 1)
        self.sigma = torch.nn.Parameter(torch.tensor(0.5, **TWICE))

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return h - h**3 - projected.sum(-1, keepdim=True) * torch.sin(h)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return (self.sigma + projected.sum(-1, keepdim=True) / 30).expand_as(h)


def solved(field: ctrnn.VectorField, method: Any, tolerance: float, ts: Tensor = END, **settings: Any) -> discretize.Trajectory:
    return integrate(
        field, None, torch.ones(BATCH, 1, **TWICE), ts, method=method, seed=SEED, rtol=tolerance, atol=tolerance, **settings
    )


@functools.cache
@torch.no_grad()
def in_fine_steps() -> Tensor:
    """Of the well at 0, 0.3 and 1."""
    ts = torch.tensor([0.0, 0.3, 1.0], **TWICE)
    start = torch.ones(BATCH, 1, **TWICE)
    return integrate(Well(), None, start, ts, method=discretize.SRA1(), seed=SEED, max_step=2.0**-8).hs


def root_mean_square(x: Tensor) -> float:
    return float(x.detach().square().mean().sqrt())


@pytest.mark.parametrize("step", [discretize.Milstein(), discretize.StratonovichHeun()])
def test_states_come_to_the_paths_solution_as_tolerances_fall(step: discretize.StochasticStep):
    w = discretize.BrownianPath(SEED, END, 1, BATCH)(END)[1]
    exact = torch.exp(Geometric.sigma * w - 1 - (Geometric.sigma**2 / 2 if step.calculus == "Ito" else 0))
    errors = [root_mean_square(solved(Geometric(), StepDoubling(step), tol).hs[-1] - exact) for tol in (0.1, 0.03, 0.01)]
    assert all(error < 3 * tol for error, tol in zip(errors, (0.1, 0.03, 0.01), strict=True))
    assert errors[2] < errors[0] / 4  # tolerances fall by 10


@pytest.mark.parametrize("step", [discretize.SRA1(), discretize.EulerMaruyama(), discretize.ExponentialEulerMaruyama()])
@torch.no_grad()
def test_any_step_will_do_where_noise_does_not_depend_on_the_state(step: discretize.StochasticStep):
    reference = in_fine_steps()[2]
    errors = [root_mean_square(solved(Well(), StepDoubling(step), tol).hs[-1] - reference) for tol in (0.1, 0.02)]
    assert errors[0] < 0.2
    assert errors[1] < 0.04


def test_noise_that_depends_on_the_state_needs_a_step_that_takes_it_into_account():
    with pytest.raises(ValueError, match=r"StepDoubling.*strong order 0.5.* come to another equation.*Milstein"):
        solved(Geometric(), StepDoubling(discretize.EulerMaruyama()), 0.1)
    with pytest.raises(ValueError, match="depends on h"):
        ContinuousRNN(Geometric(), method=StepDoubling(discretize.ExponentialEulerMaruyama()))


def test_bounds_hold_and_states_between_are_on_the_path():
    method = StepDoubling(discretize.SRA1())
    bounded = solved(Well(), method, 0.5, max_step=0.1, first_step=0.01)
    assert bounded.stats["num_accepted_steps"] >= 16  # dyadic parts of at most 0.1
    between = solved(Well(), method, 0.01)(torch.tensor([0.3], **TWICE))
    assert root_mean_square(between[0] - in_fine_steps()[1]) < 0.02


def test_a_solve_that_takes_too_many_or_too_short_steps_says_so():
    method = StepDoubling(discretize.SRA1())
    with pytest.raises(SolverError, match="3 steps were not enough"):
        solved(Well(), method, 0.01, max_num_steps=3)
    with pytest.warns(SolverWarning, match="accepted at min_step=0.25"):
        solved(Well(), method, 1e-4, min_step=0.25)
    with pytest.raises(SolverError, match="no step down to"):
        solved(_Rough(), method, 1e-6, max_num_steps=100)


@pytest.mark.slow
def test_else_the_limit_is_of_another_equation(monkeypatch: pytest.MonkeyPatch):
    # Why they are refused: the mean of a martingale moves away from 1, the more the finer the tolerance.
    monkeypatch.setattr(StepDoubling, "check_noise", lambda self, field: None)
    monkeypatch.setattr(Geometric, "flow", lambda self, projected, h: 0 * h)
    ts, start = torch.tensor([0.0, 0.25], **TWICE), torch.ones(1_000, 1, **TWICE)
    w = discretize.BrownianPath(SEED, ts, 1, 1_000)(ts)[1]

    def bias(step: discretize.StochasticStep, tolerance: float) -> tuple[float, float]:
        found = integrate(
            Geometric(),
            None,
            start,
            ts,
            method=StepDoubling(step),
            seed=SEED,
            rtol=tolerance,
            atol=tolerance / 100,
            first_step=0.25,
        )
        relative = found.hs[-1] / torch.exp(0.8 * w - 0.08) - 1
        return float(relative.mean()), float(relative.std() / 1_000**0.5)

    far, deviation = bias(discretize.EulerMaruyama(), 0.02)
    near, _ = bias(discretize.Milstein(), 0.02)
    assert far > 0.02 + 5 * deviation
    assert abs(near) < 0.02


def test_a_burst_takes_short_steps_alone():
    field, xs, edges = Well(1), torch.zeros(3, 10, 1, **TWICE), torch.arange(4.0, **TWICE) / 2
    xs[1] = 60.0
    path, start = ctrnn.HeldPath(xs, edges), torch.zeros(10, 1, **TWICE)

    def run(**settings: Any) -> discretize.Trajectory:
        return integrate(field, path, start, edges, seed=SEED, **settings)

    reference = run(method=discretize.SRA1(), max_step=2.0**-8)
    chosen = run(method=StepDoubling(discretize.SRA1()), rtol=0.0, atol=0.1)
    steps = int(chosen.stats["num_steps"])
    equal = run(method=discretize.SRA1(), max_step=1.5 / steps)
    worst, worst_of_equal = (float((each.hs - reference.hs).detach().abs().max()) for each in (chosen, equal))
    assert worst < worst_of_equal / 4
    assert chosen.stats["smallest_step"] <= 2.0**-7
    assert chosen.stats["num_accepted_steps"] + chosen.stats["num_rejected_steps"] == steps
    assert chosen.stats["nfe"] % 6 == 0  # three steps of two evaluations, each try


def test_a_sample_takes_the_steps_that_it_takes_alone():
    keys, start = discretize.noise_keys(SEED, 6), torch.linspace(-2, 2, 6, **TWICE)[:, None]

    def run(rows: list[int]) -> discretize.Trajectory:
        method = StepDoubling(discretize.SRA1())
        return integrate(Well(), None, start[rows], END, method=method, seed=keys[rows], rtol=0.01, atol=0.01)

    whole, other = run(list(range(6))), run([4, 1])
    assert_close(other.hs, whole.hs[:, [4, 1]], rtol=0, atol=1e-13)
    assert other.stats["steps_of_samples"] == [whole.stats["steps_of_samples"][k] for k in (4, 1)]


def test_samples_that_have_landed_leave_the_paths_of_the_others_alone():
    class Wide(Well):
        """So many units that it would pay to go on without the samples that have landed."""

        def __init__(self) -> None:
            super().__init__()
            self.hidden_size = self.state_size = 32

    start, keys, ts = torch.linspace(0.1, 4, 64, **TWICE)[:, None].expand(64, 32), torch.arange(64), END[:, None].expand(2, 64)

    def solved_of(rows: slice) -> discretize.Trajectory:
        how: dict[str, Any] = {"method": StepDoubling(discretize.SRA1()), "rtol": 0.01, "atol": 0.01}
        return integrate(Wide(), None, start[rows], ts[:, rows].contiguous(), seed=keys[rows], **how)

    whole = solved_of(slice(None))
    assert len(set(whole.stats["steps_of_samples"])) > 3
    for row in (0, 40):
        assert_close(solved_of(slice(row, row + 1)).hs[-1, 0], whole.hs[-1, row], rtol=0, atol=1e-12)


def test_a_dyadic_step_is_cut_and_joined_by_its_error_and_its_place():
    path = discretize.BrownianPath(torch.arange(5), END, 1, 5)
    control = DyadicControl(PathDoubling(discretize.SRA1(), path), 0.1, 0.1, 100)
    finest = 0.5**FINEST
    step = np.array([1 / 8, 1 / 8, 1 / 64, 1 / 64, finest])
    dt = np.array([1 / 64, 1 / 64, 1 / 64, 2 * finest, finest])  # the first two are cut short by their places
    held_back = np.array([False, True, False, False, False])
    error, ones = np.array([0.0, 0.0, 0.0, 1e9, 1e9]), np.ones(5)
    round = Round(control, StepPlace(np.zeros(5), step, held_back), ones, ones > 0, dt, dt)
    following = control.following(error, round, error <= 1)
    # The proposal before holds; after a rejection it does not grow; it doubles; it is cut to the finest part; there is none.
    assert following[:4].tolist() == [1 / 8, 1 / 64, 1 / 32, finest]
    assert following[4] < control.shortest == finest


@pytest.mark.parametrize(
    "call",
    [
        pytest.param({}, marks=pytest.mark.slow),  # which adds nothing to the others but that there is nothing else
        {"ts": torch.rand(5, 3, generator=torch.Generator().manual_seed(1), **TWICE).cumsum(0)},
        {"lengths": torch.tensor([4, 1, 3])},
        {"reset": torch.eye(4, 3, dtype=torch.bool)},
    ],
    ids=["", "ts", "lengths", "reset"],
)
@torch.no_grad()
def test_modules_and_times_of_each_sequence_read_the_same_path(call: dict[str, Tensor]):
    field, xs = Well(1), torch.randn(4, 3, 1, generator=torch.Generator().manual_seed(0), **TWICE)
    rnn = ContinuousRNN(field, method=StepDoubling(discretize.SRA1()), rtol=3e-3, atol=3e-3)
    expected, _ = ContinuousRNN(field, method=discretize.SRA1(), max_step=2.0**-5)(xs, seed=SEED, **call)
    found, _ = rnn(xs, seed=SEED, **call)
    assert root_mean_square(found - expected) < 6e-3
    assert float(found.std()) > 0.1


def test_an_input_that_reads_one_time_is_followed_by_all_samples_together():
    field, path = Well(1), ctrnn.FunctionPath(lambda t: torch.sin(9 * t).reshape(1, 1).expand(BATCH, 1), (0.0, 1.0), 1)
    field.sigma.data.fill_(0.01)  # so that the input alone keeps steps short

    def run(**settings: Any) -> discretize.Trajectory:
        return integrate(field, path, torch.ones(BATCH, 1, **TWICE), END, seed=SEED, **settings)

    chosen = run(method=StepDoubling(discretize.EulerMaruyama()), rtol=0.02, atol=0.02)
    assert len(chosen.stats["steps_of_samples"]) == 1
    assert root_mean_square(chosen.hs[-1] - run(method=discretize.EulerMaruyama(), max_step=2.0**-9).hs[-1]) < 0.008


@pytest.mark.parametrize("gradient", [None, discretize.Checkpointed(1e3)])
def test_gradients_are_those_of_the_steps_taken(gradient: discretize.Checkpointed | None):
    field = Well()

    def run() -> Tensor:
        return solved(field, StepDoubling(discretize.SRA1()), 0.05, gradient=gradient).hs[-1].sin().sum()

    (found,) = torch.autograd.grad(run(), [field.sigma])
    sums = []
    for by in (1e-5, -1e-5):
        with torch.no_grad():
            field.sigma += by
            sums.append(float(run()))
            field.sigma -= by
    assert_close(float(found), (sums[0] - sums[1]) / 2e-5, rtol=1e-5, atol=0)


class _Rough(Well):
    """A drift that swings faster than any step."""

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return 1e9 * torch.sin(1e9 * h)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            lambda: ContinuousRNN(Well(1), method=StepDoubling(discretize.Euler())),
            "its steps follow a slope",
        ),
        (lambda: StepDoubling(discretize.Zoneout(discretize.Euler(), 0.1)), "must have an order"),
        (lambda: ContinuousRNN(ctrnn.plain(1, 1), method=StepDoubling(discretize.SRA1())), "there is no noise to draw"),
        (lambda: ContinuousRNN(Well(1), method=StepDoubling), "must be an instance"),
        (
            lambda: solved(Well(), StepDoubling(discretize.SRA1()), 0.1, gradient=discretize.Adjoint()),
            "its adjoint is that of equations without noise",
        ),
        (
            lambda: solved(Well(), StepDoubling(discretize.SRA1()), 0.1, END.clone().requires_grad_()),
            "no gradients to times; take steps of one length",
        ),
        (lambda: solved(Well(), StepDoubling(discretize.SRA1()), 0.1, on_failure="keep"), "on_failure"),
        (
            lambda: solved(Well(), StepDoubling(discretize.SRA1()), 0.1, events=discretize.Event(lambda t, h: h[:, 0])),
            "smooth solutions",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(run: Callable[[], object], words: str):
    with pytest.raises((TypeError, ValueError), match=words):
        run()


class Root(ctrnn.VectorField):
    """dh = -k e^x sqrt(h) h dt + h dW / 20: positive, and nan where a step tries what is not."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.k = torch.nn.Parameter(torch.tensor(1.0, **TWICE))

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -self.k * projected.exp() * h.sqrt() * h

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return h / 20


def test_a_try_that_left_the_domain_leaves_no_nan_in_the_gradient():
    field, path = Root(), ctrnn.HeldPath(torch.tensor([[[0.0], [4.0]]], **TWICE), END)  # the second is 50 times as fast
    how: dict[str, Any] = {"method": StepDoubling(discretize.Milstein()), "seed": SEED, "rtol": 0.1, "atol": 0.1}

    def run() -> Tensor:
        return integrate(field, path, torch.ones(2, 1, **TWICE), END, first_step=0.5, **how).hs[-1].sum()

    (found,) = torch.autograd.grad(run(), [field.k])
    with torch.no_grad():
        field.k += 1e-5
        above = run()
        field.k -= 2e-5
        below = run()
    assert_close(found, (above - below) / 2e-5, rtol=1e-5, atol=0)


class Integrated(ctrnn.VectorField):
    """dh_1 = h_2 dt, dh_2 = dW: SRA1 reads the integral of W, and its steps are exact."""

    def __init__(self) -> None:
        super().__init__(0, 2)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.stack([h[:, 1], 0 * h[:, 1]], 1)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.tensor([0.0, 1.0], dtype=h.dtype).expand_as(h)


def test_a_step_that_is_exact_along_its_path_is_as_its_halves():
    start = torch.zeros(5, 2, **TWICE)
    how = {"method": StepDoubling(discretize.SRA1()), "seed": SEED, "rtol": 1e-9, "atol": 1e-9}
    assert integrate(Integrated(), None, start, END, **how).stats["num_rejected_steps"] == 0
