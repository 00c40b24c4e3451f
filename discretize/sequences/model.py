r"""Put an encoder before a recurrent network, and a linear read-out behind it.

outputs_k = W h_k + b          h_k the state after sample k, driven by encoder(x)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.calls import AnsweredInit, answered
from discretize.errors import warn_user
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed
from discretize.sequences.module import Lengths, SequenceModule, Start, check_module
from discretize.sequences.twins import on_the_clock_of, other_tensor, solved, stepped
from discretize.settings import Method
from discretize.steps.step import Step

__all__ = ["SequenceModel"]

PLACES = ("ts", "lengths", "seed", "h_0")  # by position after xs until version 0.2, where a sequence module has h_0 first


class SequenceModel(AnsweredInit, nn.Module):
    r"""A sequence of inputs -> a sequence of outputs, by any field under any step or solver.

        >>> model = SequenceModel(discretize.DiscreteRNN(ctrnn.gru(2, 8)), 3)
        >>> model(torch.randn(20, 4, 2)).shape  # 3 numbers at every sample
        torch.Size([20, 4, 3])
        >>> model.solved(rtol=1e-6)(torch.randn(20, 4, 2)).shape  # the same weights, their equation solved
        torch.Size([20, 4, 3])

    Args:    rnn: a `DiscreteRNN`, `ContinuousRNN`, `Layers` or `JumpRNN`, shared; output_size: numbers read out after every
             sample; encoder: a module of each sample, (..., features) -> (..., input), before the rnn; generator: for the
             read-out's weights, which start as those of torch.nn.Linear.
    Call:    model(xs, h_0=None, ts=None, lengths=None, reset=None, seed=None), as for the rnn, all but xs by name; xs in any
             dtype, read in the model's, but for integers before an encoder with a torch.nn.Embedding in it. By position a second
             argument is `ts`, as it was, with a FutureWarning.
    Shape:   xs (time, batch, features), or (time, batch) of integers before a torch.nn.Embedding -> (time, batch, output_size);
             batch-first if the rnn is.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Tallec and Ollivier 2018, sec. 3.
    """

    encoder: nn.Module | None
    rnn: SequenceModule
    output_size: int

    def __init__(
        self,
        rnn: SequenceModule,
        output_size: int,
        generator: torch.Generator | None = None,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_module(rnn)
        if encoder is not None and not isinstance(encoder, nn.Module):
            raise TypeError(f"`encoder` must be a torch.nn.Module, got {type(encoder).__name__}.")
        self.encoder, self.rnn, self.output_size = encoder, rnn, checks.positive_size("output_size", output_size)
        weights = (p for name, p in rnn.named_parameters() if not name.endswith("delays"))  # which are times, in float64
        width, like = (1 + rnn.bidirectional) * rnn.hidden_size, next(weights, torch.empty(0))
        # What torch.nn.Linear draws, from a generator of our own. Not by `skip_init`, which loads SymPy, a second.
        self.read_out: nn.Linear = nn.Linear(width, self.output_size, dtype=like.dtype, device="meta")
        for name, parameter in list(self.read_out.named_parameters()):
            drawn = nn.Parameter(torch.empty(parameter.shape, dtype=like.dtype, device=like.device))
            nn.init.uniform_(drawn, -1 / math.sqrt(width), 1 / math.sqrt(width), generator=generator)
            setattr(self.read_out, name, drawn)

    @answered
    def forward(
        self,
        xs: Tensor,
        *by_position: Any,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        reset: Tensor | None = None,
        seed: Seed | BrownianPath = None,
    ) -> Tensor:
        given = {"h_0": h_0, "ts": ts, "lengths": lengths, "reset": reset, "seed": seed}
        if by_position:
            given = _named(by_position, given)
        more = {name: value for name, value in given.items() if value is not None}  # models that jump have no noise
        xs = _on_its_way(xs, next(self.read_out.parameters(), xs), self.encoder)
        states, _ = self.rnn(xs if self.encoder is None else self.encoder(xs), **more)
        return self.read_out(states)

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
        r"""Read one sample of a stream: `output, state = model.live_step(x, state)`, the output read out, the state the rnn's.

        Args:    as for `DiscreteRNN.live_step`.
        Shape:   x (batch, features) or (features,) -> output (batch, output_size) or (output_size,); state.
        Raises:  TypeError, ValueError for what does not fit.
        """
        checks.is_tensor("x", x)
        encoder, read_out = self.encoder, self.read_out
        # At once where it is a plain one: a walk over all parameters takes a tenth of a step's time.
        x = _on_its_way(x, read_out.weight if type(read_out) is nn.Linear else next(read_out.parameters(), x), encoder)
        if encoder is not None:
            x = encoder(x)
        noise = {} if seed is None and place is None else {"seed": seed, "place": place}
        output, state = self.rnn.live_step(x, state, dt, reset=reset, **noise)
        return read_out(output), state

    @property
    def field(self) -> VectorField:
        """The vector field, without its step or solver; of a model of one layer."""
        return self.rnn.field

    def under(self, rnn: SequenceModule, *, other_weights: bool = False) -> SequenceModel:
        r"""Return the same encoder and read-out, shared, around another sequence module of the same field.

        A sample lasts as long as here: an rnn that was given no `dt` takes this model's, in a copy that shares the field, and no
        `open_interval`, this one's. One that was given another `dt`, `hold` or `batch_first` reads the same data otherwise: it is
        used as it is, and that is said. Without such a word: `solved` and `stepped`, which keep all that is not given.

        Args:    rnn: a `DiscreteRNN`, `ContinuousRNN`, `Layers` or `JumpRNN`; other_weights: whether it may be of another field,
                 with weights of its own.
        Raises:  TypeError, ValueError for what is none, for other sizes, and for another field's weights.
        """
        check_module(rnn)
        reads = (1 + rnn.bidirectional) * rnn.hidden_size
        width = getattr(self.read_out, "in_features", reads)  # a read-out may have been replaced
        if reads != width or rnn.input_size != self.rnn.input_size:
            raise ValueError(
                f"`rnn` reads {rnn.input_size} features and gives {reads}, the model's own {self.rnn.input_size} and {width}; "
                "take one of the model's field, `model.field`."
            )
        if not checks.is_flag("other_weights", other_weights) and (name := other_tensor(rnn, self.rnn)):
            raise ValueError(
                f"`rnn` is of another field than the model's: its `{name}` is not among the trained weights. Make it of "
                "`model.field`; if other weights are meant, say `other_weights=True`."
            )
        return self._around(on_the_clock_of(self.rnn, rnn))

    def solved(self, method: Method | None = None, **settings: Any) -> SequenceModel:
        r"""Return the model with its equation solved: the same weights, shared, on the same data.

        Samples last as long as here, and act as here (`dt`, `hold`, `open_interval`, `batch_first`).

        Args:    method, and settings: as for `ContinuousRNN`, such as rtol=1e-8; what is not given is as here, if this model is
                 solved already. dt: how long a sample lasts, of data recorded at another rate.
        Raises:  TypeError, ValueError for what does not go with the field.
        """
        return self._around(solved(self.rnn, method, **settings))

    def stepped(self, step: Step | str | None = None, **settings: Any) -> SequenceModel:
        r"""Return the model by steps of one length: the same weights, shared, on the same data, as `solved`.

        Args:    step, by default the model's own, or `Euler`; settings: as for `DiscreteRNN`, such as substeps=4; dt: how long a
                 sample lasts, of data recorded at another rate.
        Raises:  TypeError, ValueError for what does not go with the field, or with steps: events, paths through the samples.
        """
        return self._around(stepped(self.rnn, step, **settings))

    def output_times(self, xs: Tensor, ts: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Return the times to which the outputs of a call belong, as `DiscreteRNN.output_times`."""
        return self.rnn.output_times(xs[..., None] if _embeds_at_once(self.encoder) else xs, ts, lengths)

    def _around(self, rnn: SequenceModule) -> SequenceModel:
        moved = SequenceModel.__new__(SequenceModel)
        nn.Module.__init__(moved)
        moved.encoder, moved.rnn, moved.read_out, moved.output_size = self.encoder, rnn, self.read_out, self.output_size
        return moved.train(self.training)


