"""Certificates with one thing changed: refused, or what they now say is so, in numbers that share nothing with the checker."""

import json
import random
from itertools import islice

import pytest
from mpmath import mp, workdps
from sympy import (
    Abs,
    Function,
    Heaviside,
    Integral,
    Max,
    Rational,
    S,
    cos,
    exp,
    expint,
    gamma,
    log,
    oo,
    pi,
    sign,
    sin,
    sqrt,
    symbols,
    tanh,
)

from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Rounds
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data, replay
from derivations.rules.terms import free_letters

x, y = symbols("x y", real=True)
p, q, a = symbols("p q a", positive=True)
n = symbols("n", integer=True, positive=True)
h = Function("h", real=True)
DIGITS, CLOSE, PLACES = 60, mp.mpf(10) ** -20, 12
REFUSED = (NotShown, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
STATEMENTS = [
    Equal((x + y) ** 2, x**2 + 2 * x * y + y**2), Equal(1 / (1 + exp(-x)), (1 + tanh(x / 2)) / 2),
    Equal(Abs(x) * sign(x), x), Equal(sqrt(8 * p), 2 * sqrt(2) * sqrt(p)), Equal(log(p * q), log(p) + log(q)),
    Equal(p**y * p ** (-y), S(1)), Equal(Abs(x) ** p * x, Abs(x) ** (p + 1) * sign(x)),
    Equal(sin(2 * x), 2 * sin(x) * cos(x)), Equal(h(x) + h(x), 2 * h(x)), Equal(Max(x, y), (x + y + Abs(x - y)) / 2),
    Equal(gamma(p + 1), p * gamma(p)), Equal(x ** (n + 1), x * x**n),
    Equal(Integral(x * exp(-x), (x, 0, 1)), 1 - 2 / exp(1)), Equal(Integral(exp(-p * x), (x, 0, oo)), 1 / p),
    Equal(Integral(exp(-a * x**2), (x, -oo, oo)), sqrt(pi / a)), Equal((x**2 - 1) / (x - 1), x + 1),
    Equal(exp(log(p) / 2), sqrt(p)), Equal(x, y), Equal(x**2, x), Equal(exp(x), 1 + x), Equal(log(1 + p), p),
    Equal(Abs(x), x), Equal(h(x), h(2 * x)), Equal(sqrt(p + q), sqrt(p) + sqrt(q)), Equal(tanh(x), x), Equal(sin(x), x),
    Equal(1 / x, 1 / y), Equal(Heaviside(x), S(1)), Less(0, 1 + x**2, True), Less(p - 1 + exp(-p), p**2 / 2, True),
    Less(1 - p, 0, True, region={p: (1, oo)}), Less(tanh(p), p), Less(0, exp(x), True), Less(log(1 + p), p, True),
    Less(0, p * q, True), Less(x**2, x, region={x: (0, 1)}), Less(2, exp(S(1)), True), Less(-p, p, True),
    Less(0, (1 + x**2) / (2 + exp(y)), True), Less(p, q, True, region={p: (0, q)}), Less(sqrt(p), 1 + p), Less(tanh(x), 0),
    Less(x**2, x), Less(p, 1), Less(1, p * q), Less(exp(x), 2), Less(x, y), Less(log(p), 0), Less(1, x**2),
    Less(x, p, True), Less(q, sqrt(q), region={q: (1, oo)}), Tends((1 - a / p) ** p, p, oo, exp(-a)),
    Tends(p * log(p), p, 0, 0), Tends(sin(x) / x, x, 0, 1), Tends(x**2, x, 3, 9), Tends(exp(-p) * p**3, p, oo, 0),
    Tends((exp(a * x) - 1) / x, x, 0, a), Tends(tanh(x), x, oo, 1), Tends(1 / p, p, 0, oo), Tends(log(1 + x) / x, x, 0, 1),
    Tends((1 + p) / (2 + 3 * p), p, oo, Rational(1, 3)), Tends(p * expint(1, p), p, 0, 0),
    Expands(log(1 + x), x, x - x**2 / 2, 3), Expands(exp(a * x), x, 1 + a * x, 2), Expands(sin(x), x, x, 3),
    Expands(x**3, x, 1 + 3 * (x - 1), 2, 1), Expands(sqrt(1 + x), x, 1 + x / 2, 2),
    Expands(1 / (1 - a * x), x, 1 + a * x, 2), Expands(tanh(x), x, x, 3), Expands(cos(x), x, S(1), 2),
    Expands(exp(x) * log(1 + x), x, x, 2), Expands(log(a + x), x, log(a), 1),
    Expands(h(y + x * h(y)), x, h(y) + x * h(y) * h(y).diff(y), 2), Rounds(log(49), "3.89"), Rounds(pi, "3.1416"),
    Rounds(sqrt(2), "1.41"), Rounds(exp(S(1)), "2.72"), Rounds(S(1) / 3, "0.333"), Rounds(log(2), "0.7"),
    Rounds(pi, "3.15"), Rounds(tanh(S(1)), "0.76"), Rounds(S(1) / 8, "0.12"), Rounds(exp(-S(1)), "0.4"),
]  # fmt: skip


def certificates(statements):
    for statement in statements:
        for step in statement.decide().certificate:
            yield json.loads(json.dumps(as_data(step)))


def mutations(data, path=()):
    """Every way to change one thing: (path, what is there instead)."""
    if isinstance(data, bool):
        yield path, not data
    elif isinstance(data, int):
        yield from ((path, changed) for changed in (data + 1, -data) if changed != data)
    elif isinstance(data, str):
        yield from ((path, other) for other in "xypq0" if data in "xypq" and other != data)
        yield from ((path, other) for these in (("+", "-"), (">", ">=", "!="), ("oo", "-oo")) for other in these if data in these)
    elif isinstance(data, dict):
        for key, part in data.items():
            yield from mutations(part, (*path, key))
    elif isinstance(data, list):
        for k, part in enumerate(data):
            yield path, data[:k] + data[k + 1 :]
            if k + 1 < len(data) and data[k + 1] != part:
                yield path, [*data[:k], data[k + 1], part, *data[k + 2 :]]
            yield from mutations(part, (*path, k))


def swapped_sides(step):
    for one, other in (("lhs", "rhs"), ("lower", "upper"), ("low", "high"), ("term", "value")):
        if one in step and other in step:
            yield {**step, one: step[other], other: step[one]}


def mutants(step):
    yield from swapped_sides(step)
    for path, new in mutations(step):
        copy = inner = json.loads(json.dumps(step))
        for key in path[:-1]:
            inner = inner[key]
        if path:
            inner[path[-1]] = new
            yield copy


class Unknown(Exception):  # noqa: N818 - no error: there is nothing to compare there
    """A term that has no real number as its value at a point."""


UNARY = {
    "exp": mp.exp,
    "tanh": mp.tanh,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "sin": mp.sin,
    "cos": mp.cos,
    "atan": mp.atan,
    "erf": mp.erf,
}


def value(term, at):  # noqa: PLR0911, PLR0912 - one case a kind of term
    match term[0]:
        case "v" | "call" if term in at:
            return at[term]
        case "q":
            return mp.mpf(term[1]) / term[2]
        case "+":
            return mp.fsum(value(part, at) for part in term[1:])
        case "*":
            return mp.fprod(value(part, at) for part in term[1:])
        case "^":
            return _power(value(term[1], at), value(term[2], at))
        case "pi":
            return +mp.pi
        case "piece":
            u = value(term[1], at)
            if u != 0 and abs(u) < CLOSE:
                raise Unknown
            return value(term[3 + (u > 0) - (u < 0)], at)
        case "gamma" | "expint" | "log":
            inside = [value(part, at) for part in term[1:]]
            if inside[-1] <= 0:
                raise Unknown
            return {"gamma": mp.gamma, "expint": mp.expint, "log": mp.log}[term[0]](*inside)
        case "int":
            ends = [{("oo",): mp.inf, ("-oo",): -mp.inf}.get(end) or value(end, at) for end in term[3:]]
            with workdps(30):
                return mp.quad(lambda u: value(term[2], {**at, ("v", term[1]): u}), ends)
        case "call":
            arguments = [value(part, at) for part in term[3:]]
            return 2 ** sum(term[2]) * mp.sin(1 + 2 * sum(arguments) + sum(term[2]) * mp.pi / 2)
        case head if head in UNARY:
            inside = value(term[1], at)
            if abs(inside) > 1e6 and inside > 0:
                raise Unknown
            return UNARY[head](inside)
    raise Unknown


def _power(base, exponent):
    whole = exponent == mp.floor(exponent)
    if (base < 0 and not whole) or (base == 0 and exponent < 0):
        raise Unknown
    return mp.mpf(1) if exponent == 0 else base**exponent


HOLDS = {
    ">": lambda u: u > 0, ">=": lambda u: u >= 0, "!=": lambda u: u != 0, "positive": lambda u: u > 0, "real": lambda u: True,
    "nonnegative": lambda u: u >= 0, "nonzero": lambda u: u != 0, "integer": lambda u: u == mp.floor(u),
    "other": lambda u: True, "negative": lambda u: u < 0, "nonpositive": lambda u: u <= 0,
}  # fmt: skip


def places(c, conditions):
    """Numbers for the letters as the facts, the region and the conditions allow."""
    dice = random.Random(0)
    sides = [c[key] for key in ("lhs", "rhs", "lower", "upper", "term", "value") if key in c]
    names = set().union(*map(free_letters, sides), *(free_letters(letter) for letter, _, _ in c.get("region", ())))
    letters = [("v", name) for name in sorted(names)]
    for _ in range(20 * PLACES):
        at = {}
        for letter in letters:
            at[letter] = mp.mpf(dice.choice([0, 1, -1, 2, dice.randint(-9, 9), dice.uniform(-4, 4), dice.uniform(0, 2)]))
        try:
            if (
                all(HOLDS[fact](u) for letter, u in at.items() for fact in c["facts"].get(letter, ()))
                and all(HOLDS[relation](value(term, at)) for relation, term in conditions)
                and all(_between(at, *line) for line in c.get("region", ()))
            ):
                yield at
        except (Unknown, ZeroDivisionError):
            continue


def _between(at, letter, low, high):
    return (low == ("-oo",) or value(low, at) < at[letter]) and (high == ("oo",) or at[letter] < value(high, at))


def near(u, v):
    return abs(u - v) <= CLOSE * (1 + abs(u) + abs(v))


def is_so(c, conditions):
    """Whether what a certificate claims is so at all places tried."""
    if c["rule"] == "rounds":
        within = value(c["low"], {}) <= value(c["value"], {}) <= value(c["high"], {})
        return within is c["right"]
    names = {term[1] for term in c["facts"] if term[0] == "v"}
    known = [(relation, term) for relation, term in conditions if free_letters(term) <= names]
    tried = [c["numbers"]] if "numbers" in c else islice(places(c, known), PLACES)
    found = [_is_so_at(c, {k: mp.mpf(int(v.p)) / int(v.q) if hasattr(v, "q") else v for k, v in at.items()}) for at in tried]
    return all(so is not False for so in found)


def _is_so_at(c, at):
    try:
        match c["rule"]:
            case "equal":
                return near(value(c["lhs"], at), value(c["rhs"], at))
            case "differs":
                return not near(value(c["lhs"], at), value(c["rhs"], at))
            case "less" | "not less":
                low, high = value(c["lower"], at), value(c["upper"], at)
                less = low < high or (not c["strict"] and near(low, high))
                return (less or near(low, high)) if c["rule"] == "less" else not less
            case "limit":
                gaps = [_gap(c, at, mp.mpf(10) ** k) for k in (3, 12)]
                return gaps[1] <= 0.6 * gaps[0] + mp.mpf(10) ** -6
            case "series":
                return _is_expansion(c, at)
    except (Unknown, ZeroDivisionError, OverflowError):
        return None


def _gap(c, at, far):
    side = 1 if c["side"] == "+" else -1
    place = {("oo",): far, ("-oo",): -far}.get(c["point"])
    there = value(c["term"], {**at, c["letter"]: place if place is not None else value(c["point"], at) + side / far})
    if c["value"] in (("oo",), ("-oo",)):
        return 1 / abs(there) if there * (1 if c["value"] == ("oo",) else -1) > 0 else mp.inf
    return abs(there - value(c["value"], at))


def _is_expansion(c, at):
    step = mp.mpf(10) ** -8
    start = value(c["point"], at)
    for h_ in (step, -step):
        there = value(c["term"], {**at, c["letter"]: start + h_})
        rest = abs(there - mp.fsum(value(term, at) * h_**k for k, term in enumerate(c["values"])))
        if rest > 1e6 * step ** len(c["values"]):
            return False
    return True


def tampered(step, chosen):
    """How many mutants are refused, and how many accepted, all of them for something that is so."""
    before, refused, accepted = (from_data(step), *[0] * 2)
    conditions = replay(before)
    assert is_so(before, conditions), before
    for data in chosen(list(mutants(step))):
        try:
            mutant = from_data(data)
            found = replay(mutant)
        except REFUSED:
            refused += 1
            continue
        accepted += 1
        same = all(mutant[key] == before[key] for key in before if key != "proof") and set(conditions) <= set(found)
        assert same or is_so(mutant, found), (mutant, found)
    return refused, accepted


def count(statements, chosen):
    with workdps(DIGITS):
        table = {}
        for step in certificates(statements):
            refused, accepted = tampered(step, chosen)
            entry = table.setdefault(step["rule"], [0, 0, 0])
            table[step["rule"]] = [k + m for k, m in zip(entry, (1, refused, accepted), strict=True)]
    print({rule: dict(zip(("certificates", "refused", "still so"), counts, strict=True)) for rule, counts in table.items()})
    return {rule: counts[0] for rule, counts in table.items()}


def test_every_certificate_is_accepted_from_data_alone():
    steps = list(certificates(STATEMENTS[::2]))
    assert {step["rule"] for step in steps} == {"equal", "differs", "less", "not less", "limit", "series", "rounds"}
    for step in steps:
        replay(from_data(step))
        assert as_data(from_data(step)) == step


def test_a_proof_for_another_region_is_refused():
    (step,) = certificates([Less(1 - p, 0, True, region={p: (1, oo)})])
    with pytest.raises(NotShown):
        replay(from_data({**step, "region": []}))


def test_a_certificate_with_one_thing_changed_is_refused_or_so():
    dice = random.Random(1)
    assert len(count(STATEMENTS[::4], lambda found: dice.sample(found, min(4, len(found))))) == 7


@pytest.mark.slow
def test_a_certificate_with_any_thing_changed_is_refused_or_so():
    found = count(STATEMENTS, lambda all_: all_)
    assert len(found) == 7
    assert min(found.values()) >= 10
