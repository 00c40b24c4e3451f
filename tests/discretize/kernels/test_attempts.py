"""A method's own code is recorded with calls of the field, and its kernel takes the steps that torch takes, and goes back through
them."""

import math

import numpy as np
import pytest
import torch
from conformance import agree, kernels_for_all, ran, solve
from on_gpu import ON_GPU
from own_methods import METHODS, Blind, Extrapolated, HeunByHand, Late, Limited, Relaxed, TableByHand, Tsit5ByHand
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Attempt, ContinuousRNN, EmbeddedMethod, integrate
from discretize.kernels.cpp.attempts import attempt_written
from discretize.kernels.plan import Plan
from discretize.kernels.record.attempt import AttemptModule, calls_of
from discretize.kernels.record.program import program_of

pytestmark = [
    pytest.mark.skipif(ON_GPU, reason="kernels of methods by code are for CPUs"),
    pytest.mark.filterwarnings("ignore:All states of this solve stay below"),  # so that steps are of one length
]
TWICE = {"dtype": torch.float64}
COARSE = {"rtol": 1e-3, "atol": 1e-3}
WIDE = {"rtol": 1e-2, "atol": 1e-2}  # a third of the steps, each of which takes torch milliseconds
TS = torch.tensor([0.0, 0.4, 1.1, 1.5], **TWICE)


def field(dtype=torch.float64):
    return ctrnn.gated(2, 7, generator=torch.Generator().manual_seed(0)).to(dtype)


def normal(*sizes, dtype=torch.float64, seed=1):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def along(x):
    return ctrnn.LinearPath(x, TS), None


def check(method, allowed=1e-12, batch=5, dtype=torch.float64, path=along, **how):
    x, h0 = normal(len(TS), batch, 2, dtype=dtype).requires_grad_(), normal(batch, 7, dtype=dtype, seed=2).requires_grad_()
    how = COARSE | {"method": method} | how
    agree("compiled", solve(field(dtype), path, x, h0, **how), allowed)


@pytest.mark.parametrize("name", ["HeunByHand", "Relaxed", "Blind", "Late", "doubled rk4"])
def test_a_method_by_code_is_compiled_and_takes_the_steps_of_torch(name):
    # A text of the method each; the field is one.
    check(METHODS[name])


def test_the_way_back_on_a_clock_reads_cotangents_that_two_slopes_share_as_they_were():
    # Heun's two slopes have one cotangent, which the driver multiplies by the clock's speed where it goes back through the first.
    clock = ctrnn.SmoothWarp(1.5, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
    check(HeunByHand(), path=lambda x: (ctrnn.WarpedPath(ctrnn.HermitePath(x, TS), clock), clock.speed))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("batch", [1, 7, 8, 9, 70])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_by_code_takes_the_steps_of_torch_in_any_batch(name, batch, dtype):
    double = dtype == torch.float64  # in float32 another rounding may make another step of one that is just accepted
    check(METHODS[name], 1e-11 if double else 1e-2, batch, dtype, counted=double)


def random_pair(dice, stages, **numbers):
    """An explicit pair of order 1: rows of any size, weights that add up to 1, and an error whose weights add up to 0."""
    a = torch.rand(stages, stages, generator=dice, **numbers).tril(-1)
    a = a / a.sum(1, keepdim=True).clamp(min=1)
    b, other = (torch.rand(stages, generator=dice, **numbers) + 0.1 for _ in range(2))
    return TableByHand(a, b / b.sum(), b / b.sum() - other / other.sum())


def test_random_pairs_share_a_text_and_are_those_of_torch():
    # Their tensors are read at each call; the nodes are numbers, by which records differ, and not their texts.
    dice = torch.Generator().manual_seed(3)
    for _ in range(3):
        check(random_pair(dice, 4, **TWICE), **WIDE)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 5, 8])
