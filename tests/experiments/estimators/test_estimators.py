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
FEW = QUICK | {"steps": 3}  # where only what is read matters


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


def test_answers_that_are_no_numbers_are_no_class(fitted):
    lost = pickle.loads(pickle.dumps(fitted))
    with torch.no_grad():
        lost.model_.read_out.bias.fill_(torch.nan)
    with pytest.raises(RuntimeError, match="24 of 24 answers are no number, the first of sequence 0: states left all bounds"):
        lost.predict(table(seed=1))


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
    listed = SequenceClassifier(**FEW, time="t").fit(X, y)
    whole = SequenceClassifier(**FEW, time="t", sequence="who").fit(frame, "label")
    np.testing.assert_allclose(listed.predict_proba(X), whole.predict_proba(frame), atol=1e-6)


def test_arrays_are_sequences_and_of_one_variable_too():
    x = np.random.default_rng(0).normal(size=(10, 6))
    y = np.arange(10) % 2
    forms = [x, x[..., None], [*x], [*x[..., None]], torch.from_numpy(x)]
    said = [SequenceClassifier(**FEW).fit(form, y).predict_proba(form) for form in forms]
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
    found = SequenceRegressor(**FEW, sequence="who", time="t").fit(frame, "y")
    said = found.predict(frame.drop(columns="y"))
    assert said.index.equals(frame.index)
    shuffled = frame.sample(frac=1, random_state=1)
    np.testing.assert_allclose(found.predict(shuffled).loc[frame.index], said, atol=1e-5)
    X, _ = by_sequence(frame, "who")
    listed = SequenceRegressor(**FEW, time="t").fit([part.drop(columns="y") for part in X], [part.y.to_numpy() for part in X])
    assert [len(part) for part in listed.predict([part.drop(columns="y") for part in X])] == [12] * 6


@pytest.mark.parametrize("time", [None, "t"])
def test_predictions_are_what_the_model_says_of_standardized_values_at_the_last_row(time):
    frame = table(12, 7)[["who", "t", "x"]]
    X, _ = by_sequence(frame, "who")
    y = np.array([part.x.max() for part in X])
    found = SequenceRegressor(**FEW, time=time, inputs=["x"]).fit(X, y)
    forecast = Forecaster(**FEW, time=time, inputs=["x"]).fit(X, "x")
    (column,) = found.fitted_.inputs
    mean, deviation = column.scale
    xs = torch.tensor(np.array([(part.x - mean) / deviation for part in X])).float().T[..., None]
    ts = None if time is None else torch.tensor(np.array([(part.t - part.t.iloc[0]) / found.fitted_.unit for part in X])).T
    for made, said in ((found, found.predict(X)), (forecast, forecast.predict(X))):
        with torch.no_grad():
            last = made.model_(xs, ts=ts)[-1, :, 0].double().numpy()
        np.testing.assert_allclose(said, last * made.fitted_.deviations + made.fitted_.means, rtol=1e-5, atol=1e-6)
        batch = made.read(X)
        torch.testing.assert_close(batch.xs, xs)
        assert (batch.ts is None) == (time is None)
        assert time is None or torch.allclose(batch.ts, ts)


def test_what_the_model_reads_has_flags_the_order_of_time_and_of_the_ids_and_no_test_is_claimed():
    frame = table(6)[["who", "t", "x"]].sample(frac=1, random_state=0)
    frame.loc[frame.index[:5], "x"] = np.nan
    found = SequenceRegressor(**FEW, sequence="who", time="t", inputs=["x"]).fit(frame, frame.groupby("who").t.max())
    batch = found.read(frame)
    for k, who in enumerate(frame["who"].unique()):
        part = frame[frame["who"] == who].sort_values("t")
        assert batch.xs[: len(part), k, 1].tolist() == part["x"].notna().tolist()
        assert not batch.xs[: len(part), k, 0][torch.tensor(part["x"].isna().to_list())].any()
    assert " test" not in found.fitted_.words


def test_columns_of_chances_are_in_the_order_of_the_classes():
    x = np.random.default_rng(0).normal(size=(20, 6)) + 3 * (np.arange(20) % 2)[:, None]
    y = np.where(np.arange(20) % 2, 9, 10)  # as words 10 comes first
    found = SequenceClassifier(**QUICK | {"steps": 100}).fit(x, y)
    assert list(found.classes_) == [9, 10]
    assert found.score(x, y) == 1


