"""The same model in other units, and the same samples beside wild neighbours: every analysis says the same.

h -> s h with an s of each unit, t -> c t, tolerances along: dh/dt = (s / c) F(x, h / s).
"""

import functools
import math

import pytest
import torch
from scipy.optimize import brentq
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.fields.probes import couples_samples
from discretize import Flow, Map, basins, continuation, fixed_points, lyapunov, periodic_orbits, phase_plane
from discretize.analysis.engines import _apart

# Sizes of states in the new units, how much they differ between units, and the new unit of time.
UNITS = [(1e-9, 1.0, 1.0), (1e-6, 1e3, 1e6), (1e9, 1e-3, 1e-6)]
FULL = [(10.0**e, d, c) for e in (-9, -5, 0, 5, 9) for d in (1e-6, 1.0, 1e3) for c in (1e-6, 1.0, 1e6)]
IN_FLOAT32 = [(1e-6, 1.0, 1.0), (1e-3, 1e3, 1e3), (1e6, 1e-3, 1e-3)]
in_other_units = pytest.mark.parametrize(
    ("dtype", "size", "apart", "c"),
    [
        *((torch.float64, *units) for units in UNITS),
        *((torch.float32, *units) for units in IN_FLOAT32),
        *(pytest.param(torch.float64, *units, marks=pytest.mark.slow) for units in FULL),
    ],
)


class InUnits(ctrnn.VectorField):
    """A field in other units."""

    def __init__(self, field, s, c):
        super().__init__(field.input_size, field.hidden_size)
        self.field, self.s, self.c = field, s, c

    def project(self, x):
        return self.field.project(x)

    def flow(self, projected, h):
        return self.s / self.c * self.field.flow(projected, h / self.s)

    def leak(self, projected, h):
        return self.field.leak(projected, h / self.s) / self.c


def units_of(count, size, apart, dtype):
    return size * apart ** torch.linspace(0, 1, count, dtype=dtype) if count > 1 else torch.tensor([size], dtype=dtype)


def flow_in(f, s, c):
    return Flow(lambda p, h: s / c * f(p, h / s))


def map_in(f, s):
    return Map(lambda p, h: s * f(p, h / s))


def beside(f, units, *, steps=False):
    """Put two uncoupled units beside: a fast one at 1e8, and a slow one at 1e-8."""
    far = torch.tensor([1e8, -1e-8], dtype=torch.float64)

    def wild(p, h):
        own, rest = h[..., :units], h[..., units:]
        to_far = far + (rest - far) * 0.5 if steps else (far - rest) * torch.tensor([1e3, 1e-3], dtype=h.dtype)
        return torch.cat([f(p, own), to_far.to(h)], -1)

    return wild


def cubes(_, h):
    return h - h**3


def mutual(p, h):
    """Two units that hold each other down: three points of rest, two of them stable, from p = 0 on."""
    a, b = h.split(1, -1)
    return torch.cat([torch.sigmoid(6 - 12 * b) - a, 0.5 * (torch.sigmoid(6 - 12 * a + 0 * p) - b)], -1)


def logistic(r, h):
    return r * h * (1 - h)


def henon(_, h):
    return torch.cat([1 - 1.4 * h[:, :1] ** 2 + h[:, 1:], 0.3 * h[:, :1]], -1)


def nagumo(current, h):
    v, w = h.split(1, -1)
    return torch.cat([v - v**3 / 3 - w + current, 0.08 * (v + 0.7 - 0.8 * w)], -1)


def duffing(_, h):
    return torch.cat([h[:, 1:], h[:, :1] - h[:, :1] ** 3 - 0.3 * h[:, 1:]], -1)


def kinds(points):
    """Words of the table without their numbers."""
    return sorted(points._in_words(k).split(",")[0] for k in range(len(points)))


def tolerance(dtype, double=1e-9, single=1e-3):
    return double if dtype == torch.float64 else single


