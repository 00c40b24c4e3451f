"""Clocks that stop and go: the oracle's cells, the learned clocks, and what the study says of its records."""

import json
import math
import re

import numpy as np
import pytest
import torch
from fake_studies import draws, records_of, tables_of
from torch import nn

import ctrnn
from discretize import DiscreteRNN
from experiments.models.fields import FieldSettings, built_field
from experiments.models.no_output_recurrence import remove_output_recurrence
from experiments.reports.bands import log_dots
from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import Configuration
from experiments.studies.claims.learned_clocks import BEYOND, CELLS, LearnedClocks
from experiments.studies.claims.stop_and_go import EXACT, StopAndGoStudy
from experiments.studies.clocks.learned_clocks import (
    CLOCKS,
    TIMES,
    at_change,
    elapsed_time,
    evenly,
    mean_of_kind,
    on_held_symbols,
    position,
    under_other_clocks,
)
from experiments.studies.clocks.oracle import OracleCell, StopAndGo, gate_values, played, played_by_gates
from experiments.studies.clocks.oracle_clocks import NO_ORACLE, differences_from_unwarped, symbols_of
from experiments.studies.results import Results
from experiments.tasks.warps.recall import Recall

INPUTS, HIDDEN, BATCH, SYMBOLS = 4, 6, 5, 9


def field_named(name, seed=0):
    return built_field(name, INPUTS, FieldSettings(hidden=HIDDEN), torch.Generator().manual_seed(seed)).double()


def random_clock(most=4, seed=0):
    return StopAndGo.random(SYMBOLS, BATCH, most, torch.Generator().manual_seed(seed))


def random_symbols():
    return torch.randn(SYMBOLS, BATCH, INPUTS)


def test_a_clock_shows_every_symbol_as_often_as_given_and_marks_first_and_last():
    clock = StopAndGo.of(torch.tensor([[3, 1], [1, 4], [3, 2]]))
    assert clock.shown.T.tolist() == [[0, 0, 0, 1, 2, 2, 2], [0, 1, 1, 1, 1, 2, 2]]
    assert clock.first.T.int().tolist() == [[1, 0, 0, 1, 1, 0, 0], [1, 1, 0, 0, 0, 1, 0]]
    assert clock.last.T.int().tolist() == [[0, 0, 1, 1, 0, 0, 1], [1, 0, 0, 0, 1, 0, 1]]
    symbols = torch.arange(6).reshape(3, 2, 1)
    assert clock.play(symbols)[..., 0].T.tolist() == [[0, 0, 0, 2, 4, 4, 4], [1, 3, 3, 3, 3, 5, 5]]
    drawn = StopAndGo.random(4000, 3, 4, torch.Generator().manual_seed(0))
    runs = np.unique(drawn.shown[:, 0].numpy(), return_counts=True)[1][:-1]  # the last may be cut off
    np.testing.assert_allclose(np.bincount(runs)[1:] / len(runs), [0.25] * 4, atol=0.03)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
def test_at_step_1_an_oracle_cell_is_the_cell_of_torch(kind):
    theirs = kind(INPUTS, HIDDEN).double()
    cell, x = OracleCell(ctrnn.from_torch(theirs)), torch.randn(BATCH, INPUTS)
    h, c = torch.randn(2, BATCH, HIDDEN)
    if isinstance(theirs, nn.LSTMCell):
        got, expected = cell(x, torch.ones(BATCH), torch.cat([h, c], -1)), torch.cat(theirs(x, (h, c)), -1)
    else:
        got, expected = cell(x, torch.ones(BATCH), h), theirs(x, h)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-14)


def test_at_step_0_a_product_form_stays_and_half_a_step_is_half_the_way():
    for name in ("gated", "gated-global", "gru", "gated-power"):
        field, x, h = field_named(name), torch.randn(BATCH, INPUTS), torch.randn(BATCH, HIDDEN)
        cell = OracleCell(field)
        assert torch.equal(cell(x, torch.zeros(BATCH), h), h), name  # h + 0 d is h to the bit
        halfway = (h + cell(x, torch.ones(BATCH), h)) / 2
        torch.testing.assert_close(cell(x, torch.full((BATCH,), 0.5), h), halfway, rtol=0, atol=1e-14)
    for name in ("plain", "leaky"):
        with pytest.raises(ValueError, match="has none: its rate is a constant"):
            OracleCell(field_named(name))


