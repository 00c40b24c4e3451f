"""Exact solves of random problems: against SciPy restarted at every knot, central differences, NumPy's steps, and the engine in
torch."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from fuzz.dice import NOISE, Dice, Difference, NoAnswer, compared, noisy
from fuzz.fields import random_field
from fuzz.inputs import Clock, Signal
from fuzz.sequences import REFUSED, Sequence, engine_is_honest, kernels_for_all, write_something
from problems import STEPS
from scipy.integrate import solve_ivp
from torch import Tensor

import ctrnn
import discretize
from discretize import Adjoint, Checkpointed, SolverError, StepError, integrate

__all__ = [
    "engines_of_solves",
    "fixed_steps",
    "gradients_of_solves",
    "solved_sequences",
    "solves_with_writes",
    "states_of_solves",
]

# Tolerances at which a solve takes a tenth of a second or so; low orders take a million steps at tighter ones.
TIGHTEST = {"dopri8": 1e-12, "tsit5": 1e-12, "dopri5": 1e-12, "rodas5p": 1e-11, "bosh3": 1e-6, "adaptive_heun": 1e-4}
IN_FLOAT32 = 2e-5
MOST = 20.0  # tolerances, as docs/promises.md has it
REFERENCE = {"method": "DOP853", "rtol": 5e-14, "atol": 1e-14}
LARGEST = 1e3  # states that exact solutions and steps are compared at: those of a solution that runs away are rounding
MOST_STEPS = 3000  # where all are kept for their gradient, a million take all of a machine's memory
EXACT = 1e-10  # what SciPy and a solve at 1e-12 agree to


@dataclass
class Problem:
    """dh/dt = speed(t) field(signal(c(t)), h) from h0 at ts[0]."""

    field: ctrnn.VectorField
    signal: Signal
    clock: Clock
    h0: Tensor
    ts: Tensor  # (n,), or (n, batch)

    @classmethod
    def drawn(cls, dice: Dice, smooth: bool = True, dtype: torch.dtype | None = None, own_code: float = 0.15) -> Problem:
        dtype = dice.one_of("of", [torch.float64] * 3 + [torch.float32]) if dtype is None else dtype
        features = dice.count("inputs", 1, 3)
        return cls.of(dice, random_field(dice, features, dtype, smooth, own_code), features, dtype)

    @classmethod
    def of(cls, dice: Dice, field: ctrnn.VectorField, features: int, dtype: torch.dtype, most: int = 40) -> Problem:
        """That field, on an input and a clock that are drawn; at most so many sequences."""
        own = dice.chance("own times", 0.25)
        batch = dice.one_of("batch", [1, 2, 3] if own else [n for n in (1, 2, 3, 5, 8, 17, 40) if n <= most])
        signal = Signal.drawn(dice, batch, features, dtype, own)
        clock = Clock("none", *[np.zeros(2)] * 2) if own else Clock.drawn(dice, signal.stamps)
        if clock.kind == "smooth":
            signal.stamps = signal.stamps - signal.stamps[0]
            clock.ts = clock.cs = np.array([0.0, float(signal.stamps[-1])])
        h0 = 0.7 * dice.normal(batch, field.state_size, dtype=dtype) * (not dice.chance("from 0", 0.3))
        return cls(field, signal, clock, h0, cls._times(dice, signal, clock))

    @staticmethod
    def _times(dice: Dice, signal: Signal, clock: Clock) -> Tensor:
        count = dice.count("asked for", 1, 5)
        if signal.own:
            batch = signal.stamps.shape[1]
            shares = np.sort(np.concatenate([np.zeros((1, batch)), dice.rng.random((count, batch))]), 0)
            start, end = signal.stamps[:1].numpy(), signal.stamps[-1:].numpy()
            return torch.from_numpy(start + shares * (end - start))
        ends = clock.shows(signal.stamps.numpy())
        shares = np.concatenate([[0.0], np.sort(dice.rng.random(count))])
        ts = ends[0] + shares * (ends[-1] - ends[0])
        if dice.chance("at knots", 0.5):
            ts = np.unique(np.concatenate([ts, ends]))
        backwards = bool(ends[-1] - ends[0] < 1.5) and dice.chance("backwards", 0.6)  # what forgets is driven apart
        return torch.from_numpy(np.ascontiguousarray(ts[::-1]) if backwards else ts)

    def leaves(self, all_kinds: bool = True) -> dict[str, Tensor]:
        """What gradients are taken to, weights aside; not of `all_kinds`: what `Checkpointed` and `Adjoint` reach."""
        found, sampled = {"h0": self.h0}, self.signal.kind in ("held", "linear", "hermite")
        if all_kinds or sampled:
            found |= {"x": self.signal.xs}
        if all_kinds:
            found |= {"ts": self.ts}
        if all_kinds and sampled and self.clock.kind == "none":
            found |= {"stamps": self.signal.stamps}
        if all_kinds and self.clock.kind == "straight":
            found |= {"speeds": torch.tensor(self.clock.wave, dtype=torch.float64)}
        return {name: tensor.detach().clone().requires_grad_() for name, tensor in found.items()}

    def solve(self, given: dict[str, Tensor], **settings: Any) -> discretize.Trajectory:
        xs, ts = given.get("x", self.signal.xs), given.get("ts", self.ts)
        path = self.signal.path(xs, given.get("stamps", self.signal.stamps))
        speeds = given.get("speeds", torch.tensor(self.clock.wave, dtype=torch.float64))
        path, speed = self.clock.given(path, speeds)
        inside = ts
        if not self.signal.own:  # to the last bits of the path's own ends, which is where a time at an end is meant to be
            low, high = (float(end) for end in path.interval)
            inside = ts + (ts.detach().clamp(low, high) - ts.detach())
        solved = integrate(self.field, path, given.get("h0", self.h0), inside, speed=speed, **settings)
        engine_is_honest(solved.stats)
        return solved

    def exact(self, noise: float = 0.0) -> Tensor:
        """(times, batch, state) in float64, by SciPy, one sequence at a time where they have times of their own."""
        moved = self.noisy(noise) if noise else self
        if not self.signal.own:
            return moved._exact(moved.ts.numpy())
        columns = []
        for b in range(len(self.h0)):
            one = Problem(moved.field, moved.signal.one(b), moved.clock, moved.h0[b : b + 1], moved.ts[:, b])
            columns.append(one._exact(one.ts.numpy()))
        return torch.cat(columns, 1)

    def noisy(self, noise: float) -> Problem:
        """From another start and along other samples."""
        return replace(self, signal=replace(self.signal, xs=noisy(self.signal.xs, noise)), h0=noisy(self.h0, noise, 1))

    @torch.no_grad()
    def _exact(self, ts: np.ndarray) -> Tensor:
        signal, stamps, field = self.signal.reader(), self.signal.stamps.numpy(), copy.deepcopy(self.field).double()
        knots = self.clock.shows(stamps)
        low, high = ts.min(), ts.max()
        edges = np.unique(np.concatenate([ts, self.clock.ts if self.clock.kind != "none" else [], knots]))
        edges = edges[(edges >= low) & (edges <= high)]
        edges = edges if ts[-1] >= ts[0] else edges[::-1]
        y, at = self.h0.double().numpy().ravel(), {float(ts[0]): self.h0.double().numpy()}
        for start, end in pairwise(edges):
            middle = 0.5 * (start + end)
            k = int(np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, len(stamps) - 2))
            piece = int(np.clip(np.searchsorted(self.clock.ts, middle, side="right") - 1, 0, len(self.clock.ts) - 2))

            def slope(t: float, y: np.ndarray, k: int = k, piece: int = piece) -> np.ndarray:
                t = float(t)
                x = torch.from_numpy(np.asarray(signal(k, t if self.clock.kind == "none" else self.clock.at(t))))
                speed = 1.0 if self.clock.kind == "none" else self.clock.speed_at(piece, t)
                h = torch.from_numpy(y).reshape(self.h0.shape)
                return speed * field.flow(field.project(x), h).numpy().ravel()

            if abs(end - start) > 1e-13:  # shorter ones are one number, rounded twice
                solved = solve_ivp(slope, (start, end), y, **REFERENCE)
                if not solved.success or not np.isfinite(solved.y[:, -1]).all() or np.abs(solved.y[:, -1]).max() > LARGEST:
                    raise NoAnswer("the solution runs away")
                y = solved.y[:, -1]
            at[float(end)] = y.reshape(self.h0.shape)
        return torch.from_numpy(np.stack([at[float(t)] for t in ts]))


def states_of_solves(dice: Dice) -> list[Difference]:
    """A solve has SciPy's states at the times asked for, and between them."""
    problem, method = Problem.drawn(dice), dice.one_of("method", [*TIGHTEST, "dopri8", "dopri8"])
    single = problem.h0.dtype == torch.float32
    loosest = 10.0 ** -dice.number(2, 7) if dice.chance("loose", 0.3) else 0.0
    tolerance = max(TIGHTEST[method], loosest, IN_FLOAT32 if single else 0.0)
    settings = {"method": method, "rtol": tolerance, "atol": tolerance, "fused": dice.chance("fused", 0.7)}
    if method != "bosh3" and dice.chance("bounded steps", 0.2):
        settings["max_step"] = dice.number(0.02, 0.5)
    with torch.no_grad(), kernels_for_all(dice.chance("small ones too", 0.15)):
        try:
            solved = problem.solve({}, **settings)
            dice.note(str(solved.stats["engine"]))
            mine = {"states": solved.hs}
            if between := not problem.signal.own and dice.chance("between", 0.3):
                shares = torch.from_numpy(np.sort(dice.rng.random(3)))
                low, high = problem.ts.min(), problem.ts.max()
                inside = low + shares * (high - low)
                mine["between"] = solved(inside)
        except SolverError as error:
            problem.exact()  # raises NoAnswer where there is none
            raise AssertionError(f"SciPy solves it: {error}") from error
    # 8 roundings a step of float32, in which the states are.
    allowed = max(EXACT, MOST * tolerance) + 1e-5 * single

    def reference(noise: float) -> dict[str, Tensor]:
        found = {"states": problem.exact(noise)}
        if between:
            ts = torch.cat([problem.ts[:1], inside.flip(0) if problem.ts[-1] < problem.ts[0] else inside])
            more = Problem(problem.field, problem.signal, problem.clock, problem.h0, ts).exact(noise)[1:]
            found["between"] = more.flip(0) if problem.ts[-1] < problem.ts[0] else more
        return found

    return compared(mine, reference, allowed)