@in_other_units
def test_fixed_points_are_the_same_points(dtype, size, apart, c):
    s, starts = units_of(2, size, apart, dtype), torch.rand(40, 2, dtype=dtype)
    plain, found = fixed_points(flow_in(mutual, 1, 1), starts), fixed_points(flow_in(mutual, s, c), starts * s)
    assert len(found) == len(plain) == 3
    assert kinds(found) == kinds(plain) == ["saddle", "stable node", "stable node"]
    near = (found.h[:, None] / s - plain.h).abs().amax(-1)
    assert_close(near.amin(1), torch.zeros(3, dtype=dtype), rtol=0, atol=tolerance(dtype, 1e-12, 1e-5))
    assert_close(found.rates[near.argmin(0)] * c, plain.rates, rtol=tolerance(dtype), atol=0)
    cubed = flow_in(cubes, units_of(1, size, apart, dtype), c)
    line = torch.linspace(-1.5, 1.5, 30, dtype=dtype)[:, None] * size
    assert len(fixed_points(cubed, line)) == 3
    of_slow = fixed_points(cubed, line, slow=0.05 * size / c)
    assert int(of_slow.fixed.sum()) == 3
    assert len(of_slow) == len(fixed_points(Flow(cubes), line / size, slow=0.05))
    assert len(fixed_points(Flow(lambda _, h: size / c * (1 + (h / size) ** 2)), line)) == 0


@pytest.mark.parametrize(("size", "apart", "c"), UNITS)
def test_a_centre_is_one_in_any_units(size, apart, c):
    """Prey and predators: around their balance they turn for ever, in 2 pi / sqrt(2 0.3) there."""

    def hunted(_, h):
        prey, hunters = h.split(1, -1)
        return torch.cat([2 * prey - 0.7 * prey * hunters, 0.1 * prey * hunters - 0.3 * hunters], -1)

    s = units_of(2, size, apart, torch.float64)
    found = fixed_points(flow_in(hunted, s, c), (0.5 + 3 * torch.rand(30, 2)) * s)
    assert kinds(found) == ["centre", "saddle"]
    assert not found.stable.any()
    assert float(found.periods[found.growth == 0][0, 0] / c) == pytest.approx(2 * math.pi / 0.6**0.5)


@pytest.mark.parametrize("start", [0.0, 0.3])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_one_start_finds_a_point_of_rest_in_any_units(start, size):
    shifted = flow_in(lambda _, h: torch.tanh(h + 0.3) - math.tanh(0.3) - 2 * h, size, 1.0)  # at rest at 0, to rounding
    off = flow_in(lambda _, h: torch.tanh(0.5 * h + 0.3) - h, size, 1.0)
    for system, unit in ((shifted, 0.0), (off, brentq(lambda h: math.tanh(0.5 * h + 0.3) - h, 0.0, 1.0))):
        found = fixed_points(system, torch.full((1, 1), start * size))
        assert len(found) == 1
        assert float(found.h / size) == pytest.approx(unit, abs=1e-4)


@in_other_units
def test_orbits_of_maps_are_the_same_orbits(dtype, size, apart, c):
    s, starts = units_of(1, size, apart, dtype), torch.linspace(1, 0, 200, dtype=dtype)[:, None]
    found = periodic_orbits(map_in(logistic, s), 3, starts * s, 4.0)
    assert [sum(orbit.period == n for orbit in found) for n in (1, 2, 3)] == [2, 1, 2]
    two = next(orbit for orbit in found if orbit.period == 2)
    assert_close(
        two.hs[:, 0] / s, torch.tensor([5 - 5**0.5, 5 + 5**0.5], dtype=dtype) / 8, rtol=tolerance(dtype, 1e-12, 1e-5), atol=0
    )
    assert [orbit.stable for orbit in periodic_orbits(map_in(logistic, s), 2, starts[::8] * s, 3.2)] == [False, False, True]


@functools.cache
def plain_branch(f, h, p, limits, direction):
    """A branch in its own units, followed once for all others."""
    return continuation(Flow(f), torch.tensor(h), p, limits, direction=direction)


