"""Arrange the states of torchdiffeq's calls, a tensor or a tuple of them, as those of a batch, and call its functions so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import checks
from discretize.errors import SolverWarning, warn_user
from discretize.solvers.captured import captured
from discretize.solvers.control import ERROR_MARGIN

__all__ = ["ATOL", "RTOL", "CalledFlow", "Function", "Layout", "State", "first_of", "parts_of"]

RTOL, ATOL = 1e-7, 1e-9  # torchdiffeq's defaults
State = Tensor | tuple[Tensor, ...]
Function = Callable[[Tensor, Any], Any]


def parts_of(y: Any) -> tuple[Any, ...]:
    """Return the tensors of y, or of dy/dt, which may be one."""
    return tuple(y) if isinstance(y, tuple | list) else (y,)


def _shape_of(part: Any) -> torch.Size | None:
    return part.shape if isinstance(part, Tensor) else None


def first_of(y: State) -> State:
    """Return y at the first of its times."""
    return tuple(part[0] for part in y) if isinstance(y, tuple) else y[0]


def _for_units(tolerance: Any, shape: torch.Size) -> Tensor:
    """Return a tolerance for each unit of a tensor of y0."""
    given = torch.as_tensor(tolerance, device="cpu").detach().double()
    try:
        return given.expand(shape).reshape(-1)
    except RuntimeError:
        raise ValueError(f"`atol` of shape {tuple(given.shape)} does not fit y0, {tuple(shape)}.") from None


@dataclass(frozen=True)
class Layout:
    """Arranges y, a tensor or a tuple of them, as the states of a batch: of one, or y's own where samples step `alone`."""

    shapes: tuple[torch.Size, ...]  # of the tensors, without the samples that step alone
    several: bool
    alone: bool

    @classmethod
    def of(cls, y0: State, alone: bool) -> Layout:
        parts = parts_of(y0)
        for part in parts:
            if checks.is_tensor("y0", part).is_complex():
                raise TypeError("`y0` is complex, and states here are real: solve for torch.view_as_real(y0), or by torchdiffeq.")
            if not part.is_floating_point():
                raise TypeError(f"`y0` must be of floating point, got {part.dtype}; convert it, y0.float().")
            checks.is_finite("y0", part)
        if not all(part.numel() for part in parts):
            raise ValueError(f"`y0` has no units: {', '.join(str(tuple(p.shape)) for p in parts)}.")
        if alone and any(part.dim() < 2 or len(part) != len(parts[0]) for part in parts):
            raise ValueError(f"With 'per_sample' y0 must be (batch, ...), got {', '.join(str(tuple(p.shape)) for p in parts)}.")
        return cls(tuple(part.shape[1:] if alone else part.shape for part in parts), not isinstance(y0, Tensor), alone)

    @property
    def widths(self) -> list[int]:
        return [shape.numel() for shape in self.shapes]

    @property
    def width(self) -> int:
        return sum(self.widths)

    def join(self, y: State) -> Tensor:
        """Return (batch, state)."""
        parts = parts_of(y)
        return torch.cat([part.reshape(len(part) if self.alone else 1, -1) for part in parts], 1)

    def checked(self, found: Any, samples: int) -> Any:
        """Return what func gives for some samples, a derivative for each tensor of y. Raises: ValueError if it is none."""
        parts = parts_of(found)
        if not self.alone and isinstance(found, Tensor) != self.several and self.shapes == tuple(map(_shape_of, parts)):
            return found
        came = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
        wanted = [(samples, *shape) if self.alone else tuple(shape) for shape in self.shapes]
        if came != wanted or isinstance(found, Tensor) == self.several:
            shapes = ", ".join(map(str, wanted))
            raise ValueError(
                f"`func` is called as func(t, y), and must give dy/dt like y, {shapes}; got {', '.join(map(str, came))}."
            )
        return found

    def split(self, hs: Tensor) -> State:
        """Return states (n, batch, state) as y at n times."""
        parts = hs.split(self.widths, -1)
        samples = (hs.shape[1],) if self.alone else ()
        shaped = tuple(part.reshape(len(hs), *samples, *shape) for part, shape in zip(parts, self.shapes, strict=True))
        return shaped if self.several else shaped[0]

    def bounds(
        self, rtol: float | Tensor, atol: float | Tensor | Sequence[float | Tensor], y0: State
    ) -> tuple[float, float | Tensor]:
        """Return rtol, at least what the dtype of y0 can tell apart, and atol as one number or one for each unit of a state.

        torchdiffeq's defaults, 1e-7 and 1e-9, are below that in float32; of another rtol it is said, and another atol is kept.
        """
        parts = parts_of(y0)
        if not isinstance(rtol, float | int | Tensor) or torch.as_tensor(rtol, device="cpu").numel() != 1:
            raise ValueError("`rtol` must be one number; `atol` may be one for each unit or each tensor of y0.")
        each = self.tolerances("atol", atol)
        checks.non_negative_number("atol", float(each.min()))
        finest = ERROR_MARGIN * torch.finfo(parts[0].dtype).eps
        if isinstance(atol, float) and atol == ATOL:  # not asked for, and a unit near 0 would chase the rounding of what it was
            each = each.maximum(finest * self.join(y0).detach().abs().amin(0).to(each))
        one_for_all = bool((each == each[0]).all())
        asked = checks.non_negative_number("rtol", float(rtol))
        if 0 < asked < finest and asked != RTOL:
            warn_user(
                f"`rtol`={asked:g} is below what {parts[0].dtype} can tell apart; {finest:.1e} is taken. Use float64 for less.",
                SolverWarning,
            )
        return max(asked, finest), float(each[0]) if one_for_all else each

    def tolerances(self, name: str, atol: Any) -> Tensor:
        """Return an absolute tolerance for each unit of a state, as float64 numbers on the CPU."""
        given = list(atol) if isinstance(atol, tuple | list) else [atol] * len(self.shapes)
        if len(given) != len(self.shapes):
            raise ValueError(f"`{name}` has {len(given)} tolerances, and y0 {len(self.shapes)} tensors.")
        return torch.cat([_for_units(one, shape) for one, shape in zip(given, self.shapes, strict=True)])

    def tolerances_from(self, whole: Layout, atol: float | Tensor) -> float | Tensor:
        """Return those of the units of y, arranged as one sample, for the units of samples: the least of all samples counts."""
        return self.join(first_of(whole.split(atol[None, None]))).amin(0) if isinstance(atol, Tensor) else atol

    def call(self, f: Function, t: Tensor, h: Tensor) -> list[Any]:
        """Call f(t, y) for the states h (m, state) at their times (m, 1): at once where they are alone, else one by one."""
        if self.alone:
            y = first_of(self.split(h[None]))
            return [f(t.reshape(-1, *[1] * (parts_of(y)[0].dim() - 1)), y)]
        parts = h.split(self.widths, 1)
        if not all(len(shape) == 1 for shape in self.shapes):
            parts = tuple(part.reshape(len(h), *shape) for part, shape in zip(parts, self.shapes, strict=True))
        ys = zip(*map(Tensor.unbind, parts), strict=True) if self.several else parts[0].unbind()
        return [f(time, y) for time, y in zip(t.reshape(-1).unbind(), ys, strict=True)]


class CalledFlow(nn.Module):
    """Calls func as the equation of a batch, t (batch, 1), h (batch, state); its parameters, those
    that it closes over (`captured`), and `params`, are to be learned."""

    def __init__(self, func: Function, layout: Layout, params: Sequence[Tensor], y0: State) -> None:
        super().__init__()
        self.func, self.layout = captured(func, parts_of(y0)[0]), layout
        own = set(map(id, [*self.parameters(), *self.buffers()]))
        for k, param in enumerate({id(param): param for param in params if id(param) not in own}.values()):
            self.register_buffer(f"adjoint_param_{k}", checks.is_tensor("adjoint_params", param), persistent=False)

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        slopes = self.layout.call(self.func, t, h)
        checked = [parts_of(self.layout.checked(each, len(h))) for each in slopes]
        if self.layout.alone:
            return self.layout.join(checked[0])
        parts = [part for parts in checked for part in parts]
        return torch.cat(parts if all(part.dim() == 1 for part in parts) else [part.reshape(-1) for part in parts]).reshape(
            h.shape
        )
