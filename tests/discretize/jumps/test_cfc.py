"""Closed-form networks against ncps' own, and against the differential equations that their closed forms solve."""

import numpy as np
import pytest
import torch
from ncps.torch import LTC, CfC, CfCCell, LTCCell
from ncps.wirings import AutoNCP, FullyConnected
from torch import nn
from torch.testing import assert_close

import discretize

MODES = ["default", "pure", "no_gate"]
ROUNDING = {"rtol": 0, "atol": 1e-14}


def random_cell(mode, activation="lecun_tanh", layers=1, mask=None):
    cell = CfCCell(3, 5, mode, activation, 7, layers, sparsity_mask=mask).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            if parameter.requires_grad:  # all but the mask
                parameter.copy_(torch.randn_like(parameter) / 2)
    return cell


def start(h):
    return nn.functional.pad(h, (0, 3 * h.shape[-1]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("activation", "layers"), [("lecun_tanh", 1), ("tanh", 2), ("relu", 1), ("silu", 3), ("gelu", 1), ("tanh", 0)]
)
@torch.no_grad()
def test_states_are_those_of_ncps(mode, activation, layers):
    cell = random_cell(mode, activation, layers)
    xs, h, spans = torch.randn(6, 4, 3), torch.randn(4, 5), torch.rand(6) * 3 + 0.1
    edges = torch.cat([torch.zeros(1), spans.cumsum(0)])
    ours, _ = discretize.from_ncps(cell)(xs, start(h), ts=edges)
    for x, span, found in zip(xs, edges.diff(), ours, strict=True):
        h, _ = cell(x, h, span)
        assert_close(found, h, **ROUNDING)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_ncps_and_times_have_theirs(mode):
    cell = random_cell(mode)
    rnn = discretize.from_ncps(cell)
    xs, h0 = torch.randn(3, 2, 3, requires_grad=True), torch.randn(2, 5, requires_grad=True)
    ends = torch.tensor([0.5, 1.7, 2.0], requires_grad=True)
    edges, h, theirs = torch.cat([torch.zeros(1), ends]), h0, []
    for x, span in zip(xs, edges.diff(), strict=True):
        h, _ = cell(x, h, span)
        theirs.append(h)
    ours = rnn(xs, start(h0), ts=edges)[0]
    weights = torch.randn_like(ours)
    names = dict(cell.named_parameters())
    own = {name.removeprefix("jump.").removeprefix("curve."): p for name, p in rnn.named_parameters()}
    assert names.keys() == own.keys()
    found = torch.autograd.grad((ours * weights).sum(), [xs, h0, ends, *(own[name] for name in names)])
    expected = torch.autograd.grad((torch.stack(theirs) * weights).sum(), [xs, h0, ends, *names.values()])
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-11, atol=1e-12)
        assert other.abs().max() > 1e-6
    assert torch.autograd.gradcheck(lambda x, h: rnn(x, start(h), ts=edges.detach())[0], (xs, h0), fast_mode=True)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_each_sequence_of_a_batch_has_the_times_that_ncps_gives_it_alone(mode):
    theirs = CfC(3, 5, mode=mode, backbone_units=7).double()
    rnn, x, spans = discretize.from_ncps(theirs), torch.randn(5, 6, 3), torch.rand(5, 6) + 0.1  # as many sequences as units
    alone = torch.cat([theirs(x[k : k + 1], timespans=spans[k : k + 1])[0] for k in range(5)])
    edges = torch.cat([torch.zeros(5, 1), spans.cumsum(1)], 1)
    assert_close(rnn(x, ts=edges)[0], alone, **ROUNDING)
    assert (theirs(x, timespans=spans)[0] - alone).abs().max() > 1e-3
    assert_close(rnn(x)[0], theirs(x)[0], **ROUNDING)  # without times each sample acts for 1
    backward = discretize.from_ncps(theirs, hold="backward", open_interval=1.0)
    begun = torch.cat([edges[:, 1:2] - 1.0, edges[:, 1:]], 1)
    assert_close(backward(x, ts=edges[:, 1:])[0], rnn(x, ts=begun)[0], **ROUNDING)
    lengths = torch.tensor([6, 1, 3, 2, 6])
    ragged, ends = rnn(x, ts=edges, lengths=lengths)
    for k, length in enumerate(lengths):
        assert_close(ragged[k, :length], alone[k, :length], **ROUNDING)
        assert_close(rnn.field.visible(ends[0, k]), alone[k, length - 1], **ROUNDING)


