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
from discretize.kernels.triton.lines import Needs
from discretize.kernels.triton.shapes import Shape, multiprocessors, shape_of
from discretize.kernels.triton.writing import FEW, Projection, SumSide, TritonText, written

__all__ = ["STORED", "TritonKernel", "TritonNetworks", "launch", "summed", "triton_reason", "writer"]

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

    def call(
        self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]
    ) -> _TritonCall:
        weights = [weight.detach() for weight in weights]
        vectors, matrices = self.program.read(weights)
        # What code without weights makes was recorded on the CPU.
        vectors = [vector.to(h0.device) for vector in vectors]
        matrices = [matrix.to(h0.device, xs.dtype) for matrix in matrices]
        lengths = dt.detach() if isinstance(dt, Tensor) else h0.new_full((), dt)
        rests = rests and lengths.dim() > 0
        given = xs.detach().contiguous(), h0.detach().contiguous(), lengths, weights, vectors, matrices, substeps, rests
        return _TritonCall(self, *given)


class TritonNetworks:
    """A program's two passes, of one network, or of an ensemble's by a launch each: h0 and weights, and xs and dt if they differ,
    then have a first axis for networks."""

    one: TritonKernel
    moves: Mapping[str, bool]

    def __init__(self, program: Program[TritonText], dtype: torch.dtype, moves: Mapping[str, bool]) -> None:
        self.one, self.moves = TritonKernel(program, dtype, moves), moves

    def call(
        self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]
    ) -> _TritonCall | _Calls:
        if h0.dim() == 2:
            return self.one.call(substeps, rests, xs, h0, dt, weights)
        own_xs, lengths = xs.dim() > 3, dt if isinstance(dt, Tensor) and dt.dim() > 3 else None
        each = (
            (xs[k] if own_xs else xs, h0[k], dt if lengths is None else lengths[k], [weight[k] for weight in weights])
            for k in range(len(h0))
        )
        return _Calls([self.one.call(substeps, rests, *given) for given in each], own_xs, lengths is not None)


