r"""Ollivier 2013, section 2: what the steps of the algorithm do, and what they cost.

quasi-diagonal step   weighted covariances over time: (20) is sum c (a - mean a)(Y - mean Y)/sum c (a - mean a)^2
matrices to invert    one for each unit and symbol: N A d^3 operations, against N T d^2 to fill them

N units, d edges into each, A symbols, T times.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, S, Symbol, oo
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Tends, changed
from derivations.prover.identity import column
from derivations.prover.symbols import together
from derivations.texts.ollivier_invariance import letters, symmetric
from derivations.texts.ollivier_networks import paper

N, d, A, T, e, t = (Symbol(name, positive=True) for name in "NdATet")


def writing_weights() -> Iterator[Entry]:
    """Eqs. (18) to (21) in words."""
    c, a, Y = (letters(name, 3, positive=True) for name in "caY")

    def mean(of: Matrix) -> Expr:
        return (c.T * of)[0] / sum(c)

    def covariance(one: Matrix, other: Matrix) -> Expr:
        return sum((c[t] * (one[t] - mean(one)) * (other[t] - mean(other)) for t in range(3)), S.Zero)

    W, W0, h, h0, h00 = (
        sum(terms)
        for terms in (
            [c[t] * a[t] * Y[t] for t in range(3)],
            [c[t] * Y[t] for t in range(3)],
            [c[t] * a[t] ** 2 for t in range(3)],
            [c[t] * a[t] for t in range(3)],
            list(c),
        )
    )
    yield paper("sec. 2, covariances", given="no dampening", sizes="3 steps").says(
        "(20) uses weighted covariances over time between desired output and activity, rather than just sums over time.",
        Equal(W - W0 * h0 / h00, covariance(a, Y)),
        Equal(h - h0**2 / h00, covariance(a, a)),
        mutation=changed("just the sum over time", lhs=W),
        remark="c = chi pi (1 - pi) are the weights, Y = (1[x_t = y] - pi)/(pi (1 - pi)) is what is desired",
        quote="they amount to using weighted covariances over time between desired output and activity of unit i",
    )
    eps, (c1, c2), (a1, a2) = Symbol("epsilon", positive=True), c[:2], letters("a", 2)
    damped = (eps**2 + eps * (c1 + c2 + c1 * a1**2 + c2 * a2**2) + c1 * c2 * (a1 - a2) ** 2) / (eps + c1 + c2)
    yield paper("sec. 2, dampening, divisions", sizes="2 steps").says(
        "The dampening term epsilon_y avoids divisions by 0 in (20) and (21).",
        Less(S.Zero, eps + c1 * a1**2 + c2 * a2**2 - (c1 * a1 + c2 * a2) ** 2 / (eps + c1 + c2), True, rewritten=damped),
        mutation=Mutation(
            "no dampening, where the activity is always the same",
            Less(S.Zero, (c1 * a1**2 + c2 * a2**2 - (c1 * a1 + c2 * a2) ** 2 / (c1 + c2)).subs(a2, a1), True),
        ),
        remark="the denominator of (20); epsilon_y is positive for every y that is read at all, else the machine epsilon is",
        quote=r"where \varepsilon_{y} is a dampening term to avoid divisions by 0",
    )


def quasi_diagonal(gradient: Matrix, metric: Matrix) -> Matrix:
    """(20) and (21), also (34) and (35): unit 0 is the one always on. Only diagonal and first row of the metric are read."""
    cross = [metric[0, i] / metric[0, 0] for i in range(len(gradient))]
    rest = [centred_step(gradient, metric, i) for i in range(1, len(gradient))]
    first = gradient[0] / metric[0, 0] - sum((cross[i + 1] * each for i, each in enumerate(rest)), S.Zero)
    return Matrix([first, *rest])


def centred_step(gradient: Matrix, metric: Matrix, i: int) -> Expr:
    above = gradient[i] - gradient[0] * metric[0, i] / metric[0, 0]
    return above / (metric[i, i] - metric[0, i] ** 2 / metric[0, 0])


def transition_weights() -> Iterator[Entry]:
    """The dampening of (26)."""
    n, m = Symbol("n", positive=True), Symbol("m", positive=True)
    yield paper("sec. 2, dampening, small").says(
        "epsilon = 1 is small compared to the T terms in the sum making up the matrix (26).",
        Less(S.One, n * m),
        reading=Correction(
            "Compared to the sum, for a symbol that is read often enough: T terms are summed, of which those of the n times at "
            "which it was read are not 0, and with moduli of mean m the entry of unit 0 is n m. It is 0 at startup, where all "
            "moduli are.",
            Tends(1 / (n * m), n, oo, S.Zero),
            Equal(n * m, S.Zero, {m: S.Zero}),
        ),
        remark="the moduli may be of any size; a single term is none of n",
        quote=r"we use \varepsilon=1 which is small compared to the T terms in the sum making up \tilde{M}",
    )


def quasi_diagonals() -> Iterator[Entry]:
    """Section 3.2, end, and section 2, end: the quasi-diagonal reduction, for two units besides the one always on."""
    G, h = letters("G", 3), symmetric("h", 3)
    ours = quasi_diagonal(G, h)
    K = Matrix(3, 3, lambda i, j: Derivative(ours[i], G[j]))
    inverse = Matrix(3, 3, lambda i, j: h[0, i] * h[0, j] / h[0, 0] if i != j and i * j else h[i, j])
    solved = paper("eq. 20", given="the denominators are not 0", sizes="1 and 2 units beside unit 0, 1 symbol").says(
        "The quasi-diagonal step of unit i is (W_i - W_0 h_0i/h_00)/(h_ii - h_0i^2/h_00).",
        Equal(inverse * ours, G),
        Equal(h[:2, :2] * quasi_diagonal(Matrix(G[:2]), h[:2, :2]), Matrix(G[:2])),
        mutation=changed("minus read as plus in (21)", lhs=inverse * Matrix([2 * G[0] / h[0, 0] - ours[0], *ours[1:]])),
        remark="with the step (21) of unit 0 it solves h step = W for one unit, and for two the h whose h_12 is h_01 h_02/h_00: "
        "covariance 0 of the two",
        quote="Update the weights using the quasi-diagonal reduction of the inverse Hessian",
    )
    yield solved
    repeated = {
        "eq. 21": (
            "the constant terms are transferred to the always-activated unit",
            "That of unit 0 is W_0/h_00 minus the sum over i of h_0i/h_00 times the step of i.",
        ),
        "eq. 34": (
            r"The update of the transition parameters \tau_{ijy} becomes as follows",
            "That of a transition weight is (G_i - G_0 M_0i/M_00)/(M_ii - M_0i^2/M_00), with G, M for W, h.",
        ),
        "eq. 35": (
            r"Thus only the terms \tilde{M}_{ii} and \tilde{M}_{0i} of the matrix are used",
            "That from unit 0 is G_0/M_00 minus the sum over i of M_0i/M_00 times the step of i, with G, M for W, h.",
        ),
    }
    for label, (quote, words) in repeated.items():
        yield paper(label).repeats(solved, quote, words)
    yield paper("sec. 3.2, quasi-diagonal inverse").says(
        "The update of the writing weights is a quasi-diagonal inverse, whose only non-zero terms have i = i' or i = 0.",
        Equal(column(K[1, 2], K[2, 1]), column(0, 0)),
        Equal(column(K[1, 0], K[2, 0]), column(0, 0)),
        reading=Correction(
            "With i = 0 or i' = 0: it is symmetric.",
            Equal(column(K[1, 2], K[2, 1]), column(0, 0)),
            Equal(K, K.T),
        ),
        remark="2 units beside unit 0, 1 symbol",
        quote=r"corresponds to the quasi-diagonal inverse of this metric, whose only non-zero terms "
        r"correspond to y=y^{\prime} and i=i^{\prime} or i=0",
    )
    arrow = Matrix(3, 3, lambda i, j: h[i, j] if i == j or i * j == 0 else S.Zero)
    yield paper("sec. 2, orthogonal signals").says(
        "The quasi-diagonal step is the step of a metric in which the signals of units other than 0 are mutually orthogonal.",
        Equal(arrow * ours, G),
        reading=Correction(
            "Orthogonal once their means are taken off, that is uncorrelated: h_ij = h_0i h_0j/h_00, which is not 0.",
            Equal(inverse * ours, G),
        ),
        remark="two units beside unit 0; the matrix applied to the step is compared with the gradient",
        quote=r"the signals received from units i\to j are considered to be mutually orthogonal, except for "
        r"those coming from the always-activated unit i=0",
    )
    scale, shifts = letters("alpha", 2, nonzero=True, real=True), letters("beta", 2)
    turn = Matrix([[1, 0, 0], [shifts[0], scale[0], 0], [shifts[1], 0, scale[1]]])
    mixed = Matrix([[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    diagonal = Matrix([G[i] / h[i, i] for i in range(3)])
    diagonal_turned = Matrix([(turn * G)[i] / (turn * h * turn.T)[i, i] for i in range(3)])
    yield paper("sec. 3.2, affine invariance", given="the denominators are not 0", sizes="2 units").says(
        "The quasi-diagonal inverse is invariant under affine changes a_i -> alpha_i a_i + beta_i of the activity of each unit.",
        Equal(turn.T * quasi_diagonal(turn * G, turn * h * turn.T), ours),
        Fails(Equal(turn.T * diagonal_turned, diagonal)),
        mutation=changed(
            "of each unit read as of all units together, a_1 -> a_1 + a_2",
            lhs=mixed.T * quasi_diagonal(mixed * G, mixed * h * mixed.T),
        ),
        remark="weights change so that sum_i a_i w_i stays; the inverse of the plain diagonal is not invariant",
        quote="the quasi-diagonal inverse respects invariance under affine reparametrization of the activities of each unit",
    )
    full = letters("s", 3)
    yield paper("sec. 3.6, incoming parameters", given="no dampening").says(
        "The gradient ascent is invariant by reparametrization of the incoming parameters to each unit.",
        Equal(mixed.T * quasi_diagonal(mixed * G, mixed * h * mixed.T), ours),
        reading=Correction(
            "That of the transition parameters is, by full matrices. For the writing weights section 2 has the "
            "quasi-diagonal inverse, and by section 3.2 that is invariant under affine changes of each activity by itself.",
            Equal((mixed * h * mixed.T) * (mixed.T.inv() * full), mixed * (h * full)),
            Equal(turn.T * quasi_diagonal(turn * G, turn * h * turn.T), ours),
        ),
        remark="weights w_1y, w_2y of one symbol y, of which w_2y - w_1y is taken for w_2y; s the step",
        quote="The gradient ascent presented above is invariant by reparametrization of the activities and by "
        "reparametrization of the incoming parameters to each unit",
    )


def costs() -> Iterator[Entry]:
    """Computational complexity: products, counted once for each unit, edge, symbol and time."""
    forward, backward = T * (N * d + N * A), T * (N * d + N * A)
    filled, more = T * N * d + T * N * d**2, {T: 1 + t, d: 1 + e}
    writing = forward + 2 * T * N * A + N * A
    yield paper("sec. 2, cost of w").says(
        "The update of w costs O(N T (d + A)): a forward pass N T (d + A), W and the Hessian N T A each, the step N A.",
        Less(S.Zero, (4 * N * T * (d + A) - writing).subs(more).expand(), True),
        mutation=changed("d + A read as d", upper=(4 * N * T * d - writing).subs(more).expand()),
        remark="4 for the constant of O; T = 1 + t and d = 1 + e",
        quote="Thus the cost of the w update is O(NT(d+A))",
    )
    yield paper("sec. 2, cost of tau", given="the inverses are left out").says(
        "A gradient step costs O(N T (d^2 + A)): both passes, gradients N T d and matrices N T d^2, each with no factor A, "
        "since each time has one symbol.",
        Less(S.Zero, (6 * N * T * (d**2 + A) - writing - 2 * backward - filled).subs(more).expand(), True),
        mutation=changed(
            "d^2 + A read as d + A", upper=(6 * N * T * (d + A) - writing - 2 * backward - filled).subs(more).expand()
        ),
        remark="6 for the constant of O; values B and moduli cost as much as a forward pass each; of the inverses see there",
        quote="Thus, the overall cost (if T\\gg d) of one gradient step is O(NT(d^{2}+A))",
    )
    yield paper("sec. 2, edges").says(
        "With d distinct edges from each unit, d is the maximum number of edges into a unit.",
        Less(d + e, d),
        correction=Correction(
            "It is the mean. The squares of the d_j edges into unit j, which the matrices have, sum to N d^2 or more.",
            Equal(together(d + e, d - e), 2 * d),
            Less(2 * d**2, (d + e) ** 2 + (d - e) ** 2, True, rewritten=2 * e**2),
        ),
        remark="the initialization draws d edges from each unit i, the costs count d edges i -> j into a unit j; two units, one "
        "of which hears e more",
        quote=r"and d the maximum number of edges i\to j per unit j in the network",
    )
    quotes = {
        "sec. 2, cost, inverses": ("Inverting the matrices costs O(N d^3)", "Inverting the matrix has a cost of O(Nd^{3})", d**3),
        "sec. 2, matrices kept": (
            "The algorithm must maintain a matrix d by d",
            r"The algorithm above must maintain a matrix of size d\times d for each unit i",
            d**2,
        ),
    }
    for label, (words, quote, one) in quotes.items():
        yield paper(label).says(
            f"{words}: one for each unit.",
            Less(N * A * one, N * one),
            correction=Correction(
                "One for each unit and each symbol, as step 4 has them: A times as many.",
                Tends(N * A * one / (N * one), A, oo, oo),
            ),
            remark="section 3.4: this results in a separate matrix for each pair of them",
            quote=quote,
        )


def overall() -> Iterator[Entry]:
    """The sums, and what the reduction saves."""
    yield paper("sec. 2, rate 1/N", given="activities of size 1 at most, as with tanh").says(
        "If each unit adapts its writing weights by O(1/N) the writing probabilities change by O(1).",
        Tends(N * (1 / N), N, oo, S.One),
        mutation=changed("O(1/N) read as O(1/sqrt N)", expression=N * N ** (-S.Half)),
        remark="each exponent sum_i a_i w_iy then changes by 1 at most",
        quote="if each unit adapts its writing weights by O(1/N) then the total writing probabilities will change by O(1)",
    )
    k = Symbol("k", positive=True)
    inverses = (N * A * d**3) / (N * T * (d**2 + A))
    yield paper("sec. 2, cost, negligible").says(
        "If T is large against d the inverses are negligible: a step costs O(N T (d^2 + A)).",
        Tends(inverses.subs({A: d**2, T: d**2}), d, oo, S.Zero),
        correction=Correction(
            "If T is large against A d^3/(d^2 + A), d^3/2 for d = sqrt A: with T = d^2 the inverses cost d/2 times the rest.",
            Equal(inverses, d / 2, {A: d**2, T: d**2}),
            Tends(inverses.subs({A: d**2, T: d**4}), d, oo, S.Zero),
            Equal(2 * T * inverses, d**3, {A: d**2}),
        ),
        remark="A = d^2 as suggested; N A d^3 for the inverses (see there) against N T (d^2 + A)",
        quote=r"this is generally negligible if T\gg d",
    )
    yield paper("sec. 2, cost, sqrt A").says(
        "With d = O(sqrt A) the cost O(N T (d^2 + A)) is that of backpropagation through time, O(N T (d + A)).",
        Tends(((d**2 + A) / (d + A)).subs(d, k * A**S.Half), A, oo, 1 + k**2),
        mutation=changed("d = O(A)", expression=((d**2 + A) / (d + A)).subs(d, A), value=S.One),
        remark="their ratio stays bounded, by 1 + k^2 for d = k sqrt A",
        quote=r"In particular if d=O(\sqrt{A}) the overall cost is the same as backpropagation through time",
    )

    yield paper("sec. 2, cost, quasi-diagonal").says(
        "The terms with i = i' or i = 0 alone remove the d^2: there are 2 d + 1.",
        Tends(((d + 1) + d) / d, d, oo, S(2)),
        mutation=changed("all pairs", expression=(d + 1) * (d + 2) / 2 / d),
        remark="d + 1 on the diagonal and d beside unit 0",
        quote=r"This removes the d^{2} factor and also allows for O(d) inversion",
    )
