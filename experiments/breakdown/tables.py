r"""Writes the tables of cells and of step maps into docs from their classes: `python -m experiments.breakdown.tables`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sympy import Rational

import ctrnn
from ctrnn.cells.catalog import constructors, variants
from ctrnn.formulas import formula_of
from ctrnn.lazy import homes_of, places_of
from ctrnn.storage.files import write_atomically
from discretize import Step
from discretize.steps.catalog import steps
from discretize.steps.stochastic import StochasticStep
from experiments.breakdown.maps import limits
from experiments.breakdown.noise import NOISY, finite, said
from experiments.reports.marked import fill

__all__ = ["filled"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
OF_CELLS = ("field", "equations", "its", "source")
OF_NOISE = (
    "step",
    "h'",
    "limit",
    "noise",
    "order of paths",
    "of means",
    "variance of dh = -h dt + sqrt(2) dW, which is 1",
    "at dt = 1/2",
    "finite",
)
OF_STEPS = ("step", "h'", "order", "gate G", "R(z)", "overshoots from", "diverges from", "cost")


def _cells(page: str) -> str:
    """Put the tables of cells between the markers of the page: those of named.py, and those of the literature."""
    rows: dict[str, list[Sequence[str]]] = {"named": [], "published": []}
    homes = homes_of(str(ctrnn.__file__))
    for name, label, constructor in variants():
        rows["named" if homes[name] == "ctrnn.cells.named" else "published"].append(_cell(name, constructor, first=name == label))
    return fill(page, "cells", {home: _table(OF_CELLS, found) for home, found in rows.items()})


def _cell(name: str, constructor: Callable[..., ctrnn.VectorField], first: bool) -> Sequence[str]:
    """Return the row of a cell, or of one of its options; what its step is and the source stand in the first of its rows."""
    field = constructor(2, 2)
    given = [f"{key}={_code(value)}" for key, value in constructor.keywords.items()] if isinstance(constructor, partial) else []
    words = ", ".join(["(...", *given]) + ")" if given else ""
    equations = "<br>".join(field.equations) if formula_of(field) else "below"
    place = places_of(str(ctrnn.__file__))[name]
    text = str(constructors()[name].__doc__)
    step = re.search(r"; its (.*? is .*?)[.:]\n", text)
    return f"`{place}.{name}{words}`", equations, step[1] if step and first else "", _source(text) if first else ""


def _code(value: object) -> str:
    return f"PowerDecay({value.exponent:g})" if isinstance(value, ctrnn.PowerDecay) else json.dumps(value).replace("true", "True")


def _source(text: str) -> str:
    """Return the source in a docstring, or in that of the class that it names, without titles of papers."""
    match = re.search(r"Source:(.*?)\n *\Z", text, re.DOTALL)
    words = re.sub(r',? "[^"]*"', "", " ".join(match[1].split()).rstrip(".")) if match else ""
    other = re.fullmatch(r"as `(\w+)`", words)
    return _source(str(getattr(ctrnn, other[1]).__doc__)) if other else words


def _steps(page: str) -> str:
    """Put the tables of step maps between the markers of the page: all, and those for noise."""
    noisy = (_noisy_step(name, step) for name, step in NOISY.items())
    without = (_step(name, kind()) for name, kind in steps().items())
    return fill(page, "steps", {"all": _table(OF_STEPS, without), "noise": _table(OF_NOISE, noisy)})


def _step(name: str, step: Step) -> Sequence[str]:
    gate = step.gate or "keeps {}, writes {}".format(*step.keeps_and_writes or ("", ""))
    found = limits(step)
    ends = ("never" if at is None else f"{at:.4g}" for at in (found.overshoots, found.diverges))
    equation = step.equation.replace("h' = ", "", 1) or step.written
    return (f"`{name}`", _inline(equation), str(step.order), gate, _inline(step.factor), *ends, _cost(step))


def _noisy_step(name: str, step: StochasticStep) -> Sequence[str]:
    equation = _inline(step.equation.replace("h' = ", "", 1))
    orders = (f"{step.strong_order:g}", str(step.order))
    return (
        f"`{name}`",
        equation,
        step.calculus,
        step.of,
        *orders,
        step.variance,
        f"{said(step, Rational(1, 2)):.3f}",
        finite(step),
    )


def _inline(lines: str) -> str:
    """The first line, and in brackets what its letters stand for."""
    first, *others = lines.splitlines()
    return f"{first}, where {'; '.join(others)}" if others else first


def _cost(step: Step) -> str:
    if step.family == "implicit and frozen" and step.evaluations > 1:
        return "Newton"
    return f"{step.evaluations + step.tangents}" + " and a Jacobian" * bool(step.jacobians)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in (head, ["---"] * len(head), *rows))
    return "\n" + "\n".join(lines) + "\n"


PAGES: dict[Path, Callable[[str], str]] = {DOCS / "cells.md": _cells, DOCS / "steps.md": _steps}


def filled() -> Iterator[tuple[Path, str, str]]:
    """Yield each page, what it says, and what it should say."""
    for path, fill_in in PAGES.items():
        yield path, (page := path.read_text(encoding="utf-8")), fill_in(page)


if __name__ == "__main__":
    for path, _, text in filled():
        write_atomically(path, text)
