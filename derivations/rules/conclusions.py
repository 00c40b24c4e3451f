r"""Decide from the steps of a certificate whether a statement is true or false.

    equal     pairs, where; all of them equal   less      lower, upper, strict, region
    limit     term, letter, point, sides, value series    sides, letter, point, order
    rounds    value, low, high, beyond          cases     comparisons, all of them true
    not       of: another statement             closure   group, member, flow, field, coefficients, slots, what letters stand for

A step carries what it is a proof of; here that is held against the statement, which is read from the claim and not from the
proof. The certificate of another statement shows nothing of this one. What is proved under conditions comes with numbers at which
these are true: of what is nowhere defined anything could be said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from derivations.rules.definedness import ALLOWED, Certificate, Conditions
from derivations.rules.grammar import check_terms
from derivations.rules.groups import AT_LEAST, NONE, group_name
from derivations.rules.numbers import rounds
from derivations.rules.quotients import NotShown
from derivations.rules.replay import replay
from derivations.rules.terms import (
    INFINITY,
    ONE,
    ZERO,
    Term,
    add,
    divide,
    free_letters,
    is_term,
    mul,
    number,
    parts,
    substitute,
    subterms,
    taken,
)

__all__ = [
    "STATEMENTS",
    "Conclusion",
    "concludes",
    "guarded",
    "is_one_as_written",
    "is_true",
    "somewhere",
    "terms_of",
    "with_values",
]

Steps = Sequence[Certificate]


class Conclusion(NamedTuple):
    """Says whether a statement is true, and under which conditions that is shown, relations of terms to 0."""

    true: bool
    conditions: Conditions = ()


FALSE = Conclusion(False)


def concludes(says: Certificate, steps: Steps) -> Conclusion:
    r"""Conclude from the steps that a statement is true, where certain conditions are, or that it is false.

    Raises:  NotShown where they show neither.
    """
    if says["kind"] not in ("not", "closure"):
        _check_facts(says, steps)
    return STATEMENTS[says["kind"]](says, steps)


def _check_facts(says: Certificate, steps: Steps) -> None:
    """Raise NotShown if a step supposes more of the statement's letters and values than the statement."""
    known, free = says.get("facts", {}), set().union(*map(free_letters, terms_of(says)))
    for term, facts in (fact for step in steps for fact in step.get("facts", {}).items()):
        own_of_the_proof = term[0] == "v" and term[1] not in free
        if known.get(term) != facts and not own_of_the_proof:
            raise NotShown(f"other facts are supposed of {term}")


def terms_of(says: Certificate) -> Iterator[Term]:
    """Yield the terms that a statement is about."""
    kept = [part for key, part in says.items() if key not in ("kind", "facts", "of")]
    while kept:
        part = kept.pop()
        if is_term(part) or part == ():
            yield from [part] if part else []
        elif isinstance(part, Mapping):
            kept += [*part.keys(), *part.values()]
        elif isinstance(part, tuple | list):
            kept += part


def guarded(term: Term, conditions: Iterable[tuple[str, Term]]) -> Term:
    """Make a term undefined where a condition is false."""
    nowhere = divide(ONE, ZERO)
    return add(
        term, *(("piece", u, *(ZERO if s in ALLOWED[relation] else nowhere for s in (-1, 0, 1))) for relation, u in conditions)
    )


def somewhere(conditions: Iterable[tuple[str, Term]]) -> tuple[Term, Term]:
    """Make two terms that differ at numbers if, and only if, all conditions are true there."""
    return guarded(ONE, conditions), ZERO


def with_values(pair: tuple[Term, Term], where: Mapping[Term, Term]) -> tuple[Term, Term]:
    """Put values in place of letters in both sides, and take all derivatives."""
    lhs, rhs = pair
    return taken(substitute(lhs, where)), taken(substitute(rhs, where))


def is_one_as_written(says: Certificate) -> bool:
    """Whether both sides are one expression already, so that nothing was left to be computed here."""
    where = says.get("where", {})
    if any(pair is None for pair in says.get("pairs", [None])):
        return False
    left_open = any(part[0] in ("diff", "at") for term in chain(where.values(), *says["pairs"]) for part in subterms(term))
    put_in = (lambda pair, where: tuple(where.get(side, side) for side in pair)) if left_open else with_values
    return all(lhs == rhs for lhs, rhs in (put_in(pair, where) for pair in says["pairs"]))


