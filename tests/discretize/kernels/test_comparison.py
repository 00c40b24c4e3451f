"""A kernel that gives other numbers than torch is found at its first call, and not used."""

import math

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, ExponentialEuler, KernelWarning
from discretize.kernels import eligibility
from discretize.kernels.build import Unavailable
from discretize.kernels.cpp import solving as kernel_run
from discretize.kernels.cpp.libraries import cells_library
from discretize.kernels.named import compiled_cells, reference
from discretize.kernels.named.kernel_spec import Kind


@pytest.fixture
def modules(monkeypatch):
    """A cell and a solve of one kind, in a process that has compared no kernel and given no warning."""
    try:
        cells_library(Kind("tanh", "sigmoid", False, 0.0), "euler", torch.float64)
    except Unavailable as error:
        pytest.skip(str(error))
    monkeypatch.setattr(reference, "_found", {})
    monkeypatch.setattr(eligibility, "_warned", False)
    return DiscreteRNN(ctrnn.gated(3, 5)), ContinuousRNN(ctrnn.gated(3, 5))


def test_kernels_that_agree_are_compared_once(modules):
    for rnn in modules:
        for _ in range(2):
            rnn(torch.randn(4, 2, 3))
        assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]
    assert list(reference._found.values()) == [None, None]


def test_a_comparison_does_not_depend_on_what_is_switched_on_around_it(modules):
    with torch.inference_mode():
        modules[0](torch.randn(4, 2, 3))
    with torch.no_grad(), torch.autocast("cpu", enabled=True):
        modules[1](torch.randn(4, 2, 3))
    assert list(reference._found.values()) == [None, None]


def off_by_a_thousandth(results):
    return lambda *given, **settings: tuple(x * 1.001 for x in results(*given, **settings))


def without_nan(results):
    return lambda *given, **settings: tuple(torch.nan_to_num(x) for x in results(*given, **settings))


@pytest.mark.parametrize(
    ("wrong", "words"), [(off_by_a_thousandth, "differ from torch by 0.00"), (without_nan, "do not keep nan")]
)
def test_a_cell_whose_kernel_is_wrong_runs_in_torch_and_says_so_once(modules, monkeypatch, wrong, words):
    rnn, x = modules[0], torch.randn(4, 2, 3)
    monkeypatch.setattr(compiled_cells, "forward", wrong(compiled_cells.forward))
    with pytest.warns(KernelWarning, match=f"{words}.*CTRNN_CXXFLAGS") as caught:
        output, _ = rnn(x)
    rnn(x)
    assert len(caught) == 1
    assert rnn.stats["engine"] == "torch"
    assert words in rnn.stats["engine_why"]
    assert_close(output, DiscreteRNN(rnn.field, fused=False)(x)[0], rtol=0, atol=1e-14)


def test_a_solve_whose_kernel_is_wrong_runs_by_steps_and_says_so(modules, monkeypatch):
    backward = kernel_run.KernelRun.backward
    monkeypatch.setattr(kernel_run.KernelRun, "backward", lambda run, grad: backward(run, 1.001 * grad))
    with pytest.warns(KernelWarning, match="differ from torch"):
        modules[1](torch.randn(4, 2, 3))
    assert modules[1].stats["engine"] == "steps"


@pytest.fixture
def subnormal_numbers():
    """Some compilers link code to -ffast-math that takes subnormal numbers for 0 in the whole process, from its loading on."""
    yield
    torch.set_flush_denormal(False)


@pytest.mark.slow
@pytest.mark.usefixtures("subnormal_numbers")
def test_fast_arithmetic_is_refused(modules, monkeypatch, tmp_path):
    monkeypatch.setenv("CTRNN_CXXFLAGS", "-ffast-math")
    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path))
    x = torch.randn(4, 2, 3)
    for rnn in (DiscreteRNN(ctrnn.gated(3, 5)), DiscreteRNN(ctrnn.lstm(3, 5), ExponentialEuler()), modules[1]):
        monkeypatch.setattr(eligibility, "_warned", False)
        with pytest.warns(KernelWarning, match="no -ffast-math"):
            output, _ = rnn(x)
        assert rnn.stats["engine"] != "compiled"
        assert math.isfinite(float(output.sum().detach()))


def test_a_first_call_may_be_under_checkpointing(modules):
    """Which counts what is saved for gradients, and must find as much again."""
    for rnn in modules:
        x = torch.randn(4, 2, 3, requires_grad=True)
        checkpoint(lambda x, rnn=rnn: rnn(x)[0], x, use_reentrant=False).sum().backward()
        assert x.grad is not None
