r"""Make twins of a sequence module: one field, shared, solved or by steps, on the same data.

A twin keeps how long samples last (`dt`), when they act (`hold`, `open_interval`) and which axis is time (`batch_first`).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ctrnn.storage.comparison import named_tensors
from discretize.errors import TimeUnitWarning, warn_user
from discretize.sequences.clocked import copied
from discretize.sequences.continuous import ContinuousRNN
from discretize.sequences.module import SequenceModule, check_module
from discretize.sequences.rnn import DiscreteRNN
from discretize.settings import Method
from discretize.steps.step import Step

__all__ = ["on_the_clock_of", "other_tensor", "solved", "stepped"]

KEPT = ("hold", "open_interval", "batch_first")


def solved(rnn: SequenceModule, method: Method | None = None, **settings: Any) -> SequenceModule:
    r"""Return the twin of a sequence module in which the equation is solved: the same field, shared, and the same time.

    Args:    rnn: a `DiscreteRNN`, `ContinuousRNN`, `Layers` or `JumpRNN`; method, and settings such as rtol, atol or max_step: as
             for `ContinuousRNN`, or of a `JumpRNN` for that; what is not given is as in `rnn`, if that is solved already. dt: how
             long a sample lasts, of data recorded at another rate.
    Raises:  TypeError, ValueError for what does not go with the field.
    """
    return _twin(rnn, "solved", settings if method is None else {"method": method, **settings})


def stepped(rnn: SequenceModule, step: Step | str | None = None, **settings: Any) -> SequenceModule:
    r"""Return the twin of a sequence module that takes steps of one length: the same field, shared, and the same time.

    Args:    rnn as for `solved`; step, by default that of `rnn`, or `Euler`; settings such as substeps: as for `DiscreteRNN`; a
             `JumpRNN` takes `step` as its method. dt: how long a sample lasts, of data recorded at another rate.
    Raises:  TypeError, ValueError for what does not go with the field, or with steps: events, paths through the samples.
    """
    return _twin(rnn, "stepped", settings if step is None else {"step": step, **settings})


def _twin(rnn: SequenceModule, way: str, settings: dict[str, Any]) -> SequenceModule:
    check_module(rnn)
    if changed := next((name for name in KEPT if name in settings), None):
        raise TypeError(
            f"`{way}` keeps `{changed}`, so that both read the same data alike; with another one make the module itself, "
            "`DiscreteRNN(field, ...)` or `ContinuousRNN(field, ...)`."
        )
    make = _solved if way == "solved" else _stepped
    twin: SequenceModule = rnn._made_of([make(module, settings).train(module.training) for module in rnn._clocked()])
    return twin


def _solved(rnn: Any, settings: dict[str, Any]) -> SequenceModule:
    if isinstance(rnn, DiscreteRNN):
        return ContinuousRNN(rnn.field, **rnn._settings() | {"fused": rnn.fused} | settings)
    if not isinstance(rnn, ContinuousRNN):
        twin: SequenceModule = rnn._as_solved(settings)
        return twin
    own = {each.name: getattr(rnn.settings, each.name) for each in fields(rnn.settings) if each.init}
    own = {name: value for name, value in own.items() if not name.startswith("on_") or name == "on_failure"}
    return ContinuousRNN(rnn.field, **rnn._settings() | own | {"path": rnn.path, "events": rnn.events} | settings)


def _stepped(rnn: Any, settings: dict[str, Any]) -> SequenceModule:
    if isinstance(rnn, DiscreteRNN):
        own = {"step": rnn.step, "substeps": rnn.substeps, "allow_overshoot": rnn.watch.allowed, "fused": rnn.fused}
        return DiscreteRNN(rnn.field, **rnn._settings() | own | settings)
    if not isinstance(rnn, ContinuousRNN):
        twin: SequenceModule = rnn._as_stepped(settings)
        return twin
    if rnn.path != "held" or rnn.events:
        raise ValueError(
            f"`stepped` makes a DiscreteRNN, which holds its samples and finds no events, and this module has "
            f"{'events' if rnn.events else f'path={rnn.path!r}'}; take steps by `solved(method=discretize.Euler())`."
        )
    return DiscreteRNN(rnn.field, **rnn._settings() | {"fused": rnn.settings.fused} | settings)


def on_the_clock_of(mine: SequenceModule, rnn: Any) -> Any:
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
        rnn = copied(rnn)
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
    weights: dict[str, Tensor] = {}
    for k, module in enumerate(modules):
        place = f"layers[{k}]." if len(modules) > 1 else ""
        for part in ("field", "jump") if hasattr(module, "jump") else ("field",):
            weights |= {f"{place}{part}.{name}": tensor for name, tensor in named_tensors(getattr(module, part)).items()}
    return weights
