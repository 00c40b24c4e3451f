r"""Draws trials of tasks that neuroscience trains networks on, in units of the networks' time constant, at any step.

    flip-flop        pulses +1 or -1 on each line               the last pulse of each line
    decision         a weak signal in noise                     its sign, when the fixation light goes off
    context          two signals, and which of them counts      the sign of that one
    delayed-match    a stimulus, a delay, a stimulus            whether they are the same
    working-memory   a size, a delay, a size                    whether the first is larger
    ready-set-go     two pulses, an interval apart              a ramp that ends as long after the second
    rhythm           a number that is held                      a sine of that period

Durations are multiples of a slot; a generator draws trials first and noise last, so that one seed is the same trials at every
`dt`. Noise is white, of an intensity per root of the time constant: a sample has its deviation over the root of dt.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from ctrnn import checks
from experiments.settings import Bounds, Count
from experiments.tasks.task import Batch, NumbersAtEverySample

__all__ = ["Context", "Decision", "DelayedMatch", "FlipFlop", "ReadySetGo", "Rhythm", "Trials", "WorkingMemory"]

FIXATION, DECISION = 1, 2  # slots
SLOT = 1.0  # time constants
ROUNDING = 1e-6  # of a ramp, which is a sum


@dataclass(frozen=True)
class Trials(NumbersAtEverySample):
    r"""Lays out trials that are drawn in slots of one time constant.

    Args:    dt: time from one sample to the next, in time constants, 1 over a whole number; input_noise: intensity of white
             noise on the inputs, per root of a time constant.
    Raises:  ValueError for a dt that is not 1 over a whole number, and for noise below 0.
    """

    dt: float = 0.2
    input_noise: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative_number("input_noise", self.input_noise)
        parts = SLOT / checks.positive_number("dt", self.dt)
        if not math.isclose(parts, round(parts), rel_tol=1e-9) or round(parts) < 1:
            raise ValueError(f"`dt` must be 1 over a whole number, of time constants, got {self.dt}; take 1, 0.5, 0.2, 0.1.")

    @abstractmethod
    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw inputs (slots, size, input), targets (slots, size, output), and where they count (slots, size)."""

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        each = round(SLOT / self.dt)
        xs, targets, counts = (
            part.to(torch.get_default_dtype()).repeat_interleave(each, 0) for part in self.slots(size, generator)
        )
        # In float32 first: so a batch has the same numbers in either dtype.
        noise = torch.randn(xs.shape, generator=generator, dtype=torch.float32).to(xs)
        ts = self.dt * torch.arange(len(xs) + 1, dtype=torch.float64)
        return Batch(xs + self.input_noise / math.sqrt(self.dt) * noise, self.within(targets, each), counts, ts)

    def within(self, targets: Tensor, each: int) -> Tensor:
        """Refine targets within slots, of so many samples each."""
        return targets


class _Signs(Trials):
    """Scores the share of signs that are right, where there is one: chance is a half."""

    measured: ClassVar[Sequence[str]] = ("loss", "accuracy")

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return super().measures(outputs, batch) | {"accuracy": self.score(outputs, batch)}

    def means(self, outputs: Tensor, batch: Batch) -> dict[str, tuple[float, float]]:
        means = super().means(outputs, batch)
        return means | {"accuracy": (means["accuracy"][0], float(batch.size))}

    def baseline_accuracies(self) -> dict[str, float]:
        return {"guess": 0.5}

    def score(self, outputs: Tensor, batch: Batch) -> float:
        """Return the share of trials whose output has the sign of the target, in the mean over the time that is asked for."""
        asked = batch.targets * (1 if batch.counts is None else batch.counts[..., None])
        return float(((outputs * asked.abs()).sum(0) * asked.sum(0) > 0).to(outputs.dtype).mean())


@dataclass(frozen=True)
class FlipFlop(_Signs):
    r"""Keep on each line the sign of its last pulse.

    Args:    bits: lines; length: slots; pulses: how probable a pulse is in a slot, on each line. The first slot has one on each.
    Source:  Sussillo and Barak 2013, "Opening the black box", the 3-bit flip-flop.
    """

    bits: Count = 3
    length: Annotated[int, Bounds(2)] = 25
    pulses: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.probability("pulses", self.pulses)

    @property
    def input_size(self) -> int:
        return self.bits

    output_size = input_size

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        shape = self.length, size, self.bits
        pulsed = torch.rand(shape, generator=generator, dtype=torch.float32) < self.pulses
        pulsed[0] = True
        signs = torch.randint(2, shape, generator=generator) * 2 - 1
        last = torch.where(pulsed, torch.arange(self.length)[:, None, None], 0).cummax(0).values
        return (pulsed * signs).double(), signs.gather(0, last).double(), torch.ones(shape[:2])

    def score(self, outputs: Tensor, batch: Batch) -> float:
        return float((outputs * batch.targets > 0).to(outputs.dtype).mean())


