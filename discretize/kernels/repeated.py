r"""Repeat a call that torch's own function has run, with samples of the same shape, while nothing has changed.

    tensors     torch's guards: class, sizes, strides, dtype, device, requires_grad; transforms, tracing, autocast
    dicts       versions: of all that a plan looks at, the step's, the environment's, torch's flags of compiling and tangents
    the rest    the modules' settings, modes of torch, whether kernels may be built, how long calls have waited for one

After a long call what is looked at is fetched from memory anew, objects and code: so there are few of both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from math import isfinite
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from ctrnn.own_code import HOOKS
from ctrnn.storage.comparison import NOTES
from discretize import compat
from discretize.kernels import price
from discretize.kernels.plan import ModulePlan
from discretize.kernels.price import Waiting
from discretize.kernels.record.guards import Guards, Unwritten, counts_writes
from discretize.kernels.shown import Shown
from discretize.kernels.torchs_own import TorchRun

__all__ = ["Repeated", "keep_call"]

MOST = 16  # shapes of samples whose calls a module keeps
WORTH = 8  # calls that one must serve, or fail, before it is kept anew
NEEDED = ("TensorGuards", "GlobalStateGuard")
LISTS = ("steps_of_samples", "accepted_steps_of_samples", "rejected_steps_of_samples")
SAID = 0.05  # seconds that calls take until `engine_why` tells them anew


def keep_call(
    owner: nn.Module, modules: Sequence[Any], plans: Sequence[ModulePlan], run: TorchRun | None, xs: Tensor, h0: Tensor
) -> None:
    r"""Keep how torch's function has run a call from zero, from the second of its kind on.

    Args:    owner: the module that was called; modules, plans: those that have states, and their plans; run, h0: of the call.
    """
    kept = vars(owner).get("_repeats")
    if kept is None or len(kept) >= MOST:
        vars(owner)["_repeats"] = kept = {}
    key = xs.shape, torch.is_grad_enabled()
    before: Repeated | None = kept.get(key)
    if key not in kept or run is None:
        kept[key] = None
    elif before is None or before.is_over():
        kept[key] = _repeated(owner, modules, plans, run, xs, h0)


def _repeated(
    owner: nn.Module, modules: Sequence[Any], plans: Sequence[ModulePlan], run: TorchRun, xs: Tensor, h0: Tensor
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
    unwritten = Unwritten([(owner, Guards(owner).complete()), *((plan.field, plan.found.guards) for plan in plans)], dicts)
    learning = torch.is_grad_enabled() and (xs.requires_grad or any(plan.learns for plan in plans))
    whys = [plan.torchs_reason(xs.shape[0], xs.shape[1], learning) for plan in plans]
    settings = [_settings(module) for module in modules]
    if None in whys or None in settings:
        return None
    parts = [*zip(modules, map(vars, modules), settings, plans, whys, strict=True)]
    return Repeated(owner, parts, run, xs, h0, unwritten)


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
        self, owner: nn.Module, parts: Sequence[Any], run: TorchRun, xs: Tensor, h0: Tensor, unwritten: Unwritten
    ) -> None:
        self.owner, self.run, self.function, self.unwritten = owner, run, run.function, unwritten
        self.ran = self.failed = 0
        plans = [plan for *_, plan, _ in parts]
        self.tensors = [*{id(each): each for plan in plans for each in plan.found.attributes.tensors}.values()]
        shapes, strides = [[*each.shape] for each in (xs, *self.tensors)], [[*each.stride()] for each in (xs, *self.tensors)]
        self.guard = compat.TensorGuards(xs, *self.tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides)
        self.state, self.settings = compat.GlobalStateGuard(), None if run.reorders else run.settings(0.0)
        with torch.inference_mode(False):  # for calls outside of it too
            zeros = torch.zeros_like(h0)
            self.start, self.first = run.starts(zeros), zeros[0]
        self.parts = [
            (module, own, len(own), settings, plan, isinstance(why, Waiting), plan.told(*xs.shape[:2], None, why))
            for module, own, settings, plan, why in parts
        ]
        self.uses, self.waits, self.seconds = plans[0].found.uses, isinstance(parts[0][-1], Waiting), 0.0
        self.weight = 1 + (plans[0].learns and torch.is_grad_enabled())
        self.method = plans[0].stats["method"]

    def is_over(self) -> bool:
        """Count a call like it that had to run otherwise; whether it is to be kept anew, which takes as long as some calls."""
        self.failed += 1
        return max(self.ran, self.failed) >= WORTH

    def __call__(self, owner: nn.Module, xs: Tensor) -> Shown | None:
        """None where anything is not as it was."""
        began = time.perf_counter()
        if (
            owner is not self.owner
            or not self.guard.check(xs, *self.tensors)
            or not self.state.check()
            or compat.function_modes()
            or compat.dispatch_modes()
            or not price.builds_later()
            or not self.unwritten.hold()
        ):
            return None
        for module, own, length, settings, plan, waits, _ in self.parts:
            uses = plan.found.uses
            if type(module) is not plan.kind or len(own) != length or not all(map(is_, settings, own.values())):
                return None
            if uses.made != plan.made or (waits and uses.seconds >= price.PRICE):
                return None
            if own["watch"].looks(self.method, plan.field, 1.0, self.first):
                return None
        output, *ends = self.function(xs, self.start, *(self.settings or self.run.settings(0.0)), False)
        state = torch.cat(ends, -1) if self.run.pair else ends[0]
        if not (isfinite(state.detach().sum().item()) and isfinite(xs.detach().sum().item())):
            return None
        self.ran += 1
        if self.waits:
            self.uses.seconds += (time.perf_counter() - began) * self.weight
        is_told = self.waits and self.uses.seconds - self.seconds > SAID
        for _, own, *_, stats in self.parts:
            if is_told and (why := self.uses.waiting()):
                self.seconds, stats["engine_why"] = self.uses.seconds, str(why)
            own["watch"].calls += 1
            own["stats"] = told = stats.copy()
            for name in LISTS:
                told[name] = told[name].copy()
        return Shown(output, state)
