"""The functions of the compiled kernels, number by number, against arithmetic with many digits; and the kernels themselves
under sanitizers."""

import ctypes
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from cases import each

from discretize.kernels.build import Source, Unavailable, library
from discretize.kernels.cpp.programs import SOURCES

PROBE = """
#include "simd.h"
#define EXPORTED extern "C" __attribute__((visibility("default")))
#define ONE(name, call) \\
    EXPORTED void name(const real* from, real* to, std::size_t n, real r) { \\
        (void)r; \\
        for (std::size_t i = 0; i < n; i += LANES) { vec x = load(from + i, n - i); store(to + i, call, n - i); } \\
    }
ONE(exp_, exponential(x))
ONE(expm1_, exponential_less_1(x))
ONE(tanh_, hyperbolic_tangent(x))
ONE(sigmoid_, sigmoid(x))
ONE(softplus_, softplus(x))
ONE(log_, logarithm(x))
ONE(power_, power(x, r))
ONE(mean_decay_, mean_decay(x))
ONE(mean_decay_slope_, mean_decay_slope(x, mean_decay(x)))
ONE(unbounded_exp_, unbounded_exponential(x))
"""
REALS = {"double": (np.float64, ctypes.c_double), "float": (np.float32, ctypes.c_float)}
SIZES = np.concatenate([10.0 ** np.arange(-30, 2.6, 0.07), [0.1, 0.34, 0.35, 0.4999, 0.5, 0.6931471805599453, 1.0397, 3.0]])
BOTH_SIGNS = np.concatenate([-SIZES, SIZES])


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "probe.cpp"
    path.write_text(PROBE)
    made = {}
    for real in REALS:
        try:
            made[real] = library(Source(path, headers=SOURCES), {"REAL": real})
        except Unavailable as error:
            pytest.skip(str(error))
    return made


def values(probe, real, name, x, r=0.0):
    dtype, number = REALS[real]
    function = getattr(probe[real], name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, number]
    x = np.ascontiguousarray(x, dtype=dtype)
    out = np.empty_like(x)
    function(x.ctypes.data, out.ctypes.data, len(x), r)
    return x, out


def units_in_the_last_place(real, got, exact):
    dtype = REALS[real][0]
    smallest, unit = float(np.finfo(dtype).tiny), mpmath.mpf(float(np.finfo(dtype).eps))
    return [abs(mpmath.mpf(float(g)) - e) / max(abs(e) * unit, smallest) for g, e in zip(got, exact, strict=True)]


EXACT = {
    "expm1_": (mpmath.expm1, lambda x: np.abs(x) < 80),
    "exp_": (mpmath.exp, lambda x: np.abs(x) < 80),
    "tanh_": (mpmath.tanh, lambda x: np.abs(x) < 1e3),
    "sigmoid_": (lambda x: 1 / (1 + mpmath.exp(-x)), lambda x: np.abs(x) < 80),
    "softplus_": (lambda x: mpmath.log1p(mpmath.exp(x)), lambda x: np.abs(x) < 80),
    "log_": (mpmath.log, lambda x: x > 0),
    "mean_decay_": (lambda x: -mpmath.expm1(-x) / x, lambda x: (x > 0) & (x < 80)),
}


@each("real", REALS)
def test_functions_are_good_to_a_few_units_in_the_last_place(probe, real):
    for name, (exact, where) in EXACT.items():
        x, got = values(probe, real, name, BOTH_SIGNS[where(BOTH_SIGNS)])
        with mpmath.workdps(60):
            assert max(units_in_the_last_place(real, got, [exact(mpmath.mpf(float(v))) for v in x])) < 4, name


@each("real", REALS)
def test_the_slope_of_the_mean_decay_does_not_cancel(probe, real):
    x, got = values(probe, real, "mean_decay_slope_", SIZES[SIZES < 80])
    with mpmath.workdps(150):
        exact = [(mpmath.exp(-v) * (v + 1) - 1) / v**2 for v in map(mpmath.mpf, map(float, x))]
        assert max(units_in_the_last_place(real, got, exact)) < 16


