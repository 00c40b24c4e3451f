r"""The named fields over a whole sequence, in plain torch: one function with a backward pass of its own.

What each step does is in torch_relaxations.py and torch_lstm.py. With q the cotangent of the state after a step, a the
arguments of candidate and gates, and W their weights on h

    da_n = q_n+1 dh_n+1/da_n        q_n = (hs)_n + q_n+1 C_n + da_n W        dW = sum over n of da_n^T h_n

where dh/da, and C, the derivative by h with a held, are elementwise: they are found for many steps at once, and what is
left to do one after the other is three calls of torch a step. What gradients the input and its weights have follows from da.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from discretize.fused import torch_lstm, torch_relaxations
from discretize.fused.kernel_spec import KernelSpec, Kind
from discretize.fused.torch_sweeps import Tensors
from discretize.steps.phi import phi

__all__ = ["cells", "flow_and_leak", "is_plain", "reference"]


def cells(recipe: KernelSpec, step: str, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int) -> Tensor:
    r"""The state after each sample, with gradients to samples, h0, weights and dt, and theirs by way of `reference`.

    Args:    recipe: the field; step: "euler" or "exponential"; dt: >= 0, the time a sample takes, in `substeps` equal steps;
             where it is 0 a state stays as it is, to the last bit.
    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1) of the state's
             dtype -> (time, batch, state).
    Source:  this project.
    """
    tensors = Tensors(xs, recipe.weight_x, recipe.bias, h0, recipe.weight_h, recipe.bias_h, recipe.rates, dt)
    if torch.is_grad_enabled() and any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors):
        states: Tensor = _Cells.apply(recipe.kind, step, substeps, *tensors)[0]
        return states
    with torch.no_grad():
        return _engine(recipe.kind).forward(recipe.kind, step, substeps, tensors, keep=False)[0]


def reference(
    kind: Kind,
    step: str,
    projected: Tensor,
    h0: Tensor,
    weight_h: Tensor,
    bias_h: Tensor | None,
    rates: Tensor | None,
    dt: float | Tensor,
    substeps: int,
) -> Tensor:
    """The same as `cells` from projected samples (time, batch, columns) on, in torch that differentiates itself."""
    h, states = h0, []
    length = dt / substeps
    lengths: Sequence[Any] = length.unbind(0) if isinstance(length, Tensor) else [length] * len(projected)
    for row, taken in zip(projected.unbind(0), lengths, strict=True):
        for _ in range(substeps):
            slope, leak = flow_and_leak(kind, row, h, weight_h, bias_h, rates)
            h = h + taken * (slope if step == "euler" else phi(1, -taken * leak) * slope)
        states.append(h)
    return torch.stack(states)


def flow_and_leak(
    kind: Kind, projected: Tensor, h: Tensor, weight_h: Tensor, bias_h: Tensor | None, rates: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What the field of that kind gives as `VectorField.flow_and_leak`."""
    hidden = weight_h.shape[1]
    if kind.candidate == "lstm":
        visible, cell = h.split(hidden, -1)
        i, f, g, o = (projected + linear(visible, weight_h)).split(hidden, -1)
        carried = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        slope = torch.cat([torch.sigmoid(o) * torch.tanh(carried) - visible, carried - cell], -1)
        return slope, torch.cat([torch.ones_like(visible), torch.sigmoid(-f)], -1)
    if kind.candidate == "reset":
        parts = [hidden, hidden, len(weight_h) - 2 * hidden]
        (to_reset, to_pull, to_gate), (reset, pull, gate) = projected.split(parts, -1), weight_h.split(parts)
        target = torch.tanh(to_pull + torch.sigmoid(to_reset + linear(h, reset)) * linear(h, pull, bias_h))
        z = to_gate + linear(h, gate)
    else:
        a, z = (projected + linear(h, weight_h)).split([hidden, len(weight_h) - hidden], -1)
        target = torch.tanh(a)
    rate = _rate(kind.rate, z) if rates is None else rates
    leak = torch.ones_like(h)
    if kind.exponent:
        at_rest = h == 0  # with the subgradient 0 of |h|^r there, as `PowerDecay`
        leak = torch.where(at_rest, torch.zeros_like(h), torch.where(at_rest, leak, h).abs() ** kind.exponent)
    return rate * (target - leak * h), rate * leak


def _rate(name: str, z: Tensor) -> Tensor:
    if name == "sigmoid":
        return torch.sigmoid(z)
    return torch.exp(z) if name == "exponential" else -logsigmoid(-z)


class _Cells(torch.autograd.Function):
    """The tensors of `cells` -> its states, and after them what the backward pass looks at."""

    @staticmethod
    def forward(kind: Kind, step: str, substeps: int, *tensors: Any) -> tuple[Tensor, ...]:
        return _engine(kind).forward(kind, step, substeps, Tensors(*tensors), keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.settings, ctx.number = inputs[:3], None if isinstance(inputs[-1], Tensor) else inputs[-1]
        ctx.set_materialize_grads(False)  # what is kept would get gradients full of zeros
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*(given if isinstance(given, Tensor) else None for given in inputs[3:]), *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        (kind, step, substeps), needed = ctx.settings, Tensors(*ctx.needs_input_grad[3:])
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        saved = ctx.saved_tensors  # asked for once: those of `torch.utils.checkpoint` are given once
        tensors, kept = Tensors(*saved[: len(needed)]), saved[len(needed) :]
        tensors = tensors if ctx.number is None else tensors._replace(dt=ctx.number)
        if torch.is_grad_enabled() or not is_plain(grad):
            return None, None, None, *_through_reference(kind, step, substeps, tensors, needed, grad)
        with torch.autocast(grad.device.type, enabled=False):
            return None, None, None, *_engine(kind).backward(kind, step, substeps, tensors, kept, grad, needed)


def _engine(kind: Kind) -> Any:
    return torch_lstm if kind.candidate == "lstm" else torch_relaxations


def is_plain(tensor: Tensor) -> bool:
    """Whether its values are there to be read and written: no tensor of a transform's, no subclass, no tangent on it."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        return False
    # What torch does not promise to tell. The second kind is that of `torch.autograd.grad(..., is_grads_batched=True)`.
    batched = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda _: False)
    return not getattr(torch._C, "_are_functorch_transforms_active", bool)() and not batched(tensor)


def _through_reference(
    kind: Kind, step: str, substeps: int, tensors: Tensors, needed: Tensors, grad: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients by differentiating `reference`: a graph of their own, if grad mode is on."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views of their own: one of the tensors may have been made of another, and that way is not ours to go.
        given = Tensors(*(tensor.view_as(tensor) if isinstance(tensor, Tensor) else tensor for tensor in tensors))
        sought = [tensor for tensor, need in zip(given, needed, strict=True) if need]
        projected = linear(given.xs, given.weight_x, given.bias)
        states = reference(kind, step, projected, *given[3:], substeps)
        found = iter(torch.autograd.grad(states, sought, grad, create_graph=again, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)
