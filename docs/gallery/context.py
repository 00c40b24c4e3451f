"""The context decides which of two signals moves a network along a line, where it stays: Mante et al. 2013.

States of trials are left alone in their context for 5 time constants: they must lie on a line, and fall back along it slowly.
A pulse of the signal that counts must move them, one of the other not. The control is the network before training.
"""

import torch
from gallery import Found, show, states, trained

import ctrnn
from ctrnn_experiments import Context, generator, plots
from discretize.analysis.dynamics.state_space import principal_axes

PER, CUES = 5, torch.tensor([[1.0, 0, 0, 1, 0], [1.0, 0, 0, 0, 1]])  # samples a time constant; fixation, signals, contexts


class AtTheEnd(Context):
    def slots(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        xs, targets, _ = super().slots(size, generator)
        return xs, targets, (targets[..., 0] != 0).double()  # what the output does before it is asked does not count


def held(model: torch.nn.Module, context: int, h: torch.Tensor, signal: int = -1) -> torch.Tensor:
    """Return the states of 5 time constants in a context, perhaps with a signal in the first of them: (time, batch, hidden)."""
    xs = CUES[context].repeat(5 * PER, len(h), 1)
    xs[:PER, :, 1:3] += 0.4 * (torch.arange(2) == signal)
    return states(model, xs, h)


def main(small: bool = False) -> Found:
    batch, numbers, ts = AtTheEnd().batch(200, generator(1, "states")), {}, torch.arange(5 * PER + 1) / PER
    with plots.style():
        figure, (*tops, low) = plots.panels(3, 7.2)
        for name, steps, dashes in (("untrained", 0, plots.DASHES[3]), ("trained", 5 if small else 1200, plots.DASHES[0])):
            model = trained(AtTheEnd(), ctrnn.additive(5, 64, generator=generator(0, "field")), steps, lr=3e-3)
            for c, top in enumerate(tops):
                mine = batch.xs[..., 3 + c].mean(0) > batch.xs[..., 4 - c].mean(0)
                rest = held(model, c, states(model, batch.xs)[9 * PER, mine])[-1]
                axes, shares = principal_axes(rest, 2)
                alone = held(model, c, rest) @ axes[:, 0]
                moved = torch.stack([(held(model, c, rest, s) @ axes[:, 0] - alone).mean(1) for s in (0, 1)])
                ratio, up = moved[c, -1] / moved[1 - c, -1], moved[c, -1].sign()
                numbers[f"share of one axis, context {c + 1}, {name}"] = float(shares[0])
                numbers[f"kept in 5 time constants, context {c + 1}, {name}"] = float(alone[-1].std() / alone[0].std())
                numbers[f"moved by what counts, over the other, context {c + 1}, {name}"] = float(ratio.abs())
                for path, s, colour in zip(moved, (1, 2), (plots.BLUE, plots.ORANGE), strict=True):
                    top.plot(ts, up * path, color=colour, linestyle=dashes, label=f"pulse of signal {s}, {name}")
                top.set(xlabel="t, in time constants", ylabel=f"moved in context {c + 1}")
        low.plot(*((rest - rest.mean(0)) @ axes).T, "o", color=plots.INK, markersize=2)
        low.set(xlabel="first axis of states in context 2, trained", ylabel="second", aspect="equal")
        plots.legend(figure, *tops, columns=1)
    shares, kept, ratios = (list(numbers.values())[k::3] for k in range(3))
    shown = min(shares[2:]) > 0.9 and min(kept[2:]) > 2.5 * max(kept[:2]) and min(ratios[2:]) > 3 and max(ratios[:2]) < 2
    return numbers, shown, figure


if __name__ == "__main__":
    show(main)
