r"""Say how long a sample lasts where no `ts` does, and at which times outputs are states.

sample k acts on [k dt, (k + 1) dt]        the same dt in DiscreteRNN and ContinuousRNN: the same clock
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ctrnn import checks
from discretize.sequences.ragged import Ragged, gone_by

if TYPE_CHECKING:
    from ctrnn import VectorField
    from ctrnn.inputs.held import Hold

__all__ = ["Clocked", "copied"]


class Clocked:
    """Has a `dt` of its own, `DiscreteRNN`, `ContinuousRNN` and `JumpRNN`, or that of its modules, `Layers`."""

    field: VectorField
    hold: Hold
    batch_first: bool
    training: bool
    dt: float = 1.0  # how long a sample lasts without `ts`
    dt_given: bool = False  # whether that was said, 1 too

    def _last_for(self, dt: float | None) -> None:
        self.dt, self.dt_given = (1.0, False) if dt is None else (checks.positive_number("dt", dt), True)

    @property
    def _counts_samples(self) -> bool:
        """Whether nothing was said of a sample's length; it lasts 1."""
        return self.dt == 1 and not self.dt_given

    def _clocked(self) -> list[Any]:
        """Return the modules that each have a `dt`."""
        return [self]

    def _made_of(self, modules: list[Any]) -> Any:
        """Return the same module of other ones in the places of `_clocked`."""
        return modules[0]

    def _counted(self, xs: Tensor, ragged: Ragged | None) -> Tensor:
        """Return the times of a call without `ts`, as `_edges` returns those of one with."""
        return self.dt * gone_by(xs, ragged)

    def output_times(self, x: Tensor | PackedSequence, ts: Tensor | None = None, lengths: Any = None) -> Tensor:
        r"""Return the times at which the outputs of a call `rnn(x, ts=ts, lengths=lengths)` are states.

        Output k is the state where sample k ends: at `ts[k + 1]`, and for the last one of stamps as long after it as the one
        before lasts; with hold="backward", a path through the samples, or jumps at them, at the stamp itself. Without `ts` a
        sample lasts `dt`.

        Shape:   x, ts, lengths as in the call -> float64 (time,), or (time, batch) where sequences have times or lengths of
                 their own, (batch, time) if batch-first. Beyond its last sample a sequence's time stands still.
        Raises:  TypeError, ValueError for what does not fit.
        """
        if isinstance(x, PackedSequence):
            x, lengths = pad_packed_sequence(x, self.batch_first)
        batched = checks.is_tensor("x", x).dim() > 2
        xs = x[:, None] if not batched else x.transpose(0, 1) if self.batch_first else x
        ragged = None if lengths is None else Ragged.of(lengths, xs)
        times: Tensor = self._counted(xs, ragged) if ts is None else self._edges(ts, xs, ragged, batched)  # type: ignore[attr-defined]
        times = times[len(times) - len(xs) :]
        return times.mT if self.batch_first and times.dim() == 2 else times

    def _lasting(self, lengths: list[float]) -> Self:
        """Return a copy, of the same field, whose samples last so long: a length for each of `_clocked`."""
        modules = [copied(module) for module in self._clocked()]
        for module, dt in zip(modules, lengths, strict=True):
            module._last_for(dt)
        twin: Self = self._made_of(modules)
        return twin

    def _settings(self) -> dict[str, Any]:
        """Return what both twins have, as their constructors take it."""
        hold = self.hold
        given = {"hold": hold.direction, "open_interval": hold.open_interval, "batch_first": self.batch_first}
        return given | ({} if self._counts_samples else {"dt": self.dt})


def copied(module: Any) -> Any:
    """Copy a module, its tables of parts and hooks too, and none of its parts."""
    twin = copy.copy(module)
    vars(twin).update({key: value.copy() for key, value in vars(twin).items() if isinstance(value, dict)})
    return twin
