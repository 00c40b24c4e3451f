"""A field is changed between a solve and its backward pass: the gradient is that of the field that was solved, or an error."""

import re

import pytest
import torch
from problems import thinned
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteRNN, integrate

FACTOR = {"number": 1.0}


class Field(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, 2)
        self.weight, self.number, self.constant = nn.Parameter(torch.tensor([-0.5, -0.7])), 1.0, torch.ones(2)
        self.register_buffer("mask", torch.ones(2))
        self.layer, self.function, self.of_mode = nn.Linear(2, 2), nn.Tanh(), {True: 1.0, False: 2.0}

    def flow(self, projected, h):
        scale = self.number * FACTOR["number"] * self.of_mode[self.training] * self.mask * self.constant
        return scale * self.weight * h + 0.1 * self.function(self.layer(h))


def of_solve(method, gradient=None, fused=False):
    def states(field, h0):
        path, ts = ctrnn.HeldPath(torch.zeros(3, 2, 1)), torch.arange(4.0)
        return integrate(field, path, h0, ts, method=method, gradient=gradient, fused=fused, rtol=1e-3, atol=1e-3).hs

    return states


def of_sequence(step, fused=False):
    def states(field, h0):
        return DiscreteRNN(field, step, dt=0.25, fused=fused)(torch.zeros(3, 2, 1), h0)[0]

    return states


AGAIN = {  # which compute something again in the backward pass
    "the adjoint": of_solve("dopri5", discretize.Adjoint()),
    "blocks": of_solve("dopri5", discretize.Checkpointed(1000)),
    "stiff blocks": of_solve("rodas5p", discretize.Checkpointed(1000)),
    "torchdiffeq's adjoint": of_solve("torchdiffeq:dopri5", discretize.Adjoint()),
}
KERNELS = {
    "a sequence's kernel": of_sequence(discretize.Euler(), fused=True),
    "a solve's kernel": of_solve("dopri5", fused=True),
    "a kernel in blocks": of_solve("dopri5", discretize.Checkpointed(1000), fused=True),
    "a stiff kernel": of_solve("rodas5p", fused=True),
}
STEPS = {
    "steps": of_sequence(discretize.Euler()),
    "implicit steps": of_sequence(discretize.BackwardEuler()),
    "a solve": of_solve("dopri5"),
    "a stiff solve": of_solve("rodas5p"),
}


def in_parallel(field, h0):
    return discretize.unroll_parallel(discretize.DiscreteCell(field, dt=0.25), torch.zeros(3, 2, 1), h0).hs


STEPS["Newton's method over all times"] = in_parallel


def twice(tensor):
    with torch.no_grad():
        tensor.mul_(2)


CHANGES = {
    "an attribute": lambda field: setattr(field, "number", 2.0),
    "a global": lambda field: FACTOR.update(number=2.0),
    "its mode": lambda field: field.eval(),
    "a weight": lambda field: twice(field.weight),
    "a weight's data": lambda field: twice(field.weight.data),
    "another weight": lambda field: setattr(field, "weight", nn.Parameter(2 * field.weight.detach())),
    "a buffer": lambda field: twice(field.mask),
    "another buffer": lambda field: setattr(field, "mask", torch.full((2,), 2.0)),
    "a tensor": lambda field: twice(field.constant),
    "another tensor": lambda field: setattr(field, "constant", torch.full((2,), 2.0)),
    "a part": lambda field: setattr(field, "function", nn.ReLU()),
    "a part within": lambda field: setattr(field.layer, "forward", lambda h: 2 * h),
    "a hook": lambda field: field.layer.register_forward_hook(lambda layer, given, found: 2 * found),
    "its code": lambda field: setattr(field, "flow", lambda projected, h: -3 * h),
    "its numbers loaded": lambda field: field.load_state_dict({name: 2 * value for name, value in field.state_dict().items()}),
}
UNDONE = {"an attribute", "its mode", "another weight", "another buffer"}
UNCOUNTED = {"a weight's data"}  # by torch, too: what a graph keeps of it is changed with it
REFUSED = "written into between|gives other states|other steps|modified by an inplace"


def gradients(states, change=None):
    torch.manual_seed(0)
    FACTOR["number"], field, h0 = 1.0, Field(), torch.ones(2, 2).requires_grad_()
    sought, hs = [field.weight, field.layer.weight, h0], states(field, h0)
    if change is not None:
        change(field)
    return torch.autograd.grad(hs.square().sum(), sought)


@pytest.fixture(autouse=True)
def kernels_and_globals(monkeypatch):
    monkeypatch.setitem(FACTOR, "number", 1.0)
    monkeypatch.setattr("discretize.kernels.price.PRICE", 0)


