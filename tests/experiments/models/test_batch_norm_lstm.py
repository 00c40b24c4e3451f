"""The LSTM with recurrent batch normalization: a plain loop with torch's own, padding, and what is kept of steps."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from experiments.compare.command import compare
from experiments.models.batch_norm_lstm import EPSILON, NEW, BatchNormLSTM
from experiments.runs.configuration import configuration
from experiments.runs.folder import load
from experiments.runs.page import write_page
from experiments.runs.training import train
from experiments.usage import UsageError

TIME, BATCH, INPUT, UNITS = 5, 4, 3, 6
LENGTHS = torch.tensor([5, 2, 4, 3])


@pytest.fixture
def lstm():
    torch.manual_seed(0)
    module = BatchNormLSTM(INPUT, UNITS).double()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.5 * torch.rand_like(parameter))  # no gamma and no bias like another
    return module


@pytest.fixture
def xs():
    return torch.randn(TIME, BATCH, INPUT, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_torch(norm, a, known=None):
    """Normalize (batch, units) by `torch.nn.functional.batch_norm`; `known`: mean and variance in place of the batch's."""
    return nn.functional.batch_norm(a, *(known or (None, None)), norm.gamma, None, known is None, eps=EPSILON)


def by_hand(lstm, xs, lengths):
    """Read each step by the rows of the sequences that go on alone, of whose states the others are none."""
    h, c, states = torch.zeros(BATCH, UNITS), torch.zeros(BATCH, UNITS), torch.zeros(*xs.shape[:2], UNITS)
    for t, x in enumerate(xs):
        rows = [n for n in range(BATCH) if t < lengths[n]]
        if len(rows) < 2:  # of one row torch normalizes nothing; all is 0
            gates = lstm.bias.expand(len(rows), -1)
        else:
            gates = by_torch(lstm.norm_h, h[rows] @ lstm.weight_h.t()) + by_torch(lstm.norm_x, x[rows] @ lstm.weight_x.t())
            gates = gates + lstm.bias
        i, f, g, o = gates[:, :6], gates[:, 6:12], gates[:, 12:18], gates[:, 18:]
        new = torch.sigmoid(f) * c[rows] + torch.sigmoid(i) * torch.tanh(g)
        within = by_torch(lstm.norm_c, new) if len(rows) > 1 else torch.zeros_like(new)
        out = torch.sigmoid(o) * torch.tanh(within + lstm.bias_c)
        c, h = c.clone(), h.clone()
        c[rows], h[rows] = new, out
        states[t, rows] = out
    return states


@pytest.mark.parametrize("lengths", [None, LENGTHS, torch.tensor([3, 2, 3, 1])])
def test_states_and_gradients_are_those_of_a_loop_with_the_normalization_of_torch(lstm, xs, lengths):
    ends = [TIME] * BATCH if lengths is None else lengths.tolist()
    up = torch.randn(TIME, BATCH, UNITS, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    up *= torch.tensor([[float(t < n) for n in ends] for t in range(TIME)])[..., None]
    expected = by_hand(lstm, xs, ends)
    wanted = torch.autograd.grad((expected * up).sum(), [*lstm.parameters()])
    states = lstm(xs, lengths)
    assert_close(states * (up != 0), expected, rtol=1e-12, atol=1e-13)
    assert_close(torch.autograd.grad((states * up).sum(), [*lstm.parameters()]), wanted, rtol=1e-10, atol=1e-12)


def test_gradients_are_those_of_differences(lstm, xs):
    assert torch.autograd.gradcheck(lambda x: lstm(x, LENGTHS), (xs.requires_grad_(),), atol=1e-6)


def test_what_is_behind_the_end_of_a_sequence_changes_nothing(lstm, xs):
    changed = xs.clone()
    for n, length in enumerate(LENGTHS):
        changed[length:, n] = torch.nan
    longer = torch.cat([changed, torch.full_like(xs, torch.inf)])
    found = []
    for given in (xs, changed, longer):
        module = copy.deepcopy(lstm)
        states = module(given, LENGTHS)[:TIME][torch.arange(TIME)[:, None] < LENGTHS]
        gradients = torch.autograd.grad(states.square().sum(), [*module.parameters()])
        found.append([states, *gradients, *module.state_dict().values()])
    for other in found[1:]:
        assert_close(other, found[0], rtol=1e-12, atol=1e-13)


def test_the_first_batch_is_evaluated_as_it_was_trained_on_and_beyond_it_the_last_step_counts_on(lstm, xs):
    trained = lstm(xs).detach()
    lstm.eval()
    assert_close(lstm(xs), trained, rtol=1e-12, atol=1e-13)
    longer = lstm(torch.cat([xs, xs]))
    h, c, last = trained[-1], cell_after(lstm, xs), {}
    for name in "xhc":
        norm = getattr(lstm, f"norm_{name}")
        last[name] = (norm.means[-1], norm.variances[-1])
    for t, x in enumerate(xs):
        gates = by_torch(lstm.norm_h, h @ lstm.weight_h.t(), last["h"]) + by_torch(lstm.norm_x, x @ lstm.weight_x.t(), last["x"])
        i, f, g, o = (gates + lstm.bias).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * torch.tanh(by_torch(lstm.norm_c, c, last["c"]) + lstm.bias_c)
        assert_close(longer[TIME + t], h, rtol=1e-12, atol=1e-13)


def cell_after(lstm, xs):
    """The cells after the last sample, from what the output gates let through."""
    h = c = torch.zeros(BATCH, UNITS)
    for t, x in enumerate(xs):
        known = {name: (getattr(lstm, f"norm_{name}").means[t], getattr(lstm, f"norm_{name}").variances[t]) for name in "xhc"}
        gates = by_torch(lstm.norm_h, h @ lstm.weight_h.t(), known["h"])
        i, f, g, o = (gates + by_torch(lstm.norm_x, x @ lstm.weight_x.t(), known["x"]) + lstm.bias).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * torch.tanh(by_torch(lstm.norm_c, c, known["c"]) + lstm.bias_c)
    return c


def test_moments_are_means_of_the_first_batches_and_then_moving_ones(lstm, xs):
    batches = [torch.randn(TIME - k % 2, BATCH, INPUT, dtype=torch.float64) for k in range(60)]
    for k, batch in enumerate(batches):
        lstm(batch)
        if k == 2:
            products = torch.stack([each[:4] @ lstm.weight_x.t() for each in batches[:3]])
            assert_close(lstm.norm_x.means[:4], products.mean((0, 2)), rtol=1e-12, atol=1e-13)
            variances = products.var(2, correction=0).mean(0)
            assert_close(lstm.norm_x.variances[:4], variances, rtol=1e-12, atol=1e-13)
            of_two = torch.stack([batches[0][4], batches[2][4]]) @ lstm.weight_x.t()  # steps that one batch has not
            assert_close(lstm.norm_x.means[4], of_two.mean((0, 1)), rtol=1e-12, atol=1e-13)
    before = lstm.norm_x.means.clone()
    lstm(xs)
    assert_close(lstm.norm_x.means, (1 - NEW) * before + NEW * (xs @ lstm.weight_x.t()).mean(1), rtol=1e-12, atol=1e-13)


def test_sequences_hear_of_one_another_in_training_and_not_when_evaluated(lstm, xs):
    lstm(xs)
    changed = xs.clone()
    changed[:, 0] += 1
    for training in (True, False):
        lstm.train(training)
        one, other = (lstm(each)[:, 1:] for each in (xs, changed))
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13) is not training


