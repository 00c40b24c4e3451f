"""Solves of fields of a few units, for which kernels take samples side by side: against the engine in torch."""

from collections import OrderedDict
from contextlib import nullcontext

import pytest
import torch
from conformance import agree, kernels_for_all, solve
from own_fields import Own
from own_methods import METHODS, Mixed
from torch.testing import assert_close

import ctrnn
from discretize import SolverError, SolverWarning, integrate
from discretize.kernels import registry as written_kernels
from discretize.kernels.cpp import lanes, rows, solves

SAME = {"rtol": 1e-9, "atol": 1e-10}  # the same steps, other sums
TIGHT = {"rtol": 1e-6, "atol": 1e-6}
BY_CODE, DAILY = {**METHODS, "Mixed": Mixed()}, ("Mixed", "Blind")


@pytest.fixture(autouse=True)
def written(monkeypatch):
    """The kernels that are made, each by its writer."""
    made, program = [], written_kernels.Recorder.program

    def noted(recorder, module, wanted, dtype, write):
        made.append(write)
        return program(recorder, module, wanted, dtype, write)

    monkeypatch.setattr(written_kernels.Recorder, "program", noted)
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    monkeypatch.setattr(written_kernels, "_uses", {})
    return made


def normal(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_told_is_what_rows_tell(seed, monkeypatch):
    """Of a sample that is stiff, that needs steps forced at their least, and that is cut short, among others."""
    torch.manual_seed(seed)
    field, path = Own(3, 3), ctrnn.HeldPath(3 * normal(4, 17, 3, seed=seed))
    h0, told = 5 * normal(17, 6, seed=seed), []
    for most in (6, 0):
        monkeypatch.setattr(solves, "MOST_UNITS_IN_LANES", most)
        with pytest.warns(SolverWarning) if seed == 1 else nullcontext():
            solved = integrate(field, path, h0, path.knots, **TIGHT, **([{}, {"min_step": 0.2}, {"max_step": 0.3}][seed]))
        told.append(solved.stats)
    keys = set(told[0]) - {"engine_why", "smallest_step"}
    assert {key: str(told[0][key]) for key in keys} == {key: str(told[1][key]) for key in keys}


def test_neighbours_and_threads_change_no_bit_of_a_sample(written):
    torch.manual_seed(2)
    field, ts, threads = Own(3, 3), torch.arange(5.0, dtype=torch.float64), torch.get_num_threads()
    x, h0 = normal(4, 90, 3), normal(90, 6)
    field.project = lambda x: torch.cat([x, x.flip(-1)], -1)  # a product is torch's, and may sum otherwise in another batch
    found = []

    def solved(part):
        # Held, and the first step given: joined samples are read by a product, and a first step is guessed by torch's functions.
        path = ctrnn.HeldPath(x[:, part], ts)
        return integrate(field, path, h0[part], ts, first_step=0.05, **TIGHT).hs

    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(solved(slice(None)))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)
    for part in ([7], [89, 3, 40], list(range(89, 40, -1))):
        assert torch.equal(solved(part), found[0][:, part])
    assert written == [lanes.lane_written]  # whose numbers, gradients too, were found right at its first use: else rows follow


def test_a_sample_that_fails_is_found_among_others(written):
    class Growing(ctrnn.VectorField):
        def flow(self, projected, h):
            return h * h

    h0 = torch.full((40, 1), 0.1, dtype=torch.float64)
    h0[23] = 1.0
    path = ctrnn.HeldPath(torch.zeros(4, 40, 1, dtype=torch.float64), torch.arange(5.0, dtype=torch.float64) / 2)
    with pytest.raises(SolverError, match=r"t = (0\.9|1)") as raised:
        integrate(Growing(1, 1), path, h0, path.knots, **TIGHT)
    assert raised.value.trajectory.stats["engine"] == "compiled"
    assert written == [lanes.lane_written]
    others = [k for k in range(40) if k != 23]
    assert_close(raised.value.trajectory.hs[1, others], 1 / (1 / h0[others] - 0.5), rtol=1e-6, atol=0)  # dh/dt = h^2


def test_a_sample_that_is_not_finite_spoils_no_other():
    class Root(ctrnn.VectorField):
        def flow(self, projected, h):
            return -(h.sqrt())

    h0 = torch.linspace(1.0, 3.0, 20, dtype=torch.float64)[:, None].requires_grad_()
    solved = integrate(Root(0, 1), None, h0, [0.0, 0.5], **TIGHT)
    exact = (h0.detach().sqrt() - 0.25) ** 2
    assert_close(solved.hs[-1].detach(), exact, rtol=1e-6, atol=0)
    (found,) = torch.autograd.grad(solved.hs[-1].sum(), h0)
    assert_close(found, exact.sqrt() / h0.detach().sqrt(), rtol=1e-5, atol=0)  # nobody's lanes begin at 0, where 1 / sqrt is not


@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("batch", [17, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 33))])
@pytest.mark.parametrize("width", [3, pytest.param(7, marks=pytest.mark.slow)])  # in lanes, and in rows
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in DAILY else pytest.mark.slow) for name in BY_CODE])
def test_a_method_by_code_steps_samples_side_by_side_as_torch_does(name, width, batch, dtype, written):
    """On a clock, along joined samples."""
    field, double = ctrnn.gated(2, width, generator=torch.Generator().manual_seed(0)).to(dtype), dtype == torch.float64
    ts = torch.tensor([0.0, 0.4, 1.1, 1.5], dtype=torch.float64)
    x, h0 = normal(4, batch, 2).to(dtype).requires_grad_(), normal(batch, width).to(dtype).requires_grad_()
    clock = ctrnn.SmoothWarp(1.5, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
    how = {"method": BY_CODE[name], "rtol": 1e-3, "atol": 1e-3, "counted": double}
    # In float32 another rounding may make another step of one that is just accepted.
    run = solve(field, lambda x: (ctrnn.WarpedPath(ctrnn.LinearPath(x, ts), clock), clock.speed), x, h0, **how)
    agree("compiled", run, 1e-11 if double else 1e-2)
    assert (lanes.lane_written in written, rows.written in written) == (width == 3, width == 7)


def test_what_goes_back_is_counted_as_it_is_evaluated(monkeypatch):
    field, x, h0 = ctrnn.gated(2, 3).double(), normal(4, 5, 2), normal(5, 3).requires_grad_()
    for most in (6, 0):  # in lanes, and in rows
        monkeypatch.setattr(solves, "MOST_UNITS_IN_LANES", most)
        with kernels_for_all("compiled"):
            solved = integrate(field, ctrnn.HeldPath(x), h0, torch.arange(5.0), method="dopri5", **TIGHT)
            solved.hs.sum().backward()
        assert solved.stats["engine"] == "compiled"
        assert solved.stats["nfe_backward"] == 6 * max(solved.stats["accepted_steps_of_samples"])  # six slopes lead to a state


@pytest.mark.records  # a program that is kept is not written again
def test_code_that_is_too_long_goes_row_by_row(monkeypatch, written):
    monkeypatch.setattr(lanes, "MOST_OPERATIONS", 20)
    torch.manual_seed(0)
    path = ctrnn.HeldPath(normal(3, 5, 3))
    assert integrate(Own(3, 3), path, normal(5, 6), path.knots, **TIGHT).stats["engine"] == "compiled"
    assert [write is lanes.lane_written for write in written] == [True, False]