def check(states, changes, subtests):
    expected = gradients(states)
    for name, change in changes.items():
        with subtests.test(name):
            found = None
            try:
                found = gradients(states, change)
            except RuntimeError as error:
                if name in UNDONE or not re.search(REFUSED, str(error)):
                    raise
            for mine, theirs in zip(found or expected, expected, strict=True):
                assert_close(mine, theirs, rtol=1e-12, atol=1e-12)  # the same sums


@pytest.mark.parametrize("way", thinned(AGAIN, ("the adjoint", "blocks", "torchdiffeq's adjoint")))
def test_what_is_computed_again_is_of_the_field_that_was_solved_or_refused(way, subtests):
    check(AGAIN[way], CHANGES, subtests)


@pytest.mark.parametrize("way", AGAIN)
def test_a_weight_that_was_written_into_is_named(way):
    with pytest.raises(RuntimeError, match="`weight` was written into between the solve and its backward pass"):
        gradients(AGAIN[way], CHANGES["a weight"])


@pytest.mark.parametrize("way", thinned(STEPS, ("a solve",)))
def test_graphs_are_of_the_field_that_was_solved_or_refused(way, subtests):
    check(STEPS[way], {name: change for name, change in CHANGES.items() if name not in UNCOUNTED}, subtests)


def test_torchdiffeqs_adjoint_is_of_the_field_that_was_solved(subtests):
    check(of_solve("torchdiffeq:dopri5", discretize.Adjoint()), {name: CHANGES[name] for name in sorted(UNDONE)}, subtests)


@pytest.mark.slow  # kernels to build
@pytest.mark.parametrize("way", KERNELS)
def test_kernels_are_of_the_field_that_was_solved_or_refused(way, subtests):
    check(KERNELS[way], {name: change for name, change in CHANGES.items() if name not in UNCOUNTED}, subtests)


@pytest.mark.parametrize("way", AGAIN)
def test_a_global_that_changes_the_states_is_refused(way):
    with pytest.raises(RuntimeError, match=r"gives other states|other steps"):
        gradients(AGAIN[way], CHANGES["a global"])


class Counting(Field):
    """A field that counts its evaluations, and keeps what it saw last for a plot."""

    def __init__(self):
        super().__init__()
        self.evaluations, self.last = 0, None

    def flow(self, projected, h):
        self.evaluations, self.last = self.evaluations + 1, h.detach()
        return super().flow(projected, h)


@pytest.mark.parametrize("way", AGAIN)
def test_what_a_field_keeps_and_does_not_read_is_no_change(way):
    field, h0 = Counting(), torch.ones(2, 2).requires_grad_()
    hs = AGAIN[way](field, h0)
    field.note = "solved"
    assert torch.autograd.grad(hs.sum(), h0)[0].isfinite().all()


def test_a_field_counts_its_calls_in_the_backward_pass_and_states_between_are_of_its_settings_before():
    field, h0 = Counting(), torch.ones(2, 2).requires_grad_()
    path, ts = ctrnn.HeldPath(torch.zeros(3, 2, 1)), torch.arange(4.0)
    solved = integrate(field, path, h0, ts, gradient=discretize.Adjoint())
    calls, again, between = field.evaluations, solved.stats["nfe_backward"], torch.tensor([0.3, 1.7])
    solved.hs.sum().backward()
    assert field.evaluations - calls == solved.stats["nfe_backward"] - again > 0
    with torch.no_grad():
        expected, field.number = solved(between), 2.0
        assert torch.equal(solved(between), expected)
    assert field.number == 2.0


@pytest.mark.parametrize("way", ["the adjoint", "blocks", "steps", "a solve"])
def test_backward_twice_gives_the_same_twice_or_is_refused(way):
    states = (AGAIN | STEPS)[way]
    field, h0 = Field(), torch.ones(2, 2).requires_grad_()
    total = states(field, h0).square().sum()
    one, other = (torch.autograd.grad(total, [field.weight, h0], retain_graph=True) for _ in range(2))
    for mine, theirs in zip(one, other, strict=True):
        assert_close(mine, theirs, rtol=0, atol=0)
    torch.autograd.grad(total, h0)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total, h0)


@pytest.mark.parametrize("way", AGAIN)
def test_second_derivatives_are_refused(way):
    field, h0 = Field(), torch.ones(2, 2).requires_grad_()
    (first,) = torch.autograd.grad(AGAIN[way](field, h0).square().sum(), h0, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(first.sum(), h0)
