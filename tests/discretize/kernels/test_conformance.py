"""Every engine gives the states and gradients of the steps one by one, for any field, call, dtype and layout in memory."""

from functools import partial

import own_fields
import own_methods
import pytest
import torch
import torchcde
from conformance import ENGINES, ROUNDING, agree, kernels_for_all, ran, sequence, solve
from fuzz.dice import Dice
from fuzz.fields import random_field
from hypothesis import given, settings
from hypothesis import strategies as st
from on_gpu import ON_GPU
from own_fields import Attractor, Axes, Bent, Constant, Lorenz, Many, Own, Reading, Soft, Stiff
from problems import NAMED_FIELDS, PUBLISHED, STEPS
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.forward import jvp
from ctrnn.inputs.splines import as_path
from discretize import Checkpointed, Euler, ExponentialEuler, integrate
from discretize.steps.algebra.jacobian import declares_jacobian

engines, slow = pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),  # numpy's, at numbers that `where` leaves out
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # torch's, of Jacobians by steps
]
DOUBLE, SINGLE = torch.float64, torch.float32


NAMED = {name: partial(make, 3, 5) for name, make in NAMED_FIELDS.items()}
OF_PAPERS = {name: partial(make, 3, 6) for name, make in PUBLISHED.items()}
OWN = {kind.__name__: kind for kind in vars(own_fields).values() if isinstance(kind, type) and issubclass(kind, Reading)}
OWN = OWN | {kind.__name__: kind for kind in (Own, Many, Axes, Lorenz, Constant, Bent)}
OWN |= {"three units": lambda: Own(3, 3)}  # few enough to be computed for samples side by side
del OWN["Reading"]
FIELDS = NAMED | OF_PAPERS | OWN
CORNERED = ("Cornered", "Many", "Several")
DECLARED = [name for name in FIELDS if declares_jacobian(FIELDS[name]())]
LEAKY = [name for name in FIELDS if type(FIELDS[name]()).leak is not ctrnn.VectorField.leak]
# A program each. The slow tests add products in other axes, which `Axes` has, and layers, whose parts other files record.
EVERY_DAY = ["Own", "Axes", "Several", "Constant"]


def made(name, dtype=DOUBLE):
    torch.manual_seed(0)
    return FIELDS[name]().to(dtype)


def normal(*sizes, dtype=DOUBLE, seed=1):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def times(*sizes, seed=2):
    """Increasing, and learned."""
    return torch.rand(sizes, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed)).cumsum(0).requires_grad_()


TIME, BATCH = 7, 21
LENGTHS = 1 + 4 * torch.arange(BATCH) % TIME  # in no order, and of more samples than are taken at once
LONGER = LENGTHS.clamp(min=2)  # one stamp does not say how long its sample acts
CALLS = {
    "dt": lambda: {"dt": 0.3},
    "substeps": lambda: {"dt": 0.5, "substeps": 3},
    "lengths": lambda: {"dt": 0.3, "lengths": LENGTHS},
    "reset": lambda: {"dt": 0.3, "reset": torch.rand(TIME, BATCH) < 0.3},
    "times": lambda: {"ts": times(TIME + 1), "substeps": 2},
    "times of each": lambda: {"ts": times(TIME + 1, BATCH)},
    "stamps of each, lengths, substeps": lambda: {"ts": times(TIME, BATCH), "lengths": LONGER, "substeps": 2},
    "times and lengths that nobody learns": lambda: {"ts": times(TIME + 1, BATCH).detach(), "lengths": LENGTHS},
}


def check_sequence(engine, field, step=None, call="times of each", x=None, h_0=None, allowed=None, **more):
    x = normal(TIME, BATCH, field.input_size, dtype=dtype_of(field)) if x is None else x
    h_0 = normal(x.shape[1], field.state_size, dtype=x.dtype, seed=3) / 2 if h_0 is None else h_0
    allowed = ROUNDING[x.dtype] if allowed is None else allowed
    agree(
        engine,
        sequence(field, step or Euler(), x, h_0.detach().requires_grad_(h_0.requires_grad), **CALLS[call](), **more),
        allowed,
    )


