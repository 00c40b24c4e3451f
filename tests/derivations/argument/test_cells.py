"""The GRU's and the LSTM's twins beside torch's own cells."""

import torch
from sympy import Float

from derivations import Identity, check, euler_step
from derivations.argument.gru import cell
from derivations.prover.identity import column
from derivations.twins import fields


def values_from(field, letters, stacked, biases, arguments):
    """Numbers for the twin's letters, from torch's weights stacked in the order of `letters`."""
    values = dict(zip([*field.inputs, *field.state], torch.cat(arguments).tolist(), strict=True))
    for k, letter in enumerate(letters):
        for name, weight in stacked.items():
            values.update(zip(field.parameters[name + letter], weight.chunk(len(letters))[k].flatten().tolist(), strict=True))
    for name, bias in biases.items():
        values.update(zip(field.parameters[name], bias.tolist(), strict=True))
    return {letter: Float(value, 20) for letter, value in values.items()}


def assert_close(written, values, expected):
    for ours, their in zip(written, expected.tolist(), strict=True):
        assert abs(ours.xreplace(values) - their) < 1e-14  # rounding of torch's sums


def test_the_twins_unit_euler_step_and_the_written_cell_are_the_gru_of_torch():
    theirs, field = torch.nn.GRUCell(1, 2), fields.gru()
    x, h = torch.randn(1), torch.randn(2)
    r, z, n = theirs.bias_ih.chunk(3)
    hr, hz, hn = theirs.bias_hh.chunk(3)
    biases = {"b_r": r + hr, "b_z": z + hz, "b_n": n, "b_hn": hn}
    values = values_from(field, "rzn", {"W_x": theirs.weight_ih, "W_h": theirs.weight_hh}, biases, [x, h])
    assert_close(euler_step(field), values, theirs(x, h))
    assert_close([cell(field, i) for i in range(2)], values, theirs(x, h))


def test_the_twins_unit_euler_step_is_the_lstm_of_torch():
    theirs, field = torch.nn.LSTMCell(1, 2), fields.lstm()
    x, h, c = torch.randn(1), torch.randn(2), torch.randn(2)
    stacked = {"W_x": theirs.weight_ih, "W_h": theirs.weight_hh, "b_": theirs.bias_ih + theirs.bias_hh}
    # torch's order is i, f, g, o; its g is the papers' tanh of c.
    assert_close(euler_step(field), values_from(field, "ifco", stacked, {}, [x, h, c]), torch.cat(theirs(x, (h, c))))


def test_the_visible_state_reads_the_new_cell_and_not_the_old_one():
    field = fields.lstm()
    stale = [e.xreplace({field.flow[2]: 0}) for e in field.flow]
    old = column(*(e.subs(field.parameters["b_c"][0], 0) for e in stale[:2]))
    assert check(Identity("stale", "this project", "No.", field.flow[:2, :], old)).holds is False
