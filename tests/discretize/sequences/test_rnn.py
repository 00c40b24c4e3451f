"""Sequence modules against torch's, against one another, and against SciPy."""

import math
import re

import problems
import pytest
import references
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, unroll

ROUNDING = {"rtol": 0, "atol": 1e-12}
MODULES = [nn.RNN, nn.GRU, nn.LSTM]


def _pair(theirs, h_0):
    return h_0 if isinstance(theirs, nn.LSTM) else h_0[0]


def _joined(h):
    return torch.cat(h, -1) if isinstance(h, tuple) else h


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("time", "batch", "hidden"), [(7, 4, 5), (5, 5, 5), (1, 1, 2)])
def test_the_unit_euler_module_is_the_torch_module(kind, batch_first, time, batch, hidden):
    theirs = kind(3, hidden, batch_first=batch_first)
    ours = DiscreteRNN(ctrnn.from_torch(theirs), batch_first=batch_first)
    x = torch.randn(*((batch, time) if batch_first else (time, batch)), 3)
    h_0 = (torch.randn(1, batch, hidden), torch.randn(1, batch, hidden))
    for start in (None, _pair(theirs, h_0)):
        output, h_n = ours(x, start)
        expected, expected_n = theirs(x, start)
        assert_close(output, expected, **ROUNDING)
        assert_close(h_n, _joined(expected_n), **ROUNDING)


