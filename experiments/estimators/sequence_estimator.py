"""Reads, trains and answers, as all estimators of sequences do: rows of a table in, outputs at their places out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from ctrnn import VectorField
from ctrnn.extras import needed_by
from discretize import Collate
from discretize.kernels.price import kernels_at_once
from discretize.progress import progress_bar
from discretize.sequences import Batch
from experiments.data.columns import Notation
from experiments.data.samples import Input, in_order
from experiments.estimators.sequences import SequenceRows, rows_of
from experiments.runs.configuration import configuration_of
from experiments.runs.evaluation import torch_defaults
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Training
from experiments.seeds import generator
from experiments.settings import settings_from
from experiments.tasks.recorded.dataset import TableSettings, dataset_from
from experiments.tasks.recorded.parts import Place, whole_of
from experiments.tasks.recorded.table import TableTask
from experiments.usage import UsageError

with needed_by("SequenceClassifier"):
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted

__all__ = ["SequenceEstimator", "as_value_errors"]

EVALUATIONS = 20  # of the validation sequences, while steps are taken
READ_BY = ("words", "decimal", "dates", "clock")  # settings that say what cells mean
# Settings of `ctrnn train` that are arguments here, and how these are called.
ARGUMENTS = {name: name for name in ("hidden", "steps", "batch", "lr", "patience", "device")} | {"seed": "random_state"}
AT_ONCE = 256  # sequences of a prediction


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise what the command says of wrong usage as scikit-learn does, and a training that diverged as an error of the run."""
    try:
        yield
    except UsageError as error:
        raise ValueError(str(error)) from error
    except StoppedError as error:
        raise RuntimeError(str(error)) from error


@dataclass(frozen=True)
class Fitted:
    """Holds how sequences are read after fit: columns, how many features arrays had, the units of time and of stamps, what may be
    missing, and what is said."""

    inputs: tuple[Input, ...]
    features: int
    unit: float
    stamps: str
    masked: bool
    at_the_end: bool
    targets: tuple[str, ...]
    classes: tuple[str, ...]
    means: np.ndarray
    deviations: np.ndarray
    words: str


def _names(given: Any) -> tuple[str, ...]:
    """Return names of columns, or cells, as a tuple; a single word is one name, not one for each letter."""
    return (given,) if isinstance(given, str) else tuple(map(str, () if given is None else given))


