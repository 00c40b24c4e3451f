"""One learned clock, or one for each unit: which follows from which."""

from derivations import Identity, change_of_time, check
from derivations.argument.clocks import right_sides
from derivations.argument.gated import gate, turning, with_speed
from derivations.prover import symbols
from derivations.twins import fields

t, g = symbols.t, symbols.g(symbols.t)


def claim(lhs, rhs):
    return check(Identity("a claim", "this project", "lhs = rhs", lhs, rhs))


def test_a_gate_per_unit_is_no_change_of_time_of_the_plain_field():
    plain, per_unit = fields.plain(), fields.gated()
    warped = right_sides(change_of_time(plain, symbols.c(t)))
    assert claim(turning(warped, plain), 0 * g).holds is True
    assert claim(turning(per_unit.flow, plain), 0 * g).holds is False


def test_gates_that_agree_are_one_gate():
    per_unit, one = fields.gated(), fields.gated(gate="global")
    names = ("W_gx", "W_gh", "b_g")
    shared = {n: per_unit.parameters[n].row_insert(2, one.parameters[n]).row_insert(3, one.parameters[n])[2:, :] for n in names}
    assert claim(per_unit.substitute(**shared).flow, one.flow).holds is True


def test_the_learned_speed_is_the_gate_and_not_its_complement():
    one = fields.gated(gate="global")
    assert claim(right_sides(with_speed(gate(one, 0))), one.flow).holds is True
    assert claim(right_sides(with_speed(1 - gate(one, 0))), one.flow).holds is False
