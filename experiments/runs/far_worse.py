r"""Say that a run ends far worse than the best guess without memory, and by more than chance in its test explains.

    loss > 1.5 guess        and        loss - guess > 4 standard errors        or        loss > 100 guess

The standard error is that of the mean over the sequences of the test. Where few of them hold most of the loss it is nearly as
large as the loss, and says nothing: but a model whose losses, at least 0 each, have the guess for a mean ends above 100 times
that with a probability below 1/100, however they are distributed (Markov).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import Tensor

from experiments.runs.configuration import DEFAULT_TRAINING, TrainingSettings
from experiments.tasks.task import Batch, Task

__all__ = ["far_worse"]

TIMES, ERRORS, BEYOND_CHANCE = 1.5, 4.0, 100.0


def far_worse(
    task: Task, loss: float, answers: Iterable[tuple[Batch, Tensor]], settings: TrainingSettings = DEFAULT_TRAINING
) -> str:
    r"""Say how much worse a test loss is than a guess and what to try, "" where it is not far worse, or no guess is known.

    The guess is the task's baseline "memoryless", or the largest one; no loss is a multiple of a guess that loses nothing.

    Args:    answers: the batches of the test, and what the model made of each; read only where the loss is large; settings: of
             the training, so that nothing is advised that it has already.
    """
    known = task.baselines()
    name = "memoryless" if "memoryless" in known else max(known, key=known.__getitem__, default="")
    guess = known.get(name, 0.0)
    if not 0 < TIMES * guess < loss:
        return ""
    error = _standard_error(task, answers)
    if loss - guess <= ERRORS * error and loss <= BEYOND_CHANCE * guess:
        return ""
    choices = [f"a smaller learning rate (--set lr={settings.lr / 4:.1g})"]
    choices += [] if settings.clip is not None else ["a bound on the gradient (--set clip=1)"]
    choices += [f"more steps (--set steps={3 * settings.steps})"]
    choices += [] if settings.keep == "best" else ["the weights of the best evaluation (--set keep=best)"]
    return (
        f"the run ends far worse than without memory: its test loss is {loss:.4g}, with a standard error of {error:.2g}, and the "
        f"predictor `{name}` loses {guess:.4g}. Training has diverged, has hardly begun, or has learned nothing but its own "
        f"data; metrics.csv shows which, and g_dt_largest in it whether steps were too long for the rates. Try "
        f"{', '.join(choices[:-1])}, or {choices[-1]}, in another --out DIR."
    )


def _standard_error(task: Task, answers: Iterable[tuple[Batch, Tensor]]) -> float:
    """Compute the standard error of a mean over sequences, each weighted by what counts in it; infinite for a single one."""
    pairs = []
    for batch, outputs in answers:
        for k in range(batch.size):
            one = task.part(batch, slice(k, k + 1))
            if weight := task.weight(one):
                pairs.append((weight, float(task.loss(outputs[:, k : k + 1], one))))
    total = math.fsum(weight for weight, _ in pairs)
    mean = math.fsum(weight * loss for weight, loss in pairs) / total
    squares = math.fsum((weight * (loss - mean)) ** 2 for weight, loss in pairs)
    return math.sqrt(squares * len(pairs) / (len(pairs) - 1)) / total if len(pairs) > 1 else math.inf
