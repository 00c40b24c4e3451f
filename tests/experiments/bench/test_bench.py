"""The comparison: rounds and ratios by a made clock, candidates that compute the same, tables, figures and wrong usage."""

import gc
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest
import torch
from scipy.integrate import solve_ivp
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.kernels import price
from discretize.kernels import registry as kernels
from experiments.__main__ import main
from experiments.bench import children, options, run
from experiments.bench.declared import PARTS
from experiments.bench.output import page
from experiments.bench.output.figures import overview, save
from experiments.bench.parts import cells, growth, memory, problems, sequences, solves
from experiments.bench.parts.cells import BY_DEFAULT, COUNTERPARTS, CellSizes, by_engine
from experiments.bench.peers import registry
from experiments.bench.rows import BACKWARD, FORWARD, WORKS, Row, data_frame, quartiles, ratio
from experiments.bench.scales import OWN, SCALES
from experiments.bench.session import COMPILED, ENGINES, STEPS, Session, interleaved, wrong_engine
from experiments.reports import machine, marked
from experiments.usage import UsageError

pytestmark = pytest.mark.kernels  # they are what is measured
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _few_objects():
    """Garbage is collected before every run: not among all that other files have made, which takes most of their time."""
    gc.freeze()  # before each test: `interleaved` looks through what others have left


class Clock:
    """Shows the time that was spent with it, faster or slower by the round."""

    def __init__(self) -> None:
        self.now, self.pace, self.calls = 0.0, 1.0, []

    def __call__(self) -> float:
        return self.now

    def task(self, name: str, seconds: float):
        def work() -> None:
            self.calls.append(name)
            self.now += seconds * self.pace

        return work


