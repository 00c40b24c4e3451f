"""The monitor counts what brute force counts, names the worst step, warns once, and leaves nothing behind."""

import warnings

import numpy as np
import problems
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Monitor


def wild(hidden: int = 3) -> ctrnn.VectorField:
    """Rates from far below 1 to above 2."""
    field = ctrnn.gated(2, hidden, rate="exponential")
    with torch.no_grad():
        field.rate.weight_x.mul_(3)
    return field


def brute_force(rnn: discretize.DiscreteRNN, xs: torch.Tensor, lengths: list[float]) -> torch.Tensor:
    """(steps, batch, state): g dt before each step."""
    field, h, seen = rnn.field, xs.new_zeros(xs.shape[1], rnn.field.state_size), []
    with torch.no_grad():
        for x, length in zip(xs, lengths, strict=True):
            for _ in range(rnn.substeps):
                dt = length / rnn.substeps
                seen.append(dt * field.leak(field.project(x), h))
                h = rnn.step(field, x, h, dt)
    return torch.stack(seen)


def by_region(step: discretize.Step, seen: torch.Tensor) -> torch.Tensor:
    """Unit by unit, one number at a time."""
    counts = torch.zeros(seen.shape[-1], 4, dtype=torch.int64)
    for unit in range(seen.shape[-1]):
        for g in seen[..., unit].flatten().tolist():
            factor = float(step.stability(torch.tensor(-g)))
            size = abs(factor)
            if g < 1e-15:  # as good as 0: 1 - g is 1
                region = 0
            elif abs(size - 1) < 1e-15:
                region = 2
            elif not size <= 1:
                region = 3
            else:
                region = 0 if factor >= 0 else 1
            counts[unit, region] += 1
    return counts


@pytest.mark.parametrize(
    ("name", "substeps", "stamped"), [("Euler", 1, False), ("RungeKutta4", 3, True), ("FrozenTrapezoid", 1, True)]
)
def test_region_counts_are_those_of_brute_force(name, substeps, stamped):
    rnn = discretize.DiscreteRNN(wild(), problems.STEPS[name], dt=0.4, substeps=substeps, fused=False)
    xs, ts = torch.randn(16, 3, 2), (torch.cat([torch.zeros(1), torch.rand(16)]).cumsum(0) if stamped else None)
    with Monitor(rnn, warn="never") as monitor:
        output = rnn(xs, ts=ts)[0]
    seen = brute_force(rnn, xs, [0.4] * 16 if ts is None else ts.diff().tolist())
    record = monitor.records[""]
    assert torch.equal(record.counts, by_region(rnn.step, seen))
    assert record.counts.sum() == 16 * 3 * 3 * substeps
    assert record.largest.g_dt == pytest.approx(float(seen[seen.isfinite()].max()))
    assert (record.lost is not None) == bool((~seen.isfinite()).any())
    assert sum(record.shares.values()) == pytest.approx(1)
    assert_close(rnn(xs, ts=ts)[0], output, rtol=0, atol=0, equal_nan=True)


def test_the_histogram_is_that_of_numpy_and_quantiles_are_its_bins():
    rnn = discretize.DiscreteRNN(wild(), discretize.ExponentialEuler())
    xs = torch.randn(80, 5, 2)
    with Monitor(rnn) as monitor:
        rnn(xs)
    seen, record = brute_force(rnn, xs, [1.0] * 80), monitor.records[""]
    edges = np.concatenate([[-np.inf], record.edges.numpy(), [np.inf]])
    for unit in range(3):
        expected = np.histogram(seen[..., unit].flatten().numpy(), edges)[0]
        assert record.histogram[unit].tolist() == expected.tolist()
        exact = float(seen[..., unit].flatten().quantile(0.9))
        assert exact <= record.quantile(0.9)[unit] <= exact * 10 ** (2 / 8)


