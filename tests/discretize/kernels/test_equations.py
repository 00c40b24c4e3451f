"""Kernels solve the equations of implicit steps as the steps do: states, all gradients, and what has no solution."""

from functools import cache, partial

import own_fields
import pytest
import torch
from conformance import ROUNDING, agree, kernels_for_all, sequence
from on_gpu import ON_GPU
from problems import NAMED_FIELDS
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.forward import jvp
from discretize import BackwardEuler, Trapezoid
from discretize.errors import StepError
from discretize.kernels.cpp.sequences import EquationUnsolvedError
from discretize.kernels.unsolved import check_solutions
from discretize.steps.along import HeldProblem, step_along

slow = pytest.mark.slow
pytestmark = pytest.mark.skipif(ON_GPU, reason="of the kernels for the CPU")
DOUBLE, SINGLE = torch.float64, torch.float32
TIME = 4
STEPS = {step.__name__: step for step in (BackwardEuler, Trapezoid)}


class InPlace(ctrnn.VectorField):
    """Code that writes into tensors that it made."""

    def __init__(self):
        super().__init__(3, 4)
        self.into = torch.nn.Linear(3, 4, dtype=DOUBLE)

    def flow(self, projected, h):
        slope = self.into(projected)
        slope[:, :2] -= h[:, 2:]
        return torch.tanh(slope).clone().sub_(h)


FIELDS = {name: partial(NAMED_FIELDS[name], 3, 5) for name in ("plain", "gated per unit", "gru", "lstm")}
FIELDS |= {"own": own_fields.Own, "stiff": own_fields.Stiff, "in place": InPlace}


def times(*sizes):
    return torch.rand(sizes, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)).cumsum(0).requires_grad_()


CALLS = {
    "dt": lambda batch: {"dt": 0.5},
    "substeps": lambda batch: {"dt": 0.5, "substeps": 3},
    "times": lambda batch: {"ts": times(TIME + 1), "substeps": 2},
    "times of each": lambda batch: {"ts": times(TIME + 1, batch)},
    "stamps of each, lengths, substeps": lambda batch: {
        "ts": times(TIME, batch),
        "lengths": 2 + torch.arange(batch) % (TIME - 1),
        "substeps": 2,
    },
}


def made(name, dtype=DOUBLE):
    torch.manual_seed(0)
    return FIELDS[name]().to(dtype)


def given(field, batch, dtype):
    dice = torch.Generator().manual_seed(1)
    sizes = (TIME, batch, field.input_size), (batch, field.state_size)
    x, h_0 = (torch.randn(size, dtype=dtype, generator=dice).div(2).requires_grad_() for size in sizes)
    return x, h_0


def check(name, step, call, batch=5, dtype=DOUBLE):
    field = made(name, dtype)
    agree("compiled", sequence(field, step, *given(field, batch, dtype), **CALLS[call](batch)), ROUNDING[dtype])


@pytest.mark.parametrize(
    ("name", "step", "call", "batch", "dtype"),
    [
        ("plain", BackwardEuler, "dt", 1, SINGLE),
        ("gated per unit", Trapezoid, "stamps of each, lengths, substeps", 5, DOUBLE),
        ("own", BackwardEuler, "times of each", 5, DOUBLE),
    ],
)
def test_states_and_gradients_are_those_of_the_steps(name, step, call, batch, dtype):
    check(name, step(), call, batch, dtype)


@slow
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", FIELDS)
def test_states_and_gradients_of_every_field_in_every_call(name, step, dtype, subtests):
    for call in CALLS:
        for batch in (1, 5):
            with subtests.test(call=call, batch=batch):
                check(name, STEPS[step](), call, batch, dtype)


def module(field, fused, **how):
    return discretize.DiscreteRNN(field, fused=fused, **({"step": BackwardEuler(), "dt": 0.5} | how))


def test_gradients_are_those_of_differences():
    torch.manual_seed(0)
    field = ctrnn.gated(2, 3).double()
    weights = [*field.parameters()]
    x, h_0 = torch.randn(3, 2, 2, dtype=DOUBLE, requires_grad=True), torch.randn(2, 3, dtype=DOUBLE, requires_grad=True)
    rnn = module(field, "always", step=Trapezoid())

    def output(x, h_0, *_):
        return rnn(x, h_0)[0]

    with kernels_for_all("compiled"):
        assert torch.autograd.gradcheck(output, (x, h_0, *weights))
    assert rnn.stats["engine"] == "compiled"