def test_targets_of_a_table_by_id_may_come_in_any_order():
    frame = table(12)[["who", "t", "x"]]
    y = frame.groupby("who").x.max()
    said = [SequenceRegressor(**FEW, sequence="who", time="t").fit(frame, each).predict(frame) for each in (y, y[::-1])]
    np.testing.assert_array_equal(*said)


def test_sequences_of_one_row_are_read_once_the_unit_of_time_is_known():
    frame = table(8)
    found = SequenceClassifier(**QUICK | {"steps": 2}, sequence="who", time="t").fit(frame, "label")
    assert len(found.predict(frame.groupby("who").head(1))) == 8


def test_several_numbers_are_learned_at_once():
    X, y = np.random.default_rng(0).normal(size=(12, 5)), np.random.default_rng(1).normal(size=(12, 3))
    assert SequenceRegressor(**FEW).fit(X, y).predict(X).shape == (12, 3)


def test_numbers_that_may_be_of_rows_or_of_sequences_say_of_which_they_are():
    X = np.random.default_rng(0).normal(size=(6, 4, 2))
    with pytest.warns(UserWarning, match="4 columns, as many as each sequence has rows, and is read as 4 numbers of each"):
        fitted = SequenceRegressor(**FEW).fit(X, X[..., 0])
    assert fitted.predict(X).shape == (6, 4)
    assert [len(each) for each in SequenceRegressor(**FEW).fit(X, [*X[..., 0]]).predict(X)] == [4] * 6


def test_what_follows_is_forecast_for_each_sequence():
    frame = table(6, 20).drop(columns="label")
    found = Forecaster(**QUICK | {"steps": 60, "lr": 5e-2}, sequence="who", time="t").fit(frame, "x")
    assert found.score(frame) > 0.3
    said = found.predict(frame)
    assert list(said.index) == [f"p{k}" for k in range(6)]
    earlier = frame.groupby("who").head(19)  # what is said at a row does not hang on the rows after it
    assert not np.allclose(found.predict(earlier), said)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_values_are_read_where_some_were_missing_in_the_fit(missing):
    frame = table(8)
    with_gaps = frame.assign(x=frame.x.astype(object).where(frame.index % 5 != 0, missing))
    found = SequenceClassifier(**FEW, sequence="who", time="t").fit(with_gaps, "label")
    assert np.isfinite(found.predict_proba(with_gaps)).all(axis=None)
    full = SequenceClassifier(**QUICK | {"steps": 2}, sequence="who", time="t").fit(frame, "label")
    with pytest.raises(ValueError, match="x has no value in row 1, and nothing was missing"):
        full.predict(with_gaps)


def test_dates_are_times():
    frame = table(8)
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame.t, "h"))
    one = SequenceClassifier(**FEW, sequence="who", time="t").fit(frame, "label").predict_proba(frame)
    other = SequenceClassifier(**FEW, sequence="who", time="t").fit(dated, "label").predict_proba(dated)
    np.testing.assert_allclose(other, one, atol=1e-4)


def test_stamps_in_another_unit_than_those_of_the_fit_are_refused():
    frame = table(8)
    fitted = SequenceClassifier(**QUICK | {"steps": 1}, sequence="who", time="t").fit(frame, "label")
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame.t, "h"))
    with pytest.raises(ValueError, match="t was in a unit that is not known where it was fitted, and is in s"):
        fitted.predict(dated)


def by_rank(rows=6, sequences=12):
    """Sequences p0, p1, .. p11, which sorted by their names are in another order, and two numbers of each."""
    dice, numbers = np.random.default_rng(0), np.arange(sequences)
    ids = [f"p{k}" for k in numbers]
    frame = pd.DataFrame({"who": np.repeat(ids, rows), "x": dice.normal(size=sequences * rows)})
    return frame, pd.DataFrame({"rank": numbers, "back": -numbers}, index=ids)


@pytest.mark.parametrize("columns", ["rank", ["rank"], ["rank", "back"]], ids=str)
def test_targets_in_pandas_are_of_the_sequences_that_their_index_names(columns):
    frame, y = by_rank()
    expected = SequenceRegressor(**FEW, sequence="who").fit(frame, y[columns].squeeze().to_numpy())
    found = SequenceRegressor(**FEW, sequence="who").fit(frame, y[columns].sort_index())
    np.testing.assert_array_equal(found.predict(frame), expected.predict(frame))
    assert found.score(frame, y[columns].sample(frac=1, random_state=0)) == expected.score(frame, y[columns])


