r"""Figures as inline SVG: the page's own colours and fonts, an accessible name, and ids that no other figure has.

Figures are drawn in placeholder colours; here each becomes a CSS variable (on a page, which may be light or dark) or the
light colour itself (in a file of its own, which a browser shows in the dark colours where the page around it is dark).
"""

from __future__ import annotations

import io
import re
from html import escape

import matplotlib
from matplotlib.figure import Figure

from experiments.reports.colours import COLOURS

__all__ = ["inline_svg", "standalone_svg", "with_colours", "with_dark_colours"]

NUMBER = re.compile(r"(?<!scale\()-?\d+\.\d{3,}")  # the scale of letters is no coordinate: 0.015625
DARK = {light: dark for _, light, dark in COLOURS.values()}
# What matplotlib draws in unless it is told otherwise: black on white, its first line blue, frames and panes in pale greys.
PLAIN = {"#000000": "ink", "#ffffff": "paper", "#1f77b4": "blue"}
PLAIN |= dict.fromkeys(("#cccccc", "#e6e6e6", "#ececec", "#f2f2f2"), "grid")
DARK |= {light: COLOURS[name][2] for light, name in PLAIN.items()}


def inline_svg(figure: Figure, key: str, title: str, description: str) -> str:
    """Write the figure as an <svg> element of a page; `title` and `description` are plain text, read out in place of it."""
    drawn = _draw(figure, "none")
    for name, (placeholder, *_) in COLOURS.items():
        drawn = drawn.replace(placeholder, f"var(--{name})")
    body = _unique_ids(drawn[drawn.index(">", drawn.index("<svg")) + 1 :], key)
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)
    width, height = (72 * side for side in figure.get_size_inches())
    return (
        f'<svg role="img" aria-labelledby="{key}-title {key}-desc" viewBox="0 0 {width:g} {height:g}">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(description)}</desc>{body}'
    )


def with_colours(svg: str) -> str:
    """Make a page's figure a file of its own, in the reader's own font."""
    for name, (_, light, _) in COLOURS.items():
        svg = svg.replace(f"var(--{name})", light)
    paper = f"background: {COLOURS['paper'][1]}; font-family: sans-serif"
    return with_dark_colours(svg.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" style="{paper}" ', 1) + "\n")


def standalone_svg(figure: Figure) -> str:
    """Write the figure as a file, its text drawn as outlines."""
    drawn = _draw(figure, "path")
    for placeholder, light, _ in COLOURS.values():
        drawn = drawn.replace(placeholder, light)
    return with_dark_colours(drawn)


def with_dark_colours(svg: str) -> str:
    """Give a light figure in a file its size, and dark colours beside the light ones: a browser takes those that suit the page.

    The light colours stay in the attributes, for programs that read no style sheet.
    """
    start = svg.index("<svg ")
    tag, body = svg[start : svg.index(">", start)], svg[svg.index(">", start) + 1 :]
    if not re.search(r'\swidth="', tag):
        width, height = re.findall(r"[\d.]+", tag.split('viewBox="')[1].split('"')[0])[2:]
        tag += f' width="{width}pt" height="{height}pt"'
    rules = [f"svg {{ background: {DARK['#fdfdfc']} !important; fill: {DARK['#000000']} }}"]  # matplotlib writes no black fill
    for light, dark in DARK.items():
        for key in ("fill", "stroke"):
            if f"{key}: {light}" in body:
                rules.append(f'[style*="{key}: {light}"] {{ {key}: {dark} !important }}')
    style = f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    return f"{svg[:start]}{tag}>{style}{body}"


def _draw(figure: Figure, fonttype: str) -> str:
    buffer = io.StringIO()
    # The salt and the missing date make the same figure the same text.
    with matplotlib.rc_context({"svg.fonttype": fonttype, "svg.hashsalt": "ctrnn", "path.simplify_threshold": 0.3}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=fonttype == "none")
    drawn = buffer.getvalue().replace("xlink:href", "href")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"\s*\n\s*", " ", re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL))
    return re.sub(r"<[^>]*>", lambda tag: NUMBER.sub(_shorter, tag[0]), drawn)


def _shorter(number: re.Match[str]) -> str:
    """Hundredths of a point are fine enough for coordinates."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _unique_ids(body: str, key: str) -> str:
    """Every id that is referred to gets the figure's key in front; the others go."""
    used = set(re.findall(r'href="#([^"]+)"', body)) | set(re.findall(r"url\(#([^)]+)\)", body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", body)
    return re.sub(r'(href="#|url\(#)', lambda match: f"{match[1]}{key}-", body)
