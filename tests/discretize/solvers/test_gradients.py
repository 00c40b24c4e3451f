"""Gradients of every method, by differences of the solve itself, by fine fixed steps, and with less memory."""

import functools

import pytest
import torch
from cases import crossed
from torch.testing import assert_close

import ctrnn
from discretize import ETDRK4, BackwardEuler, Checkpointed, Euler, ExponentialEuler, RungeKutta4, Trapezoid, integrate

ADAPTIVE = ("dopri5", "tsit5", "dopri8", "bosh3", "adaptive_heun", "rodas5p")
FIXED = ("euler", "midpoint", "heun2", "heun3", "rk4")
STEPS = {"Euler": Euler(), "RungeKutta4": RungeKutta4(), "ExponentialEuler": ExponentialEuler(), "ETDRK4": ETDRK4()}
IMPLICIT = {"BackwardEuler": BackwardEuler(), "Trapezoid": Trapezoid()}
METHODS = {name: name for name in (*ADAPTIVE, *FIXED)} | STEPS | IMPLICIT
PATHS = {"held": ctrnn.HeldPath, "linear": ctrnn.LinearPath}
KINDS = ("shared", "own")


def settings_of(name):
    if name not in ADAPTIVE:
        return {"max_step": 0.6}  # one step or two in a segment
    # Loose, so that each segment takes a step or two; differences of 1e-6 then change no decision, and no step's share.
    return {"rtol": 1e-2, "atol": 1e-2}


def problem(path, times, batch=2, seed=3):
    """Samples, h0, times and knots, all with gradients; knots and times are no neighbours, so that differences keep order."""
    torch.manual_seed(seed)
    pieces = 3
    xs, h0 = torch.randn(pieces + (path == "linear"), batch, 2), 0.5 * torch.randn(batch, 2)
    knots, ts = torch.tensor([0.0, 0.8, 1.7, 2.5]), torch.tensor([0.1, 1.2, 2.4])
    if times == "own":
        shift = torch.linspace(0.0, 0.05, batch)
        knots, ts = knots[:, None] + shift, ts[:, None] + 1.3 * shift
    return [tensor.requires_grad_() for tensor in (xs, h0, ts, knots)]


