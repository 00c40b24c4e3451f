r"""Make a module's class at other widths, to see whether numbers of its code were made from the widths.

A record at unknown sizes holds the numbers that `__init__` left on the module: with `self.k = 1 / hidden_size` that is the k of
one width. So the class is made again with two other widths, one of them large, and its record compared, operation by operation
and number by number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch import nn

from derivations.tracing.blocks import Unwide
from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.operations import MADE
from derivations.tracing.recorded import record_wide
from derivations.tracing.sizes import INPUT_WIDTHS, STATE_WIDTHS, kept_widths, lengths_of, matrices
from derivations.twins.cells import UnitEquations
from discretize.kernels.record.recording import ModuleRecord, operation_name

__all__ = ["MADE_AT", "which_numbers"]

MADE_AT = "made with "
LARGE = 64


def which_numbers(module: nn.Module, equations: UnitEquations, program: ModuleRecord) -> str:
    r"""Say which numbers of a module a proof for every width holds; nothing where its class has the same ones at other widths.

    Raises:  Unwide where the class has other numbers, or other code, at another width.
    """
    numbers, made = _numbers(program), False

    def is_same(other: nn.Module) -> bool:
        return _operations(record_wide(other, matrices(equations), equations.inputs)[0]) == _operations(program)

    for other, sizes in _remade(module, equations, is_same):
        made = True
        if is_same(other):
            continue
        before, after = dict(_attributes(module)), dict(_attributes(other))
        changed = [f"{name} = {after[name]:g} in place of {value:g}" for name, value in before.items()
                   if value in numbers and after.get(name, value) != value]  # fmt: skip
        raise Unwide(f"{MADE_AT}{sizes}, its code has other numbers{': ' * bool(changed)}{', '.join(changed)}")
    names = {value: name for name, value in _attributes(module)}
    shown = [f"{names[value]} = {value:g}" if value in names else f"{value:g}" for value in sorted(numbers)
             if value in names or value not in (-1, 0, 1)]  # fmt: skip
    if made or not shown:
        return ""
    return f", with the numbers of this module ({', '.join(shown)}), whose class was not made at another width"


def _remade(module: nn.Module, equations: UnitEquations, is_same: Callable[[nn.Module], bool]) -> Iterator[tuple[nn.Module, str]]:
    """Make the class at another width, with what it was made with as far as its attributes and shapes tell."""
    m, n = kept_widths(module)
    if m is None or n is None:
        return
    parameters = [
        p for p in inspect.signature(type(module)).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    known = {p.name: getattr(module, p.name) for p in parameters if hasattr(module, p.name)}
    sizes = {name: k for k, names in enumerate((INPUT_WIDTHS, STATE_WIDTHS)) for name in names if name in known}
    asked = [p.name for p in parameters if p.default is p.empty and p.name not in known]
    for guess in product((1, 0), repeat=len(asked)):  # a width under a name of its own
        chosen = {**sizes, **dict(zip(asked, guess, strict=True))}
        again = _made(module, known, chosen, (m, n), equations)
        if not chosen or again is None or not _is_like(again, module) or (asked and not is_same(again)):
            continue
        for more in (1, LARGE):
            for widths in ((m + 1, 2 * more * n + 1), (m + 1, 2 * more * n), (2 * m, 2 * more * n), (m, 2 * more * n)):
                other = _made(module, known, chosen, widths, equations)
                if other is not None and not _is_like(other, module):
                    yield other, f"{widths[0]} inputs and {widths[1]} units"
                    break
        return


def _made(
    module: nn.Module, known: Mapping[str, Any], sizes: Mapping[str, int], widths: tuple[int, int], equations: UnitEquations
) -> nn.Module | None:
    """Make the class with these widths; None where that is refused, or its parameters are not those of the equations."""
    try:
        with torch.random.fork_rng(devices=[]):
            made = type(module)(**{**known, **{name: widths[k] for name, k in sizes.items()}})
        lengths_of(made, equations)
    except Exception:  # whatever a user's class raises
        return None
    return made


def _is_like(made: nn.Module, module: nn.Module) -> bool:
    """Whether parameters have the same names and shapes."""
    return _shapes(made) == _shapes(module)


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _operations(program: ModuleRecord) -> list[tuple[str, ...]]:
    return [(node.op, str(node.target), str(node.args), str(node.kwargs)) for node in program.graph.nodes]


def _numbers(program: ModuleRecord) -> set[float]:
    """The numbers that a program computes with."""
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    values = (
        value for node in nodes if operation_name(node) in {*ELEMENTWISE, *MADE} for value in (*node.args, *node.kwargs.values())
    )
    return {v for v in values if type(v) in (int, float)}


def _attributes(module: nn.Module) -> Iterator[tuple[str, float]]:
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if type(value) in (int, float) and name not in (*INPUT_WIDTHS, *STATE_WIDTHS):
                yield (f"{path}.{name}" if path else name), value
