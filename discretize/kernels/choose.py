r"""Decide which engine runs a sequence or a solve: a kernel in Triton, one in C++, torch's own function, or steps in torch.

Kernels are imported where one may run, so that nothing of them is loaded where they are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.autocast import without_autocast
from discretize import compat
from discretize.kernels.eligibility import Fused, Unsolved, is_ordinary, refuse_steps, setting_reason, takes_triton
from discretize.kernels.price import KernelReady, Stopwatch, Waiting
from discretize.kernels.shown import Reads, Shown
from discretize.kernels.solved import Solved, SolveRequest
from discretize.kernels.unsolved import check_solutions
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.fixed import FixedEngine
from discretize.solvers.segments import Chain
from discretize.steps.along import HeldProblem
from discretize.steps.step import Step

if TYPE_CHECKING:
    from discretize.kernels.cpp.solves import SolvePlan
    from discretize.kernels.graphs import Node

__all__ = ["node_in_graph", "plan_solve", "run_fixed", "run_in_graph", "run_sequence", "run_solve", "solve_by_steps"]


def run_sequence(
    problem: HeldProblem, fused: Fused, by_steps: Callable[[Callable[[], None]], Tensor], reads: Reads | None = None
) -> tuple[Any, dict[str, Any]]:
    r"""Compute the state after each sample; return "engine" and "engine_why" too: what ran, and why nothing faster did.

    Autocast does not reach into kernels: they are faster in the field's own dtype than steps are in half precision.

    Args:    by_steps: the states step by step, where there is no kernel; it calls what it is given before every sample, so that
             steps that take long give way to a kernel.
    Shape:   -> (time, batch, state).
    Raises:  ValueError for a CTRNN_FUSED that says nothing, and for "always" where there is no kernel.
    """
    run, (shown, why) = partial(_by_kernel, problem), _quicker_by_torch(problem, fused, reads)
    if shown is None:
        states, engine, why = run(fused)
        if states is not None:
            return states, {"engine": engine, "engine_why": why}
        if isinstance(why, Unsolved) and not compat.transforms_are_active():
            check_solutions(problem, lambda one: not isinstance(_by_kernel(one, fused)[2], Unsolved))
        refuse_steps(fused, why, problem.xs.numel() and problem.h0.numel())
        shown = _by_torch(problem, fused, reads)
    if shown is not None:
        return shown, {"engine": "torch", "engine_why": why and str(why)}
    watch = Stopwatch() if isinstance(why, Waiting) else None

    def look() -> None:
        nonlocal states, engine, why
        if watch is not None and watch.rings():
            states, engine, why = run("always")
            if states is not None:
                raise KernelReady

    try:
        with _sequence_by_steps(problem.field, problem.step, fused):
            states = by_steps(look)
    except KernelReady:
        assert states is not None
    return states, {"engine": engine, "engine_why": why and str(why)}


def _by_torch(problem: HeldProblem, fused: Fused, reads: Reads | None) -> Tensor | Shown | None:
    """By torch's function for such sequences, if there is one, in place of steps."""
    if setting_reason(fused):
        return None
    from discretize.kernels import torchs_own  # noqa: PLC0415 - see above

    with _sequence_by_steps(problem.field, problem.step, fused):
        return torchs_own.run_torchs_own(problem, fused, reads)


def _quicker_by_torch(problem: HeldProblem, fused: Fused, reads: Reads | None) -> tuple[Tensor | Shown | None, str | None]:
    """By torch's function where it is faster than a kernel, of callers that do not read all of the states; and why. Not of
    sequences of different lengths: packed samples it takes more slowly, and backwards by the square of their number."""
    if reads is None or reads.lengths is not None or setting_reason(fused):
        return None, None
    from discretize.kernels import torchs_own  # noqa: PLC0415 - see above

    field, _, xs, h0, *_ = problem
    (time, batch, _), learning = xs.shape, torchs_own.learns([xs, h0, *field.parameters()])
    why = torchs_own.quicker_reason(field, fused, time, batch, learning)
    shown = why and torchs_own.run_torchs_own(problem, fused, reads)
    return (shown, why) if shown else (None, None)


