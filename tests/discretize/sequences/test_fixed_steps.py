"""The same run of fixed steps by every door: the same states, gradients and engine."""

import pytest
import torch
from cases import crossed
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, ExponentialEuler, integrate, unroll
from discretize.kernels.price import kernels_at_once
from discretize.steps.catalog import steps

pytestmark = pytest.mark.kernels

TIME, BATCH, SUBSTEPS = 6, 3, 2


@pytest.fixture(autouse=True)
def _at_once():
    with kernels_at_once():
        yield


def a_field():
    return ctrnn.gated(2, 4, generator=torch.Generator().manual_seed(1))


def samples(time=TIME):
    return torch.randn(time, BATCH, 2, generator=torch.Generator().manual_seed(2))


def edges():
    return torch.tensor([0.0, 0.5, 1.0, 2.0, 2.25, 3.0, 3.5])


def by_discrete_rnn(field, step, xs, h0, fused):
    rnn = DiscreteRNN(field, step, substeps=SUBSTEPS, fused=fused, allow_overshoot=True)
    return rnn(xs, h0)[0], rnn.stats


def by_continuous_rnn(field, step, xs, h0, fused):
    rnn = ContinuousRNN(field, method=step, max_step=1 / SUBSTEPS, fused=fused)
    return rnn(xs, h0)[0], rnn.stats


def by_integrate(field, step, xs, h0, fused):
    ts = torch.arange(len(xs) + 1.0)
    solved = integrate(field, ctrnn.HeldPath(xs), h0, ts, method=step, max_step=1 / SUBSTEPS, fused=fused)
    return solved.hs[1:], solved.stats


def by_unroll(field, step, xs, h0, fused):
    cell = DiscreteCell(field, step, dt=1 / SUBSTEPS, allow_overshoot=True)
    solved = unroll(cell, xs.repeat_interleave(SUBSTEPS, 0), h0, fused=fused)
    return solved.hs[SUBSTEPS::SUBSTEPS], solved.stats


def by_layers(field, step, xs, h0, fused):
    layers = discretize.Layers([DiscreteRNN(field, step, substeps=SUBSTEPS, fused=fused, allow_overshoot=True)])
    return layers(xs, h0)[0], layers.layers[0][0].stats


def by_solved_layers(field, step, xs, h0, fused):
    layers = discretize.Layers([ContinuousRNN(field, method=step, max_step=1 / SUBSTEPS, fused=fused)])
    return layers(xs, h0)[0], layers.layers[0][0].stats


def by_a_model(field, step, xs, h0, fused):
    steps = ContinuousRNN(field, method=step, max_step=1 / SUBSTEPS, fused=fused)
    model = discretize.SequenceModel(DiscreteRNN(field), 1).under(steps)
    return model.rnn(xs, h0)[0], steps.stats


DOORS = [by_discrete_rnn, by_continuous_rnn, by_integrate, by_unroll, by_layers, by_solved_layers, by_a_model]
USUAL = {"Euler", "RungeKutta4", "BackwardEuler"}  # one stage, several, and one without a kernel; the others are like them


def with_gradients(door, step, fused):
    field, xs, h0 = a_field(), samples(3).requires_grad_(), torch.full((BATCH, 4), 0.2, requires_grad=True)
    states, stats = door(field, step, xs, h0, fused)
    return states, torch.autograd.grad(states.square().sum(), [xs, h0, *field.parameters()]), stats


