"""The equations that fields, parts and paths show: computed as they are written they are the field, and their LaTeX is LaTeX."""

import re

import torch
from cases import each
from matplotlib.mathtext import MathTextParser
from problems import NAMED_FIELDS, Spiral
from torch import nn
from torch.nn.functional import layer_norm, softplus
from torch.testing import assert_close

import ctrnn
from ctrnn.formulas import in_latex

FUNCTIONS = {
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sigma": torch.sigmoid,
    "softplus": softplus,
    "relu": torch.relu,
    "abs": torch.abs,
    "norm": lambda a: layer_norm(a, a.shape),
}


def weights(affine, index=""):
    W = "w" if affine.projected_size == 1 else "W"
    named = {"x": affine.weight_x, "h": affine.weight_h}
    return {f"{W}{index}{name}": weight for name, weight in named.items()} | {f"b{index}": affine.bias}


def letters(field):
    """The letters of a field's equations, by the papers' names for its weights."""
    if isinstance(field, ctrnn.LSTMField):
        return weights(field.gates)
    candidate, rate = field.candidate, field.rate
    found = {}
    if isinstance(candidate, ctrnn.ResetCandidate):
        found |= weights(candidate.pull) | weights(candidate.reset, "r") | {"bh": candidate.bias_h}
    else:
        found |= weights(candidate)
    if hasattr(rate, "weight_x"):
        found |= weights(rate, "g")
    elif hasattr(rate, "log_alpha"):
        found |= {"a": rate.log_alpha}
    if isinstance(field, ctrnn.NetworkGated):
        found |= weights(field.network.candidate, "n")
    return found


def computed(equations, known):
    """The right sides, the last first, for those above it are made of them: products as they are written on paper."""
    for line in reversed(equations):
        names, right = line.replace("h^g", "hg").split(" = ")
        right = re.sub(r"\|(\w+)\|", r"abs(\1)", right).replace("^T", ".T").replace("^", "**")
        right = re.sub(r"([A-Zw]\w*) (?=[A-Za-z(])", r"\1 @ ", right)
        right = re.sub(r"(?<=[\w)]) (?=[A-Za-z(])", " * ", right)
        value = eval(right, {}, known | FUNCTIONS)
        several = names.split(", ")
        values = [value] if len(several) == 1 else value if isinstance(value, tuple) else value.chunk(len(several))
        known |= dict(zip(several, values, strict=True))
    return known


def randomized(field):
    for parameter in field.parameters():
        nn.init.normal_(parameter)
    return field


@each("name", NAMED_FIELDS)
def test_the_equations_computed_as_they_are_written_are_the_field(name):
    field = randomized(NAMED_FIELDS[name](2, 3))
    x, state = torch.randn(2), torch.randn(field.state_size)
    known = letters(field) | {"x": x, "h": state[:3], "c": state[3:], "hg": state[3:]}
    found = computed(field.equations, known)
    parts = [found[name] for name in ("dh/dt", "dc/dt", "dhg/dt") if name in found]
    assert_close(torch.cat(parts), field(x, state), rtol=0, atol=1e-13)  # the same sums in another order


def gated_weights(part):
    return {"W": lambda x, a: torch.einsum("x,xji,i->j", x, part.weight, a), "b": lambda x: x @ part.bias}


