"""Score what a model answers, in all and sequence by sequence, and tell which answers are others in its equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ctrnn import checks
from discretize.sequences.batches import Batch

__all__ = ["Answers", "Metric", "Scores", "as_metric", "number_of", "said_classes", "scores"]

Metric = Callable[[Any], Any]  # of what a model returns: a number, or that and the same of each sequence


@dataclass(frozen=True, eq=False)
class Scores:
    """Holds the score of each sequence as stepped and as solved, and the share of its answers that differ; None if not known.

    Shape:   stepped, exact, changed (batch,), float64 on the CPU, nan where nothing counts.
    """

    stepped: Tensor | None = None
    exact: Tensor | None = None
    changed: Tensor | None = None

    @property
    def uneven(self) -> tuple[int, int, float]:
        """In how many sequences the score is lower when solved, in how many higher, and the chance that fair coins fall at least
        as unevenly, a sign test."""
        if self.stepped is None or self.exact is None:
            return 0, 0, 1.0
        lower, higher = (int(each.sum()) for each in (self.exact < self.stepped, self.exact > self.stepped))
        tail = sum(math.comb(lower + higher, k) for k in range(min(lower, higher) + 1))
        return lower, higher, min(1.0, 2.0 * tail / 2 ** (lower + higher))


@dataclass(frozen=True, eq=False)
class Answers:
    """Reads answers off what a model returns: all of it, or where targets are of sequences that at the last sample of each.

    The score is the accuracy of whole numbers, the mean squared error of others, where a batch counts, and not of classes below
    0, by which losses leave samples out. Scores whose largest is not finite are no answer, and are never right.
    """

    targets: Tensor
    batch: Batch | None

    def __call__(self, outputs: Any) -> float:
        values, counted = self.scored(outputs)
        return float(values[counted].mean())

    @property
    def classes(self) -> bool:
        return not self.targets.is_floating_point()

    @property
    def of_sequences(self) -> bool:
        """Whether there is one target for each sequence, and none for single samples."""
        return self.batch is not None and self.targets.dim() == 2 - self.classes and len(self.targets) == self.batch.size

    def of(self, outputs: Any) -> Tensor:
        """Return the answers, (..., classes) or numbers. Raises: TypeError, ValueError for what does not go with the targets."""
        if not isinstance(outputs, Tensor):
            raise TypeError(f"`model` returns {type(outputs).__name__}, of which no score is known; give a `metric`.")
        ends = self.of_sequences and outputs.dim() == 3
        read = self.batch.last(outputs) if self.batch is not None and ends else outputs
        shape = read.shape[:-1] if self.classes else read.shape
        if shape != self.targets.shape:
            raise ValueError(
                f"`targets` are {tuple(self.targets.shape)} and the outputs {tuple(outputs.shape)}; give a `metric`, or targets "
                f"of shape {tuple(shape)}."
            )
        return read

    def scored(self, outputs: Any) -> tuple[Tensor, Tensor]:
        """Return what the score is the mean of, and where it counts."""
        found = self.of(outputs)
        right = said_classes(found) == self.targets if self.classes else (found - self.targets.to(found)).square()
        return right.double(), self.counted(right)

    def changed(self, stepped: Any, exact: Any) -> tuple[Tensor, Tensor]:
        """Return 1 where classes differ, and where they count."""
        others = said_classes(self.of(stepped)) != said_classes(self.of(exact))
        return others.double(), self.counted(others)

    def counted(self, like: Tensor) -> Tensor:
        """Return where the score counts: at samples that are there and count, and not for classes below 0."""
        counted = torch.ones_like(like, dtype=torch.bool)
        if self.classes:
            counted &= self.targets >= 0
        if self.batch is None or self.of_sequences:
            return counted
        counts, lengths = self.batch.counts, self.batch.lengths
        samples = [] if counts is None else [counts > 0]
        if lengths is not None:
            read = torch.arange(self.batch.xs.shape[1 if self.batch.batch_first else 0], device="cpu")[:, None] < lengths.cpu()
            read = read.mT if self.batch.batch_first else read
            samples += [read] * (read.shape == like.shape[:2])  # else outputs are not one a sample
        for each in samples:
            counted &= each.to(like.device).reshape(*each.shape, *[1] * (like.dim() - each.dim()))
        return counted


def said_classes(scores: Tensor) -> Tensor:
    """Return the class that scores most, (..., classes) -> (...); -1 where the largest is not finite, as of a state that has left
    all bounds, and so where one is nan: such scores say none. Classes that are ruled out score -inf beside others."""
    largest, classes = scores.max(-1)
    return classes.where(largest.isfinite(), -1)


def as_metric(targets: Any, metric: Callable[..., Any] | None, batch: Batch | None, padded: bool) -> Metric | None:
    """Return what scores a model's outputs; batch: of its inputs, where they were one."""
    if metric is not None:
        if not callable(metric):
            raise TypeError(f"`metric` must be a function of the outputs and the targets, got {type(metric).__name__}.")
        return metric if targets is None else lambda outputs: metric(outputs, targets)
    if targets is None:
        return None
    answers = Answers(checks.is_tensor("targets", targets), batch)
    if padded and not answers.of_sequences and (batch is None or batch.counts is None):
        raise ValueError(
            "`targets` of sequences of different lengths need a `metric`: what counts beyond an end is not known here."
        )
    return answers


def number_of(metric: Metric) -> Callable[[Any], float]:
    """Return what gives the number in all of a metric."""
    return lambda outputs: _pair(metric(outputs))[0]


def _pair(found: Any) -> tuple[float, Tensor | None]:
    number, each = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    try:
        return float(number), None if each is None else torch.as_tensor(each, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"`metric` must return a number, or that and one for each sequence, got {type(found).__name__}: {error}"
        ) from None


def scores(
    metric: Metric | None, targets: Any, batch: Batch | None, runs: tuple[Any, Any], shape: torch.Size, batch_first: bool
) -> Scores:
    """Return what is known of each sequence; runs: what a model returned as stepped, and solved; shape: (time, batch, ...)."""

    def mean(values: Tensor, counted: Tensor) -> Tensor | None:
        axis = 1 if not batch_first and not own.of_sequences and values.shape[:2] == shape[:2] else 0
        if values.shape[axis : axis + 1] != shape[1:2]:  # which axis is that of sequences?
            return None
        return values.masked_fill(~counted, math.nan).movedim(axis, 0).reshape(shape[1], -1).nanmean(1).cpu()

    own = Answers(targets if isinstance(targets, Tensor) else torch.zeros(0, device="cpu"), batch)
    each: list[Tensor | None] = [None, None]
    if isinstance(metric, Answers):
        each = [mean(*metric.scored(outputs)) for outputs in runs]
    elif metric is not None:
        each = [_pair(metric(outputs))[1] for outputs in runs]
    if any(one is None or one.shape != shape[1:2] for one in each):
        each = [None, None]
    try:
        changed = mean(*own.changed(*runs)) if own.classes else None
    except (TypeError, ValueError):  # targets that the metric alone can read
        changed = None
    return Scores(each[0], each[1], changed)
