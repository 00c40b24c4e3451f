"""The additive network and the rate form of the leaky one: against code that people copy, and against one another."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch.testing import assert_close

import ctrnn
import discretize

FUNCTIONS = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0),
    "softplus": lambda a: np.log1p(np.exp(a)),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "retanh": lambda a: np.maximum(np.tanh(a), 0),
}


@pytest.mark.parametrize("word", FUNCTIONS)
def test_the_field_is_the_equation_of_potentials_and_its_output_are_rates(word):
    field = ctrnn.additive(2, 3, word, tau=torch.tensor([1.0, 2.0, 5.0]))
    x, v = torch.randn(4, 2), torch.randn(4, 3)
    w, wx, b = (each.detach().numpy() for each in (field.candidate.weight_h, field.candidate.weight_x, field.candidate.bias))
    r = FUNCTIONS[word](v.numpy())
    expected = (-v.numpy() + r @ w.T + x.numpy() @ wx.T + b) / np.array([1.0, 2.0, 5.0])
    assert_close(field(x, v).detach().numpy(), expected, rtol=0, atol=1e-13)
    assert_close(field.visible(v).numpy(), r, rtol=0, atol=1e-15)
    assert torch.equal(ctrnn.additive(2, 3, word, visible="potentials").visible(v), v)


def test_the_euler_step_of_a_leaky_network_is_the_loop_that_is_copied_from_tutorials():
    tau, dt = 100.0, 20.0
    field = ctrnn.leaky(2, 5, nonlinearity="relu", tau=tau)
    xs, h, alpha = torch.randn(7, 3, 2), torch.zeros(3, 5), dt / tau
    output, _ = discretize.DiscreteRNN(field, dt=dt)(xs)
    for k, x in enumerate(xs):
        part = field.candidate
        h = h * (1 - alpha) + alpha * torch.relu(x @ part.weight_x.mT + h @ part.weight_h.mT + part.bias)
        assert_close(output[k], h, rtol=0, atol=1e-14)


def test_potentials_are_what_rates_send_and_receive_of_an_input_that_is_held():
    rates = ctrnn.leaky(2, 4, nonlinearity="tanh", tau=3.0)
    potentials = ctrnn.additive(2, 4, "tanh", tau=3.0)
    potentials.candidate.load_state_dict(rates.candidate.state_dict())
    path = ctrnn.HeldPath(torch.randn(1, 2, 2), torch.tensor([0.0, 9.0]))
    r0, ts = torch.randn(2, 4), torch.linspace(0, 9, 5)

    def sent(r):
        return rates.candidate.preactivation(rates.candidate.project(path(torch.tensor(0.0))), r)

    tight = {"rtol": 1e-10, "atol": 1e-12}
    r = discretize.integrate(rates, path, r0, ts, **tight).hs
    v = discretize.integrate(potentials, path, sent(r0).detach(), ts, **tight).hs
    assert_close(v, sent(r), rtol=0, atol=1e-8)


def test_two_units_of_the_network_of_beer_are_solved_as_by_scipy():
    # tau dy/dt = -y + W sigma(y + theta) + I is the additive network of v = y + theta with the bias theta.
    w, theta, tau = np.array([[4.5, -1.0], [1.0, 4.5]]), np.array([-2.75, -1.75]), np.array([1.0, 1.3])

    def beer(_, y):
        return (-y + w @ (1 / (1 + np.exp(-(y + theta))))) / tau

    field = ctrnn.additive(0, 2, "sigmoid", tau=torch.tensor(tau))
    with torch.no_grad():
        field.candidate.weight_h.copy_(torch.tensor(w))
        field.candidate.bias.copy_(torch.tensor(theta))
    ts = np.linspace(0, 20, 9)
    y = solve_ivp(beer, (0, 20), [0.5, -0.5], t_eval=ts, rtol=1e-10, atol=1e-12).y.T
    v0 = torch.tensor([0.5, -0.5]) + torch.tensor(theta)
    hs = discretize.integrate(field, None, v0[None], torch.tensor(ts), rtol=1e-9, atol=1e-11).hs[:, 0].detach()
    assert_close(hs.numpy() - theta, y, rtol=0, atol=1e-6)


def test_time_constants_stay_unless_they_are_learned():
    fixed, each = ctrnn.leaky(1, 3, tau=4.0), ctrnn.additive(1, 3, tau=torch.tensor([1.0, 2.0, 4.0]))
    assert not any(parameter.requires_grad for parameter in [*fixed.rate.parameters(), *each.rate.parameters()])
    learned = ctrnn.additive(1, 3, tau=torch.tensor([1.0, 2.0, 4.0]), learn_tau=True)
    assert_close(ctrnn.timescales(learned), torch.tensor([1.0, 2.0, 4.0]))
    learned(torch.randn(2, 1), torch.randn(2, 3)).sum().backward()
    assert learned.rate.log_alpha.grad.abs().min() > 0
    same = ctrnn.leaky(1, 3, alpha=0.25)
    same.candidate.load_state_dict(fixed.candidate.state_dict())
    x, h = torch.randn(2, 1), torch.randn(2, 3)
    assert_close(fixed(x, h), same(x, h), rtol=0, atol=1e-15)


def test_a_nonlinearity_of_the_user_is_applied_and_cannot_be_saved(tmp_path):
    field = ctrnn.additive(1, 2, lambda a: a.clamp(0, 1))
    assert_close(field.visible(torch.tensor([[-1.0, 2.0]])), torch.tensor([[0.0, 1.0]]))
    with pytest.raises(TypeError, match="function"):
        ctrnn.save(tmp_path / "model", field)


def test_a_model_is_loaded_with_its_time_constants_as_they_were(tmp_path):
    model = discretize.DiscreteRNN(ctrnn.additive(1, 3, "retanh", tau=torch.tensor([1.0, 2.0, 4.0]), visible="potentials"))
    ctrnn.save(tmp_path / "model", model)
    again = ctrnn.load(tmp_path / "model")
    x = torch.randn(4, 2, 1)
    assert torch.equal(again(x)[0], model(x)[0])
    assert not again.field.rate.log_alpha.requires_grad


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ctrnn.leaky(1, 2, alpha=0.1, tau=2.0), "either `alpha`"),
        (lambda: ctrnn.additive(1, 2, tau=0.0), "`tau`"),
        (lambda: ctrnn.additive(1, 2, tau=torch.tensor([1.0, -1.0])), "`tau` must be positive"),
        (lambda: ctrnn.additive(1, 2, tau=torch.ones(3)), "one for each unit"),
        (lambda: ctrnn.additive(1, 2, "tan"), "`nonlinearity`"),
        (lambda: ctrnn.additive(1, 2, visible="v"), "`reads`|`visible`"),
    ],
)
def test_wrong_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
