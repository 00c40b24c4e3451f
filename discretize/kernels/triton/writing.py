r"""Write a program in Triton: the passes of a step forwards and backwards, over all steps of a sequence.

A kernel takes a tile of samples through all times. Functions of each unit stay in registers. A piece of a product is a product
with some of the columns, and a product with parts one after the other one of the rows for each part. What is read in another
order goes through memory: `scratch`, or `kept`, which the way back reads. States and cotangents wait in `scratch` for the next
step. Samples, states, matrices, and what is kept of each step may be stored in bfloat16; all else, and every sum, is in REAL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from discretize.kernels.record.phases import Pair, ProgramValues
from discretize.kernels.record.values import Value, is_zero
from discretize.kernels.triton.functions import preamble
from discretize.kernels.triton.lines import RESIDENT, TILE, Lines, Needs, padded
from discretize.kernels.triton.passes import Draft, Pass, parts_of
from discretize.kernels.triton.products import HELPERS

__all__ = [
    "ARGUMENT_TYPES",
    "FEW",
    "Projection",
    "SumSide",
    "TritonText",
    "all_given",
    "expanded",
    "filled",
    "operands_of",
    "written",
]


# Bytes of matrices in a multiprocessor's registers, of 256 KB: of all, or of some beside those that are read at each step.
FEW_ALL, FEW_SOME = 160 * 1024, 128 * 1024


@dataclass(frozen=True)
class SumSide:
    """Where a side of a sum over samples lies: in "x", "kept" or "operands", from a column on."""

    buffer: str
    first: int
    width: int


@dataclass(frozen=True)
class Projection:
    """Products of the input that are ready before the kernel runs, beside one another: of so many of its columns from a first on,
    with rows of matrices (matrix, row, columns of the product)."""

    first: int
    depth: int
    products: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class TritonText:
    """The kernels' text; what each pass needs, of many samples a program (0) and of few (1); numbers that are kept of a step and
    a sample, and what its sums over samples are made of; products of the input; and products, of what with which matrix from a
    row on, that are the gradient to the input, None where the kernel leaves it."""

    text: str
    forward: tuple[Needs, Needs]
    backward: tuple[Needs, Needs]
    kept: int
    operands: int
    sums: tuple[tuple[SumSide, SumSide | None], ...]
    projections: tuple[Projection, ...]
    of_x: tuple[tuple[SumSide, int, int], ...] | None


FEW = "_few"  # behind the names of kernels for few samples
IF_KEPT = "if KEEP: "  # before stores that only the way back reads


def written(values: ProgramValues, dtype: torch.dtype) -> TritonText:
    """Write a whole sequence forwards and backwards."""
    many, few = (_SequenceKernels(values, dtype, sums) for sums in (False, True))
    text = preamble(dtype) + HELPERS + many.text + few.text
    forward, backward = (many.forward.needs, few.forward.needs), (many.backward.needs, few.backward.needs)
    return TritonText(text, forward, backward, many.total, many.operands, many.sides, many.projections, many.of_x)


class _SequenceKernels:
    """The two kernels of a sequence, for many samples a program or for few, whose products are sums."""

    def __init__(self, values: ProgramValues, dtype: torch.dtype, sums: bool) -> None:
        self.values, self.given, self.sums = values, all_given(values), sums
        self.kept, self.total = dict[Value, int](), values.following.width
        for value in values.kept:
            self.kept[value], self.total = self.total, self.total + value.width
        self.room = tuple(size // dtype.itemsize for size in (FEW_ALL, FEW_SOME)) if sums else (RESIDENT, 0)
        self.outside, self.projections = _projections(values, self.given.get("x"))
        self.forward = self._forward(self._forward())
        self.backward = self._backward(self._backward())
        columns = sum(width for each in self.projections for *_, width in each.products)
        widths = {"STATE": values.following.width, "KEPT": self.total, "OPERANDS": self.operands, "PROJECTED": columns}
        passes = (FORWARD, self.forward), (BACKWARD, self.backward)
        self.text = "".join(_kernel(template, made, widths, FEW if sums else "") for template, made in passes)

    def _new(self, draft: Pass | None, places: dict[Value, str], ahead: dict[Value, tuple[str, str]]) -> Pass:
        """A pass, or the draft of one, which has no draft."""
        most, some = self.room
        room = some if draft is not None and draft.out.resident + draft.out.streamed > most else most
        draft_of = Draft() if draft is None else draft.as_draft
        dt = self.given.get("dt")
        return Pass(
            places, dt, Lines(room=room, tile=TILE // 2), sums=self.sums, draft=draft_of, ahead=ahead, outside=self.outside
        )

    def _forward(self, draft: Pass | None = None) -> Pass:
        given, following, kept = self.given, self.values.following, self.kept
        places = {value: "at_x" for name, value in given.items() if name == "x"}
        ahead = dict.fromkeys(places, ("sample", "x_time"))
        found = self._new(draft, places, ahead)
        if draft is None:
            found.carried[given["h"]] = None
        else:
            found.carry(given["h"], "state", following)
        stores, lines = dict[Value, range](), found.out.step
        for value in self.values.order:
            if value in kept:
                found.piece(value)
                begin = len(lines)
                found.store(value, f"at_kept + {kept[value]}", IF_KEPT)
                stores[value] = range(begin, len(lines))
                found.out.unread = True
                found.places[value] = f"at_kept + {kept[value]}"
        found.exchange(following, given["h"], {"at_next": IF_KEPT, "at_hs": ""})
        for value in stores.keys() & found.from_memory:  # by this pass: a draft need not read the same
            for k in stores[value]:
                lines[k] = lines[k].removeprefix(IF_KEPT)
        return found

    def _backward(self, draft: Pass | None = None) -> Pass:
        given, gradients = self.given, dict(self.values.gradients)
        names = (("x", "at_x"), ("h", "at_kept"))
        places = {given[name]: at for name, at in names if name in given}
        places |= {value: f"at_kept + {place}" for value, place in self.kept.items()}
        ahead = dict.fromkeys(places, ("step", "-batch * KEPT")) | ({given["x"]: ("sample", "-x_time")} if "x" in given else {})
        found = self._new(draft, places, ahead)
        if draft is None:
            found.carried[given["cotangent"]] = None
        else:
            found.carry(given["cotangent"], "of_state", gradients["h"])
        known = {given["h"]: SumSide("kept", 0, self.values.following.width)}
        known |= {value: SumSide("kept", at, value.width) for value, at in self.kept.items()}
        if "x" in given:
            known[given["x"]] = SumSide("x", 0, given["x"].width)
        of_x = _products_of(gradients["x"]) if "x" in gradients else None
        if of_x is not None:
            del gradients["x"]
        sides = [(value, None) for value, _, _ in of_x or ()]
        places_of, self.operands = operands_of(found, known, [*self.values.sums, *sides])
        self.sides, count = places_of[: len(self.values.sums)], len(self.values.sums)
        products = zip(places_of[count:], of_x or (), strict=True)
        self.of_x = None if of_x is None else tuple((left, matrix, row) for (left, _), (_, matrix, row) in products)
        for name, place in (("x", "at_of_x"), ("dt", "at_of_dt")):
            if name in gradients:
                found.leave(gradients[name], place)
        found.exchange(gradients["h"], given["cotangent"], {})
        return found


def _root(value: Value, first: int = 0) -> tuple[Value, int]:
    return _root(value.of[0], first + value.settings[0]) if value.operation == "slice" else (value, first)


def _projections(values: ProgramValues, x: Value | None) -> tuple[dict[tuple[Value, int, int], int], tuple[Projection, ...]]:
    """Columns of the input's products with matrices of more than one row, by the value, the matrix and the row; and how to make
    them. Products of other columns are other ones: there may be nan in columns that one does not read."""
    found = dict[tuple[int, int], list[tuple[Value, int, int]]]()
    for value in values.order:
        if value.operation == "affine":
            for source, matrix in zip(value.of[value.settings[0] :], value.settings[1], strict=True):
                for part, at, row, depth in parts_of(source):
                    root, first = _root(part, at)
                    if root is x and depth > 1:
                        found.setdefault((first, depth), []).append((value, matrix, row))
    columns, projections = dict[tuple[Value, int, int], int](), list[Projection]()
    total = 0
    for (first, depth), read in found.items():
        for each in read:
            columns[each], total = total, total + each[0].width
        products = tuple((matrix, row, value.width) for value, matrix, row in read)
        projections.append(Projection(first, depth, products))
    return columns, tuple(projections)


def _products_of(value: Value) -> list[tuple[Value, int, int]] | None:
    """What a value is the sum of products of, with which matrices from a row on; None if it is anything else."""
    if value.operation != "affine" or (value.settings[0] and not is_zero(value.of[0])):
        return None
    read = zip(value.of[value.settings[0] :], value.settings[1], strict=True)
    return [(part, matrix, row) for source, matrix in read for part, _, row, _ in parts_of(source)]


def all_given(values: ProgramValues) -> dict[str, Value]:
    """What is given, with a state and a cotangent even where none is read."""
    others = {"h": values.gradients["h"].width, "cotangent": values.following.width}
    return {name: Value(name, (), width) for name, width in others.items()} | values.given


def operands_of(
    backward: Pass, known: Mapping[Value, SumSide], sums: Sequence[Pair]
) -> tuple[tuple[tuple[SumSide, SumSide | None], ...], int]:
    """Where sides of sums lie; those that are nowhere are stored one after the other, so many numbers of each sample."""
    stored, total = dict[Value, SumSide](), 0

    def place(value: Value, first: int, width: int) -> SumSide:
        nonlocal total
        if value.operation == "slice":
            return place(value.of[0], first + value.settings[0], width)
        if value in known:
            return replace(known[value], first=known[value].first + first, width=width)
        if value not in stored:
            stored[value], total = SumSide("operands", total, value.width), total + value.width
            backward.store(value, f"at_operands + {stored[value].first}")
        return SumSide("operands", stored[value].first + first, width)

    operands = [(place(left, 0, left.width), None if right is None else place(right, 0, right.width)) for left, right in sums]
    return tuple(operands), total


def _kernel(template: str, made: Pass, widths: dict[str, int], name: str) -> str:
    """A pass as a function of Triton."""
    out = made.out
    (parts,) = [found for found in made.carried.values() if found is not None]
    lines = dict[str, list[str]]()
    for word, code in CARRIED.items():
        lines[word] = [
            line.format(name=name, first=first, columns=columns, mask=mask, size=padded(size))
            for (first, size), name in parts.items()
            for columns, mask in [out.columns_of(size)]
            for line in code
        ]
    if "$ADD" in template:
        of_hs = [(name, out.load_ahead("at_of_hs", *part, "sample", "-batch * STATE")) for part, name in parts.items()]
        lines["$ADD"] = [f"{name} += {given}" for name, given in of_hs]
    lines |= {"$STEP": out.step, "$FIRST": out.first}
    for often in ("sample", "step"):
        lines |= {f"$AHEAD_{often}": out.ahead[often], f"$TURN_{often}": out.turn[often]}
    text = expanded(template, made, lines).replace("$NAME", name)
    for word, number in (widths | {"SCRATCH": made.scratch}).items():
        text = re.sub(rf"\b{word}\b", str(number), text)
    return text


# Of each part that stays in registers
CARRIED = {
    "$BEGIN": [
        "{name} = tl.load(h0 + rows * STATE + {first}{columns}, mask={mask}, other=0.0).to(REAL)",
        "tl.store(at_kept + {first}{columns}, {name}, mask={mask})",
    ],
    "$ZERO": ["{name} = tl.zeros([ROWS, {size}], REAL)"],
    "$LEAVE": ["tl.store(of_h0 + rows * STATE + {first}{columns}, {name}, mask={mask})"],
}


def expanded(template: str, made: Pass, lines: Mapping[str, list[str]]) -> str:
    """A kernel's text with lines in place of words that stand alone: those given, and what the pass reads."""
    read = [*(f"vector_{k}" for k in made.out.vectors), *(f"matrix_{k}" for k in made.out.matrices)]
    parts = dict(lines) | {
        "$WEIGHTS": ["".join(f"{name}, " for name in read).rstrip()],
        "$COLUMNS": [f"c{n}, r{n} = tl.arange(0, {n})[None, :], tl.arange(0, {n})[:, None]" for n in made.out.columns if n > 1],
        "$BEFORE": made.out.before,
    }
    return "\n".join(filled(template.splitlines(), parts)) + "\n"


