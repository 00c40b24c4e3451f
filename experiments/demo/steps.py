r"""The same weights stepped and solved: Euler steps of 1/n of a sample come as 1/n to the exact solution.

exact     the field solved over held samples
stepped   the recording slowed down by n, each sample held for n steps, the gate divided by n: steps of dt = 1/n
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

import ctrnn
import discretize
from experiments.data.recording import Recording
from experiments.demo.cell import TOLERANCE, field_for, samples
from experiments.demo.clocks import allowed_deviation
from experiments.reports import plots
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["SLOWED", "StepRun", "compare", "observed_orders", "section"]

SLOWED = (1, 2, 4, 8, 16)
EXCERPT = 40  # samples; slowed down 16 times they are 640
ORDER_LIMITS = (0.8, 1.2)  # of the last doubling; the first ones are not yet in the regime of small steps


@dataclass(frozen=True)
class StepRun:
    """n steps a sample: the states after each sample, (time, units), and how far they are from the exact ones."""

    n: int
    states: np.ndarray
    largest: float
    rms: float


@torch.no_grad()
def compare(recording: Recording) -> tuple[np.ndarray, list[StepRun], float]:
    """The exact states after each sample, the stepped ones, and the largest gate along the exact ones."""
    field, xs = field_for(len(recording.channels)), samples(recording)
    exact = discretize.ContinuousRNN(field, method="dopri8", rtol=TOLERANCE, atol=TOLERANCE)(xs)[0]
    # With decay h the leak of a relaxation is its rate.
    gate = float(field.leak(field.project(xs), exact).max())
    runs = []
    for n in SLOWED:
        slowed = xs.repeat_interleave(n, dim=0)
        states = discretize.DiscreteRNN(field, discretize.Euler(), dt=1 / n)(slowed)[0][n - 1 :: n]
        off = (states - exact).abs()
        runs.append(StepRun(n, states[:, 0].numpy(), float(off.max()), float(off.square().mean().sqrt())))
    return exact[:, 0].numpy(), runs, gate


@torch.no_grad()
def slowed_exactly(recording: Recording, exact: np.ndarray) -> float:
    """How far the exact states on the slowed recordings themselves are from the unslowed ones, over a beginning of each."""
    field, xs = field_for(len(recording.channels)), samples(recording)[:EXCERPT]
    worst = 0.0
    for n in SLOWED[1:]:
        path, ts = ctrnn.HeldPath(xs.repeat_interleave(n, dim=0)), n * torch.arange(len(xs) + 1, dtype=torch.float64)
        solved = discretize.integrate(
            field, path, field.initial_state(1), ts, method="dopri8", rtol=TOLERANCE, atol=TOLERANCE,
            speed=ctrnn.AffineWarp(1 / n).speed,
        )  # fmt: skip
        worst = max(worst, float(np.abs(solved.hs[1:, 0].numpy() - exact[: len(xs)]).max()))
    return worst


def observed_orders(runs: list[StepRun]) -> list[float]:
    """Between neighbours: the power of 1/n with which the root mean square deviation falls."""
    return [float(np.log(a.rms / b.rms) / np.log(b.n / a.n)) for a, b in pairwise(runs)]


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Compare, and say how the deviation falls with n."""
    exact, runs, gate = compare(recording)
    orders, moved = observed_orders(runs), slowed_exactly(recording, exact)
    say("Euler steps against the exact solution, same weights, slowed down by n")
    say(f"  {'n':>3}{'c′ g at most':>14}{'largest':>10}{'r.m.s.':>10}{'order':>8}")
    for run, order in zip(runs, [None, *orders], strict=True):
        told = "" if order is None else f"{order:.2f}"
        say(f"  {run.n:>3}{gate / run.n:>14.2f}{run.largest:>10.3g}{run.rms:>10.3g}{told:>8}")
    excerpt = min(EXCERPT, len(exact))
    say(f"  the exact states on the slowed recordings deviate from those as recorded by {moved:.1e} (first {excerpt} samples)")
    say("")
    low, high = ORDER_LIMITS
    failures = []
    if not low <= orders[-1] <= high:
        failures.append(_wrong_order(runs, orders[-1]))
    if not moved <= allowed_deviation():
        failures.append(f"Slowing the recording down moves the exact states by {moved:.1e}, more than {allowed_deviation():.0e}.")
    return Section(
        key="steps",
        title="The same weights, stepped and solved",
        lead="The usual gated cell is one Euler step of the field a sample. On slower recordings the steps come nearer and "
        "nearer to "
        f"the solution: the deviation falls as <i>n</i><sup>−{orders[-1]:.2f}</sup>, where theory says <i>n</i><sup>−1</sup>.",
        body=_body(runs, orders, gate, moved, excerpt),
        pictures=_pictures(exact, runs, orders),
        numbers={
            "largest_gate": gate,
            "runs": [{"n": run.n, "largest_deviation": run.largest, "rms_deviation": run.rms} for run in runs],
            "observed_orders": orders,
            "exact_slowed": {"samples": excerpt, "largest_deviation": moved},
        },
        verdict=f"One Euler step a sample deviates from the exact states by up to {runs[0].largest:.2f}; slowed down "
        f"{runs[-1].n} times, by "
        f"{scientific(runs[-1].largest)}, falling as <i>n</i><sup>−{orders[-1]:.2f}</sup>.",
        failures=tuple(failures),
    )


