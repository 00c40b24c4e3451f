r"""Tests methods of a user: pairs by a tableau or by code, and steps that are compared with their halves.

rotation   h' = (h_1, -h_0)                        h(t) = (cos t, -sin t) from (1, 0)
ramp       h' = t - h                              h(t) = t - 1 + 2 e^-t from 1
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Attempt, ContinuousRNN, DiscreteRNN, EmbeddedMethod, EmbeddedRungeKutta, StepDoubling, integrate
from discretize.methods import method_names
from discretize.solvers.control import Round, StepControl, StepPlace
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.segments import chain_of

TWICE: dict[str, Any] = {"dtype": torch.float64}
DOPRI5 = type(EXPLICIT_PAIRS["dopri5"])


class OwnDopri5(EmbeddedRungeKutta):
    """The numbers of dopri5 as a book prints them: all weights, no nodes."""

    order = 5
    a = DOPRI5.a
    b = (*DOPRI5.a[-1], 0)
    e = DOPRI5.e


class Fehlberg(EmbeddedRungeKutta):
    """The fourth order goes on, and its error is the fifth's."""

    order = 4
    a = (
        (1 / 4,),
        (3 / 32, 9 / 32),
        (1932 / 2197, -7200 / 2197, 7296 / 2197),
        (439 / 216, -8, 3680 / 513, -845 / 4104),
        (-8 / 27, 2, -3544 / 2565, 1859 / 4104, -11 / 40),
    )
    b = (25 / 216, 0, 1408 / 2565, 2197 / 4104, -1 / 5, 0)
    e = tuple(x - y for x, y in zip(b, (16 / 135, 0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55), strict=True))


class Coded(EmbeddedMethod):
    """Heun and Euler by code, without a tableau."""

    order = 2
    evaluations = 2

    def attempt(self, slope, tau, dt, h, start):
        first, step = slope(tau, h) if start is None else start, dt.to(h)
        second = slope(tau + dt, h + step * first)
        return Attempt(h + step / 2 * (first + second), step / 2 * (second - first))


OWN = {"tableau": Fehlberg(), "dopri5 again": OwnDopri5(), "code": Coded(), "doubled rk4": StepDoubling("rk4")}
OWN |= {"doubled exponential": StepDoubling("etdrk4"), "doubled implicit": StepDoubling("trapezoid")}
# What an implicit step costs is seen by its order and its tolerance; the rest of it is slow.
OWN_EVERY_DAY = [pytest.param(name, marks=[pytest.mark.slow] * (name == "doubled implicit")) for name in OWN]
FALLS = {"tableau": 5, "dopri5 again": 5, "code": 2, "doubled rk4": 5, "doubled exponential": 5, "doubled implicit": 3}
LOOSE = {"code": 1e-3, "doubled implicit": 1e-3}


def field(seed: int = 0) -> ctrnn.VectorField:
    return ctrnn.gated(1, 4, generator=torch.Generator().manual_seed(seed)).double()


def samples(batch: int = 3, time: int = 6) -> Tensor:
    return torch.randn(time, batch, 1, generator=torch.Generator().manual_seed(1), **TWICE)


def rotation(t: Tensor, h: Tensor) -> Tensor:
    return torch.stack([h[:, 1], -h[:, 0]], 1)


ONE = torch.tensor([[1.0, 0.0]], **TWICE)


@pytest.mark.parametrize("fused", [False, "always"])
def test_the_tableau_of_dopri5_takes_the_steps_of_dopri5(fused: Any):
    runs = {}
    for method in ("dopri5", OwnDopri5()):
        model = ContinuousRNN(field(), method, 1e-6, 1e-8, fused=fused)
        states, _ = model(samples(2, 3))
        gradients = torch.autograd.grad(states.square().sum(), [*model.parameters()])
        runs[str(method)] = states, gradients, model.stats
    (ours, by_ours, stats), (own, by_own, own_stats) = runs.values()
    assert_close(own, ours, rtol=0, atol=1e-14)
    assert_close(by_own, by_ours, rtol=1e-12, atol=1e-14)
    different = {key for key in stats if stats[key] != own_stats[key]} - {"smallest_step", "smallest_step_at"}
    assert different == {"method"}
    assert stats["engine"] == ("steps" if fused is False else "compiled")