def filled(lines: Iterable[str], parts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Lines with others in place of words that stand alone, which may hold such words too."""
    for line in lines:
        if (word := line.strip()) in parts:
            indent = line[: len(line) - len(line.lstrip())]
            yield from (indent + each for each in filled(parts[word], parts))
        else:
            yield line


# Triton's types of the kernels' numbers, by name; all other arguments are pointers to the dtype of states or of what is stored.
ARGUMENT_TYPES = dict.fromkeys(("time", "batch", "substeps", "inputs", "x_time", "kept_step", "dt_time", "dt_batch"), "i32")

FORWARD = """
@triton.jit
def forward$NAME(
    x, projected, h0, dt, hs, kept, scratch,
    $WEIGHTS
    time, batch, substeps, inputs, x_time, kept_step, dt_time, dt_batch,
    RESTS: tl.constexpr, KEEP: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    inside = rows < batch
    $COLUMNS
    $BEFORE
    at_x, at_projected = x + rows * inputs, projected + rows * PROJECTED
    at_dt, at_hs = dt + rows * dt_batch, hs + rows * STATE
    at_kept, at_scratch = kept + rows * KEPT, scratch + rows * SCRATCH
    next_kept, other_scratch = rows * 0 + kept_step, rows * 0 + batch * SCRATCH
    next_length = tl.load(at_dt, mask=inside, other=1.0)
    $BEGIN
    $FIRST
    for t in range(time):
        length = next_length / substeps
        after_sample = inside & (rows * 0 + t + 1 < time)
        next_length = tl.load(at_dt + dt_time, mask=after_sample, other=1.0)
        $AHEAD_sample
        for substep in range(substeps):
            at_next = at_kept + next_kept
            $STEP
            # What is read by other threads lies in another place at the next step: they may not have read it yet.
            at_kept, at_scratch = at_next, at_scratch + other_scratch
            next_kept, other_scratch = next_kept if KEEP else -next_kept, -other_scratch
        $TURN_sample
        at_x += x_time
        at_projected += batch * PROJECTED
        at_dt += dt_time
        at_hs += batch * STATE
"""

BACKWARD = """

@triton.jit
def backward$NAME(
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
    at_of_x, at_of_dt, at_scratch = of_x + end * inputs, of_dt + end, scratch + rows * SCRATCH
    other_scratch = rows * 0 + batch * SCRATCH
    next_length = tl.load(at_dt, mask=inside, other=1.0)
    $ZERO
    $FIRST
    for t in range(time):
        length = next_length / substeps
        after_sample = inside & (rows * 0 + t + 1 < time)
        next_length = tl.load(at_dt - dt_time, mask=after_sample, other=1.0)
        $ADD
        $AHEAD_sample
        for later in range(substeps):
            substep = substeps - 1 - later
            after_step = after_sample | (inside & (rows * 0 + later + 1 < substeps))
            $AHEAD_step
            $STEP
            $TURN_step
            at_scratch, other_scratch = at_scratch + other_scratch, -other_scratch
            at_kept -= batch * KEPT
            at_operands -= batch * OPERANDS
            at_of_x -= batch * inputs
            at_of_dt -= batch
        $TURN_sample
        at_x -= x_time
        at_dt -= dt_time
        at_of_hs -= batch * STATE
    $LEAVE
"""
