r"""The past of a delay differential equation, as an input: h(t - d) is the history before the start, and what was solved after.

    a jump at s of x, of the history or of h' at the start      h' jumps at s + d, h'' at s + 2 d, ...

Those are the breaking points: each is a knot, up to as many delays as the method has orders. From knot to knot the solution is
smooth, and the past of a block no longer than the shortest delay is known before the block is solved.

Source: Bellen and Zennaro 2003, Numerical methods for delay differential equations, ch. 2 and 3.
"""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from ctrnn.fields.delayed import DelayedField
from ctrnn.forward import jvp
from ctrnn.inputs.function import FunctionPath
from ctrnn.inputs.path import Data, GatheredPath, Path, piece_numbers
from ctrnn.inputs.polynomial import polynomial_of
from discretize.solvers.continuation import Pieces, quintic

__all__ = [
    "SAME",
    "Lag",
    "Past",
    "PastPath",
    "SeenPast",
    "breaking_points",
    "lags_of",
    "like_states",
]

NO_POLYNOMIAL = "the states before the start are no polynomial of time that kernels read"
ROUNDING = 16  # times what a float leaves out
SAME = 1e-13  # of the largest time: knots no further apart are one


@dataclass(frozen=True)
class Lag:
    """A delay: a number, perhaps with a gradient, or a function of time."""

    number: int
    delay: Tensor | Callable[[Tensor], Tensor]

    def before(self, t: Tensor) -> Tensor:
        """Return t - d(t)."""
        if isinstance(self.delay, Tensor):
            return t - self.delay
        delay = self.delay(t)
        if not isinstance(delay, Tensor) or not bool((delay > 0).all()):
            raise ValueError(f"Delay {self.number} must be a tensor of positive times like t, got {delay!r} at t = {t}.")
        return t - delay

    def seen(self, s: float, start: float, end: float) -> float | None:
        """Return when the time s is d(t) ago, None if not between `start` and `end`."""
        if isinstance(self.delay, Tensor):
            t = s + float(self.delay.detach())
            return t if start < t < end else None
        with needed_by("a delay that varies in time"):
            from scipy.optimize import brentq  # noqa: PLC0415 - SciPy, which other delays do not need

        start = max(s, start)
        with torch.no_grad():
            if not self._number(start) < s < self._number(end):
                return None
            nearest = torch.finfo(torch.float64).eps * max(abs(start), abs(end))  # of times there, in any unit of time
            return float(brentq(lambda t: self._number(t) - s, start, end, xtol=nearest, rtol=1e-14))

    def shift(self, t: float) -> Tensor | None:
        """Return by how much the time that is seen at t moves as the delay does: 0 with its gradient; None without one."""
        if isinstance(self.delay, Tensor):
            moved, rate = self.delay, 0.0
        else:
            at = torch.tensor(t, dtype=torch.float64, device="cpu")
            moved, rate = self.delay(at), 0.0
            if moved.requires_grad:
                again = self.delay(at.requires_grad_())
                rate = float(torch.autograd.grad(again, at, allow_unused=True, materialize_grads=True)[0])
        return (moved - moved.detach()) / (1 - rate) if moved.requires_grad else None

    def _number(self, t: float) -> float:
        return float(self.before(torch.tensor(t, dtype=torch.float64, device="cpu")))


