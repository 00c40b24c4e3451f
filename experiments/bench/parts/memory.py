r"""Peak memory of forward + backward, each in a process of its own: growth over what was there before the call.

    growth = peak during the call - resident before it

On Linux the peak is VmHWM of /proc/self/status, put back to what is resident before the call. Elsewhere it is ru_maxrss of
getrusage, which cannot be put back; on Linux that one begins with the parent's, and would hide what is smaller. On a GPU it
is torch's own count. All has run before on a few samples, so that libraries and kernels are loaded.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import ctrnn
from discretize import Checkpointed
from experiments.bench.children import call_in_process
from experiments.bench.options import PEERS, absent
from experiments.bench.parts.cells import CellSizes, cell_candidates, samples
from experiments.bench.parts.problems import Problem
from experiments.bench.parts.solves import SolveCandidate, ours, tuned_solvers
from experiments.bench.peers.registry import OURS, of_peer
from experiments.bench.rows import BACKWARD, Row
from experiments.bench.session import COMPILED, STEPS, Session
from experiments.interruption import checkpoint

__all__ = ["cell_growth_in_bytes", "memory_rows", "peak_growth", "solve_growth_in_bytes"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MEMORY = 2**24  # bytes, for `integrate(..., gradient=Checkpointed(...))`
METHOD = "tsit5"
FEW, LONG = 3, 1000  # samples: to begin with, and the most that are solved sample by sample
BATCH, INPUTS, CELL_HIDDEN, SOLVE_HIDDEN = 32, 10, 64, 32
PEER_SOLVES = {"torchdiffeq": "torchdiffeq dopri5, `jump_t`", "torchode": "torchode tsit5", "diffrax": "diffrax tsit5"}


def memory_rows(
    session: Session, lengths: Sequence[int], long: Sequence[int], few: bool = False, peer_solves: tuple[str, ...] = ("",)
) -> Iterator[Row]:
    """Measure cells and solves over `lengths`, and over `long` ones ours, where they are compiled, or bounded and not too long.

    `peer_solves`: how names of peers' solves may begin; `few`: one solve, nothing else.
    """
    cells, solves = _cell_names(session), _solves(session, peer_solves)
    if few:
        cells, solves = [], solves[:1]
    for time in lengths:
        for name in cells:
            yield from _row(session, "cell", time, CELL_HIDDEN, name, {"name": name})
    for time in (*lengths, *long):
        for label, solve in solves:
            if time in lengths or solve["name"] == COMPILED or (solve["bounded"] and time <= LONG):
                yield from _row(session, "solve", time, SOLVE_HIDDEN, label, solve)


def _cell_names(session: Session) -> list[str]:
    sizes = CellSizes(2, 2, INPUTS, CELL_HIDDEN)
    return [candidate.name for candidate in cell_candidates(session, sizes, samples(sizes, session.device), ("gated",))]


def _solves(session: Session, peer_solves: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Labels, and arguments of `solve_growth_in_bytes`."""
    problem, found = Problem.gated(1, 1, 2, 2, session.device), []
    for engine in (COMPILED, STEPS):
        if list(tuned_solvers(session, "memory", problem, [_candidate(OURS, engine, False)], 1.0)):
            label = f"`integrate`, {METHOD}, {engine}"
            found.append((label, {"peer": OURS, "name": engine, "bounded": False}))
            found.append((f"{label}, Checkpointed({MEMORY >> 20} MiB)", {"peer": OURS, "name": engine, "bounded": True}))
    for peer, name in PEER_SOLVES.items():
        if peer in session.peers and not absent(peer) and name.startswith(peer_solves):
            found.append((name, {"peer": peer, "name": name, "bounded": False}))
    return found


def _row(session: Session, kind: str, time: int, hidden: int, label: str, given: Mapping[str, object]) -> Iterator[Row]:
    """Growth in bytes, from a process of its own; nothing where that fails."""
    checkpoint()
    problem = f"{kind}, T {time}, B {BATCH}, H {hidden}"
    session.show(f"memory: {problem}: {label}")
    arguments = {"time": time, **given, "device": session.device, "threads": torch.get_num_threads()}
    try:
        growth = call_in_process(__name__, f"{kind}_growth_in_bytes", arguments)
    except RuntimeError as error:
        session.skip(f"memory: {problem}: {label}", str(error))
        return
    yield Row("memory", problem, label, BACKWARD, [growth], "bytes", {"kind": kind, "x": time})


def cell_growth_in_bytes(name: str, time: int, device: str, threads: int) -> int:
    """Measure the growth of this process during a cell's forward + backward, by the cell's name."""
    torch.set_num_threads(threads)

    def call(length: int) -> Callable[[], object]:
        session = Session(PEERS, device)
        sizes = CellSizes(length, BATCH, INPUTS, CELL_HIDDEN)
        x = samples(sizes, device)
        chosen = {candidate.name: candidate for candidate in cell_candidates(session, sizes, x, ("gated",))}.get(name)
        if chosen is None:
            raise RuntimeError("; ".join(session.skipped.values()) or f"there is no {name}")
        cotangent = torch.randn(length, BATCH, CELL_HIDDEN, device=device)
        return lambda: chosen.backward(x, cotangent)

    call(FEW)()
    return peak_growth(call(time), device)


def solve_growth_in_bytes(peer: str, name: str, bounded: bool, time: int, device: str, threads: int) -> int:
    """Measure the growth of this process during a solve's forward + backward, at the tolerance it needs for 1e-6.

    `name`: the engine of ours, or how a peer's solve is named; `bounded`: with checkpointing.
    """
    torch.set_num_threads(threads)
    chosen = _candidate(peer, name, bounded)

    def call(length: int) -> Callable[[], object]:
        generator = torch.Generator().manual_seed(0)
        field = ctrnn.gated(INPUTS, SOLVE_HIDDEN, dtype=torch.float64, generator=generator).to(device)
        xs = torch.randn(length, BATCH, INPUTS, dtype=torch.float64, generator=generator).to(device)
        h0 = field.initial_state(BATCH)
        solver = chosen.ready(Problem("memory", field, xs, h0, h0[None]))
        if length == FEW and (wrong := solver.states(chosen.expected).wrong):
            raise RuntimeError(wrong)
        solver.prepare()
        return lambda: solver.gradients(chosen.expected)

    call(FEW)()
    return peak_growth(call(time), device)


def _candidate(peer: str, name: str, bounded: bool) -> SolveCandidate:
    if peer == OURS:
        settings = {"gradient": Checkpointed(MEMORY)} if bounded else {}
        return ours(METHOD, name == COMPILED, **settings)
    return next(candidate for candidate in of_peer(peer) if candidate.name.startswith(name))


def peak_growth(call: Callable[[], object], device: str) -> int:
    """Measure the bytes by which the memory of this process, or of the GPU, grows during a call."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with suppress(OSError):
        CLEAR.write_text("5")
    before = _resident("VmRSS")
    call()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """A line of /proc/self/status, in bytes; without one, the peak so far."""
    with suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