@torch.no_grad()
def test_in_single_precision_states_agree_to_a_millionth():
    torch.set_default_dtype(torch.float32)
    theirs, x = CfC(3, 64), torch.randn(4, 20, 3)
    assert_close(discretize.from_ncps(theirs)(x)[0], theirs(x)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_a_wired_network_is_its_layers_one_after_another(mode):
    theirs = CfC(3, AutoNCP(12, 3), mode=mode).double()
    layers, x = [getattr(theirs.rnn_cell, f"layer_{k}") for k in range(3)], torch.randn(4, 6, 3)
    with pytest.raises(ValueError, match=r"layers of different sizes; convert each, `from_ncps\(module.rnn_cell.layer_0\)`"):
        discretize.from_ncps(theirs)
    output = x.transpose(0, 1)
    for layer in layers:
        assert not layer.sparsity_mask.all()
        output, _ = discretize.from_ncps(layer)(output)
    assert_close(output.transpose(0, 1), theirs(x)[0], **ROUNDING)


def test_weights_that_the_wiring_leaves_out_have_no_gradient():
    mask = np.concatenate([np.eye(3, 5), np.ones((5, 5))])
    rnn = discretize.from_ncps(random_cell("default", layers=0, mask=mask))
    rnn(torch.randn(4, 2, 3))[0].square().sum().backward()
    for linear in (rnn.jump.curve.ff1, rnn.jump.curve.ff2):
        assert torch.equal(linear.weight.grad != 0, torch.as_tensor(mask.T != 0))


def test_networks_of_a_user_have_the_settings_of_ncps():
    rnn = discretize.cfc(3, 5, "no_gate", activation="gelu", units=7, layers=2, dropout=0.5, batch_first=True)
    theirs = CfCCell(3, 5, "no_gate", "gelu", 7, 2, 0.5)
    assert sum(p.numel() for p in rnn.parameters()) == sum(p.numel() for p in theirs.parameters())
    assert [type(part) for part in rnn.jump.backbone] == [type(part) for part in theirs.backbone]
    assert repr(discretize.cfc(3, 5).jump) == repr(discretize.from_ncps(CfCCell(3, 5)).jump)
    copied = discretize.from_ncps(theirs)
    assert (copied.jump.dropout, copied.jump.layers, copied.jump.activation) == (0.5, 2, "gelu")
    x = torch.randn(4, 6, 3)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    assert torch.equal(rnn.eval()(x)[0], rnn(x)[0])


def test_weights_start_as_glorot_and_bengio_draw_them():
    for name, weights in discretize.cfc(60, 90).jump.named_parameters():
        if weights.dim() == 2 and "." in name.removeprefix("curve."):
            assert_close(weights.abs().max().item(), (6 / sum(weights.shape)) ** 0.5, rtol=0.01, atol=0)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_between_samples_the_closed_form_solves_an_ordinary_differential_equation(mode):
    rnn = discretize.from_ncps(random_cell(mode))
    x, duration = torch.randn(1, 4, 3), torch.tensor([0.0, 2.5])
    begun = rnn.jumps(x, torch.randn(4, 20), ts=duration).after[0]
    base, span, _, speed = begun.chunk(4, -1)

    def slope(t, h):
        if mode == "pure":  # to A, at the rate |w| + |f1|
            return -speed * (base - h)
        return speed * (h - base) * (base + span - h) / span  # the logistic equation between base and base + span

    solved = discretize.integrate(slope, None, rnn.field.visible(begun), duration, rtol=1e-10, atol=1e-12).hs[-1]
    again = discretize.integrate(rnn.field, None, begun, duration, method="euler").hs[-1]
    assert_close(rnn.field.visible(again), solved, rtol=0, atol=1e-8)
    adaptive = discretize.integrate(rnn.field, None, begun, duration).hs[-1]
    assert_close(adaptive, again, **ROUNDING)  # straight lines


@pytest.mark.parametrize("make", [LTC, CfC])
def test_what_was_converted_trains_if_the_module_does(make):
    assert discretize.from_ncps(make(3, 5)).training
    assert not discretize.from_ncps(make(3, 5).eval()).training


@pytest.mark.parametrize("ts", [None, torch.tensor([0.0, 0.5, 2.0, 2.5, 4.0, 5.0, 7.0])])
@torch.no_grad()
def test_states_after_a_jump_are_those_at_its_sample_and_stay_where_a_sequence_is_over(ts):
    rnn, x = discretize.from_ncps(random_cell("default")), torch.randn(6, 2, 3)
    before, after = rnn.jumps(x, ts=ts, lengths=[6, 2])
    for states in (before, after):
        assert_close(states[2:, 1], before[1, 1].expand(4, -1), **ROUNDING)
    h = torch.zeros(2, 20)
    for k in range(2):
        h = rnn.jump(x[k], torch.ones(2, 3), h)
        assert_close(after[k], h, **ROUNDING)
        h = before[k]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.GRU(3, 5), TypeError, "`module` must be an LTC, CfC or CfCCell of ncps.torch, got GRU."),
        (lambda: LTCCell(FullyConnected(5), 3), TypeError, "got LTCCell; `ctrnn.cells.from_ncps` reads an LTCCell"),
        (lambda: CfC(3, 5, mixed_memory=True), ValueError, "mixed_memory=True, an LSTM before its cell"),
        (lambda: LTC(3, 5, mixed_memory=True), ValueError, "mixed_memory=True, an LSTM before its cell"),
        (lambda: CfC(3, 5, proj_size=2), ValueError, "has a `proj_size`; convert its `rnn_cell`"),
    ],
)
def test_what_cannot_be_converted_is_refused_in_words(make, error, words):
    module = make()
    with pytest.raises(error, match=words):
        discretize.from_ncps(module)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"mode": "gated"}, ValueError, "`mode` must be one of 'default', 'pure', 'no_gate', got 'gated'"),
        ({"activation": "sin"}, ValueError, "`activation` must be one of 'lecun_tanh'"),
        ({"wiring": torch.ones(8, 5)}, ValueError, r"`wiring` must be \(8, 5\), with layers=0"),
        ({"wiring": [[1]]}, TypeError, r"`wiring` must be a torch\.Tensor, got list"),
        ({"layers": 0, "wiring": torch.full((8, 5), 0.5)}, ValueError, "of -1, 0 and 1"),
        ({"unit": 3}, TypeError, "`cfc` takes no `unit`; did you mean `units`"),
        ({"method": "rk4"}, TypeError, "`cfc` takes no `method`; it takes input_size"),
    ],
)
def test_settings_of_no_closed_form_network_are_refused_in_words(settings, error, words):
    with pytest.raises(error, match=words):
        discretize.cfc(3, 5, **settings)


@pytest.mark.parametrize("name", ["tanh", ["sigmoid"]])
def test_a_curve_has_one_of_two_activations(name):
    with pytest.raises(ValueError, match="`activation` must be one of 'sigmoid', 'exponential'"):
        discretize.Curve(3, name)


def test_a_value_that_is_missing_is_not_read_as_0():
    rnn, x, lengths = discretize.cfc(2, 3, units=4), torch.randn(4, 2, 2), torch.tensor([4, 2])
    observed = torch.ones(4, 2, 2, dtype=torch.bool)
    observed[3, 1, 0] = observed[2, 0] = False  # beyond an end, and a sample of which nothing was seen
    whole = rnn(torch.where(observed, x, torch.nan), lengths=lengths, observed=observed)[0]
    assert whole.isfinite().all()
    observed[1, 0, 1] = False
    with pytest.raises(ValueError, match=r"some values were seen and others not, and a CfCJump would read these as 0"):
        rnn(torch.where(observed, x, torch.nan), lengths=lengths, observed=observed)
