r"""Ollivier 2013, sections 1.1, 1.2 and 2: models of sequences, networks, and the gradients, metrics and steps of their weights.

    pi(x) = e^(sum_i a_i w_ix) / sum_y e^(sum_i a_i w_iy)         (6)
    V_j <- V_j + sum_i tau_ijx a_i,  a_j = s(V_j)                 (13), the unit Euler step of (12)

Sums are checked for two units beside the always-activated unit 0, two or three symbols, and one or a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy import Derivative, Eq, Expr, Function, ImmutableDenseMatrix, Matrix, S, Subs, Symbol, exp, eye, log, oo, tanh

from derivations.argument.taylor import steps_to
from derivations.claim import Correction, Entry, Equal, Mutation, Solves, Source, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.twins.fields import sigma

__all__ = ["paper", "SIZES", "activities", "log_pi", "probabilities", "s", "scores", "writing", "step_of"]

paper = Source("ollivier-2013-riemannian-metrics-ii")
SIZES = "checked for two units beside unit 0"
alpha, mu, eta = Symbol("alpha", positive=True), Symbol("mu", positive=True), Symbol("eta", positive=True)
v, z, u = Symbol("V", real=True), Symbol("z", real=True), Symbol("u", positive=True)
s = Function("s", real=True)
# a_0 = 1 and two units; rows of w are units, columns symbols.
activities = ImmutableDenseMatrix([1, Symbol("a_1", real=True), Symbol("a_2", real=True)])


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


def likelihood() -> Iterator[Entry]:
    """Eqs. (2) and (3)."""
    theta = Symbol("theta", real=True)
    p = Function("P", positive=True)(theta)
    yield paper("eq. 2").says(
        "The probability of the sequence and its logarithm are largest at the same parameter.",
        Equal(Derivative(log(p), theta), Derivative(p, theta) / p),
        mutation=changed("log P read as 1/P", lhs=Derivative(1 / p, theta)),
        remark="log P rises where P does, since P > 0",
        quote=r"the goal of learning is to find the value of \theta that maximizes the "
        r"probability of the training sequence (x_{t})",
    )
    joint = [Symbol(f"p_{k}", positive=True) for k in (1, 2, 3)]
    partial = [joint[0], joint[1] / joint[0], joint[2] / joint[1]]
    yield paper("eq. 3", sizes="3 symbols read").says(
        "log Pr is the sum over t of log Pr(x_t | x_0 ... x_{t-1}).",
        Equal(sum(log(k) for k in partial), log(joint[2])),
        mutation=changed(
            "conditioned on x_{t-1} alone, once", lhs=sum(log(k) for k in (joint[0], joint[1] / joint[0], joint[2] / joint[0]))
        ),
        remark="p_k is the probability of the first k symbols",
        quote=r"\displaystyle=\operatorname*{arg\,max}_{\theta}\sum_{t}\log\Pr\nolimits",
    )


def transitions() -> Iterator[Entry]:
    """Eqs. (4) to (7)."""
    word = [Symbol(f"p_{k}", positive=True) for k in range(5)]
    labels = [S(t % 2) for t in range(4)]
    yield paper("eq. 4", sizes="2 pairs").says(
        "sum_t chi_t log Pr(x_t | ...), with chi_t = 1 for what is to be predicted and else 0, leaves of y_0 z_0 y_1 z_1 the "
        "labels z, given all before them.",
        Equal(sum(c * log(word[t + 1] / word[t]) for t, c in enumerate(labels)), log(word[2] / word[1] * word[4] / word[3])),
        mutation=changed(
            "0 for what is to be predicted and 1 otherwise",
            lhs=sum((1 - c) * log(word[t + 1] / word[t]) for t, c in enumerate(labels)),
        ),
        remark="p_k is the probability of the first k symbols",
        quote=r"might be of the form y_{0}z_{0}y_{1}z_{1}y_{2}z_{2}\ldots where for each instance y_{i} we "
        r"have to predict the corresponding label z_{i}",
    )
    w = writing(3)
    pi = probabilities(scores(activities, w))
    shift = {w[1, y]: w[1, y] + z for y in range(3)}
    yield paper("eq. 6", sizes="2 units beside unit 0, 3 symbols").says(
        "pi is a distribution. Each unit sways the odds by a factor, log pi(x) - log pi(y) = sum_i a_i (w_ix - w_iy), and so the "
        "result by a large enough weight; adding one number to all weights of a unit changes nothing.",
        Equal(sum(pi), S.One),
        Equal(pi[0] / pi[1], exp(sum(activities[i] * (w[i, 0] - w[i, 1]) for i in range(3)))),
        Tends(1 / (1 + exp(-u * alpha)), alpha, oo, S.One),
        Equal(column(*(k.subs(shift, simultaneous=True) for k in pi)), column(*pi)),
        mutation=Mutation("to one weight only", Equal(pi[0].subs(w[1, 0], w[1, 0] + z), pi[0])),
        remark="printed again as (14) and (46); of two symbols, with a > 0 for u and w for alpha in the limit",
        quote="This allows any active unit to sway the result by using a large enough weight",
    )
    steps = [Symbol(f"pi_{k}", positive=True) for k in (1, 2, 3)]
    q = Symbol("q", real=True)
    yield paper("eq. 7", sizes="2 symbols, 2 steps").says(
        "Pr(x) is the product over t of pi_t(x_t), and summing it over all sequences gives 1.",
        Equal(
            sum((q if first else 1 - q) * (steps[0] if second else 1 - steps[0]) for first in (0, 1) for second in (0, 1)), S.One
        ),
        mutation=changed(
            "the product read as a sum",
            lhs=sum((q if first else 1 - q) + (steps[0] if second else 1 - steps[0]) for first in (0, 1) for second in (0, 1)),
        ),
        quote=r"\Pr\nolimits((x_{t})_{t=0,\ldots,T-1})=\prod_{t=0}^{T-1}\pi_{t}(x_{t})",
    )


def recurrent_and_gated() -> Iterator[Entry]:
    """Eqs. (8) to (11)."""
    tau = ImmutableDenseMatrix(3, 2, lambda i, j: Symbol(f"tau_{{{i}{j + 1}}}", real=True))
    rho = [Symbol(f"rho_{k}", real=True) for k in (1, 2)]
    values = [rho[j] + sum(activities[i] * tau[i, j] for i in range(3)) for j in range(2)]
    added = [Symbol(f"rho'_{k}", real=True) for k in (1, 2)]
    others = [added[j] + sum(activities[i] * tau[i, j] for i in (1, 2)) for j in range(2)]
    moved = {added[j]: rho[j] + tau[0, j] for j in range(2)}
    yield paper("eq. 8", sizes="2 units beside unit 0").says(
        "V_j = rho_jx + sum_i tau_ij a_i: the bias tau_0j is redundant, adding it to all rho_jx has the same effect.",
        Equal(column(*others), column(*values), moved),
        mutation=Mutation("not added", Equal(values[0].subs(tau[0, 0], 0), values[0])),
        remark="footnote 3",
        quote=r"the bias \tau_{0i} at unit i has the same effect as adding \tau_{0i} to all "
        r"the input weights \rho_{ix} for all symbols x",
    )
    yield paper("eq. 9").says(
        "tanh and the logistic function are related by an affine transform of V and a: tanh(V) = 2 s(2 V) - 1.",
        Equal(tanh(v).rewrite(exp), 2 * sigma(2 * v) - 1),
        mutation=changed("2 V read as V", rhs=2 * sigma(v) - 1),
        quote="Actually the two are related: one is obtained from the other by an affine transform of V and a",
    )
    emits = [Symbol(f"e_{i}", positive=True) for i in (1, 2)]
    moves = ImmutableDenseMatrix(2, 2, lambda i, j: Symbol(f"q_{{{i + 1}{j + 1}}}", positive=True))
    before = [activities[1], activities[2]]
    gnn = [sum(before[i] * (emits[i] * moves[i, j]) for i in range(2)) for j in range(2)]
    stochastic = {moves[i, 1]: 1 - moves[i, 0] for i in range(2)}
    read = [Symbol(f"tau_{{{i}1x}}", real=True) for i in (1, 2)]
    printed = [emits[i] * moves[i, 0] for i in range(2)]
    yield paper("eq. 10", sizes="2 states").says(
        "With s(V) = V and tau_ijx = Pr(i prints x) Pr(i -> j) the GNN's update is the HMM's forward equation.",
        Equal(sum(gnn).subs(stochastic), before[0] * emits[0] + before[1] * emits[1]),
        Equal(sum(weight * before[i] for i, weight in enumerate(read)), gnn[0], dict(zip(read, printed, strict=True))),
        mutation=Mutation("Pr(j prints x)", Equal(sum(before[i] * emits[0] * moves[i, 0] for i in range(2)), gnn[0])),
        remark="the sum over j is the probability of the symbols printed so far",
        quote="then the GNN transition (10) yields the update equation for the HMM forward probabilities",
    )
    gates = {(i, j): tau[i, j] if i else Symbol(f"tau_{{0{j + 1}x}}", real=True) for i in range(3) for j in range(2)}
    heard = {gates[0, j]: tau[0, j] + rho[j] for j in range(2)}
    yield paper("eq. 11", sizes="2 units beside unit 0").says(
        "GNNs extend RNNs: with tau_ijx = tau_ij for units and tau_0jx = tau_0j + rho_jx, (10) and (11) are (8) and (9).",
        Equal(column(*(s(sum(activities[i] * gates[i, j] for i in range(3))) for j in range(2))), column(*map(s, values)), heard),
        mutation=changed("tau_0jx without rho_jx", where={gates[0, j]: tau[0, j] for j in range(2)}),
        remark="for the symbol x just printed, and so for each; the same activation function s, whichever it is",
        quote="GNNs are an extension of recurrent neural networks",
    )


def leaky_networks() -> Iterator[Entry]:
    """Eqs. (12) and (13)."""
    tau = ImmutableDenseMatrix(3, 2, lambda i, j: Symbol(f"tau_{{{i}{j + 1}}}", real=True))
    states = symbols.state(2)
    drive = [sum((tau[i, j] * ([1, s(states[0]), s(states[1])][i]) for i in range(3)), S.Zero) for j in range(2)]
    field = [Eq(h.diff(symbols.t), rate) for h, rate in zip(states, drive, strict=True)]
    V, start, drawn = states[0], Symbol("V_0", real=True), Symbol("k", real=True)
    on, off, ramp = Eq(V.diff(symbols.t), drawn), Eq(V.diff(symbols.t), S.Zero), start + drawn * symbols.t
    yield paper("eq. 12").says(
        "dV_j/dt = sum_i tau_ijx a_i integrates: V rises while the sum is k, and stays where it is once the sum is 0.",
        Solves((on,), {V: ramp}, (S.Zero, {V: start})),
        Solves((off,), {V: start}),
        mutation=Mutation("a leaky unit, dV/dt = -V + sum", Solves((Eq(V.diff(symbols.t), drawn - V),), {V: ramp})),
        remark="whether the sum is 0 between events is a matter of the weights; with tau_jjx = 0 for what is not an event it is",
        quote=r"units become activated when a certain signal x_{t} occurs, and stay activated until another event occurs",
    )
    yield paper("eq. 13", sizes="2 units beside unit 0").says(
        "V_j <- V_j + sum_i tau_ijx a_i is the obvious discretization of (12): its unit Euler step.",
        Equal(**steps_to(field, column(*states) + column(*drive))),
        mutation=Mutation("without the + V_j", Equal(**steps_to(field, drive))),
        quote="Gated leaky neural networks are obtained by the obvious time discretization of this evolution equation",
    )


def writing_weights() -> Iterator[Entry]:
    """Eqs. (16) and (18): one time step; the sums over time add what is shown for one."""
    w, chi = writing(2), Symbol("chi", real=True)
    energies = scores(activities, w)
    gain, pi = log_pi(energies, 0), probabilities(energies)
    yield paper("eq. 16", sizes="2 units beside unit 0, 2 symbols, 1 step").says(
        "The gradient of sum_t chi_t log pi_t(x_t) counts predicted symbols only.",
        Equal(Derivative(chi * gain, w[1, 0]), S.Zero, {chi: S.Zero}),
        Equal(Derivative(chi * gain, w[1, 0]), Derivative(gain, w[1, 0]), {chi: S.One}),
        mutation=changed("chi = 0 read as chi = 1", where={chi: S.One}),
        quote=r"\operatorname*{arg\,max}_{w,\tau,V^{0}}\sum_{t}\chi_{t}\log\pi_{t}(x_{t}) (16)",
    )
    second = Matrix(3, 3, lambda i, k: -Derivative(gain, w[i, 0], w[k, 0])).as_immutable()
    terms = activities * activities.T * pi[0] * (1 - pi[0])
    yield paper("sec. 2, Hessian").says(
        "(18) and (19) are terms of the Hessian of the log-likelihood, with which the Fisher matrix coincides.",
        Equal(-second, terms),
        correction=Correction(
            "Of minus the log-likelihood, as section 3.2 says: a_i^2 pi(y)(1 - pi(y)), and a_i pi(y)(1 - pi(y)) with unit 0.",
            Equal(second, terms),
        ),
        remark="2 units beside unit 0, 2 symbols, one step, dampening aside",
        quote="Compute the following terms of the Hessian (or Fisher information matrix) of the log-likelihood with respect to w",
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
    """Eq. (24)."""
    _, V, _, later = step_of(0)
    chi = Symbol("chi", real=True)
    tau = ImmutableDenseMatrix(3, 2, lambda k, j: Symbol(f"tau_{{{k}{j + 1}}}", real=True))
    slope = Symbol("s'", real=True)
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


def transition_metric() -> Iterator[Entry]:
    """Eqs. (27) to (29)."""
    _, V, _, _ = step_of(0)
    first, second, c1, c2 = (Symbol(name, real=True) for name in ("a_11", "a_12", "c_1", "c_2"))
    other = [Symbol("a_21", real=True), Symbol("a_22", real=True)]
    gram = ImmutableDenseMatrix(
        [
            [c1**2 * first**2 + c2**2 * other[0] ** 2, c1**2 * first * second + c2**2 * other[0] * other[1]],
            [c1**2 * first * second + c2**2 * other[0] * other[1], c1**2 * second**2 + c2**2 * other[1] ** 2],
        ]
    )
    yield paper("eq. 27", sizes="2 units").says(
        "With one step the matrix (26) has rank one; the dampening makes it invertible.",
        Equal(gram.det(), S.Zero, {c2: S.Zero}),
        Equal((gram.subs(c2, 0) + eye(2)).det(), 1 + c1**2 * (first**2 + second**2)),
        mutation=Mutation("with two steps", Equal(gram.det(), S.Zero)),
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
    read = [Symbol(f"1[x_{t} = y]", real=True) for t in range(4)]
    metric, gradient = (sum(one * value for one, value in zip(read, each, strict=True)) for each in (moduli, backed))
    yield paper("eq. 29", sizes="4 symbols read").says(
        "The start V_j(0) moves as tau_0jy for a dummy symbol y read before all others: by (25) to (28), B_j(0)/(m_j(0) + eps).",
        Equal(gradient / (metric + eps), backed[0] / (moduli[0] + eps), dict(zip(read, map(S, (1, 0, 0, 0)), strict=True))),
        Equal(Derivative(L(V[0] + start), start), Subs(Derivative(L(V[0]), V[0]), V[0], V[0] + start)),
        mutation=changed("m_j(0) read as m_j(1)", rhs=backed[0] / (moduli[1] + eps)),
        remark="the dummy is read at time -1 with a_0 = 1, and its weight added to V_j(0): the derivative in either is B_j(0)",
        quote=r"this would be the update of \tau_{ijy} with i=0 and y a special dummy symbol read at startup",
    )
