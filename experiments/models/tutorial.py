r"""The network of a tutorial: a loop over Euler steps, with the tutorials' names of weights.

h <- (1 - dt/tau) h + dt/tau relu(Wx x + bx + Wh h + bh)      dt/tau = 0.2, as in the tutorial's perceptual decisions
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["TutorialLoop"]


class TutorialLoop(nn.Module):
    """Runs Euler steps in a Python loop, as it is copied from tutorials."""

    def __init__(self, inputs: int, hidden: int, dt: float = 20.0, tau: float = 100.0) -> None:
        super().__init__()
        self.tau, self.alpha = tau, dt / tau
        self.input2h, self.h2h = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)

    def forward(self, xs: Tensor) -> Tensor:
        h, states = xs.new_zeros(xs.shape[1], self.h2h.in_features), []
        for x in xs:
            h = (1 - self.alpha) * h + self.alpha * torch.relu(self.input2h(x) + self.h2h(h))
            states.append(h)
        return torch.stack(states)
