r"""Draws trials of the environments of neurogym, as its `Dataset` gives them for supervised learning, at any step.

    inputs        what is observed at every sample      targets       the action that is right there
    counts        the samples of the trial              times         in time constants: milliseconds / tau

A sequence is one trial, padded to the longest of its batch. The environment is made anew for every batch and seeded for every
trial, so that a batch is a function of its generator alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import install_line
from experiments.settings import Count
from experiments.tasks.task import Batch, ClassAtEverySample, said_right
from experiments.usage import nearest

__all__ = ["NeuroGym"]

LARGEST_SEED = 2**31


@dataclass(frozen=True)
class NeuroGym(ClassAtEverySample):
    r"""Say the action that an environment of neurogym asks for at every sample; its measure `choice` is the accuracy where that
    is not action 0, which is fixation in most of them.

    Args:    env: such as PerceptualDecisionMaking-v0; dt: milliseconds from one sample to the next; tau: those of a time
             constant of the network; weight_asked: how much a sample counts that asks for another action than 0, where the others
             count 1; in neurogym's `Dataset` 1, and 5 in Yang et al. 2019.
    Raises:  ValueError where neurogym is not installed, for environments that are not there, that have no trials with right
             actions, or whose actions are not numbered.
    Source:  Molano-Mazon et al. 2022, "NeuroGym: an open resource for developing and sharing neuroscience tasks".
    """

    env: str = "PerceptualDecisionMaking-v0"
    dt: Count = 20
    tau: float = 100.0
    weight_asked: float = 1.0
    measured: ClassVar[Sequence[str]] = ("loss", "accuracy", "choice")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_number("tau", self.tau)
        checks.positive_number("weight_asked", self.weight_asked)
        assert self.sizes

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Return how many features are observed, and how many actions there are."""
        environment = self._made()
        environment.seed(0)
        try:
            environment.new_trial()
            observed, right = environment.ob, environment.gt
        except (AttributeError, TypeError, NotImplementedError) as error:
            raise ValueError(
                f"`env` {self.env} has no trials with right actions, which supervised learning needs: {error}"
            ) from error
        actions = getattr(environment.action_space, "n", None)
        if actions is None or right.ndim != 1 or observed.ndim != 2:
            raise ValueError(
                f"`env` must number its actions and observe a list of numbers; {self.env} has {environment.action_space}."
            )
        return observed.shape[1], int(actions)

    @property
    def input_size(self) -> int:
        return self.sizes[0]

    @property
    def output_size(self) -> int:
        return self.sizes[1]

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        environment, trials = self._made(), []
        for seed in torch.randint(LARGEST_SEED, (size,), generator=generator).tolist():
            environment.seed(seed)
            environment.new_trial()
            trials.append((torch.as_tensor(environment.ob).clone(), torch.as_tensor(environment.gt).long().clone()))
        xs, targets = (torch.nn.utils.rnn.pad_sequence(list(part)) for part in zip(*trials, strict=True))
        lengths = torch.tensor([len(x) for x, _ in trials])
        inside = torch.arange(len(xs))[:, None] < lengths
        counts = torch.where(targets != 0, self.weight_asked, 1.0).to(torch.get_default_dtype()) * inside
        ts = self.dt / self.tau * torch.arange(len(xs) + 1, dtype=torch.float64)
        return Batch(xs.to(counts), targets, counts, ts)

    @torch.no_grad()
    def measures(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        asked = self._asked(batch)
        right = said_right(outputs, batch.targets) & asked
        return super().measures(outputs, batch) | {"choice": float(right.sum() / asked.sum().clamp(min=1))}

    def means(self, outputs: Tensor, batch: Batch) -> dict[str, tuple[float, float]]:
        means = super().means(outputs, batch)
        return means | {"choice": (means["choice"][0], float(self._asked(batch).sum()))}

    @staticmethod
    def _asked(batch: Batch) -> Tensor:
        """Return where a choice is asked for, (time, batch)."""
        return (batch.targets != 0) & (True if batch.counts is None else batch.counts > 0)

    def _made(self) -> Any:
        try:
            import neurogym  # noqa: PLC0415
            from neurogym.envs.registration import all_envs  # noqa: PLC0415
        except ImportError as error:
            raise ValueError(f"the task neurogym needs the package of that name: {install_line('tasks')}.") from error
        if self.env not in (known := all_envs(collections=True)):
            raise ValueError(f"`env`: neurogym has no environment {nearest(self.env, known)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gymnasium's, of metadata of neurogym's
            try:
                return neurogym.make(self.env, dt=self.dt).unwrapped
            except (TypeError, ValueError) as error:
                raise ValueError(f"`env` {self.env} cannot be made with dt = {self.dt} ms alone: {error}") from error
