r"""The same weights stepped and solved: Euler steps of 1/n of a sample come as 1/n to the exact solution.

exact     the field solved over held samples
stepped   the recording slowed down by n, each sample held for n steps, the gate divided by n: steps of dt = 1/n
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import ctrnn
import discretize
from experiments.data.recording import Recording
from experiments.demo.clocks import SHARED, TOLERANCE, allowed_deviation, field_for, samples
from experiments.reports.plots import BLUE, GREEN, INK, MUTED, ORANGE, decades, legend, panels, powers_of_two, style
from experiments.reports.report import Section
from experiments.reports.templates import scientific

__all__ = ["SLOWED", "StepRun", "compare", "observed_orders", "section"]

SLOWED = (1, 2, 4, 8, 16)
DRAWN, SHOWN = (1, 4, 16), 50  # steps a sample, and samples, of the figure of states
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
    """Compute the exact states after each sample, the stepped ones, and the largest gate along the exact ones."""
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
    """Measure how far the exact states on the slowed recordings are from the unslowed ones, over a beginning of each."""
    field, xs = field_for(len(recording.channels)), samples(recording)[:EXCERPT]
    worst = 0.0
    for n in SLOWED[1:]:
        path, ts = ctrnn.HeldPath(xs.repeat_interleave(n, dim=0)), n * torch.arange(len(xs) + 1, dtype=torch.float64)
        solved = discretize.integrate(
            field,
            path,
            field.initial_state(1),
            ts,
            method="dopri8",
            rtol=TOLERANCE,
            atol=TOLERANCE,
            speed=ctrnn.AffineWarp(1 / n).speed,
        )
        worst = max(worst, float(np.abs(solved.hs[1:, 0].numpy() - exact[: len(xs)]).max()))
    return worst


def observed_orders(runs: list[StepRun]) -> list[float]:
    """Compute the power of 1/n with which the root mean square deviation falls between neighbours."""
    return [float(np.log(a.rms / b.rms) / np.log(b.n / a.n)) for a, b in pairwise(runs)]


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Compare, and say how the deviation falls with n."""
    exact, runs, gate = compare(recording)
    orders, moved = observed_orders(runs), slowed_exactly(recording, exact)
    say(f"  {'n':>3}{'c′ g at most':>14}{'largest':>10}{'r.m.s.':>10}{'order':>8}")
    for run, order in zip(runs, [None, *orders], strict=True):
        say(f"  {run.n:>3}{gate / run.n:>14.2f}{run.largest:>10.3g}{run.rms:>10.3g}{_order(order):>8}")
    excerpt = min(EXCERPT, len(exact))
    say(f"  the exact states on the slowed recordings deviate from those as recorded by {moved:.1e} (first {excerpt} samples)")
    unit = int(np.argmax(np.square(runs[0].states - exact).mean(0)))
    return Section.from_template(
        "demo/steps.html.jinja",
        "steps",
        figures={
            "steps": _states(
                exact[:, unit],
                {run.n: run.states[:, unit] for run in runs if run.n in DRAWN},
                _around_the_worst(runs[0].states[:, unit] - exact[:, unit]),
                unit,
            ),
            "order": _errors([run.n for run in runs], [run.largest for run in runs], [run.rms for run in runs]),
        },
        numbers={
            "largest_gate": gate,
            "runs": [{"n": run.n, "largest_deviation": run.largest, "rms_deviation": run.rms} for run in runs],
            "observed_orders": orders,
            "exact_slowed": {"samples": excerpt, "largest_deviation": moved},
        },
        failures=list(_failures(runs, orders[-1], moved)),
        rows=[
            [str(run.n), f"{gate / run.n:.2f}", scientific(run.largest), scientific(run.rms), _order(order)]
            for run, order in zip(runs, [None, *orders], strict=True)
        ],
        first=runs[0],
        last=runs[-1],
    )


def _failures(runs: list[StepRun], order: float, moved: float) -> Iterator[str]:
    low, high = ORDER_LIMITS
    if not low <= order <= high:
        yield f"From {runs[-2].n} to {runs[-1].n} steps a sample the deviation falls as n^-{order:.2f}, not as 1/n."
    if not moved <= allowed_deviation():
        yield f"Slowing the recording down moves the exact states by {moved:.1e}, more than {allowed_deviation():.0e}."


def _order(order: float | None) -> str:
    return "" if order is None else f"{order:.2f}"


def _around_the_worst(off: np.ndarray) -> slice:
    """The samples around the largest deviation."""
    start = max(0, min(int(np.argmax(np.abs(off))) - SHOWN // 2, len(off) - SHOWN))
    return slice(start, min(start + SHOWN, len(off)))


def _states(exact: np.ndarray, stepped: Mapping[int, np.ndarray], shown: slice, unit: int) -> Figure:
    """Draw one unit's state, exact and by Euler steps, a row for each number of steps a sample."""
    with style():
        figure, axes = panels(len(stepped), 0.95 + 1.05 * len(stepped), **SHARED)
        samples = np.arange(1, len(exact) + 1)[shown]
        for ax, (n, states) in zip(axes, stepped.items(), strict=True):
            ax.plot(samples, exact[shown], color=INK, linewidth=1.2, label="exact")
            ax.plot(samples, states[shown], "o-", color=ORANGE, markersize=2.6, linewidth=0.8, label="Euler steps")
            ax.set_title("1 step a sample: the cell as it is used" if n == 1 else f"slowed down: {n} steps a sample", pad=2)
            ax.grid(axis="y")
        axes[0].set_xlim(samples[0], samples[-1])
        axes[-1].set_xlabel("samples read")
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        legend(figure, axes[0])
        return figure


def _errors(ns: Sequence[int], largest: Sequence[float], rms: Sequence[float]) -> Figure:
    """Draw the deviation of the Euler steps from the solution against steps a sample, both logarithmic."""
    with style():
        figure, (ax,) = panels(1, 3.1)
        steps = np.asarray(ns, dtype=float)
        dotted: dict[str, Any] = {"color": MUTED, "linestyle": (0, (2, 2)), "linewidth": 1}
        for errors, colour, marker, name in ((largest, BLUE, "o", "largest"), (rms, GREEN, "s", "root mean square")):
            ax.plot(steps, errors, marker=marker, color=colour, markersize=5, label=name)
            ax.plot(steps, errors[-1] * steps[-1] / steps, **dotted)
        ax.plot([], [], **dotted, label="proportional to 1/n")
        powers_of_two(ax, ns)
        ax.set_yscale("log")
        decades(ax)
        ax.set(xlabel="steps a sample, n (each covers 1/n of it)", ylabel="deviation from exact")
        ax.grid(axis="y")
        legend(figure, ax)
        return figure
