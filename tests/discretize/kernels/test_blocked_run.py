"""Compiled solves within so many bytes: the states and gradients of the solve that keeps all of its steps."""

import itertools
from contextlib import nullcontext

import pytest
import torch
from conformance import kernels_for_all
from torch.testing import assert_close

import ctrnn
from discretize import Checkpointed, SolverError, integrate
from discretize.kernels.cpp import blocks as blocked_run
from discretize.kernels.cpp import solving

T, BATCH = 40, 5
A_STEP = 2 * (4 * 8 + 24)  # bytes, of four float64, with room to grow
FEW_STEPS = 120 * A_STEP


@pytest.fixture(autouse=True)
def short_solves():
    with kernels_for_all("compiled"):
        yield


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that are solved, as (first, end, steps that are kept)."""
    found, solve = [], blocked_run.KernelRun.forward

    def noted(run, *tensors):
        hs = solve(run, *tensors)
        found.append((len(run.chain), run.keep > 0, int(run.engine.counts.accepted.sum())))
        return hs

    monkeypatch.setattr(blocked_run.KernelRun, "forward", noted)
    return found


def field(kind="gated"):
    return getattr(ctrnn, kind)(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def normal(*sizes):
    return torch.randn(*sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def times(own):
    ts = torch.arange(T + 1, dtype=torch.float64)
    return ts if not own else torch.linspace(0.5, 1.5, BATCH, dtype=torch.float64) * ts[:, None]


def answers(made, kind, own, gradient, wanted=slice(None), **settings):
    x, h0 = normal(T + (kind is ctrnn.LinearPath), BATCH, 3).requires_grad_(), normal(BATCH, 4).requires_grad_()
    solved = integrate(made, kind(x, times(own)), h0, times(own)[wanted], gradient=gradient, rtol=1e-4, atol=1e-5, **settings)
    assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
    gradients = torch.autograd.grad(solved.hs.sin().sum(), [x, h0, *made.parameters()], materialize_grads=True, allow_unused=True)
    return solved, gradients


def compare(made, kind, own, **settings):
    (whole, all_kept), (blocked, bounded) = (
        answers(made, kind, own, gradient, **settings) for gradient in (None, Checkpointed(FEW_STEPS))
    )
    assert torch.equal(whole.hs, blocked.hs)
    for name in ("steps", "accepted_steps", "rejected_steps"):
        assert whole.stats[f"{name}_of_samples"] == blocked.stats[f"{name}_of_samples"]
    assert whole.stats["smallest_step_at"] == blocked.stats["smallest_step_at"]
    for mine, theirs in zip(bounded, all_kept, strict=True):
        assert_close(mine, theirs, rtol=1e-11, atol=1e-11)  # the same steps back, added in another order


@pytest.mark.parametrize(("kind", "own"), [(ctrnn.HeldPath, False), (ctrnn.LinearPath, True), (ctrnn.HeldPath, True)])
def test_states_are_those_of_one_piece_to_the_bit_and_gradients_to_rounding(kind, own):
    # The first takes seconds: it builds what the others find.
    compare(field(), kind, own)


def test_a_clock_runs_through_blocks_as_through_one_piece():
    warp = ctrnn.SmoothWarp(float(T), torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
    compare(field(), lambda x, ts: ctrnn.WarpedPath(ctrnn.HeldPath(x, ts), warp), False, speed=warp.speed)


def test_edges_that_nobody_asked_for_end_blocks_too():
    compare(field(), ctrnn.HeldPath, False, wanted=slice(0, None, T))
    compare(field(), ctrnn.HeldPath, False, wanted=slice(7, 30, 4))


def test_no_block_keeps_more_than_may_be_kept(blocks):
    for _ in range(2):  # the first may be where a new kernel is compared with torch, in blocks of its own
        blocks.clear()
        answers(field(), ctrnn.HeldPath, False, Checkpointed(FEW_STEPS))
    back = [(segments, steps) for segments, keeps, steps in blocks if keeps]
    assert sum(segments for segments, _ in back) == T
    assert len(back) > 2
    assert max(steps * A_STEP for _, steps in back) <= FEW_STEPS


def test_a_step_carried_into_a_block_is_the_one_that_was_proposed(blocks):
    """Fewer bytes, more blocks, and the same count of steps."""
    counts = []
    for memory in (FEW_STEPS, 4 * FEW_STEPS, 1e9):
        blocks.clear()
        solved, _ = answers(field(), ctrnn.HeldPath, False, Checkpointed(memory))
        counts.append((len(blocks), solved.stats["num_steps"]))
    assert all(more > fewer for (more, _), (fewer, _) in itertools.pairwise(counts))
    assert len({steps for _, steps in counts}) == 1


def test_every_block_is_solved_once_more_for_gradients_and_counted():
    for _ in range(2):  # the first may be where a new kernel is compared with torch
        solved, _ = answers(field(), ctrnn.HeldPath, False, Checkpointed(FEW_STEPS))
    assert solved.stats["nfe_backward"] == solved.stats["nfe"] > 0


def test_progress_counts_the_segments_of_all_blocks(monkeypatch):
    answers(field(), ctrnn.HeldPath, False, Checkpointed(FEW_STEPS))
    seen = []
    monkeypatch.setattr("discretize.loop.solving.progress_bar", lambda *_: nullcontext(seen.append))
    monkeypatch.setattr(solving, "SLICE", 1e-6)  # seconds, after which it is shown
    x, h0 = normal(T, BATCH, 3), normal(BATCH, 4).requires_grad_()
    integrate(field(), ctrnn.HeldPath(x), h0, times(False), gradient=Checkpointed(FEW_STEPS), rtol=1e-4, atol=1e-5)
    assert T / 2 < max(seen) <= T
    assert seen == sorted(seen)


def test_an_interval_that_needs_more_is_solved_in_torch():
    x, ts = normal(2, BATCH, 3), torch.arange(3.0)
    solved = integrate(field(), ctrnn.HeldPath(x, ts), normal(BATCH, 4), ts, gradient=Checkpointed(A_STEP), rtol=1e-4, atol=1e-5)
    assert "the steps of one interval alone take more than" in solved.stats["engine_why"]


def test_there_are_no_second_derivatives():
    made, x = field(), normal(T, BATCH, 3).requires_grad_()
    solved = integrate(made, ctrnn.HeldPath(x), normal(BATCH, 4), times(False), gradient=Checkpointed(FEW_STEPS), rtol=1e-4)
    (gradient,) = torch.autograd.grad(solved.hs.sin().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives with `gradient=Checkpointed`"):
        gradient.sum().backward()


def test_a_failure_has_the_words_and_states_of_one_piece():
    said, x = [], normal(T, BATCH, 3)
    x[:25] *= 0.01  # rest, so that it fails in a later block
    for gradient in (None, Checkpointed(FEW_STEPS)):
        given = {"gradient": gradient, "rtol": 1e-4, "atol": 1e-5, "max_num_steps": 3}
        path, h0 = ctrnn.HeldPath(x), normal(BATCH, 4).requires_grad_()
        with pytest.raises(SolverError) as raised:
            integrate(field(), path, h0, times(False), **given)
        solved = raised.value.trajectory
        assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
        said.append((str(raised.value), solved.hs.detach()))
    assert said[0][0] == said[1][0]
    assert "3 steps were not enough" in said[0][0]
    assert torch.equal(said[0][1], said[1][1])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dopri8", "rodas5p"])
def test_written_kernels_too(method):
    compare(field("gru") if method == "rodas5p" else ctrnn.ltc(3, 4, dtype=torch.float64), ctrnn.LinearPath, False, method=method)
