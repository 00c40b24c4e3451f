r"""Sizes: the widths of a module's arguments, as given or as its attributes say, and equations for the i-th unit at those."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TypeAlias

import sympy
import torch
from sympy import Expr, MatrixSymbol, Symbol
from torch import nn

from ctrnn import checks
from derivations.twins.cells import UnitEquations

__all__ = [
    "INPUT_WIDTHS",
    "STATES",
    "STATE_WIDTHS",
    "Width",
    "Widths",
    "at_sizes",
    "checked_widths",
    "kept_widths",
    "lengths_of",
    "matrices",
    "uncompiled",
]

# The letters of a state of several tensors, as the LSTM's: h and c, and letters after them.
STATES = "hcpqrs"
# The width of one tensor, or of each of several: {"x": 2, "h": (3, 3)}.
Width: TypeAlias = "int | tuple[int, ...]"
Widths: TypeAlias = Mapping[str, Width]

INPUT_WIDTHS = ("input_size", "in_features", "sensory_size")
STATE_WIDTHS = ("state_size", "hidden_size")


def checked_widths(module: nn.Module, widths: Widths | None) -> dict[str, Width]:
    r"""Check the widths given, or read the module's own.

    Raises:  TypeError for what is no module, or has no Python code; ValueError for widths that do not fit its arguments.
    """
    checks.instance("module", module, nn.Module)
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError("`module` is compiled by torch.jit, and has no Python code to record; give the module it was made of.")
    if widths is None:
        return _own_widths(module)
    if not isinstance(widths, Mapping) or not all(_is_width(width) for width in widths.values()):
        raise ValueError(f'`widths` must be as {{"x": 2, "h": 3}}, a number from 1 on or a tuple of them each, got {widths!r}.')
    signature = inspect.signature(module.forward)
    fixed = [a.name for a in signature.parameters.values() if a.kind is not a.VAR_POSITIONAL]
    try:
        fits = all(name == argument for name, argument in signature.bind(*widths).arguments.items() if name in fixed)
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"`widths` names {', '.join(map(str, widths))}; {type(module).__name__} is called with {', '.join(fixed)}."
        )
    return dict(widths)


def uncompiled(module: nn.Module) -> nn.Module:
    r"""Return the module that torch.compile was given, or the module itself.

    Raises:  ValueError where a part of it is compiled, whose code torch would not record.
    """
    module = getattr(module, "_orig_mod", module)
    if isinstance(module, nn.Module):
        for name, part in module.named_modules():
            if hasattr(part, "_orig_mod"):
                raise ValueError(f"its part `{name}` is compiled by torch.compile; prove the module before it is compiled.")
    return module


def _is_width(width: object) -> bool:
    return all(isinstance(n, int) and n > 0 for n in (width if isinstance(width, tuple) else (width,)))


def _own_widths(module: nn.Module) -> dict[str, Width]:
    """Read the widths of input and state off a module's attributes.

    Raises:  ValueError where they do not.
    """
    arguments = list(inspect.signature(module.forward).parameters.values())
    open_ended = [a.name for a in arguments[2:] if a.default is a.empty and a.kind is a.POSITIONAL_OR_KEYWORD]
    known = kept_widths(module)
    named = [a.name for a in arguments[:2] if a.kind is a.POSITIONAL_OR_KEYWORD]
    two = len(named) == 2 and not open_ended
    if not two or None in known:
        attributes = "keep them as its attributes `input_size` and `hidden_size`, or " if two else ""
        raise ValueError(
            f"the widths of {type(module).__name__}'s arguments ({', '.join(a.name for a in arguments)}) are not known; "
            f"{attributes}give them as `widths`, the state's second: "
            f"widths={{{', '.join(f'{a.name!r}: 3' for a in arguments)}}}."
        )
    x, h = known
    return {arguments[0].name: x, arguments[1].name: (h, h) if isinstance(module, nn.LSTMCell) else h}  # type: ignore[dict-item]


def kept_widths(module: nn.Module) -> list[int | None]:
    """The widths of input and state that a module keeps as attributes of the usual names."""
    return [next((getattr(module, name) for name in names if isinstance(getattr(module, name, None), int)), None)
            for names in (INPUT_WIDTHS, STATE_WIDTHS)]  # fmt: skip


def matrices(equations: UnitEquations) -> dict[str, MatrixSymbol]:
    """Return the letters of the equations by name."""
    return {u.name: u for e in (*equations.units.values(), *equations.unread) for u in e.atoms(MatrixSymbol)}


def at_sizes(module: nn.Module, equations: UnitEquations) -> tuple[dict[str, Width], list[Expr]]:
    r"""Write equations for the i-th unit out at a module's sizes: its widths, and the right sides in the order of its state.

    Raises:  ValueError where the shapes of the module's parameters are not those of the equations.
    """
    checks.instance("module", module, nn.Module)
    sizes = lengths_of(module, equations)
    if unknown := sorted(
        {str(n) for m in matrices(equations).values() for size in m.shape for n in size.free_symbols - set(sizes)}
    ):
        raise ValueError(
            f"no parameter or attribute of {type(module).__name__} tells the size {unknown[0]} of the equations, whose letters "
            f"are {', '.join(sorted(matrices(equations)))}."
        )
    names = [*inspect.signature(module.forward).parameters]
    widths: dict[str, Width] = {}
    letters: dict[MatrixSymbol, sympy.MatrixBase] = {}
    for place, (name, part) in enumerate(zip(names, equations.inputs, strict=False)):
        columns = part if isinstance(part, tuple) else (part,)
        lengths = tuple(int(sympy.sympify(column.shape[0]).xreplace(sizes)) for column in columns)
        widths[name] = lengths if isinstance(part, tuple) else lengths[0]
        for k, (column, length) in enumerate(zip(columns, lengths, strict=True)):
            letter = STATES[k] if place == 1 else "x" if place == 0 else name
            letters[column] = sympy.Matrix([Symbol(f"{letter}_{j}", real=True) for j in range(1, length + 1)])
    right = [
        _written_out(rhs.xreplace({equations.index: sympy.Integer(k)}), sizes, letters)
        for unit, rhs in equations.units.items()
        for k in range(int(unit.shape[0].xreplace(sizes)))
    ]
    return widths, right


def lengths_of(module: nn.Module, equations: UnitEquations) -> dict[Expr, Expr]:
    r"""Find the sizes that the letters of equations have at a module.

    Raises:  ValueError where the shapes of the module's parameters are not those of the equations.
    """
    known = matrices(equations)
    facts = [
        (size, length)
        for name, parameter in module.named_parameters()
        if name in known
        for size, length in zip(known[name].shape, parameter.shape, strict=False)
    ]
    sizes = {size: sympy.Integer(length) for size, length in facts if isinstance(size, Symbol)}
    free = {u for size, _ in facts for u in size.free_symbols} - set(sizes)
    for size, length in facts:
        for u in size.free_symbols & free:
            (sizes[u],) = sympy.solve(size.xreplace(sizes) - length, u) or (sympy.Integer(0),)
            free.discard(u)
    for width, part in zip(kept_widths(module), equations.inputs, strict=False):
        column = part[0] if isinstance(part, tuple) else part
        if isinstance(column.shape[0], Symbol) and column.shape[0] not in sizes and width is not None:
            sizes[column.shape[0]] = sympy.Integer(width)
    if wrong := [f"{size} and {length}" for size, length in facts if sympy.sympify(size).xreplace(sizes) != length]:
        raise ValueError(f"the parameters of {type(module).__name__} are of other shapes than in the equations: {wrong[0]}.")
    return sizes


def _written_out(e: Expr, sizes: Mapping[Expr, Expr], letters: Mapping[MatrixSymbol, sympy.MatrixBase]) -> Expr:
    e = e.xreplace(dict(sizes)).doit()
    shaped = {column.name: entries for column, entries in letters.items()}
    elements = e.atoms(sympy.matrices.expressions.matexpr.MatrixElement)
    return e.xreplace({u: shaped[u.args[0].name][int(u.args[1])] for u in elements if u.args[0].name in shaped})