@pytest.mark.parametrize("name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in steps()])
def test_a_step_map_gives_the_same_states_gradients_and_engine_by_every_door(name, subtests):
    step = steps()[name]()
    expected, gradients, told = with_gradients(by_discrete_rnn, step, True)
    for door in DOORS[1:]:
        with subtests.test(door=door.__name__):
            states, found, stats = with_gradients(door, step, True)
            assert (stats["engine"], stats["engine_why"]) == (told["engine"], told["engine_why"])
            assert_close(states, expected, rtol=1e-12, atol=1e-13)
            assert_close(found, gradients, rtol=1e-11, atol=1e-12)


def noisy_field():
    return ctrnn.Noisy(a_field(), ctrnn.Noise(0.3))


def draws(door, step, fused):
    """The states of noise with a seed, gradients to them, and what ran."""
    field, xs = noisy_field(), samples().requires_grad_()
    h0 = torch.full((BATCH, 4), 0.2)
    if door == "integrate":
        ts = torch.arange(TIME + 1.0)
        given = {"method": step, "max_step": 1 / SUBSTEPS, "fused": fused, "seed": 5}
        solved = integrate(field, ctrnn.HeldPath(xs), h0, ts, **given)
        states, stats = solved.hs[1:], solved.stats
    else:
        rnn = {
            "DiscreteRNN": DiscreteRNN(field, step, substeps=SUBSTEPS, fused=fused, allow_overshoot=True),
            "ContinuousRNN": ContinuousRNN(field, method=step, max_step=1 / SUBSTEPS, fused=fused),
        }[door]
        states, stats = rnn(xs, h0, seed=5)[0], rnn.stats
    return states, torch.autograd.grad(states.square().sum(), [xs, *field.parameters()], allow_unused=True), stats


# The slow run adds a step that reads the leak besides.
NOISE_STEPS = [
    discretize.EulerMaruyama(),
    discretize.SRA1(),
    pytest.param(discretize.ExponentialEulerMaruyama(), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("step", NOISE_STEPS)
@pytest.mark.parametrize("door", ["ContinuousRNN", "integrate"])
def test_a_step_with_noise_draws_the_same_path_by_every_door_and_takes_its_kernel(step, door):
    expected, found = draws("DiscreteRNN", step, True), draws(door, step, True)
    assert expected[2]["engine"] == "compiled"
    assert found[2] == expected[2]
    assert_close(found[0], expected[0], rtol=1e-12, atol=1e-13)
    for mine, theirs in zip(found[1], expected[1], strict=True):
        assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("door", ["DiscreteRNN", "ContinuousRNN", "integrate"])
def test_noise_by_a_kernel_is_that_of_the_steps_one_by_one(door):
    kernel, steps = (draws(door, discretize.EulerMaruyama(), fused) for fused in (True, False))
    assert (kernel[2]["engine"], steps[2]["engine"]) == ("compiled", "steps")
    assert_close(kernel[0], steps[0], rtol=1e-12, atol=1e-13)


def test_a_solve_along_a_path_of_the_users_own_is_the_module_along_it():
    field, xs, h0 = noisy_field(), samples(), torch.zeros(BATCH, 4)
    path = discretize.BrownianPath(7, torch.tensor([0.0, 2.5, 8.0]), 4, BATCH)
    step = discretize.EulerMaruyama()
    expected, _ = DiscreteRNN(field, step, substeps=SUBSTEPS)(xs, h0, seed=path)
    ts = torch.arange(TIME + 1.0)
    solved = integrate(field, ctrnn.HeldPath(xs), h0, ts, method=step, max_step=1 / SUBSTEPS, seed=path)
    assert_close(solved.hs[1:], expected, rtol=1e-12, atol=1e-13)
    # Between the samples it goes on along the same path.
    finer = integrate(
        field,
        ctrnn.HeldPath(xs),
        h0,
        ts.repeat_interleave(2)[1:] - 0.5 * (torch.arange(13) % 2),
        method=step,
        max_step=1,
        seed=path,
    )
    assert_close(solved(ts[:-1] + 0.5), finer.hs[1::2], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("call", ["plain", "lengths", "own edges"])
def test_a_module_that_steps_and_one_that_solves_count_the_same(call):
    lasts = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    how = {
        "plain": {},
        "lengths": {"lengths": [6, 2, 5]},
        "own edges": {"ts": torch.cat([lasts.new_zeros(1), lasts.cumsum(0)])[:, None] + torch.tensor([0.0, 3.0, 7.0])},
    }[call]
    told = []
    for rnn in (
        DiscreteRNN(a_field(), substeps=SUBSTEPS, fused=True),
        ContinuousRNN(a_field(), method=Euler(), max_step=1 / SUBSTEPS, fused=True),
        ContinuousRNN(a_field(), method=Euler(), max_step=1 / SUBSTEPS, fused=False),
    ):
        rnn(samples(), **how)
        told.append({name: value for name, value in rnn.stats.items() if not name.startswith("engine")})
    assert told[0] == told[1] == told[2]
    assert max(told[0]["steps_of_samples"]) == TIME * SUBSTEPS


@pytest.mark.parametrize("door", DOORS[1:], ids=lambda door: door.__name__)
def test_a_kernel_gives_what_the_steps_of_the_same_door_give(door):
    kernel, step = (with_gradients(door, Euler(), fused) for fused in (True, False))
    assert kernel[2]["engine"] == "compiled"
    assert_close(kernel[:2], step[:2], rtol=1e-12, atol=1e-13)
    counted = ("nfe", "nfe_samples", "num_steps", "steps_of_samples", "smallest_step", "smallest_step_at", "method")
    assert {name: kernel[2][name] for name in counted} == {name: step[2][name] for name in counted}


CALLS = ["edges", "own edges", "lengths", "uneven", "reset"]
METHODS = crossed([Euler(), "midpoint"], CALLS)
# The slow run adds the other pairs, the same map by its name, and one that reads the leak.
METHODS += [pytest.param(method, call, marks=pytest.mark.slow) for method in ("euler", ExponentialEuler()) for call in CALLS]


@pytest.mark.parametrize(("method", "call"), METHODS)
def test_modules_run_as_they_do_step_by_step(method, call):
    max_step = 0.3 if call == "uneven" else 0.25
    how = {"edges": {"ts": edges()}, "uneven": {"ts": edges()}}
    how["own edges"] = {"ts": edges()[:, None] * torch.tensor([1.0, 0.9, 2.0])}
    how["lengths"] = {"lengths": [6, 2, 5], "ts": edges()}
    how["reset"] = {"reset": torch.rand(TIME, BATCH, generator=torch.Generator().manual_seed(3)) < 0.4}
    field = a_field()
    ts = how[call].get("ts", edges()).clone().requires_grad_()
    results = []
    for fused in (True, False):
        rnn = ContinuousRNN(field, method=method, max_step=max_step, fused=fused)
        states, last = rnn(samples(), **how[call] | ({"ts": ts} if "ts" in how[call] else {}))
        gradients = torch.autograd.grad((states**2).sum() + last.sum(), [ts, *field.parameters()], allow_unused=True)
        results.append((states, last, *(g for g in gradients if g is not None)))
    assert rnn.stats["engine"] == "steps"
    assert_close(results[0], results[1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("direction", [1, -1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath, ctrnn.HermitePath], ids=lambda path: path.__name__)
@pytest.mark.parametrize("clock", [None, "straight", "smooth"])
def test_a_solve_by_step_maps_reads_input_and_clock_where_each_step_begins(path, clock, direction):
    field, xs = a_field(), samples(7)
    given = path(xs, torch.cat([edges(), edges()[-1:] + 1]) if path is ctrnn.HeldPath else edges())
    end = float(edges()[-1])
    warp = {
        "straight": ctrnn.PiecewiseWarp(torch.tensor([0.0, 1.3, end]), torch.tensor([0.0, 2.0, end])),
        "smooth": ctrnn.SmoothWarp.random(end, 3.0, generator=torch.Generator().manual_seed(5)),
    }.get(clock)
    ts = torch.linspace(0, end, 9)
    ts = ts if direction > 0 else ts.flip(0)
    solves = [
        integrate(field, given, torch.zeros(BATCH, 4), ts, method=Euler(), max_step=0.2, fused=fused, speed=warp and warp.speed)
        for fused in (True, False)
    ]
    assert solves[0].stats["engine"] == "compiled"
    assert_close(solves[0].hs, solves[1].hs, rtol=1e-12, atol=1e-13)
    between = torch.tensor([0.4, 1.1])
    assert_close(solves[0](between), solves[1](between), rtol=1e-12, atol=1e-13)


def test_a_runge_kutta_method_that_sees_the_input_move_says_why_it_has_no_kernel():
    solved = integrate(a_field(), ctrnn.LinearPath(samples()), torch.zeros(BATCH, 4), torch.arange(6.0), method="rk4", fused=True)
    assert solved.stats["engine"] == "steps"
    assert solved.stats["engine_why"] == "ThreeEighths() sees the input or its clock move within a step"


def test_a_run_that_diverges_names_the_first_state_that_is_not_finite_by_a_kernel_too():
    class Growing(ctrnn.VectorField):
        def flow(self, projected, h):
            return projected * h**3

    xs = torch.ones(40, 2, 1)
    xs[:, 1] = 0.01
    said = []
    for fused in (True, False):
        rnn = ContinuousRNN(Growing(1, 1), method=Euler(), max_step=1, fused=fused)
        with pytest.raises(discretize.SolverError) as error:
            rnn(xs, torch.ones(2, 1))
        said.append((str(error.value), len(error.value.trajectory)))
        assert error.value.trajectory.stats["engine"] == ("compiled" if fused else "steps")
    assert said[0] == said[1]
    assert "sample 0" in said[0][0]
    finite = [torch.ones(())]
    while finite[-1].isfinite():
        finite.append(finite[-1] + finite[-1] ** 3)
    assert said[0][1] == len(finite) - 1  # the start, and all states that are finite


def test_samples_of_uneven_lengths_take_as_many_steps_as_each_needs():
    field, xs, h, expected = a_field(), samples(), torch.zeros(BATCH, 4), []
    for x, length, needs in zip(xs, edges().diff().tolist(), [2, 2, 4, 1, 3, 2], strict=True):
        for _ in range(needs):
            h = h + length / needs * field.flow(field.project(x), h)
        expected.append(h)
    states, _ = ContinuousRNN(field, method=Euler(), max_step=0.25, fused=False)(xs, ts=edges())
    assert_close(states, torch.stack(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("method", ["euler", "rk4", "euler-maruyama"])
def test_stamps_in_float32_take_the_steps_that_those_in_float64_take(method):
    field = ctrnn.leaky(2, 3, alpha=1.0, generator=torch.Generator().manual_seed(0))
    noisy = method == "euler-maruyama"
    field = ctrnn.Noisy(field, ctrnn.Noise(0.3)) if noisy else field
    x, ts, seed = torch.randn(40, 2, 2), 0.1 * torch.arange(41.0, dtype=torch.float64), 5 if noisy else None
    assert (ts.float().double().diff() > 0.1).sum() > 10
    for parts in (1, 2):
        rnn = discretize.ContinuousRNN(field, method, max_step=0.1 / parts, fused=False)
        exact, rounded = (rnn(x, ts=times, seed=seed)[0] for times in (ts, ts.float()))
        assert rnn.stats["num_steps"] == 40 * parts
        assert_close(rounded, exact, rtol=0, atol=1e-6)


def test_even_times_that_are_learned_have_their_gradient_by_both_modules():
    found = []
    for rnn in (DiscreteRNN(a_field(), Euler()), ContinuousRNN(a_field(), method=Euler())):
        ts = torch.arange(TIME + 1.0).requires_grad_()
        found += torch.autograd.grad(rnn(samples(), ts=ts)[0].square().sum(), ts)
    assert_close(found[0], found[1], rtol=1e-12, atol=1e-13)
    assert found[0].abs().min() > 1e-6


@pytest.mark.parametrize("step", NOISE_STEPS)
def test_noise_moves_no_sequence_that_is_over(step):
    rnn = ContinuousRNN(noisy_field(), method=step, max_step=1 / SUBSTEPS, fused=False)
    hs = rnn.trajectory(samples(), lengths=[6, 2, 4], seed=3).hs
    for b, end in enumerate([6, 2, 4]):
        assert_close(hs[end:, b], hs[end, b].expand(len(hs) - end, -1), rtol=0, atol=0)


@pytest.mark.parametrize("method", ["midpoint", "rk4"])
def test_a_method_that_sees_its_clock_move_takes_no_kernel_for_held_samples_either(method):
    warp = ctrnn.SmoothWarp.random(3.5, 3.0, generator=torch.Generator().manual_seed(5))
    path, ts = ctrnn.HeldPath(samples(), edges()), torch.linspace(0, 3.5, 9)
    how = {"method": method, "max_step": 0.2, "speed": warp.speed}
    solves = [integrate(a_field(), path, torch.zeros(BATCH, 4), ts, fused=fused, **how) for fused in (True, False)]
    assert_close(solves[0].hs, solves[1].hs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("fused", [True, False])
def test_a_solve_backwards_tells_its_shortest_step_by_the_users_time(fused):
    path, ts = ctrnn.HeldPath(samples(), edges()), edges().flip(0)
    stats = integrate(a_field(), path, torch.zeros(BATCH, 4), ts, method=Euler(), fused=fused).stats
    assert (stats["smallest_step"], stats["smallest_step_at"]) == (0.25, 2.25)


def test_times_have_the_same_gradient_along_a_path_whether_they_are_the_knots_or_equal_to_them():
    seed, found = discretize.BrownianPath(7, torch.tensor([0.0, 2.5, 8.0]), 4, BATCH), []
    for same in (True, False):
        path = ctrnn.HeldPath(samples(), torch.arange(TIME + 1.0).requires_grad_())
        ts = path.knots if same else path.knots.clone()
        solved = integrate(noisy_field(), path, torch.zeros(BATCH, 4), ts, method=discretize.EulerMaruyama(), seed=seed)
        found += torch.autograd.grad(solved.hs.square().sum(), path.knots)
    assert_close(found[0], found[1], rtol=1e-12, atol=1e-13)
