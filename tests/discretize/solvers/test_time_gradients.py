"""Gradients to times and knots, also where they coincide: asking for a time moves its own answer and nothing else."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Checkpointed, ContinuousRNN, Euler, integrate
from discretize.solvers import adaptive

EXACT = {"method": "dopri8", "rtol": 1e-10, "atol": 1e-12}


def is_the_slope(f, times, moved=1.0, width=1e-5):
    """In a random direction, by a central difference, whose own error is width^2 / 6 of the third derivative."""
    leaf, towards = times.clone().requires_grad_(), torch.randn_like(times) * moved
    (gradient,) = torch.autograd.grad(f(leaf), leaf)
    with torch.no_grad():
        after, before = (f(times + sign * width * towards) for sign in (1, -1))
    assert_close((gradient * towards).sum(), (after - before) / (2 * width), rtol=1e-7, atol=1e-7)


@pytest.fixture
def setting():
    return ctrnn.gated(2, 3), torch.randn(4, 2, 2), torch.randn(2, 3)


def test_a_knot_that_is_asked_for_has_the_gradient_of_the_knot(setting):
    field, xs, h0 = setting
    knots, ts = torch.tensor([-0.5, 1.0, 2.0, 3.0, 4.5]), torch.tensor([0.0, 1.0, 2.0, 3.0, 3.9])
    is_the_slope(lambda k: integrate(field, ctrnn.HeldPath(xs, k), h0, ts, **EXACT).hs[-1].square().sum(), knots)


def test_equal_times_of_a_sequence_have_a_gradient_each(setting):
    field, xs, h0 = setting
    ts = torch.tensor([[0.0, 0.0], [1.2, 1.1], [1.2, 2.1], [3.1, 3.3]], requires_grad=True)
    hs = integrate(field, ctrnn.HeldPath(xs), h0, ts, **EXACT).hs
    answers = [torch.autograd.grad(hs[i, 0].sum(), ts, retain_graph=True)[0][:, 0] for i in range(4)]
    assert_close(answers[1][1], answers[2][2], rtol=0, atol=1e-9)
    assert abs(float(answers[1][1])) > 1e-3
    for i, answer in enumerate(answers):
        others = [j for j in range(1, 4) if j != i]
        assert_close(answer[others], torch.zeros(len(others)), rtol=0, atol=1e-8)


def test_times_between_have_gradients_to_the_times_they_are_solved_from(setting):
    field, xs, h0 = setting
    ts = torch.tensor([0.01, 1.3, 2.7, 3.5])
    is_the_slope(lambda t: integrate(field, ctrnn.HeldPath(xs), h0, t, **EXACT)(2.0).square().sum(), ts)
    own = torch.tensor([[2.0, 1.5]])
    is_the_slope(lambda t: integrate(field, ctrnn.HeldPath(xs), h0, t, **EXACT)(own).square().sum(), ts)
    edges = torch.tensor([0.0, 0.7, 2.0, 3.1, 4.0])
    is_the_slope(lambda t: ContinuousRNN(field, **EXACT).trajectory(xs, h0, ts=t)(2.5).square().sum(), edges)


def test_knots_of_each_sequence_and_times_for_all_go_together(setting):
    field, xs, h0 = setting
    knots = torch.tensor([[0.0, -1.0], [1.0, 0.5], [2.0, 2.5], [3.0, 3.5], [4.0, 5.0]])
    ts = torch.tensor([0.0, 1.2, 3.0])
    together = integrate(field, ctrnn.HeldPath(xs, knots), h0, ts).hs
    for i in range(2):
        alone = integrate(field, ctrnn.HeldPath(xs[:, i : i + 1], knots[:, i]), h0[i : i + 1], ts).hs
        assert_close(together[:, i : i + 1], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.HermitePath])
def test_knots_of_each_sequence_have_theirs(setting, path):
    field, xs, h0 = setting
    xs = xs[:3] if path is ctrnn.HeldPath else xs
    knots = torch.tensor([[-0.1, -0.1], [1.0, 0.9], [1.5, 1.7], [3.2, 3.2]])
    ts = torch.tensor([[0.0, 0.0], [1.0, 1.1], [2.9, 3.1]])  # the second knot of the first sequence is asked for
    is_the_slope(lambda k: integrate(field, path(xs, k), h0, ts, **EXACT).hs[-1].square().sum(), knots)


@pytest.mark.parametrize("place", [(2, 0), (3, 0), (3, 1)])
def test_a_time_that_is_asked_for_moves_its_own_answer_only(setting, place):
    field, xs, h0 = setting
    ts = torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.5, 2.0], [3.0, 3.3]]) + 0.01
    is_the_slope(lambda t: integrate(field, ctrnn.HeldPath(xs), h0, t, **EXACT).hs[place].square().sum(), ts)


@pytest.mark.kernels
@pytest.mark.parametrize("case", ["clock", "own times", "backwards", "blocks"])
def test_times_that_are_asked_for_move_compiled_solves(setting, case, monkeypatch):
    monkeypatch.setattr("discretize.kernels.price.PRICE", 0)
    (field, xs, h0), ts, settings = setting, torch.tensor([0.2, 1.1, 1.7, 2.9]), dict(EXACT)
    path = ctrnn.HeldPath(xs)
    if case == "clock":
        settings["speed"] = lambda t: 1 + t * t / 8
    elif case == "own times":
        ts = torch.tensor([[0.1, 0.2], [0.8, 1.5], [2.5, 1.9]])
    elif case == "backwards":
        ts = ts.flip(0)
    elif case == "blocks":
        settings["gradient"] = Checkpointed(5000)

    def solved(times):
        found = integrate(field, path, h0, times, **settings)
        assert found.stats["engine"] == "compiled", found.stats["engine_why"]
        return found.hs

    is_the_slope(lambda t: (solved(t) * torch.linspace(-1, 1, 2 * h0.shape[1]).view(2, -1)).square().sum(), ts)
    leaf = ts.clone().requires_grad_()
    assert_close(torch.autograd.grad(solved(leaf)[0].sum(), leaf)[0], torch.zeros_like(ts))  # h0, whenever it begins


@pytest.mark.parametrize("method", [Euler(), "rk4", "dopri5"])
@pytest.mark.parametrize("own", [False, True])
def test_a_trajectory_asked_for_its_own_times_gives_its_own_states(setting, method, own):
    field, xs, h0 = setting
    ts = torch.tensor([[0.0, 0.0], [0.5, 0.7], [1.5, 1.2], [3.0, 3.5]]) if own else torch.tensor([0.0, 0.5, 1.2, 3.5])
    solved = integrate(field, ctrnn.HeldPath(xs), h0, ts, method=method)
    times = ts if own else torch.stack([ts, ts], 1)
    assert_close(solved(times), solved.hs, rtol=0, atol=1e-12)
    assert solved(torch.zeros(0)).shape == (0, 2, 3)


def test_samples_are_left_out_under_a_given_speed_too(monkeypatch):
    monkeypatch.setattr(adaptive, "WORTH_LEAVING_OUT", 0)
    field, xs, h0 = ctrnn.gated(2, 3), torch.randn(4, 4, 2), torch.randn(4, 3)
    ts = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.1, 4.0]])

    def speed(t):
        return 1 + 0.5 * torch.sin(t)

    together = integrate(field, ctrnn.HeldPath(xs), h0, ts, speed=speed, **EXACT).hs
    for i in range(4):
        alone = integrate(field, ctrnn.HeldPath(xs[:, i : i + 1]), h0[i : i + 1], ts[:, i], speed=speed, **EXACT).hs
        assert_close(together[:, i : i + 1], alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("method", ["euler", "rk4", Euler()])
def test_the_last_time_of_a_field_without_input_moves_the_steps_that_lead_to_it(method, own):
    field, h0, ts = ctrnn.gru(0, 3), torch.randn(2, 3), torch.tensor([0.0, 0.7, 1.9])
    ts = (torch.stack([ts, 1.3 * ts], 1) if own else ts).requires_grad_()
    assert torch.autograd.gradcheck(lambda ts: integrate(field, None, h0, ts, method=method).hs, ts, fast_mode=True)


def test_knots_have_their_gradient_where_the_same_times_are_asked_for(setting):
    field, xs, h0 = setting
    knots = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.5])
    is_the_slope(
        lambda k: integrate(field, ctrnn.HeldPath(xs, k), h0, knots.detach(), **EXACT).hs[-1].square().sum(),
        knots,
        torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0]),
    )


@pytest.mark.parametrize("method", ["rk4", Euler()])
def test_blocks_of_fixed_steps_refuse_times_that_would_have_no_gradient(setting, method):
    field, xs, h0 = setting
    ts, how = torch.arange(5.0).requires_grad_(), {"method": method, "gradient": Checkpointed(1e6)}
    with pytest.raises(ValueError, match=r"has no gradients to times; detach them"):
        integrate(field, ctrnn.HeldPath(xs), h0, ts, **how)
    with pytest.raises(ValueError, match=r"has no gradients to"):
        ContinuousRNN(field, **how)(xs, h0, ts)
