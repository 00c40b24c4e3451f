"""Choose a unit of time, and warn once of times in another one than a field's own or than a module was told.

    unit         a sample lasts 0.2 of it in the median: short beside the 1 or 2 for which a new network remembers

    too long     a sample lasts more than 50 times as long as the slowest unit remembers
    too short    a sample lasts less than a thousandth of what the fastest unit remembers, and no sequence ten times as long

A hundredth is usual, and so is less where a recording is long; who takes seconds for milliseconds is a thousand times off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks, timescales
from ctrnn.fields.probes import asked_apart
from discretize.errors import TimeUnitWarning, warn_user
from discretize.kernels.eligibility import tracing_reason

__all__ = ["look_at_intervals", "look_at_lengths", "unit"]

FAR = 50  # times what the slowest unit remembers
SHORT, FEW = 1100, 10  # parts of what the fastest unit remembers; how often it forgets in a sequence that is long enough
ALIKE = 1e-3  # of a sample's length: what float32 leaves of stamps
_looked: WeakSet[nn.Module] = WeakSet()  # fields whose first times have been looked at
_said: WeakSet[nn.Module] = WeakSet()  # modules of which it was said that their `dt` is not read


def unit(ts: Tensor | Iterable[object], samples: float = 5.0) -> float:
    r"""Return a unit of time for data with these times: a network that is new reads them well as `ts / unit(ts)`.

    In a new network of rate 1, `ctrnn.gru` say, the effect of a sample falls to a third within 1 or 2 units, and an Euler step
    of 0.2 units is close to its equation. So a unit is five samples long, by the median interval of all sequences; what is to be
    noticed should last a few units at least, and a unit is set longer where it lasts for many: by `samples`.

        >>> round(unit(torch.tensor([0.0, 0.1, 0.2, 0.3])), 3)  # five median samples
        0.5

    Args:    ts: of one sequence, or of several, nan after their ends; or a list of those, one for each sequence, or batch. Of a
             dataset that of its training part. samples: how many samples a unit is long.
    Shape:   ts (time,), (time, batch), or in a list each so.
    Returns: the unit, in that of `ts`. Round it to one that can be told, and keep it: it belongs to the trained weights.
    Raises:  TypeError, ValueError for what are no times, do not increase, or are of sequences of one sample each.
    """
    parts = [ts] if isinstance(ts, Tensor | np.ndarray) or not isinstance(ts, Iterable) else list(ts)
    parts = [parts] if parts and all(isinstance(part, int | float) for part in parts) else parts
    long = checks.positive_number("samples", samples)
    intervals = torch.cat([torch.zeros(0, dtype=torch.float64, device="cpu"), *map(_intervals, parts)])
    if not len(intervals):
        raise ValueError("`ts` has no two times of one sequence, so that nothing says how long a sample lasts.")
    return long * float(np.median(intervals.numpy()))


def _intervals(ts: object) -> Tensor:
    """Return the intervals between the times of each sequence, (n,)."""
    try:
        given = checks.as_numbers(ts).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise checks.not_times("ts", ts) from error
    if given.dim() not in (1, 2) or given.is_complex() or given.dtype == torch.bool:
        raise ValueError(f"`ts` must be times (time,) or (time, batch), got {given.dtype} of shape {tuple(given.shape)}.")
    intervals = given.double().diff(dim=0).flatten()
    if bool((intervals.isinf() | (intervals <= 0)).any()):
        wrong = float(intervals[intervals.isinf() | (intervals <= 0)][0])
        raise ValueError(
            f"`ts` must increase along its first axis, time, and has an interval of {wrong:g}; (batch, time) is to be turned, "
            "`ts.T`, and what stands after the end of a sequence must be nan."
        )
    return intervals[~intervals.isnan()]


def look_at_lengths(modules: Sequence[Any], times: Tensor) -> None:
    """Look at the times (n,) or (n, batch) that modules are given beside a `dt` of their own; warn once that it is not read."""
    told = [module for module in modules if module.dt != 1 and module not in _said]
    if not told or tracing_reason() is not None or times.is_meta:
        return
    intervals = times.detach().diff(dim=0)
    intervals = intervals[intervals > 0]  # a sequence that is over has none
    for module in told:
        if len(off := intervals[(intervals - module.dt).abs() > ALIKE * module.dt]):
            _said.update(told)
            warn_user(
                f"`ts` says how long samples last, here {float(off.median()):.3g}, and `dt`={module.dt:g}, which was set, is not "
                "read beside it. Both must be in one unit of time; if they are, all is well.",
                TimeUnitWarning,
            )
            return


@torch.no_grad()
def look_at_intervals(field: object, times: Tensor) -> None:
    """Look at the times (n,) or (n, batch) that a field is given for its samples, the first ones in its life.

    Samples that are 1 apart are counted, and nothing is said of them.
    """
    if not isinstance(field, VectorField) or tracing_reason() is not None or field in _looked:
        return
    intervals = times.detach().diff(dim=0)
    intervals = intervals[(intervals > 0) & intervals.isfinite()]  # a sequence that is over has none
    if not len(intervals) or times.is_meta or any(weight.is_meta for weight in field.parameters()):
        return
    _looked.add(field)
    apart = float(intervals.median())
    found = None if abs(apart - 1) < 1e-3 else asked_apart(field, field.device, _times_of)
    if found is None:
        return
    remembered, moves = found
    shortest, longest = min(float(remembered.min()), moves), float(remembered.max())
    whole = float((times[-1] - times[0]).detach().max())
    if apart > FAR * longest:
        said, so = f"its slowest unit forgets in {longest:.3g}", "nothing is remembered from one sample to the next"
    elif apart < shortest / SHORT and whole < FEW * shortest:
        said = f"its fastest unit forgets in {float(remembered.min()):.3g}"
        so = f"a sample hardly moves the state, and nor do the {whole:.3g} of a whole sequence"
    else:
        return
    warn_user(
        f"Samples are {apart:.3g} apart, and of the field {said} (`ctrnn.timescales`), in the same unit of time: {so}. Convert "
        "the times, if they are in seconds or milliseconds and the field counts samples, or give the field the time scale of the "
        "data: by `tau`, `alpha` or `ctrnn.init.chrono_`.",
        TimeUnitWarning,
    )


def _times_of(field: VectorField) -> tuple[Tensor, float]:
    """Return for how long the units remember, and in which time a state of 0 is moved by 1.

    Raises:  TypeError, RuntimeError for a field that forgets nothing.
    """
    state = field.initial_state(1)
    # Thresholds that adapt, or turning states, are remembered for longer than the state takes to move.
    moves = 1 / float(field(state.new_ones(1, field.input_size), state).abs().amax())
    remembered = timescales(field).double()
    remembered = remembered[remembered.isfinite() & (remembered > 0)]
    if not len(remembered):
        raise RuntimeError("no unit forgets")
    return remembered, moves
