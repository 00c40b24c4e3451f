"""The settings of a solve, its method and tolerances, are checked once for `integrate` and the modules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.combinations import Trait, check_pairs, refuse
from ctrnn.fields.noise import check_no_noise
from discretize.errors import SolverWarning, warn_user
from discretize.kernels.eligibility import Fused, is_fused
from discretize.methods import checked_method, unknown
from discretize.noise.brownian import BrownianPath
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.adjoint import Adjoint
from discretize.solvers.by_torchdiffeq import PREFIX, TorchdiffeqEngine, chooses_steps, options_of, read_by, torchdiffeq_methods
from discretize.solvers.checkpointing import Checkpointed
from discretize.solvers.continuation import INTERPOLATED
from discretize.solvers.control import ERROR_MARGIN, StepControl
from discretize.solvers.doubling import DyadicControl, PathDoubling, StepDoubling
from discretize.solvers.engine import Engine, OnAttempt
from discretize.solvers.fixed import FIXED_METHODS, GridEngine, StepEngine, num_steps
from discretize.solvers.stochastic import StochasticEngine
from discretize.solvers.tableaus import EmbeddedMethod
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep
from discretize.steps.zoneout import Zoneout

__all__ = ["MAX_NUM_STEPS", "Gradient", "Method", "Settings"]

Method = str | Step
Gradient = Checkpointed | Adjoint | None  # None: that of the steps taken, all of them kept

RTOL, ATOL = 1e-5, 1e-7
MAX_NUM_STEPS = 100_000  # of a sample in one segment

ELSEWHERE = {
    "fehlberg2": "its errors here are 50 to 150 times the tolerance",
    "scipy_solver": "it leaves autograd and the device",
    **dict.fromkeys(("explicit_adams", "implicit_adams", "fixed_adams"), "its history of past steps ends at every knot"),
}


@dataclass(frozen=True)
class Settings:
    r"""A method and how it is used, as plain numbers; see `integrate`.

    Args:    on_attempt, on_backward_attempt: see `Engine`.
    Raises:  TypeError, ValueError for what no solve could use, in the user's words.
    """

    method: Method = "dopri5"
    rtol: float = RTOL
    atol: float | Tensor = ATOL
    max_step: float | None = None
    gradient: Gradient = None
    max_num_steps: int = MAX_NUM_STEPS
    min_step: float = 0.0
    first_step: float | None = None
    progress: bool = False
    fused: Fused = True
    on_failure: str = "raise"
    on_attempt: OnAttempt | None = None
    on_backward_attempt: OnAttempt | None = None
    # What follows from the method: each call asks for it many times.
    of_torchdiffeq: str | None = field(init=False, repr=False, compare=False)  # the name of a method of torchdiffeq
    step: Step | None = field(init=False, repr=False, compare=False)  # that the method is; None for one of torchdiffeq
    noisy: bool = field(init=False, repr=False, compare=False)  # whether it is for fields with noise
    pair: EmbeddedMethod | None = field(init=False, repr=False, compare=False)  # the step, if each sample chooses its length
    fixed: Step | None = field(init=False, repr=False, compare=False)  # the step map of steps of fixed length
    adaptive: bool = field(init=False, repr=False, compare=False)  # whether it chooses its steps by the tolerances
    steps_alone: bool = field(init=False, repr=False, compare=False)  # whether it does so for each sample

    def __post_init__(self) -> None:
        _check_method(self.method)
        for name, check in (
            ("rtol", checks.non_negative_number),
            ("atol", _tolerance),
            ("min_step", checks.non_negative_number),
            ("max_num_steps", checks.positive_size),
            ("progress", checks.is_flag),
            ("fused", is_fused),
        ):
            object.__setattr__(self, name, check(name, getattr(self, name)))
        for name in ("max_step", "first_step"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.positive_number(name, value))
        self._read_method()
        self._check_gradient()
        self._check_failures()
        check_pairs(self.traits)
        self._check_steps()

    def _read_method(self) -> None:
        named = isinstance(self.method, str) and self.method.startswith(PREFIX)
        other = str(self.method).removeprefix(PREFIX) if named else None
        step = None if named else checked_method(self.method)
        noisy = isinstance(step.step if isinstance(step, StepDoubling) else step, StochasticStep)
        pair = step if isinstance(step, EmbeddedMethod) and not noisy else None
        read = {
            "of_torchdiffeq": other,
            "step": step,
            "noisy": noisy,
            "pair": pair,
            "fixed": None if isinstance(step, EmbeddedMethod) else step,
            "adaptive": isinstance(step, EmbeddedMethod) or (other is not None and chooses_steps(other)),
            "steps_alone": pair is not None,
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)

    def say_unread(
        self, rtol: float = RTOL, atol: float = ATOL, max_num_steps: int = MAX_NUM_STEPS, changes: str = "nothing"
    ) -> None:
        """Warn of settings that were given, not these, and that the method does not read; changes: what they change at most."""
        given = {"rtol": self.rtol != rtol, "atol": isinstance(self.atol, Tensor) or self.atol != atol}
        given["max_num_steps"] = self.max_num_steps != max_num_steps
        for name in [name for name, is_given in given.items() if is_given and name not in self.reads]:
            why = f"those of method={self.method!r} are of one length; `max_step` bounds that"
            if self.adaptive:
                why = f"that of method={self.method!r} has no such bound"
            warn_user(
                f"`{name}` changes {changes} here: it is for methods that choose their steps, and {why}.",
                SolverWarning,
            )

    @property
    def reads(self) -> frozenset[str]:
        """The names of those of `rtol`, `atol` and `max_num_steps` that the method reads."""
        names = frozenset({"rtol", "atol", "max_num_steps"})
        return names & read_by(self.of_torchdiffeq) if self.of_torchdiffeq else names if self.adaptive else frozenset()

    @property
    def may_draw(self) -> bool:
        """Whether a field may draw random numbers: it is evaluated once a step, and never for that step again."""
        return self.fixed is not None and self.fixed.takes_one_evaluation and self.gradient is None

    def step_map(self, dt: float) -> tuple[Step, int]:
        """Return the step map that follows a held input, and how many of its steps a sample takes that lasts so long."""
        check_pairs(self.traits | {"export": "torch.export"})
        assert self.fixed is not None
        return self.fixed, int(num_steps(np.full((), dt), self.max_step))

    @property
    def traits(self) -> dict[Trait, str]:
        """What the method and its settings are to the table of `ctrnn.combinations`, and what the user calls each."""
        method, pair = f"method={self.method!r}", self.pair
        kinds: dict[Trait, bool] = {
            "noise step": self.noisy,
            "torchdiffeq": bool(self.of_torchdiffeq),
            "smooth method": not self.noisy and not self.of_torchdiffeq,
            "fixed steps": not self.adaptive,
            "doubling": self.adaptive and self.noisy,
            "own steps": self.adaptive and not self.of_torchdiffeq,
            "implicit": pair is not None and pair.implicit,
            "no tableau": pair is not None and not pair.has_tableau,
            "long steps": pair is not None and pair.order > INTERPOLATED,
        }
        traits = {trait: method for trait, there in kinds.items() if there}
        if self.gradient is not None:
            traits[self.gradient.trait] = f"gradient={self.gradient!r}"
        if self.on_failure == "keep":
            traits["keeps failed"] = "on_failure='keep'"
        if self.first_step:
            traits["first step"] = "first_step"
        if self.min_step:
            traits["shortest step"] = "min_step"
        return traits

    def check_noise(self, field: VectorField) -> None:
        """Refuse a field with noise under a method for equations without, and the other way round."""
        step = self.step
        if step is None or (isinstance(self.method, str) and not self.noisy):
            check_no_noise(field, "torchdiffeq" if step is None else "smooth method", f"method={self.method!r}")
        else:
            step.check_noise(field)

    def engine(self, like: Tensor, stats: dict[str, Any], noise: BrownianPath | None = None) -> Engine:
        """Return the engine for states like this one; stats: where it counts evaluations of the backward pass; noise: the path
        of a method for fields with noise."""
        engine = self._engine(like, stats, noise)
        engine.on_attempt, engine.on_backward_attempt = self.on_attempt, self.on_backward_attempt
        return engine

    def _engine(self, like: Tensor, stats: dict[str, Any], noise: BrownianPath | None) -> Engine:
        step, longest = self.step, math.inf if self.max_step is None else self.max_step
        atol = self.atol.to(like) if isinstance(self.atol, Tensor) else self.atol
        if isinstance(step, StochasticStep):
            assert noise is not None
            return StochasticEngine(step, self.max_step, noise)
        if isinstance(step, EmbeddedMethod):
            bounds = (self.max_num_steps, self.min_step, longest, self.first_step)
            if isinstance(step, StepDoubling) and isinstance(step.step, StochasticStep):
                assert noise is not None
                return AdaptiveEngine(DyadicControl(PathDoubling(step.step, noise), self.rtol, atol, *bounds))
            return AdaptiveEngine(StepControl(step, self.rtol, atol, *bounds))
        if step is None:
            adjoint = isinstance(self.gradient, Adjoint)
            return TorchdiffeqEngine(str(self.of_torchdiffeq), self.rtol, atol, self._options(), adjoint, stats)
        by_name = isinstance(self.method, str) and self.method in FIXED_METHODS
        return GridEngine(str(self.method), self.max_step) if by_name else StepEngine(step, self.max_step)

    def _options(self) -> dict[str, float]:
        """Return the bounds as options of torchdiffeq's method, by its names."""
        taken = options_of(str(self.of_torchdiffeq))
        longest = "max_step" if "max_step" in taken else "step_size"
        given = {"max_num_steps": self.max_num_steps, "min_step": self.min_step, "first_step": self.first_step}
        return {
            name: value
            for name, value in {**given, longest: self.max_step}.items()
            if value is not None and (name in taken or name == longest)
        }

    def _check_steps(self) -> None:
        if self.rtol >= 1:
            raise ValueError(
                f"`rtol` must be below 1, got {self.rtol:g}: it is a share of the state, and at 1 an error is as large as that."
            )
        if self.rtol == 0 and bool((torch.as_tensor(self.atol, device="cpu") == 0).any()):
            raise ValueError("`rtol` and `atol` are both 0, and no step is that exact; give one of them, say rtol=1e-5.")
        for name in ("first_step", "min_step"):
            if not getattr(self, name):
                continue
            if self.of_torchdiffeq and name not in options_of(self.of_torchdiffeq):
                raise ValueError(f"`{name}` is none of the options that torchdiffeq's {self.of_torchdiffeq} has; leave it out.")
        if self.max_step is not None and self.first_step is not None and self.first_step > self.max_step:
            raise ValueError(f"`first_step`={self.first_step:g} is above `max_step`={self.max_step:g}.")
        if self.max_step is not None and self.max_step < self.min_step:
            raise ValueError(f"`max_step`={self.max_step:g} is below `min_step`={self.min_step:g}; no step is both.")

    def _check_failures(self) -> None:
        if self.on_failure not in ("raise", "keep"):
            raise ValueError(f"`on_failure` must be 'raise' or 'keep', got {self.on_failure!r}.")

    def _check_gradient(self) -> None:
        if not isinstance(self.gradient, Checkpointed | Adjoint | None):
            raise TypeError(
                f"`gradient` must be None, discretize.Checkpointed(bytes) or discretize.Adjoint(), got {self.gradient!r}."
            )

    def check_reach(self, h0: Tensor) -> None:
        """Refuse tolerances that no choice of steps can meet for states of this dtype."""
        if not self.adaptive:
            return
        eps, coarsest = torch.finfo(h0.dtype).eps, torch.finfo(torch.float32).eps
        if isinstance(self.atol, float) and self.atol > 0 and max(self.rtol, self.atol) >= ERROR_MARGIN * eps and eps <= coarsest:
            return
        atol = torch.as_tensor(self.atol, device="cpu")
        if atol.dim() and atol.shape != h0.shape[-1:]:
            raise ValueError(
                f"`atol` must be one number, or one for each of the {h0.shape[-1]} units of the state, got shape "
                f"{tuple(atol.shape)}."
            )
        if eps > coarsest:
            raise TypeError(
                f"`h0` is {h0.dtype}, too coarse for steps chosen by their error; use float32 or float64, or fixed steps."
            )
        finest = max(self.rtol, float(atol.min()))  # of a unit of size 1
        asked = f"`rtol`={self.rtol:g} and `atol`={float(atol.min()):g}"
        if finest < eps / 100:
            raise ValueError(
                f"{asked} are far below what {h0.dtype} can tell apart ({eps:.1e}); loosen one of them, or use float64."
            )
        if finest < ERROR_MARGIN * eps:
            warn_user(
                f"{asked} are near the rounding of {h0.dtype} ({eps:.1e}), which no choice of steps makes smaller: errors of "
                f"states of size 1 will be larger than that. Take {ERROR_MARGIN * eps:.1g} or more, or float64.",
                SolverWarning,
            )
        if bool(((atol.to(h0) == 0) & (h0 == 0)).any()):
            raise ValueError("`atol` is 0 and so are units of `h0`, whose error `rtol` alone cannot measure; give an `atol`.")


