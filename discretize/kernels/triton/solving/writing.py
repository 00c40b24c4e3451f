r"""A field's `flow` written out in Triton for adaptive solves: one kernel forwards, one back through the steps that were taken.

On the way back every stage of a step is computed again and keeps what its derivative reads: the state, the input, and values
that the field's code makes; sums over samples, stages and steps are products of torch's afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch

from discretize.kernels.record.program import Writer
from discretize.kernels.record.values import Value
from discretize.kernels.triton.functions import preamble
from discretize.kernels.triton.lines import padded
from discretize.kernels.triton.passes import Needs, Pass
from discretize.kernels.triton.solving.backward import BACKWARD, EXPLICIT_BACK
from discretize.kernels.triton.solving.forward import EXPLICIT, FORWARD
from discretize.kernels.triton.solving.helpers import GIVE, HELPERS, KEEP, READ
from discretize.kernels.triton.solving.recorded import Recorded, Sums
from discretize.kernels.triton.writing import Pair, expanded, filled
from discretize.solvers.adaptive import SHORTEST_STEP
from discretize.solvers.control import ERROR_MARGIN, GROW, SAFETY, SHRINK

__all__ = ["COUNTS", "NUMBERS", "SolveText", "kernel", "lines_of", "report", "solve_writer", "text_of"]

# What is reported of each sample: `discretize.kernels.cpp.libraries.Report`.
NUMBERS = ("smallest", "smallest_tau", "forced_tau", "forced_error", "tau", "step")
COUNTS = ("accepted", "rejected", "evaluations", "forced", "smallest_segment", "forced_segment", "segment", "cause", "held_back")
RULE = {
    "ERROR_MARGIN": ERROR_MARGIN,
    "SAFETY": SAFETY,
    "SHRINK": SHRINK,
    "GROW": GROW,
    "SHORTEST_STEP": SHORTEST_STEP,
}


@dataclass(frozen=True)
class SolveText:
    """The kernels' text; `columns`: of the input, 0 where it is not read; `programs`: what each of them keeps and sums up."""

    text: str
    forward: Needs
    backward: Needs
    columns: int
    programs: tuple[Sums, ...]


@cache
def solve_writer(dtype: torch.dtype) -> Writer:
    return partial(_written, dtype=dtype)


def _written(slope: Value, gradients: dict[str, Value], sums: Sequence[Pair], units: int | None, dtype: torch.dtype) -> SolveText:
    """Arguments as of `discretize.kernels.cpp.rows.written`."""
    field = Recorded(slope, gradients, sums, units)
    columns = field.columns
    flow = field.evaluation("at_y", "at_x", "at_slope")
    replay = field.replay("at_kept", "at_slope")
    back, kept = field.back("at_kept", "at_q", "at_of_y", "at_of_x", replay)
    widths = {"STATE": field.state, "COLUMNS": columns, "KEPT": kept.kept, "OPERANDS": kept.operands, "INPUT_PLACE": field.state}
    forwards = {"$READ": lines_of(READ, columns), "$FLOW": flow.out.step, "$REPORT": report()}
    gives = lines_of(GIVE, columns if "x" in gradients else 0)
    backwards = {"$KEEP": lines_of(KEEP, columns), "$REPLAY": replay.out.step, "$BACK": back.out.step, "$GIVE": gives}
    text = kernel(FORWARD, EXPLICIT, flow, forwards, widths) + kernel(BACKWARD, EXPLICIT_BACK, back, backwards, widths)
    return text_of(HELPERS + text, dtype, flow, back, columns, [kept])


def text_of(text: str, dtype: torch.dtype, forward: Pass, backward: Pass, columns: int, programs: Sequence[Sums]) -> SolveText:
    """With the rule of steps."""
    return SolveText(preamble(dtype) + _named(text, RULE), forward.needs, backward.needs, columns, tuple(programs))


def report() -> list[str]:
    lines = [f"tl.store(numbers + rows * {len(NUMBERS)} + {k}, {name}, mask=there)" for k, name in enumerate(NUMBERS)]
    counts = [f"tl.store(counts + rows * {len(COUNTS)} + {k}, {name}.to(tl.int64), mask=there)" for k, name in enumerate(COUNTS)]
    return lines + counts


def lines_of(text: str, columns: int = 1) -> list[str]:
    """None where no input is read."""
    return [line for line in text.splitlines() if line] if columns else []


def kernel(
    template: str, method: Mapping[str, str], last: Pass, lines: Mapping[str, Sequence[str]], widths: Mapping[str, int]
) -> str:
    """A kernel with the parts of a method and the lines of passes put in, of which this is the last, and names for its widths."""
    words = dict[str, object](widths) | {"SCRATCH": last.scratch, "REPORTED": len(COUNTS)}
    for name in ("STATE", "COLUMNS"):
        width = max(widths[name], 1)
        last.out.columns_of(width)
        c = f"c{padded(width)}" if width > 1 else "0"
        words |= {f"C_{name}": c, f"M_{name}": f"({c} < {width})" if width > 1 else "(rows >= 0)"}
    whole = filled(template, {word: lines_of(part) for word, part in method.items()})
    return _named(expanded(whole, last, lines), words)


def _named(text: str, words: Mapping[str, object]) -> str:
    return re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: str(words[found[1]]), text)
