r"""Tests solves of fields with noise, and that what is for equations without refuses them.

OU on the clock c     dh = -c' h dt + s sqrt(c') dW          h(t) = h0 e^-c(t) + s sqrt((1 - e^-2c(t))/2) xi
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.torchdiffeq import odeint

TWICE: dict[str, Any] = {"dtype": torch.float64}
STEPS = [getattr(discretize, name)() for name in ("EulerMaruyama", "Milstein", "StratonovichHeun", "SRA1")]
STEPS.append(discretize.ExponentialEulerMaruyama())
BATCH, TIME, SEED = 4, 5, 7
steps = pytest.mark.parametrize("step", STEPS)


def noisy(inputs: int = 2, units: int = 3) -> ctrnn.Noisy:
    return ctrnn.Noisy(ctrnn.plain(inputs, units, **TWICE), ctrnn.Noise(0.3))


def along_zeros(field: ctrnn.VectorField, **settings: object) -> discretize.Trajectory:
    path = ctrnn.HeldPath(torch.zeros(2, 1, 2, **TWICE))
    return discretize.integrate(field, path, torch.zeros(1, 3, **TWICE), torch.tensor([0.0, 1.0]), **settings)


def sequence() -> Tensor:
    return torch.zeros(4, 1, 2, **TWICE)


def cell() -> discretize.DiscreteCell:
    return discretize.DiscreteCell(noisy(), discretize.EulerMaruyama())


def times() -> Tensor:
    return torch.tensor([0.0, 1.0], **TWICE)


RUN_WITHOUT: dict[str, Callable[[], object]] = {
    "integrate by dopri5": lambda: along_zeros(noisy()),
    "integrate by torchdiffeq": lambda: along_zeros(noisy(), method="torchdiffeq:dopri5"),
    "integrate by rk4": lambda: along_zeros(noisy(), method="rk4"),
    "integrate by a step map": lambda: along_zeros(noisy(), method=discretize.Midpoint()),
    "integrate a function of a driven field": lambda: discretize.integrate(
        ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence())), None, torch.zeros(1, 3, **TWICE), times()
    ),
    "integrate with noise in a part": lambda: along_zeros(_Around(noisy())),
    "a driven field, called": lambda: ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence()))(0.5, torch.zeros(1, 3, **TWICE)),
    "odeint": lambda: odeint(ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence())), torch.zeros(1, 3, **TWICE), times()),
    "a step map, called": lambda: discretize.Euler()(noisy(), torch.zeros(2, **TWICE), torch.zeros(3, **TWICE), 0.1),
    "ContinuousRNN": lambda: discretize.ContinuousRNN(noisy()),
    "JumpRNN": lambda: discretize.JumpRNN(noisy(0), discretize.CellJump(discretize.DiscreteCell(ctrnn.gru(2, 3, **TWICE)))),
    "CellJump": lambda: discretize.CellJump(cell()),
    "SymbolModel": lambda: discretize.SymbolModel(noisy(), discretize.EulerMaruyama()),
    "Map": lambda: discretize.Map(noisy(0), discretize.EulerMaruyama()),
    "lyapunov": lambda: discretize.lyapunov(discretize.Flow(noisy(0)), torch.zeros(1, 3, **TWICE), intervals=20),
    "basins": lambda: discretize.basins(discretize.Flow(noisy(0)), torch.zeros(1, 3, **TWICE), [], length=1.0),
    "verify_engines": lambda: discretize.verify_engines(noisy(), sequence(), step=discretize.EulerMaruyama()),
    "Monitor": lambda: discretize.Monitor(cell()),
    "state_jacobians": lambda: discretize.state_jacobians(
        discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), sequence()
    ),
    "growth": lambda: discretize.growth(discretize.Euler(), noisy(), torch.zeros(2, **TWICE), torch.zeros(3, **TWICE), 0.1),
    "to_torch": lambda: ctrnn.to_torch(_PlainWithNoise(2, 3)),
    "Stack": lambda: ctrnn.Stack([noisy(2, 3), ctrnn.plain(3, 3, **TWICE)]),
}


class _Around(ctrnn.VectorField):
    """A field of a user's own around another one, whose noise it forgets."""

    def __init__(self, field: ctrnn.VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.field.project(projected), h)


class _PlainWithNoise(ctrnn.LSTMField):
    """One of the library's own fields, with noise."""

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


@pytest.mark.parametrize("run", RUN_WITHOUT.values())
def test_what_is_for_equations_without_noise_refuses_a_noisy_field_by_name(run: Callable[[], object]):
    with pytest.raises(ValueError, match=r"^`\w+` does not go with `.*`: .* refuses it, for .*; take |has noise in a part"):
        run()


