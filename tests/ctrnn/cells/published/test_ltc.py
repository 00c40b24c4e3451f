"""Liquid time constants against ncps' own: states, outputs and gradients, under every wiring and mapping."""

import sys

import pytest
import torch
from ncps.torch import LTC, CfC, LTCCell
from ncps.wirings import AutoNCP, FullyConnected
from torch.testing import assert_close

import ctrnn
import discretize


def random_cell(wiring=None, dtype=torch.float64, **settings):
    """A cell of ncps in which no weight is at its special start, without its constant against division by 0."""
    cell = LTCCell(wiring or AutoNCP(8, 2), 3, epsilon=0.0, **settings).to(dtype)
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            if not name.endswith(("mask", "erev")):
                parameter.mul_(0.5 + torch.rand_like(parameter))
            if name in ("input_b", "output_b", "erev"):
                parameter.add_(torch.randn_like(parameter))
    return cell


@pytest.mark.parametrize("wiring", [lambda: FullyConnected(7, 3), lambda: AutoNCP(8, 2)])
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize(("mapped", "unfolds", "elapsed"), [(None, 6, 0.3), ("linear", 1, 1.0), ("affine", 6, 4.0)])
@torch.no_grad()
def test_six_frozen_steps_are_the_cell_of_ncps(wiring, implicit, mapped, unfolds, elapsed):
    cell = random_cell(
        wiring(), input_mapping=mapped, output_mapping=mapped, ode_unfolds=unfolds, implicit_param_constraints=implicit
    )
    field = ctrnn.from_ncps(cell)
    (x, h), step = (torch.randn(4, 3), torch.randn(4, cell.state_size)), discretize.FrozenBackwardEuler()
    outputs, theirs = cell(x, h, elapsed)
    for _ in range(unfolds):
        h = step(field, x, h, elapsed / unfolds)
    assert_close(h, theirs, rtol=0, atol=1e-13)
    assert_close(field.visible(h), outputs, rtol=0, atol=1e-13)


def test_each_sequence_of_a_batch_has_the_times_that_ncps_gives_it_alone():
    theirs = LTC(3, 5, epsilon=0.0).double()
    rnn = discretize.from_ncps(theirs)
    x, spans = torch.randn(5, 6, 3), torch.rand(5, 6) + 0.1  # as many sequences as units: there ncps answers, and wrongly
    alone = torch.cat([theirs(x[k : k + 1], timespans=spans[k : k + 1])[0] for k in range(5)])
    edges = torch.cat([torch.zeros(5, 1), spans.cumsum(1)], 1)
    assert_close(rnn(x, ts=edges)[0], alone, rtol=0, atol=1e-13)
    assert (theirs(x, timespans=spans)[0] - alone).abs().max() > 1e-3
    backward = discretize.from_ncps(theirs, hold="backward", open_interval=float(spans[0, 0]))
    assert_close(backward(x[:1], ts=edges[:1, 1:])[0], alone[:1], rtol=0, atol=1e-13)


def test_in_single_precision_states_agree_to_a_millionth():
    torch.set_default_dtype(torch.float32)
    cell = LTCCell(FullyConnected(7), 3)  # with their constant
    x, h = torch.randn(4, 3), torch.randn(4, 7)
    rnn = discretize.DiscreteRNN(ctrnn.from_ncps(cell), discretize.FrozenBackwardEuler(), substeps=6)
    assert_close(rnn(x[None], h)[0][0], cell(x, h)[1], rtol=0, atol=1e-6)


@torch.no_grad()
def test_their_steps_tend_to_the_solution_as_they_are_unfolded_more_often():
    cell = random_cell(FullyConnected(7))
    field, x, h = ctrnn.from_ncps(cell), torch.randn(1, 3), torch.randn(1, 7)
    exact = discretize.ContinuousRNN(field, rtol=1e-8, atol=1e-10)(x[None], h)[1][0]
    errors = []
    for cell._ode_unfolds in (3, 12, 48):
        errors.append(float((cell(x, h)[1] - exact).abs().max()))
    assert errors[0] > 3 * errors[1] > 9 * errors[2] > 0


