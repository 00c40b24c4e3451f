r"""The metrics that the recurrent ones stand for, of all weights of a symbol model's field and its start together.

    natural             M = sum_t S_t^T K_t S_t              S_t = dh_t/dtheta = A S_t-1 + P, all times before taken together
    recurrent-natural   M = sum_t P_t^T G_t+1 P_t            G_t = K_t + A^T G_t+1 A, each time's weights as if they were others

K_t = C^T (diag pi - pi pi^T) C is the Fisher metric of pi_t on states, C = dlogits/dh, A = dh_t+1/dh_t and P = dh_t+1/dtheta at
a given h_t. "rbpm" is recurrent-natural without what two units have together, at each step backwards. A matrix for all weights
costs their number squared at each time, and its cube to solve: they are references, for networks of some hundred weights, of
any field that torch.func can differentiate.

Source: Ollivier 2013, remark 9, definition 6, and eq. (47).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap
from torch.nn.functional import one_hot

from discretize.kernels.eligibility import Fused
from discretize.riemannian.network import PIECE, Directions
from discretize.riemannian.symbols import SymbolModel, log_probability
from discretize.sequences.unroll import unroll

__all__ = ["NATURAL", "natural_direction", "natural_metric"]

NATURAL = ("natural", "recurrent-natural")
ROUNDING = 1e-10  # of the largest eigenvalue: below it directions are taken as if they changed nothing


def natural_metric(model: SymbolModel, symbols: Tensor, chi: Tensor, metric: str, fused: Fused = True) -> Tensor:
    """Compute M of the field's parameters, as they come, and the start: symbols and mask (time, batch) -> (weights, weights)."""
    names = dict(model.field.named_parameters())
    read = one_hot(symbols, model.field.input_size).to(model.start)

    def following(weights: dict[str, Tensor], x: Tensor, h: Tensor) -> Tensor:
        found: Tensor = functional_call(model.cell, {f"field.{name}": w for name, w in weights.items()}, (x[None], h[None]))
        return found[0]

    def logits(h: Tensor) -> Tensor:
        found: Tensor = model.read_out(model.field.visible(h[None]))[0]
        return found

    batch, size, weights = symbols.shape[1], len(model.start), sum(p.numel() for p in names.values())
    states = unroll(model.cell, read, model.start.expand(batch, -1), fused).hs
    slopes = vmap(vmap(jacrev(following, (0, 2)), (None, 0, 0)), (None, 0, 0))
    read_outs = vmap(vmap(jacrev(logits)))
    M, S, G = (read.new_zeros(shape) for shape in ([weights + size] * 2, (batch, size, weights + size), (batch, size, size)))
    S[..., weights:] = torch.eye(size, device="cpu").to(read)
    pieces = torch.arange(len(read), device=read.device).split(PIECE)
    for piece in pieces if metric == "natural" else reversed(pieces):
        at = states[piece]
        P, A = slopes(names, read[piece], at)
        P = torch.cat([part.reshape(*part.shape[:3], -1) for part in P.values()], -1)
        P = torch.cat([P, P.new_zeros(*P.shape[:-1], size)], -1)
        C, pi = read_outs(at), model.read_out(model.field.visible(at)).softmax(-1)
        mean = (pi[..., None] * C).sum(-2, keepdim=True)
        K = chi[piece][..., None, None] * (C - mean).mT @ (pi[..., None] * (C - mean))
        if metric == "natural":
            for k, a, p in zip(K, A, P, strict=True):
                M += (S.mT @ k @ S).sum(0)
                S = a @ S + p
        else:
            for k, a, p in zip(K.flip(0), A.flip(0), P.flip(0), strict=True):
                M += (p.mT @ G @ p).sum(0)
                G = k + a.mT @ G @ a
    if metric == "recurrent-natural":
        M[weights:, weights:] += G.sum(0)
    return M


def natural_direction(
    model: SymbolModel, symbols: Tensor, chi: Tensor, counted: Tensor, metric: str, dampening: float, fused: Fused = True
) -> Directions:
    """Solve for the gradient by a pseudoinverse, weights in units of their own deviations.

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
    M = natural_metric(model, symbols, counted, metric, fused)
    M.diagonal().add_(dampening)
    squares = M.diagonal()
    scale = torch.where(squares > 0, squares, 1).rsqrt() * (squares > 0)
    rounding = max(ROUNDING, len(M) * torch.finfo(M.dtype).eps)
    step = scale * (torch.linalg.pinv(scale[:, None] * M * scale, hermitian=True, rtol=rounding) @ (scale * gradient))
    sizes = [p.numel() for p in parameters]
    return {p: part.view_as(p) for p, part in zip(parameters, step.split(sizes), strict=True)}
