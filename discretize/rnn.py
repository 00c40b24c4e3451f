"""A field as a sequence module, called like `torch.nn.RNN`: discrete and exact, on the same weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ctrnn import HeldPath, VectorField, checks
from ctrnn.paths import checked_samples, interval_edges
from discretize.cell import checked_step
from discretize.solve import checked_settings, integrate
from discretize.steps.euler import Euler
from discretize.steps.step import Step

__all__ = ["ContinuousRNN", "DiscreteRNN"]


class _SequenceModule(nn.Module, ABC):
    """(x, h_0, ts) -> (output, h_n), with the axes of `torch.nn.RNN`; subclasses say how the states come about."""

    def __init__(self, field: VectorField, batch_first: bool) -> None:
        super().__init__()
        self.field, self.batch_first = checks.is_field(field), checks.is_flag("batch_first", batch_first)

    def forward(
        self, x: Tensor, h_0: Tensor | tuple[Tensor, Tensor] | None = None, ts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        xs, batched = self._time_first(x)
        h0 = self._start(h_0, xs, batched)
        states = self._states(xs, h0, ts)
        # A copy: whoever masks the output must not change the state to go on from.
        output, h_n = self.field.visible(states), states[-1:].clone()
        if not batched:
            return output[:, 0], h_n[:, 0]
        return (output.transpose(0, 1) if self.batch_first else output), h_n

    @abstractmethod
    def _states(self, xs: Tensor, h0: Tensor, ts: Tensor | None) -> Tensor:
        """(time, batch, input), (batch, state) -> the state after each sample, (time, batch, state)."""

    def _time_first(self, x: Tensor) -> tuple[Tensor, bool]:
        if isinstance(x, PackedSequence):
            raise TypeError("`x` is a PackedSequence; run sequences of different lengths one by one, or pad them.")
        checks.is_input(self.field, x)
        if x.dim() not in (2, 3):
            order = "(batch, time, input)" if self.batch_first else "(time, batch, input)"
            raise ValueError(f"`x` must be {order}, or (time, input) for one sequence, got shape {tuple(x.shape)}.")
        if x.dim() == 2:
            return checked_samples(x[:, None], "x"), False
        return checked_samples(x.transpose(0, 1) if self.batch_first else x, "x"), True

    def _start(self, h_0: Tensor | tuple[Tensor, Tensor] | None, xs: Tensor, batched: bool) -> Tensor:
        batch, width = xs.shape[1], self.field.state_size
        if h_0 is None:
            return xs.new_zeros(batch, width)
        if isinstance(h_0, tuple | list):
            h_0 = self._joined(h_0)
        checks.is_state(self.field, h_0, "h_0")
        shapes = [(1, batch, width), (batch, width)] if batched else [(1, width), (width,)]
        if tuple(h_0.shape) not in shapes:
            raise ValueError(f"`h_0` must have shape {shapes[0]} or {shapes[1]}, got {tuple(h_0.shape)}.")
        checks.is_finite("h_0", h_0)
        return h_0.reshape(batch, width)

    def _joined(self, pair: tuple[Tensor, Tensor] | list[Tensor]) -> Tensor:
        hidden = self.field.hidden_size
        if self.field.state_size != 2 * hidden or len(pair) != 2:
            raise ValueError(
                f"`h_0` is a sequence of {len(pair)}; a pair (h_0, c_0) is for fields on the state [h, c], and this one keeps "
                f"{self.field.state_size} units of which {hidden} are visible."
            )
        h, c = pair
        for part in pair:
            checks.like_field("h_0", checks.is_tensor("h_0", part), self.field)
        if h.shape != c.shape or h.dim() == 0 or h.shape[-1] != hidden:
            raise ValueError(f"`h_0` and `c_0` must both be {hidden} wide, got {tuple(h.shape)} and {tuple(c.shape)}.")
        return torch.cat([h, c], -1)

    def extra_repr(self) -> str:
        return f"batch_first={self.batch_first}"


class DiscreteRNN(_SequenceModule):
    r"""The field unrolled by a step map: output k is the state after sample k.

    Args:    field: a `VectorField`, shared, not copied; step: a one-step map; dt: time a sample takes where no `ts` says
             otherwise; substeps: equal steps a sample is read in; batch_first: axes of x and output as in torch.nn.
    Call:    rnn(x, h_0=None, ts=None). With ts, (time + 1,) edges or (time,) stamps shared by the batch, sample k takes
             its interval's length instead of dt.
    Shape:   x (time, batch, input), or (time, input); h_0 (1, batch, state), (batch, state), or a pair (h_0, c_0) for
             [h, c] -> output (time, batch, hidden), h_n (1, batch, state), never batch-first.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Tallec and Ollivier 2018, eqs. (2), (5), (8), (10) with the Euler step and dt = 1.
    """

    def __init__(
        self, field: VectorField, step: Step = Euler(), dt: float = 1.0, substeps: int = 1, batch_first: bool = False
    ) -> None:
        super().__init__(field, batch_first)
        self.step, self.dt = checked_step(step), checks.positive_number("dt", dt)
        self.substeps = checks.positive_size("substeps", substeps)

    def _states(self, xs: Tensor, h0: Tensor, ts: Tensor | None) -> Tensor:
        lengths = [self.dt] * len(xs) if ts is None else interval_edges(len(xs), ts).diff().tolist()
        h, states = h0, []
        for projected, length in zip(self.field.project(xs).unbind(0), lengths, strict=True):
            for _ in range(self.substeps):
                h = self.step.advance(self.field, projected, h, length / self.substeps)
            states.append(h)
        return torch.stack(states)

    def extra_repr(self) -> str:
        return f"step={self.step!r}, dt={self.dt:g}, substeps={self.substeps}, {super().extra_repr()}"


class ContinuousRNN(_SequenceModule):
    r"""The field integrated exactly over held samples: output k is the state after sample k has been read.

    Args:    field: a `VectorField`, shared, not copied; method, rtol, atol, dt, adjoint as for `integrate`;
             batch_first: axes of x and output as in torch.nn.
    Call:    rnn(x, h_0=None, ts=None), as for `DiscreteRNN`; without ts a sample takes one unit of time.
    Shape:   as for `DiscreteRNN`.
    Raises:  TypeError, ValueError for what does not fit; SolverError for a solve that fails.
    Source:  Tallec and Ollivier 2018, eqs. (3), (4), (7).
    """

    def __init__(
        self,
        field: VectorField,
        method: str | Step = "dopri5",
        rtol: float = 1e-5,
        atol: float = 1e-7,
        dt: float | None = None,
        adjoint: bool = False,
        batch_first: bool = False,
    ) -> None:
        super().__init__(field, batch_first)
        self.rtol, self.atol, self.dt = checked_settings(method, rtol, atol, dt, adjoint)
        self.method = method

    def _states(self, xs: Tensor, h0: Tensor, ts: Tensor | None) -> Tensor:
        path = HeldPath(xs, ts)
        solved = integrate(
            self.field, path, h0, path.knots, method=self.method, rtol=self.rtol, atol=self.atol, dt=self.dt
        )  # fmt: skip
        return solved.hs[1:]

    def extra_repr(self) -> str:
        fixed = "" if self.dt is None else f"dt={self.dt:g}, "
        return f"method={self.method!r}, rtol={self.rtol:g}, atol={self.atol:g}, {fixed}{super().extra_repr()}"
