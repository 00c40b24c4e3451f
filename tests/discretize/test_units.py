"""Times are in the unit of the field's own time scale; where they are far from it, one warning says both numbers."""

import warnings

import pytest
import torch
from cases import crossed
from torch.testing import assert_close

import ctrnn
from discretize import BackwardEuler, ContinuousRNN, DiscreteRNN, ExponentialEuler, TimeUnitWarning
from discretize.units import _looked

XS = torch.randn(40, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def tau_of(tau, make=ctrnn.additive):
    return make(2, 4, tau=tau, generator=torch.Generator().manual_seed(1))


RNNS = {
    "solved": lambda field: ContinuousRNN(field, rtol=1e-9, atol=1e-11),
    "exponential": lambda field: DiscreteRNN(field, ExponentialEuler()),
    "implicit": lambda field: DiscreteRNN(field, BackwardEuler()),
}


@pytest.mark.parametrize("kind", RNNS)
@pytest.mark.parametrize(
    ("make", "tau"), crossed([ctrnn.additive, ctrnn.leaky], [torch.tensor(100.0), torch.tensor([50.0, 100.0, 200.0, 1e3])])
)
def test_seconds_and_milliseconds_give_the_same_states(make, tau, kind):
    ms, s = tau_of(tau, make), tau_of(tau / 1000, make)
    xs, ts = XS[:9], torch.cumsum(torch.rand(10, dtype=torch.float64) * 20 + 1, 0)
    assert_close(RNNS[kind](ms)(xs, ts=ts)[0], RNNS[kind](s)(xs, ts=ts / 1000)[0], rtol=1e-6, atol=1e-8)


def said(rnn, ts, lengths=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rnn(XS, ts=ts, lengths=lengths)
    return [str(each.message) for each in caught if each.category is TimeUnitWarning]


@pytest.mark.parametrize("kind", [DiscreteRNN, ContinuousRNN])
@pytest.mark.parametrize(
    ("apart", "told"),
    [(0.1, False), (0.9e-4, True), (1e-4, False), (1e-3, False), (4.9, False), (5.1, True), (1e3, True), (1.0, False)],
)
def test_intervals_far_from_what_the_field_remembers_are_told_once(kind, apart, told):
    field = tau_of(0.1)
    rnn = kind(field, ExponentialEuler())
    ts = apart * torch.arange(40, dtype=torch.float64) + 3
    first = said(rnn, ts)
    assert len(first) == told
    assert not said(rnn, ts)
    if told:
        assert f"{apart:.3g} apart" in first[0]
        assert "forgets in 0.1" in first[0]


def test_a_recording_in_which_units_forget_ten_times_is_in_their_unit_however_fine_it_is():
    # 48 kHz and 0.025 s, both in seconds: of a quarter of a second nothing is said, of 40 samples it is.
    times = torch.arange(12_011, dtype=torch.float64) / 48_000
    with torch.no_grad():
        DiscreteRNN(tau_of(0.025))(torch.zeros(12_010, 1, 2, dtype=torch.float64), ts=times)  # a warning is an error here
    assert said(DiscreteRNN(tau_of(0.025)), times[:41])


def test_sequences_that_are_over_do_not_count_and_the_nearest_unit_decides():
    field = tau_of(torch.tensor([0.1, 1.0, 10.0, 100.0]))
    ts = 0.01 * torch.arange(41, dtype=torch.float64)[:, None] * torch.tensor([1.0, 1.0, 1e-6], dtype=torch.float64)
    assert not said(ContinuousRNN(field), ts, lengths=[40, 3, 3])
    assert not said(DiscreteRNN(field), 0.01 * torch.arange(41))  # looked at before
    assert (
        "fastest unit forgets in 0.1 "
        in said(DiscreteRNN(tau_of(torch.tensor([0.1, 1.0, 10.0, 1e2]))), 2e-5 * torch.arange(41))[0]
    )


def test_samples_that_are_counted_are_not_taken_for_times():
    assert not said(DiscreteRNN(tau_of(1e4)), torch.arange(41.0))
    assert said(DiscreteRNN(tau_of(1e4)), 1.1 * torch.arange(41.0))


def test_a_look_draws_nothing_and_writes_nothing_of_the_field():
    ts = 0.5 * torch.arange(41.0)
    drawn, calls = [], []
    for looked_at in (True, False):
        rnn = DiscreteRNN(Kept())
        if not looked_at:
            _looked.add(rnn.field)
        torch.manual_seed(3)
        drawn.append(rnn(XS, ts=ts)[0])
        calls.append(float(rnn.field.calls))
    assert torch.equal(*drawn)
    assert calls[0] == calls[1]


def test_a_field_that_cannot_be_asked_is_run_as_before():
    class Plain(ctrnn.VectorField):
        refuses = False

        def flow(self, projected, h):
            if self.refuses and len(h) == 1:
                raise RuntimeError("a batch of one")
            return projected.sum(-1, keepdim=True) - h

        def leak(self, projected, h):
            return torch.ones_like(h)

    class Refusing(Plain):
        refuses = True

    assert said(DiscreteRNN(Plain(2, 4)), 1e-4 * torch.arange(41.0))
    assert not said(DiscreteRNN(Refusing(2, 4)), 1e-4 * torch.arange(41.0))


def test_a_unit_that_forgets_at_once_has_no_time_scale():
    field = tau_of(torch.full((4,), 0.1))
    field.rate.log_alpha.data.fill_(torch.inf)
    assert not said(DiscreteRNN(field), 1e-4 * torch.arange(41.0))


def test_nothing_is_said_of_a_field_without_a_leak():
    class Turns(ctrnn.VectorField):
        def flow(self, projected, h):
            return torch.stack([h[..., 1] + projected[..., 0], -h[..., 0]], -1)

    assert not said(DiscreteRNN(Turns(2, 2), allow_overshoot=True), 1e-4 * torch.arange(41))


def test_nothing_is_said_of_steps_of_a_length_that_the_user_gives():
    DiscreteRNN(tau_of(0.1), dt=0.9e-4)(XS)  # a warning is an error here
    assert said(DiscreteRNN(tau_of(0.1)), 0.9e-4 * torch.arange(41))  # of stamps it is said


class Kept(ctrnn.VectorField):
    """Draws random numbers, and counts its calls in a buffer."""

    def __init__(self):
        super().__init__(2, 4)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def flow(self, projected, h):
        self.calls += 1
        return self.drop(projected.sum(-1, keepdim=True)) - h
