"""Markdown tables of a comparison, from its rows: one for each part, made of the same few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from experiments.bench.parts.cells import BY_DEFAULT, COUNTERPARTS, LOOP
from experiments.bench.parts.growth import exponent, sweeps
from experiments.bench.rows import BACKWARD, WORKS, medians, quartiles, ratio
from experiments.bench.session import ENGINES
from experiments.reports.spreads import markdown

__all__ = [
    "beside_the_cheapest",
    "beside_the_first",
    "cells",
    "ensembles",
    "first_use",
    "growth",
    "live",
    "memory",
    "solves",
    "stiff",
]

NONE = "–"
LOOPED = " in a loop"
Values = Sequence[float | None]
Tables = Iterator[str]


def cells(rows: pd.DataFrame) -> Tables:
    """A table for each of the sizes and works: fields by engine, as ratios to torch.nn.GRU (or milliseconds, without it)."""
    endings = tuple(f", {engine}" for engine in (*ENGINES, BY_DEFAULT))
    for (sizes, work), same in rows.groupby(["problem", "work"], sort=False):
        values = _by("candidate", same)
        gru = values.get("torch.nn.GRU")
        unit = "milliseconds" if gru is None else f"times torch.nn.GRU; torch.nn.GRU takes {_took(gru)}"

        def shown(name: str, of: Values | None = gru, values: dict[str, Values] = values) -> str:
            own = values.get(name)
            return NONE if own is None else f"{1000 * _median(own):.3g}" if of is None else _ratio(own, of)

        names = dict.fromkeys(name.rpartition(", ")[0] for name in values if name.endswith(endings))
        lines = [[name, shown(f"torch.nn.{COUNTERPARTS.get(name)}"), *(shown(name + end) for end in endings)] for name in names]
        if LOOP in values:
            lines.append(["torch.nn.GRUCell in a loop", NONE, NONE, shown(LOOP), NONE])
        for name, kind in COUNTERPARTS.items():
            if kind != "GRU" and (theirs := values.get(f"torch.nn.{kind}")) is not None:
                lines.append([f"{name}, times torch.nn.{kind}", "1", *(shown(name + end, theirs) for end in endings)])
        header = ["cell", "torch.nn", "compiled", "step by step", "by default, at first"]
        yield _table(f"**{sizes}, {work}**, {unit}", header, lines)


def beside_the_first(what: str, rows: pd.DataFrame) -> Tables:
    """A line for each candidate and size: seconds, and ratios to the first."""
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        first = _by("work", same.drop_duplicates("work"))
        for name, own in _candidates(same):
            works = [text for work in WORKS for text in (_took(own[work]), _ratio(own[work], first[work]))]
            lines.append([problem, name, *works])
    yield from _one(["sizes", what, "forward", "ratio", "with backward", "ratio"], lines)


def beside_the_cheapest(rows: pd.DataFrame) -> Tables:
    """A line for each door and size: the median, the largest, and the ratio to the door that is the cheapest."""
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        cheapest = {work: min(own["values"], key=_median) for work, own in same.groupby("work", sort=False)}
        for name, own in _candidates(same):
            line = [problem, name]
            for work in WORKS:
                most = _seconds(max(filter(None, own[work])))
                line += [_seconds(_median(own[work])), most, _ratio(own[work], cheapest[work])]
            lines.append(line)
    yield from _one(["sizes", "door", *["forward", "largest", "ratio"], *["with backward", "largest", "ratio"]], lines)


def live(rows: pd.DataFrame) -> Tables:
    """A line for each candidate: microseconds of a step, with quartiles, and the ratio to torch's cell."""
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        at = _by("candidate", same)
        for name, beside in zip(same["candidate"], same["beside"], strict=True):
            low, median, high, _, most = quartiles(at[name]) or (math.nan,) * 5
            took = f"{1e6 * median:.1f} ({1e6 * low:.1f}–{1e6 * high:.1f}; {1e6 * most:.1f})"
            lines.append([problem, name, took, _ratio(at[name], at.get(beside))])
    yield from _one(["sizes", "step", "µs", "times torch's cell"], lines)


def ensembles(rows: pd.DataFrame) -> Tables:
    """A line for each field and size: seconds in a loop and in one call, and the ratio; beside torch's in a loop."""
    lines = []
    for (problem, work), same in rows.groupby(["problem", "work"], sort=False):
        values = _by("candidate", same)
        for network in (name.removesuffix(LOOPED) for name in values if name.endswith(LOOPED)):
            loop, one = values[network + LOOPED], values.get(network + " in one call")
            lines.append([problem, work, network, *map(_took, (loop, one)), _ratio(loop, one)])
    yield from _one(["sizes", "work", "network", "a loop", "one call", "times faster"], lines)


