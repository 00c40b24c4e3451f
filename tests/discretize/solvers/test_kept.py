"""on_failure="keep": the samples that can be solved are, with their gradients, whatever becomes of the others."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, SolverError, integrate


class Blows(ctrnn.VectorField):
    """dh/dt = w h^2 + x: infinite at t = 1/h0 where h0 > 0; nan from the field itself below -5."""

    def __init__(self):
        super().__init__(1, 2)
        self.w = nn.Parameter(torch.tensor(1.0))

    def flow(self, projected, h):
        return self.w * h**2 + projected + 0 * (h + 5).sqrt()


H0 = torch.tensor([[-1.0, -0.5], [0.8, -1.0], [-0.3, -0.2], [-6.0, -1.0]], dtype=torch.float64)  # the second and the last fail
TS = torch.tensor([0.0, 0.5, 1.0, 3.0], dtype=torch.float64)
GOOD = [0, 2]


def solve(h0, path=ctrnn.HeldPath, **settings):
    xs = 0.1 * torch.ones(4, len(h0), 1)
    field = Blows()
    return integrate(field, path(xs), h0, TS, **{"rtol": 1e-6, "atol": 1e-6, **settings}), field


@pytest.mark.parametrize(
    ("method", "gradient"),
    [
        ("dopri5", Checkpointed(1e5)),
        ("rodas5p", None),
        pytest.param("dopri5", None, marks=pytest.mark.slow),
        pytest.param("rodas5p", Checkpointed(1e5), marks=pytest.mark.slow),
    ],
)
def test_the_others_have_the_states_and_gradients_they_have_alone(method, gradient):
    h0, alone0 = H0.clone().requires_grad_(), H0[GOOD].clone().requires_grad_()
    settings = {"method": method, "gradient": gradient, "rtol": 1e-2, "atol": 1e-2}
    solved, field = solve(h0, on_failure="keep", **settings)
    alone, theirs = solve(alone0, **settings)
    assert_close(solved.hs[:, GOOD], alone.hs, rtol=0, atol=1e-12)
    solved.hs[:, GOOD].square().sum().backward()
    alone.hs.square().sum().backward()
    assert_close(field.w.grad, theirs.w.grad, rtol=1e-9, atol=0)
    assert_close(h0.grad[GOOD], alone0.grad, rtol=1e-9, atol=0)
    assert not h0.grad[[1, 3]].any()


def test_samples_that_failed_are_marked_and_known_up_to_there():
    with torch.no_grad():
        solved, _ = solve(H0, on_failure="keep")
    assert solved.status == "completed but for 2 of 4 samples"
    first, second, third, last = solved.stats["status_of_samples"]
    assert first == third == "completed"
    assert second.startswith("failed at t = 1.")
    assert "without bound" in second
    assert "the field gives nan" in last
    # 0.8 tends to infinity at t = 1.2 or so: known at 0.5 and 1, and not at 3.
    assert solved.hs[:3, 1].isfinite().all()
    assert solved.hs[3, 1].isnan().all()
    assert solved.hs[1:, 3].isnan().all()
    assert len(solved.stats["steps_of_samples"]) == 4


def test_where_no_sample_fails_nothing_is_different():
    kept, _ = solve(H0[GOOD], on_failure="keep")
    usual, _ = solve(H0[GOOD])
    assert torch.equal(kept.hs, usual.hs)
    assert kept.status == "completed"


def test_modules_keep_the_samples_that_can_be_solved_and_only_where_they_are_told_to():
    field, x = ctrnn.gated(1, 3, rate="exponential"), torch.zeros(5, 4, 1)
    x[2, 1] = 30.0  # rates of one sample that steps so few do not follow
    with torch.no_grad():
        field.rate.weight_x.fill_(0.5)
    few = {"max_num_steps": 100}
    with pytest.raises(SolverError):
        ContinuousRNN(field, **few)(x)
    rnn = ContinuousRNN(field, on_failure="keep", **few)
    output, _ = rnn(x)
    bad = [status != "completed" for status in rnn.stats["status_of_samples"]]
    assert any(bad)
    assert output[-1].isnan().any(-1).tolist() == bad


@pytest.mark.parametrize("settings", [{"method": "rk4"}, {"gradient": Adjoint()}])
def test_it_is_for_samples_that_step_on_their_own(settings):
    with pytest.raises(ValueError, match="`on_failure='keep'` does not go with"):
        solve(H0, on_failure="keep", **settings)
    with pytest.raises(ValueError, match="`on_failure` must be"):
        solve(H0, on_failure="ignore")


class Rises(ctrnn.VectorField):
    """dh/dt = x, which every method follows exactly: steps are as many as the bound asks, of each sample its own."""

    def flow(self, projected, h):
        return projected.expand_as(h)


@pytest.mark.parametrize("fused", [True, False])
def test_steps_of_samples_are_counted_one_by_one(fused):
    own = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 0.5], [4.0, 3.0, 0.75]], dtype=torch.float64)
    path = ctrnn.HeldPath(torch.ones(2, 3, 1, dtype=torch.float64), own)
    stats = integrate(Rises(1, 1), path, torch.zeros(3, 1), own, max_step=0.25, first_step=0.25).stats
    assert stats["accepted_steps_of_samples"] == stats["steps_of_samples"] == [4 + 12, 8 + 4, 2 + 1]
    assert stats["rejected_steps_of_samples"] == [0, 0, 0]
    field, x = ctrnn.gated(1, 3, dtype=torch.float64), 3 * torch.randn(5, 4, 1)
    rnn = ContinuousRNN(field, "dopri5", first_step=1.0, rtol=1e-8, atol=1e-8, fused=fused)
    rnn(x)
    taken = [torch.tensor(rnn.stats[f"{kind}_steps_of_samples"]) for kind in ("accepted", "rejected")]
    assert (taken[0] + taken[1]).tolist() == rnn.stats["steps_of_samples"]
    assert bool((taken[1] >= 1).all()), "the first step is too long for each"
