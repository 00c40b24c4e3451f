r"""Backpropagated values and moduli of gated networks, all units and sequences at once.

    B_i(t) = carry B_i(t+1) + s'(V_i) (chi (w_ix - sum_y pi(y) w_iy) + sum_j tau_ijx B_j(t+1))                 (22)
    m_i(t) = s'(V_i)^2 (chi var_pi(w_i) + sum_j tau_ijx^2 m_j(t+1)) + carry (carry + 2 tau_iix s'(V_i)) m_i(t+1)   (24)

B is the derivative of log Pr in V_i(t). carry is 1 for GLNNs, where V_i(t+1) has V_i(t) in it, and 0 for GNNs; in (24) it is
the square of carry + tau_iix s', less what the sum over all j has of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discretize.riemannian import compiled
from discretize.riemannian.network import PIECE, Network

__all__ = ["Backpropagated", "backpropagated"]


@dataclass(frozen=True)
class Backpropagated:
    """Values B and moduli m of V at each time, (time, batch, hidden); at time 0 those of the state to start from."""

    values: Tensor
    moduli: Tensor


def backpropagated(
    network: Network, writing: Tensor, symbols: Tensor, activity: Tensor, pi: Tensor, chi: Tensor
) -> Backpropagated:
    r"""Eqs. (22) and (24), backwards from B = m = 0 after the last symbol.

    Shape:   writing weights (symbols, hidden); symbols, chi (time, batch); activity (time, batch, hidden); pi (time, batch,
             symbols) -> (time, batch, hidden) each.
    """
    edges, carry = network.edges, network.carry
    slope = edges.squash.slope(activity)
    if not network.on_v:
        slope[0] = 1  # the state at the start is the activity itself
    mean = pi @ writing
    surprise = chi[..., None] * (writing[symbols] - mean)
    variance = chi[..., None] * (pi @ writing**2 - mean**2).clamp_min(0)
    if network.engine(symbols, slope, surprise, variance)[0] == "compiled":
        return Backpropagated(*compiled.backpropagated(edges, network.carry, symbols, slope, surprise, variance))
    loops = edges.weight.masked_fill(~edges.loops, 0).sum(-1)[symbols]
    factor = torch.stack([slope, slope**2], -2)
    source = torch.stack([surprise, variance], -2) * factor
    kept = torch.stack([torch.full_like(slope, carry), carry * (carry + 2 * loops * slope)], -2)
    weights = torch.stack([edges.weight, edges.weight**2], 1)
    steps = _backwards(weights, edges.sources, symbols, source, kept, factor)
    values, moduli = steps.unbind(-2)
    return Backpropagated(values, moduli)


def _backwards(weights: Tensor, sources: Tensor, symbols: Tensor, source: Tensor, kept: Tensor, factor: Tensor) -> Tensor:
    """v(t) = source + kept v(t+1) + factor (sum over edges of weight v(t+1)): both recursions, (time, batch, 2, hidden)."""
    v, ends, (n, edges) = source[-1], sources.flatten(), sources.shape
    found = [v]
    for piece in reversed(torch.arange(len(source) - 1, device=sources.device).split(PIECE)):
        gathered = (part.flip(0).unbind() for part in (weights[symbols[piece]], source[piece], kept[piece], factor[piece]))
        for of_symbol, new, keep, slope in zip(*gathered, strict=True):
            edgewise = of_symbol * v[..., None]  # (batch, 2, hidden, edges)
            back = edgewise.sum(-2) if edges == n else torch.zeros_like(v).index_add_(-1, ends, edgewise.flatten(-2))
            v = torch.addcmul(torch.addcmul(new, keep, v), slope, back)
            found.append(v)
    return torch.stack(found).flip(0)
