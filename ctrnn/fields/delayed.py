r"""A cell that reads its own past: dh/dt = F(x(t), h(t), h(t - d_1), ..., h(t - d_k)), a delay differential equation.

Its state is not the vector h(t) but the function h on [t - d, t], so it is no `VectorField`. Where the past is known it is an
input as any other, and `WithPast` is the field that reads it so: on [0, d] the past is the history, on [d, 2 d] what has been
solved, and so on. That is the method of steps (Bellen and Zennaro 2003, Numerical methods for delay differential equations).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.field import VectorField, check_field, check_order
from ctrnn.fields.parts import affine

__all__ = ["Delay", "DelayLine", "DelayedField", "Settled", "WithPast", "check_steppable"]

Delay = float | Callable[[Tensor], Tensor]
_longest: WeakKeyDictionary[nn.Module, float] = WeakKeyDictionary()  # of fields, as last seen: a graph has no numbers


class DelayedField(AnsweredInit, nn.Module, ABC):
    r"""Defines dh/dt = F(x(t), h(t), h(t - d_1), ..., h(t - d_k)); subclasses give `flow`, and may give `project`.

    A network with delays on its connections has a matrix for each of a few delays, and adds up what they make of the past.
    Sequence modules, `unroll` and `integrate` run it as any field; a `DiscreteCell` of it is for `unroll` alone, which knows the
    past.

    Args:    input_size, hidden_size, state_size: as of a `VectorField`; delays: positive numbers in units of time, or functions
             of time, t -> d(t), of which t - d(t) increases; learn: the numbers are a parameter, `delays`, else a buffer.
    Shape:   flow: projected (..., projected), h (..., state), past a tuple, past[k] = h(t - d_k) (..., state) -> (..., state).
    Raises:  TypeError, ValueError for what are no such delays, and for a `flow` with other arguments.
    """

    noise_channels = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        delays: Delay | Sequence[Delay] | Tensor,
        *,
        state_size: int | None = None,
        learn: bool = False,
    ) -> None:
        super().__init__()
        try:
            inspect.signature(type(self).flow).bind(None, None, None, None)
        except TypeError:
            takes = ", ".join([*inspect.signature(type(self).flow).parameters][1:])
            raise TypeError(f"`flow` of {type(self).__name__} takes ({takes}); it must take (projected, h, past).") from None
        check_order(type(self), ("projected", "h", "past"))
        self.input_size: int = checks.size("input_size", input_size)
        self.hidden_size: int = checks.positive_size("hidden_size", hidden_size)
        self.state_size: int = self.hidden_size if state_size is None else checks.positive_size("state_size", state_size)
        given = list(delays) if isinstance(delays, list | tuple) else [delays] if callable(delays) else delays
        self.of_time: tuple[Callable[[Tensor], Tensor], ...] = ()
        if isinstance(given, list) and any(map(callable, given)):
            if not all(map(callable, given)) or learn:
                raise TypeError("`delays` are numbers, which may be learned, or all of them functions of time; got some of each.")
            self.of_time = tuple(given)
            given = []
        try:
            where = delays.device if isinstance(delays, Tensor) else "cpu"  # until they are looked at
            numbers = torch.as_tensor(given, dtype=torch.float64, device=where).reshape(-1)
        except (TypeError, ValueError):
            raise TypeError(f"`delays` must be numbers of units of time, or functions t -> d(t), got {delays!r}.") from None
        if not self.of_time and not (len(numbers) and bool((numbers.detach() > 0).all()) and bool(numbers.isfinite().all())):
            raise ValueError(f"`delays` must be positive numbers of units of time, one or more, got {delays!r}.")
        if not isinstance(delays, Tensor):
            numbers = numbers.to(torch.get_default_device())  # where parameters are made
        self.learn: bool = checks.is_flag("learn", learn)
        if self.learn:
            self.delays: nn.Parameter = nn.Parameter(numbers.detach().clone())
        else:
            self.register_buffer("delays", numbers)
        if not self.of_time and not numbers.is_meta:
            _longest[self] = float(numbers.detach().max())

    @property
    def count(self) -> int:
        """Return the number of delays."""
        return len(self.of_time) or len(self.delays)

    def numbers(self) -> list[float]:
        """Return the delays as numbers. Raises: ValueError for those that are learned and have become no delays."""
        lengths: list[float] = self.delays.detach().tolist()
        if not all(0 < delay < math.inf for delay in lengths):
            raise ValueError(f"`delays` must be positive numbers of units of time, and have become {lengths}.")
        _longest[self] = max(lengths, default=0.0)
        return lengths

    @affine
    def project(self, x: Tensor) -> Tensor:
        """Compute what depends on x alone: (..., input) -> (..., projected)."""
        return x

    def visible(self, state: Tensor) -> Tensor:
        """Return the units that outputs are read from: (..., state) -> (..., hidden)."""
        return state[..., : self.hidden_size]

    @abstractmethod
    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        """Return dh/dt from the projected input, the state, and the states of the past."""

    def forward(self, x: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return self.flow(self.project(x), h, past)

    def initial_state(self, batch: int) -> Tensor:
        """Return the zero state (batch, state), of the parameters' dtype and device."""
        return torch.zeros(checks.positive_size("batch", batch), self.state_size, dtype=self.dtype, device=self.device)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of its parameters but the delays, which are times; None without any."""
        others = (p.dtype for name, p in self.named_parameters() if not checks.is_delays(name))
        return next((dtype for dtype in others if dtype.is_floating_point), None)

    @property
    def device(self) -> torch.device | None:
        """The device of its parameters but the delays; None without any."""
        return next((p.device for name, p in self.named_parameters() if not checks.is_delays(name)), None)

    def extra_repr(self) -> str:
        delays = f"{len(self.of_time)} functions of time" if self.of_time else f"{[round(d, 6) for d in self.delays.tolist()]}"
        return f"{self.input_size}, {self.hidden_size}, delays={delays}"


class WithPast(VectorField):
    r"""Computes the same dh/dt from an input that holds x and the past: cat([x, h(t - d_1), ..., h(t - d_k)], -1).

    Args:    field: shared, not copied; projected: the width of `field.project(x)`, where that is given in the place of x.
    """

    field: DelayedField
    projected: int | None

    def __init__(self, field: DelayedField, projected: int | None = None) -> None:
        width = field.input_size if projected is None else projected
        super().__init__(width + field.count * field.state_size, field.hidden_size, field.state_size)
        self.field, self.projected = field, projected

    @property
    def dtype(self) -> torch.dtype | None:
        return self.field.dtype

    def project(self, x: Tensor) -> Tensor:
        if self.projected is not None:
            return x
        known = self.field.count * self.state_size
        return torch.cat([self.field.project(x[..., : self.field.input_size]), x[..., -known:]], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        known = self.field.count * self.state_size
        past = projected[..., -known:].split(self.state_size, -1)
        return self.field.flow(projected[..., :-known], h, past)


class Settled(VectorField):
    """Computes the dh/dt of a field whose state has always been what it is: F(x, h, h, ..., h), which is 0 where it rests."""

    def __init__(self, field: DelayedField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field: DelayedField = field

    @property
    def dtype(self) -> torch.dtype | None:
        return self.field.dtype

    @property
    def device(self) -> torch.device | None:
        return self.field.device

    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h, (h,) * self.field.count)


def check_steppable(value: object) -> VectorField:
    """Check a field that may read its past, as sequence modules take it: they give it one, and read it as any field otherwise."""
    return cast("VectorField", value) if isinstance(value, DelayedField) else check_field(value)


class DelayLine(VectorField):
    r"""Turns a delayed cell into a vector field, on a state of h and m of its earlier states, `spacing` apart. With u_0 = h,

        dh/dt = F(x, h, past)        du_j/dt = (u_j-1 - u_j) / spacing        past[k] on the line through the two around d_k

    Euler's step of length `spacing` shifts the states exactly: a ring of past states, for `DiscreteRNN` with that dt. So does
    Euler and Maruyama's, of `ctrnn.Noisy(line, noise)`, whose noise drives h and not what is kept of it. Solved
    exactly it is another cell, whose delays are spread: delay j has a gamma distribution of mean j spacing and variance j
    spacing^2 (MacDonald's linear chain).

    Args:    field: shared, not copied, with delays that are numbers; spacing: dt of the steps; longest: the delay up to which
             states are kept, of delays that are learned; else the longest delay.
    Shape:   state (..., (m + 1) * state of the field), h the first of them.
    Raises:  TypeError, ValueError for what does not fit. Delays that have become longer than what is kept, or not positive, give
             states of nan; `check_delays()` says so in words.
    Source:  MacDonald 1978, Time lags in biological models; Euler's step of it is the method of lines for u_t + u_s = 0.
    """

    field: DelayedField
    spacing: float
    states: int

    def __init__(self, field: DelayedField, spacing: float, longest: float | None = None) -> None:
        checks.instance("field", field, DelayedField)
        if field.of_time:
            raise TypeError("The delays of `field` are functions of time; a line of states is for delays that are numbers.")
        spacing = checks.positive_number("spacing", spacing)
        most = float(field.delays.detach().max()) if longest is None else checks.positive_number("longest", longest)
        states = 1 + math.ceil(most / spacing - 1e-9)
        super().__init__(field.input_size, field.hidden_size, states * field.state_size)
        self.field, self.spacing, self.states = field, spacing, states
        self.past_units: int = (states - 1) * field.state_size
        if not torch.compiler.is_exporting():
            self.check_delays()

    @classmethod
    def of_graph(cls, field: DelayedField, spacing: float) -> DelayLine:
        """Make the line of a graph that torch.export traces, in which delays have no numbers; with a state to spare."""
        if field not in _longest:
            raise ValueError("The delays of `field` were loaded and not used yet; call the model once before it is exported.")
        return cls(field, spacing, _longest[field] + spacing)

    @property
    def dtype(self) -> torch.dtype | None:
        return self.field.dtype

    def check_delays(self) -> None:
        """Refuse delays that are longer than what is kept, or not positive."""
        delays, kept = self.field.delays.detach(), (self.states - 1) * self.spacing
        if not bool(((delays > 0) & (delays <= kept * (1 + 1e-9))).all()):
            raise ValueError(
                f"Delays are {delays.tolist()}, and states are kept for {kept:g}: give `longest`, and positive delays."
            )

    def weights(self) -> Tensor:
        """Return how much of each kept state each delay reads, (delays, states); nan for a delay that is not in what is kept."""
        places = torch.arange(self.states, dtype=self.field.delays.dtype, device=self.field.delays.device)
        place = self.field.delays[:, None] / self.spacing
        before = torch.floor(place.detach()).clamp(0, self.states - 2)
        share = place - before
        within = (place > 0) & (place <= (self.states - 1) * (1 + 1e-6))
        shares = torch.where(places == before, 1 - share, torch.where(places == before + 1, share, torch.zeros_like(share)))
        return torch.where(within, shares, torch.full_like(shares, torch.nan))

    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        width = self.field.state_size
        slope = self.field.flow(projected, h[..., :width], self.past(h))
        return torch.cat([slope, (h[..., :-width] - h[..., width:]) / self.spacing], -1)

    def past(self, h: Tensor) -> tuple[Tensor, ...]:
        """Return what each delay reads of a state."""
        line = h.unflatten(-1, (self.states, self.field.state_size))
        return tuple((each[:, None] * line).sum(-2) for each in self.weights().to(h).unbind())

    def state_of(self, history: Tensor | Callable[[Tensor], Tensor], start: float = 0.0) -> Tensor:
        """Return the state that a history leaves: (batch, state), held before, or a function of time."""
        if isinstance(history, Tensor):
            return history.repeat(1, self.states)
        times = start - self.spacing * torch.arange(self.states, dtype=torch.float64, device="cpu")
        return torch.cat([history(t) for t in times], -1)