def test_second_derivatives_are_those_of_the_steps():
    field = made("gated per unit")
    x, h_0 = given(field, 2, DOUBLE)
    second = []
    for fused in ("always", False):
        rnn = module(field, fused)
        (first,) = torch.autograd.grad(rnn(x, h_0)[0].square().sum(), x, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), [x, *field.parameters()]))
    for mine, theirs in zip(*second, strict=True):
        assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


class Square(ctrnn.VectorField):
    """dh/dt = w h^2 + x: with dt = 1 from h = 0 a step has no solution where 4 w x > 1."""

    def __init__(self, w=1.0):
        super().__init__(1, 2)
        self.w = torch.nn.Parameter(torch.tensor([w, w], dtype=DOUBLE))

    def flow(self, projected, h):
        return self.w * h * h + projected


def pushed(push):
    """Three samples, of which the second is pushed."""
    x = torch.zeros(TIME, 3, 1, dtype=DOUBLE)
    x[2, 1] = push
    return x


@pytest.mark.parametrize("lengths", ["shared", "of each"])
def test_a_state_without_a_solution_is_the_error_of_the_steps_which_take_it_alone(lengths, monkeypatch):
    stepped = []

    def counted(problem, *how):
        stepped.append(len(problem.h0))
        return step_along(problem, *how)

    monkeypatch.setattr("discretize.kernels.unsolved.step_along", counted)
    ends = torch.arange(1.0, TIME + 1, dtype=DOUBLE)
    how = {} if lengths == "shared" else {"ts": ends[:, None].expand(TIME, 3) * torch.tensor([1.0, 0.75, 1.0], dtype=DOUBLE)}
    errors = []
    for fused in ("always", False):
        with kernels_for_all(), pytest.raises(StepError, match="no solution of u = a") as raised:
            module(Square(), fused, dt=1.0)(pushed(3.0), **how)
        errors.append(raised.value)
    assert stepped == [1]
    mine, theirs = errors
    assert str(mine) == str(theirs)
    assert (mine.sample, mine.unit) == (theirs.sample, theirs.unit) == (1, 0)


def test_one_sample_without_a_solution_among_32_is_found_by_ten_calls():
    sizes, x = list[int](), torch.zeros(TIME, 32, 1, dtype=DOUBLE)
    x[2, 11] = 3.0

    def is_solved(problem):
        sizes.append(len(problem.h0))
        return not bool((problem.xs > 1).any())

    problem = HeldProblem(Square(), BackwardEuler(), x, torch.zeros(32, 2, dtype=DOUBLE), 1.0, 1)
    with pytest.raises(StepError, match="no solution of u = a") as raised:
        check_solutions(problem, is_solved)
    assert raised.value.sample == 11
    assert sizes == [16, 16, 8, 8, 4, 4, 2, 2, 1, 1]


def test_kernels_solve_no_equation_without_a_solution_because_an_iteration_was_far_away():
    for dt in (1.5, 2.0, 3.0, 4.5):
        rnn = module(Square().float(), "always", dt=dt)
        with kernels_for_all(), pytest.raises(StepError, match="no solution of u = a"):
            rnn(torch.ones(1, 1, 1, dtype=SINGLE), torch.full((1, 2), 0.1, dtype=SINGLE))


class Folded(ctrnn.VectorField):
    """Two solutions of a step have merged and vanished beside h = -1 where x is above 3, and a third one is far away."""

    def __init__(self):
        super().__init__(1, 1)
        self.w = torch.nn.Parameter(torch.ones(1, dtype=DOUBLE))

    def flow(self, projected, h):
        return self.w * (projected + 4 * torch.tanh(2 * h)) - h


def folded():
    """Three samples, of which the second needs pseudo-time."""
    x = torch.full((2, 3, 1), 0.1, dtype=DOUBLE)
    x[:, 1] = 3.3  # at 3.2 it hangs on the rounding of some processors whether pseudo-time ends
    return x, torch.tensor([[-2.0], [-1.0], [1.0]], dtype=DOUBLE)


def answers(field, fused, x, h_0):
    rnn = module(field, fused, dt=1.0)
    output, _ = rnn(x, h_0)
    return rnn.stats, [output.detach(), *torch.autograd.grad(output.square().sum(), [*field.parameters()])]


@cache
def folded_by_steps():
    """Its answers, of which half a second is pseudo-time."""
    return answers(Folded(), False, *folded())[1]


