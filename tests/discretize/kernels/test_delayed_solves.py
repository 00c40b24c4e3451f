"""Blocks of equations with delays by compiled kernels: the same states, steps and gradients as by steps in torch."""

import math

import pytest
import torch
from conformance import ROUNDING, agree, kernels_for_all, ran
from problems import thinned
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.parts import affine
from ctrnn.parts import Affine
from discretize import EmbeddedRungeKutta, Event, SolverError, StepDoubling, integrate
from discretize.kernels.cpp import delayed
from discretize.solvers import delays
from discretize.solvers.pairs import Dopri5
from discretize.solvers.tableaus import Attempt, EmbeddedMethod

TWICE = {"dtype": torch.float64}
FINE = {"rtol": 1e-7, "atol": 1e-8}
COARSE = {"rtol": 1e-3, "atol": 1e-3}


class Echo(ctrnn.DelayedField):
    """A gated cell that hears itself, some delays ago."""

    def __init__(self, units, delays, learn=False, dtype=torch.float64):
        super().__init__(2, units, delays, learn=learn)
        given = {"dtype": dtype, "generator": torch.Generator().manual_seed(units)}
        self.drive = Affine(2, units, outputs=units, **given)
        self.gate = torch.nn.Parameter(torch.linspace(-1, 1, units, dtype=dtype))

    @affine
    def project(self, x):
        return self.drive.project(x)

    def flow(self, projected, h, past):
        heard = sum((k + 1) * each for k, each in enumerate(past)) / len(past)
        return torch.sigmoid(self.gate + past[-1]) * (torch.tanh(self.drive.flow(projected, heard)) - h)


class Without(EmbeddedRungeKutta):
    """A pair whose steps become polynomials by states of its own within them."""

    order, c, a, b, e = Dopri5.order, Dopri5.c, Dopri5.a, Dopri5.b, Dopri5.e


class FromMiddle(EmbeddedMethod):
    """The midpoint rule, its error that of a slope between, without the slope at its start."""

    order, evaluations, reads_start = 2, 2, False

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        early = slope(tau + 0.25 * dt, h)
        middle = slope(tau + 0.5 * dt, h + 0.5 * step * early)
        return Attempt(h + step * middle, 0.1 * step * (middle - early))


