"""The colours of pages and figures, on light and on dark paper."""

from __future__ import annotations

from discretize.analysis import style

__all__ = ["COLOURS", "variables"]

# name: what figures are drawn in (a colour found nowhere else), and the same role on a light page and on a dark one.
COLOURS = {name: (f"#0102{number:02x}", *pair) for number, (name, pair) in enumerate(style.COLOURS.items(), 3)}


def variables() -> str:
    """Write the colours as CSS variables, --ink, --paper, ..., for both kinds of paper."""
    light, dark = (" ".join(f"--{name}: {each[k]};" for name, each in COLOURS.items()) for k in (1, 2))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
