r"""A named field written out for kernels: which functions, which exponent, and all its weights stacked.

    a = P + W h            P = Wx x + b, the projection of the whole sequence; W (columns, hidden), candidate first
    tanh     dh/dt = rate * (tanh(a_0) - |h|^r h)                    columns [candidate, gate]
    relu     the same with max(0, a_0)
    reset    the same with tanh(P_1 + sigma(a_0) (W_1 h + b_h))      columns [reset, pull, gate]
    lstm     dc/dt = (f - 1) c + i g, dh/dt = o tanh(f c + i g) - h  columns [i, f, g, o]

A gate is a column for each unit, or one for all; a constant rate has no column. Only the project's own parts are written
out, by their exact type: a subclass, or an instance with a method of its own, may do anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.cells.lstm import LSTMField
from ctrnn.fields.candidates import ReluCandidate, ResetCandidate, TanhCandidate
from ctrnn.fields.decays import LinearDecay, PowerDecay
from ctrnn.fields.parts import Affine
from ctrnn.fields.rates import RATES, FixedRate, Gate
from ctrnn.fields.relaxation import Relaxation

__all__ = ["CellInputs", "Kind", "StackedWeights", "kind_of", "stacked_weights"]


DECAYS = (LinearDecay, PowerDecay)
CANDIDATES: dict[type[nn.Module], str] = {TanhCandidate: "tanh", ReluCandidate: "relu", ResetCandidate: "reset"}


@dataclass(frozen=True)
class Kind:
    r"""What a kernel is made for, sizes and weights aside.

    candidate: "tanh", "relu", "reset" or "lstm"; rate: "constant", "sigmoid", "softplus" or "exponential"; shared: one gate for
    all units; exponent: of the decay, 0 for the linear one.
    """

    candidate: str
    rate: str
    shared: bool
    exponent: float

    def state(self, hidden: int) -> int:
        return 2 * hidden if self.candidate == "lstm" else hidden


class StackedWeights(NamedTuple):
    r"""The weights of a field, still tied to the parameters they come from: gradients flow.

    Shape:   weight_x (columns, input), bias (columns,) or None, weight_h (columns, hidden); bias_h (hidden,), the bias inside
             the reset, or None; rates (hidden,), a constant rate, or None.
    """

    weight_x: Tensor
    bias: Tensor | None
    weight_h: Tensor
    bias_h: Tensor | None
    rates: Tensor | None


class CellInputs(NamedTuple):
    """What an engine reads of a sequence, and `StackedWeights`; of gradients, None for those that nobody needs. Any: mostly
    tensors. Kernels read several networks at once: weights and h0 then have a first axis for them, xs and dt if they differ."""

    xs: Any
    h0: Any
    dt: Any
    weight_x: Any
    bias: Any
    weight_h: Any
    bias_h: Any
    rates: Any

    def projected(self) -> Tensor:
        """(time, batch, columns), to be written over."""
        flat, weights = self.xs.flatten(0, 1), self.weight_x.t()
        found = flat @ weights if self.bias is None else torch.addmm(self.bias, flat, weights)
        return found.unflatten(0, self.xs.shape[:2])

    def sizes(self, substeps: int) -> tuple[int, int, int]:
        """Steps, batch, hidden."""
        return self.xs.shape[-3] * substeps, self.xs.shape[-2], self.weight_h.shape[-1]

    def step_lengths(self, substeps: int, first: int, last: int) -> float | Tensor:
        """Of the steps of samples first to last: a number, or (steps, 1 or batch, 1)."""
        if not isinstance(self.dt, Tensor):
            return self.dt / substeps
        return (self.dt[first:last] / substeps).repeat_interleave(substeps, 0)


def kind_of(field: VectorField) -> Kind | str:
    """What kernel a field needs, or why there is none."""
    if type(field) is LSTMField:
        known: list[Any] = [("field", field, LSTMField), ("gates", field.gates, Affine), ("decay", field.decay, DECAYS)]
        if why := _unknown_part(known) or _unknown_exponent(field.decay):
            return why
        if _exponent(field.decay):
            return "the LSTM's kernel is for the decay c"
        return Kind("lstm", "constant", False, 0.0)
    if type(field) is not Relaxation:
        return f"{type(field).__name__} is not one of the named fields"
    parts: list[tuple[str, nn.Module, type | tuple[type, ...]]] = [
        ("field", field, Relaxation),
        ("candidate", field.candidate, tuple(CANDIDATES)),
        ("rate", field.rate, (FixedRate, *chain.from_iterable(RATES.values()))),
        ("decay", field.decay, DECAYS),
    ]
    if type(field.candidate) is ResetCandidate:
        parts += [("candidate", field.candidate.reset, Affine), ("candidate", field.candidate.pull, Affine)]
    if why := _unknown_part(parts) or _unknown_exponent(field.decay):
        return why
    rate, shared = (field.rate.activation.name, field.rate.shared) if isinstance(field.rate, Gate) else ("constant", False)
    candidate = CANDIDATES[type(field.candidate)]
    return Kind(candidate, rate, shared, _exponent(field.decay))


def _unknown_exponent(decay: nn.Module) -> str | None:
    return "its decay has an exponent that is learned" if isinstance(decay, PowerDecay) and decay.learnable else None


def _exponent(decay: nn.Module) -> float:
    return float(decay.exponent) if isinstance(decay, PowerDecay) else 0.0


def _unknown_part(parts: list[tuple[str, nn.Module, type | tuple[type, ...]]]) -> str | None:
    """Why a part, by its role, may do anything: it is of another type, or has methods that its class does not know of."""
    for role, part, known in parts:
        if type(part) not in (known if isinstance(known, tuple) else (known,)):
            return f"its {role} is a {type(part).__name__}, and kernels are for the named fields' own parts"
        if any(callable(value) and hasattr(type(part), name) for name, value in vars(part).items()):
            return f"its {role}, a {type(part).__name__}, has methods of its own"
    return None


def stacked_weights(field: VectorField) -> StackedWeights:
    """The weights of a field that has a kind, stacked as a kernel reads them."""
    parts: Any = (field.gates, None) if isinstance(field, LSTMField) else (field.candidate, field.rate)
    candidate, rate = parts
    rows: list[Affine] = [candidate.reset, candidate.pull] if isinstance(candidate, ResetCandidate) else [candidate]
    rates = None
    if isinstance(rate, Gate):
        rows.append(rate)
    elif rate is not None:
        h = rows[0].weight_h
        rates = rate.flow(h[:0], h).expand(field.hidden_size)
    bias_h = candidate.bias_h if isinstance(candidate, ResetCandidate) else None
    return StackedWeights(
        _stacked([row.weight_x for row in rows]), _biases(rows), _stacked([row.weight_h for row in rows]), bias_h, rates
    )


def _stacked(weights: list[Tensor]) -> Tensor:
    return weights[0] if len(weights) == 1 else torch.cat(weights)


def _biases(rows: list[Affine]) -> Tensor | None:
    """The biases one after the other, 0 for parts without; None where no part has one."""
    given = [row.weight_h.new_zeros(len(row.weight_h)) if row.bias is None else row.bias for row in rows]
    return None if all(row.bias is None for row in rows) else _stacked(given)
