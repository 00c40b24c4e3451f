r"""Measures the leak of a field that declares none, and finds the biases that set it, from what its code does.

    dh/dt = N - L h

At rest, where input and state are 0, L is what the state loses by itself: dh/dt less that with a state of 1, while all that
goes through weights, and all sums over units, keep what they give at rest. For h -> g (tanh(W h + b) - h) that is the gate
g; for a decay |h|^r h it is the rate of a state of size 1.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ctrnn.calls import answered
from ctrnn.fields.field import VectorField

__all__ = ["Entries", "biases_of_leak", "leak_rounding", "reads_code", "rest_leak", "traced_leak"]

# Products with weights, and what is taken over several units: all else is a function of each unit.
PRODUCTS = {"linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "mv", "bmm", "addmm", "addmv", "addbmm", "baddbmm"}
PRODUCTS |= {"dot", "inner", "outer", "einsum", "tensordot", "conv1d", "conv2d"}
OVER_UNITS = {
    "sum",
    "mean",
    "std",
    "var",
    "norm",
    "vector_norm",
    "softmax",
    "log_softmax",
    "logsumexp",
    "prod",
    "cumsum",
    "cumprod",
}
OVER_UNITS |= {"max", "min", "amax", "amin", "layer_norm", "group_norm", "rms_norm", "normalize"}
MIXING = PRODUCTS | OVER_UNITS
ROUNDINGS = 64.0  # of the slopes whose difference a leak is
LOWEST, HIGHEST, HALVINGS = -50.0, 50.0, 100  # where a bias is looked for


class Entries(NamedTuple):
    """Holds flat entries of a parameter, and the function that gives their values for units that forget at given rates."""

    owner: nn.Module
    name: str
    rows: slice | Tensor
    of_rate: Callable[[Tensor], Tensor]  # (rows,) -> (rows,), in float64
    bound: float = math.inf  # that rates stay below


@answered
def traced_leak(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    r"""Compute the leak from the code of `flow`; write `leak = ctrnn.traced_leak` in the class of a field of your own.

    L = F(0) - F(1), each unit's own state at 0 and at 1 while products with weights, and sums over units, stay as they are at h:
    the L of any dh/dt = N - L h whose N and L have h only through those. Then exponential steps keep what decays exactly,
    instead of being Euler's. Of a state of several parts each part is moved alone. Costs the products once more.

    Shape:   projected (..., projected), h (..., state) -> (..., state), per unit of time.
    """
    kept: list[Any] = []
    with _Mixing(kept, record=True):
        field.flow(projected, h)
    leak = torch.zeros_like(h)
    for units in _parts(field, h):
        lost = _again(field, projected, torch.where(units, 0.0, h), kept) - _again(
            field, projected, torch.where(units, 1.0, h), kept
        )
        leak = torch.where(units, lost, leak)
    return leak


def reads_code(field: VectorField) -> bool:
    """Return whether the leak is read off the code of `flow`: the field defines none, or sets `leak = ctrnn.traced_leak`."""
    return inspect.unwrap(type(field).leak) in (inspect.unwrap(VectorField.leak), inspect.unwrap(traced_leak))


@torch.no_grad()
def rest_leak(field: VectorField) -> Tensor:
    r"""Return L at zero input and zero state, of a declared `leak`, else of the code: (state,), per unit of time.

    Raises:  TypeError where units depend on one another in other ways than by products and sums.
    """
    state = torch.zeros_like(field.initial_state(1))
    projected = field.project(state.new_zeros(1, field.input_size))
    if not reads_code(field):
        return field.leak(projected, state).expand_as(state)[0]
    kept: list[Any] = []
    with _Mixing(kept, record=True):
        rest = field.flow(projected, state)
    for units in _parts(field, state):
        half = units & (torch.arange(state.shape[1], device="cpu") % 2 == 1)
        lost, of_half = (rest - _again(field, projected, each.to(state).expand_as(state), kept) for each in (units, half))
        rounding = _rounding(rest, lost)
        if bool((units & ((of_half - lost * half).abs() > 1e-3 * lost.abs() + rounding)).any()):
            raise TypeError(
                f"`field` is a {type(field).__name__} whose units act on one another by more than products with weights; "
                "give it a `leak`."
            )
    return traced_leak(field, projected, state)[0]


@torch.no_grad()
def leak_rounding(field: VectorField) -> Tensor:
    """Return the rounding error of a leak at rest that is read off the code, for each unit: (state,)."""
    state = torch.zeros_like(field.initial_state(1))
    rest = field.flow(field.project(state.new_zeros(1, field.input_size)), state)
    return _rounding(rest, rest_leak(field))[0]


def _rounding(rest: Tensor, leak: Tensor) -> Tensor:
    return ROUNDINGS * torch.finfo(rest.dtype).eps * (rest.abs() + leak.abs())


def biases_of_leak(field: VectorField) -> list[Entries]:
    r"""Find the entries of biases and constants, parameters of one axis, that alone set each unit's leak.

    Of several that do, the first as the field names them; units whose leak no entry sets have none.
    """
    twin = copy.deepcopy(field).double()
    before = rest_leak(twin)
    free, found = torch.ones_like(before, dtype=torch.bool), []
    for (path, parameter), (_, own) in zip(twin.named_parameters(), field.named_parameters(), strict=True):
        if own.dim() > 1 or not own.is_floating_point():
            continue
        entry = _entry_of(twin, parameter, before)
        mine = free & (entry >= 0)
        if mine.any():
            rows, which = entry[mine].unique(return_inverse=True)
            units = mine.nonzero()[:, 0]
            free &= ~mine
            owner, _, name = path.rpartition(".")
            solve = _Solve(twin, parameter, rows, units, which)
            found.append(Entries(field.get_submodule(owner), name, rows, solve))
    return found


class _Mixing(TorchFunctionMode):
    """Records the results of products and sums, or replays them."""

    def __init__(self, kept: list[Any], record: bool) -> None:
        super().__init__()
        self.kept, self.record, self.again = kept, record, iter(tuple(kept))

    def __torch_function__(self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in MIXING:
            return func(*args, **(kwargs or {}))
        if not self.record:
            return next(self.again)
        self.kept.append(func(*args, **(kwargs or {})))
        return self.kept[-1]


def _parts(field: VectorField, h: Tensor) -> list[Tensor]:
    """Return a mask of each hidden-size block of the state: (state,) each."""
    count = max(1, field.state_size // field.hidden_size)
    number = (torch.arange(field.state_size, device=h.device) // field.hidden_size).clamp(max=count - 1)
    return [number == part for part in range(count)]


def _again(field: VectorField, projected: Tensor, state: Tensor, kept: list[Any]) -> Tensor:
    with _Mixing(kept, record=False):
        return field.flow(projected, state)


def _entry_of(field: VectorField, parameter: Tensor, before: Tensor) -> Tensor:
    """Return for each unit the one entry of a parameter that its leak depends on, -1 if there is none or more: (state,).

    The entries are moved in groups, those that have a bit of their number and those that have it not.
    """
    flat, places = parameter.data.view(-1), torch.arange(parameter.numel(), device="cpu")
    entry, alone = torch.zeros_like(before, dtype=torch.long), _moved(field, flat, places >= 0, before)
    for bit in range(max(1, (len(places) - 1).bit_length())):
        has = (places >> bit) % 2 == 1
        one, other = (_moved(field, flat, group, before) for group in (has, ~has))
        alone &= one != other
        entry += one.long() << bit
    return torch.where(alone, entry, -1)


def _moved(field: VectorField, flat: Tensor, group: Tensor, before: Tensor) -> Tensor:
    kept, rounding = flat.clone(), leak_rounding(field)
    flat[group] += 0.125
    moved = (rest_leak(field) - before).abs() > torch.maximum(leak_rounding(field), rounding)
    flat.copy_(kept)
    return moved


class _Solve:
    """Finds by bisection the entries at which units have given leaks."""

    def __init__(self, field: VectorField, parameter: Tensor, rows: Tensor, units: Tensor, which: Tensor) -> None:
        self.field, self.flat, self.rows = field, parameter.data.view(-1), rows
        self.units, self.which = units, which  # the row of each of the units

    @torch.no_grad()
    def __call__(self, rates: Tensor) -> Tensor:
        low, high = (torch.full((len(self.rows),), at, dtype=torch.float64, device="cpu") for at in (LOWEST, HIGHEST))
        falling, rising = self._beyond(low, rates), self._beyond(high, rates)
        if bool((falling == rising).any()):
            T = 1 / rates[(falling == rising).nonzero()[0, 0]]
            raise ValueError(
                f"`module` has a {type(self.field).__name__} of which no bias makes the leak 1/T for T = {float(T):g}."
            )
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._beyond(middle, rates) == falling
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def _beyond(self, entries: Tensor, rates: Tensor) -> Tensor:
        """Return whether the leak exceeds the rate, for each row by the first of its units."""
        kept = self.flat.clone()
        self.flat[self.rows] = entries.to(self.flat)
        above = rest_leak(self.field)[self.units] > rates.to(entries)[self.which]
        self.flat.copy_(kept)
        first = torch.zeros(len(self.rows), dtype=torch.long, device="cpu").scatter_reduce_(
            0, self.which, torch.arange(len(self.which), device="cpu"), "amin", include_self=False
        )
        return above[first]
