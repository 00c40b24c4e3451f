r"""What the records of `compressed` say: rows with what their run was, where Taylor steps break, in words and tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from experiments.models.integrators import EXACT
from experiments.studies.records import Record, Spread, markdown, number, setting, spread

__all__ = [
    "KEPT",
    "LOST",
    "RATES",
    "TRAINED",
    "WAYS",
    "able_paces",
    "accuracy_table",
    "breaking",
    "breaking_words",
    "clock_words",
    "diverged_step",
    "exponential_words",
    "invariance",
    "kind_of",
    "median_of",
    "moved_numbers",
    "pace_table",
    "panels_of",
    "place_of",
    "rows_of",
    "span",
    "untold_words",
]

RATES = {"sigmoid": "gated", "softplus": "gated-softplus", "exponential": "gated-exponential"}
WAYS = {"euler": "Euler", "exponential-euler": "exponential", EXACT: "exact", "softplus-clock": "softplus clock"}
TRAINED = {"slow": (0.5, 1.0), "unit": (4.0,), "fast": (8.0, 16.0)}
KEPT, LOST = 0.9, 0.5  # accuracies that count as such


def clock_words(clock: float) -> str:
    """1/4, 1, 16."""
    return str(Fraction(clock).limit_denominator(1000))


def diverged_step(record: Record) -> int | None:
    return next((int(row["diverged"]) for row in record["rows"] if "diverged" in row), None)


def kind_of(record: Record) -> dict[str, Any]:
    """In what the runs of this study differ, in its words."""
    clocks = tuple(setting(record, "task_settings.clocks"))
    return {
        "told": bool(setting(record, "task_settings.clock_given")),
        "rate": next(rate for rate, field in RATES.items() if field == setting(record, "field")),
        "trained": setting(record, "integrator"),
        "on": next(on for on, known in TRAINED.items() if known == clocks),
    }


def rows_of(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Every row with what its run was."""
    return [
        {"key": record["key"], **kind_of(record), **row} for record in records for row in record["rows"] if "diverged" not in row
    ]


def _by(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, list[Mapping[str, Any]]]:
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[names[0]] if len(names) == 1 else tuple(row[name] for name in names), []).append(row)
    return groups


def span(rows: Iterable[Mapping[str, Any]]) -> str:
    found = sorted(row["accuracy"] for row in rows)
    if not found:
        return "–"
    low, high = f"{found[0]:.2f}", f"{found[-1]:.2f}"
    return low if low == high else f"{low} to {high}"


