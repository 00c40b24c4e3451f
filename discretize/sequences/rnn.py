"""Make a field a discrete sequence module, stepped one sample after another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ctrnn import VectorField, checks
from ctrnn.fields.delayed import DelayedField, Settled
from discretize import compat
from discretize.kernels.choose import node_in_graph, run_in_graph
from discretize.kernels.eligibility import Fused, is_fused, transform_reason
from discretize.kernels.shown import Reads, Shown
from discretize.loop.delayed import scanned_with_past, step_with_past
from discretize.loop.held import run_held
from discretize.loop.noise import addressed, scanned_along
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed
from discretize.sequences.cell import checked_step
from discretize.sequences.field_module import FieldModule
from discretize.sequences.live import LiveMap
from discretize.sequences.module import RaggedCall
from discretize.sequences.overshoot import OvershootWatch
from discretize.sequences.ragged import Ragged, gone_by
from discretize.solvers.engine import SolverStats
from discretize.solvers.fixed import as_array, count_steps
from discretize.steps.along import HeldProblem
from discretize.steps.euler import Euler
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep, check_noise

if TYPE_CHECKING:
    from discretize.kernels.plan import ModulePlan

__all__ = ["DiscreteRNN"]


class DiscreteRNN(FieldModule):
    r"""The field unrolled by a step map: output k is the state after sample k.

        >>> rnn = DiscreteRNN(ctrnn.gru(2, 8), dt=0.5)
        >>> output, h_n = rnn(torch.randn(20, 4, 2))
        >>> output.shape, h_n.shape
        (torch.Size([20, 4, 8]), torch.Size([1, 4, 8]))

    Args:    field: a `VectorField`, or a `DelayedField`, whose past is h_0 before the first sample; shared, not copied; step: a
             one-step map, or the name of one, such as "rk4" or "exponential-euler", see docs/steps.md; dt: how long
             a sample lasts where no `ts` says it, 1 if not given; substeps: equal steps a sample is read in; hold: "forward", a
             stamp in `ts` is where its sample begins to act, or "backward", where it has acted since the stamp before and
             nothing depends on what comes later;
             open_interval: how long the last sample acts, or backward the first, where `ts` are stamps, see `ctrnn.inputs.held`;
             batch_first: axes of x, output and ts, as in torch.nn; fused: run the whole sequence by a
             kernel, which is the same to rounding and faster: True, where one is there, or will pay, by what calls of this code,
             this one too, have cost so far; "always", wait for it at the first call, a ValueError with the reason where there
             is none (docs/speed.md); False, step by step. The environment variable CTRNN_FUSED=0 does that everywhere.
             allow_overshoot: as for `DiscreteCell`.
    Call:    rnn(x, h_0=None, ts=None, lengths=None, reset=None, seed=None). With ts, edges or stamps, sample k takes its
             interval's length instead of dt; gradients flow to ts. A chunk of a longer sequence takes edges: its stamps and the
             next chunk's first one. With lengths, or with a PackedSequence for x, a sequence ends
             after its own last sample: what stands in x and ts beyond is not looked at, the output there is 0 or not there, and
             h_n is the state at each sequence's own end. With reset, booleans, a sequence begins anew, from 0, before it reads
             that sample, as if it were cut there; samples act as long as without. seed: of the noise, for a step made for it: a
             whole number, (batch,) keys that go with the samples (`discretize.steps.noise_keys`), or None, drawn from torch's
             generator at each call. A sample's noise depends on its key and its place in the sequence alone, and more substeps
             refine the same path; another call is another path only by another seed. Or a `BrownianPath`, read at the times of
             the samples. `rnn.stats` tells what the last call did, as `Trajectory.stats`: "engine", one of "compiled", "triton",
             "torch" and "steps", "engine_why", why nothing faster ran, steps, and calls of the field.
    Shape:   x (time, batch, input), or (time, input), or a PackedSequence; h_0 (1, batch, state), (batch, state), or a pair
             (h_0, c_0) for [h, c]; ts (time + 1,) edges or (time,) stamps, shared by the batch, or for every sequence its
             own, (time + 1, batch) or (time, batch), (batch, ..) if batch-first; lengths (batch,), from 1 to time; reset
             (time, batch), or (batch, time) if batch-first, or (time,)
             -> output (time, batch, hidden), packed like x if that was, h_n (1, batch, state), never batch-first. These are T
             states for T samples, as torch's RNNs give; `unroll` gives T + 1, with the start in front.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Tallec and Ollivier 2018, eqs. (2), (5), (8), (10) with the Euler step and dt = 1.
    """

    step: Step
    substeps: int

    def __init__(
        self,
        field: VectorField,
        step: Step | str = Euler(),
        dt: float | None = None,
        substeps: int = 1,
        hold: str = "forward",
        batch_first: bool = False,
        fused: Fused = True,
        allow_overshoot: bool = False,
        open_interval: float | None = None,
    ) -> None:
        super().__init__(field, hold, open_interval, batch_first, dt)
        watch = OvershootWatch(allow_overshoot)
        self.step = checked_step(step)
        check_noise(field, self.step)
        self.substeps, self.fused = checks.positive_size("substeps", substeps), is_fused("fused", fused)
        self.watch: OvershootWatch = watch  # behind the settings, as all notes of calls are
        self.stats: dict[str, Any] = {}

    @property
    def noisy(self) -> bool:  # type: ignore[override]
        return isinstance(self.step, StochasticStep)

    def _with_noise(self, given: RaggedCall, seed: Seed | BrownianPath) -> Tensor:
        if not self.noisy:
            return super()._with_noise(given, seed)
        if transform_reason() is None:  # G may have been 0 before it was learned
            check_noise(self.field, self.step)
        return self._addressed(given.xs, seed, given.edges)

    def _addressed(self, xs: Tensor, seed: Seed | BrownianPath, edges: Tensor | None) -> Tensor:
        assert isinstance(self.step, StochasticStep)
        times = self.dt * torch.arange(xs.shape[0] + 1, dtype=torch.float64, device="cpu") if edges is None else edges
        return addressed(seed, xs, self.field, self.step, times, self.substeps)

    live_settings = ("step", "dt", "substeps")

    def _live_map(self) -> LiveMap | None:
        return None if self.noisy else LiveMap(self.step, self.dt, self.substeps, watch=self.watch)

    def _fits_a_graph(self, x: Tensor | PackedSequence) -> bool:
        if isinstance(self.step, StochasticStep) or isinstance(self.field, DelayedField):
            return False
        return isinstance(x, Tensor) and not isinstance(node_in_graph(self.field, self.step, x, self.fused), str)

    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor | Shown:
        if compat.is_exporting():
            if isinstance(field, DelayedField):
                return scanned_with_past(field, self.step, xs, h0, self.dt, self.substeps)
            return scanned_along(field, self.step, xs, h0, self.dt, self.substeps)
        if torch.compiler.is_dynamo_compiling():
            node = node_in_graph(self.field, self.step, xs, self.fused)
            assert not isinstance(node, str)
            self.stats = {"engine": "compiled", "engine_why": None}
            return run_in_graph(node, self.field, xs, h0, self.dt, self.substeps)
        dt, given, counts = self._durations(xs, edges, ragged), xs, self._counts(xs, edges, ragged)
        if isinstance(field, DelayedField):
            times = self.dt * gone_by(xs, ragged) if edges is None else edges
            problem = HeldProblem(field, self.step, xs, h0, dt, self.substeps)
            states, ran, _ = step_with_past(problem, times, self.fused)
            counts.call(len(xs) * self.substeps * self.step.cost(Settled(field)), len(h0))
            self.stats = counts.stats(repr(self.step)) | ran
            return states
        if isinstance(self.step, StochasticStep):
            # Without an address in a stack of layers, each of which draws its own.
            given = xs if xs.shape[-1] > field.input_size else self._addressed(xs, None, edges)
            xs = xs[..., : field.input_size].to(h0.dtype)
        reads = Reads(self.dt, None if ragged is None else ragged.lengths) if edges is None else None
        problem = HeldProblem(field, self.step, given, h0, dt, self.substeps)
        found, ran = run_held(problem, self.fused, counts, reads=reads)
        self.stats = counts.stats(repr(self.step)) | ran
        last = found.state[0] if isinstance(found, Shown) else found[-1]
        lengths = self.dt if edges is None else edges.detach().diff(dim=0)
        if every := self.watch.due(self.step, self.field, lengths / self.substeps, last, len(xs)):
            states = found.states() if isinstance(found, Shown) else found  # whose leaks read what is visible
            length = dt.detach() if isinstance(dt, Tensor) else dt
            self.watch.look(self.step, field, xs, h0, states, length / self.substeps, every)
        if edges is None and not self.noisy and (ragged is None or self.stats["engine"] == "torch"):
            self._plan_for(problem._replace(dt=self.dt), self.fused)
        return found

    def _planned(self, plan: ModulePlan, xs: Tensor, h0: Tensor) -> Tensor | Shown | None:
        if (ran := plan.shown(xs, h0) or plan.run(xs, h0)) is None:
            return None
        found, self.__dict__["stats"] = ran
        length = plan.dt / plan.substeps
        if isinstance(found, Shown):  # of torch's cells, which forget at most everything in a step
            due = self.watch.looks(self.stats["method"], plan.field, length, h0)
            if not due and math.isfinite(found.state.detach().sum().item()):
                self.watch.calls += 1
                return found
        last = found.state[0] if isinstance(found, Shown) else found[-1]
        if every := self.watch.counted(self.stats["method"], plan.field, length, last, len(xs)):
            states = found.states() if isinstance(found, Shown) else found
            self.watch.look(self.step, plan.field, xs, h0, states, length, every)
        return found

    def _counts(self, xs: Tensor, edges: Tensor | None, ragged: Ragged | None) -> SolverStats:
        """The steps of a call, whose calls of the field are still to be counted."""
        if edges is None and ragged is None:
            counts = SolverStats()
            counts.accepted += len(xs) * self.substeps
            counts.smaller(self.dt / self.substeps, 0.0)
            return counts
        times = self.dt * gone_by(xs, ragged) if edges is None else edges.detach()
        lengths = as_array(times.diff(dim=0)).reshape(len(xs), -1)
        counts = SolverStats(lengths.shape[1])
        count_steps(counts, lengths, np.full_like(lengths, self.substeps), times)
        return counts

    def _durations(self, xs: Tensor, edges: Tensor | None, ragged: Ragged | None) -> float | Tensor:
        """The step length of each sample: a number, or (time, 1, 1), or (time, batch, 1), 0 for a sequence that is over."""
        if edges is None:
            return self.dt if ragged is None else self.dt * ragged.read.to(xs)[..., None]
        lengths = edges.diff(dim=0)
        dt = lengths.to(xs)
        if xs.dtype == torch.float16 and transform_reason() is None:  # from 6e-8 to 65504
            kept, given = dt.detach().double().cpu(), lengths.detach()
            lost = (kept.isinf() | (kept == 0)) & (given > 0)
            if bool(lost.any()):
                raise ValueError(
                    f"`ts` has an interval of {float(given[lost][0]):g}, which is {float(kept[lost][0]):g} in {xs.dtype}, as the "
                    "model's states are; give times in another unit."
                )
        return dt.reshape(len(xs), -1, 1)

    def extra_repr(self) -> str:
        stepwise = "" if self.fused is True else f"fused={self.fused!r}, "
        return f"step={self.step!r}, dt={self.dt:g}, substeps={self.substeps}, {stepwise}{super().extra_repr()}"
