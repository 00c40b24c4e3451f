"""torchdiffeq's functions in kernels: those whose rows can be samples, or whose y can be one; and steps for all others."""

import pytest
import torch
import torchdiffeq
from torch import nn
from torch.testing import assert_close

import discretize.torchdiffeq as ours
from discretize.loop import rows
from discretize.loop.solving import NoKernel

double = torch.float64
NET = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2)).double()
MATRIX = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=double)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.nfe = NET, 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y) * torch.cos(t)


def y0(*sizes):
    return torch.linspace(-1, 1, torch.Size(sizes).numel(), dtype=double).reshape(sizes)


ROWS = {
    "a module that counts": (Counts(), y0(3, 2)),
    "a lambda": (lambda t, y: NET(y) - y, y0(3, 2)),
    "rows of rows": (lambda t, y: NET(y**3), y0(3, 1, 2)),
    "time as a column": (lambda t, y: torch.cat([y[:, 1:], -y[:, :1] * t], 1), y0(3, 2)),
    "a row": (lambda t, y: torch.mm(y, MATRIX), y0(1, 2)),
    "two tensors": (lambda t, y: (y[1] * t, -y[0]), (y0(3, 2), y0(3, 2) + 1)),
    "one vector": (lambda t, y: torch.stack([y[1], -y[0]]) * t, y0(2)),
    "a number": (lambda t, y: -y * t, torch.tensor(0.5, dtype=double)),
    "rows that act on one another": (lambda t, y: y.mean(0) - 2 * y, y0(3, 2)),
    "numbers, one the same for all": (lambda t, y: (y[1], torch.full((1,), -9.8, dtype=double)), (y0(1) + 3, y0(1))),
}
STEPS = {
    "a branch on time": (lambda t, y: -y if t < 0.35 else y, y0(3, 2), "`func` takes no rows"),
    "other numbers by rows": (lambda t, y: -y * (1 + t.dim()), y0(40, 2), "other numbers for the rows"),
    "many coupled units": (lambda t, y: y.mean(0) - y, y0(40, 2), "takes it of the samples"),
}


def engines(monkeypatch):
    """What ran, or why not, call by call."""
    found, run = [], ours.by_kernel

    def spy(*arguments, **how):
        try:
            solved = run(*arguments, **how)
        except NoKernel as why:
            found.append(str(why))
            raise
        found.append(solved.stats["engine"])
        return solved

    monkeypatch.setattr(ours, "by_kernel", spy)
    return found


def flat(y):
    return torch.cat([each.flatten() for each in rows.parts_of(y)])


@pytest.mark.each_value
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("solve", ["odeint", "odeint_adjoint"])
def test_states_and_gradients_by_kernels_are_torchdiffeqs(name, solve, monkeypatch):
    func, start = ROWS[name]
    found, results = engines(monkeypatch), []
    for module in (torchdiffeq, ours):
        given = [each.clone().requires_grad_() for each in rows.parts_of(start)]
        y = tuple(given) if isinstance(start, tuple) else given[0]
        t = torch.tensor([0.5, 0.2, -0.3], dtype=double)  # backwards
        params = {} if solve == "odeint" or isinstance(func, nn.Module) else {"adjoint_params": tuple(NET.parameters())}
        options = {"fused": "always"} if module is ours else {}
        hs = getattr(module, solve)(func, y, t, rtol=1e-9, atol=1e-9, options=options, **params)
        learned = [*given, *NET.parameters()]
        gradients = torch.autograd.grad(flat(hs).sin().sum(), learned, allow_unused=True, materialize_grads=True)
        results.append([flat(hs), *gradients])
    assert found[-1] == "compiled", found
    assert_close(results[1], results[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", STEPS)
def test_a_function_that_no_samples_can_be_made_of_is_solved_by_steps(name, monkeypatch):
    func, start, why = STEPS[name]
    found, t = engines(monkeypatch), torch.tensor([0.0, 0.3], dtype=double)
    y = ours.odeint(func, start, t)
    assert_close(y, torchdiffeq.odeint(func, start, t), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match=f"there is no kernel: .*{why}"):
        ours.odeint(func, start, t, options={"fused": "always"})
    assert "compiled" not in found


@pytest.mark.parametrize(
    "how",
    [
        {"options": {"jump_t": torch.tensor([0.1], dtype=double)}},
        {"options": {"fused": False}},
        {"method": "rk4"},
        {"t": torch.tensor([0.0, 0.3], dtype=double, requires_grad=True)},
    ],
    ids=lambda how: ", ".join(how.get("options", how)),
)
def test_options_that_forbid_a_kernel_have_none(how, monkeypatch):
    found = engines(monkeypatch)
    t = how.pop("t", torch.tensor([0.0, 0.3], dtype=double))
    ours.odeint(lambda t, y: NET(y), y0(3, 2), t, **how)
    assert set(found) <= {"`fused` is False"}


def test_a_callback_forbids_a_kernel(monkeypatch):
    class Called(Counts):
        steps = 0

        def callback_step(self, t, y, dt):
            self.steps += 1

    found, func = engines(monkeypatch), Called()
    ours.odeint(func, y0(3, 2), torch.tensor([0.0, 0.3], dtype=double))
    assert func.steps > 0
    assert not found


def test_units_that_begin_near_zero_keep_the_tolerance_of_their_own_in_float32(monkeypatch):
    """The default atol is that of each unit, the least of all rows."""
    found, start = engines(monkeypatch), torch.tensor([[1e3, 1.0], [2e3, 0.5]])
    y = ours.odeint(lambda t, y: -y, start, torch.tensor([0.0, 1.0]), options={"fused": "always"})
    assert found == ["compiled"]
    assert_close(y[-1], start * torch.exp(torch.tensor(-1.0)), rtol=1e-5, atol=0)


def test_the_counter_of_a_function_shows_the_evaluations_of_the_sample_that_took_most(monkeypatch):
    func, t = Counts(), torch.tensor([0.0, 1.0], dtype=double)
    counted = []
    for fused in (False, "always"):
        func.nfe = 0
        ours.odeint(func, y0(1, 2), t, options={"fused": fused})
        counted.append(func.nfe)
    assert abs(counted[1] - counted[0]) <= 3, counted  # the looks before a solve
