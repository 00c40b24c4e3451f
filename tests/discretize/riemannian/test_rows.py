"""Steps of rows: what says nothing moves nothing, and pieces are the whole."""

import torch
from torch.testing import assert_close

from discretize.riemannian.directions import METRICS
from discretize.riemannian.natural import NATURAL
from discretize.riemannian.rows import BASELINES, REDUCTIONS

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def test_matrices_in_pieces_are_those_at_once(monkeypatch):
    values, moduli, dampening = torch.randn(20, 5), torch.rand(20, 5), torch.rand(5)
    for inputs in (torch.randn(20, 4), torch.randn(20, 5, 4)):
        inputs[..., 0] = 1
        whole = REDUCTIONS["full"](values, moduli, inputs, dampening)
        with monkeypatch.context() as patch:
            patch.setattr("discretize.riemannian.rows.MOST_INPUTS", 2 * 20 * 4)
            assert_close(REDUCTIONS["full"](values, moduli, inputs, dampening), whole)


def test_of_units_that_say_nothing_the_steps_are_zero():
    values, moduli = torch.randn(6, 2), torch.rand(6, 2)
    constant = torch.cat([torch.ones(6, 1), torch.full((6, 1), 0.7), torch.randn(6, 1)], -1)
    nothing = torch.zeros(2)
    step = REDUCTIONS["quasi"](values, moduli, constant, nothing)
    without = REDUCTIONS["quasi"](values, moduli, constant[:, [0, 2]], nothing)
    assert not step[:, 1].any()
    assert_close(step[:, [0, 2]], without, **CLOSE)
    for name, reduction in {**REDUCTIONS, **BASELINES}.items():
        assert reduction(values[:0], moduli[:0], constant[:0], nothing).eq(0).all(), name
        assert not reduction(0 * values, 0 * moduli, constant, nothing).any(), name
    assert set(METRICS) == {"rbpm", "ruop", *NATURAL, *BASELINES}