def solution(field, path, name):
    names = [key for key, _ in field.named_parameters()]

    class Solve(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.field = field

        def forward(self, xs, h0, ts, knots):
            return integrate(self.field, PATHS[path](xs, knots), h0, ts, method=METHODS[name], **settings_of(name)).hs

    module = Solve()

    def call(xs, h0, ts, knots, *weights):
        changed = {f"field.{key}": weight for key, weight in zip(names, weights, strict=True)}
        return torch.func.functional_call(module, changed, (xs, h0, ts, knots))

    return call


GRID = [(name, path, times) for name in METHODS for path in PATHS for times in KINDS]


@pytest.mark.parametrize(
    ("name", "path", "times", "fast"),  # of the others every day: against the fine steps of rk4, below
    [(name, "linear", "own", True) for name in ("rk4", "ExponentialEuler")]
    + [pytest.param(*case, False, marks=pytest.mark.slow) for case in GRID],
)
def test_gradients_to_samples_start_times_knots_and_weights_are_those_of_differences(name, path, times, fast):
    """Steps are numbers, and shares of their segments where knots and times have gradients.

    A solver that adapts repeats its decisions at a difference of 1e-6, and its steps change by as little.
    """
    field = ctrnn.gated(2, 2)
    call = solution(field, path, name)
    inputs = (*problem(path, times), *field.parameters())
    # The length of a step is chosen by its error: what its change by 1e-6 does to the answer is the derivative of the error
    # by the step's length, some tolerances of 1e-2 / 8; of fixed steps nothing of the kind.
    close = {"rtol": 1e-2, "atol": 2e-3} if name in ADAPTIVE else {"rtol": 1e-5, "atol": 1e-7}
    # In a random direction, or entry by entry where differences are as rough as `close` says.
    assert torch.autograd.gradcheck(call, inputs, fast_mode=fast, **close)


def gradients(name, path, times, **settings):
    torch.manual_seed(5)
    field = ctrnn.gated(2, 2)
    xs, h0, ts, knots = problem(path, times)
    hs = integrate(field, PATHS[path](xs, knots), h0, ts, method=METHODS[name], **settings).hs
    weight = torch.linspace(-1, 1, hs.numel()).reshape(hs.shape)
    return torch.autograd.grad((hs * weight).sum(), [xs, h0, ts, knots, *field.parameters()])


@functools.cache
def fine_gradients(path, times):
    return gradients("rk4", path, times, max_step=1 / 100)


@pytest.mark.parametrize(
    ("name", "path", "times"),
    [("dopri5", "linear", "own")]
    + [pytest.param(n, p, t, marks=pytest.mark.slow) for n in ADAPTIVE for p in PATHS for t in KINDS],
)
def test_gradients_of_adaptive_solves_are_those_of_fine_fixed_steps(name, path, times):
    tolerance = {"bosh3": 1e-7, "adaptive_heun": 1e-5, "rodas5p": 1e-7}.get(name, 1e-9)
    ours = gradients(name, path, times, rtol=tolerance, atol=tolerance)
    for mine, fine in zip(ours, fine_gradients(path, times), strict=True):
        # Gradients are as exact as states but for a factor; the fine steps are good to 1e-9.
        assert_close(mine, fine, rtol=0, atol=30 * tolerance + 1e-8)


EVERYDAY_MEMORIES = {("tsit5", "linear"), ("rk4", "held"), ("BackwardEuler", "linear")}
MEMORIES = [
    pytest.param(name, path, marks=() if (name, path) in EVERYDAY_MEMORIES else pytest.mark.slow)
    for name in ("dopri5", "tsit5", "dopri8", "bosh3", "rodas5p", "rk4", "Euler", "BackwardEuler")
    for path in PATHS
]


@pytest.mark.parametrize(("name", "path"), MEMORIES)
def test_gradients_in_little_memory_are_the_same_to_rounding(name, path):
    settings = {"max_step": 0.5} if name not in ADAPTIVE else {"rtol": 1e-3, "atol": 1e-3}
    field = ctrnn.gated(2, 3)
    xs, h0 = torch.randn(4, 3, 2, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    weight = torch.randn(4, 3, 3)

    def run(memory):
        ts = torch.arange(4.0) if path == "linear" else torch.arange(5.0)[:-1]
        solved = integrate(
            field,
            PATHS[path](xs),
            h0,
            ts,
            method=METHODS[name],
            gradient=memory and Checkpointed(memory),
            fused=False,
            **settings,
        )
        grads = torch.autograd.grad((solved.hs * weight).sum(), [xs, h0, *field.parameters()])
        return solved, grads

    whole, expected = run(None)
    assert whole.stats["nfe_backward"] == 0
    for memory in (1, 3e4, 1e12):
        solved, grads = run(memory)
        assert torch.equal(solved.hs, whole.hs)
        assert solved.stats["num_steps"] == whole.stats["num_steps"]
        assert solved.stats["nfe_backward"] > 0
        assert solved.stats["nfe_backward"] <= 2 * whole.stats["nfe"]  # a block looks at its first slope again
        for ours, theirs in zip(grads, expected, strict=True):
            # Every step's share is the same number, but a block adds up its own before the sum over blocks: rounding of some
            # dozens of shares, which may cancel in an entry and be as large as those of its neighbours.
            assert_close(ours, theirs, rtol=0, atol=1e-13 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", ["dopri5", "rodas5p", "rk4"])
def test_second_derivatives_are_there_and_refused_in_little_memory(name):
    field, h0 = ctrnn.gated(2, 2), torch.randn(2, 2, requires_grad=True)
    xs = torch.randn(2, 2, 2)

    def curvature(memory, dt=0.25, tolerance=1e-4):
        settings = {"max_step": dt} if name not in ADAPTIVE else {"rtol": tolerance, "atol": tolerance}
        h = integrate(
            field,
            ctrnn.HeldPath(xs),
            h0,
            torch.tensor([0.0, 2.0]),
            method=name,
            gradient=memory and Checkpointed(memory),
            **settings,
        ).hs[-1]
        (slope,) = torch.autograd.grad(h.square().sum(), h0, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [h0, *field.parameters()])

    for ours, finer in zip(curvature(None), curvature(None, dt=1 / 32, tolerance=1e-6), strict=True):
        assert_close(ours, finer, rtol=0, atol=1e-2)
    with pytest.raises(RuntimeError, match="no second derivatives with `gradient=Checkpointed`"):
        curvature(1)


class Root(ctrnn.VectorField):
    """dh/dt = -k sqrt(h) h: positive for ever, and nan where a step tries what is not."""

    def __init__(self, fast):
        super().__init__(1, 1)
        self.k = torch.nn.Parameter(torch.tensor(fast))

    def flow(self, projected, h):
        return -self.k * projected.exp() * h.sqrt() * h


# dopri8 finds its way without.
@pytest.mark.parametrize(("method", "memory"), crossed(["dopri5", "bosh3"], [None, 1]))
def test_tries_that_left_the_domain_leave_no_nan_in_anyones_gradient(method, memory):
    field = Root(1.0)
    xs = torch.tensor([[[0.0], [9.0], [1.0]]])  # the second is 8000 times as fast
    h0 = torch.tensor([[1.0], [1.0], [2.0]], requires_grad=True)
    ts = torch.tensor([0.0, 0.5, 2.0])
    tries = []

    def watch(module, arguments, result):
        tries.append(bool(result.isnan().any()))

    def flow(projected, h, whole=field.flow):
        slope = whole(projected, h)
        watch(None, None, slope)
        return slope

    field.flow = flow
    path = ctrnn.HeldPath(xs.requires_grad_(), [0.0, 2.0])
    solved = integrate(field, path, h0, ts, method=method, rtol=1e-3, atol=1e-3, gradient=memory and Checkpointed(memory))
    grads = torch.autograd.grad(solved.hs[-1].sum(), [h0, xs, field.k])
    # h = (h0^-1/2 + k e^x t / 2)^-2
    h = (h0**-0.5 + field.k * xs[0].exp() * 2.0 / 2) ** -2
    expected = torch.autograd.grad(h.sum(), [h0, xs, field.k])
    for ours, theirs in zip(grads, expected, strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs, rtol=0, atol=1e-2)
    assert any(tries), "no try left the domain: take a faster one"
