r"""Reads what a paper says of its letters, before its equations: a line each.

    alpha, beta: positive 1/ms           real if nothing else is said; a unit, if any, stands last
    g: real in (0, 1)                    an interval between numbers, ends in it or not
    h: function of t                     h is h(t) from then on
    g: function                          of something, which is always written behind it in brackets
    \sigma: sigmoid                      one of the functions of `FUNCTIONS`

    solves: eq:path is eq:ode, eq:start  a path, the equations that it satisfies, and where it starts
    equations: (4) is (3) at \alpha t; (5) is a step of (4); (9) is by (2), (3); (20) solves (19) from t_0
    code: eq:ode is cell.py:Cell, h is h_1, w is weight_h[0,0]

Markdown has these lines at its top, between two lines ---; TeX in comments that begin with `% ctrnn:`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any

from sympy import Expr, Function, Rational, S, Symbol, log, oo
from sympy.core.function import UndefinedFunction

from derivations.papers.names import name_of
from derivations.papers.tokens import Token, Unread
from derivations.papers.units import Unit, unit_of
from derivations.twins.written import ELEMENTWISE

__all__ = ["FUNCTIONS", "FrontMatter", "Letter", "Related", "front_matter", "logit"]

FUNCTIONS = {"sigmoid": ELEMENTWISE["sigma"], "softplus": ELEMENTWISE["softplus"], "relu": ELEMENTWISE["relu"]}
ASSUMPTIONS = ("real", "positive", "negative", "nonnegative", "nonpositive", "nonzero", "integer")
SIGNS = {"positive": ("(", S.Zero, oo, ")"), "nonnegative": ("[", S.Zero, oo, ")"),
         "negative": ("(", -oo, S.Zero, ")"), "nonpositive": ("(", -oo, S.Zero, "]")}  # fmt: skip
NAMELESS = "."  # the argument of a function of something
IGNORED = ("title", "author", "date", "letters")
RELATED = {  # how equations are related: the first from the others
    "step": re.compile(r"(?P<first>.+?) is a step of (?P<others>.+)"),
    "by": re.compile(r"(?P<first>.+?) is by (?P<others>.+)"),
    "solves": re.compile(r"(?P<first>.+?) solves (?P<others>.+?)(?: from (?P<place>.+))?"),
    "warp": re.compile(r"(?P<first>.+?) is (?P<others>.+?) at (?P<place>.+)"),
}
NUMBER = r"-?\d+(?:\.\d+|/\d+)?"
INTERVAL = re.compile(rf"([(\[])\s*({NUMBER}|-oo)\s*,\s*({NUMBER}|oo)\s*([)\]])")


@dataclass(frozen=True)
class Letter:
    r"""A letter, or a function if it has arguments.

    Args:    name: as SymPy has it; assumptions: SymPy's words; arguments: of a function, names; interval: the values between
             two numbers, as a value of any positive letter p, or of one that is not negative; unit: None if nothing is said;
             in_full: whether a function is always written with its argument, so that a bracket behind it is no factor.
    """

    name: str
    assumptions: Mapping[str, bool] = field(default_factory=lambda: {"real": True})
    arguments: tuple[str, ...] = ()
    interval: tuple[Expr, Mapping[str, bool], str] | None = None
    unit: Unit | None = None
    in_full: bool = False

    @property
    def symbol(self) -> Symbol | UndefinedFunction:
        return Function(self.name, **self.assumptions) if self.arguments else Symbol(self.name, **self.assumptions)

    @property
    def words(self) -> str:
        """Say what is assumed, as in `alpha positive`."""
        of = "" if self.arguments == (NAMELESS,) else f" of {', '.join(self.arguments)}"
        kind = " ".join(self.assumptions) + (f" function{of}" if self.arguments else "")
        return f"{self.name} {kind}" + (f" in {self.interval[2]}" if self.interval else "")

    @property
    def ends(self) -> tuple[str, Expr, Expr, str] | None:
        """Return the brackets and ends of its interval; those of "positive" and the like are 0 and infinity."""
        if self.interval is not None:
            left, low, high, right = INTERVAL.fullmatch(self.interval[2]).groups()  # type: ignore[union-attr]
            return left, _end(low), _end(high), right
        return next((SIGNS[word] for word in self.assumptions if word in SIGNS), None)


@dataclass(frozen=True)
class Related:
    """What the front matter says of equations, by their labels: the first of `first` follows from the others.

    kind: step, by, solves or warp; place: as LaTeX, what stands in place of the time of a warp, or where a path begins; line:
    that says so.
    """

    kind: str
    first: tuple[str, ...]
    others: tuple[str, ...]
    place: str
    line: Token


@dataclass
class FrontMatter:
    """Holds the letters by name, the named functions, and what is to be compared with what, by label; words_behind: of functions
    the word behind their arguments, if it is one, and its place."""

    letters: dict[str, Letter] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)
    related: list[Related] = field(default_factory=list)
    code: list[tuple[tuple[str, ...], str, dict[str, str]]] = field(default_factory=list)
    words_behind: dict[str, tuple[str, Token]] = field(default_factory=dict)


def front_matter(text: str, tex: bool) -> tuple[FrontMatter, str]:
    r"""Read the lines before the equations; return them, and the text with these lines left empty.

    Raises:  Unread for lines that say nothing of this.
    """
    lines = re.split(r"\r\n?|\n", text)  # no others, which are within a comment in TeX
    front = FrontMatter()
    if tex:
        said = {n: line.partition(":")[2] for n, line in enumerate(lines) if re.match(r"\s*%\s*ctrnn\s*:", line)}
    else:
        end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0) if lines[:1] == ["---"] else 0
        if lines[:1] == ["---"] and not end:
            raise Unread(Token("", "", 1, 1), "the block of lines that begins with --- does not end")
        said = {n: lines[n] for n in range(1, end)}
        lines[: end + bool(end)] = [""] * (end + bool(end))
    for n, line in said.items():
        key = line.partition(":")[0].strip()
        for part in [line] if key in ("equations", *IGNORED) else line.split(";"):
            if part.strip():
                _read_line(part, Token("", "", n + 1, 1), front)
    _check_cycles(front)
    for name, (word, place) in front.words_behind.items():
        if word in front.letters:
            raise Unread(place, f"is {word!r} an argument of {name}, or its unit? write `and` before it, or 1*{word}")
    for letter in list(front.letters.values()):
        for argument in letter.arguments:
            if argument == NAMELESS:
                continue
            within = front.letters.setdefault(argument, Letter(argument))
            if any(front.letters.get(name, within).arguments for name in within.arguments):
                raise Unread(Token("", "", 1, 1), f"{letter.name}: functions of functions of functions are not read")
    return front, "\n".join(lines)


def _read_line(line: str, place: Token, found: FrontMatter) -> None:
    names, colon, words = (part.strip() for part in line.partition(":"))
    if not colon:
        raise Unread(place, f"{line.strip()!r} is not of the form `name: words`")
    if names in IGNORED:
        return
    if names == "solves":
        path, _, equations = words.partition(" is ")
        found.related.append(Related("solves", (path.strip(),), tuple(_listed(equations)), "", place))
    elif names == "equations":
        found.related += [_related(part.strip(), place) for part in words.split(";") if part.strip()]
    elif names == "code":
        labels, _, code = words.partition(" is ")
        file, *letters = re.split(r",(?![^\[]*\])", code)
        pairs = dict(part.strip().split(" is ", 1) for part in letters if " is " in part)
        if len(pairs) < len(letters):
            raise Unread(place, "`code: LABEL is FILE.py:NAME, LETTER is NAME, ...` says what is what")
        found.code.append((tuple(_listed(labels)), file.strip(), pairs))
    else:
        for name in _listed(names):
            _declare(name_of(name, place), words, place, found)


def _related(words: str, place: Token) -> Related:
    for kind, pattern in RELATED.items():
        if said := pattern.fullmatch(words):
            first, others = tuple(_listed(said["first"])), tuple(_listed(said["others"]))
            if first and others and (kind == "solves" or len(others) == 1 or kind == "by"):
                return Related(kind, first, others, said.groupdict().get("place") or "", place)
    raise Unread(
        place, f"{words!r} is not of the form `A is B at a t`, `A is a step of B`, `A is by B, C` or `A solves B from a`"
    )


def _check_cycles(front: FrontMatter) -> None:
    """Refuse equations that follow from one another in a ring."""
    behind = TopologicalSorter[str]()
    for related in front.related:
        behind.add(related.first[0], *related.others, *related.first[1:])
    try:
        behind.prepare()
    except CycleError as error:
        line = next(related.line for related in front.related if related.first[0] in error.args[1])
        raise Unread(line, f"{error.args[1][0]} follows from itself; what it follows from stands by itself") from None


def _listed(words: str) -> list[str]:
    return [word.strip() for word in re.split(r",(?![^{]*\})", words) if word.strip()]


def _declare(name: str, words: str, place: Token, found: FrontMatter) -> None:  # noqa: PLR0912 - a kind of word each
    if name in found.letters or name in found.functions:
        raise Unread(place, f"{name} is declared twice")
    if name == "d":
        raise Unread(place, "d is kept for derivatives and integrals; call the letter otherwise")
    if words in FUNCTIONS:
        found.functions[name] = FUNCTIONS[words]
        return
    interval, arguments = None, tuple[str, ...]()
    if between := re.search(rf"\bin\s*{INTERVAL.pattern}", words):
        interval = _interval(place, *between.groups())
        words = words[: between.start()] + words[between.end() :]
    in_full = words.strip() == "function"
    if in_full:
        arguments, words = (NAMELESS,), ""
    elif function := re.search(r"\bfunction of ([^\s,]+(?: and [^\s,]+)*)", words):
        arguments = tuple(name_of(argument, place) for argument in function[1].split(" and "))
        before, words = words[: function.start()], words[function.end() :]
        if (more := re.match(r"\s*,\s*([^\s,]+)", words)) and more[1] not in ASSUMPTIONS:
            again = f"`function of {' and '.join((*arguments, more[1]))}`"
            raise Unread(place, f"is {more[1]!r} an argument of {name}, or its unit? write {again}, or the unit without a comma")
        words = before + words
    assumptions, unit = dict[str, bool](), list[str]()
    for word in words.replace(",", " , ").split():
        if word == ",":
            if unit:
                raise Unread(place, f"the unit {' '.join(unit)!r} of {name} stands last, and a comma follows it")
        elif word in ASSUMPTIONS and not unit:
            assumptions[word] = True
        elif near := get_close_matches(word, (*ASSUMPTIONS, *FUNCTIONS, "function"), 1, 0.7):
            raise Unread(place, f"{word!r} is not read; " + (f"did you mean {near[0]!r}?" if not unit else "a unit stands last"))
        else:
            unit.append(word)
    if arguments and len(unit) == 1:
        found.words_behind[name] = unit[0], place
    try:
        Symbol(name, **assumptions)
    except ValueError:
        raise Unread(place, f"{name} is not {' and '.join(assumptions)}") from None
    try:
        measured = unit_of(" ".join(unit)) if unit else None
    except ValueError as error:
        raise Unread(place, f"{name}: {error}") from None
    if interval is not None and set(assumptions) - {"real"}:
        raise Unread(place, f"{name} has an interval and {', '.join(assumptions)}; the interval is enough")
    found.letters[name] = Letter(name, assumptions or {"real": True}, arguments, interval, measured, in_full)


def _interval(place: Token, left: str, low: str, high: str, right: str) -> tuple[Expr, Mapping[str, bool], str]:
    """Write all values of an interval in a letter p that is positive, or not negative."""
    words, p = f"{left}{low}, {high}{right}", Symbol("p")
    a, b = _end(low), _end(high)
    if not a < b or (left == "[" and a == -oo) or (right == "]" and b == oo) or (a, b) == (-oo, oo):
        raise Unread(place, f"{words} is no interval between two numbers, or from one to oo")
    positive, upward = {"positive": True}, {"nonnegative": True}
    if b == oo:
        return a + p, upward if left == "[" else positive, words
    if a == -oo:
        return b - p, upward if right == "]" else positive, words
    if left == right.translate({ord("]"): "["}):
        return a + (b - a) * 4 * p / (1 + p) ** 2, upward, words
    if left == "[":
        return a + (b - a) * p / (1 + p), upward, words
    if right == "]":
        return b - (b - a) * p / (1 + p), upward, words
    return a + (b - a) * p / (1 + p), positive, words


def logit(e: Expr) -> Expr:
    """Return the inverse of the sigmoid function."""
    return log(e / (1 - e))


def _end(text: str) -> Expr:
    return -oo if text == "-oo" else oo if text == "oo" else Rational(text)
