r"""Delay differential equations by the method of steps: dh/dt = c'(t) F(x(t), h(t), h(t - d_1), ..., h(t - d_k)).

Block after block, none longer than the shortest delay, the past is known, and the equation is one without delays whose input is
x and the past. Each block is solved as any equation is; its steps are kept as polynomials, which later blocks read. A kernel
that makes these itself solves many blocks in one call.
"""

from __future__ import annotations

import bisect
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, Path, TimePath, checks
from ctrnn.autocast import without_autocast
from ctrnn.clocks.warp import as_speed
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import Delay, DelayedField, WithPast
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_like_field, check_state
from ctrnn.fields.parts import projects_affinely
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.splines import as_path
from discretize.errors import SolverError
from discretize.settings import Settings
from discretize.solvers.continuation import Continuation, Pieces
from discretize.solvers.detached import once_only
from discretize.solvers.engine import SolverStats
from discretize.solvers.equation import driven_in, increasing_times
from discretize.solvers.event_solve import EventSolve
from discretize.solvers.events import Event, EventTimes
from discretize.solvers.history import Beginning, History, check_knots
from discretize.solvers.kept import MOST_BYTES
from discretize.solvers.past import (
    SAME,
    Lag,
    Past,
    PastPath,
    breaking_points,
    lags_of,
    like_states,
)
from discretize.trajectory import Trajectory

__all__ = ["History", "solve_delayed"]

Block = Callable[[Driven, bool, Tensor, Tensor, bool], tuple[Trajectory, SolverStats] | None]
MOST_BLOCKS = 100_000
AT_ONCE = MOST_BYTES // 4  # of polynomials, without gradients, that a kernel makes in one call
STEPS = 16  # of a block, before any was solved
JUMP = 1e-6  # of what is on both sides: a smaller difference may be rounding


class _Function(DelayedField):
    """f(t, h, past) as a field whose input is the time."""

    def __init__(self, f: Callable[..., Tensor], width: int, delays: float | Sequence[Delay] | Tensor) -> None:
        with torch.device("cpu"):
            super().__init__(1, width, delays)
        try:
            inspect.signature(f).bind(None, None, None)
        except TypeError:
            raise TypeError(f"`field` takes {inspect.signature(f)}, and with `delays` is called as f(t, h, past).") from None
        except ValueError:  # written in C
            pass
        self.f = f
        if isinstance(delays, Tensor) and delays.requires_grad:
            self.register_buffer("delays", delays.double().reshape(-1))  # with its gradient

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return self.f(projected, h, past)


def solve_delayed(
    field: DelayedField | Callable[..., Tensor],
    path: Path | None,
    h0: Tensor,
    ts: Tensor,
    settings: Settings,
    speed: Path | Callable | None,
    delays: float | Sequence[Delay] | Tensor | None,
    history: History,
    check: Callable[[Driven, Tensor, Tensor], None],
    solve: Block,
    stepped: Callable[..., Trajectory],
    events: tuple[Event, ...] = (),
) -> Trajectory:
    """Solve as `integrate` does a field that reads its past; check: refuses what cannot be solved so; solve: (right-hand side,
    whether it is the first, state, times, whether these are several blocks for a kernel) -> the solution from the first to the
    last of these times, None where no kernel solves several; stepped: solves by steps of
    fixed length."""
    times, _ = increasing_times(ts)
    if not isinstance(h0, Tensor) or h0.dim() != 2:
        came = tuple(h0.shape) if isinstance(h0, Tensor) else type(h0).__name__
        raise ValueError(f"`h0` must be (batch, state), got {came}.")
    if isinstance(field, DelayedField):
        if delays is not None:
            raise TypeError("`field` is a ctrnn.DelayedField, which has delays of its own; leave `delays` out.")
    elif delays is None or not callable(field) or path is not None:
        raise TypeError(
            "`delays` are those of an equation f(t, h, past) without a path; of a network, write a ctrnn.DelayedField."
        )
    else:
        field = _Function(field, h0.shape[1], delays)
    check_state(WithPast(field), h0, "h0")
    checks.is_finite("h0", h0)
    if any(event.reset for event in events):
        raise ValueError(
            "`reset` of an Event makes a jump that delays see again, in every sample at another time; let it be `terminal`, and "
            "solve on from there with `history` the trajectory."
        )
    own_starts = times.dim() > 1 and bool((times[0] != times[0, 0]).any())
    if own_starts and (settings.adaptive or history is not None):
        raise ValueError(
            "`ts` begins at other times for other sequences; with delays all begin together, but for steps of fixed length "
            "without `history`."
        )
    path = _path_of(field, path, h0, times)
    if not settings.adaptive:
        begin = _beginning(h0, lags_of(field), times, settings)
        return stepped(field, path, h0, times, settings, speed, None if history is None else begin.history(history), check)
    return _DelayedSolve(field, path, h0, times, settings, speed, history, solve, events).run()


