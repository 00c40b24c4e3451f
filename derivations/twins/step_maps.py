r"""One-step maps of a single unit, h' = F(h) = N(h) - L(h) h, with the input held over the step.

    phi_0(z) = e^z,   phi_k(z) = (phi_{k-1}(z) - 1/(k-1)!)/z,   phi_k(0) = 1/k!,   phi_k' = phi_k - k phi_{k+1}

Every map is a function of (F, L, h, dt): F and L take an expression and give one, and some maps do not ask for L. What a
map makes of h' = g (f - h), of h' = lambda h, and of any F in a short step, is asked of the map itself: no second table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from sympy import Abs, Dummy, Expr, Function, S, Symbol, exp, expand, factorial, simplify
from sympy.core.function import ArgumentIndexError

from derivations.prover import symbols

__all__ = ["MAPS", "phi", "induced_gate", "induced_factors", "stability_function", "local_error", "power_forgetting",
           "euler", "taylor2", "midpoint", "heun", "runge_kutta4", "exponential_euler", "etd2", "etd_rk4",
           "frozen_backward_euler", "frozen_trapezoid", "exponential_rosenbrock", "splitting", "strang_splitting",
           "fitted_midpoint", "backward_euler", "trapezoid", "backward_euler_residual", "trapezoid_residual"]  # fmt: skip

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

    def doit(self, **hints: Any) -> Expr:
        k, z = self.args
        z = z.doit(**hints)
        return (exp(z) - sum(z**j / factorial(j) for j in range(k))) / z**k if z != 0 else 1 / factorial(k)

    def _eval_evalf(self, prec: int) -> Expr:
        return self.doit()._eval_evalf(prec)

    def _latex(self, printer: Any, **hints: Any) -> Any:
        return printer._print(self._with_index(), **hints)

    def _mathml_presentation(self, printer: Any) -> Any:
        return printer._print(self._with_index())

    def _with_index(self) -> Expr:
        k, z = self.args
        return Function(f"phi_{k}")(z)


def euler(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt F(h)."""
    return h + dt * F(h)


