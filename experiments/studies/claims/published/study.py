r"""Runs published networks under their step and under their equation: right answers, choices, fixed points, a rhythm.

fetched      eleven networks of two papers, one of a toolbox, read by `discretize.from_ctrnn`; 100 trials, several times
retrained    a sine, and three bits, by the settings of the scripts
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

import ctrnn
import discretize
from ctrnn import LowRankReduction, VectorField
from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.seeds import generator
from experiments.studies.claims.published import flipflop, sine
from experiments.studies.claims.published.networks import FOLDER, PUBLISHED, reduced
from experiments.studies.claims.published.trials import DRAWN, Drawn
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.tables import gone, in_words, spread_of
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Table
from experiments.studies.study import (
    Described,
    Point,
    Record,
    Row,
    Run,
    RunMeasures,
    Sizes,
    Study,
    data_path,
    scales,
    words_beside,
)
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison

__all__ = ["PublishedSteps"]

SINE, BITS = "pycog sine", "fixed-point-finder bits"
COUNTED, LEARNED = 0.02, 0.9
LARGE, FEW = 100, 8  # units beyond which fixed points are looked for once, from so few states
LONG, FEW_LONG, FINER_LONG = 200, 40, 4  # samples of a trial; trials and steps a sample, with noise, of longer ones
FINER, STARTS, TOLERANCE = 16, 16, 1e-6
# What is held while fixed points are looked for: the features beside those of the stimulus, and none.
HELD: dict[str, dict[str, list[float]]] = {
    "random-dots": {"nothing": [0]},
    "context": {"nothing": [0] * 4, "context 1": [0, 0, 0.1, 0], "context 2": [0, 0, 0, 0.1]},
    "modalities": {"nothing": [0] * 4, "both": [0, 0, 0.1, 0.1]},
    "comparison": {"nothing": [0]},
    "match": {"nothing": [0] * 2, "stimulus 1": [1, 0], "stimulus 2": [0, 1]},
    "two-channels": {"nothing": [0] * 2, "both": [1, 1]},
}


@dataclass(frozen=True)
class PublishedRun(Described):
    """Says which network is run, on how many trials; of what is retrained, for how many updates or epochs at most."""

    kind = "published"

    network: str
    seed: int
    trials: int
    updates: int
    epochs: int


class PublishedSteps(Study):
    """Compares published networks under their step with the same weights under their equation."""

    name = "published-steps"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 15, "paper": 90}
    sizes: ClassVar = scales(trials=(8, 100, 100), seeds=(1, 3, 5), updates=(200, 60_000, 400_000), epochs=(2, 1000, 3000))
    needs = (FOLDER,)
    tables = (
        Table(
            "Share of right answers as published and under the equation, without noise of the units and with theirs (a dash for "
            "none); the mean over times 100 trials, or over seeds, and what is lost, with its 95 % interval. Printed: "
            "the accuracy of their notebook. Choices: the share of trials that are answered otherwise.",
            by={"network": "network", "dt/τ": "dt"},
            columns={
                "printed": lambda rows: _mean(rows, "printed"),
                "by the step": lambda rows: _mean(rows, "own"),
                "solved": lambda rows: _mean(rows, "exact"),
                "lost": lambda rows: in_words(_lost(rows, "own", "exact")),
                "with noise": lambda rows: _mean(rows, "noisy"),
                "by finer steps": lambda rows: _mean(rows, "noisy fine"),
                "choices": lambda rows: in_words(paired(rows["flips"])),
            },
            data=lambda results: where(results.rows, kind="score"),
        ),
        Table(
            "Squared error of the same; states off: the distance of states from those of the equation, in their spread.",
            by={"network": "network"},
            columns={"by the step": "own loss", "solved": "exact loss", "states off": "off"},
            data=lambda results: where(results.rows, kind="score"),
        ),
        Table(
            "Fixed points of the equation while an input is held, found from states of trials, mean (least–largest) over times "
            "or seeds; of the two networks of full rank once, from 8 states. How many are stable, and stable under the step. "
            "Moving: the share of trajectories that still move after 200 τ, by the step and solved.",
            by={"network": "network", "held": "held"},
            columns={
                "fixed points": "rests",
                "stable": "stable",
                "stable under the step": "stable under the step",
                "made stable": "made stable",
                "moving, step": "moving",
                "moving, solved": "exact moving",
            },
            data=lambda results: where(results.rows, kind="held").query("not held.str.startswith('stimulus')"),
        ),
        Table(
            "The sine: R² over the two periods of a trial, without noise; its cycle after 200 τ. Gone: in how many, of how many, "
            "the equation has no rhythm left.",
            by={"dt/τ": "dt"},
            columns={
                "by the step": lambda rows: _mean(rows, "own"),
                "solved": "exact",
                "lost": lambda rows: in_words(_lost(rows, "own", "exact")),
                "amplitude": "amplitude",
                "solved ": "exact amplitude",
                "period": lambda rows: spread_of(rows, "period"),
                "solved  ": lambda rows: spread_of(rows, "exact period"),
                "gone": gone,
                "updates": "updates",
            },
            data=lambda results: where(results.rows, kind="rhythm"),
        ),
    )

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the networks, those that were fetched where their files are there, the sine last, for it takes longest."""
        here = [name for name, one in PUBLISHED.items() if data_path(f"{FOLDER}{one.home[0]}/{one.path}")]
        return [{"network": name, "seed": seed} for name in (BITS, *here, SINE) for seed in range(sizes.seeds)]

    def configuration(self, point: Point, sizes: Sizes) -> PublishedRun:
        return PublishedRun(**point, trials=sizes.trials, updates=sizes.updates, epochs=sizes.epochs)

    @torch.no_grad()
    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        torch.set_num_threads(1)
        asked, begun = run.configuration, time.perf_counter()
        of_one = {SINE: of_sine, BITS: of_bits}.get(asked.network, of_fetched)
        return RunMeasures({}, of_one(asked), time.perf_counter() - begun)

    def headline(self, record: Record) -> str:
        row = record["rows"][0]
        return f"{number(row['own'])} by the step, {number(row['exact'])} solved"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = where(results.rows, kind="score")
        of_rhythm = where(results.rows, kind="rhythm")
        fetched = dict(groups(rows[rows["network"] != BITS], "network"))
        learned = {name: same for name, same in fetched.items() if same["own"].mean() >= LEARNED}
        if not learned or min(map(len, learned.values())) < 2 or len(of_rhythm) < 2:
            raise NotEnoughError("two times of each published network are needed, and two seeds of what is retrained")
        held, bits = where(results.rows, kind="held"), where(rows, network=BITS)
        noisy = {name: same for name, same in learned.items() if same["noisy"].notna().all()}
        sizes = of_rhythm["exact amplitude"].fillna(0) / of_rhythm["amplitude"] - 1
        memories = where(held, network=BITS)
        return ClaimVerdict(
            [
                ClaimPart(
                    "solved, published networks answer as many trials right",
                    _none({name: _lost(same, "own", "exact") for name, same in learned.items()}),
                ),
                ClaimPart(
                    "with their noise, by finer steps, too",
                    _none({name: _lost(same, "noisy", "noisy fine") for name, same in noisy.items()}),
                ),
                ClaimPart(
                    "no published network chooses otherwise when it is solved",
                    _none({name: paired(same["flips"]) for name, same in learned.items()}),
                ),
                ClaimPart(
                    "no fixed point that is stable under a step is unstable in the equation",
                    bool(held["made stable"].sum() == 0),
                    f"{int(held['rests'].sum())} found, {int(held['made unstable'].sum())} the other way round",
                ),
                ClaimPart(
                    "the sine loses R² under its equation",
                    Compared(_lost(of_rhythm, "own", "exact"), COUNTED, printed=False),
                    f"{spread(of_rhythm['own'])} by the step, {spread(of_rhythm['exact'])} solved",
                ),
                ClaimPart("the sine's cycle is smaller there", Compared(paired(sizes), -COUNTED, printed=False)),
                ClaimPart(
                    "three bits have as many stable fixed points in the equation as under the map",
                    bool((memories["stable"] == memories["stable under the step"]).all()),
                    f"{int(memories['stable'].sum())} and {int(memories['stable under the step'].sum())} "
                    f"in {len(memories)} networks",
                ),
                ClaimPart("and lose accuracy there", Compared(_lost(bits, "own", "exact"), COUNTED, printed=False)),
            ]
        )


