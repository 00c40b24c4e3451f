"""One-step maps against closed forms, SciPy, their declared order and one another."""

import math
from functools import cache

import problems
import pytest
import references
import torch
from cases import diagonal
from sympy import Float, Integer, N, Symbol, exp, log, tanh
from torch.testing import assert_close

import ctrnn
import discretize
from derivations.twins import step_maps
from discretize.steps.catalog import dashed

STEPS = problems.STEPS
every_step = pytest.mark.parametrize("step", STEPS.values())
MAKES_A_GATE = [name for name, step in STEPS.items() if step.gate]
MAKES_NONE = [name for name, step in STEPS.items() if step.keeps_and_writes]


def of_g(text, g):
    """What a class says of itself, in numbers: read by Python, not by the grammar that the proofs read it by."""
    known = {"g": g, "exp": torch.exp, "min": lambda g, cap: g.clamp(max=cap), "cap": discretize.steps.CappedEuler().cap}
    return eval(text.replace("^", "**").replace(") g", ") * g"), {}, known)


class Held(ctrnn.Part):
    """Reads its own input features and nothing else: a candidate or a rate that is held over the step."""

    def __init__(self, first: int, units: int) -> None:
        super().__init__()
        self.first, self.input_size, self.hidden_size, self.projected_size = first, 2 * units, units, units

    def project(self, x):
        return x[..., self.first : self.first + self.hidden_size]

    def flow(self, projected, h):
        return projected


def held(decay: ctrnn.Decay | None = None, units: int = 5) -> ctrnn.Relaxation:
    """g (f - decay(h)) with [f, g] the input."""
    return ctrnn.Relaxation(Held(0, units), Held(units, units), decay or ctrnn.LinearDecay())


