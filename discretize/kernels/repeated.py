r"""Repeat a call that torch's own function has run, with samples of the same kind, while nothing has changed.

    tensors     torch's guards: class, sizes, strides, dtype, device, requires_grad; transforms, tracing, autocast
    dicts       versions: of all that a plan looks at, the modules' classes, the step's, the environment's, torch's flags of
                compiling and tangents
    the rest    the modules' settings, modes of torch, whether kernels may be built, how long calls have waited for one

After a long call what is looked at is fetched from memory anew, objects and code: so there are few of both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from math import isfinite
from operator import is_
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence

from ctrnn.own_code import HOOKS
from ctrnn.storage.comparison import NOTES
from discretize import compat
from discretize.kernels import price
from discretize.kernels.plan import ModulePlan, classes_of
from discretize.kernels.price import Waiting
from discretize.kernels.record.guards import Guards, Unwritten, counts_writes, dict_of
from discretize.kernels.shown import call_key
from discretize.kernels.torchs_own import JoinedWeights, TorchRun, lengths_of

__all__ = ["Repeated", "keep_call"]

MOST = 16  # kinds of samples whose calls a module keeps
WORTH = 8  # calls that one must serve, or fail, before it is kept anew
NEEDED = ("TensorGuards", "GlobalStateGuard")
SAID = 0.05  # seconds that calls take until `engine_why` tells them anew


def keep_call(
    owner: nn.Module,
    modules: Sequence[Any],
    plans: Sequence[ModulePlan],
    run: TorchRun | None,
    x: Tensor | PackedSequence,
    h_0: object,
    h0: Tensor,
) -> None:
    r"""Keep how torch's function has run a call, from the second of its kind on.

    Args:    owner: the module that was called; modules, plans: those that have states, and their plans; run: of the call; x, h_0:
             its arguments, time first; h0: the states that it began with.
    """
    kept = vars(owner).get("_repeats")
    if kept is None or len(kept) >= MOST:
        vars(owner)["_repeats"] = kept = {}
    key = call_key(x, h_0)
    before: Repeated | None = kept.get(key)
    if key not in kept or run is None:
        kept[key] = None
    elif before is None or before.is_over():
        made = _repeated(owner, modules, plans, run, x, h_0, h0)
        if made is not None:
            made.share_memory(each for each in kept.values() if each is not None)
        kept[key] = made


def _tensors(x: Any, h_0: Any) -> list[Tensor]:
    """Return those of a call: samples; of what is packed batch sizes, and where sequences are in there and were before, if they
    moved; states that were given."""
    starts = [] if h_0 is None else h_0 if type(h_0) is tuple else [h_0]
    return [each for each in x if each is not None] + [*starts] if isinstance(x, PackedSequence) else [x, *starts]


def _repeated(
    owner: nn.Module,
    modules: Sequence[Any],
    plans: Sequence[ModulePlan],
    run: TorchRun,
    x: Tensor | PackedSequence,
    h_0: object,
    h0: Tensor,
) -> Repeated | None:
    environment = getattr(os.environ, "_data", None)
    if compat.missing(NEEDED) or not counts_writes() or type(environment) is not dict:
        return None
    lists = [part for part in owner.modules() if isinstance(part, nn.ModuleList)]  # of layers
    dicts = [environment, vars(torch.compiler), vars(forward_ad)]
    for part in [owner, *lists] if lists else []:
        dicts += [vars(part), part._modules]
    for module, plan in zip(modules, plans, strict=True):
        if (compared := plan.found.guards.dicts()) is None:
            return None
        dicts += [*compared, vars(plan.step), module._modules, *(vars(module)[name] for name in HOOKS if lists)]
    dicts += map(dict_of, {kind: None for part in [owner, *modules] for kind in classes_of(part)})
    unwritten = Unwritten([(owner, Guards(owner).complete()), *((plan.field, plan.found.guards) for plan in plans)], dicts)
    given, packed = _tensors(x, h_0), isinstance(x, PackedSequence)
    learning = torch.is_grad_enabled() and any([given[0].requires_grad, h0.requires_grad, *(plan.learns for plan in plans)])
    time = len(x.batch_sizes) if isinstance(x, PackedSequence) else x.shape[0]
    whys = [plan.torchs_reason(time, h0.shape[1], learning, packed) for plan in plans]
    settings = [_settings(module) for module in modules]
    if None in whys or None in settings:
        return None
    parts = [*zip(modules, map(vars, modules), settings, plans, whys, strict=True)]
    return Repeated(owner, parts, run, given, packed, h0, learning, unwritten)


def _settings(module: nn.Module) -> list[Any] | None:
    """Return the values of a module's own attributes; None where notes of calls stand before some."""
    names = [*vars(module)]
    settings = [name for name in names if name not in NOTES]
    return [vars(module)[name] for name in settings] if names[: len(settings)] == settings else None


