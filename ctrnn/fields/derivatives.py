r"""Derivatives of parts in the state: in closed form where a function of each unit stands around Wx x + Wh h + b.

    part_i = f(a_i), a = Wx x + Wh h + b       d part_i / dh_k = f'(a_i) Wh_ik

f' comes from one derivative in forward mode, along all units at once, and so of the GRU's candidate those of its two functions.
Of a part of other code it is one along each unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import torch
from torch import Tensor

from ctrnn.fields.candidates import FunctionCandidate, ReluCandidate, ResetCandidate, TanhCandidate
from ctrnn.fields.decays import Decay, LinearDecay, PowerDecay
from ctrnn.fields.nonlinearities import function_named
from ctrnn.fields.parts import Affine, Part
from ctrnn.fields.rates import RATES, FixedRate
from ctrnn.forward import jacobian_of, jvp
from ctrnn.own_code import computes_as

__all__ = ["jacobian_of_relaxation"]

CONSTANT: tuple[type[Part], ...] = (FixedRate, *(constant for constant, _, _ in RATES.values()))
UNITWISE: tuple[type[Affine], ...] = (
    TanhCandidate,
    ReluCandidate,
    FunctionCandidate,
    *(gate for _, *gates in RATES.values() for gate in gates),
)


def jacobian_of_relaxation(candidate: Part, rate: Part, decay: Decay, to_candidate: Tensor, to_rate: Tensor, h: Tensor) -> Tensor:
    r"""Compute dF_i/dh_k = rate_i (candidate_ik - decay_ik) + (candidate_i - decay_i) rate_ik, itself differentiable.

    Shape:   to_candidate, to_rate (..., projected), h (..., hidden) -> (..., hidden, hidden).
    """
    rates = rate.flow(to_rate, h)
    found = _times_jacobian(rates, candidate, to_candidate, h)
    if not computes_as(rate, *CONSTANT):
        found = found + _times_jacobian(candidate.flow(to_candidate, h) - decay(h), rate, to_rate, h)
    found = found.expand(*h.shape, h.shape[-1])
    if not computes_as(decay, LinearDecay, PowerDecay):
        return found - rates.unsqueeze(-1) * jacobian_of(decay, h)
    diagonal = found.diagonal(dim1=-2, dim2=-1) - rates * _slopes(decay, h)
    return torch.diagonal_scatter(found, diagonal, 0, -2, -1)


def _times_jacobian(factor: Tensor, part: Part, projected: Tensor, h: Tensor) -> Tensor:
    """Compute factor_i d part_i / dh_k, as it broadcasts to (..., hidden, hidden)."""
    if _is_unitwise(part):
        slopes = _slopes(part.function, part.preactivation(projected, h))
        return (factor * slopes).unsqueeze(-1) * part.weight_h
    if computes_as(part, ResetCandidate) and computes_as(part.reset, Affine) and computes_as(part.pull, Affine):
        to_reset, to_pull = projected.chunk(2, -1)
        opened, pulled = part.reset.flow(to_reset, h), part.recurrent(h)
        reset = torch.sigmoid(opened)
        factor = factor * _slopes(torch.tanh, to_pull + reset * pulled)
        by_reset = (factor * pulled * _slopes(torch.sigmoid, opened)).unsqueeze(-1) * part.reset.weight_h
        return (factor * reset).unsqueeze(-1) * part.pull.weight_h + by_reset
    return factor.unsqueeze(-1) * jacobian_of(lambda u: part.flow(projected, u), h)


def _is_unitwise(part: Part) -> TypeGuard[Affine]:
    """Return whether a part applies a function of this project to each unit: one of a user's might mix them."""
    if not any(computes_as(part, kind) for kind in UNITWISE):
        return False
    if isinstance(part, FunctionCandidate):
        return isinstance(part.nonlinearity, str) and part.applied is function_named(part.nonlinearity)
    return "activation" not in vars(part)


def _slopes(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    slopes: Tensor = jvp(function, (at,), (torch.ones_like(at),))[1]
    return slopes
