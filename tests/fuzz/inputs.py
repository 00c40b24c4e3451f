r"""Inputs and clocks as NumPy and SciPy read them, and as ctrnn's paths; a second reading of the formulas, by piece.

held      x_k                                     linear    from x_k to x_k+1
hermite   the cubic that leaves with the slope of the piece before it (the first piece is straight)
spline    the natural cubic                       function  x_0 sin(phase t) + x_1
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from fuzz.dice import Dice
from scipy.interpolate import CubicSpline
from torch import Tensor

import ctrnn

__all__ = ["Clock", "Signal"]

KINDS = {"held": ctrnn.HeldPath, "linear": ctrnn.LinearPath, "hermite": ctrnn.HermitePath}


@dataclass
class Signal:
    """Samples (count, batch, feature) at stamps, (n,), or (n, batch) where every sequence has its own."""

    kind: str
    xs: Tensor
    stamps: Tensor
    phase: float

    @classmethod
    def drawn(cls, dice: Dice, batch: int, features: int, dtype: torch.dtype, own: bool) -> Signal:
        pieces = dice.count("pieces", 1, 5)
        kind = dice.one_of("input", list(KINDS) if own else [*KINDS, *KINDS, "function", "spline"])
        stamps = dice.times(pieces + 1, *([batch] if own else []), least=1e-3, mean=0.5)
        xs = dice.normal(pieces + (kind != "held"), batch, features, dtype=dtype) * dice.number(0.3, 2.0)
        return cls(kind, xs, stamps, dice.number(0.5, 3.0))

    @property
    def own(self) -> bool:
        return self.stamps.dim() > 1

    def path(self, xs: Tensor, stamps: Tensor) -> Any:
        if self.kind == "function":
            interval = (float(stamps[0]), float(stamps[-1]))
            return ctrnn.FunctionPath(lambda t: xs[0] * torch.sin(self.phase * t).to(xs) + xs[1], interval, xs.shape[-1])
        if self.kind == "spline":
            import torchcde  # noqa: PLC0415 - an extra

            by_sequence = xs.transpose(0, 1)
            return torchcde.CubicSpline(torchcde.natural_cubic_coeffs(by_sequence, stamps.to(xs)), stamps.to(xs))
        return KINDS[self.kind](xs, stamps)

    def one(self, b: int) -> Signal:
        """Of one sequence, with its stamps."""
        return replace(self, xs=self.xs[:, b : b + 1], stamps=self.stamps[:, b] if self.own else self.stamps)

    def reader(self) -> Any:
        """(k, t) -> (batch, feature): on the piece from stamps[k] on, where all have the same stamps."""
        x, stamps = self.xs.detach().double().numpy(), self.stamps.detach().numpy()
        spline = CubicSpline(stamps, x, bc_type="natural") if self.kind == "spline" and len(stamps) > 2 else None

        def at(k: int, t: float) -> np.ndarray:
            length = stamps[k + 1] - stamps[k]
            s = (t - stamps[k]) / length
            if self.kind == "held":
                return x[k]
            if self.kind == "function":
                return x[0] * np.sin(self.phase * t) + x[1]
            if spline is not None:
                return spline(t)
            straight = (1 - s) * x[k] + s * x[k + 1]
            if self.kind == "hermite" and k > 0:
                before = (x[k] - x[k - 1]) / (stamps[k] - stamps[k - 1])
                return straight + s * (1 - s) ** 2 * (before * length - (x[k + 1] - x[k]))
            return straight

        return at


@dataclass
class Clock:
    """c(t), whose speed is speeds[k] from ts[k] on, or of a formula; `speed` multiplies the field, and the input is read at c(t),
    or at t where the clock is one of the field alone."""

    kind: str
    ts: np.ndarray
    cs: np.ndarray
    wave: tuple[float, ...] = ()
    warps: bool = True

    @classmethod
    def drawn(cls, dice: Dice, stamps: Tensor) -> Clock:
        start, end = float(stamps[0]), float(stamps[-1])
        kind = dice.one_of("clock", ["none", "none", "affine", "piecewise", "function", "straight", "smooth"])
        if kind == "affine":
            speed, offset = dice.number(0.4, 2.5), dice.number(-1, 1)
            return cls(kind, np.array([start - offset, end - offset]) / speed, np.array([start, end]), (speed, offset))
        if kind == "piecewise":
            corners = np.sort(dice.rng.uniform(0.1, 0.9, 2)) * (end - start) + start
            cs = np.array([start, *corners, end])
            ts = np.concatenate([[0.0], np.cumsum(np.diff(cs) / dice.rng.uniform(0.3, 3.0, 3))]) + dice.number(-1, 1)
            return cls(kind, ts, cs)
        same = np.array([start, end])
        if kind == "function":  # of the field alone, and smooth
            return cls(kind, same, same, (dice.number(0.1, 0.8), dice.number(0.5, 3.0)), warps=False)
        if kind == "straight":
            knots = np.array([start, *np.sort(dice.rng.uniform(start, end, 2)), end])
            return cls(kind, knots, knots, tuple(dice.rng.uniform(0.1, 2.0, 4)), warps=False)
        if kind == "smooth":  # [0, D] onto itself: for inputs that begin at 0, so the stamps are moved there
            return cls(kind, same, same, tuple(dice.rng.uniform(-0.2, 0.2, 4)))
        return cls(kind, same, same)

    def at(self, t: float) -> float:
        if not self.warps or self.kind == "none":
            return t
        if self.kind == "smooth":
            duration, total = self.ts[-1], t
            for k, (a, b) in enumerate(((self.wave[0], self.wave[1]), (self.wave[2], self.wave[3])), 1):
                w = 2 * np.pi * k / duration
                total += (a * np.sin(w * t) + b * (1 - np.cos(w * t))) / w
            return float(total)
        return float(np.interp(t, self.ts, self.cs))

    def speed_at(self, k: int, t: float) -> float:
        """On the piece from ts[k] on."""
        if self.kind == "function":
            return 1 + self.wave[0] * np.sin(self.wave[1] * t)
        if self.kind == "straight":
            share = (t - self.ts[k]) / (self.ts[k + 1] - self.ts[k])
            return (1 - share) * self.wave[k] + share * self.wave[k + 1]
        if self.kind == "smooth":
            pairs = ((self.wave[0], self.wave[1]), (self.wave[2], self.wave[3]))
            phases = [2 * np.pi * k / self.ts[-1] * t for k in (1, 2)]
            return 1 + sum(a * np.cos(p) + b * np.sin(p) for (a, b), p in zip(pairs, phases, strict=True))
        return (self.cs[k + 1] - self.cs[k]) / (self.ts[k + 1] - self.ts[k])

    def given(self, path: Any, speeds: Tensor | None) -> tuple[Any, Any]:
        """The path as it is played, and the `speed` of `integrate`."""
        if self.kind == "none":
            return path, None
        if self.kind == "function":
            return path, lambda t: 1 + self.wave[0] * torch.sin(self.wave[1] * t)
        if self.kind == "straight":
            return path, ctrnn.LinearPath(speeds[:, None, None], torch.from_numpy(self.ts))
        if self.kind == "affine":
            warp = ctrnn.AffineWarp(*self.wave)
        elif self.kind == "smooth":
            wave = torch.tensor(self.wave, dtype=torch.float64)
            warp = ctrnn.SmoothWarp(float(self.ts[-1]), wave[::2], wave[1::2])
        else:
            warp = ctrnn.PiecewiseWarp(torch.from_numpy(self.ts), torch.from_numpy(self.cs))
        return ctrnn.WarpedPath(path, warp), warp.speed

    def shows(self, stamps: np.ndarray) -> np.ndarray:
        """When the clock shows these."""
        if not self.warps or self.kind == "none":
            return stamps
        if self.kind == "smooth":
            from scipy.optimize import brentq  # noqa: PLC0415

            end = self.ts[-1]
            inside = [brentq(lambda t, s=s: self.at(t) - s, 0.0, end, xtol=1e-15, rtol=1e-15) for s in stamps[1:-1]]
            return np.array([0.0, *inside, end])
        return np.interp(stamps, self.cs, self.ts)
