r"""Compute a counterexample: the module's own numbers beside those of the equations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import torch
from sympy import Add, Expr, S
from sympy.core.function import AppliedUndef
from torch import Tensor, nn

from derivations.twins.fields import SymbolicField, SymbolicStep
from discretize.kernels.record.copies import copied_with
from discretize.kernels.record.recording import ModuleRecord

__all__ = ["Replay", "Replayed"]


@dataclass(frozen=True)
class Replayed:
    """What torch computes and what the equations say for each unit, in double precision; `terms`: how large the terms are that
    the equation adds up, of which rounding leaves a share."""

    point: Mapping[Expr, Expr]
    units: tuple[Expr, ...]
    torch: tuple[float, ...]
    equations: tuple[float, ...]
    terms: tuple[float, ...]

    @property
    def differs(self) -> bool:
        rows = zip(self.torch, self.equations, self.terms, strict=True)
        return any(abs(a - b) > 1e-9 * max(abs(a), abs(b), 1e-3 * terms) for a, b, terms in rows)

    def __str__(self) -> str:
        place = ", ".join(f"{u} = {value}" for u, value in self.point.items() if value != 0) or "all letters 0"
        rows = (f"{u}: torch {a:.10g}, equation {b:.10g}" for u, a, b in zip(self.units, self.torch, self.equations, strict=True))
        return "\n".join([f"at {place} (0 for the rest)", *rows])


@dataclass(frozen=True)
class Replay:
    """Computes both sides at a point; letters that it does not name are 0."""

    module: nn.Module
    program: ModuleRecord
    system: SymbolicField | SymbolicStep
    right: Sequence[Expr]
    point: Mapping[Expr, Expr] = field(default_factory=dict)

    def __call__(self) -> Replayed:
        parameters, buffers = dict(self.module.named_parameters()), [*self.module.buffers()]
        values = [self._tensor(self.system.parameters[name]).reshape(p.shape) for name, p in parameters.items()]
        values += [b.double() if b.is_floating_point() else b for b in buffers]
        with torch.no_grad():
            answer = copied_with(self.module, [*parameters.values(), *buffers], values)(*self._arguments())
        computed = self.program.state_of(answer)
        claimed = tuple(self._number(e) for e in self.right)
        terms = tuple(sum(abs(self._number(term)) for term in Add.make_args(e)) for e in self.right)
        numbers = tuple(torch.cat([part.reshape(-1) for part in computed]).tolist())
        return Replayed(self.point, self.system.state, numbers, claimed, terms)

    def _arguments(self) -> list[Any]:
        """Make one sample: the numbers of the state and of the inputs in the order of the module's arguments."""
        state, inputs = iter(self.system.state), iter(self.system.inputs)
        letters = {name: state if argument == self.program.state else inputs
                   for argument, names in self.program.inputs.items() for name in names}  # fmt: skip
        tensors = {
            name: self._tensor([next(ahead) for _ in range(self.program.width(name))])[None] for name, ahead in letters.items()
        }
        return self.program.packed(tensors)

    def _tensor(self, letters: Any) -> Tensor:
        return torch.tensor([self._number(u) for u in letters], dtype=torch.float64)

    def _number(self, e: Any) -> float:
        e = e.xreplace(dict(self.point))
        value = e.xreplace(dict.fromkeys(_letters(e), S.Zero)).evalf()
        return float(value) if value.is_extended_real else nan  # where another unit is not defined at this point


def _letters(e: Expr) -> set[Expr]:
    return e.atoms(AppliedUndef) | e.free_symbols
