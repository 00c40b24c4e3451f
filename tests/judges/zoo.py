r"""Problems of diffeqzoo and attractors of dysts, solved by `discretize.integrate` and by CVODE of SUNDIALS, far tighter.

    python tests/judges/zoo.py            a table of how often the error is within ten tolerances, and of work against precision

Needs the extra `judges`. The reference is CVODE's BDF at 1e-12, by scikit-sundae, as sundials4py asks for Python 3.12. An
attractor is followed for two of its Lyapunov times or one period, whichever is shorter: before trajectories part.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from as_scipy import Rows
from scipy.integrate import solve_ivp

import discretize

__all__ = ["Problem", "Solved", "attractors", "by_scipy", "growth", "problems", "solved"]

STIFF = {"hires", "rober", "oregonator"}
LEFT_OUT = {"neural_ode_mlp"}  # a random network, in a form of its own
# Farther than ten tolerances from the reference, for the equation multiplies what a step leaves, by `growth`; the fields
# of the last three have a corner besides.
FARTHER = {
    "lorenz96",
    "pleiades_first_order",
    "three_body_restricted_first_order",
    "AtmosphericRegime",
    "BelousovZhabotinsky",
    "Chua",
    "Colpitts",
    "FluidTrampoline",
}
CHAOTIC = {"lorenz63": 2.0, "lorenz96": 1.0, "roessler": 10.0, "henon_heiles_first_order": 10.0}
FINEST = 1e-12
LYAPUNOV_TIMES = 2.0


class Problem(NamedTuple):
    """dy/dt = f(t, y) on [start, end]."""

    name: str
    f: Callable[[float, np.ndarray], np.ndarray]
    y0: np.ndarray
    start: float
    end: float
    stiff: bool


class Solved(NamedTuple):
    """How large the error is at the end, in tolerances, and how often the field was called."""

    error: float
    calls: int


def problems() -> Iterator[Problem]:
    """Those of diffeqzoo that are initial value problems of first order."""
    from diffeqzoo import backend, ivps  # noqa: PLC0415 - an extra

    if not backend.has_been_selected:
        backend.select("numpy")
    for name in sorted(name for name in dir(ivps) if not name.startswith("_") and callable(getattr(ivps, name))):
        if name in LEFT_OUT:
            continue
        made = getattr(ivps, name)()
        made = made if hasattr(made, "initial_values") else made[0]  # beside it the grid of a heat equation
        if isinstance(made.initial_values, tuple):  # of second order, and there again as of first order
            continue
        y0 = np.ravel(np.asarray(made.initial_values, dtype=float))
        start, end = map(float, made.time_span)
        end = min(end, start + CHAOTIC.get(name, end - start))
        yield Problem(name, _right_side(made), y0, start, end, name in STIFF)


def _right_side(made: Any) -> Callable[[float, np.ndarray], np.ndarray]:
    return lambda t, y: np.ravel(np.asarray(made.vector_field(y, *made.vector_field_args), dtype=float))


def attractors(count: int = 40) -> Iterator[Problem]:
    """The first flows of dysts by name that are ordinary differential equations without a delay, and smooth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would rather have numba
        from dysts import base, flows  # noqa: PLC0415 - an extra

    found = 0
    for name in sorted(vars(flows)):
        kind = getattr(flows, name)
        if not (isinstance(kind, type) and issubclass(kind, base.DynSys)) or issubclass(kind, base.DynSysDelay):
            continue
        if kind in (base.DynSys, base.DynSysDelay):
            continue
        model = kind()
        y0, growth = np.asarray(model.ic, dtype=float), float(model.maximum_lyapunov_estimated or 0.0)
        if y0.ndim != 1 or not growth > 0:
            continue
        end = min(float(model.period), LYAPUNOV_TIMES / growth)
        yield Problem(name, lambda t, y, model=model: np.asarray(model.rhs(y, t), dtype=float), y0, 0.0, end, False)
        found += 1
        if found == count:
            return


def reference(problem: Problem) -> np.ndarray:
    """The state at the end, by CVODE."""
    from sksundae.cvode import CVODE  # noqa: PLC0415 - an extra

    def called(t: float, y: np.ndarray, slope: np.ndarray) -> None:
        slope[:] = problem.f(t, y)

    solver = CVODE(called, method="BDF", rtol=FINEST, atol=FINEST, max_num_steps=1_000_000)
    found = solver.solve(np.array([problem.start, problem.end]), problem.y0)
    if not found.success:
        raise RuntimeError(f"{problem.name}: {found.message}")
    return np.asarray(found.y[-1])


def solved(problem: Problem, tolerance: float, expected: np.ndarray, method: str | None = None) -> Solved:
    """The largest error over units at the end, and what it cost, with rtol = atol = tolerance."""
    method = method or ("rodas5p" if problem.stiff else "dopri5")
    with torch.no_grad():
        found = discretize.integrate(
            lambda t, h: Rows.apply(t.double(), h, problem.f),
            None,
            torch.from_numpy(problem.y0)[None],
            torch.tensor([problem.start, problem.end], dtype=torch.float64),
            method=method,
            rtol=tolerance,
            atol=tolerance,
        )
    error = np.abs(found.hs[-1, 0].numpy() - expected) / (tolerance * (1 + np.abs(expected)))
    return Solved(float(error.max()), found.stats["nfe"])


def by_scipy(problem: Problem, tolerance: float, expected: np.ndarray) -> Solved:
    """The same by SciPy's RK45, whose pair is that of dopri5."""
    found = solve_ivp(problem.f, (problem.start, problem.end), problem.y0, rtol=tolerance, atol=tolerance)
    return Solved(float((np.abs(found.y[:, -1] - expected) / (tolerance * (1 + np.abs(expected)))).max()), found.nfev)


def growth(problem: Problem, pieces: int = 8, change: float = 1e-7) -> float:
    """The most by which a change of all units, made at any of so many times, has grown at the end; both relative to 1 + |y|."""

    def moved(start: float, end: float, y: np.ndarray) -> np.ndarray:
        return np.asarray(solve_ivp(problem.f, (start, end), y, method="DOP853", rtol=FINEST, atol=FINEST).y[:, -1])

    times, y, grown = np.linspace(problem.start, problem.end, pieces + 1), problem.y0, 0.0
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (3, len(y)))
    for start, following in itertools.pairwise(times):
        for sign in signs:
            off = change * (1 + np.abs(y)) * sign
            one, other = (moved(start, problem.end, y + at) for at in (off, -off))
            grown = max(grown, float((np.abs(one - other) / (2 * change + change * np.abs(one + other))).max()))
        y = moved(start, following, y)
    return grown


def main() -> None:
    tolerances = (1e-4, 1e-6)
    for title, source in (("diffeqzoo", problems()), ("dysts", attractors())):
        for problem in source:
            expected = reference(problem)
            row = [solved(problem, tolerance, expected) for tolerance in tolerances]
            cells = " | ".join(f"{each.error:.2g} | {each.calls:,}" for each in row)
            print(
                f"| {title}: {problem.name} | {len(problem.y0)} | {'rodas5p' if problem.stiff else 'dopri5'} | {cells} |",
                flush=True,
            )
            if problem.name in FARTHER:
                theirs = " | ".join(f"{by_scipy(problem, tolerance, expected).error:.2g}" for tolerance in tolerances)
                print(f"growth: | {problem.name} | {growth(problem):.2g} | {theirs} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
