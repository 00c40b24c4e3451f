r"""A formula in three writings: SymPy's plain text, LaTeX, and MathML for pages that load nothing.

Names are kept as they are: F(x, h) stays F, W_{gx,11} has the index gx,11, alpha is its letter, g_1' has its prime.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.entities import html5
from typing import Any

from sympy import Basic, MatrixBase, Symbol, sstr
from sympy import latex as in_latex
from sympy.core.function import AppliedUndef
from sympy.printing.mathml import MathMLPresentationPrinter

from derivations.prover import symbols

__all__ = ["Formula", "written"]

# What nobody would read is left to the code: a page of it takes seconds to print.
LONGEST = 800
# Named signs become letters, for pages that are read as XML; double-struck d and e become those of the papers.
PLAINER = {"dd": "d", "ExponentialE": "e", "ImaginaryI": "i", "InvisibleTimes": "", "lt": "&lt;", "gt": "&gt;", "amp": "&amp;"}

GREEK = {
    name: chr(code)
    for first, names in (
        (0x03B1, "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho final sigma tau"),
        (0x03C5, "upsilon phi chi psi omega"),
        (0x0393, "Gamma Delta"),
        (0x0398, "Theta"),
        (0x039B, "Lambda"),
        (0x03A3, "Sigma"),
        (0x03A6, "Phi Chi Psi Omega"),
    )
    for code, name in enumerate(names.split(), first)
}


@dataclass(frozen=True)
class Formula:
    r"""Plain text, LaTeX and MathML (without the `math` element around it); the last two empty where it is too long."""

    text: str
    latex: str
    mathml: str


def written(formula: Basic | MatrixBase) -> Formula:
    """The formula in its three writings."""
    text = sstr(formula)
    if len(text) > LONGEST:
        return Formula(text, "", "")
    names = {u: name for u in getattr(formula, "free_symbols", ()) if (name := _latex_name(u)) is not None}
    markup = _Presentation().doprint(formula)
    for theirs, plain in (("<mo><</mo>", "<mo>&lt;</mo>"), ("<mo>></mo>", "<mo>&gt;</mo>"), ("<mo>-</mo>", "<mo>−</mo>")):
        markup = markup.replace(theirs, plain)
    markup = re.sub(r"&(\w+);", lambda entity: PLAINER.get(entity[1], html5.get(entity[1] + ";", entity[0])), markup)
    return Formula(text, in_latex(formula, symbol_names=names), markup)


def _latex_name(symbol: Symbol) -> str | None:
    bare = symbol.name.rstrip("'")
    if bare == symbol.name:
        return symbols.latex_name(symbol)
    return (symbols.latex_name(Symbol(bare)) or in_latex(Symbol(bare))) + symbol.name[len(bare) :]


class _Presentation(MathMLPresentationPrinter):
    """SymPy's printer, but for names: it writes undefined functions in small letters and indices with their braces."""

    def _print_Symbol(self, symbol: Any, style: str = "plain") -> Any:  # noqa: N802 - SymPy finds it by this name
        return self._named(symbol.name)

    _print_Dummy = _print_Symbol  # noqa: N815

    def _print_Function(self, e: Any) -> Any:  # noqa: N802
        if not isinstance(e, AppliedUndef):
            return super()._print_Function(e)
        row = self.dom.createElement("mrow")
        row.appendChild(self._named(e.func.__name__))
        row.appendChild(self._text("mo", "("))
        for k, argument in enumerate(e.args):
            if k:
                row.appendChild(self._text("mo", ","))
            row.appendChild(self._print(argument))
        row.appendChild(self._text("mo", ")"))
        return row

    def _named(self, name: str) -> Any:
        bare, primes = name.rstrip("'"), len(name) - len(name.rstrip("'"))
        body, _, below = bare.partition("_")
        body, _, above = body.partition("^")
        # Names of torch parameters (rate.bias[0], log_alpha) are words, not letters with an index.
        if re.search(r"[.\[]|^[a-z]+_[a-z]{2,}", bare):
            body, below, above = bare, "", ""
        above = (above + " " + "′" * primes).strip()
        parts = [self._text("mi", GREEK.get(body, body))]
        parts += [self._text("mi", self._index(index)) for index in (below, above) if index]
        if len(parts) == 1:
            return parts[0]
        element = self.dom.createElement("msubsup" if below and above else "msub" if below else "msup")
        for part in parts:
            element.appendChild(part)
        return element

    def _index(self, index: str) -> str:
        bare = index.strip("{}")
        return GREEK.get(bare, bare)

    def _text(self, tag: str, text: str) -> Any:
        element = self.dom.createElement(tag)
        element.appendChild(self.dom.createTextNode(text))
        return element
