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
    is a pass for the columns of a Jacobian; whether it is for samples side by side; the numbers that tell of products (see
    `CtrnnProgram` of source/rows.h), how many products there are, and how many of the forward pass."""

    text: str
    sizes: list[int]
    kept: list[int]
    sums: list[tuple[int, int]]
    columns: bool = False
    lanes: bool = False
    products: list[int] = field(default_factory=list)
    counts: tuple[int, int] = (0, 0)


@dataclass
class _Pass:
    """One of the passes: where its values lie; `fixed`: those that all rows share; `units`: from there on row m of "h" is 1 at
    its number `first + m` and 0 elsewhere; `placed`: where a value is written to, and whether nothing may be beyond its width."""

    sizes: list[int]
    kept: dict[Value, int]
    products: list[list[int]]
    letter: str = "b"
    fixed: dict[Value, str] = field(default_factory=dict)
    units: int | None = None
    placed: dict[Value, tuple[str, bool]] = field(default_factory=dict)
    buffers: list[str] = field(default_factory=list)  # how many numbers a row of each has
    lines: list[str] = field(default_factory=list)

    def size(self, number: int) -> str:
        if number not in self.sizes:
            self.sizes.append(number)
        return f"size[{self.sizes.index(number)}]"

    def padded(self, widths: Iterable[int]) -> str:
        """The numbers of so many values side by side."""
        return " + ".join(f"padded({self.size(width)})" for width in widths) or "0"

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
        return self.target(value)

    def target(self, value: Value) -> str:
        """Where this pass writes a value of row m to."""
        if value in self.kept:
            return f"kept[m] + shared.kept[{self.kept[value]}]"
        if value not in self.placed:
            self.side_by_side([value])
        return self.placed[value][0]

    def side_by_side(self, values: Sequence[Value], row: str = "m") -> str:
        """A buffer whose rows hold these values, each padded."""
        name = f"{self.letter}{len(self.buffers)}"
        for k, value in enumerate(values):
            before = f" + {self.padded(each.width for each in values[:k])}" if k else ""
            self.placed[value] = f"{name}[{row}]{before}", False
        self.buffers.append(self.padded(value.width for value in values))
        return name

    def place(self, value: Value, target: str) -> bool:
        """Have a value written where it is wanted; False where it lies elsewhere."""
        if value in self.kept or value in self.placed or not (value.by_unit or value.operation in ("affine", "cat")):
            return False
        self.placed[value] = target, False
        return True

    def write(self, found: Sequence[Phase]) -> None:
        for phase in found:
            for value in phase.values:
                if value.operation == "cat":
                    self._place_parts(value, found)
        for phase in found:
            value = phase.values[0]
            if phase.is_loop:
                self._loop(phase)
            elif value.operation == "affine":
                self._affines(phase.values)
            elif value.operation == "cat":
                self._cat(value)
            elif value.operation == "strided":
                self._strided(value)
            elif value.operation != "slice":
                self._reduce(value)

    def _place_parts(self, value: Value, found: Sequence[Phase]) -> None:
        """Have the parts of a cat written into it by the loops that compute them."""
        computed, at = {each for phase in found if phase.is_loop for each in phase.stored}, 0
        for part in value.of:
            if part in computed and part.width > 1 and part not in self.kept and part not in self.placed:
                self.placed[part] = f"{self.target(value)} + {self.size(at)}", True
            at += part.width

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
                before.append(f"real* to_{name} = {self.target(value)};")
                exact = f", {self.size(width)} - i" if self.placed.get(value, ("", False))[1] else ""
                body.append(f"store(to_{name} + i, {name}{exact});")
        self.lines += [
            "for (std::size_t m = 0; m < rows; ++m) {",
            *(f"    {line}" for line in before),
            f"    for (std::size_t i = 0; i < {self.size(width)}; i += LANES) {{",
            *(f"        {line}" for line in body),
            "    }",
            "}",
        ]

    def _affines(self, values: Sequence[Value]) -> None:
        """Maps that are there at once, side by side as far as they need not lie elsewhere."""
        apart = [value for value in values if value in self.kept or value in self.placed or self._start_of_rows(value)]
        together = [value for value in values if value not in apart]
        if together:
            self.side_by_side(together)
        for some in ([together] if together else []) + [[value] for value in apart]:
            self._product(some)

    def _start_of_rows(self, value: Value) -> Value | None:
        has_start, _ = value.settings
        return value.of[0] if has_start and value.of[0].operation != "shared" else None

    def _product(self, maps: Sequence[Value]) -> None:
        sources, told, units = dict[Value, int](), [len(maps)], list[tuple[Value, int]]()
        for value in maps:
            has_start, matrices = value.settings
            parts = list(zip(value.of[has_start:], matrices, strict=True))
            units += [(value, k) for k, (source, _) in enumerate(parts) if self._is_of_units(source)]
            parts = [(source, matrix) for source, matrix in parts if not self._is_of_units(source)]
            start = 1 + value.of[0].settings[0] if has_start and value.of[0].operation == "shared" else 0
            told += [value.width, start, len(parts)]
            for source, matrix in parts:
                told += [sources.setdefault(source, len(sources)), matrix]
        rows = [f"[&](std::size_t m) -> const real* {{ return {self.address(source)}; }}" for source in sources]
        target = f"[&](std::size_t m) -> real* {{ return {self.target(maps[0])}; }}"
        start_of_rows, name = self._start_of_rows(maps[0]), "product"
        if start_of_rows is not None:
            name, rows = (
                "product_from",
                [f"[&](std::size_t m) -> const real* {{ return {self._row(start_of_rows, maps[0].width)}; }}", *rows],
            )
        self.lines.append(f"{name}({', '.join(['shared', str(len(self.products)), 'rows', target, *rows])});")
        self.products.append(told)
        for value, k in units:
            source, matrix = value.of[value.settings[0] + k], value.settings[1][k]
            self.lines.append(
                f"column_of_each(shared, {matrix}, rows, first, {self.size(source.settings[0] - (self.units or 0))}, "
                f"[&](std::size_t m) -> real* {{ return {self.target(value)}; }});"
            )

    def _row(self, value: Value, width: int) -> str:
        """Where a row of so many numbers lies that are a value's, which may be one for all of them."""
        if value.width == width and value.operation not in ("number", "count", "dt"):
            return self.address(value)
        name = f"{self.letter}{len(self.buffers)}"
        self.buffers.append(self.padded([width]))
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {self.copied(value, f'{name}[m]', width)}")
        return f"{name}[m]"

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
        at, lines, to = 0, list[str](), self.target(value)
        for part in value.of:
            if self.placed.get(part, ("", False))[0] != f"{to} + {self.size(at)}":
                lines.append(f"    {self.copied(part, f'to + {self.size(at)}', part.width)}")
            at += part.width
        if lines:
            self.lines += ["for (std::size_t m = 0; m < rows; ++m) {", f"    real* to = {to};", *lines, "}"]

    def _strided(self, value: Value) -> None:
        first, axes = value.settings
        listed = ", ".join(f"{{{self.size(size)}, {self._step(stride)}}}" for size, stride in axes)
        source, target = f"({self.address(value.of[0])}) + {self._step(first)}", self.target(value)
        self.lines += [
            "{",
            f"    const Axis axes[] = {{{listed}}};",
            f"    for (std::size_t m = 0; m < rows; ++m) strided({source}, {target}, axes, {len(axes)});",
            "}",
        ]

    def _step(self, stride: int) -> str:
        return f"{'-' if stride < 0 else ''}std::ptrdiff_t({self.size(abs(stride))})"

    def _reduce(self, value: Value) -> None:
        to, source, sizes = self.target(value), self.address(value.of[0]), ", ".join(map(self.size, value.settings))
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
    forward = _Pass(sizes, {value: k for k, value in enumerate(kept)}, [])
    goes = forward.place(following, "next[m]")
    forward.write(phases([following], stored=frozenset(kept)))
    if not goes:
        forward.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {forward.copied(following, 'next[m]', following.width)}")
    columns = [] if units is None else ["#define COLUMNS", _columns(sizes, following, units, forward.products)]
    forth = len(forward.products)
    backward = _backward(sizes, forward.kept, forward.products, gradients, sums, ends)
    body = "\n".join([_structure("Forward", forward, FORWARD), backward, *columns, ""])
    # <cmath> takes the compiler as long as most fields do.
    text = "\n".join([PREAMBLE, *(["#include <cmath>\n"] if "by_lane(" in body else []), body])
    areas = [(1, left.width) if right is None else (left.width, right.width) for left, right in sums]
    told = [number for product in forward.products for number in product]
    widths = [value.width for value in kept]
    return Written(text, sizes, widths, areas, units is not None, products=told, counts=(len(forward.products), forth))


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


