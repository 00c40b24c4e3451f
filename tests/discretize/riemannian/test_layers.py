"""Gates and candidates as rows with a metric each, against autograd with parameters of their own at each time."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.riemannian.directions import transition_direction
from discretize.riemannian.layers import AffineLayers

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
T, A, N = 9, 3, 4


def data(batch=2, time=T):
    symbols = torch.randint(A, (time, batch))
    return symbols, (torch.rand(time, batch) < 0.8).to(torch.get_default_dtype())


def test_gates_and_candidates_are_rows_with_an_outer_product_metric_each():
    model, (symbols, mask) = discretize.SymbolModel(ctrnn.gated(A, N)), data()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    parts = (model.field.candidate, model.field.rate)
    h = start = model.start.detach().expand(2, -1).clone().requires_grad_()
    total, rows, heard = 0.0, [], []
    for t, x in enumerate(symbols):
        pi = torch.log_softmax(h @ model.read_out.weight.mT + model.read_out.bias, -1)
        total = total + (mask[t] * pi[range(2), x]).sum()
        own = [torch.cat([part.bias[:, None], part.weight_x, part.weight_h], -1).detach() for part in parts]
        rows.append([theta.expand(2, -1, -1).clone().requires_grad_() for theta in own])  # at each time its own
        heard.append(torch.cat([torch.ones(2, 1), torch.eye(A)[x], h], -1))
        pulled, gate = ((theta * heard[-1][:, None]).sum(-1) for theta in rows[-1])
        h = h + torch.sigmoid(gate) * (torch.tanh(pulled) - h)
    slopes = torch.autograd.grad(total, [start, *(theta for both in rows[:-1] for theta in both)])
    for metric, reduction in (("ruop", "full"), ("ruop", "quasi"), ("gradient", "full")):
        found = transition_direction(model, symbols, mask, model.activities(symbols).detach(), metric, reduction, 0.2)
        for part, each in zip(parts, (slopes[1::2], slopes[2::2]), strict=True):
            moved = torch.cat([found[part.bias][:, None], found[part.weight_x], found[part.weight_h]], -1)
            gradient = sum(each).sum(0)
            matrix = sum(torch.einsum("bjk,bjl->jkl", s, s) for s in each) + 0.2 * torch.eye(1 + A + N)
            own = matrix.diagonal(dim1=-2, dim2=-1)
            if metric == "gradient":
                assert_close(moved, gradient, **CLOSE)
            elif reduction == "full":
                assert_close(moved, torch.linalg.solve(matrix, gradient), **CLOSE)
            else:
                ratio = matrix[:, 0, 1:] / own[:, :1]
                expected = (gradient[:, 1:] - gradient[:, :1] * ratio) / (own[:, 1:] - matrix[:, 0, 1:] * ratio)
                assert_close(moved[:, 1:], expected, **CLOSE)
        squares = (slopes[0] ** 2).sum(0) + 0.2
        assert_close(found[model.start], slopes[0].sum(0) / (squares if metric == "ruop" else 1), **CLOSE)


@pytest.mark.parametrize("make", [ctrnn.gru, ctrnn.lstm, ctrnn.mgu])
def test_after_one_symbol_each_row_moves_along_its_gradient_divided_by_its_square(make):
    # One sample: (B^2 u u^T + eps)^-1 B u = g/(|g|^2 + eps) with g = B u, whatever the layer.
    symbols, mask = torch.tensor([[1], [2]]), torch.ones(2, 1)
    model = discretize.SymbolModel(make(A, N))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    found = transition_direction(model, symbols, mask, model.activities(symbols).detach(), "ruop", "full", 0.3)
    for rows in AffineLayers(model.field).layers:
        slopes = torch.autograd.grad(model.log_likelihood(symbols), rows.parameters)
        g = torch.cat([slope.view(len(slope), -1) for slope in slopes], -1)
        moved = torch.cat([found[p].view(len(p), -1) for p in rows.parameters], -1)
        assert g.abs().max() > 1e-3
        assert_close(moved, g / ((g**2).sum(-1, keepdim=True) + 0.3), **CLOSE)


@pytest.mark.parametrize("name", ["lstm", "mgu", "gated", "lem", "gru"])
def test_fields_of_affine_layers_are_trained_as_rows(name):
    symbols, mask = data(time=6)
    model = discretize.SymbolModel(getattr(ctrnn, name)(A, N, *["network"] * (name == "gated")))
    ascent = discretize.RiemannianAscent(model, "ruop", "quasi")
    first = ascent.step(symbols, mask)
    assert ascent.step(symbols, mask) > first
    alone = model.log_likelihood(symbols[:1]).item()
    assert ascent.step(symbols[:1]) >= alone  # nothing is read before
    assert {id(p) for group in ascent.param_groups for p in group["params"]} == {id(p) for p in model.parameters()}


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (TypeError, r"rate\.log_alpha", lambda: ctrnn.leaky(A, N)),
        (TypeError, "field in layers", lambda: ctrnn.lstm(A, N, num_layers=2)),
        (ValueError, "`bias=False`", lambda: ctrnn.lstm(A, N, bias=False)),
        (ValueError, 'of other fields take "ruop"', lambda: ctrnn.lstm(A, N)),
    ],
)
def test_fields_that_are_no_rows_with_a_bias_are_refused(error, words, make):
    with pytest.raises(error, match=words):
        discretize.RiemannianAscent(discretize.SymbolModel(make()))


def test_layers_that_read_something_else_are_refused_and_left_as_they_were():
    symbols, _ = data(time=6)
    same_widths = discretize.SymbolModel(ctrnn.gated(A, A, num_layers=2))
    torch.nn.init.normal_(same_widths.read_out.weight)
    with pytest.raises(TypeError, match="reads something else"):
        discretize.RiemannianAscent(same_widths, "ruop").step(symbols)
    part = same_widths.field.fields[0].candidate
    assert "preactivation" not in vars(part)  # left as it was
    assert AffineLayers(ctrnn.lstm(A, N)).layers


@pytest.mark.kernels
@pytest.mark.parametrize(
    "name", ["gru", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gated", "lstm", "mgu", "lem"))]
)
def test_long_sequences_go_through_kernels_and_move_the_same(name):
    symbols, mask = data(time=120)
    model = discretize.SymbolModel(getattr(ctrnn, name)(A, N))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    found = []
    for fused in (True, False):
        activity = model.activities(symbols, fused=fused).detach()
        assert model.stats["engine"] == ("compiled" if fused else "steps")
        found.append(transition_direction(model, symbols, mask, activity, "ruop", "full", 0.2, fused))
    for parameter, move in found[0].items():
        assert_close(move, found[1][parameter], rtol=1e-8, atol=1e-8)  # kernels round otherwise, through 120 steps and a solve
    ascent = discretize.RiemannianAscent(model, "ruop")
    ascent.step(symbols, mask)
    assert ascent.stats == {"engine": "compiled", "engine_why": None}
    ascent.step(symbols[:1])
    assert ascent.stats["engine"] == "steps"
