"""Dropout in fields: one mask for a sequence or a solve, whatever reads it, and layer normalization."""

import copy
from collections import Counter

import pytest
import torch
from conformance import kernels_for_all
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, DiscreteCell, DiscreteRNN, integrate, unroll

CLOSE = {"rtol": 0, "atol": 1e-12}


def dropped(p=0.4, inputs=0.0, hidden=5):
    candidate = ctrnn.Dropout(ctrnn.TanhCandidate(3, hidden), p, inputs)
    return ctrnn.Relaxation(candidate, ctrnn.Dropout(ctrnn.GateRate(3, hidden), p), ctrnn.LinearDecay())


def by_hand(field, masks, x, h):
    """dh/dt of `dropped` with these masks of (x, h), for the candidate and for the gate."""
    (cx, ch), (gx, gh) = masks
    candidate, rate = field.candidate.part, field.rate.part
    return rate(x * gx, h * gh) * (candidate(x * cx, h * ch) - h)


def masks_of(field):
    return [(part.of_x, part.of_h) for part in (field.candidate, field.rate)]


def test_a_masked_field_is_the_equation_with_its_masks():
    field = dropped(0.4, 0.3)
    drawn = ctrnn.draw_masks(field, 4)
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    assert_close(drawn(x, h), by_hand(field, masks_of(drawn), x, h), **CLOSE)
    assert_close(field(x, h), by_hand(field, 2 * [(1.0, 1.0)], x, h), **CLOSE)  # no mask drawn, none read


def test_masks_drop_with_their_probability_and_keep_the_mean():
    drawn = ctrnn.draw_masks(dropped(0.3, 0.2, hidden=50), 400, torch.Generator().manual_seed(0))
    of_x, of_h = masks_of(drawn)[0]
    for mask, p in ((of_x, 0.2), (of_h, 0.3)):
        assert set(Counter(mask.flatten().tolist())) == {0.0, 1 / (1 - p)}
        assert mask.mean().item() == pytest.approx(1, abs=0.05)
    assert not torch.equal(of_h, masks_of(drawn)[1][1])  # every part has its own
    again = ctrnn.draw_masks(dropped(0.3, 0.2, hidden=50), 400, torch.Generator().manual_seed(0))
    assert torch.equal(of_h, masks_of(again)[0][1])


def test_weights_are_shared_and_names_stay():
    field = dropped()
    drawn = ctrnn.draw_masks(field, 2)
    assert {id(p) for p in drawn.parameters()} == {id(p) for p in field.parameters()}
    assert list(drawn.state_dict()) == list(field.state_dict())
    assert drawn is not field
    plain = ctrnn.gated(3, 5)
    assert ctrnn.draw_masks(plain, 2) is plain
    once = dropped(hidden=3)
    below, above = ctrnn.draw_masks(ctrnn.Stack([once, once]), 2).fields
    assert below is above  # one part in two places stays one, with one mask


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_a_sequence_has_one_mask_from_its_start_to_its_end(module):
    field, x = dropped(), torch.randn(7, 4, 3)
    torch.manual_seed(5)
    drawn = ctrnn.draw_masks(field, 4)
    torch.manual_seed(5)
    output, _ = module(field)(x)
    assert torch.equal(output, module(drawn)(x)[0])
    assert torch.equal(output, module(drawn)(x)[0])
    h = torch.zeros(4, 5)
    if module is DiscreteRNN:
        for k in range(7):
            h = h + by_hand(field, masks_of(drawn), x[k], h)
            assert_close(output[k], h, **CLOSE)
    torch.manual_seed(6)
    assert not torch.equal(output, module(field)(x)[0])


