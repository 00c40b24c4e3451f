"""Chaos of random networks begins at the gain 1, under a step of 1 too: Sompolinsky, Crisanti and Sommers 1988.

    h' = -h + g J tanh(h), J_ij normal of variance 1/N; Euler's step of 1 makes the map h <- g J tanh(h) of it

Below 1 both are at rest, and their exponents those of the spectrum. Of many units the map has 1/2 ln(g^2 <tanh'(z)^2>), where z
is normal of the variance q = g^2 <tanh(z)^2>. The control is a symmetric J, which comes to rest at any gain.
"""

import math

import torch
from gallery import Found, show
from torch import Tensor

from ctrnn_experiments import generator, plots
from discretize import Euler, RungeKutta4
from discretize.analysis import Flow, LyapunovSpectrum, lyapunov

DT, GAINS, AT = 0.5, [0.5, 0.7, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0], 8


def spectrum(J: Tensor, gains: list[float], intervals: int, stepped: bool = False) -> LyapunovSpectrum:
    """Return the largest exponent at each gain, of the flow, per unit of time, or of the map of Euler's step of 1."""
    system = Flow(lambda g, h: g * (torch.tanh(h) @ J.T) - h).stepped(*((Euler(), 1.0) if stepped else (RungeKutta4(), DT)))
    start = torch.randn(len(gains), len(J), generator=generator(1, "start"), dtype=torch.float64)
    return lyapunov(system, start, torch.tensor(gains).double(), intervals=intervals, count=1)


def of_many(g: float) -> float:
    """Return the exponent of the map of infinitely many units."""
    z, q = torch.special.ndtri((torch.arange(2000).double() + 0.5) / 2000), 1.0
    for _ in range(300):
        q = g**2 * float(torch.tanh(q**0.5 * z).square().mean())
    return math.log(g**2 * (1 - torch.tanh(q**0.5 * z) ** 2).square().mean()) / 2


def main(small: bool = False) -> Found:
    units, intervals, fine = (20, 16, GAINS[3:5]) if small else (400, 1000, torch.linspace(1, 3, 50).tolist())
    J = torch.randn(units, units, generator=generator(0, "J"), dtype=torch.float64) / units**0.5
    flow, step = (spectrum(J, GAINS, intervals, stepped) for stepped in (False, True))
    control = float(spectrum((J + J.T) / 2**0.5, [2.0], intervals).exponents) / DT
    found, error = torch.cat([flow.exponents / DT, step.exponents], 1), float(flow.errors[AT] / DT)
    low, modes = torch.tensor(GAINS[:3])[:, None], torch.linalg.eigvals(J)
    rest = torch.cat([low * modes.real.max() - 1, (low * modes.abs().max()).log()], 1)
    (smooth, mapped), off = found[AT].tolist(), float((found[:3] - rest).abs().max())
    numbers = {"off the modes below 1": off, "solved, gain 2": smooth, "its standard error": error}
    numbers |= {"Euler's step of 1, gain 2": mapped, "the same of many units": of_many(2.0), "symmetric, gain 2": control}
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.6)
        ax.plot(low, rest, color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label=["modes at rest"] * 2)
        ax.plot(fine, [of_many(g) for g in fine], color=plots.INK, linewidth=1, label="step of 1, many units")
        for k, (colour, mark, name) in enumerate(((plots.BLUE, "o", "solved"), (plots.ORANGE, "s", "Euler's step of 1"))):
            ax.plot(GAINS, found[:, k], mark, color=colour, markersize=4, label=name)
        ax.set(xlabel="gain g", ylabel="largest exponent (1 / time constant)")
        plots.legend(figure, ax)
    return numbers, off < 0.01 and abs(mapped - of_many(2.0)) < 0.02 and smooth > 3 * error and control < 0, figure


if __name__ == "__main__":
    show(main)
