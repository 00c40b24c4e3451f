r"""Write a program in Triton: the passes of a step forwards and backwards, over all steps of a sequence.

A kernel takes a tile of samples through all times. Functions of each unit stay in registers. A piece of a product is a product
with some of the columns, and a product with parts one after the other one of the rows for each part. What is read in another
order goes through memory: `scratch`, or `kept`, which the way back reads. States and cotangents wait in `scratch` for the next
step. Samples, states, matrices, and what is kept of each step may be stored in bfloat16; all else, and every sum, is in REAL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from discretize.kernels.record.phases import Pair, ProgramValues
from discretize.kernels.record.values import Value
from discretize.kernels.triton.functions import preamble
from discretize.kernels.triton.passes import Needs, Pass

__all__ = ["Place", "TritonText", "all_given", "expanded", "operands_of", "written"]


@dataclass(frozen=True)
class Place:
    """Where a side of a sum over samples lies: in "x", "kept" or "operands", from a column on."""

    buffer: str
    first: int
    width: int


@dataclass(frozen=True)
class TritonText:
    """The kernels' text; numbers that are kept of a step and a sample, and what its sums over samples are made of."""

    text: str
    forward: Needs
    backward: Needs
    kept: int
    operands: int
    sums: tuple[tuple[Place, Place | None], ...]


def written(values: ProgramValues, dtype: torch.dtype) -> TritonText:
    """Write a whole sequence forwards and backwards."""
    following, gradients, given = values.following, values.gradients, all_given(values)
    total, kept = following.width, dict[Value, int]()
    for value in values.kept:
        kept[value], total = total, total + value.width
    at_samples = {value: "at_x" for name, value in given.items() if name == "x"}
    forward = Pass(at_samples | {given["h"]: "at_scratch"}, given.get("dt"), scratch=following.width)
    for value in values.order:
        if value in kept:
            forward.piece(value)
            forward.store(value, f"at_kept + {kept[value]}")
            forward.out.unread = True
            forward.places[value] = f"at_kept + {kept[value]}"
    forward.exchange(following, given["h"], ["at_scratch", "at_next", "at_hs"])
    backward = Pass(_places_back(given, kept), given.get("dt"), scratch=following.width)
    known = {given["h"]: Place("kept", 0, following.width)} | {
        value: Place("kept", at, value.width) for value, at in kept.items()
    }
    if "x" in given:
        known[given["x"]] = Place("x", 0, given["x"].width)
    places, operands = operands_of(backward, known, values.sums)
    for name, place in (("x", "at_of_x"), ("dt", "at_of_dt")):
        if name in gradients:
            backward.leave(gradients[name], place)
    backward.exchange(gradients["h"], given["cotangent"], ["at_scratch"])
    widths = {"STATE": following.width, "KEPT": total, "OPERANDS": operands}
    text = preamble(dtype) + _kernel("forward", forward, widths) + _kernel("backward", backward, widths)
    return TritonText(text, forward.needs, backward.needs, total, operands, places)


def all_given(values: ProgramValues) -> dict[str, Value]:
    """What is given, with a state and a cotangent even where none is read."""
    others = {"h": values.gradients["h"].width, "cotangent": values.following.width}
    return {name: Value(name, (), width) for name, width in others.items()} | values.given


def _places_back(given: dict[str, Value], kept: dict[Value, int]) -> dict[Value, str]:
    """Where the way back finds values."""
    found = {given[name]: at for name, at in (("x", "at_x"), ("h", "at_kept"), ("cotangent", "at_scratch")) if name in given}
    return found | {value: f"at_kept + {place}" for value, place in kept.items()}


def operands_of(
    backward: Pass, known: Mapping[Value, Place], sums: Sequence[Pair]
) -> tuple[tuple[tuple[Place, Place | None], ...], int]:
    """Where sides of sums lie; those that are nowhere are stored one after the other, so many numbers of each sample."""
    stored, total = dict[Value, Place](), 0

    def place(value: Value, first: int, width: int) -> Place:
        nonlocal total
        if value.operation == "slice":
            return place(value.of[0], first + value.settings[0], width)
        if value in known:
            return replace(known[value], first=known[value].first + first, width=width)
        if value not in stored:
            stored[value], total = Place("operands", total, value.width), total + value.width
            backward.store(value, f"at_operands + {stored[value].first}")
        return Place("operands", stored[value].first + first, width)

    found = [(place(left, 0, left.width), None if right is None else place(right, 0, right.width)) for left, right in sums]
    return tuple(found), total


