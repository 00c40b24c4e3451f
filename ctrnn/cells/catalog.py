r"""The library's cells by name, read from its public names: every constructor (input_size, hidden_size, ...) of a cell's file.

Proofs, training and tests find a cell here: one more file in this folder, with its line in the stub, is one more cell for all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import ctrnn
from ctrnn.fields.decays import PowerDecay
from ctrnn.fields.field import VectorField

__all__ = ["constructors", "variants"]


def constructors() -> dict[str, Callable[..., VectorField]]:
    """All constructors of cells, in the order of the public names."""
    public = {name: getattr(ctrnn, name) for name in vars(ctrnn)["__all__"] if name.islower()}
    return {name: made for name, made in public.items() if inspect.isfunction(made) and _makes_a_cell(made)}


def variants(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a cell may be told by a word: its label and keyword arguments, one choice at a time, the default first.

    "gated", "gated, global", "gated, softplus", "gated, |h|^2 h", ...: choices are parameters of a `Literal` or bool type, and
    `decay`.
    """
    yield name, {}
    constructor = constructors()[name]
    hints, parameters = get_type_hints(constructor), inspect.signature(constructor).parameters
    for key, parameter in parameters.items():
        if get_origin(hints[key]) is Literal:
            yield from ((f"{name}, {word}", {key: word}) for word in get_args(hints[key]) if word != parameter.default)
        elif hints[key] is bool:
            yield f"{name}, {key.replace('_', ' ')}", {key: not parameter.default}
    if "decay" in parameters:
        yield f"{name}, |h|^2 h", {"decay": PowerDecay(2.0)}


def _makes_a_cell(made: Callable[..., Any]) -> bool:
    first = [*inspect.signature(made).parameters][:2]
    return inspect.unwrap(made).__module__.startswith("ctrnn.cells.") and first == ["input_size", "hidden_size"]