def _columns(sizes: list[int], following: Value, units: int, products: list[list[int]]) -> str:
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
    once = _Pass(sizes, {}, products, letter="a")
    ends = [value for value in read if value.operation not in READY]
    once.write(phases(ends))
    fixed = {value: once.address(value).replace("[m]", "[0]") for value in ends}
    each = _Pass(sizes, {}, products, fixed=fixed, units=units)
    each.write(phases([following], frozenset(ends)))
    each.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {each.copied(following, 'next[m]', following.width)}")
    each.lines = ["{", "    const std::size_t rows = 1;", *(f"    {line}" for line in once.lines), "}", *each.lines]
    return _structure("Columns", each, COLUMNS, more=[(f"a{k}", f"1, {width} + LANES") for k, width in enumerate(once.buffers)])


def _read(value: Value) -> Value:
    return _read(value.of[0]) if value.operation == "slice" else value


def _backward(
    sizes: list[int],
    kept: dict[Value, int],
    products: list[list[int]],
    gradients: dict[str, Value],
    sums: Sequence[Pair],
    ends: list[Value],
) -> str:
    found = phases(ends, frozenset(kept))
    computed = {value for phase in found for value in phase.values if value.operation != "slice"}
    done, areas = _Pass(sizes, kept, products), _areas(sums)
    sides = {"left": areas.lefts, "right": areas.rights}
    for name, values in sides.items():
        for k, value in enumerate(values):
            if value in computed and value not in done.placed:
                done.placed[value] = f"{name}[place + m]{_behind(done, values, k)}", False
    targets = {name: f"to_{name}[m]" for name in gradients if name != "dt"}
    goes = {name for name, target in targets.items() if gradients[name] in computed and done.place(gradients[name], target)}
    done.write(found)
    for name, values in sides.items():
        for k, value in enumerate(values):
            target = f"{name}[place + m]{_behind(done, values, k)}"
            if done.placed.get(value, ("", False))[0] != target:
                done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, target, value.width)}")
    for area, value in areas.alone.items():
        added = f"add_units(areas[{area}].data(), {done.address(value)}, {done.size(value.width)});"
        done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {added}")
    for name, value in gradients.items():
        if name == "dt":
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) to_dt[m] = ({done.address(value)})[0];")
        elif name not in goes:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, targets[name], value.width)}")
    return _structure(
        "Backward",
        done,
        BACKWARD,
        ", std::size_t together",
        [
            (name, f"together * rows, {done.padded(value.width for value in values)} + LANES")
            for name, values in sides.items()
            if values
        ],
        areas.made(done),
        areas.summed(done),
    )