def test_many_random_pairs_of_several_stages(stages):
    dice = torch.Generator().manual_seed(stages)
    for _ in range(5):
        check(random_pair(dice, stages, **TWICE))


def test_the_way_back_of_a_method_by_code_is_the_derivative_of_its_steps():
    own = field()

    def run(h0, x, weight):
        own.candidate.weight_h.data.copy_(weight)
        # So wide a tolerance leaves steps of one length, by which nothing is chosen.
        how = {"rtol": 0.5, "atol": 1e6, "first_step": 0.25, "max_step": 0.25}
        with kernels_for_all("compiled"):
            solved = integrate(own, ctrnn.LinearPath(x, TS), h0, TS, method=Relaxed(), **how)
        assert solved.stats["engine"] == "compiled"
        return solved.hs

    given = normal(2, 7, seed=2).requires_grad_(), normal(4, 2, 2).requires_grad_()
    weight = own.candidate.weight_h.detach().clone()
    assert torch.autograd.gradcheck(lambda h0, x: run(h0, x, weight), given, atol=1e-7, fast_mode=True)
    solved = run(*given, weight)
    (found,) = torch.autograd.grad(solved.square().sum(), own.candidate.weight_h)
    ahead = normal(7, 7, seed=5)
    with torch.no_grad():
        there, back = (float(run(*given, weight + s * 1e-6 * ahead).square().sum()) for s in (1, -1))
    assert float((found * ahead).sum()) == pytest.approx((there - back) / 2e-6, rel=1e-6)


@pytest.mark.parametrize(("method", "order"), [(HeunByHand(), 2), (Extrapolated(), 3), (Tsit5ByHand(), 5)])
def test_a_compiled_method_by_code_has_the_order_that_it_declares(method, order):
    own, x, h0 = field(), normal(2, 3, 2), normal(3, 7, seed=2)
    path, ends = ctrnn.LinearPath(x, TS[[0, 3]]), TS[[0, 3]]
    off = []
    with torch.no_grad(), kernels_for_all("compiled"):
        exact = integrate(own, path, h0, ends, method="dopri8", rtol=1e-13, atol=1e-13).hs[-1]
        for step in (0.125, 0.0625):
            solved = integrate(own, path, h0, ends, method=method, rtol=0.5, atol=1e6, first_step=step, max_step=step)
            assert solved.stats["engine"] == "compiled"
            off.append(float((solved.hs[-1] - exact).abs().max()))
    assert math.log2(off[0] / off[1]) == pytest.approx(order, abs=0.6)


