r"""How much of its accuracy a network with the decay |h|^r h loses on other clocks.

fall    accuracy at c = 1 less that at c, in the same way of running the same weights
case    "given": at the fastest speed, a case for each integrator;  "hidden": the mean over speeds and integrators
gain    the fall of r = 0 less that of r = 2, means over seeds, with an interval
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.reports.spreads import Spread
from experiments.studies.results import where
from experiments.studies.verdicts import difference

__all__ = ["HIDDEN", "at_the_fastest", "by_case", "gain", "with_falls"]

HIDDEN = "hidden"
NETWORK = ["recording", "cell", "exponent", "seed"]


def with_falls(rows: pd.DataFrame) -> pd.DataFrame:
    """With "fall", of accuracy from c = 1."""
    if rows.empty:
        return rows
    of = ["key", "way", "clock_given"]
    first = where(rows, clock=1.0)[[*of, "accuracy"]].rename(columns={"accuracy": "first"})
    found = rows.merge(first, on=of, how="left")
    return found.assign(fall=found["first"] - found["accuracy"])


def at_the_fastest(rows: pd.DataFrame, speeds: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """The rows at the fastest speed of each recording."""
    return rows if rows.empty else rows[rows["clock"] == rows["recording"].map({name: cs[-1] for name, cs in speeds.items()})]


def by_case(rows: pd.DataFrame, speeds: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Recording, cell, exponent, seed, case and fall, of rows with falls that are run as they were trained."""
    if rows.empty:
        return rows
    given = at_the_fastest(where(rows, clock_given=True), speeds)
    hidden = where(rows, clock_given=False)
    hidden = hidden[hidden["clock"] != 1].groupby(NETWORK, sort=False, as_index=False).agg({"fall": "mean"})
    return pd.concat([given[[*NETWORK, "fall"]].assign(case=given["way"]), hidden.assign(case=HIDDEN)], ignore_index=True)


def gain(rows: pd.DataFrame) -> Spread:
    """How much more r = 0 falls than r = 2; its low and high are those of the 95 % interval (Welch) over seeds."""
    leaky, slow = (where(rows, exponent=r)["fall"] for r in (0.0, 2.0))
    return difference(leaky, slow)