@pytest.mark.parametrize(
    ("f", "h", "p", "limits", "direction", "expected"),
    [
        pytest.param(nagumo, (-1.2, -0.6), 0.0, (0.0, 2.0), 1, ["Hopf", "Hopf"], marks=pytest.mark.slow),
        # Two on one branch; to find one takes the same steps, below.
        pytest.param(
            lambda p, h: p - h**3 + h, (-1.2,), -0.5, (-0.6, 0.6), 1, ["fold", "fold"], marks=pytest.mark.slow, id="two folds"
        ),
        pytest.param(lambda p, h: 1e-3 + (p - 1) * h - h**3, (-0.4,), 1.15, (0.9, 1.2), -1, ["fold"], id="an unfolded pitchfork"),
        pytest.param(lambda p, h: torch.tanh(p * h) - h, (0.0,), 0.8, (0.7, 1.2), 1, ["branch point"], id="a pitchfork"),
    ],
)
@pytest.mark.parametrize(
    ("size", "apart", "c"), [(1e-9, 1.0, 1.0), *(pytest.param(*units, marks=pytest.mark.slow) for units in (*UNITS, *FULL[::4]))]
)
def test_branches_have_the_same_bifurcations(f, h, p, limits, direction, expected, size, apart, c):
    s = units_of(len(h), size, apart, torch.float64)
    plain = plain_branch(f, h, p, limits, direction)
    found = continuation(flow_in(f, s, c), torch.tensor(h) * s, p, limits, direction=direction)
    assert [b.kind for b in found.bifurcations] == [b.kind for b in plain.bifurcations] == expected
    for b, other in zip(found.bifurcations, plain.bifurcations, strict=True):
        assert b.p == pytest.approx(other.p, abs=1e-9)
        assert_close(b.h / s, other.h, rtol=0, atol=1e-5)
    assert float(found.p[-1]) == float(plain.p[-1])
    assert bool(found.stable[0]) == bool(plain.stable[0])


@pytest.mark.parametrize("size", [1e-18, 1e-9, 1e-6, 1.0, 1e9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_small_unit_that_begins_at_0_beside_a_large_one_changes_no_kind(dtype, size):
    """a folds at p = -+2 / 27^(1/2); b = size (p + 1/2) only follows p, and is 0 at the start."""

    def both(p, h):
        a, b = h.split(1, -1)
        return torch.cat([p - a**3 + a, size * (p + 0.5 - b / size)], -1)

    found = continuation(Flow(both), torch.tensor([-1.1915, 0.0], dtype=dtype), -0.5, (-0.6, 0.6))
    assert [b.kind for b in found.bifurcations] == ["fold", "fold"]
    assert [b.p for b in found.bifurcations] == pytest.approx([2 / 27**0.5, -2 / 27**0.5], rel=tolerance(dtype))
    assert_close(found.h[:, 1] / size, found.p + 0.5, rtol=0, atol=tolerance(dtype, 1e-12, 1e-5))
    assert float(found.p.diff().abs().max()) <= 0.051


@in_other_units
def test_exponents_of_maps_are_the_same(dtype, size, apart, c):
    s = units_of(2, size, apart, dtype)
    h0 = torch.tensor([[0.1, 0.05]], dtype=dtype)
    found = lyapunov(map_in(henon, s), h0 * s, intervals=100)
    # Chaos: the run is another one after rounding, and the sum is known.
    assert float(found.exponents.sum()) == pytest.approx(math.log(0.3), abs=tolerance(dtype))
    assert float(found.exponents[0, 0]) == pytest.approx(0.42, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "size", "apart", "c"),
    [(torch.float64, 1e-9, 1e3, 1e3), *((torch.float32, *units) for units in IN_FLOAT32)],
)
def test_exponents_of_flows_are_rates_in_the_new_unit_of_time(dtype, size, apart, c):
    s, h0 = units_of(2, size, apart, dtype), torch.tensor([[0.1, 0.05]], dtype=dtype)
    given = {"intervals": 16, "transient": 2, "rtol": 1e-4}
    plain = lyapunov(Flow(duffing), 5 * h0, interval=1.0, **given)
    found = lyapunov(flow_in(duffing, s, c), 5 * h0 * s, interval=1.0 * c, **given)
    assert_close(found.exponents.sum(-1) * c, plain.exponents.sum(-1), rtol=tolerance(dtype, 1e-3, 1e-3), atol=0)
    assert_close(found.exponents * c, plain.exponents, rtol=0, atol=0.05)


@in_other_units
def test_starts_end_in_the_same_basins(dtype, size, apart, c):
    s = units_of(2, size, apart, dtype)
    starts = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.6, 0.2], [0.2, 0.6]], dtype=dtype)
    ends = fixed_points(Flow(mutual), torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=dtype)).h.detach()
    assert basins(flow_in(mutual, s, c), starts * s, list(ends * s), length=20.0 * c).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("size", "apart", "c"), [UNITS[1], *(pytest.param(*u, marks=pytest.mark.slow) for u in UNITS)])