def test_kernels_follow_pseudo_time_where_two_solutions_have_merged():
    field, (x, h_0) = Folded(), folded()
    with kernels_for_all("compiled"):
        stats, mine = answers(field, "always", x, h_0)
    assert stats["engine"] == "compiled"
    assert float(mine[0][0, 1]) > 3  # the far one
    assert_close(mine, folded_by_steps(), rtol=1e-12, atol=1e-14)


def test_kernels_end_at_the_first_solution_where_a_state_grows():
    """u = h + 4 tanh(2 u) - u from 1/2 and its opposite: by Newton's method from there each ends on the other's side of 0."""
    x, h_0 = torch.zeros(1, 2, 1, dtype=DOUBLE), torch.tensor([[0.5], [-0.5]], dtype=DOUBLE)
    with kernels_for_all("compiled"):
        stats, (mine, _) = answers(Folded(), "always", x, h_0)
    assert stats["engine"] == "compiled"
    assert_close(mine.flatten(), torch.tensor([2.2494, -2.2494], dtype=DOUBLE), rtol=0, atol=1e-3)


class Coupled(ctrnn.VectorField):
    """Two units, of which the solutions of a long step are few and far."""

    def flow(self, projected, h):
        a, b = torch.tanh(2.6 * h).split(1, -1)
        return torch.cat([-1.5 * a - 1.7 * b - 1.1, 2.9 * a + 3.0 * b + 0.3], -1) + projected - h


def test_kernels_follow_pseudo_time_to_the_solution_that_it_leads_to():
    field, x, h_0 = Coupled(2, 2), torch.zeros(1, 2, 2), torch.tensor([[-1.9, 3.9], [0.1, -1.5]])
    rnn = module(field, "always", dt=7.5)
    with kernels_for_all("compiled"):
        output, _ = rnn(x, h_0)
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]
    assert_close(output[0, 0], torch.tensor([0.0691, -1.4660]), rtol=0, atol=1e-3)
    assert_close(output[0], h_0 + 7.5 * field.flow(x[0], output[0]), rtol=0, atol=1e-11)


def test_a_call_that_a_kernel_leaves_unsolved_is_solved_by_steps(monkeypatch):
    def unsolved(*_, **__):
        raise EquationUnsolvedError

    field, (x, h_0) = Folded(), folded()
    rnn = module(field, "always", dt=1.0)
    with kernels_for_all():
        for _ in range(3):  # and no later call is planned as one that needs no steps
            rnn(x, h_0)
        assert rnn.stats["engine"] == "compiled"
        monkeypatch.setattr("discretize.kernels.sequences.states_of", unsolved)
        stats, mine = answers(field, "always", x, h_0)
    assert stats["engine"] == "steps"
    assert stats["engine_why"].endswith("steps go further")
    assert_close(mine, folded_by_steps(), rtol=0, atol=0)  # by the same steps


class Switch(ctrnn.VectorField):
    """One solution of a step, which Newton's method does not come to from a state where tanh is flat."""

    def __init__(self):
        super().__init__(1, 1)
        self.w = torch.nn.Parameter(torch.ones(1, dtype=DOUBLE))

    def flow(self, projected, h):
        return 4 * torch.tanh(self.w * projected + 2 * h) - h

    def leak(self, projected, h):
        return torch.ones_like(h)


def test_a_sample_that_is_not_solved_from_its_state_is_solved_from_where_the_leak_leads():
    field, h_0 = Switch(), torch.tensor([[-2.75], [0.5], [-2.25]], dtype=DOUBLE)
    x = torch.tensor([[[5.0], [0.3], [4.5]]], dtype=DOUBLE)
    with kernels_for_all("compiled"):
        rnn = module(field, "always", dt=1.0)
        u = rnn(x, h_0)[0][0]
    assert rnn.stats["engine"] == "compiled"
    assert_close(u, h_0 + field.flow(x[0], u), rtol=0, atol=1e-14)
    assert_close(u, module(field, False, dt=1.0)(x, h_0)[0][0], rtol=0, atol=1e-13)