@pytest.fixture
def no_collecting(monkeypatch):
    """Garbage takes no time of a made clock."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.mark.usefixtures("no_collecting")
def test_everyone_is_warmed_up_once_and_then_runs_once_in_every_round():
    clock = Clock()
    tasks = {name: clock.task(name, 1.0) for name in "abcde"}
    interleaved(tasks, 6, clock=clock, warm=["b"])
    assert clock.calls[:4] == ["a", "c", "d", "e"]
    rounds = [tuple(clock.calls[4 + 5 * k : 9 + 5 * k]) for k in range(6)]
    assert len(clock.calls) == 4 + 30
    assert all(sorted(round_) == list("abcde") for round_ in rounds)
    assert len(set(rounds)) > 1
    again = Clock()
    interleaved({name: again.task(name, 1.0) for name in "abcde"}, 6, clock=again, warm=["b"])
    assert again.calls == clock.calls


@pytest.mark.usefixtures("no_collecting")
def test_a_machine_that_slows_down_does_not_change_the_ratios():
    clock = Clock()

    def slow_down(name: str) -> None:
        clock.pace = 1.0 + len(clock.calls) // 3  # from round to round, with three tasks

    tasks = {name: clock.task(name, seconds) for name, seconds in (("a", 2.0), ("b", 6.0), ("c", 1.0))}
    times = interleaved(tasks, 5, clock=clock, before_each=slow_down, patience=1e3)
    assert times["a"] == [4.0, 6.0, 8.0, 10.0, 12.0]
    found = ratio(times["b"], times["a"])
    assert found == (3.0, 3.0, 3.0, 5, 3.0)


def test_ratios_are_taken_within_rounds_with_their_quartiles():
    found = ratio([1.0, 2.0, 9.0, None, 5.0], [1.0, 1.0, 3.0, 7.0, 1.0])  # 1, 2, 3, 5
    assert found == (1.75, 2.5, 3.5, 4, 5.0)
    assert quartiles([3.0, None, 1.0]) == (1.5, 2.0, 2.5, 2, 3.0)
    assert ratio([None, 1.0], [1.0, None]) is None


@pytest.mark.usefixtures("no_collecting")
def test_whoever_has_taken_long_sits_out():
    clock = Clock()
    times = interleaved({"slow": clock.task("slow", 4.0), "quick": clock.task("quick", 1.0)}, 4, clock=clock, patience=7.0)
    assert times == {"slow": [4.0, 4.0, None, None], "quick": [1.0] * 4}


@pytest.mark.slow
def test_garbage_is_collected_between_the_runs_and_not_in_them():
    seen = []
    interleaved({"a": lambda: seen.append(gc.isenabled())}, 2)
    assert seen == [False] * 3
    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="broken"):
        interleaved({"a": broken}, 1)
    assert gc.isenabled()


def broken() -> None:
    raise RuntimeError("broken")


SIZES = CellSizes(100, 3, 2, 5)  # as many as a kernel is written for
FEW = ("GRU", "LSTM")  # each takes seconds to build


@pytest.fixture(scope="module")
def unrolled():
    torch.set_num_threads(1)
    x = cells.samples(SIZES, dtype=torch.float64)
    session = Session(("torch", "loop"))
    return x, {candidate.name: candidate for candidate in cells.cell_candidates(session, SIZES, x, FEW)}, session.skipped


def test_what_was_frozen_before_stays_so():
    gc.freeze()
    before = gc.get_freeze_count()
    interleaved({"a": lambda: None}, 1)
    assert gc.get_freeze_count() > before / 2 > 0  # some of what was frozen may end


def test_every_engine_is_there_or_skipped(unrolled):
    _, found, skipped = unrolled
    for name in FEW:
        for engine in ENGINES:
            assert (f"{name}, {engine}" in found) != (f"cells: {name}, {engine}" in skipped)
    assert all(f"{name}, steps" in found for name in FEW)


def test_every_field_of_a_cell_answers():
    modules = {name: kind(SIZES.inputs, SIZES.hidden) for name, kind in cells.KINDS.items()}
    for name, (make, _) in cells.FIELDS.items():
        field = make(SIZES, modules).double()
        assert field(torch.randn(3, 2), field.initial_state(3)).isfinite().all(), name


def test_kernels_of_a_gpu_are_compiled_ones_and_no_steps():
    assert wrong_engine({"engine": "triton", "engine_why": None}, COMPILED) is None  # a GPU's kernels
    assert wrong_engine({"engine": "triton", "engine_why": None}, STEPS) == "it ran by 'triton'"


def test_engines_agree_with_each_other_and_with_the_modules_whose_weights_they_have(unrolled):
    x, found, _ = unrolled
    cotangent = torch.randn(SIZES.time, SIZES.batch, SIZES.hidden)
    # The same sums in another order: rounding of float64; more of them in gradients.
    for field, module in (("GRU", "GRU"), ("LSTM", "LSTM")):
        assert_close(found[f"{field}, steps"].forward(x), found[f"torch.nn.{module}"].forward(x), rtol=0, atol=1e-13)
    assert_close(found["loop over torch.nn.GRUCell"].forward(x), found["torch.nn.GRU"].forward(x), rtol=0, atol=1e-13)
    for name in FEW:
        stepped, compiled = found[f"{name}, steps"], found.get(f"{name}, compiled")
        states, gradients = stepped.forward(x), stepped.backward(x, cotangent)
        assert not states.requires_grad
        assert len(gradients) == 1 + len(stepped.parameters)
        if compiled is not None:
            assert_close(compiled.forward(x), states, rtol=0, atol=1e-13, msg=lambda text, name=name: f"{name}: {text}")
            assert_close(compiled.backward(x, cotangent), gradients, rtol=1e-12, atol=1e-11)


def test_the_step_by_step_engine_really_is_one(unrolled):
    x, _, _ = unrolled
    field = ctrnn.gated(2, 5)
    calls = []
    field.register_buffer("_", None)
    flow = field.flow
    field.flow = lambda *given: calls.append(1) or flow(*given)
    candidate = by_engine("gated", STEPS, discretize.DiscreteRNN(field), x)
    calls.clear()
    candidate.run(x)
    assert len(calls) == SIZES.time


@pytest.mark.slow
def test_ways_to_run_a_network_with_noise_agree_without_it_and_have_as_much_of_it():
    sizes = CellSizes(4, 50, 2, 40)
    x = cells.samples(sizes)
    found, weights = sequences.noise_candidates(Session(("loop", "torchsde", "diffrax")), sizes, x)
    assert "loop in torch, `randn`" in {candidate.name for candidate in found}
    cotangent, quiet = torch.randn(4, 50, 40), next(each for each in found if each.name == "`Euler`, no noise, steps")
    exact, gradients = quiet.forward(x), quiet.backward(x, cotangent)
    for candidate in found:
        if "no noise" not in candidate.name:
            drawn = (candidate.forward(x)[0] - exact[0]) / weights.sigma.detach()
            assert abs(float((drawn**2).mean()) - 1) < 4.5 * (2 / drawn.numel()) ** 0.5, candidate.name
            assert not torch.equal(candidate.forward(x), candidate.forward(x))  # drawn anew
    with torch.no_grad():
        weights.sigma.zero_()
    for candidate in found:
        # float32; sums over 200 samples in gradients.
        assert_close(candidate.forward(x), exact, rtol=0, atol=1e-6, msg=lambda text, name=candidate.name: f"{name}: {text}")
        assert len(candidate.backward(x, cotangent)) == len(gradients) + ("no noise" not in candidate.name)
        for ours, theirs in zip(candidate.backward(x, cotangent), gradients, strict=False):
            assert_close(ours, theirs, rtol=1e-4, atol=1e-4, msg=lambda text, name=candidate.name: f"{name}: {text}")


@pytest.fixture(scope="module")
def problem():
    torch.set_num_threads(1)
    return problems.gated(time=3, batch=2, inputs=2, hidden=3)


def lorenz_by_scipy(start):
    """The state at t = 1, by another library and from the equation as written in its paper."""
    slope = lambda t, h: [10 * (h[1] - h[0]), 28 * h[0] - h[1] - h[0] * h[2], h[0] * h[1] - 8 / 3 * h[2]]  # noqa: E731
    solved = solve_ivp(slope, (0, 1), start.detach().numpy(), method="DOP853", rtol=1e-12, atol=1e-12)
    return torch.from_numpy(solved.y[:, -1])


@pytest.fixture(scope="module")
def solvers():
    """Ours, and those of all peers that are here."""
    return solves.solver_candidates(Session(options.PEERS), ("tsit5", "dopri8"))


def test_ways_to_solve_agree_in_states_and_gradients(problem, solvers):
    assert {"`integrate`, tsit5, steps", "torchdiffeq dopri5, `jump_t`"} <= {candidate.name for candidate in solvers}
    exact = registry.named(solvers, "`integrate`, dopri8, steps")[0].ready(problem).gradients(1e-11)
    for candidate in solvers:
        solver = candidate.ready(problem)
        solver.prepare()
        # At a tolerance of 1e-7; found by the user, a sample is missed by more.
        limit = 1e-3 if candidate.slow else 1e-5
        assert problem.error(solver.states(1e-7).hs) < limit, candidate.name
        for ours, theirs in zip(solver.gradients(1e-7), exact, strict=True):
            assert_close(ours, theirs, rtol=0, atol=10 * limit, msg=lambda text, name=candidate.name: f"{name}: {text}")


def test_ways_to_solve_from_many_starts_agree():
    starts = problems.lorenz(2)
    assert_close(starts.exact[1, 0], lorenz_by_scipy(starts.h0[0]), rtol=0, atol=1e-7)  # both at 1e-11 or less, times e^4
    found = solves.solver_candidates(Session(options.PEERS), ("tsit5",), "starts")
    exact = found[1].ready(starts).gradients(1e-9)[0]  # times e^4 and more: to 1e-6
    for candidate in found:
        solver = candidate.ready(starts)
        assert starts.error(solver.states(1e-7).hs) < 1e-4, candidate.name
        assert_close(solver.gradients(1e-7)[0], exact, rtol=1e-4, atol=1e-4, msg=candidate.name)


def test_a_tolerance_is_found_from_wherever_it_is_looked_for(problem):
    class Made:
        """An error of a tenth of the tolerance."""

        def states(self, tolerance: float) -> solves.Solution:
            return solves.Solution(problem.exact + 0.1 * tolerance, 1)

    for expected in (1e-2, 3e-3, 1e-5, 1e-12):
        made = solves.SolveCandidate("made", lambda problem: Made(), expected=expected)
        assert solves.tune(made, problem, 2e-6).tolerance == pytest.approx(1e-5)
    slow = solves.SolveCandidate("slow", lambda problem: Made(), expected=1e-8, slow=True)
    assert solves.tune(slow, problem, 2e-6).tolerance == pytest.approx(1e-8)


def test_a_candidate_that_never_meets_the_target_or_fails_is_named_and_left_out(problem):
    wrong = solves.in_torch("wrong", lambda problem, tolerance: solves.Solution(problem.exact + 1.0, 1))
    fails = solves.in_torch("fails", lambda problem, tolerance: broken())
    other = solves.in_torch("other", lambda problem, tolerance: solves.Solution(problem.exact, 1, "it ran by 'steps'"))
    session = Session()
    assert not list(solves.solve_rows(session, problem, [wrong, fails, other]))
    assert session.skipped == {
        "solves: wrong": "at no tolerance was its error below 1e-06",
        "solves: fails": "it fails here: RuntimeError: broken",
        "solves: other": "it ran by 'steps'",
    }
    with pytest.raises(RuntimeError, match="broken"):  # ours may not fail unseen
        list(solves.solve_rows(Session(), problem, [replace(fails, own=True)]))


@pytest.mark.slow
def test_every_candidate_is_given_the_loosest_tolerance_that_meets_the_target(problem, solvers):
    session = Session(rounds=2)
    kept = registry.named(solvers, "`integrate`, tsit5", "torchdiffeq dopri5, `jump_t`")
    rows = {(row.candidate, row.work): row for row in solves.solve_rows(session, replace(problem, target=1e-3), kept)}
    timed = [candidate for candidate in kept if f"solves: {candidate.name}" not in session.skipped]
    assert set(rows) == {(candidate.name, work) for candidate in timed for work in WORKS}
    for candidate in timed:
        for work in WORKS:
            row = rows[candidate.name, work]
            assert len(row.values) == 2
            assert min(row.values) > 0
            assert row.facts["error"] < 1e-3
            assert row.facts["evaluations"] > 4
            looser = row.facts["tolerance"] * 10**0.5
            assert looser > 0.011 or problem.error(candidate.ready(problem).states(looser).hs) >= 1e-3


def test_the_stiff_sample_has_its_rate_and_the_quiet_ones_have_1():
    batches = problems.with_a_stiff_sample(problems.StiffSizes(2, 3, 2, 10.0))
    whole = batches["with"]
    rates = whole.field.rate(whole.xs, torch.zeros(3, 2))
    assert_close(rates, torch.tensor([10.0, 1.0, 1.0])[:, None].expand(2, 3, 2))
    assert {name: problem.xs.shape[1] for name, problem in batches.items()} == {"with": 3, "without": 2, "alone": 1}


def test_stiff_samples_that_differ_in_nothing_else_go_to_the_same_place():
    """The rate is not also an input."""
    batches = problems.with_a_stiff_sample(problems.StiffSizes(2, 3, 2, 10.0))
    whole = batches["with"]
    assert not whole.field.candidate.weight_x[:, -1].any()
    for name, samples in (("without", slice(1, None)), ("alone", slice(0, 1))):
        part = batches[name]
        solved = solves.ours("dopri8", STEPS).ready(part).states(1e-10)
        assert_close(solved.hs, whole.exact[:, samples], rtol=0, atol=1e-7)


def test_the_exponent_of_a_power_law_is_found():
    assert growth.exponent(pd.Series({x: 3 * x**1.5 for x in (1.0, 4.0, 32.0)})) == pytest.approx(1.5)
    assert growth.exponent(pd.Series({1.0: 3.0, 2.0: None})) is None


def test_rates_of_a_stiff_field_go_from_1_to_the_ratio():
    rates = problems.stiff_problem(100.0, time=1, batch=2, hidden=5).field.rate.flow(None, None)
    assert_close(rates, torch.tensor([1.0, 10**0.5, 10.0, 10**1.5, 100.0]), rtol=1e-6, atol=0)


def test_a_function_is_called_in_a_process_of_its_own_with_its_variables():
    assert children.call_in_process("os:getenv", {"key": "NUMBER"}, {"NUMBER": "3"}) == "3"
    assert "NUMBER" not in os.environ


def test_what_fails_in_a_process_of_its_own_is_raised_here():
    with pytest.raises(RuntimeError, match=r"^JSONDecodeError: Expecting value: line 1 column 1 \(char 0\)$"):
        children.call_in_process("json:loads", {"s": "x"})


def test_an_import_is_timed_in_a_new_interpreter_and_a_missing_one_is_said():
    assert children.seconds_of_import("import json") > 0
    with pytest.raises(RuntimeError, match=r"^ModuleNotFoundError: No module named 'no_such_module'$"):
        children.seconds_of_import("import no_such_module")


def test_threads_and_cores_are_put_back():
    before, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    with machine.limited(1):
        assert torch.get_num_threads() == 1
        assert len(os.sched_getaffinity(0)) == 1
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == (before, cores)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can put the peak back")
def test_the_peak_is_that_of_the_call():
    def hold(megabytes: int):
        return lambda: torch.zeros(megabytes * 2**17).sum()  # float64, all pages touched

    memory.peak_growth(hold(256), "cpu")
    # Allowed: what the allocator keeps, and pages of others in the process.
    assert memory.peak_growth(hold(64), "cpu") / 2**20 == pytest.approx(64, abs=16)
    assert memory.peak_growth(lambda: None, "cpu") / 2**20 < 16


def test_the_machine_is_described():
    facts = machine.facts()
    assert all(facts[word] for word in ("processor", "vectors", "cores", "threads", "python", "torchdiffeq", "compiler", "date"))
    assert facts["torch"] == version("torch")


def test_a_compiler_that_does_not_run_is_said_to_be_none(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert machine.facts()["compiler"] == "none (no-such-compiler does not run)"


def test_peers_are_named_in_our_order():
    assert options.chosen(None) == options.PEERS
    assert options.chosen("loop, torch") == ("torch", "loop")
    with pytest.raises(UsageError, match="names nobody"):
        options.chosen(",")


def test_a_peer_that_is_not_installed_is_skipped(monkeypatch):
    monkeypatch.setattr(options.importlib.util, "find_spec", lambda name: None if name == "diffrax" else object())
    session = Session(("diffrax",))
    solves.solver_candidates(session, ())
    assert session.skipped == {"diffrax": "diffrax not installed: pip install diffrax jax"}


@pytest.fixture
def record():
    """A cell twice as fast as torch's, and a solve that took a tenth."""
    made = [
        Row("cells", "T 6", name, work, [seconds, 3 * seconds, None], facts={"engine": "steps"})
        for name, seconds in (
            ("torch.nn.GRU", 0.25),
            ("gated, compiled", 0.125),
            ("gated, steps", 0.5),
            (f"gated, {BY_DEFAULT}", 0.25),
        )
        for work in (FORWARD, BACKWARD)
    ]
    facts = {"tolerance": 1e-5, "error": 2e-7, "evaluations": 1234, "engine": "", "compile_seconds": 0.0}
    made += [
        Row("solves", "T 3", name, work, [seconds], facts={**facts, "compile_seconds": compiled})
        for name, seconds, compiled in (("a", 0.5, 0.0), ("b", 5.0, 2.5))
        for work in (FORWARD, BACKWARD)
    ]
    made += [
        Row("growth", f"T {x}", "a", BACKWARD, [x / 4], facts={"sweep": "cells over time", "x": x, "base": "B 2"}) for x in (4, 8)
    ]
    made += [
        Row("stiff", "one", "a", work, [seconds], facts={**facts, "variant": variant})
        for variant, seconds in (("without", 0.5), ("with", 2.0), ("alone", 1.5))
        for work in (FORWARD, BACKWARD)
    ]
    made += [
        Row("memory", f"cell, T {x}, B 2, H 3", "a", BACKWARD, [x * 1e6], "bytes", {"kind": "cell", "x": x}) for x in (10, 20)
    ]
    made.append(Row("first use", "import", "import torch", "import", [1.5, 2.5]))
    return {
        "command": "ctrnn bench",
        "scale": "smoke",
        "repeats": 2,
        "machine": machine.facts(),
        "seconds": {"cells": 1.0},
        "skipped": [["diffrax", "diffrax not installed"]],
        "rows": json.loads(json.dumps([vars(row) for row in made])),
    }