def _behind(done: _Pass, values: Sequence[Value], k: int) -> str:
    return f" + {done.padded(value.width for value in values[:k])}" if k else ""


@dataclass
class _Areas:
    """Sums of products laid out: what stands on either side, and blocks (from, to) of lefts and (from, to) of rights, each summed
    in one; sums of values alone, by the numbers of their areas; and where each pair's sum lies."""

    lefts: list[Value]
    rights: list[Value]
    blocks: list[tuple[int, int, int, int]]
    alone: dict[int, Value]
    places: list[tuple[int, Value, Value | None]]

    def made(self, done: _Pass) -> list[str]:
        """Room for the sums, and their places."""
        areas = [
            f"areas.emplace_back(({self._across(done, self.lefts[a:b])}) * ({self._across(done, self.rights[c:d])}));"
            for a, b, c, d in self.blocks
        ]
        areas += [f"areas.emplace_back({done.padded([value.width])});" for value in self.alone.values()]
        return [*areas, *(f"sums.push_back({self._place(done, *place)});" for place in self.places)]

    def summed(self, done: _Pass) -> list[str]:
        lines = []
        for k, (a, b, c, d) in enumerate(self.blocks):
            left, right = (
                f"left[0]{_behind(done, self.lefts, a)}, left.stride",
                f"right[0]{_behind(done, self.rights, c)}, right.stride",
            )
            height, width = self._across(done, self.lefts[a:b]), self._across(done, self.rights[c:d])
            lines.append(f"    shared.program.outer(depth, {height}, {width}, {left}, {right}, areas[{k}].data(), {width});")
        return ["void sum_up(std::size_t depth) override {", *(lines or ["    (void)depth;"]), "}"]

    def _place(self, done: _Pass, area: int, left: Value, right: Value | None) -> str:
        if right is None:
            return f"{{{area}, 0, 0}}"
        a, _, c, d = self.blocks[area]
        rows, width = self._across(done, self.lefts[a : self.lefts.index(left)]), self._across(done, self.rights[c:d])
        return f"{{{area}, ({rows}) * ({width}) + {self._across(done, self.rights[c : self.rights.index(right)])}, {width}}}"

    @staticmethod
    def _across(done: _Pass, values: Sequence[Value]) -> str:
        return done.padded(value.width for value in values)


