r"""Events are found where a function of time and state crosses zero along a solve, sample by sample.

    g(t, h(t)) = 0        dt*/dp = -(dg/dp) / (dg/dt along the solution)        h(t*+) = reset(t*, h(t*))

On each step of a solve g is read at thirteen times, of the steps' own continuation, which is as accurate as the solve, and steps
are halved until a polynomial through five of these has no room for two zeros. A sample is on one side of an event, which it keeps
from look to look; a change of side is a crossing, and is narrowed down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from discretize.solvers.detached import once_only
from discretize.solvers.equation import Shapes, joined, split

__all__ = ["CrossingTime", "Event", "EventTimes", "as_array", "checked_events"]

MOST_WAYS = 4  # in which states are moved by their rounding


@dataclass(frozen=True)
class Event:
    r"""Asks for the zeros of a function of time and state.

    Args:    g: t (batch, 1), h (batch, state) -> a number for each sample, (batch,) or (batch, 1), each sample by itself;
             direction: 1, it must rise through 0 as the solve goes on, -1 fall, 0 either; terminal: the sample ends there, and
             keeps its state; reset: (t, h) -> the state (batch, state) to go on from. Touching 0 is no crossing, nor is being 0
             at the start, nor being carried over 0 by a reset. Events at one time all happen, in the order in which they are
             given. A pulse of g that is shorter than an eighth of a step may be missed: then bound the steps, `max_step`.
             Parameters of g and reset have gradients too; second derivatives of times are refused.
    Raises:  TypeError, ValueError for what does not fit, and at a solve for a g that is not a number; SolverError where resets
             come ever faster, and time does not go on, or there are too many; and where g changes too often to be followed.
    Source:  Shampine and Thompson 2000, "Event location for ordinary differential equations"; for the gradient Chen, Amos and
             Nickel 2021, "Learning neural event functions for ordinary differential equations".
    """

    g: Callable[[Tensor, Tensor], Tensor]
    direction: int = 0
    terminal: bool = False
    reset: Callable[[Tensor, Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        if not callable(self.g) or not (self.reset is None or callable(self.reset)):
            raise TypeError("`g` and `reset` of an Event must be functions of t and h.")
        if self.direction not in (-1, 0, 1):
            raise ValueError(f"`direction` must be 1, rising, -1, falling, or 0, either, got {self.direction!r}.")
        if checks.is_flag("terminal", self.terminal) and self.reset is not None:
            raise ValueError("An Event that ends a sample has no `reset`; give one of them.")

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        """(batch, 1), (batch, state) -> (batch,)."""
        value = self.g(t.to(h), h)
        if not isinstance(value, Tensor) or value.shape not in (h.shape[:1], (len(h), 1)):
            came = str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"`g` of an Event must give a number for each of {len(h)} samples, got {came}.")
        if not bool(value.isfinite().all()):
            k = int((~value.reshape(-1).isfinite()).nonzero()[0])
            raise ValueError(f"`g` of an Event gives {float(value.reshape(-1)[k])} at t = {float(t[k]):g}; it must be a number.")
        return value.reshape(-1)

    def rounding(self, t: Tensor, h: Tensor, units: float) -> np.ndarray:
        """Return how far g (batch,) moves where all of t and h move by so many units in their last place, one way or another.

        Of two opposite ways the lesser counts: a jump of g at just this time is on one side, and no rounding.
        """
        # Two units move apart in one of these, be g their difference.
        bits = torch.arange(max(1, min(MOST_WAYS, h.shape[1].bit_length())), device=h.device)[:, None]
        ways = torch.cat([torch.ones_like(bits), 1 - 2 * ((torch.arange(h.shape[1], device=h.device) >> bits) & 1)], 1).to(h)
        factors = 1 + units * torch.finfo(h.dtype).eps * torch.cat([0 * ways[:1], ways, -ways])  # of t, and of each unit
        both = (factors[:, None] * torch.cat([t.to(h), h], 1)).flatten(0, 1)
        here, moved = self.g(both[:, :1], both[:, 1:]).reshape(len(factors), -1).tensor_split([1])
        sides = (moved - here).abs().nan_to_num(0.0, 0.0, 0.0)
        return as_array(sides.unflatten(0, (2, -1)).amin(0).amax(0))

    @property
    def stops(self) -> bool:
        """Whether the solve stops at the event, for good or to go on from another state."""
        return self.terminal or self.reset is not None


class EventTimes(NamedTuple):
    """Holds the crossings of one event by sample and time: samples (m,), times (m,), states before a reset (m, state)."""

    samples: Tensor
    times: Tensor
    states: Tensor

    @classmethod
    def none(cls, h: Tensor) -> EventTimes:
        """Return that nothing was crossed by samples with states like h (batch, state)."""
        return cls(
            torch.zeros(0, dtype=torch.long, device="cpu"),
            torch.zeros(0, dtype=torch.float64, device="cpu"),
            h.new_zeros(0, h.shape[1]),
        )

    def of(self, sequence: Tensor, starts: Tensor | None) -> EventTimes:
        """Return those of a batch whose samples (pieces,) are pieces of others, in time, which begin at these times."""
        times = self.times if starts is None else self.times + starts[self.samples]
        samples = sequence[self.samples]
        order = samples.argsort(stable=True)
        return EventTimes(samples[order], times[order], self.states[order.to(self.states.device)])


def checked_events(events: object, shapes: Shapes | None, direction: int) -> tuple[Event, ...]:
    """Check the events, and return each as one of `direction` t and of the whole state (batch, state), where that has parts of
    these shapes."""
    given = (events,) if isinstance(events, Event) else events
    if not isinstance(given, Sequence) or not all(isinstance(event, Event) for event in given):
        raise TypeError(f"`events` must be discretize.Event, or several of them, got {events!r}.")
    whole = given if shapes is None else (_of_parts(event, shapes) for event in given)
    return tuple(whole if direction > 0 else (_backwards(event) for event in whole))


def _backwards(event: Event) -> Event:
    g, reset = event.g, event.reset
    return replace(event, g=lambda t, h: g(-t, h), reset=None if reset is None else lambda t, h: reset(-t, h))


def _of_parts(event: Event, shapes: Shapes) -> Event:
    g, reset = event.g, event.reset

    def of_whole(t: Tensor, h: Tensor) -> Any:
        assert reset is not None
        return joined(reset(t, split(h, shapes)))[0]

    return replace(event, g=lambda t, h: g(t, split(h, shapes)), reset=None if reset is None else of_whole)


class CrossingTime(torch.autograd.Function):
    """Gives t* of g(t*, p) = 0 its derivative, -(dg/dp) / (dg/dt)."""

    @staticmethod
    def forward(ctx: Any, times: Tensor, slopes: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(slopes, values)
        return times.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes, values = ctx.saved_tensors
        return None, None, *once_only("events", [(-grad / slopes).to(values)], [grad, values])


def as_array(values: Tensor) -> np.ndarray:
    """Return numbers on the CPU in float64."""
    array: np.ndarray = values.detach().cpu().double().numpy()
    return array
