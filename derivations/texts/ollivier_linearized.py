r"""Ollivier 2013: the initialization of section 2, the linearized regime of appendix A, and numbers of section 4.

tau_jjx = -alpha, tau_0jx = beta + eps rho_x                  (73): V_j integrates the signal
V_j = Vbar + eps sum_{t' < t} (1 - mu)^(t - t' - 1) rho       (74), printed with the exponent t - t'
beta = -sqrt(alpha (alpha - mu))                              (77), so that mu = alpha s'(Vbar)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from sympy import Derivative, Expr, Function, Rational, S, Subs, Symbol, exp, log, oo, sqrt, tanh

from derivations.argument.taylor import euler_step
from derivations.claim import Cases, Correction, Entry, Equal, Every, Expands, Less, Mutation, Tends, changed
from derivations.prover.identity import column
from derivations.texts.ollivier_networks import paper, probabilities
from derivations.twins import fields
from derivations.twins.fields import sigma

alpha, mu, eta = Symbol("alpha", positive=True), Symbol("mu", positive=True), Symbol("eta", positive=True)
v, z, u = Symbol("V", real=True), Symbol("z", real=True), Symbol("u", positive=True)
s = Function("s", real=True)


def writing_at_start() -> Iterator[Entry]:
    """Eq. (30)."""
    nu = [Symbol(f"nu_{k}", positive=True) for k in (1, 2, 3)]
    weights = [Symbol(f"w_0{k}", real=True) for k in (1, 2, 3)]
    frequencies = {nu[2]: 1 - nu[0] - nu[1]}
    counted = dict(zip(weights, map(log, nu), strict=True))
    yield paper("eq. 30", given="nu_y > 0", sizes="3 symbols").says(
        "With w_0y = log nu_y and w_iy = 0 the initial model is i.i.d. with the frequencies nu.",
        Equal(column(*probabilities(weights)), column(*nu) / sum(nu), counted),
        Equal(column(*nu) / sum(nu), column(*nu), frequencies),
        mutation=Mutation("log nu read as nu", Equal(probabilities(nu)[0].subs(frequencies), nu[0])),
        quote="this way the initial model is an i.i.d. sequence with the correct frequencies",
    )
    line = "X0X1X0 1 1 0 1 0 1 1 1 0 1 0 1 0 0 1 0 0 1 0 0 1 0 0=1\n"

    def predicted(symbols: str) -> Cases:
        """How often each symbol of Example 2 is to be predicted: right after an =."""
        after = [y for before, y in pairwise(line) if before == "="]
        return (({f"times {y!r}": after.count(y)}, (y, "in", tuple(after))) for y in symbols)

    yield paper("eq. 30, symbols not predicted").says(
        "w_0y = log nu_y is a starting value for every symbol y of the alphabet.",
        Every("the symbols of Example 2", partial(predicted, "".join(dict.fromkeys(line)))),
        correction=Correction(
            "For those that are to be predicted. Where only some are, as in the distant XOR, others have nu_y = 0 and log nu_y = "
            "-oo; a large negative w_0y is meant, with which pi(y) goes to 0.",
            Every("the bit after the =", partial(predicted, "1")),
            Tends(log(nu[0]), nu[0], 0, -oo),
            Tends(nu[0] / (nu[0] + nu[1]), nu[0], 0, S.Zero),
        ),
        remark="section 2 defines nu_y as the frequency among symbols to be predicted; section 4 sets chi_t = 1 after = only",
        quote="is the frequency of symbol y among symbols to be predicted in the training data",
    )


def transition_at_start() -> Iterator[Entry]:
    """Eqs. (31) to (33), footnote 7."""
    nu = [Symbol(f"nu_{k}", positive=True) for k in (1, 2, 3)]
    frequencies = {nu[2]: 1 - nu[0] - nu[1]}
    drawn = [Symbol(f"u_{k}", real=True) for k in (1, 2, 3)]
    centred = [k - sum(n * j for n, j in zip(nu, drawn, strict=True)) for k in drawn]
    yield paper("eq. 32", given="nu are the frequencies, their sum is 1", sizes="3 symbols").says(
        "The reading rates u_jy minus their mean have average 0 over the data.",
        Equal(sum(n * k for n, k in zip(nu, centred, strict=True)).subs(frequencies), S.Zero),
        mutation=changed(
            "the plain mean removed", lhs=sum(n * (k - sum(drawn) / 3) for n, k in zip(nu, drawn, strict=True)).subs(frequencies)
        ),
        remark="appendix A has nu for them, section 2 a tilde over it: its nu are those among symbols to be predicted",
        quote=r"and then shifted by a constant so that the average of \rho_{x_{t}} over the training data x_{t} is 0",
    )
    half = Rational(1, 2)
    j = Symbol("j", positive=True)
    scale = 1 / (j + 1)
    root = sqrt(half * (half - scale))
    yield paper("eq. 33").says(
        "With mu_j = 1/(j+1) and alpha = 1/2, beta = -sqrt(alpha (alpha - mu)) is real for j >= 1 and |beta| < alpha.",
        Equal(root**2, S.Zero, {j: S.One}),
        Less(S.Zero, half * (half - scale).subs(j, 1 + u), True),
        Less(half * (half - scale), half**2, True),
        mutation=Mutation("mu = 1/j", Less(S.Zero, half * (half - 1 / j).subs(j, 1 + u))),
        quote=r"\mu_{j}=1/(j+1),\qquad\alpha=1/2,\qquad\beta_{j}=-\sqrt{\alpha(\alpha-\mu_{j})} (33)",
    )
    scales = paper("footnote 7").says(
        "The time scale of unit j is O(j) at the start: -1/log(1 - mu_j) = j + 1/2 + ...",
        Tends(-1 / (j * log(1 - scale)), j, oo, S.One),
        Tends(-1 / log(1 - scale) - j, j, oo, half),
        mutation=changed("j + 1/2 read as j + 1", expression=-1 / log(1 - scale) - j),
        quote="from Appendix A the time scale for unit j is O(j) at startup",
    )
    yield scales
    yield paper("eq. 78").repeats(scales, "this yields a characteristic time of order j and seems to perform well")


def random_graph() -> Iterator[Entry]:
    """Eqs. (69) and (70)."""
    half = Rational(1, 2)
    j = Symbol("j", positive=True)
    small, keep = Symbol("eps", real=True), Symbol("tau", real=True)
    inputs = [Symbol(f"rho_{k}", real=True) for k in (0, 1)]

    def active(size: Expr) -> Expr:
        """The activation of an RNN's unit after two inputs of a size."""
        return tanh(size * inputs[1] + keep * tanh(size * inputs[0]))

    spread = Rational(1, 48) / (1 - (1 - 1 / j) ** 2)
    yield paper("eq. 69").says(
        "With (69) the activation of each unit is a linear combination of past symbols, with exponentially decreasing "
        "weights; unit i has a decay time of order i.",
        Equal(Derivative(active(S.One), inputs[1], 2), S.Zero),
        reading=Correction(
            "So it is to first order for small inputs, with weights tau_ii^k and decay time -1/log(1 - 1/i) = i - 1/2 - ...",
            Expands(active(small), small, small * (inputs[1] + keep * inputs[0]), 2),
            Tends(-1 / (j * log(1 - 1 / j)), j, oo, S.One),
            Tends(-1 / log(1 - 1 / j) - j, j, oo, -half),
            Less(S.One, spread.subs(j, 96), True),
        ),
        remark="the inputs are not small: (69) has 1/2 where (32) has mu_j/4, so that from i = 96 on the standard deviation of "
        "V_i = sum_k tau_ii^k rho, 1/48 being the variance of (u - mean)/2, is above 1, where tanh bends",
        quote="the activation of each unit is given by a random linear combination of past symbols with weights exponentially "
        "decreasing with time, with unit i having a decay time of order i",
    )
    glnn = fields.glnn()
    T, b, V = glnn.parameters["T_1"], glnn.parameters["t_1"], glnn.state
    first_read = euler_step(glnn)
    one = dict(zip(glnn.inputs, (S.One, S.Zero), strict=True))
    yield paper("eq. 70", sizes="2 units beside unit 0").says(
        "V_j + tau_jj s(V_j) + tau_0j + sum over the other units is the evolution equation (13).",
        Equal(first_read, column(*(V[j] + T[j, j] * tanh(V[j]) + b[j] + T[j, 1 - j] * tanh(V[1 - j]) for j in range(2))), one),
        mutation=changed(
            "i != j left out of the last sum",
            lhs=first_read[0],
            rhs=V[0] + T[0, 0] * tanh(V[0]) + b[0] + sum(T[0, i] * tanh(V[i]) for i in range(2)),
        ),
        remark="against this project's field of the GLNN, its first symbol read; T_ji is the print's tau_ij",
        quote=r"let us isolate the contributions of i=j and of the always-activated unit i=0",
    )


