r"""Solve any field exactly by a kernel that is written for its `flow`: source/solves.cpp.

For stiff methods the derivatives of `flow` along a direction are written as well: source/derivatives.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, LinearPath, VectorField
from discretize.errors import Failure
from discretize.kernels.build import CppSource, Libraries
from discretize.kernels.cpp.blocks import solved_within
from discretize.kernels.cpp.delayed import solved_with_past
from discretize.kernels.cpp.lanes import lane_written
from discretize.kernels.cpp.methods import COMPILED, MethodEngine, WrittenMethod, libraries_of, method_of, no_program
from discretize.kernels.cpp.programs import (
    DRIVER,
    PRODUCTS,
    REALS,
    SOURCES,
    GivenProgram,
    ModelStructure,
    SumBuffers,
    SumsStructure,
    functions_of,
    solves_library,
    sources_digest,
)
from discretize.kernels.cpp.rows import written
from discretize.kernels.cpp.solving import (
    ALL_STEPS,
    KernelRun,
    Model,
    SolveKernel,
    WrittenField,
    is_program,
    no_kernel,
    solved,
    states_by_engine,
)
from discretize.kernels.cpp.text import CppText
from discretize.kernels.eligibility import (
    Fused,
    device_reason,
    tangent_reason,
    tensor_reason,
    tracing_reason,
    waits_for_kernels,
)
from discretize.kernels.pieces import projected_of, readable, reads_samples
from discretize.kernels.price import may_build
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.counters import without_counters
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.program import (
    FlowModule,
    InputJVP,
    Program,
    StateJVP,
    Writer,
    weights_of,
)
from discretize.kernels.record.stored import Agreement, Recorder
from discretize.kernels.registry import (
    ROUNDING,
    KnownKernel,
    Uses,
    by_steps,
    kernel_of,
    known,
    remember,
    time_unit,
    uses_of,
    wrong_by,
)
from discretize.kernels.solved import Solved, SolveRequest
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.past import PastPath
from discretize.solvers.segments import Chain, chain_of
from discretize.solvers.tableaus import EmbeddedMethod
from discretize.steps.algebra.jacobian import declares_jacobian

__all__ = [
    "SolveNeeds",
    "SolveEngine",
    "SolvePlan",
    "disagreement",
    "known_flow",
    "plan",
    "plan_by",
    "plan_of_flow",
    "steps_counted",
    "total",
]

MOST_UNITS_IN_LANES = 6  # of a field that is computed for samples side by side
SOLVES = CppSource(SOURCES / "solves.cpp", flags=DRIVER)


@dataclass(frozen=True)
class SolveNeeds:
    """What a solve needs of a kernel: gradients to the input, derivatives for an implicit method, and that by the time; where;
    `stored`: in which dtype what is kept lies, None for that of the solve; `past`: whether it reads one, as the driver of lanes
    does not."""

    x: bool
    implicit: bool
    drift: bool
    device: torch.device
    stored: torch.dtype | None = None
    past: bool = False

    @classmethod
    def of(cls, chain: Chain, engine: AdaptiveEngine, projected: Tensor, stored: torch.dtype | None) -> SolveNeeds:
        implicit, past = engine.control.method.implicit, chain.past is not None
        x = torch.is_grad_enabled() if past else projected.requires_grad  # of one kernel for all blocks
        return cls(x, implicit, implicit and (past or not chain.path.steady), projected.device, stored, past)


class _Kernel:
    """The programs of `flow` and of its derivatives that a solve needs, and their library."""

    run = KernelRun
    by_program = True

    def __init__(
        self,
        programs: Sequence[Program[CppText]],
        module: FlowModule,
        dtype: torch.dtype,
        needs: SolveNeeds,
        key: str | None,
    ) -> None:
        self.programs, self.dtype, self.sizes = programs, dtype, (module.field.state_size, module.columns)
        self.key = key  # of the programs that are kept
        with ThreadPoolExecutor() as threads:
            self.functions = [*threads.map(partial(functions_of, dtype=dtype), programs)]
        self.library = solves_library(*_library(programs[0].written.lanes, needs, dtype))

    def given(self, weights: Sequence[Any]) -> tuple[ModelStructure, Any]:
        """What the library reads of a field of these weights, contiguous; and what must stay alive while it does."""
        given = [GivenProgram(*each, weights) for each in zip(self.programs, self.functions, strict=True)]
        return ModelStructure(*self.sizes, *(ctypes.pointer(each.structure) for each in given)), given

    def gradients(self, write: Callable[[Any], None], weights: Sequence[Any]) -> list[Tensor | None]:
        """Compute the weights' gradients from the sums that `write` writes."""
        sums = [SumBuffers(program, torch.empty(0, dtype=self.dtype, device="cpu")) for program in self.programs]
        write((SumsStructure * len(sums))(*(each.structure for each in sums)))
        return [total(found) for found in zip(*(each.gradients(weights) for each in sums), strict=True)]


