"""From observation to observation: what is solved is what `integrate` solves, checked and counted once for a sequence."""

import warnings
from unittest.mock import patch

import pytest
import torch
from cases import crossed
from conformance import kernels_for_all
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Adjoint, Checkpointed, JumpRNN, RungeKutta4, SolverError, SolverWarning, integrate
from discretize.jumps import between
from discretize.jumps.jump import GRUBayes, Jump

TIME, BATCH = 5, 3
CASES = {
    "dopri5": {},
    "rodas5p": {"method": "rodas5p"},
    "rk4": {"method": "rk4", "max_step": 0.3},
    "steps of a map": {"method": RungeKutta4(), "max_step": 0.3},
    "one step of a map": {"method": RungeKutta4()},
    "torchdiffeq": {"method": "torchdiffeq:rk4"},
    "Checkpointed": {"gradient": Checkpointed(1e4)},
    "Adjoint": {"gradient": Adjoint()},
}


def given(stamps):
    """Returns a jumping network, observations and their times."""
    x, h_0 = torch.randn(TIME, BATCH, 2, requires_grad=True), torch.randn(BATCH, 4, requires_grad=True)
    gaps = 0.1 + torch.rand(TIME, *([] if stamps == "shared" else [BATCH]))
    return x, h_0, 3.0 + gaps.cumsum(0)


def network(**settings):
    return JumpRNN(ctrnn.gru(0, 4), GRUBayes(2, 4, 2, 3), **settings)


def one_by_one(rnn, x, h_0, ts, fused):
    """Returns the same by a solve for each interval, and the counts of all of them."""
    settings = {name: getattr(rnn.settings, name) for name in ("method", "rtol", "atol", "max_step", "gradient")}
    h, found, nfe, steps = h_0, [], 0, torch.zeros(1)
    for k, length in enumerate(torch.cat([torch.zeros_like(ts[:1]), ts.diff(dim=0)])):
        if bool((length > 0).any()):
            solved = integrate(rnn.field, None, h, torch.stack([torch.zeros_like(length), length]), fused=fused, **settings)
            h, nfe = solved.hs[-1], nfe + solved.stats["nfe"]
            steps = steps + torch.tensor(solved.stats["steps_of_samples"])
        h = rnn.jump(x[k], torch.ones_like(x[k]), h)
        found.append(h)
    return torch.stack(found), nfe, steps


def agrees_with_one_by_one(case, stamps, learns_times=False, near=1e-12, fused=False):
    rnn, (x, h_0, ts) = network(**case), given(stamps)
    ts.requires_grad_(learns_times)
    output, _ = rnn(x, h_0, ts)
    stats = dict(rnn.stats)
    sought = [x, h_0, *rnn.parameters(), *([ts] if learns_times else [])]
    cotangent = torch.randn_like(output)
    expected, nfe, steps = one_by_one(rnn, x, h_0, ts, fused)
    for one, other in zip(
        (output, *torch.autograd.grad((output * cotangent).sum(), sought)),
        (expected, *torch.autograd.grad((expected * cotangent).sum(), sought)),
        strict=True,
    ):
        assert_close(one, other, rtol=near, atol=near)
    assert stats["nfe"] == nfe
    assert stats["num_steps"] == steps.max()
    return stats


@pytest.mark.parametrize(("name", "stamps"), crossed(CASES, ["own", "shared"]))
def test_a_sequence_of_jumps_is_a_solve_for_each_interval(name, stamps):
    if stamps == "own" and name == "torchdiffeq":
        pytest.skip("methods of torchdiffeq take one time for all")
    assert agrees_with_one_by_one(CASES[name], stamps)["engine"] == ("torchdiffeq" if name == "torchdiffeq" else "steps")


@pytest.mark.parametrize("stamps", ["shared", "own"])
@pytest.mark.parametrize("name", ["dopri5", "rk4", "one step of a map"])
def test_times_that_are_learned_move_each_interval(name, stamps):
    rnn, (x, h_0, ts) = network(**CASES[name]), given(stamps)
    if name == "dopri5":  # which moves a state by dh/dt
        agrees_with_one_by_one(CASES[name], stamps, learns_times=True)
    else:
        rnn.requires_grad_(False)
        assert torch.autograd.gradcheck(lambda ts: rnn(x.detach(), h_0.detach(), ts)[0], ts.requires_grad_(), fast_mode=True)


