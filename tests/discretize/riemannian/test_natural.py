"""The metrics of all weights together, and dampening by other sequences, against autograd through copies of the weights."""

import copy
from functools import partial

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import one_hot
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.riemannian.directions import METRICS, READ_OUTS, read_out_direction, transition_direction
from discretize.riemannian.natural import NATURAL, natural_metric
from discretize.riemannian.rows import BASELINES, REDUCTIONS

T, A, N = 7, 3, 2
MAKERS = (ctrnn.glnn, ctrnn.gnn, ctrnn.plain, ctrnn.gru, ctrnn.lstm)


def model_of(make, units=N):
    model = discretize.SymbolModel(make(A, units))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def data(batch=3, time=T):
    return torch.randint(A, (time, batch)), (torch.rand(time, batch) < 0.8).to(torch.get_default_dtype())


def copies(model, thetas, start, symbols):
    """Logits of one sequence, (time, A), by weights of their own at each time: thetas (time, weights)."""
    h, found = start[None], []
    for theta, x in zip(thetas, symbols, strict=True):
        found.append(model.read_out(model.field.visible(h))[0])
        parts = theta.split([p.numel() for p in model.field.parameters()])
        own = {f"field.{n}": part.view_as(p) for (n, p), part in zip(model.field.named_parameters(), parts, strict=True)}
        h = functional_call(model.cell, own, (one_hot(x, A).to(start)[None], h))
    return torch.stack(found)


def fisher(slopes, logits, chi):
    """sum_t chi J^T (diag pi - pi pi^T) J, J (time, A, weights)."""
    pi = logits.softmax(-1)
    middle = chi[:, None, None] * (torch.diag_embed(pi) - pi[:, :, None] * pi[:, None])
    return torch.einsum("tak,tab,tbl->kl", slopes, middle, slopes)


def test_metrics_of_all_weights_are_those_of_autograd(monkeypatch):
    for make in MAKERS:
        model, (symbols, mask) = model_of(make), data()
        theta = torch.cat([p.detach().flatten() for p in model.field.parameters()])
        natural, recurrent, size = 0.0, 0.0, len(theta)
        for x, chi in zip(symbols.mT, mask.mT, strict=True):
            given = theta.expand(T, -1).clone(), model.start.detach()
            of_time, of_start = torch.autograd.functional.jacobian(partial(copies, model, symbols=x), given)
            logits = copies(model, *given, x).detach()
            natural = natural + fisher(torch.cat([of_time.sum(2), of_start], -1), logits, chi)
            own = torch.zeros(size + len(model.start), size + len(model.start))
            own[:size, :size] = sum(fisher(of_time[:, :, t], logits, chi) for t in range(T))
            own[size:, size:] = fisher(of_start, logits, chi)
            recurrent = recurrent + own
        for piece in (256, 3):  # in several pieces, too
            monkeypatch.setattr("discretize.riemannian.natural.PIECE", piece)
            with torch.no_grad():
                assert_close(natural_metric(model, symbols, mask, "natural"), natural, rtol=1e-9, atol=1e-11)
                assert_close(natural_metric(model, symbols, mask, "recurrent-natural"), recurrent, rtol=1e-9, atol=1e-11)


def test_of_one_unit_the_backpropagated_metric_is_the_recurrent_natural_one():
    model, (symbols, mask) = model_of(ctrnn.glnn, 1), data()
    activity = model.activities(symbols).detach()
    one, other = (
        transition_direction(model, symbols, mask, activity, metric, "full", 0.3) for metric in ("rbpm", "recurrent-natural")
    )
    for parameter, step in one.items():
        assert_close(other[parameter], step, rtol=1e-9, atol=1e-11)


def test_a_metric_of_the_same_sequences_makes_steps_shorter_by_what_it_adds():
    symbols, mask = data(time=40)
    twice = torch.cat([symbols, symbols], 1), torch.cat([mask, mask], 1)
    for make in MAKERS:
        model = model_of(make)
        for metric in METRICS:
            if metric in BASELINES or (metric != "ruop" and make in (ctrnn.gru, ctrnn.lstm)):
                continue  # what all weights of a GRU do together is singular to rounding, and steps along it are chance
            for reduction in REDUCTIONS if metric in ("rbpm", "ruop") else ("full",):
                alone = transition_direction(model, symbols, mask, model.activities(symbols).detach(), metric, reduction, 0.0)
                given = model, *twice, model.activities(twice[0]).detach(), metric, reduction, 0.25
                for fused in (True, False):
                    found = transition_direction(*given, fused, beside=3)
                    for parameter, step in alone.items():
                        assert_close(
                            1.25 * found[parameter],
                            step,
                            rtol=1e-5,
                            atol=1e-7,
                            msg=lambda m, metric=metric, make=make, reduction=reduction, fused=fused: (
                                f"{make} {metric} {reduction} {fused}: {m}"
                            ),
                        )
        for reduction in READ_OUTS:
            alone = read_out_direction(model, symbols, mask, model.activities(symbols).detach(), reduction, 0.0)
            found = read_out_direction(model, *twice, model.activities(twice[0]).detach(), reduction, 0.25, 3)
            for parameter, step in alone.items():
                assert_close((1.0 if reduction == "gradient" else 1.25) * found[parameter], step, rtol=1e-6, atol=1e-8)