def test_weights_that_stand_for_no_synapse_change_nothing_and_learn_nothing():
    field = ctrnn.from_ncps(random_cell(AutoNCP(8, 2)))
    x, h = torch.randn(4, 3), torch.randn(4, 8)
    before = field(x, h)
    synapses, missing = field.from_units, field.from_units.wiring == 0
    field(x, h).square().sum().backward()
    for parameter in synapses.parameters():
        assert not parameter.grad[missing].any()
        assert parameter.grad[~missing].any()
    with torch.no_grad():
        for parameter in synapses.parameters():
            parameter[missing] += 1.0
    assert torch.equal(field(x, h), before)


def test_weights_start_in_the_ranges_of_ncps():
    field, ranges = ctrnn.ltc(200, 500, generator=torch.Generator().manual_seed(0)), LTCCell(FullyConnected(2), 1)._init_ranges
    softplus = torch.nn.functional.softplus
    drawn = {"cm": softplus(field.raw_capacitance), "gleak": softplus(field.raw_leak), "vleak": field.rest}
    for kind, synapses in (("sensory_", field.from_inputs), ("", field.from_units)):
        drawn[f"{kind}w"] = softplus(synapses.raw_weight)
        drawn[f"{kind}sigma"], drawn[f"{kind}mu"] = synapses.slope, -synapses.offset / synapses.slope
        assert torch.equal(synapses.potential, synapses.wiring)
        assert_close((synapses.wiring == 1).double().mean().item(), 2 / 3, rtol=0, atol=0.01)  # of 100000, as ncps chooses
        assert (synapses.wiring.abs() == 1).all()
    assert drawn.keys() == ranges.keys()
    for name, values in drawn.items():
        low, high = ranges[name]
        ends = torch.stack([values.min(), values.max(), values.mean()]).detach()
        assert_close(ends, torch.tensor([low, high, (low + high) / 2]), rtol=0, atol=0.05 * (high - low))  # of 500 at least
        assert low - 1e-12 <= ends[0]
        assert ends[1] <= high + 1e-12


