"""Memory on warped time: measures of networks whose memory is known in closed form, and what the study says of its records."""

import math
from types import SimpleNamespace

import pytest
import torch
from fake_studies import draws, records_of, tables_of

import ctrnn
import discretize
from discretize import SequenceModel
from experiments.models.fields import FieldSettings, built_field
from experiments.reports.spreads import NotEnoughError
from experiments.runs.stopping import StoppedError
from experiments.studies.claims import warped_memory
from experiments.studies.claims.warped_memory import CELLS, LATCH, TRAINED, UNTRAINED, WarpedMemory, held_rows
from experiments.studies.clocks import held_memory
from experiments.studies.clocks.held_memory import (
    ANOTHER,
    SOLVED,
    SYMBOLS,
    Probe,
    answers,
    ends,
    forgotten,
    gates_held,
    in_other_gates,
    latch,
    shut_after,
    slow_modes,
)
from experiments.studies.clocks.learned_clocks import under_other_clocks
from experiments.studies.clocks.oracle import StopAndGo
from experiments.studies.clocks.oracle_clocks import accuracy_held, differences_from_unwarped, symbols_of
from experiments.studies.results import Results

WARP, LEAK = 3, 0.05


class LeakingRegister(ctrnn.VectorField):
    """b' = w (a - b) + LEAK (1 - w) (a - b), a' = x - a: forgets the symbol before exponentially, by no attractor."""

    def __init__(self):
        super().__init__(SYMBOLS + 1, SYMBOLS + 1, 2 * (SYMBOLS + 1))

    def flow(self, projected, h):
        b, a = h.chunk(2, -1)
        w = ((projected * a).sum(-1, keepdim=True) < 0.5).to(h)
        return torch.cat([(w + LEAK * (1 - w)) * (a - b), projected - a], -1)


class Overshooting(ctrnn.VectorField):
    """dh/dt = -k tanh h: at rest at 0 under the equation, at k = 2.5 on a cycle of two under Euler's step of one."""

    def __init__(self, k):
        super().__init__(SYMBOLS + 1, SYMBOLS + 1)
        self.k = k

    def initial_state(self, *batch):
        return super().initial_state(*batch) + 1

    def flow(self, projected, h):
        return -self.k * torch.tanh(h)


class Turning(ctrnn.VectorField):
    """Five pairs of units that turn: a cycle of the equation, and of its steps."""

    def __init__(self):
        super().__init__(SYMBOLS + 1, SYMBOLS + 1)

    def initial_state(self, *batch):
        return super().initial_state(*batch) + 1

    def flow(self, projected, h):
        u, v = h.chunk(2, -1)
        pull = 0.2 * (1 - u * u - v * v)
        return torch.cat([pull * u - v / 4, pull * v + u / 4], -1)


def read(field):
    """A model whose answer is its largest visible unit."""
    model = SequenceModel(discretize.DiscreteRNN(field, step=discretize.Euler()), SYMBOLS + 1).double()
    with torch.no_grad():
        model.read_out.weight.copy_(torch.eye(SYMBOLS + 1))
        model.read_out.bias.zero_()
    return model


def network(cell, seed=0):
    field = built_field(cell, SYMBOLS + 1, FieldSettings(hidden=6), torch.Generator().manual_seed(seed))
    return SequenceModel(discretize.DiscreteRNN(field), SYMBOLS + 1, torch.Generator().manual_seed(seed)).double()


@pytest.fixture(scope="module")
def probe():
    return Probe.of(WARP, 0)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(held_memory, "END", 600)


def first(count, shares):
    return [share for share, _ in zip(shares, range(count), strict=False)]


def test_a_probe_shows_every_pair_twice_after_symbols_that_differ_from_their_neighbours(probe):
    pairs = list(zip(probe.before.tolist(), probe.held.tolist(), strict=True))
    assert sorted(pairs) == sorted(2 * [(a, b) for a in range(1, 10) for b in range(1, 10) if a != b])
    for k, length in enumerate(probe.lengths.tolist()):
        shown = probe.xs[:length, k].argmax(-1)
        runs = torch.unique_consecutive(shown, return_counts=True)
        assert len(runs[0]) == held_memory.CONTEXT + 1
        assert int(runs[0][-1]) == int(probe.before[k])
        assert int(runs[1].max()) <= WARP
        assert int(shown.min()) > 0  # never the dummy