def test_a_step_takes_other_sequences_for_the_read_out_and_for_the_transitions():
    symbols, mask = data(time=40)
    others = torch.randint(A, (40, 2))
    for numbers, usual in (((0.3, 0.2), {"dampening": 0.3, "read_out_dampening": 0.2}), ((0.01, 0.01), {})):
        model = model_of(ctrnn.glnn)
        both = torch.cat([symbols, others], 1), torch.cat([mask, torch.ones(40, 2)], 1)
        before = model.read_out.bias.detach().clone()
        wanted = read_out_direction(model, *both, model.activities(both[0]).detach(), "quasi", numbers[1], 2)
        ascent = discretize.RiemannianAscent(model, "ruop", lr=1e-3, dampened_by=others, **usual)
        transitions = [*model.field.parameters(), model.start]
        start = [part.detach().clone() for part in transitions]
        ascent.step(symbols, mask)
        assert [group["rejected"] for group in ascent.param_groups] == [0, 0]
        assert_close(model.read_out.bias - before, 1e-3 * wanted[model.read_out.bias])
        moved = [part.detach() - old for part, old in zip(transitions, start, strict=True)]
        for part, old in zip(transitions, start, strict=True):
            part.data.copy_(old)
        wanted = transition_direction(model, *both, model.activities(both[0]).detach(), "ruop", "full", numbers[0], beside=2)
        assert_close(moved, [1e-3 * wanted[part] for part in transitions])


class Own(ctrnn.VectorField):
    """A field of nobody's list: its weights are no affine layer's, and a buffer scales them."""

    def __init__(self):
        super().__init__(A, N)
        self.weight, self.rate = torch.nn.Parameter(0.4 * torch.randn(N, N + A)), torch.nn.Parameter(torch.tensor(0.3))
        self.register_buffer("scale", torch.tensor(1.5))

    def flow(self, projected, h):
        return torch.sin(self.scale * torch.cat([projected, h], -1) @ self.weight.T) - self.rate * h


def test_natural_steps_are_for_any_field():
    symbols = torch.tensor([[0, 1, 2, 1] * 8, [2, 1, 0, 0] * 8]).mT
    for field in (Own(), ctrnn.leaky(A, N)):
        for metric in NATURAL:
            model = discretize.SymbolModel(copy.deepcopy(field))
            ascent = discretize.RiemannianAscent(model, metric, lr=0.3)
            reached = [ascent.step(symbols) for _ in range(12)]
            assert reached[-1] > reached[0] + 5  # nats
    with pytest.raises(TypeError, match="trains by torch's optimizers"):
        discretize.RiemannianAscent(discretize.SymbolModel(Own()), "ruop")


def test_natural_steps_of_one_symbol_and_what_is_refused():
    model = model_of(ctrnn.glnn)
    ascent = discretize.RiemannianAscent(model, "natural")
    assert torch.isfinite(torch.tensor(ascent.step(torch.zeros(1, 2, dtype=torch.int64))))  # nothing is read before
    symbols, mask = data(time=40)
    model = model_of(ctrnn.plain)
    leaky = ctrnn.leaky(A, N)  # with a parameter that is one number
    size = sum(p.numel() for p in leaky.parameters()) + N
    assert natural_metric(discretize.SymbolModel(leaky), symbols, mask, "natural").shape == (size, size)
    scaled = copy.deepcopy(model)
    scaled.read_out.bias.requires_grad_(False)
    with pytest.raises(ValueError, match=r"frozen weights, read_out.bias, and the ascent moves all of them"):
        discretize.RiemannianAscent(scaled).step(symbols)
    with pytest.raises(ValueError, match='`reduction` "quasi" is of a unit'):
        discretize.RiemannianAscent(model, "natural", "quasi")


def test_what_dampens_is_checked():
    symbols, _ = data()
    for message, metric, others in (
        ("`dampened_by` must be whole numbers", "ruop", symbols.double()),
        ("`dampened_by` must be from 0 to 2", "ruop", symbols + 1),
        ("is none", "gradient", symbols),
    ):
        with pytest.raises(ValueError, match=message):
            discretize.RiemannianAscent(model_of(ctrnn.glnn), metric, dampened_by=others)
    with pytest.raises(ValueError, match="`dampened_by` has 6 times, `symbols` 7"):
        discretize.RiemannianAscent(model_of(ctrnn.glnn), dampened_by=symbols[1:]).step(symbols)
