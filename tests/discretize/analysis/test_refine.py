"""Whether a model is still an ODE: drifts, orders and metrics against models whose answer is known."""

import math

import problems
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import refine


@pytest.fixture(autouse=True)
def _looks_soon(monkeypatch):
    """What still moves is looked at after a tenth as many samples; models here move as much faster."""
    monkeypatch.setattr("discretize.analysis.refine.WAIT", 50)
    monkeypatch.setattr("discretize.analysis.refine.LOOK", 50)


def slow(step: discretize.Step, alpha: float = 0.01) -> discretize.DiscreteRNN:
    return discretize.DiscreteRNN(ctrnn.leaky(2, 4, alpha=alpha), step)


def test_a_fast_model_is_no_ode_and_the_verdict_says_how_many_steps_would_make_it_one():
    found = refine(slow(discretize.Euler(), alpha=1.5), torch.randn(5, 3, 2), None, None, [5, 5, 5], halvings=8)
    assert not found.is_an_ode
    assert found.converges
    assert found.verdict.startswith("No")
    enough = next(n for n, off in zip(found.substeps, found.drift, strict=True) if off <= 0.01 * found.spread)
    assert f"{enough} times as many steps" in found.verdict


def test_drifts_are_distances_from_the_exact_states():
    rnn, xs, ts = slow(discretize.Euler(), 0.7), torch.randn(12, 3, 2), torch.cat([torch.zeros(1), torch.rand(12)]).cumsum(0)
    h_0 = torch.randn(1, 3, 4)
    found = refine(rnn, xs, h_0, ts, halvings=1)
    exact = discretize.ContinuousRNN(rnn.field, rtol=1e-10, atol=1e-10)(xs, h_0, ts)[0]
    off = rnn(xs, h_0, ts)[0] - exact
    assert found.drift[0] == pytest.approx(float(off.detach().square().mean().sqrt()), rel=1e-6)
    assert found.largest[0] == pytest.approx(float(off.detach().abs().max()), rel=1e-6)
    assert found.spread == pytest.approx(float((exact - exact.mean((0, 1))).detach().square().mean().sqrt()), rel=1e-6)


def test_steps_are_said_in_time_constants_where_all_are_as_long():
    tau, xs, whole = torch.tensor([50.0, 100.0]), torch.randn(6, 2, 2), (None, None, torch.tensor([6, 6]))
    same = discretize.DiscreteRNN(ctrnn.additive(2, 3, tau=100.0), dt=20.0, substeps=2)
    assert "of the equation at dt/tau = 0.1" in refine(same, xs, *whole, halvings=1).verdict
    several = discretize.DiscreteRNN(ctrnn.leaky(2, 2, tau=tau), dt=20.0)
    found = refine(several, xs, *whole, halvings=1)
    assert found.step == pytest.approx((0.2, 0.4), rel=1e-6)
    assert "at dt/tau up to 0.4" in found.verdict
    assert refine(several, xs, None, 20 * torch.arange(7.0), whole[-1], halvings=1).step is None
    assert refine(discretize.DiscreteRNN(ctrnn.gated(2, 3)), xs, *whole, halvings=1).step is None


def test_a_model_that_has_left_all_bounds_is_told_so(monkeypatch):
    for name in ("WAIT", "LOOK"):  # of what comes after the data nothing is asked, and it is stiff
        monkeypatch.setattr(f"discretize.analysis.refine.{name}", 2)
    field = ctrnn.leaky(2, 3, alpha=40.0)
    lengths = torch.tensor([3])
    found = refine(discretize.DiscreteRNN(field, allow_overshoot=True), torch.randn(3, 1, 2), None, None, lengths, halvings=6)
    assert found.share > 100  # |1 - 40|^3 of it
    assert not found.is_an_ode
    assert found.drift[-1] < 1


@pytest.mark.parametrize("name", problems.thinned(["Euler", "ETD2", "RungeKutta4", "Trapezoid"], ["RungeKutta4"]))
def test_the_observed_order_is_the_declared_one(name):
    torch.manual_seed(1)
    found = refine(slow(problems.STEPS[name], 0.7), torch.randn(4, 2, 2), None, None, [4, 4], rtol=1e-11, atol=1e-12)
    assert found.order == problems.STEPS[name].order
    assert found.orders[-1] == pytest.approx(found.order, abs=0.2)


