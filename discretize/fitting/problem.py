"""A fit's problem: the equation, what is measured of its states, the series, and all that is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from discretize.fitting.equation import Named, Shapes, arguments_of, weights_of
from discretize.fitting.series import MeasuredSeries, as_series
from discretize.fitting.unknowns import Unknown, as_unknown, as_unknowns

__all__ = ["Problem", "as_problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Checked, and in float64 on the CPU.

    unknowns: numbers of the parameters first, then initial states, series by series; shapes: of parameters and constants;
    states, outputs: their names; observe: for each output the index of its state, or its function; start: known initial states
    (series, state), nan where fitted; start_at: the index of the unknown there, perhaps a parameter, -1 where known; constants
    (series, numbers).
    """

    equation: Named
    unknowns: list[Unknown]
    shapes: Shapes
    states: list[str]
    outputs: list[str]
    observe: list[int | Named]
    series: list[MeasuredSeries]
    start: Tensor
    start_at: Tensor
    constants: Tensor
    arrays: dict[str, tuple[int, tuple[int, ...]]]  # of parameters: where their numbers begin, and the shape
    params: int  # how many numbers they are

    @property
    def count(self) -> int:
        """How many numbers were measured."""
        return sum(int((~series.values.isnan()).sum()) for series in self.series)

    def seen(self, h: Tensor, t: Tensor, q: Tensor) -> Tensor:
        """Return the outputs (batch, outputs) of states (batch, state) at times (batch, 1)."""
        return torch.cat([h[:, at : at + 1] if isinstance(at, int) else at(t, h, q) for at in self.observe], 1)


def as_problem(f: Any, data: object, params: Any, h0: Any, observe: object) -> Problem:
    """Check what `fit` is given."""
    if not callable(f):
        raise TypeError(f"`f` must be a function f(t, h, **params) or a module, got {type(f).__name__}.")
    if isinstance(f, VectorField) and f.input_size:
        raise TypeError(f"`f` has {f.input_size} inputs; give a module of (t, h) that drives it, as `ctrnn.Driven(field, path)`.")
    params = _of_weights(f, params)
    numbers = as_unknowns(params)
    names = None if h0 is None else list(h0) if isinstance(h0, Mapping) else None
    if h0 is not None and not names:
        raise TypeError(f"`h0` must be a dict, state: its number or (start, low, high), in the order of h; got {h0!r}.")
    outputs = _output_names(observe, names)
    series = as_series(data, outputs)
    states = names or [f"h{k + 1}" for k in range(series[0].values.shape[1])]
    outputs = outputs or states
    shapes: Shapes = {name: _shape(params[name]) for name in numbers}
    clash = shapes.keys() & series[0].constants.keys()
    if clash:
        raise ValueError(f"{sorted(clash)} are both in `params` and constants of the data; keep one.")
    shapes |= dict.fromkeys(series[0].constants, ())
    functions = observe if isinstance(observe, Mapping) else {}
    _check_all_taken(f, functions, shapes, {at for at in (h0 or {}).values() if isinstance(at, str)})
    width = len(states)
    seen = [
        Named(at, shapes, name, 1) if callable(at) else states.index(at or name)
        for name, at in (functions or dict.fromkeys(outputs)).items()
    ]
    unknowns = [number for each in numbers.values() for number in each]
    ends = torch.tensor([0, *map(len, numbers.values())]).cumsum(0).tolist()
    arrays = {name: (at, shapes[name]) for name, at in zip(numbers, ends, strict=False)}
    start, start_at = _starts(h0, states, series, unknowns)
    constants = torch.tensor([list(one.constants.values()) for one in series], dtype=torch.float64).reshape(len(series), -1)
    return Problem(
        Named(f, shapes, "f", width),
        unknowns,
        shapes,
        states,
        outputs,
        seen,
        series,
        start,
        start_at,
        constants,
        arrays,
        ends[-1],
    )


def _shape(given: Sequence[Any]) -> tuple[int, ...]:
    return tuple(torch.as_tensor(given[0]).shape)


