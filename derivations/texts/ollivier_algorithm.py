r"""Ollivier 2013, section 2: what the steps of the algorithm do, and what they cost.

quasi-diagonal step   weighted covariances over time: (20) is sum c (a - mean a)(Y - mean Y)/sum c (a - mean a)^2
matrices to invert    one for each unit and symbol: N A d^3 operations, against N T d^2 to fill them

N units, d edges into each, A symbols, T times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from sympy import Expr, S, Symbol, diff, eye, oo
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Cases, Correction, Entry, Equal, Every, Fails, Less, Mutation, Tends, changed
from derivations.prover.identity import column
from derivations.texts.ollivier_invariance import letters, symmetric
from derivations.texts.ollivier_networks import activities, log_pi, paper, probabilities, scores, writing

N, d, A, T = (Symbol(name, positive=True) for name in "NdAT")


def writing_weights() -> Iterator[Entry]:
    """Eqs. (17) to (21) in words."""
    w = writing(2)
    energies = scores(activities, w)
    pi = probabilities(energies)
    second = diff(log_pi(energies, 0), w[1, 0], 2)
    spread = activities[1] ** 2 * pi[0] * (1 - pi[0])
    yield paper("sec. 2, Hessian").says(
        "(18) and (19) are terms of the Hessian of the log-likelihood, with which the Fisher matrix coincides.",
        Equal(second, spread),
        correction=Correction(
            "Of minus the log-likelihood: the Hessian is minus the Fisher matrix, as section 3.2 says.", Equal(-second, spread)
        ),
        remark="2 units beside unit 0, 2 symbols, one step, dampening aside",
        quote="Compute the following terms of the Hessian (or Fisher information matrix) of the log-likelihood with respect to w",
    )
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
    m1, m2 = Symbol("m_1", positive=True), Symbol("m_2", positive=True)

    def terms(of: Callable[[list[int]], Any]) -> Cases:
        for word in product(range(3), repeat=4):
            counts = [word.count(y) for y in range(3)]
            yield {f"n_{y}": n for y, n in enumerate(counts)}, of(counts)

    yield paper("sec. 2, dampening, small").says(
        "epsilon = 1 is small compared to the T terms in the sum making up the matrix (26).",
        Every("words of 4 of three symbols, a term for each time", partial(terms, lambda n: (n, "=", [sum(n)] * 3))),
        Less(S.One, m1 + m2),
        correction=Correction(
            "The matrix of a symbol has a term for each time that the symbol was read, so all together have T. They are of the "
            "size of the moduli, 0 at startup and small where training succeeds: epsilon = 1 is small if these are not.",
            Every("words of 4 of three symbols, T terms for all of them", partial(terms, lambda n: (max(n), "<=", sum(n)))),
            Less(S.Zero, m1 + m2, True),
            Tends(m1, m1, 0, S.Zero),
        ),
        remark="m_1 + m_2 is the entry of unit 0 for a symbol read twice",
        quote=r"we use \varepsilon=1 which is small compared to the T terms in the sum making up \tilde{M}",
    )


def quasi_diagonals() -> Iterator[Entry]:
    """Section 3.2, end, and section 2, end: the quasi-diagonal reduction, for two units besides the one always on."""
    G, h = letters("G", 3), symmetric("h", 3)
    K = Matrix(3, 3, lambda i, j: quasi_diagonal(G, h)[i].diff(G[j]))
    inverse = Matrix(3, 3, lambda i, j: h[0, i] * h[0, j] / h[0, 0] if i != j and i * j else h[i, j])
    yield paper("sec. 3.2, quasi-diagonal inverse").says(
        "The update of the writing weights is a quasi-diagonal inverse, whose only non-zero terms have i = i' or i = 0.",
        Equal(column(K[1, 2], K[2, 1]), column(0, 0)),
        Equal(column(K[1, 0], K[2, 0]), column(0, 0)),
        reading=Correction(
            "With i = 0 or i' = 0: it is symmetric, and for one unit it is the inverse itself.",
            Equal(column(K[1, 2], K[2, 1]), column(0, 0)),
            Equal(K, K.T),
            Equal(K * inverse, eye(3)),
            Equal(h[:2, :2] * quasi_diagonal(Matrix(G[:2]), h[:2, :2]), Matrix(G[:2])),
        ),
        remark="2 units beside unit 0, 1 symbol; it is the inverse of the matrix in which the cross-term h_ij of two units is "
        "replaced by h_0i h_0j/h_00, that is, their covariance by 0",
        quote=r"corresponds to the quasi-diagonal inverse of this metric, whose only non-zero terms "
        r"correspond to y=y^{\prime} and i=i^{\prime} or i=0",
    )
    arrow = Matrix(3, 3, lambda i, j: h[i, j] if i == j or i * j == 0 else S.Zero)
    yield paper("sec. 2, orthogonal signals").says(
        "The quasi-diagonal step is the step of a metric in which the signals of units other than 0 are mutually orthogonal.",
        Equal(arrow * quasi_diagonal(G, h), G),
        reading=Correction(
            "Orthogonal once their means are taken off, that is uncorrelated: h_ij = h_0i h_0j/h_00, which is not 0.",
            Equal(inverse * quasi_diagonal(G, h), G),
        ),
        remark="two units beside unit 0; the matrix applied to the step is compared with the gradient",
        quote=r"the signals received from units i\to j are considered to be mutually orthogonal, except for "
        r"those coming from the always-activated unit i=0",
    )
    scale, shifts = letters("alpha", 2, nonzero=True, real=True), letters("beta", 2)
    turn = Matrix([[1, 0, 0], [shifts[0], scale[0], 0], [shifts[1], 0, scale[1]]])
    mixed = Matrix([[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    ours = quasi_diagonal(G, h)
    diagonal = Matrix([G[i] / h[i, i] for i in range(3)])
    diagonal_turned = Matrix([(turn * G)[i] / (turn * h * turn.T)[i, i] for i in range(3)])
    yield paper("sec. 3.2, affine invariance", sizes="2 units").says(
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
    damped = quasi_diagonal(turn * G, turn * h * turn.T + eye(3))
    yield paper("sec. 3.2, affine invariance, dampened", sizes="2 units").says(
        "With the dampening terms of (18) on the diagonal the invariance is lost.",
        Fails(Equal((turn.T * damped)[1:, 0], quasi_diagonal(G, h + eye(3))[1:, 0])),
        mutation=Mutation(
            "dampening left out", Fails(Equal(turn.T * quasi_diagonal(turn * G, turn * h * turn.T), quasi_diagonal(G, h)))
        ),
        remark="Section 3.6 says so of all its dampening; here with 1 on the diagonal",
        quote=r"where \varepsilon_{y} is a dampening term",
    )


def graphs() -> Iterator[Entry]:
    """The random graph of the initialization."""

    def degrees(right: Callable[[list[int]], Any]) -> Cases:
        """All graphs of 3 units with two edges from each, one of them its loop: the edges into each unit."""

        for heads in product(*([j for j in range(3) if j != i] for i in range(3))):
            into = [1 + heads.count(j) for j in range(3)]
            yield {f"into_{j + 1}": n for j, n in enumerate(into)}, right(into)

    yield paper("sec. 2, edges").says(
        "With d distinct edges from each unit, d is the maximum number of edges into a unit.",
        Every("graphs of 3 units, d = 2", partial(degrees, lambda into: (max(into), "=", 2))),
        correction=Correction(
            "It is the mean. The squares of the d_j edges into unit j, which the matrices have, sum to N d^2 or more.",
            Every("graphs of 3 units, d = 2, their mean", partial(degrees, lambda into: (sum(into), "=", 6))),
            Every("graphs of 3 units, d = 2, squares", partial(degrees, lambda into: (12, "<=", sum(n**2 for n in into)))),
        ),
        remark="the initialization draws d edges from each unit i, the costs count d edges i -> j into a unit j",
        quote=r"and d the maximum number of edges i\to j per unit j in the network",
    )


def quantities(n: int, edges: int, symbols: int, times: int) -> dict[str, int]:
    """How many products each step of the algorithm has, counted over a network whose unit j hears units j, j + 1, ..."""
    heard = [[(j + k) % n for k in range(edges)] for j in range(n)]
    word = [t % symbols for t in range(times)]
    links, outputs = sum(len(each) for each in heard), n * symbols
    return {
        "forward pass": sum(links + outputs for _ in word),
        "W": sum(outputs for _ in word),
        "update of w": outputs,
        "B": sum(links + outputs for _ in word),
        "G": sum(len(heard[j]) for x in word for j in range(n) for y in range(symbols) if x == y),
        "matrices": sum(len(heard[j]) ** 2 for x in word for j in range(n) for y in range(symbols) if x == y),
    }


def costs() -> Iterator[Entry]:
    """Computational complexity, a sentence at a time."""
    bounds = {  # right, wrong, and what is wrong
        "forward pass": (N * T * (d + A), N * T * d, "without the output probabilities"),
        "W": (N * T * A, N * T, "without A"),
        "update of w": (N * A, N, "without A"),
        "B": (N * T * (d + A), N * T * A, "without d"),
        "G": (N * T * d, N * T, "without d"),
        "matrices": (N * T * d**2, N * T * d, "d for d^2"),
    }
    said = {
        "forward pass": (
            "forward pass costs O(N T d + N T A)",
            "The cost of one forward pass is O(NTd) for computing the activities and "
            "O(NTA) for computing the output probabilities",
        ),
        "W": (
            "quantities W_iy cost O(N T A), as do the Hessian values",
            "The cost of computing the quantities W_{iy} is O(NTA) as well, as is the cost of computing the Hessian values",
        ),
        "update of w": ("update of w costs O(N A)", "Applying the update of w costs O(NA)"),
        "B": ("values B and the moduli cost O(N T (d + A))", r"Computing the backpropagated values B^{t}_{j} costs O(NT(d+A))"),
        "G": ("gradients G cost O(N T d), without a factor A", r"The cost of computing the gradients G_{i}^{(jy)} is O(NTd)"),
        "matrices": (
            "entries of the matrices cost O(N T d^2), without a factor A",
            "Computing the entries takes time O(Td^{2}) for each j, hence a total cost of O(NTd^{2})",
        ),
    }

    def counted(name: str, bound: Expr) -> Cases:
        for sizes in product((5, 9), (1, 5), (2, 11), (11, 23)):
            number = quantities(*sizes)[name]
            case = dict(zip("NdAT", sizes, strict=True))
            most = bound.subs({Symbol(k, positive=True): v for k, v in case.items()})
            yield {**case, "products": number}, (number, "<=", most)

    for name, (bound, wrong, how) in bounds.items():
        words, quote = said[name]
        yield paper(f"sec. 2, cost, {name}", sizes="5 and 9 units, 1 and 5 edges, 2 and 11 symbols, 11 and 23 times").says(
            f"The {words}.",
            Every(f"16 sizes, products of {name}", partial(counted, name, bound)),
            mutation=Mutation(how, Every("the same", partial(counted, name, wrong))),
            remark="products counted over a network, with 1 for the constant",
            quote=quote,
        )

    def inverted(right: Callable[[int, int], int]) -> Cases:
        for n, symbols in product(range(1, 5), repeat=2):
            matrices = {(j, y) for j in range(1, n + 1) for y in range(symbols)}
            yield {"N": n, "A": symbols, "matrices": len(matrices)}, (len(matrices), "=", right(n, symbols))

    yield paper("sec. 2, cost, inverses").says(
        "Inverting the matrices costs O(N d^3): one matrix for each unit.",
        Every("1 to 4 units and symbols, matrices of step 4", partial(inverted, lambda n, _: n)),
        correction=Correction(
            "O(N A d^3): step 4 has a matrix for each unit j and each symbol y.",
            Every("1 to 4 units and symbols, matrices of step 4", partial(inverted, lambda n, symbols: n * symbols)),
            Tends(N * A * d**3 / (N * d**3), A, oo, oo),
        ),
        remark="a matrix d by d costs O(d^3)",
        quote="Inverting the matrix has a cost of O(Nd^{3})",
    )
    yield paper("sec. 2, matrices kept").says(
        "The algorithm must maintain a matrix d by d for each unit.",
        Every("1 to 4 units and symbols, matrices of step 4", partial(inverted, lambda n, _: n)),
        correction=Correction(
            "For each unit and each symbol.",
            Every("1 to 4 units and symbols, matrices of step 4", partial(inverted, lambda n, symbols: n * symbols)),
        ),
        remark="section 3.4: this results in a separate matrix for each pair of them",
        quote=r"The algorithm above must maintain a matrix of size d\times d for each unit i",
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
            Equal(inverses.subs({A: d**2, T: d**2}), d / 2),
            Tends(inverses.subs({A: d**2, T: d**4}), d, oo, S.Zero),
            Equal(inverses.subs(A, d**2) * 2 * T, d**3),
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

    def kept(all_pairs: bool) -> Cases:
        for edges in range(1, 8):
            pairs = {(i, k) for i in range(edges + 1) for k in range(i, edges + 1) if all_pairs or i in (0, k)}
            yield {"d": edges, "terms": len(pairs)}, (len(pairs), "=", 2 * edges + 1)

    yield paper("sec. 2, cost, quasi-diagonal", sizes="up to 7 edges").says(
        "The terms with i = i' or i = 0 alone remove the d^2: there are 2 d + 1.",
        Every("1 to 7 edges from units beside unit 0", partial(kept, False)),
        Tends((2 * d + 1) / d, d, oo, S(2)),
        mutation=Mutation("all pairs", Every("the same", partial(kept, True))),
        quote=r"This removes the d^{2} factor and also allows for O(d) inversion",
    )
