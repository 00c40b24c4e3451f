"""Steps for noise beside torchsde's and diffrax's, on the same increments."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize

HERE = Path(__file__).parent
TIME, BATCH, INPUTS, UNITS, PARTS, SEED = 4, 3, 2, 5, 8, 3
ROUNDING = {"rtol": 0, "atol": 1e-13}
METHODS = [  # ours, torchsde's method, calculus and noise, diffrax's class
    (discretize.EulerMaruyama(), ("euler", "ito", "diagonal"), "Euler"),
    (discretize.Milstein(), ("milstein", "ito", "diagonal"), "ItoMilstein"),
    (discretize.StratonovichHeun(), ("heun", "stratonovich", "diagonal"), "Heun"),
]
NAMES = [type(step).__name__ for step, *_ in METHODS]


@pytest.fixture
def sdes(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import sdes  # noqa: PLC0415 - beside this file

    return sdes


@pytest.fixture
def given(sdes):
    """A network, the samples that it reads, and a start."""
    torch.manual_seed(1)
    return ctrnn.plain(INPUTS, UNITS), torch.randn(TIME, BATCH, INPUTS), torch.randn(BATCH, UNITS)


def path(channels=UNITS):
    return discretize.BrownianPath(SEED, torch.arange(TIME + 1.0), channels, BATCH)


def needs(name):
    missing = importlib.util.find_spec(name) is None
    how = {"torchsde": "torchcde brings it, of the extra `test`", "diffrax": "pip install '.[bench]'"}
    return pytest.mark.skipif(missing, reason=f"{name} is not installed: {how[name]}")


def ours(field, step, xs, h0, seed):
    with torch.no_grad():
        return discretize.DiscreteRNN(field, step, substeps=PARTS, fused=False)(xs, h0, seed=seed)[0]


@needs("torchsde")
@pytest.mark.parametrize(("step", "theirs"), [row[:2] for row in METHODS], ids=NAMES)
def test_steps_are_torchsdes_on_the_same_increments(sdes, given, step, theirs):
    network, xs, h0 = given
    field = sdes.Growing(network, 0.6)
    with torch.no_grad():
        expected = sdes.by_torchsde(field, xs, h0, path(), PARTS, *theirs)
    assert_close(ours(field, step, xs, h0, path()), expected, **ROUNDING)
    # The seed of the path draws the same numbers, as sums of other terms.
    assert_close(ours(field, step, xs, h0, SEED), expected, **ROUNDING)


@needs("torchsde")
@pytest.mark.parametrize("shared", [False, True], ids=["a motion for each unit", "shared motions"])
def test_additive_noise_is_stepped_as_by_torchsde(sdes, given, shared):
    network, xs, h0 = given
    field = ctrnn.Noisy(network, ctrnn.Noise(torch.rand(UNITS, 2) if shared else torch.rand(UNITS)))
    for step, *theirs in ((discretize.SRA1(), "srk", "ito"), (discretize.StratonovichHeun(), "heun", "stratonovich")):
        with torch.no_grad():
            expected = sdes.by_torchsde(field, xs, h0, path(field.noise_channels), PARTS, *theirs, "additive")
        assert_close(ours(field, step, xs, h0, path(field.noise_channels)), expected, **ROUNDING)
        assert_close(ours(field, step, xs, h0, SEED), expected, **ROUNDING)


@needs("torchsde")
def test_stratonovichs_milstein_is_itos_of_the_corrected_drift(sdes, given):
    network, xs, h0 = given
    theirs = "milstein", "stratonovich", "diagonal"
    with torch.no_grad():
        expected = sdes.by_torchsde(sdes.Growing(network, 0.6), xs, h0, path(), PARTS, *theirs)
    assert_close(ours(sdes.Corrected(network, 0.6), discretize.Milstein(), xs, h0, path()), expected, **ROUNDING)


@pytest.mark.slow
@needs("diffrax")
@pytest.mark.parametrize(("step", "theirs"), [row[::2] for row in METHODS], ids=NAMES)
def test_steps_are_diffraxs_on_the_same_increments(sdes, given, step, theirs):
    network, xs, h0 = given
    field = sdes.Growing(network, 0.6)
    assert_close(ours(field, step, xs, h0, SEED), sdes.by_diffrax(field, xs, h0, path(), PARTS, theirs), **ROUNDING)


@pytest.mark.slow
@needs("diffrax")
def test_sra1_and_stratonovichs_milstein_are_diffraxs(sdes, given):
    network, xs, h0 = given
    expected = sdes.by_diffrax(sdes.Growing(network, 0.6), xs, h0, path(), PARTS, "StratonovichMilstein")
    assert_close(ours(sdes.Corrected(network, 0.6), discretize.Milstein(), xs, h0, SEED), expected, **ROUNDING)
    field = ctrnn.Noisy(network, ctrnn.Noise(torch.rand(UNITS)))
    assert_close(ours(field, discretize.SRA1(), xs, h0, SEED), sdes.by_diffrax(field, xs, h0, path(), PARTS, "SRA1"), **ROUNDING)


def test_the_noise_of_discrete_rate_networks_is_ours_with_their_time_constant():
    # v' = (1 - a) v + a (tanh(W v + U x + b)) + sqrt(2 a) s xi, a = dt/tau, s: the deviation at rest without the network
    tau, dt, deviation = 100.0, 20.0, 0.15
    field = ctrnn.leaky(INPUTS, UNITS, alpha=1 / tau, generator=torch.Generator().manual_seed(0))
    xs, h0, a = torch.randn(TIME, BATCH, INPUTS), torch.randn(BATCH, UNITS), dt / tau
    noisy = ctrnn.Noisy(field, ctrnn.Noise(deviation * (2 / tau) ** 0.5))
    found = discretize.DiscreteRNN(noisy, discretize.EulerMaruyama(), dt=dt, fused=False)(xs, h0, seed=SEED)[0]
    motion = discretize.BrownianPath(SEED, dt * torch.arange(TIME + 1.0), UNITS, BATCH)
    xi = motion.increments(motion.knots)[0] / dt**0.5
    w, v = field.candidate, h0
    for k, x in enumerate(xs):
        v = (1 - a) * v + a * torch.tanh(v @ w.weight_h.mT + x @ w.weight_x.mT + w.bias) + (2 * a) ** 0.5 * deviation * xi[k]
        assert_close(found[k], v, **ROUNDING)
