r"""Fixed steps divide each segment into equal ones, none longer than max_step.

By an explicit Runge-Kutta method, which sees the input move within a step, or by a step map, which holds the input (and
the clock's speed) at what they are when the step begins: h <- step(field, x(t), h, c'(t) dt).
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from ctrnn import Path, checks
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.segment_input import SegmentInput
from discretize.errors import Failure, StepError
from discretize.solvers.engine import MOST_UNSEEN, Engine, SolverState, SolverStats, column, waits_for
from discretize.solvers.kept import MOST_BYTES, KeptSteps, StepLog
from discretize.solvers.segments import Chain, RightHandSide, Segment, SlopeFunction
from discretize.solvers.tableaus import Attempt, EmbeddedMethod
from discretize.steps.along import HeldProblem
from discretize.steps.euler import Euler
from discretize.steps.runge_kutta import ExplicitRungeKutta, Heun, Heun3, Midpoint, ThreeEighths
from discretize.steps.step import Step

__all__ = [
    "FIXED_METHODS",
    "FixedEngine",
    "GridEngine",
    "OF_STAMPS",
    "OwnStep",
    "StepEngine",
    "as_array",
    "count_steps",
    "num_steps",
    "num_steps_of",
]

# Of a step. Segments are differences of times, in float32 too: 0.30000000000000004 is three steps of 0.1, not four, and so is
# 0.30000019. By steps of the length of samples a sequence is then the same at whatever dtype its stamps have.
ROUNDING, OF_STAMPS = 1e-12, 1e-3

FIXED_METHODS: dict[str, ExplicitRungeKutta] = {
    step.name: step for step in (Euler(), Midpoint(), Heun(), Heun3(), ThreeEighths())
}


def num_steps(lengths: np.ndarray, max_step: float | None, slack: float = OF_STAMPS) -> np.ndarray:
    """Return how many equal steps segments take, all of them longer than `max_step` by that share of one at most."""
    if max_step is None:
        return np.ones(np.shape(lengths), dtype=np.int64)
    return np.ceil(np.asarray(lengths) / max_step * (1 - ROUNDING) - slack).astype(np.int64).clip(1)


def num_steps_of(length: float, max_step: float | None) -> int:
    """Return how many equal steps one segment takes, in Python's numbers, which torch.compile follows."""
    return 1 if max_step is None else max(1, math.ceil(length / max_step * (1 - ROUNDING) - OF_STAMPS))


def as_array(numbers: Tensor) -> np.ndarray:
    """Return the numbers of a tensor on the CPU, which may be one of torch.func's."""
    try:
        return numbers.detach().numpy()
    except RuntimeError:
        return np.array(numbers.tolist())


def count_steps(counts: SolverStats, lengths: np.ndarray, steps: np.ndarray, edges: Tensor, direction: int = 1) -> None:
    """Count the steps of segments (segments, 1) or (segments, batch) between these edges."""
    counts.accepted += np.where(lengths > 0, steps, 0).sum(0).astype(np.int64)
    shortest = np.where(lengths > 0, lengths / steps, np.inf)
    number, sample = np.unravel_index(int(shortest.argmin()), shortest.shape)
    begin = edges[int(number)] if edges.dim() == 1 else edges[int(number), int(sample)]
    counts.smaller(float(shortest[number, sample]), direction * float(begin))


