r"""Runs cells that were trained unwarped on clocks that stop and go: with the step of an oracle, and without.

difference    between the state after a sample and the unwarped state after as many symbols as the clock has read
no step       at a symbol's last repetition, from the unwarped state after that symbol
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from discretize import SequenceModel
from experiments.seeds import generator
from experiments.studies.clocks.oracle import STEPS, StopAndGo, has_gate, played
from experiments.studies.study import Row
from experiments.tasks.task import said_right
from experiments.tasks.warps.recall import Recall

__all__ = ["DTYPES", "SEQUENCES", "SYMBOLS", "NO_ORACLE", "accuracy_held", "differences_from_unwarped", "symbols_of"]

NO_ORACLE = "no step"  # the clock of a cell without a step
DTYPES = {"float32": torch.float32, "float64": torch.float64}
SYMBOLS, SEQUENCES = 30, 64  # of what is measured


def symbols_of(seed: int) -> tuple[Tensor, Tensor]:
    """Draw one-hot symbols (symbols, batch, input), and the symbol before each."""
    batch = Recall(length=SYMBOLS).batch(SEQUENCES, generator(seed, "stop-and-go", "symbols"))
    return batch.xs.float(), batch.targets


def differences_from_unwarped(model: SequenceModel, symbols: Tensor, targets: Tensor, clock: StopAndGo, dtype: str) -> list[Row]:
    """Measure on every clock the largest difference from the unwarped trajectory, and the share of symbols recalled."""
    model = copy.deepcopy(model).to(DTYPES[dtype])
    field, symbols = model.field, symbols.to(DTYPES[dtype])
    gated = has_gate(field)
    always = torch.ones(symbols.shape[:2], dtype=torch.bool)
    unwarped = played(field, symbols, always if gated else None)
    xs, aims = clock.play(symbols), clock.play(targets)

    def row(name: str, largest: float, right: Tensor, differing: float) -> Row:
        shared: Row = {"kind": "oracle", "clock": name, "dtype": dtype, "unwarped_accuracy": alone}
        return {**shared, "largest": largest, "differing": differing, "accuracy": float(right.double().mean())}

    def right(states: Tensor, wanted: Tensor) -> Tensor:
        return said_right(model.read_out(field.visible(states)), wanted)

    alone = float(right(unwarped[1:], targets).double().mean())
    rows = []
    for name in STEPS if gated else ():
        goes = clock.step(name)
        states = played(field, xs, goes)[1:]
        expected = unwarped[goes.cumsum(0), torch.arange(symbols.shape[1])]
        off = (states - expected).abs()
        rows.append(row(name, float(off.max()), right(states, aims)[goes], float((states != expected).double().mean())))
    states = played(field, xs)[1:]
    ends = clock.last
    off = (states - unwarped[clock.shown + 1, torch.arange(symbols.shape[1])]).abs()[ends]
    rows.append(row(NO_ORACLE, float(off.max()), right(states, aims)[ends], float((off != 0).double().mean())))
    return rows


def accuracy_held(model: SequenceModel, symbols: Tensor, targets: Tensor, n: int) -> float:
    """Measure accuracy at the ends of symbols that are all repeated n times."""
    outputs = model(symbols.repeat_interleave(n, 0))[n - 1 :: n]
    return float(said_right(outputs, targets).double().mean())