def test_any_model_is_refined_with_its_metric_and_nothing_of_it_changes():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = discretize.DiscreteRNN(ctrnn.gru(2, 5), substeps=2, batch_first=True)
            self.drop, self.read = nn.Dropout(0.5), nn.Linear(5, 3)

        def forward(self, x):
            return self.read(self.drop(self.rnn(x)[0][:, -1]))

    model, x, label = Classifier().train(), torch.randn(6, 9, 2), torch.randint(3, (6,))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = refine(model, x, metric=lambda logits: nn.functional.cross_entropy(logits, label), halvings=2)
    assert model.training
    assert model.rnn.substeps == 2
    assert "_states" not in vars(model.rnn)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model.eval()
    assert found.metrics[0] == pytest.approx(float(nn.functional.cross_entropy(model(x), label).detach()))
    assert abs(found.metrics[-1] - found.exact_metric) < abs(found.metrics[0] - found.exact_metric)
    assert "the metric is" in found.verdict
    assert f"{found.exact_metric:.5g}" in str(found)


def test_modes_of_parts_are_given_back_one_by_one_and_every_call_counts():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.norm = slow(discretize.Euler(), 0.5), nn.BatchNorm1d(4).eval()

        def forward(self, x):
            return self.rnn(x)[0] + self.rnn(x.flip(0))[0]

    model, x = Twice().train(), torch.randn(8, 2, 2)
    model.norm.eval()
    both = refine(model, x)
    assert model.training
    assert not model.norm.training
    alone = [refine(model.rnn, y, None, None, [8, 8]).drift[0] for y in (x, x.flip(0))]
    assert both.drift[0] == pytest.approx(math.sqrt((alone[0] ** 2 + alone[1] ** 2) / 2))


def test_two_parts_fall_at_the_lower_of_their_orders():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = slow(discretize.RungeKutta4(), 0.5)
            self.second = discretize.DiscreteRNN(ctrnn.leaky(4, 3, alpha=0.5), discretize.Euler())

        def forward(self, x):
            return self.second(self.first(x)[0])[0]

    found = refine(Two(), torch.randn(4, 2, 2))
    assert found.order == 1
    assert found.orders[-1] == pytest.approx(1, abs=0.2)


def test_one_sequence_to_a_batch_first_module_is_refined_too():
    field, x = ctrnn.leaky(2, 4, alpha=0.5), torch.randn(8, 2)
    first = refine(discretize.DiscreteRNN(field, batch_first=True), x, halvings=1)
    in_a_batch = refine(discretize.DiscreteRNN(field), x[:, None], None, None, [8], halvings=1)
    assert_close(torch.tensor(first.drift), torch.tensor(in_a_batch.drift))


def test_a_step_that_does_not_have_its_order_is_not_called_an_ode():
    class Wrong(discretize.Euler):
        """Forgets that the input moves the state: of no order."""

        def advance(self, field, projected, h, dt):
            return h + 0.5 * dt * field.flow(projected, h)

    found = refine(slow(Wrong(), 0.5), torch.randn(5, 3, 2), None, None, [5, 5, 5])
    assert not found.converges
    assert found.verdict.startswith("Not known")
    assert math.isfinite(found.share)


def test_float32_is_refined_down_to_its_rounding():
    torch.set_default_dtype(torch.float32)
    found = refine(
        discretize.DiscreteRNN(ctrnn.gated(2, 3), discretize.RungeKutta4()), torch.randn(4, 2, 2), None, None, [4, 4], halvings=5
    )
    assert found.converges
    assert found.verdict.startswith("Yes")


def test_what_cannot_be_refined_is_refused():
    with pytest.raises(ValueError, match=r"no discretize\.DiscreteRNN"):
        refine(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        refine(ctrnn.gated, torch.zeros(1, 2))
    with pytest.raises(ValueError, match="`halvings`"):
        refine(slow(discretize.Euler()), torch.zeros(3, 1, 2), halvings=0)


def test_a_part_that_the_data_does_not_reach_is_told():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = slow(discretize.Euler())

        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="did not call"):
        refine(Idle(), torch.zeros(3, 1, 2))


