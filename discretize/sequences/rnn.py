"""A field as a sequence module, called like `torch.nn.RNN`: discrete and exact, on the same weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ctrnn import HeldPath, HermitePath, LinearPath, VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.calls import answered, torch_name
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_field, check_input, check_like_field, check_state
from ctrnn.inputs.hold import FORWARD, Hold
from ctrnn.inputs.samples import checked_samples
from discretize.fused.cells import run, run_in_graph
from discretize.fused.kernel_spec import Kind
from discretize.gradients.choice import Gradient
from discretize.graphs import scanned, whole
from discretize.integration.integrate import integrate
from discretize.integration.settings import MAX_NUM_STEPS, Settings
from discretize.sequences.cell import checked_step
from discretize.sequences.overshoot import OvershootWatch
from discretize.sequences.pieces import Pieces
from discretize.sequences.ragged import Ragged, gone_by, packed_as, padded
from discretize.sequences.stamps import sample_edges, sample_stamps
from discretize.steps.euler import Euler
from discretize.steps.step import Step
from discretize.trajectory import Trajectory

__all__ = ["ContinuousRNN", "DiscreteRNN", "SequenceModule", "Sequences", "Start", "Lengths"]

Start = Tensor | tuple[Tensor, Tensor] | None
Lengths = Tensor | Sequence[int] | None
PATHS: dict[str, Any] = {"held": HeldPath, "linear": LinearPath, "hermite": HermitePath}


class Sequences(NamedTuple):
    """A call that has been checked: samples (time, batch, input), starts (num_states, batch, state), and as `sample_edges`
    and `Ragged` have them when samples begin and end and which sequences are over."""

    xs: Tensor
    h0: Tensor
    edges: Tensor | None
    ragged: Ragged | None


class SequenceModule(nn.Module, ABC):
    """(x, h_0, ts, lengths) -> (output, h_n), with the axes of `torch.nn.RNN`; subclasses say how the states come about."""

    num_layers, bidirectional = 1, False
    num_states = 1  # num_layers * num_directions

    def __init__(self, hold: str, open_interval: float | None, batch_first: bool) -> None:
        super().__init__()
        self.hold, self.batch_first = Hold(hold, open_interval), checks.is_flag("batch_first", batch_first)

    @overload
    def forward(
        self, x: Tensor, h_0: Start = ..., ts: Tensor | None = ..., lengths: Lengths = ..., reset: Tensor | None = ...
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self, x: PackedSequence, h_0: Start = ..., ts: Tensor | None = ..., lengths: None = ..., reset: Tensor | None = ...
    ) -> tuple[PackedSequence, Tensor]: ...
    @overload
    def forward(self, x: Sequences) -> tuple[Tensor, Tensor]: ...
    @answered
    def forward(
        self,
        x: Tensor | PackedSequence | Sequences,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        if isinstance(x, Sequences):
            return self._run(*x)
        plain = isinstance(x, Tensor) and ts is None and lengths is None and reset is None
        if torch.compiler.is_exporting():
            if not plain:
                raise ValueError("`ts`, `lengths` and `reset` are read as numbers, which torch.export has not; leave them out.")
        elif torch.compiler.is_dynamo_compiling() and not (plain and self._fits_a_graph(x)):
            from discretize.compiling import run_uncompiled  # noqa: PLC0415 - loads the compiler

            return run_uncompiled(SequenceModule.forward, self, x, h_0, ts, lengths, reset)
        if isinstance(x, PackedSequence):
            return self._run_packed(x, h_0, ts, lengths, reset)
        given, batched = self._read(x, h_0, ts, lengths)
        output, h_n = self._run_pieces(given, reset, batched)
        if not batched:
            return output[:, 0], h_n[:, 0]
        output = output if given.ragged is None else given.ragged.output(output)
        return (output.transpose(0, 1) if self.batch_first else output), h_n

    def _run_pieces(self, given: Sequences, reset: Tensor | None, batched: bool) -> tuple[Tensor, Tensor]:
        xs, h0, edges, ragged = given
        if reset is None or not xs.shape[1]:
            return self._run(*given)
        pieces = Pieces(reset, xs, ragged, batched, self.batch_first)
        cut = pieces.samples(xs)
        output, h_n = self._run(cut, pieces.starts(h0), pieces.edges(edges), pieces.ragged(cut))
        return pieces.joined(output), pieces.ends(h_n)

    def _run_packed(
        self, x: PackedSequence, h_0: Start, ts: Tensor | None, lengths: Lengths, reset: Tensor | None
    ) -> tuple[PackedSequence, Tensor]:
        """In the order in which the sequences lie in there, longest first: to reorder samples takes time."""
        given, ragged = self._read_packed(x, h_0, ts, lengths)
        axis = 0 if self.batch_first else 1
        if isinstance(reset, Tensor) and reset.dim() == 2 and reset.shape[axis] == len(ragged.lengths):
            reset = reset if x.sorted_indices is None else reset.index_select(axis, x.sorted_indices.to(reset.device))
        output, h_n = self._run_pieces(given, reset, True)
        return packed_as(x, output, ragged), h_n if x.unsorted_indices is None else h_n.index_select(1, x.unsorted_indices)

    @abstractmethod
    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        """Output (time, batch, features), finite where a sequence is over, and h_n (num_states, batch, state)."""

    @property
    @abstractmethod
    def _reader(self) -> VectorField:
        """The field that reads x."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(torch_name(self, name)) from None

    @property
    def input_size(self) -> int:
        return self._reader.input_size

    @property
    def hidden_size(self) -> int:
        return self._reader.hidden_size

    def _read(self, x: Tensor, h_0: Start, ts: Tensor | None, lengths: Lengths) -> tuple[Sequences, bool]:
        """What the user gave, checked, and whether there was a batch."""
        xs, ragged, batched = self._time_first(x, lengths)
        edges = None if ts is None or not xs.shape[1] else self._edges(ts, xs, ragged, batched)
        return Sequences(xs, self._start(h_0, xs, batched), edges, ragged), batched

    def _read_packed(self, x: PackedSequence, h_0: Start, ts: Tensor | None, lengths: Lengths) -> tuple[Sequences, Ragged]:
        _check_no_lengths(lengths)
        xs, ragged = padded(x._replace(data=cast_for(self._reader, x.data)))
        check_input(self._reader, xs)
        checks.is_finite("x", x.data)
        given, h0, edges = ragged, self._start(h_0, xs, True), None
        if x.sorted_indices is not None and x.unsorted_indices is not None:
            h0, given = h0.index_select(1, x.sorted_indices), Ragged.of(ragged.lengths[x.unsorted_indices.cpu()], xs)
        if ts is not None:
            edges = self._edges(ts, xs, given, True)
            edges = edges if x.sorted_indices is None else edges[:, x.sorted_indices.cpu()]
        return Sequences(xs, h0, edges, ragged), ragged

    def _fits_a_graph(self, x: Tensor | PackedSequence) -> bool:
        """Whether torch.compile is to look into a call without `ts`, `lengths` and `reset`, or else to run it as it is."""
        return False

    def _edges(self, ts: Tensor, xs: Tensor, ragged: Ragged | None, batched: bool) -> Tensor:
        return sample_edges(ts, xs, ragged, batched, self.batch_first, self.hold)

    def _time_first(self, x: Tensor, lengths: Lengths) -> tuple[Tensor, Ragged | None, bool]:
        x = cast_for(self._reader, x)
        check_input(self._reader, x)
        if x.dim() not in (2, 3):
            order = "(batch, time, input)" if self.batch_first else "(time, batch, input)"
            raise ValueError(f"`x` must be {order}, or (time, input) for one sequence, got shape {tuple(x.shape)}.")
        if x.dim() == 2:
            if lengths is not None:
                raise ValueError("`lengths` are for a batch, and `x` is one sequence; cut it, `x[:length]`.")
            return checked_samples(x[:, None], "x"), None, False
        xs = x.transpose(0, 1) if self.batch_first else x
        if lengths is None or 0 in xs.shape:  # refused here, or a batch of 0
            return checked_samples(xs, "x"), None, True
        ragged = Ragged.of(lengths, xs)
        return checked_samples(ragged.samples(xs), "x"), ragged, True

    def _start(self, h_0: Start, xs: Tensor, batched: bool) -> Tensor:
        number, batch, width = self.num_states, xs.shape[1], self._reader.state_size
        if h_0 is None:
            return xs.new_zeros(number, batch, width)
        if isinstance(h_0, tuple | list):
            h_0 = self._joined([cast_for(self._reader, part) for part in h_0])
        h_0 = cast_for(self._reader, h_0)
        check_state(self._reader, h_0, "h_0")
        shapes = [(number, batch, width), (batch, width)] if batched else [(number, width), (width,)]
        shapes = shapes if number == 1 else shapes[:1]
        if tuple(h_0.shape) not in shapes:
            raise ValueError(f"`h_0` must have shape {' or '.join(map(str, shapes))}, got {tuple(h_0.shape)}.")
        checks.is_finite("h_0", h_0)
        return h_0.reshape(number, batch, width)

    def _joined(self, pair: list[Tensor]) -> Tensor:
        hidden, width = self._reader.hidden_size, self._reader.state_size
        if width != 2 * hidden or len(pair) != 2:
            raise ValueError(
                f"`h_0` is a sequence of {len(pair)}; a pair (h_0, c_0) is for fields on the state [h, c], and this one keeps "
                f"{width} units of which {hidden} are visible."
            )
        h, c = pair
        for part in pair:
            check_like_field("h_0", checks.is_tensor("h_0", part), self._reader)
        if h.shape != c.shape or h.dim() == 0 or h.shape[-1] != hidden:
            raise ValueError(f"`h_0` and `c_0` must both be {hidden} wide, got {tuple(h.shape)} and {tuple(c.shape)}.")
        return torch.cat([h, c], -1)

    def extra_repr(self) -> str:
        backward = "" if self.hold.direction == "forward" else "hold='backward', "
        return f"{backward}batch_first={self.batch_first}"


