"""Steps whose coefficients no float is: what holds but for rounding, and a coefficient that is another one."""

import pytest
import torch
from sympy import Float, Rational

import ctrnn
import discretize
from derivations import symbolic, verify
from derivations.prover.verdict import BUT_FOR_ROUNDING, FAILS
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data, replay


class Affine(ctrnn.VectorField):
    formula = "dh/dt = V x - W h"

    def __init__(self):
        super().__init__(1, 1)
        self.V, self.W = torch.nn.Parameter(torch.ones(1, 1)), torch.nn.Parameter(torch.ones(1, 1))

    def flow(self, projected, h):
        return projected @ self.V.mT - h @ self.W.mT


def publishing(step, recurrence):
    return type("Affine", (Affine,), {"published": (step, recurrence)})()


PUBLISHED = {
    "RungeKutta4": """h' = h + dt/6 * (p + 2 q + 2 r + s)
p = V x - W h
q = V x - W (h + dt/2 * p)
r = V x - W (h + dt/2 * q)
s = V x - W (h + dt r)""",
    "ThreeEighths": """h' = h + dt/8 * (p + 3 q + 3 r + s)
p = V x - W h
q = V x - W (h + dt/3 * p)
r = V x - W (h + dt * (q - p/3))
s = V x - W (h + dt * (p - q + r))""",
    "Heun3": """h' = h + dt/4 * (p + 3 r)
p = V x - W h
q = V x - W (h + dt/3 * p)
r = V x - W (h + 2 dt/3 * q)""",
    "Bosh3": """h' = h + dt/9 * (2 p + 3 q + 4 r)
p = V x - W h
q = V x - W (h + dt/2 * p)
r = V x - W (h + 3 dt/4 * q)""",
}
NAMES = {"RungeKutta4": "runge-kutta4", "ThreeEighths": "rk4", "Heun3": "heun3", "Bosh3": "bosh3"}
LENGTHS = [("RungeKutta4", dt) for dt in (0.5, 0.3, 0.7, 0.1)]
LENGTHS += [("ThreeEighths", 0.3), ("ThreeEighths", 1 / 3), ("Heun3", 1 / 3), ("Bosh3", 0.7)]


@pytest.mark.by_default(2)
@pytest.mark.parametrize(("step", "dt"), LENGTHS)
def test_a_step_by_fractions_is_its_recurrence_but_for_rounding(step, dt):
    found = verify(discretize.DiscreteCell(publishing(step, PUBLISHED[step]), NAMES[step], dt))
    assert found.verdict == BUT_FOR_ROUNDING
    assert "1/3 stands for the float 0.3333333333333333, less than 1.9e-17 away" in found.evidence
    bounds = [each for each in from_data(as_data(found.certificate)) if each["rule"] == "rounds"]
    assert bounds
    for each in bounds:
        replay(each)
        with pytest.raises(NotShown):  # no bound at all is too little
            replay({**each, "low": each["high"]})


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("printed", "other"), [("dt/6", "dt/6.0000001"), ("dt/6", "0.1666666666 dt"), ("dt r", "dt q")])
def test_a_recurrence_with_another_coefficient_is_refuted(printed, other):
    recurrence = PUBLISHED["RungeKutta4"].replace(printed, other)
    assert verify(discretize.DiscreteCell(publishing("RungeKutta4", recurrence), "runge-kutta4", 0.3)).verdict == FAILS


class Own(discretize.Step):
    """A user's step, h + share(dt) F(h)."""

    order = evaluations = 1

    def __init__(self, share):
        self.share = share

    def advance(self, field, projected, h, dt):
        return h + self.share(dt) * field.flow(projected, h)


def own(share, dt, printed):
    return verify(discretize.DiscreteCell(publishing("Own", f"h' = h + {printed} * (V x - W h)"), Own(share), dt))


SHARES = {
    "a third": (lambda dt: dt / 3, "dt/3"),
    "two thirds": (lambda dt: dt * (2 / 3), "2 dt/3"),
    "two thirds, by a division": (lambda dt: dt / 1.5, "2 dt/3"),
    "two thirds, as the rest": (lambda dt: dt * (1 - 1 / 3), "2 dt/3"),
    "of a square": (lambda dt: dt**2 / 6, "dt^2/6"),
    "of a cube": (lambda dt: dt * dt * dt / 6, "dt^3/6"),
    "of a reciprocal": (lambda dt: 0.3 / dt, "3/(10 dt)"),
    "with a number of the field": (lambda dt: 0.01 * dt / 3, "0.01 dt/3"),
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("dt", [0.7, 0.1])
@pytest.mark.parametrize("share", SHARES)
def test_what_python_computes_of_dt_is_the_share_of_dt_but_for_rounding(share, dt):
    code, printed = SHARES[share]
    assert own(code, dt, printed).verdict == BUT_FOR_ROUNDING


OTHER_SHARES = {
    "3.0000001": lambda dt: dt / 3.0000001,
    "two digits": lambda dt: 0.33 * dt,
    "nine digits": lambda dt: 0.333333333 * dt,
    "fourteen digits": lambda dt: 0.33333333333333 * dt,
    "twice": lambda dt: 2 * dt / 3,
    "a little more": lambda dt: dt / 3 + 1e-13,
    "of another length": lambda dt: (dt + 1e-9) / 3,
    "a constant": lambda dt: 0.23,
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("dt", [0.5, 0.7])
@pytest.mark.parametrize("share", OTHER_SHARES)
def test_any_other_share_of_dt_refutes(share, dt):
    assert own(OTHER_SHARES[share], dt, "dt/3").verdict == FAILS


def in_six_parts(cell, dt):
    """The classical step of an affine field, by hand."""
    equations = symbolic(cell)
    (h,), (x,), ((v,), (w,)) = equations.state, equations.inputs, equations.parameters.values()
    p = v * x - w * h
    q = v * x - w * (h + dt * p / 2)
    r = v * x - w * (h + dt * q / 2)
    s = v * x - w * (h + dt * r)
    return [h + dt * (p + 2 * q + 2 * r + s) / 6]


@pytest.mark.by_default(1)
@pytest.mark.parametrize("dt", [Float(0.3), Rational(0.3), Rational(3, 10)], ids=["Float", "its value", "3/10"])
def test_equations_may_have_dt_as_it_is_or_as_it_is_written(dt):
    cell = discretize.DiscreteCell(Affine(), "runge-kutta4", 0.3)
    assert verify(cell, in_six_parts(cell, dt)).verdict == BUT_FOR_ROUNDING
    assert verify(cell, iter(in_six_parts(cell, dt))).verdict == BUT_FOR_ROUNDING
    assert verify(cell, in_six_parts(cell, dt * (1 + Rational(1, 10**12)))).verdict == FAILS
