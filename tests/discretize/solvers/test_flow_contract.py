"""What every way to run a field refuses of its `flow`: derivatives that torch would broadcast, writes into the state, other
arguments, a projection that is missing; and that samples which act on one another are noticed."""

import copy
import warnings

import pytest
import torch
from problems import NAMED_FIELDS
from torch import nn

import ctrnn
from ctrnn import HeldPath, VectorField
from discretize import (
    ETDRK4,
    BackwardEuler,
    ContinuousRNN,
    DiscreteCell,
    DiscreteRNN,
    Euler,
    ExponentialRosenbrock,
    Layers,
    integrate,
    unroll,
)


class FirstUnitOnly(VectorField):
    """What a slip of the keyboard gives: one derivative for all units."""

    def flow(self, projected, h):
        return torch.tanh(projected[..., :1]) - h[..., :1]


class WritesIntoTheState(VectorField):
    def flow(self, projected, h):
        h[..., 0] = 0
        return -h


class GivesAList(VectorField):
    def flow(self, projected, h):
        return [-h]


def ways_to_run(field):
    x, h = torch.randn(4, 2, 2), torch.randn(2, 3)
    yield lambda: field(x[0], h)
    yield lambda: unroll(DiscreteCell(field), x)
    for step in (Euler(), ETDRK4(), BackwardEuler(), ExponentialRosenbrock()):
        yield lambda step=step: DiscreteCell(field, step)(x[0], h)
        yield lambda step=step: DiscreteRNN(field, step)(x)
        yield lambda step=step: step(field, x[0], h, 0.1)
    yield lambda: ContinuousRNN(field)(x)


class Unprojected(VectorField):
    """Adds what it is given of two features to eight units."""

    def __init__(self):
        super().__init__(2, 8)
        self.weight_h = nn.Linear(8, 8)

    def flow(self, projected, h):
        return torch.tanh(projected + self.weight_h(h)) - h


class ReadsTheTime(VectorField):
    def flow(self, t, x, h):
        return x - h


class OfItsFeatures(VectorField):
    def flow(self, projected, h):
        return torch.tanh(projected)


def all_ways(field, units):
    x, h = torch.randn(4, 2, 2), torch.randn(2, units)
    yield lambda: field(x[0], h)
    yield lambda: DiscreteCell(field)(x[0], h)
    yield lambda: DiscreteRNN(field)(x)
    yield lambda: unroll(DiscreteCell(field), x)
    yield lambda: ContinuousRNN(field)(x)
    yield lambda: integrate(field, HeldPath(x), h, torch.arange(3.0))
    yield lambda: integrate(field, HeldPath(x), h, torch.arange(3.0).flip(0))


class Mean(VectorField):
    """Drawn to where the samples are on average."""

    def flow(self, projected, h):
        return projected + h.mean(0) - h


class Normed(VectorField):
    def __init__(self):
        super().__init__(2, 2)
        self.norm = nn.BatchNorm1d(2)

    def flow(self, projected, h):
        return torch.tanh(self.norm(projected)) - h


class Sequences(VectorField):
    """Every sample by the first one's input."""

    def flow(self, projected, h):
        return projected[:1] - h


