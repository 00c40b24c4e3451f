"""Warn once of times in another unit than a field's own: intervals far longer or far shorter than its units remember.

    too long     a sample lasts more than 50 times as long as the slowest unit remembers
    too short    a sample lasts less than a thousandth of what the fastest unit remembers, and no sequence ten times as long

A hundredth is usual, and so is less where a recording is long; who takes seconds for milliseconds is a thousand times off.
"""

from __future__ import annotations

from weakref import WeakSet

import torch
from torch import Tensor, nn

from ctrnn import VectorField, timescales
from ctrnn.fields.probes import asked_apart
from discretize.errors import TimeUnitWarning, warn_user
from discretize.kernels.eligibility import tracing_reason

__all__ = ["look_at_intervals"]

FAR = 50  # times what the slowest unit remembers
SHORT, FEW = 1100, 10  # parts of what the fastest unit remembers; how often it forgets in a sequence that is long enough
_looked: WeakSet[nn.Module] = WeakSet()  # fields whose first times have been looked at


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
