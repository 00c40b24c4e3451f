r"""Ollivier 2013, sections 3.2, 3.4 and 3.5, equation by equation: metrics of a softmax output and of networks.

    2 KL(pi | pi + d) = sum d^2/pi + O(d^3)                            (44), (45)
    B_i^2 (dV_i/dtheta_k)(dV_i/dtheta_k')                              (55)
    m_i(t) = s'^2 var_pi(w_i) + sum_j (dV_j(t+1)/dV_i(t))^2 m_j(t+1)   (63)

Checked for two or three symbols, two units beside unit 0, and one step back in time, which gives all by induction.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, Function, ImmutableDenseMatrix, Matrix, S, Subs, Symbol, diag, log
from sympy import symbols as letters

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Mutation, changed
from derivations.prover.identity import column
from derivations.texts.ollivier_networks import activities, log_pi, paper, probabilities, scores, step_of, writing

eps = Symbol("eps", real=True)
s = Function("s", real=True)
E = list(letters("E_1:4", real=True))
pi = probabilities(E)


def of_probabilities() -> Iterator[Entry]:
    """Eqs. (44), (45) and (47)."""
    a, b = letters("pi_1 pi_2", positive=True)
    u, w_ = letters("delta_1 delta_2", real=True)
    whole, moves = [a, b, 1 - a - b], [u, w_, -u - w_]
    divergence = 2 * sum(k * (log(k) - log(k + eps * d)) for k, d in zip(whole, moves, strict=True))
    norm = sum(d**2 / k for k, d in zip(whole, moves, strict=True))
    relative = {change: d / k for change, k, d in zip(letters("l_1:4", real=True), whole, moves, strict=True)}
    yield paper("eq. 45", given=("delta sums to 0", "pi is positive, and sums to 1"), sizes="3 symbols").says(
        "2 KL(pi | pi + delta), (44), is at second order sum delta^2/pi = E (delta log pi)^2.",
        Expands(divergence, eps, eps**2 * norm, 3),
        Equal(sum(k * change**2 for k, change in zip(whole, relative, strict=True)), norm, relative),
        mutation=changed("without the 2", expression=divergence / 2),
        quote=r"\displaystyle=\sum_{x\in\mathcal{A}}\frac{(\hskip 0.5pt\delta\hskip-0.5pt\pi(x",
    )
    curvature = [Matrix(3, 3, lambda i, k, y=y: -Derivative(log_pi(E, y), E[i], E[k])).as_immutable() for y in range(3)]
    expected = Matrix(3, 3, lambda i, k: pi[i] * ((1 if i == k else 0) - pi[k])).as_immutable()
    yield paper("eq. 47, Hessian", sizes="3 symbols").says(
        "It is also the Hessian of -log pi(y'') in E, the same for every y''.",
        *(Equal(each, expected) for each in curvature),
        mutation=changed("of log pi", lhs=-curvature[0]),
        quote=r"By a property of exponential families, this is also, for any y^{\prime\prime}, the Hessian of "
        r"-\log\pi_{t}(y^{\prime\prime}) with respect to the variables E^{t}",
    )


tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
_, V, B, later = step_of(0)
w, m = writing(2), [Symbol(f"m_{k}", positive=True) for k in (1, 2)]
active = ImmutableDenseMatrix([1, s(V[0]), s(V[1])])


def coefficient(e: Expr, order: int) -> Expr:
    return Subs(Derivative(e, eps, order), eps, 0) / order


slopes, mi = [Derivative(s(k), k) for k in V], Symbol("m", positive=True)


def recurrent_outer_products() -> Iterator[Entry]:
    """Eqs. (23) and (57)."""
    slope = ImmutableDenseMatrix([Derivative(B[0] * later[0] + B[1] * later[1], tau[k, 0]) for k in range(3)])
    outer = paper("eq. 57", sizes="2 units beside unit 0, 1 step").says(
        "The term of tau_ji and tau_j'i in the metric of unit i is a_j a_j' B_i^2: units that i hears are not independent.",
        Equal(slope * slope.T, active * active.T * B[0] ** 2),
        Fails(Equal(slope[1] * slope[2], S.Zero)),
        mutation=changed("B^2 read as B", rhs=active * active.T * B[0]),
        remark="all of the matrix (55) for one symbol; sums over time add such terms",
        quote=r"Third, different units j and j^{\prime} connected to the same unit i are not independent",
    )
    yield outer
    words = "The RUOP modulus is B^2: the outer product of the derivatives in tau_ki and tau_li is a_k a_l B_i^2."
    yield paper("eq. 23").repeats(outer, r"\tilde{m}_{i}^{t}=(B^{t}_{i})^{2} (23)", words)


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

    def added(power: int) -> Expr:
        """What (58) adds up when a_1 is moved by eps da: 2 KL(pi | pi'), and m_j times a power of the change of a_j later."""
        there = [log_pi(scores(ImmutableDenseMatrix([1, a[1] + eps * da, a[2]]), w), y) for y in range(2)]
        divergence = 2 * sum(p[y] * (gain[y] - there[y]) for y in range(2))
        return divergence + sum(m[j] * (follow[j](a[1] + eps * da) - follow[j](a[1])) ** power for j in range(2))

    modulus = spread + sum(Derivative(follow[j](a[1]), a[1]) ** 2 * m[j] for j in range(2))
    yield paper("eq. 59", sizes="2 units beside unit 0, 2 symbols").says(
        "The norm of the change of pi is da^2 times the pi-variance of w_iy; translating the weights changes nothing.",
        Equal(natural, spread * da**2),
        Equal(spread.subs(translated, simultaneous=True), spread),
        mutation=changed("the second moment", rhs=sum(p[y] * w[1, y] ** 2 for y in range(2)) * da**2),
        quote=r"i.e., proportional to the \pi_{t}-variance of w_{iy} (in line with the fact "
        r"that translating weights does not change output)",
    )
    yield paper("eq. 61", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "What (58) adds up is 0 to first order and m_i da_i^2 to second, m_i(t) being var_pi(w_i) plus the sum over j of "
        "(da_j(t+1)/da_i(t))^2 m_j(t+1).",
        Equal(coefficient(added(2), 1), S.Zero),
        Equal(coefficient(added(2), 2), modulus * da**2),
        mutation=changed("changes for their squares", lhs=coefficient(added(1), 1)),
        remark="|d pi|^2 = 2 KL as in (44); any dependence F_j of the later activities on a_1",
        quote="in which one recognizes a source term from the output at time t, and a term transmitted from t+1 to t",
    )


def in_voltages() -> Iterator[Entry]:
    """Eqs. (62) to (64): in V instead of a."""
    dV = Symbol("dV", real=True)
    in_v = coefficient(mi * (s(V[0] + eps * dV) - s(V[0])) ** 2, 2)
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
    yield paper("eq. 68", sizes="2 units beside unit 0, 1 step").says(
        "Entry by entry, (66), it is m~_i a_j a_j' for GLNNs, so that (67) and (68) sum these over time.",
        Equal(matrix, mi * active * active.T),
        mutation=changed("only j = j'", rhs=mi * diag(*(each**2 for each in active))),
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
