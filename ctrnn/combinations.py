r"""Says what goes with what: each pair of things that one run cannot have both, who refuses it, why, and what to take instead.

    `Noisy` does not go with `method='rk4'`: mathematics refuses it, for ...; take ...

A run has traits: of its field (noise, delays), of its method (fixed steps, steps for noise), of how it is called (times that go
back, events). Where two of them are a pair of this table it is refused, in these words. A pair that is made to work is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal, NamedTuple, NoReturn

__all__ = ["REFUSED", "Refusal", "Trait", "Who", "check_pairs", "refuse", "refused_pair"]

Who = Literal["mathematics", "torch", "torchdiffeq", "this version"]
Trait = Literal[
    # of a field
    "noise", "no noise", "matrix noise", "noise across units", "noise of the state", "uneven parts", "delays",
    "stepped past", "past of a module", "coupled samples",
    # of a method, and of a step
    "smooth method", "noise step", "diagonal step", "additive step", "fixed steps", "own steps", "implicit", "torchdiffeq",
    "no tableau", "long steps", "rough steps", "doubling", "zoneout", "derivatives",
    # of how a solve is set up
    "adjoint", "checkpointed", "keeps failed", "first step", "shortest step", "moving times", "backwards", "events", "solve",
    # of what runs the field, or looks at it
    "parallel", "export", "jumps", "symbols", "analysis", "map", "torch module",
    "layer of a stack", "bare slope",
    "live step", "two directions", "joined samples", "terminal events",
]  # fmt: skip


class Refusal(NamedTuple):
    """Who refuses a pair, why (after "for"), and what to take instead (after "take")."""

    who: Who
    why: str
    take: str
    error: type[Exception] = ValueError

    def words(self, one: str, other: str) -> str:
        return f"`{one}` does not go with `{other}`: {self.who} refuses it, for {self.why}; take {self.take}."


A_STEP_FOR_NOISE = (
    "a step for noise, `discretize.EulerMaruyama()`, `StratonovichHeun()`, `Milstein()`, `SRA1()` or "
    "`ExponentialEulerMaruyama()`, or the field without its noise, `.field`"
)
WITHOUT_NOISE = "the field without its noise, `.field`"
PLAIN_GRADIENT = "`gradient=None`, the gradient of the steps that were taken"
DELAY_METHODS = "adaptive_heun, bosh3, dopri5, tsit5, rodas5p, or steps of one length"

NOISE_AND_ADJOINT = Refusal(
    "this version",
    "its adjoint is that of equations without noise",
    f"{PLAIN_GRADIENT}, or `gradient=Checkpointed(bytes)`, the same in bounded memory",
)

# The first trait is of the field or the call, the second of the method or of what runs it. Of several pairs that one run has, the
# one whose traits are named first is said.
REFUSED: dict[tuple[Trait, Trait], Refusal] = {
    # Noise: what it needs of a step
    ("noise", "smooth method"): Refusal(
        "mathematics",
        "its steps follow a slope, and a path with noise has none",
        A_STEP_FOR_NOISE,
    ),
    ("noise", "torchdiffeq"): Refusal("torchdiffeq", "it solves equations without noise", A_STEP_FOR_NOISE),
    ("no noise", "noise step"): Refusal(
        "mathematics",
        "there is no noise to draw",
        "a step without noise, such as `discretize.Euler()`, or `ctrnn.Noisy(field, ctrnn.Noise(0.1))`",
    ),
    ("matrix noise", "diagonal step"): Refusal(
        "mathematics", "its formula is of one Brownian motion for each unit, and G is a matrix here", "`StratonovichHeun()`"
    ),
    ("noise across units", "diagonal step"): Refusal(
        "mathematics",
        "its formula is of noise that depends on the own unit, and G depends on others",
        "`StratonovichHeun()`",
    ),
    ("noise of the state", "additive step"): Refusal(
        "mathematics", "its formula is of noise that does not depend on the state, and G depends on h", "`StratonovichHeun()`"
    ),
    ("noise of the state", "rough steps"): Refusal(
        "mathematics",
        "with a step of strong order 0.5, steps that are chosen by their noise come to another equation where G depends on h",
        "`Milstein()` or `StratonovichHeun()` in it, or steps of one length",
    ),
    # Noise: what it does not go with
    ("noise", "backwards"): Refusal(
        "mathematics", "where a random path came from is no function of where it is", "`ts` that increase"
    ),
    ("noise", "events"): Refusal(
        "this version",
        "events are found on smooth solutions, and between two steps a path with noise may cross often",
        "many `ts`, and look for the crossing between their states",
    ),
    ("noise", "adjoint"): NOISE_AND_ADJOINT,
    ("noise step", "adjoint"): NOISE_AND_ADJOINT,
    ("doubling", "moving times"): Refusal(
        "this version", "steps that are chosen along a path have no gradients to times", "steps of one length, or `ts.detach()`"
    ),
    ("noise", "delays"): Refusal(
        "this version",
        "equations that read their past are solved without noise",
        "`ctrnn.Noisy(ctrnn.cells.DelayLine(field, dt), noise)`, whose Euler and Maruyama steps of that dt have both",
    ),
    ("uneven parts", "export"): Refusal(
        "this version",
        "a graph draws the noise of 1, 2, 4, 8, ... equal parts of a sample",
        "as many `substeps`, or steps so long",
    ),
    ("noise", "analysis"): Refusal("this version", "it looks at steps without noise", WITHOUT_NOISE),
    ("noise", "map"): Refusal(
        "mathematics", "a point of rest is one of states, and noise leaves none where it is", WITHOUT_NOISE
    ),
    ("noise", "jumps"): Refusal("this version", "between observations it moves without noise", WITHOUT_NOISE),
    ("noise", "symbols"): Refusal("this version", "its metrics are of networks without noise", WITHOUT_NOISE),
    ("noise", "torch module"): Refusal("torch", "torch's cells have no noise", WITHOUT_NOISE),
    ("noise", "bare slope"): Refusal("mathematics", "a solver that asks for dh/dt alone leaves the noise out", A_STEP_FOR_NOISE),
    ("noise", "layer of a stack"): Refusal(
        "this version", "a layer does not hand its noise on", "noise around the whole, `ctrnn.Noisy(stack, noise)`"
    ),
    # Delays
    ("delays", "backwards"): Refusal(
        "mathematics", "the state before the start is given, and that after the end would have to be", "`ts` that increase"
    ),
    ("delays", "torchdiffeq"): Refusal("torchdiffeq", "it hands no steps on that the past could be read from", DELAY_METHODS),
    ("delays", "long steps"): Refusal(
        "mathematics", "its steps are longer than the polynomials between them, of degree 5, are good for", DELAY_METHODS
    ),
    ("stepped past", "events"): Refusal(
        "this version", "between steps of one length that read the past events are not looked for", "dopri5"
    ),
    ("delays", "adjoint"): Refusal("this version", "its adjoint is that of equations without a past", PLAIN_GRADIENT),
    ("delays", "checkpointed"): Refusal("this version", "the past is kept whole while gradients are wanted", PLAIN_GRADIENT),
    ("delays", "keeps failed"): Refusal("this version", "all samples go from block to block together", "`on_failure='raise'`"),
    ("delays", "moving times"): Refusal("this version", "blocks have no gradients to `ts`", "`ts.detach()`"),
    # Streams
    ("delays", "live step"): Refusal(
        "this version",
        "a step is given one state, and this field reads earlier ones",
        "chunks, `ContinuousRNN.trajectory(x, h_0, ts, history=...)` or `integrate(..., history=...)` from the trajectory before",
    ),
    ("two directions", "live step"): Refusal(
        "mathematics", "one of them begins at the end of a sequence, which has not come", "layers of one direction"
    ),
    ("joined samples", "live step"): Refusal(
        "mathematics",
        "its path leads from a sample to the next one, which has not come",
        "path='held', or a call with the two samples and their stamps",
    ),
    ("terminal events", "live step"): Refusal(
        "this version",
        "a step does not know that the sequence has ended in one before",
        "events that are not terminal, and end the loop when `rnn.crossed` has one",
    ),
    # Gradients
    ("adjoint", "fixed steps"): Refusal(
        "mathematics",
        "the adjoint of the differential equation is not that of steps that are not its solution: the gradient would be wrong",
        f"{PLAIN_GRADIENT}, or a method that chooses its steps, such as dopri5",
    ),
    ("adjoint", "implicit"): Refusal(
        "mathematics",
        "each step is run backwards, and over its long steps what forgets fast would explode",
        f"{PLAIN_GRADIENT}, or `gradient=Checkpointed(bytes)`, the same in bounded memory",
    ),
    ("adjoint", "no tableau"): Refusal(
        "this version",
        "it adds up the stages of an explicit tableau, and this method has none",
        f"{PLAIN_GRADIENT}, or `gradient=Checkpointed(bytes)`, the same in bounded memory",
    ),
    # Events
    ("events", "torchdiffeq"): Refusal(
        "torchdiffeq",
        "it steps all samples at once, and events are found sample by sample",
        "method='dopri5', or for one event of the whole batch torchdiffeq's own `odeint_event`, whose function may be "
        "`ctrnn.Driven(field, path)`",
    ),
    ("past of a module", "events"): Refusal(
        "this version", "a sequence module solves delays without events", "`discretize.integrate`, which finds them"
    ),
    ("events", "export"): Refusal("torch", "they are found by the values of the states, which torch.export has not", "no events"),
    ("events", "adjoint"): Refusal("this version", "times of events have the gradients of the steps alone", PLAIN_GRADIENT),
    ("events", "checkpointed"): Refusal("this version", "times of events have the gradients of the steps alone", PLAIN_GRADIENT),
    ("events", "keeps failed"): Refusal("this version", "each event restarts its sample", "`on_failure='raise'`"),
    # Samples, steps and failures
    ("coupled samples", "own steps"): Refusal(
        "mathematics",
        "each sample steps on its own there, and dh/dt of this one changes with the other samples of the batch, as by a mean "
        "over all of them, or by BatchNorm in training",
        "one sample for all that belong together, their units side by side in one state; else reduce along the last axis only, "
        "and call `eval()` for BatchNorm",
    ),
    ("keeps failed", "fixed steps"): Refusal(
        "mathematics",
        "all samples take the same steps, and one that fails ends them",
        "a method that chooses its steps",
    ),
    ("keeps failed", "torchdiffeq"): Refusal(
        "torchdiffeq", "it steps all samples together, and one that fails ends them", "method='dopri5', or 'raise'"
    ),
    ("keeps failed", "noise step"): Refusal("this version", "steps for noise end where one sample fails", "'raise'"),
    ("keeps failed", "adjoint"): Refusal("this version", "the adjoint runs all samples back from the end", PLAIN_GRADIENT),
    ("first step", "fixed steps"): Refusal("mathematics", "all of its steps are of one length", "`max_step`"),
    ("shortest step", "fixed steps"): Refusal("mathematics", "all of its steps are of one length", "`max_step`"),
    # Steps
    ("zoneout", "solve"): Refusal(
        "mathematics",
        "it keeps units at each step of a discrete cell, which solves nothing",
        "`discretize.DiscreteRNN`",
        TypeError,
    ),
    ("zoneout", "parallel"): Refusal(
        "mathematics", "it draws at each evaluation, and Newton's method needs many of one step", "`discretize.unroll`"
    ),
    ("derivatives", "export"): Refusal(
        "torch",
        "torch.export cannot differentiate the field",
        "a step that only evaluates it, such as `discretize.Heun()`",
        TypeError,
    ),
    ("own steps", "export"): Refusal(
        "torch",
        "it looks at the values of the states, which torch.export has not",
        "steps of fixed length, method='rk4' or a step map, with `max_step`",
        TypeError,
    ),
    ("torchdiffeq", "export"): Refusal(
        "torch",
        "it looks at the values of the states, which torch.export has not",
        "steps of fixed length, method='rk4' or a step map, with `max_step`",
        TypeError,
    ),
}


def refused_pair(traits: Mapping[Trait, str]) -> tuple[Trait, Trait] | None:
    """Return the first pair of these traits that do not go together."""
    for one, other in combinations(traits, 2):
        for pair in ((one, other), (other, one)):
            if pair in REFUSED:
                return pair
    return None


def check_pairs(traits: Mapping[Trait, str]) -> None:
    """Refuse traits of one run that do not go together,  by the names the user gave. Raises: the error of the pair."""
    if pair := refused_pair(traits):
        refuse(*pair, traits[pair[0]], traits[pair[1]])


def refuse(one: Trait, other: Trait, name: str, other_name: str) -> NoReturn:
    """Refuse a pair of the table, by the names that the user gave. Raises: the error of the pair."""
    refusal = REFUSED[one, other]
    raise refusal.error(refusal.words(name, other_name))