def drawn(*size, seed=0, dtype=torch.float64):
    return torch.rand(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


HISTORIES = {
    "held": lambda h0: None,
    "a state": lambda h0: 0.5 * h0.detach() + 0.2,
    "straight": lambda h0: ctrnn.LinearPath(
        torch.cat([drawn(2, *h0.shape, seed=3).to(h0), h0.detach()[None]]), torch.tensor([-3.0, -0.8, 0.0], **TWICE)
    ),
    "cubic": lambda h0: ctrnn.HermitePath(drawn(3, *h0.shape, seed=4).to(h0), torch.tensor([-3.0, -0.9, 0.1], **TWICE)),
}
PATHS = {"held": ctrnn.HeldPath, "straight": ctrnn.LinearPath, "cubic": ctrnn.HermitePath}


def solve(delays=(0.7,), history="held", path="held", units=3, batch=2, dtype=torch.float64, learn=True, ts=None, **how):
    """Run by a kernel or by steps, for `agree`: states, those between, how many steps, and gradients."""
    ts = torch.tensor([0.0, 0.5, 1.6, 2.5]) if ts is None else ts

    def run(fused):
        field = Echo(units, list(delays), learn, dtype)
        x = drawn(5, batch, 2, seed=1, dtype=dtype).requires_grad_()
        h0 = drawn(batch, units, seed=2, dtype=dtype).requires_grad_()
        knots = torch.linspace(0, 2.5, 6 if path == "held" else 5, **TWICE)
        solved = integrate(field, PATHS[path](x, knots), h0, ts, history=HISTORIES[history](h0), fused=fused, **FINE | how)
        between = solved(torch.tensor([0.3, 1.1, 2.2], **TWICE))
        weights = drawn(*solved.hs.shape, seed=5, dtype=dtype)
        learned = [x, h0, *field.parameters()]
        found = torch.autograd.grad((weights * solved.hs).sum() + between.square().sum(), learned)
        steps = torch.tensor(solved.stats["accepted_steps_of_samples"] + solved.stats["rejected_steps_of_samples"], dtype=dtype)
        results = {"hs": solved.hs.detach(), "between": between.detach()}
        results |= {"steps": steps} if dtype == torch.float64 else {}  # float32 rounds errors, and proposes other steps
        return results | {f"gradient {k}": each for k, each in enumerate(found)}, solved.stats

    return run


CASES = {
    "one delay": {},
    "given, not learned": {"learn": False},
    "several": {"delays": (1.3, 0.4, 0.9), "units": 5},
    "a delay longer than all": {"delays": (2.8, 0.6)},
    "many blocks": {"delays": (0.11, 0.3)},
    "one sample": {"batch": 1},
    "more samples than slots": {"batch": 19},
    "many units": {"units": 37},
    "one unit": {"units": 1},
    "a history that ends elsewhere": {"history": "a state"},
    "a history of lines": {"history": "straight", "delays": (1.1, 0.4)},
    "a history of cubics": {"history": "cubic"},
    "a line": {"path": "straight"},
    "cubics": {"path": "cubic"},
    "times of each sample": {"ts": torch.tensor([[0.0, 0.0], [0.4, 0.6], [2.2, 2.5]])},
    "on a clock": {
        "batch": 1,
        "speed": ctrnn.LinearPath(torch.tensor([[[1.0]], [[1.5]]], **TWICE), torch.tensor([0.0, 2.5], **TWICE)),
    },
    "tsit5": {"method": "tsit5"},
    "bosh3": {"method": "bosh3", "rtol": 1e-5},
    "adaptive_heun": {"method": "adaptive_heun", "rtol": 1e-4, "atol": 1e-4},
    "a pair without a polynomial": {"method": Without()},
    "a program": {"method": StepDoubling("midpoint"), "rtol": 1e-4, "atol": 1e-4},
    "rodas5p": {"method": "rodas5p", "delays": (1.3,), "units": 2, **COARSE},
    "rodas5p, a line on a clock": {
        "method": "rodas5p",
        **COARSE,
        "path": "straight",
        "batch": 1,
        "speed": ctrnn.LinearPath(torch.tensor([[[1.0]], [[1.5]]], **TWICE), torch.tensor([0.0, 2.5], **TWICE)),
    },
    "short steps": {"max_step": 0.11},
    "a start that is not read": {"method": FromMiddle(), "rtol": 1e-3, "atol": 1e-3},
    "an atol for each unit": {"atol": torch.tensor([1e-8, 1e-6, 1e-9], **TWICE)},
}


# That other pairs are read from their tableaus is seen every day by tsit5, bosh3 and one of a user's own.
@pytest.mark.parametrize("case", thinned(CASES, CASES.keys() - {"adaptive_heun", "rodas5p, a line on a clock"}))
def test_a_kernel_takes_the_steps_that_torch_takes(case):
    agree("compiled", solve(**CASES[case]), ROUNDING[torch.float64])


@pytest.mark.parametrize("case", thinned(["one delay", "several", "bosh3"], ["one delay"]))  # a text of each is above
def test_float32_agrees_to_its_tolerance(case):
    how = CASES[case] | {"dtype": torch.float32, "rtol": 1e-4, "atol": 1e-4}
    agree("compiled", solve(**how), 2e-3)  # steps may be others, each to a tolerance of 1e-4


def test_a_function_of_the_time_has_a_kernel_and_gradients_to_its_delays():
    def run(fused):
        delays, h0 = torch.tensor([0.5, 1.2], requires_grad=True, **TWICE), drawn(2, 2).requires_grad_()
        ts = torch.tensor([0.0, 1.0, 3.0])
        f = lambda t, h, past: torch.cos(t) - past[0] * past[1]  # noqa: E731
        solved = integrate(f, None, h0, ts, delays=delays, fused=fused, **FINE)
        found = torch.autograd.grad(solved.hs[1:].square().sum(), [delays, h0])
        return {"hs": solved.hs.detach(), "of delays": found[0], "of h0": found[1]}, solved.stats

    agree("compiled", run, ROUNDING[torch.float64])


def test_mackey_glass_has_the_states_of_its_closed_form_over_the_first_delay():
    h0 = torch.full((1, 1), 0.5, **TWICE)
    f = lambda t, h, past: 2 * past[0] / (1 + past[0] ** 8) - h  # noqa: E731
    with kernels_for_all():
        solved = integrate(f, None, h0, torch.tensor([0.0, 1.0]), delays=1.5, rtol=1e-10, atol=1e-10)
    ran(solved.stats, "compiled")
    rest = 1 / (1 + 0.5**8)
    assert_close(solved.hs[-1], rest + (h0 - rest) * torch.exp(torch.tensor(-1.0, **TWICE)), rtol=1e-9, atol=0)


@pytest.mark.parametrize("method", ["dopri5", "bosh3"])
def test_second_derivatives_are_those_of_the_steps(method):
    def run(fused):
        field = Echo(2, [0.7])
        x, h0 = drawn(2, 1, 2, seed=1).requires_grad_(), drawn(1, 2, seed=2).requires_grad_()
        path = ctrnn.HeldPath(x, torch.tensor([0.0, 1.0, 1.7], **TWICE))
        ts = torch.tensor([0.0, 1.7])  # three blocks
        solved = integrate(field, path, h0, ts, method=method, fused=fused, rtol=1e-4, atol=1e-4)
        (slope,) = torch.autograd.grad(solved.hs[-1].square().sum(), h0, create_graph=True)
        again = torch.autograd.grad(slope.sum(), [x, h0, field.gate])
        return {f"second {k}": each for k, each in enumerate(again)}, solved.stats

    agree("compiled", run, ROUNDING[torch.float64])


EACH_KIND = ["dopri5", "bosh3", Without(), pytest.param("rodas5p", marks=pytest.mark.slow)]  # which takes 3 s to compile


@pytest.mark.parametrize("method", EACH_KIND, ids=str)
def test_a_kernel_solves_many_blocks_in_one_call_as_far_as_memory_goes(monkeypatch, method):
    calls, how = [], FINE if method != "rodas5p" else COARSE

    class Counted(delayed._BlockRun):
        def __post_init__(self):
            calls.append(self.request.chain.past.block[-1] + 1)
            super().__post_init__()

    monkeypatch.setattr(delayed, "_BlockRun", Counted)

    def states():
        calls.clear()
        f = lambda t, h, past: torch.tanh(past[0]) - h  # noqa: E731
        ts = torch.tensor([0.0, 2.5])
        solved = integrate(f, None, drawn(2, 2), ts, delays=0.5, method=method, fused="always", **how)
        return solved.hs, solved.stats["nfe_samples"]

    with torch.no_grad():
        (at_once, work), together = states(), list(calls)
        monkeypatch.setattr(delays, "AT_ONCE", 0)
        one_by_one, work_by_block = states()
    assert (together, calls) == ([5], [1] * 5)
    assert work == work_by_block
    assert_close(at_once, one_by_one, rtol=0, atol=1e-14)  # a step's length by its ends or as it was taken


def test_blocks_that_read_a_history_of_another_kind_are_left_to_steps_alone():
    def run(fused):
        h0 = (20 * drawn(3, 2)).requires_grad_()  # of which some take more steps than others
        f = lambda t, h, past: torch.tanh(past[0]) - h  # noqa: E731
        late = lambda t: (t + 0.4).abs() * torch.ones(3, 2, **TWICE)  # noqa: E731
        solved = integrate(f, None, h0, torch.tensor([0.0, 4.0]), delays=1.0, history=late, fused=fused, **FINE)
        steps = torch.tensor(solved.stats["steps_of_samples"])
        return {"hs": solved.hs.detach(), "steps": steps, "of h0": torch.autograd.grad(solved.hs[-1].sum(), h0)[0]}, solved.stats

    with kernels_for_all():
        (mine, stats), (theirs, _) = run(True), run(False)
    reason = "the states before the start are no polynomial of time that kernels read"
    assert (stats["engine"], stats["engine_why"]) == ("steps", f"1 of 4 blocks: {reason}")
    assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=f"there is no kernel: {reason}"):
        run("always")


