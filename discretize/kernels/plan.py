r"""Keep what was decided for a run of a sequence, so that later calls like it need not decide again.

    plan      the kernel and the field's tensors
    guards    the field               all that its code may read, by the guards of its kernel
              the step                its class and numbers
              the input               dtype, device, features, whether a gradient is wanted
              gradients               whether torch records them, of a solve whose steps are chosen
              torch                   no tracing, transform, mode, tangent or autocast; the same default dtype; CTRNN_FUSED
              a module's settings     the same objects, its field among them
              those of a solve        equal numbers

A call for which a guard fails goes the long way, which decides anew, and refuses in words.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.fields.noise import noise_channels
from ctrnn.own_code import own_code
from ctrnn.storage.comparison import NOTES
from discretize.kernels.cpp.solves import known_flow, plan_of_flow
from discretize.kernels.eligibility import Fused, is_ordinary, waits_for_kernels
from discretize.kernels.price import Waiting
from discretize.kernels.record.guards import UnchangedClasses
from discretize.kernels.record.program import StepModule
from discretize.kernels.registry import KnownKernel
from discretize.kernels.sequences import kernel_of_networks, known_kernel, looked_at, states_of
from discretize.kernels.shown import Shown
from discretize.kernels.solved import Solved, SolveRequest
from discretize.kernels.torchs_own import TorchRun, is_lstm_of_networks, loop_reason, quicker_reason, run_networks, torchs_run
from discretize.solvers.detached import Found
from discretize.solvers.tableaus import EmbeddedMethod
from discretize.steps.along import HeldProblem

__all__ = ["ModulePlan", "Plan", "classes_of", "input_key", "plan_of", "plan_of_field", "plan_of_networks", "start_of"]


NEVER_EXCHANGED = ("torch", "abc", "builtins", "typing")  # packages whose classes stay as they are


class Plan:
    """How a compiled kernel runs a field over samples, by steps of one length or, as `solves`, by steps that it chooses; does not
    keep the field alive."""

    kept: Found | None = None  # of the field, what the guards look at too

    def __init__(self, found: KnownKernel, problem: HeldProblem, fused: Fused) -> None:
        self.found, self.step, self.fused, self.solves = found, problem.step, fused, not problem.substeps
        self.input, self.numbers = _layout(problem.xs, self.solves), [*vars(problem.step).items()]
        self.learns: bool = any(tensor.requires_grad for tensor in found.attributes.tensors)

    def fits(self, field: VectorField, xs: Tensor) -> bool:
        """Whether a call with these samples, (time, batch, input), is like the one that was planned."""
        return _layout(xs, self.solves) == self.input and self.takes(field, xs)

    def takes(self, field: VectorField, xs: Tensor) -> bool:
        """Whether it is, of samples with the same dtype, features and the like."""
        return (
            type(xs) is Tensor and xs.numel() > 0 and not xs.is_neg() and is_ordinary(xs.device, self.fused) and self.holds(field)
        )

    def holds(self, field: VectorField) -> bool:
        """Whether the field and the step are as they were when this was planned."""
        return (
            len(own := vars(self.step)) == len(self.numbers)
            and all(own.get(name) is value for name, value in self.numbers)
            and self.found.guards.hold(field)
        )

    zeros: Tensor | None = None  # that a call began with, and later ones begin with too: nothing writes into them

    def start(self, field: VectorField, xs: Tensor, h_0: object) -> Tensor | None:
        """The states (batch, state) to begin with; None for others than a kernel reads as they are."""
        if h_0 is None:
            if (zeros := self.zeros) is None or zeros.shape[0] != xs.shape[1]:
                with torch.inference_mode(False):  # for calls outside of it too
                    self.zeros = zeros = xs.new_zeros(xs.shape[1], field.state_size)
            return zeros
        state = start_of(field, h_0, xs, 1, xs.shape[1])
        return state if state is None else state[0]

    def states(self, field: VectorField, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int) -> Tensor:
        """The state after each sample: (time, batch, input), (batch, state), dt one or (time, 1, 1) -> (time, batch, state)."""
        self.found.uses.found += 1
        lengths, number = (dt, None) if isinstance(dt, Tensor) else (None, dt)
        tensors, code = self.found.attributes.tensors, partial(StepModule, field, self.step)
        return states_of(self.found.kernel, code, substeps, number, xs, h0, lengths, *tensors)

    def solve(self, request: SolveRequest) -> Solved | str:
        """Solve by steps that the kernel chooses; or say why not."""
        self.found.uses.found += 1
        plan = plan_of_flow(self.found, request)
        return plan if isinstance(plan, str) else plan.run(request)


class ModulePlan(Plan):
    """That of a module, for calls without `ts` and `lengths`, whose samples have one length; stats: of the planned call.
    `before`: of samples of another kind, as those with a gradient, which other calls may have again."""

    before: ModulePlan | None = None
    loops = False  # whether torch's function can run networks one after another
    starts: tuple[Tensor, Any] | None = None  # zeros, and how torch's function reads them

    def after(self, before: ModulePlan | None) -> ModulePlan:
        """Go on from the plan that was kept until now."""
        if before is not None:
            self.before, before.before = before if before.input != self.input else before.before, None
        return self

    def like(self, xs: Tensor) -> ModulePlan | None:
        """Return the plan of samples like these."""
        return self.of(_layout(xs, self.solves))

    def of(self, key: tuple[Any, ...]) -> ModulePlan | None:
        if self.input == key:
            return self
        return self.before if self.before is not None and self.before.input == key else None

    def __init__(self, module: nn.Module, found: KnownKernel, problem: HeldProblem, fused: Fused, stats: dict[str, Any]) -> None:
        super().__init__(found, problem, fused)
        assert not isinstance(problem.dt, Tensor)
        self.field, self.dt, self.substeps, self.stats = problem.field, problem.dt, problem.substeps, dict(stats)
        self.calls: int = self.substeps and problem.evaluations // len(problem.xs)  # of the field, for a sample
        self.made: int = found.uses.made  # kernels until now
        self.torchs: TorchRun | None = torchs_run(self.field, self.step, self.dt, self.substeps) if self.substeps else None
        self.kind, settings = type(module), {name: value for name, value in vars(module).items() if name not in NOTES}
        self.names, self.values = [*settings], [*settings.values()]
        self.classes = UnchangedClasses(classes_of(module))

    def may_be_torchs(self) -> bool:
        """Whether torch's own function may run calls of this plan, or of the one before; it does not where kernels run them."""
        if self.torchs is not None and (self.torchs.pair or isinstance(self.found.kernel, str)):
            return True
        return self.before is not None and self.before.may_be_torchs()

    def is_of(self, module: nn.Module) -> bool:
        """Whether a module's settings, and the methods of its classes, are those that were planned with."""
        own = vars(module)
        return (
            type(module) is self.kind
            and len(own) == len(self.names) + sum(map(own.__contains__, NOTES))
            and all(map(is_, map(own.get, self.names), self.values))
            and own["_modules"].get("field") is self.field
            and self.classes.hold()
        )

    def run(self, xs: Tensor, h0: Tensor) -> tuple[Tensor, dict[str, Any]] | None:
        """The state after each sample, and what `stats` tells of the call; None where there is no kernel."""
        if self.found.kernel is None or isinstance(self.found.kernel, str):
            return None
        return self.states(self.field, xs, h0, self.dt, self.substeps), self.told(*xs.shape[-3:-1])

    def shown(self, xs: Tensor, h0: Tensor) -> tuple[Shown, dict[str, Any]] | None:
        """What is read of a module's call by torch's own function, where that is to run it; h0 (batch, state)."""
        learning = torch.is_grad_enabled() and (self.learns or xs.requires_grad or h0.requires_grad)
        if self.torchs is None or (why := self.torchs_reason(xs.shape[0], xs.shape[1], learning)) is None:
            return None
        began = time.perf_counter()
        if h0 is not self.zeros:
            found = self.torchs(xs, h0[None])
        else:
            if (starts := self.starts) is None or starts[0] is not h0:
                with torch.inference_mode(False):
                    self.starts = starts = h0, self.torchs.starts(h0[None])
            found = self.torchs.begun(xs, starts[1])  # which are of this call, whatever another thread keeps meanwhile
        self.took(began, why)
        return found, self.told(xs.shape[0], xs.shape[1], None, why)

    def torchs_reason(self, samples: int, batch: int, learning: bool, packed: bool = False) -> str | None:
        """Why torch's own function runs so many samples and no kernel does; None where it does not."""
        if self.torchs is None:
            return None
        if self.torchs.pair and not packed and (why := quicker_reason(self.field, self.fused, samples, batch, learning)):
            return why
        why, uses = self.found.kernel, self.found.uses
        if not isinstance(why, str) or waits_for_kernels(self.fused) or uses.made != self.made:
            return None
        return uses.waiting() if isinstance(why, Waiting) else why

    def looped(self, xs: Tensor) -> tuple[tuple[Tensor, Tensor], dict[str, Any]] | None:
        """Run an ensemble's networks one after another by torch's function, where that is sooner; None elsewhere.

        Returns: what is visible of them and their last states, and what `stats` tells.
        """
        if not self.loops:
            return None
        samples, batch = xs.shape[-3], xs.shape[-2]
        learning = torch.is_grad_enabled() and (self.learns or xs.requires_grad)
        why = loop_reason(self.field, self.fused, samples, batch, learning)
        return None if why is None else (run_networks(self.field, xs), self.told(samples, batch, None, why))

    def took(self, began: float, why: str | None) -> None:
        """Count the seconds of a call that torch has run for such a reason, where they pay for a kernel."""
        if isinstance(why, Waiting):
            self.found.uses.took(time.perf_counter() - began, self.learns and torch.is_grad_enabled())

    def told(self, samples: int, batch: int, lengths: list[int] | None = None, why: str | None = None) -> dict[str, Any]:
        """What `stats` tells of a call; lengths: of its sequences, where they do not all have so many samples; why: torch has run
        it."""
        calls, each = samples * self.calls, [self.substeps * length for length in lengths or [samples]]
        engine = {"engine": "compiled", "engine_why": None} if why is None else {"engine": "torch", "engine_why": str(why)}
        return (
            self.stats
            | engine
            | {
                "nfe": calls,
                "nfe_samples": calls * batch,
                "num_steps": max(each),
                "num_accepted_steps": max(each),
                "steps_of_samples": each,
                "accepted_steps_of_samples": [*each],
                "rejected_steps_of_samples": [0] * len(each),
            }
        )


