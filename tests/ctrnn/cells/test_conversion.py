"""The unit Euler step of a converted field is torch's own cell: values, and gradients of everything."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn

CELLS = [nn.RNNCell, nn.GRUCell, nn.LSTMCell]
SEQUENCES = [nn.RNN, nn.GRU, nn.LSTM]
NAMES = ["plain", "gru", "lstm"]
EXACT = {"rtol": 0, "atol": 1e-12}  # the same sums in another order


def packed(state):
    """Torch's state, h or (h, c), as the one tensor of a field."""
    return torch.cat(state, -1) if isinstance(state, tuple) else state


def unpacked(kind, h):
    return h.chunk(2, -1) if kind in (nn.LSTMCell, nn.LSTM) else h


def start(kind, *shape, hidden=5):
    return torch.randn(*shape, 2 * hidden if kind in (nn.LSTMCell, nn.LSTM) else hidden)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("hidden", "batch"), [(5, 4), (4, 4), (1, 1)])
def test_the_unit_euler_step_is_the_torch_cell(kind, bias, hidden, batch):
    theirs = kind(3, hidden, bias=bias)
    field, x, h = ctrnn.from_torch(theirs), torch.randn(batch, 3), start(kind, batch, hidden=hidden)
    assert_close(h + field(x, h), packed(theirs(x, unpacked(kind, h))), **EXACT)


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_for_input_and_state_are_those_of_the_torch_cell(kind):
    theirs = kind(3, 5)
    field, x, h = ctrnn.from_torch(theirs), torch.randn(4, 3, requires_grad=True), start(kind, 4).requires_grad_()
    weights = torch.randn_like(h)
    ours = torch.autograd.grad((weights * (h + field(x, h))).sum(), (x, h))
    expected = torch.autograd.grad((weights * packed(theirs(x, unpacked(kind, h)))).sum(), (x, h))
    for one, other in zip(ours, expected, strict=True):
        assert_close(one, other, **EXACT)


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_for_the_weights_are_those_of_the_torch_cell(kind):
    theirs = kind(3, 5)
    field, x, h = ctrnn.from_torch(theirs), torch.randn(4, 3), start(kind, 4)
    weights = torch.randn_like(h)
    ours = torch.autograd.grad((weights * (h + field(x, h))).sum(), list(field.parameters()))
    expected = torch.autograd.grad((weights * packed(theirs(x, unpacked(kind, h)))).sum(), list(theirs.parameters()))
    ours = weights_by_torchs_names(kind, field, ours)
    for (name, _), gradient in zip(theirs.named_parameters(), expected, strict=True):
        assert_close(ours[name], gradient, **EXACT, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("kind", CELLS)
def test_float32_stays_float32(kind):
    theirs = kind(3, 5, dtype=torch.float32)
    field, x, h = ctrnn.from_torch(theirs), torch.randn(4, 3).float(), start(kind, 4).float()
    assert {p.dtype for p in field.parameters()} == {torch.float32}
    # A dozen float32 roundings of sums of order 1.
    assert_close(h + field(x, h), packed(theirs(x, unpacked(kind, h))), rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", CELLS)
def test_the_device_is_kept(kind):
    assert {p.device.type for p in ctrnn.from_torch(kind(3, 5, device="meta")).parameters()} == {"meta"}


def weights_by_torchs_names(kind, field, gradients):
    """The gradients of a field's weights, laid out as torch lays out the weights of its cell."""
    g = dict(zip([name for name, _ in field.named_parameters()], gradients, strict=True))
    if kind is nn.RNNCell:
        part = "candidate"
        return {
            name: g[f"{part}.{ours}"]
            for name, ours in (("weight_ih", "weight_x"), ("weight_hh", "weight_h"), ("bias_ih", "bias"), ("bias_hh", "bias"))
        }
    if kind is nn.LSTMCell:
        return {
            name: g[f"gates.{ours}"]
            for name, ours in (("weight_ih", "weight_x"), ("weight_hh", "weight_h"), ("bias_ih", "bias"), ("bias_hh", "bias"))
        }
    parts, signs = ("candidate.reset", "rate", "candidate.pull"), (1, -1, 1)

    def stack(value, *last):
        rows = [s * g[f"{part}.{value}"] for part, s in zip(parts, signs, strict=True)]
        return torch.cat([*rows[:2], *(last or rows[2:])])

    return {
        "weight_ih": stack("weight_x"),
        "weight_hh": stack("weight_h"),
        "bias_ih": stack("bias"),
        "bias_hh": stack("bias", g["candidate.bias_h"]),
    }


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_unit_euler_steps_are_the_torch_sequence_module(kind, bias, batch_first):
    theirs = kind(3, 5, bias=bias, batch_first=batch_first)
    field, xs, h = ctrnn.from_torch(theirs), torch.randn(7, 4, 3), start(kind, 4)
    first = unpacked(kind, h)
    first = tuple(part[None].contiguous() for part in first) if isinstance(first, tuple) else first[None]
    output, last = theirs(xs.transpose(0, 1) if batch_first else xs, first)
    output = output.transpose(0, 1) if batch_first else output
    seen = []
    for x in xs:
        h = h + field(x, h)
        seen.append(field.visible(h))
    assert_close(torch.stack(seen), output, **EXACT)
    assert_close(h, packed(last)[0], **EXACT)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_gradients_through_a_sequence_are_those_of_torch(kind):
    theirs = kind(3, 5)
    field, xs, h0 = ctrnn.from_torch(theirs), torch.randn(7, 4, 3, requires_grad=True), start(kind, 4)
    first = unpacked(kind, h0)
    first = tuple(part[None].contiguous() for part in first) if isinstance(first, tuple) else first[None]
    output, _ = theirs(xs, first)
    (expected,) = torch.autograd.grad(output.pow(2).sum(), xs)
    h, loss = h0, 0.0
    for x in xs:
        h = h + field(x, h)
        loss = loss + field.visible(h).pow(2).sum()
    (ours,) = torch.autograd.grad(loss, xs)
    assert_close(ours, expected, **EXACT)


@pytest.mark.parametrize("kind", [*CELLS, *SEQUENCES])
def test_weights_are_copied_not_shared(kind):
    theirs = kind(3, 5)
    field, x = ctrnn.from_torch(theirs), torch.randn(4, 3)
    before = field(x, field.initial_state(4)).detach().clone()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.zero_()
    assert torch.equal(field(x, field.initial_state(4)), before)
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in field.parameters())


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_there_and_back_gives_the_same_cell(kind, bias):
    theirs = kind(3, 5, bias=bias)
    again = ctrnn.to_torch(ctrnn.from_torch(theirs))
    assert type(again) is kind
    assert again.bias is bias
    x, h = torch.randn(4, 3), start(kind, 4)
    assert_close(packed(again(x, unpacked(kind, h))), packed(theirs(x, unpacked(kind, h))), **EXACT)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_back_and_there_gives_the_same_weights_to_the_last_bit(name, bias, dtype):
    field = getattr(ctrnn, name)(3, 5, bias=bias, dtype=dtype)
    if name == "gru" and bias:
        nn.init.normal_(field.candidate.bias_h)
    again = ctrnn.from_torch(ctrnn.to_torch(field))
    first, second = field.state_dict(), again.state_dict()
    assert list(first) == list(second)
    for key, value in first.items():
        assert torch.equal(value, second[key])
        assert value.dtype == second[key].dtype


@pytest.mark.parametrize("name", NAMES)
def test_the_torch_cell_of_a_field_is_its_unit_euler_step(name):
    field, x = getattr(ctrnn, name)(3, 5), torch.randn(4, 3)
    h = torch.randn(4, field.state_size)
    cell = ctrnn.to_torch(field)
    assert_close(packed(cell(x, unpacked(type(cell), h))), h + field(x, h), **EXACT)


@pytest.mark.parametrize("module", [nn.RNNCell, nn.RNN])
def test_a_torch_cell_with_relu_is_the_plain_field_with_relu(module):
    theirs, h = module(3, 5, nonlinearity="relu"), torch.randn(4, 5)
    field, x = ctrnn.from_torch(theirs), torch.randn(4, 3)
    expected = theirs(x, h) if module is nn.RNNCell else theirs(x[None], h[None])[0][0]
    assert_close(h + field(x, h), expected, **EXACT)
    again = ctrnn.to_torch(field)
    assert again.nonlinearity == "relu"
    assert_close(again(x, h), expected, **EXACT)
    assert (expected > 0).any()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: nn.RNN(3, 5, num_layers=2), "num_layers=2"),
        (lambda: nn.GRU(3, 5, num_layers=2), "num_layers=2.*num_layers=1 only"),
        (lambda: nn.LSTM(3, 5, bidirectional=True), "bidirectional=True"),
        (lambda: nn.GRU(3, 5, bidirectional=True), "bidirectional=True"),
        (lambda: nn.LSTM(3, 5, proj_size=2), "proj_size=2"),
    ],
)
def test_settings_that_no_field_has_are_refused(module, message):
    with pytest.raises(ValueError, match=f"`module` has {message}"):
        ctrnn.from_torch(module())


