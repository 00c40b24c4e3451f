r"""Ollivier 2013, appendices B and C: backpropagation through time for GLNNs, and the Fisher metric of a softmax.

    B_i(t) = B_i(t+1) + s'(V_i) (w_ix - sum pi w_iy + sum_j tau_ijx B_j(t+1))      (81)
    d log P_T = d log P_t + sum B dV + sum C dw + sum D dtau                       (89), by induction from T back
    d log pi(y)/dE_y' = 1[y = y'] - pi(y')                                         (99)

Checked for two or three symbols, two units beside unit 0, and one step back in time, which gives all by induction.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Function, ImmutableDenseMatrix, Matrix, S, Subs, Symbol, log
from sympy import symbols as letters

from derivations.claim import Correction, Entry, Equal, Mutation, changed
from derivations.prover.identity import column
from derivations.texts.ollivier_networks import SIZES, activities, log_pi, paper, probabilities, scores, step_of, writing

eps = Symbol("eps", real=True)
s = Function("s", real=True)
E = list(letters("E_1:4", real=True))
changes = list(letters("d_1:4", real=True))
pi = probabilities(E)


gain, V, B, later = step_of(0)
tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
w = writing(2)
active = ImmutableDenseMatrix([1, s(V[0]), s(V[1])])
q = probabilities(scores(active, w))
slopes = [Derivative(s(k), k) for k in V]
excess = [w[i, 0] - sum(q[y] * w[i, y] for y in range(2)) for i in range(3)]
back = [B[i] + slopes[i] * (excess[i + 1] + sum(tau[i + 1, j] * B[j] for j in range(2))) for i in range(2)]


def proposition() -> Iterator[Entry]:
    """Proposition 11, eq. (80)."""
    L, (v1, v2) = Function("L", real=True), letters("v_1 v_2", real=True)
    probe = Subs(Derivative(L(v1 + eps, v2), eps), eps, 0)
    yield paper("eq. 80", sizes="2 units").says(
        "B_j(t) is the derivative of log Pr in V_j(t): the effect of adding eps there.",
        Equal(probe, Derivative(L(v1, v2), v1)),
        mutation=changed("of another unit", rhs=Derivative(L(v1, v2), v2)),
        quote="In particular B^{0}_{j} gives the derivative with respect to the initial values V^{0}_{j} at time 0",
    )
    yield paper("prop. 11, meaning").says(
        "Adding eps to V_j(t+1) in its evolution equation changes log P_T by eps B_j(t) + O(eps^2).",
        Equal(Derivative(gain + B[0] * (later[0] + eps) + B[1] * later[1], eps), back[0]),
        correction=Correction(
            "By eps B_j(t+1): it is V(t+1) that was changed.",
            Equal(Derivative(gain + B[0] * (later[0] + eps) + B[1] * later[1], eps), B[0]),
        ),
        remark="B_1 and B_2 are the values at t + 1; " + SIZES,
        quote=r"then the value of \log P_{T} changes by \varepsilon B^{t}_{j}+O(\varepsilon^{2})",
    )
    yield paper("prop. 11, index").says(
        "In the evolution equation V_j(t+1) = V_j + sum_j tau_ijx a_i the sum is over j.",
        Equal(later[0], V[0] + sum(tau[1, j] * active[1] for j in range(2))),
        correction=Correction(
            "It is over i, the units that j listens to, as in (13): after the sum over j no j is left.",
            *(Equal(Derivative(later[0], tau[i, 0]), active[i]) for i in range(3)),
        ),
        remark="j = 1 on the left, and i, which nothing binds, read as 1; printed twice in the sentence",
        quote=r"if, in the equation V^{t+1}_{j}=V^{t}_{j}+\sum_{j}\tau_{ijx_{t}}a^{t}_{i} defining GLNNs",
    )


def expressions() -> Iterator[Entry]:
    """Eqs. (17), (22), (25) of section 2, with chi_t; (81) to (85) and (95) of the appendix, where chi_t = 1."""
    chi = Symbol("chi", real=True)
    whole = chi * gain + B[0] * later[0] + B[1] * later[1]

    def told(weights: ImmutableDenseMatrix) -> ImmutableDenseMatrix:
        """The right side of (22), of the weights between the two units."""
        through = weights * ImmutableDenseMatrix(B)
        return column(*(B[i] + slopes[i] * (chi * excess[i + 1] + through[i]) for i in range(2)))

    on_levels = paper("eq. 22", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "B_i(t) = B_i(t+1) + s'(V_i)(chi (w_ix - sum_y pi(y) w_iy) + sum_j tau_ijx B_j(t+1)).",
        Equal(column(*(Derivative(whole, k) for k in V)), told(tau[1:, :])),
        mutation=changed("tau_ijx read as tau_jix", rhs=told(tau[1:, :].T)),
        remark="for any s, and so for all steps by induction from B(T) = 0",
        quote="This is the derivative of data log-likelihood with respect to V_{i}^{t}",
    )
    on_writing = paper("eq. 17", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "The derivative in w_iy is sum_t chi_t a_i (1[x_t = y] - pi_t(y)).",
        Equal(
            Matrix(3, 2, lambda i, y: Derivative(whole, w[i, y])).as_immutable(),
            Matrix(3, 2, lambda i, y: chi * active[i] * ((1 if y == 0 else 0) - q[y])).as_immutable(),
        ),
        mutation=Mutation("the other sign", Equal(Derivative(whole, w[1, 0]), -chi * active[1] * (1 - q[0]))),
        remark="unit 0 included; x_t is the first symbol",
        quote=r"W_{iy}=\sum_{t}\chi_{t}\,a_{i}^{t}\left(\mathbbm{1}_{x_{t}=y}-\pi_{t}(y)\right) (17)",
    )
    on_transitions = paper("eq. 25", sizes="2 units beside unit 0, 1 step").says(
        "The derivative in tau_ijx is sum_t 1[x_t = x] a_i(t) B_j(t+1).",
        Equal(
            Matrix(3, 2, lambda i, j: Derivative(whole, tau[i, j])).as_immutable(),
            Matrix(3, 2, lambda i, j: active[i] * B[j]).as_immutable(),
        ),
        mutation=Mutation("B_j(t)", Equal(Derivative(whole, tau[1, 0]), active[1] * back[0])),
        remark="unit 0 included",
        quote=r"this is the derivative of the log-likelihood with respect to \tau_{ijx}",
    )
    yield from (on_levels, on_writing, on_transitions)
    yield paper("eq. 81").repeats(on_levels, "we have the backpropagation relation")
    yield paper("eq. 82").repeats(on_writing, r"\frac{\partial\log\Pr\nolimits(x)}{\partial w_{iy}}=\sum_{t}a_{i}^{t}\left(")
    yield paper("eq. 83").repeats(
        on_transitions,
        r"and the derivatives with respect to the transition weights are "
        r"\frac{\partial\log\Pr\nolimits(x)}{\partial\tau_{ijy}}=\sum_{t}\mathbbm{1}_{x_",
    )
    yield paper("eq. 95").repeats(on_levels, "from which the expressions for")
    p = [Symbol(f"pi_{k}", positive=True) for k in (1, 2, 3)]
    product = S.One
    for k in p:
        product = k * product
    before, wrong = Symbol("P_t", positive=True), Symbol("P_i", positive=True)
    energies = scores(active, w)
    yield paper("eq. 85").says(
        "log P_{t+1} = log P_i + sum_i a_i w_ix - log(sum_y e^(sum_i a_i w_iy)).",
        Equal(log(before * q[0]), log(wrong) + log_pi(energies, 0)),
        correction=Correction(
            "log P_t stands on the right, not log P_i: it is the logarithm of (84) with (46).",
            Equal(log(before * q[0]), log(before) + log_pi(energies, 0)),
        ),
        remark="an index; it may be the extraction's",
        quote=r"\log P_{t+1}=\log P_{i}+\sum_{i}a^{t}_{i}w_{ix_{t}}-\log\left(\sum_{y}",
    )


dw = ImmutableDenseMatrix(3, 2, lambda i, y: Symbol(f"dw_{{{i}{y + 1}}}", real=True))
dv = [Symbol("dV_1", real=True), Symbol("dV_2", real=True)]
moved = [V[k] + eps * dv[k] for k in range(2)]
dt_ = ImmutableDenseMatrix(3, 2, lambda i, j: Symbol(f"dtau_{{{i}{j + 1}}}", real=True))
act = [S.One, s(moved[0]), s(moved[1])]
next_ = [moved[j] + sum((tau[i, j] + eps * dt_[i, j]) * act[i] for i in range(3)) for j in range(2)]
together = log_pi(scores(ImmutableDenseMatrix(act), w + eps * dw), 0) + B[0] * next_[0] + B[1] * next_[1]
total = Subs(Derivative(together, eps), eps, 0)
C = [[active[i] * ((1 if y == 0 else 0) - q[y]) for y in range(2)] for i in range(3)]


def of_voltages() -> Iterator[Entry]:
    """The differentials of the proof, eqs. (86) to (94)."""
    da = [S.Zero, Symbol("da_1", real=True), Symbol("da_2", real=True)]
    a = activities
    moving = log_pi(scores(ImmutableDenseMatrix([a[i] + eps * da[i] for i in range(3)]), w + eps * dw), 0)
    first = Subs(Derivative(moving, eps), eps, 0)
    p2 = probabilities(scores(a, w))
    printed = sum(a[i] * dw[i, 0] + w[i, 0] * da[i] for i in range(3)) - sum(
        p2[y] * sum(a[i] * dw[i, y] + w[i, y] * da[i] for i in range(3)) for y in range(2)
    )
    yield paper("eq. 86", sizes="2 units beside unit 0, 2 symbols").says(
        "To first order log P_{t+1} - log P_t varies by sum a dw_ix + sum w_ix da - sum_y pi(y)(sum a dw_iy + sum w_iy da).",
        Equal(first, printed),
        mutation=changed(
            "without pi(y)",
            rhs=sum(a[i] * dw[i, 0] + w[i, 0] * da[i] for i in range(3))
            - sum(a[i] * dw[i, y] + w[i, y] * da[i] for i in range(3) for y in range(2)),
        ),
        quote=r"By a first-order Taylor expansion, the variation of \log P_{t+1} satisfies",
    )
    shift = Subs(Derivative(s(V[0] + eps * dv[0]), eps), eps, 0)
    yield paper("eq. 87").says(
        "da_i = s'(V_i) dV_i.",
        Equal(shift, slopes[0] * dv[0]),
        mutation=Mutation("s read for s'", Equal(shift.doit(), s(V[0]) * dv[0])),
        quote=r"where s^{\prime} is the derivative of the activation function, this yields",
    )
    names = dict(zip((a[1], a[2], da[1], da[2]), (s(V[0]), s(V[1]), slopes[0] * dv[0], slopes[1] * dv[1]), strict=True))
    arranged = sum(active[i] * (dw[i, 0] - sum(q[y] * dw[i, y] for y in range(2))) for i in range(3)) + sum(
        excess[i + 1] * slopes[i] * dv[i] for i in range(2)
    )
    yield paper("eq. 88", sizes="2 units beside unit 0, 2 symbols").says(
        "Rearranged: sum a_i (dw_ix - sum pi dw_iy) + sum (w_ix - sum pi w_iy) s'(V_i) dV_i.",
        Equal(printed, arranged, names),
        mutation=changed("s' left out", rhs=arranged + (1 - slopes[0]) * excess[1] * dv[0]),
        quote="and rearranging and substituting",
    )
    expanded = (
        sum(back[i] * dv[i] for i in range(2))
        + sum(C[i][y] * dw[i, y] for i in range(3) for y in range(2))
        + sum(active[i] * B[j] * dt_[i, j] for i in range(3) for j in range(2))
    )
    induced = paper("eq. 89", sizes="2 units beside unit 0, 2 symbols, 1 step back").says(
        "The differential of log P_T has the form sum B dV + sum C dw + sum D dtau at t, if it has at t + 1.",
        Equal(total, expanded),
        mutation=Mutation("B(t+1) for B(t)", Equal(total.doit(), expanded + sum((B[i] - back[i]) * dv[i] for i in range(2)))),
        remark="C and D are the step's own terms of (93) and (94), B is (95)",
        quote=r"Let us assume, by backward induction, that we can write the differential of "
        r"\log P_{T} with respect to the parameters, as",
    )
    yield induced
    parts = {
        "eq. 90": (
            "C at time 0 is the derivative in w: with dV = dtau = 0 only its terms are left.",
            r"C and D will cumulatively compute the gradient of \log P_{T} with respect to the parameters w and \tau",
        ),
        "eq. 91": (
            "D at time 0 is the derivative in tau: with dV = dw = 0 only its terms are left.",
            r"\frac{\partial\log\Pr\nolimits(x)}{\partial\tau_{ijy}}=D^{0}_{ijy} (91)",
        ),
        "eq. 93": (
            "C_iy(t) = C_iy(t+1) + 1[x_t = y] a_i - pi(y) a_i.",
            r"C^{t}_{iy}=C^{t+1}_{iy}+\mathbbm{1}_{x_{t}=y}\,a^{t}_{i}-\pi_{t}(y)a^{t}_{i} (93)",
        ),
        "eq. 94": (
            "D_ijy(t) = D_ijy(t+1) + 1[x_t = y] a_i B_j(t+1).",
            r"D^{t}_{ijy}=D^{t+1}_{ijy}+\mathbbm{1}_{x_{t}=y}\,a^{t}_{i}B^{t+1}_{j} (94)",
        ),
    }
    for label, (words, quote) in parts.items():
        yield paper(label).repeats(induced, quote, words)
    dnext = [Subs(Derivative(k, eps), eps, 0) for k in next_]
    evolution = [
        dv[j] + sum(dt_[i, j] * active[i] for i in range(3)) + sum(tau[i + 1, j] * slopes[i] * dv[i] for i in range(2))
        for j in range(2)
    ]
    yield paper("eq. 92", sizes="2 units beside unit 0").says(
        "dV_j(t+1) = dV_j + sum dtau_ijx a_i + sum tau_ijx s'(V_i) dV_i.",
        Equal(column(*dnext), column(*evolution)),
        mutation=Mutation("without dV_j", Equal(dnext[0].doit(), evolution[0] - dv[0])),
        quote=r"Using the evolution equation V^{t+1}_{j}=V^{t}_{j}+\sum_{i}\tau_{ijx_{t}}a^{t}_{i} we find",
    )


gains = [log_pi(E, y) for y in range(3)]
slope = [[Derivative(gains[y], E[k]) for k in range(3)] for y in range(3)]
change = [sum(slope[y][k] * changes[k] for k in range(3)) for y in range(3)]
squared = sum(pi[y] * change[y] ** 2 for y in range(3))
mean = sum(pi[y] * changes[y] for y in range(3))
norm = sum(pi[y] * changes[y] ** 2 for y in range(3)) - mean**2


def fisher_matrix() -> Iterator[Entry]:
    """Appendix C, eqs. (96) to (98): three symbols."""
    moved = [Derivative(log_pi([e + eps * d for e, d in zip(E, changes, strict=True)], y), eps).subs(eps, 0) for y in range(3)]
    scale = Symbol("lambda", positive=True)
    doubled = squared.subs({d: scale * d for d in changes}, simultaneous=True)
    yield paper("eq. 97").says(
        "The norm |d pi| itself is E (d log pi)^2.",
        Equal(doubled, scale * squared),
        correction=Correction(
            "The square of the norm is: E (d log pi)^2 grows with the square of d, as (45) and (102) print it.",
            Equal(doubled, scale**2 * squared),
            Equal(squared, norm),
        ),
        remark="a norm of lambda d is lambda times that of d; the exponent may have been lost in the extraction",
        quote=r"\displaystyle=\mathbb{E}_{y\sim\pi_{t}}(\hskip 0.5pt\delta\hskip-0.5pt\log\pi_% {t}(y))^{2} (97)",
    )
    triples = [(y, i, k) for y in range(3) for i in range(3) for k in range(3)]
    double = sum(pi[y] * slope[y][i] * slope[y][k] * changes[i] * changes[k] for y, i, k in triples)
    yield paper("eq. 98", sizes="3 symbols").says(
        "With (96), d log pi(y) = sum_y' (d log pi(y)/dE_y') dE_y', (97) is E of the sum over y', y'' of the products of "
        "derivatives, a bilinear form in dE.",
        Equal(column(*moved), column(*change)),
        Equal(squared, double),
        mutation=Mutation("only y' = y in (96)", Equal(moved[0], slope[0][0] * changes[0])),
        quote=r"\displaystyle=\mathbb{E}_{y\sim\pi_{t}}\left[\sum_{y^{\prime},y^{\prime\prime}",
    )


def exponential_family() -> Iterator[Entry]:
    """Eqs. (99) to (102), and (47)."""
    right = Matrix(3, 3, lambda y, k: (1 if y == k else 0) - pi[k]).as_immutable()
    yield paper("eq. 99", sizes="3 symbols").says(
        "d log pi(y)/dE_y' = 1[y = y'] - pi(y').",
        Equal(Matrix(slope).as_immutable(), right),
        mutation=Mutation("pi(y)", Equal(slope[0][1], -pi[0])),
        quote=r"\frac{\partial\log\pi_{t}(y)}{\partial E_{y^{\prime}}}=\mathbbm{1}_{y=y^",
    )
    expected = Matrix(3, 3, lambda i, k: sum(pi[y] * slope[y][i] * slope[y][k] for y in range(3))).as_immutable()
    closed = Matrix(3, 3, lambda i, k: pi[i] * ((1 if i == k else 0) - pi[k])).as_immutable()
    yield paper("eq. 101", sizes="3 symbols").says(
        "E of the products (100), whose factors 1[y = y'] - pi(y') have mean 0, is pi(y') (1[y' = y''] - pi(y'')).",
        Equal(expected, closed),
        Equal(column(*(sum(pi[y] * right[y, k] for y in range(3)) for k in range(3))), column(0, 0, 0)),
        mutation=Mutation("+ pi(y'')", Equal(expected[0, 1], pi[0] * pi[1])),
        quote=r"\displaystyle=\pi_{t}(y^{\prime})(\mathbbm{1}_{y^{\prime}=y^{\prime\prime}}-% \pi_{t}(y^{\prime\prime})) (101)",
    )
    spread = sum(pi[i] * pi[k] * (changes[i] - changes[k]) ** 2 for i in range(3) for k in range(i))
    squares = paper("eq. 102", sizes="3 symbols").says(
        "|d pi|^2 = sum pi dE^2 - sum pi pi' dE dE', which is not negative, and 0 where all dE are equal.",
        Equal(squared, norm),
        Equal(norm, spread),
        mutation=changed("minus read as plus", rhs=norm + 2 * mean**2),
        quote=r"Consequently, the Fisher metric for \pi_{t}, expressed in terms of the variations",
    )
    yield squares
    yield paper("eq. 47").repeats(squares, "by standard arguments for exponential families, found to be")
