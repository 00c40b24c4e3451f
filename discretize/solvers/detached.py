r"""Detaches a solve's inputs, so that recomputation differentiates one block only.

A part of a solve that is computed again for its gradient must not differentiate the projection of the whole sequence each
time: it gives gradients by the samples it reads, and the projection is differentiated once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.autocast import without_autocast
from ctrnn.inputs.path import Data
from ctrnn.inputs.segment_input import SegmentInput
from discretize.solvers.segments import Chain

__all__ = [
    "DetachedInput",
    "Found",
    "ModuleSettings",
    "ParameterSnapshot",
    "check_same_states",
    "detached_chain",
    "once_only",
    "refuse_captured",
]

# Of the largest state of a sample: the same steps again are the same to the bit, but for another number of threads.
ROUNDING = {torch.float64: 1e-9}
SETTINGS = (bool, int, float, str)


class DetachedInput(SegmentInput):
    """Replaces a path's data by leaves when they are first read; `leaves[j]` are those of segment j."""

    pieces: Tensor
    steady: bool
    own_times: bool

    def __init__(self, given: SegmentInput) -> None:
        self.path, self.pieces, self._given = given.path, given.pieces, given
        self.steady, self.own_times = given.steady, given.own_times
        self._detached: dict[int, Data] = {}
        self.leaves: dict[int, list[Tensor]] = {}

    def whole(self, j: int) -> Data:
        if j not in self._detached:
            self._detached[j] = [x.detach().requires_grad_() if x.requires_grad else x for x in self._given.whole(j)]
            self.leaves[j] = [x for x in self._detached[j] if x.requires_grad]
        return self._detached[j]


def detached_chain(chain: Chain) -> tuple[Chain, DetachedInput]:
    """Return the chain with its input detached, and that input."""
    cut = copy.copy(chain)
    cut.path = path = DetachedInput(chain.path)
    return cut, path


Result = TypeVar("Result")
Gradients = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor | None]]


class ModuleSettings:
    """Keeps the numbers, flags and words that a module's parts have as attributes now, modes too, for work to be done later."""

    def __init__(self, module: nn.Module) -> None:
        self._kept = [(vars(part), {k: v for k, v in vars(part).items() if type(v) in SETTINGS}) for part in module.modules()]

    @contextmanager
    def restored(self) -> Iterator[None]:
        changed = [
            (own, name, own[name], old) for own, kept in self._kept for name, old in kept.items() if own.get(name, old) != old
        ]
        for own, name, _, old in changed:
            own[name] = old
        try:
            yield
        finally:
            for own, name, now, old in changed:
                if own[name] == old:
                    own[name] = now
                elif type(old) is int and type(now) is int:
                    own[name] += now - old  # the code counts its calls


Found = tuple[ModuleSettings, dict[str, Tensor]]


