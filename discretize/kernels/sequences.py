r"""Run any field under any explicit step map over a whole sequence, by a kernel that is written for its code.

Recorded, written and compiled when calls of the code have taken as long as that does; later ones, also of other fields of the
same code, find the kernel in the process or on disk. Compared with the steps one by one before it is used.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from discretize.kernels import reference
from discretize.kernels.build import CppSource
from discretize.kernels.cpp.programs import (
    PRODUCTS,
    REALS,
)
from discretize.kernels.cpp.rows import written
from discretize.kernels.cpp.sequences import STEPS, CompiledKernel, EquationUnsolvedError
from discretize.kernels.cpp.text import CppText
from discretize.kernels.eligibility import (
    Fused,
    Unsolved,
    device_reason,
    is_plain,
    maps_networks,
    setting_reason,
    tangent_reason,
    tensor_reason,
    tracing_reason,
    waits_for_kernels,
    whole,
)
from discretize.kernels.record.attributes import Attributes, attributes_of
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.program import EquationJVP, EquationModule, Program, StepModule, Writer, weights_of, with_weights
from discretize.kernels.record.stored import Recorder
from discretize.kernels.registry import ROUNDING, KnownKernel, by_steps, kernel_of, known, remember, time_unit, uses_of, wrong_by
from discretize.kernels.triton.kernels import STORED, TritonNetworks, triton_reason, writer
from discretize.noise.increments import KeyedIncrements, NoiseInput
from discretize.solvers.detached import ModuleSettings
from discretize.steps.along import HeldProblem
from discretize.steps.step import Step, key_of

__all__ = [
    "jacobian_reason",
    "kernel_for",
    "kernel_of_networks",
    "known_kernel",
    "looked_at",
    "run_known",
    "run_triton",
    "run_written",
    "states_of",
    "steps_counted",
]

# On a GPU, where one multiprocessor reads them all at each step of 16 samples: as fast as the steps in float32 on an H200.
MOST_WEIGHTS = 2**21
SHORTER = (
    1.0,
    1 / 16,
    1 / 256,
)  # of the time in which a field moves by as much as its states are: implicit steps on a few numbers
UNSOLVED = Unsolved("the kernel's iteration did not solve the equation of each step; steps go further")


def steps_counted(field: VectorField, step: Step) -> AbstractContextManager[None]:
    """Count the seconds of a sequence that is run step by step."""
    return by_steps(uses_of(field, StepModule, type(step)), field.parameters())


class SequenceKernel(Protocol):
    """A kernel for a step's code; `moves`: whether "x" and "dt" have gradients. xs and states may lie in another dtype."""

    moves: Mapping[str, bool]

    def call(
        self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]
    ) -> SequenceCall:
        """Lay out the arguments of a call; rests: whether samples of no length leave the state as it is."""


class SequenceCall(Protocol):
    """A call of a kernel: its arguments, laid out, and the two passes over them."""

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None]:
        """Compute the states after samples, (time, batch, state), and what the backward pass reads."""

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        """Compute the gradients to x, h0, dt and the weights."""


class _Engine(NamedTuple):
    """A way to run written kernels. `reason`: why it has none for tensors like this one; `networks`: whether it takes several."""

    name: str
    reason: Callable[[Tensor], str | None]
    kernel: Callable[..., SequenceKernel]  # of a program, a dtype and `moves`, and of programs of an equation
    write: Callable[[torch.dtype], Writer[Any]]
    networks: bool
    libraries: tuple[CppSource, ...] = ()  # of any field