@pytest.mark.parametrize("name", OWN)
def test_a_method_of_ones_own_meets_its_tolerance_beside_scipy(name: str):
    # Van der Pol's equation, driven by the time, which exponential and implicit steps hold: there they are of order 1.
    held = name in ("doubled exponential", "doubled implicit")
    tolerance = 1e-3 if held else LOOSE.get(name, 1e-6)

    def swing(t: Any, h: Any) -> Any:
        return np.array([h[1], (1 - h[0] ** 2) * h[1] - h[0] + math.sin(t)])

    def ours(t: Tensor, h: Tensor) -> Tensor:
        return torch.stack([h[:, 1], (1 - h[:, 0] ** 2) * h[:, 1] - h[:, 0] + torch.sin(t[:, 0])], 1)

    ends = [0.0, 0.5, 1.0]
    theirs = solve_ivp(swing, (0.0, 1.0), [1.0, 0.5], t_eval=ends, rtol=1e-11, atol=1e-12).y.T
    solved = integrate(ours, None, torch.tensor([[1.0, 0.5]], **TWICE), ends, method=OWN[name], rtol=tolerance, atol=tolerance)
    assert_close(solved.hs[:, 0], torch.from_numpy(theirs), rtol=0, atol=(20 if held else 3) * tolerance)
    assert solved.stats["num_steps"] > 4


@pytest.mark.parametrize("name", OWN)
def test_steps_fall_with_the_order_of_a_method_of_ones_own(name: str):
    # An error of a step that falls as dt^p: tolerances 2^p times as small take twice the steps.
    method, order, tight = OWN[name], FALLS[name], 1e-2 * LOOSE.get(name, 1e-5)
    assert method.error_order == order
    ends = [0.0, 2.0 if method.order > 2 else 0.2]
    few, many = (
        integrate(rotation, None, ONE, ends, method=method, rtol=t, atol=t).stats["num_accepted_steps"]
        for t in (tight, tight / 2**order)
    )
    assert few > 5
    assert 1.7 < many / few < 2.3


@pytest.mark.parametrize("name", OWN_EVERY_DAY)
def test_states_between_events_and_batches_are_those_of_the_solution(name: str):
    tolerance = LOOSE.get(name, 1e-7)
    starts = torch.tensor([[1.0, 0.0], [2.0, 0.0]], **TWICE)
    down = discretize.Event(lambda t, h: h[:, 0] - 0.5, direction=-1)
    how: dict[str, Any] = {"method": OWN[name], "rtol": tolerance, "atol": tolerance}
    solved = integrate(rotation, None, starts, [0.0, 1.5], events=down, **how)
    exact = torch.tensor([math.acos(0.5), math.acos(0.25)], **TWICE)
    assert_close(solved.events[0].times, exact, rtol=0, atol=10 * tolerance)
    times = torch.tensor([0.3, 0.77, 1.31], **TWICE)
    between = integrate(rotation, None, starts, [0.0, 1.5], **how)
    expected = torch.stack([times.cos(), -times.sin()], 1)[:, None] * torch.tensor([[1.0], [2.0]], **TWICE)
    assert_close(between(times), expected, rtol=0, atol=20 * tolerance)
    alone = integrate(rotation, None, starts[1:], [0.0, 1.5], **how)
    assert_close(between.hs[:, 1:], alone.hs, rtol=0, atol=1e-13)
    assert between.stats["steps_of_samples"][1] == alone.stats["steps_of_samples"][0]


