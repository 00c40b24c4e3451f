r"""Record the `attempt` of a method as a program that calls a field: seven stages are seven calls, not seven copies of the field.

    slope 0 = f(t, h)    slope k = f(t + c_k dt, state k)    state k = a function of h, dt and the slopes before it

What is recorded are the states at which the field is called, the state that the step leads to, and its error, all functions of h,
dt and of slopes that are given, and of the Jacobian at (t, h) and the derivative by the time there. Which calls there are is seen
on steps of many lengths first.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.random import fork_rng

from discretize.kernels.record.jacobians import Identities, ShiftedJacobian
from discretize.kernels.record.recording import UnknownOperation
from discretize.solvers.segments import SlopeFunction
from discretize.solvers.tableaus import Attempt, EmbeddedMethod, attempted

__all__ = ["DERIVATIVES", "START", "AttemptModule", "FieldCalls", "calls_of"]

START = 0  # the slope at the state that a step begins in
DERIVATIVES = {"jacobian": "the Jacobian", "drift": "the derivative by the time"}  # that a method may read there
LENGTHS = [2.0**k for k in range(-20, 21)]  # of steps that are tried, and of times: code may tell long from short
ROUNDED = 1e-6  # by which a time may be off that was computed in float32, relative to it
SAME = 1e-12  # of two ways to compute one time, relative to it


@dataclass(frozen=True)
class FieldCalls:
    """Describes the calls of the field in an attempt.

    Args:    slopes: of each call in order, the number of the slope that it gives, one for two calls at one state and time;
             nodes: of each slope, c where it is taken at tau + c dt; end: the slope at the end of the step, None if not known;
             scales: whether dt is read as dt times slopes alone, so that a longer step is one of a faster field, for gradients
             too; derivatives: which it reads at the start.
    """

    slopes: tuple[int, ...]
    nodes: tuple[float, ...]
    end: int | None
    scales: bool
    derivatives: tuple[str, ...] = ()


class _GivenSlope(SlopeFunction):
    """Gives slopes that were computed before, in the order of calls, and notes the states at which they are asked for."""

    def __init__(self, h: Tensor, slopes: Sequence[Tensor], numbers: Sequence[int], derivatives: Mapping[str, Tensor]) -> None:
        self.slopes, self.numbers, self.asked, self.derivatives = slopes, numbers, 0, derivatives
        self.states: list[Tensor] = [h]

    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        if self.asked == len(self.numbers):
            raise UnknownOperation("its `attempt` calls the field more often at some steps than at others")
        number, self.asked = self.numbers[self.asked], self.asked + 1
        if number == len(self.states):
            self.states.append(h)
        return self.slopes[number]

    def jacobian(self, tau: Tensor, h: Tensor) -> Tensor:
        return _jacobian(self.derivatives["jacobian"])

    def time_derivative(self, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        return self.derivatives["drift"]


class AttemptModule(nn.Module):
    """A method's attempt as a function of h, dt, slopes and derivatives: the states at which slopes are taken, the next state and
    the error.

    Args:    method: whose `attempt` it is; state: the width of h; calls: as `calls_of` found them.
    Shape:   h, slopes, derivatives (batch, state), dt (batch, 1) -> (batch, (slopes + 2) state), the start among the states.
    """

    device = torch.device("cpu")

    def __init__(self, method: EmbeddedMethod, state: int, calls: FieldCalls) -> None:
        super().__init__()
        self.method, self.state = method, state
        self.order, self.count, self.reads_start = calls.slopes, len(calls.nodes), method.reads_start
        self.derivatives = calls.derivatives

    @property
    def samples(self) -> dict[str, int]:
        """What each sample gives, and of which width."""
        return {"h": self.state, "dt": 1, **dict.fromkeys(self.of_field, self.state)}

    @property
    def of_field(self) -> list[str]:
        """What of these the field gives."""
        return [*(f"slope {k}" for k in range(self.count)), *self.derivatives]

    @property
    def answer(self) -> int:
        """How many numbers it gives for a sample."""
        return (self.count + 2) * self.state

    def forward(self, h: Tensor, dt: Tensor, *of_field: Tensor) -> Tensor:
        slopes = of_field[: self.count]
        slope = _GivenSlope(h, slopes, self.order, dict(zip(self.derivatives, of_field[self.count :], strict=True)))
        with _identities(self.method, h):
            attempt = self.method.attempt(slope, torch.zeros_like(dt), dt, h, slopes[START] if self.reads_start else None)
        if len(slope.states) != self.count:
            raise UnknownOperation("its `attempt` calls the field less often at some steps than at others")
        return torch.cat([*slope.states, attempt.h, attempt.error.detach()], -1)


class _TriedSlope(SlopeFunction):
    """Gives random slopes, so many times as large, and notes at which times and states; `declared`: derivatives, too."""

    def __init__(
        self, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor, dice: torch.Generator, times: Tensor, declared: bool
    ) -> None:
        self.tau, self.dt, self.dice, self.times, self.declared, self.numbers = tau, dt, dice, times, declared, list[int]()
        self.taken, self.derivatives = [(tau, h, start)], set[str]()

    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        first = self.taken[START][1]
        if h.shape != first.shape or h.dtype != first.dtype:
            raise UnknownOperation(f"it asks for the slope at a state of shape {tuple(h.shape)} and {h.dtype}")
        at = tau.double().expand(len(h), 1)
        for number, (when, where, slope) in enumerate(self.taken):
            if where is h and torch.allclose(when, at, rtol=SAME, atol=0):
                self.numbers.append(number)
                return slope
        self.numbers.append(len(self.taken))
        self.taken.append((at, h, self.times * _random_like(h, self.dice)))
        return self.taken[-1][2]

    def jacobian(self, tau: Tensor, h: Tensor) -> Tensor:
        return _jacobian(self._derivative("jacobian", tau, h) * self.times)

    def time_derivative(self, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        return self._derivative("drift", tau, h) * self.times**2

    def _derivative(self, name: str, tau: Tensor, h: Tensor) -> Tensor:
        """Of random numbers, always the same: times how many of what the slopes are depends on which it is."""
        if not self.declared:
            raise UnknownOperation(f"it reads {DERIVATIVES[name]} of the field, and its `jacobians` is 0; declare 1")
        if h is not self.taken[START][1] or not torch.equal(tau.double().expand(len(h), 1), self.tau):
            raise UnknownOperation(f"it reads {DERIVATIVES[name]} of the field elsewhere than where a step begins")
        self.derivatives.add(name)
        return _random_like(h, torch.Generator().manual_seed(1 + [*DERIVATIVES].index(name)))


def calls_of(method: EmbeddedMethod, state: int, dtype: torch.dtype) -> FieldCalls | str:
    """Find the calls of the field in a method's attempt by trying it on steps of many lengths; or why it has no program."""
    try:
        with torch.inference_mode(False), torch.no_grad(), fork_rng([]):  # for calls of other modes too
            method = copy.deepcopy(method)  # which may count its calls
            lengths = torch.tensor(LENGTHS, dtype=torch.float64, device="cpu")[:, None]
            none, one = 0 * lengths, lengths**0
            steps = [(none, one, one), (0.3 * lengths, lengths, one), (none, lengths, one), (none, one, lengths)]
            tried = [_tried(method, state, dtype, *step) for step in steps]
            found = _calls(method, *tried)
            if isinstance(found, FieldCalls) and found.scales and not _goes_back_by_slopes(method, state, dtype):
                found = replace(found, scales=False)
    except Exception as error:  # the code is the user's, and without a kernel it runs as it is
        words = str(error) if isinstance(error, UnknownOperation | AssertionError) else f"{type(error).__name__}: {error}"
        return f"the `attempt` of {method!r} has no kernel: {words}"
    return found