def _beginning(h0: Tensor, lags: Sequence[Lag], times: Tensor, settings: Settings) -> Beginning:
    return Beginning(h0, lags, times, settings.rtol, math.inf if settings.max_step is None else settings.max_step)


def _path_of(field: DelayedField, path: Path | None, h0: Tensor, times: Tensor) -> Path:
    start, end = float(times[0].min()), float(times[-1].max())
    ends = torch.tensor([start, end if end > start else start + 1], dtype=torch.float64, device="cpu")
    if path is not None:
        return as_path(path)
    if isinstance(field, _Function):
        return TimePath(ends, len(h0), h0.dtype, h0.device)
    if field.input_size:
        raise ValueError(f"`path` is None, and the field has {field.input_size} inputs; give the path they come from.")
    return HeldPath.unchecked(h0.new_zeros(1, len(h0), 0), ends)


class _Once(torch.autograd.Function):
    """Delays, which have first derivatives only: those of the times at which jumps are seen are no part of the graph."""

    @staticmethod
    def forward(ctx: Any, delays: Tensor) -> Tensor:
        return delays.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor | None:
        return once_only("delays that are learned", [grad], [grad])[0]


def _once(delays: Tensor) -> Tensor:
    found: Tensor = _Once.apply(delays) if delays.requires_grad else delays
    return found


