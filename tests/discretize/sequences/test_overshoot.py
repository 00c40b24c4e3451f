"""Steps that grow where the equation forgets are warned of, once, by cells and sequence modules themselves."""

import copy
import pickle
import warnings

import problems
import pytest
import torch
from fake_device import DEVICE, FakeDevice
from torch.testing import assert_close

import ctrnn
import ctrnn.checks
from discretize import (
    DiscreteCell,
    DiscreteRNN,
    Euler,
    EulerMaruyama,
    ExponentialEuler,
    ExponentialEulerMaruyama,
    Layers,
    Monitor,
    RungeKutta4,
    StepWarning,
    Taylor2,
    Zoneout,
    unroll,
    unroll_parallel,
)
from discretize.sequences import overshoot

FAST = 2.5  # g dt with dt = 1


def pulled(rate=FAST):
    return ctrnn.Relaxation(problems.Nowhere(1, 2), ctrnn.fields.rates.FixedRate(rate), ctrnn.LinearDecay())


WAYS = {
    "cell": lambda field, *given, **settings: DiscreteCell(field, *given, **settings)(torch.zeros(3, 1), torch.ones(3, 2)),
    "unroll": lambda field, *given, **settings: unroll(DiscreteCell(field, *given, **settings), torch.zeros(4, 3, 1)),
    "rnn": lambda field, *given, **settings: DiscreteRNN(field, *given, **settings)(torch.zeros(4, 3, 1)),
    "steps": lambda field, *given, **settings: DiscreteRNN(field, *given, fused=False, **settings)(torch.zeros(4, 3, 1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_euler_beyond_two_is_warned_of_wherever_it_is_taken(way):
    with pytest.warns(StepWarning, match=r"g dt up to 2\.5, .* by 1\.5: .*allow_overshoot"):
        WAYS[way](pulled())


@pytest.mark.parametrize("way", WAYS)
def test_runge_kutta_beyond_its_own_bound_is_warned_of_wherever_it_is_taken(way):
    with pytest.warns(StepWarning, match="RungeKutta4"):
        WAYS[way](pulled(2.8), RungeKutta4())  # the bound is 2.785


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("rate", "step", "settings"),
    [
        (FAST, Euler(), {"allow_overshoot": True}),
        (1.99, Euler(), {}),
        (100.0, ExponentialEuler(), {}),
        (2.7, RungeKutta4(), {}),
    ],
)
def test_nothing_is_said_of_steps_that_forget_or_are_allowed(way, rate, step, settings):
    WAYS[way](pulled(rate), step, **settings)  # a warning is an error here


def test_a_step_for_noise_is_sent_to_one_for_noise():
    noisy, xs = ctrnn.Noisy(pulled(), ctrnn.Noise(0.1)), torch.zeros(4, 3, 1)
    with pytest.warns(StepWarning, match=r"EulerMaruyama\(\) takes steps with g dt up to 2\.5, .* as ExponentialEulerMaruyama;"):
        DiscreteRNN(noisy, EulerMaruyama(), fused=False)(xs)
    DiscreteRNN(noisy, ExponentialEulerMaruyama(), fused=False)(xs)


def test_substeps_count_as_they_are():
    DiscreteRNN(pulled(), substeps=2)(torch.zeros(4, 3, 1))  # a warning is an error here


def test_time_stamps_count_as_they_are():
    with pytest.warns(StepWarning, match=r"g dt up to 7\.5") as caught:
        DiscreteRNN(pulled())(torch.zeros(4, 3, 1), ts=torch.tensor([0.0, 0.1, 3.1, 3.2, 3.3]))
    assert "milliseconds" not in str(caught[0].message)


def test_steps_of_a_hundred_times_are_said_to_be_in_another_unit():
    with pytest.warns(StepWarning, match="in another unit than the field's time constants, milliseconds say"):
        DiscreteRNN(pulled(), dt=20.0)(torch.zeros(4, 3, 1))


def test_a_monitor_speaks_in_its_place():
    rnn = DiscreteRNN(pulled())
    with pytest.warns(StepWarning) as caught, Monitor(rnn):
        rnn(torch.zeros(4, 3, 1))
    assert len(caught) == 1
    with pytest.warns(StepWarning, match="allow_overshoot"):
        DiscreteRNN(pulled())(torch.zeros(4, 3, 1))


def test_a_monitor_leaves_nothing_in_a_watch():
    rnn = slow()
    before = vars(rnn.watch).keys()
    with Monitor(rnn):
        rnn(X)
    assert {type(value) for value in vars(rnn.watch).values()} <= {bool, int, float, str, list, type(None)}
    assert before <= vars(rnn.watch).keys()


def test_it_is_said_once_and_looked_at_again_at_every_thousandth_call(monkeypatch):
    monkeypatch.setattr(overshoot, "EVERY", 5)
    cell, x = DiscreteCell(ctrnn.leaky(1, 2, alpha=0.5)), torch.zeros(3, 1)
    looks = []
    for call in range(11):
        if call == 3:
            with torch.no_grad():
                cell.field.rate.log_alpha.fill_(1.0)  # by then a step of 2.7
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cell(x)
        looks += [call] * len(caught)
    assert looks == [5]
    assert cell.watch.largest == pytest.approx(2.718, abs=1e-3)


@pytest.mark.parametrize("fused", [False, True])
def test_weights_that_became_nan_are_named_once(fused):
    rnn, x = DiscreteRNN(ctrnn.gated(1, 2), fused=fused), torch.randn(4, 3, 1)
    rnn(x)
    with torch.no_grad():
        rnn.field.rate.bias[1] = torch.nan
    with pytest.warns(UserWarning, match="the field's parameter `rate.bias` holds nan. Weights become so where training") as said:
        assert all(rnn(x)[0].isnan().any() for _ in range(3))
    assert len(said) == 1


def test_modules_that_look_are_copied_pickled_and_differentiated_as_before():
    rnn, x = DiscreteRNN(ctrnn.gated(1, 2)), torch.randn(4, 3, 1)
    for again in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert torch.equal(again(x)[0], rnn(x)[0])
    slope = torch.func.jvp(lambda x: rnn(x)[0], (x,), (x,))[1]
    ahead, behind = (rnn((1 + e) * x)[0] for e in (1e-5, -1e-5))
    assert_close(slope, (ahead - behind) / 2e-5, rtol=0, atol=1e-8)  # central differences: error of order e^2


def test_steps_of_a_user_that_know_no_single_unit_are_left_alone():
    class Odd(Euler):
        def stability(self, z, leak=None):
            raise RuntimeError("no single units")

    cell = DiscreteCell(pulled(), Odd())
    cell(torch.zeros(3, 1))
    assert (cell.watch.largest, cell.watch.warned) == (FAST, False)


def test_transforms_and_traces_are_not_looked_at_and_calls_after_them_are():
    cell = slow_cell()
    cell(X[0])
    for _ in range(2):
        torch.func.vmap(lambda x: cell(x, dt=6.0))(X)
        torch.func.jvp(lambda x: cell(x, dt=6.0), (X[0],), (X[0],))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            torch.jit.trace(lambda x: cell(x, dt=6.0), X[0], check_trace=False)
    with pytest.warns(StepWarning):
        cell(X[0], dt=6.0)


def test_a_model_without_values_is_run_as_before():
    rnn = slow().to("meta")
    for _ in range(2):
        assert rnn(X.to("meta"))[0].is_meta
    assert rnn.watch.largest is None


EULER = Euler()
X, LONG = torch.zeros(4, 3, 1), torch.arange(5) * 6.0  # samples, and edges of steps of 6


def slow(step=EULER, **settings):
    """Steps of 1, with g dt 0.5."""
    return DiscreteRNN(pulled(0.5), step, **settings)


def slow_cell(step=EULER):
    return DiscreteCell(pulled(0.5), step)


def with_its_own(module, name, value, call):
    """The call, once an attribute of the module is another."""
    setattr(module, name, value)
    return call(module)


# A module, a call with short steps, and one with steps of 6, which Euler's multiply what they should forget by 2.
LONGER = {
    "a cell, a number": (slow_cell, lambda m: m(X[0]), lambda m: m(X[0], dt=6.0)),
    "a cell, a length for each": (slow_cell, lambda m: m(X[0]), lambda m: m(X[0], dt=torch.tensor([0.1, 6.0, 0.1]))),
    "a cell, its own length": (slow_cell, lambda m: m(X[0]), lambda m: with_its_own(m, "dt", 6.0, lambda m: m(X[0]))),
    "unroll": (slow_cell, lambda m: unroll(m, X), lambda m: with_its_own(m, "dt", 6.0, lambda m: unroll(m, X))),
    "at once": (slow_cell, lambda m: unroll(m, X), lambda m: with_its_own(m, "dt", 6.0, lambda m: unroll_parallel(m, X))),
    "edges": (slow, lambda m: m(X), lambda m: m(X, ts=LONG)),
    "stamps": (slow, lambda m: m(X), lambda m: m(X, ts=LONG[:4])),
    "backward": (lambda: slow(hold="backward"), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "step by step": (lambda: slow(fused=False), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "times that learn": (slow, lambda m: m(X), lambda m: m(X, ts=LONG.clone().requires_grad_())),
    "times of each": (slow, lambda m: m(X), lambda m: m(X, ts=torch.stack([LONG / 60, LONG / 60, LONG], 1))),
    "lengths": (slow, lambda m: m(X), lambda m: m(X, ts=LONG, lengths=[1, 2, 4])),
    "resets": (slow, lambda m: m(X), lambda m: m(X, ts=LONG, reset=torch.eye(4, 3).bool())),
    "one sequence": (slow, lambda m: m(X[:, 0]), lambda m: m(X[:, 0], ts=LONG)),
    "its own length": (slow, lambda m: m(X), lambda m: with_its_own(m, "dt", 6.0, lambda m: m(X))),
    "fewer substeps": (
        lambda: DiscreteRNN(pulled(3.0), substeps=6),
        lambda m: m(X),
        lambda m: with_its_own(m, "substeps", 1, lambda m: m(X)),
    ),
    "another step": (
        lambda: DiscreteRNN(pulled(3.0), ExponentialEuler()),
        lambda m: m(X),
        lambda m: with_its_own(m, "step", Euler(), lambda m: m(X)),
    ),
    "layers": (lambda: Layers([[slow(), slow()]]), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "Runge-Kutta": (lambda: slow(RungeKutta4()), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "Taylor": (lambda: slow(Taylor2()), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "zoneout": (lambda: slow(Zoneout(Euler(), 0.1)), lambda m: m(X), lambda m: m(X, ts=LONG)),
    "learned weights": (
        lambda: DiscreteRNN(ctrnn.leaky(1, 2, alpha=0.5, dtype=X.dtype)),
        lambda m: m(X)[0].sum().backward(),
        lambda m: m(X, ts=LONG),
    ),
}


@pytest.mark.parametrize("name", LONGER)
def test_steps_longer_than_any_before_are_looked_at(name):
    make, short, long = LONGER[name]
    module = make()
    for _ in range(3):
        short(module)
    with pytest.warns(StepWarning, match=r"g dt up to 3, "):
        long(module)
    long(module)  # once is enough


def looks(module, call, calls, monkeypatch):
    """In which calls, from 1 on, the steps were looked at."""
    seen = []
    look_at = overshoot.OvershootWatch.look_at
    monkeypatch.setattr(overshoot.OvershootWatch, "look_at", lambda *given: seen.append(1) or look_at(*given))
    found = []
    for k in range(1, calls + 1):
        seen.clear()
        call(module, k)
        found += [k] if seen else []
    return found


def test_one_call_in_fifty_is_looked_at_where_weights_change(monkeypatch):
    def trained(module, k):
        with torch.no_grad():
            module.field.rate.log_alpha.add_(0.01)
        return module(X)

    rnn = DiscreteRNN(ctrnn.leaky(1, 2, alpha=0.5, dtype=X.dtype))
    with pytest.warns(StepWarning, match=r"g dt up to 2\.263"):
        assert looks(rnn, trained, 160, monkeypatch) == [1, 51, 101, 151]
    assert looks(rnn, lambda m, k: m(X), 120, monkeypatch) == [41]  # call 201: the last change was after 151


def test_weights_that_change_are_looked_at_in_some_samples_and_the_last_of_a_long_sequence():
    class FastAtTheEnd(ctrnn.VectorField):
        """Forgets as fast as its input says."""

        def flow(self, projected, h):
            return -projected * h

        def leak(self, projected, h):
            return projected.expand_as(h)

    x = torch.full((1000, 1, 1), 0.1)
    field = FastAtTheEnd(1, 1)
    field.weight = torch.nn.Parameter(torch.ones(()))
    rnn = DiscreteRNN(field)
    for _ in range(50):
        rnn(x)
    x[-1] = 2.5
    with torch.no_grad():
        field.weight.add_(1)
    with pytest.warns(StepWarning, match=r"g dt up to 2\.5"):
        rnn(x)


def test_steps_that_hardly_grow_and_other_settings_are_not_looked_at(monkeypatch):
    def jittered(module, k):
        return module(X, ts=torch.arange(5, dtype=torch.float64) * (1 + 1e-9 * k))

    assert looks(slow(), jittered, 40, monkeypatch) == [1]
    assert looks(slow(), lambda m, k: m(torch.randn(4, 3, 1)), 40, monkeypatch) == [1]
    assert looks(slow_cell(), lambda m, k: m(X[0], dt=1 / k), 40, monkeypatch) == [1]


class Cubic(ctrnn.VectorField):
    """dh/dt = x - h^3, which forgets the faster the further it is from 0."""

    def flow(self, projected, h):
        return projected - h**3

    def leak(self, projected, h):
        return h**2


@pytest.mark.parametrize("fused", [True, False])
def test_states_ten_times_larger_than_any_before_are_looked_at(fused):
    rnn = DiscreteRNN(Cubic(1, 1), dt=0.5, fused=fused)
    rnn(torch.full((40, 2, 1), 0.1))
    with pytest.warns(StepWarning, match="multiplies the distance"):
        rnn(torch.full((8, 2, 1), 9.0))
    cell, small = DiscreteCell(Cubic(1, 1), dt=0.5), torch.full((2, 1), 0.1)
    large = cell(torch.full((2, 1), 20.0), cell(small, small))  # now the next step is one too long
    with pytest.warns(StepWarning, match="multiplies the distance"):
        cell(small, large)


def test_states_some_tens_of_times_larger_that_stay_finite_are_looked_at():
    rnn = DiscreteRNN(Cubic(1, 1), dt=0.5)
    _, small = rnn(torch.full((2, 2, 1), 0.1))
    with pytest.warns(StepWarning, match=r"g dt up to 3\.1"):  # 0.5 h^2 at h = 2.5
        _, large = rnn(torch.full((2, 2, 1), 5.0))
    assert 10 < float(large.max().abs() / small.max()) < 100


def test_states_that_are_no_numbers_any_more_are_looked_at_once(monkeypatch):
    rnn = DiscreteRNN(Cubic(1, 1), dt=0.5)
    with pytest.warns(StepWarning, match="g dt up to inf"):
        assert looks(rnn, lambda m, k: m(torch.full((40, 2, 1), 0.1 if k < 3 else 50.0)), 6, monkeypatch) == [1, 3]


@pytest.fixture
def watched_there(monkeypatch):
    """The fake device, whose dispatch mode would else keep watches from looking."""
    monkeypatch.setattr(overshoot, "tracing_reason", lambda: None)
    with FakeDevice() as device:
        yield device


def waits_in_a_watch(device):
    return sum(count for where, count in device.waits.items() if "overshoot" in where)


def test_on_a_device_one_call_in_fifty_waits(watched_there):
    rnn, x = DiscreteRNN(ctrnn.leaky(1, 2, alpha=0.5, dtype=X.dtype)).to(DEVICE), X.to(DEVICE)
    with torch.no_grad():
        rnn(x)
        before = waits_in_a_watch(watched_there)
        for _ in range(49):
            rnn(x, ts=torch.arange(5.0))
        assert waits_in_a_watch(watched_there) == before
        rnn(x)
        assert waits_in_a_watch(watched_there) > before
        with pytest.warns(StepWarning, match="g dt up to 3, "):  # times are on the CPU
            rnn(x, ts=LONG)


def test_nothing_is_looked_at_while_a_cuda_graph_is_captured(watched_there, monkeypatch):
    rnn, x = DiscreteRNN(ctrnn.leaky(1, 2, alpha=0.5, dtype=X.dtype)).to(DEVICE), X.to(DEVICE)
    rnn(x)
    monkeypatch.setattr(ctrnn.checks, "is_captured", lambda device: device == DEVICE)
    watched_there.waits.clear()
    for rnn.watch.calls in (50, 1000):
        rnn(x)
    assert not waits_in_a_watch(watched_there)
