"""A call by a kernel beside the same call by the steps in torch: the same states, gradients, and steps of a solve."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from unittest.mock import patch

import torch
from on_gpu import ON_GPU
from torch import Tensor

import discretize
from ctrnn import VectorField
from discretize.kernels import price, registry

__all__ = ["ENGINES", "ROUNDING", "agree", "kernels_for_all", "ran", "sequence", "solve"]

# Kernels for GPUs on one, or by Triton's interpreter where it is asked for before Python starts.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton")
ENGINES = ["triton"] if ON_GPU else ["compiled", *(["triton"] if _INTERPRETED else [])]
# Relative to 1 + the largest number of a result: sums of some hundred terms in another order, through some ten steps that may
# each double what is off, is 1e4 times eps or less; a number that is read in the wrong place is off by a tenth.
ROUNDING = {dtype: 2e4 * torch.finfo(dtype).eps for dtype in (torch.float64, torch.float32)}

Results = dict[str, Tensor]


@contextmanager
def kernels_for_all(engine: str | None = None) -> Iterator[None]:
    """Kernels at the first call, and for code that changes at each; by that engine, where there are several."""
    with ExitStack() as patches:
        for module, name, value in ((price, "PRICE", 0), (registry, "MOST_IN_VAIN", math.inf)):
            patches.enter_context(patch.object(module, name, value))
        if engine:
            patches.enter_context(patch("discretize.kernels.choose.takes_triton", lambda device: engine == "triton"))
        yield


def agree(engine: str, run: Callable[[bool], tuple[Results, dict]], allowed: float) -> None:
    """What `run(fused)` gives by the engine is what it gives by the steps: results by name, and the stats of the run."""
    with kernels_for_all(engine):
        (mine, stats), (theirs, by_steps) = run(True), run(False)
    assert (stats["engine"], by_steps["engine"]) == (engine, "steps"), stats["engine_why"]
    assert set(mine) == set(theirs)
    for name, expected in theirs.items():
        assert mine[name].shape == expected.shape, name
        assert mine[name].dtype == expected.dtype, name
        assert expected.isfinite().all(), f"{name} is not finite by steps, and says nothing"
        off = float((mine[name] - expected).abs().max() / (1 + expected.abs().max())) if expected.numel() else 0.0
        assert off <= allowed, f"{name} is off by {off:.2g}, where rounding is {allowed:.2g}"


def ran(stats: dict, engine: str) -> None:
    assert stats["engine"] == engine, stats["engine_why"]


def sequence(
    field: VectorField, step: discretize.Step, x: Tensor, h_0: Tensor, ts: Tensor | None = None, **how: object
) -> Callable[[bool], tuple[Results, dict]]:
    """A `DiscreteRNN`'s states, and the gradients of a loss that tells samples, times and units apart to all that learns."""
    of_call = {name: how.pop(name) for name in ("lengths", "reset", "seed") if name in how}

    def run(fused: bool) -> tuple[Results, dict]:
        rnn = discretize.DiscreteRNN(field, step, fused=fused, allow_overshoot=True, **how)
        given = {name: leaf(tensor) for name, tensor in {"x": x, "h_0": h_0, "ts": ts}.items() if tensor is not None}
        output, h_n = rnn(given["x"], given["h_0"], given.get("ts"), **of_call)
        return {"output": output.detach(), "h_n": h_n.detach()} | gradients([output, h_n], given, field), rnn.stats

    return run


def solve(
    field: torch.nn.Module,
    path: Callable[[Tensor], tuple],
    x: Tensor,
    h0: Tensor,
    ts: Tensor | None = None,
    counted: bool = True,
    **how: object,
) -> Callable[[bool], tuple[Results, dict]]:
    """As `sequence`, of `integrate` along the path and on the clock that `path` makes of samples, (path, speed); `counted`: the
    steps of samples are the same."""

    def run(fused: bool) -> tuple[Results, dict]:
        given = {"x": leaf(x), "h0": leaf(h0)}
        along, speed = path(given["x"])
        times = along.knots if ts is None else ts
        solved = discretize.integrate(field, along, given["h0"], times, speed=speed, fused=fused, **how)
        found = {"hs": solved.hs.detach()} | gradients([solved.hs], given, field)
        if counted:
            kinds = ("steps", "accepted_steps", "rejected_steps")
            found |= {kind: torch.tensor(solved.stats[f"{kind}_of_samples"], dtype=torch.float64) for kind in kinds}
        return found, solved.stats

    return run


def leaf(tensor: Tensor) -> Tensor:
    """As it lies in memory."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def gradients(outputs: Sequence[Tensor], given: Results, module: torch.nn.Module) -> Results:
    weights = [torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape) for output in outputs]
    loss = sum((output * weight).sum() + output.square().sum() / 7 for output, weight in zip(outputs, weights, strict=True))
    sought = {name: tensor for name, tensor in (given | dict(module.named_parameters())).items() if tensor.requires_grad}
    if not sought:
        return {}
    found = torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True)
    return {f"gradient to {name}": gradient for name, gradient in zip(sought, found, strict=True)}