PUBLISHED = {  # the second state's letter, if there is one, and those of the weights
    "mgu": (ctrnn.mgu, "", lambda f: weights(f.candidate) | weights(f.rate, "f")),
    "antisymmetric": (ctrnn.antisymmetric, "", lambda f: {"W": f.weight_h, "V": f.weight_x, "b": f.bias, "I": torch.eye(3)}),
    "gated antisymmetric": (
        lambda *sizes: ctrnn.antisymmetric(*sizes, 0.3, gated=True),
        "",
        lambda f: (
            {"W": f.weight_h, "I": torch.eye(3)}
            | dict(zip(("V", "Vg"), f.weight_x.chunk(2), strict=True))
            | dict(zip(("b", "bg"), f.bias.chunk(2), strict=True))
        ),
    ),
    "cornn": (
        lambda *sizes: ctrnn.cornn(*sizes, 1.3, 0.4),
        "z",
        lambda f: {"W": f.force.weight_h[:, :3], "U": f.force.weight_h[:, 3:], "V": f.force.weight_x, "b": f.force.bias},
    ),
    "unicornn": (
        lambda *sizes: ctrnn.unicornn(*sizes, 0.7),
        "z",
        lambda f: {"V": f.weight_x, "w": f.weight_h, "b": f.bias, "c": f.c},
    ),
    "lem": (ctrnn.lem, "z", lambda f: weights(f.candidate) | weights(f.gates, "g")),
    "fitzhugh-nagumo": (lambda *sizes: ctrnn.fitzhugh_nagumo(*sizes, a=-0.7), "w", lambda f: weights(f.current)),
    "adaptive": (ctrnn.adaptive, "a", lambda f: weights(f.drive) | {"au": f.rate.log_alpha, "av": f.adaptation.log_alpha}),
    "glnn": (ctrnn.glnn, "", lambda f: gated_weights(f.incoming)),
    "gnn": (lambda *sizes: ctrnn.gnn(*sizes, activation="logistic"), "", lambda f: gated_weights(f.candidate)),
    "rhn": (ctrnn.rhn, "", lambda f: weights(f.layers[0], "1") | weights(f.layers[1], "2") | weights(f.layers[2], "3")),
}


@each("name", PUBLISHED)
def test_the_equations_of_published_cells_computed_are_the_field(name):
    make, second, letters = PUBLISHED[name]
    field = randomized(make(2, 3))
    x, state = torch.randn(2), torch.randn(field.state_size)
    found = computed(field.equations, letters(field) | {"x": x, "h": state[:3], second: state[3:]})
    parts = [found["dh/dt"], *([found[f"d{second}/dt"]] if second else [])]
    assert_close(torch.cat(parts), field(x, state), rtol=0, atol=1e-12)


def test_relu_layer_norm_missing_biases_and_fixed_rates_are_in_the_equations():
    candidate, rate = ctrnn.LayerNorm(ctrnn.ReluCandidate(2, 3, bias=False)), ctrnn.FixedRate(0.5)
    field = ctrnn.Relaxation(ctrnn.Dropout(candidate), rate, ctrnn.LinearDecay())
    assert field.equations == ("dh/dt = 0.5 (relu(norm(Wx x + Wh h)) - h)",)
    x, h = torch.randn(2), torch.randn(3)
    found = computed(field.equations, {"x": x, "h": h, "Wx": candidate.part.weight_x, "Wh": candidate.part.weight_h})
    assert_close(found["dh/dt"], field(x, h), rtol=0, atol=1e-13)
    assert "bh" not in ctrnn.gru(2, 3, bias=False).equations[0]


def test_masks_of_dropout_are_in_the_equations_once_they_are_drawn():
    part = ctrnn.Dropout(ctrnn.TanhCandidate(2, 3), 0.5, 0.5)
    drawn = ctrnn.draw_masks(ctrnn.Relaxation(part, ctrnn.FixedRate(1.0), ctrnn.LinearDecay()), batch=1)
    x, h = torch.randn(1, 2), torch.randn(1, 3)
    masks = {"mx": drawn.candidate.of_x[0], "mh": drawn.candidate.of_h[0]}
    found = computed(drawn.equations, weights(part.part) | masks | {"x": x[0], "h": h[0]})
    assert_close(found["dh/dt"], drawn(x, h)[0], rtol=0, atol=1e-13)


def test_a_field_without_input_has_no_input_in_its_equations():
    assert ctrnn.plain(0, 2).equations == ("dh/dt = tanh(Wh h + b) - h",)
    assert ctrnn.gru(0, 2, bias=False).equations[0] == "dh/dt = g * (tanh(sigma(Wrh h) * (Wh h)) - h)"


