"""Dropout in a field, its masks fixed for a whole sequence or solve: what draws anew at each evaluation is no equation.

    part(m_x * x, m_h * h)        m = 0 with probability p, else 1 / (1 - p), for each sample and unit

`draw_masks` gives the field with masks that were drawn. Sequence modules, cells and solves call it themselves when they begin,
so that steps, stages and what is computed again for a gradient read one mask. A mask goes with the projected input, so that
it stays with its sample when a solver leaves others out.
"""

from __future__ import annotations

import copy
from typing import ClassVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.field import VectorField, check_field
from ctrnn.fields.parts import Part, affine

__all__ = ["Dropout", "draw_masks", "masked"]


class Dropout(Part):
    r"""A candidate or gate that does not see some units of h and some features of x, in training.

    It takes that part's place: `Relaxation(Dropout(TanhCandidate(3, 5), 0.3), GateRate(3, 5), LinearDecay())`, or
    `lstm_field.gates = Dropout(lstm_field.gates, 0.3)`. What the state forgets and keeps is not dropped. By itself it is the
    part without dropout, and so is the field that holds it: masks are drawn where a sequence or a solve begins, see
    `draw_masks`, and then for each part by itself. After `eval()` nothing is dropped, and kernels run.

    Args:    part: a `Part` that knows its `input_size` and `hidden_size`; p: the probability to drop a unit of h; inputs: that
             to drop a feature of x. Both from 0 to below 1.
    Shape:   as the part.
    Raises:  TypeError, ValueError for other parts and probabilities.
    Source:  Gal and Ghahramani 2016, "A theoretically grounded application of dropout in recurrent neural networks", untied.
    """

    part: Part
    p: float
    inputs: float

    def __init__(self, part: Part, p: float = 0.5, inputs: float = 0.0) -> None:
        super().__init__()
        if not isinstance(part, Part) or not hasattr(part, "input_size") or not hasattr(part, "hidden_size"):
            raise TypeError(f"`part` must be a ctrnn.parts.Part with `input_size` and `hidden_size`, got {type(part).__name__}.")
        self.part, self.p, self.inputs = part, checks.probability("p", p), checks.probability("inputs", inputs)
        if 1.0 in (self.p, self.inputs):
            raise ValueError("`p` and `inputs` must be below 1: a part that sees nothing learns nothing.")
        self.input_size: int = part.input_size  # type: ignore[assignment]
        self.hidden_size: int = part.hidden_size  # type: ignore[assignment]
        self.projected_size: int = part.projected_size

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.part.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.part.flow(projected, h)

    def visible(self, h: Tensor) -> Tensor:
        return self.part.visible(h)

    formula = "{part}"

    def drawn(self, samples: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Part:
        """Return the part with masks for so many samples; without any where nothing is dropped."""
        if not self.training or not (self.p or self.inputs):
            return self.part

        def mask(width: int, p: float) -> Tensor:
            kept = like.new_empty(*samples, width).bernoulli_(1 - p, generator=generator)
            return kept / (1 - p)

        return Masked(self.part, mask(self.input_size, self.inputs), mask(self.hidden_size, self.p))

    def extra_repr(self) -> str:
        return f"p={self.p:g}, inputs={self.inputs:g}"


def draw_masks(field: VectorField, batch: int, generator: torch.Generator | None = None) -> VectorField:
    r"""Draw the masks of a field's `Dropout` parts, for several calls that are to share them; weights stay the same.

    Sequence modules, cells, `unroll` and `integrate` do this at each call with a field whose masks are not drawn. A field in
    evaluation, or without dropout, stays what it is.

    Args:    field: a `VectorField`; batch: how many samples are to be read; generator: torch's own if not given.
    Shape:   a field as the field, for x (..., batch, input) and h (..., batch, state) only.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  as `Dropout`.
    """
    return masked(check_field(field), (checks.positive_size("batch", batch),), generator)


def masked(field: VectorField, samples: tuple[int, ...], generator: torch.Generator | None = None) -> VectorField:
    """Do as `draw_masks` for samples of any leading axes; return the field itself where there is nothing to draw."""
    if not _has_dropout(field):
        return field
    # A weight, not a tensor made anew: under `torch.func.vmap` masks are drawn for each network. Delays are none, in float64.
    weights = (weight for weight in field.parameters() if weight.dtype == field.dtype)
    like = next(weights, torch.zeros((), dtype=field.dtype, device=field.device))
    done: dict[int, nn.Module] = {}

    def copied(module: nn.Module) -> nn.Module:
        """Return the module, or, where a `Dropout` is in it, a copy that shares everything else."""
        if id(module) not in done:
            if isinstance(module, Dropout):
                done[id(module)] = module.drawn(samples, like.detach(), generator)
            else:
                parts = {name: part and copied(part) for name, part in module._modules.items()}
                done[id(module)] = module
                if any(part is not module._modules[name] for name, part in parts.items()):
                    done[id(module)] = twin = copy.copy(module)
                    twin._modules = parts
        return done[id(module)]

    return copied(field)  # type: ignore[return-value]


def _has_dropout(module: nn.Module | None) -> bool:
    # Not by `module.modules()`, which takes three times as long: every call of a cell asks.
    return module is not None and (isinstance(module, Dropout) or any(map(_has_dropout, module._modules.values())))


class Masked(Part):
    """A part with masks (*samples, input) and (*samples, hidden); the second stands beside its projection."""

    input_size: int
    hidden_size: int

    of_x: Tensor
    of_h: Tensor

    def __init__(self, part: Part, of_x: Tensor, of_h: Tensor) -> None:
        super().__init__()
        self.part = part
        self.register_buffer("of_x", of_x, persistent=False)
        self.register_buffer("of_h", of_h, persistent=False)
        self.projected_size: int = part.projected_size + of_h.shape[-1]
        self.input_size, self.hidden_size = of_x.shape[-1], of_h.shape[-1]

    @affine
    def project(self, x: Tensor) -> Tensor:
        samples = self.of_h.shape[:-1]
        if x.shape[max(x.dim() - 1 - len(samples), 0) : -1] != samples:
            raise ValueError(
                f"The masks of dropout are for {tuple(samples)} samples, got x of shape {tuple(x.shape)}; draw others, or leave "
                "that to the call."
            )
        return torch.cat([self.part.project(x * self.of_x), self.of_h.expand(*x.shape[:-1], -1)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        own, mask = projected.split([self.part.projected_size, self.of_h.shape[-1]], -1)
        return self.part.flow(own, h * mask)

    def visible(self, h: Tensor) -> Tensor:
        return self.part.visible(h)

    formula = "{part:|x=(mx * x)|h=(mh * h)}"
    letters: ClassVar[dict[str, str]] = {"mx": "of_x", "mh": "of_h"}

    def extra_repr(self) -> str:
        return f"masks for {tuple(self.of_h.shape[:-1])} samples"
