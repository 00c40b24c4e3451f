r"""Ollivier 2013, section 2: the algorithm's gradients, metrics and steps, for writing and for transition weights.

    quasi-diagonal steps                                          (20), (21), (34), (35)

Sums are checked for two units beside the always-activated unit 0, two or three symbols, and one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Derivative, Expr, Function, ImmutableDenseMatrix, Matrix, S, Subs, Symbol, eye

from derivations.claim import Entry, Mutation, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.statements import Equal
from derivations.texts.ollivier_networks import activities, log_pi, paper, probabilities, s, scores, writing

__all__ = ["entries", "step_of"]


def entries() -> Iterator[Entry]:
    return chain(writing_gradient(), writing_metric(), backward_pass(), transition_metric())


def writing_gradient() -> Iterator[Entry]:
    """Eqs. (15) to (17): one time step; the sums over time add what is shown for one."""
    A, M = symbols.weights("A", 2, 2), ImmutableDenseMatrix(2, 2, [Symbol("m_1"), Symbol("m_2"), Symbol("m_2"), Symbol("m_3")])
    slope = ImmutableDenseMatrix([Symbol("g_1"), Symbol("g_2")])
    yield paper("eq. 15", given="M and A are invertible", sizes="2 parameters").says(
        "theta + eta M^-1 f' does not depend on linear coordinates: with theta = A phi, M becomes A^T M A and f' A^T f'.",
        Equal(A * (A.T * M * A).inv() * (A.T * slope), M.inv() * slope),
        mutation=changed("A^T M A read as A M A^T", lhs=A * (A * M * A.T).inv() * (A.T * slope)),
        quote="These metrics are built in Sections 3.33.5 to achieve reparametrization "
        "invariance at a reasonable computational cost",
    )
    w, chi = writing(2), Symbol("chi", real=True)
    energies = scores(activities, w)
    pi = probabilities(energies)
    gain = [log_pi(energies, y) for y in range(2)]
    yield paper("eq. 16", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "The gradient of sum_t chi_t log pi_t(x_t) counts predicted symbols only.",
        Equal(Derivative(chi * gain[0], w[1, 0]), S.Zero, {chi: S.Zero}),
        Equal(Derivative(chi * gain[0], w[1, 0]), Derivative(gain[0], w[1, 0]), {chi: S.One}),
        mutation=changed("chi = 0 read as chi = 1", where={chi: S.One}),
        quote=r"\operatorname*{arg\,max}_{w,\tau,V^{0}}\sum_{t}\chi_{t}\log\pi_{t}(x_{t}) (16)",
    )
    right = [[activities[i] * ((1 if y == 0 else 0) - pi[y]) for y in range(2)] for i in range(3)]
    yield paper("eq. 17", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "The derivative in w_iy is sum_t chi_t a_i (1[x_t = y] - pi_t(y)).",
        Equal(Matrix(3, 2, lambda i, y: Derivative(gain[0], w[i, y])).as_immutable(), Matrix(right).as_immutable()),
        mutation=Mutation("pi - 1[x_t = y]", Equal(Derivative(gain[0], w[1, 0]), -right[1][0])),
        remark="x_t is the first symbol; sums over time add such terms",
        quote=r"W_{iy}=\sum_{t}\chi_{t}\,a_{i}^{t}\left(\mathbbm{1}_{x_{t}=y}-\pi_{t}(y)\right) (17)",
    )


def writing_metric() -> Iterator[Entry]:
    """Eqs. (18) to (21)."""
    w = writing(2)
    energies = scores(activities, w)
    pi = probabilities(energies)
    gain = [log_pi(energies, y) for y in range(2)]
    second = [[-Derivative(gain[0], w[i, 0], w[k, 0]) for k in range(3)] for i in range(3)]
    spread = pi[0] * (1 - pi[0])
    yield paper("eq. 18", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "h_ii^y, but for the dampening, is the term sum_t a_i^2 pi(y)(1 - pi(y)) of the Hessian of -log pi.",
        Equal(second[1][1], activities[1] ** 2 * spread),
        mutation=changed("a_i^2 read as a_i", rhs=activities[1] * spread),
        quote=r"\displaystyle=\varepsilon_{y}+\sum_{t=0}^{T-1}\chi_{t}\,(a_{i}^{t})^{2}\pi_{t}",
    )
    yield paper("eq. 19", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "h_0i^y is the term sum_t a_i pi(y)(1 - pi(y)) between unit i and unit 0.",
        Equal(second[0][1], activities[1] * spread),
        mutation=changed("a_i read as a_i^2", rhs=activities[1] ** 2 * spread),
        quote=r"\displaystyle=\sum_{t=0}^{T-1}\chi_{t}\,a_{i}^{t}\,\pi_{t}(y)(1-\pi_{t}(y))",
    )
    quotes = (
        "Update the weights using the quasi-diagonal reduction of the inverse Hessian",
        "the constant terms are transferred to the always-activated unit",
    )
    yield from quasi_diagonal(("eq. 20", "eq. 21"), quotes, "W", "h")


def quasi_diagonal(labels: tuple[str, str], quotes: tuple[str, str], gradient: str, metric: str) -> Iterator[Entry]:
    """The pair of equations, for one and for two units; h_12 = h_01 h_02/h_00 is what `orthogonal` means after centring."""
    G = [Symbol(f"{gradient}_{i}", real=True) for i in range(3)]
    m00, m01, m02, m11, m22 = (Symbol(f"{metric}_{{{k}}}", positive=True) for k in ("00", "01", "02", "11", "22"))

    def step(i: int) -> Expr:
        side, own = (m01, m11) if i == 1 else (m02, m22)
        return (G[i] - G[0] * side / m00) / (own - side**2 / m00)

    pair = ImmutableDenseMatrix([[m00, m01], [m01, m11]])
    centred = ImmutableDenseMatrix([[m00, m01, m02], [m01, m11, m01 * m02 / m00], [m02, m01 * m02 / m00, m22]])
    zero = G[0] / m00 - m01 / m00 * step(1) - m02 / m00 * step(2)
    exact = centred.inv() * ImmutableDenseMatrix(G)
    yield paper(labels[0], given="the metric is invertible", sizes="1 and 2 units beside unit 0").says(
        "The quasi-diagonal step of unit i solves the 2 by 2 system of units 0 and "
        "i: (G_i - G_0 m_0i/m_00)/(m_ii - m_0i^2/m_00).",
        Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[1], step(1)),
        Equal(exact[2], step(2)),
        mutation=changed("m_0i^2 read as m_0i", rhs=(G[1] - G[0] * m01 / m00) / (m11 - m01 / m00)),
        remark="exact for one unit, and for two whose centred activities are orthogonal",
        quote=quotes[0],
    )
    yield paper(labels[1], given="the metric is invertible", sizes="1 and 2 units beside unit 0").says(
        "The constant terms go to unit 0: G_0/m_00 minus the sum over i of m_0i/m_00 times the step of i.",
        Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[0], G[0] / m00 - m01 / m00 * step(1)),
        Equal(exact[0], zero),
        mutation=changed("minus read as plus", rhs=G[0] / m00 + m01 / m00 * step(1)),
        remark="exact for one unit, and for two whose centred activities are orthogonal",
        quote=quotes[1],
    )


def step_of(i: int) -> tuple[Expr, list[Symbol], list[Symbol], ImmutableDenseMatrix]:
    """log pi_t(x_t) + sum_j B_j V_j(t + 1), whose slope in V_i is what (22) and (81) say: to first order nothing else counts."""
    V = [Symbol(f"V_{k}", real=True) for k in (1, 2)]
    B = [Symbol(f"B_{k}", real=True) for k in (1, 2)]
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    w = writing(2)
    active = ImmutableDenseMatrix([1, s(V[0]), s(V[1])])
    later = [V[j] + sum(active[k] * tau[k, j] for k in range(3)) for j in range(2)]
    return log_pi(scores(active, w), i), V, B, ImmutableDenseMatrix(later)


def backward_pass() -> Iterator[Entry]:
    """Eqs. (22) to (25)."""
    chi = Symbol("chi", real=True)
    gain, V, B, later = step_of(0)
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    w = writing(2)
    pi = probabilities(scores(ImmutableDenseMatrix([1, s(V[0]), s(V[1])]), w))
    whole = chi * gain + B[0] * later[0] + B[1] * later[1]

    def printed(i: int, of: Expr) -> Expr:
        expected = sum(pi[y] * w[i, y] for y in range(2))
        return B[i - 1] + Derivative(s(V[i - 1]), V[i - 1]) * (
            of * (w[i, 0] - expected) + sum(tau[i, j] * B[j] for j in range(2))
        )

    yield paper("eq. 22", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "B_i(t) = B_i(t+1) + s'(V_i)(chi (w_ix - sum_y pi(y) w_iy) + sum_j tau_ijx B_j(t+1)).",
        Equal(column(*(Derivative(whole, V[i - 1]) for i in (1, 2))), column(*(printed(i, chi) for i in (1, 2)))),
        mutation=Mutation(
            "sum over j without j = i",
            Equal(Derivative(whole, V[0]), printed(1, chi) - Derivative(s(V[0]), V[0]) * tau[1, 0] * B[0]),
        ),
        remark="for any activation function s; with B(T) = 0 it gives all times by induction",
        quote="This is the derivative of data log-likelihood with respect to V_{i}^{t}",
    )
    slope = Symbol("s'", real=True)
    yield paper("eq. 23", sizes="2 units beside unit 0").says(
        "The RUOP modulus is B^2: the outer product of the derivative in tau_ki, a_k B_i, is a_k a_l B_i^2.",
        Equal(Derivative(whole, tau[1, 0]) * Derivative(whole, tau[2, 0]), s(V[0]) * s(V[1]) * B[0] ** 2),
        mutation=changed("B^2 read as B", rhs=s(V[0]) * s(V[1]) * B[0]),
        quote=r"\tilde{m}_{i}^{t}=(B^{t}_{i})^{2} (23)",
    )
    m = [Symbol(f"m_{k}", positive=True) for k in (1, 2)]
    spread = Symbol("var", positive=True)
    jacobian, steep = [Derivative(later[j], V[0]) for j in range(2)], {Derivative(s(V[0]), V[0]): slope}
    general = slope**2 * chi * spread + sum(jacobian[j] ** 2 * m[j] for j in range(2))
    explicit = slope**2 * (chi * spread + tau[1, 1] ** 2 * m[1]) + (1 + tau[1, 0] * slope) ** 2 * m[0]
    yield paper("eq. 24", sizes="2 units beside unit 0").says(
        "The RBPM modulus goes back by s'^2 (chi var(w) + sum_{j != i} tau_ij^2 m_j) + (1 + tau_ii s')^2 m_i.",
        Equal(general, explicit, steep),
        mutation=changed("1 + tau_ii s' read as tau_ii s'", rhs=explicit - (1 + 2 * tau[1, 0] * slope) * m[0]),
        remark="from (63) and (64), with chi inside",
        quote="which, plugged into the above, yields the explicit equation (24) given in the algorithm description",
    )
    yield paper("eq. 25", sizes="2 units beside unit 0, 1 step").says(
        "The derivative in tau_ijx is sum_t 1[x_t = x] a_i(t) B_j(t+1).",
        Equal(
            Matrix(3, 2, lambda k, j: Derivative(whole, tau[k, j])).as_immutable(),
            Matrix(3, 2, lambda k, j: [1, s(V[0]), s(V[1])][k] * B[j]).as_immutable(),
        ),
        mutation=Mutation("a_j B_i", Equal(Derivative(whole, tau[1, 1]), s(V[1]) * B[0])),
        quote=r"this is the derivative of the log-likelihood with respect to \tau_{ijx}",
    )


def transition_metric() -> Iterator[Entry]:
    """Eqs. (26) to (29), (34) and (35)."""
    _, V, _, _ = step_of(0)
    first, second, c1, c2 = (Symbol(name, real=True) for name in ("a_11", "a_12", "c_1", "c_2"))
    other = [Symbol("a_21", real=True), Symbol("a_22", real=True)]
    gram = ImmutableDenseMatrix(
        [
            [c1**2 * first**2 + c2**2 * other[0] ** 2, c1**2 * first * second + c2**2 * other[0] * other[1]],
            [c1**2 * first * second + c2**2 * other[0] * other[1], c1**2 * second**2 + c2**2 * other[1] ** 2],
        ]
    )
    k1, k2 = Symbol("k_1", real=True), Symbol("k_2", real=True)
    form = (ImmutableDenseMatrix([[k1, k2]]) * gram * ImmutableDenseMatrix([k1, k2]))[0]
    yield paper("eq. 26", sizes="2 units, 2 steps").says(
        "The matrix sum_t a_i a_i' m is not negative: its form is sum_t m (sum_i a_i k_i)^2.",
        Equal(form, c1**2 * (first * k1 + second * k2) ** 2 + c2**2 * (other[0] * k1 + other[1] * k2) ** 2),
        mutation=changed(
            "m of one step negative", rhs=c1**2 * (first * k1 + second * k2) ** 2 - c2**2 * (other[0] * k1 + other[1] * k2) ** 2
        ),
        remark="m = c^2",
        quote=r"\tilde{M}^{(jy)}_{ii^{\prime}}=\sum_{t=0}^{T-1}\mathbbm{1}_{x_{t}=y}\,a^{t}",
    )
    yield paper("eq. 27", sizes="2 units").says(
        "With one step the matrix has rank one; the dampening makes it invertible.",
        Equal(gram.subs(c2, 0).det(), S.Zero),
        Equal((gram.subs(c2, 0) + eye(2)).det(), 1 + c1**2 * (first**2 + second**2)),
        mutation=changed("with two steps", lhs=gram.det()),
        remark="eps = 1",
        quote=r"Dampen the matrix \tilde{M}^{(jy)}_{ii^{\prime}} by adding \varepsilon to the diagonal",
    )
    g1, g2 = Symbol("G_1", real=True), Symbol("G_2", real=True)
    G = ImmutableDenseMatrix([g1, g2])
    det = gram.det()
    yield paper("eq. 28", sizes="2 units, 2 steps").says(
        "The step M^-1 G goes uphill: G^T M^-1 G det M is a sum of squares.",
        Equal(
            (G.T * gram.adjugate() * G)[0], c1**2 * (second * g1 - first * g2) ** 2 + c2**2 * (other[1] * g1 - other[0] * g2) ** 2
        ),
        Equal(det, c1**2 * c2**2 * (first * other[1] - second * other[0]) ** 2),
        mutation=changed("M^-1 read as -M^-1", lhs=-(G.T * gram.adjugate() * G)[0]),
        remark="up to first order in the learning rate",
        quote="Gradient ascents come with a guarantee of improvement at each step if the learning rate is small enough",
    )
    eps, start, L = Symbol("eps", positive=True), Symbol("tau_0", real=True), Function("L", real=True)
    backed, moduli = ([Symbol(f"{name}_{t}", positive=True) for t in range(4)] for name in "Bm")
    metric, gradient = (sum(int(symbol == 0) * each[k] for k, symbol in enumerate((0, 1, 2, 1))) for each in (moduli, backed))
    yield paper("eq. 29", sizes="4 symbols read").says(
        "The start V_j(0) moves as tau_0jy for a dummy symbol y read before all others: by (25) to (28), B_j(0)/(m_j(0) + eps).",
        Equal(gradient / (metric + eps), backed[0] / (moduli[0] + eps)),
        Equal(Derivative(L(V[0] + start), start), Subs(Derivative(L(V[0]), V[0]), V[0], V[0] + start)),
        mutation=changed("m_j(0) read as m_j(1)", rhs=backed[0] / (moduli[1] + eps)),
        remark="the dummy is read at time -1 with a_0 = 1, and its weight added to V_j(0): the derivative in either is B_j(0)",
        quote=r"this would be the update of \tau_{ijy} with i=0 and y a special dummy symbol read at startup",
    )
    quotes = (
        r"The update of the transition parameters \tau_{ijy} becomes as follows",
        r"Thus only the terms \tilde{M}_{ii} and \tilde{M}_{0i} of the matrix are used",
    )
    yield from quasi_diagonal(("eq. 34", "eq. 35"), quotes, "G", "M")
