r"""Compute how likely a path of a field with noise is, and how much likelier than under another drift (Girsanov).

    log p(h_1, ..., h_n | h_0) = sum_k log N(h_k+1; h_k + F dt, G G^T dt)        Euler and Maruyama's transitions, F, G at h_k
    log p/q = int u dW - 1/2 int |u|^2 dt,    u = G^-1 (F - F_q)                  W is Brownian under q, G is that of both
    KL(p | q) = E_p 1/2 int |u|^2 dt                                              the starts apart

Integrals are Ito's, sums over the intervals of the path, so that the second line is to rounding the difference of two of the
first. The density is that of a path stepped by `EulerMaruyama` on the same times; of the equation it is as the intervals shrink.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.fields.field import check_field, check_input, check_state
from ctrnn.fields.noise import noise_channels

__all__ = ["path_divergence", "path_log_likelihood", "path_log_ratio"]

SAME = 1e-5  # of a unit's noise
ROUNDING = 16  # of a row of a triangle, in units in its last place


def path_log_likelihood(field: VectorField, xs: Tensor | None, hs: Tensor, ts: Tensor | None = None) -> Tensor:
    r"""Return log p(h_1, ..., h_n | h_0) of paths that were observed at times, to be learned by.

    Args:    field: with noise in each unit; xs: what it reads, held from one time to the next, None where it has no input; hs:
             the states; ts: their times, 0, 1, 2, ... if not given. All are differentiated.
    Shape:   xs (time, batch, input), hs (time + 1, batch, state), ts (time + 1,) or (time + 1, batch) -> (batch,).
    Raises:  TypeError, ValueError for what does not fit, and where G G^T is singular: there is no density.
    Source:  Kloeden and Platen 1992, sec. 10.2, for the transitions.
    """
    path = _Path(field, xs, hs, ts)
    noise = path.whitened(path.moved - path.drift(field) * path.dt)
    each = noise.square() / path.dt + (2 * math.pi * path.dt).log()
    return -(each / 2).sum((0, 2)) - path.log_det().sum(0)


def path_log_ratio(field: VectorField, other: VectorField, xs: Tensor | None, hs: Tensor, ts: Tensor | None = None) -> Tensor:
    r"""Return log p/q of paths: int u dW - 1/2 int |u|^2 dt, u = G^-1 (F - F_q), W Brownian under q.

    Args:    field: p, with noise in each unit; other: q, whose drift alone is read; noise that it has must be the same. It reads
             what the field does, or the first of its features: behind these may stand what a posterior knows. Others as for
             `path_log_likelihood`.
    Shape:   as for `path_log_likelihood` -> (batch,).
    Raises:  TypeError, ValueError likewise, and for two noises.
    Source:  Girsanov 1960.
    """
    path = _Path(field, xs, hs, ts)
    drift = path.drift(other)
    u = path.whitened(path.drift(field) - drift)
    return (u * path.whitened(path.moved - drift * path.dt) - u.square() * path.dt / 2).sum((0, 2))


def path_divergence(field: VectorField, other: VectorField, xs: Tensor | None, hs: Tensor, ts: Tensor | None = None) -> Tensor:
    r"""Return 1/2 int |u|^2 dt along paths of the field, whose mean is KL(p | q): of a posterior and its prior, say.

    That of `path_log_ratio` is the same, and noisier as a rule.

    Args, Shape, Raises:  as for `path_log_ratio`.
    Source:  Li, Wong, Chen and Duvenaud 2020, "Scalable gradients for stochastic differential equations", sec. 5.
    """
    path = _Path(field, xs, hs, ts)
    return (path.whitened(path.drift(field) - path.drift(other)).square() * path.dt).sum((0, 2)) / 2


class _Path:
    """Holds a path and what its noise was: the root of G G^T at the start of each interval, a diagonal or a lower triangle."""

    def __init__(self, field: VectorField, xs: Tensor | None, hs: Tensor, ts: Tensor | None) -> None:
        check_state(check_field(field), hs, "hs")
        if hs.dim() != 3 or len(hs) < 2:
            raise ValueError(f"`hs` must be (time + 1, batch, state), two times at least, got shape {tuple(hs.shape)}.")
        if not noise_channels(field):
            raise ValueError("The field has no noise, so its paths have no density; `ctrnn.Noisy(field, ctrnn.Noise(0.1))` has.")
        self.h, self.moved = hs[:-1], hs.diff(dim=0)
        self.xs = hs.new_zeros(*self.h.shape[:2], 0) if xs is None else xs
        check_input(field, self.xs, "xs")
        if self.xs.shape[:-1] != self.h.shape[:-1]:
            raise ValueError(
                f"`xs` is {tuple(self.xs.shape)} and `hs` {tuple(hs.shape)}; a path of {len(self.h)} intervals has as many "
                "samples, and one state more."
            )
        self.dt = _lengths(ts, hs)
        self.field = field
        self.g = field.diffusion(field.project(self.xs), self.h)
        self.root = self._root()

    def drift(self, field: VectorField) -> Tensor:
        """Return F of the field itself, or of another one with the same noise."""
        reads = check_field(field).input_size
        if field.state_size != self.field.state_size or reads > self.field.input_size:
            raise ValueError(
                f"`other` has {field.state_size} units and reads {reads} features, the field has {self.field.state_size} and "
                f"reads {self.field.input_size}: `other` needs as many units, and reads as many features or the first ones."
            )
        projected = field.project(self.xs[..., :reads])
        if field is not self.field and noise_channels(field):
            g = field.diffusion(projected, self.h)
            if g.dim() != self.g.dim() or not checks.holds(_same(g, self.g)):
                raise ValueError("`other` has another noise: no path has a density under both. Let them share a `ctrnn.Noise`.")
        return field.flow(projected, self.h)

    def whitened(self, moved: Tensor) -> Tensor:
        """Return G^-1 of changes of the state, for noises that are not square that of the root of G G^T."""
        if self.root.dim() == moved.dim():
            return moved / self.root
        return torch.linalg.solve_triangular(self.root, moved[..., None], upper=False)[..., 0]

    def log_det(self) -> Tensor:
        """Return half of log det G G^T, (time, batch)."""
        diagonal = self.root if self.root.dim() == self.h.dim() else self.root.diagonal(dim1=-2, dim2=-1)
        return diagonal.abs().log().sum(-1).expand(self.h.shape[:2])

    def _root(self) -> Tensor:
        state, where = self.field.state_size, "`path_log_likelihood` and its relatives need noise in each direction of the state"
        if self.g.dim() <= self.h.dim():
            factor = self.g.expand_as(self.h)
            if not checks.holds(factor != 0):
                unit = int((factor == 0).nonzero()[0, -1])
                raise ValueError(f"Unit {unit} has no noise, so its paths have no density; {where}.")
            return factor
        if self.g.shape[-1] < state:
            raise ValueError(f"{self.g.shape[-1]} Brownian motions drive {state} units: G G^T is singular; {where}.")
        one_for_all = not any(self.g.stride()[:-2])  # and factored once
        factor = torch.linalg.qr((self.g[:1, :1] if one_for_all else self.g).mT)[
            1
        ].mT  # of G^T, not of G G^T, which would square its condition
        sizes = factor.diagonal(dim1=-2, dim2=-1).abs()
        if not checks.holds(sizes > ROUNDING * state * torch.finfo(factor.dtype).eps * factor.norm(dim=-1)):
            raise ValueError(f"G G^T is singular; {where}.")
        return factor


def _same(one: Tensor, other: Tensor) -> Tensor:
    """Whether noises are the same but for rounding, relative to each unit's: (time, batch, state), perhaps with channels."""
    size = torch.maximum(one.abs(), other.abs())
    return (one - other).abs() <= SAME * (size.amax(-1, keepdim=True) if size.dim() > 3 else size)


def _lengths(ts: Tensor | None, hs: Tensor) -> Tensor:
    """Return the lengths of the intervals, (time, 1, 1) or (time, batch, 1)."""
    if ts is None:
        return hs.new_ones(len(hs) - 1, 1, 1)
    times = checks.are_stamps("ts", ts, 2)
    if times.shape not in ((len(hs),), hs.shape[:2]):
        raise ValueError(
            f"`ts` has shape {tuple(times.shape)}, and `hs` {len(hs)} states; give the time of each, ({len(hs)},) or "
            f"{tuple(hs.shape[:2])}."
        )
    return times.diff(dim=0).to(hs).reshape(len(hs) - 1, -1, 1)
