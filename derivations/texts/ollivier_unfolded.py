r"""Ollivier 2013, sections 3.3 to 3.5: the metrics of the time-unfolded network.

d log Pr/d tau^t_jiy = 1[y = x_{t-1}] a_j^{t-1} B_i^t        exactly, for three steps of GLNNs and GNNs        (22), (25), (54)
modulus               m_i^t = sum over paths from (i, t) of the squares of their slopes, times the variance at their end  (61)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from sympy import Expr, Function, S, Symbol, exp, log, sqrt, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, changed
from derivations.texts.ollivier_invariance import letters, paper, symmetric

__all__ = ["paper", "TIMES", "UNITS", "eps", "eta", "link", "moduli_of", "real", "source", "total"]

UNITS, SYMBOLS, TIMES, WORD = (1, 2), (0, 1), (0, 1, 2), (0, 0, 1)
eta, eps = Symbol("eta", positive=True), Symbol("epsilon", positive=True)


def real(*names: str) -> tuple[Symbol, ...]:
    return tuple(Symbol(name, real=True) for name in names)


def total(terms: Iterator[Expr]) -> Expr:
    return sum(terms, S.Zero)


class Slope(Function):
    """s'(V)."""


class Activation(Function):
    """s(V), of which nothing is known but its slope."""

    def fdiff(self, argindex: int = 1) -> Expr:
        return Slope(self.args[0])


def weight(i: int, y: int) -> Symbol:
    return Symbol(f"w_{{{i}{'ab'[y]}}}", real=True)


def dummy(i: int, j: int, t: int) -> Symbol:
    """tau^t_ij x_{t-1}: the parameter that V_j at time t uses, and nothing else does."""
    return Symbol(f"tau^{t}_{{{i}{j}}}", real=True)


def chi(t: int) -> Symbol:
    return Symbol(f"chi_{t}", real=True)


def share(y: int, t: int) -> Expr:
    p = Symbol(f"pi^{t}", positive=True)
    return (p, 1 - p)[y]


def active(i: int, t: int) -> Expr:
    return Symbol(f"a^{t}_{i}", real=True) if i else S.One


def steepness(i: int, t: int) -> Symbol:
    return Symbol(f"s^{t}_{i}", real=True)


class Unfolded:
    """Two units and the one always on, the word aab, a time-unfolded network with parameters of its own at each time."""

    def __init__(self, leaky: bool) -> None:
        self.leaky = leaky
        V = [{i: Symbol(f"V_{i}", real=True) for i in UNITS}]
        for t in TIMES[1:]:
            before: dict[int, Expr] = {0: S.One, **{i: Activation(V[-1][i]) for i in UNITS}}
            V.append({j: int(leaky) * V[-1][j] + total(dummy(i, j, t) * before[i] for i in before) for j in UNITS})
        self.V = V
        self.gain = total(chi(t) * (self.energy(WORD[t], t) - log(total(exp(self.energy(y, t)) for y in SYMBOLS))) for t in TIMES)

    def energy(self, y: int, t: int) -> Expr:
        return weight(0, y) + total(weight(i, y) * Activation(self.V[t][i]) for i in UNITS)

    def slope(self, of: Symbol) -> Expr:
        """d(sum chi log pi)/d of, exactly, then in letters: a for s(V), s for s'(V), pi for the softmax."""
        e = self.gain.diff(of)
        for t in reversed(TIMES):
            e = e.xreplace(
                {
                    value: letter
                    for i, V in self.V[t].items()
                    for value, letter in ((Activation(V), active(i, t)), (Slope(V), steepness(i, t)))
                }
            )
        energies = {
            exp(weight(0, y) + total(weight(i, y) * active(i, t) for i in UNITS)): share(y, t) for t in TIMES for y in SYMBOLS
        }
        return e.xreplace(energies)

    def backward(self) -> dict[tuple[int, int], Expr]:
        """B_i^t by (22), without its leak for GNNs."""
        B: dict[tuple[int, int], Expr] = {(i, len(TIMES)): S.Zero for i in UNITS}
        for t in reversed(TIMES):
            for i in UNITS:
                told = weight(i, WORD[t]) - total(share(y, t) * weight(i, y) for y in SYMBOLS)
                passed = total(dummy(i, j, t + 1) * B[j, t + 1] for j in UNITS)
                B[i, t] = int(self.leaky) * B[i, t + 1] + steepness(i, t) * (chi(t) * told + passed)
        return B


