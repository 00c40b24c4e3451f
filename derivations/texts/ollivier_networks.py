r"""Ollivier 2013, sections 1 and 2: networks and the algorithm.

    pi(x) = e^(sum_i a_i w_ix) / sum_y e^(sum_i a_i w_iy)         (6)
    V_j <- V_j + sum_i tau_ijx a_i,  a_j = s(V_j)                 (13), the unit Euler step of (12)
    quasi-diagonal steps                                          (20), (21), (34), (35)

Sums are checked for two units beside the always-activated unit 0, two or three symbols, and a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sympy import Eq, Expr, Function, ImmutableDenseMatrix, Matrix, S, Symbol, diff, exp, eye, log, oo, tanh

from derivations.argument.taylor import euler_step
from derivations.claim import Entry, Mutation
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.statements import Equal, Expands, Solves, Tends
from derivations.twins.fields import sigma

__all__ = ["activities", "entries", "log_pi", "probabilities", "scores", "writing", "PAPER", "SIZES", "step_of"]

PAPER = "ollivier-2013-riemannian-metrics-ii"
SIZES = "checked for two units beside unit 0"
alpha, mu, eta = Symbol("alpha", positive=True), Symbol("mu", positive=True), Symbol("eta", positive=True)
v, z, u = Symbol("V", real=True), Symbol("z", real=True), Symbol("u", positive=True)
s = Function("s", real=True)
# a_0 = 1 and two units; rows of w are units, columns symbols.
activities = ImmutableDenseMatrix([1, Symbol("a_1", real=True), Symbol("a_2", real=True)])


def entries() -> Iterator[Entry]:
    return chain(models(), networks(), writing_weights(), transition_weights())


def writing(symbols_read: int) -> ImmutableDenseMatrix:
    return ImmutableDenseMatrix(3, symbols_read, lambda i, y: Symbol(f"w_{{{i}{y + 1}}}", real=True))


def scores(a: ImmutableDenseMatrix, w: ImmutableDenseMatrix) -> list[Expr]:
    """E_y = sum_i a_i w_iy."""
    return list(a.T * w)


def probabilities(energies: Sequence[Expr]) -> list[Expr]:
    total = sum(exp(e) for e in energies)
    return [exp(e) / total for e in energies]


def log_pi(energies: Sequence[Expr], y: int) -> Expr:
    return energies[y] - log(sum(exp(e) for e in energies))


def models() -> Iterator[Entry]:
    """Eqs. (1) to (7)."""
    theta, near, g, k = (Symbol(name, real=True) for name in ("theta", "theta'", "g", "k"))
    f = g * (near - theta) + k * (near - theta) ** 2 / 2
    best = theta + eta * g / (1 - eta * k)
    penalized = f - (theta - near) ** 2 / (2 * eta)
    yield Entry(
        PAPER, "eq. 1",
        "The gradient step theta + eta f' is the maximum of f(theta') - |theta - theta'|^2/(2 eta) up to O(eta^2).",
        (Equal(diff(penalized, near).subs(near, best), S.Zero), Expands(best, eta, theta + eta * g, 2)),
        ("eta is small", "f is smooth"), Mutation("1/(2 eta) read as 1/eta", Expands(theta + eta * g / (2 - eta * k), eta,
         theta + eta * g, 2)),
        remark="for f with slope g and curvature k at theta; the error is eta^2 k g",
        sizes="1 parameter",
        quote=r"for small enough learning rates \eta (where \approx means “up to O(\eta^{2}) when \eta\to 0”)",
    )  # fmt: skip
    p = Function("P", positive=True)(theta)
    yield Entry(
        PAPER, "eq. 2", "The probability of the sequence and its logarithm are largest at the same parameter.",
        (Equal(diff(log(p), theta), diff(p, theta) / p),), mutation=Mutation("log P read as 1/P", Equal(diff(1 / p, theta),
         diff(p, theta) / p)),
        remark="log P rises where P does, since P > 0",
        quote=r"the goal of learning is to find the value of \theta that maximizes "
              r"the probability of the training sequence (x_{t})",
    )  # fmt: skip
    joint = [Symbol(f"p_{k}", positive=True) for k in (1, 2, 3)]
    partial = [joint[0], joint[1] / joint[0], joint[2] / joint[1]]
    yield Entry(
        PAPER, "eq. 3", "log Pr is the sum over t of log Pr(x_t | x_0 ... x_{t-1}).",
        (Equal(sum(log(k) for k in partial), log(joint[2])),),
        mutation=Mutation("conditioned on x_{t-1} alone, once", Equal(sum(log(k) for k in (joint[0], joint[1] / joint[0],
        joint[2] / joint[0])), log(joint[2]))),
        remark="p_k is the probability of the first k symbols",
        sizes="3 symbols read",
        quote=r"\displaystyle=\operatorname*{arg\,max}_{\theta}\sum_{t}\log\Pr\nolimits",
    )  # fmt: skip
    chi = [Symbol(f"chi_{k}", real=True) for k in (1, 2, 3)]
    chosen = sum(c * log(k) for c, k in zip(chi, partial, strict=True))
    yield Entry(
        PAPER, "eq. 4",
        "With only some symbols to be predicted, the sum with chi_t is the log-probability of those given the others.",
        (Equal(chosen.subs(dict(zip(chi, (0, 1, 0), strict=True))), log(joint[1] / joint[0])),
         Equal(chosen.subs(dict.fromkeys(chi, 1)), log(joint[2]))),
        mutation=Mutation("chi read as 1 - chi", Equal(chosen.subs(dict(zip(chi, (1, 0, 1), strict=True))),
        log(joint[1] / joint[0]))),
        sizes="3 symbols read",
        quote=r"In this case the problem is to find the \theta maximizing the probability of those symbols to be predicted",
    )  # fmt: skip
    word = [Symbol(f"p_{k}", positive=True) for k in range(5)]
    labels = [S(t % 2) for t in range(4)]
    yield Entry(
        PAPER, "eq. 5",
        "chi_t = 1 for what is to be predicted, else 0: of y_0 z_0 y_1 z_1 it leaves the labels z, given all before them.",
        (Equal(sum(c * log(word[t + 1] / word[t]) for t, c in enumerate(labels)), log(word[2] / word[1] * word[4] / word[3])),),
        mutation=Mutation("0 for what is to be predicted and 1 otherwise", Equal(
            sum((1 - c) * log(word[t + 1] / word[t]) for t, c in enumerate(labels)), log(word[2] / word[1] * word[4] / word[3]))),
        remark="p_k is the probability of the first k symbols",
        sizes="2 pairs",
        quote=r"might be of the form y_{0}z_{0}y_{1}z_{1}y_{2}z_{2}\ldots where for each instance y_{i} we have to predict the "
              r"corresponding label z_{i}",
    )  # fmt: skip
    w = writing(3)
    pi = probabilities(scores(activities, w))
    shift = {w[1, y]: w[1, y] + z for y in range(3)}
    yield Entry(
        PAPER, "eq. 6", "pi is a distribution, and adding one number to all weights of a unit changes nothing.",
        (Equal(sum(pi), S.One), Equal(column(*(k.subs(shift, simultaneous=True) for k in pi)), column(*pi))),
        mutation=Mutation("to one weight only", Equal(pi[0].subs(w[1, 0], w[1, 0] + z), pi[0])),
        sizes="2 units beside unit 0, 3 symbols",
        quote=r"the network outputs a random symbol x\in\mathcal{A} with probabilities given by the exponential of the "
              r"writing weights weighted by the activation levels at that time",
    )  # fmt: skip
    steps = [Symbol(f"pi_{k}", positive=True) for k in (1, 2, 3)]
    q = Symbol("q", real=True)
    yield Entry(
        PAPER, "eq. 7", "Pr(x) is the product over t of pi_t(x_t), and summing it over all sequences gives 1.",
        (Equal(sum((q if first else 1 - q) * (steps[0] if second else 1 - steps[0]) for first in (0, 1) for second in (0, 1)),
         S.One),),
        mutation=Mutation("the product read as a sum", Equal(sum((q if first else 1 - q) + (steps[0] if second else 1 - steps[0])
                                                                for first in (0, 1) for second in (0, 1)), S.One)),
        sizes="2 symbols, 2 steps",
        quote=r"\Pr\nolimits((x_{t})_{t=0,\ldots,T-1})=\prod_{t=0}^{T-1}\pi_{t}(x_{t})",
    )  # fmt: skip


def networks() -> Iterator[Entry]:
    """Eqs. (8) to (14) and the footnotes on them."""
    tau = ImmutableDenseMatrix(3, 2, lambda i, j: Symbol(f"tau_{{{i}{j + 1}}}", real=True))
    rho = [Symbol(f"rho_{k}", real=True) for k in (1, 2)]
    values = [rho[j] + sum(activities[i] * tau[i, j] for i in range(3)) for j in range(2)]
    moved = {rho[0]: rho[0] + tau[0, 0], rho[1]: rho[1] + tau[0, 1], tau[0, 0]: 0, tau[0, 1]: 0}
    yield Entry(
        PAPER, "eq. 8",
        "V_j = rho_jx + sum_i tau_ij a_i: the bias tau_0j is redundant, adding it to all rho_jx has the same effect.",
        (Equal(column(*(k.subs(moved, simultaneous=True) for k in values)), column(*values)),),
        mutation=Mutation("not added", Equal(values[0].subs(tau[0, 0], 0), values[0])),
        remark="footnote 3",
        sizes="2 units beside unit 0",
        quote=r"the bias \tau_{0i} at unit i has the same effect as adding \tau_{0i} to all "
              r"the input weights \rho_{ix} for all symbols x",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 9", "tanh and the logistic function are related by an affine transform of V and a: tanh(V) = 2 s(2 V) - 1.",
        (Equal(tanh(v).rewrite(exp), 2 * sigma(2 * v) - 1),), mutation=Mutation("2 V read as V", Equal(tanh(v).rewrite(exp),
         2 * sigma(v) - 1)),
        quote="Actually the two are related: one is obtained from the other by an affine transform of V and a",
    )  # fmt: skip
    emits = [Symbol(f"e_{i}", positive=True) for i in (1, 2)]
    moves = ImmutableDenseMatrix(2, 2, lambda i, j: Symbol(f"q_{{{i + 1}{j + 1}}}", positive=True))
    before = [activities[1], activities[2]]
    gnn = [sum(before[i] * (emits[i] * moves[i, j]) for i in range(2)) for j in range(2)]
    stochastic = {moves[i, 1]: 1 - moves[i, 0] for i in range(2)}
    yield Entry(
        PAPER, "eq. 10", "With s(V) = V and tau_ijx = Pr(i prints x) Pr(i -> j) the GNN's update is the HMM's forward equation.",
        (Equal(sum(gnn).subs(stochastic), before[0] * emits[0] + before[1] * emits[1]),
         Equal(gnn[0], (ImmutableDenseMatrix([before]) * ImmutableDenseMatrix([[emits[0], 0], [0, emits[1]]]) * moves)[0])),
        mutation=Mutation("Pr(j prints x)", Equal(sum(before[i] * emits[0] * moves[i, 0] for i in range(2)), gnn[0])),
        remark="the sum over j is the probability of the symbols printed so far",
        sizes="2 states",
        quote="then the GNN transition (10) yields the update equation for the HMM forward probabilities",
    )  # fmt: skip
    gates = {(i, j): tau[i, j] + (rho[j] if i == 0 else 0) for i in range(3) for j in range(2)}
    yield Entry(
        PAPER, "eq. 11",
        "GNNs extend RNNs: with tau_ijx = tau_ij for units and tau_0jx = tau_0j + rho_jx, (10) and (11) are (8) and (9).",
        (Equal(column(*(s(sum(activities[i] * gates[i, j] for i in range(3))) for j in range(2))), column(*map(s, values))),),
        mutation=Mutation("s read as another function", Equal(
            Function("f", real=True)(sum(activities[i] * gates[i, 0] for i in range(3))), s(values[0]))),
        remark="for the symbol x just printed, and so for each; the same activation function s, whichever it is",
        sizes="2 units beside unit 0",
        quote="GNNs are an extension of recurrent neural networks",
    )  # fmt: skip
    states = symbols.state(2)
    drive = [sum((tau[i, j] * ([1, s(states[0]), s(states[1])][i]) for i in range(3)), S.Zero) for j in range(2)]
    field = [Eq(h.diff(symbols.t), rate) for h, rate in zip(states, drive, strict=True)]
    V, start, drawn = states[0], Symbol("V_0", real=True), Symbol("k", real=True)
    on, off, ramp = Eq(V.diff(symbols.t), drawn), Eq(V.diff(symbols.t), S.Zero), start + drawn * symbols.t
    yield Entry(
        PAPER, "eq. 12",
        "dV_j/dt = sum_i tau_ijx a_i integrates: V rises while the sum is k, and stays where it is once the sum is 0.",
        (Solves((on,), {V: ramp}, (S.Zero, {V: start})), Solves((off,), {V: start})),
        mutation=Mutation("a leaky unit, dV/dt = -V + sum", Solves((Eq(V.diff(symbols.t), drawn - V),), {V: ramp})),
        remark="whether the sum is 0 between events is a matter of the weights; with tau_jjx = 0 for what is not an event it is",
        quote=r"units become activated when a certain signal x_{t} occurs, and stay activated until another event occurs",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 13", "V_j <- V_j + sum_i tau_ijx a_i is the obvious discretization of (12): its unit Euler step.",
        (Equal(euler_step(field), column(*states) + column(*drive)),),
        mutation=Mutation("without the + V_j", Equal(euler_step(field), column(*drive))),
        sizes="2 units beside unit 0",
        quote="Gated leaky neural networks are obtained by the obvious time discretization of this evolution equation",
    )  # fmt: skip
    w, weight = writing(2), Symbol("w", real=True)
    pi = probabilities(scores(activities, w))
    yield Entry(
        PAPER, "eq. 14", "Each unit sways the odds by a factor: log pi(x) - log pi(y) is sum_i a_i (w_ix - w_iy).",
        (Equal(pi[0] / pi[1], exp(sum(activities[i] * (w[i, 0] - w[i, 1]) for i in range(3)))),
         Tends(1 / (1 + exp(-u * weight)), weight, oo, S.One)),
        mutation=Mutation("w_ix - w_iy read as w_ix", Equal(pi[0] / pi[1], exp(sum(activities[i] * w[i, 0] for i in range(3))))),
        sizes="2 units beside unit 0, 2 symbols",
        quote="This allows any active unit to sway the result by using a large enough weight",
    )  # fmt: skip


def writing_weights() -> Iterator[Entry]:
    """Eqs. (15) to (21): one time step; the sums over time add what is shown for one."""
    A, M = symbols.weights("A", 2, 2), ImmutableDenseMatrix(2, 2, [Symbol("m_1"), Symbol("m_2"), Symbol("m_2"), Symbol("m_3")])
    slope = ImmutableDenseMatrix([Symbol("g_1"), Symbol("g_2")])
    yield Entry(
        PAPER, "eq. 15",
        "theta + eta M^-1 f' does not depend on linear coordinates: with theta = A phi, M becomes A^T M A and f' A^T f'.",
        (Equal(A * (A.T * M * A).inv() * (A.T * slope), M.inv() * slope),), ("M and A are invertible",),
        Mutation("A^T M A read as A M A^T", Equal(A * (A * M * A.T).inv() * (A.T * slope), M.inv() * slope)),
        sizes="2 parameters",
        quote="These metrics are built in Sections 3.33.5 to achieve reparametrization "
              "invariance at a reasonable computational cost",
    )  # fmt: skip
    w, chi = writing(2), Symbol("chi", real=True)
    energies = scores(activities, w)
    pi = probabilities(energies)
    gain = [log_pi(energies, y) for y in range(2)]
    yield Entry(
        PAPER, "eq. 16", "The gradient of sum_t chi_t log pi_t(x_t) counts predicted symbols only.",
        (Equal(diff(chi * gain[0], w[1, 0]).subs(chi, 0), S.Zero), Equal(diff(chi * gain[0], w[1, 0]).subs(chi, 1),
         diff(gain[0], w[1, 0]))),
        mutation=Mutation("chi = 0 read as chi = 1", Equal(diff(chi * gain[0], w[1, 0]).subs(chi, 1), S.Zero)),
        sizes="2 units beside unit 0, 2 symbols, 1 step",
        quote=r"\operatorname*{arg\,max}_{w,\tau,V^{0}}\sum_{t}\chi_{t}\log\pi_{t}(x_{t}) (16)",
    )  # fmt: skip
    right = [[activities[i] * ((1 if y == 0 else 0) - pi[y]) for y in range(2)] for i in range(3)]
    yield Entry(
        PAPER, "eq. 17", "The derivative in w_iy is sum_t chi_t a_i (1[x_t = y] - pi_t(y)).",
        (Equal(Matrix(3, 2, lambda i, y: diff(gain[0], w[i, y])).as_immutable(), Matrix(right).as_immutable()),),
        mutation=Mutation("pi - 1[x_t = y]", Equal(diff(gain[0], w[1, 0]), -right[1][0])),
        remark="x_t is the first symbol; sums over time add such terms",
        sizes="2 units beside unit 0, 2 symbols, 1 step",
        quote=r"W_{iy}=\sum_{t}\chi_{t}\,a_{i}^{t}\left(\mathbbm{1}_{x_{t}=y}-\pi_{t}(y)\right) (17)",
    )  # fmt: skip
    second = [[-diff(gain[0], w[i, 0], w[k, 0]) for k in range(3)] for i in range(3)]
    spread = pi[0] * (1 - pi[0])
    yield Entry(
        PAPER, "eq. 18", "h_ii^y, but for the dampening, is the term sum_t a_i^2 pi(y)(1 - pi(y)) of the Hessian of -log pi.",
        (Equal(second[1][1], activities[1] ** 2 * spread),), mutation=Mutation("a_i^2 read as a_i", Equal(second[1][1],
         activities[1] * spread)),
        sizes="2 units beside unit 0, 2 symbols, 1 step",
        quote=r"\displaystyle=\varepsilon_{y}+\sum_{t=0}^{T-1}\chi_{t}\,(a_{i}^{t})^{2}\pi_{t}",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 19", "h_0i^y is the term sum_t a_i pi(y)(1 - pi(y)) between unit i and unit 0.",
        (Equal(second[0][1], activities[1] * spread),), mutation=Mutation("a_i read as a_i^2", Equal(second[0][1],
         activities[1] ** 2 * spread)),
        sizes="2 units beside unit 0, 2 symbols, 1 step",
        quote=r"\displaystyle=\sum_{t=0}^{T-1}\chi_{t}\,a_{i}^{t}\,\pi_{t}(y)(1-\pi_{t}(y))",
    )  # fmt: skip
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
    yield Entry(
        PAPER, labels[0],
        "The quasi-diagonal step of unit i solves the 2 by 2 system of units 0 and i: (G_i - G_0 m_0i/m_00)/(m_ii - "
        "m_0i^2/m_00).",
        (Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[1], step(1)), Equal(exact[2], step(2))), ("the metric is invertible",),
        Mutation("m_0i^2 read as m_0i", Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[1],
        (G[1] - G[0] * m01 / m00) / (m11 - m01 / m00))),
        remark="exact for one unit, and for two whose centred activities are orthogonal",
        sizes="1 and 2 units beside unit 0",
        quote=quotes[0],
    )  # fmt: skip
    yield Entry(
        PAPER, labels[1], "The constant terms go to unit 0: G_0/m_00 minus the sum over i of m_0i/m_00 times the step of i.",
        (Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[0], G[0] / m00 - m01 / m00 * step(1)), Equal(exact[0], zero)),
        ("the metric is invertible",),
        Mutation("minus read as plus", Equal((pair.inv() * ImmutableDenseMatrix(G[:2]))[0], G[0] / m00 + m01 / m00 * step(1))),
        remark="exact for one unit, and for two whose centred activities are orthogonal",
        sizes="1 and 2 units beside unit 0",
        quote=quotes[1],
    )  # fmt: skip


def step_of(i: int) -> tuple[Expr, list[Symbol], list[Symbol], ImmutableDenseMatrix]:
    """log pi_t(x_t) + sum_j B_j V_j(t + 1), whose slope in V_i is what (22) and (81) say: to first order nothing else counts."""
    V = [Symbol(f"V_{k}", real=True) for k in (1, 2)]
    B = [Symbol(f"B_{k}", real=True) for k in (1, 2)]
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    w = writing(2)
    active = ImmutableDenseMatrix([1, s(V[0]), s(V[1])])
    later = [V[j] + sum(active[k] * tau[k, j] for k in range(3)) for j in range(2)]
    return log_pi(scores(active, w), i), V, B, ImmutableDenseMatrix(later)


def transition_weights() -> Iterator[Entry]:
    """Eqs. (22) to (29), (34) and (35)."""
    chi = Symbol("chi", real=True)
    gain, V, B, later = step_of(0)
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    w = writing(2)
    pi = probabilities(scores(ImmutableDenseMatrix([1, s(V[0]), s(V[1])]), w))
    whole = chi * gain + B[0] * later[0] + B[1] * later[1]

    def printed(i: int, of: Expr) -> Expr:
        expected = sum(pi[y] * w[i, y] for y in range(2))
        return B[i - 1] + diff(s(V[i - 1]), V[i - 1]) * (of * (w[i, 0] - expected) + sum(tau[i, j] * B[j] for j in range(2)))

    yield Entry(
        PAPER, "eq. 22", "B_i(t) = B_i(t+1) + s'(V_i)(chi (w_ix - sum_y pi(y) w_iy) + sum_j tau_ijx B_j(t+1)).",
        (Equal(column(*(diff(whole, V[i - 1]) for i in (1, 2))), column(*(printed(i, chi) for i in (1, 2)))),),
        mutation=Mutation("sum over j without j = i", Equal(diff(whole, V[0]), printed(1, chi) - diff(s(V[0]), V[0]) * tau[1,
        0] * B[0])),
        remark="for any activation function s; with B(T) = 0 it gives all times by induction",
        sizes="2 units beside unit 0, 2 symbols, 1 step back",
        quote="This is the derivative of data log-likelihood with respect to V_{i}^{t}",
    )  # fmt: skip
    slope = Symbol("s'", real=True)
    yield Entry(
        PAPER, "eq. 23", "The RUOP modulus is B^2: the outer product of the derivative in tau_ki, a_k B_i, is a_k a_l B_i^2.",
        (Equal(diff(whole, tau[1, 0]) * diff(whole, tau[2, 0]), s(V[0]) * s(V[1]) * B[0] ** 2),),
        mutation=Mutation("B^2 read as B", Equal(diff(whole, tau[1, 0]) * diff(whole, tau[2, 0]), s(V[0]) * s(V[1]) * B[0])),
        sizes="2 units beside unit 0",
        quote=r"\tilde{m}_{i}^{t}=(B^{t}_{i})^{2} (23)",
    )  # fmt: skip
    m = [Symbol(f"m_{k}", positive=True) for k in (1, 2)]
    spread = Symbol("var", positive=True)
    jacobian = [diff(later[j], V[0]) for j in range(2)]
    general = slope**2 * chi * spread + sum((jacobian[j].subs(diff(s(V[0]), V[0]), slope)) ** 2 * m[j] for j in range(2))
    explicit = slope**2 * (chi * spread + tau[1, 1] ** 2 * m[1]) + (1 + tau[1, 0] * slope) ** 2 * m[0]
    yield Entry(
        PAPER, "eq. 24", "The RBPM modulus goes back by s'^2 (chi var(w) + sum_{j != i} tau_ij^2 m_j) + (1 + tau_ii s')^2 m_i.",
        (Equal(general, explicit),), mutation=Mutation("1 + tau_ii s' read as tau_ii s'", Equal(general,
         explicit - (1 + 2 * tau[1, 0] * slope) * m[0])),
        remark="from (63) and (64), with chi inside",
        sizes="2 units beside unit 0",
        quote="which, plugged into the above, yields the explicit equation (24) given in the algorithm description",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 25", "The derivative in tau_ijx is sum_t 1[x_t = x] a_i(t) B_j(t+1).",
        (Equal(Matrix(3, 2, lambda k, j: diff(whole, tau[k, j])).as_immutable(),
               Matrix(3, 2, lambda k, j: [1, s(V[0]), s(V[1])][k] * B[j]).as_immutable()),),
        mutation=Mutation("a_j B_i", Equal(diff(whole, tau[1, 1]), s(V[1]) * B[0])),
        sizes="2 units beside unit 0, 1 step",
        quote=r"this is the derivative of the log-likelihood with respect to \tau_{ijx}",
    )  # fmt: skip
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
    yield Entry(
        PAPER, "eq. 26", "The matrix sum_t a_i a_i' m is not negative: its form is sum_t m (sum_i a_i k_i)^2.",
        (Equal(form, c1**2 * (first * k1 + second * k2) ** 2 + c2**2 * (other[0] * k1 + other[1] * k2) ** 2),),
        mutation=Mutation("m of one step negative", Equal(form,
        c1**2 * (first * k1 + second * k2) ** 2 - c2**2 * (other[0] * k1 + other[1] * k2) ** 2)),
        remark="m = c^2",
        sizes="2 units, 2 steps",
        quote=r"\tilde{M}^{(jy)}_{ii^{\prime}}=\sum_{t=0}^{T-1}\mathbbm{1}_{x_{t}=y}\,a^{t}",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 27", "With one step the matrix has rank one; the dampening makes it invertible.",
        (Equal(gram.subs(c2, 0).det(), S.Zero), Equal((gram.subs(c2, 0) + eye(2)).det(), 1 + c1**2 * (first**2 + second**2))),
        mutation=Mutation("with two steps", Equal(gram.det(), S.Zero)), remark="eps = 1",
        sizes="2 units",
        quote=r"Dampen the matrix \tilde{M}^{(jy)}_{ii^{\prime}} by adding \varepsilon to the diagonal",
    )  # fmt: skip
    g1, g2 = Symbol("G_1", real=True), Symbol("G_2", real=True)
    G = ImmutableDenseMatrix([g1, g2])
    det = gram.det()
    yield Entry(
        PAPER, "eq. 28", "The step M^-1 G goes uphill: G^T M^-1 G det M is a sum of squares.",
        (Equal((G.T * gram.adjugate() * G)[0],
         c1**2 * (second * g1 - first * g2) ** 2 + c2**2 * (other[1] * g1 - other[0] * g2) ** 2),
         Equal(det, c1**2 * c2**2 * (first * other[1] - second * other[0]) ** 2)),
        mutation=Mutation("M^-1 read as -M^-1", Equal(-(G.T * gram.adjugate() * G)[0],
        c1**2 * (second * g1 - first * g2) ** 2 + c2**2 * (other[1] * g1 - other[0] * g2) ** 2)),
        remark="up to first order in the learning rate",
        sizes="2 units, 2 steps",
        quote="Gradient ascents come with a guarantee of improvement at each step if the learning rate is small enough",
    )  # fmt: skip
    eps, start, L = Symbol("eps", positive=True), Symbol("tau_0", real=True), Function("L", real=True)
    backed, moduli = ([Symbol(f"{name}_{t}", positive=True) for t in range(4)] for name in "Bm")
    metric, gradient = (sum(int(symbol == 0) * each[k] for k, symbol in enumerate((0, 1, 2, 1))) for each in (moduli, backed))
    yield Entry(
        PAPER, "eq. 29",
        "The start V_j(0) moves as tau_0jy for a dummy symbol y read before all others: by (25) to (28), B_j(0)/(m_j(0) + eps).",
        (Equal(gradient / (metric + eps), backed[0] / (moduli[0] + eps)), Equal(diff(L(V[0] + start), start), diff(L(V[0]), V[0])
         .subs(V[0], V[0] + start).doit())),
        mutation=Mutation("m_j(0) read as m_j(1)", Equal(gradient / (metric + eps), backed[0] / (moduli[1] + eps))),
        remark="the dummy is read at time -1 with a_0 = 1, and its weight added to V_j(0): the derivative in either is B_j(0)",
        sizes="4 symbols read",
        quote=r"this would be the update of \tau_{ijy} with i=0 and y a special dummy symbol read at startup",
    )  # fmt: skip
    quotes = (
        r"The update of the transition parameters \tau_{ijy} becomes as follows",
        r"Thus only the terms \tilde{M}_{ii} and \tilde{M}_{0i} of the matrix are used",
    )
    yield from quasi_diagonal(("eq. 34", "eq. 35"), quotes, "G", "M")
