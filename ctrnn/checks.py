"""Checks of plain arguments at public entrances, with errors in the user's words.

A wrong kind of thing is a TypeError, a wrong value of the right kind a ValueError. Each message says what was asked,
what came, and what to do.
"""

from __future__ import annotations

import cmath
import math
import numbers
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ctrnn.lazy import place_of
from ctrnn.user_warnings import StampWarning, warn_user

K = TypeVar("K")

ULPS_BEYOND_AN_END = 4.0
WITHOUT_FLOAT64 = {"mps"}  # kinds of devices
COARSE = 100  # spacings of a dtype: intervals from here on are off by 1 % at most
UNROUNDED = "in float64, or whole numbers, counted from the first before they are rounded"


def is_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}.")
    return value


def is_generator(value: object) -> None:
    if value is not None and not isinstance(value, torch.Generator):
        hint = f"; make one, torch.Generator().manual_seed({value})" if isinstance(value, int) else ""
        raise TypeError(f"`generator` must be a torch.Generator, got {type(value).__name__}{hint}.")


def can_make_weights(
    dtype: torch.dtype | None, device: torch.device | str | None, generator: torch.Generator | None = None
) -> None:
    """Refuse what is no floating dtype of torch, no device that is there, or no generator."""
    is_generator(generator)
    try:
        fits = torch.empty(0, dtype=dtype, device="cpu").is_floating_point()
    except TypeError:
        fits = False
    if not fits:
        raise TypeError(f"`dtype` must be a floating-point dtype such as torch.float32, got {dtype!r}.")
    try:
        torch.empty(0, device=device)
    except (TypeError, RuntimeError, AssertionError) as error:
        raise ValueError(f"`device` must be one that torch has here, such as 'cpu', got {device!r} ({error}).") from error


def instance(name: str, value: K, kind: type, hint: str = "") -> K:
    """Refuse what is no object of a public class; the hint says what to do."""
    if not isinstance(value, kind):
        came = f"{type(value).__name__}{hint}"
        if isinstance(value, type):
            came = f"the class {value.__name__}; make one, `{value.__name__}(...)`"
        raise TypeError(f"`{name}` must be a {place_of(kind)}.{kind.__name__}, got {came}.")
    return value


def one_of(name: str, value: object, known: Collection[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, known))}, got {value!r}.")
    return value


def positive_size(name: str, value: int) -> int:
    return size(name, value, 1)


def size(name: str, value: int, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}.")
    return int(value)


def finite_number(name: str, value: float) -> float:
    """Return a real number as a float; tensors and arrays of one element are numbers too."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise ValueError(f"`{name}` is taken as a plain number and would lose its gradient; pass `{name}.item()`.")
    try:
        plain = value.item() if hasattr(value, "item") else value
        number = float(plain) if isinstance(plain, numbers.Real) and not isinstance(plain, bool) else None
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"`{name}` must be one number, got {value!r}.") from error
    if number is None:
        raise TypeError(f"`{name}` must be a number, got {value!r}.")
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be finite, got {number}.")
    return number


def positive_number(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number}.")
    return number


def non_negative_number(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number < 0:
        raise ValueError(f"`{name}` must be at least 0, got {number}.")
    return number


def probability(name: str, value: float) -> float:
    number = non_negative_number(name, value)
    if number > 1:
        raise ValueError(f"`{name}` must be a probability, from 0 to 1, got {number}.")
    return number


def is_tensor(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and (value.is_nested or value.layout != torch.strided):
        raise TypeError(
            f"`{name}` must be a plain tensor, not a sparse or nested one; convert it with `{name}.to_dense()`, or pad."
        )
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a torch.Tensor, got {type(value).__name__}{_as_tensor(name, value)}.")
    return value


def _as_tensor(name: str, value: object) -> str:
    """Say what makes a tensor of it: of sequences in a list, which may have unlike lengths, another thing than of numbers."""
    if isinstance(value, list | tuple) and value and all(getattr(part, "ndim", 0) == 2 for part in value):
        return f"; a list of sequences, (time, features) each, is one batch with lengths by discretize.Collate()({name})"
    return f"; wrap it as torch.as_tensor({name})" if hasattr(value, "__array__") or isinstance(value, list) else ""


def holds(condition: Tensor) -> bool:
    """Return whether all of it is true; True where values cannot be read: under `torch.func.vmap`, on the meta device,
    while a graph is traced, and while a CUDA graph is captured."""
    return _read(condition, lambda: bool(condition.all()))


def _read(numbers: Tensor, read: Callable[[], bool]) -> bool:
    """Return what `read` finds in these numbers, or True."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_captured(numbers.device):
        return True
    try:
        return read()
    except RuntimeError:
        return True


