"""Stamps that their dtype has rounded are said, wherever samples have stamps; those that it holds as they are, are not."""

import re
import warnings

import numpy as np
import pytest
import torch
from cases import crossed

import ctrnn
import discretize
import discretize.torchdiffeq
from discretize import StampWarning

XS = torch.randn(12, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
SINCE_1970 = 1.7e9 + 150.0 * torch.arange(13, dtype=torch.float64)
UNEVEN = torch.rand(13, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).cumsum(0)

ROUNDED = {
    "seconds since 1970 in float32": SINCE_1970.float(),
    "of every sequence its own": torch.stack([SINCE_1970, SINCE_1970 - 1.7e9, SINCE_1970 - 1.7e9], 1).float(),
    "one interval in float32": (SINCE_1970[:2] + 100).float(),
    "months of half seconds in float32": (1e7 + 1.3 * torch.arange(13, dtype=torch.float64)).float(),
    "tenths in float16": (7 + 0.1 * torch.arange(13, dtype=torch.float64)).half(),
    "tenths in bfloat16": (1 + 0.1 * torch.arange(13, dtype=torch.float64)).bfloat16(),
    "microseconds since 1970 in float64": 1.7e9 + 1.3e-6 * torch.arange(13, dtype=torch.float64),
    "an array in float32": (SINCE_1970.numpy()).astype(np.float32),
}
AS_THEY_ARE = {
    "seconds since 1970 in float64": SINCE_1970,
    "nanoseconds since 1970 in float64, a second apart": 1e9 * SINCE_1970,
    "whole numbers since 1970": SINCE_1970.long(),
    "days in float32, on uneven seconds": (UNEVEN * 100).ceil().float() + 1e6,
    "counts in float32 beyond 2^23": torch.arange(13.0) + 2.0**23 + 1,
    "any from 0 in float32": UNEVEN.float(),
    "kilohertz from 0 in float32": 0.001 * torch.arange(13.0),
    "whole numbers in bfloat16": torch.arange(13.0).bfloat16(),
    "before 0": -UNEVEN.flip(0).float(),
    "numbers of Python": SINCE_1970.tolist(),
}
READERS = {
    "held path": lambda ts: ctrnn.HeldPath(XS[: len(ts) - 1], ts),
    "linear path": lambda ts: ctrnn.LinearPath(XS[: len(ts)] if len(ts) < 13 else torch.cat([XS, XS[:1]]), ts),
    "stepped": lambda ts: quiet(discretize.DiscreteRNN, discretize.ExponentialEuler())(XS[: len(ts) - 1], ts=ts),
    "solved": lambda ts: quiet(discretize.ContinuousRNN, "rk4")(XS[: len(ts) - 1], ts=ts),
    "linear": lambda ts: quiet(discretize.ContinuousRNN, "rk4", path="linear")(XS[: len(ts)], ts=ts[: len(XS)]),
    "jumps": lambda ts: discretize.gru_d(2, 4).double()(XS[: len(ts) - 1], ts=ts),
    "collate": lambda ts: [discretize.Collate()([(XS[: len(ts) - 1, 0], own, 0)]) for own in columns(ts)],
    "solve": lambda ts: discretize.integrate(lambda t, h: 0 * h, None, torch.ones(3, 1, dtype=torch.float64), ts),
    "drop-in": lambda ts: [discretize.torchdiffeq.odeint(lambda t, h: 0 * h, torch.ones(3), own) for own in columns(ts)],
}


def quiet(kind, *how, **settings):
    """A module whose first times have been looked at, so that their unit is not."""
    rnn = kind(ctrnn.leaky(2, 4, tau=1e9, dtype=torch.float64), *how, **settings)
    discretize.units._looked.add(rnn.field)
    return rnn


def columns(ts):
    ts = torch.tensor(ts, dtype=torch.float64) if isinstance(ts, list) else torch.as_tensor(ts)
    return [ts] if ts.dim() == 1 else list(ts.unbind(1))


@pytest.mark.parametrize(("name", "reader"), crossed(ROUNDED, READERS))  # slow: all that reads them, each kind of stamps
def test_rounded_stamps_are_said_by_all_that_reads_them(name, reader):
    with pytest.warns(StampWarning, match=r"tells times apart that differ by .* in float64, or whole numbers, counted from"):
        READERS[reader](ROUNDED[name])


@pytest.mark.parametrize(("name", "reader"), crossed(AS_THEY_ARE, READERS))
def test_stamps_that_are_held_as_they_are_are_not(name, reader):
    with warnings.catch_warnings():
        warnings.simplefilter("error", StampWarning)
        READERS[reader](AS_THEY_ARE[name])


def test_what_stands_beyond_an_end_is_not_looked_at():
    ts = torch.stack([UNEVEN, UNEVEN, UNEVEN], 1).float()
    ts[4:, 1] = 1.7e9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet(discretize.DiscreteRNN)(XS, ts=ts, lengths=[12, 3, 12])


def test_stamps_that_a_dtype_makes_the_same_are_refused_for_that():
    ts = (1.7e9 + torch.arange(13, dtype=torch.float64)).float()
    for read in (lambda: ctrnn.HeldPath(XS, ts), lambda: quiet(discretize.DiscreteRNN)(XS, ts=ts)):
        with pytest.raises(ValueError, match=r"repeats at index 1.* In torch.float32 times are multiples of 128 there"):
            read()
    with pytest.raises(ValueError, match=r"which float64 cannot tell apart; count from the first"):
        ctrnn.HeldPath(XS, 1_700_000_000_000_000_000 + 10**6 * torch.arange(13))
    with pytest.warns(StampWarning), pytest.raises(ValueError, match="repeats"):
        quiet(discretize.DiscreteRNN)(XS, ts=(1.7e9 + 99.0 * UNEVEN[:, None].expand(-1, 3)).float())


@pytest.mark.parametrize(("apart", "becomes"), [(1e-9, "0"), (1e6, "inf")])
def test_intervals_that_a_model_in_float16_cannot_hold_are_refused(apart, becomes):
    rnn = discretize.DiscreteRNN(ctrnn.leaky(2, 4, dtype=torch.float16), discretize.ExponentialEuler())
    discretize.units._looked.add(rnn.field)
    with pytest.raises(ValueError, match=re.escape(f"an interval of {apart:g}, which is {becomes} in torch.float16")):
        rnn(XS.half(), ts=apart * torch.arange(13, dtype=torch.float64))
