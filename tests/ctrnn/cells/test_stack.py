"""Stacked fields: against their equations written out, and against torch's layers run one after another."""

import copy

import problems
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteCell, DiscreteRNN

ROUNDING = {"rtol": 0, "atol": 1e-14}  # the same sums, in other shapes


def mixed():
    """Three layers of different kinds, sizes and states: 7 + 8 + 3 units, of which 5 are visible."""
    top = ctrnn.gated(4, 5, decay=ctrnn.PowerDecay(2.0))
    return ctrnn.Stack([ctrnn.leaky(2, 3, 0.4), ctrnn.lstm(3, 4), top])


def point(field, batch=4):
    return torch.randn(batch, field.input_size), torch.randn(batch, field.state_size)


@pytest.mark.parametrize(("batch", "hidden"), [(4, 3), (3, 3), (1, 2)])
def test_two_layers_are_the_two_equations_written_out(batch, hidden):
    first, second = ctrnn.plain(2, hidden), ctrnn.plain(hidden, hidden)
    x, h1, h2 = torch.randn(batch, 2), torch.randn(batch, hidden), torch.randn(batch, hidden)
    w1, w2 = first.candidate, second.candidate
    dh1 = torch.tanh(x @ w1.weight_x.T + h1 @ w1.weight_h.T + w1.bias) - h1
    dh2 = torch.tanh(h1 @ w2.weight_x.T + h2 @ w2.weight_h.T + w2.bias) - h2
    found = ctrnn.Stack([first, second])(x, torch.cat([h2, h1], -1))
    assert_close(found, torch.cat([dh2, dh1], -1), **ROUNDING)


def test_layers_read_what_is_visible_of_the_one_below_and_keep_their_own_state():
    field = mixed()
    (x, h), (first, second, third) = point(field), field.fields
    assert (field.input_size, field.hidden_size, field.state_size) == (2, 5, 16)
    h3, h2, h1 = h.split([5, 8, 3], -1)
    expected = torch.cat([third(h2[:, :4], h3), second(h1, h2), first(x, h1)], -1)
    assert_close(field(x, h), expected, **ROUNDING)
    assert torch.equal(field.visible(h), h3)
    assert [part.shape[-1] for part in field.states(h)] == [3, 8, 5]
    assert field.initial_state(6).shape == (6, 16)
    assert torch.equal(field.project(x), first.project(x))


def test_layers_of_torch_are_met_where_the_delay_is_given_back():
    theirs = nn.GRU(2, 4, num_layers=2)
    layers = []
    for k in range(2):
        layer = nn.GRU(2 if k == 0 else 4, 4)
        layer.load_state_dict({n.replace(f"_l{k}", "_l0"): v for n, v in theirs.state_dict().items() if n.endswith(f"_l{k}")})
        layers.append(ctrnn.from_torch(layer))
    x = torch.randn(6, 3, 2)
    expected, _ = theirs(x)
    first, second = layers
    h1 = DiscreteRNN(first)(x[:1])[1][0]  # the lower layer, one sample ahead of the upper one
    output, _ = DiscreteRNN(ctrnn.Stack([first, second]))(x[[1, 2, 3, 4, 5, 5]], torch.cat([torch.zeros(3, 4), h1], -1))
    assert_close(output, expected, **ROUNDING)


def test_a_stack_of_one_is_the_field():
    field = ctrnn.gated(2, 3, "network", decay=ctrnn.PowerDecay(2.0))
    stack, (x, h) = ctrnn.Stack([field]), point(field)
    projected, at = field.project(x), torch.randn_like(h)
    assert torch.equal(stack(x, h), field(x, h))
    assert torch.equal(stack.leak(projected, h), field.leak(projected, h))
    assert torch.equal(stack.forget(projected, h, at, 0.3), field.forget(projected, h, at, 0.3))
    assert (stack.input_size, stack.hidden_size, stack.state_size) == (2, 3, 6)


def test_stacks_stack():
    a, b, c = ctrnn.plain(2, 3), ctrnn.lstm(3, 4), ctrnn.gru(4, 3)
    flat, nested = ctrnn.Stack([a, b, c]), ctrnn.Stack([ctrnn.Stack([a, b]), c])
    x, h = point(flat)
    assert torch.equal(nested(x, h), flat(x, h))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU])
@pytest.mark.parametrize("layers", [2, 3])
def test_a_unit_euler_step_is_the_layers_of_torch_with_a_delay_of_one_sample_between_them(kind, layers):
    theirs = [kind(2 if k == 0 else 4, 4) for k in range(layers)]
    field = ctrnn.Stack([ctrnn.from_torch(layer) for layer in theirs])
    x, starts = torch.randn(7, 3, 2), [torch.randn(1, 3, 4) for _ in theirs]
    output, h_n = DiscreteRNN(field)(x, torch.cat(starts[::-1], -1))
    read, ends = x, []
    for layer, start in zip(theirs, starts, strict=True):
        states, end = layer(read, start)
        ends.append(end)
        read = torch.cat([start, states[:-1]])  # what the layer was before each sample
    assert_close(output, states, **ROUNDING)
    assert_close(h_n, torch.cat(ends[::-1], -1), **ROUNDING)


def test_flow_and_leak_are_the_flow_and_the_leak():
    field = mixed()
    x, h = point(field)
    flow, leak = field.flow_and_leak(field.project(x), h)
    assert torch.equal(flow, field.flow(field.project(x), h))
    assert torch.equal(leak, field.leak(field.project(x), h))
    assert (leak >= 0).all()


