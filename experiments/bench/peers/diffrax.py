r"""diffrax, compiled by JAX: held inputs sample by sample under `lax.scan`, an equation from many starts under `vmap`, and a
rate network with noise by one solve for the whole batch.

Held inputs: one step size for the whole batch, carried over, and the largest error as norm: measured faster here than a
step size for each sample under `vmap`, and than one solve given the edges. Gradients by `RecursiveCheckpointAdjoint`,
diffrax's own choice; with `DirectAdjoint` they took four times as long. Compiled ahead, and timed without that. Noise is
`VirtualBrownianTree`, its path with a tolerance of half a step, or increments that are drawn ahead in one call, and looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import torch
from jax import Array
from torch import Tensor

import ctrnn
from ctrnn.fields.candidates import TanhCandidate
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.parts import Part
from ctrnn.fields.rates import ConstantRate, ExponentialRate, GateRate
from experiments.bench.parts.problems import BenchProblem, Lorenz
from experiments.bench.parts.sequences import Weights
from experiments.bench.parts.solves import BenchSolver, Solution, SolveCandidate

__all__ = ["CANDIDATES"]

jax.config.update("jax_platforms", "cpu")  # as the others: JAX takes a GPU wherever there is one

SOLVERS: dict[str, tuple[Callable[[], Any], float, int]] = {  # and its expected tolerance, and evaluations a step
    "tsit5": (diffrax.Tsit5, 3e-6, 6),
    "dopri8": (diffrax.Dopri8, 1e-2, 13),
    "kvaerno5": (diffrax.Kvaerno5, 1e-6, 7),  # for stiff fields; an evaluation is a Newton iteration or more
}
GATES: dict[type[Part], Callable[..., Any] | None] = {GateRate: jax.nn.sigmoid, ExponentialRate: jnp.exp, ConstantRate: None}
FIRST = 0.3  # of a sample, the first step of all


class _Carried(diffrax.AbstractAdaptiveStepSizeController):
    """A PID controller that keeps the longest step taken or proposed, with which the next sample begins."""

    inner: diffrax.PIDController

    rtol = property(lambda self: self.inner.rtol)
    atol = property(lambda self: self.inner.atol)
    norm = property(lambda self: self.inner.norm)

    def wrap(self, direction: object) -> _Carried:
        return _Carried(self.inner.wrap(direction))

    def init(
        self, terms: object, t0: object, t1: object, y0: object, dt0: object, args: object, func: object, error_order: object
    ) -> Any:
        end, state = self.inner.init(terms, t0, t1, y0, dt0, args, func, error_order)
        return end, (state, jnp.zeros_like(end - t0))

    def adapt_step_size(
        self,
        t0: object,
        t1: Any,
        y0: object,
        y1_candidate: Any,
        args: object,
        y_error: Any,
        error_order: object,
        controller_state: Any,
    ) -> Any:
        state, longest = controller_state
        given = (t0, t1, y0, y1_candidate, args, y_error, error_order, state)
        keep, begin, end, jump, state, result = self.inner.adapt_step_size(*given)
        steps = jnp.maximum(t1 - t0, end - begin)
        return keep, begin, end, jump, (state, jnp.where(keep, jnp.maximum(longest, steps), longest)), result


class _Jitted(BenchSolver):
    """(variables..., tolerance) -> states and steps, and its gradients, compiled at the first call."""

    compiled: ClassVar[dict[tuple[Any, ...], Callable[..., Any]]] = {}  # one compilation for problems of equal shapes

    def __init__(
        self, functions: tuple[Callable[..., object], ...], given: Sequence[object], evaluations: int, *key: object
    ) -> None:
        self.functions, self.evaluations, self.key, self.compile_seconds = functions, evaluations, key, 0.0
        with jax.enable_x64(True):
            self.given = jax.tree.map(_array, given)

    def prepare(self) -> None:
        self._ready(1)

    def states(self, tolerance: float) -> Solution:
        hs, steps = self._call(0, tolerance)
        return Solution(torch.from_dlpack(hs), self.evaluations * int(np.asarray(steps).sum()) + steps.size)

    def gradients(self, tolerance: float) -> list[Tensor]:
        return [torch.from_dlpack(gradient) for gradient in jax.tree.leaves(self._call(1, tolerance))]

    def _call(self, which: int, tolerance: float) -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(self._ready(which)(*self.given, jnp.asarray(tolerance)))

    def _ready(self, which: int) -> Callable[..., Any]:
        key = (which, *self.key)
        if key not in self.compiled:
            begin = time.perf_counter()
            with jax.enable_x64(True):
                lowered = jax.jit(self.functions[which]).lower(*self.given, jnp.asarray(1e-6))
                self.compiled[key] = lowered.compile()
            self.compile_seconds += time.perf_counter() - begin
        return self.compiled[key]


def _array(tensor: Tensor) -> Array:
    return jnp.asarray(tensor.detach().cpu().numpy())


def _on_held_input(problem: BenchProblem, name: str, max_steps: int) -> _Jitted:
    make, _, evaluations = SOLVERS[name]
    key = (name, max_steps, _rate(problem.field), problem.xs.shape, problem.h0.shape)
    return _Jitted(_functions(problem.field, make(), max_steps), (problem.variables, problem.xs, problem.h0), evaluations, *key)


def _from_starts(problem: BenchProblem) -> _Jitted:
    if not isinstance(problem.field, Lorenz):
        raise TypeError(f"{problem.name} is not Lorenz's equation, which is written for JAX here.")
    begin, end = problem.times.tolist()

    def flow(t: Array, h: Array, args: object) -> Array:
        x, y, z = h
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def solve(h: Array, tolerance: Array) -> tuple[Array, Array]:
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance, norm=lambda error: jnp.abs(error).max())
        solved = diffrax.diffeqsolve(
            diffrax.ODETerm(flow), diffrax.Tsit5(), begin, end, None, h, stepsize_controller=control, max_steps=4096
        )
        assert solved.ys is not None
        return solved.ys[0], solved.stats["num_steps"]

    def states(h: Array, tolerance: Array) -> tuple[Array, Array]:
        ends, steps = jax.vmap(solve, (0, None))(h, tolerance)
        return jnp.stack([h, ends]), steps.max()

    gradients = jax.grad(lambda *given: states(*given)[0].sum())
    return _Jitted((states, gradients), [problem.h0], SOLVERS["tsit5"][2], "starts", problem.h0.shape)


def _functions(field: ctrnn.VectorField, solver: Any, max_steps: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(weights, xs, h0, tolerance) -> states and steps a sample; and -> gradients of the sum of all states."""
    gate = GATES[_rate(field)]
    names = [name for name, _ in field.named_parameters()]

    def flow(t: Array, h: Array, args: Any) -> Array:
        projected, (candidate, rate) = args
        speed = rate if gate is None else gate(projected[1] + h @ rate.T)
        return speed * (jnp.tanh(projected[0] + h @ candidate.T) - h)

    def states(weights: list[Array], xs: Array, h0: Array, tolerance: Array) -> tuple[Array, Array]:
        at = dict(zip(names, weights, strict=True))
        parts = ("candidate",) if gate is None else ("candidate", "rate")
        projected = [xs @ at[f"{part}.weight_x"].T + at[f"{part}.bias"] for part in parts]
        inner = (at["candidate.weight_h"], jnp.exp(at["rate.log_alpha"]) if gate is None else at["rate.weight_h"])
        control = _Carried(diffrax.PIDController(rtol=tolerance, atol=tolerance, norm=lambda error: jnp.abs(error).max()))

        def piece(carried: tuple[Array, Array], row: list[Array]) -> tuple[Any, Any]:
            h, dt = carried
            solved = diffrax.diffeqsolve(
                diffrax.ODETerm(flow),
                solver,
                0.0,
                1.0,
                dt,
                h,
                args=(row, inner),
                stepsize_controller=control,
                saveat=diffrax.SaveAt(t1=True, controller_state=True),
                max_steps=max_steps,
                throw=False,
            )
            h, dt = solved.ys[0], jnp.clip(jax.lax.stop_gradient(solved.controller_state[1]), 1e-6, 1.0)
            return (h, dt), (h, solved.stats["num_steps"])

        _, (hs, steps) = jax.lax.scan(piece, (h0, jnp.asarray(FIRST)), projected)
        return jnp.concatenate([h0[None], hs]), steps

    return states, jax.grad(lambda *given: states(*given)[0].sum())


