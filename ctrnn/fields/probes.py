"""Probes of a field: does it draw random numbers, so that no solver converges, and do samples of a batch act on one another?

Dropout is of the first kind; a mean over the batch is of the second, and gives each sample another answer in another batch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ctrnn.fields.field import VectorField

__all__ = ["COUPLED", "DRAW_ONCE", "asked_apart", "couples_samples", "drawn", "has_two_answers", "moved"]

Answer = TypeVar("Answer")
DRAW_ONCE = (
    "For dropout call `field.eval()`, or take `ctrnn.parts.Dropout`, whose masks are fixed for a solve; or take steps that each "
    "may draw anew, as those of `discretize.DiscreteRNN`."
)


def drawn(call: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, bool]:
    """Make a call, and return its answer and whether it took numbers from torch's generators."""
    before = _generators(device)
    answer = call()
    return answer, not all(map(torch.equal, before, _generators(device)))


def has_two_answers(call: Callable[[], Tensor], device: torch.device) -> bool:
    """Return whether two calls give different results, by random numbers from any generator."""
    first, _ = drawn(call, device)
    second, anew = drawn(call, device)
    return anew or not torch.equal(first.nan_to_num(), second.nan_to_num())


def _generators(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


LEAST = 1e-3  # of dh/dt of a unit: rounding is less, and what an iteration inside of a field leaves that ends for all at once
COUPLED = (
    "dh/dt of a sample changes with the other samples of the batch, as by a mean over all of them, or by BatchNorm in training. "
    "If they belong together make them one sample, their units side by side in one state; else reduce along the last axis only, "
    "and call `eval()` for BatchNorm."
)


def moved(x: Tensor) -> Tensor:
    """Return other numbers of about that size for each sample, (batch, ..); none below 0 where none was."""
    shares = torch.arange(1, len(x) + 1, device=x.device)[:, None] * torch.tensor([0.618034, 0.414214], device=x.device) % 1
    factor, offset = shares.to(x.dtype).unbind(1)  # no two alike, so that no mean stays what it was by chance
    return factor[:, None] * x + 0.5 * offset[:, None]


@torch.no_grad()
def asked_apart(field: VectorField, device: torch.device | None, ask: Callable[[VectorField], Answer]) -> Answer | None:
    """Return what `ask` finds of a copy that shares the field's parameters; None where its code raises.

    The field stays as it is, buffers and torch's random numbers too.
    """
    if _has_generator(field):
        return None
    try:
        with torch.random.fork_rng([device] if device is not None and device.type == "cuda" else []):
            twin: Any = _twin(field, {})
            return ask(twin)
    except Exception:  # numbers that cannot be read, and code that takes no others than it was given
        return None


@torch.no_grad()
def couples_samples(field: VectorField, projected: Tensor, h: Tensor, other: Tensor, found: Tensor | None = None) -> bool:
    r"""Return whether dh/dt of the last sample changes where all others do; False where the field draws or cannot be asked.

    Args:    found: dh/dt, where it is known.
    Shape:   projected and other, which the others read then, (batch, projected), h and found (batch, state).
    """
    if len(h) < 2:
        return False
    last = torch.arange(len(h), device=h.device)[:, None] == len(h) - 1

    def changes(field: VectorField) -> bool:
        def slope(projected: Tensor, h: Tensor) -> Tensor:
            twin: Any = _twin(field, {})
            answer: Tensor = twin.flow(projected, h)
            return answer

        first = slope(projected, h) if found is None else found
        there, drew = drawn(lambda: slope(torch.where(last, projected, other), torch.where(last, h, moved(h))), h.device)
        # A unit's own size: of this sample, or the median over all where it is nearly at rest here, which no far sample moves.
        sizes = torch.stack([first, there, there - first]).abs().amax(0)
        size = torch.maximum(torch.maximum(first[-1].abs(), there[-1].abs()), sizes.median(0).values)
        if drew or not bool(((there - first)[-1].abs() > max(LEAST, 8 * torch.finfo(h.dtype).eps) * size).any()):
            return False
        # A field with random numbers of its own has another answer the second time too.
        return torch.equal(slope(projected, h)[-1], first[-1])

    return asked_apart(field, h.device, changes) or False


def _has_generator(field: VectorField) -> bool:
    return any(isinstance(value, torch.Generator) for value in chain.from_iterable(vars(m).values() for m in field.modules()))


def _twin(module: nn.Module, twins: dict[int, nn.Module]) -> nn.Module:
    """Copy a module: it shares the parameters and has its own buffers and attributes."""
    if id(module) not in twins:
        twins[id(module)] = twin = object.__new__(type(module))
        twin.__dict__ = dict(module.__dict__)
        twin._buffers = {name: None if x is None else x.clone() for name, x in module._buffers.items()}
        twin._modules = {name: None if part is None else _twin(part, twins) for name, part in module._modules.items()}
    return twins[id(module)]
