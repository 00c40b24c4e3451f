r"""Write products of values with matrices in Triton, in one of two ways.

    dots    `tl.dot`, for programs of 16 samples or more: one product after the other
    sums    `tl.sum(h[:, :, None] * w, 1)` for fewer samples: exact in REAL, the matrices in registers as far as they fit, and
            products with as many rows and columns under one sum, which meets the other threads once

A matrix that is not resident is read at every step; one of which a program could not hold a row's worth of sums at once, some
rows after the others.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from discretize.kernels.record.values import Value
from discretize.kernels.triton.lines import PART, Lines, fits_a_tile, padded

__all__ = ["DOT", "HELPERS", "SUMMED", "Product", "write_dots", "write_sums"]

DOT = "tl.dot({}, {}, {}, input_precision=PRECISION, out_dtype=REAL)"
SUMMED = 1 << 13  # numbers of matrices that are read in one part, a quarter where others are in registers


class Operands(Protocol):
    """The pass that is written: its lines, and its values as products read them."""

    out: Lines

    def operand(self, value: Value, first: int, width: int) -> str:
        """A name of so many units from a first one on, 0 beyond them."""

    def memory(self, value: Value) -> str:
        """Where a value lies for every thread."""


class Product(NamedTuple):
    """What is added to `name`: `depth` units of `source` from `at` on, times rows of a matrix from its number `first` on."""

    name: str
    source: Value
    at: int
    matrix: int
    first: int
    stride: int
    depth: int
    width: int

    @property
    def numbers(self) -> int:
        return padded(self.depth) * padded(self.width)

    def row(self, made: Operands) -> str | None:
        """The term of a matrix of one row or column."""
        at, lines = made.out.matrix(self.matrix), made.out
        if self.depth == 1:
            return f"{made.operand(*self.read)} * {lines.load_row(at, self.first, self.width)}"
        if self.width == 1:
            row = lines.load_row(at, self.first, self.depth, self.stride)
            return f"tl.sum({made.operand(*self.read)} * {row}, 1, keep_dims=True)"
        return None

    @property
    def read(self) -> tuple[Value, int, int]:
        return self.source, self.at, self.depth


def write_dots(made: Operands, products: list[Product]) -> None:
    """For 16 samples or more."""
    lines = made.out
    for product in products:
        name, _, _, matrix, first, stride, depth, width = product
        if fits_a_tile(depth, width, lines.tile):
            if term := product.row(made):
                lines.step.append(f"{name} += {term}")
                continue
            down, across = padded(depth), padded(width)
            lines.columns |= {down: None, across: None}
            mask = f"(r{down} < {depth}) & (c{across} < {width})"
            load = f"tl.load({lines.matrix(matrix)} + {first} + r{down} * {stride} + c{across}, mask={mask}, other=0.0).to(REAL)"
            operand = made.operand(*product.read)
            weights = lines.named(load, once=lines.holds(product.numbers))
            lines.step.append(f"{name} = {DOT.format(operand, weights, name)}")
            continue
        source, at = f"{made.memory(product.source)} + {product.at}", lines.matrix(matrix)
        lines.see_all()
        some, across = max(16, PART // padded(width)), padded(width)
        lines.columns |= {some: None, across: None}
        lines.streamed += product.numbers
        weights, mask = (
            f"{at} + {first} + (k + r{some}) * {stride} + c{across}",
            f"(k + r{some} < {depth}) & (c{across} < {width})",
        )
        lines.step += [
            f"for k in range(0, {depth}, {some}):",
            f"    of_source = tl.load({source} + k + c{some}, mask=inside & (k + c{some} < {depth}), other=0.0).to(REAL)",
            f"    of_matrix = tl.load({weights}, mask={mask}, other=0.0).to(REAL)",
            f"    {name} = {DOT.format('of_source', 'of_matrix', name)}",
        ]


def write_sums(made: Operands, products: list[Product]) -> None:
    """For fewer samples; the products are of one width, or of one unit."""
    lines, whole, parted = made.out, dict[int, dict[str, list[str]]](), list[Product]()
    for product in products:
        if term := product.row(made):
            lines.step.append(f"{product.name} += {term}")
        elif lines.holds(product.numbers):
            tile = lines.named(f"tile({_of_matrix(made, product)}, {product.depth}, {_sizes(product)})", once=True)
            terms = whole.setdefault(padded(product.depth), {}).setdefault(product.name, [])
            terms.append(f"{made.operand(*product.read)}[:, :, None] * {tile}")
        else:
            parted.append(product)
    for depth in {product.depth: None for product in parted}:
        alike = [product for product in parted if product.depth == depth]
        at_once = (SUMMED // 4 if lines.resident else SUMMED) // (1 << (len(alike) - 1).bit_length())
        some = min(padded(depth), max(1, at_once // padded(alike[0].width)))
        for name, total in _in_parts(made, alike, some).items():
            whole.setdefault(some, {}).setdefault(name, []).append(total)
    for each in whole.values():
        _add_sums(made, {name: " + ".join(terms) for name, terms in each.items()})


def _in_parts(made: Operands, products: list[Product], some: int) -> dict[str, str]:
    """Add up products some rows after the others; each name's sum over rows is still to be taken."""
    lines, depth = made.out, products[0].depth
    sources = {product.read: f"{made.memory(product.source)} + {product.at}" for product in products}
    lines.see_all()
    lines.columns[max(some, 2)] = None
    totals = {product.name: lines.named(f"tl.zeros([ROWS, {some}, {padded(product.width)}], REAL)") for product in products}
    names = {read: f"of_source_{k}" for k, read in enumerate(sources)}
    c = f"c{some}" if some > 1 else "tl.zeros([1, 1], tl.int32)"
    lines.step.append(f"for k in range(0, {depth}, {some}):")
    for read, at in sources.items():
        load = f"tl.load({at} + k + {c}, mask=inside & (k + {c} < {depth}), other=0.0)"
        lines.step.append(f"    {names[read]} = {load}.to(REAL)[:, :, None]")
    for product in products:
        tile = f"tile({_of_matrix(made, product)} + k * {product.stride}, {depth} - k, {_sizes(product, some)})"
        lines.step.append(f"    {totals[product.name]} += {names[product.read]} * {tile}")
    return totals


