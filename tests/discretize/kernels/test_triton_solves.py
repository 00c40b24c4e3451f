"""Adaptive solves by kernels in Triton, under its interpreter: against the engine in torch, the kernels of the CPU and SciPy."""

import copy
import math

import numpy as np
import pytest
import scipy.integrate
import torch
from conformance import agree, kernels_for_all, solve
from on_gpu import ON_GPU, needs_triton
from own_fields import Own
from own_methods import METHODS, STIFF, TableByHand
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Checkpointed, SolverError, integrate
from discretize.kernels.triton import kernels
from discretize.kernels.triton import solves as solve_run
from discretize.kernels.triton.functions import preamble
from discretize.kernels.triton.matrices import MATRICES, units_of
from discretize.kernels.triton.shapes import many

SAME = 1e-9  # the same steps, sums in another order; tanh and powers by other formulas
TIGHT = {"rtol": 1e-6, "atol": 1e-6}
# Of numpy, at numbers that `where` leaves out.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")]


@pytest.fixture(autouse=True)
def interpreter():
    needs_triton()
    with kernels_for_all():
        yield


def normal(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), dtype=dtype)


def test_solves_are_scipys_to_the_tolerance_at_each_samples_own_stiffness():
    def fading(t, h):
        rate, y = h.chunk(2, -1)
        return torch.cat([torch.zeros_like(rate), rate * (torch.cos(t) - y)], -1)

    h0 = torch.tensor([[rate, 1.0] for rate in (0.0, 1.0, 20.0)])
    solved = integrate(fading, None, h0, [0.0, 1.0, 2.0], method="tsit5", rtol=1e-7, atol=1e-7)
    assert solved.stats["engine"] == "triton", solved.stats["engine_why"]
    few, _, many = solved.stats["steps_of_samples"]
    assert many > 3 * few
    for row, (rate, start) in enumerate(h0.tolist()):
        exact = scipy.integrate.solve_ivp(
            lambda t, y, rate=rate: rate * (np.cos(t) - y), (0, 2), [start], "DOP853", [1.0, 2.0], rtol=1e-12, atol=1e-12
        )
        assert_close(solved.hs[1:, row, 1].numpy(), exact.y[0], rtol=0, atol=1e-5)  # 100 tolerances


def test_steps_beyond_the_first_room_and_launches_back_change_nothing(monkeypatch):
    monkeypatch.setattr(solve_run, "STEPS_A_SEGMENT", 0)
    monkeypatch.setattr(solve_run, "STEPS_AT_ALL", 1)
    monkeypatch.setattr(solve_run, "MOST_VALUES", 1)
    torch.manual_seed(2)
    ts, x = torch.arange(3.0), normal(2, 2, 2).requires_grad_()
    agree("triton", solve(ctrnn.gated(2, 3), lambda x: (ctrnn.HeldPath(x, ts), None), x, 0.1 * normal(2, 3), ts, **TIGHT), SAME)


def test_blocks_are_solved_again_on_the_way_back():
    """Also where a sequence begins later than others, so that a block guesses its first step beside others' next ones."""
    torch.manual_seed(3)
    field, x, h0 = Own(), normal(5, 3, 3).requires_grad_(), 0.3 * normal(3, 10)
    knots = torch.rand(6, 3).cumsum(0)
    ts = knots[[0, 2, 3, 5]]
    ts[2:, 1] = ts[1, 1]  # a sequence that is over
    ts[:2, 2] = ts[2, 2]  # one that has not begun
    launches, launched = [], solve_run.launch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve_run, "launch", lambda text, name, *rest: [launches.append(name), launched(text, name, *rest)])
        gradient = Checkpointed(5000)
        agree("triton", solve(field, lambda x: (ctrnn.HeldPath(x, knots), None), x, h0, ts, gradient=gradient, **TIGHT), SAME)
    assert launches.count("backward") >= 3


def of_three_units(method, dtype=torch.float64, units=3, path=ctrnn.LinearPath, **how):
    """A solve of a few steps along an input that moves, for methods as code: most of the time is that of their recording."""
    torch.manual_seed(5)
    x, h0, ts = (
        normal(3, 2, 2, dtype=dtype).requires_grad_(),
        0.5 * normal(2, units, dtype=dtype).requires_grad_(),
        torch.arange(3.0),
    )
    ts = torch.arange(4.0) if path is ctrnn.HeldPath else ts
    how = {"method": method, "rtol": 1e-2, "atol": 1e-2, "counted": dtype == torch.float64} | how
    return solve(ctrnn.gated(2, units, dtype=dtype), lambda x: (path(x, ts), None), x, h0, ts, **how)


