r"""Writes docs/what-goes-with-what.md from the table in `ctrnn.combinations`: `python -m experiments.reports.combinations`.

A kind of field and a way to run it have traits; a pair of the table among these is what refuses them.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ctrnn.combinations import REFUSED, Refusal, Trait, refused_pair
from ctrnn.storage.files import write_atomically
from experiments.reports.marked import fill

__all__ = ["KINDS", "PAGE", "RUNS", "TRAITS", "Kind", "RunWay", "filled", "refusal"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-goes-with-what.md"
YES = "yes"


class Kind(NamedTuple):
    """A kind of field: one of it in code, what it is in words, and its trait, if it has one."""

    code: str
    words: str
    traits: tuple[Trait, ...] = ()


class RunWay(NamedTuple):
    """A way to run a field: the call in code, what it does in words, and its traits."""

    code: str
    words: str
    traits: tuple[Trait, ...] = ()


KINDS: dict[str, Kind] = {
    "gated": Kind("ctrnn.gated(2, 3)", "each unit moves towards a target, at a rate of its own; `torch.nn.GRU` is made so"),
    "Stack": Kind("ctrnn.cells.Stack([below, above])", "several layers as one field, which move together"),
    "LSTM": Kind("ctrnn.lstm(2, 3)", "two states, of which one is seen"),
    "GLNN": Kind("ctrnn.cells.glnn(2, 3)", "connections chosen by the input; units do not forget by themselves"),
    "coRNN": Kind("ctrnn.cells.cornn(2, 3)", "coupled oscillators: positions, which are seen, and speeds"),
    "controlled": Kind("ctrnn.cells.ControlledField(f, 2, 3)", "a matrix f(h) times the input, no target and no rate"),
    "noisy": Kind("ctrnn.Noisy(field, ctrnn.Noise(0.2))", "dh = F dt + G dW, by chance; run by steps made for noise", ("noise",)),
    "delayed": Kind("ctrnn.DelayedField", "reads its own earlier states, h(t - d), as well", ("delays",)),
}
RUNS: dict[str, RunWay] = {
    "DiscreteRNN": RunWay("discretize.DiscreteRNN(field)(x, h_0)", "one step a sample, called like `torch.nn.GRU`"),
    "own ts": RunWay("discretize.DiscreteRNN(field)(x, h_0, ts=ts)", "the same, each sequence at times of its own"),
    "unroll": RunWay("discretize.unroll(cell, xs, h0)", "the same as a function, all states kept"),
    "parallel": RunWay(
        "discretize.sequences.unroll_parallel(cell, xs, h0)", "the same states for all times at once", ("parallel",)
    ),
    "ContinuousRNN": RunWay("discretize.ContinuousRNN(field)(x, h_0)", "solved between samples, to a tolerance"),
    "Adjoint": RunWay("discretize.integrate(..., gradient=Adjoint())", "gradients by the adjoint equation", ("adjoint",)),
    "Checkpointed": RunWay(
        "discretize.integrate(..., gradient=Checkpointed(bytes))", "gradients in bounded memory", ("checkpointed",)
    ),
    "events": RunWay("discretize.integrate(..., events=event)", "stops where a function of the state crosses zero", ("events",)),
    "warp": RunWay("discretize.integrate(..., speed=warp.speed)", "the input played faster and slower"),
    "backwards": RunWay("discretize.integrate(..., ts.flip(0))", "from the end to the start", ("backwards",)),
    "rk4": RunWay("discretize.integrate(..., method='rk4')", "steps of one length", ("smooth method", "fixed steps")),
    "torchdiffeq:": RunWay("discretize.integrate(..., method='torchdiffeq:dopri5')", "torchdiffeq's solver", ("torchdiffeq",)),
    "rodas5p": RunWay(
        "discretize.integrate(..., method='rodas5p')", "a solver for stiff equations", ("smooth method", "implicit")
    ),
    "Layers": RunWay("discretize.Layers([lower, upper])", "sequence modules on top of one another"),
    "ensemble": RunWay("discretize.ensemble(modules)", "many networks in one call"),
    "refine": RunWay("discretize.refine(rnn, x)", "the same weights at shorter steps, and solved"),
    "fixed_points": RunWay("discretize.analysis.fixed_points(Flow(field), starts)", "states that do not move"),
    "export": RunWay("torch.export.export(rnn, (x,))", "a graph without Python", ("export",)),
    "save": RunWay("ctrnn.save(path, rnn)", "a file that holds the model"),
    "vmap": RunWay("torch.func.vmap(rnn)(x)", "mapped over sequences by torch"),
}
# What a reader calls the traits of the table.
TRAITS: dict[Trait, str] = {
    "noise": "a field with noise",
    "no noise": "a field without noise",
    "matrix noise": "noise that units share, a matrix G",
    "noise across units": "noise of a unit that depends on other units",
    "noise of the state": "noise that depends on the state",
    "uneven parts": "noise in 3, 5, 6, 7, ... steps a sample",
    "delays": "a field with delays",
    "stepped past": "a field with delays by steps of one length",
    "past of a module": "a sequence module of a field with delays",
    "coupled samples": "a field in which samples of a batch act on one another",
    "smooth method": "a step or method made for equations without noise",
    "noise step": "a step made for noise",
    "diagonal step": "`Milstein()`",
    "additive step": "`SRA1()`",
    "rough steps": "`StepDoubling` of a step of strong order 0.5, such as `EulerMaruyama()`",
    "doubling": "`StepDoubling`",
    "fixed steps": "steps of one length: `euler`, `midpoint`, `heun2`, `heun3`, `rk4`, step maps",
    "own steps": "a method whose samples each choose their steps, such as `dopri5`",
    "implicit": "`rodas5p`",
    "long steps": "`dopri8`",
    "no tableau": "a pair without a tableau",
    "torchdiffeq": "`method='torchdiffeq:NAME'`",
    "zoneout": "`Zoneout`, where it draws",
    "derivatives": "a step that differentiates the field, such as `Taylor2()`",
    "solve": "`method=`",
    "adjoint": "`gradient=Adjoint()`",
    "checkpointed": "`gradient=Checkpointed(bytes)`",
    "keeps failed": "`on_failure='keep'`",
    "first step": "`first_step=`",
    "shortest step": "`min_step=`",
    "moving times": "times that require a gradient",
    "backwards": "times that decrease",
    "events": "`events=`",
    "parallel": "`unroll_parallel`",
    "export": "`torch.export`",
    "jumps": "`JumpRNN`, `CellJump`",
    "symbols": "`SymbolModel`",
    "analysis": "`Monitor`, `verify_engines`, `state_jacobians`, `lyapunov`, `basins`",
    "map": "`Map`",
    "torch module": "`to_torch`",
    "layer of a stack": "a layer of a `Stack`",
    "bare slope": "`Driven`, called by a solver of others",
    "live step": "`live_step`",
    "two directions": "layers that read both ways",
    "joined samples": "`path='linear'`, `path='hermite'`",
    "terminal events": "an event with `terminal=True`",
}


def refusal(kind: str, run: str) -> tuple[tuple[Trait, Trait], Refusal] | None:
    """Return which pair of the table refuses a kind of field under a run, and what it says; None where they go together."""
    pair = refused_pair(dict.fromkeys((*KINDS[kind].traits, *RUNS[run].traits), ""))
    return None if pair is None else (pair, REFUSED[pair])


def filled(page: str) -> str:
    """Put the tables between the markers of the page."""
    parts = {"table": _table(), "refused": _refused(), "fields": _listed(KINDS), "runs": _listed(RUNS), "pairs": _pairs()}
    return fill(page, "combinations", {name: f"\n{text}\n" for name, text in parts.items()})


def _numbers() -> dict[tuple[str, tuple[Trait, Trait]], int]:
    """Number the sentences, column by column: one for a kind and a pair, whatever runs have it."""
    found = dict.fromkeys((kind, refused[0]) for kind in KINDS for run in RUNS if (refused := refusal(kind, run)))
    return {sentence: number for number, sentence in enumerate(found, 1)}


def _table() -> str:
    numbers = _numbers()

    def cell(kind: str, run: str) -> str:
        return YES if (refused := refusal(kind, run)) is None else str(numbers[kind, refused[0]])

    lines = [["run", *KINDS], ["---"] * (1 + len(KINDS))]
    lines += [[f"`{run}`", *(cell(kind, run) for kind in KINDS)] for run in RUNS]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _refused() -> str:
    lines = []
    for (kind, pair), number in _numbers().items():
        runs = [run for run in RUNS if (refused := refusal(kind, run)) and refused[0] == pair]
        lines.append(f"{number}. {REFUSED[pair].words(kind, '`, `'.join(runs))}")
    return "\n".join(lines)


def _listed(named: dict[str, Kind] | dict[str, RunWay]) -> str:
    lines = ["| name | in code | what it is |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | `{one.code}` | {one.words} |" for name, one in named.items())])


def _pairs() -> str:
    parts = []
    for who, found in groupby(sorted(REFUSED.items(), key=lambda item: item[1].who), key=lambda item: item[1].who):
        rows = [f"| {TRAITS[one]} | {TRAITS[other]} | {each.why} | {each.take} |" for (one, other), each in found]
        parts.append(
            "\n".join([f"**{who.capitalize()}**", "", "| what | with what | because | take |", "|---|---|---|---|", *rows])
        )
    return "\n\n".join(parts)


if __name__ == "__main__":
    write_atomically(PAGE, filled(PAGE.read_text(encoding="utf-8")))
