"""The equation of Mackey and Glass 1977 on another clock: its delay is warped, too, which no gate can do.

    h'(t) = 0.2 h(t - 17) / (1 + h(t - 17)^10) - 0.1 h(t)

Warped by c, h(c(t)) is the solution of c' times the right side with the delay d(t) = t - c^-1(c(t) - 17). The control has
the same speed c' and the delay 17. How fast neighbours part is measured along the way, by the equation linearized about each.
"""

import math

import torch
from gallery import Found, show
from torch import Tensor

import ctrnn
from ctrnn_experiments import plots
from discretize import Trajectory, integrate

DELAY = 17.0


def right_side(h: Tensor, past: Tensor) -> Tensor:
    return 0.2 * past / (1 + past**10) - 0.1 * h


class MackeyGlass(ctrnn.DelayedField):
    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return right_side(h, past[0])


def with_neighbour(t: Tensor, state: Tensor, past: tuple[Tensor, ...]) -> Tensor:
    """Return the slopes of [h, v], where v is the distance of a neighbour that is very near."""
    (h, v), (before, v_before) = state.unbind(-1), past[0].unbind(-1)
    power = before**10
    return torch.stack([right_side(h, before), 0.2 * (1 - 9 * power) / (1 + power) ** 2 * v_before - 0.1 * v], -1)


def exponent(samples: int, start: float, end: float) -> Tensor:
    """The largest Lyapunov exponent along each of several solutions, per unit of time."""
    dice = torch.Generator().manual_seed(0)
    h0 = torch.stack([0.5 + torch.rand(samples, generator=dice), torch.randn(samples, generator=dice)], -1).double()
    times = torch.tensor([0.0, start, end], dtype=torch.float64)
    solved = integrate(with_neighbour, None, h0, times, delays=DELAY, rtol=1e-6, atol=1e-8)

    def size(t: float) -> Tensor:
        return solved(t - torch.linspace(0, DELAY, 69, dtype=torch.float64))[..., 1].square().mean(0).sqrt()

    return torch.log(size(end) / size(start)) / (end - start)


def main(small: bool = False) -> Found:
    length = 24.0 if small else 400.0
    warp = ctrnn.SmoothWarp.random(length, 3.0, generator=torch.Generator().manual_seed(1))
    first = float(warp.inverse(torch.tensor([DELAY + 1.0], dtype=torch.float64))[0])
    ts = torch.linspace(first, length - 1e-9, 10 if small else 800, dtype=torch.float64)
    h0, how = torch.full((1, 1), 1.2, dtype=torch.float64), {"rtol": 1e-4 if small else 1e-7, "atol": 1e-9}

    def seen(t: Tensor) -> Tensor:
        return t - warp.inverse((warp(t.reshape(-1)) - DELAY).clamp(min=0)).reshape(t.shape)

    def solved(delay: object, speed: ctrnn.inputs.Path | None, times: Tensor) -> Trajectory:
        return integrate(MackeyGlass(0, 1, [delay]), None, h0, times, speed=speed, **how)

    clock = warp(ts)
    plain, both, speed = solved(DELAY, None, clock), solved(seen, warp.speed, ts), solved(DELAY, warp.speed, ts)
    rates = exponent(4 if small else 32, *((18.0, 20.0) if small else (500.0, 4000.0)))
    error = float(rates.std()) / math.sqrt(len(rates))
    early = clock - clock[0] < 60  # later neighbours part, and so do two solvers
    apart = {name: float((each.hs - plain.hs)[early].abs().max()) for name, each in {"both": both, "speed": speed}.items()}
    numbers = {
        "apart, speed and delay warped": apart["both"],
        "apart, only the speed warped": apart["speed"],
        "largest Lyapunov exponent": float(rates.mean()),
        "its standard error": error,
    }
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.0)
        ax.plot(ts, speed.hs[:, 0, 0], color=plots.ORANGE, linewidth=1, label="only the speed warped")
        ax.plot(ts, both.hs[:, 0, 0], color=plots.BLUE, linewidth=2, label="speed and delay warped")
        ax.plot(ts, plain.hs[:, 0, 0], color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label="h(c(t))")
        ax.set(xlabel="time t, of the warped clock", ylabel="h")
        plots.legend(figure, ax)
    printed = 1 / 197  # NeuroBench's Lyapunov time for this delay
    return numbers, apart["both"] < 1e-4 and apart["speed"] > 0.1 and abs(float(rates.mean()) - printed) < 3 * error, figure


if __name__ == "__main__":
    show(main)