def gradients_of_solves(dice: Dice) -> list[Difference]:
    """The gradient of a solve, along a direction in which everything moves, is the central difference of SciPy's solutions."""
    features = dice.count("inputs", 1, 2)
    field = random_field(dice, features, torch.float64, smooth=True, own_code=0.15)
    problem = Problem.of(dice, field, features, torch.float64, most=3)
    method = dice.one_of("method", ["dopri8", "dopri8", "tsit5", "dopri5", "rodas5p"])
    tolerance = 100 * TIGHTEST[method]
    gradients = {"none": None, "checkpointed": Checkpointed(dice.one_of("bytes", [20_000, 10_000_000]))}
    gradients |= {} if method == "rodas5p" else {"adjoint": Adjoint()}
    gradient_name = dice.one_of("gradient", list(gradients))
    gradient = gradients[gradient_name]
    given = problem.leaves(gradient is None)
    settings = {"method": method, "rtol": tolerance, "atol": tolerance, "gradient": gradient}
    with kernels_for_all(dice.chance("small ones too", 0.05 if method == "rodas5p" else 0.15)):
        try:
            solved = problem.solve(given, fused=dice.chance("fused", 0.7), **settings)
        except SolverError as error:
            problem.exact()
            raise AssertionError(f"SciPy solves it: {error}") from error
        dice.note(str(solved.stats["engine"]))
        if gradient_name != "adjoint" and _rests(solved.hs):
            raise NoAnswer("at rest no step has an error, and the steps' gradient is not that of the equation")
        weight = dice.normal(*solved.hs.shape)
        sought = given | dict(problem.field.named_parameters())
        found = torch.autograd.grad((solved.hs * weight).sum(), list(sought.values()), allow_unused=True, materialize_grads=True)
    directions = {name: torch.from_numpy(dice.rng.uniform(-1, 1, tuple(tensor.shape))) for name, tensor in sought.items()}
    for name, direction in directions.items():
        if name in ("ts", "stamps"):  # the start stays, and no interval turns round
            tensor = sought[name].detach()
            gap = tensor.diff(dim=0).abs()
            scale = torch.cat([torch.zeros_like(gap[:1]), torch.minimum(gap, torch.cat([gap[1:], gap[-1:]]))])
            directions[name] = direction * scale.clamp(max=1.0) * (gap.min() > 1e-2)
            if name == "stamps":
                directions[name][-1] = 0.0
    if _shared(problem):  # a knot and a time that are one part as they move, to either side
        directions |= {name: torch.zeros_like(directions[name]) for name in ("ts", "stamps") if name in directions}
    along = sum(float((g * directions[name]).sum()) for name, g in zip(sought, found, strict=True))

    def reference(noise: float) -> dict[str, Tensor]:
        def loss(eps: float) -> float:
            return float((_shifted(problem, directions, eps).exact(noise) * weight).sum())

        eps = 2e-4
        slopes = [(loss(e) - loss(-e)) / (2 * e) for e in (eps, 2 * eps)]
        return {"gradient": torch.tensor([(4 * slopes[0] - slopes[1]) / 3])}

    # eps^4 / 5 of the fifth derivative, and REFERENCE / eps.
    return compared({"gradient": torch.tensor([along])}, reference, 1e-6)


