r"""One training for a given processor time, and what its model needs for the validation sequence, all along.

    regret       bits for the validation sequence, mixed with the uniform law, less those of the true law
    best, last   the least of all evaluations, as in the paper's Table 1, and that at the end of the time
    failed       log Pr was no number at some step; the evaluations before count

The time is that of the process, evaluations not counted, so that what else runs on the machine matters less.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.seeds import generator
from experiments.symbols.scores import bits
from experiments.symbols.source import Source, SymbolSequence
from experiments.symbols.trained.methods import METHODS, Learner

__all__ = ["Run", "read_runs", "trained"]

EVERY = 0.02  # of the time, between evaluations


@dataclass(frozen=True)
class Run:
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


def read_runs(path: Path) -> list[Run]:
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def trained(
    source: Source, method: str, units: int, edges: int, seed: int, seconds: float, damped: bool = True
) -> tuple[Run, Learner]:
    """Every seed has sequences of its own, and weights and graphs of its own."""
    train, validation = source.draw(seed), source.draw(seed, "validation")
    draws = generator(seed, "trained", method, units, edges)
    learner = METHODS[method].learner(len(source.alphabet), units, edges, train, draws, damped)
    spent, steps, failed, next_look = 0.0, 0, False, 0.0
    regrets: list[float] = []
    while spent < seconds and not failed:
        begun = time.process_time()
        try:
            learner.step()
        except ValueError:
            failed = True
        spent, steps = spent + time.process_time() - begun, steps + 1
        if spent >= next_look and not failed:
            regrets.append(_regret(learner, source, validation))
            next_look = spent + EVERY * seconds
    if not failed:
        regrets.append(_regret(learner, source, validation))
    last, best = (regrets[-1], min(regrets)) if regrets else (float("inf"), float("inf"))
    reached = float("inf") if failed else _regret(learner, source, train, mixed=False)
    run = Run(type(source).__name__, method, units, edges, seed, seconds, steps, reached, best, last, failed, damped)
    return run, learner


def _regret(learner: Learner, source: Source, sequence: SymbolSequence, mixed: bool = True) -> float:
    needed = bits(learner.logits(sequence.symbols).log_softmax(-1), *sequence, mixed=mixed)
    return float(needed.sum() - source.bits(sequence.symbols).sum())