def dummies() -> Iterator[Entry]:
    """(22), (25) and (54) to (56) by differentiating the network itself."""
    for leaky, name in ((True, "GLNNs"), (False, "GNNs")):
        net = Unfolded(leaky)
        B = net.backward()
        pairs = [(i, j, t) for t in TIMES[1:] for j in UNITS for i in (0, 1, 2)]
        exact = Matrix([net.slope(dummy(i, j, t)) for i, j, t in pairs])
        printed = Matrix([active(i, t - 1) * B[j, t] for i, j, t in pairs])
        late = Matrix([active(i, t) * B[j, t] for i, j, t in pairs])
        quote = "The same expression holds for GNNs (but B has a different expression)"
        yield paper(f"eq. 54, three steps of {name}", sizes="2 units beside unit 0, 2 symbols, the word aab").says(
            f"For {name} the derivative of the log-likelihood in the dummy parameter tau^t_ji is a_j^(t-1) B_i^t with B from "
            "(22), so that the metric (55) is (56) and the gradient (25): a at t goes with B at t + 1.",
            Equal(exact, printed),
            Equal(Matrix([net.slope(net.V[0][i]) for i in UNITS]), Matrix([B[i, 0] for i in UNITS])),
            mutation=changed("a at t with B at t", rhs=late),
            remark="any activation function, with chi_t; differentiated as it stands, B then computed by (22)"
            + ("" if leaky else " without the first term: V does not leak"),
            quote="For GLNNs, this results in the expression given in the algorithm of Section 2" if leaky else quote,
        )
    net = Unfolded(True)
    B, moves = net.backward(), {t: Symbol(f"dtau^{t}", real=True) for t in (*TIMES, len(TIMES))}
    length = total((net.slope(dummy(1, 1, t)) * moves[t]) ** 2 for t in TIMES[1:])

    def summed(later: int) -> Expr:
        """(56) for one weight, the time of the change written `later` than that of the activity."""
        return total((B[1, t + 1] * active(1, t) * moves[t + later]) ** 2 for t in TIMES)

    yield paper("eq. 56, times").says(
        "The RUOP metric is sum_t B_i(t+1)^2 a_j^t a_j'^t dtau^t dtau^t, of changes at time t.",
        Equal(length, summed(0)),
        correction=Correction(
            "Of changes of the parameters used at t + 1, dtau^(t+1), or without the time, as (68) has it.",
            Equal(length, summed(1)),
        ),
        remark="the weight of unit 1 on itself in the word aab; V at t uses the dummy tau^t and the activity of t - 1",
        quote=r"\sum_{j,j^{\prime}}\sum_{t}(B^{t+1}_{i})^{2}a^{t}_{j}a^{t}_{j^{\prime}}% \hskip 0.5pt\delta\hskip-0.5pt\tau^{t}",
    )


def sums_of_squares() -> Iterator[Entry]:
    """Remark 10: the outer product metric and the recurrent one."""
    both = [dummy(1, 2, t) for t in TIMES[1:]]
    net = Unfolded(True)
    common = Symbol("tau_{12}", real=True)
    shared = net.gain.subs(dict.fromkeys(both, common)).diff(common)
    parts = [net.gain.diff(u).subs(dict.fromkeys(both, common)) for u in both]
    yield paper("remark 10, sum of squares", sizes="2 units, 3 steps").says(
        "The derivative in a parameter is the sum over time of those in its dummies, so the outer product metric is the square "
        "of a sum and the recurrent one the sum of squares: they differ.",
        Equal(shared, parts[0] + parts[1]),
        Fails(Equal((letters("D", 2)[0] + letters("D", 2)[1]) ** 2, total(each**2 for each in letters("D", 2)))),
        mutation=Mutation(
            "the sum of squares read as the square of the sum",
            Equal((letters("D", 2)[0] + letters("D", 2)[1]) ** 2, total(each**2 for each in letters("D", 2))),
        ),
        remark="D the derivatives in the dummies",
        quote="one is a time sum of outer product squares, the other is the outer product square of a time sum",
    )
    D = Matrix(3, 3, lambda t, s: Symbol(f"D_{{{t}{s}}}", real=True) if s <= t else S.Zero)
    rows = total(total(D[t, s] for s in range(3)) ** 2 for t in range(3))
    columns = total(total(D[t, s] for t in range(3)) ** 2 for s in range(3))
    yield paper("remark 10, another metric", sizes="1 parameter, 3 steps").says(
        "The metric sum_t (d log pi_t(x_t)/d theta)^2 is not the recurrent outer product metric sum_t (d log Pr/d theta^t)^2.",
        Fails(Equal(rows, columns)),
        mutation=Mutation("for one time only read as for all times", Equal(rows, columns)),
        remark="D_ts the effect of theta^s on log pi_t: squares of the sums of rows, and of columns",
        quote="These are generally different. Computing all partial derivatives",
    )
    right, wrong = ([Symbol(f"pi_{k}(x_{t})", positive=True) for t, k in enumerate(index)] for index in ((0, 1), ("x", "x")))
    joint = Symbol("P(x_0)", positive=True), Symbol("P(x_0x_1)", positive=True)
    by_time = {right[0]: joint[0], right[1]: joint[1] / joint[0]}
    yield paper("remark 10, index").says(
        "log Pr(x) decomposes into the sum of the log pi_x(x_t), whose squares make another metric.",
        Equal(log(joint[1]), total(log(each) for each in wrong)),
        correction=Correction(
            "Into the log pi_t(x_t): the distributions are those of the times.",
            Equal(log(joint[1]), total(log(each.subs(by_time)) for each in right)),
        ),
        remark="two steps; printed twice, and right in the decomposition before",
        quote=r"Computing all partial derivatives \frac{\partial\log\pi_{x}(x_{t})}{\partial\theta} for all t and \theta",
    )
    v, u, entries = letters("v", 2), letters("u", 2), Matrix(2, 2, lambda i, k: Symbol(f"M_{{{i}{k}}}", real=True))
    at_once = Matrix(4, 4, lambda r, k: v[r] * v[k] if r < 2 and k < 2 else u[r - 2] * u[k - 2] if r > 1 and k > 1 else S.Zero)
    yield paper("remark 10, T matrices").says(
        "On a sequence of length T the recurrent unitwise outer product metric is a sum of T matrices of rank 1.",
        Equal(at_once.extract([0, 2], [0, 2]).det(), S.Zero),
        reading=Correction(
            "For the incoming parameters of one unit; for all it has a block of rank 1 for each unit.",
            Equal(entries.det(), S.Zero, dict(zip(entries, v * v.T, strict=True))),
        ),
        remark="two units with two parameters each, one time: a minor with a parameter of each unit; the last of the T is 0, "
        "since B^T = 0",
        quote="the recurrent UOP metric is a sum of T matrices of rank 1",
    )


