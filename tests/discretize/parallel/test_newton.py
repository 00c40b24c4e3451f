"""Newton's method over whole sequences against the steps one after the other, and gradients against autograd's through them."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize

FIELDS = [ctrnn.plain, ctrnn.gated, ctrnn.gru, ctrnn.lstm]
STEPS = [discretize.Euler(), discretize.Heun(), discretize.ExponentialEuler()]


def cell_of(make, step=STEPS[0], hidden=3):
    return discretize.DiscreteCell(make(2, hidden, generator=torch.Generator().manual_seed(0)), step)


@pytest.mark.parametrize(
    ("make", "step", "method"),
    [(make, STEPS[0], method) for make in FIELDS for method in ("newton", "quasi")]
    + [(ctrnn.gated, step, "newton") for step in STEPS[1:]],
)
def test_states_are_those_of_the_steps_one_after_the_other(make, step, method):
    cell, xs = cell_of(make, step), torch.randn(40, 2, 2)
    h0 = torch.randn(2, cell.field.state_size)
    found = discretize.unroll_parallel(cell, xs, h0, method=method)
    # A residual of 64 roundings, over 1 - L, which is no smaller than 0.01 for untrained cells.
    assert_close(found.hs, discretize.unroll(cell, xs, h0, fused=False).hs, rtol=0, atol=1e-11)
    assert found.stats["sequential_samples"] == 0
    assert found.stats["iterations"] < 40
    assert found.stats["residual"] < 1e-12


@pytest.mark.each_value
@pytest.mark.parametrize("make", FIELDS)
@pytest.mark.parametrize("method", ["newton", "quasi"])
def test_gradients_are_those_of_autograd_through_the_steps(make, method):
    cell, xs, h0 = cell_of(make), torch.randn(30, 2, 2, requires_grad=True), torch.randn(2, 6, requires_grad=True)
    h0 = h0[:, : cell.field.state_size]
    wanted, weights = [xs, h0, *cell.field.parameters()], torch.randn(31, 2, cell.field.state_size)
    ours = torch.autograd.grad((weights * discretize.unroll_parallel(cell, xs, h0, method=method).hs).sum(), wanted)
    steps = torch.autograd.grad((weights * discretize.unroll(cell, xs, h0, fused=False).hs).sum(), wanted)
    assert_close(ours, steps, rtol=1e-9, atol=1e-9)  # linear in the states, which agree to 1e-11


def test_k_iterations_make_the_first_k_states_exact_and_the_rest_follows_by_steps():
    field = ctrnn.plain(1, 20, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for weight in field.parameters():
            weight.mul_(12.0)  # chaotic
    cell, xs = discretize.DiscreteCell(field), torch.zeros(80, 1, 1)
    h0 = torch.randn(1, 20, generator=torch.Generator().manual_seed(2))
    with pytest.warns(discretize.SolverWarning, match="computed step by step"):
        found = discretize.unroll_parallel(cell, xs, h0, max_iterations=5)
    assert found.stats["iterations"] == 5
    assert 5 <= 80 - found.stats["sequential_samples"] < 80
    assert found.stats["residual"] < 1e-12  # the equations hold; in chaos the states of two orders of sums would differ
    first = discretize.unroll(cell, xs[:6], h0, fused=False).hs
    assert_close(found.hs[:6], first[:6], rtol=0, atol=1e-9)


def test_a_recurrence_that_is_diagonal_and_linear_needs_one_iteration():
    field = cell_of(ctrnn.gated, hidden=4).field
    with torch.no_grad():
        for weight in field.parameters():
            if weight.shape == (4, 4):
                weight.zero_()  # gates and candidates read the input only
    xs = torch.randn(500, 2, 2)
    found = discretize.unroll_parallel(discretize.DiscreteCell(field), xs, method="quasi")
    assert found.stats["iterations"] == 1
    assert_close(found.hs, discretize.unroll(discretize.DiscreteCell(field), xs, fused=False).hs, rtol=0, atol=1e-11)


def test_damping_changes_the_way_and_not_the_answer():
    cell, xs = cell_of(ctrnn.gru), torch.randn(40, 1, 2)
    found = [discretize.unroll_parallel(cell, xs, damping=damping) for damping in (0.0, 0.5, 1.0)]
    for one in found[1:]:
        assert_close(one.hs, found[0].hs, rtol=0, atol=1e-11)
    assert found[0].stats["iterations"] < found[1].stats["iterations"] <= found[2].stats["iterations"] <= 40


def test_the_residual_told_is_what_is_left_of_the_equations():
    cell, xs = cell_of(ctrnn.gru), torch.randn(40, 2, 2)
    found = discretize.unroll_parallel(cell, xs, torch.randn(2, 3), tolerance=1e-3)
    hs = found.hs.detach()
    ahead = torch.stack([cell(x, h) for x, h in zip(xs, hs[:-1], strict=True)]).detach()
    left = (hs[1:] - ahead).abs() / torch.maximum(ahead.abs(), hs.abs().cummax(0).values[:-1])
    assert 1e-12 < float(left.max()) <= 1e-3
    assert found.stats["residual"] == pytest.approx(float(left.max()), rel=1e-3)  # of differences of states, to their rounding


def test_wrong_calls_are_answered_in_words():
    cell, xs = cell_of(ctrnn.gated), torch.randn(4, 1, 2)
    with pytest.raises(ValueError, match='"newton" or "quasi"'):
        discretize.unroll_parallel(cell, xs, method="full")
    with pytest.raises(ValueError, match="between 0 and 1"):
        discretize.unroll_parallel(cell, xs, damping=2.0)
    hs = discretize.unroll_parallel(cell, xs).hs
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(hs.sum(), list(cell.parameters()), create_graph=True)


@pytest.mark.parametrize("method", ["newton", "quasi"])
@pytest.mark.parametrize("sizes", [(1e-7, 1e-7), (1e-7, 1e4)], ids=["small", "beside a large unit"])
def test_units_of_any_sizes_are_solved(method, sizes):
    class InUnits(ctrnn.VectorField):
        def flow(self, projected, h):
            s = torch.tensor(sizes, dtype=h.dtype)
            return s * (torch.tanh(3 * projected) - (h / s) ** 3 - 0.3 * h / s)

    torch.manual_seed(0)
    cell, xs, s = discretize.DiscreteCell(InUnits(1, 2), dt=0.2), torch.randn(30, 2, 1, dtype=torch.float32), torch.tensor(sizes)
    h0 = (torch.randn(2, 2) * s).float()
    h0[1] *= 1e-3
    found = discretize.unroll_parallel(cell, xs, h0, method=method)
    steps = discretize.unroll(cell, xs, h0, fused=False)
    assert_close(found.hs / s, steps.hs / s, rtol=0, atol=1e-4)  # 64 roundings of float32, and what the step keeps of them
    assert found.stats["iterations"] > 0


@pytest.mark.parametrize("step", [discretize.EulerMaruyama(), discretize.Milstein(), discretize.SRA1()])
@pytest.mark.parametrize("by", ["keys", "path"])
def test_states_and_gradients_with_noise_are_those_of_the_steps_along_the_same_path(step, by):
    field = ctrnn.Noisy(ctrnn.gated(2, 3), ctrnn.Noise(0.3)).double()
    cell, xs = discretize.DiscreteCell(field, step, dt=0.5), torch.randn(12, 4, 2)
    keys = discretize.noise_keys(1, 4)
    seed = keys if by == "keys" else discretize.BrownianPath(keys, torch.tensor([0.0, 2.5, 6.0]), 3)
    runs = [run(cell, xs, seed=seed).hs for run in (discretize.unroll, discretize.unroll_parallel)]
    assert_close(runs[1], runs[0], rtol=0, atol=1e-12)
    stepped, solved = (torch.autograd.grad(hs.sin().sum(), list(field.parameters())) for hs in runs)
    for one, other in zip(solved, stepped, strict=True):
        assert_close(one, other, rtol=1e-10, atol=1e-11)


def test_zoneout_that_draws_nothing_is_run_for_all_times_at_once():
    cell, xs = discretize.DiscreteCell(ctrnn.gru(2, 3), discretize.Zoneout(discretize.Euler(), 0.3).eval()), torch.randn(8, 2, 2)
    assert_close(discretize.unroll_parallel(cell, xs).hs, discretize.unroll(cell, xs).hs, rtol=0, atol=1e-12)
    cell.step.train()
    with pytest.raises(ValueError, match="it draws at each evaluation"):
        discretize.unroll_parallel(cell, xs)
