r"""Zoneout: each step leaves some units where they were.

    training      h <- m h + (1 - m) step(h)        m = 1 with probability p, for each unit and step anew
    evaluation    h <- p h + (1 - p) step(h)        its expectation, given h

It belongs to steps: over n substeps a unit stays with probability p^n, and in the limit of short steps nothing of it is left but
a slower clock. So it is no field, and no method of `integrate`. (Dropout, which is one, is `ctrnn.parts.Dropout`.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from discretize.methods import checked_method
from discretize.steps.step import Step

__all__ = ["Zoneout", "check_drawn"]


class Zoneout(Step, nn.Module):
    r"""A step map that keeps each unit's state with probability p, in training; a module, for `train()` and `eval()`.

    Random numbers are torch's. No kernel has it.

    Args:    step: any step map; p: from 0 to 1, or several, for equal parts of the state: (0.05, 0.5) for h and c of an LSTM.
    Shape:   as `Step`.
    Raises:  TypeError, ValueError for what is no step or no probability, and for parts that the state does not have.
    Source:  Krueger et al. 2017, "Zoneout: regularizing RNNs by randomly preserving hidden activations".
    """

    # Of the step that is given.
    evaluations: int  # type: ignore[misc]
    tangents: int  # type: ignore[misc]
    jacobians: int  # type: ignore[misc]
    p: float | tuple[float, ...]

    order = 0  # its expectation is the step of a field that is slower by 1 - p

    def __init__(self, step: Step | str, p: float | Sequence[float]) -> None:
        nn.Module.__init__(self)
        self.step = step = checked_method(step, "step")
        several = isinstance(p, Sequence) and not isinstance(p, str)
        if several and not p:
            raise ValueError(f"`p` must be one probability or several, for equal parts of the state, got {p!r}.")
        self.p = tuple(checks.probability("p", part) for part in p) if several else checks.probability("p", p)  # type: ignore[arg-type, union-attr]
        self.evaluations, self.tangents = step.evaluations, step.tangents
        self.jacobians = step.jacobians

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        following, p = self.step.advance(field, projected, h, dt), self._of_units(h)
        if not self.training:
            return torch.lerp(following, h, p)
        return torch.where(torch.rand_like(h) < p, h, following)

    @property
    def draws(self) -> bool:  # type: ignore[override]
        return self.training and any(self._parts())

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        """Return the stability of the expected step at the smallest p, the worst case."""
        p = min(self._parts())
        return p + (1 - p) * self.step.stability(z, leak)

    def _of_units(self, h: Tensor) -> float | Tensor:
        """Return p for all units, or for each, (state,)."""
        parts = self._parts()
        if len(parts) == 1:
            return parts[0]
        if h.shape[-1] % len(parts):
            raise ValueError(f"`p` is for {len(parts)} equal parts of the state, which has {h.shape[-1]} units; give one number.")
        return torch.cat([h.new_full((h.shape[-1] // len(parts),), part) for part in parts])

    def _parts(self) -> tuple[float, ...]:
        return self.p if isinstance(self.p, tuple) else (self.p,)

    def __repr__(self) -> str:
        return f"Zoneout({self.step!r}, p={self.p})"


def check_drawn(step: Step | None) -> None:
    """Refuse a step that draws at each evaluation where its derivatives are asked for: each would be of another map."""
    if step is not None and step.draws:
        raise ValueError(f"{step!r} draws at each evaluation, in training; `step.eval()` has derivatives, of its expectation.")