class Turning(ctrnn.VectorField):
    """dh/dt = (a + x - |h|^2) h, turned by w; by Euler's step |h|^2 comes to a + x + (1 - sqrt(1 - dt^2 w^2))/dt."""

    def __init__(self, a: float, w: float) -> None:
        super().__init__(1, 2)
        self.register_buffer("a", torch.tensor(a))  # in place of two floats, so that all have one kernel
        self.register_buffer("w", torch.tensor(w))

    def flow(self, projected, h):
        return (self.a + projected - h.square().sum(-1, keepdim=True)) * h + self.w * torch.stack([-h[..., 1], h[..., 0]], -1)


holds_long = pytest.mark.kernels  # one for all of these, of hundreds of steps each


def turning(a, w, dt, start=0.3):
    rnn = discretize.DiscreteRNN(Turning(a, w).double(), dt=dt)
    # Below `atol` a solve looks at states between its times too, to warn of it: most of the time of what comes to rest.
    return refine(rnn, torch.zeros(10, 3, 1), torch.full((1, 3, 2), start), halvings=1, atol=1e-50)


@holds_long
def test_a_rhythm_that_only_the_step_has_is_said_to_be_its_own():
    # a < 0 and dt above 2 |a|/(a^2 + w^2) = 0.8: the equation rests, and Euler's step does not.
    found = turning(-0.5, 1.0, dt=0.95)
    assert (
        "3 of 3 sequences go on moving; in the equation all of these come to rest, and their rhythm is the step's"
        in found.verdict
    )
    radius = math.sqrt(-0.5 + (1 - math.sqrt(1 - 0.95**2)) / 0.95)
    # The mean of both variances of a circle is r^2 / 2; torch's of 50 samples are 50/49 of that.
    assert found.held[0] == pytest.approx([radius / math.sqrt(2)] * 3, rel=0.015)
    assert "rhythm" not in turning(-0.5, 1.0, dt=0.1).verdict


@holds_long
def test_of_a_rhythm_that_the_equation_has_too_it_says_how_much_is_left():
    found = turning(0.2, 1.0, dt=0.4)
    left = math.sqrt(0.2 / (0.2 + (1 - math.sqrt(1 - 0.16)) / 0.4))
    assert f"3 of 3 sequences go on moving, in the equation {left:.2f} times as far" in found.verdict


def test_no_rhythm_is_looked_for_where_the_last_inputs_are_not_known():
    torch.manual_seed(0)
    rnn, xs = slow(discretize.Euler(), 0.7), torch.randn(12, 3, 2)
    reset = (torch.arange(12) == 5)[:, None].expand(-1, 3)
    assert refine(rnn, xs, None, None, None, reset, halvings=1).held is None
    assert refine(nn.Sequential(rnn), xs, halvings=1).held is not None

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = rnn

        def forward(self, x):
            return self.rnn(x)[0], self.rnn(2 * x)[0]

    assert refine(Twice(), xs, halvings=1).held is None


@pytest.mark.parametrize("way", ["lengths", "packed", "times of their own"])
def test_of_sequences_of_different_lengths_each_ones_last_input_is_held(way):
    # Where it rests, and what a step makes of a difference there, hangs on the input that is held and on how long a sample is.
    torch.manual_seed(0)
    rnn, xs, lengths = slow(discretize.Euler(), 0.7), torch.randn(12, 3, 2), torch.tensor([12, 3, 7])
    given = (xs, None, None, lengths)
    if way == "packed":
        given = (nn.utils.rnn.pack_padded_sequence(xs, lengths, enforce_sorted=False),)
    if way == "times of their own":
        ts = torch.minimum(torch.arange(13.0)[:, None], lengths)
        ts[1:] += torch.tensor([0.5, 0.0, -0.5])  # the first samples alone last otherwise
        given = (xs, None, ts, lengths)
    found = refine(rnn, *given, halvings=1)
    for k, length in enumerate(lengths.tolist()):
        alone = refine(rnn, xs[:length, k : k + 1], halvings=1)
        assert found.factors[k] == pytest.approx(alone.factors[0], rel=1e-3)


class Fading(ctrnn.VectorField):
    """dh/dt = -h / 2000."""

    def __init__(self):
        super().__init__(1, 2)

    def flow(self, projected, h):
        return -h / 2000 + 0 * projected


