"""Run one field forwards, by a plan where a call is like one before; subclasses say how its states come about."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ctrnn import VectorField
from ctrnn.combinations import Trait
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField, check_steppable
from ctrnn.fields.dropout import masked
from discretize.kernels.eligibility import Fused
from discretize.kernels.shown import Shown
from discretize.sequences.module import SequenceModule, Start
from discretize.sequences.ragged import Ragged
from discretize.steps.along import HeldProblem

if TYPE_CHECKING:
    from discretize.kernels.plan import ModulePlan

__all__ = ["FieldModule"]


class FieldModule(SequenceModule):
    """One field read forwards; subclasses say how its states come about."""

    stats: dict[str, Any]
    _plan: ModulePlan | None = None

    def __init__(self, field: VectorField, hold: str, open_interval: float | None, batch_first: bool, dt: float | None) -> None:
        super().__init__(hold, open_interval, batch_first)
        self._last_for(dt)
        self.field: VectorField = check_steppable(field)

    @property
    def _reader(self) -> VectorField:
        # Not `self.field`, which is looked for in Python at every call.
        return self._modules["field"]  # type: ignore[return-value]

    @property
    def reads_past(self) -> bool:  # type: ignore[override]
        return isinstance(self.field, DelayedField)

    def _live_traits(self) -> dict[Trait, str]:
        return {"delays": type(self.field).__name__} if self.reads_past else {}

    def _packed_by_plan(self, x: PackedSequence, h_0: Start) -> Shown | None:
        if self._plan is None or self._plan.torchs is None:
            return None
        from discretize.kernels.jointly import run_jointly  # noqa: PLC0415 - loads kernels

        return run_jointly(self, [self], 1, x, h_0)

    def _by_plan(self, xs: Tensor, h_0: Start, repeats: bool = True) -> tuple[Tensor, Tensor] | None:
        """`repeats`: whether calls like it are made of this module itself, and not of layers that it is one of."""
        if self._plan is None or torch.compiler.is_compiling():
            return None
        plan = self._plan.like(xs)
        if plan is None or not (plan.is_of(self) and plan.takes(plan.field, xs)) or not math.isfinite(xs.detach().sum().item()):
            return None
        if (h0 := plan.start(plan.field, xs, h_0)) is None or (states := self._planned(plan, xs, h0)) is None:
            return None
        if isinstance(states, Shown) and repeats:
            from discretize.kernels.repeated import keep_call  # noqa: PLC0415 - loads kernels

            keep_call(self, [self], [plan], plan.torchs, xs, h_0, h0[None])
        return states if isinstance(states, Shown) else (plan.field.visible(states), states[-1:].clone())

    def _planned(self, plan: ModulePlan, xs: Tensor, h0: Tensor) -> Tensor | Shown | None:
        """The state after each sample of a call that a plan fits; None where something is to be said of it."""
        return None

    def _plan_for(self, problem: HeldProblem, fused: Fused) -> None:
        """Keep how a call has run, without `ts` and `lengths`, for others like it."""
        if self.stats["engine"] in ("compiled", "torch") and problem.field is self.field:
            from discretize.kernels.plan import plan_of  # noqa: PLC0415 - loads kernels

            if plan := plan_of(self, problem, fused, self.stats):
                self._plan = plan.after(self._plan)

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        if edges is None and ragged is None and (ran := self._by_plan(xs, h0, False)):
            return ran
        states = self._states(masked(with_computed_weights(self.field), (xs.shape[1],)), xs, h0[0], edges, ragged)
        if isinstance(states, Shown):
            return states
        # A copy: whoever masks the output must not change the state to go on from.
        return self.field.visible(states), states[-1:].clone() if ragged is None else ragged.final(states)

    @abstractmethod
    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor | Shown:
        """(time, batch, input), (batch, state) -> the state after each sample, (time, batch, state); `field`, its masks drawn.

        `edges`: where samples begin and end, (time + 1,) or (time + 1, batch), if given; a sequence that is over stays.
        """