def _equal(says: Certificate, steps: Steps) -> Conclusion:
    pairs, where = says["pairs"], says["where"]
    check_terms([*where, *where.values(), *chain.from_iterable(filter(None, pairs))])
    return _pairs([pair and with_values(pair, where) for pair in pairs], steps)


def _pairs(pairs: Sequence[Any], steps: Steps, conditions: Iterable[tuple[str, Term]] = ()) -> Conclusion:
    """Conclude that all pairs are equal, under further conditions, or that one differs at numbers or by a constant."""
    equal, more, conditions = steps[: len(pairs)], steps[len(pairs) :], tuple(conditions)
    if [(step["rule"], (step.get("lhs"), step.get("rhs"))) for step in equal] == [("equal", pair) for pair in pairs]:
        return _where(dict.fromkeys([*conditions, *chain.from_iterable(map(replay, equal))]), more)
    if conditions:
        raise NotShown("it is not shown that the conditions can be true")
    made = tuple(dict.fromkeys(condition for step in steps for condition in replay(step)))
    shown: list[tuple[str, Any]] = [(step["rule"], (step.get("lhs"), step.get("rhs"))) for step in steps]
    *values, last = shown or [("", ())]
    if (
        values and last[0] == "differs" and all(rule == "equal" for rule, _ in values)
    ):  # what one side is equal to is not the other
        for pair in filter(None, pairs):
            left, right = (dict(sides for _, sides in values).get(side, side) for side in pair)
            if last[1] == (guarded(left, made), right):
                return FALSE
    match shown:
        case [("differs", pair)] if pair in pairs:
            return FALSE
        case [("equal", (lhs, rhs))] if rhs and any(pair and pair[0] == lhs and _are_apart(pair[1], rhs) for pair in pairs):
            return FALSE
    raise NotShown("the steps are of another statement")


def _where(conditions: Iterable[tuple[str, Term]], steps: Steps) -> Conclusion:
    """Conclude that a statement is true under conditions, if the steps have numbers at which these are."""
    conditions = tuple(conditions)
    for step in steps:
        replay(step)
    shown = [(step["rule"], step.get("lhs"), step.get("rhs")) for step in steps]
    if shown != ([("differs", *somewhere(conditions))] if conditions else []):
        raise NotShown(f"no numbers show that the conditions can be true: {conditions}")
    return Conclusion(True, conditions)


def _are_apart(rhs: Term, shifted: Term) -> bool:
    """Whether the second is the first and a number that is not 0."""
    if len(shifted) < 2 or shifted[0] != "+" or shifted[-1][0] != "q" or not shifted[-1][1]:
        return rhs == ZERO and shifted[0] == "q" and bool(shifted[1])
    return shifted == add(rhs, number(*shifted[-1][1:]))


def _less(says: Certificate, steps: Steps) -> Conclusion:
    step = _one(steps[:1], says, "lower", "upper", "strict", "region")
    conditions = replay(step)
    if step["rule"] == "less":
        return _where(conditions, steps[1:])
    if step["rule"] != "not less" or len(steps) > 1:
        raise NotShown("the steps are of another statement")
    return FALSE


def _limit(says: Certificate, steps: Steps) -> Conclusion:
    limits, more = steps[: len(says["sides"])], steps[len(says["sides"]) :]
    _are_of(limits, says, "limit", "term", "letter", "point")
    if "".join(step["side"] for step in limits) != says["sides"]:
        raise NotShown("the limits are of other sides")
    conditions = dict.fromkeys(condition for step in limits for condition in replay(step))
    value, others = says["value"], [step["value"] for step in limits if step["value"] != says["value"]]
    infinite = [limit in INFINITY or value in INFINITY for limit in others]
    if any(infinite):
        if not conditions and not more:
            return FALSE
        return _differ_somewhere([(ONE, ZERO)], conditions, more)
    return _hold_or_differ([(limit, value) for limit in others], conditions, more)


def _series(says: Certificate, steps: Steps) -> Conclusion:
    both, more = steps[:2], steps[2:]
    _are_of(both, says, "series", "letter", "point")
    if tuple(step["term"] for step in both) != tuple(says["sides"]):
        raise NotShown("the series are of other terms")
    if any(len(step["values"]) != says["order"] + 1 for step in both):
        raise NotShown("the series are of another order")
    conditions = dict.fromkeys(condition for step in both for condition in replay(step))
    return _hold_or_differ(list(zip(*(step["values"][:-1] for step in both), strict=True)), conditions, more)