def _on_its_way(xs: Tensor, like: Tensor, encoder: nn.Module | None) -> Tensor:
    """Return inputs in the dtype and on the device of a model; of integers that are embedded the device alone."""
    if not xs.is_floating_point() and encoder is not None and any(isinstance(part, nn.Embedding) for part in encoder.modules()):
        return xs.to(like.device)
    return xs.to(like)


def _embeds_at_once(encoder: nn.Module | None) -> bool:
    """Return whether samples are numbers of rows, without an axis of features."""
    while isinstance(encoder, nn.Sequential) and len(encoder):
        encoder = encoder[0]
    return isinstance(encoder, nn.Embedding)


def _named(by_position: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, of which some came by position: said is what each of them was taken for."""
    if len(by_position) > len(PLACES):
        raise TypeError(f"`SequenceModel` takes xs by position, got {1 + len(by_position)} arguments; give the others by name.")
    taken = dict(zip(PLACES, by_position, strict=False))
    if twice := next((name for name in taken if named[name] is not None), None):
        raise TypeError(f"`SequenceModel` was given `{twice}` twice, by position and by name.")
    said = ", ".join(f"{name}=" for name in taken)
    warn_user(
        f"A SequenceModel takes all but xs by name; what came by position was read as {said} and will be refused in the next "
        "version. (Sequence modules, as torch's, have h_0 there.)",
        FutureWarning,
    )
    return named | taken
