r"""Step maps of our own package on power decays: what is left of h, against (1 + r y)^(-1/r).

h' = -g |h|^r h                 y = g |h|^r
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Abs, Eq, Expr, ImmutableDenseMatrix, S, Symbol, exp, log, oo

from derivations.claim import Entry, Mutation, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Solves
from derivations.texts.own_maps import FROZEN, dt, f, g, own, r, u, y, z
from derivations.twins import step_maps
from derivations.twins.fields import sigma

__all__ = ["entries"]

POWER = ("r > 0", "y > 0", "no input")


def entries() -> Iterator[Entry]:
    return chain(power_factors(), power_long())


def _power(name: str) -> Expr:
    """What a unit step leaves of h > 0, for h' = -rate |h|^r h with rate h^r = y."""
    start = symbols.positive_h0
    rate = y / start**r
    return step_maps.MAPS[name](lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One).doit() / start


def power_factors() -> Iterator[Entry]:
    """y = g |h|^r dt. The exact factor is (1 + r y)^(-1/r), and larger where less is forgotten."""
    exact, start = (1 + r * y) ** (-1 / r), symbols.positive_h0
    H, rate = symbols.signal("h")(symbols.s), Symbol("g", positive=True)
    path = start * (1 + r * rate * start**r * symbols.s) ** (-1 / r)
    logs = Less(log(1 + r * y), r * y, True, rising=(y,))
    yield own("step maps, power decay", given=POWER).says(
        "Of h' = -g |h|^r h there is left (1 + r y)^(-1/r), with y = g |h|^r t.",
        Solves((Eq(H.diff(symbols.s), -rate * H**r * H),), {H: path}, (S.Zero, {H: start})),
        Equal((path / start).subs(symbols.s, y / (rate * start**r)), exact),
        mutation=Mutation("-1/r read as -1", Equal((path / start).subs(symbols.s, y / (rate * start**r)), 1 / (1 + r * y))),
        remark="for h > 0; the equation is odd in h",
    )
    yield own("step maps, power decay by exponential Euler", given=POWER).says(
        "Exponential Euler leaves e^-y of it, less than the exact step for every y > 0: it forgets too much.",
        Equal(_power("exponential_euler"), exp(-y)),
        logs,
        mutation=changed("e^-y read as Euler's 1 - y", rhs=1 - y),
        remark="by logarithms: -y < -log(1 + r y)/r; it holds the rate while it should fall",
    )
    above, below, middle = 1 + u, Symbol("rho", positive=True), (1 - y / 2) / (1 + y / 2)
    yield own("step maps, power decay by frozen backward Euler", given=POWER).says(
        "Frozen backward Euler leaves 1/(1 + y): at r = 1 that is exact, for r > 1 it forgets too much, for r < 1 too little.",
        Equal(_power("frozen_backward_euler"), 1 / (1 + y)),
        Equal(exact.subs(r, 1), 1 / (1 + y)),
        Less(log(1 + above * y), above * log(1 + y), True, rising=(y,)),
        Less(below * log(1 + y), log(1 + below * y), True, {below: (0, 1)}, rising=(y,)),
        mutation=Mutation("r > 1 and r < 1 exchanged", Less(above * log(1 + y), log(1 + above * y), True)),
        remark="by logarithms, with r = 1 + u, and with rho < 1 for r",
    )
    yield own("step maps, power decay by the frozen trapezoid", given=POWER).says(
        "The frozen trapezoid leaves (1 - y/2)/(1 + y/2), and flips the sign iff y > 2.",
        Equal(_power("frozen_trapezoid"), middle),
        Less(S.Zero, middle, True, {y: (0, 2)}),
        Less(middle, S.Zero, True, {y: (2, oo)}),
        mutation=Mutation("y > 2 read as y > 1", Less(middle, S.Zero, True, {y: (1, oo)})),
    )
    rosenbrock = 1 + (exp(-(r + 1) * y) - 1) / (r + 1)
    yield own("step maps, power decay by Rosenbrock", given=POWER).says(
        "The exponential Rosenbrock step leaves 1 + (e^(-(r + 1) y) - 1)/(r + 1): more than r/(r + "
        "1), to which it tends, however long the step.",
        Equal(_power("exponential_rosenbrock"), rosenbrock),
        Less(r / (r + 1), rosenbrock, True, None, exp(-(r + 1) * y) / (r + 1)),
        Tends(rosenbrock, y, oo, r / (r + 1)),
        mutation=Mutation("r/(r + 1) read as 1/(r + 1)", Tends(rosenbrock, y, oo, 1 / (r + 1))),
    )
    yield own("step maps, power decay by Rosenbrock, too little", given=POWER).says(
        "It forgets too little at every y > 0, not only at large ones: both factors start at 1, and the exact one falls faster, "
        "by (1 + r y)^(-(r + 1)/r) against e^(-(r + 1) y).",
        Equal(exact.diff(y), -((1 + r * y) ** (-(r + 1) / r))),
        Equal(rosenbrock.diff(y), -exp(-(r + 1) * y)),
        Equal(rosenbrock.subs(y, 0), exact.subs(y, 0)),
        logs,
        Expands(rosenbrock - exact, y, r * (r + 1) * y**3 / 6, 4),
        mutation=Mutation("r (r + 1) y^3/6 read as with a minus", Expands(rosenbrock - exact, y, -r * (r + 1) * y**3 / 6, 4)),
        remark="by log(1 + r y) < r y; the last statement says by how much at small y",
    )


