r"""Steps that estimate their own error, by code or by the tableau of an explicit pair.

    h_1 = h + dt sum_i b_i k_i        error = dt sum_i e_i k_i        k_i = f(t + c_i dt, h + dt sum_j a_ij k_j)

Each sample may take a dt of its own.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from discretize.solvers.segments import HeldSlope, SlopeFunction
from discretize.steps.runge_kutta import ExplicitRungeKutta
from discretize.steps.step import Step

__all__ = [
    "Attempt",
    "EmbeddedMethod",
    "EmbeddedRungeKutta",
    "StagedAttempt",
    "attempted",
    "is_for_one",
    "slopes_of",
    "weighted",
]

MOST_CHECKED = 8  # the highest order whose conditions are looked at: 200 trees up to there
DENSE = 4  # the order of states within a step by `d`
ROUNDED = 1e-10  # by which sums of printed coefficients may be off, as a share of what they add up


class Attempt(NamedTuple):
    """Holds the state a step leads to, the error it estimates, and dh/dt at its end if known."""

    h: Tensor
    error: Tensor
    end: Tensor | None = None


class StagedAttempt(Attempt):
    """Holds dh/dt at all stages, too."""

    slopes: tuple[Tensor, ...]


class EmbeddedMethod(Step):
    r"""A step that estimates its error. As `method=` it chooses steps by that; as `step=` it takes one, the error unread.

    A method of your own gives `order`, `evaluations` and `attempt`; one with a tableau is an `EmbeddedRungeKutta`. Its
    `attempt` is compiled, where it reads each slope at a time tau + c dt; on the CPU also where it reads derivatives at the
    start of a step.

    `order`: that of the states; `error_order`: the estimate is O(dt^error_order), `order` if it says nothing else;
    `evaluations`, `tangents`, `jacobians`: as of every `Step`, the slope at its start and the estimate included;
    `reads_start`: whether it reads the slope at its start, which is computed once for all attempts from there; `interpolated`:
    whether states and slopes along a step may be joined by a polynomial, and need not each be a step of their own.
    """

    reads_start: ClassVar[bool] = True
    interpolated: ClassVar[bool] = True

    @abstractmethod
    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        r"""Take one step from h at tau, and estimate its error.

        Args:    slope: dh/dt, called as slope(tau, h), with `slope.jacobian(tau, h)` and `slope.time_derivative(tau, dt, h)`,
                 and `slope.steady` where time does not matter; tau: time, counted from the start of a piece of the input; start:
                 dh/dt at h, None where not known.
        Shape:   tau, dt (1, 1) or (batch, 1), float64: write `dt.to(h)` beside states; h, start (batch, state) -> (batch, state).
                 A sample that waits for others is given a dt, too, which it does not take. dt is above 0, but for a sample
                 whose step is not taken where one led to nan: the step is then asked for once more.
        """

    @property
    def error_order(self) -> int:
        """The power of dt that the estimate falls with."""
        return self.order

    @property
    def implicit(self) -> bool:
        """Whether it reads Jacobians, as methods for stiff fields do."""
        return self.jacobians > 0

    @property
    def has_tableau(self) -> bool:
        """Whether `attempt` is that of an explicit tableau, which kernels and the adjoint read."""
        return False

    @property
    def dense(self) -> bool:
        """Whether states within a step follow from the slopes at its stages."""
        return False

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        """Return the evaluations of the field in an attempt whose start is known, a derivative along a vector counting as one."""
        derivatives = self.tangents + (self.jacobians * slope.jacobian_cost(state) if self.jacobians else 0)
        return self.evaluations - self.reads_start + derivatives

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        length = dt if isinstance(dt, Tensor) else h.new_tensor(dt)
        length = length if length.dim() else length.reshape([1] * h.dim())
        return self.attempt(HeldSlope(field, projected), torch.zeros_like(length), length, h, None).h


class EmbeddedRungeKutta(ExplicitRungeKutta, EmbeddedMethod):
    r"""An explicit Runge-Kutta pair by its tableau; a pair of your own is a class with these numbers.

    `order`: of the solution that goes on, by b. `a`: the rows of the stages after the first, of 1, 2, ... numbers; `b`: a weight
    for each stage, or None where they are the last row of a, whose slope then is the next step's first; `e`: b less the
    companion's weights; `c`: the nodes of the stages after the first, or None for the sums of their rows. `d`, of pairs of order
    4 or 5 whose last row is b: states within a step are, to order 4, those of the cubic through both ends and slopes, and
    dt s^2 (1 - s)^2 sum d_i k_i, s the share of the step; None where they are computed by steps of their own.

    Raises:  TypeError, ValueError where numbers are missing or too many, rows do not add up to c, conditions of order do not hold
             up to `order`, or e does not vanish as the step does, or states by d have another order than 4.
    Source:  Butcher's notation; Hairer, Norsett and Wanner, Solving ODEs I, sec. II.2 and II.4.
    """

    family = ""
    a: Sequence[Sequence[float]]
    b: Sequence[float] | None = None
    c: Sequence[float] | None = None
    e: Sequence[float]
    d: Sequence[float] | None = None

    stages: tuple[tuple[float, ...], ...]  # type: ignore[misc]
    weights: tuple[float, ...]  # type: ignore[misc]
    nodes: tuple[float, ...]
    last_is_next: bool

    def __init__(self) -> None:
        _check_numbers(self)
        self.a = rows = tuple(tuple(map(float, row)) for row in self.a)
        self.e = tuple(map(float, self.e))
        b = (*rows[-1], 0.0) if self.b is None else tuple(map(float, self.b))
        self.nodes = tuple(map(sum, rows) if self.c is None else map(float, self.c))
        self.last_is_next = b == (*rows[-1], 0.0)
        # What the step itself reads: the last slope is then for the error and the next step alone.
        self.stages, self.weights = ((), *rows[:-1]) if self.last_is_next else ((), *rows), rows[-1] if self.last_is_next else b
        _check_order(self)
        _ = self.error_order  # now, for what a call adds to an object is refused in an ensemble

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        return len(self.stages)

    @cached_property
    def error_order(self) -> int:
        """The least number of vertices of a tree on which e does not vanish."""
        trees, e = enumerate(_trees(self._matrix(), MOST_CHECKED + 1), 1), np.array(self.e)
        return next((n for n, of_n in trees if not all(_sums_to(0.0, e, tree) for tree in of_n)), self.order)

    @property
    def has_tableau(self) -> bool:
        return type(self).attempt is EmbeddedRungeKutta.attempt

    @property
    def dense(self) -> bool:
        return self.d is not None and self.has_tableau

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        return len(self.a)

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        step = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        ks = [slope(tau, h) if start is None else start]
        following = h
        for c, row in zip(self.nodes, self.a, strict=True):
            following = torch.addcmul(h, step, weighted(row, ks))
            ks.append(slope(tau if slope.steady else tau + c * dt, following))
        if not self.last_is_next:
            following = torch.addcmul(h, step, weighted(self.weights, ks))
        result = StagedAttempt(following, step * weighted(self.e, ks), ks[-1] if self.last_is_next else None)
        result.slopes = tuple(ks)
        return result

    def between(self, share: float, ks: Sequence[Tensor]) -> Tensor:
        """Return (h(tau + share dt) - h) / dt to order 4, of the slopes at all stages; of pairs with `d`."""
        return weighted(tuple(self._between(share)), ks)

    def _between(self, s: float) -> np.ndarray:
        b, d = np.array((*self.weights, 0.0)), np.array(self.d)
        weights = b * (3 - 2 * s) * s**2 + d * (s * (1 - s)) ** 2
        weights[0] += s * (1 - s) ** 2
        weights[-1] -= s**2 * (1 - s)
        return weights

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        # A class that overrides `attempt` is followed there.
        kind: type[ExplicitRungeKutta | EmbeddedMethod] = ExplicitRungeKutta if self.has_tableau else EmbeddedMethod
        return kind.advance(self, field, projected, h, dt)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return Step.stability(self, z, leak)  # stages beyond the order have terms of their own

    def _matrix(self) -> np.ndarray:
        """Return a, (stages, stages)."""
        a = np.zeros((len(self.a) + 1, len(self.a) + 1))
        for i, row in enumerate(self.a, 1):
            a[i, :i] = row
        return a


def slopes_of(attempt: Attempt, method: EmbeddedMethod) -> tuple[Tensor, ...] | None:
    """Return the slopes at the stages of a step, of methods by which states within it follow from them; else None."""
    return getattr(attempt, "slopes", None) if method.dense else None


# What torch says where a tensor of several numbers is taken for one, as by `float(dt)`, `dt > 0`, `dt.item()` and `range(n)`.
FOR_ONE = ("one element tensors", "a single element", "Boolean value of Tensor", "cannot be converted to Scalar")


def is_for_one(error: Exception) -> bool:
    """Whether torch says in an error that code takes a tensor of several numbers for one number, or one truth."""
    return any(word in str(error) for word in FOR_ONE)


def attempted(method: EmbeddedMethod, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
    """Attempt a step by a method that may be a user's; refuse what is none, and code that is for one sample."""
    try:
        attempt = method.attempt(slope, tau, dt, h, start)
    except (RuntimeError, TypeError, ValueError) as error:
        if not is_for_one(error):
            raise
        file, line, _, text = traceback.extract_tb(error.__traceback__)[-1]
        raise TypeError(
            f"{method!r}: `attempt` takes a tensor for one number or one truth ({file}, line {line}: {text}); tau and dt are "
            "(batch, 1), one for each sample. Keep to operations of torch, as torch.exp(dt) and torch.where(dt > 0, a, b)."
        ) from error
    return _checked(attempt, h, method)