@dataclass
class SolvedPast:
    """Holds what a solve has found from h0 at `start` on, block by block."""

    start: float
    h0: Tensor
    blocks: list[tuple[float, float, Pieces]] = field(default_factory=list)
    size: int = 0  # bytes of it

    def add(self, begin: float, end: float, pieces: Pieces) -> None:
        self.blocks.append((begin, end, pieces))
        self.size += pieces.nodes.nbytes

    def between(self, begin: float, end: float) -> Pieces | None:
        """Return the solution on the blocks that share a time with these; None before the start."""
        # Of the time at which they are seen, too: of a delay that varies it is a root, found to rounding, and they may be 0.
        near = SAME * max(map(abs, (begin, end, self.start, *(last for _, last, _ in self.blocks[-1:]))))
        blocks = [pieces for first, last, pieces in self.blocks if last >= begin - near and first <= end + near]
        return Pieces.joined(blocks) if blocks else None

    def states(self, times: Tensor) -> Tensor:
        """Return the states at times (m,) or (m, batch), by the polynomials of the steps."""
        batch = len(self.h0)
        own = times if times.dim() > 1 else times[:, None].expand(-1, batch)
        if not len(own):
            return self.h0.new_zeros(0, *self.h0.shape)
        if not self.blocks or float(own.detach().min()) < self.blocks[0][0]:
            if bool((own == self.start).all()):
                return self.h0.expand(len(own), *self.h0.shape)
            raise ValueError("The states so long ago were not kept, for they took too much memory; ask for them in `ts`.")
        own = own.clamp(max=self.blocks[-1][1])  # where events have ended all samples before
        pieces = self.between(float(own.detach().min()), float(own.detach().max()))
        assert pieces is not None
        samples = torch.arange(batch, device="cpu").expand(len(own), -1)
        return pieces.at(samples.reshape(-1), own.reshape(-1)).reshape(*own.shape, -1)

    def since(self, begin: float) -> list[tuple[float, float, Pieces]]:
        """Return the blocks that are not older."""
        return [block for block in self.blocks if block[1] >= begin]

    def forget(self, before: float) -> None:
        """Drop what is older."""
        self.blocks = self.since(before)
        self.size = sum(pieces.nodes.nbytes for *_, pieces in self.blocks)


@dataclass
class Past(SolvedPast):
    """Holds what a solve has passed: a history that ends at `start`, and the solution since."""

    history: Path = field(kw_only=True)

    def until(self, stop: float, begin: float) -> Path:
        """Return what was passed until `stop` as the history of a solve that reads it from `begin` on, and hold no more of it."""
        solved = SolvedPast(self.start, self.h0, self.since(begin - SAME * max(abs(begin), abs(stop))))
        first = solved.blocks[0][0] if solved.blocks else self.start
        parts: list[tuple[float, Callable[[Tensor], Tensor]]] = [(first, lambda t: solved.states(t.reshape(1))[0])]
        if begin < first == self.start:  # and nothing since was dropped
            passed = getattr(self.history, "f", None)
            earlier = passed.parts if isinstance(passed, _Passed) else [(self.history.interval[0], self._before)]
            parts = [part for part, (later, _) in pairwise([*earlier, *parts]) if later > begin] + parts
        begin = max(begin, parts[0][0])
        if len(parts) == 1 and solved.blocks:
            return SolvedPath(solved, (begin, stop), _Passed(parts))
        knots = [knot for knot in [*self.history.knots.detach().tolist()[1:-1], self.start] if begin < knot <= self.start]
        return FunctionPath(_Passed(parts), (parts[0][0], stop), self.h0.shape[1], knots)

    def _before(self, t: Tensor) -> Tensor:
        return self.history.at(int(piece_numbers(self.history.knots.detach(), t.detach())), t)


@dataclass
class _Passed:
    """Tells the states that several solves have passed, each from a time on."""

    parts: list[tuple[float, Callable[[Tensor], Tensor]]]

    def __call__(self, t: Tensor) -> Tensor:
        place = bisect.bisect([start for start, _ in self.parts], float(t.detach()))
        return self.parts[max(place - 1, 0)][1](t)


class SolvedPath(GatheredPath):
    r"""A solution between two times as the history of a solve that goes on from it, each sample at its own time.

    Args:    solved: what holds the steps as polynomials; ends: the two times; f: the same, one time for all.
    """

    own_times = True

    def __init__(self, solved: SolvedPast, ends: tuple[float, float], f: _Passed) -> None:
        self.knots: Tensor = torch.tensor(ends, dtype=torch.float64, device="cpu")
        self.pieces, self.f = Pieces.joined([pieces for *_, pieces in solved.blocks]), f

    @cached_property
    def batch(self) -> int:
        return self.pieces.begin.shape[1]

    def gather(self, k: int | Tensor) -> Data:
        return (torch.arange(self.batch, device="cpu"),)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        (samples,) = data
        if t.dim() in (1, 3):
            return torch.stack([self.evaluate(data, each) for each in t.unbind()])
        times = checks.time_on(t, torch.device("cpu")).reshape(-1)
        return self.pieces.at(samples.expand(max(len(samples), len(times))), times.expand(max(len(samples), len(times))))

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return jvp(lambda at: self.evaluate(data, at), (t,), (torch.ones_like(t),))[1]


