r"""Sources of symbols: laws of random sequences over a finite alphabet, and what these laws know of each next symbol.

    drawn      x_0 x_1 ... x_{T-1}     numbers of symbols, chi_t: which of them are to be predicted
    law        log p(x_t = y | x_0 ... x_{t-1}) for every y, in nats
    cost       sum over chi_t = 1 of -log2 p(x_t | x_0 ... x_{t-1}), in bits

A source whose state follows from the symbols seen so far (`UnifilarSource`) is written as one function of the state: which
symbols come with which probability, and where they lead. From it sequences are drawn, and by it they are scored.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Hashable, Iterator, Mapping
from itertools import accumulate
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from experiments.seeds import generator as generator_of
from experiments.settings import Checked
from experiments.symbols.scores import bits, check_symbols
from experiments.tasks.task import check_split

__all__ = ["SymbolSource", "SymbolSequence", "UnifilarSource"]

BLOCK = 4096  # random numbers drawn at once


class SymbolSequence(NamedTuple):
    r"""One long sequence.

    Shape:   symbols (time,) int64, indices into the alphabet; counts (time,) bool, chi_t: where a symbol is to be predicted.
    """

    symbols: Tensor
    counts: Tensor


class SymbolSource(Checked, ABC):
    """Gives a law of sequences, all of whose lines end with a newline; its subclasses are frozen dataclasses of settings."""

    @property
    @abstractmethod
    def alphabet(self) -> str:
        """The symbols as characters; symbol y is alphabet[y]."""

    @abstractmethod
    def _drawn(self, generator: torch.Generator) -> Tensor:
        """Symbols (time,) of a sequence of the length that the settings say."""

    @abstractmethod
    def _law(self, symbols: Tensor) -> Tensor:
        """What `log_probs` gives, once the symbols are checked."""

    def draw(self, seed: int = 0, split: str = "train") -> SymbolSequence:
        """Draw a sequence, a function of settings, seed and split ("train", "validation", "test"), which are independent."""
        check_split(split)
        symbols = self._drawn(generator_of(seed, "symbols", type(self).__name__, split))
        return SymbolSequence(symbols, self.counted(symbols))

    def counted(self, symbols: Tensor) -> Tensor:
        """chi_t, (time,) bool: all of them, if nothing else is said."""
        return torch.ones_like(self._checked(symbols), dtype=torch.bool)

    def log_probs(self, symbols: Tensor) -> Tensor:
        r"""The true law of each symbol given those before it, in nats, float64: (time,) -> (time, symbols of the alphabet).

        Raises:  ValueError for a sequence that the law cannot give, with the place.
        """
        return self._law(self._checked(symbols))

    def bits(self, symbols: Tensor) -> Tensor:
        """Compute what each symbol costs the true law, in bits, 0 where it is not to be predicted: (time,) float64."""
        return bits(self.log_probs(symbols), symbols, self.counted(symbols), mixed=False)

    def text(self, symbols: Tensor) -> str:
        """Print a sequence."""
        return "".join(map(self.alphabet.__getitem__, self._checked(symbols).tolist()))

    def symbols(self, text: str) -> Tensor:
        """Read a sequence that is printed so. Raises: ValueError for a character that is not in the alphabet."""
        numbers = {character: y for y, character in enumerate(self.alphabet)}
        for character in text:
            if character not in numbers:
                raise ValueError(f"{character!r} is not in the alphabet {self.alphabet!r}.")
        return torch.tensor([numbers[character] for character in text], dtype=torch.int64)

    def _checked(self, symbols: Tensor) -> Tensor:
        return check_symbols(symbols, len(self.alphabet))


class UnifilarSource(SymbolSource):
    """A source whose state is known from the symbols seen so far."""

    start: ClassVar[Hashable]

    @property
    @abstractmethod
    def line_count(self) -> int:
        """How many lines a drawn sequence has."""

    @abstractmethod
    def choices(self, state: Hashable) -> Mapping[str, tuple[float, Hashable]]:
        """Character -> its probability in this state, above 0, and the state that follows."""

    def _drawn(self, generator: torch.Generator) -> Tensor:
        @functools.cache
        def options(state: Hashable) -> tuple[list[str], list[float], list[Hashable]]:
            choices = self.choices(state)
            bounds = list(accumulate(probability for probability, _ in choices.values()))
            return list(choices), bounds[:-1], [following for _, following in choices.values()]

        state, ended, text, chances = self.start, 0, [], _uniform(generator)
        while ended < self.line_count:
            characters, bounds, following = options(state)
            k = bisect(bounds, next(chances)) if bounds else 0
            state = following[k]
            text.append(characters[k])
            ended += characters[k] == "\n"
        return self.symbols("".join(text))

    def _law(self, symbols: Tensor) -> Tensor:
        choices, state = functools.cache(self.choices), self.start
        rows: dict[Hashable, int] = {}
        visited = []
        for t, character in enumerate(self.text(symbols)):
            visited.append(rows.setdefault(state, len(rows)))
            options = choices(state)
            if character not in options:
                possible = ", ".join(map(repr, options))
                raise ValueError(f"`symbols` are none of this source: {character!r} at {t} cannot come there; {possible} can.")
            state = options[character][1]
        entries = [(rows[state], y, probability) for state in rows for y, (probability, _) in choices(state).items()]
        table = torch.zeros(len(rows), len(self.alphabet), dtype=torch.float64)
        table[[row for row, _, _ in entries], self.symbols("".join(y for _, y, _ in entries))] = torch.tensor(
            [probability for _, _, probability in entries], dtype=torch.float64
        )
        return table.log()[torch.tensor(visited, dtype=torch.int64)].to(symbols.device)


def _uniform(generator: torch.Generator) -> Iterator[float]:
    while True:
        yield from torch.rand(BLOCK, generator=generator, dtype=torch.float64).tolist()
