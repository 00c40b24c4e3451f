"""The figures of Tallec and Ollivier 2018: sizes as printed, verdicts as the numbers say, and recall at any warp."""

import collections
import csv
import math
from dataclasses import replace

import pytest
import torch
from fake_studies import draws, records_of, tables_of
from torch.testing import assert_close

from experiments.reports.spreads import NotEnoughError
from experiments.seeds import generator
from experiments.studies.claims.tallec.fig1 import PANELS
from experiments.studies.claims.tallec.fig5 import slower_tests
from experiments.studies.claims.training import MODELS, steps_to
from experiments.studies.registry import study_named
from experiments.studies.results import Results
from experiments.tasks.warps.recall import AnyWarp, Recall

NAMES = ("tallec-fig1", "tallec-fig5", "tallec-fig3", "tallec-fig4")


def verdict_of(name, records):
    return study_named(name).verdict(Results(records))


def table_of(name, records):
    return tables_of(study_named(name), Results(records))


def figure_of(name, records):
    (figure,) = study_named(name).figures.values()
    return draws(figure, Results(records))


# Sizes ---------------------------------------------------------------------------------------------------------------------


def test_the_runs_of_figure_1_are_those_printed():
    runs = study_named("tallec-fig1").runs("paper")
    assert len(runs) == 4 * 11 * 3 * 3 * 5
    for one in runs:
        task, settings, field = one.configuration.task, one.configuration.training, one.configuration.field_settings
        assert isinstance(task, Recall)
        assert (task.length, task.alphabet, task.least, field.hidden) == (500, 10, 1, 64)
        assert (settings.batch, settings.optimizer, settings.schedule, settings.evaluate_every) == (32, "rmsprop", "plateau", 100)
        assert settings.clip is None
        assert 50_000 <= 32 * settings.batches < 50_000 + 32
        assert settings.steps == 3 * settings.batches
        assert one.configuration.integrator == "euler"
        if one.configuration.field != "plain":  # time scales up to the longest wait
            assert (field.init, field.t_max) == ("chrono", max(2, task.warp))
    panels = collections.Counter((one.configuration.task.warping, one.configuration.task.padded) for one in runs)
    assert panels == {(warping, padded): 495 for warping in ("uniform", "variable") for padded in (False, True)}
    assert {one.configuration.task.warp for one in runs} == {1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
    assert {one.configuration.field for one in runs} == set(MODELS)
    assert {one.configuration.training.seed for one in runs} == set(range(5))
    assert {one.configuration.training.rate for one in runs} == {1e-3, 3e-3, 1e-2}


def test_the_runs_of_figure_5_are_those_printed():
    runs = study_named("tallec-fig5").runs("paper")
    assert len(runs) == 2 * 3 * 5
    for one in runs:
        task, settings = one.configuration.task, one.configuration.training
        assert (task.least, task.warp, task.length, task.first, task.padded) == (1, 50, 500, True, False)
        assert (settings.batch, settings.steps, one.configuration.field_settings.hidden) == (32, 4689, 64)
        inside, *slower = slower_tests(task)
        assert inside[1] == AnyWarp(warp=50, length=500, per=task.per, first=False)
        assert [(found.least, found.warp) for _, found in slower] == [(100, most) for most in range(100, 501, 50)]
        assert all(found.length == 10 * found.warp and found.per == task.per and not found.first for _, found in slower)


def test_the_runs_of_figure_4_are_those_printed():
    runs = study_named("tallec-fig4").runs("paper")
    assert len(runs) == 2 * 3 * 3
    for one in runs:
        field, settings = one.configuration.field_settings, one.configuration.training
        assert (one.configuration.field, field.hidden, one.configuration.task.T in (200, 750)) == ("lstm", 128, True)
        assert (settings.optimizer, settings.rate, settings.clip, settings.batch) == ("rmsprop", 1e-3, None, 50)
        assert (settings.schedule, settings.batches) == ("constant", None)
        assert field.t_max == (one.configuration.task.T if field.init == "chrono" else None)


@pytest.mark.parametrize("name", NAMES)
def test_smaller_scales_are_smaller_in_everything_that_takes_time(name):
    work = [
        sum(
            one.configuration.training.steps
            * one.configuration.settings().get("length", one.point.get("T"))
            * one.configuration.training.batch
            * one.configuration.field_settings.hidden
            for one in study_named(name).runs(scale)
        )
        for scale in ("smoke", "small", "paper")
    ]
    assert 100 * work[0] < work[1], name
    assert 5 * work[1] < work[2], name


def test_figure_1_is_tested_on_ten_thousand_sequences(monkeypatch, tmp_path):
    study, asked = study_named("tallec-fig1"), []
    monkeypatch.setattr(
        "experiments.studies.claims.tallec.fig1.evaluate", lambda *said: asked.append(said) or {"loss": 0.5, "accuracy": 0.9}
    )
    one = study.runs("paper")[0]
    curve = "step,evaluation_loss\n100,2.0\n200,0.1\n300,0.05\n400,0.07\n"
    (tmp_path / "metrics.csv").write_text(curve)
    (row,) = study.measure(one, "the model", tmp_path)
    ((model, task, split, sequences, seed, batch),) = asked
    assert (model, task, split, sequences, seed, batch) == ("the model", one.configuration.task, "test", 10_000, 0, 32)
    reached = {"validation": 0.07, "steps": 200, "late": False}
    assert row == {"sequences": 10_000, "loss": 0.5, "accuracy": 0.9, **reached, **one.configuration.task.baselines()}
    (tmp_path / "metrics.csv").write_text(curve.replace("0.", "1."))
    assert study.measure(one, "the model", tmp_path)[0]["steps"] == 400
    assert study.measure(one, "the model", tmp_path)[0]["late"]


# Verdicts ------------------------------------------------------------------------------------------------------------------

PRINTED = {
    ("uniform", "plain"): 1.3, ("uniform", "leaky"): 0.01, ("uniform", "gated"): 0.01,
    ("variable", "plain"): 1.2, ("variable", "leaky"): 0.8, ("variable", "gated"): 0.02,
}  # fmt: skip


def of_figure_1(losses=PRINTED, scale="small"):
    """Records with these losses by the rate of 3e-3, which the evaluation prefers, and lower ones in the test of the others."""

    def measured(run):
        warping = run.configuration.task.warping
        loss = losses[warping, run.point["model"]] * (1 + 0.02 * run.point["seed"])
        found = {"sequences": 9, "loss": loss, "accuracy": 0.5, "validation": 0.2, "steps": 700, "late": False, "memoryless": 2.1}
        if run.point["rate"] != 3e-3:
            found |= {"loss": 1e-9, "validation": 0.2 + 0.01 * run.point["seed"], "steps": 1}
        return {"loss": 7.0}, [found]

    return records_of(study_named("tallec-fig1"), scale, measured)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, "reproduced"),
        ({("variable", "gated"): 0.3}, "partly"),  # far below the others, but not solved
        ({("variable", "leaky"): 0.035}, "partly"),  # not twice as far from nothing
        ({("uniform", "leaky"): 0.2}, "partly"),
        ({("uniform", "plain"): 0.015}, "partly"),
        ({("uniform", "plain"): 0.05}, "reproduced"),  # solved too, and far behind
        ({("variable", "gated"): 1.0, ("uniform", "leaky"): 1.0}, "not reproduced"),
    ],
)
def test_figure_1_is_reproduced_where_all_parts_of_the_claim_hold(changed, word):
    verdict = verdict_of("tallec-fig1", of_figure_1({**PRINTED, **changed}))
    assert verdict.word == word
    assert verdict.sentence.count(": yes (") + verdict.sentence.count(": no (") == 4


