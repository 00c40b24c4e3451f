"""Sequences that begin anew in the middle are the sequences cut there, whatever reads them."""

import pytest
import torch
from conformance import kernels_for_all
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Layers, RungeKutta4

WITHIN = {"rtol": 0, "atol": 1e-11}  # the same steps of a solve, alone and in a batch
MODULES = {
    "kernel": lambda: DiscreteRNN(ctrnn.lstm(2, 3)),
    "steps": lambda: DiscreteRNN(ctrnn.gated(2, 3), RungeKutta4()),
    "solve": lambda: ContinuousRNN(ctrnn.gru(2, 3), rtol=1e-2, atol=1e-2),  # few steps
    "two directions": lambda: Layers([[DiscreteRNN(ctrnn.gru(n, 3)), DiscreteRNN(ctrnn.gru(n, 3))] for n in (2, 6)]),
}


def cut_by_hand(rnn, x, h_0, ts, lengths, reset):
    """Each sequence piece by piece; ts are edges (time + 1, batch) or None."""
    outputs, finals = torch.zeros(*x.shape[:2], rnn.hidden_size * (1 + rnn.bidirectional)), []
    for i, n in enumerate(lengths):
        h_n, begins = h_0[:, i : i + 1], [k for k in range(n) if reset[k, i]]
        for k, end in zip(sorted({0, *begins}), [*[b for b in begins if b], n], strict=True):
            start = torch.zeros_like(h_n) if k in begins else h_n
            own = None if ts is None else ts[k : end + 1, i]
            outputs[k:end, i : i + 1], h_n = rnn(x[k:end, i : i + 1], start, own)
        finals.append(h_n)
    return outputs, torch.cat(finals, 1)


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_reset_is_a_cut(name, data):
    torch.manual_seed(0)
    time, batch = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    lengths = data.draw(st.none() | st.lists(st.integers(1, time), min_size=batch, max_size=batch))
    reset = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=batch, max_size=batch), min_size=time, max_size=time))
    )
    rnn, x = MODULES[name](), torch.randn(time, batch, 2, requires_grad=True)
    h_0 = torch.randn(rnn.num_states, batch, rnn._reader.state_size, requires_grad=True)
    ts = data.draw(st.sampled_from([None, torch.cumsum(0.1 + torch.rand(time + 1, batch), 0)]))
    expected = cut_by_hand(rnn, x, h_0, ts, lengths or [time] * batch, reset)
    found = rnn(x, h_0, ts, lengths, reset)
    wanted = [x, h_0, *rnn.parameters()]
    for ours, theirs in zip((*found, *slopes(found, wanted)), (*expected, *slopes(expected, wanted)), strict=True):
        assert_close(ours, theirs, **WITHIN)


def slopes(states, tensors):
    found = torch.autograd.grad(sum(part.sin().sum() for part in states), tensors, allow_unused=True)
    return [torch.zeros_like(t) if grad is None else grad for grad, t in zip(found, tensors, strict=True)]


def test_samples_act_as_long_with_resets_as_without():
    rnn, x = DiscreteRNN(ctrnn.gru(2, 3)), torch.randn(5, 3, 2)
    edges, reset = torch.cumsum(0.1 + torch.rand(6, 3), 0), torch.rand(5, 3) < 0.4
    edges[5] = 2 * edges[4] - edges[3]  # as stamps, of which the last sample acts as long as the one before it
    assert_close(rnn(x, ts=edges[:5], reset=reset), rnn(x, ts=edges, reset=reset))


def test_resets_have_the_axes_and_packs_of_the_input():
    rnn, x = DiscreteRNN(ctrnn.gru(2, 3)), torch.randn(5, 3, 2)
    reset = torch.rand(5, 3) < 0.4
    output, h_n = rnn(x, reset=reset)
    turned = DiscreteRNN(rnn.field, batch_first=True)
    assert_close(turned(x.transpose(0, 1), reset=reset.T)[0].transpose(0, 1), output)
    assert_close(rnn(x[:, 0], reset=reset[:, 0])[0], output[:, 0])
    packed, of_packed = rnn(pack_padded_sequence(x, [5, 3, 2]), reset=reset)
    assert_close(packed.data, pack_padded_sequence(output, [5, 3, 2]).data)
    assert_close(of_packed[:, 0], h_n[:, 0])


def test_pieces_are_read_by_the_kernel_and_in_fewer_steps():
    rnn, x = DiscreteRNN(ctrnn.gru(2, 3)), torch.randn(6, 2, 2)
    with kernels_for_all():
        rnn(x, reset=torch.ones(6, 2, dtype=torch.bool))
    assert rnn.stats["engine"] != "steps"
    solved = ContinuousRNN(rnn.field)
    solved(x, reset=torch.ones(6, 2, dtype=torch.bool))
    assert len(solved.stats["steps_of_samples"]) == 12


def test_a_batch_of_nobody_has_nothing_to_reset():
    output, h_n = DiscreteRNN(ctrnn.gru(2, 3))(torch.zeros(5, 0, 2), reset=torch.zeros(5, 0, dtype=torch.bool))
    assert output.shape == (5, 0, 3)
    assert h_n.shape == (1, 0, 3)


@pytest.mark.parametrize(
    ("reset", "error", "words"),
    [
        (torch.zeros(5, 3), TypeError, r"`reset` must hold booleans, got torch.float.*; .* `reset.bool\(\)`"),
        (torch.zeros(3, 5, dtype=torch.bool), ValueError, r"`reset` must have shape \(5, 3\), .* got \(3, 5\)"),
        ([True], TypeError, "`reset`"),
    ],
)
def test_what_is_no_reset_is_refused_in_words(reset, error, words):
    with pytest.raises(error, match=words):
        DiscreteRNN(ctrnn.gru(2, 3))(torch.randn(5, 3, 2), reset=reset)
