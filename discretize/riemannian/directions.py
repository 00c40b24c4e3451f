r"""Directions to move the weights of a symbol model in: gradients of its log-likelihood, as a metric has them.

    ruop   m = B^2, the recurrent unitwise outer product metric                 eq. (23)
    rbpm   m backpropagated, the recurrent backpropagated metric                eq. (24); not of AffineLayers

or without a metric, as baselines of rows.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discretize.kernels.eligibility import Fused
from discretize.riemannian.layers import AffineLayers
from discretize.riemannian.moduli import Backpropagated, backpropagated
from discretize.riemannian.network import Directions, network_of, with_constant
from discretize.riemannian.rows import BASELINES, REDUCTIONS
from discretize.riemannian.symbols import SymbolModel

__all__ = ["METRICS", "READ_OUTS", "read_out_direction", "transition_direction"]

METRICS = ("rbpm", "ruop", *BASELINES)
READ_OUTS = {"quasi": REDUCTIONS["quasi"], "diagonal": REDUCTIONS["diagonal"], "gradient": BASELINES["gradient"]}


@torch.no_grad()
def read_out_direction(
    model: SymbolModel, symbols: Tensor, chi: Tensor, activity: Tensor, reduction: str, dampening: float
) -> Directions:
    r"""Eqs. (17)-(21): by the quasi-diagonal or the diagonal inverse of minus the Hessian, or the gradient itself.

    Args:    activity: what the read-out reads of these symbols; dampening: times the frequency of each symbol (plus the
             machine's epsilon) is added to the diagonal, 1 in the paper.
    Shape:   symbols and the mask chi (time, batch), activity (time, batch, hidden) -> as each parameter.
    """
    pi = model.read_out(activity).softmax(-1)
    met = one_hot(symbols, pi.shape[-1]).to(pi)
    values = (chi[..., None] * (met - pi)).flatten(0, 1)
    moduli = (chi[..., None] * pi * (1 - pi)).flatten(0, 1)
    dampened = dampening * (met.mean((0, 1)) + torch.finfo(met.dtype).eps)
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
) -> Directions:
    r"""Eqs. (22)-(29), (34), (35); the start is moved as unit 0's weights for a symbol read before all others.

    Shape:   as `read_out_direction`.
    """
    row_step = BASELINES.get(metric, REDUCTIONS[reduction])

    def step(values: Tensor, moduli: Tensor, inputs: Tensor) -> Tensor:
        return row_step(values, moduli, inputs, values.new_full(values.shape[1:], dampening))

    network = network_of(model.field, fused)
    if network is None:
        return AffineLayers(model.field).direction(model, symbols, chi, step, fused)
    pi = model.read_out(activity).softmax(-1)
    back = backpropagated(network, model.read_out.weight, symbols, activity, pi, chi)
    if metric == "ruop":
        back = Backpropagated(back.values, back.values**2)
    # a(t) goes with B and m at t + 1; after the last symbol these are 0.
    kernel = network.engine(symbols, activity)[0] == "compiled"
    given = back.values[1:], back.moduli[1:], symbols[:-1], activity[:-1]
    found = network.edges.directions(row_step, dampening, *given, kernel)
    always_on = torch.ones_like(back.values[0, :, :1])
    return {**found, model.start: step(back.values[0], back.moduli[0], always_on)[:, 0]}
