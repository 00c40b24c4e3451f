"""Sizes and rounds of a comparison by part: a smoke test, a small run, the tables in the docs, and what a GPU is for.

A part is called once for each of its entries, with what stands there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.bench.parts.cells import FIELDS, CellSizes
from experiments.bench.parts.drop_in import DropInSizes
from experiments.bench.parts.problems import StiffSizes, delayed, gated, lorenz, own

__all__ = ["OWN", "SCALES", "SWEPT", "Scale"]

Scale = dict[str, Any]
OWN = ("gated, in code of one's own", "minimal gated unit", "LEM", "coRNN")
ALL = tuple(FIELDS)
TSIT5, STIFF = ("tsit5",), ("tsit5", "rodas5p")
SWEPT = ("`integrate`", "torchdiffeq dopri5, `jump_t`")  # in sweeps, and beside a stiff sample
BESIDE_PEERS = (*SWEPT, "torchode tsit5", "diffrax tsit5", "diffrax kvaerno5")
OF_OWN = ("`integrate`", "torchdiffeq dopri8, a call", "torchdiffeq dopri5, `jump_t`")
FEW, MANY = {"time": 10, "batch": 16, "hidden": 32}, {"time": 20, "batch": 32, "hidden": 64}
DOORS = [(CellSizes(300, 32, 10, 64),), (CellSizes(30, 1, 10, 64),)]


def _solves(sizes: tuple[int, int, int], methods: tuple[str, ...], names: tuple[str, ...], fields: tuple[str, ...]) -> list[Any]:
    """The gated field by these methods and peers, and fields that kernels know by their code alone."""
    of_own = [("solves", "held", partial(own, name, *sizes), TSIT5, OF_OWN) for name in fields]
    return [("solves", "held", partial(gated, *sizes), methods, names), *of_own]


def _starts(batch: int) -> list[Any]:
    return [("starts", "starts", partial(lorenz, batch))]


def _delays(*sizes: tuple[int, int, int]) -> list[Any]:
    return [("delays", "delays", partial(delayed, *each), ("dopri5", "tsit5")) for each in sizes]


def _sweeps(what: str, base: Any, *more: Any, **points: tuple[float, ...]) -> list[Any]:
    return [(what, varied, along, base, *more) for varied, along in points.items()]


SMOKE: Scale = {
    "rounds": 1,
    "cells": [(CellSizes(6, 2, 2, 4), ("gated", "LSTM"))],
    "tutorial": [(CellSizes(6, 2, 2, 4),)],
    "doors": [(CellSizes(6, 2, 2, 4),)],
    "drop-in": [(DropInSizes(2, 3, 4),)],
    "live": [(CellSizes(6, 1, 2, 4),)],
    "layers": [(CellSizes(6, 2, 2, 4),)],
    "ensembles": [(CellSizes(6, 2, 2, 4), 2)],
    "noise": [(CellSizes(6, 2, 2, 4),)],
    "solves": _solves((3, 2, 4), TSIT5, (*SWEPT, "torchode tsit5", "diffrax tsit5"), ()),
    "starts": _starts(4),
    "delays": _delays((2, 2, 4)),
    "growth": [
        *_sweeps("cells", CellSizes(6, 2, 2, 4), time=(4, 8)),
        *_sweeps("solves", {"time": 2, "batch": 2, "hidden": 4}, TSIT5, SWEPT, error=(1e-3, 1e-5)),
        *_sweeps("solves", {"time": 1, "batch": 2, "hidden": 4}, TSIT5, SWEPT, stiffness=(1, 10)),
    ],
    "stiff": [(StiffSizes(1, 2, 4, 4.0), SWEPT)],
    "memory": [((20,), (), SWEPT, True)],
    "first use": [(2, ())],
}
SMALL: Scale = {
    "rounds": 3,
    "cells": [(CellSizes(500, 32, 10, 64), ALL), (CellSizes(784, 100, 1, 128), ("gated",))],
    "tutorial": [(CellSizes(100, 16, 3, 64),)],
    "doors": DOORS,
    "drop-in": [(DropInSizes(64, 60, 1000),)],
    "live": [(CellSizes(30, 1, 16, 64),)],
    "layers": [(CellSizes(100, 32, 64, 64),)],
    "ensembles": [(CellSizes(100, 8, 10, 32), 64)],
    "noise": [(CellSizes(100, 32, 10, 64),)],
    "solves": _solves(
        (30, 32, 64),
        ("tsit5", "dopri8"),
        (*SWEPT, "torchdiffeq dopri8, a call", "torchode tsit5", "diffrax tsit5"),
        OWN,
    ),
    "starts": _starts(4096),
    "delays": _delays((10, 32, 64)),
    "growth": [
        *_sweeps("cells", CellSizes(100, 32, 10, 64), time=(50, 100, 200), batch=(4, 32, 256), hidden=(16, 64, 256)),
        *_sweeps("solves", FEW, TSIT5, SWEPT, batch=(4, 16, 64), error=(1e-3, 1e-6, 1e-9)),
        *_sweeps("solves", {"time": 2, "batch": 4, "hidden": 16}, STIFF, SWEPT, stiffness=(1, 10, 100)),
    ],
    "stiff": [(StiffSizes(1, 64, 32), SWEPT)],
    "memory": [((400,), (), SWEPT)],
    "first use": [(1,)],
}
FULL: Scale = {
    "rounds": 5,
    "cells": [(CellSizes(500, 32, 10, 64), ALL), (CellSizes(200, 128, 10, 512), ("plain", "gated", "GRU", "LSTM"))],
    "tutorial": [(CellSizes(100, 16, 3, 64),), (CellSizes(500, 16, 3, 64),)],
    "doors": DOORS,
    "drop-in": SMALL["drop-in"],
    "live": SMALL["live"],
    "layers": [(CellSizes(100, 32, 64, 64),), (CellSizes(400, 32, 128, 128),)],
    "ensembles": [(CellSizes(100, 8, 10, 32), 64), (CellSizes(500, 32, 10, 32), 64)],
    "noise": [(CellSizes(500, 32, 10, 64),)],
    "solves": _solves((100, 32, 64), ("tsit5", "dopri8"), ("`integrate`", "torchdiffeq", "torchode tsit5", "diffrax"), OWN[:1]),
    "starts": _starts(32_768),
    "delays": _delays((10, 32, 64), (10, 512, 64)),
    "growth": [
        *_sweeps("cells", CellSizes(200, 32, 10, 64), time=(50, 200, 800), hidden=(16, 64, 256)),
        *_sweeps("solves", MANY, TSIT5, BESIDE_PEERS, batch=(4, 32, 256), error=(1e-3, 1e-6, 1e-9)),
        *_sweeps("solves", {"time": 1, "batch": 8, "hidden": 16}, STIFF, BESIDE_PEERS, stiffness=(1, 10, 100, 1000)),
    ],
    "stiff": [(StiffSizes(2, 64, 64), BESIDE_PEERS)],
    "memory": [((100, 400), (1000, 10_000), BESIDE_PEERS)],
    "first use": [(2,)],
}
# The tables' sizes and a large one, few sweeps and no long lengths, within five minutes' loan of a GPU.
COMPARED = ("plain", "gated", "GRU", "LSTM", "gated, in code of one's own")
GPU: Scale = {
    **SMALL,
    "cells": [
        (CellSizes(500, 32, 10, 64), COMPARED),
        (CellSizes(784, 100, 1, 128), ("gated", "GRU", "LSTM")),
        (CellSizes(1024, 16, 768, 768), ("gated", "GRU", "LSTM")),
    ],
    "layers": FULL["layers"][-1:],
    "ensembles": FULL["ensembles"][:1],
    "solves": _solves((100, 32, 64), ("tsit5", "dopri8"), (*SWEPT, "torchode tsit5"), OWN[:1]),
    "starts": FULL["starts"],
    "growth": [
        *_sweeps("cells", CellSizes(100, 32, 10, 64), batch=(16, 256, 4096)),
        *_sweeps("solves", FEW, TSIT5, SWEPT, batch=(16, 256, 4096)),
        SMALL["growth"][-1],
    ],
}
SCALES = {"smoke": SMOKE, "small": SMALL, "full": FULL, "gpu": GPU}