class Repeated:
    """Repeats a call that has run, unless something has changed since.

    parts: modules with their dicts, settings and plans, and why no kernel runs each.
    """

    def __init__(
        self,
        owner: nn.Module,
        parts: Sequence[Any],
        run: TorchRun,
        given: Sequence[Tensor],
        packed: bool,
        h0: Tensor,
        learning: bool,
        unwritten: Unwritten,
    ) -> None:
        self.owner, self.run, self.function, self.unwritten, self.learning = owner, run, run.function, unwritten, learning
        self.ran, self.failed, self.looked = 0, 0, False  # looked: the last one ran otherwise because its steps were looked at
        plans = [plan for *_, plan, _ in parts]
        self.tensors = [*{id(each): each for plan in plans for each in plan.found.attributes.tensors}.values()]
        self.packed, self.number, self.batch = packed, len(given), h0.shape[1]
        self.guard, self.state = _guard([*given, *self.tensors], 2 * packed), compat.GlobalStateGuard()
        self.settings = None if run.reorders else run.settings(0.0)
        self.idle: list[JoinedWeights] | None = [] if run.reorders and not learning else None
        self.joins = [(id(each), each.dtype, each.device, each.shape) for each in self.tensors]  # which `.to` may change
        with torch.inference_mode(False):  # for calls outside of it too
            zeros = torch.zeros_like(h0)
            self.start, self.first = run.starts(zeros), zeros[0]
        self.time = 1 if packed else len(given[0])
        self.parts = [
            (module, own, len(own), settings, plan, isinstance(why, Waiting), plan.told(self.time, self.batch, None, why))
            for module, own, settings, plan, why in parts
        ]
        self.uses, self.waits, self.seconds = plans[0].found.uses, isinstance(parts[0][-1], Waiting), 0.0
        self.builds = price.may_build()
        self.weight = 1 + (plans[0].learns and torch.is_grad_enabled())
        self.method = plans[0].stats["method"]

    def is_over(self) -> bool:
        """Count a call like it that had to run otherwise; whether it is to be kept anew, which takes as long as some calls."""
        self.failed += not self.looked
        was, self.looked = self.looked, False
        return not was and max(self.ran, self.failed) >= WORTH

    def share_memory(self, others: Iterable[Repeated]) -> None:
        """Fill the same memory with weights as a call of another kind."""
        for other in others:
            if other.idle is not None and self.idle is not None and other.joins == self.joins:
                self.idle = other.idle

    def __call__(self, owner: nn.Module, x: Any, h_0: Any) -> tuple[Any, Tensor] | None:
        """None where anything is not as it was."""
        began = perf_counter()
        given = _tensors(x, h_0) if self.packed or h_0 is not None else [x]
        if (
            owner is not self.owner
            or len(given) != self.number
            or not self.guard.check(*given, *self.tensors)
            or not self.state.check()
            or compat.function_modes()
            or compat.dispatch_modes()
            or price.builds_at_once()
            or price.may_build() is not self.builds
            or not self.unwritten.hold()
        ):
            return None
        for module, own, length, settings, plan, waits, _ in self.parts:
            uses = plan.found.uses
            if (
                type(module) is not plan.kind
                or len(own) != length
                or not all(map(is_, settings, own.values()))
                or uses.made != plan.made
                or (waits and self.builds and uses.seconds >= price.PRICE)
            ):
                return None
            if own["watch"].looks(self.method, plan.field, 1.0, self.first):
                self.looked = True
                return None
        lengths = lengths_of(given[1]) if self.packed else None
        if lengths is not None and (len(lengths) != self.batch or sum(lengths) != len(given[0])):
            return None
        output, state = self._run(x, h_0)
        checked = [state, given[0], *(() if h_0 is None else given[-1 - (type(h_0) is tuple) :])]
        if not isfinite(sum([(each.detach() if self.learning else each).sum().item() for each in checked])):
            return None
        self._note(began, lengths)
        return (output if lengths is None else x._replace(data=output)), state

    def _run(self, x: Any, h_0: Any) -> tuple[Tensor, Tensor]:
        """What is visible, and the states after the last samples."""
        joined = self._joined() if self.idle is not None else None
        settings = self.settings or (self.run.settings(0.0) if joined is None else joined.filled())
        start = self.start if h_0 is None else self._starts(x, h_0)
        if self.packed:
            output, *ends = self.function(x.data, x.batch_sizes, start, *settings)
        else:
            output, *ends = self.function(x, start, *settings, False)
        if joined is not None and self.idle is not None:
            self.idle.append(joined)
        state = torch.cat(ends, -1) if self.run.pair else ends[0]
        if self.packed and x.unsorted_indices is not None:
            state = state.index_select(1, x.unsorted_indices)
        return output, state

    def _starts(self, x: Tensor | PackedSequence, h_0: Any) -> Any:
        """States that were given, as torch's function reads them."""
        pair = type(h_0) is tuple
        parts = [part if part.dim() == 3 else part[None] for part in (h_0 if pair else (h_0,))]
        if isinstance(x, PackedSequence) and x.sorted_indices is not None:
            parts = [part.index_select(1, x.sorted_indices) for part in parts]
        return [part.contiguous() for part in parts] if pair else self.run.starts(parts[0])

    def _joined(self) -> JoinedWeights:
        """Take memory for weights that no other call writes meanwhile."""
        assert self.idle is not None
        try:
            return self.idle.pop()
        except IndexError:
            return JoinedWeights(self.run)

    def _note(self, began: float, lengths: list[int] | None) -> None:
        """Count the call, and tell of it as others do."""
        self.ran += 1
        if self.waits:
            self.uses.seconds += (perf_counter() - began) * self.weight
        is_told = self.waits and self.uses.seconds - self.seconds > SAID
        for _, own, _, _, plan, _, told in self.parts:
            if is_told and (why := self.uses.waiting()):
                self.seconds, told["engine_why"] = self.uses.seconds, str(why)
            own["watch"].calls += 1
            if lengths is None:
                steps = {"steps_of_samples": [self.time], "accepted_steps_of_samples": [self.time]}
                own["stats"] = {**told, **steps, "rejected_steps_of_samples": [0]}
            else:
                own["stats"] = plan.told(lengths[0], self.batch, lengths, told["engine_why"])


def _guard(tensors: Sequence[Tensor], growing: int) -> Any:
    """What tells whether tensors look as these; the first axes of the first `growing` ones may have any size."""
    shapes, strides = [[*each.shape] for each in tensors], [[*each.stride()] for each in tensors]
    for shape in shapes[:growing]:
        shape[0] = None
    return compat.TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides)
