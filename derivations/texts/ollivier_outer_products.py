r"""Ollivier 2013, sections 3.4 and 3.6: the outer product metric, its regressions, and what leaves steps as they are.

a step fits by squares     B/c by the signals heard, with weights c = B^2 or m
RNNs                       the rho_ix of different symbols are orthogonal; only tau_ji and rho_ix are not
a unit's V -> k V + l, a -> alpha a + beta     B -> B/k,  m -> m/k^2:  steps are the same, but for the dampening
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sympy import Derivative, Expr, S, Symbol, diag, eye, log, oo, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Less, Mutation, Tends, changed
from derivations.texts.ollivier_invariance import letters, symmetric
from derivations.texts.ollivier_unfolded import TIMES, UNITS, eps, eta, link, moduli_of, paper, real, source, total

__all__ = ["gram"]


def step_sizes() -> Iterator[Entry]:
    """Section 3.4: the step size of the outer product metric."""
    C, G, lam = symmetric("C", 2), letters("G", 2), Symbol("lambda", positive=True)
    step = C.inv() * G
    theta = Symbol("theta", positive=True)
    yield paper("sec. 3.4, step size").says(
        "The gradient ascent theta + eta C^-1 dL/dtheta has step size theta.",
        Equal(eta * step, theta * step),
        correction=Correction("Its step size is eta: C times the step is eta dL/dtheta.", Equal(C * (eta * step), eta * G)),
        remark="a slip of the pen",
        quote=r"The associated gradient ascent for L, with step size \theta, is thus",
    )
    yield paper("sec. 3.4, scaling", given="C can be inverted", sizes="2 parameters").says(
        "Scaling L by lambda scales the step by 1/lambda.",
        Equal((lam**2 * C).inv() * (lam * G), step / lam),
        mutation=changed("1/lambda read as lambda", rhs=step * lam),
        quote=r"scaling L by a factor \lambda will result in scaling this gradient step by 1/\lambda",
    )
    p = Symbol("p", positive=True)
    yield paper("sec. 3.4, logarithmic loss").says(
        "The logarithmic loss is log Pr(y | x): it falls as the probability of y rises.",
        Less(log(p).diff(p), S.Zero),
        reading=Correction(
            "It is minus that. log Pr rises with Pr, and the gradient ascent of the section is for it.",
            Less((-log(p)).diff(p), S.Zero, True),
            Less(S.Zero, log(p).diff(p), True),
        ),
        remark="the outer product metric is the same for both",
        quote=r"When the loss function \ell is the logarithmic loss \ell(x)=\log\Pr\nolimits_{\theta}(y|x)",
    )


def averages() -> Iterator[Entry]:
    """Section 3.4: sums, averages, and the Fisher metric."""
    C, v = symmetric("C", 2), letters("v", 2)
    one, other = letters("l^1", 2), letters("l^2", 2)
    yield paper("sec. 3.4, sum or average").says(
        "For L a sum or an average of the losses of samples the step is eta C^-1 dL/dtheta.",
        Equal(C * (eta * C.inv() * (one + other)), eta * (one + other) / 2),
        reading=Correction(
            "With the same C, a mean (53), the steps differ by the number of samples: their directions agree.",
            Equal(C * (eta * C.inv() * (one + other)), 2 * (eta * (one + other) / 2)),
        ),
        remark="two samples, two parameters: L the sum on the left, the average on the right, both multiplied by C",
        quote=r"L decomposes as a sum or average L=\mathbb{E}_{x\in\mathcal{D}}\ell(x)",
    )
    s = letters("s", 2)
    samples = [letters(f"l^{k}", 2) for k in (1, 2, 3)]
    mean_square = (samples[0] * samples[0].T + samples[1] * samples[1].T + samples[2] * samples[2].T) / 3
    mean = (samples[0] + samples[1] + samples[2]) / 3

    def spread(move: Matrix) -> Expr:
        return total((each.T * move)[0] ** 2 for each in samples) / 3 - (mean.T * move)[0] ** 2

    yield paper("sec. 3.4, least variance", given="C can be inverted", sizes="2 parameters, 3 samples").says(
        "For a given increment of L the outer product step C^-1 dL/dtheta is the one whose "
        "increments of the samples have least variance.",
        Equal(spread(s + v) - spread(s) - spread(v), 2 * (v.T * (mean_square * s - mean * (mean.T * s)))[0]),
        Equal(spread(v), (v.T * mean_square * v)[0] - (mean.T * v)[0] ** 2),
        mutation=changed("C read as C/2", rhs=(v.T * (mean_square * s - mean * (mean.T * s)))[0]),
        remark="at C s = dL/dtheta the right side is 0 for every v with the same increment, dL . v = 0, "
        "and the variance of v, not negative, is added",
        quote="the OP gradient step is the one for which the increment is most uniformly spread over all samples",
    )
    p = Matrix([*(Symbol(f"pi_{k}", positive=True) for k in (1, 2))])
    pi = Matrix([p[0], p[1], 1 - p[0] - p[1]])
    score = [eye(3).col(y) - pi for y in range(3)]
    fisher = diag(*pi) - pi * pi.T
    drawn = pi[0] * score[0] * score[0].T + pi[1] * score[1] * score[1].T + pi[2] * score[2] * score[2].T
    yield paper("sec. 3.4, Fisher", sizes="3 symbols").says(
        "With y drawn from the network's output the outer product metric is the Fisher "
        "metric; with the target value of y alone it is not.",
        Equal(drawn, fisher),
        Fails(Equal(score[0] * score[0].T, fisher)),
        mutation=changed(
            "drawn from the output read as drawn uniformly",
            lhs=(score[0] * score[0].T + score[1] * score[1].T + score[2] * score[2].T) / 3,
        ),
        remark="in the variables E of the softmax",
        quote="for the latter, y would be sampled from the output of the network seen as a probability "
        "distribution, instead of using only the target value of y",
    )


def gram(features: list[Matrix], weights: Matrix) -> Matrix:
    """sum_t c_t f_t f_t^T."""
    size = features[0].rows
    return Matrix(size, size, lambda i, k: total(c * f[i] * f[k] for c, f in zip(weights, features, strict=True)))


def best_fits() -> Iterator[Entry]:
    """Section 3.4, the form of the metric; two incoming units, two times."""
    a = [letters(f"a^{t}", 2) for t in (0, 1)]
    B, m, x = letters("B", 2), Matrix([Symbol(f"m_{t}", positive=True) for t in (1, 2)]), letters("x", 2)
    step_solves = gram(a, B.applyfunc(lambda b: b**2)) * x - (a[0] * B[0] + a[1] * B[1])

    def normal(weights: Matrix, target: Matrix) -> Matrix:
        """Half the slopes of the weighted sum of squares: 0 at the best fit."""
        misfit = total(weights[t] * (target[t] - (a[t].T * x)[0]) ** 2 for t in (0, 1))
        return Matrix([-misfit.diff(each) / 2 for each in x])

    Y = letters("Y", 2)
    yield paper("sec. 3.4, best fit", sizes="2 units, 2 steps").says(
        "M^-1 G with M = sum a a' c and G = sum a Y is the weighted least-squares fit of Y/c by the a.",
        Equal(-normal(m, Matrix([Y[t] / m[t] for t in (0, 1)])), gram(a, m) * x - (a[0] * Y[0] + a[1] * Y[1])),
        mutation=changed("of Y", lhs=-normal(m, Y)),
        remark="weights c = m",
        quote="M^{-1}G gives the best way to write the vector Y^{t}/c^{t}, seen as a function of t, as "
        "a linear combination of the family a_{j}^{t}",
    )
    squares, ratio = B.applyfunc(lambda b: b**2), Matrix([B[t] / m[t] for t in (0, 1)])
    backed = gram(a, m) * x - (a[0] * B[0] + a[1] * B[1])
    yield paper("sec. 3.4, desired change").says(
        "Each unit combines its incoming signals in an optimal way to match the desired change given by B.",
        Equal(-normal(squares, B), step_solves),
        correction=Correction(
            "To match B/c, c the weights: that is 1/B in the RUOP metric, largest where B is smallest, and B/m in the RBPM.",
            Equal(-normal(squares, B.applyfunc(lambda b: 1 / b)), step_solves),
            Equal(-normal(m, ratio), backed),
        ),
        remark="G = sum a B against the normal equations of the fits; the weights keep what is near 0 from counting much",
        quote="combines the signals from its incoming units j in an optimal way to match a desired change in activity",
    )
    yield paper("sec. 3.5, desired profile").says(
        "The gradient ascent in the RBPM is a weighted regression that matches the profile given by the backpropagation values.",
        Equal(-normal(m, B), backed),
        correction=Correction("That matches the values divided by the moduli, B/m.", Equal(-normal(m, ratio), backed)),
        remark="as in section 3.4, with weights m",
        quote="to best match a desired activation profile given by the backpropagation values",
    )
    c, word = Matrix([Symbol(f"c_{k}", positive=True) for k in (1, 2, 3)]), (0, 0, 1)
    heard = real("a^0_1", "a^1_1", "a^2_1")
    features = [Matrix([int(x == 0), int(x == 0) * heard[t], int(x == 1), int(x == 1) * heard[t]]) for t, x in enumerate(word)]
    read = real("1[x_0 = a]", "1[x_1 = a]", "1[x_2 = a]")
    apart = [Matrix([r, r * heard[t], 1 - r, (1 - r) * heard[t]]) for t, r in enumerate(read)]
    yield paper("sec. 3.4, symbols apart", sizes="1 unit heard beside unit 0, 2 symbols, the word aab").says(
        "The transition parameters of different symbols are orthogonal for GNNs and GLNNs.",
        Equal(gram(apart, c)[:2, 2:], zeros(2, 2), dict(zip(read, map(S, (1, 1, 0)), strict=True))),
        Fails(Equal(gram(features, c)[0, 1], S.Zero)),
        mutation=Mutation("those of one symbol are too", Equal(gram(features, c)[0, 1], S.Zero)),
        remark="weights c; at a time the weights of the symbol read contribute, no others",
        quote=r"are mutually orthogonal in the RUOP metric, i.e., there are no cross-terms for x\neq x^{\prime}",
    )


rho, c = real("rho_1x", "rho_2x"), Matrix([Symbol(f"c_{k}", positive=True) for k in (1, 2, 3)])
at = real("a^0", "a^1", "a^2")
word = (0, 1, 0)
M = gram([Matrix([int(x == 0), int(x == 1), at[t]]) for t, x in enumerate(word)], c)
# The same with letters for which symbol is read, and what they are.
read = real("1[x_0 = a]", "1[x_1 = a]", "1[x_2 = a]")
LETTERED, READ = gram([Matrix([r, 1 - r, at[t]]) for t, r in enumerate(read)], c), dict(zip(read, map(S, (1, 0, 1)), strict=True))


def symbols_and_weights() -> Iterator[Entry]:
    """Sections 3.4, 3.5 and 4: RNNs, V_i = rho_ix + sum_j tau_ji a_j."""
    tau = {(i, j): Symbol(f"tau_{{{i}{j}}}", real=True) for i in UNITS for j in UNITS}
    a = {i: Symbol(f"a_{i}", real=True) for i in UNITS}
    V = {j: rho[j - 1] + total(tau[i, j] * a[i] for i in UNITS) for j in UNITS}
    moved = {pair: Derivative(V[1], tau[pair]) * Derivative(V[1], rho[0]) for pair in tau}
    yield paper("sec. 3.4, RNNs, index").says(
        "For RNNs the transition parameters tau_ij have non-trivial scalar products with the input parameters rho_ix.",
        Fails(Equal(moved[1, 2], S.Zero)),
        correction=Correction(
            "It is the tau_ji that have: tau_ij goes to another unit, j, and units are orthogonal.",
            Equal(moved[1, 2], S.Zero),
            Fails(Equal(moved[2, 1], S.Zero)),
            Equal(moved[2, 1], a[2]),
        ),
        remark="i = 1, j = 2; the evolution equation in the same sentence has tau_ji",
        quote=r"the transition parameters \tau_{ij} have non-trivial scalar product with "
        r"all the input parameters \rho_{ix} for all x",
    )
    cofactor = M[0, 2] * M[1, 2] - M[0, 1] * M[2, 2]
    apart = paper("sec. 3.5, RNNs, independence").says(
        "Contrary to GNNs and GLNNs, the parameters of RNNs for different symbols are not independent.",
        Fails(Equal(LETTERED[0, 1], S.Zero, READ)),
        correction=Correction(
            "They are: no two symbols are read at one time, so rho_ix and rho_ix' have no cross-term. They are coupled through "
            "the tau_ji, which are orthogonal to neither: the inverse of the metric does have a cross-term.",
            Equal(LETTERED[0, 1], S.Zero, READ),
            Equal(LETTERED[0, 2], c[0] * at[0] + c[2] * at[2], READ),
            Fails(Equal(cofactor, S.Zero)),
        ),
        remark="for one unit and its inputs rho_a, rho_b, tau, and the word aba",
        quote=r"parameters corresponding to distinct symbols y\neq y^{\prime} are "
        r"independent for GNNs and GLNNs but not for RNNs",
    )
    yield apart
    yield paper("sec. 4, RNNs, orthogonality").repeats(
        apart,
        "the parameters corresponding to different symbols in the alphabet are not mutually orthogonal",
        "Contrary to GNNs and GLNNs, the parameters of RNNs for different symbols are not mutually orthogonal.",
    )


def cost() -> Iterator[Entry]:
    """Section 3.4: what the metric of RNNs costs."""
    A, d = Symbol("A", positive=True), Symbol("d", positive=True)
    entries_kept = A + A * d + d * (d + 1) / 2
    own, side, below, move, g = (Symbol(name, real=True) for name in ("M_y", "M_y1", "M_11", "tau", "g"))
    g_y, first, second = Symbol("g_y", real=True), Symbol("S_1", real=True), Symbol("S_2", real=True)
    eliminated, eliminated_rho = (g - first) / (below - second), Symbol("rho_y", real=True)
    solved = {eliminated_rho: (g_y - side * move) / own}

    yield paper("sec. 3.4, RNNs, cost").says(
        "For RNNs handling the metric would be quadratic in alphabet size.",
        Tends(entries_kept / A**2, A, oo, S.Half),
        correction=Correction(
            "It is linear: the block of the rho_ix is diagonal, so a unit's matrix has A + A d + d (d + 1)/2 entries that are "
            "not 0. Eliminating rho_iy = (g_y - M_y1 tau)/M_y leaves a matrix of the tau_ji alone, after sums over the symbols.",
            Tends(entries_kept / A, A, oo, d + 1),
            Equal(own * eliminated_rho + side * move, g_y, solved),
            Equal(side * eliminated_rho, side * g_y / own - side**2 / own * move, solved),
            Equal(first - second * eliminated + below * eliminated, g),
        ),
        remark="a full symmetric matrix would have A^2/2 entries for many symbols; the elimination for any number of symbols and "
        "one edge, row by row, S_1 the sum of M_y1 g_y/M_y over the symbols and S_2 that of M_y1^2/M_y",
        quote="thus, handling this metric would be quadratic in alphabet size",
    )


def redundant_biases() -> Iterator[Entry]:
    """Footnote 3."""
    biased = gram([Matrix([1, int(x == 0), int(x == 1), at[t]]) for t, x in enumerate(word)], c)
    of_any = gram([Matrix([1, r, 1 - r, at[t]]) for t, r in enumerate(read)], c)
    yield paper("footnote 3, metrics", sizes="2 symbols, 1 edge, the word aba").says(
        "Biases are redundant in RNNs: with them the recurrent metrics have a direction of length 0, and cannot be inverted.",
        Equal(of_any * Matrix([1, -1, -1, 0]), zeros(4, 1)),
        Equal(biased[1, 1] - biased[0, 1] ** 2 / biased[0, 0], (c[0] + c[2]) * c[1] / (c[0] + c[1] + c[2])),
        mutation=Mutation("no biases", Equal(M * Matrix([1, -1, 0]), zeros(3, 1))),
        remark="a bias is the same as one number added to every rho_ix; the denominators of the quasi-diagonal "
        "reduction, which section 4 uses for RNNs, are not 0",
        quote="Biases are actually redundant in this case",
    )


def invariances() -> Iterator[Entry]:
    """Section 3.6: what changes nothing. A unit's V becomes kappa V + lambda, its activity alpha a + beta."""
    alpha, beta = [Symbol(f"alpha_{i}", nonzero=True, real=True) for i in UNITS], letters("beta", 2)
    kappa = {i: Symbol(f"kappa_{i}", positive=True) for i in UNITS}
    N = Matrix([[1, 0, 0], [beta[0], alpha[0], 0], [beta[1], 0, alpha[1]]])
    B, m = ({j: Symbol(f"{name}_{j}", real=True) for j in UNITS} for name in "Bm")
    i, slope, pi = 1, Symbol("s'", real=True), Symbol("pi", positive=True)
    w, tau = real("w_a", "w_b"), {j: Symbol(f"tau_{{1{j}}}", real=True) for j in UNITS}

    def back(w: tuple[Expr, ...], tau: Mapping[int, Expr], slope: Expr, B: Mapping[int, Expr]) -> Expr:
        return B[i] + slope * (w[0] - pi * w[0] - (1 - pi) * w[1] + total(tau[j] * B[j] for j in UNITS))

    def back_modulus(w: tuple[Expr, ...], tau: Mapping[int, Expr], slope: Expr, m: Mapping[int, Expr]) -> Expr:
        variance = pi * (1 - pi) * (w[0] - w[1]) ** 2
        return slope**2 * variance + total((int(i == j) + tau[j] * slope) ** 2 * m[j] for j in UNITS)

    new_w = tuple(each / alpha[0] for each in w)
    new_tau = {j: kappa[j] * tau[j] / alpha[0] for j in UNITS}
    new_slope = alpha[0] * slope / kappa[i]
    new_B = back(new_w, new_tau, new_slope, {j: B[j] / kappa[j] for j in UNITS})
    new_m = back_modulus(new_w, new_tau, new_slope, {j: m[j] / kappa[j] ** 2 for j in UNITS})
    a = [Matrix([1, *real(f"a^{t}_1", f"a^{t}_2")]) for t in (0, 1)]
    c, step = letters("c", 2), letters("s", 3)
    metric, changed = gram(a, c), gram([N * each for each in a], c / kappa[1] ** 2)
    carried = kappa[1] * N.inv().T * step
    yield paper("sec. 3.6, affine invariance", given="no dampening", sizes="2 units and unit 0").says(
        "The actual gradient steps are exactly invariant under affine reparametrizations of the activities, such as changing "
        "sigmoid into tanh: the learning trajectories are identical.",
        Equal(new_B, back(w, tau, slope, B) / kappa[i]),
        Equal(new_m, back_modulus(w, tau, slope, m) / kappa[i] ** 2),
        Equal((N * a[0]).T * (N.inv().T * step), a[0].T * step),
        Equal(changed * carried, N * (metric * step) / kappa[1]),
        mutation=Mutation("the step s read as the same numbers", Equal(changed * step, N * (metric * step) / kappa[1])),
        remark="with the exact same eta: by induction over time B is divided by kappa and both moduli by kappa^2, while sum_i "
        "a_i w_i stays; then the step kappa N^-T s, which is s carried over as tau is, solves the changed equations",
        quote="Still, the actual gradient steps are exactly invariant under affine reparametrizations of the parameters and "
        "activity (such as changing sigmoid into tanh)",
    )
    M, J = symmetric("M", 2), Matrix(2, 2, lambda r, k: Symbol(f"J_{{{r + 1}{k + 1}}}", real=True))
    apart = diag(M[0, 0], M[1, 1])

    def blocks(e: Matrix) -> Matrix:
        return diag(e[0, 0], e[1, 1])

    yield paper("sec. 3.6, units apart", sizes="2 units with 1 parameter each").says(
        "The unitwise metrics are invariant under reparametrization of the parameters of each unit, but not under "
        "those that mix the parameters of different units.",
        Equal(blocks(J.T * M * J), J.T * apart * J, {J[0, 1]: S.Zero, J[1, 0]: S.Zero}),
        Fails(Equal(blocks(J.T * M * J), J.T * apart * J)),
        mutation=Mutation("mixed read as not mixed", Equal(blocks(J.T * M * J), J.T * apart * J)),
        remark="J is the slope of the change of parameters, of smooth ones too",
        quote="(but not by reparametrizations mixing incoming parameters to different units, as the natural gradient is)",
    )
    # Positive definite, and a change that can be undone: of these it has to be refuted.
    r, s, k = Symbol("r", positive=True), Symbol("s", positive=True), Symbol("k", real=True)
    M, J = Matrix([[r, k], [k, s + k**2 / r]]), Matrix([[1, Symbol("J", real=True)], [0, 1]])
    apart = diag(*(Symbol(f"J_{j}", real=True, nonzero=True) for j in (1, 2)))
    g = letters("g", 2)

    def unitwise(change: Matrix) -> Matrix:
        """The unitwise step in the parameters psi, theta = J psi, carried back to theta."""
        metric = change.T * M * change
        return change * (diag(metric[0, 0], metric[1, 1]).inv() * (change.T * g))

    yield paper("sec. 3.6, affine parameters", given="no dampening", sizes="2 units with 1 parameter each").says(
        "The gradient steps are exactly invariant under affine changes of the parameters.",
        Equal(unitwise(J), unitwise(eye(2))),
        reading=Correction(
            "Under those of the parameters of each unit by itself, as the section says before.",
            Equal(unitwise(apart), unitwise(eye(2))),
        ),
        remark="affine changes that mix two units change the step of a unitwise metric",
        quote="the actual gradient steps are exactly invariant under affine reparametrizations of the parameters and activity",
    )


