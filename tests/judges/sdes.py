r"""Equations with noise by torchsde and by diffrax, a step each, on the increments of a `discretize.steps.BrownianPath`.

    dh = (tanh(W h + U x + b) - h) dt + G dW,    G = s sqrt(1 + h^2), of which G G' = s^2 h, or numbers

Inputs are held: each sample is solved by itself. The equation is written a second time, in JAX.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ctrnn
import discretize

__all__ = ["Corrected", "Growing", "by_diffrax", "by_torchsde"]


class Growing(ctrnn.VectorField):
    """A field with noise that grows with the state, that of a unit with its own."""

    def __init__(self, field: ctrnn.VectorField, sigma: float) -> None:
        super().__init__(field.input_size, field.hidden_size)
        self.field, self.sigma = field, sigma

    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.sigma * (1 + h**2).sqrt()


class Corrected(Growing):
    """The same noise, and the drift that Ito's calculus has where Stratonovich's has that of `Growing`: G G'/2 more."""

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h) + self.sigma**2 * h / 2


class _OneSample:
    """dh = F(x, h) dt + G(x, h) dW of one sample, as torchsde asks for it."""

    def __init__(self, field: ctrnn.VectorField, x: Tensor, calculus: str, noise: str) -> None:
        self.field, self.projected, self.noise_type, self.sde_type = field, field.project(x), noise, calculus

    def f(self, t: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.projected, h)

    def g(self, t: Tensor, h: Tensor) -> Tensor:
        found = self.field.diffusion(self.projected, h)
        return torch.diag_embed(found) if self.noise_type == "additive" and found.dim() == h.dim() else found


def by_torchsde(
    field: ctrnn.VectorField,
    xs: Tensor,
    h: Tensor,
    path: discretize.BrownianPath,
    parts: int,
    method: str,
    calculus: str,
    noise: str,
) -> Tensor:
    r"""Solve with `parts` steps a sample, each sample of length 1.

    Args:    method, calculus, noise: torchsde's words: "euler", "ito", "diagonal", ...
    Shape:   xs (time, batch, input), h (batch, state) -> (time, batch, state).
    """
    import torchsde  # noqa: PLC0415 - torchcde brings it, and torchcde is optional

    class Increments(torchsde.BaseBrownian):
        dtype, device, levy_area_approximation = h.dtype, h.device, "space-time"
        shape = (len(h), path.units)

        def __call__(self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False) -> Any:
            w, z = path.increments(torch.stack([torch.as_tensor(t, dtype=torch.float64) for t in (ta, tb)]))
            return (w[0], z[0]) if return_U else w[0]

        def __repr__(self) -> str:
            return "Increments()"

    states = []
    for k, x in enumerate(xs):
        ends = torch.tensor([k, k + 1.0])
        sde = _OneSample(field, x, calculus, noise)
        h = torchsde.sdeint(sde, h, ends, bm=Increments(), method=method, dt=1 / parts)[-1]
        states.append(h)
    return torch.stack(states)


def by_diffrax(
    field: Growing | ctrnn.Noisy, xs: Tensor, h0: Tensor, path: discretize.BrownianPath, parts: int, method: str
) -> Tensor:
    """Solve as `by_torchsde` does; field: of a plain network, with noise that grows or with numbers; method: its class."""
    import diffrax  # noqa: PLC0415 - the extra `bench` brings it
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import lineax  # noqa: PLC0415

    times = torch.linspace(0, len(xs), len(xs) * parts + 1, dtype=torch.float64)
    network: Any = field.field
    parameters = network.candidate.weight_x, network.candidate.weight_h, network.candidate.bias

    class Increments(diffrax.AbstractBrownianPath):
        w: Any
        z: Any
        t0, t1, levy_area = 0.0, float(len(xs)), diffrax.SpaceTimeLevyArea

        def evaluate(self, t0: Any, t1: Any = None, left: bool = True, use_levy: bool = False) -> Any:
            k = jnp.rint(t0 * parts).astype(int)
            w = self.w[k]
            return diffrax.SpaceTimeLevyArea(dt=t1 - t0, W=w, H=self.z[k] * parts - w / 2) if use_levy else w

    with jax.enable_x64(True):
        of_x, of_h, bias, *given = (jnp.asarray(each.detach().numpy()) for each in (*parameters, xs, h0, *path.increments(times)))
        numbers = jnp.asarray(field.noise.sigma.detach().numpy()) if isinstance(field, ctrnn.Noisy) else None

        def flow(t: Any, h: Any, x: Any) -> Any:
            return jnp.tanh(of_x @ x + of_h @ h + bias) - h

        def noise(t: Any, h: Any, x: Any) -> Any:
            return lineax.DiagonalLinearOperator(field.sigma * jnp.sqrt(1 + h**2) if numbers is None else numbers)

        def solve(xs: Any, h: Any, w: Any, z: Any) -> Any:
            terms = diffrax.MultiTerm(diffrax.ODETerm(flow), diffrax.ControlTerm(noise, Increments(w, z)))

            def sample(h: Any, at: Any) -> Any:
                begin, x = at
                h = diffrax.diffeqsolve(terms, getattr(diffrax, method)(), begin, begin + 1, 1 / parts, h, args=x).ys[0]
                return h, h

            return jax.lax.scan(sample, h, (jnp.arange(float(len(xs))), xs))[1]

        return torch.from_numpy(jax.device_get(jax.jit(jax.vmap(solve, (1, 0, 1, 1), 1))(*given)).copy())
