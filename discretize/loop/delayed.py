r"""Steps of fixed length for fields that read their past: h(t - d) is read between the states that steps have ended with.

    held       a step reads its past where it begins, as it reads its input            any step map
    moving     each stage reads it at its own time                                     explicit Runge-Kutta steps
    between    a straight line, or for steps of order 3 and 4 a cubic with the slopes at both ends; at an end the state there

As far as the past is known, many steps are one sequence whose input is x and the past: block after block it is run as any other
is, by a kernel where there is one. Equal steps that read few states carry them along, and are one sequence as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, FunctionPath, Path, VectorField
from ctrnn.autocast import without_autocast
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField, DelayLine, Settled
from ctrnn.inputs.path import piece_numbers
from discretize.errors import SolverError
from discretize.graphs import scanned
from discretize.kernels.choose import run_sequence
from discretize.kernels.eligibility import HALF, Fused
from discretize.settings import Settings
from discretize.solvers.equation import driven_in, times_within
from discretize.solvers.fixed import OF_STAMPS, FixedEngine, num_steps
from discretize.solvers.history import check_knots
from discretize.solvers.past import lags_of, like_states
from discretize.solvers.segments import chain_of
from discretize.steps.along import HeldProblem, step_along
from discretize.steps.runge_kutta import ExplicitRungeKutta
from discretize.steps.step import Step
from discretize.trajectory import Trajectory

__all__ = ["SteppedPast", "scanned_with_past", "solve_stepped", "step_with_past"]

LINE = 32  # states that are carried along rather than read block by block


class StageInput(VectorField):
    r"""Computes dh/dt from what is read at some parts of a step: [x, past, clock] for the first of them, then for the next.

    Args:    field: shared; parts: from 0 to 1; projected: columns of x; moves: x stands with each part, or with the first alone;
             clock: a column of c'(t) stands with each.
    """

    def __init__(self, field: DelayedField, parts: Sequence[float], projected: int, moves: bool, clock: bool) -> None:
        known = field.count * field.state_size
        self.starts: tuple[int, ...] = tuple(k * (known + clock + moves * projected) for k in range(len(parts)))
        super().__init__(projected + self.starts[-1] + known + clock, field.hidden_size, field.state_size)
        self.field, self.parts, self.projected, self.moves, self.clock = field, tuple(parts), projected, moves, clock

    @property
    def dtype(self) -> torch.dtype | None:
        return self.field.dtype

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.slope(0.0, projected, h)

    def slope(self, part: float, columns: Tensor, h: Tensor) -> Tensor:
        """Return dh/dt at one of the parts."""
        k, width = self.parts.index(part), self.projected
        x = columns[..., self.starts[k] : self.starts[k] + width] if self.moves else columns[..., :width]
        begin = width + self.starts[k]
        end = begin + self.field.count * self.state_size
        slope = self.field.flow(x, h, columns[..., begin:end].split(self.state_size, -1))
        return columns[..., end : end + 1] * slope if self.clock else slope


class StagedStep(Step):
    """An explicit Runge-Kutta step each of whose stages reads a `StageInput` at its own part of the step."""

    order = 0  # that of its map

    def __init__(self, map: ExplicitRungeKutta) -> None:
        self.map, self.evaluations = map, map.evaluations  # type: ignore[misc]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        assert isinstance(field, StageInput)
        return self.map.along(lambda part, u: field.slope(part, projected, u), h, dt)


class ShiftingStep(Step):
    """Steps the first state of a `DelayLine` by a map that reads the past where it begins, and moves the others on."""

    order = 0  # that of its map

    def __init__(self, map: Step) -> None:
        if isinstance(map, ExplicitRungeKutta) and map.evaluations > 1:
            raise TypeError(
                f"The stages of {map!r} read the past between its steps, which this version does not export; take a step that "
                "reads it where it begins, such as Euler()."
            )
        self.map, self.evaluations = map, map.evaluations  # type: ignore[misc]
        self.tangents, self.jacobians = map.tangents, map.jacobians  # type: ignore[misc]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        assert isinstance(field, DelayLine)
        width = field.field.state_size
        reads = StageInput(field.field, (0.0,), projected.shape[-1], False, False)
        first = self.map.advance(reads, torch.cat([projected, *field.past(h)], -1), h[..., :width], dt)
        return torch.cat([first, h[..., :-width]], -1)


class _ProjectedLine(DelayLine):
    """A line of states whose input was projected before; with a state to spare, as a delay that is learned moves."""

    def __init__(self, field: DelayedField, spacing: float, projected: int) -> None:
        super().__init__(field, spacing, max(field.numbers()) + spacing)
        self.input_size: int = projected

    def project(self, x: Tensor) -> Tensor:
        return x


def scanned_with_past(field: DelayedField, step: Step, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """Return the state after each sample, for torch.export: a line of states is carried along."""
    line = DelayLine.of_graph(field, dt / substeps)
    return scanned(line, ShiftingStep(step), xs, line.state_of(h0), dt, substeps)[..., : field.state_size]


class SteppedPast:
    r"""Runs steps along given edges, and knows the states between them and before.

    Args:    field: its masks drawn; step: any step map; edges: where steps begin and end, float64, perhaps with a gradient, for
             a sequence that is over the same again and again; h0; history: what was before the first edge, None for h0, held.
             moves, clock: see `StageInput`.
    Shape:   edges (steps + 1,), or (steps + 1, batch); h0 (batch, state).
    Raises:  ValueError where a stage would read what is not known yet.
    """

    def __init__(
        self,
        field: DelayedField,
        step: Step,
        edges: Tensor,
        h0: Tensor,
        history: Path | None = None,
        moves: bool = False,
        clock: bool = False,
    ) -> None:
        self.field, self.step, self.h0, self.history = like_states(field, h0), step, h0, history
        self.moves, self.clock = moves, clock
        self.edges: Tensor = edges if edges.dim() > 1 else edges[:, None]
        staged = isinstance(step, ExplicitRungeKutta)
        self.smooth: bool = staged and step.order > 2
        parts = {sum(row) for row in step.stages} if isinstance(step, ExplicitRungeKutta) else {0.0}
        self.parts: tuple[float, ...] = tuple(sorted(parts | ({0.0, 1.0} if self.smooth else {0.0})))
        self.near = 8 * torch.finfo(torch.float64).eps * float(self.edges.detach().abs().max())
        self.first, self.nodes, self.slopes = 0, h0[None], [h0[None][:0]] * 2  # of the edges, and steps, from that number on
        self.stats: dict[str, Any] = {}
        times = (
            self.edges[:-1, None]
            + torch.tensor(self.parts, dtype=torch.float64, device="cpu")[:, None] * self.edges.diff(dim=0)[:, None]
        )
        self.reads: Tensor = torch.stack([lag.before(times) for lag in lags_of(field)], 2)  # (steps, parts, delays, 1 or batch)
        self._plan(self.reads.detach())

    def _plan(self, reads: Tensor) -> None:
        """Find for each step the first edge up to which the solution has to be known, and the first one that is read."""
        edges = self.edges.detach().mT.contiguous()

        def place(times: Tensor) -> np.ndarray:
            return torch.searchsorted(edges, (times - self.near).mT.contiguous()).numpy()

        latest, earliest = (place(each) for each in (reads.amax((1, 2)), reads.amin((1, 2))))
        self.needs: np.ndarray = np.maximum.accumulate(latest.max(0))
        self.lowest: np.ndarray = np.minimum.accumulate((earliest.min(0) - 1).clip(0)[::-1])[::-1]
        late = self.needs > np.arange(len(self.needs))
        if late.any():
            k = int(late.argmax())
            dt = float(self.edges.detach().diff(dim=0)[k].max())
            raise ValueError(
                f"A step of {dt:g} by {self.step!r} is longer than a delay, and its later stages would read states that are not "
                "known yet; take shorter steps (`substeps`, `max_step`), or one that reads where it begins, such as Euler()."
            )

    def run(
        self,
        xs: Sequence[Tensor],
        dt: float | Tensor,
        fused: Fused,
        clocks: Sequence[Tensor] | None = None,
        run: Callable[..., tuple[Tensor, dict[str, Any]]] = run_sequence,
    ) -> Tensor:
        r"""Return the states after the steps, (steps, batch, state).

        Args:    xs: the projected input at each part of the steps, or at their begin alone, (steps, 1 or batch, projected); dt: a
                 number, (steps, 1, 1) or (steps, batch, 1); clocks: c'(t) at each part, (steps, 1 or batch, 1); run: what runs
                 each block.
        """
        if fused and run is run_sequence and (spacing := self._spacing()) is not None:
            return self._along_a_line(xs[0], spacing, fused)
        self._by_blocks(xs, dt, fused, clocks, run)
        return self.nodes[1:]

    def _spacing(self) -> float | None:
        """Return the length of the steps where a line of few states is all that they read."""
        reads = self.step if isinstance(self.step, ExplicitRungeKutta) else None
        if self.field.of_time or self.history is not None or self.clock or (reads is not None and reads.evaluations > 1):
            return None
        if self.step.jacobians:  # a kernel solves the equation of the field that it steps, which a line is not
            return None
        lengths = self.edges.detach().diff(dim=0)
        if self.edges.shape[1] > 1 or self.edges.requires_grad or self.h0.dtype in HALF or not len(lengths):
            return None
        spacing = float(self.edges.detach()[-1] - self.edges.detach()[0]) / len(lengths)
        even = float((lengths - spacing).abs().max()) <= 2 * self.near
        return spacing if even and max(self.field.numbers()) < LINE * spacing else None

    def _along_a_line(self, xs: Tensor, spacing: float, fused: Fused) -> Tensor:
        """Run all steps in one kernel, which carries a line of states along; block by block where there is none."""
        line = _ProjectedLine(self.field, spacing, xs.shape[-1])
        xs, start = xs.expand(-1, len(self.h0), -1), line.state_of(self.h0)

        def by_blocks(look: Callable[[], None]) -> Tensor:
            self._by_blocks([xs], spacing, False, None, run_sequence, look)
            return self.nodes[1:]

        states, self.stats = run_sequence(HeldProblem(line, ShiftingStep(self.step), xs, start, spacing), fused, by_blocks)
        self.first, self.nodes = 0, torch.cat([self.h0[None], states[..., : self.field.state_size]])
        return self.nodes[1:]

    def _by_blocks(
        self,
        xs: Sequence[Tensor],
        dt: float | Tensor,
        fused: Fused,
        clocks: Sequence[Tensor] | None,
        run: Callable[..., tuple[Tensor, dict[str, Any]]],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        columns = StageInput(self.field, self.parts, xs[0].shape[-1], self.moves, self.clock)
        step = StagedStep(self.step) if isinstance(self.step, ExplicitRungeKutta) else self.step
        h, begin, blocks, slopes, whys = self.h0, 0, list[Tensor](), list[list[Tensor]](), dict[str, Any]()
        while begin < len(self.needs):
            look()
            end = int(np.searchsorted(self.needs, begin, "right"))
            block = slice(begin, end)
            past = self.read(self.reads[block].flatten(0, 2)).unflatten(0, self.reads[block].shape[:3])
            given = []
            for k in range(len(self.parts)):
                given += [xs[k][block]] if self.moves or not k else []
                given.append(past[:, k].transpose(1, 2).flatten(2))
                given += [] if clocks is None else [clocks[k][block].to(h)]
            inputs = torch.cat([each.expand(-1, len(h), -1) for each in given], -1)
            lengths = dt[block] if isinstance(dt, Tensor) else dt
            problem = HeldProblem(columns, step, inputs, h, lengths)
            states, ran = run(problem, fused, partial(step_along, problem, count=_uncounted))
            whys[ran["engine"]] = ran["engine_why"]
            if self.smooth:
                before = torch.cat([h[None], states[:-1]])
                slopes.append([columns.slope(0.0, inputs, before), columns.slope(1.0, inputs, states)])
                self.slopes = [torch.cat(pair) for pair in zip(self.slopes, slopes[-1], strict=True)]
            self.nodes = torch.cat([self.nodes, states])
            if end < len(self.needs):
                self._forget(int(self.lowest[end]))
            blocks.append(states)
            h, begin = states[-1], end
        self.first, self.nodes = 0, torch.cat([self.h0[None], *blocks])
        self.slopes = [torch.cat(side) for side in zip(*slopes, strict=True)]
        self.stats = {"engine": ", ".join(whys), "engine_why": next(filter(None, whys.values()), None)}

    def _forget(self, first: int) -> None:
        """Drop states that no later step reads."""
        drop, self.first = first - self.first, first
        self.nodes, self.slopes = self.nodes[drop:], [each[drop:] for each in self.slopes]

    def read(self, times: Tensor) -> Tensor:
        """Return the states at times (n, 1) or (n, batch), no later than what is known: (n, batch, state)."""
        start, at = self.edges[:1], times.detach()
        old = at <= start.detach() + self.near
        if len(self.nodes) < 2:
            return self._before(times)
        edges = self.edges[self.first : self.first + len(self.nodes)]
        if times.shape[1] > edges.shape[1]:
            edges = edges.expand(-1, times.shape[1])
        elif times.shape[1] < edges.shape[1]:
            times, at, old = (each.expand(-1, edges.shape[1]) for each in (times, at, old))
        # Where it ends at a state: what a delay moves there is what came before it.
        piece = torch.searchsorted(edges.detach().mT.contiguous(), (at - self.near).mT.contiguous()).mT - 1
        piece = piece.clamp(0, len(edges) - 2)
        length = edges.diff(dim=0).gather(0, piece)
        share = (times - edges.gather(0, piece)) / torch.where(length > 0, length, 1)
        whole = share.detach().round()
        is_whole = (share.detach() - whole).abs() * length.detach() <= self.near
        share = torch.where(is_whole, share - share.detach() + whole, share)[..., None].to(self.h0)
        first, last = self._rows(self.nodes, piece), self._rows(self.nodes, piece + 1)
        if self.smooth:
            ahead, behind = (self._rows(each, piece) for each in self.slopes)
            rest, length = 1 - share, length[..., None].to(self.h0)
            first = rest**2 * ((1 + 2 * share) * first + share * length * ahead)
            state = first + share**2 * ((1 + 2 * rest) * last - rest * length * behind)
        else:
            state = torch.lerp(first, last, share.expand_as(first))
        return torch.where(old[..., None].to(state.device), self._before(times), state) if bool(old.any()) else state

    def _before(self, times: Tensor) -> Tensor:
        """Return the history, and h0 where it has ended."""
        batch = len(self.h0)
        if self.history is None:
            return self.h0.expand(len(times), *self.h0.shape)
        start, knots = self.edges[:1].detach(), self.history.knots.detach()
        passed = torch.where(times.detach() > knots[-1], knots[-1], times)
        if passed.shape[1] == 1:
            states = self.history.at(piece_numbers(knots, passed.detach()[:, 0]), passed[:, 0]).expand(-1, batch, -1)
        else:
            states = self.history.evaluate(self.history.gather(piece_numbers(knots, passed.detach())), passed[..., None])
        return torch.where((times.detach() < start - self.near)[..., None].to(states.device), states, self.h0)

    def _rows(self, states: Tensor, numbers: Tensor) -> Tensor:
        numbers = numbers.to(states.device)
        if numbers.shape[1] == 1:
            return states.index_select(0, numbers[:, 0])
        return states[numbers, torch.arange(numbers.shape[1], device=states.device)]

    def between(self, times: Tensor) -> Tensor:
        """Return the states at times (n,) or (n, batch) of a run that has ended."""
        return self.read(times if times.dim() > 1 else times[:, None])

    def until(self, stop: float, begin: float) -> FunctionPath:
        """Return what was passed until `stop` as the history of a solve that reads it from `begin` on."""
        if self.edges.shape[1] > 1:
            raise ValueError("`history` is a trajectory whose sequences have times of their own; solve each sequence by itself.")
        start = float(self.edges[0].detach())
        known = [] if self.history is None else [max(begin, self.history.interval[0])]
        return FunctionPath(
            lambda t: self.between(t.reshape(1))[0], (min([start, *(known or [begin])]), stop), self.h0.shape[1], [start]
        )


def _uncounted(evaluations: int, samples: int) -> None:
    """Who runs them counts the calls of the field."""


def step_with_past(
    problem: HeldProblem, edges: Tensor, fused: Fused, run: Callable[..., tuple[Tensor, dict[str, Any]]] = run_sequence
) -> tuple[Tensor, dict[str, Any], SteppedPast]:
    r"""Compute the state after each sample of a `DelayedField`, as `discretize.loop.held.run_held` does of other fields.

    Shape:   edges (time + 1,) or (time + 1, batch) -> (time, batch, state), what ran, and the states between.
    """
    field, step, xs, h0, dt, substeps = problem
    assert isinstance(field, DelayedField)
    share = torch.arange(substeps, dtype=torch.float64, device="cpu").reshape(-1, *[1] * (edges.dim() - 1)) / substeps
    fine = (edges[:-1, None] + share * edges.diff(dim=0)[:, None]).flatten(0, 1)
    past = SteppedPast(field, step, torch.cat([fine, edges[-1:]]), h0)
    each = field.project(xs).repeat_interleave(substeps, 0) if substeps > 1 else field.project(xs)
    lengths = dt.repeat_interleave(substeps, 0) / substeps if isinstance(dt, Tensor) else dt / substeps
    return past.run([each], lengths, fused, run=run)[substeps - 1 :: substeps], past.stats, past


def solve_stepped(
    field: DelayedField,
    path: Path,
    h0: Tensor,
    times: Tensor,
    settings: Settings,
    speed: Path | Callable | None,
    history: Path | None,
    check: Callable[[Driven, Tensor, Tensor], None],
) -> Trajectory:
    """Solve by equal steps between knots and requested times, as `integrate` does other fields."""
    check_knots("path", path)
    with without_autocast(field.device):
        driven = driven_in(1, with_computed_weights(Settled(field)), path, speed, h0)
        times = times_within(driven, times)
        check(driven, times, h0)
        chain, engine = chain_of(driven, times), settings.engine(h0, {})
        assert isinstance(engine, FixedEngine)
        engine.start(chain, len(h0))
        staged = isinstance(engine.map, ExplicitRungeKutta)
        # A step of several stages is refused where it is longer than a delay by rounding, too.
        steps = num_steps(chain.lengths, settings.max_step, 0.0 if staged and engine.map.evaluations > 1 else OF_STAMPS)
        numbers, begin, dt = engine.grid(chain, steps)
        last = chain.edges[-1:] if chain.own else chain.edges[-1:, None]
        clocked, settled = staged and chain.speed is not None, driven.field
        assert isinstance(settled, Settled)
        past = SteppedPast(settled.field, engine.map, torch.cat([begin, last.detach()]), h0, history, not engine.holds, clocked)
        read = [engine.read(chain, h0, numbers, begin + (not engine.holds) * part * dt) for part in past.parts]
        if chain.speed is not None and not staged:
            dt = dt * read[0][1].reshape(len(dt), -1)  # type: ignore[union-attr]
        clocks = [clock.reshape(len(dt), -1, 1) for _, clock in read if clock is not None] if clocked else None
        states = past.run([settled.project(x) for x, _ in read], dt[..., None].to(h0), settings.fused, clocks)
        ends = states[torch.from_numpy(steps.max(1).cumsum() - 1).to(states.device)]
        engine.counts.call(2 * past.smooth * len(states), len(h0))
        failure = engine.after(chain, ends) if len(ends) else None
        reached = len(ends) if failure is None or failure.edge is None else failure.edge
        wanted = chain.wanted()
        wanted = wanted[wanted <= reached]
        hs = chain.states(wanted, torch.cat([h0[None], ends])[torch.from_numpy(wanted)], by_kernel=True)
        solved = Trajectory(times[: len(hs)], hs, engine.counts.stats(str(settings.method)) | past.stats, between=past.between)
        if failure is not None:
            raise SolverError(failure, solved)
        return solved
