r"""The metrics that the recurrent ones stand for, of all weights of a symbol model's field and its start together.

    natural             M = sum_t S_t^T K_t S_t              S_t = dh_t/dtheta = A S_t-1 + P, all times before taken together
    recurrent-natural   M = sum_t P_t^T G_t+1 P_t            G_t = K_t + A^T G_t+1 A, each time's weights as if they were others

K_t = C^T (diag pi - pi pi^T) C is the Fisher metric of pi_t on states, C = dlogits/dh, A = dh_t+1/dh_t and P = dh_t+1/dtheta at
a given h_t. "rbpm" is recurrent-natural without what two units have together, at each step backwards. A matrix for all weights
costs their number squared at each time, and its cube to solve: they are references, for networks of some hundred weights, of
any field that torch.func can differentiate. Computed is R, M = R^T R, by rows of S and P, and the triangle of a QR of them.

Source: Ollivier 2013, remark 9, definition 6, and eq. (47).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap
from torch.nn.functional import one_hot

from discretize.kernels.eligibility import Fused
from discretize.riemannian.layers import rows_of
from discretize.riemannian.network import PIECE, Directions, network_of
from discretize.riemannian.rows import quotient
from discretize.riemannian.symbols import SymbolModel, log_probability
from discretize.riemannian.whitened import ReadRows, whitened_step
from discretize.sequences.unroll import unroll

__all__ = ["NATURAL", "natural_direction", "natural_root"]

NATURAL = ("natural", "recurrent-natural")


def natural_root(
    model: SymbolModel, symbols: Tensor, chi: Tensor, metric: str, fused: Fused = True
) -> tuple[Tensor, list[ReadRows]]:
    """Compute R of the field's parameters, as they come, and the start: symbols and mask (time, batch) -> (weights, weights); and
    the rows of these."""
    names = dict(model.field.named_parameters())
    read = one_hot(symbols, model.field.input_size).to(model.start)

    def following(weights: dict[str, Tensor], x: Tensor, h: Tensor) -> Tensor:
        roots: Tensor = functional_call(model.cell, {f"field.{name}": w for name, w in weights.items()}, (x[None], h[None]))
        return roots[0]

    def logits(h: Tensor) -> Tensor:
        roots: Tensor = model.read_out(model.field.visible(h[None]))[0]
        return roots

    batch, size, weights = symbols.shape[1], len(model.start), sum(p.numel() for p in names.values())
    states = unroll(model.cell, read, model.start.expand(batch, -1), fused).hs
    slopes = vmap(vmap(jacrev(following, (0, 2)), (None, 0, 0)), (None, 0, 0))
    read_outs = vmap(vmap(jacrev(logits)))
    R, S, L = (read.new_zeros(shape) for shape in ([weights + size] * 2, (batch, size, weights + size), (batch, size, size)))
    S[..., weights:] = torch.eye(size, device="cpu").to(read)
    rows_read = rows_of_weights(model)
    felt = chi.flip(0).cumsum(0).flip(0).roll(-1, 0) > 0  # steps after which something counts
    felt[-1:] = False
    pieces = torch.arange(len(read), device=read.device).split(PIECE)
    for piece in pieces if metric == "natural" else reversed(pieces):
        at = states[piece]
        P, A = slopes(names, read[piece], at)
        P = torch.cat([part.reshape(*part.shape[:3], -1) for part in P.values()], -1)
        P = torch.cat([P, P.new_zeros(*P.shape[:-1], size)], -1)
        rows_read = [(index, reach_of(P, felt[piece], index, span)) for index, span in rows_read]
        C, pi = read_outs(at), model.read_out(model.field.visible(at)).softmax(-1)
        mean = (pi[..., None] * C).sum(-2, keepdim=True)
        K = (chi[piece][..., None, None] * pi[..., None]).sqrt() * (C - mean)  # K^T K is the one above
        rows = [R]
        if metric == "natural":
            for k, a, p in zip(K, A, P, strict=True):
                rows.append((k @ S).flatten(0, 1))
                S = a @ S + p
        else:
            for k, a, p in zip(K.flip(0), A.flip(0), P.flip(0), strict=True):
                rows.append((L @ p).flatten(0, 1))
                L = triangle(torch.cat([k, L @ a], -2))  # L^T L = G
        R = triangle(torch.cat(rows))
    if metric == "recurrent-natural":
        R = triangle(torch.cat([R, torch.cat([L.new_zeros(batch, size, weights), L], -1).flatten(0, 1)]))
    return R, rows_read


def reach_of(P: Tensor, felt: Tensor, index: Tensor, before: float | Tensor | None) -> float | Tensor:
    """How far what rows read goes from 0, of P (time, batch, state, weights) where it is felt: the others' columns over the
    constant's. One that is known beforehand is kept."""
    if isinstance(before, float):
        return before
    slopes = P.abs().amax(2) * felt[..., None]
    reach = quotient(slopes[..., index[:, 1:]], slopes[..., index[:, :1]]).amax((0, 1))
    return reach if before is None else torch.maximum(reach, before)


def triangle(rows: Tensor) -> Tensor:
    """Return upper triangles R with R^T R = rows^T rows."""
    return torch.linalg.qr(rows, mode="r").R


def rows_of_weights(model: SymbolModel) -> list[ReadRows]:
    """Index the weights as `natural_root` has them by rows, those with a constant first of what one unit reads, (rows, k); every
    other weight, and each number of the start, is a row of its own. How far goes what is read is None where no one knows."""
    left, found, at = dict[Tensor, Tensor](), list[ReadRows](), 0
    for p in (*model.field.parameters(), model.start):
        left[p] = torch.arange(at, at + p.numel(), device=p.device).view_as(p)
        at += p.numel()
    network, of_layers = network_of(model.field), [rows for rows in rows_of(model.field) if rows.constant is not None]
    for rows in of_layers if network is None else [network.edges]:
        if all(p in left for p in rows.parameters):
            found.append((rows.stacked(left), rows.span))
            left = {p: index for p, index in left.items() if all(p is not own for own in rows.parameters)}
    return [*found, *((index.reshape(-1, 1), 1.0) for index in left.values())]


def natural_direction(
    model: SymbolModel, symbols: Tensor, chi: Tensor, counted: Tensor, metric: str, dampening: float, fused: Fused = True
) -> Directions:
    """Solve for the gradient by whitened.py, which leaves out what changes nothing to rounding.

    Args:    chi: the mask, 0 where nothing is to grow; counted: how much each time counts in the metric; dampening: added to
             the diagonal.
    Shape:   symbols, chi, counted (time, batch) -> as each parameter.
    """
    parameters, own = [*model.field.parameters(), model.start], chi.any(0)
    with torch.enable_grad():
        activities = model.activities(symbols[:, own], fused=fused)
        total = log_probability(model.read_out(activities), symbols[:, own], chi[:, own])
        slopes = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    gradient = torch.cat([part.flatten() for part in slopes])
    R, rows = natural_root(model, symbols, counted, metric, fused)
    if dampening:
        R = triangle(torch.cat([R, math.sqrt(dampening) * torch.eye(len(R), device="cpu").to(R)]))
    step = whitened_step(R, gradient, rows)
    sizes = [p.numel() for p in parameters]
    return {p: part.view_as(p) for p, part in zip(parameters, step.split(sizes), strict=True)}
