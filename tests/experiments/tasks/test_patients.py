"""Patients beside their files read by hand, and the AUROC beside a count of pairs."""

import itertools
import math
import os

import numpy as np
import pytest
import torch
from datasets import OUTCOMES_HEADER, folder_of, make_patients, patient_text, write_archive
from torch.testing import assert_close

from experiments.data.physionet2012 import PARAMETERS, read_deaths2012, read_physionet2012
from experiments.seeds import generator
from experiments.tasks.ranking import auroc
from experiments.tasks.recorded.patients import FOLDS, VALUES, Patients
from experiments.tasks.task import SPLITS
from experiments.usage import UsageError

real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")
PATIENTS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("patients")
    make_patients(made, PATIENTS)
    return str(made)


def test_each_patient_is_in_one_split_with_whether_he_died(folder):
    task = Patients(data=folder)
    found = {split: task.recorded(split) for split in ("train", "validation", "test")}
    assert [len(records.labels) for records in found.values()] == [32, 8, 10]
    by_stamps = {tuple(p.ts.tolist()): int(read_deaths2012(folder)[p.record]) for p in read_physionet2012(folder)}
    whole = Patients(data=folder, grid=0.0)
    seen = {}
    for split, rounded in found.items():
        records = whole.recorded(split)
        assert records.labels.tolist() == rounded.labels.tolist()
        seen |= {tuple(ts.tolist()): label for ts, label in zip(records.ts, records.labels.tolist(), strict=True)}
    assert seen == {(0.0, *(t for t in stamps if t)): label for stamps, label in by_stamps.items()}


def test_patients_of_one_batch_have_similar_lengths_and_batches_come_in_any_order(folder):
    stamps = torch.tensor([len(ts) for ts in Patients(data=folder).recorded("train").ts])
    batches = [stamps[which] for which in Patients(data=folder).epoch_batches(4, generator(0), together=100)]
    in_order = sorted(batches, key=lambda lengths: (int(lengths.min()), int(lengths.max())))
    assert all(one.max() <= other.min() for one, other in itertools.pairwise(in_order))
    assert any(one is not other for one, other in zip(batches, in_order, strict=True))


def test_measures_have_the_auroc_of_the_last_outputs(folder):
    task = Patients(data=folder)
    (batch,) = task.evaluation("test", 99, 1, seed=0)
    for k, ts in enumerate(task.recorded("test").ts):
        assert torch.equal(batch.ts[: batch.lengths[k], k], ts)
    assert Patients(data=folder, clock_given=False).batch(2, generator(0)).ts is None
    outputs = torch.zeros(*batch.xs.shape[:2], 2)
    outputs[batch.lengths - 1, torch.arange(batch.size), 1] = batch.targets - 0.5
    found = task.measures(outputs, batch)
    assert (found["accuracy"], found["auroc"]) == (1.0, 1.0)
    assert set(task.baselines()) == {"blind"}


def test_the_auroc_is_the_share_of_pairs_that_are_in_order():
    draw = torch.Generator().manual_seed(0)
    for n in (2, 5, 40):
        scores = torch.randint(6, (n,), generator=draw).float()  # with ties
        labels = torch.randint(2, (n,), generator=draw)
        labels[:2] = torch.tensor([0, 1])
        pairs = [(float(a), float(b)) for a, b in itertools.product(scores[labels == 1], scores[labels == 0])]
        assert auroc(scores, labels) == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs), abs=1e-12)
    assert auroc(torch.ones(5), torch.tensor([0, 1, 1, 0, 1])) == 0.5
    half = (torch.arange(1000) % 7).half()  # 7 ranks, whose sum is more than half precision has
    assert auroc(half, half.long() > 3) == 1.0
    scores, labels = torch.rand(60_000), torch.rand(60_000) < 0.3
    assert auroc(scores, labels) == auroc(scores.double(), labels)
    assert math.isnan(auroc(torch.rand(3), torch.ones(3).long()))
    assert math.isnan(auroc(torch.tensor([1.0, math.nan]), torch.tensor([0, 1])))


def test_values_are_standardized_by_train_alone_and_what_is_missing_is_zero_and_said(folder):
    task = Patients(data=folder, grid=0.0)
    (batch,) = task.evaluation("train", 10**6, 7, seed=0)
    values, seen = batch.xs.chunk(2, -1)
    inside = torch.arange(len(values))[:, None] < batch.lengths
    for k, name in enumerate(("Age", "Gender", "Height", "ICUType", *PARAMETERS)):
        which = seen[..., k] > 0
        assert not which[~inside].any()
        assert (values[..., k][~which] == 0).all()
        if name in ("HR", "Temp", "MAP", "Urine"):
            assert 0.3 < which[inside].double().mean() < 0.9
            assert_close(values[..., k][which].mean(), torch.tensor(0.0), rtol=0, atol=1e-5)  # kept in float32
            assert_close(values[..., k][which].std(correction=0), torch.tensor(1.0), rtol=0, atol=1e-5)
        elif name in ("Age", "Gender", "ICUType"):
            assert which[0].all()
            assert not which[1:].any()
    assert batch.xs.shape[-1] == task.input_size == 2 * VALUES


