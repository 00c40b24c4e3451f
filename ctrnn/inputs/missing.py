r"""Missing values: the last observation carried forward, and a mask of the observed ones.

Every feature of every sequence is held on its own, from the samples before, never from those after.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.samples import recorded

__all__ = ["hold_missing"]


def hold_missing(
    xs: Tensor, observed: Tensor | None = None, before: float | Tensor = 0.0, *, batch_first: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Replace each missing value by the last observed one of its sequence and feature.

        values, seen = ctrnn.inputs.hold_missing(xs)
        path = ctrnn.LinearPath(torch.cat([values, seen], -1), ts)

    Gradients reach observed values, and `before` where that is a tensor; the others are not read.

    Args:    xs: samples; observed: booleans like `xs`, False where a value is missing; by default, where it is nan.
             before: what is held until a first value is observed, a number or (feature,); batch_first: as in torch.nn.
    Shape:   xs (time, batch, feature), or (batch, time, feature) with `batch_first` -> values and a mask of 0 and 1, both
             like `xs`. Values are held along time, in each sequence for itself.
    Raises:  TypeError, ValueError for wrong kinds or shapes of samples and masks, and for observed values that are not finite.
    Source:  "last observation carried forward", with the mask as in Che et al. 2018, "Recurrent neural
             networks for multivariate time series with missing values".
    """
    recorded(xs)
    checks.is_flag("batch_first", batch_first)
    seen = ~torch.isnan(xs) if observed is None else _mask(xs, observed)
    start = _start(xs, before)
    kept = torch.where(seen, xs, torch.zeros_like(xs))
    checks.is_finite("xs", kept, "of observed values; `observed` is False where one is missing")
    axis = int(batch_first)
    times = torch.arange(xs.shape[axis], device=xs.device).view((1, -1, 1) if batch_first else (-1, 1, 1))
    last = torch.where(seen, times, -1).cummax(axis).values
    values = torch.where(last < 0, start, kept.gather(axis, last.clamp_min(0)))
    return values, seen.to(xs.dtype)


def _mask(xs: Tensor, observed: Tensor) -> Tensor:
    if checks.is_tensor("observed", observed).dtype != torch.bool:
        raise TypeError(f"`observed` must hold booleans, got {observed.dtype}; convert it, for instance with `observed.bool()`.")
    if observed.shape != xs.shape:
        raise ValueError(
            f"`observed` must be like `xs`, {tuple(xs.shape)}, got {tuple(observed.shape)}; where features are missing "
            "together, `observed[..., None].expand_as(xs)`."
        )
    return observed.to(xs.device)


def _start(xs: Tensor, before: float | Tensor) -> Tensor:
    if not isinstance(before, Tensor):
        return xs.new_tensor(checks.finite_number("before", before))
    if before.shape not in ((), (xs.shape[-1],)):
        raise ValueError(f"`before` must be a number or ({xs.shape[-1]},), one for each feature, got {tuple(before.shape)}.")
    if before.is_complex() or before.dtype == torch.bool:
        raise TypeError(f"`before` must hold real numbers, got {before.dtype}.")
    checks.is_finite("before", before)
    return before.to(xs)