def _library(lanes: bool, needs: SolveNeeds, dtype: torch.dtype) -> tuple[CppSource, dict[str, str | int]]:
    """What solves are compiled from, of any field."""
    kinds = {"IMPLICIT": needs.implicit, "LANEWISE": lanes}
    return SOLVES, {"REAL": REALS[dtype], **{name: int(kind) for name, kind in kinds.items()}}


class SolveEngine(NamedTuple):
    """A way to run written kernels: `reason` why it has none for tensors like this one; what writes a program
    down, the best first; what makes a kernel of it; what runs methods that are programs; `libraries` that kernels of any
    field need for a method; and whether they read a past."""

    reason: Callable[[Tensor], str | None]
    writers: Callable[[FlowModule, SolveNeeds, torch.dtype], Sequence[Writer[Any]]]
    made: Callable[[FlowModule, torch.dtype, SolveNeeds, Program[Any], Recorder], SolveKernel | str]
    methods: MethodEngine
    libraries: Callable[[Writer[Any], SolveNeeds, torch.dtype, EmbeddedMethod], Libraries] = lambda *_: ()
    reads_past: bool = True


@dataclass(frozen=True)
class SolvePlan:
    """A kernel for solves along a chain, and the tensors that it reads, but for the state."""

    model: Model
    chain: Chain
    projected: Tensor
    weights: Sequence[Tensor]

    def run(self, request: SolveRequest, first: int = 0, end: int | None = None) -> Solved | str:
        """Solve along the plan's chain, or its segments from `first` to before `end`; or say why not. Raises: MemoryError."""
        chain = self.chain if end is None else self.chain.part(first, end)
        if (seen := chain.past) is not None:
            tensors = [self.projected, request.h0, seen.pieces.nodes, seen.delays, *self.weights]
            return solved_with_past(self.model, replace(request, chain=chain), tensors, request.chain)
        run = solved if request.memory is None else solved_within
        return run(self.model, replace(request, chain=chain), [self.projected, request.h0, *self.weights])


def plan_by(how: SolveEngine, request: SolveRequest, fused: Fused) -> SolvePlan | str:
    """Find the kernel that is written for a field's code, or why there is none."""
    chain, h0, engine, stored = request.chain, request.h0, request.engine, request.stored
    why = tracing_reason() or no_kernel(chain) or how.reason(h0) or _no_program(how, engine.control.method, h0)
    if why is None and isinstance(chain.driven.path, PastPath) and not how.reads_past:
        why = "fields with delays have no kernel on GPUs"
    if why is None and engine.control.method.implicit and declares_jacobian(chain.field):
        why = "a field's own `jacobian`, or its `bandwidths`, are for steps in torch"
    if why:
        return why
    wait = waits_for_kernels(fused) or stored is not None  # and then there is no other engine
    read = readable(chain, engine, any_flow=True)
    if isinstance(read, str):
        return read
    uses, moves = partial(_uses, chain, engine), chain.differentiable
    chain, projected = read, projected_of(read).xs
    known_states = 0 if chain.past is None else len(chain.past.delays) * h0.shape[-1]
    module = FlowModule(without_counters(chain.field), projected.shape[-1] + known_states)
    if why := tensor_reason([h0, projected]):
        return why
    projected = projected.to(stored) if stored and reads_samples(chain) else projected
    needs = SolveNeeds.of(chain, engine, projected, stored)
    method = engine.control.method
    weights, kernel = _found(how, module, needs, h0.dtype, method, uses, wait, request.check)
    if isinstance(kernel, str):
        return kernel
    written = _program(how, kernel, module, needs, method, h0, wait)
    scales = written is None or isinstance(written, str) or written.calls.scales
    if moves and not scales:  # segments are clocks' speeds there
        return f"gradients to times are wanted, and {method!r} reads dt otherwise than as dt times slopes"
    return written if isinstance(written, str) else SolvePlan(Model(kernel, module, written), chain, projected, weights)


def _no_program(how: SolveEngine, method: EmbeddedMethod, h0: Tensor) -> str | None:
    """Why a method that is a program has none; None for others."""
    return no_program(how.methods, method, h0.shape[-1], h0.dtype) if is_program(method) else None


