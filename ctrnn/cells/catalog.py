r"""Finds the library's cells among its public names: every constructor (input_size, hidden_size, ...) of a cell's file.

Proofs, training and tests find a cell here: one more file in this folder, with its line in the stub, is one more cell for all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args, get_origin, get_type_hints

import ctrnn
from ctrnn.lazy import homes_of, places_of

__all__ = ["constructor_names", "constructors", "variants"]

if TYPE_CHECKING:
    from ctrnn.fields.field import VectorField

    Constructor = Callable[..., VectorField]


def constructor_names() -> list[str]:
    """Return the names of all constructors of cells, in the order of the public names, without importing them."""
    files = ("ctrnn.cells.named", "ctrnn.cells.published.")
    homes = homes_of(str(ctrnn.__file__))
    return [name for name, home in homes.items() if home.startswith(files) and name.islower() and not name.startswith("from_")]


def constructors() -> dict[str, Constructor]:
    """Return all constructors of cells by name."""
    places = places_of(str(ctrnn.__file__))
    return {name: getattr(import_module(places[name]), name) for name in constructor_names()}


def variants() -> Iterator[tuple[str, str, Constructor]]:
    """Yield each cell in its default form, then with each of its options: name, label, constructor.

    "gated", "gated, global", "gated, softplus", "gated, |h|^2 h", ...: choices are parameters of a `Literal` or bool type, and
    `decay`.
    """
    for name, constructor in constructors().items():
        yield name, name, constructor
        hints, parameters = get_type_hints(constructor), inspect.signature(constructor).parameters
        for key, parameter in parameters.items():
            choices = [hint for hint in (hints[key], *get_args(hints[key])) if get_origin(hint) is Literal]  # of a union, too
            for word in (word for choice in choices for word in get_args(choice)):
                if word != parameter.default:
                    yield name, f"{name}, {word}", partial(constructor, **{key: word})
            if hints[key] is bool:
                yield name, f"{name}, {key.replace('_', ' ')}", partial(constructor, **{key: not parameter.default})
        if "decay" in parameters:
            yield name, f"{name}, |h|^2 h", partial(constructor, decay=ctrnn.PowerDecay(2.0))
