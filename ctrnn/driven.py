r"""A field with its input: dh/dt = c'(t) field(x(t), h), the closed right-hand side that a solver integrates.

With x = `WarpedPath(path, warp)` and speed = `warp.speed` this is the warped model of the theorem, Tallec and Ollivier
2018, eq. (6): its solution is h(c(t)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.clocks.warp import Warp, as_speed
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import VectorField, check_batched_state, check_field, check_input
from ctrnn.fields.noise import check_no_noise
from ctrnn.fields.parts import projects_affinely
from ctrnn.fields.probes import DRAW_ONCE, drawn
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.path import Path, piece_numbers
from ctrnn.inputs.splines import Spline, as_path

__all__ = ["Driven"]

PLAIN = (Tensor, int, float, str, type(None))  # in which there are no parameters, of attributes that are none


class Driven(AnsweredInit, nn.Module):
    r"""dh/dt = speed(t) field(path(t), h), made of smooth pieces: a function of time and state, as solvers of others call it.

    torchdiffeq takes it as it is, with options={"jump_t": driven.knots}, in `odeint`, `odeint_adjoint` and `odeint_event`: a
    knot is read from the side that is asked for, also by times in float32. Its parameters are the field's, and those in the path
    and the speed; other tensors, samples that require a gradient say, get one from `odeint_adjoint` only if they are in
    `adjoint_params`, and gradients are best of times an ulp before knots, `ts.nextafter(ts[:1])`. A step may go beyond the ends
    of the interval, where input and speed stay what they are at the end; none may begin there.

    Args:    field: a `VectorField`, of whose `Dropout` the masks are drawn here; path: its input, or a spline of torchcde; speed:
             c'(t), a path or a bare function taken as smooth; 1 if None. batch: how many sequences read a path of one.
    Shape:   driven(t, h): t a time, h (batch, state) -> (batch, state).
    Raises:  TypeError, ValueError if the path does not fit the field, or path and speed share no time.
    Source:  Tallec and Ollivier 2018, eq. (6).
    """

    path: Path
    speed: Path | None

    direction = 1  # -1: its times are the user's times negative, for a solve that runs backwards

    def __init__(
        self, field: VectorField, path: Path | Spline, speed: Path | Callable | None = None, batch: int | None = None
    ) -> None:
        super().__init__()
        check_field(field)
        self.path, self.speed = as_path(path), as_speed(speed)
        path = self.path
        check_input(field, path.example, "path")
        self.batch: int = path.batch if batch is None or path.batch != 1 else batch
        self.field: VectorField = masked(field, (self.batch,))
        # With masks each sequence has its own input; else it is spread once projected, one product for all.
        self._input = path if self.field is field else for_many(path, self.batch)
        self.knots: Tensor = self._common_knots()
        for number, parameter in enumerate(dict.fromkeys(_parameters_in([self.path, self.speed]))):
            self.register_parameter(f"learned_{number}", parameter)

    @classmethod
    def unchecked(cls, field: VectorField, path: Path) -> Self:
        """Make one for callers that did the checks and drew the masks, with a state for each sequence of the path."""
        driven = cls.__new__(cls)
        nn.Module.__init__(driven)
        driven.field = field
        # Not one by one, which torch looks through for parameters.
        vars(driven).update(path=path, _input=path, speed=None, batch=path.batch, knots=path.knots.detach())
        return driven

    @cached_property
    def projected(self) -> Path:
        """The path of the projected input, with the parameters as they are at its first use."""
        projection = self._input
        if type(self.field).project is not VectorField.project:  # else x itself
            projection = projection.map(self.field.project, projection.steady or projects_affinely(self.field))
        return projection if self._input is self.path and self.path.batch == self.batch else for_many(projection, self.batch)

    def _common_knots(self) -> Tensor:
        knots = self.path.knots.detach()
        if knots.dim() > 1:
            if self.speed is not None:
                raise ValueError("`path` has times for every sequence, and `speed` one clock for all; give one of them.")
            return knots
        if self.speed is None:
            return knots
        paths = [self.path, self.speed]
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
        t, path = t.detach(), self.projected
        if t.dim():
            return path(t[None])[0]
        return path(t) if path.knots.dim() > 1 else path.at(int(piece_numbers(path.knots.detach(), t)), t)

    def forward(self, t: float | Tensor, h: Tensor) -> Tensor:
        time = checks.as_times("t", t, differentiable=True)
        if time.dim():
            raise ValueError(f"`t` must be one time, got shape {tuple(time.shape)}; call once for each.")
        check_no_noise(self.field, "bare slope", "Driven")
        check_batched_state(self.field, h, self.batch, "h")
        for end, beyond in zip(self.interval, (torch.lt, torch.gt), strict=True):
            time = torch.where(beyond(time, end), end, time)
        if self.knots.dim() > 1:
            return self._flow(self._input(time), h)
        # In the precision in which t came: a solver's step up to a knot and the one after it end and begin at that.
        precision = t.dtype if isinstance(t, Tensor) and t.is_floating_point() else torch.float64
        start = self.knots[piece_numbers(self.knots.to(precision), time.detach().to(precision))]
        flow = self._flow(_on_piece_of(self._input, start, time), h)
        return flow if self.speed is None else _on_piece_of(self.speed, start, time).to(h.dtype) * flow

    def _flow(self, x: Tensor, h: Tensor) -> Tensor:
        # `projected` keeps the parameters of its first use; solvers of others need the present ones, and a graph for each solve.
        return self.field.flow(self.field.project(x).expand(self.batch, -1), h)

    def callback_step(self, t: Tensor, h: Any, dt: Tensor) -> None:
        """Refuse a step that begins outside the interval; torchdiffeq calls this before each step."""
        (start, end), begin = self.interval, float(t.detach())
        # Times may have been float32: 1.2 is beyond 1.2 then, and a backward pass begins there.
        margin = 4 * torch.finfo(torch.float32).eps * max(abs(start), abs(end))
        if not start - margin <= begin <= end + margin:
            raise ValueError(
                f"A step begins at t = {begin:g}, and the input is known on [{start!r}, {end!r}]: ask for times in it. "
                "The search for an event goes on until there is one."
            )
        # A step that just ends on one of its `jump_t` torchdiffeq does not count as cut there, and forgets all later ones: end it
        # an ulp beyond, forwards or backwards in time.
        ends = torch.stack([t + dt, t - dt]).detach()
        if bool(torch.isin(ends.to(self.knots), self.knots).any()):
            farthest = ends.abs().max()
            dt += farthest.nextafter(2 * farthest + 1) - farthest

    def callback_step_adjoint(self, t: Tensor, h: Any, dt: Tensor) -> None:
        """Refuse it of a backward pass too."""
        self.callback_step(t, h, dt)

    def extra_repr(self) -> str:
        return f"path={self.path!r}" + ("" if self.speed is None else f", speed={self.speed!r}")


def _on_piece_of(path: Path, start: Tensor, t: Tensor) -> Tensor:
    """Evaluate the path at time t, on the piece that `start` is in."""
    return path.at(int(piece_numbers(path.knots.detach(), start)), t)


def _parameters_in(given: Any) -> Iterator[nn.Parameter]:
    """Yield the parameters that a path, a clock or a function on it holds, and those of modules in them."""
    if isinstance(given, nn.Module):
        yield from given.parameters()
    elif isinstance(given, nn.Parameter):
        yield given
    elif isinstance(given, Path | Warp):
        yield from _parameters_in(list(vars(given).values()))
    elif isinstance(given, list | tuple):
        for each in given:
            if not isinstance(each, PLAIN) or isinstance(each, nn.Parameter):
                yield from _parameters_in(each)
    elif isinstance(getattr(given, "__self__", None), nn.Module | Path | Warp):  # a method
        yield from _parameters_in(given.__self__)
