r"""Reads a column of times: numbers, dates, times of a clock; each to the last digit, and from the first one on.

    12.5   1700000000123456789               numbers, in the unit of the table
    2024-05-31 13:45:00+02:00   20240531     dates, in seconds; also 31.05.2024, 5/31/2024 1:45 PM and 31 May 2024
    13:45:00   100:00:05.2   13:45           hours, minutes, seconds, in seconds; two parts are hours and minutes

05/06/2024 is in May or in June: refused, if no other cell says which, and the setting `dates` does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.data.numerals import Numeral, numeral, plain_numbers
from experiments.data.untrusted import quoted
from experiments.usage import UsageError

__all__ = ["Stamps", "since_1970", "stamps_of_text"]

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
OF_DAY = r"(?P<h>\d{1,2}):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d(?:[.,]\d+)?))?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?"
DATE = re.compile(
    r"(?:(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
    r"|(?P<one>\d{1,2})(?P<between>[-/.])(?P<two>\d{1,2})(?P=between)(?P<last>\d{4})"
    r"|(?P<d>\d{1,2})[-. /]{1,2}(?P<name>[A-Za-z]{3,9})\.?[-, /]{1,2}(?P<y>\d{4})"
    r"|(?P<name2>[A-Za-z]{3,9})\.?[- ](?P<d2>\d{1,2})(?:, ?|[- ])(?P<y2>\d{4}))"
    rf"(?:(?:T|,?\s+){OF_DAY}{ZONE})?"
)
SHORT_YEAR = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d{2}(?:\D.*)?")
CLOCK = re.compile(r"(?P<sign>[-−])?(?:(?P<days>\d+) days?,? )?(?P<h>\d{1,6}):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d(?:[.,]\d+)?))?")
FORMS = "number and no date like 2024-05-31 13:45:00"


class Stamps(NamedTuple):
    """Holds times since the first one, their unit, "" where it is not known, and whether they are of a clock without dates."""

    times: np.ndarray
    unit: str = ""
    clock: bool = False
    words: str = ""


def stamps_of_text(cells: pd.Series, where: str, mark: str, dates: str = "", clock: str = "") -> Stamps:
    r"""Read a column of text, none of it missing.

    Args:    mark: the decimal mark; dates, clock: the settings of these names, as in `Notation`.
    Raises:  UsageError, which quotes a cell.
    """
    codes, unique = pd.factorize(cells)
    texts = [str(text) for text in unique]
    plain = mark != "," and plain_numbers(texts, ()) is not None
    numbers = [Numeral(text) for text in texts] if plain else [numeral(text, mark) for text in texts]
    if plain or all(number is not None and not number.unit for number in numbers):
        if all(re.fullmatch(r"(?:19|20|21)\d{6}", text) for text in texts):  # 20240531
            days = pd.to_datetime(pd.Series(texts), errors="coerce", format="%Y%m%d", utc=True)
            if days.notna().all():
                return Stamps(_seconds(days)[codes], "s")
        values = [number.text for number in numbers if number is not None]
        return Stamps(_differences(values)[codes], *since_1970(float(values[0]), float(values[-1])))
    clocks = [CLOCK.fullmatch(text) for text in texts]
    if all(clocks):
        return _of_clock([found for found in clocks if found is not None], codes, where, clock)
    return Stamps(_of_dates(texts, codes, where, dates, numbers)[codes], "s")


def since_1970(*times: float) -> tuple[str, bool, str]:
    """Return the unit of stamps that are between 2001 and 2040 where they count since 1970, and words about it."""
    for unit, per_second, words in (("s", 1.0, ""), ("ms", 1e3, "milli"), ("us", 1e6, "micro"), ("ns", 1e9, "nano")):
        if all(1e9 <= time / per_second < 2.2e9 for time in times):
            return unit, False, f"{words}seconds since 1970"
    return "", False, ""


def _differences(texts: list[str]) -> np.ndarray:
    """Return numbers minus the least, exactly: a clock that counts nanoseconds since 1970 has more digits than a float."""
    numbers = [Decimal(text) for text in texts]
    finite = [number for number in numbers if number.is_finite()]
    least = min(finite, default=Decimal(0))
    return np.array([float(number - least) if number.is_finite() else np.inf for number in numbers])


def _seconds(dates: pd.Series) -> np.ndarray:
    found: np.ndarray = (dates - dates.min()).dt.total_seconds().to_numpy(np.float64)
    return found


def _row(codes: np.ndarray, unique: int) -> int:
    return int((codes == unique).argmax()) + 1


def _of_clock(found: list[re.Match[str]], codes: np.ndarray, where: str, clock: str) -> Stamps:
    short = [match["s"] is None for match in found]
    two, three = [k for k, each in enumerate(short) if each], [k for k, each in enumerate(short) if not each]
    if two and three and not clock:
        a, b = found[two[0]], found[three[0]]
        raise UsageError(
            f"{where}: row {_row(codes, two[0])} has {quoted(a[0])} and row {_row(codes, three[0])} {quoted(b[0])}; say by "
            "clock=hh:mm or clock=mm:ss what two parts are."
        )
    if two and not clock and (long := [k for k in two if int(found[k]["h"]) > 24]):
        raise UsageError(
            f"{where}: row {_row(codes, long[0])} has {quoted(found[long[0]][0])}, hours and minutes or minutes and seconds; say "
            "which by clock=hh:mm or clock=mm:ss."
        )
    seconds = []
    for match in found:
        parts = [Decimal(match["h"]), Decimal(match["m"]), Decimal((match["s"] or "0").replace(",", "."))]
        if match["s"] is None and clock == "mm:ss":
            parts = [Decimal(0), *parts[:2]]
        total = 86400 * int(match["days"] or 0) + 3600 * parts[0] + 60 * parts[1] + parts[2]
        seconds.append(-total if match["sign"] else total)
    words = "" if not two else "minutes and seconds" if clock == "mm:ss" else "hours and minutes"
    least = min(seconds)
    days = any(match["days"] for match in found)
    return Stamps(np.array([float(each - least) for each in seconds])[codes], "s", not days, words)


def _of_dates(texts: list[str], codes: np.ndarray, where: str, dates: str, numbers: Sequence[object]) -> np.ndarray:
    found = [DATE.fullmatch(text) for text in texts]
    first = _day_first([match for match in found if match is not None and match["one"]], where, dates)
    iso = [text if match is None else _iso(match, first) for text, match in zip(texts, found, strict=True)]
    zoned = [re.search(r"[T ]\S+(?:Z|[+-]\d\d(?::?\d\d)?)$", text) is not None for text in iso]
    times = pd.to_datetime(pd.Series(iso), errors="coerce", utc=True, format="ISO8601")
    wrong = times.isna().to_numpy() | np.array([number is not None for number in numbers])
    if wrong.any():
        # Of what are fewer: a word among dates, a date among numbers.
        k = int(wrong.argmax()) if wrong.mean() <= 0.5 or not any(numbers) else int(np.argmax([n is None for n in numbers]))
        short = "; years are written with four digits" if SHORT_YEAR.fullmatch(texts[k]) else ""
        raise UsageError(f"{where}: row {_row(codes, k)}: {quoted(texts[k])} is no {FORMS}{short}.")
    if any(zoned) and not all(zoned):
        a, b = zoned.index(True), zoned.index(False)
        raise UsageError(
            f"{where}: some dates have a time zone and some have none, as {quoted(texts[a])} in row {_row(codes, a)} and "
            f"{quoted(texts[b])} in row {_row(codes, b)}; give all of them one, or none."
        )
    return _seconds(times)


def _day_first(found: list[re.Match[str]], where: str, dates: str) -> bool:
    """Return whether 05/06/2024 is in June. Raises: UsageError where no cell says so, or two say otherwise."""
    days = next((match for match in found if int(match["one"]) > 12), None)
    months = next((match for match in found if int(match["two"]) > 12), None)
    if days and months:
        raise UsageError(
            f"{where}: {quoted(days[0])} has the day first, and {quoted(months[0])} the month; write all dates alike."
        )
    if dates and (against := days if dates == "month-first" else months):
        raise UsageError(f"{where}: {quoted(against[0])} is no date for dates={dates}.")
    if found and not dates and not days and not months:
        raise UsageError(
            f"{where}: {quoted(found[0][0])} is a date with the day first or the month, and no other cell says which; say it by "
            "dates=day-first or dates=month-first, or write 2024-05-31."
        )
    return dates == "day-first" or (not dates and days is not None)


def _iso(match: re.Match[str], day_first: bool) -> str:
    """Write a date as pandas reads it; what is none, such as the 31st of June, pandas refuses."""
    if name := match["name"] or match["name2"]:
        month = MONTHS.index(name[:3].lower()) + 1 if name[:3].lower() in MONTHS else 0
        year, day = match["y"] or match["y2"], match["d"] or match["d2"]
    elif match["one"]:
        year = match["last"]
        day, month = (match["one"], int(match["two"])) if day_first else (match["two"], int(match["one"]))
    else:
        year, month, day = match["year"], int(match["month"]), match["day"]
    date = f"{year}-{month:02}-{int(day):02}"
    if match["h"] is None:
        return date
    hour = int(match["h"])
    if half := match["half"]:
        hour = 99 if not 1 <= hour <= 12 else hour % 12 + 12 * (half[0] in "pP")
    zone = match["zone"] or ""
    return f"{date} {hour:02}:{match['m']}:{(match['s'] or '00').replace(',', '.')}{'Z' if zone in ('UTC', 'GMT') else zone}"
