"""Evolves Beer's networks until they swing a pendulum up, a thousand of them in one call: Beer and Gallagher 1992.

A network of eight sigmoids and its body are one field. The motor is too weak to lift the weight: it has to be swung, in time with
its own motion. Selection is by the height over the second half of ten seconds, of the worse of two starts. The control is the
same mutations without selection.
"""

import torch
from gallery import Found, show

import ctrnn
from ctrnn_experiments import generator, plots
from discretize import ContinuousRNN, DiscreteRNN, Heun, ensemble

UNITS, DT, SECONDS, MOTOR, MUTATION = 8, 0.05, 10.0, 0.5, 0.5  # the motor's largest torque in that of the weight

PUSHED = torch.tensor([0.1, -0.1])  # the angles at the start


class Swinger(ctrnn.VectorField):
    """The potentials v, the angle from hanging, and the angular speed; the input is a push."""

    def __init__(self, dice: torch.Generator) -> None:
        super().__init__(1, UNITS + 2)
        self.brain = ctrnn.additive(3, UNITS, "sigmoid", tau=torch.ones(UNITS))  # which are mutated too
        self.motor = torch.nn.Parameter(4 * torch.randn(UNITS, generator=dice))
        with torch.no_grad():
            for weight in (self.brain.candidate.weight_h, self.brain.candidate.weight_x):
                weight.normal_(0, 4, generator=dice)
        ctrnn.init.center_crossing_(self.brain)

    def flow(self, projected: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        v, angle, speed = state.split([UNITS, 1, 1], -1)
        seen = torch.cat([torch.cos(angle), torch.sin(angle), 0.2 * speed], -1)
        torque = MOTOR * torch.tanh((self.brain.visible(v) - 0.5) @ self.motor)[..., None] + projected
        return torch.cat([self.brain(seen, v), speed, 10 * (torque - torch.sin(angle)) - 0.1 * speed], -1)


@torch.no_grad()
def heights(run: torch.nn.Module, angles: torch.Tensor, seconds: float = SECONDS) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the height of each network, from -1 to 1, over the second half, from its worst start; and all angles."""
    starts, count = torch.zeros(len(angles), UNITS + 2), round(seconds / DT)
    starts[:, UNITS] = angles
    angle = run(torch.zeros(count, len(angles), 1), starts, ts=DT * torch.arange(count + 1))[0][..., UNITS]
    height = -torch.cos(angle[..., count // 2 :, :])
    return height.mean(-2).amin(-1).nan_to_num(-1.0), angle


@torch.no_grad()
def evolved(
    population: int, generations: int, seed: int, seconds: float, select: bool = True
) -> tuple[torch.nn.Module, torch.Tensor]:
    """Let the best tenth have all children, the best one unchanged; return the last population, and the best of each."""
    dice = generator(seed, "evolution")
    many = ensemble([DiscreteRNN(Swinger(dice), Heun(), dt=DT, allow_overshoot=True) for _ in range(population)])
    best = torch.empty(generations)
    for k in range(generations):
        fitness, _ = heights(many, PUSHED, seconds)
        best[k] = fitness.max()
        ranked = fitness.argsort(descending=True)[: population // 10] if select else torch.randperm(population, generator=dice)
        parents = ranked[torch.randint(len(ranked), (population,), generator=dice)]
        parents[0] = ranked[0]
        for weights in many.parameters():
            change = MUTATION * torch.randn(weights.shape, generator=dice)
            change[0] = 0
            weights.copy_(weights[parents] + change)
    return many, best


def main(small: bool = False) -> Found:
    population, generations, runs, seconds = (10, 1, 1, 2.0) if small else (1000, 100, 4, SECONDS)
    found = [evolved(population, generations, seed, seconds) for seed in range(runs)]
    _, control = evolved(population, generations, 0, seconds, select=False)
    many, best = max(found, key=lambda run: float(run[1][-1]))
    winner = int(heights(many, PUSHED, seconds)[0].argmax())
    height, angle = heights(many, torch.linspace(-1, 1, 21), seconds)
    numbers = {"height, evolved": float(best[-1]), "runs of four above 0.9": sum(float(run[-1] > 0.9) for _, run in found)}
    numbers |= {"height, without selection": float(control[-20:].mean()), "from other starts": float(height[winner])}
    numbers |= {"height, solved exactly": float(heights(ContinuousRNN(many[winner].field), PUSHED, seconds)[0])}
    with plots.style():
        figure, (left, right) = plots.panels(2, 4.4)
        for k, (_, run) in enumerate(found):
            left.plot(run, color=plots.BLUE, linewidth=1, label="" if k else "evolved")
        left.plot(control, color=plots.ORANGE, linewidth=1, label="without selection")
        left.set(xlabel="generation", ylabel="height of the best")
        right.plot(DT * torch.arange(angle.shape[1]), angle[winner] / torch.pi, color=plots.BLUE, linewidth=0.6, alpha=0.6)
        right.set(xlabel="time (s)", ylabel="angle from hanging (π)")
        plots.legend(figure, left)
    return numbers, bool(best[-1] > 0.9 and control[-20:].mean() < 0.7), figure


if __name__ == "__main__":
    show(main)
