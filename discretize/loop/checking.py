"""Checks of a solve: what does not fit is refused before anything is solved, in the user's words."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, Path, TimePath, VectorField, checks
from ctrnn.combinations import Trait, check_pairs
from ctrnn.fields.field import check_batched_state, check_input, check_state
from ctrnn.fields.probes import COUPLED, couples_samples, moved
from discretize.errors import SolverWarning, warn_user
from discretize.graphs import check_values
from discretize.kernels.eligibility import HALF, takes_triton
from discretize.settings import Settings
from discretize.solvers.adjoint import Adjoint
from discretize.solvers.equation import NumbersRefused
from discretize.solvers.events import Event
from discretize.trajectory import Trajectory

__all__ = [
    "check_call",
    "check_flow",
    "check_settings",
    "check_setup",
    "check_solve",
    "check_start",
    "in_float32",
    "stored_dtype",
    "warn_of_atol",
]

LOOKS = 64  # at times between, where all states asked for are below `atol`
CALLED: dict[Trait, str] = {"backwards": "decreasing ts", "moving times": "ts with a gradient", "events": "events"}
VMAPPED = (
    "the samples of a batch step on their own in one call, and `torch.func.jacrev` of their losses has a gradient for each; or "
    "take fixed steps: method='rk4', say, or a step map"
)


@torch.no_grad()
def warn_of_atol(solved: Trajectory, settings: Settings, again: Callable[[Trajectory], Trajectory] | None = None) -> None:
    """Warn where all states are smaller than the error they may have, unless steps are bounded.

    again: gives the states between those of a solve that was not asked for them.
    """
    if not settings.adaptive or settings.max_step is not None:
        return
    atol = settings.atol.to(solved.hs) if isinstance(settings.atol, Tensor) else settings.atol

    def are_below(hs: Tensor) -> bool:
        return bool((hs.abs() < atol).all())

    # The last state first: of most solves it is enough.
    if not (solved.hs.numel() and are_below(solved.hs[-1]) and are_below(solved.hs)) or not bool(solved.hs.any()):
        return
    solved = solved if again is None or solved.between is not None else again(solved)
    start, end = solved.ts.detach()[0], solved.ts.detach()[-1]
    shares = torch.linspace(0, 1, LOOKS, dtype=torch.float64, device="cpu").reshape(-1, *[1] * start.dim())
    if solved.between is not None and not are_below(solved(start + (end - start) * shares)):  # as after a pulse, at rest again
        return
    asked, largest = float(torch.as_tensor(settings.atol, device="cpu").max()), float(solved.hs.detach().abs().max())
    warn_user(
        f"All states of this solve stay below `atol`={asked:g}, the largest is {largest:.2g}: an error as large as they are "
        f"is within the tolerance. Give an `atol` in their unit, far below them, say {largest / 1000:.0e}.",
        SolverWarning,
    )


def check_solve(given: Any, driven: Driven, times: Tensor, state: Tensor, settings: Settings, may_draw: bool) -> None:
    """Refuse what cannot be solved so; `given`: the field as it came; may_draw: whether it may draw random numbers."""
    check_setup(driven, times, state, settings)
    check_flow(given, driven, times, state, settings, may_draw)


def check_flow(given: Any, driven: Driven, times: Tensor, state: Tensor, settings: Settings, may_draw: bool) -> None:
    """Evaluate the field once at the start; a kernel that is there for its code has been through that."""
    with nullcontext() if isinstance(given, VectorField) else NumbersRefused():
        slope = driven.check_flow(times[0], state, may_draw)
        _check_samples(given, driven, times, state, slope, settings)
    _check_readable(slope, settings)


def _check_readable(value: Tensor, settings: Settings) -> None:
    if settings.adaptive or settings.of_torchdiffeq:
        check_values(value, f"{settings.method} {'chooses' if settings.adaptive else 'takes'} its steps", VMAPPED)


def check_setup(driven: Driven, times: Tensor, state: Tensor, settings: Settings) -> None:
    check_batched_state(driven.field, state, driven.batch)
    checks.is_finite("h0", state)
    check_settings(driven, times, state, settings)


def check_settings(driven: Driven, times: Tensor, state: Tensor, settings: Settings) -> None:
    _check_readable(state, settings)
    settings.check_reach(state)
    moves = [driven.path.knots, *([times] if isinstance(settings.gradient, Adjoint) or not settings.adaptive else [])]
    if settings.gradient is not None and any(t.requires_grad for t in moves):
        what = "times" if times.requires_grad else "the times of samples"
        raise ValueError(f"`gradient`={settings.gradient} has no gradients to {what}; detach them, or leave `gradient` out.")


@torch.no_grad()
def _check_samples(given: Any, driven: Driven, times: Tensor, h: Tensor, slope: Tensor, settings: Settings) -> None:
    """Check once whether samples act on one another: with adaptive steps each steps on its own."""
    if len(h) < 2:
        return
    training, known = bool(getattr(given, "training", False)), True
    try:
        found = _couples.setdefault(given, {})
    except TypeError:  # what cannot be kept track of
        found = {}
    if training not in found:
        projected, known = driven.read_at(times[0]), False
        # A function of time is asked at times of the solve only.
        other = moved(projected) if isinstance(given, VectorField) else driven.read_at((times[0] + times[-1]) / 2)
        found[training] = couples_samples(driven.field, projected, h, other, slope)
    if found[training]:
        coupled: dict[Trait, str] = {"coupled samples": "field"}
        check_pairs(coupled | settings.traits)
    if found[training] and not known:
        warn_user(f"In this solve {COUPLED}", UserWarning)


_couples: MutableMapping[Any, dict[bool, bool]] = WeakKeyDictionary()  # of fields and functions: in training or not, its samples


def check_call(settings: Settings, field: dict[Trait, str], direction: int, moving: bool, events: tuple[Event, ...]) -> None:
    """Refuse what does not go together in one call; field: its noise or its delays; moving: whether times have gradients."""
    called: dict[Trait, bool] = {"backwards": direction < 0, "moving times": moving, "events": bool(events)}
    if field or any(called.values()):
        check_pairs(field | {trait: CALLED[trait] for trait, there in called.items() if there} | settings.traits)


def check_start(given: Any, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor, settings: Settings) -> None:
    """Evaluate the field once at the start of held samples, and refuse what cannot be stepped so."""
    driven = Driven(field, HeldPath.unchecked(xs[:1], edges[:2]), None, len(h0))
    check_solve(given, driven, edges[:2], h0, settings, settings.may_draw)


def stored_dtype(settings: Settings, h0: object) -> torch.dtype | None:
    """Return the half precision that a solve in float32 has to store; None for other solves, or without such kernels."""
    if not settings.steps_alone or not isinstance(h0, Tensor) or h0.dtype not in HALF:
        return None
    return h0.dtype if takes_triton(h0.device) else None


def in_float32(field: VectorField, path: Path, h0: Tensor) -> tuple[VectorField, Path, Tensor]:
    """Convert to float32. Raises TypeError, ValueError where field, path and state are not of one dtype."""
    from discretize.kernels.record.program import weights_of, with_weights  # noqa: PLC0415 - of kernels

    check_state(field, h0, "h0")
    check_input(field, path(path.knots[:1].detach())[0], "path")
    wide = with_weights(field, [w.float() if w.dtype in HALF else w for w in weights_of(field)])
    if isinstance(path, TimePath):  # time itself is not rounded
        return wide, TimePath(path.knots, path.batch, torch.float32, h0.device), h0.float()
    return wide, path.map(Tensor.float, affine=True), h0.float()
