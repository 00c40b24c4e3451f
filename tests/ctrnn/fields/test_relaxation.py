"""The product form: any candidate, rate and decay, put together as the formula says."""

import itertools

import pytest
import torch
from torch.testing import assert_close

import ctrnn

CANDIDATES = [ctrnn.TanhCandidate, ctrnn.ResetCandidate, ctrnn.ResetStateCandidate]
RATES = {
    "fixed": lambda: ctrnn.FixedRate(0.7),
    "constant": lambda: ctrnn.ConstantRate(0.2),
    "constant per unit": lambda: ctrnn.ConstantRate(torch.linspace(0.1, 0.5, 5)),
    "sigmoid constant": lambda: ctrnn.SigmoidConstantRate(0.2),
    "gate": lambda: ctrnn.GateRate(3, 5),
    "global gate": lambda: ctrnn.GlobalGateRate(3, 5),
}
DECAYS = [ctrnn.LinearDecay, lambda: ctrnn.PowerDecay(0.5), lambda: ctrnn.PowerDecay(2)]


@pytest.mark.parametrize(("candidate", "rate", "decay"), list(itertools.product(CANDIDATES, RATES.values(), DECAYS)))
def test_every_choice_of_parts_is_their_product(candidate, rate, decay):
    field = ctrnn.Relaxation(candidate(3, 5), rate(), decay())
    x, h = torch.randn(6, 3), torch.randn(6, 5)
    rates, pulled, lost = field.rate(x, h), field.candidate(x, h), field.decay(h)
    assert_close(field(x, h), (rates * pulled) - (rates * lost), rtol=0, atol=1e-14)  # rounding: distributed otherwise
    leak = field.leak(field.project(x), h)
    assert_close(field(x, h) + leak * h, (rates * pulled).expand(6, 5), rtol=0, atol=1e-13)  # |h|^2 h of order 10


def test_the_rate_is_where_the_speed_of_a_clock_goes():
    # c'(t) times the field is the field with c'(t) times its rate: what makes the form closed under warps.
    parts = ctrnn.TanhCandidate(3, 5), ctrnn.PowerDecay(2)
    x, h = torch.randn(6, 3), torch.randn(6, 5)
    slow = ctrnn.Relaxation(parts[0], ctrnn.ConstantRate(0.2), parts[1])
    fast = ctrnn.Relaxation(parts[0], ctrnn.ConstantRate(0.6), parts[1])
    assert_close(fast(x, h), 3 * slow(x, h), rtol=1e-14, atol=0)  # exp(log 0.6) against 3 exp(log 0.2)


def test_parts_of_different_dtypes_or_devices_are_refused_when_they_are_put_together():
    rate = ctrnn.ConstantRate(torch.full((5,), 0.1), dtype=torch.float64)
    with pytest.raises((TypeError, ValueError), match=r"`rate` .*float64.*float32"):
        ctrnn.Relaxation(candidate(dtype=torch.float32), rate, ctrnn.LinearDecay())
    with pytest.raises(ValueError, match=r"`rate` .*meta.*cpu"):
        ctrnn.Relaxation(candidate(), ctrnn.GateRate(3, 5, device="meta"), ctrnn.LinearDecay())


def candidate(inputs=3, hidden=5, **settings):
    return ctrnn.TanhCandidate(inputs, hidden, **settings)


class Pathless(ctrnn.Part):
    """A candidate that forgot to say what it reads."""

    projected_size = 0

    def project(self, x):
        return x[..., :0]

    def flow(self, projected, h):
        return h


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        (
            lambda: (torch.nn.Linear(3, 5), ctrnn.FixedRate(), ctrnn.LinearDecay()),
            TypeError,
            "`candidate` must be a ctrnn.parts.Part, got Linear",
        ),
        (lambda: (candidate(), 0.1, ctrnn.LinearDecay()), TypeError, "`rate` must be a ctrnn.parts.Part, got float"),
        (lambda: (candidate(), ctrnn.FixedRate(), 2.0), TypeError, "`decay` must be a ctrnn.parts.Decay, got float"),
        (
            lambda: (Pathless(), ctrnn.FixedRate(), ctrnn.LinearDecay()),
            TypeError,
            "`candidate` must have `input_size` and `hidden_size`; Pathless",
        ),
        (
            lambda: (candidate(), ctrnn.GateRate(4, 5), ctrnn.LinearDecay()),
            ValueError,
            "`rate` has input_size 4, `candidate` has 3",
        ),
        (
            lambda: (candidate(), ctrnn.ConstantRate(torch.full((4,), 0.1)), ctrnn.LinearDecay()),
            ValueError,
            r"`rate` gives values of shape \(4,\) for one sample of 5 units; it must give 5, or 1 for all",
        ),
        (lambda: (candidate(), ctrnn.Affine(3, 5, 2), ctrnn.LinearDecay()), ValueError, "must give 5, or 1 for all"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, error, message):
    with pytest.raises(error, match=message):
        ctrnn.Relaxation(*parts())
