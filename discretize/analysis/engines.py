r"""Do all engines of this machine agree on a field and its data?

    steps        the field and the step map, sample by sample; for solves the solver in torch
    compiled     the kernel that is written for the code of the field
    triton       the same for GPUs; of solves, too
    torchdiffeq  for solves, torchdiffeq's dopri5: an independent implementation

All of them are the same states and gradients to rounding, torchdiffeq's to the error of the solve. Which of them there are is
the field's, the step's and the machine's.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ctrnn import HeldPath, VectorField, checks
from ctrnn.calls import answered
from ctrnn.fields.field import check_batched_state, check_field, check_input
from ctrnn.fields.noise import check_no_noise
from ctrnn.inputs.samples import checked_samples
from discretize.errors import SolverError, SolverWarning
from discretize.kernels.eligibility import takes_triton
from discretize.kernels.price import kernels_at_once
from discretize.kernels.sequences import run_triton, run_written
from discretize.sequences.cell import DiscreteCell, checked_step
from discretize.sequences.unroll import unroll
from discretize.solve import integrate
from discretize.steps.along import HeldProblem
from discretize.steps.euler import Euler
from discretize.steps.step import Step
from discretize.text_report import TextReport
from discretize.trajectory import Trajectory

__all__ = ["EngineReport", "EngineResult", "verify_engines"]

# Relative to the largest number of each unit or weight, of states of each sample; solves choose steps by it.
ROUNDING = {torch.float32: 1e-3, torch.float64: 1e-9}
GROWN = 1e6  # a state from here on is none of a network's
TOLERANCE = 1e-4  # of solves; the judge has a hundredth of it
JUDGED = 0.02  # as ROUNDING; over all named fields gradients were up to 9e-3 apart at the corner of a power decay, else 9e-4
JUDGE_STEPS = 1_000  # a segment: a stiff field is not for dopri5
Run = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class EngineResult:
    """One engine's run: `states` and `gradients` are how far it is from the steps, as a share of the largest number there, nan
    where it did not run; `why` it did not; seconds, forwards and back, of a second call; `largest` of its states."""

    call: str
    engine: str
    states: float
    gradients: float
    seconds: float
    why: str | None = None
    largest: float = 0.0


@dataclass(frozen=True, repr=False)
class EngineReport(TextReport):
    """What `verify_engines` found. `tolerance`: what rounding allows in this dtype."""

    results: tuple[EngineResult, ...]
    tolerance: float

    @property
    def agree(self) -> bool:
        """Return whether every engine that ran agrees with the steps to rounding, and torchdiffeq to `JUDGED`."""
        return not self._off()

    def _off(self) -> list[EngineResult]:
        allowed = {"torchdiffeq": max(JUDGED, self.tolerance)}
        ran = (each for each in self.results if each.why is None)
        return [each for each in ran if not max(each.states, each.gradients) <= allowed.get(each.engine, self.tolerance)]

    def __str__(self) -> str:
        lines = [f"{'':<10}{'engine':<12}{'states':>10}{'gradients':>11}{'seconds':>10}"]
        for result in self.results:
            head = f"{result.call:<10}{result.engine:<12}"
            line = f"{_off_in_words(result.states):>10}{_off_in_words(result.gradients):>11}{result.seconds:>10.4f}"
            lines.append(head + (line if result.why is None else f"  {result.why}"))
        return "\n".join([*lines, self._conclusion()])

    @property
    def _headline(self) -> str:
        return self._conclusion()

    def _conclusion(self) -> str:
        if self.agree:
            return "All agree."
        if all(result.engine == "torchdiffeq" for result in self._off()):
            return (
                "torchdiffeq does not agree, the engines do: look at the field where errors grow, as in chaos, or where it has a "
                "corner, at tighter tolerances."
            )
        grown = [result for result in self.results if result.engine == "steps" and not result.largest <= GROWN]
        if not grown:
            return "They do not agree."
        size = grown[0].largest
        reach = f"reach {size:.2g}" if math.isfinite(size) else "leave all bounds"
        what = f"the states of the {grown[0].call} {reach} by steps too, and rounding grows with them"
        return f"They do not agree, which says little: {what}; take a smaller `dt`."


def _off_in_words(off: float) -> str:
    return f"{off:.1e}" if math.isfinite(off) else "lost"


@answered
def verify_engines(
    field: VectorField,
    xs: Tensor,
    h0: Tensor | None = None,
    *,
    step: Step | str | None = None,
    dt: float = 1.0,
    method: str = "dopri5",
) -> EngineReport:
    r"""Run a sequence and a solve of a field by every engine that there is, and compare states and gradients with the steps.

    Gradients are those of the sum of the sines of all states, each in the size that its unit has along the sequence, to samples,
    h0 and all parameters. The steps are the reference,
    the rest is compared with them: where an engine is off, set `fused=False`, and tell us. torchdiffeq solves at 1e-6
    with its own step control: it checks the solve, not the engine.

    Args:    field: a `VectorField`; xs: its data; h0: the state before, zero if not given; step: the step map of the sequence,
             Euler's if not given; dt: time a sample; method: the solver, along held samples, at 1e-4, absolutely of the
             smallest unit's size.
    Shape:   xs (time, batch, input), h0 (batch, state).
    Raises:  TypeError, ValueError for what does not fit.
    """
    check_no_noise(check_field(field), "analysis", "verify_engines")
    check_input(field, checked_samples(xs), "xs")
    h = xs.new_zeros(xs.shape[1], field.state_size) if h0 is None else h0
    check_batched_state(field, h, xs.shape[1])
    tolerance = ROUNDING.get(xs.dtype)
    if tolerance is None:
        raise TypeError(f"`xs` must be float32 or float64, which engines are compared in, got {xs.dtype}.")
    step, dt = Euler() if step is None else checked_step(step), checks.positive_number("dt", dt)
    size = _sizes(field, step, dt, xs, h)
    results = _compared("sequence", field, xs, h, size, _sequences(field, step, dt, xs.device))
    return EngineReport((*results, *_compared("solve", field, xs, h, size, _solves(field, dt, method, size))), tolerance)


@torch.no_grad()
def _sizes(field: VectorField, step: Step, dt: float, xs: Tensor, h0: Tensor) -> Tensor:
    """Return the largest |h| of each unit along a sequence, the median over the batch: (state,); 1 where that says nothing."""
    largest = unroll(DiscreteCell(field, step, dt, allow_overshoot=True), xs, h0, fused=False).hs.abs().amax(0).median(0).values
    return torch.where((largest > 0) & largest.isfinite(), largest, 1.0)


class _DidNotRunError(Exception):
    """Why an engine is not there."""


def _sequences(field: VectorField, step: Step, dt: float, device: torch.device) -> dict[str, Run]:
    def steps(xs: Tensor, h0: Tensor) -> Tensor:
        return unroll(DiscreteCell(field, step, dt, allow_overshoot=True), xs, h0, fused=False).hs[1:]

    def by(engine: str, run: Callable, xs: Tensor, h0: Tensor) -> Tensor:
        states, stats = run(HeldProblem(field, step, xs, h0, dt), "always")
        return _if_it_ran(engine, states, stats)

    engines: dict[str, Run] = {"steps": steps, "compiled": partial(by, "compiled", run_written)}
    return engines | ({"triton": partial(by, "triton", run_triton)} if takes_triton(device) else {})


def _solves(field: VectorField, dt: float, method: str, size: Tensor) -> dict[str, Run]:
    def solved(xs: Tensor, h0: Tensor, method: str, tolerance: float, **how: Any) -> Trajectory:
        ts = dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu")
        bounds: dict[str, Any] = {"rtol": tolerance, "atol": tolerance * float(size.min())}
        return integrate(field, HeldPath(xs, ts), h0, ts, method=method, **bounds, **how)

    def by(engine: str, xs: Tensor, h0: Tensor) -> Tensor:
        with warnings.catch_warnings(), kernels_at_once():
            warnings.simplefilter("ignore", SolverWarning)  # engines are compared, whatever the tolerance is good for
            states = solved(xs, h0, method, TOLERANCE, fused=engine != "steps")
        return _if_it_ran(engine, states.hs, states.stats)

    def judge(xs: Tensor, h0: Tensor) -> Tensor:
        try:
            return solved(xs, h0, "torchdiffeq:dopri5", TOLERANCE / 100, max_num_steps=JUDGE_STEPS).hs
        except (SolverError, ValueError) as error:  # too stiff for it, or it is not installed
            raise _DidNotRunError(str(error)) from error

    names = ("steps", "compiled", *(["triton"] if takes_triton(size.device) else []))
    return {name: partial(by, name) for name in names} | {"torchdiffeq": judge}


def _if_it_ran(engine: str, states: Tensor, stats: dict[str, Any]) -> Tensor:
    """Return the states of this engine. Raises: _DidNotRunError if another one ran."""
    if (ran := stats["engine"]) != engine:
        raise _DidNotRunError(stats.get("engine_why") or f"the engine {ran} ran")
    return states


def _compared(call: str, field: VectorField, xs: Tensor, h0: Tensor, size: Tensor, engines: dict[str, Run]) -> list[EngineResult]:
    results: list[EngineResult] = []
    reference: list[Tensor] = []
    for name, run in engines.items():
        try:
            _one(field, xs, h0, size, run)  # builds what has to be built
            begun = time.perf_counter()
            mine = _one(field, xs, h0, size, run)
        except _DidNotRunError as error:
            results.append(EngineResult(call, name, math.nan, math.nan, math.nan, str(error)))
            continue
        seconds = time.perf_counter() - begun
        reference = reference or mine
        apart = [_apart(one, other) for one, other in zip(mine, reference, strict=True)]
        largest = float(mine[0].abs().max()) if mine[0].numel() else 0.0
        results.append(EngineResult(call, name, apart[0], max(apart[1:]), seconds, largest=largest))
    return results


def _one(field: VectorField, xs: Tensor, h0: Tensor, size: Tensor, run: Run) -> list[Tensor]:
    """Return states, and gradients to the samples, h0 and all parameters that have one."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (xs, h0)]
    with torch.enable_grad():
        states = run(*leaves)
        targets = [*leaves, *(p for p in field.parameters() if p.requires_grad)]
        loss = (states / size).sin().sum()
        return [states.detach(), *torch.autograd.grad(loss, targets, allow_unused=True, materialize_grads=True)]


def _apart(one: Tensor, other: Tensor) -> float:
    if not one.numel():
        return 0.0
    size = other.abs()
    size = size.amax(0) if size.dim() > 1 else size.amax()  # over time, samples or rows: of each column its own
    least = 16 * torch.finfo(other.dtype).eps / ROUNDING[other.dtype] * other.abs().max()  # of which roundings are allowed
    off = (one - other).abs() / torch.maximum(size, least)
    return float(torch.where(one == other, 0.0, off).max())
