r"""The affine layers of a field, gates and candidates, by autograd: rows V = theta_0 + theta_x x + theta_h h.

B(t) = d log Pr/dV(t)          m = B^2: of the two metrics the unitwise outer products, eq. (55), for any architecture
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ctrnn import Affine, ResetCandidate, VectorField
from discretize.kernels.eligibility import Fused
from discretize.riemannian.network import Directions, always_on
from discretize.riemannian.rows import weighted_sum
from discretize.riemannian.symbols import SymbolModel, log_probability
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.unroll import unroll

__all__ = ["AffineLayers", "rows_of"]


class Forced(VectorField):
    """F(x, h) + e: reads e beside x. By a unit Euler step the derivative in e is the one in the state after the step."""

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size + field.state_size, field.hidden_size, field.state_size)
        self.field = field

    def project(self, x: Tensor) -> Tensor:
        read, force = x.split([self.field.input_size, self.state_size], -1)
        return torch.cat([self.field.project(read), force], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        known = projected.shape[-1] - self.state_size
        return self.field.flow(projected[..., :known], h) + projected[..., known:]


Step = Callable[[Tensor, Tensor, Tensor], Tensor]  # values, moduli, inputs -> (rows, k), as in rows.py
AGREEMENT = 1e-3  # of gradients by rows and by autograd; they differ by rounding, or wholly
ROUNDING = 1e-6  # of the terms of a gradient, summed without their signs


@dataclass(frozen=True)
class AffineRows:
    """V = constant + of_x x + of_h h, either perhaps missing, as a method of the owner gives it, whose last argument is h."""

    owner: nn.Module
    method: str
    constant: nn.Parameter | None
    of_x: nn.Parameter | None
    of_h: nn.Parameter | None

    span: ClassVar[None] = None  # how far states go depends on the field

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [p for p in (self.constant, self.of_x, self.of_h) if p is not None]

    def inputs(self, read: Tensor, states: list[Tensor], like: Tensor) -> Tensor:
        """Return what each row reads, unit 0 first: (samples, k)."""
        if sum(map(len, states)) != len(read):
            raise TypeError(f"{self} of `model` is not computed once for each symbol.")
        parts = [like.new_ones(len(read), 1)]
        if self.of_x is not None:
            parts.append(one_hot(read, self.of_x.shape[1]).to(like))
        if self.of_h is not None:
            parts.append(torch.cat(states).detach())
        return torch.cat(parts, -1)

    def stacked(self, values: Directions) -> Tensor:
        """Put the parameters' values side by side: (rows, k), where there is a constant the first ones."""
        return torch.cat([values[p].flatten(1) if p.dim() > 1 else values[p][:, None] for p in self.parameters], -1)

    def split(self, theta: Tensor) -> Directions:
        """Split (rows, k) into the shapes of the parameters."""
        sizes = [p.shape[1] if p.dim() > 1 else 1 for p in self.parameters]
        return {p: part.view_as(p) for p, part in zip(self.parameters, theta.split(sizes, -1), strict=True)}

    def check(self, by_rows: Directions, gradients: Directions, terms: Directions) -> None:
        for parameter, gradient in by_rows.items():
            right = gradients[parameter]
            if ((gradient - right).abs() > AGREEMENT * right.abs() + ROUNDING * terms[parameter]).any():
                raise TypeError(f"{self} of `model` reads something else than the symbols and a state.")

    def __str__(self) -> str:
        return type(self.owner).__name__

    @contextmanager
    def recorded(self) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Record what the method gives while this is open, and the state it is given."""
        calls: list[tuple[Tensor, Tensor]] = []
        plain = getattr(self.owner, self.method)

        def recording(*arguments: Tensor) -> Tensor:
            calls.append((plain(*arguments), arguments[-1]))
            return calls[-1][0]

        setattr(self.owner, self.method, recording)
        try:
            yield calls
        finally:
            delattr(self.owner, self.method)


def rows_of(field: VectorField) -> Iterator[AffineRows]:
    """Yield the rows of every `ctrnn.parts.Affine`; those of the GRU's candidate that the reset gate multiplies come apart."""
    resets = [part for part in field.modules() if isinstance(part, ResetCandidate)]
    for reset in resets:
        yield AffineRows(reset, "preactivation", reset.pull.bias, reset.pull.weight_x, None)
        yield AffineRows(reset, "recurrent", reset.bias_h, None, reset.pull.weight_h)
    for part in field.modules():
        if isinstance(part, Affine) and all(part is not reset.pull for reset in resets):
            yield AffineRows(part, "preactivation", part.bias, part.weight_x, part.weight_h)


