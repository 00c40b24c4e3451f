r"""Defines tasks: batches drawn by a generator, a loss, and baselines, the losses of predictors without memory.

    a class at every sample       targets (time, batch)        loss  mean of -log softmax(y)[target] where it counts, in nats
    a class of the sequence       targets (batch,)             the same, at each sequence's own last sample
    numbers at the end            targets (batch, outputs)     mean of (y - target)^2 there
    numbers at every sample       targets (time, batch, outputs)  mean of (y - target)^2 where it counts

Time axes are (time, batch, feature). Numbers are of torch's default dtype, as the weights of a model are.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from ctrnn import checks
from discretize import Batch
from discretize.analysis.breakdown.scores import said_classes
from experiments.seeds import generator as generator_of
from experiments.settings import Checked, check_one_of, setting_types
from experiments.tasks import baselines
from experiments.usage import UsageError

__all__ = [
    "SPLITS",
    "Batch",
    "ClassAtEverySample",
    "ClassOfTheSequence",
    "FromFiles",
    "MeasuresOfBatches",
    "NumbersAtEverySample",
    "NumbersAtTheEnd",
    "Task",
    "check_split",
    "one_hot",
    "said_right",
]

SPLITS = ("train", "validation", "test")


def check_split(split: str) -> None:
    check_one_of("split", split, SPLITS)


def one_hot(symbols: Tensor, kinds: int) -> Tensor:
    """Return symbols (...) as numbers of the default dtype, (..., kinds)."""
    return nn.functional.one_hot(symbols, kinds).to(torch.get_default_dtype())


def said_right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return whether the class that scores most is the target: outputs (..., classes), targets (...)."""
    return (said_classes(outputs) == targets) & (targets >= 0)