@dataclass(frozen=True)
class SeenPast:
    """Holds what is seen of the past in some segments, as polynomials: `pieces`, in order; delays (lags,), with their gradients;
    low, high (lags, segments) or (lags, segments, batch): the times that each lag sees; of_path: the pieces of x there; block
    (segments,): the number of the block that each is in, of those that are solved at once."""

    pieces: Pieces
    delays: Tensor
    low: np.ndarray
    high: np.ndarray
    of_path: Tensor
    block: np.ndarray


class PastPath(GatheredPath):
    r"""The input of a `ctrnn.WithPast`: x(t) and the states that delays ago were.

    Args:    path: x; past: what was, which grows, see `look_back`; lags: of every delay; knots: where x or the past is not
             smooth, ends included.
    Shape:   as of every path, input + delays * state features.
    """

    path: Path
    past: Past
    history: Path
    lags: Sequence[Lag]
    knots: Tensor
    blocks: Sequence[float] = ()  # where they begin that are solved at once

    def __init__(self, path: Path, past: Past, lags: Sequence[Lag], knots: Tensor) -> None:
        self.path, self.past, self.history, self.lags, self.knots = path, past, past.history, lags, knots
        self._solved: Pieces | None = None
        self.following: Callable[[], Pieces] | None = None  # what a kernel solved since the last look back
        self._last = len(knots) - 2  # the piece that ends where the look back does
        self.own_times: bool = path.own_times  # and the history's, where that is read
        middles = (self.knots[:-1] + self.knots[1:]) / 2
        self._of_path = piece_numbers(path.knots.detach(), middles)
        with torch.no_grad():
            before = [lag.before(middles) for lag in lags]
            # What each piece sees, a little less at either end: there rounding would choose the side.
            rounding = 8 * torch.finfo(torch.float64).eps * knots.abs().max()
            seen = [lag.before(knots) for lag in lags]
            self._inside = [torch.stack([each[:-1] + rounding, each[1:] - rounding], 1).numpy() for each in seen]
        # Of each piece of the history, -1 where it is over.
        self._of_history = [
            torch.where(each < past.start, piece_numbers(past.history.knots.detach(), each), -1).numpy() for each in before
        ]

    def look_back(self, begin: float, end: float, inner: Sequence[float] = ()) -> PastPath:
        """Have at hand what is seen between these times, of what was solved so far; inner: where blocks begin between them."""
        self.blocks, self.following = [begin, *inner], None
        ends = torch.tensor([begin, end], dtype=torch.float64, device="cpu")
        with torch.no_grad():
            reach = torch.cat([lag.before(ends) for lag in self.lags])
        self._solved, self._last = self.past.between(float(reach.min()), float(reach.max())), int((self.knots < end).sum()) - 1
        first = max(0, int((self.knots <= begin).sum()) - 1)
        reads = any((each[first : self._last + 1] >= 0).any() for each in self._of_history)
        self.own_times = self.path.own_times and (self.history.own_times or not reads)
        return self

    def gather(self, k: int | Tensor) -> Data:
        numbers, samples = torch.as_tensor(k, device="cpu"), torch.arange(self.path.batch, device="cpu")
        if numbers.dim() > 1:  # by sample; one that has ended earlier than others reads the last piece
            numbers, samples = numbers.clamp(max=self._last), samples[:, None]
        return *self.path.gather(self._of_path[numbers]), numbers, samples.expand(*numbers.shape[:1], *samples.shape)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        *of_path, numbers, samples = data
        if numbers.dim() == 1 and t.dim() > 1:
            return self._read_own(of_path, numbers, samples[:, 0], t)
        if numbers.dim():
            each = zip(*(part.unbind(0) for part in data), t.unbind(0), strict=True)
            return torch.stack([self.evaluate(parts[:-1], parts[-1]) for parts in each])
        return self._read(of_path, [int(numbers)] * len(self.lags), samples, t)

    @cached_property
    def polynomial(self) -> Path | str:
        """x as polynomials, or why it is none."""
        return polynomial_of(self.path)

    def seen_in(self, numbers: Tensor, begins: np.ndarray) -> SeenPast | str:
        """Return what is seen, since the last look back, in segments with these `begins`, and in pieces of these numbers, both
        (segments,) or (segments, batch); or why that is no polynomial."""
        delays = [lag.delay for lag in self.lags]
        if not all(isinstance(delay, Tensor) for delay in delays):
            return "a delay is a function of time"
        numbers = numbers.clamp(max=self._last) if numbers.dim() > 1 else numbers
        rows = numbers.numpy()
        of_history = sorted({int(k) for each in self._of_history for k in each[rows].flat if k >= 0})
        if of_history and self.history.degree is None and not isinstance(self.history, SolvedPath):
            return NO_POLYNOMIAL
        parts = [pieces for k in of_history if (pieces := _pieces_of(self.history, k)) is not None]
        if len(parts) < len(of_history):
            return NO_POLYNOMIAL
        parts += [] if self._solved is None else [self._solved]
        low, high = (np.ascontiguousarray([each[rows, side] for each in self._inside]) for side in (0, 1))
        block = np.searchsorted(self.blocks, begins if begins.ndim == 1 else begins[:, 0], "right") - 1
        high = np.minimum(high, np.array(self.blocks)[block].reshape(-1, *[1] * (begins.ndim - 1)))  # as `_before`
        low = np.minimum(low, high)
        return SeenPast(Pieces.joined(parts), torch.stack(delays), low, high, self._of_path[numbers], block)  # type: ignore[arg-type]

    def by(self, path: Path, pieces: Pieces, delays: Tensor) -> PastPath:
        """Return the same with another x, and with all of the past, and the delays, given."""
        found = copy.copy(self)
        found.path, found.lags, found._solved = path, [Lag(k, delay) for k, delay in enumerate(delays.unbind())], pieces
        found._of_history = [np.full_like(each, -1) for each in self._of_history]
        found.own_times, found.following = True, None
        return found

    def after(self, pieces: Pieces) -> PastPath:
        """Return the same with pieces that follow those of its past."""
        found = copy.copy(self)
        found._solved = pieces if self._solved is None else Pieces.joined([self._solved, pieces])
        return found

    def at_knot(self, number: int, t: Tensor, earlier: int) -> Tensor:
        """Read x and the past where a piece begins, but what one delay sees as it was just before."""
        *of_path, _, samples = self.gather(number)
        return self._read(of_path, [number - (lag.number == earlier) for lag in self.lags], samples, t)

    def _read(self, of_path: Data, numbers: Sequence[int], samples: Tensor, t: Tensor) -> Tensor:
        states = [self.path.evaluate(of_path, t)]
        states += [self._before(lag, number, samples, t).to(states[0]) for lag, number in zip(self.lags, numbers, strict=True)]
        rows = max(map(len, states))  # a held x of one sequence has one, whatever the times
        return torch.cat([each.expand(rows, -1) for each in states], -1)

    def _read_own(self, of_path: Data, numbers: Tensor, samples: Tensor, t: Tensor) -> Tensor:
        """Read for each of these samples its own piece at its own time, t (samples, 1)."""
        numbers, samples = numbers.expand(len(t)), samples.expand(len(t))  # of one sample alone rows are not chosen
        groups = [(numbers == number).nonzero()[:, 0] for number in numbers.unique()]
        order, found = torch.cat(groups).argsort(), [self.path.evaluate(of_path, t).expand(len(t), -1)]
        for lag in self.lags:
            seen = [self._before(lag, int(numbers[rows[0]]), samples[rows], t[rows]) for rows in groups]
            found.append(torch.cat(seen).to(found[0])[order.to(found[0].device)])
        return torch.cat(found, -1)

    def _before(self, lag: Lag, number: int, samples: Tensor, t: Tensor) -> Tensor:
        time, piece = lag.before(checks.time_on(t, torch.device("cpu"))), int(self._of_history[lag.number][number])
        samples = samples.expand(len(t)) if t.dim() else samples  # of one sequence alone rows are not chosen
        if piece < 0:
            if self.following is not None:
                self._solved, self.following = self.after(self.following())._solved, None
            assert self._solved is not None
            times, (low, high) = time.reshape(-1).expand(len(samples)), self._inside[lag.number][number].tolist()
            if len(self.blocks) == 1:  # it reads what was before: later, by rounding, samples with fewer steps have none
                high = min(high, self.blocks[0])
            return self._solved.at(samples, times, times.detach().clamp(min(low, high), high))
        parts = [part if part.dim() == 0 or len(part) == 1 else part[samples] for part in self.history.gather(piece)]
        state = self.history.evaluate(parts, time)
        return state.expand(len(samples), -1)

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return jvp(lambda at: self.evaluate(data, at), (t,), (torch.ones_like(t),))[1]


