r"""Equations with a row of parameters of its own for each sample, and their sensitivities.

    d[h, q]/dt = [f(t, h; q), 0]
    d[h, s, q, e]/dt = [f, (df/dh) s + (df/dq) e, 0, 0]        s: how the state moves with the direction e of q, and of the start

A row is a sample, so that one solve takes many parameters, series, pieces and directions; and a compiled kernel takes both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctrnn import VectorField
from discretize.kernels.record.program import jvp_in_reverse

__all__ = ["Named", "RowEquation", "Sensitivities", "Shapes", "arguments_of", "weights_of"]

Shapes = dict[str, tuple[int, ...]]  # of parameters by name, in the order of their numbers in q
FORMS = ("columns", "flat", "single")


class Named(nn.Module):
    r"""Calls f(t, h, **parameters), or a module with these weights, for rows that have each its own: t (batch, 1), h (batch,
    state), q (batch, numbers).

    f is written for parameters that are numbers. They come as (batch, 1), as t does, or (batch,), where it takes the state apart
    by `unbind`, whichever gives what numbers give; else f is called for each sample by itself, by `torch.func.vmap`.
    """

    def __init__(self, f: Callable[..., Any], shapes: Shapes, name: str, outputs: int) -> None:
        super().__init__()
        self.f, self.shapes, self.name, self.outputs = f, shapes, name, outputs
        taken = arguments_of(f, shapes, name)
        sizes = {key: int(torch.Size(shape).numel()) for key, shape in shapes.items()}
        ends = dict(zip(sizes, torch.tensor([0, *sizes.values()]).cumsum(0).tolist(), strict=False))
        self.taken = {key: (ends[key], ends[key] + sizes[key], shapes[key]) for key in shapes if key in taken}
        self.weights = weights_of(f)
        self.form = "single"

    def forward(self, t: Tensor, h: Tensor, q: Tensor) -> Tensor:
        if self.form == "single":
            return vmap(self._of_one, randomness="different")(t, h, q)
        flat = self.form == "flat"
        slope = self._called(t, h, {name: q[:, at] if flat else q[:, at:end] for name, (at, end, _) in self.taken.items()})
        return slope if slope.dim() > 1 else slope[:, None]

    def _of_one(self, t: Tensor, h: Tensor, q: Tensor) -> Tensor:
        values = {name: q[at:end].reshape(shape) for name, (at, end, shape) in self.taken.items()}
        return self._called(t[None], h[None], values).reshape(self.outputs)

    def _called(self, t: Tensor, h: Tensor, values: dict[str, Tensor]) -> Tensor:
        if not isinstance(self.f, nn.Module):
            return self.f(t, h, **values)
        weights = {name: values.pop(name).reshape_as(weight) if self.form == "single" else values.pop(name)
                   for name, weight in self.weights.items() if name in values}  # fmt: skip
        inputs = (h[:, :0], h) if isinstance(self.f, VectorField) else (t, h)
        return functional_call(self.f, weights, inputs, values)

    def settle(self, t: Tensor, h: Tensor, q: Tensor) -> None:
        """Choose how parameters come, by what is right for these samples.

        Raises:  as `alone`.
        """
        alone = self.alone(t, h, q)
        scalars = all(not shape for *_, shape in self.taken.values())
        self.form = next((form for form in FORMS[:2] if scalars and self._agrees(form, t, h, q, alone)), "single")

        if self.form == "single":
            try:
                self(t, h, q)
            except RuntimeError as error:
                raise TypeError(
                    f"`{self.name}` cannot be called for a batch: write torch.where(k > 1, a, b) in place of `if k > 1`, "
                    f"and torch's functions, torch.exp(k), in place of those of numbers ({str(error).partition('. ')[0]})."
                ) from error

    def alone(self, t: Tensor, h: Tensor, q: Tensor) -> Tensor:
        """Return what f gives when it is called for each sample by itself, its parameters numbers.

        Raises:  what f raises; TypeError, ValueError for what it gives.
        """
        self.form, slopes = "single", []
        for k in range(len(h)):
            values = {name: q[k, at:end].reshape(shape) for name, (at, end, shape) in self.taken.items()}
            slope = self._called(t[k : k + 1], h[k : k + 1], values)
            if not isinstance(slope, Tensor):
                raise TypeError(f"`{self.name}` must give a tensor, got {type(slope).__name__}.")
            if slope.numel() != self.outputs or slope.shape[:1] not in ((1,), ()):
                raise ValueError(
                    f"`{self.name}` gives {tuple(slope.shape)} for h of shape {tuple(h[k : k + 1].shape)}, it must give "
                    f"{(1, self.outputs)}: (batch, {self.outputs})."
                )
            slopes.append(slope.reshape(self.outputs))
        return torch.stack(slopes)

    def _agrees(self, form: str, t: Tensor, h: Tensor, q: Tensor, alone: Tensor) -> bool:
        self.form = form
        try:
            slope = self(t, h, q)
            same = torch.where(slope.isnan() & alone.isnan(), 0, (slope - alone).abs()) <= 1e-9 * alone.abs().amax(0)
            return slope.shape == alone.shape and bool(same.all())
        except (RuntimeError, TypeError, ValueError, IndexError):
            return False


class RowEquation(nn.Module):
    """Computes d[h, q]/dt, states and parameters counted in their sizes: nothing hangs on units, and one tolerance is for all."""

    scales: Tensor
    sizes: Tensor

    def __init__(self, named: Named, scales: Tensor, sizes: Tensor) -> None:
        super().__init__()
        self.named = named
        self.register_buffer("scales", scales)
        self.register_buffer("sizes", sizes)

    def slope(self, t: Tensor, h: Tensor, q: Tensor) -> Tensor:
        return self.named(t, h * self.scales, q * self.sizes) / self.scales

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        h, q = z.split([len(self.scales), len(self.sizes)], 1)
        return torch.cat([self.slope(t, h, q), torch.zeros_like(q)], 1)


class Sensitivities(RowEquation):
    """Computes d[h, s, q, e]/dt."""

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        n, width = len(self.scales), len(self.sizes)
        h, s, q, e = z.split([n, n, width, width], 1)
        moved = jvp_in_reverse(lambda u: self.slope(t, u[:, :n], u[:, n:]), torch.cat([h, q], 1), torch.cat([s, e], 1))
        return torch.cat([self.slope(t, h, q), moved, torch.zeros_like(q), torch.zeros_like(e)], 1)


def weights_of(f: object) -> dict[str, nn.Parameter]:
    """Return the parameters of a module by name, none of a function."""
    return dict(f.named_parameters()) if isinstance(f, nn.Module) else {}


def arguments_of(f: Callable[..., Any], names: Iterable[str], what: str) -> set[str]:
    """Return which of these names f takes, after t and h, or has as weights.

    Raises:  TypeError for arguments that are not among the names.
    """
    weights = set(weights_of(f))
    if isinstance(f, VectorField):
        return weights & set(names)
    try:
        signature = inspect.signature(f.forward if isinstance(f, nn.Module) else f)
    except (TypeError, ValueError):  # written in C
        return set(names)
    more: Sequence[inspect.Parameter] = list(signature.parameters.values())
    positional = [p for p in more if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2 and not any(p.kind == p.VAR_POSITIONAL for p in more):
        raise TypeError(f"`{what}` is a function of ({', '.join(signature.parameters)}), and is called as {what}(t, h, ...).")
    named = [p for p in more if p not in positional[:2] and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in names]
    if missing:
        raise TypeError(
            f"`{what}` takes {', '.join(f'`{name}`' for name in missing)}, in neither `params` nor the constants of the data; "
            "fit it, give its number there, or bind it with functools.partial."
        )
    anything = any(p.kind == p.VAR_KEYWORD for p in more)
    return {name for name in names if anything or name in weights or name in {p.name for p in named}}