def _of_time(delay: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    delays = delay(t)
    return _once(delays) if isinstance(delays, Tensor) else delays  # refused by who reads it


def _without(
    solve: Callable[..., tuple[Trajectory, SolverStats] | None], h: Tensor, within: list[float], at_once: bool
) -> tuple[Trajectory, SolverStats, list[Trajectory]] | None:
    found = solve(h, torch.tensor(within, dtype=torch.float64, device="cpu"), at_once)
    return found and (*found, [found[0]])


def _jumps(before: Tensor, after: Tensor) -> bool:
    """Return whether any unit of any sample differs by more than rounding of its own two numbers."""
    before, after = before.detach(), after.detach()
    return bool(((before - after).abs() > JUMP * (before.abs() + after.abs())).any())


class _DelayedSolve:
    """Solves block by block, and keeps what later blocks read."""

    def __init__(
        self,
        field: DelayedField,
        path: Path,
        h0: Tensor,
        times: Tensor,
        settings: Settings,
        speed: Path | Callable | None,
        history: History,
        solve: Block,
        events: tuple[Event, ...],
    ) -> None:
        self.h0, self.speed, self.asked = h0, speed, times
        self.times = times if times.dim() == 1 else times[[0, -1]].amax(1)  # of all; others are read between
        self.settings, self.solve, self.events = settings, solve, events
        self.crossed = [(EventTimes.none(h0),) * len(events)]  # in every block
        self.sides: np.ndarray | None = None  # of events, after the block before
        self.status = ["completed"] * len(h0)
        self.ends = times[-1].expand(len(h0))  # of each sample, until an event ends it
        self.start, self.end = float(self.times[0]), float(self.times[-1])
        known: Sequence[Any] = [partial(_of_time, delay) for delay in field.of_time]
        self.lags = [Lag(number, d) for number, d in enumerate(known or _once(field.delays.cpu().to(torch.float64)).unbind())]
        if not field.of_time and (self.end - self.start) / (shortest := min(field.numbers())) > MOST_BLOCKS:
            raise ValueError(
                f"`delays` are as short as {shortest:g}, and a solve goes from one to the next: more than {MOST_BLOCKS:,} "
                f"times until t = {self.end:g}. Leave so short a delay out, or take DiscreteRNN."
            )
        self.begin = _beginning(h0, self.lags, times, settings)
        self._read(field, path)
        checks.within("ts", times, *self.path.interval)
        self.past = Past(self.start, h0, history=self.begin.history(history))
        self.counts: SolverStats | None = None
        self.engines: list[tuple[str, str | None]] = []  # of each block, and why no other
        self.checked = False  # the field, by its first evaluation
        # Events that stop samples change what later blocks read, and gradients to events solve parts of blocks again.
        alone = any(event.stops for event in events) or (bool(events) and torch.is_grad_enabled())
        self.tries = 2 if settings.fused and not alone else 0  # how often to ask for a kernel that solves several blocks
        self._lay_knots()

    def _read(self, field: DelayedField, path: Path) -> None:
        """Project the input, by masks and computed weights of the whole solve, not of a block."""
        if path.knots.dim() > 1:
            raise ValueError("Every sequence of `path` has times of its own; where a field has delays, solve them one by one.")
        check_knots("path", path)
        x = path(path.knots[:1].detach())
        check_like_field("path", x, WithPast(field))
        if x.shape[-1] != field.input_size:
            raise ValueError(f"`path` has {x.shape[-1]} features, the field reads {field.input_size}.")
        self.begin.check_batch("path", path)
        every = masked(with_computed_weights(WithPast(field)), (len(self.h0),))
        assert isinstance(every, WithPast)
        every_input, project = for_many(path, len(self.h0)), every.field.project
        self.path = every_input.map(project, every_input.steady or projects_affinely(every.field))
        columns = self.path(self.path.knots[:1].detach()).shape[-1]
        self.field = WithPast(like_states(every.field, self.h0), columns)

    def _lay_knots(self) -> None:
        inner = [float(t) for t in self.path.knots.detach().tolist() if self.start < t < self.end]
        of_history = [float(t) for t in self.past.history.knots.detach().tolist()[1:] if t < self.start]
        assert self.settings.pair is not None
        levels = self.settings.pair.order
        self.jumps = breaking_points(self.lags, [*of_history, self.start], inner, self.start, self.end, levels)
        every = sorted({self.start, *inner, *self.jumps, self.end if self.end > self.start else self.start + 1})
        self.input = PastPath(self.path, self.past, self.lags, torch.tensor(every, dtype=torch.float64, device="cpu"))
        self.marks, self.near = sorted({*every, *self.times.tolist()}), SAME * max(abs(self.start), abs(self.end))
        learned = torch.is_grad_enabled() and any(lag.shift(self.start) is not None for lag in self.lags)
        self.moving = sorted(t for t, seeing in self.jumps.items() if seeing) if learned else []

    def run(self) -> Trajectory:
        asked, h, begin = self.times.tolist(), self.h0, self.start
        states = {begin: h}
        while (self.ends > begin).any():
            ends = self._block_ends(begin)
            h, begin = self._solve_blocks(h, begin, ends, asked, states)
            if len(self.engines) >= MOST_BLOCKS and (self.ends > begin).any():
                raise ValueError(
                    f"`delays` become so short that a solve until t = {self.end:g} takes more than {MOST_BLOCKS:,} blocks."
                )
        stats = (self.counts or SolverStats(max(1, len(h)))).stats(str(self.settings.method)) | self._engine()
        if self.events:
            stats |= {"status_of_samples": self.status, "ends_of_samples": self.ends.tolist()}
        hs = torch.stack([states.get(t, h) for t in asked])
        if self.asked.dim() > 1:
            hs = torch.cat([hs[:1], self._between(self.asked[1:])])
        events = tuple(map(self._listed, range(len(self.events))))
        return Trajectory(self.asked, hs, stats, between=self._between, events=events)

    def _engine(self) -> dict[str, str | None]:
        """Return what has solved the blocks; where kernels had some of them alone, how many were left to steps, and why."""
        others = [(engine, why) for engine, why in self.engines if engine == "steps"]
        if not others:
            engine, why = self.engines[-1] if self.engines else ("steps", None)
        else:
            engine, why = others[0]
            if len(others) < len(self.engines):
                why = f"{len(others)} of {len(self.engines)} blocks: {why}"
        return {"engine": engine, "engine_why": why}

    def _block_ends(self, begin: float) -> list[float]:
        """Return where the next blocks end, of as many as a kernel may solve at once; each sees no more than was before it."""
        ends, most = list[float](), self._most_at_once()
        while len(ends) < most and begin < self.end:
            seen = [t for lag in self.lags if (t := lag.seen(begin, begin, self.end)) is not None]
            begin = self._mark(min([self.end, *seen, *(t for t in self.moving if t > begin)]))
            ends.append(begin)
            if begin in self.moving:  # where the state is given a gradient
                break
        return ends

    def _most_at_once(self) -> int:
        if not self.tries or (self.engines and self.engines[-1][0] != "compiled"):
            return 1
        if torch.is_grad_enabled():  # all is kept
            return MOST_BLOCKS
        size = self.past.size / len(self.engines) if self.engines else STEPS * 6 * self.h0.nbytes
        return max(1, min(int(AT_ONCE / max(size, 1)), MOST_BLOCKS))

    def _solve_blocks(
        self, h: Tensor, begin: float, ends: list[float], asked: list[float], states: dict[float, Tensor]
    ) -> tuple[Tensor, float]:
        """Solve these blocks at once, or the first of them; return the state to go on from, and when that is."""
        for several in (ends, ends[:1]):
            inner = {*several[:-1], *(t for t in asked if begin < t < several[-1])}
            found = self._block(h, [begin, *sorted(inner), several[-1]], several[:-1], states)
            if found is not None:
                return found, several[-1]
            self.tries -= 1
        raise AssertionError

    def _mark(self, t: float) -> float:
        """Return the knot, or the requested time, that a time is but for rounding, or else that itself."""
        place = bisect.bisect(self.marks, t)
        near = [mark for mark in self.marks[max(0, place - 1) : place + 1] if abs(mark - t) <= self.near]
        return near[0] if near else t

    def _block(self, h: Tensor, within: list[float], inner: list[float], states: dict[float, Tensor]) -> Tensor | None:
        """Solve a block, or several that begin at `inner` times too, keep their steps and the states at these times, and return
        the state to go on from; None where no kernel solves several."""
        begin, end = within[0], within[-1]
        with without_autocast(self.field.device):
            driven = driven_in(1, self.field, self.input.look_back(begin, end, inner), self.speed, h)
            first, self.checked = not self.checked, True
            solve = partial(self.solve, driven, first)
            try:
                found = (self._with_events if self.events else _without)(solve, h, within, bool(inner))
            except SolverError as error:
                states |= dict(zip(within, error.trajectory.hs.unbind(0), strict=False))
                kept = [t for t in self.times.tolist() if t in states]
                so_far = Trajectory(
                    self.times[: len(kept)], torch.stack([states[t] for t in kept]), error.trajectory.stats, "failed"
                )
                raise SolverError(error._failure, so_far) from None
        if found is None:
            return None
        solved, counts, parts = found
        if self.counts is None:
            self.counts = counts
        else:
            self.counts.add(counts)
        self.engines += [(solved.stats["engine"], solved.stats["engine_why"])] * (len(inner) + 1)
        pieces = []
        for part in parts:
            steps = getattr(part.between, "continuation", lambda: None)()
            if not isinstance(steps, Continuation):
                raise ValueError(
                    f"The steps from t = {begin:g} to {end:g} take more than {MOST_BYTES >> 20} MiB; solve fewer samples."
                )
            pieces.append(steps.pieces())
            if self.events and not inner:  # a sample may have been stopped a little later than its steps end
                pieces.append(Pieces.constant(part.ts[-1], solved.hs[-1]))
            self.counts.evaluations += steps.counts.evaluations * (len(inner) + 1)  # of each block
            self.counts.work += steps.counts.work
        if self.events and not inner:
            pieces.append(Pieces.constant(self.ends.clamp(begin, end), solved.hs[-1]))
        self.past.add(begin, end, Pieces.joined(pieces))
        states |= dict(zip(within[1:], solved.hs[1:].unbind(0), strict=True))
        if not solved.hs.requires_grad and self.past.size > MOST_BYTES:
            self.past.forget(self.begin.earliest(end))
        return self._moved(solved.hs[-1], end)

    def _with_events(
        self, solve: Callable[..., Any], h: Tensor, within: list[float], at_once: bool
    ) -> tuple[Trajectory, SolverStats, list[Trajectory]] | None:
        """Solve until events end samples; one that has ended stays where it is. None where no kernel solves several blocks."""
        if at_once:
            return self._with_events_at_once(solve, h, within)
        times = torch.tensor(within, dtype=torch.float64, device="cpu")[:, None].minimum(self.ends.clamp(min=within[0]))
        solves: list[Trajectory] = []
        return *self._looked(lambda h, ts, _: solve(h, ts, False), h, times, solves), solves

    def _with_events_at_once(
        self, solve: Callable[..., Any], h: Tensor, within: list[float]
    ) -> tuple[Trajectory, SolverStats, list[Trajectory]] | None:
        """Solve several blocks, and look along their steps for events, which stop nothing there; None where no kernel does."""
        times = torch.tensor(within, dtype=torch.float64, device="cpu")
        try:
            found = solve(h, times, True)
        except SolverError:  # the block that fails says it, and looks for events until then
            return None
        if found is None or found[0].between.continuation() is None:
            return None

        def again(h: Tensor, ts: Tensor, _: object) -> tuple[Trajectory, SolverStats]:
            rows = torch.searchsorted(times, ts[:, 0].contiguous())  # a window names its end twice
            return replace(found[0], ts=ts[:, 0], hs=found[0].hs[rows.to(h.device)]), found[1]

        return *self._looked(again, h, times[:, None].expand(-1, len(h)), None), [found[0]]

    def _looked(
        self, solve: Callable[..., Any], h: Tensor, times: Tensor, at_numbers: list[Trajectory] | None
    ) -> tuple[Trajectory, SolverStats]:
        """Find the events until the last of these times, and what they end."""
        solution = EventSolve(solve, self.events, h, times, windows=1, at_numbers=at_numbers, sides=self.sides)
        solved = solution.run()
        self.sides = solution.sides
        self.crossed.append(solved.events)
        self.ends = torch.where(solution.over, solution.t.detach(), self.ends)
        self.status = [new if over else old for new, old, over in zip(solution.status, self.status, solution.over, strict=True)]
        return solved, solution.counts

    def _listed(self, number: int) -> EventTimes:
        """Join what an event crossed in all blocks, sample by sample."""
        parts = [crossed[number] for crossed in self.crossed]
        samples, times, states = (torch.cat([getattr(part, name) for part in parts]) for name in EventTimes._fields)
        order = samples.argsort(stable=True)
        return EventTimes(samples[order], times[order], states[order.to(states.device)])

    def _moved(self, h: Tensor, t: float) -> Tensor:
        """Give a state where dh/dt jumps the gradient of that time: had it come later, the former would have lasted longer."""
        seeing = self.jumps[t] if t in self.moving else []
        if not seeing:
            return h
        path, at = self.input.look_back(t, t), torch.tensor(t, dtype=torch.float64, device="cpu")
        number = int((path.knots < t).sum())
        reads = path.at(number, at)
        later = self.field.flow(reads, h)
        clock = 1.0 if self.speed is None else as_speed(self.speed)(at).to(h)  # type: ignore[misc]
        moved, jumping = torch.zeros_like(h), []
        for lag in seeing:
            if (shift := lag.shift(t)) is None:
                continue
            before = path.at_knot(number, at, lag.number)
            earlier = self.field.flow(before, h)
            moved = moved + clock * (earlier - later) * shift.to(h)  # of no jump it is 0, or rounding
            if _jumps(before, reads) and _jumps(earlier, later):
                jumping.append(lag.number)
        if len(jumping) > 1:
            raise ValueError(
                f"Delays {jumping} see one jump, at t = {t:g}, and are learned: gradients to them "
                "have no one value there. Move one of them a little, or give a `history` that ends in h0."
            )
        runs = (self.ends > t)[:, None].to(h.device)
        return torch.where(runs, h + moved, h)

    def _between(self, times: Tensor) -> Tensor:
        return self.past.states(times)
