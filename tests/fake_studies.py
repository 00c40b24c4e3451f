"""Studies of milliseconds, light to import: the workers in the tests of the runner import them from here."""

import multiprocessing
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import ClassVar

from experiments.studies.records import NotEnoughError, markdown, measure_of, spreads
from experiments.studies.study import SCALES, Carried, Run, Study, Verdict


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
    captions: ClassVar = {"means": "The means."}

    def runs(self, scale):
        return [Run(f"run-{seed}", Settings(seed)) for seed in range(6)]

    def carry_out(self, run, folder, progress=None):
        with (folder / "attempts").open("a") as file:
            file.write(f"{os.getpid()}\n")
        self.live(run, folder)
        draw = random.Random(run.configuration.seed)
        return Carried({"loss": draw.random()}, [{"x": draw.random(), "word": "ä"} for _ in range(3)], 0.5)

    def live(self, run, folder):
        pass

    def verdict(self, records):
        if len(records) < 3:
            raise NotEnoughError("three runs are needed")
        return Verdict("partly", "Some of it <is>.", {"largest": max(measure_of(record, "loss") for record in records)})

    def table(self, records):
        return "In words.\n\n" + markdown(["run", "loss"], [(record["key"], measure_of(record, "loss")) for record in records])

    def figures(self, records):
        from experiments.reports.bands import bands  # noqa: PLC0415

        losses = spreads(records, ["training.seed"], "loss")
        return {"means": bands({"all": {"fake": {float(seed): value for (seed,), value in losses.items()}}}, "seed", "loss")}


class Empty(Fake):
    """Without data there is nothing to run."""

    def runs(self, scale):
        return []

    def left_out(self):
        return "The data are missing."


class Larger(Fake):
    def runs(self, scale):
        return [replace(run, configuration=replace(run.configuration, size=2)) for run in super().runs(scale)]


class Troubled(Fake):
    """Of six runs one kills its process the first time, one every time, and one raises."""

    def live(self, run, folder):
        tried = len((folder / "attempts").read_text().split())
        if run.key == "run-1" or (run.key == "run-0" and tried == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if run.key == "run-2":
            raise ZeroDivisionError("the second line\nsays it")


class Slow(Fake):
    """Runs that do not end, and save when they are told to."""

    def live(self, run, folder):
        try:
            time.sleep(600)
        finally:
            (folder / "saved").write_text("")


class Stubborn(Fake):
    """Does not come up in a worker."""

    def runs(self, scale):
        if multiprocessing.parent_process() is not None:
            sys.exit(3)
        return super().runs(scale)
