"""torch's and ncps' own cells proved equal to their equations, one line each, for every width."""

import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from ncps.torch.cfc_cell import CfCCell
from ncps.torch.ltc_cell import LTCCell
from ncps.wirings import FullyConnected
from sympy import Dummy, MatrixSymbol, Sum, Symbol, exp, sin, tanh
from torch import nn

import derivations
from derivations import UnitEquations, symbolic, verify
from derivations.rules.rational import NotShown
from derivations.rules.replay import as_data, from_data, replay
from derivations.rules.terms import subterms
from derivations.tracing.blocks import Unwide
from derivations.tracing.wide import certificates_for_every_width

RNN = nn.RNNCell(2, 3)  # one for all tests, so that it is recorded once
CELLS = {
    "RNNCell": (RNN, derivations.rnn_cell()),
    "GRUCell": (nn.GRUCell(2, 2), derivations.gru_cell()),
    "LSTMCell": (nn.LSTMCell(2, 2), derivations.lstm_cell()),
    "CfC": (CfCCell(2, 2, backbone_units=2), derivations.cfc_cell()),
    "LTC": (LTCCell(FullyConnected(2, 2), 2, ode_unfolds=1), derivations.ltc_cell()),
}


@cache
def verdict_of(name):
    return verify(*CELLS[name])


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n != "RNNCell" else n for n in CELLS])
def test_a_cell_is_its_equations_for_every_width(name):
    verdict = verdict_of(name)
    assert verdict.holds is True, verdict.evidence
    assert "of every width" in verdict.evidence
    assert bool(verdict.defined_on) == (name == "LTC")  # whose denominator may be 0 for negative conductances
    if name in ("CfC", "LTC"):
        assert "the last part is the next state" in verdict.evidence


def test_a_proof_for_every_width_carries_a_certificate_of_the_unit_i():
    *of_units, of_unit_i = verdict_of("RNNCell").certificate
    assert [f"bias_hh[{k}]" in variables(c) for k, c in enumerate(of_units)] == [True] * 3
    sums = {"total(h(k_1)*weight_hh(i_0, k_1), n)", "total(weight_ih(i_0, k_1)*x(k_1), m)"}
    assert variables(of_unit_i) == {"bias_hh(i_0)", "bias_ih(i_0)", *sums}
    assert replay(from_data(json.loads(json.dumps(as_data(of_unit_i))))) == ()
    forged = json.loads(json.dumps(as_data(of_unit_i)).replace("h(k_1)*weight_hh(i_0, k_1)", "h(k_1)*weight_hh(k_1, i_0)", 1))
    with pytest.raises(NotShown):
        replay(from_data(forged))


def variables(certificate):
    return {part[1] for side in ("lhs", "rhs") for part in subterms(certificate[side]) if part[0] == "v"}


@pytest.mark.slow
def test_the_certificate_of_every_width_says_where_both_sides_are_defined():
    *_, certificate = (step for step in verdict_of("LTC").certificate if step["rule"] == "equal")
    ((relation, _),) = replay(certificate)
    assert relation == "!="
    assert any(name.startswith("total(") for name in variables(certificate))


def mutated(equations, change):
    return replace(equations, units={unit: change(rhs) for unit, rhs in equations.units.items()})