def _by_kernel(problem: HeldProblem, fused: Fused) -> tuple[Tensor | None, str, str | None]:
    """The state after each sample, or None; the engine, and why no faster one."""
    if why := setting_reason(fused):
        return None, "steps", why
    from discretize.kernels import sequences  # noqa: PLC0415 - see above

    device = problem.h0.device
    if is_ordinary(device, fused) and (states := sequences.run_known(problem)) is not None:
        return states, "compiled", None
    whys = dict[str, None]()
    engines: list[Any] = [*([sequences.run_triton] if takes_triton(device) else []), sequences.run_written]
    with without_autocast(problem.field.device):
        for run in engines:
            states, stats = run(problem, fused)
            whys[stats["engine_why"]] = None
            if states is not None:
                break
    return states, stats["engine"], _joined(filter(None, whys))


def _joined(whys: Iterable[str]) -> str | None:
    """Reasons as one, which is known to be one to wait, or of an equation, if any is."""
    whys = [*whys]
    kind = next((kind for kind in (Waiting, Unsolved) if any(isinstance(why, kind) for why in whys)), str)
    return kind("; ".join(whys)) if whys else None


def _sequence_by_steps(field: VectorField, step: Step, fused: Fused) -> AbstractContextManager[None]:
    if setting_reason(fused):
        return nullcontext()
    from discretize.kernels import sequences  # noqa: PLC0415 - see above

    return sequences.steps_counted(field, step)


def run_fixed(chain: Chain, engine: FixedEngine, h0: Tensor, fused: Fused) -> Solved | str:
    """Solve by steps of fixed length as the sequence that it is, by the kernels of sequences; or say why there is none."""
    if why := setting_reason(fused) or engine.no_sequence(chain):
        return why
    problem, ends = engine.laid_out(chain, h0)
    states, name, why = _by_kernel(problem, fused)
    if states is None:
        assert why is not None
        return why
    ends = states if ends is None else states[ends.to(states.device)]
    edges = chain.wanted()
    hs = torch.cat([h0[None], ends])
    return Solved(
        edges,
        hs if len(edges) == len(hs) else hs[edges],
        engine.after(chain, ends),
        chain,
        partial(engine.kept, chain, h0, states),
        name,
    )


def run_solve(request: SolveRequest, fused: Fused) -> tuple[Solved | str, str | None]:
    """Solve by a kernel, or say why there is none; and why not by the one in Triton, where that comes first."""
    found, why = plan_solve(request, fused)
    return (found if isinstance(found, str) else found.run(request)), why


def plan_solve(request: SolveRequest, fused: Fused) -> tuple[SolvePlan | str, str | None]:
    """Choose the kernel of a solve; return as `run_solve`."""
    if why := setting_reason(fused):
        return why, None
    from discretize.kernels.cpp.solves import plan  # noqa: PLC0415 - see above
    from discretize.kernels.triton.solves import plan_triton  # noqa: PLC0415

    on_gpu, whys = takes_triton(request.h0.device), dict[str, None]()
    for choose in [*([plan_triton] if on_gpu else []), *([] if request.stored else [plan])]:
        found = choose(request, fused)
        if not isinstance(found, str):
            return found, next(iter(whys), None)
        whys[found] = None
    return _joined(whys) or "", None


def solve_by_steps(chain: Chain, engine: object, fused: Fused) -> AbstractContextManager[None]:
    """Count the seconds of a solve that runs step by step: they may pay for a kernel later."""
    if isinstance(engine, FixedEngine) and not engine.no_sequence(chain):
        return _sequence_by_steps(chain.field, engine.map, fused)
    if not isinstance(engine, AdaptiveEngine) or setting_reason(fused):
        return nullcontext()
    from discretize.kernels.cpp.solves import steps_counted  # noqa: PLC0415 - see above

    return steps_counted(chain, engine)


def node_in_graph(field: VectorField, step: Step, like: Tensor, fused: Fused) -> Node | str:
    """The node of a sequence in the graph that torch.compile traces, or why it has none."""
    if not compat.COMPILES_NODES:
        return f"torch {torch.__version__} takes no kernel into a graph of torch.compile; torch 2.12 does"
    from discretize import compiling  # noqa: PLC0415 - loads the compiler

    node: Node | str = compiling.node_in_graph(field, step, like, fused)
    return node


def run_in_graph(node: Node, field: VectorField, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """The state after each sample, as that node."""
    from discretize.kernels import graphs  # noqa: PLC0415 - as above

    return graphs.run_in_graph(node, field, xs, h0, dt, substeps)