def test_what_still_moves_is_looked_at_in_the_last_of_the_samples_that_inputs_are_held_for():
    h_0, at = torch.tensor([[[3.0, 4.0]]]), torch.arange(101.0, 151.0)  # of 150, in which so slow a movement changes little
    found = refine(discretize.DiscreteRNN(Fading()), torch.zeros(4, 1, 1), h_0, halvings=1)
    size = 5 / math.sqrt(2)  # of both units
    stepped, exact = (1 - 1 / 2000) ** (4 + at), (1 - 1 / 2000) ** 4 * torch.exp(-at / 2000)
    for movement, course in zip(found.held, (stepped, exact), strict=True):
        assert movement[0] == pytest.approx(size * float(course.std()), rel=2e-3)  # 50 samples sooner it is 2.5 % more


@holds_long
def test_a_rhythm_that_fades_slowly_is_waited_for():
    # After the first 150 samples, 15 units of time, the equation has most of its movement left, by e^(-0.02 t).
    found = turning(-0.02, 1.0, dt=0.1)
    assert "in the equation all of these come to rest, and their rhythm is the step's" in found.verdict


@holds_long
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("timed", [False, True])
def test_the_last_inputs_are_held_for_as_long_as_the_last_sample_took(batch_first, timed):
    torch.manual_seed(1)
    rnn = discretize.DiscreteRNN(Turning(0.0, 1.0).double(), dt=7.0 if timed else 0.4, batch_first=batch_first)
    xs = 0.1 * torch.rand(12, 3, 1, dtype=torch.float64)
    xs[-1] = torch.tensor([[0.1], [0.3], [0.5]], dtype=torch.float64)
    edges = 0.4 * torch.arange(13.0, dtype=torch.float64) if timed else None
    found = refine(rnn, xs.transpose(0, 1) if batch_first else xs, torch.full((1, 3, 2), 0.3, dtype=torch.float64), edges)
    stepped, exact = torch.tensor(found.held, dtype=torch.float64)
    assert_close(exact, (xs[-1, :, 0] / 2).sqrt(), rtol=0.015, atol=0.0)
    assert_close(stepped, ((xs[-1, :, 0] + (1 - math.sqrt(1 - 0.16)) / 0.4) / 2).sqrt(), rtol=0.015, atol=0.0)


class Geometric(ctrnn.VectorField):
    """dh = -h dt + h/2 dW, of which h = h_0 e^(-9/8 t + W/2), in Ito's sense."""

    def flow(self, projected, h):
        return -h

    def diffusion(self, projected, h):
        return 0.5 * h


@pytest.mark.parametrize(("step", "order"), [(discretize.EulerMaruyama(), 0.5), (discretize.Milstein(), 1.0)])
def test_with_noise_drifts_are_those_along_one_path_and_fall_at_the_strong_order(step, order):
    keys, times, h_0 = discretize.noise_keys(2, 200), torch.arange(5.0), torch.ones(1, 200, 1)
    rnn, xs = discretize.DiscreteRNN(Geometric(0, 1), step, dt=0.25), torch.zeros(4, 200, 0)
    found = refine(rnn, xs, h_0, None, None, None, keys)
    w = discretize.BrownianPath(keys, times / 4, 1).increments(times / 4)[0].cumsum(0)
    exact = torch.exp(-9 / 8 * times[1:, None, None] / 4 + w / 2)
    off = (rnn(xs, h_0, seed=keys)[0] - exact).square().mean().sqrt()
    assert found.drift[0] == pytest.approx(float(off), rel=0.05)  # the finest steps stand for the solution
    assert found.order == order
    assert found.converges
    assert found.orders[-1] == pytest.approx(order, abs=0.15)  # of 200 paths, and 16 times finer steps
    assert found.held is None


def test_without_keys_all_refinements_draw_the_same_noise_and_the_next_ones_another():
    field = ctrnn.Noisy(ctrnn.leaky(2, 4), ctrnn.Noise(0.5))
    rnn, xs = discretize.DiscreteRNN(field, discretize.EulerMaruyama(), dt=0.1), torch.randn(8, 3, 2)
    one, two = (refine(rnn, xs, halvings=2) for _ in range(2))
    assert one.drift[0] > 1.8 * one.drift[1] > 0  # of noise that does not depend on the state, order 1
    assert one.drift[0] != two.drift[0]
    assert rnn.substeps == 1
