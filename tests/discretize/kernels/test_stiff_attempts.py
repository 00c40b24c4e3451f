"""A method's own code that solves with Jacobians is recorded, and its kernel takes the steps that torch takes, and goes back
through them."""

import math

import pytest
import torch
from conformance import agree, kernels_for_all, solve
from on_gpu import ON_GPU
from own_fields import Own, Soft, Stiff
from own_methods import STIFF, AnyMatrix, Ros2
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Attempt, EmbeddedMethod, integrate
from discretize.kernels.cpp.attempts import attempt_written
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
SMOOTH = ctrnn.SmoothWarp(1.5, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))


def gated(dtype=torch.float64):
    return ctrnn.gated(3, 7, generator=torch.Generator().manual_seed(0)).to(dtype)


def normal(*sizes, dtype=torch.float64, seed=1):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def moved(x):
    """Times that are learned."""
    return TS + x[:, 0, 0].double().tanh() / 20


INPUTS = {
    "held": lambda x: (ctrnn.HeldPath(x, TS), None),
    "linear": lambda x: (ctrnn.LinearPath(x, TS), None),
    "hermite, times of each": lambda x: (ctrnn.HermitePath(x, TS[:, None] * torch.linspace(0.5, 1, x.shape[1], **TWICE)), None),
    "smooth clock": lambda x: (ctrnn.WarpedPath(ctrnn.HermitePath(x, TS), SMOOTH), SMOOTH.speed),
    "smooth clock, held": lambda x: (ctrnn.WarpedPath(ctrnn.HeldPath(x, TS), SMOOTH), SMOOTH.speed),
    "learned times": lambda x: (ctrnn.LinearPath(x, moved(x)), None),
}


def check(method, own=None, inputs="linear", batch=5, dtype=torch.float64, allowed=1e-11, **how):
    own = gated(dtype) if own is None else own
    x = normal(len(TS), batch, own.input_size, dtype=dtype).requires_grad_()
    h0 = (normal(batch, own.state_size, dtype=dtype, seed=2) / 2).requires_grad_()
    agree("compiled", solve(own, INPUTS[inputs], x, h0, **(COARSE | {"method": method} | how)), allowed)


@pytest.mark.parametrize("name", ["Ros2", "AnyMatrix", "Sdirk2"])
def test_a_method_that_solves_with_jacobians_takes_the_steps_of_torch(name):
    # A text of the method each; the seconds of the first are those of the field's derivatives, too.
    check(STIFF[name], **WIDE)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", STIFF)
def test_every_method_that_solves_with_jacobians_along_every_input(name, inputs):
    if (name, inputs) == ("AnyMatrix", "learned times"):
        pytest.skip("by which nothing goes through a Jacobian that is held")
    check(STIFF[name], inputs=inputs)


def test_gradients_to_times_go_through_no_jacobian_that_is_held():
    times = moved(normal(4, 3, 3)).requires_grad_()
    with kernels_for_all("compiled"):
        solved = integrate(gated(), ctrnn.LinearPath(normal(4, 3, 3), times), normal(3, 7), times, method=AnyMatrix(), **WIDE)
    assert "gradients to times are wanted" in solved.stats["engine_why"]
    for method in (Ros2(), STIFF["Sdirk2"]):
        assert calls_of(method, 7, torch.float64).scales


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("batch", [1, 8, 9, 70])
@pytest.mark.parametrize("name", STIFF)
def test_every_method_that_solves_with_jacobians_in_any_batch(name, batch, dtype):
    double = dtype == torch.float64  # in float32 another rounding may make another step of one that is just accepted
    check(STIFF[name], batch=batch, dtype=dtype, allowed=1e-11 if double else 2e-2, counted=double)