def test_an_lstm_that_waits_keeps_c_and_makes_h_anew():
    field, x, state = field_named("lstm"), torch.randn(BATCH, INPUTS), torch.randn(BATCH, 2 * HIDDEN)
    waited = OracleCell(field)(x, torch.zeros(BATCH), state)
    h, c = state.chunk(2, -1)
    assert torch.equal(waited[:, HIDDEN:], c)
    o = torch.sigmoid(x @ field.gates.weight_x.T + field.gates.bias + h @ field.gates.weight_h.T)[:, 3 * HIDDEN :]
    torch.testing.assert_close(waited[:, :HIDDEN], o * torch.tanh(c))
    went, halfway = (OracleCell(field)(x, torch.full((BATCH,), step), state)[:, HIDDEN:] for step in (1.0, 0.5))
    torch.testing.assert_close(halfway, (c + went) / 2)  # the step multiplies i and 1 - f, hence the whole change of c


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in EXACT if name not in ("plain", "leaky")])
def test_cells_are_exact_on_the_clocks_of_the_theorem_and_on_no_other(name):
    field, symbols, clock = field_named(name), random_symbols(), random_clock()
    unwarped = played(field, symbols, torch.ones(SYMBOLS, BATCH))
    with_kernels, _ = DiscreteRNN(field)(symbols)
    torch.testing.assert_close(field.visible(unwarped[1:]), with_kernels, rtol=0, atol=1e-13)
    for goes in ("first", "last"):
        states = played(field, clock.play(symbols), clock.step(goes))
        expected = torch.stack([unwarped[clock.step(goes)[:, b].cumsum(0), b] for b in range(BATCH)], 1)
        if goes in EXACT[name]:  # to the bit: the same batch at every sample, so the same sums
            assert torch.equal(states[1:], expected)
        else:
            assert (states[1:] - expected).abs().max() > 1e-3


def test_a_blind_output_gate_is_the_lstm_of_torch_with_those_weights_zero_and_stays_so_in_training():
    theirs = nn.LSTM(INPUTS, HIDDEN).double()
    field = remove_output_recurrence(ctrnn.from_torch(theirs))
    with torch.no_grad():
        theirs.weight_hh_l0[3 * HIDDEN :] = 0
    xs = random_symbols()
    got, _ = DiscreteRNN(field)(xs)
    torch.testing.assert_close(got, theirs(xs)[0], rtol=0, atol=1e-13)
    before = field.gates.weight_h.detach().clone()
    optimizer = torch.optim.Adam(field.parameters(), 0.1)
    got.square().sum().backward()
    optimizer.step()
    assert not field.gates.weight_h[3 * HIDDEN :].any()
    assert not torch.equal(field.gates.weight_h, before)


@torch.no_grad()
def test_what_is_kept_after_a_symbol_is_e_to_the_minus_elapsed_time():
    field = field_named("gated")
    for name in ("weight_x", "weight_h", "bias"):
        getattr(field.candidate, name).zero_()
    field.rate.weight_h.zero_()  # else the gate would follow the state that decays
    xs, h = torch.randn(1, BATCH, INPUTS).repeat(7, 1, 1), torch.randn(BATCH, HIDDEN)
    states = [h]
    for x in xs:
        states.append(states[-1] + field(x, states[-1]))
    passed = elapsed_time(field, gate_values(field, xs, torch.stack(states[:-1]))).sum(0)
    torch.testing.assert_close(states[-1], h * torch.exp(-passed))
    field, xs = field_named("lstm"), random_symbols()  # of which the forget gate is what is kept
    states = played(field, xs)
    forget = torch.sigmoid(field.gates(xs, states[:-1, :, :HIDDEN])[..., HIDDEN : 2 * HIDDEN])
    torch.testing.assert_close(elapsed_time(field, gate_values(field, xs, states[:-1])), -forget.log())


@torch.no_grad()
def test_a_constant_gate_lets_time_pass_in_proportion_and_units_wait_below_the_root():
    rows = on_held_symbols(field_named("leaky"), random_symbols(), (1, 2, 5))
    assert [row["elapsed"] for row in rows] == pytest.approx([1, 2, 5])
    assert [row["waiting"] for row in rows] == [0, 0, 0]
    field, symbols = field_named("gru"), random_symbols()
    field.rate.weight_h.mul_(8)  # gates that the state shuts and opens
    sums = [
        -(1 - gate_values(field, xs, played(field, xs)[:-1])).log().unflatten(0, (SYMBOLS, -1)).sum(1)[3:].mean((0, 1))
        for xs in (symbols, symbols.repeat_interleave(7, 0))
    ]
    (row,) = on_held_symbols(field, symbols, (7,))
    assert row["elapsed"] == pytest.approx(float(np.median((sums[1] / sums[0]).numpy())))
    assert row["waiting"] == int((sums[1] / sums[0] < 7**0.5).sum())