# Shares of a piece, and what makes of its states there the nodes of a polynomial of degree 5.
AT = 0.5 - 0.5 * np.cos(np.pi * np.arange(6) / 5)
TO_NODES = np.linalg.inv(quintic(torch.from_numpy(AT)).numpy())
BETWEEN = np.array([0.05, 0.2, 0.5, 0.8, 0.95])  # where it is compared
MOST_PARTS = 1024


def _pieces_of(history: Path, number: int) -> Pieces | None:
    """Return a piece of a history in parts of degree 5, to rounding; None where that takes too many."""
    begin, end = history.knots.detach()[number : number + 2]
    if isinstance(history, SolvedPath):
        return history.pieces
    if history.degree == 0:
        begins = begin.expand(history.batch)
        return Pieces.constant(begins, history.evaluate(history.gather(number), begin).expand(history.batch, -1))
    parts = 1
    while parts <= MOST_PARTS:
        begins, length = begin + (end - begin) / parts * torch.arange(parts, device="cpu"), (end - begin) / parts

        def states(shares: np.ndarray) -> Tensor:
            times = (begins[:, None] + length * torch.from_numpy(shares)).flatten()  # noqa: B023 - called here
            read = history.at(torch.full((len(times),), number, device="cpu"), times)
            return read.expand(-1, history.batch, -1).unflatten(0, (-1, len(shares)))

        known = states(AT)
        nodes = torch.einsum("nk,pkbs->pbns", torch.from_numpy(TO_NODES).to(known), known)
        found = Pieces(begins[:, None].expand(-1, history.batch), length.expand(parts, history.batch), nodes)
        if history.degree is not None and history.degree < len(AT):
            return found
        with torch.no_grad():
            off = torch.einsum("sn,pbnu->psbu", quintic(torch.from_numpy(BETWEEN)).to(nodes), nodes) - states(BETWEEN)
            late = float(end.abs().maximum(begin.abs()) / (end - begin))  # times have no more digits than that
            allowed = ROUNDING * (torch.finfo(nodes.dtype).eps + torch.finfo(torch.float64).eps * late)
            if bool((off.abs().amax((0, 1)) <= allowed * known.abs().amax((0, 1))).all()):
                return found
        parts *= 2
    return None


