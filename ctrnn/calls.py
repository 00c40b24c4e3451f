"""What is wrong with a call, in the caller's words: misspelt, missing and superfluous arguments, and names of torch's.

Looked at where a call has failed, so that calls which are right cost nothing.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, get_args, get_type_hints

__all__ = ["ORDERS", "AnsweredInit", "answered", "handed_on", "torch_name"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

# Names of one thing: which of them a function has, it is asked for by.
SYNONYMS = (
    {"hx", "h0", "h_0", "h", "y0", "state", "hidden"},
    {"x", "xs", "input", "inputs"},
    {"ts", "t", "times", "t_span", "t_eval", "stamps"},
    {"lengths", "seq_lengths", "sequence_length", "seq_len"},
    {"method", "solver"},
    {"exponent", "r"},
    {"t_max", "T"},
    {"max_step", "hmax"},
)
IN_FIELD = "Parts of a field are chosen by `ctrnn.Relaxation(candidate, rate, decay)`."
IN_LAYERS = (
    "Layers as torch stacks them, in one direction or two, with dropout between, are made by "
    "`discretize.Layers.of(ctrnn.gru, input_size, hidden_size, num_layers=2, bidirectional=True, dropout=0.1)`."
)
IN_MODULE = "That is for a sequence module: `discretize.DiscreteRNN(field, batch_first=True)`."
# What a name of elsewhere is here, where the function has the argument named first.
RENAMED = {
    "memory": ("gradient", "now `gradient=discretize.Checkpointed(bytes)`"),
    "adjoint": ("gradient", "now `gradient=discretize.Adjoint()`"),
    "tol": ("rtol", "here `rtol` and `atol`"),
    "warp": ("speed", "here `speed=warp.speed`, along a `ctrnn.WarpedPath(path, warp)`"),
}
HABITS = {
    "nonlinearity": IN_FIELD,
    "activation": IN_FIELD,
    "bidirectional": IN_LAYERS,
    "dropout": IN_LAYERS,
    "num_layers": IN_LAYERS,
    "batch_first": IN_MODULE,
    "proj_size": "A projection of the output is a `torch.nn.Linear` after the module.",
    "method": "Methods that choose their steps are for `discretize.ContinuousRNN` and `integrate`.",
    "step": "A step map may be the `method` of a solve; discrete modules are `discretize.DiscreteRNN`.",
    "seed": "Random numbers come from a `generator`, torch.Generator().manual_seed(seed).",
    "dt": "How long a sample lasts is said to the sequence module, `discretize.ContinuousRNN(field, dt=0.2)`, or by times: "
    "`ctrnn.HeldPath(xs, ts)`. The longest step of a solve is `max_step`.",
    "device": "It runs where the field's parameters are: move those, `.to(device)`.",
    "dtype": "It computes in the dtype of the field's parameters: convert those, `.to(dtype)`.",
}

# The order of arguments where other libraries have another one.
ORDERS = {"integrate": "It is called as integrate(field, path, h0, ts), a function f(t, h) as integrate(f, None, h0, ts)."}


def answered(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Wrap a function so that a call which does not fit its arguments is refused in words; of a method, by its class's name."""

    @functools.wraps(function)
    def checked(*args: Given.args, **keywords: Given.kwargs) -> Result:
        try:
            return function(*args, **keywords)
        except TypeError:
            if (words := _misuse(function, args, keywords)) is None:
                raise
        raise TypeError(words)

    return checked


class AnsweredInit:
    """Base class whose subclasses have `answered` constructors."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", answered(cls.__init__))  # noqa: B010 - to type checkers an assignment declares it anew


def _misuse(function: Callable, args: tuple[object, ...], keywords: Mapping[str, object]) -> str | None:
    """Say what does not fit; None if all does, and the error came from within."""
    parameters = inspect.signature(function).parameters
    shown = [p for p in parameters.values() if p.name not in ("self", "cls")]
    given = len(args) - (len(parameters) - len(shown))
    called = function.__qualname__ if "cls" in parameters else function.__name__
    called = _class_of(function, type(args[0])) if "self" in parameters else called
    known = [p.name for p in shown if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    more = handed_on(function)
    unknown = [] if more is None else [name for name in keywords if name not in (*known, *more)]
    if unknown:
        return _unknown(called, unknown[0], [*known, *(more or ())])
    placed = [p.name for p in shown if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if given > len(placed) and not any(p.kind is p.VAR_POSITIONAL for p in shown):
        rest = [name for name in (*known, *(more or ())) if name not in placed]
        by_name = f"; give by name what is meant of {', '.join(rest)}" if rest else ""
        return f"`{called}` takes {', '.join(placed) or 'nothing'} by position, got {given} arguments{by_name}."
    if twice := [name for name in placed[:given] if name in keywords]:
        return f"`{called}` was given `{twice[0]}` twice, by position and by name."
    there = {*placed[:given], *keywords}
    missing = [f"`{p.name}`" for p in shown if p.name in known and p.default is p.empty and p.name not in there]
    return " ".join([f"`{called}` needs {' and '.join(missing)}.", *filter(None, [ORDERS.get(called)])]) if missing else None


def _class_of(method: Callable, kind: type) -> str:
    """Name the object's class, or the base class whose constructor that class calls with other arguments."""
    is_own = method.__name__ != "__init__" or inspect.unwrap(kind.__init__) is method  # type: ignore[misc]
    return kind.__name__ if is_own else method.__qualname__.split(".")[-2]


def handed_on(function: Callable) -> list[str] | None:
    """List the names that `**settings: Unpack[Settings]` stands for; None where it takes any."""
    rest = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_KEYWORD]
    if not rest:
        return []
    try:
        settings = get_args(get_type_hints(function).get(rest[0]))
    except NameError:  # a hint that only a type checker can read
        return None
    return list(settings[0].__annotations__) if settings else None


def _unknown(called: str, name: str, known: list[str]) -> str:
    instead, new = RENAMED.get(name, ("", ""))
    if instead in known:
        return f"`{name}` is {new}."
    same = [other for names in SYNONYMS if name in names for other in known if other in names]
    near = same or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(known)}."
    return " ".join([f"`{called}` takes no `{name}`; {hint}", *([HABITS[name]] if name in HABITS and not near else [])])


def torch_name(module: object, name: str) -> str:
    """Say, for an AttributeError, where to find what torch.nn has under that name."""
    kind = type(module).__name__
    if name.startswith(("weight_", "bias_")) or name in ("all_weights", "flatten_parameters", "reset_parameters"):
        return (
            f"`{kind}` has no `{name}`: its weights are those of its field, `field.named_parameters()`; with torch's names they "
            "are in the module that `discretize.layers_to_torch` or `ctrnn.to_torch` makes."
        )
    return f"`{kind}` has no attribute `{name}`."
