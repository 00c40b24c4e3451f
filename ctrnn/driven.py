r"""A field with its input: dh/dt = c'(t) field(x(t), h), closed, the right-hand side that a solver asks for.

With x = `WarpedPath(path, warp)` and speed = `warp.speed` this is the warped model of the theorem, Tallec and Ollivier
2018, eq. (6): its solution is h(c(t)).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.clocks.warps import Speed, Warp
from ctrnn.fields.field import VectorField, check_batched_state, check_field, check_input
from ctrnn.inputs.along import Along, Pieces, only
from ctrnn.inputs.paths import Path, piece_numbers
from ctrnn.inputs.splines import Spline, as_path, is_spline

__all__ = ["RightHandSide", "Driven", "GivenSpeed"]


class GivenSpeed(Path):
    r"""A speed that the user gives, looked at whenever it is evaluated: a path, or a bare function, which has no knots.

    Args:    source: a path, or t (float64 scalar tensor) -> number; one number >= 0 for the whole batch.
    Raises:  TypeError, ValueError at the evaluation that gives something else.
    Source:  this project.
    """

    def __init__(self, source: Path | Callable[[Tensor], Tensor | float]) -> None:
        self.source = source
        whole = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
        self.knots = source.knots if isinstance(source, Path) else whole

    def along(self, pieces: Pieces) -> Along:
        return _GivenAlong(self, pieces)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        if t.dim():
            return torch.stack([self.at(int(piece), time) for piece, time in zip(torch.as_tensor(k), t, strict=True)])
        given = self.source.at(k, t) if isinstance(self.source, Path) else self.source(t)
        try:
            speed = torch.as_tensor(given, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise TypeError(f"`speed` must give a number, got {given!r} at t = {float(t)}.") from error
        if speed.numel() != 1:
            raise ValueError(f"`speed` must give one number for the whole batch, got shape {tuple(speed.shape)}.")
        if not 0 <= float(speed.detach()) < math.inf:
            raise ValueError(f"`speed` must be finite and at least 0, got {float(speed.detach())} at t = {float(t)}.")
        return speed.reshape(())

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        if isinstance(self.source, Path):
            return self.source.slope(k, t)
        raise NotImplementedError("The derivative of a bare speed function is not known; use a warp's `speed`.")


class _GivenAlong(Along):
    own_times = False

    def __init__(self, speed: GivenSpeed, pieces: Pieces) -> None:
        self.speed, self.pieces = speed, pieces

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        piece = self.pieces[j]
        if t.dim() == 0 and isinstance(piece, int):
            return self.speed.at(piece, t)
        times = t.reshape(-1)
        pieces = only(piece[:, None], rows).reshape(-1) if isinstance(piece, Tensor) else torch.tensor(piece).expand(len(times))
        return self.speed.at(pieces, times)[:, None]


class Driven:
    r"""dh/dt = speed(t) field(path(t), h), made of smooth pieces.

    Args:    field: a `VectorField`; path: its input, or a spline of torchcde; speed: c'(t), a path or a bare function taken as
             smooth; 1 if None.
    Shape:   driven(t, h): t a time, h (batch, state) -> (batch, state).
    Raises:  TypeError, ValueError if the path does not fit the field, or path and speed share no time.
    Source:  Tallec and Ollivier 2018, eq. (6).
    """

    def __init__(self, field: VectorField, path: Path | Spline, speed: Path | Callable | None = None) -> None:
        check_field(field)
        self.field, self.path = field, as_path(path)
        path = self.path
        self.speed = _as_speed(speed)
        first = path.at(0, path.knots[0].detach()) if path.knots.dim() == 1 else path(path.knots[:1].detach())[0]
        check_input(field, first, "path")
        self.batch = first.shape[0]
        self.projected = path.map(field.project, field.projects_affinely)
        self._split_time()

    def _split_time(self) -> None:
        paths = [self.path] if self.speed is None else [self.path, self.speed]
        if self.path.knots.dim() > 1:
            if self.speed is not None:
                raise ValueError("`path` has times for every sequence, and `speed` one clock for all; give one of them.")
            self.knots = self.path.knots.detach()
            return
        start, end = max(p.interval[0] for p in paths), min(p.interval[1] for p in paths)
        if not start < end:
            raise ValueError(f"`path` on {self.path.interval} and `speed` on {paths[-1].interval} have no time in common.")
        knots = torch.cat([p.knots.detach() for p in paths]).clamp(start, end).unique()
        self.knots = knots
        self._pieces = [piece_numbers(p.knots.detach(), knots[:-1]).tolist() for p in paths]

    @property
    def interval(self) -> tuple[float, float]:
        return float(self.knots[0].max()), float(self.knots[-1].min())

    def along(self, starts: Tensor) -> RightHandSide:
        """The right-hand side by the number of a segment, for segments that begin at `starts`, (segments,) or (segments, batch),
        each inside one piece of path and speed."""
        path, speed = (None if p is None else p.along(_pieces_at(p, starts)) for p in (self.projected, self.speed))
        assert path is not None
        return RightHandSide(self.field, path, speed)

    def input_at(self, k: int, t: Tensor) -> Tensor:
        """The projected input on piece k at time t: (batch, projected)."""
        return self.projected.at(self._pieces[0][k], t)

    def speed_at(self, k: int, t: Tensor) -> Tensor | None:
        """c' on piece k at time t, or None where no speed was given."""
        if self.speed is None:
            return None
        return self.speed.at(self._pieces[1][k], t)

    def at(self, k: int, t: Tensor, h: Tensor) -> Tensor:
        """dh/dt on piece k at time t, which may be a knot of it."""
        flow, speed = self.field.flow(self.input_at(k, t), h), self.speed_at(k, t)
        return flow if speed is None else speed.to(h.dtype) * flow

    def check_flow(self, t: Tensor, h: Tensor) -> None:
        """Refuse a field whose `flow` does not give one derivative for each unit, before a solver stumbles over it."""
        with torch.no_grad():
            start = t.detach() if self.knots.dim() == 1 else t.detach().expand(self.batch)
            starts, times = start[None], start if start.dim() == 0 else start[:, None]
            slope = self.field.flow(self.along(starts).path.at(0, times), h)
        if not isinstance(slope, Tensor):
            raise TypeError(f"The field's `flow` gives {type(slope).__name__}, not a tensor; it must return dh/dt.")
        if slope.shape != h.shape or slope.dtype != h.dtype:
            raise ValueError(
                f"The field's `flow` gives {slope.dtype} of shape {tuple(slope.shape)} for a state of {h.dtype} and shape "
                f"{tuple(h.shape)}; dh/dt must be like h."
            )

    def __call__(self, t: float | Tensor, h: Tensor) -> Tensor:
        time = checks.within("t", checks.evaluation_times("t", t), *self.interval)
        if time.dim():
            raise ValueError(f"`t` must be one time, got shape {tuple(time.shape)}; call once for each.")
        check_batched_state(self.field, h, self.batch, "h")
        if self.knots.dim() > 1:
            own = time.expand(self.batch)
            return self.along(own[None]).at(0, own[:, None], h)
        return self.at(int(piece_numbers(self.knots, time)), time, h)


