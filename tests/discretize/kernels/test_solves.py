"""Exact solves by kernels that are written for a field's code: against the engine in torch, and against what they promise."""

import cases
import pytest
import torch
from own_fields import Constant, Lorenz, Many, Own
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, SolverError, integrate

each = pytest.mark.parametrize
SAME = {"rtol": 1e-10, "atol": 1e-10}  # the same steps, other sums
TIGHT = {"rtol": 1e-6, "atol": 1e-6}


def both(field, path, h0, ts, weights=None, **settings):
    """States and gradients by the kernel, and by the engine in torch, which take the same steps."""
    answers = []
    for fused in (True, False):
        solved = integrate(field, path, h0, ts, fused=fused, **TIGHT, **settings)
        assert solved.stats["engine"] == ("compiled" if fused else "steps"), solved.stats["engine_why"]
        sources = [h0, *(field.parameters() if weights is None else weights)]
        sources += [path.xs] if path is not None and path.xs.requires_grad else []
        gradients = torch.autograd.grad(solved.hs.sin().sum(), sources, allow_unused=True, materialize_grads=True)
        answers.append([solved.hs, *gradients, torch.tensor(solved.stats["num_steps"])])
    for mine, theirs in zip(*answers, strict=True):
        assert_close(mine, theirs, **SAME)


@each(
    "field, path",
    [
        (Own, ctrnn.HeldPath),
        pytest.param(Own, ctrnn.LinearPath, marks=pytest.mark.slow),
        pytest.param(Many, ctrnn.HeldPath, marks=pytest.mark.slow),
    ],
)
def test_states_gradients_and_steps_are_those_of_the_engine_in_torch(field, path):
    torch.manual_seed(0)
    made, x = field(), torch.randn(5, 4, 3, requires_grad=True)
    ts = torch.arange(6.0 if path is ctrnn.HeldPath else 5.0) / 2
    both(made, path(x, ts), (0.3 * torch.randn(4, 10)).requires_grad_(), ts, method="tsit5")


@each("method", ["dopri5", pytest.param("dopri8", marks=pytest.mark.slow)])
def test_every_sample_may_have_times_of_its_own(method):
    torch.manual_seed(1)
    ts = torch.rand(6, 4).cumsum(0)
    path = ctrnn.HeldPath(torch.randn(5, 4, 3), ts)
    both(Own(), path, torch.zeros(4, 10, requires_grad=True), ts, method=method)


class Pulled(nn.Module):
    """dh/dt = tanh(W [h, t]) cos(k t) - h."""

    def __init__(self):
        super().__init__()
        self.linear, self.k = nn.Linear(3, 2), 2.0

    def forward(self, t, h):
        return torch.tanh(self.linear(torch.cat([h, t], -1))) * torch.cos(self.k * t) - h


def test_a_plain_equation_reads_the_time():
    f, h0 = Pulled(), torch.randn(4, 2, requires_grad=True)
    both(f, None, h0, [0.0, 1.0, 2.5], list(f.parameters()))
    f.k = 3.0  # is looked at in every call
    both(f, None, h0, torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]), list(f.parameters()))


@cases.each("field", [Lorenz, Constant])
def test_a_field_that_reads_nothing(field):
    both(field(), ctrnn.HeldPath(torch.zeros(2, 5, 1)), torch.randn(5, 3, requires_grad=True), torch.arange(3.0))


def test_neighbours_and_threads_change_no_bit_of_a_sample():
    torch.manual_seed(2)
    field, ts, threads = Own(10), torch.arange(4.0), torch.get_num_threads()
    x, h0 = torch.randn(3, 40, 10), torch.randn(40, 10)  # from the projected input on, which is here the input
    field.project = lambda x: x
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(integrate(field, ctrnn.HeldPath(x, ts), h0, ts, **TIGHT).hs)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_second_derivatives_are_those_of_the_engine():
    field, h0 = Pulled(), torch.randn(2, 2, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda h0: integrate(field, None, h0, [0.0, 0.5], **TIGHT).hs[-1], h0)


def test_a_solve_that_fails_says_where():
    class Growing(ctrnn.VectorField):
        def flow(self, projected, h):
            return h * h

    with pytest.raises(SolverError, match=r"t = (0\.9|1)") as raised:
        integrate(Growing(1, 1), ctrnn.HeldPath(torch.zeros(4, 2, 1)), torch.ones(2, 1), torch.arange(5.0) / 2, **TIGHT)
    assert raised.value.trajectory.stats["engine"] == "compiled"


def test_states_between_and_events_come_from_the_kernels_steps():
    torch.manual_seed(3)
    path, h0, ts = ctrnn.HeldPath(torch.randn(3, 4, 3)), torch.zeros(4, 10), torch.arange(4.0)
    field, between = Own(), torch.linspace(0, 3, 7)
    found = [integrate(field, path, h0, ts, fused=fused, **TIGHT)(between) for fused in (True, False)]
    assert_close(*found, **SAME)


def test_modules_take_it_too():
    torch.manual_seed(4)
    x, field, ts = torch.randn(5, 3, 3), Own(), torch.arange(6.0)
    rnn = ContinuousRNN(field, **TIGHT)
    output, _ = rnn(x)
    assert rnn.stats["engine"] == "compiled"
    solved = integrate(field, ctrnn.HeldPath(x, ts), torch.zeros(3, 10), ts, fused=False, **TIGHT)
    assert_close(output, solved.hs[1:, :, :5], **SAME)


RATE = torch.ones(2, requires_grad=True)
REFUSED = {
    "sizes": (lambda t, h: h.new_zeros(len(h), 2) - h, "makes a number of the size of the batch"),
    "closure": (lambda t, h: -RATE * h, "a tensor with a gradient that is no parameter"),
    "branch": (lambda t, h: -h if h.sum() > 0 else h, "branches on the values of tensors"),
}


@cases.each("name", REFUSED)
def test_code_without_a_kernel_is_solved_in_torch_and_says_why(name):
    f, why = REFUSED[name]
    stats = integrate(f, None, torch.ones(2, 2), [0.0, 1.0]).stats
    assert (stats["engine"], why in stats["engine_why"]) == ("steps", True)
