r"""Phases written out in C++, for kernels/program.cpp: the forward and the backward pass of one step.

Sizes are numbered, not written out: fields that differ in their sizes only have the same text, and the same library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from discretize.kernels.record.functions import FUNCTIONS, number
from discretize.kernels.record.phases import Phase, kept_values, phases
from discretize.kernels.record.values import READY, Value, ancestors

__all__ = ["PREAMBLE", "Pair", "Written", "written"]

Pair = tuple[Value, Value | None]  # whose sum over samples is sought, or that of the products of their units
SAMPLES = {"x": "x[m]", "h": "h[m]", "cotangent": "cotangent[m]", "dt": "&dt[m]"}


@dataclass
class Written:
    """C++ text; the sizes that it refers to, the widths of what is kept, heights and widths of sums over samples; whether there
    is a pass for the columns of a Jacobian; whether it is for samples side by side."""

    text: str
    sizes: list[int]
    kept: list[int]
    sums: list[tuple[int, int]]
    columns: bool = False
    lanes: bool = False


@dataclass
class _Pass:
    """One of the passes: where its values lie; `fixed`: those that all rows share; `units`: from there on row m of "h" is 1 at
    its number `first + m` and 0 elsewhere."""

    sizes: list[int]
    kept: dict[Value, int]
    letter: str = "b"
    fixed: dict[Value, str] = field(default_factory=dict)
    units: int | None = None
    collected: dict[Value, int] = field(default_factory=dict)
    buffers: dict[Value, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def size(self, number: int) -> str:
        if number not in self.sizes:
            self.sizes.append(number)
        return f"size[{self.sizes.index(number)}]"

    def address(self, value: Value) -> str:
        """Where a value of row m lies."""
        if value in self.fixed:
            return self.fixed[value]
        if value.operation in SAMPLES:
            return SAMPLES[value.operation]
        if value.operation == "slice":
            return f"{self.address(value.of[0])} + {self.size(value.settings[0])}"
        if value.operation == "shared":
            return f"shared.vectors[{value.settings[0]}].data()"
        if value in self.kept:
            return f"kept[m] + shared.kept[{self.kept[value]}]"
        return self.own(value)

    def own(self, value: Value) -> str:
        """Where this pass writes a value of row m to."""
        if value in self.collected:
            return f"c{self.collected[value]}[place + m]"
        return f"{self.letter}{self.buffers.setdefault(value, len(self.buffers))}[m]"

    def write(self, found: Iterable[Phase]) -> None:
        for phase in found:
            value = phase.values[0]
            if phase.is_loop:
                self._loop(phase)
            elif value.operation == "affine":
                self._affine(value)
            elif value.operation == "cat":
                self._cat(value)
            elif value.operation == "strided":
                self._strided(value)
            elif value.operation != "slice":
                self._reduce(value)

    def _target(self, value: Value) -> str:
        return self.address(value) if value in self.kept else self.own(value)

    def _loop(self, phase: Phase) -> None:
        names, before, body = dict[Value, str](), list[str](), list[str]()
        width = phase.values[0].width

        def read(value: Value) -> str:
            if value not in names:
                if value.operation == "number":
                    return f"splat({number(value.settings[0])})"
                if value.operation == "count":
                    return f"splat(real({self.size(value.settings[0])}))"
                name = names[value] = f"v{len(names)}"
                if value.width == 1 and width != 1:
                    before.append(f"const vec {name} = splat(({self.address(value)})[0]);")
                else:
                    before.append(f"const real* from_{name} = {self.address(value)};")
                    first = f"splat(from_{name}[0])" if value.operation == "dt" else f"load(from_{name} + i)"
                    body.append(f"const vec {name} = {first};")
            return names[value]

        for value in phase.values:
            expression = FUNCTIONS[value.operation](*map(read, value.of))
            name = names[value] = f"v{len(names)}"
            body.append(f"const vec {name} = {expression};")
            if value in phase.stored:
                before.append(f"real* to_{name} = {self._target(value)};")
                body.append(f"store(to_{name} + i, {name});")
        self.lines += [
            "for (std::size_t m = 0; m < rows; ++m) {",
            *(f"    {line}" for line in before),
            f"    for (std::size_t i = 0; i < {self.size(width)}; i += LANES) {{",
            *(f"        {line}" for line in body),
            "    }",
            "}",
        ]

    def _affine(self, value: Value) -> None:
        has_start, matrices = value.settings
        starts, read = (value.of[:1], value.of[1:]) if has_start else ((), value.of)
        target = self._target(value)
        if starts:
            begin = self.copied(starts[0], target, value.width)
        else:
            begin = f"std::memset({target}, 0, padded({self.size(value.width)}) * sizeof(real));"
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {begin}")
        for source, matrix in zip(read, matrices, strict=True):
            if self._is_of_units(source):
                self.lines.append(
                    f"column_of_each(shared, {matrix}, rows, first, {self.size(source.settings[0] - (self.units or 0))}, "
                    f"[&](std::size_t m) -> real* {{ return {target}; }});"
                )
                continue
            self.lines.append(
                f"product(shared, {matrix}, rows, "
                f"[&](std::size_t m) -> const real* {{ return {self.address(source)}; }}, "
                f"[&](std::size_t m) -> real* {{ return {target}; }});"
            )

    def _is_of_units(self, value: Value) -> bool:
        of_h = value.operation == "slice" and value.of[0].operation == "h"
        return of_h and self.units is not None and value.settings[0] >= self.units

    def copied(self, value: Value, target: str, width: int) -> str:
        if value.operation == "number":
            return f"std::fill_n({target}, {self.size(width)}, {number(value.settings[0])});"
        if value.width == 1 and width > 1:
            return f"std::fill_n({target}, {self.size(width)}, ({self.address(value)})[0]);"
        return f"copy({self.address(value)}, {target}, {self.size(width)});"

    def _cat(self, value: Value) -> None:
        at, lines = 0, []
        for part in value.of:
            lines.append(f"    {self.copied(part, f'to + {self.size(at)}', part.width)}")
            at += part.width
        self.lines += ["for (std::size_t m = 0; m < rows; ++m) {", f"    real* to = {self._target(value)};", *lines, "}"]

    def _strided(self, value: Value) -> None:
        first, axes = value.settings
        listed = ", ".join(f"{{{self.size(size)}, {self._step(stride)}}}" for size, stride in axes)
        source, target = f"({self.address(value.of[0])}) + {self._step(first)}", self._target(value)
        self.lines += [
            "{",
            f"    const Axis axes[] = {{{listed}}};",
            f"    for (std::size_t m = 0; m < rows; ++m) strided({source}, {target}, axes, {len(axes)});",
            "}",
        ]

    def _step(self, stride: int) -> str:
        return f"{'-' if stride < 0 else ''}std::ptrdiff_t({self.size(abs(stride))})"

    def _reduce(self, value: Value) -> None:
        to, source, sizes = self._target(value), self.address(value.of[0]), ", ".join(map(self.size, value.settings))
        how = "sums_over" if value.operation == "sum" else "largest_over"
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {how}({source}, {to}, {sizes});")


def written(following: Value, gradients: dict[str, Value], sums: Sequence[Pair], units: int | None = None) -> Written:
    r"""The text of a step forwards and backwards.

    Args:    following: the state after the step; gradients: the cotangents by "h", and by "x" and "dt" where they are wanted;
             sums: over samples, for the gradients of weights; units: of a derivative along the last so many numbers of "h",
             which is wanted along each of them as well.
    """
    sides = [side for pair in sums for side in pair if side is not None]
    ends = [*gradients.values(), *sides]
    kept = kept_values(ancestors([following]), ends)
    sizes: list[int] = []
    forward = _Pass(sizes, {value: k for k, value in enumerate(kept)})
    forward.write(phases([following], stored=frozenset(kept)))
    forward.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {forward.copied(following, 'next[m]', following.width)}")
    backward = _backward(sizes, forward.kept, gradients, sums, ends)
    columns = [] if units is None else ["#define COLUMNS", _columns(sizes, following, units)]
    body = "\n".join([_structure("Forward", forward, FORWARD), backward, *columns, ""])
    # <cmath> takes the compiler as long as most fields do.
    text = "\n".join([PREAMBLE, *(["#include <cmath>\n"] if "by_lane(" in body else []), body])
    areas = [(1, left.width) if right is None else (left.width, right.width) for left, right in sums]
    return Written(text, sizes, [value.width for value in kept], areas, units is not None)


PREAMBLE = """// Written by discretize/kernels/cpp.
#pragma once