def without_and_with_feedback() -> Iterator[Entry]:
    """Appendix A in words: what feedback and the sign of alpha do, for tanh unless another s is named."""
    rest, _, n, tau = (Symbol(name, positive=True) for name in ("k", "j", "n", "tau"))
    yield paper("app. A, perpetual increase").says(
        "Positive tau_jjx results in perpetual increase of V_j if the other contributions are ignored.",
        Less(S.Zero, tau * tanh(v), True),
        reading=Correction(
            "So it is for the logistic function, or for tanh of the size of V_j: from V < 0 it falls for ever, at 0 it stays.",
            Less(S.Zero, tau * sigma(v), True),
            Less(S.Zero, tau * (exp(u) - exp(-u)) / (exp(u) + exp(-u)), True, rising=(u,)),
            Equal(tanh(z), -tanh(v), {z: -v}),
            Equal(tanh(v), S.Zero, {v: S.Zero}),
        ),
        remark="the experiments and these values are for tanh",
        quote=r"positive \tau_{jjx} would result in perpetual increase of V^{t}_{j} if the other contributions are ignored",
    )
    yield paper("app. A, attractive", given="the deviation is small enough for (72)").says(
        "If |1 - alpha s'(Vbar)| < 1 the fixed point is attractive: deviations vanish by (72).",
        Tends(exp(-rest * n), n, oo, S.Zero),
        mutation=changed("< 1 read as > 1", expression=exp(rest * n)),
        remark="|1 - alpha s'| = e^-k with k > 0, and its power n is what is left after n steps",
        quote=r"so that if \left|\mskip 1.0mu 1-\alpha s^{\prime}(\bar{V})\right|<1 this fixed point is attractive",
    )
    part = 1 / (1 + u)
    yield paper("app. A, rate", given="0 < mu < 1").says(
        "The weights of past values decrease exponentially at rate 1 - mu.",
        Equal(part**n, exp(-part * n)),
        reading=Correction(
            "By the factor 1 - mu at each step. The rate is -log(1 - mu), near mu: slow where 1 - mu is near 1.",
            Equal(part ** (n + 1) / part**n, part),
            Expands(-log(1 - mu), mu, mu, 2),
        ),
        remark="1 - mu = 1/(1 + u)",
        quote=r"with weights exponentially decreasing with time at rate (1-\mu)",
    )
    _, j, _, _ = (Symbol(name, positive=True) for name in ("k", "j", "n", "tau"))
    bounded = Symbol("x", positive=True)
    yield paper("app. A, positive alpha").says(
        "Negative alpha leads to instability, positive alpha stabilizes.",
        Less(S.One, (1 + u) ** 2, True),
        Less((1 - alpha) ** 2, S.One, True),
        reading=Correction(
            "Positive alpha up to 2/s'(Vbar) does; beyond, the fixed point repels, as at Vbar = 0 for alpha > 2.",
            Less((1 - bounded) ** 2, S.One, True, {bounded: (0, 2)}, rewritten=bounded * (2 - bounded)),
            Less(S.One, (1 - (2 + u)) ** 2, True),
        ),
        remark="x = alpha s'(Vbar); the text says presumably, and next that alpha above 1 is too much",
        quote=r"negative values of \alpha would lead to unstability, whereas positive values of \alpha presumably stabilize",
    )
    slope = Symbol("s'", positive=True)
    at_rest = 1 - alpha * slope
    yield paper("app. A, oscillation, at rest").says(
        "With alpha above 1/sup s' the unit oscillates about its fixed point.",
        Less(1 - 1 / (j + 1), S.Zero),
        reading=Correction(
            "Only where alpha s'(Vbar) is above 1, as at Vbar = 0. With beta set for a mu of at most 1/2 the slope there "
            "is 1 - mu > 0, whatever alpha: no oscillation.",
            Equal(at_rest, 1 - mu, {slope: mu / alpha}),
            Less(S.Zero, 1 - 1 / (j + 1), True),
            Less(1 - (1 + u), S.Zero, True),
        ),
        remark="alpha s'(Vbar) = mu by (75) and (77)",
        quote=r"resulting in non-monotonous V^{t+1} as a function of V^{t} and an oscillating behavior",
    )