def averages() -> Iterator[Entry]:
    """Remark 8, and the order of the updates."""
    first, second = symmetric("M^1", 2), symmetric("M^2", 2)
    slopes = letters("g^1", 2) + letters("g^2", 2)
    yield paper("remark 8, average").says(
        "For several training sequences the metrics are averaged, and section 2 says summed.",
        Equal((first + second) * (((first + second) / 2).inv() * slopes), slopes),
        reading=Correction(
            "Either, if the gradients are treated alike: with summed gradients averages make the step "
            "as many times larger as there are sequences.",
            Equal((first + second) * (((first + second) / 2).inv() * slopes), 2 * slopes),
            Equal((first + second) * (((first + second) / 2).inv() * (slopes / 2)), slopes),
        ),
        remark="two sequences; section 2: simply by summing the gradients and the metrics over the training examples",
        quote="and then define a metric by averaging the square norm",
    )
    B_start, m_start = Unfolded(True).backward(), moduli_of(source)
    no_output = {source(i, t): S.Zero for i in UNITS for t in TIMES}
    silent = {weight(i, y): S.Zero for i in UNITS for y in SYMBOLS}
    yield paper("sec. 2, order of the updates", sizes="2 units, 3 steps").says(
        "It is important to start with the writing weights, otherwise the metric at startup may be singular: with w_iy = 0 for "
        "all units both metrics on the transition weights are 0.",
        Equal(Matrix([*B_start.values()]), zeros(len(B_start), 1), silent),
        Equal(Matrix([*m_start.values()]), zeros(len(m_start), 1), no_output),
        mutation=Mutation(
            "w_1a not 0",
            Equal(
                Matrix([each.subs({k: v for k, v in silent.items() if k != weight(1, 0)}) for each in B_start.values()]),
                zeros(len(B_start), 1),
            ),
        ),
        remark="not only singular, but 0; with the dampening of step 4 they are epsilon, and the first step is 0",
        quote="It is important to start with an update of w_{ix}, otherwise the metric at startup may be singular",
    )


def moduli_of(source: Any) -> dict[tuple[int, int], Expr]:
    """(61): a source at each time, and the squares of slopes to the next."""
    m: dict[tuple[int, int], Expr] = {(i, len(TIMES)): S.Zero for i in UNITS}
    for t in reversed(TIMES):
        for i in UNITS:
            m[i, t] = source(i, t) + total(link(i, j, t) ** 2 * m[j, t + 1] for j in UNITS)
    return m


def link(i: int, j: int, t: int) -> Symbol:
    """da_j^{t+1}/da_i^t."""
    return Symbol(f"J^{t}_{{{i}{j}}}", real=True)


