r"""Trains the example of FixedPointFinder, three bits kept by 16 tanh units of torch, by the settings of its script.

    h <- tanh(Wx x + Wh h + b)      the step of dh/dt = tanh(...) - h at dt = tau; a pulse in every second sample, on each bit

Golub and Sussillo 2018, software FixedPointFinder, examples/torch: 512 trials of 64 samples, Adam at 1/sqrt(128) with eps 0.001,
the rate times 0.95 after two epochs that are no better, until the mean loss of an epoch is below 1e-4. The code is ours.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from derivations.processes.interruption import checkpoint
from experiments.seeds import drawing, generator

__all__ = ["FlipFlopNet", "pulses", "trained_flip_flop"]

BITS, UNITS, TRIALS, TIME, BATCH, ENOUGH = 3, 16, 512, 64, 128, 1e-4


class FlipFlopNet(nn.Module):
    """Keeps torch's own network, the state it starts in, which it learns, and a read-out."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.read_out = nn.RNN(BITS, UNITS), nn.Linear(UNITS, BITS)
        self.start = nn.Parameter(torch.zeros(1, UNITS))

    def forward(self, xs: Tensor) -> Tensor:
        outputs: Tensor = self.read_out(self.rnn(xs, self.start[None].expand(1, xs.shape[1], UNITS).contiguous())[0])
        return outputs


def pulses(size: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw pulses and the last one of each bit: (time, size, bits)."""
    shape = TIME, size, BITS
    pulsed = torch.rand(shape, generator=draws, dtype=torch.float32) < 0.5
    pulsed[0] = True
    signs = torch.randint(2, shape, generator=draws) * 2 - 1
    last = torch.where(pulsed, torch.arange(TIME)[:, None, None], 0).cummax(0).values
    return (pulsed * signs).float(), signs.gather(0, last).float()


def trained_flip_flop(seed: int, most: int) -> tuple[FlipFlopNet, int, float]:
    """Train one, `most` epochs at most; return it, its epochs and the last one's loss."""
    draws, loss = generator(seed, "flip-flop"), math.inf
    with drawing(draws):
        net = FlipFlopNet()
    xs, wanted = pulses(TRIALS, draws)
    optimizer = torch.optim.Adam(net.parameters(), lr=1 / math.sqrt(BATCH), eps=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.95, patience=1, cooldown=0)
    epoch = 0
    while epoch < most and loss >= ENOUGH:
        checkpoint()
        loss = 0.0
        for batch in torch.randperm(TRIALS, generator=draws).split(BATCH):
            optimizer.zero_grad()
            off = nn.functional.mse_loss(net(xs[:, batch]), wanted[:, batch])
            off.backward()
            optimizer.step()
            loss += off.item() * len(batch) / TRIALS
        scheduler.step(loss)
        epoch += 1
    return net, epoch, loss
