r"""Equations for the i-th unit written out at the sizes of a module."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import sympy
from sympy import Expr, MatrixSymbol, Symbol
from torch import nn

from derivations.tracing.widths.arguments import INPUT_WIDTHS, STATE_WIDTHS, Width
from derivations.twins.cells import UnitEquations

__all__ = ["at_sizes", "matrices"]


def matrices(equations: UnitEquations) -> dict[str, MatrixSymbol]:
    """The letters of the equations by name."""
    return {u.name: u for e in (*equations.units.values(), *equations.unread) for u in e.atoms(MatrixSymbol)}


def at_sizes(module: nn.Module, equations: UnitEquations) -> tuple[dict[str, Width], list[Expr]]:
    r"""The widths of a module's arguments, and the right sides for each of its units in the order of its state.

    Raises:  ValueError where the shapes of the module's parameters are not those of the equations.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"`module` must be a torch.nn.Module, got {type(module).__name__}.")
    sizes = _sizes(module, equations)
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
            letter = "hcpqrs"[k] if place == 1 else "x" if place == 0 else name
            letters[column] = sympy.Matrix([Symbol(f"{letter}_{j}", real=True) for j in range(1, length + 1)])
    right = [
        _written_out(rhs.xreplace({equations.index: sympy.Integer(k)}), sizes, letters)
        for unit, rhs in equations.units.items()
        for k in range(int(unit.shape[0].xreplace(sizes)))
    ]
    return widths, right


def _sizes(module: nn.Module, equations: UnitEquations) -> dict[Expr, Expr]:
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
    for attribute, part in zip((INPUT_WIDTHS, STATE_WIDTHS), equations.inputs, strict=False):
        column = part[0] if isinstance(part, tuple) else part
        found = [getattr(module, name) for name in attribute if isinstance(getattr(module, name, None), int)]
        if isinstance(column.shape[0], Symbol) and column.shape[0] not in sizes and found:
            sizes[column.shape[0]] = sympy.Integer(found[0])
    if wrong := [f"{size} and {length}" for size, length in facts if sympy.sympify(size).xreplace(sizes) != length]:
        raise ValueError(f"the parameters of {type(module).__name__} are of other shapes than in the equations: {wrong[0]}.")
    return sizes


def _written_out(e: Expr, sizes: Mapping[Expr, Expr], letters: Mapping[MatrixSymbol, sympy.MatrixBase]) -> Expr:
    e = e.xreplace(dict(sizes)).doit()
    shaped = {column.name: entries for column, entries in letters.items()}
    elements = e.atoms(sympy.matrices.expressions.matexpr.MatrixElement)
    return e.xreplace({u: shaped[u.args[0].name][int(u.args[1])] for u in elements if u.args[0].name in shaped})
