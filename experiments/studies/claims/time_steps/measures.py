r"""Measures a trained network under the step that trained it and under its equation: scores, rests, rhythms.

score      of held-out trials: by its own step, solved exactly, and by Euler's step at other dt
rests      fixed points while an input is held: the same of Euler's map and of the field, with a stability each
rhythms    what still moves after 200 time constants of a held input: amplitude and period of the output
center     the fixed point inside a rhythm, its mode a + i w, and the dt from which the step makes it repel
modified   the rhythm of h' = F - (dt/2) F'F + dt^2 (F''(F, F)/12 + F'F'F/3), which Euler's step follows for small dt
"""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

import ctrnn
import discretize
from ctrnn import VectorField
from discretize import Flow, Map, SequenceModel, SolverError, SolverWarning, Step, StepWarning
from discretize.analysis.dynamics.systems import jacobian
from experiments.models.integrators import EXACT, INTEGRATORS, under
from experiments.seeds import generator
from experiments.studies.clocks.rollout import FINE
from experiments.studies.study import Row
from experiments.tasks.cognitive import FlipFlop, Rhythm, Trials
from experiments.tasks.task import Batch

__all__ = [
    "DTS",
    "HELD",
    "fastest",
    "held_inputs",
    "modified",
    "noiseless",
    "resting_points",
    "rests",
    "rhythms",
    "scores",
    "settled",
    "step_of",
    "trace",
]

DTS = (1.0, 0.5, 0.2, 0.1)
WAIT, LOOK = 200.0, 100.0  # time constants before a rhythm is looked at, and for how long
STARTS = 32  # of trajectories and of searches for fixed points
MOVING = 1e-2  # root mean square, over units, of what a state at rest does not do
HELD = (0.0, 0.5, 1.0)  # inputs of the rhythm: the shortest, a middle, and the longest period
APART = 1e-3  # of differences, in float64
AT_REST = 1e-8  # how far a step may move a fixed point of the field, where the step has the same
SLOWEST = 0.02  # dt at which a branch ends


def noiseless(model: SequenceModel) -> SequenceModel:
    """Return the model, with the same weights, without the noise of its field."""
    field = model.field
    return model.under(discretize.ContinuousRNN(field.field)) if isinstance(field, ctrnn.Noisy) else model


def step_of(name: str) -> Step | None:
    """Return the step map of a network; None for exact solves, Euler's for Euler and Maruyama's, whose drift it is."""
    if name == EXACT:
        return None
    found: Step = getattr(discretize, INTEGRATORS["euler" if name == "euler-maruyama" else name])()
    return found


@torch.no_grad()
def scores(model: SequenceModel, task: Trials, sequences: int, seed: int) -> dict[str, float]:
    r"""Return the share of right answers, or R^2, as trained, exactly, and by Euler's step at each dt; not finite is 0.

    Noise of the field is off in all. "size", of a rhythm: the deviation of the exact output in time, over that of the target.
    """
    clean, found = noiseless(model), dict[str, float]()

    def score(run: SequenceModel, dt: float) -> tuple[float, Tensor | None, Batch]:
        at = dataclasses.replace(task, dt=dt)
        batch = at.batch(sequences, generator(seed, "scores"), "test")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SolverWarning)
                warnings.simplefilter("ignore", StepWarning)
                outputs = run(batch.xs, ts=batch.ts)
        except (SolverError, discretize.StepError):
            return 0.0, None, batch
        measured = at.measures(outputs, batch)
        value = measured.get("accuracy", measured.get("r2", math.nan))
        return (value if math.isfinite(value) else 0.0), outputs, batch

    found["own"], _, _ = score(model if clean is model else under(clean, "euler", FINE), task.dt)
    found["exact"], outputs, batch = score(under(clean, EXACT, FINE), task.dt)
    if isinstance(task, Rhythm) and outputs is not None:
        found["size"] = float((outputs.std(0) / batch.targets.std(0)).mean())
    return found | {f"euler {dt:g}": score(under(clean, "euler", FINE), dt)[0] for dt in DTS}


def held_inputs(task: Trials) -> dict[str, Tensor]:
    """Return inputs that a trial holds, without noise: of a rhythm three, else what is shown at the start and at the end."""
    if isinstance(task, Rhythm):
        return {f"{x:g}": torch.tensor([x], dtype=torch.float64) for x in HELD}
    if isinstance(task, FlipFlop):  # it may begin and end with a pulse, which is not held
        return {"end": torch.zeros(task.input_size, dtype=torch.float64)}
    xs, _, _ = task.slots(1, generator(0, "held"))
    found = {"end": xs[-1, 0]}
    return found if bool((xs[0, 0] == xs[-1, 0]).all()) else {"start": xs[0, 0], **found}


