"""The equations that fields, parts and paths show: computed as they are written they are the field, and their LaTeX is LaTeX."""

import re

import pytest
import torch
from matplotlib.mathtext import MathTextParser
from problems import Spiral
from torch import nn
from torch.nn.functional import layer_norm, softplus
from torch.testing import assert_close

import ctrnn
from ctrnn.cells.catalog import variants
from ctrnn.formulas import formula_of, in_latex

FUNCTIONS = {
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sigma": torch.sigmoid,
    "softplus": softplus,
    "relu": torch.relu,
    "abs": torch.abs,
    "norm": lambda a: layer_norm(a, a.shape),
}


def letters(field):
    """The numbers of the letters in a field's equations, a weight in brackets as the sum that it stands for."""
    formula, found = formula_of(field), {}
    for letter, weight in formula.letters.items():
        home, _, name = weight.path.rpartition(".")
        if isinstance(tensor := getattr(field.get_submodule(home), name), torch.Tensor):
            value = tensor.chunk(weight.blocks, weight.axis)[weight.block] if weight.blocks > 1 else tensor
            if re.search(rf"\b{letter}\(", formula.text):
                found[letter] = lambda x, *a, value=value: x @ (value @ a[0] if a else value)
            else:
                found[letter] = value
    return found


def computed(equations, known):
    """The right sides, each once what it is made of is known: products as they are written on paper."""
    waiting, known = [line.replace("h^g", "hg").replace("h1^g", "h1g").replace("h2^g", "h2g") for line in equations], dict(known)
    while waiting:
        names, right = waiting.pop().split(" = ")
        right = re.sub(r"\|(\w+)\|", r"abs(\1)", right).replace("^T", ".T").replace("^", "**")
        right = re.sub(r"([A-Zw]\w*) (?=[A-Za-z(])", r"\1 @ ", right)
        right = re.sub(r"(?<=[\w)]) (?=[A-Za-z(])", " * ", right)
        try:
            value = eval(right, {}, known | FUNCTIONS)
        except NameError:
            waiting.insert(0, f"{names} = {right}")
            continue
        several = names.split(", ")
        values = [value] if len(several) == 1 else value if isinstance(value, tuple) else value.chunk(len(several))
        known |= dict(zip(several, values, strict=True))
    return known


def randomized(field):
    for parameter in field.parameters():
        nn.init.normal_(parameter)
    return field


CELLS = {label: make for _, label, make in variants() if formula_of(make(2, 3)) is not None} | {
    "cornn, other constants": lambda *sizes: ctrnn.cornn(*sizes, 1.3, 0.4),
    "unicornn, another constant": lambda *sizes: ctrnn.unicornn(*sizes, 0.7),
    "fitzhugh-nagumo, a negative": lambda *sizes: ctrnn.fitzhugh_nagumo(*sizes, a=-0.7),
    "layers": lambda *sizes: ctrnn.gated(*sizes, num_layers=2),
    "layers with a network": lambda *sizes: ctrnn.gated(*sizes, "network", num_layers=2),
    "exponents learned": lambda *sizes: ctrnn.gru(*sizes, decay=ctrnn.PowerDecay(0.5, learnable=True)),
}


def test_most_cells_have_a_formula():
    assert len(CELLS) >= 30


@pytest.mark.parametrize("name", CELLS)
def test_the_equations_computed_as_they_are_written_are_the_field(name):
    field = randomized(CELLS[name](2, 3))
    x, state = torch.randn(2), torch.randn(field.state_size)
    names = [line.partition("/dt = ")[0][1:].replace("^g", "g") for line in field.equations if "/dt = " in line]
    parts = dict(zip(names, state.chunk(len(names)), strict=True))
    found = computed(field.equations, letters(field) | {"x": x, "I": torch.eye(3)} | parts)
    got = torch.cat([found[f"d{part}/dt"] for part in names])
    assert_close(got, field(x, state), rtol=0, atol=1e-12)  # sums in another order


def test_relu_layer_norm_missing_biases_and_fixed_rates_are_in_the_equations():
    candidate, rate = ctrnn.LayerNorm(ctrnn.ReluCandidate(2, 3, bias=False)), ctrnn.FixedRate(0.5)
    field = ctrnn.Relaxation(ctrnn.Dropout(candidate), rate, ctrnn.LinearDecay())
    assert field.equations == ("dh/dt = 0.5 (relu(gamma * norm(Wx x + Wh h) + beta) - h)",)
    x, h = torch.randn(2), torch.randn(3)
    found = computed(randomized(field).equations, letters(field) | {"x": x, "h": h})
    assert_close(found["dh/dt"], field(x, h), rtol=0, atol=1e-13)
    assert "bh" not in ctrnn.gru(2, 3, bias=False).equations[0]


