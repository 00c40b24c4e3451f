r"""The equations of a field as text, put together from the formulas of its parts, and as LaTeX, which notebooks show.

    dh/dt = g * (tanh(Wx x + Wh h + b) - h)        g = sigma(Wgx x + Wgh h + bg)

`*` is elementwise. A name is a letter with an index, Wgx is W_gx, or the name of a function, which a bracket follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["aligned", "formula_of", "in_latex", "renamed", "times"]

# A number, a derivative, or a name: its letter, index and superscript, and the bracket that makes it a function.
TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|d(?P<of>[A-Za-z]\w*(?:\^\w+)?)/dt|(?P<name>[A-Za-z]\w*(?:\^[A-Za-z]\w*)?)(?P<call>\()?"
)
LETTER = re.compile(r"(alpha|rho|[A-Za-z])(\w*)(?:\^(\w+))?")
COMPUTES = {"flow", "project", "preactivation", "function", "forward", "leak"}
FUNCTIONS = {"tanh": r"\tanh", "exp": r"\exp", "sigma": r"\sigma"}


def formula_of(module: object, otherwise: str = "") -> str:
    """The `formula` of a part or field, or `otherwise`, its class's name unless given: a class that computes something else
    than the one it is made from has no formula until it gives its own."""
    for kind in type(module).__mro__:
        if "formula" in vars(kind):
            return module.formula  # type: ignore[attr-defined]
        if COMPUTES & vars(kind).keys():
            break
    return otherwise or f"{type(module).__name__}(x, h)"


def times(number: float, letter: str) -> str:
    """0.5 h, and h where the number is 1."""
    return letter if number == 1 else f"{number:g} {letter}"


def renamed(text: str, index: str, names: Mapping[str, str] | None = None) -> str:
    """The formula with other names: those that are given, and an index more for all other letters but x and h."""
    known = {"x": "x", "h": "h", **(names or {})}

    def new(name: str) -> str:
        letter, rest, above = _split(name)
        return known.get(name, f"{letter}{index}{rest}" + (f"^{above}" if above else ""))

    def replace(token: re.Match[str]) -> str:
        if token["of"]:
            return f"d{new(token['of'])}/dt"
        return token[0] if token["number"] or token["call"] else new(token["name"])

    return TOKEN.sub(replace, text)


def in_latex(text: str) -> str:
    """One equation or formula as LaTeX."""

    def letter(name: str) -> str:
        first, rest, above = _split(name)
        index = rest.strip("_").replace("_", r"\_")
        written = ("\\" if len(first) > 1 else "") + first + (f"_{{{index}}}" if index else "")
        return written + (f"^{{{above}}}" if above else "")

    def replace(token: re.Match[str]) -> str:
        if token["number"]:
            return f"{{{token[0]}}}" if text[: token.start()].endswith("^") else token[0]
        if token["of"]:
            return rf"\frac{{d{letter(token['of'])}}}{{dt}}"
        if token["call"]:
            name = token["name"]
            return (FUNCTIONS.get(name) or rf"\operatorname{{{name}}}".replace("_", r"\_")) + "("
        return letter(token["name"])

    return TOKEN.sub(replace, text).replace(" * ", r" \odot ")


def aligned(lines: Iterable[str]) -> str:
    """Lines of LaTeX below one another, the first sign =, : or "in" of each in a column."""
    rows = [re.sub(r" (=|:|\\in) ", r" &\1 ", line, count=1) for line in lines]
    body = " \\\\\n".join(rows)
    return f"$\\displaystyle\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}$"


def _split(name: str) -> tuple[str, str, str]:
    found = LETTER.fullmatch(name)
    assert found is not None
    return found[1], found[2], found[3] or ""
