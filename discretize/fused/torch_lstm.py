r"""The LSTM's field on [h, c] over a sequence, forwards and backwards.

    v = i g + f c        c <- c + M(1 - f) (v - c)        h <- h + M(1) (o tanh v - h)
    Euler  M(l) = dt     exponential  M(l) = dt phi_1(-dt l)

With the cotangents (q, p) of (h, c) after a step, E = M(1) o (1 - tanh^2 v) and D = [g i', c f', i g'], ' by the argument,

    cotangents of (i, f, g)  (E q + M p) D + [0, p (v - c) dM/df, 0]        of o  q M(1) o' tanh v
    of c before              (1 - M (1 - f)) p + E f q                      of h before  (1 - M(1)) q, and what the gates give
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from discretize.fused.kernel_spec import Kind
from discretize.fused.torch_sweeps import Found, States, Tensors, blocks, lengths, phi_1, phi_1_slope, rows, towards

__all__ = ["backward", "forward"]

tanh_slope, sigmoid_slope = torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward  # (q, value) -> q * derivative


def forward(kind: Kind, step: str, substeps: int, given: Tensors, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; if kept all states, the gates, tanh v, and 1 - f for the exponential step."""
    steps, batch, hidden = given.sizes(substeps)
    states, weights = States(given.h0, len(given.xs), substeps, keep), given.weight_h.t()
    taken, start = lengths(given.dt, substeps, steps), given.projected()
    acts = start if keep and substeps == 1 else start.new_empty(steps if keep else 1, *start.shape[1:])
    bent = acts.new_empty(steps if keep else 1, batch, hidden)
    leaks = torch.empty_like(bent) if step == "exponential" else None
    i_f, i, f, g, o = (rows(acts[..., a * hidden : b * hidden], steps) for a, b in ((0, 2), (0, 1), (1, 2), (2, 3), (3, 4)))
    saturated, leak = rows(bent, steps), [] if leaks is None else rows(leaks, steps)
    h, c = given.h0.split(hidden, -1)
    for k, (row, act, into) in enumerate(zip(rows(start, steps), rows(acts, steps), states.rows, strict=True)):
        h_into, c_into = into.split(hidden, -1)
        torch.addmm(row, h, weights, out=act)
        if leaks is not None:
            torch.sigmoid(-f[k], out=leak[k])  # 1 - f without cancellation where f is close to 1
        i_f[k].sigmoid_()
        g[k].tanh_()
        o[k].sigmoid_()
        v = torch.addcmul(i[k] * g[k], f[k], c)
        torch.tanh(v, out=saturated[k])
        M = taken[k] if leaks is None else taken[k] * phi_1(taken[k] * leak[k])
        torch.lerp(c, v, M, out=c_into)
        torch.lerp(h, o[k] * saturated[k], towards(step, taken[k]), out=h_into)
        h, c = h_into, c_into
    kept = acts, bent, *(() if leaks is None else (leaks,))
    return (*states.given(), *kept) if keep else states.given()


def backward(
    kind: Kind, step: str, substeps: int, given: Tensors, kept: Sequence[Tensor], grad: Tensor, needed: Tensors
) -> Tensors:
    """From the cotangents of the states after samples those of every tensor that needs one."""
    (_, batch, hidden), (states, acts, bent, *leaks) = given.sizes(substeps), kept
    found, q = Found(substeps, given, needed), grad[-1]
    for first, last in blocks(len(given.xs), substeps * batch * acts.shape[-1]):
        lo, hi = first * substeps, last * substeps
        length, state, act = given.durations(substeps, first, last), states[lo:hi], acts[lo:hi]
        local = _Local(step, state, act, bent[lo:hi], [part[lo:hi] for part in leaks], length)
        d_args = torch.empty_like(act)
        qs = _sweep(q, grad, first, substeps, local, given.weight_h, d_args)
        found.weights(d_args, state[..., :hidden])
        if needed.dt:
            found.durations(first, last, qs[1:] * local.by_length())
        found.projections(first, last, d_args)
        q = qs[0]
    return found.all(q)


