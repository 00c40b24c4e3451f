r"""Read the equations of a module's own code: dh/dt of a field, the next state of a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from sympy import Basic, Expr, ImmutableDenseMatrix, Symbol, simplify
from sympy.core.function import AppliedUndef
from torch import Tensor, nn

from ctrnn.fields.delayed import DelayedField, WithPast
from ctrnn.fields.field import VectorField, check_field
from ctrnn.fields.noise import noise_channels
from derivations.prover import symbols
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.tracing.guarded import Entries, ordered
from derivations.tracing.reading import read
from derivations.tracing.running import as_recorded
from derivations.tracing.sizes import STATES, Widths, uncompiled
from derivations.tracing.stepped import as_map
from derivations.tracing.trace import trace
from derivations.twins.fields import SymbolicField, SymbolicStep
from discretize.kernels.record.recording import ModuleRecord

__all__ = [
    "READ",
    "RECORDED",
    "RUN",
    "SECONDS",
    "as_written",
    "check_distinct",
    "diffusion_of",
    "letters_of",
    "out_of_time",
    "symbolic",
    "symbolic_field",
    "system_of",
    "with_past",
]


# What is done, as an answer that is out of time says.
RECORDED, READ, RUN = "while torch recorded the code", "while the record was read", "while the code was run in other settings"
SECONDS = 60.0


def symbolic(
    module: nn.Module, *, widths: Widths | None = None, field: bool | None = None, seconds: float | None = SECONDS
) -> SymbolicField | SymbolicStep:
    r"""Read the equations of a module off its torch code.

        >>> symbolic(ctrnn.leaky(1, 1, alpha=0.4))[0].rhs.has(sympy.tanh)
        True

    Args:    module: a small one (two units are enough to see all there is to see): a ctrnn.VectorField, a step of one as a
             discretize.DiscreteCell, or any other torch module, called with (x, h) or (x, (h, c)), and perhaps more; widths:
             of its arguments, the state's second, e.g. {"x": 2, "h": 3} or {"x": 2, "h": (3, 3)}, where its attributes do not
             tell them; field: whether its answer is dh/dt rather than the next state; if not given, ctrnn's fields are fields
             and others are cells; seconds: that it may take, None for no limit.
    Returns: a `SymbolicField` or a `SymbolicStep`: its parameters are the torch names, `parameters["rate.bias"][0]` is the
             letter rate.bias[0] (axes before the last are laid out as rows); iterate for the equations, `.latex()` for the
             page; `.defined_on` says where the code is defined. Of a field with noise, dh = F dt + G dW, the equations are
             dh/dt = F, and `.diffusion` is G.
    Raises:  TypeError for what is not a module; `UnknownOperation`, naming the operation and the line; ValueError for code
             that mixes samples, branches on values, draws random numbers, or changes its buffers or inputs; TimeoutError.
    """
    module, doing = as_map(uncompiled(module)), RECORDED
    try:
        with time_limit(seconds), as_written():
            program = trace(module, widths)
            doing = READ
            system = system_of(program, module, field)
            if isinstance(system, SymbolicField):
                system = replace(system, diffusion=diffusion_of(module, system))
            doing = RUN
            as_recorded(module, program)
            return system
    except OutOfTime:
        raise TimeoutError(out_of_time(seconds, [doing])) from None


def as_written() -> AbstractContextManager[Any]:
    """Return a context in which torch compiles nothing that code asks it to."""
    return cast(AbstractContextManager[Any], torch.compiler.set_stance("force_eager"))


def out_of_time(seconds: float | None, at: Sequence[str]) -> str:
    """Say that time is up, after how much, what was done last, and what takes less."""
    when = ", ".join(["out of time", *([] if seconds is None else [f"after {seconds:g} s"]), *at[-1:]])
    return f"{when}; fewer units take less, and two show what the code of one unit does"


def with_past(field: object) -> WithPast | None:
    """Return a copy of a field with delays that reads the past as an input, in float64, as its delays are; None of others."""
    return WithPast(deepcopy(field).double()) if isinstance(field, DelayedField) else None


def symbolic_field(field: VectorField) -> SymbolicField:
    """Read the equations of a ctrnn field, which alone can be put on another clock.

    Raises:  TypeError for another module; what `symbolic` raises.
    """
    return cast(SymbolicField, symbolic(check_field(field)))


def system_of(program: ModuleRecord, module: nn.Module, field: bool | None = None) -> SymbolicField | SymbolicStep:
    """Read the equations of a recorded program."""
    field = isinstance(module, VectorField) if field is None else field
    arrays, signals = letters_of(program, module, field)
    values = read(program, {**arrays, **signals})
    state = tuple(u for name in program.inputs[program.state] for u in signals[name])
    inputs = tuple(u for names in program.inputs.values() for name in names for u in signals[name] if u not in state)
    parameters = {name: _matrix(entries) for name, entries in arrays.items()}
    check_distinct([u for group in signals.values() for u in group], set().union(*parameters.values()))
    conditions: set[Basic] = set().union(*(v.where for v in values))
    column = ImmutableDenseMatrix([v.expr for v in values])
    if len(column) != len(state):
        raise ValueError(f"the code answers with {len(column)} numbers for a state of {len(state)}.")
    kind = SymbolicField if field else SymbolicStep
    return kind(program.name, "this project", state, inputs, parameters, column, ordered(conditions))


def letters_of(program: ModuleRecord, module: nn.Module, field: bool) -> tuple[Mapping[str, Entries], dict[str, tuple[Any, ...]]]:
    """Return the letters of a module's parameters, by their names, and those of its arguments, by placeholder."""
    return _parameters(module), _arguments(program, field)


