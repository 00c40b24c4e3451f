"""The LSTM's twin beside torch's own cell."""

import torch
from sympy import Float

from derivations import Identity, check, euler_step
from derivations.prover.identity import column
from derivations.twins import fields


def test_the_twin_s_unit_euler_step_is_torch_s_lstm():
    theirs, field = torch.nn.LSTMCell(1, 2), fields.lstm()
    x, h, c = torch.randn(1), torch.randn(2), torch.randn(2)
    values = dict(zip([*field.inputs, *field.state], [*x.tolist(), *h.tolist(), *c.tolist()], strict=True))
    biases = theirs.bias_ih + theirs.bias_hh
    for k, letter in enumerate("ifco"):  # torch's order i, f, g, o; its g is the papers' tanh of c
        for name, stacked in {"W_x": theirs.weight_ih, "W_h": theirs.weight_hh, "b_": biases}.items():
            values.update(zip(field.parameters[name + letter], stacked.chunk(4)[k].flatten().tolist(), strict=True))
    values = {letter: Float(value, 20) for letter, value in values.items()}
    expected = torch.cat(theirs(x, (h, c))).tolist()
    for ours, their in zip(euler_step(field), expected, strict=True):
        assert abs(ours.xreplace(values) - their) < 1e-14


def test_the_visible_state_reads_the_new_cell_and_not_the_old_one():
    field = fields.lstm()
    stale = [e.xreplace({field.flow[2]: 0}) for e in field.flow]
    old = column(*(e.subs(field.parameters["b_c"][0], 0) for e in stale[:2]))
    assert check(Identity("stale", "this project", "No.", field.flow[:2, :], old)).holds is False
