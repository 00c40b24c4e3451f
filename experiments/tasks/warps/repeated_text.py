r"""Asks for the character before, of a text on a warped clock.

    text       a circle, entered anywhere         without the dummy, which is the target before anything was seen
    hello      h h e e l l l l o o                where a letter is doubled, only counting tells which l is played
               - - h h e e l l l l

With variable repeats nothing tells, so that a text with doubled letters has no model without loss.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.data.text import numbered_text
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.warps.warped import Warped

__all__ = ["RepeatText"]


@dataclass(frozen=True)
class RepeatText(Warped):
    r"""Say the character before of a text, as in figure 2 and the lecture. All splits read the same one.

    Args:    text: a file of text in UTF-8, perhaps packed as .xz; by default article 1 of the Universal Declaration of Human
             Rights, whose beginning is the papers' example.
    Raises:  UsageError for a file that cannot be read, when it is first needed.
    Source:  Tallec and Ollivier 2018, figure 2; Huth 2020, the slides on time scaling.
    """

    text: str | None = None

    @property
    def input_size(self) -> int:
        return 1 + len(numbered_text(self.text)[1])

    @property
    def characters(self) -> str:
        """Return the symbols 1, 2, .. in this order; 0 is the dummy."""
        return numbered_text(self.text)[1]

    def fingerprint(self) -> str | None:
        """Return a digest of the text, None for the one that is in this file."""
        return numbered_text(self.text)[2]

    def symbols(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        circle = 1 + numbered_text(self.text)[0]
        start = torch.randint(len(circle), (size,), generator=generator)
        return circle[(start + torch.arange(count)[:, None]) % len(circle)]

    def target_counts(self) -> dict[str, TargetCounts]:
        # On the circle the character that is seen does not tell whether its run is the first.
        p, (circle, characters, _) = self.share_of_the_first(), numbered_text(self.text)
        seen = (1 + circle).tolist()
        pairs = Counter(zip(seen, seen[-1:] + seen[:-1], strict=True))
        rows = []
        for now in range(1, len(characters) + 1):
            before = [pairs[now, then] for then in range(1, len(characters) + 1)]
            rows.append([p * sum(before), *((1 - p) * n for n in before)])
        return {"memoryless": rows}
