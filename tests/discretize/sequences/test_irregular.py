"""Sequences with times and lengths of their own: against the same sequences one at a time, and against torch's packed ones."""

import copy
import re

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.testing import assert_close

import ctrnn
from discretize import BackwardEuler, ContinuousRNN, DiscreteRNN, ExponentialEuler, RungeKutta4, StrangSplitting, refine

ROUNDING = {"rtol": 0, "atol": 1e-14}  # matrix products of other shapes
WITHIN = {"rtol": 0, "atol": 1e-11}  # far below the tolerance of 1e-3: the steps are the same ones, alone and in a batch
DISCRETE = {
    "euler": DiscreteRNN,
    "half-unit exponential": lambda field, **settings: DiscreteRNN(field, ExponentialEuler(), dt=0.7, substeps=2, **settings),
    "implicit": lambda field, **settings: DiscreteRNN(field, BackwardEuler(), **settings),
    "splitting": lambda field, **settings: DiscreteRNN(field, StrangSplitting(), **settings),
}
MODULES = {**DISCRETE, "exact": lambda field, **settings: ContinuousRNN(field, rtol=1e-3, atol=1e-3, **settings)}  # few steps
each_module = pytest.mark.parametrize("name", MODULES)
# Every module, and every size: of one sample, one sequence and one unit, and where all are the same.
every_module_and_size = pytest.mark.parametrize(
    ("name", "time", "batch", "hidden"),
    [
        *(("euler", 5, 5, 5), ("euler", 1, 3, 2), ("half-unit exponential", 5, 5, 5), ("implicit", 2, 2, 1)),
        *(("splitting", 4, 4, 3), ("exact", 4, 4, 4), ("exact", 4, 1, 1)),
    ],
)
FIELDS = {"gated": ctrnn.gated, "lstm": ctrnn.lstm, "stack": lambda *sizes: ctrnn.gru(*sizes, num_layers=2)}


def close(name):
    return WITHIN if name == "exact" else ROUNDING


