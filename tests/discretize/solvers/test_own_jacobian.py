"""A field's own Jacobian, and its bandwidths: the states of forward mode, fewer directions, and nothing wrong passes."""

from functools import cache

import pytest
import torch
from scipy.integrate import solve_ivp
from torch.testing import assert_close

import ctrnn
from ctrnn import VectorField
from ctrnn.forward import jacobian_of
from discretize import BackwardEuler, ExponentialRosenbrock, StepError, integrate
from discretize.solvers.equation import BackwardField

UNITS = 6
TIMES = torch.tensor([0.0, 0.5, 0.75])  # in float32 too


class Chain(VectorField):
    """dh_i/dt = k_i (h_i-1 - 2 h_i + 1/2 h_i+1) + x - h_i^3."""

    def __init__(self, dtype=torch.float64):
        super().__init__(1, UNITS)
        self.k = torch.nn.Parameter(torch.linspace(1.0, 200.0, UNITS, dtype=dtype))
        self.calls = 0

    def flow(self, projected, h):
        self.calls += 1
        near = torch.nn.functional.pad(h, (1, 1))
        return self.k * (near[..., :-2] - 2 * h + near[..., 2:] / 2) + projected - h**3

    def exact(self, h):
        one = torch.ones(UNITS - 1, dtype=h.dtype)
        pulled = self.k[:, None] * (one.diag(-1) + one.diag(1) / 2 - 2 * torch.eye(UNITS, dtype=h.dtype))
        return pulled - torch.diag_embed(3 * h**2)


class BandedChain(Chain):
    bandwidths = (1, 1)


class OwnChain(BandedChain):
    def jacobian(self, projected, h):
        return self.exact(h)


class FullChain(Chain):
    def jacobian(self, projected, h):
        return self.exact(h)


class Apart(Chain):
    """dh_i/dt = k_i (tanh(x) - h_i) - h_i^3: diagonal."""

    def flow(self, projected, h):
        self.calls += 1
        return self.k * (torch.tanh(projected) - h) - h**3


class DiagonalApart(Apart):
    bandwidths = (0, 0)


class OwnApart(DiagonalApart):
    def jacobian(self, projected, h):
        return -self.k - 3 * h**2


FIELDS = [(Chain, BandedChain), (Chain, OwnChain), (Chain, FullChain), (Apart, DiagonalApart), (Apart, OwnApart)]


def solved(field, path=ctrnn.HeldPath, h0=None, **settings):
    torch.manual_seed(0)
    x, start = torch.randn(5, 2, 1), torch.randn(2, UNITS) if h0 is None else h0
    return integrate(field, path(x), start, TIMES, method="rodas5p", **{"rtol": 1e-2, "atol": 1e-3, **settings})


@cache
@torch.no_grad()
def by_forward_mode(plain, path=ctrnn.HeldPath, speed=None):
    """One solve for every field that knows its Jacobian."""
    return solved(plain(), path, speed=speed)


@pytest.mark.parametrize(
    ("plain", "known", "path"), [(*pair, (ctrnn.HeldPath, ctrnn.LinearPath)[k % 2]) for k, pair in enumerate(FIELDS)]
)
@torch.no_grad()
def test_the_states_are_those_of_forward_mode(plain, known, path):
    expected, found = by_forward_mode(plain, path), solved(known(), path)
    assert found.stats["num_steps"] == expected.stats["num_steps"]
    assert_close(found.hs, expected.hs, rtol=1e-10, atol=1e-10)  # the same steps: rounding of another order of sums


CLOCKS = {"smooth": ctrnn.SmoothWarp(4.0, [0.1], [0.2]).speed, "bare": lambda t: 1.5 + torch.sin(t)}


@pytest.mark.parametrize(
    ("plain", "known", "clock"), [(Chain, OwnChain, "smooth"), (Chain, FullChain, "bare"), (Apart, DiagonalApart, "bare")]
)
@torch.no_grad()
def test_on_a_clock_the_speed_multiplies_the_jacobian_too(plain, known, clock):
    expected, found = by_forward_mode(plain, speed=CLOCKS[clock]), solved(known(), speed=CLOCKS[clock])
    assert found.stats["num_steps"] == expected.stats["num_steps"]
    assert_close(found.hs, expected.hs, rtol=1e-10, atol=1e-10)


@cache
def gradients(kind):
    field, h0 = kind(), torch.linspace(-1.0, 1.0, 2 * UNITS).reshape(2, UNITS).requires_grad_()
    return torch.autograd.grad(solved(field, h0=h0).hs.square().sum(), (field.k, h0))


class Faster(Chain):
    def flow(self, projected, h):
        return 2.5 * super().flow(projected, h)