n, m, i = derivations.rnn_cell().inputs[1].shape[0], derivations.rnn_cell().inputs[0].shape[0], derivations.rnn_cell().index
WRONG = {
    "a sign": lambda rhs: -rhs,
    "a unit too far": lambda rhs: rhs.xreplace({i: n - 1 - i}),
    "the transpose": lambda rhs: rhs.replace(
        lambda e: isinstance(e, Sum) and "weight_hh" in str(e),
        lambda e: Sum(
            MatrixSymbol("weight_hh", n, n)[e.limits[0][0], i] * MatrixSymbol("h", n, 1)[e.limits[0][0], 0], e.limits[0]
        ),
    ),
    "one input too few": lambda rhs: rhs.replace(
        lambda e: isinstance(e, Sum) and "weight_ih" in str(e), lambda e: Sum(e.function, (e.limits[0][0], 0, m - 2))
    ),
    "another function": lambda rhs: rhs.replace(tanh, sin),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_equations_are_refuted_at_the_sizes_and_not_proved_for_all(name):
    wrong = mutated(derivations.rnn_cell(), WRONG[name])
    verdict = verify(RNN, wrong)
    assert verdict.holds is False
    assert verdict.replay().differs
    with pytest.raises(Unwide):
        certificates_for_every_width(RNN, wrong)


@pytest.mark.slow
def test_gates_in_another_order_are_refuted():
    shifted = mutated(
        derivations.gru_cell(),
        lambda rhs: rhs.xreplace({MatrixSymbol("bias_ih", 3 * n, 1)[i, 0]: MatrixSymbol("bias_ih", 3 * n, 1)[n + i, 0]}),
    )
    assert verify(nn.GRUCell(1, 2), shifted).holds is False
    with pytest.raises(Unwide):
        certificates_for_every_width(nn.GRUCell(1, 2), shifted)


class Own(nn.Module):
    def __init__(self, sizes, code):
        super().__init__()
        self.input_size, self.hidden_size = sizes
        self.code = code
        self.W = nn.Parameter(torch.randn(sizes[1], sizes[0] + sizes[1]))
        self.b = nn.Parameter(torch.randn(sizes[1]))

    def forward(self, x, h):
        return self.code(self, x, h)


def own_equations(change=lambda e: e):
    h, x, b, W = MatrixSymbol("h", n, 1), MatrixSymbol("x", m, 1), MatrixSymbol("b", n, 1), MatrixSymbol("W", n, n + m)
    j = Dummy("j")
    inner = Sum(W[i, j] * h[j, 0], (j, 0, n - 1)) + Sum(W[i, n + j] * x[j, 0], (j, 0, m - 1)) + b[i, 0]
    return UnitEquations({h: change(1 / (1 + exp(-inner)))}, i, (x, h))


@pytest.mark.slow
def test_your_own_cell_of_any_width_reads_concatenated_parts():
    own = Own((2, 3), lambda self, x, h: torch.sigmoid(torch.cat([h, x], -1) @ self.W.T + self.b))
    verdict = verify(own, own_equations())
    assert verdict
    assert "of every width" in verdict.evidence
    halved = verify(own, own_equations(lambda e: e / 2))
    assert halved.holds is False


def test_code_that_depends_on_its_width_is_proved_at_its_sizes_only():
    own = Own(
        (2, 3),
        lambda self, x, h: torch.sigmoid(torch.cat([h, x], -1) @ self.W.T + self.b) * (1 if self.W.shape[0] < 10**6 else 2),
    )
    verdict = verify(own, own_equations())
    assert verdict
    assert "sizes only" in verdict.evidence


def test_a_width_that_is_an_attribute_is_unknown_too():
    own = Own((2, 3), lambda self, x, h: h * self.hidden_size)
    h, x = MatrixSymbol("h", n, 1), MatrixSymbol("x", m, 1)
    unread = (MatrixSymbol("W", n, n + m), MatrixSymbol("b", n, 1))
    assert "sizes only" in verify(own, UnitEquations({h: 3 * h[i, 0]}, i, (x, h), unread)).evidence
    assert "of every width" in verify(own, UnitEquations({h: n * h[i, 0]}, i, (x, h), unread)).evidence


class Scaled(torch.nn.Module):
    """k h + w h, with a number k made in `__init__`."""

    def __init__(self, input_size, hidden_size, scale=0.5):
        super().__init__()
        self.input_size, self.hidden_size, self.k = input_size, hidden_size, scale
        self.w = torch.nn.Parameter(torch.rand(hidden_size))

    def forward(self, x, h):
        return self.k * h + self.w * h


class ScaledByWidth(Scaled):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, 1 / hidden_size)


class OtherwiseIfLarge(Scaled):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, 0.5 if hidden_size < 100 else 2.0)


class SizesOfItsOwn(Scaled):
    """Takes its widths by other names, which its shapes tell, and a number of which no attribute tells."""

    def __init__(self, inputs, units, leak):
        super().__init__(inputs, units, leak)


class OneSize(Scaled):
    def __init__(self):
        super().__init__(1, 2, 1 / 2)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Scaled(1, 2), "for weights of every width from 2 on"),
        (ScaledByWidth(1, 2), "at the module's sizes only: made with 2 inputs and 5 units, its code has other numbers: "
         "k = 0.2 in place of 0.5"),
        (OtherwiseIfLarge(1, 2), "made with 2 inputs and 257 units, its code has other numbers: k = 2 in place of 0.5"),
        (OneSize(), "for weights of every width from 2 on, with the numbers of this module (k = 0.5), whose class was not made "
         "at another width"),
        (SizesOfItsOwn(1, 2, 0.5), "with the numbers of this module (k = 0.5)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)  # fmt: skip
def test_a_number_that_was_made_from_the_width_is_seen_when_the_class_is_made_at_another(module, words):
    h, x, w = MatrixSymbol("h", n, 1), MatrixSymbol("x", m, 1), MatrixSymbol("w", n, 1)
    verdict = verify(module, UnitEquations({h: h[i, 0] / 2 + w[i, 0] * h[i, 0]}, i, (x, h)))
    assert verdict
    assert words in verdict.evidence
    assert "made with" not in verdict.evidence or "every width" not in verdict.evidence


def test_a_number_made_from_the_width_that_vanishes_at_the_modules_own_is_seen_too():
    class ByOneLess(Scaled):
        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size, hidden_size - 1)

    h, x, w = MatrixSymbol("h", n, 1), MatrixSymbol("x", m, 1), MatrixSymbol("w", n, 1)
    verdict = verify(ByOneLess(1, 2), UnitEquations({h: h[i, 0] + w[i, 0] * h[i, 0]}, i, (x, h)))
    assert "at the module's sizes only: made with 2 inputs and 5 units, its code has other numbers: k = 4 in" in verdict.evidence


