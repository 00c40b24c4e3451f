r"""Draws the trials of published networks, by the durations, sizes and noise of their scripts, in our own code.

    random-dots    a signal in noise                            its sign, after a delay
    context        two signals, and which of them counts        the sign of that one
    modalities     one signal or both, of one sign              their sign
    comparison     a frequency, a delay, a frequency            which is larger
    match          one of two stimuli, a delay, one of two      whether they are the same
    two-channels   two signals in noise, for a while            which is larger

Of Dubreuil et al. 2022 and Valente et al. 2022, samples of 20 ms, and of PsychRNN, samples of 10 ms; tau is 100 ms in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

__all__ = ["DRAWN", "Drawn"]


@dataclass(frozen=True)
class Drawn:
    r"""Holds trials: inputs, what is wanted, where it is asked for, and a number that names the condition of each.

    Shape:   xs (size, time, input), wanted (size, time, output), asked (size, time), condition (size,), its sign the choice.
    """

    xs: Tensor
    wanted: Tensor
    asked: Tensor
    condition: Tensor

    def choices(self, outputs: Tensor) -> Tensor:
        """Return the choice (size,), 1 or -1, by the mean of the outputs, (size, time, output), where it is asked for."""
        mean = (outputs * self.asked[..., None]).sum(1)
        return (mean[:, 0] if mean.shape[1] == 1 else mean[:, 0] - mean[:, 1]).sign()

    def right(self, outputs: Tensor) -> Tensor:
        """Return which trials (size,) are right."""
        return self.choices(outputs) == self.choices(self.wanted)

    def loss(self, outputs: Tensor) -> float:
        """Return the squared error where it is asked for, a mean over trials of means over time, as the scripts have it."""
        off = ((outputs - self.wanted).square().mean(-1) * self.asked).sum(1) / self.asked.sum(1)
        return float(off.mean())


def _among(values: list[float], size: int, generator: torch.Generator) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), (size,), generator=generator)]


def _noise(deviation: float, size: int, time: int, features: int, generator: torch.Generator) -> Tensor:
    return deviation * torch.randn(size, time, features, generator=generator, dtype=torch.float64)


def _decided(xs: Tensor, choice: Tensor, begins: int, condition: Tensor) -> Drawn:
    asked = (torch.arange(xs.shape[1]) >= begins).double().expand(xs.shape[:2])
    return Drawn(xs, (asked * choice[:, None])[..., None], asked, condition)


def random_dots(
    coherences: list[float], scale: float, deviation: float, delay: int, decision: int, size: int, generator: torch.Generator
) -> Drawn:
    signal = _among(coherences, size, generator)
    xs = _noise(deviation, size, 45 + delay + decision, 1, generator)
    xs[:, 5:45, 0] += scale * signal[:, None]
    return _decided(xs, signal.sign(), 45 + delay, signal)


def context(size: int, generator: torch.Generator) -> Drawn:
    signals = torch.stack([_among([-4, -2, -1, 1, 2, 4], size, generator) for _ in range(2)], -1)
    which = torch.randint(2, (size,), generator=generator)
    xs = torch.cat([_noise(0.1, size, 68, 2, generator), torch.zeros(size, 68, 2, dtype=torch.float64)], -1)
    xs[:, 22:62, :2] += 0.1 * signals[:, None]
    xs[:, 5:67, 2:] += 0.1 * torch.nn.functional.one_hot(which, 2)[:, None]
    counts = signals.gather(1, which[:, None])[:, 0]
    return _decided(xs, counts.sign(), 67, counts)


def modalities(size: int, generator: torch.Generator) -> Drawn:
    choice, shown = _among([-1, 1], size, generator), torch.randint(3, (size,), generator=generator)
    signals = torch.stack([_among([1, 2, 4], size, generator) * choice for _ in range(2)], -1)
    of_each = torch.stack([shown != 1, shown != 2], -1).double()
    xs = torch.cat([_noise(0.1, size, 68, 2, generator), torch.zeros(size, 68, 2, dtype=torch.float64)], -1)
    xs[:, 22:62, :2] += 0.1 * (signals * of_each)[:, None]
    xs[:, 5:62, 2:] += 0.1 * of_each[:, None]
    return _decided(xs, choice, 67, (signals * of_each).sum(-1))


def comparison(longest: int, size: int, generator: torch.Generator) -> Drawn:
    pairs = [(f, f + apart) for apart in (-24, -16, -8, 8, 16, 24) for f in range(10, 35) if 10 <= f + apart <= 34]
    first, second = torch.tensor(pairs, dtype=torch.float64)[torch.randint(len(pairs), (size,), generator=generator)].mT
    delay, time = torch.randint(25, longest + 1, (size,), generator=generator), 20 + longest
    t, begins = torch.arange(time), (10 + delay)[:, None]
    xs = _noise(0.01, size, time, 1, generator)
    xs[..., 0] += ((t >= 5) & (t < 10)) * ((first - 22) / 24)[:, None]
    xs[..., 0] += ((t >= begins) & (t < begins + 5)) * ((second - 22) / 24)[:, None]
    asked = ((t >= begins + 5) & (t < begins + 10)).double()
    return Drawn(xs, (asked * ((first - second) / 24)[:, None])[..., None], asked, first - second)


def match(longest: int, size: int, generator: torch.Generator) -> Drawn:
    first, second = (torch.randint(2, (size,), generator=generator) for _ in range(2))
    delay, time = torch.randint(25, longest, (size,), generator=generator), 105 + longest
    t, begins = torch.arange(time), (30 + delay)[:, None]
    xs = _noise(0.03, size, time, 2, generator)
    for stimulus, shown in ((first, ((t >= 5) & (t < 30)).expand(size, -1)), (second, (t >= begins) & (t < begins + 25))):
        xs += shown[..., None] * torch.nn.functional.one_hot(1 - stimulus, 2)[:, None]
    asked = ((t >= begins + 25) & (t < begins + 75)).double()
    same = 2.0 * (first == second) - 1
    return Drawn(xs, (asked * same[:, None])[..., None], asked, same * (1 + first))


def two_channels(size: int, generator: torch.Generator) -> Drawn:
    """PsychRNN's perceptual discrimination, 2 s by 10 ms."""
    coherence, larger = _among([0.1, 0.3, 0.5, 0.7], size, generator), torch.randint(2, (size,), generator=generator)
    onset, lasts = (torch.rand(size, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    onset, ends = 1000 * onset, 1000 * onset + 500 * lasts + 250
    t = 10.0 * torch.arange(200, dtype=torch.float64)
    xs = _noise((2 * 0.01 * 10**0.5 * 10**0.5 * 0.1**2) ** 0.5, size, 200, 2, generator)
    which = torch.nn.functional.one_hot(larger, 2)
    xs += ((t > onset) & (t < ends))[..., None] * (1 + coherence[:, None] * which)[:, None]
    wanted = (t > ends + 20).double()[..., None] * (0.2 + 0.8 * which)[:, None]
    return Drawn(xs, wanted, (t >= ends).double(), coherence * (1 - 2 * larger))


DRAWN: dict[str, Callable[[int, torch.Generator], Drawn]] = {
    "random-dots": partial(random_dots, [-4, -2, -1, 1, 2, 4], 0.1, 0.1, 5, 1),
    "random-dots, weak": partial(random_dots, [-16, -8, -4, -2, -1, 1, 2, 4, 8, 16], 0.032, 0.03, 15, 15),
    "context": context,
    "modalities": modalities,
    "comparison": partial(comparison, 50),
    "comparison, long": partial(comparison, 100),
    "match": partial(match, 100),
    "match, long": partial(match, 150),
    "two-channels": two_channels,
}
