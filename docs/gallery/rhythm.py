"""Two sigmoid units swing from a weight on that is computed first, with that period and amplitude: after Beer 1995.

    v' = -v + W s(v) + b,   W = [[w, -8], [8, w]],   b = -W 1/2: each unit is most sensitive where the other is in the middle

At rest, v = 0, the modes are -1 + (w +- 8 i) / 4: a Hopf point at w = 4. Beyond it the mean of the cubic term over a turn leaves
a cycle of amplitude 4 sqrt(1 - 4 / w) and period pi w / 4. Controls are a pair that excites both ways, and Euler's step.
"""

import torch
from gallery import Found, show
from torch import Tensor

import ctrnn
from ctrnn_experiments import plots
from discretize import DiscreteRNN, Euler, Event, integrate
from discretize.analysis import Flow, continuation

DT, START = 0.2, torch.tensor([[1.0, 0.5]], dtype=torch.float64)


def weights(w: Tensor, sign: float = -1.0) -> dict[str, Tensor]:
    matrix = w[..., None, None] * torch.eye(2) + 8 * torch.tensor([[0, sign], [1, 0]])
    return {"candidate.weight_h": matrix, "candidate.bias": -matrix.sum(-1) / 2}


@torch.no_grad()
def runs(pair: ctrnn.VectorField, w: float, end: float, sign: float = -1.0) -> tuple[float, float, Tensor]:
    """Return the amplitude of the first unit in the last 10 time constants, solved and stepped, and the lengths of its turns."""
    pair.load_state_dict(weights(torch.tensor(w).double(), sign), strict=False)
    ts, xs = torch.linspace(0, end, 11).double(), torch.zeros(round(end / DT), 1, 1).double()
    solved = integrate(pair, ctrnn.HeldPath(xs[:1], ts[[0, -1]]), START, ts, events=Event(lambda t, h: h[:, 0], direction=1))
    hs, stepped = solved(torch.linspace(end - 10, end, 300).double()), DiscreteRNN(pair, Euler(), dt=DT)(xs, START[None])[0]
    return float(hs[..., 0].abs().max()), float(stepped[-50:, 0, 0].abs().max()), solved.events[0].times.diff()


def main(small: bool = False) -> Found:
    pair, end = ctrnn.additive(1, 2, "sigmoid", visible="potentials", dtype=torch.float64), 12.0 if small else 150.0
    flow, fine = Flow(pair, torch.zeros(1).double(), weights=weights), torch.linspace(4, 6, 100)
    branches = (continuation(each, 0 * START[0], 1.0, (1, 5), step=0.5) for each in (flow, flow.stepped(Euler(), DT)))
    hopf, step = (branch.bifurcations[0].p for branch in branches)
    numbers = {"w at the Hopf point": hopf, f"w at which Euler's step of {DT} begins to swing": step}
    grid = [3.0, 4.1] if small else [2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 3.75, 3.9, 4.1, 4.25, 4.5, 4.75, 5.0, 5.5, 6.0]
    found, both = {w: runs(pair, w, end) for w in grid}, len(runs(pair, 6.0, end, sign=1.0)[2])
    ratios = found[4.1][0] / (4 * (1 - 4 / 4.1) ** 0.5), float(found[4.1][2][-1]) / (torch.pi * 4.1 / 4)
    numbers |= {"amplitude at w = 4.1, over the formula": ratios[0], "period at w = 4.1, over the formula": ratios[1]}
    numbers |= {f"amplitude at w = 3, {how}": found[3.0][k] for k, how in enumerate(("solved", "stepped"))}
    numbers["turns, excited both ways"] = both
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        ax.plot(fine, 4 * (1 - 4 / fine).sqrt(), color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label="formula")
        for k, (colour, mark, name) in enumerate(((plots.BLUE, "o", "solved"), (plots.ORANGE, "s", f"Euler's step of {DT}"))):
            ax.plot(grid, [found[w][k] for w in grid], mark, color=colour, markersize=4, label=name)
        ax.set(xlabel="weight w of each unit on itself", ylabel="amplitude of the first unit")
        plots.legend(figure, ax, columns=3)
    right = max(abs(hopf / 4 - 1), abs(step / (20 * 0.84**0.5 - 16) - 1), abs(ratios[1] - 1)) < 1e-3 and abs(ratios[0] - 1) < 0.05
    return numbers, right and found[3.0][0] < 1e-3 and found[3.0][1] > 1 and not both, figure


if __name__ == "__main__":
    show(main)
