"""Fields that draw random numbers: steps may each draw anew, a solver is refused in words before it searches for an answer."""

import pytest
import torch
from torch import nn

import ctrnn
from discretize import (
    Adjoint,
    Checkpointed,
    ContinuousRNN,
    DiscreteCell,
    DiscreteRNN,
    Euler,
    RungeKutta4,
    SolverError,
    integrate,
    unroll,
)

X = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(5, 2, 3)


class Dropped(ctrnn.VectorField):
    """A plain field with dropout of its state."""

    def __init__(self):
        super().__init__(3, 4)
        self.inner, self.dropout = ctrnn.plain(3, 4, dtype=torch.float64), nn.Dropout(0.3)

    def project(self, x):
        return self.inner.project(x)

    def flow(self, projected, h):
        return self.inner.flow(projected, self.dropout(h))


class KeptMask(Dropped):
    """Draws at its first call, and keeps that."""

    mask = None

    def flow(self, projected, h):
        self.mask = torch.bernoulli(torch.full((4,), 0.5, dtype=h.dtype)) if self.mask is None else self.mask
        return self.inner.flow(projected, self.mask * h)


class OwnGenerator(Dropped):
    """Noise from a generator that torch's own state tells nothing of."""

    calls = 0

    def flow(self, projected, h):
        self.calls += 1
        noise = torch.rand(h.shape, dtype=h.dtype, generator=torch.Generator().manual_seed(self.calls))
        return self.inner.flow(projected, h) + noise


@pytest.mark.parametrize("method", ["dopri5", "rodas5p", "rk4", RungeKutta4()])
def test_a_random_field_is_refused_before_the_solve(method):
    # From h = 0, where dropout changes nothing: two answers that happen to agree are not taken for one.
    with pytest.raises(
        ValueError, match=r"draws random numbers each time it is called.*`field.eval\(\)`, or take `ctrnn.parts.Dropout`"
    ):
        ContinuousRNN(Dropped(), method)(X)


@pytest.mark.parametrize("gradient", [Checkpointed(1e6), Adjoint()])
def test_a_gradient_that_computes_steps_again_refuses_a_random_field(gradient):
    method = "dopri5" if isinstance(gradient, Adjoint) else Euler()
    with pytest.raises(ValueError, match="draws random numbers"):
        ContinuousRNN(Dropped(), method, gradient=gradient)(X)


class Drawn(Dropped):
    """dh/dt is the mask."""

    def flow(self, projected, h):
        return self.dropout(torch.ones_like(h))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: DiscreteRNN(Drawn(), RungeKutta4())(x)[0],
        lambda x: unroll(DiscreteCell(Drawn()), x).hs[1:],
        lambda x: ContinuousRNN(Drawn(), "euler")(x)[0],
        lambda x: ContinuousRNN(Drawn(), Euler())(x)[0],
    ],
    ids=["DiscreteRNN", "unroll", "euler", "Euler"],
)
def test_steps_of_one_evaluation_each_draw_anew(run):
    torch.manual_seed(0)
    hs = run(X)
    assert len(hs.diff(dim=0).unique(dim=0)) == len(X) - 1
    torch.manual_seed(0)
    assert torch.equal(run(X), hs)


def test_dropout_in_evaluation_is_the_field_without_it():
    field = Dropped().eval()
    got, _ = ContinuousRNN(field)(X)
    torch.testing.assert_close(got, ContinuousRNN(field.inner)(X)[0], rtol=0, atol=1e-4)


def test_a_mask_drawn_once_and_kept_is_solved_with():
    field, known = KeptMask(), KeptMask()
    known.load_state_dict(field.state_dict())
    torch.manual_seed(0)
    hs = ContinuousRNN(field)(X)[0]
    known.mask = field.mask  # one that has never drawn
    torch.testing.assert_close(hs, ContinuousRNN(known)(X)[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", [lambda: Dropped().eval(), KeptMask], ids=["that draws nothing", "that keeps its mask"])
def test_to_look_whether_a_field_is_random_costs_few_evaluations(make):
    field, calls = make(), []
    flow = field.flow
    field.flow = lambda projected, h: calls.append(1) or flow(projected, h)
    solved = integrate(field, ctrnn.HeldPath(X), torch.zeros(2, 4, dtype=torch.float64), torch.arange(6.0), method="rk4")
    assert 0 < len(calls) - solved.stats["nfe"] <= 3


def test_noise_from_a_generator_of_its_own_is_named_where_a_solve_fails():
    with pytest.raises(SolverError, match=r"the field gives two answers to the same call. For dropout"):
        ContinuousRNN(OwnGenerator(), max_num_steps=50)(X)
