r"""Draws clocks that stop and go, multiplies the gates of cells by them, and puts other gates in the place of learned ones.

    shown     A A A B C C ..      each symbol once or several times
    first     1 0 0 1 1 0 ..      the step of a clock that goes at a symbol's first repetition: a causal function of what is shown
    last      0 0 1 1 0 1 ..      at its last, which is known only afterwards: floor c(t + 1) - floor c(t) of x(floor c(t))

    product form   h <- h + step g (candidate - decay)         a gate's own network goes on at every sample
    LSTM           i <- step i,  f <- 1 - step (1 - f)         h = o tanh(c) at every sample, whatever the step
    instead        step = g'/g: of a learned gate g only its place is left; of the LSTM 1 - f is g, and i as much more, up to 1

A cell is invariant if after every sample its state is that of the unwarped sequence after as many symbols as the clock has read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ctrnn import LSTMField, Relaxation, VectorField
from ctrnn.cells.network_gate import NetworkGated
from ctrnn.fields.field import check_field
from ctrnn.fields.rates import InputFreeRate

__all__ = ["STEPS", "OracleCell", "StopAndGo", "gate_values", "has_gate", "played", "played_by_gates"]

STEPS = ("first", "last")


@dataclass(frozen=True, eq=False)
class StopAndGo:
    r"""Holds what is shown at each sample, of each sequence on a clock of its own.

    Shape:   shown (time, batch): number of the symbol; first, last (time, batch): whether it begins, and ends, there.
    """

    shown: Tensor
    first: Tensor
    last: Tensor

    @classmethod
    def random(cls, symbols: int, batch: int, most: int, generator: torch.Generator) -> StopAndGo:
        """Draw for every symbol 1 to `most` repetitions, each number as probable; as long as the shortest of the sequences is."""
        return cls.of(torch.randint(1, most + 1, (symbols, batch), generator=generator))

    @classmethod
    def of(cls, repeats: Tensor) -> StopAndGo:
        """Make the clock of these repetitions, (symbols, batch), each at least 1."""
        ends = repeats.cumsum(0)
        times = torch.arange(int(ends[-1].min()))
        shown = torch.searchsorted(ends.T.contiguous(), times.expand(ends.shape[1], -1).contiguous(), right=True).T
        first = shown.diff(dim=0, prepend=torch.full_like(shown[:1], -1)) > 0
        last = (times[:, None] + 1) == ends.gather(0, shown)
        return cls(shown, first, last)

    def step(self, goes: str) -> Tensor:
        """Return 0 or 1 at each sample, of the clock that goes at the "first" or at the "last" repetition."""
        return self.first if goes == "first" else self.last

    def play(self, symbols: Tensor) -> Tensor:
        """Show symbols on the clock: (symbols, batch, ...) -> (time, batch, ...)."""
        return symbols[self.shown, torch.arange(symbols.shape[1])]


class OracleCell(nn.Module):
    r"""Steps a field by a unit Euler step, its gates multiplied by a step that is given: cell(x, step, h) -> h.

    Args:    field: of product form with a gate, or an LSTM; shared, not copied.
    Shape:   x (batch, input), step (batch,) or (batch, hidden), h (batch, state) -> (batch, state).
    Raises:  ValueError for a field without a gate.
    Source:  this project, results 10 and 11; derivations/texts/own_networks.py.
    """

    def __init__(self, field: VectorField) -> None:
        super().__init__()
        if not has_gate(check_field(field)):
            raise ValueError(f"an oracle multiplies gates, and this {type(field).__name__} has none: its rate is a constant.")
        self.field = field

    def forward(self, x: Tensor, step: Tensor, h: Tensor) -> Tensor:
        step = step.to(h).reshape(len(h), -1)
        if isinstance(self.field, LSTMField):
            return self._lstm(self.field.project(x), step, h)
        if isinstance(self.field, NetworkGated):  # the state of its network is behind its own
            step = torch.cat([step.expand(-1, self.field.hidden_size), torch.ones_like(h[:, self.field.hidden_size :])], -1)
        return h + step * self.field.flow(self.field.project(x), h)

    def _lstm(self, projected: Tensor, step: Tensor, state: Tensor) -> Tensor:
        hidden, cell = state.chunk(2, -1)
        i, f, g, o = self.field.gates.flow(projected, hidden).chunk(4, -1)  # type: ignore[union-attr,operator]
        written = (step * i.sigmoid()).clamp(max=1) * g.tanh()
        cell = cell + (written - step * (1 - f.sigmoid()) * self.field.decay(cell))  # type: ignore[operator]
        return torch.cat([o.sigmoid() * cell.tanh(), cell], -1)


def has_gate(field: VectorField) -> bool:
    """Return whether there is something that an oracle could multiply."""
    in_product = isinstance(field, Relaxation) and not isinstance(field.rate, InputFreeRate)
    return in_product or isinstance(field, LSTMField | NetworkGated)


def gate_values(field: VectorField, xs: Tensor, before: Tensor) -> Tensor:
    r"""Compute g at samples and the states before them, 1 - f for the LSTM.

    Shape:   xs (..., input), before (..., state) -> (..., hidden).
    Raises:  TypeError for another field.
    """
    if isinstance(field, LSTMField):
        _, f, _, _ = field.gates(xs, field.visible(before)).chunk(4, -1)
        return torch.sigmoid(-f)
    if not isinstance(field, Relaxation | NetworkGated):
        raise TypeError(f"a {type(field).__name__} has no gate that could be read as a clock.")
    own, network = before.split([field.hidden_size, field.state_size - field.hidden_size], -1)
    return field.rate(xs, field.network.visible(network) if isinstance(field, NetworkGated) else own).expand_as(own)


def played(field: VectorField, xs: Tensor, steps: Tensor | None = None) -> Tensor:
    r"""Compute states by unit Euler steps, the initial one first; with steps by an `OracleCell`.

    One sample at a time on every clock: a product over a whole sequence would round by how long the sequence is.

    Shape:   xs (time, batch, input), steps (time, batch) -> (time + 1, batch, state).
    """
    h = field.initial_state(xs.shape[1])
    states = [h]
    if steps is None:
        for x in xs.unbind():
            states.append(states[-1] + field(x, states[-1]))
    else:
        cell = OracleCell(field)
        for x, step in zip(xs.unbind(), steps.unbind(), strict=True):
            states.append(cell(x, step, states[-1]))
    return torch.stack(states)


def played_by_gates(field: VectorField, xs: Tensor, gates: Tensor) -> Tensor:
    r"""Compute states by unit Euler steps with these gates in the place of the learned ones, the initial one first.

    Shape:   xs (time, batch, input), gates (time, batch, hidden), of values in (0, 1) -> (time + 1, batch, state).
    """
    cell, states = OracleCell(field), [field.initial_state(xs.shape[1])]
    for x, g in zip(xs.unbind(), gates.unbind(), strict=True):
        states.append(cell(x, g / gate_values(field, x, states[-1]), states[-1]))
    return torch.stack(states)
