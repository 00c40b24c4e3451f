"""The twins of the named fields, and how they are asked for."""

import pytest
from sympy import Derivative, Eq, ImmutableDenseMatrix, Symbol, tanh

from derivations.prover import symbols
from derivations.twins import fields


def test_a_field_of_one_unit_reads_like_the_paper():
    field = fields.plain(1, 1)
    (w,), (u,), (b,) = (field.parameters[name] for name in ("W_x", "W_h", "b"))
    (h,), (x,) = field.state, field.inputs
    assert field.flow[0] == tanh(w * x + u * h + b) - h
    assert list(field) == [Eq(Derivative(h, symbols.t), field.flow[0])]


def test_sizes_are_as_asked():
    for make in (fields.plain, fields.leaky, fields.gated, fields.gru):
        assert len(make(2, 3)) == 3
        assert len(make(2, 3).inputs) == 2
    assert len(fields.lstm(2, 3)) == 6


def test_every_letter_of_a_flow_is_a_parameter_and_the_other_way_round():
    for field in (fields.plain(), fields.leaky(), fields.gated(), fields.gated(gate="global"), fields.gru(), fields.lstm()):
        letters = {u for matrix in field.parameters.values() for u in matrix}
        assert field.flow.free_symbols - {symbols.t} == letters


def test_parameters_can_be_replaced_and_only_by_their_own_shape():
    field = fields.leaky()
    beta = Symbol("beta", positive=True)
    assert field.substitute(alpha=beta).flow == field.flow.xreplace({symbols.alpha: beta})
    with pytest.raises(ValueError, match="has the parameters"):
        field.substitute(gamma=beta)
    with pytest.raises(ValueError, match="shape"):
        field.substitute(W_h=ImmutableDenseMatrix([1, 2]))


def test_an_unknown_gate_is_refused():
    with pytest.raises(ValueError, match="'unit', 'global'"):
        fields.gated(gate="each")


def test_latex_has_a_line_for_each_unit_aligned_at_the_sign():
    lines = fields.lstm().latex().split("\\\\\n")
    assert len(lines) == 4
    assert all(line.count("&=") == 1 for line in lines)
    assert r"\tanh" in lines[0]
    assert "W_{xo,11}" in lines[0]