@torch.no_grad()
def test_gates_at_change_are_means_over_first_and_other_repetitions():
    field, symbols, clock = field_named("gated"), random_symbols(), random_clock()
    found, xs, later = at_change(field, symbols, clock), clock.play(symbols), clock.shown >= 3
    g, first = gate_values(field, xs, played(field, xs)[:-1])[later].numpy(), clock.first[later].numpy()
    assert (found["first"], found["others"]) == (pytest.approx(g[first].mean()), pytest.approx(g[~first].mean()))


@torch.no_grad()
@pytest.mark.parametrize("name", ["gated", "gated-global", "gated-network", "gru", "lstm"])
def test_learned_gates_in_their_own_place_change_nothing_and_constant_ones_are_an_exponential_average(name):
    field, xs = field_named(name), random_symbols()
    states = played(field, xs)
    g = gate_values(field, xs, states[:-1])
    torch.testing.assert_close(played_by_gates(field, xs, g), states, rtol=0, atol=1e-12)
    if name == "gated":
        field.candidate.weight_h.zero_()
        found, kept = played_by_gates(field, xs, torch.full_like(g, 0.3)), torch.zeros(BATCH, HIDDEN)
        for x, h in zip(xs, found[1:], strict=True):
            kept = 0.7 * kept + 0.3 * torch.tanh(x @ field.candidate.weight_x.T + field.candidate.bias)
            torch.testing.assert_close(h, kept)
    if name == "lstm":  # of which no input gate is above 1
        field.gates.bias[HIDDEN : 2 * HIDDEN] = 5.0  # forgets little
        i, f, new, _ = field.gates(xs[0], torch.zeros(BATCH, HIDDEN)).chunk(4, -1)
        written = (i.sigmoid() * 0.9 / (1 - f.sigmoid())).clamp(max=1) * new.tanh()
        assert (i.sigmoid() * 0.9 > 1 - f.sigmoid()).any()
        torch.testing.assert_close(played_by_gates(field, xs[:1], torch.full_like(g[:1], 0.9))[1, :, HIDDEN:], written)
    if name == "gated-network":  # its network goes on, whatever is in the place of the gate
        other = played_by_gates(field, xs, g / 2)
        assert torch.equal(other[..., HIDDEN:], states[..., HIDDEN:])
        assert not torch.equal(other[..., :HIDDEN], states[..., :HIDDEN])


@torch.no_grad()
def test_a_clock_in_the_place_of_the_gate_makes_the_answers_hang_on_symbols_alone():
    # Of h + g (f(x) - h), g = 1 - e^-E at the first sample and then 0, it is that of the symbols without repetitions.
    model = configuration_of("gated", 4).untrained_model().double()
    model.field.candidate.weight_h.zero_()
    model.read_out.bias.zero_()  # or one symbol would be answered whatever the state is
    model.field.rate.weight_x.mul_(3)
    model.field.rate.bias.sub_(2)  # slow, so that the sixth sample of a symbol still changes answers
    chosen = (*symbols_of(1), StopAndGo.of(torch.ones(30, 64, dtype=torch.long)))
    symbols, targets = symbols_of(0)
    clock = StopAndGo.random(*symbols.shape[:2], 8, torch.Generator().manual_seed(0))
    rows = {
        row["gate"]: row for row in under_other_clocks(model, symbols.double(), targets, clock, (chosen[0].double(), *chosen[1:]))
    }
    assert list(rows) == list(CLOCKS)
    aims, later = clock.play(targets), clock.shown >= 3
    shares = {}
    for time in TIMES:
        gates = torch.full((*symbols.shape[:2], 4), 1 - math.exp(-time))
        once = played_by_gates(model.field, symbols.double(), gates)
        right = model.read_out(once[1:][clock.shown, torch.arange(symbols.shape[1])]).argmax(-1) == aims
        shares[float(right[later].double().mean())] = float(right[later & clock.last].double().mean())
    found = rows["goes at the first"]
    nearest = min(shares, key=lambda share: abs(share - found["all_samples"]))
    assert (found["all_samples"], found["at_ends"]) == pytest.approx((nearest, shares[nearest]))
    learned = model(clock.play(symbols)).argmax(-1) == aims
    assert rows["learned"]["all_samples"] == pytest.approx(float(learned[later].double().mean()), abs=1e-3)  # near ties
    places, even = position(clock), evenly(clock)
    for b in range(5):
        shown = clock.shown[:, b].tolist()
        assert places[:, b].tolist() == [shown[:k].count(shown[k]) for k in range(len(shown))]
        assert even[:, b].tolist() == pytest.approx([1 / shown.count(one) for one in shown])
    states = played(model.field, clock.play(symbols).double(), places < 5)
    assert torch.equal(states[1:][places >= 5], states[:-1][places >= 5])
    xs = clock.play(symbols).double()
    g = gate_values(model.field, xs, played(model.field, xs)[:-1])
    pairs = torch.stack([xs.argmax(-1), aims], -1).flatten(0, 1)  # a symbol after the same one
    kind = torch.unique(pairs, dim=0, return_inverse=True)[1].reshape(aims.shape)
    for gate, run in (("waits after 5", states), ("by two symbols", played_by_gates(model.field, xs, mean_of_kind(g, kind)))):
        right = model.read_out(run[1:]).argmax(-1) == aims
        assert rows[gate]["all_samples"] == pytest.approx(float(right[later].double().mean()), abs=1e-3)