def plan_of(module: nn.Module, problem: HeldProblem, fused: Fused, stats: dict[str, Any]) -> ModulePlan | None:
    r"""Plan calls of a module like one that a compiled kernel has run, or torch's own function; return None for what hangs on
    more than guards look at.

    Args:    module: of this project, or of a class or object that changes nothing of it; problem, stats: of the call.
    """
    found = _known(problem, fused, looked_at if stats["engine"] == "torch" else known_kernel) if _is_ours(module) else None
    return None if found is None else ModulePlan(module, found, problem, fused, stats)


def _known(
    problem: HeldProblem, fused: Fused, of_steps: Callable[[HeldProblem], KnownKernel | None] = known_kernel
) -> KnownKernel | None:
    field, step, xs, h0, _, substeps = problem
    if type(xs) is not Tensor or not is_ordinary(xs.device, fused) or xs.dtype != h0.dtype or noise_channels(field):
        return None
    if substeps:
        return of_steps(problem)
    assert isinstance(step, EmbeddedMethod)
    return known_flow(field, step, xs)


def plan_of_networks(module: nn.Module, problem: HeldProblem, fused: Fused, stats: dict[str, Any]) -> ModulePlan | None:
    """Plan calls of an ensemble, whose weights are stacked in the module, and whose outputs are the states' first units; h0
    (networks, batch, state)."""
    field, _, xs, *_ = problem
    probe = xs.new_zeros(2, 3, field.state_size)
    try:
        shown = field.visible(probe)
    except Exception:  # which reads weights of one network
        return None
    if shown.data_ptr() != probe.data_ptr() or shown.stride() != probe.stride() or shown.shape != (2, 3, field.hidden_size):
        return None
    if not _is_ours(module) or not is_ordinary(xs.device, fused) or noise_channels(field):
        return None
    kernel = kernel_of_networks(problem)
    if kernel is None:
        return None
    plan = ModulePlan(module, kernel, problem, fused, stats)
    plan.loops = is_lstm_of_networks(field, plan.step, plan.dt, plan.substeps, len(problem.h0))
    return plan


