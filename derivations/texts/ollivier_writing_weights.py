r"""Claims of Ollivier 2013, sections 3.2 and 3.3, on the Fisher metric of outputs and writing weights, and on metrics over time.

for a softmax             sum_y pi(y) dE_y^2 - (sum_y pi(y) dE_y)^2, the variance of dE                            (47)
for the writing weights   I = sum_t pi_t(y) (1_{y=y'} - pi_t(y')) a_i^t a_i'^t: it has no inverse                   (50)
of a recurrent network    |d theta|^2 = sum_t |d theta^t|^2, the parameter of each time taken as one of its own    (52)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sympy import Derivative, Expr, S, Symbol, diag, exp, eye, log, oo, sqrt, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Source, Tends, changed
from derivations.prover.identity import column
from derivations.texts.ollivier_invariance import (
    at_start,
    bend,
    gradient,
    letters,
    near,
    put,
    second_slopes,
    square,
    symmetric,
)

paper = Source("ollivier-2013-riemannian-metrics-ii")
eps = Symbol("epsilon", real=True)
SMOOTH = "the change of parameters is smooth, with slopes J that can be inverted"
J, psi, step = letters("J", 2, 2), letters("psi", 2), letters("u", 2)


def softmax(energies: Matrix) -> Matrix:
    weights = energies.applyfunc(exp)
    return weights / sum(weights)


def variance(pi: Matrix, of: Matrix) -> Expr:
    """Compute (47), sum pi dE^2 - (sum pi dE)^2, the second sum written as the double sum it is."""
    n = range(len(pi))
    first = sum((pi[y] * of[y] ** 2 for y in n), S.Zero)
    return first - sum((pi[y] * pi[z] * of[y] * of[z] for y in n for z in n), S.Zero)


def divergence_of_softmax(pi: Matrix, of: Matrix) -> Expr:
    """Compute KL(pi | pi'), where the E of pi' are those of pi and eps dE: pi' = pi e^(eps dE)/sum pi e^(eps dE)."""
    total = sum((pi[y] * exp(eps * of[y]) for y in range(len(pi))), S.Zero)
    return log(total) - eps * sum((pi[y] * of[y] for y in range(len(pi))), S.Zero)


def fisher() -> Iterator[Entry]:
    """Check section 3.2 on the Fisher metric of the output units."""
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
    """Compute dE_y^t = sum_i a_i^t dw_iy, for each symbol y."""
    return Matrix([sum((a[i, t] * dw[i][y] for i in UNITS), S.Zero) for y in SYMBOLS])


def information(second: Callable[[int, int], int] = lambda y, z: y) -> Matrix:
    """Compute (50) with the index y that it should have, pi(z) (1_{z=y} - pi(y)) a_i a_i', summed over time; or with another."""
    pairs = [(i, y) for i in UNITS for y in SYMBOLS]

    def entry(r: int, c: int) -> Expr:
        (i, y), (k, z) = pairs[r], pairs[c]
        of = second(y, z)
        return sum((prob[z, t] * (int(z == of) - prob[of, t]) * a[i, t] * a[k, t] for t in TIMES), S.Zero)

    return Matrix(4, 4, entry)


def loglik(word: str) -> tuple[Matrix, Matrix]:
    """Compute gradient and Hessian of log Pr(word) in the writing weights, from its change when w is moved by eps dw."""
    moved = S.Zero
    for t, x in enumerate(word):
        of = energies(t)
        moved += eps * of["ab".index(x)] - log(sum((prob[y, t] * exp(eps * of[y]) for y in SYMBOLS), S.Zero))
    first, second = moved.diff(eps).subs(eps, 0), moved.diff(eps, 2).subs(eps, 0)
    return gradient(first, Matrix(FLAT)), second_slopes(second, Matrix(FLAT)) / 2


def writing_weights() -> Iterator[Entry]:
    """Check section 3.2 on the metric over the writing coefficients."""
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
    """Check section 3.3, which takes a metric for each time."""
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
    """Check footnote 10, for one time and for the sum of all, and remark 9."""
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
