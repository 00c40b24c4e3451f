"""The colours of pages and figures, on light and on dark paper."""

from __future__ import annotations

__all__ = ["COLOURS", "variables"]

# name: what figures are drawn in (a colour found nowhere else), and the same role on a light page and on a dark one.
COLOURS = {
    "ink": ("#010203", "#1b2126", "#e7eaec"),
    "muted": ("#010204", "#5a6670", "#9ba6af"),
    "grid": ("#010205", "#d9dee2", "#333b42"),
    "paper": ("#010206", "#fdfdfc", "#14181b"),
    "blue": ("#010207", "#0a64ad", "#6db5f7"),
    "orange": ("#010208", "#c2530a", "#ff9f5a"),
    "green": ("#010209", "#007a5a", "#45c79b"),
    "purple": ("#01020a", "#8b4a9c", "#d2a3e2"),
}


def variables() -> str:
    """The colours as CSS variables, --ink, --paper, ..., for both kinds of paper."""
    light, dark = (" ".join(f"--{name}: {each[k]};" for name, each in COLOURS.items()) for k in (1, 2))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