class _Local:
    r"""Derivatives by the arguments and the state before a step, elementwise, for the steps of a block.

    from_h, from_c (steps, batch, 4 or 3, hidden): of h and c after a step by the arguments; carried (steps, batch, state): by
    themselves; across (steps, batch, hidden): of h by c.
    """

    def __init__(self, step: str, state: Tensor, act: Tensor, bent: Tensor, leaks: list[Tensor], length: Any) -> None:
        self.step, self.length, self.bent = step, length, bent
        self.h, self.c = state.chunk(2, -1)
        i, f, g, self.o = act.chunk(4, -1)
        self.leak = leaks[0] if leaks else 1 - f
        self.pull = torch.addcmul(i * g, self.leak, self.c, value=-1)  # v - c
        M = length * phi_1(length * self.leak) if leaks else length
        Mh = towards(step, length)
        E = tanh_slope(self.o, bent) * Mh
        D = torch.stack([sigmoid_slope(g, i), self.c * f * self.leak, tanh_slope(i, g)], -2)
        self.from_h = torch.cat([E.unsqueeze(-2) * D, (sigmoid_slope(bent, self.o) * Mh).unsqueeze(-2)], -2)
        self.from_c = D.mul_(M.unsqueeze(-2) if isinstance(M, Tensor) else M)
        if leaks:
            # dM/df = dt^2 phi_1'(-dt (1 - f)), and f' = f (1 - f)
            bend = phi_1_slope(length * self.leak) * self.pull * f * self.leak * length * length
            self.from_c[..., 1, :] += bend
        self.carried = torch.cat([(1 - Mh) * torch.ones_like(bent), 1 - M * self.leak], -1)
        self.across = E.mul_(f)

    def by_length(self) -> Tensor:
        """Of [h, c] by the length of the step."""
        pushed = torch.cat([self.o * self.bent - self.h, self.pull], -1)
        if self.step == "euler":
            return pushed
        leak = torch.cat([torch.ones_like(self.leak), self.leak], -1)
        return pushed * torch.exp(-self.length * leak)


def _sweep(q: Tensor, grad: Tensor, first: int, substeps: int, local: _Local, weight_h: Tensor, d_args: Tensor) -> Tensor:
    """As `torch_sweeps.sweep`, with the cotangents of [h, c]."""
    steps, hidden = len(d_args), weight_h.shape[1]
    qs = q.new_empty(steps + 1, *q.shape)
    qs[steps] = q
    before, C, across, args = qs.unbind(0), local.carried.unbind(0), local.across.unbind(0), d_args.unbind(0)
    h_before, c_before = qs[..., :hidden].unbind(0), qs[..., hidden:].unbind(0)
    h_wide, c_wide = qs[..., :hidden].unsqueeze(2).unbind(0), qs[..., hidden:].unsqueeze(2).unbind(0)
    of_h, of_c = d_args.unflatten(-1, (4, hidden)).unbind(0), d_args[..., : 3 * hidden].unflatten(-1, (3, hidden)).unbind(0)
    from_h, from_c = local.from_h.unbind(0), local.from_c.unbind(0)
    arriving = grad[max(0, first - 1) : first + steps // substeps].unbind(0)
    for k in reversed(range(steps)):
        torch.mul(h_wide[k + 1], from_h[k], out=of_h[k])
        of_c[k].addcmul_(c_wide[k + 1], from_c[k])
        sample, inner = divmod(k, substeps)
        if inner or not first + sample:
            torch.mul(before[k + 1], C[k], out=before[k])
        else:
            torch.addcmul(arriving[sample - (first == 0)], before[k + 1], C[k], out=before[k])
        c_before[k].addcmul_(h_before[k + 1], across[k])
        h_before[k].addmm_(args[k], weight_h)
    return qs
