"""Published cells: their step on our fields against the papers' recurrences, written again in plain torch."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import sigmoid, tanh
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.field import VectorField
from discretize import DiscreteCell, Euler, ExponentialEuler, Step, SymplecticEuler, integrate

ROUNDING = {"rtol": 0, "atol": 1e-12}  # twenty steps of a dozen terms of order 1, in another order


class Published(NamedTuple):
    """A field, its step, the length of that, the paper's recurrence (w, x, state), and dh/dt + leak * h by the paper."""

    make: Callable[..., VectorField]
    step: Step
    dt: float
    following: Callable
    driven: Callable | None = None


def mgu(w, x, h):
    f = sigmoid(x @ w["rate.weight_x"].T + h @ w["rate.weight_h"].T + w["rate.bias"])
    new = tanh(x @ w["candidate.weight_x"].T + (f * h) @ w["candidate.weight_h"].T + w["candidate.bias"])
    return f, new


def following_mgu(w, x, h):
    f, new = mgu(w, x, h)
    return (1 - f) * h + f * new


def driven_mgu(w, x, h):
    f, new = mgu(w, x, h)
    return f * new


def antisymmetric(w, x, h, epsilon=0.1, gamma=0.3):
    matrix = w["weight_h"] - w["weight_h"].T - gamma * torch.eye(5)
    return h + epsilon * tanh(h @ matrix.T + x @ w["weight_x"].T + w["bias"])


def gated_antisymmetric(w, x, h, epsilon=0.1, gamma=0.3):
    matrix = w["weight_h"] - w["weight_h"].T - gamma * torch.eye(5)
    (V, Vz), (b, bz) = w["weight_x"].chunk(2), w["bias"].chunk(2)
    z = sigmoid(h @ matrix.T + x @ Vz.T + bz)
    return h + epsilon * z * tanh(h @ matrix.T + x @ V.T + b)


def cornn(w, x, state, dt=0.2, gamma=1.3, epsilon=0.4):
    y, z = state.chunk(2, -1)
    force = tanh(torch.cat([y, z], -1) @ w["force.weight_h"].T + x @ w["force.weight_x"].T + w["force.bias"])
    z = z + dt * force - dt * gamma * y - dt * epsilon * z
    return torch.cat([y + dt * z, z], -1)


def driven_cornn(w, x, state, gamma=1.3):
    y, z = state.chunk(2, -1)
    force = tanh(
        y @ w["force.weight_h"][:, :5].T + z @ w["force.weight_h"][:, 5:].T + x @ w["force.weight_x"].T + w["force.bias"]
    )
    return torch.cat([z, force - gamma * y], -1)


def unicornn(w, x, state, dt=0.2, alpha=0.7):
    y, z = state.chunk(2, -1)
    speed = 0.5 + 0.5 * tanh(w["c"] / 2)
    z = z - dt * speed * (tanh(w["weight_h"] * y + x @ w["weight_x"].T + w["bias"]) + alpha * y)
    return torch.cat([y + dt * speed * z, z], -1)


def lem_gates(w, x, y):
    return (x @ w["gates.weight_x"].T + y @ w["gates.weight_h"].T + w["gates.bias"]).chunk(3, -1)


def lem(w, x, state, dt=0.8):
    y, z = state.chunk(2, -1)
    second, first, pull = lem_gates(w, x, y)
    first, second = dt * sigmoid(first), dt * sigmoid(second)
    z = (1 - first) * z + first * tanh(pull)
    pull = tanh(z @ w["candidate.weight_h"].T + x @ w["candidate.weight_x"].T + w["candidate.bias"])
    return torch.cat([(1 - second) * y + second * pull, z], -1)


def driven_lem(w, x, state):
    y, z = state.chunk(2, -1)
    second, first, pull = lem_gates(w, x, y)
    by_z = tanh(z @ w["candidate.weight_h"].T + x @ w["candidate.weight_x"].T + w["candidate.bias"])
    return torch.cat([sigmoid(second) * by_z, sigmoid(first) * tanh(pull)], -1)


def highway(w, x, h):
    s, left = h, torch.ones_like(h)
    for k in range(3):
        a = s @ w[f"layers.{k}.weight_h"].T + w[f"layers.{k}.bias"]
        a = a + x @ w["layers.0.weight_x"].T if k == 0 else a
        pull, t = tanh(a[..., :5]), sigmoid(a[..., 5:])
        c = 1 - t
        s, left = pull * t + s * c, left * c
    return s, left


def driven_highway(w, x, h):
    s, left = highway(w, x, h)
    return s - left * h