def _run_written(
    engine: _Engine, problem: HeldProblem, fused: Fused, stored: bool = False
) -> tuple[Tensor | None, dict[str, Any]]:
    r"""The state after each sample by one engine, or None; and "engine" and "engine_why" of the run.

    Args:    as for `discretize.kernels.choose.run_sequence`; stored: xs has another dtype than all else, in memory only.
    """
    field, step, xs, h0, dt, substeps = problem
    lengths = dt if isinstance(dt, Tensor) else None
    given = [h0, *([] if stored else [xs]), *([] if lengths is None else [lengths])]
    if why := _no_kernel(engine, given, fused):
        return None, {"engine": "steps", "engine_why": why}
    wanted = {
        "x": whole(xs)[0].requires_grad,
        "dt": lengths is not None and whole(lengths)[0].requires_grad,
        "stored": stored,
    }
    weights, kernel = _found(engine, field, step, wanted, h0, waits_for_kernels(fused))
    if isinstance(kernel, str):
        return None, {"engine": "steps", "engine_why": kernel}
    number = None if isinstance(dt, Tensor) else dt
    try:
        states = states_of(kernel, partial(StepModule, field, step), substeps, number, xs, h0, lengths, *weights)
    except EquationUnsolvedError:
        return None, {"engine": "steps", "engine_why": UNSOLVED}
    return states, {"engine": engine.name, "engine_why": None}


def run_known(problem: HeldProblem) -> Tensor | None:
    """The state after each sample by the compiled kernel of an earlier call, in no mode of torch; None where there is none."""
    field, step, xs, h0, dt, substeps = problem
    lengths, number = (dt, None) if isinstance(dt, Tensor) else (None, dt)
    for each in (xs, h0, *(() if lengths is None else (lengths,))):
        if type(each) is not Tensor or each.dtype != h0.dtype or each.device != h0.device or not each.numel() or each.is_neg():
            return None
    if (found := known_kernel(problem, lengths is not None and lengths.requires_grad)) is None:
        return None
    code = partial(StepModule, field, step)
    return states_of(found.kernel, code, substeps, number, xs, h0, lengths, *found.attributes.tensors)


def known_kernel(problem: HeldProblem, moves: bool = False) -> KnownKernel | None:
    """The compiled kernel that has run such steps, with all that was looked at for it; moves: whether times have gradients."""
    wanted = {"x": problem.xs.requires_grad, "dt": moves, "stored": False}
    kernel = known(problem.field, _request(_COMPILED, problem.step, wanted, problem.h0), wait=False)
    return kernel if kernel is not None and _stands_alone(kernel.kernel) else None


def _stands_alone(kernel: SequenceKernel | str) -> bool:
    """Whether there is a kernel, and it answers each call: one that solves equations may leave a call to steps."""
    return not isinstance(kernel, str) and not (isinstance(kernel, CompiledKernel) and kernel.equation)


def _found(
    engine: _Engine, field: VectorField, step: Step, wanted: dict[str, bool], h0: Tensor, wait: bool
) -> tuple[tuple[Tensor, ...], SequenceKernel | str]:
    """The tensors of a field and a step, and the kernel of their code, or why there is none."""
    request = _request(engine, step, wanted, h0)
    mapped, owner = maps_networks(), field
    if isinstance(field, NoiseInput):  # which lives for a call; the field that it drives is remembered
        owner, request = field.field, (*request, *field.kind)
    if not mapped and (entry := known(owner, request, wait)):
        return entry.attributes.tensors, tangent_reason(entry.attributes.tensors) or entry.kernel
    module, guards = StepModule(field, step), Guards(owner)
    attributes = attributes_of(module, guards=guards if owner is field else None)
    if owner is not field:
        attributes_of(StepModule(owner, step), guards=guards)
    if isinstance(attributes, str):
        return (), attributes
    weights = attributes.tensors
    if mapped:
        module = _first_network(module, weights)
        attributes = attributes_of(module)
        assert not isinstance(attributes, str)
    if why := tensor_reason([h0, *weights]):
        return weights, why
    uses = uses_of(field, StepModule, type(step))
    kernel = _kernel(engine, module, attributes, wanted, h0.dtype, h0.device, guards=guards, uses=uses, wait=wait)
    if not mapped:
        remember(owner, request, guards, attributes, kernel, uses)
    return weights, kernel


def looked_at(problem: HeldProblem) -> KnownKernel | None:
    """All that such steps read of the field, and the kernel, or why there is none, or None where none was asked for."""
    field, step, xs, h0, *_ = problem
    wanted = {"x": xs.requires_grad, "dt": False, "stored": False}
    if found := known(field, _request(_COMPILED, step, wanted, h0), wait=False):
        return found
    guards = Guards(field)
    attributes = attributes_of(StepModule(field, step), guards=guards)
    if isinstance(attributes, str) or guards.refused:
        return None
    uses = uses_of(field, StepModule, type(step))
    return KnownKernel(attributes, None, guards.complete(), uses, uses.made, OrderedDict(), weakref.ref(field))


