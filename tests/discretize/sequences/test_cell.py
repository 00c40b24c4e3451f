"""Discrete cells and their unrolling against torch's own."""

import copy

import problems
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteCell, Euler, unroll

# Same sums as torch in another order: rounding only.
ROUNDING = {"rtol": 0, "atol": 1e-12}


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell])
@pytest.mark.parametrize(("batch", "hidden"), [(4, 5), (5, 5), (1, 3)])
def test_the_unit_euler_cell_is_the_torch_cell(kind, batch, hidden):
    theirs, x, h = kind(3, hidden), torch.randn(batch, 3), torch.randn(batch, hidden)
    ours = DiscreteCell(ctrnn.from_torch(theirs), step=Euler(), dt=1.0)
    assert_close(ours(x, h), theirs(x, h), **ROUNDING)
    assert_close(ours(x), theirs(x), **ROUNDING)
    assert_close(ours(x[0], h[0]), theirs(x[0], h[0]), **ROUNDING)


def test_the_unit_euler_cell_of_the_lstm_field_is_the_torch_lstm_cell():
    theirs, x, h, c = nn.LSTMCell(3, 5), torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    state = DiscreteCell(ctrnn.from_torch(theirs))(x, torch.cat([h, c], -1))
    assert_close(state, torch.cat(theirs(x, (h, c)), -1), **ROUNDING)


def test_the_weights_are_those_of_the_field_under_every_discretization():
    field = ctrnn.gated(2, 3)
    cell = DiscreteCell(field)
    assert list(cell.state_dict()) == [f"field.{key}" for key in field.state_dict()]
    assert cell.field is field
    twin = copy.deepcopy(cell)
    x = torch.randn(4, 2)
    assert torch.equal(twin(x), cell(x))


def test_unrolling_starts_at_h0_and_is_the_loop_one_would_write():
    theirs, xs, h = nn.GRUCell(2, 3), torch.randn(6, 4, 2), torch.randn(4, 3)
    trajectory = unroll(DiscreteCell(ctrnn.from_torch(theirs)), xs, h)
    expected = [h]
    for x in xs:
        expected.append(theirs(x, expected[-1]))
    assert_close(trajectory.hs, torch.stack(expected), rtol=0, atol=1e-12)
    assert_close(trajectory.ts, torch.arange(7.0))
    assert trajectory.status == "completed"
    assert trajectory.stats["nfe"] == trajectory.stats["num_steps"] == 6


def test_a_sequence_of_one_sample_and_a_strided_one_are_fine():
    cell = DiscreteCell(ctrnn.lstm(2, 3))
    xs = torch.randn(4, 2, 5).transpose(1, 2)
    assert not xs.is_contiguous()
    assert_close(unroll(cell, xs).hs, unroll(cell, xs.contiguous()).hs, rtol=0, atol=1e-14)
    assert unroll(cell, xs[:1]).hs.shape == (2, 5, 6)


@pytest.mark.parametrize("name", problems.NAMED_FIELDS)
def test_a_batch_gives_the_same_answers_as_its_samples_one_by_one(name):
    field = problems.NAMED_FIELDS[name](3, 6)
    x, h = torch.randn(6, 3), torch.randn(6, field.state_size)
    together = DiscreteCell(field, allow_overshoot=True)(x, h)
    alone = torch.cat([DiscreteCell(field, allow_overshoot=True)(x[i : i + 1], h[i : i + 1]) for i in range(6)])
    # Matrix products of other shapes round differently; nothing else may differ.
    assert_close(together, alone, rtol=0, atol=1e-14)


def test_a_cell_runs_under_vmap():
    cell, x, h = DiscreteCell(ctrnn.gru(2, 3)), torch.randn(7, 4, 2), torch.randn(7, 4, 3)
    assert_close(torch.vmap(cell)(x, h), torch.stack([cell(*pair) for pair in zip(x, h, strict=True)]), rtol=0, atol=1e-14)


def test_a_cell_is_called_with_other_weights():
    cell, x, h = DiscreteCell(ctrnn.gru(2, 3)), torch.randn(4, 2), torch.randn(4, 3)
    doubled, twin = {key: 2 * value for key, value in cell.named_parameters()}, copy.deepcopy(cell)
    twin.load_state_dict(doubled)
    assert_close(torch.func.functional_call(cell, doubled, (x, h)), twin(x, h), rtol=0, atol=1e-14)


def test_a_cell_takes_its_own_step_length_unless_told_another():
    field, x, h = ctrnn.gated(3, 5), torch.randn(4, 3), torch.randn(4, 5)
    cell = DiscreteCell(field, dt=0.25)
    assert_close(cell(x, h), h + 0.25 * field(x, h), rtol=0, atol=1e-15)
    assert_close(cell(x, h, dt=0.5), h + 0.5 * field(x, h), rtol=0, atol=1e-15)


def test_times_count_in_steps_of_the_cell():
    trajectory = unroll(DiscreteCell(ctrnn.plain(1, 2), dt=0.25), torch.randn(4, 1, 1))
    assert_close(trajectory.ts, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))


def test_float32_stays_float32():
    cell, x = DiscreteCell(ctrnn.gated(2, 3, dtype=torch.float32)), torch.randn(4, 1, 2, dtype=torch.float32)
    found = unroll(cell, x).hs
    assert found.dtype == torch.float32
    assert_close(found.double(), unroll(copy.deepcopy(cell).double(), x.double()).hs, rtol=0, atol=1e-6)


def cell():
    return DiscreteCell(ctrnn.plain(3, 5))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: DiscreteCell(nn.RNNCell(3, 5)), TypeError, "`field` must be a ctrnn.VectorField, got RNNCell"),
        (lambda: DiscreteCell(ctrnn.plain(3, 5), step=Euler), TypeError, r"must be an instance of a step map: `Euler\(\)`"),
        (lambda: DiscreteCell(ctrnn.plain(3, 5), dt=0.0), ValueError, "`dt` must be positive"),
        (lambda: cell()(torch.full((4, 3), torch.nan)), ValueError, "`x` must be finite"),
        (lambda: cell()(torch.zeros(4, 3), torch.full((4, 5), torch.inf)), ValueError, "`h` must be finite"),
        (lambda: cell()(torch.zeros(7, 4, 3)), ValueError, "use `unroll` for sequences"),
        (lambda: cell()(torch.zeros(4, 3, device="meta")), ValueError, "is on meta"),
        (lambda: cell()([[0.0, 0.0, 0.0]]), TypeError, r"must be a torch\.Tensor, got list"),
        (lambda: cell()(torch.zeros(4, 3, dtype=torch.int64)), TypeError, "must be floating point"),
        (lambda: unroll(ctrnn.plain(3, 5), torch.zeros(4, 1, 3)), TypeError, r"a discretize\.DiscreteCell, got Relaxation"),
        (lambda: unroll(cell(), torch.zeros(4, 3)), ValueError, r"`xs` must be \(time, batch, feature\)"),
        (lambda: unroll(cell(), torch.zeros(0, 1, 3)), ValueError, "`xs` is empty"),
        (lambda: unroll(cell(), torch.full((4, 1, 3), torch.nan)), ValueError, "`xs` must be finite, got nan at index"),
        (lambda: unroll(cell(), torch.zeros(4, 1, 3), torch.zeros(2, 5)), ValueError, r"shape \(batch, state\) = \(1, 5\)"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call, error, words):
    with pytest.raises(error, match=words):
        call()
