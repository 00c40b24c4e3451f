"""Kernels draw the numbers that torch draws, wherever they draw them, and differentiate what is made of them."""

import ctypes
import gc
import math
import weakref
from unittest.mock import patch

import pytest
import torch
from conformance import ENGINES, ROUNDING, agree, kernels_for_all, ran, sequence
from on_gpu import ON_GPU
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import SRA1, EulerMaruyama, ExponentialEulerMaruyama, Milstein, StratonovichHeun
from discretize.kernels import sequences
from discretize.kernels.build import library
from discretize.kernels.cpp.programs import NOISE, REALS
from discretize.noise.generator import key_columns, noise_keys, normals, philox
from discretize.noise.operation import cell_increments

engines, slow = pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow
# numpy's, in Triton's interpreter at numbers that `where` leaves out
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")]
DOUBLE, SINGLE = torch.float64, torch.float32
TIME, BATCH = 6, 5
LENGTHS = torch.tensor([6, 1, 4, 3, 6])
CALLS = {
    "dt": lambda: {"dt": 0.3},
    "lengths": lambda: {"dt": 0.3, "lengths": LENGTHS},
    "reset": lambda: {"dt": 0.3, "reset": torch.rand(TIME, BATCH) < 0.3},
    "keys": lambda: {"dt": 0.3, "seed": noise_keys(5, BATCH).flip(0)},
    "four substeps": lambda: {"dt": 0.5, "substeps": 4},
    "three substeps": lambda: {"dt": 0.5, "substeps": 3},
    "times": lambda: {"ts": times(TIME + 1)},
    "times of each, two substeps": lambda: {"ts": times(TIME + 1, BATCH), "substeps": 2},
    "stamps of each, lengths": lambda: {"ts": times(TIME, BATCH), "lengths": LENGTHS.clamp(min=2)},
}


class Growing(ctrnn.VectorField):
    """Noise that depends on the state, of one unit each."""

    def __init__(self, inputs, units):
        super().__init__(inputs, units)
        self.read, self.sigma = torch.nn.Linear(inputs, units), torch.nn.Parameter(torch.linspace(0.1, 0.4, units))

    def project(self, x):
        return self.read(x)

    def flow(self, projected, h):
        return torch.tanh(projected) - h

    def diffusion(self, projected, h):
        return self.sigma * (1 + h * h).sqrt()


def of_units(make, *sigma):
    return lambda inputs, units: ctrnn.Noisy(make(inputs, units), ctrnn.Noise(torch.rand([s or units for s in sigma]) / 2))


FIELDS = {
    "plain": of_units(ctrnn.plain),
    "of each unit": of_units(ctrnn.leaky, 0),
    "shared by units": of_units(ctrnn.gated, 0, 2),
    "on the input": lambda inputs, units: ctrnn.Noisy(ctrnn.additive(inputs, units), ctrnn.Noise(0.4, on="input")),
    "colored": lambda inputs, units: ctrnn.ColoredInput(ctrnn.gru(inputs, units), 0.3, 2.0),
    "growing": Growing,
}
STEPS = {step.__name__: step() for step in (EulerMaruyama, Milstein, StratonovichHeun, SRA1, ExponentialEulerMaruyama)}


def times(*sizes):
    return torch.rand(sizes, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)).cumsum(0).requires_grad_()


def check(engine, name="of each unit", step="EulerMaruyama", call="dt", dtype=DOUBLE, units=5, batch=BATCH):
    torch.manual_seed(0)
    field = FIELDS[name](3, units).to(dtype)
    x = torch.randn(TIME, batch, 3, dtype=dtype).requires_grad_()
    h_0 = torch.randn(batch, field.state_size, dtype=dtype).div(2).requires_grad_()
    agree(engine, sequence(field, STEPS[step], x, h_0, **({"seed": 7} | CALLS[call]())), ROUNDING[dtype])


@engines
@pytest.mark.parametrize("call", ["dt", "lengths", "reset", "keys", "times of each, two substeps"])
def test_noise_is_the_same_in_kernels_however_they_are_called(engine, call):
    check(engine, call=call)


@engines
@pytest.mark.parametrize(
    ("name", "step", "call", "units"),
    [
        ("of each unit", "SRA1", "four substeps", 6),
        ("growing", "StratonovichHeun", "times", 1),
        ("growing", "Milstein", "times of each, two substeps", 5),
    ],
)
def test_noise_is_the_same_in_kernels_of_several_steps(engine, name, step, call, units):
    check(engine, name, step, call, SINGLE, units)


@slow
@engines
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", FIELDS)
def test_noise_of_every_field_in_every_call(engine, name, step, dtype, subtests):
    if (name, step) == ("growing", "SRA1"):
        pytest.skip("a step for noise that does not depend on the state")
    if name in ("shared by units", "on the input") and step == "Milstein":
        pytest.skip("a step for noise of one unit each")
    for call in CALLS:
        with subtests.test(call=call):
            check(engine, name, step, call, dtype)


@slow
@engines
@pytest.mark.parametrize(("units", "batch"), [(1, 1), (3, 70), (64, 5), (65, 1), (257, 3)])
@pytest.mark.parametrize("call", ["dt", "four substeps"])
def test_noise_of_odd_sizes(engine, units, batch, call):
    check(engine, "plain", "SRA1", call, SINGLE, units, batch)


