r"""Runs a trained model on a clock and by an integrator that it was perhaps not trained with: outputs, states, and g dt.

    g dt    dt the own time that a sample takes (c' in the paper), g(x, h) the rate of a unit where the sample begins

A Taylor step of dh = g (f - h) keeps 1 - g dt of a state: below 0 from g dt = 1 on, larger than 1 in size from 2 on.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import ctrnn
from discretize import DiscreteRNN, ExponentialEuler, SequenceModel, SolverError, SolverWarning, StepError, StepWarning
from experiments.models.integrators import EXACT, IntegratorSettings, under
from experiments.tasks.task import Batch

__all__ = [
    "FINE",
    "INTEGRATORS",
    "RATES",
    "SOFTPLUS_CLOCK",
    "WAYS",
    "Rollout",
    "largest_magnitude",
    "roll_out",
    "ways_of",
]

RATES = {"sigmoid": "gated", "softplus": "gated-softplus", "exponential": "gated-exponential"}  # rate -> field
INTEGRATORS = ("euler", "exponential-euler", EXACT)
SOFTPLUS_CLOCK = "softplus-clock"
WAYS = {"euler": "Euler", "exponential-euler": "exponential", EXACT: "exact", SOFTPLUS_CLOCK: "softplus clock"}
FINE = IntegratorSettings(rtol=1e-5, atol=1e-7)  # fine enough that differences between clocks are not the solver's error


@dataclass(frozen=True)
class Rollout:
    r"""Holds the outputs of a run, and what each unit began each sample with.

    Shape:  outputs (time, batch, outputs); states (time, batch, hidden); g_dt, before (n,), over samples, sequences and units,
            (0,) where no own time was said; evaluations: calls of the field; seconds: that the run took.
    """

    outputs: Tensor
    states: Tensor
    g_dt: Tensor
    before: Tensor
    evaluations: int = 0
    seconds: float = 0.0

    @property
    def finite(self) -> bool:
        return bool(self.outputs.isfinite().all())


@torch.no_grad()
def roll_out(model: SequenceModel, batch: Batch, own_time: float | Tensor | None, **noise: Any) -> Rollout | None:
    """Run the model over a batch of which each sample takes so much own time; None where its solver cannot go on.

    Args:    own_time: of a sample, perhaps (time, batch or 1, 1); None for a run whose g dt is not asked for; noise: as the model
             takes it.
    """
    field = model.field
    if own_time is not None and not isinstance(field, ctrnn.Relaxation):
        raise TypeError(f"the rate of a {type(field).__name__} is not known; it takes a ctrnn.Relaxation.")
    xs, begun = batch.xs.to(model.read_out.weight), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)  # warns of costs, which are not measured here
            warnings.simplefilter("ignore", StepWarning)  # warns of g dt, which is measured here
            states, _ = model.rnn(xs, ts=batch.ts, lengths=batch.lengths, **noise)
    except (SolverError, StepError):
        return None
    cost = int(model.rnn.stats.get("nfe", 0)), time.perf_counter() - begun
    if own_time is None or not isinstance(field, ctrnn.Relaxation):
        return Rollout(model.read_out(states), states, states.new_zeros(0), states.new_zeros(0), *cost)
    before = torch.cat([field.initial_state(states.shape[1])[None], states[:-1]])
    g_dt = own_time * field.rate(xs, before).expand_as(states)
    if batch.lengths is not None:
        read = torch.arange(len(xs), device=xs.device)[:, None] < batch.lengths
        g_dt, before = g_dt[read], before[read]
    return Rollout(model.read_out(states), states, g_dt.flatten(), before.flatten(), *cost)


def ways_of(model: SequenceModel) -> dict[str, SequenceModel]:
    r"""Put the same weights under every integrator, and on the softplus clock where the gate is a sigmoid.

    1 - e^-softplus(z) = sigma(z)       the same cell where a sample takes one unit, another one everywhere else
    """
    ways = {name: under(model, name, FINE) for name in INTEGRATORS}
    field = model.field
    if isinstance(field, ctrnn.Relaxation) and type(field.rate) is ctrnn.GateRate:
        ways[SOFTPLUS_CLOCK] = under(model, "exponential-euler", FINE)
        ways[SOFTPLUS_CLOCK].rnn = DiscreteRNN(ctrnn.softplus_clock(field), step=ExponentialEuler())
    return ways


def largest_magnitude(values: Tensor) -> float | None:
    """Return the largest absolute value; None where it is not a number, or more than float32 holds."""
    largest = float(values.abs().max())
    return largest if largest < float("inf") else None
