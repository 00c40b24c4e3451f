"""What `ctrnn.save` has written is, loaded, the model that it was given; what would be another one is refused beforehand."""

import collections
import copy
import enum
import functools
import pathlib

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.storage.comparison import difference


class Scaled(ctrnn.VectorField):
    """A field of a user, which keeps what it is given."""

    def __init__(self, units, scale=1.0):
        super().__init__(units, units)
        self.units, self.scale, self.inner = units, scale, ctrnn.plain(units, units)

    def flow(self, projected, h):
        return self.inner(projected, h)


class Doubling(Scaled):
    """It changes its argument before it keeps it."""

    def __init__(self, units, scale=1.0):
        super().__init__(units, 2 * scale)


class Buffered(Scaled):
    """It has a buffer that no state_dict has, and one that all have."""

    def __init__(self, units, scale=1.0):
        super().__init__(units, scale)
        self.register_buffer("hidden", torch.full((units,), 2.0), persistent=False)
        self.register_buffer("seen", torch.full((units,), 3.0))

    def flow(self, projected, h):
        return self.hidden * self.inner(projected, h) + self.seen


class Holding(Scaled):
    """It keeps functions, its own parts and methods, an LSTM of torch's, and what it has computed once."""

    def __init__(self, units, scale=1.0):
        super().__init__(units, scale)
        self.function = lambda x: x * scale
        self.bound, self.partial, self.lstm = self.project, functools.partial(torch.add, alpha=scale), nn.LSTM(units, units)
        self.parts = [self.inner]

    @functools.cached_property
    def large(self):
        return 7.0

    def flow(self, projected, h):
        return self.function(self.parts[0](projected, h))


class Unregistered(Scaled):
    def __init__(self, units, scale=1.0):
        super().__init__(units, scale)
        self.ones = torch.ones(units)


Pair = collections.namedtuple("Pair", "first second")
Colour = enum.Enum("Colour", "RED")
Number = enum.IntEnum("Number", "ONE")
KNOWN = {kind.__name__: kind for kind in (Scaled, Doubling, Buffered, Holding, Unregistered, Pair)}


@pytest.fixture
def saved(tmp_path):
    """Save and load: with None, to a file, and back, where the two first agree."""

    def again(model):
        path, answers = tmp_path / "model.safetensors", []
        for place in (None, path):
            try:
                ctrnn.save(place, model, known=KNOWN)
                answers.append(None)
            except TypeError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
        assert path.exists() == (answers[0] is None)
        return answers[0] or ctrnn.load(path, known=KNOWN)

    return again


def assert_same(again, model):
    assert not isinstance(again, str), again
    x, h = torch.randn(4, model.input_size), torch.randn(4, model.state_size)
    assert torch.equal(again(x, h), model(x, h))


def changed(model, change):
    change(model)
    return model


def set_function(field):
    field.inner.candidate.function = torch.sigmoid


