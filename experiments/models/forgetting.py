r"""Measures forgetting: how far replacing one sample by a null token moves each unit, over time.

    influence(n) = mean |h(a + n) - h'(a + n)|        h' has read null at time a; over the batch and over several a

A unit that relaxes with a constant rate g and is coupled to no other has influence(n) = influence(0) e^(-g n) exactly, and
(1 - g)^n by unit Euler steps. In a network it also hears of the sample through the others.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.timescales import remembered
from ctrnn.fields.field import check_input
from discretize import ContinuousRNN, DiscreteRNN

__all__ = ["forgetting", "forgetting_times", "times_of_gates"]

RNN = DiscreteRNN | ContinuousRNN


@torch.no_grad()
def forgetting(rnn: RNN, xs: Tensor, at: int | Sequence[int], horizon: int, null: Tensor | float | None = None) -> Tensor:
    r"""Measure how far each unit moves 0, 1, ..., horizon - 1 samples after one that is replaced by a null token.

    The units are those of `ctrnn.timescales`, in its order: of the LSTM the cells c. All positions run in one batch, beside
    the sequences as they are. Differences of adaptive solves are known to the solver's tolerance only.

    Args:    rnn: stepped or solved; xs: (time, batch, input), time first whatever `rnn.batch_first`; at: which sample, or
             several of which the mean is taken; horizon: samples looked at from the replaced one on, which is the first;
             null: what stands there instead, (input,) or a number; zeros if not given.
    Shape:   -> (horizon, hidden).
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Huth's lecture slides of 2020, "bias controls the timescale".
    """
    _check(rnn, xs)
    horizon = checks.positive_size("horizon", horizon)
    positions = _positions(at, len(xs), horizon)
    xs = xs[: max(positions) + horizon]
    ablated = xs.repeat(1, len(positions), 1)  # (time, positions * batch, input)
    batch, token = xs.shape[1], _token(null, xs)
    for k, position in enumerate(positions):
        ablated[position, k * batch : (k + 1) * batch] = token
    states = remembered(rnn.field, _states(rnn, torch.cat([xs, ablated], 1)))
    moved = (states[:, batch:].unflatten(1, (len(positions), batch)) - states[:, None, :batch]).abs().mean(2)
    return torch.stack([moved[p : p + horizon, k] for k, p in enumerate(positions)]).mean(0)


def forgetting_times(influence: Tensor) -> Tensor:
    r"""Return the time from the largest influence until it stays below 1/e of that, in samples, interpolated in the logarithm.

    Of one exponential it is its time constant, exactly. A slope fitted to the logarithm would be that too; but in a network
    it hangs on how much is fitted of a tail that other units feed, and of the floor of rounding and tolerance, while 1/e is
    well above both. "Stays", since an influence that oscillates is also small now and then.

    Shape:   influence (horizon, hidden) -> (hidden,); inf where it is above 1/e until the end, nan where the sample moved
             nothing, or where influence is not finite.
    Raises:  TypeError, ValueError for what is no influence.
    """
    if not checks.is_tensor("influence", influence).is_floating_point():
        raise TypeError(f"`influence` must be floating point, got {influence.dtype}.")
    if influence.dim() != 2 or not len(influence):
        raise ValueError(f"`influence` must be (horizon, hidden), got shape {tuple(influence.shape)}.")
    logs = influence.log()
    peak, first = logs.max(0)
    below = logs - (peak - 1)  # above 0 while more than 1/e is left
    steps = torch.arange(len(logs), device=logs.device)[:, None]
    last = torch.where(below > 0, steps, 0).amax(0)
    after = (last + 1).clamp(max=len(logs) - 1)
    here, there = (below.gather(0, k[None])[0] for k in (last, after))
    times = (last - first) + here / (here - there)
    times = torch.where(last + 1 < len(logs), times, math.inf)
    return torch.where(peak.isfinite() & ~influence.isnan().any(0), times, math.nan)


@torch.no_grad()
def times_of_gates(rnn: RNN, xs: Tensor) -> Tensor:
    r"""Return 1 over each unit's mean leak on data: how long a unit remembers, ignoring recurrent input.

    The leak is that of `ctrnn.timescales`, at every sample in the state before it; of the LSTM 1 - f of the cells c.

    Args:    rnn: stepped or solved; xs: (time, batch, input), time first whatever `rnn.batch_first`.
    Shape:   -> (hidden,).
    Raises:  TypeError, ValueError for what does not fit.
    """
    _check(rnn, xs)
    field, states = rnn.field, _states(rnn, xs)
    before = torch.cat([field.initial_state(xs.shape[1])[None].to(states), states[:-1]])
    leak = field.leak(field.project(xs).flatten(0, 1), before.flatten(0, 1))
    return 1 / remembered(field, leak).mean(0)


def _check(rnn: object, xs: Tensor) -> None:
    if not isinstance(rnn, RNN):
        inner = getattr(rnn, "rnn", None)
        hint = "; pass its `rnn`" if isinstance(inner, RNN) else ""
        raise TypeError(f"`rnn` must be a discretize.DiscreteRNN or ContinuousRNN, got {type(rnn).__name__}{hint}.")
    check_input(rnn.field, xs, "xs")
    if xs.dim() != 3 or 0 in xs.shape:
        raise ValueError(f"`xs` must be (time, batch, input), none of them 0, got shape {tuple(xs.shape)}.")


def _positions(at: int | Sequence[int], time: int, horizon: int) -> list[int]:
    given = list(at) if isinstance(at, Sequence) else [at]
    if not given or not all(isinstance(k, numbers.Integral) and not isinstance(k, bool) for k in given):
        raise TypeError(f"`at` must be the number of a sample, or a sequence of several, got {at!r}.")
    for k in given:
        if not 0 <= k <= time - horizon:
            raise ValueError(
                f"`at` has sample {k}, and {horizon} of {time} samples are looked at from there on; give longer `xs`, a shorter "
                f"`horizon`, or places from 0 to {time - horizon}."
            )
    return [int(k) for k in given]


def _token(null: Tensor | float | None, xs: Tensor) -> Tensor:
    token = torch.as_tensor(0.0 if null is None else null, dtype=xs.dtype, device=xs.device)
    if token.shape not in ((), xs.shape[-1:]):
        raise ValueError(f"`null` must be one number or ({xs.shape[-1]},), a sample, got shape {tuple(token.shape)}.")
    checks.is_finite("null", token)
    return token


def _states(rnn: RNN, xs: Tensor) -> Tensor:
    """Return the whole state after each sample: (time, batch, input) -> (time, batch, state)."""
    given = xs.transpose(0, 1) if rnn.batch_first else xs
    if isinstance(rnn, ContinuousRNN):
        return rnn.trajectory(given).hs[1:]
    if rnn.field.state_size == rnn.field.hidden_size:
        output = rnn(given)[0]
        return output.transpose(0, 1) if rnn.batch_first else output
    h, states = None, []
    for x in xs:  # the output is the visible units only, h_n everything
        _, h = rnn(x[:, None] if rnn.batch_first else x[None], h)
        states.append(h[0])
    return torch.stack(states)
