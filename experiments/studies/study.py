r"""Defines a study: a claim about learning, a grid of points with a training each, and what is said of what they gave.

    points(sizes)  ->  configuration(point, sizes)  ->  train, measure  ->  records  ->  verdict, tables, figures

A run is one training and what is measured on its model. Its record is a function of its configuration alone and says which point
it is of; so records may come from several processes and machines, and may be a part of all.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from experiments.reports.spreads import number

if TYPE_CHECKING:
    from discretize import SequenceModel
    from experiments.studies.results import Results
    from experiments.studies.specs import FigureSpec, Table
    from experiments.studies.verdicts import ClaimVerdict, NoVerdict

__all__ = [
    "COMPARISON",
    "DATA",
    "KEY",
    "SCALES",
    "SMOKE",
    "Described",
    "RunMeasures",
    "Point",
    "Record",
    "Row",
    "Run",
    "Sizes",
    "Study",
    "data_path",
    "data_presumed",
    "data_root",
    "distinct",
    "grid",
    "key_of",
    "scales",
    "summary_of",
    "words_beside",
]

SCALES = ("smoke", "small", "paper")
COMPARISON = "compare"  # the name of what `ctrnn compare` makes, which is no study of the list
SMOKE = SCALES[0]  # at which nothing is trained to decide anything
KEY = re.compile(r"[a-z0-9][a-z0-9.-]*")
DATA = "CTRNN_DATA"  # the environment variable in which `--data DIR` comes to worker processes
PLACE = "data"
_PRESUMED = ContextVar("data_presumed", default=False)
Record = Mapping[str, Any]  # of a run that is done, as in DIR/runs/KEY/rows.json, see folder.py
Row = dict[str, bool | int | float | str | Sequence[float] | None]  # what was measured, by name
Point = dict[str, Any]  # axis -> a word, number or truth value, as JSON has them


class Sizes(SimpleNamespace):
    """Says how much there is of everything at a scale, by names: Sizes(hidden=64, length=200, seeds=3)."""


def scales(**values: Sequence[object]) -> dict[str, Sizes]:
    """Say how much there is of everything at all scales, each name with its values at "smoke", "small" and "paper"."""
    columns = zip(*values.values(), strict=True)
    return {scale: Sizes(**dict(zip(values, column, strict=True))) for scale, column in zip(SCALES, columns, strict=True)}


def grid(**axes: Iterable[object]) -> list[Point]:
    """Return the product of the axes, the last one changing fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def distinct(points: Iterable[Point]) -> list[Point]:
    """Return the points in their order, each where it is first."""
    return list({tuple(point.values()): point for point in points}.values())


def data_path(name: str) -> Path | None:
    """Return where a file, or a folder such as "uci_har/", of `--data DIR` is; None if it is not there."""
    if _PRESUMED.get():
        return data_root() / name
    if not os.environ.get(DATA):
        return None
    path = data_root() / name
    return path if (path.is_dir() if name.endswith("/") else path.is_file()) else None


def data_root() -> Path:
    """Return DIR of `--data DIR`; where it is not given the folder data, of which no file is read."""
    return Path(os.environ.get(DATA) or Path(PLACE).resolve())


@contextmanager
def data_presumed() -> Iterator[None]:
    """Have all data count as there, so that runs are described whose records are known; whoever trains one will miss them."""
    before = _PRESUMED.set(True)
    try:
        yield
    finally:
        _PRESUMED.reset(before)


def words_beside(file: str) -> list[str]:
    """Read question, claim, source, prior work and resolutions of a study: the paragraphs of the Markdown file beside it."""
    paragraphs = Path(file).with_suffix(".md").read_text(encoding="utf-8").split("\n\n")
    return [" ".join(words.split()).lstrip("#>- ") for words in paragraphs]


def summary_of(name: str, **values: object) -> str:
    """Write what a verdict says, by the template claims/NAME.txt.jinja."""
    from experiments.reports.templates import ENVIRONMENT  # noqa: PLC0415

    filled = ENVIRONMENT.get_template(f"studies/claims/{name}.txt.jinja").render(**values, number=number, len=len)
    return " ".join(filled.split())