class _OneField(SequenceModule):
    """One field read forwards; subclasses say how its states come about."""

    def __init__(self, field: VectorField, hold: str, open_interval: float | None, batch_first: bool) -> None:
        super().__init__(hold, open_interval, batch_first)
        self.field = check_field(field)

    @property
    def _reader(self) -> VectorField:
        return self.field

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        states = self._states(masked(with_computed_weights(self.field), (xs.shape[1],)), xs, h0[0], edges, ragged)
        # A copy: whoever masks the output must not change the state to go on from.
        return self.field.visible(states), states[-1:].clone() if ragged is None else ragged.final(states)

    @abstractmethod
    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor:
        """(time, batch, input), (batch, state) -> the state after each sample, (time, batch, state); `field`, its masks drawn.

        `edges`: where samples begin and end, (time + 1,) or (time + 1, batch), if given; a sequence that is over stays.
        """


class DiscreteRNN(_OneField):
    r"""The field unrolled by a step map: output k is the state after sample k.

    Args:    field: a `VectorField`, shared, not copied; step: a one-step map; dt: time a sample takes where no `ts` says
             otherwise; substeps: equal steps a sample is read in; hold: "forward", a stamp in `ts` is where its sample begins to
             act, or "backward", where it has acted since the stamp before and nothing depends on what comes later;
             open_interval: how long the last sample acts, or backward the first, where `ts` are stamps, see `ctrnn.inputs.hold`;
             batch_first: axes of x, output and ts, as in torch.nn; fused: run named fields under `Euler` and
             `ExponentialEuler` over the whole sequence at once, which is the same and faster. The environment variable
             CTRNN_FUSED=0 turns that off everywhere. allow_overshoot: as for `DiscreteCell`.
    Call:    rnn(x, h_0=None, ts=None, lengths=None, reset=None). With ts, edges or stamps, sample k takes its interval's
             length instead of dt; gradients flow to ts. With lengths, or with a PackedSequence for x, a sequence ends after its
             own last sample: what stands in x and ts beyond is not looked at, the output there is 0 or not there, and h_n is the
             state at each sequence's own end. With reset, booleans, a sequence begins anew, from 0, before it reads that sample,
             as if it were cut there. `rnn.stats` tells what ran at the last call: "engine", one of "compiled",
             "torch" (both fused) and "steps", and "engine_why", why nothing faster did.
    Shape:   x (time, batch, input), or (time, input), or a PackedSequence; h_0 (1, batch, state), (batch, state), or a pair
             (h_0, c_0) for [h, c]; ts (time + 1,) edges or (time,) stamps, shared by the batch, or for every sequence its
             own, (time + 1, batch) or (time, batch), (batch, ..) if batch-first; lengths (batch,), from 1 to time; reset
             (time, batch), or (batch, time) if batch-first, or (time,)
             -> output (time, batch, hidden), packed like x if that was, h_n (1, batch, state), never batch-first.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Tallec and Ollivier 2018, eqs. (2), (5), (8), (10) with the Euler step and dt = 1.
    """

    def __init__(
        self,
        field: VectorField,
        step: Step = Euler(),
        dt: float = 1.0,
        substeps: int = 1,
        hold: str = "forward",
        batch_first: bool = False,
        fused: bool = True,
        allow_overshoot: bool = False,
        open_interval: float | None = None,
    ) -> None:
        super().__init__(field, hold, open_interval, batch_first)
        self.watch = OvershootWatch(allow_overshoot)
        self.step, self.dt = checked_step(step), checks.positive_number("dt", dt)
        self.substeps, self.fused = checks.positive_size("substeps", substeps), checks.is_flag("fused", fused)
        self.stats: dict[str, Any] = {}

    def _fits_a_graph(self, x: Tensor | PackedSequence) -> bool:
        return isinstance(x, Tensor) and isinstance(self._kind_in_graph(x), Kind)

    def _kind_in_graph(self, x: Tensor) -> Kind | str:
        from discretize.compiling import kind_in_graph  # noqa: PLC0415 - loads the compiler

        return kind_in_graph(self.field, self.step, x, self.fused)

    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor:
        if torch.compiler.is_exporting():
            return scanned(field, self.step, xs, h0, self.dt, self.substeps)
        if torch.compiler.is_dynamo_compiling():
            kind = self._kind_in_graph(xs)
            assert isinstance(kind, Kind)
            self.stats = {"engine": "compiled", "engine_why": None}
            return run_in_graph(field, kind, self.step, xs, h0, self.dt, self.substeps)
        dt = self._durations(xs, edges, ragged)
        states, self.stats = run(field, self.step, xs, h0, dt, self.substeps, self.fused)
        states = self._stepped(field, xs, h0, dt) if states is None else states
        if self.watch.due():
            length = dt.detach() if isinstance(dt, Tensor) else dt
            self.watch.look(self.step, field, xs, h0, states, length / self.substeps)
        return states

    def _stepped(self, field: VectorField, xs: Tensor, h0: Tensor, dt: float | Tensor) -> Tensor:
        h, states, lengths = h0, [], [dt] * len(xs)
        if isinstance(dt, Tensor):
            lengths = list((dt if dt.shape[1] > 1 else dt[:, 0, 0]).unbind(0))
        for projected, length in zip(field.project(xs).unbind(0), lengths, strict=True):
            for _ in range(self.substeps):
                h = self.step.advance(field, projected, h, length / self.substeps)
            states.append(h)
        return torch.stack(states)

    def _durations(self, xs: Tensor, edges: Tensor | None, ragged: Ragged | None) -> float | Tensor:
        """What each sample takes: a number, or (time, 1, 1), or (time, batch, 1), 0 for a sequence that is over."""
        if edges is None:
            return self.dt if ragged is None else self.dt * ragged.read.to(xs)[..., None]
        return edges.diff(dim=0).to(xs).reshape(len(xs), -1, 1)

    def extra_repr(self) -> str:
        stepwise = "" if self.fused else "fused=False, "
        return f"step={self.step!r}, dt={self.dt:g}, substeps={self.substeps}, {stepwise}{super().extra_repr()}"


