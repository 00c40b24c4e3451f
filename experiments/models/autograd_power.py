r"""Writes the decay |h|^r h down as one would, and lets autograd differentiate it: for r < 1 its derivative at h = 0 is nan.

    d/dh |h|^r h  =  |h|^r + r |h|^(r-1) sign(h) h        0 + inf * 0 at h = 0, where the limit is 0

`ctrnn.parts.PowerDecay` has the limit.
"""

from __future__ import annotations

from torch import Tensor

from ctrnn import PowerDecay

__all__ = ["AutogradPower"]


class AutogradPower(PowerDecay):
    r"""Computes decay(h) = |h|^r h, with the derivative that autograd makes of `h.abs() ** r * h`.

    Args:    exponent: r >= 0, no unit.
    Shape:   h (..., hidden) -> (..., hidden).
    Source:  Ohno and Kumagai 2021, eq. (22), as one would write it in torch; this project.
    """

    def forward(self, h: Tensor) -> Tensor:
        return h.abs() ** self.exponent * h

    leak, after = PowerDecay.leak, PowerDecay.after  # both depend on the decay's values, which are the same
