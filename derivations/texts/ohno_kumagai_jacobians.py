r"""Ohno and Kumagai 2021, eqs. (10) to (15) and section IV-A: Jacobians of leaky and gated networks, and their products.

    dh_t/dh_{t-1} = (1 - a) I + a D U            leaky: (10) prints a minus
    diag(1 - z) + diag(z) dh~/dh + diag(h~ - h) dz/dh     GRU (15), in the usual layout; (10) is in the transposed one

Jacobians are compared for two units with unequal weights, and (15) entry by entry for p and another unit, q, of any network.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, ImmutableDenseMatrix, Rational, S, Subs, Symbol, diag, exp, eye, oo, tanh

from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Source, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column, jacobian
from derivations.texts.ohno_kumagai import any_candidate, candidate, gate, leaky_step
from derivations.twins.fields import sigma

paper = Source("ohno-kumagai-2021")
a, u = Symbol("alpha", positive=True), Symbol("u", positive=True)
c, z = Symbol("c", positive=True), Symbol("z", real=True)
h = ImmutableDenseMatrix([Symbol("h_1", real=True), Symbol("h_2", real=True)])
p, q = Symbol("p", real=True), Symbol("q", real=True)
AT_TWO_UNITS = "2 units, 1 input"


def jacobians() -> Iterator[Entry]:
    """Eqs. (10) to (15)."""
    U, new = symbols.weights("U_h", 2, 2), candidate()
    D = diag(*(1 - k**2 for k in new))
    step, share = leaky_step(new), u / (1 + u)
    truth = jacobian(step.subs(a, share), h)
    yield paper("eq. 10").says(
        "dh_t/dh_{t-1} of the leaky RNN is (1 - alpha) I - alpha U^T D.",
        Equal(truth.T, (1 - share) * eye(2) - share * U.T * D),
        correction=Correction(
            "The sign is +: (1 - alpha) I + alpha U^T D in the layout of the paper's chain rule (transposed), which is (1 - "
            "alpha) I + alpha D U with rows for what is differentiated.",
            Equal(truth.T, (1 - share) * eye(2) + share * U.T * D),
            Equal(truth, (1 - share) * eye(2) + share * D * U),
        ),
        remark="read in the transposed layout, the one in which U^T D can be right; alpha = u/(1 + u)",
        quote=r"\displaystyle\frac{\partial\mathbf{h}_{t}}{\partial\mathbf{h}_{t-1}}=(1-\alpha)"
        r"\mathbf{I}-\alpha\mathbf{U}^{\top}\mathbf{D}_{t}, (10)",
    )
    yield paper("eq. 10, D").says(
        "D_t = diag(tanh'(U h_{t-1} + W x_t + b)) = diag(1 - h_t^2).",
        Equal(D, diag(*(1 - k**2 for k in step))),
        correction=Correction(
            "It is diag(1 - h~_t^2), of the candidate: h_t is the candidate only for alpha = 1.",
            Equal(jacobian(new, column(*symbols.biases("b_h", 2))), D),
            Equal(ImmutableDenseMatrix(diag(*(1 - k**2 for k in step))), D, {a: S.One}),
        ),
        remark="a tilde may have been lost in the extraction",
        quote=r"\mathbf{D}_{t}=\operatorname{diag}(\tanh^{\prime}(\mathbf{U}\mathbf{h}_{t-1}+\mathbf{W}\mathbf{x}_{t}+\mathbf{b}))=\operatorname{diag}(\mathbf{1}-\mathbf{h}_{t}^{2})",
    )
    z_t, reset = gate("z"), gate("r")
    new = candidate(diag(*reset) * h)
    step = h - diag(*z_t) * h + diag(*z_t) * new
    opened, fresh = symbols.signal("z")(p, q), any_candidate(p, q)
    unit = (1 - opened) * p + opened * fresh
    yield paper("eq. 11").says(
        "The GRU's h_t = (1 - z) h_{t-1} + z h~ is the unit Euler step of dh/dt = z (h~ - h).",
        Equal(unit, p + opened * (fresh - p)),
        mutation=changed("z read as 1 - z", rhs=p + (1 - opened) * (fresh - p)),
        quote=r"\displaystyle=(\mathbf{1}-\mathbf{z}_{t})\odot\mathbf{h}_{t-1}+\mathbf{z}_{t}\odot\tilde{\mathbf{h}}_{t}, (11)",
    )
    yield paper("eq. 12").says(
        "The update gate z is in (0, 1), so that h_t lies between h_{t-1} and h~.",
        Less(S.Zero, sigma(z), True),
        Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
        mutation=Mutation("sigma read as 2 sigma", Less(2 * sigma(z), S.One)),
        quote=r"\displaystyle=\sigma(\mathbf{U}_{z}\mathbf{h}_{t-1}+\mathbf{W}_{z}\mathbf{x}_{t}+\mathbf{b}_{z}), (12)",
    )
    U = symbols.weights("U_h", 2, 2)
    inner = U * (diag(*reset) * h)
    yield paper("eq. 13").says(
        "h~ = tanh(U (r h_{t-1}) + W x + b) resets before the product: another cell than torch's r (U h_{t-1}).",
        Fails(Equal(inner, diag(*reset) * (U * h))),
        Equal(U * (sigma(z) * h), sigma(z) * (U * h)),
        mutation=Mutation("one reset gate for all units", Fails(Equal(U * (sigma(z) * h), sigma(z) * (U * h)))),
        remark="the two agree where all units share one reset gate",
        quote=r"\displaystyle=\tanh(\mathbf{U}(\mathbf{r}_{t}\odot\mathbf{h}_{t-1})+\mathbf{W}\mathbf{x}_{t}+\mathbf{b}), (13)",
    )
    D = diag(*(1 - k**2 for k in new))
    gradient = D * U * (diag(*reset) + diag(*h) * reset.jacobian(h))
    yield paper("eq. 14", sizes=AT_TWO_UNITS).says(
        "r_t reads h_{t-1} as z_t does: h~ then has the derivative D U (diag(r) + diag(h) dr/dh).",
        Equal(new.jacobian(h), gradient),
        mutation=changed("r reads the input only", rhs=D * U * diag(*reset)),
        quote=r"\displaystyle=\sigma(\mathbf{U}_{r}\mathbf{h}_{t-1}+\mathbf{W}_{r}\mathbf{x}_{t}+\mathbf{b}_{r}), (14)",
    )
    shares = diag(*(1 - k for k in z_t)) + diag(*z_t) * new.jacobian(h)
    turned = diag(*(new - h)) * z_t.jacobian(h)
    yield paper("eq. 15").says(
        "dh_t/dh_{t-1} of the GRU is diag(1 - z) + diag(z) dh~/dh + diag(h~ - h) dz/dh.",
        Equal(step.jacobian(h), shares + turned),
        Equal(unit.diff(p), 1 - opened + opened * fresh.diff(p) + (fresh - p) * opened.diff(p)),
        Equal(unit.diff(q), opened * fresh.diff(q) + (fresh - p) * opened.diff(q)),
        mutation=changed("h~ - h read as h - h~", rhs=shares - turned),
        remark="in the usual layout, rows for what is differentiated",
        quote=r"\displaystyle+\operatorname{diag}(\tilde{\mathbf{h}}_{t}-\mathbf{h}_{t-1})\frac{\partial"
        r"\mathbf{z}_{t}}{\partial\mathbf{h}_{t-1}}. (15)",
    )
    yield paper("eq. 15, layout").says(
        "(15) is in the layout of (10) and of the chain rule, columns for what is differentiated.",
        Equal(
            step.jacobian(h).T,
            diag(*(1 - k for k in z_t)) + diag(*z_t) * new.jacobian(h).T + diag(*(new - h)) * z_t.jacobian(h).T,
        ),
        correction=Correction(
            "The paper has both: in that layout the factors of (15) stand in the other "
            "order, dh~/dh diag(z) and dz/dh diag(h~ - h).",
            Equal(
                step.jacobian(h).T,
                diag(*(1 - k for k in z_t)) + new.jacobian(h).T * diag(*z_t) + z_t.jacobian(h).T * diag(*(new - h)),
            ),
        ),
        quote=r"\operatorname{diag}(\mathbf{1}-\mathbf{z}_{t})+\operatorname{diag}(\mathbf{z}_{t})\frac{\partial\tilde{\mathbf{h}}_{t}}{\partial\mathbf{h}_{t-1}}",
    )


def products() -> Iterator[Entry]:
    """Section IV-A: products of Jacobians."""
    f, before, later, v = (Symbol(letter, real=True) for letter in ("f_1", "f_2", "f_3", "v"))
    three = later * (before * (f * p + v) + v) + v
    yield paper("sec. IV-A, gates").says(
        "Ignoring recurrent weights, dh_t/dh_{t0} of a gated RNN is the product over s of f_t.",
        Equal(Derivative(three, p), later**3),
        correction=Correction(
            "The product of diag(f_s), s from t0 + 1 to t: each step has its own gate.",
            Equal(Derivative(three, p), f * before * later),
        ),
        remark="three steps of a unit; the index in print, or in the extraction, is t for s",
        quote=r"\partial\mathbf{h}_{t}/\partial\mathbf{h}_{t_{0}}=\prod_{s=t_{0}+1}^{t}\mathbf{f}_{t}",
    )
    yield paper("sec. IV-A, exactly the same").says(
        "The Jacobian decays exactly as the state did under free input, as f^(t - t0).",
        Equal(Derivative(three, p), f**3),
        reading=Correction(
            "As far as it is a product of gates again: f^(t - t0) only where the gate is "
            "the same at every step, and inputs change it.",
            Equal(Derivative(three.subs({before: f, later: f}), p), f**3),
            Equal(Derivative(three, p), f * before * later),
        ),
        quote="The decaying behavior of the Jacobian matrix is exactly the same as the state",
    )
    second, loss = candidate(), symbols.biases("l", 2)
    through = ImmutableDenseMatrix([(second.T * loss)[0]])
    yield paper("sec. IV-A, chain rule").says(
        "dL/dh_{t0} is dh_t/dh_{t0} times dL/dh_t, with rows for what is differentiated, as in (15).",
        Equal(jacobian(through, h).T, second.jacobian(h) * loss),
        reading=Correction(
            "With columns for what is differentiated: the transposed Jacobian times the gradient.",
            Equal(jacobian(through, h).T, second.jacobian(h).T * loss),
        ),
        quote=r"\frac{\partial L}{\partial\mathbf{h}_{t_{0}}}=\frac{\partial\mathbf{h}_{t}}{\partial"
        r"\mathbf{h}_{t_{0}}}\frac{\partial L}{\partial\mathbf{h}_{t}}",
    )


def recurrent() -> Iterator[Entry]:
    """Section IV-B: when recurrent weights may be ignored."""
    share, weight = u / (1 + u), Symbol("U", real=True)
    at_rest, saturated = 1 - share + share * c, 1 - share + share * c * (1 - tanh(c) ** 2)
    yield paper("sec. IV-B, unbounded").says(
        "For large recurrent weights U = c the Jacobian gets unbounded, at the state h = 1 too.",
        Tends(saturated, c, oo, oo),
        reading=Correction(
            "Where units are not saturated, as at h = 0. At h = 1 the slope of tanh is smaller still "
            "than 1/c, and the Jacobian tends to 1 - alpha.",
            Tends(at_rest, c, oo, oo),
            Tends(c * (1 - tanh(c) ** 2), c, oo, S.Zero),
        ),
        remark="one unit without input: 1 - alpha + alpha c tanh'(c h); alpha = u/(1 + u)",
        quote="since when recurrent weight matrices are large, the Jacobian matrix",
    )
    truth = (1 - share) * p + share * tanh(c * p)
    yield paper("sec. IV-B, large U", given="at h = 0, without input").says(
        "For U = c I with c large the term (1 - alpha) I no longer controls the time scale.",
        Equal(Subs(Derivative(truth, p), p, 0), at_rest),
        Less(S.One, 1 - a + a * (1 + u), True),
        mutation=Mutation("c > 1 read as c < 1", Less(S.One, 1 - a + a * (1 - u))),
        remark="unit by unit; the factor of a step is 1 - alpha + alpha c, which is "
        "above 1, no decay at all, as soon as c = 1 + u is",
        quote="controls the time scale of the state any more",
    )
    factor = 1 - share + share * weight
    slower, time = factor.subs(weight, Rational(1, 2)), Symbol("T", positive=True)
    enough = paper("sec. IV-B, enough").says(
        "To see that recurrent weights have a negligible effect it is enough that the Jacobian decays "
        "exponentially: then its rate is that of (1 - alpha)^n.",
        Equal(factor, 1 - share),
        correction=Correction(
            "The rate must be compared, too. One unit near h = 0 has the factor 1 - alpha (1 - U): exponential for every U "
            "between 0 and 1, and for U = 1/2 with twice the time, 2/alpha for 1/alpha.",
            Equal(factor, 1 - share * (1 - weight)),
            Less(slower, S.One, True),
            Less(1 - share, slower, True),
            Equal(1 / (a * (1 - weight)), 2 * time, {weight: Rational(1, 2), time: 1 / a}),
        ),
        remark="alpha = u/(1 + u)",
        quote="decays exponentially as time goes back. As the latter condition can be "
        "checked directly by the backpropagation method",
    )
    yield enough
    yield paper("intro, decays").repeats(
        enough,
        "when the gradient of loss with respect to inputs decays exponentially as time goes back, the forget gate indeed "
        "represents the time scale of the state",
        "If gradients decay exponentially, the forget gate represents the time scale: the factor of a step is 1 - alpha.",
    )
    yield paper("sec. IV-B, conclude").repeats(
        enough,
        "we can conclude that the gating mechanism or the leaky units indeed represent the time scale of the state",
        "If gradients decay exponentially, the leaky units represent the time scale: the factor of a step is 1 - alpha.",
    )
    yield paper("sec. IV-B, at initialization").says(
        "Memory decays exponentially at initialization regardless of the task: with random weights U = 1, as of deviation "
        "1/sqrt(n), a unit near h = 0 forgets too.",
        Less(factor.subs(weight, 1), S.One, True),
        reading=Correction(
            "With small weights, as these are: the caption of Fig. 2 and section VI-A give U the deviation 0.1/sqrt(n). Then U "
            "is about 1/10 and a unit forgets at 9/10 of the rate alpha. It is the initialization that does so, not the network; "
            "that of Fig. 1 is not printed.",
            Equal(1 - factor, Rational(9, 10) * share, {weight: Rational(1, 10)}),
            Less(factor.subs(weight, Rational(1, 10)), S.One, True),
            Fails(Less(factor.subs(weight, 1), S.One, True)),
        ),
        remark="alpha = u/(1 + u); a random matrix of deviation s/sqrt(n) has eigenvalues up to about s",
        quote="the time scale representation in forget gates is firmly valid at randomly initialized networks",
    )
    kept, scale = 1 - share, Symbol("W", real=True)

    def gradient(level: Expr, steps: int) -> Expr:
        return share * scale * (1 - tanh(scale * level) ** 2) * kept**steps

    yield paper("sec. IV-B, indicates").says(
        "A gradient in x that does not fall exponentially shows an effect of recurrent weights: with U = 0 it falls by 1 - alpha "
        "from step to step.",
        Equal(gradient(p, 2), kept * gradient(q, 1)),
        reading=Correction(
            "It may: with U = 0 too each step has its own factor, 1 - tanh(W x_t)^2 of its input x_t, and a gated network its "
            "own gate. For a held input it falls by 1 - alpha.",
            Equal(gradient(p, 2), kept**2 * Derivative(share * tanh(scale * p), p)),
        ),
        remark="dL/dx_t of a unit without bias, in units of dL/dh_T, two steps and one before the end",
        quote="This indicates that there is a non-negligible effect of recurrent weight matrices on the gradient",
    )
    new, slope = symbols.weights("A", 2, 1), symbols.weights("J", 2, 2)
    loss = symbols.biases("l", 2)
    first = ImmutableDenseMatrix([Symbol("x", real=True)])
    through = ImmutableDenseMatrix([((slope * (new * first[0])).T * loss)[0]])
    yield paper("sec. IV-B, input gradient").says(
        "dL/dx_t is dh_t/dx_t times dh_T/dh_t times dL/dh_T, with rows for what is differentiated, for as many inputs as units.",
        Equal((slope * slope * loss), (slope.T * slope.T * loss)),
        reading=Correction(
            "With columns for what is differentiated; otherwise the three do not even multiply for one input and two units.",
            Equal(jacobian(through, first), new.T * slope.T * loss),
        ),
        remark="dh_t/dx_t = A, dh_T/dh_t = J, dL/dh_T = l; for as many inputs as units A = J is tried",
        quote=r"\frac{\partial L}{\partial\mathbf{x}_{t}}=\frac{\partial\mathbf{h}_{t}}{\partial\mathbf{x}_{t}}\frac{\partial"
        r"\mathbf{h}_{T}}{\partial\mathbf{h}_{t}}\frac{\partial L}{\partial\mathbf{h}_{T}}",
    )
