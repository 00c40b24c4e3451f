r"""Stack sequence modules as torch.nn.LSTM stacks its layers: each reads the whole output of the one below.

    output_0 = x        output_l = [forward_l(output_l-1), backward_l(output_l-1)]        output = output_L

`ctrnn.cells.Stack` is another model: one field, whose layers move together, each a sample behind the one below.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.calls import answered
from ctrnn.combinations import Trait
from ctrnn.fields.field import check_input, check_state
from ctrnn.inputs.held import FORWARD
from ctrnn.own_code import own_code
from discretize.errors import TimeUnitWarning, warn_user
from discretize.kernels.shown import Shown
from discretize.loop.noise import address_columns, address_of
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed, fresh_keys
from discretize.sequences.clocked import copied
from discretize.sequences.continuous import ContinuousRNN
from discretize.sequences.module import RaggedCall, SequenceModule, Start
from discretize.sequences.ragged import Ragged
from discretize.sequences.rnn import DiscreteRNN
from discretize.sequences.stamps import reversed_edges

__all__ = ["Layers"]

Rnn = DiscreteRNN | ContinuousRNN


class Layers(SequenceModule):
    r"""Sequence modules from the bottom up, each over the output of the layer below; called like torch.nn.LSTM.

    A layer is one module, or a pair [forward, backward]: the second reads each sequence from its own end to its start, every
    sample for as long as it lasts, and the layer's output is both side by side. All steps, solvers, kernels, `ts` and
    `lengths` are those of the modules.

        >>> lower, upper = discretize.DiscreteRNN(ctrnn.gru(2, 8)), discretize.DiscreteRNN(ctrnn.plain(8, 8))
        >>> Layers([lower, upper])(torch.randn(20, 3, 2))[0].shape
        torch.Size([20, 3, 8])

    Args:    layers: `DiscreteRNN`s or `ContinuousRNN`s, or pairs of them, the first reads x; each further one reads as many
             features as the layer below has outputs. They are time-first and hold forward, whatever stands here.
             dropout: the probability to drop each output of every layer but the last, at each sample anew, in training.
             hold, open_interval, batch_first: as for `DiscreteRNN`, of the whole; pair: give the final states as
             torch.nn.LSTM's (h_n, c_n), for fields on [h, c], as h_0 is taken by any.
             `Layers.of` makes the modules too, from sizes as torch.nn's constructors take them.
    Call:    layers(x, h_0=None, ts=None, lengths=None, reset=None, seed=None), as for `DiscreteRNN`. `layers.stats` has "engine",
             the word of all modules, or their words, and "engine_why"; that of one module is `layers.layers[l][d].stats`.
    Shape:   as for `DiscreteRNN`, with num_layers * num_directions states in place of 1, those of a layer together;
             output (time, batch, num_directions * hidden). `hidden_size` is that of one direction, as in torch.
    Raises:  TypeError, ValueError for modules that do not chain, and at the call for what does not fit.
    Source:  torch.nn.RNN, GRU and LSTM; Schuster and Paliwal 1997 for two directions.
    """

    num_layers: int
    bidirectional: bool
    dropout: float
    pair: bool

    def __init__(
        self,
        layers: Iterable[Rnn | Sequence[Rnn]],
        dropout: float = 0.0,
        batch_first: bool = False,
        pair: bool = False,
        hold: str = "forward",
        open_interval: float | None = None,
    ) -> None:
        super().__init__(hold, open_interval, batch_first)
        rows = _checked(layers)
        self.layers: nn.ModuleList = nn.ModuleList(nn.ModuleList(row) for row in rows)
        self.num_layers, self.bidirectional = len(rows), len(rows[0]) == 2
        self.num_states: int = self.num_layers * len(rows[0])
        self.dropout, self.pair = checks.probability("dropout", dropout), checks.is_flag("pair", pair)
        _say_if_lengths_differ(self._clocked())
        field = self._reader
        if self.pair and field.state_size != 2 * field.hidden_size:
            raise ValueError(f"`pair` is for fields on [h, c]; these keep {field.state_size} units, {field.hidden_size} visible.")
        if self.dropout and self.num_layers == 1:
            warn_user("`dropout` acts between layers, and there is one; it has no effect.", UserWarning)

    @classmethod
    @answered
    def of(
        cls,
        make_field: Callable[..., VectorField],
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        batch_first: bool = False,
        pair: bool = False,
        hold: str = "forward",
        open_interval: float | None = None,
        **settings: Any,
    ) -> Layers:
        r"""Make layers as torch.nn's constructors do: `Layers.of(ctrnn.gru, 8, 64, num_layers=2, bidirectional=True)`.

        Every layer has a field of its own in each direction, `make_field(features, hidden_size)`: the first layer reads
        `input_size` features, further ones the outputs of both directions below.

        Args:    make_field: a constructor of fields, such as `ctrnn.gru`, a class or a function of yours;
                 input_size, hidden_size, num_layers, bidirectional: as for torch.nn.GRU; dropout, batch_first, pair, hold,
                 open_interval: as for `Layers`; settings: those of `DiscreteRNN`, such as step=, dt= or substeps=; or, where
                 method= or another that only it has is among them, of `ContinuousRNN`; all others are given to `make_field`:
                 of the named fields bias=, dtype=, device= and generator=.
        Raises:  TypeError, ValueError for what does not fit.
        """
        if not callable(make_field) or isinstance(make_field, nn.Module):
            hint = "; one field has the weights of one layer" if isinstance(make_field, VectorField) else ""
            raise TypeError(f"`make_field` must make fields, such as `ctrnn.gru`, got {type(make_field).__name__}{hint}.")
        directions = 1 + checks.is_flag("bidirectional", bidirectional)
        stepped, solved = (inspect.signature(kind).parameters.keys() for kind in (DiscreteRNN, ContinuousRNN))
        kind: type[Rnn] = ContinuousRNN if settings.keys() & (solved - stepped) else DiscreteRNN
        of_rnn = {name: settings.pop(name) for name in [*settings] if name in inspect.signature(kind).parameters}

        def layer(features: int) -> list[Rnn]:
            return [kind(make_field(features, hidden_size, **settings), **of_rnn) for _ in range(directions)]

        rows = [layer(input_size)]
        for _ in range(checks.positive_size("num_layers", num_layers) - 1):
            rows.append(layer(directions * rows[0][0].hidden_size))
        return cls(rows, dropout, batch_first, pair, hold, open_interval)

    @answered
    def forward(self, x: Any, h_0: Any = None, ts: Any = None, lengths: Any = None, reset: Any = None, seed: Any = None) -> Any:
        output, h_n = super().forward(x, h_0, ts, lengths, reset, seed)
        return output, self._paired(h_n)

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
        """As `SequenceModule.live_step`, layer by layer; the state is a pair if `pair`."""
        if self.noisy or self.bidirectional or seed is not None or place is not None:
            output, after = super().live_step(x, state, dt, reset=reset, seed=seed, place=place)
            return output, self._paired(after)
        if isinstance(state, tuple | list):
            state = self._joined([cast_for(self._reader, part) for part in state], "state")
        if isinstance(state, Tensor) and (state.dim() == 0 or len(state) != self.num_layers):
            check_state(self._reader, state, "state")
            raise ValueError(f"`state` must have {self.num_layers} layers on its first axis, got shape {tuple(state.shape)}.")
        ends = []
        for k, layer in enumerate(self.layers):
            x = dropout(x, self.dropout, self.training) if k and self.dropout else x
            x, end = layer[0].live_step(x, state if state is None else state[k : k + 1], dt, reset=reset)  # type: ignore[index]
            ends.append(end)
        return x, self._paired(torch.cat(ends))

    def _paired(self, state: Tensor) -> Tensor | tuple[Tensor, ...]:
        return tuple(part.contiguous() for part in state.chunk(2, -1)) if self.pair else state

    def _live_traits(self) -> dict[Trait, str]:
        traits: dict[Trait, str] = {"two directions": "bidirectional=True"} if self.bidirectional else {}
        for row in self._rows():
            traits.update(row[0]._live_traits())
        return traits

    @property
    def stats(self) -> dict[str, Any]:
        """The statistics of the last call."""
        parts = [module.stats for row in self._rows() for module in row if module.stats]
        reasons = [one["engine_why"] for one in parts if one.get("engine_why")]
        return {"engine": ", ".join(dict.fromkeys(one["engine"] for one in parts)), "engine_why": next(iter(reasons), None)}

    def _fits_a_graph(self, x: Any) -> bool:
        return all(module._fits_a_graph(x) for row in self._rows() for module in row)

    @property
    def noisy(self) -> bool:  # type: ignore[override]
        return any(module.noisy for row in self._rows() for module in row)

    @property
    def reads_past(self) -> bool:  # type: ignore[override]
        return any(module.reads_past for row in self._rows() for module in row)

    def _with_noise(self, given: RaggedCall, seed: Seed | BrownianPath) -> Tensor:
        if not self.noisy:
            return super()._with_noise(given, seed)
        if isinstance(seed, BrownianPath):
            raise ValueError("`seed` is a path, and each layer has noise of its own; give keys, or a whole number.")
        return torch.cat([given.xs, address_columns(fresh_keys(seed, given.xs.shape[1]), given.xs)], -1)

    def _by_plan(self, xs: Tensor, h_0: Start) -> tuple[Tensor, Tensor] | None:
        return self._jointly(xs, h_0)

    def _packed_by_plan(self, x: PackedSequence, h_0: Start) -> Shown | None:
        return self._jointly(x, h_0)

    def _jointly(self, x: Tensor | PackedSequence, h_0: Start) -> Shown | None:
        """All layers by one call of torch's own function, where each would be run by it."""
        modules = self._clocked()
        plans = [getattr(module, "_plan", None) for module in modules]
        if not all(plan is not None and plan.may_be_torchs() for plan in plans) or own_code(self, Layers) is not None:
            return None
        from discretize.kernels.jointly import run_jointly  # noqa: PLC0415 - loads kernels

        return run_jointly(self, modules, 1 + self.bidirectional, x, h_0, self.dropout if self.training else 0.0)

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        xs, address = xs.split([self.input_size, xs.shape[-1] - self.input_size], -1)
        xs, places = xs.to(h0.dtype), count(1)

        def given(xs: Tensor, module: Rnn) -> Tensor:
            return torch.cat([xs, address_of(address, next(places))], -1) if module.noisy else xs

        lengths = None if ragged is None else ragged.lengths
        backwards = None if edges is None or not self.bidirectional else reversed_edges(edges, lengths)
        starts = iter(h0.split(1))
        ends: list[Tensor] = []
        for k, row in enumerate(self._rows()):
            if k:
                drop = dropout if ragged is None else ragged.dropout
                xs = drop(xs, self.dropout, self.training)
            for module in row if k else row[1:]:  # the first is the reader, at which the entrance has looked
                check_input(module.field, xs)
            output, end = row[0](RaggedCall(given(xs, row[0]), next(starts), edges, ragged))
            outputs, ends = [output], [*ends, end]
            for module in row[1:]:
                turned = given(_turned(xs, ragged), module)
                output, end = module(RaggedCall(turned, next(starts), backwards, ragged))
                outputs.append(_turned(output, ragged))
                ends.append(end)
            xs = torch.cat(outputs, -1) if len(outputs) > 1 else output
        return xs, torch.cat(ends)

    def _ran(self, sequence: Tensor, starts: Tensor | None = None) -> None:
        for row in self._rows():
            for module in row:
                module._ran(sequence, starts)

    @property
    def _reader(self) -> VectorField:
        row: Any = next(iter(self.layers))
        field: VectorField = next(iter(row)).field
        return field

    @property
    def dt(self) -> float | None:  # type: ignore[override]
        """How long a sample lasts without `ts`; None where that differs from module to module."""
        lengths = {module.dt for module in self._clocked()}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def dt_given(self) -> bool:  # type: ignore[override]
        return any(module.dt_given for module in self._clocked())

    @property
    def _counts_samples(self) -> bool:
        return all(module._counts_samples for module in self._clocked())

    def _clocked(self) -> list[Rnn]:
        return [module for row in self._rows() for module in row]

    def _made_of(self, modules: list[Rnn]) -> Layers:
        found, left = copied(self), iter(modules)
        found.layers = nn.ModuleList(nn.ModuleList(next(left) for _ in row) for row in self._rows())
        return found

    def _counted(self, xs: Tensor, ragged: Ragged | None) -> Tensor:
        return self._clocked()[-1]._counted(xs, ragged)

    def _rows(self) -> list[list[Rnn]]:
        return [list(row) for row in self.layers]  # type: ignore[call-overload]

    def extra_repr(self) -> str:
        given = f"dropout={self.dropout:g}, " if self.dropout else ""
        return f"{given}{'pair=True, ' if self.pair else ''}{super().extra_repr()}"


