r"""ctypes wrappers of the compiled kernels: their structures, functions, and the memory of a call.

A library is made for one kind of field, one dtype and, of cells, one step, so that no one waits for what they do not use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, Structure, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from discretize import compat
from discretize.kernels.build import CppSource, library
from discretize.kernels.cpp.text import CppText
from discretize.kernels.record.fingerprint import digest
from discretize.kernels.record.program import Program

__all__ = [
    "DRIVER",
    "NOISE",
    "PRODUCTS",
    "REALS",
    "SOURCES",
    "GivenProgram",
    "CtrnnDense",
    "CtrnnPast",
    "CtrnnProblem",
    "ModelStructure",
    "ProgramStructure",
    "CtrnnReport",
    "SumBuffers",
    "SumsStructure",
    "address",
    "functions_of",
    "solves_library",
    "sources_digest",
    "strides",
]


SOURCES = Path(__file__).parent / "source"
PRODUCTS, NOISE = CppSource(SOURCES / "shared_products.cpp"), CppSource(SOURCES / "shared_noise.cpp")
EQUATION = CppSource(SOURCES / "equation.cpp")
# Of what calls a field's code. Loops are in that, and in products, which take twice as long by -O2 as by -O3. By this a driver
# compiles in 0.6 to 0.7 times what -O2 and -O3 take, and calls take as long, but for 3 % more in solves with gradients.
DRIVER = ("-O1", "-finline-small-functions", "-finline-functions")
REALS = {torch.float32: "float", torch.float64: "double"}


def sources_digest(folder: Path = SOURCES) -> str:
    """Return the digest of all files here that kernels are compiled from; the programs written for each are others."""
    return digest([(path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()])


class ProgramStructure(Structure):
    """`CtrnnProgram` of source/rows.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("sizes", "kept_values", "vectors", "matrices", "products", "forth")),
        *((name, c_void_p) for name in ("size", "kept_widths", "vector_widths", "depths", "widths", "product")),
        *((name, c_void_p) for name in ("vector", "matrix")),
        *(
            (name, c_void_p)
            for name in ("multiply", "outer", "increments", "forward", "backward", "columns", "lane_flow", "lane_return")
        ),
        ("lane_sums", c_size_t),
        *((name, c_void_p) for name in ("flow", "equation")),
    ]


class ModelStructure(Structure):
    """`CtrnnModel` of source/rows.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("state", "columns")),
        *((name, POINTER(ProgramStructure)) for name in ("program", "by_state", "by_input")),
    ]


class SumsStructure(Structure):
    """`CtrnnSums`."""

    _fields_ = [("sums", c_size_t), *((name, c_void_p) for name in ("heights", "widths", "sum"))]


def functions_of(program: Program[CppText], dtype: torch.dtype) -> dict[str, int]:
    """The addresses of products and of a program's passes. Raises `Unavailable`."""
    # -O2: no loops are left to unroll. It compiles in 0.8 times what -O3 takes, and runs in 0.7 times what -O1 makes.
    name = "lane_program.cpp" if program.written.lanes else "program.cpp"
    written = CppSource(SOURCES / name, (("program.h", program.written.text),), ("-O2",))
    if program.written.lanes:
        names: dict[CppSource, tuple[str, ...]] = {written: ("lane_flow", "lane_return")}
    else:
        passes = ("forward", "backward", *(["columns"] if program.written.columns else []))
        names = {PRODUCTS: ("multiply", "outer"), written: passes}
        if "Increments" in program.written.text:
            names[NOISE] = ("increments",)
        if program.written.equation is not None:
            names[EQUATION] = ("equation",)
    libraries = {source: library(source, {"REAL": REALS[dtype]}) for source in names}
    return {
        name: ctypes.cast(libraries[source][f"ctrnn_{name}"], c_void_p).value or 0 for source in names for name in names[source]
    }


_templates: WeakKeyDictionary[Program[CppText], dict[int, tuple[ProgramStructure, Any]]] = WeakKeyDictionary()  # by networks


class GivenProgram:
    """A program with the numbers of its weights, laid out as kernels read them; of `networks`, if given, each with its own."""

    def __init__(
        self, program: Program[CppText], functions: dict[str, int], weights: Sequence[Tensor], networks: int | None = None
    ) -> None:
        vectors, matrices = _of_networks(program.read, networks, weights)
        columns = [matrix if matrix.dim() == 2 + (networks is not None) else matrix[..., None] for matrix in matrices]
        count = networks or 1
        if count not in (known := _templates.setdefault(program, {})):
            known[count] = _template(program, functions, vectors, columns, count)
        places = _addresses(vectors, count), _addresses(columns, count)
        self.alive = vectors, columns, places, program
        self.structures = (ProgramStructure * count)()
        for k, (vector, matrix) in enumerate(zip(*places, strict=True)):
            self.structures[k] = known[count][0]
            self.structures[k].vector, self.structures[k].matrix = ctypes.addressof(vector), ctypes.addressof(matrix)
        self.structure: Any = self.structures[0]


