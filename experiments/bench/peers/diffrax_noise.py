r"""diffrax: a rate network with noise by its `Euler`, one solve for the whole batch, compiled by JAX.

`VirtualBrownianTree`    its path, with a tolerance of half a step
increments ahead         drawn in one call, and looked up

Gradients by `RecursiveCheckpointAdjoint`, diffrax's own choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import torch
from jax import Array
from torch import Tensor

from experiments.bench.parts.noise import Weights

__all__ = ["noise_candidates"]

Motion = Callable[[int, tuple[int, ...], Array], diffrax.AbstractPath]


class _Ahead(diffrax.AbstractPath):
    increments: Array
    t0: float
    t1: float

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Array:
        return self.increments[jnp.rint(t0).astype(int)]


def _tree(time: int, shape: tuple[int, ...], key: Array) -> diffrax.AbstractPath:
    return diffrax.VirtualBrownianTree(0.0, float(time), tol=0.5, shape=shape, key=key)


def _ahead(time: int, shape: tuple[int, ...], key: Array) -> diffrax.AbstractPath:
    return _Ahead(jax.random.normal(key, (time, *shape)), 0.0, float(time))


def noise_candidates(weights: Weights) -> list[_Jitted]:
    """Candidates by Euler's method, that of Maruyama."""
    found = (("`VirtualBrownianTree`", _tree), ("increments ahead", _ahead))
    return [_Jitted(f"diffrax Euler, {name}, jitted", weights, motion) for name, motion in found]


class _Jitted:
    def __init__(self, name: str, weights: Weights, motion: Motion) -> None:
        self.name, self.weights, self.key = name, weights, jax.random.key(0)
        self.states = jax.jit(partial(_states, motion))
        self.pulled = jax.jit(partial(_pulled, motion))

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_dlpack(jax.block_until_ready(self.states(*self._given(x))))

    def backward(self, x: Tensor, cotangent: Tensor) -> list[Tensor]:
        found = jax.block_until_ready(self.pulled(*self._given(x), _array(cotangent)))
        return [torch.from_dlpack(each) for each in jax.tree.leaves(found)]

    def _given(self, x: Tensor) -> tuple[Array, list[Array], Array]:
        self.key, fresh = jax.random.split(self.key)
        return _array(x), [_array(each) for each in self.weights], fresh


def _array(tensor: Tensor) -> Array:
    return jnp.asarray(np.asarray(tensor.detach()))


def _states(motion: Motion, x: Array, weights: list[Array], key: Array) -> Array:
    of_x, of_h, bias, log_alpha, sigma = weights
    time, shape = len(x), (x.shape[1], len(bias))
    pulled = x @ of_x.T + bias

    def flow(t: Array, h: Array, args: object) -> Array:
        return jnp.exp(log_alpha) * (jnp.tanh(pulled[jnp.floor(t).astype(int)] + h @ of_h.T) - h)

    def noise(t: Array, h: Array, args: object) -> lineax.AbstractLinearOperator:
        return lineax.DiagonalLinearOperator(jnp.broadcast_to(sigma, shape))

    terms = diffrax.MultiTerm(diffrax.ODETerm(flow), diffrax.ControlTerm(noise, motion(time, shape, key)))
    saved = diffrax.SaveAt(ts=jnp.arange(1.0, time + 1))
    solved = diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, float(time), 1.0, jnp.zeros(shape), saveat=saved, max_steps=time)
    assert solved.ys is not None
    return solved.ys


def _pulled(motion: Motion, x: Array, weights: list[Array], key: Array, cotangent: Array) -> object:
    return jax.vjp(lambda x, weights: _states(motion, x, weights, key), x, weights)[1](cotangent)
