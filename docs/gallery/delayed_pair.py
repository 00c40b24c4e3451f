"""An excitatory and an inhibitory population that hear one another late: a rhythm appears at a delay that is computed first.

    E' = -E + tanh(0.5 E(t - d) - 1.2 I(t - d) + x)        I' = -I + tanh(1.2 E(t - d))

With the drive x = 0 it rests at 0, where the modes are z + 1 = m exp(-z d), m an eigenvalue of the weights, so that
z = W(m d exp(d)) / d - 1 with Lambert's W. The control is the same pair stepped along a line of its past states: by Euler's step
of 0.1 the rhythm begins elsewhere.
"""

import math

import numpy as np
import torch
from gallery import Found, show
from scipy.optimize import brentq
from scipy.special import lambertw
from torch import Tensor

import ctrnn
from ctrnn_experiments import plots
from discretize import Euler, integrate

WEIGHTS, DT = torch.tensor([[0.5, -1.2], [1.2, 0.0]], dtype=torch.float64), 0.1


class Pair(ctrnn.DelayedField):
    def __init__(self, delay: float) -> None:
        super().__init__(1, 2, [delay])

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        drive = torch.cat([projected, torch.zeros_like(projected)], -1)
        return torch.tanh(past[0] @ WEIGHTS.T + drive) - h


def mode(delay: float) -> complex:
    """The rightmost root."""
    m = complex(np.linalg.eigvals(WEIGHTS.numpy())[0])
    return max((lambertw(m * delay * math.exp(delay), k) / delay - 1 for k in range(-3, 4)), key=lambda z: z.real)


def solved(delay: float, ts: Tensor, push: float) -> Tensor:
    """E at these times, where both were pushed so far before them."""
    start, still = torch.full((1, 2), push, dtype=torch.float64), torch.zeros(1, 1, 1, dtype=torch.float64)
    path = ctrnn.HeldPath(still, torch.stack([ts[0], ts[-1]]))
    return integrate(Pair(delay), path, start, ts, rtol=1e-6, atol=1e-9).hs[:, 0, 0]


def radius(delay: float) -> float:
    """The spectral radius of Euler's step along the line of past states, at rest."""
    line = ctrnn.cells.DelayLine(Pair(delay), DT)
    rest, still = torch.zeros(1, line.state_size, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    jacobian = torch.func.jacrev(lambda h: Euler().advance(line, still, h, DT))(rest)[0, :, 0]
    return float(torch.linalg.eigvals(jacobian).abs().max())


def growth(e: Tensor, dt: float) -> float:
    """The rate at which a rhythm grows or fades: the root of the recurrence that its samples keep to."""
    h = e.numpy()
    a, b = np.linalg.lstsq(np.stack([h[1:-1], h[:-2]], 1), h[2:], rcond=None)[0]
    return float(np.log(np.abs(np.roots([1, -a, -b])).max())) / dt


def main(small: bool = False) -> Found:
    hopf = brentq(lambda d: mode(d).real, 0.5, 2.0)
    begin, span = (2.0, 2.0) if small else (20.0, 10.0)
    ts = torch.cat([torch.zeros(1), torch.arange(begin, begin + span, DT)]).double()
    near = [0.95 * hopf, 1.05 * hopf]
    rates = [growth(solved(d, ts, 0.01)[1:], DT) for d in near]
    measured = near[0] - rates[0] * (near[1] - near[0]) / (rates[1] - rates[0])
    by_step = brentq(lambda d: radius(d) - 1, 0.5, 1.5, xtol=1e-4)
    delays = torch.linspace(0.5, 2.0, 3 if small else 11).tolist()
    end = 2.0 if small else 100.0
    settled = torch.cat([torch.zeros(1), torch.arange(end, end + span, 0.1)]).double()
    sizes = [float(solved(d * hopf, settled, 0.5)[1:].abs().max()) for d in delays]
    below = max(size for d, size in zip(delays, sizes, strict=True) if d < 0.9)
    above = min(size for d, size in zip(delays, sizes, strict=True) if d > 1.1)
    numbers = {
        "delay of the Hopf point, by Lambert's W": hopf,
        "the same, by growth and decay of solutions": measured,
        "period there, by Lambert's W": 2 * math.pi / mode(hopf).imag,
        "largest E below 0.9 of it": below,
        "smallest amplitude of E above 1.1 of it": above,
        "delay of the Hopf point, Euler's step of 0.1": by_step,
    }
    with plots.style():
        figure, (left, right) = plots.panels(2, 4.8)
        fine = torch.cat([torch.zeros(1), torch.arange(0.1, span if small else 80.0, 0.1)]).double()
        for d, colour in zip((0.9, 1.1), (plots.BLUE, plots.ORANGE), strict=True):
            left.plot(fine, solved(d * hopf, fine, 0.1), color=colour, linewidth=1, label=f"{d} of the Hopf delay")
        left.set(xlabel="time, time constants", ylabel="E")
        right.plot([d * hopf for d in delays], sizes, "o", color=plots.ORANGE, markersize=4, label="largest E, after 100")
        for place, dash, label in ((hopf, 1, "by Lambert's W"), (by_step, 2, "Euler's step of 0.1")):
            right.axvline(place, color=plots.INK, linestyle=plots.DASHES[dash], linewidth=1, label=label)
        right.set(xlabel="delay, time constants", ylabel="amplitude of E")
        plots.legend(figure, left, right)
    return numbers, abs(measured / hopf - 1) < 0.01 and below < 0.05 and above > 0.2, figure


if __name__ == "__main__":
    show(main)