def coupled(how):
    """The field's warnings that samples act on one another."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        how()
    return [w for w in caught if "changes with the other samples" in str(w.message)]


every_kind = pytest.mark.parametrize(
    "kind",
    [lambda: Mean(2, 2), Normed, lambda: Sequences(2, 2), lambda: ctrnn.Stack([ctrnn.plain(2, 2), Mean(2, 2)])],
    ids=["Mean", "Normed", "Sequences", "Stack"],
)


@pytest.mark.parametrize(
    "make",
    [
        lambda field, x: (rnn := DiscreteRNN(field), lambda: rnn(x)),
        lambda field, x: (rnn := DiscreteRNN(field, ETDRK4()), lambda: rnn(x, lengths=[1, 2, 4])),
        lambda field, x: (rnn := Layers([DiscreteRNN(field)]), lambda: rnn(x)),
        lambda field, x: (cell := DiscreteCell(field), lambda: cell(x[0])),
        lambda field, x: (cell := DiscreteCell(field), lambda: unroll(cell, x)),
        lambda field, x: (rnn := ContinuousRNN(field, method="rk4"), lambda: rnn(x)),
    ],
    ids=["DiscreteRNN", "ETDRK4", "Layers", "DiscreteCell", "unroll", "rk4"],
)
@every_kind
def test_samples_that_act_on_one_another_are_noticed_at_the_first_call(kind, make):
    _, call = make(kind(), torch.randn(4, 3, 2))
    assert len(coupled(call)) == 1
    assert len(coupled(call)) == 0


@every_kind
def test_samples_that_act_on_one_another_are_not_solved_by_steps_of_their_own(kind):
    x = torch.randn(4, 3, 2)
    with pytest.raises(ValueError, match=r"does not go with `method='dopri5'`: .* steps on its own"):
        ContinuousRNN(kind())(x)
    ContinuousRNN(kind())(x[:, :1]) if kind is not Normed else None  # alone nothing acts on it


def test_batch_norm_is_noticed_in_training_only_and_counts_the_calls_it_has_had():
    field, x = Normed(), torch.randn(4, 3, 2)
    rnn, plain = DiscreteRNN(field.eval()), DiscreteRNN(copy.deepcopy(field))
    plain.watch.modes = [True, False]  # nothing is looked at
    assert len(coupled(lambda: rnn(x))) == 0
    with torch.no_grad():
        assert len(coupled(lambda: rnn.train()(x))) == 1
        plain.train()(x)
    for own, other in zip(field.buffers(), plain.field.buffers(), strict=True):
        assert torch.equal(own, other)
    ContinuousRNN(field.eval())(x)


class Noisy(VectorField):
    def __init__(self, generator=None):
        super().__init__(2, 2)
        self.generator = generator

    def flow(self, projected, h):
        return projected - h + torch.randn(h.shape, generator=self.generator)


def rounded_sums():
    """Large numbers that cancel, in single precision."""
    field = VectorFieldOf(lambda x, h: (x + 1e4 * h.float().cumsum(-1).to(h) - 1e4 * h.cumsum(-1)) - h)
    return field


class VectorFieldOf(VectorField):
    def __init__(self, flow):
        super().__init__(2, 2)
        self.of = flow

    def flow(self, projected, h):
        return self.of(projected, h)


def dropped():
    return ctrnn.Relaxation(ctrnn.Dropout(ctrnn.TanhCandidate(2, 2), 0.5, 0.5), ctrnn.GateRate(2, 2), ctrnn.LinearDecay())


APART = {name: (lambda make=make: make(2, 2)) for name, make in NAMED_FIELDS.items()} | {
    "ltc": lambda: ctrnn.ltc(2, 2),
    "glnn": lambda: ctrnn.glnn(2, 3),
    "noisy": Noisy,
    "noisy by a generator": lambda: Noisy(torch.Generator()),
    "rounded sums": rounded_sums,
    "dropped": dropped,
    "layer norm": lambda: VectorFieldOf(lambda x, h: nn.functional.layer_norm(x, (2,)) - h),
}


@pytest.mark.parametrize("name", APART)
def test_noise_and_rounding_are_not_taken_for_samples_that_act_on_one_another(name):
    x, rnn = torch.randn(4, 3, 2), DiscreteRNN(APART[name](), allow_overshoot=True)
    assert coupled(lambda: rnn(x)) == []


@pytest.mark.parametrize("name", ["glnn", "dropped", "rounded sums"])
def test_a_field_that_looks_coupled_by_its_rounding_or_its_dropout_is_solved(name):
    torch.manual_seed(0)
    rnn, x = ContinuousRNN(APART[name]()), torch.randn(4, 3, 2)
    torch.manual_seed(1)
    assert rnn(x)[0].isfinite().all()


@pytest.mark.parametrize(
    "make",
    [Noisy, lambda: Noisy(torch.Generator().manual_seed(0)), lambda: ctrnn.gated(2, 2)],
    ids=["noisy", "noisy by a generator", "gated"],
)
def test_to_look_for_coupled_samples_takes_no_random_numbers_and_writes_nothing(make):
    field, x = make(), torch.randn(4, 3, 2)
    twin, outputs = copy.copy(field), []
    for looks in (True, False):
        rnn = DiscreteRNN(field if looks else twin, fused=False)
        rnn.watch.modes = [] if looks else [True, False]
        torch.manual_seed(1)
        if isinstance(field, Noisy) and field.generator is not None:
            field.generator.manual_seed(1)
        outputs += [rnn(x)[0], torch.rand(1)]
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[1], outputs[3])


def test_bodies_that_attract_one_another_are_refused_as_samples_and_solved_as_one():
    def bodies(t, h):  # (bodies, 2), the places and the speeds of each
        apart = h[:, None, 0] - h[None, :, 0]
        return torch.stack([h[:, 1], -apart.sum(1)], 1)

    h0, ts = torch.tensor([[1.0, 0.0], [-0.5, 0.3], [0.2, 0.0]]), torch.arange(3.0)
    with pytest.raises(ValueError, match="one sample for all that belong together, their units side by side"):
        integrate(bodies, None, h0, ts)
    alone = integrate(lambda t, h: bodies(t, h[0].view(3, 2)).view(1, 6), None, h0.view(1, 6), ts, rtol=1e-8, atol=1e-8)
    # The sum of all is free; each swings about the middle by sqrt(3).
    middle, angle = h0.mean(0), 2 * 3**0.5
    place, speed = (h0 - middle).unbind(1)
    expected = middle[0] + 2 * middle[1] + place * torch.tensor(angle).cos() + speed / 3**0.5 * torch.tensor(angle).sin()
    torch.testing.assert_close(alone.hs[-1].view(3, 2)[:, 0], expected, rtol=0, atol=1e-6)  # a few tolerances


def test_a_field_that_was_warned_of_under_fixed_steps_is_refused_by_adaptive_ones():
    def drawn_together(t, h):
        return h.mean(0) - h

    h0, ts = torch.randn(3, 2), torch.arange(3.0)
    assert len(coupled(lambda: integrate(drawn_together, None, h0, ts, method="rk4"))) == 1
    assert len(coupled(lambda: integrate(drawn_together, None, h0, ts, method=Euler(), max_step=0.1))) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="each sample steps on its own"):
            integrate(drawn_together, None, h0, ts)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (FirstUnitOnly, ValueError, r"gives shape \(2, 1\) for a state of shape \(2, 3\)"),
        (GivesAList, TypeError, "gives list, not a tensor"),
        (WritesIntoTheState, ValueError, r"writes into the state .* `h.clone\(\)`"),
    ],
)
def test_a_flow_that_torch_would_take_otherwise_is_refused_by_whatever_calls_it(subtests, kind, error, words):
    for number, run in enumerate(ways_to_run(kind(2, 3))):
        with subtests.test(way=number), pytest.raises(error, match=words):
            run()


def test_where_torch_does_not_count_writes_a_flow_may_write_into_its_state():
    with torch.inference_mode():  # where torch does not count writes
        WritesIntoTheState(2, 3)(torch.randn(1, 2), torch.randn(1, 3))


@pytest.mark.parametrize("make", [Unprojected, lambda: OfItsFeatures(2, 8)], ids=["Unprojected", "OfItsFeatures"])
def test_a_projection_that_is_missing_is_named_by_whatever_calls_the_field(subtests, make):
    words = r"gets `project\(x\)`, here \((4, )?2, 2\): \w+ has no `project`.*not the 8 units.*nn.Linear\(2, 8\)"
    for number, run in enumerate(all_ways(make(), 8)):
        with subtests.test(way=number), pytest.raises(ValueError, match=words):
            run()


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, torch.OutOfMemoryError, KeyError])
@pytest.mark.parametrize("features", [2, 3])
def test_a_failure_that_no_projection_would_cure_is_left_as_it_is(kind, features):
    class Failing(VectorField):
        def flow(self, projected, h):
            raise kind("the user's own words")

    with pytest.raises(kind, match="the user's own words"):
        Failing(features, 2)(torch.randn(4, features), torch.randn(4, 2))


def test_a_flow_of_other_arguments_is_refused_by_whatever_calls_it(subtests):
    for number, run in enumerate(all_ways(ReadsTheTime(2, 2), 2)):
        with (
            subtests.test(way=number),
            pytest.raises(TypeError, match=r"`flow` takes \(t, x, h\); it must take \(projected, h\)"),
        ):
            run()


def test_the_time_of_the_first_sample_is_not_taken_for_that_of_all():
    with pytest.raises(ValueError, match="changes with the other samples"):
        integrate(lambda t, h: -t[0] * h, None, torch.ones(3, 2), torch.arange(3.0))


class Meeting(VectorField):
    """Samples act on one another in training."""

    def __init__(self):
        super().__init__(0, 2)

    def flow(self, projected, h):
        return (h.mean(0) if self.training else 0) - h


def test_samples_that_begin_to_act_on_one_another_are_seen_at_the_next_solve():
    field, h0 = Meeting().eval(), torch.rand(3, 2)
    integrate(field, None, h0, [0.0, 1.0])
    field.train()
    with pytest.raises(ValueError, match="other samples of the batch"):
        integrate(field, None, h0, [0.0, 1.0])
