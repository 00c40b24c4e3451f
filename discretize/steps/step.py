r"""Defines the interface of one-step maps (projected input, h, dt) -> h, which approximate dh/dt = field(x, h) for a held x.

step(field, x, h, dt) = step.advance(field, field.project(x), h, dt)        local error O(dt^(order + 1))
on dh/dt = lambda h                                                         h <- R(z) h, z = lambda dt
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.calls import AnsweredInit
from ctrnn.fields.field import check_field, check_input, check_same_leading_axes, check_state
from ctrnn.fields.noise import check_no_noise
from ctrnn.own_code import without_derived
from discretize.steps.algebra.jacobian import jacobian_cost

__all__ = ["Step", "key_of", "mode", "step_length"]

PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Step(AnsweredInit, ABC):
    r"""A one-step map; subclasses give `order`, `evaluations` and `advance`, and `stability` if they know it in closed form.

    A step evaluates `flow` `evaluations` times, its derivative along a vector `tangents` times, and its Jacobian `jacobians`
    times; where a map iterates, these are the numbers for an affine field. It has no state of its own and changes no weight.

    The library's own say more of themselves, as text that is read by the grammar of a field's `formula` and proved of the map:
    `title`, its name in a sentence; `family`, its row of the atlas; `equation`, h' of dh/dt = F(h) = N(h) - L(h) h, with N and L
    those of the start of the step, F' the slope and forget(h, at, dt) what the leak alone leaves of h at the rate of another
    state; `gate`, the G of h + G (f - h) that a unit step makes of dh/dt = g (f - h), or `keeps_and_writes`, what it keeps of h
    and writes of f; `factor`, R(z) with l = L dt; `error`, the leading term of the exact solution minus the map. `written` is h'
    of a map that this grammar does not read, and that nothing is proved of.

    Shape:   x (..., input), h (..., state) -> h (..., state); dt > 0 in units of time, a number, or a length for each
             sample, (...) or (..., 1), which is differentiated.
    Raises:  TypeError, ValueError for x, h or dt that do not fit; StepError where an equation cannot be solved.
    """

    name: ClassVar[str] = ""  # as `method=`, where that is not the dashed name of the class
    title: ClassVar[str] = ""
    family: ClassVar[str] = ""
    equation: ClassVar[str] = ""
    written: ClassVar[str] = ""
    gate: ClassVar[str] = ""
    keeps_and_writes: ClassVar[tuple[str, str] | None] = None
    factor: ClassVar[str] = ""
    error: ClassVar[str] = ""
    order: ClassVar[int]
    evaluations: ClassVar[int]
    tangents: ClassVar[int] = 0
    jacobians: ClassVar[int] = 0
    noisy: ClassVar[bool] = False  # whether it is for fields with noise
    draws: bool = False  # whether a call draws random numbers of its own

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        # Of another map, what is said of the one that the class descends from would be wrong.
        said = ("title", "family", "equation", "written", "gate", "keeps_and_writes", "factor", "error")
        without_derived(cls, Step, ["advance"], ["stability", "counted", *said])

    def __call__(self, field: VectorField, x: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        self.check_noise(check_field(field))
        return self.checked(field, x, h, dt)

    def check_noise(self, field: VectorField) -> None:
        """Refuse a field with noise under a step without, and the other way round. Raises: ValueError naming both."""
        check_no_noise(field, "smooth method", repr(self))

    def checked(self, field: VectorField, x: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        """Step as the call does, whether the field has noise or not."""
        x, h = cast_for(field, x), cast_for(field, h)
        check_input(field, x)
        check_state(field, h)
        check_same_leading_axes(x, h)
        return self.advance(field, field.project(x), h, step_length(dt, h))

    @abstractmethod
    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        """Step from the projected input, without checking the arguments, for use in loops.

        dt >= 0 is a number, a scalar tensor, or (..., 1) of the state's dtype and device, a length for each sample; a sample
        whose dt is 0 keeps its state, to the last bit.
        """

    def counted(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> tuple[Tensor, int]:
        """Return `advance` and its cost in evaluations of the field; a Jacobian counts as one for each of its columns."""
        return self.advance(field, projected, h, dt), self.cost(field)

    def cost(self, field: VectorField) -> int:
        """Return the number of evaluations of the field in a step; a derivative along a vector counts as one."""
        return self.evaluations + self.tangents + (self.jacobians and self.jacobians * jacobian_cost(field))

    @property
    def path_order(self) -> float:
        """The order in which single states, or paths, come to those of the equation."""
        return self.order

    @property
    def takes_one_evaluation(self) -> bool:
        """Whether a step evaluates the field once, and differentiates nothing."""
        return (self.evaluations, self.tangents, self.jacobians) == (1, 0, 0)

    @property
    def known_name(self) -> str | None:
        """The name by which `step=` and `method=` know an object of this very class, which a file may have in its place."""
        own = vars(type(self)).get("name") if type(self).__module__.startswith("discretize.") else None
        return own if isinstance(own, str) else None

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        r"""Return R(z), the factor of one step on dh/dt = lambda h, z = lambda dt.

        `leak` is the part L dt that the field declares as its leak, which exponential and frozen maps treat separately; by
        default all of it, max(0, -Re z): the target is held, and -z = g dt is the rate times the step.

        Shape:   z (...), real or complex; leak (...), real -> (...).
        Source:  this project: by default R is measured: the map itself, on one or two units.
        """
        z, leak = mode(z, leak)
        parts = torch.view_as_real(z).reshape(-1, 2) if z.is_complex() else z.reshape(-1, 1)
        start = torch.zeros_like(parts)
        start[:, 0] = 1.0
        moved = self.advance(_Mode(parts.shape[-1]), torch.cat([parts, leak.reshape(-1, 1)], -1), start, 1.0)
        return torch.view_as_complex(moved.contiguous()).reshape(z.shape) if z.is_complex() else moved.reshape(z.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def key_of(step: object) -> object:
    """Return a key of a step, or of its name: class and numbers, by which one made anew is found; else the object's own."""
    own = list(getattr(step, "__dict__", {"": step}).items())
    if any(type(value) not in PLAIN for _, value in own):
        return id(step)
    return type(step), *((name, type(value), value) for name, value in own)