def _say_if_lengths_differ(modules: list[Rnn]) -> None:
    """Warn of a module that counts samples among others that were told how long one lasts."""
    told = [module.dt for module in modules if not module._counts_samples]
    if told and len(told) < len(modules) and told != [1.0] * len(told):
        warn_user(
            f"Some of `layers` have dt={told[0]:g}, others none, so that a sample lasts {told[0]:g} in the first and 1 in the "
            "others; give `dt` to all.",
            TimeUnitWarning,
        )


def _turned(xs: Tensor, ragged: Ragged | None) -> Tensor:
    return xs.flip(0) if ragged is None else ragged.turned(xs)


def _checked(layers: object) -> list[list[Rnn]]:
    if isinstance(layers, SequenceModule) or not isinstance(layers, Iterable):
        hint = "put it in a list" if isinstance(layers, SequenceModule) else "`Layers.of` takes a constructor of fields"
        raise TypeError(f"`layers` must be a sequence of sequence modules, got {type(layers).__name__}; {hint}.")
    rows = [_checked_row(k, row) for k, row in enumerate(layers)]
    if not rows:
        raise ValueError("`layers` is empty; give at least one, the one that reads x first.")
    first = rows[0][0].field
    reads = first.input_size
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"`layers[{k}]` has {len(row)} directions, `layers[0]` has {len(rows[0])}; give each as many.")
        for module in row:
            _check_sizes(k, module.field, first, reads)
        reads = len(row) * first.hidden_size
    checks.same_settings((f"layers[{k}]", module.field) for k, row in enumerate(rows) for module in row)
    return rows


