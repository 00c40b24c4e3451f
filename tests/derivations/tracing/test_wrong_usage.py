"""What does not fit is refused at the entrance, in words; unusual modules that are what they seem are read."""

import pytest
import sympy
import torch
from sympy import Symbol, symbols
from torch import nn
from torch.nn.utils import parametrizations, prune

import derivations
from derivations import symbolic, verify, verify_gradient

h = symbols("h_1:3", real=True)


class Cell(nn.Module):
    def __init__(self, code, **parts):
        super().__init__()
        self.input_size, self.hidden_size, self.code = 2, 2, code
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, h):
        return self.code(self, x, h)


same = Cell(lambda self, x, h: h)


class Keyword(Cell):
    def forward(self, x, *, h):
        return h


class Scripted(nn.Module):
    def forward(self, x, h):
        return h


def no_gradients(self, x, h):
    with torch.no_grad():
        part = h * h
    return part + h


def numbers_taken_out(self, x, h):
    return h * float(h.detach().numpy().sum())


def raising(self, x, h):
    raise KeyError("gone")


class Compiled(Cell):
    def __init__(self):
        super().__init__(lambda self, x, h: self.part(h), part=torch.compile(nn.Linear(2, 2)))


def two_states(self, x, h):
    a, b = h
    return a + x, b


REFUSED = {
    "a state of two tensors": (lambda: symbolic(Cell(two_states)), ValueError, r"say so: widths=\{'x': 2, 'h': \(2, 2\)\}"),
    "a compiled part": (lambda: verify(Compiled(), h), ValueError, "`part` is compiled by torch.compile; prove"),
    "a class": (lambda: verify(nn.RNNCell, h), TypeError, "must be a torch.nn.Module, got the class RNNCell; make one, `RNNCell"),
    "no module, and equations for each unit": (lambda: verify(3, derivations.rnn_cell()), TypeError, "must be a torch.nn.Module"),
    "no module, and its gradient": (lambda: verify_gradient(3), TypeError, "must be a torch.nn.Module"),
    "torch.jit": (lambda: verify(torch.jit.script(Scripted()), h), TypeError, "compiled by torch.jit"),
    "None for equations": (lambda: verify(same, None), TypeError, "must be SymPy's, a list or a dict of them"),
    "a string for equations": (lambda: verify(same, "h_1, h_2"), TypeError, "must be SymPy's"),
    "strings among equations": (lambda: verify(same, ["__import__('os')", h[1]]), ValueError, "no equation between real"),
    "strings in a dict": (lambda: verify(same, {h[0]: "h_1", h[1]: h[1]}), ValueError, "no equation between real"),
    "nan": (lambda: verify(same, [sympy.nan, h[1]]), ValueError, "no equation between real"),
    "an infinity": (lambda: verify(same, [sympy.oo, h[1]]), ValueError, "no equation between real"),
    "an inequality": (lambda: verify(same, [h[0] > 0, h[1]]), ValueError, "no equation between real"),
    "a matrix for a unit": (lambda: verify(same, [sympy.Matrix(h), h[1]]), ValueError, "no equation between real"),
    "letters in a list": (lambda: verify(same, h, ["h_1"]), TypeError, "must be a dict"),
    "letters to code": (lambda: verify(same, h, {"a": "__import__('os')"}), ValueError, "no equation between real"),
    "no units": (lambda: verify(same, [], widths={"x": 2, "h": 0}), ValueError, "a number from 1 on"),
    "widths that nothing says": (lambda: verify(nn.Bilinear(2, 3, 3), h), ValueError, "keep them as its attributes `input_size`"),
    "widths in a list": (lambda: verify(same, h, widths=[2, 2]), ValueError, "`widths` must be as"),
    "widths of others": (lambda: verify(same, h, widths={"h": 2, "x": 3}), ValueError, "is called with x, h"),
    "widths of one": (lambda: verify(same, h, widths={"x": 2}), ValueError, "is called with x, h"),
    "a state by keyword only": (lambda: verify(Keyword(None), h, widths={"x": 2, "h": 2}), ValueError, "is called with x, h"),
    "numbers taken out of torch": (lambda: verify(Cell(numbers_taken_out), h), ValueError, "cannot record.*test_wrong_usage"),
    "code that raises": (lambda: verify(Cell(raising), h), ValueError, r"raises KeyError .*test_wrong_usage.*gone"),
    "sizes that nothing tells": (lambda: verify(nn.Linear(2, 2), derivations.rnn_cell()), ValueError, "tells the size"),
    "letters for each unit": (
        lambda: verify(nn.RNNCell(1, 2), derivations.rnn_cell(), {"h_1": "h_2"}),
        ValueError,
        "in the module's own names",
    ),
    "a field for each unit": (
        lambda: verify(nn.RNNCell(1, 2), derivations.rnn_cell(), field=True),
        ValueError,
        "in the module's own names",
    ),
}


