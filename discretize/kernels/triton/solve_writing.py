r"""Write a field's `flow` in Triton for adaptive solves: one kernel forwards, one back through the steps that were taken.

On the way back every stage of a step is computed again and keeps what its derivative reads: the state, the input, and values
that the field's code makes; sums over samples, stages and steps are products of torch's afterwards. Methods that read Jacobians
need derivatives along directions too:

    flow      f(x, h)
    along     (df/dh) v, of [h, v]: columns of a Jacobian, and backwards the derivative along what it is multiplied with
    in time   (df/dx) v, of [x, v]: how fast an input that moves changes the slope; none where it stands still
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial

import torch

from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.program import Writer
from discretize.kernels.record.values import Value
from discretize.kernels.triton.adaptive import BACKWARD, EXPLICIT, EXPLICIT_BACK, FORWARD, GIVE, HELPERS, KEEP, READ
from discretize.kernels.triton.attempts import AttemptText
from discretize.kernels.triton.derivatives import (
    DRIFT,
    GIVE_RISE,
    IMPLICIT,
    IMPLICIT_BACK,
    PULL_DRIFT,
    RATE,
    RATES,
    ROWS_IN_TIME,
)
from discretize.kernels.triton.functions import preamble
from discretize.kernels.triton.lines import Lines, Needs, padded
from discretize.kernels.triton.matrices import MATRICES
from discretize.kernels.triton.passes import Pass
from discretize.kernels.triton.writing import SumSide, all_given, expanded, filled, operands_of
from discretize.solvers.control import ERROR_MARGIN, GROW, SAFETY, SHORTEST_STEP, SHRINK

__all__ = ["COUNTS", "NUMBERS", "SolvePasses", "SolveText", "solve_text", "solve_writer", "with_method"]


# What is reported of each sample: `discretize.kernels.cpp.programs.CtrnnReport`.
NUMBERS = ("smallest", "smallest_tau", "forced_tau", "forced_error", "tau", "step")
COUNTS = ("accepted", "rejected", "evaluations", "forced", "smallest_segment", "forced_segment", "segment", "cause", "held_back")
MOST_METHODS = 64  # texts of a field with one that a process remembers
RULE = {"ERROR_MARGIN": ERROR_MARGIN, "SAFETY": SAFETY, "SHRINK": SHRINK, "GROW": GROW, "SHORTEST_STEP": SHORTEST_STEP}


@dataclass(frozen=True)
class SolveText:
    """The kernels' text; what they need, of the method before the field's; `columns`: of the input, 0 where it is not read;
    `state`: units; `programs`: what each of them keeps and sums up, the field's and those of its derivatives."""

    text: str
    forward: tuple[Needs, ...]
    backward: tuple[Needs, ...]
    columns: int
    state: int
    programs: tuple[Sums, ...]

    @property
    def implicit(self) -> bool:
        return len(self.programs) > 1

    def widths(self, method: AttemptText) -> tuple[int, int]:
        """Numbers in memory of a sample forwards and backwards, as $BUFFERS has them."""
        step, again, back, _ = map(len, method.rounds)
        scratch = [sum(needs.scratch for needs in each) for each in (self.forward, self.backward)]
        vectors, inputs = (step + 2, again + back + 2), (1, 1)
        if self.implicit:
            matrices = [self.state * (self.state + factors * (self.state + 1)) for factors in method.factors]
            scratch = [of + numbers for of, numbers in zip(scratch, matrices, strict=True)]
            vectors, inputs = (step + 6, again + back + 9), (2, 4)
        forward, backward = (
            of + count * self.state + inputs_of * self.columns
            for of, count, inputs_of in zip(scratch, vectors, inputs, strict=True)
        )
        return forward, backward


@dataclass(frozen=True)
class Sums:
    """Sizes of the values saved of an evaluation and of a program's sums over samples, and the places of the sums' sides."""

    kept: int
    operands: int
    sums: tuple[tuple[SumSide, SumSide | None], ...]


