r"""The product form: dh/dt = rate(x, h) * (candidate(x, h) - decay(h)).

Warp the clock of its input by c(t) and the field is multiplied by c'(t): a rate is where c'(t) goes.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.decays import Decay, LinearDecay, PowerDecay
from ctrnn.fields.derivatives import jacobian_of_relaxation
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Part, affine, check_width, read_sizes
from ctrnn.fields.rates import RATES, SIGMOID, SOFTPLUS, FixedRate, Gate, InputFreeRate
from ctrnn.formulas import Published
from ctrnn.own_code import computes_as, described, nearest

__all__ = ["Relaxation", "relaxation_formula", "softplus_clock"]

# For type checkers: `ctrnn.gated(1, 32).rate` is a `GateRate`, which has a `bias`.
C_co = TypeVar("C_co", bound=Part, covariant=True)
R_co = TypeVar("R_co", bound=Part, covariant=True)

EXAMPLES = {
    "rate": "`ctrnn.parts.FixedRate(1.0)`",
    "decay": "`ctrnn.parts.PowerDecay(2.0)`",
    "candidate": "`ctrnn.parts.TanhCandidate(3, 5)`",
}


class Relaxation(VectorField, Generic[C_co, R_co]):
    r"""rate(x, h) * (candidate(x, h) - decay(h)): plain, leaky, gated, GRU and slow forgetting, by choice of parts.

    Args:    candidate: a `Part` that knows its `input_size` and `hidden_size`; rate: a `Part`; decay: a `Decay`.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError for what is not a part or a decay, or of another dtype; ValueError for other sizes or devices.
    Source:  Tallec and Ollivier 2018, eq. (7), and Ohno and Kumagai 2021, eq. (22), in one.
    """

    candidate: C_co
    rate: R_co
    decay: Decay

    def __init__(self, candidate: C_co, rate: R_co, decay: Decay) -> None:
        parts: list[tuple[str, nn.Module, type]] = [("candidate", candidate, Part), ("rate", rate, Part), ("decay", decay, Decay)]
        for name, part, kind in parts:
            checks.instance(name, part, kind, f"; make one, such as {EXAMPLES[name]}")
        super().__init__(*read_sizes("candidate", candidate, rate=rate, decay=decay))
        self.candidate, self.rate, self.decay = candidate, rate, decay
        checks.same_settings((name, part) for name, part, _ in parts)
        self._check_widths()

    @torch.no_grad()
    def _check_widths(self) -> None:
        h = self.initial_state(1)
        projected = self.project(h.new_zeros(1, self.input_size))
        pulled = self.candidate.flow(self._split(projected)[0], h)
        rate = self._rate(projected, h)
        for name, values in (("candidate", pulled), ("rate", rate)):
            check_width(name, values, h)

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.candidate.project(x), self.rate.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        to_candidate, to_rate = self._split(projected)
        return self.rate.flow(to_rate, h) * (self.candidate.flow(to_candidate, h) - self.decay(h))

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self._rate(projected, h) * self.decay.leak(h)

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        to_candidate, to_rate = self._split(projected)
        rate, decay_leak = self.rate.flow(to_rate, h), self.decay.leak(h)
        return rate * (self.candidate.flow(to_candidate, h) - self.decay(h)), rate * decay_leak

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        to_candidate, to_rate = self._split(projected)
        return (self.rate.flow(to_rate, h) * self.candidate.flow(to_candidate, h)).expand_as(h)

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        return self.decay.after(h, dt * self._rate(projected, at))

    def jacobian(self, projected: Tensor, h: Tensor) -> Tensor:
        """Return dF_i/dh_k from the derivatives of the parts, those of known ones in closed form."""
        if self.bandwidths is not None or "flow" in vars(self) or type(self).flow is not Relaxation.flow:
            return super().jacobian(projected, h)
        return jacobian_of_relaxation(self.candidate, self.rate, self.decay, *self._split(projected), h)

    def visible(self, state: Tensor) -> Tensor:
        return self.candidate.visible(state)

    @property
    def formula(self) -> str:
        return relaxation_formula(self.rate)

    @property
    def published(self) -> Published | None:
        """Return the recurrence that the candidate's paper prints, if it does, of the rate 1 and the decay h."""
        alone = computes_as(self.rate, FixedRate) and self.rate.alpha == 1 and computes_as(self.decay, LinearDecay)
        return getattr(self.candidate, "published", None) if alone else None

    def _rate(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.rate.flow(self._split(projected)[1], h)

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        candidate, rate = projected.split([self.candidate.projected_size, self.rate.projected_size], -1)
        return candidate, rate


def relaxation_formula(rate: Part, read: str = "h", pull: str = "{candidate} - {decay}") -> str:
    """Write dh/dt, and a second line for a learned rate; `read` names the state that the rate reads."""
    if computes_as(rate, FixedRate):
        return f"dh/dt = {pull}" if rate.alpha == 1 else f"dh/dt = {{rate}} ({pull})"
    if isinstance(rate, InputFreeRate):
        return f"dh/dt = alpha * ({pull})\nalpha = {{rate}}"
    return f"dh/dt = g * ({pull})\ng = {{rate:g|h={read}}}"


def softplus_clock(field: Relaxation) -> Relaxation:
    r"""Read every gate sigma(z) of a field as the rate softplus(z), with the same weights, which both share.

    Its unit exponential Euler step is the unit Euler step of `field`, and exact while the candidate stands still. A step of s
    units leaves (1 - sigma)^s of the way to a candidate that is held, as s unit steps do; where recurrence keeps the way it moves
    by 1 - (1 - sigma)^s of it, they by s sigma: so to run a trained cell at another sampling rate take unit steps,
    `DiscreteRNN(field, dt=s, substeps=s)`, and this clock only where nothing is timed. Training the one trains the other.

    Args:    field: a `Relaxation` with a sigmoid rate and the decay h, such as `plain`'s gated relatives and the GRU.
    Shape:   a field as `field`, whose parameters it shares.
    Raises:  TypeError, ValueError for a field that this identity is not about.
    Source:  docs/derivations.md, result 1.
    """
    if not computes_as(field, Relaxation):
        raise TypeError(f"`field` must be a ctrnn.Relaxation, rate * (candidate - decay), got {described(field, Relaxation)}.")
    linear = computes_as(field.decay, LinearDecay) or (computes_as(field.decay, PowerDecay) and field.decay.is_linear)
    if not linear:
        raise ValueError(f"`field` forgets by {field.decay!r}; sigma(z) = 1 - e^-softplus(z) is about the decay h.")
    return Relaxation(field.candidate, _as_softplus(field.rate), field.decay)


def _as_softplus(rate: Part) -> Part:
    kinds = dict(zip(RATES[SIGMOID], RATES[SOFTPLUS], strict=True))
    kind = nearest(rate, *kinds)
    if kind is None or not computes_as(rate, kind):
        known = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"`field` has the rate {type(rate).__name__}, which is no sigmoid; those are {known}.")
    # On no device: no memory is taken and no random number drawn for weights that are replaced at once.
    shared: Part
    if isinstance(rate, Gate):
        shared = kinds[kind](rate.input_size, rate.hidden_size, bias=rate.bias is not None, device="meta")
    else:
        shared = kinds[kind](1.0, device="meta")
    for name, parameter in rate.named_parameters():
        setattr(shared, name, parameter)
    return shared