def test_on_a_clock_of_constant_speed_the_steps_are_those_of_a_faster_field():
    """Both of the solves above take the Jacobian of a clock from the same code; here one has no clock."""
    expected, found = by_forward_mode(Faster), by_forward_mode(Chain, speed=ctrnn.AffineWarp(2.5).speed)
    assert found.stats["num_steps"] == expected.stats["num_steps"]
    assert_close(found.hs, expected.hs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("plain", "known"), [(Chain, OwnChain), (Apart, DiagonalApart)])
def test_gradients_are_those_of_forward_mode(plain, known):
    for found, expected in zip(gradients(known), gradients(plain), strict=True):
        assert_close(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@torch.no_grad()
def test_an_own_jacobian_solves_as_scipys_radau_does():
    field, h0 = OwnChain(), torch.linspace(-1.0, 1.0, UNITS)
    ours = integrate(field, ctrnn.HeldPath(torch.ones(2, 1, 1)), h0[None], TIMES, method="rodas5p", rtol=1e-8, atol=1e-10)

    def flow(t, h):
        return field.flow(torch.ones(1), torch.from_numpy(h)).numpy()

    def exact(t, h):
        return field.exact(torch.from_numpy(h)).numpy()

    theirs = solve_ivp(flow, (0, 0.75), h0.numpy(), "Radau", TIMES.numpy(), jac=exact, rtol=1e-10, atol=1e-12)
    assert_close(ours.hs[:, 0], torch.from_numpy(theirs.y.T), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("field", "directions"), [(Chain, UNITS), (BandedChain, 3), (DiagonalApart, 1), (OwnChain, 1), (OwnApart, 1)]
)
@torch.no_grad()
def test_a_jacobian_counts_as_one_evaluation_for_each_direction(field, directions):
    field = field()
    stats = solved(field, h0=torch.zeros(1, UNITS).expand(2, -1).contiguous(), first_step=0.1).stats
    # 6 stages after the first and those of the Jacobian and the step's end an attempt; a first slope for each state.
    assert (7 + directions) * stats["num_steps"] < stats["nfe"] <= (8 + directions) * stats["num_steps"]
    assert BackwardEuler().cost(field) == 5 + 3 * directions


@pytest.mark.parametrize(("field", "directions"), [(Chain, UNITS), (BandedChain, 3)])
def test_forward_mode_goes_along_one_direction_for_each_band(field, directions, monkeypatch):
    along, vmap = [], torch.func.vmap
    monkeypatch.setattr(torch.func, "vmap", lambda f: lambda many: along.append(len(many)) or vmap(f)(many))
    field().jacobian(torch.ones(1), torch.randn(UNITS))
    assert along == [directions]


@pytest.mark.parametrize("bandwidths", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (0, 4), (3, 3), (9, 9)])
def test_shared_directions_give_each_entry_of_a_banded_jacobian(bandwidths):
    matrix = torch.randn(5, 5).tril(bandwidths[1]).triu(-bandwidths[0])
    found = jacobian_of(lambda h: torch.tanh(h @ matrix.mT), torch.zeros(3, 2, 5), bandwidths)
    expected = matrix.diagonal() if bandwidths == (0, 0) else matrix
    assert_close(found, expected.expand_as(found), rtol=1e-15, atol=0)


@pytest.mark.parametrize("step", [BackwardEuler(), ExponentialRosenbrock()])
@pytest.mark.parametrize(("plain", "known"), [pair for pair in FIELDS if pair[1] is not DiagonalApart])
def test_step_maps_use_it_too(step, plain, known):
    x, h, dt = torch.randn(2, 1), torch.randn(2, UNITS), 0.3
    assert_close(step(known(), x, h, dt), step(plain(), x, h, dt), rtol=1e-9, atol=1e-9)


def changed(base, change):
    """The field with another Jacobian."""

    class Changed(base):
        def jacobian(self, projected, h):
            return change(super().jacobian(projected, h), h)

    return Changed()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [OwnChain, OwnApart])
