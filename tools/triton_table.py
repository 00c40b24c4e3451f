"""Compile kernels for sequences for an H100 or H200 (sm_90), without one, and write down what Triton made of them.

    python tools/triton_table.py                    docs/tables/triton-steps/rows.csv, and the table of docs/kernels.md
    python tools/triton_table.py --page             that table alone, of what the files say; before.csv is of an older writer
    python tools/triton_table.py --fields GRU --hidden 128 --rows 1,2,4 --warps 8,16 --out -
    python tools/triton_table.py --methods dopri5,rodas5p --fields gated,GRU --hidden 4,32      of solves, to stdout

Needs torch, triton (pip install triton) and this project; no GPU. For each pass: registers of a thread, bytes spilled to memory
(stored and loaded), shared memory of a program, and, of a step, instructions, barriers, products on tensor cores, and reads and
writes of shared and of spilled memory. A loop inside of a step is counted as often as it is run. Of solves, whose loops end when
samples are done, these are of the whole kernel, each once; and `seconds` of a processor to compile it. Instructions are no times.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import torch

import ctrnn
from discretize import Euler
from discretize.kernels.cpp.methods import method_of
from discretize.kernels.record.program import FlowModule, InputJVP, StateJVP, StepModule, program_of
from discretize.kernels.triton import adaptive, kernels, writing
from discretize.kernels.triton.matrices import units_of
from discretize.kernels.triton.methods import TRITON
from discretize.kernels.triton.shapes import Shape, many, shape_of
from discretize.kernels.triton.solve_writing import SolveText, solve_text, solve_writer, with_method
from discretize.kernels.triton.solves import recorder
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.tableaus import EmbeddedMethod
from experiments.bench.parts.cells import OwnGated
from experiments.reports.marked import fill
from experiments.reports.spreads import markdown

FIELDS: dict[str, Callable[[int, int], ctrnn.VectorField]] = {
    "plain": ctrnn.plain,
    "gated": ctrnn.gated,
    "GRU": ctrnn.gru,
    "LSTM": ctrnn.lstm,
    "own": OwnGated,
}
TABLE = Path(__file__).parent.parent / "docs" / "tables" / "triton-steps" / "rows.csv"
PAGE = TABLE.parents[2] / "kernels.md"
INSTRUCTION = r"\s+/\*[0-9a-f]+\*/"
COUNTED = {
    "barriers": r"\bBAR\b",
    "tensor core products": "HMMA|HGMMA",
    "shared accesses": "LDS|STS|LDSM",
    "spilled accesses": "LDL|STL",
}
PATTERNS = {"instructions": "", **COUNTED}
COLUMNS = ["field", "hidden", "pass", "samples", "warps", "registers", "spilled", "shared", *PATTERNS]
COLUMNS_OF_SOLVES = ["method", *COLUMNS, "seconds"]
INPUTS, BATCH, MULTIPROCESSORS = 10, 32, 132


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--methods", default="", help="of solves along straight lines; without it sequences of Euler's steps")
    parser.add_argument("--fields", default="", help="of " + ", ".join(FIELDS) + "; without it all, of solves gated")
    parser.add_argument("--hidden", default="", help="units; without it 64,128,256, of solves 4,16,32")
    parser.add_argument("--rows", default="", help="samples of a program of sequences; without it as chosen at batch 32")
    parser.add_argument("--warps", default="", help="of a program; without it as chosen")
    parser.add_argument("--page", action="store_true", help="compile nothing")
    parser.add_argument("--out", default="", help="a CSV file, - is stdout; without it the table's, of solves stdout")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # else `seconds` are those of reading what was compiled before
    torch.set_default_dtype(torch.float32)
    out = given.out or ("-" if given.methods else str(TABLE))
    columns, rows = (COLUMNS_OF_SOLVES, all_solves) if given.methods else (COLUMNS, all_sequences)
    if not given.page:
        with ExitStack() as stack:
            file = sys.stdout if out == "-" else stack.enter_context(open(out, "w", newline=""))
            stack.enter_context(redirect_stdout(sys.stderr))
            writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            for row in rows(given):
                writer.writerow(row)
                file.flush()
    if given.page or Path(out) == TABLE:
        PAGE.write_text(fill(PAGE.read_text(), "triton", {"steps": steps()}))


def all_sequences(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for field, hidden in product(given.fields.split(",") if given.fields else FIELDS, _numbers(given.hidden or "64,128,256")):
        yield from rows_of(field, hidden, _numbers(given.rows), _numbers(given.warps))


def all_solves(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    fields, units = (given.fields or "gated").split(","), _numbers(given.hidden or "4,16,32")
    for method, field, hidden in product(given.methods.split(","), fields, units):
        yield from rows_of_solves(method, field, hidden, _numbers(given.warps))


def steps() -> str:
    """The table of docs/kernels.md, of both files' rows."""
    before, now = ({tuple(row[name] for name in COLUMNS[:3]): row for row in _read(name)} for name in ("before.csv", TABLE.name))
    head = ["", "units", "pass", "before: registers", "spilled", "instructions", "barriers"]
    head += ["now: samples, warps", "registers", "spilled", "instructions", "barriers"]
    shown = ("registers", "spilled", "instructions", "barriers")
    lines = [
        [
            *key,
            *(before.get(key, {}).get(name, "–") for name in shown),
            f"{row['samples']}, {row['warps']}",
            *(row[name] for name in shown),
        ]
        for key, row in now.items()
    ]
    return markdown(head, lines)