def test_losses_of_figure_1_are_told_apart_by_all_runs_and_not_where_they_are_next_to_nothing():
    records = of_figure_1()
    lucky = next(one for one in records if one["key"] == "40-uniform-warping-plain-0.003-0")
    lucky["rows"][0]["loss"] = 0.005  # as good as a gated one
    verdict = verdict_of("tallec-fig1", records)
    assert "in 11 of 12 cases, not in uniform warping 40 (0.9 (0.0–1.4));" in verdict.sentence
    assert [part.answer for part in verdict.parts] == ["undecided", "yes", "yes", "yes"]
    changed = {("uniform", "plain"): 6e-8, ("uniform", "leaky"): 5e-9, ("uniform", "gated"): 3e-9}
    found = verdict_of("tallec-fig1", of_figure_1({**PRINTED, **changed}))
    assert [part.answer for part in found.parts] == ["no", "yes", "yes", "yes"]
    assert "(by the interval of each in 6 of 12 cases; in uniform warping 40, uniform" in found.sentence
    for plain, word in ((1.2e-3, "partly"), (4e-3, "reproduced")):
        assert verdict_of("tallec-fig1", of_figure_1({**PRINTED, **changed, ("uniform", "plain"): plain})).word == word


def test_a_leaky_network_behind_by_less_than_its_runs_differ_is_not_told_apart():
    records = of_figure_1({**PRINTED, ("variable", "leaky"): 0.08})
    for one in records:
        if one["key"].startswith("40-variable-padding-leaky-0.003"):
            one["rows"][0]["loss"] *= (0.5, 1, 3)[one["point"]["seed"]]
    verdict = verdict_of("tallec-fig1", records)
    assert [part.answer for part in verdict.parts] == ["yes", "yes", "undecided", "yes"]