@torch.no_grad()
def test_states_begin_as_those_of_each_sequence_run_alone(probe):
    model = network("gru")
    begun = probe.begun(model.field)
    for k in (0, 17, 100):
        alone = model.rnn(probe.xs[: probe.lengths[k], k : k + 1])[0][-1, 0]
        torch.testing.assert_close(begun[k], alone, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_latch_has_an_attractor_for_each_symbol_before_and_forgets_nothing(probe, soon):
    found = ends(latch(), probe, WARP)
    assert (found["apart"], found["at_the_end"], found["moving"]) == (1, 1, 0)
    assert found["rest_of_flow"] == found["rest_of_map"] == SYMBOLS - 1
    assert forgotten(first(300, answers(latch(), probe))) is None


@torch.no_grad()
def test_scores_that_are_no_numbers_are_right_about_no_symbol(probe):
    """As of states that left all bounds: the largest of scores is the first that is nan."""
    model, (symbols, targets) = network("gru"), symbols_of(0)
    model.read_out.bias[3] = math.nan
    clock = StopAndGo.of(torch.full(symbols.shape[:2], 2))
    symbols = symbols.double()
    shares = [
        *first(3, answers(model, probe)),
        *(row["at_ends"] for row in in_other_gates(model, {}, symbols, targets, clock)),
        *(row["all_samples"] for row in under_other_clocks(model, symbols, targets, clock, (symbols, targets, clock))),
        *(row["accuracy"] for row in differences_from_unwarped(model, symbols, targets, clock, "float64")),
        accuracy_held(model, symbols, targets, 2),
    ]
    assert {*shares} == {0}


@torch.no_grad()
def test_a_register_that_leaks_is_forgotten_when_half_is_left(probe):
    """The first sample shifts it, every further one leaks."""
    assert forgotten(first(60, answers(read(LeakingRegister()), probe))) == 1 + math.ceil(math.log(2) / -math.log1p(-LEAK))


@torch.no_grad()
def test_solved_a_state_follows_its_equation():
    field, advance = LeakingRegister(), held_memory.stepper(*SOLVED)
    h = torch.zeros(1, 2 * (SYMBOLS + 1), dtype=torch.float64)
    h[0, 1] = h[0, SYMBOLS + 1 + 2] = 1  # 1 before, 2 held
    for _ in range(60):
        h = advance(field, torch.eye(SYMBOLS + 1, dtype=torch.float64)[[2]], h)
    assert float(h[0, 1]) == pytest.approx(math.exp(-60 * LEAK), rel=1e-6)


@torch.no_grad()
def test_the_slowest_mode_of_a_register_that_leaks_is_its_leak_and_no_end_is_apart(probe, soon):
    model = read(LeakingRegister())
    found = slow_modes(model.field, probe, WARP)
    assert found["exponent"] == pytest.approx(math.log1p(-LEAK), rel=1e-6)
    assert found["left"] == pytest.approx((1 - LEAK) ** (3 * WARP), rel=1e-6)
    at_end = ends(model, probe, WARP)
    assert (at_end["apart"], at_end["at_the_end"], at_end["rest"]) == (0, 0, 1)


@torch.no_grad()
@pytest.mark.parametrize(("k", "moving"), [(1.0, 0), (2.5, SYMBOLS)])
def test_a_rest_of_the_equation_at_which_steps_go_on_moving_is_told(probe, soon, k, moving):
    found = ends(read(Overshooting(k)), probe, WARP)
    assert (found["moving"], found["moving_by_steps_alone"]) == (moving, moving)
    assert (found["rest_of_flow"], found["rest_of_map"]) == (1, 0 if moving else 1)
    assert found["apart"] == (None if moving else 0)


@torch.no_grad()
def test_what_moves_by_the_equation_too_is_not_told_of_the_steps_alone(probe, soon):
    found = ends(read(Turning()), probe, WARP)
    assert (found["moving"], found["moving_by_steps_alone"]) == (SYMBOLS, 0)


@torch.no_grad()
@pytest.mark.parametrize("cell", CELLS)
def test_gates_of_a_copy_in_the_place_of_the_learned_ones_change_nothing(cell):
    model, (symbols, targets) = network(cell), symbols_of(0)
    clock = StopAndGo.random(8, 16, WARP, torch.Generator().manual_seed(0))
    others = {ANOTHER: network(cell), UNTRAINED: network(cell), "a third": network(cell, 1)}
    rows = in_other_gates(model, others, symbols[:8, :16].double(), targets[:8, :16], clock)
    found = {row["gate"]: row["at_ends"] for row in rows}
    assert found["learned"] == found[ANOTHER] == found[UNTRAINED]
    assert len(found) == 5


@torch.no_grad()
def test_gates_that_are_shut_keep_the_answers_of_a_product_form(probe):
    model = network("gated")
    assert shut_after(model, probe, WARP) == first(WARP, answers(model, probe))[-1]


@torch.no_grad()
def test_quantiles_of_a_gate_that_is_constant_are_its_value(probe):
    field = built_field("gated", SYMBOLS + 1, FieldSettings(hidden=6), torch.Generator()).double()
    for parameter in field.rate.parameters():
        parameter.zero_()
    assert gates_held(field, probe, WARP) == {"gate_low": 0.5, "gate": 0.5, "gate_high": 0.5, "shut": 0.0}


def records(forgets=lambda warp, seed: (3.8 + 0.2 * seed) * warp, accuracy=0.995, times=lambda own: own, seeds=3, **of_network):
    """Records of networks that forget after so long, apart from what is said of them otherwise."""

    def measured(run):
        warp, seed, cell = run.point["warp"], run.point["seed"], run.point["cell"]
        if seed >= seeds:
            return None
        own = forgets(warp, seed)
        lasts = times(own) if "times" in run.point else own
        about = {"forgotten": lasts or 32 * warp, "kept": lasts is None, "kind": "network", "weights": TRAINED}
        more = {
            "apart": 0.1 + 0.01 * seed,
            "at_the_end": 0.1,
            "exponent": -0.3 / warp,
            "gate": 0.4 + 0.01 * seed,
            "shut_after": 0.99,
        }
        more |= {"forgotten_solved": about["forgotten"] * (1.1 + 0.01 * seed), "moved": 0.5, "left": 0.4}
        more |= {"moving": 1, "moving_by_steps_alone": 1, "rest": 2.0, "rest_of_flow": 1.0, "rest_of_map": 1.0, "slow": 3.0}
        more |= {"gate_low": 0.1, "gate_high": 0.9, "shut": 0.0} | of_network
        rows = [about | ({} if "times" in run.point else more)]
        rows += [{"kind": "held", "weights": TRAINED, "samples": n, "right": 0.5} for n in warped_memory.HELD]
        shares = {n: 1.0 - 0.001 * seed if n < 4 else 0.05 for n in warped_memory.TIMES}
        rows += [{"kind": "held by warps", "weights": TRAINED, "by_warp": n, "right": share} for n, share in shares.items()]
        if "times" not in run.point:
            gates = {"learned": 0.99, "constant": 0.3, UNTRAINED: 0.2} | ({ANOTHER: 0.3 + 0.01 * seed} if seed else {})
            rows += [{"kind": "gates", "gate": gate, "at_ends": share} for gate, share in gates.items()]
            if not seed:
                rows.append({"kind": "network", "weights": UNTRAINED, "apart": 0.0, "exponent": -0.5 / warp, "at_the_end": 0.1})
                if cell == CELLS[0]:
                    rows.append({"kind": "network", "weights": LATCH, "apart": 1.0, "at_the_end": 1.0})
        return {"accuracy": accuracy}, rows

    return records_of(WarpedMemory(), "small", measured)


def answered(found):
    """The answers of the gated cell, by the part."""
    parts = WarpedMemory().verdict(Results(found)).parts
    return {part.claim.removeprefix("gated: "): part.answer for part in parts if "gated" in part.claim} | {
        "controls": parts[-1].answer,
        "shut": next(part.answer for part in parts if "shut" in part.claim),
    }


def test_a_transient_in_proportion_to_training_is_all_that_is_claimed():
    found = answered(records())
    assert len(found) == 10
    assert set(found.values()) == {"yes"}


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"forgets": lambda warp, seed: 200 + seed}, "it lasts in proportion to the largest warp"),
        ({"apart": 0.9}, "no attractor holds it"),
        ({"gate": 0.05}, "gates stay open"),
        ({"exponent": -1.0}, "modes are slow while it lasts"),
        ({"forgotten_solved": 4}, "solved, the same weights remember as long"),
        ({"shut_after": 0.5}, "shut"),
    ],
)
def test_each_part_is_refuted_by_what_contradicts_it(changed, part):
    answers = answered(records(**changed))
    assert answers[part] == "no"
    assert list(answers.values()).count("no") == 1


