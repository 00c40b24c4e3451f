"""Clocks that compress time: the task keeps its symbols, the exact model its answers, and the studies say what records say."""

import dataclasses
import itertools
import json
import math
import os

import pytest
import torch
from datasets import make_har, make_vowels
from fake_studies import draws, tables_of
from torch.testing import assert_close

import discretize
from experiments.__main__ import main
from experiments.models.fields import FieldSettings
from experiments.models.integrators import EXACT, under
from experiments.reports.spreads import NotEnoughError, number
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.runs.stopping import StoppedError
from experiments.seeds import generator
from experiments.studies.claims.compressed import CLOCKS, Compressed
from experiments.studies.claims.compressed_recordings import CompressedRecordings
from experiments.studies.claims.moving import MovingSymbols
from experiments.studies.claims.recordings import SOURCES
from experiments.studies.clocks.figures import accuracy_over_clocks, accuracy_over_g_dt, clock_words
from experiments.studies.clocks.rollout import RATES, roll_out, ways_of
from experiments.studies.registry import study_named
from experiments.studies.results import Results
from experiments.studies.study import DATA, Run
from experiments.tasks.task import said_right
from experiments.tasks.warps.clocked import ClockedRecall, MovingRecall


def task(*clocks, **settings):
    return ClockedRecall(clocks or CLOCKS, **{"characters": 5, **settings})


def model_of(field="gated", integrator="euler", hidden=7, chosen=None, **training):
    chosen = chosen or task()
    settings = FieldSettings(hidden)
    configuration = Configuration(chosen, field, integrator, settings, training=TrainingSettings(**training))
    return configuration.untrained_model().double()


def drawn(chosen, size=6, seed=3):
    return chosen.batch(size, generator(seed, "test"))


# ---- the task


@pytest.mark.parametrize("clock", CLOCKS)
def test_every_symbol_is_held_for_sixteen_over_c_samples_and_the_target_is_the_one_before(clock):
    held, batch = int(16 / clock), drawn(task(clock, counted="all"))
    symbols, targets = batch.xs.argmax(-1), batch.targets
    assert symbols.shape == (5 * held, 6)
    runs = symbols[::held]
    assert torch.equal(symbols, runs.repeat_interleave(held, 0))
    assert torch.equal(targets, torch.cat([torch.zeros_like(runs[:1]), runs[:-1]]).repeat_interleave(held, 0))
    assert bool((runs[1:] != runs[:-1]).all())
    assert bool((runs != 0).all())


def test_from_the_same_generator_come_the_same_symbols_on_every_clock_and_clocks_are_drawn_equally_often():
    ends = [drawn(task(clock)).xs[int(16 / clock) - 1 :: int(16 / clock)] for clock in CLOCKS]
    assert all(torch.equal(end, ends[0]) for end in ends)
    assert not torch.equal(drawn(task(1.0), seed=4).xs[15::16], ends[0])
    lengths = [len(task(8.0, 16.0).batch(1, generator(k)).xs) for k in range(400)]
    assert set(lengths) == {10, 5}
    assert 150 < lengths.count(10) < 250


def test_a_symbol_takes_tau_of_own_time_on_every_clock_if_that_is_told_and_nothing_is_said_of_time_if_not():
    for clock in CLOCKS:
        ts = drawn(task(clock, tau=3.0)).ts
        assert_close(ts[:: int(16 / clock)], 3.0 * torch.arange(6.0), rtol=1e-14, atol=0, check_dtype=False)
        assert drawn(task(clock, clock_given=False)).ts is None
        assert task(clock, clock_given=False).own_time(clock) == 1
        assert task(clock, tau=3.0).own_time(clock) == 3 * clock / 16
    counts = drawn(task(4.0)).counts  # the last sample of a symbol alone, or all
    assert counts[:, 0].tolist() == [0, 0, 0, 1] * 5
    assert bool((counts == counts[:, :1]).all())
    assert drawn(task(4.0, counted="all")).counts is None