def test_tables_show_medians_and_ratios_of_the_rows(record):
    lines = page.document(record).splitlines()
    assert "**T 6, forward**, times torch.nn.GRU; torch.nn.GRU takes 500 ms (at most 750 ms)" in lines
    assert "| gated | – | 0.50 | 2.00 | 1.00 |" in lines
    assert "| a | 1e-05 | 2.0e-07 | 1,234 | 0.5 | 1.00 | 0.5 | 1.00 | – |" in lines
    assert "| b | 1e-05 | 2.0e-07 | 1,234 | 5 | 10.0 | 5 | 10.0 | 2.5 |" in lines
    assert "| a | 1 | 2 | 1.00 |" in lines
    assert "| a | 2.0e-07 | 0.5 | 2 | 1.5 | 4.00 |" in lines
    assert "| a | 10 | 20 |" in lines
    assert "| import torch | 2.00 s | 1.75 s – 2.25 s |" in lines
    assert f"- processor: {record['machine']['processor']}" in lines
    assert "- left out: diffrax: diffrax not installed" in lines


def test_a_round_that_took_long_stands_beside_the_median(record):
    slow = [row | {"values": [0.125, 0.125, 1.0]} for row in record["rows"] if row["candidate"] == "gated, compiled"]
    gru = [row | {"values": [0.25, 0.25, 0.25]} for row in record["rows"] if row["candidate"] == "torch.nn.GRU"]
    assert "| gated | – | 0.50 (0.50–2.25; 4.00) | – | – |" in page.part_of(data_frame([*gru, *slow]), "cells")