def _wrong_order(runs: list[StepRun], order: float) -> str:
    return f"From {runs[-2].n} to {runs[-1].n} steps a sample the deviation falls as n^-{order:.2f}, not as 1/n."


def _body(runs: list[StepRun], orders: list[float], gate: float, moved: float, excerpt: int) -> str:
    rows = [
        [str(run.n), f"{gate / run.n:.2f}", scientific(run.largest), scientific(run.rms), "" if order is None else f"{order:.2f}"]
        for run, order in zip(runs, [None, *orders], strict=True)
    ]
    drawn = table(
        "Deviation of the stepped states from the exact ones, over all samples and units; order: how fast it falls from the "
        "row above",
        ["<i>n</i>", "<i>c</i>′<i>g</i> at most", "Largest", "R.m.s.", "Order"],
        rows,
    )
    return (
        "<p>Here samples are held, as a discrete cell sees them. Slowed down by <i>n</i>, each sample is held for <i>n</i> "
        "steps and "
        "the clock’s speed is <i>c</i>′ = 1/<i>n</i>, so the gate <i>g</i> becomes <i>g</i>/<i>n</i>. By the theorem the "
        "exact states "
        "after each sample do not change. Solved on the slowed recordings themselves, over the first "
        f"{excerpt} samples and for every <i>n</i>, they are the same to {scientific(moved)}.</p>\n"
        f"{drawn}"
        "<p>Why 1/<i>n</i>: a step is the Taylor expansion cut after its first term. What it drops is about "
        "(<i>g</i>/<i>n</i>)<sup>2"
        "</sup>/2 of the distance to the target, there are <i>n</i> steps a sample, and the units forget old errors, so about "
        "<i>g</i>/<i>n</i> remains. Tallec and Ollivier call the expansion valid when the gate times the clock’s speed is "
        f"≲ 1 (sec. 1). As recorded it reaches {gate:.2f}, at the edge of that regime: good enough to compute with, "
        "but visibly not the solution.</p>"
    )


def _pictures(exact: np.ndarray, runs: list[StepRun], orders: list[float]) -> tuple[Picture, ...]:
    unit = int(np.argmax(np.square(runs[0].states - exact).mean(0)))
    # Around the largest deviation of the coarsest steps.
    worst = int(np.argmax(np.abs(runs[0].states[:, unit] - exact[:, unit])))
    start = max(0, min(worst - 25, len(exact) - 50))
    shown = slice(start, min(start + 50, len(exact)))
    drawn = [(run.n, run.states[:, unit]) for run in runs if run.n in (1, 4, 16)]
    return (
        Picture(
            inline_svg(
                plots.step_states(exact[:, unit], drawn, shown, unit),
                "figure-steps",
                "One unit, stepped and exact",
                "Three rows, with 1, 4 and 16 steps a sample: with one step the dots overshoot the exact line, with 16 they "
                "lie on it.",
            ),
            f"<b>One unit, stepped and exact</b>, around the sample where one step a sample is worst: it overshoots, "
            f"and with {runs[-1].n} steps the dots lie on the line.",
        ),
        Picture(
            inline_svg(
                plots.step_errors([run.n for run in runs], [run.largest for run in runs], [run.rms for run in runs]),
                "figure-order",
                "Deviation against steps a sample",
                f"Both axes logarithmic: largest and root mean square deviation fall along lines of slope -1, from "
                f"{runs[0].largest:.2g} "
                f"at one step to {runs[-1].largest:.2g} at {runs[-1].n}.",
            ),
            f"<b>Twice the steps, half the deviation.</b> Both axes logarithmic; the slope of the last doubling is "
            f"−{orders[-1]:.2f}.",
        ),
    )
