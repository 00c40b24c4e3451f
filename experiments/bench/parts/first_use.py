r"""Seconds of the first use: imports, and the first call with an empty cache of kernels and with a filled one.

Each is measured in a process of its own; the cache is a new folder (CTRNN_CACHE), so that the user's is not touched.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

import ctrnn
import discretize
from derivations.processes.interruption import checkpoint
from experiments.bench.children import call_in_process, seconds_of_import
from experiments.bench.options import absent
from experiments.bench.rows import Row
from experiments.bench.session import Session

__all__ = ["first_call", "first_rows"]

LIGHT = "import ctrnn, discretize"
IMPORTS = {  # statement -> the peer that it needs
    "import torch": "torch",
    "import torchdiffeq": "torchdiffeq",
    "import torchode": "torchode",
    "import diffrax": "diffrax",
    LIGHT: "",
    "from discretize import DiscreteRNN, integrate": "",
}
PROBLEMS = {
    "import": "import, in a fresh process",
    "cell": "the first `DiscreteRNN` of a process",
    "solve": "the first `integrate` of a process",
}


def first_rows(session: Session, rounds: int, calls: Sequence[str] = ("cell", "solve")) -> Iterator[Row]:
    """Time imports, and first calls of "cell" or "solve"; without any, only the import that loads no library."""
    here = {"", *(peer for peer in ("torch", *session.peers) if not absent(peer))}
    statements = [statement for statement, peer in IMPORTS.items() if peer in here] if calls else [LIGHT]
    seconds: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    engines: dict[str, str] = {}
    for _ in range(min(session.rounds, rounds)):
        for statement in statements:
            checkpoint()
            session.show(f"first use: {statement}")
            seconds["import", statement].append(seconds_of_import(statement))
        for called in calls:
            with tempfile.TemporaryDirectory(prefix="ctrnn-bench-") as cache:
                for state in ("empty", "filled"):
                    checkpoint()
                    session.show(f"first use: {called}, {state} cache")
                    arguments = {"called": called, "device": session.device, "threads": torch.get_num_threads()}
                    answer = call_in_process(f"{__name__}:first_call", arguments, {"CTRNN_CACHE": cache})
                    engines[called] = answer["engine"]
                    for which in ("first", "second"):
                        seconds[called, f"{which} call, {state} cache"].append(answer[which])
    for (called, candidate), values in seconds.items():
        facts = {"engine": engines[called]} if called in engines else {}
        work = "call" if called in engines else "import"
        yield Row("first use", PROBLEMS[called], candidate, work, values, facts=facts)


def first_call(called: str, device: str, threads: int) -> dict[str, float | str]:
    """Time the first and the second forward + backward in this process, all imported, and name the engine."""
    torch.set_num_threads(threads)
    dtype = torch.float64 if called == "solve" else torch.float32
    field: Any = ctrnn.gated(4, 16, dtype=dtype, device=device)
    xs = torch.randn(20, 8, 4, dtype=dtype, device=device)
    make: dict[str, Any] = {"cell": discretize.DiscreteRNN, "solve": discretize.ContinuousRNN}
    rnn = make[called](field, **{"method": "tsit5"} if called == "solve" else {}, fused="always")
    torch.autograd.grad(torch.tanh(xs[0] @ field.candidate.weight_x.t()).sum(), field.candidate.weight_x)  # torch's own first use
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        torch.autograd.grad(rnn(xs)[0].sum(), list(field.parameters()))
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return {"first": seconds[0], "second": seconds[1], "engine": rnn.stats["engine"]}
