"""Arrange the states of torchdiffeq's calls, a tensor or a tuple of them, as those of a batch, and call its functions so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import checks
from discretize.solvers.captured import captured

__all__ = ["CalledFlow", "Function", "Layout", "State"]

State = Tensor | tuple[Tensor, ...]
Function = Callable[[Tensor, Any], Any]


@dataclass(frozen=True)
class Layout:
    """Arranges y, a tensor or a tuple of them, as the states of a batch: of one, or y's own where samples step `alone`."""

    shapes: tuple[torch.Size, ...]  # of the tensors, without the samples that step alone
    several: bool
    alone: bool

    @classmethod
    def of(cls, y0: State, alone: bool) -> Layout:
        parts = y0 if isinstance(y0, tuple) else (y0,)
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
    def width(self) -> int:
        return sum(shape.numel() for shape in self.shapes)

    def join(self, y: State) -> Tensor:
        """Return (batch, state)."""
        parts = y if isinstance(y, tuple | list) else (y,)
        return torch.cat([part.reshape(len(part) if self.alone else 1, -1) for part in parts], 1)

    def checked(self, found: Any, samples: int) -> Any:
        """Return what func gives for some samples, a derivative for each tensor of y. Raises: ValueError if it is none."""
        parts = found if isinstance(found, tuple | list) else (found,)
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
        parts = hs.split([shape.numel() for shape in self.shapes], -1)
        samples = (hs.shape[1],) if self.alone else ()
        shaped = tuple(part.reshape(len(hs), *samples, *shape) for part, shape in zip(parts, self.shapes, strict=True))
        return shaped if self.several else shaped[0]

    def call(self, f: Function, t: Tensor, h: Tensor) -> list[Any]:
        """Call f(t, y) for the states h (m, state) at their times (m, 1): at once where they are alone, else one by one."""
        if self.alone:
            y = self.split(h[None])
            first = y[0][0] if self.several else y[0]
            return [f(t.reshape(-1, *[1] * (first.dim() - 1)), tuple(part[0] for part in y) if self.several else first)]
        return [f(time, self._first(row)) for time, row in zip(t[:, 0], h, strict=True)]

    def _first(self, row: Tensor) -> State:
        y = self.split(row[None, None])
        return tuple(part[0] for part in y) if isinstance(y, tuple) else y[0]


class CalledFlow(nn.Module):
    """Calls func as the equation of a batch, t (batch, 1), h (batch, state); its parameters, those
    that it closes over (`captured`), and `params`, are to be learned."""

    def __init__(self, func: Function, layout: Layout, params: Sequence[Tensor], y0: State) -> None:
        super().__init__()
        self.func, self.layout = captured(func, y0[0] if isinstance(y0, tuple) else y0), layout
        own = set(map(id, [*self.parameters(), *self.buffers()]))
        for k, param in enumerate({id(param): param for param in params if id(param) not in own}.values()):
            self.register_buffer(f"adjoint_param_{k}", checks.is_tensor("adjoint_params", param), persistent=False)

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        found = self.layout.call(self.func, t, h)
        return torch.cat([self.layout.join(self.layout.checked(each, len(h))) for each in found])