def test_masks_of_dropout_are_in_the_equations_once_they_are_drawn():
    part = ctrnn.Dropout(ctrnn.TanhCandidate(2, 3), 0.5, 0.5)
    drawn = ctrnn.draw_masks(ctrnn.Relaxation(part, ctrnn.FixedRate(1.0), ctrnn.LinearDecay()), batch=1)
    x, h = torch.randn(1, 2), torch.randn(1, 3)
    known = {name: value[0] if name in ("mx", "mh") else value for name, value in letters(drawn).items()}
    found = computed(drawn.equations, known | {"x": x[0], "h": h[0]})
    assert_close(found["dh/dt"], drawn(x, h)[0], rtol=0, atol=1e-13)


def test_a_formula_of_what_is_not_there_is_refused_by_name():
    wrong = type("Wrong", (Named,), {"formula": "{cand}"})(2, 3)
    with pytest.raises(ValueError, match=r"the `formula` of Wrong names {cand}, which a Wrong has not"):
        formula_of(wrong)


def test_a_field_without_input_has_no_input_in_its_equations():
    assert ctrnn.plain(0, 2).equations == ("dh/dt = tanh(Wh h + b) - h",)
    assert ctrnn.gru(0, 2, bias=False).equations[0] == "dh/dt = g * (tanh(sigma(Wrh h) * (Wh h)) - h)"


def test_numbers_are_written_with_all_their_digits():
    field = ctrnn.Relaxation(ctrnn.TanhCandidate(0, 2), ctrnn.FixedRate(1 / 3), ctrnn.LinearDecay())
    assert field.equations == (f"dh/dt = {1 / 3!r} (tanh(Wh h + b) - h)",)
    assert ctrnn.leaky(0, 2, decay=ctrnn.PowerDecay(0.1)).equations[0].endswith("- |h|^0.1 h)")


PLACES = {
    "{a}^2 h": lambda a, h: a**2 * h,
    "h + {a}^2 h": lambda a, h: h + a**2 * h,
    "h - {a}^3": lambda a, h: h - a**3,
    "h {a} b": lambda a, h: a * h,
    "2 {a} {a} h": lambda a, h: 2 * a * a * h,
    "|h|^{a} h": lambda a, h: abs(h) ** a * h,
    "2^{a} h": lambda a, h: 2**a * h,
    "-{a} h": lambda a, h: -a * h,
    "h - {a} h * {a} h": lambda a, h: h - a * h * a * h,
    "{a} tanh(h)/{a}": lambda a, h: torch.tanh(h),
    "{a} (h + {a})": lambda a, h: a * (h + a),
}


@pytest.mark.parametrize("a", [-2.0, -0.5, 1.0, 0.25])
@pytest.mark.parametrize("place", PLACES)
def test_numbers_mean_in_every_place_what_their_letter_would(place, a):
    field = type("Numbers", (Named,), {"formula": f"dh/dt = {place}"})(0, 1)
    field.a, h = a, torch.tensor([0.7])
    found = computed(formula_of(field).text.splitlines(), {"h": h, "b": torch.ones(1)})["dh/dt"]
    assert_close(found, PLACES[place](a, h), rtol=0, atol=1e-14)


class Part(nn.Module):
    def __init__(self, formula):
        super().__init__()
        self.formula = formula


BESIDE = {
    "h - {p}": lambda p, h: h - p,
    "-{p}": lambda p, h: -p,
    "h * {p}": lambda p, h: h * p,
    "{p} * h": lambda p, h: p * h,
    "W {p}": lambda p, h: W @ p,
    "{p} h": lambda p, h: p * h,
    "h + {p}": lambda p, h: h + p,
    "h / {p}": lambda p, h: h / p,
    "{p}/2": lambda p, h: p / 2,
    "{p}^2 h": lambda p, h: p**2 * h,
    "|h|^{p} h": lambda p, h: abs(h) ** p * h,
    "{p} {p}": lambda p, h: p * p,
}
W = torch.tensor([[0.3, -1.1], [0.7, 0.4]], dtype=torch.float64)
MADE_OF = {
    "h - b": lambda h, b: h - b,
    "-h": lambda h, b: -h,
    "2 h": lambda h, b: 2 * h,
    "h * b": lambda h, b: h * b,
    "h/3": lambda h, b: h / 3,
    "h^3": lambda h, b: h**3,
    "tanh(h - b)": lambda h, b: torch.tanh(h - b),
    "(h - b) * (h + b)": lambda h, b: (h - b) * (h + b),
}


@pytest.mark.parametrize("formula", MADE_OF)
@pytest.mark.parametrize("place", BESIDE)
def test_the_formula_of_a_part_is_put_in_whole(place, formula):
    field = type("Whole", (Named,), {"formula": f"dh/dt = {place}"})(0, 1)
    field.p, h, b = Part(formula), torch.tensor([0.7, -0.4]), torch.tensor([0.2, 1.3])
    found = computed(formula_of(field).text.splitlines(), {"h": h, "b": b, "W": W})["dh/dt"]
    assert_close(found, BESIDE[place](MADE_OF[formula](h, b), h), rtol=0, atol=1e-14)
    field.q, field.formula = Part(place.replace("{p}", "p")), f"dh/dt = {{q:|p={formula}}}"
    found = computed(formula_of(field).text.splitlines(), {"h": h, "b": b, "W": W})["dh/dt"]
    assert_close(found, BESIDE[place](MADE_OF[formula](h, b), h), rtol=0, atol=1e-14)