def windows_and_choices() -> Iterator[Entry]:
    """Windows, mu and the size of the sum."""
    part = 1 / (1 + u)
    yield paper("app. A, window").says(
        "Data much older than 1/mu has little weight: after c/mu steps at most e^-c.",
        Less(u / (1 + u), log(1 + u), True, rising=(u,)),
        mutation=Mutation("after c steps already", Less(S.One, log(1 + u))),
        remark="1 - mu = 1/(1 + u): (1 - mu)^(c/mu) <= e^-c says that -log(1 - mu) >= mu",
        quote=r"data much older than t-t^{\prime}\gg\frac{1}{\mu} has little weight",
    )
    yield paper("eq. 77, arbitrary mu", given="mu > 0").says(
        "(77) sets beta from an arbitrary choice for mu.",
        Less(S.Zero, alpha * (alpha - mu)),
        reading=Correction(
            "From any mu up to alpha sup s' = alpha; above, (77) is the root of a negative number.",
            Less(S.Zero, alpha * (alpha - mu), region={mu: (0, alpha)}, rewritten=alpha * (alpha - mu)),
            Less(alpha * (alpha - mu).subs(mu, alpha + u), S.Zero, True),
        ),
        quote=r"which is used to set \beta from an arbitrary choice for \mu",
    )
    eps, lost = Symbol("epsilon", positive=True), u / (1 + u)
    printed = eps * part / (1 - part)
    yield paper("app. A, size of the sum", given="0 < mu < 1").says(
        "If each rho is of size 1, eps sum_{t' < t} (1 - mu)^(t - t') rho is eps/mu.",
        Equal(printed, eps / lost),
        correction=Correction(
            "For rho = 1 it is eps (1 - mu)/mu; with the exponent t - t' - 1 it is eps/mu, a bound. The rho have mean 0: for "
            "independent ones of variance 1 the standard deviation is eps/sqrt(mu (2 - mu)), of the order of eps/sqrt(mu).",
            Equal(printed, eps * (1 - lost) / lost),
            Equal(eps / (1 - part), eps / lost),
            Equal(eps**2 / (1 - part**2), eps**2 / (lost * (2 - lost))),
        ),
        remark="1 - mu = 1/(1 + u); geometric series of 1 - mu, from its first power as printed, from 1, and of its square",
        quote=r"If each \rho is roughly of size 1, the sum is \varepsilon/\mu",
    )


