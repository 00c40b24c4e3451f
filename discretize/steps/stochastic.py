r"""One-step maps for fields with noise, dh = F(h) dt + G(h) dW, on a held input.

    w = W(t + dt) - W(t)                  z = int_t^t+dt (W(s) - W(t)) ds, where a step reads it

A step says of which calculus its limit is: Ito's, or Stratonovich's, whose drift is G G'/2 more in Ito's terms; where G does not
depend on h the two are one.

Source:  Kloeden and Platen 1992, "Numerical solution of stochastic differential equations", ch. 10; Roessler 2010 for SRA1.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.combinations import Trait, check_pairs, refuse
from ctrnn.fields.field import check_like_field
from ctrnn.fields.noise import Noisy, noise_channels
from ctrnn.forward import jvp
from discretize import compat
from discretize.noise.increments import GivenIncrements, NoiseInput
from discretize.steps.algebra.phi import phi
from discretize.steps.step import Step

__all__ = [
    "SRA1",
    "EulerMaruyama",
    "ExponentialEulerMaruyama",
    "Milstein",
    "StochasticStep",
    "StratonovichHeun",
    "check_noise",
    "noise_traits",
]


SIZES = (1e-6, 1.0, 1e6)  # of states at which noise is looked at


class StochasticStep(Step):
    r"""A step of a field with noise; subclasses give `moved`.

    `calculus`: "Ito" or "Stratonovich"; `strong_order`, of single paths, and `order`, of means; `reads_integral`: whether it
    takes z beside w; `of`: which noise it is for: "any", "diagonal" where the noise of a unit depends on that unit alone, or
    "additive" where it does not depend on h. `variance`: what it makes of the variance of dh = -h dt + sqrt(2) dW at rest, 1.

    Call:    step(field, x, h, dt, w, z=None), increments (..., channels); modules and solvers draw them, see `BrownianPath`.
    """

    noisy = True
    calculus: ClassVar[str] = "Ito"
    strong_order: ClassVar[float]
    reads_integral: ClassVar[bool] = False
    of: ClassVar[str] = "any"
    variance: ClassVar[str] = ""

    def __call__(
        self, field: VectorField, x: Tensor, h: Tensor, dt: float | Tensor, w: Tensor | None = None, z: Tensor | None = None
    ) -> Tensor:
        driven, x = self.with_increments(field, x, h, w, z)
        return self.checked(driven, x, h, dt)

    def check_noise(self, field: VectorField) -> None:
        if not noise_channels(field):
            refuse("no noise", "noise step", type(field).__name__, repr(self))
        if self.of != "any" and not compat.is_exporting():  # numbers, which a graph has not
            check_pairs({**noise_traits(field), ("diagonal step" if self.of == "diagonal" else "additive step"): repr(self)})

    def with_increments(
        self, field: VectorField, x: Tensor, h: Tensor, w: Tensor | None, z: Tensor | None
    ) -> tuple[NoiseInput, Tensor]:
        """Put increments beside the input that they go with; return the field that reads both. Raises: as the call."""
        self.check_noise(field)
        given = [each for each in (w, z) if each is not None]
        if len(given) != 1 + self.reads_integral:
            takes = "w and z" if self.reads_integral else "w"
            raise TypeError(
                f"{self!r} takes the increments of the noise, {takes} of shape (..., {field.noise_channels}): "
                "`discretize.steps.BrownianPath(...).increments(edges)` has them; sequence modules draw their own, `seed=`."
            )
        for name, each in zip("wz", given, strict=False):
            check_like_field(name, checks.is_tensor(name, each), field)
            checks.is_finite(name, each)
            if each.shape != (*h.shape[:-1], field.noise_channels):
                raise ValueError(
                    f"Increments must be {(*h.shape[:-1], field.noise_channels)}, one for each Brownian motion, got "
                    f"{tuple(each.shape)}."
                )
        return GivenIncrements(field, self.reads_integral), torch.cat([x, *given], -1)

    @property
    def path_order(self) -> float:
        return self.strong_order

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        if not isinstance(field, NoiseInput):
            raise TypeError(f"{self!r} needs the increments of the noise; call it as step(field, x, h, dt, w).")
        w, z = field.increments(projected)
        return self.moved(field.field, field.own(projected), h, dt, w, z)

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        """Step from the projected input with the increments w, z (..., channels)."""
        raise NotImplementedError

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        """Return the factor of the mean, R(z) of a step without noise."""
        raise NotImplementedError


class EulerMaruyama(StochasticStep):
    r"""h + dt F(h) + G(h) w.

    Shape:   as `StochasticStep`.
    Source:  Maruyama 1955; Kloeden and Platen 1992, sec. 10.2.
    """

    title = "Euler and Maruyama"
    equation = "h' = h + dt F(h) + G(h) w"
    order = 1
    strong_order: ClassVar[float] = 0.5
    evaluations = 1
    variance = "2/(2 - dt)"

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        return h + dt * field.flow(projected, h) + field.diffuse(projected, h, w)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z


class Milstein(StochasticStep):
    r"""h + dt F + G w + 1/2 G G' (w^2 - dt), for noise that is diagonal: G of a unit depends on that unit alone.

    Shape:   as `StochasticStep`.
    Source:  Milstein 1974; Kloeden and Platen 1992, sec. 10.3.
    """

    title = "Milstein"
    equation = "h' = h + dt F(h) + G(h) w + 1/2 * G(h) G'(h) (w^2 - dt)"
    order = 1
    strong_order: ClassVar[float] = 1.0
    evaluations = 1
    tangents = 1
    of = "diagonal"
    variance = "2/(2 - dt)"

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        g = field.diffusion(projected, h).expand_as(h)
        bend = jvp(lambda u: field.diffusion(projected, u).expand_as(u), (h,), (g,))[1]
        return h + dt * field.flow(projected, h) + g * w + bend * (w * w - dt) / 2

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z


class StratonovichHeun(StochasticStep):
    r"""h + dt/2 (F(h) + F(p)) + 1/2 (G(h) + G(p)) w, p = h + dt F(h) + G(h) w: its limit is Stratonovich's.

    Shape:   as `StochasticStep`.
    Source:  Ruemelin 1982; Kloeden and Platen 1992, sec. 15.5.
    """

    title = "Heun, of Stratonovich's calculus"
    equation = "h' = h + dt/2 * (F(h) + F(p)) + 1/2 * (G(h) + G(p)) w\np = h + dt F(h) + G(h) w"
    calculus = "Stratonovich"
    order = 1
    strong_order: ClassVar[float] = 1.0  # where noises commute, as diagonal ones
    evaluations = 2
    variance = "(2 - dt)/(2 - dt + dt^2/2)"

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        slope, push = field.flow(projected, h), field.diffuse(projected, h, w)
        ahead = h + dt * slope + push
        return h + dt / 2 * (slope + field.flow(projected, ahead)) + (push + field.diffuse(projected, ahead, w)) / 2

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z * (1 + z / 2)


class SRA1(StochasticStep):
    r"""h + dt/3 (F(h) + 2 F(p)) + G w, p = h + 3/4 dt F(h) + 3/2 G z/dt: of strong order 1.5 for additive noise.

    Shape:   as `StochasticStep`; it reads z, the integral of the path, too.
    Source:  Roessler 2010, "Runge-Kutta methods for the strong approximation of solutions of SDEs", SRA1.
    """

    title = "SRA1, of strong order 1.5"
    equation = "h' = h + dt/3 * (F(h) + 2 F(p)) + G w\np = h + 3/4 * dt F(h) + 3/2 * G z/dt"
    order = 2
    strong_order: ClassVar[float] = 1.5
    evaluations = 2
    reads_integral = True
    of = "additive"
    variance = "2 (1 - dt + dt^2/3)/((1 - dt/2) (2 - dt + dt^2/2))"

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        assert z is not None
        slope = field.flow(projected, h)
        # A sample whose step has no length stays: there z is 0 too.
        share = z / torch.where(dt > 0, dt, 1) if isinstance(dt, Tensor) else z / dt
        ahead = h + 0.75 * dt * slope + 1.5 * field.diffuse(projected, h, share)
        return h + dt / 3 * (slope + 2 * field.flow(projected, ahead)) + field.diffuse(projected, h, w)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z * (1 + z / 2)


class ExponentialEulerMaruyama(StochasticStep):
    r"""e^(-L dt) h + dt phi1(-L dt) N + sqrt((1 - e^(-2 L dt))/(2 L dt)) G w: exact for an Ornstein-Uhlenbeck unit at any dt.

    What the leak makes of the noise within a step has that variance; it is taken along w, so that single paths converge too.

    Shape:   as `StochasticStep`.
    Source:  Shoji and Ozaki 1998 for the variance; w in its place is ours.
    """

    title = "exponential Euler and Maruyama"
    equation = "h' = h + dt phi1(-L dt) F(h) + sqrt(phi1(-2 L dt)) G(h) w"
    order = 1
    strong_order: ClassVar[float] = 0.5
    evaluations = 1
    variance = "1"

    def moved(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor | None) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        lost = leak * dt
        return h + dt * phi(1, -lost) * slope + phi(1, -2 * lost).sqrt() * field.diffuse(projected, h, w)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        if leak is None:
            leak = (-z.real).clamp(min=0.0)
        return 1 + phi(1, -leak) * z


def check_noise(field: VectorField, step: Step) -> None:
    """Refuse a field with noise under a step without, and the other way round. Raises: ValueError naming both."""
    step.check_noise(field)


@torch.no_grad()
def noise_traits(field: VectorField) -> dict[Trait, str]:
    """Return how the noise of a field depends on its state, by numbers: of states that differ in some units; nothing where there
    are no numbers yet, on the meta device, from which a model that was checked before is loaded."""
    if torch.empty(0, device=field.device).is_meta:
        return {}
    changed, bits = _changes(field)
    matrix = changed.dim() > bits.dim()
    traits: dict[Trait, bool] = {
        "matrix noise": matrix,
        "noise of the state": bool(changed.any()),
        "noise across units": not matrix and bool((changed & ~bits).any()),
    }
    return {trait: type(field).__name__ for trait, there in traits.items() if there}


def _changes(field: VectorField) -> tuple[Tensor, Tensor]:
    """Compare G at a state with that at states of which some units differ; return where it changes, (states, ...), and which
    units differ, (states, units)."""
    dtype, device, size = field.dtype or torch.get_default_dtype(), field.device, field.state_size
    dice = torch.Generator().manual_seed(0)
    x, h, other = (
        torch.randn(1, width, generator=dice, device="cpu").to(dtype=dtype, device=device)
        for width in (field.input_size, size, size)
    )
    # Any two units differ in a bit of their numbers: few states tell whether the noise of one knows of the other.
    number = torch.arange(size, device=device)
    bits = torch.stack([number >> k & 1 == value for k in range(max(1, (size - 1).bit_length())) for value in (0, 1)])
    projected, changed = field.project(x).expand(len(bits), -1), torch.zeros((), dtype=torch.bool, device=device)
    # Noise on an input is a difference of slopes, and has their rounding.
    by_difference = any(isinstance(part, Noisy) and part.noise.on == "input" for part in field.modules())
    for scale in SIZES:  # the field's own unit is not known
        start = (h * scale).expand_as(bits)
        states = start, torch.where(bits, other * scale, start)
        at, found = (field.diffusion(projected, u) for u in states)
        terms = found.abs() + at.abs()
        if by_difference:
            slopes = torch.stack([field.flow(projected, u).abs() for u in states]).sum(0)
            terms = terms + (slopes[..., None] if terms.dim() > slopes.dim() else slopes)
        changed = changed | ((found - at).abs() > torch.finfo(dtype).eps * 16 * terms)
    return changed, bits
