"""Reports of analyses say in words what is no number."""

import math
import re
from contextlib import nullcontext

import pytest
import torch

import ctrnn
import discretize
from discretize.analysis.decay_laws import DecayLaw
from discretize.analysis.engines import EngineReport, EngineResult


def test_engines_whose_states_are_no_numbers_are_lost():
    for size in (math.nan, math.inf):
        lost = EngineResult("sequence", "steps", math.nan, math.nan, 0.1, largest=size)
        said = str(EngineReport((lost,), 1e-9))
        assert "nan" not in said
        assert "lost" in said
        assert "the states of the sequence leave all bounds by steps too" in said


def test_a_law_of_one_sequence_has_no_interval():
    law = discretize.decay_law(torch.exp(-torch.arange(20.0) / 5))
    assert law.interval == (-math.inf, math.inf)
    assert "of one sequence, without an interval" in str(law)
    assert "95 %: 0.1 to 0.2" in str(DecayLaw(0.1, 0.15, (0.1, 0.2), 0.0, 20))


def test_states_that_are_many_spreads_apart_are_so_in_times_and_not_in_percent():
    class Bursting(ctrnn.VectorField):
        def flow(self, projected, h):
            return projected - 9 * h

    rnn = discretize.DiscreteRNN(Bursting(1, 1))
    x = torch.sin(torch.arange(24.0)).reshape(12, 2, 1)
    for said in (str(discretize.refine(rnn, x, halvings=1)), str(discretize.breakdown(rnn, x, steps=["rk4"]))):
        assert re.search(r"e\+\d+ times their spread|e\+\d+ times; sequences are .* times to .* times away", said)
        assert not re.search(r"\d{5,}\.\d\d%", said)


def test_a_centre_is_called_so_and_has_no_time_constant():
    class Turns(ctrnn.VectorField):
        def __init__(self):
            super().__init__(0, 2)

        def flow(self, projected, h):
            return torch.stack([-h[..., 1], h[..., 0]], -1)

    said = str(discretize.fixed_points(discretize.Flow(Turns(), torch.zeros(0)), torch.zeros(1, 2)))
    assert "centre, turning in 6.28" in said
    assert " inf" not in said


@pytest.mark.parametrize(("largest", "said"), [(math.inf, "g dt is infinite from there on"), (2.5, "at most 2.5")])
def test_a_record_of_infinite_steps_says_so(largest, said):
    field = ctrnn.leaky(1, 1, alpha=2.5)
    rnn = discretize.DiscreteRNN(field, allow_overshoot=True)
    with discretize.Monitor(rnn, warn="never") as monitor:
        if math.isinf(largest):
            field.rate.log_alpha.data.fill_(math.inf)
        with pytest.warns(UserWarning, match="holds inf") if math.isinf(largest) else nullcontext():
            rnn(torch.ones(2, 1, 1))
    assert said in str(monitor)
