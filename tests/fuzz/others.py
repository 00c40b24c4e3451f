"""Sequences in half precision, in graphs of torch, as ensembles and layers, and by kernels for GPUs under Triton's interpreter,
against the loop over steps."""

from __future__ import annotations

import copy
import os
import warnings
from dataclasses import replace
from typing import Any

import torch
from fuzz.dice import NOISE, Dice, Difference, NoAnswer, compared, noisy
from fuzz.fields import random_field
from fuzz.sequences import FOR_KERNELS, PLAIN, ROUNDING, Sequence, by_steps, kernels_for_all, with_gradients
from problems import STEPS
from torch import Tensor

import ctrnn
import discretize
from discretize import DiscreteRNN, StepError

__all__ = ["ensembles", "half_precision", "layers", "programs_of_torch", "triton_kernels"]

HALF = {torch.bfloat16: 0.1, torch.float16: 0.02}  # some ten roundings, of 2^-8 and 2^-11, in each of some ten steps


def half_precision(dice: Dice) -> list[Difference]:
    """In bfloat16 and float16, or under autocast, states and gradients are those of float32 to the rounding of half precision."""
    sequence = replace(Sequence.drawn(dice, FOR_KERNELS, own_code=0.0), **PLAIN)
    dtype = dice.one_of("half", list(HALF))
    sequence.xs, sequence.h0, sequence.substeps = sequence.xs[:8, :5].to(dtype), sequence.h0[:5].to(dtype), 1
    sequence.field.to(dtype)
    whole = replace(sequence, field=copy.deepcopy(sequence.field).float(), xs=sequence.xs.float(), h0=sequence.h0.float())
    with kernels_for_all(False):
        if dice.chance("autocast", 0.4):
            with torch.autocast("cpu", dtype=dtype):
                mine = replace(sequence, field=whole.field).called()
        else:
            mine = sequence.called()
    return compared({name: tensor.float() for name, tensor in mine.items()}, whole.by_hand, HALF[dtype], 1e-2)


def programs_of_torch(dice: Dice) -> list[Difference]:
    """What torch.compile and torch.export make of a sequence module gives what the module does, at other sizes too."""
    steps = [name for name in FOR_KERNELS if name not in ("Zoneout",)]
    sequence = replace(Sequence.drawn(dice, steps, own_code=0.2), **PLAIN)
    sequence = replace(sequence, xs=sequence.xs[:13, :5], h0=sequence.h0[:5])
    how = dice.one_of("by", ["export", "compile"])
    if len(sequence.xs) < 2 or len(sequence.h0) < 2:
        raise NoAnswer("sizes 0 and 1 are specialized")
    rnn, given = sequence.rnn(), sequence.leaves()
    with kernels_for_all(dice.chance("short ones too", 0.3)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        if how == "export":
            with torch.no_grad():
                sizes = {0: torch.export.Dim("time", min=2), 1: torch.export.Dim("batch", min=2)}
                dims = (sizes, {0: sizes[1]})
                program = torch.export.export(rnn, (given["x"].detach(), given["h_0"].detach()), dynamic_shapes=dims).module()
            longer = torch.cat([sequence.xs, sequence.xs[:3]]).repeat(1, 2, 1)
            sequence = replace(sequence, xs=longer, h0=sequence.h0.repeat(2, 1))
            given = sequence.leaves()
            output, h_n = program(given["x"], given["h_0"])
            mine = {"output": output, "h_n": h_n}
            return compared(mine, lambda noise: _only(sequence.by_hand(noise), mine), sequence.allowed, sequence.noise)
        torch._dynamo.reset()
        output, h_n = torch.compile(rnn, backend="aot_eager", dynamic=dice.chance("dynamic", 0.5))(given["x"], given["h_0"][None])
        return compared(with_gradients(output, h_n, given, rnn.field), sequence.by_hand, sequence.allowed, sequence.noise)


def _only(results: dict[str, Tensor], like: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: results[name] for name in like}


def ensembles(dice: Dice) -> list[Difference]:
    """An ensemble of networks gives what each of them gives by itself, and to each its gradients."""
    sequence = replace(Sequence.drawn(dice, FOR_KERNELS, own_code=0.1), **PLAIN)
    sequence = replace(sequence, xs=sequence.xs[:40, :8], h0=sequence.h0[:8])
    networks = []
    for _ in range(dice.count("networks", 1, 4)):
        network = sequence.rnn()
        network.field = copy.deepcopy(sequence.field)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(dice.number(0.7, 1.1))
        networks.append(network)
    own = dice.chance("samples of their own", 0.5)
    factors = torch.tensor([dice.number(0.5, 1.5) for _ in networks]).to(sequence.xs)
    xs = sequence.xs * factors[:, None, None, None] if own else sequence.xs
    given = {"x": xs.detach().clone().requires_grad_(), "h_0": sequence.h0.detach().clone().requires_grad_()}
    together = discretize.ensemble(networks)
    with kernels_for_all(dice.chance("short ones too", 0.3)):
        output, h_n = together(given["x"], given["h_0"], each="x" if own else ())
        weight = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output)
        sought = given | dict(together.stacked.named_parameters())
        loss = (output * weight).sum() + h_n.square().sum()
        gradients = torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True)
    mine = {"output": output, "h_n": h_n} | dict(zip(sought, gradients, strict=True))

    def reference(noise: float) -> dict[str, Tensor]:
        alone = {name: noisy(tensor, noise).requires_grad_() for name, tensor in given.items()}
        fields = [copy.deepcopy(network.field) for network in networks]
        durations = torch.full(sequence.xs.shape[:2], sequence.dt).to(sequence.xs)
        states = torch.stack(
            [
                by_steps(field, sequence.step, alone["x"][k] if own else alone["x"], alone["h_0"], durations, sequence.ends,
                         sequence.substeps)
                for k, field in enumerate(fields)
            ]
        )  # fmt: skip
        output, h_n = torch.stack([field.visible(each) for field, each in zip(fields, states, strict=True)]), states[:, -1:]
        loss = (output * weight).sum() + h_n.square().sum()
        names = [name for name, _ in networks[0].named_parameters()]
        weights = [[dict(field.named_parameters())[name.removeprefix("field.")] for field in fields] for name in names]
        flat = [*alone.values(), *(each for group in weights for each in group)]
        found = torch.autograd.grad(loss, flat, allow_unused=True, materialize_grads=True)
        of_weights = iter(found[len(alone) :])
        stacked = {name: torch.stack([next(of_weights) for _ in fields]) for name in names}
        results = {"output": output, "h_n": h_n} | dict(zip(alone, found, strict=False)) | stacked
        if not all(tensor.isfinite().all() for tensor in results.values()):
            raise NoAnswer("the states run away")
        return results

    return compared(mine, reference, sequence.allowed, sequence.noise)


