r"""Noise: a field driven by Brownian motion, dh = F(x, h) dt + G(x, h) dW.

    on the state       G = sigma, a number, one for each unit, or a matrix
    on the input       x dt becomes x dt + sigma dW, where F is linear in x: G dW = F(x + sigma dW, h) - F(x, h)
    a colored input    F(x + u, h), du = -u/tau dt + sigma sqrt(2/tau) dW: of deviation sigma, forgotten in a time tau

White noise inside of a nonlinearity has no limit: the mean of tanh(1 + 0.3 sqrt(2/dt) xi) is 0.66, 0.47, 0.12 at dt 0.5, 0.1,
0.004. So noise on the input of such a field must be colored, or held on the samples, x + sigma xi, whatever dt is.
"""

from __future__ import annotations

import copy
import re
from typing import ClassVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.combinations import Trait, refuse
from ctrnn.fields.field import VectorField, check_field
from ctrnn.fields.parts import affine
from ctrnn.formulas import formula_of

__all__ = ["ColoredInput", "Noise", "Noisy", "check_no_noise", "noise_channels"]

NOISELESS = re.compile(r"^dh?([\w^]*)/dt = .*", re.MULTILINE)  # the equation of a unit of the state, h or another
PROBES = 64
SLACK = 1e-9  # of differences in float64


class Noise(AnsweredInit, nn.Module):
    r"""How strong the noise of a field is; `ctrnn.Noisy(field, noise)` is the field with it.

    Args:    sigma: of dh = F dt + sigma dW, per root of the unit of time, a parameter that is learned with the others: a number,
             at least 0, one for each unit, or a matrix (state, channels), by which several units share a Brownian motion; on:
             "state", or "input", where it is one number, or one for each feature of x.
             A unit that relaxes by tau dv = -v dt + ... and is to have the deviation s at rest needs s sqrt(2 / tau).
    Raises:  TypeError, ValueError for what does not fit.
    """

    def __init__(self, sigma: float | Tensor, on: str = "state") -> None:
        super().__init__()
        self.on: str = checks.one_of("on", on, ("state", "input"))
        self._number = None if isinstance(sigma, Tensor) else checks.finite_number("sigma", sigma)
        given = sigma.detach().clone() if isinstance(sigma, Tensor) else torch.tensor(self._number)
        if not given.is_floating_point():
            raise TypeError(f"`sigma` must be floating point, got {given.dtype}.")
        checks.is_finite("sigma", given)
        if given.dim() > (2 if on == "state" else 1):
            raise ValueError(
                f"`sigma` on the {on} must be a number, one for each {'unit' if on == 'state' else 'feature'}"
                f"{', or a matrix (state, channels)' if on == 'state' else ''}, got shape {tuple(given.shape)}."
            )
        if given.dim() < 2 and not given.is_meta and bool((given < 0).any()):
            raise ValueError(f"`sigma` must be at least 0, got {float(given.min()):g}: it is the size of what is drawn.")
        self.sigma: nn.Parameter = nn.Parameter(given)

    @torch.no_grad()
    def fit(self, field: VectorField) -> None:
        """Take a field's dtype and device; a number that was given, and not changed since, is not rounded twice."""
        sigma, number, self._number = self.sigma, self._number, None
        kept = not sigma.is_meta and number is not None and bool(sigma == torch.tensor(number, dtype=sigma.dtype, device="cpu"))
        self.to(dtype=field.dtype or sigma.dtype, device=field.device)
        if number is not None and kept:
            self.sigma.fill_(number)

    def extra_repr(self) -> str:
        sigma = self.sigma.detach()
        # On the meta device, where models are described, there is no number to show.
        is_number = sigma.dim() == 0 and not sigma.is_meta
        shown = f"sigma={float(sigma):g}" if is_number else f"sigma of shape {tuple(sigma.shape)}"
        return f"{shown}, on={self.on!r}"


