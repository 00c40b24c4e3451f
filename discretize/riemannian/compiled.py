r"""The passes of a network over long sequences of symbols by a compiled kernel: symbols.cpp.

Activities, eqs. (22) and (24), and the sums that the metrics are made of; the same as network.py, directions.py and rows.py have
them in torch, but for the order of the additions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import Structure, c_double, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ctrnn.cells.edges import Sigmoidal
from discretize.kernels.build import CppSource, Unavailable, library
from discretize.kernels.cpp.programs import REALS, SOURCES, address
from discretize.kernels.eligibility import Fused, device_reason, setting_reason, tensor_reason, tracing_reason, warn_once
from discretize.riemannian.rows import Centred, Moments

__all__ = ["LEAST_SAMPLES", "Edges", "activities", "backpropagated", "engine", "sums"]

LEAST_SAMPLES = 100  # of all sequences together: from here on they are worth a kernel, which is built once for all networks

SYMBOLS = CppSource(Path(__file__).parent / "symbols.cpp", headers=SOURCES)
NAMES = ("units", "edges", "symbols")


class Edges(Protocol):
    """A weight for each edge and symbol: weight (symbols, hidden, edges), bias (symbols, hidden), sources (hidden, edges)."""

    squash: Sigmoidal
    sources: Tensor

    @property
    def weight(self) -> Tensor: ...

    @property
    def bias(self) -> Tensor: ...


class SymbolsGraph(Structure):
    """`SymbolsGraph` of symbols.cpp, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in NAMES),
        *((name, c_void_p) for name in ("sources", "weight", "bias")),
        *((name, c_double) for name in ("carry", "width", "size", "centre")),
    ]


def engine(symbols: Tensor, given: Iterable[Tensor], fused: Fused = True) -> tuple[str, str | None]:
    """ "compiled", or "steps" and why; given: all tensors of numbers that are read."""
    if why := tracing_reason() or setting_reason(fused) or tensor_reason([*given, symbols]):
        return "steps", why
    like = next(iter(given))
    if why := device_reason(like):
        return "steps", why
    if symbols.numel() < LEAST_SAMPLES:
        return "steps", f"kernels are for sequences of {LEAST_SAMPLES} symbols or more, all together"
    try:
        _library(like.dtype)
    except Unavailable as error:
        return "steps", warn_once(str(error))
    return "compiled", None


def activities(edges: Edges, carry: float, on_v: bool, symbols: Tensor, start: Tensor) -> Tensor:
    """Compute `Network.activities`."""
    values = start.new_empty(*symbols.shape, start.shape[-1])
    _run("forwards", edges, carry, symbols, start.detach().contiguous(), int(on_v), values)
    return values


def backpropagated(
    edges: Edges, carry: float, symbols: Tensor, slope: Tensor, surprise: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute eqs. (22) and (24) from s', chi (w_ix - sum_y pi(y) w_iy) and chi var_pi(w_i), all (time, batch, hidden)."""
    given = [part.contiguous() for part in (slope, surprise, variance)]
    values, moduli = torch.empty_like(given[0]), torch.empty_like(given[0])
    _run("backwards", edges, carry, symbols, *given, values, moduli)
    return values, moduli


def sums(
    kind: type[Centred] | type[Moments], edges: Edges, values: Tensor, moduli: Tensor, read: Tensor, heard: Tensor
) -> Centred | Moments:
    """Compute `kind.of` of each symbol and unit: rows (symbols * hidden)."""
    given = [part.contiguous() for part in (heard, values, moduli)]
    rows, k, centred = edges.bias.shape, edges.sources.shape[1] + 1, kind is Centred
    total, squares = heard.new_empty(rows), heard.new_empty(*rows, *[k] * (1 + centred))
    first, slopes, gradients, often = heard.new_empty(4, *rows, k)
    _run("sums", edges, 0.0, read, *given, int(centred), total, first, slopes, squares, gradients, often)
    total, first, slopes, squares, gradients, often = (
        part.flatten(0, 1) for part in (total, first, slopes, squares, gradients, often)
    )
    return Centred(total, first, slopes, squares) if centred else Moments(slopes, first, squares, gradients, often)


def _run(name: str, edges: Edges, carry: float, symbols: Tensor, *given: Tensor | int) -> None:
    alive = [part.detach().contiguous() for part in (edges.sources, edges.weight, edges.bias)]
    squash, (units, fan) = edges.squash, edges.sources.shape
    graph = SymbolsGraph(units, fan, len(alive[1]), *map(address, alive), carry, squash.width, squash.size, squash.centre)
    sizes = [symbols.numel()] if name == "sums" else list(symbols.shape)
    symbols = symbols.contiguous()
    pointers = [address(part) if isinstance(part, Tensor) else part for part in given]
    function: Any = getattr(_library(edges.bias.dtype), f"ctrnn_symbols_{name}")
    if not function(ctypes.byref(graph), *sizes, torch.get_num_threads(), address(symbols), *pointers):
        raise MemoryError("There is no memory for the sums of the metrics; take fewer edges, or a quasi-diagonal reduction.")


def _library(dtype: torch.dtype) -> ctypes.CDLL:
    """Raises `Unavailable`."""
    made = library(SYMBOLS, {"REAL": REALS[dtype]})
    sizes: list[Any] = [ctypes.POINTER(SymbolsGraph), c_size_t, c_size_t, c_size_t]
    made.ctrnn_symbols_forwards.argtypes = [*sizes, c_void_p, c_void_p, c_int, c_void_p]
    made.ctrnn_symbols_backwards.argtypes = [*sizes, *[c_void_p] * 6]
    made.ctrnn_symbols_sums.argtypes = [*sizes[:3], *[c_void_p] * 4, c_int, *[c_void_p] * 6]
    assert made.ctrnn_symbols_size() == ctypes.sizeof(SymbolsGraph)
    return made
