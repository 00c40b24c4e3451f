"""One unit of a GRU in continuous time, as eq:unit of continuous_gru.md has it."""

import torch
from torch import Tensor, nn


class Unit(nn.Module):
    input_size, hidden_size = 1, 1

    def __init__(self) -> None:
        super().__init__()
        self.p, self.q, self.u, self.w = (nn.Parameter(torch.randn(1)) for _ in range(4))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        kept = torch.sigmoid(self.p * x + self.q * h)
        return (1 - kept) * (torch.tanh(self.w * x + self.u * h) - h)
