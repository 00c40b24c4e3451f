"""A field with its input as the function that torchdiffeq solves, differentiates and stops: as it is, its knots named."""

import copy
import functools

import pytest
import torch
from cases import crossed
from torch import nn
from torch.testing import assert_close
from torchdiffeq import odeint, odeint_adjoint, odeint_event

import ctrnn
from ctrnn import Driven, FunctionPath, HeldPath, LinearPath, SmoothWarp, WarpedPath
from discretize import Event, integrate
from discretize import torchdiffeq as drop_in

TIGHT = {"rtol": 1e-6, "atol": 1e-6}


def jumps(driven):
    return {"options": {"jump_t": driven.knots.unique()}}


def largest(one, other):
    return float((one - other).abs().max())


@functools.cache
def seed_7():
    """A field, samples and their exact states on which a step of torchdiffeq's dopri5 just ends on a jump."""
    generator = torch.Generator().manual_seed(7)
    field = ctrnn.gated(2, 3, dtype=torch.float64, generator=generator)
    path = HeldPath(3 * torch.randn(12, 1, 2, dtype=torch.float64, generator=generator))
    h0, ts = torch.zeros(1, 3), torch.arange(13.0)
    with torch.no_grad():
        return Driven(field, path), h0, ts, integrate(field, path, h0, ts, method="dopri8", rtol=1e-10, atol=1e-10).hs


def clock():
    return SmoothWarp.random(4.0, 2.0, torch.Generator().manual_seed(0))


DRIVEN = {
    "held": lambda field, xs: (field, HeldPath(xs)),
    "straight": lambda field, xs: (field, LinearPath(xs)),
    "held, knots that float32 cannot tell": lambda field, xs: (field, HeldPath(xs, 0.7 + 0.1 * torch.arange(6.0))),
    "one path for all": lambda field, xs: (field, HeldPath(xs[:, :1])),
    "times of its own for each sequence": lambda field, xs: (field, HeldPath(xs, torch.rand(6, 3).cumsum(0))),
    "a function": lambda field, xs: (field, FunctionPath(lambda t: torch.sin(t + xs[0]), (0.0, 4.0), 2)),
    "on a clock": lambda field, xs: (field, WarpedPath(LinearPath(xs), clock()), clock().speed),
    "the clock's speed forgotten": lambda field, xs: (field, WarpedPath(LinearPath(xs), clock())),
}


# `integrate` goes backwards where all sequences have the same times.
WAYS = [
    way
    for way in crossed(DRIVEN, [False, True], [torch.float64, torch.float64, torch.float32])
    if way.values[:2] != ("times of its own for each sequence", True)
]


@pytest.mark.parametrize(("name", "backwards", "dtype"), WAYS)
def test_it_is_solved_as_integrate_solves_it(name, backwards, dtype):
    field, h0 = ctrnn.gated(2, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    field, path, *speed = DRIVEN[name](field, torch.randn(5, 3, 2, dtype=dtype))
    driven = Driven(field, path, *speed, batch=3)
    start, end = driven.interval
    ts = torch.linspace(start, end, 4).clamp(start, end)
    ts, tolerance = ts.flip(0) if backwards else ts, 1e-7 if dtype == torch.float64 else 1e-5
    with torch.no_grad():
        theirs = odeint(driven, h0, ts, rtol=tolerance, atol=tolerance, **jumps(driven))
        ours = integrate(field, path, h0, ts, speed=speed[0] if speed else None, rtol=tolerance, atol=tolerance).hs
    # Backwards, what forgets grows, and its errors with it.
    assert_close(theirs, ours, rtol=100 * tolerance, atol=100 * tolerance)


def test_a_knot_rounded_to_float32_divides_the_pieces_of_times_in_float32():
    field, h = ctrnn.gated(2, 4, dtype=torch.float32), torch.zeros(3, 4).float()
    path = HeldPath(torch.randn(10, 3, 2).float(), torch.arange(11.0) / 10)
    knots, driven = path.knots.float(), Driven(field, path)
    assert {*(knots.double() - path.knots).sign().tolist()} == {-1.0, 0.0, 1.0}  # some are rounded down, some up
    for k, knot in enumerate(knots[1:-1], 1):
        for time, piece in ((knot.nextafter(knots[0]), k - 1), (knot, k)):
            assert_close(driven(time, h), field(path.xs[piece], h), rtol=0, atol=0)


def test_without_its_jumps_a_loose_solve_is_off_by_many_tolerances():
    driven, h0, ts, exact = seed_7()
    with torch.no_grad():
        assert largest(odeint(driven, h0, ts, rtol=1e-3, atol=1e-3), exact) > 0.05
        assert largest(odeint(driven, h0, ts, rtol=1e-3, atol=1e-3, **jumps(driven)), exact) < 0.01


def test_no_jump_is_lost_where_a_step_just_ends_on_it():
    driven, h0, ts, exact = seed_7()
    with torch.no_grad():
        bare = odeint(driven.forward, h0, ts, rtol=1e-3, atol=1e-3, **jumps(driven))  # torchdiffeq by itself
        assert largest(bare, exact) > 10 * largest(odeint(driven, h0, ts, rtol=1e-3, atol=1e-3, **jumps(driven)), exact)


def test_fixed_steps_keep_their_length_to_rounding():
    driven, h0, ts, _ = seed_7()
    steps = {"method": "rk4", "options": {"step_size": 0.25}}
    with torch.no_grad():
        assert_close(odeint(driven, h0, ts, **steps), odeint(driven.forward, h0, ts, **steps), rtol=0, atol=1e-13)


def test_beyond_its_ends_the_input_stays_and_no_step_begins():
    driven, h0, _, _ = seed_7()
    assert_close(driven(13.0, h0), driven(12.0, h0), rtol=0, atol=0)
    assert_close(driven(-1.0, h0), driven(0.0, h0), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"the input is known on \[0.0, 12.0\]"):
        odeint(driven, h0, torch.tensor([0.0, 40.0]), options={"jump_t": driven.knots, "max_step": 1.0})
    with pytest.raises(ValueError, match="goes on until there is one"):
        odeint_event(driven, h0, torch.tensor(0.0), event_fn=lambda t, h: h[:, 0] + 100, **jumps(driven))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2))

    def forward(self, x):
        return torch.sin(x * self.weight).expand(3, 2)

    def scaled(self, x):
        return x * self.weight


