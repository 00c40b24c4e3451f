r"""Fits a recurrent network that is an equation to sequences, as scikit-learn's estimators are fitted.

    SequenceClassifier    a class, of a sequence or of every row
    SequenceRegressor     a number or several, of a sequence or of every row
    Forecaster            the values of the next row

Sequences are read as the task `csv` reads a table: numbers standardized by those that were fitted, words as kinds, dates and
times of a clock as they stand, and beside every value whether it was seen, where any is missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from ctrnn.extras import needed_by
from experiments.estimators.sequence_estimator import SequenceEstimator, as_value_errors
from experiments.estimators.sequences import SequenceRows, rows_of, with_targets

with needed_by("SequenceClassifier"):
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.exceptions import DataConversionWarning
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted

__all__ = ["Forecaster", "SequenceClassifier", "SequenceRegressor"]


def _word(each: Any) -> str:
    """Write a class as a word that no cell says of what is missing: of NA with its quotation marks."""
    return repr(each.item() if isinstance(each, np.generic) else each)


def _say_if_column(y: Any) -> None:
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 and isinstance(y, np.ndarray):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is answered as (n,).",
            DataConversionWarning,
            stacklevel=3,
        )


def _say_if_of_rows(rows: SequenceRows, y: Any) -> None:
    """Warn of an array of numbers (n, time), which is read as (n, targets)."""
    width = y.shape[1] if not rows.is_table and getattr(y, "ndim", 1) == 2 else 1
    if width > 1 and (np.bincount(rows.of_sequence) == width).all():
        warnings.warn(
            f"`y` has {width} columns, as many as each sequence has rows, and is read as {width} numbers of each sequence; for a "
            "number of each row give a list, `[*y]`.",
            UserWarning,
            stacklevel=3,
        )


def _right(estimator: SequenceEstimator, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what is right and what is predicted, of each sequence or each row in which something is asked."""
    predicted = estimator.predict(X)
    rows, targets, _ = with_targets(rows_of(X, estimator.sequence), y)
    cells = rows.columns(estimator._notation(), only=targets)
    if estimator.predict_what == "class":
        right = rows.frame[list(targets)].astype(object).mask(cells.declared(targets[0])[:, None])
    else:
        with as_value_errors():
            right = pd.DataFrame({name: cells.numbers(name) for name in targets})
    if estimator.fitted_.at_the_end:
        groups = right.groupby(rows.of_sequence)
        if (changing := (groups.nunique() > 1).any(axis=1)).any():
            raise ValueError(f"a target of sequences is fitted, and `y` changes within sequence {changing.argmax()}.")
        right = groups.first()
    said = np.concatenate(predicted) if isinstance(predicted, list) else np.asarray(predicted)
    asked = right.notna().all(axis=1).to_numpy()
    values = right.infer_objects()[targets[0]] if len(targets) == 1 else right
    return values.to_numpy()[asked], said[asked]


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
    r"""Learns a class, of each sequence or of every row.

        SequenceClassifier(hidden=16, time="t").fit(frames, y).predict(more)
        SequenceClassifier(sequence="patient", time="hour").fit(table, "diagnosis")

    Args:    field: a name of `ctrnn train --field`, or what makes a field, called as `ctrnn.gru`; hidden: units; integrator:
             "euler", for a step a row, or another name of `ctrnn train --integrator`; sequence: the column of a DataFrame of all
             rows that says which rows belong together; time: the column of stamps, numbers, dates or times of a clock, None for
             rows that are one apart; inputs: columns that are read, all that are not named otherwise if None; unit: of time that
             is 1 for the model, 0 for the median time between rows; missing: cells that say that nothing was seen; steps, batch,
             lr: of the training; validation: the share of sequences that are held out, by which the best weights are kept, 0 for
             none and the last; patience: evaluations that are no better, after which training ends; settings: others of `ctrnn
             train --set`, as {"rtol": 1e-4}, and of how cells are read, as {"dates": "day-first"}, decimal, clock and words;
             random_state: of weights, batches and the share that is held out; device; progress: whether there is a bar.
    Attributes: model_, the `discretize.SequenceModel`; classes_; losses_, those of the evaluation that was best; fitted_, whose
             `words` say how the sequences were read.
    Shape:   X: a list of DataFrames, or of arrays (time, features) or (time,), an array (n, time, features) or (n, time), or a
             DataFrame of all rows; y (n,), or a list of as many classes as each sequence has rows; of a DataFrame of all rows
             also the name of a column. `predict` answers as y was given; of a DataFrame of all rows in pandas.
    Raises:  TypeError, ValueError for what cannot be read; `MissingPackageError` without scikit-learn.
    """

    predict_what = "class"

    def fit(self, X: Any, y: Any) -> Self:
        rows, targets, whole = with_targets(rows_of(X, self.sequence), y)
        _say_if_column(y)
        if len(targets) > 1:
            raise ValueError(f"`y` must be one class of each sequence, or of each row, got {len(targets)} columns.")
        column = rows.frame[targets[0]]
        there = column.notna().to_numpy() & ~rows.columns(self._notation(), only=targets).declared(targets[0])
        seen = column[there].to_numpy()
        check_classification_targets(seen)
        self.classes_, places = np.unique(seen, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"`y` has {len(self.classes_)} class; the number of classes has to be greater than one.")
        words = np.full(len(column), None, object)
        words[there] = np.array([_word(each) for each in self.classes_], object)[places]
        return self._fit(replace(rows, frame=rows.frame.assign(**{targets[0]: words})), targets, whole)

    def _logits(self, X: Any) -> tuple[SequenceRows, np.ndarray]:
        rows, said = self._answers(X)
        if (lost := ~np.isfinite(said).all(1)).any():  # the largest of nan is the first class
            which = f"{'sequence' if self.fitted_.at_the_end else 'row'} {int(lost.argmax())}"
            raise RuntimeError(
                f"{int(lost.sum())} of {len(said)} answers are no number, the first of {which}: states left all bounds, as by "
                'steps that are long for the rates; take `integrator="exact"`.'
            )
        place = {word: k for k, word in enumerate(self.fitted_.classes)}
        return rows, said[:, [place[_word(each)] for each in self.classes_]]

    def predict(self, X: Any) -> Any:
        """Return the class that is most likely."""
        rows, logits = self._logits(X)
        return self._shaped(rows, self.classes_[logits.argmax(1)], self.fitted_.targets)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of `classes_`: (n, classes)."""
        rows, logits = self._logits(X)
        chances = np.exp(logits - logits.max(1, keepdims=True))
        return self._shaped(rows, chances / chances.sum(1, keepdims=True), list(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy."""
        return float(accuracy_score(*_right(self, X, y), sample_weight=sample_weight))


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    r"""Learns a number, or several, of each sequence or of every row.

        SequenceRegressor(hidden=16, time="t").fit(frames, y).predict(more)

    Args:    as for `SequenceClassifier`.
    Attributes: as there, without `classes_`.
    Shape:   X as there; y (n,) or (n, targets), or a list of as many numbers as each sequence has rows; of a DataFrame of all
             rows also the names of columns. `predict` answers as y was given; of a DataFrame of all rows in pandas.
    Raises:  TypeError, ValueError for what cannot be read; `MissingPackageError` without scikit-learn.
    """

    predict_what = "number"

    def fit(self, X: Any, y: Any) -> Self:
        rows = rows_of(X, self.sequence)
        _say_if_column(y)
        _say_if_of_rows(rows, y)
        return self._fit(*with_targets(rows, y))

    def predict(self, X: Any) -> Any:
        """Return the numbers, (n,) of one target, (n, targets) of several."""
        rows, said = self._answers(X)
        answers = said * self.fitted_.deviations + self.fitted_.means
        return self._shaped(rows, answers[:, 0] if len(self.fitted_.targets) == 1 else answers, self.fitted_.targets)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, R^2."""
        right, said = _right(self, X, y)
        return float(r2_score(right, said, sample_weight=sample_weight))


class Forecaster(SequenceEstimator):
    r"""Learns what the next row has.

        Forecaster(time="t").fit(frame, ["temperature", "pressure"]).predict(later)

    Args:    as for `SequenceClassifier`.
    Attributes: as there, without `classes_`.
    Shape:   X as there; y: the column, or columns, of numbers that are forecast, all that are read if None. `predict` gives the
             values that follow the last row of each sequence, (n, columns), of one column (n,).
    Raises:  TypeError, ValueError for what cannot be read; `MissingPackageError` without scikit-learn.
    """

    predict_what = "next"

    def fit(self, X: Any, y: str | Sequence[str] | None = None) -> Self:
        rows = rows_of(X, self.sequence)
        if (
            y is not None
            and not isinstance(y, str)
            and not (isinstance(y, list | tuple) and all(isinstance(one, str) for one in y))
        ):
            raise TypeError(f"`y` names columns of `X` that are forecast, or is None for all numbers; got {type(y).__name__}.")
        targets = (y,) if isinstance(y, str) else tuple(y or ())
        if absent := [name for name in targets if name not in rows.frame]:
            raise ValueError(f"`X` has no column {absent[0]!r} to forecast; there is {', '.join(map(str, rows.frame))}.")
        return self._fit(rows, targets, False)

    def predict(self, X: Any) -> Any:
        """Return the values that follow the last row, in time, of each sequence."""
        check_is_fitted(self, "model_")
        rows = rows_of(X, self.sequence)
        outputs, _ = self._outputs(rows)
        answers = self._in_units(torch.stack([each[-1] for each in outputs]).double().numpy())
        answers = answers[:, 0] if len(self.fitted_.targets) == 1 else answers
        return self._shaped(rows, answers, self.fitted_.targets, of_sequences=True)

    def score(self, X: Any, y: Any = None) -> float:
        """Return R^2 of each row's values as forecast at the row before, the mean over columns; `y` is not read."""
        check_is_fitted(self, "model_")
        rows = rows_of(X, self.sequence)
        outputs, places = self._outputs(rows)
        columns = rows.columns(self._notation())
        right = np.stack([columns.numbers(name) for name in self.fitted_.targets], 1)
        said = np.concatenate([self._in_units(each[:-1].double().numpy()) for each in outputs])
        right = np.concatenate([right[k[1:]] for k in places])
        scores = []
        for mine, value in zip(said.T, right.T, strict=True):
            seen = ~np.isnan(value)
            scores.append(r2_score(value[seen], mine[seen]))
        return float(np.mean(scores))

    def _in_units(self, outputs: np.ndarray) -> np.ndarray:
        found: np.ndarray = outputs * self.fitted_.deviations + self.fitted_.means
        return found
