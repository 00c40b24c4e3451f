"""Kernels for GPUs: their text as it is written anywhere; what they compute under Triton's interpreter, if TRITON_INTERPRET=1."""

import ast
import copy
import math

import pytest
import torch
from conformance import kernels_for_all
from on_gpu import ON_GPU, needs_triton
from own_fields import Axes, Lorenz, Many, Own
from problems import NAMED_FIELDS, PUBLISHED, thinned
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Euler, ExponentialEuler
from discretize.kernels import sequences
from discretize.kernels.cpp.methods import method_of
from discretize.kernels.record.functions import FUNCTIONS as OF_CPU
from discretize.kernels.record.program import FlowModule, InputJVP, StateJVP, StepModule, program_of
from discretize.kernels.triton import kernels
from discretize.kernels.triton.functions import FUNCTIONS, preamble
from discretize.kernels.triton.methods import TRITON
from discretize.kernels.triton.solve_writing import solve_text, solve_writer, with_method
from discretize.kernels.triton.solves import recorder
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.steps.along import HeldProblem

FIELDS = {name: lambda make=make: make(3, 5) for name, make in NAMED_FIELDS.items()}
OTHERS = {
    "many operations": Many,
    "axes": Axes,
    "lorenz": Lorenz,
    "wide": lambda: ctrnn.gated(3, 150),
    "one unit": lambda: ctrnn.gated(1, 1),
    **{name: lambda make=make: make(3, 6) for name, make in PUBLISHED.items()},
}
# All that the text may use of Triton's language.
LANGUAGE = {
    *(
        "abs",
        "arange",
        "broadcast_to",
        "ceil",
        "constexpr",
        "cos",
        "debug_barrier",
        "dot",
        "erf",
        "exp",
        "float32",
        "float64",
        "floor",
        "full",
    ),
    *("int32", "int64", "join", "load", "log", "max", "max_contiguous", "maximum", "philox", "program_id", "sin", "split"),
    *("sqrt", "store", "sum", "uint32", "where", "zeros"),
}


@pytest.mark.parametrize("name", thinned([*FIELDS, *OTHERS], ["leaky", "axes"]))
def test_the_text_is_python_of_known_names(name):
    module = StepModule((FIELDS | OTHERS)[name]().double(), ExponentialEuler() if name in ("leaky", "lstm") else Euler())
    program = program_of(module, {"x": True, "dt": True}, torch.float64, kernels.writer(torch.float64))
    check_names(program.written.text)