def _mean(rows: pd.DataFrame, column: str) -> float | None:
    return float(rows[column].mean()) if rows[column].notna().any() else None


def _lost(rows: pd.DataFrame, before: str, after: str) -> Spread:
    return paired(rows[before] - rows[after])


def _none(differences: dict[str, Spread]) -> EveryComparison:
    return EveryComparison({name: Compared(one, COUNTED, absent=True, printed=False) for name, one in differences.items()})


def of_fetched(asked: PublishedRun) -> list[Row]:
    """Run one that was fetched on trials of a seed."""
    one = PUBLISHED[asked.network]
    model, start = one.read()
    drawn = DRAWN[one.task](asked.trials, generator(asked.seed, "published", one.task))
    h_0 = None if start is None else start.expand(asked.trials, -1)
    own, exact = model.rnn(drawn.xs, h_0)[0], model.solved(rtol=TOLERANCE, atol=TOLERANCE / 100).rnn(drawn.xs, h_0)[0]
    rows: list[Row] = [{**_scores(model, drawn, own, exact), "printed": one.printed, "dt": one.alpha}]
    if one.noise:
        noisy = ctrnn.Noisy(model.field, ctrnn.Noise(one.noise / math.sqrt(one.alpha)))
        step = discretize.DiscreteRNN(noisy, discretize.EulerMaruyama(), dt=one.alpha, batch_first=True)
        # Of trials beyond 200 samples fewer, by fewer steps: 500 units at 16 steps a sample take minutes.
        few, finer = (asked.trials, FINER) if drawn.xs.shape[1] <= LONG else (min(FEW_LONG, asked.trials), FINER_LONG)
        of_them = Drawn(*(part[:few] for part in (drawn.xs, drawn.wanted, drawn.asked, drawn.condition)))
        for name, substeps in (("noisy", 1), ("noisy fine", finer)):
            under = discretize.sequences.stepped(step, substeps=substeps)
            outputs = model.read_out(under(of_them.xs, None if h_0 is None else h_0[:few], seed=asked.seed)[0])
            rows[0] |= {name: float(of_them.right(outputs).double().mean()), f"{name} loss": of_them.loss(outputs)}
    else:
        rows[0] |= dict.fromkeys(("noisy", "noisy fine", "noisy loss", "noisy fine loss"))
    field, dt = reduced(model.field), one.alpha
    xs, first_state = drawn.xs[:STARTS], None if h_0 is None else h_0[:STARTS]
    visited = discretize.DiscreteRNN(field, dt=dt, batch_first=True)
    states = _states(visited, xs, None if isinstance(field, LowRankReduction) else first_state)
    if field.state_size > LARGE and asked.seed > 0:
        return rows
    for name, x in HELD[one.task.partition(",")[0]].items():
        rows.append(_held(field, name, torch.tensor(x, dtype=torch.float64), states, dt))
    return rows


