"""The GRU's equations as torch prints them, evaluated beside torch's own cell."""

import torch
from sympy import Float

from derivations import euler_step
from derivations.argument.gru import cell
from derivations.twins import fields


def values_from(theirs, field, x, h):
    """Numbers for the twin's letters, from torch's stacked r, z, n weights."""
    stacked = {"W_x": theirs.weight_ih, "W_h": theirs.weight_hh}
    values = dict(zip([*field.inputs, *field.state], [*x.tolist(), *h.tolist()], strict=True))
    for k, letter in enumerate("rzn"):
        for name, weight in stacked.items():
            values.update(zip(field.parameters[name + letter], weight.chunk(3)[k].flatten().tolist(), strict=True))
    r, z, n = theirs.bias_ih.chunk(3)
    hr, hz, hn = theirs.bias_hh.chunk(3)
    for name, bias in {"b_r": r + hr, "b_z": z + hz, "b_n": n, "b_hn": hn}.items():
        values.update(zip(field.parameters[name], bias.tolist(), strict=True))
    return {letter: Float(value, 20) for letter, value in values.items()}


def test_the_twin_s_unit_euler_step_and_the_written_cell_are_torch_s_gru():
    theirs, field = torch.nn.GRUCell(1, 2), fields.gru()
    x, h = torch.randn(1), torch.randn(2)
    values = values_from(theirs, field, x, h)
    expected = theirs(x, h).tolist()
    for i, step in enumerate(euler_step(field)):
        assert abs(step.xreplace(values) - expected[i]) < 1e-14  # rounding of torch's sums
        assert abs(cell(field, i).xreplace(values) - expected[i]) < 1e-14
