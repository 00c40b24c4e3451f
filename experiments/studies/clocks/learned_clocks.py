r"""Measures learned gates on symbols that are held: how much time they let pass, and how far states depend on the speed.

elapsed      sum of -log(1 - g) over a symbol's repetitions; what is kept of the state after them is e^-elapsed
             for a decay |h|^r h: the sum of g          for the LSTM: of -log f          invariant: the same for 1 and n of them
deviation    between a symbol's end at n repetitions and at one, r.m.s., by that between different sequences: 0 invariant,
             1 as far apart as strangers
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import LSTMField, PowerDecay, Relaxation, VectorField
from experiments.studies.clocks.oracle import StopAndGo, played
from experiments.studies.study import Row

__all__ = ["at_change", "elapsed_time", "gate_values", "on_held_symbols"]

FROM = 3  # symbols left out at the beginning, while states leave zero


def gate_values(field: VectorField, xs: Tensor, states: Tensor) -> Tensor:
    r"""Compute g along a run, 1 - f for the LSTM.

    Shape:   xs (time, batch, input), states (time + 1, batch, state) -> (time, batch, hidden).
    """
    before = states[:-1]
    if isinstance(field, LSTMField):
        _, f, _, _ = field.gates(xs, field.visible(before)).chunk(4, -1)
        return torch.sigmoid(-f)
    if not isinstance(field, Relaxation):
        raise TypeError(f"a {type(field).__name__} has no gate that could be read as a clock.")
    return field.rate(xs, before).expand_as(before)


def elapsed_time(field: VectorField, g: Tensor) -> Tensor:
    """Compute the time that a sample lets pass on the clock of a unit's gate."""
    if isinstance(field, Relaxation | LSTMField) and isinstance(field.decay, PowerDecay):
        return g
    return -torch.log1p(-g.clamp(max=1 - torch.finfo(g.dtype).eps))


def on_held_symbols(field: VectorField, symbols: Tensor, repeats: tuple[int, ...]) -> list[dict[str, float]]:
    """Measure, with every symbol n times, the elapsed time by that at n = 1, median and least of units, and the deviation."""
    rows = []
    alone: tuple[Tensor, Tensor] | None = None
    for n in (1, *(n for n in repeats if n != 1)):
        xs = symbols.repeat_interleave(n, 0)
        states = played(field, xs)
        passed = elapsed_time(field, gate_values(field, xs, states)).unflatten(0, (-1, n)).sum(1)[FROM:].mean((0, 1))
        ends = field.visible(states[n::n])[FROM:]
        if alone is None:
            alone = passed, ends
        apart = (alone[1] - alone[1].roll(1, dims=1)).square().mean().sqrt()
        rows.append(
            {
                "repeats": n,
                "elapsed": float((passed / alone[0]).median()),
                "least_elapsed": float((passed / alone[0]).min()),
                "deviation": float((ends - alone[1]).square().mean().sqrt() / apart),
            }
        )
    return rows


def at_change(field: VectorField, symbols: Tensor, clock: StopAndGo) -> Row:
    """Measure gates at a symbol's first repetition and at the others, and how well the best unit's follows the oracle."""
    xs = clock.play(symbols)
    g, first = gate_values(field, xs, played(field, xs))[FROM:], clock.first[FROM:]
    centred, goes = g - g.mean((0, 1)), (first.to(g) - first.to(g).mean())[..., None]
    together = (centred * goes).mean((0, 1)) / (centred.square().mean((0, 1)) * goes.square().mean()).sqrt()
    return {
        "first": float(g[first].mean()),
        "others": float(g[~first].mean()),
        # A constant gate follows nothing: its correlation would be 0/0.
        "correlation": float(together.nan_to_num(0.0).max()) if float(centred.abs().max()) > 1e-9 else 0.0,
    }
