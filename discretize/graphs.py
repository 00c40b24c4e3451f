r"""Support torch.compile, export and jit.trace: steps of fixed length are traced, solves are not.

torch.compile      a cell, and a sequence that one compiled kernel computes; solves and sequences by steps are run as they are
torch.export       steps of fixed length, by `scan`: time and batch may be of any length; a live step
torch.jit.trace    a cell, and a live step of a module that takes steps of fixed length
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.combinations import refuse
from discretize import compat
from discretize.steps.step import Step

__all__ = ["check_exported", "check_not_traced", "check_values", "scanned", "whole"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


def whole(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Marks a function whose steps or iterations hang on the data: torch.compile runs it as it is, and torch.export and
    torch.jit.trace, which would keep those of one call, are refused."""

    @functools.wraps(function)
    def entrance(*args: Given.args, **keywords: Given.kwargs) -> Result:
        if compat.is_exporting() or torch.jit.is_tracing():
            how = "torch.export" if compat.is_exporting() else "torch.jit.trace"
            raise TypeError(
                f"{how} would keep the times and steps of this one call for all that follow. torch.export takes a `DiscreteCell` "
                "or `DiscreteRNN` with an explicit step, and a `ContinuousRNN` with one (method='rk4', say)."
            )
        if torch.compiler.is_dynamo_compiling():
            from discretize.compiling import run_uncompiled  # noqa: PLC0415 - loads the compiler

            return run_uncompiled(function, *args, **keywords)
        return function(*args, **keywords)

    return entrance


def check_not_traced() -> None:
    """Refuse a sequence under torch.jit.trace, whose graph would be of as many steps as the traced one has samples."""
    if torch.jit.is_tracing():
        raise TypeError(
            "torch.jit.trace would keep the number of samples of this one call for all that follow. Trace a module that calls "
            "`live_step`, which reads one sample, or a `DiscreteCell`; torch.export takes sequences of any length."
        )


def check_values(value: Tensor, what: str, advice: str) -> None:
    """Refuse tensors whose values cannot be read, for `what` reads them."""
    try:
        bool(torch.isfinite(value).all())
    except RuntimeError:
        where = "on the meta device" if value.device.type == "meta" else "under torch.func.vmap"
        raise TypeError(f"{what} by the values of the states, which cannot be read {where}; {advice}.") from None


def check_exported(step: Step) -> None:
    """Refuse a step that torch.export cannot trace."""
    if step.tangents or step.jacobians:
        refuse("derivatives", "export", repr(step), "torch.export")


def scanned(field: VectorField, step: Step, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """The state after each sample, for torch.export: a loop over time of any length; (time, batch, input) -> (.., state)."""
    check_exported(step)
    if torch.compiler.is_dynamo_compiling():
        raise TypeError("torch.export(strict=True) reads a loop in Python, which it cannot; take strict=False, its default.")
    sample = _Sample(field, step, dt, substeps)
    weights = dict([*sample.named_parameters(), *sample.named_buffers()])

    def one(h: Tensor, projected: Tensor, *given: Tensor) -> list[Tensor]:
        h = torch.func.functional_call(sample, dict(zip(weights, given, strict=True)), (h, projected))
        return [h, h.clone()]  # a scan may not give the same tensor twice

    states: Tensor = compat.scan_op(one, [h0], [field.project(xs)], tuple(weights.values()))[1]
    return states


class _Sample(nn.Module):
    """The steps of one sample, as a module, so that a loop is given the weights that it reads."""

    def __init__(self, field: VectorField, step: Step, dt: float, substeps: int) -> None:
        super().__init__()
        self.field, self.step, self.dt, self.substeps = field, step, dt, substeps

    def forward(self, h: Tensor, projected: Tensor) -> Tensor:
        for _ in range(self.substeps):
            h = self.step.advance(self.field, projected, h, self.dt / self.substeps)
        return h
