"""method="torchdiffeq:NAME" against torchdiffeq called by hand, the solver here, closed forms, and what it refuses."""

from functools import cache

import pytest
import torch
import torchdiffeq
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Adjoint, Checkpointed, ContinuousRNN, SolverError, integrate
from discretize.solvers.by_torchdiffeq import options_of, read_by, torchdiffeq_methods

NAMES = sorted(torchdiffeq_methods())
FIXED = [name for name in NAMES if "step_size" in options_of(name)]
# By steps of 1/16 or a tolerance of 1e-4: some ten times what was seen.
OFF = {
    **dict.fromkeys(("euler", "implicit_euler"), 0.05),
    "explicit_adams": 0.02,
    **dict.fromkeys(("midpoint", "heun2", "bosh3", "dopri8", "fehlberg2"), 1e-3),
    # Of torchdiffeq after 0.2.5.
    **dict.fromkeys(("implicit_midpoint", "trapezoid", "sdirk2", "trbdf2"), 1e-3),
}
TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def by(name, field, **how):
    tight = {setting: value for setting, value in TIGHT.items() if setting in read_by(name)}
    return ContinuousRNN(field, f"torchdiffeq:{name}", **{**tight, **how})


def gradients(field, rnn, *call, **more):
    sought = [t for t in (*call, *more.values(), *field.parameters()) if t.is_floating_point() and t.requires_grad]
    output = rnn(*call, **more)[0]
    return [output, *torch.autograd.grad(output.sin().sum(), sought, allow_unused=True, materialize_grads=True)]


@cache
def driven_cell():
    field, x = ctrnn.gated(2, 4), torch.randn(5, 3, 2)
    with torch.no_grad():
        return field, x, ContinuousRNN(field, **TIGHT)(x)[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_that_torchdiffeq_has_solves_a_driven_cell(name):
    field, x, exact = driven_cell()
    how = {"max_step": 1 / 16} if name in FIXED else {"rtol": 1e-4, "atol": 1e-6}
    with torch.no_grad():
        rnn = by(name, field, **how)
        assert_close(rnn(x)[0], exact, rtol=0, atol=OFF.get(name, 3e-4))
    assert rnn.stats["engine"] == "torchdiffeq"
    assert rnn.stats["nfe"] > 0


# The slow run adds another pair of orders, by the same code as the first.
@pytest.mark.parametrize("name", ["dopri5", pytest.param("bosh3", marks=pytest.mark.slow), "rk4", "implicit_adams"])
def test_it_is_torchdiffeq_called_by_hand_sample_by_sample_to_rounding(name):
    field, x = ctrnn.gru(2, 4), torch.randn(6, 3, 2, requires_grad=True)
    how = {"rtol": 1e-5, "atol": 1e-7, **({"max_step": 0.25} if name in FIXED else {})}
    options = {"step_size": 0.25} if name in FIXED else {"step_t": torch.ones(1)}

    def by_hand(x):
        h, hs = torch.zeros(3, 4), []
        for sample in x:
            ends = torch.tensor([0.0, 1.0])
            flow = lambda t, h, sample=sample: field(sample, h)  # noqa: E731
            h = torchdiffeq.odeint(flow, h, ends, rtol=1e-5, atol=1e-7, method=name, options=options)[-1]
            hs.append(h)
        return torch.stack(hs), h

    pairs = zip(gradients(field, by(name, field, **how), x), gradients(field, by_hand, x), strict=True)
    for mine, theirs in pairs:
        assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "more", [{}, {"lengths": torch.tensor([5, 2, 4])}, {"reset": torch.eye(5, 3, dtype=torch.bool).roll(1, 0)}]
)
def test_times_of_each_sequence_lengths_and_restarts_have_the_gradients_of_the_solver_here(more):
    field, x = ctrnn.gated(2, 4), torch.randn(5, 3, 2, requires_grad=True)
    ts, h0 = torch.rand(6, 3).cumsum(0).requires_grad_(), torch.randn(1, 3, 4, requires_grad=True)
    how = {"rtol": 1e-7, "atol": 1e-9}
    found = [gradients(field, rnn, x, h0, ts=ts, **more) for rnn in (by("dopri5", field, **how), ContinuousRNN(field, **how))]
    for mine, own in zip(*found, strict=True):
        assert_close(mine, own, rtol=0, atol=3e-6)


def test_it_runs_backwards_in_time_and_on_other_clocks():
    field, x, h0 = ctrnn.leaky(1, 3, alpha=0.5), torch.randn(3, 2, 1), torch.randn(2, 3)
    path, ts = ctrnn.LinearPath(x), torch.tensor([2.0, 1.5, 0.0])
    back = integrate(field, path, h0, ts, method="torchdiffeq:dopri5", **TIGHT)
    assert_close(back.hs, integrate(field, path, h0, ts, **TIGHT).hs, rtol=0, atol=1e-6)
    clock, held = ctrnn.SmoothWarp.random(3.0, 2.0, generator=torch.Generator().manual_seed(1)), ctrnn.HeldPath(x)
    edges = torch.arange(4.0)
    plain = integrate(field, held, h0, edges, method="torchdiffeq:dopri5", **TIGHT).hs
    warped = integrate(
        field, ctrnn.WarpedPath(held, clock), h0, clock.inverse(edges), method="torchdiffeq:dopri5", speed=clock.speed, **TIGHT
    )
    assert_close(warped.hs, plain, rtol=0, atol=1e-6)  # the theorem


