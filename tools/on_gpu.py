"""The parts of tools/on_gpu.sh: `python tools/on_gpu.py PART FOLDER` measures one, `page` writes its rows as Markdown.

tests     the tests of kernels that are for a GPU
cells     fields at the sizes of docs/speed.md, beside torch.nn (cuDNN)
shapes    the same by programs of 1, 2, 4 and 16 samples: what discretize/kernels/triton/shapes.py should choose
wide      256 to 768 units
layers, solves, starts, stiff, noise    as in `ctrnn bench --device cuda --scale gpu`
graphs    a sequence as a CUDA graph, step by step and by its kernel
memory    largest memory of forward and backward
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal
from unittest.mock import patch

import torch

import discretize
from discretize.kernels.triton import kernels
from discretize.kernels.triton.shapes import Shape, many, shape_of
from experiments.bench.declared import PARTS as MEASURED
from experiments.bench.parts.cells import EULER, FIELDS, CellSizes, cell_rows, samples
from experiments.bench.parts.solves import problem_rows
from experiments.bench.rows import BACKWARD, FORWARD, WORKS, Row
from experiments.bench.scales import SCALES, SWEPT
from experiments.bench.session import Job, Session
from experiments.reports import machine
from experiments.reports.spreads import markdown

TOY = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if TOY else "cuda"
SCALE = SCALES["smoke" if TOY else "gpu"]
ROUNDS, PATIENCE = (1, 1.0) if TOY else (5, 3.0)
TORCH = Session(("torch",), DEVICE, ROUNDS)
OTHERS = Session(("torch", "torchdiffeq"), DEVICE, 1 if TOY else 3)
SIZES = [CellSizes(3, 2, 2, 4)] if TOY else [CellSizes(500, 32, 10, 64), CellSizes(784, 100, 1, 128)]
WIDE = [CellSizes(2, 2, 2, 5)] if TOY else [CellSizes(100, 256, hidden, hidden) for hidden in (256, 512, 768)]
COMPARED = ("gated", "GRU", "LSTM", "gated, in code of one's own", "plain")
TESTS = ["-m", "gpu and not slow", *(f"tests/discretize/kernels/test_triton{name}.py" for name in ("_shapes", "", "_solves"))]


def cells() -> Iterator[Row]:
    for sizes in SIZES:
        for name in COMPARED[:1] if TOY else COMPARED:
            yield from _without_steps(cell_rows(TORCH, sizes, [name]))


def shapes() -> Iterator[Row]:
    for sizes in SIZES:
        for name in COMPARED[:1] if TOY else COMPARED[:3]:
            yield from _by_shape(name, sizes, [(rows, None) for rows in (1, 2, 4, 16)] + [(1, 8), (1, 16)])


def wide() -> Iterator[Row]:
    for sizes in WIDE:
        yield from cell_rows(TORCH, sizes, ["gated"])
        yield from _by_shape("gated", sizes, [(rows, None) for rows in ((1,) if TOY else (1, 2, 4, 16))])


def _of_the_bench(part: str, session: Session) -> Iterator[Row]:
    for sizes in SCALE[part]:
        yield from MEASURED[part].rows(session, *sizes)


def layers() -> Iterator[Row]:
    yield from _of_the_bench("layers", TORCH)


def solves() -> Iterator[Row]:
    part, kind, gated, methods, _ = SCALE["solves"][0]
    yield from problem_rows(OTHERS, part, kind, gated, methods[:1], SWEPT)


def starts() -> Iterator[Row]:
    yield from _of_the_bench("starts", OTHERS)


def stiff() -> Iterator[Row]:
    yield from _of_the_bench("stiff", OTHERS)


def noise() -> Iterator[Row]:
    yield from _of_the_bench("noise", TORCH)


def graphs() -> Iterator[Row]:
    """Calls of one shape, captured; a CPU has no graphs."""
    x = samples(SIZES[0], DEVICE).requires_grad_()
    engines: dict[str, Literal["always", False]] = {"kernel": "always", "step by step": False}
    for name, fused in engines.items():
        plain, captured = (discretize.DiscreteRNN(_field("gated", SIZES[0], x), EULER, fused=fused) for _ in range(2))
        captured(x)
        whole = captured if TOY else torch.cuda.make_graphed_callables(captured, (x,))
        jobs = [*_jobs(f"gated, {name}, plain", plain, x), *_jobs(f"gated, {name}, as a graph", whole, x)]
        yield from TORCH.rows("graphs", str(SIZES[0]), jobs, PATIENCE)


def memory() -> Iterator[Row]:
    x = samples(CellSizes(3, 2, 2, 4) if TOY else CellSizes(400, 32, 10, 64), DEVICE).requires_grad_()
    sizes = CellSizes(x.shape[0], x.shape[1], x.shape[2], 4 if TOY else 64)
    for name in ("gated", "GRU"):
        rnn = discretize.DiscreteRNN(_field(name, sizes, x), EULER, fused="always")
        known = {f"{name}, kernel": rnn} | (
            {"torch.nn.GRU": torch.nn.GRU(sizes.inputs, sizes.hidden).to(x)} if name == "GRU" else {}
        )
        for candidate, module in known.items():
            yield Row("memory", str(sizes), candidate, BACKWARD, [_peak(module, x)], "MB")


def _peak(module: Callable[..., Any], x: torch.Tensor) -> float:
    """Largest memory of a call beyond what there was, in MB; a second call, for the first one loads what stays."""
    module(x)[0].sum().backward()
    if TOY:
        return 0.0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    module(x)[0].sum().backward()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _by_shape(name: str, sizes: CellSizes, wanted: list[tuple[int, int | None]]) -> Iterator[Row]:
    """A field by programs of so many samples and warps, None as chosen."""
    x = samples(sizes, DEVICE).requires_grad_()
    rnn = discretize.DiscreteRNN(_field(name, sizes, x), EULER, fused="always")
    rnn(x)
    jobs = list[Job]()
    for rows, warps in wanted:
        for job in _jobs(f"{name}, {rows} samples, {warps or 'chosen'} warps", rnn, x):
            jobs.append(replace(job, run=_shaped(job.run, rows, warps)))
    yield from TORCH.rows("shapes", str(sizes), jobs, PATIENCE)


def _shaped(run: Callable[[], object], rows: int, warps: int | None) -> Callable[[], object]:
    def shape(few: Any, width: int, *rest: Any) -> Shape:
        found = many(width) if rows >= many(width).rows else replace(shape_of(few, width, *rest), few=True, rows=rows)
        if found.few and warps is None:
            found = replace(found, warps=shape_of(few, width, 1, *rest[1:]).warps)
        return replace(found, warps=warps or found.warps)

    def shaped() -> None:
        with patch.object(kernels, "shape_of", shape):
            run()

    return shaped


def _jobs(name: str, module: Callable[..., Any], x: torch.Tensor) -> Iterator[Job]:
    def forward() -> None:
        with torch.no_grad():
            module(x)

    parameters = [p for p in getattr(module, "parameters", list)() if p.requires_grad]
    cotangent = torch.randn_like(module(x)[0])
    yield Job(name, FORWARD, forward)
    yield Job(name, BACKWARD, lambda: torch.autograd.grad(module(x)[0], [x, *parameters], cotangent))


def _field(name: str, sizes: CellSizes, like: torch.Tensor) -> Any:
    modules = {kind: getattr(torch.nn, kind)(sizes.inputs, sizes.hidden) for kind in ("RNN", "GRU", "LSTM")}
    return FIELDS[name][0](sizes, modules).to(like.device)


def _without_steps(rows: Iterator[Row]) -> Iterator[Row]:
    return (row for row in rows if not row.candidate.endswith("steps"))


def tests(folder: Path) -> None:
    chosen = ["tests/discretize/kernels/test_triton_shapes.py", "-k", "rows_follow"] if TOY else TESTS
    device = {} if TOY else {"CTRNN_TEST_DEVICE": "cuda"}
    with open(folder / "tests.txt", "w") as file:
        command = [sys.executable, "-m", "pytest", "-q", "--durations=5", *chosen]
        lines = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | device
        ).stdout
        for line in lines or ():
            print(line, end="", flush=True)
            print(line, end="", file=file, flush=True)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    part.__name__: part for part in (cells, shapes, wide, layers, solves, starts, stiff, graphs, memory, noise)
}


def measured(part: str, folder: Path) -> None:
    """Add a part's rows to the file, one as soon as it is there."""
    torch.set_grad_enabled(True)
    with open(folder / "rows.jsonl", "a") as file, nullcontext() if TOY else torch.cuda.device(0):
        for row in PARTS[part]():
            known = [value for value in row.values if value is not None]
            shown = f"{1000 * median(known):.3g} ms" if known and row.unit == "s" else str(row.values)
            print(f"{row.part}: {row.problem}: {row.candidate}, {row.work}: {shown}", flush=True)
            print(json.dumps(asdict(row) | {"asked": part}, default=str), file=file, flush=True)