def test_times_of_the_start_that_carry_over_to_memory_refute_that_training_sets_it():
    """A memory that follows the times of the start is longer by 4 from 40 at warp 10, and shorter by 4 from 10 at warp 40."""
    found = records()
    for one in found:
        if "times" in one["point"]:
            one["rows"][0]["forgotten"] *= one["point"]["times"] / one["point"]["warp"]
    assert answered(found)["the times of the start do not set it"] == "no"


def test_where_more_than_a_tenth_never_forgot_the_power_is_not_answered():
    part = "it lasts in proportion to the largest warp"
    assert answered(records(lambda warp, seed: None if seed == 1 else 4 * warp))[part] == "undecided"


def test_networks_that_do_not_solve_their_task_are_left_out_and_a_part_of_the_runs_decides_nothing():
    with pytest.raises(NotEnoughError, match="gated, gru, lstm"):
        WarpedMemory().verdict(Results(records(accuracy=0.98)))
    found = records()
    for one in found[::5]:
        one["measures"] = {"accuracy": 0.5}
        one["rows"] = [row | {"apart": 1.0} if row.get("weights") == TRAINED else row for row in one["rows"]]
    assert answered(found)["no attractor holds it"] == "yes"
    with pytest.raises(NotEnoughError, match="lstm"):
        WarpedMemory().verdict(Results([one for one in found if one["point"]["cell"] != "lstm"]))