# That goes back through some of its slopes only; whose step and error are no sums of slopes.
@pytest.mark.parametrize("name", ["Blind", *(pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name != "Blind")])
def test_a_method_given_as_code_takes_the_steps_of_torch(name):
    agree("triton", of_three_units(METHODS[name]), SAME)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("dtype", "units"), [(torch.float64, 1), (torch.float32, 5)])
def test_methods_given_as_code_solve_fields_of_other_sizes_and_dtypes(name, dtype, units):
    # In float32 another rounding may make another step of one that is just accepted.
    agree("triton", of_three_units(METHODS[name], dtype, units, rtol=1e-3, atol=1e-3), SAME if dtype == torch.float64 else 2e-2)


@pytest.mark.slow
def test_a_method_on_a_clock_goes_back_through_slopes_by_its_speed():
    clock = ctrnn.SmoothWarp(2.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
    x, h0, ts = normal(3, 2, 2).requires_grad_(), 0.5 * normal(2, 3), torch.arange(3.0)
    field = ctrnn.gated(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    along = lambda x: (ctrnn.WarpedPath(ctrnn.HermitePath(x, ts), clock), clock.speed)  # noqa: E731
    agree("triton", solve(field, along, x, h0, method=METHODS["HeunByHand"], rtol=1e-2, atol=1e-2), SAME)


@pytest.mark.slow
def test_tensors_of_a_method_are_read_at_each_call():
    """Two methods of one code: the second finds the kernel of the first."""
    for c in (0.5, 0.75):
        a = torch.tensor([[0.0, 0.0], [c, 0.0]], dtype=torch.float64)
        b = torch.tensor([1 - 1 / (2 * c), 1 / (2 * c)], dtype=torch.float64)
        agree("triton", of_three_units(TableByHand(a, b, b - torch.tensor([1.0, 0.0], dtype=torch.float64), 2)), SAME)


# Ros2 reads the derivative by the time, and a solution in the right side of another; AnyMatrix multiplies with a Jacobian that
# is held for what it is; Sdirk2 solves what it is given by calls one after the other.
@pytest.mark.slow
@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath], ids=lambda path: path.__name__)
@pytest.mark.parametrize("name", STIFF)
def test_a_method_given_as_code_that_reads_jacobians_takes_the_steps_of_torch(name, path):
    agree("triton", of_three_units(STIFF[name], path=path), SAME)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rodas5p", STIFF["Ros2"], STIFF["AnyMatrix"]], ids=str)
