"""Kernels for GPUs compile for one without one: Triton has no names out of inner blocks, as its interpreter has in Python."""

import os

import pytest
import torch
from own_fields import Lorenz, Own
from own_methods import METHODS, STIFF

import ctrnn
from discretize import SRA1, Euler
from discretize.kernels.cpp.methods import method_of
from discretize.kernels.record.program import FlowModule, InputJVP, StateJVP, StepModule, program_of
from discretize.kernels.triton import adaptive, kernels, shapes, writing
from discretize.kernels.triton.methods import TRITON
from discretize.kernels.triton.solve_writing import SolveText, solve_text, solve_writer, with_method
from discretize.kernels.triton.solves import recorder
from discretize.noise.increments import KeyedIncrements
from discretize.solvers.adaptive import ADAPTIVE_METHODS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION is unset")]
STORED = ("projected", "x", "hs", "kept", "of_hs")  # and matrices: what may lie in half precision
HELD = {"TERMS": 1, "CHEBYSHEV": False, "SPEEDS": 0}
STRAIGHT = {"TERMS": 2, "CHEBYSHEV": False, "SPEEDS": 0}
CURVED = {"TERMS": 5, "CHEBYSHEV": True, "SPEEDS": 3}  # and on a clock


@pytest.fixture(autouse=True)
def compiler():
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("TRITON_INTERPRET=1 asks for the interpreter, which compiles nothing")


def compiles(text, real, stored, constants, types, names=("forward", "backward")):
    """These kernels, for compute capability 9.0; types: of arguments that are no tensors of these."""
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - where there is one
    from triton.compiler import ASTSource, compile  # noqa: PLC0415

    given = {"ROWS": shapes.ROWS, "PRECISION": "tf32x3", "RESTS": True, "KEEP": False} | constants
    for name in names:
        kernel = getattr(kernels._loaded(text), name)
        kinds = dict.fromkeys(STORED, f"*{stored}") | types | dict.fromkeys(given, "constexpr")
        kinds |= {a: f"*{stored}" for a in kernel.arg_names if a.startswith("matrix_")}
        signature = {argument: kinds.get(argument, f"*{real}") for argument in kernel.arg_names}
        source = ASTSource(kernel, signature, {a: given[a] for a in kernel.arg_names if a in given})
        compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 1})
        assert "cubin" in compiled.asm
        assert compiled.metadata.shared <= 227 * 1024  # of a program, at most


TYPES = [(torch.float32, "fp32", "fp32"), (torch.float32, "fp32", "bf16"), (torch.float64, "fp64", "fp64")]


def solving(text: SolveText, method, units, dtype):
    """The text of a field with a method's."""
    written = method_of(TRITON, method, units, dtype, wait=True)
    return with_method(text, written.kernel.text, written.calls.end or 0, written.kernel.reads_start).text


@pytest.mark.parametrize(("dtype", "real", "stored"), TYPES)
def test_solves_compile(dtype, real, stored):
    gated = ctrnn.gated(3, 5, dtype=dtype), 10
    full = ctrnn.gated(3, 16, dtype=dtype), 32  # every column of a tile is a unit
    for (field, columns), how in ((gated, HELD), (gated, CURVED), (full, HELD), ((Lorenz().to(dtype), 1), HELD)):
        text = program_of(FlowModule(field, columns), {"x": True}, dtype, solve_writer(dtype)).written
        for method in (ADAPTIVE_METHODS["dopri5"], METHODS["Relaxed"]):
            compiles(solving(text, method, field.state_size, dtype), real, stored, how, adaptive.ARGUMENT_TYPES)


def stiff(units, dtype, moves):
    """The text of a field for methods that read its Jacobian, along an input that moves or is held."""
    kinds, field = [FlowModule, StateJVP, InputJVP][: 2 + moves], ctrnn.gated(3, units, dtype=dtype)
    read = [program_of(kind(field, 2 * units), {"x": True}, dtype, recorder(k)).written for k, kind in enumerate(kinds)]
    return solve_text(read, dtype)


@pytest.mark.parametrize("units", [1, 3, 5, 32])
@pytest.mark.parametrize(("dtype", "real", "stored"), TYPES)
def test_stiff_solves_compile(dtype, real, stored, units):
    for how in (HELD, STRAIGHT, CURVED) if units < 32 else (STRAIGHT,):
        text = solving(stiff(units, dtype, how is not HELD), ADAPTIVE_METHODS["rodas5p"], units, dtype)
        compiles(text, real, stored, how, adaptive.ARGUMENT_TYPES)


@pytest.mark.parametrize("name", STIFF)
def test_methods_given_as_code_that_read_jacobians_compile(name):
    text = solving(stiff(3, torch.float32, True), STIFF[name], 3, torch.float32)
    compiles(text, "fp32", "fp32", CURVED, adaptive.ARGUMENT_TYPES)


FEW = ("forward_few", "backward_few")


@pytest.mark.parametrize("make", [ctrnn.lstm, Own], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("dtype", "real", "stored"), TYPES)
def test_sequences_compile(dtype, real, stored, make):
    module = StepModule(make(3, 20, dtype=dtype), Euler())
    program = program_of(module, {"x": True, "dt": True}, dtype, kernels.writer(dtype))
    compiles(program.written.text, real, stored, {}, writing.ARGUMENT_TYPES)
    for rows in (1, 2):
        compiles(program.written.text, real, stored, {"ROWS": rows}, writing.ARGUMENT_TYPES, FEW)


@pytest.mark.parametrize("rows", [1, 4])
def test_sequences_whose_matrices_are_read_in_parts_compile(rows):
    program = program_of(
        StepModule(ctrnn.gru(3, 256, dtype=torch.float32), Euler()), {"x": True}, torch.float32, kernels.writer(torch.float32)
    )
    assert program.written.forward[1].streamed
    compiles(program.written.text, "fp32", "fp32", {"ROWS": rows, "KEEP": True}, writing.ARGUMENT_TYPES, FEW)


@pytest.mark.parametrize("units", [1, 20])
@pytest.mark.parametrize(("dtype", "real"), [(torch.float32, "fp32"), (torch.float64, "fp64")])
def test_sequences_with_noise_compile(dtype, real, units):
    noisy = ctrnn.Noisy(ctrnn.gated(3, units, dtype=dtype), ctrnn.Noise(0.1))
    program = program_of(StepModule(KeyedIncrements(noisy, 4, True), SRA1()), {"x": True}, dtype, kernels.writer(dtype))
    assert "normal(" in program.written.text
    compiles(program.written.text, real, real, {}, writing.ARGUMENT_TYPES)
    compiles(program.written.text, real, real, {"ROWS": 1}, writing.ARGUMENT_TYPES, FEW)
