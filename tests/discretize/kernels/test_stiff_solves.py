"""The stiff method by kernels: against SciPy and its order, and what it promises beside the steps of the engine in torch."""

import math

import pytest
import scipy.integrate
import torch
from conformance import kernels_for_all
from own_fields import Soft
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import SolverError, integrate

TIGHT = {"rtol": 1e-6, "atol": 1e-6}
STIFF = {"method": "rodas5p"}


@pytest.fixture(autouse=True)
def short_solves():
    with kernels_for_all("compiled"):
        yield


class Equation(nn.Module):
    """dh/dt of the time and the state."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, t, h):
        return self.of(t, h)


class Cubic(nn.Module):
    """dh/dt = a cos(3 t) h + b h'^3, h' another unit's. One program for all a and b."""

    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor(a)), nn.Parameter(torch.tensor(b))

    def forward(self, t, h):
        return self.a * torch.cos(3 * t) * h + self.b * h.roll(1, -1) ** 3


def normal(*sizes, **how):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), **{"dtype": torch.float64, **how})


def van_der_pol(t, h):
    y, z = h[..., :1], h[..., 1:]
    return torch.cat([z, 1000 * (1 - y * y) * z - y], -1)


def robertson(t, h):
    a, b, c = h[..., :1], h[..., 1:2], h[..., 2:]
    first, second, third = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return torch.cat([second - first, first - second - third, third], -1)


def pulled(t, h):
    """Prothero and Robinson's: h = cos t."""
    return -1e4 * (h - torch.cos(t)) - torch.sin(t)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "h0", "ts", "scale"),
    [
        (van_der_pol, [2.0, 0.0], [0.0, 200.0, 900.0], [1.0, 1e-3]),
        (robertson, [1.0, 0.0, 0.0], [0.0, 1.0, 100.0, 4000.0], [1.0, 1e-5, 1.0]),
    ],
)
def test_stiff_systems_are_solved_as_radau_solves_them(f, h0, ts, scale):
    start = torch.tensor([h0], dtype=torch.float64)
    solved = integrate(Equation(f), None, start, ts, rtol=1e-8, atol=1e-12, **STIFF)
    assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]

    def rate(t, h):
        return f(torch.tensor([[t]], dtype=torch.float64), torch.from_numpy(h)[None])[0].numpy()

    theirs = scipy.integrate.solve_ivp(rate, (ts[0], ts[-1]), h0, "Radau", ts, rtol=1e-10, atol=1e-14)
    # The global error of 1e-8 a step, over some hundred steps; each unit relative to what it is like.
    error = (solved.hs[:, 0] - torch.from_numpy(theirs.y.T)) / torch.tensor(scale, dtype=torch.float64)
    assert error.abs().max() < 1e-5


def test_the_order_of_stiff_solves_is_five():
    mild = Cubic(1.0, -1.0)
    h0, errors = torch.tensor([[0.7, 0.4]], dtype=torch.float64, requires_grad=True), []
    exact = integrate(mild, None, h0, [0.0, 2.0], rtol=1e-10, atol=1e-11, method="dopri8", fused=False).hs[-1]
    for steps in (16, 32):
        how = {"max_step": 2 / steps, "first_step": 2 / steps, "rtol": 0.9, "atol": 1e3}
        solved = integrate(mild, None, h0, [0.0, 2.0], **how, **STIFF)
        assert (solved.stats["engine"], solved.stats["num_steps"]) == ("compiled", steps)
        errors.append(float((solved.hs[-1] - exact).detach().abs().max()))
    assert math.log2(errors[0] / errors[1]) > 4.7  # 5 in the limit


def test_gradients_are_those_of_the_states_and_second_ones_are_too():
    field = Cubic(-20.0, 1.0)
    h0 = normal(2, 2).requires_grad_()
    fixed = {"rtol": 0.9, "atol": 1e3, "max_step": 0.25, "first_step": 0.25}  # differences see the same steps

    def end(h0):
        solved = integrate(field, None, h0, [0.0, 0.5], **fixed, **STIFF)
        assert solved.stats["engine"] == "compiled"
        return solved.hs[-1]

    assert torch.autograd.gradcheck(end, h0, fast_mode=True)
    assert torch.autograd.gradgradcheck(end, h0, fast_mode=True)


def test_a_solve_that_fails_says_what_the_engine_says():
    field, h0, said = Cubic(0.0, 0.5), torch.ones(2, 2, dtype=torch.float64, requires_grad=True), []  # h = (1 - t)^(-1/2)
    for fused in (True, False):
        with pytest.raises(SolverError) as raised:
            integrate(field, None, h0, [0.0, 0.5, 2.0], fused=fused, rtol=1e-1, atol=1e-1, **STIFF)
        said.append(str(raised.value))
        assert raised.value.trajectory.stats["engine"] == ("compiled" if fused else "steps")
    assert "t = 1" in said[0]
    # Where exactly it ends depends on rounding, so the words are compared without their numbers.
    assert len({"".join(c for c in text if c.isalpha() and c != "e") for text in said}) == 1, said


