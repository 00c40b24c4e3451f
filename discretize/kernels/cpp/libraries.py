"""The kernels as Python calls them: which definitions a kind of field needs, and what every function takes.

A library is made for one kind of field, one dtype and, of cells, one step, so that nobody waits for what they do not use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, Structure, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from discretize.kernels.build import Source, library

__all__ = ["KERNELS", "REALS", "Problem", "Report", "address", "solves_library", "strides"]

KERNELS = Path(__file__).parent / "source"
REALS = {torch.float32: "float", torch.float64: "double"}


class Problem(Structure):
    """`CtrnnProblem` of kernels/solve.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("batch", "segments", "own", "threads", "keep", "terms", "chebyshev", "speed_terms")),
        *((name, c_void_p) for name in ("model", "projected", "h0")),
        *((name, c_void_p) for name in ("lengths", "pieces", "share", "share_rate", "speeds", "places")),
        *((name, c_size_t) for name in ("stages", "jacobian_cost")),
        *((name, c_void_p) for name in ("c", "a", "b", "e")),
        *((name, c_double) for name in ("gamma", "order", "rtol", "atol", "min_step", "max_step", "first_step")),
        *((name, c_int64) for name in ("max_num_steps", "most_steps")),
        *((name, c_void_p) for name in ("steps", "taken", "hs")),
    ]


class Report(Structure):
    """`CtrnnReport` of kernels/solve.h, field by field."""

    _fields_ = [
        *((name, c_int64) for name in ("accepted", "rejected", "evaluations", "forced")),
        *((name, c_double) for name in ("smallest", "smallest_tau", "forced_tau", "forced_error", "tau", "step")),
        *((name, c_int64) for name in ("smallest_segment", "forced_segment", "segment", "cause", "rejected_last")),
    ]


def solves_library(source: Source, definitions: Mapping[str, str | int]) -> ctypes.CDLL:
    """That of kernels/solves.cpp with a model of the field. Raises `Unavailable`."""
    made = library(source, definitions)
    takes = {
        "solve_open": ([POINTER(Problem)], c_void_p),
        "run": ([c_void_p, c_double], c_int),
        "close": ([c_void_p], None),
        "solve_progress": ([c_void_p], c_double),
        "solve_reports": ([c_void_p, POINTER(Report)], None),
        "solve_failure": ([c_void_p, c_size_t, c_void_p, c_void_p], None),
        "solve_steps": ([c_void_p, c_size_t, c_void_p, c_void_p, c_void_p], None),
        "return_open": ([c_void_p] * 4, c_void_p),
        "return_sums": ([c_void_p] * 2, None),
    }
    for name, (arguments, result) in takes.items():
        function = getattr(made, f"ctrnn_{name}")
        function.argtypes, function.restype = arguments, result
    return made


def address(tensor: Tensor | None) -> int | None:
    """Where a contiguous tensor lies; None for one that is not there."""
    assert tensor is None or tensor.is_contiguous()
    return None if tensor is None else tensor.data_ptr()


def strides(dt: Tensor) -> tuple[int, int, int, int]:
    """The address of the step lengths, and their strides over networks, in time and over the batch; 0 where all are one."""
    if not dt.dim():
        return dt.data_ptr(), 0, 0, 0
    network, time, batch = (dt.stride(i) if dt.dim() + i >= 0 and dt.shape[i] > 1 else 0 for i in (-4, -3, -2))
    return dt.data_ptr(), network, time, batch
