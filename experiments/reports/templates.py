"""Jinja2 templates beside the code of each page: in *.html.jinja all but `Markup` is escaped; an unknown name is an error."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from experiments.reports.colours import variables

__all__ = ["ENVIRONMENT", "scientific"]


def scientific(value: float) -> Markup:
    """Write 0.758 as it is, 2.5e-9 as 2.5 × 10⁻⁹, in HTML."""
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return Markup(f"{value:#.3g}".rstrip("."))
    exponent = math.floor(math.log10(abs(value)))
    mantissa = f"{value / 10**exponent:.1f}"
    if mantissa == "10.0":
        mantissa, exponent = "1.0", exponent + 1
    power = f"10<sup>{str(exponent).replace('-', '−')}</sup>"
    return Markup(f'<span class="number">{power if mantissa == "1.0" else f"{mantissa} × {power}"}</span>')


def _upper(words: str) -> str:
    """The first letter as a capital, the others as they are."""
    return words[:1].upper() + words[1:]


def _with_code(words: str) -> Markup:
    """Text in which `code` is set as such, and nothing else is marked up."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words)))


def _written(formula: object) -> object:
    """Write a formula of SymPy for pages, or leave what is written already."""
    from derivations.prover.formulas import PrintedFormula, written  # noqa: PLC0415 - loads SymPy

    return formula if isinstance(formula, PrintedFormula) else written(formula)


def script(name: str) -> Markup:
    """Return a script of ours, to stand between <script> and </script>."""
    assert ENVIRONMENT.loader is not None
    return Markup(ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0])


def script_hash(name: str) -> str:
    """Return the hash by which a page's Content-Security-Policy lets that script run, and no other."""
    return "sha256-" + b64encode(sha256(script(name).encode()).digest()).decode()


ENVIRONMENT = Environment(
    loader=PackageLoader("experiments", ""),
    autoescape=lambda name: not str(name).endswith((".txt.jinja", ".md.jinja")),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "scientific": scientific,
    "upper_first": _upper,
    "format_number": format,
    "with_code": _with_code,
    "written": _written,
}
ENVIRONMENT.globals |= {"colour_variables": lambda: Markup(variables()), "script": script, "script_hash": script_hash}
PARTS = ENVIRONMENT.get_template("reports/parts.html.jinja").module
ENVIRONMENT.globals |= {name: getattr(PARTS, name) for name in ("table", "mark")}