@pytest.mark.parametrize("kind", MODULES)
def test_the_unit_euler_module_has_the_gradients_of_the_torch_module(kind):
    theirs = kind(3, 5)
    field = ctrnn.from_torch(theirs)
    x, weight = torch.randn(7, 4, 3), torch.randn(7, 4, 5)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (DiscreteRNN(field)(x_ours)[0] * weight).sum().backward()
    (theirs(x_theirs)[0] * weight).sum().backward()
    assert_close(x_ours.grad, x_theirs.grad, **ROUNDING)
    # `from_torch` is linear in the weights, so it carries gradients as well; of torch's two biases that add, each of which
    # gets the gradient of their sum, one is enough, but for the GRU's n, which keeps both.
    for name, parameter in theirs.named_parameters():
        with torch.no_grad():
            parameter.copy_(parameter.grad)
            if name.startswith("bias_hh"):
                parameter[: 2 * 5 if kind is nn.GRU else None] = 0
    for name, expected in ctrnn.from_torch(theirs).named_parameters():
        assert_close(field.get_parameter(name).grad, expected.data, **ROUNDING)


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_one_sequence_without_a_batch_axis_is_read_as_torch_reads_it(module):
    rnn = module(ctrnn.gru(3, 5))
    x, h_0 = torch.randn(6, 3), torch.randn(1, 5)
    output, h_n = rnn(x, h_0)
    batched, batched_n = rnn(x[:, None], h_0[None])
    assert output.shape == (6, 5)
    assert h_n.shape == (1, 5)
    assert torch.equal(output, batched[:, 0])
    assert torch.equal(h_n, batched_n[:, 0])


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_the_initial_state_comes_in_every_shape_that_the_interface_names(module):
    rnn, x = module(ctrnn.lstm(3, 5)), torch.randn(4, 2, 3)
    h, c = torch.randn(2, 5), torch.randn(2, 5)
    state = torch.cat([h, c], -1)
    answers = [rnn(x, h_0)[0] for h_0 in (state, state[None], (h, c), (h[None], c[None]))]
    for answer in answers[1:]:
        assert torch.equal(answer, answers[0])
    assert rnn(x, state)[1].shape == (1, 2, 10)


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_time_stamps_and_edges_say_how_long_each_sample_lasts(module):
    rnn, x = module(ctrnn.gated(2, 3)), torch.randn(4, 1, 2)
    by_edges = rnn(x, ts=TIMES)[0]
    # Stamps: the last sample lasts as long as the one before it.
    stamped = rnn(x, ts=TIMES[:4])[0]
    assert torch.equal(stamped[:3], by_edges[:3])
    assert_close(stamped, rnn(x, ts=torch.tensor([0.0, 0.5, 2.0, 2.1, 2.2]))[0], rtol=0, atol=1e-12)
    rnn = module(rnn.field, open_interval=0.25)
    assert_close(rnn(x[:1], ts=torch.tensor([3.0]))[0], rnn(x[:1], ts=torch.tensor([3.0, 3.25]))[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_masking_the_output_leaves_the_final_state_as_it_was(module):
    with torch.no_grad():
        output, h_n = module(ctrnn.gru(2, 3))(torch.randn(4, 5, 2))
        kept = h_n.clone()
        output[2:, 1] = 0
    assert torch.equal(h_n, kept)


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
def test_modules_differentiate_to_samples_state_and_weights(module):
    field = ctrnn.gated(2, 3)
    rnn = module(field) if module is DiscreteRNN else module(field, method="rk4", max_step=0.5)
    x, h_0 = torch.randn(3, 2, 2, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    names = [f"field.{name}" for name, _ in field.named_parameters()]

    def call(x, h_0, *weights):
        return torch.func.functional_call(rnn, dict(zip(names, weights, strict=True)), (x, h_0))

    assert torch.autograd.gradcheck(call, (x, h_0, *field.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", ["gated power 2", "gru", "lstm"])
def test_exact_and_discrete_modules_meet_as_the_steps_get_shorter(name):
    field, x = problems.NAMED_FIELDS[name](2, 3), torch.randn(3, 2, 2)
    with torch.no_grad():
        exact = ContinuousRNN(field, rtol=1e-9, atol=1e-11)(x)[0]
        errors = [float((DiscreteRNN(field, substeps=n)(x)[0] - exact).abs().max()) for n in (64, 128)]
    assert errors[1] < 0.05
    assert math.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.1)  # Euler's order


def test_the_continuous_module_gives_the_state_after_each_sample():
    field, x, h_0 = ctrnn.gated(2, 3), torch.randn(6, 4, 2), torch.randn(4, 3)
    with torch.no_grad():
        output, h_n = ContinuousRNN(field, rtol=1e-10, atol=1e-12)(x, h_0)
    knots = torch.arange(7.0)
    expected = references.dop853(field, references.held(x, knots), knots, h_0, knots)
    assert_close(output, expected[1:], rtol=0, atol=1e-8)
    assert torch.equal(h_n, output[-1:])


def test_a_discrete_sample_takes_a_step_as_long_as_its_interval():
    field, x = ctrnn.gated(2, 3), torch.randn(4, 1, 2)
    h = torch.zeros(1, 3)
    for k in range(4):
        h = h + (TIMES[k + 1] - TIMES[k]) * field(x[k], h)
    assert_close(DiscreteRNN(field, dt=7.0)(x, ts=TIMES)[1][0], h, rtol=0, atol=1e-14)


def test_substeps_divide_a_sample_into_equal_steps():
    field, x = ctrnn.gated(2, 3), torch.randn(4, 1, 2)
    repeated = unroll(DiscreteCell(field, dt=0.25), x.repeat_interleave(4, 0)).hs[4::4]
    assert_close(DiscreteRNN(field, substeps=4)(x)[0], repeated, rtol=0, atol=1e-14)


TIMES = torch.tensor([0.0, 0.5, 2.0, 2.1, 4.0], dtype=torch.float64)


def test_autograd_costs_grow_in_proportion_to_length():
    def nodes(length):
        x = torch.randn(length, 1, 2, requires_grad=True)
        seen, stack = set(), [DiscreteRNN(ctrnn.plain(2, 2), fused=False)(x)[0].grad_fn]
        while stack:
            node = stack.pop()
            if node is not None and node not in seen:
                seen.add(node)
                stack.extend(next_node for next_node, _ in node.next_functions)
        return len(seen), sum(type(node).__name__ == "SelectBackward0" for node in seen)

    (short, _), (long, selects) = nodes(20), nodes(40)
    assert long - short == pytest.approx(short, rel=0.1)
    assert selects == 0  # x[k] in a loop: each would cost a gradient as long as the sequence


X = torch.zeros(4, 5, 2, dtype=torch.float64)


def rnn():
    return DiscreteRNN(ctrnn.gated(2, 3))


def lstm():
    return DiscreteRNN(ctrnn.lstm(2, 3))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rnn()(torch.zeros(4, 5, 3)), ValueError, "reads 2 input features"),
        (lambda: rnn()(torch.zeros(2)), ValueError, "or (time, input) for one sequence"),
        (lambda: rnn()(torch.zeros(0, 5, 2)), ValueError, "`x` is empty"),
        (lambda: rnn()(torch.full((4, 5, 2), torch.nan)), ValueError, "`x` must be finite, got nan"),
        (lambda: rnn()(X, torch.zeros(2, 5, 3)), ValueError, "`h_0` must have shape (1, 5, 3) or (5, 3)"),
        (lambda: rnn()(X, torch.zeros(1, 5, 4)), ValueError, "the field keeps 3"),
        (lambda: rnn()(X, (torch.zeros(5, 3), torch.zeros(5, 3))), ValueError, "a pair (h_0, c_0) is for fields on"),
        (lambda: lstm()(X, (torch.zeros(5, 6), torch.zeros(5, 6))), ValueError, "must both be 3 wide"),
        (lambda: rnn()(X, torch.full((5, 3), torch.inf)), ValueError, "`h_0` must be finite"),
        (lambda: rnn()(X, ts=torch.tensor([0.0, 1.0])), ValueError, "2 times for 4 samples"),
        (lambda: rnn()(X, ts=torch.tensor([0.0, 1.0, 1.0, 2.0])), ValueError, "repeats at index 2"),
        (lambda: rnn()(X, ts=torch.zeros(4, 5)), ValueError, "repeats at index 1 in sequence 0"),
        (lambda: DiscreteRNN(nn.GRU(2, 3)), TypeError, "`field` must be a ctrnn.VectorField"),
        (lambda: DiscreteRNN(ctrnn.plain(2, 3), substeps=0), ValueError, "`substeps` must be at least 1"),
        (lambda: DiscreteRNN(ctrnn.plain(2, 3), dt=-1), ValueError, "`dt` must be positive"),
        (lambda: ContinuousRNN(ctrnn.plain(2, 3), method="dopry5"), ValueError, "did you mean 'dopri5'"),
        (lambda: DiscreteRNN(ctrnn.plain(2, 3), batch_first="False"), TypeError, "`batch_first` must be True or False"),
        (lambda: lstm()(X, (torch.zeros(5, 3).float(), torch.zeros(5, 3))), TypeError, "`h_0` is torch.float32"),
        (lambda: Euler()(None, X[0], torch.zeros(5, 3), 1.0), TypeError, "got NoneType"),
        (lambda: ContinuousRNN(ctrnn.plain(2, 3), method="rk4", gradient=Adjoint()), ValueError, "the gradient would be wrong"),
    ],
)
def test_wrong_calls_are_refused_by_name(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()