def breaking_points(
    lags: Sequence[Lag], jumps: Sequence[float], inner: Sequence[float], start: float, end: float, levels: int
) -> dict[float, list[Lag]]:
    """Return the knots between start and end, and of those that see a jump of the past, the delays that do.

    jumps: when the history, or h at the start, is not smooth; inner: knots of x, which are found anew where they are such knots.
    """
    if end <= start:  # where no time goes by, near may be 0
        return {}
    near = SAME * max(abs(start), abs(end), end - start)
    known, found = {round(t / near): t for t in (start, *inner, end)}, dict[float, list[Lag]]()
    seen = [*jumps, *inner]
    for level in range(levels):
        later = []
        for s in seen:
            for lag in lags:
                if (t := lag.seen(s, start, end)) is None:
                    continue
                place = round(t / near)
                same = next((known[place + k] for k in (0, -1, 1) if place + k in known), t)
                if same in (start, end):
                    continue
                if same not in found:
                    found[same] = []
                    later.append(same)
                known.setdefault(place, same)
                if level == 0 and s <= start:
                    found[same].append(lag)
        seen = later
    return found


def like_states(field: DelayedField, h0: Tensor) -> DelayedField:
    """Return the field with its delays in the dtype of the states, as kernels take all of a field's numbers."""
    if field.delays.dtype == h0.dtype:
        return field
    twin = copy.copy(field)
    twin._parameters = {name: weight for name, weight in field._parameters.items() if name != "delays"}
    twin._buffers = field._buffers | {"delays": field.delays.to(h0)}
    return twin


def lags_of(field: DelayedField) -> list[Lag]:
    """Return the delays of a field. Raises: ValueError for those that are learned and have become no delays."""
    if field.of_time:
        return [Lag(number, delay) for number, delay in enumerate(field.of_time)]
    field.numbers()
    return [Lag(number, delay) for number, delay in enumerate(field.delays.cpu().to(torch.float64).unbind())]