def dtype_of(field):
    return field.dtype or torch.get_default_dtype()


@engines
@pytest.mark.parametrize("name", EVERY_DAY)
def test_sequences_of_every_field(engine, name):
    # Seconds of the first are those of libraries that all sequences share.
    check_sequence(engine, made(name))


@slow
@engines
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("name", FIELDS)
def test_sequences_of_every_field_however_they_are_called(engine, name, dtype, subtests):
    for step in [Euler(), *([ExponentialEuler()] if name in LEAKY else [])]:
        for call in CALLS if engine == "compiled" else ["dt", "times of each", "stamps of each, lengths, substeps"]:
            with subtests.test(call=call, step=step):
                check_sequence(engine, made(name, dtype), step, call)


@engines
@pytest.mark.parametrize("call", CALLS)
def test_sequences_however_they_are_called(engine, call):
    # The first takes seconds: it builds the libraries of all sequences in float32.
    check_sequence(engine, made("gated per unit", SINGLE), call=call)


@engines
@pytest.mark.parametrize("call", ["times", "times of each", "stamps of each, lengths, substeps"])
def test_sequences_by_an_exponential_step_of_a_leak_of_ones_own(engine, call):
    # One program: the slow test above adds those of times that nobody learns.
    check_sequence(engine, made("Own"), ExponentialEuler(), call)


EXPLICIT = [name for name, step in STEPS.items() if step.equation and not step.jacobians]
EXPLICIT = [name for name in EXPLICIT if "h'" not in STEPS[name].equation.removeprefix("h'")]


@engines
def test_sequences_by_an_explicit_step_of_several_stages(engine):
    check_sequence(engine, made("gated per unit"), discretize.Heun())


@slow
@engines
@pytest.mark.parametrize("step", EXPLICIT)
def test_sequences_by_every_explicit_step(engine, step):
    check_sequence(engine, made("Own"), getattr(discretize, step)())


def wide(*sizes):
    """Twice as wide in memory."""
    return normal(*sizes[:-1], 2 * sizes[-1])[..., ::2]


LAYOUTS = {
    "one sample": (lambda: normal(TIME, 1, 3), lambda: normal(1, 5)),
    "one step": (lambda: normal(1, 2, 3), lambda: normal(2, 5)),
    "batch first": (lambda: normal(BATCH, TIME, 3).transpose(0, 1), lambda: normal(5, BATCH).t()),
    "every other number": (lambda: wide(TIME, BATCH, 3), lambda: wide(BATCH, 5)),
    "expanded": (lambda: normal(TIME, 1, 3).expand(TIME, BATCH, 3), lambda: normal(5).expand(BATCH, 5)),
    "many samples": (lambda: normal(2, 133, 3), lambda: normal(133, 5)),
    "samples without a gradient": (lambda: normal(TIME, BATCH, 3).detach(), lambda: normal(BATCH, 5)),
    "nothing to learn of the start": (lambda: normal(TIME, BATCH, 3), lambda: normal(BATCH, 5).detach()),
}


@engines
@pytest.mark.parametrize("layout", LAYOUTS)
def test_samples_and_states_may_lie_in_memory_in_any_way(engine, layout):
    x, h_0 = LAYOUTS[layout]
    check_sequence(engine, made("gated per unit"), call="dt", x=x(), h_0=h_0())


@engines
@pytest.mark.parametrize("sizes", [(1, 1), (2, 171)])
def test_fields_of_odd_sizes(engine, sizes):
    torch.manual_seed(0)
    check_sequence(engine, NAMED_FIELDS["gated per unit"](*sizes).to(DOUBLE), call="dt")


@engines
@pytest.mark.parametrize(("name", "call"), [("Own", "stamps of each, lengths, substeps"), ("lstm", "dt")])
def test_sequences_by_a_step_that_takes_a_derivative_of_the_field(engine, name, call):
    check_sequence(engine, made(name), discretize.Taylor2(), call)