def test_a_mean_of_a_kind_is_that_of_its_samples():
    values, kind = torch.randn(4, 3, 2), torch.tensor([[0, 2, 2], [0, 0, 5], [2, 5, 5], [0, 0, 0]])
    found = mean_of_kind(values, kind)
    for k in (0, 2, 5):
        torch.testing.assert_close(found[kind == k], values[kind == k].mean(0).expand(int((kind == k).sum()), -1))


def configuration_of(name, warp):
    task = Recall(length=8) if warp == 1 else Recall("variable", warp=warp, length=8)
    return Configuration(task, name, "euler", FieldSettings(hidden=4))


def made_records(**instead):
    """As the theorem has it; `instead` gives a cell another difference on its first clock."""

    def measured(run):
        cell, exact = run.point["cell"], EXACT[run.point["cell"]]
        clocks = ("first", "last", NO_ORACLE) if cell not in ("plain", "leaky") else (NO_ORACLE,)
        off = {clock: 0.0 if clock in exact else 0.5 for clock in clocks}
        off[clocks[0]] = instead.get(cell.replace("-", "_"), off[clocks[0]])
        shared = {"differing": 0.0, "accuracy": 0.9, "unwarped_accuracy": 0.9}
        return {"accuracy": 0.9}, [
            {**shared, "clock": clock, "dtype": dtype, "largest": off[clock]}
            for clock in clocks
            for dtype in ("float32", "float64")
        ]

    return records_of(StopAndGoStudy(), "smoke", measured)


def test_the_verdict_on_stopping_clocks_is_reproduced_where_all_cells_are_exact():
    verdict = StopAndGoStudy().verdict(Results(made_records()))
    assert verdict.word == "reproduced"
    assert "9 of the 9" in verdict.sentence
    with pytest.raises(NotEnoughError, match="plain"):
        StopAndGoStudy().verdict(Results(made_records()[:-1]))


@pytest.mark.parametrize("instead", [{"gated": 1e-16}, {"lstm": 0.0}, {"plain": 1e-6}, {"gru": math.nan}])
def test_one_cell_that_differs_where_it_should_not_makes_the_verdict_on_stopping_clocks_partly(instead):
    assert StopAndGoStudy().verdict(Results(made_records(**instead))).word == "partly"


def test_a_cell_without_a_step_may_do_what_it_likes():
    records = made_records()
    for row in records[0]["rows"]:
        if row["clock"] == NO_ORACLE:
            row["largest"] = 0.0
    assert StopAndGoStudy().verdict(Results(records)).word == "reproduced"


def learned_records(elapsed, constant=0.9, accuracy=0.999, instead=None, otherwise=None):
    """As trained gates have it that take `elapsed` times as long for the most repetitions as for one; `otherwise` of them, if
    they were trained otherwise."""
    kept = dict.fromkeys(CLOCKS, 0.2) | {"learned": 0.999} | (instead or {})

    def measured(run):
        other = "training" in run.point
        if other and otherwise is None:
            return None
        leaky = run.point["cell"] == "leaky"
        held = [{"kind": "held", "repeats": n, "waiting": 0, "elapsed": 1.0} for n in (1, 5)]
        held[1]["elapsed"] = otherwise if other else elapsed
        gates = [{"kind": "instead", "gate": gate, "at_ends": kept[gate]} for gate in (CLOCKS[:1] if leaky else CLOCKS)]
        beyond = [{"kind": "beyond", "times": times, "at_ends": 1.0} for times in BEYOND]
        return {"accuracy": constant if leaky else accuracy}, [*held, *gates, *beyond]

    return of_two_seeds(records_of(LearnedClocks(), "smoke", measured))


