"""What a step puts into a network, on equations whose rhythm is known: a + x - |h|^2 outwards, turned by w."""

import cmath
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.stats import t as student
from torch.testing import assert_close

import ctrnn
import discretize.steps
from experiments.models.integrators import INTEGRATORS
from experiments.reports.spreads import NotEnoughError
from experiments.seeds import generator
from experiments.studies.claims.time_steps import measures, prediction
from experiments.studies.claims.time_steps.design import TASKS, DesignCell, networks, rate_of
from experiments.studies.claims.time_steps.page import PAGE, TABLES, HeldInput, text
from experiments.studies.claims.time_steps.prediction import eigenvalue, predicted_r2
from experiments.studies.claims.time_steps.rates import StepRates
from experiments.studies.claims.time_steps.study import of_others
from experiments.studies.claims.time_steps.tables import how_many, lost
from experiments.studies.claims.time_steps.tutorial import trained_tutorial
from experiments.studies.registry import study_named
from experiments.studies.report import report_of
from experiments.studies.results import Results
from experiments.studies.study import Sizes
from experiments.tasks.cognitive import Context, FlipFlop, ReadySetGo, Rhythm

ZERO = torch.zeros(1, dtype=torch.float64)


class Turning(ctrnn.VectorField):
    """dh/dt = (a + x - |h|^2) h, turned by w: a circle of |h|^2 = a + x where that is above 0, else rest."""

    def __init__(self, a, w):
        super().__init__(1, 2)
        self.a, self.w = a, w

    def flow(self, projected, h):
        turned = h.flip(-1) * torch.tensor([-self.w, self.w], dtype=h.dtype)
        return (self.a + projected - h.square().sum(-1, keepdim=True)) * h + turned


class Linear(ctrnn.VectorField):
    """dh/dt = A h."""

    def __init__(self, matrix):
        super().__init__(1, len(matrix))
        self.matrix = matrix

    def flow(self, projected, h):
        return h @ self.matrix.mT + 0 * projected


def of_two(field):
    """A model of two units that reads out the first."""
    model = discretize.SequenceModel(discretize.DiscreteRNN(field), 1).double()
    with torch.no_grad():
        model.read_out.weight.copy_(torch.tensor([[1.0, 0.0]]))
        model.read_out.bias.zero_()
    return model.requires_grad_(False)


def euler_radius(a, w, dt):
    return math.sqrt(a + (1 - math.sqrt(1 - (dt * w) ** 2)) / dt)


# The prediction --------------------------------------------------------------------------------------------------------------


@given(st.floats(0.05, 1.0), st.floats(4.0, 40.0))
def test_the_mode_of_euler_is_that_of_the_circle(dt, period):
    turned = 2 * math.pi * dt / period
    assert eigenvalue(discretize.Euler(), dt, period) == pytest.approx((cmath.exp(1j * turned) - 1) / dt, abs=1e-10)


@pytest.mark.parametrize(
    "name", sorted(set(INTEGRATORS) - {"exact", "symplectic-euler", *(n for n in INTEGRATORS if "maruyama" in n)})
)
def test_a_predicted_mode_turns_under_its_step_and_keeps_its_size(name):
    step = getattr(discretize.steps, INTEGRATORS[name])
    if issubclass(step, discretize.StochasticStep):
        pytest.skip("for noise")
    rate = eigenvalue(step(), 0.25, 12.0)
    found = step().stability(torch.tensor(0.25 * rate, dtype=torch.complex128), torch.tensor(0.25, dtype=torch.float64))
    assert complex(found) == pytest.approx(cmath.exp(2j * math.pi * 0.25 / 12), abs=1e-9)


@pytest.fixture
def few_periods(monkeypatch):
    """A mean over 11 periods in place of 201."""
    monkeypatch.setattr(prediction, "PERIODS", 11)


@pytest.mark.usefixtures("few_periods")
def test_what_a_rhythm_loses_falls_with_dt_and_with_the_order_of_the_step():
    task = Rhythm()
    euler = [predicted_r2("euler", dt, task) for dt in (1.0, 0.5, 0.2, 0.1, 0.01)]
    assert euler == sorted(euler)
    assert euler[-1] > 0.999
    assert predicted_r2("euler", 1.0, task) < predicted_r2("heun", 1.0, task) < predicted_r2("runge-kutta4", 1.0, task)
    assert predicted_r2("exact", 1.0, task) == 1.0