def test_each_sample_keeps_its_own_mask_where_a_solver_leaves_others_out():
    field, x = dropped(hidden=16), torch.randn(2, 12, 3)
    x[:, 0] *= 30.0  # one that takes many steps, so that others are done before it
    drawn = ctrnn.draw_masks(field, 12)
    together = ContinuousRNN(drawn, rtol=1e-6, atol=1e-8)(x)[0]
    for sample in (0, 7):
        alone = copy.deepcopy(drawn)
        for part in (alone.candidate, alone.rate):
            part.of_x, part.of_h = part.of_x[sample : sample + 1], part.of_h[sample : sample + 1]
        assert_close(
            ContinuousRNN(alone, rtol=1e-6, atol=1e-8)(x[:, sample : sample + 1])[0][:, 0],
            together[:, sample],
            rtol=0,
            atol=1e-5,
        )


def test_what_is_computed_again_for_a_gradient_reads_the_same_mask():
    field, x = dropped(), torch.randn(2, 4, 3)
    found = []
    for gradient in (None, Checkpointed(2_000), Adjoint()):
        rnn = ContinuousRNN(field, rtol=1e-6, atol=1e-7, gradient=gradient)
        torch.manual_seed(3)
        first = rnn(x)[0]
        rnn(x)  # another call in between, with masks of its own
        found.append(torch.autograd.grad(first.square().sum(), list(field.parameters())))
    for gradients in found[1:]:
        for one, other in zip(gradients, found[0], strict=True):
            assert_close(one, other, rtol=1e-4, atol=1e-5)  # the adjoint's own, to the tolerance of the solve


@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
def test_a_solve_with_dropout_has_an_answer_and_the_right_gradient(method):
    field, x = ctrnn.draw_masks(dropped(hidden=2), 2), torch.randn(1, 2, 3, requires_grad=True)
    rnn = ContinuousRNN(field, method=method, rtol=1e-2, atol=1e-2, max_step=0.5)  # which all steps have
    names = [name for name, _ in rnn.named_parameters()]

    def call(x, *weights):
        return torch.func.functional_call(rnn, dict(zip(names, weights, strict=True)), (x,))[0]

    assert torch.autograd.gradcheck(call, (x, *rnn.parameters()), fast_mode=True)


@pytest.mark.kernels
def test_in_evaluation_nothing_is_dropped_and_kernels_run():
    field, x, module = dropped(0.5, 0.5), torch.randn(5, 4, 3), DiscreteRNN
    plain = module(ctrnn.Relaxation(field.candidate.part, field.rate.part, ctrnn.LinearDecay()))
    rnn = module(field).eval()
    with kernels_for_all():
        assert torch.equal(rnn(x)[0], plain(x)[0])  # by the same kernel
        assert rnn.stats["engine"] == plain.stats["engine"] == "compiled"
        found = []
        for fused in (True, False):
            torch.manual_seed(7)
            found.append(module(field, fused=fused)(x)[0])
    assert_close(*found, rtol=0, atol=1e-9)  # the same masks, and steps chosen with the same