def test_every_step_map_makes_a_gate_or_keeps_and_writes():
    assert len(STEPS) >= 17
    assert sorted([*MAKES_A_GATE, *MAKES_NONE]) == sorted(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_map_says_what_it_is(name):
    step = STEPS[name]
    assert step.title
    assert step.written or (step.equation and step.error and step.family)
    assert step.factor


@pytest.mark.each_value
@pytest.mark.parametrize("name", MAKES_A_GATE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_step_induces_its_gate(name, dtype):
    f, g, h = torch.tanh(torch.randn(40, 5)), 10 ** (4 * torch.rand(40, 5) - 3), torch.randn(40, 5)
    found = STEPS[name](held(), torch.cat([f, g], -1).to(dtype), h.to(dtype), 1.0)
    expected = h + of_g(STEPS[name].gate, g) * (f - h)
    largest = (1 + expected.abs()).max()  # of polynomial gates, up to g^4/24
    assert_close(found.double(), expected, rtol=0, atol=float(60 * torch.finfo(dtype).eps * largest))


@pytest.mark.parametrize("name", MAKES_NONE)
def test_a_step_without_a_gate_keeps_and_writes_as_its_formula_says(name):
    f, g, h = torch.tanh(torch.randn(40, 5)), 3 * torch.rand(40, 5), torch.randn(40, 5)
    kept, written = (of_g(text, g) for text in STEPS[name].keeps_and_writes)
    assert_close(STEPS[name](held(), torch.cat([f, g], -1), h, 1.0), kept * h + written * f)


@every_step
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("complex_", [False, True])
def test_the_stability_function_is_what_the_map_does_to_a_mode(step, complex_, split):
    z = torch.linspace(-6.1, 1.83, 33)  # past the poles of the implicit maps, 1 and 2, but not on them
    z = torch.complex(z, 2 * torch.sin(5 * z)) if complex_ else z
    leak = 3 * torch.rand(33) if split else None
    measured = discretize.Step.stability(step, z, leak)
    assert_close(step.stability(z, leak), measured, rtol=1e-13, atol=1e-13)


@every_step
def test_on_the_leak_alone_nothing_is_followed_but_the_leak(step):
    z = -torch.logspace(-6, 3, 50)
    if step.stability(z).isfinite().all():
        assert_close(step.stability(z), step.stability(z, -z), rtol=0, atol=0)
    assert step.stability(torch.zeros(1)) == 1.0


@cache
def at_one(name: str):
    """A field, an input, a start and the state at t = 1; units stay on their side of 0, where a power decay has a corner."""
    torch.manual_seed(3)
    field, x = problems.NAMED_FIELDS[name](2, 3, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)
    h0 = 0.4 + 0.5 * torch.rand(2, field.state_size, dtype=torch.float64)
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return field, x, h0, references.dop853(field, references.held(x[None], ends), ends, h0, ends)[-1]


@torch.no_grad()
def error(step: discretize.Step, name: str, steps: int) -> float:
    field, x, h, exact = at_one(name)
    projected = field.project(x)
    for _ in range(steps):
        h = step.advance(field, projected, h, 1 / steps)
    return float((h - exact).abs().max())


def observed_order(step: discretize.Step, name: str) -> float:
    coarse, fine = (8, 16) if step.order > 2 else (16, 32)
    return math.log2(error(step, name, coarse) / error(step, name, fine))


@pytest.mark.parametrize(("step", "name"), diagonal(STEPS.values(), problems.KINDS))  # the slow test below has the rest
def test_a_step_has_the_order_it_declares_on_fields_of_each_kind(step, name):
    # 0.25 is the next term of the expansion at these steps; between orders lies 1.
    assert observed_order(step, name) == pytest.approx(step.order, abs=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", problems.NAMED_FIELDS)
@every_step
def test_a_step_has_the_order_it_declares_on_every_field(name, step):
    assert observed_order(step, name) == pytest.approx(step.order, abs=0.25)


@pytest.mark.parametrize(
    "make",
    [problems.linear, *(pytest.param(make, marks=pytest.mark.slow) for make in (problems.free_leaky, problems.free_power))],
)
@every_step
def test_a_step_has_at_least_its_order_on_solutions_in_closed_form(make, step):
    torch.manual_seed(1)
    problem = make()

    @torch.no_grad()
    def off(steps: int) -> float:
        h = problem.h0
        for _ in range(steps):
            h = step(problem.field, problem.x, h, 1.0 / steps)
        return float((h - problem.solution(torch.tensor(1.0))).abs().max())

    coarse, fine = (8, 16) if step.order > 2 else (16, 32)
    # Some maps are exact on some of them: an exponential on a leak, a splitting on a decay.
    assert off(fine) < 1e-13 or math.log2(off(coarse) / off(fine)) > step.order - 0.15


@pytest.mark.parametrize("name", ["ExponentialEuler", "ETD2", "ETDRK4", "FittedMidpoint", "ExponentialRosenbrock"])
@pytest.mark.parametrize("g", [0.5, 1.0, 1.8, 5.0, 50.0, 200.0])
def test_without_recurrence_an_exponential_step_is_exact_at_any_rate(name, g):
    f, h = torch.tanh(torch.randn(4, 5)), torch.randn(4, 5)
    found = STEPS[name](held(), torch.cat([f, torch.full_like(f, g)], -1), h, 1.0)
    cancelled = g if name == "FittedMidpoint" else 0  # it adds what is g (f - h), and subtracts as much but for the result
    assert_close(found, f + math.exp(-g) * (h - f), rtol=0, atol=2e-14 + 2e-15 * cancelled)


class Linear(ctrnn.VectorField):
    """dh/dt = J h, of which the leaks are declared."""

    def __init__(self, matrix, leaks) -> None:
        super().__init__(0, len(leaks))
        self.matrix, self.leaks = matrix, leaks

    def flow(self, projected, h):
        return h @ self.matrix.T

    def leak(self, projected, h):
        return self.leaks.expand_as(h)


@pytest.mark.parametrize("name", ["Euler", "Midpoint", "RungeKutta4", "FittedMidpoint", "BackwardEuler", "ExponentialRosenbrock"])
def test_a_slow_direction_of_units_that_leak_at_their_own_rates_keeps_its_speed(name):
    leaks, v, slow = torch.tensor([0.5, 1.0, 3.0, 6.0]), torch.randn(4), 1e-7
    away = torch.randn(4, 4) - torch.diag(leaks)
    matrix = away + torch.outer(slow * v - away @ v, v) / (v @ v)  # matrix v = slow v, whatever it does to the rest

    def speed(step):
        return (step(Linear(matrix, leaks), torch.zeros(0), v, 1.0) - v) / slow

    # What is left is of the order of `slow` and of the rounding of v, 1e-16 of it, divided by `slow`.
    assert_close(speed(STEPS[name]), v, rtol=0, atol=3e-6)
    assert_close(speed(STEPS["ExponentialEuler"]), -torch.expm1(-leaks) / leaks * v, rtol=0, atol=3e-6)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", ["Splitting", "StrangSplitting"])
def test_a_splitting_forgets_by_the_power_law_over_any_time(name, exponent):
    f, g, h = torch.zeros(4, 5), torch.full((4, 5), 200.0), torch.randn(4, 5)
    found = STEPS[name](held(ctrnn.PowerDecay(exponent)), torch.cat([f, g], -1), h, 50.0)
    # What drives the state is F + L h, here 0 to the rounding of L h, times dt.
    assert_close(found, h * (1 + exponent * 1e4 * h.abs() ** exponent) ** (-1 / exponent), rtol=0, atol=1e4 * 2e-15)


@pytest.mark.parametrize(
    "name", problems.thinned(["gated per unit", "gated power 0.5", "gated softplus", "gru", "lstm"], ["lstm"])
)
@every_step
def test_a_step_differentiates_to_inputs_states_and_weights(name, step):
    cell = discretize.DiscreteCell(problems.NAMED_FIELDS[name](1, 2), step, dt=0.7)
    names = [name for name, _ in cell.named_parameters()]
    x = torch.randn(2, 1, requires_grad=True)
    h = (0.2 + torch.rand(2, cell.field.state_size)).requires_grad_()  # |h|^r has a corner at 0

    def call(x, h, *weights):
        return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, h))

    assert torch.autograd.gradcheck(call, (x, h, *cell.parameters()), fast_mode=True)


@every_step
@pytest.mark.parametrize("exponent", [0.3, 1.0, 2.0])
def test_gradients_are_finite_where_every_sequence_starts(step, exponent):
    cell = discretize.DiscreteCell(ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(exponent)), step)
    x = torch.randn(4, 2, requires_grad=True)
    cell(x, cell(x)).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in (x, *cell.parameters()))