class Unprojected(ctrnn.DelayedField):
    """dh/dt = x - h(t - 0.7), its input as it is given."""

    def flow(self, projected, h, past):
        return projected - past[0]


def test_an_input_of_lines_that_is_not_projected_has_a_kernel_and_gradients():
    def run(fused):
        x, h0 = drawn(5, 2, 3, seed=1).requires_grad_(), drawn(2, 3).requires_grad_()
        path = ctrnn.LinearPath(x, torch.linspace(0, 2, 5, **TWICE))
        solved = integrate(Unprojected(3, 3, 0.7), path, h0, torch.tensor([0.0, 2.0]), fused=fused, **FINE)
        return {"hs": solved.hs.detach(), "of x": torch.autograd.grad(solved.hs[-1].square().sum(), x)[0]}, solved.stats

    agree("compiled", run, ROUNDING[torch.float64])


@pytest.mark.parametrize("batch", [1, 3])
def test_a_smooth_function_as_history_is_a_polynomial_by_which_each_sample_steps_on_its_own(batch):
    def run(fused):
        field = Echo(2, [0.7, 0.4], learn=True)
        h0, x = drawn(batch, 2).requires_grad_(), drawn(3, batch, 2, seed=1)
        rates = 3 + drawn(batch, 2, seed=4)
        how = {"history": lambda t: torch.exp(-t) * torch.sin(rates * t), "fused": fused, **FINE}
        solved = integrate(field, ctrnn.HeldPath(x, torch.tensor([0.0, 0.5, 1.0, 1.5])), h0, torch.tensor([0.0, 1.5]), **how)
        found = torch.autograd.grad(solved.hs[-1].square().sum(), [h0, field.delays])
        steps = torch.tensor(solved.stats["steps_of_samples"], **TWICE)
        return {"hs": solved.hs.detach(), "of h0": found[0], "of delays": found[1], "steps": steps}, solved.stats

    agree("compiled", run, 1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_solve_goes_on_from_another_in_kernels(batch):
    def run(fused):
        field, x = Echo(2, [0.7, 0.4], learn=True), drawn(4, batch, 2, seed=1)
        h0, path = (9 * drawn(batch, 2)).requires_grad_(), ctrnn.HeldPath(x, torch.linspace(0, 3, 5, **TWICE))
        first = integrate(field, path, h0, torch.tensor([0.0, 1.3]), fused=fused, **FINE)
        then = integrate(field, path, first.hs[-1], torch.tensor([1.3, 2.9]), history=first, fused=fused, **FINE)
        found = torch.autograd.grad(then.hs[-1].square().sum(), [h0, field.delays, field.gate])
        steps = torch.tensor(then.stats["steps_of_samples"], **TWICE)
        results = {"hs": then.hs.detach(), "steps": steps, "between": then(torch.tensor([1.9], **TWICE)).detach()}
        return results | {f"gradient {k}": each for k, each in enumerate(found)}, then.stats

    agree("compiled", run, 1e-12)


@pytest.mark.parametrize("fused", [False, "always"])
def test_a_polynomial_of_a_history_is_the_function_that_was_given(fused):
    """dh/dt = h(t - 1) is solved by the integral of its history."""
    h0, rate = torch.zeros(1, 1, **TWICE), 7.0
    solved = integrate(
        lambda t, h, past: past[0],
        None,
        h0,
        torch.tensor([0.0, 1.0]),
        delays=1.0,
        history=lambda t: torch.cos(rate * t).reshape(1, 1),
        fused=fused,
        rtol=1e-12,
        atol=1e-12,
    )
    expected = torch.tensor([[math.sin(rate) / rate]], **TWICE)
    assert_close(solved.hs[-1], expected, rtol=1e-11, atol=0)


@pytest.mark.parametrize("fused", [False, "always"])
def test_a_step_between_delays_that_are_nearly_one_has_the_slope_of_the_field(fused):
    """It moves by rounding, which over its length is 1e-5."""
    h0, near, time = torch.full((1, 1), 0.6, **TWICE), 1e-11, torch.tensor([0.7 + 2e-12], requires_grad=True, **TWICE)
    f = lambda t, h, past: torch.cos(past[0]) - 2 * past[1]  # noqa: E731
    how = {"delays": [0.7, 0.7 + near], "method": "bosh3", "fused": fused, "rtol": 1e-6, "atol": 1e-6}
    solved = integrate(f, None, h0, torch.tensor([0.0, 0.9]), **how)
    (slope,) = torch.autograd.grad(solved.between(time).sum(), time)
    assert_close(slope, (torch.cos(h0) - 2 * h0)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"delays": [lambda t: 1 + 0.1 * torch.sin(t)]}, "a delay is a function of time"),
    ],
    ids=["a delay of time"],
)
def test_what_has_no_kernel_says_why(how, why):
    f = lambda t, h, past: torch.tanh(past[0]) - h  # noqa: E731
    with pytest.raises(ValueError, match=why):
        integrate(f, None, drawn(1, 2), torch.tensor([0.0, 2.0]), fused="always", **{"delays": 1.0} | how)