def _rests(hs: Tensor) -> bool:
    """Whether a sample stays where it is."""
    return bool(((hs - hs[0]).abs().amax((0, 2)) < 1e-12).any())


def _shared(problem: Problem) -> bool:
    """Whether a time asked for, but the first, is where the input or the clock has a corner."""
    corners = problem.clock.shows(problem.signal.stamps.numpy()).ravel()
    corners = np.concatenate([corners, problem.clock.ts])
    return bool((np.abs(problem.ts[1:].numpy().reshape(-1, 1) - corners) < 1e-2).any())


def _shifted(problem: Problem, directions: dict[str, Tensor], eps: float) -> Problem:
    moved = copy.deepcopy(problem)
    with torch.no_grad():
        for name, parameter in moved.field.named_parameters():
            parameter.add_(eps * directions[name])
    moved.h0 = moved.h0 + eps * directions["h0"]
    if "x" in directions:
        moved.signal.xs = moved.signal.xs + eps * directions["x"]
    if "stamps" in directions:
        moved.signal.stamps = moved.signal.stamps + eps * directions["stamps"]
    if "ts" in directions:
        moved.ts = moved.ts + eps * directions["ts"]
    if "speeds" in directions:
        moved.clock.wave = tuple((torch.tensor(moved.clock.wave) + eps * directions["speeds"]).tolist())
    return moved