class RightHandSide:
    """speed(t) field(path(t), h) segment by segment: what a solver steps along; see `Along`."""

    def __init__(self, field: VectorField, path: Along, speed: Along | None) -> None:
        self.field, self.path, self.speed = field, path, speed
        self.steady = path.steady and speed is None
        self.own_times = path.own_times and (speed is None or speed.own_times)

    def at(self, j: int, t: Tensor, h: Tensor, rows: Tensor | None = None) -> Tensor:
        """dh/dt on segment j at t, () or (rows, 1), of the states h (rows, state)."""
        flow = self.field.flow(self.path.at(j, t, rows), h)
        return flow if self.speed is None else self.speed_at(j, t, h, rows) * flow

    def speed_at(self, j: int, t: Tensor, h: Tensor, rows: Tensor | None = None) -> Tensor:
        """c'(t), () or (rows, 1), in the dtype of h; 1 where no speed was given."""
        if self.speed is None:
            return h.new_ones(())
        speed = self.speed.at(j, t, rows)
        return speed.to(h.dtype) if speed.dim() == 0 else speed.to(device=h.device, dtype=h.dtype)


def _pieces_at(path: Path, starts: Tensor) -> Tensor | list[int]:
    numbers = piece_numbers(path.knots.detach(), starts.detach())
    return numbers if numbers.dim() > 1 else numbers.tolist()


def _as_speed(speed: Path | Callable | None) -> Path | None:
    if speed is None or isinstance(speed, Speed):  # a warp's own is one positive number, by construction
        return speed
    if isinstance(speed, Warp):
        raise TypeError(f"`speed` must be how fast the clock runs, `warp.speed`; got the {type(speed).__name__} itself.")
    if is_spline(speed):
        return GivenSpeed(as_path(speed))
    if isinstance(speed, Path) or callable(speed):
        return GivenSpeed(speed)
    raise TypeError(f"`speed` must be a warp's `speed`, a path or a function of time, got {type(speed).__name__}.")
