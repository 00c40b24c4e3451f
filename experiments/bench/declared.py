"""All parts of a comparison: a title, what is timed, called with what a scale says of the part, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd

from experiments.bench.output import tables
from experiments.bench.parts.cells import cell_rows
from experiments.bench.parts.drop_in import drop_in_rows
from experiments.bench.parts.first_use import first_rows
from experiments.bench.parts.growth import growth_rows
from experiments.bench.parts.live import live_rows
from experiments.bench.parts.memory import memory_rows
from experiments.bench.parts.sequences import door_rows, ensemble_rows, layer_rows, noise_rows, tutorial_rows
from experiments.bench.parts.solves import problem_rows, stiff_rows
from experiments.bench.rows import Row

__all__ = ["PARTS", "BenchPart"]


class BenchPart(NamedTuple):
    """A part of a comparison."""

    title: str
    rows: Callable[..., Iterator[Row]]  # of a session, and of an entry of the scale
    tables: Callable[[pd.DataFrame], Iterator[str]]


PARTS = {
    "cells": BenchPart("Discrete cells", cell_rows, tables.cells),
    "tutorial": BenchPart("The network of a tutorial", tutorial_rows, partial(tables.beside_the_first, "candidate")),
    "doors": BenchPart("The same run by every door", door_rows, tables.beside_the_cheapest),
    "drop-in": BenchPart("Programs of torchdiffeq's users", drop_in_rows, partial(tables.beside_the_first, "module")),
    "live": BenchPart("One sample at a time", live_rows, tables.live),
    "layers": BenchPart("Layers, in both directions, packed", layer_rows, partial(tables.beside_the_first, "module")),
    "ensembles": BenchPart("Many networks", ensemble_rows, tables.ensembles),
    "noise": BenchPart("Noise", noise_rows, partial(tables.beside_the_first, "candidate")),
    "solves": BenchPart("Exact solves", problem_rows, tables.solves),
    "starts": BenchPart("One equation from many starts", problem_rows, tables.solves),
    "delays": BenchPart("A network with a delay", problem_rows, tables.solves),
    "growth": BenchPart("How cost grows", growth_rows, tables.growth),
    "stiff": BenchPart("One stiff sample", stiff_rows, tables.stiff),
    "memory": BenchPart("Peak memory", memory_rows, tables.memory),
    "first use": BenchPart("First use", first_rows, tables.first_use),
}