class AffineLayers:
    """Raises: TypeError for a field with parameters besides those of `ctrnn.parts.Affine`, ValueError without biases."""

    def __init__(self, field: VectorField) -> None:
        self.layers: list[AffineRows] = list(rows_of(field))
        if any(rows.of_x is not None and rows.of_x.shape[1] != field.input_size for rows in self.layers):
            raise TypeError("`model` has a field in layers, of which the upper ones read no symbols; take `num_layers=1`.")
        self.parameters: list[nn.Parameter] = [p for rows in self.layers for p in rows.parameters]
        others = {name for name, p in field.named_parameters() if all(p is not own for own in self.parameters)}
        if others or not self.layers:
            raise TypeError(
                f"`model` has a {type(field).__name__} with parameters that are no affine layer's ({', '.join(sorted(others))}); "
                "it trains by torch's optimizers, on `-model.log_likelihood(symbols)`."
            )
        for rows in self.layers:
            always_on(rows.constant)

    def direction(self, model: SymbolModel, symbols: Tensor, chi: Tensor, step: Step, fused: Fused = True) -> Directions:
        """By eqs. (25) and (55) for each layer. Raises: TypeError where weights are used in another way than these rows."""
        field, read = model.field, one_hot(symbols[:-1], model.field.input_size).to(model.start)
        start = model.start.detach().expand(symbols.shape[1], -1).clone().requires_grad_()
        force = start.new_zeros(*read.shape[:2], field.state_size, requires_grad=True)
        with torch.enable_grad():
            cell = DiscreteCell(Forced(field), model.step)
            states = unroll(cell, torch.cat([read, force], -1), start, fused).hs if len(read) else start[None]
            total = log_probability(model.read_out(field.visible(states)), symbols, chi)
            wanted = [start, force, *self.parameters]
            at_start, after, *slopes = torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
        gradients: Directions = dict(zip(self.parameters, slopes, strict=True))
        directions: Directions = {model.start: step(at_start, at_start**2, torch.ones_like(at_start[:, :1]))[:, 0]}
        if not len(read):
            return directions | {parameter: torch.zeros_like(parameter) for parameter in self.parameters}
        calls, values = self._backpropagated(field, read.flatten(0, 1), states[:-1].detach().flatten(0, 1), after.flatten(0, 1))
        for rows, of_rows in zip(self.layers, calls, strict=True):
            inputs = rows.inputs(symbols[:-1].flatten(), [h for _, h in of_rows], chi)
            B = torch.cat([values.pop(0) for _ in of_rows])
            rows.check(rows.split(weighted_sum(B, inputs)), gradients, rows.split(weighted_sum(B.abs(), inputs.abs())))
            directions |= rows.split(step(B, B**2, inputs))
        return directions

    def _backpropagated(
        self, field: VectorField, x: Tensor, h: Tensor, after: Tensor
    ) -> tuple[list[list[tuple[Tensor, Tensor]]], list[Tensor]]:
        """Return the layers' calls, all times at once, and B of each, from the derivatives of log Pr in the states after x."""
        with torch.enable_grad(), ExitStack() as stack:
            calls = [stack.enter_context(rows.recorded()) for rows in self.layers]
            slope = field(x, h)
            recorded = [V for of_rows in calls for V, _ in of_rows]
            return calls, list(torch.autograd.grad(slope, recorded, after, allow_unused=True, materialize_grads=True))
