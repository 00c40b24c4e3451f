r"""rate * (candidate - |h|^r h) over a sequence, forwards and backwards.

Both steps are one map. With u = rate dt, l = |h|^r (1 for the linear decay) and f the candidate

    h <- h + M (f - l h)        Euler  M = u        exponential  M = u phi_1(-u l), 1 - e^-u where l = 1

    dh+/df = M        dh+/du = M' (f - l h), M' = 1 or e^(-u l)
    C = 1 - (r + 1) M l - (f - l h) u^2 phi_1'(-u l) dl/dh        the last term for the exponential step and r > 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from discretize.kernels.named.kernel_spec import CellInputs, Kind
from discretize.kernels.named.plain_torch.sequences import (
    GradientSums,
    StateBuffer,
    backward_steps,
    blocks,
    lengths,
    per_step,
    phi_1,
    phi_1_slope,
    scaled,
    unit_leak_factor,
)

__all__ = ["backward", "forward"]

tanh_slope = torch.ops.aten.tanh_backward.grad_input  # (q, t) -> q (1 - t^2)
relu_slope = torch.ops.aten.threshold_backward.grad_input  # (q, f, 0) -> q where f > 0
sigmoid_slope = torch.ops.aten.sigmoid_backward.grad_input  # (q, s) -> q s (1 - s)


def forward(kind: Kind, step: str, substeps: int, inputs: CellInputs, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; if kept all states, [candidate, rate] or [reset, W_1 h + b_h, rate], and the candidate."""
    steps, _, hidden = inputs.sizes(substeps)
    states, weights, leak = StateBuffer(inputs.h0, len(inputs.xs), substeps, keep), inputs.weight_h.t(), None
    start = inputs.projected()
    acts = start if keep and substeps == 1 else start.new_empty(steps if keep else 1, *start.shape[1:])
    targets, candidate = (_reset if kind.candidate == "reset" else _direct)(kind, start, acts, inputs.bias_h, hidden, steps)
    clock = inputs.dt, substeps, steps
    if inputs.rates is None:
        factor = _gated_factor(kind, step, acts, hidden, *clock)
    else:
        factor = _constant_factor(kind, step, inputs.rates, *clock)
    h = inputs.h0
    for k, (row, act, into) in enumerate(zip(per_step(start, steps), per_step(acts, steps), states.rows, strict=True)):
        torch.addmm(row, h, weights, out=act)
        target = candidate(k)
        if kind.exponent:
            leak = h.abs().pow_(kind.exponent)
            torch.addcmul(h, factor(k, leak), torch.addcmul(target, leak, h, value=-1), out=into)
        else:
            torch.lerp(h, target, factor(k, None), out=into)
        h = into
    return (*states.results(), acts, targets) if keep else states.results()


Candidate = Callable[[int], Tensor]


def _direct(kind: Kind, start: Tensor, acts: Tensor, bias_h: Tensor | None, hidden: int, steps: int) -> tuple[Tensor, Candidate]:
    """Where the candidates are written, and what is left to do for each once the product with W is added."""
    targets = acts[..., :hidden]
    written = per_step(targets, steps)
    if kind.candidate == "relu":
        return targets, lambda k: written[k].relu_()
    return targets, lambda k: written[k].tanh_()


def _reset(kind: Kind, start: Tensor, acts: Tensor, bias_h: Tensor | None, hidden: int, steps: int) -> tuple[Tensor, Candidate]:
    """As `_direct`. P_1 makes way for b_h: W_1 h is added to what is inside the reset."""
    to_pull = start[..., hidden : 2 * hidden].clone()
    start[..., hidden : 2 * hidden] = 0 if bias_h is None else bias_h
    targets = to_pull if acts is start else to_pull.new_empty(len(acts), *to_pull.shape[1:])
    sigmoids = acts.unflatten(-1, (3, hidden))[:, :, ::2] if _one_sigmoid(kind) else acts[..., :hidden]
    squashed, resets = per_step(sigmoids, steps), per_step(acts[..., :hidden], steps)
    pulls, given, written = per_step(acts[..., hidden : 2 * hidden], steps), per_step(to_pull, steps), per_step(targets, steps)

    def candidate(k: int) -> Tensor:
        squashed[k].sigmoid_()
        return torch.addcmul(given[k], resets[k], pulls[k], out=written[k]).tanh_()

    return targets, candidate


