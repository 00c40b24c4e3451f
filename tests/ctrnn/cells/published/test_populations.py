"""Populations, supralinear networks and Beer's biases: the papers' equations written again, and what they are known for."""

import math

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize


def test_two_populations_follow_the_equations_of_the_paper_and_cycle_where_it_says():
    # Wilson and Cowan 1972, fig. 11.
    c_1, c_2, c_3, c_4, a_e, theta_e, a_i, theta_i, p = 16.0, 12.0, 15.0, 3.0, 1.3, 4.0, 2.0, 3.7, 1.25
    field = ctrnn.wilson_cowan(1, 2, tau=10.0)
    with torch.no_grad():
        field.drive.weight_h.copy_(torch.tensor([[a_e * c_1, -a_e * c_2], [a_i * c_3, -a_i * c_4]]))
        field.drive.weight_x.copy_(torch.tensor([[a_e], [0.0]]))
        field.drive.bias.copy_(torch.tensor([-a_e * theta_e, -a_i * theta_i]))

    def response(y, a, theta):
        return 1 / (1 + math.exp(-a * (y - theta))) - 1 / (1 + math.exp(a * theta))

    for e, i in ((0.0, 0.0), (0.1, 0.3), (0.4, 0.05)):
        most_e, most_i = (math.exp(a * theta) / (1 + math.exp(a * theta)) for a, theta in ((a_e, theta_e), (a_i, theta_i)))
        slope_e = -e + (most_e - e) * response(c_1 * e - c_2 * i + p, a_e, theta_e)
        slope_i = -i + (most_i - i) * response(c_3 * e - c_4 * i, a_i, theta_i)
        found = field(torch.tensor([[p]]), torch.tensor([[e, i]]))
        assert_close(found, torch.tensor([[slope_e, slope_i]]) / 10, rtol=1e-12, atol=1e-15)
    driven, silent = (discretize.Flow(field, torch.tensor([x])) for x in (p, 0.0))
    starts = torch.rand(40, 2) * 0.5
    assert not bool(discretize.fixed_points(driven, starts).stable.any())
    rest = discretize.fixed_points(silent, torch.zeros(1, 2))
    assert_close(rest.h, torch.zeros(1, 2), rtol=0, atol=1e-15)
    assert bool(rest.stable.all())
    with torch.no_grad():
        field.drive.weight_h.zero_()  # the response is held, and the leak is what falls with h
    projected, h = field.project(torch.ones(1)), torch.rand(2)
    slope = torch.func.jacrev(lambda h: field.flow(projected, h))(h)
    assert_close(torch.diag(field.leak(projected, h)), -slope, rtol=1e-12, atol=0)


def test_one_supralinear_unit_rests_where_a_quadratic_has_a_root_and_nowhere_beyond():
    field = ctrnn.ssn(1, 1, tau=20.0, k=0.04, bias=False)
    with torch.no_grad():
        field.candidate.weight_h.fill_(1.0)
        field.candidate.weight_x.fill_(1.0)
    for drive in (1.0, 5.0, 6.2):
        found = discretize.fixed_points(discretize.Flow(field, torch.tensor([drive])), torch.linspace(0, 40, 30)[:, None])
        roots = [(1 - 2 * 0.04 * drive + sign * math.sqrt(1 - 4 * 0.04 * drive)) / 0.08 for sign in (-1, 1)]
        assert_close(found.h[:, 0].sort().values, torch.tensor(roots), rtol=1e-7, atol=1e-9)
        assert found.stable[found.h[:, 0].argsort()].tolist() == [True, False]
    beyond = discretize.Flow(field, torch.tensor([6.3]))  # 4 k w I > 1
    assert len(discretize.fixed_points(beyond, torch.linspace(0, 40, 30)[:, None])) == 0


def test_gradients_go_through_the_power_law_also_at_its_corner():
    field, x = ctrnn.ssn(2, 3, n=1.5), torch.randn(4, 2)
    assert torch.autograd.gradcheck(lambda h: field(x, h), torch.rand(4, 3).requires_grad_())
    quiet = ctrnn.ssn(2, 3, bias=False)
    slope = torch.func.jacrev(lambda h: quiet(torch.zeros(2), h))(torch.zeros(3))
    assert_close(slope, -torch.eye(3), rtol=0, atol=0)


def test_centre_crossing_networks_rest_at_the_middle_of_every_unit_and_leave_it_more_often():
    generator, unstable = torch.Generator().manual_seed(0), []
    for center in (True, False):
        count = 0
        for _ in range(15):
            field = ctrnn.additive(0, 3, "sigmoid")
            with torch.no_grad():
                field.candidate.weight_h.copy_(torch.rand(3, 3, generator=generator) * 32 - 16)
                field.candidate.bias.copy_(torch.rand(3, generator=generator) * 32 - 16)
            if center:
                assert ctrnn.init.center_crossing_(field) is field
                assert_close(field(torch.zeros(1, 0), torch.zeros(1, 3)), torch.zeros(1, 3), rtol=0, atol=1e-14)
            flow = discretize.Flow(field)
            starts = torch.rand(12, 3, generator=generator) * 32 - 16
            count += not bool(discretize.fixed_points(flow, starts).stable.any())
        unstable.append(count)
    assert unstable[0] > unstable[1]  # Mathayomchan and Beer 2002


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ctrnn.ssn(1, 2, n=0.5), ValueError, "`n` must be at least 1"),
        (lambda: ctrnn.ssn(1, 2, k=0.0), ValueError, "`k` must be positive"),
        (lambda: ctrnn.wilson_cowan(1, 2, refractory=-1.0), ValueError, "`refractory` must be at least 0"),
        (lambda: ctrnn.wilson_cowan(1, 2, bias=False), ValueError, "`drive` has no bias"),
        (lambda: ctrnn.WilsonCowanField(ctrnn.Affine(1, 2, 3), ctrnn.FixedRate(1.0)), ValueError, "drive"),
        (lambda: ctrnn.init.center_crossing_(ctrnn.additive(1, 2)), TypeError, "sigmoid"),
        (lambda: ctrnn.init.center_crossing_(ctrnn.additive(1, 2, "sigmoid", bias=False)), ValueError, "without a bias"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        make()