def engines_of_solves(dice: Dice) -> list[Difference]:
    """A kernel takes the steps of the engine in torch: states, and gradients to everything, also of fields with corners."""
    dtype, features = dice.one_of("of", [torch.float64] * 3 + [torch.float32]), dice.count("inputs", 1, 3)
    field = random_field(dice, features, dtype, own_code=0.35)
    method = dice.one_of("method", ["dopri5", "dopri5", "tsit5", "tsit5", "dopri8", "dopri8", "rodas5p"])
    small, found = dice.chance("small ones too", 0.35), []
    for _ in range(6):  # by one kernel, mostly, which takes longer to build than all that it is for
        dice.note(";")
        with kernels_for_all(small):
            found += _compared_engines(dice, Problem.of(dice, field, features, dtype), method)
    return found


def _compared_engines(dice: Dice, problem: Problem, method: str) -> list[Difference]:
    single = problem.h0.dtype == torch.float32
    if dice.chance("steps of one length", 0.6):  # then rounding decides none
        length = dice.number(0.1, 0.6)
        settings, allowed = {"rtol": 0.9, "atol": 1e3, "max_step": length, "first_step": length}, 2e-4 if single else 1e-9
    else:
        tolerance = 1e-4 if single else 1e-8
        settings, allowed = {"rtol": tolerance, "atol": tolerance}, 1e3 * tolerance
    checkpointed = dice.chance("checkpointed", 0.2)

    def solved(problem: Problem, fused: bool) -> dict[str, Tensor]:
        given = problem.leaves(not checkpointed)
        gradient = Checkpointed(30_000) if checkpointed and fused else None
        found = problem.solve(given, method=method, fused=fused, gradient=gradient, max_num_steps=MOST_STEPS, **settings)
        if fused:
            dice.note(str(found.stats["engine"]))
        sought = given | dict(problem.field.named_parameters())
        weight = torch.linspace(-1, 1, found.hs.numel(), dtype=found.hs.dtype).reshape(found.hs.shape)
        loss = (found.hs * weight).sum()
        gradients = torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True)
        results = {"states": found.hs} | dict(zip((f"to {name}" for name in sought), gradients, strict=True))
        runs_away = bool(found.hs.abs().max() > LARGEST) or not all(tensor.isfinite().all() for tensor in results.values())
        if not fused and runs_away:
            raise NoAnswer("the solution runs away")
        return results

    def reference(noise: float) -> dict[str, Tensor]:
        return solved(problem.noisy(noise) if noise else problem, False)

    try:
        theirs = reference(0.0)
        mine = solved(problem, True)
        return compared(mine, lambda noise: reference(noise) if noise else theirs, allowed, NOISE[problem.h0.dtype])
    except (SolverError, NoAnswer):
        return []