def samples(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(TIME, BATCH, 2, generator=torch.Generator().manual_seed(1), dtype=dtype)


def drawn_field(dtype: torch.dtype = torch.float64) -> ctrnn.Noisy:
    return ctrnn.Noisy(ctrnn.gru(2, 3, dtype=dtype, generator=torch.Generator().manual_seed(0)), ctrnn.Noise(0.4))


def own_times() -> Tensor:
    """Edges of the samples, for every sequence its own."""
    return torch.rand(TIME + 1, BATCH, generator=torch.Generator().manual_seed(2), **TWICE).cumsum(0)


def states(step: discretize.StochasticStep, ts: Tensor, **settings: Any) -> Tensor:
    """Of a solve along the samples, each held for 1."""
    start = torch.zeros(BATCH, 3, **TWICE)
    return discretize.integrate(drawn_field(), ctrnn.HeldPath(samples()), start, ts, method=step, seed=SEED, **settings).hs


@steps
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_substeps_solves_and_modules_of_solves_are_one_path(step: discretize.StochasticStep, dtype: torch.dtype):
    field, xs, start = drawn_field(dtype), samples(dtype), torch.zeros(BATCH, 3, dtype=dtype)
    stepped, _ = discretize.DiscreteRNN(field, step, substeps=4)(xs, seed=SEED)
    edges = torch.arange(TIME + 1.0, **TWICE)
    solved = discretize.integrate(field, ctrnn.HeldPath(xs, edges), start, edges, method=step, max_step=0.25, seed=SEED)
    module, _ = discretize.ContinuousRNN(field, method=step, max_step=0.25)(xs, seed=SEED)
    # The same sums in another order.
    within = {"rtol": 0, "atol": 1e-13 if dtype == torch.float64 else 1e-5}
    assert_close(solved.hs[1:], stepped, **within)
    assert_close(module, stepped, **within)
    assert solved.stats["num_steps"] == 4 * TIME


@pytest.mark.parametrize(
    "call",
    [
        {"lengths": torch.tensor([5, 1, 3, 2])},
        {"reset": torch.rand(TIME, BATCH, generator=torch.Generator().manual_seed(3)) < 0.4},
        {"ts": own_times()},
        {"ts": own_times(), "lengths": torch.tensor([5, 1, 3, 2]), "reset": torch.eye(TIME, BATCH, dtype=torch.bool)},
    ],
)
def test_a_module_of_solves_reads_the_noise_that_a_module_of_steps_does(call: dict[str, Tensor]):
    step, field = discretize.SRA1(), drawn_field()
    for found, expected in zip(
        discretize.ContinuousRNN(field, method=step)(samples(), seed=SEED, **call),
        discretize.DiscreteRNN(field, step)(samples(), seed=SEED, **call),
        strict=True,
    ):
        assert_close(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("packed", [True, False])
def test_packed_sequences_and_layers_of_solves_read_the_noise_that_steps_read(packed: bool):
    read = pack_padded_sequence(samples(), torch.tensor([2, 5, 3, 1]), enforce_sorted=False) if packed else samples()
    step = discretize.EulerMaruyama()

    def layers(rnn: Callable[[ctrnn.VectorField], Any]) -> discretize.Layers:
        return discretize.Layers(
            [rnn(drawn_field()), rnn(ctrnn.plain(3, 3, generator=torch.Generator().manual_seed(4), **TWICE))]
        )

    def by_steps(field: ctrnn.VectorField) -> discretize.DiscreteRNN:
        return discretize.DiscreteRNN(field, step if field.noise_channels else discretize.Euler())

    def by_solves(field: ctrnn.VectorField) -> discretize.ContinuousRNN:
        return discretize.ContinuousRNN(field, method=step if field.noise_channels else discretize.Euler())

    (found, found_end), (expected, expected_end) = (layers(rnn)(read, seed=SEED) for rnn in (by_solves, by_steps))
    assert_close(*(each.data if packed else each for each in (found, expected)), rtol=0, atol=1e-13)
    assert_close(found_end, expected_end, rtol=0, atol=1e-13)


def test_states_between_the_times_of_a_noisy_solve_are_on_its_path():
    ts = torch.arange(TIME + 1.0, **TWICE)
    start, path = torch.zeros(BATCH, 3, **TWICE), ctrnn.HeldPath(samples())
    solved = discretize.integrate(drawn_field(), path, start, ts, method=discretize.EulerMaruyama(), max_step=0.25, seed=SEED)
    fine = states(discretize.EulerMaruyama(), torch.arange(0, TIME + 0.1, 0.25, **TWICE), max_step=0.25)
    assert_close(solved(torch.tensor([0.75, 3.5, 2.0], **TWICE)), fine[[3, 14, 8]], rtol=0, atol=1e-12)


def test_a_brownian_path_with_knots_of_its_own_is_taken_for_a_seed():
    path = discretize.BrownianPath(3, torch.tensor([0.0, 2.2, 5.0], **TWICE), 3, BATCH)
    ts = torch.arange(TIME + 1.0, **TWICE)
    field = ctrnn.Noisy(_Still(2, 3), ctrnn.Noise(torch.tensor(0.5, **TWICE)))
    start = torch.zeros(BATCH, 3, **TWICE)
    solved = discretize.integrate(field, ctrnn.HeldPath(samples()), start, ts, method=discretize.EulerMaruyama(), seed=path)
    assert_close(solved.hs, 0.5 * path(ts), rtol=0, atol=1e-12)


def test_a_noisy_sample_is_solved_alone_as_in_any_batch_and_order():
    step, ts = discretize.StratonovichHeun(), torch.tensor([0.0, 1.7, 4.0], **TWICE)
    keys, order = discretize.noise_keys(SEED, BATCH), torch.tensor([2, 0, 3, 1])

    def run(rows: Tensor) -> Tensor:
        path, start = ctrnn.HeldPath(samples()[:, rows]), torch.zeros(len(rows), 3, **TWICE)
        return discretize.integrate(drawn_field(), path, start, ts, method=step, max_step=0.3, seed=keys[rows]).hs

    whole = run(torch.arange(BATCH))
    assert_close(run(order), whole[:, order], rtol=0, atol=1e-13)
    assert_close(run(torch.tensor([2])), whole[:, [2]], rtol=0, atol=1e-13)


@steps
def test_what_times_are_asked_for_does_not_change_the_path(step: discretize.StochasticStep):
    whole = states(step, torch.arange(TIME + 1.0, **TWICE), max_step=1 / 16)
    quarters = states(step, torch.arange(0, TIME + 0.1, 0.25, **TWICE), max_step=1 / 16)
    assert_close(quarters[::4], whole, rtol=0, atol=1e-12)
    own = torch.stack([torch.linspace(0, end, 6, **TWICE) for end in (5.0, 2.5, 5.0, 1.25)], 1)  # dyadic: the same steps
    found = states(step, own, max_step=1 / 16)
    assert_close(found[:, 0], whole[:, 0], rtol=0, atol=1e-12)
    assert_close(found[:, 1], quarters[::2][:6, 1], rtol=0, atol=1e-12)


def test_an_input_that_moves_is_read_where_a_step_begins():
    field, step, xs = drawn_field(), discretize.EulerMaruyama(), samples()
    path, ts = ctrnn.LinearPath(xs), torch.arange(float(TIME), **TWICE)
    solved = discretize.integrate(field, path, torch.zeros(BATCH, 3, **TWICE), ts, method=step, max_step=0.25, seed=SEED)
    fine = torch.arange(0, TIME - 0.9, 0.25, **TWICE)
    w, _ = discretize.BrownianPath(SEED, ts, 3, BATCH).increments(fine)
    h = torch.zeros(BATCH, 3, **TWICE)
    for k, t in enumerate(fine[:-1]):
        h = h + 0.25 * field(path(t), h) + 0.4 * w[k]
        if k % 4 == 3:
            assert_close(h, solved.hs[k // 4 + 1], rtol=0, atol=1e-6)  # 0.4 is that of float32


def test_a_smooth_clock_multiplies_drift_by_its_speed_and_noise_by_the_root():
    warp = ctrnn.SmoothWarp.random(4.0, 2.5, torch.Generator().manual_seed(0))
    field = ctrnn.Noisy(ctrnn.plain(0, 3, generator=torch.Generator().manual_seed(0), **TWICE), ctrnn.Noise(0.4))
    ts, start = torch.linspace(0, 4, 9, **TWICE), torch.ones(2, 3, **TWICE)
    settings: dict[str, Any] = {"method": discretize.EulerMaruyama(), "seed": SEED, "speed": warp.speed}
    solved = discretize.integrate(field, None, start, ts, **settings)
    edges = torch.cat([ts, warp.speed.knots]).unique()
    w, _ = discretize.BrownianPath(SEED, ts[[0, -1]], 3, 2).increments(edges)
    h, sigma = start, field.noise.sigma.detach()
    for k in range(len(w)):
        speed = warp.speed(edges[k])
        h = h + speed * (edges[k + 1] - edges[k]) * field(h[:, :0], h) + speed.sqrt() * sigma * w[k]
    assert_close(solved.hs[-1], h, rtol=0, atol=1e-12)


def test_rest_and_slopes_of_a_noisy_field_are_those_of_the_field_without():
    field = noisy(0)
    starts = torch.zeros(1, 3, **TWICE)
    assert torch.equal(
        discretize.fixed_points(discretize.Flow(field), starts).h, discretize.fixed_points(discretize.Flow(field.field), starts).h
    )
    assert torch.equal(field(starts[:, :0], starts), field.field(starts[:, :0], starts))


class _Still(ctrnn.VectorField):
    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.zeros_like(h)


@pytest.mark.parametrize("step", [discretize.Milstein(), discretize.SRA1()])  # SRA1 reads the integral of the path, too
@pytest.mark.parametrize("gradient", [None, discretize.Checkpointed(1e3)])
def test_gradients_are_those_of_the_same_steps_in_a_module(
    gradient: discretize.Checkpointed | None, step: discretize.StochasticStep
):
    xs = samples()
    ts = own_times()

    def gradients(run: Callable[[ctrnn.Noisy, Tensor], Tensor]) -> tuple[Tensor, ...]:
        field, times = drawn_field(), ts.clone().requires_grad_(gradient is None)
        weights = [*field.parameters(), *([times] if gradient is None else [])]
        return torch.autograd.grad(run(field, times).sin().sum(), weights)

    def solved(field: ctrnn.Noisy, times: Tensor) -> Tensor:
        start = torch.zeros(BATCH, 3, **TWICE)
        path = ctrnn.HeldPath(xs, times)
        return discretize.integrate(field, path, start, times, method=step, seed=SEED, gradient=gradient).hs

    found = gradients(solved)
    expected = gradients(lambda field, times: discretize.DiscreteRNN(field, step)(xs, ts=times, seed=SEED)[0])
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-10, atol=1e-12)


@steps
def test_a_clock_of_constant_speed_is_a_field_so_much_faster(step: discretize.StochasticStep):
    class Faster(ctrnn.VectorField):
        def __init__(self, field: ctrnn.VectorField) -> None:
            super().__init__(field.input_size, field.hidden_size)
            self.field = field

        def flow(self, projected: Tensor, h: Tensor) -> Tensor:
            return 2.25 * self.field.flow(self.field.project(projected), h)

        def leak(self, projected: Tensor, h: Tensor) -> Tensor:
            return 2.25 * self.field.leak(self.field.project(projected), h)

    plain, ts = ctrnn.gru(2, 3, generator=torch.Generator().manual_seed(0), **TWICE), torch.tensor([0.0, 2.0, 5.0], **TWICE)
    path, start = ctrnn.HeldPath(samples()), torch.ones(BATCH, 3, **TWICE)
    slow, fast = (
        ctrnn.Noisy(field, ctrnn.Noise(torch.tensor(sigma, **TWICE))) for field, sigma in ((plain, 0.4), (Faster(plain), 0.6))
    )
    settings: dict[str, Any] = {"method": step, "max_step": 0.125, "seed": SEED}
    warped = discretize.integrate(slow, path, start, ts, speed=lambda t: 0 * t + 2.25, **settings)
    assert_close(warped.hs, discretize.integrate(fast, path, start, ts, **settings).hs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("clock", ["piecewise", "smooth"])
def test_the_variance_under_a_clock_is_that_of_the_clocks_time(clock: str):
    # Exact for constant speeds; of a smooth clock steps are short, and read its speed where they begin.
    warp: Any = ctrnn.PiecewiseWarp(torch.tensor([0.0, 0.5, 1.5, 2.0]), torch.tensor([0.0, 0.1, 1.6, 2.0]))
    ts, units, sigma, start = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0], **TWICE), 2_000, 0.8, 0.5
    edges = ts
    if clock == "smooth":
        warp, edges = ctrnn.SmoothWarp(2.0, torch.tensor([-0.8]), torch.tensor([0.1])), torch.linspace(0, 2, 129, **TWICE)
    field = ctrnn.Noisy(_Leaky(1, units), ctrnn.Noise(torch.tensor(sigma, **TWICE)))
    path = ctrnn.HeldPath(torch.zeros(len(edges) - 1, 4, 1, **TWICE), edges)  # short cells: their numbers are roots of the tree
    solved = discretize.integrate(
        field, path, torch.full((4, units), start, **TWICE), ts,
        method=discretize.ExponentialEulerMaruyama(), seed=SEED, speed=warp.speed,
    )  # fmt: skip
    passed = warp(ts[1:])
    mean, variance = start * torch.exp(-passed), sigma**2 / 2 * (1 - torch.exp(-2 * passed))
    found, count = solved.hs[1:].detach().flatten(1), 4 * units
    bias = 0.0 if clock == "piecewise" else 0.01  # steps of 1/64 under a speed that doubles in half a unit of time
    assert bool(((found.var(1) / variance - 1).abs() < bias + 4.5 * (2 / count) ** 0.5).all())
    assert bool(((found.mean(1) - mean).abs() < bias * start + 4.5 * (variance / count).sqrt()).all())


class _Leaky(ctrnn.VectorField):
    """dh/dt = -h."""

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -h

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: states(discretize.EulerMaruyama(), torch.tensor([3.0, 1.0])), "`decreasing ts`: mathematics refuses"),
        (lambda: along_zeros(noisy().field, seed=3), "here is none"),
        (lambda: along_zeros(noisy().field, method=discretize.SRA1()), "there is no noise to draw"),
        (
            lambda: along_zeros(noisy(), method=discretize.SRA1(), seed=discretize.BrownianPath(1, torch.tensor([0.0, 1.0]), 2)),
            "a path of 2 units",
        ),
        (
            lambda: along_zeros(noisy(), method=discretize.SRA1(), events=discretize.Event(lambda t, h: h[:, 0])),
            "smooth solutions, .* take many `ts`",
        ),
        (
            lambda: discretize.ContinuousRNN(noisy(), method=discretize.SRA1())(
                sequence(), seed=discretize.BrownianPath(1, torch.tensor([0.0, 4.0]), 3)
            ),
            "`seed` is a path",
        ),
    ],
)
def test_what_cannot_be_solved_with_noise_is_refused_in_words(run: Callable[[], object], words: str):
    with pytest.raises(ValueError, match=words):
        run()


