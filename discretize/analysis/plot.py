"""Trajectories in one figure: each by itself, or several of one field, stepped and solved, under their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ctrnn.extras import needed_by
from discretize.trajectory import Trajectory

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["plot"]


def plot(
    trajectories: Trajectory | Mapping[str, Trajectory],
    panels: str | Sequence[str] = "states",
    *,
    sample: int = 0,
    units: Sequence[int] | None = None,
) -> ShownFigure:
    r"""Draw one sample's trajectory, or several trajectories of one field, by their names.

    Lines are `trajectory(t)` where the solve kept its steps, else straight; dots are the states at `ts`; a cross is an event.

    Args:    trajectories: one, or {"stepped": ..., "solved": ...}; panels: "states" over time, "plane", the first of the units
             against the second, "steps", the length of each step taken, or several of these; sample: whose;
             units: of the state, from 0; the first few if not given.
    Returns: a matplotlib Figure, which notebooks show; `figure.savefig("states.png")` keeps it.
    Raises:  TypeError, ValueError for what is not there to be drawn.
    """
    with needed_by("discretize.plot"):
        from discretize.analysis.drawing import drawn  # noqa: PLC0415 - Matplotlib
    given = trajectories if isinstance(trajectories, Mapping) else {"": trajectories}
    for trajectory in given.values():
        if not isinstance(trajectory, Trajectory):
            raise TypeError(
                f"`trajectories` must be discretize.Trajectory, one or several by name, got {type(trajectory).__name__}."
            )
    if not given:
        raise ValueError("`trajectories` is empty; give at least one.")
    return drawn({str(name): trajectory.curve(sample) for name, trajectory in given.items()}, panels, units)