def solves_with_writes(dice: Dice) -> list[Difference]:
    """What is written between a solve and its backward pass is refused, or changes nothing."""
    features = dice.count("inputs", 1, 3)
    field = random_field(dice, features, torch.float64, own_code=0.1)
    problem = Problem.of(dice, field, features, torch.float64, most=5)
    method = dice.one_of("method", ["dopri5", "tsit5", "dopri8", "rodas5p", "torchdiffeq:dopri5"])
    gradients = {"none": None, "adjoint": Adjoint(), "checkpointed": Checkpointed(30_000)}
    for name in {"rodas5p": ("adjoint",), "torchdiffeq:dopri5": ("checkpointed",)}.get(method, ()):
        del gradients[name]
    gradient = dice.one_of("gradient", gradients)
    settings = {"method": method, "rtol": 1e-7, "atol": 1e-7, "gradient": gradient, "max_num_steps": MOST_STEPS}
    settings["fused"] = dice.chance("fused", 0.7)

    def solved(problem: Problem, written: bool) -> dict[str, Tensor]:
        given = problem.leaves(gradient is None)
        found = problem.solve(given, **settings)
        weight = torch.linspace(-1, 1, found.hs.numel(), dtype=torch.float64).reshape(found.hs.shape)
        loss, sought = (found.hs * weight).sum(), given | dict(problem.field.named_parameters())
        if written:
            dice.note(str(found.stats["engine"]))
            write_something(dice, problem.field, [*given.values(), found.hs])
        return dict(
            zip(
                sought,
                torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True),
                strict=True,
            )
        )

    with kernels_for_all(dice.chance("small ones too", 0.1)):
        try:
            theirs = solved(copy.deepcopy(problem), False)
        except SolverError as error:
            raise NoAnswer(str(error)[:40]) from error
        try:
            mine = solved(problem, True)
        except RuntimeError as error:
            assert re.search(REFUSED, str(error)), error  # noqa: PT017 - not a number that is wrong
            return [Difference("refused", 0.0, 0.0)]
    return compared(mine, lambda noise: theirs, 1e-4)  # a step that rounding tips over its tolerance moves no more


