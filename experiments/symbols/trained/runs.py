r"""One training for a given processor time, and what its model needs for the validation sequence, all along.

    regret       bits for the validation sequence, mixed with the uniform law, less those of the true law
    best, last   the least of all evaluations, as in the paper's Table 1, and that at the end of the time
    failed       log Pr was no number at some step; the evaluations before count

The time is that of the process, evaluations not counted, so that what else runs on the machine matters less.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.runs.loop import Loop
from experiments.seeds import generator
from experiments.symbols.scores import bits
from experiments.symbols.source import SymbolSequence, SymbolSource
from experiments.symbols.trained.methods import METHODS, Learner

__all__ = ["TrainedPredictor", "read_runs", "trained"]

EVERY = 0.02  # of the time, between evaluations


@dataclass(frozen=True)
class TrainedPredictor:
    """What was trained and how, and what came of it: steps, training and validation regrets in bits."""

    source: str
    method: str
    units: int
    edges: int
    seed: int
    seconds: float
    steps: int
    train: float
    best: float
    last: float
    failed: bool
    damped: bool = True

    def write(self, path: Path) -> None:
        """As a further line of JSON."""
        with path.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(self)) + "\n")


def read_runs(path: Path) -> list[TrainedPredictor]:
    return [TrainedPredictor(**json.loads(line)) for line in path.read_text().splitlines()]


def trained(
    source: SymbolSource, method: str, units: int, edges: int, seed: int, seconds: float, damped: bool = True
) -> tuple[TrainedPredictor, Learner]:
    """Every seed has sequences of its own, and weights and graphs of its own."""
    train, validation = source.draw(seed), source.draw(seed, "validation")
    draws = generator(seed, "trained", method, units, edges)
    learner = METHODS[method].learner(len(source.alphabet), units, edges, train, draws, damped)
    loop = _TimedLoop(learner, seconds, lambda: _regret(learner, source, validation))
    loop.run()
    best = loop.best.get("loss", math.inf)
    reached = math.inf if loop.failed else _regret(learner, source, train, mixed=False)
    name = type(source).__name__
    return TrainedPredictor(
        name, method, units, edges, seed, seconds, loop.step, reached, best, loop.last, loop.failed, damped
    ), learner


class _TimedLoop(Loop):
    """Learns for so many seconds of the processor; evaluates after the first step, then every `EVERY` of the time, at the end."""

    def __init__(self, learner: Learner, seconds: float, regret: Callable[[], float]) -> None:
        super().__init__()
        self.learner, self.limit, self.regret = learner, seconds, regret
        self.failed, self.next, self.last = False, 0.0, math.inf

    @property
    def finished(self) -> bool:
        return self.failed or self.learned >= self.limit

    def clock(self) -> float:
        return time.process_time()

    def learn(self) -> dict[str, float]:
        try:
            self.learner.step()
        except ValueError:
            self.failed = True
        return {}

    def evaluate(self) -> dict[str, float]:
        if self.failed or (self.learned < self.next and not self.finished):
            return {}
        self.last, self.next = self.regret(), self.learned + EVERY * self.limit
        return {"loss": self.last}


def _regret(learner: Learner, source: SymbolSource, sequence: SymbolSequence, mixed: bool = True) -> float:
    needed = bits(learner.logits(sequence.symbols).log_softmax(-1), *sequence, mixed=mixed)
    return float(needed.sum() - source.bits(sequence.symbols).sum())
