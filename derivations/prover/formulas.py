r"""Write a formula as SymPy's plain text, for readers, as LaTeX, and as MathML for pages that load nothing.

SymPy writes the LaTeX, latex2mathml makes MathML of it: SymPy's own MathML spells F(t) as f(t), keeps the braces of an index,
and is not well-formed XML at "<".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from latex2mathml.converter import convert
from sympy import Basic, MatrixBase, MatrixSymbol, Symbol, sstr
from sympy import latex as in_latex
from sympy.core.function import AppliedUndef
from sympy.printing.conventions import split_super_sub
from sympy.printing.latex import translate

from derivations.prover import symbols
from derivations.wording import InLatex, plain

__all__ = ["PrintedFormula", "latex_of", "written"]

# What nobody would read is left to the code: a page of it takes seconds to print.
LONGEST = 800


@dataclass(frozen=True)
class PrintedFormula:
    r"""SymPy's text and LaTeX, by which ledgers know it; and for readers MathML (without the `math` element around it), a line of
    text, and LaTeX. But for the text, they are empty where it is too long to read, or where letters have names that would be
    taken for commands.
    """

    text: str
    latex: str
    mathml: str
    words: str = ""
    display: str = ""


def written(formula: Basic | MatrixBase, upright: Iterable[Symbol] = ()) -> PrintedFormula:
    """Write a formula in all of these, letters that are words of code, rate_1, upright."""
    text, words = sstr(formula), plain(formula)
    if len(text) > LONGEST or any(symbols.is_odd(name) for name in _names(formula)):
        return PrintedFormula(text, "", "", words)
    names = _letters(formula)
    display = str(InLatex({"symbol_names": {**names, **{u: _upright(u.name) for u in upright}}}).doprint(formula))
    # Browsers know one variant of letters, the upright one; of others they show the ordinary italics.
    mathml = convert(display).replace('mathvariant="monospace"', 'mathvariant="normal"')
    mathml = mathml[mathml.index(">") + 1 : mathml.rindex("<")]
    return PrintedFormula(text, in_latex(formula, symbol_names=names), mathml, words, display)


def latex_of(formula: Basic | MatrixBase) -> str:
    """Write a formula as LaTeX: tau_{1,x} has an index, and h_1' is primed, not its index."""
    return str(InLatex({"symbol_names": _letters(formula)}).doprint(formula))


def _letters(formula: Basic | MatrixBase) -> dict[Symbol, str]:
    return {letter: _letter(letter) for letter in getattr(formula, "free_symbols", ())}


def _upright(name: str) -> str:
    word, _, index = name.rpartition("_")
    return rf"\mathtt{{{symbols.latex_text(word or name)}}}" + (f"_{{{index}}}" if word else "")


def _names(formula: Basic | MatrixBase) -> Iterator[str]:
    for part in formula.atoms(Symbol, MatrixSymbol, AppliedUndef):
        yield part.func.__name__ if isinstance(part, AppliedUndef) else str(part)


def _letter(symbol: Symbol) -> str:
    r"""SymPy takes tau_{1,x} for a word, because of the braces; and a prime needs braces around it to be raised to a power."""
    if (named := symbols.latex_name(symbol)) is not None:
        return named
    bare = symbol.name.rstrip("'")
    primes = symbol.name[len(bare) :]
    letter, above, below = split_super_sub(bare.replace("{", "").replace("}", "").replace("~", "tilde"))
    latex = translate(letter) + "".join(
        f"{mark}{{{' '.join(map(translate, index))}}}" for mark, index in (("^", above), ("_", below)) if index
    )
    return f"{{{latex}{primes}}}" if primes else latex
