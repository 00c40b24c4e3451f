r"""Writes the equations of a field as text, composed of the formulas of its parts, and as LaTeX for notebooks.

    dh/dt = g * (tanh(Wx x + Wh h + b) - h)        g = sigma(Wgx x + Wgh h + bg)

A class gives its `formula`, as one text: `*` is elementwise, and W * a scales the columns of W; two names side by side are a
product with a matrix, Wgx is W_gx, and a bracket right behind a name makes it a function. In braces stand what it is made of:

    {candidate}        the formula of that part                        {rate:g|h=h^g}     its letters with the index g, h^g for h
    {alpha}            a number of the module; 1 is not written before what it multiplies

Letters are the module's parameters of that name, or those that its `letters` name: {"Wx": "weight_x"}, {"W, U": "weight_h"} for
the two halves of its columns, {"V; Vg": "weight_x"} of its rows. `derivations.verify(field)` proves that the code is its formula.
A field with noise, dh/dt = F + G dW/dt, has a line for G, and for Gc of the part c of its state: a matrix, or a column for noise
of each unit's own; Fx is the derivative of F in x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from string import Formatter

from torch import Tensor, nn

__all__ = ["SEVERAL", "Formula", "Published", "Weight", "aligned", "formula_of", "in_latex", "recurrence_of"]

# A number, a derivative, or a name: its letter, index, superscript and primes, and the bracket that makes it a function.
TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|d(?P<of>[A-Za-z]\w*(?:\^\w+)?)/dt|(?P<name>[A-Za-z]\w*(?:\^[A-Za-z]\w*)?'*)(?P<call>\()?",
    re.ASCII,
)
LETTER = re.compile(r"(alpha|beta|gamma|epsilon|rho|sigma|[A-Za-z])(\w*)(?:\^(\w+))?('*)")
COMPUTES = {"flow", "project", "preactivation", "function", "forward", "leak"}
FUNCTIONS = {"tanh": r"\tanh", "exp": r"\exp", "sigma": r"\sigma"}


@dataclass(frozen=True)
class Weight:
    """Names a parameter of a field by its path, or one of the equal blocks into which an axis of it is split."""

    path: str
    axis: int = 0
    block: int = 0
    blocks: int = 1


SEVERAL = Weight("")  # a letter of two weights: shown as it is, and proved of none


@dataclass(frozen=True)
class Formula:
    """Holds equations as text, a line each, the weights that their letters stand for, and the module's numbers by name."""

    text: str
    letters: Mapping[str, Weight] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    def renamed(self, index: str, names: Mapping[str, str] | None = None) -> Formula:
        """Rename letters: by `names` where given, and by appending an index to all others but x and h."""
        known = {"x": "x", "h": "h", **(names or {})}

        def new(name: str) -> str:
            bare = name.rstrip("'")
            letter, rest, above = _split(bare)
            renamed = known.get(bare, f"{letter}{index}{rest}" + (f"^{above}" if above else ""))
            return renamed + name[len(bare) :]

        def replace(token: re.Match[str]) -> str:
            if token["of"]:
                return f"d{new(token['of'])}/dt"
            if token["number"]:
                return token[0]
            if not token["call"]:
                return new(token["name"])
            return new(token["name"]) + "(" if token["name"] in self.letters else token[0]

        return Formula(TOKEN.sub(replace, self.text), {new(letter): weight for letter, weight in self.letters.items()})

    def replace(self, old: str, new: str) -> Formula:
        """Replace some of the text."""
        return Formula(self.text.replace(old, new), self.letters)

    def below(self, path: str) -> Formula:
        """Prefix the paths of the weights, for a module that keeps this one under `path`."""
        of = {
            letter: w if w == SEVERAL else Weight(f"{path}.{w.path}", w.axis, w.block, w.blocks)
            for letter, w in self.letters.items()
        }
        return Formula(self.text, of)


@dataclass(frozen=True)
class Published:
    """Holds the recurrence that a paper prints, and the name of the step map of the field that it equals: a class's `published`,
    which may also be a pair of both. `derivations.verify(discretize.DiscreteCell(field, step))` proves it.

    h' is the next h, dt the length of the step; the letters are those of the class's `formula`.
    """

    step: str
    recurrence: str


def recurrence_of(field: nn.Module) -> tuple[str, Formula] | None:
    """Return the name of the step and the paper's recurrence, filled in; None for a field without one."""
    published, formula = getattr(field, "published", None), formula_of(field)
    if published is None or formula is None:
        return None
    published = published if isinstance(published, Published) else Published(*published)
    recurrence = _filled(field, published.recurrence)
    return published.step, Formula(recurrence.text, formula.letters, recurrence.numbers)


def formula_of(module: nn.Module) -> Formula | None:
    """Return the formula of a part or field, with its braces filled in.

    Return None if the class overrides what its base computes and gives no `formula` itself, nor the module one of its own.
    """
    for kind in type(module).__mro__:
        if "formula" in vars(module) or "formula" in vars(kind):
            given: Formula | str | None = module.formula  # type: ignore[assignment]
            return _filled(module, given) if isinstance(given, str) else given
        if COMPUTES & vars(kind).keys():
            break
    return None