@pytest.mark.kernels
def test_default_calls_are_measured_before_a_kernel_has_paid(monkeypatch):
    monkeypatch.setattr(price, "PRICE", 0.0)
    monkeypatch.setattr(kernels, "_attempt", None)  # which would build one
    sizes = CellSizes(6, 2, 3, 4)
    x = cells.samples(sizes)
    candidates = cells.cell_candidates(Session(), sizes, x, (*COUNTERPARTS, "gated"), (BY_DEFAULT,))
    assert [one.name for one in candidates] == [f"{name}, by default, at first" for name in COUNTERPARTS]
    for found in candidates:
        for _ in range(3):
            found.forward(x)
        assert found.engine == "torch"


def test_without_the_reference_a_table_has_milliseconds(record):
    alone = data_frame([row for row in record["rows"] if row["candidate"] != "torch.nn.GRU"])
    assert "**T 6, forward**, milliseconds" in page.part_of(alone, "cells")
    assert "| gated | – | 250 | 1e+03 | 500 |" in page.part_of(alone, "cells")


def test_the_page_has_a_place_for_every_part_and_is_filled_between_its_markers(record):
    text = "a\n<!-- bench: cells -->\nold\n<!-- end -->\nb\n<!-- bench: machine -->\n<!-- end -->\n"
    filled = page.filled(text, record)
    assert "old" not in filled
    assert "| gated | – | 0.50 | 2.00 | 1.00 |" in filled
    assert "`ctrnn bench`" in filled
    assert page.filled(filled, record) == filled
    with pytest.raises(ValueError, match="no part 'cels'"):
        page.filled("<!-- bench: cels -->\n<!-- end -->", record)
    assert set(marked.names(page.PAGE.read_text(), "bench")) == {*PARTS, "machine"}


