r"""Take one sample of a stream at a time: output_k, state_k = model.live_step(x_k, state_k-1).

    first call     checks its arguments, and makes a plan
    later calls    follow the plan, while all that it was made for is as it was: torch's functions for a cell of torch's or a
                   gated one, else the step of the loop over sequences, `step.advance(field, field.project(x), h, dt)`

A plan keeps no copy of a weight, and no step waits for a kernel to be built. Without a plan a step is a sequence of one sample:
noise, masks of dropout in training, computed weights, solves to a tolerance, and jumps.
"""

from __future__ import annotations

import math
from itertools import chain
from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for, casts, device_kind
from ctrnn.combinations import check_pairs, refuse
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField
from ctrnn.fields.dropout import Dropout, masked
from ctrnn.fields.field import check_input, check_state
from ctrnn.fields.parts import Part
from ctrnn.fields.relaxation import Relaxation
from ctrnn.inputs.samples import checked_samples
from ctrnn.own_code import HOOKS
from discretize import compat
from discretize.kernels.eligibility import transform_reason
from discretize.kernels.price import without_building
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed
from discretize.sequences.overshoot import OvershootWatch
from discretize.sequences.ragged import RaggedCall
from discretize.sequences.unit_steps import unit_step
from discretize.solvers.fixed import num_steps_of
from discretize.steps.euler import Euler
from discretize.steps.step import Step, step_length
from discretize.units import look_at_intervals

__all__ = ["LiveMap", "cell_step", "live_step"]

Module = Any  # a `SequenceModule` or `DiscreteCell`, which import this file
UNIT = (1.0, 1, None, False)  # one step of length 1
MOST = 1 << 24  # samples of a sequence with noise, which float32 counts


class LiveMap(NamedTuple):
    """Say how a module steps through a sample: by which map, how long one is by itself, in how many equal steps or how long
    ones; `checked`: whether a state that is not finite is an error."""

    step: Step
    dt: float
    substeps: int = 1
    max_step: float | None = None
    checked: bool = False
    watch: OvershootWatch | None = None

    def steps_in(self, length: float | Tensor) -> int | None:
        """Return how many steps a sample takes; None where each sample of a batch takes its own."""
        if self.max_step is None:
            return self.substeps
        return None if isinstance(length, Tensor) else num_steps_of(length, self.max_step)