@every_step
def test_a_sample_takes_the_same_step_in_any_batch(step):
    field = ctrnn.gated(2, 4, rate="softplus")
    x, h = torch.randn(6, 2), torch.randn(6, 4)
    together = step(field, x, h, 3.0)
    assert_close(step(field, x.flip(0), h.flip(0), 3.0).flip(0), together, rtol=0, atol=1e-14)
    for k in range(6):
        assert_close(step(field, x[k], h[k], 3.0), together[k], rtol=0, atol=1e-13)


@every_step
def test_leading_axes_and_strides_do_not_matter(step):
    field = ctrnn.gru(2, 4)
    x, h = torch.randn(2, 3, 5).movedim(0, -1), torch.randn(4, 3, 5).movedim(0, -1)
    flat = step(field, x.reshape(15, 2), h.reshape(15, 4), 0.8)
    assert_close(step(field, x, h, 0.8), flat.reshape(3, 5, 4), rtol=0, atol=1e-14)


@every_step
def test_a_step_runs_in_float32_as_in_float64(step):
    field, x, h = ctrnn.gated(2, 4), torch.randn(3, 2), torch.randn(3, 4)
    exact = step(field, x, h, 1.5)
    found = step(field.float(), x.float(), h.float(), 1.5)
    assert found.dtype == torch.float32
    assert_close(found.double(), exact, rtol=0, atol=3e-6)


