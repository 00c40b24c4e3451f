r"""Stand-ins for recordings, made by formula, for tests and first tries without data: numbers from them say nothing of real ones.

    digits    a seven-segment display, 28 x 28, moved by up to a pixel, of different brightness, in noise
    windows   three kinds of walking, a sine of 1.6 to 2.4 Hz each, and three postures, a direction of gravity each, in noise

They have the shapes and types of what the readers give, and are used only where `data` is "stand-in".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from experiments.data.mnist import SIDE, Images
from experiments.data.uci_har import CHANNELS, WINDOW, Windows
from experiments.seeds import generator

__all__ = ["FIRST_TRY", "STAND_IN", "digits", "windows"]

STAND_IN = "stand-in"
FIRST_TRY = f" For a first try, data={STAND_IN} is made here."
IMAGES = {"train": 1200, "test": 200}
#   a: top   b, c: right, above and below   d: bottom   e, f: left, below and above   g: middle      rows and columns
SEGMENTS = {
    "a": (5, 8, 9, 19),
    "b": (5, 14, 16, 19),
    "c": (13, 23, 16, 19),
    "d": (20, 23, 9, 19),
    "e": (13, 23, 9, 12),
    "f": (5, 14, 9, 12),
    "g": (12, 15, 9, 19),
}
DIGITS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
PEOPLE = {"train": range(10, 31), "test": range(1, 10)}
WINDOWS = 24  # of each person, four of each activity
RATE = 50.0  # samples per second
#   how fast a step comes, in Hz, how strong it is, in g, and where down is
ACTIVITIES = (
    (2.0, 0.3, (1.0, 0.0, 0.0)),
    (1.6, 0.25, (0.98, 0.0, 0.2)),
    (2.4, 0.4, (0.98, 0.0, -0.2)),
    (1.0, 0.0, (0.8, 0.0, 0.6)),
    (1.0, 0.0, (1.0, 0.0, 0.0)),
    (1.0, 0.0, (0.0, 1.0, 0.0)),
)
FINE = 1024  # windows are rounded to such parts: sines may end on other bits elsewhere


def digits(split: str) -> Images:
    """As `read_mnist` gives them, so many of each digit."""
    draw, count = generator(0, STAND_IN, "digits", split), IMAGES[split]
    labels = torch.arange(count) % len(DIGITS)
    images = torch.randint(32, (count, SIDE, SIDE), generator=draw, dtype=torch.uint8)
    moves = torch.randint(-1, 2, (count, 2), generator=draw).tolist()
    brightness = torch.randint(128, 192, (count,), generator=draw).tolist()
    lit = torch.zeros_like(images)
    for image, label, (down, right), light in zip(lit, labels.tolist(), moves, brightness, strict=True):
        for top, bottom, first, last in map(SEGMENTS.__getitem__, DIGITS[label]):
            image[top + down : bottom + down, first + right : last + right] = light
    return Images(images + lit, labels)


def windows(split: str) -> Windows:
    """As `read_uci_har` gives them, of people with steps and ways to stand of their own."""
    draw, people = generator(0, STAND_IN, "windows", split), torch.tensor(PEOPLE[split])
    subjects = people.repeat_interleave(WINDOWS)
    labels = torch.arange(len(subjects)) % len(ACTIVITIES)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    steps, strength, down = (torch.tensor(column, dtype=torch.float64)[labels] for column in zip(*ACTIVITIES, strict=True))
    own_pace = (1 + 0.05 * noise(len(people))).repeat_interleave(WINDOWS)
    own_stand = 0.1 * noise(len(people), 3).repeat_interleave(WINDOWS, 0)
    start = 2 * math.pi * torch.rand(len(labels), generator=draw, dtype=torch.float64)
    phase = 2 * math.pi * (torch.arange(WINDOW, dtype=torch.float64) / RATE)[:, None] * steps * own_pace + start
    waves = torch.stack([(phase + turn).sin() for turn in range(3)], -1)
    body = strength[:, None] * waves + 0.05 * noise(*waves.shape)
    gyro = 2 * strength[:, None] * waves.roll(1, -1) + 0.1 * noise(*waves.shape)
    xs = torch.cat([body, gyro, body + down + own_stand], -1)
    assert xs.shape == (WINDOW, len(labels), len(CHANNELS))
    return Windows(((FINE * xs).round() / FINE).float(), labels, subjects)
