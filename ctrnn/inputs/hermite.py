r"""A smooth path through samples that never looks ahead of the piece it is on: cubic Hermite, slopes by backward differences.

    m_k = (x_k - x_{k-1}) / (t_k - t_{k-1})     the slope at knot k;  m_0 = m_1

Piece k leaves with m_k and arrives with m_{k+1}, the slope of its own chord. So it is the chord and a bend that is over at
its end: with s the share of the piece that is behind,

    x(t) = (1 - s) x_k + s x_{k+1} + s (1 - s)^2 b_k,      b_k = m_k (t_{k+1} - t_k) - (x_{k+1} - x_k)

and its first piece is straight.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.along import Along, LinearAlong, Pieces, changed, gathered, only, over
from ctrnn.inputs.paths import LinearPath, MappedPath, Path, over_samples
from ctrnn.inputs.samples import stamped

__all__ = ["HermitePath"]


class HermitePath(Path):
    r"""Cubics through samples that stand at the knots; once differentiable. Causal: after x_k is known, so is piece k - 1.

    Args:    xs: samples, at least two; ts: (time,) their stamps, or (time, batch), for every sequence its own; they may
             require a gradient. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `LinearPath`, and for a piece so much longer than the one before it that its bend is
             not finite.
    Source:  torchcde 0.2.5, `hermite_cubic_coefficients_with_backward_differences`; Morrill, Kidger, Yang and Lyons 2022.
    """

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        xs, knots = stamped(xs, ts, "Hermite")
        self._lay(LinearPath.through(xs, knots))
        advice = f"in {xs.dtype}, knots so near to each other make slopes that reach too far"
        checks.is_finite("(x[k] - x[k-1]) / (t[k] - t[k-1])", self.bends, advice)

    def _lay(self, line: LinearPath) -> None:
        self.line, self.knots, self.xs = line, line.knots, line.xs
        self.bends = bends(line.xs, line.knots)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        share, bend = self.line.share(k, t)[0], self._bend(k)
        return self.line.at(k, t) + over_samples(share * (1 - share) ** 2, bend) * bend

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        (share, width), bend = self.line.share(k, t), self._bend(k)
        return self.line.slope(k, t) + over_samples((1 - share) * (1 - 3 * share) / width, bend) * bend

    def along(self, pieces: Pieces) -> Along:
        return HermiteAlong(LinearAlong(self.xs, self.knots, pieces), self.bends, pieces)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        if not affine:
            return MappedPath(self, f)
        mapped = HermitePath.__new__(HermitePath)
        mapped._lay(LinearPath.through(f(self.xs), self.knots))  # differences of what f gives: A x + b, without b
        return mapped

    def _bend(self, k: int | Tensor) -> Tensor:
        return self.bends[k] if isinstance(k, int) else self.bends[k.to(self.bends.device)]


class HermiteAlong(Along):
    """The chord and the bend."""

    def __init__(self, line: LinearAlong, bends: Tensor, pieces: Pieces) -> None:
        self.line, self.bends = line, gathered(bends, pieces)

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        bend, (share, _) = only(self.bends[j], rows), self.line.share(j, t, rows)
        return self.line.at(j, t, rows) + over(share * (1 - share) ** 2, bend) * bend

    def tensors(self, j: int) -> list[Tensor]:
        return [*self.line.tensors(j), self.bends[j]]

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        return changed(self, line=self.line.on(j, tensors[:2]), bends={j: tensors[2]})


def bends(xs: Tensor, knots: Tensor) -> Tensor:
    """b_k of every piece: (time, batch, feature), knots (time,) or (time, batch) -> (time - 1, batch, feature)."""
    rises, widths = xs.diff(dim=0), knots.diff(dim=0)
    # Ratios of widths, in float64, and not slopes: of knots an ulp apart these may be more than a float32 holds.
    longer = (widths[1:] / widths[:-1]).to(device=xs.device, dtype=xs.dtype)
    longer = longer[..., None] if longer.dim() > 1 else longer[:, None, None]
    return torch.cat([torch.zeros_like(rises[:1]), longer * rises[:-1] - rises[1:]])