class Curved(discretize.Step):
    """The derivative along the slope, of a function that reads the state in another way, too."""

    order, evaluations, tangents = 1, 1, 1

    def advance(self, field, projected, h, dt):
        bend = jvp(lambda u: field.flow(projected, u) * h.sin(), (h,), (field.flow(projected, h),))[1]
        return h + dt * bend


@engines
def test_a_derivative_of_a_function_is_taken_by_what_is_moved_and_nothing_else(engine):
    check_sequence(engine, made("gated per unit"), Curved(), "dt")


class AtRest(ctrnn.VectorField):
    """A spread of units, which begin as equals, and a wave about 0."""

    def __init__(self):
        super().__init__(2, 3)
        self.weight = torch.nn.Parameter(torch.ones(3, 2, dtype=DOUBLE))

    def flow(self, projected, h):
        return projected @ self.weight.t() - h.std(-1, keepdim=True) + torch.sinc(h)


@engines
def test_a_derivative_along_a_slope_may_begin_where_units_are_equal_and_zero(engine):
    field, x, found = AtRest(), torch.ones(TIME, 2, 2, dtype=DOUBLE), []
    with kernels_for_all(engine), torch.no_grad():
        for fused in ("always", False):
            found.append(discretize.DiscreteRNN(field, discretize.Taylor2(), dt=0.1, fused=fused)(x)[0])
    assert_close(*found, rtol=1e-12, atol=1e-12)


# Solves, by the same steps: the tolerance of a step decides which there are, and rounding does not.