# Paths and speeds that hold parameters, with these, of samples, samples of a speed, and an encoder.
LEARNED = {
    "samples": lambda xs, speeds, encoder: ((HeldPath(xs),), [xs]),
    "samples on a clock": lambda xs, speeds, encoder: ((WarpedPath(LinearPath(xs), clock()), clock().speed), [xs]),
    "samples and a speed": lambda xs, speeds, encoder: ((HeldPath(xs), HeldPath(speeds)), [xs, speeds]),
    "mapped samples": lambda xs, speeds, encoder: ((LinearPath(xs).map(encoder.scaled),), [xs, encoder.weight]),
    "a function": lambda xs, speeds, encoder: ((FunctionPath(encoder, (0.0, 4.0), 2),), [encoder.weight]),
    # Held samples are mapped at once: their graph leads to both.
    "mapped, held samples": lambda xs, speeds, encoder: ((HeldPath(xs).map(encoder.scaled),), []),
}


def learned_input(name):
    return LEARNED[name](nn.Parameter(torch.randn(5, 3, 2)), nn.Parameter(torch.rand(5, 1, 1)), Encoder())


@pytest.mark.parametrize("name", LEARNED)
def test_a_driven_field_has_the_parameters_of_field_path_and_speed(name):
    field, ((path, *speed), learned) = ctrnn.gated(2, 4), learned_input(name)
    found = list(Driven(field, path, *speed).parameters())
    assert {*map(id, found)} == {*map(id, [*field.parameters(), *learned])}
    assert len(found) == len({*map(id, found)})


@pytest.mark.parametrize("name", [name for name in LEARNED if name != "mapped, held samples"])
def test_the_adjoint_finds_the_parameters_and_gives_the_gradients_of_integrate(name):
    field, h0, ts = ctrnn.gated(2, 4), torch.randn(3, 4, requires_grad=True), torch.tensor([0.0, 0.5, 1.7])
    (path, *speed), learned = learned_input(name)
    driven, wanted = Driven(field, path, *speed), [h0, *field.parameters(), *learned]
    theirs = odeint_adjoint(driven, h0, ts, **TIGHT, **jumps(driven))
    ours = integrate(field, path, h0, ts, speed=speed[0] if speed else None, **TIGHT).hs
    found = [torch.autograd.grad(hs.sin().sum(), wanted) for hs in (theirs, ours)]
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=0, atol=1e-4)