@pytest.mark.parametrize("name", OWN_EVERY_DAY)
def test_gradients_of_a_method_of_ones_own_are_those_of_its_steps(name: str):
    own, x = field(), samples(2, 1)

    def run(h0: Tensor, x: Tensor) -> Tensor:
        return integrate(own, ctrnn.HeldPath(x), h0, [0.0, 1.0], method=OWN[name], rtol=1e-2, atol=1e-2, fused=False).hs[-1]

    starts = torch.zeros(2, 4, **TWICE).requires_grad_()
    assert torch.autograd.gradcheck(run, (starts, x.requires_grad_()), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("gradient", [discretize.Checkpointed(20_000), discretize.Adjoint()])
@pytest.mark.parametrize("name", ["tableau", "dopri5 again", "code", "doubled rk4"])
def test_other_gradients_agree_where_they_are_had(name: str, gradient: Any):
    own, tolerance = field(), 1e-3 if name == "code" else 1e-7

    def found(gradient: Any) -> list[Tensor]:
        model = ContinuousRNN(own, OWN[name], tolerance, tolerance, gradient=gradient, fused=False)
        return [*torch.autograd.grad(model(samples(2, 2))[0].square().sum(), [*own.parameters()])]

    if isinstance(gradient, discretize.Adjoint) and not OWN[name].has_tableau:
        with pytest.raises(ValueError, match="it adds up the stages of an explicit tableau"):
            found(gradient)
        return
    exact = isinstance(gradient, discretize.Checkpointed)
    assert_close(found(gradient), found(None), rtol=1e-9 if exact else 1e-5, atol=1e-12 if exact else 1e-6)


def test_an_input_that_moves_is_read_at_the_stages_of_explicit_steps_and_held_by_others():
    # h' = x(t) - h along x = t; an exponential step holds x over each half, so its error is told as that of order 1.
    line = ctrnn.LinearPath(torch.tensor([0.0, 4.0], **TWICE)[:, None, None], torch.tensor([0.0, 4.0], **TWICE))
    for step, tolerance, allowed in (("rk4", 1e-6, 1), ("heun", 1e-4, 3), ("exponential-euler", 1e-3, 10), ("etdrk4", 1e-3, 10)):
        how: dict[str, Any] = {"method": StepDoubling(step), "rtol": tolerance, "atol": tolerance}
        solved = integrate(_Ramp(), line, torch.ones(1, 1, **TWICE), [0.0, 4.0], **how)
        assert float((solved.hs[-1] - (3 + 2 * math.exp(-4))).abs()) < allowed * tolerance, step


class _Ramp(ctrnn.VectorField):
    def __init__(self) -> None:
        super().__init__(1, 1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected - h

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


def test_a_pair_as_a_step_takes_one_step_of_length_dt():
    own, x = field(), samples(3, 1)
    slope, h = (lambda h: own.flow(own.project(x[0]), h)), torch.zeros(3, 4, **TWICE)
    for method in (Coded(), StepDoubling("heun")):
        once, _ = DiscreteRNN(own, method, dt=0.5)(x)
        if isinstance(method, Coded):
            expected = h + 0.25 * (slope(h) + slope(h + 0.5 * slope(h)))
        else:
            expected = DiscreteRNN(own, "heun", dt=0.5, substeps=2)(x)[0][0]
        assert_close(once[0], expected, rtol=0, atol=1e-15)


@pytest.mark.by_default(12)
@pytest.mark.parametrize("name", [name for name in method_names() if name not in ("symplectic-euler", "splitting")])
def test_a_name_means_the_same_step_in_a_cell_a_sequence_and_a_solve(name: str):
    noisy = isinstance(discretize.methods.checked_method(name), discretize.StochasticStep)
    own = ctrnn.Noisy(field(), ctrnn.Noise(0.1)).double() if noisy else field()
    seed = {"seed": 3} if noisy else {}
    stepped, _ = DiscreteRNN(own, name, substeps=4)(samples(2, 3), **seed)
    if isinstance(discretize.methods.checked_method(name), EmbeddedMethod):
        solved, _ = ContinuousRNN(own, name, 1e-4, 1e-5)(samples(2, 3))
        assert_close(stepped, solved, rtol=0, atol=1e-2 if name == "adaptive_heun" else 1e-3)
    else:
        solved, _ = ContinuousRNN(own, name, max_step=0.25)(samples(2, 3), **seed)
        assert_close(stepped, solved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", ["rk4", "heun3", "dopri5", "rodas5p", "etdrk4", Fehlberg(), StepDoubling("rk4")])
def test_steps_by_name_and_of_ones_own_come_back_from_a_file(step: Any, tmp_path: Any):
    model, known = DiscreteRNN(field(), step), {"Fehlberg": Fehlberg}
    ctrnn.save(tmp_path / "model", model, known=known)
    loaded = ctrnn.load(tmp_path / "model", known=known)
    assert repr(loaded.step) == repr(model.step)
    assert torch.equal(loaded(samples())[0], model(samples())[0])


class Family(EmbeddedRungeKutta):
    """Steps of first order, their second stage at t."""

    order = 1
    e = (1.0, -1.0)

    def __init__(self, t: float) -> None:
        self.a, self.b = ((t,),), (1 - 0.3 / t, 0.3 / t)
        super().__init__()


def test_kernels_of_pairs_of_one_class_tell_their_numbers_apart():
    states = []
    for t in (0.5, 0.8):
        model = DiscreteRNN(field(), Family(t), fused="always")
        states.append(model(samples())[0])
        assert model.stats["engine"] == "compiled"
        assert_close(states[-1], DiscreteRNN(field(), Family(t), fused=False)(samples())[0], rtol=0, atol=1e-14)
    assert float((states[0] - states[1]).detach().abs().max()) > 1e-4


class Halved(OwnDopri5):
    """Its attempt is another one than its tableau's."""

    def attempt(self, slope, tau, dt, h, start):
        return Attempt(h + dt.to(h) / 2 * slope(tau, h), 0 * h)


def test_a_pair_whose_attempt_is_overridden_is_followed_by_every_door():
    own, x = field(), samples(2, 1)
    expected = own.flow(own.project(x[0]), torch.zeros(2, 4, **TWICE)) / 2
    for module in (DiscreteRNN(own, Halved()), ContinuousRNN(own, Halved(), first_step=1.0)):
        assert_close(module(x)[0][0], expected, rtol=0, atol=1e-15)
    compiled = ContinuousRNN(own, Halved(), fused="always", first_step=1.0)
    assert_close(compiled(x)[0][0], expected, rtol=0, atol=1e-15)
    assert compiled.stats["engine"] == "compiled"
    with pytest.raises(ValueError, match=r"Adjoint.*does not go with `method=Halved"):
        ContinuousRNN(own, Halved(), gradient=discretize.Adjoint())


@pytest.mark.parametrize("kind", [OwnDopri5, Fehlberg, Coded])
def test_the_order_of_a_pair_as_a_step_is_its_own(kind: type[EmbeddedMethod]):
    own, x = field(), samples(2, 1)
    with torch.no_grad():
        exact, _ = ContinuousRNN(own, "dopri8", 1e-12, 1e-13)(x)
        large, small = (float((DiscreteRNN(own, kind(), substeps=n)(x)[0] - exact).abs().max()) for n in (4, 8))
    assert math.log2(large / small) == pytest.approx(kind().order, abs=0.6)


def broken(**numbers: Any) -> type[EmbeddedRungeKutta]:
    given = {"order": 2, "a": ((1.0,),), "b": (0.5, 0.5), "e": (-0.5, 0.5)} | numbers
    return type("Mine", (EmbeddedRungeKutta,), {key: value for key, value in given.items() if value is not None})


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"a": ()}, "gives no `a`"),
        ({"a": (1.0,)}, "row 1 of `a` must be a row of numbers, got 1.0"),
        ({"a": None}, "Mine is a pair by its tableau and gives no `a`, the rows of its stages"),
        ({"e": None}, "gives no `e`"),
        ({"order": None}, "gives no `order`"),
        ({"order": 3}, "2 explicit stages have no `order` above 2, got 3"),
        ({"a": ((1.0, 0.0),)}, "row 1 of `a` must have 1 numbers for 2 stages, got 2; the first stage has no row"),
        ({"b": (0.5,)}, "`b` must have 2 numbers"),
        ({"e": (0.0, 0.5, 0.5)}, "`e` must have 2 numbers"),
        ({"c": (0.0, 1.0)}, "`c` must have 1 numbers"),
        ({"c": (0.9,)}, "row 1 of `a` adds up to 1, and its node in `c` is 0.9"),
        ({"b": (0.4, 0.6)}, "`b` meets the conditions of order 1 only, and `order` is 2"),
        ({"b": (0.4, 0.5), "order": 1}, "`b` meets the conditions of order 0 only"),
        ({"e": (0.5, 0.5)}, "`e` adds up to 1, and must to 0"),
        ({"e": (0.0, 0.0)}, "all numbers of `e` are 0"),
        ({"e": (math.nan, 0.0)}, "`e` must be finite"),
    ],
)
def test_a_mistaken_tableau_is_refused_when_the_pair_is_made(numbers: dict[str, Any], words: str):
    with pytest.raises((TypeError, ValueError)) as refused:
        broken(**numbers)()
    assert words in str(refused.value)


