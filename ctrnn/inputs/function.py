r"""An input given by a formula: x(t) = f(t), smooth between the times at which it is said not to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.one_sided import Inside
from ctrnn.inputs.paths import Path

__all__ = ["FunctionPath"]


class FunctionPath(Path):
    r"""x(t) = f(t) on an interval, taken as smooth between `knots`.

    A solver works on one piece at a time, and asks f for times inside [knots[k], knots[k + 1]] only. A function may jump or
    bend at a knot, whatever it says at that very time: at the ends of a piece it is asked one ulp inside of it, so that the
    piece before a jump ends on the value before it. At the ends of the interval it is asked at these.

    Args:    f: t, a float64 scalar tensor on the CPU -> (batch, input), floating point, the same batch at all times; called
             for one time after another. Where derivatives, or gradients of times, are wanted, made of torch's functions of t.
             interval: (start, end); input_size: features of x; knots: increasing times in the interval where f is not
             smooth; none by default.
    Shape:   as of every path.
    Raises:  TypeError, ValueError for times that are none, and for an f that gives something else, here or when it does;
             NotImplementedError for a derivative that torch cannot follow.
    Source:  this project.
    """

    def __init__(
        self,
        f: Callable[[Tensor], Tensor],
        interval: tuple[float, float] | Tensor,
        input_size: int,
        knots: Sequence[float] | Tensor = (),
    ) -> None:
        if not callable(f):
            raise TypeError(f"`f` must be a function of time, got {type(f).__name__}; wrap samples in `ctrnn.LinearPath`.")
        self.f, self.input_size = f, checks.positive_size("input_size", input_size)
        self.knots = _all_knots(interval, knots)
        self._inside = Inside("knots", self.knots)
        self.batch: int | None = None
        with torch.no_grad():
            self.batch = len(self.at(0, self.knots[0]))

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._each(self._value, k, t)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._each(self._slope, k, t)

    def _each(self, ask: Callable[[int, Tensor], Tensor], k: int | Tensor, t: Tensor) -> Tensor:
        if t.dim() == 0:
            return ask(int(k), t)
        if len(t) == 0:
            return ask(0, self.knots[0])[None][:0]
        return torch.stack([ask(int(piece), time) for piece, time in zip(torch.as_tensor(k), t, strict=True)])

    def _value(self, k: int, t: Tensor) -> Tensor:
        return self._asked(self._inside(k, t.cpu()))

    def _asked(self, t: Tensor) -> Tensor:
        x = self.f(t)
        wanted = f"({'batch' if self.batch is None else self.batch}, {self.input_size})"
        if not isinstance(x, Tensor) or not x.is_floating_point():
            came = f"a tensor of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"`f` must give a floating-point tensor {wanted} at every time, got {came} at t = {_shown(t)}.")
        if x.dim() != 2 or x.shape[1] != self.input_size or len(x) == 0 or self.batch not in (None, len(x)):
            raise ValueError(f"`f` must give x(t) of shape {wanted} at every time, got {tuple(x.shape)} at t = {_shown(t)}.")
        return x

    def _slope(self, k: int, t: Tensor) -> Tensor:
        time = self._inside(k, t.cpu())
        try:
            return torch.func.jvp(self._asked, (time,), (torch.ones_like(time),), strict=True)[1]
        except RuntimeError as error:
            # What does not depend on t, for torch, is constant or escapes it; told apart by looking.
            values = [self._value(k, at) for at in (self.knots[k], self.knots[k : k + 2].mean(), self.knots[k + 1], time)]
            if all(torch.equal(value, values[0]) for value in values):
                return torch.zeros_like(values[0])
            raise NotImplementedError(
                f"The derivative of `f` at t = {_shown(t)} is not known, since torch does not see how it depends on t; "
                "write it with torch's functions of t, `torch.sin(t)` for `math.sin(t)`."
            ) from error


def _all_knots(interval: tuple[float, float] | Tensor, knots: Sequence[float] | Tensor) -> Tensor:
    ends = checks.are_times("interval", interval)
    if len(ends) != 2:
        raise ValueError(f"`interval` must be (start, end), got {len(ends)} times.")
    if isinstance(knots, Sequence | Tensor) and len(knots) == 0:
        return ends
    inner = checks.are_times("knots", knots)
    if inner[0] < ends[0] or inner[-1] > ends[1]:
        beyond = float(inner[0] if inner[0] < ends[0] else inner[-1])
        raise ValueError(f"`knots` holds {beyond!r}, outside the interval [{float(ends[0])!r}, {float(ends[1])!r}].")
    return torch.cat([ends, inner]).unique()


def _shown(t: Tensor) -> str:
    try:
        return repr(float(t.detach()))
    except RuntimeError:  # under torch's transforms a time has no number
        return "some time"
