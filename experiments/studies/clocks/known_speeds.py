r"""Compares learned gates with the known speed c' at which their input is played, and puts the true clock in their place.

elapsed        e of a unit at a sample, as of learned clocks; by the time of the recording e / c'
p              e / c' at the slowest speed 1/n is n^p times that at speed 1         a clock: 0         a constant gate: 1
              of the means of e, or of those of log e, in which moments of an open gate count less
correlation    of log e and log c', of a unit over samples
regression     of log c' from what a gate reads, x and the state before, on half of the sequences; R^2 and p are of the others

In the place of learned gates, E being the mean of e of a unit by that of c' in training, per recorded sample:

    true clock    1 - exp(-E c')             by the speeds of another sequence: "another's"        by predicted ones: "regression"
    constant      1 - exp(-E mean c')        all let the same time pass, in the mean
"""

from __future__ import annotations

import torch
from torch import Tensor

from discretize import SequenceModel
from experiments.studies.clocks.learned_clocks import elapsed_time
from experiments.studies.clocks.oracle import gate_values, has_gate, played, played_by_gates
from experiments.studies.study import Row
from experiments.tasks.task import Batch, Task

__all__ = ["GATES", "HALF", "at_known_speeds", "exponents", "follows", "predicted"]

GATES = ("learned", "true clock", "constant", "another's", "regression")
FROM = 16.0  # recorded samples left out at the beginning, while states leave zero
HALF = 0.5
LEAST = 1e-9  # elapsed time of which a logarithm is taken


def at_known_speeds(task: Task, model: SequenceModel, batch: Batch, speeds: Tensor, usual: float) -> list[Row]:
    """Measure errors by each kind of gates, how far the learned ones follow the speeds, and how far these are known.

    Args:    usual: the mean speed in training.
    Shape:   speeds (time, batch) of the batch.
    """
    field, xs = model.field, batch.xs.to(model.read_out.weight)
    states, later = played(field, xs), speeds.cumsum(0) > FROM
    found, r_squared = predicted(torch.cat([xs, field.visible(states[:-1])], -1), speeds.log(), later)
    guess, half = found.exp(), slice(len(xs[0]) // 2, None)
    p = exponents(guess[:, half, None], speeds[:, half], later[:, half])
    rows: list[Row] = [{"kind": "known", "known": r_squared, "p_regression": round(float(p), 6) + 0.0}]
    runs = {GATES[0]: states}
    if has_gate(field):
        g = gate_values(field, xs, states[:-1])
        elapsed = elapsed_time(field, g)
        rows += follows(elapsed, speeds, later)
        for name, c in zip(GATES[1:], (speeds, torch.ones_like(speeds), speeds.roll(1, dims=1), guess), strict=True):
            clock = (c / c.mean() * speeds.mean() / usual).to(g)[..., None]
            runs[name] = played_by_gates(field, xs, -torch.expm1(-clock * elapsed.mean((0, 1))))
    for name, found in runs.items():
        rows.append({"kind": "gate", "gate": name, "error": error(task, model.read_out(field.visible(found[1:])), batch)})
    return rows


def error(task: Task, outputs: Tensor, batch: Batch) -> float:
    """Compute the share of wrong answers, or the mean squared error by that of saying 0."""
    found = task.measures(outputs, batch)
    return (
        1 - found["accuracy"] if "accuracy" in found else found["loss"] / task.measures(torch.zeros_like(outputs), batch)["loss"]
    )


def follows(elapsed: Tensor, speeds: Tensor, later: Tensor) -> list[Row]:
    """Measure how the elapsed time (time, batch, hidden) of units goes with speeds (time, batch), at the later samples."""
    e, c = elapsed[later].double(), speeds[later]
    by_speed = {round(1 / one): e[c == one].mean(0) / one for one in c.unique().tolist()}
    p, e_log = exponents(elapsed, speeds, later), elapsed.double().clamp(min=LEAST).log()
    pairs = torch.cat([e_log[later], c.log()[:, None]], 1)
    correlation = torch.corrcoef(pairs.T)[-1, :-1].nan_to_num()  # a constant gate has no correlation: nan
    return [
        *({"kind": "speed", "slowness": n, "elapsed": float((one / by_speed[1]).quantile(HALF))} for n, one in by_speed.items()),
        {
            "kind": "units",
            "p": float(p.quantile(HALF)),
            "p_logs": float(exponents(e_log, speeds, later, logs=True).quantile(HALF)),
            "p_another": float(exponents(elapsed, speeds.roll(1, dims=1), later).quantile(HALF)),
            "following": int((p.abs() < HALF).sum()),
            "correlation": float(correlation.quantile(HALF)),
            "strongest": float(correlation.max()),
        },
    ]


def exponents(elapsed: Tensor, speeds: Tensor, later: Tensor, logs: bool = False) -> Tensor:
    """Compute p of each unit, of elapsed times or of their logarithms."""
    slowest = 1 / speeds.min()
    fast, slow = (elapsed[later & (speeds == c)].double().mean(0) for c in (1.0, 1 / slowest))
    return 1 + (slow - fast if logs else (slow / fast).log()) / slowest.log()


def predicted(read: Tensor, wanted: Tensor, later: Tensor) -> tuple[Tensor, float]:
    """Predict wanted (time, batch) by what is read (time, batch, n), as half of the sequences have it; with R^2 on the others."""
    half = read.shape[1] // 2
    ones = torch.cat([read, torch.ones_like(read[..., :1])], -1).double()
    known, others = later.clone(), later.clone()
    known[:, half:], others[:, :half] = False, False
    found = ones @ torch.linalg.lstsq(ones[known], wanted[known][:, None].double()).solution[:, 0]
    return found, float(1 - (found - wanted)[others].square().mean() / wanted[others].var(correction=0))