def test_figure_1_takes_the_test_and_not_the_evaluation_and_waits_for_a_slow_clock_of_every_panel():
    records = of_figure_1()
    verdict = verdict_of("tallec-fig1", records)
    assert "7" not in verdict.numbers.values()
    assert verdict.numbers["loss, variable padding, warp 40, leaky"] == "0.816 (0.800–0.832)"
    assert "| variable padding | 40 | 1.224 (1.200–1.248) | 0.816 (0.800–0.832) |" in table_of("tallec-fig1", records)
    assert "| variable padding | 40 | 700, 0.00300 | 700, 0.00300 | 700, 0.00300 |" in table_of("tallec-fig1", records)
    losses = table_of("tallec-fig1", records).split("\n\n")[1].splitlines()[2:]
    order = [line.removeprefix("| ").split(" | ")[:2] for line in losses]
    assert order == [[panel, warp] for panel in PANELS for warp in ("10", "20", "40")]
    with pytest.raises(NotEnoughError, match="uniform padding"):
        verdict_of("tallec-fig1", [one for one in records if one["point"]["panel"] != "uniform padding"])
    first = [one for one in records if one["point"]["warp"] == 40]
    assert verdict_of("tallec-fig1", first).word == "reproduced"


def of_figure_5(inside, beyond):
    """Records with these accuracies in the training's range and at ten times, straight between."""

    def measured(run):
        ends = inside[run.point["model"]], beyond[run.point["model"]]
        return {}, [
            {"times": times, "least": task.least, "warp": task.warp, "loss": 1.0,
             "accuracy": ends[0] + (ends[1] - ends[0]) * (times - 1) / 9}
            for times, task in slower_tests(run.configuration.task)
        ]  # fmt: skip

    return records_of(study_named("tallec-fig5"), "small", measured)


@pytest.mark.parametrize(
    ("within", "after", "word"),
    [
        ((0.78, 1.0, 1.0), (0.7, 0.75, 0.76), "reproduced"),
        ((0.78, 1.0, 1.0), (0.7, 0.5, 0.76), "partly"),  # not decent
        ((0.9, 1.0, 1.0), (0.7, 0.75, 0.76), "partly"),  # plain is above 0.8
        ((0.78, 0.9, 1.0), (0.7, 0.75, 0.76), "partly"),  # leaky is not perfect
        ((0.78, 1.0, 1.0), (0.77, 0.75, 0.76), "partly"),  # plain is better at ten times
        ((0.78, 1.0, 0.9), (0.4, 0.75, 0.86), "partly"),  # plain is steeper
        ((0.9, 0.9, 0.8), (0.2, 0.2, 0.15), "not reproduced"),
    ],
)
def test_figure_5_is_reproduced_where_all_parts_of_the_claim_hold(within, after, word):
    inside, beyond = (dict(zip(MODELS, numbers, strict=True)) for numbers in (within, after))
    verdict = verdict_of("tallec-fig5", of_figure_5(inside, beyond))
    assert verdict.word == word, verdict.sentence
    assert verdict.numbers["accuracy, gated, 10 times"] == f"{beyond['gated']:.3f}"


