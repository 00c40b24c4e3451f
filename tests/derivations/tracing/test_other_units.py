"""Numbers of checks are compared relative to their own unit, whatever the others are."""

import pytest
import torch
from sympy import Rational, Symbol

from derivations.slots import _moves_freely
from derivations.tracing.replay import Replayed
from derivations.tracing.running import _close


@pytest.mark.parametrize("size", [Rational(1, 10**12), 1, 10**12])
def test_a_gate_moves_freely_in_any_units(size):
    a, b, u = (Symbol(name, real=True) for name in "abu")
    assert _moves_freely(size * (a * u + b), frozenset({a, b}), frozenset({u}))
    assert not _moves_freely(size * (a * u + a + b), frozenset({a}), frozenset({u}))


def test_a_counterexample_differs_by_its_own_size_and_not_by_rounding():
    assert Replayed({}, (), (1e-10,), (2e-10,), (2e-10,)).differs
    assert not Replayed({}, (), (1e-17, 1.0), (0.0, 1.0 + 1e-15), (1.0, 1.0)).differs


def test_a_run_is_its_record_unit_by_unit():
    record = torch.tensor([[70.0, 1e-9], [-70.0, 2e-9]], dtype=torch.float64)
    assert _close([record + 1e-15], [record], 1e-8)
    assert not _close([record * torch.tensor([1.0, 1.1])], [record], 1e-8)
    assert not _close([1e-9 * record], [1.1e-9 * record], 1e-8)
