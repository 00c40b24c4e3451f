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
from discretize.riemannian.natural import NATURAL, natural_root
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


def natural_metric(*given):
    root, _ = natural_root(*given)
    return root.mT @ root


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


@pytest.mark.parametrize("make", MAKERS)
def test_metrics_of_all_weights_are_those_of_autograd(make, monkeypatch):
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


@pytest.mark.by_default(6)
@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (make, metric)
        for make in MAKERS
        for metric in METRICS
        # What all weights of a GRU do together is singular to rounding, and steps along it are chance.
        if metric not in BASELINES and (metric == "ruop" or make not in (ctrnn.gru, ctrnn.lstm))
    ],
)
def test_a_metric_of_the_same_sequences_makes_steps_shorter_by_what_it_adds(make, metric):
    model, (symbols, mask) = model_of(make), data(time=40)
    twice = torch.cat([symbols, symbols], 1), torch.cat([mask, mask], 1)
    for reduction in REDUCTIONS if metric in ("rbpm", "ruop") else ("full",):
        alone = transition_direction(model, symbols, mask, model.activities(symbols).detach(), metric, reduction, 0.0)
        given = model, *twice, model.activities(twice[0]).detach(), metric, reduction, 0.25
        for fused in (True, False):
            found = transition_direction(*given, fused, beside=3)
            for parameter, step in alone.items():
                assert_close(
                    1.25 * found[parameter], step, rtol=1e-5, atol=1e-7, msg=lambda m, r=reduction, f=fused: f"{r} {f}: {m}"
                )


@pytest.mark.parametrize("reduction", READ_OUTS)
@pytest.mark.parametrize("make", MAKERS)
def test_a_read_out_metric_of_the_same_sequences_makes_steps_shorter_by_what_it_adds(make, reduction):
    model, (symbols, mask) = model_of(make), data(time=40)
    twice = torch.cat([symbols, symbols], 1), torch.cat([mask, mask], 1)
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


@pytest.mark.parametrize("metric", NATURAL)
@pytest.mark.parametrize("make", [Own, lambda: ctrnn.leaky(A, N)], ids=["own", "leaky"])
def test_natural_steps_are_for_any_field(make, metric):
    symbols = torch.tensor([[0, 1, 2, 1] * 8, [2, 1, 0, 0] * 8]).mT
    ascent = discretize.RiemannianAscent(discretize.SymbolModel(make()), metric, lr=0.3)
    reached = [ascent.step(symbols) for _ in range(8)]
    assert reached[-1] > reached[0] + 5  # nats


def test_metrics_of_rows_are_not_for_a_field_without_affine_layers():
    with pytest.raises(TypeError, match="trains by torch's optimizers"):
        discretize.RiemannianAscent(discretize.SymbolModel(Own()), "ruop")


def test_a_natural_step_of_one_symbol_gains_and_moves_no_transition():
    model, symbols = model_of(ctrnn.glnn), torch.zeros(1, 2, dtype=torch.int64)
    before, weights = model.log_likelihood(symbols).item(), [p.detach().clone() for p in model.field.parameters()]
    reached = discretize.RiemannianAscent(model, "natural").step(symbols)
    assert before < reached < 0
    assert reached == pytest.approx(model.log_likelihood(symbols).item())
    for after, was in zip(model.field.parameters(), weights, strict=True):
        assert_close(after.detach(), was, rtol=0, atol=1e-12)  # nothing is read before


def test_a_natural_metric_has_a_row_for_a_parameter_that_is_one_number():
    symbols, mask = data(time=40)
    leaky = ctrnn.leaky(A, N)
    size = sum(p.numel() for p in leaky.parameters()) + N
    found = natural_metric(discretize.SymbolModel(leaky), symbols, mask, "natural")
    assert found.shape == (size, size)
    assert_close(found, found.mT, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(found).min() > -1e-10


def test_frozen_weights_are_named_and_refused():
    model = model_of(ctrnn.plain)
    model.read_out.bias.requires_grad_(False)
    with pytest.raises(ValueError, match=r"frozen weights, read_out.bias,"):
        discretize.RiemannianAscent(model).step(data(time=40)[0])


def test_a_metric_of_all_weights_has_no_reduction_to_units():
    with pytest.raises(ValueError, match='`reduction` "quasi" is of a unit'):
        discretize.RiemannianAscent(model_of(ctrnn.plain), "natural", "quasi")


@pytest.mark.parametrize(
    ("message", "metric", "others"),
    [
        ("`dampened_by` must be whole numbers", "ruop", torch.ones(7, 3)),
        ("`dampened_by` must be from 0 to 2", "ruop", torch.full((7, 3), 3)),
        ("is none", "gradient", torch.ones(7, 3, dtype=torch.int64)),
    ],
)
def test_what_dampens_is_checked(message, metric, others):
    with pytest.raises(ValueError, match=message):
        discretize.RiemannianAscent(model_of(ctrnn.glnn), metric, dampened_by=others)


def test_what_dampens_is_as_long_as_the_symbols():
    symbols, _ = data()
    with pytest.raises(ValueError, match="`dampened_by` has 6 times, `symbols` 7"):
        discretize.RiemannianAscent(model_of(ctrnn.glnn), dampened_by=symbols[1:]).step(symbols)


class OfOnesOwn(ctrnn.VectorField):
    """s tanh(W x + V h / s + b) - h, of states that go to s, with V/s as a weight."""

    def __init__(self, size=1.0):
        super().__init__(A, N)
        self.part, self.size = ctrnn.Affine(A, N, N), size

    def project(self, x):
        return self.part.project(x)

    def flow(self, projected, h):
        return self.size * torch.tanh(self.part.flow(projected, h)) - h

    @torch.no_grad()
    def rewrite_(self, size, model):
        for weight in (self.part.weight_h, model.read_out.weight):
            weight.div_(size / self.size)
        model.start.mul_(size / self.size)
        self.size = size


@pytest.mark.parametrize("size", [1e-6, 1e6, -1e-3])
@pytest.mark.parametrize("metric", NATURAL)
def test_a_natural_step_of_a_field_of_ones_own_does_not_hang_on_the_unit_of_its_states(metric, size):
    symbols, found = torch.randint(A, (40, 3)), []
    model = model_of(lambda *_: OfOnesOwn())
    for own in (1.0, size):
        each = copy.deepcopy(model)
        each.field.rewrite_(own, each)
        found.append(discretize.RiemannianAscent(each, metric, lr=0.1, dampening=0.0, read_out_dampening=0.0).step(symbols))
    assert found[0] > model.log_likelihood(symbols) + 0.1
    # Seen: 1e-12 and less.
    assert_close(found[1], found[0], rtol=0, atol=1e-8)