def _rate(field: ctrnn.VectorField) -> type[Part]:
    """The type of a field's rate. Written for JAX are tanh relaxations with a gate for each unit or constant rates."""
    if isinstance(field, ctrnn.Relaxation):
        rate: Part = field.rate
        if type(field.candidate) is TanhCandidate and type(field.decay) is LinearDecay and type(rate) in GATES:
            return type(rate)
    raise TypeError(f"this field is not written out for JAX: {field}")


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


class _JittedNoise:
    def __init__(self, name: str, weights: Weights, motion: Motion) -> None:
        self.name, self.weights, self.key = name, weights, jax.random.key(0)
        self.states = jax.jit(partial(_noisy_states, motion))
        self.pulled = jax.jit(partial(_pulled, motion))

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_dlpack(jax.block_until_ready(self.states(*self._given(x))))

    def backward(self, x: Tensor, cotangent: Tensor) -> list[Tensor]:
        found = jax.block_until_ready(self.pulled(*self._given(x), _array(cotangent)))
        return [torch.from_dlpack(each) for each in jax.tree.leaves(found)]

    def _given(self, x: Tensor) -> tuple[Array, list[Array], Array]:
        self.key, fresh = jax.random.split(self.key)
        return _array(x), [_array(each) for each in self.weights], fresh


def _noisy_states(motion: Motion, x: Array, weights: list[Array], key: Array) -> Array:
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
    return jax.vjp(lambda x, weights: _noisy_states(motion, x, weights, key), x, weights)[1](cotangent)


def _held(names: Sequence[str], max_steps: int) -> list[SolveCandidate]:
    """Candidates by these methods; the more steps a sample may take, the longer gradients take."""

    def candidate(name: str) -> SolveCandidate:
        make = partial(_on_held_input, name=name, max_steps=max_steps)
        return SolveCandidate(f"diffrax {name}, jitted", make, expected=SOLVERS[name][1])

    return [candidate(name) for name in names]


CANDIDATES: dict[str, Callable[..., Sequence[Any]]] = {
    "held": lambda: _held(("tsit5", "dopri8"), max_steps=64),
    "stiff": lambda: _held(("tsit5", "kvaerno5"), max_steps=4096),
    "starts": lambda: [SolveCandidate("diffrax tsit5, jitted", _from_starts, expected=3e-8)],  # each with steps of its own
    "noise": lambda weights: [
        _JittedNoise("diffrax Euler, `VirtualBrownianTree`, jitted", weights, _tree),
        _JittedNoise("diffrax Euler, increments ahead, jitted", weights, _ahead),
    ],
}