def test_asked_an_ulp_before_a_knot_the_adjoint_begins_on_its_own_side_of_the_jump():
    field, path, h0, ts = ctrnn.gated(2, 4), HeldPath(torch.randn(3, 3, 2)), torch.randn(3, 4), torch.arange(4.0)

    def gradients(hs):
        return torch.cat([slope.flatten() for slope in torch.autograd.grad(hs.sin().sum(), [*field.parameters()])])

    exact = gradients(integrate(field, path, h0, ts, method="dopri8", rtol=1e-10, atol=1e-10).hs)
    driven, adjoint = Driven(field, path), {"rtol": 1e-6, "atol": 1e-6}
    at, before = (
        largest(gradients(odeint_adjoint(driven, h0, t, **adjoint, **jumps(driven))), exact) for t in (ts, ts.nextafter(ts[:1]))
    )
    assert before < 2e-5
    assert at > 5 * before  # the trap of which the documents speak


def test_samples_that_are_no_parameter_get_their_gradient_from_the_adjoint_only_where_they_are_named():
    field, xs, h0, ts = ctrnn.gated(2, 4), torch.randn(2, 3, 2, requires_grad=True), torch.randn(3, 4), torch.tensor([0.0, 2.0])

    def gradient(solve, *named):
        driven = Driven(field, HeldPath(2 * xs))
        params = {"adjoint_params": (*driven.parameters(), driven.path.xs)} if named else {}
        hs = solve(driven, h0, ts, **TIGHT, **jumps(driven), **params)
        return torch.autograd.grad(hs.sin().sum(), xs, allow_unused=True)[0]

    assert gradient(odeint_adjoint) is None
    assert_close(gradient(odeint_adjoint, "the samples"), gradient(odeint), rtol=0, atol=1e-5)


def test_one_of_it_serves_a_whole_training():
    field, h0, ts = ctrnn.gated(2, 4), torch.zeros(3, 4), torch.tensor([0.0, 2.5])
    driven = Driven(field, HeldPath(torch.randn(5, 3, 2)))
    optimizer = torch.optim.SGD(driven.parameters(), 0.1)
    for solve in (odeint, odeint_adjoint, odeint):
        optimizer.zero_grad()
        hs = solve(driven, h0, ts, **TIGHT, **jumps(driven))
        assert_close(hs, integrate(field, driven.path, h0, ts, **TIGHT).hs, rtol=0, atol=1e-5)
        hs.sum().backward()
        optimizer.step()
    twin = copy.deepcopy(driven)
    assert_close(twin(1.5, h0), driven(1.5, h0), rtol=0, atol=0)
    assert [*twin.state_dict()] == [f"field.{name}" for name in field.state_dict()]


@pytest.mark.parametrize("interface", [odeint, odeint_adjoint])
def test_an_event_has_the_time_state_and_gradients_that_it_has_here(interface):
    field, path, h0 = ctrnn.leaky(1, 3, alpha=0.5), HeldPath(torch.rand(6, 1, 1)), torch.full((1, 3), 0.9, requires_grad=True)
    driven, below, wanted = Driven(field, path), lambda t, h: h[:, 0] - 0.5, [h0, *field.parameters()]
    ours = integrate(field, path, h0, torch.tensor([0.0, 6.0]), events=Event(below, terminal=True), **TIGHT).events[0]
    theirs = odeint_event(driven, h0, torch.tensor(0.0), event_fn=below, odeint_interface=interface, **TIGHT, **jumps(driven))
    assert 0.5 < ours.times[0].item() < 5.5
    assert_close(theirs[0], ours.times[0], rtol=0, atol=1e-5)
    assert_close(theirs[1][-1], ours.states, rtol=0, atol=1e-5)
    results = (theirs[0], theirs[1][-1]), (ours.times[0], ours.states)
    found = [torch.autograd.grad(time + state.sin().sum(), wanted) for time, state in results]
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("solve", [odeint, odeint_adjoint, drop_in.odeint, drop_in.odeint_adjoint])
def test_times_in_float32_that_end_a_rounding_beyond_are_solved_forwards_and_backwards(solve):
    field, path, h0 = ctrnn.gated(2, 3), LinearPath(torch.randn(5, 2, 2), 0.3 * torch.arange(5.0)), torch.zeros(2, 3)
    driven, ts = Driven(field, path), torch.linspace(0.0, 1.2, 2, dtype=torch.float32)
    assert float(ts[-1]) > driven.interval[1]
    expected = integrate(field, path, h0, ts.double().clamp(max=driven.interval[1]), **TIGHT).hs
    sought = torch.autograd.grad(expected[-1].sum(), list(field.parameters()))
    hs = solve(driven, h0, ts, **TIGHT, **jumps(driven))
    assert_close(hs, expected, rtol=0, atol=1e-5)
    assert_close(torch.autograd.grad(hs[-1].sum(), list(field.parameters())), sought, rtol=0, atol=1e-4)
