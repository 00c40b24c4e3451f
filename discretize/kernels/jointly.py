r"""Run layers, or packed samples, by one call of torch's own function, where each module's plan says that it is run by it.

one layer after another      what a call does that no plan fits; it leaves a plan in each module
jointly                      calls like it: torch keeps packed samples packed from layer to layer
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ctrnn.own_code import HOOKS
from discretize.kernels.eligibility import Fused, is_ordinary
from discretize.kernels.plan import ModulePlan, input_key, start_of
from discretize.kernels.repeated import keep_call
from discretize.kernels.shown import Shown
from discretize.kernels.torchs_own import joined, lengths_of

__all__ = ["run_jointly"]


def run_jointly(
    owner: nn.Module, modules: Sequence[Any], directions: int, x: Tensor | PackedSequence, h_0: object, dropout: float = 0.0
) -> Shown | None:
    r"""What is read of a call of sequence modules that read one another's outputs; None where one of them is not run by torch's
    own function, and where their steps are to be looked at.

    Args:    owner: whose call it is; modules: in torch's order, as many `directions` in each layer; dropout: between layers.
    Shape:   x (time, batch, input) or packed -> output (time, batch, directions * hidden), or the values of one that is packed.
    """
    found, sizes, order, back = x if isinstance(x, PackedSequence) else (x, None, None, None)
    if not _are_read(found, sizes, {module._plan.fused for module in modules}):
        return None
    samples, batch = found.shape[:2] if sizes is None else (len(sizes), int(sizes[0]))
    if (h0 := start_of(modules[0].field, h_0, found, len(modules), batch)) is None:
        return None
    plans = _plans(modules, directions, found, h0.requires_grad)
    if not plans or (run := joined([plan.torchs for plan in plans], directions)) is None:
        return None
    learning = torch.is_grad_enabled() and (found.requires_grad or h0.requires_grad or any(plan.learns for plan in plans))
    whys = [plan.torchs_reason(samples, batch, learning, sizes is not None) for plan in plans]
    watched = [(module.watch, plan) for module, plan in zip(modules, plans, strict=True)]
    if None in whys or any(watch.looks(plan.stats["method"], plan.field, 1.0, h0[0]) for watch, plan in watched):
        return None
    began, dice = time.perf_counter(), torch.get_rng_state() if dropout else None
    if sizes is None:
        shown = run(found, h0, dropout)
    else:
        shown = run.packed(found, sizes, h0 if order is None else h0[:, order], dropout)
        shown = shown if back is None else shown._replace(state=shown.state[:, back])
    if not math.isfinite(shown.state.detach().sum().item()):
        if dice is not None:  # of which the same is drawn once more
            torch.set_rng_state(dice)
        return None
    plans[0].took(began, whys[0])
    lengths = None if sizes is None else lengths_of(sizes)
    for module, plan, why in zip(modules, plans, whys, strict=True):
        module.watch.calls += 1
        module.stats = plan.told(samples, batch, lengths, why)
    if not dropout:
        keep_call(owner, modules, plans, run, x, h_0, h0)
    return shown


def _are_read(xs: object, sizes: Tensor | None, settings: set[Fused]) -> bool:
    """Whether samples, packed in batches of these sizes if they are, are such as plans are for. Their numbers are read only where
    nothing around the call forbids it, as a transform of torch does."""
    if type(xs) is not Tensor or not all(is_ordinary(xs.device, fused) for fused in settings):
        return False
    if xs.dim() != (3 if sizes is None else 2) or not xs.numel() or xs.is_neg():
        return False
    return math.isfinite(xs.detach().sum().item()) and (sizes is None or len(xs) == int(sizes.sum()))


def _plans(modules: Sequence[Any], directions: int, xs: Tensor, moves: bool) -> list[ModulePlan]:
    """The plans of all modules that fit a call; none where one is missing. moves: whether the start has a gradient."""
    plans = list[ModulePlan]()
    width, requires_grad = xs.shape[-1], xs.requires_grad
    for k, module in enumerate(modules):
        if k and k % directions == 0:
            below = plans[k - directions : k]
            requires_grad = torch.is_grad_enabled() and (requires_grad or moves or any(plan.learns for plan in below))
            width = directions * modules[0].field.hidden_size
        key = input_key(xs, width, requires_grad)
        plan: ModulePlan | None = module._plan and module._plan.of(key)
        if plan is None or not plan.is_of(module) or any(vars(module)[name] for name in HOOKS):
            return []
        if not plan.holds(plan.field):
            return []
        plans.append(plan)
    return plans
