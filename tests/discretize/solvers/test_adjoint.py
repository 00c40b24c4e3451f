"""The adjoint's gradient is that of the exact solution, in one sweep back, and never silently none."""

import math

import problems
import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, integrate

PATHS = {"held": ctrnn.HeldPath, "linear": ctrnn.LinearPath, "hermite": ctrnn.HermitePath}


def gradients(field, kind="held", own=False, seed=0, **settings):
    """dL/d(samples, start, weights) for a loss on states at several times, shared or of each sequence."""
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(6, 4, 2, generator=generator, dtype=torch.float64).requires_grad_()
    h0 = torch.randn(4, field.state_size, generator=generator, dtype=torch.float64).requires_grad_()
    ts = torch.tensor([0.0, 0.5, 2.2, 4.9])
    if own:
        ts = ts[:, None] * torch.linspace(0.5, 1, 4)
    weight = torch.randn(4, 4, field.state_size, generator=generator, dtype=torch.float64)
    solved = integrate(field, PATHS[kind](xs), h0, ts, **settings)
    return torch.autograd.grad((solved.hs * weight).sum(), [xs, h0, *field.parameters()]), solved


@pytest.mark.parametrize(("name", "kind", "own"), [("lstm", "linear", True), ("gated power 2", "hermite", False)])
def test_the_adjoint_is_the_gradient_of_the_exact_solution(name, kind, own):
    field = problems.NAMED_FIELDS[name](2, 3)
    exact, _ = gradients(field, kind, own, method="dopri8", rtol=1e-8, atol=1e-8)
    adjoint, _ = gradients(field, kind, own, rtol=1e-5, atol=1e-5, gradient=Adjoint())
    for ours, expected in zip(adjoint, exact, strict=True):
        # Up to 2 tolerances seen; sums over 4 samples and 4 times.
        assert_close(ours, expected, rtol=0, atol=2e-4 * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize(
    "method", ["bosh3", *(pytest.param(slow, marks=pytest.mark.slow) for slow in ("adaptive_heun", "tsit5", "dopri8"))]
)
def test_every_explicit_pair_has_its_adjoint(method):
    field = problems.NAMED_FIELDS["gated per unit"](2, 3)
    tolerance = 1e-6 if method == "dopri8" else 1e-4
    exact, _ = gradients(field, "linear", method="dopri8", rtol=1e-8, atol=1e-8)
    adjoint, _ = gradients(field, "linear", method=method, rtol=tolerance, atol=tolerance, gradient=Adjoint())
    for ours, expected in zip(adjoint, exact, strict=True):
        assert_close(ours, expected, rtol=0, atol=20 * tolerance * max(1.0, float(expected.abs().max())))


def test_at_rest_where_no_step_has_an_error_the_adjoint_takes_steps_of_its_own():
    class Forgets(ctrnn.VectorField):
        def flow(self, projected, h):
            return -0.9 * h

    def off(**settings):
        h0 = torch.zeros(1, 1, requires_grad=True)  # where it stays: every step is accepted, however long
        path, ts = ctrnn.HeldPath(torch.zeros(2, 1, 1)), torch.tensor([0.0, 2.0])
        integrate(Forgets(1, 1), path, h0, ts, rtol=1e-10, atol=1e-10, **settings).hs[-1].sum().backward()
        return abs(float(h0.grad) - math.exp(-1.8))

    assert off(gradient=Adjoint()) < 1e-10
    assert off() > 1e-5  # that of the steps taken, as docs/promises.md says
    assert off(max_step=0.01) < 1e-10


def test_of_a_function_of_time_alone_the_start_has_a_gradient_of_one():
    h0 = torch.zeros(2, 1, requires_grad=True)
    solved = integrate(lambda t, h: torch.cos(t).expand_as(h), None, h0, [0.0, 1.0, 2.0], gradient=Adjoint())
    (slope,) = torch.autograd.grad(solved.hs[1:].sum(), h0)
    assert_close(slope, torch.full((2, 1), 2.0), rtol=0, atol=0)


def test_what_forgets_fast_does_not_explode_on_the_way_back():
    # Run back freely over one sample, a rate of 15 multiplies what is off by e^15; torchdiffeq's adjoint does that.
    field = ctrnn.leaky(2, 3, alpha=15.0)
    exact, _ = gradients(field, method="dopri8", rtol=1e-5, atol=1e-5)
    adjoint, _ = gradients(field, rtol=1e-4, atol=1e-4, gradient=Adjoint())
    for ours, expected in zip(adjoint, exact, strict=True):
        assert_close(ours, expected, rtol=1e-2, atol=2e-3)


def test_a_tiny_cotangent_is_carried_back_as_exactly_as_one_of_size_one():
    # A mean over a long batch sends gradients of 1e-9; measured against atol they would be nothing.
    field = problems.NAMED_FIELDS["gru"](2, 3)
    path, h0 = ctrnn.HeldPath(torch.randn(5, 4, 2)), torch.randn(4, 3)

    def gradient(scale, **settings):
        hs = integrate(field, path, h0, torch.arange(6.0), **settings).hs
        return torch.autograd.grad(scale * hs.square().sum(), list(field.parameters()))

    exact = gradient(1.0, method="dopri8", rtol=1e-8, atol=1e-8)
    for ours, expected in zip(gradient(1e-9, rtol=1e-5, atol=1e-5, gradient=Adjoint()), exact, strict=True):
        assert_close(1e9 * ours, expected, rtol=1e-3, atol=1e-4)


def test_a_captured_tensor_is_refused():
    captured = torch.randn(2, requires_grad=True)

    class Captures(ctrnn.VectorField):
        def flow(self, projected, h):
            return captured * projected - h

    field, path, h0 = Captures(2, 2), ctrnn.HeldPath(torch.randn(3, 4, 2)), torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"a tensor of shape \(2,\) that requires one is used besides"):
        integrate(field, path, h0, torch.arange(4.0), gradient=Adjoint())
    with pytest.raises(ValueError, match="that requires one is used besides"):
        integrate(field, path, h0, torch.arange(4.0), gradient=Checkpointed(1e6))
    integrate(field, path, h0, torch.arange(4.0)).hs.sum().backward()
    assert captured.grad.abs().sum() > 0