def test_what_is_said_without_memory_loses_what_the_task_says_it_does():
    chosen = task(16.0, alphabet=4)
    batch = drawn(chosen, 40_000)
    seen = torch.stack([batch.xs.argmax(-1).flatten(), batch.targets.flatten()])
    table = torch.zeros(4, 4).index_put_((seen[0], seen[1]), torch.ones(seen.shape[1]), accumulate=True)
    scores = (table / table.sum(1, keepdim=True).clamp_min(1)).clamp_min(1e-12).log()
    loss = torch.nn.functional.cross_entropy(scores[seen[0]], seen[1])
    assert_close(loss.item(), chosen.baselines()["memoryless"], rtol=0, atol=0.01)  # 200,000 answers


# ---- symbols that move


def test_a_sample_of_a_moving_symbol_is_the_mean_of_what_passes_while_it_lasts():
    v = (torch.arange(64 * 500) + 0.5) / (64 * 500)  # midpoints
    course = 2 * (math.pi * v).sin() ** 2
    for held in (64, 16, 4, 2, 1):
        assert_close(MovingRecall().sizes(held), course.unflatten(0, (held, -1)).mean(1), rtol=0, atol=1e-7)
    held, moving = (drawn(kind((4.0,), characters=5)) for kind in (ClockedRecall, MovingRecall))
    sizes = [1 - 2 / math.pi, 1 + 2 / math.pi, 1 + 2 / math.pi, 1 - 2 / math.pi] * 5
    assert_close(moving.xs, held.xs * torch.tensor(sizes)[:, None, None])
    assert torch.equal(moving.targets, held.targets)


def test_of_moving_symbols_the_exact_model_is_another_one_on_faster_clocks_and_tends_to_one_on_slow_ones():
    model = ways_of(under(model_of(chosen=MovingRecall(CLOCKS, characters=5)), EXACT))[EXACT]
    with torch.no_grad():
        model.field.rate.bias.add_(1.0)
    ends = []
    for clock in CLOCKS:
        chosen = MovingRecall((clock,), characters=3)
        ends.append(roll_out(model, drawn(chosen, 3), chosen.own_time(clock)).states[int(16 / clock) - 1 :: int(16 / clock)])
    apart = [float((one - other).abs().max()) for one, other in itertools.pairwise(ends)]
    assert apart[-1] < 1e-4  # c = 8 and 16 see a held symbol both
    assert apart[-2] > 1e-2
    assert apart[0] / apart[1] == pytest.approx(1 / 4, abs=0.05)  # means of halves: of second order


def test_the_verdict_on_moving_symbols_tells_the_step_from_the_samples():
    def answers(*records):
        return [part.answer for part in MovingSymbols().verdict(Results(records)).parts]

    exact = moving_record(EXACT, "slow", {"euler": BREAKS, EXACT: KEEPS})
    taylor = moving_record("euler", "slow", {"euler": BREAKS, EXACT: KEEPS})
    assert answers(exact, taylor) == ["yes"] * 4
    blurred = [1.0] * 5 + [0.6, 0.6]  # what the samples no longer show
    lost = moving_record(EXACT, "slow", {"euler": BREAKS, EXACT: blurred})
    assert answers(lost, taylor) == ["no", "no", "yes", "yes"]
    assert answers(exact, moving_record("euler", "slow", {"euler": BREAKS, EXACT: blurred})) == ["yes", "no", "yes", "no"]
    with pytest.raises(NotEnoughError, match="trained on slow clocks is needed"):
        answers(exact)
    assert "states differ from those at c = 1 by up to 0.50" in MovingSymbols().verdict(Results([exact, taylor])).sentence
    for figure in MovingSymbols().figures.values():
        assert draws(figure, Results([exact, taylor]))
    assert "| exact | slow | exact | 1.00 |" in tables_of(MovingSymbols(), Results([exact, taylor]))


