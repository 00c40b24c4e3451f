r"""The affine layers of a field, gates and candidates, by autograd: rows V = theta_0 + theta_x x + theta_h h.

B(t) = d log Pr/dV(t)          m = B^2: of the two metrics the unitwise outer products, eq. (55), for any architecture
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ctrnn import Affine, VectorField
from discretize.riemannian.network import Directions, Step, with_constant
from discretize.riemannian.rows import weighted_sum
from discretize.riemannian.symbols import SymbolModel, log_probability

__all__ = ["AffineLayers"]

AGREEMENT = 1e-3  # of gradients by rows and by autograd, of the largest; they differ by rounding, or wholly


class AffineLayers:
    """Raises: TypeError for a field with parameters besides those of `ctrnn.Affine`, ValueError without biases."""

    def __init__(self, field: VectorField) -> None:
        self.parts = [part for part in field.modules() if isinstance(part, Affine)]
        self.parameters: list[nn.Parameter] = [p for part in self.parts for p in part.parameters()]
        if any(part.input_size != field.input_size for part in self.parts):
            raise TypeError("`model` has a field in layers, of which the upper ones read no symbols; take `num_layers=1`.")
        others = {name for name, p in field.named_parameters() if all(p is not own for own in self.parameters)}
        if others or not self.parts:
            raise TypeError(
                f"`model` has a {type(field).__name__} with parameters that are no affine layer's ({', '.join(sorted(others))}); "
                "it trains by torch's optimizers, on `-model.log_likelihood(symbols)`."
            )
        if any(part.bias is None for part in self.parts):
            raise ValueError("`model` has a field with `bias=False`; the metrics need the unit that is always on.")

    def direction(self, model: SymbolModel, symbols: Tensor, chi: Tensor, step: Step) -> Directions:
        """By eqs. (25) and (55) for each layer. Raises: TypeError where weights are used in another way than these rows."""
        start = model.start.detach().expand(symbols.shape[1], -1).clone().requires_grad_()
        with torch.enable_grad(), ExitStack() as stack:
            calls = [stack.enter_context(_recorded(part)) for part in self.parts]
            logits = model.read_out(model.activities(symbols, start, fused=False))
            total = log_probability(logits, symbols, chi)
            rows = [V for of_part in calls for V, _ in of_part]
            wanted = [start, *self.parameters, *rows]
            at_start, *slopes = torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
        gradients: Directions = dict(zip(self.parameters, slopes, strict=False))
        values = iter(slopes[len(self.parameters) :])
        found: Directions = {model.start: step(at_start, at_start**2, torch.ones_like(at_start[:, :1]))[:, 0]}
        for part, of_part in zip(self.parts, calls, strict=True):
            inputs = self._inputs(part, [h for _, h in of_part], symbols[:-1].flatten(), chi)
            B = torch.cat([chi.new_zeros(0, part.projected_size), *(next(values) for _ in of_part)])
            _check(part, _split(part, weighted_sum(B, inputs)), gradients)
            found |= _split(part, step(B, B**2, inputs))
        return found

    def _inputs(self, part: Affine, states: list[Tensor], read: Tensor, like: Tensor) -> Tensor:
        h = torch.cat([like.new_zeros(0, part.hidden_size), *states]).detach()
        if len(h) != len(read):
            raise TypeError(f"{type(part).__name__} of `model` is computed {len(h)} times where {len(read)} symbols are read.")
        return with_constant(torch.cat([one_hot(read, part.input_size).to(h), h], -1))


def _split(part: Affine, theta: Tensor) -> Directions:
    assert part.bias is not None  # refused by the constructor
    constant, of_x, of_h = theta.split([1, part.input_size, part.hidden_size], -1)
    return {part.bias: constant[:, 0], part.weight_x: of_x, part.weight_h: of_h}


def _check(part: Affine, by_rows: Directions, gradients: Directions) -> None:
    for parameter, gradient in by_rows.items():
        if (gradient - gradients[parameter]).abs().max() > AGREEMENT * gradients[parameter].abs().max().clamp_min(1e-6):
            raise TypeError(f"{type(part).__name__} of `model` reads something else than the symbols and a state.")


@contextmanager
def _recorded(part: Affine) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """What `preactivation` gives while this is open, and the state it is given."""
    calls: list[tuple[Tensor, Tensor]] = []
    plain = part.preactivation

    def recording(projected: Tensor, h: Tensor) -> Tensor:
        calls.append((plain(projected, h), h))
        return calls[-1][0]

    part.preactivation = recording  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        del part.preactivation