def test_sequence_modules_take_the_adjoint():
    field = problems.NAMED_FIELDS["lstm"](2, 3)
    x, lengths = torch.randn(4, 3, 2), [4, 1, 2]

    def gradient(**settings):
        output, h_n = ContinuousRNN(field, rtol=1e-7, atol=1e-7, **settings)(x, lengths=lengths)
        return torch.autograd.grad(output.square().sum() + h_n.sum(), list(field.parameters()))

    for ours, expected in zip(gradient(gradient=Adjoint()), gradient(), strict=True):
        assert_close(ours, expected, rtol=0, atol=1e-6)


def test_one_sweep_serves_all_requested_times():
    field, h0, xs = problems.NAMED_FIELDS["gated per unit"](2, 3), torch.randn(4, 3), torch.randn(1, 4, 2)
    ts = torch.linspace(0, 1, 21)
    solved = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-6, atol=1e-6, gradient=Adjoint())
    solved.hs.square().sum().backward()
    # One step back for each requested time, at 7 evaluations; the first segments took several, and are solved again, as 8 more
    # are, to see whether the field is the same.
    assert 0 < solved.stats["nfe_backward"] <= 20 * 7 + 60 + 8 * 6


def test_the_adjoint_keeps_no_graph_of_the_steps():
    field = problems.NAMED_FIELDS["gated per unit"](2, 8)
    kept = {}

    def weigh(tensor):
        kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    def numbers_kept(**settings):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(weigh, lambda tensor: tensor):
            solved = integrate(field, ctrnn.HeldPath(torch.randn(40, 4, 2)), torch.zeros(4, 8), [0.0, 40.0], **settings)
        return sum(kept.values()), solved

    whole, _ = numbers_kept(fused=False)
    little, solved = numbers_kept(gradient=Adjoint())
    assert little < whole / 20
    assert solved.hs.requires_grad


def test_without_gradients_wanted_there_is_no_way_back():
    field = problems.NAMED_FIELDS["gru"](2, 3)
    with torch.no_grad():
        solved = integrate(field, ctrnn.HeldPath(torch.randn(3, 4, 2)), torch.zeros(4, 3), torch.arange(4.0), gradient=Adjoint())
    assert not solved.hs.requires_grad
    frozen = problems.NAMED_FIELDS["gru"](2, 3).requires_grad_(False)
    solved = integrate(frozen, ctrnn.HeldPath(torch.randn(3, 4, 2)), torch.zeros(4, 3), torch.arange(4.0), gradient=Adjoint())
    assert not solved.hs.requires_grad
    assert math.isfinite(float(solved.hs.sum()))