def _filled(module: nn.Module, template: str) -> Formula:
    letters, numbers = _declared(module), dict[str, float]()
    text, pieces = "", list(Formatter().parse(template))
    for place, (literal, name, spec, _) in enumerate(pieces):
        text += literal
        for letter in _names(literal):
            if letter not in letters and isinstance(getattr(module, letter, None), Tensor):
                letters[letter] = Weight(letter)
        if name is None:
            continue
        try:
            value = attrgetter(name)(module) if "." not in name else module.get_submodule(name)
        except AttributeError as error:
            kind = type(module).__name__
            raise ValueError(f"the `formula` of {kind} names {{{name}}}, which a {kind} has not.") from error
        after = pieces[place + 1][0] if place + 1 < len(pieces) else ""
        if isinstance(value, nn.Module):
            after += "_" if after in ("", " ") and pieces[place + 1 :] and pieces[place + 1][1] is not None else ""  # {p} {q}
            index, *given = (spec or "").split("|")
            part = formula_of(value) or Formula(f"{type(value).__name__}({'h' if hasattr(value, 'after') else 'x, h'})")
            names = {letter: _between("a ", put, "^") for letter, put in (one.split("=", 1) for one in given)}
            part = part.renamed(index, names).below(name)
            shared = {letter for letter in letters.keys() & part.letters.keys() if letters[letter] != part.letters[letter]}
            text, letters = text + _between(text, part.text, after), {**letters, **part.letters, **dict.fromkeys(shared, SEVERAL)}
            continue
        numbers[name] = value
        if value < 0 and text.endswith("+ ") and not after.startswith("^"):
            text, value = text[:-2] + "- ", -value
        if value == 1 and re.match(r" [A-Za-z(]", after) and not text.rstrip().endswith(("^", "/")):
            pieces[place + 1] = (after[1:], *pieces[place + 1][1:])
            continue
        short = f"{value:g}"
        number = short if float(short) == value else repr(value)
        # In brackets where a sign would be of the power, or a number stand right behind a factor.
        signed = value < 0 and (text.endswith("^") or after.startswith("^"))
        text += f"({number})" if signed or re.search(r"[\w)\]|'] $", text) else number
    return Formula(text, {letter: letters[letter] for letter in _names(text) if letter in letters}, numbers)


def _between(before: str, formula: str, after: str) -> str:
    """Write brackets about a formula if what stands beside it would take a part of it: `- {decay}`, where that is a sum."""
    first, *lines = formula.split("\n")
    bare, inner = first, ""
    while bare != inner:  # without brackets
        inner, bare = bare, re.sub(r"\([^()]*\)|\[[^][]*\]|\|[^|]*\|", "_", bare)
    is_sum, is_product = re.search(r" [-+] |^-", bare), " " in bare or "/" in bare
    loose = is_sum and (before.rstrip().endswith(("-", "*")) or re.match(r" ?[*/]", after))
    behind = re.search(r"[\w)\]|'] $", before) and (is_sum or re.search(r" \* |/|^\d", bare))  # W {part} is W of all of it
    tight = (is_sum or is_product) and (before.rstrip().endswith(("/", "^")) or re.match(r"\^| [\w(\[|]", after))
    raised = re.search(r"\^(?![A-Za-z])", bare) and after.startswith("^")  # h^g is a name
    return "\n".join([f"({first})" if loose or behind or tight or raised else first, *lines])


def _names(text: str) -> Iterator[str]:
    for token in TOKEN.finditer(text):
        if token["name"]:
            yield token["name"].removesuffix("^T")


def _declared(module: nn.Module) -> dict[str, Weight]:
    """Read a class's `letters`: which weight, or block of one, each letter is."""
    weights: dict[str, Weight] = {}
    for names, path in getattr(module, "letters", {}).items():
        blocks = re.split(r"[,;] ", names)
        for number, letter in enumerate(blocks):
            weights[letter] = Weight(path, int(", " in names), number, len(blocks))
    return weights


def in_latex(text: str) -> str:
    """Convert one equation or formula to LaTeX."""

    def letter(name: str) -> str:
        first, rest, above = _split(name)
        index = rest.strip("_").replace("_", r"\_")
        written = ("\\" if len(first) > 1 else "") + first + (f"_{{{index}}}" if index else "")
        primes = name[len(name.rstrip("'")) :]
        written += f"^{{{above}}}" if above else ""
        return (f"{{{written}}}" if above and primes else written) + primes  # LaTeX has no second index above

    def replace(token: re.Match[str]) -> str:
        if token["number"]:
            return f"{{{token[0]}}}" if text[: token.start()].endswith("^") else token[0]
        if token["of"]:
            return rf"\frac{{d{letter(token['of'])}}}{{dt}}"
        if token["call"]:
            name = token["name"]
            return (FUNCTIONS.get(name) or rf"\operatorname{{{name}}}".replace("_", r"\_")) + "("
        return letter(token["name"])

    text = re.sub(r"\^\(((?:[^()]|\([^()]*\))*)\)", r"^{\1}", text)  # an exponent in brackets is one in braces
    return TOKEN.sub(replace, text).replace(" * ", r" \odot ")


def aligned(lines: Iterable[str]) -> str:
    """Align lines of LaTeX at their first sign =, : or "in"."""
    rows = [re.sub(r" (=|:|\\in) ", r" &\1 ", line, count=1) for line in lines]
    body = " \\\\\n".join(rows)
    return f"$\\displaystyle\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}$"


def _split(name: str) -> tuple[str, str, str]:
    match = LETTER.fullmatch(name)
    assert match is not None
    return match[1], match[2], match[3] or ""
