r"""Eight kinds of field and twenty ways to run them, each run beside a second reading of its mathematics.

stepped    h <- h + dt F(x_k, h) + G w_k, a loop that reads the field's `flow` and the path's increments
solved     Runge-Kutta's method of order 4 in 8 steps a sample; a past of two samples: the pieces [0, 2], [2, 4], ... side by
           side, each of which is the past of the next one
"""

import copy
import functools
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

import ctrnn
import discretize
from discretize import Adjoint, Checkpointed, ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, EulerMaruyama, Event, Flow
from discretize.noise.generator import other_keys

TIME, BATCH, INPUT, UNITS = 4, 2, 2, 3
DELAY = 2  # in samples: fixed steps of a sample read a state that they have
FINE = 8  # steps a sample of the second reading
SAMPLES, SPEEDS = torch.arange(TIME + 1.0, dtype=torch.float64), (0.5, 1.5, 1.0, 0.8)
KEYS = discretize.noise_keys(3, BATCH)
OWN = torch.stack([SAMPLES / 2, SAMPLES], 1)  # the times of each sequence
AT = 2.5  # where the event is


class Late(ctrnn.DelayedField):
    """dh/dt = tanh(W x + A h + B h(t - 2)) - h."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, [float(DELAY)])
        self.read, self.now = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size, bias=False)
        self.before = nn.Linear(hidden_size, hidden_size, bias=False)

    def project(self, x: Tensor) -> Tensor:
        return self.read(x)

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return torch.tanh(projected + self.now(h) + self.before(past[0])) - h


class Turning(nn.Module):
    """A matrix (units, input) for each state."""

    def __init__(self, hidden_size: int, input_size: int) -> None:
        super().__init__()
        self.hidden_size, self.input_size = hidden_size, input_size
        self.weights = nn.Linear(hidden_size, hidden_size * input_size)

    def forward(self, h: Tensor) -> Tensor:
        return torch.tanh(self.weights(h))


FIELDS: dict[str, Callable[[], Any]] = {
    "gated": lambda: ctrnn.gated(INPUT, UNITS),
    "Stack": lambda: ctrnn.Stack([ctrnn.gated(INPUT, UNITS), ctrnn.gated(UNITS, UNITS)]),
    "LSTM": lambda: ctrnn.lstm(INPUT, UNITS),
    "GLNN": lambda: ctrnn.glnn(INPUT, UNITS),
    "coRNN": lambda: ctrnn.cornn(INPUT, UNITS),
    "controlled": lambda: ctrnn.ControlledField(Turning(UNITS, INPUT), INPUT, UNITS),
    "noisy": lambda: ctrnn.Noisy(ctrnn.gated(INPUT, UNITS), ctrnn.Noise(0.2)),
    "delayed": lambda: Late(INPUT, UNITS),
}
KNOWN = {"Late": Late, "Turning": Turning}  # classes that a file names


class Case(NamedTuple):
    """A field of a kind, and what it is run on."""

    kind: str
    field: Any
    xs: Tensor
    h0: Tensor

    @property
    def noisy(self) -> bool:
        return self.kind == "noisy"

    @property
    def delayed(self) -> bool:
        return self.kind == "delayed"

    @property
    def step(self) -> discretize.Step:
        return EulerMaruyama() if self.noisy else Euler()

    @property
    def solving(self) -> dict[str, Any]:
        """Settings of a solve: to a tolerance, or by short steps along a path of noise."""
        return {"method": EulerMaruyama(), "max_step": 0.25} if self.noisy else {"rtol": 1e-5, "atol": 1e-6}

    @property
    def seeded(self) -> dict[str, Any]:
        return {"seed": KEYS} if self.noisy else {}

    def rnn(self) -> DiscreteRNN:
        return DiscreteRNN(self.field, self.step)


@functools.cache
def case(kind: str) -> Case:
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(5)
        field = FIELDS[kind]().double()
        xs = torch.randn(TIME, BATCH, INPUT, dtype=torch.float64)
        return Case(kind, field, xs, torch.randn(BATCH, field.state_size, dtype=torch.float64) / 4)


# The second reading


def slope(one: Case, x: Tensor, h: Tensor, past: Tensor) -> Tensor:
    field, projected = one.field, one.field.project(x)
    found: Tensor = field.flow(projected, h, (past,)) if one.delayed else field.flow(projected, h)
    return found


def stepped(
    one: Case,
    xs: Tensor | None = None,
    edges: Tensor = SAMPLES,
    parts: int = 1,
    keys: Tensor = KEYS,
    speeds: tuple[float, ...] = (1.0,) * TIME,
) -> Tensor:
    """The states (time + 1, batch, state) of Euler's steps, `parts` for each sample; edges (time + 1,) or (time + 1, batch)."""
    xs = one.xs if xs is None else xs
    share = torch.arange(parts, dtype=torch.float64).reshape(-1, *[1] * (edges.dim() - 1)) / parts
    fine = torch.cat([(edges[:-1, None] + share * edges.diff(dim=0)[:, None]).flatten(0, 1), edges[-1:]])
    states, dt = [one.h0], fine.diff(dim=0).reshape(len(fine) - 1, -1, 1)
    drawn = discretize.BrownianPath(keys, edges, one.field.noise_channels).increments(fine)[0] if one.noisy else None
    for j in range(len(dt)):
        (x, speed), h = (xs[j // parts], speeds[j // parts]), states[-1]
        moved = h + dt[j] * speed * slope(one, x, h, _before(states, fine, j))
        if drawn is not None:
            moved = moved + speed**0.5 * one.field.diffuse(one.field.project(x), h, drawn[j])
        states.append(moved)
    return torch.stack(states[::parts])


def _before(states: list[Tensor], edges: Tensor, k: int) -> Tensor:
    """The state DELAY ago, of each sample at the times it has."""
    own = edges.reshape(len(edges), -1).expand(-1, BATCH)
    places = (own == (own[k] - DELAY).clamp(min=0)).int().argmax(0)
    return torch.stack([states[place][sample] for sample, place in enumerate(places.tolist())])


def solved(one: Case, speeds: tuple[float, ...] = (1.0,) * TIME, until: float = TIME) -> Tensor:
    """The states (time + 1, batch, state) at the ends of samples, or (1, batch, state) at the time `until`."""
    if one.delayed:
        return _with_past(one, speeds, until)
    h, states = one.h0, [one.h0]
    for k, x in enumerate(one.xs):
        share = min(max(until - k, 0.0), 1.0)
        h = _carried(lambda h, x=x, c=speeds[k]: c * slope(one, x, h, h), h, share / FINE, FINE)
        states.append(h)
    return torch.stack(states) if until == TIME else states[-1][None]


def _with_past(one: Case, speeds: tuple[float, ...], until: float) -> Tensor:
    """All pieces of length DELAY move together; the past of the first is h0."""
    ends, pieces = [one.h0], [one.h0]
    while (len(pieces) - 1) * DELAY < TIME:
        state = torch.stack(pieces)
        for k in range(DELAY):
            at = [piece * DELAY + k for piece in range(len(pieces))]
            read = [(one.xs[min(j, TIME - 1)], speeds[min(j, TIME - 1)]) for j in at]

            def along(hs: Tensor, read: Any = read) -> Tensor:
                pasts = [one.h0, *hs[:-1]]
                return torch.stack([c * slope(one, x, h, past) for (x, c), h, past in zip(read, hs, pasts, strict=True)])

            last = min(max(until - at[-1], 0.0), 1.0)  # the newest piece is asked for to there
            if 0 < last < 1:
                return _carried(along, state, last / FINE, FINE)[-1:]
            state = _carried(along, state, 1 / FINE, FINE)
            ends.append(state[-1])
        pieces = [one.h0, *state]
    return torch.stack(ends[: TIME + 1])


def _carried(along: Callable[[Tensor], Tensor], h: Tensor, dt: float, steps: int) -> Tensor:
    for _ in range(steps):
        a = along(h)
        b = along(h + dt / 2 * a)
        c = along(h + dt / 2 * b)
        h = h + dt / 6 * (a + 2 * b + 2 * c + along(h + dt * c))
    return h


# The runs: each gives numbers, and those it should give


class Run(NamedTuple):
    """A way to run a field, what it should give, and how far off that may be: rounding, or the tolerance of a solve."""

    numbers: Callable[[Case], Tensor]
    expected: Callable[[Case], Tensor]
    off: float


ROUNDING, TOLERANCE = 1e-10, 1e-4


def of_output(output: Tensor, end: Tensor) -> Tensor:
    return torch.cat([output.flatten(), end.flatten()])


def as_output(one: Case, states: Tensor) -> Tensor:
    """What a module gives of states (time + 1, batch, state): the visible parts, and the whole state at the end."""
    return of_output(_seen(one, states[1:]), states[-1])


def gradients(one: Case, states: Tensor) -> Tensor:
    weights = [weight for weight in one.field.parameters() if weight.requires_grad]
    found = torch.autograd.grad((states[-1] ** 2).sum(), weights, allow_unused=True)
    return torch.cat([torch.zeros_like(w).flatten() if g is None else g.flatten() for w, g in zip(weights, found, strict=True)])


def integrated(one: Case, ts: Tensor = SAMPLES, **settings: Any) -> Tensor:
    settings = one.solving | one.seeded | settings
    if settings.get("method") == "rk4":  # which reads no tolerances
        settings = {name: value for name, value in settings.items() if name not in ("rtol", "atol")}
    return discretize.integrate(one.field, ctrnn.HeldPath(one.xs), one.h0, ts, **settings).hs


def solved_or_noisy(one: Case, speeds: tuple[float, ...] = (1.0,) * TIME) -> Tensor:
    return stepped(one, parts=4, speeds=speeds) if one.noisy else solved(one, speeds)


def by_unroll(one: Case, run: Any = discretize.unroll, **settings: Any) -> Tensor:
    hs: Tensor = run(DiscreteCell(one.field, one.step), one.xs, one.h0, **settings, **one.seeded).hs
    return hs


def in_layers(one: Case) -> Tensor:
    above = second(one)
    return of_output(*discretize.Layers([one.rnn(), DiscreteRNN(above)])(one.xs, starts(one, above), **one.seeded))


def layers_expected(one: Case) -> Tensor:
    states = stepped(one, keys=other_keys(KEYS, 1))
    above, below = second(one), _seen(one, states[1:])
    upper = stepped(Case("gated", above, below, starts(one, above)[1]))
    return of_output(above.visible(upper[1:]), torch.stack([states[-1], upper[-1]]))


@functools.cache
def second(one: Case) -> Any:
    """A layer that reads the first one, on a state as wide."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        hidden = one.field.hidden_size
        if one.field.state_size == hidden:
            return ctrnn.gated(hidden, hidden).double()
        return (ctrnn.lstm(hidden, hidden) if one.kind == "LSTM" else ctrnn.cornn(hidden, hidden)).double()


def starts(one: Case, above: Any) -> Tensor:
    return torch.stack([one.h0, one.h0 / 2])


def networks(one: Case) -> list[Case]:
    """Two networks of the same kind, with other weights."""
    other = copy.deepcopy(one.field)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.5)
    return [one, one._replace(field=other)]


def in_an_ensemble(one: Case) -> Tensor:
    both = [each.rnn() for each in networks(one)]
    output, end = discretize.ensemble(both)(one.xs, one.h0[None], **one.seeded)
    return torch.stack([of_output(output[k], end[k]) for k in range(len(both))])


def crossing(one: Case) -> Tensor:
    """When the first unit of the first sample is where it should be at AT, and the state of that sample then."""
    there = _at(one)[0]
    event = Event(lambda t, h: h[:, 0] - there)
    path, settings = ctrnn.HeldPath(one.xs), one.solving | one.seeded
    found = discretize.integrate(one.field, path, one.h0, SAMPLES, events=event, **settings).events[0]
    own = found.samples == 0
    nearest = (found.times[own] - AT).abs().argmin()
    return torch.cat([found.times[own][nearest][None], found.states[own][nearest]])


def _at(one: Case) -> Tensor:
    return stepped(one, parts=4)[-1, 0] if one.noisy else solved(one, until=AT)[0, 0].detach()


def backwards(one: Case) -> Tensor:
    """From the end back to the start."""
    end = solved(one)[-1].detach() if not one.noisy else stepped(one, parts=4)[-1].detach()
    return discretize.integrate(
        one.field, ctrnn.HeldPath(one.xs), end, SAMPLES.flip(0), **one.solving, **one.seeded
    ).hs[-1]  # fmt: skip


def refined(one: Case) -> Tensor:
    with mock.patch.multiple("discretize.analysis.refine", WAIT=20, LOOK=20, MOST=40):  # samples after which all is at rest
        data = (one.xs, None, None, None, None, *one.seeded.values())
        found = discretize.refine(one.rnn(), *data, halvings=1, rtol=1e-6, atol=1e-7)
    return torch.tensor(found.largest, dtype=torch.float64)


def refined_expected(one: Case) -> Tensor:
    from_zero = one._replace(h0=torch.zeros_like(one.h0))
    exact = stepped(from_zero, parts=32) if one.noisy else solved(from_zero)
    return torch.stack([(_seen(one, stepped(from_zero, parts=n)) - _seen(one, exact)).abs().max() for n in (1, 2)])


def _seen(one: Case, states: Tensor) -> Tensor:
    seen: Tensor = states if one.delayed else one.field.visible(states)
    return seen


def at_rest(one: Case) -> Tensor:
    """How fast the field is at the points that are found, and how many are missing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        starts = torch.randn(8, one.field.state_size, dtype=torch.float64)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)
    h = discretize.fixed_points(Flow(one.field, x), starts).h
    speeds = slope(one, x.expand(len(h), -1), h, h).abs().flatten()
    return torch.cat([speeds, torch.tensor([0.0 if len(h) else 1.0])])


def exported(one: Case) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of torch itself
        sizes = {0: torch.export.Dim("time"), 1: torch.export.Dim("batch")}
        shapes = {"x": sizes, "h_0": {0: sizes[1]}} | {name: {0: sizes[1]} for name in one.seeded}
        # On fewer samples than it runs on: a graph is of any time.
        program = torch.export.export(one.rnn(), (one.xs[:2], one.h0), one.seeded, dynamic_shapes=shapes)
    return of_output(*program.module()(one.xs, one.h0, **one.seeded))


def saved(one: Case) -> Tensor:
    with tempfile.TemporaryDirectory() as folder:
        ctrnn.save(f"{folder}/model.ctrnn", one.rnn(), known=KNOWN)
        return of_output(*ctrnn.load(f"{folder}/model.ctrnn", known=KNOWN)(one.xs, one.h0, **one.seeded))


def mapped(one: Case) -> Tensor:
    """Each sequence by itself."""
    rnn = one.rnn()
    if one.noisy:
        output, end = torch.func.vmap(lambda x, h, k: rnn(x[:, None], h[None], seed=k[None]), in_dims=(1, 0, 0))(
            one.xs, one.h0, KEYS
        )
    else:
        output, end = torch.func.vmap(lambda x, h: rnn(x, h[None]), in_dims=(1, 0))(one.xs, one.h0)
    return of_output(output.reshape(BATCH, TIME, -1).transpose(0, 1), end)


def exactly(output: Callable[[Case], Tensor]) -> Run:
    return Run(output, lambda one: as_output(one, stepped(one)), ROUNDING)


def to_a_tolerance(numbers: Callable[[Case], Tensor], expected: Callable[[Case], Tensor] = solved_or_noisy) -> Run:
    return Run(numbers, expected, TOLERANCE)


RUNS: dict[str, Run] = {
    "DiscreteRNN": exactly(lambda one: of_output(*one.rnn()(one.xs, one.h0, **one.seeded))),
    "own ts": Run(
        lambda one: of_output(*one.rnn()(one.xs, one.h0, ts=OWN, **one.seeded)),
        lambda one: as_output(one, stepped(one, edges=OWN)),
        ROUNDING,
    ),
    "unroll": Run(by_unroll, stepped, ROUNDING),
    "parallel": Run(lambda one: by_unroll(one, discretize.unroll_parallel, tolerance=1e-12), stepped, ROUNDING),
    "ContinuousRNN": to_a_tolerance(
        lambda one: of_output(*ContinuousRNN(one.field, **one.solving)(one.xs, one.h0, **one.seeded)),
        lambda one: as_output(one, solved_or_noisy(one)),
    ),
    "Adjoint": to_a_tolerance(
        lambda one: gradients(one, integrated(one, gradient=Adjoint())), lambda one: gradients(one, solved_or_noisy(one))
    ),
    "Checkpointed": to_a_tolerance(
        lambda one: gradients(one, integrated(one, gradient=Checkpointed(1 << 20))),
        lambda one: gradients(one, solved_or_noisy(one)),
    ),
    "events": to_a_tolerance(crossing, lambda one: torch.cat([torch.tensor([AT]), _at(one)])),
    "warp": to_a_tolerance(
        lambda one: integrated(one, speed=ctrnn.HeldPath(torch.tensor(SPEEDS, dtype=torch.float64)[:, None, None])),
        lambda one: solved_or_noisy(one, SPEEDS),
    ),
    "backwards": to_a_tolerance(backwards, lambda one: one.h0),
    "rk4": to_a_tolerance(lambda one: integrated(one, method="rk4", max_step=1 / 32)),
    "torchdiffeq:": to_a_tolerance(lambda one: integrated(one, method="torchdiffeq:dopri5")),
    "rodas5p": to_a_tolerance(lambda one: integrated(one, method="rodas5p")),
    "Layers": Run(in_layers, layers_expected, ROUNDING),
    "ensemble": Run(
        in_an_ensemble, lambda one: torch.stack([as_output(each, stepped(each)) for each in networks(one)]), ROUNDING
    ),
    "refine": to_a_tolerance(refined, refined_expected),
    "fixed_points": Run(at_rest, lambda one: torch.zeros_like(at_rest(one)), TOLERANCE),
    "export": exactly(exported),
    "save": exactly(saved),
    "vmap": exactly(mapped),
}
