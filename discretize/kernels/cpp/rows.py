r"""Write phases in C++, for source/program.cpp: the forward and the backward pass of one step.

Sizes are numbered, not written out: fields that differ in their sizes only have the same text, and the same library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from discretize.kernels.cpp.sums import SumAreas
from discretize.kernels.cpp.text import CppText
from discretize.kernels.record.functions import expression, number
from discretize.kernels.record.phases import Phase, ProgramValues, phases
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import CALLS, EQUATIONS, READY, Axes, Value, ancestors

__all__ = ["PREAMBLE", "RowPass", "structure", "written"]

SAMPLES = {"x": "x[m]", "h": "h[m]", "cotangent": "cotangent[m]", "dt": "&dt[m]"}


@dataclass
class RowPass:
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
    drawn: dict[tuple[Any, ...], str] = field(default_factory=dict)  # increments of Brownian paths, and their sizes
    lines: list[str] = field(default_factory=list)
    solves: bool = False  # equations
    maps: ClassVar[str] = "product"

    def size(self, number: int) -> str:
        if number not in self.sizes:
            self.sizes.append(number)
        return f"size[{self.sizes.index(number)}]"

    def padded(self, widths: Iterable[int]) -> str:
        """The numbers of so many values side by side."""
        return " + ".join(f"padded({self.size(width)})" for width in widths) or "0"

    def count(self, number: int) -> str:
        """Write in C++ a size of one sample, where `size` may be that of several side by side."""
        return self.size(number)

    def one(self, value: Value) -> str:
        """Write in C++ the only number of row m, in all lanes."""
        return f"splat(({self.address(value)})[0])"

    def over(self, width: int, before: Sequence[str], body: Sequence[str]) -> list[str]:
        """Write a loop over the vectors of a row; `before`: lines whose values are one for all of them."""
        lines = [f"for (std::size_t i = 0; i < {self.size(width)}; i += LANES) {{", *(f"    {line}" for line in body), "}"]
        return [*before, *lines]

    def behind(self, values: Sequence[Value], k: int) -> str:
        """What is added to the place of the first of values side by side for that of number k."""
        return f" + {self.padded(value.width for value in values[:k])}" if k else ""

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
        if value in self.kept or value in self.placed or not (value.by_unit or value.operation in ("affine", "cat", *EQUATIONS)):
            return False
        self.placed[value] = target, False
        return True

    def write(self, found: Sequence[Phase]) -> None:
        for phase in found:
            for value in phase.values:
                if value.operation == "cat":
                    self._place_parts(value, found)
                elif value.operation in CALLS:
                    self.place_arguments(value)
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
            elif value.operation == "increments":
                self._increments(value)
            elif value.operation in (*CALLS, *EQUATIONS):
                self.call(value)
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
        names, before, ones, body = dict[Value, str](), list[str](), list[str](), list[str]()
        width = phase.values[0].width

        def read(value: Value) -> str:
            if value not in names:
                if value.operation == "number":
                    return f"splat({number(value.settings[0])})"
                if value.operation == "count":
                    return f"splat(real({self.count(value.settings[0])}))"
                name = names[value] = f"v{len(names)}"
                if value.width == 1 and (width != 1 or value.operation == "dt"):
                    ones.append(f"const vec {name} = {self.one(value)};")
                else:
                    before.append(f"const real* from_{name} = {self.address(value)};")
                    body.append(f"const vec {name} = load(from_{name} + i);")
            return names[value]

        for value in phase.values:
            text = expression(value.operation, map(read, value.of), value.settings)
            name = names[value] = f"v{len(names)}"
            body.append(f"const vec {name} = {text};")
            if value in phase.stored:
                before.append(f"real* to_{name} = {self.target(value)};")
                exact = f", {self.size(width)} - i" if self.placed.get(value, ("", False))[1] else ""
                body.append(f"store(to_{name} + i, {name}{exact});")
        self.lines += [
            "for (std::size_t m = 0; m < rows; ++m) {",
            *(f"    {line}" for line in [*before, *self.over(width, ones, body)]),
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
        sources, numbers, units = dict[Value, int](), [len(maps)], list[tuple[Value, int]]()
        for value in maps:
            has_start, matrices = value.settings
            parts = list(zip(value.of[has_start:], matrices, strict=True))
            units += [(value, k) for k, (source, _) in enumerate(parts) if self._is_of_units(source)]
            parts = [(source, matrix) for source, matrix in parts if not self._is_of_units(source)]
            start = 1 + value.of[0].settings[0] if has_start and value.of[0].operation == "shared" else 0
            numbers += [value.width, start, len(parts)]
            for source, matrix in parts:
                numbers += [sources.setdefault(source, len(sources)), matrix]
        rows = [f"[&](std::size_t m) -> const real* {{ return {self.address(source)}; }}" for source in sources]
        target = f"[&](std::size_t m) -> real* {{ return {self.target(maps[0])}; }}"
        start_of_rows, name = self._start_of_rows(maps[0]), self.maps
        if start_of_rows is not None:
            name, rows = (
                f"{self.maps}_from",
                [f"[&](std::size_t m) -> const real* {{ return {self._row(start_of_rows, maps[0].width)}; }}", *rows],
            )
        self.lines.append(f"{name}({', '.join(['shared', str(len(self.products)), 'rows', target, *rows])});")
        self.products.append(numbers)
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
            return f"fill({target}, {self.size(width)}, {number(value.settings[0])});"
        if value.width == 1 and width > 1:
            return f"fill({target}, {self.size(width)}, ({self.address(value)})[0]);"
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
        listed, count = self.axes(axes)
        source, target = f"({self.address(value.of[0])}) + {self._step(first)}", self.target(value)
        self.lines += [
            "{",
            f"    const Axis axes[] = {{{listed}}};",
            f"    for (std::size_t m = 0; m < rows; ++m) strided({source}, {target}, axes, {count});",
            "}",
        ]

    def axes(self, axes: Axes) -> tuple[str, str]:
        """Write in C++ the axes of a row's numbers, and how many axes there are."""
        return ", ".join(f"{{{self.count(size)}, {self._step(stride)}}}" for size, stride in axes), str(len(axes))

    def _step(self, stride: int) -> str:
        return f"{'-' if stride < 0 else ''}std::ptrdiff_t({self.size(abs(stride))})"

    def _increments(self, value: Value) -> None:
        """Those of w and of the integral are drawn at once, into memory that later steps find again."""
        (columns,), (parts, integral, which) = value.of, value.settings
        key = columns, parts, integral
        if key not in self.drawn:
            self.drawn[key] = f"{self.size(value.width)}, {self.size(parts)}, {str(integral).lower()}"
            row = f"[&](std::size_t m) -> const real* {{ return {self._row(columns, columns.width)}; }}"
            self.lines.append(f"drawn{len(self.drawn) - 1}.draw(shared, rows, {row});")
        found = f"drawn{[*self.drawn].index(key)}.{'wz'[which]}[m]"
        if value in self.kept:
            copied = f"copy({found}, {self.target(value)}, {self.size(value.width)});"
            self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {copied}")
        else:
            self.placed[value] = found, False

    def place_arguments(self, value: Value) -> None:
        """Have what a call of a field is given written to where it reads it."""
        raise NotImplementedError

    def call(self, value: Value) -> None:
        """Write a call of what is another program: here of who solves an equation."""
        self.solves, to = True, self.target(value)
        if value.operation == "solution":
            x, a, tau, guess = (self._row(each, each.width) for each in value.of)
            line = f"equation.solve({x}, {a}, ({tau})[0], {guess}, {to});"
        else:
            cotangent, *others = value.of
            u, x, tau = (self._row(each, each.width) for each in others)
            line = f"{self.copied(cotangent, to, value.width)} equation.pull({x}, {u}, ({tau})[0], {to});"
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {{ {line} }}")

    def _reduce(self, value: Value) -> None:
        outer, size, inner = value.settings
        to, source, sizes = (
            self.target(value),
            self.address(value.of[0]),
            f"{self.count(outer)}, {self.count(size)}, {self.size(inner)}",
        )
        how = "sums_over" if value.operation == "sum" else "largest_over"
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {how}({source}, {to}, {sizes});")


