"""torchcde's splines as paths: their values, their very ends, their gradients, and solves against SciPy's."""

import pytest
import references
import torch
import torchcde
from torch.testing import assert_close

import ctrnn
from ctrnn.inputs.splines import as_path
from discretize import integrate

TIGHT = {"rtol": 1e-8, "atol": 1e-8}


def irregular(*shape):
    return torch.cumsum(0.05 + torch.rand(*shape), 0)


def natural(xs, ts=None):
    return torchcde.CubicSpline(torchcde.natural_cubic_coeffs(xs, ts), ts)


def hermite(xs, ts=None):
    return torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(xs, ts), ts)


def linear(xs, ts=None):
    return torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(xs, ts), ts)


every_kind = pytest.mark.parametrize("kind", [natural, hermite, linear])


@every_kind
@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize(("batch", "time", "features"), [(3, 6, 2), (1, 2, 1)])
def test_values_and_slopes_inside_of_pieces_are_the_splines(kind, stamped, batch, time, features):
    xs, ts = torch.randn(batch, time, features), irregular(time) if stamped else None
    spline = kind(xs, ts)
    path = as_path(spline)
    assert torch.equal(path.knots, spline.grid_points)
    times = path.knots[:-1] + 0.3 * path.knots.diff()
    assert torch.equal(path(times), spline.evaluate(times).transpose(0, 1))
    assert torch.equal(path.derivative(times), spline.derivative(times).transpose(0, 1))
    for t in times:
        assert torch.equal(path(t), spline.evaluate(t))
        assert torch.equal(path.derivative(t), spline.derivative(t))
    own = times[0] + torch.rand(4, batch) * (times[-1] - times[0])
    for i in range(batch):
        assert_close(path(own)[:, i], spline.evaluate(own[:, i].contiguous())[i], rtol=0, atol=1e-13)


def test_every_piece_has_its_own_slope_at_both_ends():
    xs, ts = torch.randn(3, 6, 2), irregular(6)
    path, ours = as_path(linear(xs, ts)), ctrnn.LinearPath(xs.transpose(0, 1), ts)
    assert_close(path(ts), ours(ts), rtol=0, atol=1e-14)
    assert_close(path.derivative(ts), ours.derivative(ts), rtol=0, atol=1e-12)  # torchcde's own are those to the left
    for k in range(5):
        for t in ts[k : k + 2]:
            assert_close(path.piece(k)(t), ours.piece(k)(t), rtol=0, atol=1e-14)
            assert_close(path.piece(k).derivative(t), ours.piece(k).derivative(t), rtol=0, atol=1e-12)


def test_a_warped_spline_is_the_spline_of_the_clock():
    xs, warp = torch.randn(3, 6, 2), ctrnn.AffineWarp(0.5, 0.25)
    spline = natural(xs)
    warped, ts = ctrnn.WarpedPath(spline, warp), torch.tensor([0.1, 1.2, 5.0])
    assert_close(warped(ts), spline.evaluate(warp(ts)).transpose(0, 1), rtol=0, atol=1e-14)
    field, h0, asked = ctrnn.gated(2, 3), torch.randn(3, 3), torch.tensor([0.0, 1.5, 9.0])
    with torch.no_grad():
        fast = integrate(field, warped, h0, asked, speed=warp.speed, **TIGHT).hs
        straight = integrate(field, spline, h0, warp(asked), **TIGHT).hs
    assert_close(fast, straight, rtol=0, atol=1e-6)


