r"""Ollivier 2013, sections 3.4 to 3.6: the metrics of the time-unfolded network, and what leaves them as they are.

d log Pr/d tau^t_jiy = 1[y = x_{t-1}] a_j^{t-1} B_i^t        exactly, for three steps of GLNNs and GNNs        (22), (25), (54)
modulus               m_i^t = sum over paths from (i, t) of the squares of their slopes, times the variance at their end  (61)
a unit's V -> k V + l, a -> alpha a + beta     B -> B/k,  m -> m/k^2:  steps are the same, but for the dampening
RNNs                  the rho_ix of different symbols are orthogonal; only tau_ji and rho_ix are not
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any

from sympy import Basic, Eq, Expr, Function, Integer, S, Symbol, diag, exp, eye, log, oo, sqrt, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Mutation
from derivations.prover.cases import Every
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Expands, Fails, Tends

__all__ = ["entries"]

PAPER = "ollivier-2013-riemannian-metrics-ii"
UNITS, SYMBOLS, TIMES, WORD = (1, 2), (0, 1), (0, 1, 2), (0, 0, 1)
eta, eps = Symbol("eta", positive=True), Symbol("epsilon", positive=True)


def entries() -> Iterator[Entry]:
    return chain(unfolded(), outer_products(), recurrent_networks(), moduli(), invariances(), limits_of_invariance())


def real(*names: str) -> tuple[Symbol, ...]:
    return tuple(Symbol(name, real=True) for name in names)


def vector(name: str, n: int) -> Matrix:
    return Matrix(real(*(f"{name}_{k + 1}" for k in range(n))))


def symmetric(name: str, n: int) -> Matrix:
    return Matrix(n, n, lambda i, j: Symbol(f"{name}_{{{min(i, j) + 1}{max(i, j) + 1}}}", real=True))


def square(v: Matrix, metric: Matrix) -> Expr:
    return (v.T * metric * v)[0]


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


def unfolded() -> Iterator[Entry]:
    """(22), (25) and (54) to (56) by differentiating the network itself."""
    shown = (Symbol("V^0_i"), Symbol("B^0_i"))
    for leaky, name in ((True, "GLNNs"), (False, "GNNs")):
        net = Unfolded(leaky)
        B = net.backward()
        pairs = [(i, j, t) for t in TIMES[1:] for j in UNITS for i in (0, 1, 2)]
        exact = Matrix([net.slope(dummy(i, j, t)) for i, j, t in pairs])
        printed = Matrix([active(i, t - 1) * B[j, t] for i, j, t in pairs])
        late = Matrix([active(i, t) * B[j, t] for i, j, t in pairs])
        yield Entry(
            PAPER, f"eq. 54, three steps of {name}",
            f"For {name} the derivative of the log-likelihood in the dummy parameter tau^t_ji is a_j^(t-1) B_i^t with B from "
            "(22), so that the metric (55) is (56) and the gradient (25): a at t goes with B at t + 1.",
            (Equal(exact, printed, _same("d log Pr/d tau^t", "a^(t-1) B^t")),
             Equal(Matrix([net.slope(net.V[0][i]) for i in UNITS]), Matrix([B[i, 0] for i in UNITS]), _same(*map(str, shown)))),
            mutation=Mutation("a at t with B at t", Equal(exact, late)),
            remark="for 2 units and unit 0, 2 symbols, the word aab, any activation function, with chi_t; differentiated as it "
                   "stands, B then computed by (22)" + ("" if leaky else " without the first term: V does not leak"),
        )  # fmt: skip
    both = [dummy(1, 2, t) for t in TIMES[1:]]
    net = Unfolded(True)
    common = Symbol("tau_{12}", real=True)
    shared = net.gain.subs(dict.fromkeys(both, common)).diff(common)
    parts = [net.gain.diff(u).subs(dict.fromkeys(both, common)) for u in both]
    yield Entry(
        PAPER, "remark 10, sum of squares",
        "The derivative in a parameter is the sum over time of those in its dummies, so the outer product metric is the square "
        "of a sum and the recurrent one the sum of squares: they differ.",
        (Equal(shared, parts[0] + parts[1], _same("d/d tau", "sum_t d/d tau^t")),
         Fails(Equal((vector("D", 2)[0] + vector("D", 2)[1]) ** 2, total(each**2 for each in vector("D", 2))))),
        mutation=Mutation("the sum of squares read as the square of the sum",
                          Equal((vector("D", 2)[0] + vector("D", 2)[1]) ** 2, total(each**2 for each in vector("D", 2)))),
        remark="D the derivatives in the dummies",
        sizes="2 units, 3 steps",
        quote="one is a time sum of outer product squares, the other is the outer product square of a time sum",
    )  # fmt: skip
    D = Matrix(3, 3, lambda t, s: Symbol(f"D_{{{t}{s}}}", real=True) if s <= t else S.Zero)
    rows = total(total(D[t, s] for s in range(3)) ** 2 for t in range(3))
    columns = total(total(D[t, s] for t in range(3)) ** 2 for s in range(3))
    yield Entry(
        PAPER, "remark 10, another metric",
        "The metric sum_t (d log pi_t(x_t)/d theta)^2 is not the recurrent outer product metric sum_t (d log Pr/d theta^t)^2.",
        (Fails(Equal(rows, columns)), Equal(total(iter(D * Matrix([1, 1, 1]))), total(iter(D.T * Matrix([1, 1, 1]))))),
        mutation=Mutation("for one time only read as for all times", Equal(rows, columns)),
        remark="D_ts the effect of theta^s on log pi_t: squares of the sums of rows, and of columns",
        sizes="1 parameter, 3 steps",
        quote="These are generally different. Computing all partial derivatives",
    )  # fmt: skip
    B_start, m_start = Unfolded(True).backward(), moduli_of(lambda i, t: S.Zero)
    silent = {weight(i, y): S.Zero for i in UNITS for y in SYMBOLS}
    yield Entry(
        PAPER, "sec. 2, order of the updates",
        "It is important to start with the writing weights, otherwise the metric at startup may be singular: with w_iy = 0 for "
        "all units both metrics on the transition weights are 0.",
        (Equal(Matrix([each.subs(silent) for each in B_start.values()]), zeros(len(B_start), 1)),
         Equal(Matrix([*m_start.values()]), zeros(len(m_start), 1))),
        mutation=Mutation("w_1a not 0", Equal(Matrix([each.subs({k: v for k, v in silent.items() if k != weight(1,
            0)}) for each in B_start.values()]),
                                              zeros(len(B_start), 1))),
        remark="not only singular, but 0",
        sizes="2 units, 3 steps",
        quote="It is important to start with an update of w_{ix}, otherwise the metric at startup may be singular",
    )  # fmt: skip


def _same(left: str, right: str) -> Basic:
    """A formula for the page, where the sides are long."""
    return Eq(Symbol(left), Symbol(right), evaluate=False)


def outer_products() -> Iterator[Entry]:
    """Section 3.4: the outer product metric."""
    C, G, v, lam = symmetric("C", 2), vector("G", 2), vector("v", 2), Symbol("lambda", positive=True)
    step = C.inv() * G
    theta = Symbol("theta", positive=True)
    yield Entry(
        PAPER, "sec. 3.4, step size", "The gradient ascent theta + eta C^-1 dL/dtheta has step size theta.",
        (Equal(eta * step, theta * step),),
        correction=Correction("Its step size is eta: C times the step is eta dL/dtheta.", (Equal(C * (eta * step), eta * G),)),
        remark="a slip of the pen",
        quote=r"The associated gradient ascent for L, with step size \theta, is thus",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 3.4, scaling", "Scaling L by lambda scales the step by 1/lambda.",
        (Equal((lam**2 * C).inv() * (lam * G), step / lam),), ("C can be inverted",),
        Mutation("1/lambda read as lambda", Equal((lam**2 * C).inv() * (lam * G), step * lam)),
        sizes="2 parameters",
        quote=r"scaling L by a factor \lambda will result in scaling this gradient step by 1/\lambda",
    )  # fmt: skip
    s = vector("s", 2)
    samples = [vector(f"l^{k}", 2) for k in (1, 2, 3)]
    mean_square = (samples[0] * samples[0].T + samples[1] * samples[1].T + samples[2] * samples[2].T) / 3
    mean = (samples[0] + samples[1] + samples[2]) / 3

    def spread(move: Matrix) -> Expr:
        return total((each.T * move)[0] ** 2 for each in samples) / 3 - (mean.T * move)[0] ** 2

    yield Entry(
        PAPER, "sec. 3.4, least variance",
        "For a given increment of L the outer product step C^-1 dL/dtheta is the one whose increments of the samples have least "
        "variance.",
        (Equal(spread(s + v) - spread(s) - spread(v), 2 * (v.T * (mean_square * s - mean * (mean.T * s)))[0]),
         Equal(spread(v), (v.T * mean_square * v)[0] - (mean.T * v)[0] ** 2)),
        ("C can be inverted",),
        Mutation("C read as C/2", Equal(spread(s + v) - spread(s) - spread(v),
                                        (v.T * (mean_square * s - mean * (mean.T * s)))[0])),
        remark="at C s = dL/dtheta the right side is 0 for every v with the same increment, dL . v "
               "= 0, and the variance of v, not negative, is added",
        sizes="2 parameters, 3 samples",
        quote="the OP gradient step is the one for which the increment is most uniformly spread over all samples",
    )  # fmt: skip
    p = Matrix([*(Symbol(f"pi_{k}", positive=True) for k in (1, 2))])
    pi = Matrix([p[0], p[1], 1 - p[0] - p[1]])
    score = [eye(3).col(y) - pi for y in range(3)]
    fisher = diag(*pi) - pi * pi.T
    drawn = pi[0] * score[0] * score[0].T + pi[1] * score[1] * score[1].T + pi[2] * score[2] * score[2].T
    yield Entry(
        PAPER, "sec. 3.4, Fisher",
        "With y drawn from the network's output the outer product metric is the Fisher metric; with the target value of y alone "
        "it is not.",
        (Equal(drawn, fisher), Fails(Equal(score[0] * score[0].T, fisher))),
        mutation=Mutation("drawn from the output read as drawn uniformly",
                          Equal((score[0] * score[0].T + score[1] * score[1].T + score[2] * score[2].T) / 3, fisher)),
        remark="in the variables E of the softmax",
        sizes="3 symbols",
        quote="for the latter, y would be sampled from the output of the network seen as a probability distribution, "
              "instead of using only the target value of y",
    )  # fmt: skip


def gram(features: list[Matrix], weights: Matrix) -> Matrix:
    """sum_t c_t f_t f_t^T."""
    size = features[0].rows
    return Matrix(size, size, lambda i, k: total(c * f[i] * f[k] for c, f in zip(weights, features, strict=True)))


def recurrent_networks() -> Iterator[Entry]:
    """Sections 3.4, 3.5 and 4: RNNs, V_i = rho_ix + sum_j tau_ji a_j."""
    rho, c = real("rho_1x", "rho_2x"), Matrix([Symbol(f"c_{k}", positive=True) for k in (1, 2, 3)])
    tau = {(i, j): Symbol(f"tau_{{{i}{j}}}", real=True) for i in UNITS for j in UNITS}
    a = {i: Symbol(f"a_{i}", real=True) for i in UNITS}
    V = {j: rho[j - 1] + total(tau[i, j] * a[i] for i in UNITS) for j in UNITS}
    moved = {pair: V[1].diff(tau[pair]) * V[1].diff(rho[0]) for pair in tau}
    yield Entry(
        PAPER, "sec. 3.4, RNNs, index", "For RNNs the transition parameters tau_ij have non-trivial scalar products with the "
                                        "input parameters rho_ix.",
        (Fails(Equal(moved[1, 2], S.Zero)),),
        correction=Correction("It is the tau_ji that have: tau_ij goes to another unit, j, and units are orthogonal.",
                              (Equal(moved[1, 2], S.Zero), Fails(Equal(moved[2, 1], S.Zero)), Equal(moved[2, 1], a[2]))),
        remark="i = 1, j = 2; the evolution equation in the same sentence has tau_ji",
        quote=r"the transition parameters \tau_{ij} have non-trivial scalar product with all the "
              r"input parameters \rho_{ix} for all x",
    )  # fmt: skip
    at = real("a^0", "a^1", "a^2")
    word = (0, 1, 0)
    M = gram([Matrix([int(x == 0), int(x == 1), at[t]]) for t, x in enumerate(word)], c)
    cofactor = M[0, 2] * M[1, 2] - M[0, 1] * M[2, 2]
    yield Entry(
        PAPER, "sec. 4, RNNs, orthogonality", "Contrary to GNNs and GLNNs, the parameters of RNNs for different symbols are not "
                                              "mutually orthogonal.",
        (Fails(Equal(M[0, 1], S.Zero)),),
        correction=Correction(
            "They are: no two symbols are read at one time, so rho_ix and rho_ix' have no cross-term. They are coupled through "
            "the tau_ji, which are orthogonal to neither: the inverse of the metric does have a cross-term.",
            (Equal(M[0, 1], S.Zero), Equal(M[0, 2], c[0] * at[0] + c[2] * at[2]), Fails(Equal(cofactor, S.Zero))),
        ),
        remark="for one unit and its inputs rho_a, rho_b, tau, and the word aba",
        quote="contrary to GNNs and GLNNs, the parameters corresponding to different symbols in "
              "the alphabet are not mutually orthogonal",
    )  # fmt: skip
    A, d = Symbol("A", positive=True), Symbol("d", positive=True)
    entries_kept = A + A * d + d * (d + 1) / 2
    g = vector("g", 3)
    last = (g[2] - g[0] * M[0, 2] / M[0, 0] - g[1] * M[1, 2] / M[1, 1]) / (
        M[2, 2] - M[0, 2] ** 2 / M[0, 0] - M[1, 2] ** 2 / M[1, 1]
    )
    solved = Matrix([(g[0] - M[0, 2] * last) / M[0, 0], (g[1] - M[1, 2] * last) / M[1, 1], last])

    def counted() -> Iterator[tuple[Mapping[str, Any], bool]]:
        for symbols, edges in product((2, 3, 5), (1, 2, 3)):
            steps = [
                Matrix([*(int(k == t % symbols) for k in range(symbols)), *((t + 2) ** e for e in range(edges))])
                for t in range(2 * symbols)
            ]
            whole = gram(steps, Matrix([1] * len(steps)))
            n = sum(1 for i in range(whole.rows) for k in range(i + 1) if whole[i, k] != 0)
            yield (
                {"symbols": Integer(symbols), "edges": Integer(edges), "entries": Integer(n)},
                n == entries_kept.subs({A: symbols, d: edges}),
            )

    yield Entry(
        PAPER, "sec. 3.4, RNNs, cost", "For RNNs handling the metric would be quadratic in alphabet size.",
        (Tends(entries_kept / A**2, A, oo, S.Half),),
        correction=Correction(
            "It is linear: the block of the rho_ix is diagonal, so a unit's matrix has A + A d + d (d + 1)/2 entries that are "
            "not 0, and the step is found by eliminating the rho_ix first, which leaves a matrix of the tau_ji alone.",
            (Tends(entries_kept / A, A, oo, d + 1), Equal(M * solved, g), Every("2, 3 and 5 symbols with 1 to 3 edges", counted)),
        ),
        remark="a full symmetric matrix would have A^2/2 entries for many symbols; the elimination for 2 symbols, one edge, a "
               "word of 3",
    )  # fmt: skip
    biased = gram([Matrix([1, int(x == 0), int(x == 1), at[t]]) for t, x in enumerate(word)], c)
    yield Entry(
        PAPER, "sec. 3.4, RNNs, biases",
        "An RNN with biases and an input weight for each symbol has recurrent metrics that cannot be inverted; the denominators "
        "of the quasi-diagonal reduction are not 0.",
        (Equal(biased * Matrix([1, -1, -1, 0]), zeros(4, 1)),
         Equal(biased[1, 1] - biased[0, 1] ** 2 / biased[0, 0], (c[0] + c[2]) * c[1] / (c[0] + c[1] + c[2]))),
        mutation=Mutation("no biases", Equal(M * Matrix([1, -1, 0]), zeros(3, 1))),
        remark="said here, not in print; for the word aba: a bias is the same as one number added to every rho_ix (footnote 3)",
    )  # fmt: skip


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
    yield Entry(
        PAPER, "eq. 61, paths",
        "The modulus is the sum over all paths through the time-unfolded network of the square of the path's slope times the "
        "variance at its end.",
        (Equal(ours, by_path),),
        mutation=Mutation("the sum of squares over paths read as the square of the sum over paths to each end", Equal(ours,
            by_end)),
        remark="what (58) amounts to: effects along different paths are not added up before they "
               "are squared, as in the natural metric",
        sizes="2 units, 3 steps",
        quote=r"as the sum \sum_{j,\,i\to j}\left\|\hskip 0.5pt\delta\hskip-0.5pta_{j}\right\|_",
    )  # fmt: skip
    pi, w = Symbol("pi", positive=True), real("w_a", "w_b")
    variance = pi * w[0] ** 2 + (1 - pi) * w[1] ** 2 - (pi * w[0] + (1 - pi) * w[1]) ** 2
    yield Entry(
        PAPER, "eq. 60, positive", "The backpropagated modulus of a unit is a positive number.",
        (Less(S.Zero, variance.subs(w[1], w[0]), True),),
        correction=Correction(
            "It is not negative. It is 0 at the last time if w_iy is the same for all y, and at all times if the unit reaches no "
            "other.",
            (Equal(variance, pi * (1 - pi) * (w[0] - w[1]) ** 2), Equal(variance.subs(w[1], w[0]), S.Zero),
             Less(S.Zero, pi * (1 - pi) * (w[0] - w[1]) ** 2, region={pi: (0, 1)}, rewritten=pi * (1 - pi) * (w[0] - w[1]) ** 2)),
        ),
        remark="the modulus at t = T - 1, for two symbols; so it is before the first update of w, which Section 2 therefore puts "
               "first",
        quote="for some positive number m_{i}^{t}, the backpropagated modulus [Oll13]",
    )  # fmt: skip
    m, da = Symbol("m", positive=True), Symbol("da", positive=True)
    yield Entry(
        PAPER, "eq. 62, norm", "The norm |da| itself, not its square, is m (da)^2.",
        (Equal(sqrt(m * da**2), m * da**2),),
        correction=Correction("|da|^2 = m (da)^2, as (60) has it: a norm doubles with the change.",
                              (Equal(sqrt(m * (2 * da) ** 2), 2 * sqrt(m * da**2)), Equal(m * (2 * da) ** 2, 4 * m * da**2))),
        remark="in the line before (62)",
        quote=r"=m_{i}^{t}% \left(\hskip 0.5pt\delta\hskip-0.5pta_{i}^{t}\right)^{2}=\tilde{m}{}_{i}^{t}",
    )  # fmt: skip
    slopes = {(i, t): Symbol(f"phi^{t}_{i}", nonzero=True, real=True) for i in UNITS for t in (*TIMES, len(TIMES))}
    seen = {(j, t): Symbol(f"m^{t}_{j}", positive=True) for j in UNITS for t in (1,)}
    new = source(1, 0) / slopes[1, 0] ** 2 + total(
        (slopes[j, 1] * link(1, j, 0) / slopes[1, 0]) ** 2 * seen[j, 1] / slopes[j, 1] ** 2 for j in UNITS
    )
    old = source(1, 0) + total(link(1, j, 0) ** 2 * seen[j, 1] for j in UNITS)
    yield Entry(
        PAPER, "eq. 61, other activities",
        "Written in other activities phi_i(a_i) the modulus is divided by the square of the slope of phi_i, so the metric of a "
        "change is the same.",
        (Equal(new, old / slopes[1, 0] ** 2),), ("phi_i is smooth and its slope is not 0",),
        Mutation("the square of the slope read as the slope", Equal(new, old / slopes[1, 0])),
        remark="one step back in time, any smooth phi; with m = 0 after the end it gives all steps",
        quote="The variables V and a correspond bijectively to each other",
    )  # fmt: skip


def invariances() -> Iterator[Entry]:
    """Section 3.6: what changes nothing. A unit's V becomes kappa V + lambda, its activity alpha a + beta."""
    alpha, beta = [Symbol(f"alpha_{i}", nonzero=True, real=True) for i in UNITS], vector("beta", 2)
    kappa = {i: Symbol(f"kappa_{i}", positive=True) for i in UNITS}
    N = Matrix([[1, 0, 0], [beta[0], alpha[0], 0], [beta[1], 0, alpha[1]]])
    B, m = ({j: Symbol(f"{name}_{j}", real=True) for j in UNITS} for name in "Bm")
    i, slope, pi = 1, Symbol("s'", real=True), Symbol("pi", positive=True)
    w, tau = real("w_a", "w_b"), {j: Symbol(f"tau_{{1{j}}}", real=True) for j in UNITS}

    def back(w: tuple[Expr, ...], tau: Mapping[int, Expr], slope: Expr, B: Mapping[int, Expr]) -> Expr:
        return B[i] + slope * (w[0] - pi * w[0] - (1 - pi) * w[1] + total(tau[j] * B[j] for j in UNITS))

    def back_modulus(w: tuple[Expr, ...], tau: Mapping[int, Expr], slope: Expr, m: Mapping[int, Expr]) -> Expr:
        variance = pi * (1 - pi) * (w[0] - w[1]) ** 2
        return slope**2 * variance + total((int(i == j) + tau[j] * slope) ** 2 * m[j] for j in UNITS)

    new_w = tuple(each / alpha[0] for each in w)
    new_tau = {j: kappa[j] * tau[j] / alpha[0] for j in UNITS}
    new_slope = alpha[0] * slope / kappa[i]
    new_B = back(new_w, new_tau, new_slope, {j: B[j] / kappa[j] for j in UNITS})
    new_m = back_modulus(new_w, new_tau, new_slope, {j: m[j] / kappa[j] ** 2 for j in UNITS})
    a = [Matrix([1, *real(f"a^{t}_1", f"a^{t}_2")]) for t in (0, 1)]
    c, step = vector("c", 2), vector("s", 3)
    metric, changed = gram(a, c), gram([N * each for each in a], c / kappa[1] ** 2)
    carried = kappa[1] * N.inv().T * step
    yield Entry(
        PAPER, "sec. 3.6, affine invariance",
        "The actual gradient steps are exactly invariant under affine reparametrizations of the activities, such as changing "
        "sigmoid into tanh: the learning trajectories are identical.",
        (Equal(new_B, back(w, tau, slope, B) / kappa[i]), Equal(new_m, back_modulus(w, tau, slope, m) / kappa[i] ** 2),
         Equal((N * a[0]).T * (N.inv().T * step), a[0].T * step),
         Equal(changed * carried, N * (metric * step) / kappa[1])),
        ("no dampening",),
        Mutation("the step s read as the same numbers", Equal(changed * step, N * (metric * step) / kappa[1])),
        remark="with the exact same eta: by induction over time B is divided by kappa and both moduli by kappa^2, while sum_i "
               "a_i w_i stays; then the step kappa N^-T s, which is s carried over as tau is, solves the changed equations",
        sizes="2 units and unit 0",
        quote="Still, the actual gradient steps are exactly invariant under affine reparametrizations of the parameters and "
              "activity (such as changing sigmoid into tanh)",
    )  # fmt: skip
    M, J = symmetric("M", 2), Matrix(2, 2, lambda r, k: Symbol(f"J_{{{r + 1}{k + 1}}}", real=True))
    own, apart = diag(J[0, 0], J[1, 1]), diag(M[0, 0], M[1, 1])

    def blocks(e: Matrix) -> Matrix:
        return diag(e[0, 0], e[1, 1])

    yield Entry(
        PAPER, "sec. 3.6, units apart",
        "The unitwise metrics are invariant under reparametrization of the parameters of each unit, but not under those that "
        "mix the parameters of different units.",
        (Equal(blocks(own.T * M * own), own.T * apart * own), Fails(Equal(blocks(J.T * M * J), J.T * apart * J))),
        mutation=Mutation("mixed read as not mixed", Equal(blocks(J.T * M * J), J.T * apart * J)),
        remark="J is the slope of the change of parameters, of smooth ones too",
        sizes="2 units with 1 parameter each",
        quote="(but not by reparametrizations mixing incoming parameters to different units, as the natural gradient is)",
    )  # fmt: skip


