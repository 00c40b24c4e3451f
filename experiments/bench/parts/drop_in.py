r"""Programs of torchdiffeq's users by it and by `discretize.torchdiffeq`: the same call, its module exchanged.

    latent decoder    odeint(net, z0, ts), of torchdiffeq's latent_ode.py: a net of three layers that counts its calls, or a
                      function around one that does not
    spiral            odeint(net(y**3), y0, ts), of its ode_demo.py: a batch at ten times, and one spiral at many
    bouncing ball     odeint_event, four times, of its bouncing_ball.py

Tolerances are torchdiffeq's defaults, but for the ball, whose are those of its example. Kernels are built before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import discretize.torchdiffeq
from experiments.bench.options import absent
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.session import Job, Session

__all__ = ["DropInSizes", "drop_in_rows"]

PATIENCE = 20.0  # seconds
OURS = "`discretize.torchdiffeq`"
PEER = "torchdiffeq"
Odeint = Callable[..., Any]


class DropInSizes(NamedTuple):
    """Of the decoder: rows and times; of one spiral: times."""

    batch: int
    times: int
    long: int

    def __str__(self) -> str:
        return f"B {self.batch}, {self.times} times"


class Latent(nn.Module):
    """The decoder's equation, as in latent_ode.py but for the counter."""

    def __init__(self, latent: int = 4, hidden: int = 20) -> None:
        super().__init__()
        layers = (nn.Linear(latent, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, latent))
        self.fc1, self.fc2, self.fc3, self.elu = *layers, nn.ELU(inplace=True)

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        slope: Tensor = self.fc3(self.elu(self.fc2(self.elu(self.fc1(x)))))
        return slope


class CountedLatent(Latent):
    """As in latent_ode.py."""

    nfe = 0

    def __init__(self) -> None:
        super().__init__()
        self.nfe = 0

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        self.nfe += 1
        return super().forward(t, x)


class Spiral(nn.Module):
    """The equation of ode_demo.py."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Linear(2, 50), nn.Linear(50, 2)
        self.net = nn.Sequential(layers[0], nn.Tanh(), layers[1])
        for layer in layers:
            nn.init.normal_(layer.weight, mean=0, std=0.1)
            nn.init.zeros_(layer.bias)

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        slope: Tensor = self.net(y**3)
        return slope


class Ball(nn.Module):
    """The ball of bouncing_ball.py: (height, speed, logarithm of the radius)."""

    gravity: nn.Parameter
    height: nn.Parameter
    speed: nn.Parameter
    absorption: nn.Parameter
    log_radius: nn.Parameter
    t0: nn.Parameter

    def __init__(self) -> None:
        super().__init__()
        given = {"gravity": 9.8, "height": 10.0, "speed": 0.0, "absorption": 0.2, "log_radius": -3.0, "t0": 0.0}
        for name, value in given.items():
            self.register_parameter(name, nn.Parameter(torch.tensor([value], dtype=torch.float64)))

    def forward(self, t: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        _, speed, log_radius = state
        return speed, -self.gravity, torch.zeros_like(log_radius)

    def touches(self, t: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        return state[0] - state[2].exp()

    def bounces(self, module: ModuleType, bounces: int = 4) -> Tensor:
        """The times of the first bounces, and where the last one is."""
        t: Tensor = self.t0
        state: tuple[Tensor, ...] = (self.height, self.speed, self.log_radius)
        times: list[Tensor] = []
        for _ in range(bounces):
            t, found = module.odeint_event(self, state, t, event_fn=self.touches, atol=1e-8, rtol=1e-8)
            height, speed, log_radius = (part[-1] for part in found)
            state = height + 1e-7, -speed * (1 - self.absorption), log_radius
            times.append(t.reshape(1))
        return torch.cat([*times, *state])


def drop_in_rows(session: Session, sizes: DropInSizes) -> Iterator[Row]:
    """Time each program by both modules in the same rounds."""
    if session.device != "cpu":
        return session.skip("programs of torchdiffeq's", "they are compared on CPUs")
    modules = {PEER: import_module(PEER)} if PEER in session.peers and absent(PEER) is None else {}
    modules[OURS] = discretize.torchdiffeq
    for problem, run in _programs(sizes).items():
        with torch.no_grad():
            run(discretize.torchdiffeq, "always")
        jobs = [
            Job(name, work, partial(_work, run, module, work == BACKWARD))
            for work in (FORWARD, BACKWARD)
            for name, module in modules.items()
        ]
        yield from session.rows("drop-in", problem, jobs, PATIENCE)


def _programs(sizes: DropInSizes) -> dict[str, Callable[..., Tensor]]:
    """By what they are; each runs by a module and returns a tensor with a graph."""
    torch.manual_seed(0)
    latent, counting, spiral, ball = Latent(), CountedLatent(), Spiral(), Ball()
    z0, t = torch.randn(sizes.batch, 4), torch.linspace(0, 5, sizes.times)
    y0, ten = torch.randn(20, 1, 2), torch.linspace(0, 0.25, 10)
    one, many = torch.tensor([[2.0, 0.0]]), torch.linspace(0, 25, sizes.long)

    def solve(func: Callable[..., Tensor], y0: Tensor, t: Tensor, module: ModuleType, fused: object = True) -> Tensor:
        ours: Mapping[str, Any] = {"options": {"fused": fused}} if module is discretize.torchdiffeq else {}
        found: Tensor = module.odeint(func, y0, t, **ours)
        return found

    return {
        f"latent decoder, {sizes}": partial(solve, latent, z0, t),
        f"the same, counting its calls, {sizes}": partial(solve, counting, z0, t),
        f"the same, by a lambda, {sizes}": partial(solve, lambda t, z: latent(t, 1.0 * z), z0, t),
        "spiral, B 20, 10 times": partial(solve, spiral, y0, ten),
        f"one spiral, {sizes.long} times": partial(solve, spiral, one, many),
        "bouncing ball, 4 events": lambda module, fused=True: ball.bounces(module),
    }


def _work(run: Callable[..., Tensor], module: ModuleType, backward: bool) -> None:
    with torch.set_grad_enabled(backward):
        found = run(module)
    if backward:
        found.square().sum().backward()