def solves(rows: pd.DataFrame) -> Tables:
    """A line for each candidate: its tolerance, error and evaluations, seconds, and ratios to the first candidate."""
    header = ["candidate", "tolerance", "error", "evaluations"]
    header += ["forward, s", "ratio", "with backward, s", "ratio", "to compile, s"]
    for problem, same in rows.groupby("problem", sort=False):
        lines, first = [], _by("work", same.drop_duplicates("work"))
        for name, own in _candidates(same):
            facts = same[same["candidate"] == name].iloc[0]
            line = [name, f"{facts['tolerance']:.0e}", f"{facts['error']:.1e}", f"{facts['evaluations']:,.0f}"]
            for work in WORKS:
                line += [_number(_median(own.get(work, []))), _ratio(own.get(work), first.get(work))]
            lines.append([*line, f"{facts['compile_seconds']:.1f}" if facts["compile_seconds"] else NONE])
        yield _table(f"**{problem}**", header, lines)


def growth(rows: pd.DataFrame) -> Tables:
    """A table for each sweep: seconds at each point, and the exponent."""
    bases = dict(zip(rows["sweep"], rows["base"], strict=True)) if len(rows) else {}
    for sweep, seconds in sweeps(rows).items():
        header = [f"{sweep.rpartition(' ')[2]}, seconds", *(f"{x:g}" for x in seconds.columns), "exponent"]
        lines = [[str(name), *map(_number, own), _number(exponent(own), ".2f")] for name, own in seconds.iterrows()]
        yield _table(f"**{_capital(sweep)}**, {BACKWARD}, else {bases[sweep]}", header, lines)


def stiff(rows: pd.DataFrame) -> Tables:
    """Seconds in the three batches, and the ratio of those with the stiff sample to those without."""
    header = ["candidate", "error", "without it, s", "with it, s", "it alone, s", "with / without"]
    for (problem, work), same in rows.groupby(["problem", "work"], sort=False):
        lines = []
        for name, own in same.groupby("candidate", sort=False):
            at = _by("variant", own)
            seconds = [_number(_median(at[variant])) for variant in ("without", "with", "alone")]
            lines.append([str(name), f"{own['error'].iloc[0]:.1e}", *seconds, _ratio(at["with"], at["without"])])
        yield _table(f"**{_capital(problem)}, {work}**", header, lines)


def memory(rows: pd.DataFrame) -> Tables:
    """Megabytes over the length, a table for cells and one for solves."""
    for kind, same in rows.groupby("kind", sort=False) if len(rows) else ():
        sizes = same["problem"].iloc[0].split(", ", 2)[2]  # after the kind and the length
        megabytes = medians(same, "x") / 1e6
        lines = [[str(name), *(_number(value, ",.3g") for value in own)] for name, own in megabytes.iterrows()]
        yield _table(f"**{_capital(kind)}s**, {sizes}, MB", ["T", *(f"{x:,.0f}" for x in megabytes.columns)], lines)


def first_use(rows: pd.DataFrame) -> Tables:
    """Seconds of imports and of first calls."""
    for problem, same in rows.groupby("problem", sort=False):
        engines = sorted(same["engine"].dropna().unique()) if "engine" in same else []
        by = f", by {' and '.join(engines)}" if engines else ""
        lines = [[name, _seconds(_median(own)), _spread(own)] for name, own in _by("candidate", same).items()]
        yield _table(f"**{_capital(problem)}**{by}", ["what", "time", "quartiles"], lines)


def _by(column: str, rows: pd.DataFrame) -> dict[str, Values]:
    """Look up values by what stands in a column."""
    return dict(zip(rows[column], rows["values"], strict=True))


def _candidates(rows: pd.DataFrame) -> Iterator[tuple[str, dict[str, Values]]]:
    """Yield each candidate and its values by work."""
    for name, own in rows.groupby("candidate", sort=False):
        yield str(name), _by("work", own)


def _one(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> Tables:
    """One table without a title; none where nothing was measured."""
    if lines:
        yield markdown(header, lines)


def _table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return f"{title}\n\n{markdown(header, lines)}"


def _capital(text: Any) -> str:
    return text[0].upper() + text[1:]


def _median(values: Values) -> float:
    over_rounds = quartiles(values)
    return over_rounds.median if over_rounds else math.nan


def _number(value: float | None, form: str = ".3g") -> str:
    return NONE if pd.isna(value) else f"{value:{form}}"


def _ratio(values: Values | None, reference: Values | None) -> str:
    """The median of the ratios, and the quartiles and the largest where they differ."""
    ratios = None if values is None or reference is None else ratio(values, reference)
    if ratios is None:
        return NONE
    low, middle, high, most = map(_short, (*ratios[:3], ratios.most))
    return middle if low == most else f"{middle} ({low}–{high}; {most})"


def _short(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _took(values: Values | None) -> str:
    """The median, and the largest where it differs."""
    over_rounds = quartiles(values or [])
    if over_rounds is None:
        return NONE
    middle, most = map(_seconds, (over_rounds.median, over_rounds.most))
    return middle if middle == most else f"{middle} (at most {most})"


def _spread(values: Values) -> str:
    over_rounds = quartiles(values)
    return f"{_seconds(over_rounds.low)} – {_seconds(over_rounds.high)}" if over_rounds and over_rounds.rounds > 1 else NONE