def test_its_adjoint_gives_the_gradients_of_the_steps_to_the_tolerance_and_no_second_ones():
    field, x, h0 = ctrnn.gated(2, 4), torch.randn(4, 3, 2, requires_grad=True), torch.randn(1, 3, 4, requires_grad=True)
    how = {"rtol": 1e-6, "atol": 1e-8}
    rnn = by("dopri5", field, gradient=Adjoint(), **how)
    for mine, own in zip(gradients(field, rnn, x, h0), gradients(field, by("dopri5", field, **how), x, h0), strict=True):
        assert_close(mine, own, rtol=0, atol=1e-5)
    assert rnn.stats["nfe_backward"] > 0
    (slope,) = torch.autograd.grad(rnn(x)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        slope.sum().backward()


def test_its_adjoint_takes_parameters_without_numbers():
    field, x = ctrnn.leaky(1, 3), torch.randn(4, 2, 1, requires_grad=True)
    field.empty = torch.nn.Parameter(torch.empty(0))
    found = [gradients(field, by("dopri5", field, gradient=gradient), x) for gradient in (Adjoint(), None)]
    for mine, own in zip(*found, strict=True):
        assert_close(mine, own, rtol=0, atol=1e-6)


def test_in_bounded_memory_it_gives_the_gradients_of_its_steps():
    field, x = ctrnn.gated(2, 4), torch.randn(6, 3, 2, requires_grad=True)
    how = {"rtol": 1e-4, "atol": 1e-6}
    blocks = by("dopri5", field, gradient=Checkpointed(30_000), **how)
    for mine, own in zip(gradients(field, blocks, x), gradients(field, by("dopri5", field, **how), x), strict=True):
        assert_close(mine, own, rtol=0, atol=1e-12)


def test_a_tolerance_for_each_unit_and_bounds_on_its_steps_arrive():
    flow = lambda t, h: -h  # noqa: E731
    h0, ts = torch.ones(2, 3), torch.tensor([0.0, 2.0])
    solved = integrate(
        flow, None, h0, ts, method="torchdiffeq:dopri5", atol=torch.tensor([1e-8, 1e-6, 1e-9]), max_step=0.125, first_step=0.1
    )
    assert_close(solved.hs[-1], h0 * torch.exp(torch.tensor(-2.0)), rtol=0, atol=1e-5)
    assert solved.stats["num_accepted_steps"] >= 16
    assert solved.stats["smallest_step"] <= 0.125
    coarse = integrate(flow, None, h0, ts, method="torchdiffeq:rk4", max_step=0.5)
    assert (coarse.stats["num_steps"], coarse.stats["nfe"]) == (4, 16)


def test_a_solve_that_it_gives_up_says_where_and_what_to_try():
    h0, ts = torch.tensor([[0.1], [1.0]]), torch.tensor([0.0, 0.5, 2.0])
    with pytest.raises(SolverError, match=r"sample 1.*(no step that meets|became)") as caught:
        integrate(lambda t, h: h**2, None, h0, ts, method="torchdiffeq:dopri5")
    assert (caught.value.sample, len(caught.value.trajectory)) == (1, 2)
    assert 0.9 < caught.value.time < 1.1
    with pytest.raises(SolverError, match="more than `max_num_steps`=3"):
        integrate(lambda t, h: -50 * h, None, h0, ts, method="torchdiffeq:dopri5", max_num_steps=3)
    with pytest.raises(SolverError, match=r"sample 1, unit 0: the state became (inf|nan)"):
        integrate(lambda t, h: h**2, None, h0, torch.tensor([0.0, 8.0]), method="torchdiffeq:euler", max_step=0.5)


def test_an_assertion_of_the_field_itself_stays_one():
    def flow(t, h):
        raise AssertionError("mine")

    with pytest.raises(AssertionError, match="mine"):
        integrate(flow, None, torch.ones(1, 1), torch.tensor([0.0, 1.0]), method="torchdiffeq:dopri5")


@pytest.mark.parametrize(
    ("method", "how", "words"),
    [
        ("torchdiffeq:dopry5", {}, "did you mean 'torchdiffeq:dopri5'"),
        ("torchdiffeq:scipy_solver", {}, r"leaves autograd.*Adjoint"),
        ("torchdiffeq:scipy_solver", {"first_step": 0.1}, "`first_step` is none of the options"),
        ("torchdiffeq:rk4", {"gradient": Adjoint()}, "not its solution"),
        ("torchdiffeq:dopri5", {"on_failure": "keep"}, "on_failure='keep'"),
        ("fehlberg2", {}, r"`method` 'fehlberg2'.*'torchdiffeq:fehlberg2'"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(method, how, words):
    with pytest.raises(ValueError, match=words):
        ContinuousRNN(ctrnn.gated(1, 2), method, **how)(torch.randn(3, 2, 1))


def test_it_finds_no_events_and_names_what_does():
    call = lambda t, h: -h, None, torch.ones(1, 1), torch.tensor([0.0, 1.0])
    with pytest.raises(ValueError, match=r"steps all samples at once.*method='dopri5'.*odeint_event"):
        integrate(*call, method="torchdiffeq:dopri5", events=discretize.Event(lambda t, h: h[:, 0]))
