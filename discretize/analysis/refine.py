r"""Refinement: is a trained model still an ODE?

The model is run with its own weights and steps of dt, dt/2, dt/4, ..., and with the exact solution. States of a model that is
the ODE it is written as change little, and by O(dt^order). One that has learned to rely on its step errors becomes another
model without them. What moves on while the last inputs are held may be the step's own: Euler's step adds growth to what turns
faster than it decays.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ctrnn import Relaxation, VectorField, checks, timescales
from ctrnn.fields.delayed import DelayedField
from ctrnn.fields.rates import InputFreeRate
from ctrnn.own_code import computes_as
from discretize.analysis.refinement import LEFT, STILL, Refinement
from discretize.analysis.stability import growth
from discretize.errors import SolverError, SolverWarning
from discretize.sequences.continuous import ContinuousRNN
from discretize.sequences.module import RaggedCall
from discretize.sequences.ragged import Ragged, gone_by
from discretize.sequences.rnn import DiscreteRNN

__all__ = [
    "ATOL",
    "FINER",
    "Call",
    "Held",
    "evaluated",
    "refine",
    "refined",
    "refined_and_held",
    "root_mean_square",
    "run_with",
    "solved",
    "solved_size",
    "stepped_parts",
]

WAIT, LOOK, MOST = 500, 250, 16_000  # samples for which the last inputs are held at first, are looked at, and in all
SEQUENCES = 16  # for which they are held
SETTLED, TINY = 0.1, 1e-9  # relative change between looks of what has settled, and a movement that is none, of the spread
ATOL, COARSE = 1e-9, 1e-3  # absolute tolerance of the solution, in sizes of the states, which are found by a coarse one
FINER = 16  # times as many steps as the last refinement has, which stand for the solution of a field with noise
Call = Callable[[], Any]  # of a model, on the data
CALL = ("x", "h_0", "ts", "lengths", "reset")


class _End(NamedTuple):
    """Holds the last inputs (batch, input) of a call, the states after them (batch, state), and the time a sample took: with
    times that of the last one, where each sequence has its own the median of all."""

    x: Tensor
    h: Tensor
    dt: float


@torch.no_grad()
def refine(
    model: nn.Module,
    *data: object,
    metric: Callable[[Any], float] | None = None,
    halvings: int = 4,
    rtol: float = 1e-8,
    atol: float | None = None,
    **named: object,
) -> Refinement:
    r"""Run a model on data with its step as it is, halved again and again, and solved exactly; its weights stay.

    A field with noise is run along one path, by finer and finer steps; the finest stand for the solution, whose order is the
    step's strong one, and nothing is held.

        >>> rnn = discretize.DiscreteRNN(ctrnn.leaky(1, 3, alpha=0.1), dt=0.1)
        >>> refine(rnn, torch.randn(20, 2, 1)).converges
        True

    Args:    model: a `DiscreteRNN`, or a module with some in it, called as model(*data, **named), so with `ts=` or `lengths=`
             where these are given; metric: a number for what the model returns, such as the loss or accuracy of its task;
             halvings: of the step; rtol, atol: of the exact solution; atol: 1e-9 of the size of its states if not given.
    Returns: a `Refinement`; its `verdict` is in words, `print` shows the table too.
    Raises:  TypeError, ValueError for what cannot be refined; SolverError where there is no exact solution.
    Source:  a convergence test, as Krishnapriyan et al. 2023 put it to learned models, and Ott et al. 2021 other solvers; what is
             held after the data, and the verdict, are this project's.
    """
    parts = stepped_parts(model)
    call = partial(model, *data, **named)
    with evaluated(model):
        if atol is None:
            dice = torch.get_rng_state()
            atol = ATOL * (solved_size(parts, call, dice, run_with(parts, call, dice, over_time=True)[0][0]) or 1.0)
            torch.set_rng_state(dice)
        return refined_and_held(parts, call, metric, halvings, rtol, atol)[0]


def stepped_parts(model: nn.Module) -> list[DiscreteRNN]:
    """Return the modules of a model whose steps are looked at, on a device that has float64."""
    parts = [part for part in checks.instance("model", model, nn.Module).modules() if isinstance(part, DiscreteRNN)]
    if not parts:
        raise ValueError(
            "`model` has no discretize.DiscreteRNN in it, and no steps. The weights of one that is solved take steps by "
            "`model.stepped()`, or `discretize.sequences.stepped(rnn)`; a field by `DiscreteRNN(field, step)`, an nn.GRU by "
            "`DiscreteRNN(ctrnn.from_torch(gru))`."
        )
    kept = {p.device for part in parts for p in part.parameters() if checks.time_dtype(p.device) != torch.float64}
    if kept:
        raise ValueError(f"`model` is on {kept.pop()}, which has no float64, in which steps are compared; move it to the CPU.")
    return parts


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """Evaluate a model within, whose dropout would differ from run to run; then each part is as it was."""
    training = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, was in training.items():
            part.training = was


def solved_size(parts: list[DiscreteRNN], call: Call, dice: Tensor, stepped: Tensor) -> float:
    """Return the root mean square of the states of a coarse solution; stepped (time, batch, hidden): those of the first part."""
    sizes = stepped.double().square().nanmean((1, 2)).sqrt()
    there = sizes[(sizes > 0) & sizes.isfinite()]  # the first of these: steps may diverge later
    with solved(parts, COARSE, ATOL * (float(there[0]) if len(there) else 1.0), 1):
        return root_mean_square([states.double() for states in run_with(parts, call, dice)[0]])


def refined_and_held(
    parts: list[DiscreteRNN], call: Call, metric: Callable[[Any], float] | None, halvings: int, rtol: float, atol: float
) -> tuple[Refinement, Held | None]:
    """Refine what `call` runs, and say what becomes of states once the last inputs are held, where that is known."""
    levels = [2**k for k in range(checks.positive_size("halvings", halvings) + 1)]
    dice = torch.get_rng_state()  # all runs draw the same
    with solved(parts, rtol, atol, FINER * levels[-1]) as timed:
        exact, result = run_with(parts, call, dice)
    exact_metric = None if metric is None else float(metric(result))
    runs: list[tuple[list[Tensor], Any]] = []
    ends: list[_End] = []
    for n in levels:
        with refined(parts, n), _ends_of(parts[0], ends if n == 1 else []):
            runs.append(run_with(parts, call, dice))
    # Noise, and a past, go on from more than a state.
    spread, more = _spread(exact), parts[0].noisy or isinstance(parts[0].field, DelayedField)
    held = _held(parts[0], ends[0], rtol, atol, spread) if len(parts) == len(ends) == 1 and not more else None
    off = [[(a - b).double() for a, b in zip(states, exact, strict=True)] for states, _ in runs]
    drift = [root_mean_square(parts_off) for parts_off in off]
    refinement = Refinement(
        substeps=tuple(levels),
        drift=tuple(drift),
        largest=tuple(max(float(part.abs().nan_to_num(math.inf).max()) for part in parts_off) for parts_off in off),
        orders=tuple(_observed(a, b) for a, b in pairwise(drift)),
        order=min(part.step.path_order for part in parts),
        spread=spread,
        rounding=_rounding(exact, rtol, atol),
        metrics=None if metric is None else tuple(float(metric(result)) for _, result in runs),
        exact_metric=exact_metric,
        step=None if timed else _step_lengths(parts),
        held=None if held is None else (held.stepped, held.exact),
        factors=None if held is None else held.factors,
    )
    return refinement, held


@dataclass(frozen=True)
class Held:
    """Holds what became of a few sequences whose last inputs were held, under the steps and in the equation.

    `stepped`, `exact`: how much their states move; `factors`: see `Refinement`; `states`: where they are, (sequences, state); x
    (sequences, input); dt: the time of a sample.
    """

    stepped: tuple[float, ...]
    exact: tuple[float, ...]
    factors: tuple[complex, ...]
    states: tuple[Tensor, Tensor]
    x: Tensor
    dt: float


@contextmanager
def _ends_of(part: DiscreteRNN, ends: list[_End]) -> Iterator[None]:
    """Add for each call of a part, outside a stack of layers, where its sequences ended."""

    def keep(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: tuple[Any, Tensor]) -> None:
        at = dict(zip(CALL, given, strict=False)) | named
        x, ts, lengths = at["x"], at.get("ts"), at.get("lengths")
        if isinstance(x, RaggedCall) or at.get("reset") is not None:
            return
        if isinstance(x, PackedSequence):
            xs, lengths = pad_packed_sequence(x)
        else:
            xs = x[:, None] if x.dim() == 2 else x.transpose(0, 1) if part.batch_first else x
        ragged = None if lengths is None else Ragged.of(lengths, xs)
        last, dt = xs[-1] if ragged is None else ragged.final(xs)[0], part.dt
        if ts is not None:
            edges = part._edges(ts, xs, ragged, isinstance(x, PackedSequence) or x.dim() == 3).detach()
            took = edges.diff(dim=0)
            dt = float(took[-1] if took.dim() == 1 else took[took > 0].median())
        ends.append(_End(last, output[1].reshape(-1, part.field.state_size), dt))

    hook = part.register_forward_hook(keep, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def _held(part: DiscreteRNN, end: _End, rtol: float, atol: float, spread: float) -> Held | None:
    """Return how much the states of a few sequences move, by the part's steps and exactly, while the last inputs are held.

    They are held for twice as long, up to `MOST` samples, as long as what moves still gets less or more.
    """
    field = copy.deepcopy(part.field).double()
    stepped = DiscreteRNN(field, part.step, dt=end.dt, substeps=part.substeps, allow_overshoot=True)
    exact = ContinuousRNN(field, "dopri5", max(rtol, 1e-6), 10 * atol, max_num_steps=1000 * MOST)
    found, states = list[tuple[float, ...]](), list[Tensor]()
    for rnn, none in ((stepped, TINY), (exact, max(rtol, 1e-6))):  # at rest a solve moves within its tolerance
        before: tuple[float, ...] = ()
        h, gone, wait = end.h[:SEQUENCES].double(), 0, WAIT
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SolverWarning)  # what comes to rest at 0 gets smaller than any atol
                    moved, h = _held_for(rnn, end, h, wait)
            except SolverError:  # a state that leaves all bounds, long after the data
                return None
            gone += wait
            if before and all(_alike(*pair, none * spread) for pair in zip(before, moved, strict=True)):
                break
            if gone + 2 * wait > MOST:  # what still doubles, and is more than all states were, is on its way to infinity
                grows = zip(before or moved, moved, strict=True)
                moved = tuple(math.inf if now > max(2 * then, spread) else now for then, now in grows)
                break
            before, wait = moved, 2 * wait
        found.append(moved)
        states.append(h)
    there = end.h[:SEQUENCES].isfinite().all(-1).tolist()
    exactly = tuple(moved if known else math.nan for moved, known in zip(found[1], there, strict=True))
    x, rests = end.x[:SEQUENCES].double(), torch.tensor([moved <= LEFT * STILL * spread for moved in exactly], device="cpu")
    factors = torch.full((len(x),), math.nan, dtype=torch.complex128, device=x.device)
    if bool(rests.any()):
        at = rests.to(x.device)
        modes = torch.linalg.eigvals(growth(part.step, field, x[at], states[1][at], end.dt / part.substeps).jacobian)
        factors[at] = modes.gather(1, modes.abs().argmax(1, keepdim=True))[:, 0]
    return Held(found[0], exactly, tuple(factors.tolist()), (states[0], states[1]), x, end.dt)


def _held_for(rnn: DiscreteRNN | ContinuousRNN, end: _End, h: Tensor, samples: int) -> tuple[tuple[float, ...], Tensor]:
    """Hold the last inputs for so many samples from h; return how much states moved in the last of them, and where they are.

    What has left all bounds has moved by inf and stays nan; the other sequences go on.
    """
    x = end.x[:SEQUENCES].double()
    edges = end.dt * torch.arange(LOOK + 1, dtype=torch.float64, device=x.device)
    moved = h.new_full((len(h),), math.inf)
    once = isinstance(rnn, ContinuousRNN)  # one sample that lasts, which ends no step of the solver
    for _ in range(1 if once else samples // LOOK):
        there = h.isfinite().all(-1)
        if not bool(there.any()):
            break
        if once:
            solved = rnn.trajectory(x[there][None], h[there][None], edges[[0, -1]] * (samples // LOOK))
            states, h_n = solved(solved.ts[-1] - edges[:-1]), solved.hs[-1:]
        else:
            states, h_n = rnn(x[there].expand(LOOK, -1, -1), h[there][None], edges)
        moved = torch.full_like(moved, math.inf).masked_scatter(there, _movement(states))
        h = torch.full_like(h, math.nan).masked_scatter(there[:, None], h_n[0])
    return tuple(moved.where(h.isfinite().all(-1), math.inf).tolist()), h


def _alike(before: float, after: float, none: float) -> bool:
    return before == after or abs(before - after) <= SETTLED * max(before, after) or max(before, after) <= none


def _rounding(exact: list[Tensor], rtol: float, atol: float) -> float:
    """Return what a drift may be that is none: of the states' size, and of the tolerances of the solve."""
    eps, size = max(torch.finfo(part.dtype).eps for part in exact), root_mean_square([part.double() for part in exact])
    return (100 * eps + 10 * rtol) * size + 10 * atol