@pytest.mark.parametrize(
    "changed",
    [lambda y: y.rename({"p3": "q3"}), lambda y: y[1:], lambda y: pd.concat([y[1:], y[1:2]])],
    ids=["other", "fewer", "twice"],
)
def test_targets_by_the_ids_of_other_sequences_are_refused(changed):
    frame, y = by_rank()
    with pytest.raises(ValueError, match=r"'[pq][0-3]' is not in both once"):
        SequenceRegressor(**FEW, sequence="who").fit(frame, changed(y["rank"]))


@pytest.mark.parametrize(
    ("name", "called"),
    [("speed", "speed"), (("speed", "other"), ["speed", "other"]), ("x", "(target)"), (None, "(target)"), (3, "(target)")],
)
def test_answers_are_called_as_the_targets_are_where_no_input_is(name, called):
    frame = table().drop(columns="label")
    speed = frame.groupby("who", sort=False).x.std()
    y = pd.DataFrame(dict.fromkeys(name, speed)) if isinstance(name, tuple) else speed.rename(name)
    said = SequenceRegressor(**FEW, sequence="who", time="t").fit(frame, y).predict(frame)
    assert (list(said) if isinstance(name, tuple) else said.name) == called
    plain = SequenceRegressor(**FEW, sequence="who", time="t").fit(frame, y.to_numpy()).predict(frame)
    np.testing.assert_array_equal(said, plain)


def test_targets_with_an_index_that_counts_are_in_the_order_of_the_sequences():
    frame, y = by_rank()
    frame["who"] = frame.who.str[1:].astype(int) + 1  # 1 to 12, and the index counts from 0
    counted = SequenceRegressor(**FEW, sequence="who").fit(frame, y["rank"].reset_index(drop=True))
    plain = SequenceRegressor(**FEW, sequence="who").fit(frame, y["rank"].to_numpy())
    np.testing.assert_array_equal(counted.predict(frame), plain.predict(frame))


def test_targets_of_every_row_may_be_a_frame():
    frame, _ = by_rank()
    y = pd.DataFrame({"a": frame.x, "b": -frame.x})
    found = SequenceRegressor(**FEW, sequence="who").fit(frame, y)
    assert found.predict(frame).shape == (len(frame), 2)


@pytest.mark.parametrize("ids", [[1, "1"], ["1", "1.0"], ["NA", "?"], [(1, 2), (1, 3)], [0.3, 0.1 + 0.2]], ids=str)
def test_sequences_are_told_apart_by_what_their_ids_are_and_not_by_how_they_are_written(ids):
    x = np.random.default_rng(0).normal(size=(4, 5))
    ids = [*ids, "c", "d"]
    frame = pd.DataFrame({"who": pd.Series([one for one in ids for _ in range(5)], dtype=object), "x": x.ravel()})
    found = SequenceRegressor(**FEW, sequence="who").fit(frame, np.arange(4.0))
    np.testing.assert_allclose(found.predict(frame), SequenceRegressor(**FEW).fit(x, np.arange(4.0)).predict(x), atol=1e-6)


@pytest.mark.parametrize("given", ["-1", ["-1"], [-1]], ids=repr)
def test_one_cell_that_says_that_nothing_was_seen_is_not_read_by_the_letter(given):
    frame, y = by_rank()
    frame["x"] = np.array([-1.0, 1.0, 1.0])[np.arange(len(frame)) % 3]
    fitted = SequenceRegressor(**FEW, sequence="who", missing=given).fit(frame, y["rank"]).fitted_
    assert "missing: x 33.3 %" in fitted.words


def test_one_input_is_a_word_and_not_its_letters():
    frame = table(8).assign(xt=1.0)
    assert [each.name for each in SequenceClassifier(**FEW, sequence="who", inputs="xt").fit(frame, "label").fitted_.inputs] == [
        "xt"
    ]


def test_columns_may_be_called_by_numbers():
    frame = table(8)
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)  # who, t, x, kind, label
    found = SequenceClassifier(**FEW, sequence=0, time=1).fit(numbered, "4").predict_proba(numbered)
    expected = SequenceClassifier(**FEW, sequence="who", time="t").fit(frame, "label").predict_proba(frame)
    np.testing.assert_array_equal(found, expected)
    first = frame[["t", "who", "x", "label"]].set_axis(range(4), axis=1)
    assert "times: 0, " in SequenceClassifier(**FEW, sequence=1, time=0).fit(first, "3").fitted_.words


