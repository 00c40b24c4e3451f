r"""Measures a step map on a trained network and a clock: its answers, how fast it moves the state, and what it drops.

speed      <step, exact step> / <exact step, exact step>, over all samples      1 of the equation itself
derived    R'(0) at the leaks that were met, of a slow mode                     phi_1(-l) of exponential Euler
dropped    dt/2 F'F of Euler's step, dt/2 (F' + g) F of exponential Euler's, each against F
"""

from __future__ import annotations

import copy
import dataclasses

import torch
from torch import Tensor

import discretize.steps
from ctrnn import VectorField
from ctrnn.forward import jvp
from discretize import SequenceModel, Step
from experiments.models.integrators import EXACT, FOR_NOISE, INTEGRATORS, under
from experiments.studies.clocks.rollout import FINE, roll_out
from experiments.tasks.task import Batch, said_right
from experiments.tasks.warps.clocked import ClockedRecall

__all__ = ["STEPS", "ExactSteps", "accuracy", "derived_speed", "dropped", "exact_steps", "speed"]

# The symplectic Euler step is Euler's where no unit is hidden, and the capped one up to where it does not follow its equation.
LIKE_EULER = ("symplectic-euler", "capped-euler")
STEPS: dict[str, Step] = {
    name: getattr(discretize.steps, step)() for name, step in INTEGRATORS.items() if name not in (EXACT, *LIKE_EULER, *FOR_NOISE)
}
NEAR = 1e-4  # of z = 0, for R'(0)
FEW = 100  # samples whose Jacobians are decomposed


def accuracy(model: SequenceModel, name: str, task: ClockedRecall, clock: float, batch: Batch, stretch: float = 1.0) -> float:
    """Measure accuracy at the ends of symbols but the first, samples being `stretch` times as long; not finite is wrong."""
    assert batch.ts is not None
    found = roll_out(under(model, name, FINE), dataclasses.replace(batch, ts=stretch * batch.ts), task.own_time(clock))
    if found is None:
        return 0.0
    held = task.held(clock)
    return float(said_right(found.outputs, batch.targets)[2 * held - 1 :: held].float().mean())


@dataclasses.dataclass(frozen=True)
class ExactSteps:
    """Holds the exact state before and after each sample, without those of first symbols: (n, ...), in double precision."""

    field: VectorField
    projected: Tensor
    before: Tensor
    after: Tensor
    dt: float


@torch.no_grad()
def exact_steps(model: SequenceModel, task: ClockedRecall, clock: float, batch: Batch) -> ExactSteps:
    exact = roll_out(under(model, EXACT, FINE), batch, task.own_time(clock))
    assert exact is not None
    held, states, field = task.held(clock), exact.states.double(), copy.deepcopy(model.field).double()
    projected = field.project(batch.xs.double())
    read, before, after = (part.flatten(0, 1) for part in (projected[held:], states[held - 1 : -1], states[held:]))
    return ExactSteps(field, read, before, after, task.own_time(clock))


@torch.no_grad()
def speed(step: Step, exact: ExactSteps) -> float:
    """Measure how far the step goes along the exact one."""
    moved = exact.after - exact.before
    found = step.advance(exact.field, exact.projected, exact.before, exact.dt) - exact.before
    return float((found * moved).sum() / (moved * moved).sum())


@torch.no_grad()
def derived_speed(step: Step, exact: ExactSteps) -> float:
    """Compute the mean of R'(0) over the leaks of all units and samples."""
    leak = exact.dt * exact.field.flow_and_leak(exact.projected, exact.before)[1].flatten()
    ahead, behind = (step.stability(torch.full_like(leak, side * NEAR), leak) for side in (1, -1))
    return float(((ahead - behind) / (2 * NEAR)).mean())


@torch.no_grad()
def dropped(exact: ExactSteps) -> dict[str, float]:
    """Compute medians over samples: leading terms against F and along it; the leak; the slowest mode, largest Re of F'."""
    field, projected, h = exact.field, exact.projected, exact.before
    slope, leak = field.flow_and_leak(projected, h)
    bend = jvp(lambda u: field.flow(projected, u), (h,), (slope,))[1]
    terms = {"euler": exact.dt / 2 * bend, "exponential": exact.dt / 2 * (bend + leak * slope)}
    size = (slope * slope).sum(-1)
    some = slice(None, None, max(1, len(h) // FEW))
    modes = torch.linalg.eigvals(field.jacobian(projected[some], h[some])).real
    return {
        **{f"{name} size": float((term.norm(dim=-1) / size.sqrt()).median()) for name, term in terms.items()},
        **{f"{name} along": float(((term * slope).sum(-1) / size).median()) for name, term in terms.items()},
        "leak": float((exact.dt * leak).median()),
        "slowest": float(exact.dt * modes.amax(-1).median()),
    }