def _movement(states: Tensor) -> Tensor:
    movement = states.std(0).square().mean(-1).sqrt()
    return movement.where(movement.isfinite(), math.inf)


def _step_lengths(parts: list[DiscreteRNN]) -> tuple[float, float] | None:
    """Return the shortest and the longest dt/tau of a step, of fields whose rates read neither input nor state."""
    if not all(computes_as(part.field, Relaxation) and isinstance(part.field.rate, InputFreeRate) for part in parts):
        return None
    lengths = torch.cat([part.dt / part.substeps / timescales(part.field) for part in parts])
    return float(lengths.min()), float(lengths.max())


def _observed(coarse: float, fine: float) -> float:
    if not (math.isfinite(coarse) and math.isfinite(fine)):
        return math.nan if not math.isfinite(fine) else math.inf
    return math.log2(coarse / fine) if coarse > 0 and fine > 0 else math.inf


def root_mean_square(tensors: list[Tensor]) -> float:
    size = math.sqrt(sum(float(t.square().sum()) for t in tensors) / sum(t.numel() for t in tensors))
    return math.inf if math.isnan(size) else size


def _spread(states: list[Tensor]) -> float:
    return root_mean_square([part.double() - part.double().mean(0) for part in states])


def run_with(parts: list[DiscreteRNN], call: Call, dice: Tensor, over_time: bool = False) -> tuple[list[Tensor], Any]:
    """Return the states (samples, hidden) of each part that it was in after a sample, of all its calls, and what the model
    returns; over_time: as (time, batch, hidden), nan beyond the end of a sequence; dice: the state of torch's generator, from
    which noise has its keys."""
    torch.set_rng_state(dice)
    outputs: dict[int, list[Tensor]] = {id(part): [] for part in parts}

    def keep(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: tuple[Any, Tensor]) -> None:
        at = dict(zip(CALL, given, strict=False)) | named
        after = _by_time if over_time else _after_samples
        outputs[id(part)].append(after(at["x"], at.get("lengths"), output[0], bool(part.batch_first)))

    with ExitStack() as hooks:
        for part in parts:
            hooks.callback(part.register_forward_hook(keep, with_kwargs=True).remove)
        result = call()
    if not all(outputs.values()):
        raise ValueError("`model` did not call all of its DiscreteRNNs on this data; give data that runs them.")
    states = [torch.cat(outputs[id(part)]) for part in parts]
    if not all(part.numel() for part in states):
        raise ValueError("`model` was called on no sequence at all, of which nothing can be told; give a batch of at least one.")
    return states, result