@pytest.mark.slow
@pytest.mark.parametrize("made", [Own, Soft, Stiff, lambda: ctrnn.lstm(3, 4).double(), lambda: ctrnn.gated(3, 70).double()])
@pytest.mark.parametrize("name", STIFF)
def test_every_method_that_solves_with_jacobians_of_several_fields(name, made):
    torch.manual_seed(0)
    check(STIFF[name], made(), allowed=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_methods_for_any_matrix(seed):
    check(AnyMatrix(seed), inputs="smooth clock")


def run_of(own, method):
    def run(h0, x, weight):
        own.candidate.weight_h.data.copy_(weight)
        # So wide a tolerance leaves steps of one length, by which nothing is chosen.
        how = {"rtol": 0.5, "atol": 1e6, "first_step": 0.25, "max_step": 0.25}
        with kernels_for_all("compiled"):
            solved = integrate(own, ctrnn.LinearPath(x, TS), h0, TS, method=method, **how)
        assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
        return solved.hs

    return run


def test_the_way_back_through_solves_is_the_derivative_of_the_steps():
    own = gated()
    run, weight = run_of(own, Ros2()), own.candidate.weight_h.detach().clone()
    given = normal(2, 7, seed=2).requires_grad_(), normal(4, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda h0, x: run(h0, x, weight), given, atol=1e-7, fast_mode=True)
    solved = run(*given, weight)
    (found,) = torch.autograd.grad(solved.square().sum(), own.candidate.weight_h)
    ahead = normal(7, 7, seed=5)
    with torch.no_grad():
        there, back = (float(run(*given, weight + s * 1e-6 * ahead).square().sum()) for s in (1, -1))
    assert float((found * ahead).sum()) == pytest.approx((there - back) / 2e-6, rel=1e-6)


@pytest.mark.slow
def test_second_derivatives_of_solves_with_jacobians():
    own = gated()
    run = run_of(own, Ros2())
    given = normal(1, 7, seed=2).requires_grad_(), normal(4, 1, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda h0, x: run(h0, x, own.candidate.weight_h.detach().clone()), given, fast_mode=True)


@pytest.mark.parametrize(("name", "order"), [("Ros2", 2), pytest.param("Ros3p", 3, marks=pytest.mark.slow), ("Sdirk2", 2)])
def test_a_compiled_method_that_solves_with_jacobians_has_the_order_that_it_declares(name, order):
    own, x, h0 = gated(), normal(2, 3, 3), normal(3, 7, seed=2)
    path, ends, off = ctrnn.LinearPath(x, TS[[0, 3]]), TS[[0, 3]], []
    with torch.no_grad(), kernels_for_all("compiled"):
        exact = integrate(own, path, h0, ends, method="dopri8", rtol=1e-13, atol=1e-13).hs[-1]
        for step in (0.125, 0.0625):
            solved = integrate(own, path, h0, ends, method=STIFF[name], rtol=0.5, atol=1e6, first_step=step, max_step=step)
            assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
            off.append(float((solved.hs[-1] - exact).abs().max()))
    assert math.log2(off[0] / off[1]) == pytest.approx(order, abs=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", INPUTS)
def test_rodas5p_as_code_is_rodas5p(inputs):
    found = []
    for method in ("rodas5p", STIFF["Rodas5PByHand"]):
        x, h0, own = normal(len(TS), 20, 3).requires_grad_(), normal(20, 7, seed=2).requires_grad_(), gated()
        path, speed = INPUTS[inputs](x)
        with kernels_for_all("compiled"):
            solved = integrate(own, path, h0, path.knots, method=method, speed=speed, **COARSE)
        assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
        gradients = torch.autograd.grad(solved.hs.square().sum(), [x, h0, *own.parameters()])
        found.append((solved.stats["steps_of_samples"], solved.stats["nfe"], (solved.hs, *gradients)))
    assert found[0][:2] == found[1][:2]
    assert_close(found[0][2], found[1][2], rtol=0, atol=1e-11)


@pytest.mark.slow
def test_neighbours_and_threads_change_no_bit_of_a_sample():
    torch.manual_seed(3)
    own, x, h0, threads, found = Soft(5), normal(len(TS), 40, 5), normal(40, 5, seed=2), torch.get_num_threads(), []
    own.project = lambda x: x  # from the projected input on, which is here the input
    try:
        for count, rows in ((1, slice(0, 40)), (3, slice(0, 40)), (1, slice(5, 6))):
            torch.set_num_threads(count)
            with kernels_for_all("compiled"):
                solved = integrate(own, ctrnn.LinearPath(x[:, rows], TS), h0[rows], TS, method=STIFF["Ros3p"])
            assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
            found.append(solved.hs)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0][:, 5:6], found[2])


# What is recorded


def recorded(method, state=7):
    module = AttemptModule(method, state, calls_of(method, state, torch.float64))
    return program_of(module, dict.fromkeys(module.of_field, True), torch.float64, attempt_written).written


