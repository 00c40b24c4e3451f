"""Discrete sequences by every engine, against a loop over steps that is written here."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from fuzz.dice import NOISE, Dice, Difference, NoAnswer, compared, noisy
from fuzz.fields import random_field
from problems import STEPS
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import ctrnn
import discretize
from discretize import DiscreteCell, DiscreteRNN, StepError
from discretize.kernels import price
from discretize.kernels import registry as written_kernels

__all__ = [
    "FOR_KERNELS",
    "PLAIN",
    "REFUSED",
    "ROUNDING",
    "Sequence",
    "by_steps",
    "engine_is_honest",
    "implicit_steps_with_writes",
    "kernels_for_all",
    "sequences_by_engines",
    "sequences_in_parallel",
    "sequences_with_writes",
    "with_gradients",
    "write_something",
]

ROUNDING = {torch.float64: 1e-11, torch.float32: 2e-4}  # of some hundred steps, whose sums are in another order
PLAIN = {"ts": None, "lengths": None, "reset": None, "hold": {}, "batch_first": False}
IMPLICIT = ("BackwardEuler", "Trapezoid")
REFUSED = "written into between|gives other states|other steps|modified (by an )?inplace"  # the other answer that is right
FOR_KERNELS = [name for name in STEPS if name not in (*IMPLICIT, "Taylor2", "ExponentialRosenbrock")]


@contextmanager
def kernels_for_all(whether: bool = True) -> Iterator[None]:
    """Kernels for the shortest of calls, and for code that changes at each."""
    with ExitStack() as patches, warnings.catch_warnings():
        for kind in (discretize.SolverWarning, discretize.StepWarning, discretize.StampWarning):
            warnings.simplefilter("ignore", kind)
        if whether:
            for module, name, value in (
                (price, "PRICE", 0),
                (written_kernels, "MOST_IN_VAIN", 10**9),
            ):
                patches.enter_context(patch.object(module, name, value))
        yield


@dataclass
class Sequence:
    """A call of a `DiscreteRNN`: its field, its settings and what it is given, time first."""

    field: ctrnn.VectorField
    step: discretize.Step
    xs: Tensor
    h0: Tensor
    dt: float = 1.0
    substeps: int = 1
    ts: Tensor | None = None  # edges or stamps, shared or for each sequence its own
    lengths: Tensor | None = None
    reset: Tensor | None = None
    hold: dict[str, Any] = field(default_factory=dict)
    batch_first: bool = False

    @classmethod
    def drawn(cls, dice: Dice, steps: list[str] | None = None, own_code: float = 0.25) -> Sequence:
        dtype = dice.one_of("of", [torch.float64, torch.float64, torch.float32])
        inputs, batch = dice.count("inputs", 1, 3), dice.one_of("batch", [1, 2, 3, 5, 8, 17, 40])
        time = dice.one_of("time", [1, 2, 3, 5, 8, 13, 20, 40, 40, 70, 110, 300])
        field = random_field(dice, inputs, dtype, own_code=own_code)
        name = dice.one_of("step", list(STEPS) if steps is None else steps)
        if name in (*IMPLICIT, "ExponentialRosenbrock", "Taylor2"):
            time, batch = min(time, 13), min(batch, 5)  # a thousand times slower
        substeps = dice.one_of("substeps", [1, 1, 1, 2, 3])
        time = time if time < 110 or substeps == 1 else 40
        return cls(field, STEPS[name], *[torch.empty(time, batch, inputs, dtype=dtype)] * 2, substeps=substeps)._filled(dice)

    def again(self, dice: Dice) -> Sequence:
        """Other samples for the same field and step."""
        time, batch = dice.count("time", 1, min(40, len(self.xs) + 5)), dice.count("batch", 1, 9)
        return replace(self, xs=self.xs.new_empty(time, batch, self.xs.shape[-1]), ts=None, hold={})._filled(dice)

    def _filled(self, dice: Dice) -> Sequence:
        xs, h0 = dice.normal(*self.xs.shape), 0.5 * dice.normal(self.xs.shape[1], self.field.state_size)
        h0 = h0 * (not dice.chance("from 0", 0.2))
        found = replace(self, xs=xs.to(self.xs), h0=h0.to(self.xs), dt=dice.number(0.05, 0.6))
        found.batch_first = dice.chance("batch first", 0.3)
        return found._timed(dice)._cut(dice)

    def _timed(self, dice: Dice) -> Sequence:
        time, batch = self.xs.shape[:2]
        if not dice.chance("times", 0.5):
            return self
        edges, own = dice.one_of("given as", ["edges", "stamps"]) == "edges", dice.chance("own times", 0.5)
        ts = dice.times(time + edges, *([batch] if own else []), least=0.02, mean=0.25)
        hold = {}
        if dice.chance("hold backward", 0.3):
            hold = {"hold": "backward"}
        if not edges and (hold or dice.chance("open interval", 0.5)):
            hold["open_interval"] = dice.number(0.1, 0.5)
        return replace(self, ts=ts, hold=hold)

    def _cut(self, dice: Dice) -> Sequence:
        time, batch = self.xs.shape[:2]
        lengths = torch.from_numpy(dice.rng.integers(1, time + 1, batch)) if dice.chance("lengths", 0.35) else None
        reset = torch.from_numpy(dice.rng.random((time, batch)) < dice.number(0.02, 0.4)) if dice.chance("reset", 0.3) else None
        open_end = self.ts is not None and len(self.ts) == time and not self.hold
        if open_end and int((torch.tensor([time]) if lengths is None else lengths).max()) == 1:  # else it is refused
            self.hold["open_interval"] = dice.number(0.1, 0.5)
        return replace(self, lengths=lengths, reset=reset)

    def durations(self, ts: Tensor | None) -> Tensor:
        """What each sample takes, (time, batch), by the words of docs: T + 1 edges; or T stamps, where forwards the last sample
        is held for as long as the one before it, a single one for the median of all, and backwards nothing says how long the
        first one was but `open_interval`."""
        time, batch = self.xs.shape[:2]
        if ts is None:
            return torch.full((time, batch), self.dt, dtype=torch.float64)
        columns = ts[:, None].expand(-1, batch) if ts.dim() == 1 else ts
        own = [columns[: end + (len(ts) > time), b] for b, end in enumerate(self.ends.tolist())]
        all_between = [list((one[1:] - one[:-1]).unbind()) for one in own]
        known = sorted((each for between in all_between for each in between), key=lambda each: float(each.detach()))
        found = []
        for b, end in enumerate(self.ends.tolist()):
            between = all_between[b]
            if len(ts) == time:
                between = self._with_open(between, known)
            found.append(torch.stack([*between, *[own[b][0] * 0] * (time - end)]))
        return torch.stack(found, 1)

    def _with_open(self, between: list[Tensor], known: list[Tensor]) -> list[Tensor]:
        length = self.hold.get("open_interval")
        if self.hold.get("hold") == "backward":
            return [torch.tensor(length), *between]
        if length is None:
            return [*between, between[-1] if between else known[(len(known) - 1) // 2]]
        return [*between, torch.tensor(length)]

    def leaves(self) -> dict[str, Tensor]:
        """What gradients are taken to, weights of the field aside."""
        found = {"x": self.xs, "h_0": self.h0} | ({} if self.ts is None else {"ts": self.ts})
        return {name: tensor.detach().clone().requires_grad_() for name, tensor in found.items()}

    def by_hand(self, noise: float = 0.0) -> dict[str, Tensor]:
        """Outputs, last states and gradients, by a loop over time; beyond its end a sequence waits."""
        field, given = copy.deepcopy(self.field), self.leaves()
        for k, tensor in enumerate([given["x"], given["h_0"], *field.parameters()]):
            tensor.data = noisy(tensor, noise, k)
        h_0, lengths = given["h_0"], self.ends
        x = given["x"].masked_fill((torch.arange(len(self.xs))[:, None] >= lengths)[..., None], 0.0)
        durations = self.durations(given.get("ts")).to(h_0)
        states = by_steps(field, self.step, x, h_0, durations, lengths, self.substeps, self.reset)
        there = (torch.arange(len(x))[:, None] < lengths)[..., None]
        return with_gradients(torch.where(there, field.visible(states), 0.0), states[-1:], given, field)

    @property
    def ends(self) -> Tensor:
        time, batch = self.xs.shape[:2]
        return torch.full((batch,), time) if self.lengths is None else self.lengths

    def called(self, **settings: Any) -> dict[str, Tensor]:
        """The same by a `DiscreteRNN`."""
        rnn, given = self.rnn(**settings), self.leaves()
        output, h_n = self.call(rnn, given)
        return with_gradients(output, h_n, given, rnn.field)

    def rnn(self, **settings: Any) -> DiscreteRNN:
        given = {"dt": self.dt, "substeps": self.substeps, "batch_first": self.batch_first, "allow_overshoot": True}
        return DiscreteRNN(self.field, self.step, **given, **self.hold, **settings)

    def call(self, rnn: Any, given: dict[str, Tensor], packed: bool = False) -> tuple[Tensor, Tensor]:
        """Output, time first, and h_n."""
        x, ts, reset, packed = given["x"], given.get("ts"), self.reset, packed and self.lengths is not None
        if self.lengths is not None:  # what stands beyond is not looked at
            beyond = torch.arange(len(x))[:, None] >= self.lengths
            x = x.masked_fill(beyond[..., None], float("nan"))
            reset = None if reset is None else reset | beyond
        if packed:  # which ends with the longest sequence
            longest = int(self.lengths.max())
            ts = None if ts is None else ts[: longest + len(ts) - len(x)]
            reset = None if reset is None else reset[:longest]
        if self.batch_first:
            x, reset = x.transpose(0, 1), None if reset is None else reset.T
            ts = ts if ts is None or ts.dim() == 1 else ts.T
        if packed:
            x = pack_padded_sequence(x, self.lengths, self.batch_first, enforce_sorted=False)
            output, h_n = rnn(x, given["h_0"], ts, reset=reset)
            output = pad_packed_sequence(output, self.batch_first, total_length=len(given["x"]))[0]
        else:
            output, h_n = rnn(x, given["h_0"][None], ts, self.lengths, reset)
        engine_is_honest(rnn.stats)
        return (output.transpose(0, 1) if self.batch_first else output), h_n

    @property
    def allowed(self) -> float:
        return ROUNDING[self.xs.dtype]

    @property
    def noise(self) -> float:
        return NOISE[self.xs.dtype]


def by_steps(
    field: ctrnn.VectorField,
    step: discretize.Step,
    xs: Tensor,
    h: Tensor,
    durations: Tensor,
    lengths: Tensor,
    substeps: int = 1,
    reset: Tensor | None = None,
) -> Tensor:
    """The state after each sample; beyond its end a sequence waits. xs (time, batch, input), durations (time, batch)."""
    states = []
    for k, (x, duration) in enumerate(zip(xs, durations, strict=True)):
        reads = (k < lengths)[:, None]
        if reset is not None:
            h = torch.where(reset[k][:, None] & reads, 0.0, h)
        new = h
        for _ in range(substeps):
            new = step.advance(field, field.project(x), new, duration[:, None] / substeps)
        h = torch.where(reads, new, h)
        states.append(h)
    return torch.stack(states)


def engine_is_honest(stats: dict[str, Any]) -> None:
    """A kernel that was written and gave other numbers is not used, but should not have been wrong either."""
    assert "differs from" not in (stats.get("engine_why") or ""), stats["engine_why"]


def with_gradients(output: Tensor, h_n: Tensor, given: dict[str, Tensor], field: ctrnn.VectorField) -> dict[str, Tensor]:
    """Beside the gradients of a loss that tells samples, times and units apart."""
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    loss = (output * weight).sum() + h_n.square().sum()
    sought = given | {name: p for name, p in field.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True)
    found = {"output": output, "h_n": h_n} | {f"gradient to {name}": g for name, g in zip(sought, gradients, strict=True)}
    if not all(tensor.isfinite().all() for tensor in found.values()):
        raise NoAnswer("the states run away")
    return found


def sequences_by_engines(dice: Dice) -> list[Difference]:
    """Kernels and steps give what a loop over the steps does: states and gradients, times, lengths and resets."""
    engine = dice.one_of("engine", ["kernel", "kernel", "kernel", "steps", "packed", "cell"])
    sequence = Sequence.drawn(dice, None if engine in ("steps", "cell") else FOR_KERNELS, own_code=0.15)
    found = []
    with kernels_for_all(dice.chance("short ones too", 0.15)):
        for k in range(6):  # by one kernel, mostly, which takes longer to build than all that it is for
            sequence = sequence.again(dice) if k else sequence
            try:
                found += compared(_by(engine, sequence), sequence.by_hand, sequence.allowed, sequence.noise)
            except (StepError, NoAnswer):
                continue
            dice.note(";")
    return found


def _by(engine: str, sequence: Sequence) -> dict[str, Tensor]:
    if engine == "cell":
        sequence.ts, sequence.lengths, sequence.reset, sequence.hold, sequence.batch_first = None, None, None, {}, False
        return _cell_by_cell(sequence)
    if engine == "packed":
        rnn, given = sequence.rnn(), sequence.leaves()
        return with_gradients(*sequence.call(rnn, given, packed=True), given, rnn.field)
    return sequence.called(fused=engine == "kernel")


def _cell_by_cell(sequence: Sequence) -> dict[str, Tensor]:
    cell, given = DiscreteCell(sequence.field, sequence.step, sequence.dt / sequence.substeps, True), sequence.leaves()
    h, states = given["h_0"], []
    for x in given["x"].unbind(0):
        for _ in range(sequence.substeps):
            if not h.isfinite().all():  # which a cell refuses
                raise NoAnswer("the states run away")
            h = cell(x, h)
        states.append(h)
    return with_gradients(sequence.field.visible(torch.stack(states)), h[None], given, sequence.field)


def sequences_with_writes(dice: Dice) -> list[Difference]:
    """What is written into a module between its calls is read at the next one; between a call and its backward pass it is
    refused, or changes nothing."""
    sequence = Sequence.drawn(dice, FOR_KERNELS, own_code=0.1)
    found = []
    with kernels_for_all(dice.chance("short ones too", 0.15)):
        rnn = sequence.rnn()
        for _ in range(dice.count("calls", 2, 4)):
            given = sequence.leaves()
            output, h_n = sequence.call(rnn, given)
            expected = sequence.by_hand
            if not (output.isfinite().all() and h_n.isfinite().all()):
                raise NoAnswer("the states run away")
            if dice.chance("written before backward", 0.3):
                before = replace(sequence, field=copy.deepcopy(sequence.field), step=copy.deepcopy(sequence.step))
                expected = before.by_hand
                write_something(dice, sequence.field, [*given.values(), output, h_n])
                output, h_n = _with_values(output, h_n, before)
            found += _compared_or_refused(sequence, output, h_n, given, expected, sequence.allowed)
            sequence = _written(dice, sequence, rnn)
    return found


def implicit_steps_with_writes(dice: Dice) -> list[Difference]:
    """What is written between implicit steps, or Newton's method over a whole sequence, and their backward pass is refused, or
    changes nothing."""
    newton = dice.chance("newton", 0.5)
    sequence = Sequence.drawn(dice, None if newton else [*IMPLICIT, "ExponentialRosenbrock"], own_code=0.0)
    sequence = replace(sequence, substeps=1 if newton else sequence.substeps, **PLAIN)
    sequence.xs, sequence.h0 = sequence.xs[:13, :5], sequence.h0[:5]
    before, given = replace(sequence, field=copy.deepcopy(sequence.field)), sequence.leaves()
    try:
        with kernels_for_all(False):
            if newton:
                cell = DiscreteCell(sequence.field, sequence.step, sequence.dt, True)
                hs = discretize.unroll_parallel(cell, given["x"], given["h_0"]).hs
                output, h_n = sequence.field.visible(hs[1:]), hs[-1:]
            else:
                output, h_n = sequence.call(sequence.rnn(), given)
            if not (output.isfinite().all() and h_n.isfinite().all()):
                raise NoAnswer("the states run away")
            write_something(dice, sequence.field, [*given.values(), output, h_n])
            output, h_n = _with_values(output, h_n, before)
            return _compared_or_refused(sequence, output, h_n, given, before.by_hand, 20 * sequence.allowed)
    except StepError as error:
        raise NoAnswer(str(error)[:40]) from error


def write_something(dice: Dice, field: ctrnn.VectorField, others: list[Tensor]) -> None:
    """Into one of these tensors or of a field's parameters, and perhaps one of its attributes."""
    if dice.chance("an attribute", 0.5):
        _change_an_attribute(dice, field)
    tensors = [*others, *field.parameters()]
    tensor = tensors[int(dice.rng.integers(len(tensors)))]
    dice.note(f"into a tensor of shape {tuple(tensor.shape)}")
    with torch.no_grad():
        tensor.mul_(0.5).add_(0.25)


