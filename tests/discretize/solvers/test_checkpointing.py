"""Gradients in bounded memory are the gradients of the same steps."""

import problems
import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, integrate


def gradients(field, path_kind=ctrnn.HeldPath, own=False, **settings):
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(6, 4, 2, generator=generator, dtype=torch.float64).requires_grad_()
    h0 = torch.randn(4, field.state_size, generator=generator, dtype=torch.float64).requires_grad_()
    ts = torch.tensor([0.0, 0.5, 2.2, 4.9])
    if own:
        ts = ts[:, None] * torch.linspace(0.5, 1, 4)
    solved = integrate(field, path_kind(xs), h0, ts, **settings)
    weight = torch.randn(solved.hs.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad((solved.hs * weight).sum(), [xs, h0, *field.parameters()]), solved


def test_blocks_end_wherever_the_budget_does(subtests):
    # Within segments too, and where sequences have times of their own.
    field = problems.NAMED_FIELDS["lstm"](2, 3)
    whole, _ = gradients(field, own=True, rtol=1e-5, atol=1e-5)
    for memory in (1, 1e5):
        with subtests.test(memory=memory):
            parts, solved = gradients(field, own=True, rtol=1e-5, atol=1e-5, gradient=Checkpointed(memory))
            for ours, expected in zip(parts, whole, strict=True):
                assert_close(ours, expected, rtol=0, atol=1e-13 * max(1.0, float(expected.abs().max())))
            assert solved.stats["nfe_backward"] == solved.stats["nfe"]  # each evaluation a second time, and no more


def test_a_budget_without_gradients_changes_nothing():
    field = ctrnn.gated(2, 3)
    path, h0, ts = ctrnn.HeldPath(torch.randn(5, 2, 2)), torch.zeros(2, 3), torch.arange(6.0)
    with torch.no_grad():
        bounded, free = (integrate(field, path, h0, ts, fused=False, gradient=each) for each in (Checkpointed(1), None))
    assert torch.equal(bounded.hs, free.hs)


def test_other_weights_by_functional_call_are_those_of_the_way_back(subtests):
    field, x = ctrnn.gated(2, 3), torch.randn(4, 2, 2)

    def gradient(settings):
        rnn = ContinuousRNN(field, rtol=1e-7, atol=1e-7, **settings)
        weights = {name: (0.5 * p.detach() + 0.3).requires_grad_() for name, p in rnn.named_parameters()}
        output, _ = torch.func.functional_call(rnn, weights, (x,))
        return torch.autograd.grad(output.square().sum(), list(weights.values()))

    expected = gradient({})
    for settings in SETTINGS_BACK[1:]:
        with subtests.test(**settings):
            for ours, theirs in zip(gradient(settings), expected, strict=True):
                assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_a_backward_pass_under_autocast_is_solved_in_its_own_precision(subtests):
    field, x = ctrnn.gated(2, 3, dtype=torch.float32), torch.randn(4, 2, 2, dtype=torch.float32)

    def gradient(settings):
        output, _ = ContinuousRNN(field, **settings)(x)
        with torch.autocast("cpu", torch.bfloat16):
            return torch.autograd.grad(output.sum(), list(field.parameters()))

    expected = gradient({})
    for settings in SETTINGS_BACK[1:]:
        with subtests.test(**settings):
            for ours, theirs in zip(gradient(settings), expected, strict=True):
                # What lies outside of the solve is bfloat16 in all of them; a block in bfloat16 takes other steps.
                assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def kept_by(run):
    kept = {}

    def weigh(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(weigh, lambda tensor: tensor):
        result = run()
    return sum(kept.values()), result


@pytest.mark.slow
def test_what_is_kept_falls_with_the_budget():
    field = ctrnn.gated(2, 16)
    xs = torch.randn(60, 8, 2)

    def run(**settings):
        return lambda: ContinuousRNN(field, rtol=1e-6, atol=1e-6, **settings)(xs)[0]

    whole, _ = kept_by(run(fused=False))
    blocks, output = kept_by(run(gradient=Checkpointed(4e5)))
    assert blocks < whole / 20  # 25 times as little seen
    # And on the way back one block is there at a time.
    back, _ = kept_by(lambda: output.square().sum().backward())
    assert back <= whole  # hooks see every block as it comes
    assert field.candidate.weight_h.grad.abs().sum() > 0


SETTINGS_BACK = [{}, {"gradient": Checkpointed(1e5)}, {"gradient": Checkpointed(1)}, {"gradient": Adjoint()}]


@pytest.mark.parametrize("settings", SETTINGS_BACK[1:])
def test_a_tensor_captured_by_a_later_piece_of_the_path_is_refused(settings):
    captured = torch.tensor(1.5, requires_grad=True)
    path = ctrnn.FunctionPath(lambda t: torch.ones(2, 2) * (captured if t > 1 else 0.0), (0.0, 2.0), 2, knots=[1.0])
    with pytest.raises(ValueError, match=r"a tensor of shape \(\) that requires one is used besides"):
        integrate(ctrnn.gated(2, 3), path, torch.zeros(2, 3), torch.tensor([0.0, 2.0]), **settings)
