"""Kernels for GPUs take any number of samples a program, hold matrices in registers or read them, and give the steps' numbers."""

import pytest
import torch
from on_gpu import DEVICE, ON_GPU, needs_triton
from own_fields import Axes, Many, Own
from torch.testing import assert_close

import ctrnn
from discretize import Euler, ExponentialEuler, Heun
from discretize.kernels import sequences
from discretize.kernels.record.program import StepModule, program_of, weights_of
from discretize.kernels.triton import kernels, products, writing
from discretize.kernels.triton.lines import Needs
from discretize.kernels.triton.shapes import Shape, shape_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),  # of numpy, at numbers that `where` leaves out
]


class Joined(ctrnn.VectorField):
    """One product of the input and the state; the state in another order, and a gate of part of it."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.of_both = torch.nn.Linear(input_size + hidden_size, hidden_size)

    def flow(self, projected, h):
        pull = torch.tanh(self.of_both(torch.cat([projected, h], -1)))
        return pull * torch.sigmoid(h.flip(-1)) - h * torch.sigmoid(h[..., :2].sum(-1, keepdim=True))


class PartOfAState(ctrnn.VectorField):
    """Products with the whole state, and one with a unit of it."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.of_all, self.of_one = torch.nn.Linear(hidden_size, hidden_size), torch.nn.Linear(1, hidden_size)

    def flow(self, projected, h):
        return torch.tanh(self.of_all(h)) * torch.tanh(self.of_one(h[..., 1:2])) - h