def test_targets_that_are_declared_missing_are_not_scored():
    frame = table(8).drop(columns="label").assign(y=lambda f: f.x * 2)
    gaps, declared = (frame.assign(y=frame.y.where(frame.index % 5 != 0, cell)) for cell in (np.nan, -999.0))
    found = SequenceRegressor(**FEW, sequence="who", time="t", missing=["-999"]).fit(declared, "y")
    assert found.score(declared, "y") == found.score(gaps, "y")


def test_a_class_that_is_declared_missing_is_none():
    frame = table(12)
    gaps, declared = (frame.assign(label=frame.label.where(~frame.who.isin(["p1", "p2"]), cell)) for cell in (None, "unknown"))
    found = SequenceClassifier(**FEW, sequence="who", time="t", missing=["unknown"]).fit(declared, "label")
    assert list(found.classes_) == ["fast", "slow"]
    assert found.score(declared, "label") == found.score(gaps, "label")


@pytest.mark.parametrize(
    "y", [pd.Series(pd.date_range("2026-01-01", periods=2).tolist() * 4), np.array([0.0, -0.0, 1, 1] * 2)], ids=["dates", "zeros"]
)
def test_classes_that_are_one_to_numpy_are_one(y):
    found = SequenceClassifier(**FEW).fit(np.random.default_rng(0).normal(size=(8, 5)), y)
    assert len(found.classes_) == len(found.fitted_.classes) == 2
    assert found.predict(np.zeros((1, 5)))[0] in found.classes_


def test_what_a_masked_array_masks_is_missing():
    x = np.random.default_rng(0).normal(size=(8, 5, 2))
    masked = np.ma.masked_array(np.where(x > 1, 1e6, x), x > 1)
    y = np.arange(8) % 2
    expected = SequenceClassifier(**FEW).fit(np.where(x > 1, np.nan, x), y).predict_proba(x)
    for form in (masked, [*masked]):
        np.testing.assert_array_equal(SequenceClassifier(**FEW).fit(form, y).predict_proba(x), expected)


def test_weights_of_chance_follow_the_seed_of_torch_and_leave_it():
    x, y = np.random.default_rng(0).normal(size=(8, 5)), np.arange(8) % 2
    said = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        said.append(SequenceClassifier(**FEW, random_state=None).fit(x, y).predict_proba(x))
        assert torch.initial_seed() == seed
    assert np.array_equal(said[0], said[1])
    assert not np.array_equal(said[0], said[2])


def test_numbers_in_another_unit_than_those_of_the_fit_are_refused():
    frame = pd.DataFrame({"who": np.repeat(np.arange(8), 4), "share": [f"{k % 7} %" for k in range(32)]})
    fitted = SequenceClassifier(**FEW, sequence="who").fit(frame, np.arange(8) % 2)
    with pytest.raises(ValueError, match="share was in '%' where it was fitted, and is in plain numbers"):
        fitted.predict(frame.assign(share=0.05))


def test_the_same_settings_give_the_same_weights_and_others_do_not():
    X, y = np.random.default_rng(0).normal(size=(8, 5)), np.arange(8) % 2
    model = SequenceClassifier(**FEW)
    said = model.fit(X, y).predict_proba(X)
    assert np.array_equal(clone(model).fit(X, y).predict_proba(X), said)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(X, y).predict_proba(X), said)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), said)


