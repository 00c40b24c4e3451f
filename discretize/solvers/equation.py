r"""Equations without an input, and solves that run backwards, become fields along paths.

    dh/dt = f(t, h)                    a field whose input is the time
    from t0 back to t1 < t0            s = -t:  dh/ds = -F(x(-s), h)

Both are then solved as any field is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ctrnn import Driven, HeldPath, Path, TimePath, VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.clocks.warp import as_speed
from ctrnn.fields.field import check_field, check_like_field
from ctrnn.fields.parts import affine
from ctrnn.inputs.derived import ReversedPath
from discretize.solvers.captured import captured
from discretize.trajectory import Trajectory

__all__ = [
    "BackwardField",
    "Equation",
    "NumbersRefused",
    "Shapes",
    "as_driven_field",
    "driven_in",
    "increasing_times",
    "joined",
    "split",
    "times_within",
]

Shapes = tuple[torch.Size, ...]
TIMES = ("t", "time", "ts", "times")
READ_AS_NUMBERS = (Tensor.__bool__, Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.item)


class Equation(VectorField):
    r"""Reads the time as its input: dh/dt = f(t, h).

    Args:    f: t (batch, 1), like h -> dh/dt, each sample by itself; a module's parameters are the field's, and so are those
             of modules that a function closes over (`captured`), if these are `like` a state. width: units of the state;
             shapes: of its parts without the batch, where h is several tensors.
    Raises:  TypeError, ValueError for what f gives that is no derivative.
    """

    f: Callable[..., Any]
    shapes: Shapes | None

    def __init__(self, f: Callable[..., Any], width: int, shapes: Shapes | None, like: Tensor | None = None) -> None:
        super().__init__(1, width)
        self.f, self.shapes = f if like is None else captured(f, like), shapes

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        if self.shapes is None:
            slopes = self._checked(self.f(projected, h))
            if slopes.shape != h.shape:
                raise ValueError(
                    f"The equation gives {tuple(slopes.shape)} for h of shape {tuple(h.shape)}; dh/dt must be like h. It is "
                    f"called as f(t, h), the time first, t of shape {tuple(projected.shape)}, a time for each sample."
                )
            return slopes
        slopes = self.f(projected, split(h, self.shapes))
        if not isinstance(slopes, tuple | list) or len(slopes) != len(self.shapes):
            came = f"{len(slopes)} of them" if isinstance(slopes, tuple | list) else type(slopes).__name__
            raise TypeError(f"The equation must give a derivative for each of the {len(self.shapes)} parts of h, got {came}.")
        for k, (part, shape) in enumerate(zip(slopes, self.shapes, strict=True)):
            if self._checked(part).shape[1:] != shape:
                raise ValueError(f"The equation gives {tuple(part.shape)} for part {k} of h, which is (batch, *{tuple(shape)}).")
        return torch.cat([part.flatten(1) for part in slopes], 1)

    def _checked(self, found: Any) -> Tensor:
        if not isinstance(found, Tensor):
            raise TypeError(f"The equation must give dh/dt as a tensor like h, got {type(found).__name__}.")
        return found


class BackwardField(VectorField):
    r"""Computes -F, by which F runs backwards in time.

    Args:    field: F, shared, not copied.
    """

    field: VectorField
    bandwidths: tuple[int, int] | None

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field, self.bandwidths = field, field.bandwidths

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -self.field.flow(projected, h)

    def jacobian(self, projected: Tensor, h: Tensor) -> Tensor:
        return -self.field.jacobian(projected, h)


def as_driven_field(
    field: Any, path: object, h0: Any, shapes: Shapes | None, times: Tensor, speed: object
) -> tuple[VectorField, Any]:
    r"""Return a field and the path that drives it, from the arguments of `integrate`; times (n,) or (n, batch).

    Raises:  TypeError, ValueError for an input that is missing, or that nothing reads.
    """
    if isinstance(field, VectorField):
        if shapes is not None:
            raise TypeError("`h0` is several tensors, and the state of a `VectorField` is one; join them along the last axis.")
        if path is not None:
            return field, path
        if field.input_size:
            raise ValueError(f"`path` is None, and the field has {field.input_size} inputs; give the path they come from.")
        return field, HeldPath.unchecked(h0.new_zeros(1, len(h0), 0), _ends(times))
    if path is not None or not callable(field):
        try:
            check_field(field)
        except TypeError as error:
            raise TypeError(f"{error} A function f(t, h) takes `path` None.") from None
    if speed is not None:
        raise TypeError("`speed` multiplies a `VectorField`; a function f(t, h) has the clock in it already.")
    if not isinstance(h0, Tensor) or h0.dim() != 2:
        came = str(tuple(h0.shape)) if isinstance(h0, Tensor) else type(h0).__name__
        raise ValueError(f"`h0` must be (batch, state), or several tensors (batch, ...), got {came}; one state is a batch of 1.")
    _check_arguments(field)
    equation = Equation(field, h0.shape[-1], shapes, h0)
    check_like_field("h0", cast_for(equation, h0), equation)
    ends = _ends(times)
    # One interval for all, as they may ask at times of their own.
    whole = ends if ends.dim() == 1 else torch.stack([ends[0].min(), ends[1].max()])
    return equation, TimePath(whole, len(h0), h0.dtype, h0.device)


def increasing_times(ts: object) -> tuple[Tensor, int]:
    """Return the times, increasing, and 1; times that decrease are returned with the other sign, and -1."""
    given = checks.as_times("ts", ts, differentiable=True)
    steps = given.detach().diff(dim=0) if given.dim() else given.detach().new_zeros(0)
    strictly = given.dim() == 1
    back = bool(steps.numel()) and bool((steps < 0).all() if strictly else (steps <= 0).all() and (steps < 0).any())
    return checks.increasing_stamps("ts", -given if back else given, 2, False, checks.dtype_of(ts)), -1 if back else 1


def driven_in(direction: int, field: VectorField, path: Path, speed: Path | Callable[..., Any] | None, h0: Tensor) -> Driven:
    """Return the right-hand side of a solve forwards, 1, or backwards in time, -1."""
    batch = len(h0) if isinstance(h0, Tensor) and not h0.is_nested and h0.dim() > 1 else None
    if direction > 0:
        return Driven(field, path, speed, batch)
    if path.knots.dim() > 1:
        raise ValueError("`ts` goes back in time, and every sequence of `path` has times of its own; solve them one by one.")
    clock = as_speed(speed)
    driven = Driven(BackwardField(field), ReversedPath(path), None if clock is None else ReversedPath(clock), batch)
    driven.direction = -1
    return driven


def times_within(driven: Driven, times: Tensor) -> Tensor:
    """Check that times lie in the interval of the input, of each sequence if it has its own; return them clamped to it."""
    if times.dim() > 1 and times.shape[1] != driven.batch:
        raise ValueError(f"`ts` has times for {times.shape[1]} sequences, the path has {driven.batch}.")
    if times.dim() > 1 or driven.knots.dim() > 1:
        own = times if times.dim() > 1 else times[:, None].expand(-1, driven.batch)
        within = checks.within("ts", own, driven.knots[0], driven.knots[-1])
        return within if times.dim() > 1 else times
    start, end = driven.interval
    times = checks.within("ts", times, start, end)
    if not bool((times.detach().diff() > 0).all()):
        raise ValueError(
            f"`ts` has several times within 4 ulp of one end of the interval [{start!r}, {end!r}]; keep one of them."
        )
    return times


def _check_arguments(f: Callable[..., Any]) -> None:
    """Refuse a function whose signature is not of the time and the state, in this order."""
    try:
        signature = inspect.signature(f.forward if isinstance(f, nn.Module) else f)
    except (TypeError, ValueError):  # written in C
        return
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes = f"`field` is a function of ({', '.join(signature.parameters)})"
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(
            f"{takes}, and is called as f(t, h), with the time and the state; bind what else it needs, "
            "`lambda t, h: f(t, h, ...)`."
        ) from None
    if len(names) > 1 and names[1] in TIMES and names[0] not in TIMES:
        raise TypeError(f"{takes}, and is called as f(t, h), the time first; give `lambda t, h: f(h, t)`.")


class NumbersRefused(TorchFunctionMode):
    """Refuses to read a tensor that has an axis for samples as one number.

    `if t < 0.5` would go well for a batch of one, until states between the steps are asked for, all times of them at once.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in READ_AS_NUMBERS and args[0].dim():
            raise TypeError(
                f"The equation reads a tensor of shape {tuple(args[0].shape)} as one number, by {function.__name__}: t is "
                "(batch, 1), a time for each sample, also for a batch of one. In place of `if t < 0.5` write "
                "torch.where(t < 0.5, a, b), and torch's functions for those of numbers, torch.sin(t)."
            )
        return function(*args, **(kwargs or {}))


def joined(h0: object) -> tuple[Any, Shapes | None]:
    """Return the state as one tensor (batch, state), and the shapes of its parts if it was several."""
    if not isinstance(h0, tuple | list):
        return h0, None
    parts: Sequence[Tensor] = [checks.is_tensor("h0", part) for part in h0]
    if not parts or any(part.dim() < 2 or len(part) != len(parts[0]) for part in parts):
        came = ", ".join(str(tuple(part.shape)) for part in parts) or "none"
        raise ValueError(f"`h0` is several tensors, each must be (batch, ...) with one batch for all, got {came}.")
    return torch.cat([part.flatten(1) for part in parts], 1), tuple(part.shape[1:] for part in parts)


def split(h: Tensor, shapes: Shapes) -> Any:
    """Return the parts of a state (batch, state)."""
    return Trajectory(h, h, shapes=shapes).parts


def _ends(times: Tensor) -> Tensor:
    """Return first and last time, increasing; a single time is the start of an interval."""
    start, end = times.detach()[[0, -1]].sort(0).values
    return torch.stack([start, torch.where(end > start, end, start + 1)])
