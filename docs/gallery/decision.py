"""A network of excitatory and inhibitory units learns to decide on weak evidence: Song, Yang and Wang 2016.

Its recurrent weights follow Dale's law, and only units that excite are read out. The control is the same network without
recurrent weights, which forgets within a time constant. For a signal c that is shown for a time T in white noise s no observer
can choose better than by Phi(c sqrt(T) / s).
"""

import torch
from gallery import Found, psychometric, show, trained
from torch.nn.utils.parametrize import register_parametrization
from torch.special import ndtr

import ctrnn
from ctrnn_experiments import Decision, FieldSettings, built_field, generator, plots
from discretize import SequenceModel

TASK, UNITS, EXCITE = Decision(), 50, 40


def network(steps: int, recurrent: bool = True) -> SequenceModel:
    field = built_field("additive", 2, FieldSettings(hidden=UNITS, dale=EXCITE / UNITS), generator(0, "field"))
    if not recurrent:
        register_parametrization(field.candidate, "weight_h", ctrnn.parts.Mask(torch.zeros(UNITS, UNITS)))
    return trained(TASK, field, steps, read=(torch.arange(UNITS) < EXCITE).float())


def main(small: bool = False) -> Found:
    steps, trials = (5, 50) if small else (3000, 2000)
    models = {"Dale's law": network(steps), "no recurrence": network(steps, recurrent=False)}
    found = {name: psychometric(model, TASK, trials) for name, model in models.items()}
    weights, best = models["Dale's law"].field.candidate.weight_h.detach(), TASK.stimulus**0.5 / TASK.input_noise
    broken = int((weights[:, :EXCITE] < 0).sum() + (weights[:, EXCITE:] > 0).sum())
    slope, control = (each.slope for each in found.values())
    shown = not broken and 0.7 * best < slope < 1.1 * best and control < 0.5 * slope
    numbers = {f"slope, {name}": each.slope for name, each in found.items()}
    numbers |= {"slope, best observer": best, "weights of the wrong sign": broken}
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.2)
        fine = torch.linspace(-0.42, 0.42, 200)
        ax.plot(fine, ndtr(best * fine), color=plots.INK, linestyle=plots.DASHES[1], linewidth=1, label="best observer")
        for (name, each), colour, mark in zip(found.items(), (plots.BLUE, plots.ORANGE), "os", strict=True):
            ax.plot(each.coherences, each.shares, mark, color=colour, markersize=4, label=name)
            ax.plot(fine, ndtr(each.slope * fine + each.bias), color=colour, linewidth=1)
        ax.set(xlabel="evidence c, signed", ylabel="share of choices +1", ylim=(-0.02, 1.02))
        plots.legend(figure, ax)
    return numbers, shown, figure


if __name__ == "__main__":
    show(main)