def test_a_mean_over_units_is_a_sum_divided_by_their_number():
    own = Own((2, 3), lambda self, x, h: h - h.mean(-1, keepdim=True))
    h, x = MatrixSymbol("h", n, 1), MatrixSymbol("x", m, 1)
    j = Dummy("j")
    unread = (MatrixSymbol("W", n, n + m), MatrixSymbol("b", n, 1))
    verdict = verify(own, UnitEquations({h: h[i, 0] - Sum(h[j, 0], (j, 0, n - 1)) / n}, i, (x, h), unread))
    assert verdict
    assert "of every width" in verdict.evidence
    assert not verify(own, UnitEquations({h: h[i, 0] - Sum(h[j, 0], (j, 0, n - 1)) / 3 + (n - 3) + h[i, 0]}, i, (x, h), unread))
    only_three = verify(own, UnitEquations({h: h[i, 0] - Sum(h[j, 0], (j, 0, n - 1)) / 3}, i, (x, h), unread))
    assert only_three
    assert "sizes only" in only_three.evidence


def opposite(self, x, h):
    return torch.cat([torch.cat([h, x], -1)[:, None], torch.cat([x, h], -1)[:, None]], 1).sum(1)[:, : self.hidden_size]


AT_SIZES = {
    "a factor that is 1": (
        2,
        3,
        lambda self, x, h: torch.addmm(h, x, self.W[:, self.hidden_size :].T, alpha=self.hidden_size - 2),
    ),
    "every other of two": (1, 1, lambda self, x, h: torch.cat([h, h], -1)[:, ::2]),
    "inputs and states of one number": (2, 2, opposite),
}


@pytest.mark.parametrize("name", AT_SIZES)
def test_what_is_so_at_some_sizes_is_not_read_as_so_at_all(name):
    inputs, units, code = AT_SIZES[name]
    with pytest.raises(Unwide, match=r"factors|steps of 2|cut otherwise"):
        certificates_for_every_width(Own((inputs, units), code), own_equations())


def opposite_if(condition):
    return lambda self, x, h: (
        (1 if condition(self, h) else -1) * torch.sigmoid(torch.cat([h, x], -1) @ self.W.T + self.b)
    )  # fmt: skip


@pytest.mark.parametrize("condition", [
    lambda self, h: not (isinstance(h.shape[-1], int) and h.shape[-1] == 7),
    lambda self, h: not (type(self.W.shape[1]) is int and self.W.shape[1] > 40),
])  # fmt: skip
def test_code_that_asks_whether_a_size_is_a_number_is_proved_at_its_sizes_only(condition):
    verdict = verify(Own((2, 3), opposite_if(condition)), own_equations())
    assert verdict
    assert "the code does otherwise" in verdict.evidence


def test_parameters_of_other_shapes_than_in_the_equations_are_refused():
    with pytest.raises(ValueError, match="other shapes"):
        verify(nn.GRUCell(2, 3), derivations.lstm_cell())


def test_weights_that_a_module_also_keeps_in_a_dict_are_letters_everywhere():
    system = symbolic(LTCCell(FullyConnected(1, 1), 1, ode_unfolds=1))
    assert Symbol("cm[0]", real=True) in system.flow.free_symbols
    assert not system.flow.atoms(Symbol) <= {*system.state, *system.inputs}


def test_a_parameter_that_code_asks_torch_for_is_its_letter():
    class Asked(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_size, self.hidden_size, self.k = 1, 1, nn.Parameter(torch.tensor([2.0]))

        def forward(self, x, h):
            return self.get_parameter("k") * h + x  # refuses what is no nn.Parameter

    system = symbolic(Asked(), field=False)
    (h,), (x,) = system.state, system.inputs
    assert verify(Asked(), [Symbol("k[0]") * h + x], field=False)
    assert verify(Asked(), [2 * h + x], field=False).holds is False
