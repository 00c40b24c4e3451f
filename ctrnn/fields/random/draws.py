"""Random numbers in a field, dropout for one: the same call then has two answers, and no solver converges."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["DRAW_ONCE", "drawn", "has_two_answers"]

DRAW_ONCE = (
    "For dropout call `field.eval()`, or take `ctrnn.Dropout`, whose masks are fixed for a solve; or take steps that each may "
    "draw anew, as those of `discretize.DiscreteRNN`."
)


def drawn(call: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, bool]:
    """What a call gives, and whether it took numbers from torch's generators."""
    before = _generators(device)
    answer = call()
    return answer, not all(map(torch.equal, before, _generators(device)))


def has_two_answers(call: Callable[[], Tensor], device: torch.device) -> bool:
    """Whether a call draws anew each time it is made, or answers otherwise, by a generator of its own."""
    first, _ = drawn(call, device)
    second, anew = drawn(call, device)
    return anew or not torch.equal(first.nan_to_num(), second.nan_to_num())


def _generators(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
