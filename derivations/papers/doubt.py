r"""Says of which letters a formula that is not read may say something: of those that it could define, where that shows.

    y = \max(w x, 0)                y, and nothing of w and x: an equation defines what is on its left, or claims something
    \tau \dot h = \max(x, 0) - h    tau and h, and neither t nor x
    \max(x, 0) \ge x                nothing: an inequality claims something
    u \triangleq x + 1, words       every letter in it

It shows where all signs are known to relate nothing, and one letter, function or derivative stands on the left of one relation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy import Derivative, Expr, Integer, Mul, Pow, evaluate
from sympy.core.function import AppliedUndef

from derivations.papers.grammar import new_letter, read_value
from derivations.papers.letters import FrontMatter, Letter
from derivations.papers.names import mentioned
from derivations.papers.reading import CONSTANTS
from derivations.papers.tokens import RELATIONS, Token
from derivations.papers.words import COMMANDS

__all__ = ["OPERATIONS", "WRONG", "lacking", "may_say", "solved"]

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


def may_say(found: Sequence[Token], letters: Mapping[str, Letter], front: FrontMatter) -> set[str]:
    """Collect the letters of which a formula that is not read may say something."""
    every, (plain, in_cases) = mentioned(found) - CONSTANTS.keys(), _without_cases(found)
    relations = [k for k, token in enumerate(plain) if token.text in RELATIONS and not _counts(plain, k)]
    kinds = [RELATIONS[plain[k].text] for k in relations]
    if not kinds or not all(_is_plain(token) or (in_cases and token.text == "&") for token in plain):
        return every
    if all(kind in INEQUALITIES for kind in kinds):
        return set()
    first = relations[0]
    if kinds[0] not in ("=", ":=") or ((others := kinds[1:]) and not (in_cases and all(kind in INEQUALITIES for kind in others))):
        return every
    known = {**letters, **{name: Letter(name) for name in lacking(plain, letters, front)}}
    if (letter := new_letter(plain, known, front.functions)) is not None:
        return {letter.name}
    times = _times(plain[:first], known, front)
    return mentioned(plain[:first]) - times if times else every


def _times(left: Sequence[Token], letters: Mapping[str, Letter], front: FrontMatter) -> set[str]:
    """Return the letter of tau dh/dt by which it is taken; none of what is no derivative of a function of one letter."""
    try:
        slope, _ = solved(read_value(left, letters, front.functions), Integer(1))
    except WRONG:
        return set()
    is_slope = isinstance(slope, Derivative) and isinstance(slope.expr, AppliedUndef) and slope.expr.args == slope.variables[:1]
    return {str(v) for v in slope.variables} if is_slope else set()


def _without_cases(found: Sequence[Token]) -> tuple[list[Token], bool]:
    r"""Leave out \begin{cases} and \end{cases}, and say whether they were there."""
    left = list(found)
    for k in reversed(range(len(left))):
        if left[k].text in (r"\begin", r"\end") and "".join(t.text for t in left[k + 2 : k + 7]) == "cases":
            del left[k : k + 8]
    return left, len(left) < len(found)


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
    return token.kind in ("letter", "number", "d", "bar", "bracket", "label", "tag") or token.text in SIGNS | RELATIONS.keys()


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