def test_a_factor_of_1_is_not_written():
    assert ctrnn.cornn(2, 3, epsilon=0.5).equations == ("dh/dt = z", "dz/dt = tanh(W h + U z + V x + b) - h - 0.5 z")


def test_layers_have_letters_of_their_own():
    field = randomized(ctrnn.gated(2, 3, num_layers=2))
    x, state = torch.randn(2), torch.randn(6)
    below, above = field.fields
    known = {"x": x, "h1": state[3:], "h2": state[:3]}
    for number, layer in ((1, below), (2, above)):
        known |= weights(layer.candidate, str(number)) | weights(layer.rate, f"{number}g")
    found = computed(field.equations, known)
    assert_close(torch.cat([found["dh2/dt"], found["dh1/dt"]]), field(x, state), rtol=0, atol=1e-13)


class Odd_Gate(ctrnn.GateRate):  # noqa: N801 - as a user may have it
    """Computes something else than what it is made from."""

    def function(self, argument):
        return torch.sin(argument) ** 2


class Named(Odd_Gate):
    formula = "sin(Wx x + Wh h + b)^2"


def test_what_computes_something_else_is_shown_by_its_name_until_it_has_a_formula():
    def gate_of(rate):
        return ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), rate, ctrnn.LinearDecay()).equations[1]

    assert gate_of(Odd_Gate(2, 3)) == "g = Odd_Gate(x, h)"
    assert gate_of(Named(2, 3)) == "g = sin(Wgx x + Wgh h + bg)^2"
    assert Spiral().equations == ("dh/dt = Spiral(x, h)",)
    assert "dh/dt" not in repr(Spiral())
    assert repr(ctrnn.gated(1, 2)).splitlines()[1:4] == ["  1, 2", "  dh/dt = g * (tanh(Wx x + Wh h + b) - h)",
                                                         "  g = sigma(Wgx x + Wgh h + bg)"]  # fmt: skip


def test_the_gated_field_in_latex_is_the_papers_page():
    assert ctrnn.gated(1, 2, decay=ctrnn.PowerDecay(1.5))._repr_latex_().splitlines()[2:-1] == [
        r"\frac{dh}{dt} &= g \odot (\tanh(W_{x} x + W_{h} h + b) - |h|^{1.5} h) \\",
        r"g &= \sigma(W_{gx} x + W_{gh} h + b_{g}) \\",
        r"x &\in \mathbb{R}^{1}, \quad h \in \mathbb{R}^{2}",
    ]
    assert in_latex("g = Odd_Gate(x, h)") == r"g = \operatorname{Odd\_Gate}(x, h)"


def shown():
    named = [*NAMED_FIELDS.values(), *(make for make, *_ in PUBLISHED.values())]
    fields = [*(make(2, 3) for make in named), Spiral(), ctrnn.NetworkField(nn.Tanh(), 2)]
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


def test_all_that_is_shown_can_be_typeset():
    for one in shown():
        lines = one._repr_latex_().splitlines()
        assert lines[:2] == ["$\\displaystyle", "\\begin{aligned}"], one
        for line in lines[2:-1]:
            MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")


def test_paths_say_what_they_are_made_of():
    xs = torch.zeros(4, 2, 3)
    assert repr(ctrnn.HeldPath(xs)) == "HeldPath(xs (4, 2, 3), on [0, 4])"
    warped = ctrnn.WarpedPath(ctrnn.LinearPath(xs), ctrnn.AffineWarp(0.5))
    assert repr(warped) == "WarpedPath(LinearPath(xs (4, 2, 3), on [0, 3]), AffineWarp(speed=0.5, offset=0), on [0, 6])"
    assert warped._repr_latex_().splitlines()[3] == r"y(t) &= x(c(t)), \quad c = \text{AffineWarp(speed=0.5, offset=0)} \\"