@pytest.mark.slow
def test_dopri5_as_code_is_dopri5_and_neighbours_and_threads_change_no_bit():
    own, x, h0, threads = (
        ctrnn.gated(14, 7, dtype=torch.float64),
        normal(3, 40, 14),
        normal(40, 7, seed=2),
        torch.get_num_threads(),
    )
    path = ctrnn.HeldPath(x, TS)
    own.project = lambda x: x  # from the projected input on, which is here the input
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            with kernels_for_all("compiled"):
                for method in ("dopri5", METHODS["dopri5"]):
                    solved = integrate(own, path, h0, TS, method=method)
                    assert solved.stats["engine"] == "compiled"
                    found.append((solved.hs, solved.stats["steps_of_samples"]))
                alone = integrate(own, ctrnn.HeldPath(path.xs[:, 7:8], TS), h0[7:8], TS, method=METHODS["dopri5"])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[1][0], found[3][0])
    assert torch.equal(alone.hs[:, 0], found[1][0][:, 7])
    assert found[0][1] == found[1][1]
    assert_close(found[0][0], found[1][0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["HeunByHand", "Extrapolated", "Limited", "Relaxed", "Blind"])
def test_gradients_to_times_are_those_of_the_steps(name):
    # Kernels take a segment that grows for a field that is faster, over which the last ones step otherwise, or go back otherwise.
    gradients, engines = [], []
    for fused in (True, False):
        times = (TS + torch.tensor([0.0, 0.05, -0.05, 0.0], **TWICE)).requires_grad_()
        with kernels_for_all("compiled"):
            path = ctrnn.LinearPath(normal(4, 3, 2), times)
            solved = integrate(field(), path, normal(3, 7, seed=2), TS, method=METHODS[name], fused=fused, **WIDE)
        engines.append(solved.stats["engine"])
        gradients += torch.autograd.grad(solved.hs.square().sum(), times)
    assert engines == ["steps" if name in ("Limited", "Relaxed", "Blind") else "compiled", "steps"]
    assert_close(*gradients, rtol=1e-11, atol=1e-11)


# What is recorded


def recorded(method, state=7):
    calls = calls_of(method, state, torch.float64)
    module = AttemptModule(method, state, calls)
    return program_of(module, {f"slope {k}": True for k in range(module.count)}, torch.float64, attempt_written).written, calls


def test_a_text_is_as_long_as_the_method_and_says_nothing_of_field_or_width():
    dice = torch.Generator().manual_seed(3)
    (few, calls), (wide, _) = recorded(random_pair(dice, 3, **TWICE)), recorded(random_pair(dice, 3, **TWICE), state=9)
    many, _ = recorded(random_pair(dice, 6, **TWICE))
    assert few.text == wide.text
    assert (few.sizes, wide.sizes) != (wide.sizes, few.sizes)
    assert [text.text.count("calls.evaluate(") for text in (few, many)] == [2 + 3, 5 + 6]
    assert [text.text.count("calls.pull(") for text in (few, many)] == [3, 6]
    assert len(calls.slopes) == 2


def test_calls_at_one_state_and_time_are_one_and_a_last_slope_is_the_next_steps_first():
    doubled = calls_of(METHODS["doubled rk4"], 3, torch.float64)
    assert (len(doubled.slopes), len(doubled.nodes), doubled.slopes.count(0)) == (12, 11, 2)
    assert calls_of(Relaxed(), 3, torch.float32).end == 2
    assert calls_of(HeunByHand(), 3, torch.float32).end is None
    assert recorded(Relaxed())[0].calls.following == 2
    text, _ = recorded(Blind())
    assert (text.calls.pulled, text.calls.back) == (1, [2, 0, 1])  # the others are computed again, and not gone back through


def test_as_many_evaluations_are_counted_as_torch_makes_for_one_sample():
    path, _ = along(normal(4, 1, 2).requires_grad_())
    for method in (HeunByHand(), Relaxed(), Late()):
        with kernels_for_all("compiled"):
            mine, theirs = (
                integrate(field(), path, normal(1, 7, seed=2), TS, method=method, first_step=0.1, fused=fused, **COARSE)
                for fused in (True, False)
            )
        assert (mine.stats["engine"], theirs.stats["engine"]) == ("compiled", "steps")
        # The kernel's are those of the guess of a first step too, which is given here, and the slope at the start for it.
        assert 0 <= mine.stats["nfe"] - theirs.stats["nfe"] <= 1


def test_what_a_method_keeps_is_read_at_each_call_also_of_those_that_are_planned(monkeypatch):
    method, x, planned = METHODS["Limited"], normal(4, 3, 2), []
    monkeypatch.setattr(Plan, "solve", lambda plan, request, solve=Plan.solve: planned.append(request) or solve(plan, request))
    states, model = [], ContinuousRNN(field(), method, 1e-3, 1e-3)
    with kernels_for_all("compiled"):
        for most in (4.0, 4.0, 4.0, 0.3, 4.0):
            method.most = most
            states.append(model(x)[0].detach())
            assert model.stats["engine"] == "compiled"
    assert planned
    assert torch.equal(states[0], states[2])
    assert torch.equal(states[0], states[4])
    assert float((states[0] - states[3]).abs().max()) > 1e-3


class NodeByTensor(EmbeddedMethod):
    """A slope at a share of the step that is a tensor."""

    order, evaluations = 1, 2

    def __init__(self, node: float) -> None:
        self.node = torch.tensor(node, **TWICE)

    def attempt(self, slope, tau, dt, h, start):
        later = slope(tau + self.node * dt, h + dt.to(h) * start)
        return Attempt(h + dt.to(h) / 2 * (start + later), dt.to(h) / 2 * (later - start))


def test_nodes_that_are_tensors_are_read_at_each_call():
    method = NodeByTensor(0.5)
    check(method)
    method.node.fill_(0.9)
    check(method)
    check(NodeByTensor(0.2))
    method.node.data = torch.tensor(0.0, **TWICE)
    check(method)


def test_derivatives_of_a_solve_are_of_the_method_as_it_was():
    for graph in (False, True):
        gradients = []
        for most in (0.3, 2.0):
            method, h0 = Limited(2.0), normal(3, 7, seed=2).requires_grad_()
            with kernels_for_all("compiled"):
                solved = integrate(field(), along(normal(4, 3, 2))[0], h0, TS, method=method, **WIDE)
            ran(solved.stats, "compiled")
            method.most = most
            gradients += torch.autograd.grad(solved.hs.square().sum(), h0, create_graph=graph)
        assert_close(*gradients)


def test_calls_found_under_inference_mode_are_those_of_other_modes():
    table = torch.tensor([[0.0, 0.0], [1.0, 0.0]], **TWICE), torch.tensor([0.5, 0.5], **TWICE), torch.tensor([-0.5, 0.5], **TWICE)
    with torch.inference_mode():
        kept = [part.clone() for part in table]  # such as autograd refuses
        found = [calls_of(method, 7, torch.float64) for method in (TableByHand(*kept), HeunByHand())]
    assert found == [calls_of(method, 7, torch.float64) for method in (TableByHand(*table), HeunByHand())]
    assert found[1].scales
    assert torch.is_grad_enabled()


def test_one_time_that_is_computed_in_two_ways_is_one():
    class Thirds(EmbeddedMethod):
        order, evaluations = 1, 3

        def attempt(self, slope, tau, dt, h, start):
            middle = h + dt.to(h) / 3 * start
            first, again = slope(tau + dt / 3, middle), slope(tau + dt * (1 / 3), middle)
            return Attempt(h + dt.to(h) * (first + again) / 2, dt.to(h) * (first - start))

    assert calls_of(Thirds(), 3, torch.float64).slopes == (1, 1)


def test_a_solve_that_fails_says_the_same():
    def grows(t, h):
        return h * h

    words = []
    for fused in ("always", False):
        with pytest.raises(discretize.SolverError) as raised:
            integrate(
                grows, None, torch.ones(2, 1, **TWICE), [0.0, 0.5, 2.0], method=HeunByHand(), rtol=1e-3, atol=1e-3, fused=fused
            )
        words.append((str(raised.value).partition(". ")[0], raised.value.trajectory.hs.shape))
        assert raised.value.trajectory.stats["engine"] == ("steps" if fused is False else "compiled")
    assert words[0] == words[1]


# What has no kernel


class NoKernelOfIts(EmbeddedMethod):
    """An attempt that is given as a function."""

    order, evaluations = 1, 1

    def __init__(self, code) -> None:
        self.code = code

    def attempt(self, slope, tau, dt, h, start):
        return Attempt(*self.code(slope, tau, dt, dt.to(h), h, start))


RATE = torch.ones(1, requires_grad=True, **TWICE)
REFUSED = {
    "a Jacobian": (
        lambda f, tau, dt, step, h, k: (h + step * (f.jacobian(tau, h) @ k[..., None])[..., 0], step * k),
        "the Jacobian",
    ),
    "a branch": (lambda f, tau, dt, step, h, k: (h + step * k if k.sum() > 0 else h, step * k), "branches on the values"),
    "a rounded number": (
        lambda f, tau, dt, step, h, k: (h + step * k * float(f"{step.max().item():.3g}"), step * k),
        "the code makes a number of what is in tensors (",
    ),
    "an array": (
        lambda f, tau, dt, step, h, k: (h + step * k * torch.from_numpy(np.sqrt(step.detach().numpy())), step * k),
        "the code makes NumPy's arrays of tensors (",
    ),
    "other times": (lambda f, tau, dt, step, h, k: (h + step * f(tau + dt * dt, h), step * k), "a time that is not tau + c dt"),
    "other times of long steps": (
        lambda f, tau, dt, step, h, k: (h + step * f(tau + dt.clamp(max=2.0), h + step * k), step * k),
        "a time that is not tau + c dt",
    ),
    "other times of short steps": (
        lambda f, tau, dt, step, h, k: (h + step * f(tau + torch.where(dt < 0.01, dt / 2, dt), h + step * k), step * k),
        "a time that is not tau + c dt",
    ),
    "late times": (lambda f, tau, dt, step, h, k: (h + step * k * (1 + (tau > 9).to(h)), step * k), "depend on the time itself"),
    "the time itself": (lambda f, tau, dt, step, h, k: (h + step * k * tau.to(h), step * k), "depend on the time itself"),
    "no end": (lambda f, tau, dt, step, h, k: (h + step * k, step * k, f(tau + dt, h)), "its `end` is no slope"),
    "numbers that learn": (lambda f, tau, dt, step, h, k: (h + step * k * RATE, step * k), "a tensor with a gradient"),
    "an order": (lambda f, tau, dt, step, h, k: (h + step * k.sort(-1).values, step * k), "uses sort"),
    "the solve": (lambda f, tau, dt, step, h, k: (h + step * k * f.chain, step * k), "no attribute 'chain'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_without_a_kernel_says_why(name):
    code, why = REFUSED[name]
    with kernels_for_all("compiled"):
        path, h0 = ctrnn.HeldPath(normal(3, 2, 2), TS), normal(2, 7)
        if name == "the solve":
            with pytest.raises(ValueError, match=why):
                integrate(field(), path, h0, TS, method=NoKernelOfIts(code), fused="always")
            return
        solved = integrate(field(), path, h0, TS, method=NoKernelOfIts(code), rtol=0.5, atol=1e6)
    assert solved.stats["engine"] == "steps"
    assert why in solved.stats["engine_why"]


FOR_ONE = {
    "a number of the step": lambda f, tau, dt, step, h, k: (h + float(dt) * k, step * k),
    "an exponential": lambda f, tau, dt, step, h, k: (h + step * k * math.exp(tau), step * k),
    "a branch on the step": lambda f, tau, dt, step, h, k: (h + (step if dt > 0 else -step) * k, step * k),
    "its item": lambda f, tau, dt, step, h, k: (h + dt.item() * k, step * k),
}


@pytest.mark.parametrize("name", FOR_ONE)
@pytest.mark.parametrize("fused", [False, True, "always"])
def test_a_method_for_one_sample_is_refused_with_the_line(name, fused):
    path, h0 = ctrnn.HeldPath(normal(3, 2, 2), TS), normal(2, 7)
    error = ValueError if fused == "always" else TypeError
    with pytest.raises(error, match=r"takes a tensor for one number or one truth \(.*test_attempts\.py, line \d+: "):
        integrate(field(), path, h0, TS, method=NoKernelOfIts(FOR_ONE[name]), fused=fused)


def test_a_halved_step_that_holds_its_input_says_why_it_has_no_kernel():
    with pytest.raises(ValueError, match="others than explicit Runge-Kutta steps read the field beside its slope"):
        ContinuousRNN(field(), discretize.StepDoubling("etdrk4"), fused="always")(normal(4, 2, 2))