def test_a_phase_plane_shows_the_same_points_and_runs(size, apart, c):
    s = units_of(2, size, apart, torch.float64)
    start, limits = torch.tensor([[1.5, 1.5]]), torch.tensor([[-2.0, 2.0], [-2.0, 2.0]])

    def lines(system, s, c):
        box = tuple(map(tuple, (limits * s[:, None]).tolist()))
        (ax,) = phase_plane(system, box, starts=start * s, length=0.3 * c, points=3).axes
        return {line.get_label(): torch.from_numpy(line.get_xydata()) / s for line in ax.get_lines() if len(line.get_xydata())}

    plain, found = lines(Flow(duffing), torch.ones(2), 1.0), lines(flow_in(duffing, s, c), s, c)
    assert found.keys() == plain.keys() == {"stable", "unstable", "trajectory"}
    for name, places in plain.items():
        assert_close(found[name], places, rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_states_have_the_same_dimension_axes_and_picture(size, dtype):
    states = torch.randn(30, 5, 3, dtype=dtype) @ torch.diag(torch.tensor([2.0, 1.0, 0.1], dtype=dtype))
    assert_close(discretize.participation_dimension(states * size), discretize.participation_dimension(states))
    shares = discretize.state_space
    (ax,) = shares(states * size).axes
    (plain,) = shares(states).axes
    assert ax.get_xlabel() == plain.get_xlabel()
    assert ax.get_xlim()[1] / size == pytest.approx(plain.get_xlim()[1], rel=1e-3)
    still = discretize.state_space(torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=dtype) * size)
    low, high = still.axes[0].get_ylim()
    assert low < 0 < high


@pytest.mark.parametrize(("size", "apart", "c"), UNITS)
def test_steps_grow_differences_and_are_monitored_alike(size, apart, c):
    s, field = units_of(4, size, apart, torch.float64), ctrnn.gated(2, 4)
    same, x, h = InUnits(field, s, c), torch.randn(3, 2), torch.rand(3, 4)
    for step in (discretize.Euler(), discretize.ExponentialEuler()):
        plain, found = (discretize.growth(step, f, x, h * u, 0.8 * t) for f, u, t in ((field, 1, 1), (same, s, c)))
        assert_close(found.spectral_radius, plain.spectral_radius, rtol=1e-6, atol=0)
    xs = torch.randn(20, 3, 2)
    records = []
    for f, t in ((field, 1.0), (same, c)):
        rnn = discretize.DiscreteRNN(f, discretize.Euler(), dt=3.0 * t)
        with discretize.Monitor(rnn, warn="never") as monitor:
            rnn(xs)
        records.append(monitor.records[""])
    assert (records[0].counts == records[1].counts).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-9, 1e9])
