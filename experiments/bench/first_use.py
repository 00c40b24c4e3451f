r"""What the first use costs: importing, and the first call with an empty cache of kernels and with a filled one.

Each in a process of its own; the cache is a folder made for the purpose (CTRNN_CACHE), so that nobody's own is touched.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.bench.children import asked, fresh
from experiments.bench.peers.names import absent
from experiments.bench.rows import Row
from experiments.interruption import checkpoint

__all__ = ["first_call", "first_rows"]

LIGHT = "import ctrnn, discretize"
IMPORTS = {
    "import torch": ("torch", "import torch"),
    "import torchdiffeq": ("torchdiffeq", "import torchdiffeq"),
    "import torchode": ("torchode", "import torchode"),
    "import diffrax": ("diffrax", "import diffrax"),
    LIGHT: ("", LIGHT),
    "from discretize import DiscreteRNN, integrate": ("", "from discretize import DiscreteRNN, integrate"),
}
CODE = "import time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"
WHAT = {"cell": "DiscreteRNN", "solve": "integrate"}


def first_rows(
    rounds: int, peers: Sequence[str], whats: Sequence[str], *, device: str, threads: int, tell: Callable[[str], None]
) -> Iterator[Row]:
    """Seconds, in turn: everything once in a round. `whats`: the first call of which, "cell" or "solve"; without any, only
    the import that loads no library."""
    here = {"", *(peer for peer in ("torch", *peers) if not absent(peer))}
    kept = {name: code for name, (peer, code) in IMPORTS.items() if (peer in here if whats else name == LIGHT)}
    imports: dict[str, list[float | None]] = {name: [] for name in kept}
    calls: dict[tuple[str, str], list[float | None]] = {}
    engines: dict[str, str] = {}
    for _ in range(rounds):
        for name, statement in kept.items():
            checkpoint()
            tell(f"first use: {name}")
            imports[name].append(fresh(CODE.format(statement=statement)))
        for what in whats:
            with tempfile.TemporaryDirectory(prefix="ctrnn-bench-") as cache:
                for state in ("empty", "filled"):
                    checkpoint()
                    tell(f"first use: {what}, {state} cache")
                    given = {"what": what, "device": device, "threads": threads}
                    told = asked("experiments.bench.first_use", "first_call", given, {"CTRNN_CACHE": cache})
                    engines[what] = told["engine"]
                    calls.setdefault((what, f"first call, {state} cache"), []).append(told["first"])
                    calls.setdefault((what, f"second call, {state} cache"), []).append(told["second"])
    for name, values in imports.items():
        yield Row("first use", "import, in a fresh process", name, "import", values)
    for (what, work), values in calls.items():
        yield Row("first use", f"the first `{WHAT[what]}` of a process", work, "call", values, facts={"engine": engines[what]})


def first_call(what: str, device: str, threads: int) -> dict[str, float | str]:
    """Seconds of the first and the second call in this process, all imported, forward + backward; and by what it ran."""
    import torch  # noqa: PLC0415

    import ctrnn  # noqa: PLC0415
    import discretize  # noqa: PLC0415

    torch.set_num_threads(threads)
    double = torch.float64 if what == "solve" else torch.float32
    field: Any = ctrnn.gated(4, 16, dtype=double, device=device)
    xs = torch.randn(20, 8, 4, dtype=double, device=device)
    rnn = discretize.DiscreteRNN(field) if what == "cell" else discretize.ContinuousRNN(field, "tsit5")
    torch.autograd.grad(torch.tanh(xs[0] @ field.candidate.weight_x.t()).sum(), field.candidate.weight_x)  # torch's own first use
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        torch.autograd.grad(rnn(xs)[0].sum(), list(field.parameters()))
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return {"first": seconds[0], "second": seconds[1], "engine": rnn.stats["engine"]}