def classes_of(module: nn.Module) -> list[type]:
    """The classes that a module's methods come from, but for torch's and Python's."""
    return [kind for kind in type(module).__mro__ if kind.__module__.partition(".")[0] not in NEVER_EXCHANGED]


def _is_ours(module: nn.Module) -> bool:
    """Whether a module is of this project, or of a class or object that changes nothing of it."""
    return own_code(module, next(kind for kind in type(module).__mro__ if kind.__module__.startswith("discretize."))) is None


def plan_of_field(problem: HeldProblem, fused: Fused) -> Plan | None:
    """Plan solves of a field like one that a compiled kernel has run; return as `plan_of`."""
    found = _known(problem, fused)
    return None if found is None else Plan(found, problem, fused)


def start_of(field: VectorField, h_0: object, like: Tensor, number: int, batch: int) -> Tensor | None:
    """The states (number, batch, state) that a call of modules begins with; None for others than are read as they are."""
    width, hidden = field.state_size, field.hidden_size
    if h_0 is None:
        return like.new_zeros(number, batch, width)
    parts: tuple[Any, ...] = (h_0,)
    if type(h_0) is tuple and len(h_0) == 2 and width == 2 * hidden:
        parts, shapes = h_0, [(number, batch, hidden), *([(batch, hidden)] if number == 1 else [])]
    else:
        shapes = [(number, batch, width), *([(batch, width)] if number == 1 else [])]
    for part in parts:
        if type(part) is not Tensor or part.shape not in shapes or part.shape != parts[0].shape or part.is_neg():
            return None
        if (part.dtype, part.device, part.layout) != (like.dtype, like.device, like.layout):
            return None
    whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    return whole.reshape(number, batch, width) if math.isfinite(whole.detach().sum().item()) else None


def input_key(x: Tensor, features: int, requires_grad: bool, recorded: bool = False) -> tuple[Any, ...]:
    """What plans look at of samples, of so many features; recorded: whether what is projected of them has a gradient."""
    return x.dtype, x.device, x.layout, features, requires_grad, recorded, torch.get_default_dtype()


def _layout(x: Tensor, solves: bool) -> tuple[Any, ...]:
    return input_key(x, x.shape[-1], x.requires_grad, solves and torch.is_grad_enabled())
