r"""Evaluate one Brownian path at any time and to any resolution: a tree of bridges within cells of time.

    a cell of length D       w = W(end) - W(start), variance D;   H = 1/D int (W - chord) dt, variance D/12, independent of w
    its midpoint             w_left = w/2 + 3/2 H + Z,            Z of variance D/16
    its halves               H_left, H_right = H/4 - Z/2 +- N/2,  N of variance D/12
    int_start^end (W - W(start)) dt = D (w/2 + H)

Every Z, N is a normal number of its own, by the key of a sample, the cell and the node of the tree: half the step reads the same
path. Below `DEPTH` halvings the path is its conditional mean, a parabola, whose missing variance is 2^-DEPTH D / 12 at most.

Source:  Levy 1948 for the bridge; Foster, Lyons and Oberhauser 2020, "An optimal polynomial approximation of Brownian motion",
for H; the midpoint rule with H is checked by the ledger, "this project".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from ctrnn import checks
from discretize.noise.generator import Seed, fresh_keys, normals

__all__ = ["DEPTH", "MOST_PARTS", "BrownianPath", "CellTerms", "Cells", "cell_terms", "is_power_of_two"]

DEPTH = 20  # halvings of a cell
MOST_PARTS = 1 << 20  # of a cell: nodes stay below 2^24, which float32 holds exactly
ROOT = 1  # the node of a cell is cut by the numbers 2 and 3, that in place k of level l by 2 (2^l + k) and one more


class CellTerms(NamedTuple):
    r"""Increments over the equal parts of a cell of length 1, as sums of coefficients times normal numbers.

    Shape:   nodes, of_w, of_integral (parts, terms); of_integral those of int (W - W(start of the part)) dt.
    """

    nodes: Tensor
    of_w: Tensor
    of_integral: Tensor


class Cells(NamedTuple):
    """The keys of samples (batch,), and the number of the first cell of each, () or (batch,): noise whose cells are samples."""

    keys: Tensor
    first: Tensor | int


class _Cell(NamedTuple):
    """A cell of the tree; w, h: coefficients of the numbers at `nodes`."""

    node: int
    length: float
    nodes: list[int]
    w: list[float]
    h: list[float]

    def halves(self) -> tuple[_Cell, _Cell]:
        z, n = sqrt(self.length) / 4, sqrt(self.length / 12)
        nodes = [*self.nodes, 2 * self.node, 2 * self.node + 1]
        middle = [*(w / 2 + 1.5 * h for w, h in zip(self.w, self.h, strict=True)), z, 0.0]
        rest = [*(w / 2 - 1.5 * h for w, h in zip(self.w, self.h, strict=True)), -z, 0.0]
        quarter, length = [h / 4 for h in self.h], self.length / 2
        return (
            _Cell(2 * self.node, length, nodes, middle, [*quarter, -z / 2, n / 2]),
            _Cell(2 * self.node + 1, length, nodes, rest, [*quarter, -z / 2, -n / 2]),
        )


def is_power_of_two(parts: int) -> bool:
    return parts & (parts - 1) == 0


@lru_cache(maxsize=64)
def cell_terms(parts: int, integral: bool) -> CellTerms:
    """Write the increments over the parts of a cell, a power of two; without `integral` only the terms that w needs."""
    cells = [_Cell(ROOT, 1.0, [0, 1], [1.0, 0.0], [0.0, sqrt(1 / 12)])]
    while len(cells) < parts:
        cells = [half for cell in cells for half in cell.halves()]
    nodes = torch.tensor([cell.nodes for cell in cells], device="cpu")
    w, h = (torch.tensor(rows, dtype=torch.float64, device="cpu") for rows in ([c.w for c in cells], [c.h for c in cells]))
    terms = CellTerms(nodes, w, cells[0].length * (w / 2 + h))
    used = (terms.of_w != 0).any(0) | (integral & (terms.of_integral != 0).any(0))
    return CellTerms(*(each[:, used] for each in terms))


class BrownianPath:
    r"""Brownian motion W(t), of variance t, for each sample: a function of its key and of the time alone.

    Cells lie between the `knots`, which increments that are to be drawn once should be between. The same key and the same knots
    are the same path whatever it is asked for: half the step refines it. Sequence modules have their samples' edges as knots,
    `integrate` those of its input.

    Args:    seed: a whole number, or keys, one for each sample; None: drawn from torch's generator. knots: increasing times,
             shared or for each sample its own; units: how many independent motions a sample has; batch: how many samples,
             where neither keys nor knots say so; first: the number of the first cell of each sample, by which a path that was
             cut goes on; dtype: in which numbers are drawn and given back, float64 or float32; sums are float64.
    Call:    path(t) is W(t), 0 at the first knot.
    Shape:   knots (n,) or (n, batch); seed () or (batch,); first () or (batch,); t (m,) or (m, batch) -> (m, batch, units).
    Raises:  TypeError, ValueError for what does not fit, and for times beyond the knots.
    Source:  see the first lines of this file.
    """

    knots: Tensor
    units: int

    def __init__(
        self,
        seed: Seed,
        knots: Tensor,
        units: int,
        batch: int | None = None,
        *,
        first: int | Tensor = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.knots, self.units = checks.are_times("knots", knots, 2).detach(), checks.positive_size("units", units)
        self.dtype = dtype
        if len(self.knots) < 2:
            raise ValueError(f"`knots` must be two times at least, the ends of the path, got {len(self.knots)}.")
        known = batch if batch is not None else len(seed) if isinstance(seed, Tensor) and seed.dim() else None
        if known is None and self.knots.dim() > 1:
            known = self.knots.shape[1]
        self.keys: Tensor = fresh_keys(seed, 1 if known is None else checks.size("batch", known))
        if self.knots.dim() > 1 and self.knots.shape[1] != len(self.keys):
            raise ValueError(f"`knots` are for {self.knots.shape[1]} samples, the path has {len(self.keys)}; give as many.")
        self.first: Tensor = torch.as_tensor(first, dtype=torch.int64, device="cpu").expand(len(self.keys))
        self._read: _ReadNodes | None = None

    def __call__(self, t: Tensor) -> Tensor:
        times = self._columns(checks.as_times("t", t))
        return self._at(times, torch.zeros_like(self.first))[0].to(self.dtype)

    def increments(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return W(b) - W(a) and int_a^b (W(t) - W(a)) dt between edges a < b one after the other.

        Shape:   edges (m + 1,) or (m + 1, batch) -> twice (m, batch, units).
        """
        times = self._columns(checks.as_times("edges", edges))
        w, integral = self._at(times, self._cells(times[0]))
        whole = integral.diff(dim=0) - times.diff(dim=0)[..., None] * w[:-1]
        return w.diff(dim=0).to(self.dtype), whole.to(self.dtype)

    def remembering(self) -> BrownianPath:
        """Return the same path, which keeps the numbers of the nodes it reads: for many readings near one another."""
        twin = copy.copy(self)
        twin._read = _ReadNodes(len(self.keys), self.units)
        return twin

    def _columns(self, times: Tensor) -> Tensor:
        times = times.detach()
        columns = times if times.dim() > 1 else times[:, None].expand(-1, len(self.keys))
        if columns.shape[1] != len(self.keys):
            raise ValueError(f"Times are for {columns.shape[1]} samples, and the path has {len(self.keys)}; give as many.")
        return checks.within("t", columns, self._knots[0], self._knots[-1])

    @property
    def _knots(self) -> Tensor:
        return self.knots if self.knots.dim() > 1 else self.knots[:, None].expand(-1, len(self.keys))

    def _cells(self, times: Tensor) -> Tensor:
        """The cell of each time, (..., batch)."""
        if self.knots.dim() > 1:
            rows = times.reshape(-1, len(self.keys)).mT.contiguous()
            cells = torch.searchsorted(self.knots.mT.contiguous(), rows, right=True).mT.reshape(times.shape)
        else:
            cells = torch.searchsorted(self.knots, times.contiguous(), right=True)
        return (cells - 1).clamp(0, len(self.knots) - 2)

    def _at(self, times: Tensor, since: Tensor) -> tuple[Tensor, Tensor]:
        """W and its integral from the start of a cell of each sample on, (m, batch, units) each; times (m, batch), not before."""
        knots, cell = self._knots, self._cells(times)
        lengths, last = knots.diff(dim=0), len(knots) - 2
        start, length = knots.gather(0, cell), lengths.gather(0, cell)
        share = _dyadic(((times - start) / length).clamp(0, 1), times.abs() / length)
        numbers = (since + torch.arange(int((cell - since).max()) + 1, device="cpu")[:, None]).clamp(max=last)
        d = lengths.gather(0, numbers)
        w, h = self._roots(numbers, d)
        whole = torch.cat([torch.zeros_like(w[:1]), w.cumsum(0)])
        filled = torch.cat([torch.zeros_like(w[:1]), (d[..., None] * (whole[:-1] + w / 2 + h)).cumsum(0)])
        rows = (cell - since)[..., None].expand(-1, -1, self.units)
        before, area = whole.gather(0, rows), filled.gather(0, rows)
        inner, inner_area = self._within(cell, share, w.gather(0, rows), h.gather(0, rows), length)
        return before + inner, area + inner_area + before * (share * length)[..., None]

    def _roots(self, cell: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        d, zero = length[..., None], torch.zeros_like(cell)
        w, h = self._normals(cell, torch.stack([zero, zero + ROOT]), torch.ones_like(cell, dtype=torch.bool)).unbind(0)
        return w * d.sqrt(), h * (d / 12).sqrt()

    def _normals(self, cell: Tensor, node: Tensor, needed: Tensor) -> Tensor:
        """The numbers of nodes; where they are not needed, perhaps others."""
        cell = cell + self.first
        # Summed in float64: of a long path in float32 the integral would lose its digits.
        if self._read is None:
            return normals(self.keys, cell, node, self.units, self.dtype).to(torch.float64)
        cell, node, needed = torch.broadcast_tensors(cell, node, needed)

        def draw(sample: Tensor, cell: Tensor, node: Tensor) -> Tensor:
            return normals(self.keys[sample], cell, node, self.units, self.dtype).to(torch.float64)

        return self._read.numbers_of(cell, node, needed, draw)

    def _within(self, cell: Tensor, share: Tensor, w: Tensor, h: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """W and its integral from the start of a cell on, at a share of it."""
        reached, area = torch.zeros_like(w), torch.zeros_like(w)
        for z, n in self._cuts(cell, share):
            d = length[..., None]
            z, n = z * d.sqrt() / 4, n * (d / 12).sqrt()  # noqa: PLW2901
            left, right = w / 2 + 1.5 * h + z, w / 2 - 1.5 * h - z
            h_left, h_right = h / 4 - z / 2 + n / 2, h / 4 - z / 2 - n / 2
            length, beyond = length / 2, share >= 0.5
            goes = beyond[..., None]
            half = d / 2
            area = torch.where(goes, area + half * (reached + left / 2 + h_left), area)
            reached = torch.where(goes, reached + left, reached)
            w, h = torch.where(goes, right, left), torch.where(goes, h_right, h_left)
            share = 2 * share - beyond.to(share.dtype)
        r, d = share[..., None], length[..., None]
        return (
            reached + r * w + 6 * r * (1 - r) * h,
            area + d * (r * reached + r * r / 2 * w + (3 - 2 * r) * r * r * h),
        )

    def _cuts(self, cell: Tensor, share: Tensor) -> Iterator[Tensor]:
        """Yield the numbers that cut nodes, (2, ...), from the root down to where the shares of cells are ends of nodes."""
        whole = (share * 2**DEPTH).floor()
        lowest = torch.where(whole > 0, whole.long() & -whole.long(), 1 << DEPTH)
        depth = torch.where(whole == share * 2**DEPTH, DEPTH + 1 - torch.frexp(lowest.to(share.dtype)).exponent, DEPTH)
        level = torch.arange(int(depth.max()), device="cpu").reshape(-1, *[1] * share.dim())
        node = ROOT * 2**level + torch.minimum((share * 2**level).floor().long(), 2**level - 1)
        # At an end of a node its cut is of no matter, whatever the numbers are.
        cuts, needed = torch.stack([2 * node, 2 * node + 1], 1), (level < depth)[:, None]
        if self._read is None:  # one level after the other: all together would take much memory
            yield from (self._normals(cell, *each) for each in zip(cuts, needed, strict=True))
        else:
            yield from self._normals(cell, cuts, needed)


class _ReadNodes:
    """Keeps of each sample the numbers that were read last at each level of the tree, of neighbours both."""

    def __init__(self, batch: int, units: int) -> None:
        places = 2 * 4 * (DEPTH + 3)
        self.names = torch.full((places, batch), -1, device="cpu")
        self.numbers = torch.zeros(places, batch, units, dtype=torch.float64, device="cpu")

    def numbers_of(self, cell: Tensor, node: Tensor, needed: Tensor, draw: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        r"""Return the numbers of cells and nodes, drawn where they are not kept: draw(sample, cell, node), (n,) each.

        Shape:   (..., batch) -> (..., batch, units).
        """
        name, sample = (cell << 32) + node, torch.arange(self.names.shape[1], device="cpu").expand_as(cell)
        level = torch.frexp(node.to(torch.float64)).exponent.to(torch.int64)
        place = 8 * level + 2 * (node & 3) + (cell & 1)
        number = self.numbers[place, sample]
        missing = needed & (self.names[place, sample] != name)
        if bool(missing.any()):
            where = place[missing], sample[missing]
            number[missing] = drawn = draw(sample[missing], cell[missing], node[missing])
            self.names[where], self.numbers[where] = name[missing], drawn
        return number


def _dyadic(share: Tensor, size: Tensor) -> Tensor:
    """Shares of a cell, those at a node of the tree but for the rounding of times, that many lengths large, moved there."""
    node = (share * 2**DEPTH).round() * 2.0**-DEPTH
    return torch.where((share - node).abs() <= 4 * torch.finfo(share.dtype).eps * (1 + size), node, share)