def to_second(e: Expr) -> ImmutableDenseMatrix:
    """Value, slope and second derivative in dt at 0."""
    return column(*(e.diff(dt, k).subs(dt, 0) for k in range(3)))


def power_long() -> Iterator[Entry]:
    """Splitting, backward Euler, and a gate as the rate of a power decay."""
    start, q, rho = symbols.positive_h0, Symbol("q", positive=True), Symbol("rho", positive=True)
    rate = y / start**r
    forgetting = step_maps.power_forgetting(lambda _: rate, r)
    field = (lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One)
    exact = (1 + r * y) ** (-1 / r)
    residual = step_maps.backward_euler_residual(field[0], start, rho * start, S.One) / start
    yield own("step maps, power decay by splitting", given=POWER).says(
        "The splittings leave (1 + r y)^(-1/r): without input they are exact, at any length of the step.",
        Equal(step_maps.splitting(*field, forgetting) / start, exact),
        Equal(step_maps.strang_splitting(*field, forgetting) / start, exact),
        mutation=changed("the leak's rate held too, e^-y", lhs=step_maps.splitting(*field) / start),
        remark="of a decay |h|^r h only the rate that multiplies it is held, and not |h|^r",
    )
    yield own("step maps, power decay by backward Euler", given=POWER).says(
        "Backward Euler leaves the rho with rho + y rho^(r + 1) = 1. It is in (0, 1) and above the exact factor, for every y > 0 "
        "and r > 0: never a flip, and too little forgotten.",
        Equal(residual, rho + y * rho ** (r + 1) - 1),
        Less(S.Zero, residual.diff(rho), True),
        Tends(rho + y * rho ** (r + 1) - 1, rho, 0, S.NegativeOne),
        Equal(residual.subs(rho, 1), y),
        Equal(exact * (1 + y / (1 + r * y)), exact + y * exact ** (r + 1)),
        Less(log(1 + (r + 1) * y), (r + 1) / r * log(1 + r * y), True, rising=(y,)),
        mutation=Mutation("above read as below", Less((r + 1) / r * log(1 + r * y), log(1 + (r + 1) * y), True)),
        remark="the left side rises with rho and is below 1 at the exact factor, by logarithms, "
        "with 1 + y/(1 + r y) = (1 + (r + 1) y)/(1 + r y)",
    )
    given, driven = g * f, g * (f - start ** (r + 1))
    taylor = start + dt * driven + dt**2 / 2 * driven.diff(start) * driven
    pulled = (lambda u: given - g * Abs(u) ** r * u, lambda u: g * Abs(u) ** r, start, dt)
    by_power = step_maps.power_forgetting(lambda _: g, r)
    lie, strang = (by(*pulled, by_power) for by in (step_maps.splitting, step_maps.strang_splitting))
    more = dt**2 / 2 * (r + 1) * g * start**r * given
    yield own("step maps, splitting a driven power decay", given=("r > 0", "h > 0", FROZEN)).says(
        "Driven, h' = g (f - |h|^r h), Lie's splitting exceeds the exact step by dt^2/2 (r + 1) g |h|^r g f first, "
        "nothing where f = 0, and Strang's is right in dt^2.",
        Equal(to_second(lie), to_second(taylor + more)),
        Equal(to_second(strang), to_second(taylor)),
        mutation=changed("r + 1 read as r", rhs=to_second(taylor + more * r / (r + 1))),
    )
    H, softplus = symbols.signal("h")(symbols.s), log(1 + exp(z))
    path = start * (1 + r * g * start**r * symbols.s) ** (-1 / r)
    forgets = step_maps.power_forgetting(lambda _: softplus, r)
    unit = forgets(start, start, S.One)
    flow = (lambda u: -softplus * Abs(u) ** r * u, lambda u: softplus * Abs(u) ** r, start, S.One)
    yield own("step maps, gate on a power decay", given=("r > 0", "no input")).says(
        "A gate sigma(z) read as the rate sp(z) = log(1 + e^z): with power decay the unit step is h (1 + r sp(z) |h|^r)^(-1/r), "
        "the exact flow, and what the splitting does.",
        Solves((Eq(H.diff(symbols.s), -g * H**r * H),), {H: path}, (S.Zero, {H: start})),
        Equal(path.subs({symbols.s: 1, g: softplus}), unit),
        Equal(step_maps.splitting(*flow, forgets), unit),
        mutation=Mutation("sp(z) read as sigma(z)", Equal(unit, start * (1 + r * sigma(z) * start**r) ** (-1 / r))),
    )
    yield own("step maps, gate on a power decay, r to 0", given=("r > 0", "no input")).says(
        "As r -> 0 that is (1 - sigma(z)) h, the gated step; for every r it stays between 0 and h.",
        Tends((1 + r * q) ** (-1 / r), r, 0, exp(-q)),
        Equal(exp(-softplus), 1 - sigma(z)),
        Less((1 + r * q) ** (-1 / r), S.One, True, None, None, (q,)),
        mutation=changed("e^-q read as 1 - q", value=1 - q),
        remark="with q = sp(z) |h|^r, of which the limit is sp(z)",
    )