@pytest.mark.parametrize(
    ("start", "times"),
    [
        ({"init": "standard"}, None),
        ({"init": "chrono", "t_max": 9.0}, (2.0, 9.0)),
        ({"init": "slow-decay", "t_max": 4.0}, (2.0, 4.0)),
        ({"init": "constant", "alpha": 0.2}, (5.0, 5.0)),
        ({"init": "inverse-gamma"}, (1.0, math.inf)),
        ({"init": "uniform-gates"}, (40 / 39, 40.0)),
    ],
)
def test_gates_start_as_those_of_the_field_lstm(start, times):
    model = configuration("adding", "lstm-batch-norm", T=6, hidden=40, **start).untrained_model()
    i, f, g, o = model.rnn.bias.detach().chunk(4)
    assert not g.any()
    assert not o.any()
    if times is None:
        assert not i.any()
        assert torch.equal(f, torch.ones(40))
        return
    assert torch.equal(f, -i)
    found = 1 / i.double().sigmoid()
    assert times[0] - 1e-4 <= found.min() <= found.max() <= times[1] + 1e-4
    assert_close(model.rnn.norm_h.gamma.detach().double(), torch.full((160,), 0.1))


def test_a_run_that_goes_on_is_the_run_that_was_never_interrupted(tmp_path):
    torch.set_default_dtype(torch.float64)
    settings = {"T": 8, "hidden": 5, "batch": 4, "evaluate_every": 3, "evaluation": 8, "threads": 1, "checkpoint_every": 2}
    long, short = (configuration("adding", "lstm-batch-norm", steps=steps, **settings) for steps in (6, 3))
    whole = train(long, tmp_path / "whole")
    train(short, tmp_path / "parts")
    again = train(long, tmp_path / "parts")
    for other in (again.model, load(tmp_path / "parts")[0]):
        assert all(map(torch.equal, whole.model.state_dict().values(), other.state_dict().values()))
    assert whole.measures == again.measures
    assert math.isfinite(whole.measures["loss"])
    assert len(whole.model.rnn.norm_c.means) == 8
    assert "There is none: units are normalized over the batch" in write_page(tmp_path / "parts").read_text()


@pytest.mark.parametrize(
    ("integrator", "more", "words"),
    [
        ("exact", {}, "no equation to integrate otherwise"),
        ("exponential-euler", {}, "no equation to integrate otherwise"),
        ("euler", {"substeps": 2}, "no substeps"),
        ("euler", {"noise": 0.1}, "the integrator euler is for equations without"),
        ("euler", {"dale": 0.8}, "it is for fields, not for models that jump, or modules of torch"),
    ],
)
def test_what_is_of_equations_only_is_refused(integrator, more, words):
    with pytest.raises(UsageError, match=words):
        configuration("adding", "lstm-batch-norm", integrator, T=6, **more).untrained_model()


def test_stamps_and_comparisons_of_integrators_are_refused(tmp_path):
    with pytest.raises(UsageError, match="reads no times, and the samples of forecast have stamps"):
        configuration("forecast", "lstm-batch-norm").untrained_model()
    with pytest.raises(UsageError, match="lstm-batch-norm is a module of torch, no equation"):
        compare("adding", field=["lstm-batch-norm"], integrator=["euler", "exact"], out=tmp_path)


def test_processes_do_not_send_moving_means_which_are_of_as_many_steps_as_the_longest_sequence_of_a_share():
    model = configuration("adding", "lstm-batch-norm", "euler", hidden=4).untrained_model()
    own = set(model._ddp_params_and_buffers_to_ignore)
    assert own == {name for name, _ in model.named_buffers()}
    assert len(own) == 9  # of three normalizations