def source(i: int, t: int) -> Symbol:
    """The pi_t-variance of w_iy."""
    return Symbol(f"v^{t}_{i}", nonnegative=True)


def moduli() -> Iterator[Entry]:
    """Section 3.5."""
    ours = moduli_of(source)[1, 0]
    by_path, by_end = S.Zero, S.Zero
    for length in range(len(TIMES)):
        ends: dict[int, Expr] = {}
        for path in product(UNITS, repeat=length):
            along: Expr = S.One
            for t, (i, j) in enumerate(zip((1, *path), path, strict=False)):
                along *= link(i, j, t)
            end = (1, *path)[-1]
            by_path += along**2 * source(end, length)
            ends[end] = ends.get(end, S.Zero) + along
        by_end += total(effect**2 * source(end, length) for end, effect in ends.items())
    yield paper("eq. 61, paths", sizes="2 units, 3 steps").says(
        "The modulus is the sum over all paths through the time-unfolded network of the square of "
        "the path's slope times the variance at its end.",
        Equal(ours, by_path),
        mutation=changed("the sum of squares over paths read as the square of the sum over paths to each end", rhs=by_end),
        remark="what (58) amounts to: effects along different paths are not added up "
        "before they are squared, as in the natural metric",
        quote=r"as the sum \sum_{j,\,i\to j}\left\|\hskip 0.5pt\delta\hskip-0.5pta_{j}\right\|_",
    )
    pi, w = Symbol("pi", positive=True), real("w_a", "w_b")
    variance = pi * w[0] ** 2 + (1 - pi) * w[1] ** 2 - (pi * w[0] + (1 - pi) * w[1]) ** 2
    yield paper("eq. 60, positive").says(
        "The backpropagated modulus of a unit is a positive number.",
        Less(S.Zero, variance.subs(w[1], w[0]), True),
        correction=Correction(
            "It is not negative. It is 0 at the last time if w_iy is the same for all y, "
            "and at all times if the unit reaches no other.",
            Equal(variance, pi * (1 - pi) * (w[0] - w[1]) ** 2),
            Equal(variance.subs(w[1], w[0]), S.Zero),
            Less(S.Zero, pi * (1 - pi) * (w[0] - w[1]) ** 2, region={pi: (0, 1)}, rewritten=pi * (1 - pi) * (w[0] - w[1]) ** 2),
        ),
        remark="the modulus at t = T - 1, for two symbols; so it is before the first "
        "update of w, which Section 2 therefore puts first",
        quote="for some positive number m_{i}^{t}, the backpropagated modulus [Oll13]",
    )
    m, da, change = (Symbol(name, positive=True) for name in ("m", "da", "d"))
    yield paper("eq. 62, norm").says(
        "The norm |da| itself, not its square, is m (da)^2.",
        Equal(sqrt(m * da**2), m * da**2),
        correction=Correction(
            "|da|^2 = m (da)^2, as (60) has it: a norm doubles with the change.",
            Equal(sqrt(m * change**2), 2 * sqrt(m * da**2), {change: 2 * da}),
            Equal(m * change**2, 4 * m * da**2, {change: 2 * da}),
        ),
        remark="in the line before (62)",
        quote=r"=m_{i}^{t}% \left(\hskip 0.5pt\delta\hskip-0.5pta_{i}^{t}\right)^{2}=\tilde{m}{}_{i}^{t}",
    )
    slopes = {(i, t): Symbol(f"phi^{t}_{i}", nonzero=True, real=True) for i in UNITS for t in (*TIMES, len(TIMES))}
    seen = {(j, t): Symbol(f"m^{t}_{j}", positive=True) for j in UNITS for t in (1,)}
    new = source(1, 0) / slopes[1, 0] ** 2 + total(
        (slopes[j, 1] * link(1, j, 0) / slopes[1, 0]) ** 2 * seen[j, 1] / slopes[j, 1] ** 2 for j in UNITS
    )
    old = source(1, 0) + total(link(1, j, 0) ** 2 * seen[j, 1] for j in UNITS)
    yield paper("eq. 63", given="phi_i is smooth and its slope is not 0", sizes="2 units, 1 step back").says(
        "Written in other activities phi_i(a_i) the modulus is divided by the square of the slope of "
        "phi_i, so the metric of a change is the same.",
        Equal(new, old / slopes[1, 0] ** 2),
        mutation=changed("the square of the slope read as the slope", rhs=old / slopes[1, 0]),
        remark="any smooth phi; V = s^-1(a) is one, of slope 1/s', which makes s'^2 m of m, (62), and the print of (61); with "
        "m = 0 after the end it gives all steps",
        quote=r"from which we derive the induction equation for \tilde{m}",
    )
