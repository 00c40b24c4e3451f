r"""Ohno and Kumagai 2021, section IV: Jacobians of leaky and gated networks, and what can be concluded from their decay.

    dh_t/dh_{t-1} = (1 - a) I + a D U            leaky: (10) prints a minus
    diag(1 - z) + diag(z) dh~/dh + diag(h~ - h) dz/dh     GRU (15), in the usual layout; (10) is in the transposed one

Jacobians are compared for two units with unequal weights,
and (15) entry by entry for one unit p and another q of any network.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import ImmutableDenseMatrix, Rational, S, Symbol, diag, exp, eye, oo, tanh

from derivations.claim import Correction, Entry, Mutation, Source, changed
from derivations.prover import symbols
from derivations.prover.inequalities import Less
from derivations.prover.limits import Tends
from derivations.prover.statements import Equal, Fails
from derivations.texts.ohno_kumagai import AT_TWO_UNITS, affine, any_candidate, candidate, gate, h, leaky_step
from derivations.twins.fields import sigma

__all__ = ["entries"]

paper = Source("ohno-kumagai-2021")
a, c, u = (Symbol(letter, positive=True) for letter in ("alpha", "c", "u"))
# A unit of any network, and another one.
p, q, z = (Symbol(letter, real=True) for letter in "pqz")


def entries() -> Iterator[Entry]:
    return chain(jacobians(), products(), recurrent())


def jacobians() -> Iterator[Entry]:
    """Eqs. (10) to (15)."""
    U, new = symbols.weights("U_h", 2, 2), candidate()
    D = diag(*(1 - k**2 for k in new))
    step, share = leaky_step(new), u / (1 + u)
    truth = step.jacobian(h).subs(a, share)
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
            Equal(diag(*(affine("h").applyfunc(tanh).jacobian(list(symbols.biases("b_h", 2))).diagonal())), D),
            Equal(diag(*(1 - k**2 for k in step)).subs(a, 1), D),
        ),
        remark="a tilde may have been lost in the extraction",
        quote=r"\mathbf{D}_{t}=\operatorname{diag}(\tanh^{\prime}(\mathbf{U}\mathbf{h}_{t-1}+\mathbf{W}\mathbf{x}_{t}+\mathbf{b}))=\operatorname{diag}(\mathbf{1}-\mathbf{h}_{t}^{2})",
    )
    yield from gru()


def gru() -> Iterator[Entry]:
    """Eqs. (11) to (15)."""
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
        Equal(three.diff(p), later**3),
        correction=Correction(
            "The product of diag(f_s), s from t0 + 1 to t: each step has its own gate.", Equal(three.diff(p), f * before * later)
        ),
        remark="three steps of a unit; the index in print, or in the extraction, is t for s",
        quote=r"\partial\mathbf{h}_{t}/\partial\mathbf{h}_{t_{0}}=\prod_{s=t_{0}+1}^{t}\mathbf{f}_{t}",
    )
    yield paper("sec. IV-A, exactly the same").says(
        "The Jacobian decays exactly as the state did under free input, as f^(t - t0).",
        Equal(three.diff(p), f**3),
        reading=Correction(
            "As far as it is a product of gates again: f^(t - t0) only where the gate is "
            "the same at every step, and inputs change it.",
            Equal(three.diff(p).subs({before: f, later: f}), f**3),
            Equal(three.diff(p), f * before * later),
        ),
        quote="The decaying behavior of the Jacobian matrix is exactly the same as the state",
    )
    second, loss = candidate(), symbols.biases("l", 2)
    through = ImmutableDenseMatrix([(second.T * loss)[0]])
    yield paper("sec. IV-A, chain rule").says(
        "dL/dh_{t0} is dh_t/dh_{t0} times dL/dh_t, with rows for what is differentiated, as in (15).",
        Equal(through.jacobian(h).T, second.jacobian(h) * loss),
        reading=Correction(
            "With columns for what is differentiated: the transposed Jacobian times the gradient.",
            Equal(through.jacobian(h).T, second.jacobian(h).T * loss),
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
        Equal(truth.diff(p).subs(p, 0), at_rest),
        Less(S.One, 1 - a + a * (1 + u), True),
        mutation=Mutation("c > 1 read as c < 1", Less(S.One, 1 - a + a * (1 - u))),
        remark="unit by unit; the factor of a step is 1 - alpha + alpha c, which is "
        "above 1, no decay at all, as soon as c = 1 + u is",
        quote="controls the time scale of the state any more",
    )
    factor = 1 - share + share * weight
    slower = factor.subs(weight, Rational(1, 2))
    for label, claimed, quote in (
        (
            "sec. IV-B, enough",
            "To see that recurrent weights have a negligible effect it is enough that the Jacobian decays "
            "exponentially: then its rate is that of (1 - alpha)^n.",
            "decays exponentially as time goes back. As the latter condition can be "
            "checked directly by the backpropagation method",
        ),
        (
            "sec. IV-B, conclude",
            "If gradients decay exponentially, the leaky units represent the time scale: the factor of a step is 1 - alpha.",
            "we can conclude that the gating mechanism or the leaky units indeed represent the time scale of the state",
        ),
    ):
        yield paper(label).says(
            claimed,
            Equal(factor, 1 - share),
            correction=Correction(
                "The rate must be compared, too. One unit near h = 0 has the factor 1 - alpha (1 - U): exponential for every U "
                "between 0 and 1, and for U = 1/2 with twice the time, 2/alpha for 1/alpha.",
                Equal(factor, 1 - share * (1 - weight)),
                Less(slower, S.One, True),
                Less(1 - share, slower, True),
                Equal((1 - (1 - share)) / (1 - slower), S(2)),
            ),
            remark="alpha = u/(1 + u)",
            quote=quote,
        )
    new, slope = symbols.weights("A", 2, 1), symbols.weights("J", 2, 2)
    loss = symbols.biases("l", 2)
    by_rule = new.T * slope.T * loss
    yield paper("sec. IV-B, input gradient").says(
        "dL/dx_t is dh_t/dx_t times dh_T/dh_t times dL/dh_T, with rows for what is differentiated, for as many inputs as units.",
        Equal((slope * slope * loss), (slope.T * slope.T * loss)),
        reading=Correction(
            "With columns for what is differentiated; otherwise the three do not even multiply for one input and two units.",
            Equal(by_rule, ((slope * new).T * loss)),
        ),
        remark="dh_t/dx_t = A, dh_T/dh_t = J, dL/dh_T = l; for as many inputs as units A = J is tried",
        quote=r"\frac{\partial L}{\partial\mathbf{x}_{t}}=\frac{\partial\mathbf{h}_{t}}{\partial\mathbf{x}_{t}}\frac{\partial"
        r"\mathbf{h}_{T}}{\partial\mathbf{h}_{t}}\frac{\partial L}{\partial\mathbf{h}_{T}}",
    )
