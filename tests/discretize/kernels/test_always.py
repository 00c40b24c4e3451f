"""fused="always" is a kernel or an error that says why there is none, at every door; steps where a call leaves nothing else."""

import math

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, integrate, unroll
from discretize.kernels.price import kernels_at_once

XS = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TS = torch.linspace(0, 5, 6, dtype=torch.float64)
ALWAYS = {"fused": "always"}


class Ranked(ctrnn.VectorField):
    """Sorts its units, which no kernel is written for."""

    def __init__(self, input_size=3, hidden_size=3):
        super().__init__(input_size, hidden_size)
        self.weight = torch.nn.Parameter(torch.full((hidden_size,), 0.3))

    def flow(self, projected, h):
        return projected.sum(-1, keepdim=True) - self.weight * h.sort(-1).values


class Late(ctrnn.DelayedField):
    def __init__(self):
        super().__init__(3, 3, delays=[lambda t: 1 + 0 * t])

    def flow(self, projected, h, past):
        return projected - past[0]


def solved(field, **how):
    return integrate(field, ctrnn.HeldPath(XS, TS), torch.zeros(2, 3), TS, **how).hs


DOORS = {
    "DiscreteRNN": lambda: DiscreteRNN(Ranked(), **ALWAYS)(XS),
    "DiscreteRNN, times": lambda: DiscreteRNN(Ranked(), **ALWAYS)(XS, ts=TS),
    "DiscreteRNN, lengths": lambda: DiscreteRNN(Ranked(), **ALWAYS)(XS, lengths=torch.tensor([5, 3])),
    "ContinuousRNN": lambda: ContinuousRNN(Ranked(), **ALWAYS)(XS),
    "ContinuousRNN, fixed": lambda: ContinuousRNN(Ranked(), "euler", **ALWAYS)(XS),
    "unroll": lambda: unroll(DiscreteCell(Ranked()), XS, **ALWAYS),
    "integrate": lambda: solved(Ranked(), **ALWAYS),
    "integrate, fixed": lambda: solved(Ranked(), method="rk4", **ALWAYS),
    "integrate, a function": lambda: integrate(lambda t, h: -h.sort(-1).values, None, torch.ones(2, 3), TS, **ALWAYS),
    "integrate, Adjoint": lambda: solved(ctrnn.gated(3, 3), gradient=discretize.Adjoint(), **ALWAYS),
    "integrate, delays": lambda: solved(Late(), **ALWAYS),
    "Layers": lambda: discretize.Layers([[DiscreteRNN(Ranked(), **ALWAYS)]])(XS),
    "SequenceModel": lambda: discretize.SequenceModel(DiscreteRNN(Ranked(), **ALWAYS), 1)(XS),
    "ensemble": lambda: discretize.ensemble([DiscreteRNN(Ranked(), **ALWAYS) for _ in range(2)])(XS),
}


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (discretize.StepDoubling(discretize.steps.Milstein()), r"StepDoubling\(step=Milstein\(\)\) are cut and joined along one"),
        (discretize.EulerMaruyama(), "only held samples, asked for at their own times, have a kernel"),
    ],
    ids=["steps by the noise", "other times"],
)
def test_a_solve_with_noise_says_why_it_has_no_kernel(method, why):
    field, h0 = ctrnn.Noisy(ctrnn.gated(3, 3), ctrnn.Noise(0.1)), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=why):
        integrate(field, ctrnn.HeldPath(XS, TS), h0, TS[:-1] + 0.5, method=method, seed=1, **ALWAYS)


@pytest.mark.parametrize("door", DOORS)
def test_where_there_is_no_kernel_always_is_refused_with_the_reason(door, monkeypatch):
    with pytest.raises(ValueError, match=r"`fused`='always', and there is no kernel: .+ With True, the default, steps run"):
        DOORS[door]()
    monkeypatch.setenv("CTRNN_FUSED", "0")
    DOORS[door]()


def traced(rnn):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(rnn(forward_ad.make_dual(XS, torch.ones_like(XS)))[0]).primal


CALLS = {
    "a transform": lambda rnn: torch.func.vmap(lambda x: rnn(x[:, None])[0][:, 0], 1, 1)(XS),
    "forward mode": traced,
    "a batch of 0": lambda rnn: rnn(XS[:, :0])[0].new_zeros(5, 2, 3) + rnn_by_steps(XS)[0],
    "three segments": lambda rnn: 0 * between_knots(rnn.field) + rnn_by_steps(XS)[0],
    "a live step": lambda rnn: torch.stack([*live(rnn)]),
}


def rnn_by_steps(x):
    return DiscreteRNN(Ranked(), fused=False)(x)


def between_knots(field):
    times = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    return integrate(field, ctrnn.HeldPath(XS, TS), torch.zeros(2, 3), times, method="euler", **ALWAYS).hs.sum()


def live(rnn):
    state = None
    for x in XS:
        output, state = rnn.live_step(x, state)
        yield output


def test_a_live_step_of_a_solve_runs_by_steps():
    output, _ = ContinuousRNN(Ranked(), **ALWAYS).live_step(XS[0])
    assert_close(output, ContinuousRNN(Ranked(), fused=False)(XS[:1])[0][0])


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_leaves_nothing_else_runs_by_steps(call):
    assert_close(CALLS[call](DiscreteRNN(Ranked(), **ALWAYS)), rnn_by_steps(XS)[0])


def test_kernels_at_once_are_built_where_there_are_some_and_steps_run_elsewhere():
    with kernels_at_once():
        for field, engine in ((ctrnn.gated(3, 3), "compiled"), (Ranked(), "steps")):
            rnn = DiscreteRNN(field, dt=0.1)
            rnn(torch.zeros(5, 2, field.input_size))
            assert rnn.stats["engine"] == engine


class OfNumbers(discretize.Euler):
    """Euler's step by a number that is made of its length."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def advance(self, field, projected, h, dt):
        return h + self.number(dt) * field.flow(projected, h)


@pytest.mark.parametrize(
    "number", [float, int, math.exp, lambda dt: dt.item(), lambda dt: 2.0 if dt > 0 else dt, lambda dt: sum(range(dt))]
)
def test_a_number_of_the_length_of_a_step_is_refused_with_the_line(number):
    rnn = DiscreteRNN(ctrnn.leaky(2, 3), step=OfNumbers(number), fused="always")
    with pytest.raises(ValueError, match=r"takes a tensor for one number or one truth \(.*test_always\.py, line \d+: .*\), and"):
        rnn(torch.ones(4, 2, 2), ts=torch.arange(5.0))