class Task(Checked, ABC):
    """Defines a task; its subclasses are frozen dataclasses, and their fields are its settings.

    masked: whether a sample is [values, 1 where seen, else 0], as many of each; measured: names of its measures.
    """

    masked: ClassVar[bool] = False
    measured: ClassVar[Sequence[str]] = ("loss",)

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Return the number of features of a sample."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Return how many numbers a model gives at every sample: one a class, or the predicted numbers."""

    def batch(self, size: int, generator: torch.Generator, split: str = "train") -> Batch:
        """Draw `size` sequences; the same generator in the same state gives the same ones."""
        check_split(split)
        return self.drawn(checks.positive_size("size", size), generator, split)

    @property
    def open_interval(self) -> float:
        """Return for how long the sample acts whose interval stamps leave open: as long as one without stamps, where these count
        samples."""
        return 1.0

    @property
    def stamped(self) -> bool:
        """Return whether samples have stamps from which, or up to which, they may act; edges of intervals say both."""
        drawn = self.batch(1, generator_of(0, "stamps"))
        return drawn.ts is not None and len(drawn.ts) == len(drawn.xs)

    @property
    def hold_as_played(self) -> str:
        """Return the `hold` under which samples between those that were recorded mean what these do, "" for any."""
        return ""

    @abstractmethod
    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        """Draw what `batch` gives, once its arguments are checked."""

    def batch_at(self, step: int, size: int, seed: int) -> Batch:
        """Make the batch of a step of training, a function of the seed and the step; here each is drawn anew."""
        return self.batch(size, generator_of(seed, "batch", step), "train")

    def evaluation(self, split: str, sequences: int, size: int, seed: int) -> Iterator[Batch]:
        """Yield batches of `size`, the last perhaps smaller, with so many sequences in all; the same ones for the same seed."""
        sequences, size = checks.positive_size("sequences", sequences), checks.positive_size("size", size)
        for k, start in enumerate(range(0, sequences, size)):
            yield self.batch(min(size, sequences - start), generator_of(seed, "evaluation", split, k), split)

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Compute the mean loss over what counts; outputs (time, batch, output_size)."""

    @abstractmethod
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """Return "loss", and "accuracy" for classes: means over what counts."""

    def weight(self, batch: Batch) -> float:
        """Return how much counts in a batch: the weight of its means among those of other batches."""
        return float(batch.size)

    def means(self, outputs: Tensor, batch: Batch) -> dict[str, tuple[float, float]]:
        """Return the means that `measures_of` reads, each with its weight among those of other batches."""
        weight = self.weight(batch)
        return {name: (value, weight) for name, value in self.measures(outputs, batch).items()}

    def measures_of(self, means: dict[str, float]) -> dict[str, float]:
        """Make measures of the means over all batches."""
        return means

    def part(self, batch: Batch, sequences: slice) -> Batch:
        """Take some of the sequences of a batch."""
        return self._part(batch, sequences, batch.targets[sequences])

    @staticmethod
    def _part(batch: Batch, sequences: slice, targets: Tensor) -> Batch:
        counts, ts, lengths = batch.counts, batch.ts, batch.lengths
        return Batch(
            batch.xs[:, sequences],
            targets,
            None if counts is None else counts[:, sequences],
            ts if ts is None or ts.dim() == 1 else ts[:, sequences],
            None if lengths is None else lengths[sequences],
        )

    @property
    def has_speeds(self) -> bool:
        """Return whether its sequences can be played faster and slower: by its settings `speed` and `clock_given`."""
        return {"speed", "clock_given"} <= setting_types(type(self)).keys()

    def at_speed(self, speed: float, clock_given: bool) -> Self:
        """Return the same task, its sequences played so many times as fast; `clock_given`: batches say how long samples last.

        Raises:  UsageError for a task whose sequences cannot be, and for a speed at which these cannot.
        """
        if not self.has_speeds:
            raise UsageError(f"the sequences of {type(self).__name__} are not played at other speeds; leave --speeds out.")
        return self._with(speed=speed, clock_given=clock_given)

    def _with(self, **settings: object) -> Self:
        try:
            changed: Any = dataclasses.replace(cast(Any, self), **settings)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        return cast("Self", changed)

    def fingerprint(self) -> str | None:
        """Return a digest of the files that the task reads, by which other data are noticed; None where it reads none."""
        return None

    def in_target_units(self, outputs: Tensor) -> Tensor:
        """Return what outputs say of numbers, in the unit of the targets."""
        return outputs

    @property
    def output_names(self) -> Sequence[str]:
        """Return names of the classes, or of the numbers, that are predicted; () where they have none."""
        return ()

    def look(self) -> str:
        """Return in words what a run will read, where a user's own data are read; lines without an end, or ""."""
        return ""

    def target_counts(self) -> dict[str, baselines.TargetCounts]:
        """Return, for classes, name of a predictor -> how often each target goes with what it sees; {} where none is known."""
        return {}

    def baselines(self) -> dict[str, float]:
        """Return name -> loss of the best predictor without memory, or with as much as the name says; {} where none is known."""
        return {name: baselines.loss(counts) for name, counts in self.target_counts().items()}

    def baseline_accuracies(self) -> dict[str, float]:
        """Return name -> accuracy of the same predictors."""
        return {name: baselines.accuracy(counts) for name, counts in self.target_counts().items()}

    @staticmethod
    def _mean(values: Tensor, batch: Batch) -> Tensor:
        """Take the mean of values (time, batch) over what counts."""
        if batch.counts is None:
            return values.mean()
        counts = batch.counts.to(values)
        return (values * counts).sum() / counts.sum()

    def _checked(self, outputs: Tensor, batch: Batch) -> Tensor:
        expected = (*batch.xs.shape[:2], self.output_size)
        if outputs.shape != expected:
            raise ValueError(f"`outputs` must be (time, batch, outputs) = {expected}, got shape {tuple(outputs.shape)}.")
        return outputs


class MeasuresOfBatches:
    """Adds up the measures of a task, so that they are those of all sequences, however these are cut into batches."""

    def __init__(self, task: Task) -> None:
        self.task, self.sums = task, dict[str, tuple[float, float]]()

    def add(self, outputs: Tensor, batch: Batch) -> None:
        for name, (mean, weight) in self.task.means(outputs, batch).items():
            total, weights = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = total + (weight * mean if weight else 0.0), weights + weight

    def measures(self) -> dict[str, float]:
        """Return them by name; none where no batch was added."""
        means = {name: total / weights if weights else math.nan for name, (total, weights) in self.sums.items()}
        return self.task.measures_of(means) if means else {}


