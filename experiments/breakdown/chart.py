r"""What becomes of one unit whose recurrence is negative, by every map: rest, cycles, chaos or divergence.

    dh/dt = g (tanh(w (h - theta)) - h)        at rest for every g, w and theta; for w < 0 at one point, from every start
    Euler: h + G (tanh(w (h - theta)) - h)     a flip where 1 - G + G w sech^2 = -1, then cycles, and chaos, G = g dt below 1 too

theta is the state at which the unit turns: with theta = 0 the map is odd, and its cycles are 2-cycles only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import ctrnn
import discretize
from derivations.processes.interruption import checkpoint
from discretize import Step
from discretize.analysis.dynamics.orbits import settled_periods
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section

__all__ = ["FATES", "G_DT", "THETA", "W", "ChartUnit", "chart_section", "count_values", "fates"]

FATES = ("rest", "2-cycle", "longer cycle", "chaos", "divergence")
REST, TWO, LONGER, CHAOS, DIVERGENCE = range(len(FATES))
THETA, START = 0.8, 0.1
G_DT = torch.logspace(-1, 1, 40, dtype=torch.float64)
W = torch.linspace(-30, 2, 33, dtype=torch.float64)
SETTLE, LONGEST, AVERAGED = 400, 64, 300  # steps before a period is looked for, the longest one, steps of an exponent
# The largest exponent is that of the points that are largest by `AVERAGED` steps, each from so many starts, for so many steps:
# by 32,000 in all its second digit stands.
CANDIDATES, STARTS, LONG = 8, 32, 1000
WEIGHTS = (-10.0, -30.0, -100.0, -1000.0, -10_000.0)
GATES_LOOKED_AT = np.arange(4.0, 8.5, 0.01)  # times |w|
FAR, NEAR, CHAOTIC = 1e3, 1e-5, 0.01
BLOCKS, TINY = 16, 1e-300  # of a run, for the standard error of its exponent; a derivative that is exactly 0
COARSE = 4  # every so many points of the grid are counted by brute force
AGREEING = 0.95  # of them; near a bifurcation 400 steps need not settle what 20,000 do
COUNTED = ("Euler", "ExponentialEuler", "FrozenBackwardEuler", "FrozenTrapezoid")
GATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Euler": lambda y: y,
    "ExponentialEuler": lambda y: -np.expm1(-y),
    "FrozenBackwardEuler": lambda y: y / (1 + y),
    "FrozenTrapezoid": lambda y: y / (1 + y / 2),
}


class ChartUnit(ctrnn.VectorField):
    """tanh(w (h - theta)) - h, its input [w, theta]; the rate is in the length of the step."""

    def __init__(self) -> None:
        super().__init__(2, 1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        w, theta = projected.split(1, -1)
        return torch.tanh(w * (h - theta)) - h

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


def stepped(step: Step, g_dt: Tensor, w: Tensor) -> discretize.Map:
    """Make the map at all points of a plane, one a sample: g_dt and w (n,)."""
    x = torch.stack([w, torch.full_like(w, THETA)], -1)
    return discretize.Map(ChartUnit(), step, lambda p: x[p.long()], lambda p: g_dt[p.long()])


@torch.no_grad()
def fates(step: Step, g_dt: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the index into `FATES` of each point; without a period the exponent a step and its standard error, else nan."""
    system, point = stepped(step, g_dt, w), torch.arange(len(w), dtype=torch.float64)
    h = torch.full((len(w), 1), START, dtype=torch.float64)
    for _ in range(SETTLE):
        h = _kept_in_sight(system(h, point))
    lost = ~(h.abs() < FAR)[:, 0]
    period = settled_periods(system, h, LONGEST, point, tolerance=NEAR, size=torch.ones(1))
    kinds = torch.where(period == 1, REST, torch.where(period == 2, TWO, LONGER))
    exponent, error = torch.full_like(w, torch.nan), torch.full_like(w, torch.nan)
    open_ = ((period == 0) & ~lost).nonzero()[:, 0]
    if len(open_):
        run = discretize.lyapunov(system, h[open_], point[open_], intervals=AVERAGED, transient=0)
        exponent[open_], error[open_] = run.exponents[:, 0], run.errors[:, 0]
        lost[open_] = torch.isnan(exponent[open_])
        kinds[open_] = torch.where(exponent[open_] > CHAOTIC, CHAOS, LONGER)
        # What a slow rest or 2-cycle has not reached in `SETTLE` steps it has nearly.
        slow = settled_periods(system, run.h, 2, point[open_], tolerance=1e-2, size=torch.ones(1))
        kinds[open_] = torch.where((slow > 0) & (exponent[open_] <= CHAOTIC), slow - 1, kinds[open_])
    return kinds.masked_fill(lost, DIVERGENCE), exponent, error