def _kernel(name: str, made: Pass, widths: dict[str, int]) -> str:
    """A pass as a function of Triton."""
    template = {"forward": FORWARD, "backward": BACKWARD}[name]
    state, inside = made.out.columns_of(widths["STATE"])
    text = expanded(template, made, {"$STEP": made.out.step}).replace(" + C_STATE", state).replace("M_STATE", inside)
    for word, number in (widths | {"SCRATCH": made.scratch}).items():
        text = text.replace(word, str(number))
    return text


def expanded(template: str, made: Pass, lines: Mapping[str, list[str]]) -> str:
    """A kernel's text with lines in place of words that stand alone: those given, and what the pass reads."""
    read = [*(f"vector_{k}" for k in made.out.vectors), *(f"matrix_{k}" for k in made.out.matrices)]
    parts = dict(lines) | {
        "$WEIGHTS": ["".join(f"{name}, " for name in read).rstrip()],
        "$COLUMNS": [f"c{n}, r{n} = tl.arange(0, {n})[None, :], tl.arange(0, {n})[:, None]" for n in made.out.columns if n > 1],
        "$BEFORE": made.out.before,
    }
    return "\n".join(_filled(template.splitlines(), parts)) + "\n"


def _filled(lines: Iterable[str], parts: Mapping[str, list[str]]) -> Iterator[str]:
    """Lines with others in place of words that stand alone, which may hold such words too."""
    for line in lines:
        if (word := line.strip()) in parts:
            indent = line[: len(line) - len(line.lstrip())]
            yield from (indent + each for each in _filled(parts[word], parts))
        else:
            yield line


FORWARD = """
@triton.jit
def forward(
    x, h0, dt, hs, kept, scratch,
    $WEIGHTS
    time, batch, substeps, inputs, x_time, kept_step, dt_time, dt_batch,
    RESTS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    inside = rows < batch
    $COLUMNS
    $BEFORE
    at_x, at_dt, at_hs = x + rows * inputs, dt + rows * dt_batch, hs + rows * STATE
    at_kept, at_scratch = kept + rows * KEPT, scratch + rows * SCRATCH
    begin = tl.load(h0 + rows * STATE + C_STATE, mask=M_STATE, other=0.0)
    tl.store(at_scratch + C_STATE, begin, mask=M_STATE)
    tl.store(at_kept + C_STATE, begin, mask=M_STATE)
    tl.debug_barrier()
    for _ in range(time):
        length = tl.load(at_dt, mask=inside, other=1.0) / substeps
        for substep in range(substeps):
            at_next = at_kept + kept_step
            $STEP
            at_kept = at_next
        at_x += x_time
        at_dt += dt_time
        at_hs += batch * STATE
"""

BACKWARD = """

@triton.jit
def backward(
    x, dt, of_hs, kept, scratch, operands, of_x, of_h0, of_dt,
    $WEIGHTS
    time, batch, substeps, inputs, x_time, kept_step, dt_time, dt_batch,
    RESTS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    inside = rows < batch
    $COLUMNS
    $BEFORE
    last = rows * 0 + time - 1
    end = rows + (rows * 0 + time * substeps - 1) * batch
    at_x, at_dt = x + last * x_time + rows * inputs, dt + last * dt_time + rows * dt_batch
    at_of_hs, at_kept, at_operands = of_hs + (last * batch + rows) * STATE, kept + end * KEPT, operands + end * OPERANDS
    at_of_x, at_of_dt = of_x + end * inputs, of_dt + end
    at_scratch = scratch + rows * SCRATCH
    tl.store(at_scratch + C_STATE, tl.zeros([ROWS, 1], REAL), mask=M_STATE)
    tl.debug_barrier()
    for _ in range(time):
        length = tl.load(at_dt, mask=inside, other=1.0) / substeps
        so_far = tl.load(at_scratch + C_STATE, mask=M_STATE, other=0.0)
        of_state = so_far + tl.load(at_of_hs + C_STATE, mask=M_STATE, other=0.0)
        tl.debug_barrier()
        tl.store(at_scratch + C_STATE, of_state, mask=M_STATE)
        tl.debug_barrier()
        for later in range(substeps):
            substep = substeps - 1 - later
            $STEP
            at_kept -= batch * KEPT
            at_operands -= batch * OPERANDS
            at_of_x -= batch * inputs
            at_of_dt -= batch
        at_x -= x_time
        at_dt -= dt_time
        at_of_hs -= batch * STATE
    so_far = tl.load(at_scratch + C_STATE, mask=M_STATE, other=0.0)
    tl.store(of_h0 + rows * STATE + C_STATE, so_far, mask=M_STATE)
"""