def rates_of_units() -> Iterator[Entry]:
    """Eqs. (71) to (75)."""
    beta, eps = Symbol("beta", real=True), Symbol("eps", real=True)
    step = v - alpha * s(v) + beta
    at_rest = {s(v): beta / alpha}
    yield paper("eq. 71").says(
        "V - alpha s(V) + beta rests where s(V) = beta/alpha.",
        Equal(step, v, at_rest),
        mutation=changed("beta/alpha read as alpha/beta", where={s(v): alpha / beta}),
        quote=r"which has a fixed point at "
        r"V^{t}_{j}=\bar{V}\mathrel{\mathop{:}}=s^{-1}(\beta/\alpha), i.e., a^{t}_{j}=\beta/\alpha",
    )
    linear = Symbol("V0", real=True)
    slope_of = paper("eq. 72").says(
        "Close to the fixed point V(t+1) - Vbar = (1 - alpha s'(Vbar)) (V(t) - Vbar), up to the square.",
        Equal(Subs(Derivative(step.subs(v, linear + eps), eps), eps, 0), 1 - alpha * s(linear).diff(linear)),
        Expands(
            (linear + eps) - alpha * tanh(linear + eps) + alpha * tanh(linear) - linear,
            eps,
            (1 - alpha * (1 - tanh(linear) ** 2)) * eps,
            2,
        ),
        mutation=changed("1 - alpha s' read as 1 + alpha s'", terms=(1 + alpha * (1 - tanh(linear) ** 2)) * eps),
        remark="the slope for any s, the order for s = tanh, beta = alpha s(Vbar)",
        quote=r"The linearized dynamics around this fixed point (V^{t}_{j} close to \bar{V}) is",
    )
    yield slope_of
    again = {
        "eq. 31": (
            "tau_iiy = -alpha is negative feedback: the step's slope in its own V is 1 - alpha s'(V).",
            r"if \tau_{jjx} is negative for all x, then the feedback will be negative",
        ),
        "eq. 75": (
            "mu = alpha s'(Vbar) is what a step takes from the deviation: the step's slope is 1 - mu.",
            r"\mu\mathrel{\mathop{:}}=\alpha s^{\prime}(\bar{V}) (75)",
        ),
    }
    for label, (words, quote) in again.items():
        yield paper(label).repeats(slope_of, quote, words)
    decay = 1 / (1 + u)
    rho = [Symbol(f"rho_{k}", real=True) for k in range(4)]
    state = S.Zero
    for k in rho:
        state = decay * state + eps * k
    printed = eps * sum(decay ** (4 - k) * rho[k] for k in range(4))
    right = eps * sum(decay ** (4 - k - 1) * rho[k] for k in range(4))
    yield paper("eq. 73").says(
        "With tau_0jx = beta + eps rho_x each step adds eps rho_x to the deviation and keeps 1 - mu of it.",
        Equal(step + eps * rho[0] - v, eps * rho[0], at_rest),
        mutation=changed("eps rho read as rho", rhs=rho[0]),
        remark="at the fixed point",
        quote=r"A more interesting choice is to let \tau_{jjx}=-\alpha,\qquad\tau_{0jx}=\beta+"
        r"\varepsilon\rho_{x} (73) with small \varepsilon",
    )
    yield paper("eq. 74").says(
        "V(t) is Vbar + eps sum_{t' < t} (1 - mu)^(t - t') rho_{x_t'}.",
        Equal(state, printed),
        correction=Correction(
            "The exponent is t - t' - 1: the symbol read last, t' = t - 1, has not decayed yet.", Equal(state, right)
        ),
        remark="four steps from Vbar; 1 - mu = 1/(1 + u) is any number of (0, 1)",
        quote=r"V^{t}_{j}\approx\bar{V}+\varepsilon\sum_{t^{\prime}<t}(1-\mu)^{t-t^{\prime}}",
    )
    yield paper("app. A, oscillation").says(
        "alpha above 1/sup s' (1 for tanh) makes V(t+1) a function of V(t) that is not monotone.",
        Equal(Derivative(v - alpha * tanh(v), v).subs(v, 0), 1 - alpha),
        Less((1 - alpha).subs(alpha, 1 + u), S.Zero, True),
        Less(S.Zero, 1 - u * (1 - z**2), True, {u: (0, 1)}, rewritten=(1 - u) + u * z**2),
        mutation=Mutation("above 1 read as above 1/2", Less((1 - alpha).subs(alpha, Rational(1, 2) + u), S.Zero)),
        remark="the last statement, with z for tanh(V): below 1 it is monotone everywhere",
        quote=r"values of \alpha above 1/\sup s^{\prime} (=1 for \tanh activation) will provide too much feedback, resulting in "
        r"non-monotonous V^{t+1} as a function of V^{t}",
    )