def kernel_of_networks(problem: HeldProblem) -> KnownKernel | None:
    """As `known_kernel`, for networks whose weights are stacked in one field, looked for anew; h0 (networks, batch, state)."""
    field, step, xs, h0, *_ = problem
    module, guards, uses = StepModule(field, step), Guards(field), uses_of(field, StepModule, type(step))
    stacked = attributes_of(module, guards=guards)
    if isinstance(stacked, str) or tensor_reason([h0, *stacked.tensors]):
        return None
    first = with_weights(module, [_first(weight, 0) for weight in stacked.tensors])
    wanted, attributes = {"x": xs.requires_grad, "dt": False, "stored": False}, attributes_of(first)
    assert not isinstance(attributes, str)
    kernel = _kernel(_COMPILED, first, attributes, wanted, h0.dtype, h0.device, guards=guards, uses=uses, wait=False)
    if not _stands_alone(kernel) or guards.refused:
        return None
    return KnownKernel(stacked, kernel, guards.complete(), uses, uses.made, OrderedDict(), weakref.ref(field))


def _request(engine: _Engine, step: Step, wanted: dict[str, bool], h0: Tensor) -> tuple[Any, ...]:
    return (engine.name, key_of(step), *wanted.values(), h0.dtype, h0.device, torch.get_default_dtype())


def states_of(
    kernel: SequenceKernel, code: Callable[[], StepModule], substeps: int, number: float | None, *inputs: Any
) -> Tensor:
    """The states after samples, of xs, h0, dt, where `number` is none, and the tensors of `code`."""
    if (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)) or maps_networks():
        states: Tensor = _Steps.apply(kernel, code(), substeps, number, *inputs)[0]
        return states
    xs, h0, dt, *weights = inputs
    return kernel.call(substeps, True, xs, h0, dt if number is None else number, weights).forward(keep=False)[0]


def _first_network(module: StepModule, weights: tuple[Tensor, ...]) -> StepModule:
    """A copy of the module of an ensemble's networks with the weights of the first, as it is alone."""
    return with_weights(module, [_first(*whole(weight)) for weight in weights])


def _first(stacked: Tensor, axis: int | None) -> Tensor:
    first = stacked.detach() if axis is None else stacked.detach().select(axis, 0).clone()
    # All that learn as parameters: inside of a transform of torch no other tensor can be told to.
    return nn.Parameter(first, stacked.requires_grad) if first.is_floating_point() else first


def _run_stored(problem: HeldProblem, fused: Fused) -> tuple[Tensor | None, dict[str, Any]]:
    """By Triton: a field in bfloat16 as one in float32, whose samples, states and matrices lie in bfloat16."""
    field, _, xs, h0, dt, _ = problem
    stored = xs.dtype in STORED and h0.dtype == xs.dtype  # of which neither steps nor their time are known to be better
    if not stored and fused != "always" and sum(weight.numel() for weight in field.parameters()) > MOST_WEIGHTS:
        many = f'with more than {MOST_WEIGHTS:,} weights kernels for GPUs take longer than steps; fused="always" takes them'
        return None, {"engine": "steps", "engine_why": many}
    if stored:
        lengths = [dt] if isinstance(dt, Tensor) else []
        why = tracing_reason() or setting_reason(fused) or triton_reason(h0, STORED)
        if why is None and not all(map(is_plain, (xs, h0, *lengths))):
            why = "samples, states or times are tensors of a kind of their own"
        if why:
            return None, {"engine": "steps", "engine_why": why}
        field = with_weights(field, [w.float() if w.dtype in STORED else w for w in weights_of(field)])
        problem = problem._replace(field=field, h0=h0.float(), dt=dt.float() if isinstance(dt, Tensor) else dt)
    return _run_written(_TRITON, problem, fused, stored)