def test_settings_are_searched_over_whole_sequences():
    X, y = by_sequence(table(12), "who", "label")
    assert cross_val_score(SequenceClassifier(**FEW, time="t"), X, y, cv=3).shape == (3,)
    found = GridSearchCV(SequenceClassifier(**FEW, time="t"), {"hidden": [4, 6]}, cv=2).fit(X, y)
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
        (
            lambda: SequenceClassifier(settings={"xyz": 1}).fit(np.zeros((4, 3)), [1, 0, 1, 0]),
            ValueError,
            r"s hidden, (?!.* hidden,)",
        ),
        (
            lambda: SequenceRegressor(settings=["rtol"]).fit(np.zeros((2, 3)), [1, 0]),
            TypeError,
            "`settings` must be a dictionary",
        ),
        (
            lambda: SequenceRegressor(settings={"hidden": 3}).fit(np.zeros((2, 3)), [1, 0]),
            ValueError,
            "give `hidden`, an argument",
        ),
        (lambda: Forecaster(settings={"seed": 3}).fit(np.zeros((2, 3))), ValueError, "'seed'; give `random_state`, an argument"),
        (lambda: Forecaster().fit(np.ma.masked_array([[1j, 2]], [[True, False]])), ValueError, "Complex data not supported"),
        (lambda: Forecaster(random_state="a").fit(np.zeros((2, 3))), TypeError, "whole number, .* or None, got 'a'"),
        (
            lambda: Forecaster().fit([np.zeros((0, 2)), np.zeros((3, 2))]),
            ValueError,
            "sequence 0 of `X` has no rows; leave it out",
        ),
        (
            lambda: Forecaster().fit([np.zeros((3, 2)), np.zeros((0, 2))]),
            ValueError,
            "sequence 1 of `X` has no rows; leave it out",
        ),
        (
            lambda: Forecaster().fit(np.array([["a", "b"]], object)),
            ValueError,
            "could not .*'a'\\); give numbers, or a DataFrame",
        ),
        (lambda: SequenceClassifier(validation=1.5).fit(np.zeros((4, 3)), [1, 0, 1, 0]), ValueError, "`validation`"),
        (lambda: SequenceRegressor().fit([np.zeros(3)], [[1.0, 2.0]]), ValueError, "2 targets for sequence 0, which has 3 rows"),
        (lambda: SequenceRegressor().fit(np.zeros((2, 3)), [1.0, np.inf]), ValueError, "infinity"),
        (lambda: Forecaster().fit(table(), np.zeros(3)), TypeError, "names columns"),
        (lambda: by_sequence(table(), "who", "x"), ValueError, "x changes within sequence 'p0'"),
        (lambda: by_sequence(table().assign(who=np.arange(288) // 12), "who", "x"), ValueError, "x changes within sequence '0'"),
        (lambda: by_sequence(table().replace({"who": {"p0": np.nan}}), "who", "label"), ValueError, "row 1 of `X` names no who"),
        (
            lambda: SequenceClassifier(**FEW).fit(np.zeros((4, 3, 2)), [1, 0, 1, 0]).predict(np.zeros((4, 3, 1))),
            ValueError,
            "X has 1 f",
        ),
        (
            lambda: SequenceClassifier(**FEW).fit(np.zeros((4, 3, 2)), [1, 0, 1, 0]).predict(np.zeros((4, 3, 5))),
            ValueError,
            "X has 5 f",
        ),
        (lambda: SequenceRegressor(sequence="who").fit(table(2).assign(**{"(target)": 1}), [0, 1]), ValueError, "'\\(target\\)'"),
        (lambda: SequenceRegressor().fit([pd.DataFrame({"(sequence)": [1]})] * 2, [0, 1]), ValueError, "'\\(sequence\\)'"),
        (
            lambda: SequenceRegressor(**FEW, sequence="who").fit(table(4), np.arange(4.0)).score(table(4), "x"),
            ValueError,
            "changes",
        ),
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


@pytest.mark.parametrize(
    ("column", "cells", "setting"),
    [
        ("t", [f"0{k}/05/2024" for k in range(1, 10)], {"dates": "day-first"}),
        ("t", [f"{k}:30" for k in range(20, 30)], {"clock": "mm:ss"}),
        ("x", [f"{k}.125" for k in range(1, 10)], {"decimal": "comma"}),
    ],
)
def test_a_setting_that_a_message_names_is_taken(column, cells, setting):
    frame = pd.DataFrame({"t": np.arange(len(cells)) * 1.0, "x": np.linspace(0, 1, len(cells)), column: cells})
    X, y = [frame] * 4, [0.0, 1.0, 0.5, 2.0]
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        SequenceRegressor(**FEW, time="t").fit(X, y)
    found = SequenceRegressor(**FEW, time="t", settings=setting).fit(X, y)
    assert np.isfinite(found.predict(X)).all()
    if name == "decimal":
        assert found.fitted_.inputs[0].scale[0] == pytest.approx(5125)


def test_no_class_is_called_untested_where_nothing_is_tested():
    frame = table(8)[["who", "t", "x"]]
    y = pd.Series(["a", "a", "a", "a", "b", "a", "a", "a"], index=frame["who"].unique())
    assert "never tested" not in SequenceClassifier(**FEW, sequence="who", time="t").fit(frame, y).fitted_.words
