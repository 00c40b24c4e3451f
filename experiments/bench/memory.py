r"""Peak memory of forward + backward, each in a process of its own: how far it grew over what was there before the call.

    growth = peak during the call - resident before it

On Linux the peak is VmHWM of /proc/self/status, put back to what is resident before the call. Elsewhere it is ru_maxrss of
getrusage, which cannot be put back; on Linux that one begins with the parent's, and would hide what is smaller. On a GPU it
is torch's own count. All has run before on a few samples, so that libraries and kernels are loaded.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import torch

import ctrnn
from discretize import Checkpointed
from experiments.bench import cells
from experiments.bench.cells import CellSizes
from experiments.bench.children import asked
from experiments.bench.peers.engines import COMPILED, STEPS
from experiments.bench.peers.names import absent
from experiments.bench.peers.registry import OURS, of_peer
from experiments.bench.rows import BACKWARD, Row
from experiments.bench.solves import Candidate, Problem, checked, ours
from experiments.interruption import checkpoint

__all__ = ["MEMORY", "cell_growth_in_bytes", "memory_rows", "solve_growth_in_bytes"]

HERE = "experiments.bench.memory"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MEMORY = 2**24  # bytes, for `integrate(..., gradient=Checkpointed(...))`
METHOD = "tsit5"
FEW, LONG = 3, 1000  # samples: to begin with, and as many as are gone through one by one
BATCH, INPUTS, CELL_HIDDEN, SOLVE_HIDDEN = 32, 10, 64, 32
PEER_SOLVES = {"torchdiffeq": "torchdiffeq dopri5, `jump_t`", "torchode": "torchode tsit5", "diffrax": "diffrax tsit5"}


def memory_rows(
    lengths: Sequence[int], long: Sequence[int], peers: Sequence[str], *, device: str, threads: int,
    skip: Callable[[str, str], None], tell: Callable[[str], None], few: bool = False, begin: tuple[str, ...] = ("",),
) -> Iterator[Row]:  # fmt: skip
    """Cells and solves over `lengths`; over `long` ones ours, where they are compiled, or bounded and not too long. `begin`:
    how names of peers' solves may begin; `few`: one solve, nothing else."""
    common = {"device": device, "threads": threads}
    with torch.no_grad():
        x = cells.samples(CellSizes(2, 2, INPUTS, CELL_HIDDEN), device)
        unrolled = cells.candidates(CellSizes(2, 2, INPUTS, CELL_HIDDEN), x, ("gated",), peers, skip=skip)
        engines = [engine for engine in (COMPILED, STEPS) if _engine_there(engine, device, skip)]
    names = [candidate.name for candidate in unrolled]
    solves = [(OURS, engine, bounded) for engine in engines for bounded in (False, True)]
    solves += [
        (peer, name, False) for peer, name in PEER_SOLVES.items() if peer in peers and not absent(peer) and name.startswith(begin)
    ]
    if few:
        names, solves = [], solves[:1]
    for time in lengths:
        for name in names:
            problem = f"cell, T {time}, B {BATCH}, H {CELL_HIDDEN}"
            yield from _row(problem, name, time, "cell_growth_in_bytes", {"name": name, **common}, skip, tell)
    for time in (*lengths, *long):
        for peer, name, bounded in solves:
            if time in lengths or name == COMPILED or (bounded and time <= LONG):
                problem = f"solve, T {time}, B {BATCH}, H {SOLVE_HIDDEN}"
                mine = f"`integrate`, {METHOD}, {name}" + (f", Checkpointed({MEMORY >> 20} MiB)" if bounded else "")
                arguments = {"peer": peer, "name": name, "bounded": bounded, **common}
                label = mine if peer == OURS else name
                yield from _row(problem, label, time, "solve_growth_in_bytes", arguments, skip, tell)


def _engine_there(engine: str, device: str, skip: Callable[[str, str], None]) -> bool:
    return checked(_solve(OURS, engine, False), Problem.gated(1, 1, 2, 2, device), 1.0, "memory", skip) is not None


def _row(
    problem: str, name: str, time: int, function: str, arguments: dict, skip: Callable[[str, str], None],
    tell: Callable[[str], None],
) -> Iterator[Row]:  # fmt: skip
    checkpoint()
    tell(f"memory: {problem}: {name}")
    try:
        grown = asked(HERE, function, {"time": time, **arguments})
    except RuntimeError as error:
        skip(f"memory: {problem}: {name}", str(error))
        return
    kind = problem.partition(",")[0]
    yield Row("memory", problem, name, BACKWARD, [grown], "bytes", {"kind": kind, "x": time})


def cell_growth_in_bytes(name: str, time: int, device: str, threads: int) -> int:
    """Of a cell by its name, in this process."""
    torch.set_num_threads(threads)

    def run(length: int) -> Callable[[], object]:
        sizes = CellSizes(length, BATCH, INPUTS, CELL_HIDDEN)
        x = cells.samples(sizes, device)
        reasons: dict[str, str] = {}
        found = cells.candidates(sizes, x, ("gated",), skip=reasons.__setitem__)
        chosen = next((candidate for candidate in found if candidate.name == name), None)
        if chosen is None:
            raise RuntimeError("; ".join(reasons.values()) or f"there is no {name}")
        cotangent = torch.randn(length, BATCH, CELL_HIDDEN, device=device)
        return lambda: chosen.backward(x, cotangent)

    run(FEW)()
    return _peak(run(time), device)


def solve_growth_in_bytes(peer: str, name: str, bounded: bool, time: int, device: str, threads: int) -> int:
    """Of a solve by whose it is and its name, or the engine of ours, in this process; at the tolerance it needs for 1e-6."""
    torch.set_num_threads(threads)
    chosen = _solve(peer, name, bounded)

    def run(length: int) -> Callable[[], object]:
        generator = torch.Generator().manual_seed(0)
        field = ctrnn.gated(INPUTS, SOLVE_HIDDEN, dtype=torch.float64, generator=generator).to(device)
        xs = torch.randn(length, BATCH, INPUTS, dtype=torch.float64, generator=generator).to(device)
        h0 = field.initial_state(BATCH)
        solver = chosen.ready(Problem("memory", field, xs, h0, h0[None]))
        if length == FEW and (wrong := solver.states(chosen.expected).wrong):
            raise RuntimeError(wrong)
        solver.prepare()
        return lambda: solver.gradients(chosen.expected)

    run(FEW)()
    return _peak(run(time), device)


def _solve(peer: str, name: str, bounded: bool) -> Candidate:
    if peer == OURS:
        settings = {"gradient": Checkpointed(MEMORY)} if bounded else {}
        return ours(METHOD, name == COMPILED, **settings)
    return next(candidate for candidate in of_peer(peer) if candidate.name.startswith(name))


def _peak(run: Callable[[], object], device: str) -> int:
    """Bytes by which this process, or the GPU, grows while that runs."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with suppress(OSError):
        CLEAR.write_text("5")
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """A line of /proc/self/status, in bytes; without one, the peak so far for both."""
    with suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