class ParameterSnapshot:
    r"""Keeps the parameters, buffers and settings a field has now, for work to be done later.

    By then a `functional_call` may have replaced tensors, which is undone, as are other settings and `eval()`, or an optimizer
    changed them in place: refused, or undone too where the numbers were `copied`. What else has changed is seen by the states:
    `check_same_states`.
    """

    def __init__(self, field: VectorField, copied: bool = False, found: Found | None = None) -> None:
        """found: the settings and tensors of an earlier one, which are known to be the same objects still."""
        if found is None:
            found = ModuleSettings(field), dict([*field.named_parameters("field"), *field.named_buffers("field")])
        self._field, self.found = field, found
        self._settings, self._tensors = found
        self._versions = {name: _version(tensor) for name, tensor in self._tensors.items()}
        self._copies = {name: tensor.detach().clone() for name, tensor in self._tensors.items()} if copied else {}
        self.learned: list[Tensor] = [tensor for tensor in self._tensors.values() if tensor.requires_grad]

    def changed(self) -> str | None:
        """Return the name of a tensor that was written into since, or None."""
        return next(
            (name.partition(".")[2] for name, tensor in self._tensors.items() if _version(tensor) != self._versions[name]), None
        )

    def check_unchanged(self) -> None:
        """Raise RuntimeError if a tensor was written into since."""
        if name := self.changed():
            raise RuntimeError(
                f"`{name}` was written into between the solve and its backward pass, which needs it as it was; do it after, or "
                "leave `gradient` out."
            )

    def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` with the field as it was, without autocast."""
        self.check_unchanged()
        return self._run(work, self._tensors)

    def run_copies(self, work: Callable[[], Result]) -> Result:
        """Run `work` with the numbers that were copied, without gradients to the parameters."""
        return self._run(work, self._copies if self.changed() else self._tensors)

    def with_gradients(
        self, setting: str, gradients: Gradients, outputs: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Give the outputs of a solve without a graph gradients to its inputs, which are computed when they are asked for.

        Args:    gradients: (cotangents, outputs, inputs) -> the gradient of each input, run with the field as it was.
        """
        return list(_WithGradients.apply(self, setting, gradients, len(outputs), *outputs, *inputs))

    def _run(self, work: Callable[[], Result], tensors: dict[str, Tensor]) -> Result:
        with without_autocast(next((tensor.device for tensor in tensors.values()), None)), self._settings.restored():
            return torch.func.functional_call(_Caller(self._field), tensors, (work,))


class _WithGradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, snapshot: ParameterSnapshot, setting: str, gradients: Gradients, count: int, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.given = snapshot, setting, gradients, count
        outputs = tuple(tensor.clone() for tensor in tensors[:count])
        ctx.save_for_backward(*outputs, *tensors[count:])
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        snapshot, setting, gradients, count = ctx.given
        snapshot.check_unchanged()  # before torch looks at the saved tensors, whose names it does not know
        outputs, inputs = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        with torch.no_grad():
            results = snapshot.run(lambda: gradients(cotangents, outputs, inputs))
        return (*[None] * (4 + count), *once_only(setting, results, [*cotangents, *inputs]))


def check_same_states(again: Tensor, before: Tensor, setting: str) -> None:
    """Raise RuntimeError where the backward pass has computed other states than the solve: what the field reads has changed."""
    again, before = again.detach(), before.detach()
    size = torch.maximum(again.abs(), before.abs()).nan_to_num(0, 0, 0).amax(-1, keepdim=True) if again.numel() else 1.0
    off = (again - before).abs() > size * ROUNDING.get(before.dtype, 1e-4)
    if bool(off.any()):
        raise RuntimeError(
            f"The field gives other states in the backward pass of `{setting}` than in the solve: an attribute, a global or what "
            "else its code reads has changed, or it does not give the same twice (dropout, running statistics). Change it after, "
            f"or leave `{setting.partition('=')[0]}` out."
        )


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # torch does not count writes into inference tensors


class _Caller(nn.Module):
    def __init__(self, field: VectorField) -> None:
        super().__init__()
        self.field = field

    def forward(self, work: Callable[[], Result]) -> Result:
        return work()


def refuse_captured(chain: Chain, learned: Sequence[Tensor], h0: Tensor, setting: str) -> None:
    """Refuse tensors that require a gradient and are neither learned parameters of the field, nor samples, nor h0."""
    if not len(chain):
        return
    cut, path = detached_chain(chain)
    # A path or a speed of the user's own may use other tensors in each piece; it is one that takes one time for all.
    for j in range(1 if chain.own_times else len(chain)):
        segment = cut.segment(j)
        with torch.enable_grad():
            middle = 0.5 * segment.length(h0.device).detach()
            start = h0.detach().requires_grad_()  # as it is in the backward pass; the field may have set that itself
            slope = segment(middle if middle.dim() else middle.reshape(()), start)
        known = (*learned, *path.leaves[j], start)
        for leaf in _leaves_behind(slope, known):
            if id(leaf) not in map(id, known):
                raise ValueError(
                    f"`{setting}` gives gradients to the field's parameters, the samples of the path and h0, and a tensor of "
                    f"shape {tuple(leaf.shape)} that requires one is used besides. Make it a parameter of the field, detach it, "
                    f"or leave `{setting.partition('=')[0]}` out: gradients then flow everywhere."
                )


def _leaves_behind(result: Tensor, known: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the tensors that the graph of a result ends at, not following what the `known` ones (weights with parametrizations)
    were computed from."""
    if result.grad_fn is None and result.requires_grad:
        yield result
    waiting, seen = [result.grad_fn], {tensor.grad_fn for tensor in known}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting.extend(following for following, _ in node.next_functions)


def once_only(setting: str, gradients: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> list[Tensor | None]:
    """Mark first derivatives so that differentiating them again, by any input, is an error.

    torch's own `once_differentiable` has no effect under `torch.autograd.grad`, which then takes them for constants.
    """
    present = [gradient for gradient in gradients if gradient is not None]
    marked = iter(_OnceOnly.apply(setting, len(present), *present, *inputs))
    return [None if gradient is None else next(marked) for gradient in gradients]


class _OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, setting: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.setting = setting
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        name = ctx.setting
        raise RuntimeError(f"There are no second derivatives with `{name}`; leave it out, and gradients are graphs of their own.")