def test_figure_5_judges_the_reading_in_which_plain_is_as_printed():
    good, bad = ({"plain": p, "leaky": 1.0, "gated": 1.0} for p in (0.78, 0.9))
    records = of_figure_5(good, {"plain": 0.7, "leaky": 0.75, "gated": 0.76})
    assert verdict_of("tallec-fig5", records).sentence.startswith("With a warp for each sequence,")
    for one in records:
        if one["key"].startswith("sequence-plain"):
            one["rows"] = [{**row, "accuracy": bad["plain"]} for row in one["rows"]]
    found = verdict_of("tallec-fig5", records)
    assert found.word == "reproduced"
    assert found.sentence.startswith("With a warp for each symbol,")
    with pytest.raises(NotEnoughError, match="no run of gated with a warp for each symbol"):
        verdict_of("tallec-fig5", [one for one in records if "symbol-gated" not in one["key"]])
    for one in records:  # in neither: the first
        if one["key"].startswith("symbol-plain"):
            one["rows"] = [{**row, "accuracy": bad["plain"]} for row in one["rows"]]
    assert verdict_of("tallec-fig5", records).sentence.startswith("With a warp for each sequence,")


def of_figure_4(steps, scale="paper", seeds=3):
    """Records of runs whose error falls to 0.005 at these steps: T -> start -> steps, None for never; only those named."""

    def measured(run):
        settings = run.configuration.training
        try:
            at = steps[run.point["T"]][run.point["start"]]
        except KeyError:
            return None
        at = settings.steps + 1 if at is None else at + 100 * settings.seed
        ends = range(settings.evaluate_every, settings.steps + 1, settings.evaluate_every)
        rows = [{"step": step, "loss": 0.005 if step >= at else 0.16} for step in ends]
        return ({"loss": rows[-1]["loss"]}, rows) if settings.seed < seeds else None

    return records_of(study_named("tallec-fig4"), scale, measured)


@pytest.mark.parametrize(
    ("at_200", "at_750", "word"),
    [
        ((6000, 2000), (19_000, 2000), "reproduced"),
        ((6000, 2000), (None, 2000), "reproduced"),  # more than 9.5 times
        ((6000, 2000), (10_000, 2000), "partly"),  # less than seven times
        ((6000, 2000), (None, 4000), "undecided"),  # perhaps seven times, but 4.9 is all that is known
        ((2500, 2000), (19_000, 2000), "partly"),  # not significant at T = 200
        ((2500, 2000), (3000, 2000), "not reproduced"),
        ((6000, None), (16_000, None), "not reproduced"),
    ],
)
def test_figure_4_is_reproduced_where_chrono_is_so_many_times_faster(at_200, at_750, word):
    steps = {
        T: {"standard": standard, "constant": standard, "chrono": chrono}
        for T, (standard, chrono) in ((200, at_200), (750, at_750))
    }
    verdict = verdict_of("tallec-fig4", of_figure_4(steps))
    assert verdict.word == word, verdict.sentence


def test_a_lead_over_runs_that_were_not_there_is_longer_than_measured_and_answers_no_no():
    first = verdict_of("tallec-fig4", of_figure_4({200: {"standard": None, "chrono": 10_000}}, "small")).parts[0]
    assert first.answer == "undecided"
    assert "more than 1.58 times; in doublings: 0.66" in first.numbers
    assert first.numbers.endswith("but runs were not there")
    records = of_figure_4({200: {"standard": None, "chrono": 1000}}, "small")
    assert verdict_of("tallec-fig4", records).parts[0].answer == "yes"
    lucky = next(one for one in records if one["key"] == "200-standard-0")
    lucky["rows"] = [{**row, "loss": 0.005 if row["step"] >= 1100 else 0.16} for row in lucky["rows"]]
    # 11,033 steps against 1100 in the mean, but one of three is there as soon: no interval of so few runs excludes twice.
    assert verdict_of("tallec-fig4", records).parts[0].answer == "undecided"


def test_a_lead_of_runs_that_were_not_there_is_shorter_than_measured_and_answers_no_yes():
    records = of_figure_4({200: {"standard": None, "chrono": 1000}}, "small")
    for one in records:
        if one["key"] == "200-chrono-1":
            one["rows"] = one["rows"][:10]  # ended before the error, 0.1 at most
    first = verdict_of("tallec-fig4", records).parts[0]
    assert (first.answer, "as counted" in first.numbers) == ("undecided", True)


