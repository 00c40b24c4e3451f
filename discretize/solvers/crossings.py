r"""Finds where functions g of time and state change their signs along the steps of a solve, every sample by itself.

    p = sum c_i B_i        through g at five times of a step, B_i Bernstein's polynomials of degree 4

p has no more zeros in a step than c has changes of sign. g is read at eight more times too: how far p is from it there, and
what g is at the next numbers to a state, is what c is known to. A step that may have two zeros is halved, until no part may, or
g is rounding there. Then each change of sign has one zero, which is narrowed down. All events are read at once: a row is an event
of a sample, and the states at a time are computed for all of them.

Source: Lane and Riesenfeld 1981, "Bounds on a polynomial"; Shampine and Thompson 2000, "Event location for ordinary differential
equations", on solves that start at a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure
from discretize.solvers.continuation import Continuation, Pieces
from discretize.solvers.events import Event, as_array

__all__ = ["ROUNDINGS", "Flips", "Look"]

FIVE, BETWEEN = np.arange(5) / 4, np.arange(1, 8, 2) / 8
UNEVEN = np.array([0.1013, 0.3679, 0.6931, 0.9189])  # what repeats from one time to the next is seen at these
INNER = np.append(BETWEEN, UNEVEN)
# Of the values at the five times: the polynomial at all others, and its coefficients by Bernstein's polynomials.
POLYNOMIAL = np.vander(INNER, 5) @ np.linalg.inv(np.vander(FIVE, 5))
BERNSTEIN = (
    np.array([[36, 0, 0, 0, 0], [-39, 144, -108, 48, -9], [26, -128, 240, -128, 26], [-9, 48, -108, 144, -39], [0, 0, 0, 0, 36]])
    / 36
)
MARGIN = 2.0  # of how far the polynomial is from g between its times
FOLLOWED = 0.05  # of what g varies by in a part: as far as the polynomial may be off
ROUNDINGS = 4  # by which a state may be off
EVEN = np.arange(1, 12) / 12  # of a bracket: where g is read to narrow it
AROUND = np.array([-1, 0, 1])  # a zero that is guessed by a straight line
SHARES = np.array([1, 2, 3]) / 4  # and one by a polynomial, how far around it, as powers of the bracket
APART = 64  # roundings of a step: zeros as near may be one, as where a stage solves equations
NARROW = 2.0**-26  # of a step: a dip of g in less is rounding, as its depth goes by the square
MOST_PARTS = 2**13  # of a sample's steps that are to be halved at once
NOISE = 1e3  # roundings: what changes sign so often and is no larger


class Flips(NamedTuple):
    """Holds changes of sign: times, by how much rounding may move these, samples, the events' numbers and the sign `after` (m,);
    `sides` (events, batch): that at the end; `rests` (events, batch): whether g began at 0 and left that no faster than from
    rest, or after a rest, and `left` the side it went to."""

    times: np.ndarray
    moves: np.ndarray
    samples: np.ndarray
    events: np.ndarray
    after: np.ndarray
    sides: np.ndarray
    rests: np.ndarray
    left: np.ndarray


class _Parts(NamedTuple):
    """Holds parts of steps: from `left` to `right` of a row's `steps` of that length, g at five times there, and its rounding;
    `fresh`: whether the row begins there, on a side that is to be found."""

    left: np.ndarray
    right: np.ndarray
    rows: np.ndarray
    step: np.ndarray
    values: np.ndarray
    rounding: np.ndarray
    fresh: np.ndarray

    def of(self, rows: np.ndarray) -> _Parts:
        return _Parts(*(each[rows] for each in self))

    def halves(self, values: np.ndarray) -> _Parts:
        """Return both halves; values: at all nine times."""
        middle = (self.left + self.right) / 2
        first = self._replace(right=middle, values=values[:, :5])
        second = self._replace(left=middle, values=values[:, 4:], fresh=np.zeros_like(self.fresh))
        return _Parts(*(np.concatenate(both) for both in zip(first, second, strict=True)))


class Look:
    r"""Reads events along every sample's steps.

    Args:    events; steps: of the solve; start, end (batch,): from when to when they are read, `state` (batch, state) at the end.
             beyond: a sample, and when and in which state its steps ended that are too short to be read.
    """

    def __init__(
        self,
        events: Sequence[Event],
        steps: Continuation,
        start: np.ndarray,
        end: np.ndarray,
        state: Tensor,
        beyond: tuple[int, float, Tensor] | None = None,
    ) -> None:
        self.events, self.steps, self.start, self.end, self.state, self.beyond = events, steps, start, end, state, beyond
        # Near where a state grows without bound steps may be shorter than what times are told apart by.
        lefts = [np.unique(begins[begins < end[k]]) for k, begins in enumerate(map(steps.begins_of, range(len(start))))]
        self.samples: np.ndarray = np.repeat(np.arange(len(start)), [len(left) for left in lefts])
        self.left: np.ndarray = np.concatenate([*lefts, np.zeros(0)])
        self.right: np.ndarray = np.concatenate([*(np.append(a[1:], end[k : k + 1])[: len(a)] for k, a in enumerate(lefts)), []])
        self.longest: np.ndarray = np.zeros(len(start))  # step of each sample
        np.maximum.at(self.longest, self.samples, self.right - self.left)
        self.moves: np.ndarray = np.array([len(left) > 0 for left in lefts], dtype=bool)
        self._pieces: Pieces | None = None

    def last_step(self, sample: int) -> float:
        """Return how long the last of a sample's steps that is read is, 0 if there is none."""
        mine = np.flatnonzero(self.samples == sample)
        return float(self.right[mine[-1]] - self.left[mine[-1]]) if len(mine) else 0.0

    def states(self, times: np.ndarray, samples: np.ndarray) -> Tensor:
        """Return the states of samples at times, (m,), (m,) -> (m, state)."""
        if not self.steps.one_by_one:
            if self._pieces is None:
                self._pieces = self.steps.pieces()
            return self._pieces.at(torch.from_numpy(samples), torch.from_numpy(times))
        order = np.argsort(samples, kind="stable")
        place = np.empty_like(order)  # its number among those of the same sample
        place[order] = np.arange(len(samples)) - np.searchsorted(samples[order], samples[order])
        asked = np.repeat(self.start[None], place.max() + 1, 0)
        asked[place, samples] = times
        return self.steps(torch.from_numpy(asked))[place, samples]

    def values(self, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return g of rows at times, both of one shape."""
        flat, numbers = times.reshape(-1), rows.reshape(-1) // len(self.start)
        states, at = self.states(flat, rows.reshape(-1) % len(self.start)), torch.from_numpy(flat)[:, None]
        values = np.empty(len(flat))
        for number in np.unique(numbers):
            here = np.flatnonzero(numbers == number)
            mine = states.index_select(0, torch.from_numpy(here).to(states.device))
            values[here] = as_array(self.events[number](at[here], mine))
        return values.reshape(times.shape)

    def flips(self, sides: np.ndarray, last: np.ndarray, since: np.ndarray) -> Flips:
        """Find where each g changes its sign.

        Args:    sides (events, batch): the signs before, 0 if none; last (batch,): whether nothing comes after the end;
                 since (events, batch): from when on g has been 0, of one that is 0 at the start.
        """
        shape, none = sides.shape, np.zeros(0)
        if not len(self.left):
            numbers = none.astype(int)
            return Flips(none, none, numbers, numbers, none, sides, np.zeros(shape, dtype=bool), np.zeros(shape))
        events, batch = shape
        sides, moves, start = sides.reshape(-1), np.tile(self.moves, events), np.tile(self.start, events)
        parts, values = self._steps()
        first = np.searchsorted(parts.rows, np.arange(len(sides)))
        begun = np.zeros(len(sides))
        begun[moves] = values[first[moves], 0]
        unsure = moves & ((sides == 0) | (np.sign(begun) != sides))
        level = np.where(unsure, begun, 0.0)  # what it is at the start is 0 but for rounding
        parts.fresh[first[unsure]] = True
        at_five, inner = np.hsplit(values - level[parts.rows, None], [len(FIVE)])
        parts = parts._replace(values=at_five)
        (times, rows, values, rounding, steps), rests = self._read(parts, inner, level, since.reshape(-1))
        signs = np.sign(values) * (np.abs(values) > rounding)
        first = np.searchsorted(rows, np.flatnonzero(moves))
        signs[first] = np.where(unsure, 0, sides)[moves]
        ends = np.append(first[1:], len(rows)) - 1
        known = np.flatnonzero(signs)
        place = np.searchsorted(known, ends, side="right") - 1  # the last one that has a sign, if it is the row's own
        own = (place >= 0) & (rows[known[place]] == rows[ends]) if len(known) else np.zeros(len(ends), dtype=bool)
        side = np.where(own, signs[known[place]], 0) if len(known) else np.zeros(len(ends))
        # At the very end 0 has been reached.
        at_end = last[rows[ends] % batch] & (signs[ends] == 0) & own
        signs[ends] = np.where(at_end, np.where(values[ends] == 0, -side, np.sign(values[ends])), signs[ends])
        known = np.flatnonzero(signs)
        left, after = np.zeros(len(sides)), sides.copy()
        np.put(left, rows[known[::-1]], signs[known[::-1]])  # the first one of a row counts
        np.put(after, rows[known], signs[known])  # the last one
        at_start = np.flatnonzero(unsure & (left == -sides) & (sides != 0))
        a, b = known[:-1], known[1:]
        crosses = (rows[a] == rows[b]) & (signs[a] != signs[b])
        a, b = a[crosses], b[crosses]
        # Between the two g is rounding: its first change there, lest a bracket has a knot inside.
        to = np.array([i + 1 + np.argmax(values[i + 1 : j + 1] * signs[i] <= 0) for i, j in zip(a, b, strict=True)], dtype=int)
        found = self._zeros(times[to - 1], times[to], np.stack([values[to - 1], values[to]], 1), rows[a], level)
        # A state that passes 0 is rounded as what it moves by in a step is, and what moves it.
        moves = np.maximum(2 * np.spacing(np.abs(found)), APART * torch.finfo(self.state.dtype).eps * steps[to])
        with np.errstate(divide="ignore"):  # g is rounding from one to the next
            by_rounding = (times[to] - times[to - 1]) * np.fmin(1, rounding[to] / np.abs(values[to] - values[to - 1]))
        whose = np.concatenate([at_start, rows[b]])
        return Flips(
            np.concatenate([start[at_start], found]),
            np.concatenate([np.spacing(np.abs(start[at_start])), np.maximum(moves, by_rounding)]),
            whose % batch,
            whose // batch,
            np.concatenate([left[at_start], signs[b]]),
            *(each.reshape(shape) for each in (after, rests, left)),
        )

    def _steps(self) -> tuple[_Parts, np.ndarray]:
        """Return the whole steps of each row, and g at all times of them; the states are computed once."""
        length = (self.right - self.left)[:, None]
        events, times = len(self.events), self.left[:, None] + length * np.append(FIVE, INNER)
        at, states = torch.from_numpy(times), self.states(times.reshape(-1), np.repeat(self.samples, times.shape[1]))
        # Where steps begin, and where the last one of each sample ends: each other ends where the next begins.
        final = np.flatnonzero(np.append(np.diff(self.samples), 1))
        following = np.arange(1, len(times) + 1)
        following[final] = len(times) + np.arange(len(final))
        flat = torch.from_numpy(np.append(np.arange(len(times)), final) * times.shape[1])
        flat[len(times) :] += len(FIVE) - 1
        ends = at.reshape(-1, 1)[flat], states.index_select(0, flat.to(states.device))
        values = np.concatenate([as_array(event(at.reshape(-1, 1), states)).reshape(times.shape) for event in self.events])
        each = (event.rounding(*ends, ROUNDINGS) for event in self.events)
        rounding = np.concatenate([np.maximum(here[: len(times)], here[following]) for here in each])
        left, right, steps = (np.tile(each, events) for each in (self.left, self.right, length[:, 0]))
        rows = (np.arange(events)[:, None] * len(self.start) + self.samples).reshape(-1)
        parts = _Parts(left, right, rows, steps, values[:, : len(FIVE)], rounding, np.zeros(len(rows), dtype=bool))
        return parts, values

    def _read(
        self, parts: _Parts, inner: np.ndarray, level: np.ndarray, since: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Read g on parts until each has one zero at most; return times, rows, g, its rounding and the steps' lengths, in order,
        and which rest."""
        read: list[list[np.ndarray]] = []
        rests = np.zeros(len(level), dtype=bool)
        while True:
            length, nine = (parts.right - parts.left)[:, None], np.empty((len(parts.left), 9))
            nine[:, ::2], nine[:, 1::2] = parts.values, inner[:, : len(BETWEEN)]
            # The times are rounded too.
            moves = np.abs(np.diff(nine, axis=1)).max(1) / (length[:, 0] / 8) * np.spacing(np.abs(parts.left))
            rounding = parts.rounding + moves
            flat = (np.abs(nine) <= rounding[:, None]).all(1)
            if not read:
                parts = parts._replace(fresh=_first_off_zero(parts, flat))
                # It was 0 for longer than it takes to be seen to be off that: its input jumps, and pushes it.
                rests[parts.rows[parts.fresh & ~flat & (parts.left - since[parts.rows] > length[:, 0] / 8)]] = True
            known = self._signs(parts, inner, rounding)
            # Of a part at whose start g is 0 the side that it goes to is found where it is seen to be there.
            seen = (known[:, 1] != 0) & (np.sign(nine[:, 1]) == known[:, 1]) & (np.abs(nine[:, 1]) > rounding)
            done = (_most_changes(known) <= 1) & (seen | ~parts.fresh)
            least = np.maximum(16 * np.spacing(np.abs(parts.left)), np.where(parts.fresh, 0, NARROW * parts.step))
            given_up = ~done & (flat | (length[:, 0] <= least))
            rests[parts.rows[given_up & parts.fresh]] = True
            done |= given_up | self._is_noise(parts, nine, done | given_up)
            over = parts.of(done)
            times = over.left[:, None] + length[done] * np.arange(9) / 8
            times[:, -1] = over.right
            columns = times, nine[done], *(np.tile(each[:, None], 9) for each in (over.rows, rounding[done], over.step))
            read.append([column.reshape(-1) for column in columns])
            if done.all():
                break
            parts = parts.of(~done).halves(nine[~done])
            times = parts.left[:, None] + (parts.right - parts.left)[:, None] * INNER
            rows = np.broadcast_to(parts.rows[:, None], times.shape)
            inner = self.values(times, rows) - level[rows]
        times, values, rows, rounding, steps = (np.concatenate(column) for column in zip(*read, strict=True))
        order = np.lexsort((times, rows))
        return [column[order] for column in (times, rows, values, rounding, steps)], rests

    def _signs(self, parts: _Parts, inner: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        """Return the signs of Bernstein's coefficients, 0 where they are not known."""
        off, coefficients = np.abs(parts.values @ POLYNOMIAL.T - inner).max(1), parts.values @ BERNSTEIN.T
        # What varies faster than it is read may be near a polynomial by chance: not as near, but nothing is known of it.
        varies = np.ptp(np.hstack([parts.values, inner]), axis=1)
        unknown = np.where(off <= FOLLOWED * varies + rounding, MARGIN * off, MARGIN * varies)[:, None]
        unknown = unknown + rounding[:, None] * np.abs(BERNSTEIN).sum(1)
        known: np.ndarray = np.sign(coefficients) * (np.abs(coefficients) > unknown)
        known[parts.fresh, 0] = known[parts.fresh, 1]
        return known

    def _is_noise(self, parts: _Parts, nine: np.ndarray, done: np.ndarray) -> np.ndarray:
        """Return which parts of rows that have too many are noise. Raises Failure where g changes too often."""
        crowded = (np.bincount(parts.rows[~done], minlength=parts.rows.max() + 1) > MOST_PARTS)[parts.rows] & ~done
        noise: np.ndarray = crowded & (np.abs(nine).max(1) <= NOISE * parts.rounding)
        if (crowded & ~noise).any():
            row = int(np.flatnonzero(crowded & ~noise)[0])
            raise Failure(
                "`g` of an event changes its sign, or comes near 0, too often in one step for all its zeros to be found",
                "Bound the steps, `max_step`, to a few of its periods.",
                float(parts.left[row]),
                int(parts.rows[row] % len(self.start)),
                None,
            )
        return noise

    def _zeros(self, left: np.ndarray, right: np.ndarray, values: np.ndarray, rows: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Return the first zero of g in each of these brackets; values (n, 2): g at their ends.

        They are to the last digit that times have, or states: `units` is that much of a bracket, and times are counted in it. g
        is read at many of them at once: at equal distances, and then around where the last ones say that its zero is, as long as
        that leaves less than equal distances do.
        """
        length, eps = right - left, torch.finfo(self.state.dtype).eps
        units = np.maximum(np.spacing(np.maximum(np.abs(left), np.abs(right))), eps * length)
        counts, signs = np.stack([np.zeros(len(left)), np.ceil(length / units)], 1), np.sign(values[:, :1])
        before = np.zeros((len(left), 1))  # how wide a bracket was
        while True:
            after = np.argmax(values * signs <= 0, axis=1)[:, None]  # g may stay at 0: the first of these times is looked for
            ends, there = (np.take_along_axis(each, np.hstack([after - 1, after]), 1) for each in (counts, values))
            width = ends[:, 1:] - ends[:, :1]
            wide = width[:, 0] > 1
            if not wide.any():
                nearer = np.where(np.abs(there[:, :1]) < np.abs(there[:, 1:]), ends[:, :1], ends[:, 1:])
                return np.minimum(left + nearer[:, 0] * units, right)
            inside = ends[:, :1] + width * EVEN
            if counts.shape[1] > 2:
                straight = ends[:, :1] + width * (there[:, :1] / (there[:, :1] - there[:, 1:]))
                guess = _guess(counts, values, after).clip(ends[:, :1], ends[:, 1:])
                spread = [straight + AROUND, guess + width**SHARES, guess, guess - width**SHARES, ends.mean(1, keepdims=True)]
                inside = np.where(width * len(EVEN) < before, np.sort(np.hstack(spread), 1), inside)
            inside = np.rint(inside).clip(ends[:, :1], ends[:, 1:])
            times = np.minimum(left[:, None] + inside * units[:, None], right[:, None])
            read = np.where(inside == ends[:, :1], there[:, :1], there[:, 1:])
            read[wide] = self.values(times[wide], np.repeat(rows[wide, None], len(EVEN), 1)) - level[rows[wide], None]
            counts, values = (np.hstack([a[:, :1], b, a[:, 1:]]) for a, b in ((ends, inside), (there, read)))
            before = width


def _first_off_zero(parts: _Parts, flat: np.ndarray) -> np.ndarray:
    """Return the first steps of fresh rows that are not flat: before a knot nearby a step may be too short to leave 0."""
    begins, off, rows = np.flatnonzero(parts.fresh), np.flatnonzero(~flat), np.append(parts.rows, -1)
    place = np.append(off, len(flat))[np.searchsorted(off, begins)]
    fresh = np.zeros_like(parts.fresh)
    fresh[np.where(rows[place] == rows[begins], place, begins)] = True
    return fresh


def _guess(counts: np.ndarray, values: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return where g is 0 by the inverse of g, a polynomial through the six values around the bracket before `after`."""
    six = (after - 3).clip(0, counts.shape[1] - 6) + np.arange(6)
    x, g = (np.take_along_axis(each, six, 1) for each in (counts, values))
    with np.errstate(all="ignore"):
        factors = -g[:, None] / (g[:, :, None] - g[:, None])
        factors[:, range(6), range(6)] = 1
        time = (factors.prod(2) * x).sum(1, keepdims=True)
    return np.where(np.isnan(time), (np.take_along_axis(counts, after, 1) + np.take_along_axis(counts, after - 1, 1)) / 2, time)


def _most_changes(signs: np.ndarray) -> np.ndarray:
    """Return how often signs (n, m) change from column to column at most, those that are 0 being either."""
    up, down = (np.where(sign * signs[:, 0] >= 0, 0, -len(signs.T)) for sign in (1, -1))
    for column in signs.T[1:]:
        ups, downs = np.maximum(up, down + 1), np.maximum(down, up + 1)
        up, down = np.where(column >= 0, ups, -len(signs.T)), np.where(column <= 0, downs, -len(signs.T))
    return np.maximum(up, down)