def written(given: ProgramValues) -> CppText:
    """Write a step forwards and backwards for rows, one sample each."""
    following, kept, sizes = given.following, given.kept, list[int]()
    forward = RowPass(sizes, {value: k for k, value in enumerate(kept)}, [])
    goes = forward.place(following, "next[m]")
    forward.write(phases([following], stored=frozenset(kept)))
    if not goes:
        forward.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {forward.copied(following, 'next[m]', following.width)}")
    columns = [] if given.units is None else ["#define COLUMNS", _columns(sizes, following, given.units, forward.products)]
    forth = len(forward.products)
    backward = _backward(sizes, forward.kept, forward.products, given)
    body = "\n".join([structure("Forward", forward, FORWARD), backward, *columns, ""])
    # <cmath> takes the compiler as long as most fields do.
    included = ["<cmath>"] if "by_lane(" in body else []
    equations = [value for value in given.order if value.operation == "solution"]
    included += ['"equation.h"'] if equations else []
    text = "\n".join([PREAMBLE, *(f"#include {name}\n" for name in included), body])
    numbers = [number for product in forward.products for number in product]
    widths = [value.width for value in kept]
    counts = len(forward.products), forth
    with_columns = given.units is not None
    made = CppText(text, sizes, widths, given.areas, with_columns, counted=given.counted, products=numbers, counts=counts)
    return replace(made, equation=_input_of(equations))


