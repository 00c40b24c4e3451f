"""Says in a StoppedError why training cannot go on, and what to try."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from discretize import SolverError, StepError
from experiments.runs.stopping import StoppedError

__all__ = ["failures_explained", "refuse_non_finite"]

OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "size calculation overflowed", "bad_alloc")


@contextmanager
def failures_explained(step: int) -> Iterator[None]:
    """Turn errors of solves, steps and memory into a StoppedError that says what to try."""
    try:
        yield
    except (SolverError, StepError) as error:
        raise StoppedError(
            # Its hint is for who calls the solver: a run has other settings.
            f"step {step}: the solve failed, {error.cause}. In training that is most often a rate of the field that has grown "
            f"too large for the solver: try a smaller learning rate (--set lr=...), a bound on the gradient (--set clip=1), "
            f"another --set method=... or looser tolerances (--set rtol=... atol=...), in another --out DIR.",
            "diverged",
            step,
        ) from error
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        raise StoppedError(
            f"step {step}: there is not enough memory for it; what was saved before is kept. Try smaller sequences, fewer of "
            f"them (--set batch=..., evaluation=...) or fewer units (--set hidden=...), in another --out DIR.",
            "out of memory",
            step,
        ) from error


def refuse_non_finite(step: int, **numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number):
            cure = "Try a smaller learning rate (--set lr=...) or a bound on the gradient (--set clip=1)"
            if step == 1:
                cure = (
                    "Nothing was learned yet, so it is the model that leaves all bounds: try another --integrator (exact, or "
                    "exponential-euler), shorter steps (--set substeps=4), shorter sequences, or smaller recurrent weights "
                    "(--set recurrent_gain=...)"
                )
            raise StoppedError(
                f"the {name} is {number:g} at step {step}; the last good state is kept. {cure}, in another --out DIR.",
                "diverged",
                step,
            )