class _Plan:
    """Runs the samples of a module's stream, or of a cell's, whose states have no axis of layers in front.

    `names` are of what the module keeps beside the field, and a step depends on.
    """

    def __init__(
        self, module: nn.Module, field: VectorField, given: LiveMap, names: tuple[str, ...], lead: bool, dtype: torch.dtype
    ) -> None:
        self.field, self.map, self.lead = field, given, lead
        self.inputs, self.width, self.dtype = field.input_size, field.state_size, dtype
        self.kind = device_kind(field.device)
        self.names, self.settings = names, [*map(vars(module).get, names)]
        modules = [*field.modules()]
        self.modules, self.kinds = modules, [*map(type, modules)]
        self.dicts = [*map(vars, modules)]
        self.sizes = [*map(len, self.dicts)]
        self.tables = [part._modules for part in modules if part._modules]
        self.parts = [*chain.from_iterable(map(dict.values, self.tables))]
        self.weights = [part._parameters for part in modules if part._parameters]
        self.names_of_weights = [*chain.from_iterable(self.weights)]
        self.hooks = [getattr(part, name) for part in modules for name in HOOKS]
        self.dropouts = [part for part in modules if isinstance(part, Dropout)]
        self.is_euler: bool = given.step.known_name == Euler.name and not vars(given.step)
        is_unit = (given.dt, given.substeps, given.max_step, given.checked) == UNIT
        self.unit = unit_step(field) if self.is_euler and is_unit else None
        # How long the last sample was, and in how many steps; one object, for threads may share a module.
        self.last: tuple[float, int | None] = given.dt, given.steps_in(given.dt)
        shows: list[Any] = [field, field.candidate] if type(field).visible is Relaxation.visible else [field]
        is_plain = type(shows[-1]).visible in (VectorField.visible, Part.visible)
        is_plain = is_plain and not any("visible" in vars(part) for part in shows)
        sees_all = is_plain and field.hidden_size == field.state_size
        self.visible = None if sees_all else field.visible
        self.shapes = torch.Size(), torch.Size()  # of the last sample and its state
        # Asked at every step, and looked up once. A torch that cannot tell refuses by itself.
        self.is_transformed = bool if compat.missing(["transforms_are_active"]) else compat.transforms_are_active

    def take(self, module: nn.Module, x: Tensor, state: Any, dt: Any) -> tuple[Tensor, Tensor] | None:
        """Return the output and the state after a sample; None where this plan is not for it."""
        if type(x) is not Tensor:
            return None
        sample = x.shape
        if state is None:
            state = x.new_zeros((1, *sample[:-1], self.width) if self.lead else (*sample[:-1], self.width))
        elif type(state) is not Tensor:
            return None
        if (
            ((sample, state.shape) != self.shapes and not self.fits(sample, state.shape))
            or x.dtype is not self.dtype
            or state.dtype is not self.dtype
            or torch.is_autocast_enabled(self.kind)
            or self.is_transformed()
            or not self.holds(module)
        ):
            return None
        try:
            if len(sample) == 2:
                h = state[0] if self.lead else state
                return self.unit(x, h, state) if dt is None and self.unit is not None else self.run(x, h, state, dt)
            rows = state if self.lead else state[None]
            result = self.run(x[None], rows, rows, dt)
        except RuntimeError:  # of torch, which the checks then say in words, or of a step that has no solution
            return None
        return result and (result[0][0], result[1] if self.lead else result[1][0])

    def fits(self, sample: torch.Size, state: torch.Size) -> bool:
        """Return whether these are the shapes of a sample and of a state, which then are known."""
        right = (1, *sample[:-1], self.width) if self.lead else (*sample[:-1], self.width)
        if not 0 < len(sample) < 3 or sample[-1] != self.inputs or state != right:
            return False
        self.shapes = sample, state
        return True

    def holds(self, module: nn.Module) -> bool:
        """Return whether the field has the parts and the parameters that it had, and the module its settings."""
        own = module.__dict__
        return (
            own["_modules"]["field"] is self.field
            and all(map(is_, map(own.get, self.names), self.settings))
            and [*chain.from_iterable(map(dict.values, self.tables))] == self.parts
            and [*chain.from_iterable(self.weights)] == self.names_of_weights  # one may have become a buffer
            and [*map(type, self.modules)] == self.kinds
            and [*map(len, self.dicts)] == self.sizes
            and not any(self.hooks)
            and not (self.dropouts and any(part.training for part in self.dropouts))
        )

    def run(self, x: Tensor, h: Tensor, whole: Tensor, dt: Any) -> tuple[Tensor, Tensor] | None:
        """Take the steps of the loop over sequences, x (batch, input), h (batch, state), all of `whole`."""
        if dt is None and self.unit is not None:
            return self.unit(x, h, whole)
        length = self.map.dt if dt is None else dt if type(dt) is float and 0 < dt < math.inf else step_length(dt, h)
        known, count = self.last
        if length is not known:
            count = self.map.steps_in(length)
            if not isinstance(length, Tensor):  # which may hold a graph
                self.last = length, count
        if count is None:
            return None
        after = advance(self.field, self.map, x, h, length, count, self.is_euler)
        if self.map.checked and not checks.holds(torch.isfinite(after.sum())):
            return None
        kept = torch.stack((after,)) if whole.dim() > 2 else after.clone()
        return after if self.visible is None else self.visible(after), kept


def advance(
    field: VectorField, given: LiveMap, x: Tensor, h: Tensor, length: float | Tensor, count: int, is_euler: bool = False
) -> Tensor:
    """Return the state after a sample, (batch, input), (batch, state) -> (batch, state), without checking the arguments."""
    step, watch, projected, part = given.step, given.watch, field.project(x), length if count == 1 else length / count
    if is_euler and type(part) is float:  # in one operation; the same to rounding
        after = torch.add(h, field.flow(projected, h), alpha=part)
    else:
        after = step.advance(field, projected, h, part)
    for _ in range(count - 1):
        after = step.advance(field, projected, after, part)
    if watch is not None and watch.glance(part) and watch.due(step, field, part, after):
        watch.look_at(step, field, projected, h, part)
    return after


_plans: WeakKeyDictionary[nn.Module, _Plan] = WeakKeyDictionary()


