"""Say where and why a solve or a step failed and what to try, and hand over the states so far."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import torch
from torch import nn

from ctrnn.user_warnings import StampWarning, warn_user
from discretize.trajectory import Trajectory

__all__ = [
    "WEIGHTS_DIVERGED",
    "Failure",
    "KernelWarning",
    "SolverError",
    "SolverWarning",
    "StampWarning",
    "StepError",
    "StepWarning",
    "TimeUnitWarning",
    "diverged_weight",
    "warn_user",
]


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 (users meet it as a SolverError)
    """What went wrong inside a piece; `integrate` makes a `SolverError` of it."""

    cause: str
    hint: str
    time: float
    sample: int | None
    unit: int | None
    edge: int | None = None  # the last edge of a segment before it, where states after it may have been kept unseen

    def __reduce__(self) -> tuple[type[Failure], tuple[object, ...]]:
        return type(self), astuple(self)


class SolverError(RuntimeError):
    r"""An integration that could not be finished.

    Attributes: time (where it stopped), sample and unit (which of the batch and of the state was worst; None where that
    is not known), cause, hint (what to try), trajectory (the states at the requested times before `time`).
    """

    cause: str
    hint: str
    time: float
    sample: int | None
    unit: int | None
    trajectory: Trajectory

    def __init__(self, failure: Failure, trajectory: Trajectory) -> None:
        self._failure = failure
        self.cause, self.hint, self.time = failure.cause, failure.hint, failure.time
        self.sample, self.unit, self.trajectory = failure.sample, failure.unit, trajectory
        where = f"t = {failure.time:g}"
        if failure.sample is not None:
            where += f", sample {failure.sample}" + ("" if failure.unit is None else f", unit {failure.unit}")
        super().__init__(
            f"The solve stopped at {where}: {failure.cause}. {failure.hint} "
            f"`error.trajectory` has the states at the {len(trajectory)} requested time(s) before that."
        )

    def __reduce__(self) -> tuple[type[SolverError], tuple[Failure, Trajectory]]:
        # Copies and other processes get the states without the graph behind them, which does not travel.
        kept = self.trajectory
        detached = replace(kept, ts=kept.ts.detach(), hs=kept.hs.detach(), between=None)
        return type(self), (self._failure, detached)


WEIGHTS_DIVERGED = "Weights become so where training diverges: load them from before, and train at a smaller rate."


def diverged_weight(field: nn.Module) -> str | None:
    """Name a weight that is not finite, if there is one."""
    for name, parameter in field.named_parameters():
        bad = parameter.detach()[~torch.isfinite(parameter.detach())]
        if len(bad):
            return f"the field's parameter `{name}` holds {float(bad[0])}"
    return None


class SolverWarning(UserWarning):
    """A solve that was finished, but not as it should be: steps forced at their minimum, or most of them wasted on stiffness."""


class StepWarning(UserWarning):
    """Steps have left the region in which they behave as the equation does."""


class TimeUnitWarning(UserWarning):
    """Times that are far from a field's own: in another unit, most likely."""


class KernelWarning(UserWarning):
    """Compiled kernels cannot be had here: everything works without them, slower. Told once in the life of a process."""


class StepError(RuntimeError):
    r"""A step whose equation has no solution that could be found.

    Attributes: sample and unit (which of the batch, counted over all leading axes, and of the state is worst), cause, hint.
    """

    cause: str
    hint: str
    sample: int
    unit: int

    def __init__(self, cause: str, hint: str, sample: int, unit: int) -> None:
        self.cause, self.hint, self.sample, self.unit = cause, hint, sample, unit
        super().__init__(f"The step failed at sample {sample}, unit {unit}: {cause}. {hint}")

    def __reduce__(self) -> tuple[type[StepError], tuple[str, str, int, int]]:
        return type(self), (self.cause, self.hint, self.sample, self.unit)