def _no_kernel(engine: _Engine, given: list[Tensor], fused: Fused) -> str | None:
    return tracing_reason(engine.networks) or setting_reason(fused) or engine.reason(given[0]) or tensor_reason(given)


def jacobian_reason(step: Step) -> str | None:
    """Why a step that reads the field's Jacobian is no node of a graph; None for others."""
    return f"{type(step).__name__} takes Jacobians of the field" if step.jacobians else None


def kernel_for(module: StepModule, attributes: Attributes, wanted: dict[str, bool], dtype: torch.dtype) -> CompiledKernel | str:
    """The compiled kernel of a step's code, made where there is none yet, or why there is none."""
    uses = uses_of(module.field, type(module.step))
    kernel = _kernel(_COMPILED, module, attributes, wanted, dtype, torch.device("cpu"), guards=Guards(), uses=uses, wait=True)
    assert isinstance(kernel, CompiledKernel | str)
    return kernel


def _kernel(
    engine: _Engine,
    module: StepModule,
    attributes: Attributes,
    wanted: dict[str, bool],
    dtype: torch.dtype,
    device: torch.device,
    **how: Any,
) -> SequenceKernel | str:
    """The kernel of a step's code, or why there is none; wanted: whether "x" and "dt" have gradients, and "stored", whether x
    lies in bfloat16; device: of the states, which a field without parameters does not tell; how: as for `kernel_of`."""

    def make(program: Program[Any], recorder: Recorder) -> SequenceKernel | str:
        kernel = engine.kernel(program, dtype, wanted, *_of_equation(program, module, recorder, dtype))
        why = wanted["stored"] and _disagreement(kernel, module, dtype, STORED[0], device)
        for share in SHORTER:
            with suppress(EquationUnsolvedError):
                return why or _disagreement(kernel, module, dtype, dtype, device, share) or kernel
        return "its equation is not solved on a few numbers"

    libraries = [(source, {"REAL": REALS[dtype]}) for source in engine.libraries]
    return kernel_of(module, attributes, wanted, dtype, make, engine.write(dtype), libraries, **how)


def _of_equation(
    program: Program[Any], module: StepModule, recorder: Recorder, dtype: torch.dtype
) -> tuple[Sequence[Program[CppText]], ...]:
    """The programs of an equation that a step solves, where it does."""
    columns = program.written.equation if isinstance(program.written, CppText) else None
    if columns is None:
        return ()
    return ([recorder.program(kind(module, columns), {}, dtype, written) for kind in (EquationModule, EquationJVP)],)


_COMPILED = _Engine("compiled", device_reason, CompiledKernel, lambda dtype: written, True, (STEPS, PRODUCTS))
_TRITON = _Engine("triton", triton_reason, TritonNetworks, writer, networks=True)
run_written, run_triton = partial(_run_written, _COMPILED), _run_stored


class _Steps(torch.autograd.Function):
    """A kernel, the step that it stands for, and the inputs -> the states after samples."""

    @staticmethod
    def forward(
        kernel: SequenceKernel, module: StepModule, substeps: int, number: float | None, *inputs: Any
    ) -> tuple[Tensor, Tensor | None]:
        xs, h0, dt, *weights = inputs
        rests = dt is None or not dt.requires_grad
        return kernel.call(substeps, rests, xs, h0, dt if number is None else number, weights).forward(keep=True)

    # Which torch asks for at each call, and Python's own way to it takes 20 us.
    forward.__signature__ = signature(forward)  # type: ignore[attr-defined]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.settings, ctx.as_called = inputs[:4], ModuleSettings(inputs[1])
        ctx.set_materialize_grads(False)  # what is kept would get gradients full of zeros
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[4:], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        (kernel, module, substeps, number), needed = ctx.settings, ctx.needs_input_grad[4:]
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        *inputs, kept = ctx.saved_tensors
        found: Any
        if reference.needs_graph(grad):
            with ctx.as_called.restored():
                found = reference.gradients(partial(_states_by_steps, module, substeps, number), inputs, needed, grad)
        else:
            xs, h0, dt, *weights = inputs
            with torch.autocast(grad.device.type, enabled=False):
                call = kernel.call(substeps, not needed[2], xs, h0, dt if number is None else number, weights)
                found = call.backward(kept, grad, needed[:3])
        return None, None, None, None, *(gradient if need else None for gradient, need in zip(found, needed, strict=True))

    @staticmethod
    def vmap(
        info: Any,
        axes: tuple[object, ...],
        kernel: SequenceKernel,
        module: StepModule,
        substeps: int,
        number: float | None,
        *inputs: Any,
    ) -> tuple[tuple[Tensor], tuple[int]]:
        """Over the networks of an ensemble: all in one run of the kernel."""
        given = [t if axis is None else t.movedim(axis, 0) for t, axis in zip(inputs, axes[4:], strict=True)]
        for k, axis in enumerate(axes[4:]):
            if axis is None and k not in (0, 2):  # samples and step lengths may be shared
                given[k] = given[k].expand(info.batch_size, *given[k].shape)
        return (states_of(kernel, lambda: module, substeps, number, *given),), (0,)


