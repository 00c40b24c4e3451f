r"""Builds models whose state jumps at samples, by the names they share with fields.

    ode-rnn gru-ode-bayes gru-d     h jumps where something is seen, and runs by itself in between
    cfc                             each sample puts h on a curve, which it follows until the next

What moves them from sample to sample is the integrator; of gru-d and cfc that is time alone, and any integrator is exact, the
exact one by a single step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import discretize
from experiments.models.fields import JUMPS, FieldSettings, no_time_scale

__all__ = ["jump_module"]

if TYPE_CHECKING:
    import torch

    from discretize import JumpRNN


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