def test_a_text_says_nothing_of_the_width_and_factors_once():
    few, wide = recorded(Ros2()), recorded(Ros2(), 9)
    assert few.text == wide.text
    assert (few.calls.factors, few.calls.factors_back, few.calls.pairs, few.calls.drift) == (1, 1, 2, True)
    assert [few.text.count(f"calls.{what}(") for what in ("factor", "evaluate", "solve_for", "pull_jacobian")] == [2, 3, 6, 1]


def test_nothing_goes_back_through_a_jacobian_that_is_detached():
    text = recorded(AnyMatrix())
    assert text.calls.pairs == 0
    assert "pull_jacobian" not in text.text
    assert not text.calls.drift


def test_a_jacobian_counts_as_many_evaluations_as_in_torch():
    # It is kept where a step is tried again, as steps of all samples in torch do not.
    own, x = gated(), normal(len(TS), 1, 3)
    with kernels_for_all("compiled"):
        mine, theirs = (
            integrate(
                own, ctrnn.LinearPath(x, TS), normal(1, 7, seed=2), TS, method=Ros2(), first_step=0.1, fused=fused, **COARSE
            )
            for fused in (True, False)
        )
    assert (mine.stats["engine"], theirs.stats["engine"]) == ("compiled", "steps")
    assert 0 <= theirs.stats["nfe"] - mine.stats["nfe"] <= 8 * theirs.stats["num_rejected_steps"] + 1


# What has no kernel


class Solving(EmbeddedMethod):
    """An attempt that is given as a function."""

    order, evaluations, jacobians = 1, 1, 1

    def __init__(self, code) -> None:
        self.code = code

    def attempt(self, slope, tau, dt, h, start):
        return Attempt(*self.code(slope, tau, dt, dt.to(h), h, slope(tau, h) if start is None else start))


def eye(h):
    return torch.eye(h.shape[-1]).to(h)


REFUSED = {
    "entries": (lambda f, tau, dt, s, h, k: (h + s * f.jacobian(tau, h)[:, 0], s * k), "an index"),
    "a transpose": (lambda f, tau, dt, s, h, k: (h + s * (f.jacobian(tau, h).mT @ k[..., None])[..., 0], s * k), "mT"),
    "its diagonal": (
        lambda f, tau, dt, s, h, k: (h + s * torch.einsum("bii,bi->bi", f.jacobian(tau, h), k), s * k),
        "einsum",
    ),
    "a mask": (
        lambda f, tau, dt, s, h, k: (h + s * ((f.jacobian(tau, h) * eye(h)) @ k[..., None])[..., 0], s * k),
        "no number of each sample",
    ),
    "another matrix": (
        lambda f, tau, dt, s, h, k: (h + torch.linalg.solve(f.jacobian(tau, h) + torch.ones(7, 7).to(h), s * k), s * k),
        "a sum with another tensor",
    ),
    "its exponential": (
        lambda f, tau, dt, s, h, k: (h + (torch.matrix_exp(f.jacobian(tau, h)) @ k[..., None])[..., 0], s * k),
        "exp",
    ),
    "elsewhere": (
        lambda f, tau, dt, s, h, k: (h + torch.linalg.solve(eye(h) - s[..., None] * f.jacobian(tau, h + s * k), s * k), s * k),
        "elsewhere than where a step begins",
    ),
    "later": (
        lambda f, tau, dt, s, h, k: (h + s * s * f.time_derivative(tau + dt, dt, h), s * k),
        "elsewhere than where a step begins",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_that_makes_something_else_of_the_jacobian_says_why(name):
    code, why = REFUSED[name]
    with kernels_for_all("compiled"), torch.no_grad():
        solved = integrate(
            gated(), ctrnn.HeldPath(normal(3, 2, 3), TS), normal(2, 7), TS, method=Solving(code), rtol=0.5, atol=1e6
        )
    assert solved.stats["engine"] == "steps"
    assert why in solved.stats["engine_why"]


def test_a_method_that_divides_by_dt_is_compiled_for_samples_wait_with_one_above_0():
    def divided(f, tau, dt, s, h, k):
        moved = torch.linalg.solve(eye(h) / s[..., None] - f.jacobian(tau, h), k)
        return h + moved, moved - s * k

    check(Solving(divided), inputs="hermite, times of each", batch=4)


def test_a_method_that_reads_jacobians_declares_them():
    class Silent(Ros2):
        jacobians = 0

    with pytest.raises(ValueError, match="`jacobians` is 0; declare 1"):
        discretize.ContinuousRNN(gated(), Silent(), fused="always")(normal(4, 2, 3))
