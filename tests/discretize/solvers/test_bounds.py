"""Bounds on a solve's steps and tolerances: the longest and the first step, how many, and how exact at most."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, ContinuousRNN, SolverError, SolverWarning, integrate
from discretize.solvers.diagnosis import jump_hint

ADAPTIVE = ("dopri5", "tsit5", "dopri8", "bosh3", "adaptive_heun", "rodas5p")


class Field(ctrnn.VectorField):
    """dh/dt = f(x, h), of some units."""

    def __init__(self, f, units=1):
        super().__init__(1, units)
        self.f = f

    def flow(self, projected, h):
        return self.f(projected, h)


def still(end=3.0, batch=1):
    return ctrnn.HeldPath(torch.zeros(1, batch, 1), [0.0, end])


@pytest.mark.parametrize("method", ["dopri5", "bosh3", "rodas5p"])
def test_a_pulse_that_steps_go_over_is_seen_with_a_bound_on_them(method):
    """100 for 10 ms in 1000 of rest: h jumps by 1, and forgets."""
    pulse = ctrnn.FunctionPath(lambda t: torch.where((t > 0.703) & (t < 0.713), 100.0, 0.0).reshape(1, 1), (0.0, 1.0), 1)
    settings = {"method": method, "rtol": 1e-3, "atol": 1e-3}
    h0, ts = torch.zeros(1, 1), torch.tensor([0.0, 1.0])
    with torch.no_grad():
        assert float(integrate(Field(lambda x, h: x - h), pulse, h0, ts, **settings).hs[-1]) == 0
        rest = torch.tensor([0.65, 1.0])  # before it h is 0
        seen = integrate(Field(lambda x, h: x - h), pulse, h0, rest, max_step=5e-3, **settings).hs[-1]
    # It is a jump to the solver: some steps at its edges, each within a tolerance.
    assert_close(seen, torch.exp(torch.tensor([[-0.292]])), rtol=0, atol=2e-2)


@pytest.mark.parametrize("method", ADAPTIVE)
def test_the_first_step_is_the_one_that_is_given(method):
    """Of a field at rest the guess is long."""
    field, path, ts = ctrnn.gated(1, 3), ctrnn.HeldPath(torch.randn(2, 4, 1)), torch.tensor([0.0, 2.0])
    settings = {"method": method, "rtol": 1e-3, "atol": 1e-3}
    stats = integrate(field, path, torch.zeros(4, 3), ts, first_step=1e-4, fused=False, **settings).stats
    # The first step may be stretched to land by equal steps.
    assert stats["smallest_step"] == pytest.approx(1e-4, rel=1e-2)
    assert stats["smallest_step_at"] == 0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
def test_a_guessed_first_step_is_not_below_the_shortest(method, unit):
    settings = {"method": method, "fused": False, "min_step": 0.5 * unit, "max_step": 0.5 * unit}
    with pytest.warns(SolverWarning, match="min_step"):
        stats = integrate(lambda t, h: -h / unit, None, torch.ones(1, 1), [0.0, 10 * unit], **settings).stats
    assert stats["num_steps"] == 20
    assert stats["smallest_step"] == pytest.approx(0.5 * unit)


@pytest.mark.kernels
@pytest.mark.filterwarnings("ignore::discretize.SolverWarning")  # of the last
@pytest.mark.parametrize("bounds", [{"max_step": 0.1}, {"max_step": 0.3, "first_step": 0.05}, {"min_step": 0.5}])
def test_a_kernel_takes_the_bounded_steps_that_the_engine_takes(bounds):
    # The first takes three seconds, to compile the kernel of the tests below, too.
    field, path, ts = ctrnn.gated(2, 3), ctrnn.LinearPath(torch.randn(5, 4, 2)), torch.arange(5.0)
    with torch.no_grad():
        kernel, engine = (integrate(field, path, torch.zeros(4, 3), ts, fused=f, **bounds) for f in ("always", False))
    assert (kernel.stats["engine"], engine.stats["engine"]) == ("compiled", "steps")
    assert kernel.stats["steps_of_samples"] == engine.stats["steps_of_samples"]
    assert_close(kernel.hs, engine.hs, rtol=0, atol=1e-13)


@pytest.mark.kernels
@pytest.mark.parametrize("fused", ["always", False])
def test_the_bound_on_the_number_of_steps_is_for_each_segment(fused):
    field, samples = ctrnn.gated(2, 3), 40
    path, ts = ctrnn.LinearPath(torch.randn(samples + 1, 4, 2)), torch.tensor([0.0, float(samples)])
    with torch.no_grad():
        solved = integrate(field, path, torch.zeros(4, 3), ts, max_num_steps=20, fused=fused)
        assert solved.stats["num_steps"] > 4 * 20
        with pytest.raises(SolverError, match="2 steps were not enough") as caught:
            integrate(field, path, torch.zeros(4, 3), ts, max_num_steps=2, fused=fused)
    assert "rodas5p" not in caught.value.hint
    assert "for each segment" in caught.value.hint


@pytest.mark.kernels
@pytest.mark.parametrize("fused", ["always", False])
def test_too_few_steps_name_the_unit_of_the_last_step_and_not_of_one_before(fused):
    """The first step is too long for unit 0, which is at rest soon; the last ones were taken, and unit 1 is the largest."""

    def f(x, h):
        return torch.tensor([-20.0, 0.0]) * h

    h0 = torch.tensor([[1.0, 5.0], [0.0, 1.0]])
    with torch.no_grad(), pytest.raises(SolverError, match="8 steps were not enough") as caught:
        integrate(
            Field(f, 2), still(), h0, torch.tensor([0.0, 3.0]), max_num_steps=8, first_step=0.5, rtol=1e-3, atol=1e-3, fused=fused
        )
    assert (caught.value.sample, caught.value.unit) == (0, 1)


@pytest.mark.parametrize(
    "settings", [{"method": "rk4", "first_step": 0.1}, {"first_step": 0.0}, {"first_step": 0.2, "max_step": 0.1}]
)
def test_a_first_step_that_cannot_be_is_refused(settings):
    with pytest.raises(ValueError, match="`first_step`"):
        ContinuousRNN(ctrnn.plain(1, 2), **settings)


@pytest.mark.kernels
@pytest.mark.parametrize("fused", ["always", False])
def test_the_whole_way_has_a_bound_too(monkeypatch, fused):
    monkeypatch.setattr("discretize.solvers.control.MOST_ON_AVERAGE", 1)
    path, ts = ctrnn.LinearPath(torch.randn(51, 4, 2)), torch.tensor([0.0, 50.0])
    with pytest.raises(SolverError, match="70 steps on the whole way were not enough"), torch.no_grad():
        integrate(ctrnn.gated(2, 3), path, torch.zeros(4, 3), ts, max_num_steps=20, fused=fused)


@pytest.mark.parametrize("units", [1, 2])
def test_a_field_on_whose_jump_the_state_slides_is_said_to_jump(units, monkeypatch):
    """From 1/2 to 0 and along it: steps become as short as the tolerance."""

    def f(x, h):
        return torch.cat([0.1 - torch.sign(h[:, :1]), h[:, :1] - h[:, 1:]], -1)

    monkeypatch.setattr("discretize.solvers.adaptive.LOOKED_AT", 300)
    warned = pytest.warns(SolverWarning, match="The field jumps there")
    with torch.no_grad(), warned, pytest.raises(SolverError, match="400 steps were not enough") as caught:
        integrate(Field(f, units), still(), torch.full((1, units), 0.5), torch.tensor([0.0, 3.0]), max_num_steps=400)
    assert "The field jumps there" in caught.value.hint
    assert "stiff" not in caught.value.hint


@pytest.mark.parametrize(("width", "jumps"), [(0.0, True), (1e-4, True), (0.1, False), (1.0, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_smooth_field_is_not_said_to_jump_however_long_its_steps(width, jumps, dtype):
    """Twenty steps of 0.3 are more than a turn of the pendulum, and the width of each step of h / width from -1 to 1."""

    def f(x, h):
        pull = torch.tanh(h[:, :1] / width) if width else torch.sign(h[:, :1])
        return torch.cat([h[:, 1:], -torch.sin(h[:, :1]) - 3 * pull], -1)

    h = torch.tensor([[0.02, 1.0]], dtype=dtype)
    hint = jump_hint(lambda at, h: f(None, h), torch.zeros(()), h, 0, 0.3)
    assert ("The field jumps there" in (hint or "")) == jumps


@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.float32, 1e-8, 1e-6), (torch.float64, 1e-15, 1e-14)])
def test_tolerances_near_the_rounding_are_warned_of(dtype, low, high):
    field, path = ctrnn.gated(1, 2, dtype=dtype), ctrnn.HeldPath(torch.randn(1, 1, 1, dtype=dtype))
    with torch.no_grad():
        with pytest.warns(SolverWarning, match="near the rounding of"):
            integrate(field, path, torch.zeros(1, 2, dtype=dtype), torch.tensor([0.0, 1e-3]), rtol=low, atol=low)
        integrate(field, path, torch.zeros(1, 2, dtype=dtype), torch.tensor([0.0, 1e-3]), rtol=high, atol=high)


SIZES = torch.tensor([1.0, 1e6], dtype=torch.float64)


def to_sizes(atol, **settings):
    """Of dh/dt = sizes - h in units of sizes 1 and 1e6."""
    ts, h0 = torch.tensor([0.0, 3.0]), torch.zeros(1, 2)
    return integrate(Field(lambda x, h: SIZES - h, 2), still(), h0, ts, rtol=0.0, atol=atol, **settings)


@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
@pytest.mark.parametrize("atol", [1e-4 * SIZES, torch.tensor([1e-8, 1e-2], dtype=torch.float64)])
def test_each_unit_has_a_tolerance_of_its_own(method, atol):
    exact = SIZES * (1 - torch.exp(torch.tensor(-3.0)))
    assert (abs(to_sizes(atol, method=method).hs[-1, 0] - exact) < 3 * atol).all()


def test_one_tolerance_for_a_small_and_a_large_unit_takes_twice_the_steps():
    own, one = (to_sizes(atol).stats["num_steps"] for atol in (1e-4 * SIZES, 1e-4))
    assert 2 * own < one


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.lstm])
def test_tolerances_of_units_go_through_modules_and_the_adjoint(make):
    x, field = torch.randn(4, 2, 3), make(3, 5)
    atol = torch.full((field.state_size,), 1e-7)
    rnn, free = ContinuousRNN(field, atol=atol), ContinuousRNN(field, fused=False)
    output = free(x)[0]
    assert_close(rnn(x)[0], output, rtol=0, atol=1e-6)
    assert "atol=" in repr(rnn)
    loose = ContinuousRNN(field, atol=1e3 * atol, fused=False)
    assert (loose(x)[0] - output).abs().max() > 1e-8
    by_adjoint = [ContinuousRNN(field, gradient=Adjoint(), **how)(x)[0].square().sum() for how in ({"atol": atol}, {})]
    for mine, theirs in zip(*(torch.autograd.grad(y, [*field.parameters()]) for y in by_adjoint), strict=True):
        assert_close(mine, theirs, rtol=1e-12, atol=1e-14)  # by the same steps


@pytest.mark.parametrize(
    ("atol", "words"),
    [
        (torch.full((3,), 1e-7), "one for each of the 5 units"),
        (torch.tensor([1e-7, 1e-7, -1.0, 1e-7, 1e-7]), "at least 0"),
        (torch.ones(2, 5), r"numbers \(state,\)"),
        (torch.tensor([1e-7, 1e-7, torch.nan, 1e-7, 1e-7]), "must be finite"),
    ],
)
def test_tolerances_that_do_not_fit_are_refused(atol, words):
    with pytest.raises(ValueError, match=f"`atol`.*{words}"):
        ContinuousRNN(ctrnn.gated(3, 5), atol=atol)(torch.randn(4, 2, 3))


def test_steps_may_be_bounded_to_one_length():
    stats = integrate(
        lambda t, h: -h, None, torch.ones(1, 1), [0.0, 1.0], max_step=0.25, min_step=0.25, first_step=0.25, rtol=1e-2
    ).stats
    assert (stats["num_steps"], stats["smallest_step"]) == (4, 0.25)
