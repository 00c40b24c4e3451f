r"""The LSTM's field on [h, c] over a sequence, forwards and backwards.

    v = i g + f c        c <- c + M(1 - f) (v - c)        h <- h + M(1) (o tanh v - h)
    Euler  M(l) = dt     exponential  M(l) = dt phi_1(-dt l)

With the cotangents (q, p) of (h, c) after a step, E = M(1) o (1 - tanh^2 v) and D = [g i', c f', i g'], ' by the argument,

    cotangents of (i, f, g)  (E q + M p) D + [0, p (v - c) dM/df, 0]        of o  q M(1) o' tanh v
    of c before              (1 - M (1 - f)) p + E f q                      of h before  (1 - M(1)) q, and what the gates give
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

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
    unit_leak_factor,
)

__all__ = ["backward", "forward"]

tanh_slope, sigmoid_slope = torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward  # (q, value) -> q * derivative


def forward(kind: Kind, step: str, substeps: int, inputs: CellInputs, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; if kept all states, the gates, tanh v, and 1 - f for the exponential step."""
    steps, batch, hidden = inputs.sizes(substeps)
    states, weights = StateBuffer(inputs.h0, len(inputs.xs), substeps, keep), inputs.weight_h.t()
    taken, start = lengths(inputs.dt, substeps, steps), inputs.projected()
    acts = start if keep and substeps == 1 else start.new_empty(steps if keep else 1, *start.shape[1:])
    bent = acts.new_empty(steps if keep else 1, batch, hidden)
    leaks = torch.empty_like(bent) if step == "exponential" else None
    i_f, i, f, g, o = (per_step(acts[..., a * hidden : b * hidden], steps) for a, b in ((0, 2), (0, 1), (1, 2), (2, 3), (3, 4)))
    saturated, leak = per_step(bent, steps), [] if leaks is None else per_step(leaks, steps)
    h, c = inputs.h0.split(hidden, -1)
    for k, (row, act, into) in enumerate(zip(per_step(start, steps), per_step(acts, steps), states.rows, strict=True)):
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
        torch.lerp(h, o[k] * saturated[k], unit_leak_factor(step, taken[k]), out=h_into)
        h, c = h_into, c_into
    kept = acts, bent, *(() if leaks is None else (leaks,))
    return (*states.results(), *kept) if keep else states.results()


def backward(
    kind: Kind, step: str, substeps: int, inputs: CellInputs, kept: Sequence[Tensor], grad: Tensor, needed: CellInputs
) -> CellInputs:
    """From the cotangents of the states after samples those of every tensor that needs one."""
    (_, batch, hidden), (states, acts, bent, *leaks) = inputs.sizes(substeps), kept
    sums, q = GradientSums(substeps, inputs, needed), grad[-1]
    for first, last in blocks(len(inputs.xs), substeps * batch * acts.shape[-1]):
        lo, hi = first * substeps, last * substeps
        length, state, act = inputs.step_lengths(substeps, first, last), states[lo:hi], acts[lo:hi]
        local = _Local(step, state, act, bent[lo:hi], [part[lo:hi] for part in leaks], length)
        d_args = torch.empty_like(act)
        qs = backward_steps(q, grad, first, substeps, local, inputs.weight_h, d_args)
        sums.add_weights(d_args, state[..., :hidden])
        if needed.dt:
            sums.add_step_lengths(first, last, qs[1:] * local.by_length())
        sums.add_projections(first, last, d_args)
        q = qs[0]
    return sums.results(q)


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
        Mh = unit_leak_factor(step, length)
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

    def step_back(self, qs: Tensor, d_args: Tensor) -> Callable[[int], None]:
        hidden = self.bent.shape[-1]
        q_h, q_c = qs[..., :hidden], qs[..., hidden:]
        h_wide, c_wide, h_rows, c_rows = q_h.unsqueeze(2).unbind(0), q_c.unsqueeze(2).unbind(0), q_h.unbind(0), q_c.unbind(0)
        to_all, to_three = (d_args[..., : n * hidden].unflatten(-1, (n, hidden)).unbind(0) for n in (4, 3))
        from_h, from_c, across = self.from_h.unbind(0), self.from_c.unbind(0), self.across.unbind(0)

        def step(k: int) -> None:
            torch.mul(h_wide[k + 1], from_h[k], out=to_all[k])
            to_three[k].addcmul_(c_wide[k + 1], from_c[k])
            c_rows[k].addcmul_(h_rows[k + 1], across[k])

        return step
