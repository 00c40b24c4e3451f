"""The colours of pages and figures, on light and on dark paper."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COLOURS", "DARK", "variables"]

# name: what figures are drawn in (a colour found nowhere else), and the same role on a light page.
COLOURS = {
    "ink": ("#010203", "#1b2126"),
    "muted": ("#010204", "#5a6670"),
    "grid": ("#010205", "#d9dee2"),
    "paper": ("#010206", "#fdfdfc"),
    "blue": ("#010207", "#0a64ad"),
    "orange": ("#010208", "#c2530a"),
    "green": ("#010209", "#007a5a"),
    "purple": ("#01020a", "#8b4a9c"),
}
DARK = {
    "ink": "#e7eaec",
    "muted": "#9ba6af",
    "grid": "#333b42",
    "paper": "#14181b",
    "blue": "#6db5f7",
    "orange": "#ff9f5a",
    "green": "#45c79b",
    "purple": "#d2a3e2",
}


def variables() -> str:
    """The colours as CSS variables, --ink, --paper, ..., for both kinds of paper."""
    light = {name: colour for name, (_, colour) in COLOURS.items()}
    return f"{_root(light)}\n@media (prefers-color-scheme: dark) {{ {_root(DARK)} }}"


def _root(colours: Mapping[str, str]) -> str:
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in colours.items()) + " }"
