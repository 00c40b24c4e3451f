r"""Ollivier 2013, sections 3.1 to 3.5: gradients in a metric, divergences, metrics of a softmax output and of networks.

    2 KL(pi | pi + d) = sum d^2/pi + O(d^3)                            (44), (45)
    |d pi|^2 = sum pi dE^2 - (sum pi dE)^2                             (47), (102)
    I = sum_t pi(y) (1[y = y'] - pi(y')) a_i a_i'                      (50), printed with an index y'' that nothing binds
    B_i^2 (dV_i/dtheta_k)(dV_i/dtheta_k')                              (55)
    m_i(t) = s'^2 var_pi(w_i) + sum_j (dV_j(t+1)/dV_i(t))^2 m_j(t+1)   (63)

Checked for two or three symbols, two units beside unit 0, and one step back in time, which gives all by induction.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, Function, ImmutableDenseMatrix, Matrix, S, Subs, Symbol, exp, log
from sympy import symbols as letters

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Mutation, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.texts.ollivier_networks import SIZES, activities, log_pi, paper, probabilities, scores, step_of, writing

__all__ = ["eps", "pairs", "s", "symmetric"]

eps, eta = Symbol("eps", real=True), Symbol("eta", positive=True)
s = Function("s", real=True)
E = list(letters("E_1:4", real=True))
changes = list(letters("d_1:4", real=True))
pi = probabilities(E)
STEP = "one step, the sum over time adds such terms"


def symmetric(name: str) -> ImmutableDenseMatrix:
    a, b, c = letters(f"{name}_1:4", real=True)
    return ImmutableDenseMatrix([[a, b], [b, c]])


def pairs(name: str) -> ImmutableDenseMatrix:
    return ImmutableDenseMatrix(list(letters(f"{name}_1:3", real=True)))


def penalized_steps() -> Iterator[Entry]:
    """Eqs. (36) to (40)."""
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
    """Eqs. (44) to (47)."""
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


l1, l2, k1, k2 = letters("l_1 l_2 k_1 k_2", real=True)
C = ImmutableDenseMatrix([[l1**2 + k1**2, l1 * l2 + k1 * k2], [l1 * l2 + k1 * k2, l2**2 + k2**2]]) / 2


def sums_over_time() -> Iterator[Entry]:
    """Eqs. (51) to (53): norms add, and outer products are an average."""
    M, N, g, h, d = symmetric("m"), symmetric("n"), pairs("g"), pairs("h"), pairs("x")
    form = ((d.T * M * d) + (d.T * N * d))[0]
    yield paper("eq. 51", sizes="2 steps, 2 parameters").says(
        "Summing the norms over time is the metric of the sum of the matrices.",
        Equal(form, (d.T * (M + N) * d)[0]),
        mutation=changed("M + N read as M N", rhs=(d.T * M * N * d)[0]),
        quote=r"Thus we can simply set \left\|\hskip 0.5pt\delta\hskip-0.5pt\theta\right\|^{2}\mathrel{\mathop{:}}=",
    )
    each = (M.inv() * g, N.inv() * h)
    spread = sum((((k - d).T * L * (k - d))[0] for k, L in zip(each, (M, N), strict=True)), S.Zero)
    joint = (M + N).inv() * (g + h)
    yield paper("eq. 52", given="M_t is invertible at each t", sizes="2 steps, 2 parameters").says(
        "Its step is the time-independent update that is nearest to the separate updates, in the sum of the norms.",
        Equal(
            ImmutableDenseMatrix([Derivative(spread, u) for u in d]).subs(dict(zip(d, joint, strict=True)), simultaneous=True),
            column(0, 0),
        ),
        mutation=Mutation("the mean of the updates", Equal(joint, (each[0] + each[1]) / 2)),
        remark="footnote 10 says when M_t is not invertible",
        quote=r"this amounts to making independent updates for each \theta^{t} and then finding the time-independent update",
    )
    A = symbols.weights("A", 2, 2)
    other = [A.T * ImmutableDenseMatrix([l1, l2]), A.T * ImmutableDenseMatrix([k1, k2])]
    yield paper("eq. 53", sizes="2 samples, 2 parameters").says(
        "The outer product metric C transforms as a metric: in coordinates theta = A phi it is A^T C A.",
        Equal((other[0] * other[0].T + other[1] * other[1].T) / 2, A.T * C * A),
        mutation=changed("A^T C A read as A C A^T", rhs=A * C * A.T),
        remark="the gradient step then transforms as in eq. 15",
        quote="and this gradient direction is parametrization-invariant",
    )


def recurrent_outer_products() -> Iterator[Entry]:
    """Eqs. (54) to (57)."""
    _, V, B, later = step_of(0)
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    active = [S.One, s(V[0]), s(V[1])]
    L = Function("L", real=True)
    v1, v2 = letters("v_1 v_2", real=True)
    composed = Derivative(L(later[0], later[1]), tau[1, 0])
    slope = Derivative(L(v1, v2), v1).subs({v1: later[0], v2: later[1]}).doit()
    yield paper("eq. 54", sizes="2 units beside unit 0").says(
        "The derivative in a dummy parameter of unit i at time t is B_i(t) dV_i(t)/dtheta.",
        Equal(composed, slope * active[1]),
        mutation=changed("of the other unit's V", rhs=slope * active[2]),
        remark="for any later L",
        quote="and is used exactly once during computation of the network activities, namely, "
        "only at time t to compute the activity V^{t}_{i}",
    )
    objective = B[0] * later[0] + B[1] * later[1]
    outer = Matrix(3, 3, lambda i, k: Derivative(objective, tau[i, 0]) * Derivative(objective, tau[k, 0])).as_immutable()
    yield paper("eq. 55", sizes="2 units beside unit 0, 1 step").says(
        "So the metric at unit i is sum_t B_i^2 (dV_i/dtheta_k)(dV_i/dtheta_k').",
        Equal(
            outer,
            Matrix(
                3, 3, lambda i, k: B[0] ** 2 * Derivative(later[0], tau[i, 0]) * Derivative(later[0], tau[k, 0])
            ).as_immutable(),
        ),
        mutation=Mutation(
            "B_i^2 read as B_i", Equal(outer[1, 2], B[0] * Derivative(later[0], tau[1, 0]) * Derivative(later[0], tau[2, 0]))
        ),
        quote=r"the RUOP metric for the incoming parameters \theta_{i} at unit i is given for each i by the matrix",
    )
    d3 = [Symbol(f"x_{k}", real=True) for k in range(3)]
    norm = sum(outer[i, k] * d3[i] * d3[k] for i in range(3) for k in range(3))
    yield paper("eq. 56", sizes="2 units beside unit 0, 1 step").says(
        "For GLNNs it is sum B_i(t+1)^2 a_j a_j' dtau_jix dtau_j'ix, a square of a sum.",
        Equal(norm, B[0] ** 2 * sum(active[k] * d3[k] for k in range(3)) ** 2),
        mutation=changed("a sum of squares", rhs=B[0] ** 2 * sum((active[k] * d3[k]) ** 2 for k in range(3))),
        quote=r"using that \partial V^{t}_{i}/\partial\tau^{t}_{jiy}="
        r"\mathbbm{1}_{y=x_{t-1}}a_{j}^{t-1}, the recurrent UOP metric is",
    )
    yield paper("eq. 57", sizes="2 units beside unit 0, 1 step").says(
        "The cross-term of units j and j' is sum_t 1[x_t = x] a_j a_j' B_i^2: they are not independent.",
        Equal(outer[1, 2], active[1] * active[2] * B[0] ** 2),
        Fails(Equal(outer[1, 2], S.Zero)),
        mutation=changed("independent", rhs=S.Zero),
        quote=r"Third, different units j and j^{\prime} connected to the same unit i are not independent",
    )


def best_fits() -> Iterator[Entry]:
    """Section 3.4 in words, and remark 10."""
    d = pairs("x")
    a1, a2, b1, b2, c1, c2, y1, y2 = letters("a_1 a_2 b_1 b_2 c_1 c_2 Y_1 Y_2", positive=True)
    x1, x2 = d
    residual = c1 * (y1 / c1 - a1 * x1 - b1 * x2) ** 2 + c2 * (y2 / c2 - a2 * x1 - b2 * x2) ** 2
    gram = ImmutableDenseMatrix(
        [[a1**2 * c1 + a2**2 * c2, a1 * b1 * c1 + a2 * b2 * c2], [a1 * b1 * c1 + a2 * b2 * c2, b1**2 * c1 + b2**2 * c2]]
    )
    right = ImmutableDenseMatrix([a1 * y1 + a2 * y2, b1 * y1 + b2 * y2])
    normal = ImmutableDenseMatrix([Derivative(residual, x1), Derivative(residual, x2)])
    yield paper("sec. 3.4, best fit", sizes="2 units, 2 steps").says(
        "M^-1 G with M = sum a a' c and G = sum a Y is the weighted least-squares fit of Y/c by the a.",
        Equal(normal, 2 * (gram * d - right)),
        mutation=changed(
            "of Y", rhs=2 * (gram * d - ImmutableDenseMatrix([a1 * c1 * y1 + a2 * c2 * y2, b1 * c1 * y1 + b2 * c2 * y2]))
        ),
        remark="weights c",
        quote="M^{-1}G gives the best way to write the vector Y^{t}/c^{t}, seen as a function of t, as "
        "a linear combination of the family a_{j}^{t}",
    )
    yield paper("remark 10", sizes="2 parameters, 2 steps").says(
        "With one sequence the outer product metric has rank 1; the sum over T steps of such matrices has not.",
        Equal((ImmutableDenseMatrix([l1, l2]) * ImmutableDenseMatrix([l1, l2]).T).det(), S.Zero),
        Equal(4 * C.det(), (l1 * k2 - l2 * k1) ** 2),
        mutation=changed("also rank 1", lhs=C.det()),
        quote="which is a rank-1 matrix and thus not invertible",
    )


tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
_, V, _, later = step_of(0)
w, m = writing(2), [Symbol(f"m_{k}", positive=True) for k in (1, 2)]
active = ImmutableDenseMatrix([1, s(V[0]), s(V[1])])


def coefficient(e: Expr, order: int) -> Expr:
    return Subs(Derivative(e, eps, order), eps, 0) / order


slopes, mi = [Derivative(s(k), k) for k in V], Symbol("m", positive=True)


def in_activities() -> Iterator[Entry]:
    """Eqs. (58) to (61): of output and of what follows, in activities."""
    da = Symbol("da", real=True)
    a = activities
    p = probabilities(scores(a, w))
    gain = [log_pi(scores(a, w), y) for y in range(2)]
    spread = sum(p[y] * w[1, y] ** 2 for y in range(2)) - sum(p[y] * w[1, y] for y in range(2)) ** 2
    natural = sum(p[y] * (Derivative(gain[y], a[1]) * da) ** 2 for y in range(2))
    translated = {w[1, y]: w[1, y] + Symbol("z", real=True) for y in range(2)}
    follow = [Function(f"F_{j}", real=True) for j in (1, 2)]

    def changes_of(power: int) -> Expr:
        """What (58) adds up when a_1 is moved by eps da: 2 KL(pi | pi'), and m_j times a power of the change of a_j later."""
        there = [log_pi(scores(ImmutableDenseMatrix([1, a[1] + eps * da, a[2]]), w), y) for y in range(2)]
        divergence = 2 * sum(p[y] * (gain[y] - there[y]) for y in range(2))
        return divergence + sum(m[j] * (follow[j](a[1] + eps * da) - follow[j](a[1])) ** power for j in range(2))

    slope_later = [Derivative(f(a[1]), a[1]) for f in follow]
    modulus = spread + sum(slope_later[j] ** 2 * m[j] for j in range(2))
    yield paper("eq. 58", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "The norms of the change of pi and of the changes one step later, added up, are a metric: 0 to first order, and to "
        "second a number times the square of the change.",
        Equal(coefficient(changes_of(2), 1), S.Zero),
        Equal(coefficient(changes_of(2), 2), coefficient(changes_of(2), 2).subs(da, 1) * da**2),
        mutation=changed("changes for their squares", lhs=coefficient(changes_of(1), 1)),
        remark="any dependence F_j of the later activities on a_1; |d pi|^2 = 2 KL as in (44)",
        quote="thus “backpropagating” the definition of the metric from output units to inner units",
    )
    yield paper("eq. 59", sizes="2 units beside unit 0, 2 symbols").says(
        "The norm of the change of pi is da^2 times the pi-variance of w_iy; translating the weights changes nothing.",
        Equal(natural, spread * da**2),
        Equal(spread.subs(translated, simultaneous=True), spread),
        mutation=changed("the second moment", rhs=sum(p[y] * w[1, y] ** 2 for y in range(2)) * da**2),
        quote=r"i.e., proportional to the \pi_{t}-variance of w_{iy} (in line with the fact "
        r"that translating weights does not change output)",
    )
    yield paper("eq. 60", sizes="2 symbols").says(
        "The modulus is not negative: var = pi(1) pi(2) (w_i1 - w_i2)^2, and the rest are squares.",
        Equal(spread, p[0] * p[1] * (w[1, 0] - w[1, 1]) ** 2),
        mutation=changed("w_i1 + w_i2", rhs=p[0] * p[1] * (w[1, 0] + w[1, 1]) ** 2),
        remark="two symbols; it is 0, not positive, where nothing is written and nothing reached",
        quote="Since activities are one-dimensional, the backpropagated metric is simply proportional to",
    )
    yield paper("eq. 61", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "m_i(t) is var_pi(w_i) plus the sum over j of (da_j(t+1)/da_i(t))^2 m_j(t+1).",
        Equal(coefficient(changes_of(2), 2), modulus * da**2),
        mutation=Mutation(
            "the square left out",
            Equal(coefficient(changes_of(2), 2).doit(), (spread + sum(slope_later[j] * m[j] for j in range(2))) * da**2),
        ),
        remark="from (58), with 2 KL expanded; any dependence F_j of the later activities on a_1",
        quote="in which one recognizes a source term from the output at time t, and a term transmitted from t+1 to t",
    )


def in_voltages() -> Iterator[Entry]:
    """Eqs. (62) to (64): in V instead of a."""
    q = probabilities(scores(active, w))
    variance = sum(q[y] * w[1, y] ** 2 for y in range(2)) - sum(q[y] * w[1, y] for y in range(2)) ** 2
    dV = Symbol("dV", real=True)
    in_v = coefficient(mi * (s(V[0] + eps * dV) - s(V[0])) ** 2, 2)
    yield paper("eq. 62").says(
        "With V in place of a the modulus is m s'(V)^2.",
        Equal(in_v, mi * slopes[0] ** 2 * dV**2),
        mutation=Mutation("m s'(V)", Equal(in_v.doit(), mi * slopes[0] * dV**2)),
        remark="m (da)^2 for the change of a = s(V) that dV makes, to second order; any s",
        quote=r"and their variations are related by \hskip 0.5pt\delta\hskip-0.5pta_{i}^{t}=s^{\prime}(V_{i}^{t})",
    )
    of, swapped = (Symbol(name, positive=True) for name in ("m_1^2", "m_2^1"))
    yield paper("eq. 62, index").says(
        "The modulus in V is m^i_t s'(V)^2, with the time below and the unit above.",
        Equal(swapped * slopes[0] ** 2, of * slopes[0] ** 2),
        correction=Correction(
            "It is m_i^t: unit i at time t, as in (60) and on the left side.",
            Equal(in_v.subs(mi, of), of * slopes[0] ** 2 * dV**2),
        ),
        remark="shown for i = 1, t = 2; a slip of the pen",
        quote=r"\tilde{m}_{i}^{t}\mathrel{\mathop{:}}=m^{i}_{t}\,s^{\prime}(V_{i}^{t})^{2} (62)",
    )
    moved = [Derivative(k, V[0]) for k in later]
    da_later = [moved[j] * Symbol(f"s'_{j + 1}", real=True) / slopes[0] for j in range(2)]
    tilde = [Symbol(f"n_{k}", positive=True) for k in (1, 2)]
    through = slopes[0] ** 2 * (
        variance + sum(da_later[j] ** 2 * tilde[j] / Symbol(f"s'_{j + 1}", real=True) ** 2 for j in range(2))
    )
    printed = slopes[0] ** 2 * variance + sum(moved[j] ** 2 * tilde[j] for j in range(2))
    yield paper("eq. 63", given="s' is not 0", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "m~_i(t) = s'(V_i)^2 var_pi(w_i) + sum_j (dV_j(t+1)/dV_i(t))^2 m~_j(t+1).",
        Equal(through, printed),
        mutation=changed("s'^2 read as s'", rhs=slopes[0] * variance + sum(moved[j] ** 2 * tilde[j] for j in range(2))),
        remark="(61) rewritten with a = s(V)",
        quote=r"from which we derive the induction equation for \tilde{m}",
    )
    yield paper("eq. 64", sizes="2 units beside unit 0").says(
        "For GLNNs dV_j(t+1)/dV_i(t) = 1[i = j] + tau_ijx s'(V_i).",
        Equal(column(*moved), column(1 + tau[1, 0] * slopes[0], tau[1, 1] * slopes[0])),
        mutation=Mutation("tau_ji", Equal(moved[1], tau[2, 0] * slopes[0])),
        quote=r"\frac{\partial V_{j}^{t+1}}{\partial V_{i}^{t}}=\mathbbm{1}_{i=j}+\tau_{ijx_{t",
    )


def of_parameters() -> Iterator[Entry]:
    """Eqs. (65) to (68): of the weights into a unit."""
    d3 = [Symbol(f"x_{k}", real=True) for k in range(3)]
    change = sum(Derivative(later[0], tau[k, 0]) * d3[k] for k in range(3))
    arrived = Symbol("V", real=True)
    shifted = later[0].subs({tau[k, 0]: tau[k, 0] + eps * d3[k] for k in range(3)}, simultaneous=True)
    in_a = coefficient(mi * (s(arrived + eps * change) - s(arrived)) ** 2, 2)
    yield paper("eq. 65", sizes="2 units beside unit 0").says(
        "The norm of a change of the dummy parameter is m~ (dV/dtheta . dtheta)^2, the same in V and in a.",
        Equal(shifted, later[0] + eps * change),
        Equal(in_a, mi * Derivative(s(arrived), arrived) ** 2 * change**2),
        mutation=Mutation("m~ = m", Equal(in_a, mi * change**2)),
        remark="m (da)^2 for the change of a_i that the change of its weights makes, to second order, is m s'^2 (dV)^2",
        quote=r"where, as in the case of the RUOP metric above, the derivative \frac{\partial "
        r"V^{t}_{i}}{\partial\theta^{t}_{i}} can be obtained from the evolution equation",
    )
    matrix = Matrix(3, 3, lambda i, k: Derivative(mi * change**2, d3[i], d3[k]) / 2).as_immutable()
    yield paper("eq. 66", sizes="2 units beside unit 0").says(
        "In components it is m~ (dV/dtheta_k)(dV/dtheta_k').",
        Equal(matrix, Matrix(3, 3, lambda i, k: mi * active[i] * active[k]).as_immutable()),
        mutation=Mutation("a_k^2", Equal(matrix[1, 2], mi * active[1] ** 2)),
        quote=r"is thus given by a matrix whose kk^{\prime} entry is",
    )
    yield paper("eq. 67", sizes="2 units beside unit 0, 1 step").says(
        "Summed over time it is the RBPM of unit i; the parameters of another unit have no part in it.",
        Equal(matrix[0, 1], mi * active[0] * active[1]),
        Equal(Derivative(later[0], tau[1, 1]), S.Zero),
        mutation=Mutation("of unit 2", Equal(Derivative(later[1], tau[1, 1]), S.Zero)),
        quote=r"So in the end the recurrent backpropagated metric for the incoming "
        r"parameter \theta_{i} to unit i is given by the matrix",
    )
    yield paper("eq. 68", sizes="2 units beside unit 0, 1 step").says(
        "For GLNNs it is sum_i sum_t m~_i(t+1) a_j a_j' dtau_jix dtau_j'ix.",
        Equal(mi * change**2, mi * sum(active[j] * active[k] * d3[j] * d3[k] for j in range(3) for k in range(3))),
        mutation=changed("only j = j'", rhs=mi * sum((active[j] * d3[j]) ** 2 for j in range(3))),
        quote=r"In the end, for the GLNN parameter \theta=(\tau_{jiy})_{j,i,y}, the recurrent backpropagated metric is",
    )
    yield paper("sec. 3.5, index").says(
        "For the incoming parameters of unit i, dV_j(t)/dtau_jiy = 1[x_{t-1} = y] a_j(t-1).",
        Equal(Derivative(later[1], tau[2, 0]), active[2]),
        correction=Correction(
            "It is dV_i(t)/dtau_jiy: the weight from j to i moves V_i, not V_j.",
            Equal(Derivative(later[0], tau[2, 0]), active[2]),
            Equal(Derivative(later[1], tau[2, 0]), S.Zero),
        ),
        remark="i = 1, j = 2; section 3.4 prints it with V_i",
        quote=r"\frac{\partial V^{t}_{j}}{\partial\tau^{t}_{jiy}}=\mathbbm{1}_{x_{t-1}=y}a^{t-% 1}_{j}",
    )
