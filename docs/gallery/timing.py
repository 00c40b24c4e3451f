"""A cue sets how fast the states of a network move while it times an interval: Wang, Narain, Hosseini and Jazayeri 2018.

After a pulse the output ramps for as long as a cue says that is held all along. Speed is that of the rates 3 to 8 time constants
after the pulse, without their part along the read-out, which the task itself slows down. The control always ramps for 16.
"""

from dataclasses import replace

import torch
from gallery import Found, show, states, trained

import ctrnn
from ctrnn_experiments import ReadySetGo, generator, plots

UNITS, LASTS, INTERVALS, TRIALS = 50, 16, torch.arange(10, 25, 2), {"least": 10, "most": 24, "dt": 0.5}


class Cued(ReadySetGo):
    def slots(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        xs, slope, counts = super().slots(size, generator)
        xs[..., 0] = 1 / (slope[..., 0].amax(0) * TRIALS["most"])
        return xs, slope, counts


class Constant(Cued):
    def slots(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        age = (xs := super().slots(size, generator)[0])[..., 1].cumsum(0).cumsum(0)  # slots since the pulse, 1 in its own
        return xs, ((age >= 1) & (age <= LASTS)).double()[..., None] / LASTS, (age <= LASTS + 2).double()


def speed(model: torch.nn.Module, task: ReadySetGo, interval: int) -> float:
    xs = replace(task, least=interval, most=interval, input_noise=0.0).batch(1, generator(0)).xs
    motion = states(model, xs)[2 * (4 + interval) : 2 * (9 + interval) + 1, 0].tanh().diff(dim=0) / task.dt
    along = torch.nn.functional.normalize(model.read_out.weight.detach()[0], dim=0)
    return float((motion - (motion @ along)[:, None] * along).norm(dim=1).mean())


def main(small: bool = False) -> Found:
    numbers, log_t, steps = {}, INTERVALS.log() - INTERVALS.log().mean(), 1 if small else 700
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        ax.loglog(INTERVALS, 2.5 / INTERVALS, color=plots.INK, linestyle=plots.DASHES[1], label="as 1 / interval")
        for task, name, look in ((Cued(**TRIALS), "cued", "o-"), (Constant(**TRIALS), "always 16", "s:")):
            for seed in range(3):
                model = trained(task, ctrnn.additive(2, UNITS, generator=generator(seed, "field")), steps, lr=3e-3, seed=seed)
                found = torch.tensor([speed(model, task, t) for t in INTERVALS.tolist()])
                numbers[f"power of the interval, {name}, seed {seed}"] = float(log_t @ found.log() / (log_t @ log_t))
                ax.plot(INTERVALS, found, look, color=plots.BLUE if name == "cued" else plots.ORANGE, markersize=4, label=name)
        ax.set(xlabel="interval, in time constants", ylabel="speed of the rates")
        plots.log_ticks(ax.xaxis, INTERVALS.tolist())
        plots.log_ticks(ax.yaxis, (0.1, 0.2, 0.4))
        plots.legend(figure, ax, columns=3)
    cued, control = list(numbers.values())[:3], list(numbers.values())[3:]
    return numbers, -1.5 < sum(cued) / 3 < -0.6 and max(cued) < min(control) - 0.3, figure


if __name__ == "__main__":
    show(main)