def ends(time, batch):
    """Lengths that include 1 and all of the samples, not in order."""
    return [time, 1, max(1, time // 2), max(1, time - 1), time][:batch]


def clocks(rows, batch):
    """Increasing times (rows, batch), other steps and another start for each."""
    return torch.cumsum(0.1 + torch.rand(rows, batch), 0) + torch.randn(batch)


def spoiled(values, lengths, beyond=torch.nan):
    """(time, batch, ...) with nan after each sequence's end."""
    values = values.clone()
    for i, n in enumerate(lengths):
        values[n:, i] = beyond
    return values


def one_by_one(rnn, x, lengths, h_0, ts=None, edges=False):
    outputs, finals = [], []
    for i, n in enumerate(lengths):
        own = None if ts is None else (ts if ts.dim() == 1 else ts[:, i])[: n + edges]
        output, h_n = rnn(x[:n, i : i + 1], h_0[i : i + 1], own)
        outputs.append(torch.cat([output, output.new_zeros(len(x) - n, 1, output.shape[-1])]))
        finals.append(h_n)
    return torch.cat(outputs, 1), torch.cat(finals, 1)


def setting(name, time, batch, hidden, make=ctrnn.gated, **settings):
    field = make(2, hidden)
    return MODULES[name](field, **settings), torch.randn(time, batch, 2), torch.randn(batch, field.state_size)


@pytest.mark.each_value
@every_module_and_size
@pytest.mark.parametrize("edges", [0, 1])
def test_a_sequence_with_stamps_of_its_own_is_read_as_alone(name, time, batch, hidden, edges):
    rnn, x, h_0 = setting(name, time, batch, hidden, open_interval=0.4)
    ts = clocks(time + edges, batch)
    output, h_n = rnn(x, h_0, ts)
    expected, expected_n = one_by_one(rnn, x, [time] * batch, h_0, ts, edges)
    assert_close(output, expected, **close(name))
    assert_close(h_n, expected_n, **close(name))


@pytest.mark.each_value
@every_module_and_size
@pytest.mark.parametrize("make", [ctrnn.gated, FIELDS["stack"]])
def test_a_sequence_with_a_length_of_its_own_is_read_as_alone(name, time, batch, hidden, make):
    rnn, x, h_0 = setting(name, time, batch, hidden, make)
    lengths = ends(time, batch)
    expected, expected_n = one_by_one(rnn, x, lengths, h_0)
    for given in (lengths, torch.tensor(lengths, dtype=torch.int32)):
        output, h_n = rnn(spoiled(x, lengths), h_0, lengths=given)
        assert_close(output, expected, **close(name))
        assert_close(h_n, expected_n, **close(name))


@pytest.mark.each_value
@every_module_and_size
@pytest.mark.parametrize(("edges", "shared"), [(0, True), (1, False)])
def test_times_and_lengths_go_together_and_what_is_beyond_an_end_is_not_looked_at(name, time, batch, hidden, edges, shared):
    rnn, x, h_0 = setting(name, time, batch, hidden, open_interval=0.4)
    lengths, ts = ends(time, batch), clocks(time + edges, batch)
    ts = ts[:, 0] if shared else ts
    expected, expected_n = one_by_one(rnn, x, lengths, h_0, ts, edges)
    for beyond in (torch.nan, 1e300):
        given = ts if shared else spoiled(ts, [n + edges for n in lengths], beyond)
        output, h_n = rnn(spoiled(x, lengths, beyond), h_0, given, lengths)
        assert_close(output, expected, **close(name))
        assert_close(h_n, expected_n, **close(name))


@each_module
def test_shared_stamps_are_not_looked_at_beyond_the_longest_sequence(name):
    rnn, x, h_0 = setting(name, 5, 2, 3)
    ts = torch.tensor([0.0, 0.5, 2.0, torch.nan, 1.0])
    output, _ = rnn(x, h_0, ts, lengths=[3, 2])
    assert_close(output, one_by_one(rnn, x, [3, 2], h_0, ts)[0], **close(name))
    assert rnn(x, h_0, [0, 1, 2, 2, 2], [3, 2])[0].isfinite().all()


@each_module
def test_batch_first_turns_samples_and_times(name):
    rnn, x, h_0 = setting(name, 4, 4, 3)
    turned = copy.deepcopy(rnn)
    turned.batch_first = True
    lengths, ts = ends(4, 4), clocks(5, 4)
    output, h_n = rnn(x, h_0, ts, lengths)
    other, other_n = turned(x.transpose(0, 1), h_0, ts.mT, lengths)
    assert torch.equal(other.transpose(0, 1), output)
    assert torch.equal(other_n, h_n)


@each_module
def test_no_gradient_and_no_nan_comes_from_beyond_an_end(name):
    rnn, x, h_0 = setting(name, 5, 4, 3)
    lengths, ts = ends(5, 4), clocks(6, 4)
    x, h_0 = spoiled(x, lengths).requires_grad_(), h_0.requires_grad_()
    output, h_n = rnn(x, h_0, spoiled(ts, [n + 1 for n in lengths]), lengths)
    leaves = [x, h_0, *rnn.parameters()]
    for read in (output, h_n, output.square().sum() + h_n.sum()):
        grads = torch.autograd.grad(read.sum(), leaves, retain_graph=True, allow_unused=True)
        assert all(grad.isfinite().all() for grad in grads if grad is not None)
        for i, n in enumerate(lengths):
            assert (grads[0][n:, i] == 0).all()
            assert (grads[0][:n, i] != 0).any()


@each_module
def test_single_precision_stays_single_and_keeps_late_times_apart(name):
    field = ctrnn.gated(2, 3, dtype=torch.float32)
    rnn = MODULES[name](field)
    x, ts = torch.randn(4, 3, 2).float(), clocks(5, 3)
    output, _ = rnn(x, ts=ts + 2.0**25, lengths=[2, 4, 1])  # which float32 counts in steps of 4
    assert output.dtype == torch.float32
    assert_close(output, rnn(x, ts=ts, lengths=[2, 4, 1])[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[6, 4, 4, 1], [4, 1, 6, 4]])
@pytest.mark.parametrize("hidden", [3, 4])
def test_packed_sequences_are_those_of_torch(kind, batch_first, lengths, hidden):
    theirs = kind(2, hidden, batch_first=batch_first)
    ours = DiscreteRNN(ctrnn.from_torch(theirs), batch_first=batch_first)
    x, start = torch.randn(6, 4, 2), (torch.randn(1, 4, hidden), torch.randn(1, 4, hidden))
    ordered = lengths == sorted(lengths, reverse=True)
    for enforce_sorted in {False, ordered}:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
        for h_0 in (None, start if kind is nn.LSTM else start[0]):
            output, h_n = ours(packed, h_0)
            expected, expected_n = theirs(packed, h_0)
            assert_close(output.data, expected.data, **ROUNDING)
            assert torch.equal(output.batch_sizes, expected.batch_sizes)
            for name in ("sorted_indices", "unsorted_indices"):
                mine, torchs = getattr(output, name), getattr(expected, name)
                assert (mine is None and torchs is None) or torch.equal(mine, torchs)
            assert_close(h_n, torch.cat(expected_n, -1) if kind is nn.LSTM else expected_n, **ROUNDING)


@pytest.mark.each_value
@each_module
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_take_times_and_start_in_their_original_order(name, batch_first):
    rnn, x, h_0 = setting(name, 4, 4, 4, batch_first=batch_first)
    lengths, ts = [2, 4, 1, 3], clocks(5, 4)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, h_n = rnn(packed, h_0, spoiled(ts, [n + 1 for n in lengths]).mT if batch_first else ts)
    padded, found = pad_packed_sequence(output)
    rnn.batch_first = False
    expected, expected_n = one_by_one(rnn, x, lengths, h_0, ts, True)
    assert found.tolist() == lengths
    assert_close(padded, expected, **close(name))
    assert_close(h_n, expected_n, **close(name))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_padded_sequences_have_the_gradients_of_packed_ones_in_torch(kind):
    theirs = kind(2, 3)
    field = ctrnn.from_torch(theirs)
    lengths, weight = [2, 5, 1, 4], torch.randn(5, 4, 3)
    x_ours, x_theirs = (x := torch.randn(5, 4, 2)).clone().requires_grad_(), x.clone().requires_grad_()
    (DiscreteRNN(field)(x_ours, lengths=lengths)[0] * weight).sum().backward()
    packed = pack_padded_sequence(x_theirs, lengths, enforce_sorted=False)
    (pad_packed_sequence(theirs(packed)[0])[0] * weight).sum().backward()
    assert_close(x_ours.grad, x_theirs.grad, rtol=0, atol=1e-13)
    for name in ("weight_x", "weight_h"):
        grads = [p.grad for key, p in field.named_parameters() if key.endswith(name)]
        torchs = theirs.weight_ih_l0.grad if name == "weight_x" else theirs.weight_hh_l0.grad
        assert_close(sum(g.square().sum() for g in grads), torchs.square().sum(), rtol=1e-12, atol=0)


@pytest.mark.filterwarnings("ignore::discretize.StampWarning")  # a sequence of one sample lasts for the median interval
@pytest.mark.parametrize("name", ["euler", "half-unit exponential"])
@pytest.mark.parametrize("edges", [0, 1])
def test_samples_state_and_times_of_ragged_sequences_are_differentiated(name, edges):
    rnn, x, h_0 = setting(name, 3, 3, 3)
    ts, lengths = clocks(3 + edges, 3), [2, 3, 1]
    assert torch.autograd.gradcheck(
        lambda x, h, ts: rnn(x, h, ts, lengths), [t.requires_grad_() for t in (x, h_0, ts)], fast_mode=True
    )
    shared = clocks(3 + edges, 1)[:, 0].requires_grad_()
    assert torch.autograd.gradcheck(lambda ts: rnn(x, h_0, ts), shared, fast_mode=True)
    assert torch.autograd.gradcheck(lambda ts: rnn(x, h_0, ts, lengths), shared, fast_mode=True)


@pytest.mark.parametrize("method", ["rk4", RungeKutta4()])
def test_times_are_differentiated_through_a_solve(method):
    # With fixed steps: those that adapt change their number between the two times of a difference quotient.
    rnn, x, h_0 = ContinuousRNN(ctrnn.gated(2, 3), method=method), torch.randn(3, 3, 2), torch.randn(3, 3)
    ts = clocks(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda ts: rnn(x, h_0, ts, [2, 3, 1]), ts, fast_mode=True)
    shared = clocks(4, 1)[:, 0].requires_grad_()
    assert torch.autograd.gradcheck(lambda ts: rnn(x, h_0, ts), shared, fast_mode=True)


@pytest.mark.parametrize("how", [{"rtol": 1e-10, "atol": 1e-12}, {"method": RungeKutta4(), "max_step": 0.03}])
def test_the_slope_along_the_end_of_a_sequence_is_the_field(how):
    field, x, lengths = ctrnn.gated(2, 3), torch.randn(4, 3, 2), [2, 4, 1]
    ts, weights = clocks(5, 3).requires_grad_(), torch.randn(1, 3, 3)
    h_n = ContinuousRNN(field, **how)(x, ts=ts, lengths=lengths)[1]
    (grad,) = torch.autograd.grad((h_n * weights).sum(), ts)
    last = torch.stack([x[n - 1, i] for i, n in enumerate(lengths)])
    slope = (field(last, h_n[0]) * weights[0]).sum(-1)
    assert_close(torch.stack([grad[n, i] for i, n in enumerate(lengths)]), slope, rtol=0, atol=1e-6)
    assert all((grad[n + 1 :, i] == 0).all() for i, n in enumerate(lengths))


@pytest.mark.parametrize(("packs", "timed", "ragged"), [(0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 1, 0)])
def test_an_irregular_batch_refines_as_its_model_does(packs, timed, ragged):
    x, lengths, ts = torch.randn(5, 3, 2), [2, 5, 4], clocks(5, 3)
    x = pack_padded_sequence(x, lengths, enforce_sorted=False) if packs else x
    refined = refine(DiscreteRNN(ctrnn.gated(2, 3), dt=0.5), x, None, ts if timed else None, lengths if ragged else None)
    assert refined.converges
    assert refined.orders[-1] == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("make", FIELDS.values())
def test_state_dicts_move_between_the_two_readings(make):
    discrete, continuous = DiscreteRNN(make(2, 3)), ContinuousRNN(make(2, 3), method="rk4")
    continuous.load_state_dict(discrete.state_dict())
    assert list(continuous.state_dict()) == list(discrete.state_dict())
    x, ts = torch.randn(4, 3, 2), clocks(5, 3)
    again = DiscreteRNN(make(2, 3))
    again.load_state_dict(continuous.state_dict())
    assert torch.equal(again(x, ts=ts, lengths=[2, 4, 1])[0], discrete(x, ts=ts, lengths=[2, 4, 1])[0])


X = torch.zeros(4, 5, 2, dtype=torch.float64)
TS = torch.arange(1.0, 5.0, dtype=torch.float64)[:, None].expand(-1, 5)


def rnn(**settings):
    return DiscreteRNN(ctrnn.gated(2, 3), **settings)


def with_one(values, at, value):
    """These values, and another one in one place."""
    values = values.clone()
    values[at] = value
    return values


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rnn()(X, lengths=[1, 2, 3, 4]), ValueError, "`lengths` must have shape (batch,) = (5,)"),
        (lambda: rnn()(X, lengths=[1, 2, 3, 4, 0]), ValueError, "must be from 1 to the 4 samples of `x`, got 0 for sequence 4"),
        (lambda: rnn()(X, lengths=[True] * 5), TypeError, "`lengths` must be whole numbers, got torch.bool"),
        (lambda: rnn()(X, lengths="all"), TypeError, "`lengths` must be whole numbers, one for each sequence, got str"),
        (lambda: rnn()(X[:, 0], lengths=[3]), ValueError, "`lengths` are for a batch, and `x` is one sequence"),
        (
            lambda: rnn()(with_one(X, (2, 1), torch.nan), lengths=[4, 3, 4, 4, 4]),
            ValueError,
            "`x` must be finite, got nan at index (2, 1, 0)",
        ),
        (lambda: rnn()(X.to_sparse(), lengths=[1] * 5), TypeError, "not a sparse or nested one"),
        (
            lambda: rnn()(pack_sequence([X[:, 0], X[:2, 1]]), lengths=[4, 2]),
            ValueError,
            "which knows its lengths; leave `lengths` out",
        ),
        (lambda: rnn()(pack_sequence([torch.zeros(4)])), ValueError, "`x` must pack sequences (time, input)"),
        (
            lambda: rnn()(pack_sequence([X[:, 0], X[:2, 1]]), torch.zeros(1, 4, 3)),
            ValueError,
            "`h_0` must have shape (1, 2, 3) or (2, 3)",
        ),
        (
            lambda: rnn()(pack_sequence([X[:, 0], X[:2, 1]]), ts=TS),
            ValueError,
            "`ts` must be (4,) stamps or (5,) edges, or (4, 2) or (5, 2)",
        ),
        (
            lambda: rnn(batch_first=True)(X.transpose(0, 1), ts=TS),
            ValueError,
            "or (5, 4) or (5, 5) for every sequence its own, got shape (4, 5)",
        ),
        (lambda: rnn()(X[:, 0], ts=TS), ValueError, "`x` is one sequence, which takes `ts` of shape (4,) or (5,)"),
        (lambda: rnn()(X, ts=with_one(TS, (2, 3), 0.0)), ValueError, "goes back at index 2 in sequence 3"),
        (lambda: rnn()(X, ts=with_one(TS, (1, 4), TS[0, 4]), lengths=[2] * 5), ValueError, "repeats at index 1 in sequence 4"),
        (
            lambda: rnn()(X, ts=with_one(TS, (1, 0), torch.nan), lengths=[2] * 5),
            ValueError,
            "`ts` must be finite, got nan at index (1, 0)",
        ),
        (lambda: rnn()(X, ts=TS > 0), TypeError, "`ts` must hold real numbers, got torch.bool"),
        (lambda: rnn()(X, ts="late"), TypeError, "`ts` must be a time or a sequence of times, got str"),
        (lambda: rnn()(X, ts=torch.full((4, 5), 2**60)), ValueError, "which float64 cannot tell apart"),
    ],
)
def test_wrong_lengths_and_times_are_refused_by_name(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


@pytest.mark.by_default(2)
@pytest.mark.parametrize("method", [BackwardEuler(), ExponentialEuler(), "rk4", "heun2"])
def test_fixed_steps_of_a_sequence_do_not_hang_on_its_neighbours(method):
    rnn = ContinuousRNN(ctrnn.gated(2, 3), method=method, max_step=0.5)
    x, ts = torch.randn(4, 3, 2), torch.tensor([[0.0, 0.4, 0.8, 1.2], [0.0, 3.0, 6.0, 9.0], [1.0, 1.6, 5.0, 6.1]]).mT
    output, _ = rnn(x, ts=ts)
    for i in range(3):
        assert_close(output[:, i], rnn(x[:, i], ts=ts[:, i])[0], rtol=0, atol=1e-14)
