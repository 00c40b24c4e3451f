r"""Repeated text: the target is the character before, of a text on a warped clock.

    text       a circle, entered anywhere         without the dummy, which is the target before anything was seen
    hello      h h e e l l l l o o                where a letter is doubled, only counting tells which l is played
               - - h h e e l l l l

With variable repeats nothing tells, so that a text with doubled letters has no model without loss.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.data.untrusted import LimitedFile
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.warped import Warped
from experiments.usage import UsageError

__all__ = ["DECLARATION", "RepeatText"]

DECLARATION = (
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act "
    "towards one another in a spirit of brotherhood. "
)
MOST_BYTES = 32 << 20
MOST_SYMBOLS = 1000  # one feature each


@dataclass(frozen=True)
class RepeatText(Warped):
    r"""The task of figure 2 and of the lecture, on a text. All splits read the same one.

    Args:    text: a file of text in UTF-8, perhaps packed as .xz; by default article 1 of the Universal Declaration of Human
             Rights, whose beginning is the papers' example.
    Raises:  UsageError for a file that cannot be read, when it is first needed.
    Source:  Tallec and Ollivier 2018, figure 2; Huth 2020, the slides on time scaling.
    """

    text: str | None = None

    @property
    def input_size(self) -> int:
        return 1 + len(_text(self.text)[1])

    @property
    def characters(self) -> str:
        """The symbols 1, 2, .. in this order; 0 is the dummy."""
        return _text(self.text)[1]

    def fingerprint(self) -> str | None:
        """A digest of the text, None for the one that is in this file."""
        return None if self.text is None else _text(self.text)[2]

    def symbols(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        circle = _text(self.text)[0]
        start = torch.randint(len(circle), (size,), generator=generator)
        return circle[(start + torch.arange(count)[:, None]) % len(circle)]

    def target_counts(self) -> dict[str, TargetCounts]:
        # On the circle the character that is seen does not tell whether its run is the first.
        p, (circle, characters) = self.share_of_the_first(), _text(self.text)[:2]
        seen = circle.tolist()
        pairs = Counter(zip(seen, seen[-1:] + seen[:-1], strict=True))
        rows = []
        for now in range(1, len(characters) + 1):
            before = [pairs[now, then] for then in range(1, len(characters) + 1)]
            rows.append([p * sum(before), *((1 - p) * n for n in before)])
        return {"memoryless": rows}


@functools.cache
def _text(path: str | None) -> tuple[Tensor, str, str]:
    """The numbers of its characters, which there are, and a digest of it."""
    if path is None:
        text = DECLARATION
    else:
        with LimitedFile(Path(path), MOST_BYTES) as file:
            data = file.whole()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is not text in UTF-8.") from None
        if len(text) < 2:
            raise UsageError(f"{path}: has {len(text)} characters; at least 2 are needed to say the one before.")
    characters = "".join(sorted(set(text)))
    if len(characters) > MOST_SYMBOLS:
        raise UsageError(f"{path}: has {len(characters):,} different characters, at most {MOST_SYMBOLS:,} are expected.")
    number = {character: 1 + k for k, character in enumerate(characters)}
    return torch.tensor([number[character] for character in text]), characters, hashlib.sha256(text.encode()).hexdigest()
