r"""The chain rule for clocks: played on another clock, a field is multiplied by the clock's speed.

    h'(t) = F(t, x(t), h(t)),   H(T) = h(c(T)),   X(T) = x(c(T))   =>   H'(T) = c'(T) F(c(T), X(T), H(T))

and then H, X, T are called h, x, t again. So x'(t) becomes x'(t)/c'(t): X' = c' x'(c). It needs c differentiable and
increasing; then c^-1 undoes it, with the speed 1/c'(c^-1(s)) wherever c' is not 0, as it may be at single moments. (The file
is not named after `change_of_time`, the function it is for: a package cannot have both under one name.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sympy import (
    Basic,
    Derivative,
    Dummy,
    Eq,
    Expr,
    ImmutableDenseMatrix,
    Limit,
    Pow,
    Rational,
    S,
    Subs,
    Symbol,
    exp,
    factor,
    simplify,
    solve,
    sqrt,
)
from sympy.core.function import AppliedUndef

from derivations.argument.increasing import clock_conditions
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import SECONDS
from derivations.twins import fields

__all__ = ["Clock", "change_of_time", "clock", "identities", "on_clock", "right_sides", "read_elsewhere", "stacked"]

# Exponents with greater numbers are not solved for.
STEEPEST = 100


@dataclass(frozen=True)
class Clock:
    r"""A clock t = c(s) as a change of variable needs it.

    Args:    reading: c, an expression in `time`; speed: c'; inverse: c^-1 in the same letter, None where SymPy finds no
             closed form; conditions: what must still be true for c to be a clock on t > 0, as relations (empty: it is
             proved to be one). Of a speed that varies, `speed >= 0` is meant for all t, and 0 at single moments only.
    Source:  Tallec and Ollivier 2018, sec. 1: "any increasing differentiable function".
    """

    time: Symbol
    reading: Expr
    speed: Expr
    inverse: Expr | None
    conditions: tuple[Basic, ...]


def clock(c: Expr, t: Symbol = symbols.t, seconds: float | None = SECONDS) -> Clock:
    r"""The speed of a clock, its inverse map, and the conditions that make it one, for t > 0.

    Args:    c: an expression in t, as alpha t, t^2 or c(t); t: its time; seconds: after which no proof is looked for any more,
             None for no limit.
    Returns: a `Clock`; the inverse of an unnamed c(t) is an unnamed function c^-1(t).
    Raises:  TypeError, ValueError for what cannot be a clock, as `change_of_time`; ValueError where time is up.
    Source:  Tallec and Ollivier 2018, sec. 1 and footnote 2.
    """
    at = "it was looked for whether it increases"
    try:
        with time_limit(seconds):
            conditions, speed = clock_conditions(c, t), simplify(c.diff(t))
            at = "its inverse was looked for"
            return Clock(t, c, speed, _inverse(c, t), conditions)
    except OutOfTime:
        raise ValueError(f"`c` = {c}: out of time after {seconds:g} s, while {at}; `seconds` sets how long is tried.") from None


def _inverse(c: Expr, t: Symbol) -> Expr | None:
    """The t >= 0 at which the clock shows what is then called t."""
    if c.func in {type(u) for u in c.atoms(AppliedUndef)} and c.args == (t,):
        return symbols.signal(f"{c.func.__name__}^-1")(t)
    if c.atoms(AppliedUndef) or any(_is_steep(power.exp) for power in c.atoms(exp, Pow)):
        return None
    time, shown = Dummy(t.name, nonnegative=True), Dummy(t.name, nonnegative=True)
    try:
        solutions = solve(c.xreplace({t: time}) - shown, time)
    except NotImplementedError:
        return None
    for candidate in solutions:
        there = _plain(c.xreplace({t: candidate}) - shown)
        back = _plain(candidate.xreplace({shown: c.xreplace({t: time})}) - time)
        if there == 0 and back == 0:
            return candidate.xreplace({shown: t})
    return None


def _is_steep(exponent: Expr) -> bool:
    """Return whether SymPy would take e^(10^4 t) for a polynomial in e^t, of degree 10^4, and multiply out for minutes."""
    return any(max(abs(number.p), number.q) > STEEPEST for number in exponent.expand().atoms(Rational))


def _plain(e: Expr) -> Expr:
    """Simplified, with the square root of a square taken: time is not negative."""
    return simplify(e.replace(lambda u: u.is_Pow and u.exp == Rational(1, 2), lambda u: sqrt(factor(u.base))))


def change_of_time(equations: Iterable[Eq], c: Expr) -> tuple[Eq, ...]:
    r"""The equations that H(T) = h(c(T)) satisfies on the input X(T) = x(c(T)), in the old letters h, x, t.

    Every function of t on the right is a signal and is renamed with the state, and its derivative x'(t) becomes x'(t)/c'(t),
    where c' is not 0; t itself becomes c(t). The clocks that an earlier call put there, and c(t) and d(t) where they stand
    with their derivatives, are functions of time as t is: c'(t) F warped by d is d'(t) c'(d(t)) F.

    Args:    equations: Eq(h(t).diff(t), F), one for each unit, coupled as they may be; c: an increasing differentiable
             expression in the same t, as alpha t or c(t).
    Returns: the warped equations, in the order given.
    Raises:  TypeError for what is not an equation or an expression; ValueError for equations of another form or with noise, for
             x(t - 1), x(0) and integrals of signals over time, and for a c that does not depend on t, may have corners, or runs
             backwards at some t > 0. What is neither proved nor refuted of c is assumed: `clock(c).conditions` names it.
    Source:  Tallec and Ollivier 2018, footnote 2 and eq. (6).
    """
    if isinstance(equations, fields.SymbolicField) and equations.diffusion is not None:
        raise ValueError(
            f"`{equations.name}` has noise, which on a clock c becomes sqrt(c') G(c(t)) dW; give the equations of dh/dt alone, "
            "`list(equations)`."
        )
    flows, t, clocks = _system(equations)
    clock_conditions(c, t)
    warped = (Eq(Derivative(h, t), c.diff(t) * _played(rate, t, c, clocks), evaluate=False) for h, rate in flows.items())
    return WarpedEquations(warped, clocks | {u.func for u in c.atoms(AppliedUndef) if u.args == (t,)})


class WarpedEquations(tuple[Eq, ...]):
    """Equations on a clock, and which of their functions are clocks."""

    clocks: frozenset[Any]

    def __new__(cls, equations: Iterable[Eq], clocks: frozenset[Any]) -> WarpedEquations:
        made = super().__new__(cls, equations)
        made.clocks = clocks
        return made


def _played(rate: Expr, t: Symbol, c: Expr, clocks: frozenset[Any]) -> Expr:
    """Play a rate on the clock: at the time c(t), signals and their derivatives in the letters of what is heard then."""
    heard: dict[Expr, Expr] = {}
    for slope in rate.atoms(Derivative):
        if _is_slope(slope, t) and slope.expr.func not in clocks:
            value = slope.expr
            for _ in range(int(slope.derivative_count)):
                value = value.diff(t) / c.diff(t)
            heard[slope] = value
    heard |= {value: value for value in rate.atoms(AppliedUndef) if value.args == (t,) and value.func not in clocks}
    letters = {part: Dummy(real=part.is_extended_real) for part in heard}
    back = {letter: heard[part] for part, letter in letters.items()}
    return rate.xreplace(letters).subs(t, c).xreplace(back)


def _is_slope(e: Expr, t: Symbol) -> bool:
    return isinstance(e.expr, AppliedUndef) and e.expr.args == (t,) and e.variables == (t,) * int(e.derivative_count)


def _system(equations: Iterable[Eq]) -> tuple[dict[Expr, Expr], Symbol, frozenset[Any]]:
    """The right sides by unit, their time, and the functions that are clocks."""
    listed = [equations] if isinstance(equations, Eq) else list(equations)
    if not listed:
        raise ValueError("`equations` is empty; give one Eq(h(t).diff(t), F) for each unit.")
    for equation in listed:
        if not isinstance(equation, Eq):
            raise TypeError(f"`equations` must be SymPy equations Eq(h(t).diff(t), F), got {equation!r}.")
        left = equation.lhs
        if not (isinstance(left, Derivative) and isinstance(left.expr, AppliedUndef) and left.derivative_count == 1):
            raise ValueError(f"the left side of {equation} must be the first derivative of one unit, as h(t).diff(t).")
    flows = {equation.lhs.expr: equation.rhs for equation in listed}
    times = {equation.lhs.variables[0] for equation in listed}
    if len(times) > 1 or len(flows) < len(listed):
        raise ValueError("`equations` must be in one time, one equation for each unit.")
    (t,) = times
    inputs = {u.func for u in equations.inputs} if isinstance(equations, fields.SymbolicField) else set()
    named = {symbols.c, symbols.d} & _with_slopes(flows)
    clocks = frozenset((equations.clocks if isinstance(equations, WarpedEquations) else named) - inputs)
    _check_flows(flows, t, clocks)
    return flows, t, clocks


def _check_flows(flows: dict[Expr, Expr], t: Symbol, clocks: Set[Any]) -> None:
    signals = _signals(flows, t, clocks)
    for h, rate in flows.items():
        if h.args != (t,):
            raise ValueError(f"the unit {h} must be a function of {t} alone.")
        if {unit.func for unit in flows} & _with_slopes(flows):
            raise ValueError(f"the flow of {h} contains a unit's derivative; solve the equations for the derivatives first.")
        elsewhere = (e for e in read_elsewhere(rate, signals, t, clocks) if not (isinstance(e, Derivative) and _is_slope(e, t)))
        if (value := next(elsewhere, None)) is not None:
            raise ValueError(
                f"the flow of {h} contains {value}, at another time than {t}: that is no vector field. An integral over the past "
                "can be a unit with an equation of its own."
            )


def read_elsewhere(e: Basic, signals: Set[Expr], t: Symbol, clocks: Set[Any] = frozenset()) -> Iterator[Expr]:
    """Yield what an expression reads beside its signals at the time t: their derivatives, x(t - 1), x(0), integrals over time,
    and functions of what is no signal; what is made of clocks is left out."""
    if isinstance(e, AppliedUndef) and (e in signals or e.func in clocks):
        return
    inside = e.atoms(AppliedUndef)
    bound = {*getattr(e, "variables", ()), *getattr(e, "bound_symbols", ()), *(e.args[1:2] if isinstance(e, Limit) else ())}
    elsewhere = isinstance(e, AppliedUndef) and (e.func in {u.func for u in signals} or not inside & signals)
    if elsewhere or any(u.free_symbols & bound and u.func not in clocks for u in inside):
        yield e
    else:
        for part in e.args:
            yield from read_elsewhere(part, signals, t, clocks)


def _with_slopes(flows: dict[Expr, Expr]) -> set[Any]:
    """The functions that stand with their derivatives."""
    return {a.func for rate in flows.values() for slope in rate.atoms(Derivative, Subs) for a in slope.atoms(AppliedUndef)}


def _signals(flows: dict[Expr, Expr], t: Symbol, clocks: Set[Any]) -> set[Expr]:
    """h(t) and x(t), but not c(t)."""
    values = set(flows).union(*(rate.atoms(AppliedUndef) for rate in flows.values()))
    return {value for value in values if value.args == (t,) and value.func not in clocks}


def on_clock(equations: Iterable[Eq], c: Expr, right: Iterable[Expr]) -> dict[str, Any]:
    r"""d/dt h(c(t)) = right, as an `Identity` or a statement takes it; the chain rule is the checker's to apply.

    Put in are h' = F at the time c(t), and the capital letters of footnote 2, H(t) = h(c(t)) and X(t) = x(c(t)).

    Args:    equations, c: as `change_of_time`; right: the warped right sides that are claimed, in the old letters.
    Source:  Tallec and Ollivier 2018, footnote 2.
    """
    flows, t, clocks = _system(equations)
    on_it = {h: h.xreplace({t: c}) for h in _signals(flows, t, clocks)}
    capital = {h: symbols.signal(h.func.__name__[0].upper() + h.func.__name__[1:])(t) for h in on_it}
    slopes = {_slope_at(h, t, c): _at(flow, t, c) for h, flow in flows.items()}
    return {
        "lhs": column(*(Derivative(on_it[h], t) for h in flows)),
        "rhs": column(*(flow.xreplace(capital) for flow in right)),
        "where": slopes | {capital[h]: on_it[h] for h in sorted(on_it, key=str)},
    }


def _slope_at(h: Expr, t: Symbol, c: Expr) -> Expr:
    """h'(c(t)), as SymPy writes it."""
    if isinstance(c, AppliedUndef):
        return Derivative(h.xreplace({t: c}), c)
    time = Dummy("T", real=True)
    return Subs(Derivative(h.xreplace({t: time}), time), time, c)