@pytest.mark.usefixtures("few_periods")
def test_the_predicted_score_is_that_of_a_network_of_two_linear_units():
    # One period, which the task draws alone: a field with the predicted eigenvalue, run by the step and exactly.
    task = Rhythm(shortest=8.0, longest=8.0, dt=0.5)
    rate = eigenvalue(discretize.Euler(), 0.5, 8.0)
    matrix = torch.tensor([[rate.real, rate.imag], [-rate.imag, rate.real]], dtype=torch.float64)
    field, t = Linear(matrix), 0.5 * torch.arange(1, 81, dtype=torch.float64)
    start = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    stepped = discretize.DiscreteRNN(field, dt=0.5)(torch.zeros(80, 1, 1, dtype=torch.float64), start[None])[0][:, 0, 0]
    assert_close(stepped, torch.sin(2 * math.pi / 8 * t))
    solved = torch.tensor(np.array([(expm(matrix.numpy() * float(s)) @ start[0].numpy())[0] for s in t]))
    targets = torch.sin(2 * math.pi / 8 * t)
    score = 1 - (solved - targets).square().mean() / (targets - targets.mean()).square().mean()
    assert predicted_r2("euler", 0.5, task) == pytest.approx(float(score), abs=1e-9)


def test_the_fastest_mode_is_that_of_the_matrix():
    matrix = torch.diag(torch.tensor([-1.0, -3.0, 0.5], dtype=torch.float64))
    assert measures.fastest(Linear(matrix), ZERO, torch.randn(5, 3, dtype=torch.float64)) == pytest.approx(3.0)


def test_euler_makes_no_unstable_rest_point_stable():
    torch.manual_seed(2)
    made = {"made stable": 0, "made unstable": 0}
    for _ in range(3):
        field = ctrnn.plain(1, 6).double().requires_grad_(False)
        with torch.no_grad():
            field.candidate.weight_h.mul_(6)
        at = measures.resting_points(field, ZERO, torch.randn(8, 6, dtype=torch.float64))
        row = measures.rests(field, ZERO, at, discretize.Euler(), 0.8)
        assert row.get("matched", 0) == row["rests"]
        for name in made:
            made[name] += row.get(name, 0)
    assert made["made stable"] == 0 < made["made unstable"]


# What is measured ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "w", "dt"), [(0.2, 1.0, 0.4), (-0.15, 1.0, 0.4)])
def test_amplitude_and_period_are_those_of_the_circle_by_the_step_and_exactly(a, w, dt):
    model, h = of_two(Turning(a, w)), torch.full((2, 2), 0.2, dtype=torch.float64)
    own = measures.settled(model.field, model.read_out, ZERO, h, discretize.Euler(), dt, (36.0, 31.0))
    exact = measures.settled(model.field, model.read_out, ZERO, h, None, dt, (36.0, 31.0))
    assert own.amplitude == pytest.approx(euler_radius(a, w, dt), rel=0.02)  # not of whole turns
    # Euler's step turns by asin(dt w) where it keeps the size.
    assert own.period == pytest.approx(2 * math.pi / math.asin(dt * w) * dt, rel=1e-3)
    if a > 0:
        assert exact.amplitude == pytest.approx(math.sqrt(a), rel=0.02)
        assert exact.period == pytest.approx(2 * math.pi / w, rel=1e-3)
    else:
        assert exact.amplitude < 2e-3
        assert math.isnan(exact.period)


def test_the_modified_equation_of_a_linear_field_is_its_series():
    torch.manual_seed(0)
    matrix = torch.randn(4, 4, dtype=torch.float64)
    right_hand_side, h = measures.modified(Linear(matrix), ZERO, 0.1), torch.randn(3, 4, dtype=torch.float64)
    series = matrix - 0.05 * matrix @ matrix + 0.01 / 3 * matrix @ matrix @ matrix
    assert_close(right_hand_side(ZERO, h), h @ series.mT, rtol=1e-7, atol=1e-7)


def test_the_step_of_euler_is_the_flow_of_the_modified_equation_to_third_order():
    torch.manual_seed(1)
    field, x = ctrnn.plain(1, 5).double().requires_grad_(False), torch.tensor([0.3], dtype=torch.float64)
    with torch.no_grad():
        field.candidate.weight_h.mul_(4)
    h, off = torch.randn(2, 5, dtype=torch.float64), []
    for dt in (0.2, 0.1):
        stepped = discretize.Euler()(field, x.expand(2, 1), h, dt)
        flow = discretize.integrate(
            measures.modified(field, x, dt), None, h, torch.tensor([0.0, dt], dtype=torch.float64), rtol=1e-11, atol=1e-12
        )
        off.append(float((stepped - flow.hs[-1]).abs().max()))
    assert math.log2(off[0] / off[1]) == pytest.approx(4, abs=0.3)  # of one step


