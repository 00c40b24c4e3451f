r"""Results 19 to 23 of our own: what turns under a step, noise and delays on warped clocks, gates too slow for chaos, rereading.

z = dt (a + i w)       |1 + z| < 1 implies a < 0: Euler's step invents rhythms and never makes an unstable rest point stable
on the imaginary axis  |R(i y)|^2 = 1 + y^2 (Euler), 1 + y^4/4 (Heun), 1 - y^6/72 + y^8/576 (Runge-Kutta), 1 (trapezoid)
target held            s unit steps of gate g leave (1 - g)^s;  a mode that recurrence keeps moves by s g, or by 1 - (1 - g)^s
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sympy import (
    Derivative,
    Expr,
    Function,
    I,
    ImmutableDenseMatrix,
    Rational,
    S,
    Symbol,
    exp,
    expand,
    factorial,
    fraction,
    log,
    pi,
    sin,
    sqrt,
    tanh,
)

from derivations.claim import Entry, Equal, Expands, Fails, Less, Mutation, changed
from derivations.closure import NONE, RESCALING, WITHIN_UNIT, Closes
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.twins import fields
from derivations.twins.fields import SymbolicField
from derivations.twins.step_maps import stability_function

a, w, h, b, c, t = (Symbol(name, real=True) for name in "awhbct")
dt, g, k, s, u, v, y, d = (Symbol(name, positive=True) for name in ("dt", "g", "k", "s", "u", "v", "y", "d"))


def grown(real: Expr, turning: Expr) -> Expr:
    """|1 + z|^2, by which Euler multiplies the square of a mode's size."""
    return (1 + real) ** 2 + turning**2


def rotation() -> Iterator[Entry]:
    """Result 19, of a mode a + i w of the field at a fixed point."""
    yield own("result 19, growth").says(
        "Under Euler a mode a + i w grows at the rate a + dt (w^2 - a^2)/2 + O(dt^2) a unit of time.",
        Expands(log(grown(dt * a, dt * w)) / 2, dt, dt * a + dt**2 * (w**2 - a**2) / 2, 3),
        mutation=changed("w^2 - a^2 read as w^2 + a^2", terms=dt * a + dt**2 * (w**2 + a**2) / 2),
        remark="of one step, so dt times the rate: a slow spiral inwards, a < 0, opens where dt w^2 is beyond -2 a",
    )
    growing = Symbol("Re z", nonnegative=True)
    yield own("result 19, what turns fast").says(
        "Euler's step adds growth to every mode that turns at least as fast as it decays, at steps of any length: |1 + z| > "
        "e^(Re z) where |Im z| >= -Re z > 0. From one that turns more slowly it may take, as from z = -1/2 + i/4.",
        Equal(grown(-u, w), 1 - 2 * u + 2 * u**2 + (w**2 - u**2)),
        Less(exp(-2 * u), 1 - 2 * u + 2 * u**2, True, rising=(u,)),
        Fails(Less(exp(-1), grown(-S.Half, Rational(1, 4)))),
        mutation=changed("2 u^2 read as u^2", upper=1 - 2 * u + u**2),
        remark="z = -u + i w; |1 + z|^2 is the second statement's right side and w^2 - u^2, which is not negative",
    )
    yield own("result 19, never made stable").says(
        "|1 + z| < 1 implies Re z < 0: what is stable under Euler's step is stable in the field, and not conversely.",
        Less(S.One, grown(growing, w)),
        Fails(Less(grown(-u, w), S.One)),
        mutation=changed("Re z >= 0 read as Re z < 0", upper=grown(-u, w)),
        remark="the first statement says that |1 + z| >= 1 wherever Re z >= 0",
    )
    size, field = u**2 + w**2, 2 * u / (u**2 + w**2)
    yield own("result 19, stable steps").says(
        "With a = -u < 0 a mode is stable under Euler iff dt < 2 u/(u^2 + w^2): 1 - |1 + z|^2 has the sign of what is left.",
        Equal(1 - grown(-dt * u, dt * w), dt * size * (field - dt)),
        mutation=changed("2 u read as u", rhs=dt * size * (field / 2 - dt)),
        remark="at equality a multiplier of size 1, -1 for w = 0, a flip; else it turns. Result 3, mode, is this for u = 1 - a "
        "and the rate g",
    )
    sizes = {"euler": 1 + y**2, "heun": 1 + y**4 / 4, "midpoint": 1 + y**4 / 4}
    sizes["runge_kutta4"] = 1 - y**6 / 72 + y**8 / 576

    trapezoid = stability_function("trapezoid", I * y, S.Zero)
    R, other = Symbol("R(i y)"), Symbol("R(-i y)")  # its conjugate: R has real coefficients

    def square(name: str) -> dict[Expr, Expr]:
        return {R: stability_function(name, I * y, S.Zero), other: stability_function(name, -I * y, S.Zero)}

    yield own("result 19, imaginary axis").says(
        "On the imaginary axis |R(i y)|^2 is 1 + y^2 for Euler, 1 + y^4/4 for Heun and the midpoint rule, 1 - y^6/72 + y^8/576 "
        "for the classical Runge-Kutta step, 1 for the trapezoid.",
        *(Equal(R * other, size, square(name)) for name, size in sizes.items()),
        *(Equal(R * other, 1 + y**2 / 4, {R: part, other: part.subs(y, -y)}) for part in fraction(trapezoid)),
        mutation=Mutation("y^4/4 read as y^4/2", Equal(R * other, 1 + y**4 / 2, square("heun"))),
    )
    two = expand((1 + I * y - c * y**2) * (1 - I * y - c * y**2))
    yield own("result 19, two evaluations").says(
        "No polynomial of two evaluations, 1 + z + c z^2, has |R(i y)| = 1 for all y: at y = sqrt 2 all have more.",
        Equal(two, 1 + (1 - 2 * c) * y**2 + c**2 * y**4),
        Less(S.One, two.subs(y, sqrt(2)), True, rewritten=(2 * c - 1) ** 2 + 1),
        mutation=changed("more read as no more", lower=two.subs(y, sqrt(2)), upper=S.One, rewritten=None),
    )