def test_events_are_found_and_end_samples():
    def run(fused):
        h0 = (1 + drawn(3, 1)).requires_grad_()
        f = lambda t, h, past: -2 * past[0]  # noqa: E731
        stop = Event(lambda t, h: h[:, 0], terminal=True)
        solved = integrate(f, None, h0, torch.tensor([0.0, 4.0]), delays=0.6, events=stop, fused=fused, **FINE)
        times = solved.events[0].times
        return {"times": times.detach(), "of h0": torch.autograd.grad(times.sum(), h0)[0]}, solved.stats

    agree("compiled", run, 1e-6)  # times are found to the tolerance of the solve


@torch.no_grad()
def test_events_that_stop_nothing_are_found_in_one_call_of_all_blocks(monkeypatch):
    calls = []

    class Counted(delayed._BlockRun):
        def __post_init__(self):
            calls.append(self.request.chain.past.block[-1] + 1)
            super().__post_init__()

    def run(fused, **how):
        f = lambda t, h, past: -2 * past[0]  # noqa: E731
        return integrate(f, None, 1 + drawn(3, 1), torch.tensor([0.0, 1.0, 3.3, 9.0]), delays=0.6, fused=fused, **how, **FINE)

    crossing = Event(lambda t, h: h[:, 0])
    monkeypatch.setattr(delayed, "_BlockRun", Counted)
    with kernels_for_all():
        mine, alone, theirs = run(True, events=crossing), run(True), run(False, events=crossing)
    assert calls == [15, 15]
    assert torch.equal(mine.hs, alone.hs)
    assert len(mine.events[0].times) > 10
    for one, other in zip(mine.events[0], theirs.events[0], strict=True):
        assert_close(one, other, rtol=0, atol=1e-5)  # times are found to the tolerance of the solve
    assert_close(mine(4.3), theirs(4.3), rtol=0, atol=1e-5)


def test_a_solve_that_fails_says_the_same():
    def run(fused):
        f = lambda t, h, past: past[0] * h * h  # noqa: E731
        ts = torch.tensor([0.0, 0.2, 0.4, 0.7, 5.0])
        with pytest.raises(SolverError) as raised:
            integrate(f, None, torch.full((2, 1), 1.0, **TWICE), ts, delays=0.3, fused=fused)
        return str(raised.value), raised.value.trajectory

    with kernels_for_all():
        (said, mine), (also, theirs) = run(True), run(False)
    assert said == also
    assert mine.ts.tolist() == theirs.ts.tolist() == [0.0, 0.2, 0.4, 0.7]
    assert_close(mine.hs, theirs.hs, rtol=1e-12, atol=0)