def _program(
    how: SolveEngine, kernel: SolveKernel, module: FlowModule, needs: SolveNeeds, method: EmbeddedMethod, h0: Tensor, wait: bool
) -> WrittenMethod | str | None:
    """The program of a method, compared with torch at its first use with a field; or why there is none; None where the kernel
    takes no programs."""
    if not kernel.by_program:
        return None
    written = method_of(how.methods, method, h0.shape[-1], h0.dtype, wait or may_build())
    if isinstance(written, str):
        return written
    differs = written.kernel.differs
    if kernel not in differs:
        differs[kernel] = _compared(kernel, module, h0.dtype, needs, method, written)
    return differs[kernel] or written


def _compared(
    kernel: SolveKernel, module: FlowModule, dtype: torch.dtype, needs: SolveNeeds, method: EmbeddedMethod, written: WrittenMethod
) -> str | None:
    """As `disagreement`, once for all processes where a Jacobian is read: torch takes a second to load what derivatives of
    derivatives need."""
    agreed = Agreement(kernel.key, written.kernel.key, sources_digest()) if needs.implicit else None
    if agreed:
        return None
    why = disagreement(kernel, module, dtype, needs, method, written)
    if agreed is not None and why is None:
        agreed.keep()
    return why


def steps_counted(chain: Chain, engine: object) -> AbstractContextManager[None]:
    """Count the seconds of a solve that is run step by step."""
    return by_steps(_uses(chain, engine), chain.field.parameters()) if isinstance(engine, AdaptiveEngine) else nullcontext()


def _uses(chain: Chain, engine: AdaptiveEngine) -> Uses:
    return uses_of(chain.field, StateJVP if engine.control.method.implicit else FlowModule)


def _found(
    how: SolveEngine,
    module: FlowModule,
    needs: SolveNeeds,
    dtype: torch.dtype,
    method: EmbeddedMethod,
    uses_of_code: Callable[[], Uses],
    wait: bool,
    check: Callable[[], None],
) -> tuple[tuple[Tensor, ...], Any]:
    """The tensors of a module, and the kernel of its code, or why there is none."""
    request = _request(how, module.columns, needs, dtype)
    if entry := known(module.field, request, wait):
        return entry.attributes.tensors, tangent_reason(entry.attributes.tensors) or entry.kernel
    guards, uses = Guards(module.field), uses_of_code()
    attributes = attributes_of(module, guards=guards)
    if isinstance(attributes, str):
        return (), attributes
    weights = attributes.tensors
    if why := tensor_reason([torch.empty(1, dtype=dtype, device=needs.device), *weights]):
        return weights, why
    make = partial(how.made, module, dtype, needs)
    for write in how.writers(module, needs, dtype):
        libraries = how.libraries(write, needs, dtype, method)
        kernel = kernel_of(module, attributes, vars(needs), dtype, make, write, libraries, guards, uses, wait, check)
        if not isinstance(kernel, str):
            break
    remember(module.field, request, guards, attributes, kernel, uses)
    return weights, kernel


def _request(how: SolveEngine, columns: int, needs: SolveNeeds, dtype: torch.dtype) -> tuple[Any, ...]:
    return how, columns, needs, dtype, torch.get_default_dtype()


def known_flow(field: VectorField, method: EmbeddedMethod, xs: Tensor) -> KnownKernel | None:
    """The compiled kernel that has solved a field along such held samples, with all that was looked at for it."""
    projected = field.project(xs[:1])  # of all samples it is much memory, for a call that has its own
    needs = SolveNeeds(projected.requires_grad, method.implicit, False, projected.device)
    kernel = known(field, _request(_COMPILED, projected.shape[-1], needs, projected.dtype), wait=False)
    return None if kernel is None or isinstance(kernel.kernel, str) else kernel


def plan_of_flow(found: KnownKernel, request: SolveRequest) -> SolvePlan | str:
    """As `plan_by` for held samples, by a kernel that was found before."""
    chain, projected = request.chain, projected_of(request.chain).xs
    if why := no_kernel(chain) or tensor_reason([request.h0, projected]):
        return why
    request.engine.start(chain, chain.driven.batch)
    module = FlowModule(chain.field, projected.shape[-1])
    needs = SolveNeeds.of(chain, request.engine, projected, None)
    method = _program(_COMPILED, found.kernel, module, needs, request.engine.control.method, request.h0, False)
    if isinstance(method, str):
        return method
    return SolvePlan(Model(found.kernel, module, method), chain, projected, found.attributes.tensors)