def modified() -> Iterator[Entry]:
    """Result 19, of one unit: letters for F and its derivatives at h, x for the distance from there."""
    F, bends, x = Symbol("F", real=True), [Symbol("F" + "'" * n, real=True) for n in (1, 2, 3)], Symbol("x", real=True)
    rate = F + sum((bend * x**n / factorial(n) for n, bend in enumerate(bends, 1)), S.Zero)
    slope, curve = rate.diff(x), rate.diff(x, 2)

    def moved(field: Expr) -> Expr:
        """How far the field's flow moves in dt, to third order."""
        second = field.diff(x) * field
        third = second.diff(x) * field
        return (dt * field + dt**2 / 2 * second + dt**3 / 6 * third).subs(x, 0)

    first = rate - dt / 2 * slope * rate
    both = first + dt**2 * (curve * rate**2 / 12 + slope**2 * rate / 3)
    yield own("result 19, modified equation", sizes="1 unit").says(
        "Euler's step h + dt F is the flow of h' = F - (dt/2) F'F but for dt^3, and with dt^2 (F''F^2/12 + F'^2 F/3) more but "
        "for dt^4.",
        Expands(moved(first), dt, dt * F, 3),
        Expands(moved(both), dt, dt * F, 4),
        mutation=changed("F'F/2 left out", expression=moved(rate)),
        remark="so amplitude and frequency of a trained cycle are those of this equation, as far as dt is small",
    )


def noisy_classes() -> Iterator[tuple[SymbolicField, str]]:
    """Fields of one unit with noise, and what they absorb."""
    gated, leaky, sigma = fields.gated(1, 1), fields.leaky(1, 1), ImmutableDenseMatrix([Symbol("sigma", real=True)])
    (x,), (state,) = gated.inputs, gated.state
    of_gate = [gated.parameters[name][0] for name in ("W_gx", "W_gh", "b_g")]
    of_noise = symbols.biases("a", 3)

    def reading(letters: Sequence[Expr]) -> Expr:
        return letters[0] * x + letters[1] * state + letters[2]

    def driven(field: SymbolicField, noise: Expr, **further: ImmutableDenseMatrix) -> SymbolicField:
        return replace(field, diffusion=ImmutableDenseMatrix([noise]), parameters={**field.parameters, **further})

    yield driven(gated, sqrt(fields.sigma(reading(of_gate))) * sigma[0], sigma=sigma), WITHIN_UNIT
    yield driven(gated, exp(reading(of_noise)), a=of_noise), WITHIN_UNIT
    yield driven(gated, sigma[0], sigma=sigma), "rescaling that keeps its rates in (0, 1)"
    yield driven(leaky, sigma[0], sigma=sigma), RESCALING
    yield driven(gated, S.One), NONE