def test_a_rhythm_that_the_step_puts_in_has_its_rest_point_and_where_it_begins_to_repel(monkeypatch):
    # From 0.05 the equation falls below what counts as moving in 45 time constants, and then six turns are looked at.
    monkeypatch.setattr(measures, "settled", partial(measures.settled, times=(45.0, 37.0)))
    a, w, dt = -0.05, 1.0, 0.4
    model, h = of_two(Turning(a, w)), torch.tensor([[0.04, 0.03], [-0.03, 0.04]], dtype=torch.float64)
    at = measures.resting_points(model.field, ZERO, h)
    assert_close(at, torch.zeros(1, 2, dtype=torch.float64), atol=1e-8, rtol=0.0)
    assert measures.rests(model.field, ZERO, at, discretize.Euler(), dt) == {
        "rests": 1, "stable": 1, "matched": 1, "stable under the step": 0, "made stable": 0, "made unstable": 1
    }  # fmt: skip
    row = measures.rhythms(model, discretize.Euler(), dt, ZERO, h, at)
    begins = 2 * -a / (a * a + w * w)
    assert row["from dt"] == pytest.approx(begins, rel=1e-6)
    assert row["passed"] == "Neimark-Sacker"
    assert row["growth"] == pytest.approx(a)
    assert (row["a"], row["w"]) == pytest.approx((a, w))
    assert row["stepped a"] == pytest.approx(math.log(abs(1 + dt * complex(a, w))) / dt)
    assert (row["moving"], row["exact moving"]) == (1.0, 0.0)
    assert row["modified amplitude"] == pytest.approx(row["amplitude"], rel=0.05)
    assert row["exact period"] is None


class Twice(ctrnn.VectorField):
    """Two circles beside one another."""

    def __init__(self, one, other):
        super().__init__(1, 4)
        self.one, self.other = one, other

    def flow(self, projected, h):
        return torch.cat([self.one.flow(projected, h[..., :2]), self.other.flow(projected, h[..., 2:])], -1)


def test_of_two_rhythms_the_rest_point_repels_from_the_least_dt_on(monkeypatch):
    moving = measures.SettledOutputs(torch.randn(60, 2), torch.ones(2), 0.4, torch.zeros(2, 4), torch.zeros(2, 4))
    monkeypatch.setattr(measures, "settled", lambda *given: moving)
    model = discretize.SequenceModel(discretize.DiscreteRNN(Twice(Turning(-0.05, 1.0), Turning(-0.1, 1.0))), 1).double()
    h = torch.zeros(2, 4, dtype=torch.float64)
    row = measures.rhythms(model.requires_grad_(False), discretize.Euler(), 0.4, ZERO, h, h[:1], smooth=False)
    assert row["from dt"] == pytest.approx(2 * 0.05 / (0.05**2 + 1), rel=1e-6)  # of the other one 0.198
    assert (row["a"], abs(row["w"])) == (pytest.approx(-0.05), pytest.approx(1))


def test_scores_are_those_of_the_task_by_each_step():
    torch.manual_seed(3)
    task, model = FlipFlop(length=6, dt=0.5), discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.plain(3, 5)), 3)
    model = model.under(discretize.DiscreteRNN(model.field, discretize.Heun()))
    found = measures.scores(model, task, 16, 0)
    batch = task.batch(16, generator(0, "scores"), "test")
    with torch.no_grad():
        stepped = model.read_out(discretize.DiscreteRNN(model.field, discretize.Heun())(batch.xs, ts=batch.ts)[0])
        exact = model.read_out(discretize.ContinuousRNN(model.field, rtol=1e-7, atol=1e-8)(batch.xs, ts=batch.ts)[0])
    assert found["own"] == pytest.approx(task.measures(stepped, batch)["accuracy"])
    assert found["exact"] == pytest.approx(task.measures(exact, batch)["accuracy"], abs=0.01)
    assert set(found) == {"own", "exact", "euler 1", "euler 0.5", "euler 0.2", "euler 0.1"}


def test_the_size_of_a_rhythm_is_the_deviation_of_the_exact_output_over_that_of_the_target():
    task, model = Rhythm(length=6, dt=0.5), discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.plain(1, 5)), 1)
    batch = task.batch(8, generator(0, "scores"), "test")
    with torch.no_grad():
        exact = model.under(discretize.ContinuousRNN(model.field, rtol=1e-7, atol=1e-8))(batch.xs, ts=batch.ts)
    size = (exact.std(0) / batch.targets.std(0)).mean()
    assert measures.scores(model, task, 8, 0)["size"] == pytest.approx(float(size), rel=1e-3)