def total(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """Sum gradients, None counting as 0."""
    present = [gradient for gradient in gradients if gradient is not None]
    return sum(present[1:], present[0]) if present else None


def _made(module: FlowModule, dtype: torch.dtype, needs: SolveNeeds, program: Program[CppText], recorder: Recorder) -> _Kernel:
    along = [kind for kind, wanted in ((StateJVP, needs.implicit), (InputJVP, needs.drift)) if wanted]
    derivatives = [recorder.program(kind(module.field, module.columns), {"x": needs.x}, dtype, written) for kind in along]
    return _Kernel([program, *derivatives], module, dtype, needs, recorder.key)  # compared with each method at its first use


def disagreement(
    kernel: SolveKernel,
    module: FlowModule,
    dtype: torch.dtype,
    needs: SolveNeeds,
    method: EmbeddedMethod | None = None,
    written: WrittenMethod | None = None,
) -> str | None:
    """Why a kernel cannot be used: states and gradients of a short solve are not those of the engine in torch; None where they
    are, and "" where neither comes to the end, so that nothing was compared; `method` and its program where it has one."""
    dice = torch.Generator().manual_seed(0)
    kind = HeldPath if needs.implicit and not needs.drift else LinearPath  # by which nodes of a method are seen
    sizes = ((2 if kind is HeldPath else 3, 3, module.columns), (3, module.field.state_size))
    uncounted = torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept)
    with torch.inference_mode(False), torch.autocast(needs.device.type, enabled=False), uncounted:
        projected, h0 = (torch.rand(size, generator=dice, dtype=dtype, device="cpu").to(needs.device) - 0.5 for size in sizes)
        weights = [weight.detach().clone().requires_grad_(weight.requires_grad) for weight in weights_of(module)]
        tensors = [projected.to(needs.stored or dtype).requires_grad_(needs.x), h0.requires_grad_(), *weights]
        field = WrittenField(module, weights)
        unit = time_unit(field.flow(projected[0], h0), h0)
        knots = torch.arange(3, dtype=torch.float64, device="cpu") / 4 * unit
        path = kind.unchecked(projected.detach(), knots)
        chain = chain_of(Driven(field, path), path.knots)
        method = method or ADAPTIVE_METHODS["rodas5p" if needs.implicit else "dopri5"]
        engine = AdaptiveEngine(StepControl(method, 1e-2, 1e-2, max_num_steps=100))
        run = kernel.run(
            Model(kernel, module, written), SolveRequest(chain, h0, engine, _ignored, {"nfe_backward": 0}), ALL_STEPS
        )
        engine.start(chain, len(h0))
        hs = run.forward(*tensors)
        failure, sought = run.failure(), [tensor for tensor in tensors if tensor.requires_grad]
        with torch.enable_grad():
            try:
                again = states_by_engine(run, *tensors)
            except Failure as error:  # where a method leads to nan, say, beside a sample whose step is not taken
                return f"the engine in torch, with which its kernel is compared, stops: {error.cause}" if failure is None else ""
            gradients = torch.autograd.grad(again.sum(), sought, allow_unused=True, materialize_grads=True)
        if failure is not None:
            return f"its kernel stops on a few numbers, where the engine in torch goes on: {failure.cause}"
        back = zip(tensors, run.backward(torch.ones_like(hs)), strict=True)
        mine = [hs, *(torch.zeros_like(t) if g is None else g for t, g in back if t.requires_grad)]
    worst = wrong_by(mine, (again, *gradients), h0, sought, 1.0, needs.stored or dtype)
    return None if worst <= ROUNDING[needs.stored or dtype] else f"its kernel differs from torch by {worst:.2g} on a few numbers"


def _ignored(done: int) -> None:
    pass


def _writers(module: FlowModule, needs: SolveNeeds, dtype: torch.dtype) -> Sequence[Writer[CppText]]:
    small = module.field.state_size <= MOST_UNITS_IN_LANES and not needs.implicit and not needs.past
    return (lane_written, written) if small else (written,)


def _libraries(write: Writer[CppText], needs: SolveNeeds, dtype: torch.dtype, method: EmbeddedMethod) -> Libraries:
    lanes = write is lane_written
    products = [] if lanes else [(PRODUCTS, {"REAL": REALS[dtype]})]
    return [_library(lanes, needs, dtype), *products, *libraries_of(method, dtype)]


_COMPILED = SolveEngine(device_reason, _writers, _made, COMPILED, _libraries)
plan = partial(plan_by, _COMPILED)