def _checked_row(k: int, row: object) -> list[Rnn]:
    modules = list(row) if isinstance(row, Iterable) else [row]
    if not 1 <= len(modules) <= 2:
        raise TypeError(f"`layers[{k}]` must be a sequence module, or a pair of them, [forward, backward], got {len(modules)}.")
    checked: list[Rnn] = []
    for module in modules:
        if not isinstance(module, Rnn):
            raise TypeError(
                f"`layers[{k}]` must be made of discretize.DiscreteRNN or ContinuousRNN, got {type(module).__name__}; "
                "`discretize.layers_from_torch` takes the layers of a torch module."
            )
        if module.batch_first:
            raise ValueError(f"`layers[{k}]` is batch-first; modules inside are time-first: give batch_first=True to `Layers`.")
        if isinstance(module, ContinuousRNN) and module.path != "held":
            raise ValueError(f"`layers[{k}]` has path={module.path!r}, whose outputs are at the samples; layers hold theirs.")
        if module.hold != FORWARD:
            raise ValueError(f"`layers[{k}]` has a `hold` or `open_interval` of its own; give them to `Layers`.")
        checked.append(module)
    return checked


def _check_sizes(k: int, field: VectorField, first: VectorField, reads: int) -> None:
    if field.input_size != reads:
        came = "x has" if k == 0 else f"`layers[{k - 1}]` below it gives"
        raise ValueError(f"`layers[{k}]` reads {field.input_size} features, {came} {reads}; make one with input_size {reads}.")
    if (field.hidden_size, field.state_size) != (first.hidden_size, first.state_size):
        raise ValueError(
            f"`layers[{k}]` has {field.hidden_size} visible units of {field.state_size}, `layers[0]` has {first.hidden_size} of "
            f"{first.state_size}; their states are one tensor (num_layers * num_directions, batch, state), as torch's."
        )
