r"""Schedules: the learning rate from step to step, as the losses of the evaluations have it.

constant   rate
plateau    rate / 2^n after n evaluations whose loss was not below all before       Tallec and Ollivier 2018, sec. 3
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

__all__ = ["SCHEDULES", "Constant", "Plateau", "Schedule"]


class Schedule(ABC):
    """`rate` is that of the next step; what a schedule has seen is its `state`, numbers only."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    @abstractmethod
    def observe(self, loss: float) -> None:
        """An evaluation's loss; called after every evaluation."""

    def state(self) -> dict[str, Any]:
        return dict(vars(self))

    def load(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Constant(Schedule):
    """The same rate at every step."""

    def observe(self, loss: float) -> None:
        pass


class Plateau(Schedule):
    r"""Halved at every evaluation whose loss is not below the lowest so far.

    Source:  Tallec and Ollivier 2018, sec. 3: "divided by 2 each time the evaluation loss has not decreased after 100 batches",
             read as: looked at every 100 batches, compared with the lowest.
    """

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self.lowest = math.inf

    def observe(self, loss: float) -> None:
        if loss < self.lowest:
            self.lowest = loss
        else:
            self.rate /= 2


SCHEDULES: dict[str, type[Schedule]] = {"constant": Constant, "plateau": Plateau}
