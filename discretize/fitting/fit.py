r"""Fit an equation's parameters to data by least squares over its solutions.

    minimize  sum_k ((seen(h(t_k)) - value_k) / noise)^2      over parameters and initial states within their bounds

SciPy's `least_squares` is the outer loop; residuals and Jacobians are batched solves, all starts in one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.errors import SolverWarning, warn_user
from discretize.fitting.device import on_the_cpu
from discretize.fitting.problem import Problem, as_problem
from discretize.fitting.result import Fit
from discretize.fitting.run import StartSearch, scales_of
from discretize.fitting.series import of_one
from discretize.fitting.shooting import Shooting, Solver
from discretize.fitting.unknowns import drawn
from discretize.settings import Method, Settings

__all__ = ["fit"]

RTOL, MAX_NUM_STEPS = 1e-6, 10_000
APART = torch.tensor([[0.0], [0.001], [0.002]], dtype=torch.float64, device="cpu")  # of three samples, in sizes


@on_the_cpu
def fit(
    f: Callable[..., Any],
    data: object,
    params: Mapping[str, tuple[Any, Any, Any]],
    *,
    h0: Mapping[str, Any] | None = None,
    observe: Sequence[str] | Mapping[str, str | Callable[..., Any]] | None = None,
    noise: float | Sequence[float] | Mapping[str, float] | None = None,
    starts: int = 1,
    pieces: int = 1,
    seed: int = 0,
    method: Method = "dopri5",
    rtol: float = RTOL,
    max_step: float | None = None,
    max_num_steps: int = MAX_NUM_STEPS,
    fused: bool | str = True,
    max_nfev: int = 100,
) -> Fit:
    r"""Fit parameters of dh/dt = f(t, h, **params), and initial states, to series that were measured.

    Args:    f: as for `integrate`, and after t and h the parameters by name, numbers to it; or a module of (t, h), whose
             weights are parameters too; or a `VectorField` without input.
             data: (ts, values), or a list of such series, each with times of its own, increasing, the first that of its
             initial state; nan, or masked, where nothing was measured. After the values perhaps a dict of known numbers of this
             series, which f takes by name: the voltage of a clamp, say.
             params: name: (start, low, high); a bound may be None or infinite. A start that is an array is so many parameters.
             h0: state: its known number, a tensor of one for each series, (start, low, high), fitted for each series, or the
             name of a parameter, which all series start from; in the order of h, which names the states. None: each is
             measured, and is fitted from its first value on.
             observe: what is measured: None, each state; names of states; or output: name of a state, or a function
             (t, h, **params) -> (batch,). Other states are not seen.
             noise: standard deviation, for all outputs, in their order, or by name, in their units; None: estimated for each
             output from what the fit leaves.
             starts: so many searches in one batch, from the given start and others, drawn by `seed` between the bounds, on a
             logarithmic scale where both are positive. The best end counts.
             pieces: above 1, multiple shooting: each series in so many pieces with starts of their own, which are drawn
             together; then all is searched from there as one piece.
             method, rtol, max_step, max_num_steps, fused: of the solves, as for `integrate`; `atol` follows from the size of each
             state. max_nfev: steps of a search.
    Shape:   ts (n,), values (n, outputs), or (n,) of one.
    Raises:  TypeError, ValueError for what does not fit; SolverError where the equation cannot be solved at any start. Warns
             with SolverWarning where the search has not ended, and of `rtol` and `max_num_steps` beside a method of steps of one
             length, which does not read them; the fit still takes `rtol` for the error of its solves, and trusts no noise or
             direction below it.
    Source:  Bock 1983, "Recent advances in parameter identification techniques for O.D.E.", for multiple shooting.
    """
    with needed_by("discretize.fit"):
        import scipy.optimize  # noqa: F401, PLC0415 - of an extra
    starts, pieces = checks.positive_size("starts", starts), checks.positive_size("pieces", pieces)
    max_nfev, rtol = checks.positive_size("max_nfev", max_nfev), checks.positive_number("rtol", rtol)
    settings: dict[str, Any] = {"method": method, "max_step": max_step, "fused": fused}
    how = Settings(rtol=rtol, max_num_steps=max_num_steps, **settings)
    how.say_unread(rtol=RTOL, max_num_steps=MAX_NUM_STEPS, changes="no step")  # the fit itself reads `rtol`
    settings |= {"max_num_steps": max_num_steps} if how.adaptive else {}
    settings |= {"on_failure": "keep"} if how.steps_alone else {}
    problem = as_problem(f, data, params, h0, observe)
    levels = _noise(noise, problem.outputs)
    if problem.count < len(problem.unknowns) + (levels is None):
        raise ValueError(
            f"The data are {problem.count} numbers, too few for {len(problem.unknowns)} unknowns"
            f"{' and the noise' if levels is None else ''}: {', '.join(each.name for each in problem.unknowns)}."
        )
    trials = drawn(problem.unknowns, starts, checks.size("seed", seed))
    solver = Solver(torch.ones(len(problem.states), dtype=torch.float64), rtol, settings)
    _settle(problem, solver)
    solver = replace(solver, scales=scales_of(problem, solver, trials))
    search = StartSearch(problem, solver, levels, max_nfev)
    optimum = search.run(trials, pieces)
    result = Fit.of(search, optimum, one=of_one(data))
    if not result.stats["converged"]:
        warn_user(
            f"The search has not ended in a minimum ({optimum.stats['message']}); raise `max_nfev`, now {max_nfev}, or give "
            "another start, several `starts`, or `pieces`.",
            SolverWarning,
        )
    return result


def _settle(problem: Problem, solver: Solver) -> None:
    """Have f and what is observed called for three samples that differ in each number, from the start of the first series on."""
    sizes = np.array([each.size for each in problem.unknowns])
    first = torch.as_tensor(np.array([each.start for each in problem.unknowns]) / sizes)
    shooting = Shooting(problem, solver, sizes)
    h0, q = (each[:, 0] for each in shooting.rows_of(first.repeat(3, 1)))
    start, length, q = shooting.ts[:1, :1], shooting.ts[-1, 0] - shooting.ts[0, 0], q * shooting.q_sizes
    inwards = torch.tensor([1.0 if each.high > 0 else -1.0 for each in problem.unknowns[: problem.params]], dtype=torch.float64)
    inwards = torch.cat([inwards, torch.ones(q.shape[1] - len(inwards), dtype=torch.float64)])
    with torch.no_grad():
        moved = length * problem.equation.alone(start, h0[:1], q[:1])
        t, h, q = start + length * APART, _apart(h0, moved), _apart(q, inwards * shooting.q_sizes)
        for named in (problem.equation, *(at for at in problem.observe if not isinstance(at, int))):
            named.settle(t, h, q)


def _apart(values: Tensor, else_by: Tensor) -> Tensor:
    """Return three samples, each number a thousandth of itself further than in the one before, or of another where it is 0:
    there all ways to read the samples agree, as a sum over them and one over units."""
    by = torch.where(values != 0, values, torch.where(else_by.isfinite() & (else_by != 0), else_by, 1.0))
    return values + by * APART


def _noise(given: Any, outputs: Sequence[str]) -> np.ndarray | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        if given.keys() != set(outputs):
            raise ValueError(f"`noise` names {', '.join(given)}, what is measured is {', '.join(outputs)}.")
        given = [given[name] for name in outputs]
    each = [given] * len(outputs) if isinstance(given, int | float) or (isinstance(given, Tensor) and not given.dim()) else given
    if len(each) != len(outputs):
        raise ValueError(f"`noise` must be one number, or one for each of {', '.join(outputs)}, got {len(each)}.")
    return np.array([checks.positive_number(f"noise of {name}", level) for name, level in zip(outputs, each, strict=True)])