TS = torch.tensor([0.0, 0.4, 1.0, 1.5, 2.5, 3.0], dtype=DOUBLE)
SMOOTH = ctrnn.SmoothWarp(3.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
STRAIGHT = ctrnn.PiecewiseWarp(TS, TS**2 / 3)
OF_EACH = torch.tensor([1.0, 0.5, 0.7, 1.0], dtype=DOUBLE)


def spline(x):
    return as_path(torchcde.CubicSpline(torchcde.natural_cubic_coeffs(x.transpose(0, 1), TS.to(x)), TS.to(x)))


def moved(x):
    """Times that are learned."""
    return TS + x[:, 0, 0].double().cpu().tanh() / 20


def rate(x):
    return x[:, :1, :1].double().exp()


# The path of samples (time, batch, 3), and the speed of its clock; what is learned is made of the samples.
INPUTS = {
    "held": lambda x: (ctrnn.HeldPath(x[1:], TS), None),
    "linear": lambda x: (ctrnn.LinearPath(x, TS), None),
    "hermite": lambda x: (ctrnn.HermitePath(x, TS), None),
    "held, times of each": lambda x: (ctrnn.HeldPath(x[1:], TS[:, None] * OF_EACH), None),
    "hermite, times of each": lambda x: (ctrnn.HermitePath(x, TS[:, None] * OF_EACH), None),
    "spline": lambda x: (spline(x.detach()), None),
    "straight clock": lambda x: (ctrnn.WarpedPath(ctrnn.LinearPath(x, TS), STRAIGHT), STRAIGHT.speed),
    "smooth clock": lambda x: (ctrnn.WarpedPath(ctrnn.HermitePath(x, TS), SMOOTH), SMOOTH.speed),
    "smooth clock, held": lambda x: (ctrnn.WarpedPath(ctrnn.HeldPath(x[1:], TS), SMOOTH), SMOOTH.speed),
    "warped, and not told": lambda x: (ctrnn.WarpedPath(ctrnn.LinearPath(x, TS), SMOOTH), None),
    "told, and not warped": lambda x: (ctrnn.LinearPath(x, TS), lambda t: 1 + 0.5 * torch.sin(3 * t)),
    "function": lambda x: (ctrnn.FunctionPath(lambda t: torch.sin(t + x.detach()[0]), (0.0, 3.0), 3, TS[1:-1]), None),
    "learned times": lambda x: (ctrnn.HermitePath(x, moved(x)), None),
    "learned times, held": lambda x: (ctrnn.HeldPath(x[1:], moved(x)), None),
    "learned times of each": lambda x: (ctrnn.LinearPath(x, moved(x)[:, None] * OF_EACH), None),
    "learned speed": lambda x: (ctrnn.LinearPath(x, TS), ctrnn.HeldPath(rate(x)[1:], TS)),
    "learned clock": lambda x: (ctrnn.LinearPath(x, moved(x)), ctrnn.LinearPath(rate(x), moved(x))),
}
# There all samples take the same steps in torch, so that solves agree to the tolerance of a step.
SHARED = ("spline", "told, and not warped", "function", "learned speed", "learned clock")
METHODS = ("dopri5", "tsit5", "dopri8", "rodas5p")


def check_solve(engine, field, inputs="held", method="dopri5", x=None, h0=None, ts=TS[[0, 2, 3, 5]], **how):
    dtype, shared = dtype_of(field), inputs in SHARED
    x = normal(len(TS), 4, field.input_size, dtype=dtype) if x is None else x
    h0 = normal(x.shape[1], field.state_size, dtype=dtype, seed=3).detach() / 2 if h0 is None else h0.detach()
    tolerance = 1e-7 if shared else 1e-6
    allowed = 100 * tolerance if shared else 100 * ROUNDING[dtype]  # by roundings steps are chosen, too
    if dtype == SINGLE:  # which may make another step of one that is just accepted: what is shared is the tolerance
        tolerance, allowed = 1e-4, 2e-2
    if (engine, method) == ("triton", "rodas5p") and not ON_GPU:
        tolerance = 1e-2  # few steps, each of which takes the interpreter a second
        allowed = tolerance if shared else allowed
    how = {"rtol": tolerance, "atol": tolerance, "method": method, "counted": dtype == DOUBLE and not shared} | how
    ts = None if "times" in inputs or "clock" in inputs else ts
    agree(engine, solve(field, INPUTS[inputs], x, h0.requires_grad_(), ts, **how), allowed)


@engines
@pytest.mark.parametrize("name", ["Own", "three units"])  # by rows, and by samples side by side
def test_solves_of_several_fields(engine, name):
    # The seconds are those of libraries that later tests of solves find.
    check_solve(engine, made(name), method="tsit5")


@slow
@engines
@pytest.mark.parametrize("name", FIELDS)
def test_solves_of_every_field(engine, name):
    check_solve(engine, made(name), method="tsit5")


@slow
@pytest.mark.parametrize("engine", ["compiled"])
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FIELDS)
def test_solves_of_every_field_by_every_method(engine, name, method, dtype):
    if method == "rodas5p" and name in DECLARED:
        pytest.skip("a field that declares its Jacobian is for steps in torch")
    if dtype == SINGLE and name in CORNERED:
        pytest.skip("across corners, steps that rounding makes others are off by more than their tolerance")
    check_solve(engine, made(name, dtype), "linear" if method == "rodas5p" else "hermite", method)


@engines
@pytest.mark.parametrize("inputs", INPUTS)
def test_solves_along_every_input(engine, inputs):
    check_solve(engine, made("gated per unit"), inputs)


@slow
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["gated per unit", "lstm", "Own", "three units", "Bent"])
def test_solves_of_several_fields_along_every_input_by_every_method(name, method, inputs):
    check_solve("compiled", made(name), inputs, method)


@slow
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", ["gated per unit", "lstm", "Own", "three units", "Bent"])
def test_solves_by_a_method_given_as_code_of_several_fields_along_every_input(name, inputs):
    check_solve("compiled", made(name), inputs, own_methods.METHODS["tsit5"])


@slow
@pytest.mark.parametrize("method", own_methods.METHODS)
@pytest.mark.parametrize("name", ["Own", "three units", "gru"])
def test_solves_by_every_method_given_as_code(name, method):
    check_solve("compiled", made(name), "hermite, times of each", own_methods.METHODS[method], rtol=1e-3, atol=1e-3)


