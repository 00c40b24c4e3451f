r"""Asks what follows each character of a text.

    sees       A l l   h u m a n
    target     l l   h u m a n

The text is cut into three parts, one after the other: the first 90 % to train, 5 % for validation, 5 % to test. A sequence is a
piece of its part, begun anywhere. Losses are in nats a character: divided by log 2 they are bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.data.mapped import PIECE, MappedRows
from experiments.data.text import any_text
from experiments.settings import Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot
from experiments.usage import UsageError

__all__ = ["NextCharacter"]

TRAINED, KNOWN = 0.9, 0.95  # where the text is cut


@dataclass(frozen=True)
class NextCharacter(ClassAtEverySample):
    r"""Say at each character which follows: a language model, one feature and one class for each that the text has.

    Args:    text: a file of text in UTF-8, perhaps packed as .xz or .gz; by default article 1 of the Universal Declaration of
             Human Rights, too short to be cut: there all splits read the same circle; or a .npy file of whole numbers, a symbol
             each, which may be larger than memory; length: characters that a sequence shows.
    Raises:  UsageError for a file that cannot be read or is too short for `length`, when it is first needed.
    Source:  Mikolov and others 2012, the split of text8; Cooijmans and others 2016, sequences of 180 characters, as in Tallec and
             Ollivier 2018, app. A.
    """

    text: str | None = None
    length: Count = 180

    @property
    def input_size(self) -> int:
        return any_text(self.text)[1]

    def fingerprint(self) -> str | None:
        """Return a digest of the text, None for the one that is in this project."""
        return any_text(self.text)[2]

    def part_of(self, split: str) -> Tensor | MappedRows:
        """Return the numbers of the characters of a split."""
        numbers = any_text(self.text)[0]
        if isinstance(numbers, Tensor) and self.text is None:
            return numbers.repeat(2 + self.length // len(numbers))
        first, second = (int(share * len(numbers)) for share in (TRAINED, KNOWN))
        start, stop = {"train": (0, first), "validation": (first, second), "test": (second, len(numbers))}[split]
        part = numbers[start:stop] if isinstance(numbers, Tensor) else numbers.part(start, stop)
        if len(part) <= self.length:
            raise UsageError(
                f"{self.text}: its {split} part has {len(part):,} characters, too few for a sequence of {self.length:,} and the "
                "one that follows; take a longer text or a smaller `length`."
            )
        return part

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        numbers = self.part_of(split)
        starts = torch.randint(len(numbers) - self.length, (size,), generator=generator)
        pieces = numbers[starts + torch.arange(self.length + 1)[:, None]].long()
        xs = one_hot(pieces[:-1], self.input_size)
        return Batch(xs, pieces[1:])

    def target_counts(self) -> dict[str, TargetCounts]:
        """Count pairs and single characters in the part that is trained on, where these predictors were best."""
        kinds = self.input_size
        pairs, single = torch.zeros(kinds**2, dtype=torch.int64), torch.zeros(kinds, dtype=torch.int64)
        for piece in _pieces(self.part_of("train")):
            pairs += torch.bincount(kinds * piece[:-1] + piece[1:], minlength=kinds**2)
            single += torch.bincount(piece[1:], minlength=kinds)
        single[int(self.part_of("train")[:1])] += 1  # the first character has no predecessor
        return {"memoryless": pairs.view(kinds, kinds).tolist(), "constant": [single.tolist()]}


def _pieces(numbers: Tensor | MappedRows) -> Iterator[Tensor]:
    """Yield all of a text, each piece with the first symbol of the next."""
    for start in range(0, len(numbers) - 1, PIECE):
        yield numbers[start : start + PIECE + 1].long()
