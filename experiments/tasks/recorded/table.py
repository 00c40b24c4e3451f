r"""Predicts a class, numbers, or what comes next, from a table of one's own: a row a sample, a column a variable.

    x_k    columns, standardized by "train", each word an input of 0 or 1; 0 where missing, and then for each whether it was seen
    y      the target: of the sequence, where it is the same in all of its rows; of every sample; or the values at k + 1

A target that is missing asks for nothing. Numbers are asked for in units of their standard deviation in "train"; of counts n, as
of spikes, the model says the logarithm of the rate r, and loses half of Poisson's deviance, n log(n/r) - n + r.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ctrnn import checks
from discretize import Collate
from experiments.data.samples import NO_CLASS
from experiments.seeds import generator as generator_of
from experiments.tasks.ranking import auprc, auroc
from experiments.tasks.recorded.dataset import Dataset, TableSettings, dataset_of, span
from experiments.tasks.recorded.pieces import RecordedPiece, factors_of, places
from experiments.tasks.recorded.recordings import MOST_REPEATS
from experiments.tasks.task import SPLITS, Batch, Task, check_split, said_right
from experiments.usage import UsageError

__all__ = ["TableTask"]


@dataclass(frozen=True)
class TableTask(TableSettings, Task):
    r"""Predict columns of a table.

    Args:    speed: at which sequences are played, 2 for a sample every second row, 0.5 for two samples a row; clock_given:
             whether batches have the recording's time at each sample, where there are stamps or samples are no longer rows;
             between: what samples between two rows show, held for the row before, backward for the row after, as goes with
             hold=backward, or linear; warp: above 1, each eighth of a sequence is played at a speed of its own, drawn once for
             all, up to so many times as fast or as slow.
    Raises:  UsageError for a speed at which a table says nothing, when it is first needed; ValueError for one that is none.
    """

    speed: float = 1.0
    clock_given: bool = True
    between: Literal["held", "backward", "linear"] = "held"
    warp: float = 1.0

    @classmethod
    def holding(cls, dataset: Dataset, settings: TableSettings) -> Self:
        """Return the task of a table that is in memory, and was read."""
        task = cls(**{setting.name: getattr(settings, setting.name) for setting in fields(TableSettings)})
        task.__dict__["_found"] = dataset  # functools.cached_property reads this entry
        return task

    def __post_init__(self) -> None:
        super().__post_init__()
        speed, warp = checks.positive_number("speed", self.speed), checks.positive_number("warp", self.warp)
        if warp < 1 or warp / speed > MOST_REPEATS * (1 + 1e-9):
            raise ValueError(
                f"`speed` must be at least 1/{MOST_REPEATS}, and so must `speed` / `warp`, with a `warp` of at least 1; got "
                f"speed={speed:g} and warp={warp:g}."
            )

    @functools.cached_property
    def _found(self) -> Dataset:
        table = TableSettings(**{setting.name: getattr(self, setting.name) for setting in fields(TableSettings)})
        try:
            about = Path(self.data).stat()
        except OSError:
            return dataset_of(table, 0, 0)  # raises an error that says what is wrong
        found = dataset_of(table, about.st_size, about.st_mtime_ns)
        self._check_speed(found)
        return found

    @property
    def _is_played(self) -> bool:
        """Whether samples are others than the rows."""
        return self.speed != 1 or self.warp != 1

    @property
    def _is_between_rows(self) -> bool:
        """Whether samples lie between rows too."""
        return self.speed != round(self.speed) or self.warp != 1

    @property
    def hold_as_played(self) -> str:
        matters = self.clock_given and self._is_between_rows
        return {"held": "forward", "backward": "backward"}.get(self.between, "") if matters else ""

    def _check_speed(self, found: Dataset) -> None:
        """Refuse speeds at which nothing is left to read or to ask."""
        if self.between == "linear" and self._is_between_rows and not found.at_the_end:
            raise UsageError(
                f"{self.data}: with between=linear samples between two rows show what comes next, and here something is asked at "
                "every row, before that is known; take between=held."
            )
        rows = [len(one.ts) for split in SPLITS for one in found.parts[split] if len(one.ts) > 1] or [2]
        most, which = (min(rows), "shortest") if found.at_the_end else (max(rows), "longest")
        fastest = self.speed * self.warp
        if fastest > 1 and fastest > most - 1:
            raise UsageError(
                f"{self.data}: at speed {fastest:g} the {which} sequence, of {most} rows, would be a single sample; take a "
                f"`speed` (times `warp`) of at most {most - 1}."
            )

    @functools.cached_property
    def _asked_in(self) -> dict[str, list[int]]:
        """Return the places of the pieces in which something is asked, of each split: at other speeds perhaps not of all."""
        found, places = self._found, dict[str, list[int]]()
        for split, parts in found.parts.items():
            kept = list(range(len(parts)))
            if self._is_played and not found.at_the_end:
                targets = [self._piece(split, k).target for k in kept]
                kept = [k for k in kept if bool((targets[k] != NO_CLASS if found.classes else ~targets[k].isnan()).any())]
            if not kept:
                raise UsageError(f"{self.data}: at speed {self.speed:g} nothing is asked in {split}.")
            places[split] = kept
        return places

    def _places(self, split: str, k: int) -> Tensor:
        """Return between which rows of a sequence its samples lie."""
        factors = factors_of(self.warp, generator_of(0, "warp", split, k))
        return places(len(self._found.parts[split][k].ts), self.speed, factors)

    def _piece(self, split: str, k: int) -> RecordedPiece:
        """Return a sequence of a split, as it is played."""
        dataset = self._found
        one = dataset.parts[split][k]
        if not self._is_played:
            return one
        return one.played(self._places(split, k), self.between, dataset.of_words, dataset.at_the_end)

    def _pieces(self, split: str) -> Iterator[RecordedPiece]:
        return (self._piece(split, k) for k in self._asked_in[split])

    @property
    def input_size(self) -> int:
        return len(self._found.of_words) * (2 if self.masked else 1)

    @property
    def output_size(self) -> int:
        dataset = self._found
        return len(dataset.classes) or len(dataset.targets)

    @property
    def open_interval(self) -> float:
        """Return the median time between rows of "train", in units of the model's: 1 where that is its unit."""
        gaps = [one.ts.diff() for one in self._found.parts["train"]] if self.unit else []
        known = torch.cat([*gaps, torch.empty(0, dtype=torch.float64)])
        return float(known.median()) if len(known) else 1.0

    @property
    def masked(self) -> bool:  # type: ignore[override]
        """Whether a sample is [values, 1 where seen, else 0]: where anything is missing."""
        return self._found.masked

    @property
    def measured(self) -> Sequence[str]:  # type: ignore[override]
        dataset = self._found
        if len(dataset.classes) == 2:
            return "loss", "accuracy", "auroc", "auprc"
        return ("loss", "accuracy") if dataset.classes else ("loss", "mean_error") if len(dataset.targets) == 1 else ("loss",)

    @property
    def output_names(self) -> Sequence[str]:
        dataset = self._found
        return dataset.classes or dataset.targets

    def fingerprint(self) -> str:
        return self._found.digest

    def look(self) -> str:
        words = self._found.words
        if not self._is_played:
            return words
        samples = span([len(self._places(split, k)) for split in SPLITS for k in self._asked_in[split]])
        warped = f", each eighth of a sequence up to {self.warp:g} times as fast or slow" if self.warp > 1 else ""
        how = f"between rows {self.between}, the clock {'given' if self.clock_given else 'not given'}"
        return f"{words}\nplayed at speed {self.speed:g}{warped}; {how}; sequences of {samples} samples"

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        return self.batch_of(split, torch.randint(len(self._asked_in[split]), (size,), generator=generator))

    def evaluation(self, split: str, sequences: int, size: int, seed: int) -> Iterator[Batch]:
        """Yield the split in order, each sequence once, at most so many; of two classes in one batch, for an AUROC is no mean
        over batches. `seed` changes nothing."""
        check_split(split)
        count = min(checks.positive_size("sequences", sequences), len(self._asked_in[split]))
        size = checks.positive_size("size", size)
        for which in torch.arange(count).split(count if len(self._found.classes) == 2 else size):
            yield self.batch_of(split, which)

    def batch_of(self, split: str, which: Tensor) -> Batch:
        """Make a batch of these sequences of a split, by their places in it."""
        dataset = self._found
        some = [self._piece(split, self._asked_in[split][k]) for k in which.tolist()]
        clocked = self.clock_given and bool(self.time or self._is_played)
        read = [{"x": one.xs.to(torch.get_default_dtype())} | ({"ts": one.ts} if clocked else {}) for one in some]
        batch = Collate("mask" if dataset.masked else None)(read)
        if dataset.at_the_end:
            targets = torch.stack([one.target for one in some])
        else:
            targets = pad_sequence([one.target for one in some], padding_value=NO_CLASS if dataset.classes else torch.nan)
        return replace(batch, targets=targets if dataset.classes else targets.to(batch.xs))

    def part(self, batch: Batch, sequences: slice) -> Batch:
        at_the_end = self._found.at_the_end
        return self._part(batch, sequences, batch.targets[sequences] if at_the_end else batch.targets[:, sequences])

    def loss(self, outputs: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        found, asked = self._found, self._asked(outputs, batch)
        if found.classes:
            targets = batch.targets.flatten()
            return nn.functional.cross_entropy(
                asked.flatten(0, -2), targets, ignore_index=NO_CLASS, label_smoothing=label_smoothing
            )
        if label_smoothing:
            raise UsageError("label_smoothing is for classes, and the target is a number.")
        said, right = self._seen(asked, batch)
        return _deviance(said, right) if found.counts else (said - right).square().mean()

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        found, asked, loss = self._found, self._asked(outputs, batch), float(self.loss(outputs, batch))
        if found.classes:
            said, right = asked[seen := batch.targets != NO_CLASS], batch.targets[seen]
            known = {"loss": loss, "accuracy": float(said_right(said, right).to(outputs.dtype).mean())}
            if len(found.classes) == 2:
                scores = said[:, 1] - said[:, 0]
                known |= {"auroc": auroc(scores, right), "auprc": auprc(scores, right)}
            return known
        if len(found.targets) > 1:
            return {"loss": loss}
        said, right = self._seen(self.in_target_units(asked), batch)
        return {"loss": loss, "mean_error": found.deviations[0] * float((said - right).abs().mean())}

    def in_target_units(self, outputs: Tensor) -> Tensor:
        return outputs.exp() if self._found.counts else outputs

    def weight(self, batch: Batch) -> float:
        return float((batch.targets != NO_CLASS if self._found.classes else ~batch.targets.isnan()).sum())

    def _asked(self, outputs: Tensor, batch: Batch) -> Tensor:
        outputs = self._checked(outputs, batch)
        return batch.last(outputs) if self._found.at_the_end else outputs

    @staticmethod
    def _seen(asked: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what is said and what is right, where something is asked: the gradient of what is left out would be nan."""
        seen = ~batch.targets.isnan()
        return asked[seen], batch.targets[seen]

    def baselines(self) -> dict[str, float]:
        """Return what a guess loses on "test": the shares, or the mean, of the targets of "train"; or the last value again."""
        found, train, test = self._found, self._targets("train"), self._targets("test")
        if found.classes:
            shares = torch.bincount(train, minlength=len(found.classes)).double() + 0.5  # none is impossible
            return {"blind": float((shares.sum().log() - shares.log())[test].mean())}
        if found.counts:
            rates = train.nanmean(0).log().clamp(min=-9.0).expand_as(test)
            return {"blind": float(_deviance(rates[~test.isnan()], test[~test.isnan()]))}
        known = {"blind": float(test[~test.isnan()].square().mean())}
        before = [one.before for one in self._pieces("test") if one.before is not None]
        if before:  # a channel without an earlier value is predicted by its mean, which is 0
            known["last value"] = float((torch.cat(before).nan_to_num(0.0) - test).square().nanmean())
        return known

    def baseline_accuracies(self) -> dict[str, float]:
        """Return how often the most frequent class of "train" is right on "test"."""
        dataset = self._found
        if not dataset.classes:
            return {}
        most = torch.bincount(self._targets("train")).argmax()
        return {"blind": float((self._targets("test") == most).double().mean())}

    def _targets(self, split: str) -> Tensor:
        """Return all that is asked for in a split: classes (n,), or numbers (n, numbers), nan where nothing is."""
        dataset = self._found
        if dataset.classes:
            targets = torch.cat([one.target.flatten() for one in self._pieces(split)])
            return targets[targets != NO_CLASS]
        return torch.cat([one.target.reshape(-1, len(dataset.targets)) for one in self._pieces(split)])


def _deviance(logarithms: Tensor, counts: Tensor) -> Tensor:
    """Compute half of Poisson's mean deviance of counts from rates, given by their logarithms."""
    return (torch.xlogy(counts, counts) - counts * logarithms - counts + logarithms.exp()).mean()
