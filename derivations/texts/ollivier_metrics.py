r"""Ollivier 2013, sections 3.1 to 3.3: gradients in a metric, divergences, and the metric of a softmax output.

    2 KL(pi | pi + d) = sum d^2/pi + O(d^3)                            (44), (45)
    |d pi|^2 = sum pi dE^2 - (sum pi dE)^2                             (47), (102)
    I = sum_t pi(y) (1[y = y'] - pi(y')) a_i a_i'                      (50), printed with an index y'' that nothing binds

Checked for two or three symbols, two units beside unit 0, and one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Derivative, Expr, Function, ImmutableDenseMatrix, Matrix, S, Symbol, exp, log
from sympy import symbols as letters

from derivations.claim import Correction, Entry, Mutation, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.limits import Expands
from derivations.prover.statements import Equal
from derivations.texts.ollivier_networks import SIZES, activities, log_pi, paper, probabilities, scores, writing

__all__ = ["entries", "eps", "pairs", "s", "symmetric"]

eps, eta = Symbol("eps", real=True), Symbol("eta", positive=True)
s = Function("s", real=True)
E = list(letters("E_1:4", real=True))
changes = list(letters("d_1:4", real=True))
pi = probabilities(E)
STEP = "one step, the sum over time adds such terms"


def entries() -> Iterator[Entry]:
    return chain(penalized_steps(), coordinates(), divergences(), of_probabilities(), of_exponents(), of_writing_weights())


def symmetric(name: str) -> ImmutableDenseMatrix:
    a, b, c = letters(f"{name}_1:4", real=True)
    return ImmutableDenseMatrix([[a, b], [b, c]])


def pairs(name: str) -> ImmutableDenseMatrix:
    return ImmutableDenseMatrix(list(letters(f"{name}_1:3", real=True)))


def penalized_steps() -> Iterator[Entry]:
    """Eqs. (36) to (38)."""
    M, g, d = symmetric("m"), pairs("g"), pairs("x")
    K = symmetric("k")
    gain = (g.T * d)[0] + (d.T * K * d)[0] / 2
    cost = (d.T * d)[0] / (2 * eta)
    best = eta * g
    slopes = ImmutableDenseMatrix([Derivative(gain - cost, u) for u in d]).subs(
        dict(zip(d, best, strict=True)), simultaneous=True
    )
    yield paper("eq. 36", given="f is smooth", sizes="2 parameters").says(
        "The update theta + eta f' makes the penalized gain stationary, but for terms of order eta.",
        Equal(slopes, eta * K * g),
        mutation=changed("1/(2 eta) read as 1/eta", lhs=slopes - g),
        remark="K is the Hessian of f",
        quote=r"can be viewed, for small \eta, as a maximization of f penalized by the change in \theta",
    )
    solved = (eta * (ImmutableDenseMatrix.eye(2) - eta * K).inv() * g)[0]
    yield paper("eq. 37", given="f is quadratic near theta", sizes="2 parameters").says(
        "The exact maximum differs from the gradient step by O(eta^2).",
        Expands(solved, eta, eta * g[0], 2),
        mutation=changed("g read as 2 g", terms=2 * eta * g[0]),
        remark="the first of them",
        quote=r"where the equality holds up to an approximation O(\eta^{2}) for small \eta",
    )
    metric = (d.T * M * d)[0] / (2 * eta)
    step = eta * M.inv() * g
    rest = ImmutableDenseMatrix([Derivative((g.T * d)[0] - metric, u) for u in d]).subs(
        dict(zip(d, step, strict=True)), simultaneous=True
    )
    yield paper("eq. 38", given="M is symmetric and invertible", sizes="2 parameters").says(
        "With the cost (theta - theta')^T M (theta - theta')/(2 eta) the update is eta M^-1 f'.",
        Equal(rest, column(0, 0)),
        mutation=changed(
            "M^-1 read as M",
            lhs=ImmutableDenseMatrix([Derivative((g.T * d)[0] - metric, u) for u in d]).subs(
                dict(zip(d, eta * M * g, strict=True)), simultaneous=True
            ),
        ),
        quote=r"The associated gradient update will then be \theta^{\prime}=\theta+\eta "
        r"M^{-1}\frac{\partial f}{\partial\theta} (38)",
    )


def coordinates() -> Iterator[Entry]:
    """Eqs. (39) and (40)."""
    M, A, d = symmetric("m"), symbols.weights("A", 2, 2), pairs("x")
    yield paper("eq. 39", sizes="2 parameters").says(
        "The norm d^T M d of a change does not depend on coordinates: with d = A d', M becomes A^T M A.",
        Equal(((A * d).T * M * (A * d))[0], (d.T * (A.T * M * A) * d)[0]),
        mutation=changed("A^T M A read as A M A^T", rhs=(d.T * (A * M * A.T) * d)[0]),
        quote=r"defining a (Riemannian) metric in which the norm of an infinitesimal change \theta\to\theta+\hskip "
        r"0.5pt\delta\hskip-0.5pt\theta of the parameter \theta is",
    )
    f, x = Function("f", real=True), Symbol("phi", real=True)
    m, change = Symbol("m", positive=True), Function("A", real=True)
    inner, speed = Derivative(f(change(x)), x), Derivative(change(x), x)
    yield paper("eq. 40", given="A' is not 0", sizes="1 parameter").says(
        "The direction M^-1 f' is the same in every coordinate: for theta = A(phi) it is A'(phi) times that of phi.",
        Equal(speed * (inner / (m * speed**2)), Derivative(f(change(x)), change(x)) / m),
        mutation=changed("M' = A' M", lhs=speed * (inner / (m * speed))),
        remark="any smooth A; two with linear A in eq. 15",
        quote=r"The gradient ascent update defined by such a metric is thus \theta^{\prime}=\theta+\eta "
        r"M(\theta)^{-1}\frac{\partial f}{\partial\theta} (40)",
    )


def divergences() -> Iterator[Entry]:
    """Eqs. (41) to (43), footnote 9: two symbols, two steps."""
    p, q = letters("p q", positive=True)
    p1, p2, q1, q2 = letters("p_1 p_2 q_1 q_2", positive=True)

    def kl(a: Expr, b: Expr) -> Expr:
        return a * (log(a) - log(b)) + (1 - a) * (log(1 - a) - log(1 - b))

    def both(a: Expr, a1: Expr, a2: Expr) -> list[tuple[Expr, Expr]]:
        return [(a, a1), (a, 1 - a1), (1 - a, a2), (1 - a, 1 - a2)]

    joint = sum(
        x * y * (log(x) + log(y) - log(u) - log(w)) for (x, y), (u, w) in zip(both(p, p1, p2), both(q, q1, q2), strict=True)
    )
    yield paper("eq. 41", sizes="2 symbols, 2 steps").says(
        "The divergence D1 of whole sequences is the sum over t of expected divergences of the next symbol.",
        Equal(joint, kl(p, q) + p * kl(p1, q1) + (1 - p) * kl(p2, q2)),
        mutation=changed("the past drawn from theta'", rhs=kl(p, q) + q * kl(p1, q1) + (1 - q) * kl(p2, q2)),
        remark="footnote 9",
        quote=r"where \Pr\nolimits_{\theta} is the probability distribution over the set of all sequences "
        r"(x_{0},\ldots,x_{t},\ldots) defined by the network with parameter \theta",
    )
    yield paper("eq. 42", given="the sequence is drawn from the model", sizes="2 symbols, 2 steps").says(
        "D2, the sum of conditional divergences along the actual sequence, is D1 on average over sequences.",
        Equal(p * (kl(p, q) + kl(p1, q1)) + (1 - p) * (kl(p, q) + kl(p2, q2)), kl(p, q) + p * kl(p1, q1) + (1 - p) * kl(p2, q2)),
        mutation=changed("both pasts equally likely", lhs=kl(p, q) + (kl(p1, q1) + kl(p2, q2)) / 2),
        remark="the average over sequences, which a long one of an ergodic process gives",
        quote="D_{2} should be a reasonable approximation of D_{1}",
    )
    yield paper("eq. 43", sizes="2 symbols").says(
        "In terms of pi_t it is the sum of KL(pi_t | pi'_t), which is 0 for equal distributions and stationary there.",
        Equal(kl(p, q).subs(q, p), S.Zero),
        Equal(Derivative(kl(p, q), q).subs(q, p), S.Zero),
        Equal(Derivative(kl(p, q), q, 2).subs(q, p), 1 / p + 1 / (1 - p)),
        mutation=Mutation("1/p + 1/(1-p) read as 1/p", Equal(Derivative(kl(p, q), q, 2).subs(q, p), 1 / p)),
        quote=r"\displaystyle=\sum_{t}\mathrm{KL}\!\left(\pi_{t}\,|\hskip-0.645pt|\,\pi^{",
    )


def of_probabilities() -> Iterator[Entry]:
    """Eqs. (44) and (45)."""
    a, b = letters("pi_1 pi_2", positive=True)
    u, w_ = letters("delta_1 delta_2", real=True)
    whole, moves = [a, b, 1 - a - b], [u, w_, -u - w_]
    divergence = 2 * sum(k * (log(k) - log(k + eps * d)) for k, d in zip(whole, moves, strict=True))
    norm = sum(d**2 / k for k, d in zip(whole, moves, strict=True))
    yield paper("eq. 44", given="delta sums to 0", sizes="3 symbols").says(
        "2 KL(pi | pi + delta) is of second order in delta.",
        Expands(divergence, eps, S.Zero, 2),
        mutation=changed(
            "delta does not sum to 0",
            expression=2 * sum(k * (log(k) - log(k + eps * d)) for k, d in zip(whole, [u, w_, u], strict=True)),
        ),
        quote=r"the square distance between two infinitesimally close probability distributions \pi "
        r"and \pi+\hskip 0.5pt\delta\hskip-0.5pt\pi is",
    )
    yield paper("eq. 45", given="delta sums to 0", sizes="3 symbols").says(
        "At second order it is sum delta^2/pi = E (delta log pi)^2.",
        Expands(divergence, eps, eps**2 * norm, 3),
        Equal(sum(k * (d / k) ** 2 for k, d in zip(whole, moves, strict=True)), norm),
        mutation=changed("without the 2 of (44)", expression=divergence / 2),
        quote=r"\displaystyle=\sum_{x\in\mathcal{A}}\frac{(\hskip 0.5pt\delta\hskip-0.5pt\pi(x",
    )


def of_exponents() -> Iterator[Entry]:
    """Eqs. (46) and (47)."""
    shared = Symbol("log Z", real=True)
    yield paper("eq. 46", sizes="3 symbols").says(
        "The softmax is of exponential form: log pi(x) is E_x minus a term that all symbols share.",
        Equal(log_pi(E, 0) - log_pi(E, 1), E[0] - E[1]),
        Equal(log_pi(E, 0), E[0] - shared, {shared: log(sum(exp(e) for e in E))}),
        Equal(exp(log_pi(E, 0)) / exp(log_pi(E, 1)), exp(E[0] - E[1])),
        mutation=changed("E_x read as 2 E_x", rhs=2 * (E[0] - E[1])),
        quote=r"In the networks we consider, at each step the distribution \pi_{t} for "
        r"the next symbol is given by a softmax output",
    )
    change = [sum(Derivative(log_pi(E, y), E[k]) * changes[k] for k in range(3)) for y in range(3)]
    squared = sum(pi[y] * change[y] ** 2 for y in range(3))
    mean = sum(pi[y] * changes[y] for y in range(3))
    printed = sum(pi[y] * changes[y] ** 2 for y in range(3)) - mean**2
    yield paper("eq. 47", sizes="3 symbols").says(
        "The norm of the change of pi from a change of E is sum pi dE^2 - sum pi pi' dE dE'.",
        Equal(squared, printed),
        mutation=changed("the second sum doubled", rhs=printed - mean**2),
        quote="by standard arguments for exponential families, found to be",
    )
    curvature = [Matrix(3, 3, lambda i, k, y=y: -Derivative(log_pi(E, y), E[i], E[k])).as_immutable() for y in range(3)]
    expected = Matrix(3, 3, lambda i, k: pi[i] * ((1 if i == k else 0) - pi[k])).as_immutable()
    yield paper("eq. 47, Hessian", sizes="3 symbols").says(
        "It is also the Hessian of -log pi(y'') in E, the same for every y''.",
        Equal(curvature[0], expected),
        Equal(curvature[1], expected),
        Equal(curvature[2], expected),
        mutation=changed("of log pi", lhs=-curvature[0]),
        quote=r"By a property of exponential families, this is also, for any y^{\prime\prime}, the Hessian of "
        r"-\log\pi_{t}(y^{\prime\prime}) with respect to the variables E^{t}",
    )


def of_writing_weights() -> Iterator[Entry]:
    """Eqs. (48) to (50)."""
    w = writing(2)
    gain = [log_pi(scores(activities, w), y) for y in range(2)]
    q = probabilities(scores(activities, w))
    dw = ImmutableDenseMatrix(3, 2, lambda i, y: Symbol(f"dw_{{{i}{y + 1}}}", real=True))
    moved = [sum(activities[i] * dw[i, y] for i in range(3)) for y in range(2)]
    exact = sum(q[y] * sum(Derivative(gain[y], w[i, k]) * dw[i, k] for i in range(3) for k in range(2)) ** 2 for y in range(2))
    yield paper("eq. 48", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "A change of the writing weights changes E_y by sum_i a_i dw_iy, and pi accordingly.",
        Equal(exact, sum(q[y] * moved[y] ** 2 for y in range(2)) - sum(q[y] * moved[y] for y in range(2)) ** 2),
        mutation=changed("the mean not removed", rhs=sum(q[y] * moved[y] ** 2 for y in range(2))),
        quote="Changing the writing weights w_{ix} does not change the activities of units in the network",
    )

    def quadratic(entry: Expr) -> Expr:
        return sum(
            entry(y, k) * activities[i] * activities[j] * dw[i, y] * dw[j, k]
            for y in range(2)
            for k in range(2)
            for i in range(3)
            for j in range(3)
        )

    def kronecker(y: int, k: int) -> int:
        return 1 if y == k else 0

    free = 0  # the symbol y'' of the print, which no sum binds: any choice has to serve
    yield paper("eq. 49").says(
        "The norm is sum pi(y') (1[y' = y''] - pi(y'')) a_i a_i' dw_iy dw_i'y'.",
        Equal(exact, quadratic(lambda y, k: q[k] * (kronecker(k, free) - q[free]))),
        correction=Correction(
            "With y in place of y'', which nothing binds: pi(y') (1[y' = y] - pi(y)).",
            Equal(exact, quadratic(lambda y, k: q[k] * (kronecker(k, y) - q[y]))),
        ),
        remark=f"y'' read as the first symbol; {SIZES}, two symbols, one step",
        quote=r"\pi_{t}(y^{\prime})(\mathbbm{1% }_{y^{\prime}=y^{\prime\prime}}-\pi_{t}(y^{\prime\prime}))a^{t}_{i}a^{t}_{i^{",
    )
    hessian = Matrix(2, 2, lambda y, k: -Derivative(gain[0], w[1, y], w[2, k])).as_immutable()

    def information(entry: Expr) -> ImmutableDenseMatrix:
        return Matrix(2, 2, lambda y, k: entry(y, k) * activities[1] * activities[2]).as_immutable()

    yield paper("eq. 50").says(
        "The Fisher matrix of w_iy and w_i'y' is sum pi(y') (1[y' = y''] - pi(y'')) a_i a_i', the negative Hessian.",
        Equal(hessian, information(lambda y, k: q[k] * (kronecker(k, free) - q[free]))),
        correction=Correction(
            "With y in place of y'': pi(y') (1[y' = y] - pi(y)) a_i a_i'.",
            Equal(hessian, information(lambda y, k: q[k] * (kronecker(k, y) - q[y]))),
        ),
        remark="the same index as in (49); i = 1 and i' = 2, two symbols, one step",
        quote=r"I_{w_{iy}w_{i^{\prime}y^{\prime}}}=\sum_{t}\pi_{t}(y^{\prime})(\mathbbm{1}_{y^",
    )
