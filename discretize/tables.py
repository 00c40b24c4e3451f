r"""Write a trajectory as a table of pandas or a data set of xarray; what is beyond the end of a sequence has no row, or is nan.

        h[0]  h[1]              dims time, sample, unit      shared times
sample time                     dims step, sample, unit      times of their own, time (step, sample), nan beyond each one's end
0      0.0   1.0   0.5
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


__all__ = ["dataset_of", "frame_of"]

KEPT = (str, bool, int, float)  # statistics that a file can keep


def frame_of(trajectory: Any, names: Sequence[str] | None) -> pd.DataFrame:
    """Make a table with a row for each sample and time, and before it one for each crossing of an event at that time."""
    import pandas as pd  # noqa: PLC0415 - an extra

    units = _units(trajectory, names)
    sample, step = np.nonzero(_there(trajectory).T)
    times = _times(trajectory)[step, sample]
    states, event = _array(trajectory.hs)[step, sample], np.full(len(times), -1)
    for k, crossed in enumerate(trajectory.events):
        sample = np.concatenate([sample, _array(crossed.samples)])
        times, states = np.concatenate([times, _array(crossed.times)]), np.concatenate([states, _array(crossed.states)])
        event = np.concatenate([event, np.full(len(crossed.times), k)])
    direction = -1 if len(trajectory.ts) > 1 and bool((trajectory.ts[-1] < trajectory.ts[0]).any()) else 1
    order = np.lexsort((np.where(event < 0, len(trajectory.events), event), direction * times, sample))
    frame = pd.DataFrame(states[order], pd.MultiIndex.from_arrays([sample[order], times[order]], names=["sample", "time"]), units)
    if trajectory.events:
        frame.insert(0, "event", pd.Series(event[order], index=frame.index, dtype="Int64"))
        frame["event"] = frame["event"].mask(frame["event"] < 0)
    return frame


def dataset_of(trajectory: Any, names: Sequence[str] | None) -> xr.Dataset:
    """Make a data set with a variable for each part of the state, and for the crossings of events."""
    import xarray as xr  # noqa: PLC0415 - an extra

    there, times = _there(trajectory), _times(trajectory)
    shared = trajectory.ts.dim() == 1
    first = "time" if shared else "step"
    labels = _units(trajectory, names) if trajectory.shapes is None else None
    parts = ["h"] if trajectory.shapes is None else _parts(trajectory, names)
    coordinates: dict[str, Any] = {"sample": np.arange(there.shape[1])}
    coordinates["time"] = times[:, 0] if shared else (("step", "sample"), np.where(there, times, np.nan))
    if labels is not None:
        coordinates["unit"] = labels

    def variables(states: Tensor, dims: tuple[str, ...], ending: str = "") -> dict[str, Any]:
        split = trajectory.split(states)
        inner = (
            [["unit"]]
            if labels is not None
            else [[f"{part}_axis{k}" for k in range(each.dim() - len(dims))] for part, each in zip(parts, split, strict=True)]
        )
        return {f"{part}{ending}": ((*dims, *axes), _array(each)) for part, each, axes in zip(parts, split, inner, strict=True)}

    states = trajectory.hs.detach().masked_fill(~torch.from_numpy(there).to(trajectory.hs.device)[..., None], math.nan)
    data = variables(states, (first, "sample"))
    if trajectory.events:
        crossed = [torch.cat([event[k] for event in trajectory.events]) for k in range(3)]
        data["event"] = (
            "crossing",
            np.repeat(np.arange(len(trajectory.events)), [len(event.times) for event in trajectory.events]),
        )
        data |= {"event_sample": ("crossing", _array(crossed[0])), "event_time": ("crossing", _array(crossed[1]))}
        data |= variables(crossed[2], ("crossing",), "_at_event")
    stats = {name: value for name, value in trajectory.stats.items() if isinstance(value, KEPT)}
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in stats.items()}
    return xr.Dataset(data, coordinates, {"status": trajectory.status, **attributes})


def _there(trajectory: Any) -> np.ndarray:
    """Mark the states before the end of each sequence, (n, batch): beyond it the last time is repeated, or an event ended it."""
    times = _times(trajectory)
    last = times == times[-1]
    there = np.ones(trajectory.hs.shape[:2], bool)
    there[1:] &= ~(last[1:] & last[:-1])
    if (ends := trajectory.stats.get("ends_of_samples")) is not None:
        direction = -1 if times[-1].sum() < times[0].sum() else 1
        there &= direction * times <= direction * np.asarray(ends)
    return there


def _times(trajectory: Any) -> np.ndarray:
    ts = trajectory.ts.detach().cpu()
    return (ts if ts.dim() > 1 else ts[:, None].expand(*trajectory.hs.shape[:2])).numpy()


def _array(x: Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()  # which NumPy has not


def _parts(trajectory: Any, names: Sequence[str] | None) -> list[str]:
    count = len(trajectory.shapes or (0,))
    return _checked(names, [f"h{k}" for k in range(count)] if count > 1 else ["h"], "part of the state")


def _units(trajectory: Any, names: Sequence[str] | None) -> list[str]:
    """Return the name of each number of the state: h[0], or the user's; of several tensors h1[0,2], part and index."""
    if trajectory.shapes is None:
        return _checked(names, [f"h[{k}]" for k in range(trajectory.hs.shape[-1])], "unit of the state")
    named = zip(_parts(trajectory, names), trajectory.shapes, strict=True)
    return [
        f"{part}[{','.join(map(str, place))}]" if shape else part
        for part, shape in named
        for place in product(*map(range, shape))
    ]


def _checked(names: Sequence[str] | None, own: list[str], what: str) -> list[str]:
    if names is None:
        return own
    given = [*names] if isinstance(names, Iterable) and not isinstance(names, str) else []
    if len(given) != len(own) or len({*given, "event"}) != len(own) + 1:
        raise ValueError(
            f"`names` has one name for each {what}, {len(own)}, all different and none of them 'event'; got {names!r}."
        )
    return given
