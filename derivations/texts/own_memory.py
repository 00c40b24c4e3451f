r"""Result 12 of our own: chrono as a population of exponential units, T spread over [2, Tm].

one unit       e^(-n/(T-1)) <= (1 - 1/T)^n <= e^(-n/T)
uniform T      mean retention -> P(u) = e^-u - u E_1(u), u = n/Tm;   d/dT [T P(n/T)] = e^(-n/T)
log-uniform    mean retention -> E_1(u)/log(Tm/2);   mean influence (1/T)(1 - 1/T)^n close to 1/(n log(Tm/2))
Pareto         P(T > s) = s^-p, s > 1: mean retention -> Gamma(p + 1) n^-p
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, Integral, Rational, S, Subs, Symbol, exp, expint, gamma, log, oo

from derivations.claim import Correction, Entry, Equal, Less, Mutation, Tends, changed
from derivations.prior_work import own

n, p, s, u, x, T, N = (Symbol(name, positive=True) for name in "npsuxTN")
RETAINED = "a unit retains (1 - 1/T)^n after n steps"
FAR = "Tm tends to infinity with n/Tm = u held"
CASES = 10


def retained(u: Expr) -> Expr:
    """P(u) = e^-u - u E_1(u), the mean of e^(-u/s) for s uniform on (0, 1)."""
    return exp(-u) - u * expint(1, u)


def one_unit() -> Iterator[Entry]:
    yield own("result 12, one unit", given="T > 1").says(
        "e^(-n/(T - 1)) <= (1 - 1/T)^n <= e^(-n/T); by logarithms, with u = 1/(T - 1).",
        Equal((1 / (1 - 1 / T)).subs(T, 1 + 1 / u), 1 + u),
        Equal((1 / T).subs(T, 1 + 1 / u), u / (1 + u)),
        Less(log(1 + u), u, True, rising=(u,)),
        Less(u / (1 + u), log(1 + u), True, rising=(u,)),
        mutation=Mutation("e^(-n/(T - 1)) read as e^(-n/T) below", Less(log(1 + u), u / (1 + u))),
        remark="new here",
    )


def uniform() -> Iterator[Entry]:
    r"""The mean is between ((Tm - 1) P(n/(Tm - 1)) - P(n))/(Tm - 2) and (Tm P(u) - 2 P(n/2))/(Tm - 2). N for Tm.

    P' = -E_1 and E_1 falls, so P(n/(Tm - 1)) is at least P(u) - u E_1(u)/(Tm - 1). A, B: values of P, in [0, 1].
    """
    A, B, p_u, e_u = (Symbol(name, nonnegative=True) for name in ("A", "B", "P_u", "E_u"))
    above, below = (N * p_u - 2 * A) / (N - 2), ((N - 1) * (p_u - u * e_u / (N - 1)) - B) / (N - 2)
    yield own("result 12, uniform", given=(RETAINED, FAR)).says(
        "For T uniform on [2, Tm] the mean retention after n steps tends to e^-u - u E_1(u), u = n/Tm.",
        Equal(Derivative(T * retained(n / T), T), exp(-n / T)),
        Equal(Derivative((T - 1) * retained(n / (T - 1)), T), exp(-n / (T - 1))),
        Equal(Derivative(retained(u), u), -expint(1, u)),
        Equal(Derivative(expint(1, u), u), -exp(-u) / u),
        Tends(retained(u), u, 0, S.One),
        Tends(above, N, oo, p_u),
        Tends(below, N, oo, p_u),
        mutation=changed("- u E_1(u) read as + u E_1(u)", lhs=(T * (exp(-n / T) + n / T * expint(1, n / T))).diff(T)),
        remark="between the means of the bounds 'result 12, one unit', integrated exactly: (Tm P(u) - 2 P(n/2))/(Tm - 2) above "
        "and, by P' = -E_1 falling in size, ((Tm - 1) P(u) - u E_1(u) - P(n))/(Tm - 2) "
        "below, of which A = P(n/2), B = P(n) are in [0, 1]",
    )
    yield own("result 12, uniform, error", given=(RETAINED, "Tm > 2")).says(
        "It is there to within -e^-u/(Tm - 2) and 2 e^-u/(Tm - 2), already at finite Tm > 2.",
        Equal((N - 2) * (above - p_u), 2 * (p_u - A)),
        Equal((N - 2) * (below - p_u), (p_u - B) - u * e_u),
        mutation=changed("2 e^-u read as e^-u", rhs=p_u - A),
        remark="new here; e^-u = P(u) + u E_1(u), with P and E_1 not negative, and B = P(n) <= P(u)",
    )
    yield own("result 12, uniform, tail").says(
        "Uniform T makes no polynomial memory: e^-u - u E_1(u) < e^-u/(1 + u), exponential beyond Tm.",
        Equal(Derivative(expint(1, u) - exp(-u) / (1 + u), u), -exp(-u) / (u * (1 + u) ** 2)),
        Tends(exp(-u) / u, u, oo, S.Zero),
        Equal(exp(-u) - u * (exp(-u) / (1 + u)), exp(-u) / (1 + u)),
        mutation=Mutation(
            "e^-u/(1 + u) read as e^-u/(1 + u)^2", Equal(exp(-u) - u * (exp(-u) / (1 + u)), exp(-u) / (1 + u) ** 2)
        ),
        remark="new here; E_1(u) - e^-u/(1 + u) falls, and to 0 since E_1(u) < e^-u/u, so it is positive",
    )


def kept(m: int) -> Expr:
    """The mean of (1 - 1/T)^m for T log-uniform on [2, N], times log(N/2), by the geometric sum."""
    return log(N / 2) - sum((((1 - 1 / N) ** j - S(2) ** -j) / j for j in range(1, m + 1)), S.Zero)


def log_uniform() -> Iterator[Entry]:
    """Density 1/(T log(Tm/2)). N for Tm."""
    influence = ((1 - 1 / N) ** (n + 1) - 2 ** (-n - 1)) / (n + 1)
    exact = Equal(Derivative(influence, N), (1 - 1 / N) ** n / N**2), Equal(Subs(influence, N, 2), S.Zero)
    bernoulli = Less(1 - (n + 1) * x, (1 - n * x) * (1 - x), True, None, n * x**2)
    yield own("result 12, log-uniform").says(
        "For log-uniform T the mean retention after n steps is close to 1/(n log(Tm/2)): at n = 10, say, at "
        "most twice that (here both times log(Tm/2)).",
        Equal(Derivative(kept(CASES), N), (1 - 1 / N) ** CASES / N),
        Equal(kept(CASES), S.Zero, {N: S(2)}),
        Less(kept(CASES), Rational(2, CASES), False, {N: (1000, oo)}),
        correction=Correction(
            "That is the mean influence (1/T) (1 - 1/T)^n of an input n steps ago, not what is retained of the state: it is "
            "exactly ((1 - 1/Tm)^(n + 1) - 2^-(n + 1))/((n + 1) log(Tm/2)). The mean retention is close to E_1(n/Tm)/log(Tm/2), "
            "which falls like log(Tm/n) until n is of the order of Tm.",
            *exact,
            Equal(Derivative(expint(1, n / T), T), exp(-n / T) / T),
        ),
        remark="retention and influence as integrals over T: their derivatives in Tm are the integrands, and both are 0 at Tm = "
        "2; the bounds are in 'result 12, log-uniform retention'",
    )
    # 1/T >= 1/(T-1) - 1/(T-1)^2; what is lost by it integrates to at most e^(-n/(Tm-1))/n.
    low = expint(1, n / (T - 1)) - exp(-n / (T - 1)) / n
    squeezed = expint(1, u) - exp(-u) / (N - 1) - exp(-u) / (u * N) - exp(-u * N) / (u * N)
    yield own("result 12, log-uniform retention", given=(RETAINED, FAR)).says(
        "For log-uniform T the mean retention times log(Tm/2) is between E_1(n/(Tm - 1)) - E_1(n) - 1/n "
        "and E_1(n/Tm), and tends to E_1(u), u = n/Tm.",
        Equal(Derivative(expint(1, n / T), T), exp(-n / T) / T),
        Equal(Derivative(low, T), exp(-n / (T - 1)) * (1 / (T - 1) - 1 / (T - 1) ** 2)),
        Less(1 / u - 1 / u**2, 1 / (1 + u), True, None, 1 / (u**2 * (1 + u))),
        Tends(squeezed, N, oo, expint(1, u)),
        mutation=changed("E_1(n/Tm) read as E_1(n Tm)", lhs=expint(1, n * T).diff(T)),
        remark="new here; with u = T - 1 in the third statement; E_1(n/(Tm - 1)) is at least E_1(u) - e^-u/(Tm - 1)",
    )
    yield own(
        "result 12, log-uniform influence", given=("an input enters with the gate 1/T and is retained with 1 - 1/T", "Tm >= 2")
    ).says(
        "For log-uniform T the mean of (1/T) (1 - 1/T)^n is below 1/((n + 1) log(Tm/2)) "
        "by a part of at most (n + 1)/Tm + 2^-(n + 1).",
        *exact,
        bernoulli,
        mutation=Mutation("n + 1 read as n", Equal((influence * (n + 1) / n).diff(N), (1 - 1 / N) ** n / N**2)),
        remark="new here; (1 - x)^(n + 1) >= 1 - (n + 1) x with x = 1/Tm, of which the last statement is the step of induction",
    )
    part = (1 + u) ** (-n - 1) - 2 ** (-n - 1)
    yield own("result 12, polynomial memory").says(
        "Many exponential units already make polynomial memory: for log-uniform T an influence that falls like 1/n, "
        "its mean times (n + 1) log(Tm/2) tending to 1.",
        Tends(part, n, oo, S.One),
        correction=Correction(
            "Only until n is of the order of Tm, as long as (n + 1)/Tm + 2^-(n + 1) is small; beyond, any population with T <= "
            "Tm forgets exponentially, like (1 - 1/Tm)^n.",
            Tends(part, n, oo, S.Zero),
            bernoulli,
        ),
        remark="with 1 - 1/Tm = 1/(1 + u); with T unbounded it is true, 'result 12, Pareto'",
    )


def pareto() -> Iterator[Entry]:
    """x = 1/T of density p x^(p - 1) on (0, 1)."""
    mean = gamma(p + 1) * gamma(n + 1) / gamma(n + p + 1)
    density = p * x ** (p - 1)
    yield own("result 12, Pareto, exactly", given=RETAINED).says(
        "For P(T > s) = s^-p, s > 1, the mean retention after n steps is Gamma(p + 1) Gamma(n + 1)/Gamma(n + p + 1).",
        Equal(
            Derivative(p * x**p * (1 - x) ** (n + 1), x), density * ((n + 1 + p) * (1 - x) ** (n + 1) - (n + 1) * (1 - x) ** n)
        ),
        Equal((n + 1 + p) * mean.subs(n, n + 1), (n + 1) * mean),
        mutation=Mutation("Gamma(n + p + 1) read as Gamma(n + p)", Equal((n + p) * mean.subs(n, n + 1), (n + 1) * mean)),
        remark="new here; by the first statement, whose left side integrates to 0, the mean steps on as the printed one does, "
        "from 1 at n = 0; "
        "for a gate 1/T uniform on (0, 1) it is 1/(n + 1)",
    )
    yield own("result 12, Pareto", given=RETAINED).says(
        "For P(T > s) = s^-p it is close to Gamma(p + 1) n^-p for large n: p = 1/r forgets like the power decay.",
        Equal(log((n**p * density / n).subs(x, s / n)), log(p * s ** (p - 1))),
        Tends((1 - s / n) ** n, n, oo, exp(-s)),
        Less(x, -log(1 - x), True, {x: (0, 1)}, rising=(x,)),
        Equal(Integral(p * s ** (p - 1) * exp(-s), (s, 0, oo)), gamma(p + 1)),
        mutation=Mutation("Gamma(p + 1) read as Gamma(p)", Equal(p * gamma(p), gamma(p))),
        remark="new here; n^p times the mean is the integral of p s^(p - 1) (1 - "
        "s/n)^n with s = n x, dominated by that with e^-s",
    )
