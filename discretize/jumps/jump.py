r"""Jumps move the state at an observation, and measure how likely that was.

h(t_k) = jump(x_k, observed_k, h(t_k-))          observed: 1 where a value of x was seen, 0 where not
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Normal, kl_divergence

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.noise import check_no_noise
from discretize.sequences.cell import DiscreteCell

__all__ = ["CellJump", "GRUBayes", "Jump", "bayes_divergence", "bayes_update", "observed_log_prob"]


class Jump(AnsweredInit, nn.Module, ABC):
    r"""Maps the state at an observation; `input_size` is how many values may be seen, `state_size` the units of h, if known;
    `reads_gaps` is False where it does not read which of them were, so that all must be.

    Shape:   x (batch, input), 0 where not observed; observed (batch, input) of 0 and 1; h (batch, state) -> like h.
    """

    input_size: int
    state_size: int | None = None
    reads_gaps: bool = True

    @abstractmethod
    def forward(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor: ...


class CellJump(Jump):
    r"""Lets a discrete cell read the values and which of them were seen: h <- cell([x, observed], h).

    Args:    cell: a `DiscreteCell` of 2 input features for each value.
    Raises:  TypeError, ValueError for another cell.
    Source:  Rubanova, Chen and Duvenaud 2019, "Latent ordinary differential equations for irregularly-sampled time series",
             algorithm 1; the mask beside the values as in their sec. 5.
    """

    cell: DiscreteCell
    input_size: int
    state_size: int

    def __init__(self, cell: DiscreteCell) -> None:
        super().__init__()
        if not isinstance(cell, DiscreteCell):
            raise TypeError(f"`cell` must be a discretize.DiscreteCell, got {type(cell).__name__}.")
        if cell.field.input_size % 2:
            raise ValueError(f"`cell` reads {cell.field.input_size} features; it needs two for each value, which and whether.")
        check_no_noise(cell.field, "jumps", "CellJump")
        self.cell, self.input_size, self.state_size = cell, cell.field.input_size // 2, cell.field.state_size

    def forward(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor:
        return self.cell.following(torch.cat([x, observed], -1), h)


class GRUBayes(Jump):
    r"""Feeds a GRU with what the state expected of each value, and how far off the value was.

        mean, log_variance = f_obs(h)        q_d = [x_d, mean_d, log_variance_d, (x_d - mean_d) / deviation_d]
        h <- GRU(relu(q_d W_d + b_d) for all d, 0 where not observed; h)

    Args:    input_size: values; hidden_size: units; prep: features of each q_d; observer: units of f_obs, which has one hidden
             layer; dtype, device as in torch.nn.
    Source:  De Brouwer, Simm, Arany and Moreau 2019, "GRU-ODE-Bayes", sec. 2.4 and eq. (7).
    """

    input_size: int
    hidden_size: int
    f_obs: nn.Sequential
    weight: nn.Parameter
    bias: nn.Parameter
    cell: nn.GRUCell
    prep: int
    observer: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        prep: int = 4,
        observer: int = 25,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        checks.can_make_weights(dtype, device)
        self.input_size, self.hidden_size = (
            checks.positive_size("input_size", input_size),
            checks.positive_size("hidden_size", hidden_size),
        )
        self.state_size: int = hidden_size
        self.prep, self.observer = checks.positive_size("prep", prep), checks.positive_size("observer", observer)
        where = {"dtype": dtype, "device": device}
        hidden = nn.Linear(hidden_size, observer, **where)  # type: ignore[arg-type]
        self.f_obs = nn.Sequential(hidden, nn.ReLU(), nn.Linear(observer, 2 * input_size, **where))  # type: ignore[arg-type]
        self.weight = nn.Parameter(torch.empty(input_size, 4, prep, **where))  # type: ignore[arg-type]
        self.bias = nn.Parameter(torch.full((input_size, prep), 0.1, **where))  # type: ignore[arg-type]
        nn.init.xavier_normal_(self.weight)
        self.cell = nn.GRUCell(input_size * prep, hidden_size, **where)  # type: ignore[arg-type]

    def expected(self, h: Tensor) -> Normal:
        """Return the normal distribution of each value, (..., input), that the state (..., hidden) expects."""
        mean, log_variance = self.f_obs(h).chunk(2, -1)
        return Normal(mean, (log_variance / 2).exp(), validate_args=False)

    def forward(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor:
        mean, log_variance = self.f_obs(h).chunk(2, -1)
        q = torch.stack([x, mean, log_variance, (x - mean) * (-log_variance / 2).exp()], -1)
        prepared = torch.relu(torch.einsum("bdq,dqp->bdp", q, self.weight) + self.bias) * observed[..., None]
        following: Tensor = self.cell(prepared.flatten(1), h)
        return following


def observed_log_prob(distribution: Distribution, x: Tensor, observed: Tensor) -> Tensor:
    r"""Return the log-likelihood of each value that was observed, 0 of the others.

    Args:    distribution: of each value, Normal or Categorical say; x: the values, anything where not observed.
    Shape:   x and observed (..., input), the distribution's batch shape -> (..., input).
    Source:  De Brouwer et al. 2019, eq. (8).
    """
    seen = observed.bool()
    # A value that was not seen may be nan, whose gradient would be nan too.
    return torch.where(seen, distribution.log_prob(torch.where(seen, x, torch.zeros_like(x))), 0.0)


def bayes_update(prior: Normal, x: Tensor, deviation: float) -> Normal:
    r"""Return the posterior by Bayes' rule: the prior times Normal(x, deviation), normalized.

        1 / variance = 1 / prior variance + 1 / deviation^2        mean / variance = prior mean / prior variance + x / deviation^2

    Args:    prior: a normal distribution of each value; deviation: of the noise with which values are observed.
    Raises:  ValueError if deviation is not above 0.
    Source:  De Brouwer et al. 2019, sec. 2.4.
    """
    weight = prior.variance / (prior.variance + checks.positive_number("deviation", deviation) ** 2)
    return Normal(prior.mean + weight * (x - prior.mean), weight.sqrt() * deviation, validate_args=False)


def bayes_divergence(before: Normal, after: Normal, x: Tensor, observed: Tensor, deviation: float = 0.01) -> Tensor:
    r"""Return how far a jump is from Bayes' rule: KL(`bayes_update` of before, after).

    The loss of GRU-ODE-Bayes is sum(lambda divergence - `observed_log_prob`), lambda 1e-4 in its authors' runs.

    Args:    before, after: what is expected of each value before and after the jump; x: the values, anything where not
             observed; deviation: of the noise with which values are observed.
    Shape:   x and observed (..., input), the distributions' batch shape -> (..., input), 0 of values that were not observed.
    Raises:  ValueError if deviation is not above 0.
    Source:  De Brouwer et al. 2019, Loss_post of sec. 2.4; their code takes KL(after, Normal(x, deviation)) instead, where
             nothing of what was expected before counts.
    """
    seen = observed.bool()
    updated = bayes_update(before, torch.where(seen, x, torch.zeros_like(x)), deviation)
    return torch.where(seen, kl_divergence(updated, after), 0.0)
