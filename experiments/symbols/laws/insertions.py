r"""The alphabet with insertions: letters in order, interrupted by digits in order, interrupted by random capitals.

    abc(01[QHXAZRNPW]2345678[AIQLMBVCE]9)defghijklmnopqrstuvwxyz

After an interruption the sequence goes on where it was. A line costs the true law 26 h(1/26) + 10 h(1/5) + 2 * 9 log2 26 = 97.9
bits in the mean, h(p) the bits of one choice of probability p.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Annotated, NamedTuple

from experiments.settings import Bounds, Count, check_whole
from experiments.symbols.source import UnifilarSource

__all__ = ["Insertions"]


class Written(NamedTuple):
    """How many letters, digits and capitals are written, -1 outside a block; whether a block may start here."""

    letters: int = 0
    digits: int = -1
    capitals: int = -1
    open: bool = False


@dataclass(frozen=True)
class Insertions(UnifilarSource):
    r"""Lines of letters, each followed by a block of digits with probability 1/letters.

    Args:    lines: of a sequence; letters, digits: how many, in order; capitals: how many different ones; run: random capitals
             in a row; places: after how many of the digits capitals may come, None for all; inner: with which probability.
    Source:  Ollivier 2013, section 4. Its law, ours, costs 97,942 bits for 1000 lines with a deviation of 3,477, not the 88,482
             of its text; with `places=9`, capitals between digits only, it is 88,760 (the ledger, "insertions, true model").
    """

    lines: Count = 1000
    letters: Annotated[int, Bounds(2, "each is followed by a block with probability 1/letters", 26)] = 26
    digits: Annotated[int, Bounds(most=10)] = 10
    capitals: Annotated[int, Bounds(most=26)] = 26
    run: Count = 9
    places: int | None = None
    inner: float = 0.2
    start = Written()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.places is not None:
            check_whole("places", self.places, 0, most=self.digits)
        if not 0 < self.inner < 1:
            raise ValueError(f"`inner` must be between 0 and 1, got {self.inner}.")

    @property
    def alphabet(self) -> str:
        return f"{ascii_lowercase[: self.letters]}{digits[: self.digits]}{ascii_uppercase[: self.capitals]}()[]\n"

    @property
    def line_count(self) -> int:
        return self.lines

    def choices(self, state: Written) -> Mapping[str, tuple[float, Written]]:  # type: ignore[override]
        if state.capitals >= 0:
            return self._capital(state)
        if state.digits >= 0:
            start, opened, following = "[", (self.inner, state._replace(capitals=0, open=False)), self._digit(state)
        else:
            start, opened, following = "(", (1 / self.letters, state._replace(digits=0, open=False)), self._letter(state)
        if not state.open:
            return {following[0]: (1.0, following[1])}
        return {start: opened, following[0]: (1 - opened[0], following[1])}

    def _capital(self, state: Written) -> Mapping[str, tuple[float, Written]]:
        if state.capitals == self.run:
            return {"]": (1.0, state._replace(capitals=-1))}
        return dict.fromkeys(ascii_uppercase[: self.capitals], (1 / self.capitals, state._replace(capitals=state.capitals + 1)))

    def _digit(self, state: Written) -> tuple[str, Written]:
        if state.digits == self.digits:
            return ")", Written(state.letters)
        places = self.digits if self.places is None else self.places
        return digits[state.digits], Written(state.letters, state.digits + 1, open=state.digits < places)

    def _letter(self, state: Written) -> tuple[str, Written]:
        if state.letters == self.letters:
            return "\n", self.start
        return ascii_lowercase[state.letters], Written(state.letters + 1, open=True)
