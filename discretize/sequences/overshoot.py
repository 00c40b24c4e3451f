r"""Warn where a step of a cell or sequence module multiplies what it should forget by more than 1.

    dh/dt = (something) - g h, g the field's leak         a step multiplies the distance to a held target by R(-g dt)
    Euler: R = 1 - g dt, which is below -1 where g dt > 2, and grows without bound

Looked at are the first call of a module and every thousandth; a call with longer steps than any looked at, with another step
map, or that ends ten times further from 0; and one call in fifty where weights have changed. `Monitor` looks at all of them.
Of a `DelayLine` in the field they tell whether steps are as long as its states are apart, for else they do not shift these.
On another device than the CPU the states' size, and lengths that lie there, are read in one call of fifty, so as not to wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.fields.delayed import DelayLine
from ctrnn.fields.probes import COUPLED, couples_samples, moved
from discretize.errors import WEIGHTS_DIVERGED, StepWarning, diverged_weight, warn_user
from discretize.kernels.eligibility import tracing_reason
from discretize.steps.step import Step

__all__ = ["OvershootWatch"]

EVERY, OFTEN = 1_000, 50  # calls
FURTHER = 10.0  # times the largest state looked at
SAMPLES = 64  # of a sequence, where only its weights have changed: a look at all takes as long as a compiled kernel's call
HEARD = 8  # of a sequence, where a listener is told of every call
ROUNDING = 1e-3  # of |R|, of gates in float32, and of lengths that are differences of times
FAR = 10.0  # rate times length, from which on a unit of time is likelier wrong than a step too long


class OvershootWatch:
    """Counts calls, looks at some, warns once; `largest`: the largest g dt seen, None before the first look; `listener`: with
    one, every call is looked at, and it is called with g dt (n, state) of the steps that were taken."""

    # Of what was looked at: the longest step, the largest state, the step map, the weights with their versions.
    longest: float = 0.0
    size: float = 0.0
    step: str | None = None
    weights: list[tuple[int, int]] | None = None
    modes: list[bool] = []  # noqa: RUF012 - replaced, never changed: in training or not, where samples were looked at together

    def __init__(self, allow_overshoot: bool) -> None:
        self.allowed: bool = checks.is_flag("allow_overshoot", allow_overshoot)
        self.calls: int = 0
        self.warned: bool = False
        self.spreads: bool = False  # delays of a line of states, and it was said
        self.largest: float | None = None
        self.listener: Callable[[Tensor], object] | None = None

    def due(self, step: Step, field: VectorField, lengths: float | Tensor, last: Tensor, samples: int = 1) -> int:
        """Whether to look at this call, which took steps of these lengths through so many samples to the states `last`: 0, or n
        to look at every n-th sample."""
        if torch.compiler.is_compiling():  # which would compile anew for each number of calls
            return 0
        if tracing_reason() is not None or checks.is_captured(last.device) or last.is_meta:
            self.calls += 1
            return 0
        return self.counted(repr(step), field, lengths, last, samples)

    def counted(self, named: str, field: VectorField, lengths: float | Tensor, last: Tensor, samples: int = 1) -> int:
        """As `due`, of a call whose numbers can be read; named: the step map."""
        self.calls += 1
        often = self.calls % OFTEN == 1
        longest = (
            lengths if not isinstance(lengths, Tensor) else _largest(lengths) if often or not _is_elsewhere(lengths) else 0.0
        )
        size = _largest(last) if often or not _is_elsewhere(last) else 0.0
        all_of_it = (
            self.calls % EVERY == 1
            or longest > self.longest * (1 + ROUNDING)
            or size > self.size * FURTHER
            or named != (self.step or named)
            or (last.dim() == 2 and len(last) > 1 and field.training not in self.modes)
        )
        if not (all_of_it or often or self.listener):
            return 0
        weights = _versions(field)
        if not all_of_it and weights == self.weights and not self.listener:
            return 0
        if size == math.inf:
            self._look_at_weights(field)
        self.longest, self.size, self.step, self.weights = max(longest, self.longest), max(size, self.size), named, weights
        return 1 if all_of_it else -(-samples // (SAMPLES if often else HEARD))

    def looks(self, named: str, field: VectorField, length: float, h: Tensor) -> bool:
        """Whether the next call is looked at whatever its states (batch, state) will be, if it takes steps of this length, none
        of which multiplies by more than 1."""
        return (
            (self.calls + 1) % OFTEN == 1
            or self.listener is not None
            or length > self.longest * (1 + ROUNDING)
            or named != (self.step or named)
            or (h.shape[0] > 1 and field.training not in self.modes)
        )

    def glance(self, length: float | Tensor) -> bool:
        """Whether `due` is to be asked about a single step: of one in fifty, and of any that may be the longest; counts
        the others."""
        if isinstance(length, Tensor) or length > self.longest * (1 + ROUNDING) or self.calls % OFTEN == 0:
            return True
        self.calls += 1
        return False

    @torch.no_grad()
    def look(
        self, step: Step, field: VectorField, xs: Tensor, h0: Tensor, states: Tensor, dt: float | Tensor, every: int = 1
    ) -> None:
        """At the steps of a sequence, xs (time, batch, input), from h0 (batch, state) to the states (time, batch, state), `every`
        n-th of them and the last."""
        first = (len(xs) - 1) % every
        some = slice(first, None, every)
        h = states[first - 1 : -1 : every] if first else torch.cat([h0[None], states[every - 1 : -1 : every]])
        self.look_at(step, field, field.project(xs[some]), h, dt[some] if isinstance(dt, Tensor) else dt)

    @torch.no_grad()
    def look_at(self, step: Step, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> None:
        """At steps from the states h (..., state) with these inputs."""
        self._look_at_samples(field, projected, h)
        self._look_at_lines(step, field, dt)
        self.size = max(self.size, _largest(h))
        every = dt * field.leak(projected, h)
        if self.listener:
            moved = every[..., :1].new_zeros(every[..., :1].shape) + dt > 0  # a sequence that is over takes no step
            self.listener(every[moved[..., 0]])
        g_dt = _largest(every.nan_to_num(nan=0.0, posinf=math.inf))
        self.largest = g_dt if self.largest is None else max(self.largest, g_dt)
        if self.allowed or self.warned or g_dt <= 1 or not _growth(step, g_dt) > 1 + ROUNDING:
            return
        self.warned = True
        other = "ExponentialEulerMaruyama" if step.noisy else "ExponentialEuler"
        unit = "Are `dt` or `ts` in another unit than the field's time constants, milliseconds say? " if g_dt >= FAR else ""
        warn_user(
            f"{step!r} takes steps with g dt up to {g_dt:.4g}, rate times length, where it multiplies the distance to what the "
            f"state is pulled to by {_growth(step, g_dt):.3g}: states oscillate and grow where those of the equation approach. "
            f"{unit}Take more substeps, a shorter dt, or a step that follows any rate, such as {other}; `allow_overshoot=True` "
            "silences this.",
            StepWarning,
        )

    def _look_at_weights(self, field: VectorField) -> None:
        """Warn of weights that are not finite, which solves refuse."""
        if (cause := diverged_weight(field)) is not None:
            warn_user(f"States of this call are not finite: {cause}. {WEIGHTS_DIVERGED}", UserWarning)

    def _look_at_lines(self, step: Step, field: VectorField, dt: float | Tensor) -> None:
        """Warn once of steps that do not shift the states of a `DelayLine` in the field, so that its delays are others."""
        if self.spreads:
            return
        lengths = dt.detach() if isinstance(dt, Tensor) else torch.tensor([dt], dtype=torch.float64, device="cpu")
        taken, rounding = lengths[lengths > 0], max(ROUNDING, 2 * torch.finfo(lengths.dtype).eps)
        for spacing in {part.spacing for part in field.modules() if isinstance(part, DelayLine)}:
            other = taken[(taken - spacing).abs() > rounding * spacing]
            if step.takes_one_evaluation and not len(other):  # Euler's, for a line has no leak
                continue
            self.spreads = True
            length = float(other[0] if len(other) else taken[0]) if len(taken) else spacing
            warn_user(
                f"{step!r} takes steps of {length:.4g}, and the states of a DelayLine in the field are {spacing:.4g} apart: "
                "Euler's steps of that length, or Euler and Maruyama's, shift them exactly; with others its delays are spread, "
                "and longer ones may grow without bound. Take steps of that length, by `dt` and `substeps`, or make the line for "
                "these, `DelayLine(field, dt)`; the field in it, a DelayedField, takes steps of any kind and length.",
                StepWarning,
            )

    def _look_at_samples(self, field: VectorField, projected: Tensor, h: Tensor) -> None:
        """Whether they act on one another, at the first step, once in training and once not."""
        projected, h = (x[0] if x.dim() == 3 else x for x in (projected, h))
        if field.training in self.modes or h.dim() != 2 or len(h) < 2:
            return
        self.modes = [*self.modes, field.training]
        if couples_samples(field, projected, h, moved(projected)):
            warn_user(f"In this module {COUPLED}", UserWarning)


def _largest(numbers: float | Tensor) -> float:
    """The largest size of these numbers, infinite where one is nan; 0 where there are none, or none that can be read."""
    if not isinstance(numbers, Tensor):
        return numbers
    try:
        least, most = numbers.detach().aminmax()
        size = max(-float(least), float(most))
    except RuntimeError:
        return 0.0
    return math.inf if math.isnan(size) else size


def _is_elsewhere(numbers: float | Tensor) -> bool:
    """Whether to read them is to wait for a device."""
    return isinstance(numbers, Tensor) and numbers.device.type != "cpu"


def _versions(field: VectorField) -> list[tuple[int, int]]:
    """The field's tensors, and how often torch has written into each; 0 where it does not count, as of inference."""
    return [(id(tensor), 0 if tensor.is_inference() else tensor._version) for tensor in (*field.parameters(), *field.buffers())]


def _growth(step: Step, g_dt: float) -> float:
    """|R(-g dt)|; 0 for a step of one's own that is no map of single units."""
    try:
        return float(step.stability(torch.tensor([-g_dt], dtype=torch.float64, device="cpu")).abs())
    except Exception:
        return 0.0
