"""Random systems whose events have closed forms: bouncing balls and neurons, crowded or quiet, in one batch."""

import math

import torch
from fuzz.dice import Dice, Difference, NoAnswer

from discretize import Event, SolverError, integrate

__all__ = ["crowded_events"]

METHODS = "dopri5", "tsit5", "dopri8", "rodas5p"
MOST = 60  # events of all samples: each ends a solve


def crowded_events(dice: Dice) -> list[Difference]:
    """Return how far the times of events are from those known: none more and none fewer."""
    return dice.one_of("system", [_balls, _neurons])(dice)


def _times(found: object, sample: int) -> torch.Tensor:
    return found.times[found.samples == sample]


def _solved(dice: Dice, field: object, h0: torch.Tensor, end: float, event: Event) -> object:
    method = dice.one_of("method", METHODS)
    return integrate(field, None, h0, [0.0, end / 3, end], events=event, method=method, rtol=1e-9, atol=1e-12)


def _differences(solved: object, known: list[torch.Tensor]) -> list[Difference]:
    for sample, expected in enumerate(known):
        times = _times(solved.events[0], sample)
        assert len(times) == len(expected), f"sample {sample} has {len(times)} events, and should have {len(expected)}"
    off = [_times(solved.events[0], k) - times for k, times in enumerate(known)]
    return [Difference(f"times of sample {k}", float(each.abs().max()), 1e-6) for k, each in enumerate(off) if len(each)]


def _balls(dice: Dice) -> list[Difference]:
    batch, kept = dice.count("batch", 1, 4), dice.one_of("kept", [0.9, 0.7, 0.4, 0.05])
    heights = [10 ** dice.one_of(f"height {k}", [-6.0, -3.0, -1.0, 0.0, 2.0]) for k in range(batch)]
    end = dice.one_of("end", [0.7, 1.0, 1.3]) * math.sqrt(2 * max(heights))
    known, rests = [], False
    for height in heights:
        first = math.sqrt(2 * height)
        rests |= first + 2 * first * kept / (1 - kept) < end * (1 + 1e-9)
        hops = 2 * first * kept ** torch.arange(1, MOST + 1, dtype=torch.float64)
        times = first + torch.cat([torch.zeros(1, dtype=torch.float64), hops]).cumsum(0)
        known.append(times[times < end])
        if bool(((times - end).abs() < 1e-5 * end).any()):
            raise NoAnswer
    if sum(map(len, known)) > MOST and not (rests and kept < 0.8):
        raise NoAnswer

    def fall(t: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.stack([h[:, 1], -torch.ones_like(h[:, 1])], 1)

    level = dice.one_of("floor", [0.0, 1.0])
    bounce = Event(lambda t, h: h[:, 0] - level, -1, reset=lambda t, h: torch.stack([h[:, 0], -kept * h[:, 1]], 1))
    h0 = torch.tensor([[level + height, 0.0] for height in heights], dtype=torch.float64)
    try:
        return _differences(_solved(dice, fall, h0, end, bounce), known)
    except SolverError:
        assert rests, "no ball comes to rest, and the solve stops"
        return []


def _neurons(dice: Dice) -> list[Difference]:
    batch, peak = dice.count("batch", 1, 4), 10 ** dice.one_of("peak", [1.0, 3.0, 6.0])
    low = dice.one_of("reset", [-10.0, 0.0, 3.0])
    begun = [dice.one_of(f"v {k}", [-50.0, -1.0, 0.0, 2.0]) for k in range(batch)]
    end = dice.one_of("end", [1.0, 3.0, 6.0])
    period = math.atan(peak) - math.atan(low)
    firsts = [math.atan(peak) - math.atan(v) for v in begun]
    known = [first + period * torch.arange(math.ceil(max(0.0, end - first) / period), dtype=torch.float64) for first in firsts]
    nearest = [(end - first) % period for first in firsts]
    if sum(map(len, known)) > MOST or any(min(each, period - each) < 1e-5 for each in nearest):
        raise NoAnswer
    fire = Event(lambda t, h: h[:, 0] - peak, 1, reset=lambda t, h: torch.full_like(h, low))
    h0 = torch.tensor([[v] for v in begun], dtype=torch.float64)
    return _differences(_solved(dice, lambda t, h: h**2 + 1, h0, end, fire), known)