def live_step(
    module: Module,
    x: Tensor,
    state: Any,
    dt: float | Tensor | None,
    reset: Tensor | bool | None = None,
    seed: Seed = None,
    place: int | Tensor | None = None,
) -> tuple[Tensor, Any]:
    """See `SequenceModule.live_step`."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _traced_step(module, x, state, dt, reset)
    plan = _plans.get(module)
    if plan is not None and seed is None and place is None and (reset is None or state is not None):
        result = plan.take(module, x, state if reset is None else _begun(state, reset), dt)
        if result is not None:
            return result
    given, batched, anew = _read(module, x, state, reset)
    given = given._replace(xs=_with_noise(module, given.xs, seed, place))
    length = None if dt is None else step_length(dt, given.h0[0])
    edges = _edges(module, length, state is None, anew)
    if edges is not None:
        look_at_intervals(getattr(module, "field", module._reader), edges)
    if (known := module._live_map()) is not None and _may_be_planned(field := module._reader):
        plan = _plans[module] = _Plan(module, field, known, module.live_settings, True, given.h0.dtype)
        # By the plan at once: the same stream has the same bits again.
        result = plan.take(module, given.xs[0] if batched else given.xs[0, 0], given.h0 if batched else given.h0[:, 0], dt)
        if result is not None:
            return result
    with without_building():
        output, h_n = module._run(given.xs, given.h0, edges, None)
    return (output[0], h_n) if batched else (output[0, 0], h_n[:, 0])


def _traced_step(module: Module, x: Tensor, state: Any, dt: Any, reset: Any) -> tuple[Tensor, Any]:
    """Take a step at whose operations torch looks, and of which it keeps no number that was read from a tensor."""
    if module.noisy:
        raise TypeError(
            "A graph of one step would have one noise for all that follow; torch.export takes a sequence, and keys as its `seed`."
        )
    given, batched, anew = _read(module, x, state, reset)
    if (known := module._live_map()) is None:
        edges = _edges(module, None if dt is None else checks.positive_number("dt", dt), state is None, anew)
        output, h_n = module._run(given.xs, given.h0, edges, None)
        return (output[0], h_n) if batched else (output[0, 0], h_n[:, 0])
    length = known.dt if dt is None else _traced_length(dt, given.h0[0])
    if (count := known.steps_in(length)) is None:
        raise TypeError(f"`dt` is a tensor, and a graph cannot read how many steps of {known.max_step:g} it is; give a number.")
    field = masked(with_computed_weights(module._reader), (given.xs.shape[1],))
    after = advance(field, known, given.xs[0], given.h0[0], length, count)
    output, kept = field.visible(after), after.clone()
    return (output, kept[None]) if batched else (output[0], kept)


def _traced_length(dt: float | Tensor, h: Tensor) -> float | Tensor:
    if not isinstance(dt, Tensor):
        return checks.positive_number("dt", dt)
    return dt.to(h) if dt.dim() == 0 else dt.reshape(len(h), 1).to(h)


def cell_step(
    cell: Module, x: Tensor, state: Tensor | None, dt: float | Tensor | None, reset: Tensor | bool | None
) -> tuple[Tensor, Tensor]:
    """See `DiscreteCell.live_step`."""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    plan = None if traced else _plans.get(cell)
    if plan is not None and (reset is None or state is not None):
        result = plan.take(cell, x, state if reset is None else _begun(state, reset), dt)
        if result is not None:
            return result
    field = cell.field
    if isinstance(field, DelayedField):
        refuse("delays", "live step", type(field).__name__, "live_step")
    if state is not None:
        state = cast_for(field, state)
        check_state(field, state, "state")
        anew = _anew(reset, tuple(state.shape[:-1]))
        state = state if anew is None else _begun(state, anew)
    after = cell.forward(x, state, dt)
    if not traced and not cell.step.noisy and _may_be_planned(field):
        plan = _plans[cell] = _Plan(
            cell, field, LiveMap(cell.step, cell.dt, watch=cell.watch), ("step", "dt"), False, after.dtype
        )
        start = after.new_zeros(after.shape) if state is None else state
        if (result := plan.take(cell, x, start, dt)) is not None:
            return result
    return field.visible(after), after.clone()


def _may_be_planned(field: VectorField) -> bool:
    """Return whether a step of the field reads nothing that is drawn or computed for a call, and no transform looks on."""
    return (
        with_computed_weights(field) is field
        and not any(isinstance(part, Dropout) and part.training for part in field.modules())
        and not casts(field)
        and transform_reason() is None
    )


def _read(module: Module, x: Tensor, state: Any, reset: Any) -> tuple[RaggedCall, bool, Tensor | None]:
    """Check a sample and the state before it; return them as a sequence, whether there was a batch, and which begin anew."""
    check_pairs({**module._live_traits(), "live step": "live_step"})
    x = cast_for(module._reader, x)
    check_input(module._reader, x)
    if x.dim() not in (1, 2):
        raise ValueError(
            f"`x` must be one sample, (batch, input) or (input,), got shape {tuple(x.shape)}; for a sequence call the module."
        )
    batched = x.dim() == 2
    xs = checked_samples(x[None] if batched else x[None, None], "x")
    h0, anew = module._start(state, xs, batched, "state"), _anew(reset, tuple(x.shape[:-1]))
    if anew is not None:
        anew = anew.expand(xs.shape[1])
        h0 = _begun(h0, anew)
    return RaggedCall(xs, h0, None, None), batched, anew


def _anew(reset: Any, samples: tuple[int, ...]) -> Tensor | None:
    """Check which samples begin anew."""
    if reset is None:
        return None
    given = torch.as_tensor(reset, device=None if isinstance(reset, Tensor) else "cpu")
    if given.dtype != torch.bool or given.shape not in ((), samples):
        came = f"{given.dtype} of shape {tuple(given.shape)}"
        raise ValueError(f"`reset` must be a boolean, or one for each sample, {samples}, got {came}.")
    return given


def _begun(state: Any, reset: Any) -> Any:
    """Return a state that is 0 where a sequence begins."""
    if not isinstance(state, Tensor):
        return None
    anew = _anew(reset, tuple(state.shape[:-1])[-1:])
    assert anew is not None
    return torch.where(anew.to(state.device)[..., None], 0.0, state)


def _edges(module: Module, length: float | Tensor | None, starts: bool, anew: Tensor | None) -> Tensor | None:
    """Return when a sample begins and ends, (2,) or (2, batch), in float64 on the CPU; None where the module knows that."""
    if length is None and not module.reads_at_the_end:
        return None
    if length is None:  # an observation, so long after the one before; the first one of a sequence at once
        length = 0.0 if starts else getattr(module, "dt", None) or 1.0
    lengths = torch.as_tensor(length, dtype=torch.float64, device="cpu")
    lengths = lengths.reshape(-1) if lengths.dim() else lengths
    if anew is not None and module.reads_at_the_end:
        lengths = torch.where(anew.cpu(), 0.0, lengths)
    return torch.stack([torch.zeros_like(lengths), lengths])


def _with_noise(module: Module, xs: Tensor, seed: Any, place: Any) -> Tensor:
    """Put the noise of a step beside its samples (1, batch, input); return them."""
    if isinstance(seed, BrownianPath):
        raise ValueError("`seed` is a path, which is read at the times of a whole sequence; give keys, or a whole number.")
    if not module.noisy and place is not None:
        raise ValueError("`place` is that of a sample's noise, and here is none; leave it out.")
    if module.noisy and (seed is None) != (place is None):
        raise ValueError(
            "`seed` and `place`, the number of the sample in its sequence, 0, 1, 2, ..., go together: a seed alone would give "
            "every step the noise of the first sample. Without both, noise is drawn anew at each step."
        )
    xs = module._with_noise(RaggedCall(xs, xs, None, None), seed)
    if place is None:
        return xs
    places = torch.as_tensor(place, device=None if isinstance(place, Tensor) else "cpu")
    if places.dtype not in (torch.int32, torch.int64) or places.shape not in ((), xs.shape[1:2]):
        raise TypeError(f"`place` must be a whole number, or one for each sample, got {place!r}.")
    if not checks.holds((places >= 0) & (places < MOST)):
        raise ValueError(f"`place` must be from 0 to below {MOST}, got {place!r}; begin another sequence, with another seed.")
    columns, cells = xs[..., :-1], xs[..., -1:]
    return torch.cat([columns, cells + places.to(cells).reshape(-1, 1)], -1)
