"""|h|^r h forgets by a power of time, and Euler's step keeps the power, from small enough states on: Ohno and Kumagai 2021.

    h' = -|h|^r h has h(t) = h0 (1 + r |h0|^r t)^(-1/r), for r = 0 exp(-t) h0

A step dt multiplies h by 1 - dt |h|^r: from |h| = (1 / dt)^(1/r) on it overshoots 0, and beyond (2 / dt)^(1/r) it diverges. The
law is fitted to what is left at whole times by `decay_law`, whose kappa is r. The control is r = 0.
"""

import torch
from gallery import Found, show
from torch import Tensor

import ctrnn
from ctrnn_experiments import plots
from discretize import ContinuousRNN, DiscreteRNN
from discretize.analysis import decay_law

DT = 0.5


def unit(r: float) -> ctrnn.VectorField:
    field = ctrnn.leaky(1, 1, tau=1.0, bias=False, decay=ctrnn.parts.PowerDecay(r), dtype=torch.float64)
    torch.nn.init.zeros_(field.candidate.weight_h)
    return field


@torch.no_grad()
def left(rnn: torch.nn.Module, h0: Tensor, samples: int) -> Tensor:
    """Return the states after 0, 1, 2, ... samples from these starts: (time + 1, starts)."""
    start = h0.double()[None, :, None]
    return torch.cat([start, rnn(torch.zeros(samples, len(h0), 1).double(), start)[0]])[..., 0]


def main(small: bool = False) -> Found:
    count, numbers, one, at = 40 if small else 1000, {}, torch.ones(1), 2 ** torch.arange(5 if small else 10)
    ts, starts = torch.arange(count + 1).double(), torch.linspace(0.02, 2.4, 30 if small else 239)
    with plots.style():
        figure, (top, low) = plots.panels(2, 6.0)
        for r, colour in ((0.0, plots.ORANGE), (1.0, plots.BLUE), (2.0, plots.GREEN)):
            solved = left(ContinuousRNN(unit(r), rtol=1e-8, atol=1e-14), one, count)[:, 0]
            stepped = left(DiscreteRNN(unit(r), dt=1.0, substeps=2), one, count)[:, 0]  # two steps of 0.5 a sample
            numbers |= {f"kappa, r = {r:g}, {how}": decay_law(h).bend for how, h in (("solved", solved), ("stepped", stepped))}
            right = (1 + r * ts) ** (-1 / r) if r else (-ts).exp()
            top.loglog(ts[1:], right[1:], color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label="closed form")
            top.loglog(ts[at], stepped[at], "o", color=colour, markersize=3, label=f"r = {r:g}, Euler's step of {DT}")
        numbers["r = 2, solved, off the closed form by"] = off = float((solved / right - 1).abs().max())
        hs = left(DiscreteRNN(unit(2.0), dt=DT, allow_overshoot=True), starts, 60)
        over, apart = float(starts[hs[1] < 0][0]), float(starts[~(hs[-1].abs() <= 2)][0])
        numbers |= {"r = 2, stepped, overshoots from": over, "r = 2, stepped, diverges from": apart}
        low.plot(starts, starts / (1 + 2 * starts**2 * 30).sqrt(), color=plots.INK, linestyle=plots.DASHES[1], linewidth=1)
        low.plot(starts, hs[-1], "o", color=plots.GREEN, markersize=2)
        top.set(xlabel="time t, in time constants of a state of 1", ylabel="what is left of 1", ylim=(7e-4, 1.1))
        low.set(xlabel="start h(0), r = 2", ylabel="h(30)", ylim=(-0.2, 0.2))
        plots.log_ticks(top.xaxis, (1, 10, 100, 1000))
        plots.legend(figure, top, columns=1)
    laws = all(abs(kappa - float(name[11])) < 0.05 for name, kappa in numbers.items() if name.startswith("kappa"))
    return numbers, laws and off < 1e-6 and abs(over - 2**0.5) < 0.02 and abs(apart - 2) < 0.02, figure


if __name__ == "__main__":
    show(main)