class _Choice(_Signs):
    """Lays out a fixation, what is shown, and the time of the decision, when the fixation light, the first feature, is off."""

    output_size = 1

    def asked(self, shown: Tensor, ends: Tensor, choice: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lay out what is shown, (slots, size, input - 1), from the fixation on, the slots (size,) at which the decision begins,
        and the choice (size,), -1 or 1; what comes after the decision does not count."""
        slot = torch.arange(int(ends.max()) + DECISION)[:, None]
        deciding, over = slot >= ends, slot >= ends + DECISION
        features = torch.zeros(len(slot), len(ends), shown.shape[-1], dtype=torch.float64)
        features[FIXATION : FIXATION + len(shown)] = shown
        xs = torch.cat([(~deciding).double()[..., None], features], -1)
        return xs, ((deciding & ~over) * choice).double()[..., None], (~over).double()


def _signed(coherences: Sequence[float], size: int, generator: torch.Generator) -> Tensor:
    which = torch.randint(len(coherences), (size,), generator=generator)
    return torch.tensor(coherences, dtype=torch.float64)[which] * (torch.randint(2, (size,), generator=generator) * 2 - 1)


def _check_coherences(coherences: Sequence[float]) -> None:
    if not coherences or not all(c > 0 for c in coherences):
        raise ValueError(f"`coherences` must be above 0, one at least, got {coherences!r}; their signs are drawn.")


def _check_delays(least: int, most: int) -> None:
    if least > most:
        raise ValueError(f"`least` is {least}, more than `most`, {most}.")


def _two_shown(stimuli: Sequence[Tensor], shown: int, delay: Tensor) -> tuple[Tensor, Tensor]:
    """Show two stimuli (size, features), a delay (size,) apart; return them and the slots at which the second ends."""
    slot = torch.arange(int(delay.max()) + 2 * shown)[:, None, None]
    begins = (shown + delay)[:, None]
    second = (slot >= begins) & (slot < begins + shown)
    return (slot < shown) * stimuli[0] + second * stimuli[1], FIXATION + 2 * shown + delay


@dataclass(frozen=True)
class Decision(_Choice):
    r"""Say the sign of a weak signal in noise; features: fixation, signal.

    Args:    coherences: sizes of the signal, each as probable; stimulus: slots that it is shown.
    Source:  Britten, Shadlen, Newsome and Movshon 1992; Song, Yang and Wang 2016.
    """

    coherences: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    stimulus: Count = 8
    input_noise: float = 0.3
    input_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_coherences(self.coherences)

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        signal = _signed(self.coherences, size, generator)
        shown = signal[None, :, None].expand(self.stimulus, -1, -1)
        return self.asked(shown, torch.full((size,), FIXATION + self.stimulus), signal.sign())


@dataclass(frozen=True)
class Context(_Choice):
    r"""Say the sign of the one of two signals that the context names; features: fixation, two signals, two contexts.

    Args:    coherences, stimulus: as for `Decision`.
    Source:  Mante, Sussillo, Shenoy and Newsome 2013.
    """

    coherences: tuple[float, ...] = (0.1, 0.2, 0.4)
    stimulus: Count = 8
    input_noise: float = 0.3
    input_size = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_coherences(self.coherences)

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        signals = torch.stack([_signed(self.coherences, size, generator) for _ in range(2)], -1)
        context = torch.randint(2, (size,), generator=generator)
        cue = torch.nn.functional.one_hot(context, 2).double()
        shown = torch.cat([signals, cue], -1).expand(self.stimulus, -1, -1)
        choice = signals.gather(1, context[:, None])[:, 0].sign()
        return self.asked(shown, torch.full((size,), FIXATION + self.stimulus), choice)


@dataclass(frozen=True)
class DelayedMatch(_Choice):
    r"""Say whether two stimuli that a delay parts are the same, as often as not; features: fixation, one for each stimulus.

    Args:    kinds: of stimuli; shown: slots of each; least, most: slots of the delay, drawn anew for each trial.
    Source:  Miller, Erickson and Desimone 1996.
    """

    kinds: Annotated[int, Bounds(2)] = 2
    shown: Count = 2
    least: Count = 2
    most: Count = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_delays(self.least, self.most)

    @property
    def input_size(self) -> int:
        return 1 + self.kinds

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        first = torch.randint(self.kinds, (size,), generator=generator)
        same = torch.randint(2, (size,), generator=generator)
        other = (first + torch.randint(1, self.kinds, (size,), generator=generator)) % self.kinds
        second = torch.where(same == 1, first, other)
        delay = torch.randint(self.least, self.most + 1, (size,), generator=generator)
        stimuli = [torch.nn.functional.one_hot(each, self.kinds).double() for each in (first, second)]
        return self.asked(*_two_shown(stimuli, self.shown, delay), 2 * same - 1)


@dataclass(frozen=True)
class WorkingMemory(_Choice):
    r"""Say whether the first of two sizes that a delay parts was larger; features: fixation, size.

    Args:    apart: how far the sizes are from one another at least, both in [0, 1]; shown, least, most: as for `DelayedMatch`.
    Source:  Romo, Brody, Hernandez and Lemus 1999.
    """

    apart: float = 0.2
    shown: Count = 2
    least: Count = 2
    most: Count = 6
    input_noise: float = 0.05
    input_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_delays(self.least, self.most)
        if not 0 < self.apart < 1:
            raise ValueError(f"`apart` must be between 0 and 1, got {self.apart}.")

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        larger = torch.randint(2, (size,), generator=generator) * 2 - 1
        low = torch.rand(size, generator=generator, dtype=torch.float64) * (1 - self.apart)
        high = low + self.apart + (1 - self.apart - low) * torch.rand(size, generator=generator, dtype=torch.float64)
        first, second = torch.where(larger > 0, high, low), torch.where(larger > 0, low, high)
        delay = torch.randint(self.least, self.most + 1, (size,), generator=generator)
        return self.asked(*_two_shown([first[:, None], second[:, None]], self.shown, delay), larger)


class _VarianceFollowed(Trials):
    """Scores how much of the variance of the targets is followed, R^2."""

    measured: ClassVar[Sequence[str]] = ("loss", "r2")
    output_size = 1

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return self.measures_of({name: mean for name, (mean, _) in self.means(outputs, batch).items()})

    @torch.no_grad()
    def means(self, outputs: Tensor, batch: Batch) -> dict[str, tuple[float, float]]:
        """Return the mean and the mean square of the targets too: of the variance of all, not of that of each batch."""
        targets, weight = batch.targets[..., :1].double(), self.weight(batch)
        means = {"loss": self.loss(outputs, batch), "targets": self._mean(targets[..., 0], batch)}
        means["squares"] = self._mean(targets[..., 0].square(), batch)
        return {name: (float(mean), weight) for name, mean in means.items()}

    def measures_of(self, means: dict[str, float]) -> dict[str, float]:
        variance = means["squares"] - means["targets"] ** 2
        others = {name: mean for name, mean in means.items() if name not in ("loss", "targets", "squares")}
        return {"loss": means["loss"], "r2": 1 - means["loss"] / variance if variance > 0 else math.nan} | others


@dataclass(frozen=True)
class ReadySetGo(_VarianceFollowed):
    r"""Ramp from 0 to 1 after the second of two pulses, in the time that lay between them; features: ready, set.

    Args:    least, most: slots between the pulses, drawn anew for each trial.
    Source:  Jazayeri and Shadlen 2010; Sohn, Narain, Meirhaeghe and Jazayeri 2019.
    """

    least: Count = 4
    most: Count = 10
    input_noise: float = 0.05
    measured: ClassVar[Sequence[str]] = ("loss", "r2", "timing")
    input_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_delays(self.least, self.most)

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        interval = torch.randint(self.least, self.most + 1, (size,), generator=generator)
        slot, ready, set_ = torch.arange(FIXATION + 2 * self.most + DECISION)[:, None], FIXATION, FIXATION + interval
        pulses = torch.stack([(slot == ready).expand(-1, size), slot == set_], -1).double()
        go = FIXATION + 2 * interval
        slope = ((slot >= set_) & (slot < go)).double() / interval
        return pulses, slope[..., None], (slot < go + DECISION).double()

    def within(self, targets: Tensor, each: int) -> Tensor:
        return targets.cumsum(0) / each

    @torch.no_grad()
    def means(self, outputs: Tensor, batch: Batch) -> dict[str, tuple[float, float]]:
        """Return the relative error of the time at which the output passes a half, too; 1 where it never does."""
        half = torch.arange(len(outputs))[:, None].to(outputs.device)

        def passed(y: Tensor) -> Tensor:
            over = (y[..., 0] >= 0.5 - ROUNDING) & (batch.counts > 0 if batch.counts is not None else True)
            return torch.where(over, half, len(half)).amin(0)

        ramp = batch.targets[..., 0]
        start = (ramp > 0).to(ramp.dtype).argmax(0)
        wanted, found = passed(batch.targets) - start + 1, passed(outputs) - start + 1
        error = torch.where(found + start - 1 < len(half), (found - wanted).abs() / wanted, 1.0).clamp(max=1)
        return super().means(outputs, batch) | {"timing": (float(error.mean()), float(batch.size))}


@dataclass(frozen=True)
class Rhythm(_VarianceFollowed):
    r"""Follow a sine whose period is set by the input, which is held; one feature, from 0 for the shortest to 1.

    Args:    shortest, longest: periods, in time constants; length: slots.
    """

    shortest: float = 8.0
    longest: float = 24.0
    length: Annotated[int, Bounds(2)] = 40
    input_noise: float = 0.0
    input_size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shortest <= self.longest:
            came = f"{self.shortest}, {self.longest}"
            raise ValueError(f"`shortest` and `longest` must be periods above 0, in this order, got {came}.")

    def slots(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        held = torch.rand(size, generator=generator, dtype=torch.float64)
        cycles = SLOT / (self.shortest + held * (self.longest - self.shortest))
        shape = self.length, size, 1
        return held[:, None].expand(shape), cycles[:, None].expand(shape), torch.ones(shape[:2])

    def within(self, targets: Tensor, each: int) -> Tensor:
        return torch.sin(2 * math.pi * targets.cumsum(0) / each)
