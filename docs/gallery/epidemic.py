"""Solves an epidemic, and compares its peak and final size with their closed forms: Kermack and McKendrick 1927.

    s' = -R0 s i,   i' = R0 s i - i,   time in infectious periods

At the peak i = 1 - (1 + ln R0) / R0, in the end ln s = -R0 (1 - s). Towns are a batch, each with its R0; the peak is an event,
and the gradient of the final size to R0 goes through the solve. The control is Euler's step of half a period.
"""

import torch
from gallery import Found, show
from scipy.special import lambertw
from torch import Tensor

from ctrnn_experiments import plots
from discretize import Event, integrate

FIRST = 1e-7  # who is ill at the start


def epidemic(t: Tensor, h: Tensor) -> Tensor:
    s, i, r0 = h.unbind(-1)
    return torch.stack([-r0 * s * i, r0 * s * i - i, 0 * r0], -1)


def main(small: bool = False) -> Found:
    (least, count), end = ((3.4, 1), 10.0) if small else ((1.2, 24), 400.0)
    r0 = torch.linspace(least, 3.5, count).double().requires_grad_()
    start = torch.stack([torch.full_like(r0, 1 - FIRST), torch.full_like(r0, FIRST), r0], -1)
    top = Event(lambda t, h: h[:, 2] * h[:, 0] - 1, direction=-1)
    solved = integrate(epidemic, None, start, [0.0, end], rtol=1e-4 if small else 1e-9, atol=1e-12, events=top)
    peak, size = solved.events[0].states[solved.events[0].samples.argsort(), 1], 1 - solved.hs[-1, :, 0]
    (slope,) = torch.autograd.grad(size.sum(), r0)
    stepped = integrate(epidemic, None, start.detach(), [0.0, end], method="euler", max_step=0.5)
    peak, size, r0, by_step = peak.detach(), size.detach(), r0.detach(), 1 - stepped.hs[-1, :, 0]
    left = -torch.from_numpy(lambertw((-r0 * (-r0).exp()).numpy()).real) / r0
    right = {"ill at the peak": 1 - (1 + r0.log()) / r0, "ill in the end": 1 - left}
    right |= {"gradient of that": left * (1 - left) / (1 - r0 * left), "ill in the end, Euler's step of 0.5": 1 - left}
    found = zip(right.items(), (peak, size, slope, by_step), strict=True)
    numbers = {f"{name}, off by": float((each / true - 1).abs().max()) for (name, true), each in found}
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        for line, name in ((right["ill in the end"], "closed forms"), (right["ill at the peak"], "")):
            ax.plot(r0, line, color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label=name)
        ax.plot(r0, size, "o", color=plots.BLUE, markersize=4, label="in the end")
        ax.plot(r0, peak, "^", color=plots.GREEN, markersize=4, label="at the peak")
        ax.plot(r0, by_step, "s", color=plots.ORANGE, markersize=3, label="in the end, Euler's step of 0.5")
        ax.set(xlabel="R0, infections by the first one who is ill", ylabel="share of a town that is or was ill")
        plots.legend(figure, ax)
    *exact, rough = numbers.values()
    return numbers, max(exact) < 1e-4 and rough > 0.02, figure


if __name__ == "__main__":
    show(main)
