r"""Make a program for kernels of a field's code, or of a step of it: record it, differentiate it by torch, read it.

    y = step.advance(field, field.project(x), h, dt)    or    y = field.flow(x, h), x the projected input, or its derivative
    and, by torch's own derivatives, for a cotangent q of y:
    q dy/dh, q dy/dx, q dy/ddt, and for every weight w the sum over samples of q dy/dw

Sizes of the batch are unknown when it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from ctrnn import VectorField
from ctrnn.forward import JVP
from ctrnn.rewriting import Rewritten
from discretize import compat
from discretize.kernels.record.attributes import OF_TORCH, attributes_of
from discretize.kernels.record.collection import full_collections_postponed
from discretize.kernels.record.copies import copied_with
from discretize.kernels.record.equations import no_matrix, recorded_solution
from discretize.kernels.record.lowering import is_known, zones_of
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import (
    LinesNotRecordedError,
    ModuleRecord,
    UnknownOperation,
    UnknownSizes,
    decompositions,
    record,
    source_line,
)
from discretize.kernels.record.rewriting import OF_DERIVATIVES, RULES
from discretize.kernels.record.values import Value
from discretize.kernels.record.zones import Zones
from discretize.steps.algebra.exchanged import JACOBIAN, SOLUTION
from discretize.steps.step import Step

if TYPE_CHECKING:
    from discretize.kernels.record.attempt import AttemptModule

__all__ = [
    "CodeModule",
    "EquationJVP",
    "EquationModule",
    "FlowModule",
    "InputJVP",
    "Program",
    "StateJVP",
    "StepModule",
    "Text",
    "Weights",
    "Writer",
    "jvp_in_reverse",
    "program_of",
    "weights_of",
    "with_weights",
]

Module = TypeVar("Module", bound=nn.Module)
CodeModule: TypeAlias = "StepModule | FlowModule | AttemptModule"
Weights = Sequence[Tensor | None]
Text = TypeVar("Text")  # a writer's dataclass: a kernel's text with its sizes, or what one text is made of with others
Writer: TypeAlias = Callable[[ProgramValues], Text]


class FieldCode(nn.Module):
    """A module of a field that gives for each sample as many numbers as its state has."""

    field: VectorField
    is_differentiated: ClassVar[bool] = True

    def __init__(self, field: VectorField) -> None:
        super().__init__()
        self.field = field

    @property
    def answer(self) -> int:
        """How many numbers it gives for a sample."""
        return self.field.state_size

    @property
    def device(self) -> torch.device | None:
        return self.field.device


class StepModule(FieldCode):
    """A step of a field, from the sample on."""

    step: Step

    def __init__(self, field: VectorField, step: Step) -> None:
        super().__init__(field)
        self.step = step

    @property
    def samples(self) -> dict[str, int]:
        """What each sample gives, and of which width."""
        return {"x": self.field.input_size, "h": self.field.state_size, "dt": 1}

    def forward(self, x: Tensor, h: Tensor, dt: Tensor) -> Tensor:
        return self.step.advance(self.field, self.field.project(x), h, dt)


class FlowModule(FieldCode):
    """A field's `flow`, from the projected input on."""

    columns: int

    def __init__(self, field: VectorField, columns: int) -> None:
        super().__init__(field)
        self.columns = columns

    @property
    def samples(self) -> dict[str, int]:
        return {"x": self.columns, "h": self.field.state_size}

    def forward(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h)


class StateJVP(FlowModule):
    """The Jacobian-vector product (dF/dh) v, of the projected input and [h, v]."""

    @property
    def samples(self) -> dict[str, int]:
        return {"x": self.columns, "h": 2 * self.field.state_size}

    def forward(self, projected: Tensor, h: Tensor) -> Tensor:
        h, direction = h.chunk(2, -1)
        return jvp_in_reverse(lambda u: self.field.flow(projected, u), h, direction)


