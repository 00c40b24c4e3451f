r"""Say how long a sample lasts where no `ts` does, and make twins of a module that keep it: one field, solved or by steps.

sample k acts on [k dt, (k + 1) dt]        the same dt in DiscreteRNN and ContinuousRNN: the same clock
"""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ctrnn import checks
from ctrnn.storage.comparison import named_tensors
from discretize.errors import TimeUnitWarning, warn_user
from discretize.sequences.ragged import Ragged, gone_by

if TYPE_CHECKING:
    from ctrnn import VectorField
    from ctrnn.inputs.held import Hold
    from discretize.sequences.module import SequenceModule
    from discretize.settings import Method
    from discretize.steps.step import Step

__all__ = ["Clocked"]

KEPT = ("hold", "open_interval", "batch_first")  # what a twin never changes


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
        times = times[-len(xs) :]
        return times.mT if self.batch_first and times.dim() == 2 else times

    def solved(self, method: Method | None = None, **settings: Any) -> SequenceModule:
        r"""Return the twin in which the equation is solved: the same field, shared, and the same time.

        Args:    method, and settings such as rtol, atol or max_step: as for `ContinuousRNN`, or of a `JumpRNN` for that; what is
                 not given is as here, if this is solved already. dt: how long a sample lasts, if for once for another time.
        Raises:  TypeError, ValueError for what does not go with the field.
        """
        _check_kept("solved", settings)
        given = settings if method is None else {"method": method, **settings}
        twin: SequenceModule = self._made_of([module._as_solved(given).train(module.training) for module in self._clocked()])
        return twin

    def stepped(self, step: Step | str | None = None, **settings: Any) -> SequenceModule:
        r"""Return the twin that takes steps of one length: the same field, shared, and the same time.

        Args:    step, by default this one's, or `Euler`; settings such as substeps: as for `DiscreteRNN`; a `JumpRNN` takes
                 `step` as its method. dt: how long a sample lasts, if for once for another time.
        Raises:  TypeError, ValueError for what does not go with the field, or with steps: events, paths through the samples.
        """
        _check_kept("stepped", settings)
        given = settings if step is None else {"step": step, **settings}
        twin: SequenceModule = self._made_of([module._as_stepped(given).train(module.training) for module in self._clocked()])
        return twin

    def _lasting(self, lengths: list[float]) -> Self:
        """Return a copy, of the same field, whose samples last so long: a length for each of `_clocked`."""
        modules = [copy.copy(module) for module in self._clocked()]
        for module, dt in zip(modules, lengths, strict=True):
            module._last_for(dt)
        found: Self = self._made_of(modules)
        return found

    def _settings(self) -> dict[str, Any]:
        """Return what both twins have, as their constructors take it."""
        hold = self.hold
        given = {"hold": hold.direction, "open_interval": hold.open_interval, "batch_first": self.batch_first}
        return given | ({} if self._counts_samples else {"dt": self.dt})

    def _as_solved(self, settings: dict[str, Any]) -> Any:
        from discretize.sequences.continuous import ContinuousRNN  # noqa: PLC0415 - which is made of this class

        if not isinstance(self, ContinuousRNN):
            return ContinuousRNN(self.field, **self._settings() | {"fused": self.fused} | settings)  # type: ignore[attr-defined]
        own = {each.name: getattr(self.settings, each.name) for each in fields(self.settings) if each.init}
        own = {name: value for name, value in own.items() if not name.startswith("on_") or name == "on_failure"}
        return ContinuousRNN(self.field, **self._settings() | own | {"path": self.path, "events": self.events} | settings)

    def _as_stepped(self, settings: dict[str, Any]) -> Any:
        from discretize.sequences.rnn import DiscreteRNN  # noqa: PLC0415 - which is made of this class

        if isinstance(self, DiscreteRNN):
            own = {"step": self.step, "substeps": self.substeps, "allow_overshoot": self.watch.allowed, "fused": self.fused}
            return DiscreteRNN(self.field, **self._settings() | own | settings)
        if self.path != "held" or self.events:  # type: ignore[attr-defined]
            what = "events" if self.events else f"path={self.path!r}"  # type: ignore[attr-defined]
            raise ValueError(
                f"`stepped` makes a DiscreteRNN, which holds its samples and finds no events, and this module has {what}; take "
                "steps of one length by `solved(method=discretize.Euler())`."
            )
        return DiscreteRNN(self.field, **self._settings() | {"fused": self.settings.fused} | settings)  # type: ignore[attr-defined]


