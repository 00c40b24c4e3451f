r"""Paths x(t): knots t_0 < t_1 < ... < t_n, and between two of them a smooth piece.

A piece is called by its number, never found by rounding a time: at a knot both neighbours are defined, and a solver that
works on piece k must get piece k. Times are float64 whatever the samples are. Knots are shared by a batch, or every sequence
has its own: (pieces + 1, batch).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.formulas import aligned
from ctrnn.forward import jvp
from ctrnn.own_code import inherits_beside, without_derived

__all__ = ["Data", "GatheredPath", "MappedPath", "Path", "Piece", "across", "column", "piece_numbers"]

Data = Sequence[Tensor]  # what some pieces are made of: samples and knots, or only the pieces' numbers


class Path(AnsweredInit, ABC):
    r"""A function of time made of smooth pieces; one of your own gives `knots`, `at` and `slope`.

    `knots` is (pieces + 1,) or (pieces + 1, batch), float64. `steady`: x is constant on each piece. `own_times`: a time for
    each sequence costs no more than one for all. `degree`: that of the pieces as polynomials of time; None: not known.

    Solvers evaluate a piece many times: `gather` collects its data once, and `evaluate` and `differentiate` use them.

    Shape:   path(t): t () -> (batch, feature); t (n,) -> (n, batch, feature); t (n, batch), a time for each sequence, likewise.
             gather(k): k (), (n,), or (n, batch), for every sequence its own piece.
             evaluate(data, t): like path(t), and t (batch, 1) -> (batch, feature), t (n, batch, 1) -> (n, batch, feature).
    Raises:  ValueError for times outside the interval (beyond an end by at most 4 ulp they are the end); TypeError for a class
             that replaces some of what another class's pieces are read by, and not all of it.
    """

    knots: Tensor
    steady = False
    own_times = False
    degree: int | None = None
    equations: tuple[str, ...] = ()  # in LaTeX, as notebooks show them

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        is_called_only = "__call__" in vars(cls) and not {"at", "evaluate"} & vars(cls).keys()
        beside = (("at", "evaluate"), ("evaluate", "differentiate"))
        if is_called_only or any(inherits_beside(cls, own, other, Path) for own, other in beside):
            raise TypeError(
                f"The path {cls.__name__} would be solved as the one it descends from, whose pieces are read by `evaluate` and "
                "`differentiate`; give both, of what `gather` collects, or descend from `ctrnn.inputs.Path` and give `knots`, "
                "`at` and `slope`."
            )
        # Of other values these would be wrong.
        without_derived(cls, Path, ["evaluate", "gather"], ["map", "probe", "degree", "steady"])

    @abstractmethod
    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Evaluate piece k at time t, in or near its interval: both scalars, or both (n,)."""

    @abstractmethod
    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Differentiate piece k at time t, as `at`."""

    def gather(self, k: int | Tensor) -> Data:
        """Collect the data of pieces k: here their numbers, and those of the sequences."""
        numbers, samples = column(k), torch.arange(self.batch, device="cpu")
        samples = samples[:, None] if numbers.dim() > 1 else samples
        return numbers, samples.expand(*numbers.shape[:1], *samples.shape)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        """Return x(t) on the pieces that the data are of."""
        return _by_number(self.at, data, t)

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        """Return dx/dt, as `evaluate`."""
        return _by_number(self.slope, data, t)

    def probe(self) -> Path:
        """Return a path whose pieces are as smooth as these, whatever the samples: itself where nothing better is known."""
        return self

    @cached_property
    def batch(self) -> int:
        """How many sequences there are."""
        return self.knots.shape[1] if self.knots.dim() > 1 else len(self.at(0, self.knots[0].detach()))

    @property
    def example(self) -> Tensor:
        """A value of the path, (batch, feature), which tells what all are like."""
        return self(self.knots[:1].detach())[0]

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time; of sequences with times of their own, those they have in common."""
        return float(self.knots[0].detach().max()), float(self.knots[-1].detach().min())

    def piece(self, k: int) -> Piece:
        """Return piece k, smooth on [knots[k], knots[k + 1]]; k counts from the end where negative, as in a list."""
        pieces = len(self.knots) - 1
        if self.knots.dim() > 1:
            raise ValueError("Every sequence of this path has its own knots, and no piece is everyone's; evaluate it at times.")
        try:
            number = operator.index(k)
        except TypeError as error:
            raise TypeError(f"`k` must be a whole number, got {k!r}.") from error
        if not -pieces <= number < pieces:
            raise IndexError(f"There is no piece {number}: the path has {pieces}.")
        return Piece(self, number % pieces)

    def __call__(self, t: float | Tensor) -> Tensor:
        times = checks.evaluation_times("t", t, 2)
        return self._by_sequence(times) if self.knots.dim() > 1 or times.dim() > 1 else self.at(*self._find(times))

    def derivative(self, t: float | Tensor) -> Tensor:
        """Return dx/dt, at a knot that of the piece that begins there; shapes as of the path itself."""
        return self.slope(*self._find(checks.evaluation_times("t", t)))

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        """Return the path f(x(t)), for an f that keeps the leading axes; `affine` if f(x) = A x + b."""
        mapped = MappedPath(self, f)
        mapped.degree = self.degree if affine else None
        return mapped

    def __repr__(self) -> str:
        start, end = self.interval
        return f"{type(self).__name__}({self._made_of()}, on [{start:g}, {end:g}])"

    def _made_of(self) -> str:
        return f"pieces={len(self.knots) - 1}"

    @property
    def letter(self) -> str:
        """What its last equation calls it: x, or y and z for what is made of another path."""
        return self.equations[-1][0] if self.equations else "x"

    def made_into(self, right: Callable[[str], str]) -> tuple[str, ...]:
        """The equations of a path made of this one: `right`, of this one's letter, is the right side of the last."""
        above = {"x": "y", "y": "z"}.get(self.letter, "u")
        return *self.equations, f"{above}(t) = {right(self.letter)}"

    def _repr_latex_(self) -> str:
        start, end = (f"{time:g}".replace("inf", r"\infty") for time in self.interval)
        with torch.no_grad():
            sizes = r" \times ".join(str(size) for size in self(self.knots.detach()[:1].nan_to_num(neginf=0.0)).shape[1:])
        return aligned([*self.equations, rf"{self.letter} : [{start}, {end}] \to \mathbb{{R}}^{{{sizes or 1}}}"])

    def _find(self, t: Tensor) -> tuple[int | Tensor, Tensor]:
        if self.knots.dim() > 1:
            raise ValueError("Every sequence of this path has its own knots; only `path(t)` is there for such paths.")
        times = checks.within("t", t, *self.interval)
        k = piece_numbers(self.knots, times)
        return (k, times) if times.dim() else (int(k), times)

    def _by_sequence(self, t: Tensor) -> Tensor:
        """Evaluate each sequence at its own times, (n, batch), or all at shared times, each on its own pieces."""
        if t.dim() > 1 and t.shape[1] != self.batch:
            raise ValueError(f"`t` has times for {t.shape[1]} sequences, the path has {self.batch}.")
        times = t if t.dim() > 1 else t.reshape(-1, 1).expand(-1, self.batch)
        knots = self.knots.detach()
        times = checks.within("t", times, knots[0], knots[-1])
        values = self.evaluate(self.gather(piece_numbers(knots, times)), times[..., None])
        return values if t.dim() else values[0]