def test_what_forgetting_begins_with_is_the_leak():
    field = mixed()
    x, h = point(field)
    projected, dt = field.project(x), 1e-5
    at_first = (field.forget(projected, h, h, dt) - field.forget(projected, h, h, -dt)) / (2 * dt)
    assert_close(at_first, -field.leak(projected, h) * h, rtol=1e-8, atol=1e-9)  # dt^2, and rounding over dt


def test_forgetting_holds_the_gates_of_every_layer_where_it_is_told_to():
    field = mixed()
    (x, h), at = point(field), torch.randn(4, 16)
    first, second, third = field.fields
    (h3, h2, h1), (at3, at2, at1) = h.split([5, 8, 3], -1), at.split([5, 8, 3], -1)
    expected = torch.cat(
        [
            third.forget(third.project(at2[:, :4]), h3, at3, 0.7),
            second.forget(second.project(at1), h2, at2, 0.7),
            first.forget(first.project(x), h1, at1, 0.7),
        ],
        -1,
    )
    assert torch.equal(field.forget(field.project(x), h, at, 0.7), expected)


@pytest.mark.parametrize("step", problems.STEPS.values())
def test_every_step_map_takes_a_stack(step):
    field = mixed()
    x, h = point(field)
    alone = torch.cat([DiscreteCell(field, step, dt=0.3)(x[i : i + 1], h[i : i + 1]) for i in range(4)])
    assert_close(DiscreteCell(field, step, dt=0.3)(x, h), alone, **ROUNDING)


def test_gradients_reach_every_parameter_and_are_right():
    field = mixed()
    x, h = (t.requires_grad_() for t in point(field, 2))
    assert torch.autograd.gradcheck(field, (x, h))
    grads = torch.autograd.grad(field(x, h).square().sum(), list(field.parameters()))
    assert all(grad.abs().max() > 0 for grad in grads)


def test_copies_and_state_dicts_carry_every_layer():
    field, other = mixed(), mixed()
    x, h = point(field)
    twin = copy.deepcopy(field)
    assert torch.equal(twin(x, h), field(x, h))
    assert not {id(p) for p in twin.parameters()} & {id(p) for p in field.parameters()}
    assert len(field.state_dict()) == sum(len(layer.state_dict()) for layer in field.fields)
    other.load_state_dict(field.state_dict())
    assert torch.equal(other(x, h), field(x, h))
    weights = {name: 2 * value for name, value in field.named_parameters()}
    assert not torch.allclose(torch.func.functional_call(field, weights, (x, h)), field(x, h))


def test_a_layer_without_parameters_goes_with_every_dtype():
    field = ctrnn.Stack([problems.Spiral(), ctrnn.plain(2, 3, dtype=torch.float32)])
    assert field(torch.randn(4, 2).float(), torch.randn(4, 5).float()).dtype == torch.float32


def test_settings_reach_every_layer_and_a_decay_is_not_shared():
    field = ctrnn.gated(2, 3, "network", rate="softplus", decay=ctrnn.PowerDecay(2.0), num_layers=2, dtype=torch.float32)
    first, second = field.fields
    assert {p.dtype for p in field.parameters()} == {torch.float32}
    assert second.decay.exponent == 2
    assert second.decay is not first.decay
    assert field.state_size == 12


@pytest.mark.parametrize("name", ["plain", "leaky", "gated", "gru", "lstm"])
def test_named_fields_come_in_layers_with_weights_of_their_own(name):
    make = getattr(ctrnn, name)
    field = make(2, 3, num_layers=3)
    assert isinstance(field, ctrnn.Stack)
    assert [(layer.input_size, layer.hidden_size) for layer in field.fields] == [(2, 3), (3, 3), (3, 3)]
    assert len({id(p) for p in field.parameters()}) == 3 * len(list(make(2, 3).parameters()))
    single = make(2, 3, num_layers=1, generator=torch.Generator().manual_seed(1))
    assert type(single) is type(make(2, 3))
    lowest = make(2, 3, num_layers=2, generator=torch.Generator().manual_seed(1)).fields[0]
    assert all(torch.equal(a, b) for a, b in zip(lowest.parameters(), single.parameters(), strict=True))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ctrnn.Stack([]), ValueError, "`fields` is empty; give at least one field"),
        (lambda: ctrnn.Stack(ctrnn.plain(2, 3)), TypeError, r"got Relaxation; put it in a list"),
        (lambda: ctrnn.Stack(3), TypeError, r"`fields` must be a sequence of ctrnn\.VectorField, got int\.$"),
        (lambda: ctrnn.Stack([ctrnn.plain(2, 3), nn.GRU(3, 3)]), TypeError, r"`fields\[1\]` must be a .*, got GRU"),
        (
            lambda: ctrnn.Stack([ctrnn.lstm(2, 3), ctrnn.plain(6, 3)]),
            ValueError,
            r"`fields\[1\]` reads 6 features.*has 3 visible",
        ),
        (lambda: ctrnn.Stack([ctrnn.plain(2, 3), ctrnn.plain(3, 3).float()]), TypeError, r"`fields\[1\]` has .* torch\.float32"),
        (lambda: ctrnn.Stack([ctrnn.plain(2, 3), ctrnn.plain(3, 3, device="meta")]), ValueError, r"`fields\[1\]` .* on meta"),
        (lambda: ctrnn.gru(2, 3, num_layers=0), ValueError, "`num_layers` must be at least 1, got 0"),
        (lambda: ctrnn.gru(2, 3, num_layers=2.0), TypeError, r"`num_layers` must be a whole number, got 2\.0"),
        (lambda: ctrnn.Stack([ctrnn.plain(2, 3)])(torch.zeros(4, 3), torch.zeros(4, 3)), ValueError, "reads 2 input features"),
    ],
)
def test_what_does_not_stack_is_refused_by_name(make, error, message):
    with pytest.raises(error, match=message):
        make()