class Wide(Coded):
    def attempt(self, slope, tau, dt, h, start):
        return Attempt(h + dt * slope(tau, h), 0 * h)


class Bare(Coded):
    def attempt(self, slope, tau, dt, h, start):
        return h, 0 * h


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Wide(), r"Wide\(\): `h` of an attempt must be like the states.*dt.to\(h\)"),
        (Bare(), "return a discretize.steps.Attempt"),
    ],
)
def test_an_attempt_that_is_no_step_from_the_states_is_refused(method: EmbeddedMethod, words: str):
    with pytest.raises(TypeError, match=words):
        integrate(rotation, None, ONE.float(), [0.0, 1.0], method=method)


def test_an_equation_that_reads_its_past_takes_a_pair_of_ones_own():
    def f(t: Tensor, h: Tensor, past: Any) -> Tensor:
        return -past[0]

    start = torch.ones(1, 1, **TWICE)
    how: dict[str, Any] = {"delays": 1.0, "rtol": 1e-8, "atol": 1e-8}
    solved = integrate(f, None, start, [0.0, 2.0], method=OwnDopri5(), **how)
    assert float(solved.hs[-1]) == pytest.approx(1 - 2 + 1 / 2, abs=1e-7)  # 1 - t + (t - 1)^2 / 2 on [1, 2]
    with pytest.raises(ValueError, match="its steps are longer than the polynomials"):
        integrate(f, None, start, [0.0, 2.0], method="dopri8", **how)