def _states_by_steps(
    module: StepModule, substeps: int, number: float | None, xs: Tensor, h0: Tensor, dt: Any, *weights: Tensor
) -> Tensor:
    """The same states step by step, which autograd differentiates."""
    if h0.dim() > 2:
        axes = (0 if xs.dim() > 3 else None, 0, 0 if dt is not None and dt.dim() > 3 else None, *[0] * len(weights))
        every: Tensor = torch.func.vmap(partial(_states_by_steps, module, substeps, number), axes)(xs, h0, dt, *weights)
        return every
    step, h, states = with_weights(module, weights), h0, []
    lengths = dt.unbind(0) if number is None else [h0.new_full((1, 1), number)] * len(xs)
    for x, length in zip(xs.to(h0.dtype).unbind(0), lengths, strict=True):
        for part in range(substeps):
            given = module.field.at_part(x, part) if isinstance(module.field, KeyedIncrements) else x
            h = step(given, h, (length / substeps).expand(len(h), 1))
        states.append(h)
    return torch.stack(states).to(xs.dtype)


def _disagreement(
    kernel: SequenceKernel, module: StepModule, dtype: torch.dtype, stored: torch.dtype, device: torch.device, share: float = 1.0
) -> str | None:
    """Why a kernel cannot be used: states and gradients of a few numbers are not those of the steps one by one.

    stored: the dtype of x; share: how long steps are, of the time in which the field moves by as much as its states are.
    """
    dice, field = torch.Generator().manual_seed(0), module.field
    sizes = ((3, 3, field.input_size), (3, field.state_size), (3, 3, 1), (3, 3, field.state_size))
    xs, h0, lengths, weight = (torch.rand(size, generator=dice, dtype=dtype, device="cpu").to(device) - 0.5 for size in sizes)
    xs[:, 0], h0[0] = xs[:, 0].abs(), h0[0].abs()  # a sample at which logarithms and roots are numbers
    substeps = 1
    if isinstance(field, KeyedIncrements):
        xs, substeps = field.with_places(xs, dice), min(field.parts, 4)
    unit = 1.0
    if not isinstance(field, NoiseInput):  # whose numbers come for each unit of time
        with torch.no_grad():
            unit = time_unit(field.flow(field.project(xs[0]), h0), h0)
    given = [
        xs.to(stored).requires_grad_(kernel.moves["x"]),
        h0.requires_grad_(),
        ((lengths + 1) * unit * share).requires_grad_(kernel.moves["dt"]),
        *(weight.detach().clone().requires_grad_(weight.requires_grad) for weight in weights_of(module)),
    ]
    sought, answers = [tensor for tensor in given if tensor.requires_grad], []
    for states in (
        _Steps.apply(kernel, module, substeps, None, *given)[0],
        _states_by_steps(module, substeps, None, *given),
    ):
        gradients = torch.autograd.grad((states * weight).sum(), sought, allow_unused=True, materialize_grads=True)
        answers.append([states.detach(), *gradients])
    mine, theirs = answers
    worst = wrong_by(mine, theirs, h0, sought, float(weight.abs().max()), stored)
    if worst <= ROUNDING[stored]:
        return None
    return f"its kernel differs from the steps one by one by {worst:.2g} on a few numbers"