class GatheredPath(Path):
    """A path that is one formula in the data of a piece: subclasses give `gather`, `evaluate` and `differentiate`."""

    own_times = True

    @abstractmethod
    def gather(self, k: int | Tensor) -> Data: ...

    @abstractmethod
    def evaluate(self, data: Data, t: Tensor) -> Tensor: ...

    @abstractmethod
    def differentiate(self, data: Data, t: Tensor) -> Tensor: ...

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self.evaluate(self.gather(k), t)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self.differentiate(self.gather(k), t)


class MappedPath(GatheredPath):
    r"""f(x(t)), evaluated anew at each time; what `Path.map` gives where nothing better is known.

    Args:    path: any path; f: (..., feature) -> (..., other), smooth, keeping the leading axes.
    """

    path: Path
    f: Callable[[Tensor], Tensor]
    knots: Tensor
    steady: bool
    own_times: bool

    def __init__(self, path: Path, f: Callable[[Tensor], Tensor]) -> None:
        self.path, self.f, self.knots = path, f, path.knots
        self.steady, self.own_times = path.steady, path.own_times
        self.equations: tuple[str, ...] = path.made_into(lambda x: f"f({x}(t))")

    def _made_of(self) -> str:
        return f"{self.path!r}, {getattr(self.f, '__qualname__', type(self.f).__name__)}"

    def gather(self, k: int | Tensor) -> Data:
        return self.path.gather(k)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        return self.f(self.path.evaluate(data, t))

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        x, slope = self.path.evaluate(data, t), self.path.differentiate(data, t)
        return jvp(self.f, (x,), (slope,))[1]