def layers(dice: Dice) -> list[Difference]:
    """Layers in one direction or both, with lengths and times, read each other as torch.nn's do."""
    sequence = Sequence.drawn(dice, FOR_KERNELS, own_code=0.0)
    sequence = replace(sequence, xs=sequence.xs[:40, :8], h0=sequence.h0[:8], hold={}, batch_first=False, substeps=1, reset=None)
    time, batch, inputs = sequence.xs.shape
    sequence.lengths = None if sequence.lengths is None else sequence.lengths[:8].clamp(max=time)
    if sequence.ts is not None:
        sequence.ts = dice.times(time + 1, *([batch] if dice.chance("own", 0.5) else []), mean=0.2)
    both = dice.chance("both directions", 0.6)
    modules, read = [], inputs
    hidden = dice.count("units of each", 1, 4)
    for _ in range(dice.count("layers", 1, 3)):
        pair = []
        for _ in range(1 + both):
            field = _like(dice, read, modules[0] if modules else pair, hidden, sequence.xs.dtype)
            step = STEPS[dice.one_of("step", FOR_KERNELS)]
            pair.append(DiscreteRNN(field, step, sequence.dt, allow_overshoot=True))
        modules.append(pair if both else pair[0])
        read = hidden * (1 + both)
    stack = discretize.Layers(modules)
    given = {"x": sequence.xs.detach().clone().requires_grad_()}
    lengths = sequence.ends
    beyond = (torch.arange(time)[:, None] >= lengths)[..., None]
    with kernels_for_all(dice.chance("short ones too", 0.2)):
        x = given["x"] if sequence.lengths is None else given["x"].masked_fill(beyond, float("nan"))
        output, h_n = stack(x, None, sequence.ts, sequence.lengths)
        mine = with_gradients(output, h_n, given, stack)

    def reference(noise: float) -> dict[str, Tensor]:
        alone = {"x": noisy(sequence.xs, noise).requires_grad_()}
        durations, x, lasts = sequence.durations(sequence.ts).to(sequence.xs), alone["x"].masked_fill(beyond, 0.0), []
        copied = copy.deepcopy(modules)
        # Sample k of a sequence of n is the k-th from its own end.
        turned = torch.where(beyond[..., 0], torch.arange(time)[:, None], lengths - 1 - torch.arange(time)[:, None])
        for layer in copied:
            outputs = []
            for direction, rnn in enumerate(layer if both else [layer]):
                reads = x.gather(0, turned[..., None].expand_as(x)) if direction else x
                lasting = durations.gather(0, turned) if direction else durations
                start = x.new_zeros(batch, rnn.field.state_size)
                states = by_steps(rnn.field, rnn.step, reads, start, lasting, lengths)
                lasts.append(states[-1])
                states = states.gather(0, turned[..., None].expand_as(states)) if direction else states
                outputs.append(rnn.field.visible(states))
            x = torch.cat(outputs, -1).masked_fill(beyond, 0.0)
        again = discretize.Layers(copied)
        return with_gradients(x, torch.stack(lasts), alone, again)

    return compared(mine, reference, 3 * ROUNDING[sequence.xs.dtype], NOISE[sequence.xs.dtype])


def _like(dice: Dice, inputs: int, others: Any, hidden: int, dtype: torch.dtype) -> ctrnn.VectorField:
    """A field with as many units as all layers have, and as large a state as those before it."""
    first = others[0] if isinstance(others, list) and others else others
    for _ in range(200):
        before = len(dice.notes)
        field = random_field(dice, inputs, dtype, own_code=0.0)
        if field.hidden_size == hidden and (not first or field.state_size == first.field.state_size):
            return field
        del dice.notes[before:]
    raise NoAnswer("no field of that width")


def triton_kernels(dice: Dice) -> list[Difference]:
    """A kernel for GPUs, under Triton's interpreter, gives what the loop over the steps does."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise NoAnswer("triton's interpreter is asked for by TRITON_INTERPRET=1 before Python starts")
    sequence = Sequence.drawn(dice, FOR_KERNELS, own_code=0.3)
    sequence = sequence.again(dice)
    try:
        with kernels_for_all(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of numpy, at numbers that `where` leaves out
            rnn, given = sequence.rnn(), sequence.leaves()
            output, h_n = sequence.call(rnn, given)
            dice.note(str(rnn.stats["engine"]))
            mine = with_gradients(output, h_n, given, rnn.field)
        return compared(mine, sequence.by_hand, 10 * sequence.allowed, sequence.noise)  # tanh and powers by other formulas
    except StepError as error:
        raise NoAnswer(str(error)) from error