def _template(
    program: Program[CppText], functions: dict[str, int], vectors: Sequence[Tensor], columns: Sequence[Tensor], count: int
) -> tuple[ProgramStructure, Any]:
    """All of a program's structure but where its numbers lie, whose shapes are the same at each call; and what it points to."""
    text = program.written
    numbers = {
        "size": text.sizes,
        "kept_widths": text.kept,
        "vector_widths": [vector.numel() // count for vector in vectors],
        "depths": [matrix.shape[-2] for matrix in columns],
        "widths": [matrix.shape[-1] for matrix in columns],
        "product": text.products,
    }
    arrays = {name: _array(given) for name, given in numbers.items()}
    shared = functions | {name: ctypes.addressof(array) for name, array in arrays.items()}
    lengths = (len(text.sizes), len(text.kept), len(vectors), len(columns), *text.counts)
    return ProgramStructure(*lengths, lane_sums=sum(height * width for height, width in text.sums), **shared), arrays


class SumBuffers:
    """Room for a program's sums over samples, and the weights' gradients that they make; of `networks`, if given."""

    program: Program[CppText]
    networks: int | None

    def __init__(self, program: Program[CppText], like: Tensor, networks: int | None = None) -> None:
        self.program, self.networks = program, networks
        first = () if networks is None else (networks,)
        self.tensors: list[Tensor] = [like.new_empty(*first, *shape) for shape in program.sums]
        heights, widths = (_array([size[side] for size in program.written.sums]) for side in (0, 1))
        places = _addresses(self.tensors, networks or 1)
        self.alive = heights, widths, places
        sizes = len(self.tensors), ctypes.addressof(heights), ctypes.addressof(widths)
        self.structures = (SumsStructure * len(places))(*(SumsStructure(*sizes, ctypes.addressof(row)) for row in places))
        self.structure: Any = self.structures[0]

    def gradients(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        results: list[Tensor | None] = _of_networks(self.program.gradients, self.networks, weights, self.tensors)
        return results


def _of_networks(function: Callable[..., object], networks: int | None, *given: Sequence[object]) -> Any:
    """What a function of a program's weights gives, for all networks at once."""
    if networks is None:
        return function(*given)
    if networks == 1:
        first = ([each[0] if isinstance(each, Tensor) else each for each in some] for some in given)
        return compat.tree_map_only(Tensor, lambda one: one[None], function(*first))
    structures = list[Any]()

    def one(given: Sequence[Sequence[object]], _: Tensor) -> list[Tensor]:
        leaves, structure = compat.tree_flatten(function(*given))
        structures.append((structure, [leaf is not None for leaf in leaves]))
        return [leaf for leaf in leaves if leaf is not None]

    results = iter(torch.func.vmap(one)([list(each) for each in given], torch.empty(networks, device="cpu")))
    structure, there = structures[0]
    return compat.tree_unflatten([next(results).contiguous() if is_there else None for is_there in there], structure)


def _addresses(tensors: Sequence[Tensor], networks: int) -> list[ctypes.Array[c_size_t]]:
    """Where the numbers of each network lie."""
    first = [tensor.data_ptr() for tensor in tensors]
    if networks == 1:
        return [_array(first)]
    apart = [tensor.numel() // networks * tensor.element_size() for tensor in tensors]
    return [_array([at + k * length for at, length in zip(first, apart, strict=True)]) for k in range(networks)]


def _array(numbers: Sequence[float]) -> ctypes.Array[c_size_t]:
    return (c_size_t * len(numbers))(*map(int, numbers))


class CtrnnProblem(Structure):
    """`CtrnnProblem` of source/solve.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("batch", "segments", "own", "threads", "keep", "terms", "chebyshev", "speed_terms")),
        *((name, c_void_p) for name in ("model", "projected", "h0")),
        *((name, c_void_p) for name in ("lengths", "pieces", "share", "share_rate", "speeds", "places")),
        ("jacobian_cost", c_size_t),
        ("atol", c_void_p),
        *((name, c_double) for name in ("order", "rtol", "min_step", "max_step", "first_step")),
        *((name, c_int64) for name in ("max_num_steps", "most_steps")),
        *((name, c_void_p) for name in ("steps", "taken", "hs", "method", "past")),
    ]


class CtrnnPast(Structure):
    """`CtrnnPast` of source/solve.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("lags", "pieces", "halves")),
        *((name, c_void_p) for name in ("delays", "begins", "lengths", "nodes", "powers", "starts", "ends", "low", "high")),
        *((name, c_void_p) for name in ("dense", "blocks", "first", "of_steps", "of_nodes", "of_delays")),
    ]


class CtrnnDense(Structure):
    """`CtrnnDense` of source/solve.h, field by field."""

    _fields_ = [("stages", c_size_t), *((name, c_void_p) for name in ("nodes", "a", "b", "inside", "between", "mix"))]


class CtrnnReport(Structure):
    """`CtrnnReport` of source/solve.h, field by field."""

    _fields_ = [
        *((name, c_int64) for name in ("accepted", "rejected", "evaluations", "forced")),
        *((name, c_double) for name in ("smallest", "smallest_tau", "forced_tau", "forced_error", "tau", "step")),
        *((name, c_int64) for name in ("smallest_segment", "forced_segment", "segment", "cause", "rejected_last")),
    ]


def solves_library(source: CppSource, definitions: Mapping[str, str | int]) -> ctypes.CDLL:
    """That of source/solves.cpp with a model of the field. Raises `Unavailable`."""
    made = library(source, definitions)
    takes = {
        "solve_open": ([POINTER(CtrnnProblem)], c_void_p),
        "run": ([c_void_p, c_double], c_int),
        "close": ([c_void_p], None),
        "solve_progress": ([c_void_p], c_double),
        "solve_reports": ([c_void_p, POINTER(CtrnnReport)], None),
        "solve_failure": ([c_void_p, c_size_t, c_void_p, c_void_p], None),
        "solve_steps": ([c_void_p, c_size_t, c_void_p, c_void_p, c_void_p], None),
        "solve_nodes": ([c_void_p, c_size_t, c_void_p], None),
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