def test_an_lstm_takes_dropout_in_its_gates():
    field = ctrnn.lstm(3, 5)
    plain = copy.deepcopy(field)
    field.gates = ctrnn.Dropout(field.gates, 0.4)
    x = torch.randn(6, 4, 3)
    assert torch.equal(DiscreteRNN(field).eval()(x)[0], DiscreteRNN(plain)(x)[0])
    field.train()
    drawn = ctrnn.draw_masks(field, 4)
    h, mask = torch.zeros(4, 10), drawn.gates.of_h
    for row in x:
        hidden, cell = h.chunk(2, -1)
        i, f, g, o = plain.gates(row, hidden * mask).chunk(4, -1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        h = torch.cat([o.sigmoid() * cell.tanh(), cell], -1)
    assert_close(DiscreteRNN(drawn)(x)[1][0], h, **CLOSE)


def test_cells_unrolled_stacked_and_driven_fields_drop_too():
    field, x = dropped(), torch.randn(5, 4, 3)
    cell = DiscreteCell(field)
    torch.manual_seed(1)
    hs = unroll(cell, x).hs
    torch.manual_seed(1)
    assert_close(hs[1:], DiscreteRNN(field)(x)[0], **CLOSE)
    h = torch.randn(4, 5)
    assert not torch.equal(cell(x[0], h), cell(x[0], h))
    assert cell(x[0, 0], h[0]).shape == (5,)
    path, ts = ctrnn.LinearPath(x[:, :1]), torch.arange(5.0)  # one input for all, each with a mask of its own
    ends = integrate(field, path, torch.zeros(4, 5), ts).hs[-1]
    assert not torch.equal(ends[0], ends[1])
    stack = ctrnn.Stack([dropped(), ctrnn.gated(5, 5)])
    assert not torch.equal(DiscreteRNN(stack)(x)[0], DiscreteRNN(stack)(x)[0])
    assert torch.equal(DiscreteRNN(stack.eval())(x)[0], DiscreteRNN(stack)(x)[0])


@pytest.mark.parametrize("where", [{"dtype": torch.float32}, {"device": "meta"}])
def test_masks_are_where_the_weights_are_and_like_them(where):
    field = dropped(0.4, 0.3).to(**where)
    for masks in masks_of(ctrnn.draw_masks(field, 2)):
        assert {(mask.dtype, mask.device) for mask in masks} == {(field.dtype, field.device)}


@pytest.mark.parametrize("settings", [{}, {"eps": 0.1}])
def test_a_normalized_part_is_the_layer_norm_of_torch_before_its_function(settings):
    part = ctrnn.LayerNorm(ctrnn.TanhCandidate(3, 5), **settings)
    nn.init.normal_(part.gain)
    nn.init.normal_(part.shift)
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    norm = nn.LayerNorm(5, **settings)
    norm.weight, norm.bias = part.gain, part.shift
    whole = nn.functional.linear(x, part.part.weight_x, part.part.bias) + nn.functional.linear(h, part.part.weight_h)
    assert_close(part(x, h), norm(whole).tanh(), **CLOSE)


def biases(field):
    return field.candidate.part.bias, field.rate.part.part.bias


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_normalized_gates_and_candidates_make_a_field(module):
    gate = ctrnn.Dropout(ctrnn.LayerNorm(ctrnn.GateRate(3, 5)), 0.2)
    field = ctrnn.Relaxation(ctrnn.LayerNorm(ctrnn.ReluCandidate(3, 5)), gate, ctrnn.LinearDecay())
    output, _ = module(field)(torch.randn(6, 2, 3))
    gradients = torch.autograd.grad(output.square().sum(), list(field.parameters()))
    assert all(bool(g.isfinite().all()) for g in gradients)
    still = torch.zeros(1, 1, 3)  # at rest the variance is that of the biases
    hs, whole = module(field).eval()(still)[0], [nn.functional.layer_norm(b, (5,)) for b in biases(field)]
    if module is DiscreteRNN:
        assert_close(hs[0, 0], torch.sigmoid(whole[1]) * whole[0].relu(), rtol=0, atol=1e-12)
    assert hs.isfinite().all()
    lstm = ctrnn.lstm(3, 5)
    lstm.gates = ctrnn.LayerNorm(lstm.gates)
    assert module(lstm)(torch.randn(6, 2, 3))[0].isfinite().all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ctrnn.Dropout(ctrnn.gated(3, 5)), TypeError, "`part` must be a ctrnn.parts.Part with .* got Relaxation"),
        (lambda: ctrnn.Dropout(ctrnn.GateRate(3, 5), 1.0), ValueError, "must be below 1"),
        (lambda: ctrnn.draw_masks(nn.Linear(3, 5), 2), TypeError, "`field` must be a ctrnn.VectorField"),
        (lambda: DiscreteRNN(ctrnn.draw_masks(dropped(), 2))(torch.randn(5, 3, 3)), ValueError, r"are for \(2,\) samples, got x"),
        (lambda: ctrnn.LayerNorm(ctrnn.ResetCandidate(3, 5)), TypeError, "`part` must be made of one ctrnn.parts.Affine"),
        (lambda: ctrnn.LayerNorm(ctrnn.GlobalGateRate(3, 5)), ValueError, "a GlobalGateRate, has one output"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make, error, message):
    with pytest.raises(error, match=message):
        make()