class Stuck(discretize.BackwardEuler):
    """Finds no solution for long steps of the samples that move."""

    def advance(self, field, projected, h, dt):
        far = (dt * h.abs() > 0.3).reshape(-1)
        if bool(far.any()):
            raise discretize.StepError("no solution", "Shorten it.", int(far.int().argmax()), 0)
        return super().advance(field, projected, h, dt)


class Never(discretize.BackwardEuler):
    """Has no solution for any length, as where the field is nan."""

    def advance(self, field, projected, h, dt):
        raise discretize.StepError("no solution", "Shorten it.", 0, 0)


def test_a_step_without_a_solution_of_any_length_ends_the_solve():
    with pytest.raises(discretize.SolverError, match="stopped at t = 0, sample 0"):
        integrate(rotation, None, ONE.expand(2, 2), [0.0, 2.0], method=StepDoubling(Never()))


def test_a_step_without_a_solution_is_tried_again_shorter_and_leaves_its_neighbours_alone():
    def decay(t: Tensor, h: Tensor) -> Tensor:
        return -h

    starts, how = (
        torch.tensor([[0.1], [2.0]], **TWICE),
        {"method": StepDoubling(Stuck()), "first_step": 0.2, "rtol": 0.1, "atol": 0.1},
    )
    solved = integrate(decay, None, starts, [0.0, 1.0], **how)
    alone = integrate(decay, None, starts[:1], [0.0, 1.0], **how)
    assert_close(solved.hs[-1], starts * math.exp(-1), rtol=0, atol=0.1)
    assert_close(solved.hs[:, :1], alone.hs, rtol=0, atol=1e-13)
    assert solved.stats["rejected_steps_of_samples"][1] > 0
    assert solved.stats["steps_of_samples"][0] == alone.stats["steps_of_samples"][0]


