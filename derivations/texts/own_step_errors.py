r"""Results 3 and 4 of our own: modes of one step, and what steps drop, in one step and over a whole decay.

Euler h + g (f - h)           a mode lambda of D W is stable iff |1 + g (lambda - 1)| < 1
dropped, of order g^2/2       Euler: (D W - I)(f - h);  exponential Euler: D W (f - h)
over a whole decay            Euler's largest error is g/(2 e) + O(g^2)
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import (
    Derivative,
    Eq,
    I,
    ImmutableDenseMatrix,
    Rational,
    S,
    Symbol,
    diag,
    exp,
    eye,
    im,
    log,
    re,
    tanh,
)

from derivations.argument.taylor import along, euler_step, motion, taylor_sum
from derivations.claim import Correction, Entry, Equal, Expands, Less, Mutation, Solves, changed
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.texts.own_steps import exact_step, relaxed

t, dt, h0 = symbols.t, symbols.dt, symbols.h0
z, b, w = (Symbol(name, real=True) for name in "zbw")
g, k, u = (Symbol(name, positive=True) for name in "gku")
FROZEN = "f is constant over the step"
ONE_GATE, HELD = "g is a constant, one for all units", "the input is held over the step"


def two_units() -> tuple[ImmutableDenseMatrix, ImmutableDenseMatrix, ImmutableDenseMatrix]:
    """States h, candidates f = tanh(W h + b) with the held input in b, and D W, D = diag(f')."""
    states, W = ImmutableDenseMatrix(symbols.state(2)), symbols.weights("W_h", 2, 2)
    candidates = (W * states + symbols.biases("b", 2)).applyfunc(tanh)
    return states, candidates, diag(*(1 - candidate**2 for candidate in candidates)) * W


def equations(states: ImmutableDenseMatrix, flow: ImmutableDenseMatrix) -> list[Eq]:
    return [Eq(state.diff(t), rate) for state, rate in zip(states, flow, strict=True)]


def modes() -> Iterator[Entry]:
    """Result 3: one mode lambda = a + i b of D W."""
    a = Symbol("a", real=True)
    states, candidates, DW = two_units()
    gates = diag(*symbols.biases("g", 2))
    step = euler_step(equations(states, gates * (candidates - states)))
    jacobian = ImmutableDenseMatrix(2, 2, lambda i, j: Derivative(step[i], states[j]))
    factor, bound = 1 + g * (a + I * b - 1), 2 * (1 - a) / ((1 - a) ** 2 + b**2)
    grown, distance = re(factor) ** 2 + im(factor) ** 2, (1 - a) ** 2 + b**2
    yield own("result 3, Jacobian", given=("G is constant", HELD)).says(
        "With a constant gate for each unit, G diagonal, the step's Jacobian is I - G + G D W; with one for all a mode lambda of "
        "D W is multiplied by 1 + g (lambda - 1).",
        Equal(jacobian, eye(2) - gates + gates * DW),
        mutation=changed("D W transposed", rhs=eye(2) - gates + gates * DW.T),
        remark="checked for 2 units",
    )
    yield own("result 3, mode", given=("g > 0", "a + i b is not 1", ONE_GATE)).says(
        "A linear mode a + i b of D W is stable iff g < 2 (1 - a)/((1 - a)^2 + b^2): 1 - |1 + g (a + i b - "
        "1)|^2 has the sign of the right side minus g.",
        Equal(1 - grown, g * distance * (bound - g)),
        mutation=changed("(1 - a)^2 + b^2 read as (1 - a)^2", rhs=g * distance * (2 / (1 - a) - g)),
        remark="for a >= 1 the right side is not positive, and no g > 0 is stable",
    )


def local_errors() -> Iterator[Entry]:
    states, candidates, DW = two_units()
    field = equations(states, g * (candidates - states))
    # h(t + dt) less the Euler step, and less the exponential one: what is left out of either is O(dt^3).
    euler = dt**2 / 2 * along(field)
    whole = exp(-g * dt) * states + (1 - exp(-g * dt)) * candidates
    exponential = whole.applyfunc(lambda entry: taylor_sum(entry, dt, 3))
    unequal = diag(*symbols.biases("g", 2))
    lead = dt**2 / 2 * g**2
    yield own("result 4, Euler", given=(ONE_GATE, HELD)).says(
        "Euler's local error is (g^2/2) (D W - I) (f - h), times dt^2, where the gate is constant.",
        Equal(euler, lead * (DW - eye(2)) * (candidates - states), motion(field)),
        mutation=changed("D W - I read as D W", rhs=lead * DW * (candidates - states)),
        remark="checked for 2 units; at dt = 1 it is the leading term in g",
    )
    pull = candidates - states
    apart, product = equations(states, unequal * pull), unequal * (DW - eye(2)) * unequal
    yield own("result 4, Euler, gates per unit", given=("G is constant", HELD)).says(
        "With a constant gate for each unit it is (1/2) G (D W - I) G (f - h), G diagonal.",
        Equal(dt**2 / 2 * along(apart), dt**2 / 2 * product * pull, motion(apart)),
        mutation=changed("G (D W - I) G read as G^2 (D W - I)", rhs=dt**2 / 2 * unequal**2 * (DW - eye(2)) * pull),
        remark="new here; checked for 2 units",
    )
    missed = euler_step(field, dt) + euler - exponential
    (one,), v = symbols.state(1), Symbol("v", real=True)
    candidate, gate = tanh(w * one + b), (1 + tanh(v * one + z)) / 2
    learned = [Eq(one.diff(t), gate * (candidate - one))]
    constant = dt**2 / 2 * gate**2 * (w * (1 - candidate**2) - 1) * (candidate - one)
    slope = dt**2 / 2 * 2 * v * gate * (1 - gate) * gate * (candidate - one) ** 2
    yield own("result 4, gate's derivative", given=HELD).says(
        "A gate that reads the state adds terms of its derivative: (1/2) g'(h) g (f - h)^2.",
        Equal(dt**2 / 2 * along(learned)[0], constant + slope, motion(learned)),
        mutation=changed("the term left out", rhs=constant),
        remark="checked for 1 unit with g = (1 + tanh(v h + z))/2 = sigma(2 v h + 2 z), of which g' = 2 v g (1 - g)",
    )
    yield own("result 4, exponential Euler", given=(ONE_GATE, HELD)).says(
        "Exponential Euler's local error is (g^2/2) D W (f - h), times dt^2.",
        Equal(missed, lead * DW * pull, motion(field)),
        mutation=changed("D W read as D W - I", rhs=lead * (DW - eye(2)) * pull),
        remark="checked for 2 units",
    )
    still = tanh(b) + (h0 - tanh(b)) * exp(-g * t)
    yield own("result 4, no recurrence", given=("g is constant", HELD)).says(
        "Without recurrence exponential Euler drops nothing: its step solves the field.",
        Solves((Eq(one.diff(t), g * (tanh(b) - one)),), {one: still}, (S.Zero, {one: h0})),
        Equal(still.subs(t, dt), exact_step(h0, tanh(b), g * dt)),
        mutation=changed("Euler for exponential Euler", rhs=relaxed(h0, tanh(b), g * dt)),
    )


def compared() -> Iterator[Entry]:
    """A mode: h' = g (lambda - 1) h, of which exponential Euler integrates the -h exactly."""
    lam, a = Symbol("lambda", real=True), Symbol("a", real=True)
    flow, euler, exponential = exp(g * (lam - 1)), 1 + g * (lam - 1), exact_step(S.One, lam, g)
    theirs, ours = (1 - a) ** 2 + b**2, a**2 + b**2
    yield own("result 4, same order", given="a linear mode: f = lambda h").says(
        "Exponential Euler's error is of the same order in g as Euler's where there is recurrence.",
        Expands(flow - euler, g, (lam - 1) ** 2 * g**2 / 2, 3),
        Expands(flow - exponential, g, lam * (lam - 1) * g**2 / 2, 3),
        mutation=changed("the same order read as one more", expression=flow - exponential, terms=S.Zero),
    )
    disc = (k / (k**2 - 1)) ** 2 - (a + 1 / (k**2 - 1)) ** 2 - b**2
    yield own("result 4, several times smaller").says(
        "With recurrence exponential Euler's local error is several times smaller than Euler's.",
        Less(4 * ours, theirs),
        correction=Correction(
            "On a mode lambda = a + i b of D W the ratio is |lambda|/|1 - lambda|: smaller iff a < 1/2, and k times smaller (k > "
            "1) iff lambda is within k/(k^2 - 1) of -1/(k^2 - 1). For a > 1/2 it is larger: at lambda = 3/4 three times.",
            Equal(theirs - ours, 1 - 2 * a),
            Equal(theirs - k**2 * ours, (k**2 - 1) * disc),
            Equal(ours, 9 * theirs, {a: Rational(3, 4), b: S.Zero}),
        ),
        remark="several is read as at least twice: 4 |lambda|^2 <= |1 - lambda|^2",
    )


def whole_decay() -> Iterator[Entry]:
    """With f frozen: after n = u/g steps e^-u against (1 - g)^n = e^-(c u), c = -log(1 - g)/g > 1; C = c - 1 > 0."""
    C = Symbol("C", positive=True)
    error = exp(-u) - exp(-(1 + C) * u)
    worst = log(1 + C) / C
    height = C * (1 + C) ** (-(1 + C) / C)
    yield own("result 4, frozen", given=FROZEN).says(
        "Frozen, Euler's error is e^-g - (1 - g) = g^2/2 - g^3/6 + ...",
        Expands(exp(-g) - (1 - g), g, g**2 / 2 - g**3 / 6, 4),
        mutation=changed("- g^3/6 read as + g^3/6", terms=g**2 / 2 + g**3 / 6),
    )
    yield own("result 4, largest error", given=(FROZEN, "0 < g < 1", "u = g n is any positive number")).says(
        "Over a whole decay the largest error e^-u - (1 - g)^(u/g), at u = log(1 + C)/C, is exactly C (1 "
        "+ C)^(-(1 + C)/C) with 1 + C = -log(1 - g)/g.",
        Equal(Derivative(error, u), exp(-u) * ((1 + C) * exp(-C * u) - 1)),
        Equal((1 + C) * exp(-C * u), S.One, {u: worst}),
        Equal(Derivative((1 + C) * exp(-C * u), u), -C * (1 + C) * exp(-C * u)),
        Equal(log(height), log(C) - log(1 + C) - worst),
        mutation=Mutation("1 + C read as 1 + 2 C", Equal((1 + 2 * C) * exp(-C * worst), S.One)),
        remark="new here; C > 0 as the forgetting time of a gate g is below 1/g; the "
        "error rises up to that u and falls from there",
    )
    P, Q = Symbol("P", positive=True), Symbol("Q", positive=True)
    rise = ((1 + C) / (1 + Q) - 1) / (1 + P)
    yield own("result 4, whole decay", given=FROZEN).says(
        "Over a whole decay the largest error is g/(2 e) + O(g^2): C/e to first order in C, and C = g/2 + O(g^2).",
        Equal(log(height), log(C) - (1 + C) * log(1 + C) / C),
        Expands((1 + C) * log(1 + C), C, C, 2),
        Expands(-log(1 - g) - g, g, g * (g / 2), 3),
        Less(rise, C),
        mutation=Mutation("g/(2 e) read as g/e", Expands(-log(1 - g) - g, g, g * g, 3)),
        remark="both series are multiplied by what stands below, C and g C = -log(1 - g) - g; before its maximum the error rises "
        "in u by at most C, with e^u = 1 + P and e^(C u) = 1 + Q in the last statement; so the whole step before "
        "it, at most g away, loses at most g C = O(g^2)",
    )
