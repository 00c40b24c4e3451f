r"""Measures learned gates on symbols that are held, and puts other clocks in their place.

elapsed      sum of -log(1 - g) over a symbol's repetitions; what is kept of the state after them is e^-elapsed
             for a decay |h|^r h: the sum of g          for the LSTM: of -log f          a clock: the same for 1 and n of them

In the place of learned gates:

    g(t) = 1 - e^(-E c'(t))       c' = 1 at a symbol's first sample, then 0        c' = 1/n, of n repetitions
                                  E one number for all units, that of `TIMES` with which most answers on other sequences are right
    a constant                    each unit's mean
    a wait                        the learned gates at the first samples of a symbol, then 0
    no time                       each unit's mean over all samples of the symbol shown, or of it after the same one
    another's                     the learned gates of another sequence
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import PowerDecay, VectorField
from discretize import SequenceModel
from experiments.studies.clocks.oracle import StopAndGo, gate_values, has_gate, played, played_by_gates
from experiments.studies.study import Row
from experiments.tasks.task import said_right

__all__ = ["CLOCKS", "at_change", "elapsed_time", "on_held_symbols", "under_other_clocks"]

Answered = tuple[Tensor, Tensor, StopAndGo]  # symbols, targets, and the clock they are shown on
FROM = 3  # symbols left out at the beginning, while states leave zero
CLOCKS = ("learned", "goes at the first", "1/n", "constant", "waits after 5", "by symbol", "by two symbols", "another's")
TIMES = (0.7, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 4.0, 8.0)  # that a symbol takes on a clock
WAITS = 5  # samples after which learned gates are shut


def elapsed_time(field: VectorField, g: Tensor) -> Tensor:
    """Compute the time that a sample lets pass on the clock of a unit's gate."""
    if isinstance(getattr(field, "decay", None), PowerDecay):
        return g
    return -torch.log1p(-g.clamp(max=1 - torch.finfo(g.dtype).eps))


def on_held_symbols(field: VectorField, symbols: Tensor, repeats: tuple[int, ...]) -> list[Row]:
    """Measure, with every symbol n times, the elapsed time by that at n = 1, in the median over units, and how many units have
    less than the root of n."""

    def passed(n: int) -> Tensor:
        xs = symbols.repeat_interleave(n, 0)
        g = gate_values(field, xs, played(field, xs)[:-1])
        return elapsed_time(field, g).unflatten(0, (-1, n)).sum(1)[FROM:].mean((0, 1))

    alone, rows = passed(1), list[Row]()
    for n in repeats:
        longer = passed(n) / alone
        rows.append({"repeats": n, "elapsed": float(longer.quantile(0.5)), "waiting": int((longer < n**0.5).sum())})
    return rows


def at_change(field: VectorField, symbols: Tensor, clock: StopAndGo) -> Row:
    """Measure gates at a symbol's first repetition and at the others."""
    xs, later = clock.play(symbols), clock.shown >= FROM
    g, first = gate_values(field, xs, played(field, xs)[:-1])[later], clock.first[later]
    return {"first": float(g[first].mean()), "others": float(g[~first].mean())}


def under_other_clocks(model: SequenceModel, symbols: Tensor, targets: Tensor, clock: StopAndGo, chosen: Answered) -> list[Row]:
    r"""Measure the share of right answers, at all samples and at the last of each symbol, by the learned gates and by others.

    Args:    chosen: symbols, targets and clock of other sequences, on which the time of a symbol is chosen.
    Shape:   symbols (symbols, batch, input), one-hot, targets (symbols, batch), the symbol before; fields without a gate have
             a row of their own alone.
    """
    field, xs, aims = model.field, clock.play(symbols), clock.play(targets)
    states = played(field, xs)
    runs = {"learned": states}
    if has_gate(field):
        g, shown = gate_values(field, xs, states[:-1]), xs.argmax(-1)
        for name, speeds in (("goes at the first", goes_at_the_first), ("1/n", evenly)):
            best = max(TIMES, key=lambda time: _on_a_clock(model, *chosen, speeds, time)[1])
            runs[name] = played_by_gates(field, xs, -torch.expm1(-best * speeds(clock).to(g))[..., None].expand_as(g))
        instead = {"constant": g.mean((0, 1)).expand_as(g), "another's": g.roll(1, dims=1)}
        for name, kind in (("by symbol", shown), ("by two symbols", shown * xs.shape[-1] + aims)):
            instead[name] = mean_of_kind(g, kind)
        runs |= {name: played_by_gates(field, xs, other) for name, other in instead.items()}
        runs["waits after 5"] = played(field, xs, position(clock) < WAITS)
    shares = {name: _right(model, found, clock, aims) for name, found in runs.items()}
    return [{"gate": name, "all_samples": shares[name][0], "at_ends": shares[name][1]} for name in CLOCKS if name in runs]


def goes_at_the_first(clock: StopAndGo) -> Tensor:
    return clock.first.double()


def evenly(clock: StopAndGo) -> Tensor:
    counts = torch.zeros(int(clock.shown.max()) + 1, clock.shown.shape[1], dtype=torch.long)
    return 1 / counts.scatter_add_(0, clock.shown, torch.ones_like(clock.shown)).gather(0, clock.shown).double()


def position(clock: StopAndGo) -> Tensor:
    """Return how often a symbol was shown before, (time, batch)."""
    places = torch.arange(len(clock.shown))[:, None].expand_as(clock.shown)
    return places - torch.where(clock.first, places, 0).cummax(0)[0]


def _on_a_clock(
    model: SequenceModel, symbols: Tensor, targets: Tensor, clock: StopAndGo, speeds: Callable[[StopAndGo], Tensor], time: float
) -> tuple[float, float]:
    gates = -torch.expm1(-time * speeds(clock).to(symbols))[..., None].expand(-1, -1, model.field.hidden_size)
    states = played_by_gates(model.field, clock.play(symbols), gates)
    return _right(model, states, clock, clock.play(targets))


def _right(model: SequenceModel, states: Tensor, clock: StopAndGo, aims: Tensor) -> tuple[float, float]:
    """Return the shares of right answers, at all samples and at the last of each symbol, from the fourth symbol on."""
    later = clock.shown >= FROM
    right = said_right(model.read_out(model.field.visible(states[1:])), aims).double()
    return float(right[later].mean()), float(right[later & clock.last].mean())


def mean_of_kind(values: Tensor, kind: Tensor) -> Tensor:
    """Replace values (time, batch, units) by their mean over all samples of the same kind, a number (time, batch) from 0."""
    flat = kind.flatten()
    sums = values.new_zeros(int(flat.max()) + 1, values.shape[-1]).index_add_(0, flat, values.flatten(0, 1))
    return (sums / flat.bincount()[:, None])[flat].reshape(values.shape)