def adaptive(w, x, state, beta=1.8):
    r, a = state.chunk(2, -1)
    fired = sigmoid(x @ w["drive.weight_x"].T + r @ w["drive.weight_h"].T + w["drive.bias"] - beta * a)
    fast, slow = (torch.exp(-torch.exp(w[f"{name}.log_alpha"])) for name in ("rate", "adaptation"))
    return torch.cat([fast * r + (1 - fast) * fired, slow * a + (1 - slow) * r], -1)


def driven_adaptive(w, x, state, beta=1.8):
    r, a = state.chunk(2, -1)
    fired = sigmoid(x @ w["drive.weight_x"].T + r @ w["drive.weight_h"].T + w["drive.bias"] - beta * a)
    return torch.cat([torch.exp(w["rate.log_alpha"]) * fired, torch.exp(w["adaptation.log_alpha"]) * r], -1)


def fitzhugh_nagumo(w, x, state, dt=0.1, b=0.8):
    v, recovery = state.chunk(2, -1)
    current = x @ w["current.weight_x"].T + v @ w["current.weight_h"].T + w["current.bias"]
    return torch.cat([v + dt * (v - v**3 / 3 - recovery + current), recovery + dt * 0.08 * (v + 0.7 - b * recovery)], -1)


def driven_fitzhugh_nagumo(w, x, state):
    v, recovery = state.chunk(2, -1)
    current = x @ w["current.weight_x"].T + v @ w["current.weight_h"].T + w["current.bias"]
    return torch.cat([v - recovery + current, 0.08 * (v + 0.7)], -1)


def glnn(w, x, h):
    return h + x @ w["incoming.bias"] + torch.einsum("bx,xji,bi->bj", x, w["incoming.weight"], torch.tanh(h))


def driven_gnn(w, x, h):
    return torch.tanh(x @ w["candidate.bias"] + torch.einsum("bx,xji,bi->bj", x, w["candidate.weight"], h))


CELLS = {
    "glnn": Published(ctrnn.glnn, Euler(), 1.0, glnn),
    "gnn": Published(ctrnn.gnn, Euler(), 1.0, driven_gnn, driven_gnn),
    "mgu": Published(ctrnn.mgu, Euler(), 1.0, following_mgu, driven_mgu),
    "antisymmetric": Published(
        lambda *sizes, **settings: ctrnn.antisymmetric(*sizes, 0.3, **settings), Euler(), 0.1, antisymmetric
    ),
    "gated antisymmetric": Published(
        lambda *sizes, **settings: ctrnn.antisymmetric(*sizes, 0.3, True, **settings), Euler(), 0.1, gated_antisymmetric
    ),
    "cornn": Published(
        lambda *sizes, **settings: ctrnn.cornn(*sizes, 1.3, 0.4, **settings), SymplecticEuler(), 0.2, cornn, driven_cornn
    ),
    "unicornn": Published(lambda *sizes, **settings: ctrnn.unicornn(*sizes, 0.7, **settings), SymplecticEuler(), 0.2, unicornn),
    "rhn": Published(ctrnn.rhn, Euler(), 1.0, lambda w, x, h: highway(w, x, h)[0], driven_highway),
    "adaptive": Published(ctrnn.adaptive, ExponentialEuler(), 1.0, adaptive, driven_adaptive),
    "fitzhugh nagumo": Published(ctrnn.fitzhugh_nagumo, Euler(), 0.1, fitzhugh_nagumo, driven_fitzhugh_nagumo),
    "lem": Published(ctrnn.lem, SymplecticEuler(), 0.8, lem, driven_lem),
}


def moved(field):
    """Away from the zeros that some parameters start at."""
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return field


@pytest.mark.parametrize("name", CELLS)
def test_twenty_steps_are_the_recurrence_of_the_paper_and_so_are_their_gradients(name):
    cell = CELLS[name]
    field = moved(cell.make(3, 5))
    xs, h0 = torch.randn(20, 4, 3, requires_grad=True), torch.randn(4, field.state_size, requires_grad=True)
    ours, theirs = DiscreteCell(field, cell.step, cell.dt), dict(field.named_parameters())
    h, state, both = h0, h0, []
    for x in xs:
        h, state = ours(x, h), cell.following(theirs, x, state)
        both.append((h, state))
    found, expected = (torch.stack(states) for states in zip(*both, strict=True))
    assert_close(found, expected, **ROUNDING)
    weights = torch.randn_like(found) / found.numel() ** 0.5
    leaves = [xs, h0, *(weight for weight in theirs.values() if weight.numel())]
    gradients = (torch.autograd.grad((weights * states).sum(), leaves) for states in (found, expected))
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other, rtol=1e-11, atol=1e-12)  # sums over twenty steps and four samples
        assert other.abs().max() > 1e-6  # what no state depends on would be compared in vain