def test_the_largest_step_is_named_by_unit_sample_time_and_call():
    field = ctrnn.leaky(1, 3, per_unit=True)
    with torch.no_grad():
        field.rate.log_alpha.copy_(torch.tensor([0.1, 1.5, 0.2]).log())
    rnn = discretize.DiscreteRNN(field)
    ts = torch.tensor([0.0, 1.0, 1.5, 4.5, 5.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Monitor(rnn) as monitor:
            rnn(torch.randn(2, 3, 1))
            rnn(torch.randn(4, 3, 1), ts=ts)
            rnn(torch.randn(4, 3, 1), ts=ts)
    assert monitor.records[""].largest == discretize.LongStep(pytest.approx(4.5), 1, 0, 1.5, 1)
    # Once for overshooting, in the first call, and once more for what is worse.
    assert [w.category for w in caught] == [discretize.StepWarning] * 2
    assert "overshooting" in str(caught[0].message)
    assert "unit 1, sample 0, at time 0 of call 0" in str(caught[0].message)
    assert "divergent" in str(caught[1].message)
    assert "g dt = 4.5 in unit 1, sample 0, at time 1.5 of call 1" in str(caught[1].message)
    assert "DiscreteRNN: 90 steps of Euler()" in str(monitor)


def test_a_warning_tells_the_share_of_the_steps_that_were_taken():
    """Of a sequence that is over no step counts: 8 of 8 are outside, not 8 of 16."""
    rnn = discretize.DiscreteRNN(ctrnn.leaky(1, 2, alpha=1.5))
    with pytest.warns(discretize.StepWarning, match=r"\(100\.0% of the steps"), Monitor(rnn):
        rnn(torch.randn(4, 2, 1), lengths=[4, 1])


def test_a_warning_can_be_put_off_and_switched_off():
    rnn, xs = discretize.DiscreteRNN(ctrnn.leaky(1, 2, alpha=1.5)), torch.randn(3, 2, 1)
    for warn in ("divergent", "never"):
        with Monitor(rnn, warn=warn):
            rnn(xs)
    with pytest.warns(discretize.StepWarning, match="overshooting"), Monitor(rnn):
        rnn(xs)
    with pytest.raises(ValueError, match="'overshooting', 'divergent', 'never'"):
        Monitor(rnn, warn="always")
    with pytest.raises(ValueError, match=r"no discretize\.DiscreteCell or DiscreteRNN"):
        Monitor(nn.Linear(1, 1))


def test_recording_changes_no_gradient_in_training():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = discretize.DiscreteRNN(ctrnn.gru(2, 4), batch_first=True, fused=False)
            self.second = discretize.DiscreteRNN(ctrnn.lstm(4, 3), discretize.BackwardEuler(), batch_first=True)
            self.read = nn.Linear(3, 1)

        def forward(self, x):
            return self.read(self.second(self.first(x)[0])[0])

    model, x = Tagger(), torch.randn(5, 7, 2)
    (expected := model(x).square().mean()).backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with Monitor(model, warn="never") as monitor:
        loss = model(x).square().mean()
        loss.backward()
    assert torch.equal(loss, expected)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))
    assert set(monitor.records) == {"first", "second"}
    assert monitor.records["first"].counts.shape == (4, 4)
    assert monitor.records["second"].counts.sum() == 5 * 7 * 6


def test_nothing_is_left_when_it_is_off():
    rnn = discretize.DiscreteRNN(ctrnn.gated(1, 2), discretize.Heun())
    step = rnn.step
    monitor = Monitor(rnn)
    with pytest.raises(ValueError, match="watched already"):
        Monitor(rnn)
    assert repr(rnn.step) == "Heun()"
    assert rnn.step.order == 2
    monitor.remove()
    monitor.remove()
    assert rnn.step is step
    assert not rnn._forward_hooks
    assert not rnn._forward_pre_hooks
    with pytest.raises(RuntimeError), Monitor(rnn):
        raise RuntimeError
    assert rnn.step is step


def test_it_can_record_every_third_call_only():
    rnn = discretize.DiscreteRNN(ctrnn.leaky(1, 2, alpha=0.5))
    with Monitor(rnn, every=3) as monitor:
        for _ in range(7):
            rnn(torch.randn(4, 5, 1))
    assert monitor.records[""].counts.sum() == 3 * 4 * 5 * 2
    assert monitor.records[""].largest.call in (0, 3, 6)
    with pytest.raises(ValueError, match="`every`"):
        Monitor(rnn, every=0)


def test_a_cell_alone_is_watched_step_by_step():
    cell = discretize.DiscreteCell(wild(), discretize.ExponentialEuler(), dt=0.5)
    with Monitor(cell, warn="never") as monitor:
        h = cell(torch.randn(4, 2))
        for _ in range(9):
            h = cell(torch.randn(4, 2), h)
        record = monitor.records[""]
        assert record.counts.sum() == 10 * 4 * 3
    assert record.time == 5.0