def _hold_or_differ(pairs: Sequence[tuple[Term, Term]], conditions: Mapping[Any, None], steps: Steps) -> Conclusion:
    """True if all pairs are equal; False if one differs where the conditions are true."""
    if pairs and conditions and [step["rule"] for step in steps] == ["differs"]:
        return _differ_somewhere(pairs, conditions, steps)
    return _pairs(pairs, steps, conditions)


def _differ_somewhere(pairs: Iterable[tuple[Term, Term]], conditions: Mapping[Any, None], steps: Steps) -> Conclusion:
    found = _pairs([(guarded(left, conditions), right) for left, right in pairs], steps)
    if found.true:
        raise NotShown("the steps are of another statement")
    return found


def _rounds(says: Certificate, steps: Steps) -> Conclusion:
    step, beyond = _one(steps, says, "value"), says["beyond"]
    replay(step)
    ends = (step["low"], step["high"])
    # Half a unit beyond an odd digit, exactly: neither way of rounding prints that digit.
    if beyond is not None and beyond not in (says["low"], says["high"]):
        raise NotShown("what is beyond is no end")
    if step["rule"] == "rounds" and ends == (says["low"], says["high"]):
        return Conclusion(bool(step["right"]) and (beyond is None or not rounds(says["value"], beyond, beyond)))
    if step["rule"] == "rounds" and step["right"] and beyond is not None and ends == (beyond, beyond):
        return FALSE
    raise NotShown("the step is of another statement")


def _cases(says: Certificate, steps: Steps) -> Conclusion:
    """True if all hold; False if the steps are the first ones and the last of these is false."""
    (step,) = steps if len(steps) == 1 else ({},)
    claimed, seen = tuple(says["comparisons"]), tuple(step.get("comparisons", ()))
    if not seen or seen != claimed[: len(seen)]:
        raise NotShown("the step is of other cases")
    if not is_true(seen[-1]):
        return FALSE
    if seen != claimed or not all(map(is_true, seen)):
        raise NotShown("the step is not of all cases")
    return Conclusion(True)


def _not(says: Certificate, steps: Steps) -> Conclusion:
    return Conclusion(not concludes(says["of"], steps).true)


def _closes(says: Certificate, steps: Steps) -> Conclusion:
    found = _absorbed(says, steps)
    if found.endswith(AT_LEAST) and says["group"] not in (found, NONE):
        raise NotShown("it is not shown that no more is absorbed")
    return Conclusion(found == says["group"])


def _absorbed(says: Certificate, steps: Steps) -> str:
    """Warps where each unit's c' F is one of a member; none or rescalings where a coefficient c' k is not that of one, and
    rescalings where there is no gate and c' F is not F.

    Rates that may leave their range are named by it, and gates by what they read. That no other way is left rests on
    generators that are independent, which no step shows.
    """
    reads = _reads(says)
    gates = {slot["old"] for slot in says["slots"] if reads[slot["old"][1]]}
    values, proofs = (steps[0]["values"], steps[1:]) if steps and steps[0]["rule"] == "values" else ({}, steps)
    conditions = tuple(dict.fromkeys(condition for step in proofs for condition in replay(step)))
    equal = [(step["lhs"], step["rhs"]) for step in proofs if step["rule"] == "equal"]
    differing = [(step["lhs"], step["rhs"]) for step in proofs if step["rule"] == "differs"]
    if conditions:
        differing = _without(differing, somewhere(conditions))
    wanted = list(zip((taken(substitute(rate, values)) for rate in says["member"]), says["flow"], strict=True))
    chosen = {slot["old"][1] for slot in says["slots"] if not values or slot["old"] in gates}
    apart = [pair for pair in map(tuple, says["coefficients"]) if not free_letters(pair[0]) & chosen]
    apart += map(tuple, says["field"] if values and not gates else ())
    if equal != (wanted if values else []) or not set(differing) <= set(apart):
        raise NotShown("the steps are of another field")
    if not proofs or len(equal) + len(differing) + bool(conditions) != len(proofs):
        raise NotShown("the steps are of another statement")
    if not values:
        return NONE
    changed = [slot for slot in says["slots"] if values[slot["new"]] != slot["old"]]
    constant = any(slot["old"] not in gates for slot in changed)
    if any(not reads.get(name, set()) <= reads[slot["old"][1]] for slot in changed for name in free_letters(values[slot["new"]])):
        raise NotShown("a constant would read data, or a gate more of them than it does")
    if differing and not constant:
        raise NotShown("the steps are of another statement")
    multiples = [(mul(says["speed"], slot["old"]), mul(slot["old"], says["speed"])) for slot in changed]
    ranges = [
        slot["range"]
        for slot, multiple in zip(changed, multiples, strict=True)
        if slot["range"] and not (slot["is cone"] and values[slot["new"]] in multiple)
    ]
    name = group_name(constant, ranges, all(reads[slot["old"][1]] == set(says["data"]) for slot in changed))
    return name if differing or not constant else name + AT_LEAST