def test_a_factor_of_1_is_not_written():
    assert ctrnn.cornn(2, 3, epsilon=0.5).equations == ("dh/dt = z", "dz/dt = tanh(W h + U z + V x + b) - h - 0.5 z")


def test_what_computes_something_else_is_shown_by_its_name_until_it_has_a_formula():
    def gate_of(rate):
        return ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), rate, ctrnn.LinearDecay()).equations[1]

    assert gate_of(Odd_Gate(2, 3)) == "g = Odd_Gate(x, h)"
    assert gate_of(Named(2, 3)) == "g = sin(Wgx x + Wgh h + bg)^2"
    assert Spiral().equations == ("dh/dt = Spiral(x, h)",)
    assert "dh/dt" not in repr(Spiral())
    assert repr(ctrnn.gated(1, 2)).splitlines()[1:4] == ["  1, 2", "  dh/dt = g * (tanh(Wx x + Wh h + b) - h)",
                                                         "  g = sigma(Wgx x + Wgh h + bg)"]  # fmt: skip


class Odd_Gate(ctrnn.GateRate):  # noqa: N801 - as a user may have it
    """Computes something else than what it is made from."""

    def function(self, argument):
        return torch.sin(argument) ** 2


class Named(Odd_Gate):
    formula = "sin(Wx x + Wh h + b)^2"


def test_the_gated_field_in_latex_is_the_page_of_the_paper():
    assert ctrnn.gated(1, 2, decay=ctrnn.PowerDecay(1.5))._repr_latex_().splitlines()[2:-1] == [
        r"\frac{dh}{dt} &= g \odot (\tanh(W_{x} x + W_{h} h + b) - |h|^{1.5} h) \\",
        r"g &= \sigma(W_{gx} x + W_{gh} h + b_{g}) \\",
        r"x &\in \mathbb{R}^{1}, \quad h \in \mathbb{R}^{2}",
    ]
    assert in_latex("g = Odd_Gate(x, h)") == r"g = \operatorname{Odd\_Gate}(x, h)"
    assert in_latex("y'' = h' - h1^g'") == "y'' = h' - {h_{1}^{g}}'"


def test_all_that_is_shown_can_be_typeset():
    told = set()
    for one in shown():
        lines = one._repr_latex_().splitlines()
        assert lines[:2] == ["$\\displaystyle", "\\begin{aligned}"], one
        told |= {line.removesuffix(chr(92) * 2).replace("&", "") for line in lines[2:-1]}
    for line in told:
        MathTextParser("path").parse(f"${line}$")


def test_paths_say_what_they_are_made_of():
    xs = torch.zeros(4, 2, 3)
    assert repr(ctrnn.HeldPath(xs)) == "HeldPath(xs (4, 2, 3), on [0, 4])"
    warped = ctrnn.WarpedPath(ctrnn.LinearPath(xs), ctrnn.AffineWarp(0.5))
    assert repr(warped) == "WarpedPath(LinearPath(xs (4, 2, 3), on [0, 3]), AffineWarp(speed=0.5, offset=0), on [0, 6])"
    assert warped._repr_latex_().splitlines()[3] == r"y(t) &= x(c(t)), \quad c = \text{AffineWarp(speed=0.5, offset=0)} \\"


def shown():
    fields = [*(make(2, 3) for make in CELLS.values()), Spiral(), ctrnn.NetworkField(nn.Tanh(), 2)]
    fields += [
        ctrnn.ControlledField(lambda h: h, 2, 3),
        ctrnn.gated(2, 3, "network", num_layers=2),
        ctrnn.lstm(2, 3, num_layers=2),
    ]
    xs, own = torch.randn(4, 2, 3), torch.arange(5.0)[:, None] + torch.tensor([0.0, 1.0])
    held, line = ctrnn.HeldPath(xs), ctrnn.LinearPath(xs)
    paths = [held, line, ctrnn.HermitePath(xs), ctrnn.HeldPath(xs, own), ctrnn.TimePath((0, 1)), ctrnn.DerivativePath(line)]
    paths += [ctrnn.WarpedPath(ctrnn.DerivativePath(line), ctrnn.AffineWarp(2.0)), ctrnn.AffineWarp(2.0).speed]
    paths += [ctrnn.FunctionPath(lambda t: t.reshape(1, 1), (0.0, 2.0), 1), ctrnn.LinearPath(xs).map(torch.tanh)]
    return [*fields, *paths]


def test_a_formula_that_a_field_of_ones_own_has_from_its_constructor_is_printed():
    class Mine(ctrnn.VectorField):
        def __init__(self, power):
            super().__init__(2, 2)
            self.formula = f"dh/dt = x - h^{power}"

        def flow(self, x, h):
            return x - h**3

    assert "\n  dh/dt = x - h^3\n" in str(Mine(3))