def test_times_on_a_grid_are_rounded_and_what_falls_together_is_averaged(tmp_path):
    rows = [("00:02", "HR", 60), ("00:04", "HR", 80), ("00:07", "HR", 100), ("00:07", "Temp", 37), ("30:00", "HR", 70)]
    members = {f"set-a/{k}.txt": patient_text(k, rows) for k in range(1, 41)}
    write_archive(
        tmp_path, {"Outcomes-a.txt": OUTCOMES_HEADER + "".join(f"{k},1,1,1,1,{k % 2}\n" for k in range(1, 41)), **members}
    )
    records = Patients(data=str(tmp_path)).recorded("train")
    assert_close(records.ts[0], torch.tensor([0.0, 0.1, 30.0]), rtol=0, atol=1e-12)
    heart = records.xs[0][:, 4 + PARAMETERS.index("HR")]
    assert_close(heart.diff()[0] / heart.diff()[1], torch.tensor((90 - 60) / (70 - 90)).float())  # 60; 80, 100; 70
    assert (records.xs[0][1:, :4].isnan()).all()


def lone_values(folder, died=lambda k: k % 2, age="54"):
    """A hundred patients; the k-th has one value, 10 k, at the minute k."""
    rows = {k: [(f"{k // 60:02}:{k % 60:02}", "HR", 10 * k)] for k in range(1, 101)}
    members = {f"set-a/{k}.txt": patient_text(k, row).replace("Age,54", f"Age,{age}") for k, row in rows.items()}
    outcomes = OUTCOMES_HEADER + "".join(f"{k},1,1,1,1,{int(died(k))}\n" for k in rows)
    folder.mkdir()
    write_archive(folder, {"Outcomes-a.txt": outcomes, **members})
    return Patients(data=str(folder), grid=0.0)


def test_values_beyond_the_tails_of_train_are_clamped_to_them(tmp_path):
    task = lone_values(tmp_path / "a")
    found = {split: task.recorded(split) for split in ("train", "validation", "test")}
    raw = {split: np.array([10 * round(60 * float(ts[-1])) for ts in records.ts]) for split, records in found.items()}
    ends = np.quantile(raw["train"], [0.005, 0.995])
    inside = raw["train"].clip(*ends)
    for split, records in found.items():
        values = torch.stack([x[-1, 4 + PARAMETERS.index("HR")] for x in records.xs]).numpy()
        expected = (raw[split].clip(*ends) - inside.mean()) / inside.std()
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)  # kept in float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "`data` must name"),
        ({"data": "x", "grid": -1.0}, "`grid` must be hours from 0 to 48"),
        ({"data": "x", "longest": 0.0}, "`longest`"),
    ],
)
def test_settings_that_do_not_do_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Patients(**settings)


@pytest.mark.parametrize(
    ("outcomes", "message"), [("8,1,1,1,1,0\n", "say nothing of patient 7"), ("7,1,1,1,1,0\n", "too few, in train")]
)
def test_files_that_do_not_do_are_refused(tmp_path, outcomes, message):
    write_archive(tmp_path, {"Outcomes-a.txt": OUTCOMES_HEADER + outcomes, "set-a/7.txt": patient_text(7, [])})
    with pytest.raises(UsageError, match=message):
        Patients(data=str(tmp_path)).batch(1, generator(0))


def test_set_a_alone_leaves_out_the_patients_of_set_b(tmp_path):
    rows = [("00:07", "HR", 60), ("30:00", "HR", 70)]
    members = {f"set-{'ba'[k % 2]}/{k}.txt": patient_text(k, [*rows, (f"31:{k:02}", "HR", 80)]) for k in range(1, 60)}
    said = {name: "".join(f"{k},1,1,1,1,{k // 2 % 2}\n" for k in range(1, 60) if "ba"[k % 2] == name) for name in "ab"}
    outcomes = {f"Outcomes-{name}.txt": OUTCOMES_HEADER + lines for name, lines in said.items()}
    write_archive(tmp_path, {**outcomes, **members})
    found = {sets: Patients(data=str(tmp_path), grid=0.0, sets=sets) for sets in ("ab", "a")}
    minutes = {
        sets: [round(60 * float(ts[-1])) for split in SPLITS for ts in task.recorded(split).ts] for sets, task in found.items()
    }
    last = {sets: sorted(each - 31 * 60 for each in some) for sets, some in minutes.items()}
    assert last == {"ab": [*range(1, 60)], "a": [*range(1, 60, 2)]}
    assert len({task.fingerprint() for task in found.values()}) == 2
    assert [patient.record for patient in read_physionet2012(tmp_path, sets="a")] == last["a"]
    with pytest.raises(ValueError, match="`sets` must be 'ab' or 'a'"):
        read_physionet2012(tmp_path, sets="b")


def test_the_digest_is_of_what_the_files_say(tmp_path, folder):
    make_patients(tmp_path, PATIENTS + 1)
    assert Patients(data=str(tmp_path)).fingerprint() != Patients(data=folder).fingerprint()
    assert Patients(data=folder, grid=1.0).fingerprint() == Patients(data=folder).fingerprint()
    said = [lone_values(tmp_path / "a"), lone_values(tmp_path / "b", age="55"), lone_values(tmp_path / "c", lambda k: k % 3 == 0)]
    assert len({task.fingerprint() for task in said}) == 3