class SequenceEstimator(BaseEstimator):
    predict_what = ""

    def __init__(
        self,
        field: str | Callable[..., VectorField] = "gru",
        hidden: int = 32,
        integrator: str = "exact",
        *,
        sequence: str | None = None,
        time: str | None = None,
        inputs: Sequence[str] | None = None,
        unit: float = 0.0,
        missing: Sequence[str] = (),
        steps: int = 500,
        batch: int = 32,
        lr: float = 1e-2,
        validation: float = 0.2,
        patience: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
        device: str = "cpu",
        progress: bool = False,
    ) -> None:
        self.field, self.hidden, self.integrator = field, hidden, integrator
        self.sequence, self.time, self.inputs, self.unit, self.missing = sequence, time, inputs, unit, missing
        self.steps, self.batch, self.lr, self.validation, self.patience = steps, batch, lr, validation, patience
        self.settings, self.random_state, self.device, self.progress = settings, random_state, device, progress

    def _fit(self, rows: SequenceRows, targets: tuple[str, ...], whole: bool | None) -> Self:
        """Read the rows, train, and keep how to read others."""
        words = targets if self.predict_what == "class" else ()
        with as_value_errors():
            settings = TableSettings(
                data="X",
                sequence=rows.sequence,
                time=self._time,
                inputs=_names(self.inputs),
                target=targets,
                predict=self.predict_what,  # type: ignore[arg-type]
                unit=self.unit,
            )
            table = rows.columns(self._notation(words))
            dataset = dataset_from(settings, table, "", self._dealt, whole)
            task = TableTask.holding(dataset, settings)
            evaluated = {"keep": "best", "evaluate_every": max(1, self.steps // EVALUATIONS)} if self.validation else {}
            others = {key: value for key, value in self._settings().items() if key not in READ_BY}
            how = {"hidden": self.hidden, "steps": self.steps, "batch": self.batch, "lr": self.lr, "device": self.device}
            how |= {"seed": self._seed(), "patience": self.patience, **evaluated, **others}
            configuration = configuration_of(task, self.field, self.integrator, how)
            run = Training(configuration.untrained_model(), task, configuration.training)
            with (
                torch_defaults(run.threads, torch.float32),
                kernels_at_once(),
                progress_bar("fit", self.progress, configuration.training.steps, "step") as show,
            ):
                run.run(progress=lambda step, loss, rate: show(step))
                run.choose()
        self.model_ = run.model.eval()
        self.losses_ = dict(run.best)
        self.n_features_in_ = len(dataset.inputs)
        self.fitted_ = Fitted(
            dataset.inputs,
            rows.features,
            dataset.unit,
            table.stamps(self._time).unit if self._time else "",
            dataset.masked,
            dataset.at_the_end,
            dataset.targets,
            dataset.classes,
            np.array(dataset.means),
            np.array(dataset.deviations),
            dataset.words,
        )
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.three_d_array = tags.input_tags.string = True
        tags.non_deterministic = False
        return tags

    @property
    def _time(self) -> str:
        return "" if self.time is None else str(self.time)

    def _notation(self, words: tuple[str, ...] = ()) -> Notation:
        """Return what cells mean, by `missing` and the `settings` that say it; words: columns of words, besides those."""
        given = {key: value for key, value in self._settings().items() if key in READ_BY}
        own = {"missing": _names(self.missing), "words": (*words, *_names(given.pop("words", ())))}
        with as_value_errors():
            return settings_from(Notation, given | own)

    def _settings(self) -> Mapping[str, Any]:
        if self.settings is not None and not isinstance(self.settings, Mapping):
            raise TypeError(f"`settings` must be a dictionary, such as {{'rtol': 1e-4}}, got {self.settings!r}.")
        if twice := next((key for key in self.settings or () if key in ARGUMENTS), None):
            raise ValueError(f"`settings` has {twice!r}; give `{ARGUMENTS[twice]}`, an argument of its own.")
        return self.settings or {}

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        if self.random_state is None:
            return int(torch.randint(2**31, ()))
        if not isinstance(self.random_state, Integral):
            raise TypeError(
                f"`random_state` must be a whole number, a numpy.random.RandomState or None, got {self.random_state!r}."
            )
        return int(self.random_state)

    def _dealt(
        self, task: TableSettings, table: Any, rows: list[np.ndarray], labels: np.ndarray | None, whole: bool
    ) -> tuple[list[Place], str]:
        """Deal sequences to training and validation; of one sequence, or with validation=0, all is trained on."""
        if not 0 <= self.validation < 1:
            raise ValueError(f"`validation` must be a share of the sequences from 0 to below 1, got {self.validation!r}.")
        order = torch.randperm(len(rows), generator=generator(self._seed(), "validation")).tolist()
        count = min(round(self.validation * len(rows)), len(rows) - 1)
        if count and labels is not None:  # each class in turn, and of each at least one to learn
            classes = pd.Series([int(whole_of(labels[rows[k]])) for k in order])
            first, after = (classes.groupby(classes).cumcount(ascending=way) for way in (True, False))
            order = [order[j] for j in np.lexsort((classes, after, first == 0))]
            count = min(count, int((first > 0).sum()))
        held = set(order[:count])
        taken = [k for k in range(len(rows)) if k not in held]
        parts = {"train": taken, "validation": sorted(held) or taken, "test": sorted(held) or taken}
        said = f"{len(held)} of {len(rows)} sequences are held out" if held else "all sequences are trained on"
        return [(part, k, slice(None)) for part, some in parts.items() for k in some], said

    def read(self, X: Any) -> Batch:
        """Return sequences as `model_` reads them, in the order of `predict`: `model_(x.xs, ts=x.ts, lengths=x.lengths)`.

        A `discretize.sequences.Batch`: xs (time, sequences, features), numbers standardized, words as kinds, what is missing 0
        and flagged, rows in the order of time; ts in the model's unit, `fitted_.unit` of the table's, from each first row on,
        None without `time`.
        """
        check_is_fitted(self, "model_")
        return self._batch(self._read(rows_of(X, self.sequence))[0])

    def _batch(self, sequences: list[dict[str, torch.Tensor]]) -> Batch:
        return Collate("mask" if self.fitted_.masked else None)(sequences).to(next(self.model_.parameters()).device)

    def _read(self, rows: SequenceRows) -> tuple[list[dict[str, torch.Tensor]], list[np.ndarray]]:
        """Return features and stamps of each sequence, and its rows, in the order of time."""
        fitted = self.fitted_
        if rows.features and fitted.features and rows.features != fitted.features:
            raise ValueError(
                f"X has {rows.features} features, but {type(self).__name__} is expecting {fitted.features} features as input."
            )
        with as_value_errors():
            words = tuple(each.name for each in fitted.inputs if each.scale is None)
            table = rows.columns(self._notation(words))
            for name in [*(each.name for each in fitted.inputs), *filter(None, [self._time])]:
                if name not in table:
                    raise UsageError(f"X: there is no column {name!r}, which was fitted; there is {', '.join(table.names)}.")
            if self._time and (now := table.stamps(self._time).unit) != fitted.stamps:
                units = [unit or "a unit that is not known" for unit in (fitted.stamps, now)]
                raise UsageError(
                    f"X: {self._time} was in {units[0]} where it was fitted, and is in {units[1]}; give it as it was."
                )
            ordered = in_order(table, rows.sequence, self._time, fitted.unit)
            read = [each.read(table, ordered.joined) for each in fitted.inputs]
            for each, values in zip(fitted.inputs, read, strict=True):
                if not fitted.masked and np.isnan(values).any():
                    row = 1 + int(np.isnan(values).any(1).argmax())
                    what = "no value" if each.scale else "no word that was fitted"
                    raise UsageError(
                        f"X: {each.name} has {what} in row {row}, and nothing was missing in what was fitted, so that the model "
                        "does not read whether a value was seen; fit it where some are missing too, or fill them in."
                    )
        xs = torch.from_numpy(np.concatenate(read, 1)).float()
        stamps = [torch.from_numpy(ordered.times[k] - ordered.times[k[0]]) for k in ordered.rows]
        sequences = [{"x": xs[k]} | ({"ts": ts} if self._time else {}) for k, ts in zip(ordered.rows, stamps, strict=True)]
        return sequences, ordered.rows

    def _outputs(self, rows: SequenceRows) -> tuple[list[torch.Tensor], list[np.ndarray]]:
        """Return what the model says after each row of each sequence, (time, outputs), and the rows, in the order of time."""
        sequences, places = self._read(rows)
        outputs: list[torch.Tensor] = []
        with torch.no_grad(), torch_defaults(torch.get_num_threads(), torch.float32):
            for start in range(0, len(places), AT_ONCE):
                batch = self._batch(sequences[start : start + AT_ONCE])
                said = self.model_(batch.xs, ts=batch.ts, lengths=batch.lengths).cpu()
                outputs += [said[: len(k), j] for j, k in enumerate(places[start : start + AT_ONCE])]
        return outputs, places

    def _answers(self, X: Any) -> tuple[SequenceRows, np.ndarray]:
        """Return the sequences, and what the model says of each, or of each row: (n, outputs)."""
        check_is_fitted(self, "model_")
        rows = rows_of(X, self.sequence)
        outputs, places = self._outputs(rows)
        if self.fitted_.at_the_end:
            return rows, torch.stack([each[-1] for each in outputs]).double().numpy()
        return rows, _in_places(outputs, places)

    def _shaped(self, rows: SequenceRows, answers: np.ndarray, names: Sequence[Any], of_sequences: bool | None = None) -> Any:
        """Return answers as they were asked for: a table's in pandas, with its index; of rows of a list, an array a sequence."""
        of_sequences = self.fitted_.at_the_end if of_sequences is None else of_sequences
        if rows.is_table:
            index = rows.ids.rename(rows.sequence or None) if of_sequences else rows.frame.index
            return pd.Series(answers, index, name=names[0]) if answers.ndim == 1 else pd.DataFrame(answers, index, list(names))
        if of_sequences:
            return answers
        return [answers[rows.of_sequence == k] for k in range(len(rows.ids))]


def _in_places(outputs: list[torch.Tensor], places: list[np.ndarray]) -> np.ndarray:
    """Return outputs of sequences, in the order of time, at the rows that they are of."""
    found = np.empty((sum(map(len, places)), outputs[0].shape[-1]))
    for each, k in zip(outputs, places, strict=True):
        found[k] = each.double().numpy()
    return found
