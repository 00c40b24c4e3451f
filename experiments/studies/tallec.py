r"""What the studies of Tallec and Ollivier 2018 have in common: three models, how they start, and claims of several parts.

    plain    dh/dt = tanh(Wx x + Wh h + b) - h                 no gate                                  eq. (2)
    leaky    alpha (tanh(..) - h)                              alpha = sigma(a) for each unit           eq. (5)
    gated    g(x, h) (tanh(..) - h)                            a gate for each unit                     eq. (10)

each by unit Euler steps, as the paper has them. A claim is reproduced if all of its parts hold, partly if some do, or if what
was tried holds and something was not tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from experiments.models.fields import FieldSettings
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.studies.study import Verdict
from experiments.tasks.task import Task

__all__ = ["MODELS", "PAPER", "STEPS", "TRAINING_SET", "Part", "Sizes", "judged", "started", "trained"]

PAPER = "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018"
MODELS = ("plain", "leaky", "gated")
TRAINING_SET = 1563  # batches of 32 in 50,000 sequences
STEPS = 3 * TRAINING_SET


@dataclass(frozen=True)
class Part:
    """One part of a claim: what it says, whether it holds (None: it was not tried), and by which numbers."""

    words: str
    holds: bool | None
    numbers: str

    def __str__(self) -> str:
        answer = {True: "yes", False: "no", None: "not tried"}[self.holds]
        return f"{self.words[0].upper()}{self.words[1:]}: {answer} ({self.numbers})."


def judged(parts: Sequence[Part], numbers: Mapping[str, float | int | str] | None = None) -> Verdict:
    """The verdict on a claim by its parts."""
    held = sum(part.holds is True for part in parts)
    word = "reproduced" if held == len(parts) else "partly" if held else "not"
    return Verdict(word, " ".join(map(str, parts)), dict(numbers or {}))  # type: ignore[arg-type]


def started(model: str, hidden: int, longest: int) -> FieldSettings:
    """Time scales up to the longest wait, 2 samples at least; the plain network has none to set."""
    if model == "plain":
        return FieldSettings(hidden=hidden)
    return FieldSettings(hidden=hidden, init="chrono", t_max=float(max(2, longest)))


class Sizes(Protocol):
    """What a scale says of a training."""

    @property
    def hidden(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def every(self) -> int: ...
    @property
    def held_out(self) -> int: ...
    @property
    def batches(self) -> int | None: ...


def trained(task: Task, model: str, longest: int, sizes: Sizes, seed: int) -> Configuration:
    """By unit Euler steps and the paper's schedule, on a task whose longest wait is `longest`."""
    training = TrainingSettings(
        steps=sizes.steps, seed=seed, rate=sizes.rate, schedule="plateau", evaluate_every=sizes.every,
        evaluation=sizes.held_out, batches=sizes.batches,
    )  # fmt: skip
    return Configuration(task, model, "euler", started(model, sizes.hidden, longest), training=training)