#include "rows.h"
"""
FORWARD = (
    "void run(std::size_t rows, const real* const* x, const real* const* h, const real* dt, real* const* kept, real* const* next)"
)
BACKWARD = (
    "void run(std::size_t rows, std::size_t place, const real* const* x, const real* const* h, const real* dt,\n"
    "             const real* const* kept, const real* const* cotangent, real* const* to_h, real* const* to_x, real* to_dt)"
)
COLUMNS = "void run(std::size_t rows, std::size_t first, const real* const* x, const real* const* h, real* const* next)"


def _columns(sizes: list[int], following: Value, units: int) -> str:
    """A pass for the derivatives of one sample along each of some units: what no direction matters to is computed once."""
    order, moved = list(ancestors([following])), set[Value]()
    for value in order:
        if value.operation == "slice" and value.of[0].operation == "h":
            is_moved = value.settings[0] + value.width > units
        else:
            is_moved = value.operation == "h" or any(part in moved for part in value.of)
        if is_moved:
            moved.add(value)
    read = dict.fromkeys(_read(part) for value in order if value in moved for part in value.of if part not in moved)
    once = _Pass(sizes, {}, letter="a")
    ends = [value for value in read if value.operation not in READY]
    once.write(phases(ends))
    fixed = {value: once.address(value).replace("[m]", "[0]") for value in ends}
    each = _Pass(sizes, {}, fixed=fixed, units=units)
    each.write(phases([following], frozenset(ends)))
    each.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {each.copied(following, 'next[m]', following.width)}")
    each.lines = ["{", "    const std::size_t rows = 1;", *(f"    {line}" for line in once.lines), "}", *each.lines]
    rows = [(f"a{k}", f"1, padded({each.size(value.width)}) + LANES") for value, k in once.buffers.items()]
    return _structure("Columns", each, COLUMNS, more=rows)


def _read(value: Value) -> Value:
    return _read(value.of[0]) if value.operation == "slice" else value


def _backward(
    sizes: list[int], kept: dict[Value, int], gradients: dict[str, Value], sums: Sequence[Pair], ends: list[Value]
) -> str:
    found = phases(ends, frozenset(kept))
    computed = {value for phase in found for value in phase.values if value.operation != "slice"}
    operands = dict.fromkeys(side for left, right in sums if right is not None for side in (left, right))
    done = _Pass(sizes, kept)
    done.collected = {value: k for k, value in enumerate(operands) if value in computed}
    done.write(found)
    for k, value in enumerate(operands):
        if value not in done.collected:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, f'c{k}[place + m]', value.width)}")
    for k, (left, right) in enumerate(sums):
        if right is None:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {_added(done, left, k)}")
    for name, value in gradients.items():
        if name == "dt":
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) to_dt[m] = ({done.address(value)})[0];")
        else:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, f'to_{name}[m]', value.width)}")
    outer = [
        f"shared.program.outer(depth, padded({done.size(left.width)}), padded({done.size(right.width)}), c{a}[0], c{a}.stride, "
        f"c{b}[0], c{b}.stride, sums[{k}].data(), padded({done.size(right.width)}));"
        for k, (left, right) in enumerate(sums)
        if right is not None
        for a, b in [(list(operands).index(left), list(operands).index(right))]
    ]
    sum_up = ["void sum_up(std::size_t depth) override {", *(f"    {line}" for line in outer or ["(void)depth;"]), "}"]
    made = [f"sums.emplace_back({_room(done, *pair)});" for pair in sums]
    rows = [(f"c{k}", f"together * rows, padded({done.size(value.width)}) + LANES") for k, value in enumerate(operands)]
    return _structure("Backward", done, BACKWARD, ", std::size_t together", rows, made, sum_up)


def _added(done: _Pass, value: Value, k: int) -> str:
    return f"add_units(sums[{k}].data(), {done.address(value)}, {done.size(value.width)});"


def _room(done: _Pass, left: Value, right: Value | None) -> str:
    height = f"padded({done.size(left.width)})"
    return f"{height} * padded({done.size(right.width)})" if right else height


def _structure(
    name: str,
    done: _Pass,
    signature: str,
    arguments: str = "",
    more: Sequence[tuple[str, str]] = (),
    made: Sequence[str] = (),
    others: Sequence[str] = (),
) -> str:
    rows = [(f"b{k}", f"rows, padded({done.size(value.width)}) + LANES") for value, k in done.buffers.items()]
    rows += more
    lines = [
        f"struct Written{name} final : {name} {{",
        "    const Shared& shared;",
        "    const std::size_t* size;",
        *(f"    Rows {row};" for row, _ in rows),
        "",
        f"    Written{name}(const Shared& shared, std::size_t rows{arguments})",
        f"        : shared(shared), size(shared.size.data()){''.join(f', {row}({sizes})' for row, sizes in rows)} {{",
        *(f"        {line}" for line in made),
        "    }",
        "",
        *(f"    {line}" for line in others),
        f"    {signature} override {{",
        *(f"        {line}" for line in done.lines),
        "    }",
        "};",
    ]
    return "\n".join(lines)
