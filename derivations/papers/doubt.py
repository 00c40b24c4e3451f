r"""Finds the letters that a formula which cannot be read may define or restrict.

    y = \max(w x, 0)                y, and nothing of w and x: an equation defines what is on its left, or claims something
    \tau \dot h = \max(x, 0) - h    tau and h, and neither t nor x
    x \ge \max(a, b)                nothing, but x, a and b are perhaps those alone of which it is true
    u \triangleq x + 1, words       every letter in it

It shows where all signs are known to relate nothing, and one letter, function or derivative stands on the left of one relation.

A claim about letters that are restricted so is proved as any other, for what is true of all numbers is true of these. It is not
refuted. So it is with x of y = \max(x, 0), too, where y is given elsewhere, or declared to be positive; with h_t of
h_{t+1} = \max(h_t, 0); and with x_1 of x_k = a_k^2, which is read, but of x_k alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sympy import Derivative, Expr, Integer, Mul, Pow, evaluate
from sympy.core.function import AppliedUndef

from derivations.papers.grammar import alone, new_letter, read_value
from derivations.papers.letters import FrontMatter, Letter
from derivations.papers.names import WORDS, mentioned
from derivations.papers.reading import CONSTANTS
from derivations.papers.tokens import RELATIONS, Token
from derivations.papers.words import COMMANDS

__all__ = ["OPERATIONS", "WRONG", "Doubt", "lacking", "in_row", "may_say", "solved"]

# What SymPy raises, too, for expressions that it has no answer to.
WRONG = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)

# Commands that are not read, and make values of values: what is redefined among them is refused.
OPERATIONS = {
    r"\max", r"\min", r"\sup", r"\inf", r"\prod", r"\lVert", r"\rVert", r"\Vert", r"\langle", r"\rangle", r"\lfloor", r"\rfloor",
    r"\lceil", r"\rceil", r"\arcsin", r"\arccos", r"\cot", r"\sec", r"\csc", r"\coth", r"\det", r"\binom", r"\ldots", r"\cdots",
    r"\dots", r"\nabla", r"\infty",
}  # fmt: skip
SIGNS = set("+-*/^_()[]{},.|'!")
INEQUALITIES = ("<", "<=", ">", ">=")
MOST_LACKING = 20  # letters
RUNNING = re.compile(r"(?<![A-Za-z])[i-nst](?![A-Za-z])")  # indices
SEVERAL = re.compile(r"(?<![A-Za-z])[i-l]{2,3}(?![A-Za-z])")  # ij
COUNTERS = (set("ijkl"), set("mn"), set("st"))  # that name no kinds together: V_s and V_m may be voltages of two
PLACE = re.compile(r"[{}\dKLMNT,+-]+")  # of a number, or the last one


@dataclass(frozen=True)
class Doubt:
    """Holds what a formula that is not read may say: the letters that it could define, the one whose equation it is, and those
    of which it may be true for some numbers alone; every: the letters in it.
    """

    defines: set[str]
    every: set[str]
    gives: str = ""
    restricts: frozenset[str] = frozenset()

    def restricted(self, letters: Mapping[str, Letter], given: Iterable[str]) -> set[str]:
        """Collect the letters that it restricts; given: the letters whose equations the others are."""
        declared = letters.get(self.gives)
        is_free = declared is None or (declared.interval is None and declared.assumptions.keys() <= {"real"})
        return {*self.restricts} if is_free and self.gives not in given else {*self.every}


def may_say(found: Sequence[Token], letters: Mapping[str, Letter], front: FrontMatter) -> Doubt:
    """Collect the letters of which a formula that is not read may say something."""
    plain, in_cases = _without_cases(found)
    every = mentioned(plain) - CONSTANTS.keys()
    every |= {name for name, _ in [alone(found, letters) or ("", ())] if name in CONSTANTS}
    of_all = Doubt(every, every)
    relations = [k for k, token in enumerate(plain) if token.text in RELATIONS and not _counts(plain, k)]
    kinds = [RELATIONS[plain[k].text] for k in relations]
    if not kinds or _has_words(found, letters) or not all(_is_plain(t) or (in_cases and t.text == "&") for t in plain):
        return of_all
    conditions = [k for k in relations if RELATIONS[plain[k].text] in INEQUALITIES and in_cases and _is_condition(plain, k)]
    if all(kind in INEQUALITIES for kind in kinds):
        return Doubt(set(), every, restricts=frozenset(every if len(conditions) < len(relations) else ()))
    first = relations[0]
    if kinds[0] not in ("=", ":=") or conditions != relations[1:]:
        return of_all
    known = {**letters, **{name: Letter(name) for name in lacking(plain, letters, front)}}
    if (letter := new_letter(plain, known, front.functions)) is not None:
        return Doubt({letter.name}, every, letter.name, _family(letter, {*letters, *every}))
    slope = _slope(plain[:first], known, front)
    if slope is None:
        return of_all
    names = mentioned(plain[:first]) - {str(v) for v in slope.variables}
    return Doubt(names, every, str(slope.expr.func))


def in_row(name: str, other: str) -> bool:
    """Return whether what is said of x_k is said of another letter, too: x_1, x_N, x_{k+1}, or x_j with another such index."""
    (base, _, index), (same, _, place) = (n.rstrip("'").partition("_") for n in (name, other))
    running, others = _indices(index), _indices(place)
    of_one_kind = others and any(running | others <= counters for counters in COUNTERS)
    is_place = PLACE.fullmatch(place) or running & others or of_one_kind
    return bool(name != other and base == same and running and is_place)


def _indices(place: str) -> set[str]:
    return set(RUNNING.findall(SEVERAL.sub(lambda several: " ".join(several[0]), place)))


def _family(letter: Letter, names: set[str]) -> frozenset[str]:
    """Return the letters that are one of a row with this one, which its equation gives, too: h_t and h_0 with h_{t+1} or h(t)."""
    bare = letter.name.rstrip("'")
    base, _, index = bare.partition("_")
    runs = letter.arguments or bare != letter.name or re.search(r"[+-]", index) or _indices(index)
    return frozenset(other for other in names - {letter.name} if runs and other.rstrip("'").partition("_")[0] == base)


def _slope(left: Sequence[Token], letters: Mapping[str, Letter], front: FrontMatter) -> Derivative | None:
    """Return dh/dt of tau dh/dt, if it is the derivative of a function of one letter."""
    try:
        slope, _ = solved(read_value(left, letters, front.functions), Integer(1))
    except WRONG:
        return None
    is_slope = isinstance(slope, Derivative) and isinstance(slope.expr, AppliedUndef) and slope.expr.args == slope.variables[:1]
    return slope if is_slope else None


def _without_cases(found: Sequence[Token]) -> tuple[list[Token], bool]:
    r"""Leave out \begin{cases}, keep one sign of \end{cases}, and say whether they were there."""
    left, were_there = list(found), False
    for k in reversed(range(len(left))):
        if left[k].text in (r"\begin", r"\end") and "".join(t.text for t in left[k + 2 : k + 7]) == "cases":
            were_there = True
            left[k : k + 8] = [Token("inner", "", left[k].line, left[k].column)] if left[k].text == r"\end" else []
    return left, were_there


def _is_condition(plain: Sequence[Token], k: int) -> bool:
    r"""Return whether a relation says when a case applies: between & and \end{cases}."""
    return any(t.text == "&" for t in plain[:k]) and not any(t.kind == "inner" for t in plain[:k])


def _has_words(found: Sequence[Token], letters: Mapping[str, Letter]) -> bool:
    r"""Return whether words stand between values, \operatorname{for}, that are neither functions nor letters nor indices."""
    for k, token in enumerate(found):
        depth = sum((t.text == "{") - (t.text == "}") for t in found[:k])
        end = next((n for n in range(k, len(found)) if found[n].text == "}"), len(found))
        word = "".join(t.text for t in found[k + 2 : end])
        if token.text in WORDS and not depth and word not in letters and [t.text for t in found[end + 1 : end + 2]] not in (
            ["("], ["["], ["_"], ["^"],
        ):  # fmt: skip
            return True
    return False


def lacking(found: Sequence[Token], letters: Mapping[str, Letter], front: FrontMatter) -> list[str]:
    """Return the letters of a formula that are not declared, as far as its sides are read without."""
    names, known = list[str](), dict(letters)
    while len(names) < MOST_LACKING:
        try:
            read_value(found, known, front.functions)
            break
        except WRONG as error:
            name, _, real = getattr(error, "add", "").partition(": ")
            if real != "real" or name in known:
                break
            names.append(name)
            known[name] = Letter(name)
    return names


def _is_plain(token: Token) -> bool:
    """Return whether a sign is known to relate nothing, or to be a relation that is read."""
    if token.kind == "command":
        return token.text in COMMANDS or token.text in OPERATIONS
    kinds = ("letter", "number", "d", "bar", "bracket", "label", "tag", "inner")
    return token.kind in kinds or token.text in SIGNS | RELATIONS.keys()


def _counts(found: Sequence[Token], k: int) -> bool:
    r"""Return whether a sign is that of a sum's index, \sum_{k=1}."""
    before = [token.text for token in found[max(k - 4, 0) : k]]
    return len(before) == 4 and before[0] in (r"\sum", r"\prod") and before[1:3] == ["_", "{"] and found[k].text == "="


def solved(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Divide by what stands before a derivative: tau dh/dt = F is dh/dt = F/tau."""
    slopes = [factor for factor in left.args if isinstance(factor, Derivative)] if isinstance(left, Mul) else []
    if len(slopes) != 1 or not isinstance(slopes[0].expr, AppliedUndef):
        return left, right
    with evaluate(False):
        others = [factor for factor in left.args if factor is not slopes[0]]
        return (left, right) if any(f.has(Derivative) for f in others) else (slopes[0], Mul(right, *(Pow(f, -1) for f in others)))
