"""Estimators of scikit-learn's kind: what they learn, in which forms they read sequences, and that these forms agree."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from discretize import SequenceModel
from experiments.estimators.estimators import Forecaster, SequenceClassifier, SequenceRegressor
from experiments.estimators.sequences import by_sequence

QUICK = {"hidden": 8, "steps": 40, "lr": 2e-2, "integrator": "euler"}


def table(sequences=24, rows=12, seed=0):
    """Slow and fast swings at irregular times, a word that says nothing, and the class of each sequence."""
    dice, parts = np.random.default_rng(seed), []
    for k in range(sequences):
        t = np.cumsum(dice.uniform(0.5, 1.5, rows))
        x = np.sin(t * (2.0 if k % 2 else 0.7) + dice.random())
        kind = dice.choice(["a", "b"], rows)
        parts.append(pd.DataFrame({"who": f"p{k}", "t": t, "x": x, "kind": kind, "label": ["slow", "fast"][k % 2]}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def fitted():
    return SequenceClassifier(**QUICK | {"steps": 150}, sequence="who", time="t").fit(table(), "label")


def test_a_class_is_learned_and_told_for_sequences_that_were_not_seen(fitted):
    others = table(seed=1)
    assert fitted.score(others, "label") > 0.75
    said = fitted.predict(others)
    assert list(said.index) == [f"p{k}" for k in range(24)]
    chances = fitted.predict_proba(others)
    assert list(chances) == ["fast", "slow"] == list(fitted.classes_)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (chances.idxmax(axis=1) == said).all()
    assert isinstance(fitted.model_, SequenceModel)


def test_answers_do_not_hang_on_the_order_of_rows_the_neighbours_or_the_index(fitted):
    frame = table(seed=1)
    whole = fitted.predict_proba(frame)
    shuffled = frame.sample(frac=1, random_state=0)
    np.testing.assert_allclose(fitted.predict_proba(shuffled).loc[whole.index], whole, atol=1e-5)
    alone = fitted.predict_proba(frame[frame.who == "p3"])
    np.testing.assert_allclose(alone.loc["p3"], whole.loc["p3"], atol=1e-5)


def test_sequences_in_a_list_are_those_of_a_table():
    frame = table()
    X, y = by_sequence(frame, "who", "label")
    assert [list(part) for part in X[:1]] == [["t", "x", "kind"]]
    listed = SequenceClassifier(**QUICK, time="t").fit(X, y)
    whole = SequenceClassifier(**QUICK, time="t", sequence="who").fit(frame, "label")
    np.testing.assert_allclose(listed.predict_proba(X), whole.predict_proba(frame), atol=1e-6)


def test_arrays_are_sequences_and_of_one_variable_too():
    x = np.random.default_rng(0).normal(size=(10, 6))
    y = np.arange(10) % 2
    forms = [x, x[..., None], [*x], [*x[..., None]], torch.from_numpy(x)]
    said = [SequenceClassifier(**QUICK).fit(form, y).predict_proba(form) for form in forms]
    for other in said[1:]:
        np.testing.assert_array_equal(other, said[0])


@pytest.mark.parametrize("classes", [[3, -1], [1.0, 2.0], [True, False], ["NA", "?"], ["10", "9"]], ids=str)
def test_classes_are_given_back_as_they_came(classes):
    y = np.array([classes[k % 2] for k in range(8)])
    found = SequenceClassifier(**QUICK | {"steps": 2}).fit(np.random.default_rng(0).normal(size=(8, 5)), y)
    assert list(found.classes_) == sorted(set(y.tolist()))
    assert set(found.predict(np.zeros((3, 5))).tolist()) <= set(y.tolist())


def test_numbers_come_in_their_own_unit_and_scale_with_it():
    X = list(np.random.default_rng(0).normal(size=(20, 8)))
    y = np.array([part.sum() for part in X])
    one = SequenceRegressor(**QUICK).fit(X, y)
    other = SequenceRegressor(**QUICK).fit([1e6 * part for part in X], 1e-3 * y + 7)
    np.testing.assert_allclose(other.predict([1e6 * part for part in X]), 1e-3 * one.predict(X) + 7, rtol=1e-5, atol=1e-6)
    assert one.score(X, y) > 0


def test_targets_of_every_row_are_answered_row_by_row_in_the_order_of_the_rows():
    frame = table(6).drop(columns="label").assign(y=lambda f: f.x * 2)
    found = SequenceRegressor(**QUICK, sequence="who", time="t").fit(frame, "y")
    said = found.predict(frame.drop(columns="y"))
    assert said.index.equals(frame.index)
    shuffled = frame.sample(frac=1, random_state=1)
    np.testing.assert_allclose(found.predict(shuffled).loc[frame.index], said, atol=1e-5)
    X, _ = by_sequence(frame, "who")
    listed = SequenceRegressor(**QUICK, time="t").fit([part.drop(columns="y") for part in X], [part.y.to_numpy() for part in X])
    assert [len(part) for part in listed.predict([part.drop(columns="y") for part in X])] == [12] * 6


@pytest.mark.parametrize("time", [None, "t"])
def test_predictions_are_what_the_model_says_of_standardized_values_at_the_last_row(time):
    frame = table(12, 7)[["who", "t", "x"]]
    X, _ = by_sequence(frame, "who")
    y = np.array([part.x.max() for part in X])
    found = SequenceRegressor(**QUICK, time=time, inputs=["x"]).fit(X, y)
    forecast = Forecaster(**QUICK, time=time, inputs=["x"]).fit(X, "x")
    (column,) = found.fitted_.inputs
    mean, deviation = column.scale
    xs = torch.tensor(np.array([(part.x - mean) / deviation for part in X])).float().T[..., None]
    ts = None if time is None else torch.tensor(np.array([(part.t - part.t.iloc[0]) / found.fitted_.unit for part in X])).T
    for made, said in ((found, found.predict(X)), (forecast, forecast.predict(X))):
        with torch.no_grad():
            last = made.model_(xs, ts=ts)[-1, :, 0].double().numpy()
        np.testing.assert_allclose(said, last * made.fitted_.deviations + made.fitted_.means, rtol=1e-5, atol=1e-6)


def test_columns_of_chances_are_in_the_order_of_the_classes():
    x = np.random.default_rng(0).normal(size=(20, 6)) + 3 * (np.arange(20) % 2)[:, None]
    y = np.where(np.arange(20) % 2, 9, 10)  # as words 10 comes first
    found = SequenceClassifier(**QUICK | {"steps": 100}).fit(x, y)
    assert list(found.classes_) == [9, 10]
    assert found.score(x, y) == 1


def test_targets_of_a_table_by_id_may_come_in_any_order():
    frame = table(12)[["who", "t", "x"]]
    y = frame.groupby("who").x.max()
    said = [SequenceRegressor(**QUICK, sequence="who", time="t").fit(frame, each).predict(frame) for each in (y, y[::-1])]
    np.testing.assert_array_equal(*said)


def test_sequences_of_one_row_are_read_once_the_unit_of_time_is_known():
    frame = table(8)
    found = SequenceClassifier(**QUICK | {"steps": 2}, sequence="who", time="t").fit(frame, "label")
    assert len(found.predict(frame.groupby("who").head(1))) == 8


def test_several_numbers_are_learned_at_once():
    X, y = np.random.default_rng(0).normal(size=(12, 5)), np.random.default_rng(1).normal(size=(12, 3))
    assert SequenceRegressor(**QUICK).fit(X, y).predict(X).shape == (12, 3)


def test_what_follows_is_forecast_for_each_sequence():
    frame = table(6, 30).drop(columns="label")
    found = Forecaster(**QUICK | {"steps": 200}, sequence="who", time="t").fit(frame, "x")
    assert found.score(frame) > 0.3
    said = found.predict(frame)
    assert list(said.index) == [f"p{k}" for k in range(6)]
    earlier = frame.groupby("who").head(29)  # what is said at a row does not hang on the rows after it
    assert not np.allclose(found.predict(earlier), said)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_values_are_read_where_some_were_missing_in_the_fit(missing):
    frame = table(8)
    with_gaps = frame.assign(x=frame.x.astype(object).where(frame.index % 5 != 0, missing))
    found = SequenceClassifier(**QUICK, sequence="who", time="t").fit(with_gaps, "label")
    assert np.isfinite(found.predict_proba(with_gaps)).all(axis=None)
    full = SequenceClassifier(**QUICK | {"steps": 2}, sequence="who", time="t").fit(frame, "label")
    with pytest.raises(ValueError, match="x has no value in row 0, and nothing was missing"):
        full.predict(with_gaps)


def test_dates_are_times():
    frame = table(8)
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame.t, "h"))
    one = SequenceClassifier(**QUICK, sequence="who", time="t").fit(frame, "label").predict_proba(frame)
    other = SequenceClassifier(**QUICK, sequence="who", time="t").fit(dated, "label").predict_proba(dated)
    np.testing.assert_allclose(other, one, atol=1e-4)


def test_stamps_in_another_unit_than_those_of_the_fit_are_refused():
    frame = table(8)
    fitted = SequenceClassifier(**QUICK | {"steps": 1}, sequence="who", time="t").fit(frame, "label")
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame.t, "h"))
    with pytest.raises(ValueError, match="t was in a unit that is not known where it was fitted, and is in s"):
        fitted.predict(dated)


def test_the_same_settings_give_the_same_weights_and_others_do_not():
    X, y = np.random.default_rng(0).normal(size=(8, 5)), np.arange(8) % 2
    model = SequenceClassifier(**QUICK)
    said = model.fit(X, y).predict_proba(X)
    assert np.array_equal(clone(model).fit(X, y).predict_proba(X), said)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(X, y).predict_proba(X), said)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), said)


def test_settings_are_searched_over_whole_sequences():
    X, y = by_sequence(table(12), "who", "label")
    assert cross_val_score(SequenceClassifier(**QUICK | {"steps": 5}, time="t"), X, y, cv=3).shape == (3,)
    found = GridSearchCV(SequenceClassifier(**QUICK | {"steps": 5}, time="t"), {"hidden": [4, 6]}, cv=2).fit(X, y)
    assert found.best_params_["hidden"] in (4, 6)


@pytest.mark.parametrize("y", [[*"aaaaaaaaab"], [*"aabbccddee"], [*"abcdefghij"]], ids="".join)
def test_every_class_is_learned_and_the_share_that_is_held_out_has_what_there_are_two_of(y):
    dealt = []

    class Seen(SequenceClassifier):
        def _dealt(self, *given):
            dealt.append(super()._dealt(*given))
            return dealt[-1]

    Seen(**QUICK | {"steps": 1}, validation=0.5).fit(np.zeros((10, 3)), y)
    places, _ = dealt[0]
    train = {y[k] for part, k, _ in places if part == "train"}
    held = {y[k] for part, k, _ in places if part == "validation"}
    assert train == set(y)
    assert held >= {one for one in y if y.count(one) > 1}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: SequenceClassifier().predict(np.zeros((2, 3))), NotFittedError, "not fitted"),
        (lambda: SequenceClassifier().fit(np.zeros((4, 3)), [1, 1, 1, 1]), ValueError, "greater than one"),
        (lambda: SequenceClassifier().fit(np.zeros((4, 3)), [1, 0, 1]), ValueError, "3 targets, and `X` 4 sequences"),
        (lambda: SequenceClassifier(sequence="who").fit(np.zeros((4, 3)), [1, 0, 1, 0]), ValueError, "leave it out"),
        (lambda: SequenceClassifier(sequence="whom").fit(table(), "label"), ValueError, "no column 'whom'"),
        (lambda: SequenceClassifier(sequence="who").fit(table(), "lable"), ValueError, "no column 'lable'"),
        (lambda: SequenceClassifier(sequence="who", time="hour").fit(table(), "label"), ValueError, "no column 'hour'"),
        (lambda: SequenceClassifier(field="gur").fit(np.zeros((4, 3)), [1, 0, 1, 0]), ValueError, "did you mean"),
        (lambda: SequenceClassifier(settings={"lrr": 1}).fit(np.zeros((4, 3)), [1, 0, 1, 0]), ValueError, "no setting 'lrr'"),
        (lambda: SequenceClassifier(validation=1.5).fit(np.zeros((4, 3)), [1, 0, 1, 0]), ValueError, "`validation`"),
        (lambda: SequenceRegressor().fit([np.zeros(3)], [[1.0, 2.0]]), ValueError, "2 targets for sequence 0, which has 3 rows"),
        (lambda: SequenceRegressor().fit(np.zeros((2, 3)), [1.0, np.inf]), ValueError, "infinity"),
        (lambda: Forecaster().fit(table(), np.zeros(3)), TypeError, "names columns"),
        (lambda: by_sequence(table(), "who", "x"), ValueError, "x changes within sequence 'p0'"),
    ],
)
def test_what_cannot_be_read_is_said_in_the_words_of_the_caller(call, error, words):
    with pytest.raises(error, match=words):
        call()


# Of the checks of scikit-learn: what a sequence is, it takes for a row of features.
NOT_MET = {
    "check_n_features_in_after_fitting": "of (n, time) there is one feature, whatever the time",
    "check_n_features_in": "as before",
    "check_classifiers_train": "sequences of another length are read too",
    "check_classifier_data_not_an_array": "of objects that refuse NumPy's functions",
    "check_regressor_data_not_an_array": "as before",
    "check_regressors_train": "rows of features are no series, and are hardly learned as one",
}


@pytest.mark.slow
@pytest.mark.parametrize("made", [SequenceClassifier, SequenceRegressor])
def test_checks_of_scikit_learn_pass_but_those_for_rows_of_features(made):
    checks = check_estimator(made(hidden=4, steps=120, lr=3e-2, integrator="euler"), on_fail=None, on_skip=None)
    assert {check["check_name"] for check in checks if check["status"] == "failed"} <= set(NOT_MET)
    assert sum(check["status"] == "passed" for check in checks) > 40