def warped() -> Iterator[Entry]:
    """Results 20 and 21: dh = F dt + B dW on a clock c of speed k > 0, and h(t - d)."""
    gate, G = Function("g", positive=True)(h), Symbol("G", real=True)
    noise, warped_gate = sqrt(gate) * G, Symbol("k g", positive=True)
    yield own("result 20, root of the gate", given="on a clock of speed k noise is multiplied by sqrt(k), drift by k").says(
        "Drift and noise that share one gate are not closed under warps unless the noise takes the gate's root: sqrt(k) times "
        "sqrt(g) is sqrt(k g), while sqrt(k) g is not k g.",
        Equal(sqrt(k) * sqrt(g) * G, sqrt(warped_gate) * G, {warped_gate: k * g}),
        Fails(Equal(sqrt(k) * g * G, k * g * G)),
        mutation=Mutation("the root left out", Equal(sqrt(k) * g * G, k * g * G)),
    )
    free = Function("B", real=True)(h)
    yield own("result 20, Ito and Stratonovich").says(
        "Ito's drift is Stratonovich's and B B'/2 more. On a clock that does not read h both get the speed as a factor; with "
        "the noise sqrt(g(h)) G, G constant, B B'/2 is G^2 g'/4.",
        Equal(sqrt(k) * free * Derivative(sqrt(k) * free, h) / 2, k * free * Derivative(free, h) / 2),
        Equal(noise * Derivative(noise, h) / 2, G**2 * Derivative(gate, h) / 4),
        mutation=changed("G^2 g'/4 read as G^2 g'/2", rhs=G**2 * Derivative(gate, h) / 2),
        remark="one unit",
    )

    density, drift = Function("p", real=True)(h), Function("F", real=True)(h)

    def moved(F: Expr, B: Expr) -> Expr:
        """The change of a density in time, by Fokker and Planck."""
        return -Derivative(F * density, h) + Derivative(B**2 * density, h, h) / 2

    clock, start = Function("c", real=True), Symbol("s", real=True)
    yield own("result 20, law", given="c increases and does not read what comes later").says(
        "Played on a clock of speed k = c', h(c(t)) has the law of drift k F and noise sqrt(k) B: W(c(t)) has the variation of "
        "sqrt(c') dW, the integral of c', and the density of h(c(t)) changes at k times the rate that F and B give it.",
        Equal(Derivative(clock(t) - clock(start), t), clock(t).diff(t)),
        Equal(moved(k * drift, sqrt(k) * free), k * moved(drift, free)),
        mutation=Mutation("sqrt(k) read as k", Equal(moved(k * drift, k * free), k * moved(drift, free))),
        remark="one unit; in Ito's calculus",
    )
    yield own("result 20, classes with noise", given="c' keeps the gates in (0, 1)", sizes="1 unit, 1 input").says(
        "Gated fields whose noise takes the gate's root absorb every warp; so do those with a gate of its own for the noise, of "
        "amplitude e^a. With a constant amplitude that is free they absorb clocks of constant speed, as leaky fields do, sigma "
        "becoming sqrt(c') sigma; with one that is not free, none.",
        *(Closes(field, group) for field, group in noisy_classes()),
        mutation=changed("every warp read as none", group=NONE),
    )

    def swaying(time: Expr) -> Expr:
        return time + sin(expand(2 * pi * time)) / 10

    yield own("result 21, delays", given="the clock is c(t) = k t + b with k > 0, or t + 0.1 sin(2 pi t)").says(
        "A delay d becomes delta = t - c^-1(c(t) - d): d/k on an affine clock, for every d. On t + 0.1 sin(2 pi t), whose "
        "period is 1, the delay 1/2 does not stay what it is.",
        Equal(k * (t - d / k) + b, (k * t + b) - d),
        Fails(Equal(swaying(t - S.Half), swaying(t) - S.Half)),
        mutation=changed("d/k read as d k", lhs=k * (t - d * k) + b),
        remark="delta constant for every d is c(t) - c(t - delta) = d at all t, so c' has every period delta: only affine c do",
    )


