r"""Write a field of a few units in C++ number by number, for source/lane_program.cpp: each number a vector of samples.

Nothing is a loop and nothing goes through memory: slices and other layouts are names, a product with a matrix is as many
multiplications as it has entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from discretize.kernels.cpp.rows import PREAMBLE
from discretize.kernels.cpp.text import CppText
from discretize.kernels.record.functions import FUNCTIONS, number
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import REDUCTIONS, Axes, Value, ancestors

__all__ = ["MOST_OPERATIONS", "lane_written"]

SAMPLES = ("x", "h", "cotangent")
MOST_OPERATIONS = 2000  # on vectors, forwards and backwards: beyond, the compiler takes seconds


@dataclass
class _Lines:
    """Lines that compute numbers, and the names of each value's numbers."""

    lines: list[str] = field(default_factory=list)
    names: dict[Value, list[str]] = field(default_factory=dict)

    def read(self, given: dict[str, int]) -> None:
        for name, width in given.items():
            for i in range(width):
                self.lines.append(f"const vec {name}{i} = load({name} + {i} * slots + s);")

    def write(self, wanted: Iterable[Value]) -> None:
        for value in ancestors(wanted):
            self.names[value] = self._numbers(value)

    def of(self, value: Value, i: int) -> str:
        names = self.names[value]
        return names[i if len(names) > 1 else 0]

    def _numbers(self, value: Value) -> list[str]:
        if value.operation in REDUCTIONS:
            return self._reduced(value)
        if value.operation in ("slice", "cat", "strided", "spread"):
            return self._laid_out(value)
        return [self._number(value, i) for i in range(value.width)]

    def _number(self, value: Value, i: int) -> str:
        match value.operation:
            case "x" | "h" | "cotangent":
                return f"{value.operation}{i}"
            case "number":
                return f"splat({number(value.settings[0])})"
            case "count":
                return f"splat(real({value.settings[0]}))"
            case "shared":
                return f"splat(given.vector[{value.settings[0]}][{i}])"
            case "affine":
                return self._name(self._affine(value, i))
        return self._name(FUNCTIONS[value.operation](*(self.of(part, i) for part in value.of)))

    def _laid_out(self, value: Value) -> list[str]:
        if value.operation == "cat":
            return [self.of(part, i) for part in value.of for i in range(part.width)]
        if value.operation == "spread":
            return [self.of(value.of[0], i) for i in range(value.width)]
        first, *axes = value.settings
        return [self.of(value.of[0], first + place) for place in (_places(*axes) if axes else range(value.width))]

    def _name(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const vec {name} = {expression};")
        if len(self.lines) > MOST_OPERATIONS:
            raise UnknownOperation(f"its code takes more than {MOST_OPERATIONS} operations, number by number")
        return name

    def _affine(self, value: Value, i: int) -> str:
        has_start, matrices = value.settings
        terms = [self.of(value.of[0], i)] if has_start else []
        for source, matrix in zip(value.of[1:] if has_start else value.of, matrices, strict=True):
            terms += [f"given.matrix[{matrix}][{row * value.width + i}] * {self.of(source, row)}" for row in range(source.width)]
        return " + ".join(terms)

    def _reduced(self, value: Value) -> list[str]:
        outer, size, inner = value.settings
        lines = []
        for o, i in product(range(outer), range(inner)):
            name, *others = [self.of(value.of[0], (o * size + k) * inner + i) for k in range(size)]
            for other in others:
                name = self._name(f"{name} + {other}" if value.operation == "sum" else f"larger({name}, {other})")
            lines.append(name)
        return lines


def _places(axes: Axes) -> list[int]:
    sizes, strides = [size for size, _ in axes], [stride for _, stride in axes]
    return [sum(at * stride for at, stride in zip(places, strides, strict=True)) for places in product(*map(range, sizes))]


def lane_written(given: ProgramValues) -> CppText:
    """Write a field's slopes and their cotangents for samples side by side. Raises: Unknown, where it would be too long."""
    widths = {name: value.width for name, value in given.given.items() if name in SAMPLES}
    forward, backward = _Lines(), _Lines()
    forward.read({name: width for name, width in widths.items() if name != "cotangent"})
    forward.write([given.following])
    forward.lines += [f"store(slope + {i} * slots + s, {forward.of(given.following, i)});" for i in range(given.following.width)]
    backward.read(widths)
    backward.write(given.ends)
    for name, value in given.gradients.items():
        backward.lines += [f"store(to_{name} + {i} * slots + s, {backward.of(value, i)});" for i in range(value.width)]
    place = 0
    for (left, right), (height, width) in zip(given.sums, given.areas, strict=True):
        for row, column in product(range(height), range(width)):
            term = backward.of(left, column) if right is None else f"{backward.of(left, row)} * {backward.of(right, column)}"
            backward.lines.append(f"store(sums + {place} * LANES, load(sums + {place} * LANES) + {term});")
            place += 1
    body = "\n".join([_function(FLOW, forward.lines), _function(RETURN, backward.lines), ""])
    text = "\n".join([PREAMBLE, *(["#include <cmath>\n"] if "by_lane(" in body else []), body])
    return CppText(text, [], [], given.areas, lanes=True)


FLOW = "inline void lane_flow(const CtrnnProgram& given, std::size_t slots, const real* x, const real* h, real* slope)"
RETURN = (
    "inline void lane_return(const CtrnnProgram& given, std::size_t slots, const real* x, const real* h, const real* cotangent,\n"
    "                        real* to_h, real* to_x, real* sums)"
)


def _function(head: str, lines: Sequence[str]) -> str:
    used = [f"(void){name};" for name in ("given", "x", "h", *(["cotangent", "to_h", "to_x", "sums"] if head is RETURN else []))]
    loop = ["for (std::size_t s = 0; s < slots; s += LANES) {", *(f"    {line}" for line in lines), "}"]
    return "\n".join([f"{head} {{", *(f"    {line}" for line in [" ".join(used), *loop]), "}"])