def _calls(
    method: EmbeddedMethod,
    first: tuple[_TriedSlope, Attempt],
    other: tuple[_TriedSlope, Attempt],
    before: tuple[_TriedSlope, Attempt],
    faster: tuple[_TriedSlope, Attempt],
) -> FieldCalls | str:
    """Of attempts by dt 1 from time 0, by others from two times, and by dt 1 with slopes that are as many times as large."""
    (slope, attempt), (moved, later), (still, sooner) = first, other, before
    nodes = tuple(float(at[0]) for at, _, _ in slope.taken)
    why = None
    if not slope.numbers == moved.numbers == still.numbers or not slope.derivatives == moved.derivatives == still.derivatives:
        why = "it calls the field in another order at other steps"
    elif not all(_are_at(nodes, each) for each in (slope, moved, still)):
        why = "it reads the field at a time that is not tau + c dt"
    elif not all(torch.equal(one.nan_to_num(), two.nan_to_num()) for one, two in zip(later[:2], sooner[:2], strict=True)):
        why = "its states depend on the time itself"
    ends = [k for k, (_, state, given) in enumerate(slope.taken) if given is attempt.end and state is attempt.h and nodes[k] == 1]
    if why is None and attempt.end is not None and not (ends and method.reads_start):
        why = "its `end` is no slope at tau + dt and the state that it returns"
    if why is not None:
        return f"the `attempt` of {method!r} has no kernel: {why}"
    states = [[*(at for _, at, _ in tried.taken), end.h] for tried, end in (before, faster)]
    scales = len(states[0]) == len(states[1]) and all(map(_agree, *states))
    end = ends[0] if attempt.end is not None else None
    return FieldCalls(tuple(slope.numbers), nodes, end, scales, tuple(name for name in DERIVATIVES if name in slope.derivatives))