@engines
def test_stiff_solves(engine):
    # Three seconds are those of four libraries. Other inputs are read by the slow test below, by twice as many steps.
    inputs, how = ("smooth clock", {"rtol": 1e-4, "atol": 1e-4}) if engine == "compiled" else ("held", {})
    check_solve(engine, Soft(), inputs, "rodas5p", **how)


@slow
@engines
@pytest.mark.parametrize("inputs", INPUTS)
def test_stiff_solves_along_every_input(engine, inputs):
    torch.manual_seed(0)
    check_solve(engine, Soft(), inputs, "rodas5p")


@slow
@engines
def test_stiff_solves_of_stiff_fields(engine):
    torch.manual_seed(0)
    check_solve(engine, Stiff(), "linear", "rodas5p")


@engines
@pytest.mark.parametrize(
    "how",
    [
        {"method": "dopri8"},
        {"method": "bosh3", "rtol": 1e-3, "atol": 1e-3},
        {"gradient": Checkpointed(20_000)},
        {"first_step": 0.01, "max_step": 0.2},
    ],
)
def test_solves_by_other_settings(engine, how):
    check_solve(engine, made("gated per unit"), "linear", **how)


# Learned times are a program of their own, of which the slow run adds the other dtype.
@engines
@pytest.mark.parametrize("inputs", ["held", "hermite", "smooth clock", pytest.param("learned times", marks=slow)])
def test_solves_in_single_precision(engine, inputs):
    check_solve(engine, made("gated per unit", SINGLE), inputs)


@engines
@pytest.mark.parametrize("batch", [1, 70])
def test_solves_of_one_sample_and_of_many(engine, batch):
    check_solve(engine, made("three units"), x=normal(len(TS), batch, 3))


@engines
@pytest.mark.parametrize("layout", ["every other number", "expanded"])
def test_solves_of_samples_and_states_that_lie_in_memory_in_any_way(engine, layout):
    x, h0 = LAYOUTS[layout]
    check_solve(engine, made("gated per unit"), x=x()[: len(TS)], h0=h0())


ASKED = torch.stack([TS[0] * OF_EACH, TS[3] * OF_EACH, TS[3] * OF_EACH, TS[4] * OF_EACH])  # one of them twice
ASKED[2:, 1] = ASKED[1, 1]  # a sequence that is over


@engines
@pytest.mark.parametrize("ts", [TS[[5, 2, 0]], ASKED])
def test_solves_at_any_times(engine, ts):
    check_solve(engine, made("gated per unit"), ts=ts)


@engines
def test_solves_without_an_input(engine):
    h0 = normal(18, 3).detach()
    h0[5] *= 8  # more steps than its neighbours
    run = solve(Attractor(), lambda x: (None, None), torch.empty(0), h0.requires_grad_(), TS[:2] / 4, rtol=1e-6, atol=1e-6)
    agree(engine, run, 100 * ROUNDING[DOUBLE])


# What else is asked of a call: more derivatives, networks at once, states between.


@engines
@pytest.mark.parametrize("own", [False, True])
def test_a_loop_over_networks_is_one_call(engine, own):
    modules = [
        discretize.DiscreteRNN(ctrnn.gated(3, 5, dtype=SINGLE), allow_overshoot=True) for _ in range(3)
    ]  # a program from above
    many, x, ts = discretize.ensemble(modules), normal(*([3] if own else []), TIME, BATCH, 3, dtype=SINGLE), times(TIME + 1)
    with kernels_for_all(engine):
        together, _ = many(x, ts=ts, **({"each": "x"} if own else {}))
        ran(many.stats, engine)
        weights = torch.linspace(-1, 1, together.numel()).reshape(together.shape)
        of_many = torch.autograd.grad((together * weights).sum(), [x, ts, *many.parameters()])
    for module in modules:
        module.fused = False
    alone = torch.stack([module(x[k] if own else x, ts=ts)[0] for k, module in enumerate(modules)])
    of_weights = [w for several in zip(*(module.parameters() for module in modules), strict=True) for w in several]
    of_x, of_ts, *of_each = torch.autograd.grad((alone * weights).sum(), [x, ts, *of_weights])
    stacked = [torch.stack(of_each[k : k + 3]) for k in range(0, len(of_each), 3)]
    for mine, theirs in zip([together, *of_many], [alone, of_x, of_ts, *stacked], strict=True):
        assert_close(mine, theirs, rtol=0, atol=ROUNDING[SINGLE] * (1 + float(theirs.detach().abs().max())))


