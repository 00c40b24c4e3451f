"""Check the arguments of sequence modules, which are called like `torch.nn.RNN`, and lay out their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.calls import AnsweredInit, answered, torch_name
from ctrnn.combinations import Trait
from ctrnn.fields.field import check_input, check_like_field, check_state
from ctrnn.inputs.held import Hold
from ctrnn.inputs.samples import checked_samples
from discretize import compat
from discretize.graphs import check_not_traced
from discretize.kernels.shown import Shown, call_key
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed, check_no_seed, fresh_keys
from discretize.sequences.chunks import end_of_call, keep_end, look_at_batch, look_at_past, look_at_start
from discretize.sequences.clocked import Clocked
from discretize.sequences.live import LiveMap, live_step
from discretize.sequences.pieces import SequencePieces
from discretize.sequences.ragged import Ragged, RaggedCall, packed_as, padded
from discretize.sequences.stamps import number_of_times, sample_edges
from discretize.units import look_at_intervals, look_at_lengths

if TYPE_CHECKING:
    from discretize.kernels.repeated import Repeated

__all__ = ["Lengths", "SequenceModule", "RaggedCall", "Start", "check_module", "check_no_lengths"]

Start = Tensor | tuple[Tensor, Tensor] | None
Lengths = Tensor | Sequence[int] | None


class SequenceModule(AnsweredInit, Clocked, nn.Module, ABC):
    """(x, h_0, ts, lengths) -> (output, h_n), with the axes of `torch.nn.RNN`; subclasses say how the states come about."""

    hold: Hold
    batch_first: bool

    num_layers: int = 1
    bidirectional: bool = False
    num_states = 1  # num_layers * num_directions
    reads_at_the_end = False  # of a sample's interval, and not all the while
    joins_chunks = "Give the last time of the chunk before in front of them: edges, `ts[k - 1 : k + n]`."
    noisy = False  # whether a call draws noise, and xs has columns of its address
    _batch_before = 0  # how many sequences the last call had
    reads_past = False  # whether a field has delays, and goes on from more than a state
    _repeats: dict[Any, Repeated | None] | None = None  # calls, time first, by `call_key`

    def __init__(self, hold: str, open_interval: float | None, batch_first: bool) -> None:
        super().__init__()
        self.hold, self.batch_first = Hold(hold, open_interval), checks.is_flag("batch_first", batch_first)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_plan", "_repeats")}

    @overload
    def forward(
        self,
        x: Tensor,
        h_0: Start = ...,
        ts: Tensor | None = ...,
        lengths: Lengths = ...,
        reset: Tensor | None = ...,
        seed: Seed | BrownianPath = ...,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self,
        x: PackedSequence,
        h_0: Start = ...,
        ts: Tensor | None = ...,
        lengths: None = ...,
        reset: Tensor | None = ...,
        seed: Seed | BrownianPath = ...,
    ) -> tuple[PackedSequence, Tensor]: ...
    @overload
    def forward(self, x: RaggedCall) -> tuple[Tensor, Tensor]: ...
    @answered
    def forward(
        self,
        x: Tensor | PackedSequence | RaggedCall,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        reset: Tensor | None = None,
        seed: Seed | BrownianPath = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        if isinstance(x, RaggedCall):
            return self._run(*x)
        if ts is None and lengths is None and reset is None and seed is None:
            if self._repeats and not torch.compiler.is_dynamo_compiling():
                given = x.transpose(0, 1) if self.batch_first and type(x) is Tensor and x.dim() == 3 else x
                try:
                    repeated = self._repeats.get(call_key(given, h_0))
                except TypeError:  # of a size that torch does not know
                    repeated = None
                if repeated is not None and (ran := repeated(self, given, h_0)) is not None:
                    return ran if given is x else (ran[0].transpose(0, 1), ran[1])
            if not torch.compiler.is_compiling() and (ran := self._as_planned(x, h_0)):
                return ran
        return self._run_anew(x, h_0, ts, lengths, reset, seed)

    def _run_anew(
        self,
        x: Tensor | PackedSequence,
        h_0: Start,
        ts: Tensor | None,
        lengths: Lengths,
        reset: Tensor | None,
        seed: Seed | BrownianPath,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        check_not_traced()
        plain = isinstance(x, Tensor) and ts is None and lengths is None and reset is None and seed is None
        if compat.is_exporting():
            if not (plain or (isinstance(seed, Tensor) and (ts, lengths, reset) == (None, None, None))):
                raise ValueError(
                    "`ts`, `lengths` and `reset` are read as numbers, which torch.export has not; leave them out, and give keys "
                    "as `seed`."
                )
        elif torch.compiler.is_dynamo_compiling() and not (plain and self._fits_a_graph(x)):
            from discretize.compiling import run_uncompiled  # noqa: PLC0415 - loads the compiler

            return run_uncompiled(SequenceModule.forward, self, x, h_0, ts, lengths, reset, seed)
        if isinstance(x, PackedSequence):
            return self._run_packed(x, h_0, ts, lengths, reset, seed)
        given, batched = self._read(x, h_0, ts, lengths)
        begins, ends = (False, False) if given.edges is None else self._taken(ts, given.xs)
        if h_0 is not None and given.edges is not None:
            look_at_start(self, given.h0, given.edges, begins, self.joins_chunks)
        if h_0 is not None and self.reads_past:
            look_at_past(self, given.h0)
        given = given._replace(xs=self._with_noise(given, seed))
        output, h_n = self._run_pieces(given, reset, batched)
        if self.reads_past:
            keep_end(self, h_n)
        if given.edges is not None and given.ragged is None:
            end_of_call(self, h_n, given.edges, ends)
        if not batched:
            return output[:, 0], h_n[:, 0]
        output = output if given.ragged is None else given.ragged.output(output)
        return (output.transpose(0, 1) if self.batch_first else output), h_n

    def live_step(
        self,
        x: Tensor,
        state: Start = None,
        dt: float | Tensor | None = None,
        *,
        reset: Tensor | bool | None = None,
        seed: Seed = None,
        place: int | Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        r"""Read one sample of a stream: `output, state = rnn.live_step(x, state)`, as a call over a sequence would.

        Arguments are looked at in full at the first call, and whenever something about them or the module has changed; numbers
        that are not finite then only. Gradients flow where torch records them. Hooks of the module are for its calls.

        Args:    x: the sample; state: that after the sample before, or a call's h_n, None at the beginning; dt: how long the
                 sample acts, a number or one for each sequence, by default as long as in a call without `ts`; reset: True
                 where a sequence begins anew, from 0, before it reads the sample; seed, place: of the noise, together: the
                 keys of a call, or a whole number, and the number of the sample in its sequence. Without, noise is drawn anew.
        Shape:   x (batch, input) or (input,); state as the h_n of a call; dt (batch,) or (batch, 1) if no number; reset (batch,)
                 -> output (batch, features) or (features,); state.
        Raises:  TypeError, ValueError for what does not fit, and for modules of which a sample depends on what comes later.
        """
        return live_step(self, x, state, dt, reset, seed, place)

    live_settings: tuple[str, ...] = ()  # the names of what a live step depends on, beside the field

    def _live_map(self) -> LiveMap | None:
        """Return how a sample is stepped through; None where a step is run as a sequence of one sample."""
        return None

    def _live_traits(self) -> dict[Trait, str]:
        """Return what may keep a module from a stream."""
        return {}

    def _as_planned(self, x: Tensor | PackedSequence, h_0: Start) -> tuple[Tensor | PackedSequence, Tensor] | None:
        """Run a call as one before it was, without deciding anew; None for one that is not like it, or is to be refused."""
        if isinstance(x, PackedSequence):
            result = self._packed_by_plan(x, h_0)
            return None if result is None else (x._replace(data=result.output), result.state)
        if not isinstance(x, Tensor) or x.dim() not in (2, 3):
            return None
        xs = x[:, None] if x.dim() == 2 else x.transpose(0, 1) if self.batch_first else x
        if (ran := self._by_plan(xs, h_0)) is None or (x.dim() == 3 and not self.batch_first):
            return ran
        output, h_n = ran
        return (output[:, 0], h_n[:, 0]) if x.dim() == 2 else (output.transpose(0, 1), h_n)

    def _by_plan(self, xs: Tensor, h_0: Start) -> tuple[Tensor, Tensor] | None:
        """As `_as_planned`, (time, batch, input) -> (time, batch, features) and h_n."""
        return None

    def _packed_by_plan(self, x: PackedSequence, h_0: Start) -> Shown | None:
        """As `_as_planned`, the values of what is packed."""
        return None

    def _run_pieces(self, given: RaggedCall, reset: Tensor | None, batched: bool) -> tuple[Tensor, Tensor]:
        xs, h0, edges, ragged = given
        if reset is None or not xs.shape[1]:
            return self._run(*given)
        pieces = SequencePieces(reset, xs, ragged, batched, self.batch_first)
        cut, edges = pieces.samples(xs), self._clock(xs, ragged) if edges is None else edges
        output, h_n = self._run(cut, pieces.starts(h0), pieces.edges(edges, self.reads_at_the_end), pieces.ragged(cut))
        self._ran(pieces.sequence, pieces.start if edges is None else None)
        return pieces.joined(output), pieces.ends(h_n)

    def _run_packed(
        self,
        x: PackedSequence,
        h_0: Start,
        ts: Tensor | None,
        lengths: Lengths,
        reset: Tensor | None,
        seed: Seed | BrownianPath,
    ) -> tuple[PackedSequence, Tensor]:
        """In the order in which the sequences lie in there, longest first: to reorder samples takes time."""
        given, ragged = self._read_packed(x, h_0, ts, lengths)
        if isinstance(seed, BrownianPath):
            raise ValueError(
                "`seed` is a path, whose samples are not in the order of a PackedSequence; give keys, or a whole number."
            )
        if seed is not None and x.sorted_indices is not None:
            seed = fresh_keys(seed, given.xs.shape[1])[x.sorted_indices.cpu()]
        given = given._replace(xs=self._with_noise(given, seed))
        axis = 0 if self.batch_first else 1
        if isinstance(reset, Tensor) and reset.dim() == 2 and reset.shape[axis] == len(ragged.lengths):
            reset = reset if x.sorted_indices is None else reset.index_select(axis, x.sorted_indices.to(reset.device))
        output, h_n = self._run_pieces(given, reset, True)
        if x.sorted_indices is not None:
            self._ran(x.sorted_indices.cpu())
        return packed_as(x, output, ragged), h_n if x.unsorted_indices is None else h_n.index_select(1, x.unsorted_indices)

    def _with_noise(self, given: RaggedCall, seed: Seed | BrownianPath) -> Tensor:
        """Put the noise of a call beside its samples, of modules whose fields have some."""
        check_no_seed(seed)
        return given.xs

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

    def _read(self, x: Tensor, h_0: Start, ts: Tensor | None, lengths: Lengths) -> tuple[RaggedCall, bool]:
        """Check the user's arguments; return them and whether there was a batch."""
        xs, ragged, batched = self._time_first(x, lengths)
        if not batched and ts is None and h_0 is None:  # which would say what the first axis is
            look_at_batch(self, x, self._batch_before)
        edges = None if ts is None or not xs.shape[1] else self._edges(ts, xs, ragged, batched)
        if edges is not None:
            self._look_at(edges)
        return RaggedCall(xs, self._start(h_0, xs, batched), edges, ragged), batched

    def _read_packed(self, x: PackedSequence, h_0: Start, ts: Tensor | None, lengths: Lengths) -> tuple[RaggedCall, Ragged]:
        check_no_lengths(lengths)
        xs, ragged = padded(x._replace(data=cast_for(self._reader, x.data)))
        check_input(self._reader, xs)
        checks.is_finite("x", x.data)
        given, h0, edges = ragged, self._start(h_0, xs, True), None
        if x.sorted_indices is not None and x.unsorted_indices is not None:
            h0, given = h0.index_select(1, x.sorted_indices), Ragged.of(ragged.lengths[x.unsorted_indices.cpu()], xs)
        if ts is not None:
            edges = self._edges(ts, xs, given, True)
            self._look_at(edges)
            edges = edges if x.sorted_indices is None else edges[:, x.sorted_indices.cpu()]
        return RaggedCall(xs, h0, edges, ragged), ragged

    def _look_at(self, edges: Tensor) -> None:
        look_at_intervals(getattr(self, "field", self._reader), edges)
        look_at_lengths(self._clocked(), edges)

    def _fits_a_graph(self, x: Tensor | PackedSequence) -> bool:
        """Whether torch.compile is to look into a call without `ts`, `lengths` and `reset`, or else to run it as it is."""
        return False

    def _edges(self, ts: Tensor, xs: Tensor, ragged: Ragged | None, batched: bool) -> Tensor:
        return sample_edges(ts, xs, ragged, batched, self.batch_first, self.hold, self)

    def _clock(self, xs: Tensor, ragged: Ragged | None) -> Tensor | None:
        """Return the edges of a call without `ts` whose sequences are cut, of a module that tells the time."""
        return None

    def _ran(self, sequence: Tensor, starts: Tensor | None = None) -> None:
        """Called after a run whose batch was another one: which sequence each of its samples is, and at which time it begins."""

    def _taken(self, ts: object, xs: Tensor) -> tuple[bool, bool]:
        """Whether the edges in front of the first sample and behind the last one were taken from stamps, and nobody said them."""
        stamps, forward = number_of_times(ts, self.batch_first) == len(xs), self.hold.direction == "forward"
        return stamps and not forward, stamps and forward and self.hold.open_interval is None

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
        if not torch.compiler.is_compiling():  # where sizes are symbols
            self.__dict__["_batch_before"] = xs.shape[1]
        if lengths is None or 0 in xs.shape:  # refused here, or a batch of 0
            return checked_samples(xs, "x"), None, True
        ragged = Ragged.of(lengths, xs)
        return checked_samples(ragged.samples(xs), "x"), ragged, True

    def _start(self, h_0: Start, xs: Tensor, batched: bool, name: str = "h_0") -> Tensor:
        number, batch, width = self.num_states, xs.shape[1], self._reader.state_size
        if h_0 is None:
            return xs.new_zeros(number, batch, width)
        if isinstance(h_0, tuple | list):
            h_0 = self._joined([cast_for(self._reader, part) for part in h_0], name)
        h_0 = cast_for(self._reader, h_0)
        check_state(self._reader, h_0, name)
        shapes = [(number, batch, width), (batch, width)] if batched else [(number, width), (width,)]
        shapes = shapes if number == 1 else shapes[:1]
        if not any(h_0.shape == shape for shape in shapes):  # sizes may be symbols of torch.compile
            raise ValueError(f"`{name}` must have shape {' or '.join(map(str, shapes))}, got {tuple(h_0.shape)}.")
        checks.is_finite(name, h_0)
        return h_0.reshape(number, batch, width)

    def _joined(self, pair: list[Tensor], name: str = "h_0") -> Tensor:
        hidden, width = self._reader.hidden_size, self._reader.state_size
        if width != 2 * hidden or len(pair) != 2:
            raise ValueError(
                f"`{name}` is a sequence of {len(pair)}; a pair (h_0, c_0) is for fields on the state [h, c], and this one keeps "
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


def check_no_lengths(lengths: Lengths) -> None:
    """Refuse `lengths` beside packed sequences."""
    if lengths is not None:
        raise ValueError("`x` is a PackedSequence, which knows its lengths; leave `lengths` out.")


def check_module(rnn: object) -> None:
    """Refuse what is no sequence module, and say what makes one of it."""
    if isinstance(rnn, SequenceModule):
        return
    hint = "."
    if isinstance(rnn, VectorField) or hasattr(rnn, "delays"):
        hint = "; it takes steps in one, `discretize.DiscreteRNN(field)`."
    elif isinstance(rnn, nn.RNNBase):
        hint = "; make one, `discretize.DiscreteRNN(ctrnn.from_torch(rnn))`."
    raise TypeError(f"`rnn` must be a discretize.DiscreteRNN, ContinuousRNN or Layers, got {type(rnn).__name__}{hint}")