def on_the_clock_of(mine: Clocked, rnn: Any) -> Any:
    """Return another rnn, or a copy that takes from this one what it was not told of its samples; warn of what is otherwise."""
    lengths, theirs = [each.dt for each in mine._clocked()], [each.dt for each in rnn._clocked()]
    other = []
    if rnn._counts_samples and theirs != lengths:
        if len(set(lengths)) > 1 and len(lengths) != len(theirs):
            raise ValueError(
                f"In the model's layers a sample lasts {' and '.join(f'{dt:g}' for dt in sorted(set(lengths)))}, and `rnn` has "
                f"{len(theirs)} modules for its {len(lengths)}; say how long by their `dt`."
            )
        rnn = rnn._lasting(lengths if len(lengths) == len(theirs) else lengths[:1] * len(theirs))
    elif set(theirs) != set(lengths):
        other.append(f"dt={theirs[0]:g}, the model's lasts {lengths[0]:g}")
    here, there = mine.hold, rnn.hold
    if here.direction != there.direction:
        other.append(f"hold={there.direction!r}, the model's {here.direction!r}")
    elif there.open_interval is None and here.open_interval is not None and getattr(rnn, "path", "held") == "held":
        rnn = copy.copy(rnn)
        rnn.hold = here
    if mine.batch_first != rnn.batch_first:
        other.append(f"batch_first={rnn.batch_first}, the model's {mine.batch_first}")
    if other:
        warn_user(
            f"`rnn` reads the same data otherwise than the model did: it has {'; and '.join(other)}. If that is not meant take "
            "`model.solved(...)` or `model.stepped(...)`, which keep it; `dt=` of these is for data recorded at another rate.",
            TimeUnitWarning,
        )
    return rnn


def other_tensor(rnn: Any, mine: Any) -> str | None:
    """Name a weight of an rnn's fields that is none of the other's, neither the same tensor nor equal to its namesake; None too
    where all of the other's are there, and the field is one around it, with noise say."""
    ours, theirs = _weights_of(mine), _weights_of(rnn)
    name = _not_among(theirs, ours)
    return name if name and _not_among(ours, theirs) else None


def _not_among(tensors: dict[str, Tensor], known: dict[str, Tensor]) -> str | None:
    ids = {id(tensor) for tensor in known.values()}
    for name, tensor in tensors.items():
        other = known.get(name)
        alike = other is not None and other.shape == tensor.shape and torch.equal(other.to(tensor), tensor)
        if id(tensor) not in ids and not alike:
            return name
    return None


def _weights_of(rnn: Any) -> dict[str, Tensor]:
    modules: list[Any] = rnn._clocked()
    found: dict[str, Tensor] = {}
    for k, module in enumerate(modules):
        place = f"layers[{k}]." if len(modules) > 1 else ""
        for part in ("field", "jump") if hasattr(module, "jump") else ("field",):
            found |= {f"{place}{part}.{name}": tensor for name, tensor in named_tensors(getattr(module, part)).items()}
    return found


def _check_kept(called: str, settings: dict[str, Any]) -> None:
    if changed := next((name for name in KEPT if name in settings), None):
        raise TypeError(
            f"`{called}` keeps `{changed}`, so that both read the same data alike; with another one make the module itself, "
            "`DiscreteRNN(field, ...)` or `ContinuousRNN(field, ...)`."
        )
