r"""One unit and a target that is held: dh/dt = g (f - h), and dh/dt = -g |h|^r h.

The exact factor of the distance to the target is e^(-g dt), and (1 + r y)^(-1/r) with y = g dt |h|^r; each step map has its
own, R(-g dt), and with the power decay whatever it makes of h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch

import ctrnn
import discretize
from discretize import REGIONS, Step
from experiments.breakdown import figures
from experiments.breakdown.maps import GATES, MAPS, limits
from experiments.breakdown.rows import Row
from experiments.data.recording import Recording
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["decay_factor", "errors", "held_section", "power_section", "regions_of"]

MARKED = (0.5, 1.0, 1.8, 5.0, 50.0, 200.0)
GRID = (
    torch.cat([torch.logspace(-2, math.log10(50), 400, dtype=torch.float64), torch.tensor([*MARKED, 2.0], dtype=torch.float64)])
    .sort()
    .values
)
EXPONENT = 2.0


def errors(step: Step, g: torch.Tensor) -> torch.Tensor:
    """The error of one step from h = 0 to the target f = 1, by the map itself: |R(-g) - e^-g|, but for the splittings."""
    field = ctrnn.Relaxation(_One(), _Told(), ctrnn.LinearDecay())
    moved = step(field, g[:, None], torch.zeros_like(g)[:, None], 1.0)[:, 0]
    return (moved + torch.expm1(-g)).abs()


class _One(ctrnn.Part):
    """The candidate 1."""

    projected_size = 0
    input_size, hidden_size = 1, 1

    def project(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., :0]

    def flow(self, projected: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(h)


class _Nowhere(ctrnn.Part):
    """The candidate 0."""

    projected_size = 0
    input_size, hidden_size = 1, 1

    def project(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., :0]

    def flow(self, projected: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(h)


class _Told(ctrnn.Part):
    """The rate that the input says."""

    projected_size = 1

    def project(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def flow(self, projected: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return projected


def decay_factor(step: Step, y: torch.Tensor, exponent: float = EXPONENT) -> torch.Tensor:
    """What one step leaves of h = 1 under dh/dt = -y |h|^r h: the same for every h and g with g dt |h|^r = y."""
    field = ctrnn.Relaxation(_Nowhere(), _Told(), ctrnn.PowerDecay(exponent))
    return step(field, y[:, None], torch.ones_like(y)[:, None], 1.0)[:, 0]


def regions_of(factors: torch.Tensor) -> list[str]:
    """The region of each factor."""
    found = []
    for R in factors.tolist():
        if not abs(R) <= 1 + 1e-12:
            found.append("divergent")
        elif abs(abs(R) - 1) <= 1e-12:
            found.append("marginal")
        else:
            found.append("monotone" if R >= 0 else "overshooting")
    return found


def bars(g: torch.Tensor, regions: list[str]) -> list[tuple[float, float, str]]:
    """Neighbouring g of one region, as one piece."""
    edges = [float(g[0]), *(float((a * b).sqrt()) for a, b in pairwise(g)), float(g[-1])]
    pieces: list[tuple[float, float, str]] = []
    for k, found in enumerate(regions):
        # Marginal is a single point, at the edge of what follows.
        region = found if found != "marginal" else regions[min(k + 1, len(regions) - 1)]
        if pieces and pieces[-1][2] == region:
            pieces[-1] = (pieces[-1][0], edges[k + 1], region)
        else:
            pieces.append((edges[k], edges[k + 1], region))
    return pieces


@torch.no_grad()
def held_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Gates, limits and errors on a target that is held."""
    g = GRID[GRID <= 50]
    rows: list[Row] = []
    for name, step in MAPS.items():
        found, off, factor = discretize.regions(step, GRID), errors(step, GRID), step.stability(-GRID)
        rows += [
            Row("one unit, held target", "g (f - h)", name, float(x), "factor R(-g dt)", float(R), REGIONS[int(region)])
            for x, R, region in zip(GRID, factor, found, strict=True)
        ]
        rows += [
            Row("one unit, held target", "g (f - h)", name, float(x), "error of one step", float(e))
            for x, e in zip(GRID, off, strict=True)
        ]
    lines, said = [], {}
    for name, step in MAPS.items():
        where = limits(step)
        said[name] = where
        lines.append([name, str(step.order), _cost(step), GATES[name], _limit(where.overshoots), _limit(where.diverges)])
    stiff = [[name, *(_error(step, x) for x in MARKED)] for name, step in MAPS.items()]
    euler, exponential = said["Euler"], said["ExponentialEuler"]
    failures = []
    if abs((euler.overshoots or 0) - 1) > 1e-6 or abs((euler.diverges or 0) - 2) > 1e-6:
        failures.append(f"Euler overshoots from {euler.overshoots} and diverges from {euler.diverges}, not from 1 and 2.")
    if exponential.overshoots is not None or exponential.diverges is not None:
        failures.append("Exponential Euler leaves its target, which it never should.")
    for name, step in MAPS.items():
        theory = (step.stability(-GRID) - torch.exp(-GRID)).abs()
        apart = float(((errors(step, GRID) - theory).abs() / (1 + theory)).max())
        if apart > 1e-12 and "Splitting" not in name:
            failures.append(f"{name} does not do what its stability function says: {apart:.1e} apart.")
    identity = softplus_identity()
    if identity > 1e-14:
        failures.append(f"sigma(z) and 1 - e^-softplus(z) differ by {identity:.1e}.")
    say("one unit, held target:   map, overshoots from, diverges from")
    for name, where in said.items():
        say(f"  {name:<22}{_plain(where.overshoots):>8}{_plain(where.diverges):>8}")
    return Section(
        key="held",
        title="One unit and a target that is held",
        lead="The distance to the target should shrink by e<sup>−<i>g</i> d<i>t</i></sup> in a step. The Taylor step makes it "
        "1 − <i>g</i> d<i>t</i>: right for small <i>g</i> d<i>t</i>, past the target from 1 on, and away from it from 2 on.",
        body=table(
            "The gate <i>G</i> that each step makes of d<i>h</i>/d<i>t</i> = <i>g</i>(<i>f</i> − <i>h</i>) with d<i>t</i> = "
            "1, so that <i>h</i> ← <i>h</i> + <i>G</i>(<i>f</i> − <i>h</i>); the order; the cost of a step in evaluations of "
            "the field, <i>J</i> for a Jacobian; and the <i>g</i> d<i>t</i> from which it overshoots and diverges",
            ["Step", "Order", "Cost", "Gate", "Overshoots", "Diverges"], lines, "wide",
        ),
        pictures=(
            Picture(
                inline_svg(
                    figures.region_bars({name: bars(g, [REGIONS[int(r)] for r in discretize.regions(step, g)]) for name, step in MAPS.items()}, "g dt"),  # noqa: E501
                    "figure-regions", "Where each step overshoots and diverges",
                    "A bar for each step map over g dt from 0.01 to 50: Euler monotone to 1, overshooting to 2, then "
                    "divergent; explicit maps of higher order diverge from 2 and 2.8; exponential, backward Euler and "
                    "splitting maps stay monotone; the trapezoid overshoots from 2 and never diverges.",
                ),
                "<b>Where each step overshoots and diverges.</b> Read along a bar: with growing <i>g</i> d<i>t</i> every "
                "explicit map leaves the equation; exponential maps and backward Euler never do. Splittings do not leave it "
                "either, but come to rest beside it.",
            ),
            Picture(
                inline_svg(
                    figures.by_family(
                        g.tolist(), {name: errors(step, g).clamp(min=1e-17).tolist() for name, step in MAPS.items()},
                        "g dt", "error of one step, in distances to the target", (1e-9, 10), marks=(1, 2),
                    ),
                    "figure-held", "Error of one step against g dt",
                    "Both axes logarithmic. Taylor and Runge-Kutta maps rise with their order and leave the panel beyond 2; "
                    "exponential maps are exact and below the panel; backward Euler has its largest error, 0.2, near 2.5 and "
                    "falls again; the trapezoid's tends to 1.",
                ),
                "<b>The error of one step.</b> The slopes on the left are the orders plus one. Lines that are not there are "
                "exact: exponential maps, at every <i>g</i>. Splittings forget as they should, but write <i>g f</i> and "
                "<i>g</i> e<sup>−<i>g</i>/2</sup> <i>f</i>.",
            ),
        ),
        after=table(
            "Error of one step, in distances to the target; theory is |<i>R</i>(−<i>g</i>) − e<sup>−<i>g</i></sup>|, and "
            "what the maps themselves do agrees with it to rounding; splittings write <i>g f</i> and <i>g</i> "
            "e<sup>−<i>g</i>/2</sup> <i>f</i> in place of <i>G f</i>",
            ["Step", *(f"<i>g</i> d<i>t</i> = {x:g}" for x in MARKED)], stiff, "wide",
        )
        + "<p><b>A sigmoid gate is no approximation.</b> σ(<i>z</i>) = 1 − e<sup>−softplus(<i>z</i>)</sup>, so <i>h</i> + "
        "σ(<i>z</i>)(<i>f</i> − <i>h</i>), the Taylor step of a rate below 1, is also the exact step of the rate "
        "softplus(<i>z</i>), which has no upper bound. Over 200 random inputs and a cell of 16 units, run either way on the "
        f"same weights (<code>ctrnn.softplus_clock</code>), states differ by {scientific(identity)}. The limit at 1 is one of "
        "the Taylor step, not of gates.</p>\n",
        numbers={"rows": rows, "limits": {name: vars(where) for name, where in said.items()}, "softplus_identity": identity},
        verdict="Taylor steps overshoot from <i>g</i> d<i>t</i> = 1 and diverge from 2; exponential steps do neither, and "
        "are exact here for every <i>g</i>.",
        failures=tuple(failures),
    )  # fmt: skip