class EquationModule(FlowModule):
    """The slope and the leak side by side, as who solves an equation of a step reads them; with all that the step keeps.

    It and `EquationJVP` are not differentiated: what comes back through a solution is recorded with the step.
    """

    is_differentiated = False
    step: Step

    def __init__(self, of: StepModule, columns: int) -> None:
        super().__init__(of.field, columns)
        self.step = of.step

    @property
    def answer(self) -> int:
        return 2 * self.field.state_size

    def forward(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.cat([each.expand_as(h) for each in self.field.flow_and_leak(projected, h)], -1)


class EquationJVP(StateJVP):
    """The Jacobian of an equation's F, likewise."""

    is_differentiated = False
    step: Step

    def __init__(self, of: StepModule, columns: int) -> None:
        super().__init__(of.field, columns)
        self.step = of.step


class InputJVP(FlowModule):
    """The Jacobian-vector product (dF/dx) v, of [x, v] and the state."""

    @property
    def samples(self) -> dict[str, int]:
        return {"x": 2 * self.columns, "h": self.field.state_size}

    def forward(self, projected: Tensor, h: Tensor) -> Tensor:
        projected, direction = projected.chunk(2, -1)
        return jvp_in_reverse(lambda u: self.field.flow(u, h), projected, direction)


@dataclass(frozen=True, eq=False)
class Program(Generic[Text]):
    r"""What a kernel is made of.

    before: weights and constants -> vectors and matrices; written: the kernel's text; sums: the sizes of sums over samples;
    after: weights, constants and sums -> the weights' gradients, None for those that are 0; constants: tensors that the code
    makes; nobody: None in the places of per-sample arguments, before the constants.
    """

    before: GraphModule
    written: Text
    sums: tuple[tuple[int, ...], ...]
    after: GraphModule
    constants: tuple[Tensor, ...]
    nobody: tuple[None, ...]

    def read(self, weights: Weights) -> tuple[list[Tensor], list[Tensor]]:
        """The vectors and matrices that the kernel reads."""
        with torch.no_grad():
            operands: tuple[list[Tensor], list[Tensor]] = self.before.forward(*weights, *self.nobody, *self.constants)
        return operands

    def gradients(self, weights: Weights, sums: Sequence[Tensor]) -> list[Tensor | None]:
        """The weights' gradients, None for those that are 0."""
        with torch.no_grad():
            gradients: list[Tensor | None] = self.after.forward(*weights, *self.nobody, *self.constants, *sums)
        return gradients


def weights_of(module: nn.Module) -> list[Tensor]:
    """List all tensors of a module, without repeats; empty if it cannot be inspected."""
    attributes = attributes_of(module)
    return [] if isinstance(attributes, str) else [*attributes.tensors]


def with_weights(module: Module, weights: Sequence[Tensor]) -> Module:
    """A copy of a module with those in place of `weights_of` it."""
    return copied_with(module, weights_of(module), weights)


@full_collections_postponed()
def program_of(module: CodeModule, wanted: Mapping[str, bool], dtype: torch.dtype, write: Writer[Text]) -> Program[Text]:
    r"""Record and read a module.

    Args:    wanted: whether gradients to "x", to "dt" and to slopes are wanted; those to h and to weights that require them
             always are; dtype: of samples; write: what makes a text of the values.
    Raises:  Unknown, with the line of code, where no kernel can be written; ValueError where torch cannot record the code.
    """
    compat.require(compat.RECORDING)
    try:
        return _program(module, wanted, dtype, write, lines=False)
    except LinesNotRecordedError:
        return _program(module, wanted, dtype, write, lines=True)


def _program(
    module: CodeModule, wanted: Mapping[str, bool], dtype: torch.dtype, write: Writer[Text], lines: bool
) -> Program[Text]:
    """Do as `program_of`; lines: whether they are recorded. Raises: LinesNotRecordedError where one is to be named and is not."""
    differentiated = getattr(module, "is_differentiated", True)
    learned = [weight.requires_grad and differentiated for weight in weights_of(module)]
    moved = ("h", *(name for name in module.samples if name != "h" and wanted.get(name))) if differentiated else ()
    widths = module.samples | {"cotangent": module.answer}
    joint, has_gradient = _joint_record(module, moved, learned, widths, dtype, lines)
    read = zones_of(joint.graph, {placeholder: name for name, (placeholder,) in joint.inputs.items()}, dtype)
    following, *cotangents = joint.returned
    answers = iter(cotangents)
    nodes = iter([next(answers) if there else None for there in has_gradient])
    gradients = {name: _row(read, next(nodes), widths[name]) for name in moved}
    after = read.after_graph([next(nodes) if moves else None for moves in learned])
    units = module.field.state_size if isinstance(module, StateJVP) else None
    text = write(ProgramValues(_row(read, following, module.answer), gradients, read.pairs, units))
    return Program(read.before_graph(), text, read.shapes, after, tuple(joint.constants.values()), (None,) * len(widths))


def _joint_record(
    module: CodeModule,
    moved: Sequence[str],
    learned: Sequence[bool],
    widths: Mapping[str, int],
    dtype: torch.dtype,
    lines: bool,
) -> tuple[ModuleRecord, list[bool]]:
    """Record a module with its gradients to `moved` samples and learned weights; tell which there are."""
    weights = {str(place): weight.detach() for place, weight in enumerate(weights_of(module))}
    has_gradient, changes = list[bool](), list[list[str]]()

    def joint(weights: list[Tensor], arguments: tuple[Tensor, ...]) -> list[Tensor]:
        *inputs, cotangent = arguments
        weights = [w.detach().requires_grad_(moves) for w, moves in zip(weights, learned, strict=True)]
        samples = {name: tensor.detach().requires_grad_() for name, tensor in zip(module.samples, inputs, strict=True)}
        code = with_weights(module, weights)
        # By name once it is known that something changes: it takes a third of the time of a recording.
        before, by_name = _values(code), dict(_values_by_name(code)) if changes else {}
        with torch.enable_grad(), _in_place(code):
            following = code(*samples.values())
        if _values(code) != before:
            changes.append(_changed(by_name, dict(_values_by_name(code))) if by_name else [])
        sources = [*(samples[name] for name in moved), *(w for w in weights if w.requires_grad)]
        gradients: Any = [None] * len(sources)
        if following.requires_grad and sources:
            gradients = torch.autograd.grad(following, sources, cotangent, allow_unused=True)
        has_gradient.extend(gradient is not None for gradient in gradients)
        return [following, *(gradient for gradient in gradients if gradient is not None)]

    ways, sizes = decompositions(is_known, all_of_torch=True), UnknownSizes({"batch": 3})
    recording = partial(record, ways, joint, weights, widths, sizes, dtype, module.device, lines)
    recorded = recording()
    if recorded.asked:
        raise UnknownOperation(
            f"its code makes a number of the size of the batch{recorded.asked_at}; `h.shape[0]` in place of `len(h)` does not"
        )
    for placeholder in recorded.graph.find_nodes(op="placeholder"):
        if placeholder.name in recorded.constants and recorded.constants[placeholder.name].requires_grad:
            line = source_line(next(iter(placeholder.users), placeholder))
            raise UnknownOperation(f"its code reads a tensor with a gradient that is no parameter: {line}")
    if (written := recorded.written_at) is not None:
        raise UnknownOperation(f"its code changes what it is given, or what the field keeps: {written}")
    if changes:
        recording()  # with names
        raise UnknownOperation("its code changes what the field keeps" + f": {', '.join(changes[-1])}" * bool(changes[-1]))
    return recorded, has_gradient[-len(moved) - sum(learned) :]  # recorded twice


def _row(read: Zones, node: Any, width: int) -> Value:
    """What a node of the graph is for each sample."""
    if node is None:
        return read.values.make("spread", [read.values.number(0.0)], width)
    value = read.rows.get(node)
    if not isinstance(value, Value):
        raise UnknownOperation(f"its code mixes samples: {source_line(node)}")
    return value if value.width == width else read.values.make("spread", [value], width)


def jvp_in_reverse(f: Callable[[Tensor], Tensor], at: Tensor, direction: Tensor) -> Tensor:
    """By two derivatives in reverse, (d/dq) (q df/dh) . v: forward mode torch does not record at a batch of unknown size."""
    with torch.enable_grad():
        at = at if at.requires_grad else at.detach().requires_grad_()
        with Rewritten(RULES | OF_DERIVATIVES):
            value = f(at)
        if not value.requires_grad:
            return torch.zeros_like(value)
        cotangent = torch.ones_like(value).requires_grad_()
        made: dict[str, bool] = {"create_graph": True, "allow_unused": True, "materialize_grads": True}
        (turned,) = torch.autograd.grad(value, at, cotangent, **made)
        if not turned.requires_grad:
            return torch.zeros_like(value)
        (product,) = torch.autograd.grad(turned, cotangent, direction, **made)
    return product


@contextmanager
def _in_place(code: CodeModule) -> Iterator[None]:
    """What is recorded in place of what torch cannot record, or no kernel is written for."""
    solver = partial(recorded_solution, getattr(code, "field", None))
    with Rewritten(RULES), JVP.by(_with_value), SOLUTION.by(solver), JACOBIAN.by(no_matrix):
        yield


def _with_value(f: Callable[[Tensor], Tensor], at: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """f(at) and its derivative along a direction; as a view, by which f reads what is moved and nothing else of `at`."""
    if compat.transforms_are_active():
        raise UnknownOperation(
            "it takes the field's Jacobian as a matrix, of which kernels of sequences know no more than products"
        )
    with torch.enable_grad():
        return f(at), jvp_in_reverse(f, at.view_as(at), direction)


def _values(value: object) -> Any:
    attributes = attributes_of(value)
    return attributes if isinstance(attributes, str) else attributes.values


def _values_by_name(code: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the name and the values of each attribute of a module and its parts, of what attributes keep, and of classes."""
    for path, part in code.named_modules():
        yield f"class {type(part).__qualname__}", _values(type(part))
        own = {
            name: value for name, value in vars(part).items() if name not in OF_TORCH | {"_parameters", "_buffers", "_modules"}
        }
        for key, value in (own | part._parameters | part._buffers).items():
            name = f"{path}.{key}".removeprefix(".")
            yield name, _values(value)
            yield from ((f"{name}.{each}", _values(kept)) for each, kept in getattr(value, "__dict__", {}).items())


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    names = [name for name in {**before, **after} if before.get(name, "") != after.get(name, "")]
    return [f"`{name}`" for name in names if not any(other.startswith(f"{name}.") for other in names)]