def test_moving_symbols_are_trained_as_held_ones_are():
    held = {run.key: run.configuration for run in Compressed().runs("small")}
    for run in MovingSymbols().runs("small"):
        assert type(run.configuration.task) is MovingRecall
        theirs = dataclasses.replace(held[run.key].training, threads=1)
        same = dataclasses.replace(run.configuration, task=held[run.key].task)
        assert same == dataclasses.replace(held[run.key], training=theirs)


def moving_record(trained, on, accuracies, states=0.5):
    record = recorded(accuracies, trained, on)
    for row in record["rows"]:
        row["states"] = states
    return record


# ---- the theorem, and what breaks it


@pytest.mark.parametrize("field", RATES.values())
def test_the_exact_model_that_is_told_the_clock_has_the_same_states_and_loss_on_all_of_them(field):
    model = under(model_of(field), EXACT)
    model = ways_of(model)[EXACT]
    with torch.no_grad():
        model.field.rate.bias.add_(1.0)  # fast enough for paces beyond 2 on the fastest clocks
    ends, losses, largest = [], [], 0.0
    for clock in (0.5, 2.0, 16.0):
        chosen = task(clock)
        found = roll_out(model, drawn(chosen, 3), chosen.own_time(clock))
        ends.append(found.states[int(16 / clock) - 1 :: int(16 / clock)])
        losses.append(float(chosen.loss(found.outputs, drawn(chosen, 3))))
        largest = max(largest, float(found.g_dt.max()))
    assert largest > 2
    for end, loss in zip(ends[1:], losses[1:], strict=True):
        assert_close(end, ends[0], rtol=0, atol=1e-4)  # the solver's 1e-5 a step
        assert_close(loss, losses[0], rtol=0, atol=1e-4)


def test_weights_of_a_sigmoid_gate_on_the_softplus_clock_are_the_same_cell_where_a_sample_takes_one_unit_and_only_there():
    ways = ways_of(model_of())
    assert ways["softplus-clock"].field.rate.weight_x is ways["euler"].field.rate.weight_x
    for clock in (1.0, 4.0, 16.0):
        batch = drawn(task(clock))
        ours, theirs = (roll_out(ways[name], batch, 1.0).outputs for name in ("softplus-clock", "euler"))
        if clock == 4:
            assert_close(ours, theirs, rtol=0, atol=1e-13)  # other sums: rounding
        else:
            assert float((ours - theirs).abs().max()) > 1e-2
    assert set(ways_of(model_of("gated-softplus"))) == {"euler", "exponential-euler", EXACT}


def test_a_pace_is_own_time_times_the_gate_at_the_state_before_the_sample():
    model = model_of()
    batch = drawn(task(8.0))
    found = roll_out(model, batch, 2.0)
    rate, h, paces = model.field.rate, torch.zeros(6, 7), []
    for x in batch.xs:
        gate = torch.sigmoid(x @ rate.weight_x.T + h @ rate.weight_h.T + rate.bias)
        pull = model.field.candidate
        paces.append(2.0 * gate)
        h = h + 2.0 * gate * (torch.tanh(x @ pull.weight_x.T + h @ pull.weight_h.T + pull.bias) - h)
    assert_close(found.g_dt, torch.stack(paces).flatten(), rtol=0, atol=1e-12)
    assert_close(found.states[-1], h, rtol=0, atol=1e-12)
    shorter = dataclasses.replace(drawn(task(8.0)), ts=None, lengths=torch.tensor([1, 2, 3, 4, 5, 10]))
    whole = roll_out(model, dataclasses.replace(shorter, lengths=None), 1.0).g_dt.reshape(10, 6, 7)
    expected = [whole[t, b] for t in range(10) for b in range(6) if t < shorter.lengths[b]]  # none behind a sequence's end
    assert_close(roll_out(model, shorter, 1.0).g_dt, torch.cat(expected), rtol=0, atol=1e-14)


