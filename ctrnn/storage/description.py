r"""A model as words and numbers, and back: its class by name, and what its constructor was given.

    {"class": "ctrnn.parts.PowerDecay", "exponent": 2.0}
    {"class": "ctrnn.parts.TanhCandidate", ..., "parametrizations": {"weight_h": [{"class": "ctrnn.parts.ZeroDiagonal"}]}}

What a constructor takes by a name is looked up by that name on the object. So it is for every public class here, and for a class
of a user that keeps what it is given, once it is `known`. "parts" are those that took the place of one that the constructor had
made. Nothing else is ever called, whatever a description says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations

from ctrnn.calls import handed_on
from ctrnn.fields.connectivity import Dale, Mask
from ctrnn.fields.noise import ColoredInput, Noise
from ctrnn.fields.parts import WeightSettings
from ctrnn.fields.rates import LearnedConstant
from ctrnn.lazy import places_of
from ctrnn.storage.parametrizations import described_parametrizations, is_parametrized_within, register

__all__ = ["ROOTS", "Known", "described", "rebuilt"]

Known = Mapping[str, type]


class _Shape(NamedTuple):
    """Stands for a tensor that comes with the weights."""

    shape: torch.Size


# What may be made of a description: public classes that descend from these. The second package stands right of this one: it is
# looked up by the file's word, and never imported by a line here.
ROOTS = {
    "ctrnn": ("VectorField", "Part", "Decay", "Synapses", "Noise", "Dale", "Mask", "LowRank", "ZeroDiagonal", "SpectralRadius"),
    "discretize": (
        "Step",
        "StepDoubling",
        "Checkpointed",
        "Adjoint",
        "DiscreteCell",
        "DiscreteRNN",
        "ContinuousRNN",
        "Layers",
        "Ensemble",
        "SequenceModel",
        "SymbolModel",
        "JumpRNN",
        "Jump",
        "Elapsed",
        "Curve",
    ),
}
OF_TORCH = ("Linear", "Embedding", "LayerNorm", "Dropout", "Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "Sequential")
NOT_KEPT = ("dtype", "device", "generator")  # of the weights, which have them, and of how they were drawn
OURS = ("torch.nn", *ROOTS)
TAKEN = ("args", "parts", "parametrizations")  # keys of a description
DEEPEST = 64
PLAIN = (bool, int, float, str)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}
DTYPES |= {str(dtype).removeprefix("torch."): dtype for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)}
DTYPES |= {"bool": torch.bool}
WAY_OUT = (
    "Give `known={{'{name}': {name}}}` for a class that keeps each argument of its constructor under the argument's name, or "
    "save its `state_dict()` and call its constructor yourself."
)


def described(model: object, known: Known) -> Any:
    """Describe a model so that `rebuilt` reads it. Raises: TypeError for what has no description, with all reasons at once."""
    faults: list[str] = []
    words = _described(model, {**known}, "model", faults)
    if faults:
        several = f"`model` cannot be saved, for {len(faults)} reasons:\n- " if len(faults) > 1 else ""
        raise TypeError(several + "\n- ".join(faults))
    return words


def _described(value: object, known: dict[str, type], where: str, faults: list[str]) -> Any:
    """Describe a value; what cannot be said is added to the faults, and a class that is not known is known from there on."""

    def of(key: object, item: object) -> Any:
        return _described(item, known, f"{where}[{key!r}]", faults)

    if value is None or type(value) in PLAIN:
        return value
    if type(value) in (list, tuple, nn.ModuleList):
        items = [of(k, item) for k, item in enumerate(value)]  # type: ignore[var-annotated,arg-type]
        return {"tuple": items} if type(value) is tuple else items
    if type(value) is dict and all(key is None or type(key) in PLAIN for key in value):
        return {"items": [[key, of(key, item)] for key, item in value.items()]}
    if isinstance(value, _Shape):
        return {"shape": list(value.shape)}
    if type(value) in (Tensor, nn.Parameter) and value.dtype in DTYPES.values():  # type: ignore[attr-defined]
        numbers = value.detach().cpu().tolist()  # type: ignore[attr-defined]
        return {"numbers": numbers, "dtype": str(value.dtype).removeprefix("torch.")}  # type: ignore[attr-defined]
    return _described_object(value, known, where, faults)


def _described_object(value: object, known: dict[str, type], where: str, faults: list[str]) -> Any:
    own = type_before_parametrizations(value) if isinstance(value, nn.Module) else type(value)
    name = _name_of(own, known)
    if name is None and isinstance(word := getattr(value, "known_name", None), str):
        return word  # which the constructor takes in place of the object
    if name is None:
        name = own.__name__
        known[name] = own
        instead = _instead(value)
        faults.append(f"`{where}` is of the class {name}, which a file cannot name. {instead or WAY_OUT.format(name=name)}")
        if instead:
            return {}
    given: dict[str, object] = {}
    try:
        given = {argument: _argument(value, argument, where) for argument in _arguments(own)}
    except TypeError as error:
        faults.append(str(error))

    def of(key: str, item: object) -> Any:
        return _described(item, known, f"{where}.{key}", faults)

    for key in getattr(value, "__dict__", {}):
        if key not in given and inspect.isfunction(getattr(own, key, None)):
            faults.append(f"`{where}.{key}` was set on the object in place of its class's own, which a file cannot say.")
    words: dict[str, Any] = {"class": name} | {key: of(key, item) for key, item in given.items()}
    if isinstance(value, nn.Module):
        try:
            made = dict(rebuilt(words, known).named_children())
        except ValueError:
            if not faults:
                raise
            return words
        others = {key: part for key, part in value.named_children() if key not in given and _replaced(part, made.get(key))}
        others.pop("parametrizations", None)
        words |= {"parts": {key: of(key, part) for key, part in others.items()}} if others else {}
        computed = described_parametrizations(value, lambda part, place: of(place, part))
        words |= {"parametrizations": computed} if computed else {}
    return words


def rebuilt(description: object, known: Known, deep: int = 0) -> Any:
    r"""Build the described model on the meta device.

    Raises:  ValueError for what describes none.
    """
    if deep > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(description, list):
        return [rebuilt(item, known, deep + 1) for item in description]
    if not isinstance(description, dict):
        return description
    read = next((read for keys, read in VALUES if description.keys() == keys), None)
    if read is not None:
        return read(description, lambda item: rebuilt(item, known, deep + 1))
    kind = _class_of(description.get("class"), known)
    given = {key: rebuilt(item, known, deep + 1) for key, item in description.items() if key not in ("class", *TAKEN[1:])}
    placed, parts = given.pop("args", []), description.get("parts", {})
    try:
        # Sizes may be anything that a file says: no memory is taken before they are compared with the weights that are there.
        with torch.device("meta"):
            made = kind(*placed, **given)
        for key, part in parts.items():
            if key not in made._modules:
                raise ValueError(f"it has no part {key!r}")
            placed_part = rebuilt(part, known, deep + 1)
            setattr(made, key, nn.ModuleList(placed_part) if isinstance(placed_part, list) else placed_part)
        with torch.device("meta"):
            register(made, description.get("parametrizations", {}), lambda part: rebuilt(part, known, deep + 1))
        return made
    except Exception as error:  # of a constructor, given what it never expected
        raise ValueError(f"no {kind.__name__} can be made as it says: {error}") from error


def _instead(value: object) -> str | None:
    """Say what to give instead of a value whose class a file cannot name; None of a class that may be `known`."""
    if hasattr(value, "_orig_mod"):
        return "Save the module that torch.compile was given, its `_orig_mod`, and compile what is loaded."
    plain = next((kind.__name__ for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    if plain or type(value).__module__ == "numpy":
        return f"Give a plain number, text or tensor, such as `{plain or 'torch.as_tensor'}(...)`."
    if callable(value) and not isinstance(value, nn.Module | type):
        return "A file holds no code: compute it in a class of your own, by a method, and make that class `known`."
    if isinstance(value, Enum) or not (hasattr(value, "__dict__") or hasattr(value, "_fields")):
        return "Give numbers, text, tensors, lists, tuples or dictionaries, and make of these what is needed in the constructor."
    return None


def _replaced(part: nn.Module, made: nn.Module | None) -> bool:
    """Whether a part, or one within it, is another than the constructor makes, or has weights that are computed."""
    return made is None or is_parametrized_within(part) or _kinds(part) != _kinds(made)


def _kinds(module: nn.Module) -> list[tuple[str, type, dict[str, object]]]:
    """List what a module is made of: names, classes, and of torch's and this project's what they were made with."""

    def settings(part: nn.Module) -> dict[str, object]:
        given = vars(part).items() if _package(type(part)) in OURS else ()
        plain = (bool, int, float, str, tuple)
        return {key: value for key, value in given if isinstance(value, plain) and key != "training" and key[0] != "_"}

    return [(name, type(part), settings(part)) for name, part in module.named_modules()]


def _name_of(kind: type, known: Known) -> str | None:
    for name, other in known.items():
        if other is kind:
            return name
    name = f"{_package(kind)}.{kind.__name__}"
    return name if _public(name) is kind else None


def _package(kind: type) -> str:
    return "torch.nn" if kind.__module__.startswith("torch.nn.") else kind.__module__.partition(".")[0]


def _class_of(name: object, known: Known) -> type:
    if not isinstance(name, str):
        raise ValueError("a part of it has no class")
    kind = known.get(name) or _public(name)
    if kind is None:
        raise ValueError(f"it holds a {name[:80]!r}, which is no class of this version; name it in `known` if it is yours")
    return kind


def _public(name: str) -> type | None:
    """Return the class that a file means by a name such as "ctrnn.parts.PowerDecay"."""
    package, _, short = name.rpartition(".")
    if package == "torch.nn":
        return getattr(nn, short) if short in OF_TORCH else None
    home = import_module(package) if package in ROOTS else None
    place = places_of(str(home.__file__)).get(short) if home else None
    if home is None or place is None:
        return None
    kind, roots = getattr(import_module(place), short), tuple(getattr(home, root) for root in ROOTS[package])
    return kind if isinstance(kind, type) and issubclass(kind, roots) else None


def _arguments(kind: type) -> list[str]:
    """List the arguments of a constructor that a description says; "args" for what a Sequential takes by position."""
    found: list[str] = []
    parameters = inspect.signature(kind).parameters
    # That of torch.nn.Module itself, which torch.compile replaces by another of the same form: it takes nothing.
    if [p.kind for p in parameters.values()] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return found
    for name, p in parameters.items():
        if p.kind is p.VAR_POSITIONAL and issubclass(kind, nn.Sequential):
            found.append("args")
        elif p.kind is p.VAR_POSITIONAL or name in TAKEN:
            raise TypeError(f"{kind.__name__} takes `{p}`, which a file cannot say; take a list, and by another name.")
        elif p.kind is p.VAR_KEYWORD:
            names = handed_on(kind.__init__) or WeightSettings.__annotations__  # type: ignore[misc]
            found += [key for key in names if key not in NOT_KEPT]
        elif name not in NOT_KEPT and not (name.startswith("_") and _package(kind) == "torch.nn"):  # torch's own use
            found.append(name)
    return found


# What our classes keep under another name than the constructor's.
KEPT: dict[str, Callable[[Any], Any]] = {
    "args": list,
    "allow_overshoot": lambda module: module.watch.allowed,
    "dt": lambda module: None if getattr(module, "_counts_samples", False) else module.dt,
    "hold": lambda module: module.hold.direction,
    "open_interval": lambda module: module.hold.open_interval,
    "outputs": lambda affine: affine.projected_size,
}


def _argument(owner: Any, name: str, where: str) -> Any:
    if isinstance(owner, LearnedConstant):
        return torch.full_like(
            owner.flow(torch.empty(0, device="cpu"), torch.empty(0, device="cpu")), 0.5
        )  # in place of rates that come with the weights
    if name == "sigma" and isinstance(owner, Noise | ColoredInput):
        return torch.full_like(owner.sigma, 0.5)  # likewise
    if isinstance(owner, Dale | Mask) and isinstance(value := getattr(owner, name), Tensor):
        return _Shape(value.shape)
    if name == "bias" and not isinstance(getattr(owner, name, None), bool):
        names = (re.sub(r"\.original\d*$", "", key).rpartition(".")[2] for key, _ in owner.named_parameters())
        return name in names
    if name in KEPT and _package(type_before_parametrizations(owner) if isinstance(owner, nn.Module) else type(owner)) in OURS:
        return KEPT[name](owner)
    for keeper in (owner, getattr(owner, "settings", None)):
        if hasattr(keeper, name):
            return getattr(keeper, name)
    kind = type(owner).__name__
    raise TypeError(f"`{where}`: {kind} does not keep what its constructor takes as `{name}`; set `self.{name} = {name}` in it.")


def _numbers(value: object, dtype: object) -> Tensor:
    try:
        return torch.tensor(value, dtype=DTYPES[dtype], device="cpu")  # type: ignore[index]
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError("it has something else where numbers should be") from None


def _items(value: object, rebuild: Callable[[object], Any]) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("it has something else where a list should be")
    return [rebuild(item) for item in value]


def _pair(value: object) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], bool | int | float | str | None):
        raise ValueError("it has something else where a key and a value should be")
    return value[0], value[1]


# What is no object of a class, by the keys of its description, and how that is read.
VALUES: list[tuple[set[str], Callable[[dict[str, Any], Callable[[object], Any]], Any]]] = [
    ({"numbers"}, lambda said, _: _numbers(said["numbers"], "float64")),  # as early files have them
    ({"numbers", "dtype"}, lambda said, _: _numbers(said["numbers"], said["dtype"])),
    ({"tuple"}, lambda said, rebuild: tuple(_items(said["tuple"], rebuild))),
    ({"items"}, lambda said, rebuild: dict(map(_pair, _items(said["items"], rebuild)))),
    ({"shape"}, lambda said, _: torch.ones(said["shape"], device="meta")),  # of a tensor that comes with the weights
]