def _one_sigmoid(kind: Kind) -> bool:
    """Whether a reset and the rate are one call of the sigmoid."""
    return kind.candidate == "reset" and kind.rate == "sigmoid" and not kind.shared


Factor = Callable[[int, Tensor | None], Tensor]


def _constant_factor(kind: Kind, step: str, rates: Tensor, dt: float | Tensor, substeps: int, steps: int) -> Factor:
    """M of each step where the rate is a constant."""
    u = scaled(rates, dt / substeps)
    known = u if kind.exponent else unit_leak_factor(step, u)
    ready = per_step(known, steps) if isinstance(dt, Tensor) else [known] * steps
    if step == "euler" or not kind.exponent:
        return lambda k, leak: ready[k]
    return lambda k, leak: _factor(step, ready[k], leak)


def _gated_factor(kind: Kind, step: str, acts: Tensor, hidden: int, dt: float | Tensor, substeps: int, steps: int) -> Factor:
    """M of each step where the rate is a gate, whose argument it is written over."""
    gates, taken = per_step(_gate_columns(kind, acts, hidden), steps), lengths(dt, substeps, steps)
    if _one_sigmoid(kind):
        return lambda k, leak: _factor(step, scaled(gates[k], taken[k]), leak)
    return lambda k, leak: _factor(step, scaled(_rate_in_place(kind.rate, gates[k]), taken[k]), leak)


def _gate_columns(kind: Kind, acts: Tensor, hidden: int) -> Tensor:
    return acts[..., (2 if kind.candidate == "reset" else 1) * hidden :]


def _factor(step: str, u: Tensor, leak: Tensor | None) -> Tensor:
    if leak is None:
        return unit_leak_factor(step, u)
    return u if step == "euler" else u * phi_1(u * leak)


def _rate_in_place(name: str, z: Tensor) -> Tensor:
    if name == "sigmoid":
        return z.sigmoid_()
    return z.exp_() if name == "exponential" else torch.neg(logsigmoid(z.neg_()), out=z)


def backward(
    kind: Kind, step: str, substeps: int, inputs: CellInputs, kept: Sequence[Tensor], grad: Tensor, needed: CellInputs
) -> CellInputs:
    """From the cotangents of the states after samples those of every tensor that needs one."""
    (_, batch, hidden), (states, acts, targets) = inputs.sizes(substeps), kept
    sums, q, columns = GradientSums(substeps, inputs, needed), grad[-1], acts.shape[-1]
    for first, last in blocks(len(inputs.xs), substeps * batch * columns):
        lo, hi = first * substeps, last * substeps
        length, h, act = inputs.step_lengths(substeps, first, last), states[lo:hi], acts[lo:hi]
        rate = _gate_columns(kind, act, hidden) if inputs.rates is None else inputs.rates
        local = _local(kind, step, h, act, targets[lo:hi], rate, length)
        d_args = torch.empty_like(act)
        qs = backward_steps(q, grad, first, substeps, local, inputs.weight_h, d_args)
        sums.add_weights(d_args, h)
        if needed.rates:
            sums.of.rates.add_((qs[1:] * local.pushed * length).sum((0, 1)))
        if needed.dt:
            sums.add_step_lengths(first, last, qs[1:] * local.pushed * rate)
        if kind.candidate == "reset":
            pull = d_args[..., hidden : 2 * hidden]
            if needed.bias_h:
                sums.of.bias_h.add_(pull.sum((0, 1)))
            torch.mul(qs[1:], local.target, out=pull)  # P_1 is outside of the reset, where W_1 h + b_h is inside
        sums.add_projections(first, last, d_args)
        q = qs[0]
    return sums.results(q)


