r"""Asks what follows each word of a text.

    sees       the   city  <unk>  ,
    target     city  <unk> ,      <eos>

The most frequent words of the part for training are a feature and a class each, and all others together one. A sequence is a
piece of an article, begun anywhere in it, and reaches into no other: articles may be in any order. Losses are in nats a word, and
perplexities e to their power, of a text with that vocabulary.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from experiments.data.words import UNKNOWN, WordedText, worded_text
from experiments.settings import Bounds, Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot
from experiments.usage import UsageError

__all__ = ["NextWord"]

MOST_WORDS = 50_000  # one feature each: a batch of 20 x 35 samples has then 140 MB


@dataclass(frozen=True)
class NextWord(ClassAtEverySample):
    r"""Say at each word which follows: a language model of words.

    Args:    data: a folder with three files of text, with train, valid and test in their names, words between spaces, such as
             those of WikiText-2; kinds: classes, which are one for the `kinds - 1` most frequent words each, the end of a line
             among them, and one for all others; length: words that a sequence shows.
    Raises:  UsageError for files that cannot be read, and a part whose articles are all too short, when it is first needed.
    Source:  Merity, Xiong, Bradbury and Socher 2017, for WikiText-2; Mahto and others 2021, of its 33,278 kinds.
    """

    data: str = ""
    kinds: Annotated[int, Bounds(2, MOST_WORDS)] = 1000
    length: Count = 70

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise ValueError("`data` is the folder of the texts, for training, validation and test; name it.")

    @property
    def input_size(self) -> int:
        return min(self.kinds, 1 + len(self._text.words))

    @property
    def output_names(self) -> tuple[str, ...]:
        return (UNKNOWN, *self._text.words[: self.input_size - 1])

    def fingerprint(self) -> str:
        return self._text.digest

    @property
    def _text(self) -> WordedText:
        return worded_text(self.data)

    def part_of(self, split: str) -> tuple[Tensor, Tensor]:
        """Return the classes of the words of a split, and where a sequence may begin."""
        return _part(self._text, split, self.input_size, self.length)

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        numbers, starts = self.part_of(split)
        if not len(starts):
            raise UsageError(
                f"{self.data}: of its {split} part no article has {self.length:,} words and one that follows; take a smaller "
                "`length`."
            )
        chosen = starts[torch.randint(len(starts), (size,), generator=generator)]
        pieces = numbers[chosen + torch.arange(self.length + 1)[:, None]]
        return Batch(one_hot(pieces[:-1], self.input_size), pieces[1:])

    def target_counts(self) -> dict[str, TargetCounts]:
        """Count the words of the part that is trained on."""
        return {"constant": [torch.bincount(self.part_of("train")[0], minlength=self.input_size).tolist()]}


@functools.lru_cache(8)
def _part(text: WordedText, split: str, kinds: int, length: int) -> tuple[Tensor, Tensor]:
    ranks, begins = text.ranks[split], itertools.pairwise(text.begins[split].tolist())
    starts = [torch.arange(first, last - length) for first, last in begins if last - first > length]
    return torch.where(ranks < kinds - 1, ranks + 1, 0), torch.cat(starts or [torch.arange(0)])