@pytest.mark.parametrize("c", [1.0, 1e-3])
def test_a_refinement_says_the_same_words(size, c):
    torch.manual_seed(0)
    field, xs = ctrnn.plain(2, 4), torch.randn(12, 3, 2)
    plain = discretize.refine(discretize.DiscreteRNN(field, discretize.Euler(), dt=0.5), xs, halvings=2)
    other = discretize.DiscreteRNN(InUnits(field, size, c), discretize.Euler(), dt=0.5 * c)
    found = discretize.refine(other, xs, halvings=2)
    assert found.share == pytest.approx(plain.share, rel=1e-6)
    assert found.orders == pytest.approx(plain.orders, rel=1e-5)
    assert found.converges == plain.converges
    assert found.verdict == plain.verdict.replace(" at dt/tau = 0.5", "")


@pytest.mark.kernels  # by steps in Python it takes minutes
def test_a_drift_of_small_states_is_not_taken_for_rounding(monkeypatch):
    """Steps across a fast turn do not converge after one halving, and say so in any units."""
    for name, samples in (("WAIT", 5), ("LOOK", 5), ("MOST", 20)):  # of what comes after the data nothing is asked
        monkeypatch.setattr(f"discretize.analysis.refine.{name}", samples)
    turn = ctrnn.plain(1, 2)
    with torch.no_grad():
        turn.candidate.weight_h.copy_(torch.tensor([[1.0, -9.0], [9.0, 1.0]]))
    xs, whole = torch.randn(2, 2, 1), torch.tensor([2, 2])  # with lengths nothing is held after the end
    words = []
    for size in (1.0, 1e-9):
        rnn = discretize.DiscreteRNN(InUnits(turn, size, 1.0), discretize.RungeKutta4(), dt=1.0)
        words.append(discretize.refine(rnn, xs, None, None, whole, halvings=1, rtol=1e-6))
    assert [one.converges for one in words] == [False, False]
    assert words[0].share == pytest.approx(words[1].share, rel=1e-4)


@pytest.mark.parametrize(("size", "apart", "c"), UNITS)
def test_memories_and_laws_of_decay_are_the_same(size, apart, c):
    s, field, xs = units_of(3, size, apart, torch.float64), ctrnn.plain(2, 3), torch.randn(20, 2, 2)
    rnn, other = (discretize.DiscreteRNN(f, discretize.Euler(), dt=0.3 * t) for f, t in ((field, 1), (InUnits(field, s, c), c)))
    units, in_units = (discretize.state_jacobians(each, xs, order="units") for each in (rnn, other))
    assert_close(in_units, units, rtol=1e-9, atol=1e-12)
    plain, found = (
        discretize.input_gradients(each, xs, lambda out, unit=unit: (out[0] / unit).sum((0, 2)))
        for each, unit in ((rnn, 1), (other, s))
    )
    assert_close(found, plain, rtol=1e-9, atol=0)
    values = torch.exp(-0.1 * torch.arange(40.0))[:, None] * (1 + 0.1 * torch.rand(40, 8))
    law, same = discretize.decay_law(values), discretize.decay_law(values * size)
    assert same.name == law.name == "exponential"
    assert (same.bend, same.rate) == pytest.approx((law.bend, law.rate), rel=1e-6)


@pytest.mark.parametrize(("size", "apart", "c"), [*UNITS, (1.0, 1e18, 1.0)])
def test_likelihoods_of_paths_change_by_the_units_alone(size, apart, c):
    s = units_of(2, size, apart, torch.float64)
    mixed = torch.tensor([[0.5, 0.0], [0.3, 0.4]])

    class Own(ctrnn.VectorField):
        def __init__(self, rate):
            super().__init__(0, 2)
            self.rate = rate

        def flow(self, projected, h):
            return -self.rate * h

        def diffusion(self, projected, h):
            return mixed.expand(*h.shape, 2)

    class Other(InUnits):
        def diffusion(self, projected, h):
            return (self.s[:, None] / self.c**0.5) * self.field.diffusion(projected, h / self.s)

    hs, ts = torch.randn(20, 4, 2).cumsum(0) * 0.1, 0.05 * torch.arange(20)
    p, q = Own(1.0), Own(0.3)
    plain = discretize.path_log_likelihood(p, None, hs, ts)
    found = discretize.path_log_likelihood(Other(p, s, c), None, hs * s, ts * c)
    assert_close(found + 19 * s.log().sum(), plain, rtol=1e-6, atol=1e-6)
    for name in ("path_log_ratio", "path_divergence"):
        ours = getattr(discretize, name)
        assert_close(ours(Other(p, s, c), Other(q, s, c), None, hs * s, ts * c), ours(p, q, None, hs, ts), rtol=1e-6, atol=1e-9)


