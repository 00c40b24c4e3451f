r"""Repeats slow forgetting beside leaky units on UCI HAR with as many seeds as the printed difference takes.

dh/dt = alpha (tanh(U h + W x + b) - |h|^r h)        r = 0: leaky        alpha starts at c/T, T = 128

short      10 epochs, every r and c: what few seeds choose, and what the choice makes of the difference
long       200 epochs, as in print, for r = 0 and r = 2, at the c of each that validation chooses
people     the test windows by whose they are: nine others would have given another difference
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from discretize import SequenceModel
from experiments.data.uci_har import read_uci_har
from experiments.reports import plots
from experiments.reports.bands import LOOKS
from experiments.reports.plots import INK, MUTED
from experiments.reports.spreads import NotEnoughError, Spread, difference, number, spread
from experiments.runs.checkpoints import NEWEST, read_state
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.ohno.har import EPOCH, GAIN, OHNO, PRINTED, T
from experiments.studies.claims.ohno.har import HAR as FOLDER
from experiments.studies.claims.training import curve_of_epochs, in_epochs
from experiments.studies.results import Results, best_settings, groups, where
from experiments.studies.specs import Drawing, Table, first, run_count
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, compared
from experiments.tasks.recorded.har import HAR
from experiments.tasks.task import said_right

__all__ = ["OhnoSeeds", "over_people", "picked_by"]

EXPONENTS, BOTH = (0.0, 0.5, 1.0, 2.0, 4.0), (0.0, 2.0)
STARTS, START = (1, 5, 25), 25
LONG = ((0.0, 25), (2.0, 25), (0.0, 5), (2.0, 5))  # r and c
DRAWS, INTERVAL = 2000, (0.025, 0.975)
FEW = (1, 3, 4, 10)  # seeds; the paper has 4
PERSON, LAST = "person", "person, last weights"  # kinds of rows


def with_validation(results: Results) -> pd.DataFrame:
    """Add to the runs the lowest validation loss of each, and the epoch that had it."""
    best = where(results.rows, what="best")
    if best.empty:
        return results.runs.iloc[:0]
    return results.runs.merge(best[["key", "epoch", "validation"]], on="key")


def of_part(results: Results, part: str) -> pd.DataFrame:
    """Select the long or the short runs of each exponent at the c that all its seeds choose."""
    return best_settings(where(with_validation(results), part=part), ["exponent"], ["c"], "validation")


def of_persons(results: Results, what: str = PERSON, **chosen: Any) -> pd.DataFrame:
    """Select what runs have right of each person, by the weights that are kept or by the last ones."""
    return where(results.rows, what=what, **chosen)


def right_of_all(rows: pd.DataFrame, exponent: float) -> pd.Series:
    """Compute the accuracy of each run of one exponent from what it has right of each person."""
    runs = where(rows, exponent=exponent).groupby("key")[["right", "windows"]].sum()
    return runs["right"] / runs["windows"]


def with_last(results: Results) -> pd.DataFrame:
    """Add to the runs, beside what `with_validation` has, the accuracy of the weights after the last epoch."""
    found = with_validation(results)
    if found.empty:
        return found
    last = of_persons(results, LAST).groupby("key")[["right", "windows"]].sum()
    return found.assign(last=found["key"].map(last["right"] / last["windows"]))


def over_people(rows: pd.DataFrame, ours: float = 2.0, theirs: float = 0.0) -> Spread:
    """Compute how much more accurate one exponent is, with a 95 % interval over the people tested and the seeds, both drawn anew.

    Args:    rows: of persons, with the columns exponent, seed, person, windows and right.
    Raises:  NotEnoughError where a side has no run.
    """
    sides = [where(rows, exponent=r).pivot_table(index="seed", columns="person", values="right") for r in (ours, theirs)]
    if any(side.empty for side in sides):
        raise NotEnoughError("of one of two exponents that are compared no run is done")
    sizes = rows.drop_duplicates("person").set_index("person")["windows"].reindex(sides[0].columns).to_numpy()
    right = [side.to_numpy() for side in sides]
    draw, drawn = np.random.default_rng(0), []
    for _ in range(DRAWS):
        people = draw.integers(len(sizes), size=len(sizes))
        means = [side[draw.integers(len(side), size=len(side))].mean(0) for side in right]
        drawn.append((means[0] - means[1])[people].sum() / sizes[people].sum())
    mean = float((right[0].mean(0) - right[1].mean(0)).sum() / sizes.sum())
    low, high = np.quantile(drawn, INTERVAL)
    return Spread(mean, float(low), float(high), len(sizes))


def picked_by(
    runs: pd.DataFrame, count: int, ours: float = 2.0, theirs: float = 0.0
) -> tuple[np.ndarray, list[dict[int, float]]]:
    """Draw so many seeds, with replacement, take of each exponent the one run of the lowest validation loss, and compare tests.

    Returns: the differences of accuracies, (draws,); of each exponent c -> how often it was the best one's.
    Source:  Ohno and Kumagai 2021, sec. VI-A: the model with the lowest validation loss of all settings and starts is tested.
    """
    sides = []
    for r in (ours, theirs):
        of_exponent = where(runs, exponent=r)
        if of_exponent.empty:
            raise NotEnoughError(f"no run with r = {r:g} is done yet")
        tried = of_exponent.pivot_table(index="seed", columns="c", values=["validation", "accuracy"]).dropna()
        if len(tried) < count:
            raise NotEnoughError(f"{count} seeds with every c take as many runs of each; r = {r:g} has {len(tried)}")
        sides.append((tried["validation"].to_numpy(), tried["accuracy"].to_numpy(), list(tried["validation"].columns)))
    draw, found, chosen = np.random.default_rng(count), [], [dict.fromkeys(STARTS, 0.0) for _ in sides]
    for _ in range(DRAWS):
        accuracy = []
        for (losses, right, starts), often in zip(sides, chosen, strict=True):
            seeds = draw.integers(len(losses), size=count)
            best, c = np.unravel_index(losses[seeds].argmin(), (count, len(starts)))
            often[starts[c]] += 1 / DRAWS
            accuracy.append(right[seeds[best], c])
        found.append(accuracy[0] - accuracy[1])
    return np.array(found), chosen


def few_seeds(results: Results) -> pd.DataFrame:
    """Say for each number of seeds what a study of so many would have found."""
    runs, lines = where(with_validation(results), part="short"), []
    for count in FEW:
        try:
            found, chosen = picked_by(runs, count)
        except NotEnoughError:
            continue
        low, high = np.quantile(found, INTERVAL)
        ours, theirs = (", ".join(f"{share:.0%} {c}" for c, share in often.items()) for often in chosen)
        line = {"seeds": count, "range": f"{low:.3f} to {high:.3f}", "above": f"{(found >= GAIN).mean():.0%}"}
        lines.append(line | {"ours": ours, "theirs": theirs})
    return pd.DataFrame(lines)


def people_drawing(results: Results) -> Figure:
    """Draw accuracies over c, and the difference between r = 2 and r = 0 for each person, with 95 % intervals over seeds."""
    runs, rows = with_validation(results), of_persons(results, part="long", c=START)
    if runs.empty or rows.empty:
        raise NotEnoughError("there is no run to draw yet")
    with plots.style():
        figure, (above, below) = plots.panels(2, 6.4)
        for place, (r, same) in enumerate(groups(where(runs, part="short"), "exponent").items()):
            (colour, dashes, marker), points = LOOKS[place], same.groupby("c")["accuracy"]
            at = points.mean().index * 1.03 ** (place - 2)  # beside one another
            look: dict[str, Any] = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 4.5, "elinewidth": 1.2}
            above.errorbar(at, points.mean(), 2 * points.sem(), **look, label=f"r = {r:g}")
        above.set(xscale="log", xlabel="c, where α starts at c/T", ylabel="test accuracy")
        above.set_xticks(STARTS, map(str, STARTS))
        above.minorticks_off()
        people = sorted(groups(rows.assign(share=rows["right"] / rows["windows"]), "person").items())
        for place, (_, same) in enumerate(people):
            found = difference(where(same, exponent=2.0)["share"], where(same, exponent=0.0)["share"])
            below.plot([place, place], [found.low, found.high], color=INK, linewidth=1.2)
            below.plot(place, found.mean, "o", color=INK, markersize=4.5)
        below.axhline(0, linewidth=0.9, color=MUTED, zorder=0)
        below.set_xticks(range(len(people)), [f"{person:g}" for person, _ in people])
        below.set(xlabel="person of the test windows, by number", ylabel="accuracy, r = 2 less r = 0")
        plots.legend(figure, above, columns=3)
    return figure


class OhnoSeeds(Study):
    """Trains slow forgetting and leaky networks on UCI HAR with 30 seeds, and tests them by person."""

    name = "ohno-har-seeds"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 140, "paper": 2000}
    sizes: ClassVar = scales(
        hidden=(4, 64, 64),
        short=(1, 10, 10),
        long=(2, 200, 200),
        long_pairs=(LONG[:2], LONG, [(r, c) for r in EXPONENTS for c in STARTS]),
        seeds=(2, 30, 30),
        held_out=(60, 3000, 3000),
    )
    may_diverge = True
    needs = (FOLDER,)
    tables = (
        Table(
            "Test accuracy, mean (least–largest) over seeds, with their standard deviation, the lowest validation loss, the "
            "epoch that had it, whose weights are tested, and the accuracy of the last weights. Short: 10 epochs; long: 200.",
            by={"part": "part", "r": "exponent", "c": "c"},
            columns={
                "accuracy": "accuracy",
                "deviation": lambda rows: float(rows["accuracy"].std()),
                "validation loss": lambda rows: float(rows["validation"].mean()),
                "epoch": "epoch",
                "last weights": lambda rows: spread(rows["last"].dropna()) if rows["last"].notna().any() else None,
                "runs": run_count,
            },
            data=with_last,
            sort=lambda part, r, c: (part, r, c),
        ),
        Table(
            "What a study of few seeds would have found after 10 epochs, if of each r the one model is tested that has the "
            "lowest validation loss of all seeds and c, as in the paper: so many seeds drawn 2000 times; the difference of test "
            "accuracies, from 2.5 % to 97.5 % of the draws, and how often it comes to the 0.007 in print.",
            by={"seeds": "seeds"},
            columns={
                "difference": first("range"),
                "0.007 or more": first("above"),
                "c of r = 2": first("ours"),
                "c of r = 0": first("theirs"),
            },
            data=few_seeds,
        ),
    )
    figures: ClassVar = {
        "people": Drawing(
            "Above: test accuracy after 10 epochs, by c, with two standard errors. Below: what r = 2 has more than r = 0 in "
            "long trainings, both with c = 25, for each of the nine people, with 95 % intervals over seeds; of nine such "
            "intervals one or more misses the truth by chance in a third of all cases.",
            people_drawing,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points, seed by seed, so that any part of them compares like with like; none without the recordings."""
        if data_path(FOLDER) is None:
            return []
        pairs = [("long", *pair) for pair in sizes.long_pairs] + [("short", r, c) for r in EXPONENTS for c in STARTS]
        return [{"part": part, "exponent": r, "c": c, "seed": seed} for seed in range(sizes.seeds) for part, r, c in pairs]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        network = {**OHNO, "exponent": point["exponent"], "hidden": sizes.hidden, "alpha": point["c"] / T, "integrator": "euler"}
        training: dict[str, Any] = {"rate": 5e-3, "clip": 5.0, "evaluation": sizes.held_out, "threads": 1}
        epochs = in_epochs(EPOCH, vars(sizes)[point["part"]])
        task = {"task": "har", "data": str(data_path(FOLDER)), "classes": "fastgrnn"}
        return shared_configuration(**task, **network, **training, **epochs, seed=point["seed"])

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Find the epoch whose weights were kept, and count for each person of the test windows how many are right.

        The same is counted of the weights after the last epoch.
        """
        kept = min(curve_of_epochs(folder), key=lambda row: float(str(row["loss"])))
        best: Row = {"what": "best", "epoch": kept["epoch"], "validation": kept["loss"]}
        last = copy.deepcopy(model)
        last.load_state_dict(read_state(folder / NEWEST)["model"])
        return [best, *by_person(run.configuration, model, PERSON), *by_person(run.configuration, last, LAST)]

    def verdict(self, results: Results) -> ClaimVerdict:
        if results.rows.empty:
            raise NotEnoughError("no run that did not diverge is done yet")
        kept, last = (of_persons(results, what, part="long", c=START) for what in (PERSON, LAST))
        equal, end = ({r: right_of_all(rows, r) for r in BOTH} for rows in (kept, last))
        chosen, short = (
            {r: where(of_part(results, part), exponent=r)["accuracy"] for r in EXPONENTS} for part in ("long", "short")
        )
        missing = [f"r = {r:g}" for r in BOTH if equal[r].empty or end[r].empty]
        if missing := missing + [f"r = {r:g}, short" for r in EXPONENTS if short[r].empty]:
            raise NotEnoughError(f"no run with {'; '.join(missing)} is done yet")
        people = Compared(over_people(kept), GAIN)
        said = f", in the paper {PRINTED[2.0]} against {PRINTED[0.0]}"
        parts = [
            compared("in 200 epochs, both with c = 25, r = 2 classifies better than r = 0", equal[2.0], equal[0.0], GAIN, said),
            ClaimPart("over other people in the test, too", people, f"of {people.measured.count} people"),
            compared("with the c of each that validation chooses, too", chosen[2.0], chosen[0.0], GAIN),
            compared("by the weights after the last epoch, both with c = 25, too", end[2.0], end[0.0], GAIN),
            compared("in 10 epochs, with the c that validation chooses, too", short[2.0], short[0.0], GAIN),
        ]
        tested = of_persons(results, part="short")
        tested = tested[tested["key"].isin(of_part(results, "short")["key"])]
        for r in (1.0, 2.0):
            found = Compared(over_people(tested, 4.0, r), -GAIN, printed=False)
            evidence = f"{number(float(short[4.0].mean()))} against {number(float(short[r].mean()))}"
            parts.append(
                ClaimPart(f"in 10 epochs r = 4 classifies worse than r = {r:g}, over other people in the test", found, evidence)
            )
        return ClaimVerdict(parts, {f"accuracy, r = {r:g}, 200 epochs": number(float(equal[r].mean())) for r in BOTH})


def by_person(configured: Configuration, model: SequenceModel, what: str) -> list[Row]:
    """Count the test windows of each person, and those that the model has right."""
    task, rows = configured.task, list[Row]()
    assert isinstance(task, HAR)
    people = read_uci_har(task.data, "test").subjects
    batch = task.batch_of("test", torch.arange(len(people)))
    with torch.no_grad():
        right = said_right(batch.last(model(batch.xs)), batch.targets)
    for person in people.unique().tolist():
        theirs = people == person
        rows.append({"what": what, "person": person, "windows": int(theirs.sum()), "right": int(right[theirs].sum())})
    return rows
