r"""Solve by a kernel what a function of torchdiffeq's computes for all of y at once, if samples can be made of it.

    rows     y[i], if func treats each by itself and takes t as (rows, 1, ...); every row then takes steps of its own
    whole    y, if it is small: one sample, `func` recorded by torch.func.vmap over others like it

Whether samples give the same numbers as func is looked at once a kernel is sought: at y0 and a time within the solve. That they
do not act on one another is known of what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from ctrnn import Path
from ctrnn.autocast import without_autocast
from ctrnn.fields.computed import with_computed_weights
from discretize.kernels.eligibility import Fused, setting_reason, tracing_reason
from discretize.loop.checking import check_setup, warn_of_atol
from discretize.loop.solving import NoKernel, Solve
from discretize.settings import Settings
from discretize.solvers.checkpointing import Checkpointed
from discretize.solvers.equation import Equation, driven_in, increasing_times, times_within
from discretize.solvers.layout import CalledFlow, Function, Layout, State, first_of, parts_of
from discretize.trajectory import Trajectory

__all__ = ["by_kernel", "forbids_kernel", "samples_of", "steps_in_place_of"]

LARGEST = 64  # units of a y that is one sample: of its products no kernel makes one
SHARE = 0.382  # of the time of the solve, where samples are compared with func: no special point
ROUNDING = 32  # by which they may differ, in units of eps


class _RowsFlow(nn.Module):
    """Calls func with samples as rows of y, t (batch, 1), h (batch, state). Sizes of the batch are numbers in no line of it."""

    def __init__(self, func: Function, layout: Layout, params: Sequence[Tensor], y0: State) -> None:
        super().__init__()
        self.called, self.widths = CalledFlow(func, layout, params, y0), [shape.numel() for shape in layout.shapes]

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        layout, rows = self.called.layout, h.shape[0]
        parts = h.split(self.widths, -1)
        y = tuple(part.reshape(rows, *shape) for part, shape in zip(parts, layout.shapes, strict=True))
        time = t.reshape(rows, *[1] * len(layout.shapes[0]))
        found = parts_of(self.called.func(time, y if layout.several else y[0]))
        return torch.cat([each.reshape(rows, -1) for each in found], 1)


class _WholeFlow(nn.Module):
    """Calls func for each sample (state,) at its own time, t (batch, 1), h (batch, state)."""

    def __init__(self, func: Function, layout: Layout, params: Sequence[Tensor], y0: State) -> None:
        super().__init__()
        self.called = CalledFlow(func, layout, params, y0)

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        func, layout = self.called.func, self.called.layout

        def slope(time: Tensor, row: Tensor) -> Tensor:
            y = first_of(layout.split(row[None, None]))
            found = zip(parts_of(layout.checked(func(time, y), 1)), parts_of(y), strict=True)
            # Of each sample, also where func gives the same for all; torch.cat makes a number of the size of the batch.
            return torch.stack([unit for each, own in found for unit in (each + 0 * own).reshape(-1).unbind()])

        return torch.func.vmap(slope)(t[:, 0], h)


def samples_of(func: Function, y0: State, params: Sequence[Tensor]) -> Iterator[tuple[Layout, Equation]]:
    """Yield the ways to make samples of y, each as its layout and the equation of a sample."""
    parts = parts_of(y0)
    if all(part.dim() > 1 and len(part) == len(parts[0]) for part in parts):
        layout = Layout.of(y0, alone=True)
        yield layout, Equation(_RowsFlow(func, layout, params, y0), layout.width, None)
    whole = Layout.of(y0, alone=False)
    if whole.width <= LARGEST:
        yield whole, Equation(_WholeFlow(func, whole, params, y0), whole.width, None)


def forbids_kernel(settings: Settings, layout: Layout, jumps: int, t: Tensor) -> str | None:
    """Return what keeps a solve to the times t from a kernel, whatever func is; with 'per_sample' it has one by itself."""
    whys = {
        "its samples are given": layout.alone,
        f"{settings.method} takes steps of fixed length": not settings.steps_alone,
        "`func` has callbacks": settings.on_attempt or settings.on_backward_attempt,
        "`func` jumps": jumps,
        "`t` has a gradient": t.requires_grad,
    }
    return next((why for why, holds in whys.items() if holds), None)


def by_kernel(
    equation: Equation, path: Path, h0: Tensor, ts: Tensor, settings: Settings, *, func: Function, layout: Layout
) -> Trajectory:
    """Solve as `integrate`, by a kernel alone; func, layout: what the equation is of. Raises: NoKernel."""
    if why := setting_reason(settings.fused) or tracing_reason():
        raise NoKernel(why)
    times, direction = increasing_times(ts)
    if settings.gradient is not None:  # that of the steps, in bounded memory, is quicker than the adjoint, and no less exact
        settings = replace(settings, gradient=Checkpointed(2.0**28))

    @torch.no_grad()
    def check() -> None:
        t, h = (ts[0] + SHARE * (ts[-1] - ts[0])).detach().to(h0), h0.detach()
        try:
            found = equation.flow(t.expand(len(h), 1), h)
        except Exception as error:  # func is the user's, and was not written for that
            raise NoKernel(f"`func` takes no rows, each at its own time: {type(error).__name__}: {error}") from None
        if found.shape != h.shape:
            raise NoKernel(f"`func` gives {tuple(found.shape)} for rows {tuple(h.shape)}, each at its own time")
        whole = len(h) if layout.alone else 1
        wanted = layout.join(layout.checked(func(t, first_of(layout.split(h[None]))), whole))
        size = ROUNDING * torch.finfo(h.dtype).eps * wanted.abs().amax(0)
        if not bool(((found - wanted).abs() <= size).all()):
            raise NoKernel("`func` gives other numbers for the rows of y, each at its own time, than for y")

    with without_autocast(h0.device):
        driven = driven_in(direction, with_computed_weights(equation), path, None, h0)
        _ = driven.projected
        times = times_within(driven, times)
        check_setup(driven, times, h0, settings)
        solved = Solve(driven, h0, times, settings, dense=False, check=check, needs_kernel=True).run()
        warn_of_atol(solved, settings)
    return solved


def steps_in_place_of(equation: Equation | None, fused: Fused) -> AbstractContextManager[None]:
    """Count the seconds of steps that a kernel of this equation would take the place of: they may pay for it."""
    if equation is None or setting_reason(fused):
        return nullcontext()
    from discretize.kernels.record.program import FlowModule  # noqa: PLC0415 - of kernels
    from discretize.kernels.registry import by_steps, uses_of  # noqa: PLC0415

    return by_steps(uses_of(equation, FlowModule), equation.parameters())
