"""A leaky neuron with a threshold fires at the rate of its closed form, and gradients go through its spikes.

    20 v' = -v + I, in ms; at v = 1 a spike, and v = 0: the interval is 20 ln(I / (I - 1))

Currents are a batch, spikes are events, and the gradient of the last spike's time to the current goes through all resets. The
control is the usual loop over steps of 1 ms, which looks for spikes at their ends only, and has no gradient.
"""

import torch
from gallery import Found, show
from torch import Tensor

from ctrnn_experiments import plots
from discretize import Event, integrate

TAU, DT = 20.0, 1.0  # ms


def neuron(t: Tensor, h: Tensor) -> Tensor:
    v, current = h.unbind(-1)
    return torch.stack([(current - v) / TAU, 0 * current], -1)


def spikes(currents: Tensor, end: float) -> tuple[Tensor, Tensor]:
    """Return the number of spikes of each neuron, and the time of its last one."""
    spike = Event(lambda t, h: h[:, 0] - 1, direction=1, reset=lambda t, h: torch.stack([0 * h[:, 0], h[:, 1]], -1))
    start = torch.stack([torch.zeros_like(currents), currents], -1)
    found = integrate(neuron, None, start, [0.0, end], rtol=1e-8, atol=1e-10, events=spike).events[0]
    last = torch.stack([found.times[found.samples == k][-1] for k in range(len(currents))])
    return torch.bincount(found.samples, minlength=len(currents)), last


def stepped(currents: Tensor, end: float) -> Tensor:
    """Return the mean interval between the spikes of a loop over Euler's steps."""
    v, counts, last = (torch.zeros_like(currents) for _ in range(3))
    for k in range(1, round(end / DT) + 1):
        v = v + DT / TAU * (currents - v)
        counts, last, v = counts + (v >= 1), torch.where(v >= 1, k * DT, last), torch.where(v >= 1, 0, v)
    return last / counts


def main(small: bool = False) -> Found:
    currents, end = torch.linspace(1.05, 3.0, 3 if small else 40).double().requires_grad_(), 70.0 if small else 200.0
    (counts, last), interval = spikes(currents, end), TAU * torch.log(currents / (currents - 1))
    slope, right = (torch.autograd.grad(each.sum(), currents)[0] for each in (last / counts, interval))
    currents, interval, solved, loop = (each.detach() for each in (currents, interval, last / counts, stepped(currents, end)))
    off = [float((each / true - 1).abs().max()) for each, true in ((solved, interval), (slope, right), (loop, interval))]
    names = "interval by events, off by", "its gradient, off by", f"interval of a loop of {DT:g} ms, off by"
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        ax.plot(currents, 1000 / interval, color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label="closed form")
        ax.plot(currents, 1000 / solved, "o", color=plots.BLUE, markersize=4, label="by events")
        ax.plot(currents, 1000 / loop, "s", color=plots.ORANGE, markersize=3, label=f"loop of {DT:g} ms")
        ax.set(xlabel="current I (1 just reaches the threshold)", ylabel="rate (spikes per second)")
        plots.legend(figure, ax, columns=3)
    return dict(zip(names, off, strict=True)), off[0] < 1e-6 and off[1] < 1e-6 and off[2] > 0.03, figure


if __name__ == "__main__":
    show(main)