@dataclass(frozen=True)
class SolvePasses:
    """A program as passes of a solve's kernels; `number`: which of a kernel's programs. An evaluation keeps for the backward pass
    the state, the input, and values that it makes."""

    values: ProgramValues
    number: int = 0

    @property
    def gradients(self) -> dict[str, Value]:
        return self.values.gradients

    @property
    def columns(self) -> int:
        """Of the input, 0 where it is not read."""
        return self.given["x"].width if "x" in self.given else 0

    def reads(self, lines: str) -> list[str]:
        """Lines that read the input, none where the program does not."""
        return _lines(lines) if self.columns else []

    def gives(self, lines: str) -> list[str]:
        """Lines that give the input its cotangent, if it has one."""
        return self.reads(lines) if "x" in self.gradients else []

    @property
    def state(self) -> int:
        return self.gradients["h"].width

    @cached_property
    def given(self) -> dict[str, Value]:
        return all_given(self.values)

    @cached_property
    def kept(self) -> dict[Value, int]:
        """Where each value lies."""
        found, total = {self.given["h"]: 0}, self.state
        for value in (*([self.given["x"]] if self.columns else []), *self.values.kept):
            found[value], total = total, total + value.width
        return found

    @property
    def width(self) -> int:
        return sum(value.width for value in self.kept)

    def evaluation(self, at_h: str, at_x: str, at_slope: str, behind: Pass | None = None) -> Pass:
        """behind: the pass of the same kernel whose names go before."""
        values = self._pass({self.given["h"]: at_h} | ({self.given["x"]: at_x} if self.columns else {}), behind)
        values.store(self.values.following, at_slope)
        return values

    def replay(self, at_kept: str, at_slope: str, behind: Pass | None = None) -> Pass:
        """An evaluation of the state and the input that are kept, with the other values kept."""
        places = {value: f"{at_kept} + {self.kept[value]}" for value in self.given.values() if value in self.kept}
        values = self._pass(places, behind)
        for value in self.values.order:
            if value in self.kept and value not in values.places:
                values.store(value, f"{at_kept} + {self.kept[value]}")
                values.out.unread, values.places[value] = True, f"{at_kept} + {self.kept[value]}"
        values.store(self.values.following, at_slope)
        return values

    def back(self, at_kept: str, at_q: str, at_of_h: str, at_of_x: str, behind: Pass) -> tuple[Pass, Sums]:
        """The cotangents of the state and of the input, and operands of sums at `at_operands`."""
        places = {self.given["cotangent"]: at_q} | {value: f"{at_kept} + {place}" for value, place in self.kept.items()}
        values = self._pass(places, behind)
        known = {value: SumSide("kept", place, value.width) for value, place in self.kept.items()}
        sums, operands = operands_of(values, known, self.values.sums)
        values.store(self.gradients["h"], at_of_h)
        if "x" in self.gradients and self.columns:
            values.store(self.gradients["x"], at_of_x)
        return values, Sums(self.width, operands, sums)

    def _pass(self, places: dict[Value, str], behind: Pass | None) -> Pass:
        if behind is None:
            return Pass(places, out=Lines(program=self.number))
        # The same names before the loop.
        out = replace(behind.out, step=[], unread=False, program=self.number)
        return Pass(places, out=out, scratch=behind.scratch)


@cache
def solve_writer(dtype: torch.dtype) -> Writer[SolveText]:
    """Write a program for solves by explicit methods, whose own lines `with_method` adds."""
    return partial(_written, dtype=dtype)


def _written(values: ProgramValues, dtype: torch.dtype) -> SolveText:
    return solve_text([SolvePasses(values)], dtype)


@lru_cache(MOST_METHODS)
def with_method(field: SolveText, method: AttemptText, end: int, reads_start: bool) -> SolveText:
    """The text of a field with that of a method; end: the slope that is the next step's first, 0 for none."""
    text = "\n".join(filled(field.text.splitlines(), dict(method.lines))) + "\n"
    named = _named(text, method.words(end, reads_start))
    return replace(field, text=named, forward=(method.forward, *field.forward), backward=(method.backward, *field.backward))


def solve_text(programs: Sequence[SolvePasses], dtype: torch.dtype) -> SolveText:
    """The kernels of a field: of its flow, and for methods that read Jacobians along and, where the input moves, in time."""
    forward, text = _forward(*programs)
    backward, kept, back = _backward(*programs)
    whole = HELPERS + (RATES + MATRICES if len(programs) > 1 else "") + text + back
    needs = (forward.needs,), (backward.needs,)
    return SolveText(preamble(dtype) + _named(whole, RULE), *needs, programs[0].columns, programs[0].state, tuple(kept))