@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.HermitePath], ids=lambda path: path.__name__)
def test_jacobians_on_a_clock_are_those_by_the_time_of_the_segment(method, path):
    clock = ctrnn.SmoothWarp(2.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
    x, h0, ts = normal(3, 2, 2).requires_grad_(), 0.5 * normal(2, 3), torch.arange(3.0 + (path is ctrnn.HeldPath))
    field = ctrnn.gated(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    along = lambda x: (ctrnn.WarpedPath(path(x, ts), clock), clock.speed)  # noqa: E731
    agree("triton", solve(field, along, x, h0, method=method, rtol=1e-2, atol=1e-2), SAME)


@pytest.mark.parametrize("method", ["dopri5", pytest.param("rodas5p", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
def test_each_unit_has_a_tolerance_of_its_own(method, dtype):
    """The loosest of them alone would leave the first guess and all steps longer."""
    torch.manual_seed(4)
    x, h0, ts = normal(2, 3, 2, dtype=dtype).requires_grad_(), 0.5 * normal(3, 5, dtype=dtype), torch.arange(3.0)
    atol = torch.tensor([1e-2, 1e-1, 1e-6, 1.0, 1e-3], dtype=torch.float64)
    double = dtype == torch.float64  # in float32 another rounding may make another step of one that is just accepted
    how = {"method": method, "rtol": 1e-6, "atol": atol, "counted": double}
    along = solve(ctrnn.gated(2, 5, dtype=dtype), lambda x: (ctrnn.HeldPath(x, ts), None), x, h0, ts, **how)
    agree("triton", along, SAME if double else 1e-3)


class Growing(ctrnn.VectorField):
    def flow(self, projected, h):
        return h * h


class Rooted(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected * 0 - 1 / torch.sqrt(h)


FAILURES = {
    "too many steps": (Growing, {"max_num_steps": 7}),
    "unbounded": (Growing, {}),
    "not finite": (Rooted, {}),
}


@pytest.mark.parametrize("which", [["too many steps"], pytest.param(["unbounded", "not finite"], marks=pytest.mark.slow)])
def test_a_solve_that_fails_says_why_in_the_same_words(subtests, which):
    path, ts = ctrnn.HeldPath(torch.zeros(4, 3, 1)), torch.arange(5.0) / 2
    for name in which:
        field, settings = FAILURES[name]
        with subtests.test(name):
            said = []
            for fused in (True, False):
                with pytest.raises(SolverError) as raised:
                    integrate(field(1, 1), path, torch.tensor([[0.3], [1.0], [0.9]]), ts, fused=fused, **TIGHT, **settings)
                solved = raised.value.trajectory
                said.append((str(raised.value), raised.value.sample, solved.status, len(solved.hs)))
                assert solved.stats["engine"] == ("triton" if fused else "steps")
            assert said[0] == said[1]


def test_steps_accepted_at_their_minimum_are_told():
    for fused in (True, False):
        with pytest.warns(discretize.SolverWarning, match="accepted at min_step=0.2 in spite of their error, the first at t = 0"):
            integrate(lambda t, h: -9 * h, None, torch.ones(2, 1), [0.0, 1.0], min_step=0.2, first_step=0.2, fused=fused, **TIGHT)


@pytest.mark.slow
def test_a_moving_equilibrium_is_followed_with_long_steps():
    """Prothero and Robinson's equation, h = cos t: by an explicit method some thousand steps."""

    def pulled(t, h):
        return -1e4 * (h - torch.cos(t)) - torch.sin(t)

    h0 = torch.ones(2, 1).requires_grad_()
    solved = integrate(pulled, None, h0, [0.0, 1.0], method="rodas5p", rtol=1e-6, atol=1e-6)
    assert solved.stats["engine"] == "triton", solved.stats["engine_why"]
    assert solved.stats["num_steps"] < 50
    assert_close(solved.hs[-1], torch.full((2, 1), math.cos(1.0)), rtol=0, atol=1e-5)
    (gradient,) = torch.autograd.grad(solved.hs[-1].sum(), h0)
    assert gradient.abs().max() < 1e-5  # exp(-10,000), but for the error of the steps


@pytest.mark.slow
def test_a_slow_unit_keeps_its_digits_beside_a_stiff_one():
    def relaxing(t, h):
        y, z = h[..., :1], h[..., 1:]
        return torch.cat([z, 1e6 * ((1 - y * y) * z - y)], -1)

    h0, ends = torch.stack([torch.linspace(1.3, 1.9, 8), torch.zeros(8)], -1), []
    how = {"method": "rodas5p", "first_step": 1e-4, "max_step": 1e-4, "rtol": 0.9, "atol": 1e6}
    for dtype, engine in ((torch.float32, "triton"), (torch.float64, "steps")):
        solved = integrate(relaxing, None, h0.to(dtype), [0.0, 1e-4], fused=engine == "triton", **how)
        assert solved.stats["engine"] == engine, solved.stats["engine_why"]
        ends.append(solved.hs[-1, :, 0].double())
    # Half a rounding of y, and those of sums of stages. Rows exchanged by the numbers of the stiff unit lose twenty.
    assert_close(*ends, rtol=2 * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.parametrize("size", [5, pytest.param(1, marks=pytest.mark.slow), pytest.param(32, marks=pytest.mark.slow)])
def test_matrices_are_factored_with_the_largest_pivots(size):
    text = """
@triton.jit
def both_ways(m, order, v, w, batch, SIZE: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.arange(0, ROWS).to(tl.int64)[:, None]
    inside = rows < batch
    factored(m + rows * SIZE * SIZE, order + rows * SIZE, inside, SIZE, UNITS)
    solved(m + rows * SIZE * SIZE, order + rows * SIZE, v + rows * SIZE, v + rows * SIZE, inside, SIZE, UNITS, False)
    solved(m + rows * SIZE * SIZE, order + rows * SIZE, w + rows * SIZE, w + rows * SIZE, inside, SIZE, UNITS, True)
"""
    m, right = normal(6, size, size), normal(6, size)
    m[0] = torch.eye(size).roll(1, 0) * torch.linspace(1, 2, size)  # no pivot on the diagonal
    m[1, 0, 0] = 1e-30  # one that must not be taken, but where it is the only one
    m[2] = 0  # singular
    m[3] = torch.nan
    found = [m.clone(), torch.zeros(6, size), right.clone(), right.clone()]
    sizes = {"SIZE": size, "UNITS": units_of(size)}
    kernels.launch(preamble(torch.float64) + MATRICES + text, "both_ways", right, many(size), (*found, len(m)), sizes)
    whole = [0, 1, 4, 5]
    for mine, matrix in ((found[2], m), (found[3], m.mT)):
        assert_close(mine[whole], torch.linalg.solve(matrix[whole], right[whole]), rtol=1e-9, atol=0)  # conditions below 1e4
        assert not mine[2:4].isfinite().any()


def in_half_precision(field, dtype, path, x, h0, **settings):
    """States and gradients of a field, samples and states in half precision, and of the same numbers in float32 by steps."""
    answers = []
    for own in (dtype, torch.float32):
        like = copy.deepcopy(field).to(dtype).to(own)
        sources = [tensor.to(dtype).to(own).requires_grad_() for tensor in (h0, x)]
        ts = torch.arange(len(x) + (path is ctrnn.HeldPath)) / 2
        solved = integrate(like, path(sources[1], ts), sources[0], ts, fused=own == dtype, **settings)
        assert solved.stats["engine"] == ("triton" if own == dtype else "steps")
        weight = torch.linspace(-1, 1, solved.hs.numel(), dtype=torch.float32).reshape(solved.hs.shape)
        between = solved(torch.tensor([0.2, 0.7]))
        gradients = torch.autograd.grad((solved.hs * weight).sum(), [*sources, *like.parameters()])
        answers.append([solved.hs, between, *gradients])
        assert all(each.dtype == own for each in answers[-1])
    return zip(*answers, strict=True)


HALF = [
    (torch.bfloat16, "gated", ctrnn.HeldPath, "dopri5"),
    pytest.param(torch.bfloat16, "lem", ctrnn.LinearPath, "dopri8", marks=pytest.mark.slow),
    pytest.param(torch.float16, "lstm", ctrnn.HermitePath, "tsit5", marks=pytest.mark.slow),
    pytest.param(torch.bfloat16, "gru", ctrnn.LinearPath, "rodas5p", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("dtype", "name", "path", "method"), HALF)
def test_half_precision_is_right_to_the_rounding_of_what_is_stored(dtype, name, path, method):
    torch.manual_seed(0)
    field = getattr(ctrnn, name)(3, 5)
    x, h0 = 0.5 * normal(4, 3, 3), 0.3 * normal(3, field.state_size)
    for mine, theirs in in_half_precision(field, dtype, path, x, h0, method=method, rtol=1e-4, atol=1e-4):
        # Roundings of the projected input, of kept states and of a result, each of eps (the interpreter cuts digits off), or
        # half of it; and in a gradient a few of them one after the other.
        assert_close(mine.float(), theirs, rtol=0, atol=4 * torch.finfo(dtype).eps * float(theirs.detach().abs().max()))


@pytest.mark.slow
def test_only_results_are_rounded_of_states_and_times_in_half_precision():
    """Steps of 2^-10 are lost beside 1, the time 1000 + 2^-5 is none in bfloat16, and blocks go on from states as they are."""
    how = {"first_step": 2**-10, "max_step": 2**-10, "rtol": 1e-3, "atol": 1e-3}

    def f(t, h):
        return torch.cat([-h[:, :1], 100 * (t - 1000)], 1)

    solved = integrate(f, None, torch.ones(2, 2).bfloat16(), [1000.0, 1000 + 2**-5], **how)
    assert (solved.stats["engine"], solved.hs.dtype) == ("triton", torch.bfloat16)
    exact = torch.tensor([math.exp(-(2**-5)), 1 + 50 * 2**-10]).expand(2, 2)
    assert_close(solved.hs[-1].double(), exact, rtol=2**-7, atol=0)  # of the result; each is 2^-5 away from 1
    field, x, ts = ctrnn.gated(3, 5).bfloat16(), normal(6, 2, 3).bfloat16(), torch.arange(7.0)
    whole, blocks = (
        integrate(field, ctrnn.HeldPath(x, ts), torch.zeros(2, 5).bfloat16(), ts, gradient=gradient)
        for gradient in (None, Checkpointed(3000))
    )
    assert torch.equal(whole.hs, blocks.hs)
    first, second = (torch.autograd.grad(each.hs.sum(), field.parameters()) for each in (whole, blocks))
    for one, other in zip(first, second, strict=True):
        assert_close(one.float(), other.float(), rtol=0, atol=2**-7 * float(one.abs().max()))  # sums in another order, rounded


@pytest.mark.slow
def test_times_move_states_in_half_precision_and_solves_that_fail_keep_their_dtype():
    torch.manual_seed(0)
    field, x, found = ctrnn.gated(3, 4).bfloat16(), normal(3, 2, 3).bfloat16(), []
    for own in (torch.bfloat16, torch.float32):
        ts = torch.tensor([0.0, 0.7, 1.1, 2.0]).requires_grad_()
        path, h0 = ctrnn.HeldPath(x.to(own), ts), torch.zeros(2, 4, dtype=own)
        solved = integrate(copy.deepcopy(field).to(own), path, h0, ts, fused=own == torch.bfloat16, rtol=1e-4, atol=1e-4)
        assert solved.stats["engine"] == ("triton" if own == torch.bfloat16 else "steps")
        assert solved.hs.dtype == own
        found += torch.autograd.grad(solved.hs.double().sin().sum(), ts)
    assert_close(*found, rtol=0, atol=4 * 2**-7 * float(found[1].abs().max()))  # as above
    with pytest.raises(SolverError, match="grows without bound") as raised:
        integrate(lambda t, h: h * h, None, torch.ones(2, 1).bfloat16(), [0.0, 0.5, 2.0], rtol=1e-3, atol=1e-3)
    assert raised.value.trajectory.hs.dtype == torch.bfloat16
    assert_close(raised.value.trajectory.hs[-1].double(), torch.full((2, 1), 2.0), rtol=2**-6, atol=0)  # 1 / (1 - t) at 1/2


def test_what_is_not_taken_says_why(subtests):
    with subtests.test("wide"):
        field = ctrnn.gated(3, 33)
        solved = integrate(field, ctrnn.HeldPath(normal(2, 2, 3)), torch.zeros(2, 33), torch.arange(3.0), method="rodas5p")
        assert solved.stats["engine"] != "triton"
        assert "for 32 units or fewer, and this state has 33" in solved.stats["engine_why"]
    field, path, h0 = ctrnn.gated(3, 5).bfloat16(), ctrnn.HeldPath(normal(2, 2, 3).bfloat16()), torch.zeros(2, 5).bfloat16()
    for words, settings in {
        "there is none: `fused` is False. Use float32": {"fused": False},
        "takes its own backward pass": {"gradient": discretize.Adjoint()},
        "`events` do not go with `h0` of": {"events": discretize.Event(lambda t, h: h[:, 0])},
        "float64": {"path": ctrnn.HeldPath(path.xs.double())},
    }.items():
        with subtests.test(words), pytest.raises((TypeError, ValueError), match=words):
            integrate(field, settings.pop("path", path), h0, torch.arange(3.0), **settings)


@pytest.mark.records
def test_a_wrong_kernel_is_found_out_at_its_first_use(monkeypatch):
    loaded = kernels._loaded
    monkeypatch.setattr(kernels, "_loaded", lambda text: loaded(text.replace("tanh(a):", "tanh(a):\n    a = 1.01 * a")))
    solved = integrate(ctrnn.gated(3, 7), ctrnn.HeldPath(normal(2, 2, 3)), torch.zeros(2, 7), torch.arange(3.0))
    assert solved.stats["engine"] == ("steps" if ON_GPU else "compiled")
