r"""What a study is: a claim about learning, the runs that try it, and what its records say of it.

    runs(scale)  ->  carry_out, run by run, in any order and any process  ->  records  ->  verdict, table, figures

A run is one training (and what is asked of the trained model), whole in itself: its record is a function of its configuration
and of nothing else. So records may come from several processes and machines, and may be a part of all: what cannot be said
without the missing ones raises `NotEnoughError`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from experiments.studies.records import Record, measure_of, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.models.sequence_model import SequenceModel
    from experiments.runs.configuration import Configuration

__all__ = ["SCALES", "WORDS", "Carried", "Run", "Study", "Verdict", "Word"]

SCALES = ("smoke", "small", "paper")
Word = Literal["reproduced", "partly", "not"]
WORDS: dict[Word, str] = {"reproduced": "Reproduced", "partly": "Partly reproduced", "not": "Not reproduced"}
KEY = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class Run:
    """One training of a study. Its key names its folder: letters a to z, digits, points and hyphens."""

    key: str
    configuration: Configuration

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ValueError(
                f"a run's key is made of a-z, 0-9, '.' and '-', and begins with a letter or digit; got {self.key!r}."
            )


@dataclass(frozen=True)
class Carried:
    """What a run gave: the training's measures, the study's rows of numbers, and the training's seconds."""

    measures: Mapping[str, float]
    rows: Sequence[Mapping[str, Any]]
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """What became of the claim, one sentence with our numbers in it, and these numbers."""

    word: Word
    sentence: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"a verdict is {', '.join(WORDS)}; got {self.word!r}.")


class Study(ABC):
    r"""A claim and how to try it. A new study is a subclass in a file of its own, and a line in registry.py.

    name         as in `ctrnn study run NAME`
    question     what is asked, one sentence
    claim        the paper's words;  source: where they stand
    resolutions  what the paper leaves silent or contradicts itself in, and what was taken here
    minutes      at each scale, on two cores, in all: measured where that was done, else estimated
    captions     of the figures, by their names: what to see
    """

    name: ClassVar[str]
    question: ClassVar[str]
    claim: ClassVar[str]
    source: ClassVar[str]
    resolutions: ClassVar[tuple[str, ...]] = ()
    minutes: ClassVar[Mapping[str, float]]
    captions: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def runs(self, scale: str) -> list[Run]:
        """Every run of a scale, each with a key of its own; those to be seen first first."""

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        """Rows of numbers and words beyond the training's own measures: other tests, other clocks, other steps."""
        return []

    @abstractmethod
    def verdict(self, records: Sequence[Record]) -> Verdict:
        """Raises: NotEnoughError where these records do not decide."""

    @abstractmethod
    def table(self, records: Sequence[Record]) -> str:
        """Markdown: pipe tables, and lines of text between them."""

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        """By name. Raises: NotEnoughError where there is nothing to draw."""
        return {}

    def left_out(self) -> str:
        """What is not run because something that it needs is not there, and how to name it; "" where nothing is."""
        return ""

    def headline(self, record: Record) -> str:
        """The one number of a run that is told as soon as it is done."""
        name = "accuracy" if "accuracy" in record["measures"] else "loss"
        return f"{name} {number(measure_of(record, name))}" if name in record["measures"] else ""

    def carry_out(self, run: Run, folder: Path, progress: Callable[..., None] | None = None) -> Carried:
        """Train (or go on training) in the run's folder, then measure, with the threads that the configuration asks for.

        A signal may interrupt it at any time.
        """
        import torch  # noqa: PLC0415

        from experiments.runs.training import train  # noqa: PLC0415

        before = torch.get_num_threads()
        torch.set_num_threads(run.configuration.training.threads or before)
        try:
            outcome = train(run.configuration, folder, resume=True, progress=progress)
            return Carried(outcome.measures, self.measure(run, outcome.model), outcome.seconds)
        finally:
            torch.set_num_threads(before)
