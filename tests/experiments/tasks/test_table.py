"""Tables of one's own: what is read, how it is split and scaled, what is asked for, and what a wrong table is told."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from experiments.__main__ import main
from experiments.models.gap_gru import GapGRU
from experiments.runs.evaluation import evaluate
from experiments.seeds import generator
from experiments.tasks.ranking import auprc
from experiments.tasks.recorded.table import TableTask
from experiments.tasks.task import SPLITS
from experiments.usage import UsageError

ROWS = 12
DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)


def frame(sequences=20, rows=ROWS):
    """Sequences s0, s1, .. with stamps of their own, a number with gaps, words, and a class of the sequence."""
    count = sequences * rows
    made = pd.DataFrame(
        {
            "who": np.repeat([f"s{k}" for k in range(sequences)], rows),
            "t": np.concatenate([k % 3 + np.cumsum(DRAW.integers(1, 4, rows)) for k in range(sequences)]),
            "x": DRAW.normal(5, 3, count),
            "kind": DRAW.choice(["red", "blue", "green"], count),
            "label": np.repeat(["b" if k % 4 else "a" for k in range(sequences)], rows),
        }
    )
    made.loc[made.index % 7 == 3, "x"] = np.nan
    return made


def written(made, folder, name="table.csv", **how):
    made.to_csv(folder / name, index=False, **how)
    return str(folder / name)


def whole(task, split):
    (batch,) = task.evaluation(split, 10**6, 10**6, 0)
    return batch


def test_a_batch_has_the_values_of_the_table_in_units_of_the_training_part(tmp_path):
    made = frame()
    shuffled = made.sample(frac=1, random_state=0)
    task = TableTask(data=written(shuffled, tmp_path), sequence="who", time="t", target=("label",))
    unit = made.groupby("who").t.diff().median()
    by_class = {}
    for split in SPLITS:
        batch = whole(task, split)
        assert batch.lengths.tolist() == [ROWS] * batch.size
        for k in range(batch.size):
            # The sequence is known by its differences of time and its words.
            words = [["blue", "green", "red"][one] for one in batch.xs[:, k, 1:4].argmax(-1)]
            (who,) = [name for name, rows in made.groupby("who") if rows.kind.tolist() == words]
            rows = made[made.who == who]
            assert_close(batch.ts[:, k], torch.tensor(((rows.t - rows.t.iloc[0]) / unit).to_numpy()))
            assert ["a", "b"][batch.targets[k]] == rows.label.iloc[0]
            by_class.setdefault(who, []).append((split, rows.label.iloc[0]))
            seen = torch.tensor(rows.x.notna().to_numpy())
            assert torch.equal(batch.xs[:, k, 4].bool(), seen)
            assert torch.equal(batch.xs[:, k, 5:], torch.ones(ROWS, 3))
            assert (batch.xs[~seen, k, 0] == 0).all()
    assert sorted(map(len, by_class.values())) == [1] * 20  # each sequence is in one part
    assert [sum(split == part for ((split, _),) in by_class.values()) for part in SPLITS] == [14, 3, 3]
    assert {label for ((split, label),) in by_class.values() if split == "test"} == {"a", "b"}
    train = made[made.who.isin([who for who, ((split, _),) in by_class.items() if split == "train"])]
    batch = whole(task, "train")
    values = batch.xs[..., 0][batch.xs[..., 4].bool()]
    expected = ((train.x - train.x.mean()) / train.x.std(ddof=0)).dropna()
    assert_close(values.sort().values, torch.tensor(np.sort(expected)), rtol=1e-6, atol=1e-6)  # kept in float32


def test_what_comes_next_is_asked_for_in_pieces_of_each_part(tmp_path):
    made = frame(sequences=1, rows=100)[["t", "x"]]
    task = TableTask(data=written(made, tmp_path), time="t", length=30)
    parts = {"train": (0, 70), "validation": (70, 85), "test": (85, 100)}
    mean, deviation = made.x[:70].mean(), made.x[:70].std(ddof=0)
    for split, (start, stop) in parts.items():
        batch = whole(task, split)
        own = torch.tensor(((made.x[start:stop] - mean) / deviation).to_numpy())
        following = torch.cat([own[1:], torch.tensor([math.nan])])  # of another part nothing is known
        pieces = {float(batch.xs[0, k, 0]): k for k in range(batch.size)}  # they come in an order of chance
        order = [pieces[float(x.float())] for x in own.nan_to_num(0.0)[::30]]
        assert batch.lengths[order].tolist() == [min(30, stop - k) for k in range(start, stop, 30)]
        found = torch.cat([batch.targets[: batch.lengths[k], k, 0] for k in order])
        assert_close(found, following, equal_nan=True, rtol=1e-6, atol=1e-6)
        inputs = torch.cat([batch.xs[: batch.lengths[k], k, 0] for k in order])
        assert_close(inputs, own.nan_to_num(0.0), rtol=1e-6, atol=1e-6)
    outputs = torch.randn(*whole(task, "test").targets.shape, requires_grad=True)
    errors = (outputs - whole(task, "test").targets).detach()
    seen = errors[~errors.isnan()]
    loss = task.loss(outputs, whole(task, "test"))
    assert_close(loss, seen.square().mean())
    assert task.measures(outputs, whole(task, "test"))["mean_error"] == pytest.approx(deviation * float(seen.abs().mean()))
    loss.backward()
    assert outputs.grad.isfinite().all()
    assert task.weight(whole(task, "test")) == len(seen)
    before = made.x[85:].ffill().iloc[:-1].to_numpy() - made.x[86:].to_numpy()
    assert task.baselines()["last value"] == pytest.approx(np.nanmean((before / deviation) ** 2))
    assert task.baselines()["blind"] == pytest.approx((((made.x[86:] - mean) / deviation) ** 2).mean())


def test_classes_and_numbers_at_every_row_and_those_that_are_missing_ask_for_nothing(tmp_path):
    made = frame()
    made["mood"] = DRAW.integers(0, 3, len(made)).astype(float)
    made.loc[made.index % 5 == 0, "mood"] = np.nan
    task = TableTask(data=written(made, tmp_path), sequence="who", target=("mood",), inputs=("x",))
    assert (task.output_size, task.measured) == (3, ("loss", "accuracy"))
    batch = whole(task, "test")
    assert batch.ts is None
    outputs = torch.randn(*batch.targets.shape, 3)
    asked = batch.targets >= 0
    assert task.weight(batch) == int(asked.sum()) < asked.numel()
    losses = -outputs.log_softmax(-1)[asked].gather(-1, batch.targets[asked][:, None])
    assert_close(task.loss(outputs, batch), losses.mean())
    right = outputs.argmax(-1)[asked] == batch.targets[asked]
    assert task.measures(outputs, batch)["accuracy"] == pytest.approx(float(right.double().mean()))
    part = task.part(batch, slice(1, 3))
    assert torch.equal(part.targets, batch.targets[:, 1:3])
    several = TableTask(data=task.data, sequence="who", target=("mood", "x"), inputs=("t",), predict="number")
    assert (several.output_size, several.measured, several.masked) == (2, ("loss",), False)
    at_the_end = TableTask(data=task.data, sequence="who", target=("size",), inputs=("t",))
    made["size"] = np.repeat(DRAW.normal(size=20), ROWS)
    written(made, tmp_path)
    assert whole(at_the_end, "test").targets.shape == (3, 1)


def test_the_first_sequences_of_a_part_are_of_all_classes(tmp_path):
    made = pd.DataFrame({"s": np.arange(400), "a": DRAW.normal(size=400), "y": np.where(np.arange(400) % 2, "u", "v")})
    task = TableTask(data=written(made, tmp_path), sequence="s", target=("y",))
    (few,) = task.evaluation("validation", 30, 30, 0)
    assert 5 < int(few.targets.sum()) < 25


def test_a_class_may_be_called_none_and_dates_may_be_written_without_dashes(tmp_path):
    made = frame()[["who", "x"]]
    made["way"] = np.repeat(["none", "left"] * 10, ROWS)
    made["day"] = np.concatenate([pd.date_range(f"20{k + 10}-01-25", periods=ROWS).strftime("%Y%m%d") for k in range(20)])
    task = TableTask(data=written(made, tmp_path), sequence="who", time="day", target=("way",))
    assert task.output_names == ("left", "none")
    assert "times: day, 8.64e+04 s apart; " in task.look()  # over the end of a month, too


def test_whole_numbers_that_nearly_are_the_same_are_classes_of_their_own(tmp_path):
    made = frame()[["who", "x"]]
    made["code"] = np.where(made.index % 3 == 0, 1234567.0, 1234568.0)
    made.loc[5, "code"] = np.nan
    task = TableTask(data=written(made, tmp_path), sequence="who", target=("code",))
    assert task.output_names == ("1234567", "1234568")


def test_a_column_says_which_part_a_row_is_in(tmp_path):
    made = frame()
    parts = ["train"] * 10 + ["Val"] * 4 + ["test"] * 6
    made["set"] = np.repeat(parts, ROWS)
    task = TableTask(data=written(made, tmp_path), sequence="who", target=("label",), split="set")
    assert [whole(task, split).size for split in SPLITS] == [10, 4, 6]


def test_what_does_not_change_in_training_is_not_blown_up(tmp_path):
    made = pd.DataFrame({"a": np.where(np.arange(100) < 85, 0.1, 0.2), "b": DRAW.normal(size=100)})
    task = TableTask(data=written(made, tmp_path), target=("b",), predict="number")
    assert whole(task, "train").xs.abs().max() < 1e-6
    assert_close(whole(task, "test").xs, torch.full((15, 1, 1), 0.1), rtol=1e-5, atol=1e-5)


def test_what_is_scaled_and_asked_in_training_knows_nothing_of_the_test(tmp_path):
    made = frame(sequences=1, rows=100)[["t", "x"]]
    other = made.copy()
    other.loc[85:, "x"] *= 50
    batches = []
    for k, each in enumerate((made, other)):
        (tmp_path / str(k)).mkdir()
        batches.append(whole(TableTask(data=written(each, tmp_path / str(k)), time="t"), "train"))
    assert torch.equal(batches[0].xs, batches[1].xs)
    assert torch.equal(batches[0].targets.nan_to_num(9), batches[1].targets.nan_to_num(9))


def test_numbers_of_whole_sequences_are_scaled_over_sequences_and_each_is_taken_where_it_is(tmp_path):
    lengths = np.array([2, 60] * 20)
    made = pd.DataFrame({"s": np.repeat(np.arange(40), lengths), "a": DRAW.normal(size=lengths.sum())})
    made["y"] = np.repeat(lengths + DRAW.normal(size=40), lengths)
    made["z"] = np.repeat(DRAW.normal(size=40), lengths)
    first = made.groupby("s").cumcount() == 0
    made.loc[first, "y"] = np.nan
    made.loc[~first, "z"] = np.nan  # no row has both
    made.loc[made.s < 4, "z"] = np.nan
    task = TableTask(data=written(made, tmp_path), sequence="s", target=("y", "z"), predict="number")
    targets = whole(task, "train").targets
    assert not targets[:, 0].isnan().any()
    for column in targets.T:
        seen = column[~column.isnan()]
        assert_close(seen.mean(), torch.tensor(0.0), rtol=0, atol=1e-6)
        assert_close(seen.std(correction=0), torch.tensor(1.0), rtol=1e-6, atol=1e-6)
    assert "z" in task.look()
    assert "missing in 4 of 40 sequences" in task.look()


def test_a_guess_has_the_shares_of_the_training_part_and_is_judged_on_the_test(tmp_path):
    made = pd.DataFrame(
        {"a": DRAW.normal(size=1000), "y": ["p" if k % (10 if k < 700 else 2) == 0 else "q" for k in range(1000)]}
    )
    task = TableTask(data=written(made, tmp_path), target=("y",))
    assert task.baselines()["blind"] == pytest.approx(-(math.log(0.1) + math.log(0.9)) / 2, rel=0.01)
    assert task.baseline_accuracies()["blind"] == pytest.approx(0.5, abs=0.01)
    made.loc[:, "y"] = ["new" if k > 900 else "pq"[k % 2] for k in range(1000)]  # never seen in training, and not impossible
    (tmp_path / "other").mkdir()
    assert 4 < TableTask(data=written(made, tmp_path / "other"), target=("y",)).baselines()["blind"] < 8


def test_errors_are_kept_by_the_smallest_and_are_in_the_table_of_metrics(tmp_path):
    made = frame()[["who", "t", "x"]]
    path = written(made, tmp_path)
    words = [f"data={path}", "sequence=who", "target=x", "inputs=t", "predict=number", "hidden=4", "steps=20", "evaluate_every=2"]
    words += ["keep=best", "keep_by=mean_error", "rate=0.3", "optimizer=sgd"]
    done = main(
        ["train", "--task", "csv", "--field", "gated", "--integrator", "euler", "--out", f"{tmp_path}/run", "--set", *words]
    )
    assert done == 0
    rows = pd.read_csv(tmp_path / "run" / "metrics.csv").dropna(subset="evaluation_mean_error")
    best = json.loads((tmp_path / "run" / "result.json").read_text())["best"]
    assert len(rows) == 10
    assert best["step"] == rows.step[rows.evaluation_mean_error.idxmin()]


@pytest.mark.parametrize("keep", ["keep=best", "patience=2", "schedule=plateau"])
def test_a_measure_that_is_no_number_on_what_is_held_out_keeps_no_weights(keep, tmp_path, capsys):
    parts = ["train"] * 6 + ["validation"] * 3 + ["test"] * 3
    made = pd.DataFrame(
        {
            "who": np.repeat(np.arange(12), 3),
            "part": np.repeat(parts, 3),
            "x": DRAW.normal(size=36),
            "y": np.repeat(["a" if part == "validation" else "ab"[k % 2] for k, part in enumerate(parts)], 3),
        }
    )
    words = [f"data={written(made, tmp_path)}", "sequence=who", "split=part", "target=y", "hidden=2", "steps=4", keep]
    words += ["evaluate_every=1", "keep_by=auroc"]
    asked = ["train", "--task", "csv", "--field", "gated", "--integrator", "euler", "--out", f"{tmp_path}/run", "--set", *words]
    assert main(asked) == 2
    assert "keep_by is auroc, which is no number on the sequences of validation" in capsys.readouterr().err
    assert main([*asked[:8], f"{tmp_path}/loss", "--set", *words[:-1]]) == 0


def test_counts_lose_half_of_their_deviance_by_poisson(tmp_path):
    made = frame()
    made["spikes"] = DRAW.poisson(2.5, len(made)).astype(float)
    made.loc[made.index % 5 == 0, "spikes"] = np.nan
    task = TableTask(data=written(made, tmp_path), sequence="who", target=("spikes",), inputs=("x",), predict="count")
    batch, train = whole(task, "test"), whole(task, "train").targets
    outputs = torch.randn(*batch.targets.shape, requires_grad=True)
    seen = ~batch.targets.isnan()
    counts, rates = batch.targets[seen], outputs[seen].exp()
    assert (counts == counts.round()).all()  # not standardized
    best = torch.distributions.Poisson(counts.clamp(min=1e-30)).log_prob(counts)
    loss = (best - torch.distributions.Poisson(rates).log_prob(counts)).mean()  # nats more than by the counts themselves
    assert_close(task.loss(outputs, batch), loss)
    assert task.measures(outputs, batch)["mean_error"] == pytest.approx(float((rates.detach() - counts).abs().mean()))
    task.loss(outputs, batch).backward()
    assert outputs.grad.isfinite().all()
    mean = train[~train.isnan()].mean().log()
    assert task.baselines()["blind"] == pytest.approx(float(task.loss(mean.expand_as(outputs), batch)), rel=1e-6)
    assert "the count at every row, spikes 2." in task.look()
    with pytest.raises(UsageError, match="x is no count"):
        TableTask(data=task.data, sequence="who", target=("x",), inputs=("t",), predict="count").look()


def test_a_task_keeps_what_it_has_read_and_a_new_one_reads_a_file_that_has_changed(tmp_path):
    made = frame()
    settings = {"data": written(made, tmp_path), "sequence": "who", "target": ("label",)}
    before = TableTask(**settings)
    sizes, digest = [whole(before, split).size for split in SPLITS], before.fingerprint()
    written(frame(sequences=40), tmp_path)
    after = TableTask(**settings)
    assert after == before
    assert sum(whole(after, split).size for split in SPLITS) == 40
    assert after.fingerprint() != digest
    assert ([whole(before, split).size for split in SPLITS], before.fingerprint()) == (sizes, digest)


@pytest.mark.parametrize("form", ["semicolons", "tabs", "ends", "packed", "npz", "dates", "marked"])
def test_tables_of_all_forms_give_the_same_batches(form, tmp_path):
    made = frame()[["who", "t", "x"]].round(3)
    plain = TableTask(data=written(made, tmp_path), sequence="who", time="t")
    other = {
        "semicolons": lambda: written(made, tmp_path, "a.csv", sep=";", decimal=","),
        "tabs": lambda: written(made, tmp_path, "a.tsv", sep="\t"),
        "ends": lambda: written(made.assign(**{"": np.nan}), tmp_path, "a.csv"),
        "packed": lambda: written(made, tmp_path, "a.csv.gz"),
        "marked": lambda: written(made.astype({"x": object}).fillna({"x": "?"}), tmp_path, "a.csv", encoding="utf-8-sig"),
    }
    if form == "npz":
        np.savez(tmp_path / "a.npz", **{name: made[name].to_numpy(str if name == "who" else float) for name in made})
        path = str(tmp_path / "a.npz")
    elif form == "dates":
        path = written(made.assign(t=pd.Timestamp("2024-02-28") + pd.to_timedelta(made.t, "h")), tmp_path, "a.csv")
    else:
        path = other[form]()
    found, expected = whole(TableTask(data=path, sequence="who", time="t"), "train"), whole(plain, "train")
    assert_close(found.xs, expected.xs)
    assert_close(found.ts, expected.ts)


WRONG = {
    "nothing there": (None, {}, "cannot be read"),
    "no table": ("text.md", {}, "a table is a .csv, .tsv, .npz or .parquet file"),
    "no names": ("1,2\n3,4\n", {}, "the first row names the columns, and '1' is a number"),
    "no rows": ("a,b\n", {}, "has no rows"),
    "one name twice": ("a,a \n1,2\n", {}, "two columns are called 'a'; rename one of them."),
    "another column": ("alpha,b\n1,2\n", {"sequence": "alhpa"}, "no column 'alhpa'; did you mean 'alpha'?"),
    "a word in a number": ("a,b\n1,x\n2,y\n", {"target": ("b",), "predict": "number"}, "b has words in it, such as 'x'"),
    "a time that is none": ("t,a\n1,2\nsoon,3\n", {"time": "t"}, "'soon' is no number and no date"),
    "a time that is missing": ("t,a\n1,2\n,3\n", {"time": "t"}, "row 2 has no time"),
    "one time twice": ("t,a\n1,2\n3,1\n3,3\n", {"time": "t"}, "rows 2 and 3 have one t, 3"),
    "an infinite number": ("t,a\n1,2\n3,inf\n4,1\n", {"time": "t"}, "row 2 is infinite"),
    "one class": ("a,b\n1,x\n2,x\n", {"target": ("b",)}, "b is 'x' in every row"),
    "few sequences": ("s,a,b\n1,2,x\n2,3,y\n", {"sequence": "s", "target": ("b",)}, "the target is of whole sequences"),
    "too few to split": ("s,a\n1,2\n2,3\n", {"sequence": "s", "split": "sequence"}, "2 sequence(s) are too few for three parts"),
    "no such part": ("p,a\ntrain,2\ntset,3\n", {"split": "p"}, "p is to say train, validation or test in every row, got 'tset'"),
    "a part without rows": ("p,a\ntrain,2\ntest,3\n", {"split": "p"}, "p names no row for validation"),
    "names and no kinds": ("a,b\n" + "".join(f"{k},w{k}\n" for k in range(200)), {}, "b has 140 different words, such as 'w0'"),
    "two names alike": ("a,b,a\n1,2,3\n", {}, "two columns are called 'a'"),
    "cells without a name": ("a,b\n1,2,3\n3,4,5\n", {}, "rows have more cells than the 2 names"),
    "a slip of the pen": ("a,b\n1,2\no.5,3\n2,4\n", {}, "row 2 has 'o.5', and most of this column are numbers"),
    "the answer among the inputs": ("a,b\n1,2\n2,3\n", {"inputs": ("b",), "target": ("b",), "predict": "number"}, "read it off"),
    "a sequence in two parts": (
        "s,p,a,y\n" + "".join(f"{s},{p},1,{'uv'[s % 2]}\n" for s in range(6) for p in ("train", "validation", "test")),
        {"sequence": "s", "split": "p", "target": ("y",)},
        "p puts one sequence into several parts",
    ),
    "zones here and there": ("t,a\n2024-01-01T00:00,1\n2024-01-01T01:00Z,2\n", {"time": "t"}, "some dates have a time zone"),
    "no number in it": ("a,b\n1,yes\n2,\n", {"target": ("b",), "predict": "number"}, "b has words in it, such as 'yes'"),
    "two of a name": (b"PK\x03\x04", {}, "cannot be read"),
}


def test_a_folder_of_tables_is_joined_as_its_error_says(tmp_path):
    (tmp_path / "all").mkdir()
    for k in range(6):
        (tmp_path / "all" / f"{k}.csv").write_text("x,y\n" + f"1,{'uv'[k % 2]}\n" * (k + 2))
    with pytest.raises(UsageError, match=r"all: is a folder, and a table is one file\. Join its files") as caught:
        TableTask(data=str(tmp_path / "all")).look()
    joining = re.search(r"pandas\.concat\(.*?\]\)", str(caught.value))[0]
    joined = eval(joining, {"pandas": pd, "files": sorted((tmp_path / "all").glob("*.csv"))})
    path = written(joined, tmp_path, "joined.csv")
    words = TableTask(data=path, sequence="file", target=("y",)).look()
    assert "joined.csv: 27 rows, 6 sequence(s) of 2 to 7 rows" in words


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_table_is_said_in_words(name, tmp_path):
    text, settings, message = WRONG[name]
    path = tmp_path / ("a.md" if name == "no table" else "a.npz" if isinstance(text, bytes) else "a.csv")
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        TableTask(data=str(path), **settings).look()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "`data` must name a file"),
        ({"data": "a.csv", "unit": 2.0}, "`unit` is for stamps"),
        ({"data": "a.csv", "predict": "class"}, "`predict` is class, and `target` names no column"),
        ({"data": "a.csv", "target": ("a", "b"), "predict": "class"}, "`target` must be one column"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match="`") as caught:
        TableTask(**settings)
    assert message in str(caught.value)


def test_a_table_is_looked_at_and_trained_on_at_the_prompt(tmp_path, capsys):
    path = written(frame(), tmp_path)
    words = ["train", "--task", "csv", "--field", "gru", "--integrator", "exponential-euler", "--out", str(tmp_path / "run")]
    words += ["--set", f"data={path}", "sequence=who", "time=t", "target=label", "steps=2", "hidden=4"]
    assert main([*words, "--look"]) == 0
    said = capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    for part in (
        "240 rows, 20 sequence(s) of 12 rows", "times: t, 2 apart in the median, from 1 to 3; 2 of it is 1 for the model",
        "inputs: x, kind (one of 3)", "missing: x 14.2 %", "the class of each sequence, label, 2 classes: a 25 %, b 75 %",
        "14 train, 3 validation, 3 test",
    ):  # fmt: skip
        assert part in said
    assert main(words) == 0
    told = capsys.readouterr()
    assert said in told.err  # before anything is trained
    assert "accuracy" in told.out
    assert "(blind 0." in told.out
    assert json.loads((tmp_path / "run" / "config.json").read_text())["configuration"]["task_settings"]["target"] == ["label"]
    frame(sequences=21).to_csv(path, index=False)
    assert main([*words, "--resume"]) == 2
    assert "holds a run on other data" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["mean", "first", "last"])
def test_rows_of_one_time_are_joined_column_by_column(how, tmp_path):
    made = frame().drop(columns="kind")
    made["y"] = DRAW.normal(size=len(made))
    again = made[made.index % 5 == 1].assign(x=7.0, y=np.nan, label=lambda rows: rows["label"].where(rows.index % 2 == 0))
    twice = pd.concat([made, again]).sample(frac=1, random_state=0)
    once = twice.groupby(["who", "t"], sort=False).agg({"x": how, "y": how, "label": "first"}).reset_index()
    given = {"sequence": "who", "time": "t", "target": ("label",)}
    task = TableTask(data=written(twice, tmp_path, "twice.csv"), same_time=how, **given)
    other = TableTask(data=written(once, tmp_path, "once.csv"), **given)
    assert f"48 row(s) were joined with another one of their time, by same_time={how}" in task.look()
    for split in SPLITS:
        # Sequences are dealt by the order of the file, which is the same of both.
        ours, theirs = whole(task, split), whole(other, split)
        assert torch.equal(ours.targets, theirs.targets)
        assert torch.equal(ours.ts, theirs.ts)
        assert_close(ours.xs, theirs.xs)
    joined = r"join them by same_time=mean, first or last, .* frame.groupby\(\['who', 't'\], as_index=False\).first\(\)"
    with pytest.raises(UsageError, match=joined):
        TableTask(data=task.data, **given).look()


def test_classes_of_one_time_have_no_mean(tmp_path):
    made = frame(6)
    made.loc[1, "t"], made.loc[1, "label"] = made.loc[0, "t"], "b"
    given = {"data": written(made, tmp_path), "sequence": "who", "time": "t", "target": ("label",)}
    with pytest.raises(UsageError, match="at the time of row 1 label is 'a' and 'b', of which there is no mean"):
        TableTask(same_time="mean", **given).look()
    assert TableTask(same_time="last", **given).output_size == 2


def test_ranks_of_two_classes_are_over_all_that_is_asked_whatever_the_batch(tmp_path):
    task = TableTask(data=written(frame(), tmp_path), sequence="who", time="t", target=("label",))
    assert task.measured == ("loss", "accuracy", "auroc", "auprc")
    model = discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.gru(task.input_size, 3)), 2)
    small, large = (evaluate(model, task, "train", 100, batch=size) for size in (3, 100))
    assert small == large
    batch = whole(task, "train")
    last = batch.last(model(batch.xs, ts=batch.ts, lengths=batch.lengths))
    scores, right = (last[:, 1] - last[:, 0]).tolist(), batch.targets.tolist()
    ones = [score for score, one in zip(scores, right, strict=True) if one]
    zeros = [score for score, one in zip(scores, right, strict=True) if not one]
    assert large["auroc"] == pytest.approx(np.mean([a > b for a in ones for b in zeros]))
    precision = [sum(b >= a for b in ones) / sum(b >= a for b in scores) for a in ones]  # at each that is found
    assert large["auprc"] == pytest.approx(np.mean(precision))


def test_ties_count_together_in_the_precision():
    scores, labels = torch.tensor([2.0, 2.0, 2.0, 1.0, 0.0]), torch.tensor([1, 0, 0, 1, 0])
    assert auprc(scores, labels) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert math.isnan(auprc(scores, torch.zeros(5)))


# What is changed in a table, and the line that is said of it.
CAREFUL = {
    "constant": (lambda made: made.assign(x=3.5), "careful: x has one value in all rows of train, from which nothing is learned"),
    "missing": (lambda made: made.assign(x=made["x"].fillna(-999)), "missing=x:-999"),
    "rows": (lambda made: made.assign(n=range(len(made))), "careful: n counts rows, 1 more in each"),
    "rows of each": (lambda made: made.assign(n=made.groupby("who").cumcount()), "careful: n counts rows, 1 more in each"),
    "class": (
        lambda made: made.assign(label=made["label"].where(made["who"] != "s3", "rare")),
        "never tested: rare, which is not in test",
    ),
    "nothing": (lambda made: made, ""),
}


@pytest.mark.parametrize("name", CAREFUL)
def test_what_is_hardly_meant_is_said(name, tmp_path):
    change, words = CAREFUL[name]
    said = TableTask(data=written(change(frame()), tmp_path), sequence="who", time="t", target=("label",)).look()
    assert words in said
    assert ("careful" in said) == bool(words)


def test_a_forgotten_column_of_sequences_is_asked_for_where_most_rows_are_joined(tmp_path):
    made = frame()
    left = made["t"].nunique()
    given = {"data": written(made, tmp_path), "time": "t", "inputs": ("x",), "same_time": "mean"}
    asked = f"careful: {len(made) - left:,} of {len(made):,} rows have the time of another one; of several sequences?"
    assert asked in TableTask(**given).look()
    with pytest.raises(UsageError, match=r"of which there is no mean; .* Say sequence=COLUMN"):
        TableTask(**given, target=("label",)).look()


def test_a_gru_of_torch_that_reads_gaps_is_trained_and_measured_beside_a_run(tmp_path, capsys):
    path = written(frame(), tmp_path)
    words = ["train", "--task", "csv", "--field", "gru", "--integrator", "exponential-euler", "--out", str(tmp_path / "run")]
    words += ["--set", f"data={path}", "sequence=who", "time=t", "target=label"]
    words += ["--set", "steps=4", "batch=3", "hidden=4", "beside=nn-gru"]
    assert main(words) == 0
    said = capsys.readouterr().out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert f"nn.GRU {result['beside']['loss']:.4g})" in said
    # Again by hand: the batches of the run, and RMSprop as it has it.
    task = TableTask(data=path, sequence="who", time="t", target=("label",))
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    model = GapGRU(task.input_size, 4, 2, generator(0, "beside"))
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3, alpha=0.9)
    for step in range(4):
        batch = task.batch_at(step, 3, 0)
        gaps = torch.cat([torch.zeros(1, batch.size), batch.ts.diff(dim=0).float()])[..., None]
        states, _ = model.rnn(torch.cat([batch.xs, gaps], -1))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(batch.last(model.read_out(states)), batch.targets).backward()
        optimizer.step()
    assert evaluate(model, task, "test", 1000)["loss"] == pytest.approx(result["beside"]["loss"], rel=1e-5)
    assert main([*words, "--resume", "--page"]) == 0
    assert f"nn.GRU {result['beside']['loss']:.4g})" in capsys.readouterr().out
    page = " ".join((tmp_path / "run" / "index.html").read_text().split())
    assert '<th scope="col">this run</th><th scope="col">nn.GRU</th>' in page
    both = (result["measures"]["loss"], result["beside"]["loss"])
    assert '<th scope="row">loss</th>' + "".join(f"<td>{loss:.4g}</td>" for loss in both) in page
    assert "nn.GRU beside, on the test" in page
