"""A module that counts its calls in Python has a kernel, and its counter goes up as if it had been called."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import discretize
from discretize.kernels.record.counters import count_calls, without_counters
from discretize.kernels.record.recording import UnknownOperation


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2, dtype=torch.float64), 3

    def forward(self, t, h):
        self.calls += 1
        return torch.tanh(self.layer(h))


class OfClass(Counted):
    """Begins to count from what the class says."""

    calls = 3

    def __init__(self):
        super().__init__()
        del self.calls


class Twice(nn.Module):
    """Counts in a part, two at a time, and by an assignment."""

    def __init__(self):
        super().__init__()
        self.part, self.total = Counted(), 0

    def forward(self, t, h):
        self.total = self.total + 2
        return self.part(t, h) + self.part(t, -h)


class Read(Counted):
    def forward(self, t, h):
        return super().forward(t, h) if self.calls > 0 else h


class Said(Counted):
    def forward(self, t, h):
        return super().forward(t, h) * len(f"{self.calls:03d}")


def solve(func, fused):
    h0, ts = torch.tensor([[0.3, -0.2]], dtype=torch.float64), torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    return discretize.integrate(func, None, h0, ts, fused=fused)


@pytest.mark.parametrize(("kind", "counts"), [(Counted, ("calls",)), (Twice, ("part.calls", "total"))])
def test_counters_are_after_a_kernel_what_they_are_after_steps(kind, counts):
    func = kind()
    found, solves = [], []
    for fused in (False, "always", "always"):
        before = [int(str(_get(func, name))) for name in counts]
        solves.append(solve(func, fused))
        found.append([_get(func, name) - old for name, old in zip(counts, before, strict=True)])
    assert [each.stats["engine"] for each in solves] == ["steps", "compiled", "compiled"], solves[-1].stats["engine_why"]
    checked = (1, 1, 0)  # evaluations before each solve, but where a kernel is known
    each = {"calls": 1, "part.calls": 2, "total": 2}
    for solved, counted, looks in zip(solves, found, checked, strict=True):
        assert counted == [each[name] * (solved.stats["nfe"] + looks) for name in counts]
    assert_close(solves[1].hs, solves[0].hs, rtol=1e-9, atol=1e-12)


def test_a_counter_that_the_class_begins_is_counted_by_a_first_solve_in_a_kernel():
    func = OfClass()
    solved = solve(func, "always")
    assert (solved.stats["engine"], func.calls) == ("compiled", 3 + solved.stats["nfe"] + 1)  # and one that compared the record
    assert OfClass.calls == 3


def _get(module, name):
    *parts, last = name.split(".")
    return getattr(module.get_submodule(".".join(parts)), last)


@pytest.mark.parametrize("kind", [Read, Said])
def test_code_that_reads_its_counter_is_not_recorded(kind):
    func, h = kind(), torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(UnknownOperation, match="reads a number that it counts up"):
        without_counters(func)(None, h)
    func(None, h)
    assert func.calls == 4


def test_a_module_that_counts_nothing_is_left_alone_and_nothing_is_called():
    module = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    assert without_counters(module) is module
    count_calls(module, 5, lambda: pytest.fail("called"))
