"""What step maps make of trained networks: measures against closed forms of a unit, verdicts on records that are made up."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest
import torch
from datasets import make_vowels
from fake_studies import draws, records_of, tables_of
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import SequenceModel
from experiments.models.integrators import EXACT, IntegratorSettings, under
from experiments.seeds import generator
from experiments.studies.claims.memory import held, measures
from experiments.studies.claims.memory.held import DTS, EQUATION, LINES, STEPPED, HeldSymbols, largest_exponents
from experiments.studies.claims.memory.measures import STEPS, ExactSteps
from experiments.studies.claims.memory.rates import CELLS, LENGTHS, SamplingRates, answers, played
from experiments.studies.claims.memory.steps import CLOCKS, SHOWN, STRETCHED, STRETCHES, MemoryAndSteps
from experiments.studies.clocks.rollout import SOFTPLUS_CLOCK
from experiments.studies.results import Results
from experiments.studies.study import DATA
from experiments.tasks.warps.clocked import ClockedRecall


def without_recurrence(rate, inputs=4, units=3):
    """dh/dt = rate (f - h), f other for each unit."""
    field = ctrnn.gated(inputs, units, dtype=torch.float64)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.zero_()
        field.rate.bias.fill_(math.log(rate / (1 - rate)))
        field.candidate.bias.copy_(torch.linspace(0.5, 1.5, units))
    return field


def test_now_is_the_symbol_that_is_seen_and_needs_no_memory():
    task = ClockedRecall((4.0,), characters=5, said="now")
    batch = task.batch(6, generator(1, "test"))
    assert torch.equal(batch.targets, batch.xs.argmax(-1))
    assert task.baselines()["memoryless"] == 0
    before = ClockedRecall((4.0,), characters=5).batch(6, generator(1, "test"))
    assert torch.equal(before.xs, batch.xs)
    with pytest.raises(ValueError, match="'before' or 'now'"):
        ClockedRecall(said="after")


def test_exact_steps_begin_where_the_symbol_before_has_ended():
    task = ClockedRecall((8.0,), repeats=16, characters=3)
    field, batch = without_recurrence(0.6, task.input_size), task.batch(5, generator(0, "test"))
    model = SequenceModel(discretize.ContinuousRNN(field), 10).double()
    exact, f = measures.exact_steps(model, task, 8.0, batch), field.candidate.bias.detach().tanh()
    times = torch.tensor([4.0, 6.0, 8.0, 10.0]).repeat_interleave(5)[:, None]  # of 0, 2, .. 12: two samples a symbol
    assert_close(exact.before, f * -torch.expm1(-0.6 * times), rtol=0, atol=1e-4)  # the solver's 1e-5 a step
    assert_close(exact.after, f * -torch.expm1(-0.6 * (times + 2)), rtol=0, atol=1e-4)


def test_samples_that_are_stretched_are_those_of_a_task_with_more_time():
    field = ctrnn.gated(10, 12, dtype=torch.float64)
    model = SequenceModel(discretize.DiscreteRNN(field), 10).double()
    tasks = [ClockedRecall((8.0,), tau=tau) for tau in (3.0, 6.0)]
    batches = [task.batch(200, generator(0, "test")) for task in tasks]
    found = [measures.accuracy(model, "heun", task, 8.0, *more) for task, *more in zip(tasks, batches, (2.0, 1.0), strict=True)]
    assert found[0] == found[1] != measures.accuracy(model, "heun", tasks[0], 8.0, batches[0])


def test_accuracy_is_that_at_the_ends_of_symbols_but_the_first():
    task = ClockedRecall((8.0,))
    model = SequenceModel(discretize.DiscreteRNN(ctrnn.gated(10, 3, dtype=torch.float64)), 10).double()
    with torch.no_grad():
        model.read_out.bias[0] = 99  # what is said before the first symbol, and never again
    assert measures.accuracy(model, "euler", task, 8.0, task.batch(20, generator(0, "test"))) == 0


def test_the_slowest_mode_is_that_of_the_unit_with_the_least_rate():
    rates, dt = torch.tensor([0.2, 0.5, 0.8]), 2.0
    field, x, h = without_recurrence(0.6), torch.zeros(7, 4), torch.randn(7, 3)
    with torch.no_grad():
        field.rate.bias.copy_(rates.logit())
    found = measures.dropped(ExactSteps(field, field.project(x), h, h, dt))
    assert (found["slowest"], found["leak"]) == (pytest.approx(-0.2 * dt), pytest.approx(0.5 * dt))


def test_without_recurrence_speeds_and_what_is_dropped_are_those_of_one_unit():
    g, dt = 0.6, 2.0
    field, x, h = without_recurrence(g), torch.zeros(7, 4), torch.randn(7, 3)
    projected, f = field.project(x), field.candidate.bias.detach().tanh()
    exact = ExactSteps(field, projected, h, f + math.exp(-g * dt) * (h - f), dt)
    forgotten = -math.expm1(-g * dt)
    for name, moved, derived in (
        ("euler", g * dt, 1.0), ("exponential-euler", forgotten, forgotten / (g * dt)),
        ("frozen-backward-euler", g * dt / (1 + g * dt), 1 / (1 + g * dt)), ("fitted-midpoint", forgotten, 1.0),
    ):  # fmt: skip
        assert measures.speed(STEPS[name], exact) == pytest.approx(moved / forgotten, rel=1e-12)
        # A central difference over 1e-4: its square, and rounding divided by it.
        assert measures.derived_speed(STEPS[name], exact) == pytest.approx(derived, abs=1e-8)
    found = measures.dropped(exact)
    assert found["euler size"] == pytest.approx(g * dt / 2)
    assert found["euler along"] == pytest.approx(-g * dt / 2)
    assert found["exponential size"] == pytest.approx(0, abs=1e-12)
    assert (found["leak"], found["slowest"]) == (pytest.approx(g * dt), pytest.approx(-g * dt))


def test_exponents_of_a_unit_without_recurrence_are_those_of_its_factor():
    g, dts = 0.6, (0.5, 5.0)
    field = without_recurrence(g)

    def found(step):
        return [each[0] for each in largest_exponents(field, step, dts, 16).values()]

    shape = torch.ones(3)  # symbols
    for flow, exponential, euler, dt in zip(found(None), found(discretize.ExponentialEuler()), found(discretize.Euler()), dts,
                                            strict=True):  # fmt: skip
        assert_close(flow, -g * dt * shape, rtol=0, atol=1e-4)  # of a solve to 1e-6
        assert_close(exponential, -g * dt * shape, rtol=0, atol=1e-11)
        # 1 - 3 has passed 100 after 32 steps.
        assert_close(euler, shape * (math.log(abs(1 - g * dt)) if dt < 5 else math.nan), rtol=0, atol=1e-11, equal_nan=True)


def of_two_seeds(rows):
    """What is measured of the runs of the first two seeds; others are not done."""
    return lambda run: ({"accuracy": 1.0}, rows(run)) if run.point["seed"] < 2 else None


def memory_rows(run, slow_keeps):
    """As a first look had it; or an exponential Euler step that keeps what it should lose."""
    said = run.point["said"]
    right = (
        {("exponential-euler", c): a for c, a in zip(CLOCKS, (1.0, 0.84, 0.26, 0.1, 0.05), strict=True)}
        if said == "before"
        else {}
    )
    if slow_keeps:
        right = {}
    right |= {(name, 8.0): 0.4 for name in STEPS if name != "fitted-midpoint"}
    rows = [
        {"kind": "clock", "map": name, "clock": c, "accuracy": right.get((name, c), 1.0), "cost": 1}
        for name in (EXACT, *STEPS)
        for c in CLOCKS
    ]
    rows += [{"kind": "stretch", "map": EXACT, "clock": 16.0, "stretch": s, "accuracy": float(s > 0.7)} for s in STRETCHES]
    rows += [
        {"kind": "stretch", "map": name, "clock": c, "stretch": s, "accuracy": 0.9 if c < 8 and s == 2 else 0.3}
        for name in STRETCHED
        for c in (2.0, 4.0, 8.0)
        for s in SHOWN
    ]
    speeds = {said: 0.66} | ({"untrained": 0.99} if said == "before" else {})
    for weights, speed in speeds.items():
        rows += [
            {"kind": "speed", "weights": weights, "map": name, "clock": c, "speed": speed, "derived": 0.68}
            for name in STEPS
            for c in CLOCKS[1:]
        ]
        dropped = dict.fromkeys(("euler size", "euler along", "exponential size", "exponential along", "leak", "slowest"), 0.1)
        rows += [{"kind": "dropped", "weights": weights, "clock": c, **dropped} for c in CLOCKS[1:]]
    return rows


@pytest.mark.parametrize(("slow_keeps", "word"), [(False, "reproduced"), (True, "partly")])
def test_the_verdict_on_memory_follows_the_accuracies(slow_keeps, word):
    study = MemoryAndSteps()
    results = Results(records_of(study, "small", of_two_seeds(lambda run: memory_rows(run, slow_keeps))))
    verdict = study.verdict(results)
    assert verdict.word == word
    assert verdict.parts[0].holds is not slow_keeps
    tables = tables_of(study, results)
    assert "| FittedMidpoint | 1 | 1 | 1 | 1 | 1 | 1 | 1 |" in tables  # kept at c = 16, by one evaluation a symbol
    assert all(draws(figure, results) is not None for figure in study.figures.values())


def held_rows(chaotic):
    rows = []
    for weights, names in (("trained", (EQUATION, *STEPPED)), ("untrained", LINES)):
        for name in names:
            for dt in DTS:
                bad = name == "euler" and weights == "trained"
                lost = 9 if bad and dt >= 2.5 else 0
                numbers = dict.fromkeys(("low", "median", "high"), None if lost else 0.2 if bad and dt == 2 and chaotic else -0.1)
                rows.append({"weights": weights, "map": name, "dt": dt, "symbols": 9, "lost": lost, **numbers,
                             "chaotic": 9 if bad and dt == 2 and chaotic else 0})  # fmt: skip
    return rows


@pytest.mark.parametrize("chaotic", [True, False])
def test_the_verdict_on_held_symbols_follows_the_exponents(chaotic):
    study = HeldSymbols()
    results = Results(records_of(study, "small", lambda run: ({"accuracy": 1.0}, held_rows(chaotic))))
    verdict = study.verdict(results)
    assert [part.holds for part in verdict.parts] == [True, chaotic, True, True, True]
    assert ("| Euler | 0 of 45 | 0 of 45 | 0 of 45 | 0 of 45 | 45 of 45 | lost |" in tables_of(study, results)) is chaotic
    trained, untrained = draws(study.figures["exponents"], results).axes
    drawn = [next(line for line in ax.get_lines() if line.get_label() == "Euler") for ax in (trained, untrained)]
    assert [max(line.get_xdata()) for line in drawn] == [2.0, max(DTS)]  # ends where more than half are lost
    assert dict(zip(*drawn[0].get_data(), strict=True))[2.0] == pytest.approx(0.2 if chaotic else -0.1)


def test_a_network_that_goes_round_under_the_equation_does_not_come_to_rest():
    study, cycle = HeldSymbols(), {"low": -0.2, "median": -0.1, "high": 2e-5}  # of one of its nine symbols

    def measured(run):
        rows = held_rows(chaotic=True)
        return {"accuracy": 1.0}, [row | cycle if row["map"] == EQUATION and run.point["seed"] == 4 else row for row in rows]

    part = study.verdict(Results(records_of(study, "small", measured))).parts[0]
    assert part.holds is False
    assert "in 4 of 5 networks" in part.numbers


@pytest.fixture
def vowels(tmp_path, monkeypatch):
    folder = tmp_path / "japanese_vowels"
    folder.mkdir()
    make_vowels(folder)
    shutil.copy(folder / "JapaneseVowels_TRAIN.ts.xz", folder / "JapaneseVowels_TEST.ts.xz")
    monkeypatch.setenv(DATA, str(tmp_path))


def test_the_same_weights_are_run_on_the_softplus_clock_by_euler_steps_and_as_they_are(monkeypatch, tmp_path):
    study, calls = SamplingRates(), []
    monkeypatch.delenv(DATA, raising=False)
    run = next(run for run in study.runs("smoke") if run.point["on"] == 1)
    model = run.configuration.untrained_model()

    def seen(network, batch, given):
        assert network.field.candidate is model.field.candidate
        kind = type(network.rnn.step).__name__, type(network.field.rate).__name__
        calls.append((*kind, network.rnn.substeps, not given, float(batch.ts[1])))
        return answers(network, batch, given)

    monkeypatch.setattr("experiments.studies.claims.memory.rates.answers", seen)
    rows = study.measure(run, model, tmp_path)
    expected = {
        SOFTPLUS_CLOCK: ("ExponentialEuler", "SoftplusRate", 1, False), "euler": ("Euler", "GateRate", 1, False),
        "as trained": ("Euler", "GateRate", 1, True), "anew": ("Euler", "GateRate", 1, True),
    }  # fmt: skip
    assert [call for call, row in zip(calls, rows, strict=True) if row["way"] != "repeated"] == [
        (*expected[row["way"]], row["length"]) for row in rows if row["way"] != "repeated"
    ]
    assert [call[2:] for call, row in zip(calls, rows, strict=True) if row["way"] == "repeated"] == [
        (max(1, int(s)), False, s) for s in LENGTHS
    ]
    assert {row["length"] for row in rows if row["way"] == SOFTPLUS_CLOCK} == set(LENGTHS)


def test_a_sample_that_is_twice_as_long_is_given_as_such_and_half_as_many_are_played(vowels):
    runs = {run.point["source"]: run for run in SamplingRates().runs("smoke") if run.point["on"] == 1}
    for source, run in runs.items():
        long, short = (next(iter(played(run.configuration.task, s, 8, 0))) for s in (2.0, 0.5))
        assert_close(long.ts, 2.0 * torch.arange(len(long.xs) + 1), check_dtype=False)
        assert_close(short.ts, 0.5 * torch.arange(len(short.xs) + 1), check_dtype=False)
        assert 4 <= len(short.xs) / len(long.xs) < 4.3, source  # a frame that is left over is dropped


def test_unit_steps_that_lose_a_task_of_one_cell_are_told(vowels):
    def rows(run):
        found = rates_rows(run, TIMED, EVEN)
        for row in found:
            if (run.point["cell"], run.point["source"], row["way"], row["length"]) == ("lstm", "tones", "repeated", 2.0):
                row["accuracy"] = 0.5
        return found

    part = SamplingRates().verdict(Results(records_of(SamplingRates(), "small", of_two_seeds(rows)))).parts[0]
    assert part.answer == "no"
    assert "LSTM, tones 0.45" in str(part)


def rates_rows(run, clock, euler):
    """What is left of 0.95 at s = 2, on the softplus clock and by Euler steps; at s = 4 Euler steps have overshot."""
    on = run.point["on"]
    if on != 1:
        return [{"way": "anew", "length": on, "accuracy": 0.95}]
    moved = 0.001 * run.point["seed"]
    rows = [{"way": way, "length": s, "accuracy": 0.95 + moved}
            for way in ("repeated", "euler", SOFTPLUS_CLOCK, "as trained") for s in LENGTHS]  # fmt: skip
    for row in rows:
        if row["length"] == 2 and row["way"] in ("euler", SOFTPLUS_CLOCK):
            row["accuracy"] = (euler if row["way"] == "euler" else clock)[run.point["source"]] + moved
        if row["length"] == 4 and row["way"] == "euler":
            row["accuracy"] = 0.3 + moved
    return [*rows, {"way": "anew", "length": 1.0, "accuracy": 0.95 + moved}]


TIMED, EVEN = {"vowels": 0.95, "recall": 0.2, "tones": 0.3}, {"vowels": 0.95, "recall": 0.95, "tones": 0.95}


@pytest.mark.parametrize(
    ("clock", "euler", "answers"),
    [  # of unit steps, vowels, recall and tones at s = 2, and vowels at s = 4
        (TIMED, EVEN, ["yes", "yes", "yes", "yes", "yes"]),
        (EVEN, EVEN, ["yes", "yes", "no", "no", "yes"]),  # not ahead where time counts
        (TIMED, EVEN | {"vowels": 0.9}, ["yes", "no", "yes", "yes", "yes"]),
        (TIMED, TIMED, ["yes", "yes", "no", "no", "yes"]),
    ],
)
def test_the_verdict_on_sampling_rates_compares_euler_steps_with_the_clock(clock, euler, answers, vowels):
    study = SamplingRates()
    records = records_of(study, "small", of_two_seeds(lambda run: rates_rows(run, clock, euler)))
    results = Results(records)
    parts = study.verdict(results).parts
    assert [part.claim.partition(":")[0].partition(",")[0] for part in parts] == [
        "of both cells", "JapaneseVowels", "recall", "tones", "JapaneseVowels"
    ]  # fmt: skip
    assert [part.answer for part in parts] == answers
    assert "| JapaneseVowels | GRU | softplus clock, given s | 0.9505" in tables_of(study, results)
    assert draws(study.figures["accuracy"], results) is not None
    more = [one | {"key": f"har-{one['key']}", "point": one["point"] | {"source": "har"}} for one in records]  # as of vowels
    of_both = study.verdict(Results([*records, *(one for one in more if "vowels" in one["key"])]))
    assert len(of_both.parts) == len(parts) + 2
    assert "GRU, UCI HAR 0" in of_both.sentence


@pytest.mark.parametrize("cell", CELLS)
def test_as_it_is_a_cell_is_that_of_torch_and_read_twice_it_is_that_on_samples_that_come_twice(cell, monkeypatch):
    monkeypatch.delenv(DATA, raising=False)
    run = next(run for run in SamplingRates().runs("smoke") if run.point["on"] == 1 and run.point["cell"] == cell)
    model, task = run.configuration.untrained_model().double(), run.configuration.task
    theirs = discretize.layers_to_torch(model.rnn)
    batch = next(iter(played(task, 2.0, 8, 0)))
    twice = under(model, "euler", IntegratorSettings(substeps=2))
    for network, given, xs in ((model, False, batch.xs), (twice, True, batch.xs.repeat_interleave(2, 0))):
        states = theirs(xs)[0][slice(None) if network is model else slice(1, None, 2)]
        assert_close(answers(network, batch, given), model.read_out(states), rtol=0, atol=1e-12)  # sums in another order


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_a_slice_of_few_steps_is_held_as_long_as_whole_runs_of_its_scale(scale, monkeypatch):
    asked = []
    monkeypatch.setattr(held, "largest_exponents", lambda field, step, dts, intervals: asked.append(intervals) or {})
    study = HeldSymbols()
    run = study.runs(scale)[0]
    training = dataclasses.replace(run.configuration.training, steps=3)
    run = dataclasses.replace(run, configuration=dataclasses.replace(run.configuration, training=training))
    study.measure(run, run.configuration.untrained_model(), Path())
    assert set(asked) == {study.sizes[scale].intervals}
