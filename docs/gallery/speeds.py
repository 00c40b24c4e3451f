"""Plays a network that was trained at one speed at others, with the clock given and not given, and trains some at many.

The task is to say what the input was 2 units of its own time ago. Played at the speed c, c field(x(c t), h) passes through the
same states (Tallec and Ollivier 2018): the step is c dt long. The controls are not given the clock, or trained at many speeds.
"""

import torch
from gallery import Found, show

import ctrnn
from ctrnn_experiments import generator, plots
from discretize import DiscreteRNN, Heun, SequenceModel

DT, LATE, HOW, SPEEDS = 0.5, 2.0, {"step": Heun(), "allow_overshoot": True}, [0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.5]


def played(speed: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    """Return four sines at these speeds, and what they were LATE of their own time ago: (time, batch, 1) each."""
    rates, phases = 0.3 + torch.rand(4, len(speed), 1, generator=dice), 6.3 * torch.rand(4, len(speed), 1, generator=dice)
    t = DT * torch.arange(80)[:, None, None, None]
    return [torch.sin(rates * (speed[:, None] * t - late) + phases).sum(1) / 2**0.5 for late in (0.0, LATE)]


def trained(field: ctrnn.VectorField, many: bool, steps: int) -> SequenceModel:
    model, dice = SequenceModel(DiscreteRNN(field, dt=DT, **HOW), 1, generator(0, "read-out")), generator(0, "training")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer := torch.optim.Adam(model.parameters()), 1e-2, total_steps=steps)
    for _ in range(steps):
        xs, targets = played(2.5 ** (2 * torch.rand(64, generator=dice) - 1) if many else torch.ones(64), dice)
        optimizer.zero_grad(), (model(xs) - targets)[20:].square().mean().backward(), optimizer.step(), schedule.step()
    return model


def error(model: SequenceModel, c: float, given: bool, count: int) -> float:
    """Return the mean square error at the speed c, in the variance of what is asked for."""
    xs, targets = played(torch.full((count,), c), generator(1, "test"))
    off = model.stepped(dt=c * DT if given else DT)(xs).detach() - targets
    return float(off[20:].square().mean() / targets.square().mean())


def main(small: bool = False) -> Found:
    (steps, count), plain = (2, 10) if small else (800, 500), {"alpha": 1.0, "per_unit": True}
    one, leaky = (trained(ctrnn.leaky(1, 48, **plain, generator=generator(0)), many, steps) for many in (False, True))
    gated = trained(ctrnn.gated(1, 48, generator=generator(0)), True, steps)
    models = {"clock not given": one, "clock given": one, "many speeds, no gates": leaky, "many speeds, gates": gated}
    found = {name: [error(model, c, name == "clock given", count) for c in SPEEDS] for name, model in models.items()}
    numbers = {f"error at {c:g}, {name}": found[name][SPEEDS.index(c)] for c in (0.5, 1.0, 1.4) for name in found}
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.6)
        for look, colour, name in zip("os^v", (plots.ORANGE, plots.BLUE, plots.PURPLE, plots.GREEN), found, strict=True):
            ax.loglog(SPEEDS, found[name], look + "-", color=colour, markersize=4, linewidth=1, label=name)
        ax.set(xlabel="speed at which the input is played", ylabel="error, in the variance of the target")
        plots.log_ticks(ax.xaxis, SPEEDS), plots.log_ticks(ax.yaxis, (0.001, 0.01, 0.1, 1))
        plots.legend(figure, ax)
    without, given, leaks, gates = (max(found[name][1:5]) for name in found)
    return numbers, without > 0.3 and given < 0.1 and max(leaks, gates) < without, figure


if __name__ == "__main__":
    show(main)