@dataclass(frozen=True)
class Piece:
    """Piece k of a path: smooth on [start, end], ends included."""

    path: Path
    number: int

    def __call__(self, t: float | Tensor) -> Tensor:
        return self.path.at(*self._numbered(t))

    def derivative(self, t: float | Tensor) -> Tensor:
        return self.path.slope(*self._numbered(t))

    def _numbered(self, t: float | Tensor) -> tuple[int | Tensor, Tensor]:
        times = checks.within("t", checks.evaluation_times("t", t), self.start, self.end)
        return (torch.full(times.shape, self.number, device="cpu") if times.dim() else self.number), times

    @property
    def start(self) -> float:
        return float(self.path.knots[self.number].detach())

    @property
    def end(self) -> float:
        return float(self.path.knots[self.number + 1].detach())


def piece_numbers(knots: Tensor, times: Tensor) -> Tensor:
    """Return the number of the piece that each time is in; a knot belongs to the piece that begins there, the last to the last.

    Shape:   knots (n,), times of any shape; or knots (n, batch), times (m, batch); or knots (n,), times (m, batch).
    """
    if knots.dim() == 1:
        numbers = torch.searchsorted(knots, times.contiguous(), right=True)
    else:
        numbers = torch.searchsorted(knots.mT.contiguous(), times.mT.contiguous(), right=True).mT
    return (numbers - 1).clamp(0, len(knots) - 2)


def column(numbers: int | Tensor) -> Tensor:
    """Turn one number for each sequence into a column: (n, batch) -> (n, batch, 1); what all share keeps its shape."""
    numbers = torch.as_tensor(numbers, device="cpu")
    return numbers[..., None] if numbers.dim() > 1 else numbers


def across(weight: Tensor, like: Tensor) -> Tensor:
    """Bring a weight by time, (), (n,), (batch, 1) or (n, batch, 1), to the shape and dtype that multiply the values `like`."""
    if weight.dim() == 0:  # a number stays where it is: torch takes it to any device
        return weight.to(like.dtype)
    weight = weight.to(device=like.device, dtype=like.dtype)
    return weight[:, None, None] if weight.dim() == 1 and like.dim() > 1 else weight


def _by_number(f: Callable[[int | Tensor, Tensor], Tensor], data: Data, t: Tensor) -> Tensor:
    """Call f with a piece's number and one time after another, for the sequences whose numbers are in the data."""
    k, samples = data
    if t.dim() == 0:
        x = f(int(k), t)
        return x if len(x) == len(samples) else x.index_select(0, samples.to(x.device))
    if t.dim() == 1:
        return f(k, t)
    if t.dim() > 2:
        return torch.stack([_by_number(f, (k[i], samples[i]), row) for i, row in enumerate(t)])
    x = f(k.reshape(-1).expand(len(t)), t.reshape(-1))  # every sequence at the time of each
    return x[torch.arange(len(t), device="cpu"), samples.reshape(-1)]