def of_two_seeds(records):
    """Each once more: of runs that are all alike, the interval has no width."""
    return [{**one, "key": f"{one['key']}{k}", "point": {**one["point"], "seed": k}} for one in records for k in (0, 1)]


def test_gates_are_a_clock_if_time_stands_while_a_symbol_is_repeated_and_a_clock_does_as_well_and_none_does_not():
    study = LearnedClocks()

    def judged(*made, **instead):
        verdict = study.verdict(Results(learned_records(*made, instead=instead)))
        return verdict.word, [part.answer for part in verdict.parts]

    clock = {"goes at the first": 0.98}
    assert judged(4.9) == ("not reproduced", ["no"] * 10)
    assert judged(4.9, 0.9966) == ("undecided", [])  # the task does not ask for one
    assert judged(4.9, 0.9, 0.98) == ("undecided", [])  # and is not solved
    assert judged(1.2, 0.9, **clock) == ("reproduced", ["yes"] * 10)
    assert judged(2.2, 0.9, **{"1/n": 0.98})[0] == "reproduced"  # below the root of 5, and by the other reading of the clock
    assert judged(2.3, 0.9, **clock) == ("partly", ["no", "yes"] * 5)
    assert judged(1.2, 0.9, **clock, constant=0.96)[1] == ["yes", "no"] * 5
    with pytest.raises(NotEnoughError, match="lstm"):
        study.verdict(Results(learned_records(1.2)[:-2]))
    once = [one for one in learned_records(1.2, instead=clock) if one["point"]["seed"] == 0]
    assert {part.answer for part in study.verdict(Results(once)).parts} == {"undecided"}
    apart = learned_records(1.2, instead=clock)
    for one in apart:
        power = 1 + 2 * one["point"]["seed"]  # p is 0.11 and 0.34
        one["rows"] = [{**row, "elapsed": row.get("elapsed", 1.0) ** power} for row in one["rows"]]
    assert [part.answer for part in study.verdict(Results(apart)).parts] == ["undecided", "yes"] * 5


def test_other_trainings_are_asked_the_same_each_beside_leaky_cells_that_were_trained_so():
    study, records = LearnedClocks(), learned_records(4.9, instead={"goes at the first": 0.98}, otherwise=1.2)
    verdict = study.verdict(Results(records))
    assert [part.answer for part in verdict.parts] == ["no", "yes"] * 5 + ["yes", "yes"] * 12
    assert "in 5 cases. The gate is a clock, p being 0.987 to 0.987: no in 5." in verdict.sentence
    others = "of 0.003, cells with gates solve the task in 12 cases. The gate is a clock, p being 0.113 to 0.113: yes in 12 ("
    assert others in verdict.sentence
    alone = [one for one in records if one["point"]["cell"] != "leaky" or "training" not in one["point"]]
    assert len(study.verdict(Results(alone)).parts) == 10
    table = study.tables[2].markdown(Results([one for one in records if one["point"]["cell"] == "gru"]))
    assert re.findall(r"^\| (at.*?) \| 5 \| GRU \| 0.999 \| (.*?) \|", table, re.MULTILINE) == [
        ("at every sample, chrono", "0.987"),
        ("at ends, chrono", "0.113"),
        ("at every sample, no chrono", "0.113"),
        ("at ends, no chrono", "0.113"),
        ("at every sample, chrono, rate 0.003", "0.113"),
    ]


@pytest.mark.parametrize(
    ("study", "warps", "cells"), [(StopAndGoStudy(), {1}, EXACT), (LearnedClocks(), {10, 20, 40, 80}, CELLS)]
)
def test_cells_learn_on_the_task_of_their_study(study, warps, cells):
    runs = [run.configuration for run in study.runs("small")]
    assert {one.task.warp for one in runs} == warps
    assert {one.field for one in runs} == set(cells)