def _states(rnn: discretize.DiscreteRNN, xs: Tensor, h_0: Tensor | None) -> Tensor:
    """Return states (2 n, state) half way through trials and at their end."""
    middle = rnn(xs[:, : xs.shape[1] // 2], h_0)[1][0]
    return torch.cat([middle, rnn(xs[:, xs.shape[1] // 2 :], middle)[1][0]])


def _scores(model: SequenceModel, drawn: Drawn, own: Tensor, exact: Tensor) -> Row:
    """Score outputs of units by the step and solved, each (size, time, units)."""
    by_step, solved = model.read_out(own), model.read_out(exact)
    off = (own - exact).square().mean().sqrt() / (exact - exact.mean((0, 1))).square().mean().sqrt()
    return {
        "kind": "score",
        "own": float(drawn.right(by_step).double().mean()),
        "exact": float(drawn.right(solved).double().mean()),
        "own loss": drawn.loss(by_step),
        "exact loss": drawn.loss(solved),
        "flips": float((drawn.choices(by_step) != drawn.choices(solved)).double().mean()),
        "off": float(off),
    }


def _held(field: VectorField, name: str, x: Tensor, states: Tensor, dt: float) -> Row:
    """Look for fixed points while x is held, and follow states (n, state) for 200 time constants."""
    step = discretize.Euler()
    if field.state_size > LARGE:  # Newton's method alone: the way down takes hours in 512 variables
        states = states[:: len(states) // FEW]
        at = discretize.fixed_points(discretize.Flow(field, x), states).h.detach()
    else:
        at = measures.resting_points(field, x, states)
    row: Row = {"kind": "held", "held": name, "stable under the step": 0, "made stable": 0, "made unstable": 0}
    row |= measures.rests(field, x, at, step, dt)
    for column, taken in (("moving", step), ("exact moving", None)):
        moving = measures.settled(field, lambda h: h, x, states, taken, dt).moving
        row[column] = float((moving > measures.MOVING).double().mean())
    return row


def of_sine(asked: PublishedRun) -> list[Row]:
    """Train a sine, and run it on without noise from the state in which trials begin."""
    net = sine.Sine(asked.seed)
    net.train(asked.updates)
    arrays = {name: torch.from_numpy(array) for name, array in net.arrays().items()}
    made = ctrnn.additive(1, len(net.start), "relu", dtype=torch.float64).requires_grad_(False)
    part: Any = made.candidate
    part.weight_x.zero_()
    part.weight_h.copy_(arrays["W_rec"])
    part.bias.copy_(arrays["b_rec"])
    model = SequenceModel(discretize.DiscreteRNN(made, dt=sine.ALPHA), 1).double().requires_grad_(False)
    model.read_out.weight.copy_(arrays["W_out"])
    model.read_out.bias.copy_(arrays["b_out"])
    start, xs, wanted = torch.from_numpy(net.start)[None], torch.zeros(sine.STEPS, 1, 1).double(), torch.from_numpy(sine.TARGET)
    row: Row = {"kind": "rhythm", "dt": sine.ALPHA, "updates": net.updates, "error": net.error}
    for name, under in (("own", model), ("exact", model.solved(rtol=TOLERANCE, atol=TOLERANCE / 100))):
        off = under(xs, h_0=start)[:, 0, 0] - wanted
        row[name] = float(1 - off.square().mean() / wanted.var(correction=0))
    for before, step in (("", discretize.Euler()), ("exact ", None)):
        cycle = measures.settled(made, model.read_out, xs[0, 0], start, step, sine.ALPHA)
        row |= {f"{before}amplitude": cycle.amplitude, f"{before}period": cycle.period if math.isfinite(cycle.period) else None}
    return [row]


def of_bits(asked: PublishedRun) -> list[Row]:
    """Train three bits, and run them on other trials."""
    with torch.enable_grad():
        net, epochs, loss = flipflop.trained_flip_flop(asked.seed, asked.epochs)
    field = ctrnn.from_torch(net.rnn).double().requires_grad_(False)
    model = SequenceModel(discretize.DiscreteRNN(field), flipflop.BITS).double().requires_grad_(False)
    model.read_out.load_state_dict(net.read_out.double().state_dict())
    xs, wanted = (part.double() for part in flipflop.pulses(asked.trials, generator(asked.seed, "bits")))
    h_0 = net.start.double().expand(asked.trials, -1)
    own, exact = model.rnn(xs, h_0)[0], model.solved(rtol=TOLERANCE, atol=TOLERANCE / 100).rnn(xs, h_0)[0]
    outputs = {"own": model.read_out(own), "exact": model.read_out(exact)}
    row: Row = {"kind": "score", "dt": 1.0, "epochs": epochs, "error": loss, "printed": None, "noisy": None, "noisy fine": None}
    for name, of_step in outputs.items():
        row |= {
            name: float((of_step * wanted > 0).double().mean()),
            f"{name} loss": float((of_step - wanted).square().mean()),
        }
    row["flips"] = float((outputs["own"] * outputs["exact"] < 0).double().mean())
    row["off"] = float((own - exact).square().mean().sqrt() / (exact - exact.mean((0, 1))).square().mean().sqrt())
    zero = torch.zeros(flipflop.BITS, dtype=torch.float64)
    return [row, _held(field, "nothing", zero, own[:: flipflop.TIME // 4].flatten(0, 1), 1.0)]