@dataclasses.dataclass(frozen=True)
class SettledOutputs:
    r"""Holds what trajectories do after a long wait: the output over time, and how much the states move.

    Shape:   outputs (time, n), moving (n,), dt from one of them to the next, h (n, state), mean (n, state).
    """

    outputs: Tensor
    moving: Tensor
    dt: float
    h: Tensor
    mean: Tensor

    @property
    def amplitude(self) -> float:
        """Return sqrt(2) times the deviation of the first trajectory's output; its top may lie between two samples."""
        return math.sqrt(2) * float(self.outputs[:, 0].std(correction=0))

    @property
    def period(self) -> float:
        """Return the mean time between its upward passings of the middle, nan where there are fewer than three."""
        y = self.outputs[:, 0] - (self.outputs[:, 0].amax() + self.outputs[:, 0].amin()) / 2
        up = ((y[:-1] < 0) & (y[1:] >= 0)).nonzero()[:, 0]
        if len(up) < 3 or self.amplitude < MOVING:
            return math.nan
        at = up + y[up] / (y[up] - y[up + 1])
        return float((at[-1] - at[0]) / (len(at) - 1)) * self.dt


@torch.no_grad()
def settled(
    field: VectorField | Callable[[Tensor, Tensor], Tensor],
    read_out: Callable[[Tensor], Tensor],
    x: Tensor,
    h: Tensor,
    step: Step | None,
    dt: float,
    times: tuple[float, float] = (WAIT, LOOK),
) -> SettledOutputs:
    """Hold an input from states h (n, state), for times (wait, look), by a step or, without one, exactly."""
    wait, look = (round(time / dt) for time in times)
    if step is None:
        ts = torch.cat([torch.zeros(1, dtype=torch.float64), times[0] + dt * torch.arange(look, dtype=torch.float64)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)
            if isinstance(field, VectorField):
                path = ctrnn.HeldPath(x.expand(1, len(h), -1), torch.tensor([0.0, sum(times)], dtype=torch.float64))
                states = discretize.integrate(field, path, h, ts, rtol=1e-6, atol=1e-8).hs[1:]
            else:
                states = discretize.integrate(field, None, h, ts, rtol=1e-6, atol=1e-8).hs[1:]
    else:
        assert isinstance(field, VectorField)
        rnn = discretize.DiscreteRNN(field, step, dt=dt)
        states = rnn(x.expand(wait + look, len(h), -1), h[None])[0][wait:]
    y = read_out(states)[..., 0]
    return SettledOutputs(y, states.std(0).square().mean(-1).sqrt(), dt, states[-1], states.mean(0))


def modified(field: VectorField, x: Tensor, dt: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the right-hand side f(t, h) that Euler's step of length dt follows but for dt^3, by central differences of F."""
    projected = field.project(x)

    def flow(h: Tensor) -> Tensor:
        return field.flow(projected.expand(*h.shape[:-1], -1), h)

    def right_hand_side(t: Tensor, h: Tensor) -> Tensor:
        value = flow(h)
        ahead, behind = flow(h + APART * value), flow(h - APART * value)
        first, bend = (ahead - behind) / (2 * APART), (ahead - 2 * value + behind) / APART**2
        twice = (flow(h + APART * first) - flow(h - APART * first)) / (2 * APART)
        return value - dt / 2 * first + dt * dt * (bend / 12 + twice / 3)

    return right_hand_side


def resting_points(field: VectorField, x: Tensor, h: Tensor) -> Tensor:
    """Find fixed points from states h (n, state), by the way down |F|^2: (k, state)."""
    found = discretize.fixed_points(Flow(field, x), h, slow=1e-4)
    return found.h[found.fixed].detach()


def fastest(field: VectorField, x: Tensor, h: Tensor) -> float:
    """Return the size of the largest eigenvalue of F' at states h (n, state), per time constant: the median over the states."""
    return float(torch.linalg.eigvals(jacobian(Flow(field, x), h)).abs().amax(-1).median())


def rests(field: VectorField, x: Tensor, at: Tensor, step: Step | None, dt: float) -> Row:
    """Count fixed points (k, state) of the field by their stability in the field and under the step, where it rests there too."""
    flow = Flow(field, x)
    stable = flow.growth(torch.linalg.eigvals(jacobian(flow, at))).amax(-1) < 0 if len(at) else torch.zeros(0, dtype=torch.bool)
    row: Row = {"rests": len(at), "stable": int(stable.sum())}
    if step is None or not len(at):
        return row
    stepped = Map(field, step, x, dt)
    matched = stepped.residual(at).norm(dim=-1) <= AT_REST
    kept = (stepped.growth(torch.linalg.eigvals(jacobian(stepped, at))).amax(-1) < 0) & matched
    return row | {
        "matched": int(matched.sum()),
        "stable under the step": int(kept.sum()),
        "made stable": int((kept & ~stable).sum()),
        "made unstable": int((stable & matched & ~kept).sum()),
    }


def rhythms(model: SequenceModel, step: Step | None, dt: float, x: Tensor, h: Tensor, at: Tensor, smooth: bool = True) -> Row:
    """Measure what a held input settles into from states h (n, state), by the step and exactly.

    Args:    at: fixed points (k, state); smooth: whether F has the second derivatives that the modified equation reads.
    """
    field = model.field
    read_out = copy.deepcopy(model.read_out).double()
    exact = settled(field, read_out, x, h, None, 0.1 if step is None else dt)
    own = exact if step is None else settled(field, read_out, x, h, step, dt)
    row: Row = {
        "amplitude": own.amplitude,
        "exact amplitude": exact.amplitude,
        "period": own.period,
        "exact period": exact.period,
        "moving": float((own.moving > MOVING).double().mean()),
        "exact moving": float((exact.moving > MOVING).double().mean()),
    }
    if float(own.moving[0]) <= MOVING:
        return _finite(row)
    if len(at):
        row |= _center(field, step, dt, x, at[int((at - own.mean[0]).norm(dim=-1).argmin())])
    if smooth and isinstance(step, discretize.Euler):
        try:
            close = settled(modified(field, x, dt), read_out, x, h[:1], None, dt)
            row |= {"modified amplitude": close.amplitude, "modified period": close.period}
        except SolverError:  # beyond small dt it may have no solution
            row |= {"modified amplitude": math.nan, "modified period": math.nan}
    return _finite(row)


def _finite(row: Row) -> Row:
    """Write None for what is not a number."""
    return {key: value if not isinstance(value, float) or math.isfinite(value) else None for key, value in row.items()}


def _center(field: VectorField, step: Step | None, dt: float, x: Tensor, h: Tensor) -> Row:
    """Measure the fixed point inside a rhythm, h (state,): its growth, and the mode that grows most by the step if there is one.

    Only a point that the equation returns to has a dt from which the step makes it repel.
    """
    values = torch.linalg.eigvals(jacobian(Flow(field, x), h))
    row: Row = {"growth": float(values.real.amax())}
    upper = values[values.imag >= 0]
    # Of the fields here the leak is 1; Euler's and Runge-Kutta's steps read none.
    grown = upper.real if step is None else step.stability(upper * dt, torch.full_like(upper.real, dt)).abs().log() / dt
    mode = complex(upper[int(grown.argmax())])
    row |= {"a": mode.real, "w": mode.imag, "stepped a": float(grown.amax())}
    if step is None or float(values.real.amax()) >= 0 or float(grown.amax()) <= 0:
        return row
    # Over log dt: a branch that went on past its end would come to dt below 0.
    ends = math.log(SLOWEST), math.log(dt)
    branch = discretize.continuation(Map(field, step, x, torch.exp), h, ends[1], ends, direction=-1, step=0.2)
    passed = [(math.exp(one.p), one.kind) for one in branch.bifurcations]
    if passed:
        row["from dt"], row["passed"] = min(passed)
    return row


@torch.no_grad()
def trace(model: SequenceModel, task: Rhythm, length: float) -> Row:
    """Return the output while the shortest period is held from the start: as trained, and exactly."""
    each = round(1 / task.dt)
    xs, ts = torch.zeros(round(length) * each, 1, 1, dtype=torch.float64), task.dt * torch.arange(round(length) * each + 1.0)
    outputs = model(xs, ts=ts.double())[:, 0, 0]
    grid = 0.25 * torch.arange(4 * round(length) + 1, dtype=torch.float64)
    exact = under(model, EXACT, FINE)(xs[:1].expand(len(grid) - 1, -1, -1), ts=grid)[:, 0, 0]
    keep = max(1, round(0.25 / task.dt))
    return {
        "t": [round(float(t), 3) for t in ts[1:][keep - 1 :: keep]],
        "stepped": [round(float(y), 4) for y in outputs[keep - 1 :: keep]],
        "exact t": [float(t) for t in grid[1:]],
        "solved": [round(float(y), 4) for y in exact],
    }
