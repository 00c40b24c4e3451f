"""Make a field an exact sequence module, solved along its samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ctrnn import HeldPath, HermitePath, LinearPath, Path, VectorField, checks
from ctrnn.autocast import casts
from ctrnn.calls import answered
from ctrnn.combinations import Trait, check_pairs, refuse
from ctrnn.fields.delayed import DelayedField
from ctrnn.fields.dropout import masked
from ctrnn.inputs.held import FORWARD
from discretize import compat
from discretize.graphs import whole
from discretize.kernels.eligibility import Fused, transform_reason
from discretize.kernels.shown import Shown
from discretize.loop.checking import check_start
from discretize.loop.delayed import scanned_with_past
from discretize.loop.held import solve_held
from discretize.loop.noise import address_columns, scanned_along
from discretize.noise.brownian import BrownianPath, Cells
from discretize.noise.generator import Seed, fresh_keys, keys_of
from discretize.sequences.clocks import solve_by_clock
from discretize.sequences.field_module import FieldModule
from discretize.sequences.live import LiveMap
from discretize.sequences.module import Lengths, RaggedCall, Start, check_no_lengths
from discretize.sequences.ragged import Ragged, gone_by
from discretize.sequences.stamps import sample_stamps
from discretize.settings import MAX_NUM_STEPS, Gradient, Method, Settings
from discretize.solve import solve, solve_samples, solve_with_past
from discretize.solvers.events import Event, EventTimes, checked_events
from discretize.solvers.history import History
from discretize.steps.along import HeldProblem
from discretize.trajectory import Trajectory

if TYPE_CHECKING:
    from discretize.kernels.plan import ModulePlan

__all__ = ["ContinuousRNN"]

PATHS: dict[str, Any] = {"held": HeldPath, "linear": LinearPath, "hermite": HermitePath}


class ContinuousRNN(FieldModule):
    r"""The field integrated exactly over held samples: output k is the state after sample k has been read.

        >>> rnn = ContinuousRNN(ctrnn.gated(2, 8), rtol=1e-6)
        >>> stamps = torch.tensor([0.0, 0.3, 1.9, 2.0])  # when samples begin, and the last one ends
        >>> rnn(torch.randn(3, 4, 2), ts=stamps)[0].shape
        torch.Size([3, 4, 8])

    Args:    field: a `VectorField` or a `DelayedField`, shared, not copied; method, rtol, atol, max_step, gradient,
             max_num_steps, min_step, first_step, progress, fused, on_failure as for `integrate`; hold, open_interval,
             batch_first as for `DiscreteRNN`; dt: how long a sample lasts where no `ts` says it, as there, 1 if not given:
             tolerances choose the steps. path: "held"; or "linear" or "hermite", through the samples at their stamps,
             which are the knots: `ts` has one for each sample, output k is the state at ts[k], the first one is h_0, and
             nothing that comes later is seen.
             events: as for `integrate`, of each sequence; a `g` or `reset` that is a torch.nn.Module is a part of this one. With
             a `reset` of the state units spike; after `terminal` a sequence keeps its state.
    Call:    rnn(x, h_0=None, ts=None, lengths=None, reset=None, seed=None), as for `DiscreteRNN`.
             seed: keys, a whole number or None, by which noise is that of a `DiscreteRNN` with as short steps.
             rnn.trajectory(...) gives the solve itself; `rnn.stats` is what the last call did, as `Trajectory.stats`, and
             `rnn.crossed` what its events crossed, an `EventTimes` each: samples are sequences, times those of `ts`.
    Shape:   as for `DiscreteRNN`.
    Raises:  TypeError, ValueError for what does not fit; SolverError for a solve that fails.
    Source:  Tallec and Ollivier 2018, eqs. (3), (4), (7).
    """

    def __init__(
        self,
        field: VectorField,
        method: Method = "dopri5",
        rtol: float = 1e-5,
        atol: float | Tensor = 1e-7,
        max_step: float | None = None,
        gradient: Gradient = None,
        path: str = "held",
        *,
        dt: float | None = None,
        hold: str = "forward",
        batch_first: bool = False,
        max_num_steps: int = MAX_NUM_STEPS,
        min_step: float = 0.0,
        first_step: float | None = None,
        progress: bool = False,
        fused: Fused = True,
        on_failure: str = "raise",
        open_interval: float | None = None,
        events: Event | Sequence[Event] = (),
    ) -> None:
        super().__init__(field, hold, open_interval, batch_first, dt)
        self.path: str = checks.one_of("path", path, PATHS)
        if path != "held":
            self.joins_chunks: str = "Begin with the last sample of the chunk before, and its stamp: `x[k - 1 : k + n]`."
            if self.hold != FORWARD:
                raise ValueError(f"`hold` and `open_interval` are for held samples, and `path` is {path!r}.")
        bounds = (max_num_steps, min_step, first_step)
        self.settings: Settings = Settings(method, rtol, atol, max_step, gradient, *bounds, progress, fused, on_failure)
        self.settings.say_unread()
        self.settings.check_noise(field)
        self.stats: dict[str, Any] = {}
        self.events: tuple[Event, ...] = checked_events(events, None, 1) if events else ()
        self.crossed: tuple[EventTimes, ...] = ()
        if self.events:
            past: dict[Trait, str] = {"past of a module": type(field).__name__} if isinstance(field, DelayedField) else {}
            check_pairs({**past, "events": "events"} | self.settings.traits)
        parts = [part for event in self.events for part in (event.g, event.reset) if isinstance(part, nn.Module)]
        if parts:
            self.event_parts: nn.ModuleList = nn.ModuleList(dict.fromkeys(parts))

    @answered
    @whole
    def trajectory(
        self,
        x: Tensor | PackedSequence,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        seed: Seed | BrownianPath = None,
        history: History = None,
    ) -> Trajectory:
        """The solve behind `rnn(x, h_0, ts, lengths, seed=seed)`: whole states at the edges of the samples, hs (time + 1, batch,
        state), or at their stamps where the path goes through them; time first, and by `trajectory(t)` at any times between,
        shared or (n, batch). One sequence is a batch of one. history: what a `ctrnn.DelayedField` was before, as for
        `integrate`: the trajectory of the chunk before, say."""
        if isinstance(x, PackedSequence):
            check_no_lengths(lengths)
            x, lengths = pad_packed_sequence(x, self.batch_first)
        given, _ = self._read(x, h_0, ts, lengths)
        return self._solved(self.field, self._with_noise(given, seed), given.h0[0], given.edges, given.ragged, history)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"crossed": ()}  # which may have a graph, as no copy has

    @property
    def noisy(self) -> bool:  # type: ignore[override]
        return self.settings.noisy

    def _with_noise(self, given: RaggedCall, seed: Seed | BrownianPath) -> Tensor:
        if not self.noisy:
            return super()._with_noise(given, seed)
        if isinstance(seed, BrownianPath):
            raise ValueError("`seed` is a path; give keys, or a whole number, or take `integrate`, which reads paths.")
        return torch.cat([given.xs, address_columns(fresh_keys(seed, given.xs.shape[1]), given.xs)], -1)

    def _solved(
        self,
        field: VectorField,
        xs: Tensor,
        h0: Tensor,
        edges: Tensor | None,
        ragged: Ragged | None,
        history: History = None,
        checked: bool = False,
    ) -> Trajectory:
        seed, xs = self._cells(xs, field), xs[..., : field.input_size].to(h0.dtype)
        path = PATHS[self.path].unchecked(xs, self._counted(xs, ragged) if edges is None else edges)
        if len(path.knots) < 2:
            raise ValueError(f"A {self.path} path needs at least two samples, got 1.")
        if isinstance(field, DelayedField):
            solved = self._solved_with_past(field, path, xs, h0, history)
            self.stats = solved.stats
            return solved
        if history is not None:
            raise TypeError("`history` is for a ctrnn.DelayedField; this field reads no past.")
        if checked and not (self.noisy or self.events) and len(h0):
            solved = solve_samples(field, path, h0, self.settings)
            self.stats = solved.stats
            return solved
        solved = solve(field, path, h0, path.knots, self.settings, events=self.events, seed=seed)
        self.stats, self.crossed = solved.stats, solved.events
        return solved

    def _cells(self, xs: Tensor, field: VectorField) -> Cells | None:
        """The noise of samples with an address; without one in a stack of layers, each of which draws its own."""
        if not self.noisy:
            return None
        address = xs[..., field.input_size :]
        if not address.shape[-1]:
            return Cells(fresh_keys(None, xs.shape[1]), 0)
        return Cells(keys_of(address[0, :, :-1]), address[0, :, -1].long().cpu())

    def _solved_with_past(self, field: DelayedField, path: Path, xs: Tensor, h0: Tensor, history: History) -> Trajectory:
        if path.knots.dim() == 1 or not self.settings.adaptive:
            return solve_with_past(field, path, h0, path.knots, self.settings, history=history)
        if history is not None:
            raise ValueError(
                "`history` is for sequences that share their times, and each of these has its own; solve them one by one."
            )
        if masked(self.field, (1,)) is not self.field:  # each solve draws the masks of its own sequences
            field = cast("DelayedField", self.field)

        def solve_together(field: DelayedField, path: Path, h: Tensor, clock: Tensor) -> Trajectory:
            return solve_with_past(field, path, h, clock, self.settings)

        return solve_by_clock(field, PATHS[self.path], xs, h0, path.knots, solve_together)

    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor:
        if compat.is_exporting():
            if self.path != "held":
                raise ValueError(f"A module is exported with held samples, and this one has path={self.path!r}.")
            if self.events:
                refuse("events", "export", "events", "torch.export")
            step, substeps = self.settings.step_map(self.dt)
            if isinstance(field, DelayedField):
                return scanned_with_past(field, step, xs, h0, self.dt, substeps)
            return scanned_along(field, step, xs, h0, self.dt, substeps)
        if self._is_plain(field):
            if transform_reason() is None:  # G may have been 0 before it was learned
                self.settings.check_noise(field)
            seed, given = self._cells(xs, field), xs[..., : field.input_size].to(h0.dtype)
            times = self._counted(xs, ragged) if edges is None else edges
            check = partial(check_start, field, field, given, h0, times, self.settings)
            if found := solve_held(field, given, h0, times, self.settings, seed, check):
                states, self.stats = found
                if edges is None and ragged is None and not self.noisy:
                    step, substeps = self.settings.step_map(self.dt)
                    self._plan_for(HeldProblem(field, step, given, h0, self.dt, substeps), self.settings.fused)
                return states
        states = self._solved(field, xs, h0, edges, ragged, checked=True).hs[-len(xs) :]
        if edges is None and ragged is None and self.settings.pair and self.path == "held" and not self.events:
            self._plan_for(HeldProblem(field, self.settings.pair, xs, h0, self.dt, 0), self.settings.fused)
        return states

    def _planned(self, plan: ModulePlan, xs: Tensor, h0: Tensor) -> Tensor | None:
        if plan.solves:
            edges = self.dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu")
            solved = solve_samples(plan.field, HeldPath.unchecked(xs, edges), h0, self.settings, plan)
            self.stats = solved.stats
            return solved.hs[1:]
        if (ran := plan.run(xs, h0) or plan.shown(xs, h0)) is None:
            return None
        found, stats = ran
        states = found.output if isinstance(found, Shown) else found  # of fields whose states are seen whole
        if not math.isfinite(states.detach().sum().item()):
            return None
        self.stats = stats
        return states

    def _is_plain(self, field: VectorField) -> bool:
        """Return whether a call may be steps of one length over held samples."""
        plain = self.path == "held" and self.settings.fixed is not None and not self.events
        return plain and not (casts(field) or isinstance(field, DelayedField))

    live_settings = ("settings", "path", "events", "dt")

    def _live_map(self) -> LiveMap | None:
        one = self.settings
        if one.fixed is None or self.noisy or self.events or one.gradient is not None or one.on_attempt or one.progress:
            return None
        return LiveMap(one.fixed, self.dt, 1, one.max_step, checked=True)

    def _live_traits(self) -> dict[Trait, str]:
        traits = super()._live_traits()
        if self.path != "held":
            traits["joined samples"] = f"path={self.path!r}"
        if any(event.terminal for event in self.events):
            traits["terminal events"] = "terminal"
        return traits

    def _edges(self, ts: Tensor, xs: Tensor, ragged: Ragged | None, batched: bool) -> Tensor:
        if self.path == "held":
            return super()._edges(ts, xs, ragged, batched)
        return sample_stamps(ts, xs, ragged, batched, self.batch_first)

    def _clock(self, xs: Tensor, ragged: Ragged | None) -> Tensor | None:
        return self._counted(xs, ragged) if self.events else None

    def _ran(self, sequence: Tensor, starts: Tensor | None = None) -> None:
        self.crossed = tuple(event.of(sequence, starts) for event in self.crossed)

    def _taken(self, ts: object, xs: Tensor) -> tuple[bool, bool]:
        return super()._taken(ts, xs) if self.path == "held" else (True, False)

    def _counted(self, xs: Tensor, ragged: Ragged | None) -> Tensor:
        if self.path == "held":
            return super()._counted(xs, ragged)
        gone = gone_by(xs, ragged)
        return self.dt * torch.minimum(gone[:-1], gone[-1] - 1)

    def extra_repr(self) -> str:
        usual = Settings()
        named = {each.name: getattr(self.settings, each.name) for each in fields(usual) if each.init}
        given = {name: value for name, value in named.items() if not _same(value, getattr(usual, name))}
        named = {"method": self.settings.method, "rtol": self.settings.rtol, "atol": self.settings.atol} | given
        named |= {} if self._counts_samples else {"dt": self.dt}
        named |= {} if self.path == "held" else {"path": self.path}
        named |= {"events": len(self.events)} if self.events else {}
        return ", ".join([*(f"{name}={value!r}" for name, value in named.items()), super().extra_repr()])


def _same(value: object, usual: object) -> bool:
    return not isinstance(value, Tensor) and value == usual
