"""Named fields against the papers' equations, written again in NumPy."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import derivations
import discretize

ROUNDING = {"rtol": 0, "atol": 1e-14}  # a dozen terms of order 1; more where |h|^r is large, said there


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def affine(w, part, X, H):
    return X @ w[f"{part}.weight_x"].T + H @ w[f"{part}.weight_h"].T + w.get(f"{part}.bias", 0.0)


def point(batch=4):
    x, h = torch.randn(batch, 3), torch.randn(batch, 5)
    return x, h, x.numpy(), h.numpy()


@pytest.mark.parametrize("bias", [True, False])
def test_plain_is_equation_3(bias):
    field, (x, h, X, H) = ctrnn.plain(3, 5, bias=bias), point()
    expected = np.tanh(affine(arrays(field), "candidate", X, H)) - H
    assert_close(field(x, h), torch.from_numpy(expected), **ROUNDING)
    assert_close(field.leak(field.project(x), h), torch.ones(4, 5), rtol=0, atol=0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("per_unit", [True, False])
def test_leaky_is_equation_4(bias, per_unit):
    field, (x, h, X, H) = ctrnn.leaky(3, 5, 0.25, per_unit, bias=bias), point()
    if per_unit:
        with torch.no_grad():
            field.rate.log_alpha += torch.linspace(-1, 1, 5)
    w = arrays(field)
    assert w["rate.log_alpha"].shape == ((5,) if per_unit else ())
    alpha = np.exp(w["rate.log_alpha"])
    expected = alpha * (np.tanh(affine(w, "candidate", X, H)) - H)
    assert_close(field(x, h), torch.from_numpy(expected), **ROUNDING)
    assert_close(field.leak(field.project(x), h), torch.from_numpy(alpha * np.ones((4, 5))), **ROUNDING)


def test_the_default_alpha_is_a_tenth():
    assert_close(float(ctrnn.leaky(3, 5).rate.log_alpha.detach().exp()), 0.1, rtol=1e-15, atol=0)


def test_sizes_may_be_numpy_integers():
    field = ctrnn.gated(np.int64(3), np.int32(5))
    assert type(field.input_size) is int
    assert field(torch.zeros(1, 3), torch.zeros(1, 5)).shape == (1, 5)


@pytest.mark.parametrize("batch", [4, 5])
@pytest.mark.parametrize(("gate", "rows"), [("unit", 5), ("global", 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_gated_is_equations_7_and_10(gate, rows, bias, batch):
    field, (x, h, X, H) = ctrnn.gated(3, 5, gate, bias=bias), point(batch)
    w = arrays(field)
    g = sigmoid(affine(w, "rate", X, H))
    assert g.shape == (batch, rows)
    expected = g * (np.tanh(affine(w, "candidate", X, H)) - H)
    assert_close(field(x, h), torch.from_numpy(expected), **ROUNDING)
    assert_close(field.leak(field.project(x), h), torch.from_numpy(g * np.ones((batch, 5))), **ROUNDING)


@pytest.mark.parametrize("r", [0, 0.5, 1, 2, 3])
@pytest.mark.parametrize("gate", ["unit", "global"])
def test_gated_with_a_power_is_the_slow_forgetting_of_ohno_and_kumagai(r, gate):
    field, (x, h, X, H) = ctrnn.gated(3, 5, gate, decay=ctrnn.PowerDecay(r)), point()
    w = arrays(field)
    g = sigmoid(affine(w, "rate", X, H))
    expected = g * (np.tanh(affine(w, "candidate", X, H)) - np.abs(H) ** r * H)
    assert_close(field(x, h), torch.from_numpy(expected), rtol=1e-14, atol=1e-14)  # |h|^r of order 10
    leak = field.leak(field.project(x), h)
    assert_close(leak, torch.from_numpy(g * np.abs(H) ** r), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("r", [0, 0.5, 1, 2, 3])
def test_leaky_with_a_power_is_equation_22(r):
    field, (x, h, X, H) = ctrnn.leaky(3, 5, 0.4, decay=ctrnn.PowerDecay(r)), point()
    expected = 0.4 * (np.tanh(affine(arrays(field), "candidate", X, H)) - np.abs(H) ** r * H)
    assert_close(field(x, h), torch.from_numpy(expected), rtol=1e-14, atol=1e-14)  # |h|^r of order 10


@pytest.mark.parametrize("bias", [True, False])
def test_gru_is_a_gated_field_with_a_reset_candidate(bias):
    field, (x, h, X, H) = ctrnn.gru(3, 5, bias=bias), point()
    if bias:
        torch.nn.init.normal_(field.candidate.bias_h)
    w = arrays(field)
    g = sigmoid(affine(w, "rate", X, H))
    reset = sigmoid(affine(w, "candidate.reset", X, H))
    pulled = H @ w["candidate.pull.weight_h"].T + w.get("candidate.bias_h", 0.0)
    pulled = X @ w["candidate.pull.weight_x"].T + w.get("candidate.pull.bias", 0.0) + reset * pulled
    assert_close(field(x, h), torch.from_numpy(g * (np.tanh(pulled) - H)), **ROUNDING)
    assert_close(field.leak(field.project(x), h), torch.from_numpy(g), **ROUNDING)


@pytest.mark.parametrize("name", ["plain", "leaky", "gated", "gru", "lstm"])
def test_dtype_and_device_reach_every_weight(name):
    make = getattr(ctrnn, name)
    assert {p.dtype for p in make(3, 5, dtype=torch.float32).parameters()} == {torch.float32}
    assert {p.device.type for p in make(3, 5, device="meta").parameters()} == {"meta"}
    torch.set_default_dtype(torch.float32)
    assert {p.dtype for p in make(3, 5).parameters()} == {torch.float32}
    assert {p.dtype for p in make(3, 5, dtype=torch.float64).parameters()} == {torch.float64}


@pytest.mark.parametrize("per_unit", [True, False])
def test_alpha_has_the_digits_of_the_dtype_asked_for_not_of_the_default(per_unit):
    torch.set_default_dtype(torch.float32)
    rate = ctrnn.leaky(3, 5, 0.1, per_unit, dtype=torch.float64).rate.log_alpha.detach().exp()
    assert_close(rate, torch.full_like(rate, 0.1), rtol=1e-15, atol=0)


@pytest.mark.parametrize("alpha", [0.0, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("per_unit", [True, False])
def test_an_alpha_that_is_not_positive_and_finite_is_refused(alpha, per_unit):
    with pytest.raises(ValueError, match=r"`alpha` must be .*, got"):
        ctrnn.leaky(3, 5, alpha, per_unit)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ctrnn.leaky(3, 5, "slow"), TypeError, "`alpha` must be a number, got 'slow'"),
        (lambda: ctrnn.leaky(3, 5, torch.full((5,), 0.1)), TypeError, "`alpha` must be one number"),
        (lambda: ctrnn.gated(3, 5, "units"), ValueError, "`gate` must be one of 'unit', 'global'.*got 'units'"),
        (lambda: ctrnn.gated(3, 5, decay=2.0), TypeError, "`decay` must be a ctrnn.parts.Decay, got float"),
        (lambda: ctrnn.plain(-1, 5), ValueError, "`input_size` must be at least 0, got -1"),
        (lambda: ctrnn.gru(3, -5), ValueError, "`hidden_size` must be at least 1, got -5"),
        (lambda: ctrnn.lstm(3, 5.0), TypeError, "`hidden_size` must be a whole number, got 5.0"),
        (lambda: ctrnn.leaky("3", 5), TypeError, "`input_size` must be a whole number, got '3'"),
    ],
)
def test_what_is_no_field_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def of_keras(kernel, recurrent, bias):
    """A field with the arrays of a Keras GRU, gates in the order z, r, h; the second row of a bias stands inside of the reset."""
    inputs, units = len(kernel), len(recurrent)
    field = ctrnn.gru(inputs, units, reset="before" if bias.ndim == 1 else "after")
    parts = [(field.rate, -1), (field.candidate.reset, 1), (field.candidate.pull, 1)]
    with torch.no_grad():
        for k, (part, sign) in enumerate(parts):
            own = slice(k * units, (k + 1) * units)
            inside = bias.ndim == 2 and part is field.candidate.pull
            summed = bias[0, own] if inside else np.atleast_2d(bias)[:, own].sum(0)
            for weight, array in ((part.weight_x, kernel[:, own].T), (part.weight_h, recurrent[:, own].T), (part.bias, summed)):
                weight.copy_(torch.from_numpy(sign * array))
            if inside:
                field.candidate.bias_h.copy_(torch.from_numpy(bias[1, own]))
    return field


@pytest.mark.parametrize("reset_after", [False, True])
def test_the_unit_euler_step_is_keras_gru_of_either_kind(reset_after):
    rng, (n, u) = np.random.default_rng(0), (3, 4)
    kernel, recurrent = rng.normal(size=(n, 3 * u)), rng.normal(size=(u, 3 * u))
    bias = rng.normal(size=(2, 3 * u) if reset_after else 3 * u)
    x, h, states = rng.normal(size=(12, 2, n)), np.zeros((2, u)), []
    for sample in x:  # as Keras documents both
        if reset_after:
            a, b = sample @ kernel + bias[0], h @ recurrent + bias[1]
            z, r = sigmoid(a[:, :u] + b[:, :u]), sigmoid(a[:, u : 2 * u] + b[:, u : 2 * u])
            new = np.tanh(a[:, 2 * u :] + r * b[:, 2 * u :])
        else:
            a = sample @ kernel + bias
            z, r = (sigmoid(a[:, k * u : (k + 1) * u] + h @ recurrent[:, k * u : (k + 1) * u]) for k in (0, 1))
            new = np.tanh(a[:, 2 * u :] + (r * h) @ recurrent[:, 2 * u :])
        h = z * h + (1 - z) * new
        states.append(h)
    output, _ = discretize.DiscreteRNN(of_keras(kernel, recurrent, bias))(torch.from_numpy(x))
    assert_close(output, torch.from_numpy(np.stack(states)), rtol=0, atol=1e-13)  # rounding over twelve steps


@pytest.mark.parametrize("reset", ["product", "After", True, None])
def test_a_reset_that_is_none_of_both_is_refused(reset):
    with pytest.raises((ValueError, TypeError), match="`reset` must be "):
        ctrnn.gru(3, 4, reset=reset)


def test_the_gru_that_resets_before_the_product_is_its_formula_without_biases_too():
    field = ctrnn.gru(1, 2, reset="before", bias=False)  # with biases it is a claim of the ledger
    assert derivations.verify(field, seconds=None).verdict == "holds"
    assert field.equations[0] == "dh/dt = g * (tanh(Wx x + Wh (sigma(Wrx x + Wrh h) * h)) - h)"
    with pytest.raises(TypeError, match="torch has a cell for plain, gru and lstm fields only"):
        ctrnn.to_torch(field)