class Leaky(ctrnn.VectorField):
    """A field of one's own without a declared leak, its rates in bits of a bias."""

    def __init__(self, slowness, coupled=False):
        super().__init__(1, 3)
        self.slowness, self.coupled = slowness, coupled
        self.bias, self.W = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.randn(3, 3))

    leak = ctrnn.traced_leak

    def flow(self, projected, h):
        rate = torch.sigmoid(self.bias) / self.slowness
        others = h.roll(1, -1) if self.coupled else h @ self.W.T
        return rate * (torch.tanh(others + projected) - h)


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e6, 1e12])
def test_time_constants_are_read_off_code_in_any_unit_of_time(c):
    assert_close(ctrnn.timescales(Leaky(c)), torch.full((3,), 2 * c), rtol=1e-6, atol=0)
    with pytest.raises(TypeError, match="act on one another"):
        ctrnn.timescales(Leaky(c, coupled=True))
    if c < 1:  # chrono's times are in samples, more than one of them
        return
    found = ctrnn.init.chrono_(Leaky(c), 40 * c, t_min=4 * c)
    times = ctrnn.timescales(found)
    assert bool(((times >= 4 * c * (1 - 1e-6)) & (times <= 40 * c * (1 + 1e-6))).all())


@pytest.mark.parametrize("wild", [0.0, 1e8])
def test_samples_that_read_one_another_are_seen_beside_a_fast_unit(wild):
    class Coupled(ctrnn.VectorField):
        def __init__(self):
            super().__init__(0, 2)

        def flow(self, projected, h):
            return torch.cat([h[:, :1].mean(0, keepdim=True) - h[:, :1], wild - h[:, 1:]], -1)

    h = torch.tensor([[0.5, 0.1], [0.2, 0.3], [0.9, 0.2]])
    empty = h[:, :0]
    assert couples_samples(Coupled(), empty, h, empty)
    # A far sample beside hides nothing either, where its unit's mean is not read.
    far = torch.cat([torch.tensor([[0.1, 1e8]]), h])
    assert couples_samples(Coupled(), far[:, :0], far, far[:, :0])


# Beside wild neighbours.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fixed_points_beside_far_starts_and_uncoupled_units_are_the_same(dtype):
    starts = torch.rand(60, 2, dtype=dtype)
    plain = fixed_points(Flow(mutual), starts)
    far = fixed_points(Flow(mutual), torch.cat([starts, 1e8 * torch.randn(5, 2, dtype=dtype)]))
    units = torch.cat([starts, torch.tensor([1e8, 1e-8], dtype=dtype) * torch.randn(60, 2, dtype=dtype)], -1)
    wild = fixed_points(Flow(beside(mutual, 2)), units)
    assert len(plain) == len(far) == len(wild) == 3
    assert kinds(plain) == kinds(far) == kinds(wild)
    for found in (far.h, wild.h[:, :2]):
        off = (found[:, None] - plain.h).abs().amax(-1).amin(1)
        assert_close(off, torch.zeros(3, dtype=dtype), rtol=0, atol=tolerance(dtype, 1e-12, 1e-5))
    slow = fixed_points(Flow(cubes), torch.cat([starts[:, :1] * 3 - 1.5, torch.full((3, 1), 1e8, dtype=dtype)]), slow=0.05)
    assert int(slow.fixed.sum()) == 3