def _with_values(output: Tensor, h_n: Tensor, before: Sequence) -> tuple[Tensor, Tensor]:
    """With the numbers from before a write, which may have been into them: the gradient of a square asks for its argument."""
    output, h_n, truth = output.clone(), h_n.clone(), before.by_hand()
    output.data, h_n.data = truth["output"].detach().clone(), truth["h_n"].detach().clone()
    return output, h_n


def _compared_or_refused(
    sequence: Sequence, output: Tensor, h_n: Tensor, given: dict[str, Tensor], expected: Any, allowed: float
) -> list[Difference]:
    try:
        mine = with_gradients(output, h_n, given, sequence.field)
    except RuntimeError as error:
        assert re.search(REFUSED, str(error)), error  # noqa: PT017 - not a number that is wrong
        return [Difference("refused", 0.0, 0.0)]
    return compared(mine, expected, allowed, sequence.noise)


def _written(dice: Dice, sequence: Sequence, rnn: DiscreteRNN) -> Sequence:
    """Change something that the next call should see."""
    field = sequence.field
    parameters = list(field.parameters())
    how = dice.one_of("then", ["in place", ".data", "state_dict", "attribute", "dt", "dtype", "eval", "frozen", "moved", "step"])
    with torch.no_grad():
        if how == "in place" and parameters:
            parameters[int(dice.rng.integers(len(parameters)))].mul_(0.7)
        elif how == ".data" and parameters:
            chosen = parameters[int(dice.rng.integers(len(parameters)))]
            chosen.data = chosen.data * 0.7
        elif how == "state_dict":
            field.load_state_dict({name: tensor * 0.8 for name, tensor in field.state_dict().items()})
    if how == "attribute":
        _change_an_attribute(dice, field)
    elif how == "dt":
        rnn.dt = 0.5 * rnn.dt
        sequence = replace(sequence, dt=rnn.dt)
    elif how == "step":
        rnn.step = STEPS[dice.one_of("step", FOR_KERNELS)]
        sequence = replace(sequence, step=rnn.step)
    elif how == "dtype":
        to = torch.float32 if sequence.xs.dtype == torch.float64 else torch.float64
        rnn.to(to)
        sequence = replace(sequence, xs=sequence.xs.to(to), h0=sequence.h0.to(to))
    elif how == "eval":
        rnn.train(not rnn.training)
    elif how == "frozen" and parameters:
        chosen = parameters[int(dice.rng.integers(len(parameters)))]
        chosen.requires_grad_(not chosen.requires_grad)
    elif how == "moved":
        _replace_a_parameter(dice, field)
    return sequence