@pytest.mark.parametrize("name", CELLS)
def test_the_leak_is_what_multiplies_the_state_in_the_paper(name):
    cell = CELLS[name]
    field = moved(cell.make(3, 5))
    x, h = torch.randn(4, 3), torch.randn(4, field.state_size)
    slope, leak = field.flow_and_leak(field.project(x), h)
    assert torch.equal(slope, field(x, h))
    assert torch.equal(leak, field.leak(field.project(x), h))
    assert (leak >= 0).all()
    if cell.driven is None:
        assert not leak.any()
    else:
        assert_close(slope + leak * h, cell.driven(dict(field.named_parameters()), x, h), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", CELLS)
def test_the_gradient_of_a_solve_is_that_of_its_differences(name):
    field = moved(CELLS[name].make(1, 2))
    x, h0, names = torch.randn(2, 1, 1), 0.5 * torch.randn(1, field.state_size), [n for n, _ in field.named_parameters()]

    def end(x, h0, *weights):
        def slope(t, h):
            return torch.func.functional_call(field, dict(zip(names, weights, strict=True)), (x[0], h))

        return integrate(slope, None, h0, torch.tensor([0.0, 0.7]), method="rk4").hs[-1]

    given = (x, h0, *field.parameters())
    assert torch.autograd.gradcheck(end, tuple(value.detach().requires_grad_() for value in given), fast_mode=True)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_settings_reach_every_weight_and_what_is_no_field_is_refused(name, bias):
    make = CELLS[name].make
    assert {p.dtype for p in make(3, 5, bias=bias, dtype=torch.float32).parameters()} == {torch.float32}
    assert {p.device.type for p in make(3, 5, bias=bias, device="meta").parameters()} == {"meta"}
    assert any(key.endswith("bias") for key in make(3, 5, bias=bias).state_dict()) == bias
    fields = [make(3, 5, bias=bias, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    before = torch.get_rng_state()
    make(3, 5, bias=bias, generator=torch.Generator())
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(*(field.parameters() for field in fields), strict=True):
        assert torch.equal(one, other)
    for sizes, error in (((3, 0), ValueError), ((-1, 5), ValueError), ((3, 5.0), TypeError)):
        with pytest.raises(error, match=r"`(input_size|hidden_size)` must be"):
            make(*sizes)
    with pytest.raises(TypeError, match=r"`generator` must be a torch\.Generator"):
        make(3, 5, generator=3)
    with pytest.raises(TypeError, match="`dtype` must be a floating-point dtype"):
        make(3, 5, dtype=torch.int64)
    with pytest.raises(TypeError, match="`bias` must be True or False"):
        make(3, 5, bias=2)


# What the papers' experiments or the authors' code set, and what is this project's: docs/cells.md.
DEFAULTS = {
    ctrnn.antisymmetric: ({"gamma": 0.01, "gated": False}, ctrnn.AntisymmetricField),
    ctrnn.cornn: ({"gamma": 1.0, "epsilon": 1.0}, ctrnn.CoRNNField),
    ctrnn.unicornn: ({"alpha": 1.0}, ctrnn.UnICORNNField),
    ctrnn.rhn: ({"depth": 3, "gate_bias": -2.0}, ctrnn.RHNField),
    ctrnn.adaptive: ({"alpha": 0.5, "rho": 0.05, "beta": 1.8}, ctrnn.AdaptiveField),
    ctrnn.fitzhugh_nagumo: ({"a": 0.7, "b": 0.8, "epsilon": 0.08}, ctrnn.FitzHughNagumoField),
}


@pytest.mark.parametrize("make", DEFAULTS)
def test_a_field_and_its_constructor_have_the_same_constants(make):
    constants, kind = DEFAULTS[make]
    found, fields = (inspect.signature(each).parameters for each in (make, kind))
    assert {name: found[name].default for name in constants} == constants
    assert {name: fields[name].default for name in constants if name in fields}.items() <= constants.items()


@pytest.mark.parametrize("name", CELLS)
def test_layers_are_a_stack_with_weights_of_their_own(name):
    field = CELLS[name].make(3, 5, num_layers=2)
    assert (field.input_size, field.hidden_size, len(field.fields)) == (3, 5, 2)
    assert field(torch.zeros(4, 3), field.initial_state(4)).shape == (4, field.state_size)