@pytest.mark.parametrize("seeds", [1, 3])
def test_tables_and_figures_come_from_any_part_of_the_records(seeds):
    results = Results(records(seeds=seeds))
    assert tables_of(WarpedMemory(), results).count("|") > 100
    assert all(draws(figure, results) for figure in WarpedMemory.figures.values())


@torch.no_grad()
def test_rows_of_a_network_are_of_the_samples_that_the_tables_show(probe, monkeypatch):
    monkeypatch.setattr(warped_memory, "HORIZON", 16)
    monkeypatch.setattr(warped_memory, "TIMES", (1, 16))
    rows = held_rows(latch(), probe, WARP, LATCH)
    assert rows[0] == {"kind": "network", "weights": LATCH, "forgotten": 640, "kept": True}
    assert {row["right"] for row in rows[1:]} == {1.0}
    rows = held_rows(read(LeakingRegister()), probe, WARP, TRAINED)  # forgotten after 15 samples
    assert rows[0] == {"kind": "network", "weights": TRAINED, "forgotten": 15, "kept": False}
    assert [row["right"] for row in rows[1:]] == [1, 0, 0, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("status", ["diverged", "interrupted"])
def test_where_the_network_before_diverges_gates_are_of_no_other_and_the_run_is_no_diverged_one(status, tmp_path, monkeypatch):
    def stopped(*given):
        raise StoppedError("it cannot go on", status, 3287)

    monkeypatch.setattr(warped_memory, "train", stopped)
    study = WarpedMemory()
    run = next(run for run in study.runs("small") if run.point["seed"] == 1)
    if status == "diverged":
        assert study._another(run, tmp_path / run.key) == {}
    else:
        with pytest.raises(StoppedError):
            study._another(run, tmp_path / run.key)
    monkeypatch.setattr(
        "experiments.runs.training.train", lambda *given, **more: SimpleNamespace(measures={}, model=None, seconds=1)
    )
    monkeypatch.setattr(study, "measure", stopped)
    with pytest.raises(StoppedError):  # what it is measured by has stopped, and not its own training
        study.carry_out(run, tmp_path)