def _after_samples(x: Any, lengths: Any, output: Tensor | PackedSequence, batch_first: bool) -> Tensor:
    """Return the rows of an output (time, batch, hidden) that are states after a sample: beyond a sequence's end none is."""
    if isinstance(output, PackedSequence):
        return output.data
    if isinstance(x, RaggedCall):  # of a module in a stack of layers
        return output.flatten(0, 1) if x.ragged is None else output[x.ragged.read]
    if output.dim() == 2:
        return output
    states = output.transpose(0, 1) if batch_first else output
    return states.flatten(0, 1) if lengths is None else states[Ragged.of(lengths, states).read]


def _by_time(x: Any, lengths: Any, output: Tensor | PackedSequence, batch_first: bool) -> Tensor:
    """Return an output as (time, batch, hidden), nan beyond the end of a sequence."""
    if isinstance(output, PackedSequence):
        return pad_packed_sequence(output, padding_value=math.nan)[0]
    if isinstance(x, RaggedCall):
        return output if x.ragged is None else output.masked_fill(~x.ragged.read[..., None], math.nan)
    states = output[:, None] if output.dim() == 2 else output.transpose(0, 1) if batch_first else output
    return states if lengths is None else states.masked_fill(~Ragged.of(lengths, states).read[..., None], math.nan)


