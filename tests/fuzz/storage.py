"""Random models in files: with constraints, frozen and tied weights, modes and changes by hand. What is loaded computes the
same, with the same flags and attributes, or the model is refused before it is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from fuzz.dice import Dice, Difference, NoAnswer
from fuzz.fields import random_field
from problems import STEPS
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import register_parametrization, type_before_parametrizations

import ctrnn
import discretize

__all__ = ["saved_models"]

PLAIN = (bool, int, float, str, tuple, type(None))


class Keeping(ctrnn.VectorField):
    """A field of a user, whose arguments it keeps as they are, or changed."""

    def __init__(self, inputs: int, scale: float, words: object, twice: bool = False) -> None:
        super().__init__(inputs, inputs)
        self.inputs, self.scale, self.words, self.twice = inputs, (2 * scale if twice else scale), words, twice
        self.inner, self.function = ctrnn.gated(inputs, inputs), lambda v: torch.sin(self.scale * v)
        self.register_buffer("left_out", torch.full((inputs,), 0.5), persistent=False)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.inner(projected, self.function(h)) * self.left_out


def saved_models(dice: Dice) -> list[Difference]:
    """Outputs, classes, flags and attributes of a model and of what its file gives; of one that is refused nothing."""
    torch.manual_seed(dice.seed)
    model = _model(dice)
    for _ in range(dice.count("constraints", 0, 2)):
        _constrain(dice, model)
    _flag(dice, model)
    changed = dice.chance("changed by hand", 0.4)
    if changed:
        dice.one_of("change", CHANGES)(dice, model)
    known = {kind.__name__: kind for kind in map(type_before_parametrizations, model.modules()) if _is_of_a_user(kind)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        refused = [_refusal(place, model, known) for place in (None, path)]
        assert refused[0] == refused[1], refused
        assert path.exists() == (refused[1] is None), "refused, and written"
        if refused[1]:
            assert changed or known or _is_broken(model), f"refused, and nothing was changed: {refused[1]}"
            raise NoAnswer("refused")
        loaded = ctrnn.load(path, known=known)
    assert _facts(loaded) == _facts(model)
    return [Difference(name, *_off(mine, theirs)) for name, mine, theirs in _outputs(dice, loaded, model)]


def _refusal(path: Path | None, model: nn.Module, known: dict[str, type]) -> str | None:
    try:
        ctrnn.save(path, model, known=known)
    except TypeError as error:
        return str(error)
    return None


def _is_of_a_user(kind: type) -> bool:
    return not kind.__module__.startswith(("ctrnn.", "discretize.", "torch."))


def _is_broken(model: nn.Module) -> bool:
    """Whether torch itself cannot compute a weight: weight_norm is for one that nothing else computes."""
    try:
        for part in model.modules():
            for name in getattr(part, "parametrizations", ()):
                getattr(part, name)
    except TypeError:
        return True
    return False


def _model(dice: Dice) -> nn.Module:
    inputs, dtype = dice.count("inputs", 1, 4), dice.one_of("dtype", [torch.float64, torch.float32])
    if dice.chance("a user's", 0.25):
        words = dice.one_of("words", [(1, 2), [1, "a"], {"a": (1.5,)}, None, torch.arange(3), float("nan"), {1, 2}])
        field: ctrnn.VectorField = Keeping(inputs, dice.number(0.5, 2), words, dice.chance("changes its argument", 0.3)).to(dtype)
    else:
        field = random_field(dice, inputs, dtype, own_code=0.1)
    wrap = dice.one_of("wrap", ["none", "cell", "steps", "solve", "layers", "model"])
    if wrap == "none":
        return field
    step, dt = dice.one_of("step", STEPS), dice.number(0.1, 0.5)
    if wrap == "cell":
        return discretize.DiscreteCell(field, step, dt)
    if wrap == "solve":
        tolerance = dice.one_of("atol", [1e-6, torch.full((field.state_size,), 1e-6)])
        return discretize.ContinuousRNN(field, "dopri5", 1e-3, tolerance, hold=dice.one_of("hold", ["forward", "backward"]))
    given: dict[str, Any] = {"dt": dt, "substeps": dice.count("substeps", 1, 3), "fused": False, "allow_overshoot": True}
    if wrap == "layers":
        return discretize.Layers([[discretize.DiscreteRNN(field, step, **given)]], batch_first=dice.chance("batch first", 0.3))
    rnn = discretize.DiscreteRNN(field, step, batch_first=dice.chance("batch first", 0.3), **given)
    if wrap == "model":
        encoder = nn.Sequential(nn.Linear(3, inputs), nn.Dropout(0.3)).to(dtype)
        return discretize.SequenceModel(rnn, 2, encoder=encoder).to(dtype)
    return rnn


def _weights(model: nn.Module) -> list[tuple[nn.Module, str]]:
    return [
        (part, name)
        for part in model.modules()
        for name, weight in part._parameters.items()
        if weight is not None
        and weight.dim() == 2
        and weight.numel()
        and not isinstance(part, nn.utils.parametrize.ParametrizationList)
    ]


def _any(dice: Dice, name: str, choices: list[Any]) -> Any:
    if not choices:
        raise NoAnswer(f"no {name}")
    return choices[dice.count(name, 0, len(choices) - 1)]


def _constrain(dice: Dice, model: nn.Module) -> None:
    part, name = _any(dice, "weight", _weights(model))
    weight = getattr(part, name)
    ours: dict[str, Callable[[], nn.Module]] = {
        "Dale": lambda: ctrnn.Dale(torch.where(torch.arange(weight.shape[1]) % 2 > 0, -1.0, 1.0).to(weight)),
        "Mask": lambda: ctrnn.Mask((torch.rand(weight.shape) < 0.7).to(weight)),
        "LowRank": lambda: ctrnn.LowRank(1),
    }
    if weight.shape[0] == weight.shape[1]:
        ours |= {"ZeroDiagonal": ctrnn.ZeroDiagonal, "SpectralRadius": lambda: ctrnn.SpectralRadius(0.9)}
    torchs = ["weight_norm", "spectral_norm", "orthogonal"]
    kind = dice.one_of("constraint", [*ours, *torchs])
    if kind in ours:
        register_parametrization(part, name, ours[kind]())
    elif kind == "orthogonal":
        parametrizations.orthogonal(part, name, dice.one_of("map", ["matrix_exp", "cayley", "householder"]))
    else:
        getattr(parametrizations, kind)(part, name)


def _flag(dice: Dice, model: nn.Module) -> None:
    for parameter in model.parameters():
        if dice.rng.random() < 0.2:
            parameter.requires_grad_(False)
    for part in model.modules():
        if dice.rng.random() < 0.15:
            part.eval()
    if dice.chance("tied", 0.2):
        (part, name), (other, own) = (_any(dice, "tied weight", _weights(model)) for _ in range(2))
        if getattr(part, name).shape == getattr(other, own).shape:
            setattr(part, name, getattr(other, own))


def _part(dice: Dice, model: nn.Module) -> nn.Module:
    return _any(dice, "part", list(model.modules()))


def _set_number(dice: Dice, model: nn.Module) -> None:
    found = [
        (part, key) for part in model.modules() for key, value in vars(part).items() if type(value) in (bool, int, float, str)
    ]
    part, key = _any(dice, "attribute", [each for each in found if each[1][0] != "_" and each[1] != "training"])
    value = vars(part)[key]
    setattr(part, key, not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else value + "x")


def _set_function(dice: Dice, model: nn.Module) -> None:
    found = [(part, key) for part in model.modules() for key, value in vars(part).items() if callable(value) and key[0] != "_"]
    part, key = _any(dice, "function", found)
    setattr(part, key, torch.sigmoid)


def _set_method(dice: Dice, model: nn.Module) -> None:
    part = _any(dice, "candidate", [part for part in model.modules() if isinstance(part, ctrnn.Affine)])
    part.function = torch.sigmoid


def _replace(dice: Dice, model: nn.Module) -> None:
    part = _any(dice, "field", [part for part in model.modules() if type(part) is ctrnn.Relaxation])
    part.decay = ctrnn.PowerDecay(dice.number(0.5, 2))


CHANGES: dict[str, Callable[[Dice, nn.Module], object]] = {
    "an attribute more": lambda dice, model: setattr(
        _part(dice, model), "more", dice.one_of("value", [1, "a", torch.ones(2), None])
    ),
    "a number": _set_number,
    "a function": _set_function,
    "a method": _set_method,
    "a part": _replace,
    "a buffer": lambda dice, model: _part(dice, model).register_buffer(
        "more", torch.ones(2), persistent=dice.chance("kept", 0.5)
    ),
    "a hook": lambda dice, model: _part(dice, model).register_forward_hook(lambda *_: None),
    "a view": lambda dice, model: _set_view(*_any(dice, "viewed", _weights(model))),
    "numbers of a buffer": lambda dice, model: [buffer.mul_(2) for buffer in model.buffers() if buffer.is_floating_point()],
}


def _set_view(part: nn.Module, name: str) -> None:
    part.register_buffer("more", getattr(part, name).detach()[:1])


def _facts(model: nn.Module) -> dict[str, Any]:
    """What is said of a model without calling it, tensors left out but for their flags."""
    facts: dict[str, Any] = {"": repr(model)}
    for name, part in model.named_modules(remove_duplicate=False):
        kept = {key: value for key, value in vars(part).items() if type(value) in PLAIN and key not in ("stats", "unsafe")}
        facts[f"{name}:"] = type_before_parametrizations(part), {key: repr(value) for key, value in kept.items()}
        facts[f"{name}: hooks"] = len(part._forward_hooks), len(part._forward_pre_hooks), sorted(part._non_persistent_buffers_set)
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first = {id(tensor): name for name, tensor in reversed(tensors)}
    for name, tensor in tensors:
        facts[name] = type(tensor), tensor.dtype, tuple(tensor.shape), tensor.requires_grad, first[id(tensor)]
    return facts


def _outputs(dice: Dice, loaded: nn.Module, model: nn.Module) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, tensor in model.state_dict().items():
        yield name, loaded.state_dict()[name], tensor
    fields = [next(part for part in each.modules() if isinstance(part, ctrnn.VectorField)) for each in (loaded, model)]
    inputs, units = fields[1].input_size, fields[1].state_size
    dtype = fields[1].dtype or torch.float64
    x, h = dice.normal(3, max(inputs, 0), dtype=dtype), dice.normal(3, max(units, 1), dtype=dtype)
    with torch.no_grad():
        answers = [_answer(field, x, h) for field in fields]
        yield "flow", *answers
        if isinstance(model, discretize.DiscreteRNN | discretize.Layers | discretize.SequenceModel):
            wide = 3 if isinstance(model, discretize.SequenceModel) else inputs
            xs = dice.normal(4, 3, wide, dtype=dtype)
            yield "outputs", *(_answer(each, xs) for each in (loaded, model))


def _answer(module: nn.Module, *given: Tensor) -> Tensor:
    """What it gives, the same dropout for all; nothing where it refuses, as both then must."""
    torch.manual_seed(0)
    try:
        found = module(*given)
    except Exception as error:
        return torch.tensor(list(str(error)[:200].encode()), dtype=torch.float64)
    return found if isinstance(found, Tensor) else found[0]


def _off(mine: Tensor, theirs: Tensor) -> tuple[float, float]:
    same = mine.shape == theirs.shape and torch.equal(mine.double().nan_to_num(), theirs.double().nan_to_num())
    return (0.0 if same else 1.0), 0.0