def test_a_trace_is_of_four_samples_a_time_constant_as_trained_and_exactly():
    task, model = Rhythm(dt=0.1), discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.plain(1, 5), dt=0.1), 1).double()
    torch.nn.init.normal_(model.field.candidate.bias)
    found = measures.trace(model, task, 3.0)
    ts = 0.1 * torch.arange(31, dtype=torch.float64)
    with torch.no_grad():
        stepped = model(torch.zeros(30, 1, 1), ts=ts)[1::2, 0, 0]
        exact = model.under(discretize.ContinuousRNN(model.field, rtol=1e-7, atol=1e-8))
        solved = exact(torch.zeros(12, 1, 1), ts=0.25 * torch.arange(13, dtype=torch.float64))[:, 0, 0]
    assert found["t"] == pytest.approx([0.2 * k for k in range(1, 16)])
    assert found["stepped"] == pytest.approx(stepped.tolist(), abs=1e-4)  # of four decimals
    assert found["exact t"] == pytest.approx([0.25 * k for k in range(1, 13)])
    assert found["solved"] == pytest.approx(solved.tolist(), abs=2e-4)


def test_inputs_are_held_as_trials_hold_them():
    assert [float(x) for x in measures.held_inputs(Rhythm()).values()] == list(measures.HELD)
    assert {name: x.tolist() for name, x in measures.held_inputs(Context()).items()} == {
        "start": [1, 0, 0, 0, 0], "end": [0, 0, 0, 0, 0]
    }  # fmt: skip
    for task in (FlipFlop(), ReadySetGo()):
        assert all(not x.any() for x in measures.held_inputs(task).values())


def test_every_network_has_a_rate_from_the_table_and_none_twice():
    cells = list(networks(TASKS))
    assert len(cells) == len(set(cells))
    assert {network.task for network in cells} == set(TASKS)
    assert rate_of(DesignCell("rhythm", "tanh", "euler", 0.1)) == 3e-3


def test_the_network_of_the_tutorial_is_read_as_it_was_trained():
    task = Rhythm(length=4, dt=0.5)
    model, found = trained_tutorial(task, 6, 3, 4, 0)
    again, same = trained_tutorial(task, 6, 3, 4, 0)
    assert found == same
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    batch = task.batch(4, generator(0, "held out"), "test")
    with torch.no_grad():
        assert task.measures(model(batch.xs, ts=batch.ts), batch)["loss"] == pytest.approx(found["loss"], rel=1e-4)


# The study -------------------------------------------------------------------------------------------------------------------


def test_a_loss_is_that_of_pairs_with_the_interval_of_student():
    rows = pd.DataFrame({"own": [0.9, 0.8, 1.0, 0.7], "exact": [0.7, 0.7, 0.9, 0.6]})
    off = np.array([0.2, 0.1, 0.1, 0.1])
    half = student.ppf(0.975, 3) * off.std(ddof=1) / 2
    found = lost(rows)
    assert (found.mean, found.low, found.high) == pytest.approx((off.mean(), off.mean() - half, off.mean() + half))
    assert lost(rows[:1]).low == -math.inf
    unlearned = pd.DataFrame({"own": [0.5], "exact": [0.1]})
    assert lost(pd.concat([rows, unlearned])) == found
    assert how_many(pd.concat([rows, unlearned])) == "4 of 5"
    assert math.isnan(lost(unlearned).mean)
    alike = lost(rows[1:3].assign(own=1.0, exact=1.0))
    assert (alike.mean, alike.low, alike.high) == (0.0, 0.0, 0.0)


def test_other_tasks_are_undecided_where_one_is_and_none_loses():
    def rows(task, *exact):
        return pd.DataFrame({"task": task, "own": [1.0] * len(exact), "exact": exact})

    kept, open_, lost_ = rows("context", 1.0, 0.999), rows("decision", 1.0, 0.9), rows("flip-flop", 0.9, 0.9001)
    assert of_others(kept, 0.2).answer == "yes"
    assert of_others(pd.concat([kept, open_]), 0.2).answer == "undecided"
    assert of_others(pd.concat([kept, open_, lost_]), 0.2).answer == "no"