def page(folder: Path) -> None:
    """The section for docs/speed.md: a table for each problem, medians of the rounds."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    print("## On a GPU\n")
    print("; ".join(f"{name}: {value}" for name, value in machine.facts(DEVICE).items()))
    if TOY:
        print("\n**Toy sizes, by an interpreter: no times of a GPU.**")
    tests_said = folder / "tests.txt"
    if tests_said.exists():
        print(f"\nTests: {tests_said.read_text().strip().splitlines()[-1].strip('= ')}")
    for problem in {(row["asked"], row["problem"], row["unit"]): None for row in rows}:
        mine = [row for row in rows if (row["asked"], row["problem"], row["unit"]) == problem]
        table = dict[str, dict[str, str]]()
        for row in mine:
            known = [value for value in row["values"] if value is not None]
            scale = 1000 if row["unit"] == "s" else 1
            facts = row["facts"]
            name = row["candidate"] + (f", {facts['variant']} the stiff sample" if "variant" in facts else "")
            table.setdefault(name, {})[row["work"]] = f"{scale * median(known):.3g}" if known else "–"
        unit = "ms" if problem[2] == "s" else problem[2]
        columns = [work for work in WORKS if any(work in cell for cell in table.values())]
        lines = [[name, *(cells.get(work, "–") for work in columns)] for name, cells in table.items()]
        print(f"\n**{problem[0]}: {problem[1]}**, {unit}\n\n{markdown(['', *columns], lines)}")


if __name__ == "__main__":
    name, where = sys.argv[1], Path(sys.argv[2])
    if name == "page":
        page(where)
    elif name == "tests":
        tests(where)
    else:
        measured(name, where)
