"""How often a solve by steps waits for its device, and that it solves there what it solves on the CPU."""

from collections import Counter

import pytest
import torch
from fake_device import DEVICE, FakeDevice
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, Euler, SolverError, integrate
from discretize.solvers import adaptive

CPU = torch.device("cpu")
AT_ALL = 60  # moving the field, checks at the entrance, the guess of a first step, the hint at the end: however long the solve


def wave(device):
    """A function of one time, which all samples read together."""
    phases = torch.arange(8.0, dtype=torch.float64, device=device).view(4, 2)
    return ctrnn.FunctionPath(lambda t: torch.sin(3 * t.to(device, non_blocking=True) + phases), (0.0, 2.0), 2)


def sampled(kind, knots, own=False):
    def path(device):
        xs = torch.randn(len(knots) - (kind is ctrnn.HeldPath), 4, 2, dtype=torch.float64)
        return kind(xs.to(device), knots[:, None] * torch.linspace(0.5, 1.0, 4) if own else knots)

    return path


LONG, SHORT = torch.tensor([0.0, 12.0]), torch.arange(0.0, 13.0, 3.0)
SOME_SAMPLES = (
    sampled(ctrnn.HeldPath, SHORT[:3]),
    {"rtol": 1e-4, "atol": 1e-4},
    12,
)  # the path, settings, and how many looks are enough; None: one a round
SLOW_CASES = {
    "one straight line": (sampled(ctrnn.LinearPath, LONG), {}, 14),
    "a function of time": (wave, {}, None),
    "one held sample": (sampled(ctrnn.HeldPath, LONG), {}, 14),
    "an implicit method": (sampled(ctrnn.LinearPath, LONG), {"method": "rodas5p"}, 14),
    "a cubic, times of each": (sampled(ctrnn.HermitePath, SHORT, own=True), {}, 20),
    "states that are kept": (sampled(ctrnn.LinearPath, SHORT), {"ts": torch.linspace(0.0, 12.0, 7)}, 40),
    "blocks of steps": (sampled(ctrnn.LinearPath, LONG), {"gradient": Checkpointed(2_000_000)}, 30),
    "the adjoint": (sampled(ctrnn.LinearPath, LONG), {"gradient": Adjoint(), "rtol": 1e-4, "atol": 1e-4}, None),
}


def solve(device, path, settings, waits):
    """The states, gradients to h0 and weights, on the CPU; statistics; and what of the waits is of the solve."""
    torch.manual_seed(0)
    field = ctrnn.gated(2, 4, dtype=torch.float64)
    with torch.no_grad():
        for weights in field.parameters():
            weights.mul_(4)  # some steps are rejected, of some samples
    field, h0 = field.to(device), torch.randn(4, 4, dtype=torch.float64).to(device).requires_grad_()
    path = path(device)
    result = integrate(field, path, h0, **{"ts": path.knots[[0, -1]], "rtol": 1e-6, "atol": 1e-6, "fused": False} | settings)
    forwards = waits.copy()
    found = torch.autograd.grad(result.hs.square().sum(), [h0, *field.parameters()])
    back = waits - forwards
    return [x.detach().cpu() for x in (result.hs, *found)], result.stats, forwards, back


def check(path, settings, looks):
    here, stats, *_ = solve(CPU, path, settings, Counter())
    with FakeDevice() as device:
        there, same, forwards, back = solve(DEVICE, path, settings, device.waits)
    assert_close(there, here, rtol=1e-9, atol=1e-9)
    kinds = [f"{kind}_of_samples" for kind in ("steps", "accepted_steps", "rejected_steps")]
    assert [same[kind] for kind in kinds] == [stats[kind] for kind in kinds]
    assert max(stats["rejected_steps_of_samples"]) > 0
    assert forwards.total() <= AT_ALL + (looks or same["num_steps"]), forwards
    if looks is not None:
        assert looks < same["num_steps"]
        assert sum(count for where, count in forwards.items() if "adaptive" in where or "control" in where) <= looks, forwards
    assert settings.get("gradient") is not None or not back


def test_a_device_solves_as_the_cpu_does_and_waits_seldom():
    check(*SOME_SAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_CASES)
def test_other_solves_on_a_device(name):
    check(*SLOW_CASES[name])


class Root(ctrnn.VectorField):
    """dh/dt = -a sqrt(h) + x: a step that goes below 0 is not a number."""

    def __init__(self):
        super().__init__(1, 2)
        self.a = torch.nn.Parameter(torch.tensor([0.5, 1.0], dtype=torch.float64))

    def flow(self, x, h):
        return x - self.a * h.sqrt()


def rooted(device, end, **settings):
    field, h0 = Root().to(device), torch.ones(3, 2, dtype=torch.float64, device=device, requires_grad=True)
    path = ctrnn.HeldPath(torch.zeros(1, 3, 1, dtype=torch.float64, device=device), torch.tensor([0.0, end]))
    return field, h0, integrate(field, path, h0, torch.tensor([0.0, end]), fused=False, **settings)


def gradients(device, end):
    field, h0, result = rooted(device, end, rtol=1e-3, atol=1e-3)
    return [x.cpu() for x in torch.autograd.grad(result.hs[-1].sum(), [h0, field.a])]


def test_rounds_in_which_a_step_fails_are_taken_one_by_one(monkeypatch):
    undone, unseen = [], adaptive._SegmentSolve._try_unseen
    monkeypatch.setattr(adaptive._SegmentSolve, "_try_unseen", lambda *call: (undone.append(went := unseen(*call)), went)[1])
    here = gradients(CPU, 1.999)
    with FakeDevice():
        there = gradients(DEVICE, 1.999)
    assert not all(undone)
    assert any(undone)
    assert all(bool(torch.isfinite(x).all()) for x in here)
    assert_close(there, here)


@pytest.mark.slow
@pytest.mark.parametrize(("end", "settings"), [(2.5, {}), (1.9, {"max_num_steps": 7}), (2.5, {"on_failure": "keep"})])
def test_failures_are_told_as_on_the_cpu(end, settings):
    said = []
    for device in (CPU, DEVICE):
        with FakeDevice(), torch.no_grad():
            try:
                said.append(rooted(device, end, **settings)[2].stats["status_of_samples"])
            except SolverError as error:
                said.append(str(error))
    assert said[0] == said[1]
    assert "not enough" in str(said) or "the field gives nan there" in str(said)


def stepped(device, method):
    """Forty steps, in the twenty-first of which h = 1 - k / 20 is below 0 and has no root."""
    path = ctrnn.HeldPath(torch.zeros(40, 3, 1, dtype=torch.float64, device=device), 0.1 * torch.arange(41.0))
    h0 = torch.ones(3, 2, dtype=torch.float64, device=device)
    return integrate(Root().to(device), path, h0, path.knots, method=method)


@pytest.mark.parametrize("method", ["rk4", Euler()])
def test_fixed_steps_are_looked_at_seldom_and_fail_where_they_do(method):
    said, got = [], []
    for device in (CPU, DEVICE):
        with FakeDevice() as fake, pytest.raises(SolverError) as raised, torch.no_grad():
            stepped(device, method)
        said.append(str(raised.value))
        got.append(raised.value.trajectory.hs if device is CPU else raised.value.trajectory.hs.here)
    assert said[0] == said[1]
    assert len(got[0]) < 40
    assert_close(*got)
    assert sum(count for where, count in fake.waits.items() if "checks" in where) < 20, fake.waits
