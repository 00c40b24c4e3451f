r"""Keep what was decided for a run of a sequence, so that later calls like it need not decide again.

    plan      the kernel, the field's tensors, how long and how many the steps are, what `stats` tells
    guards    the module's settings   the same objects, its field among them, and its step with the same numbers
              the field               all that its code may read, by the guards of its kernel
              the input               dtype, device, features, whether a gradient is wanted
              torch                   no tracing, transform, mode, tangent or autocast; the same default dtype; CTRNN_FUSED

A call for which a guard fails goes the long way, which decides anew, and refuses in words.
"""

from __future__ import annotations

import math
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.own_code import own_code
from discretize.kernels.eligibility import Fused, is_ordinary
from discretize.kernels.record.program import StepModule
from discretize.kernels.registry import Known
from discretize.kernels.sequences import key_of, known_kernel, states_of
from discretize.steps.step import Step

__all__ = ["Plan", "plan_of"]

NOTES = ("stats", "crossed", "_plan")  # what a module notes of its calls


class Plan:
    """How a module runs its field over samples, steps of one length by a compiled kernel; made by `plan_of`."""

    def __init__(
        self,
        module: nn.Module,
        field: VectorField,
        step: Step,
        found: Known,
        xs: Tensor,
        dt: float,
        substeps: int,
        fused: Fused,
        stats: dict[str, Any],
    ) -> None:
        self.field, self.step, self.dt, self.substeps, self.fused, self.stats = field, step, dt, substeps, fused, stats
        self.found, self.code, self.calls = found, StepModule(field, step), stats["nfe"] // len(xs)
        self.kind, self.key, self.input = type(module), key_of(step), _layout(xs)
        settings = {name: value for name, value in vars(module).items() if name not in NOTES}
        self.names, self.values = [*settings], [*settings.values()]

    def fits(self, module: nn.Module, x: Tensor) -> bool:
        """Whether a call with these samples, (time, batch, input), is like the one that was planned."""
        own = vars(module)
        return (
            type(module) is self.kind
            and len(own) == len(self.names) + sum(map(own.__contains__, NOTES))
            and all(map(is_, map(own.get, self.names), self.values))
            and own["_modules"].get("field") is self.field
            and type(x) is Tensor
            and x.numel() > 0
            and _layout(x) == self.input
            and is_ordinary(x.device, self.fused)
            and key_of(self.step) == self.key
            and self.found.guards.hold(self.field)
        )

    def start(self, xs: Tensor, h_0: object) -> Tensor | None:
        """The states (batch, state) to begin with; None for others than a kernel reads as they are, and for samples that are not
        finite."""
        batch, width = xs.shape[1], self.field.state_size
        if not math.isfinite(xs.detach().sum().item()):
            return None
        if h_0 is None:
            return xs.new_zeros(batch, width)
        if type(h_0) is not Tensor or h_0.shape not in ((1, batch, width), (batch, width)) or h_0.dtype != xs.dtype:
            return None
        if h_0.device != xs.device or h_0.layout != xs.layout or not math.isfinite(h_0.detach().sum().item()):
            return None
        return h_0.reshape(batch, width)

    def states(self, xs: Tensor, h0: Tensor) -> Tensor:
        """Compute the state after each sample, (time, batch, input), (batch, state) -> (time, batch, state)."""
        self.found.uses.found += 1
        tensors = self.found.attributes.tensors
        return states_of(self.found.kernel, lambda: self.code, self.substeps, self.dt, xs, h0, None, *tensors)

    def told(self, xs: Tensor) -> dict[str, Any]:
        """What `stats` tells of a call."""
        calls, steps = len(xs) * self.calls, len(xs) * self.substeps
        return self.stats | {
            "nfe": calls,
            "nfe_samples": calls * xs.shape[1],
            "nfe_backward": 0,
            "num_steps": steps,
            "num_accepted_steps": steps,
            "steps_of_samples": [steps],
            "accepted_steps_of_samples": [steps],
            "rejected_steps_of_samples": [0],
        }


def plan_of(
    module: nn.Module,
    field: VectorField,
    step: Step,
    xs: Tensor,
    h0: Tensor,
    dt: float,
    substeps: int,
    fused: Fused,
    stats: dict[str, Any],
) -> Plan | None:
    r"""Plan calls like one that a compiled kernel has run; return None for what hangs on more than the guards look at.

    Args:    module: of this project, or of a class or object that changes nothing of it; dt, substeps: of each sample; stats: of
             the call.
    Shape:   xs (time, batch, input), h0 (batch, state).
    """
    ours = next(kind for kind in type(module).__mro__ if kind.__module__.startswith("discretize."))
    if own_code(module, ours) or type(xs) is not Tensor or not is_ordinary(xs.device, fused) or xs.dtype != h0.dtype:
        return None
    found = known_kernel(field, step, xs, h0)
    return None if found is None else Plan(module, field, step, found, xs, dt, substeps, fused, dict(stats))


def _layout(x: Tensor) -> tuple[Any, ...]:
    return x.dtype, x.device, x.layout, x.shape[-1], x.requires_grad, torch.get_default_dtype()
