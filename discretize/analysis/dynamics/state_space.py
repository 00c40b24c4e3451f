r"""States of many units seen from the axes along which they vary most, with the points where they rest; and how many there are.

covariance of states = sum of l v v^T        axes: the v of the largest l        dimension: (sum of l)^2 / (sum of l^2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.analysis.dynamics.fixed_points import FixedPoints
from discretize.analysis.dynamics.systems import Dynamics, Flow, check_system
from discretize.analysis.style import COLOURS, WIDTH, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discretize.analysis.drawing import ShownFigure

__all__ = ["participation_dimension", "principal_axes", "state_space"]

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
MOST = 60  # trajectories drawn
FLAT = 0.9  # the share of the variance in two axes from which on the flow in their plane is drawn
GRID = 24  # a side
MARGIN = 0.08


def participation_dimension(states: Tensor) -> Tensor:
    r"""Return (sum of l)^2 / (sum of l^2), l the eigenvalues of the states' covariance: 1 on a line, n where n axes share alike.

    Shape:   states (..., state), two or more -> (), differentiable; nan where nothing varies.
    Source:  Gao, Trautmann, Yu, Santhanam, Ryu, Shenoy and Ganguli 2017, "A theory of multineuronal dimensionality".
    """
    centred = _centred(states)[0]
    centred = centred / centred.detach().abs().amax().clamp(min=torch.finfo(centred.dtype).tiny)  # fourth powers would underflow
    smaller = centred.mT @ centred if centred.shape[1] < len(centred) else centred @ centred.mT
    return smaller.trace().square() / smaller.square().sum()


def principal_axes(states: Tensor, count: int = 2) -> tuple[Tensor, Tensor]:
    """Return the axes along which states vary most, in columns, and their shares of the variance.

    Shape:   states (..., state) -> (state, count), (count,).
    """
    centred = _centred(states)[0]
    _, sizes, axes = torch.linalg.svd(centred, full_matrices=False)
    if not checks.holds(sizes.amax() > 0):
        raise ValueError("`states` are all one, and no axis is theirs.")
    shares = sizes.square() / sizes.square().sum()
    return axes[: checks.positive_size("count", count)].mT, shares[:count]


def _centred(states: Tensor) -> tuple[Tensor, Tensor]:
    given = checks.is_tensor("states", states)
    if given.dim() < 2 or given.shape[:-1].numel() < 2 or not given.is_floating_point():
        raise ValueError(
            f"`states` must be two or more, (..., state), in floating point, got {given.dtype} {tuple(given.shape)}."
        )
    checks.is_finite("states", given)
    rows = given.reshape(-1, given.shape[-1])
    return rows - rows.mean(0), rows.mean(0)


@torch.no_grad()
def state_space(
    states: Tensor, points: FixedPoints | None = None, system: Dynamics | None = None, *, axes: Tensor | None = None
) -> ShownFigure:
    r"""Draw trajectories and points of rest from two axes: filled dots are stable, hollow ones not, small ones slow points.

    From a point that is not stable a line goes along its fastest mode. With a flow its arrows are drawn in the plane of the axes
    through the mean, where that plane holds nine tenths of the states' variance: beyond, an arrow would say little of the states
    that are drawn over it.

    Args:    states: of trajectories; points: of `fixed_points`; system: the `Flow`; axes: two, in columns, such as the
             weights of a read-out; the principal ones of the states, if not given.
    Shape:   states (time, state) or (time, n, state), axes (state, 2).
    Returns: a matplotlib Figure, which notebooks show.
    Raises:  TypeError, ValueError for what does not fit.
    """
    with needed_by("discretize.analysis.state_space"):
        from matplotlib import rc_context  # noqa: PLC0415

        from discretize.analysis.drawing import ShownFigure  # noqa: PLC0415 - Matplotlib
    centred, mean = _centred(states)
    if points is not None and points.h.shape[-1] != len(mean):
        raise ValueError(f"`points` are of {points.h.shape[-1]} units, and `states` of {len(mean)}.")
    plane, shares = principal_axes(states) if axes is None else (_checked_axes(axes, states), None)
    if plane.shape[1] < 2:
        raise ValueError("`states` are of one unit, and a plane has two axes; give states of two units or more.")
    runs = (centred @ plane).reshape(len(states), -1, 2).cpu().numpy()
    with rc_context(settings(LIGHT, LIGHT["paper"])):  # type: ignore[arg-type]
        figure = ShownFigure(figsize=(WIDTH, 0.85 * WIDTH), layout="constrained")
        ax = figure.subplots()
        for k in range(min(runs.shape[1], MOST)):
            ax.plot(*runs[:, k].T, color=LIGHT["blue"], alpha=0.5, linewidth=0.7, label="" if k else "trajectory")
        limits = [_limits(runs[..., axis]) for axis in (0, 1)]
        if points is not None and len(points):
            limits = _with_points(ax, points, mean, plane, limits)
        if system is not None and _shows_flow(system, plane, shares, centred):
            _arrows(ax, system, mean, plane, limits)
        names = [f"principal axis {k + 1}" if axes is None else f"axis {k + 1}" for k in (0, 1)]
        if shares is not None:
            names = [f"{name} ({100 * share:.0f} % of the variance)" for name, share in zip(names, shares.tolist(), strict=True)]
        ax.set(xlim=limits[0], ylim=limits[1], xlabel=names[0], ylabel=names[1])
        figure.legend(loc="outside lower left", ncols=3, handlelength=1.5)
        return figure


def _checked_axes(axes: Tensor, states: Tensor) -> Tensor:
    if checks.is_tensor("axes", axes).shape != (states.shape[-1], 2):
        raise ValueError(f"`axes` must be two columns, {(states.shape[-1], 2)}, got shape {tuple(axes.shape)}.")
    return torch.linalg.qr(axes.detach().to(states))[0]


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = MARGIN * (high - low or abs(high) or 1.0)
    return low - room, high + room


def _with_points(ax: Axes, points: FixedPoints, mean: Tensor, plane: Tensor, limits: list[Any]) -> list[tuple[float, float]]:
    at = ((points.h - mean) @ plane).cpu().numpy()
    limits = [_limits(np.append(at[:, axis], limits[axis])) for axis in (0, 1)]
    length = 0.1 * max(high - low for low, high in limits)
    fastest = points.rates.argmax(-1)[:, None, None].expand(-1, points.h.shape[-1], 1)
    ways = (points.eigenvectors.gather(-1, fastest)[..., 0].real.to(plane) @ plane).cpu().numpy()
    fixed, stable = points.fixed.cpu().numpy(), points.stable.cpu().numpy()
    for place, way in zip(at[~stable], ways[~stable], strict=True):
        ends = np.stack([place - length * way, place + length * way])
        ax.plot(*ends.T, color=LIGHT["orange"], linewidth=1.0, zorder=4)
    kinds: list[tuple[np.ndarray, dict[str, Any], str]] = [
        (~fixed, {"markersize": 2.5, "color": LIGHT["green"]}, "slow"),
        (fixed & ~stable, {"markersize": 5, "color": LIGHT["ink"], "markerfacecolor": LIGHT["paper"]}, "unstable"),
        (fixed & stable, {"markersize": 5, "color": LIGHT["ink"]}, "stable"),
    ]
    for chosen, look, label in kinds:
        if chosen.any():
            ax.plot(*at[chosen].T, "o", zorder=5, label=label, **look)
    return limits


def _shows_flow(system: Dynamics, plane: Tensor, shares: Tensor | None, centred: Tensor) -> bool:
    check_system(system)
    held = float(shares.sum()) if shares is not None else float((centred @ plane).square().sum() / centred.square().sum())
    return isinstance(system, Flow) and held >= FLAT


def _arrows(ax: Axes, system: Dynamics, mean: Tensor, plane: Tensor, limits: list[Any]) -> None:
    a, b = (np.linspace(low, high, GRID) for low, high in limits)
    grid = torch.as_tensor(np.stack(np.meshgrid(a, b), -1)).to(plane)
    motion = (system.residual((mean + grid @ plane.mT).reshape(-1, len(mean))) @ plane).reshape(GRID, GRID, 2).cpu().numpy()
    ax.streamplot(a, b, motion[..., 0], motion[..., 1], color=LIGHT["muted"], linewidth=0.5, arrowsize=0.6, density=0.8, zorder=1)