@each("real", REALS)
def test_powers_lose_no_more_than_their_logarithm_is_long(probe, real):
    for r in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0):
        subnormal = float(np.finfo(REALS[real][0]).tiny) * np.array([0.5, -1e-3])
        x, got = values(probe, real, "power_", np.append(BOTH_SIGNS[np.abs(BOTH_SIGNS) > 1e-9], subnormal), r)
        with mpmath.workdps(60):
            exact = [abs(mpmath.mpf(float(v))) ** mpmath.mpf(r) for v in x]
            lost = units_in_the_last_place(real, got, exact)
        assert all(each < 4 + 2 * r * abs(math.log(abs(float(v)))) for each, v in zip(lost, x, strict=True)), r


@each("real", REALS)
def test_the_ends_of_the_range_are_what_they_should_be(probe, real):
    far = [0.0, -0.0, 1e4, -1e4, math.inf, -math.inf, math.nan]

    def at(name, r=0.0):
        return values(probe, real, name, far, r)[1]

    np.testing.assert_array_equal(at("tanh_"), [0, 0, 1, -1, 1, -1, math.nan])
    assert np.signbit(at("tanh_")[1])
    assert_close = {"rtol": 0, "atol": 1e-37}
    np.testing.assert_allclose(at("sigmoid_"), [0.5, 0.5, 1, 0, 1, 0, math.nan], **assert_close)
    np.testing.assert_allclose(at("softplus_")[:4], [math.log(2), math.log(2), 1e4, 0], rtol=1e-6, atol=1e-37)
    assert math.isnan(at("softplus_")[6])
    np.testing.assert_array_equal(at("power_", 0.5)[:2], [0, 0])
    assert math.isnan(at("power_", 0.5)[6])
    np.testing.assert_array_equal(at("unbounded_exp_")[[0, 2, 4]], [1, math.inf, math.inf])
    assert math.isnan(at("unbounded_exp_")[6])
    np.testing.assert_array_equal(at("mean_decay_")[:2], [1, 1])
    assert math.isnan(at("mean_decay_")[6])


def test_rows_that_end_within_a_vector_are_read_and_written_to_their_end_only(probe):
    probe["double"].tanh_.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double]
    for n in range(1, 20):
        x, room = np.linspace(-2, 2, n), np.full(n + 8, 7.0)
        probe["double"].tanh_(x.ctypes.data, room.ctypes.data, n, 0.0)
        np.testing.assert_allclose(room[:n], np.tanh(x), rtol=4 * np.finfo(float).eps, err_msg=str(n))
        assert (room[n:] == 7.0).all()


EVERYTHING = """
import torch, ctrnn, discretize
torch.manual_seed(0)
torch.set_num_threads(2)
for dtype, kinds in ((torch.float64, range(8)), (torch.float32, (2, 5))):
    for inputs, hidden, batch, time in ((1, 1, 1, 1), (3, 7, 13, 5), (8, 8, 8, 4), (2, 17, 130, 3)):
        decays = {"decay": ctrnn.PowerDecay(0.5)}
        fields = [ctrnn.plain(inputs, hidden), ctrnn.leaky(inputs, hidden, per_unit=True), ctrnn.gated(inputs, hidden)]
        fields += [ctrnn.gated(inputs, hidden, gate="global", rate="softplus"), ctrnn.gated(inputs, hidden, **decays)]
        fields += [ctrnn.gru(inputs, hidden), ctrnn.lstm(inputs, hidden), ctrnn.gated(inputs, hidden, bias=False)]
        for field in [fields[kind].to(dtype) for kind in kinds]:
            x = torch.randn(time, batch, inputs, dtype=dtype, requires_grad=True)
            edges = torch.rand(time, batch, dtype=torch.float64).cumsum(0)
            edges = torch.cat([torch.zeros(1, batch, dtype=torch.float64), edges])
            for step in (discretize.Euler(), discretize.ExponentialEuler()):
                rnn = discretize.DiscreteRNN(field, step, substeps=2)
                rnn(x, ts=edges.requires_grad_())[0].sum().backward()
                assert rnn.stats["engine"] == "compiled", rnn.stats
            for method in ("dopri5", "tsit5", "dopri8"):
                rnn = discretize.ContinuousRNN(field, method, rtol=1e-3, atol=1e-4)
                rnn(x, ts=edges.detach())[0].sum().backward()
                assert rnn.stats["engine"] == "compiled", rnn.stats
            if time > 1:
                path = ctrnn.LinearPath(x)
                start = field.initial_state(batch)
                discretize.integrate(field, path, start, path.knots, rtol=1e-3, atol=1e-4).hs.sum().backward()
                bounded = {"gradient": discretize.Checkpointed(1e6), "rtol": 1e-3, "atol": 1e-4}
                discretize.integrate(field, path, start, path.knots, **bounded).hs.sum().backward()
print("all of it ran")
"""