def of_layers() -> discretize.Layers:
    return discretize.Layers(
        [discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), discretize.DiscreteRNN(ctrnn.gru(3, 3, **TWICE))]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: discretize.DiscreteRNN(noisy(), discretize.SRA1(), substeps=4),
        lambda: discretize.ContinuousRNN(noisy(), method=discretize.StratonovichHeun(), max_step=0.5),
        of_layers,
    ],
    ids=["substeps", "ContinuousRNN", "Layers"],
)
def test_an_exported_graph_draws_the_noise_of_the_keys_it_is_given(make: Callable[[], torch.nn.Module]):
    module, sizes = make(), {0: torch.export.Dim("time"), 1: torch.export.Dim("batch")}
    shapes, keys = {"x": sizes, "seed": {0: sizes[1]}}, discretize.noise_keys(4, 3)
    program = torch.export.export(module, (torch.randn(3, 2, 2, **TWICE),), {"seed": keys[:2]}, dynamic_shapes=shapes).module()
    xs = torch.randn(7, 3, 2, **TWICE)
    assert_close(program(xs, seed=keys), module(xs, seed=keys), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_an_exported_graph_without_keys_draws_others_at_each_call():
    program = torch.export.export(discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), (sequence(),)).module()
    assert not torch.equal(program(sequence())[0], program(sequence())[0])


@pytest.mark.parametrize(
    ("substeps", "seed", "words"),
    [(3, torch.tensor([1]), r"`substeps=3` does not go with `torch.export`"), (1, 5, "give keys as `seed`")],
)
def test_noise_that_a_graph_cannot_draw_is_refused(substeps: int, seed: int | Tensor, words: str):
    rnn = discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama(), substeps=substeps)
    with pytest.raises(ValueError, match=words):
        torch.export.export(rnn, (sequence(),), {"seed": seed})


@pytest.mark.parametrize("size", [1e-6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_noise_that_depends_on_the_state_is_not_taken_for_additive(size, dtype):
    class Small(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 3)
            self.scale = torch.nn.Parameter(torch.tensor(size, dtype=dtype))

        def flow(self, projected, h):
            return -h

        def diffusion(self, projected, h):
            return self.scale * (1 + torch.tanh(h))

    with pytest.raises(ValueError, match=r"`SRA1\(\)`: mathematics refuses it"):
        discretize.DiscreteCell(Small(), step=discretize.SRA1())
