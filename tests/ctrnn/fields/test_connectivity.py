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
from ctrnn.fields.computed import with_free_weights

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


def test_a_mask_keeps_its_digits():
    torch.set_default_dtype(torch.float32)  # `_same_start` puts it back
    mask = torch.rand(4, 4, dtype=torch.float64)
    field = ctrnn.leaky(2, 4, dtype=torch.float64)
    before = field.candidate.weight_h.detach().clone()
    assert torch.equal(constrained(ctrnn.Mask(mask), field=field).candidate.weight_h, before * mask)
    assert ctrnn.Mask(mask > 0.5).mask.dtype == torch.float32
    single = constrained(ctrnn.Mask(mask), field=ctrnn.leaky(2, 4, dtype=torch.float32)).candidate
    assert {buffer.dtype for buffer in single.buffers()} == {torch.float32}  # not every device has the other


def test_masked_entries_and_the_diagonal_stay_zero_and_signs_stay_in_training():
    mask = (torch.rand(4, 4) < 0.6).double()
    masked = trained(constrained(ctrnn.Dale(SIGNS), ctrnn.Mask(mask), ctrnn.ZeroDiagonal()))
    assert torch.equal(masked * (1 - mask), torch.zeros(4, 4))
    assert torch.equal(masked.diagonal(), torch.zeros(4))
    assert (masked * SIGNS >= 0).all()


def test_a_low_rank_stays_low_in_training():
    assert torch.linalg.matrix_rank(trained(constrained(ctrnn.LowRank(2))), tol=1e-9) == 2


def test_a_spectral_radius_stays_in_training():
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
    assert same_tensors(again, model)
    assert_close(again(x)[0], model(x)[0], rtol=0, atol=1e-13)  # sums that BLAS may take in another order
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
    again = ctrnn.load(tmp_path / "model", known)
    assert same_tensors(again, field)
    assert torch.equal(again.gates.bias, field.gates.bias)
    with pytest.raises(ValueError, match="Halved"):
        ctrnn.load(tmp_path / "model")


def test_a_model_that_cannot_be_saved_is_told_all_that_is_in_the_way():
    field = ctrnn.gated(2, 4)
    for part in (field.candidate, field.rate):  # the class is told once
        register_parametrization(part, "weight_x", Halved())
    register_parametrization(field.rate, "weight_h", Unsaid(3.0))
    first = discretize.DiscreteRNN(field)
    with pytest.raises(TypeError, match=r"(?s)for 3 reasons.*'Halved': Halved.*'Unsaid': Unsaid"):
        ctrnn.save(None, first)
    with pytest.raises(TypeError, match="Unsaid does not keep what its constructor takes as `factor`"):
        ctrnn.save(None, first, {"Halved": Halved, "Unsaid": Unsaid})
    both = nn.Sequential(discretize.DiscreteRNN(Own(2, 3, 1.0)), nn.Bilinear(3, 3, 1))
    with pytest.raises(TypeError, match=r"(?s)for 3 reasons.*class Own.*Own does not keep.*`power`.*class Bilinear"):
        ctrnn.save(None, both)


def test_constrained_weights_are_read_and_proved():
    small = ctrnn.plain(1, 2)
    register_parametrization(small.candidate, "weight_h", ctrnn.Dale(torch.tensor([1.0, -1.0])))
    # No limit of time: on a busy machine the first proof of a process may take a minute, most of it imports.
    assert derivations.verify(small, seconds=None).verdict == "holds"


def same_tensors(one, other):
    one, other = one.state_dict(), other.state_dict()
    return [*one] == [*other] and all(torch.equal(one[name], other[name]) for name in one)


class Own(ctrnn.VectorField):
    def __init__(self, input_size, width, power):
        super().__init__(input_size, width)
        self.width, self.to_state = width, nn.Linear(input_size, width)

    def flow(self, projected, h):
        return self.to_state(projected) - h