def _of_matrix(made: Operands, product: Product) -> str:
    return f"{made.out.matrix(product.matrix)} + {product.first}"


def _sizes(product: Product, down: int | None = None) -> str:
    return f"{product.stride}, {product.width}, {down or padded(product.depth)}, {padded(product.width)}"


def _add_sums(made: Operands, terms: dict[str, str]) -> None:
    """To names, over the middle axis of three, up to four of them at once."""
    lines, names = made.out, list(terms)
    while names:
        count = 4 if len(names) > 3 else 2 if len(names) > 1 else 1
        some, names = names[:count], names[count:]
        if count == 1:
            lines.step.append(f"{some[0]} += tl.sum({terms[some[0]]}, 1)")
            continue
        sums = [f"{name}_sum" for name in some]
        lines.step.append(f"{', '.join(sums)} = sums_{count}({', '.join(terms[name] for name in some)})")
        lines.step += [f"{name} += {each}" for name, each in zip(some, sums, strict=True)]


HELPERS = """
@triton.jit
def tile(at, depth, stride: tl.constexpr, width: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    row, column = tl.arange(0, DOWN)[None, :, None], tl.arange(0, ACROSS)[None, None, :]
    # Threads beside one another read one number each: with four each, a sum over rows would have to turn them first.
    place = tl.max_contiguous(row * stride + column, [1, 1, 1])
    return tl.load(at + place, mask=(row < depth) & (column < width), other=0.0).to(REAL)


@triton.jit
def sums_2(a, b):
    return tl.split(tl.sum(tl.join(a, b), 1))


@triton.jit
def sums_4(a, b, c, d):
    a_b, c_d = tl.split(tl.sum(tl.join(tl.join(a, b), tl.join(c, d)), 1))
    a, b = tl.split(a_b)
    c, d = tl.split(c_d)
    return a, b, c, d

"""