def is_captured(device: torch.device) -> bool:
    """Return whether the device captures a CUDA graph, in which nothing can be looked at."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def is_finite(name: str, value: Tensor, advice: str = "fill or drop such values first") -> None:
    """Refuse nan and inf, and name the first."""
    if not are_finite(value):
        where = tuple(int(i) for i in torch.nonzero(~torch.isfinite(value))[0])
        raise ValueError(
            f"`{name}` must be finite, got {float(value[where].detach())} at index {where} of shape "
            f"{tuple(value.shape)}; {advice}."
        )


def are_finite(value: Tensor) -> bool:
    """Return whether all numbers are finite; True where they cannot be read."""
    # The sum alone costs a twentieth; it is finite only if all are, and where it overflows each is looked at.
    total = value.detach().sum()
    return _read(total, lambda: cmath.isfinite(total.item())) or holds(torch.isfinite(value))


def is_delays(name: str) -> bool:
    """Return whether a parameter of that name has the delays of a field, or of one in it: times, in a dtype of their own."""
    return name == "delays" or name.endswith(".delays")


def same_settings(modules: Iterable[tuple[str, nn.Module]]) -> None:
    """Check that the parameters of all modules, delays apart, have one dtype and one device."""
    parameters = [
        (name, parameter) for name, module in modules for own, parameter in module.named_parameters() if not is_delays(own)
    ]
    for name, parameter in parameters:
        first = parameters[0][1]
        same_dtype = parameter.dtype == first.dtype
        if not same_dtype or parameter.device != first.device:
            error = ValueError if same_dtype else TypeError
            raise error(
                f"`{name}` has parameters of {parameter.dtype} on {parameter.device}, those before it are {first.dtype} on "
                f"{first.device}; give all parts the same `dtype` and `device`."
            )


def as_numbers(value: object) -> Tensor:
    """Copy to a tensor; Python floats become float64 so that they are not rounded."""
    if isinstance(value, Tensor) and value.is_nested:
        raise TypeError("A nested tensor holds no numbers in rows of one length.")
    if isinstance(value, Tensor):
        return value.clone()
    value = writable(value)
    given = torch.as_tensor(value, device="cpu")
    if given.is_floating_point() and not hasattr(value, "dtype"):
        given = torch.as_tensor(value, dtype=torch.float64, device="cpu")
    return given.clone()


def writable(value: object) -> object:
    """Return a copy of an array that may not be written to, as pandas 3 gives them: torch warns of those."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def time_dtype(device: torch.device) -> torch.dtype:
    """Return float64, in which times are kept; on a device that has none, float32."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def time_on(t: Tensor, device: torch.device) -> Tensor:
    """Move times to a device, without waiting for it."""
    if t.device.type in WITHOUT_FLOAT64:
        return t.to(device).to(time_dtype(device))
    return t.to(time_dtype(device)).to(device, non_blocking=True)


def dtype_of(value: object) -> torch.dtype:
    """Return in which dtype numbers were given."""
    return value.dtype if isinstance(value, Tensor) else as_numbers(value).dtype


def not_times(name: str, value: object) -> TypeError:
    """Say that these are no times."""
    kind = f" of {value.dtype}: give numbers, in units of the field's time" if hasattr(value, "dtype") else ""
    return TypeError(f"`{name}` must be a time or a sequence of times, got {type(value).__name__}{kind}.")


def as_times(name: str, value: object, differentiable: bool = False) -> Tensor:
    """Return real numbers as float64 on the CPU; refuse those that would change."""
    if isinstance(value, Tensor) and value.requires_grad and not differentiable:
        raise ValueError(f"`{name}` requires a gradient, and times are not differentiated here; pass `{name}.detach()`.")
    try:
        times = as_numbers(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise not_times(name, value) from error
    if times.device.type == "meta":
        raise ValueError(f"`{name}` is on the meta device, which keeps no values; times are numbers, give them on the CPU.")
    if times.is_complex() or times.dtype == torch.bool:
        raise TypeError(f"`{name}` must hold real numbers, got {times.dtype}.")
    if not times.is_floating_point() and times.numel() and int(times.abs().max()) > 2**53:
        raise ValueError(
            f"`{name}` holds whole numbers up to {int(times.abs().max())}, which float64 cannot tell apart; count from the "
            f"first, `{name} - {name}[0]`."
        )
    times = times.to(device="cpu", dtype=torch.float64)
    is_finite(name, times)
    return times


def are_times(
    name: str,
    value: object,
    axes: int = 1,
    differentiable: bool = False,
    strict: bool = True,
    given: torch.dtype | None = None,
) -> Tensor:
    """Check finite times, strictly increasing along the first axis; as float64 on the CPU: time is a number, not data.

    With `axes` = 2 they may be (n, batch), for every sequence its own, which then need not be `strict`. `given`: the dtype that
    they came in, where it is not that of the value.
    """
    return increasing(name, as_times(name, value, differentiable), axes, strict, given or dtype_of(value))


def increasing(name: str, times: Tensor, axes: int, strict: bool, given: torch.dtype) -> Tensor:
    """Check times that `as_times` gave, as `are_times` does."""
    if not 1 <= times.dim() <= axes:
        if axes == 1:
            raise ValueError(f"`{name}` must have one dimension, shared by the whole batch, got shape {tuple(times.shape)}.")
        raise ValueError(f"`{name}` must be (n,), shared by the whole batch, or (n, batch), got shape {tuple(times.shape)}.")
    if times.numel() == 0:
        raise ValueError(f"`{name}` is empty; give at least one time.")
    steps = times.detach().diff(dim=0)
    strictly = strict or times.dim() == 1
    if steps.numel() and not ((least := float(steps.min())) > 0 or (least == 0 and not strictly)):
        wrong = steps <= 0 if strictly else steps < 0
        at = tuple(torch.nonzero(wrong)[0].tolist())
        what = "repeats" if steps[at] == 0 else "goes back"
        k, whose = at[0], f" in sequence {at[1]}" if len(at) > 1 else ""
        before, after = times.detach()[at], times.detach()[(k + 1, *at[1:])]
        wanted = "increase strictly," if strictly else "increase, or repeat,"
        hint = " Where that is padding beyond the end of a sequence, give `lengths`." if whose and steps[at] == 0 else ""
        if steps[at] == 0 and given.is_floating_point and given != torch.float64 and before:
            rounded = f" In {given} times are multiples of {float(_spacing(before, given)):g} there; make them so:"
            hint = f"{rounded} {UNROUNDED}.{hint}"
        raise ValueError(
            f"`{name}` must {wanted} but {what} at index {k + 1}{whose}: {float(before)!r} is followed by {float(after)!r}.{hint}"
        )
    return times


def are_stamps(name: str, value: object, axes: int = 1, strict: bool = True, given: torch.dtype | None = None) -> Tensor:
    """Check the times of samples, or of states, as `are_times`; they may require a gradient, and a `StampWarning` says where the
    dtype that they came in has rounded them."""
    return increasing_stamps(name, as_times(name, value, True), axes, strict, given or dtype_of(value))


def increasing_stamps(name: str, times: Tensor, axes: int, strict: bool, given: torch.dtype) -> Tensor:
    """Check times that `as_times` gave, as `are_stamps` does."""
    say_if_rounded(name, increasing(name, times, axes, strict, given).detach(), given)
    return times


def _spacing(times: Tensor, dtype: torch.dtype) -> Tensor:
    """Return how far apart the numbers of a dtype are at these times."""
    return torch.ldexp(torch.full_like(times, torch.finfo(dtype).eps), torch.frexp(times.abs())[1] - 1)


def say_if_rounded(name: str, times: Tensor, dtype: torch.dtype) -> None:
    """Say where a dtype is too coarse for most of the intervals of a sequence, as float32 is for seconds since 1970.

    Shape: (n,) or (n, batch), increasing; a sequence that is over repeats its last one. Times that use the last bit of the
    largest are taken for rounded, but where they are all as far apart: 0, 1, 2, ... are not.
    """
    if not (dtype.is_floating_point and times.shape[0] > 1 and times.numel()):
        return
    steps = times.diff(dim=0)
    # Most often the largest of all says it, in a third of the time.
    if float(steps.min()) >= COARSE * torch.finfo(dtype).eps * max(float(times[k].abs().max()) for k in (0, -1)):
        return
    largest = times[[0, -1]].abs().amax(0)
    spacing = _spacing(largest, dtype)
    taken = steps > 0  # a sequence that is over stands still
    coarse = 2 * ((steps < COARSE * spacing) & taken).sum(0) > taken.sum(0)
    if not bool(coarse.any()):
        return
    uneven = (len(steps) == 1) | (torch.where(taken, steps, steps[:1]) != steps[:1]).any(0)
    rounded = coarse & uneven & (torch.remainder(times / spacing, 2) != 0).any(0)
    if bool(rounded.any()):
        at, apart = (float(each.reshape(-1)[rounded.reshape(-1)][0]) for each in (largest, spacing))
        warn_user(
            f"`{name}` is in {dtype}, which at {at:.0e} tells times apart that differ by {apart:.3g}, and most of these are less "
            f"than {COARSE} times that apart: the time between them may have been rounded by more than 1 %. Make them so: "
            f"{UNROUNDED}.",
            StampWarning,
        )


def within(name: str, times: Tensor, start: float | Tensor, end: float | Tensor) -> Tensor:
    """Check times (), (n,) or (n, batch) inside [start, end]; those beyond an end by at most 4 ulp are the end.

    Where every sequence has times of its own, it may have an interval of its own too: start and end are () or (batch,).
    """
    start, end = (torch.as_tensor(at, dtype=torch.float64, device=times.device).expand(times.shape[1:]) for at in (start, end))
    if not bool(((times < start) | (times > end)).any()):
        return times
    outside = (times < start - _margin(start)) | (times > end + _margin(end))
    if bool(outside.any()):
        *sample, k = torch.nonzero(outside.mT if start.dim() else outside.reshape(-1))[0].tolist()
        worst = times[k, sample[0]] if sample else times.reshape(-1)[k]
        low, high = (float(at[sample[0]] if sample else at) for at in (start, end))
        whose = f" (That is sequence {sample[0]}.)" if sample else ""
        raise ValueError(f"`{name}` = {float(worst)!r} lies outside the interval [{low!r}, {high!r}].{whose}")
    # Not minimum and maximum: at a tie they give each side half of the gradient.
    times = torch.where(times > end, end, times)
    return torch.where(times < start, start, times)


def _margin(end: Tensor) -> Tensor:
    size = end.detach().abs()
    # An unbounded end is its own ulp, and inf - inf would be nan.
    return ULPS_BEYOND_AN_END * (torch.nextafter(size, torch.full_like(size, math.inf)) - size).nan_to_num(0.0)


def evaluation_times(name: str, t: object, axes: int = 1) -> Tensor:
    """Check a time, a vector of times, or (axes = 2) a vector for each sequence; finite, in any order, float64 on the CPU."""
    times = as_times(name, t)
    if times.dim() > axes:
        raise ValueError(f"`{name}` must be one time or a vector of times, got shape {tuple(times.shape)}.")
    return times