def limits_of_invariance() -> Iterator[Entry]:
    """Section 3.6, the three limits, and footnote 11."""
    J, K, s = Symbol("J", positive=True), *real("K", "s")
    psi = eta * s / J
    there = J * psi + K * psi**2 / 2
    yield Entry(
        PAPER, "sec. 3.6, step size",
        "Actual steps are invariant only approximately, for small learning rates: in a curved parameter the step differs by "
        "O(eta^2), in an affine one by nothing.",
        (Expands(there, eta, eta * s, 2), Fails(Equal(there, eta * s)), Equal(there.subs(K, 0), eta * s)),
        mutation=Mutation("O(eta^2) read as O(eta^3)", Expands(there, eta, eta * s, 3)),
        remark="theta = J psi + K psi^2/2 to second order: the difference is eta^2 K s^2/(2 J^2)",
        sizes="1 parameter",
        quote="The actual gradient steps with non-zero learning rate are only approximately invariant "
              "when the learning rate is small",
    )  # fmt: skip
    B, m, kappa = Symbol("B", positive=True), Symbol("m", positive=True), Symbol("kappa", positive=True)
    damped = (B / kappa) / (m / kappa**2 + eps)
    yield Entry(
        PAPER, "sec. 3.6, dampening", "The dampening of the matrices breaks invariance.",
        (Fails(Equal(damped, kappa * B / (m + eps))), Equal(damped.subs(eps, 0), kappa * B / m)),
        mutation=Mutation("dampening with eps/kappa^2", Fails(Equal((B / kappa) / (m / kappa**2 + eps / kappa**2),
                                                                    kappa * B / (m + eps)))),
        remark="for the starting values (29) under V -> kappa V",
        quote=r"The dampening procedure for matrix inversion (the various \varepsilon terms "
              r"in Section 2) formally breaks invariance",
    )  # fmt: skip
    v, g = vector("v", 2), Symbol("g", real=True)
    length = v[0] ** 2 + v[1] ** 2
    N = Matrix([[1, 0], [Symbol("beta", real=True), 1]])
    turned = N * v
    back = N.T * turned * g / (turned[0] ** 2 + turned[1] ** 2)
    limit = v * g / length
    found = v * g / (length + eps)
    pseudo = v * v.T / length**2
    yield Entry(
        PAPER, "sec. 3.6, pseudoinverse",
        "A Moore-Penrose pseudoinverse gives the step that is the limit of vanishing dampening, and does not restore invariance.",
        (Equal((v * v.T + eps * eye(2)) * found, v * g), Tends(found[0], eps, 0, limit[0]), Equal(pseudo * v * g, limit),
         Equal(v * v.T * pseudo * v * v.T, v * v.T), Fails(Equal(back, limit))),
        ("the gradient is in the range of the matrix, as it is here",),
        Mutation("does not restore read as restores", Equal(back, limit)),
        remark="for a matrix of rank one, v v^T, and the gradient g v; the dampened inverse itself has no limit, its product "
               "with the gradient has; the change is a_1 -> a_1 + beta",
    )  # fmt: skip
    M, other, Jm = symmetric("M", 2), symmetric("R", 2), Matrix(2, 2, lambda r, k: Symbol(f"J_{{{r + 1}{k + 1}}}", real=True))
    lam, idle = Symbol("lambda", positive=True), moduli_of(source)
    unheard = {u: S.Zero for t in TIMES for u in (source(1, t), link(1, 2, t))}
    yield Entry(
        PAPER, "footnote 11",
        "The metric of other, random sequences times a small number dampens in an invariant way; but if a unit has no effect on "
        "the output, its metric is 0 for every sequence.",
        (Equal(Jm.T * M * Jm + lam * Jm.T * other * Jm, Jm.T * (M + lam * other) * Jm), Equal(Matrix([idle[1,
            t].subs(unheard) for t in TIMES]), zeros(3, 1)),
         Fails(Equal(Jm.T * M * Jm + lam * eye(2), Jm.T * (M + lam * eye(2)) * Jm))),
        mutation=Mutation("the identity for the metric of other sequences", Equal(Jm.T * M * Jm + lam * eye(2),
                                                                                  Jm.T * (M + lam * eye(2)) * Jm)),
        remark="the modulus of a unit whose weights write nothing and reach no other",
        sizes="2 parameters of a unit, 3 steps",
        quote="if a unit i has no effect whatsoever on the output given the "
              "current parameters, the corresponding metric will vanish",
    )  # fmt: skip
