"""The phase plane of two units: arrows, where each unit rests, fixed points, trajectories, and what ends where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.extras import needed_by
from discretize.analysis.dynamics.basins import basins, run
from discretize.analysis.dynamics.fixed_points import FixedPoints, as_limits, check_starts, fixed_points
from discretize.analysis.dynamics.systems import Dynamics, Flow, check_system
from discretize.analysis.style import COLOURS, DASHES, WIDTH, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discretize.analysis.drawing import ShownFigure

__all__ = ["phase_plane"]

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
TINTS = ("blue", "orange", "green", "purple")
STARTS = 12  # a side, of the search for fixed points
NEAR = 0.1  # of the sizes of units: pictures are of runs that need not have ended
FINE = 400  # states of a trajectory that is drawn


@torch.no_grad()
def phase_plane(
    system: Dynamics,
    limits: tuple[tuple[float, float], tuple[float, float]],
    p: float | None = None,
    *,
    starts: Tensor | None = None,
    length: float = 20.0,
    shade: bool = False,
    points: int = 60,
) -> ShownFigure:
    r"""Draw a system of two units: dots are fixed points, filled where stable.

    Of a flow there are stream lines, and dashed the curves on which a unit does not change; of a map, arrows to the next state.

    Args:    system: a `Flow` or `Map`; limits: of each unit; p: the parameter; starts: of trajectories, (n, 2);
             length: theirs, in time or applications; shade: the ground by the stable fixed point that it ends near
             after that length, white where near none; points: of the grid, a side.
    Returns: a matplotlib Figure, which notebooks show; `figure.savefig("plane.png")` keeps it.
    Raises:  TypeError, ValueError for what does not fit.
    """
    with needed_by("discretize.analysis.phase_plane"):
        from matplotlib import rc_context  # noqa: PLC0415

        from discretize.analysis.drawing import ShownFigure  # noqa: PLC0415 - Matplotlib
    check_system(system)
    if isinstance(system.field, VectorField) and system.field.state_size != 2:
        raise ValueError(f"A phase plane is of two units, and the field keeps {system.field.state_size}.")
    corners = as_limits(limits, 2).to(getattr(system.field, "dtype", None))
    if starts is not None:
        check_starts(system, starts)
        if starts.shape[-1] != 2:
            raise ValueError(f"`starts` must be (n, 2), for a phase plane is of two units, got shape {tuple(starts.shape)}.")
        corners = corners.to(starts.dtype)
    checks.is_finite("limits", corners)
    p = None if p is None else checks.finite_number("p", p)
    coarse, fine = _grid(corners, STARTS), _grid(corners, checks.size("points", points, 2))
    rest = fixed_points(system, coarse, p)
    motion = system.residual(fine, p).reshape(points, points, 2).numpy()
    with rc_context(settings(LIGHT, LIGHT["paper"])):  # type: ignore[arg-type]
        figure = ShownFigure(figsize=(WIDTH, 0.85 * WIDTH), layout="constrained")
        ax = figure.subplots()
        at = fine.reshape(points, points, 2).numpy()
        if shade:
            stable = [h for h, good in zip(rest.h, rest.stable, strict=True) if good]
            _shaded(ax, at, basins(system, fine, stable, p, length=length, tolerance=NEAR).reshape(points, points).numpy())
        (_streams if isinstance(system, Flow) else _arrows)(ax, at, motion)
        if starts is not None:
            _trajectories(ax, run(system, starts, p, length, FINE).numpy(), isinstance(system, Flow))
        _dots(ax, rest)
        ax.set(xlim=corners[0].tolist(), ylim=corners[1].tolist(), xlabel="h₁", ylabel="h₂")
        figure.legend(loc="outside lower left", ncols=3, handlelength=1.8)
        return figure


def _grid(corners: Tensor, points: int) -> Tensor:
    a, b = (low + (high - low) * torch.linspace(0, 1, points, dtype=corners.dtype) for low, high in corners)
    return torch.stack([a.repeat(points), b.repeat_interleave(points)], -1)  # rows are of one h2


def _shaded(ax: Axes, at: np.ndarray, found: np.ndarray) -> None:
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    shown = np.where(found < 0, 0, 1 + found % len(TINTS))
    tints = ListedColormap([LIGHT["paper"], *(LIGHT[name] for name in TINTS)])
    ax.pcolormesh(at[..., 0], at[..., 1], shown, cmap=tints, vmin=0, vmax=len(TINTS), alpha=0.18, linewidth=0, rasterized=True)


def _streams(ax: Axes, at: np.ndarray, motion: np.ndarray) -> None:
    settings: dict[str, Any] = {"color": LIGHT["muted"], "linewidth": 0.6, "arrowsize": 0.7, "density": 0.9}
    ax.streamplot(at[0, :, 0], at[:, 0, 1], motion[..., 0], motion[..., 1], **settings)
    for unit, colour in enumerate(("blue", "orange")):
        values = motion[..., unit]
        if values.min() < 0 < values.max():
            ax.contour(at[..., 0], at[..., 1], values, [0.0], colors=LIGHT[colour], linestyles=[DASHES[1]], linewidths=1.2)
            ax.plot([], [], color=LIGHT[colour], linestyle=DASHES[1], label=f"h{'₁₂'[unit]} rests")


def _arrows(ax: Axes, at: np.ndarray, motion: np.ndarray) -> None:
    every = max(1, len(at) // 15)
    a, m = at[::every, ::every], motion[::every, ::every]
    ax.quiver(a[..., 0], a[..., 1], m[..., 0], m[..., 1], color=LIGHT["muted"], width=0.003, angles="xy")


def _trajectories(ax: Axes, hs: np.ndarray, smooth: bool) -> None:
    look: dict[str, Any] = {"linewidth": 1.2} if smooth else {"linewidth": 0.5, "marker": "o", "markersize": 2}
    for sample in range(hs.shape[1]):
        ax.plot(hs[:, sample, 0], hs[:, sample, 1], color=LIGHT["ink"], label="" if sample else "trajectory", **look)


def _dots(ax: Axes, rest: FixedPoints) -> None:
    stable = rest.stable.numpy()
    for chosen, filled, label in ((stable, LIGHT["ink"], "stable"), (~stable, LIGHT["paper"], "unstable")):
        points = rest.h.detach().numpy()[chosen]
        if len(points):
            ax.plot(*points.T, "o", color=LIGHT["ink"], markerfacecolor=filled, markersize=5, zorder=5, label=label)
