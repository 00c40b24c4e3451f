"""Sizes, sweeps and rounds of a comparison: a smoke test, a small run, and the tables in the docs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from experiments.bench.parts.cells import FIELDS, CellSizes
from experiments.bench.parts.drop_in import DropInSizes
from experiments.bench.parts.growth import Sweep
from experiments.bench.parts.problems import StiffSizes

__all__ = ["SCALES", "Scale"]


OWN = ("gated, in code of one's own", "minimal gated unit", "LEM", "coRNN")


@dataclass(frozen=True)
class Scale:
    """Cells: sizes and the fields compared there; layers, ensembles, noise, tutorial, doors, drop_in, live: sizes; a solve: time,
    batch, hidden; sweeps around their bases; the batch with a stiff sample; lengths for memory, and long ones for our solves
    alone."""

    rounds: int
    cells: tuple[tuple[CellSizes, tuple[str, ...]], ...]
    layers: tuple[CellSizes, ...]
    ensembles: tuple[CellSizes, ...]
    noise: tuple[CellSizes, ...]
    tutorial: tuple[CellSizes, ...]
    doors: tuple[CellSizes, ...]
    drop_in: tuple[DropInSizes, ...]
    live: tuple[CellSizes, ...]
    solve: tuple[int, int, int]
    methods: tuple[str, ...]
    peer_solves: tuple[str, ...]  # how their names begin
    starts: int  # of Lorenz's equation
    delayed: tuple[tuple[int, int, int], ...]  # time, batch, hidden
    cell_base: CellSizes
    cell_sweeps: tuple[Sweep, ...]
    solve_base: dict[str, int]
    solve_sweeps: tuple[Sweep, ...]
    stiff_base: dict[str, int]
    stiffness: Sweep
    stiff: StiffSizes
    lengths: tuple[int, ...]
    long: tuple[int, ...]
    swept: tuple[str, ...] = ("`integrate`", "torchdiffeq dopri5, `jump_t`")  # in sweeps, and beside a stiff sample
    first_calls: tuple[str, ...] = ("cell", "solve")
    first_rounds: int = 2
    own_solves: tuple[str, ...] = OWN  # fields that kernels know by their code alone
    networks: int = 64  # of an ensemble
    few: bool = False  # no more than one measurement of memory: each takes a process and seconds


ALL = tuple(FIELDS)
SMOKE = Scale(
    rounds=1,
    cells=((CellSizes(6, 2, 2, 4), ("gated", "LSTM")),),
    layers=(CellSizes(6, 2, 2, 4),),
    ensembles=(CellSizes(6, 2, 2, 4),),
    noise=(CellSizes(6, 2, 2, 4),),
    tutorial=(CellSizes(6, 2, 2, 4),),
    doors=(CellSizes(6, 2, 2, 4),),
    drop_in=(DropInSizes(2, 3, 4),),
    live=(CellSizes(6, 1, 2, 4),),
    networks=2,
    solve=(3, 2, 4),
    methods=("tsit5",),
    peer_solves=("torchdiffeq dopri5, `jump_t`", "torchode tsit5", "diffrax tsit5"),
    starts=4,
    delayed=((2, 2, 4),),
    cell_base=CellSizes(6, 2, 2, 4),
    cell_sweeps=(Sweep("time", (4, 8)),),
    solve_base={"time": 2, "batch": 2, "hidden": 4},
    solve_sweeps=(Sweep("error", (1e-3, 1e-5)),),
    stiff_base={"time": 1, "batch": 2, "hidden": 4},
    stiffness=Sweep("stiffness", (1, 10)),
    stiff=StiffSizes(1, 2, 4, 4.0),
    lengths=(20,),
    long=(),
    first_calls=(),
    few=True,
    own_solves=(),
)
SMALL = Scale(
    rounds=3,
    cells=((CellSizes(500, 32, 10, 64), ALL), (CellSizes(784, 100, 1, 128), ("gated",))),
    layers=(CellSizes(100, 32, 64, 64),),
    ensembles=(CellSizes(100, 8, 10, 32),),
    noise=(CellSizes(100, 32, 10, 64),),
    tutorial=(CellSizes(100, 16, 3, 64),),
    doors=(CellSizes(300, 32, 10, 64), CellSizes(30, 1, 10, 64)),
    drop_in=(DropInSizes(64, 60, 1000),),
    live=(CellSizes(30, 1, 16, 64),),
    solve=(30, 32, 64),
    methods=("tsit5", "dopri8"),
    peer_solves=("torchdiffeq dopri5, `jump_t`", "torchdiffeq dopri8, a call", "torchode tsit5", "diffrax tsit5"),
    starts=4096,
    delayed=((10, 32, 64),),
    cell_base=CellSizes(100, 32, 10, 64),
    cell_sweeps=(Sweep("time", (50, 100, 200)), Sweep("batch", (4, 32, 256)), Sweep("hidden", (16, 64, 256))),
    solve_base={"time": 10, "batch": 16, "hidden": 32},
    solve_sweeps=(Sweep("batch", (4, 16, 64)), Sweep("error", (1e-3, 1e-6, 1e-9))),
    stiff_base={"time": 2, "batch": 4, "hidden": 16},
    stiffness=Sweep("stiffness", (1, 10, 100)),
    stiff=StiffSizes(1, 64, 32),
    lengths=(400,),
    long=(),
    first_rounds=1,
)
FULL = Scale(
    rounds=5,
    cells=((CellSizes(500, 32, 10, 64), ALL), (CellSizes(200, 128, 10, 512), ("plain", "gated", "GRU", "LSTM"))),
    layers=(CellSizes(100, 32, 64, 64), CellSizes(400, 32, 128, 128)),
    ensembles=(CellSizes(100, 8, 10, 32), CellSizes(500, 32, 10, 32)),
    noise=(CellSizes(500, 32, 10, 64),),
    tutorial=(CellSizes(100, 16, 3, 64), CellSizes(500, 16, 3, 64)),
    doors=(CellSizes(300, 32, 10, 64), CellSizes(30, 1, 10, 64)),
    drop_in=(DropInSizes(64, 60, 1000),),
    live=(CellSizes(30, 1, 16, 64),),
    solve=(100, 32, 64),
    methods=("tsit5", "dopri8"),
    peer_solves=("torchdiffeq", "torchode tsit5", "diffrax"),
    starts=32_768,
    delayed=((10, 32, 64), (10, 512, 64)),
    cell_base=CellSizes(200, 32, 10, 64),
    cell_sweeps=(Sweep("time", (50, 200, 800)), Sweep("hidden", (16, 64, 256))),
    solve_base={"time": 20, "batch": 32, "hidden": 64},
    solve_sweeps=(Sweep("batch", (4, 32, 256)), Sweep("error", (1e-3, 1e-6, 1e-9))),
    stiff_base={"time": 1, "batch": 8, "hidden": 16},
    stiffness=Sweep("stiffness", (1, 10, 100, 1000)),
    stiff=StiffSizes(2, 64, 64),
    lengths=(100, 400),
    long=(1000, 10_000),
    swept=("`integrate`", "torchdiffeq dopri5, `jump_t`", "torchode tsit5", "diffrax tsit5", "diffrax kvaerno5"),
    own_solves=OWN[:1],
)
# What a GPU is for: the tables' sizes and a large one, few sweeps and no long lengths, within five minutes' loan of one.
COMPARED = ("plain", "gated", "GRU", "LSTM", "gated, in code of one's own")
GPU = replace(
    SMALL,
    cells=(
        (FULL.cells[0][0], COMPARED),
        (SMALL.cells[1][0], ("gated", "GRU", "LSTM")),
        (CellSizes(1024, 16, 768, 768), ("gated", "GRU", "LSTM")),
    ),
    layers=FULL.layers[-1:],
    ensembles=FULL.ensembles[:1],
    noise=SMALL.noise,
    solve=FULL.solve,
    methods=("tsit5", "dopri8"),
    starts=FULL.starts,
    peer_solves=("torchdiffeq dopri5, `jump_t`", "torchode tsit5"),
    own_solves=("gated, in code of one's own",),
    cell_sweeps=(Sweep("batch", (16, 256, 4096)),),
    solve_sweeps=(Sweep("batch", (16, 256, 4096)),),
)
SCALES = {"smoke": SMOKE, "small": SMALL, "full": FULL, "gpu": GPU}