@pytest.mark.parametrize(
    "method",
    ["adaptive_heun", "bosh3", "dopri5", "dopri8", StepDoubling(discretize.Euler()), StepDoubling(discretize.RungeKutta4())],
)
def test_calls_of_the_field_are_counted_as_they_are_made(method: Any):
    calls = []

    class Counted(ctrnn.VectorField):
        def flow(self, projected: Tensor, h: Tensor) -> Tensor:
            calls.append(len(h))
            return 0.1 * h.sin() - h

    solved = integrate(Counted(0, 1), None, torch.ones(1, 1), [0.0, 1.0], method=method, rtol=0.1, atol=0.1, fused=False)
    assert len(calls) == 1 + solved.stats["nfe"]  # one looks whether it is a field


class Ramp(ctrnn.VectorField):
    """dh/dt = x."""

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected + 0 * h


@pytest.mark.parametrize("step", [discretize.Trapezoid(), discretize.ExponentialEuler()])
def test_halves_that_hold_a_moving_input_are_judged_by_order_1(step: discretize.Step):
    # dh/dt = t: two halves that hold it come to dt^2 / 4, which is as far from the solution dt^2 / 2.
    path, ts = ctrnn.LinearPath(torch.tensor([[[0.0]], [[4.0]]]), torch.tensor([0.0, 4.0])), torch.tensor([0.0, 4.0])
    segment = chain_of(ctrnn.Driven(Ramp(1, 1), path, None, 1), ts).segment(0)
    dt, zero = torch.full((1, 1), 0.5), torch.zeros(1, 1)
    h, error, _ = StepDoubling(step).attempt(segment, zero, dt, zero, None)
    assert_close((h, error), (dt**2 / 4, dt**2 / 4))


class Divided(EmbeddedMethod):
    """Rosenbrock's Euler with I / dt - J, which is nan where dt is 0."""

    order, evaluations, jacobians = 1, 1, 1

    def attempt(self, slope, tau, dt, h, start):
        moved = torch.linalg.solve(torch.eye(h.shape[-1]).to(h) / dt.to(h)[..., None] - slope.jacobian(tau, h), start)
        return Attempt(h + moved, moved / 10)


def test_a_sample_that_waits_keeps_its_state_and_its_gradient_where_a_step_of_0_leads_to_nan():
    field, x, h0 = ctrnn.gated(2, 4, generator=torch.Generator().manual_seed(0)).double(), torch.ones(3, 2, 2), torch.zeros(2, 4)
    ts, how = torch.tensor([[0.0, 0.0], [0.2, 1.0], [1.2, 1.25]]), {"method": Divided(), "fused": False, "rtol": 0.5, "atol": 0.1}
    how |= {"first_step": 0.25, "max_step": 0.25}
    both = integrate(field, ctrnn.LinearPath(x.double(), ts), h0.double(), ts, **how).hs
    singly = [
        integrate(field, ctrnn.LinearPath(x[:, b : b + 1].double(), ts[:, b]), h0[:1].double(), ts[:, b], **how).hs
        for b in (0, 1)
    ]
    assert_close(both, torch.cat(singly, 1), rtol=0, atol=1e-14)
    together, alone = (torch.autograd.grad(hs.square().sum(), field.candidate.weight_h) for hs in (both, torch.cat(singly, 1)))
    assert_close(together, alone, rtol=1e-12, atol=0)


def test_no_sample_is_given_a_dt_of_0():
    control = StepControl(Divided(), 1e-3, 1e-3, 100)
    tau, step = np.array([0.5, 0.2, 0.0, 3.0]), np.array([0.1, 0.3, 0.0, 9.0])
    for numbers in (np.asarray, torch.as_tensor):  # where they are known, and on a device
        place = StepPlace(*map(numbers, (tau, step, np.zeros(4, dtype=bool))))
        round = Round.of(control, place, numbers(np.array([1.0, 0.2, 0.0, 3.0])))
        assert round.live.tolist() == [True, False, False, False]
        # In parts of its step, as long as the segment at most, and of another's without one.
        assert round.dt.tolist() == [0.1, 0.2 / 1024, 0.1 / 1024, 3.0 / 1024]