@pytest.mark.parametrize("module", [nn.Linear(3, 5), nn.Transformer, None, "gru"])
def test_other_modules_are_refused(module):
    with pytest.raises(TypeError, match=r"`module` must be an RNNCell, GRUCell or LSTMCell.*got"):
        ctrnn.from_torch(module)


def relaxation(candidate=None, rate=None, decay=None):
    return ctrnn.Relaxation(candidate or ctrnn.TanhCandidate(3, 5), rate or ctrnn.FixedRate(1.0), decay or ctrnn.LinearDecay())


@pytest.mark.parametrize(
    "field",
    [
        lambda: ctrnn.leaky(3, 5),
        lambda: ctrnn.gated(3, 5),
        lambda: ctrnn.gated(3, 5, "global"),
        lambda: ctrnn.gated(3, 5, decay=ctrnn.PowerDecay(2)),
        lambda: relaxation(rate=ctrnn.FixedRate(0.5)),
        lambda: relaxation(decay=ctrnn.PowerDecay(2)),
        lambda: relaxation(ctrnn.ResetCandidate(3, 5)),
        lambda: relaxation(ctrnn.ResetCandidate(3, 5), ctrnn.GlobalGateRate(3, 5)),
        lambda: nn.GRUCell(3, 5),
        lambda: None,
    ],
)
def test_fields_that_torch_has_no_cell_for_are_refused(field):
    with pytest.raises(TypeError, match="torch has a cell for plain, gru and lstm fields only"):
        ctrnn.to_torch(field())


@pytest.mark.parametrize("biases", [(False, True), (True, False)])
def test_a_gru_with_some_of_its_biases_keeps_those(biases):
    candidate, rate = ctrnn.ResetCandidate(3, 5, bias=biases[0]), ctrnn.GateRate(3, 5, bias=biases[1])
    field = relaxation(candidate, rate)
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    assert_close(ctrnn.to_torch(field)(x, h), h + field(x, h), **EXACT)


@pytest.mark.parametrize("kind", CELLS)
def test_one_weight_in_two_places_is_refused_and_two_are_read(kind):
    cell, x = kind(5, 5), torch.randn(4, 5)
    cell.weight_hh = cell.weight_ih
    with pytest.raises(
        TypeError, match="`module` has one tensor as `weight_ih` and `weight_hh`, of which copies would be several"
    ):
        ctrnn.from_torch(cell)
    cell.weight_hh = nn.Parameter(cell.weight_hh.detach().clone())
    field, h = ctrnn.from_torch(cell), start(kind, 4)
    assert_close(h + field(x, h), packed(cell(x, unpacked(kind, h))), **EXACT)