CHANGES = {
    "an argument is changed": (lambda: Doubling(2, 3.0), r"`model.scale` is 6.0, and would be 12.0\. A file says"),
    "an attribute is new": (
        lambda: changed(Scaled(2), lambda m: setattr(m, "extra", 3)),
        r"`model.extra` is 3, and would not be there",
    ),
    "an attribute of a part": (lambda: changed(Scaled(2), lambda m: setattr(m.inner, "extra", 3)), "`model.inner.extra` is 3"),
    "an attribute is gone": (
        lambda: changed(Holding(2), lambda m: delattr(m, "parts")),
        r"`model.parts` is not there, and would be",
    ),
    "a size": (
        lambda: changed(ctrnn.gru(2, 3), lambda m: setattr(m, "input_size", 5)),
        "`model.input_size` is 5, and would be 2",
    ),
    "a word of a part": (
        lambda: changed(ctrnn.additive(2, 3), lambda m: setattr(m.candidate, "nonlinearity", "relu")),
        "`model.candidate.rates` is <built-in method tanh",
    ),
    "a function": (lambda: changed(Scaled(2), set_function), "`model.inner.candidate.function` is <built-in method sigmoid"),
    "another lambda": (lambda: changed(Holding(2), lambda m: setattr(m, "function", lambda x: 2 * x)), "`model.function` is"),
    "a lambda of another number": (
        lambda: changed(Holding(2), lambda m: setattr(m, "function", Holding(2, 3.0).function)),
        "`model.function` is",
    ),
    "a default of a function": (
        lambda: changed(Holding(2), lambda m: setattr(m.function, "__defaults__", (3.0,))),
        "`model.function` is",
    ),
    "a default by name": (
        lambda: changed(Holding(2), lambda m: setattr(m.function, "__kwdefaults__", {"x": 3.0})),
        "`model.function` is",
    ),
    "a list of others": (lambda: changed(Holding(2), lambda m: setattr(m, "parts", [ctrnn.plain(2, 2)])), "`model.parts` is"),
    "a method of another": (lambda: changed(Holding(2), lambda m: setattr(m, "bound", Holding(2).project)), "`model.bound` is"),
    "a hook": (
        lambda: changed(discretize.DiscreteRNN(ctrnn.plain(2, 3)), lambda m: m.register_forward_hook(print)),
        r"`model._forward_hooks` is \[<built-in function print>\], and would be \[\]",
    ),
    "a hook of gradients": (
        lambda: changed(discretize.DiscreteRNN(ctrnn.plain(2, 3)), lambda m: m.register_full_backward_hook(print)),
        "`model._backward_hooks` is",
    ),
    "a tensor that is not registered": (lambda: Unregistered(2), "`model.ones` is a tensor .* would be a tensor without values"),
    "a buffer that is new": (lambda: changed(Scaled(2), lambda m: m.register_buffer("b", torch.ones(2))), "it has a tensor 'b'"),
    "a parameter that is a buffer": (
        lambda: changed(
            Scaled(2), lambda m: m.inner.candidate.register_buffer("bias", m.inner.candidate._parameters.pop("bias").data)
        ),
        "`model.inner.candidate.bias` is a parameter in one of both only",
    ),
    "a buffer that is persistent": (
        lambda: changed(Buffered(2), lambda m: m._non_persistent_buffers_set.discard("hidden")),
        "`model.hidden` is persistent in one of both only",
    ),
    "a buffer that learns": (
        lambda: changed(Buffered(2), lambda m: m.seen.requires_grad_()),
        "`model.seen` has requires_grad=True",
    ),
    "views of one memory": (
        lambda: changed(
            Scaled(2), lambda m: setattr(m.inner.candidate, "weight_h", nn.Parameter(m.inner.candidate.weight_x.data))
        ),
        "`inner.candidate.weight_x` and `inner.candidate.weight_h` are views of the same memory",
    ),
    "complex weights": (
        lambda: changed(
            Scaled(2), lambda m: setattr(m.inner.candidate, "bias", nn.Parameter(torch.ones(2, dtype=torch.complex64)))
        ),
        "its parameter 'inner.candidate.bias' is torch.complex64",
    ),
    "a dtype without a name": (
        lambda: changed(
            Scaled(2), lambda m: setattr(m.inner.candidate, "bias", nn.Parameter(torch.ones(2, dtype=torch.complex128)))
        ),
        "`model` has tensors of torch.complex128, for which the file has no name",
    ),
    "a sparse weight": (
        lambda: changed(Buffered(2), lambda m: setattr(m, "seen", torch.ones(2).to_sparse())),
        "`seen` is no tensor",
    ),
    "a compiled module": (
        lambda: torch.compile(discretize.DiscreteRNN(ctrnn.plain(2, 2))),
        "the module that torch.compile was given",
    ),
    "a number of NumPy": (
        lambda: Scaled(2, np.float64(2.0)),
        r"`model.scale` is of the class float64, .* such as `float\(...\)`",
    ),
    "an array": (lambda: Scaled(2, np.ones(2)), "`model.scale` is of the class ndarray"),
    "a member of an enumeration": (
        lambda: Scaled(2, Colour.RED),
        "of the class Colour, which a file cannot name. Give numbers, text",
    ),
    "a number with a name": (lambda: Scaled(2, Number.ONE), r"of the class Number, .* such as `int\(...\)`"),
    "a path": (lambda: Scaled(2, pathlib.Path("a")), "which a file cannot name. Give numbers, text"),
    "a set": (lambda: Scaled(2, {1, 2}), "of the class set, which a file cannot name. Give numbers, text"),
    "a dtype": (lambda: Scaled(2, torch.float32), "of the class dtype, which a file cannot name. Give numbers, text"),
    "a lambda as an argument": (lambda: Scaled(2, lambda x: x), "A file holds no code: compute it in a class of your own"),
    "a partial as an argument": (lambda: Scaled(2, functools.partial(torch.add, 1)), "A file holds no code"),
    "a list of modules": (lambda: Scaled(2, [nn.Linear(2, 2)]), "`model.scale` is"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_would_come_back_as_another_is_refused(saved, change):
    make, words = CHANGES[change]
    said = saved(make())
    assert isinstance(said, str)
    with pytest.raises(TypeError, match=words):
        raise TypeError(said)


VALUES = [(1, 2), [1, [2]], ((1,), [2, (3,)]), {"a": 1, 2: (3,), None: {}}, None, True, 10**40, float("inf"), "é", Pair(1, (2,))]
VALUES += [torch.arange(3), torch.tensor([0.1, 0.9], dtype=torch.float32), torch.tensor([True]), torch.tensor(2**53 + 1)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_an_argument_comes_back_as_what_it_was(saved, value):
    scale = saved(Scaled(2, value)).scale
    assert type(scale) is type(value)
    if isinstance(value, torch.Tensor):
        assert_close(scale, value, rtol=0, atol=0)  # dtypes too
    else:
        assert repr(scale) == repr(value)


def test_buffers_that_no_state_dict_has_come_back_as_they_are(saved):
    model = Buffered(2)
    model.hidden.mul_(5)
    model.seen.add_(1)
    again = saved(model)
    assert_same(again, model)
    assert again._non_persistent_buffers_set == {"hidden"}
    assert "hidden" not in again.state_dict()


def test_flags_ties_modes_functions_and_dtypes_come_back(saved):
    model = Holding(2, 3.0)
    part = model.inner.candidate
    part.weight_h = part.weight_x
    part.bias.requires_grad_(False)
    model.inner.eval()
    assert model.large == 7.0
    again = saved(model)
    assert_same(again, model)
    assert again.inner.candidate.weight_h is again.inner.candidate.weight_x
    assert again.parts[0] is again.inner
    assert again.bound.__self__ is again
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in model.parameters()]
    assert [m.training for m in again.modules()] == [m.training for m in model.modules()]
    x = torch.randn(5, 3, 2)
    assert torch.equal(again.lstm(x)[0], model.lstm(x)[0])


def test_one_dropout_in_two_places_stays_in_its_mode(saved):
    dropout = nn.Dropout(0.5).eval()
    model = nn.Sequential(nn.Linear(2, 2), dropout, nn.Linear(2, 2), dropout)
    again, x = saved(model), torch.randn(8, 2)
    assert torch.equal(again(x), model(x))
    assert [m.training for m in again] == [True, False, True, False]


def test_halves_of_one_tensor_that_share_nothing_are_saved(saved):
    model, whole = Scaled(2), torch.randn(2, 4)
    model.inner.candidate.weight_x, model.inner.candidate.weight_h = nn.Parameter(whole[:, :2]), nn.Parameter(whole[:, 2:])
    assert_same(saved(model), model)


@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("inputs", [2, 3, 5])
def test_orthogonal_weights_as_torch_makes_them_come_back(saved, way, trivial, inputs):
    field = ctrnn.plain(inputs, 3)
    parametrizations.orthogonal(field.candidate, "weight_x", way, use_trivialization=trivial)
    free = field.candidate.parametrizations.weight_x.original
    with torch.no_grad():
        free.add_(0.1 * torch.randn_like(free).tril(-1).triu(-1 if inputs < 3 else -3))  # the rest, torch asks to leave as it is
    again, x, h = saved(field), torch.randn(4, inputs), torch.randn(4, 3)
    assert torch.equal(again.candidate.parametrizations.weight_x.original, free)
    assert_close(again(x, h), field(x, h))  # what is made of them by LAPACK may differ in the last bits
    weight = again.candidate.weight_x.detach()
    product = weight.mT @ weight if inputs < 3 else weight @ weight.mT
    assert_close(product, torch.eye(len(product)), rtol=0, atol=1e-12)


def test_a_constraint_on_one_of_a_list_of_layers_comes_back(saved):
    field = ctrnn.rhn(2, 3, depth=2)
    nn.utils.parametrize.register_parametrization(field.layers[1], "weight_h", ctrnn.LowRank(1))
    assert_same(saved(field), field)


def test_a_constraint_on_a_matrix_of_biases_comes_back(saved):
    field = ctrnn.gnn(3, 2)
    nn.utils.parametrize.register_parametrization(field.candidate, "bias", ctrnn.LowRank(1))
    assert_same(saved(field), field)


@pytest.mark.parametrize("solve", [discretize.DiscreteRNN, discretize.ContinuousRNN])
def test_a_model_is_saved_after_its_calls_as_before(saved, solve):
    field = ctrnn.Relaxation(ctrnn.Dropout(ctrnn.TanhCandidate(2, 3), 0.3), ctrnn.GateRate(2, 3), ctrnn.LinearDecay())
    model, x = solve(field), torch.randn(5, 4, 2)
    model(x)[0].sum().backward()
    again = saved(model)
    assert torch.equal(again.eval()(x)[0], model.eval()(x)[0])


@pytest.mark.parametrize("dim", [0, 1, None])
def test_a_weight_of_a_norm_along_any_axis_comes_back(saved, dim):
    field = ctrnn.plain(2, 3)
    parametrizations.weight_norm(field.candidate, "weight_x", dim=dim)
    again = saved(field)
    assert_same(again, field)
    part, theirs = (each.candidate.parametrizations.weight_x for each in (again, field))
    assert part[0].dim == theirs[0].dim
    assert part.original0.shape == theirs.original0.shape


def test_models_that_share_other_weights_differ():
    tied, apart = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    with torch.no_grad():
        for mine, theirs in zip(apart, tied, strict=True):
            mine.weight.copy_(theirs.weight)
            mine.bias.copy_(theirs.bias)
    assert "`model.1.weight` is the same tensor as another one" in difference(tied, apart, ())
    assert difference(tied, copy.deepcopy(tied), ()) is None
    assert difference(apart, copy.deepcopy(apart), ()) is None