def test_runs_that_never_get_there_are_told_as_more_steps_than_they_had():
    records = of_figure_4({200: {"standard": None, "chrono": 2000}}, "small")
    verdict = verdict_of("tallec-fig4", records)
    # 16,000 steps were given, and chrono needs 2100 in the mean.
    assert verdict.numbers == {"steps, T = 200, standard": "> 16000", "steps, T = 200, chrono": "2100 (2000–2200)"}
    assert "more than 7.62 times" in verdict.sentence
    assert "7 times faster at T = 750: undecided (no run has T = 750)" in verdict.sentence
    assert "| 200 | standard | > 16000 | > 16000 | > 16000 | > 16000 | 0.160 | 3 |" in table_of("tallec-fig4", records)


@pytest.mark.parametrize(("constant", "holds"), [(None, "yes"), (3000, "no")])
def test_a_large_bias_that_does_as_well_is_no_spread_of_time_scales(constant, holds):
    steps = {200: {"standard": None, "constant": constant, "chrono": 2000}, 50: {"standard": 2500, "chrono": 2000}}
    sentence = verdict_of("tallec-fig4", of_figure_4(steps, "small")).sentence
    assert f"One large bias for all units would not do, T = 200: {holds}" in sentence
    assert "speeds up learning, T = 200: yes" in sentence
    assert "It does so at shorter T too, T = 50: no (to an error" in sentence


def test_the_error_compared_is_the_smallest_that_every_chrono_run_reaches():
    records = of_figure_4({200: {"standard": None, "chrono": 2000}}, "small")
    for one in records:
        if one["key"] == "200-chrono-1":
            one["rows"] = [{**row, "loss": max(row["loss"], 0.03)} for row in one["rows"]]
    assert "to an error of 0.05: chrono 2100" in verdict_of("tallec-fig4", records).sentence
    with pytest.raises(NotEnoughError):  # one start alone
        verdict_of("tallec-fig4", [one for one in records if one["point"]["start"] == "chrono"])
    assert steps_to(Results(records).rows, 0.02).loc[["200-chrono-0", "200-chrono-1"], "late"].tolist() == [False, True]


# Figures and curves ----------------------------------------------------------------------------------------------------------


