"""The twins of the named fields: the papers' equations are those that the fields show, and how twins are asked for."""

import numpy as np
import pytest
from sympy import Derivative, Eq, ImmutableDenseMatrix, Integer, Symbol, log, tanh

import ctrnn
from derivations.prover import symbols
from derivations.prover.identity import Identity
from derivations.twins import fields
from derivations.twins.written import Equations, columns

NETWORK = {"Wnx": "V_x", "Wnh": "V_h", "bn": "v"}
OF_GRU = {"Wx": "W_xn", "Wh": "W_hn", "b": "b_n", "bh": "b_hn", "Wrx": "W_xr", "Wrh": "W_hr", "br": "b_r"}
SQUARE = {"decay": ctrnn.PowerDecay(2.0)}, {"decay": fields.power_decay(Integer(2))}
# A field, the paper's equations, and which of their letters are those that the field shows, where their names do not tell.
PAPERS = {
    "plain": (ctrnn.plain(1, 2), fields.plain(), {}),
    "leaky": (ctrnn.leaky(1, 2), fields.leaky(), {}),
    "leaky, |h|^2 h": (ctrnn.leaky(1, 2, **SQUARE[0]), fields.leaky(**SQUARE[1]), {}),
    "gated": (ctrnn.gated(1, 2), fields.gated(), {}),
    "gated, |h|^2 h": (ctrnn.gated(1, 2, **SQUARE[0]), fields.gated(**SQUARE[1]), {}),
    "gated, global": (ctrnn.gated(1, 2, "global"), fields.gated(gate="global"), {"wgx": "W_gx", "wgh": "W_gh"}),
    "gated, network": (ctrnn.gated(1, 2, "network"), fields.gated(gate="network"), {"wgx": "W_gx", "wgh": "W_gh"} | NETWORK),
    "gated, softplus": (ctrnn.gated(1, 2, rate="softplus"), fields.gated(rate="softplus"), {}),
    "gated, exponential": (ctrnn.gated(1, 2, rate="exponential"), fields.gated(rate="exponential"), {}),
    # torch's z multiplies the old state, ctrnn's rate is 1 - z: all signs turn.
    "gru": (ctrnn.gru(1, 2), fields.gru(), OF_GRU | {"Wgx": "-W_xz", "Wgh": "-W_hz", "bg": "-b_z"}),
    # torch's g is the papers' tanh(W_xc x + W_hc h + b_c); the rows of its weights are i, f, g, o.
    "lstm": (ctrnn.lstm(1, 2), fields.lstm(), {"Wx": "W_x", "Wh": "W_h", "b": "b_"}),
    "lstm, |c|^2 c": (ctrnn.lstm(1, 2, **SQUARE[0]), fields.lstm(**SQUARE[1]), {"Wx": "W_x", "Wh": "W_h", "b": "b_"}),
    "glnn": (ctrnn.glnn(2, 2), fields.glnn(), {}),
}


def letters_of(twin, renamed):
    """The arrays of the twin's parameters, by the letters that the field shows."""

    def array(name):
        matrix = twin.parameters[name]
        return columns(matrix) if name.startswith(("b", "v", "t_")) else columns(matrix).reshape(matrix.shape)

    found = {name.replace("_", ""): array(name) for name in twin.parameters}
    for letter, name in renamed.items():
        if twin.name == "lstm":
            found[letter] = np.concatenate([array(f"{name}{gate}") for gate in "ifco"])
        else:
            found[letter] = -array(name[1:]) if name.startswith("-") else array(name)
    if twin.name == "leaky":
        found["a"] = log(found.pop("alpha")[0, 0])
    if twin.name == "glnn":
        found |= {"W": np.stack([array("T_1"), array("T_2")]), "b": np.stack([array("t_1"), array("t_2")])}
    return found


def test_equations_of_the_papers_are_those_that_the_fields_show():
    for name, (field, twin, renamed) in PAPERS.items():
        states = [line.partition("/dt = ")[0][1:] for line in field.equations if "/dt = " in line]
        parts = dict(zip(states, np.split(columns(twin.state), len(states)), strict=True))
        shown = Equations("\n".join(field.equations), letters_of(twin, renamed) | {"x": columns(twin.inputs)} | parts)
        flow = ImmutableDenseMatrix([e for state in states for e in shown[f"d{state}/dt"]])
        assert Identity(name, "", "", twin.flow, flow).holds() is True, name


def test_a_field_of_one_unit_reads_like_the_paper():
    field = fields.plain(1, 1)
    (w,), (u,), (b,) = (field.parameters[name] for name in ("W_x", "W_h", "b"))
    (h,), (x,) = field.state, field.inputs
    assert field.flow[0] == tanh(w * x + u * h + b) - h
    assert list(field) == [Eq(Derivative(h, symbols.t), field.flow[0])]


def test_twins_have_the_sizes_that_were_asked_for():
    for make in (fields.plain, fields.leaky, fields.gated, fields.gru):
        assert len(make(2, 3)) == 3
        assert len(make(2, 3).inputs) == 2
    assert len(fields.lstm(2, 3)) == 6


def test_latex_has_a_line_for_each_unit_aligned_at_the_sign():
    lines = fields.lstm().latex().split("\\\\\n")
    assert len(lines) == 4
    assert all(line.count("&=") == 1 for line in lines)
    assert r"\tanh" in lines[0]
    assert "W_{xo,11}" in lines[0]


def test_every_letter_of_a_flow_is_a_parameter_and_the_other_way_round():
    for field in (fields.plain(), fields.leaky(), fields.gated(), fields.gated(gate="global"), fields.gru(), fields.lstm()):
        letters = {u for matrix in field.parameters.values() for u in matrix}
        assert field.flow.free_symbols - {symbols.t} == letters


def test_parameters_can_be_replaced_and_only_by_those_of_their_own_shape():
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