def softplus_identity() -> float:
    """The largest difference between a sigmoid gate's Euler step and a softplus rate's exponential step, over a run."""
    generator = torch.Generator().manual_seed(0)
    field = ctrnn.gated(4, 16, dtype=torch.float64, generator=generator)
    for parameter in field.parameters():
        parameter.mul_(3)
    xs = torch.randn(200, 1, 4, dtype=torch.float64, generator=generator)
    familiar = discretize.DiscreteRNN(field)(xs)[0]
    assert isinstance(field, ctrnn.Relaxation)
    twin = discretize.DiscreteRNN(ctrnn.softplus_clock(field), discretize.ExponentialEuler())(xs)[0]
    return float((familiar - twin).abs().max())


@torch.no_grad()
def power_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """The same for |h|^r h."""
    y = torch.logspace(-2, math.log10(50), 61, dtype=torch.float64)
    exact = (1 + EXPONENT * y) ** (-1 / EXPONENT)
    factors = {name: decay_factor(step, y) for name, step in MAPS.items()}
    rows = [
        Row("one unit, power decay", f"-g |h|^{EXPONENT:g} h", name, float(x), "factor of one step", float(R), region)
        for name, found in factors.items()
        for x, R, region in zip(y, found, regions_of(found), strict=True)
    ]
    off = {name: (found - exact).abs().clamp(min=1e-17) for name, found in factors.items()}
    splitting = float(off["Splitting"].max())
    growing = float(y[regions_of(factors["Taylor2"]).index("divergent")])  # the first of the grid beyond 2/(r + 1)
    largest = {name: float(off[name].max()) for name in MAPS}
    say(f"power decay, r = {EXPONENT:g}: largest error of a step for g dt |h|^r up to 50")
    for name, worst in largest.items():
        say(f"  {name:<22}{worst:>10.3g}")
    return Section(
        key="power",
        title="Slow forgetting: |<i>h</i>|<sup><i>r</i></sup><i>h</i>",
        lead="Under d<i>h</i>/d<i>t</i> = −<i>g</i>|<i>h</i>|<sup><i>r</i></sup><i>h</i> the step that counts is <i>y</i> = "
        "<i>g</i> d<i>t</i> |<i>h</i>|<sup><i>r</i></sup>: the same step is harmless for a small state and wild for a large "
        "one. Euler flips the sign from <i>y</i> = 1 and grows without bound from 2; splitting is exact.",
        body="<p>Here <i>r</i> = 2. The exact factor is (1 + <i>r</i><i>y</i>)<sup>−1/<i>r</i></sup>. An exponential step "
        "holds the leak at what it was and forgets too much, e<sup>−<i>y</i></sup>; the linearized one keeps "
        "<i>r</i>/(<i>r</i> + 1) however long the step; the frozen backward step makes it 1/(1 + <i>y</i>).</p>\n",
        pictures=(
            Picture(
                inline_svg(
                    figures.region_bars(
                        {name: bars(y, regions_of(found)) for name, found in factors.items()}, "g dt |h|^r, r = 2"
                    ),
                    "figure-power-regions", "Power decay: where each step overshoots and diverges",
                    "A bar for each step map: Euler monotone to 1, overshooting to 2, divergent beyond; the second-order Taylor "
                    "step diverges from 2/3, other explicit maps from 2 on; exponential maps, backward Euler and splitting "
                    "stay monotone; the trapezoids overshoot from 2.",
                ),
                "<b>Slow forgetting: where each step overshoots and diverges</b>, against <i>g</i> d<i>t</i> "
                f"|<i>h</i>|<sup><i>r</i></sup>. The second-order Taylor step grows already from "
                f"2/(<i>r</i> + 1) = {2 / (EXPONENT + 1):.2f}, and Euler, which drops that term, from 2.",
            ),
            Picture(
                inline_svg(
                    figures.by_family(
                        y.tolist(),
                        {name: torch.where(values.isnan(), torch.inf, values).tolist() for name, values in off.items()},
                        "g dt |h|^r, r = 2", "error of one step, in units of |h|", (1e-9, 10),
                    ),
                    "figure-power", "Power decay: error of one step",
                    "Both axes logarithmic: all maps but the splittings rise from the left; explicit ones leave the panel "
                    "beyond 2, the others level off below 1.",
                ),
                "<b>The error of one step under slow forgetting.</b> The splittings are exact and below the panel.",
            ),
        ),
        numbers={"rows": rows, "largest_error": largest},
        verdict="Under slow forgetting Euler overshoots from <i>g</i> d<i>t</i> |<i>h</i>|<sup><i>r</i></sup> = 1 and grows "
        f"from 2; splitting is exact to {scientific(max(splitting, 1e-17))}.",
        failures=(
            *([f"Splitting is off by {splitting:.1e} under the power decay."] if splitting > 1e-14 else []),
            *([f"Taylor2 grows from {growing:.3g}."] if not 1 < growing * (EXPONENT + 1) / 2 < 1.2 else []),
        ),
    )  # fmt: skip


def _cost(step: Step) -> str:
    more = f" + {step.jacobians} <i>J</i>" if step.jacobians else ""
    return f"{step.evaluations + step.tangents}{more}"


def _limit(value: float | None) -> str:
    return "never" if value is None else f"{value:.3g}"


def _plain(value: float | None) -> str:
    return "never" if value is None else f"{value:.4g}"


def _error(step: Step, x: float) -> str:
    off = float(errors(step, torch.tensor([x], dtype=torch.float64)))
    return scientific(off) if off > 1e-15 else "0"