@engines
def test_networks_of_an_ensemble_draw_in_one_call_what_each_draws_alone(engine):
    torch.manual_seed(0)
    modules = [discretize.DiscreteRNN(FIELDS["of each unit"](3, 5), EulerMaruyama(), dt=0.3) for _ in range(3)]
    many, x = discretize.ensemble(modules), torch.randn(TIME, BATCH, 3, requires_grad=True)  # the program of the tests above
    with kernels_for_all(engine):
        together, _ = many(x, seed=7)
        ran(many.stats, engine)
        found = torch.autograd.grad(together.square().sum(), [*many.parameters()])
    for k, module in enumerate(modules):
        module.fused = False
        alone, _ = module(x, seed=7)
        of_each = torch.autograd.grad(alone.square().sum(), [*module.parameters()])
        for mine, theirs in zip([together[k], *(stacked[k] for stacked in found)], [alone, *of_each], strict=True):
            assert_close(mine, theirs, rtol=0, atol=ROUNDING[SINGLE] * (1 + float(theirs.detach().abs().max())))


@engines
@pytest.mark.usefixtures("only_new_garbage")
def test_a_field_with_noise_is_looked_through_once_and_again_when_it_has_changed(engine):
    torch.manual_seed(0)
    field, x = FIELDS["of each unit"](3, 5), torch.randn(TIME, BATCH, 3, requires_grad=True)
    rnn, by_steps = (discretize.DiscreteRNN(field, EulerMaruyama(), dt=0.3, fused=fused) for fused in ("always", False))
    with kernels_for_all(engine):
        rnn(x, seed=7)
        rnn(x, seed=7)
        with patch.object(sequences, "attributes_of", side_effect=AssertionError("it is looked through again")):
            rnn(x, seed=8)
        ran(rnn.stats, engine)
        field.noise.sigma = torch.nn.Parameter(3 * field.noise.sigma.detach())
        assert_close(rnn(x, seed=7)[0], by_steps(x, seed=7)[0])
    gone = weakref.ref(field)
    del field, rnn, by_steps
    gc.collect()
    assert gone() is None


# Philox, and the numbers that are made of it


KNOWN = [  # Random123, kat_vectors: philox4x32-10
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_words_are_those_of_philox(counter, key, expected):
    words = [[torch.tensor([int(word, 16)]) for word in given.split()] for given in (counter, key)]
    assert [f"{int(word):08x}" for word in philox(*map(tuple, words))] == expected.split()


def compiled_increments(columns, parts, integral, width):
    """Of rows (rows, 5), at most 64 of them, by the library that kernels call."""
    draw, rows = library(NOISE, {"REAL": REALS[columns.dtype]}).ctrnn_increments, len(columns)
    memo = torch.zeros(rows, 4 * (2 + parts.bit_length()) * (width + 16) + 6, dtype=columns.dtype)
    found = [(ctypes.c_void_p * rows)() for _ in range(2)]
    places = [(ctypes.c_void_p * rows)(*(row.data_ptr() for row in each)) for each in (columns, memo)]
    sizes = [ctypes.c_size_t(number) for number in (rows, width, parts)]
    draw(*sizes, ctypes.c_bool(integral), *places, *found)
    kind = {DOUBLE: ctypes.c_double, SINGLE: ctypes.c_float}[columns.dtype]
    rows_of = [[list((kind * width).from_address(at)) for at in each] for each in found[: 1 + integral]]
    return torch.tensor(rows_of, dtype=columns.dtype).transpose(0, 1)


def places_of(dtype, rows, parts):
    number = torch.arange(rows)
    keys = key_columns(torch.cat([noise_keys(3, rows - 1), torch.tensor([2**63 - 1])]))
    return torch.cat([keys, 40_001 * number[:, None], number[:, None] * 5 % parts], -1).to(dtype).contiguous()


@pytest.mark.skipif(ON_GPU, reason="of the kernels for the CPU")
@pytest.mark.parametrize(
    ("dtype", "within"), [(DOUBLE, 1e-14), (SINGLE, 3e-6)]
)  # some units in the last place of numbers up to 6
def test_compiled_numbers_are_those_of_torch(dtype, within):
    for width, parts, integral in ((1, 1, False), (7, 1, True), (66, 4, False), (300, 16, True)):
        columns = places_of(dtype, 64, parts)
        mine, theirs = (of(columns, parts, integral, width) for of in (compiled_increments, cell_increments))
        assert_close(mine, theirs, rtol=within, atol=within)


@engines
def test_kernels_add_up_the_numbers_of_a_key_a_cell_and_a_unit(engine):
    class Still(ctrnn.VectorField):
        def flow(self, projected, h):
            return 0 * h

    rnn = discretize.DiscreteRNN(ctrnn.Noisy(Still(1, 9), ctrnn.Noise(1.0)).double(), EulerMaruyama(), dt=0.25, fused="always")
    with kernels_for_all(engine):
        found, _ = rnn(torch.zeros(4, 3, 1, dtype=DOUBLE), seed=11)
    ran(rnn.stats, engine)
    keys, cells = noise_keys(11, 3).to(found.device), torch.arange(4)[:, None]
    assert_close(found, math.sqrt(0.25) * normals(keys, cells, torch.zeros(1, dtype=torch.int64), 9, DOUBLE).cumsum(0))


def test_calls_of_one_field_with_other_substeps_take_kernels_of_their_own():
    with kernels_for_all("compiled"):
        field, xs = Growing(2, 3).double(), torch.randn(TIME, 3, 2, dtype=DOUBLE)
        for substeps in (1, 2, 1):
            rnn = discretize.DiscreteRNN(field, EulerMaruyama(), substeps=substeps, fused="always")
            states = [rnn(xs, seed=3)[0] for _ in range(3)][-1]  # what is known of a field is found from the third call on
            assert rnn.stats["engine"] == "compiled"
            expected = discretize.DiscreteRNN(field, EulerMaruyama(), substeps=substeps, fused=False)(xs, seed=3)[0]
            assert_close(states, expected, rtol=1e-11, atol=1e-12)