class ClassAtEverySample(Task):
    """Measures cross entropy in nats, and accuracy, wherever it counts; as many classes as features, if nothing else is said."""

    measured: ClassVar[Sequence[str]] = ("loss", "accuracy")

    @property
    def output_size(self) -> int:
        return self.input_size

    def part(self, batch: Batch, sequences: slice) -> Batch:
        return self._part(batch, sequences, batch.targets[:, sequences])

    def loss(self, outputs: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        scores = self._checked(outputs, batch).movedim(-1, 1)
        losses = nn.functional.cross_entropy(scores, batch.targets, reduction="none", label_smoothing=label_smoothing)
        return self._mean(losses, batch)

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        right = said_right(outputs, batch.targets)
        return {"loss": float(self.loss(outputs, batch)), "accuracy": float(self._mean(right.to(outputs.dtype), batch))}

    def weight(self, batch: Batch) -> float:
        return float(batch.targets.numel() if batch.counts is None else batch.counts.sum())


class ClassOfTheSequence(Task):
    """Measures cross entropy in nats, and accuracy, at each sequence's own last sample."""

    measured: ClassVar[Sequence[str]] = ("loss", "accuracy")

    def loss(self, outputs: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        return nn.functional.cross_entropy(
            batch.last(self._checked(outputs, batch)), batch.targets, label_smoothing=label_smoothing
        )

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        right = said_right(batch.last(outputs), batch.targets)
        return {"loss": float(self.loss(outputs, batch)), "accuracy": float(right.to(outputs.dtype).mean())}


@dataclass(frozen=True)
class FromFiles(ClassOfTheSequence):
    """Asks for the class of sequences that are in files, in three splits.

    holds: in words, what the folder `data` has in it; hint: what to do where it is not named.
    """

    holds: ClassVar[str]
    hint: ClassVar[str] = ""
    data: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.data, str) or not self.data:
            raise ValueError(f"`data` must name the folder with {self.holds}, got {self.data!r}.{self.hint}")

    @abstractmethod
    def count(self, split: str) -> int:
        """Return how many sequences a split has."""

    @abstractmethod
    def batch_of(self, split: str, which: Tensor) -> Batch:
        """Make a batch of these sequences of a split, by their places in it."""

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        """Draw sequences of the split, each anew."""
        return self.batch_of(split, torch.randint(self.count(split), (size,), generator=generator))

    def evaluation(self, split: str, sequences: int, size: int, seed: int) -> Iterator[Batch]:
        """Yield the split in order, each sequence once; of a larger one so many from all over it. `seed` changes nothing."""
        check_split(split)
        sequences, size = checks.positive_size("sequences", sequences), checks.positive_size("size", size)
        for which in _some_of(self.count(split), sequences, generator_of(0, "evaluation", split)).split(size):
            yield self.batch_of(split, which)


def _some_of(count: int, sequences: int, generator: torch.Generator) -> Tensor:
    """Draw places below `count`, in order, one in each of as many equal stretches: files may be sorted, by class or person."""
    if sequences >= count:
        return torch.arange(count)
    ends = torch.arange(sequences + 1) * count // sequences
    return ends[:-1] + (torch.rand(sequences, generator=generator, dtype=torch.float64) * ends.diff()).long()


class NumbersAtTheEnd(Task):
    """Measures the mean squared error at each sequence's own last sample."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return nn.functional.mse_loss(batch.last(self._checked(outputs, batch)), batch.targets)

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return {"loss": float(self.loss(outputs, batch))}


class NumbersAtEverySample(Task):
    """Measures the mean squared error over the samples that count."""

    def part(self, batch: Batch, sequences: slice) -> Batch:
        return self._part(batch, sequences, batch.targets[:, sequences])

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return self._mean((self._checked(outputs, batch) - batch.targets).square().mean(-1), batch)

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return {"loss": float(self.loss(outputs, batch))}

    def weight(self, batch: Batch) -> float:
        return float(batch.targets[..., 0].numel() if batch.counts is None else batch.counts.sum())
