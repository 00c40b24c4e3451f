r"""Load written Triton text and run it over sequences on a GPU, or under Triton's interpreter (TRITON_INTERPRET=1) anywhere.

A program of the grid takes a tile of samples through all times. Sums over samples and steps, by which weights have their
gradients, are products of torch's afterwards, of what the way back left.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType

import torch
from torch import Tensor

from ctrnn.extras import install_line
from discretize.kernels.cpp.programs import strides
from discretize.kernels.eligibility import takes_triton
from discretize.kernels.record.program import Program, Writer
from discretize.kernels.triton.passes import Needs
from discretize.kernels.triton.writing import Place, TritonText, written

__all__ = ["STORED", "TritonKernel", "TritonNetworks", "launch", "summed", "triton_reason", "writer"]

ROWS = 16  # samples of a tile: the fewest that a product takes
WARPS, MANY_WARPS, WIDE = 4, 8, 64  # of more units, four have too few registers
# tf32x3: on tensor cores, to about the rounding of float32
PRECISION = {"highest": "tf32x3", "high": "tf32x3", "medium": "tf32"}  # by torch.get_float32_matmul_precision()
STORED = (torch.bfloat16,)  # in which samples, states and matrices may lie; sums are float32


def triton_reason(like: Tensor, stored: Sequence[torch.dtype] = ()) -> str | None:
    """Why there is no kernel in Triton for tensors of this dtype and device; stored: dtypes that are taken for storage."""
    if importlib.util.find_spec("triton") is None:
        return f"triton is not installed; {install_line('gpu')}"
    if like.dtype not in (torch.float32, torch.float64, *stored):
        return f"these kernels for GPUs are for float32 and float64, and this is {like.dtype}"
    return None if takes_triton(like.device) else f"kernels for GPUs do not run on {like.device} but under TRITON_INTERPRET=1"


@cache
def writer(dtype: torch.dtype) -> Writer[TritonText]:
    """Write programs of sequences for numbers of this dtype."""
    return partial(written, dtype=dtype)


class TritonKernel:
    """A program's two passes. Samples, states after them, matrices and what is kept have the dtype of xs, all else h0's."""

    program: Program[TritonText]
    moves: Mapping[str, bool]

    def __init__(self, program: Program[TritonText], dtype: torch.dtype, moves: Mapping[str, bool]) -> None:
        self.program, self.moves = program, moves
        self.text: TritonText = program.written

    def call(self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]) -> _Call:
        weights = [weight.detach() for weight in weights]
        vectors, matrices = self.program.read(weights)
        # What code without weights makes was recorded on the CPU.
        vectors = [vector.to(h0.device) for vector in vectors]
        matrices = [matrix.to(h0.device, xs.dtype) for matrix in matrices]
        lengths = dt.detach() if isinstance(dt, Tensor) else h0.new_full((), dt)
        rests = rests and lengths.dim() > 0
        given = xs.detach().contiguous(), h0.detach().contiguous(), lengths, weights, vectors, matrices, substeps, rests
        return _Call(self, *given)


class TritonNetworks:
    """A program's two passes, of one network, or of an ensemble's by a launch each: h0 and weights, and xs and dt if they differ,
    then have a first axis for networks."""

    one: TritonKernel
    moves: Mapping[str, bool]

    def __init__(self, program: Program[TritonText], dtype: torch.dtype, moves: Mapping[str, bool]) -> None:
        self.one, self.moves = TritonKernel(program, dtype, moves), moves

    def call(
        self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]
    ) -> _Call | _Calls:
        if h0.dim() == 2:
            return self.one.call(substeps, rests, xs, h0, dt, weights)
        own_xs, lengths = xs.dim() > 3, dt if isinstance(dt, Tensor) and dt.dim() > 3 else None
        each = (
            (xs[k] if own_xs else xs, h0[k], dt if lengths is None else lengths[k], [weight[k] for weight in weights])
            for k in range(len(h0))
        )
        return _Calls([self.one.call(substeps, rests, *given) for given in each], own_xs, lengths is not None)


def launch(text: str, name: str, h0: Tensor, width: int, given: Sequence[object], how: Mapping[str, object]) -> None:
    """A kernel of a text for all samples of h0; width: the largest of its vectors."""
    how = {"ROWS": ROWS, "PRECISION": PRECISION[torch.get_float32_matmul_precision()]} | dict(how)
    warps = MANY_WARPS if width > WIDE else WARPS
    with torch.cuda.device_of(h0):
        # One stage: loads of what this pass itself stores must not be brought forward.
        getattr(_loaded(text), name)[(-(-len(h0) // ROWS),)](*given, **how, num_warps=warps, num_stages=1)


@dataclass(frozen=True)
class _Call:
    """The numbers of a call, and its two passes."""

    kernel: TritonKernel
    xs: Tensor
    h0: Tensor
    dt: Tensor
    weights: list[Tensor]
    vectors: list[Tensor]
    matrices: list[Tensor]
    substeps: int
    rests: bool

    def weights_of(self, needs: Needs) -> list[Tensor]:
        return [*(self.vectors[k] for k in needs.vectors), *(self.matrices[k] for k in needs.matrices)]

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None]:
        """The states after samples, (time, batch, state), and what the backward pass reads."""
        (time, batch, _), text, xs = self.xs.shape, self.kernel.text, self.xs
        states = xs.new_empty(time, batch, self.h0.shape[-1])
        kept = xs.new_empty(time * self.substeps + 1 if keep else 1, batch, text.kept)
        scratch = self.h0.new_empty(batch, text.forward.scratch)
        given = (xs, self.h0, self.dt, states, kept, scratch, *self.weights_of(text.forward))
        self._launch("forward", given, batch * text.kept if keep else 0)
        return states, kept if keep else None

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        """The gradients to x, h0, dt and the weights."""
        (time, batch, inputs), text, xs, grad = self.xs.shape, self.kernel.text, self.xs, grad.resolve_neg()
        of_x, of_dt = (like.new_empty(time, self.substeps, batch, width) for like, width in ((xs, inputs), (self.h0, 1)))
        operands = xs.new_empty(time, self.substeps, batch, text.operands)
        of_h0, scratch = torch.empty_like(self.h0), self.h0.new_empty(batch, text.backward.scratch)
        given = (xs, self.dt, grad.contiguous(), kept, scratch, operands, of_x, of_h0, of_dt, *self.weights_of(text.backward))
        self._launch("backward", given, batch * text.kept)
        rows = {"x": xs[:, None].expand(of_x.shape), "kept": kept[:-1].unflatten(0, (time, self.substeps)), "operands": operands}
        moves = self.dt[:, None] != 0 if self.rests else None  # nothing of samples at rest, nan neither
        pairs = zip(text.sums, self.kernel.program.sums, strict=True)
        sums = [summed(rows, *pair, self.h0.dtype, moves).reshape(shape) for pair, shape in pairs]
        return [
            of_x.sum(1) if needed[0] else None,
            of_h0,
            (of_dt.sum(1) / self.substeps).sum_to_size(self.dt.shape) if needed[2] else None,
            *self.kernel.program.gradients(self.weights, sums),
        ]

    def _launch(self, name: str, given: tuple[Tensor, ...], kept_step: int) -> None:
        time, batch, inputs = self.xs.shape
        _, _, dt_time, dt_batch = strides(self.dt)
        sizes = (time, batch, self.substeps, inputs, batch * inputs, kept_step, dt_time, dt_batch)
        width = max(inputs, self.h0.shape[-1])
        # bfloat16 has fewer digits than TF32.
        how = {"RESTS": self.rests} | ({"PRECISION": "tf32"} if self.xs.dtype in STORED else {})
        launch(self.kernel.text.text, name, self.h0, width, (*given, *sizes), how)


@dataclass(frozen=True)
class _Calls:
    """A call for each network of an ensemble, and whether they have xs and dt of their own."""

    each: list[_Call]
    own_xs: bool
    own_dt: bool

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None]:
        found = [call.forward(keep) for call in self.each]
        kept = [kept for _, kept in found if kept is not None]
        return torch.stack([states for states, _ in found]), torch.stack(kept) if keep else None

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        found = [call.backward(mine, of_hs, needed) for call, mine, of_hs in zip(self.each, kept, grad, strict=True)]
        stacked = (None if parts[0] is None else torch.stack(parts) for parts in zip(*found, strict=True))
        of_xs, of_h0, of_dt, *of_weights = stacked
        of_xs = of_xs if self.own_xs or of_xs is None else of_xs.sum(0)
        return [of_xs, of_h0, of_dt if self.own_dt or of_dt is None else of_dt.sum(0), *of_weights]


def summed(
    rows: Mapping[str, Tensor], left: Place, right: Place | None, dtype: torch.dtype, moves: Tensor | None = None
) -> Tensor:
    """Sum numbers, or products of each with each, over samples and steps; moves: which samples count, all without it."""
    found = []
    for place in (left, right):
        if place is not None:
            numbers = rows[place.buffer][..., place.first : place.first + place.width]
            found.append((numbers if moves is None else numbers.where(moves, 0.0)).flatten(0, -2))
    one, *others = found
    return (one.mT @ others[0]).to(dtype) if others else one.sum(0, dtype=dtype)


_count = itertools.count()


class _Text(importlib.abc.SourceLoader):
    """A module of written text, which Triton can look at as at a file's."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()

    def get_data(self, path: object) -> bytes:
        return self.text

    def get_filename(self, fullname: str) -> str:
        return f"{fullname}.py"


@cache
def _loaded(text: str) -> ModuleType:
    name = f"discretize.kernels.triton.written_{next(_count)}"
    spec = importlib.util.spec_from_loader(name, loader := _Text(text))
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