def of_a_sequence(field, x, h0, ts, fused):
    rnn = discretize.DiscreteRNN(field, fused=fused, allow_overshoot=True)
    return rnn(x, h0, ts)[0], rnn.stats


def of_a_solve(field, x, h0, ts, fused, method="dopri5"):
    solved = integrate(field, ctrnn.LinearPath(x, ts.detach()), h0, ts.detach(), rtol=1e-4, atol=1e-4, method=method, fused=fused)
    return solved.hs, solved.stats


TWICE = [("gated per unit", of_a_sequence), ("Own", of_a_sequence), ("gated per unit", of_a_solve)]
# A state that is no output, and a power whose second derivative is infinite at 0.
TWICE += [pytest.param(name, of_a_solve, marks=slow) for name in ("lstm", "gated power 0.5")]


@engines
@pytest.mark.parametrize(("name", "call"), TWICE)
def test_second_derivatives(engine, name, call):
    check_second_derivatives(engine, name, call)


@slow
@engines
def test_second_derivatives_of_a_stiff_solve(engine):
    check_second_derivatives(engine, "gated per unit", partial(of_a_solve, method="rodas5p"))


def check_second_derivatives(engine, name, call):
    """Of a start that is made of the weights, so that each is met on two ways."""
    field, x, ts, found = made(name), normal(3, 2, 3), times(4 if call is of_a_sequence else 3), []
    x = x if call is of_a_sequence else normal(3, 2, 3)
    first_weight = next(weight for weight in field.parameters() if weight.dim() == 2)
    for fused in (True, False):
        h0 = first_weight.sum(0).sin().mean() * torch.linspace(0.2, 0.9, field.state_size).expand(2, -1)
        with kernels_for_all(engine):
            states, stats = call(field, x, h0, ts, fused)
            ran(stats, engine if fused else "steps")
            sought = [x, *field.parameters(), *([ts] if call is of_a_sequence else [])]
            how = {"allow_unused": True, "materialize_grads": True}
            first = torch.autograd.grad(states.square().sum(), sought, create_graph=True, **how)
            second = torch.autograd.grad(sum(gradient.sin().sum() for gradient in first), sought, **how)
        found.append([states, *first, *second])
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, rtol=0, atol=100 * ROUNDING[DOUBLE] * (1 + float(theirs.detach().abs().max())))


@engines
@pytest.mark.parametrize("inputs", ["held", "smooth clock", "hermite, times of each"])
def test_states_between_requested_times(engine, inputs):
    between, field, x, found = torch.tensor([1.4, 0.3], dtype=DOUBLE), made("gated per unit"), normal(len(TS), 4, 3), []
    for fused in (True, False):
        with kernels_for_all(engine), torch.no_grad():
            path, speed = INPUTS[inputs](x)
            solved = integrate(field, path, x.new_zeros(4, 5), TS[[0, 1, 3]], speed=speed, fused=fused, rtol=1e-6, atol=1e-6)
            ran(solved.stats, engine if fused else "steps")
            found.append(solved(between))
    # To a tenth of the tolerance: one reads a polynomial of the steps, whose slopes it kept, and the other steps there.
    assert_close(*found, rtol=0, atol=1e-7)


# Fields that nobody wrote.


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=slow)])  # as the test below, which draws many
def test_random_code(seed):
    check_random_code(seed)


@slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_much_random_code(seed):
    check_random_code(seed)


def check_random_code(seed):
    dice = Dice(seed)
    field = random_field(dice, 3, dice.one_of("of", [DOUBLE, SINGLE]), own_code=0.9)
    try:
        check_sequence(ENGINES[0], field, call=dice.one_of("call", [*CALLS]))
    except AssertionError as error:
        error.add_note(dice.words)
        raise
