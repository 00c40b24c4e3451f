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

from discretize.kernels.build import CppSource, Unavailable, library
from discretize.kernels.cpp.programs import SOURCES

PROBE = """
#include "rows.h"
#define EXPORTED extern "C" __attribute__((visibility("default")))
#define ONE(name, call) \\
    EXPORTED void name(const real* from, real* to, std::size_t n) { \\
        for (std::size_t i = 0; i < n; i += LANES) { vec x = load(from + i, n - i); store(to + i, call, n - i); } \\
    }
ONE(exp_, natural_exponential(x))
ONE(expm1_, natural_exponential_less_1(x))
ONE(tanh_, hyperbolic_tangent(x))
ONE(sigmoid_, logistic(x))
ONE(log_, natural_logarithm(x))
ONE(log1p_, natural_logarithm_of_1_and(x))
"""
REALS = {"double": np.float64, "float": np.float32}
SIZES = np.concatenate([10.0 ** np.arange(-30, 2.6, 0.07), [0.1, 0.34, 0.35, 0.4999, 0.5, 0.6931471805599453, 1.0397, 3.0]])
BOTH_SIGNS = np.concatenate([-SIZES, SIZES])


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "probe.cpp"
    path.write_text(PROBE)
    made = {}
    for real in REALS:
        try:
            made[real] = library(CppSource(path, headers=SOURCES), {"REAL": real})
        except Unavailable as error:
            pytest.skip(str(error))
    return made


def values(probe, real, name, x):
    function = getattr(probe[real], name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    x = np.ascontiguousarray(x, dtype=REALS[real])
    out = np.empty_like(x)
    function(x.ctypes.data, out.ctypes.data, len(x))
    return x, out


def units_in_the_last_place(real, got, exact):
    dtype = REALS[real]
    smallest, unit = float(np.finfo(dtype).tiny), mpmath.mpf(float(np.finfo(dtype).eps))
    return [abs(mpmath.mpf(float(g)) - e) / max(abs(e) * unit, smallest) for g, e in zip(got, exact, strict=True)]


EXACT = {
    "expm1_": (mpmath.expm1, lambda x: np.abs(x) < 80),
    "exp_": (mpmath.exp, lambda x: np.abs(x) < 80),
    "tanh_": (mpmath.tanh, lambda x: np.abs(x) < 1e3),
    "sigmoid_": (lambda x: 1 / (1 + mpmath.exp(-x)), lambda x: np.abs(x) < 80),
    "log_": (mpmath.log, lambda x: x > 0),
    "log1p_": (mpmath.log1p, lambda x: x > -0.9),
}


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_good_to_a_few_units_in_the_last_place(probe, real, name):
    exact, where = EXACT[name]
    x, got = values(probe, real, name, BOTH_SIGNS[where(BOTH_SIGNS)])
    with mpmath.workdps(60):
        assert max(units_in_the_last_place(real, got, [exact(mpmath.mpf(float(v))) for v in x])) < 4


FAR = [0.0, -0.0, 1e4, -1e4, math.inf, -math.inf, math.nan]
OF_FAR = {
    "tanh_": [0, -0.0, 1, -1, 1, -1, math.nan],
    "sigmoid_": [0.5, 0.5, 1, 0, 1, 0, math.nan],
    "exp_": [1, 1, math.inf, 0, math.inf, 0, math.nan],
    "expm1_": [0, -0.0, math.inf, -1, math.inf, -1, math.nan],
    "log_": [-math.inf, -math.inf, math.log(1e4), math.nan, math.inf, math.nan, math.nan],
    "log1p_": [0, -0.0, math.log1p(1e4), math.nan, math.inf, math.nan, math.nan],
}


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", OF_FAR)
def test_the_ends_of_the_range_are_what_they_should_be(probe, real, name):
    np.testing.assert_allclose(values(probe, real, name, FAR)[1], OF_FAR[name], rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("real", REALS)
def test_tanh_keeps_the_sign_of_0(probe, real):
    assert [*np.signbit(values(probe, real, "tanh_", [0.0, -0.0])[1])] == [False, True]


def test_rows_that_end_within_a_vector_are_read_and_written_to_their_end_only(probe):
    probe["double"].tanh_.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    for n in range(1, 20):
        x, room = np.linspace(-2, 2, n), np.full(n + 8, 7.0)
        probe["double"].tanh_(x.ctypes.data, room.ctypes.data, n)
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
                rnn = discretize.DiscreteRNN(field, step, substeps=2, fused="always")
                rnn(x, ts=edges.requires_grad_())[0].sum().backward()
                assert rnn.stats["engine"] == "compiled", rnn.stats
            for method in ("dopri5", "tsit5", "dopri8"):
                rnn = discretize.ContinuousRNN(field, method, rtol=1e-3, atol=1e-4, fused="always")
                rnn(x, ts=edges.detach())[0].sum().backward()
                assert rnn.stats["engine"] == "compiled", rnn.stats
            if time > 1:
                path = ctrnn.LinearPath(x)
                start = field.initial_state(batch)
                asked = {"rtol": 1e-3, "atol": 1e-4, "fused": "always"}
                discretize.integrate(field, path, start, path.knots, **asked).hs.sum().backward()
                asked["gradient"] = discretize.Checkpointed(1e6)
                discretize.integrate(field, path, start, path.knots, **asked).hs.sum().backward()
print("all of it ran")
"""


OF_OWN_FIELDS = f"""
import sys, torch, ctrnn, discretize
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from own_fields import Axes, Many, Own
from discretize.kernels import price
torch.manual_seed(0)
torch.set_num_threads(2)
price.PRICE = 0
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
