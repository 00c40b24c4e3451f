r"""Builds models whose state jumps at samples, by the names they share with fields.

    ode-rnn gru-ode-bayes gru-d     h jumps where something is seen, and runs by itself in between
    cfc                             each sample puts h on a curve, which it follows until the next

What moves them from sample to sample is the integrator; of gru-d and cfc that is time alone, and any integrator is exact, the
exact one by a single step. The loss of gru-ode-bayes has a part beside the task's, the mean over all values that are seen of

    -log p(value | what is expected before its stamp) + 1e-4 KL(Bayes' update of that, what is expected after)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import discretize
from experiments.models.fields import JUMPS, FieldSettings, no_time_scale

__all__ = ["count_seen", "expects", "jump_module", "outputs_and_surprise"]

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from discretize import Batch, JumpRNN, SequenceModel

DIVERGENCE = 1e-4  # the share of De Brouwer et al. 2019


def jump_module(name: str, input_size: int, settings: FieldSettings, generator: torch.Generator, masked: bool = False) -> JumpRNN:
    r"""Build the model of that name, in float32, drawn from the generator.

    Args:    masked: whether half of the input says what of the other half was seen; cfc reads that as values like others.
    Raises:  UsageError for chrono, as there is no time scale to set.
    """
    import torch  # noqa: PLC0415

    from experiments.seeds import drawing  # noqa: PLC0415

    if settings.init != "standard":
        raise no_time_scale(name, settings)
    make = getattr(discretize, JUMPS[name])
    with drawing(generator):
        rnn: JumpRNN = make(input_size // 2 if masked and make is not discretize.cfc else input_size, settings.hidden)
    return rnn.to(torch.float32)


def expects(model: SequenceModel) -> bool:
    """Return whether a model tells, before it sees values, which ones it expects."""
    return isinstance(model.rnn, discretize.JumpRNN) and isinstance(model.rnn.jump, discretize.GRUBayes)


def outputs_and_surprise(model: SequenceModel, batch: Batch) -> tuple[Tensor, Tensor]:
    r"""Compute the outputs of a model that expects what it sees, and how far from that its values are, in nats a value.

    Args:    batch: samples are values, all seen, or [values, 1 where seen, else 0].
    Source:  De Brouwer, Simm, Arany and Moreau 2019, sec. 2.4, where values are summed.
    """
    rnn = model.rnn
    assert isinstance(rnn, discretize.JumpRNN)
    assert isinstance(rnn.jump, discretize.GRUBayes)
    xs = batch.xs.to(model.read_out.weight)
    states = rnn.jumps(xs, ts=batch.ts, lengths=batch.lengths)
    values, seen = xs[..., : rnn.jump.input_size], _seen(xs, rnn.jump.input_size, batch.lengths)
    before, after = map(rnn.jump.expected, states)
    likelihood = discretize.observed_log_prob(before, values, seen)
    surprise = DIVERGENCE * discretize.bayes_divergence(before, after, values, seen) - likelihood
    return model.read_out(rnn.field.visible(states.after)), surprise.sum() / seen.sum().clamp(min=1)


def count_seen(model: SequenceModel, batch: Batch) -> float:
    """Count the values of a batch over which `outputs_and_surprise` takes its mean."""
    rnn = model.rnn
    assert isinstance(rnn, discretize.JumpRNN)
    assert isinstance(rnn.jump, discretize.GRUBayes)
    return float(_seen(batch.xs, rnn.jump.input_size, batch.lengths).sum())


def _seen(xs: Tensor, size: int, lengths: Tensor | None) -> Tensor:
    """Return 1 where a value was seen, else 0, (time, batch, size)."""
    import torch  # noqa: PLC0415

    seen = xs[..., size:] if xs.shape[-1] == 2 * size else torch.ones_like(xs[..., :size])
    if lengths is None:
        return seen
    return seen * (torch.arange(len(xs), device=xs.device)[:, None] < lengths.to(xs.device))[..., None]
