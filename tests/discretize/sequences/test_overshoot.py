"""Steps that grow where the equation forgets are warned of, once, by cells and sequence modules themselves."""

import copy
import pickle
import warnings

import problems
import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteCell, DiscreteRNN, Euler, ExponentialEuler, Monitor, RungeKutta4, StepWarning, unroll
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
    WAYS[way](pulled(), allow_overshoot=True)
    WAYS[way](pulled(1.99))
    WAYS[way](pulled(100.0), ExponentialEuler())
    WAYS[way](pulled(2.7), RungeKutta4())
    with pytest.warns(StepWarning, match="RungeKutta4"):
        WAYS[way](pulled(2.8), RungeKutta4())


def test_substeps_and_time_stamps_count_as_they_are():
    x = torch.zeros(4, 3, 1)
    DiscreteRNN(pulled(), substeps=2)(x)
    with pytest.warns(StepWarning, match=r"g dt up to 7\.5"):
        DiscreteRNN(pulled())(x, ts=torch.tensor([0.0, 0.1, 3.1, 3.2, 3.3]))


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


def test_a_monitor_speaks_in_its_place():
    rnn = DiscreteRNN(pulled())
    with pytest.warns(StepWarning) as caught, Monitor(rnn):
        rnn(torch.zeros(4, 3, 1))
    assert len(caught) == 1
    with pytest.warns(StepWarning, match="allow_overshoot"):
        DiscreteRNN(pulled())(torch.zeros(4, 3, 1))


def test_modules_that_look_are_copied_pickled_and_differentiated_as_before():
    rnn, x = DiscreteRNN(ctrnn.gated(1, 2)), torch.randn(4, 3, 1)
    for again in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert torch.equal(again(x)[0], rnn(x)[0])
    slope = torch.func.jvp(lambda x: rnn(x)[0], (x,), (x,))[1]
    ahead, behind = (rnn((1 + e) * x)[0] for e in (1e-5, -1e-5))
    assert_close(slope, (ahead - behind) / 2e-5, rtol=0, atol=1e-8)  # central differences: error of order e^2


def test_steps_of_ones_own_that_know_no_single_unit_are_left_alone():
    class Odd(Euler):
        def stability(self, z, leak=None):
            raise RuntimeError("no single units")

    cell = DiscreteCell(pulled(), Odd())
    cell(torch.zeros(3, 1))
    assert (cell.watch.largest, cell.watch.warned) == (FAST, False)