def test_over_the_folds_each_patient_is_tested_once_and_fold_0_is_the_split(folder, tmp_path):
    for made, count in ((folder, PATIENTS), (str(tmp_path), 43)):
        if count != PATIENTS:
            make_patients(tmp_path, count)
        tested = []
        for fold in range(FOLDS):
            task = Patients(data=made, fold=fold)
            parts = [[tuple(ts.tolist()) for ts in task.recorded(split).ts] for split in ("train", "validation", "test")]
            assert len({*parts[0], *parts[1], *parts[2]}) == sum(map(len, parts)) == count
            values = torch.cat(task.recorded("train").xs)[:, 4 + PARAMETERS.index("HR")]
            assert_close(values[~values.isnan()].double().mean(), torch.tensor(0.0), rtol=0, atol=1e-5)
            tested += parts[2]
        assert len(set(tested)) == len(tested) == count
    assert torch.equal(Patients(data=folder, fold=0).recorded("test").labels, Patients(data=folder).recorded("test").labels)
    with pytest.raises(ValueError, match="`fold` must be"):
        Patients(data=folder, fold=FOLDS)


def test_the_first_stamp_stays_and_of_the_others_about_a_third(folder):
    whole = Patients(data=folder)
    (batch,) = whole.evaluation("test", 99, 1, seed=0)
    (fewer,) = Patients(data=folder, kept=1 / 3).evaluation("test", 99, 1, seed=0)
    assert 0.2 < int((fewer.lengths - 1).sum()) / int((batch.lengths - 1).sum()) < 0.45
    for k, n in enumerate(fewer.lengths.tolist()):
        places = torch.searchsorted(batch.ts[: batch.lengths[k], k].contiguous(), fewer.ts[:n, k].contiguous())
        assert places[0] == 0
        assert torch.equal(batch.xs[places, k], fewer.xs[:n, k])
        assert torch.equal(batch.ts[places, k], fewer.ts[:n, k])
    torch.set_default_dtype(torch.float32)
    (narrow,) = Patients(data=folder, kept=1 / 3).evaluation("test", 99, 1, seed=0)
    assert torch.equal(narrow.ts, fewer.ts)  # the same ones, whatever models compute in
    with pytest.raises(ValueError, match="`kept` must be a share"):
        Patients(data=folder, kept=0.0)


def test_gaps_are_the_same_ones_in_another_order_and_the_samples_are_as_they_were(folder):
    whole = Patients(data=folder)
    (batch,) = whole.evaluation("test", 99, 1, seed=0)
    (mixed,) = Patients(data=folder, shuffled="gaps").evaluation("test", 99, 1, seed=0)
    assert torch.equal(mixed.xs, batch.xs)
    for k, n in enumerate(batch.lengths.tolist()):
        ours, theirs = mixed.ts[:n, k].diff(), batch.ts[:n, k].diff()
        assert not torch.equal(ours, theirs)
        assert_close(ours.sort().values, theirs.sort().values, rtol=0, atol=1e-9)


def test_labels_are_the_same_ones_for_other_patients(folder):
    whole = Patients(data=folder)
    (other,) = Patients(data=folder, shuffled="labels").evaluation("train", 99, 1, seed=0)
    labels = whole.recorded("train").labels
    assert int(other.targets.sum()) == int(labels.sum())
    assert not torch.equal(other.targets, labels)


def test_a_gap_is_one_more_value_always_seen(folder):
    whole = Patients(data=folder)
    (batch,) = whole.evaluation("test", 99, 1, seed=0)
    (gaps,) = Patients(data=folder, gap_given=True).evaluation("test", 99, 1, seed=0)
    values, seen = gaps.xs.chunk(2, -1)
    for k, n in enumerate(batch.lengths.tolist()):
        assert_close(values[1:n, k, -1], batch.ts[:n, k].diff(), rtol=0, atol=1e-12)
        assert (seen[:n, k, -1] == 1).all()
    assert torch.equal(torch.cat([values[..., :-1], seen[..., :-1]], -1), batch.xs)


def test_training_takes_each_patient_once_an_epoch(folder):
    task = Patients(data=folder)
    for epoch in range(2):
        lengths = [n for step in range(7) for n in task.batch_at(7 * epoch + step, 5, 3).lengths.tolist()]
        assert sorted(lengths) == sorted(len(ts) for ts in task.recorded("train").ts)
    assert not torch.equal(task.batch_at(0, 5, 3).lengths, task.batch_at(7, 5, 3).lengths)


@real_data
@pytest.mark.slow
def test_the_real_patients_are_split_as_stated(tmp_path):
    task = Patients(data=str(folder_of("physionet2012", tmp_path, make_patients)))
    found = [task.recorded(split).labels for split in ("train", "validation", "test")]
    assert [(len(labels), int(labels.sum())) for labels in found] == [(5120, 734), (1280, 170), (1600, 218)]
