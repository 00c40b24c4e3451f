r"""Measures how long a network remembers the symbol before while a symbol is held, and what holds that memory.

sequences      all ordered pairs of a symbol before and one that is held, after a few others on a random clock
forgetting     samples held until fewer than half of the answers are right
ends           states after `END` samples: at rest, or moving;  apart: the share of pairs of symbols before whose ends differ
in its place   gates of another network, of the start of training, a constant, none after a while; the equation, solved

A network that keeps its memory in attractors has ends that differ; one that keeps it in a transient has one end for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import discretize
from ctrnn import VectorField
from discretize import SequenceModel, Step
from experiments.seeds import generator
from experiments.studies.clocks.oracle import OracleCell, StopAndGo, gate_values, played, played_by_gates
from experiments.studies.study import Row
from experiments.tasks.task import said_right

__all__ = [
    "ANOTHER",
    "HELD",
    "HORIZON",
    "SOLVED",
    "Latch",
    "Probe",
    "answers",
    "ends",
    "forgotten",
    "gates_held",
    "in_other_gates",
    "latch",
    "shut_after",
    "slow_modes",
]

ANOTHER = "another network"
SYMBOLS = 9  # of recall, without the dummy
CONTEXT, TIMES = 4, 2  # symbols before the pair, and how often each pair is shown
HELD = (10, 20, 40, 80, 160, 320, 640)  # samples
HORIZON = 32  # times the largest warp, for which a symbol is held to see it forgotten
END = 20_000  # samples after which a state has come to where it ends
EVERY = 100  # samples it is asked whether all states rest
MOVING, APART = 1e-8, 1e-3  # of the size of the states: how far they move in a sample, how far apart ends are
POINTS = ("rest", "rest_of_flow", "rest_of_map", "slow")
SOLVED = discretize.RungeKutta4(), 2  # the equation, half a sample a step: rates are below 1


@dataclass(frozen=True, eq=False)
class Probe:
    """Holds sequences that end as a symbol begins: `xs` (time, batch, input), `lengths`, the symbols before and then `held`."""

    xs: Tensor
    lengths: Tensor
    before: Tensor
    held: Tensor

    @classmethod
    def of(cls, warp: int, seed: int) -> Probe:
        """Draw them: every pair `TIMES` times, and what is shown before on the clock of training."""
        pairs = torch.cartesian_prod(torch.arange(1, SYMBOLS + 1), torch.arange(1, SYMBOLS + 1))
        before, held = pairs[pairs[:, 0] != pairs[:, 1]].repeat(TIMES, 1).unbind(1)
        dice = generator(seed, "warped-memory", "probe")
        steps = torch.randint(1, SYMBOLS, (CONTEXT, len(held)), generator=dice)  # neighbours differ
        symbols = torch.cat([1 + (before - 1 + steps.cumsum(0).flip(0)) % SYMBOLS, before[None]])
        ends = torch.randint(1, warp + 1, symbols.shape, generator=dice).cumsum(0)
        times = torch.arange(int(ends[-1].max())).expand(len(held), -1).contiguous()
        shown = torch.searchsorted(ends.T.contiguous(), times, right=True).T.clamp(max=CONTEXT)
        return cls(one_hot(symbols.gather(0, shown)), ends[-1], before, held)

    def begun(self, field: VectorField, step: Step | None = None, substeps: int = 1) -> Tensor:
        """Return the states in which the symbol that is held begins, by unit Euler steps if nothing else is said."""
        advance, h = stepper(step, substeps), field.initial_state(len(self.held)).double()
        states = [h]
        for projected in field.project(self.xs):
            states.append(advance(field, projected, states[-1]))
        return torch.stack(states)[self.lengths, torch.arange(len(self.held))]


def one_hot(symbols: Tensor) -> Tensor:
    return nn.functional.one_hot(symbols, SYMBOLS + 1).double()


def stepper(step: Step | None, substeps: int) -> Callable[[VectorField, Tensor, Tensor], Tensor]:
    """Return what takes a state over one sample."""
    used = discretize.Euler() if step is None else step

    def advance(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
        for _ in range(substeps):
            h = used.advance(field, projected, h, 1 / substeps)
        return h

    return advance


def is_right(model: SequenceModel, h: Tensor, probe: Probe) -> Tensor:
    return said_right(model.read_out(model.field.visible(h)), probe.before)


def answers(model: SequenceModel, probe: Probe, step: Step | None = None, substeps: int = 1) -> Iterator[float]:
    """Hold the symbols, and yield the share of right answers after 1, 2, ... samples."""
    field, advance = model.field, stepper(step, substeps)
    h, projected = probe.begun(field, step, substeps), field.project(one_hot(probe.held))
    while True:
        h = advance(field, projected, h)
        yield float(is_right(model, h, probe).double().mean())


def forgotten(shares: Iterable[float]) -> int | None:
    """Return the number of samples after which fewer than half are right; None where that never comes."""
    return next((n for n, share in enumerate(shares, 1) if share < 0.5), None)


def after(field: VectorField, probe: Probe, samples: int) -> Tensor:
    """Return the states after so many samples, by unit Euler steps."""
    h, projected = probe.begun(field), field.project(one_hot(probe.held))
    for _ in range(samples):
        h = h + field.flow(projected, h)
    return h


def ends(model: SequenceModel, probe: Probe, warp: int) -> Row:
    r"""Measure where states end while each symbol is held, and the points of rest of each.

    `apart` is of symbols whose ends all rest, over pairs of symbols before: None if there are none. `rest`,
    `rest_of_flow`, `rest_of_map`: points of rest a symbol, and how many attract under the equation and under Euler's step.
    `slow`: points a symbol that move in `warp` samples by a tenth of their size at most.
    """
    field = model.field
    projected, begun = field.project(one_hot(probe.held)), after(field, probe, warp)
    h, size = begun, begun.norm(dim=-1)
    rests = torch.zeros_like(size, dtype=torch.bool)
    for k in range(END):
        move = field.flow(projected, h)
        h, rests = h + move, rests if k % EVERY else move.norm(dim=-1) <= MOVING * size
        if rests.all():
            break
    right = float(is_right(model, h, probe).double().mean())
    u, solve = h, stepper(*SOLVED)
    if not rests.all():
        for _ in range(END // 20):
            u = solve(field, projected, u)
    settled = field.flow(projected, u).norm(dim=-1) <= MOVING * size
    counts, apart, moving, only_map = [], list[float](), 0, 0
    for symbol in range(1, SYMBOLS + 1):
        mine = probe.held == symbol
        moving += int(not rests[mine].all())
        only_map += int(not rests[mine].all() and bool(settled[mine].all()))
        if rests[mine].all():
            apart.append(share_apart(h[mine], size[mine].mean()))
        starts = torch.cat([torch.zeros_like(h[:1]), begun[mine], h[mine]])
        counts.append(points_of_rest(field, symbol, starts, float(size[mine].mean()) / (10 * warp)))
    means = torch.tensor(counts, dtype=torch.float64).mean(0).tolist()
    found: Row = {"at_the_end": right, "apart": sum(apart) / len(apart) if apart else None, "moving": moving}
    return {**found, "moving_by_steps_alone": only_map, **dict(zip(POINTS, means, strict=True))}


def share_apart(h: Tensor, size: Tensor) -> float:
    """Return the share of pairs of symbols before whose ends are apart, each shown `TIMES` times: (TIMES * symbols, state)."""
    found = [torch.cdist(one, one)[*torch.triu_indices(len(one), len(one), 1)] > APART * size for one in h.chunk(TIMES)]
    return float(torch.stack(found).double().mean())


def points_of_rest(field: VectorField, symbol: int, starts: Tensor, slow: float) -> list[int]:
    flow = discretize.Flow(field, one_hot(torch.tensor(symbol)))
    found = discretize.fixed_points(flow, starts, slow=slow)
    of_map = (1 + found.eigenvalues).abs().amax(-1) < 1
    fixed = found.fixed
    return [int(fixed.sum()), int((fixed & found.stable).sum()), int((fixed & of_map).sum()), int((~fixed).sum())]


def slow_modes(field: VectorField, probe: Probe, warp: int) -> Row:
    r"""Measure how slowly states, and their differences, move while memory lasts.

    `exponent`: growth a sample of a small difference from `warp` to 4 `warp` samples held, in a direction drawn once at the
    beginning of the hold, the mean over sequences;  `moved`: how far states move from `warp` to 2 `warp` samples, by how far
    those of different symbols before are apart at `warp`;  `left`: what is left of that distance at 4 `warp`.
    """
    system = discretize.Map(field, discretize.Euler(), lambda p: one_hot(p.long()))
    begun = probe.begun(field)
    intervals = max(16, 3 * warp)
    run = discretize.lyapunov(system, begun, probe.held.double(), intervals=intervals, transient=warp, count=1)
    one, two, four = (after(field, probe, times * warp) for times in (1, 2, 4))
    between = [distance_between(h, probe) for h in (one, four)]
    moved = float((two - one).norm(dim=-1).mean()) / between[0]
    return {"exponent": float(run.exponents.mean()), "moved": moved, "left": between[1] / between[0]}


def distance_between(h: Tensor, probe: Probe) -> float:
    """Return the mean distance of states with other symbols before, while the same one is held."""
    found = []
    for symbol in range(1, SYMBOLS + 1):
        for one in h[probe.held == symbol].chunk(TIMES):
            found.append(torch.pdist(one).mean())
    return float(torch.stack(found).mean())


def gates_held(field: VectorField, probe: Probe, warp: int) -> Row:
    """Measure gates in the second half of a hold as long as the longest: quantiles over units and sequences, and waiting units,
    whose mean gate would keep e^-1 over four times that."""
    h, x = after(field, probe, warp // 2), one_hot(probe.held)
    projected, found = field.project(x), list[Tensor]()
    for _ in range(warp - warp // 2):
        found.append(gate_values(field, x, h))
        h = h + field.flow(projected, h)
    g = torch.stack(found)
    names = {"gate_low": 0.1, "gate": 0.5, "gate_high": 0.9}
    quantiles: Row = {name: float(g.flatten()[:: max(1, g.numel() // 2**20)].quantile(q)) for name, q in names.items()}
    return {**quantiles, "shut": float((g.mean((0, 1)) < 1 / (4 * warp)).double().mean())}


def shut_after(model: SequenceModel, probe: Probe, warp: int) -> float:
    """Return the share of right answers after 16 `warp` samples if gates are shut from the sample `warp` on."""
    field, x = model.field, one_hot(probe.held)
    h, cell, shut = after(field, probe, warp), OracleCell(field), torch.zeros(len(x), dtype=torch.bool)
    for _ in range(15 * warp):
        h = cell(x, shut, h)
    return float(is_right(model, h, probe).double().mean())


def in_other_gates(
    model: SequenceModel, others: Mapping[str, SequenceModel], symbols: Tensor, targets: Tensor, clock: StopAndGo
) -> list[Row]:
    r"""Measure the share of right answers at the ends of symbols, by the learned gates and with others in their place.

    `constant`: each unit's mean; and those of each of `others` on the same sequences: of "another network" the gates go to
    units of the same rank by their mean gate, for units of two networks have nothing else in common.
    """
    field, xs, aims = model.field, clock.play(symbols), clock.play(targets)
    own = gate_values(field, xs, played(field, xs)[:-1])
    gates = {"learned": own, "constant": own.mean((0, 1)).expand_as(own)}
    for name, other in others.items():
        theirs = gate_values(other.field, xs, played(other.field, xs)[:-1])
        if name == ANOTHER:
            rank = own.mean((0, 1)).argsort().argsort()
            theirs = theirs[..., theirs.mean((0, 1)).argsort()][..., rank]
        gates[name] = theirs
    asked = clock.last & (clock.shown > 0)
    found = list[Row]()
    for name, g in gates.items():
        h = played_by_gates(field, xs, g)[1:]
        right = said_right(model.read_out(field.visible(h)), aims)
        found.append({"kind": "gates", "gate": name, "at_ends": float(right[asked].double().mean())})
    return found


class Latch(VectorField):
    r"""Remembers the symbol before in attractors, by construction: a register, shifted by a change, and held by itself.

    a' = x - a                                       w = sigma(k (1/2 - x a)): whether the symbol is another one
    b' = w (a - b) + (1 - w) (softmax(k b) - b)      one-hot vectors attract b

    A control: what counts attractors has to find one for each symbol before. Not trained. The state is (b, a), b visible.
    """

    def __init__(self, symbols: int = SYMBOLS + 1, k: float = 30.0) -> None:
        super().__init__(symbols, symbols, 2 * symbols)
        self.k = k

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        b, a = h.chunk(2, -1)
        w = torch.sigmoid(self.k * (0.5 - (projected * a).sum(-1, keepdim=True)))
        return torch.cat([w * (a - b) + (1 - w) * (torch.softmax(self.k * b, -1) - b), projected - a], -1)


def latch() -> SequenceModel:
    """Return the latch with a read-out of its register."""
    model = SequenceModel(discretize.DiscreteRNN(Latch(), step=discretize.Euler()), SYMBOLS + 1).double()
    with torch.no_grad():
        model.read_out.weight.copy_(torch.eye(SYMBOLS + 1))
        model.read_out.bias.zero_()
    return model
