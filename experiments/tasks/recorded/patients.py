r"""Predicts death in hospital from the first 48 hours in intensive care (PhysioNet 2012).

    x_k    41 values, standardized, 0 where missing, and for each whether it was seen        at the stamp ts_k, in hours
    at 0   age, gender, height and kind of unit, seen there and never again: so every patient has a stamp

A setting may take something away or mix it up, in training as in the test: what a model loses by that, it has used.

    kept < 1    a stamp after the first is left out at random         shuffled    gaps of each patient, or labels of all
    longest     a gap is taken to last so many hours at most

AUROC: of two patients, one who died and one who did not, how often the first has the larger score; ties count half.

    ((sum of the ranks of the n who died) - n (n + 1) / 2) / (n m)          m did not
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from ctrnn import checks
from discretize import Batch, Collate
from experiments.data.physionet2012 import PARAMETERS, Patient, read_deaths2012, read_physionet2012
from experiments.data.scales import CONSTANT
from experiments.digests import digest
from experiments.seeds import generator as generator_of
from experiments.settings import Bounds
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.ranking import auroc
from experiments.tasks.task import SPLITS, FromFiles, check_split
from experiments.usage import UsageError

__all__ = ["FOLDS", "VALUES", "Patients", "Records"]

AT_THE_START = ("Age", "Gender", "Height", "ICUType")  # the weight is a value that is measured, too
VALUES = len(AT_THE_START) + len(PARAMETERS)
FOLDS = 5
VALIDATION = 0.16  # of all patients
TOGETHER = 10  # batches within which patients are sorted by their lengths
TAILS = (0.005, 0.995)  # quantiles of "train" to which values are clamped: a pH of 735 is a slip of the pen
LONGEST = 48.0


@dataclass(frozen=True, eq=False)
class Records:
    """Holds one split: of each patient the stamps (n,) in hours and the values (n, 41), nan where missing; labels (patients,)."""

    ts: tuple[Tensor, ...]
    xs: tuple[Tensor, ...]
    labels: Tensor


@dataclass(frozen=True)
class Patients(FromFiles):
    r"""Say who dies in hospital, 1, and who does not, 0.

    Args:    data: the folder with the files; grid: hours to whose multiples times are rounded, values that fall on the same one
             are averaged; 0 for the minutes of the files; clock_given: whether batches have stamps; gap_given: whether the hours
             since the stamp before are one more value, always seen; fold: which fifth of the patients is the test, so that
             over the five folds each patient is tested once; kept: share of the stamps after the first that are not left out;
             longest: hours, above 0, to which longer gaps between stamps are cut; shuffled: "gaps" between the stamps of each
             patient, or "labels" of the patients of a split; sets: the patients of sets A and B, "ab", or of set A alone, "a".
    Raises:  UsageError for a file that cannot be read, when it is first needed. A folder is read once in a process.
    Source:  Silva et al. 2012; values, rounding and statics as in Rubanova, Chen and Duvenaud 2019, whose code rounds to 0.1 h.
             Theirs is a split of set A only, scaled by least and largest value of all patients; the splits here are this
             project's, scaled by "train".
    """

    output_size, masked, stamped = 2, True, True
    measured: ClassVar[Sequence[str]] = ("loss", "accuracy", "auroc")
    holds = "the patients"
    grid: float = 0.1
    clock_given: bool = True
    gap_given: bool = False
    fold: Annotated[int, Bounds(0, most=FOLDS - 1)] = 0
    kept: float = 1.0
    longest: float = LONGEST
    shuffled: Literal["nothing", "gaps", "labels"] = "nothing"
    sets: Literal["ab", "a"] = "ab"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.grid <= LONGEST:
            raise ValueError(f"`grid` must be hours from 0 to {LONGEST:g}, got {self.grid}.")
        if not 0 < self.kept <= 1:
            raise ValueError(f"`kept` must be a share above 0 and up to 1, got {self.kept}.")
        checks.positive_number("longest", self.longest)

    @property
    def input_size(self) -> int:
        return 2 * (VALUES + self.gap_given)

    def recorded(self, split: str) -> Records:
        check_split(split)
        return _split(self.data, self.grid, self.sets, self.fold)[split]

    def fingerprint(self) -> str:
        return _read(self.data, self.grid, self.sets)[1]

    def count(self, split: str) -> int:
        return len(self.recorded(split).labels)

    def evaluation(self, split: str, sequences: int, size: int, seed: int) -> Iterator[Batch]:
        """Yield the split, at most so many, in one batch: an AUROC is no mean over batches. `size` and `seed` change nothing."""
        yield self.batch_of(split, torch.arange(self.count(split))[: checks.positive_size("sequences", sequences)])

    def batch_at(self, step: int, size: int, seed: int) -> Batch:
        """Make the batch of a step of training: patients of similar lengths, each of "train" once an epoch."""
        epoch, place = divmod(step, -(-self.count("train") // size))
        return self.batch_of("train", _epoch(self, size, seed, epoch)[place])

    def epoch_batches(self, size: int, generator: torch.Generator, together: int = TOGETHER) -> list[Tensor]:
        """Return the places of "train" once each, in batches of similar lengths, sorted within `together` batches at a time."""
        records = self.recorded("train")
        batches: list[Tensor] = []
        for some in torch.randperm(len(records.labels), generator=generator).split(size * together):
            lengths = torch.tensor([len(records.ts[k]) for k in some])
            batches += some[lengths.argsort(stable=True)].split(size)
        return [batches[k] for k in torch.randperm(len(batches), generator=generator).tolist()]

    def batch_of(self, split: str, which: Tensor) -> Batch:
        labels = self.recorded(split).labels
        if self.shuffled == "labels":
            labels = labels[torch.randperm(len(labels), generator=generator_of(0, "labels", split))]
        sequences = [self._sequence(split, k) for k in which.tolist()]
        return Collate(missing="mask")([(*both, label) for both, label in zip(sequences, labels[which], strict=True)])

    def _sequence(self, split: str, k: int) -> tuple[Tensor, Tensor | None]:
        """Return the values and stamps of a patient as the settings have them."""
        records = self.recorded(split)
        xs, ts = records.xs[k].to(torch.get_default_dtype()), records.ts[k]
        if self.kept < 1:
            draw = torch.rand(len(ts), generator=generator_of(0, "kept", split, k), dtype=torch.float32)
            kept = draw < self.kept
            kept[0] = True
            xs, ts = xs[kept], ts[kept]
        gaps = ts.diff(prepend=ts[:1])
        if float(gaps.max()) > self.longest:
            gaps = gaps.clamp(max=self.longest)
            ts = gaps.cumsum(0)
        if self.shuffled == "gaps":
            order = torch.randperm(len(ts) - 1, generator=generator_of(0, "gaps", split, k))
            gaps = torch.cat([gaps[:1], gaps[1:][order]])
            ts = gaps.cumsum(0)
        return torch.cat([xs, gaps[:, None].to(xs)], -1) if self.gap_given else xs, ts if self.clock_given else None

    def target_counts(self) -> dict[str, TargetCounts]:
        """Count how many of "train" died, all that is known without the input."""
        return {"blind": [torch.bincount(self.recorded("train").labels, minlength=2).tolist()]}

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        last = batch.last(outputs)
        return super().measures(outputs, batch) | {"auroc": auroc(last[:, 1] - last[:, 0], batch.targets)}


@functools.lru_cache(1)
def _epoch(task: Patients, size: int, seed: int, epoch: int) -> list[Tensor]:
    return task.epoch_batches(size, generator_of(seed, "epoch", epoch))


@functools.cache
def _read(folder: str, grid: float, sets: str) -> tuple[Records, str]:
    """Read all patients, their values as they are, and the digest of what the files say."""
    deaths = read_deaths2012(folder)
    patients = sorted(read_physionet2012(folder, sets=sets), key=lambda patient: patient.record)
    if unknown := [patient.record for patient in patients if patient.record not in deaths]:
        raise UsageError(f"{folder}: the outcomes say nothing of patient {unknown[0]}.")
    labels = torch.tensor([int(deaths[patient.record]) for patient in patients])
    ts, xs = zip(*(_rounded(patient, grid) for patient in patients), strict=True)
    said = [[patient.record, patient.ts, patient.xs, _at_the_start(patient)] for patient in patients]
    return Records(ts, xs, labels), digest({"patients": said, "labels": labels})


@functools.lru_cache(2)
def _split(folder: str, grid: float, sets: str, fold: int) -> dict[str, Records]:
    """Split the patients, drawn in one order for all folds, and standardize their values by those of "train"."""
    whole = _read(folder, grid, sets)[0]
    count = len(whole.labels)
    first, last = (round(k * count / FOLDS) for k in (fold, fold + 1))
    order = torch.randperm(count, generator=generator_of(0, "patients")).roll(first)
    held_out = round(VALIDATION * count), last - first
    places = dict(zip(SPLITS, order.split([count - sum(held_out), *held_out]), strict=True))
    for split, which in places.items():
        if not 0 < int(whole.labels[which].sum()) < len(which):
            raise UsageError(f"{folder}: {count} patients are too few, in {split} some must have died and some not.")
    mean, deviation, least, most = _scale(torch.cat([whole.xs[k] for k in places["train"].tolist()]))

    def standardized(k: int) -> Tensor:
        return ((whole.xs[k].clamp(least, most) - mean) / deviation).float()

    return {
        split: Records(tuple(whole.ts[k] for k in which.tolist()), tuple(map(standardized, which.tolist())), whole.labels[which])
        for split, which in places.items()
    }


def _at_the_start(patient: Patient) -> Tensor:
    return torch.tensor([patient.static[name] for name in AT_THE_START], dtype=torch.float64)


def _rounded(patient: Patient, grid: float) -> tuple[Tensor, Tensor]:
    """Return stamps on the grid, the first of them 0, and the mean of what was seen at each, nan where nothing was."""
    values = torch.full((1 + len(patient.ts), VALUES), math.nan, dtype=torch.float64)
    values[0, : len(AT_THE_START)], values[1:, len(AT_THE_START) :] = _at_the_start(patient), patient.xs
    times = torch.cat([torch.zeros(1, dtype=torch.float64), patient.ts])
    times, place = torch.unique_consecutive((times / grid).round() * grid if grid else times, return_inverse=True)
    sums, counts = torch.zeros(2, len(times), VALUES, dtype=torch.float64)
    sums.index_add_(0, place, values.nan_to_num(0.0))
    counts.index_add_(0, place, (~values.isnan()).double())
    return times, sums / counts


def _scale(values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute mean and deviation of each value of (n, 41), clamped; and the least and largest to which it is clamped."""
    scales = []
    for column in values.T:
        seen = column[~column.isnan()]
        if not len(seen):
            scales.append((0.0, 1.0, -math.inf, math.inf))
            continue
        least, most = seen.quantile(torch.tensor(TAILS, dtype=torch.float64)).tolist()
        deviation, mean = torch.std_mean(seen.clamp(least, most), correction=0)
        same = float(deviation) <= CONSTANT * max(abs(least), abs(most))  # a constant channel only says that it was measured
        scales.append((float(mean), 1.0 if same else float(deviation), least, most))
    mean, deviation, least, most = torch.tensor(scales, dtype=torch.float64).T
    return mean, deviation, least, most