OF_OWN_FIELDS = f"""
import sys, torch, ctrnn, discretize
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from own_fields import Axes, Many, Own
from discretize.kernels import registry
torch.manual_seed(0)
torch.set_num_threads(2)
registry.PRICE = 0
for field in (Many(), Own(2, 11, torch.float32), Axes(), ctrnn.ltc(2, 5)):
    for batch, time in ((1, 1), (5, 3), (70, 4)):
        x = torch.randn(time, batch, field.input_size, dtype=field.dtype or torch.float64)
        for step in (discretize.Euler(), discretize.ExponentialEuler()):
            rnn = discretize.DiscreteRNN(field, step, substeps=2, allow_overshoot=True)
            edges = torch.rand(time + 1, batch, dtype=torch.float64).cumsum(0).requires_grad_()
            rnn(x.requires_grad_(), ts=edges)[0].sum().backward()
            assert rnn.stats["engine"] == "compiled", rnn.stats
        solved = discretize.ContinuousRNN(field, rtol=1e-3, atol=1e-3)
        solved(x.requires_grad_())[0].sum().backward()
        assert solved.stats["engine"] == "compiled", solved.stats
for field in (ctrnn.ltc(2, 5), ctrnn.plain(2, 67, dtype=torch.float64), ctrnn.gru(2, 11)):
    for batch, time in ((1, 2), (13, 3)):
        x = torch.randn(time, batch, 2, dtype=field.dtype)
        for path in (ctrnn.HeldPath(x), ctrnn.LinearPath(x)):
            h0 = field.initial_state(batch).requires_grad_()
            solved = discretize.integrate(field, path, h0, path.knots, rtol=1e-3, atol=1e-3, method="rodas5p")
            solved.hs.sum().backward()
            assert solved.stats["engine"] == "compiled", solved.stats
print("all of it ran")
"""


def sanitizer(name):
    found = subprocess.run(["g++", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True).stdout.strip()
    return found if Path(found).is_absolute() else None


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("script", [EVERYTHING, OF_OWN_FIELDS], ids=["named", "own"])
def test_kernels_are_clean_under_the_address_and_undefined_behaviour_sanitizers(tmp_path, script):
    if shutil.which("g++") is None or sanitizer("asan") is None or sanitizer("ubsan") is None:
        pytest.skip("there is no g++ with its sanitizers")
    environment = os.environ | {
        "CXX": "g++",
        "CTRNN_CXXFLAGS": "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all",
        "CTRNN_CACHE": str(tmp_path),
        "LD_PRELOAD": f"{sanitizer('asan')} {sanitizer('ubsan')}",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500, check=False)
    assert ran.stdout == "all of it ran\n", ran.stderr[-4000:]
    assert ran.returncode == 0
    assert "runtime error" not in ran.stderr
