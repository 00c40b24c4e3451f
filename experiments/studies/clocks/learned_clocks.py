r"""Measures learned gates on symbols that are held, and puts other clocks in their place.

elapsed      sum of -log(1 - g) over a symbol's repetitions; what is kept of the state after them is e^-elapsed
             for a decay |h|^r h: the sum of g          for the LSTM: of -log f          a clock: the same for 1 and n of them
deviation    between a symbol's end at n repetitions and at one, r.m.s., by that between different sequences: 0 invariant,
             1 as far apart as strangers

In a learned gate's place, with E_i the time that a symbol takes unit i in the mean over what was shown:

    g_i(t) = 1 - e^(-E_i c'(t))       c' = 1 at a symbol's first sample, then 0        c' = 1/n, of n repetitions
                                      c' the same at all samples: no clock
    the mean of g_i over all samples of the symbol shown, or of it after the same one: what is written, at no time in particular
    the gates of another sequence
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import PowerDecay, VectorField
from discretize import SequenceModel
from experiments.studies.clocks.oracle import StopAndGo, gate_values, has_gate, played, played_by_gates
from experiments.studies.study import Row

__all__ = ["CLOCKS", "at_change", "elapsed_time", "on_held_symbols", "under_other_clocks"]

FROM = 3  # symbols left out at the beginning, while states leave zero
CLOCKS = ("learned", "goes at the first", "1/n", "constant", "by symbol", "by two symbols", "another's")


def elapsed_time(field: VectorField, g: Tensor) -> Tensor:
    """Compute the time that a sample lets pass on the clock of a unit's gate."""
    if isinstance(getattr(field, "decay", None), PowerDecay):
        return g
    return -torch.log1p(-g.clamp(max=1 - torch.finfo(g.dtype).eps))


def on_held_symbols(field: VectorField, symbols: Tensor, repeats: tuple[int, ...]) -> list[dict[str, float]]:
    """Measure, with every symbol n times, the elapsed time by that at n = 1, median and least of units, and the deviation."""
    rows = []
    alone: tuple[Tensor, Tensor] | None = None
    for n in (1, *(n for n in repeats if n != 1)):
        xs = symbols.repeat_interleave(n, 0)
        states = played(field, xs)
        passed = elapsed_time(field, gate_values(field, xs, states[:-1])).unflatten(0, (-1, n)).sum(1)[FROM:].mean((0, 1))
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
    later = clock.shown >= FROM
    g, first = gate_values(field, xs, played(field, xs)[:-1])[later], clock.first[later]
    centred, goes = g - g.mean(0), (first.to(g) - first.to(g).mean())[:, None]
    together = (centred * goes).mean(0) / (centred.square().mean(0) * goes.square().mean()).sqrt()
    return {
        "first": float(g[first].mean()),
        "others": float(g[~first].mean()),
        # A constant gate follows nothing: its correlation would be 0/0.
        "correlation": float(together.nan_to_num(0.0).max()) if float(centred.abs().max()) > 1e-9 else 0.0,
    }


def under_other_clocks(model: SequenceModel, symbols: Tensor, targets: Tensor, clock: StopAndGo) -> list[Row]:
    r"""Measure the share of right answers, at all samples and at the last of each symbol, by the learned gates and by others.

    Shape:   symbols (symbols, batch, input), one-hot, targets (symbols, batch), the symbol before; fields without a gate have
             a row of their own alone.
    Raises:  TypeError for a decay |h|^r h, of which e^-elapsed is not what is kept.
    """
    field, xs, aims, later = model.field, clock.play(symbols), clock.play(targets), clock.shown >= FROM
    if isinstance(getattr(field, "decay", None), PowerDecay):
        raise TypeError("a decay |h|^r h keeps no share of the state that a clock could set.")
    states = played(field, xs)
    runs = {"learned": states}
    if has_gate(field):
        g = gate_values(field, xs, states[:-1])
        begun = float(clock.first.sum())  # symbols, the last ones cut off
        passed = elapsed_time(field, g).sum((0, 1)) / begun
        repeats = torch.zeros_like(targets).scatter_add_(0, clock.shown, torch.ones_like(clock.shown))
        speeds = {
            "goes at the first": clock.first.to(g),
            "1/n": 1 / repeats.gather(0, clock.shown).to(g),
            "constant": torch.full_like(g[..., 0], begun / clock.shown.numel()),
        }
        gates = {name: -torch.expm1(-speed[..., None] * passed) for name, speed in speeds.items()}
        shown = xs.argmax(-1)
        for name, kind in (("by symbol", shown), ("by two symbols", shown * xs.shape[-1] + aims)):
            gates[name] = mean_of_kind(g, kind)
        gates["another's"] = g.roll(1, dims=1)
        runs |= {name: played_by_gates(field, xs, other) for name, other in gates.items()}
    rows: list[Row] = []
    for name, found in runs.items():
        right = (model.read_out(field.visible(found[1:])).argmax(-1) == aims).double()
        shares = {"all_samples": later, "at_ends": later & clock.last}
        rows.append({"gate": name, **{share: float(right[counted].mean()) for share, counted in shares.items()}})
    return rows


def mean_of_kind(values: Tensor, kind: Tensor) -> Tensor:
    """Replace values (time, batch, units) by their mean over all samples of the same kind, a number (time, batch) from 0."""
    flat = kind.flatten()
    sums = values.new_zeros(int(flat.max()) + 1, values.shape[-1]).index_add_(0, flat, values.flatten(0, 1))
    return (sums / flat.bincount()[:, None])[flat].reshape(values.shape)