# By stage: when it is, in shares of the step, and of which slopes; Hairer, Norsett and Wanner 1993, sec. II.1.
TABLEAUS = {
    "euler": ([0], [[]], [1]),
    "midpoint": ([0, 1 / 2], [[], [1 / 2]], [0, 1]),
    "heun2": ([0, 1], [[], [1]], [1 / 2, 1 / 2]),
    "heun3": ([0, 1 / 3, 2 / 3], [[], [1 / 3], [0, 2 / 3]], [1 / 4, 0, 3 / 4]),
    "rk4": ([0, 1 / 3, 2 / 3, 1], [[], [1 / 3], [-1 / 3, 1], [1, -1, 1]], [1 / 8, 3 / 8, 3 / 8, 1 / 8]),
}


def fixed_steps(dice: Dice) -> list[Difference]:
    """Methods of fixed steps, and step maps as methods, take equal steps between knots and times asked for, by their formulas."""
    problem = Problem.drawn(dice, smooth=False, own_code=0.1)
    longest = None if dice.chance("one step a piece", 0.3) else dice.number(0.05, 0.6)
    if dice.chance("step map", 0.5):
        name = dice.one_of("map", list(STEPS))
        method: Any = STEPS[name]
    else:
        method = dice.one_of("method", list(TABLEAUS))
    try:
        with torch.no_grad(), kernels_for_all(False):
            solved = problem.solve({}, method=method, max_step=longest)

            def reference(noise: float) -> dict[str, Tensor]:
                return {"states": _stepped(problem.noisy(noise) if noise else problem, method, longest)}

            allowed = 1e-4 if problem.h0.dtype == torch.float32 else 1e-10
            return compared({"states": solved.hs}, reference, allowed, NOISE[problem.h0.dtype])
    except (StepError, SolverError) as error:
        raise NoAnswer(str(error)[:40]) from error


def _stepped(problem: Problem, method: Any, longest: float | None) -> Tensor:
    if problem.signal.own:
        columns = []
        for b in range(len(problem.h0)):
            one = Problem(problem.field, problem.signal.one(b), problem.clock, problem.h0[b : b + 1], problem.ts[:, b])
            columns.append(_stepped(one, method, longest))
        return torch.cat(columns, 1)
    ts, clock, field, stamps = problem.ts.numpy(), problem.clock, problem.field, problem.signal.stamps.numpy()
    signal, dtype = problem.signal.reader(), problem.h0.dtype
    knots = clock.shows(stamps[[0, -1]] if problem.signal.kind == "function" else stamps)  # a function has none within
    corners = [] if clock.kind == "none" else clock.ts
    if clock.kind == "smooth":  # its own knots: half a period of the fastest of two harmonics
        corners = np.linspace(0, clock.ts[-1], 5)
    edges = np.unique(np.concatenate([ts, corners, knots]))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-12])]
    edges = edges[(edges >= ts.min()) & (edges <= ts.max())]
    edges = edges if ts[-1] >= ts[0] else edges[::-1]
    h, at = problem.h0, {float(ts[0]): problem.h0}
    for start, end in pairwise(edges):
        middle = 0.5 * (start + end)
        k = int(np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, len(knots) - 2))
        piece = int(np.clip(np.searchsorted(clock.ts, middle, side="right") - 1, 0, len(clock.ts) - 2))
        count = 1 if longest is None else max(1, int(np.ceil(abs(end - start) / longest * (1 - 1e-12))))
        dt = (end - start) / count

        def read(t: float, k: int = k, piece: int = piece) -> tuple[Tensor, float]:
            plain = clock.kind == "none"
            x = torch.from_numpy(np.asarray(signal(k, t if plain else clock.at(t)))).to(dtype)
            return x.expand(len(problem.h0), -1), 1.0 if plain else clock.speed_at(piece, t)

        for i in range(count):
            t = start + i * dt
            if isinstance(method, str):
                cs, rows, weights = TABLEAUS[method]
                slopes: list[Tensor] = []
                for c, row in zip(cs, rows, strict=True):
                    x, speed = read(t + c * dt)
                    inner = h + sum((dt * a * slope for a, slope in zip(row, slopes, strict=True)), torch.zeros_like(h))
                    slopes.append(speed * field.flow(field.project(x), inner))
                h = h + sum(dt * b * slope for b, slope in zip(weights, slopes, strict=True))
            else:
                x, speed = read(t)
                if dt < 0:
                    raise NoAnswer("a step map back in time")
                h = method.advance(field, field.project(x), h, dt * speed)
        at[float(end)] = h
    near = np.array(list(at))
    return torch.stack([at[float(near[np.abs(near - t).argmin()])] for t in ts])