@torch.no_grad()
def largest_exponent(step: Step, g_dt: Tensor, w: Tensor, exponent: Tensor) -> tuple[float, float]:
    """Measure the largest exponent a step of these points, and its standard error; `exponent`: of short runs, nan for none."""
    first = exponent.nan_to_num(-torch.inf).topk(min(CANDIDATES, len(w))).indices
    first = first[exponent[first] > CHAOTIC]
    if not len(first):
        return math.nan, math.nan
    system = stepped(step, g_dt[first], w[first])
    point = torch.arange(len(first), dtype=torch.float64).repeat(STARTS)
    h = (START + 1e-3 * torch.arange(STARTS, dtype=torch.float64)).repeat_interleave(len(first))[:, None]
    run = discretize.lyapunov(system, h, point, intervals=LONG, transient=SETTLE)
    exponents = run.exponents[:, 0].unflatten(0, (STARTS, -1))
    best = int(exponents.mean(0).argmax())
    return float(exponents.mean(0)[best]), float(exponents.std(0)[best]) / math.sqrt(STARTS)


def least_chaotic(w: float, gates: np.ndarray = GATES_LOOKED_AT, steps: int = 16_000) -> float:
    """Find the least G |w|, of those in `gates`, at which Euler's step is chaotic; nan where none is.

    Not chaotic at any G |w| <= 1 - G: the map is monotone there, as its derivative is at least 1 - G - G |w|.
    """
    G = gates / abs(w)
    h, rates = np.full_like(G, START), np.zeros((BLOCKS, len(G)))
    for k in range(-steps // 4, steps):
        turned = np.tanh(w * (h - THETA))
        if k >= 0:
            rates[k * BLOCKS // steps] += np.log(np.abs(1 - G + G * w * (1 - turned**2)) + TINY)
        h = h + G * (turned - h)
    rates *= BLOCKS / steps
    chaotic = (rates.mean(0) > CHAOTIC) & (rates.mean(0) > 4 * rates.std(0, ddof=1) / math.sqrt(BLOCKS)) & (G < 1)
    return float(gates[chaotic][0]) if chaotic.any() else math.nan


def _kept_in_sight(h: Tensor) -> Tensor:
    """What has left stays outside, and is a number: implicit steps refuse others."""
    return torch.where(h.abs() < FAR, h, FAR)


def count_values(gate: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Count the values that a long run of h + G (tanh(w (h - theta)) - h) takes; 0 beyond all bounds."""
    h = np.full_like(w, START)
    with np.errstate(all="ignore"):
        for _ in range(20_000):
            h = h + gate * (np.tanh(w * (h - THETA)) - h)
        seen = []
        for _ in range(256):
            h = h + gate * (np.tanh(w * (h - THETA)) - h)
            seen.append(h)
    values = np.sort(np.stack(seen), 0)
    return np.where(np.abs(h) < FAR, 1 + (np.diff(values, axis=0) > 1e-6).sum(0), 0)


def expected(values: np.ndarray) -> np.ndarray:
    """Tell the fate by the number of values; more than `LONGEST` are chaos, or a cycle too long to be seen."""
    return np.select([values == 0, values == 1, values == 2, values <= LONGEST], [DIVERGENCE, REST, TWO, LONGER], CHAOS)


@torch.no_grad()
def chart_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Compute the plane of g dt and w for every map, and check it by counting."""
    g_dt, w = G_DT.repeat(len(W)), W.repeat_interleave(len(G_DT))
    found, rates, errors, largest = {}, {}, {}, {}
    say(f"  map, share of the plane: {', '.join(FATES)}; largest exponent a step, at G < 1 or g dt < 1, ± two standard errors")
    for name, step in MAPS.items():
        checkpoint()
        found[name], rates[name], errors[name] = fates(step, g_dt, w)
        shares = [float((found[name] == k).double().mean()) for k in range(len(FATES))]
        below = (g_dt < 1) | torch.tensor(name == "ExponentialEuler")
        largest[name] = largest_exponent(step, g_dt[below], w[below], rates[name][below])
        said = "      none" if math.isnan(largest[name][0]) else f"{largest[name][0]:>6.2f} ± {2 * largest[name][1]:.3f}"
        say(f"  {name:<22}" + "".join(f"{share:>7.1%}" for share in shares) + said)
    agreement = {name: _agreement(name, found[name]) for name in COUNTED}
    say(f"  counted by brute force, the share that agrees: {', '.join(f'{k} {v:.1%}' for k, v in agreement.items())}")
    least = {w: least_chaotic(w) for w in WEIGHTS}
    say(f"  Euler is chaotic from G |w| = {', '.join(f'{v:.1f} at w = {w:g}' for w, v in least.items())}")
    pictures = {"the equation": np.zeros((len(W), len(G_DT)), dtype=int)}
    pictures |= {name: fate.reshape(len(W), -1).numpy() for name, fate in found.items()}
    return Section.from_template(
        "breakdown/chart.html.jinja",
        "chart",
        figures={"chart": figures.chart(pictures, G_DT.numpy(), W.numpy(), FATES)},
        numbers={"rows": _rows(found, {"exponent a step": rates, "its standard error": errors}, g_dt, w)},
        failures=list(_failures(found, agreement, g_dt, least)),
        shares=[
            [name, *(f"{float((fate == k).double().mean()):.1%}" for k in range(len(FATES)))] for name, fate in found.items()
        ],
        fates=FATES,
        theta=THETA,
        agreement=min(agreement.values()),
        counted=len(W[::COARSE]) * len(G_DT[::COARSE]) * len(COUNTED),
        largest=largest["Euler"][0],
        uncertain=2 * largest["Euler"][1],
        least=[(f"{abs(w):g}", f"{value:.1f}", f"{value / abs(w):.2g}") for w, value in least.items()],
    )


def _agreement(name: str, found: Tensor) -> float:
    g, w = np.meshgrid(G_DT.numpy()[::COARSE], W.numpy()[::COARSE])
    ours = found.reshape(len(W), -1)[::COARSE, ::COARSE].numpy()
    return float((expected(count_values(GATES[name](g), w)) == ours).mean())


def _failures(found: dict[str, Tensor], agreement: dict[str, float], g_dt: Tensor, least: dict[float, float]) -> list[str]:
    failures = [f"{name}: {v:.1%} of points agree with a count of periods." for name, v in agreement.items() if v < AGREEING]
    if not ((found["Euler"] == CHAOS) & (g_dt < 1)).any():
        failures.append("Euler shows no chaos for g dt < 1, where the ledger's flips lead to it.")
    failures += [f"Euler shows no chaos at w = {w:g}, for any gate." for w, value in least.items() if math.isnan(value)]
    return failures


def _rows(found: dict[str, Tensor], values: dict[str, dict[str, Tensor]], g_dt: Tensor, w: Tensor) -> pd.DataFrame:
    fields = [f"w = {value:g}" for value in w.tolist()]
    return pd.concat(
        frame("one unit, chart", fields, name, g_dt.numpy(), quantity, each[name].numpy(), [FATES[k] for k in fate])
        for quantity, each in values.items()
        for name, fate in found.items()
    )
