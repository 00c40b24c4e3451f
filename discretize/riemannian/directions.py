r"""Directions to move the weights of a symbol model in: gradients of its log-likelihood, as a metric has them.

    ruop   m = B^2, the recurrent unitwise outer product metric                 eq. (23)
    rbpm   m backpropagated, the recurrent backpropagated metric                eq. (24); not of AffineLayers

or by the metrics of natural.py, of all weights together, or without one, as baselines of rows.py. Of gated networks, all units
and sequences at once,

    B_i(t) = carry B_i(t+1) + s'(V_i) (chi (w_ix - sum_y pi(y) w_iy) + sum_j tau_ijx B_j(t+1))                 (22)
    m_i(t) = s'(V_i)^2 (chi var_pi(w_i) + sum_j tau_ijx^2 m_j(t+1)) + carry (carry + 2 tau_iix s'(V_i)) m_i(t+1)   (24)

B is the derivative of log Pr in V_i(t). carry is 1 for GLNNs, where V_i(t+1) has V_i(t) in it, and 0 for GNNs; in (24) it is
the square of carry + tau_iix s', less what the sum over all j has of it.

What keeps a matrix from being singular is a number on its diagonal, or the same metric on other sequences times a number, which
is as invariant as the metric itself (footnote 11): these stand beside the others, the last ones of the batch, `beside` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discretize.kernels.eligibility import Fused
from discretize.riemannian import compiled
from discretize.riemannian.layers import AffineLayers
from discretize.riemannian.natural import NATURAL, natural_direction
from discretize.riemannian.network import PIECE, Directions, Network, network_of, with_constant
from discretize.riemannian.rows import BASELINES, REDUCTIONS
from discretize.riemannian.symbols import SymbolModel

__all__ = ["METRICS", "READ_OUTS", "Backpropagated", "backpropagated", "read_out_direction", "transition_direction"]


@dataclass(frozen=True)
class Backpropagated:
    """Values B and moduli m of V at each time, (time, batch, hidden); at time 0 those of the state to start from."""

    values: Tensor
    moduli: Tensor


def backpropagated(
    network: Network, writing: Tensor, symbols: Tensor, activity: Tensor, pi: Tensor, chi: Tensor
) -> Backpropagated:
    r"""Compute eqs. (22) and (24), backwards from B = m = 0 after the last symbol.

    Shape:   writing weights (symbols, hidden); symbols, chi (time, batch); activity (time, batch, hidden); pi (time, batch,
             symbols) -> (time, batch, hidden) each.
    """
    edges, carry = network.edges, network.carry
    slope = edges.squash.slope(activity)
    if not network.on_v:
        slope[0] = 1  # the state at the start is the activity itself
    writing = writing - writing.mean(0)  # what a unit adds to all symbols alike changes nothing, and would take the digits below
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
    moduli = [v]
    for piece in reversed(torch.arange(len(source) - 1, device=sources.device).split(PIECE)):
        gathered = (part.flip(0).unbind() for part in (weights[symbols[piece]], source[piece], kept[piece], factor[piece]))
        for of_symbol, new, keep, slope in zip(*gathered, strict=True):
            edgewise = of_symbol * v[..., None]  # (batch, 2, hidden, edges)
            back = edgewise.sum(-2) if edges == n else torch.zeros_like(v).index_add_(-1, ends, edgewise.flatten(-2))
            v = torch.addcmul(torch.addcmul(new, keep, v), slope, back)
            moduli.append(v)
    return torch.stack(moduli).flip(0)


METRICS = ("rbpm", "ruop", *NATURAL, *BASELINES)
READ_OUTS = {"quasi": REDUCTIONS["quasi"], "diagonal": REDUCTIONS["diagonal"], "gradient": BASELINES["gradient"]}


def shares(chi: Tensor, dampening: float, beside: int) -> tuple[Tensor, Tensor, float]:
    """Return how much each sequence counts in gradients and in metrics, (batch,), and what is added to the diagonals."""
    own = chi.new_ones(chi.shape[1])
    if not beside:
        return own, own, dampening
    own[-beside:] = 0
    return own, own + dampening * (1 - own), 0.0


@torch.no_grad()
def read_out_direction(
    model: SymbolModel, symbols: Tensor, chi: Tensor, activity: Tensor, reduction: str, dampening: float, beside: int = 0
) -> Directions:
    r"""Compute eqs. (17)-(21): by the quasi-diagonal or the diagonal inverse of minus the Hessian, or the gradient itself.

    Args:    activity: what the read-out reads of these symbols; dampening: times the frequency of each symbol (plus the
             machine's epsilon) is added to the diagonal, 1 in the paper; beside: so many of the sequences, the last ones,
             have no gradient, and their metric times `dampening` is added to that of the others, and nothing to the diagonal.
    Shape:   symbols and the mask chi (time, batch), activity (time, batch, hidden) -> as each parameter.
    """
    pi = model.read_out(activity).softmax(-1)
    met = one_hot(symbols, pi.shape[-1]).to(pi)
    own, counted, constant = shares(chi, dampening, beside)
    values = ((chi * own)[..., None] * (met - pi)).flatten(0, 1)
    moduli = ((chi * counted)[..., None] * pi * (1 - pi)).flatten(0, 1)
    dampened = constant * (met.mean((0, 1)) + torch.finfo(met.dtype).eps)
    step = READ_OUTS[reduction](values, moduli, with_constant(activity.flatten(0, 1)), dampened)
    return {model.read_out.bias: step[:, 0], model.read_out.weight: step[:, 1:]}


@torch.no_grad()
def transition_direction(
    model: SymbolModel,
    symbols: Tensor,
    chi: Tensor,
    activity: Tensor,
    metric: str,
    reduction: str,
    dampening: float,
    fused: Fused = True,
    beside: int = 0,
) -> Directions:
    r"""Compute eqs. (22)-(29), (34), (35); the start is moved as unit 0's weights for a symbol read before all others.

    Args, Shape:   as `read_out_direction`; `reduction` is not of the metrics of natural.py.
    """
    own, counted, constant = shares(chi, dampening, beside)
    if metric in NATURAL:
        return natural_direction(model, symbols, chi * own, chi * counted, metric, constant, fused)
    row_step = BASELINES.get(metric, REDUCTIONS[reduction])

    def step(values: Tensor, moduli: Tensor, inputs: Tensor) -> Tensor:
        often = len(values) // len(own)  # samples of all sequences, time by time
        values, moduli = values * own.repeat(often)[:, None], moduli * counted.repeat(often)[:, None]
        return row_step(values, moduli, inputs, values.new_full(values.shape[1:], constant))

    network = network_of(model.field, fused)
    if network is None:
        return AffineLayers(model.field).direction(model, symbols, chi, step, fused)
    pi = model.read_out(activity).softmax(-1)
    back = backpropagated(network, model.read_out.weight, symbols, activity, pi, chi)
    if metric == "ruop":
        back = Backpropagated(back.values, back.values**2)
    # a(t) goes with B and m at t + 1; after the last symbol these are 0.
    kernel = network.engine(symbols, activity)[0] == "compiled"
    given = back.values[1:] * own[:, None], back.moduli[1:] * counted[:, None], symbols[:-1], activity[:-1]
    found = network.edges.directions(row_step, constant, *given, kernel)
    always_on = torch.ones_like(back.values[0, :, :1])
    return {**found, model.start: step(back.values[0], back.moduli[0], always_on)[:, 0]}
