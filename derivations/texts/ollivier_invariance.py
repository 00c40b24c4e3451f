r"""Ollivier 2013, sections 3.1 to 3.3: gradients in a metric, the Fisher metric of the outputs, metrics of recurrent networks.

gradient in a metric      theta' = theta + eta M^-1 df/dtheta         (40), the same in all coordinates up to O(eta^2)
another parameter psi     df/dpsi = J^T df/dtheta,   M_psi = J^T M J,   J = dtheta/dpsi
Fisher metric             2 KL(pi | pi + d pi) = sum_y d pi(y)^2/pi(y) = E_pi (d log pi)^2                     (44), (45)
for a softmax             sum_y pi(y) dE_y^2 - (sum_y pi(y) dE_y)^2, the variance of dE                            (47)
for the writing weights   I = sum_t pi_t(y) (1_{y=y'} - pi_t(y')) a_i^t a_i'^t: it has no inverse                   (50)
of a recurrent network    |d theta|^2 = sum_t |d theta^t|^2, the parameter of each time taken as one of its own    (52)

Changes of parameters are smooth: near a point they are given to second order by free letters J and K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from sympy import Derivative, Expr, Integer, S, Symbol, cos, diag, exp, eye, hessian, log, oo, sin, sqrt, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Less, Mutation, Source, Tends, changed
from derivations.prover.identity import column

__all__ = ["letters", "paper", "symmetric"]

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


def _trig(e: Expr) -> Expr:
    return e.trigsimp()


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


def softmax(energies: Matrix) -> Matrix:
    weights = energies.applyfunc(exp)
    return weights / sum(weights)


def variance(pi: Matrix, of: Matrix) -> Expr:
    """(47): sum pi dE^2 - (sum pi dE)^2, the second sum written as the double sum it is."""
    n = range(len(pi))
    first = sum((pi[y] * of[y] ** 2 for y in n), S.Zero)
    return first - sum((pi[y] * pi[z] * of[y] * of[z] for y in n for z in n), S.Zero)


def divergence_of_softmax(pi: Matrix, of: Matrix) -> Expr:
    """KL(pi | pi') where the E of pi' are those of pi and eps dE: pi' = pi e^(eps dE)/sum pi e^(eps dE)."""
    total = sum((pi[y] * exp(eps * of[y]) for y in range(len(pi))), S.Zero)
    return log(total) - eps * sum((pi[y] * of[y] for y in range(len(pi))), S.Zero)


def fisher() -> Iterator[Entry]:
    """Section 3.2: the Fisher metric on the output units."""
    E = letters("E", 3)
    weight = letters("e", 3, positive=True)
    positive, share = weight[0] / sum(weight), softmax(E)
    slopes = Matrix(3, 3, lambda x, y: Derivative(share[x], E[y]))
    wrong = diag(*share) - share.multiply_elementwise(share) * Matrix([[1, 1, 1]])
    yield paper("eq. 46", sizes="3 symbols").says(
        "The softmax is a probability on the symbols, is unchanged when the same number is added to all E_y, and has the "
        "slopes d pi(x)/dE_y = pi(x) (1_{x=y} - pi(y)).",
        Equal(sum(softmax(E)), S.One),
        Equal(softmax(E + Matrix([eps] * 3)), softmax(E)),
        Less(S.Zero, positive, True),
        Equal(slopes, diag(*share) - share * share.T),
        mutation=Mutation("1_{x=y} - pi(y) read as 1_{x=y} - pi(x)", Equal(slopes, wrong)),
        quote=r"Let us set E_{y}^{t}\mathrel{\mathop{:}}=\sum_{i}a^{t}_{i}w_{iy}, so that",
    )
    p = Symbol("p", positive=True)
    linear = [(-log(p)).diff(p, 2), (-log(1 - p)).diff(p, 2)]
    by_output = [loglik(x)[1] for x in ("ab", "aa")]
    yield paper(
        "sec. 3.2, Newton", given="steps are taken where the matrix can be inverted", sizes="2 units, 2 symbols, 2 steps"
    ).says(
        "For the writing weights the natural gradient with learning rate 1 is Newton's method: the Hessian of the log-likelihood "
        "is minus the Fisher matrix, whatever the symbols read.",
        Equal(-by_output[0], information()),
        Equal(-by_output[1], information()),
        mutation=Mutation(
            "softmax output read as linear output pi(x) = p: then the Hessian depends on the symbol", Equal(linear[0], linear[1])
        ),
        remark="the matrix itself has no inverse (see there), so both are up to its null directions",
        quote="for the parameters w, the natural gradient with learning rate 1 coincides with the Newton method",
    )


# Writing weights: units i = 0 (always on) and 1, symbols a and b, two times.
UNITS, SYMBOLS, TIMES = range(2), range(2), range(2)
a = Matrix(2, 2, lambda i, t: Symbol(f"a^{t}", real=True) if i else S.One)
prob = Matrix(2, 2, lambda y, t: (Symbol(f"pi^{t}", positive=True), 1 - Symbol(f"pi^{t}", positive=True))[y])
dw = [[Symbol(f"dw_{{{i}{'ab'[y]}}}", real=True) for y in SYMBOLS] for i in UNITS]
FLAT = [dw[i][y] for i in UNITS for y in SYMBOLS]


def energies(t: int) -> Matrix:
    """dE_y^t = sum_i a_i^t dw_iy."""
    return Matrix([sum((a[i, t] * dw[i][y] for i in UNITS), S.Zero) for y in SYMBOLS])


def information(second: Callable[[int, int], int] = lambda y, z: y) -> Matrix:
    """(50) with the index y that it should have, pi(z) (1_{z=y} - pi(y)) a_i a_i', summed over time; or with another."""
    pairs = [(i, y) for i in UNITS for y in SYMBOLS]

    def entry(r: int, c: int) -> Expr:
        (i, y), (k, z) = pairs[r], pairs[c]
        of = second(y, z)
        return sum((prob[z, t] * (int(z == of) - prob[of, t]) * a[i, t] * a[k, t] for t in TIMES), S.Zero)

    return Matrix(4, 4, entry)


def loglik(word: str) -> tuple[Matrix, Matrix]:
    """Gradient and Hessian of log Pr(word) in the writing weights, from its change when w is moved by eps dw."""
    moved = S.Zero
    for t, x in enumerate(word):
        of = energies(t)
        moved += eps * of["ab".index(x)] - log(sum((prob[y, t] * exp(eps * of[y]) for y in SYMBOLS), S.Zero))
    first, second = moved.diff(eps).subs(eps, 0), moved.diff(eps, 2).subs(eps, 0)
    return gradient(first, Matrix(FLAT)), second_slopes(second, Matrix(FLAT)) / 2


def writing_weights() -> Iterator[Entry]:
    """Section 3.2: the metric over the writing coefficients."""
    divergence = sum((divergence_of_softmax(prob.col(t), energies(t)) for t in TIMES), S.Zero)
    norm = sum((variance(prob.col(t), energies(t)) for t in TIMES), S.Zero)
    yield paper("eq. 48", sizes="2 units, 2 symbols, 2 steps").says(
        "The sum over t of |d pi_t|^2, with dE_y^t = sum_i a_i^t dw_iy in (47), is 2 D_2 at second order.",
        Equal(bend(2 * divergence), column(0, norm)),
        mutation=changed("2 D_2 read as D_2", lhs=bend(divergence)),
        quote="By the discussion above, we are interested in the quantity",
    )
    shift = Matrix([Symbol("c_0", real=True)] * 2 + [Symbol("c_1", real=True)] * 2)
    reduced = information().extract([0, 2], [0, 2])
    v = [prob[0, t] * prob[1, t] for t in TIMES]
    yield paper("sec. 3.2, inverse of the full matrix").says(
        "The Fisher matrix of the writing weights can be inverted, at a cost.",
        Fails(Equal(information().det(method="berkowitz"), S.Zero)),
        correction=Correction(
            "It never can: adding c_i to w_iy for all y changes no probability, so as many directions as there are units have "
            "length 0. With the weights of one symbol held fixed it can, if the activities are not all the same.",
            Equal(information() * shift, zeros(4, 1)),
            Equal(reduced.det(), v[0] * v[1] * (a[1, 1] - a[1, 0]) ** 2),
        ),
        remark="for 2 units, 2 symbols, 2 steps; the quasi-diagonal inverse of Section 2 keeps only y = y' and is not affected",
        quote="This is a full matrix whose inversion can be costly",
    )
    # The symbol y'' of the print, which no sum binds, read as a: any choice has to serve.
    unbound = information(lambda y, z: 0)
    flat = Matrix(FLAT)
    yield paper("eq. 49").says(
        "The norm is sum pi(y') (1[y' = y''] - pi(y'')) a_i a_i' dw_iy dw_i'y'.",
        Equal(norm, square(flat, unbound)),
        correction=Correction(
            "With y in place of y'', which nothing binds: pi(y') (1[y' = y] - pi(y)).", Equal(norm, square(flat, information()))
        ),
        remark="y'' read as the symbol a; 2 units, 2 symbols, 2 steps",
        quote=r"\pi_{t}(y^{\prime})(\mathbbm{1% }_{y^{\prime}=y^{\prime\prime}}-\pi_{t}(y^{\prime\prime}))a^{t}_{i}a^{t}_{i^{",
    )
    yield paper("eq. 50").says(
        "The Fisher matrix of w_iy and w_i'y' is sum pi(y') (1[y' = y''] - pi(y'')) a_i a_i', the negative Hessian.",
        Equal(-loglik("ab")[1], unbound),
        correction=Correction(
            "With y in place of y'': pi(y') (1[y' = y] - pi(y)) a_i a_i'.", Equal(-loglik("ab")[1], information())
        ),
        remark="the same index as in (49)",
        quote=r"I_{w_{iy}w_{i^{\prime}y^{\prime}}}=\sum_{t}\pi_{t}(y^{\prime})(\mathbbm{1}_{y^",
    )
    units, symbols, steps = (Symbol(name, positive=True) for name in ("N", "A", "T"))
    yield paper("remark 7").says(
        "For the writing weights the Hessian is easily computed, and there is no reason not to use it.",
        Fails(Equal(information().det(method="berkowitz"), S.Zero)),
        correction=Correction(
            "There are two, and section 2 does not use it: it has no inverse (see there), and (N A)^2 entries, sums over time, "
            "where the quasi-diagonal reduction has 2 N A.",
            Equal(information() * shift, zeros(4, 1)),
            Tends((units * symbols) ** 2 * steps / (2 * units * symbols * steps), symbols, oo, oo),
        ),
        remark="against section 3.2: a full matrix whose inversion can be costly; 2 units, 2 symbols, 2 steps",
        quote="is easily computed (Section 3.2) and there is no reason not to use it",
    )


def each_time() -> Iterator[Entry]:
    """Section 3.3: a metric for each time."""
    times = range(3)
    metrics = [symmetric(f"M^{t}", 2) for t in times]
    total = metrics[0] + metrics[1] + metrics[2]
    distance = sum((square(near(psi), metrics[t]) for t in times), S.Zero) / 2
    carried = at_start(second_slopes(distance, psi), psi)
    yield paper("eq. 51, invariance", given=SMOOTH, sizes="2 parameters, 3 steps").says(
        "If the metric of the time-unfolded network does not depend on coordinates, its sum over time does not either: in other "
        "coordinates the matrix is J^T (sum_t M^t) J.",
        Equal(carried, J.T * total * J),
        mutation=Mutation(
            "the metrics of single times changed by different J",
            Equal(J.T * (metrics[0] + metrics[1]) * J, J.T * metrics[0] * J + metrics[1]),
        ),
        remark="all theta^t equal theta, so all have the same J",
        quote="If the metric used on the time-unfolded network is reparametrization-invariant, then "
        "so will be the metric on the recurrent network",
    )
    g = [letters(f"g^{t}", 2) for t in (0, 1)]
    apart = [metrics[t].inv() * g[t] for t in (0, 1)]
    spread = sum((square(apart[t] - step, metrics[t]) for t in (0, 1)), S.Zero)
    joint = (metrics[0] + metrics[1]).inv() * (g[0] + g[1])
    yield paper("eq. 52", given="the metric of each time can be inverted", sizes="2 steps, 2 parameters").says(
        "Its step is the time-independent update that is nearest to the separate updates, in the sum of the norms.",
        Equal(put(gradient(spread, step), step, joint), zeros(2, 1)),
        mutation=Mutation("the mean of the updates", Equal(joint, (apart[0] + apart[1]) / 2)),
        remark="footnote 10 says when those of single times cannot be inverted",
        quote=r"this amounts to making independent updates for each \theta^{t} and then finding the time-independent update",
    )
    samples = [letters(f"l^{k}", 2) for k in (1, 2)]
    outer = sum((each * each.T for each in samples), zeros(2, 2)) / 2
    in_psi = sum((J.T * each * (J.T * each).T for each in samples), zeros(2, 2)) / 2
    yield paper("eq. 53", given=SMOOTH, sizes="2 samples, 2 parameters").says(
        "The outer product metric C transforms as a metric: in other coordinates, with slopes J, it is J^T C J.",
        Equal(in_psi, J.T * outer * J),
        mutation=changed("J^T C J read as J C J^T", rhs=J * outer * J.T),
        remark="the gradient step then is the same, as in (40)",
        quote="and this gradient direction is parametrization-invariant",
    )
    lengths, whole = letters("l", 2, positive=True), Symbol("n", positive=True)
    yield paper("sec. 3.3, sum of norms").says(
        "The norm of a change is the sum over time of the norms of the changes at each time.",
        Equal(sqrt(lengths[0] ** 2 + lengths[1] ** 2), lengths[0] + lengths[1]),
        correction=Correction(
            "Its square is the sum of their squares, as (51) has it: only so is it a metric.",
            Equal(whole**2, square(lengths, eye(2)), {whole: sqrt(lengths[0] ** 2 + lengths[1] ** 2)}),
            Fails(Equal((lengths[0] + lengths[1]) ** 2, square(lengths, eye(2)))),
        ),
        remark="two steps, l the lengths of the changes at each",
        quote="as a sum over time of the norms of corresponding changes of parameters at each time in the time-unfolded network",
    )


def ranks() -> Iterator[Entry]:
    """Footnote 10, of one time and of their sum, and remark 9."""
    times = range(3)
    one = letters("v^1", 2)
    weights = letters("c", 3, positive=True)
    rows = [letters(f"v^{t + 1}", 2) for t in times]
    summed = weights[0] * rows[0] * rows[0].T + weights[1] * rows[1] * rows[1].T + weights[2] * rows[2] * rows[2].T
    crosses = sum(
        (weights[t] * weights[s] * (rows[t][0] * rows[s][1] - rows[t][1] * rows[s][0]) ** 2 for t in times for s in range(t)),
        S.Zero,
    )
    long = [letters(f"v^{t + 1}", 3) for t in times]
    two_steps = weights[0] * long[0] * long[0].T + weights[1] * long[1] * long[1].T
    entries = Matrix(2, 2, lambda i, k: Symbol(f"M_{{{i}{k}}}", real=True))
    at_one_time = Equal(entries.det(), S.Zero, dict(zip(entries, one * one.T, strict=True)))
    ranks_of = paper("footnote 10", sizes="2 parameters of one unit, 3 steps").says(
        "The metric of one time is of rank one, so it has no inverse; the sum over times is in general of full rank.",
        at_one_time,
        Equal(summed.det(), crosses),
        Less(S.Zero, summed.det(), rewritten=crosses),
        mutation=Mutation("one training sequence of 3 steps read as one of 1 step", Fails(at_one_time)),
        remark="with weights c; by Cauchy and Binet it is singular only if all v^t are parallel",
        quote=r"with only one training sequence the metric \left\|\hskip 0.5pt\delta\hskip-0.5pt\theta^{t}\right\| on "
        r"each individual \theta^{t} is only of rank one",
    )
    yield ranks_of
    yield paper("remark 10").repeats(
        ranks_of,
        "which is a rank-1 matrix and thus not invertible",
        "With one sequence the outer product metric has rank 1; the sum over T steps of such matrices has not.",
    )
    metric = Matrix(3, 3, lambda i, k: Symbol(f"M_{{{i}{k}}}", real=True))
    three_steps = two_steps + weights[2] * long[2] * long[2].T
    regular = Fails(Equal(metric.det(), S.Zero, dict(zip(metric, two_steps, strict=True))))
    yield paper("footnote 10, short sequences").says(
        "The metric is generally of full rank, being a sum over time of metrics of rank one: of 3 parameters over 2 times, too.",
        regular,
        reading=Correction(
            "Over at least as many times as there are parameters: for fewer the sum has no inverse either.",
            Fails(Equal(three_steps.det(), S.Zero)),
        ),
        remark="what counts are the times at which the symbol of these parameters was read",
        quote=r"the metric on \hskip 0.5pt\delta\hskip-0.5pt\theta is generally "
        r"full-rank, being a sum over time of rank-one metrics",
    )
    times = range(3)
    D = {(t, s): Symbol(f"D_{{{t}{s}}}", real=True) for t in times for s in range(t + 1)}
    natural = sum((sum((D[t, s] for s in range(t + 1)), S.Zero) ** 2 for t in times), S.Zero)
    recurrent = sum((D[t, s] ** 2 for t, s in D), S.Zero)
    lost = 2 * sum((D[t, s] * D[t, r] for t, s in D for r in range(s)), S.Zero)
    yield paper("remark 9", sizes="1 parameter, 1 output, 3 steps").says(
        "The natural norm of a recurrent network and its recurrent-natural norm differ in general: the second has "
        "no products of the effects of different times.",
        Fails(Equal(natural, recurrent)),
        Equal(natural - recurrent, lost),
        mutation=Mutation("the effects of different times added before they are squared", Equal(natural, recurrent)),
        remark="D_ts the effect of theta^s on the output at t; lost is twice the sum of D_ts D_tr over r < s",
        quote="which is generally different and accounts for fewer cross-time dependencies",
    )
