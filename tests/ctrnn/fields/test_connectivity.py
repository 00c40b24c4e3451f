"""Constrained recurrent weights: what they keep, whatever is learned; combined, saved, compiled and proved."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import register_parametrization
from torch.testing import assert_close

import ctrnn
import derivations
import discretize

SIGNS = torch.tensor([1.0, 1.0, 1.0, -1.0])


def constrained(*parts, field=None):
    field = ctrnn.leaky(2, 4, nonlinearity="relu", tau=5.0) if field is None else field
    for part in parts:
        register_parametrization(field.candidate, "weight_h", part)
    return field


def trained(field, steps=20):
    optimizer = torch.optim.SGD(field.parameters(), 0.5)
    x = torch.randn(6, 3, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        (discretize.DiscreteRNN(field)(x)[0] - 1).square().mean().backward()
        optimizer.step()
    return field.candidate.weight_h.detach()


@pytest.mark.parametrize("by", ["abs", "softplus", "clip"])
def test_columns_keep_their_signs_in_training_and_sizes_at_the_start(by):
    before = torch.randn(4, 4)
    field = ctrnn.leaky(2, 4)
    with torch.no_grad():
        field.candidate.weight_h.copy_(before)
    constrained(ctrnn.Dale(SIGNS, by), field=field)
    assert_close(field.candidate.weight_h, before.abs() * SIGNS, rtol=1e-12, atol=1e-12)
    after = trained(field)
    assert (after * SIGNS >= 0).all()
    assert (after - before.abs() * SIGNS).abs().max() > 1e-3


def test_masks_ranks_diagonals_and_radii_hold_after_training():
    mask = (torch.rand(4, 4) < 0.6).double()
    masked = trained(constrained(ctrnn.Dale(SIGNS), ctrnn.Mask(mask), ctrnn.ZeroDiagonal()))
    assert torch.equal(masked * (1 - mask), torch.zeros(4, 4))
    assert torch.equal(masked.diagonal(), torch.zeros(4))
    assert (masked * SIGNS >= 0).all()
    assert torch.linalg.matrix_rank(trained(constrained(ctrnn.LowRank(2))), tol=1e-9) == 2
    radius = torch.linalg.eigvals(trained(constrained(ctrnn.SpectralRadius(0.9)))).abs().max()
    assert_close(radius, torch.tensor(0.9), rtol=1e-10, atol=0)


def test_a_low_rank_starts_as_the_best_approximation():
    weight = torch.randn(4, 4)
    field = ctrnn.leaky(2, 4)
    with torch.no_grad():
        field.candidate.weight_h.copy_(weight)
    constrained(ctrnn.LowRank(3), field=field)
    least = torch.linalg.svdvals(weight)[-1]
    assert_close(torch.linalg.matrix_norm(field.candidate.weight_h - weight, 2), least, rtol=1e-9, atol=1e-12)


def test_gradients_go_through_the_scaling_by_the_spectral_radius():
    part, weight = ctrnn.SpectralRadius(0.7), torch.randn(4, 4, requires_grad=True)
    assert torch.autograd.gradcheck(part, weight)


def test_weights_with_constraints_are_saved_loaded_and_trained_on(tmp_path):
    mask = (torch.rand(4, 4) < 0.6).double()
    parts = [ctrnn.LowRank(2), ctrnn.Dale(SIGNS, "clip"), ctrnn.Mask(mask), ctrnn.ZeroDiagonal()]
    field = constrained(*parts, field=ctrnn.additive(2, 4, "retanh", tau=torch.tensor([1.0, 2.0, 3.0, 4.0])))
    weight_norm(field.candidate, "weight_x")
    trained(field, 3)
    model = discretize.DiscreteRNN(field, dt=0.2)
    ctrnn.save(tmp_path / "model", model)
    again, x = ctrnn.load(tmp_path / "model"), torch.randn(5, 3, 2)
    assert torch.equal(again(x)[0], model(x)[0])
    assert [*again.state_dict()] == [*model.state_dict()]
    after = trained(again.field, 3)
    assert (after * SIGNS >= 0).all()
    assert torch.equal(after * (1 - mask), torch.zeros(4, 4))


def test_a_part_that_its_field_makes_is_saved_with_its_constraints(tmp_path):
    field = ctrnn.lstm(2, 3)
    register_parametrization(field.gates, "bias", Halved())
    with pytest.raises(TypeError, match="Halved"):
        ctrnn.save(tmp_path / "model", field)
    known = {"Halved": Halved}
    ctrnn.save(tmp_path / "model", field, known)
    again, x, h = ctrnn.load(tmp_path / "model", known), torch.randn(2, 2), torch.randn(2, 6)
    assert torch.equal(again(x, h), field(x, h))
    with pytest.raises(ValueError, match="Halved"):
        ctrnn.load(tmp_path / "model")


class Halved(nn.Module):
    def forward(self, weight):
        return weight / 2

    def right_inverse(self, weight):
        return weight * 2


def test_constrained_weights_are_read_and_proved():
    small = ctrnn.plain(1, 2)
    register_parametrization(small.candidate, "weight_h", ctrnn.Dale(torch.tensor([1.0, -1.0])))
    assert derivations.verify(small).verdict == "holds"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ctrnn.Dale(torch.tensor([1.0, 0.5])), "`signs` must be 1 or -1"),
        (lambda: constrained(ctrnn.Dale(SIGNS[:3])), "3 columns"),
        (lambda: constrained(ctrnn.Mask(torch.ones(3, 4))), "`mask` is"),
        (lambda: constrained(ctrnn.LowRank(5)), "`rank` is 5"),
        (lambda: register_parametrization(ctrnn.leaky(2, 4).candidate, "weight_x", ctrnn.ZeroDiagonal()), "square"),
        (lambda: ctrnn.SpectralRadius(0.5)(torch.tensor([[0.0, 1.0], [0.0, 0.0]])), "no eigenvalue but 0"),
    ],
)
def test_constraints_that_do_not_fit_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