class Noisy(VectorField):
    r"""dh = field(x, h) dt + G dW, by a `Noise`; the field itself is shared, not copied.

    Steps made for noise run it: `discretize.EulerMaruyama`, `StratonovichHeun`, ...; others refuse it by name. What looks at
    dh/dt alone, as fixed points and Jacobians, sees the field without its noise.

        >>> field = ctrnn.Noisy(ctrnn.leaky(1, 3, alpha=0.5), ctrnn.Noise(0.1))
        >>> discretize.DiscreteRNN(field, "euler-maruyama")(torch.zeros(6, 2, 1), seed=0)[0].shape
        torch.Size([6, 2, 3])

    Args:    field: a `VectorField` without noise; noise: a `Noise` that fits it. On the input, the field must be linear in x.
    Shape:   as the field.
    Raises:  TypeError, ValueError for what does not fit, and for noise on the input of a field that is not linear in it.
    """

    field: VectorField
    noise: Noise
    bandwidths: tuple[int, int] | None

    def __init__(self, field: VectorField, noise: Noise) -> None:
        check_field(field)
        if noise_channels(field):
            raise ValueError(
                f"`field` has noise already, {type(field).__name__}; a matrix `sigma` gives several Brownian motions."
            )
        checks.instance("noise", noise, Noise, "; make one, `ctrnn.Noise(0.1)`")
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field, self.noise, self.bandwidths = field, noise, field.bandwidths
        if noise.on == "state":
            _check_past(field)
        self.past_units: int = field.past_units
        units = field.state_size - self.past_units if noise.on == "state" else field.input_size
        if not units:
            raise ValueError("`noise` is on the input, and the field has none; put it on the state, `ctrnn.Noise(sigma)`.")
        if noise.sigma.dim() and len(noise.sigma) not in (1, units):
            what = "units" if noise.on == "state" else "input features"
            raise ValueError(f"`sigma` has shape {tuple(noise.sigma.shape)}, and the field has {units} {what}.")
        noise.fit(field)
        own = noise.on == "state" and not self.past_units
        self.channels: int | None = noise.sigma.shape[1] if noise.sigma.dim() == 2 else None if own else units
        if noise.on == "input" and not _without_numbers(field):
            _check_linear(field)

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.leak(projected, h)

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.field.flow_and_leak(projected, h)

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow_without_leak(projected, h)

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        return self.field.forget(projected, h, at, dt)

    def jacobian(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.jacobian(projected, h)

    def visible(self, state: Tensor) -> Tensor:
        return self.field.visible(state)

    def initial_state(self, batch: int) -> Tensor:
        return self.field.initial_state(batch)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        sigma = self.noise.sigma
        if self.noise.on == "input":  # one direction after the other
            ways = torch.diag_embed(sigma.expand(self.field.input_size))
            return torch.stack([self._along(projected, h, way.expand(*h.shape[:-1], -1)) for way in ways], -1)
        if self.past_units:
            driven = sigma if sigma.dim() == 2 else torch.diag_embed(sigma.expand(h.shape[-1] - self.past_units))
            below = driven.new_zeros(self.past_units, driven.shape[-1])
            return torch.cat([driven, below]).expand(*h.shape, -1)
        return sigma.expand(*h.shape[:-1], *sigma.shape) if sigma.dim() == 2 else sigma.expand_as(h)

    def diffuse(self, projected: Tensor, h: Tensor, increment: Tensor) -> Tensor:
        sigma = self.noise.sigma
        if self.noise.on == "input":
            return self._along(projected, h, sigma * increment)
        driven = increment @ sigma.mT if sigma.dim() == 2 else sigma * increment
        return torch.cat([driven, torch.zeros_like(h[..., -self.past_units :])], -1) if self.past_units else driven

    def _along(self, projected: Tensor, h: Tensor, x: Tensor) -> Tensor:
        """dF/dx x, of a field that is linear in its input."""
        moved = self.field.project(x) - self.field.project(torch.zeros_like(x))
        return self.field.flow(projected + moved, h) - self.field.flow(projected, h)

    letters: ClassVar[dict[str, str]] = {"sigma": "noise.sigma"}

    @property
    def formula(self) -> str | None:
        if (known := formula_of(self.field)) is None:
            return None
        names = [f"G{part}" for part in NOISELESS.findall(known.text)]
        right = "Fx * sigma" if self.noise.on == "input" else "sigma"
        shared = self.noise.on == "state" and self.noise.sigma.numel() == 1  # by all parts of the state, else cut into theirs
        return "{field}\n" + ", ".join(names) + " = " + ", ".join([right] * (len(names) if shared else 1))

    @property
    def equations(self) -> tuple[str, ...]:
        lines = super().equations if self.formula else self.field.equations
        return tuple(NOISELESS.sub(r"\g<0> + G\1 dW/dt", line) for line in lines)


class ColoredInput(VectorField):
    r"""A field whose input has noise of its own, an Ornstein-Uhlenbeck process u for each feature of x.

    dh/dt = field(x + u, h),    du = -u/tau dt + sigma sqrt(2/tau) dW

    At rest u has the deviation sigma and the autocovariance sigma^2 e^(-|t|/tau), whatever the steps are. It starts from 0, or
    from what stands in the state behind that of the field.

    Args:    field: a `VectorField` with an input; sigma: the deviation, a number or one for each feature; correlation_time: tau
             > 0, in units of time.
    Shape:   x (..., input), state [h, u] (..., state + input) -> (..., state + input).
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Uhlenbeck and Ornstein 1930.
    """

    field: VectorField
    correlation_time: float

    def __init__(self, field: VectorField, sigma: float | Tensor, correlation_time: float) -> None:
        check_field(field)
        if noise_channels(field):
            raise ValueError(f"`field` has noise already, {type(field).__name__}; give one without.")
        if not field.input_size:
            raise ValueError(
                "`field` has no input that noise could be on; `ctrnn.Noisy(field, ctrnn.Noise(sigma))` puts it on the state."
            )
        super().__init__(field.input_size, field.hidden_size, field.state_size + field.input_size)
        self.field, self.correlation_time = field, checks.positive_number("correlation_time", correlation_time)
        noise = Noise(sigma, on="input")
        noise.fit(field)
        given = noise.sigma.detach()
        if given.dim() and len(given) not in (1, field.input_size):
            raise ValueError(f"`sigma` has shape {tuple(given.shape)}, and the field has {field.input_size} input features.")
        self.sigma: nn.Parameter = nn.Parameter(given)

    @affine
    def project(self, x: Tensor) -> Tensor:
        return x  # u is added to it before it is projected, which need not be linear

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        own, u = self._parts(h)
        return torch.cat([self.field.flow(self.field.project(projected + u), own), -u / self.correlation_time], -1)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        own, u = self._parts(h)
        rate = torch.full_like(u, 1 / self.correlation_time)
        return torch.cat([self.field.leak(self.field.project(projected + u), own), rate], -1)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        own, u = self._parts(h)
        # The root by torch: read off the code, it is that of 2/tau, and not of a number near it.
        return torch.cat([torch.zeros_like(own), self.sigma * (torch.full_like(u, 2) / self.correlation_time).sqrt()], -1)

    def visible(self, state: Tensor) -> Tensor:
        return self.field.visible(self._parts(state)[0])

    def _parts(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return h[..., : self.field.state_size], h[..., self.field.state_size :]

    @property
    def formula(self) -> str | None:
        noise = "du/dt = -u/{correlation_time}\nGu = sigma * sqrt(2/{correlation_time})"
        return "{field:|x=(x + u)}\n" + noise if formula_of(self.field) else None

    @property
    def part_sizes(self) -> tuple[int, ...]:
        """How many units the parts of the state have that the formula names."""
        known = formula_of(self.field)
        parts = known.text.count("/dt = ") if known else 1
        return (*[self.field.state_size // parts] * parts, self.input_size)

    @property
    def equations(self) -> tuple[str, ...]:
        own = f"dh/dt = {type(self.field).__name__}(x + u, h)", f"du/dt = -u/{self.correlation_time:g}"
        lines = super().equations if self.formula else own
        return tuple(line + " + Gu dW/dt" if line.startswith("du/dt") else line for line in lines)

    def extra_repr(self) -> str:
        return f"correlation_time={self.correlation_time:g}\n{super().extra_repr()}"


def noise_channels(field: VectorField) -> int:
    r"""Return how many Brownian motions drive a field, 0 for one without noise.

    Raises:  ValueError for noise that would be lost: of a part that its field does not ask for it.
    """
    own = field.noise_channels
    if not own:
        for part in field.modules():
            if isinstance(part, VectorField) and part is not field and part.noise_channels:
                raise ValueError(
                    f"The field has noise in a part, {type(part).__name__} in {type(field).__name__}, which does not hand it on; "
                    "put it around the whole, `ctrnn.Noisy(field, ctrnn.Noise(sigma))`, or give the class its own `diffusion`."
                )
    return own


def _check_past(field: VectorField) -> None:
    """Refuse a field with a part that keeps past states, where nothing says which units of the whole they are."""
    for part in field.modules() if not field.past_units else ():
        if isinstance(part, VectorField) and part.past_units:
            raise ValueError(
                f"{type(part).__name__} in {type(field).__name__} holds past states, which noise on the state would drive "
                "too; give a class of your own a `diffusion` that leaves them out."
            )


def check_no_noise(field: VectorField, run: Trait, name: str) -> None:
    r"""Refuse a field with noise where it would be run as if it had none.

    Args:    run: what runs it, as `ctrnn.combinations` has it; name: what the user calls that.
    Raises:  ValueError naming both.
    """
    if noise_channels(field):
        refuse("noise", run, type(field).__name__, name)


def _without_numbers(field: VectorField) -> bool:
    """Whether the field is being built on the meta device, as one that was checked before is when it is loaded."""
    return torch.empty(0, device=field.device).is_meta


@torch.no_grad()
def _check_linear(field: VectorField) -> None:
    """Refuse a field that is not linear in its input, by differences at random places and weights, in float64."""
    same, dice = copy.deepcopy(field).to(device="cpu", dtype=torch.float64).eval(), torch.Generator().manual_seed(0)
    for weight in same.parameters():  # that start from 0 may be learned
        weight.add_(0.1 * torch.randn(weight.shape, generator=dice, dtype=torch.float64, device="cpu"))

    def drawn(width: int) -> Tensor:
        sizes = 10.0 ** torch.randint(-1, 3, (PROBES, 1), generator=dice, device="cpu")
        return torch.randn(PROBES, width, generator=dice, dtype=torch.float64, device="cpu") * sizes

    x, other, way, h = drawn(field.input_size), drawn(field.input_size), drawn(field.input_size), drawn(field.state_size)
    ends, starts = ([same(start + by, h) for start in (x, other)] for by in (way, 0))
    one, two = (end - start for end, start in zip(ends, starts, strict=True))
    sizes = torch.stack([*ends, *starts]).abs().amax((0, 1))  # of each unit
    if not bool(((one - two).abs() <= SLACK * sizes).all()):
        raise ValueError(
            "`noise` is on the input, and the field is not linear in it: white noise inside of a nonlinearity has no limit as "
            "steps get shorter, the mean of tanh(1 + 0.3 sqrt(2/dt) xi) falls from 0.66 to 0.12 between dt 0.5 and 0.004. Give "
            "the noise a correlation time, `ctrnn.cells.ColoredInput(field, sigma, correlation_time)`; or hold it on samples, "
            '`xs + sigma * torch.randn_like(xs)`, whose interval no step changes; or put it on the state, `on="state"`.'
        )