@pytest.mark.kernels
@pytest.mark.parametrize("stamps", ["shared", "own"])
@pytest.mark.parametrize("name", ["dopri5", pytest.param("rodas5p", marks=pytest.mark.slow), "Checkpointed"])
def test_a_kernel_solves_the_same_intervals(name, stamps):
    # The slow run adds the kernel of a method for stiff fields, which takes a second or more to compile.
    with kernels_for_all("compiled"):
        stats = agrees_with_one_by_one(CASES[name], stamps, learns_times=name == "dopri5", fused="always")
    assert stats["engine"] == "compiled", stats["engine_why"]


def test_a_sequence_is_checked_and_its_kernel_chosen_once():
    rnn, (x, h_0, ts) = network(), given("shared")
    with (
        patch.object(ctrnn.Driven, "check_flow", autospec=True, side_effect=ctrnn.Driven.check_flow) as checked,
        patch.object(between, "plan_solve", side_effect=between.plan_solve) as chosen,
    ):
        rnn(x, h_0, ts)
    assert (checked.call_count, chosen.call_count) == (1, 1)


class Squared(nn.Module):
    def forward(self, h):
        return h * h


class Put(Jump):
    """h <- x."""

    input_size, state_size = 1, 1

    def forward(self, x, observed, h):
        return x


@pytest.mark.parametrize("settings", [{}, {"method": "euler", "max_step": 1e-2}], ids=["dopri5", "euler"])
def test_a_solve_that_fails_says_at_which_time_of_the_sequence(settings):
    # From 1 at t = 10 dh/dt = h h is infinite at 11; equal steps are looked at where they end.
    rnn = JumpRNN(ctrnn.NetworkField(Squared(), 1), Put(), **settings)
    with pytest.raises(SolverError) as stopped:
        rnn(torch.tensor([[0.1], [1.0], [0.0]]), None, torch.tensor([9.0, 10.0, 12.0]))
    assert abs(stopped.value.time - (12 if settings else 11)) < 1e-2
    assert_close(stopped.value.trajectory.ts, torch.tensor([10.0]), check_dtype=False)


def test_states_below_the_tolerance_are_told_of_once():
    rnn = JumpRNN(ctrnn.NetworkField(nn.Identity(), 1), Put(), atol=1e-3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rnn(torch.full((4, 1, 1), 1e-9))
    assert [str(one.message)[:35] for one in said if one.category is SolverWarning] == ["All states of this solve stay below"]


class Drawn(nn.Module):
    def forward(self, h):
        return torch.rand_like(h)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({}, "draws random numbers"), ({"atol": torch.ones(3)}, "one for each of the 1 units")],
    ids=["a field that draws", "tolerances of other units"],
)
def test_what_no_solve_takes_is_refused_before_the_first_interval(settings, words):
    rnn = JumpRNN(ctrnn.NetworkField(Drawn() if not settings else nn.Identity(), 1), Put(), **settings)
    with pytest.raises(ValueError, match=words):
        rnn(torch.ones(3, 1, 1))


def test_single_steps_take_any_field_as_cells_do():
    rnn = JumpRNN(ctrnn.NetworkField(Drawn(), 1), Put(), method=discretize.Euler())
    output, _ = rnn(torch.ones(3, 1, 1))
    assert output.isfinite().all()


class Explosive(ctrnn.VectorField):
    def __init__(self, draws=False):
        super().__init__(0, 4)
        self.draws = draws

    def flow(self, projected, h):
        return torch.exp(400 * h) if not self.draws else torch.rand_like(h) - h


@pytest.mark.parametrize("method", ["euler", "rk4", RungeKutta4()], ids=str)
@pytest.mark.parametrize("stamps", ["shared", "own"])
def test_states_of_one_step_that_are_not_finite_end_the_solve_where_they_became_so(method, stamps):
    rnn, (x, _, ts) = JumpRNN(Explosive(), GRUBayes(2, 4, 2, 3), method), given(stamps)
    h_0 = torch.full((BATCH, 4), -10.0)
    h_0[1, 2] = 2.0  # whose exponential is too large
    with pytest.raises(SolverError, match="sample 1, unit 2: the state became") as error:
        rnn(x, h_0, torch.cat([ts[:1] - 1.0, ts]))
    assert error.value.time == (ts[0, 1] if stamps == "own" else ts[0])
    assert len(error.value.trajectory) == 0


@pytest.mark.parametrize("method", ["rk4", RungeKutta4()], ids=str)
def test_a_field_that_draws_at_each_call_takes_no_steps_of_several_calls(method):
    x, _, ts = given("shared")
    with pytest.raises(ValueError, match="draws random numbers each time"):
        JumpRNN(Explosive(draws=True), GRUBayes(2, 4, 2, 3), method)(x, ts=ts)
    assert JumpRNN(Explosive(draws=True), GRUBayes(2, 4, 2, 3), "euler")(x, ts=ts)[0].isfinite().all()
