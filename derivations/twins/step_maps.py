r"""Reads one-step maps of a single unit, h' = F(h) = N(h) - L(h) h, with the input held over the step.

    phi_0(z) = e^z,   phi_k(z) = (phi_{k-1}(z) - 1/(k-1)!)/z,   phi_k(0) = 1/k!,   phi_k' = phi_k - k phi_{k+1}

and of dh = F dt + G dW, with the increments w = W(dt) - W(0) and z, the integral of W - W(0) over the step.

Every map is the `equation` of its class in `discretize`, read from its text. What a map makes of h' = g (f - h), of
h' = lambda h, and of any F in a short step, is asked of the map itself; what its class says of that is proved of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import product
from typing import Any, TypeAlias

from sympy import (
    Abs,
    Derivative,
    Dummy,
    Expr,
    Function,
    Poly,
    Rational,
    S,
    Symbol,
    exp,
    expand,
    factor,
    factorial,
    factorial2,
    simplify,
    sqrt,
)
from sympy.core.function import ArgumentIndexError

from derivations.prover import symbols
from derivations.twins.written import Equations

__all__ = [
    "MEAN",
    "StepMap",
    "StochasticMap",
    "dt",
    "expected",
    "expected_increment",
    "h",
    "induced_factors",
    "induced_gate",
    "in_s",
    "leading_error",
    "local_error",
    "maps",
    "missed",
    "phi",
    "noisy",
    "power_forgetting",
    "read",
    "s",
    "slopes",
    "stability_function",
    "stationary_variance",
    "stochastic_maps",
    "w",
    "z",
]

dt, h, w, z = symbols.dt, *(Symbol(name, real=True) for name in "hwz")
s, G_0 = Symbol("s", real=True), Symbol("G", real=True)
STEEPEST = 4  # derivatives of F that a leading term holds
# Values with the moments of a normal variable of variance 1 up to the fifth, and their weights.
MEAN = {S.Zero: Rational(2, 3), sqrt(3): Rational(1, 6), -sqrt(3): Rational(1, 6)}
Scalar: TypeAlias = Callable[[Expr], Expr]
# What is left of h after dt of the leak alone, at the rate of another state: (h, at, dt).
Forgetting: TypeAlias = Callable[[Expr, Expr, Expr], Expr]


class phi(Function):  # noqa: N801 - SymPy's functions are classes, and print under their names
    r"""phi(k, z): known at z = 0, differentiated in z without a quotient, and written by e^z when asked (`doit`).

    Source:  Hochbruck and Ostermann 2010, "Exponential integrators".
    """

    nargs = 2

    @classmethod
    def eval(cls, k: Expr, z: Expr) -> Expr | None:
        if k == 0:
            return exp(z)
        return 1 / factorial(k) if z == 0 else None

    def fdiff(self, argindex: int = 2) -> Expr:
        if argindex != 2:
            raise ArgumentIndexError(self, argindex)
        k, z = self.args
        return phi(k, z) - k * phi(k + 1, z)

    def doit(self, **hints: object) -> Expr:
        k, z = self.args
        z = z.doit(**hints)
        return (exp(z) - sum(z**j / factorial(j) for j in range(k))) / z**k if z != 0 else 1 / factorial(k)

    def _eval_evalf(self, prec: int) -> Expr:
        return self.doit()._eval_evalf(prec)

    def _latex(self, printer: Any, **hints: object) -> Any:
        return printer._print(self._with_index(), **hints)

    def _mathml_presentation(self, printer: Any) -> Any:
        return printer._print(self._with_index())

    def _with_index(self) -> Expr:
        k, z = self.args
        return Function(f"phi_{k}")(z)


@dataclass(frozen=True)
class StepMap:
    """A step map of one unit, read from the texts of its class.

    Called with (F, L, h, dt) it gives the state after the step; F and L take an expression and give one. `forgetting` takes the
    place of the exponential of the leak in the splittings.
    """

    title: str
    order: int
    equation: str
    gate: str
    keeps_and_writes: tuple[str, str] | None
    factor: str
    error: str

    def __call__(self, F: Scalar, L: Scalar | None, h: Expr, dt: Expr, forgetting: Forgetting | None = None) -> Expr:
        if self.is_implicit:
            return _solved(lambda u: self.residual(F, h, u, dt))
        return self.after(F, L or (lambda u: S.Zero), h, dt, {}, forgetting)

    @property
    def is_implicit(self) -> bool:
        return "h'" in self.equation.partition(" = ")[2]

    def residual(self, F: Scalar, h: Expr, u: Expr, dt: Expr) -> Expr:
        """Return what is 0 if u is the state after an implicit step."""
        return u - self.after(F, lambda u: S.Zero, h, dt, {"h'": u})

    def after(
        self,
        F: Scalar,
        L: Scalar,
        h: Expr,
        dt: Expr,
        known: dict[str, Expr],
        forgetting: Forgetting | None = None,
        G: Scalar = lambda u: S.Zero,
    ) -> Expr:
        """Return the right side of the equation, at the values that are known: h' of an implicit one."""
        leak = L(h)
        functions: dict[str, Callable[..., Expr]] = {
            "F": F,
            "F'": lambda u: _slope(F, u),
            "L": L,
            "N": lambda u: F(u) + leak * u,
            "forget": forgetting or (lambda h, at, dt: exp(-L(at) * dt) * h),
            "G": G,
            "G'": lambda u: _slope(G, u),
            **PHIS,
        }
        known = {"h": h, "dt": dt, "L": leak, "G": G(h), **known}
        return Equations(self.equation.replace("h'", "next", 1), known, functions)["next"]