def _forward(field: SolvePasses, along: SolvePasses | None = None, in_time: SolvePasses | None = None) -> tuple[Pass, str]:
    flow = last = field.evaluation("at_y", "at_x", "at_slope")
    lines = {"$FLOW": flow.out.step, "$READ": field.reads(READ)}
    if along is not None:
        last, derivatives = _derivatives(along, in_time, flow)
        lines |= derivatives
    return last, _kernel(FORWARD, EXPLICIT if along is None else IMPLICIT, last, lines, _widths(field))


def _backward(
    field: SolvePasses, along: SolvePasses | None = None, in_time: SolvePasses | None = None
) -> tuple[Pass, list[Sums], str]:
    replay = field.replay("at_kept", "at_slope")
    last, sums = field.back("at_kept", "at_q", "at_of_y", "at_of_x", replay)
    lines = {"$REPLAY": replay.out.step, "$BACK": last.out.step, "$READ": field.reads(READ)}
    lines |= {"$KEEP": field.reads(KEEP), "$GIVE": field.gives(GIVE)}
    widths, kept = _widths(field) | {"KEPT": sums.kept, "OPERANDS": sums.operands}, [sums]
    if along is not None:
        last, derivatives = _derivatives(along, in_time, last)
        lines |= derivatives
    for program, name in ((along, "ALONG"), (in_time, "IN_TIME")):
        if program is not None:
            replay = program.replay("at_kept", "at_slope", last)
            last, sums = program.back("at_kept", "at_q", "at_of_y", "at_of_x", replay)
            kept.append(sums)
            widths |= {f"KEPT_{name}": sums.kept, f"OPERANDS_{name}": sums.operands}
            keep = program.reads(KEEP.replace("INPUT_PLACE", str(program.state)))
            lines |= {f"$KEEP_{name}": keep, f"$REPLAY_{name}": replay.out.step, f"$BACK_{name}": last.out.step}
            lines |= {f"$GIVE_{name}": program.gives(GIVE)}
    if in_time is not None:
        lines["$KEEP_IN_TIME"] += [RATE]
        lines["$GIVE_IN_TIME"] += _lines(GIVE_RISE) if "x" in in_time.gradients else []
        lines["$ROWS_IN_TIME"] = [ROWS_IN_TIME]
    return last, kept, _kernel(BACKWARD, EXPLICIT_BACK if along is None else IMPLICIT_BACK, last, lines, widths)


def _derivatives(along: SolvePasses, in_time: SolvePasses | None, behind: Pass) -> tuple[Pass, dict[str, list[str]]]:
    """A column of the Jacobian, and the derivative by the time."""
    column = along.evaluation("at_along", "at_x", "at_column", behind)
    if in_time is None:
        return column, {"$ALONG": column.out.step, "$DRIFT": [], "$PULL_DRIFT": [], "$ROWS_IN_TIME": []}
    drift = in_time.evaluation("at_along", "at_input", "at_drift", column)
    lines = {"$DRIFT": _lines(DRIFT), "$IN_TIME": drift.out.step, "$PULL_DRIFT": _lines(PULL_DRIFT)}
    return drift, {"$ALONG": column.out.step} | lines


def _widths(field: SolvePasses) -> dict[str, int]:
    return {"STATE": field.state, "COLUMNS": field.columns, "INPUT_PLACE": field.state}


def _kernel(
    template: str, method: Mapping[str, str], last: Pass, lines: Mapping[str, list[str]], widths: Mapping[str, int]
) -> str:
    """Put the parts of a method and the lines of passes, of which this is the last, into a kernel, and name its widths."""
    words = dict[str, object](widths) | {"SCRATCH": last.scratch, "REPORTED": len(COUNTS)}
    for name in ("STATE", "COLUMNS"):
        width = max(widths[name], 1)
        last.out.columns_of(width)
        c = f"c{padded(width)}" if width > 1 else "0"
        words |= {f"C_{name}": c, f"M_{name}": f"({c} < {width})" if width > 1 else "(rows >= 0)"}
    report = [f"tl.store(numbers + rows * {len(NUMBERS)} + {k}, {name}, mask=there)" for k, name in enumerate(NUMBERS)]
    report += [f"tl.store(counts + rows * {len(COUNTS)} + {k}, {name}.to(tl.int64), mask=there)" for k, name in enumerate(COUNTS)]
    parts = {word: _lines(part) for word, part in method.items()} | dict(lines) | {"$REPORT": report}
    return _named(expanded(template, last, parts), words)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _named(text: str, words: Mapping[str, object]) -> str:
    return re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: str(words[found[1]]), text)
