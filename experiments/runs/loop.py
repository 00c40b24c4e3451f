r"""Defines the training loop, which runs, the demo and models of symbols share.

learn, learn, ..  evaluate: the best so far?  learn, ..       until it is finished, or a signal says that the time is up
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from derivations.processes.interruption import deferred
from experiments.runs.checkpoints import State
from experiments.runs.logs import LoggedRecord
from experiments.runs.record import NoRecord, RunRecord
from experiments.runs.stopping import StoppedError

__all__ = ["Evaluated", "Loop", "Progress", "sign_of"]

Progress = Callable[[int, float, float], object]  # called with step, loss and rate
Evaluated = Callable[[int, Mapping[str, float]], object]  # called with the step, and what was measured after it


def sign_of(measure: str) -> int:
    """Return 1 for a measure that is better the smaller it is, a loss or an error, and else -1."""
    return 1 if measure.rsplit("_", maxsplit=1)[-1] in ("loss", "error") else -1


class Loop(ABC):
    """Trains a model: subclasses say what a step is, when to evaluate, and when training is finished.

    step: how many were taken; seconds: all of them took, with evaluations; learned: without, by `clock`; best: the evaluation
    that is the best by the measure that `keep_by` names, see `sign_of`, and its step; {} before the first.
    """

    keep_by = "loss"
    checkpoint_every = 1000

    def __init__(self) -> None:
        self.step, self.seconds, self.learned = 0, 0.0, 0.0
        self.best: dict[str, float] = {}

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Return whether no step is left to take."""

    @abstractmethod
    def learn(self) -> dict[str, float]:
        """Take one step; returns its rate, loss, nan where nothing counts, and gradient_norm. Raises: StoppedError, with nothing
        changed."""

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """Measure the model, if an evaluation is due after this step; else {}."""

    def note(self, better: bool) -> None:  # noqa: B027 (not every loop has to)
        """Note each evaluation, and whether it is the best so far."""

    def clock(self) -> float:
        return time.perf_counter()

    def stopped(self, interrupted: bool) -> bool:
        """Return whether to stop before it is finished."""
        return interrupted

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        return {"step": self.step, "seconds": self.seconds, "best": self.best}

    def run(
        self,
        record: RunRecord | LoggedRecord | NoRecord | None = None,
        progress: Progress | None = None,
        evaluated: Evaluated | None = None,
    ) -> None:
        """Take all steps that are left. A signal ends the step that is taken and saves, then goes to the handler before."""
        record = record or NoRecord()
        with deferred() as interrupted:
            while not self.finished and not self.stopped(interrupted()):
                begun, ticks = time.perf_counter(), self.clock()
                try:
                    row = self.learn()
                except StoppedError:
                    record.save(self.state())
                    raise
                self.learned += self.clock() - ticks
                self.step += 1
                found = self.evaluate()
                if found:
                    self._compare(found)
                self.seconds += time.perf_counter() - begun
                record.write_row(self.step, self.seconds, row, found)
                if self.step % self.checkpoint_every == 0:
                    record.save(self.state())
                if progress is not None:
                    progress(self.step, row["loss"], row["rate"])
                if evaluated is not None and found:
                    evaluated(self.step, found)
            record.save(self.state())

    def _compare(self, found: dict[str, float]) -> None:
        sign = sign_of(self.keep_by)
        better = sign * found[self.keep_by] < sign * self.best.get(self.keep_by, sign * math.inf)
        if better:
            self.best = {"step": self.step, **found}
        self.note(better)
