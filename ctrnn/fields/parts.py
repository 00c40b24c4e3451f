r"""Parts of fields: functions of x and h in two stages, of which the first reads x alone.

part(x, h) = part.flow(part.project(x), h)          affine: Wx x + Wh h + b, with Wx x + b as the projection
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit

__all__ = ["Affine", "Part", "WeightSettings", "affine", "check_width", "projects_affinely", "read_sizes"]

Project = TypeVar("Project", bound=Callable[..., Tensor])


class WeightSettings(TypedDict, total=False):
    """Keywords of every named field and every part that has weights; as in torch.nn."""

    bias: bool
    dtype: torch.dtype | None
    device: torch.device | str | None
    generator: torch.Generator | None


def affine(project: Project) -> Project:
    """Mark a `project` that is A x + b if those of all parts are; a `project` that takes its place has no mark."""
    project.is_affine = True  # type: ignore[attr-defined]
    return project


def projects_affinely(module: nn.Module) -> bool:
    """Return whether a field's `project` is A x + b, so that lines and polynomials can be projected as a whole."""
    methods = (getattr(type(part), "project", None) for part in module.modules())
    return all(getattr(project, "is_affine", False) for project in methods if project is not None)


def read_sizes(name: str, part: nn.Module, **others: nn.Module) -> tuple[int, int]:
    """Return `input_size` and `hidden_size` of a part; refuse a part without, and others that read other sizes."""
    sizes = getattr(part, "input_size", None), getattr(part, "hidden_size", None)
    if None in sizes:
        raise TypeError(f"`{name}` must have `input_size` and `hidden_size`; {type(part).__name__} has not.")
    for other, given in others.items():
        for size, own in zip(("input_size", "hidden_size"), sizes, strict=True):
            if (found := getattr(given, size, None)) not in (own, None):
                raise ValueError(f"`{other}` has {size} {found}, `{name}` has {own}; they read the same x and h.")
    return sizes  # type: ignore[return-value]


def check_width(name: str, values: Tensor, h: Tensor) -> None:
    """Refuse what a part gives for the state h (1, hidden) if it is neither a value for each unit nor one for all."""
    try:
        values.expand_as(h)  # torch.broadcast_shapes would import SymPy, which takes as long as torch
    except RuntimeError:
        raise ValueError(
            f"`{name}` gives values of shape {tuple(values.shape)} for one sample of {h.shape[-1]} units; it must give "
            f"{h.shape[-1]}, or 1 for all."
        ) from None


class Part(AnsweredInit, nn.Module, ABC):
    r"""A candidate or a rate: a function of x and h whose work on x alone can be done ahead.

    `projected_size` is the width of what `project` returns, so that a field can concatenate projections. A part that gives a
    `formula`, text such as "tanh(Wx x + Wh h + b)", is shown by it in its field's equations, else by its name.

    Shape:   x (..., input), h (..., hidden) -> (..., hidden), or (..., 1) where one value serves all units.
    """

    projected_size: int

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return self.flow(self.project(x), h)

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """(..., input) -> (..., projected_size)."""

    @abstractmethod
    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        """(..., projected_size), (..., hidden) -> (..., hidden) or (..., 1)."""

    def visible(self, h: Tensor) -> Tensor:
        """Return what outputs are read from, of a candidate whose state is not itself read: (..., hidden) -> (..., hidden)."""
        return h


class Affine(Part):
    r"""Wx x + Wh h + b, with `outputs` rows.

    Weights start uniform on [-1/sqrt(hidden), 1/sqrt(hidden)], as in `torch.nn.RNNCell`. There is one bias, not torch's
    two that add: the equation has one, and a time scale is set by one.

    Args:    input_size, hidden_size; outputs: rows; bias: whether b is there; dtype, device, generator as in torch.
    Shape:   x (..., input), h (..., hidden) -> (..., outputs).
    Source:  the argument of every gate and candidate of Tallec and Ollivier 2018, eqs. (2)-(14).
    """

    # A gate for all units calls its rows by small letters.
    letters: ClassVar[dict[str, str]] = {"Wx": "weight_x", "Wh": "weight_h", "wx": "weight_x", "wh": "weight_h", "b": "bias"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        outputs: int,
        *,
        bias: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        checks.can_make_weights(dtype, device, generator)
        self.input_size: int = checks.size("input_size", input_size)
        self.hidden_size: int = checks.positive_size("hidden_size", hidden_size)
        self.projected_size: int = checks.positive_size("outputs", outputs)
        bound = 1.0 / math.sqrt(self.hidden_size)

        def draw(*shape: int) -> nn.Parameter:
            values = torch.empty(*shape, dtype=dtype, device=device)
            return nn.Parameter(values.uniform_(-bound, bound, generator=generator))

        self.weight_x: nn.Parameter = draw(outputs, self.input_size)
        self.weight_h: nn.Parameter = draw(outputs, self.hidden_size)
        self.bias: nn.Parameter = draw(outputs) if checks.is_flag("bias", bias) else None  # type: ignore[assignment] # as torch does

    @affine
    def project(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.function(self.preactivation(projected, h))

    @property
    def overrides_flow(self) -> bool:
        """Return whether the part computes something other than `function` of `preactivation`."""
        return type(self).flow is not Affine.flow or "flow" in vars(self)

    def preactivation(self, projected: Tensor, h: Tensor) -> Tensor:
        """Wx x + Wh h + b: (..., outputs), (..., hidden) -> (..., outputs)."""
        return projected + nn.functional.linear(h, self.weight_h)

    def function(self, argument: Tensor) -> Tensor:
        """Apply a function to it, elementwise: here the identity."""
        return argument

    @property
    def affine_formula(self) -> str:
        """Wx x + Wh h + b, without what is not there."""
        return " + ".join(["Wx x"] * (self.input_size > 0) + ["Wh h"] + ["b"] * (self.bias is not None))

    formula = affine_formula

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, outputs={self.projected_size}, bias={self.bias is not None}"