def _checked(attempt: Attempt, h: Tensor, method: EmbeddedMethod) -> Attempt:
    """Refuse what a method of a user gives that is no step from h."""
    if not isinstance(attempt, Attempt):
        got = type(attempt).__name__
        raise TypeError(f"{method!r}: `attempt` must return a discretize.steps.Attempt(h, error, end=None), got {got}.")
    for name, given in zip(Attempt._fields, attempt, strict=True):
        if given is None and name == "end":
            continue
        if not isinstance(given, Tensor) or given.shape != h.shape or given.dtype != h.dtype:
            got = f"{tuple(given.shape)} of {given.dtype}" if isinstance(given, Tensor) else type(given).__name__
            raise TypeError(
                f"{method!r}: `{name}` of an attempt must be like the states, {tuple(h.shape)} of {h.dtype}, got {got}; `dt` is "
                "float64, write `dt.to(h)` beside states."
            )
    return attempt


GIVEN = {"order": "the order of the states", "a": "the rows of its stages", "e": "the weights of its error"}


def _check_numbers(pair: EmbeddedRungeKutta) -> None:
    """Refuse a tableau whose numbers are missing, too many or not finite, or whose rows do not add up to its nodes."""
    kind = type(pair).__name__
    for name, what in GIVEN.items():
        given = getattr(pair, name, None)
        if given is None or (name == "a" and not len(given)):
            raise TypeError(f"{kind} is a pair by its tableau and gives no `{name}`, {what}; set it in the class.")
    stages = len(pair.a) + 1
    if checks.positive_size("order", pair.order) > stages:
        raise ValueError(f"{kind}: {stages} explicit stages have no `order` above {stages}, got {pair.order}.")
    lengths = {f"row {i} of `a`": (row, i) for i, row in enumerate(pair.a, 1)} | {"`e`": (pair.e, stages)}
    lengths |= {} if pair.b is None else {"`b`": (pair.b, stages)}
    lengths |= {} if pair.d is None else {"`d`": (pair.d, stages)}
    lengths |= {} if pair.c is None else {"`c`": (pair.c, stages - 1)}
    for name, (numbers, count) in lengths.items():
        if not hasattr(numbers, "__len__"):
            raise TypeError(f"{kind}: {name} must be a row of numbers, got {numbers!r}.")
        if len(numbers) != count:
            without = "; the first stage has no row and no node"
            raise ValueError(f"{kind}: {name} must have {count} numbers for {stages} stages, got {len(numbers)}{without}.")
        if not np.isfinite(np.array(numbers, dtype=float)).all():
            raise ValueError(f"{kind}: {name} must be finite, got {tuple(numbers)}.")
        if not any(numbers) and name != "`c`":
            raise ValueError(f"{kind}: all numbers of {name} are 0.")
    for i, (row, node) in enumerate(zip(pair.a, () if pair.c is None else pair.c, strict=False), 1):
        if abs(sum(row) - node) > ROUNDED * sum(map(abs, row)):
            raise ValueError(f"{kind}: row {i} of `a` adds up to {sum(row):.10g}, and its node in `c` is {node:.10g}.")