@contextmanager
def refined(parts: list[DiscreteRNN], n: int) -> Iterator[None]:
    with ExitStack() as undo:
        for part in parts:
            undo.callback(setattr, part, "substeps", part.substeps)
            part.substeps *= n
        yield


@contextmanager
def solved(parts: list[DiscreteRNN], rtol: float, atol: float, finest: int) -> Iterator[list[DiscreteRNN]]:
    """Make the parts give the exact states of their field over held samples, or with noise those of so many times as many steps
    along the same path; yields those that are called with times."""
    timed: list[DiscreteRNN] = []
    with refined([part for part in parts if part.noisy], finest), ExitStack() as undo:
        for part in (part for part in parts if not part.noisy):
            part._states = _solver(part, rtol, atol, timed)  # type: ignore[method-assign]
            undo.callback(part.__dict__.pop, "_states")
        yield timed


def _solver(part: DiscreteRNN, rtol: float, atol: float, timed: list[DiscreteRNN]) -> Callable[..., Tensor]:
    # The same weights in float64: float32 has no room for what is left after a few halvings.
    exact = ContinuousRNN(part.field, "tsit5" if isinstance(part.field, DelayedField) else "dopri8", rtol, atol)

    def states(field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor:
        if edges is not None:
            timed.append(part)
        edges = part.dt * gone_by(xs, ragged) if edges is None else edges
        return exact._states(copy.deepcopy(field).double(), xs.double(), h0.double(), edges, ragged).to(xs.dtype)

    return states