def _areas(sums: Sequence[Pair]) -> _Areas:
    """Lefts that are multiplied with the same rights, side by side."""
    rights_of: dict[Value, dict[Value, None]] = {}
    for left, right in sums:
        if right is not None:
            rights_of.setdefault(left, {})[right] = None
    groups: dict[tuple[Value, ...], list[Value]] = {}
    rights = list(dict.fromkeys(right for found in rights_of.values() for right in found))
    for left, found in rights_of.items():
        groups.setdefault(tuple(sorted(found, key=rights.index)), []).append(left)
    blocks, area_of, lefts = list[tuple[int, int, int, int]](), dict[tuple[Value, Value], int](), list[Value]()
    for read, some in groups.items():
        places = [rights.index(right) for right in read]
        runs = [k for k, place in enumerate(places) if not k or place != places[k - 1] + 1]
        for begin, end in zip(runs, [*runs[1:], len(places)], strict=True):
            area_of |= {(left, right): len(blocks) for left in some for right in read[begin:end]}
            blocks.append((len(lefts), len(lefts) + len(some), places[begin], places[end - 1] + 1))
        lefts += some
    alone: dict[int, Value] = {}
    places_of = list[tuple[int, Value, Value | None]]()
    for left, right in sums:
        if right is not None:
            places_of.append((area_of[left, right], left, right))
        else:
            alone[len(blocks) + len(alone)] = left
            places_of.append((len(blocks) + len(alone) - 1, left, None))
    return _Areas(lefts, rights, blocks, alone, places_of)


def _structure(
    name: str,
    done: _Pass,
    signature: str,
    arguments: str = "",
    more: Sequence[tuple[str, str]] = (),
    made: Sequence[str] = (),
    others: Sequence[str] = (),
) -> str:
    rows = [(f"b{k}", f"rows, {width} + LANES") for k, width in enumerate(done.buffers)]
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