def measured_by(study, folder, *wanted):
    """Records of untrained models of the smoke scale."""
    torch.set_num_threads(1)  # before `_same_start`, which is each test's

    def measured(run):
        if run.key not in wanted:
            return None
        rows = study.measure(run, run.configuration.untrained_model(), folder)
        return {"accuracy": 0.5}, json.loads(json.dumps(rows, allow_nan=False))

    return records_of(study, "smoke", measured)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return measured_by(StopAndGoStudy(), tmp_path_factory.getbasetemp(), "gated-0", "lstm-blind-output-0", "plain-0")


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for module in ("clocks.oracle_clocks", "claims.learned_clocks"):
            patch.setattr(f"experiments.studies.{module}.SYMBOLS", 10)  # of 30
        return measured_by(LearnedClocks(), tmp_path_factory.getbasetemp(), "5-gru-0", "5-leaky-0")


def test_what_is_measured_of_a_model_is_exact_in_both_dtypes_where_the_theorem_says_so(measured):
    found = {(r["point"]["cell"], row["clock"], row["dtype"]): row for r in measured for row in r["rows"]}
    for dtype in ("float32", "float64"):
        for at in (("gated", "first"), ("gated", "last"), ("lstm-blind-output", "first")):
            assert found[*at, dtype]["largest"] == found[*at, dtype]["differing"] == 0
            # Every symbol is answered as it is unwarped, but the last ones, which a clock may not have come to.
            assert found[*at, dtype]["accuracy"] == pytest.approx(found[*at, dtype]["unwarped_accuracy"], abs=0.05)
        for at in (("gated", NO_ORACLE), ("lstm-blind-output", "last"), ("plain", NO_ORACLE)):
            assert found[*at, dtype]["largest"] > 1e-3
    assert ("plain", "first", "float64") not in found


@pytest.mark.parametrize("part", [slice(None), slice(-1, None)], ids=["all", "the last"])
@pytest.mark.parametrize(("study", "name"), [(StopAndGoStudy(), "measured"), (LearnedClocks(), "learned")])
def test_tables_and_figures_come_from_any_part_of_the_records(study, name, part, request):
    records = request.getfixturevalue(name)[part]
    assert tables_of(study, Results(records)).count("|") > 20
    constant = {record["point"]["cell"] for record in records} == {"leaky"}  # whose line is known beforehand
    for figure in study.figures.values():
        assert (draws(figure, Results(records)) is None) == constant


def test_the_line_of_a_run_says_how_far_it_is_off_on_each_clock(measured):
    said = {record["point"]["cell"]: StopAndGoStudy().headline(record) for record in measured}
    assert said["gated"].startswith("off by 0 (first), 0 (last), ")
    assert said["plain"].count("(") == 1  # without a step it has no other clock


def test_tables_say_where_states_are_exact_to_the_bit_and_that_time_passes_in_proportion(measured, learned):
    assert "| gated | first | exact | 0, every bit |" in tables_of(StopAndGoStudy(), Results(measured))
    table = tables_of(LearnedClocks(), Results(learned))
    assert "| repetitions | cell | accuracy | g, first | g, others | p | waiting units | 1 × as long |" in table
    assert re.search(r"^\| 5 \| leaky \| 0.500 \| (\S+) \| \1 \| 1(\.00)? \| 0 \|", table, re.MULTILINE)
    assert "| repetitions | cell | learned | goes at the first | 1/n | constant |" in table


def test_the_unwarped_trajectory_is_played_at_the_ends_when_nothing_is_told():
    # With every symbol shown once, a step that is always 1 and no step are the same.
    model = configuration_of("gated", 1).untrained_model()
    symbols, targets = symbols_of(0)
    once = StopAndGo.of(torch.ones(symbols.shape[:2], dtype=torch.long))
    with torch.no_grad():
        rows = differences_from_unwarped(model, symbols, targets, once, "float32")
    assert {row["clock"] for row in rows} == {"first", "last", NO_ORACLE}
    assert all(row["largest"] < 1e-6 and row["accuracy"] == row["unwarped_accuracy"] for row in rows)


def test_exact_zeros_have_a_place_of_their_own_on_a_logarithmic_axis():
    figure = log_dots({"a": {"x": 0.0, "y": 1e-9}, "b": {"x": 0.3, "y": math.inf}}, "label")
    (ax,) = figure.axes
    assert ax.get_xticklabels()[0].get_text() == "0 exactly"
    drawn = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert min(drawn) == ax.get_xticks()[0] < -9
    with pytest.raises(NotEnoughError):
        log_dots({}, "label")