def _of_weights(f: object, params: Any) -> Any:
    """Have one start for all numbers of a weight be that for each."""
    if not isinstance(params, Mapping):
        return params
    weights, found = weights_of(f), dict(params)
    for name, given in params.items():
        weight = weights.get(name)
        if weight is not None and weight.numel() > 1 and isinstance(given, tuple | list) and len(given) == 3:
            found[name] = (torch.as_tensor(given[0], dtype=torch.float64).expand(weight.shape).numpy(), *given[1:])
    return found


def _output_names(observe: object, states: list[str] | None) -> list[str] | None:
    """Return the names of what is measured; None: each state."""
    if observe is None:
        return states
    if isinstance(observe, str) or not isinstance(observe, Mapping | Sequence) or not observe:
        raise TypeError(f"`observe` must be names of states, or a dict, output: f(t, h, **params), got {observe!r}.")
    if states is None:
        raise ValueError(
            "`observe` says that not each state is measured; then `h0` must name all states and say where they start."
        )
    for name in observe:
        at = observe[name] if isinstance(observe, Mapping) else name
        if at not in states and not (callable(at) and isinstance(observe, Mapping)):
            raise ValueError(f"`observe` has {at!r}, which is no state; these are {', '.join(map(repr, states))}.")
    return list(observe)


def _check_all_taken(f: Any, functions: Mapping[str, Any], shapes: Shapes, starts: set[str]) -> None:
    taken = arguments_of(f, shapes, "f").union(*(arguments_of(at, shapes, n) for n, at in functions.items() if callable(at)))
    for name in shapes:
        if name not in taken | starts:
            weights = f"; its weights are {', '.join(weights_of(f))}" if weights_of(f) else ""
            raise ValueError(
                f"`f` takes no `{name}`{weights}; each parameter and constant is an argument after t and h, by name."
            )


def _starts(h0: Any, states: list[str], series: list[MeasuredSeries], unknowns: list[Unknown]) -> tuple[Tensor, Tensor]:
    """Return known initial states and the indices of fitted ones, whose unknowns are put behind those of the parameters."""
    start = torch.full((len(series), len(states)), torch.nan, dtype=torch.float64)
    at = torch.full(start.shape, -1)
    known = [unknown.name for unknown in unknowns]
    for k, one in enumerate(series):
        for i, state in enumerate(states):
            given = (_first(one.values[:, i], state), None, None) if h0 is None else h0[state]
            if isinstance(given, Tensor) and given.dim():
                if given.shape != (len(series),):
                    raise ValueError(
                        f"`h0` of {state!r} must be a number for each of {len(series)} series, got {tuple(given.shape)}."
                    )
                given = given[k]
            if isinstance(given, str):
                if given not in known:
                    raise ValueError(f"`h0` of {state!r} is {given!r}, which is no number in `params`: {', '.join(known)}.")
                at[k, i] = known.index(given)
                continue
            if not isinstance(given, tuple | list):
                start[k, i] = checks.finite_number(f"h0 of {state}", given)
                continue
            name = f"{state}(0)" + (f"[{k}]" if len(series) > 1 else "")
            if name in known:
                raise ValueError(f"`{name}` is the name of a fitted initial state, and in `params` too; rename it there.")
            at[k, i] = len(unknowns)
            unknowns.append(_of_data(name, given, one.values[:, i]) if h0 is None else as_unknown(name, given))
    return start, at


def _first(values: Tensor, state: str) -> float:
    there = values[~values.isnan()]
    if not len(there):
        raise ValueError(f"A series has no value of {state!r}, and `h0` is not given; say where it starts, or may start.")
    return float(there[0])


def _of_data(name: str, given: Sequence[Any], values: Tensor) -> Unknown:
    """Return the unknown that starts where the data do; at 0 it counts in their largest."""
    largest = float(values.nan_to_num(0).abs().max())
    if given[0] or not largest:
        return as_unknown(name, given)
    return Unknown(name, given[0], -1e6 * largest, 1e6 * largest)