def _read(name: str) -> list[dict[str, str]]:
    with open(TABLE.parent / name, newline="") as file:
        return [row | {"spilled": row["spilled"].partition("/")[0]} for row in csv.DictReader(file)]


def rows_of(field: str, hidden: int, rows: list[int], warps: list[int]) -> Iterator[dict[str, Any]]:
    """Both passes of a field; rows, warps: of programs, none as they are chosen."""
    module = StepModule(FIELDS[field](INPUTS, hidden), Euler())
    text = program_of(module, {"x": True, "dt": False, "stored": False}, torch.float32, kernels.writer(torch.float32)).written
    for name, needs in (("forward", text.forward), ("backward", text.backward)):
        chosen = shape_of(needs[True], hidden, BATCH, 4, MULTIPROCESSORS)
        for samples in rows or [chosen.rows]:
            few = samples < many(hidden).rows
            for count in warps or [chosen.warps if few else many(hidden).warps]:
                about = {"field": field, "hidden": hidden, "pass": name, "samples": samples, "warps": count}
                yield about | step_of(text.text, name + ("_few" if few else ""), Shape(few, samples, count))


def rows_of_solves(method: str, field: str, hidden: int, warps: list[int]) -> Iterator[dict[str, Any]]:
    """Both passes of a field and a method; warps: of programs, none as they are chosen."""
    text = solve_kernels(FIELDS[field](INPUTS, hidden), ADAPTIVE_METHODS[method])
    chosen = many(max(text.columns, units_of(text.state) ** 2 if text.implicit else text.state))
    for name, count in product(("forward", "backward"), warps or [chosen.warps]):
        about = {"method": method, "field": field, "hidden": hidden, "pass": name, "samples": chosen.rows, "warps": count}
        constants = {"TERMS": 2, "CHEBYSHEV": False, "SPEEDS": 0}
        found, code = compiled(text.text, name, Shape(False, chosen.rows, count), constants, adaptive.ARGUMENT_TYPES)
        lines = [line for line in code.splitlines() if re.match(INSTRUCTION, line)]
        counts = {key: sum(bool(re.search(pattern, line)) for line in lines) for key, pattern in PATTERNS.items()}
        yield about | found | counts


def solve_kernels(field: ctrnn.VectorField, method: EmbeddedMethod) -> SolveText:
    """The kernels of solves along straight lines."""
    dtype, columns = torch.float32, field.project(torch.zeros(1, INPUTS)).shape[-1]
    if method.jacobians:
        kinds = enumerate((FlowModule, StateJVP, InputJVP))
        text = solve_text([program_of(kind(field, columns), {"x": True}, dtype, recorder(k)).written for k, kind in kinds], dtype)
    else:
        text = program_of(FlowModule(field, columns), {"x": True}, dtype, solve_writer(dtype)).written
    written = method_of(TRITON, method, field.state_size, dtype, wait=True)
    if isinstance(written, str):
        raise RuntimeError(written)
    return with_method(text, written.kernel.text, written.calls.end or 0, written.kernel.reads_start)