def test_what_is_not_finite_is_never_right_and_a_solve_that_fails_gives_nothing():
    outputs = torch.tensor([[5.0, 1.0], [math.nan, 0.0], [0.0, math.inf], [0.0, 1.0]])
    assert said_right(outputs, torch.tensor([0, 0, 1, 1])).tolist() == [True, False, False, True]
    model = model_of("gated-exponential")
    with torch.no_grad():
        model.field.rate.bias.fill_(math.inf)
    assert roll_out(ways_of(model)[EXACT], drawn(task(1.0)), 0.25) is None


# ---- paces


def test_only_numbers_that_ran_away_are_a_result_and_only_where_the_study_says_so(monkeypatch, tmp_path, subtests):
    def stopped(status):
        def train(*_, **__):
            raise StoppedError("stopped", status, 7)

        return train

    run, unwarped = Compressed().runs("smoke")[0], study_named("unwarped")
    monkeypatch.setattr("experiments.runs.training.train", stopped("diverged"))
    made = Compressed().carry_out(run, tmp_path)
    assert (made.measures, list(made.rows), made.diverged) == ({}, [], 7)
    with pytest.raises(StoppedError):
        unwarped.carry_out(unwarped.runs("smoke")[0], tmp_path)
    for status in ("out of memory", "damaged", "not writable"):
        monkeypatch.setattr("experiments.runs.training.train", stopped(status))
        with subtests.test(status), pytest.raises(StoppedError):
            Compressed().carry_out(run, tmp_path)


def test_a_training_that_diverges_is_a_result(tmp_path):
    training = TrainingSettings(steps=40, batch=4, optimizer="adam", lr=1.0, evaluation=4, threads=1)
    fast = Configuration(task(16.0, tau=64.0), "gated-exponential", "euler", FieldSettings(8), training=training)
    with pytest.warns(discretize.StepWarning, match="oscillate and grow"):
        made = Compressed().carry_out(Run("fast", {"seed": 0}, fast), tmp_path)
    assert (made.measures, list(made.rows)) == ({}, [])
    assert 0 < made.diverged <= 40


def test_runs_train_on_clocks_that_are_tested_and_every_way_is_tried_on_every_rate():
    runs = Compressed().runs("small")
    assert {clock for run in runs for clock in run.configuration.task.clocks} <= set(CLOCKS)
    assert sum(run.configuration.task.clock_given for run in runs) == 5 * 3 * 3 * 3
    assert sum(not run.configuration.task.clock_given for run in runs) == 5 * 2 * 2 * 3
    assert {run.configuration.task.counted for run in runs if run.configuration.task.clock_given} == {"last"}


# ---- the study


def test_a_trained_model_is_measured_in_every_way_on_every_clock(tmp_path, monkeypatch):
    clocks = (1.0, 4.0, 16.0)  # the slow ones, of many samples, are those of the theorem's test
    monkeypatch.setattr("experiments.studies.claims.compressed.CLOCKS", clocks)
    run = next(run for run in Compressed().runs("smoke") if run.key == "clock-given-sigmoid-fast-exact-0")
    training = dataclasses.replace(run.configuration.training, steps=2, threads=1, evaluation=8)
    run = Run(run.key, run.point, dataclasses.replace(run.configuration, training=training))
    measured = Compressed().carry_out(run, tmp_path)
    rows = {(row["way"], row["clock"]): row for row in measured.rows}
    ways = ("euler", "exponential-euler", EXACT, "softplus-clock")
    assert set(rows) == {(way, clock) for way in ways for clock in clocks}
    assert len(rows) == len(measured.rows)
    assert max(rows[EXACT, clock]["states"] for clock in clocks) < 1e-3 < rows["euler", 16.0]["states"]
    assert len({rows[EXACT, clock]["accuracy"] for clock in clocks}) == 1
    assert rows["euler", 4.0]["accuracy"] == rows["softplus-clock", 4.0]["accuracy"]
    assert json.loads(json.dumps(measured.rows)) == list(measured.rows)


