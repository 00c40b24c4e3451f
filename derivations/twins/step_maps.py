r"""Reads one-step maps of a single unit, h' = F(h) = N(h) - L(h) h, with the input held over the step.

    phi_0(z) = e^z,   phi_k(z) = (phi_{k-1}(z) - 1/(k-1)!)/z,   phi_k(0) = 1/k!,   phi_k' = phi_k - k phi_{k+1}

and of dh = F dt + G dW, with the increments w = W(dt) - W(0) and z, the integral of W - W(0) over the step.

Every map is the `equation` of its class in `discretize`, read from its text. What a map makes of h' = g (f - h), of
h' = lambda h, and of any F in a short step, is asked of the map itself; what its class says of that is proved of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

from sympy import Abs, Dummy, Expr, Function, Poly, S, Symbol, exp, expand, factorial, factorial2, simplify, sqrt
from sympy.core.function import ArgumentIndexError

from derivations.prover import symbols
from derivations.twins.written import Equations

__all__ = [
    "StepMap",
    "StochasticMap",
    "dt",
    "expected",
    "expected_increment",
    "induced_factors",
    "induced_gate",
    "ito_taylor",
    "local_error",
    "maps",
    "missed",
    "phi",
    "power_forgetting",
    "read",
    "stability_function",
    "stationary_variance",
    "stochastic_maps",
    "w",
    "z",
]

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
        return self._after(F, L or (lambda u: S.Zero), h, dt, {}, forgetting)

    @property
    def is_implicit(self) -> bool:
        return "h'" in self.equation.partition(" = ")[2]

    @property
    def reads_leak(self) -> bool:
        """Return whether the equation asks for the leak L, for N = F + L h, or for what is left after forgetting."""
        return not {"L", "N", "forget"}.isdisjoint(re.findall(r"[A-Za-z]+", self.equation))

    def residual(self, F: Scalar, h: Expr, u: Expr, dt: Expr) -> Expr:
        """Return what is 0 if u is the state after an implicit step."""
        return u - self._after(F, lambda u: S.Zero, h, dt, {"h'": u})

    def _after(
        self,
        F: Scalar,
        L: Scalar,
        h: Expr,
        dt: Expr,
        known: dict[str, Expr],
        forgetting: Forgetting | None = None,
        G: Scalar = lambda u: S.Zero,
    ) -> Expr:
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
        return self._after(F, L, h, dt, {"w": w, "z": z}, G=G)


PHIS = {f"phi{k}": partial(phi, k) for k in (1, 2, 3)}


def read(text: str, **letters: Expr) -> Expr:
    """Read one of a class's texts as an expression, further lines defining its letters: read("1 - exp(-g)", g=g)."""
    return Equations(f"value = {text}", letters, PHIS)["value"]


@cache
def maps() -> dict[str, StepMap]:
    """Return the step maps of `discretize` that have an equation, by name: exponential_euler."""
    from discretize.steps.catalog import dashed, steps  # noqa: PLC0415 - loads torch

    found = {dashed(name).replace("-", "_"): kind for name, kind in steps().items() if kind.equation}
    return {name: StepMap(**_facts(StepMap, kind)) for name, kind in found.items()}


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


@cache
def local_error(name: str, order: int) -> Expr:
    r"""Expand the exact solution minus the map up to dt^order, in the letters F, F', F'', ... and L, L', ... at h.

    F(u) is its Taylor series about h, cut where it cannot be seen below dt^(order + 1); so are all expressions on the way.

    """
    dt, h = symbols.dt, Symbol("h", real=True)
    slopes = _slopes("F", order)
    F, step = _taylor(slopes, h, dt), maps()[name]
    if step.is_implicit:
        # u = h + what the residual says, begun at h: each time one more power of dt is right.
        after = h
        for _ in range(order):
            after = _cut(after - step.residual(F, h, after, dt), dt, order)
    else:
        after = _cut(step(F, _taylor(_slopes("L", order), h, dt), h, dt), dt, order)
    exact, derivative = h, slopes[0]
    for k in range(1, order + 1):
        exact += derivative * dt**k / factorial(k)
        derivative = expand(_derivative(derivative, slopes) * slopes[0])
    return expand(exact - after)


HALVES = 4  # of the powers of dt that are looked at, w being of dt^(1/2) and z of dt^(3/2)
dt, w, z = symbols.dt, Symbol("w", real=True), Symbol("z", real=True)


@cache
def missed(name: str, halves: int) -> Expr:
    r"""Expand the solution minus the map up to dt^(halves/2), at most 3, in w, z, dt and the letters F, G, F', G', ... at h.

    Where the limit of the map is Stratonovich's, F is the drift in that calculus.
    """
    return expand(ito_taylor(name, halves) - _map_taylor(name, halves))


