r"""Finds where a function g of time and state changes its sign along the steps of a solve, every sample by itself.

    p = sum c_i B_i        through g at five times of a step, B_i Bernstein's polynomials of degree 4

p has no more zeros in a step than c has changes of sign. g is read at eight more times too: how far p is from it there, and
what g is at the next numbers to a state, is what c is known to. A step that may have two zeros is halved, until no part may, or
g is rounding there. Then each change of sign has one zero, which is narrowed down.

Source: Lane and Riesenfeld 1981, "Bounds on a polynomial"; Shampine and Thompson 2000, "Event location for ordinary differential
equations", on solves that start at a zero.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure
from discretize.solvers.continuation import Continuation, Pieces

__all__ = ["ROUNDINGS", "Flips", "Function", "Look"]

FIVE, BETWEEN = np.arange(5) / 4, np.arange(1, 8, 2) / 8
UNEVEN = np.array([0.1013, 0.3679, 0.6931, 0.9189])  # what repeats from one time to the next is seen at these
# Of the values at the five times: the polynomial at all others, and its coefficients by Bernstein's polynomials.
POLYNOMIAL = np.vander(np.append(BETWEEN, UNEVEN), 5) @ np.linalg.inv(np.vander(FIVE, 5))
BERNSTEIN = (
    np.array([[36, 0, 0, 0, 0], [-39, 144, -108, 48, -9], [26, -128, 240, -128, 26], [-9, 48, -108, 144, -39], [0, 0, 0, 0, 36]])
    / 36
)
MARGIN = 2.0  # of how far the polynomial is from g between its times
FOLLOWED = 0.05  # of what g varies by in a part: as far as the polynomial may be off
ROUNDINGS = 4  # by which a state may be off
NARROW = 2.0**-26  # of a step: a dip of g in less is rounding, as its depth goes by the square
MOST_PARTS = 2**13  # of a sample's steps that are to be halved at once
NOISE = 1e3  # roundings: what changes sign so often and is no larger


class Function(Protocol):
    """g of time and state, whose zeros are looked for, and how far rounding moves it: as an `Event`."""

    def __call__(self, t: Tensor, h: Tensor) -> Tensor: ...

    def rounding(self, t: Tensor, h: Tensor, units: float) -> np.ndarray: ...


class Flips(NamedTuple):
    """Holds the changes of sign of one event: times, samples and the sign `after` (m,); `sides` (batch,): that of each sample at
    the end; `rests` (batch,): whether it began at 0 and left that no faster than from rest, and `left` the side it went to."""

    times: np.ndarray
    samples: np.ndarray
    after: np.ndarray
    sides: np.ndarray
    rests: np.ndarray
    left: np.ndarray


class _Parts(NamedTuple):
    """Holds parts of steps: from `left` to `right` of a sample's `steps` of that length, g at five times there, and its rounding;
    `fresh`: whether the sample begins there, on a side that is to be found."""

    left: np.ndarray
    right: np.ndarray
    samples: np.ndarray
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

    Args:    steps: of the solve; start, end (batch,): from when to when they are read, `state` (batch, state) at the end.
             beyond: a sample, and when and in which state its steps ended that are too short to be read.
    """

    def __init__(
        self,
        steps: Continuation,
        start: np.ndarray,
        end: np.ndarray,
        state: Tensor,
        beyond: tuple[int, float, Tensor] | None = None,
    ) -> None:
        self.steps, self.start, self.end, self.state, self.beyond = steps, start, end, state, beyond
        # Near where a state grows without bound steps may be shorter than what times are told apart by.
        lefts = [np.unique(begins[begins < end[k]]) for k, begins in enumerate(map(steps.begins_of, range(len(start))))]
        self.samples: np.ndarray = np.repeat(np.arange(len(start)), [len(left) for left in lefts])
        self.left: np.ndarray = np.concatenate([*lefts, np.zeros(0)])
        self.right: np.ndarray = np.concatenate([*(np.append(a[1:], end[k : k + 1])[: len(a)] for k, a in enumerate(lefts)), []])
        self.first: np.ndarray = np.searchsorted(self.samples, np.arange(len(start)))
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

    def values(self, event: Function, times: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Return g, of any shape that both have."""
        flat, whose = times.reshape(-1), (samples + np.zeros(times.shape, dtype=int)).reshape(-1)
        values = event(torch.from_numpy(flat)[:, None], self.states(flat, whose))
        return values.cpu().double().numpy().reshape(times.shape)

    def flips(self, event: Function, sides: np.ndarray, last: np.ndarray) -> Flips:
        """Find where g changes its sign.

        Args:    sides (batch,): the sign of each sample before, 0 if none; last (batch,): whether nothing comes after the end.
        """
        batch, none = len(self.start), np.zeros(0)
        if not len(self.left):
            return Flips(none, none.astype(int), none, sides, np.zeros(batch, dtype=bool), np.zeros(batch))
        times = self.left[:, None] + (self.right - self.left)[:, None] * FIVE
        values = self.values(event, times, self.samples[:, None])
        begun = np.zeros(batch)
        begun[self.moves] = values[self.first[self.moves], 0]
        unsure = self.moves & ((sides == 0) | (np.sign(begun) != sides))
        level = np.where(unsure, begun, 0.0)  # what it is at the start is 0 but for rounding
        fresh = np.zeros(len(self.left), dtype=bool)
        fresh[self.first[unsure]] = True
        values = values - level[self.samples][:, None]
        parts = _Parts(self.left, self.right, self.samples, self.right - self.left, values, self._rounding(event), fresh)
        times, samples, values, signs, rests = self._read(event, parts, level)
        first = np.searchsorted(samples, np.flatnonzero(self.moves))
        signs[first] = np.where(unsure, 0, sides)[self.moves]
        ends = np.append(first[1:], len(samples)) - 1
        known = np.flatnonzero(signs)
        place = np.searchsorted(known, ends, side="right") - 1  # the last one that has a sign, if it is the sample's own
        own = (place >= 0) & (samples[known[place]] == samples[ends]) if len(known) else np.zeros(len(ends), dtype=bool)
        side = np.where(own, signs[known[place]], 0) if len(known) else np.zeros(len(ends))
        # At the very end 0 has been reached.
        at_end = last[samples[ends]] & (signs[ends] == 0) & own
        signs[ends] = np.where(at_end, np.where(values[ends] == 0, -side, np.sign(values[ends])), signs[ends])
        known = np.flatnonzero(signs)
        left, after = np.zeros(batch), sides.copy()
        np.put(left, samples[known[::-1]], signs[known[::-1]])  # the first one of a sample counts
        np.put(after, samples[known], signs[known])  # the last one
        at_start = np.flatnonzero(unsure & (left == -sides) & (sides != 0))
        a, b = known[:-1], known[1:]
        crosses = (samples[a] == samples[b]) & (signs[a] != signs[b])
        a, b = a[crosses], b[crosses]
        # Between the two g is rounding: its first change there, lest a bracket has a knot inside.
        to = np.array([i + 1 + np.argmax(values[i + 1 : j + 1] * signs[i] <= 0) for i, j in zip(a, b, strict=True)], dtype=int)
        found = self._zeros(event, times[to - 1], times[to], samples[a], signs[a], level)
        return Flips(
            np.concatenate([self.start[at_start], found]),
            np.concatenate([at_start, samples[b]]),
            np.concatenate([left[at_start], signs[b]]),
            after,
            rests,
            left,
        )

    def _rounding(self, event: Function) -> np.ndarray:
        """Return what g may be off by in each step, the states being off by their rounding."""
        times = torch.from_numpy(np.concatenate([self.left, self.right]))
        states = self.states(times.numpy(), np.tile(self.samples, 2))
        found: np.ndarray = event.rounding(times[:, None], states, ROUNDINGS).reshape(2, -1).max(0)
        return found

    def _read(self, event: Function, parts: _Parts, level: np.ndarray) -> tuple[np.ndarray, ...]:
        """Read g on parts until each has one zero at most; return times, samples, values, signs, in order, and which rest."""
        read, rests = [], np.zeros(len(self.start), dtype=bool)
        while len(parts.left):
            length = (parts.right - parts.left)[:, None]
            inner = self.values(event, parts.left[:, None] + length * np.append(BETWEEN, UNEVEN), parts.samples[:, None])
            inner, nine = inner - level[parts.samples][:, None], np.empty((len(length), 9))
            nine[:, ::2], nine[:, 1::2] = parts.values, inner[:, : len(BETWEEN)]
            # The times are rounded too.
            moves = np.abs(np.diff(nine, axis=1)).max(1) / (length[:, 0] / 8) * np.spacing(np.abs(parts.left))
            rounding = parts.rounding + moves
            known, flat = self._signs(parts, inner, rounding), (np.abs(nine) <= rounding[:, None]).all(1)
            # Of a part at whose start g is 0 the side that it goes to is found where it is seen to be there.
            seen = (known[:, 1] != 0) & (np.sign(nine[:, 1]) == known[:, 1]) & (np.abs(nine[:, 1]) > rounding)
            done = (_most_changes(known) <= 1) & (seen | ~parts.fresh)
            least = np.maximum(16 * np.spacing(np.abs(parts.left)), np.where(parts.fresh, 0, NARROW * parts.step))
            given_up = ~done & (flat | (length[:, 0] <= least))
            rests[parts.samples[given_up & parts.fresh]] = True
            done |= given_up | self._is_noise(parts, nine, done | given_up)
            over = parts.of(done)
            times = over.left[:, None] + length[done] * np.arange(9) / 8
            times[:, -1] = over.right
            columns = times, over.samples[:, None] + np.zeros(9, dtype=int), nine[done], rounding[done, None] + np.zeros(9)
            read.append([column.reshape(-1) for column in columns])
            parts = parts.of(~done).halves(nine[~done])
        times, samples, values, rounding = (np.concatenate(column) for column in zip(*read, strict=True))
        order = np.lexsort((times, samples))
        times, samples, values, rounding = (column[order] for column in (times, samples, values, rounding))
        return times, samples, values, np.sign(values) * (np.abs(values) > rounding), rests

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
        """Return which parts of samples that have too many are noise. Raises Failure where g changes too often."""
        crowded = (np.bincount(parts.samples[~done], minlength=len(self.start)) > MOST_PARTS)[parts.samples] & ~done
        noise: np.ndarray = crowded & (np.abs(nine).max(1) <= NOISE * parts.rounding)
        if (crowded & ~noise).any():
            row = int(np.flatnonzero(crowded & ~noise)[0])
            raise Failure(
                "`g` of an event changes its sign, or comes near 0, too often in one step for all its zeros to be found",
                "Bound the steps, `max_step`, to a few of its periods.",
                float(parts.left[row]),
                int(parts.samples[row]),
                None,
            )
        return noise

    def _zeros(
        self, event: Function, left: np.ndarray, right: np.ndarray, samples: np.ndarray, signs: np.ndarray, level: np.ndarray
    ) -> np.ndarray:
        """Return the first zero of g in each of these brackets, at whose left ends it has these signs."""
        if not len(left):
            return left
        from scipy.optimize import elementwise  # noqa: PLC0415 - 32 MB, and a third of a second

        def g(times: np.ndarray, whose: np.ndarray, before: np.ndarray) -> np.ndarray:
            whose = whose.astype(int)
            values = self.values(event, times, whose) - level[whose]
            # g may stay at 0: the first of these times is looked for. Of the ends of a bracket that of the least |g| is taken.
            return np.where(values == 0, -1e-290 * before, values)

        # Neighbouring numbers are eps apart at most: at eps itself the search would go on between them.
        tolerances = {"xatol": 0.0, "xrtol": 1.01 * np.finfo(float).eps}
        found = elementwise.find_root(g, (left, right), args=(samples, signs), tolerances=tolerances)
        # A state may be read with another sign by its rounding, and no root is found: the nearer end then.
        nearer = np.where(np.abs(found.f_bracket[0]) < np.abs(found.f_bracket[1]), *found.bracket)
        times: np.ndarray = np.where(np.isnan(found.x), nearer, found.x)
        return times


def _most_changes(signs: np.ndarray) -> np.ndarray:
    """Return how often signs (n, m) change from column to column at most, those that are 0 being either."""
    up, down = (np.where(sign * signs[:, 0] >= 0, 0, -len(signs.T)) for sign in (1, -1))
    for column in signs.T[1:]:
        ups, downs = np.maximum(up, down + 1), np.maximum(down, up + 1)
        up, down = np.where(column >= 0, ups, -len(signs.T)), np.where(column <= 0, downs, -len(signs.T))
    return np.maximum(up, down)
