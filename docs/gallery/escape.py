"""A unit with two states jumps between them at the rate of Kramers 1940.

    dh = (tanh(2 h) - h) dt + s dW = -U'(h) dt + s dW

Between wells -a and a the barrier is U(0). For weak noise the rate is sqrt(U''(a) |U''(0)|) / (2 pi) exp(-2 (U(0) - U(a)) / s^2),
for any one over an integral. A jump counts when the other well is reached. The control is Euler's step of 1.
"""

import torch
from gallery import Found, show

import ctrnn
from ctrnn_experiments import plots
from discretize import DiscreteRNN, EulerMaruyama
from discretize.steps import SRA1, StochasticStep

WELL, SIGMAS = 0.9575040240772687, [0.27, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5]  # tanh(2 a) = a


@torch.no_grad()
def rate(sigma: float, step: StochasticStep, dt: float, samples: int, time: float) -> float:
    """Return how many jumps from well to well a unit makes in a time constant."""
    field, start = ctrnn.leaky(1, 1, tau=1.0, bias=False), torch.full((1, samples, 1), WELL)
    field.candidate.weight_h.fill_(2.0)
    rnn = DiscreteRNN(ctrnn.Noisy(field, ctrnn.Noise(sigma)), step, dt=dt)
    h = rnn(torch.zeros(round(time / dt), samples, 1), start, seed=0)[0][..., 0]
    well = h.sign() * (h.abs() >= WELL)
    last = (torch.arange(len(h))[:, None] * (well != 0)).cummax(0).values  # when it was in a well, 0 at the start
    return float(torch.where(last > 0, well.gather(0, last), 1.0).diff(dim=0).count_nonzero()) / (samples * time)


def formulas(sigma: float) -> tuple[float, float]:
    """Return one over the integral, and Kramers' rate."""
    h = torch.linspace(-4, WELL, 20001, dtype=torch.float64)
    power = (h**2 - torch.log(torch.cosh(2 * h))) / sigma**2  # 2 U / sigma^2; U'' is 2 a^2 - 1 in the well, and -1 at 0
    inside = torch.where(h < -WELL, 0, power.exp())[1:] * torch.cumulative_trapezoid((-power).exp(), h)
    weak = (2 * WELL**2 - 1) ** 0.5 / (2 * torch.pi) * float(power[-1].exp())
    return sigma**2 / (2 * float(torch.trapezoid(inside, h[1:]))), weak


def main(small: bool = False) -> Found:
    how, numbers = (10, 40.0) if small else (1000, 800.0), {}
    fine, long = (torch.tensor([rate(s, *step, *how) for s in SIGMAS]) for step in ((SRA1(), 0.05), (EulerMaruyama(), 1.0)))
    right, weak = torch.tensor([formulas(s) for s in SIGMAS]).T
    numbers["steps of 0.05, off the integral by, at most"] = off = float((fine / right - 1).abs().max())
    for name, each, k in (("Kramers", weak, 0), ("Kramers", weak, -1), ("Euler's step of 1", long, 0)):
        numbers[f"{name}, over the integral, sigma {SIGMAS[k]}"] = float(each[k] / right[k])
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.6)
        for line, dash, name in ((right, 0, "integral"), (weak, 1, "Kramers, weak noise")):
            ax.semilogy(SIGMAS, line, color=plots.INK, linestyle=plots.DASHES[dash], linewidth=1, label=name)
        ax.semilogy(SIGMAS, fine, "o", color=plots.BLUE, markersize=4, label="steps of 0.05")
        ax.semilogy(SIGMAS, long, "s", color=plots.ORANGE, markersize=4, label="Euler's step of 1")
        ax.set(xlabel="noise σ", ylabel="jumps per time constant")
        plots.log_ticks(ax.yaxis, (0.002, 0.005, 0.01, 0.02))
        plots.legend(figure, ax)
    return numbers, off < 0.06 and weak[0] / right[0] < weak[-1] / right[-1] and bool(long[0] > 1.3 * right[0]), figure


if __name__ == "__main__":
    show(main)
