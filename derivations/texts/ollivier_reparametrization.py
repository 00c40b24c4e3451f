r"""Ollivier 2013, section 3.6: what leaves the metrics and their steps as they are, and what does not.

a unit's V -> k V + l, a -> alpha a + beta     B -> B/k,  m -> m/k^2:  steps are the same, but for the dampening
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from sympy import Expr, S, Symbol, diag, eye, oo, zeros
from sympy import ImmutableDenseMatrix as Matrix

from derivations.claim import Correction, Entry, Mutation, changed
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Fails
from derivations.texts.ollivier_outer_products import gram
from derivations.texts.ollivier_unfolded import (
    TIMES,
    UNITS,
    eps,
    eta,
    link,
    moduli_of,
    paper,
    real,
    source,
    symmetric,
    total,
    vector,
)

__all__ = ["entries"]


def entries() -> Iterator[Entry]:
    return chain(invariances(), parameters(), limits_of_invariance())


def invariances() -> Iterator[Entry]:
    """Section 3.6: what changes nothing. A unit's V becomes kappa V + lambda, its activity alpha a + beta."""
    alpha, beta = [Symbol(f"alpha_{i}", nonzero=True, real=True) for i in UNITS], vector("beta", 2)
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
    c, step = vector("c", 2), vector("s", 3)
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
    own, apart = diag(J[0, 0], J[1, 1]), diag(M[0, 0], M[1, 1])

    def blocks(e: Matrix) -> Matrix:
        return diag(e[0, 0], e[1, 1])

    yield paper("sec. 3.6, units apart", sizes="2 units with 1 parameter each").says(
        "The unitwise metrics are invariant under reparametrization of the parameters of each unit, but not under "
        "those that mix the parameters of different units.",
        Equal(blocks(own.T * M * own), own.T * apart * own),
        Fails(Equal(blocks(J.T * M * J), J.T * apart * J)),
        mutation=Mutation("mixed read as not mixed", Equal(blocks(J.T * M * J), J.T * apart * J)),
        remark="J is the slope of the change of parameters, of smooth ones too",
        quote="(but not by reparametrizations mixing incoming parameters to different units, as the natural gradient is)",
    )


def parameters() -> Iterator[Entry]:
    """Section 3.6: affine changes of the parameters, two units with one parameter each."""
    # Positive definite, and a change that can be undone: of these it has to be refuted.
    r, s, k = Symbol("r", positive=True), Symbol("s", positive=True), Symbol("k", real=True)
    M, J = Matrix([[r, k], [k, s + k**2 / r]]), Matrix([[1, Symbol("J", real=True)], [0, 1]])
    apart = diag(*(Symbol(f"J_{j}", real=True, nonzero=True) for j in (1, 2)))
    g = vector("g", 2)

    def step(change: Matrix) -> Matrix:
        """The unitwise step in the parameters psi, theta = J psi, carried back to theta."""
        metric = change.T * M * change
        return change * (diag(metric[0, 0], metric[1, 1]).inv() * (change.T * g))

    yield paper("sec. 3.6, affine parameters", given="no dampening", sizes="2 units with 1 parameter each").says(
        "The gradient steps are exactly invariant under affine changes of the parameters.",
        Equal(step(J), step(eye(2))),
        reading=Correction(
            "Under those of the parameters of each unit by itself, as the section says before.", Equal(step(apart), step(eye(2)))
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
        Equal(there.subs(K, 0), eta * s),
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
        Equal(damped.subs(eps, 0), kappa * B / m),
        mutation=Mutation(
            "dampening with eps/kappa^2", Fails(Equal((B / kappa) / (m / kappa**2 + eps / kappa**2), kappa * B / (m + eps)))
        ),
        remark="for the starting values (29) under V -> kappa V",
        quote=r"The dampening procedure for matrix inversion (the various \varepsilon "
        r"terms in Section 2) formally breaks invariance",
    )
    v, g = vector("v", 2), Symbol("g", real=True)
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
        Equal(Matrix([idle[1, t].subs(unheard) for t in TIMES]), zeros(3, 1)),
        Fails(Equal(Jm.T * M * Jm + lam * eye(2), Jm.T * (M + lam * eye(2)) * Jm)),
        mutation=Mutation(
            "the identity for the metric of other sequences", Equal(Jm.T * M * Jm + lam * eye(2), Jm.T * (M + lam * eye(2)) * Jm)
        ),
        remark="the modulus of a unit whose weights write nothing and reach no other",
        quote="if a unit i has no effect whatsoever on the output given the current "
        "parameters, the corresponding metric will vanish",
    )
