r"""A monitor of step sizes: records g dt of every step that a model takes, as it runs, in training and inference alike.

    g dt    the field's leak times the length of the step, for every unit of every sample of every step
    region  by R(-g dt): monotone, overshooting, marginal, divergent

It wraps the step maps of the `DiscreteCell`s and `DiscreteRNN`s in a model, and changes no result. Removed, it leaves
nothing in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ctrnn import VectorField, checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.field import check_field
from ctrnn.fields.noise import check_no_noise
from discretize.analysis.record import Record
from discretize.analysis.stability import DIVERGENT, OVERSHOOTING, REGIONS
from discretize.sequences.cell import DiscreteCell, put_step
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.step import Step
from discretize.text_report import TextReport

__all__ = ["Monitor"]

WARN_FROM = {"overshooting": OVERSHOOTING, "divergent": DIVERGENT, "never": len(REGIONS)}


class _Recorded(Step):
    """A step map that adds each of its steps to a record."""

    def __init__(self, step: Step, record: Record) -> None:
        self.step, self.record = step, record
        self.order, self.evaluations = step.order, step.evaluations  # type: ignore[misc]
        self.tangents, self.jacobians = step.tangents, step.jacobians  # type: ignore[misc]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        self._record(field, projected, h, dt)
        return self.step.advance(field, projected, h, dt)

    def counted(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> tuple[Tensor, int]:
        self._record(field, projected, h, dt)
        return self.step.counted(field, projected, h, dt)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return self.step.stability(z, leak)

    @torch.no_grad()
    def _record(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> None:
        if self.record.active:
            length = dt.detach() if isinstance(dt, Tensor) else dt
            own = length.reshape(-1) if isinstance(length, Tensor) and length.dim() else float(length)
            self.record.add((dt * field.leak(projected, h)).detach(), own)

    def __repr__(self) -> str:
        return repr(self.step)


def _begin(record: Record, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    x = given[0] if given else named.get("x")
    order = x.sorted_indices if isinstance(x, PackedSequence) else None  # in which packed sequences are read
    record.begin(None if order is None else order.cpu())


def _count(record: Record, *_: object) -> None:
    record.count()


class Monitor(TextReport, AnsweredInit):
    r"""Watches every `DiscreteCell` and `DiscreteRNN` in a model until `remove`, or as a context.

    Costs an evaluation of the leak and its counting for each step recorded; a model that is not watched pays nothing. A
    leak of 0, that of a field which declares none, is counted as monotone: nothing is known of it, and the words say so.

        >>> model = discretize.DiscreteRNN(ctrnn.leaky(1, 3, alpha=0.1))
        >>> with Monitor(model) as monitor:
        ...     output, _ = model(torch.randn(20, 2, 1))
        >>> round(monitor.records[""].largest.g_dt, 3)
        0.1

    Args:    model: a module; warn: "overshooting" or "divergent", the first region that raises a `StepWarning`, or "never";
             every: 1 to record each call of the model, n to record every n-th one.
    Attributes: records, a `Record` for each watched module, by its name in the model ("" for the model itself).
    Raises:  TypeError for what is no module; ValueError where there is nothing to watch, or another monitor does already.
    """

    def __init__(self, model: nn.Module, warn: str = "overshooting", every: int = 1) -> None:
        checks.instance("model", model, nn.Module)
        checks.one_of("warn", warn, WARN_FROM)
        watched = {name: part for name, part in model.named_modules() if isinstance(part, DiscreteCell | DiscreteRNN)}
        if not watched:
            raise ValueError("`model` has no discretize.DiscreteCell or DiscreteRNN in it, so that there are no steps to watch.")
        taken = [name for name, part in watched.items() if isinstance(part.step, _Recorded)]
        if taken:
            raise ValueError(f"`model` is watched already, in {', '.join(taken) or 'itself'}; `remove` that monitor first.")
        for part in watched.values():
            # With delays nothing is known of what is forgotten.
            check_no_noise(check_field(part.field), "analysis", "Monitor")
        self.records: dict[str, Record] = {}
        self._undo: list[Callable[[], None]] = []
        for name, part in watched.items():
            self._watch(name, part, WARN_FROM[warn], checks.positive_size("every", every))

    def _watch(self, name: str, part: DiscreteCell | DiscreteRNN, warn_from: int, every: int) -> None:
        step, record = part.step, Record(name or type(part).__name__, part.step, warn_from, every)
        self.records[name] = record
        put_step(part, _Recorded(step, record))
        self._undo.append(lambda: put_step(part, step))
        allowed, part.watch.allowed = part.watch.allowed, True  # this monitor says it
        self._undo.append(lambda: setattr(part.watch, "allowed", allowed))
        if isinstance(part, DiscreteRNN):  # a cell alone is called once a step, and knows of no sequence
            # Not lambdas: a watched model can be pickled.
            self._undo.append(part.register_forward_pre_hook(partial(_begin, record), with_kwargs=True).remove)
            self._undo.append(part.register_forward_hook(partial(_count, record)).remove)

    def remove(self) -> None:
        """Give the model its own steps back; the records stay."""
        for undo in self._undo:
            undo()
        self._undo.clear()
        for record in self.records.values():
            record.count()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def __str__(self) -> str:
        return "\n".join(map(str, self.records.values()))
