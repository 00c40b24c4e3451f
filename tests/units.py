r"""The same models in other units: h -> s h, each unit by its own s, and t -> c t.

dH/dT = s/c F(x, H/s)        dH = s/c F dT + s/sqrt(c) G dW        H(T) = s h(T/c)
"""

import torch

import ctrnn
import discretize


class Field(ctrnn.VectorField):
    """Gated units with a cube, a leak, and noise if it is asked for; every unit acts on every other."""

    def __init__(self, hidden=3, sigma=None, input_size=2, dtype=torch.float64):
        super().__init__(input_size, hidden)
        dice = torch.Generator().manual_seed(0)
        for name, shape in {"wx": (hidden, input_size), "wh": (hidden, hidden), "gate": (hidden, hidden)}.items():
            self.register_parameter(name, torch.nn.Parameter(torch.randn(shape, generator=dice, dtype=torch.float64).to(dtype)))
        self.sigma = sigma

    def project(self, x):
        return x @ self.wx.mT

    def leak(self, projected, h):
        return torch.sigmoid(h @ self.gate.mT) + 0.5

    def flow(self, projected, h):
        return torch.tanh(projected + h @ self.wh.mT) - 0.1 * h * h * h - self.leak(projected, h) * h


class Noisy(Field):
    def diffusion(self, projected, h):
        return torch.full_like(h, self.sigma)


class Scaled(ctrnn.VectorField):
    """Another field in other units."""

    def __init__(self, field, s, c=1.0):
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field, self.c = field, c
        self.register_buffer("s", torch.as_tensor(s, dtype=torch.float64).expand(field.state_size).to(field.dtype))

    def project(self, x):
        return self.field.project(x)

    def flow(self, projected, h):
        return self.field.flow(projected, h / self.s) * self.s / self.c

    def leak(self, projected, h):
        return self.field.leak(projected, h / self.s) / self.c


class ScaledNoisy(Scaled):
    def diffusion(self, projected, h):
        return self.field.diffusion(projected, h / self.s) * self.s / self.c**0.5


def in_units(field, s, c=1.0):
    return (ScaledNoisy if field.noise_channels else Scaled)(field, s, c)


class Late(ctrnn.DelayedField):
    """Units that read their past and an input; s and c as of `Scaled`."""

    def __init__(self, delays, s=1.0, c=1.0, learn=False, hidden=2, dtype=torch.float64):
        super().__init__(1, hidden, delays, learn=learn)
        self.c = c
        self.register_buffer("s", torch.as_tensor(s, dtype=torch.float64).expand(hidden).to(dtype))

    def flow(self, projected, h, past):
        h, past = h / self.s, [each / self.s for each in past]
        return (projected - past[0] + torch.tanh(past[-1]) * h) * self.s / self.c


METHODS = {
    name: {"method": name}
    for name in ("dopri5", "tsit5", "dopri8", "bosh3", "adaptive_heun", "rodas5p", "euler", "midpoint", "heun2", "heun3", "rk4")
} | {f"doubled {name}": {"method": discretize.StepDoubling(name)} for name in ("rk4",)}
OF_TORCHDIFFEQ = {f"torchdiffeq:{name}": {"method": f"torchdiffeq:{name}"} for name in ("dopri5", "bosh3", "rk4")}
GRADIENTS = {"plain": None, "checkpointed": discretize.Checkpointed(bytes=2e4), "adjoint": discretize.Adjoint()}
