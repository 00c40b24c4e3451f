"""Says which settings some runs alone read: whose they are in words, and whether the `Configuration` of a run is among these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.models.fields import JUMPS, JUMPS_BY_TIME, LEAKY, NO_FIELDS, WITH_A_POWER
from experiments.models.integrators import EXACT, chooses_steps

__all__ = ["READ_BY"]

READ_BY: list[tuple[tuple[str, ...], str, Callable[[Any], bool]]] = [
    (("t_max",), "init=chrono, or slow-decay", lambda run: run.field_settings.init in ("chrono", "slow-decay")),
    (("t_min",), "init=chrono", lambda run: run.field_settings.init == "chrono"),
    (
        ("alpha",),
        "leaky fields that do not start by chrono, and init=constant",
        lambda run: (
            run.field_settings.init == "constant" or (run.field in LEAKY and run.field_settings.init in ("standard", "balanced"))
        ),
    ),
    (("one_alpha",), "the field leaky", lambda run: run.field == "leaky"),
    (("exponent",), "fields with a power decay", lambda run: run.field in WITH_A_POWER),
    (
        ("exponents",),
        "fields with a power decay that can learn it",
        lambda run: run.field in WITH_A_POWER and run.field != "leaky-power-autograd",
    ),
    (
        ("recurrent_gain", "nonlinearity", "dale"),
        "fields, not for models that jump, or modules of torch",
        lambda run: run.field not in NO_FIELDS,
    ),
    (("method", "rtol", "atol"), f"the integrator {EXACT}", lambda run: run.integrator == EXACT),
    (
        ("method", "rtol", "atol"),
        "what has an equation to solve; of this one a single step is exact",
        lambda run: run.field not in JUMPS_BY_TIME,
    ),
    (("rtol", "atol"), "methods that choose their steps", lambda run: chooses_steps(run.integrator_settings.method)),
    (("substeps",), "step maps", lambda run: run.integrator != EXACT),
    (("cap",), "the integrator capped-euler", lambda run: run.integrator == "capped-euler"),
    (
        ("hold",),
        "fields, and for cfc; a state that jumps does so at the stamp",
        lambda run: run.field not in JUMPS or run.field == "cfc",
    ),
    (("hold",), "tasks whose samples have stamps", lambda run: run.task.stamped),
]