class Unsaid(ctrnn.VectorField):
    """dh/dt = x - 5 h, which Euler's step of length 1 blows up, without a word of its leak."""

    def flow(self, projected, h):
        return projected - 5 * h


class Traced(Unsaid):
    leak = ctrnn.traced_leak


def test_of_a_field_that_declares_no_leak_no_region_is_told_and_how_to_read_one_is():
    said = []
    for field in (Unsaid(2, 2), Traced(2, 2)):
        with Monitor(rnn := discretize.DiscreteRNN(field), warn="never") as monitor:
            assert rnn(torch.ones(6, 1, 2))[0].abs().max() > 100
        said.append(str(monitor))
    assert "g dt is not known, for the field declares no leak; its class may read one, `leak = ctrnn.traced_leak`" in said[0]
    assert "monotone" not in said[0]
    assert "divergent 100.00%; g dt at most 5, in unit" in said[1]


def test_a_state_that_is_no_number_counts_as_divergent():
    rnn = discretize.DiscreteRNN(wild(), dt=50.0)
    with Monitor(rnn, warn="never") as monitor:
        rnn(10 * torch.randn(60, 2, 2))
    record = monitor.records[""]
    assert record.counts.sum() == 60 * 2 * 3
    assert record.counts[:, 3].sum() > 200
    assert record.histogram.sum() == 60 * 2 * 3


def test_a_cell_with_lengths_for_each_sample_is_watched():
    cell = discretize.DiscreteCell(wild())
    with Monitor(cell, warn="never") as monitor:
        cell(torch.randn(4, 2), dt=torch.rand(4) + 0.1)
        cell(torch.randn(3, 2), dt=torch.rand(3) + 0.1)
        cell(torch.randn(3, 2), dt=torch.tensor(0.3, requires_grad=True))
    (record,) = monitor.records.values()
    assert int(record.counts.sum()) == 10 * 3


@pytest.mark.parametrize("edges", [False, True])
def test_a_ragged_batch_is_counted_as_its_sequences_alone(edges):
    rnn = discretize.DiscreteRNN(wild(), dt=0.5, substeps=2)
    x, lengths, ts = torch.randn(5, 3, 2), [2, 5, 1], None
    if edges:
        ts = torch.cumsum(0.2 + torch.rand(6, 3), 0)
    with Monitor(rnn, warn="never") as together:
        rnn(x, ts=ts, lengths=lengths)
    with Monitor(rnn, warn="never") as alone:
        for i, n in enumerate(lengths):
            rnn(x[:n, i : i + 1], ts=None if ts is None else ts[: n + 1, i])
    (found,), (expected,) = together.records.values(), alone.records.values()
    assert int(found.counts.sum()) == sum(lengths) * 2 * 3
    assert torch.equal(found.counts, expected.counts)
    assert torch.equal(found.histogram, expected.histogram)
    assert found.largest.g_dt == pytest.approx(expected.largest.g_dt, abs=1e-12)
    assert (found.largest.sample, found.largest.unit) == (expected.largest.call, expected.largest.unit)
    assert found.largest.time == pytest.approx(expected.largest.time, abs=1e-12)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_after_weights_are_lost_the_largest_is_the_finite_one_before_and_where_it_ended_is_told(value):
    field = ctrnn.leaky(1, 2, alpha=1.5)
    rnn = discretize.DiscreteRNN(field, dt=0.5)
    with Monitor(rnn, warn="never") as monitor:
        rnn(torch.ones(3, 4, 1))
        with torch.no_grad():
            field.rate.log_alpha.fill_(value)
        with pytest.warns(UserWarning, match="not finite"):
            rnn(torch.ones(3, 4, 1))
    record = monitor.records[""]
    assert (record.largest.g_dt, record.largest.call) == (pytest.approx(0.75), 0)
    assert (record.lost.call, record.lost.time, record.lost.sample, record.lost.unit) == (1, 0.0, 0, 0)
    assert f"g dt is {'infinite' if value > 0 else 'not a number'} from there on: in unit 0, sample 0, at time 0" in str(monitor)
