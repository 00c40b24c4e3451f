r"""Peak memory of forward + backward, each in a process of its own: growth over what was there before the call.

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
from derivations.processes.interruption import checkpoint
from discretize import Checkpointed
from experiments.bench.children import call_in_process
from experiments.bench.options import PEERS, absent
from experiments.bench.parts.cells import CellSizes, cell_candidates, samples
from experiments.bench.parts.problems import BenchProblem, edges, gated
from experiments.bench.parts.solves import SolveCandidate, ours, tuned_solvers
from experiments.bench.peers.registry import of_peers
from experiments.bench.rows import BACKWARD, Row
from experiments.bench.session import COMPILED, ENGINES, Session

__all__ = ["growth_in_bytes", "memory_rows", "peak_growth"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MEMORY = 2**24  # bytes, for `integrate(..., gradient=Checkpointed(...))`
METHOD, BOUNDED = "tsit5", f", Checkpointed({MEMORY >> 20} MiB)"
FEW, LONG = 3, 1000  # samples: to begin with, and the most that are solved sample by sample
BATCH, INPUTS, HIDDEN = 32, 10, {"cell": 64, "solve": 32}
PEER_SOLVES = {"torchdiffeq": "torchdiffeq dopri5, `jump_t`", "torchode": "torchode tsit5", "diffrax": "diffrax tsit5"}


def memory_rows(
    session: Session, lengths: Sequence[int], long: Sequence[int] = (), names: Sequence[str] = ("",), few: bool = False
) -> Iterator[Row]:
    """Measure cells and solves over `lengths`, and over `long` ones ours, where they are compiled, or bounded and not too long.

    `names`: how names of peers' solves may begin; `few`: one solve, nothing else.
    """
    cells, solves = ([], _solves(session, names)[:1]) if few else (_cells(session), _solves(session, names))
    measured = [("cell", time, name) for time in lengths for name in cells]
    for time in (*lengths, *long):
        measured += [("solve", time, name) for name in solves if time in lengths or _is_for_long(name, time)]
    for kind, time, name in measured:
        checkpoint()
        problem = f"{kind}, T {time}, B {BATCH}, H {HIDDEN[kind]}"
        session.show(f"memory: {problem}: {name}")
        arguments = {"kind": kind, "name": name, "time": time, "device": session.device, "threads": torch.get_num_threads()}
        try:
            growth = call_in_process(f"{__name__}:growth_in_bytes", arguments)
        except RuntimeError as error:
            session.skip(f"memory: {problem}: {name}", str(error))
        else:
            yield Row("memory", problem, name, BACKWARD, [growth], "bytes", {"kind": kind, "x": time})


def _is_for_long(name: str, time: int) -> bool:
    return name.endswith(COMPILED) or (name.endswith(BOUNDED) and time <= LONG)


def _cells(session: Session) -> list[str]:
    sizes = CellSizes(2, 2, INPUTS, HIDDEN["cell"])
    return [candidate.name for candidate in cell_candidates(session, sizes, samples(sizes, session.device), ("gated",))]


def _solves(session: Session, names: Sequence[str]) -> list[str]:
    problem, known = gated(1, 1, 2, 2, session.device), []
    for engine in ENGINES:
        if list(tuned_solvers(session, "memory", problem, [ours(METHOD, engine)], 1.0)):
            known += [f"`integrate`, {METHOD}, {engine}", f"`integrate`, {METHOD}, {engine}{BOUNDED}"]
    here = {peer: name for peer, name in PEER_SOLVES.items() if peer in session.peers and not absent(peer)}
    return known + [name for name in here.values() if name.startswith(tuple(names))]


def growth_in_bytes(kind: str, name: str, time: int, device: str, threads: int) -> int:
    """Measure the growth of this process during a cell's forward + backward, or a solve's at the tolerance it needs for 1e-6."""
    torch.set_num_threads(threads)
    call = _cell_call if kind == "cell" else _solve_call
    call(name, FEW, device)()
    return peak_growth(call(name, time, device), device)


def _cell_call(name: str, time: int, device: str) -> Callable[[], object]:
    session, sizes = Session(PEERS, device), CellSizes(time, BATCH, INPUTS, HIDDEN["cell"])
    x = samples(sizes, device)
    one = next((each for each in cell_candidates(session, sizes, x, ("gated",)) if each.name == name), None)
    if one is None:
        raise RuntimeError("; ".join(session.skipped.values()) or f"there is no {name}")
    cotangent = torch.randn(time, BATCH, HIDDEN["cell"], device=device)
    return lambda: one.backward(x, cotangent)


def _solve_call(name: str, time: int, device: str) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    field = ctrnn.gated(INPUTS, HIDDEN["solve"], dtype=torch.float64, generator=generator).to(device)
    xs = torch.randn(time, BATCH, INPUTS, dtype=torch.float64, generator=generator).to(device)
    h0, candidate = field.initial_state(BATCH), _solve_candidate(name)
    solver = candidate.ready(BenchProblem("memory", field, xs, h0, edges(xs), h0[None], [*field.parameters()]))
    if time == FEW and (wrong := solver.states(candidate.expected).wrong):
        raise RuntimeError(wrong)
    solver.prepare()
    return lambda: solver.gradients(candidate.expected)


def _solve_candidate(name: str) -> SolveCandidate:
    peer = name.partition(" ")[0]
    if peer in PEER_SOLVES:
        return next(each for each in of_peers(Session((peer,)), "held") if each.name.startswith(name))
    engine = name.removesuffix(BOUNDED).rpartition(", ")[2]
    return ours(METHOD, engine, **{"gradient": Checkpointed(MEMORY)} if name.endswith(BOUNDED) else {})


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