def step_length(dt: float | Tensor, h: Tensor) -> float | Tensor:
    r"""Convert dt to what `Step.advance` takes: a number, or lengths (..., 1) of the dtype and device of h.

    Shape:   dt a number, or (...) or (..., 1) for h (..., state).
    Raises:  TypeError, ValueError for what is not positive and finite, or does not fit h.
    """
    if not isinstance(dt, Tensor) or (dt.numel() == 1 and not dt.requires_grad):
        return checks.positive_number("dt", dt)  # type: ignore[arg-type]
    if dt.is_complex() or dt.dtype == torch.bool:
        raise TypeError(f"`dt` must hold real numbers, got {dt.dtype}.")
    samples = h.shape[:-1]
    if dt.dim() and dt.shape not in (samples, (*samples, 1)):
        raise ValueError(
            f"`dt` must be a number, or one for each sample, {tuple(samples)} or {(*samples, 1)}, got shape {tuple(dt.shape)}."
        )
    checks.is_finite("dt", dt)
    _is_positive(dt)
    if dt.dim():
        dt = dt.reshape(*samples, 1)
    return dt.to(h)


def _is_positive(dt: Tensor) -> None:
    if not checks.holds(dt > 0):
        raise ValueError(f"`dt` must be positive, got {float(dt.detach().min())}.")


def mode(z: Tensor, leak: Tensor | None) -> tuple[Tensor, Tensor]:
    """Broadcast z and leak to one shape; without a leak, take that of a held target."""
    z = checks.is_tensor("z", z)
    if leak is None:
        return z, (-z.real).clamp(min=0.0)
    z, leak = torch.broadcast_tensors(z, checks.is_tensor("leak", leak))
    return z, leak


class _Mode(VectorField):
    """dh/dt = z h with a declared leak, both read from the input: one unit, or real and imaginary part."""

    def __init__(self, units: int) -> None:
        super().__init__(units + 1, units)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        z = projected[..., :-1]
        if h.shape[-1] == 1:
            return z * h
        (a, b), (re, im) = z.unbind(-1), h.unbind(-1)
        return torch.stack([a * re - b * im, a * im + b * re], -1)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected[..., -1:].expand_as(h)
