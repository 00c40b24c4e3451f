r"""A field's `flow` written out in Triton for adaptive solves: one kernel forwards, one back through the steps that were taken.

On the way back every stage of a step is computed again and keeps what its derivative reads: the state, the input, and values
that the field's code makes; sums over samples, stages and steps are products of torch's afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import torch

from discretize.compiler.phases import kept_values
from discretize.compiler.program import Writer
from discretize.compiler.triton.functions import preamble
from discretize.compiler.triton.lines import padded
from discretize.compiler.triton.passes import Needs, Pass
from discretize.compiler.triton.solve_backward import BACKWARD
from discretize.compiler.triton.solve_forward import FORWARD
from discretize.compiler.triton.solve_helpers import GIVE, HELPERS, KEEP, READ
from discretize.compiler.triton.writing import Pair, Place, expanded, operands_of
from discretize.compiler.values import GIVEN, Value, ancestors
from discretize.solvers.adaptive import SHORTEST_STEP
from discretize.solvers.control import ERROR_MARGIN, GROW, SAFETY, SHRINK

__all__ = ["COUNTS", "NUMBERS", "SolveText", "solve_writer"]

# What is reported of each sample: `discretize.fused.libraries.Report`.
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
    """The kernels' text; `columns`: of the input, 0 where it is not read; numbers kept of a stage and a sample, and what sums
    over samples are made of."""

    text: str
    forward: Needs
    backward: Needs
    columns: int
    kept: int
    operands: int
    sums: tuple[tuple[Place, Place | None], ...]


@cache
def solve_writer(dtype: torch.dtype) -> Writer:
    return partial(_written, dtype=dtype)


def _written(slope: Value, gradients: dict[str, Value], sums: Sequence[Pair], units: int | None, dtype: torch.dtype) -> SolveText:
    """Arguments as of `discretize.compiler.writing.written`."""
    ends = [*gradients.values(), *(side for pair in sums for side in pair if side is not None)]
    given = {value.operation: value for value in ancestors([slope, *ends]) if value.operation in GIVEN}
    for name in ("h", "cotangent"):
        given.setdefault(name, Value(name, (), slope.width))
    state, columns = slope.width, given["x"].width if "x" in given else 0
    flow = Pass({given["h"]: "at_y"} | ({given["x"]: "at_x"} if columns else {}))
    flow.store(slope, "at_slope")
    order = list(ancestors([slope]))
    kept, total = {given["h"]: 0} | ({given["x"]: state} if columns else {}), state + columns
    for value in kept_values(order, ends):
        kept[value], total = total, total + value.width
    replay = Pass({given[name]: f"at_kept + {kept[given[name]]}" for name in ("h", "x") if given.get(name) in kept})
    for value in order:
        if value in kept and value not in replay.places:
            replay.store(value, f"at_kept + {kept[value]}")
            replay.out.unread, replay.places[value] = True, f"at_kept + {kept[value]}"
    replay.store(slope, "at_slope")
    back = Pass(
        {given["cotangent"]: "at_q"} | {value: f"at_kept + {place}" for value, place in kept.items()},
        out=replace(replay.out, step=[], unread=False),  # the same names before the loop
        scratch=replay.scratch,
    )
    places, operands = operands_of(back, {value: Place("kept", place, value.width) for value, place in kept.items()}, sums)
    back.store(gradients["h"], "at_of_y")
    if "x" in gradients and columns:
        back.store(gradients["x"], "at_of_x")
    widths = {
        "STATE": state,
        "COLUMNS": columns,
        "KEPT": total,
        "OPERANDS": operands,
        "INPUT_PLACE": state,
        "REPORTED": len(COUNTS),
    }
    report = [f"tl.store(numbers + rows * {len(NUMBERS)} + {k}, {name}, mask=there)" for k, name in enumerate(NUMBERS)]
    report += [f"tl.store(counts + rows * {len(COUNTS)} + {k}, {name}.to(tl.int64), mask=there)" for k, name in enumerate(COUNTS)]
    forwards = {"$READ": _lines(READ, columns), "$FLOW": flow.out.step, "$REPORT": report}
    gives = _lines(GIVE, columns if "x" in gradients else 0)
    backwards = {"$KEEP": _lines(KEEP, columns), "$REPLAY": replay.out.step, "$BACK": back.out.step, "$GIVE": gives}
    text = preamble(dtype) + HELPERS + _kernel(FORWARD, flow, forwards, widths) + _kernel(BACKWARD, back, backwards, widths)
    return SolveText(_named(text, RULE), flow.needs, back.needs, columns, total, operands, places)


def _lines(text: str, columns: int) -> list[str]:
    """None where no input is read."""
    return [line for line in text.splitlines() if line] if columns else []


def _kernel(template: str, made: Pass, lines: Mapping[str, Sequence[str]], widths: Mapping[str, int]) -> str:
    """A kernel with the lines of passes put in, and names for its widths."""
    words = dict[str, object](widths) | {"SCRATCH": made.scratch}
    for name in ("STATE", "COLUMNS"):
        width = max(widths[name], 1)
        made.out.columns_of(width)
        c = f"c{padded(width)}" if width > 1 else "0"
        words |= {f"C_{name}": c, f"M_{name}": f"({c} < {width})" if width > 1 else "(rows >= 0)"}
    return _named(expanded(template, made, lines), words)


def _named(text: str, words: Mapping[str, object]) -> str:
    return re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: str(words[found[1]]), text)
