r"""Declares tables and figures of a study by the columns of its data frames.

    Table       a line for each group of equal `by`, a cell for each column: a spread, or what a function makes of the group
    Bands       lines over x with bands from least to largest, panel above panel
    Dots        a row and a dot for each group
    Drawing     whatever else a function draws

The frame is the results' "runs" or "rows", or what a function makes of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from experiments.reports.spreads import NotEnoughError, Spread, cell_text, markdown, spread

if TYPE_CHECKING:  # pandas takes longer to import than a worker's other needs, and no worker makes a table
    import pandas as pd
    from matplotlib.figure import Figure

    from experiments.studies.results import Results

__all__ = [
    "Bands",
    "Dots",
    "Drawing",
    "FigureSpec",
    "FilledTable",
    "Table",
    "across",
    "at_end",
    "first",
    "in_order",
    "only",
    "run_count",
]

Cell = str | Callable[["pd.DataFrame"], object]
Data = Literal["runs", "rows"] | Callable[["Results"], "pd.DataFrame"]


class FigureSpec(Protocol):
    """Declares a figure with the sentence that says what to see."""

    @property
    def caption(self) -> str: ...
    def draw(self, results: Results) -> Figure:
        """Raises: NotEnoughError where there is nothing to draw."""


class FilledTable(NamedTuple):
    """Holds the text of a table; without lines, the caption stands in its place."""

    caption: str
    head: Sequence[str] = ()
    lines: Sequence[Sequence[str]] = ()

    def markdown(self) -> str:
        return f"{self.caption}\n\n{markdown(self.head, self.lines)}" if self.lines else self.caption


@dataclass(frozen=True)
class Table:
    r"""Declares a table with a caption; without lines where the frame is empty.

    Args:    caption, headings: "{length}" is the value of that setting, or else column;  by: heading -> column;
             columns: heading -> column, whose spread is shown, or function of the group;  sort: key of a line from the values of
             `by`, else lines are in the order of the runs;  words: for values of `by`;  empty: in place of an empty table.
    """

    caption: str
    by: Mapping[str, str]
    columns: Mapping[str, Cell]
    data: Data = "runs"
    sort: Callable[..., Any] | None = None
    words: Mapping[Any, str] = field(default_factory=dict)
    empty: str = ""

    def markdown(self, results: Results) -> str:
        return self.filled(results).markdown()

    def filled(self, results: Results) -> FilledTable:
        from experiments.studies.results import groups  # noqa: PLC0415

        frame = _frame(self.data, results)
        found = groups(frame, list(self.by.values()))
        if not found:
            return FilledTable(self.empty)
        keys, sort = list(found), self.sort
        if sort is not None:
            keys.sort(key=lambda key: sort(*key))
        settings = _Settings(frame, results)
        head = [heading.format_map(settings) for heading in (*self.by, *self.columns)]
        lines = [
            [*(self.words.get(value, value) for value in key), *(cell_of(found[key], cell) for cell in self.columns.values())]
            for key in keys
        ]
        written = [[cell_text(cell) for cell in line] for line in lines]
        return FilledTable(self.caption.format_map(settings), head, written)


def across(column: str, values: Iterable[object] | Mapping[str, object], cell: Cell) -> dict[str, Cell]:
    """Make columns for `Table`, one for each of these values of a column; with a mapping, its keys are the headings."""
    named = values if isinstance(values, Mapping) else {str(value): value for value in values}

    def among(value: object) -> Cell:
        return lambda group: cell_of(group[group[column] == value], cell)

    return {heading: among(value) for heading, value in named.items()}


def only(**values: object) -> Callable[[Results], pd.DataFrame]:
    """Select data for tables and figures: the rows with these values in these columns."""

    def rows(results: Results) -> pd.DataFrame:
        from experiments.studies.results import where  # noqa: PLC0415

        return where(results.rows, **values)

    return rows


def first(column: str) -> Cell:
    """Make a cell of `Table` for what is the same in all rows of a group: the value in its first row."""
    return lambda group: group[column].iloc[0]


def at_end(column: str) -> Cell:
    """Make a cell of `Table` for a column with one value a run, repeated in all of its rows: the spread over runs."""
    return lambda group: spread(group.drop_duplicates("key")[column])


def run_count(group: pd.DataFrame) -> int:
    """Count for a cell of `Table` of how many runs the rows are."""
    return int(group["key"].nunique())


def in_order(*orders: Iterable[object] | None) -> Callable[..., Any]:
    """Make a `sort` for `Table`: the place of each value in its order; None sorts by the value itself."""
    known: Sequence[list[Any] | None] = [None if order is None else list(order) for order in orders]
    return lambda *key: tuple(value if order is None else order.index(value) for value, order in zip(key, known, strict=True))


def cell_of(group: pd.DataFrame, cell: Cell) -> object:
    if group.empty:
        return None
    return cell(group) if callable(cell) else spread(group[cell])


@dataclass(frozen=True)
class Bands:
    r"""Draws means over runs as lines, with bands from the least to the largest.

    Args:    x, y: columns;  lines: column, and value -> name of a line, or the values alone;  panels: likewise, or a title with
             "{}" for the value;  levels: name -> y of a thin line.
    """

    caption: str
    x: str
    y: str
    lines: tuple[str, Mapping[Any, str] | Sequence[str]]
    x_label: str
    y_label: str
    panels: tuple[str, str | Mapping[Any, str] | Sequence[str]] | None = None
    data: Data = "rows"
    x_log: bool = False
    y_log: bool = False
    y_limits: tuple[float, float] | None = None
    levels: Mapping[str, float] | None = None

    def draw(self, results: Results) -> Figure:
        from experiments.reports.bands import bands  # noqa: PLC0415
        from experiments.studies.results import groups  # noqa: PLC0415

        frame, (by, titles) = _frame(self.data, results), self.panels or ("", "")
        found = groups(frame, by) if by else {"": frame}
        order = {key: titles.format(key) for key in sorted(found)} if isinstance(titles, str) else _names(titles)
        return bands(
            {title: self._lines(found[key]) for key, title in order.items() if key in found},
            self.x_label,
            self.y_label,
            x_log=self.x_log,
            y_log=self.y_log,
            y_limits=self.y_limits,
            levels=self.levels,
        )

    def _lines(self, frame: pd.DataFrame) -> dict[str, dict[float, Spread]]:
        from experiments.studies.results import groups, spreads  # noqa: PLC0415

        column, names = self.lines
        points = groups(frame, column)
        return {
            name: {float(x): value for x, value in spreads(points[key], self.x, self.y).items()}
            for key, name in _names(names).items()
            if key in points
        }


@dataclass(frozen=True)
class Dots:
    """Draws a row for each value of a column: a dot at the mean of `x`, with a bar from the least to the largest."""

    caption: str
    x: str
    by: str
    x_label: str
    x_limits: Callable[[float], tuple[float, float | None]]  # from the least value
    data: Data = "runs"

    def draw(self, results: Results) -> Figure:
        from experiments.reports.bands import dots  # noqa: PLC0415
        from experiments.studies.results import spreads  # noqa: PLC0415

        found = {str(key): value for key, value in spreads(_frame(self.data, results), self.by, self.x).items()}
        if not found:
            raise NotEnoughError("there is no point to draw yet")
        return dots(found, self.x_label, self.x_limits(min(value.low for value in found.values())))


@dataclass(frozen=True)
class Drawing:
    """Declares a figure that a function draws. Raises: NotEnoughError where there is nothing to draw."""

    caption: str
    drawn_by: Callable[[Results], Figure]

    def draw(self, results: Results) -> Figure:
        return self.drawn_by(results)


def _names(values: Mapping[Any, str] | Sequence[str]) -> Mapping[Any, str]:
    return values if isinstance(values, Mapping) else {value: value for value in values}


class _Settings(dict[str, str]):
    """Gives values for places in a text, "200" or "200, 500": of a setting, else of a column."""

    def __init__(self, frame: pd.DataFrame, results: Results) -> None:
        super().__init__()
        self.frame, self.results = frame, results

    def __missing__(self, name: str) -> str:
        try:
            values = self.results.settings(name)
        except KeyError:
            values = list(self.frame[name].dropna().unique())
        return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _frame(data: Data, results: Results) -> pd.DataFrame:
    return data(results) if callable(data) else results.runs if data == "runs" else results.rows