def test_orbits_beside_uncoupled_units_are_the_same():
    starts = torch.linspace(1, 0, 100)[:, None]
    units = torch.cat([starts, torch.tensor([1e8, -1e-8]) * (1 + 0.1 * torch.rand(100, 2))], -1)
    found = periodic_orbits(Map(beside(logistic, 1, steps=True)), 2, units, 3.2)
    assert [orbit.period for orbit in found] == [1, 1, 2]


def test_branches_beside_uncoupled_units_are_the_same():
    found = continuation(
        Flow(beside(lambda p, h: 1e-3 + (p - 1) * h - h**3, 1)), torch.tensor([-0.4, 1e8, -1e-8]), 1.15, (0.9, 1.2), direction=-1
    )
    assert [b.kind for b in found.bifurcations] == ["fold"]


def test_exponents_beside_uncoupled_units_are_the_same():
    chaos = Map(lambda p, h: torch.cat([0.5 * (h[:, :1] + 1e8), henon(p, h[:, 1:])], -1))
    (largest,) = lyapunov(chaos, torch.tensor([[1e8, 0.1, 0.05]]), intervals=300, count=1).exponents
    assert float(largest) == pytest.approx(0.42, abs=0.06)


def test_exponents_beside_a_start_that_leaves_all_bounds_are_the_same():
    both = lyapunov(Map(henon), torch.tensor([[0.1, 0.05], [1e8, 1e8]]), intervals=300).exponents
    assert float(both[0, 0]) == pytest.approx(0.42, abs=0.06)
    assert bool(both[1].isnan().all())


@pytest.mark.slow
def test_turning_points_beside_uncoupled_units_are_turning_points():
    found = continuation(Flow(beside(nagumo, 2)), torch.tensor([-1.2, -0.6, 1e8, -1e-8]), 0.0, (0.0, 2.0), step=0.1)
    assert [b.kind for b in found.bifurcations] == ["Hopf", "Hopf"]


def test_basins_beside_starts_that_leave_all_bounds_are_the_same():
    escaping = Flow(lambda _, h: h**3 - h)
    starts, ends = torch.tensor([[-0.7], [0.2], [0.4], [-0.2]]), [torch.tensor([0.0])]
    with pytest.warns(discretize.SolverWarning, match="1 of 5 starts could not be followed"):
        assert basins(escaping, torch.cat([starts, torch.tensor([[50.0]])]), ends, length=20.0).tolist() == [0, 0, 0, 0, -1]
    flow, two = Flow(lambda _, h: torch.tanh(2 * h) - h), [torch.tensor([0.9575]), torch.tensor([-0.9575])]
    assert basins(flow, torch.tensor([[-0.7], [0.2], [0.4], [1e6]]), two, length=40.0).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("size", [1e-9, 1.0])
def test_two_noises_are_told_apart_however_small(size):
    hs = size * torch.randn(5, 2, 3)
    quiet, loud = (ctrnn.Noisy(ctrnn.plain(0, 3), ctrnn.Noise(sigma * size)) for sigma in (1.0, 1.5))
    with pytest.raises(ValueError, match="another noise"):
        discretize.path_log_ratio(quiet, loud, None, hs)


def test_an_engine_that_is_wrong_for_a_small_unit_does_not_agree():
    """Wrong by a tenth in a unit in mol/l, beside one in mV; allowed are 1e-9."""
    right = torch.tensor([[[70.0, 1e-9], [-70.0, 2e-9]]])
    assert _apart(right, right) == 0
    assert _apart(right * torch.tensor([1.0, 1.1]), right) > 1e-7
    assert _apart(right + 1e-15 * right[..., :1], right) < 1e-9  # roundings of the large one


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_engines_agree_on_states_in_any_units(size):
    report = discretize.verify_engines(InUnits(ctrnn.plain(2, 3), size, 1.0), torch.randn(2, 2, 2))
    assert report.agree, str(report)
