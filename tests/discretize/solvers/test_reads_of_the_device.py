"""How often a solve by steps reads its device, for which a GPU has to finish all that it was given: once a round of steps."""

from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode

import ctrnn
from discretize import integrate
from discretize.solvers import adaptive

READS = {"tolist", "item", "numpy", "cpu", "nonzero", "masked_select", "equal", "unique", "allclose"}
READS |= {"__bool__", "__float__", "__int__", "__index__", "__array__", "__contains__"}
AT_ALL = 60  # checks at the entrance, the guess of a first step, the hint at the end: however long the solve


class Reads(TorchFunctionMode):
    """Calls that give numbers to Python, or shapes that hang on values."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        masked = name == "__getitem__" and isinstance(args[1], torch.Tensor) and args[1].dtype == torch.bool
        if name in READS or masked:
            self.counts[name] += 1
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath])
def test_a_round_of_steps_reads_its_device_once_and_the_way_back_never(method, path, monkeypatch):
    rounds, one = [], adaptive._SegmentSolve._try
    monkeypatch.setattr(adaptive._SegmentSolve, "_try", lambda *call: (rounds.append(1), one(*call))[1])
    field = ctrnn.gated(3, 8)
    with torch.no_grad():
        for weights in field.parameters():
            weights.mul_(3)  # some steps are rejected, of some samples
    knots = torch.arange(31.0)
    xs, h0 = torch.randn(30 + (path is ctrnn.LinearPath), 8, 3), torch.zeros(8, 8, requires_grad=True)
    with Reads() as forward:
        solved = integrate(field, path(xs, knots), h0, knots[[0, -1]], method=method, rtol=1e-6, atol=1e-6, fused=False)
    with Reads() as back:
        solved.hs[-1].sum().backward()
    assert sum(solved.stats["rejected_steps_of_samples"]) > 0
    assert len(rounds) > 3 * AT_ALL
    assert forward.counts.total() <= len(rounds) + AT_ALL, forward.counts
    assert not back.counts