def _input_of(equations: Sequence[Value]) -> int | None:
    """Return the width of the input that all equations read; None without an equation."""
    widths = {value.of[0].width for value in equations}
    if len(widths) > 1:
        raise UnknownOperation("it solves equations whose inputs are not alike")
    return next(iter(widths), None)


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
    once = RowPass(sizes, {}, products, letter="a")
    ends = [value for value in read if value.operation not in READY]
    once.write(phases(ends))
    fixed = {value: once.address(value).replace("[m]", "[0]") for value in ends}
    each = RowPass(sizes, {}, products, fixed=fixed, units=units)
    each.write(phases([following], frozenset(ends)))
    each.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {each.copied(following, 'next[m]', following.width)}")
    each.lines = ["{", "    const std::size_t rows = 1;", *(f"    {line}" for line in once.lines), "}", *each.lines]
    return structure("Columns", each, COLUMNS, more=[(f"a{k}", f"1, {width} + LANES") for k, width in enumerate(once.buffers)])


def _read(value: Value) -> Value:
    return _read(value.of[0]) if value.operation == "slice" else value


def _backward(sizes: list[int], kept: dict[Value, int], products: list[list[int]], given: ProgramValues) -> str:
    found, gradients = phases(given.ends, frozenset(kept)), given.gradients
    computed = {value for phase in found for value in phase.values if value.operation != "slice"}
    done, areas = RowPass(sizes, kept, products), SumAreas.of(given.sums)
    sides = {"left": areas.lefts, "right": areas.rights}
    for name, values in sides.items():
        for k, value in enumerate(values):
            if value in computed and value not in done.placed:
                done.placed[value] = f"{name}[place + m]{done.behind(values, k)}", False
    targets = {name: f"to_{name}[m]" for name in gradients if name != "dt"}
    goes = {name for name, target in targets.items() if gradients[name] in computed and done.place(gradients[name], target)}
    done.write(found)
    for name, values in sides.items():
        for k, value in enumerate(values):
            target = f"{name}[place + m]{done.behind(values, k)}"
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
    return structure(
        "Backward",
        done,
        BACKWARD,
        ", std::size_t together",
        [
            (name, f"together * rows, {done.padded(value.width for value in values)} + LANES")
            for name, values in sides.items()
            if values
        ],
        areas.made(done.padded),
        areas.summed(done.padded),
    )


def structure(
    name: str,
    done: RowPass,
    signature: str,
    arguments: str = "",
    more: Sequence[tuple[str, str]] = (),
    made: Sequence[str] = (),
    others: Sequence[str] = (),
) -> str:
    members = [("Rows", f"b{k}", f"rows, {width} + LANES") for k, width in enumerate(done.buffers)]
    members += [("Rows", *each) for each in more]
    members += [("Equations", "equation", "shared")] if done.solves else []
    members += [("Increments", f"drawn{k}", f"rows, {sizes}") for k, sizes in enumerate(done.drawn.values())]
    lines = [
        f"struct Written{name} final : {name} {{",
        "    const Shared& shared;",
        "    const std::size_t* size;",
        *(f"    {kind} {member};" for kind, member, _ in members),
        "",
        f"    Written{name}(const Shared& shared, std::size_t rows{arguments})",
        f"        : shared(shared), size(shared.size.data()){''.join(f', {member}({sizes})' for _, member, sizes in members)} {{",
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
