"""Results that are text: what `print` shows is what a notebook shows, and `repr` is one line."""

from __future__ import annotations

from html import escape

__all__ = ["TextReport"]


class TextReport:
    """Shows `str` of itself as the last line of a notebook's cell, in columns as it is printed; `repr` is its headline."""

    @property
    def _headline(self) -> str:
        return str(self).partition("\n")[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._headline}>"

    def _repr_html_(self) -> str:
        return f'<pre class="ctrnn">{escape(str(self))}</pre>'
