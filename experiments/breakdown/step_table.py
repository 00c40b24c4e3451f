r"""Writes the table of step maps into docs/discretization.md from their classes: `python -m experiments.breakdown.step_table`."""

from __future__ import annotations

from pathlib import Path

from ctrnn.storage.files import write_atomically
from discretize import Step
from discretize.steps.catalog import steps
from experiments.breakdown.maps import limits
from experiments.reports.marked import fill

__all__ = ["PAGE", "filled"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "discretization.md"
HEAD = ("step", "h'", "order", "gate G", "R(z)", "overshoots from", "diverges from", "cost")


def filled(page: str) -> str:
    """Put the table between the markers of the page."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(name, kind()) for name, kind in steps().items())]
    return fill(page, "steps", {"all": "\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"})


def _row(name: str, step: Step) -> tuple[str, ...]:
    gate = step.gate or "keeps {}, writes {}".format(*step.keeps_and_writes or ("", ""))
    found = limits(step)
    ends = ("never" if at is None else f"{at:.4g}" for at in (found.overshoots, found.diverges))
    equation = step.equation.replace("h' = ", "", 1) or "Euler, the hidden part of the state first"
    return (f"`{name}`", _inline(equation), str(step.order), gate, _inline(step.factor or "1 + z"), *ends, _cost(step))


def _inline(lines: str) -> str:
    """The first line, and in brackets what its letters stand for."""
    first, *others = lines.splitlines()
    return f"{first}, where {'; '.join(others)}" if others else first


def _cost(step: Step) -> str:
    if step.family == "implicit and frozen" and step.evaluations > 1:
        return "Newton"
    return f"{step.evaluations + step.tangents}" + " and a Jacobian" * bool(step.jacobians)


if __name__ == "__main__":
    write_atomically(PAGE, filled(PAGE.read_text(encoding="utf-8")))