def test_no_size_is_foretold_where_the_rest_point_is_stable_in_the_equation_and_under_the_step():
    rows = {"amplitude": [1.0], "exact amplitude": [0.5], "a": [-0.04], "stepped a": [-0.001]}
    assert HeldInput(pd.DataFrame(rows)).sizes == ("0.50", "0.00", "0.50")
    assert HeldInput(pd.DataFrame(rows | {"a": [0.04], "stepped a": [0.16]})).sizes == ("0.50", "0.50", "0.00")


def test_the_page_of_time_steps_is_what_its_tables_give():
    assert text(report_of(TABLES)) == PAGE.read_text(encoding="utf-8"), "python -m experiments.studies.claims.time_steps.page"


def left_as_predicted(network):
    loses = network.task == "rhythm" and network.step not in ("runge-kutta4", "exact")
    return 0.9 if loses else 0.999


def test_rates_are_a_choice_of_one_seed_and_have_no_verdict_at_any_time():
    point = POINTS[0] | {"seed": 0}
    about = {"key": "", "measures": {}, "configuration": {}, "diverged": None}
    records = [{**about, "point": {**point, "rate": rate}, "rows": [{"loss": rate}]} for rate in (0.01, 0.003)]
    found = StepRates().verdict(Results(records))
    assert (found.heading, found.final) == ("No verdict", True)
    assert "1 at 0.003" in found.sentence


def test_the_verdict_on_steps_is_that_every_part_holds_of_records_as_predicted():
    verdict = STUDY.verdict(found_by(left_as_predicted, apart=1e-4))
    assert verdict.word == "reproduced", verdict.sentence
    # Of two seeds the interval is 12.7 times the deviation of their mean, 0.0005, to both sides.
    row = "| rhythm | Euler | 1 | 1 | 0.9005 (0.9000–0.9010) | 2 of 2 | 0.099 (0.093 to 0.106) | 0.900 |"
    assert row in STUDY.tables[0].markdown(found_by(left_as_predicted))
    with pytest.raises(NotEnoughError):
        STUDY.verdict(Results([]))


def test_rhythms_that_differ_too_much_do_not_decide_what_a_linear_oscillator_keeps():
    parts = STUDY.verdict(found_by(left_as_predicted, apart=0.02)).parts
    assert {part.answer for part in parts if "linear oscillator" in part.claim} == {"undecided"}


@pytest.mark.parametrize(
    ("exact", "held", "claim"),
    [
        (lambda network: 0.999, {}, "lose R²"),
        (lambda network: 0.5 if network.task == "rhythm" else 0.999, {}, "linear oscillator"),
        (lambda network: left_as_predicted(network) if network.task == "rhythm" else 0.9, {}, "no other task loses"),
        (left_as_predicted, {"made stable": 1}, "no unstable fixed point stable"),
        (left_as_predicted, {"modified amplitude": 0.9}, "modified equation"),
    ],
    ids=["nothing is lost", "more is lost than predicted", "others lose", "made stable", "another amplitude"],
)
def test_each_part_of_the_verdict_on_steps_can_fail(exact, held, claim):
    answers = {part.claim: part.answer for part in STUDY.verdict(found_by(exact, apart=1e-4, **held)).parts}
    assert {answer for said, answer in answers.items() if claim in said} == {"no"}


STUDY = study_named("ctrnn-steps")
POINTS = STUDY.points(Sizes(tasks=TASKS, seeds=2, more=2))


def found_by(exact, apart=1e-3, **held):
    """Made-up records of two seeds: 1 as trained, and so much exactly."""

    def rows(network, seed):
        left = exact(network) + (apart if seed else 0)
        score = {"own": 1.0, "exact": left, "cost": 1.0, **{f"euler {dt:g}": left for dt in measures.DTS}}
        if network.task == "rhythm":
            score["predicted"] = 0.9
        at_rest = {"rests": 2, "stable": 2, "stable under the step": 1, "made unstable": 1, "made stable": 0}
        moving = {"amplitude": 1.0, "modified amplitude": 1.0, "exact amplitude": 0.5, "moving": 1.0, "exact moving": 0.0}
        return [{"kind": "score", **score}, {"kind": "held", "held": "0", **at_rest, **moving, **held}]

    about = {"key": "", "measures": {}, "configuration": {}, "diverged": None}
    networks_and_seeds = [(DesignCell(*(point[name] for name in DesignCell._fields)), point["seed"]) for point in POINTS]
    return Results([{**about, "point": p, "rows": rows(*one)} for p, one in zip(POINTS, networks_and_seeds, strict=True)])
