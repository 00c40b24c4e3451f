r"""A diagnosis says why a solve cannot go on: nan or infinity and their source, blow-up, a jump, stiffness, too few steps.

A field is stiff where stability, not accuracy, keeps an explicit method's steps short: dt times the fastest rate is about
what the method bears (1 to 6), while the solution hardly moves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.fields.probes import DRAW_ONCE, has_two_answers
from ctrnn.forward import jvp
from discretize.errors import Failure
from discretize.solvers.control import StepControl
from discretize.solvers.segments import RightHandSide
from discretize.solvers.tableaus import Attempt

__all__ = ["STIFF_STEPS", "diagnosis", "fastest_rate", "jump_hint", "slow_hint", "stiff_hint"]

RANDOM = "the field gives two answers to the same call"
STIFF_STEPS = 50  # a segment: from here on a solve is looked at
UNBOUNDED = 1e8  # states of this size are on their way to infinity
HALVINGS = 12  # of twenty steps, after which what is smooth over a step no longer jumps


@torch.no_grad()
def diagnosis(
    control: StepControl,
    segment: RightHandSide,
    h: Tensor,
    last: Attempt | None,
    row: int | None,
    tau: float,
    step: float,
    too_many: str | None,
) -> Failure:
    """Say why a solve stops `tau` into a segment, at the states h, and what to try; `row`: whose step it was, None for all."""
    h = h.detach()
    at = torch.tensor(tau, dtype=checks.time_dtype(h.device), device=h.device)
    slope = segment(at, h)
    sample, unit = _worst(h if last is None or last.error.shape != h.shape else last.error, row)
    cause, hint = None, ""
    if (found := _not_finite(slope, row)) is not None:
        sample, unit = found
        cause, hint = _source(segment, at, h, slope, sample, unit)
    elif has_two_answers(lambda: segment(at, h), h.device):
        cause, hint = RANDOM, DRAW_ONCE
    elif too_many is not None:
        cause = f"{too_many} (the last one was {step:.3g} long)"
        hint = slow_hint(control.stiffness_shortens, segment, at, h, sample, step) or (
            "Loosen the tolerances, raise `max_num_steps` (for each segment), or slow the field down: steps this short mean "
            "fast changes."
        )
    elif (size := float(h[sample].abs().max())) > UNBOUNDED:
        unit = int(h[sample].abs().argmax())
        cause = f"the state grows without bound (|h| is {size:.3g})"
        hint = "Look at the field: it may blow up in finite time."
    elif last is not None and last.error.shape == h.shape and (found := _not_finite(last.error.detach(), row)) is not None:
        sample, unit = found
        # The last try, five times as long as the step that would come next, went into what is not finite.
        cause, hint = _source(segment, at + 5 * step, h, last.error.detach(), sample, unit)
        cause += ", or as near to it as steps can be"
    else:
        atol = float(control.atol[unit] if isinstance(control.atol, Tensor) else control.atol)
        cause = f"no step down to {step:.3g} meets rtol={control.rtol:g}, atol={atol:g}"
        hint = control.advice
    absolute = sample if segment.rows is None else int(segment.rows[sample])
    return Failure(cause, hint, segment.when(tau, absolute), absolute, unit)


def _source(segment: RightHandSide, at: Tensor, h: Tensor, slope: Tensor, sample: int, unit: int) -> tuple[str, str]:
    """Say where a derivative that is not finite comes from: the input, the state, or the field itself."""
    projected = segment.read(at)
    read = projected[sample if len(projected) > 1 else 0]
    if not bool(torch.isfinite(read).all()):
        value = float(read[~torch.isfinite(read)][0])
        return f"the input is {value} there", "Look at the path: it must be finite at every time of its interval."
    if not bool(torch.isfinite(h[sample]).all()):
        return f"the state is {float(h[sample, unit])}", "Look at where it came from."
    return f"the field gives {float(slope[sample, unit])} there", "Look at the field's weights and at the state it is given."


def _not_finite(values: Tensor, row: int | None) -> tuple[int, int] | None:
    """Return sample and unit of the first number that is not finite, of a row or of all."""
    places = torch.nonzero(~torch.isfinite(_rows(values, row))).tolist()
    return (places[0][0] + (row or 0), places[0][1]) if places else None


def _worst(errors: Tensor, row: int | None) -> tuple[int, int]:
    sizes = torch.nan_to_num(_rows(errors, row).detach(), nan=torch.inf).abs()
    sample, unit = divmod(int(sizes.argmax()), sizes.shape[1])
    return sample + (row or 0), unit


def _rows(values: Tensor, row: int | None) -> Tensor:
    return values if row is None else values[row : row + 1]


def slow_hint(stiffness_shortens: bool, segment: RightHandSide, at: Tensor, h: Tensor, sample: int, step: float) -> str | None:
    """Say why steps are this short: a random or a jumping field, or stiffness; None if none of these."""
    if has_two_answers(lambda: segment(at, h), h.device):
        return f"{RANDOM[0].upper()}{RANDOM[1:]}. {DRAW_ONCE}"
    return jump_hint(segment, at, h, sample, step) or stiff_hint(stiffness_shortens, segment, at, h, sample, step)


@torch.no_grad()
def jump_hint(segment: RightHandSide, at: Tensor, h: Tensor, sample: int, step: float) -> str | None:
    """Say what to try where the field jumps within a few steps, as sign(h) does, on which the state may slide for ever.

    Of twenty steps the half is kept that differs more from the other, again and again: a jump stays as large as it is, and of a
    smooth field, stiff or not, ever less is left.
    """
    slope = segment(at, h)

    def shifted(steps: float) -> Tensor:
        return segment(at, h + steps * step * slope)[sample]

    low, high = -10.0, 10.0
    below, above = shifted(low), shifted(high)
    least, most = torch.minimum(below, above), torch.maximum(below, above)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        between = shifted(middle)
        least, most = torch.minimum(least, between), torch.maximum(most, between)
        first, second, range_ = (between - below).abs(), (above - between).abs(), most - least
        unit = int(((first - second).abs() / range_).nan_to_num(0.0).argmax())
        if first[unit] > second[unit]:
            high, above = middle, between
        else:
            low, below = middle, between
    changes = (above - below).abs()
    # Of each unit what it changes by in all, and more than moves its state by rounding: units may be of any sizes.
    jumps = (changes > 0.1 * (most - least)) & (changes * step > 64 * torch.finfo(h.dtype).eps * h[sample].abs())
    if not bool(jumps.any()):
        return None
    unit = int(jumps.int().argmax())
    change = float(changes[unit])
    return (
        f"The field jumps there: within {20 * step / 2**HALVINGS:.3g} the derivative of unit {unit} changes by {change:.3g}, "
        "and the state may slide along the jump. Smooth it (tanh(h / width) for sign(h)), put jumps in time at knots, "
        "or set `min_step`, which goes over them with a warning."
    )


def stiff_hint(stiffness_shortens: bool, segment: RightHandSide, at: Tensor, h: Tensor, sample: int, step: float) -> str | None:
    """Say what to try where stability of an explicit method, and not the solution, asks for steps of this length."""
    if not stiffness_shortens:
        return None
    rate = fastest_rate(segment, at, h, sample)
    if rate is None or step * rate < 1.0:
        return None
    return (
        f"The field is stiff: its fastest rate there is about {rate:.3g}, and stability, not accuracy, keeps the steps short. "
        "Take method='rodas5p', whose steps it does not shorten, or loosen the tolerances; or convert the times, if they are in "
        "another unit than the field's."
    )


@torch.no_grad()
def fastest_rate(segment: RightHandSide, at: Tensor, h: Tensor, sample: int, turns: int = 12) -> float | None:
    """Return the size of the largest eigenvalue of the field's Jacobian at one sample, by power iteration, or None."""
    direction = torch.linspace(1.0, 2.0, h.shape[-1], dtype=h.dtype, device=h.device).expand_as(h)
    size = float("nan")
    try:
        for _ in range(turns):
            direction = direction / direction.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(h.dtype).tiny)
            direction = jvp(lambda u: segment(at, u), (h,), (direction,))[1]
            size = float(direction[sample].norm())
    except (RuntimeError, NotImplementedError):  # what torch.func cannot follow has no rate to tell
        return None
    return size if 0 < size < float("inf") else None