def test_the_figure_names_axes_candidates_and_machine(record, tmp_path):
    figure = overview(record)
    words = " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))
    for word in ("times torch.nn.GRU", "seconds", "length, in samples", "faster", "Cells, T 6", "Exact solves, T 3", "gated"):
        assert word in words, word
    assert record["machine"]["processor"] in words
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["torch.nn.GRU", "gated"]  # all engines on one line
    assert len({line.get_color() for line in panel.lines if line.get_marker() in ("o", "^", "s")}) == 3
    for name, beginning in (("figure.svg", b"<"), ("figure.png", b"\x89PNG")):
        save(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(beginning)
    assert {file.name for file in tmp_path.iterdir()} == {"figure.svg", "figure.png"}


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_measures_every_part(name):
    assert all(SCALES[name][part] for part in PARTS)
    growth = {what + " " + varied for what, varied, *_ in SCALES[name]["growth"]}
    assert {"solves stiffness"} < growth
    assert any(each.startswith("cells") for each in growth)


def test_own_solves_are_of_fields_of_cells():
    assert set(OWN) <= set(cells.FIELDS)


def test_a_package_without_the_bench_says_where_it_is(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "experiments.bench", None)  # as in a wheel
    assert main(["bench", "--scale", "smoke"]) == 2
    assert capsys.readouterr().err.startswith(
        "ctrnn bench: it measures a copy of the repository, and lies there in experiments/bench"
    )


def ctrnn_bench(*words, **more):
    command = [sys.executable, "-m", "experiments", "bench", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **more)


WRONG_USAGE = [
    (["--against", "torchdifeq"], "ctrnn bench: there is no peer 'torchdifeq'; did you mean 'torchdiffeq'?"),
    (["--scale", "smal"], "ctrnn bench: there is no scale 'smal'; did you mean 'small'?"),
    (["--device", "gpu"], "ctrnn bench: there is no device 'gpu'; did you mean 'cpu'?"),
    (["--out", "x.jsn"], "ctrnn bench: there is no file ending '.jsn'; did you mean '.json'?"),
    (["--out", "no such folder/x.json"], "ctrnn bench: --out no such folder/x.json: there is no folder no such folder."),
    (["--threads", "0"], "--threads must be at least 1, got 0"),
    (["--repeats", "often"], "a whole number is needed, got 'often'"),
]


def test_wrong_usage_is_2_and_names_what_is_near():
    script = (
        "import sys\nfrom experiments.__main__ import main\n"
        f"for words in {[words for words, _ in WRONG_USAGE]}:\n"
        "    print('code', main(['bench', *words]), 'torch' in sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    each = " ".join(done.stderr.replace("│", " ").split()).split("code 2 False")
    assert len(each) == len(WRONG_USAGE) + 1, done.stderr
    for text, (_, message) in zip(each, WRONG_USAGE, strict=False):
        assert message in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_refused_in_words():
    with pytest.raises(UsageError, match="torch finds no GPU here"):
        run.run(("torch",), None, "smoke", None, None, "cuda", "ctrnn bench")


@pytest.mark.slow
def test_a_smoke_run_writes_what_the_table_shows():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "speed.json"
        done = ctrnn_bench("--scale", "smoke", "--against", "torch,torchdiffeq", "--threads", 1, "--out", out)
        assert done.returncode == 0, done.stderr
        assert (done.stdout, done.stderr.splitlines()[-1]) == ("", f"Written to {out}.")
        record = json.loads(out.read_text())
    assert {row["part"] for row in record["rows"]} == set(PARTS)
    assert record["machine"]["threads"] == "1"
    assert record["command"].startswith("ctrnn bench --against torch,torchdiffeq --out ")
    shown = page.document(record)
    for row in (Row(**row) for row in record["rows"]):
        # Of cells the engine is a column, and torch's modules are another one.
        ours = row.part == "cells" and not row.candidate.startswith("torch.nn")
        name = row.candidate.removesuffix(" in a loop").removesuffix(" in one call")
        assert (row.candidate.rpartition(", ")[0] if ours else name.removeprefix("torch.nn.")) in shown
    for part in PARTS.values():
        assert f"## {part.title}\n" in shown