@dataclass(frozen=True)
class StochasticMap(StepMap):
    """A step map for noise: `driven` takes G and the increments too."""

    calculus: str
    strong_order: float
    variance: str
    of: str

    def driven(self, F: Scalar, G: Scalar, L: Scalar, h: Expr, dt: Expr, w: Expr, z: Expr) -> Expr:
        """Return the state after a step with the increments w and z."""
        return self.after(F, L, h, dt, {"w": w, "z": z}, G=G)


PHIS = {f"phi{k}": partial(phi, k) for k in (1, 2, 3)}


def read(text: str, **letters: Expr) -> Expr:
    """Read one of a class's texts as an expression, further lines defining its letters: read("1 - exp(-g)", g=g)."""
    return Equations(f"value = {text}", letters, PHIS)["value"]


@cache
def maps() -> dict[str, StepMap]:
    """Return the step maps of `discretize` that have an equation, by name: exponential_euler."""
    from discretize.steps.catalog import dashed, steps  # noqa: PLC0415 - loads torch

    kinds = {dashed(name).replace("-", "_"): kind for name, kind in steps().items() if kind.equation}
    return {name: StepMap(**_facts(StepMap, kind)) for name, kind in kinds.items()}


@cache
def stochastic_maps() -> dict[str, StochasticMap]:
    """Return the step maps for noise by the names of their classes: EulerMaruyama."""
    from discretize.steps.catalog import stochastic_steps  # noqa: PLC0415 - loads torch

    return {name: StochasticMap(**_facts(StochasticMap, kind)) for name, kind in stochastic_steps().items()}


def _facts(of: type[StepMap], kind: type) -> dict[str, Any]:
    return {fact.name: getattr(kind, fact.name) for fact in fields(of)}


def induced_factors(name: str, g: Expr = Symbol("g", positive=True)) -> tuple[Expr, Expr]:  # noqa: B008 - a letter
    r"""Return (keeps, writes): one step of h' = g (f - h), f and g held, dt = 1, gives keeps * h + writes * f."""
    h, f = Dummy("h", real=True), Dummy("f", real=True)
    after = expand(maps()[name](lambda u: g * (f - u), lambda u: g, h, S.One).doit())
    keeps, writes = (simplify(after.diff(letter)) for letter in (h, f))
    if keeps.has(h, f) or writes.has(h, f) or simplify(after.subs({h: 0, f: 0})) != 0:
        raise ValueError(f"{name} is not linear in h and f.")
    return keeps, writes


