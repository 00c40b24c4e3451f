"""The Taylor step and its remainder, against solutions in closed form."""

import pytest
from sympy import Eq, Rational, cos, exp, simplify, sin

from derivations import Identity, check, dropped, euler_step
from derivations.argument.taylor import second_order
from derivations.prover import symbols
from derivations.twins import fields

t, dt, alpha = symbols.t, symbols.dt, symbols.alpha
h, k = symbols.state(2)


@pytest.mark.slow
def test_it_is_of_second_order_for_a_field_of_every_kind():
    for field in (fields.plain(1, 1), fields.gated(1, 1), fields.lstm(1, 1)):
        claim = Identity("order", "this project", "O(dt^2).", dropped(field), dt**2 / 2 * second_order(field))
        assert check(claim).holds is True
        assert not second_order(field).has(dt)


def test_a_unit_euler_step_adds_the_flow_once_and_another_step_as_often_as_it_is_long():
    field = fields.leaky(1, 1)
    assert euler_step(field)[0] == field.state[0] + field.flow[0]
    assert euler_step(field, Rational(1, 3))[0] == field.state[0] + field.flow[0] / 3


def test_what_a_taylor_step_drops_is_the_second_order_of_the_exact_solution():
    forgetting = [Eq(h.diff(t), -alpha * h)]
    exact = exp(-alpha * (t + dt)).series(dt, 0, 3).removeO()
    truncated = euler_step(forgetting, dt)[0].subs(h, exp(-alpha * t))
    assert simplify(dropped(forgetting)[0].subs(h, exp(-alpha * t)) - (exact - truncated)) == 0


def test_a_taylor_step_follows_the_coupling_of_units():
    circle = [Eq(h.diff(t), -k), Eq(k.diff(t), h)]
    here = {h: cos(t), k: sin(t)}
    for left_out, solution in zip(dropped(circle), (cos(t), sin(t)), strict=True):
        assert simplify(left_out.subs(here) - dt**2 / 2 * solution.diff(t, 2)) == 0


def test_a_taylor_step_has_the_motion_of_the_input_in_it():
    (x,) = symbols.inputs(1)
    assert simplify(dropped([Eq(h.diff(t), x)])[0] - dt**2 / 2 * x.diff(t)) == 0