def slow_gates() -> Iterator[Entry]:
    """Result 22, its proved side."""
    G, bent = Symbol("G", positive=True), Symbol("tanh", real=True)
    step, slope = h + G * (tanh(b - v * h) - h), 1 - G - G * v * (1 - bent**2)
    yield own("result 22, monotone", given=("w = -v < 0", "G v <= 1 - G")).says(
        "h + G (tanh(w h + b) - h) rises in h, so that it is not chaotic, where G |w| <= 1 - G.",
        Equal(Derivative(step, h), slope.subs(bent, tanh(b - v * h))),
        Less(S.Zero, slope.subs(G, 1 / (1 + v + u)), True, rewritten=(u + v * bent**2) / (1 + v + u)),
        mutation=changed("1 - G read as 2 (1 - G)", upper=slope.subs(G, 1 / (1 + v / 2)), rewritten=None),
        remark="with G = 1/(1 + v + u), u > 0, which is every gate of G v < 1 - G; at equality it still does not fall",
    )
    q = Symbol("q", positive=True)
    fall = 1 - G - G * v * q
    yield own("result 22, falling", given=("w = -v < 0", "G >= 1")).says(
        "h + G (tanh(w h + b) - h) falls in h where G >= 1, so that it is not chaotic there either: only gates below 1 "
        "bring chaos to this unit.",
        Equal(Derivative(step, h), fall.subs(q, 1 - tanh(b - v * h) ** 2)),
        Less(fall.subs(G, 1 + u), S.Zero, True),
        Less(fall.subs(G, 1), S.Zero, True),
        mutation=changed("1 + u read as 1/(1 + u)", lower=fall.subs(G, 1 / (1 + u))),
        remark="q = 1 - tanh^2 > 0; what falls rises where it is taken twice",
    )
    turned = -step.subs(b, 0)
    yield own("result 22, no offset", given=("b = 0", "w = -v < 0", "G > 0")).says(
        "Without an offset the step f is odd, so that it does the same as -f where either is taken twice. -f rises in h at a "
        "rate above -1: no two states change places under it, and f is not chaotic.",
        Equal(step.subs({b: 0, h: -h}), turned),
        Equal(Derivative(turned, h), (G * v * q - 1 + G).subs(q, 1 - tanh(v * h) ** 2)),
        Less(-S.One, G * v * q - 1 + G, True),
        mutation=changed("above -1 read as above 0", lower=S.Zero),
        remark="q = 1 - tanh^2 > 0; with h added -f rises, so that f(f(h)) = h for f(h) = -h alone. A continuous map of an "
        "interval that exchanges no two states sends all of them to points of rest (Coppel 1955), which is not proved here",
    )


def rereading() -> Iterator[Entry]:
    """Result 23."""
    kept, slower = 1 / (1 + u), (1 - (1 - g) ** s) / (s * g)
    yield own("result 23, held", given=("the target is held", "0 < g < 1")).says(
        "s unit Euler steps and one exponential step of length s of the softplus clock both leave (1 - g)^s.",
        Equal(kept * kept**s, kept ** (s + 1)),
        Equal(exp(s * log(kept)), kept**s),
        mutation=Mutation("(1 - g)^s read as 1 - s g", Equal((1 - g) * (1 - s * g), 1 - (s + 1) * g)),
        remark="1 - g = 1/(1 + u); the rate of the gate g is -log(1 - g): result 1, gate as rate",
    )
    yield own("result 23, timed", given=("a mode that recurrence keeps", "0 < g < 1", "s >= 1")).says(
        "Where s unit steps advance by s g the exponential step does by 1 - (1 - g)^s, slower by (1 - (1 - g)^s)/(s g): for "
        "s = 2 by 1 - g/2, which is 0.75 at g = 1/2.",
        Equal(slower.subs(s, 2), 1 - g / 2),
        Equal(slower, Rational(3, 4), {s: S(2), g: S.Half}),
        Less(1 - (1 - g) ** (1 + u), (1 + u) * g, True, {g: (0, 1)}, rising=(g,)),
        mutation=changed("0.75 at g = 1/2 read as at g = 1", lhs=slower.subs({s: 2, g: S.One}), rhs=Rational(3, 4)),
        remark="s = 1 + u",
    )