def induced_gate(name: str, g: Expr = Symbol("g", positive=True)) -> Expr:  # noqa: B008
    r"""Return the gate G: one step of h' = g (f - h), f and g held, dt = 1, gives h + G (f - h).

    Raises:  ValueError for the splittings, which do not write what they forget; see `induced_factors`.
    """
    keeps, writes = induced_factors(name, g)
    if simplify(keeps + writes - 1) != 0:
        raise ValueError(f"{name} is no gate: it keeps {keeps} of h and writes {writes} of f.")
    return writes


def stability_function(name: str, z: Expr = Symbol("z"), leak: Expr = Symbol("l")) -> Expr:  # noqa: B008
    r"""Return R(z), the factor of one step on h' = lambda h = (lambda + L) h - L h, with z = lambda dt and leak = L dt."""
    return maps()[name](lambda u: z * u, lambda u: leak, S.One, S.One).doit()


def local_error(name: str) -> tuple[Expr, Expr]:
    r"""Return the exact solution minus the map, and its leading term as the class has it, of any F(h) and L(h).

    Nothing is expanded here. Of an implicit map it is what is left of its equation when the solution is put in for h', which
    differs from the solution minus the map by one power of dt more.
    """
    return _missed_by(name).doit(), read(maps()[name].error, h=h, dt=dt, **slopes("F"), **slopes("L"))


def leading_error(name: str) -> Expr:
    """Compute from a map's equation the term in dt^(order + 1) that its class has as `error`: -F (F F' F'' - F'^3)/24 * dt^4."""
    missed, power = _missed_by(name), maps()[name].order + 1
    for _ in range(power):
        missed = missed.diff(dt)
    letters = {value: Symbol(letter) for each in "FL" for letter, value in slopes(each).items()}
    return dt**power * factor(expand(missed.subs(dt, 0).doit()).subs(letters) / factorial(power))


def _missed_by(name: str) -> Expr:
    made, exact = maps()[name], lie_series(maps()[name].order + 1)
    F, L = (Function(letter, real=True) for letter in "FL")
    return exact - made.after(F, L, h, dt, {"h'": exact} if made.is_implicit else {})


def lie_series(order: int) -> Expr:
    """Return h(dt) of h' = F(h), h(0) = h, up to dt^order: h^(k) = (F d/dh)^k h, derivatives not taken."""
    F, total, derivative = slopes("F")["F"], h, h
    for k in range(1, order + 1):
        derivative = F * Derivative(derivative, h) if k > 1 else F
        total += derivative * dt**k / factorial(k)
    return total


def slopes(letter: str) -> dict[str, Expr]:
    """Return F(h), F'(h), ... by the names that texts have for them, F, F', ..."""
    whole = Function(letter, real=True)(h)
    return {letter + "'" * k: Derivative(whole, (h, k)) if k else whole for k in range(STEEPEST + 1)}


def missed(name: str, halves: int) -> Expr:
    r"""Return the solution, up to dt^(halves/2), at most 3, minus the map, for s = sqrt(dt), w and z in units of s and s^3.

    Nothing is expanded here. Where the limit of the map is Stratonovich's, F is the drift in that calculus.

    Source:  Kloeden and Platen 1992, sec. 5.5: iterated integrals of one Brownian motion.
    """
    F, G, across, along = _operators(name)
    terms = [
        h,
        G * w,
        F * dt + across(G) * (w**2 - dt) / 2,
        across(F) * z + along(G) * (w * dt - z) + across(across(G)) * (w**3 - 3 * w * dt) / 6,
    ]
    return in_s(sum(terms[: halves + 1])) - noisy(name, w, z)


