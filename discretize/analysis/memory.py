r"""How far back a network remembers: what the state, and a loss, still know of an earlier sample.

    state_jacobians    || dh_T / dh_k ||, or || dh_k / dh_0 ||     of states with respect to earlier ones
    input_gradients    || dL / dx_k ||                             of a loss of each sequence, with respect to its samples

Both hold for stepped and for solved networks. How they fall is a `decay_law`, see decay_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.fields.dropout import Dropout
from ctrnn.fields.field import check_field
from ctrnn.fields.noise import check_no_noise
from discretize.sequences.continuous import ContinuousRNN
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.zoneout import check_drawn

__all__ = ["input_gradients", "state_jacobians"]

ORDERS = ("fro", 2, "units")
ROWS = 8192  # of a batch, which share a call


def state_jacobians(
    rnn: DiscreteRNN | ContinuousRNN,
    xs: Tensor,
    h0: Tensor | None = None,
    ts: Tensor | None = None,
    *,
    fixed: str = "end",
    order: str | int = "fro",
) -> Tensor:
    r"""Compute norms of derivatives of states with respect to earlier ones, along each sequence.

    h_k is the whole state after k samples, h_0 the start. The matrices are products of the derivatives of the steps, or of
    the solves, from one sample to the next; solves end at samples here.

    Args:    rnn: a `DiscreteRNN` or `ContinuousRNN`; xs: sequences; h0: states to start from, 0 if not given; ts: edges of
             the samples, which take as long as in `rnn(xs)` if not given; fixed: "end", dh_T/dh_k for k = 0, ..., T, what the
             last state knows; or "start", dh_k/dh_0, what is still known of the start; order: of the norm, "fro", the root of
             the sum of squares, or 2, the largest singular value; or "units", each unit's by itself, the absolute values on the
             diagonal.
    Shape:   xs (time, batch, input), (batch, time, ..) if batch-first; h0 (batch, state); ts (time + 1,)
             -> (time + 1, batch), time first; (time + 1, batch, state) of units.
    Raises:  TypeError, ValueError for what does not fit, and for what drops at random, in training.
    Source:  Ohno and Kumagai 2021, secs. IV and V.
    """
    if not isinstance(rnn, DiscreteRNN | ContinuousRNN):
        raise TypeError(f"`rnn` must be a discretize.DiscreteRNN or ContinuousRNN, got {type(rnn).__name__}.")
    # With delays a state is not all that the next one knows.
    check_no_noise(check_field(rnn.field), "analysis", "state_jacobians")
    if any(isinstance(part, Dropout) and part.training and part.p + part.inputs > 0 for part in rnn.modules()):
        raise ValueError("`rnn` drops other units at each call, in training; there are derivatives of `rnn.eval()`.")
    if isinstance(rnn, DiscreteRNN):
        check_drawn(rnn.step)
    checks.one_of("fixed", fixed, ("end", "start"))
    if order not in ORDERS or isinstance(order, bool):
        raise ValueError(f"`order` must be 'fro', 2 or 'units', got {order!r}.")
    xs = _sequences(xs).detach()
    xs = xs.transpose(0, 1) if rnn.batch_first else xs
    edges = (
        getattr(rnn, "dt", 1.0) * torch.arange(len(xs) + 1.0, dtype=checks.time_dtype(xs.device), device=xs.device)
        if ts is None
        else checks.is_tensor("ts", ts)
    )
    if edges.shape != (len(xs) + 1,):
        raise ValueError(f"`ts` must be {len(xs) + 1} edges, (time + 1,), for {len(xs)} samples; got shape {tuple(edges.shape)}.")
    expected = (xs.shape[1], rnn.field.state_size)
    h0 = rnn.field.initial_state(xs.shape[1]) if h0 is None else checks.is_tensor("h0", h0).detach()
    if h0.shape != expected:
        raise ValueError(f"`h0` must be (batch, state) = {expected}, got shape {tuple(h0.shape)}.")
    states = _states(rnn, xs, h0, edges)
    product = torch.eye(rnn.field.state_size, dtype=states.dtype, device=states.device).expand(xs.shape[1], -1, -1)
    norms = [_norm(product, order)]
    for local in _jacobians(rnn, xs, states, edges, backwards=fixed == "end"):
        product = local @ product if fixed == "start" else product @ local
        norms.append(_norm(product, order))
    return torch.stack(norms if fixed == "start" else norms[::-1])


def input_gradients(
    model: nn.Module, xs: Tensor, loss: Callable[[Tensor], Tensor], ts: Tensor | None = None, lengths: Tensor | None = None
) -> Tensor:
    r"""Compute Euclidean norms of dL/dx_k, along each sequence.

    Args:    model: called model(xs), with `ts` and `lengths` where given, such as a `SequenceModel`; loss: of the model's
             outputs, a number for each sequence, (batch,), or their sum; xs: sequences.
    Shape:   xs (time, batch, features) -> (time, batch); axes as xs has them.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Ohno and Kumagai 2021, figures 1, 2 and 4.
    """
    checks.instance("model", model, nn.Module)
    xs = _sequences(xs).detach().requires_grad_()
    given = {name: value for name, value in {"ts": ts, "lengths": lengths}.items() if value is not None}
    with torch.enable_grad():
        losses = loss(model(xs, **given))
        if not isinstance(losses, Tensor) or losses.dim() > 1:
            came = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(f"`loss` must give a number for each sequence, (batch,), or their sum, got {came}.")
        (gradient,) = torch.autograd.grad(losses.sum(), xs)
    return gradient.norm(dim=-1)


def _sequences(xs: object) -> Tensor:
    samples = checks.is_tensor("xs", xs)
    if samples.dim() != 3 or 0 in samples.shape[:2] or not samples.is_floating_point():
        came = f"{samples.dtype}, {tuple(samples.shape)}"
        raise ValueError(f"`xs` must be floating point, (time, batch, features), with samples in it; got {came}.")
    return samples


def _norm(matrices: Tensor, order: str | int) -> Tensor:
    if order == "units":
        return matrices.diagonal(dim1=-2, dim2=-1).abs()
    return torch.linalg.matrix_norm(matrices, order)


@torch.no_grad()
def _states(rnn: DiscreteRNN | ContinuousRNN, xs: Tensor, h0: Tensor, edges: Tensor) -> Tensor:
    """(time + 1, batch, state): sample by sample where the output of a network is not its state, and where solves end there."""
    if isinstance(rnn, DiscreteRNN) and type(rnn.field).visible is VectorField.visible and rnn.hidden_size == h0.shape[-1]:
        hs = rnn(xs.transpose(0, 1) if rnn.batch_first else xs, h0[None], ts=edges)[0]
        return torch.cat([h0[None], hs.transpose(0, 1) if rnn.batch_first else hs])
    states = [h0]
    for k, x in enumerate(xs):
        states.append(_after(rnn, x, states[-1], edges[k : k + 2]))
    return torch.stack(states)


def _jacobians(rnn: DiscreteRNN | ContinuousRNN, xs: Tensor, states: Tensor, edges: Tensor, backwards: bool) -> Iterator[Tensor]:
    """Yield the Jacobian of the state after a sample by that before it, (batch, state, state), of one sample after the other."""
    together = max(1, ROWS // states[0].numel())
    for samples in torch.arange(len(xs), device="cpu").split(together)[:: -1 if backwards else 1]:
        jacobians = _block(rnn, xs[samples], states[samples], torch.stack([edges[samples], edges[samples + 1]]))
        yield from jacobians.flip(0) if backwards else jacobians


def _block(rnn: DiscreteRNN | ContinuousRNN, xs: Tensor, hs: Tensor, edges: Tensor) -> Tensor:
    """Compute several samples in one call, (time, batch, state, state): each state of each sequence once for every unit."""
    size = hs.shape[-1]
    before = hs.flatten(0, 1).repeat_interleave(size, 0).requires_grad_()
    with torch.enable_grad():
        after = _after(rnn, xs.flatten(0, 1).repeat_interleave(size, 0), before, edges.repeat_interleave(hs[0].numel(), 1))
        (rows,) = torch.autograd.grad(after.unflatten(0, (-1, size)).diagonal(dim1=1, dim2=2).sum(), before)
    return rows.unflatten(0, (*hs.shape[:2], size))


def _after(rnn: DiscreteRNN | ContinuousRNN, x: Tensor, h: Tensor, edges: Tensor) -> Tensor:
    """Edges (2,), or (2, batch)."""
    if rnn.batch_first:
        x, edges = x[:, None], edges.T if edges.dim() == 2 else edges
    else:
        x = x[None]
    return rnn(x, h[None], ts=edges)[1][0]