def _goes_back_by_slopes(method: EmbeddedMethod, state: int, dtype: torch.dtype) -> bool:
    """Return whether a derivative by dt is that by slopes that are all as many times as large: not where code detaches them."""
    with torch.enable_grad():
        dt, times = (torch.ones(3, 1, dtype=torch.float64, device="cpu", requires_grad=True) for _ in range(2))
        slope, end = _tried(method, state, dtype, 0 * dt.detach(), dt, times)
        states = torch.cat([*(at for _, at, _ in slope.taken), end.h], -1)
        if not states.requires_grad:
            return False
        weights = _random_like(states, torch.Generator().manual_seed(1))
        by_dt, by_slopes = torch.autograd.grad(states, (dt, times), weights, allow_unused=True, materialize_grads=True)
    return bool(torch.isclose(by_dt, by_slopes, rtol=torch.finfo(dtype).eps ** 0.5).all())


def _agree(one: Tensor, other: Tensor) -> bool:
    """Return whether states are alike but for rounding, relative to the largest unit of each sample."""
    largest = torch.maximum(one.abs(), other.abs()).amax(-1, keepdim=True)
    return bool(((one - other).abs() <= torch.finfo(one.dtype).eps ** 0.5 * largest).all())


def _are_at(nodes: Sequence[float], slope: _TriedSlope) -> bool:
    """Return whether slopes were taken at tau + c dt in steps of every length."""
    expected = [slope.tau + c * slope.dt for c in nodes]
    allowed = ROUNDED * (slope.tau.abs() + slope.dt)
    return all(bool(((at - to).abs() <= allowed).all()) for to, (at, _, _) in zip(expected, slope.taken, strict=True))


def _tried(
    method: EmbeddedMethod, state: int, dtype: torch.dtype, tau: Tensor, dt: Tensor, times: Tensor
) -> tuple[_TriedSlope, Attempt]:
    dice, times = torch.Generator().manual_seed(0), times.to(dtype)
    like = torch.empty(len(dt), state, dtype=dtype, device="cpu")
    h, start = _random_like(like, dice), times * _random_like(like, dice)
    slope = _TriedSlope(tau, dt, h, start, dice, times, method.implicit)
    with _identities(method, h):
        attempt = attempted(method, slope, tau, dt, h, start if method.reads_start else None)
    return slope, attempt


def _random_like(like: Tensor, dice: torch.Generator) -> Tensor:
    return torch.rand(like.shape, generator=dice, dtype=like.dtype, device="cpu") + 0.1


def _jacobian(name: Tensor) -> Tensor:
    jacobian: Any = ShiftedJacobian(name)  # which a method takes for a tensor
    return cast("Tensor", jacobian)


def _identities(method: EmbeddedMethod, h: Tensor) -> AbstractContextManager[object]:
    return Identities(h) if method.implicit else nullcontext()
