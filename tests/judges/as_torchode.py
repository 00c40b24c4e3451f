r"""The package `torchode` as its tests call it, by `discretize.integrate`; `stand_in` puts it in its place.

Every sample has times of its own, as here. What an integral controller is to theirs, rtol and atol are; a fixed step is the
longest. Their Heun, a pair of orders 2 and 1, is adaptive_heun.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from enum import Enum

import torch
from torch import nn

import discretize

__all__ = ["PATCHES", "SKIPPED", "stand_in"]

STUBS = "replaces a step or a controller of theirs by one that is made up"
INNER = "is of inner classes of theirs, a step and a controller at a time"
SKIPPED = {
    "test_evaluates_solution_at_evaluation_points": STUBS,
    "test_odes_step_independently": STUBS,
    "test_multiple_evaluation_points_in_single_step": STUBS,
    "test_multiple_evals_on_the_last_step": STUBS,
    "test_no_t_eval_evaluates_at_t_end": STUBS,
    "test_terminates_after_max_steps": STUBS,
    "test_rejected_steps_continue_at_same_place": STUBS,
    "test_value_is_only_saved_when_step_is_accepted": STUBS,
    "test_rejection_of_initial_step_does_not_skip_evaluation_at_t_start": STUBS,
    "test_stops_on_non_successful_step_method": STUBS,
    "test_finished_solves_do_not_update_dt": STUBS,
    "test_solution_is_only_evaluated_inside_of_integration_range": STUBS,
    "test_stops_on_non_successful_adapt_step_size": STUBS,
    "test_solving_in_opposite_directions_at_the_same_time": "runs samples forwards and backwards; a batch here runs one way",
    "test_data_and_time_dtypes_are_not_mixed": "wants times in float32; they are float64 here, whatever the states are",
    "interpolation_test.py": INNER,
    "single_step_methods_test.py": INNER,
    "step_size_controllers_test.py": INNER,
}
PATCHES: dict[str, object] = {}


class Status(Enum):
    SUCCESS = 0


@dataclass
class InitialValueProblem:
    y0: torch.Tensor
    t_start: torch.Tensor | None = None
    t_end: torch.Tensor | None = None
    t_eval: torch.Tensor | None = None


class ODETerm(nn.Module):
    def __init__(self, f, with_args=False):
        super().__init__()
        self.vf, self.with_args = f, with_args


@dataclass
class Controller:
    """Tolerances; none, for fixed steps."""

    atol: float | None = None
    rtol: float | None = None
    pcoeff: float = 0.0
    icoeff: float = 1.0
    dcoeff: float = 0.0
    term: ODETerm | None = None


class Method(nn.Module):
    adaptive, fixed = "dopri5", "rk4"

    def __init__(self, term=None):
        super().__init__()
        self.term = term


class Dopri5(Method):
    pass


class Tsit5(Method):
    adaptive = "tsit5"


class Heun(Method):
    adaptive, fixed = "adaptive_heun", "heun2"


class Euler(Method):
    adaptive = fixed = "euler"


class _Equation(nn.Module):
    """Theirs: t (batch,), not (batch, 1)."""

    def __init__(self, term, args):
        super().__init__()
        self.term, self.args = term, (args,) if term.with_args else ()

    def forward(self, t, y):
        return self.term.vf(t[:, 0].to(y.dtype), y, *self.args).expand_as(y)


class AutoDiffAdjoint(nn.Module):
    gradient = None

    def __init__(self, step_method, step_size_controller, **_):
        super().__init__()
        self.method, self.controller = step_method, step_size_controller

    def solve(self, problem, term=None, dt0=None, args=None, backward_dt0=None):
        term = term or self.method.term or self.controller.term
        times = problem.t_eval
        times = torch.stack([problem.t_start, problem.t_end], -1) if times is None else times
        adaptive = self.controller.atol is not None and self.method.fixed != "euler"
        how = {"method": self.method.adaptive if adaptive else self.method.fixed, "gradient": self.gradient}
        how |= {"rtol": self.controller.rtol, "atol": self.controller.atol} if adaptive else {"max_step": float(dt0.abs().min())}
        ts = times.detach().double().mT
        start = ts[:1] if problem.t_start is None else problem.t_start.detach().double()[None]
        before = int(bool((ts[:1] != start).any()))
        found = discretize.integrate(_Equation(term, args), None, problem.y0, torch.cat([start[:before], ts]), **how)
        states = found.hs[before:] if problem.t_eval is not None else found.hs[-1:]
        count = torch.zeros(len(problem.y0), dtype=torch.long)
        return types.SimpleNamespace(ts=times, ys=states.transpose(0, 1), status=count, stats={"n_steps": count})


class BacksolveAdjoint(AutoDiffAdjoint):
    gradient = discretize.Adjoint()

    def __init__(self, term, step_method, step_size_controller):
        super().__init__(step_method, step_size_controller)
        if step_size_controller.atol is None:
            self.gradient = None  # the adjoint is of solves whose error is estimated


def solve_ivp(f, y0, t_eval, method="dopri5"):
    return AutoDiffAdjoint(Dopri5(f), Controller(1e-6, 1e-6)).solve(InitialValueProblem(y0, t_eval=t_eval))


class _Inner(types.ModuleType):
    """A module of theirs whose names nothing here uses."""

    __all__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})


def stand_in() -> None:
    """From now on, `import torchode` gives this."""
    ours = sys.modules[__name__]
    for name in ("FixedStepController", "IntegralController", "PIDController"):
        setattr(ours, name, Controller)
    ours.JointBacksolveAdjoint = BacksolveAdjoint
    sys.modules["torchode"] = ours
    for inner in ("interpolation", "single_step_methods", "step_size_controllers", "typing"):
        sys.modules[f"torchode.{inner}"] = _Inner(f"torchode.{inner}")
    sys.modules["torchode.typing"].TimeTensor = sys.modules["torchode.typing"].DataTensor = torch.Tensor
    sys.modules["torchode.typing"].__all__ = ["TimeTensor", "DataTensor"]