def invariance(told: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Of weights run exactly: the largest difference between clocks, of accuracy and of a state."""
    exact = [row for row in told if row["as"] == EXACT]
    accuracies = [[row["accuracy"] for row in mine] for mine in _by(exact, "key").values()]
    states = [row["states"] for row in exact if row["states"] is not None]
    return max(max(found) - min(found) for found in accuracies), max(states, default=float("nan"))


def able_paces(told: Iterable[Mapping[str, Any]]) -> dict[tuple[str, float], float]:
    """Of weights that keep their accuracy on every clock where they are run exactly: the largest pace there, by run and clock.

    That of the Taylor step itself would be no measure: where it diverges, so do its gates.
    """
    exact = _by([row for row in told if row["as"] == EXACT], "key")
    able = [row for mine in exact.values() if min(row["accuracy"] for row in mine) >= KEPT for row in mine]
    return {(row["key"], row["clock"]): row["largest"] for row in able if row["largest"] is not None}


def breaking(told: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Of these weights run by Taylor steps: the largest pace on the fastest clock kept, and on the first faster one lost."""
    held, lost, paces = [], [], able_paces(told)
    for key, mine in _by([row for row in told if row["as"] == "euler" and (row["key"], row["clock"]) in paces], "key").items():
        good = max((row["clock"] for row in mine if row["accuracy"] >= KEPT), default=None)
        if good is not None:
            beyond = [row["clock"] for row in mine if row["clock"] > good and row["accuracy"] <= LOST]
            held.append(paces[key, good])
            lost += [paces[key, min(beyond)]] if beyond else []
    return held, lost


def exponential_words(told: Iterable[Mapping[str, Any]]) -> str:
    steps = "exponential-euler"
    mine = [row for row in told if (row["trained"], row["on"], row["as"]) == (steps, "slow", steps)]
    if not mine:
        return ""
    words = ", always finite" if all(row["finite"] for row in mine) else ""
    ends = " and ".join(f"{span(row for row in mine if row['clock'] == c)} at c = {c:g}" for c in (1.0, 4.0, 16.0))
    return f"trained and run by exponential Euler steps it is {ends}{words}. "


def breaking_words(held: Sequence[float], lost: Sequence[float]) -> str:
    if not held or not lost:
        return ""
    kept, gone = (f"{number(min(found), 2)} to {number(max(found), 2)}" for found in (held, lost))
    words = "Weights that run exactly keep 0.9 everywhere, run by Taylor steps keep it up to a largest c′g of"
    return f"{words} {kept}, and lose it at {gone}. "


def median_of(found: Sequence[float]) -> float | str:
    return statistics.median(found) if found else "none"


def untold_words(rows: Iterable[Mapping[str, Any]]) -> str:
    """What models say that are run as they were trained, on the slowest clock and on the fastest."""
    untold = [row for row in rows if not row["told"] and row["as"] == row["trained"]]
    if not untold:
        return ""
    ends = sorted({min(row["clock"] for row in untold), max(row["clock"] for row in untold)})
    parts = []
    for on, mine in _by(untold, "on").items():
        found = (f"{span(row for row in mine if row['clock'] == end)} at c = {end:g}" for end in ends)
        parts.append(f"trained on {on} clocks, {' and '.join(found)}")
    return f"Not told the clock, models run as trained have, {'; '.join(parts)}."


def moved_numbers(told: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Accuracy before and after a move, at the fastest clock that was trained on."""
    numbers = {}
    groups = _by([row for row in told if row["clock"] == max(TRAINED[row["on"]])], "trained", "on", "as")
    for trained, on, way in groups:
        own = groups.get((trained, on, trained))
        known = way != "softplus-clock" or (trained, on) == ("euler", "unit")
        if own and known and way not in (trained, "exponential-euler"):
            name = f"trained {WAYS[trained]} on {on}, run {WAYS[way]}, at the fastest clock of training (before the move)"
            numbers[name] = f"{span(groups[trained, on, way])} ({span(own)})"
    return numbers


def accuracy_table(rows: Sequence[Mapping[str, Any]], clocks: Sequence[float]) -> str:
    lines = []
    for (rate, trained, on, way), mine in _by(rows, "rate", "trained", "on", "as").items():
        at = _by(mine, "clock")
        cells = [_accuracy(at.get(clock, ())) for clock in clocks]
        lines.append((rate, WAYS[trained], on, WAYS[way], *cells))
    return markdown(("rate", "trained", "on", "run as", *(f"c = {clock_words(c)}" for c in clocks)), lines)


def _accuracy(rows: Sequence[Mapping[str, Any]]) -> str | None:
    if not rows:
        return None
    found = spread(row["accuracy"] for row in rows)
    written = f"{found.mean:.2f}" if found.count == 1 else str(found)
    return written if all(row["finite"] for row in rows) else f"{written} ×"


def pace_table(rows: Sequence[Mapping[str, Any]], clocks: Sequence[float]) -> str:
    lines = []
    for (rate, trained, on), mine in _by(rows, "rate", "trained", "on").items():
        at = _by(mine, "clock")
        lines.append((rate, WAYS[trained], on, *(_pace(at.get(clock, ())) for clock in clocks)))
    return markdown(("rate", "trained and run", "on", *(f"c = {clock_words(c)}" for c in clocks)), lines)


def _pace(rows: Sequence[Mapping[str, Any]]) -> str | None:
    known = [row for row in rows if row["largest"] is not None and row["median"] is not None]
    if not known:
        return "×" if rows else None
    return f"{number(max(row['largest'] for row in known), 2)}, {number(statistics.median(row['median'] for row in known), 2)}"


def panels_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, dict[float, Spread]]]:
    panels: dict[tuple[str, str], dict[str, dict[float, Spread]]] = {}
    for (trained, on), mine in sorted(_by(rows, "trained", "on").items(), key=lambda item: list(WAYS).index(item[0][0])):
        if on == "unit":
            continue
        panel = panels.setdefault(place_of({"trained": trained, "on": on}), {})
        for (way, clock), same in _by(mine, "as", "clock").items():
            if way != "softplus-clock":
                panel.setdefault(way, {})[clock] = spread(row["accuracy"] for row in same)
    return panels


def place_of(one: Mapping[str, Any]) -> tuple[str, str]:
    """Row and column of a panel."""
    return f"trained {WAYS[one['trained']]}", f"on {one['on']} clocks"