@pytest.mark.parametrize("name", thinned([*FIELDS, *OTHERS], ["gated"]))
def test_the_text_of_solves_is_python_of_known_names(name):
    field = (FIELDS | OTHERS)[name]().double()
    columns = field.project(torch.zeros(1, field.input_size)).shape[-1]
    flow = program_of(FlowModule(field, columns), {"x": True}, torch.float64, solve_writer(torch.float64)).written
    programs = [
        program_of(kind(field, columns), {"x": True}, torch.float64, recorder(number)).written
        for number, kind in enumerate([FlowModule, StateJVP, InputJVP])
    ]
    # By a stiff method, of inputs that are held, and of those that move.
    stiff = [solve_text(programs[:count], torch.float64) for count in {2, 3 if programs[2].columns else 2}]
    for text, method in ((flow, "dopri5"), *((text, "rodas5p") for text in stiff)):
        written = method_of(TRITON, ADAPTIVE_METHODS[method], field.state_size, torch.float64, wait=True)
        check_names(with_method(text, written.kernel.text, written.calls.end or 0, written.kernel.reads_start).text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_function_of_units_has_a_form_of_known_names(dtype):
    assert {*FUNCTIONS} == {*OF_CPU}
    lines = [f"    return {expression.format(a='a', b='b', c='c')}" for expression in FUNCTIONS.values()]
    check_names("\n".join([preamble(dtype), "def every(a, b, c):", *lines]))


def check_names(text):
    """Python, of names that are given a value and of operations that Triton has."""
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for function in functions.values():
        nodes = list(ast.walk(function))
        of_triton = {node.attr for node in nodes if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "tl"}
        assert of_triton <= LANGUAGE
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        known = {"tl", "triton", "REAL", "range", "float", *functions, *(argument.arg for argument in function.args.args)}
        assert read <= stored | known


@pytest.fixture
def interpreter():
    needs_triton()
    with kernels_for_all():
        yield


pytestmark = pytest.mark.gpu
INTERPRETED = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # of numpy, at numbers that `where` leaves out
EXACT = {"rtol": 1e-10, "atol": 1e-10}  # of float64: sums in another order, and tanh and the like by other formulas


ANGLES = {
    "atan": torch.atan,
    "asin": lambda h: torch.asin(torch.tanh(h)),
    "acos": lambda h: torch.acos(0.9 * torch.sin(h)),
    "atan2": lambda h: torch.atan2(h, h.flip(-1) - 0.1),
    "fmod": lambda h: torch.fmod(h, 0.7) + torch.fmod(h, -50.0 * h.flip(-1)),
    "remainder": lambda h: torch.remainder(h, -0.7) + torch.remainder(h, 3.0),
}


class Angles(ctrnn.VectorField):
    """Functions that only these kernels compute by formulas of their own."""

    def __init__(self, names):
        super().__init__(1, 8)
        self.names = names

    def flow(self, projected, h):
        return sum(ANGLES[name](h) for name in self.names) - h


@INTERPRETED
def test_angles_and_remainders_and_their_derivatives(interpreter, subtests):
    x = torch.randn(2, 3, 1)
    h_0 = torch.tensor([[0.0, 1.0, -1.0, 0.3, -2.0, 40.0, -1e3, 1e-9], *torch.randn(2, 8).mul(3).tolist()]).requires_grad_()
    for name in ANGLES:
        with subtests.test(name):
            found = []
            for fused in (True, False):
                rnn = discretize.DiscreteRNN(Angles([name]), Euler(), fused=fused, allow_overshoot=True)
                output, _ = rnn(x, h_0)
                assert rnn.stats["engine"] == ("triton" if fused else "steps"), rnn.stats
                found.append((output, *torch.autograd.grad(output.square().sum(), h_0)))
            for mine, theirs in zip(*found, strict=True):
                assert_close(mine, theirs, **EXACT, equal_nan=True)  # of asin at 1 the derivative is infinite, of tanh it is 0


def in_bfloat16(field, x, h_0, **given):
    """States and gradients of a field in bfloat16 by the kernel, and of the same numbers in float32 step by step."""
    answers = []
    for dtype in (torch.bfloat16, torch.float32):
        own = copy.deepcopy(field).bfloat16().to(dtype)
        sources = [t.bfloat16().to(dtype).requires_grad_() for t in (x, h_0)]
        rnn = discretize.DiscreteRNN(own, fused=dtype == torch.bfloat16, allow_overshoot=True, **given)
        output, h_n = rnn(*sources)
        assert rnn.stats["engine"] == ("triton" if dtype == torch.bfloat16 else "steps"), rnn.stats
        total = (output.float() * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum() + h_n.float().square().sum()
        answers.append([output, *torch.autograd.grad(total, [*sources, *own.parameters()])])
        assert all(each.dtype == dtype for each in answers[-1])
    return zip(*answers, strict=True)


@INTERPRETED
@pytest.mark.parametrize(
    "name", ["gated", pytest.param("lstm", marks=pytest.mark.slow), pytest.param("lem", marks=pytest.mark.slow)]
)
def test_bfloat16_is_right_to_the_rounding_of_what_is_stored(interpreter, name):
    field = getattr(ctrnn, name)(3, 20)
    for mine, theirs in in_bfloat16(field, torch.randn(9, 17, 3), torch.randn(17, field.state_size), dt=0.3, substeps=2):
        # Samples of 2^-8 each, or 2^-7 where the interpreter cuts them off, of a few numbers one after the other.
        assert_close(mine.float(), theirs, rtol=0, atol=3e-2 * float(theirs.detach().abs().max()))


class Fading(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, 2)
        self.rate = torch.nn.Parameter(torch.tensor([0.5, 2.0]))

    def flow(self, projected, h):
        return 0 * projected[..., :1] - self.rate * h


@INTERPRETED
def test_states_in_bfloat16_add_up_in_float32(interpreter):
    output, *_ = in_bfloat16(Fading(), torch.zeros(200, 2, 1), torch.ones(2, 2), dt=1 / 1024)
    exact = (1 - torch.tensor([0.5, 2.0]) / 1024) ** 200  # a step of the first, 0.0005, is less than bfloat16 sees at 1
    assert_close(output[0][-1].double(), exact.expand(2, 2), rtol=2**-7, atol=0)
    assert output[0][-1].max() < 0.92


@INTERPRETED
def test_second_derivatives_in_bfloat16_are_those_of_the_steps(interpreter):
    field, x, h_0 = Fading().bfloat16(), torch.zeros(3, 2, 1).bfloat16(), torch.ones(2, 2).bfloat16().requires_grad_()
    output, _ = discretize.DiscreteRNN(field, allow_overshoot=True, dt=0.25)(x, h_0)
    (first,) = torch.autograd.grad(output[-1].square().sum(), h_0, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), h_0)
    assert_close(second.double(), 2 * (1 - torch.tensor([0.5, 2.0]) / 4).expand(2, 2) ** 6, rtol=3e-2, atol=0)


@INTERPRETED
def test_float16_has_no_kernel_and_says_so(interpreter):
    rnn = discretize.DiscreteRNN(Fading().half(), allow_overshoot=True, dt=0.25)
    rnn(torch.zeros(3, 2, 1).half(), torch.ones(2, 2).half())
    assert "float16" in rnn.stats["engine_why"]


@INTERPRETED
def test_a_sample_at_rest_keeps_its_state_to_the_bit_and_reads_no_nan(interpreter):
    field, x = Own(), torch.randn(4, 2, 3)
    lengths = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.5], [1.0, 1.0]])[..., None]
    x[1:3, 0] = math.nan
    x.requires_grad_()
    states, stats = sequences.run_triton(HeldProblem(field, Euler(), x, torch.zeros(2, 10), lengths), True)
    assert stats["engine"] == "triton"
    assert torch.equal(states[0, 0], states[2, 0])
    assert states.isfinite().all()
    for gradient in torch.autograd.grad(states.sum(), [x, field.to_gates.weight]):
        assert gradient.isfinite().all()


@pytest.mark.records
@INTERPRETED
def test_a_wrong_kernel_is_found_out_at_its_first_use(interpreter, monkeypatch):
    monkeypatch.setitem(kernels.__dict__, "_loaded", lambda text: LOADED(text.replace("tanh(a):", "tanh(a):\n    a = 1.01 * a")))
    rnn = discretize.DiscreteRNN(ctrnn.gated(3, 7), allow_overshoot=True)
    rnn(torch.randn(3, 2, 3))
    assert rnn.stats["engine"] == ("steps" if ON_GPU else "compiled")
    assert "differs from the steps one by one" in rnn.stats["engine_why"]


LOADED = kernels._loaded


@INTERPRETED
def test_verify_engines_compares_them_too(interpreter):
    report = discretize.verify_engines(ctrnn.gated(3, 5), torch.randn(5, 2, 3))
    assert ("sequence", "triton", None) in [(each.call, each.engine, each.why) for each in report.results]
    assert report.agree