def test_the_learning_curve_is_what_the_evaluations_found(tmp_path):
    lines = [["step", "seconds", "rate", "loss", "gradient_norm", "evaluation_loss", "evaluation_accuracy"]]
    lines += [[k, 0.1 * k, 1e-3, 9.0, 1.0, 0.5 / k if k % 2 == 0 else "", ""] for k in range(1, 7)]
    with (tmp_path / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    study = study_named("tallec-fig4")
    rows = study.measure(study.runs("smoke")[0], None, tmp_path)
    assert rows == [{"step": k, "loss": 0.5 / k} for k in (2, 4, 6)]


def test_figure_1_has_four_panels_and_the_guess_in_each():
    figure = figure_of("tallec-fig1", of_figure_1())
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(PANELS)
    for ax in figure.axes:
        lines = {line.get_label(): line for line in ax.get_lines()}
        assert list(lines) == [*MODELS, "memoryless"]
        assert len({line.get_marker() for line in lines.values()}) == 4  # not by colour alone
        assert_close(list(lines["memoryless"].get_ydata()), [2.1] * len(lines["plain"].get_xdata()))
    plain = next(line for line in figure.axes[2].get_lines() if line.get_label() == "plain")
    assert_close(list(plain.get_ydata()), [1.224, 1.224, 1.224])


def test_figures_are_drawn_from_a_part_of_the_records():
    some = of_figure_1()[:1]
    assert figure_of("tallec-fig1", some)
    assert "| – |" in table_of("tallec-fig1", some)
    (ax,) = figure_of("tallec-fig4", of_figure_4({200: {"standard": None, "chrono": 2000}}, "small", seeds=1)).axes
    chrono = next(line for line in ax.get_lines() if line.get_label() == "chrono")
    assert 12 <= len(chrono.get_xdata()) <= 24
    assert chrono.get_xdata()[-1] == 16_000
    assert chrono.get_ydata()[-1] == 0.005
    accuracies = {"plain": 0.7, "leaky": 1.0, "gated": 0.9}
    records = of_figure_5(accuracies, accuracies)
    assert [len(figure_of("tallec-fig5", part).axes) for part in (records[:3], records)] == [1, 2]
    table = table_of("tallec-fig5", records)
    assert "trained on length 300." in table
    assert "| a warp for each sequence | 100–500 | 0.700 | 1 | 0.900 |" in table


# Recall at any warp ----------------------------------------------------------------------------------------------------------


def runs_of(symbols):
    """Lengths of runs of equal symbols, the last one cut off or not."""
    ends = [k for k in range(1, len(symbols)) if symbols[k] != symbols[k - 1]] + [len(symbols)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def test_a_warp_for_each_sequence_is_the_same_all_along_and_uniform_over_sequences():
    task = AnyWarp(least=2, warp=5, length=23)
    shown = task.batch(2000, generator(0)).xs.argmax(-1)
    warps = []
    for sequence in shown.T.tolist():
        whole = runs_of(sequence)[:-1]
        assert len(set(whole)) == 1
        warps.append(whole[0])
    counts = collections.Counter(warps)
    assert set(counts) == {2, 3, 4, 5}
    assert all(abs(count - 500) < 4 * math.sqrt(2000 * 3 / 16) for count in counts.values())


def test_symbols_of_a_uniform_warp_are_those_of_recall_played_slower():
    size, w = 6, 4
    slow, plain = AnyWarp(least=w, warp=w, length=40), Recall(warping="uniform", warp=w, length=40)
    ours, theirs = slow.batch(size, generator(3)), plain.batch(size, generator(3))
    assert_close(ours.xs, theirs.xs, rtol=0, atol=0)
    assert_close(ours.targets, theirs.targets)
    waiting, theirs = (replace(task, padded=True).batch(size, generator(3)) for task in (slow, plain))
    assert_close(waiting.xs, theirs.xs, rtol=0, atol=0)
    assert_close(waiting.counts, theirs.counts)
    for padded in (True, False):
        by_symbol = AnyWarp(warp=w, length=40, per="symbol", padded=padded).batch(size, generator(3))
        variable = Recall(warping="variable", warp=w, length=40, padded=padded).batch(size, generator(3))
        assert_close(by_symbol.xs, variable.xs, rtol=0, atol=0)
        assert_close(by_symbol.targets, variable.targets)


def test_settings_of_any_warp_that_make_no_task_are_refused():
    for settings, words in (
        ({"warp": 20, "length": 20, "first": False}, "leaves nothing that counts in a sequence of `length` = 20"),
        ({"warping": "uniform"}, "`warping` must be 'variable'"),
        ({"per": "word"}, "`per` must be 'sequence' or 'symbol', got 'word'"),
    ):
        with pytest.raises(ValueError, match=words):
            AnyWarp(**settings)
    with pytest.raises(TypeError, match="first"):
        AnyWarp(first=1)
    AnyWarp(warp=19, length=20, first=False)


@pytest.mark.parametrize(("per", "padded"), [("sequence", True), ("symbol", False)])
def test_without_the_first_run_only_characters_are_asked_for(per, padded):
    task = AnyWarp(warp=5, length=30, per=per, padded=padded, first=False)
    batch = task.batch(50, generator(1))
    shown = batch.xs.argmax(-1)
    for b in range(50):
        heard = None  # the symbol being played; the target is the one before it
        before = None
        for t in range(30):
            symbol = int(shown[t, b])
            begins = symbol not in (0, heard)
            if begins:
                before, heard = heard, symbol
            asked = before is not None and (begins or not padded)
            assert bool(batch.counts[t, b]) == asked
            if asked:
                assert int(batch.targets[t, b]) == before
    assert task.baselines() == {"memoryless": pytest.approx(math.log(8))}
    assert task.baseline_accuracies() == {"memoryless": pytest.approx(1 / 8)}


@pytest.mark.parametrize("padded", [False, True])
def test_its_guess_loses_what_the_frequencies_of_targets_say(padded):
    task = AnyWarp(least=2, warp=6, length=20, padded=padded)
    batch = task.batch(20_000, generator(2))
    counts = torch.ones(20, 20_000) if batch.counts is None else batch.counts
    p = float((counts * (batch.targets == 0)).sum() / counts.sum())
    found = -p * math.log(p) - (1 - p) * math.log((1 - p) / 8)
    # The share of the first run is known to about 0.003 from so many sequences.
    assert task.baselines()["memoryless"] == pytest.approx(found, abs=0.004)
