"""The result of a fit: parameters, standard errors, what the data do not tell, states, residuals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.fitting.device import on_the_cpu
from discretize.fitting.profile import Profile, profiled
from discretize.fitting.run import Optimum, StartSearch
from discretize.fitting.shooting import Shooting
from discretize.fitting.uncertainty import uncertainty

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["Fit"]

ENDED = 0.01  # of chi2, that a step to where it would be smallest if it were a parabola still would save


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    r"""What `fit` found.

    Attributes: params: number by name, initial states too, "v(0)", of several series "v(0)[1]"; stderr: their standard errors,
    None where the data do not tell it; why: the reason for each None; identified: the names with one, in the order of the rows of
    covariance and correlations; combinations: for each direction in which the data do not change, by how many parts of itself
    each parameter changes along it; chi2: the sum of squares of residuals in noise levels, of `degrees` of freedom; noise: of
    each output, as given or estimated; states (n, state) and residuals (n, outputs), value - model, in the units of the data,
    nan where nothing was measured: a list of these for several series; stats: solves, trials, "chi2_of_starts", "converged".
    """

    params: dict[str, float]
    stderr: dict[str, float | None]
    why: dict[str, str]
    identified: list[str]
    covariance: Tensor
    combinations: list[dict[str, float]]
    chi2: float
    degrees: int
    noise: dict[str, float]
    states: Any
    residuals: Any
    stats: dict[str, Any]
    search: StartSearch
    optimum: Optimum

    @classmethod
    def of(cls, search: StartSearch, optimum: Optimum, one: bool) -> Fit:
        """Read off what a search has found; one: the data were one series."""
        problem, sizes = search.problem, optimum.sizes
        names = [each.name for each in problem.unknowns]
        bounds = tuple(np.array([getattr(each, side) for each in problem.unknowns]) / sizes for side in ("low", "high"))
        shooting = Shooting(problem, search.solver, sizes)
        values = shooting.values.numpy() / optimum.noise[shooting.entries[:, 2]]
        found = uncertainty(
            optimum.J,
            optimum.residuals,
            float(np.linalg.norm(values)),
            search.solver.rtol,
            optimum.x,
            np.array([each.size for each in problem.unknowns]) / sizes,
            (bounds[0], bounds[1]),
        )
        errors = dict(zip(found.identified, np.sqrt(found.covariance.diagonal()), strict=True))
        relative = [
            {names[c]: float(direction[c] / abs(optimum.x[c] or 1)) for c in np.flatnonzero(direction)}
            for direction in found.directions
        ]
        combinations = [{name: by / max(map(abs, each.values())) for name, by in each.items()} for each in relative]
        numbers = dict(zip(names, (optimum.x * sizes).tolist(), strict=True))
        kept = sizes[found.identified]
        made = cls(
            params=numbers,
            stderr={name: float(errors[c] * sizes[c]) if c in errors else None for c, name in enumerate(names)},
            why={names[c]: _why(names[c], why, combinations) for c, why in sorted(found.why.items())},
            identified=[names[c] for c in found.identified],
            covariance=torch.as_tensor(found.covariance * kept * kept[:, None]),
            combinations=combinations,
            chi2=float(np.square(optimum.residuals).sum()),
            degrees=problem.count - len(names),
            noise=dict(zip(problem.outputs, optimum.noise.tolist(), strict=True)),
            states=None,
            residuals=None,
            stats={**optimum.stats, "converged": optimum.converged and found.decrement < ENDED},
            search=search,
            optimum=optimum,
        )
        states = [made(series.ts, k) for k, series in enumerate(problem.series)]
        left = [series.values - made.seen(series.ts, k, states[k]) for k, series in enumerate(problem.series)]
        return replace(made, states=states[0] if one else states, residuals=left[0] if one else left)

    @property
    def correlations(self) -> Tensor:
        """Those of the identified parameters."""
        errors = self.covariance.diagonal().sqrt()
        return self.covariance / errors / errors[:, None]

    @property
    def values(self) -> dict[str, Any]:
        """The parameters as f takes them: numbers, and tensors of those that are arrays."""
        numbers = list(self.params.values())
        return {
            name: torch.tensor(numbers[at : at + math.prod(shape)], dtype=torch.float64).reshape(shape) if shape else numbers[at]
            for name, (at, shape) in self.search.problem.arrays.items()
        }

    @on_the_cpu
    def __call__(self, ts: Any, series: int = 0) -> Tensor:
        """Solve for the states (n, state) at other times, increasing from the first one of the series or later, also beyond its
        last."""
        if not 0 <= checks.size("series", series) < len(self.search.problem.series):
            raise ValueError(f"`series` must be below {len(self.search.problem.series)}, got {series}.")
        problem, times = self.search.problem, checks.are_times("ts", ts)
        first = problem.series[series].ts[:1]
        if bool(times[0] < first[0]):
            raise ValueError(f"`ts` begins at {float(times[0]):g}, before series {series} does, at {float(first[0]):g}.")
        given = times if bool(times[0] == first[0]) else torch.cat([first, times])
        h0, q, equation = self._row(series)
        with torch.no_grad():
            z = self.search.solver.run(equation, torch.cat([h0 / equation.scales, q], 1), given[:, None])
            return z[-len(times) :, 0, : h0.shape[1]] * equation.scales

    def seen(self, ts: Tensor, series: int, states: Tensor) -> Tensor:
        """Return what would be measured of states (n, state) of a series: (n, outputs)."""
        _, q, equation = self._row(series)
        with torch.no_grad():
            return self.search.problem.seen(states, ts[:, None], (q * equation.sizes).expand(len(ts), -1))

    def _row(self, series: int) -> tuple[Tensor, Tensor, Any]:
        shooting = Shooting(self.search.problem, self.search.solver, self.optimum.sizes)
        h0, q = shooting.rows_of(torch.as_tensor(self.optimum.x)[None])
        return h0[:, series], q[:, series], shooting.equation

    @on_the_cpu
    def log_likelihood(self, params: Mapping[str, float | Tensor]) -> Tensor:
        """Return the log density of the data at these parameters, all else as fitted; differentiable, say for NUTS."""
        unknown = set(params) - self.params.keys()
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: none of the fitted {', '.join(self.params)}.")
        x = torch.stack([torch.as_tensor(params.get(name, value), dtype=torch.float64) for name, value in self.params.items()])
        shooting, noise = (
            Shooting(self.search.problem, self.search.solver, self.optimum.sizes),
            torch.as_tensor(self.optimum.noise),
        )
        u = (x / torch.as_tensor(self.optimum.sizes))[None]
        squares = shooting.residuals(u, noise, torch.ones_like(self.search.solver.scales)).square().sum()
        return -squares / 2 - (noise[shooting.entries[:, 2]] * math.sqrt(2 * math.pi)).log().sum()

    @on_the_cpu
    def profile(self, name: str, values: Sequence[float] | None = None, level: float = 0.95) -> Profile:
        r"""Hold one parameter at values, fit all others, and see what that costs: an interval that needs no normal law.

        Args:    name: of a fitted number; values: where to hold it; None: up to 4 standard errors to both sides, further where
                 that costs less than the level asks, within its bounds; level: of the interval.
        Raises:  ValueError for another name, values outside the bounds, and one without a standard error or two bounds.
        """
        if name not in self.params:
            raise ValueError(f"`name` must be one of {', '.join(self.params)}, got {name!r}.")
        sizes, along = self.optimum.sizes, np.zeros(len(self.params))
        kept = [list(self.params).index(each) for each in self.identified]
        if name in self.identified:
            k = self.identified.index(name)
            along[kept] = (self.covariance[k] / self.covariance[k, k]).numpy() * sizes[kept[k]] / sizes[kept]
        return profiled(self.search, self.optimum, name, self.stderr[name], along, values, level)

    @on_the_cpu
    def plot(self, units: Mapping[str, str] | None = None) -> ShownFigure:
        """Draw values and fitted states over time, and what is left in noise levels; units: of "time", states and outputs."""
        with needed_by("fit.plot"):
            from discretize.fitting.figure import drawn_fit  # noqa: PLC0415 - Matplotlib

        def solved(ts: Tensor, series: int) -> tuple[Tensor, Tensor]:
            states = self(ts, series)
            return states, self.seen(ts, series, states)

        return drawn_fit(self.search.problem, self.noise, solved, units or {})

    def _hardly(self, name: str, error: float) -> str:
        """Say where an error is as large as the number, and with which other one it goes."""
        if error < abs(self.params[name]) or len(self.identified) < 2:
            return ""
        row = self.correlations[self.identified.index(name)].tolist()
        most = max((each for each in self.identified if each != name), key=lambda each: abs(row[self.identified.index(each)]))
        return f"   hardly known: correlation {row[self.identified.index(most)]:+.3f} with {most}"

    def __repr__(self) -> str:
        width = max(map(len, self.params))
        lines = []
        for name, value in self.params.items():
            error = self.stderr[name]
            known = (
                f"{value:<10.4g} ± {error:.2g}{self._hardly(name, error)}"
                if error is not None
                else f"{value:<10.4g}   not known: {self.why[name]}"
            )
            lines.append(f"{name:<{width}}  {known}")
        levels = ", ".join(f"{name} {level:.3g}" for name, level in self.noise.items())
        estimated = "" if self.search.noise is not None else ", estimated"
        ended = "" if self.stats["converged"] else "\nThe search has not ended in a minimum; see `stats`."
        return (
            "\n".join([*lines, f"chi2 {self.chi2:.4g} of {self.degrees} degrees of freedom; noise{estimated}: {levels}"]) + ended
        )


def _why(name: str, why: str, combinations: list[dict[str, float]]) -> str:
    along = [
        ", ".join(f"{other} {by:+.2g} %" for other, by in each.items()) for each in combinations if name in each and len(each) > 1
    ]
    return f"the data do not change along {'; '.join(along)}" if along else why
