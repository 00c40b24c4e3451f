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

from discretize.fused.kernel_spec import Kind
from discretize.fused.torch_sweeps import Found, States, Tensors, blocks, lengths, phi_1, phi_1_slope, rows, sweep, times, towards

__all__ = ["backward", "forward"]

tanh_slope = torch.ops.aten.tanh_backward.grad_input  # (q, t) -> q (1 - t^2)
sigmoid_slope = torch.ops.aten.sigmoid_backward.grad_input  # (q, s) -> q s (1 - s)


def forward(kind: Kind, step: str, substeps: int, given: Tensors, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; if kept all states, [candidate, rate] or [reset, W_1 h + b_h, rate], and the candidate."""
    steps, _, hidden = given.sizes(substeps)
    states, weights, leak = States(given.h0, len(given.xs), substeps, keep), given.weight_h.t(), None
    start = given.projected()
    acts = start if keep and substeps == 1 else start.new_empty(steps if keep else 1, *start.shape[1:])
    targets, candidate = (_reset if kind.candidate == "reset" else _tanh)(kind, start, acts, given.bias_h, hidden, steps)
    clock = given.dt, substeps, steps
    pace = _gate(kind, step, acts, hidden, *clock) if given.rates is None else _steady(kind, step, given.rates, *clock)
    h = given.h0
    for k, (row, act, into) in enumerate(zip(rows(start, steps), rows(acts, steps), states.rows, strict=True)):
        torch.addmm(row, h, weights, out=act)
        target = candidate(k)
        if kind.exponent:
            leak = h.abs().pow_(kind.exponent)
            torch.addcmul(h, pace(k, leak), torch.addcmul(target, leak, h, value=-1), out=into)
        else:
            torch.lerp(h, target, pace(k, None), out=into)
        h = into
    return (*states.given(), acts, targets) if keep else states.given()


Candidate = Callable[[int], Tensor]


def _tanh(kind: Kind, start: Tensor, acts: Tensor, bias_h: Tensor | None, hidden: int, steps: int) -> tuple[Tensor, Candidate]:
    """Where the candidates are written, and what is left to do for each once the product with W is added."""
    targets = acts[..., :hidden]
    written = rows(targets, steps)
    return targets, lambda k: written[k].tanh_()


def _reset(kind: Kind, start: Tensor, acts: Tensor, bias_h: Tensor | None, hidden: int, steps: int) -> tuple[Tensor, Candidate]:
    """As `_tanh`. P_1 makes way for b_h: W_1 h is added to what is inside the reset."""
    to_pull = start[..., hidden : 2 * hidden].clone()
    start[..., hidden : 2 * hidden] = 0 if bias_h is None else bias_h
    targets = to_pull if acts is start else to_pull.new_empty(len(acts), *to_pull.shape[1:])
    sigmoids = acts.unflatten(-1, (3, hidden))[:, :, ::2] if _in_one(kind) else acts[..., :hidden]
    squashed, resets = rows(sigmoids, steps), rows(acts[..., :hidden], steps)
    pulls, given, written = rows(acts[..., hidden : 2 * hidden], steps), rows(to_pull, steps), rows(targets, steps)

    def candidate(k: int) -> Tensor:
        squashed[k].sigmoid_()
        return torch.addcmul(given[k], resets[k], pulls[k], out=written[k]).tanh_()

    return targets, candidate


def _in_one(kind: Kind) -> bool:
    """Whether a reset and the rate are one call of the sigmoid."""
    return kind.candidate == "reset" and kind.rate == "sigmoid" and not kind.shared


Pace = Callable[[int, Tensor | None], Tensor]


def _steady(kind: Kind, step: str, rates: Tensor, dt: float | Tensor, substeps: int, steps: int) -> Pace:
    """M of each step where the rate is a constant."""
    u = times(rates, dt / substeps)
    known = u if kind.exponent else towards(step, u)
    ready = rows(known, steps) if isinstance(dt, Tensor) else [known] * steps
    if step == "euler" or not kind.exponent:
        return lambda k, leak: ready[k]
    return lambda k, leak: _moved(step, ready[k], leak)


def _gate(kind: Kind, step: str, acts: Tensor, hidden: int, dt: float | Tensor, substeps: int, steps: int) -> Pace:
    """M of each step where the rate is a gate, whose argument it is written over."""
    gates, taken = rows(_gate_of(kind, acts, hidden), steps), lengths(dt, substeps, steps)
    if _in_one(kind):
        return lambda k, leak: _moved(step, times(gates[k], taken[k]), leak)
    return lambda k, leak: _moved(step, times(_rate_(kind.rate, gates[k]), taken[k]), leak)


def _gate_of(kind: Kind, acts: Tensor, hidden: int) -> Tensor:
    return acts[..., (2 if kind.candidate == "reset" else 1) * hidden :]


def _moved(step: str, u: Tensor, leak: Tensor | None) -> Tensor:
    if leak is None:
        return towards(step, u)
    return u if step == "euler" else u * phi_1(u * leak)


def _rate_(name: str, z: Tensor) -> Tensor:
    if name == "sigmoid":
        return z.sigmoid_()
    return z.exp_() if name == "exponential" else torch.neg(logsigmoid(z.neg_()), out=z)


def backward(
    kind: Kind, step: str, substeps: int, given: Tensors, kept: Sequence[Tensor], grad: Tensor, needed: Tensors
) -> Tensors:
    """From the cotangents of the states after samples those of every tensor that needs one."""
    (_, batch, hidden), (states, acts, targets) = given.sizes(substeps), kept
    found, q, columns = Found(substeps, given, needed), grad[-1], acts.shape[-1]
    for first, last in blocks(len(given.xs), substeps * batch * columns):
        lo, hi = first * substeps, last * substeps
        length, h, act = given.durations(substeps, first, last), states[lo:hi], acts[lo:hi]
        rate = _gate_of(kind, act, hidden) if given.rates is None else given.rates
        local = _local(kind, step, h, act, targets[lo:hi], rate, length)
        d_args = torch.empty_like(act)
        qs = sweep(q, grad, first, substeps, local.units, local.shared, local.carried, given.weight_h, d_args)
        found.weights(d_args, h)
        if needed.rates:
            found.of.rates.add_((qs[1:] * local.pushed * length).sum((0, 1)))
        if needed.dt:
            found.durations(first, last, qs[1:] * local.pushed * rate)
        if kind.candidate == "reset":
            pull = d_args[..., hidden : 2 * hidden]
            if needed.bias_h:
                found.of.bias_h.add_(pull.sum((0, 1)))
            torch.mul(qs[1:], local.target, out=pull)  # P_1 is outside of the reset, where W_1 h + b_h is inside
        found.projections(first, last, d_args)
        q = qs[0]
    return found.all(q)


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


def _local(kind: Kind, step: str, h: Tensor, act: Tensor, target: Tensor, rate: Tensor, length: float | Tensor) -> _Local:
    hidden, u = h.shape[-1], times(rate, length)
    leak = h.abs().pow_(kind.exponent) if kind.exponent else None
    pull = target - h if leak is None else torch.addcmul(target, leak, h, value=-1)
    M = _moved(step, u, leak)
    pushed = pull if step == "euler" else pull * torch.exp(-u if leak is None else -u * leak)
    gated, resets = kind.rate != "constant", kind.candidate == "reset"
    per_unit = gated and not kind.shared
    units = h.new_empty(*h.shape[:-1], 1 + resets + per_unit, hidden)
    by_target = units[..., 0, :] if not resets else torch.empty_like(h)
    tanh_slope(M, target, grad_input=by_target)
    if resets:
        reset, inside = act[..., :hidden], act[..., hidden : 2 * hidden]
        sigmoid_slope(by_target * inside, reset, grad_input=units[..., 0, :])
        torch.mul(by_target, reset, out=units[..., 1, :])
    shared = None
    if gated:
        by_rate = units[..., -1, :] if per_unit else torch.empty_like(h)
        _rate_slope(kind.rate, times(pushed, length), rate, by_rate)
        shared = None if per_unit else by_rate
    return _Local(units, shared, _carried(kind, step, h, u, leak, pull, M), by_target, pushed)


def _carried(kind: Kind, step: str, h: Tensor, u: Tensor, leak: Tensor | None, pull: Tensor, M: Tensor) -> Tensor:
    """C, of the shape of h."""
    if leak is None:
        return (1 - M).expand_as(h)
    carried = torch.addcmul(h.new_ones(()), M, leak, value=-(kind.exponent + 1))
    if step == "euler":
        return carried
    bend = torch.where(h == 0, 0.0, kind.exponent * leak / h)  # dl/dh, 0 at rest as in `PowerDecay`
    return carried.sub_(pull * u.square() * phi_1_slope(u * leak) * bend)


def _rate_slope(name: str, q: Tensor, rate: Tensor, out: Tensor) -> None:
    """q times the derivative of a rate by its argument, which the rate itself tells."""
    if name == "sigmoid":
        sigmoid_slope(q, rate, grad_input=out)
    else:
        torch.mul(q, rate if name == "exponential" else -torch.expm1(-rate), out=out)
