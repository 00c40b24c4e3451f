"""Studies of milliseconds, light to import: the workers in the tests of the runner import them from here."""

import functools
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

from experiments.reports.spreads import NotEnoughError
from experiments.studies.specs import Bands, Table
from experiments.studies.study import SCALES, RunMeasures, Sizes, Study, grid
from experiments.studies.verdicts import ClaimPart, ClaimVerdict


@functools.cache
def _runs(kind, scale, data):
    """The runs of a kind of study and their configurations as JSON, made once for each folder of data."""
    return [(run, json.loads(json.dumps(run.configuration.to_json()))) for run in kind().runs(scale)]


def records_of(study, scale, measured):
    """A record of each run; `measured` gives measures and rows, or None for a run that is not done."""
    about = {"seconds": 1.0, "diverged": None, "made": {}}
    return [
        {"key": run.key, "point": dict(run.point), "configuration": configuration, "measures": made[0], "rows": made[1], **about}
        for run, configuration in _runs(type(study), scale, os.environ.get("CTRNN_DATA"))
        if (made := measured(run)) is not None
    ]


def tables_of(study, results):
    return "\n\n".join(filter(None, (table.markdown(results) for table in study.tables)))


def draws(figure, results):
    """The figure, None where there is nothing to draw."""
    try:
        return figure.draw(results)
    except NotEnoughError:
        return None


@dataclass(frozen=True)
class Settings:
    """In place of a training's configuration."""

    seed: int
    size: int = 1

    def to_json(self):
        return {"training": {"seed": self.seed}, "size": self.size}


class Fake(Study):
    """Six runs, whose numbers are a function of their seeds."""

    name = "fake"
    question = "Is 1 < 2?"
    claim = "It is < always."
    source = "Nobody, never."
    resolutions = ("Nothing | was open.",)
    minutes: ClassVar = dict.fromkeys(SCALES, 0.0)
    sizes: ClassVar = dict.fromkeys(SCALES, Sizes(size=1, seeds=6))
    tables = (Table("In words.", by={"run": "key"}, columns={"loss": "loss"}),)
    figures: ClassVar = {"means": Bands("The means.", "seed", "loss", ("kind", {"run": "fake"}), "seed", "loss", data="runs")}

    def points(self, sizes):
        return grid(kind=["run"], seed=range(sizes.seeds))

    def configuration(self, point, sizes):
        return Settings(point["seed"], sizes.size)

    def carry_out(self, run, folder):
        with (folder / "attempts").open("a") as file:
            file.write(f"{os.getpid()}\n")
        self.live(run, folder)
        draw = random.Random(run.configuration.seed)
        return RunMeasures({"loss": draw.random()}, [{"x": draw.random(), "word": "ä"} for _ in range(3)], 0.5)

    def live(self, run, folder):
        pass

    def verdict(self, results):
        if len(results.records) < 3:
            raise NotEnoughError("three runs are needed")
        return ClaimVerdict(
            [ClaimPart("a", True), ClaimPart("b", False)], {"largest": float(results.runs["loss"].max())}, "Some of it <is>."
        )


class Empty(Fake):
    """Without data there is nothing to run."""

    sizes: ClassVar = dict.fromkeys(SCALES, Sizes(size=1, seeds=0))

    def left_out(self):
        return "The data are missing."


class Larger(Fake):
    sizes: ClassVar = dict.fromkeys(SCALES, Sizes(size=2, seeds=6))


class Doubled(Fake):
    def points(self, sizes):
        return 2 * super().points(sizes)


class Troubled(Fake):
    """Of six runs one kills its process the first time, one every time, and one raises."""

    def live(self, run, folder):
        tried = len((folder / "attempts").read_text().split())
        if run.key == "run-1" or (run.key == "run-0" and tried == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if run.key == "run-2":
            raise ZeroDivisionError("the second line\nsays it")


class Slow(Fake):
    """Runs that do not end, and save when they are interrupted."""

    def live(self, run, folder):
        try:
            time.sleep(600)
        finally:
            (folder / "saved").write_text("")


class Stubborn(Fake):
    """Does not come up in a worker."""

    def points(self, sizes):
        if multiprocessing.parent_process() is not None:
            sys.exit(3)
        return super().points(sizes)