def _change_an_attribute(dice: Dice, field: ctrnn.VectorField) -> None:
    """Numbers that the code of a field reads."""
    found = [
        (part, name)
        for part in field.modules()
        for name, value in vars(part).items()
        if type(value) is float and name in ("fixed_exponent", "alpha", "gamma", "epsilon", "beta", "a", "b", "eps")
    ]
    if found:
        part, name = found[int(dice.rng.integers(len(found)))]
        dice.note(f"{type(part).__name__}.{name}")
        setattr(part, name, getattr(part, name) + 1.0)


def _replace_a_parameter(dice: Dice, field: ctrnn.VectorField) -> None:
    names = [(part, name) for part in field.modules() for name, p in part._parameters.items() if p is not None]
    if names:
        part, name = names[int(dice.rng.integers(len(names)))]
        setattr(part, name, torch.nn.Parameter(getattr(part, name).detach() * 0.9))


def sequences_in_parallel(dice: Dice) -> list[Difference]:
    """Newton's method over a whole sequence has the states and gradients of its steps."""
    sequence = Sequence.drawn(dice, own_code=0.0)  # code that reads samples in a batch only cannot be read at all times at once
    sequence = replace(sequence, substeps=1, **PLAIN)
    sequence.xs, sequence.h0 = sequence.xs[:40, :5], sequence.h0[:5]
    cell, given = DiscreteCell(sequence.field, sequence.step, sequence.dt, True), sequence.leaves()
    how = {"method": dice.one_of("method", ["newton", "newton", "quasi"]), "damping": dice.one_of("damping", [0.0, 0.0, 0.3])}
    how |= {"max_iterations": dice.one_of("most", [1, 5, 100])}
    try:
        with kernels_for_all(False):
            hs = discretize.unroll_parallel(cell, given["x"], given["h_0"], **how).hs
            mine = with_gradients(sequence.field.visible(hs[1:]), hs[-1:].clone(), given, sequence.field)
            # A state is accepted by a residual of 64 roundings, and has the errors of those before it.
            return compared(mine, sequence.by_hand, 20 * sequence.allowed, sequence.noise)
    except StepError as error:
        raise NoAnswer(str(error)) from error