class FixedEngine(Engine):
    """Takes equal steps, at most `max_step` long (one a segment where that is None); refuses states that are not finite.

    Raises:  Failure for a state that is not finite.
    """

    map: Step
    hint = "Take shorter steps (`max_step`), or a method that chooses its own, such as dopri5."
    few = 4
    holds = True  # whether a step reads the input where it begins, and the clock's speed
    on_device = True  # whether the length of a step of all samples has to be where the states are

    def __init__(self, max_step: float | None) -> None:
        super().__init__()
        self.max_step = max_step
        self.unseen: list[tuple[Segment, Tensor]] = []  # segments whose last states were not looked at
        self.log: StepLog | None = None  # of steps of a chain whose samples have times of their own

    def start(self, chain: Chain, batch: int) -> SolverState:
        self.unseen = []
        return super().start(chain, batch)

    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        assert isinstance(segment, Segment)
        if self.look is not None:
            self.look()
        lengths = segment.lengths
        # What a sequence gets does not hang on its neighbours: the steps are counted for each.
        steps = num_steps(lengths, self.max_step)
        h = self._run(segment, h, steps)
        state.tau = lengths.copy()
        self.counts.accepted += np.where(lengths > 0, steps, 0)
        shortest = int(np.where(lengths > 0, lengths / steps, np.inf).argmin())
        self.counts.smaller(float(lengths[shortest] / steps[shortest]), segment.when(0.0, shortest))
        self.unseen.append((segment, h.detach()))
        over = segment.number == len(segment.chain) - 1
        if over or len(self.unseen) == MOST_UNSEEN or not waits_for(h.device):
            self.check_finite()
        return h, int(steps.max())

    def check_finite(self) -> None:
        """Refuse the first states that are not finite, of the segments since the last look."""
        seen, self.unseen = self.unseen, []
        if not seen or checks.holds(torch.isfinite(torch.stack([h.sum() for _, h in seen]))):
            return
        for segment, h in seen:
            if not checks.holds(torch.isfinite(h)):
                raise self._not_finite(segment, h)

    def _not_finite(self, segment: Segment, h: Tensor) -> Failure:
        sample, unit = torch.nonzero(~torch.isfinite(h))[0].tolist()
        length = segment.lengths[sample % len(segment.lengths)]
        return Failure(
            cause=f"the state became {float(h[sample, unit])} with steps of {length / num_steps(length, self.max_step):.3g}",
            hint=self.hint,
            time=segment.when(float(length), sample), sample=sample, unit=unit, edge=segment.number,
        )  # fmt: skip

    def no_sequence(self, chain: Chain) -> str | None:
        """Return why a solve is not run as a sequence of held samples."""
        if len(chain) < self.few:
            return f"fewer than {self.few} segments are stepped through sooner than a kernel is called"
        moves = not (chain.path.steady and (chain.speed is None or chain.speed.steady))
        return f"{self.map!r} sees the input or its clock move within a step" if moves and not self.holds else None

    def laid_out(self, chain: Chain, h0: Tensor) -> tuple[HeldProblem, Tensor | None]:
        """Return the solve as held samples: one a segment, where all take as many steps and nothing moves within them, else one a
        step; and the sample that ends each segment, None if each has one."""
        steps = num_steps(chain.lengths, self.max_step)
        taken = steps[chain.lengths > 0]
        still = chain.path.steady and (chain.speed is None or chain.speed.steady)
        if still and taken.size and (taken == taken[0]).all() and (self.log is None or taken[0] == 1):
            xs, dt = self._read(chain, h0, np.ones_like(steps))
            return HeldProblem(chain.field, self.map, xs, h0, dt, int(taken[0])), None
        xs, dt = self._read(chain, h0, steps)
        return HeldProblem(chain.field, self.map, xs, h0, dt), torch.from_numpy(steps.max(1).cumsum() - 1)

    def _read(self, chain: Chain, h0: Tensor, steps: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return what each step reads, and how long it is; steps (segments, 1) or (segments, batch)."""
        numbers, begin, dt = self.grid(chain, steps)
        xs, speed = self.read(chain, h0, numbers, begin)
        if speed is not None:
            dt = dt * speed.reshape(len(dt), -1)
        return xs, dt[..., None].to(device=h0.device, dtype=h0.dtype)

    def grid(self, chain: Chain, steps: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return each step's segment, (steps,), when it begins and how long it is, (steps, 1) or (steps, batch)."""
        most = steps.max(1)
        numbers = torch.from_numpy(np.repeat(np.arange(len(most)), most))
        number = torch.from_numpy(np.arange(len(numbers)) - np.repeat(most.cumsum() - most, most))[:, None]
        own = torch.from_numpy(steps)[numbers]
        edges = chain.edges if chain.own else chain.edges[:, None]
        dt = (edges.diff(dim=0) / torch.from_numpy(steps))[numbers]
        return numbers, edges[numbers] + torch.minimum(number, own) * dt, torch.where(own > number, dt, 0.0)

    def read(self, chain: Chain, h0: Tensor, numbers: Tensor, times: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the input and the clock's speed at a time in each of these segments."""

        def read(input: SegmentInput, path: Path) -> Tensor:
            return path.evaluate(path.gather(input.pieces[numbers]), times[..., None] if chain.own else times[:, 0])

        xs = read(chain.path, for_many(chain.driven.path, len(h0)))
        return xs, None if chain.speed is None else read(chain.speed, chain.speed.path)

    def kept(self, chain: Chain, h0: Tensor, states: Tensor) -> KeptSteps | None:
        """Return the steps of a solve that has run as a sequence, of samples with times of their own; None if none are kept."""
        if self.log is None or states.numel() * states.element_size() > MOST_BYTES:
            return None
        steps = num_steps(chain.lengths, self.max_step)
        most = steps.max(1)
        numbers = np.repeat(np.arange(len(most)), most)
        number = (np.arange(len(numbers)) - np.repeat(most.cumsum() - most, most))[:, None]
        row, sample = np.nonzero((number < steps[numbers]) & (chain.lengths[numbers] > 0))
        segment = numbers[row]
        tau = number[row, 0] * (chain.lengths[segment, sample] / steps[segment, sample])
        place = np.stack([np.zeros_like(row), row * len(h0) + sample], 1)  # the state before is that after the row before
        return KeptSteps(sample, segment, tau, place, [torch.cat([h0[None], states]).flatten(0, 1)])

    def after(self, chain: Chain, ends: Tensor) -> Failure | None:
        """Count the steps of a solve that has run as a sequence; refuse states at the ends of segments that are not finite."""
        steps = num_steps(chain.lengths, self.max_step)
        self.counts.call(int(steps.max(1).sum()) * self.map.cost(chain.field), ends.shape[1])
        count_steps(self.counts, chain.lengths, steps, chain.edges.detach(), chain.driven.direction)
        if checks.holds(torch.isfinite(ends.detach().sum())):
            return None
        finite = torch.isfinite(ends.detach()).flatten(1).all(1)
        if checks.holds(finite):
            return None
        first = int((~finite).int().argmax())
        return self._not_finite(chain.segment(first), ends[first].detach())

    def _run(self, segment: Segment, h: Tensor, steps: np.ndarray) -> Tensor:
        """Take so many equal steps, (1,) for all samples or (batch,); a sequence that has taken its own waits."""
        times, together = segment.times_on(h.device), len(steps) == 1
        own = None if together else column(steps).to(times, non_blocking=True)
        dt = segment.length(times if self.on_device or own is not None else torch.device("cpu"))
        dt = dt / (int(steps[0]) if own is None else own)
        for i in range(int(steps.max())):
            self._note(segment, steps, i, h)
            begin, length = (i * dt, dt) if own is None else (torch.clamp(own, max=i) * dt, torch.where(own > i, dt, 0.0))
            before, h = h, self.step(segment, begin, length, h)
            if self.on_attempt is not None and own is None:
                self.on_attempt(segment.when(float(begin), 0), before, float(dt), True)
        return h

    def _note(self, segment: Segment, steps: np.ndarray, number: int, h: Tensor) -> None:
        """Keep the step of that number, of each sample that takes as many."""
        if self.log is not None:
            took = (number < steps) & (segment.lengths > 0)
            self.log.add(segment.number, None, number * (segment.lengths / steps), took, h)

    @abstractmethod
    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        """Take one step from `begin`, a time since the segment's start; dt () or (batch, 1), 0 for a sequence that waits."""


class OwnStep(EmbeddedMethod):
    """Goes from where a step of fixed length begins to a time in it: by the engine's step, for less than its length.

    Args:    engine: of the solve.
    """

    reads_start = interpolated = False

    def __init__(self, engine: FixedEngine) -> None:
        self.engine, self.order, self.evaluations = engine, engine.map.order, engine.map.evaluations  # type: ignore[misc]

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        assert isinstance(slope, Segment)
        with self.engine.counting_apart():
            following = self.engine.step(slope, tau, dt, h)
        return Attempt(following, torch.zeros_like(following), None)


class GridEngine(FixedEngine):
    r"""Steps by the explicit Runge-Kutta methods that torchdiffeq has for fixed grids.

    Args:    method: a name in `FIXED_METHODS`; max_step: longest step, or None.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1. Not torchdiffeq's own: they write in place, which `torch.func.vmap`
             refuses.
    """

    holds = False

    def __init__(self, method: str, max_step: float | None) -> None:
        super().__init__(max_step)
        self.map: ExplicitRungeKutta = FIXED_METHODS[method]

    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        def slope(share: float, h: Tensor) -> Tensor:
            self.counts.call(1, len(h))
            return segment(begin + share * dt, h)

        return self.map.along(slope, h, dt.to(device=h.device, dtype=h.dtype))


class StepEngine(FixedEngine):
    r"""Steps by a step map, the same one that makes discrete cells.

    Args:    map: a `Step`; max_step: longest step, or None.
    """

    on_device = False  # a number, for which no device has to be asked

    def __init__(self, map: Step, max_step: float | None) -> None:
        super().__init__(max_step)
        self.map = map

    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        t = segment.time(begin)
        length = self.length(dt, h)
        if segment.chain.speed is not None:
            length = length * segment.speed_at(t, h)
        try:
            h, cost = self.map.counted(segment.chain.field, segment.input_at(t), h, length)
        except StepError as error:
            self.check_finite()  # what was not finite before it comes first
            at = float((t if t.dim() == 0 else t[error.sample]).detach())
            raise Failure(cause=error.cause, hint=error.hint, time=at, sample=error.sample, unit=error.unit) from error
        self.counts.call(cost, len(h))
        return h

    def length(self, dt: Tensor, h: Tensor) -> float | Tensor:
        """Convert dt to what `Step.advance` takes."""
        return dt.to(device=h.device, dtype=h.dtype) if dt.dim() or dt.requires_grad else float(dt)