class _Diffused(nn.Module):
    """G dW of a field, as a module of (x, dW) and h."""

    def __init__(self, field: VectorField, channels: int) -> None:
        super().__init__()
        self.field, self.input_size, self.hidden_size = field, field.input_size + channels, field.state_size

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        own = self.field.input_size
        return self.field.diffuse(self.field.project(x[..., :own]), h, x[..., own:])


def diffusion_of(module: nn.Module, system: SymbolicField | SymbolicStep) -> ImmutableDenseMatrix | None:
    r"""Return G of dh = F dt + G dW, (state, channels), in the letters of the field's own equations; None without noise.

    Raises:  what `symbolic` raises; ValueError for noise that is lost in a part, and for a `diffuse` that is not linear in dW.
    """
    if not isinstance(module, VectorField) or not (channels := noise_channels(module)):
        return None
    with_noise = system_of(trace(driven := _Diffused(module, channels)), driven, field=True)
    increments = with_noise.inputs[len(system.inputs) :]
    letters = {u: own for name, matrix in system.parameters.items()
               for u, own in zip(with_noise.parameters[f"field.{name}"], matrix, strict=True)}  # fmt: skip

    def coefficient(e: Expr) -> Expr:
        e = simplify(e) if e.has(*increments) else e
        if e.has(*increments):
            raise ValueError(f"`diffuse` of {type(module).__name__} is not linear in the increments of the noise.")
        return e

    return with_noise.flow.jacobian(ImmutableDenseMatrix(increments)).xreplace(letters).applyfunc(coefficient)


def _arguments(program: ModuleRecord, field: bool) -> dict[str, tuple[Any, ...]]:
    """Make letters for every placeholder: h_1, h_2 and c_1, c_2 for the state, x_1, ... for the first argument."""
    letters: dict[str, tuple[Any, ...]] = {}
    for number, (argument, names) in enumerate(program.inputs.items()):
        for place, name in enumerate(names):
            letter = STATES[place] if argument == program.state else "x" if number == 0 else argument
            width = program.width(name)
            letters[name] = symbols.signals(letter, width) if field else _letters(letter, width)
    return letters


def check_distinct(arguments: Sequence[object], parameters: Iterable[object]) -> None:
    """Raise ValueError if two different numbers share a letter: what is proved of them would be of one."""
    names = Counter(str(getattr(u, "func", u) if isinstance(u, AppliedUndef) else u) for u in (*arguments, *parameters))
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"two of the module's arguments and parameters would be called {min(twice)}; rename one of them.")


def _letters(letter: str, n: int) -> tuple[Symbol, ...]:
    return tuple(Symbol(f"{letter}_{i}", real=True) for i in range(1, n + 1))


def _parameters(module: nn.Module) -> Mapping[str, Entries]:
    """Make a letter for each entry; a parameter under two names has the letters of the first."""
    letters: dict[str, Entries] = {}
    first: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        home = first.setdefault(id(parameter), name)
        letters[name] = np.empty(tuple(parameter.shape), dtype=object)
        for index in np.ndindex(*parameter.shape):
            letters[name][index] = symbols.entry(home, index)
    return letters


def _matrix(entries: Entries) -> ImmutableDenseMatrix:
    columns = entries.shape[-1] if entries.ndim > 1 else 1
    return ImmutableDenseMatrix(entries.size // max(columns, 1), columns, list(entries.reshape(-1)))