def _without(pairs: list[tuple[Term, Term]], pair: tuple[Term, Term]) -> list[tuple[Term, Term]]:
    """Take a pair out, which shows that there are numbers at which conditions are true."""
    if pair not in pairs:
        raise NotShown("no numbers show that the conditions can be true")
    return [other for other in pairs if other != pair]


def _reads(says: Certificate) -> dict[str, set[Term]]:
    """Find which data the letters of a field read, and see that it is a field of these at the present time, with a free letter
    for each slot that stands nowhere else.

    Raises:  NotShown for what reads another time, and for letters that may not be chosen as is said.
    """
    data, slots = set(says["data"]), says["slots"]
    if not all(u[0] == "call" and u[2:] == ((0,), says["time"]) for u in data):
        raise NotShown("the data are not functions of one time")
    meaning = {**says["stands for"], **{slot["old"]: slot["stands for"] for slot in slots}}
    new, free = {slot["new"] for slot in slots}, {letter[1] for letter in says["free"]}
    for term in (*meaning.values(), *(e for e, _ in says["field"])):
        _check_reads(term, data, says["time"])
    letters = set().union(*map(free_letters, (*says["member"], *says["flow"], *chain.from_iterable(says["coefficients"]))))
    if not {("v", name) for name in letters} <= {*meaning, *new, says["speed"]} or len(new) < len(slots) or new & meaning.keys():
        raise NotShown("it is not said what a letter stands for")
    for slot in slots:
        others = (free_letters(term) for letter, term in meaning.items() if letter != slot["old"])
        if not (free_letters(slot["stands for"]) & free).difference(*others):
            raise NotShown(f"{slot['old']} has no free letter of its own")
    return {letter[1]: data.intersection(subterms(term)) for letter, term in meaning.items()}


def _check_reads(term: Term, data: set[Term], time: Term) -> None:
    """Raise NotShown if a term reads the time, its data at another time, or a function that reads none of them."""
    if term in data:
        return
    of_data = any(part in data for part in subterms(term))
    if term == time or term[0] in ("diff", "at") or (term[0] == "call" and not (of_data and all(u[1] != term[1] for u in data))):
        raise NotShown(f"the field reads {term}, which is another function on the clock")
    for part in parts(term):
        _check_reads(part, data, time)


def _one(steps: Steps, says: Certificate, *names: str) -> Certificate:
    (step,) = steps if len(steps) == 1 else (None,)
    if step is None:
        raise NotShown("there is not one step")
    _are_of([step], says, step["rule"], *names)
    return step


def _are_of(steps: Steps, says: Certificate, rule: str, *names: str) -> None:
    if any(step["rule"] != rule or any(step.get(name) != says[name] for name in names) for step in steps):
        raise NotShown("the steps are of another statement")


# What each kind of statement asks of its steps.
STATEMENTS: dict[str, Callable[[Certificate, Steps], Conclusion]] = {
    "equal": _equal,
    "less": _less,
    "limit": _limit,
    "series": _series,
    "rounds": _rounds,
    "cases": _cases,
    "not": _not,
    "closure": _closes,
}

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "in": lambda a, b: a in b,
}


def is_true(comparison: Any) -> bool:
    r"""Whether a comparison is true.

    Raises:  NotShown for what is none.
    """
    if not _is_comparison(comparison):
        raise NotShown(f"{comparison} is no comparison")
    left, relation, right = comparison
    left, right = _value(left), _value(right)
    if relation in ("<", "<=") and isinstance(left, str | tuple):
        raise NotShown(f"{left} and {right} have no order")
    return RELATIONS[relation](left, right)


def _value(x: object) -> Any:
    if _is_comparison(x):
        return is_true(x)
    return tuple(map(_value, x)) if isinstance(x, tuple) else x


def _is_comparison(x: object) -> bool:
    return isinstance(x, tuple) and len(x) == 3 and isinstance(x[1], str) and x[1] in RELATIONS