def _check_order(pair: EmbeddedRungeKutta) -> None:
    """Refuse weights of another order than is declared, and an error that does not vanish as the step does."""
    kind, b, e = type(pair).__name__, np.zeros(len(pair.a) + 1), np.array(pair.e)
    b[: len(pair.weights)] = pair.weights
    for n, trees in enumerate(_trees(pair._matrix(), min(pair.order, MOST_CHECKED)), 1):
        if not all(_sums_to(1 / tree[1], b, tree) for tree in trees):
            weights = "the last row of `a`" if pair.b is None else "`b`"
            reached = f"{weights} meets the conditions of order {n - 1} only"
            raise ValueError(f"{kind}: {reached}, and `order` is {pair.order}; a number is mistaken.")
        within = pair.d is not None and n <= DENSE
        if within and not (pair.last_is_next and all(_sums_to(0.3**n / tree[1], pair._between(0.3), tree) for tree in trees)):
            raise ValueError(f"{kind}: states within a step by `d` are not of order {DENSE}; a number is mistaken.")
        if n == 1 and not _sums_to(0.0, e, trees[0]):
            raise ValueError(f"{kind}: `e` adds up to {e.sum():.10g}, and must to 0: it is b less the companion's weights.")


Tree = tuple[np.ndarray, int]