def seconds() -> float:
    """Of a processor, of this process and of those that it has started."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def step_of(text: str, name: str, shape: Shape) -> dict[str, Any]:
    """What is told of a kernel of sequences, its instructions of a step."""
    constants = {"PRECISION": "tf32x3", "RESTS": False, "KEEP": True}
    found, code = compiled(text, name, shape, constants, writing.ARGUMENT_TYPES)
    inside = text[text.index(f"def {name}(") :].partition("@triton.jit")[0]
    trips = [-(-int(end) // int(by)) for end, by in re.findall(r"for k in range\(0, (\d+), (\d+)\)", inside)]
    return found | counted(code, trips)


def compiled(
    text: str, name: str, shape: Shape, constants: Mapping[str, object], kinds: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    """What Triton's compiler and ptxas tell of a kernel, and its instructions by nvdisasm."""
    import triton  # noqa: PLC0415 - nobody else needs it here
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource, compile  # noqa: PLC0415

    kernel = getattr(kernels._loaded(text), name)
    held: dict[str, object] = {"ROWS": shape.rows, "PRECISION": "tf32x3", **constants}
    types = {**kinds, **dict.fromkeys(held, "constexpr")}
    signature = {argument: types.get(argument, "*fp32") for argument in kernel.arg_names}
    aligned = {(k,): [["tt.divisibility", 16]] for k, kind in enumerate(signature.values()) if kind.startswith("*")}
    source = ASTSource(kernel, signature, {key: value for key, value in held.items() if key in signature}, aligned)
    begin = seconds()
    made = compile(source, target=GPUTarget("cuda", 90, 32), options=shape.options)
    spent = round(seconds() - begin, 1)
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        ptx.write_text(made.asm["ptx"])
        newer = tools / "ptxas-blackwell"  # where there are two, Triton's text may be too new for the other one
        words = _run(newer if newer.exists() else tools / "ptxas", "-v", "--gpu-name", "sm_90a", ptx, "-o", cubin)
        code = _run(tools / "nvdisasm", "-c", cubin)
    registers, spilled = re.search(r"Used (\d+) registers", words), re.search(r"(\d+) bytes spill stores, (\d+)", words)
    if registers is None or spilled is None:
        raise RuntimeError(words)
    found = {"registers": registers[1], "spilled": f"{spilled[1]}/{spilled[2]}", "shared": made.metadata.shared}
    return found | {"seconds": spent}, code


def counted(code: str, trips: list[int]) -> dict[str, int]:
    """Instructions of the loop over time, one step a sample; trips: of loops inside of a step, where they are still loops."""
    labels, lines, loops = dict[str, int](), list[str](), list[tuple[int, int]]()
    for line in code.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif re.match(INSTRUCTION, line):
            to = re.search(r"BRA[^`]*`\((\.L_x_\d+)\)", line)
            if to and to[1] in labels and len(lines) - labels[to[1]] > 3:  # not the trap at a kernel's end
                loops.append((labels[to[1]], len(lines) + 1))
            lines.append(line)
    first, last = max(loops, key=lambda loop: loop[1] - loop[0])
    inside = {loop: sum(a <= loop[0] and loop[1] <= b for a, b in loops) for loop in loops}  # itself, a step's, and over time
    inner = sorted(loop for loop, depth in inside.items() if depth > 2)
    times = [1] * len(lines)
    if len(inner) == len(trips):  # else the compiler has written them out
        for (a, b), trip in zip(inner, trips, strict=True):
            times[a:b] = [trip] * (b - a)
    numbers = range(first, last)
    return {name: sum(times[k] for k in numbers if re.search(pattern, lines[k])) for name, pattern in PATTERNS.items()}


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def _numbers(words: str) -> list[int]:
    return [int(word) for word in words.split(",") if word]


if __name__ == "__main__":
    main()
