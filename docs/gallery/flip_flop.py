"""A network that keeps three bits rests at eight points, with saddles between neighbours: Sussillo and Barak 2013.

Points of rest are sought from states of trials, and from between the stable ones. Let go to either side of a point with one
unstable direction, the network must end at two memories that differ in one bit. Controls: a network of two bits, which must have
4 memories and 4 such saddles, on the sides of a square; and the network before training.
"""

import torch
from gallery import Found, show, states, trained
from matplotlib.figure import Figure

import ctrnn
from ctrnn_experiments import FlipFlop, generator, plots
from discretize import SequenceModel
from discretize.analysis import FixedPoints, Flow, fixed_points

UNITS = 48


@torch.no_grad()
def structure(model: SequenceModel, task: FlipFlop) -> tuple[FixedPoints, torch.Tensor, int]:
    """Return points of rest, the outputs on the ways out of saddles (time, sides, saddles, bits), how many join neighbours."""
    flow, hs = Flow(model.field, torch.zeros(task.bits)), states(model, task.batch(16, generator(1)).xs)[::5].flatten(0, 1)
    memories = fixed_points(flow, hs).h
    points = fixed_points(flow, torch.cat([hs, ((memories[:, None] + memories) / 2).flatten(0, 1)]))
    saddles = ((points.rates > 0).sum(1) == 1).nonzero()[:, 0]
    ways = 0.1 * points.eigenvectors[saddles, :, points.rates[saddles].argmax(1)].real
    starts = torch.cat([points.h[saddles] - ways, points.h[saddles] + ways])
    run = states(model, torch.zeros(200, len(starts), task.bits), starts)
    outputs = model.read_out(run.tanh()).unflatten(1, (2, -1))
    return points, outputs, int((outputs[-1].sign().diff(dim=0).count_nonzero(-1) == 1).sum())


def main(small: bool = False) -> Found:
    steps, numbers = (5, 5) if small else (600, 400), {}
    for name, bits, count in (("untrained", 3, 0), ("2 bits", 2, steps[1]), ("3 bits", 3, steps[0])):
        task, field = FlipFlop(bits=bits), ctrnn.additive(bits, UNITS, generator=generator(0, "field"))
        points, ways, edges = structure(model := trained(task, field, count, lr=5e-3), task)
        numbers |= {f"stable points, {name}": int(points.stable.sum()), f"saddles between neighbours, {name}": edges}
    batch, at = task.batch(8, generator(2)), model.read_out(points.h.tanh()).detach()
    with plots.style():
        figure = Figure(figsize=(plots.WIDTH, 4), layout="constrained")
        ax = figure.add_subplot(projection="3d")
        for path in model(batch.xs, ts=batch.ts).detach().unbind(1):
            ax.plot(*path.T, color=plots.MUTED, linewidth=0.4, alpha=0.6)
        for way in ways.flatten(1, 2).unbind(1):
            ax.plot(*way.T, color=plots.ORANGE)
        ax.plot(*at[points.stable].T, "o", color=plots.BLUE, markersize=7, label="stable")
        ax.plot(*at[~points.stable].T, "o", color=plots.ORANGE, markerfacecolor=plots.PAPER, markersize=5, label="not stable")
        ax.set(xlabel="output 1", ylabel="output 2", zlabel="output 3", xticks=(-1, 1), yticks=(-1, 1), zticks=(-1, 1))
        ax.set_box_aspect(None, zoom=0.85)
        ax.view_init(20, -65)
        plots.legend(figure, ax)
    none, side, edges = list(numbers.values())[1::2]
    return numbers, list(numbers.values())[::2] == [1, 4, 8] and none == 0 and side >= 3 and edges >= 10, figure


if __name__ == "__main__":
    show(main)