@pytest.mark.by_default(9)
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_words(name):
    asked, error, words = REFUSED[name]
    with pytest.raises(error, match=f"(?s){words}"):
        asked()


def test_gradients_turned_off_change_no_equation_but_the_gradient_is_not_its_derivative():
    cell = Cell(no_gradients)
    assert verify(cell, [u * u + u for u in h])
    assert verify_gradient(cell).holds is False


def test_a_compiled_module_is_read_as_it_was_written_and_a_state_of_two_tensors_by_its_widths():
    assert verify(torch.compile(same), h)
    doubled = Cell(lambda self, x, h: 2 * h)
    doubled.compile()
    assert verify(doubled, [2 * u for u in h])
    assert len(symbolic(Cell(two_states), widths={"x": 2, "h": (2, 2)})) == 4


def test_buffers_without_values_are_refused():
    cell = Cell(lambda self, x, h: h * self.b)
    cell.register_buffer("b", torch.ones(2, device="meta"))
    cell.w = nn.Parameter(torch.ones(2, device="meta"))
    with pytest.raises(ValueError, match="buffers on the meta device"):
        symbolic(cell)


def test_weights_without_values_are_read_and_it_is_said_that_nothing_was_run():
    meta = nn.RNNCell(1, 1, device="meta")
    verdict = verify(meta, symbolic(nn.RNNCell(1, 1)))
    assert verdict
    assert "not run" in verdict.evidence
    assert (
        "not run" in verify_gradient(Cell(lambda self, x, h: h * self.w, w=nn.Parameter(torch.ones(2, device="meta")))).evidence
    )


def test_letters_may_be_given_by_their_names():
    assert verify(same, [Symbol("a"), h[1]], {"a": "h_1"})


def test_pruned_weights_are_0_where_they_are_pruned():
    linear = prune.custom_from_mask(nn.Linear(2, 2, bias=False), "weight", torch.tensor([[1, 0], [0, 1]]))
    letter = symbols("a b", real=True)
    cell = Cell(lambda self, x, h: self.part(h), part=linear)
    to = dict(zip(letter, (Symbol(f"part.weight_orig[{k},{k}]", real=True) for k in range(2)), strict=True))
    assert verify(cell, [letter[0] * h[0], letter[1] * h[1]], to)


def test_a_normed_weight_is_its_direction_times_its_size():
    cell = Cell(lambda self, x, h: self.part(h), part=parametrizations.weight_norm(nn.Linear(2, 2, bias=False)))
    names = [f"part.parametrizations.weight.original{k}" for k in (0, 1)]
    size = [Symbol(f"{names[0]}[{i},0]", real=True) for i in range(2)]
    v = [[Symbol(f"{names[1]}[{i},{j}]", real=True) for j in range(2)] for i in range(2)]
    equations = [g * (a * h[0] + b * h[1]) / sympy.sqrt(a**2 + b**2) for g, (a, b) in zip(size, v, strict=True)]
    assert verify(cell, equations)


def test_a_part_used_twice_has_one_set_of_letters_and_hooks_act_in_their_order():
    part = nn.Linear(2, 2, bias=False)
    cell = Cell(lambda self, x, h: self.b(self.a(h)), a=part, b=part)
    cell.register_forward_hook(lambda *given: given[-1] + 1)
    cell.register_forward_hook(lambda *given: 2 * given[-1])
    weight = sympy.Matrix(2, 2, [Symbol(f"a.weight[{i},{j}]", real=True) for i in range(2) for j in range(2)])
    assert verify(cell, 2 * (weight * weight * sympy.Matrix(h)) + 2 * sympy.ones(2, 1))
