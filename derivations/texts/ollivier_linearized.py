r"""Ollivier 2013: the initialization of section 2, the linearized regime of appendix A, and numbers of section 4.

tau_jjx = -alpha, tau_0jx = beta + eps rho_x                  (73): V_j integrates the signal
V_j = Vbar + eps sum_{t' < t} (1 - mu)^(t - t' - 1) rho       (74), printed with the exponent t - t'
beta = -sqrt(alpha (alpha - mu))                              (77), so that mu = alpha s'(Vbar)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Function, ImmutableDenseMatrix, Rational, S, Symbol, diff, exp, log, oo, sqrt, tanh

from derivations.claim import Correction, Entry, Mutation
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Expands, Rounds, Tends
from derivations.texts.ollivier_networks import PAPER, SIZES, probabilities
from derivations.twins.fields import sigma

__all__ = ["entries"]

alpha, mu, eta = Symbol("alpha", positive=True), Symbol("mu", positive=True), Symbol("eta", positive=True)
v, z, u = Symbol("V", real=True), Symbol("z", real=True), Symbol("u", positive=True)
s = Function("s", real=True)


def entries() -> Iterator[Entry]:
    return chain(initialization(), linearized(), numbers())


def initialization() -> Iterator[Entry]:
    """Eqs. (30) to (33), (69), footnote 7."""
    nu = [Symbol(f"nu_{k}", positive=True) for k in (1, 2, 3)]
    first = probabilities([log(k) for k in nu])
    frequencies = {nu[2]: 1 - nu[0] - nu[1]}
    yield Entry(
        PAPER, "eq. 30", "With w_0y = log nu_y and w_iy = 0 the initial model is i.i.d. with the frequencies nu.",
        (Equal(column(*(k.subs(frequencies) for k in first)), column(*(k.subs(frequencies) for k in nu))),), ("nu_y > 0",),
        Mutation("log nu read as nu", Equal(probabilities(nu)[0].subs(frequencies), nu[0])),
        remark="a symbol that is never to be predicted has nu = 0 and log nu = -oo; three symbols",
    )  # fmt: skip
    beta = Symbol("beta", real=True)
    loop = v - alpha * s(v) + beta
    yield Entry(
        PAPER, "eq. 31", "tau_iiy = -alpha is negative feedback: the step's slope in its own V is 1 - alpha s'(V).",
        (Equal(diff(loop, v), 1 - alpha * diff(s(v), v)),), mutation=Mutation("-alpha read as alpha", Equal(diff(loop, v),
         1 + alpha * diff(s(v), v))),
    )  # fmt: skip
    drawn = [Symbol(f"u_{k}", real=True) for k in (1, 2, 3)]
    centred = [k - sum(n * j for n, j in zip(nu, drawn, strict=True)) for k in drawn]
    yield Entry(
        PAPER, "eq. 32", "The reading rates u_jy minus their mean have average 0 over the data.",
        (Equal(sum(n * k for n, k in zip(nu, centred, strict=True)).subs(frequencies), S.Zero),), (
        "nu are the frequencies, their sum is 1",),
        Mutation("the plain mean removed", Equal(sum(n * (k - sum(drawn) / 3) for n, k in zip(nu, drawn,
        strict=True)).subs(frequencies), S.Zero)),
        remark="three symbols",
    )  # fmt: skip
    half = Rational(1, 2)
    j = Symbol("j", positive=True)
    scale = 1 / (j + 1)
    root = sqrt(half * (half - scale))
    yield Entry(
        PAPER, "eq. 33",
        "With mu_j = 1/(j+1) and alpha = 1/2, beta = -sqrt(alpha (alpha - mu)) is real for j >= 1 and |beta| < alpha.",
        (Equal(root.subs(j, 1), S.Zero), Less(S.Zero, half * (half - scale).subs(j, 1 + u), True),
         Less(half * (half - scale), half**2, True)),
        mutation=Mutation("mu = 1/j", Less(S.Zero, half * (half - 1 / j).subs(j, 1 + u))),
    )  # fmt: skip
    yield Entry(
        PAPER, "footnote 7", "The time scale of unit j is O(j) at the start: -1/log(1 - mu_j) = j + 1/2 + ...",
        (Tends(-1 / (j * log(1 - scale)), j, oo, S.One), Tends(-1 / log(1 - scale) - j, j, oo, half)),
        mutation=Mutation("j + 1/2 read as j + 1", Tends(-1 / log(1 - scale) - j, j, oo, S.One)),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 69", "tau_ii = 1 - 1/i gives unit i of the RNN a decay time of order i: -1/log(1 - 1/i) = i - 1/2 - ...",
        (Tends(-1 / (j * log(1 - 1 / j)), j, oo, S.One), Tends(-1 / log(1 - 1 / j) - j, j, oo, -half), Equal(diff(tanh(v),
         v).subs(v, 0), S.One)),
        mutation=Mutation("1/i read as 1/i^2", Tends(-1 / (j * log(1 - 1 / j**2)), j, oo, S.One)),
        remark="near V = 0, where tanh has slope 1; unit 1 keeps nothing",
    )  # fmt: skip


def linearized() -> Iterator[Entry]:
    """Appendix A, eqs. (70) to (79)."""
    beta, eps = Symbol("beta", real=True), Symbol("eps", real=True)
    tau = ImmutableDenseMatrix(3, 2, lambda i, j: Symbol(f"tau_{{{i}{j + 1}}}", real=True))
    V = [Symbol("V_1", real=True), Symbol("V_2", real=True)]
    active = [S.One, s(V[0]), s(V[1])]
    yield Entry(
        PAPER, "eq. 70", "V_j + tau_jj s(V_j) + tau_0j + sum over the other units is the evolution equation (13).",
        (Equal(V[0] + sum(tau[i, 0] * active[i] for i in range(3)), V[0] + tau[1, 0] * s(V[0]) + tau[0, 0] + tau[2,
         0] * s(V[1])),),
        mutation=Mutation("tau_jj read as tau_jk", Equal(V[0] + sum(tau[i, 0] * active[i] for i in range(3)),
                                                       V[0] + tau[1, 1] * s(V[0]) + tau[0, 0] + tau[2, 0] * s(V[1]))),
                                                       remark=SIZES,
    )  # fmt: skip
    step = v - alpha * s(v) + beta
    at_rest = {s(v): beta / alpha}
    yield Entry(
        PAPER, "eq. 71", "V - alpha s(V) + beta rests where s(V) = beta/alpha.",
        (Equal(step.subs(at_rest), v),), mutation=Mutation("beta/alpha read as alpha/beta",
         Equal(step.subs({s(v): alpha / beta}), v)),
    )  # fmt: skip
    linear = Symbol("V0", real=True)
    yield Entry(
        PAPER, "eq. 72", "Close to the fixed point V(t+1) - Vbar = (1 - alpha s'(Vbar)) (V(t) - Vbar), up to the square.",
        (Expands((linear + eps) - alpha * tanh(linear + eps) + alpha * tanh(linear) - linear, eps,
         (1 - alpha * (1 - tanh(linear) ** 2)) * eps, 2),),
        mutation=Mutation("1 - alpha s' read as 1 + alpha s'",
        Expands((linear + eps) - alpha * tanh(linear + eps) + alpha * tanh(linear) - linear, eps,
                          (1 + alpha * (1 - tanh(linear) ** 2)) * eps, 2)), remark="for s = tanh, beta = alpha tanh(Vbar)",
    )  # fmt: skip
    decay = 1 / (1 + u)
    rho = [Symbol(f"rho_{k}", real=True) for k in range(4)]
    state = S.Zero
    for k in rho:
        state = decay * state + eps * k
    printed = eps * sum(decay ** (4 - k) * rho[k] for k in range(4))
    right = eps * sum(decay ** (4 - k - 1) * rho[k] for k in range(4))
    yield Entry(
        PAPER, "eq. 73", "With tau_0jx = beta + eps rho_x each step adds eps rho_x to the deviation and keeps 1 - mu of it.",
        (Equal((step + eps * rho[0]).subs(at_rest) - v, eps * rho[0]),),
        mutation=Mutation("eps rho read as rho", Equal((step + eps * rho[0]).subs(at_rest) - v, rho[0])),
        remark="at the fixed point",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 74", "V(t) is Vbar + eps sum_{t' < t} (1 - mu)^(t - t') rho_{x_t'}.",
        (Equal(state, printed),),
        correction=Correction(
            "The exponent is t - t' - 1: the symbol read last, t' = t - 1, has not decayed yet.", (Equal(state, right),)),
        remark="four steps from Vbar; 1 - mu = 1/(1 + u) is any number of (0, 1)",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 75", "mu = alpha s'(Vbar) is what a step takes from the deviation: the step's slope is 1 - mu.",
        (Equal(1 - diff(v - alpha * tanh(v) + beta, v), alpha * diff(tanh(v), v)),),
        mutation=Mutation("alpha s' read as alpha s", Equal(1 - diff(v - alpha * tanh(v) + beta, v), alpha * tanh(v))),
    )  # fmt: skip
    yield Entry(
        PAPER, "app. A, oscillation", "alpha above 1/sup s' (1 for tanh) makes V(t+1) a function of V(t) that is not monotone.",
        (Equal(diff(v - alpha * tanh(v), v).subs(v, 0), 1 - alpha), Less((1 - alpha).subs(alpha, 1 + u), S.Zero, True),
         Less(S.Zero, 1 - u * (1 - tanh(v) ** 2), True, {u: (0, 1)}, rewritten=(1 - u) + u * tanh(v) ** 2)),
        mutation=Mutation("above 1 read as above 1/2", Less((1 - alpha).subs(alpha, Rational(1, 2) + u), S.Zero)),
        remark="the last statement: below 1 it is monotone everywhere",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 76", "alpha = 1/2 is 1/(2 sup s') for tanh, whose largest slope is 1, at 0.",
        (Equal(diff(tanh(v), v).subs(v, 0), S.One), Less(S.Zero, 1 - diff(tanh(v), v), rewritten=tanh(v) ** 2)),
        mutation=Mutation("tanh read as the logistic function", Equal(sigma(v).diff(v).subs(v, 0), S.One)),
    )  # fmt: skip
    level = Symbol("a", real=True)
    solved = -sqrt(alpha * (alpha - mu))
    yield Entry(
        PAPER, "eq. 77", "beta = -sqrt(alpha (alpha - mu)) gives mu = alpha s'(s^-1(beta/alpha)) for tanh.",
        (Equal(alpha * (1 - (solved / alpha) ** 2), mu), Equal(diff(tanh(v), v), (1 - level**2).subs(level, tanh(v)))),
        ("0 < mu <= alpha",), Mutation("alpha (alpha - mu) read as alpha - mu",
         Equal(alpha * (1 - (-sqrt(alpha - mu) / alpha) ** 2), mu)),
        remark="the positive root does as well",
    )  # fmt: skip
    n = Symbol("n", positive=True)
    yield Entry(
        PAPER, "eq. 78", "mu_j = 1/(j+1) has a characteristic time of order j: after j + 1 steps a part near 1/e is left.",
        (Tends((1 - 1 / n) ** n, n, oo, exp(-1)),), mutation=Mutation("1/e read as 1/2", Tends((1 - 1 / n) ** n, n, oo,
         Rational(1, 2))),
    )  # fmt: skip
    geometric = (1 - (1 - mu) ** n) / mu
    yield Entry(
        PAPER, "eq. 79", "eps = mu/4 keeps the sum small: with |rho| <= 1 it stays below eps/mu = 1/4.",
        (Equal(geometric.subs(n, n + 1) - 1, (1 - mu) * geometric), Equal((mu / 4 * geometric).subs(mu, 1), Rational(1, 4)),
         Equal(mu / 4 / mu, Rational(1, 4))),
        ("0 < mu <= 1", "|rho| <= 1"), Mutation("mu/4 read as 1/4", Equal(Rational(1, 4) / mu, Rational(1, 4))),
        remark="the sum of (1 - mu)^k over n steps is (1 - (1 - mu)^n)/mu < 1/mu",
    )  # fmt: skip
    yield Entry(
        PAPER, "footnote 17", "Since the activation function s ranges in [0; 1], the feedback -alpha s(V) is bounded.",
        (Less(S.Zero, tanh(z)),),
        correction=Correction(
            "For tanh, with which these values are used, s ranges in (-1, 1); the feedback is bounded by alpha either way.",
            (Less(S.Zero, 1 - tanh(z).rewrite(exp) ** 2, True, rewritten=4 * exp(2 * z) / (exp(2 * z) + 1) ** 2),)),
        remark="[0, 1] is the range of the logistic function",
    )  # fmt: skip


def numbers() -> Iterator[Entry]:
    """Section 4, footnote 8."""
    k, eta, distance = Symbol("k", positive=True), Symbol("eta", positive=True), Symbol("x", real=True)
    moved = distance - eta * k * distance
    yield Entry(
        PAPER, "footnote 8", "Past the optimal learning rate a quadratic minimum is stepped over: the iterates oscillate.",
        (Equal(moved.subs(eta, 1 / k), S.Zero), Less(moved.subs({eta: (1 + u) / k, distance: k}), S.Zero, True)),
        mutation=Mutation("past half of it", Less(moved.subs({eta: (1 + u) / (2 * k), distance: k}), S.Zero)),
        remark="f = k x^2/2, optimal rate 1/k; from x = k > 0 the next iterate is negative",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 4, a letter", "Representing a letter of 26 costs log(26)/log(2), about 4.7 bits.",
        (Rounds(log(26) / log(2), "4.7"),), mutation=Mutation("26 read as 36", Rounds(log(36) / log(2), "4.7")),
    )  # fmt: skip
    bits = (log(1536) / log(2), log(S(1536) / 1535) / log(2) * 1535)
    yield Entry(
        PAPER, "sec. 4, a^n b^n",
        "A uniform n of 1024 to 2047 is 10 bits, 100 for ten blocks; a geometric law of mean 1536 has about 12.",
        (Equal(log(S(1024)) / log(2), S(10)), Rounds(bits[0] + bits[1], "12")),
        mutation=Mutation("base 2 read as base e", Rounds(log(1536) + 1535 * log(S(1536) / 1535), "12")),
    )  # fmt: skip
    true, ours, theirs = S(-88482), S(-89126), S(-96099)
    yield Entry(
        PAPER, "sec. 4, insertions",
        "-89126 bits is more than ten times closer to the true model's -88482 than -96099; 4.7 bits a letter.",
        (Less(10 * (true - ours), true - theirs, True), Rounds((ours - theirs) / 1000, "7"),
         Rounds((true - theirs - 2810) / (true - ours), "7")),
        mutation=Mutation("ten read as twelve", Less(12 * (true - ours), true - theirs)),
        remark="after 4 hours (2810 bits better) the RNN is 7.5 times farther, as printed to one digit",
    )  # fmt: skip