def taylor2(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt F + dt^2/2 F' F."""
    return h + dt * F(h) + dt**2 / 2 * _slope(F, h) * F(h)


def midpoint(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt F(h + dt/2 F(h))."""
    return h + dt * F(h + dt / 2 * F(h))


def heun(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt/2 (F(h) + F(h + dt F(h))), the trapezoidal one of this name."""
    return h + dt / 2 * (F(h) + F(h + dt * F(h)))


def runge_kutta4(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """The classical one, of weights 1, 2, 2, 1."""
    first = F(h)
    second = F(h + dt / 2 * first)
    third = F(h + dt / 2 * second)
    fourth = F(h + dt * third)
    return h + dt / 6 * (first + 2 * second + 2 * third + fourth)


def exponential_euler(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt phi_1(-L dt) F(h)."""
    return h + dt * phi(1, -L(h) * dt) * F(h)


def etd2(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    r"""a + dt phi_2(-L dt) (N(a) - N(h)), a the exponential Euler step, N(u) = F(u) + L u with the L of the start.

    Source:  Cox and Matthews 2002, ETD2RK.
    """
    N, a = _held(F, L, h), exponential_euler(F, L, h, dt)
    return a + dt * phi(2, -L(h) * dt) * (N(a) - N(h))


def etd_rk4(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    r"""Three stages a, b, c and the step, in e^z, N and phi_k, and not in differences from h.

    Source:  Cox and Matthews 2002, ETD4RK, with phi_k in place of quotients.
    """
    N, z = _held(F, L, h), -L(h) * dt
    half, weight = exp(z / 2), dt / 2 * phi(1, z / 2)
    a = half * h + weight * N(h)
    b = half * h + weight * N(a)
    c = half * a + weight * (2 * N(b) - N(h))
    start = phi(1, z) - 3 * phi(2, z) + 4 * phi(3, z)
    middle, end = 2 * phi(2, z) - 4 * phi(3, z), 4 * phi(3, z) - phi(2, z)
    return exp(z) * h + dt * (start * N(h) + middle * (N(a) + N(b)) + end * N(c))


def fitted_midpoint(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt ((1 - w) F(h) + w F(h + dt/2 F(h))) with w = 2 phi_2(-L dt), which is 1 in the midpoint rule."""
    weight = 2 * phi(2, -L(h) * dt)
    return h + dt * ((1 - weight) * F(h) + weight * F(h + dt / 2 * F(h)))


def frozen_backward_euler(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt F(h)/(1 + L dt)."""
    return h + dt * F(h) / (1 + L(h) * dt)


def frozen_trapezoid(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt F(h)/(1 + L dt/2)."""
    return h + dt * F(h) / (1 + L(h) * dt / 2)


def exponential_rosenbrock(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """h + dt phi_1(F'(h) dt) F(h)."""
    return h + dt * phi(1, _slope(F, h) * dt) * F(h)


def splitting(F: Scalar, L: Scalar, h: Expr, dt: Expr, forgetting: Forgetting | None = None) -> Expr:
    """forgotten(h) + dt N(h): Lie's. Without `forgetting` the leak is one of a constant rate, e^(-L dt) h."""
    left = forgetting or _exponential(L)
    return left(h, h, dt) + dt * (F(h) + L(h) * h)


def strang_splitting(F: Scalar, L: Scalar, h: Expr, dt: Expr, forgetting: Forgetting | None = None) -> Expr:
    """Half a forgetting, all that drives, half a forgetting; rate and N those of a middle that half a Lie step gives."""
    left = forgetting or _exponential(L)
    middle = splitting(F, L, h, dt / 2, forgetting)
    driven = left(h, middle, dt / 2) + dt * (F(middle) + L(middle) * middle)
    return left(driven, middle, dt / 2)


def backward_euler(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """The u of u = h + dt F(u), for affine F."""
    return _solved(lambda u: backward_euler_residual(F, h, u, dt))


def trapezoid(F: Scalar, L: Scalar, h: Expr, dt: Expr) -> Expr:
    """The u of u = h + dt/2 (F(h) + F(u)), for affine F."""
    return _solved(lambda u: trapezoid_residual(F, h, u, dt))


def backward_euler_residual(F: Scalar, h: Expr, u: Expr, dt: Expr) -> Expr:
    """0 where u is the state after the step."""
    return u - h - dt * F(u)


def trapezoid_residual(F: Scalar, h: Expr, u: Expr, dt: Expr) -> Expr:
    """0 where u is the state after the step."""
    return u - h - dt / 2 * (F(h) + F(u))


MAPS: dict[str, Callable[[Scalar, Scalar, Expr, Expr], Expr]] = {
    step.__name__: step
    for step in (euler, taylor2, midpoint, heun, runge_kutta4, exponential_euler, etd2, etd_rk4, fitted_midpoint, backward_euler,
                 trapezoid, frozen_backward_euler, frozen_trapezoid, exponential_rosenbrock, splitting, strang_splitting)
}  # fmt: skip
RESIDUALS = {"backward_euler": backward_euler_residual, "trapezoid": trapezoid_residual}


def induced_factors(name: str, g: Expr = Symbol("g", positive=True)) -> tuple[Expr, Expr]:  # noqa: B008 - a letter
    r"""What one step makes of h' = g (f - h), f and g held, dt = 1: it keeps the first times h and writes the second times f.

    Source:  this project.
    """
    h, f = Dummy("h", real=True), Dummy("f", real=True)
    after = expand(MAPS[name](lambda u: g * (f - u), lambda u: g, h, S.One).doit())
    keeps, writes = (simplify(after.diff(letter)) for letter in (h, f))
    if keeps.has(h, f) or writes.has(h, f) or simplify(after.subs({h: 0, f: 0})) != 0:
        raise ValueError(f"{name} is not linear in h and f.")
    return keeps, writes


def induced_gate(name: str, g: Expr = Symbol("g", positive=True)) -> Expr:  # noqa: B008
    r"""G in h + G (f - h), what one step makes of h' = g (f - h), f and g held, dt = 1.

    Raises:  ValueError for the splittings, which do not write what they forget; see `induced_factors`.
    Source:  this project.
    """
    keeps, writes = induced_factors(name, g)
    if simplify(keeps + writes - 1) != 0:
        raise ValueError(f"{name} is no gate: it keeps {keeps} of h and writes {writes} of f.")
    return writes


def stability_function(name: str, z: Expr = Symbol("z"), leak: Expr = Symbol("l")) -> Expr:  # noqa: B008
    r"""R(z), what one step multiplies h by where h' = lambda h = (lambda + L) h - L h, with z = lambda dt and leak = L dt."""
    return MAPS[name](lambda u: z * u, lambda u: leak, S.One, S.One).doit()


@cache
def local_error(name: str, order: int) -> Expr:
    r"""Exact minus map, to the power dt^order, for any F and L: of these F, F', F'', ... and L, L', ... at h are the letters.

    F(u) is its Taylor series about h, cut where it cannot be seen below dt^(order + 1); so are all expressions on the way.

    Source:  this project.
    """
    dt, h = symbols.dt, Symbol("h", real=True)
    slopes = {letter: [Symbol(letter + "'" * k, real=True) for k in range(order + 1)] for letter in "FL"}

    def series(letter: str) -> Scalar:
        def taylor(u: Expr) -> Expr:
            coefficients = [slope / factorial(k) for k, slope in enumerate(slopes[letter])]
            return _composed(coefficients, _cut(u, dt, order) - h, dt)

        return taylor

    F = series("F")
    if name in RESIDUALS:
        # u = h + what the residual says, begun at h: each time one more power of dt is right.
        after = h
        for _ in range(order):
            after = _cut(after - RESIDUALS[name](F, h, after, dt), dt, order)
    else:
        after = _cut(MAPS[name](F, series("L"), h, dt), dt, order)
    exact, derivative = h, slopes["F"][0]
    for k in range(1, order + 1):
        exact += derivative * dt**k / factorial(k)
        along = zip(slopes["F"], slopes["F"][1:], strict=False)
        derivative = expand(sum(derivative.diff(slope) * steeper for slope, steeper in along) * slopes["F"][0])
    return expand(exact - after)


def power_forgetting(rate: Scalar, r: Expr) -> Forgetting:
    r"""The exact flow of -rate |h|^r h with the rate held: h (1 + r S |h|^r)^(-1/r), S = rate dt.

    Source:  Ohno and Kumagai 2021, eq. (20), with a rate.
    """
    return lambda h, at, dt: h * (1 + r * rate(at) * dt * Abs(h) ** r) ** (-1 / r)


def _exponential(L: Scalar) -> Forgetting:
    return lambda h, at, dt: exp(-L(at) * dt) * h


def _composed(coefficients: Sequence[Expr], z: Expr, dt: Symbol) -> Expr:
    """The power series of these coefficients at a z that is O(dt), as far as they determine it."""
    value = S.Zero
    for coefficient in reversed(coefficients):
        value = _cut(coefficient + z * value, dt, len(coefficients) - 1)
    return value


def _cut(e: Expr, dt: Symbol, order: int) -> Expr:
    """The Taylor polynomial in dt, dt^order included."""
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


def _held(F: Scalar, L: Scalar, h: Expr) -> Scalar:
    """N(u) = F(u) + L u with the L of the start of the step."""
    leak = L(h)
    return lambda u: F(u) + leak * u


def _slope(F: Scalar, h: Expr) -> Expr:
    u = Dummy("u", real=True)
    return F(u).diff(u).subs(u, h)


def _solved(residual: Scalar) -> Expr:
    u = Dummy("u", real=True)
    slope = expand(residual(u)).diff(u)
    if slope.has(u):
        raise ValueError("F is not affine: this implicit step has no closed form; use its residual.")
    return -residual(S.Zero) / slope