def limits_of_invariance() -> Iterator[Entry]:
    """Section 3.6, the three limits, and footnote 11."""
    J, K, s = Symbol("J", positive=True), *real("K", "s")
    psi = eta * s / J
    there = J * psi + K * psi**2 / 2
    yield paper("sec. 3.6, step size", sizes="1 parameter").says(
        "Actual steps are invariant only approximately, for small learning rates: in a curved parameter the step "
        "differs by O(eta^2), in an affine one by nothing.",
        Expands(there, eta, eta * s, 2),
        Fails(Equal(there, eta * s)),
        Equal(there, eta * s, {K: S.Zero}),
        mutation=changed("O(eta^2) read as O(eta^3)", order=3),
        remark="theta = J psi + K psi^2/2 to second order: the difference is eta^2 K s^2/(2 J^2)",
        quote="The actual gradient steps with non-zero learning rate are only "
        "approximately invariant when the learning rate is small",
    )
    B, m, kappa = Symbol("B", positive=True), Symbol("m", positive=True), Symbol("kappa", positive=True)
    damped = (B / kappa) / (m / kappa**2 + eps)
    yield paper("sec. 3.6, dampening").says(
        "The dampening of the matrices breaks invariance.",
        Fails(Equal(damped, kappa * B / (m + eps))),
        Equal(damped, kappa * B / m, {eps: S.Zero}),
        mutation=Mutation(
            "dampening with eps/kappa^2", Fails(Equal((B / kappa) / (m / kappa**2 + eps / kappa**2), kappa * B / (m + eps)))
        ),
        remark="for the starting values (29) under V -> kappa V",
        quote=r"The dampening procedure for matrix inversion (the various \varepsilon "
        r"terms in Section 2) formally breaks invariance",
    )
    v, g = letters("v", 2), Symbol("g", real=True)
    length = v[0] ** 2 + v[1] ** 2
    N = Matrix([[1, 0], [Symbol("beta", real=True), 1]])
    turned = N * v
    back = N.T * turned * g / (turned[0] ** 2 + turned[1] ** 2)
    limit = v * g / length
    found = v * g / (length + eps)
    pseudo = v * v.T / length**2
    singular = diag(1, 0)
    yield paper("sec. 3.6, pseudoinverse").says(
        "The Moore-Penrose pseudoinverse is the limit of the dampened inverse as the dampening vanishes.",
        Tends((singular + eps * eye(2)).inv()[1, 1], eps, 0, singular[1, 1]),
        reading=Correction(
            "Applied to gradients in the range of the matrix it is; the dampened inverse itself grows without bound.",
            Equal((v * v.T + eps * eye(2)) * found, v * g),
            Tends(found[0], eps, 0, limit[0]),
            Equal(pseudo * v * g, limit),
            Equal(v * v.T * pseudo * v * v.T, v * v.T),
            Tends((singular + eps * eye(2)).inv()[1, 1], eps, 0, oo),
        ),
        remark="the matrix diag(1, 0) is its own pseudoinverse; then a matrix of rank one, v v^T, and the gradient g v",
        quote=r"Using a Moore-Penrose pseudoinverse (which is simply the limit \varepsilon\to 0)",
    )
    yield paper("sec. 3.6, pseudoinverse, invariance").says(
        "A Moore-Penrose pseudoinverse does not restore invariance.",
        Fails(Equal(back, limit)),
        mutation=Mutation("does not restore read as restores", Equal(back, limit)),
        remark="for the matrix v v^T and the gradient g v, under the change a_1 -> a_1 + beta",
        quote=r"(which is simply the limit \varepsilon\to 0) does not solve this problem",
    )
    M, other, Jm = symmetric("M", 2), symmetric("R", 2), Matrix(2, 2, lambda r, k: Symbol(f"J_{{{r + 1}{k + 1}}}", real=True))
    lam, idle = Symbol("lambda", positive=True), moduli_of(source)
    unheard = {u: S.Zero for t in TIMES for u in (source(1, t), link(1, 2, t))}
    yield paper("footnote 11", sizes="2 parameters of a unit, 3 steps").says(
        "The metric of other, random sequences times a small number dampens in an invariant way; but if a unit has no effect on "
        "the output, its metric is 0 for every sequence.",
        Equal(Jm.T * M * Jm + lam * Jm.T * other * Jm, Jm.T * (M + lam * other) * Jm),
        Equal(Matrix([idle[1, t] for t in TIMES]), zeros(3, 1), unheard),
        Fails(Equal(Jm.T * M * Jm + lam * eye(2), Jm.T * (M + lam * eye(2)) * Jm)),
        mutation=Mutation(
            "the identity for the metric of other sequences", Equal(Jm.T * M * Jm + lam * eye(2), Jm.T * (M + lam * eye(2)) * Jm)
        ),
        remark="the modulus of a unit whose weights write nothing and reach no other",
        quote="if a unit i has no effect whatsoever on the output given the current "
        "parameters, the corresponding metric will vanish",
    )