def recorded(accuracies, trained="euler", on="slow", clock_given=True, diverged=None, rate="sigmoid"):
    """A record with made-up accuracies over clocks, by ways of running."""
    point = {"clock_given": clock_given, "rate": rate, "on": on, "trained": trained, "seed": 0}
    rows = [
        {
            "way": name, "clock": clock, "finite": True, "accuracy": value, "accuracy_all": value, "loss": 1.0,
            "largest": clock / 4, "median": 0.1, "states": 1e-5 if clock_given else None,
        }
        for name, values in accuracies.items()
        for clock, value in zip(CLOCKS, values, strict=True)
    ]  # fmt: skip
    return {"key": f"{clock_given}-{rate}-{trained}-{on}", "point": point, "configuration": {}, "measures": {}, "rows": rows,
            "seconds": 1.0, "diverged": diverged}  # fmt: skip


def verdict_of(*records):
    return Compressed().verdict(Results(records))


KEEPS, BREAKS, LOW = [1.0] * 7, [1.0, 1.0, 0.99, 0.95, 0.6, 0.1, 0.1], [0.1] * 7


def test_the_verdict_on_compressed_symbols_is_that_of_the_records():
    exact = recorded({"euler": BREAKS, EXACT: KEEPS}, trained=EXACT)
    theirs = recorded({"euler": BREAKS, EXACT: KEEPS})
    verdict = verdict_of(theirs, exact)
    assert verdict.word == "reproduced"
    assert "0.99 to 1.00 where time is stretched and 0.10 at c = 16" in verdict.sentence
    found = list(verdict.numbers.values())
    assert found[:4] == [0.0, 1e-5, 0.5, 2.0]  # kept at c = 2, and lost at c = 8, where the pace is c / 4
    assert verdict_of(recorded({"euler": KEEPS, EXACT: KEEPS}), exact).word == "not reproduced"
    assert verdict_of(theirs, recorded({EXACT: BREAKS}, trained=EXACT)).word == "partly"
    half = recorded({"euler": [*BREAKS[:5], 0.6, 0.6], EXACT: KEEPS})  # less than kept, and not lost
    assert verdict_of(half, exact).word == "not reproduced"


def test_weights_that_fail_on_one_clock_run_exactly_say_nothing_of_where_taylor_steps_break():
    exact = recorded({"euler": BREAKS, EXACT: KEEPS}, trained=EXACT)
    theirs = recorded({"euler": BREAKS, EXACT: KEEPS})
    unable = [recorded({"euler": KEEPS, EXACT: [0.8, *KEEPS[1:]]}, rate=rate) for rate in ("softplus", "exponential")]
    assert list(verdict_of(theirs, exact, *unable).numbers.values())[2:4] == [0.5, 2.0]
    never = recorded({"euler": [0.5, 0.5, *BREAKS[2:]], EXACT: BREAKS})
    assert verdict_of(never, recorded({EXACT: BREAKS}, trained=EXACT)).word == "not reproduced"


def test_the_table_marks_what_is_not_finite_and_a_report_names_trainings_that_diverged():
    record = recorded({"euler": BREAKS, "exponential-euler": LOW})
    record["rows"][6].update(finite=False, largest=None, median=None)
    results = Results([record, recorded({}, diverged=3, on="fast", rate="exponential")])
    table = tables_of(Compressed(), results)
    assert "| sigmoid | Euler | slow | Euler | 1.00 | 1.00 | 0.99 | 0.95 | 0.60 | 0.10 | 0.10 × |" in table
    assert "| sigmoid | Euler | slow | exponential | 0.10 |" in table
    assert "| sigmoid | Euler | slow | 0.062, 0.10 | 0.12, 0.10 |" in table
    assert table.count("\n\n") == 3  # the clock is given to all: two tables
    assert tables_of(Compressed(), Results([recorded({}, diverged=3)])) == ""
    assert results.diverged == {"True-exponential-euler-fast": 3}


