"""A round of steps, one of each sample, as arithmetic on numbers: what each tries, and where it is then.

The numbers are NumPy's, or tensors on the device of the states, where they can be reckoned on without a look at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple

from discretize.solvers.control import Numbers, StepControl, functions_of

__all__ = ["Place", "Round"]


class Place(NamedTuple, Generic[Numbers]):
    """Where samples are: the time since the segment's start, the step proposed next, whether the last one was rejected."""

    tau: Numbers
    step: Numbers
    held_back: Numbers


@dataclass(frozen=True)
class Round(Generic[Numbers]):
    """What each sample tries: steps of dt, the first of so many equal `steps` to the end; those not `live` have arrived."""

    control: StepControl
    place: Place[Numbers]
    length: Numbers
    live: Numbers
    steps: Numbers
    dt: Numbers

    @classmethod
    def of(cls, control: StepControl, place: Place[Numbers], length: Numbers) -> Round[Numbers]:
        live, remaining = place.tau < length, length - place.tau
        steps = control.steps_to(remaining, place.step)
        return cls(control, place, length, live, steps, functions_of(steps).where(live, remaining / steps, 0.0))

    def accepted(self, error: Numbers) -> Numbers:
        return self.live & self.control.accepts(error, self.dt)

    def after(self, error: Numbers, accepted: Numbers) -> Place[Numbers]:
        """Where they are then. Who arrives is at the end, whatever the sum of the steps rounds to."""
        where, (tau, step, held_back) = functions_of(error).where, self.place
        following = where(self.live, self.control.following(error, self.dt, step, accepted, held_back), step)
        there = where(accepted, where(self.steps == 1, self.length, tau + self.dt), tau)
        return Place(there, following, self.live & ~accepted)