@dataclass(frozen=True)
class _Local:
    r"""Derivatives of every state after a step of a block, elementwise.

    units (steps, batch, rows of units, hidden): by the arguments with a column for each unit; shared (steps, batch, hidden):
    by that of a gate for all; carried: by the state before; target: by that of the candidate; pushed: by u.
    """

    units: Tensor
    shared: Tensor | None
    carried: Tensor
    target: Tensor
    pushed: Tensor

    def step_back(self, qs: Tensor, d_args: Tensor) -> Callable[[int], None]:
        _, _, columns, hidden = self.units.shape
        wide, units, q = qs.unsqueeze(2).unbind(0), self.units.unbind(0), qs.unbind(0)
        to_units = d_args[..., : columns * hidden].unflatten(-1, (-1, hidden)).unbind(0)
        to_shared = d_args[..., columns * hidden :].unbind(0)

        def step(k: int) -> None:
            torch.mul(wide[k + 1], units[k], out=to_units[k])
            if self.shared is not None:
                torch.sum(q[k + 1] * self.shared[k], -1, keepdim=True, out=to_shared[k])

        return step


def _local(kind: Kind, step: str, h: Tensor, act: Tensor, target: Tensor, rate: Tensor, length: float | Tensor) -> _Local:
    hidden, u = h.shape[-1], scaled(rate, length)
    leak = h.abs().pow_(kind.exponent) if kind.exponent else None
    pull = target - h if leak is None else torch.addcmul(target, leak, h, value=-1)
    M = _factor(step, u, leak)
    pushed = pull if step == "euler" else pull * torch.exp(-u if leak is None else -u * leak)
    gated, resets = kind.rate != "constant", kind.candidate == "reset"
    per_unit = gated and not kind.shared
    units = h.new_empty(*h.shape[:-1], 1 + resets + per_unit, hidden)
    by_target = units[..., 0, :] if not resets else torch.empty_like(h)
    if kind.candidate == "relu":
        relu_slope(M.expand_as(target), target, 0.0, grad_input=by_target)
    else:
        tanh_slope(M, target, grad_input=by_target)
    if resets:
        reset, inside = act[..., :hidden], act[..., hidden : 2 * hidden]
        sigmoid_slope(by_target * inside, reset, grad_input=units[..., 0, :])
        torch.mul(by_target, reset, out=units[..., 1, :])
    shared = None
    if gated:
        by_rate = units[..., -1, :] if per_unit else torch.empty_like(h)
        _rate_slope(kind.rate, scaled(pushed, length), rate, by_rate)
        shared = None if per_unit else by_rate
    return _Local(units, shared, _carried(kind, step, h, u, leak, pull, M), by_target, pushed)


def _carried(kind: Kind, step: str, h: Tensor, u: Tensor, leak: Tensor | None, pull: Tensor, M: Tensor) -> Tensor:
    """C, of the shape of h."""
    if leak is None:
        return (1 - M).expand_as(h)
    carried = torch.addcmul(h.new_ones(()), M, leak, value=-(kind.exponent + 1))
    if step == "euler":
        return carried
    # dl/dh, 0 at rest as in `PowerDecay`, for r < 1 also where it may overflow.
    at_rest = h.abs() < torch.finfo(h.dtype).tiny if kind.exponent < 1 else h == 0
    bend = torch.where(at_rest, 0.0, kind.exponent * leak / h)
    return carried.sub_(pull * u.square() * phi_1_slope(u * leak) * bend)


def _rate_slope(name: str, q: Tensor, rate: Tensor, out: Tensor) -> None:
    """q times the derivative of a rate by its argument, which the rate itself tells."""
    if name == "sigmoid":
        sigmoid_slope(q, rate, grad_input=out)
    else:
        torch.mul(q, rate if name == "exponential" else -torch.expm1(-rate), out=out)