def _at(flow: Expr, t: Symbol, c: Expr) -> Expr:
    """The flow at the time c(t), a value yet to be put in where the flow reads the time or a derivative."""
    bare = flow.xreplace(dict.fromkeys((u for u in flow.atoms(AppliedUndef) if u.args == (t,)), S.Zero))
    return Subs(flow, t, c) if flow.has(Derivative, Subs) or bare.has(t) else flow.xreplace({t: c})


def stacked(*claims: Mapping[str, Any]) -> dict[str, Any]:
    """What several are, of different letters, as one of more entries."""
    lhs, rhs = (column(*chain.from_iterable(claim[side] for claim in claims)) for side in ("lhs", "rhs"))
    return {"lhs": lhs, "rhs": rhs, "where": {key: value for claim in claims for key, value in claim["where"].items()}}


def _there_and_back(unit: int, c: Expr) -> dict[str, Any]:
    t = Symbol("t", positive=True)
    h, x = (u.xreplace({symbols.t: t}) for u in (symbols.state(unit)[-1], symbols.inputs(unit)[-1]))
    equations = [Eq(h.diff(t), symbols.flow(t, x, h))]
    c = c.xreplace({symbols.t: t})
    inverse = clock(c, t).inverse
    assert inverse is not None
    shown = Subs(c, t, inverse)
    back = on_clock(change_of_time(equations, c), inverse, [symbols.flow(shown, x, h)])
    return stacked(back, {"lhs": [shown], "rhs": [t], "where": {}})