@every_step
def test_a_step_changes_no_weight_and_keeps_nothing(step):
    field, x, h = ctrnn.lstm(2, 3), torch.randn(4, 2), torch.randn(4, 6)
    before = {name: value.clone() for name, value in field.state_dict().items()}
    kept, first = dict(vars(step)), step(field, x, h, 1.0)
    step(field, x, 2 * h, 2.0)
    assert torch.equal(step(field, x, h, 1.0), first)
    assert all(torch.equal(before[name], value) for name, value in field.state_dict().items())
    assert vars(step) == kept


@every_step
def test_a_clock_that_stands_still_leaves_the_state(step):
    field, h = ctrnn.gated(2, 3), torch.randn(4, 3)
    projected = field.project(torch.randn(4, 2))
    assert_close(step.advance(field, projected, h, torch.zeros(())), h, rtol=0, atol=1e-15)


@pytest.mark.slow
@every_step
def test_every_way_to_run_a_field_takes_every_step(step):
    field, xs = ctrnn.gated(2, 3), torch.randn(3, 2, 2)
    by_hand, h = [], field.initial_state(2)
    for x in xs:
        for _ in range(2):
            h = step(field, x, h, 0.25)
        by_hand.append(h)
    expected = torch.stack(by_hand)
    ts = torch.arange(4.0) / 2
    assert_close(discretize.DiscreteRNN(field, step, dt=0.5, substeps=2)(xs)[0], expected, rtol=0, atol=1e-14)
    assert_close(discretize.DiscreteRNN(field, step, substeps=2)(xs, ts=ts)[0], expected, rtol=0, atol=1e-14)
    solved = discretize.integrate(field, ctrnn.HeldPath(xs, ts), field.initial_state(2), ts, method=step, max_step=0.25)
    assert_close(solved.hs[1:], expected, rtol=0, atol=1e-14)
    assert_close(discretize.ContinuousRNN(field, step, max_step=0.25)(xs, ts=ts)[0], expected, rtol=0, atol=1e-14)
    unrolled = discretize.unroll(discretize.DiscreteCell(field, step, 0.25), xs.repeat_interleave(2, 0))
    assert_close(unrolled.hs[2::2], expected, rtol=0, atol=1e-14)
    assert unrolled.stats["nfe"] == solved.stats["nfe"] >= 6 * min(step.cost(field), step.evaluations)


class Harmonic(ctrnn.VectorField):
    """dy/dt = z, dz/dt = -w^2 y; y is visible."""

    def __init__(self, w):
        super().__init__(0, 1, 2)
        self.w = w

    def flow(self, projected, h):
        y, z = h.chunk(2, -1)
        return torch.cat([z, -(self.w**2) * y], -1)


@pytest.mark.parametrize("w_dt", [0.3, 1.9, 2.1])
def test_the_symplectic_euler_step_keeps_areas_and_is_stable_up_to_2(w_dt):
    field, x, h = Harmonic(w_dt), torch.zeros(1, 0), torch.zeros(1, 2)
    matrix = discretize.growth(discretize.SymplecticEuler(), field, x, h, 1.0).jacobian[0]
    expected = torch.tensor([[1 - w_dt**2, 1.0], [-(w_dt**2), 1.0]])  # z first, then y by the new z
    assert_close(matrix, expected, rtol=0, atol=1e-15)
    assert_close(torch.linalg.det(matrix), torch.ones(()), rtol=0, atol=1e-14)
    assert bool(torch.linalg.eigvals(matrix).abs().max() > 1 + 1e-9) == (w_dt > 2)


