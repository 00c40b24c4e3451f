r"""Asks for activities by a phone's sensors (UCI HAR), in windows of 128 samples.

    classes    walking  up  down  sitting  standing  laying
    six           0      1    2      3        4        5
    moving        1      1    1      0        0        0
    fastgrnn      1      0    1      0        1        0      as in the works on FastGRNN and on slow forgetting

Features are standardized by mean and deviation of "train", the originals' training split without "validation".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import torch

from experiments.data.stand_in import FIRST_TRY, STAND_IN, windows
from experiments.data.uci_har import CHANNELS, WINDOW, read_uci_har
from experiments.digests import digest
from experiments.tasks.recorded.recordings import Recorded, Sequences, scale_of
from experiments.usage import UsageError

__all__ = ["HAR", "HELD_OUT"]

HELD_OUT = (27, 28, 29, 30)  # of the 21 people of the training split
# Of `ACTIVITIES`, in their order.
CLASSES = {"six": (0, 1, 2, 3, 4, 5), "moving": (1, 1, 1, 0, 0, 0), "fastgrnn": (1, 0, 1, 0, 1, 0)}


@dataclass(frozen=True)
class HAR(Recorded):
    r"""Say what a person does, by a window of 128 samples (UCI HAR).

    Args:    classes: "six" activities, or whether one is "moving", or the two classes of "fastgrnn": standing, walking and
             walking down are 1, the rest is 0; which of them is 1 is not printed.
    Source:  Anguita et al. 2012. "validation" are the people `HELD_OUT` of the training split; "test" is the originals', of
             other people again. The two classes: Kusupati et al. 2018, FastGRNN, "HAR-2", as the authors describe their data
             sets in github.com/microsoft/EdgeML, Algorithms/FastGRNN.md; Ohno and Kumagai 2021, sec. VI-C, follow them.
    """

    input_size, shortest, hint = len(CHANNELS), WINDOW, FIRST_TRY
    classes: Literal["six", "moving", "fastgrnn"] = "six"

    @property
    def output_size(self) -> int:
        return max(CLASSES[self.classes]) + 1

    def read(self) -> tuple[dict[str, Sequences], str]:
        return _har(self.data)

    def recorded(self, split: str) -> Sequences:
        recordings = super().recorded(split)
        return Sequences(recordings.xs, torch.tensor(CLASSES[self.classes])[recordings.labels])


@functools.cache
def _har(folder: str) -> tuple[dict[str, Sequences], str]:
    """Read the splits, and the digest of the files."""
    read_split = windows if folder == STAND_IN else functools.partial(read_uci_har, folder)
    given, test = read_split("train"), read_split("test")
    held = torch.isin(given.subjects, torch.tensor(HELD_OUT))
    if not 0 < int(held.sum()) < len(held):
        raise UsageError(f"{folder}: of the people {HELD_OUT} and of others there must be windows in the training split.")
    train = given.xs[:, ~held]
    mean, deviation = scale_of(train.flatten(0, 1), folder)
    splits = {
        "train": Sequences((train - mean) / deviation, given.labels[~held]),
        "validation": Sequences((given.xs[:, held] - mean) / deviation, given.labels[held]),
        "test": Sequences((test.xs - mean) / deviation, test.labels),
    }
    read = [given.xs, given.labels, given.subjects, test.xs, test.labels]
    return splits, digest({"read": read})
