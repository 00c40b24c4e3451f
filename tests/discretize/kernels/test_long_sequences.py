"""Where a kernel runs, Python does the same for a sequence of any length: nothing for each sample."""

import sys
import tracemalloc

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Checkpointed, ContinuousRNN, integrate

SHORT, LONG = 300, 1_300  # samples
BYTES = 250  # of Python's and NumPy's memory for a sample; an object of torch takes more than that


def solved(field, samples, learns=False, path="held", stamps="none", lengths=None, **settings):
    """Returns states and what they were solved from, by a kernel."""
    torch.manual_seed(0)
    x = torch.randn(samples, 2, 1).requires_grad_(learns)
    rnn = ContinuousRNN(field, path=path, fused="always", **settings)
    ts = torch.arange(samples + 1.0)[: None if path == "held" else samples]
    times = {"none": None, "shared": ts, "own": torch.stack([ts, 1.5 * ts], 1), "learned": ts.requires_grad_(learns)}[stamps]
    output, _ = rnn(x, ts=times, lengths=lengths and [samples, int(samples * lengths)])
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]
    if learns:
        output.square().mean().backward()
    return output, x, times


def calls_of(work):
    """Counts calls of functions in Python."""
    count = 0

    def profile(frame, event, _):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


CASES = {
    "held": {},
    "held, with gradients": {"learns": True},
    "linear": {"path": "linear", "learns": True},
    "hermite": {"path": "hermite"},
    "own times": {"stamps": "own", "learns": True},
    "own times, linear": {"stamps": "own", "path": "linear"},
    "lengths": {"lengths": 0.5, "learns": True},
    "times that are learned": {"stamps": "learned", "learns": True},
    "steps of fixed length": {"method": "rk4", "learns": True},
    "blocks": {"gradient": Checkpointed(1e7), "learns": True},
}


@pytest.mark.by_default(5)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_longer_sequence_calls_no_more_functions(case):
    field = ctrnn.leaky(1, 1)
    for samples in (SHORT, LONG):
        solved(field, samples, **case)
    short, long = (calls_of(lambda samples=samples: solved(field, samples, **case)) for samples in (SHORT, LONG))
    assert long - short < 10


@pytest.mark.by_default(5)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_sample_takes_numbers_and_no_objects(case):
    field, peaks = ctrnn.leaky(1, 1), []
    for samples in (SHORT, SHORT, LONG):
        tracemalloc.start()
        try:
            solved(field, samples, **case)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[-1] - peaks[-2] < 2 * BYTES * (LONG - SHORT)


@pytest.mark.parametrize("stamps", ["shared", "own"])
@pytest.mark.parametrize("path", ["held", "linear"])
def test_steps_read_a_long_input_as_the_kernel_does(path, stamps, monkeypatch):
    monkeypatch.setattr("ctrnn.inputs.segment_input.BLOCK", 4)
    field, found = ctrnn.leaky(1, 1), []
    for fused in ("always", False):
        torch.manual_seed(0)
        x, ts = torch.randn(14, 2, 1, requires_grad=True), torch.arange(15.0)[: None if path == "held" else 14]
        ts = (ts if stamps == "shared" else torch.stack([ts, 1.5 * ts], 1)).requires_grad_()
        rnn = ContinuousRNN(field, rtol=1e-3, atol=1e-3, path=path, fused=fused)
        output, _ = rnn(x, ts=ts)
        found.append([output, *torch.autograd.grad(output.square().mean(), [x, ts, *field.parameters()])])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ts", [[0.0, 29.5, 30.0], [[0.0, 1.0], [29.0, 2.0], [29.0, 29.0]]], ids=["shared", "own"])
def test_few_states_of_a_long_input_are_those_of_all(ts):
    # Its times are few of the edges; those of a sequence may repeat.
    field, path, h0, times = ctrnn.leaky(1, 1), ctrnn.HeldPath(torch.randn(30, 2, 1)), torch.zeros(2, 1), torch.tensor(ts)
    few, every = (integrate(field, path, h0, times, fused=fused, rtol=1e-9, atol=1e-9) for fused in ("always", False))
    assert few.stats["engine"] == "compiled"
    assert_close(few.hs, every.hs, rtol=1e-7, atol=1e-9)
