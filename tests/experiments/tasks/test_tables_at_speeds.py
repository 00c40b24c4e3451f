"""Tables played at other speeds: which samples a model sees, at which times, and when what is asked."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

import discretize
from experiments.__main__ import main
from experiments.models.fields import FieldSettings, built_field
from experiments.models.integrators import IntegratorSettings
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.tasks.recorded.pieces import places
from experiments.tasks.recorded.table import TableTask
from experiments.tasks.task import SPLITS
from experiments.usage import UsageError

SPEEDS = [1 / 3, 0.25, 0.7, 1.5, 2.0, 3.0]


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)


def frame(unit=1.0):
    """Ten sequences of 8 to 17 rows at irregular times; the numbers of z tell them apart."""
    draw, made = np.random.default_rng(0), []
    for k in range(10):
        n = 8 + 3 * k % 10
        numbers = {
            "t": unit * (draw.exponential(1, n) + 0.1).cumsum(),
            "x": np.where(draw.random(n) < 0.2, np.nan, draw.normal(3, 2, n)),
            "z": draw.normal(0, 1, n),
        }
        words = {"kind": draw.choice(["a", "b"], n), "label": "uv"[k % 2], "each": draw.choice([*"pqr"], n)}
        made.append(pd.DataFrame({"who": f"s{k}"} | numbers | words))
    return pd.concat(made, ignore_index=True)


def table(folder, made=None, target="label", timed=True, **settings):
    made = frame() if made is None else made
    made.to_csv(folder / "table.csv", index=False)
    asked = {"target": (target,)} if target else {"target": ("z",), "predict": "next"}
    timed = {"time": "t"} if timed else {}
    given = {"sequence": "who", "split": "sequence", "inputs": ("x", "z", "kind")} | asked | timed | settings
    return TableTask(data=str(folder / "table.csv"), **given)


def whole(task, split="test"):
    (batch,) = task.evaluation(split, 10**6, 10**6, 0)
    return batch


def sequences(task, made, split="test"):
    """Find the rows of each sequence of a part: those whose z correlates perfectly with what the task has."""
    batch, found = whole(task, split), []
    for k in range(batch.size):
        z = batch.xs[: batch.lengths[k], k, 1]
        for _, rows in made.groupby("who"):
            if len(rows) == len(z) and np.corrcoef(rows.z, z)[0, 1] > 1 - 1e-9:
                found.append(rows.reset_index(drop=True))
    assert len(found) == batch.size
    return found


@pytest.mark.each_value
@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("between", ["held", "backward", "linear"])
def test_samples_between_rows_are_those_that_numpy_reads_off_the_table(tmp_path, between, speed, unit):
    made = frame(unit)
    task = table(tmp_path, made)
    ours = sequences(task, made)
    train = pd.concat(sequences(task, made, "train"))
    batch = whole(replace(task, speed=speed, between=between))
    median = np.median(np.concatenate([np.diff(rows.t) for _, rows in made.groupby("who")]))
    for k, rows in enumerate(ours):
        at = np.round(np.arange(0, len(rows) - 1 + 1e-9, speed), 12)
        index = np.arange(len(rows))
        shown = np.searchsorted(index, at) if between == "backward" else np.searchsorted(index, at, side="right") - 1
        expected = np.stack([(rows[name] - train[name].mean()) / train[name].std(ddof=0) for name in ("x", "z")], 1)
        kind = (rows.kind.to_numpy()[shown, None] == ["a", "b"]).astype(float)
        lines = [np.interp(at, index, column) for column in expected.T]
        values = np.stack(lines, 1) if between == "linear" else expected[shown]
        seen = ~np.isnan(values)
        n = int(batch.lengths[k])
        assert n == len(at)
        xs = np.concatenate([np.nan_to_num(values), kind, seen, np.ones_like(kind)], 1)
        assert_close(batch.xs[:n, k], torch.from_numpy(xs), rtol=0, atol=2e-6)  # values are kept in float32
        times = np.interp(at, index, rows.t - rows.t[0]) / median
        assert_close(batch.ts[:n, k], torch.from_numpy(times), rtol=1e-12, atol=1e-12)


def exact(task, hold):
    field = built_field("gated", task.input_size, FieldSettings(hidden=3), generator(0))
    rnn = discretize.ContinuousRNN(field.double(), rtol=1e-9, atol=1e-11, hold=hold, open_interval=1.0)
    return discretize.SequenceModel(rnn, task.output_size, generator(1)).double()


@pytest.mark.each_value
@pytest.mark.parametrize("target", ["label", "each", "z", None])
@pytest.mark.parametrize(("hold", "between"), [("forward", "held"), ("backward", "backward")])
@pytest.mark.parametrize("speed", [0.5, 1 / 3])
def test_an_exact_model_with_the_clock_answers_alike_however_slowly_held_rows_are_played(tmp_path, hold, between, target, speed):
    # Each row is asked once, when it has acted for as long as at speed 1.
    task = table(tmp_path, target=target, inputs=("x", "kind"), length=7)
    model = exact(task, hold)
    losses, weights = [], []
    for each in (task, replace(task, speed=speed, between=between)):
        batch = whole(each)
        with torch.no_grad():
            losses.append(each.loss(model(batch.xs, ts=batch.ts, lengths=batch.lengths), batch))
        weights.append(each.weight(batch))
    assert weights[0] == weights[1] > 0
    assert_close(losses[0], losses[1], rtol=1e-7, atol=0)


@pytest.mark.parametrize("between", ["held", "backward", "linear"])
def test_at_twice_the_speed_every_second_row_is_shown_and_asked(tmp_path, between):
    made = frame()
    task = table(tmp_path, made, "each")
    rows, twice = sequences(task, made)[0], whole(replace(task, speed=2, between=between))
    assert [["p", "q", "r"][c] for c in twice.targets[: twice.lengths[0], 0]] == [*rows.each[::2]]


def test_at_twice_the_speed_the_next_value_is_that_of_the_next_sample(tmp_path):
    made = frame()
    task = table(tmp_path, made, None)
    rows, twice, train = sequences(task, made)[0], whole(replace(task, speed=2)), pd.concat(sequences(task, made, "train"))
    n = int(twice.lengths[0])
    expected = torch.tensor(((rows.z - train.z.mean()) / train.z.std(ddof=0)).to_numpy()[::2])
    assert_close(twice.targets[: n - 1, 0, 0], expected[1:])
    assert twice.targets[n - 1, 0].isnan().all()
    # The last value again is that of the last sample, not of a row that was left out.
    known = replace(task, speed=2).baselines()["last value"]
    pieces = [torch.tensor(((each.z - train.z.mean()) / train.z.std(ddof=0)).to_numpy()[::2]) for each in sequences(task, made)]
    assert known == pytest.approx(float(torch.cat([one.diff() for one in pieces]).square().mean()), rel=1e-12)


def test_no_forecast_reaches_beyond_the_piece_in_which_its_sample_is(tmp_path):
    # Of five rows at speed 3 the samples are the rows 0 and 3; the next one would be row 6, and row 5 is not three ahead.
    batch = whole(table(tmp_path, target=None, length=5, speed=3.0), "train")
    assert int(batch.lengths.max()) == 2
    assert not batch.targets[0, batch.lengths == 2].isnan().any()
    assert batch.targets[1].isnan().all()


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("target", ["label", "each", None])
def test_speed_1_is_the_table_itself(tmp_path, target, timed):
    task = table(tmp_path, target=target, timed=timed)
    between = "linear" if target == "label" else "backward"
    for split in SPLITS:
        one, other = whole(task, split), whole(replace(task, speed=1.0, between=between), split)
        for mine, theirs in ((one.xs, other.xs), (one.targets, other.targets), (one.lengths, other.lengths), (one.ts, other.ts)):
            assert (mine is None and theirs is None) or torch.equal(mine.nan_to_num(7.0), theirs.nan_to_num(7.0))
    assert (one.ts is not None) == timed
    assert task._found is replace(task, speed=2.0, between="backward")._found  # the file is read once for all speeds


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("timed", [True, False])
def test_the_clock_is_given_or_hidden(tmp_path, timed, speed):
    task = table(tmp_path, timed=timed, speed=speed)
    given, hidden = whole(task), whole(replace(task, clock_given=False))
    assert hidden.ts is None
    assert torch.equal(given.xs, hidden.xs)
    if not timed:  # rows are one apart
        expected = None if speed == 1 else speed * torch.arange(len(given.xs), dtype=torch.float64)
        assert (given.ts is None) if expected is None else torch.equal(given.ts[:, int(given.lengths.argmax())], expected)


def test_a_warp_plays_each_eighth_at_a_speed_of_its_own_that_is_the_same_every_time(tmp_path):
    made = pd.concat([frame() for _ in range(9)], ignore_index=True)
    made["t"] = made.groupby("who").cumcount()
    task = table(tmp_path, made, inputs=("z",), speed=0.5, warp=3.0)
    batch = whole(task)
    assert torch.equal(batch.ts, whole(replace(task)).ts)
    assert torch.equal(batch.xs, whole(replace(task, clock_given=False)).xs)
    for k, n in enumerate(batch.lengths):
        speeds = batch.ts[:n, k].diff()  # rows are one apart here
        assert 0.5 / 3 - 1e-9 < speeds.min() < speeds.max() < 0.5 * 3 + 1e-9
        assert 8 <= len(speeds.mul(1e9).round().unique()) <= 15  # eight, and one across each bound between them


def test_places_at_several_speeds_are_the_inverse_of_the_time_that_passes():
    factors = torch.tensor([0.5, 3.0, 1.0, 0.2], dtype=torch.float64)
    got = places(41, 0.7, factors)
    passed = np.append(0, np.cumsum(10 / (0.7 * factors.numpy())))
    assert_close(got, torch.from_numpy(np.interp(np.arange(len(got)), passed, np.linspace(0, 40, 5))), rtol=1e-12, atol=1e-12)
    assert len(got) == int(passed[-1]) + 1


@pytest.mark.parametrize("n", [1, 2, 50, 5000])
@pytest.mark.parametrize("slowness", [3, 7, 49, 1000])
def test_every_row_is_met_to_the_bit_at_one_over_a_whole_number(n, slowness):
    got = places(n, 1 / slowness, torch.ones(1, dtype=torch.float64))
    assert torch.equal(got[::slowness], torch.arange(n, dtype=torch.float64))
    assert len(got) == (n - 1) * slowness + 1


def test_sequences_in_which_nothing_is_asked_any_more_are_left_out(tmp_path):
    made = pd.concat([frame(), frame().assign(who=lambda rows: rows.who + "x")], ignore_index=True)
    odd = made.groupby("who").cumcount() % 2 == 1
    made["each"] = made.each.where(odd == made.who.isin(["s0", "s1", "s2", "s3"]))
    task = table(tmp_path, made, "each")
    all_of_them = {split: whole(task, split).size for split in SPLITS}
    twice = replace(task, speed=2.0)
    some = {split: [twice.weight(batch) for batch in twice.evaluation(split, 99, 1, 0)] for split in SPLITS}
    assert sum(all_of_them.values()) == 20
    assert sum(map(len, some.values())) == 16
    assert min(map(min, some.values())) > 0
    assert all(twice.weight(twice.batch(1, generator(k))) > 0 for k in range(20))


NO_SPEEDS = [
    ({"speed": 0.0}, "`speed`"),
    ({"speed": float("nan")}, "`speed`"),
    ({"speed": 1e-4}, "at least 1/1000"),
    ({"warp": 0.5}, "a `warp` of at least 1"),
    ({"speed": 0.01, "warp": 20.0}, "at least 1/1000"),
]


@pytest.mark.parametrize(("settings", "words"), NO_SPEEDS)
def test_speeds_that_are_none_are_refused(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        table(tmp_path, **settings)


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        ("label", {"speed": 8.0}, r"the shortest sequence, of 8 rows.*at most 7"),
        ("label", {"speed": 4.0, "warp": 2.0}, r"at speed 8 the shortest sequence"),
        ("each", {"speed": 40.0}, r"the longest sequence, of 17 rows.*at most 16"),
        ("each", {"speed": 0.5, "between": "linear"}, "before that is known; take between=held"),
        (None, {"speed": 1.5, "between": "linear"}, "before that is known; take between=held"),
        (None, {"warp": 1.5, "between": "linear"}, "before that is known; take between=held"),
    ],
)
def test_speeds_at_which_a_table_says_nothing_are_refused_when_it_is_read(tmp_path, target, settings, words):
    with pytest.raises(UsageError, match=words):
        table(tmp_path, target=target, **settings).look()


@pytest.mark.parametrize(("hold", "between"), [("backward", "held"), ("forward", "backward")])
def test_rows_between_are_held_as_the_integrator_holds_them(tmp_path, hold, between):
    played = table(tmp_path, speed=0.5, between=between)
    with pytest.raises(UsageError, match=f"hold={hold}.*take between={'held' if hold == 'forward' else 'backward'}"):
        Configuration(played, "gated", "euler", integrator_settings=IntegratorSettings(hold=hold))
    for fits in (replace(played, clock_given=False), replace(played, between="linear"), replace(played, speed=2.0)):
        Configuration(fits, "gated", "euler", integrator_settings=IntegratorSettings(hold=hold))
    Configuration(played, "gru-d", "euler", integrator_settings=IntegratorSettings(hold=hold))  # which jumps, and holds nothing


def test_what_is_played_is_said_before_anything_is_trained(tmp_path, capsys):
    task = table(tmp_path)
    settings = [f"data={task.data}", "sequence=who", "time=t", "target=label", "speed=0.5", "clock_given=false", "warp=1.25"]
    how = ["--field", "gated", "--integrator", "euler", "--out", str(tmp_path / "out"), "--look"]
    main(["train", "--task", "csv", "--set", *settings, *how])
    words = "each eighth of a sequence up to 1.25 times as fast or slow; between rows held, the clock not given"
    assert f"played at speed 0.5, {words}" in capsys.readouterr().out
