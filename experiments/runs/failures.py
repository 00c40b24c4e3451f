"""Says in a StoppedError why training cannot go on, and what to try: never what the run has already."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from discretize import ContinuousRNN, DiscreteRNN, ExponentialEuler, SolverError, StepError
from experiments.runs.configuration import TrainingSettings
from experiments.runs.rates import GDtSummary
from experiments.runs.stopping import StoppedError
from experiments.usage import UsageError

__all__ = ["advice", "failures_explained", "in_words", "refuse_non_finite", "refuse_unmeasured", "tries"]

OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "size calculation overflowed", "bad_alloc")
ELSEWHERE = "in another --out DIR"


@contextmanager
def failures_explained(step: int, advised: Callable[[], str] = lambda: f"Try other settings, {ELSEWHERE}.") -> Iterator[None]:
    """Turn errors of solves, steps and memory into a StoppedError that says what to try."""
    try:
        yield
    except (SolverError, StepError) as error:
        why = "In training that is most often a rate that has grown too large for the solver. " if step > 1 else ""
        # Its hint is for who calls the solver: a run has other settings.
        raise StoppedError(f"step {step}: the solve failed, {error.cause}. {why}{advised()}", "diverged", step) from error
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        raise StoppedError(
            f"step {step}: there is not enough memory for it; what was saved before is kept. Try smaller sequences, fewer of "
            f"them (--set batch=..., evaluation=...) or fewer units (--set hidden=...), {ELSEWHERE}.",
            "out of memory",
            step,
        ) from error


def refuse_non_finite(step: int, advised: Callable[[], str], **numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise StoppedError(
                f"the {name} is {number:g} at step {step}; the last good state is kept. {advised()}", "diverged", step
            )


def refuse_unmeasured(keep_by: str, found: Mapping[str, float]) -> None:
    """Refuse a measure that is no number: by it no evaluation would ever be the best. Raises: UsageError."""
    if math.isnan(found[keep_by]):
        numbers = ", ".join(f"{name} {number:.4g}" for name, number in found.items() if not math.isnan(number))
        raise UsageError(
            f"keep_by is {keep_by}, which is no number on the sequences of validation, so that none of the evaluations would be "
            f"the best; an AUROC needs both classes among them. Take another measure ({numbers}), or other sequences for "
            "validation."
        )


def advice(settings: TrainingSettings, rnn: nn.Module, rates: GDtSummary, learned: bool) -> str:
    r"""Say where g dt passed the bounds of the step, if it did, and what to try.

    Args:    rnn: the sequence module that is trained; rates: what is known of its g dt; learned: whether steps were taken
             before the one that failed.
    """
    why = "" if learned else "Nothing was learned yet, so it is the model that leaves all bounds. "
    if growth := growth_of(rnn, rates):
        passed = [f"{level:g} at step {step} (unit {unit})" for level, (step, unit, _) in rates.passed.items()]
        why += (
            f"g dt, rate times the length of a step, passed {' and '.join(passed)}, and is {rates.largest:.3g} now, where a step "
            f"multiplies the distance to what a unit is drawn to by {growth:.3g}, and the equation shrinks it. "
        )
    return f"{why}Try {in_words(tries(settings, rnn, rates, learned))}, {ELSEWHERE}."


def growth_of(rnn: nn.Module, rates: GDtSummary) -> float:
    """Return by how much a step of the largest g dt that was seen multiplies a distance to a held target, 0 if by less than 1."""
    if not isinstance(rnn, DiscreteRNN) or rates.largest <= 1:
        return 0.0
    growth = float(rnn.step.stability(torch.tensor([-rates.largest], dtype=torch.float64)).abs())
    return 0.0 if growth <= 1 else growth


def tries(settings: TrainingSettings, rnn: nn.Module, rates: GDtSummary, learned: bool = True) -> list[str]:
    """List what may keep such a training finite, without what is set already."""
    found: list[str] = []
    if isinstance(rnn, DiscreteRNN) and (growth_of(rnn, rates) or not learned):
        found.append(f"more substeps (--set substeps={max(4, 2 * rnn.substeps)})")
        cap: float | None = getattr(rnn.step, "cap", None)
        if cap is not None and cap > 1:
            found.append("a lower cap (--set cap=1)")
        if not isinstance(rnn.step, ExponentialEuler):
            found.append("--integrator exponential-euler, which follows any rate")
        if cap is None:
            found.append("--integrator capped-euler, whose steps take at most g dt = 1 (--set cap=1)")
    if isinstance(rnn, ContinuousRNN):
        found += ["another --set method=...", "looser tolerances (--set rtol=... atol=...)"]
    if not learned:
        exact = [] if isinstance(rnn, ContinuousRNN) else ["--integrator exact"]
        return [*found, *exact, "shorter sequences", "smaller recurrent weights (--set recurrent_gain=...)"]
    found.append(f"a smaller learning rate (--set lr={settings.lr / 4:.1g})")
    if settings.clip is None:
        found.append("a bound on the gradient (--set clip=1)")
    return found


def in_words(choices: list[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