def test_figures_have_a_panel_for_each_training_and_a_line_for_each_way():
    records = [recorded({"euler": BREAKS, EXACT: KEEPS}), recorded({"euler": LOW, EXACT: KEEPS}, trained=EXACT, on="fast")]
    drawn_ = {name: draws(figure, Results(records)) for name, figure in Compressed().figures.items()}
    names = [name for name, figure in drawn_.items() if figure]
    assert len(names) == 2
    axes = drawn_[names[0]].axes
    assert len(axes) == 4
    assert [len(ax.get_lines()) for ax in axes] == [3, 1, 1, 3]
    assert axes[0].get_lines()[0].get_ydata().tolist() == BREAKS
    marks = drawn_[names[1]].axes[0].get_lines()[2:]
    assert sorted(len(mark.get_xdata()) for mark in marks) == [0, 14, 14]
    with_diverged = [*records, recorded({}, diverged=3, trained=EXACT)]
    axes = draws(Compressed().figures[names[0]], Results(with_diverged)).axes
    assert [ax.texts[0].get_text() for ax in axes] == ["", "", "training diverged", ""]


def test_there_is_no_figure_of_nothing_and_clocks_are_fractions():
    for draw in (lambda: accuracy_over_clocks(Results([]).rows, "", {}), lambda: accuracy_over_g_dt(Results([]).rows, "")):
        with pytest.raises(NotEnoughError):
            draw()
    assert [clock_words(c) for c in (0.25, 1.0, 16.0)] == ["1/4", "1", "16"]