class Unsaid(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.times = factor

    def forward(self, weight):
        return weight * self.times


class Halved(nn.Module):
    def forward(self, weight):
        return weight / 2

    def right_inverse(self, weight):
        return weight * 2


@pytest.mark.kernels
def test_a_network_under_the_law_of_dale_and_a_mask_goes_all_the_way(tmp_path):
    signs, mask = SIGNS[1:], torch.ones(3, 3) - torch.eye(3)
    field = constrained(ctrnn.Dale(signs), ctrnn.Mask(mask), field=ctrnn.additive(1, 3, "relu", tau=torch.tensor(5.0)))
    ctrnn.init.recurrent_balanced_(field)
    x, target = torch.randn(6, 3, 1), torch.rand(6, 3, 3)
    model = discretize.DiscreteRNN(field)

    def trained_on(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(x)[0] - target).square().mean().backward()
            optimizer.step()
        return model

    ctrnn.save(None, model)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    trained_on(model, optimizer, 5)
    assert model.stats["engine"] == "compiled"
    ctrnn.save(tmp_path / "model", model)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer")
    again = ctrnn.load(tmp_path / "model")
    continued = torch.optim.Adam(again.parameters())
    continued.load_state_dict(torch.load(tmp_path / "optimizer", weights_only=True))
    assert same_tensors(again, model)
    expected = trained_on(model, optimizer, 5)(x)[0]
    # To rounding: tensors that were read lie elsewhere, and BLAS may sum them in another order.
    assert_close(trained_on(again, continued, 5)(x)[0], expected, rtol=1e-9, atol=1e-9)
    weight = again.field.candidate.weight_h.detach()
    assert (weight * signs >= 0).all()
    assert torch.equal(weight.diagonal(), torch.zeros(3))
    slow = discretize.DiscreteRNN(again.field, fused=False)(x)[0]
    assert_close(again(x)[0], slow, rtol=1e-12, atol=1e-12)
    exact = discretize.ContinuousRNN(again.field, rtol=1e-6, atol=1e-7, fused=False)(x)[0]
    fine = discretize.DiscreteRNN(again.field, discretize.RungeKutta4(), substeps=8, fused=False)(x)[0]
    assert_close(exact, fine, rtol=1e-4, atol=1e-4)  # relu has corners
    plain = with_free_weights(again.field)
    assert_close(discretize.DiscreteRNN(plain)(x)[0], slow, rtol=1e-12, atol=1e-12)
    assert derivations.verify(again.field, seconds=None).verdict == "holds"


@pytest.mark.parametrize("by", ["abs", "softplus", "clip"])
def test_balanced_weights_excite_as_much_as_they_inhibit_and_have_the_radius(by):
    signs = torch.ones(100)
    signs[80:] = -1
    mask = (torch.rand(100, 100) < 0.3).double()
    mask[3, :80] = 0  # a unit that nothing excites
    field = ctrnn.additive(2, 100, "relu")
    for part in (ctrnn.Dale(signs, by), ctrnn.Mask(mask), ctrnn.ZeroDiagonal()):
        register_parametrization(field.candidate, "weight_h", part)
    before = field.candidate.weight_x.detach().clone()
    assert ctrnn.init.recurrent_balanced_(field, 1.2, generator=torch.Generator().manual_seed(7)) is field
    weight = field.candidate.weight_h.detach()
    assert (weight * signs >= 0).all()
    assert torch.equal((weight != 0).double(), mask * (1 - torch.eye(100)))
    sums = weight.sum(1) / weight.abs().sum(1)
    assert_close(sums.where(torch.arange(100) != 3, -1 - sums), torch.zeros(100), rtol=0, atol=1e-9)
    assert_close(torch.linalg.eigvals(weight).abs().max(), torch.tensor(1.2), rtol=1e-9, atol=0)
    excites = weight[:, :80][weight[:, :80] > 0]
    # A gamma distribution of shape 2 has the standard deviation 1/sqrt(2) of its mean.
    assert abs(float(excites.std() / excites.mean()) - 2**-0.5) < 0.05
    assert torch.equal(field.candidate.weight_x, before)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ctrnn.additive(2, 4), TypeError, "all with a `ctrnn.parts.Dale"),
        (lambda: constrained(ctrnn.LowRank(2), ctrnn.Dale(SIGNS)), TypeError, "none with a `ctrnn.parts.LowRank`"),
        (lambda: constrained(ctrnn.Dale(SIGNS), ctrnn.Mask(torch.zeros(4, 4))), ValueError, "all eigenvalues"),
    ],
)
def test_what_cannot_be_balanced_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        ctrnn.init.recurrent_balanced_(make())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ctrnn.Dale(torch.tensor([1.0, 0.5])), r"`signs` must be 1 or -1 .* got \[1.0, 0.5\]"),
        (lambda: constrained(ctrnn.Dale(SIGNS[:3])), "3 columns"),
        (lambda: constrained(ctrnn.Mask(torch.ones(3, 4))), "`mask` is .* make them equal"),
        (lambda: constrained(ctrnn.LowRank(5)), "`rank` is 5, .* at most 4"),
        (lambda: register_parametrization(ctrnn.leaky(2, 4).candidate, "weight_x", ctrnn.ZeroDiagonal()), "square.*`weight_h`"),
        (lambda: ctrnn.SpectralRadius(0.5)(torch.tensor([[0.0, 1.0], [0.0, 0.0]])), "no eigenvalue but 0"),
    ],
)
def test_constraints_that_do_not_fit_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