def test_a_spline_of_one_number_may_be_a_speed():
    field, path, h0 = ctrnn.gated(2, 3), ctrnn.LinearPath(torch.randn(4, 3, 2)), torch.randn(3, 3)
    rates = torch.tensor([1.0, 2.0, 0.5, 3.0])[:, None]
    ours = integrate(field, path, h0, [0.0, 3.0], speed=ctrnn.LinearPath(rates[:, None]), **TIGHT).hs
    assert_close(integrate(field, path, h0, [0.0, 3.0], speed=linear(rates[None]), **TIGHT).hs, ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("leans", ["left", "right"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_spline_with_jumps_is_read_piece_by_piece_whichever_way_it_leans(leans, dtype):
    class Steps:
        """k on piece k: no torch module, and of no library."""

        grid_points = torch.tensor([0.0, 0.1, 0.7, 5.0], dtype=dtype)
        interval = grid_points[[0, -1]]

        def evaluate(self, t):
            k = torch.bucketize(t.to(dtype), self.grid_points, right=leans == "right") - 1
            return k.clamp(0, 2)[..., None].to(dtype)

        def derivative(self, t):
            return torch.zeros(*t.shape, 1, dtype=dtype)

    path = as_path(Steps())
    assert path(0.5).dtype == dtype
    for k in range(3):
        piece = path.piece(k)
        assert [float(piece(t)) for t in (piece.start, (piece.start + piece.end) / 2, piece.end)] == [k, k, k]
        assert float(path(piece.start)) == k
    assert path(path.knots).flatten().tolist() == [0, 1, 2, 2]
    assert float(path.derivative(0.5)) == 0


@every_kind
def test_a_solve_agrees_with_dop853_restarted_at_each_knot(kind):
    method = "rodas5p" if kind is natural else "dopri8"
    field, xs, ts, h0 = ctrnn.gru(2, 3), torch.randn(2, 4, 2), irregular(4), torch.randn(2, 3)
    spline = kind(xs, ts)
    expected = references.dop853(field, lambda k, t: spline.evaluate(torch.tensor(t)), ts, h0, ts)
    tolerances = TIGHT if method == "dopri8" else {"rtol": 1e-5, "atol": 1e-5}
    with torch.no_grad():
        solved = integrate(field, spline, h0, ts, method=method, **tolerances)
    assert_close(solved.hs, expected, rtol=0, atol=1e-6 if method == "dopri8" else 1e-3)


def test_a_controlled_equation_driven_by_time_is_solved_as_by_cdeint():
    """With dX = dt in a channel of its own, torchcde's dz = f(z) dX is dz/dt = f(z) x'(t): the field dh/dt = x tanh(h)."""

    class Controlled(ctrnn.VectorField):
        def flow(self, projected, h):
            return projected * torch.tanh(h)

    class Slope:
        """The derivative of a spline, as a spline."""

        def __init__(self, spline):
            self.grid_points, self.interval, self.evaluate = spline.grid_points, spline.interval, spline.derivative
            self.derivative = lambda t: torch.full_like(spline.derivative(t), torch.nan)

    spline, h0 = natural(torch.randn(3, 6, 2)), torch.randn(3, 2)
    ts = torch.tensor([0.0, 1.5, 5.0])
    expected = torchcde.cdeint(
        X=spline, func=lambda t, z: torch.diag_embed(torch.tanh(z)), z0=h0, t=ts, adjoint=False, backend="torchdiffeq",
        method="dopri5", rtol=1e-8, atol=1e-8, options={"jump_t": spline.grid_points},
    )  # fmt: skip
    solved = integrate(Controlled(2, 2), Slope(spline), h0, ts, **TIGHT).hs
    assert_close(solved, expected.transpose(0, 1), rtol=0, atol=1e-6)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_reach_what_the_coefficients_are_made_of(kind, dtype):
    xs = torch.randn(2, 3, 2, dtype=dtype, requires_grad=True)
    field, h0, ts = ctrnn.gated(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype), torch.arange(3.0)

    def solve(xs):
        return integrate(field, kind(xs), h0, ts, method="rk4").hs

    if dtype == torch.float64:
        assert torch.autograd.gradcheck(solve, (xs,), fast_mode=True)
        return
    (gradient,) = torch.autograd.grad(solve(xs).sum(), xs)
    precise = xs.detach().double().requires_grad_()
    field, h0 = field.double(), h0.double()
    assert_close(gradient.double(), torch.autograd.grad(solve(precise).sum(), precise)[0], rtol=0, atol=1e-5)


def test_float32_splines_late_in_time_are_read_in_float64():
    # In float32 a time of 1e4 would be off by 5e-4, and values with it.
    ts = 1e4 + torch.arange(5)
    xs = torch.randn(3, 5, 2).float()
    spline = natural(xs, ts.float())
    exact = torchcde.CubicSpline(torchcde.natural_cubic_coeffs(xs, ts.float()).double(), ts.double())
    path, times = as_path(spline), ts[:-1] + torch.tensor([0.123456, 0.5, 0.999, 1e-4])
    assert path(times).dtype == path.derivative(times).dtype == torch.float32
    assert_close(path(times), exact.evaluate(times).transpose(0, 1).float(), rtol=0, atol=1e-6)
    assert_close(path.derivative(times), exact.derivative(times).transpose(0, 1).float(), rtol=0, atol=1e-5)


def test_batch_axes_are_one_and_none_are_a_batch_of_one():
    xs, ts = torch.randn(2, 3, 5, 4), torch.tensor([0.5, 3.3])
    path = as_path(natural(xs))
    assert torch.equal(path(0.5), as_path(natural(xs.reshape(6, 5, 4)))(0.5))
    assert torch.equal(path(ts), as_path(natural(xs.reshape(6, 5, 4)))(ts))
    assert torch.equal(as_path(natural(xs[0, 0]))(ts), as_path(natural(xs[0, :1]))(ts))
    assert path(ts[:0]).shape == (0, 6, 4)


def test_splines_that_are_none_are_refused():
    class Odd:
        interval = torch.tensor([0.0, 2.0])

        def __init__(self, grid_points, value):
            self.grid_points, self.value = torch.tensor(grid_points), value

        def evaluate(self, t):
            return self.value

        derivative = evaluate

    with pytest.raises(ValueError, match=r"`grid_points` must increase strictly, but repeats at index 2"):
        as_path(Odd([0.0, 1.0, 1.0], torch.zeros(3, 2)))
    with pytest.raises(ValueError, match=r"`grid_points` holds one time"):
        as_path(Odd([0.0], torch.zeros(3, 2)))
    with pytest.raises(TypeError, match=r"`evaluate` of a Odd must give floating point"):
        as_path(Odd([0.0, 1.0], [0.0]))


@pytest.mark.parametrize("value", [torch.zeros(4, 3, 2), torchcde.CubicSpline, torch.nn.Linear(2, 2)])
def test_what_is_neither_is_refused(value):
    with pytest.raises(TypeError, match=r"`path` must be a ctrnn.inputs.Path, got \w+; wrap samples in `ctrnn.HeldPath`"):
        as_path(value)