def launch(text: str, name: str, h0: Tensor, shape: Shape, given: Sequence[object], how: Mapping[str, object]) -> None:
    """A kernel of a text for all samples of h0."""
    how = {"ROWS": shape.rows, "PRECISION": PRECISION[torch.get_float32_matmul_precision()]} | dict(how) | shape.options
    with torch.cuda.device_of(h0):
        getattr(_loaded(text), name)[(-(-len(h0) // shape.rows),)](*given, **how)


@dataclass(frozen=True)
class _TritonCall:
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
        shape, needs = self._shape(text.forward)
        states = xs.new_empty(time, batch, self.h0.shape[-1])
        kept = xs.new_empty(time * self.substeps + 1 if keep else 2, batch, text.kept)  # else by turns
        scratch = self.h0.new_empty(2, batch, needs.scratch)
        given = (xs, self._projected(), self.h0, self.dt, states, kept, scratch, *self.weights_of(needs))
        self._launch("forward", shape, given, {"KEEP": keep})
        return states, kept if keep else None

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        """The gradients to x, h0, dt and the weights."""
        (time, batch, inputs), text, xs, grad = self.xs.shape, self.kernel.text, self.xs, grad.resolve_neg()
        shape, needs = self._shape(text.backward)
        steps = (time, self.substeps, batch)
        of_x, of_dt = xs.new_empty(*steps, inputs if text.of_x is None else 0), self.h0.new_empty(*steps, 1)
        operands = xs.new_empty(*steps, text.operands)
        of_h0, scratch = torch.empty_like(self.h0), self.h0.new_empty(2, batch, needs.scratch)
        given = (xs, self.dt, grad.contiguous(), kept, scratch, operands, of_x, of_h0, of_dt, *self.weights_of(needs))
        self._launch("backward", shape, given, {})
        rows = {
            "x": xs[:, None].expand(*steps, inputs),
            "kept": kept[:-1].unflatten(0, (time, self.substeps)),
            "operands": operands,
        }
        moves = self.dt[:, None] != 0 if self.rests else None  # nothing of samples at rest, nan neither
        pairs = zip(text.sums, self.kernel.program.sums, strict=True)
        sums = [summed(rows, *pair, self.h0.dtype, moves).reshape(shape) for pair, shape in pairs]
        return [
            (of_x.sum(1) if text.of_x is None else self._of_x(rows, text.of_x, moves)) if needed[0] else None,
            of_h0,
            (of_dt.sum(1) / self.substeps).sum_to_size(self.dt.shape) if needed[2] else None,
            *self.kernel.program.gradients(self.weights, sums),
        ]

    def _shape(self, needs: tuple[Needs, Needs]) -> tuple[Shape, Needs]:
        width, batch = max(self.xs.shape[-1], self.h0.shape[-1]), len(self.h0)
        shape = shape_of(needs[True], width, batch, self.h0.element_size(), multiprocessors(self.h0.device))
        return shape, needs[shape.few]

    def _projected(self) -> Tensor:
        """The input's products for all times, beside one another."""
        if not (projections := self.kernel.text.projections):
            return self.h0
        products = [self._projection(each) for each in projections]
        return products[0] if len(products) == 1 else torch.cat(products, -1)

    def _projection(self, of: Projection) -> Tensor:
        matrices = [self.matrices[k].view(-1, width)[row : row + of.depth] for k, row, width in of.products]
        xs, matrix = self.xs[..., of.first : of.first + of.depth], torch.cat(matrices, 1)
        return xs.to(self.h0.dtype) @ matrix.to(self.h0.dtype)

    def _of_x(self, rows: Mapping[str, Tensor], products: Sequence[tuple[SumSide, int, int]], moves: Tensor | None) -> Tensor:
        total: Tensor | None = None
        for place, k, row in products:
            numbers = rows[place.buffer][..., place.first : place.first + place.width]
            numbers = (numbers if moves is None else numbers.where(moves, 0.0)).sum(1)
            each = numbers @ self.matrices[k].view(-1, self.xs.shape[-1])[row : row + place.width]
            total = each if total is None else total.add_(each)
        assert total is not None
        return total

    def _launch(self, name: str, shape: Shape, given: tuple[Tensor, ...], how: Mapping[str, object]) -> None:
        time, batch, inputs = self.xs.shape
        _, _, dt_time, dt_batch = strides(self.dt)
        sizes = (time, batch, self.substeps, inputs, batch * inputs, batch * self.kernel.text.kept, dt_time, dt_batch)
        # bfloat16 has fewer digits than TF32.
        how = {"RESTS": self.rests} | dict(how) | ({"PRECISION": "tf32"} if self.xs.dtype in STORED else {})
        launch(self.kernel.text.text, name + (FEW if shape.few else ""), self.h0, shape, (*given, *sizes), how)


@dataclass(frozen=True)
class _Calls:
    """A call for each network of an ensemble, and whether they have xs and dt of their own."""

    each: list[_TritonCall]
    own_xs: bool
    own_dt: bool

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None]:
        results = [call.forward(keep) for call in self.each]
        kept = [kept for _, kept in results if kept is not None]
        return torch.stack([states for states, _ in results]), torch.stack(kept) if keep else None

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        results = [call.backward(mine, of_hs, needed) for call, mine, of_hs in zip(self.each, kept, grad, strict=True)]
        stacked = (None if parts[0] is None else torch.stack(parts) for parts in zip(*results, strict=True))
        of_xs, of_h0, of_dt, *of_weights = stacked
        of_xs = of_xs if self.own_xs or of_xs is None else of_xs.sum(0)
        return [of_xs, of_h0, of_dt if self.own_dt or of_dt is None else of_dt.sum(0), *of_weights]


def summed(
    rows: Mapping[str, Tensor], left: SumSide, right: SumSide | None, dtype: torch.dtype, moves: Tensor | None = None
) -> Tensor:
    """Sum numbers, or products of each with each, over samples and steps; moves: which samples count, all without it."""
    sums = []
    for place in (left, right):
        if place is not None:
            numbers = rows[place.buffer][..., place.first : place.first + place.width]
            sums.append((numbers if moves is None else numbers.where(moves, 0.0)).flatten(0, -2))
    one, *others = sums
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