def ito_taylor(name: str, halves: int) -> Expr:
    r"""Expand the solution that a map approximates up to dt^(halves/2), at most 3: iterated integrals of one Brownian motion.

    Source:  Kloeden and Platen 1992, sec. 5.5.
    """
    F, G, across, along = _operators(name)
    terms = [
        Symbol("h", real=True),
        G * w,
        F * dt + across(G) * (w**2 - dt) / 2,
        across(F) * z + along(G) * (w * dt - z) + across(across(G)) * (w**3 - 3 * w * dt) / 6,
    ]
    return expand(sum(terms[: halves + 1], S.Zero))


@cache
def expected_increment(name: str) -> tuple[Expr, Expr]:
    r"""Return E[h' - h] to dt^2, of the solution that a map approximates and of the map."""
    F, _, _, along = _operators(name)
    return F * dt + along(F) * dt**2 / 2, expected(_map_taylor(name, HALVES) - Symbol("h", real=True))


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
    """Return F and G of Ito's equation, G d/dh, and F d/dh + G^2/2 d^2/dh^2, in the letters of `missed`."""
    step = stochastic_maps()[name]
    slopes = [_slopes("F", HALVES), _slopes("G", HALVES) if step.of != "additive" else [Symbol("G", real=True)]]

    def derivative(e: Expr) -> Expr:
        return sum((_derivative(e, each) for each in slopes), S.Zero)

    (F, *_), (G, *_) = slopes
    if step.calculus == "Stratonovich":
        F += G * derivative(G) / 2
    return F, G, lambda e: G * derivative(e), lambda e: F * derivative(e) + G**2 / 2 * derivative(derivative(e))


def _map_taylor(name: str, halves: int) -> Expr:
    """Expand a map up to dt^(halves/2), by a letter whose square is of the size of dt."""
    size, h, step = Dummy("size", positive=True), Symbol("h", real=True), stochastic_maps()[name]
    slopes = {letter: _slopes(letter, halves) for letter in "FGL"}
    if step.of == "additive":
        slopes["G"] = slopes["G"][:1]
    F, G, L = (_taylor(each, h, size, halves) for each in slopes.values())
    after = step.driven(F, G, L, h, size**2 * dt, size * w, size**3 * z)
    return _cut(after, size, halves).subs(size, 1)


def _slopes(letter: str, order: int) -> list[Symbol]:
    return [Symbol(letter + "'" * k, real=True) for k in range(order + 1)]


def _taylor(slopes: Sequence[Symbol], h: Symbol, small: Symbol, order: int | None = None) -> Scalar:
    """The function with these derivatives at h, of what is h but for a power of a small letter."""
    order = len(slopes) - 1 if order is None else order
    coefficients = [slope / factorial(k) for k, slope in enumerate(slopes)] + [S.Zero] * (order + 1 - len(slopes))
    return lambda u: _composed(coefficients, _cut(u, small, order) - h, small)


def _derivative(e: Expr, slopes: Sequence[Symbol]) -> Expr:
    """The derivative in h of an expression in a function's derivatives at h."""
    return sum((e.diff(slope) * steeper for slope, steeper in pairwise(slopes)), S.Zero)


def power_forgetting(rate: Scalar, r: Expr) -> Forgetting:
    r"""The exact flow of -rate |h|^r h with the rate held: h (1 + r S |h|^r)^(-1/r), S = rate dt.

    Source:  Ohno and Kumagai 2021, eq. (20), with a rate.
    """
    return lambda h, at, dt: h * (1 + r * rate(at) * dt * Abs(h) ** r) ** (-1 / r)


def _composed(coefficients: Sequence[Expr], z: Expr, dt: Symbol) -> Expr:
    """Evaluate a truncated power series at a z that is O(dt)."""
    value = S.Zero
    for coefficient in reversed(coefficients):
        value = _cut(coefficient + z * value, dt, len(coefficients) - 1)
    return value


def _cut(e: Expr, dt: Symbol, order: int) -> Expr:
    """Return the Taylor polynomial in dt, dt^order included."""
    powers = range(order + 1)
    e = e.replace(phi, lambda k, z: _composed([1 / factorial(j + k) for j in powers], z, dt))
    e = e.replace(exp, lambda z: _composed([1 / factorial(j) for j in powers], z, dt))
    terms = S.Zero
    if e.is_polynomial(dt):
        e = expand(e)
        return sum((e.coeff(dt, k) * dt**k for k in range(order + 1)), terms)
    for k in range(order + 1):
        terms += e.subs(dt, 0) * dt**k / factorial(k)
        e = e.diff(dt) if k < order else e
    return expand(terms)


def _slope(F: Scalar, h: Expr) -> Expr:
    u = Dummy("u", real=True)
    return F(u).diff(u).subs(u, h)


def _solved(residual: Scalar) -> Expr:
    u = Dummy("u", real=True)
    slope = expand(residual(u)).diff(u)
    if slope.has(u):
        raise ValueError("F is not affine: this implicit step has no closed form; use its residual.")
    return -residual(S.Zero) / slope