def _trees(a: np.ndarray, most: int) -> Iterator[list[Tree]]:
    """Yield the rooted trees of 1, 2, ... vertices: what a and |a| make of each at the stages, (2, stages, 1), and its density.

    Source:  Hairer, Norsett and Wanner, Solving ODEs I, sec. II.2, theorem 2.13.
    """
    both = np.stack([a, abs(a)])
    forests: list[list[Tree]] = [[(np.ones((2, len(a), 1)), 1)], *([] for _ in range(most - 1))]  # trees without their root
    for vertices in range(1, most + 1):
        trees = [(phi, vertices * density) for phi, density in forests[vertices - 1]]
        yield trees
        for phi, density in trees:
            hung = both @ phi
            for more in range(vertices, most):
                forests[more] += [(hung * other, density * others) for other, others in forests[more - vertices]]


def _sums_to(value: float, weights: np.ndarray, tree: Tree) -> bool:
    """Return whether the weighted sum of a tree is that, but for the rounding of what it adds up."""
    exact, sizes = tree[0][..., 0]
    return bool(abs(weights @ exact - value) <= ROUNDED * (abs(weights) @ sizes))


def weighted(weights: Sequence[float], ks: Sequence[Tensor]) -> Tensor:
    """Return sum_i w_i k_i over the weights that are not 0."""
    total: Tensor | None = None
    for weight, k in zip(weights, ks, strict=False):
        if weight:
            total = weight * k if total is None else torch.add(total, k, alpha=weight)
    assert total is not None
    return total