def test_samples_that_are_nan_are_refused_as_by_steps():
    field = made("gated per unit")
    said = []
    for fused in ("always", False):
        x, h_0 = given(field, 2, DOUBLE)
        x = x.detach().clone()
        x[1, 0, 0] = torch.nan
        with kernels_for_all(), pytest.raises(ValueError, match="finite") as raised:
            module(field, fused)(x, h_0)
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_sample_does_not_move_its_neighbours():
    field = made("stiff")
    x, h_0 = (each.detach() for each in given(field, 3, DOUBLE))
    hard = x.clone()
    hard[:, 1] *= 1e4
    with kernels_for_all("compiled"):
        rnn = module(field, "always", dt=5.0)
        beside, _ = rnn(hard, h_0)
        assert rnn.stats["engine"] == "compiled"
        alone, _ = rnn(x[:, [0, 2]].contiguous(), h_0[[0, 2]].contiguous())
    assert_close(beside[:, [0, 2]], alone, rtol=1e-14, atol=1e-14)  # the same sums, but for products of more rows at once
    assert_close(beside, module(field, False, dt=5.0)(hard, h_0)[0], rtol=1e-10, atol=1e-12)


class Halves(discretize.Step):
    """Half a step of Euler's, then half a step backwards, from a guess that reads the slope."""

    order, evaluations = 2, 2

    def advance(self, field, projected, h, dt):
        between = h + dt / 2 * field.flow(projected, h)
        return BackwardEuler().advance(field, projected, between, dt / 2)


def test_a_step_of_ones_own_may_call_an_implicit_one():
    check("gru", Halves(), "times of each")


def test_the_field_may_write_in_place():
    check("in place", Trapezoid(), "dt")


class Declared(ctrnn.VectorField):
    def __init__(self):
        super().__init__(3, 4)
        self.into = torch.nn.Linear(3, 4, dtype=DOUBLE)

    def flow(self, projected, h):
        return torch.tanh(self.into(projected)) - h**3

    def jacobian(self, projected, h):
        return torch.diag_embed(-3 * h * h)


class Tilted(discretize.Step):
    """Backward Euler's, and a little of its derivative along ones: no more than kernels and steps may differ by."""

    order, evaluations, tangents = 1, 5, 1

    def advance(self, field, projected, h, dt):
        u, along = jvp(lambda v: BackwardEuler().advance(field, projected, v, dt), (h,), (torch.ones_like(h),))
        return u + 1e-12 * along


@pytest.mark.parametrize(
    ("field", "step", "why"),
    [
        (partial(made, "plain"), Tilted, "it differentiates the solution of an equation along a vector"),
        (Declared, BackwardEuler, "a field's own `jacobian`, or its `bandwidths`, are for steps in torch"),
        (partial(made, "plain"), discretize.ExponentialRosenbrock, "it computes with the field's Jacobian as a matrix"),
    ],
)
def test_what_has_no_kernel_says_why(field, step, why):
    rnn = discretize.DiscreteRNN(field(), step(), dt=0.5)
    with kernels_for_all():
        rnn(torch.randn(TIME, 2, 3, dtype=DOUBLE))
    assert rnn.stats["engine"] == "steps"
    assert rnn.stats["engine_why"].startswith(why)


def test_networks_of_an_ensemble_solve_their_equations_as_each_alone():
    torch.manual_seed(0)
    modules = [module(ctrnn.gated(3, 5), True) for _ in range(3)]
    many, x = discretize.ensemble(modules), torch.randn(TIME, 4, 3, requires_grad=True)
    with kernels_for_all("compiled"):
        together, _ = many(x)
        assert many.stats["engine"] == "compiled", many.stats["engine_why"]
        gradients = torch.autograd.grad(together.square().sum(), [*many.parameters()])
    for k, one in enumerate(modules):
        one.fused = False
        alone, _ = one(x)
        of_each = torch.autograd.grad(alone.square().sum(), [*one.parameters()])
        for mine, theirs in zip([together[k], *(each[k] for each in gradients)], [alone, *of_each], strict=True):
            assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_solves_by_implicit_steps_of_one_length_take_the_kernel():
    field = made("gru")
    x, h_0 = (each.detach() for each in given(field, 3, DOUBLE))
    path = ctrnn.HeldPath(x, torch.arange(TIME + 1.0, dtype=DOUBLE))
    solves = []
    with kernels_for_all():
        for fused in ("always", False):
            how = {"method": "backward-euler", "max_step": 0.25, "fused": fused}
            solves.append(discretize.integrate(field, path, h_0, path.knots, **how))
    assert [each.stats["engine"] for each in solves] == ["compiled", "steps"]
    assert_close(solves[0].hs, solves[1].hs, rtol=1e-10, atol=1e-12)