class Chained(ctrnn.VectorField):
    """Products of the state, and of what one of them becomes."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.one, self.other, self.of_other = (torch.nn.Linear(hidden_size, hidden_size) for _ in range(3))

    def flow(self, projected, h):
        return torch.tanh(self.one(h)) * torch.tanh(self.of_other(torch.tanh(self.other(h)))) - h


def full_of_nan(like, *sizes, **how):
    return like.new_zeros(*sizes, **how).fill_(torch.nan)


FIELDS = {name: getattr(ctrnn, name) for name in ("plain", "gated", "gru", "lstm")}
FIELDS |= {"joined": Joined, "chained": Chained, "own": Own, "many": lambda *sizes: Many(), "axes": lambda *sizes: Axes()}


def compare(field, step, shape, batch, monkeypatch, *, moves=False, substeps=1, time=3):
    """States and gradients of a kernel of this shape, and of the steps; moves: step lengths learn, else samples rest."""
    needs_triton()
    monkeypatch.setattr(kernels, "shape_of", lambda *given: shape)
    dtype, module = torch.float64, StepModule(field.to(DEVICE, torch.float64), step)
    wanted = {"x": True, "dt": moves, "stored": False}
    kernel = kernels.TritonNetworks(program_of(module, wanted, dtype, kernels.writer(dtype)), dtype, wanted)
    monkeypatch.setattr(torch.Tensor, "new_empty", full_of_nan)  # of which nothing may be read
    xs = torch.randn(time, batch, field.input_size, dtype=dtype)
    h0, lengths = 0.5 * torch.randn(batch, field.state_size, dtype=dtype), 0.2 + torch.rand(time, batch, 1, dtype=dtype)
    if not moves:
        lengths[1, 0] = 0
        xs[1, 0] = torch.nan  # which nobody reads
    given = [xs.requires_grad_(), h0.requires_grad_(), lengths.requires_grad_(moves), *weights_of(module)]
    sought, weight = [tensor for tensor in given if tensor.requires_grad], torch.randn(time, batch, field.state_size, dtype=dtype)
    found = []
    for states in (
        sequences._Steps.apply(kernel, module, substeps, None, *given)[0],
        sequences._states_by_steps(module, substeps, None, *(xs.nan_to_num() if t is xs else t for t in given)),
    ):
        gradients = torch.autograd.grad((states * weight).sum(), sought, allow_unused=True, materialize_grads=True)
        found.append([states, *gradients])
    if not moves:
        found[1][1][1, 0] = 0  # by the steps nan_to_num has no gradient there either
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    with torch.no_grad():  # without room for what the way back reads
        assert torch.equal(sequences.states_of(kernel, lambda: module, substeps, None, *given), found[0][0])


CASES = [
    ("gated", 5, 1, 3, True),
    ("gru", 33, 1, 1, False),
    ("lstm", 5, 2, 3, False),
    ("joined", 5, 4, 5, False),
    ("own", 5, 1, 3, False),
    ("chained", 5, 1, 3, True),
    *(pytest.param(name, 5, 2, 3, True, marks=pytest.mark.slow) for name in FIELDS),
    *(pytest.param(name, 5, 4, 17, False, marks=pytest.mark.slow) for name in FIELDS),
    *(pytest.param(name, 65, 1, 3, False, marks=pytest.mark.slow) for name in ("gated", "gru", "lstm", "joined")),
    *(pytest.param(name, 5, 16, 17, False, marks=pytest.mark.slow) for name in FIELDS),
]


@pytest.mark.parametrize(("name", "hidden", "rows", "batch", "moves"), CASES)
def test_programs_of_any_number_of_samples_give_the_numbers_of_the_steps(name, hidden, rows, batch, moves, monkeypatch):
    shape = Shape(rows < 16, rows, 4)
    compare(FIELDS[name](3, hidden), Euler(), shape, batch, monkeypatch, moves=moves, substeps=2)


@pytest.mark.skipif(ON_GPU, reason="threads there cannot be watched")
def test_a_barrier_that_is_missing_is_found_without_a_gpu(races, monkeypatch):
    needs_triton()
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_barrier", lambda builder: None)
    compare(Joined(3, 5), Euler(), Shape(True, 2, 4), 3, monkeypatch)  # one thread has the numbers right all the same
    assert any(line.startswith("is read after it was stored: v") for line in races)
    races.clear()


@pytest.mark.parametrize("rows", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["gru", *(pytest.param(name, marks=pytest.mark.slow) for name in FIELDS if name != "gru")])
def test_matrices_without_room_in_registers_are_read_in_parts(name, rows, monkeypatch):
    monkeypatch.setattr(writing, "FEW_ALL", 0)
    monkeypatch.setattr(writing, "FEW_SOME", 0)
    monkeypatch.setattr(products, "SUMMED", 128)
    compare(FIELDS[name](3, 20), Euler(), Shape(True, rows, 4), 2, monkeypatch)


def test_what_a_later_product_reads_of_an_earlier_value_is_stored_without_a_backward_pass_too(monkeypatch):
    monkeypatch.setattr(writing, "FEW_ALL", 0)
    monkeypatch.setattr(writing, "FEW_SOME", 0)
    compare(PartOfAState(2, 7), Heun(), Shape(True, 1, 4), 3, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("step", [Heun(), ExponentialEuler()])
def test_programs_of_any_number_of_samples_take_other_steps(step, rows, monkeypatch):
    compare(ctrnn.lstm(3, 5), step, Shape(rows < 16, rows, 4), 3, monkeypatch, moves=True)


@pytest.mark.slow
def test_products_of_many_samples_are_read_in_parts_beyond_a_tile(monkeypatch):
    monkeypatch.setattr(writing, "TILE", 512)
    monkeypatch.setattr(products, "PART", 256)
    compare(Joined(3, 20), Euler(), Shape(False, 16, 4), 17, monkeypatch)


def test_columns_of_the_input_that_are_not_all_read_are_projected(monkeypatch):
    class Part(ctrnn.VectorField):
        def __init__(self):
            super().__init__(5, 4)
            self.own, self.one = torch.nn.Linear(2, 4), torch.nn.Linear(1, 4)

        def flow(self, projected, h):
            return torch.tanh(self.own(projected[..., 1:3]) + self.one(projected[..., 4:]) * h) - h

    compare(Part(), Euler(), Shape(True, 1, 4), 2, monkeypatch)


@pytest.mark.parametrize(
    ("hidden", "matrices", "batch", "rows"),
    [(64, 2, 32, 1), (64, 4, 132, 1), (128, 2, 100, 1), (128, 2, 500, 1), (64, 2, 2000, 4), (512, 3, 100_000, 16)],
)
def test_rows_follow_batch_width_and_multiprocessors(hidden, matrices, batch, rows):
    resident = min(matrices, 49152 // hidden**2) * hidden**2
    needs = Needs((), (), 0, resident, matrices * hidden**2 - resident)
    found = shape_of(needs, hidden, batch, 4, 132)
    assert (found.rows, found.few) == (rows, rows < 16)
    assert shape_of(needs, hidden, 2 * batch, 4, 264) == found  # twice the samples by twice the multiprocessors
