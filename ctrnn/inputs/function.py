r"""An input given by a formula x(t) = f(t), smooth between given knots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.forward import jvp
from ctrnn.inputs.path import Path

__all__ = ["FunctionPath", "OneSidedTimes"]


class OneSidedTimes:
    r"""Times moved one ulp into their piece where they stand at one of its inner knots.

    Args:    name: what the user calls the knots; knots: (pieces + 1,), in the precision in which they are compared.
    Shape:   times(k, t): k and t both scalars, or both (n,) -> t, moved by no more than an ulp; its gradient stays.
    Raises:  ValueError for two knots with no time between them.
    """

    low: Tensor
    high: Tensor

    def __init__(self, name: str, knots: Tensor) -> None:
        start, end = knots.detach()[:-1], knots.detach()[1:]
        low, high = torch.nextafter(start, end), torch.nextafter(end, start)
        low[0], high[-1] = start[0], end[-1]  # the first and the last knot belong to one piece only
        if bool((low > high).any()):
            k = int((low > high).nonzero()[0])
            raise ValueError(
                f"`{name}`: no time lies between {float(start[k])!r} and {float(end[k])!r}, where the input could be asked; "
                "drop one of them."
            )
        self.low, self.high = low.double(), high.double()

    def __call__(self, k: int | Tensor, t: Tensor) -> Tensor:
        moved = torch.minimum(torch.maximum(t.detach(), self.low[k]), self.high[k])
        return t + (moved - t.detach())  # an ulp either way: exact


class FunctionPath(Path):
    r"""x(t) = f(t) on an interval, taken as smooth between `knots`.

    A solver works on one piece at a time, and evaluates f inside [knots[k], knots[k + 1]] only. A function may jump or bend
    at a knot, whatever its value at that very time: at the ends of a piece it is evaluated one ulp inside, so that the piece
    before a jump ends on the value before it. At the ends of the interval it is evaluated at these.

    Args:    f: t, a float64 scalar tensor on the CPU -> (batch, input), floating point, the same batch at all times; called
             for one time after another. Where derivatives, or gradients of times, are wanted, made of torch's functions of t.
             interval: (start, end); input_size: features of x; knots: increasing times in the interval where f is not
             smooth; none by default.
    Shape:   as of every path.
    Raises:  TypeError, ValueError for knots that are not increasing times, and for an f that returns anything else, here or
             later; NotImplementedError for a derivative that torch cannot follow.
    """

    f: Callable[[Tensor], Tensor]
    input_size: int

    equations: tuple[str, ...] = ("x(t) = f(t)",)

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
        self.knots: Tensor = _all_knots(interval, knots)
        self._one_sided = OneSidedTimes("knots", self.knots)
        self._batch: int | None = None  # not known before the first evaluation
        with torch.no_grad():
            self._batch = self.batch

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        times = self._one_sided(k, checks.time_on(t, torch.device("cpu")))
        if times.dim() == 0 or len(times) == 0:
            return _each(self._value, k, t)
        return torch.stack([self._checked(time) for time in times])

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return _each(self._slope, k, t)

    def _made_of(self) -> str:
        return f"{getattr(self.f, '__qualname__', type(self.f).__name__)}, input_size={self.input_size}"

    def _value(self, k: int, t: Tensor) -> Tensor:
        return self._checked(self._one_sided(k, checks.time_on(t, torch.device("cpu"))))

    def _checked(self, t: Tensor) -> Tensor:
        x = self.f(t)
        wanted = f"({'batch' if self._batch is None else self._batch}, {self.input_size})"
        if not isinstance(x, Tensor) or not x.is_floating_point():
            came = f"a tensor of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"`f` must give a floating-point tensor {wanted} at every time, got {came} at t = {_number(t)}.")
        if x.dim() != 2 or x.shape[1] != self.input_size or self._batch not in (None, len(x)):
            raise ValueError(f"`f` must give x(t) of shape {wanted} at every time, got {tuple(x.shape)} at t = {_number(t)}.")
        return x

    def _slope(self, k: int, t: Tensor) -> Tensor:
        time = self._one_sided(k, checks.time_on(t, torch.device("cpu")))
        try:
            return jvp(self._checked, (time,), (torch.ones_like(time),), strict=True)[1]
        except RuntimeError as error:
            # Where torch sees no dependence on t, f is constant or computed outside of torch; values tell which.
            values = [self._value(k, at) for at in (self.knots[k], self.knots[k : k + 2].mean(), self.knots[k + 1], time)]
            if all(torch.equal(value, values[0]) for value in values):
                return torch.zeros_like(values[0])
            raise NotImplementedError(
                f"The derivative of `f` at t = {_number(t)} is not known, since torch does not see how it depends on t; "
                "write it with torch's functions of t, `torch.sin(t)` for `math.sin(t)`."
            ) from error


def _each(f: Callable[[int, Tensor], Tensor], k: int | Tensor, t: Tensor) -> Tensor:
    """Call f at one time, or at one after another."""
    if t.dim() == 0:
        return f(int(k), t)
    if len(t) == 0:
        return f(0, t.new_zeros(()))[None][:0]
    return torch.stack([f(int(piece), time) for piece, time in zip(torch.as_tensor(k, device="cpu"), t, strict=True)])


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


def _number(t: Tensor) -> str:
    try:
        return repr(float(t.detach()))
    except RuntimeError:  # under torch's transforms a time has no number
        return "some time"