def expected_increment(name: str) -> tuple[Expr, Expr]:
    r"""Return the mean of the solution that a map approximates, up to s^4 = dt^2, and that of the map.

    Of the map it is the mean over values with a normal's moments up to the fifth, see `MEAN`: right up to s^4, of any F, G and L.
    """
    F, _, _, along = _operators(name)
    reads_integral = "z" in re.findall(r"\w+", stochastic_maps()[name].equation)
    others = MEAN if reads_integral else {S.Zero: S.One}
    after = [p * q * noisy(name, x, x / 2 + y / (2 * sqrt(3))) for (x, p), (y, q) in product(MEAN.items(), others.items())]
    return in_s(h + F * dt + along(F) * dt**2 / 2), sum(after)


def noisy(name: str, w: Expr, z: Expr) -> Expr:
    """Return the state after a step of dt = s^2 with the increments s w and s^3 z, of any F(h), G(h) and L(h)."""
    made = stochastic_maps()[name]
    F, G, L = (Function(letter, real=True) for letter in "FGL")
    return made.driven(F, (lambda _: G_0) if made.of == "additive" else G, L, h, s**2, s * w, s**3 * z).doit()


def in_s(e: Expr) -> Expr:
    """Write an expression in dt, w and z by s = sqrt(dt), w and z in units of s and s^3."""
    return e.subs({dt: s**2, w: s * w, z: s**3 * z}, simultaneous=True)


def expected(e: Expr) -> Expr:
    """Return the mean of a polynomial in w and z: z = w dt/2 + n, with n normal, of variance dt^3/12, and independent of w."""
    n = Dummy("n")
    terms = Poly(e.subs(z, w * dt / 2 + n), w, n).terms() if e.has(w, z) else [((0, 0), e)]
    even = [(i, j, c) for (i, j), c in terms if i % 2 == j % 2 == 0]
    return expand(
        sum((c * dt ** (i // 2) * (dt**3 / 12) ** (j // 2) * factorial2(i - 1) * factorial2(j - 1) for i, j, c in even), S.Zero)
    )


def stationary_variance(name: str) -> tuple[Expr, Expr]:
    r"""Return (R, s): a step of dh = -h dt + sqrt(2) dW, whose variance at rest is 1, takes a variance v to R^2 v + s."""
    h = Symbol("h", real=True)
    after = stochastic_maps()[name].driven(lambda u: -u, lambda u: sqrt(2), lambda u: S.One, h, dt, w, z).doit()
    kept = simplify(after.diff(h))
    return kept, simplify(expected(expand((after - kept * h) ** 2)))


def _operators(name: str) -> tuple[Expr, Expr, Scalar, Scalar]:
    """Return F and G of Ito's equation, G d/dh, and F d/dh + G^2/2 d^2/dh^2, derivatives not taken."""
    made = stochastic_maps()[name]
    F, G = slopes("F")["F"], G_0 if made.of == "additive" else slopes("G")["G"]
    if made.calculus == "Stratonovich":
        F += G * Derivative(G, h) / 2
    return F, G, lambda e: G * Derivative(e, h), lambda e: F * Derivative(e, h) + G**2 / 2 * Derivative(e, (h, 2))


def power_forgetting(rate: Scalar, r: Expr) -> Forgetting:
    r"""The exact flow of -rate |h|^r h with the rate held: h (1 + r S |h|^r)^(-1/r), S = rate dt.

    Source:  Ohno and Kumagai 2021, eq. (20), with a rate.
    """
    return lambda h, at, dt: h * (1 + r * rate(at) * dt * Abs(h) ** r) ** (-1 / r)


def _slope(F: Scalar, h: Expr) -> Expr:
    u = Dummy("u", real=True)
    return F(u).diff(u).subs(u, h)


def _solved(residual: Scalar) -> Expr:
    u = Dummy("u", real=True)
    slope = expand(residual(u)).diff(u)
    if slope.has(u):
        raise ValueError("F is not affine: this implicit step has no closed form; use its residual.")
    return -residual(S.Zero) / slope