class Described:
    """Says what a run is where no `Configuration` does: a dataclass that goes into a record under the name of its `kind`."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {self.kind: dict(vars(self))}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Self:
        return cls(**described[cls.kind])


@dataclass(frozen=True)
class Run:
    """Describes one training of a study. Its key names its folder: letters a to z, digits, points and hyphens.

    The configuration is what `Study.configuration` gives: a `Configuration`, or, of a study that has `carry_out` of its own,
    whatever has `to_json()`. `measured` says what is measured after training, where the study does not say it once for all.
    """

    key: str
    point: Point
    configuration: Any
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ValueError(
                f"a run's key is made of a-z, 0-9, '.' and '-', and begins with a letter or digit; got {self.key!r}."
            )


@dataclass(frozen=True)
class RunMeasures:
    """Holds what a run gave: the training's measures and seconds, the study's rows, and the step at which it diverged."""

    measures: Mapping[str, float]
    rows: Sequence[Row]
    seconds: float
    diverged: int | None = None


class Study(ABC):
    r"""Declares a claim and how to try it. A new study is a subclass in a file of its own in claims/, and a line in registry.py.

    name          as in `ctrnn study run NAME`
    question      one sentence;  claim: the paper's words;  source: where they stand
    prior_work    who had it first, or what was looked for in vain
    resolutions   what the paper leaves open or contradicts itself in, and what was taken here
    minutes       at each scale, on two cores, in all: measured where that was done, else estimated
    sizes         how much of everything, at each scale
    another       for a scale, in what the experiment there is another one than that of the claim: a sentence, and no verdict
    may_diverge   whether a training whose loss is no longer finite is a result, not a failure
    needs         files and folders of `--data DIR`; what is trained on those that are absent is left out
    tables, figures   of the results
    templates     of the page, and of the section in it
    """

    name: ClassVar[str]
    question: ClassVar[str]
    claim: ClassVar[str]
    source: ClassVar[str]
    prior_work: ClassVar[str] = ""
    resolutions: ClassVar[Sequence[str]] = ()
    minutes: ClassVar[Mapping[str, float]]
    sizes: ClassVar[Mapping[str, Sizes]]
    another: ClassVar[Mapping[str, str]] = {}
    may_diverge: ClassVar[bool] = False
    needs: ClassVar[Sequence[str]] = ()
    tables: ClassVar[Sequence[Table]] = ()
    figures: ClassVar[Mapping[str, FigureSpec]] = {}
    templates: ClassVar[tuple[str, str]] = ("studies/page.html.jinja", "studies/claim.html.jinja")

    @abstractmethod
    def points(self, sizes: Sizes) -> Iterable[Point]:
        """Return the grid, each point with a "seed"; those to be seen first first."""

    @abstractmethod
    def configuration(self, point: Point, sizes: Sizes) -> Any:
        """Return what is trained at a point: a `Configuration`."""

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Measure rows of numbers and words beyond the training's own measures: other tests, other clocks, other steps."""
        return []

    def measure_diverged(self, run: Run, folder: Path) -> list[Row]:
        """Measure rows of what a training left that diverged, of which there is no model."""
        return []

    @abstractmethod
    def verdict(self, results: Results) -> ClaimVerdict | NoVerdict:
        """Judge the claim, or say why none is to be judged. Raises: NotEnoughError where these results do not decide."""

    def files(self, results: Results) -> dict[str, str]:
        """Return files to be written beside the page, name -> text."""
        return {}

    def markdown(self) -> str:
        """Write what is asked, claimed and known, as notebooks show it."""
        known = f"\n\n*Prior work.* {self.prior_work}" if self.prior_work else ""
        return f"{self.question}\n\n> {self.claim}\n>\n> {self.source}{known}"

    _repr_markdown_ = markdown

    def seconds(self, run: Run) -> float | None:
        """Return the seconds of a run that is given its time; None for one of so many steps, whose cost a slice tells."""
        return None

    def left_out(self) -> str:
        """Say which of the needed data are absent, so that something is not run, and how to name them; "" if none are."""
        absent = [name for name in self.needs if data_path(name) is None]
        where = "they are" if len(absent) > 1 else "it is"
        return f"Left out: {' and '.join(absent)}; --data DIR names the folder {where} in." if absent else ""

    def headline(self, record: Record) -> str:
        """Write the one number of a run that is printed as soon as it is done."""
        name = "accuracy" if "accuracy" in record["measures"] else "loss"
        return f"{name} {number(record['measures'][name])}" if name in record["measures"] else ""

    def runs(self, scale: str) -> list[Run]:
        """Return every run of a scale. Raises: ValueError for two points with one key."""
        sizes = self.sizes[scale]
        runs = [Run(key_of(point), point, self.configuration(point, sizes)) for point in self.points(sizes)]
        keys = [run.key for run in runs]
        if len(set(keys)) < len(keys):
            raise ValueError(f"two runs have the key {next(key for key in keys if keys.count(key) > 1)!r}.")
        return runs

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        """Train (or go on training) in the run's folder, then measure, with the threads that the configuration says.

        A signal may interrupt it at any time.
        """
        import torch  # noqa: PLC0415

        from experiments.runs.stopping import StoppedError  # noqa: PLC0415
        from experiments.runs.training import train  # noqa: PLC0415

        begin, before = time.perf_counter(), torch.get_num_threads()
        torch.set_num_threads(run.configuration.training.threads or before)
        try:
            try:
                outcome = train(run.configuration, folder, resume=True)
            except StoppedError as error:
                if not self.may_diverge or error.status != "diverged":
                    raise
                return RunMeasures({}, self.measure_diverged(run, folder), time.perf_counter() - begin, error.step)
            return RunMeasures(outcome.measures, self.measure(run, outcome.model, folder), outcome.seconds)
        finally:
            torch.set_num_threads(before)


def key_of(point: Point) -> str:
    """Write the values of a point, the seed last: "uniform-warping-40-plain-0"."""
    words = [_word(axis, value) for axis, value in point.items() if axis != "seed"]
    return "-".join([*words, str(point["seed"])]).lower().translate({ord(" "): "-", ord("_"): "-", ord(","): None})


def _word(axis: str, value: object) -> str:
    if isinstance(value, bool):
        return axis if value else f"no-{axis}"
    return f"{value:g}" if isinstance(value, float) else str(value)
