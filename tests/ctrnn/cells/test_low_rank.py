"""A network of low rank and its few variables: the same states, points of rest and eigenvalues, where that is exact."""

import pytest
import torch
from torch.nn.utils.parametrize import register_parametrization
from torch.testing import assert_close

import ctrnn
import derivations
import discretize


def of_rank(rank, field, *more):
    for part in (ctrnn.LowRank(rank), *more):
        register_parametrization(field.candidate, "weight_h", part)
    return field


def whole_states(field, step, xs, h):
    cell = discretize.DiscreteCell(field, step, dt=0.3)
    states = [h]
    for x in xs:
        states.append(cell(x, states[-1]))
    return torch.stack(states[1:])


NETWORKS = {
    "leaky": lambda: ctrnn.leaky(3, 8, tau=2.0),
    "relu": lambda: ctrnn.plain(3, 8, "relu"),
    "learned": lambda: ctrnn.leaky(3, 8, alpha=0.3, nonlinearity="softplus"),
    "additive": lambda: ctrnn.additive(3, 8, tau=2.0),
    "additive, no bias": lambda: ctrnn.additive(3, 8, "retanh", tau=0.5, bias=False),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_reduction_is_the_network_under_any_input_by_solves_and_by_steps(name):
    field, xs = of_rank(2, NETWORKS[name]()), torch.randn(3, 4, 3)
    few = ctrnn.LowRankReduction(field)
    additive = name.startswith("additive")
    assert few.state_size == (5 if additive else 2)
    reduced = torch.randn(4, 5) if additive else None
    h = few.states(reduced) if additive else torch.randn(4, 8)
    assert_close(few.reduced(h), reduced if additive else h @ few.n, rtol=1e-9, atol=1e-9)
    for step in (discretize.Euler(), discretize.RungeKutta4()):
        mine, theirs = (whole_states(f, step, xs, s) for f, s in ((few, few.reduced(h)), (field, h)))
        assert_close(few.states(mine) if additive else mine, theirs if additive else theirs @ few.n, rtol=1e-9, atol=1e-10)
    exact = discretize.ContinuousRNN(few, rtol=1e-6, atol=1e-8).trajectory(xs, few.reduced(h)).hs
    whole = discretize.ContinuousRNN(field, rtol=1e-6, atol=1e-8).trajectory(xs, h).hs
    assert_close(few.states(exact) if additive else exact, whole if additive else whole @ few.n, rtol=1e-4, atol=1e-4)


def test_points_of_rest_and_their_eigenvalues_are_those_of_the_network():
    field = of_rank(1, ctrnn.additive(1, 30))
    with torch.no_grad():
        n = torch.randn(30, 1)
        field.candidate.weight_h = 3 * n @ n.mT / 30
    x, few = torch.zeros(1), ctrnn.LowRankReduction(field)
    starts = torch.linspace(-3, 3, 7)[:, None] * torch.tensor([[1.0, 0.0]])
    mine = discretize.fixed_points(discretize.Flow(few, x), starts)
    theirs = discretize.fixed_points(discretize.Flow(field, x), few.states(starts))
    assert len(mine) == len(theirs) == 3
    order, other = mine.h[:, 0].argsort(), theirs.h[:, 0].mul(few.m[0]).argsort()
    assert_close(few.states(mine.h[order]), theirs.h[other], rtol=1e-8, atol=1e-8)
    assert_close(mine.growth[order], theirs.growth[other], rtol=1e-8, atol=1e-8)


def test_the_weights_are_shared_and_learned_and_the_reduction_is_saved_and_read(tmp_path):
    field = of_rank(2, ctrnn.leaky(1, 2, tau=2.0))
    few = ctrnn.LowRankReduction(field)
    few(torch.randn(3, 1), torch.randn(3, 2)).square().sum().backward()
    assert field.candidate.parametrizations.weight_h.original0.grad.abs().sum() > 0
    ctrnn.save(tmp_path / "few", few)
    again, x, h = ctrnn.load(tmp_path / "few"), torch.randn(3, 1), torch.randn(3, 2)
    assert_close(again(x, h), few(x, h), rtol=0, atol=1e-14)
    with torch.no_grad():
        again.m.mul_(2)
    assert_close(again.field.candidate.weight_h, 2 * field.candidate.weight_h, rtol=1e-12, atol=0)
    assert len(list(derivations.symbolic(few))) == 2


def test_potentials_are_reduced_up_to_rounding_and_refused_a_millionth_beside():
    few = ctrnn.LowRankReduction(of_rank(2, ctrnn.additive(1, 9, bias=False)))
    reduced = torch.randn(5, 3)
    reduced[0] = 0.0  # at rest, where the size of rounding is that of the other states
    states, off = few.states(reduced), torch.randn(5, 9)
    assert_close(few.reduced(states + 1e-14 * off), reduced, rtol=0, atol=1e-11)
    for k in range(5):
        moved = states.clone()
        moved[k] += 1e-6 * off[k]
        with pytest.raises(ValueError, match="from M k"):
            few.reduced(moved)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ctrnn.LowRankReduction(ctrnn.leaky(2, 4)), TypeError, "is not a `ctrnn.parts.LowRank` and nothing else"),
        (lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.leaky(2, 4), ctrnn.ZeroDiagonal())), TypeError, "take the rank away"),
        (lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.leaky(2, 4, per_unit=True))), TypeError, "rates of their own"),
        (lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.gated(2, 4))), TypeError, "rates of their own"),
        (lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.leaky(2, 4, decay=ctrnn.PowerDecay(1.0)))), TypeError, "not linear"),
        (lambda: ctrnn.LowRankReduction(ctrnn.lstm(2, 4)), TypeError, "read in other ways"),
        (lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.additive(2, 9))).reduced(torch.randn(9)), ValueError, "from M k"),
        (
            lambda: ctrnn.LowRankReduction(of_rank(1, ctrnn.leaky(2, 9))).states(torch.randn(1)),
            TypeError,
            "does not say what r is",
        ),
    ],
)
def test_where_it_is_not_exact_it_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        make()