def relaxing(t, h):
    """Van der Pol's, whose second unit is a million times as fast as the first."""
    y, z = h[..., :1], h[..., 1:]
    return torch.cat([z, 1e6 * ((1 - y * y) * z - y)], -1)


@pytest.mark.parametrize("fused", [pytest.param("always", marks=pytest.mark.slow), False])
def test_a_slow_unit_keeps_its_digits_beside_a_stiff_one(fused):
    h0 = torch.stack([torch.linspace(1.3, 1.9, 32), torch.zeros(32)], -1)
    step = {"first_step": 1e-4, "max_step": 1e-4, "rtol": 0.9, "atol": 1e6}
    ends = [
        integrate(Equation(relaxing), None, h0.to(dtype), [0.0, 1e-4], fused=fused, **step, **STIFF).hs[-1, :, 0].double()
        for dtype in (torch.float32, torch.float64)
    ]
    # Half a rounding of y, and those of sums of stages that are a thousandth of it. Factors that exchange rows by the numbers
    # of the stiff one lose ten roundings.
    assert_close(*ends, rtol=2 * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.parametrize("fused", [pytest.param("always", marks=pytest.mark.slow), False])
def test_sums_of_stages_cost_no_steps_in_float32(fused):
    # Summed in float32 they are off by the tolerance of a long step, and a third more steps are taken.
    field, h0, counts = ctrnn.gated(1, 5, generator=torch.Generator().manual_seed(0)), normal(8, 5), []
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(1, 1, 1, dtype=dtype)
        solved = integrate(
            field.to(dtype), ctrnn.HeldPath(x, [0.0, 10.0]), h0.to(dtype), [0.0, 10.0], fused=fused, **TIGHT, **STIFF
        )
        counts.append(sum(solved.stats["steps_of_samples"]))
    assert counts[0] <= 1.1 * counts[1], counts


@pytest.mark.slow
def test_engines_take_as_many_steps_in_float32():
    h0, counts = torch.stack([torch.linspace(1.4, 1.6, 8), torch.zeros(8)], -1), []
    for fused in ("always", False):
        how = {"rtol": 1e-5, "atol": 1e-5, "max_num_steps": 1_500, **STIFF}
        stats = integrate(Equation(relaxing), None, h0, [0.0, 0.4], fused=fused, **how).stats
        counts.append(sum(stats["accepted_steps_of_samples"]) + sum(stats["rejected_steps_of_samples"]))
    assert counts[1] == pytest.approx(counts[0], rel=0.1)  # rounding decides which of them are tried again


@pytest.mark.slow
def test_a_moving_equilibrium_costs_no_accuracy():
    # h = cos t however stiff: explicit methods and many implicit ones lose their order here.
    errors = []
    for steps in (8, 16, 32):
        how = {"max_step": 2 / steps, "first_step": 2 / steps, "rtol": 0.9, "atol": 1e3}
        solved = integrate(Equation(pulled), None, torch.ones(1, 1, dtype=torch.float64), [0.0, 2.0], **how, **STIFF)
        errors.append(float((solved.hs[-1] - math.cos(2)).abs().max()))
    assert solved.stats["engine"] == "compiled"
    assert errors[-1] < 1e-9


@pytest.mark.slow
def test_neighbours_and_threads_change_no_bit_of_a_sample():
    torch.manual_seed(3)
    field, ts, threads = Soft(5), torch.arange(3, dtype=torch.float64), torch.get_num_threads()
    x, h0, found = normal(3, 40, 5), normal(40, 5), []
    field.project = lambda x: x  # from the projected input on, which is here the input
    try:
        for count, rows in ((1, slice(0, 40)), (3, slice(0, 40)), (1, slice(5, 6))):
            torch.set_num_threads(count)
            solved = integrate(field, ctrnn.LinearPath(x[:, rows], ts), h0[rows], ts, **STIFF, **TIGHT)
            assert solved.stats["engine"] == "compiled"
            found.append(solved.hs)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0][:, 5:6], found[2])


@pytest.mark.parametrize("how", ["jacobian", "bandwidths"])
def test_a_field_that_declares_its_jacobian_is_solved_in_torch(how):
    class Declared(Soft):
        if how == "jacobian":

            def jacobian(self, projected, h):
                return super().jacobian(projected, h)

        else:
            bandwidths = (4, 4)

    path = ctrnn.HeldPath(normal(2, 2, 3))
    stats = integrate(Declared(), path, torch.zeros(2, 5, dtype=torch.float64), path.knots, **STIFF).stats
    assert "`jacobian`, or its `bandwidths`, are for steps in torch" in stats["engine_why"]