def solved_sequences(dice: Dice) -> list[Difference]:
    """A `ContinuousRNN`, with times, lengths and resets, has SciPy's states of each piece by itself."""
    sequence = Sequence.drawn(dice, own_code=0.0)
    keep, few = min(len(sequence.xs), 5), min(sequence.xs.shape[1], 3)
    return _solved_sequence(dice, sequence, keep, few)


def _solved_sequence(dice: Dice, sequence: Sequence, keep: int, few: int) -> list[Difference]:
    time = len(sequence.xs)
    sequence.xs, sequence.dt = sequence.xs[:keep, :few].double(), 1.0
    sequence.field = random_field(dice, sequence.xs.shape[-1], torch.float64, smooth=True, own_code=0.1)
    sequence.h0 = 0.5 * dice.normal(few, sequence.field.state_size)
    if sequence.ts is not None:
        sequence.ts = sequence.ts[: keep + len(sequence.ts) - time]
        sequence.ts = sequence.ts[:, :few] if sequence.ts.dim() > 1 else sequence.ts
    sequence.lengths = None if sequence.lengths is None else sequence.lengths[:few].clamp(max=keep)
    sequence.reset = None if sequence.reset is None else sequence.reset[:keep, :few]
    rnn = discretize.ContinuousRNN(
        sequence.field, dice.one_of("method", ["dopri8", "tsit5", "dopri5"]), 1e-12, 1e-12, batch_first=sequence.batch_first,
        fused=dice.chance("fused", 0.7), **sequence.hold,
    )  # fmt: skip
    given = {"x": sequence.xs, "h_0": sequence.h0} | ({} if sequence.ts is None else {"ts": sequence.ts})
    with torch.no_grad(), kernels_for_all(dice.chance("small ones too", 0.1)):
        output, h_n = sequence.call(rnn, given, packed=dice.chance("packed", 0.3))
    durations = sequence.durations(sequence.ts).numpy()
    lengths = [keep] * few if sequence.lengths is None else sequence.lengths.tolist()

    @torch.no_grad()
    def reference(noise: float) -> dict[str, Tensor]:
        outputs, lasts = torch.zeros_like(output), []
        for b in range(few):
            h = sequence.h0[b].numpy() + noise
            for k in range(lengths[b]):
                if sequence.reset is not None and sequence.reset[k, b]:
                    h = 0 * h
                projected = sequence.field.project(sequence.xs[k, b : b + 1])

                def slope(t: float, y: np.ndarray, projected: Tensor = projected) -> np.ndarray:
                    return sequence.field.flow(projected, torch.from_numpy(y)[None]).numpy().ravel()

                h = solve_ivp(slope, (0.0, float(durations[k, b])), h, **REFERENCE).y[:, -1]
                outputs[k, b] = sequence.field.visible(torch.from_numpy(h))
            lasts.append(torch.from_numpy(h))
        return {"output": outputs, "h_n": torch.stack(lasts)[None]}

    return compared({"output": output, "h_n": h_n}, reference, EXACT)
