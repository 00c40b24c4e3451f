"""The same sequences read in other ways: padded with anything, packed, one by one; and in chunks, down to one sample each."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from fuzz.dice import NOISE, Dice, Difference, NoAnswer, compared, noisy
from fuzz.fields import random_field
from fuzz.sequences import FOR_KERNELS, ROUNDING
from problems import STEPS
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import ctrnn
import discretize
from discretize import DiscreteRNN, Monitor, SolverError, refine

__all__ = ["chunks_of_streams", "statistics_of_padded_batches"]

GARBAGE = [0.0, math.nan, 1e8, -1e300]
WAYS = ["packed", "batch first", *GARBAGE]


@contextmanager
def _about_other_things() -> Iterator[None]:
    """Without warnings of steps, solves and units, of which other areas are; what stamps leave open is said here."""
    with warnings.catch_warnings():
        for kind in (discretize.SolverWarning, discretize.StepWarning, discretize.TimeUnitWarning):
            warnings.simplefilter("ignore", kind)
        yield


class _Read(nn.Module):
    """Reads sequences x (time, batch, input) with edges (time + 1, batch) or none, each to its own end, in one of the ways."""

    def __init__(self, rnn: DiscreteRNN, way: Any, edges: Tensor | None, lengths: Tensor) -> None:
        super().__init__()
        self.rnn, self.way, self.edges, self.lengths = rnn, way, edges, lengths

    def forward(self, x: Tensor) -> Tensor:
        rnn, ts, lengths = self.rnn, self.edges, self.lengths
        beyond = torch.arange(len(x))[:, None] >= lengths
        if self.way == "one by one":
            output = x.new_zeros(*x.shape[:2], rnn.hidden_size)
            for k, n in enumerate(lengths.tolist()):
                output[:n, k] = rnn(x[:n, k], ts=None if ts is None else ts[: n + 1, k])[0]
            return output
        if self.way == "packed":
            longest = int(lengths.max())
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            output = rnn(packed, ts=None if ts is None else ts[: longest + 1])[0]
            return pad_packed_sequence(output, total_length=len(x))[0]
        fill = 1e8 if rnn.batch_first else self.way
        x = x.masked_fill(beyond[..., None], fill)
        ts = None if ts is None else torch.cat([ts[:1], ts[1:].masked_fill(beyond, fill)])
        if rnn.batch_first:
            x, ts = x.transpose(0, 1), None if ts is None else ts.T
        output = rnn(x, ts=ts, lengths=lengths)[0]
        return output.transpose(0, 1) if rnn.batch_first else output


def statistics_of_padded_batches(dice: Dice) -> list[Difference]:
    """Outputs, what `refine` says of drifts and spreads and what a `Monitor` counts hang on the samples alone."""
    inputs, batch, time = dice.count("inputs", 1, 2), dice.count("batch", 1, 4), dice.count("time", 1, 9)
    field = random_field(dice, inputs, torch.float64, own_code=0.0)
    if field.noise_channels:
        raise NoAnswer("noise is drawn at each call")
    step = STEPS[dice.one_of("step", ["Euler", "ExponentialEuler", "Heun", "RungeKutta4", "FrozenBackwardEuler"])]
    x, lengths = dice.normal(time, batch, inputs), torch.from_numpy(dice.rng.integers(1, time + 1, batch))
    edges = dice.times(time + 1, batch, least=0.02, mean=0.3) if dice.chance("times", 0.5) else None
    way = dice.one_of("way", WAYS)

    def of(way: Any, noise: float = 0.0) -> dict[str, Tensor]:
        model = _Read(DiscreteRNN(field, step, 0.4, batch_first=way == "batch first", fused=False), way, edges, lengths)
        with Monitor(model, warn="never") as monitor:
            output = model(noisy(x, noise))
        record = monitor.records["rnn"]
        with patch("discretize.analysis.refine._held", lambda *_: None):  # thousands of samples of a single sequence
            found = refine(model, noisy(x, noise), halvings=1, rtol=1e-6, atol=1e-8)
        if not (output.isfinite().all() and math.isfinite(found.drift[0])):
            raise NoAnswer("the states run away")
        largest = 0.0 if record.largest is None else record.largest.g_dt
        numbers = [*found.drift, *found.largest, found.spread, largest]
        counts = torch.cat([record.counts.sum(0), record.histogram.sum()[None]]).double()
        return {"output": output, "counts": counts, **{f"number {k}": torch.tensor(v) for k, v in enumerate(numbers)}}

    try:
        with _about_other_things(), patch.dict(os.environ, {"CTRNN_FUSED": "0"}):  # kernels of each field would be built
            return compared(of(way), lambda noise: of("one by one", noise), 1e-6, NOISE[torch.float64])
    except SolverError as error:
        raise NoAnswer(str(error)[:40]) from error


def chunks_of_streams(dice: Dice) -> list[Difference]:
    """A stream in chunks of any lengths, each with its edges and the state before it, is the whole, and no word is said."""
    dtype = dice.one_of("of", [torch.float64, torch.float64, torch.float32])
    inputs, batch, time = dice.count("inputs", 1, 3), dice.count("batch", 1, 4), dice.count("time", 1, 16)
    field = random_field(dice, inputs, dtype, own_code=0.0)
    if field.noise_channels:
        raise NoAnswer("noise is drawn at each call")
    kind = dice.one_of("module", ["stepped", "fixed", "layers", "jumps"])
    first = dice.chance("batch first", 0.3)
    hold = {} if kind == "jumps" or not dice.chance("backward", 0.3) else {"hold": "backward"}
    rnn = _module(dice, kind, field, first, hold)
    x = dice.normal(time, batch, inputs).to(dtype)
    shape = (time + 1, batch) if dice.chance("own times", 0.5) else (time + 1,)
    edges = dice.times(*shape, least=0.02, mean=0.3)
    ends = sorted({*dice.rng.integers(1, time + 1, dice.count("cuts", 0, time)).tolist(), time})
    dice.note(f"ends {ends}")

    def read(a: int, b: int, h: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        given, ts = x[a:b], edges[a : b + 1]
        if first:
            given, ts = given.transpose(0, 1), ts.T if ts.dim() == 2 else ts
        try:
            output, h = rnn(given, h, ts=ts)
        except SolverError as error:
            raise NoAnswer(str(error)[:40]) from error
        return (output.transpose(0, 1) if first else output), h

    def in_chunks() -> dict[str, Tensor]:
        h, outputs = None, []
        for a, b in zip([0, *ends], ends, strict=False):
            output, h = read(a, b, h, x)
            outputs.append(_finite(output, h)["output"])  # a start that is no number is refused
        return _finite(torch.cat(outputs), h)

    def whole(noise: float) -> dict[str, Tensor]:
        return _finite(*read(0, time, None, noisy(x, noise)))

    with _about_other_things():
        return compared(in_chunks(), whole, ROUNDING[dtype], NOISE[dtype])


def _finite(output: Tensor, h_n: Tensor) -> dict[str, Tensor]:
    if not (output.isfinite().all() and h_n.isfinite().all()):
        raise NoAnswer("the states run away")
    return {"output": output, "h_n": h_n}


def _module(dice: Dice, kind: str, field: ctrnn.VectorField, first: bool, hold: dict[str, Any]) -> Any:
    """A module whose steps are those of its samples, wherever a call ends."""
    if kind == "jumps":
        cell = ctrnn.gru(2 * field.input_size, field.state_size, generator=dice.generator())
        alone = ctrnn.plain(0, field.state_size, generator=dice.generator())
        jump = discretize.CellJump(discretize.DiscreteCell(cell))
        kinds: dict[str, Callable[..., Any]] = {"before": discretize.HeldJumpRNN, "after": discretize.JumpRNN}
        dtype = next((p.dtype for p in field.parameters()), torch.float64)
        return dice.one_of("read", kinds)(alone, jump, method=discretize.Heun(), batch_first=first).to(dtype)
    if kind == "layers":
        dtype = next((p.dtype for p in field.parameters()), torch.float64)
        above = ctrnn.gru(field.hidden_size, field.hidden_size, generator=dice.generator()).to(dtype)
        below = ctrnn.gated(field.input_size, field.hidden_size, generator=dice.generator()).to(dtype)
        rows = [DiscreteRNN(below, discretize.ExponentialEuler(), fused=False), DiscreteRNN(above, fused=False)]
        return discretize.Layers(rows, batch_first=first, **hold)
    if kind == "fixed":
        return discretize.ContinuousRNN(field, dice.one_of("method", ["rk4", "euler"]), batch_first=first, fused=False, **hold)
    step = STEPS[dice.one_of("step", [name for name in FOR_KERNELS if name not in ("Splitting", "StrangSplitting")])]
    return DiscreteRNN(field, step, batch_first=first, fused=False, allow_overshoot=True, **hold)