def test_all_that_is_drawn_comes_from_the_generator():
    before = torch.get_rng_state()
    one, other = (ctrnn.ltc(3, 5, num_layers=2, generator=torch.Generator().manual_seed(3)).state_dict() for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("implicit", [False, True])
def test_a_copy_is_one_and_learns_what_its_cell_learns(implicit):
    cell = random_cell(output_mapping="linear", implicit_param_constraints=implicit)
    field, x, h = ctrnn.from_ncps(cell), torch.randn(4, 3), torch.randn(4, 8)
    before = field(x, h)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(0.5)
    assert torch.equal(field(x, h), before)
    assert {name for name, p in field.named_parameters() if not p.requires_grad} == {"shift"}
    signs = torch.eye(3)
    synapses = ctrnn.Synapses(signs)
    signs.zero_()
    assert torch.equal(synapses.wiring, torch.eye(3))


def test_flow_is_what_drives_less_the_leak_and_gradients_are_its_own():
    field = ctrnn.ltc(2, 3)
    x, h = torch.randn(4, 2, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    slope, leak = field.flow_and_leak(field.project(x), h)
    assert_close(field(x, h), slope)
    assert (leak > 0).all()
    assert torch.autograd.gradcheck(field, (x, h))
    names = [name for name, _ in field.named_parameters()]
    assert torch.autograd.gradcheck(
        lambda *weights: torch.func.functional_call(
            field, dict(zip(names, weights, strict=True)), (x.detach(), h.detach())
        ).sum(),
        tuple(field.parameters()),
    )


def test_its_time_scales_are_those_of_its_motor_neurons_and_not_of_what_is_read_from_them():
    cell = random_cell(output_mapping="affine")
    field = ctrnn.from_ncps(cell)
    x, h = torch.zeros(3), torch.zeros(8)
    open_ = [
        w * torch.sigmoid(slope * (u[:, None] - centre)) * mask
        for u, w, slope, centre, mask in (
            (x * cell.input_w + cell.input_b, cell.sensory_w, cell.sensory_sigma, cell.sensory_mu, cell.sensory_sparsity_mask),
            (h, cell.w, cell.sigma, cell.mu, cell.sparsity_mask),
        )
    ]
    expected = cell.cm / (cell.gleak + sum(weights.sum(0) for weights in open_))
    assert_close(ctrnn.timescales(field), expected[:2].detach())


def test_in_a_stack_the_layer_above_reads_motor_neurons_as_mapped():
    below = ctrnn.from_ncps(random_cell(AutoNCP(8, 2), output_mapping="affine"))
    above = ctrnn.from_ncps(LTCCell(FullyConnected(5, 2), 2).double())
    stack, h = ctrnn.Stack([below, above]), torch.randn(4, 13)
    x = torch.randn(4, 3)
    expected = torch.cat([above(below.visible(h[:, 5:]), h[:, :5]), below(x, h[:, 5:])], -1)
    assert_close(stack(x, h), expected)
    assert_close(stack.visible(h), above.visible(h[:, :5]))


def test_what_is_no_liquid_time_constant_is_refused_in_words(monkeypatch):
    with pytest.raises(TypeError, match=r"an LTCCell or LTC of ncps.torch, got CfC; `discretize.jumps.from_ncps` reads a CfC"):
        ctrnn.from_ncps(CfC(3, 5))
    with pytest.raises(ValueError, match="an LSTM before its cell"):
        ctrnn.from_ncps(LTC(3, 5, mixed_memory=True))
    cell = LTCCell(FullyConnected(5), 3)
    with torch.no_grad():
        cell.w[0, 0] = -1.0
    with pytest.raises(ValueError, match="`w` that is not positive; call its `apply_weight_constraints"):
        ctrnn.from_ncps(cell)
    cell.apply_weight_constraints()
    with torch.no_grad():
        cell.cm[2] = 0.0
    with pytest.raises(ValueError, match="`cm` that is not positive"):
        ctrnn.from_ncps(cell)
    with torch.no_grad():
        cell.cm[2] = 0.5
    wired = random_cell(AutoNCP(8, 2))
    with torch.no_grad():
        wired.w[wired.sparsity_mask == 0] = -1.0  # of no synapse
    ctrnn.from_ncps(wired)
    assert float(torch.nn.functional.softplus(ctrnn.from_ncps(cell).from_units.raw_weight.detach())[0, 0]) < 1e-37
    with pytest.raises(ValueError, match="of -1, 0 and 1"):
        ctrnn.Synapses(torch.full((3, 3), 0.5))
    with pytest.raises(ValueError, match="`from_units` is wired 4 x 4, `from_inputs` to 3 units"):
        ctrnn.LTCField(ctrnn.Synapses(torch.ones(2, 3)), ctrnn.Synapses(torch.ones(4, 4)))
    with pytest.raises(TypeError, match=r"`from_units` has parameters of torch\.float32"):
        ctrnn.LTCField(ctrnn.Synapses(torch.ones(2, 3)), ctrnn.Synapses(torch.ones(3, 3), dtype=torch.float32))
    with pytest.raises(TypeError, match=r"`generator` must be a torch\.Generator, got int"):
        ctrnn.LTCField(ctrnn.Synapses(torch.ones(2, 3)), ctrnn.Synapses(torch.ones(3, 3)), generator=3)
    assert "Synapses(3 x 8)" in repr(ctrnn.ltc(3, 8, device="meta"))
    monkeypatch.setitem(sys.modules, "ncps.torch", None)
    with pytest.raises(ImportError, match="pip install ncps"):
        ctrnn.from_ncps(cell)