class Unread(ctrnn.VectorField):
    """Oscillators that two hidden units damp, and whose read-out nobody may ask for."""

    def __init__(self):
        super().__init__(2, 2, 4)

    def flow(self, projected, h):
        y, z = h.chunk(2, -1)
        return torch.cat([z - 0.1 * y, torch.tanh(projected) - y - 0.3 * z], -1)

    def visible(self, state):
        raise AssertionError("a step reads the output")


@pytest.mark.parametrize("name", STEPS)
def test_no_step_reads_the_output_of_a_field(name):
    step, field, xs, h = STEPS[name], Unread(), torch.randn(5, 3, 2), torch.randn(3, 4)
    step.advance(field, xs[0], h, 0.1)
    step.counted(field, xs[0], h, 0.1)
    cell = discretize.DiscreteCell(field, step, 0.1)
    assert_close(discretize.unroll(cell, xs, h).hs[1], cell(xs[0], h), rtol=0, atol=1e-12)
    discretize.integrate(field, ctrnn.HeldPath(xs), h, torch.tensor([0.0, 2.0]), method=step, max_step=0.1)
    discretize.growth(step, field, xs[0], h, 0.1)


def test_a_step_does_not_hang_on_what_a_field_reads_out():
    ltc, x, h = ctrnn.ltc(3, 4), torch.randn(5, 3), torch.randn(5, 4)
    with torch.no_grad():
        ltc.gain.fill_(3.0)
        ltc.shift.fill_(0.5)
    moved = discretize.SymplecticEuler()(ltc, x, h, 0.1)
    assert_close(moved, discretize.Euler()(ltc, x, h, 0.1), rtol=0, atol=1e-14)  # no units are hidden: rounding only


def test_second_order_taylor_drops_what_the_symbols_say():
    # dt^2/2 F_h F with F_h of g (f - h), by hand for one unit: g = sigma(v h + z), f = tanh(w h + b).
    field, x, h, dt = ctrnn.gated(1, 1), torch.randn(4, 1), torch.randn(4, 1), 0.3
    g, f = field.rate(x, h), field.candidate(x, h)
    w, v = field.candidate.weight_h, field.rate.weight_h
    slope = g * (1 - g) * v * (f - h) + g * ((1 - f**2) * w - 1)
    expected = h + dt * g * (f - h) + dt**2 / 2 * slope * g * (f - h)
    assert_close(discretize.Taylor2()(field, x, h, dt), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("ExponentialEuler", "Euler"),
        ("ETD2", "Heun"),
        ("ETDRK4", "RungeKutta4"),
        ("Splitting", "Euler"),
        ("FrozenTrapezoid", "Euler"),
        ("StrangSplitting", "Midpoint"),
        ("FittedMidpoint", "Midpoint"),
    ],
)
def test_exponential_steps_of_a_field_without_leak_are_the_plain_ones(name, plain):
    field, x, h = problems.Spiral(), torch.randn(4, 2), torch.randn(4, 2)
    assert_close(STEPS[name](field, x, h, 0.4), STEPS[plain](field, x, h, 0.4), rtol=0, atol=1e-15)


def test_a_splitting_forgets_by_the_power_law_and_writes_the_rate():
    f, g, h = torch.tanh(torch.randn(40, 5)), 3 * torch.rand(40, 5), torch.randn(40, 5)
    x, decay = torch.cat([f, g], -1), ctrnn.PowerDecay(2)
    assert_close(STEPS["Splitting"](held(decay), x, h, 0.5), h / (1 + 2 * (g / 2) * h**2).sqrt() + g / 2 * f)


def test_the_unit_euler_step_of_a_gated_field_mixes_candidate_and_state():
    field, x, h = ctrnn.gated(3, 5), torch.randn(4, 3), torch.randn(4, 5)
    g, f = field.rate(x, h), field.candidate(x, h)
    # Tallec and Ollivier, eq. (10); other order of the same sums.
    assert_close(discretize.Euler()(field, x, h, 1.0), g * f + (1 - g) * h, rtol=0, atol=1e-15)


