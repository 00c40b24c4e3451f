r"""Ollivier 2013, sections 3.1 and 3.2: gradients in a metric, and the metric that divergences of outputs give.

gradient in a metric      theta' = theta + eta M^-1 df/dtheta         (40), the same in all coordinates up to O(eta^2)
another parameter psi     df/dpsi = J^T df/dtheta,   M_psi = J^T M J,   J = dtheta/dpsi
Fisher metric             2 KL(pi | pi + d pi) = sum_y d pi(y)^2/pi(y) = E_pi (d log pi)^2                     (44), (45)

Changes of parameters are smooth: near a point they are given to second order by free letters J and K.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from sympy import Expr, Integer, S, Symbol, cos, exp, eye, hessian, log, oo, sin, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Mutation, Source, Tends, changed
from derivations.prover.identity import column

__all__ = ["at_start", "bend", "gradient", "letters", "near", "paper", "put", "second_slopes", "square", "symmetric"]

paper = Source("ollivier-2013-riemannian-metrics-ii")
eta, eps = Symbol("eta", positive=True), Symbol("epsilon", real=True)
SMOOTH = "the change of parameters is smooth, with slopes J that can be inverted"


def letters(name: str, *sizes: int, **assumed: bool) -> Matrix:
    """name_1, name_2, ... in a column, or name_{11}, name_{12}, ... in a matrix; real unless more is assumed."""
    rows, columns = (*sizes, 1)[:2]
    many = len(sizes) > 1
    return Matrix(rows, columns, lambda i, j: Symbol(f"{name}_{{{i + 1}{j + 1 if many else ''}}}", **(assumed or {"real": True})))


def symmetric(name: str, n: int) -> Matrix:
    return Matrix(n, n, lambda i, j: Symbol(f"{name}_{{{min(i, j) + 1}{max(i, j) + 1}}}", real=True))


def square(v: Matrix, metric: Matrix) -> Expr:
    """v^T M v."""
    return (v.T * metric * v)[0]


J, A = letters("J", 2, 2), letters("A", 2, 2)
M, H = symmetric("M", 2), symmetric("H", 2)
slope, psi, step = letters("f", 2), letters("psi", 2), letters("u", 2)


def near(psi: Matrix) -> Matrix:
    """theta(psi) - theta(0) to second order: J psi + psi^T K psi/2."""
    bends = [symmetric(f"K^{k}", 2) for k in (1, 2)]
    return Matrix([(J.row(k) * psi)[0] + square(psi, bends[k]) / 2 for k in range(2)])


def function(theta: Matrix) -> Expr:
    """f(theta) - f(0) to second order."""
    return (slope.T * theta)[0] + square(theta, H) / 2


def gradient(e: Expr, of: Matrix) -> Matrix:
    return Matrix([e.diff(u) for u in of])


def second_slopes(e: Expr, of: Matrix) -> Matrix:
    return Matrix(hessian(e, list(of)))


def put(e: Any, letters: Matrix, values: Matrix) -> Any:
    return e.subs(dict(zip(letters, values, strict=True)), simultaneous=True)


def at_start(e: Matrix, of: Matrix) -> Matrix:
    return e.subs(dict.fromkeys(of, 0))


def gradients() -> Iterator[Entry]:
    """Section 3.1."""
    turned = Symbol("phi", real=True)
    rotation = Matrix([[cos(turned), -sin(turned)], [sin(turned), cos(turned)]])
    in_basis = A * at_start(gradient(function(A * psi), psi), psi)
    yield paper("eq. 36, other bases", given="A can be inverted", sizes="2 parameters").says(
        "Gradient ascent depends on the numbers that stand for the parameters: in another basis, theta = A psi, it moves theta "
        "by eta A A^T df/dtheta, which is the same only if the basis is orthogonal, and is the step of the metric (A A^T)^-1.",
        Equal(in_basis, A * A.T * slope),
        Fails(Equal(A * A.T, eye(2))),
        Equal(rotation * rotation.T, eye(2)),
        Equal(square(step, (A * A.T).inv()), square(A.inv() * step, eye(2))),
        mutation=changed("in another basis read as the same step", rhs=slope),
        quote="a non-orthogonal change of basis in parameter space will yield different learning trajectories",
    )
    best = eta * (M - eta * H).inv() * slope
    nearby = paper("eq. 38", given=("f is smooth", "eta is small", "M can be inverted"), sizes="2 parameters").says(
        "With (theta - theta')^T M (theta - theta') for the squared distance the maximum of f - |theta - theta'|^2/(2 eta) is "
        "the update theta + eta M^-1 df/dtheta, up to O(eta^2).",
        Equal(slope + H * best - M * best / eta, zeros(2, 1)),
        *(Expands(best[k], eta, eta * (M.inv() * slope)[k], 2) for k in (0, 1)),
        mutation=changed("M^-1 read as M", terms=eta * (M * slope)[0]),
        remark="f with slopes and Hessian H at theta",
        quote=r"a linear change of basis for \theta amounts to replacing \left\|\theta-\theta^{\prime}\right\|^{2} with (\theta-"
        r"\theta^{\prime})^{\!\top}\!M(\theta-\theta^{\prime}) with M a symmetric, positive-definite matrix",
    )
    words = "The gradient step eta df/dtheta is the maximum of f - |theta - theta'|^2/(2 eta) up to O(eta^2): (38) with M = 1."
    approximate = r"for small enough learning rates \eta (where \approx means “up to O(\eta^{2}) when \eta\to 0”)"
    yield paper("eq. 1").repeats(nearby, approximate, words)
    yield paper("eq. 37").repeats(nearby, r"where the equality holds up to an approximation O(\eta^{2}) for small \eta", words)
    yield nearby
    distance = square(psi, M) / 2
    law = at_start(second_slopes(put(distance, psi, near(psi)), psi), psi)
    yield paper("eq. 39", given=SMOOTH, sizes="2 parameters").says(
        "The norm of an infinitesimal change is a metric's: in other coordinates psi the matrix of the same norm is J^T M J with "
        "J = dtheta/dpsi.",
        Equal(law, J.T * M * J),
        mutation=changed("J^T M J read as J M J^T", rhs=J * M * J.T),
        remark="the metric is the Hessian of half the squared distance, which is a function on the manifold",
        quote=r"defining a (Riemannian) metric in which the norm of an infinitesimal change",
    )
    inside = near(psi)
    natural = (J.T * M * J).inv() * at_start(gradient(function(inside), psi), psi)
    seen = put(inside, psi, eta * J.inv() * step)
    straight = J * (eta * natural)
    step_of_metric = paper("eq. 40", given=SMOOTH, sizes="2 parameters").says(
        "The gradient step eta M^-1 df/dtheta of a metric is the same step in all coordinates, to first order in eta.",
        Equal(straight, eta * M.inv() * slope),
        *(Expands(seen[k], eta, eta * step[k], 2) for k in (0, 1)),
        mutation=Mutation("M(theta)^-1 left out", Equal(J * at_start(gradient(function(inside), psi), psi), slope)),
        remark="J psi' = M^-1 f' where psi' is the step in psi; the second statement is the step carried over",
        quote="Thus the natural gradient provides invariance with respect to some arbitrary design choices",
    )
    yield step_of_metric
    yield paper("eq. 15").repeats(
        step_of_metric,
        "These metrics are built in Sections 3.33.5 to achieve reparametrization invariance at a reasonable computational cost",
    )


# Two symbols, and what was read before: P(a | past) = u/(1 + u), so that logarithms come apart.
PASTS = ("", "a", "b")


def odds(name: str, past: str) -> Symbol:
    return Symbol(f"{name}_{{{past or '0'}}}", positive=True)


def chance(name: str, symbol: str, past: str) -> Expr:
    u = odds(name, past)
    return (u if symbol == "a" else S.One) / (1 + u)


def chance_of(name: str, word: str) -> Expr:
    return Integer(1) * _product(chance(name, symbol, word[:t]) for t, symbol in enumerate(word))


def _product(factors: Iterator[Expr]) -> Expr:
    value: Expr = S.One
    for each in factors:
        value *= each
    return value


def kl(past: str) -> Expr:
    """KL(pi | pi') of the next symbol after a past."""
    return sum((chance("u", x, past) * (log(chance("u", x, past)) - log(chance("v", x, past))) for x in "ab"), S.Zero)


def whole() -> Expr:
    """(41) for sequences of two symbols."""
    words = ("".join(word) for word in product("ab", repeat=2))
    return sum((chance_of("u", word) * (log(chance_of("u", word)) - log(chance_of("v", word))) for word in words), S.Zero)


def conditional(word: str) -> Expr:
    """(43) along a sequence."""
    return sum((kl(word[:t]) for t in range(len(word))), S.Zero)


def bend(e: Expr) -> Matrix:
    """The terms of first and second order in eps."""
    return column(e.diff(eps).subs(eps, 0), e.diff(eps, 2).subs(eps, 0) / 2)


def divergences() -> Iterator[Entry]:
    """Section 3.2: of whole sequences, and of one symbol after another."""
    d1 = whole()
    mean = sum((chance_of("u", w) * conditional(w) for w in ("aa", "ab", "ba", "bb")), S.Zero)
    v = {past: odds("v", past) for past in PASTS}
    p, d = ({past: Symbol(f"{name}_{{{past or '0'}}}", real=True) for past in PASTS} for name in "pd")
    totals = {past: log(1 - p[past] + p[past] * exp(eps * d[past])) for past in PASTS}
    moved = S.Zero
    for first, x in product("ab", repeat=2):
        weight = (p[""] if first == "a" else 1 - p[""]) * (p[first] if x == "a" else 1 - p[first])
        moved += weight * (totals[""] + totals[first] - eps * (d[""] * int(first == "a") + d[first] * int(x == "a")))
    norms = {past: p[past] * (1 - p[past]) * d[past] ** 2 for past in PASTS}
    fisher_mean = norms[""] + p[""] * norms["a"] + (1 - p[""]) * norms["b"]
    yield paper("eq. 41, metric", sizes="2 symbols, sequences of 2").says(
        "For close parameters 2 D_1 is a metric on whole sequences, and it is the mean over sequences of the sum of |d pi_t|^2.",
        Equal(bend(2 * moved), column(0, fisher_mean)),
        mutation=changed("mean read as sum over all pasts", rhs=column(0, sum(norms.values()))),
        remark="p is the probability of an a after nothing, a or b, and d the change of its log-odds",
        quote="One way to define the Fisher metric is as an infinitesimal Kullback–Leibler divergence between two "
        "infinitesimally close probability distributions on the same set",
    )
    k, T = Symbol("k", positive=True), Symbol("T", positive=True)
    yield paper("eq. 41, infinite sequences", given="each symbol adds a mean divergence of at least k > 0").says(
        "D_1 is a number for the laws of all infinite sequences.",
        Fails(Tends(k * T, T, oo, oo)),
        reading=Correction(
            "For those of the first T symbols, as the sentence before it has them: it grows with T, as D_2 does.",
            Tends(k * T, T, oo, oo),
        ),
        remark="two laws whose next symbols keep differing are singular to one another; T symbols add k T or more",
        quote=r"where \Pr\nolimits_{\theta} is the probability distribution over the set of all sequences",
    )
    on_the_mean = paper("eq. 42", sizes="2 symbols, sequences of 2").says(
        "D_2 depends on the training sequence and is not D_1, but on the mean over sequences drawn from the model it is.",
        Equal(mean, d1),
        Fails(Equal(conditional("aa"), d1)),
        mutation=changed(
            "drawn from the model read as drawn uniformly",
            lhs=sum((conditional(w) for w in ("aa", "ab", "ba", "bb")), S.Zero) / 4,
        ),
        remark="any conditional probabilities",
        quote="The other depends on the actual training sequence x and is",
    )
    yield on_the_mean
    yield replace(
        paper("sec. 3.2, D_2 for D_1").repeats(on_the_mean, "D_{2} should be a reasonable approximation of D_{1}"),
        assumptions=("the sequence is drawn from the model", "a long sequence gives the mean over sequences"),
    )
    yield paper("eq. 43, unseen pasts").says(
        "If the training sequence starts with a, D_2 does not see how the probability of sequences starting with a b changes.",
        Equal(conditional("aa").diff(v[""]), S.Zero),
        reading=Correction(
            "It does not see what comes after a first b, which D_1 does. That of the first b itself is 1 - pi_0(a), and seen.",
            Fails(Equal(d1.diff(v["b"]), S.Zero)),
            Fails(Equal(chance_of("v", "ba").diff(v[""]), S.Zero)),
        ),
        remark="for sequences of 2; D_2 on aa and ab holds no law of what comes after a b, so that its derivative there is 0",
        quote=r"if the actual training sequence starts with the letter a, a gradient ascent based on D_{2} will not care how a "
        r"change of \theta affects the probability of sequences starting with a b",
    )
    yield paper("footnote 9").repeats(
        on_the_mean,
        r"Indeed one has D_{1}=\mathbb{E}_{x\sim\Pr\nolimits\nolimits_{\theta}}\ln\frac{\Pr\nolimits",
        "D_1 is the sum over t of the mean, over pasts drawn from the model, of KL(pi_t | pi_t').",
    )
