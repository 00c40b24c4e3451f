"""A recurrent matrix of rank one learns to decide: Mastrogiuseppe and Ostojic 2018; Dubreuil et al. 2022.

With W = m n^T the 64 potentials are kappa m + Wx u, u the low-passed input, so that one number, kappa, keeps the decision.
Controls: no recurrence, which is rank 0, and n shuffled, the same entries without their overlap with m and Wx.
"""

import copy

import torch
from gallery import Found, psychometric, show, states, trained
from torch.nn.utils.parametrize import register_parametrization

import ctrnn
from ctrnn_experiments import Decision, generator, plots
from discretize import DiscreteCell, SequenceModel, unroll
from discretize.analysis import Flow

TASK, UNITS, SHUFFLES = Decision(), 64, 10


def network(steps: int, constraint: torch.nn.Module) -> SequenceModel:
    field = ctrnn.additive(2, UNITS, bias=False, generator=generator(0, "field"))
    register_parametrization(field.candidate, "weight_h", constraint)
    return trained(TASK, field, steps, lr=5e-3)


def main(small: bool = False) -> Found:
    steps, trials = (5, 20) if small else (1500, 2000)
    model, control = network(steps, ctrnn.parts.LowRank(1)), network(steps, ctrnn.parts.Mask(torch.zeros(UNITS, UNITS)))
    slope, none = (psychometric(each, TASK, trials).slope for each in (model, control))
    shuffled = [copy.deepcopy(model) for _ in range(1 if small else SHUFFLES)]
    for k, n in enumerate(each.field.candidate.parametrizations.weight_h.original1.data for each in shuffled):
        n.copy_(n[torch.randperm(UNITS, generator=generator(k, "shuffle"))])
    slopes = torch.tensor([psychometric(each, TASK, trials // 5).slope for each in shuffled]).abs()
    mixed, largest, best = float(slopes.mean()), float(slopes.max()), TASK.stimulus**0.5 / TASK.input_noise
    numbers = {"slope, rank 1": slope, "slope, best observer": best, "slope, no recurrence": none}
    numbers |= {"size of slope, n shuffled, mean": mixed, "size of slope, n shuffled, largest": largest}
    few, x, batch = ctrnn.cells.LowRankReduction(model.field), torch.tensor([1.0, 0.0]), TASK.batch(24, generator(2, "shown"))
    paths, kappa = unroll(DiscreteCell(few, dt=TASK.dt), batch.xs.float()).hs.detach(), torch.linspace(-8, 8, 101)
    line, up = torch.cat([kappa[:, None], x.expand(101, -1)], 1), (model.read_out.weight @ few.m).sign().item()
    numbers["kappa, 3 variables against 64 units"] = float((few.reduced(states(model, batch.xs)) - paths).detach().abs().max())
    speeds = [Flow(ctrnn.cells.LowRankReduction(each.field), x)(line).detach()[:, 0] for each in (model, shuffled[0])]
    with plots.style():
        figure, (top, low) = plots.panels(2, 5.4)
        for sign, colour, dashes in ((1, plots.BLUE, plots.DASHES[0]), (-1, plots.ORANGE, plots.DASHES[1])):
            mine = up * paths[:, sign * batch.targets.sum(0)[:, 0] > 0, 0]
            top.plot(batch.ts, mine, color=colour, linewidth=0.8, linestyle=dashes, label=f"evidence for {sign:+}")
        for speed, dashes, name in zip(speeds, (0, 3), ("rank 1", "n shuffled"), strict=True):
            numbers[f"kappa from -2 to 2, rate of forgetting, {name}"] = float((speed[37] - speed[63]) / (kappa[63] - kappa[37]))
            low.plot(up * kappa, up * speed, color=plots.INK, linestyle=plots.DASHES[dashes], label=name)
        low.axhline(0, color=plots.MUTED, linewidth=0.8)
        top.set(xlabel="t, in time constants", ylabel="κ")
        low.set(xlabel="κ", ylabel="dκ/dt without evidence", ylim=(-1, 1))
        plots.legend(figure, top, low)
    return numbers, slope > 0.6 * best and max(none, mixed) < 0.5 * slope, figure


if __name__ == "__main__":
    show(main)