def right_sides(equations: Iterable[Eq]) -> ImmutableDenseMatrix:
    """The column of right-hand sides."""
    return column(*(equation.rhs for equation in equations))


def named_fields() -> dict[str, fields.SymbolicField]:
    """Every named field, with both decays where it takes them."""
    power = fields.power_decay(symbols.r)
    return {
        "plain": fields.plain(),
        "leaky": fields.leaky(),
        "leaky, power decay": fields.leaky(decay=power),
        "gated": fields.gated(),
        "gated, global": fields.gated(gate="global"),
        "gated, network": fields.gated(gate="network"),
        "gated, power decay": fields.gated(decay=power),
        "gru": fields.gru(),
        "lstm": fields.lstm(),
        "lstm, read out": fields.lstm_read_out(),
        "glnn": fields.glnn(),
    }


def identities() -> list[Identity]:
    r"""The chain rule itself, clocks after clocks, and the warped equation of every named field."""
    t, c, d = symbols.t, symbols.c, symbols.d
    (h,), (x,) = symbols.state(1), symbols.inputs(1)
    general = [Eq(h.diff(t), symbols.flow(t, x, h))]
    once = change_of_time(general, c(t))
    unnamed = [
        Identity(
            "chain rule", "tallec-ollivier-2018", "On the clock c any field is multiplied by c'(t), and its own time reads c(t).",
            **on_clock(general, c(t), [c(t).diff(t) * symbols.flow(c(t), x, h)]), label="footnote 2",
        ),
        Identity(
            "there and back", "this project",
            "Changing time by a clock and then by its inverse leaves a field as it was (alpha t, t + t^2, exp(t) - 1).",
            **stacked(*map(_there_and_back, range(1, 4), (symbols.alpha * t, t + t**2, exp(t) - 1))),
            assumptions=("t > 0", "alpha > 0"), label="inverse",
        ),
        Identity(
            "clock on a clock", "this project", "Changing time by c and then by d is changing it once, by c(d(t)).",
            **on_clock(once, d(t), [Derivative(c(d(t)), t) * symbols.flow(c(d(t)), x, h)]), label="composition",
        ),
    ]  # fmt: skip
    return unnamed + [
        Identity(
            f"warped {name}", "this project", f"On the clock c the {name} field is multiplied by c'(t), its weights unchanged.",
            **on_clock(field, c(t), c(t).diff(t) * field.flow), assumptions=stated(field), label=f"warp, {name}",
        )
        for name, field in named_fields().items() if name != "plain"  # that one is eq. (6)
    ]  # fmt: skip


def stated(field: fields.SymbolicField) -> tuple[str, ...]:
    """In words, what the letters of a field assume."""
    return tuple(f"{u} > 0" for u in sorted(field.flow.free_symbols, key=str) if u.is_positive)