# ---- the recordings


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with both recordings, made."""
    for source, make in (("uci_har", make_har), ("japanese_vowels", make_vowels)):
        (tmp_path / source).mkdir()
        make(tmp_path / source)
    train = tmp_path / "japanese_vowels" / "JapaneseVowels_TRAIN.ts.xz"
    (train.parent / "JapaneseVowels_TEST.ts.xz").write_bytes(train.read_bytes())
    monkeypatch.setenv(DATA, str(tmp_path))
    return tmp_path


def test_runs_on_data_that_are_not_there_are_left_out_in_one_line(data, monkeypatch, subtests):
    study = CompressedRecordings()
    assert study.left_out() == ""
    assert {run.configuration.task_name for run in study.runs("small")} == set(SOURCES)
    (data / "uci_har").rename(data / "elsewhere")
    (data / "uci_har").write_text("no folder")
    assert {run.configuration.task_name for run in study.runs("small")} == {"vowels"}
    assert study.left_out() == "Left out: uci_har/; --data DIR names the folder it is in."
    monkeypatch.delenv(DATA)
    absent = {
        "compressed-recordings": "uci_har/ and japanese_vowels/",
        "decay-clocks": "japanese_vowels/ and uci_har/",
        "ohno-har": "uci_har/",
        "ohno-instability": "uci_har/",
        "ohno-pixels": "mnist/",
        "tallec-fig6": "mnist/",
        "tallec-fig7": "tinyshakespeare/input.txt and text8/text8",
    }
    for name, needed in absent.items():
        where = "they are" if " and " in needed else "it is"
        with subtests.test(name):
            assert study_named(name).runs("small") == []
            assert study_named(name).left_out() == f"Left out: {needed}; --data DIR names the folder {where} in."
    assert {run.point["source"] for run in study_named("sampling-rates").runs("small")} == {"recall", "tones"}
    assert {run.point["task"] for run in study_named("slow-memory").runs("small")} == {"two-sequence"}


def test_the_list_of_studies_says_what_is_left_out(monkeypatch, capsys):
    monkeypatch.delenv(DATA, raising=False)
    monkeypatch.setattr("experiments.studies.command.STUDIES", ["compressed-recordings", "tallec-fig1"])
    assert main(["study", "list"]) == 0
    told = capsys.readouterr().out.partition("compressed-recordings")[2].partition("tallec-fig1")[0]
    assert "Left out: uci_har/ and japanese_vowels/; --data DIR names the folder they are in." in told
    assert " 0 runs" not in told


def test_a_model_of_recordings_is_measured_told_and_untold_at_every_speed(data, tmp_path, monkeypatch):
    monkeypatch.setitem(SOURCES, "vowels", dataclasses.replace(SOURCES["vowels"], speeds=(1.0, 4.0)))
    run = next(run for run in CompressedRecordings().runs("smoke") if run.key == "vowels-sigmoid-1-euler-0")
    training = dataclasses.replace(run.configuration.training, threads=1, steps=2, evaluation=16)
    run = Run(run.key, run.point, dataclasses.replace(run.configuration, training=training))
    measured = CompressedRecordings().carry_out(run, tmp_path / "run")
    rows = {(row["clock_given"], row["way"], row["clock"]): row for row in measured.rows}
    assert len(rows) == len(measured.rows) == 2 * 3 * 2
    for way in ("euler", "exponential-euler", EXACT):  # told and untold are the same at the recording's own speed
        told, untold = rows[True, way, 1.0], rows[False, way, 1.0]
        assert {**told, "clock_given": None} == {**untold, "clock_given": None}
    assert rows[True, "euler", 1.0]["accuracy"] == pytest.approx(measured.measures["accuracy"])
    assert rows[True, "euler", 4.0]["largest"] > 3 * rows[False, "euler", 4.0]["largest"]


def played_record(name, trained, fall, accuracy=0.9, worth=0.2):
    """A record of accuracies that fall by so much at the fastest speed; the clock is worth so much at either end."""
    speeds = SOURCES[name].speeds
    rows = [
        {
            "way": trained, "clock_given": given, "clock": speed, "finite": True, "loss": 1.0, "largest": 0.5 * speed,
            "median": 0.1, "accuracy": accuracy - (fall if speed == speeds[-1] else 0.0)
            - (worth if speed in (speeds[0], speeds[-1]) and not given else 0.0),
        }
        for given in (True, False)
        for speed in speeds
    ]  # fmt: skip
    point = {"recording": name, "rate": "sigmoid", "on": 1.0, "trained": trained, "seed": 0}
    return {"key": f"{name}-{trained}", "point": point, "configuration": {}, "measures": {}, "rows": rows, "seconds": 1.0,
            "diverged": None}  # fmt: skip


def played_verdict(*records):
    return CompressedRecordings().verdict(Results(records))


@pytest.mark.parametrize(
    ("taylor", "exact", "word"),
    [
        (0.5, 0.02, "reproduced"),
        (0.8, 0.4, "partly"),
        (0.5, 0.06, "partly"),
        (0.0, 0.0, "not reproduced"),
        (0.04, 0.0, "not reproduced"),
    ],
)
def test_the_verdict_on_recordings_asks_for_a_loss_of_the_taylor_step_that_the_exact_model_does_not_have(taylor, exact, word):
    worth = 0.0 if word == "not reproduced" else 0.2
    records = [played_record("har", "euler", taylor, worth=worth), played_record("har", EXACT, exact, worth=worth)]
    verdict = played_verdict(*records)
    assert verdict.word == word
    assert verdict.numbers["har, Euler: fall from c = 1 to 8"] == number(taylor)
    assert "vowels" not in "".join(verdict.numbers)
    assert "left out" in tables_of(CompressedRecordings(), Results(records))
    assert ("lose 0.05 and more from 4 on" in verdict.sentence) is (taylor >= 0.05)


def test_the_control_and_where_taylor_steps_lose_are_parts_of_the_verdict_on_recordings():
    for worth, word in ((0.05, "reproduced"), (0.04, "partly"), (-0.1, "partly")):
        records = [played_record("har", way, fall, worth=worth) for way, fall in (("euler", 0.5), (EXACT, 0.0))]
        verdict = played_verdict(*records)
        assert verdict.word == word
        assert f"UCI HAR at c = 8 {number(worth)}; UCI HAR at c = 1/2 {number(worth)}." in verdict.sentence
    taylor, exact = played_record("har", "euler", 0.5), played_record("har", EXACT, 0.0)
    slow = next(row for row in taylor["rows"] if row["clock_given"] and row["clock"] == 0.5)
    slow["accuracy"] -= 0.1  # where no g dt is above 1
    assert played_verdict(taylor, exact).word == "partly"


def test_the_table_and_the_figure_of_a_recording_say_what_was_measured():
    records = [played_record("vowels", "euler", 0.5)]
    table = tables_of(CompressedRecordings(), Results(records))
    assert "| given | sigmoid | Euler | 1 | Euler | 0.900 (0.12) | 0.900 (0.25) | 0.900 (0.50) | 0.900 (1) | 0.400 (2) |" in table
    drawn_ = {name: draws(figure, Results(records)) for name, figure in CompressedRecordings().figures.items()}
    assert drawn_["har"] is None
    assert len(drawn_["vowels"].axes) == 2
    line = drawn_["vowels"].axes[0].get_lines()[0]
    assert line.get_xdata()[-1] == 4
    assert line.get_ydata()[-1] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clocks": ()}, "at least one speed"),
        ({"clocks": (1.0, 32.0)}, "32 would for 16 / 32"),
        ({"clocks": (3.0,)}, "whole numbers of samples"),
        ({"clocks": (-1.0,)}, "clocks"),
        ({"tau": 0.0}, "tau"),
        ({"counted": "first"}, "'last' or 'all'"),
        ({"alphabet": 2}, "alphabet"),
        ({"characters": 0}, "characters"),
    ],
)
def test_settings_that_make_no_task_are_refused_in_the_words_of_the_user(settings, words):
    with pytest.raises(ValueError, match=words):
        ClockedRecall(**settings)


def test_a_verdict_waits_for_both_kinds_of_training_and_for_models_that_have_learned():
    ours = recorded({EXACT: KEEPS}, trained=EXACT)
    for records in ([ours], [recorded({"euler": BREAKS}), recorded({EXACT: KEEPS}, trained=EXACT, clock_given=False)]):
        with pytest.raises(NotEnoughError, match="are needed"):
            verdict_of(*records)
    with pytest.raises(NotEnoughError, match="has learned"):
        verdict_of(recorded({"euler": LOW}), recorded({EXACT: LOW}, trained=EXACT))


def test_no_verdict_on_recordings_comes_from_models_that_learned_nothing_or_from_one_kind():
    with pytest.raises(NotEnoughError, match="are needed"):
        played_verdict(played_record("har", "euler", 0.5))
    with pytest.raises(NotEnoughError, match="has learned"):
        played_verdict(*(played_record("har", way, 0.1, accuracy=0.3) for way in ("euler", EXACT)))
    learned = [played_record("har", way, 0.0) for way in ("euler", EXACT)]
    with pytest.raises(NotEnoughError, match="no model has learned JapaneseVowels"):
        played_verdict(*learned, *(played_record("vowels", way, 0.0, accuracy=0.3) for way in ("euler", EXACT)))


@pytest.mark.slow
@pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")
def test_the_taylor_step_loses_the_vowels_that_are_played_four_times_as_fast_and_the_exact_model_does_not(tmp_path):
    study = CompressedRecordings()
    run = next(run for run in study.runs("small") if run.key == "vowels-sigmoid-1-euler-0")
    training = dataclasses.replace(run.configuration.training, threads=1)
    run = dataclasses.replace(run, configuration=dataclasses.replace(run.configuration, training=training))
    rows = {(row["clock_given"], row["way"], row["clock"]): row["accuracy"] for row in study.carry_out(run, tmp_path).rows}
    assert rows[True, EXACT, 4.0] > rows[True, "euler", 4.0] + 0.1
