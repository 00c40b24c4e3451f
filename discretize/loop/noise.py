r"""Lay out the noise of a sequence: addresses beside the samples, and from them the columns of each substep.

address    a sample's key in three parts, and the number of the sample: its cell
substeps   1, 2, 4, ...: terms drawn where they are used; other numbers: increments drawn ahead, by `BrownianPath`
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.combinations import refuse
from discretize import compat
from discretize.graphs import scanned
from discretize.kernels.eligibility import HALF
from discretize.noise.brownian import MOST_PARTS, BrownianPath, Cells, cell_terms, is_power_of_two
from discretize.noise.generator import Seed, fresh_keys, key_columns, keys_of, normals, other_keys
from discretize.noise.increments import GivenIncrements, KeyedIncrements, NoiseInput
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep

__all__ = [
    "NoisySamples",
    "address_columns",
    "address_of",
    "addressed",
    "given_samples",
    "keyed_samples",
    "scanned_along",
    "shared",
]


class NoisySamples(NamedTuple):
    """A field that reads noise, its samples, and their lengths."""

    field: NoiseInput
    xs: Tensor
    dt: float | Tensor


def addressed(
    seed: Seed | BrownianPath | Cells, xs: Tensor, field: VectorField, step: StochasticStep, edges: Tensor, substeps: int = 1
) -> Tensor:
    r"""Put noise beside samples xs (time, batch, input): an address, and of a `BrownianPath` its increments too.

    Shape:   edges (time + 1,) or (time + 1, batch), the times of the samples, of a path alone
             -> (time, batch, input + 4), and the increments of all substeps behind; float32 at least, for half precision has
             not the digits of an address.
    Raises:  TypeError, ValueError for seeds and paths that do not fit.
    """
    path = seed if isinstance(seed, BrownianPath) else None
    time, batch = xs.shape[:2]
    own, first = (seed.keys, seed.first) if isinstance(seed, BrownianPath | Cells) else (seed, 0)
    columns = [xs, *_address(fresh_keys(own, batch), xs, first)]
    if path is not None:
        if path.units != field.noise_channels:
            raise ValueError(
                f"`seed` is a path of {path.units} units, and the field has {field.noise_channels} Brownian motions."
            )
        share = torch.arange(substeps, dtype=torch.float64, device="cpu") / substeps
        fine = edges[:-1, None] + share.reshape(-1, *[1] * (edges.dim() - 1)) * edges.diff(dim=0)[:, None]
        increments = path.increments(torch.cat([fine.flatten(0, 1), edges[-1:]]).detach())[: 1 + step.reads_integral]
        columns += [each.to(columns[1]).unflatten(0, (time, substeps)).transpose(1, 2).flatten(2) for each in increments]
    return torch.cat(columns, -1)


def address_columns(keys: Tensor, xs: Tensor) -> Tensor:
    """Return the keys (batch,) and the cells of samples xs (time, batch, input) as columns (time, batch, 4)."""
    return torch.cat(_address(keys, xs, 0), -1)


def _address(keys: Tensor, xs: Tensor, first: Tensor | int) -> list[Tensor]:
    time, batch = xs.shape[:2]
    ends = torch.as_tensor(first, device="cpu") + time
    if not compat.is_exporting() and not checks.holds(ends < 1 << 24):  # a graph is for any time
        raise ValueError(
            f"There is noise for sequences of less than {1 << 24} samples, got {int(ends.max())}; take pieces with other seeds."
        )
    like = xs.new_zeros((), dtype=torch.float32 if xs.dtype in HALF else xs.dtype)
    numbers = torch.arange(time, device="cpu")[:, None] + torch.as_tensor(first, device="cpu")
    cells = numbers.to(like)[..., None].expand(-1, batch, 1)
    return [key_columns(keys).to(like).expand(time, -1, -1), cells]


def address_of(address: Tensor, place: int) -> Tensor:
    """Return the columns of another noise of the same samples, that of a layer."""
    keys = other_keys(keys_of(address[..., :-1]), place)
    return torch.cat([key_columns(keys).to(address), address[..., -1:]], -1)


def keyed_samples(field: VectorField, xs: Tensor, dt: float | Tensor, substeps: int, integral: bool) -> NoisySamples:
    r"""Lay out samples for a step that draws its increments, in so many substeps of each.

    Shape:   xs (time, batch, input + 4), with an address; dt a number, (time, 1, 1) or (time, batch, 1)
             -> xs (time, batch, input + columns).
    """
    assert is_power_of_two(substeps)
    if substeps > MOST_PARTS:
        raise ValueError(f"There is noise for at most {MOST_PARTS} substeps, got {substeps}.")
    sizes, root = (*xs.shape[:2], 1), _as(_root(dt), xs)
    lengths = [root.new_zeros(()), root, root * _as(dt, xs)][: 2 + integral]
    every = torch.cat([xs, *(torch.broadcast_to(each, sizes) for each in lengths)], -1)
    return NoisySamples(KeyedIncrements(field, substeps, integral), every, dt)


def scanned_along(field: VectorField, step: Step, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """The state after each sample, for torch.export, with noise or without, which a graph draws from the keys it is given.

    Shape:   xs (time, batch, input), or with noise (time, batch, input + 4), with an address -> (time, batch, state).
    """
    if not step.noisy:
        return scanned(field, step, xs, h0, dt, substeps)
    if not compat.EXPORTS_NOISE:
        raise TypeError(f"torch {torch.__version__} cannot export a sequence with noise; torch 2.12 can.")
    assert isinstance(step, StochasticStep)
    if not is_power_of_two(substeps):
        refuse("uneven parts", "export", f"substeps={substeps}", "torch.export")
    laid = keyed_samples(field, xs, dt, substeps, step.reads_integral)
    assert isinstance(laid.field, KeyedIncrements)
    parts = torch.stack([laid.field.at_part(laid.xs, part) for part in range(substeps)], 1)
    return scanned(laid.field, step, parts.flatten(0, 1), h0, dt / substeps, 1)[substeps - 1 :: substeps]


def given_samples(
    field: VectorField, xs: Tensor, address: Tensor, dt: float | Tensor, substeps: int, integral: bool
) -> NoisySamples:
    r"""Lay out samples with increments that are drawn ahead, one for each substep.

    Shape:   xs (time, batch, input), address (time, batch, 4), dt as for `keyed_samples`
             -> xs (time substeps, batch, input + columns), dt likewise.
    """
    keys, cells = keys_of(address[..., :-1]), address[..., -1].detach().cpu().to(torch.int64)
    drawing = torch.float64 if xs.dtype == torch.float64 else torch.float32
    # Every sample is a cell of length 1: a Brownian motion of length D is that times the root of D.
    draw = _of_equal_parts if is_power_of_two(substeps) else _of_other_parts
    drawn = draw(keys, cells, field.noise_channels, substeps, integral, drawing)
    w, z = (each.to(xs).transpose(0, 1).flatten(0, 1) for each in drawn)
    root, whole = _as(_root(dt), xs), torch.as_tensor(dt, dtype=xs.dtype, device=xs.device)
    parts = [w * _repeated(root, substeps), *([z * _repeated(root * whole, substeps)] if integral else [])]
    return NoisySamples(
        GivenIncrements(field, integral), torch.cat([xs.repeat_interleave(substeps, 0), *parts], -1), shared(dt, substeps)
    )


def _of_equal_parts(
    keys: Tensor, cells: Tensor, width: int, parts: int, integral: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    r"""Draw the increments over the parts of cells of length 1, by the terms that kernels read, and their integrals if asked for.

    Shape:   keys, cells (time, batch) -> twice (parts, time, batch, width).
    """
    terms = cell_terms(parts, integral)
    nodes, places = terms.nodes.unique(return_inverse=True)
    # One node after the other: the words of all do not fit into a cache.
    numbers = torch.stack([normals(keys, cells, node, width, dtype) for node in nodes])
    w, z = torch.zeros((), dtype=dtype, device="cpu"), torch.zeros((), dtype=dtype, device="cpu")
    for place, of_w, of_integral in zip(places.mT, terms.of_w.mT, terms.of_integral.mT, strict=True):
        number = numbers[place]
        w = w + _column(of_w, dtype) * number
        z = z + _column(of_integral, dtype) * number if integral else w
    return w, z


def _of_other_parts(
    keys: Tensor, cells: Tensor, width: int, parts: int, integral: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The same for any number of parts, by the path."""
    knots, edges = (torch.linspace(0, 1, n + 1, dtype=torch.float64, device="cpu") for n in (1, parts))
    path = BrownianPath(keys.flatten(), knots, width, first=cells.flatten(), dtype=dtype)
    w, z = (each.unflatten(1, keys.shape) for each in path.increments(edges))
    return w, z


def _column(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(dtype)[:, None, None, None]


def _root(dt: float | Tensor) -> float | Tensor:
    """The root of a length, 0 of none, whose derivative there is 0 and not infinite: sequences that are over stand still."""
    if not isinstance(dt, Tensor):
        return dt**0.5
    return torch.where(dt > 0, dt, 1).sqrt() * (dt > 0)


def _as(value: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)


def _repeated(value: Tensor, substeps: int) -> Tensor:
    return value.repeat_interleave(substeps, 0) if value.dim() else value


def shared(dt: float | Tensor, substeps: int) -> float | Tensor:
    return _repeated(dt, substeps) / substeps if isinstance(dt, Tensor) else dt / substeps