def _tolerance(name: str, value: float | Tensor) -> float | Tensor:
    """Check a tolerance: a number, or one for each unit of the state, (state,), as float64 on the CPU."""
    if not isinstance(value, Tensor) or value.numel() == 1:
        return checks.non_negative_number(name, value)  # type: ignore[arg-type]
    if value.dim() != 1 or not value.is_floating_point():
        raise ValueError(f"`{name}` must be a number, or numbers (state,), got {value.dtype} of shape {tuple(value.shape)}.")
    checks.is_finite(name, value)
    if bool((value < 0).any()):
        raise ValueError(f"`{name}` must be at least 0, got {float(value.min())}.")
    return value.detach().to(device="cpu", dtype=torch.float64)


def _check_method(method: object) -> None:
    if isinstance(method, str) and method.startswith(PREFIX):
        known = [PREFIX + name for name in torchdiffeq_methods()]
        if method not in known:
            raise ValueError(f"`method` {method!r} {unknown(method, known)} Methods of torchdiffeq: {', '.join(known)}.")
        return
    why = None
    if isinstance(method, str) and method in ELSEWHERE:
        why = f"is not offered, for {ELSEWHERE[method]}; {PREFIX + method!r} runs torchdiffeq's."
    step = checked_method(method, why=why)
    if isinstance(step.step if isinstance(step, StepDoubling) else step, Zoneout):
        refuse("zoneout", "solve", repr(method), "method=")