def test_a_linear_field_is_solved_by_the_rosenbrock_step_alone():
    problem = problems.linear()
    exact = problem.solution(torch.tensor(7.0))
    assert_close(discretize.ExponentialRosenbrock()(problem.field, problem.x, problem.h0, 7.0), exact, rtol=0, atol=1e-13)


def test_the_lstm_forgets_by_its_gates_and_its_visible_state_by_1():
    field, x, state = ctrnn.lstm(2, 3), torch.randn(4, 2), torch.randn(4, 6)
    hidden, cell = state.chunk(2, -1)
    i, f, g, o = field.gates(x, hidden).chunk(4, -1)
    f, written = f.sigmoid(), i.sigmoid() * g.tanh()
    keep = torch.exp(-(1 - f))
    c = keep * cell + (1 - keep) / (1 - f) * written
    h = math.exp(-1) * hidden + (1 - math.exp(-1)) * o.sigmoid() * (f * cell + written).tanh()
    assert_close(discretize.ExponentialEuler()(field, x, state, 1.0), torch.cat([h, c], -1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_a_step_that_is_not_positive_and_finite_is_refused(dt):
    with pytest.raises(ValueError, match="`dt` must be"):
        discretize.Euler()(ctrnn.plain(1, 2), torch.zeros(1, 1), torch.zeros(1, 2), dt)


@pytest.mark.parametrize(
    ("x", "h", "error", "words"),
    [
        (torch.zeros(4, 2), torch.zeros(4, 5), ValueError, "reads 3 input features"),
        (torch.zeros(4, 3), torch.zeros(4, 7), ValueError, "the field keeps 5"),
        (torch.zeros(4, 3), torch.zeros(1, 5), ValueError, "agree on all axes but the last"),
        (torch.zeros(4, 3).half(), torch.zeros(4, 5), TypeError, "float16"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_by_name(x, h, error, words):
    with pytest.raises(error, match=words):
        discretize.Euler()(ctrnn.plain(3, 5), x if x.dtype == torch.float16 else x.double(), h.double(), 1.0)


@pytest.mark.parametrize("exponent", problems.thinned([0, 2], [2]))
@pytest.mark.parametrize("name", STEPS)
def test_the_code_of_a_map_is_the_map_that_the_ledger_is_about(name, exponent):
    """One unit with a gate and a recurrence of its own, in SymPy's numbers."""
    decay = ctrnn.PowerDecay(exponent)
    field = ctrnn.gated(1, 1, rate="softplus", decay=decay)
    x, h, dt = torch.randn(1, 1), torch.tensor([[0.7]]), 0.9
    (w, b), (v, z) = (
        (Float(float(part.weight_h.detach()), 40), Float(float(part.project(x).detach()), 40))
        for part in (field.candidate, field.rate)
    )

    def rate(u):
        return N(log(1 + exp(v * u + z)), 40)  # a number of a number: a tower of stages takes seconds to evaluate

    def flow(u):
        return rate(u) * (tanh(w * u + b) - u ** (exponent + 1))

    def leak(u):
        return rate(u) * u**exponent

    start, length = Float(float(h), 40), Float(dt, 40)
    found = Float(float(STEPS[name](field, x, h, dt).detach()), 40)
    assert name != "CappedEuler" or dt * leak(start) < 1  # where it is Euler's step
    twin = step_maps.maps()["euler" if name in ("SymplecticEuler", "CappedEuler") else dashed(name).replace("-", "_")]
    if twin.is_implicit:
        expected, got = 0, twin.residual(flow, start, found, length)
    else:
        forgetting = step_maps.power_forgetting(rate, Integer(2)) if exponent and twin.keeps_and_writes else None
        differentiated = "F'" in twin.equation  # in the state, which then needs a letter
        letter = Symbol("h", positive=True) if differentiated else start
        expected, got = twin(flow, leak, letter, length, forgetting).doit().subs(letter, start), found
    assert float(N(got - expected, 30)) == pytest.approx(0, abs=2e-15)
