r"""A field with its input: dh/dt = c'(t) field(x(t), h), the closed right-hand side that a solver integrates.

With x = `WarpedPath(path, warp)` and speed = `warp.speed` this is the warped model of the theorem, Tallec and Ollivier
2018, eq. (6): its solution is h(c(t)).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.clocks.warp import as_speed
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import VectorField, check_batched_state, check_field, check_input
from ctrnn.fields.parts import projects_affinely
from ctrnn.fields.probes import DRAW_ONCE, drawn
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.path import Path, piece_numbers
from ctrnn.inputs.splines import Spline, as_path

__all__ = ["Driven"]


class Driven(AnsweredInit):
    r"""dh/dt = speed(t) field(path(t), h), made of smooth pieces.

    Args:    field: a `VectorField`, of whose `Dropout` the masks are drawn here; path: its input, or a spline of torchcde; speed:
             c'(t), a path or a bare function taken as smooth; 1 if None. batch: how many sequences read a path of one.
    Shape:   driven(t, h): t a time, h (batch, state) -> (batch, state).
    Raises:  TypeError, ValueError if the path does not fit the field, or path and speed share no time.
    Source:  Tallec and Ollivier 2018, eq. (6).
    """

    direction = 1  # -1: its times are the user's times negative, for a solve that runs backwards

    def __init__(
        self, field: VectorField, path: Path | Spline, speed: Path | Callable | None = None, batch: int | None = None
    ) -> None:
        check_field(field)
        given, self.path = field, as_path(path)
        path = self.path
        self.speed = as_speed(speed)
        check_input(field, path(path.knots[:1].detach())[0], "path")
        many = path.batch if batch is None else batch
        self.field = field = masked(field, (many,))
        if self.field is not given:
            path = for_many(path, many)  # each with a mask of its own
        # Projected before it is spread: one product for all.
        projected = path.map(field.project, projects_affinely(field))
        self.projected = projected if batch is None else for_many(projected, batch)
        self.batch = self.projected.batch
        self.knots = self._common_knots()

    def _common_knots(self) -> Tensor:
        knots = self.path.knots.detach()
        if knots.dim() > 1:
            if self.speed is not None:
                raise ValueError("`path` has times for every sequence, and `speed` one clock for all; give one of them.")
            return knots
        paths = [self.path] if self.speed is None else [self.path, self.speed]
        start, end = max(p.interval[0] for p in paths), min(p.interval[1] for p in paths)
        if not start < end:
            raise ValueError(f"`path` on {self.path.interval} and `speed` on {paths[-1].interval} have no time in common.")
        return torch.cat([p.knots.detach() for p in paths]).clamp(start, end).unique()

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time of the input; of sequences with times of their own, those they have in common."""
        return float(self.knots[0].max()), float(self.knots[-1].min())

    @torch.no_grad()
    def check_flow(self, t: Tensor, h: Tensor, draws: bool = False) -> Tensor:
        """Return dh/dt at t, () or (batch,). Refuse, before a solve, a field whose `flow` gives no derivatives like h, or draws
        random numbers where the solver does not allow `draws`."""

        def slope() -> Tensor:
            return self.field.flow(self.read_at(t), h)

        found, drew = drawn(slope, h.device)
        if found.dtype != h.dtype:
            raise ValueError(f"The field's `flow` gives {found.dtype} for a state of {h.dtype}; dh/dt must be like h.")
        # What draws at its first call only, and keeps that, has one answer from then on.
        if drew and not draws and drawn(slope, h.device)[1]:
            raise ValueError(f"The field draws random numbers each time it is called, so that a solve has no answer. {DRAW_ONCE}")
        return found

    def read_at(self, t: Tensor) -> Tensor:
        """Return the projected input, (batch, projected), at t () or (batch,)."""
        return self.projected(t.detach()) if t.dim() == 0 else self.projected(t.detach()[None])[0]

    def __call__(self, t: float | Tensor, h: Tensor) -> Tensor:
        time = checks.within("t", checks.evaluation_times("t", t), *self.interval)
        if time.dim():
            raise ValueError(f"`t` must be one time, got shape {tuple(time.shape)}; call once for each.")
        check_batched_state(self.field, h, self.batch, "h")
        if self.knots.dim() > 1:
            return self.field.flow(self.projected(time), h)
        start = self.knots[piece_numbers(self.knots, time)]
        flow = self.field.flow(_on_piece_of(self.projected, start, time), h)
        return flow if self.speed is None else _on_piece_of(self.speed, start, time).to(h.dtype) * flow


def _on_piece_of(path: Path, start: Tensor, t: Tensor) -> Tensor:
    """Evaluate the path at time t, on the piece that `start` is in."""
    return path.at(int(piece_numbers(path.knots.detach(), start)), t)