@torch.no_grad()
def test_a_right_jacobian_is_right_in_either_precision(kind, dtype):
    h0, path = torch.randn(2, UNITS, dtype=dtype), ctrnn.HeldPath(torch.randn(5, 2, 1, dtype=dtype))
    forward_mode = Apart(dtype) if kind is OwnApart else Chain(dtype)
    own, by_it = (
        integrate(field, path, h0, TIMES, method="rodas5p", rtol=1e-3, atol=1e-4).hs for field in (kind(dtype), forward_mode)
    )
    # In float32 rounding of a Jacobian of entries up to 400 may move a step's length; states stay within the tolerances.
    assert_close(own, by_it, **({"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}))


@pytest.mark.parametrize("kind", [OwnChain, FullChain, OwnApart])
def test_a_mistaken_formula_is_refused_with_its_numbers(kind):
    wrong = changed(kind, lambda J, h: 1.001 * J)
    with torch.no_grad(), pytest.raises(ValueError, match=r"`jacobian` is not that of its `flow`: .* gives .* for unit \d"):
        solved(wrong)


@pytest.mark.parametrize("step", [BackwardEuler(), ExponentialRosenbrock()])
@pytest.mark.parametrize("kind", [OwnChain, FullChain, OwnApart])
def test_step_maps_refuse_a_mistaken_formula(step, kind):
    with pytest.raises(ValueError, match="is not that of its `flow`"):
        step(changed(kind, lambda J, h: J * 2), torch.ones(2, 1), torch.ones(2, UNITS), 0.1)


@pytest.mark.parametrize("kind", [OwnChain, FullChain, OwnApart])
def test_a_formula_that_gives_nan_is_refused(kind):
    with torch.no_grad(), pytest.raises(ValueError, match="gives nan"):
        solved(changed(kind, lambda J, h: J * torch.nan))


@torch.no_grad()
def test_a_state_that_runs_away_is_no_mistake_of_the_formula():
    class Rates(VectorField):
        """-e^h h of each unit."""

        def flow(self, projected, h):
            return -h.exp() * h

        def jacobian(self, projected, h):
            return torch.diag_embed(-h.exp() * (1 + h))

    h = torch.tensor([[0.5, 800.0]])  # e^800 is infinite, and 0 times that no number
    with pytest.raises(StepError):
        BackwardEuler()(Rates(1, 2), torch.ones(1, 1), h, 0.1)


@torch.no_grad()
def test_a_formula_that_is_right_at_rest_alone_is_refused_after_it():
    wrong = changed(OwnApart, lambda J, h: J + h**2)  # of h^3, -2 h^2 and not -3 h^2
    with pytest.raises(ValueError, match="is not that of its `flow`"):
        solved(wrong, h0=torch.zeros(2, UNITS))


@pytest.mark.parametrize("bandwidths", [(0, 0), (1, 0), (0, 1)])
@torch.no_grad()
def test_bandwidths_that_miss_entries_are_refused(bandwidths):
    field = Chain()
    field.bandwidths = bandwidths
    with pytest.raises(ValueError, match=r"`bandwidths` \(\d, \d\) leave out entries"):
        solved(field)


@pytest.mark.parametrize("bandwidths", [1, [1, 1], (1,), (-1, 1), (1.0, 1), "11"])
def test_what_is_no_bandwidths_is_refused(bandwidths):
    field = Chain()
    field.bandwidths = bandwidths
    with pytest.raises(ValueError, match="must be a tuple of two integers"):
        solved(field)


@pytest.mark.parametrize(
    ("kind", "change", "error", "words"),
    [
        (FullChain, lambda J, h: J[0], ValueError, "expand one that is the same for all"),
        (OwnApart, lambda J, h: torch.diag_embed(J), ValueError, "its diagonal"),
        (FullChain, lambda J, h: J.float(), TypeError, "float32 .* for a state of torch.float64"),
        (FullChain, lambda J, h: J.tolist(), TypeError, "gives list, not a tensor"),
        (FullChain, lambda J, h: J @ h[..., :-1], ValueError, "`jacobian` fails for a state of shape"),
    ],
)
def test_what_is_no_jacobian_is_refused_in_words(kind, change, error, words):
    with torch.no_grad(), pytest.raises(error, match=words):
        solved(changed(kind, change))


@pytest.mark.parametrize("kind", [OwnChain, FullChain, OwnApart])
def test_one_that_autograd_cannot_go_through_is_refused_where_gradients_are_asked_for(kind):
    cut = changed(kind, lambda J, h: J.detach())
    with torch.no_grad():
        solved(cut)
    with pytest.raises(ValueError, match="cut off from autograd"):
        solved(cut)


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h**3

    @staticmethod
    def backward(ctx, by):
        raise NotImplementedError


class Opaque(Apart):
    """What torch.func cannot follow."""

    def flow(self, projected, h):
        return self.k * (torch.tanh(projected) - h) - _Cube.apply(h)


class OwnOpaque(Opaque):
    bandwidths = (0, 0)

    def jacobian(self, projected, h):
        return -self.k - 3 * h**2


@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath])
@torch.no_grad()
def test_a_field_that_forward_mode_cannot_follow_is_solved_by_its_own_jacobian(path):
    with pytest.raises(TypeError, match="a `jacobian` of its own"):
        solved(Opaque(), path)
    assert_close(solved(OwnOpaque(), path).hs, solved(Apart(), path).hs, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="is not that of its `flow`"):
        solved(changed(OwnOpaque, lambda J, h: 1.01 * J), path)


def test_backwards_in_time_the_jacobian_is_that_of_the_reversed_field():
    field, x, h = BackwardField(FullChain()), torch.randn(1, 1), torch.randn(1, UNITS)
    found = field.jacobian(field.project(x), h)
    assert_close(found[0], torch.func.jacfwd(lambda h: field.flow(field.project(x), h[None])[0])(h[0]))