def spread_of_rates() -> Iterator[Entry]:
    """Eqs. (76) to (79), footnote 17."""
    yield paper("eq. 76").says(
        "alpha = 1/2 is 1/(2 sup s') for tanh, whose largest slope is 1, at 0.",
        Equal(Derivative(tanh(v), v).subs(v, 0), S.One),
        Less(S.Zero, 1 - Derivative(tanh(v), v), rewritten=tanh(v) ** 2),
        mutation=changed("tanh read as the logistic function", lhs=sigma(v).diff(v).subs(v, 0)),
        quote=r"Indeed we have found that setting \alpha=1/(2\sup s^{\prime}), i.e., \tau_{jjx}=-\alpha=-1/2 (76) (for tanh)",
    )
    level, beta = Symbol("a", real=True), Symbol("beta", real=True)
    solved = -sqrt(alpha * (alpha - mu))
    yield paper("eq. 77", given="0 < mu <= alpha").says(
        "beta = -sqrt(alpha (alpha - mu)) gives mu = alpha s'(s^-1(beta/alpha)) for tanh.",
        Equal(alpha * (1 - (solved / alpha) ** 2), mu),
        Equal(Derivative(tanh(v), v), (1 - level**2).subs(level, tanh(v))),
        mutation=changed("alpha (alpha - mu) read as alpha - mu", lhs=alpha * (1 - (-sqrt(alpha - mu) / alpha) ** 2)),
        remark="the positive root does as well",
        quote=r"for the \tanh activation function, this yields \beta=-\sqrt{\alpha(\alpha-\mu)} (77)",
    )
    n = Symbol("n", positive=True)
    geometric, small = (1 - (1 - mu) ** n) / mu, Symbol("eps", positive=True)
    yield paper("eq. 79", given=("0 < mu <= 1", "|rho| <= 1")).says(
        "eps = mu/4 keeps the sum small: with |rho| <= 1 it stays below eps/mu = 1/4.",
        Equal(geometric.subs(n, n + 1) - 1, (1 - mu) * geometric),
        Less(mu / 4 * (1 - u / (1 + u)) / mu, Rational(1, 4), True),
        Equal(small / mu, Rational(1, 4), {small: mu / 4}),
        mutation=Mutation("mu/4 read as 1/4", Equal(small / mu, Rational(1, 4), {small: Rational(1, 4)})),
        remark="the sum of (1 - mu)^k over n steps is (1 - (1 - mu)^n)/mu < 1/mu; (1 - mu)^n = u/(1 + u)",
        quote=r"so taking \varepsilon somewhat smaller than \mu is reasonable. We have used \varepsilon=\frac{\mu}{4} (79)",
    )
    rest, loop = {s(v): beta / alpha}, v - alpha * s(v) + beta
    yield paper("app. A, close to").says(
        "epsilon must be small enough to ensure that V_j(t) stays close to V_j.",
        Equal(loop, v),
        correction=Correction("To Vbar, where the unit rests without a signal: no other level stays.", Equal(loop, v, rest)),
        remark="V_j without a time is no number of the text; a bar is lost, perhaps in the extraction",
        quote=r"The value of \varepsilon must be small enough to ensure that V^{t}_{j} stays close to V_{j}",
    )
    yield paper("footnote 17").says(
        "Since the activation function s ranges in [0; 1], the feedback -alpha s(V) is bounded.",
        Less(S.Zero, tanh(z)),
        correction=Correction(
            "For tanh, with which these values are used, s ranges in (-1, 1); the feedback is bounded by alpha either way.",
            Less(S.Zero, 1 - tanh(z).rewrite(exp) ** 2, True, rewritten=4 * exp(2 * z) / (exp(2 * z) + 1) ** 2),
        ),
        remark="[0, 1] is the range of the logistic function",
        quote=r"Indeed since the activation function s ranges in [0;1], the feedback term -\alpha s(V^{t}_{j}) is bounded",
    )


def numbers() -> Iterator[Entry]:
    """Section 4, footnote 8."""
    k, eta, distance = Symbol("k", positive=True), Symbol("eta", positive=True), Symbol("x", real=True)
    moved = distance - eta * k * distance
    yield paper("footnote 8").says(
        "Past the optimal learning rate a quadratic minimum is stepped over: the iterates oscillate.",
        Equal(moved, S.Zero, {eta: 1 / k}),
        Less(moved.subs({eta: (1 + u) / k, distance: k}), S.Zero, True),
        mutation=Mutation("past half of it", Less(moved.subs({eta: (1 + u) / (2 * k), distance: k}), S.Zero)),
        remark="f = k x^2/2, optimal rate 1/k; from x = k > 0 the next iterate is negative",
        quote="this leads to some slight oscillating behavior when the learning rate gets past the "
        "optimal value (as is clear for a quadratic minimum)",
    )
