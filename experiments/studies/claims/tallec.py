r"""What the studies of Tallec and Ollivier 2018 have in common: three models, how they start, and how they are trained.

    plain    dh/dt = tanh(Wx x + Wh h + b) - h                 no gate                                  eq. (2)
    leaky    alpha (tanh(..) - h)                              alpha = sigma(a) for each unit           eq. (5)
    gated    g(x, h) (tanh(..) - h)                            a gate for each unit                     eq. (10)

each by unit Euler steps, as the paper has them.
"""

from __future__ import annotations

from typing import Any

from experiments.runs.configuration import Configuration, configuration
from experiments.studies.study import Point, Sizes

__all__ = ["MODELS", "STEPS", "TRAINING_SET", "trained"]

MODELS = ("plain", "leaky", "gated")
TRAINING_SET = 1563  # batches of 32 in 50,000 sequences
STEPS = 3 * TRAINING_SET


def trained(point: Point, sizes: Sizes, longest: int, **task: Any) -> Configuration:
    """By the paper's schedule; time scales up to the longest wait, 2 samples at least; the plain network has none to set."""
    start: dict[str, Any] = {} if point["model"] == "plain" else {"init": "chrono", "t_max": float(max(2, longest))}
    return configuration(
        field=point["model"], integrator="euler", hidden=sizes.hidden, **start, **task, length=sizes.length,
        seed=point["seed"], steps=sizes.steps, rate=sizes.rate, schedule="plateau", batches=sizes.batches,
        evaluate_every=sizes.every, evaluation=sizes.held_out,
    )  # fmt: skip
