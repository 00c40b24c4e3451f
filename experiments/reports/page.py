r"""The page: one HTML file without scripts that loads nothing, for a phone or a screen, light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from experiments.reports.colours import variables
from experiments.reports.section import Section

__all__ = ["Heading", "page", "scientific", "table"]


@dataclass(frozen=True)
class Heading:
    """What stands above the sections: `text` is HTML, the others are plain."""

    kicker: str
    title: str
    description: str
    text: str


DEMO = Heading(
    kicker="ctrnn demo",
    title="One recurrent cell on five clocks",
    description="A gated recurrent cell, solved as a differential equation on five clocks and discretized.",
    text="""A gated recurrent cell is a differential equation,
<i>dh/dt</i> = <i>g</i>(<i>x</i>, <i>h</i>) · (tanh(<i>W<sub>x</sub>x</i> + <i>W<sub>h</sub>h</i> + <i>b</i>) − <i>h</i>), and
its gate <i>g</i> is the speed of a clock. This page takes that literally: it proves the equations, plays one recording on five
clocks, and compares the solver with the usual cell, all with the same weights; at the end it trains a cell both ways.""",
)


def page(sections: Sequence[Section], facts: Mapping[str, str], heading: Heading = DEMO) -> str:
    """The whole file. `facts` are the footer's, plain text by name."""
    failures = [failure for section in sections for failure in section.failures]
    style = files("experiments.reports").joinpath("page.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="{escape(heading.description)}">
<title>{escape(heading.title)}</title>
<link rel="icon" href="data:,">
<style>
{variables()}
{style}</style>
</head>
<body>
<header>
<p class="kicker">{escape(heading.kicker)}</p>
<h1>{escape(heading.title)}</h1>
<p>{heading.text}</p>
{_verdicts(sections, failures)}
</header>
<main>
{"".join(_section(section) for section in sections)}</main>
<footer>
<h2>How this page was made</h2>
<dl>
{"".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())}
</dl>
</footer>
</body>
</html>
"""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "numbers") -> str:
    """A table of HTML cells; the first column names its rows. Kinds: "numbers", "words", "wide", which scrolls."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>\n' for first, *rest in rows
    )
    told = f"<span>{caption}</span>" if kind == "wide" else caption
    drawn = (
        f'<table class="{kind}">\n<caption>{told}</caption>\n<thead><tr>{columns}</tr></thead>\n'
        f"<tbody>\n{lines}</tbody>\n</table>\n"
    )
    return f'<div class="scroll" tabindex="0">{drawn}</div>\n' if kind == "wide" else drawn


def scientific(value: float) -> str:
    """0.758 as it is, 2.5e-9 as 2.5 × 10⁻⁹, in HTML."""
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:#.3g}".rstrip(".")
    exponent = math.floor(math.log10(abs(value)))
    mantissa = f"{value / 10**exponent:.1f}"
    if mantissa == "10.0":
        mantissa, exponent = "1.0", exponent + 1
    power = f"10<sup>{str(exponent).replace('-', '−')}</sup>"
    return f'<span class="number">{power if mantissa == "1.0" else f"{mantissa} × {power}"}</span>'


def _verdicts(sections: Sequence[Section], failures: Sequence[str]) -> str:
    lines = "".join(
        f'<li class="{"bad" if section.failures else "good"}"><a href="#{section.key}">{section.verdict}</a></li>\n'
        for section in sections
        if section.verdict
    )
    failed = f'<div class="failed" role="alert"><p><strong>{len(failures)} check(s) failed.</strong></p><ul>'
    failed += "".join(f"<li>{escape(failure)}</li>" for failure in failures) + "</ul></div>"
    return f'{failed if failures else ""}<ul class="verdicts">\n{lines}</ul>'


def _section(section: Section) -> str:
    figures = "".join(
        f"<figure>\n{picture.svg}\n<figcaption>{picture.caption}</figcaption>\n</figure>\n" for picture in section.pictures
    )
    return (
        f'<section id="{section.key}" aria-labelledby="{section.key}-heading">\n<h2 id="{section.key}-heading">'
        f"{section.title}</h2>\n"
        f'<p class="lead">{section.lead}</p>\n{section.body}\n{figures}{section.after}</section>\n'
    )
