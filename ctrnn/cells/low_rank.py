r"""The few variables of a network of low rank, W = M N^T: what its units do along the columns of M, without the units.

rate form   tau dr/dt = -r + f(Wx x + M N^T r + b)    k = N^T r        tau dk/dt = -k + N^T f(Wx x + b + M k)
additive    tau dv/dt = -v + Wx x + M N^T r(v) + b    v = M k + Wx u + b
                                                      tau dk/dt = -k + N^T r(M k + Wx u + b),   tau du/dt = -u + x
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn import checks
from ctrnn.fields.candidates import AdditiveCandidate
from ctrnn.fields.connectivity import LowRank
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.field import VectorField, check_field, check_state
from ctrnn.fields.parts import Affine
from ctrnn.fields.rates import InputFreeRate
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as

__all__ = ["LowRankReduction"]


class LowRankReduction(VectorField):
    r"""A network of low rank by its variables k, and for the additive form the low-passed input u: the same weights, exactly.

    In the rate form every state has its k = N^T r, for any input. In the additive form states that are M k + Wx u + b stay so,
    and from others the difference falls as e^(-t/tau).

    Args:    field: `ctrnn.leaky`, `plain` or `additive`, with one time constant for all units, whose `weight_h` has a
             `ctrnn.parts.LowRank` and nothing after it.
    Shape:   x (..., input), [k, u] (..., rank or rank + input) -> the same.
    Raises:  TypeError for a field of which this is not exact, with the reason.
    Source:  Mastrogiuseppe and Ostojic 2018, "Linking connectivity, dynamics, and computations in low-rank recurrent neural
             networks"; Dubreuil, Valente, Beiran, Mastrogiuseppe and Ostojic 2022, "The role of population structure".
    """

    field: Relaxation
    m: nn.Parameter
    n: nn.Parameter

    def __init__(self, field: VectorField) -> None:
        candidate = _checked(check_field(field))
        low_passed = candidate.input_size if isinstance(candidate, AdditiveCandidate) else 0
        kept: Any = candidate.parametrizations.weight_h  # type: ignore[union-attr]
        super().__init__(candidate.input_size, kept.original0.shape[1] + low_passed)
        self.field, self.m, self.n = field, kept.original0, kept.original1  # type: ignore[assignment]

    @property
    def _candidate(self) -> Affine:
        return self.field.candidate

    def project(self, x: Tensor) -> Tensor:
        return x if isinstance(self._candidate, AdditiveCandidate) else self._candidate.project(x)

    def flow(self, projected: Tensor, state: Tensor) -> Tensor:
        k, u = self._split(state)
        alpha = self.field.rate.flow(projected[..., :0], k)
        if isinstance(self._candidate, AdditiveCandidate):
            rates = self._candidate.rates(k @ self.m.mT + self._candidate.project(u))
            return alpha * (torch.cat([rates @ self.n, projected], -1) - state)
        return alpha * (self._candidate.function(projected + k @ self.m.mT) @ self.n - state)

    def states(self, reduced: Tensor) -> Tensor:
        r"""Return v = M k + Wx u + b of an additive network: (..., rank + input) -> (..., hidden)."""
        if not isinstance(self._candidate, AdditiveCandidate):
            raise TypeError(
                "`states` needs an additive network: in the rate form k = N^T r does not say what r is, but where k rests; "
                "solve the whole field for it."
            )
        k, u = self._split(reduced)
        return k @ self.m.mT + self._candidate.project(u)

    def reduced(self, states: Tensor) -> Tensor:
        r"""Return k = N^T r, or [k, u] with M k + Wx u + b = v, of states (..., hidden).

        Raises:  ValueError for potentials that are no such sum.
        """
        check_state(self.field, states, "states")
        if not isinstance(self._candidate, AdditiveCandidate):
            return states @ self.n
        columns = torch.cat([self.m, self._candidate.weight_x], -1)
        bias = self._candidate.project(states.new_zeros(self._candidate.input_size))
        solution = torch.linalg.lstsq(columns, (states - bias).reshape(-1, len(self.m)).mT).solution.mT.reshape(
            *states.shape[:-1], -1
        )
        off = (self.states(solution) - states).abs()
        terms = states.abs() + bias.abs() + solution.abs() @ columns.abs().mT  # of each unit of each state
        # A unit's own size: of this state, or the median over all where it is nearly at 0 here, which no far state moves.
        size = torch.maximum(terms, terms.reshape(-1, terms.shape[-1]).median(0).values) if terms.numel() else terms
        if not checks.holds((off <= 1e3 * torch.finfo(states.dtype).eps * size).all()):
            raise ValueError(
                f"`states` are up to {float(off.detach().max()):.2g} from M k + Wx u + b; the two agree only where that is 0, "
                "or once e^(-t/tau) is."
            )
        return solution

    def _split(self, state: Tensor) -> tuple[Tensor, Tensor]:
        rank = self.m.shape[1]
        return state[..., :rank], state[..., rank:]


def _checked(field: VectorField) -> Affine:
    """Return the candidate of a field that has this reduction. Raises: TypeError with the reason for others."""
    kind, why = type(field).__name__, None
    if not computes_as(field, Relaxation) or not isinstance(field.candidate, Affine) or _reads_otherwise(field.candidate):
        raise TypeError(f"`field` must be a leaky, plain or additive network, got a {kind}, whose units are read in other ways.")
    h = field.initial_state(1)
    is_constrained = parametrize.is_parametrized(field.candidate, "weight_h")
    constraints: Any = field.candidate.parametrizations.weight_h if is_constrained else ()  # type: ignore[union-attr]
    if [type(part) for part in constraints] != [LowRank]:
        why = "whose `weight_h` is not a `ctrnn.parts.LowRank` and nothing else; constraints after it take the rank away"
    elif not isinstance(field.rate, InputFreeRate) or field.rate.flow(h[..., :0], h).numel() != 1:
        why = "whose units have rates of their own; k has one time constant only if all units share it"
    elif not computes_as(field.decay, LinearDecay):
        why = "whose decay is not linear"
    if why:
        raise TypeError(f"`field` is a {kind} {why}.")
    return field.candidate


def _reads_otherwise(candidate: Affine) -> bool:
    kinds = Affine.preactivation, AdditiveCandidate.preactivation
    return candidate.overrides_flow or type(candidate).preactivation not in kinds or "preactivation" in vars(candidate)