class ContinuousRNN(_OneField):
    r"""The field integrated exactly over held samples: output k is the state after sample k has been read.

    Args:    field: a `VectorField`, shared, not copied; method, rtol, atol, max_step, gradient, max_num_steps,
             min_step, first_step, progress, fused, on_failure as for `integrate`; hold, open_interval, batch_first as for
             `DiscreteRNN`. path: "held"; or "linear" or "hermite", through the samples at their stamps, which are the knots: `ts`
             has one for each sample, output k is the state at ts[k], the first one is h_0, and nothing that comes later is seen.
    Call:    rnn(x, h_0=None, ts=None, lengths=None, reset=None), as for `DiscreteRNN`; without ts a sample takes 1.
             rnn.trajectory(...) gives the solve itself; `rnn.stats` is what the last call did, as `Trajectory.stats`.
    Shape:   as for `DiscreteRNN`.
    Raises:  TypeError, ValueError for what does not fit; SolverError for a solve that fails.
    Source:  Tallec and Ollivier 2018, eqs. (3), (4), (7).
    """

    def __init__(
        self,
        field: VectorField,
        method: str | Step = "dopri5",
        rtol: float = 1e-5,
        atol: float | Tensor = 1e-7,
        max_step: float | None = None,
        gradient: Gradient = None,
        path: str = "held",
        *,
        hold: str = "forward",
        batch_first: bool = False,
        max_num_steps: int = MAX_NUM_STEPS,
        min_step: float = 0.0,
        first_step: float | None = None,
        progress: bool = False,
        fused: bool = True,
        on_failure: str = "raise",
        open_interval: float | None = None,
    ) -> None:
        super().__init__(field, hold, open_interval, batch_first)
        if path not in PATHS:
            raise ValueError(f"`path` must be one of {', '.join(map(repr, PATHS))}, got {path!r}.")
        if path != "held" and self.hold != FORWARD:
            raise ValueError(f"`hold` and `open_interval` are for held samples, and `path` is {path!r}.")
        self.path = path
        bounds = (max_num_steps, min_step, first_step)
        self.settings = Settings(method, rtol, atol, max_step, gradient, *bounds, progress, fused, on_failure)
        self.stats: dict[str, Any] = {}

    @answered
    @whole
    def trajectory(
        self, x: Tensor | PackedSequence, h_0: Start = None, ts: Tensor | None = None, lengths: Lengths = None
    ) -> Trajectory:
        """The solve behind `rnn(x, h_0, ts, lengths)`: whole states at the edges of the samples, hs (time + 1, batch, state),
        time first, and by `trajectory(t)` at any times between, shared or (n, batch). One sequence is a batch of one."""
        if isinstance(x, PackedSequence):
            _check_no_lengths(lengths)
            x, lengths = pad_packed_sequence(x, self.batch_first)
        (xs, h0, edges, ragged), _ = self._read(x, h_0, ts, lengths)
        return self._solved(self.field, xs, h0[0], edges, ragged)

    def _solved(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Trajectory:
        path = PATHS[self.path].unchecked(xs, self._knots(xs, ragged) if edges is None else edges)
        if len(path.knots) < 2:
            raise ValueError(f"A {self.path} path needs at least two samples, got 1.")
        solved = integrate(field, path, h0, path.knots, **vars(self.settings))
        self.stats = solved.stats
        return solved

    def _states(self, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Tensor:
        if torch.compiler.is_exporting():
            if self.path != "held":
                raise ValueError(f"A module is exported with held samples, and this one has path={self.path!r}.")
            step, substeps = self.settings.step_map()
            return scanned(field, step, xs, h0, 1.0, substeps)
        return self._solved(field, xs, h0, edges, ragged).hs[-len(xs) :]

    def _edges(self, ts: Tensor, xs: Tensor, ragged: Ragged | None, batched: bool) -> Tensor:
        if self.path == "held":
            return super()._edges(ts, xs, ragged, batched)
        return sample_stamps(ts, xs, ragged, batched, self.batch_first)

    def _knots(self, xs: Tensor, ragged: Ragged | None) -> Tensor:
        """Without `ts`: the samples gone by at each edge, or their numbers."""
        edges = gone_by(xs, ragged)
        return edges if self.path == "held" else torch.minimum(edges[:-1], edges[-1] - 1)

    def extra_repr(self) -> str:
        usual = Settings()
        given = {name: value for name, value in vars(self.settings).items() if not _same(value, getattr(usual, name))}
        named = {"method": self.settings.method, "rtol": self.settings.rtol, "atol": self.settings.atol} | given
        named |= {} if self.path == "held" else {"path": self.path}
        return ", ".join([*(f"{name}={value!r}" for name, value in named.items()), super().extra_repr()])


def _check_no_lengths(lengths: Lengths) -> None:
    if lengths is not None:
        raise ValueError("`x` is a PackedSequence, which knows its lengths; leave `lengths` out.")


def _same(value: object, usual: object) -> bool:
    return not isinstance(value, Tensor) and value == usual
