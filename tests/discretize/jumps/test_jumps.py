"""States that jump at observations: closed forms, the papers' algorithms written out, and nothing of the future."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close
from torchdiffeq import odeint

import ctrnn
import discretize
from discretize import (
    Adjoint,
    CellJump,
    DiscreteCell,
    GRUBayes,
    Jump,
    JumpRNN,
    bayes_divergence,
    bayes_update,
    gru_d,
    gru_ode_bayes,
    observed_log_prob,
    ode_rnn,
)

TIGHT = {"rtol": 1e-7, "atol": 1e-7}
NEAR = {"rtol": 0, "atol": 1e-5}  # a hundred tolerances
TIME, BATCH = 5, 3


class Forgetting(nn.Module):
    def forward(self, h):
        return -h


class Added(Jump):
    """h <- h + x, where x was seen."""

    def __init__(self, size):
        super().__init__()
        self.input_size = size

    def forward(self, x, observed, h):
        return h + x


def impulses(size=2, **settings):
    """dh/dt = -h, h <- h + x: h(t_k) = sum over j <= k of x_j exp(t_j - t_k)."""
    return JumpRNN(ctrnn.NetworkField(Forgetting(), size), Added(size), **TIGHT, **settings)


def summed(x, ts, k, h_0=0.0, start=None):
    start = ts[0] if start is None else start
    return h_0 * (start - ts[k]).exp()[..., None] + sum(x[j] * (ts[j] - ts[k]).exp()[..., None] for j in range(k + 1))


def stamps():
    return torch.cumsum(0.1 + torch.rand(TIME, BATCH), 0) + torch.randn(BATCH)


@pytest.mark.parametrize(
    ("shared", "edges", "batch_first"), [(False, False, True), (False, True, False), (True, False, False), (True, True, True)]
)
def test_impulses_are_forgotten_as_in_closed_form(shared, edges, batch_first):
    x, h_0, ts = torch.randn(TIME, BATCH, 2), torch.randn(BATCH, 2), stamps()
    ts = ts[:, :1].expand(-1, BATCH) if shared else ts
    start = ts[0] - 0.7 if edges else ts[0]
    given = torch.cat([start[None], ts]) if edges else ts
    given = given[:, 0] if shared else (given.T if batch_first else given)
    rnn, turned = impulses(batch_first=batch_first), (lambda a: a.transpose(0, 1) if batch_first else a)
    output, h_n = rnn(turned(x), h_0, given)
    expected = torch.stack([summed(x, ts, k, h_0, start) for k in range(TIME)])
    assert_close(turned(output), expected, **NEAR)
    assert_close(h_n[0], expected[-1], **NEAR)
    before, after = map(turned, rnn.jumps(turned(x), h_0, given))
    assert_close(after, expected, **NEAR)
    assert_close(before, expected - x, **NEAR)
    assert rnn.stats["nfe"] > 0


def test_without_times_observations_are_one_apart():
    x = torch.randn(TIME, BATCH, 2)
    numbers = torch.arange(float(TIME))[:, None].expand(-1, BATCH)
    assert_close(impulses()(x)[0][-1], summed(x, numbers, TIME - 1), **NEAR)
    assert_close(impulses()(x[:, 0])[0], impulses()(x)[0][:, 0], **NEAR)


def test_without_times_the_start_is_the_state_at_the_first_observation():
    x, h_0 = torch.randn(TIME, BATCH, 2), torch.randn(BATCH, 2)
    numbers = torch.arange(float(TIME))[:, None].expand(-1, BATCH)
    assert_close(impulses()(x, h_0)[0], torch.stack([summed(x, numbers, k, h_0) for k in range(TIME)]), **NEAR)
    lengths = [5, 2, 4]
    _, h_n = impulses()(x, h_0, lengths=lengths)
    for i, n in enumerate(lengths):
        assert_close(h_n[0, i], summed(x, numbers, n - 1, h_0)[i], **NEAR)


def test_gradients_to_times_and_values_are_those_of_the_closed_form():
    x, ts = torch.randn(TIME, BATCH, 2, requires_grad=True), stamps().requires_grad_()
    ours = torch.autograd.grad(impulses()(x, ts=ts)[0][3].sum(), (x, ts))
    theirs = torch.autograd.grad(summed(x, ts, 3).sum(), (x, ts))
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=0, atol=1e-5)
        assert not a[4:].any()  # nothing that comes later


def test_masks_of_dropout_are_drawn_once_for_a_sequence_of_jumps():
    field = ctrnn.gru(0, 4)
    field.candidate = ctrnn.Dropout(field.candidate, 0.5)
    rnn, still = JumpRNN(field, Added(4), **TIGHT), torch.zeros(3, 1, 4)
    h_0, ts = torch.randn(1, 4), torch.tensor([0.0, 1.0, 2.0])
    torch.manual_seed(5)
    observed = torch.zeros(3, 1, 4, dtype=torch.bool)  # nothing seen: the field alone, in two parts
    output = rnn(still, h_0, ts, observed=observed)[0]
    torch.manual_seed(5)
    assert_close(output, discretize.integrate(field, None, h_0, ts, **TIGHT).hs, **NEAR)


def test_a_batch_of_nobody_jumps_too():
    assert discretize.ode_rnn(2, 3)(torch.zeros(4, 0, 2))[0].shape == (4, 0, 3)


@pytest.mark.parametrize("lengths", [None, [5, 1, 3]])
def test_what_was_not_seen_may_be_nan_and_changes_nothing(lengths):
    x, ts, observed = torch.randn(TIME, BATCH, 2), stamps(), torch.rand(TIME, BATCH, 2) < 0.5
    observed[2] = False  # an observation of nothing
    missing = torch.where(observed, x, torch.nan)
    rnn = impulses()
    output, h_n = rnn(missing, ts=ts, lengths=lengths, observed=observed)
    seen = torch.where(observed, x, 0.0)
    for i, n in enumerate(lengths or [TIME] * BATCH):
        for k in range(n):
            assert_close(output[k, i], summed(seen[:, i : i + 1], ts[:, i : i + 1], k)[0], **NEAR)
        assert not output[n:, i].any()
        assert_close(h_n[0, i], output[n - 1, i])
    for times in (ts, None):
        given = rnn.jumps(missing, ts=times, lengths=lengths, observed=observed)
        for i, n in enumerate(lengths or []):
            own = None if times is None else times[:n, i]
            end = rnn.jumps(missing[:n, i], ts=own, observed=observed[:n, i]).after[-1]
            for states in given:  # where a sequence is over its clock stands still
                assert_close(states[n:, i], end.expand(TIME - n, -1))
    beside = torch.cat([missing, observed.to(x)], -1)
    assert_close(rnn(beside, ts=ts, lengths=lengths)[0], output, rtol=0, atol=0)
    bayes = gru_ode_bayes(2, 3)
    unmoved = bayes.jumps(missing, ts=ts, observed=observed)
    assert_close(unmoved.before[2], unmoved.after[2])
    assert unmoved.after.isfinite().all()


@pytest.mark.parametrize(
    "make", [lambda: ode_rnn(2, 3, method="rk4"), lambda: gru_ode_bayes(2, 3, method=discretize.Euler()), lambda: gru_d(2, 3)]
)
@pytest.mark.parametrize(
    ("edges", "shared", "lengths"), [(False, False, None), (True, True, [5, 4, 3]), (True, False, None), (False, True, None)]
)
def test_no_time_goes_by_before_an_episode_that_begins_anew(make, edges, shared, lengths):
    """A state of 0 moves too: what goes by since the last observation before a reset is no part of the episode."""
    rnn, x, ts, reset = make(), torch.randn(TIME, BATCH, 2), stamps(), torch.zeros(TIME, BATCH, dtype=torch.bool)
    ts = ts[:, :1].expand(-1, BATCH) if shared else ts
    given = torch.cat([ts[:1] - 0.7, ts]) if edges else ts
    h_0, observed = torch.rand(BATCH, rnn.field.state_size), torch.rand(TIME, BATCH, 2) < 0.7
    reset[2, 0] = reset[3, 1] = reset[0, 2] = True
    output = rnn(x, h_0, given[:, 0] if shared else given, lengths, reset, observed)[0]
    for i, (k, end) in enumerate(zip((2, 3, 0), lengths or [TIME] * BATCH, strict=True)):
        episode = rnn(x[k:end, i], ts=ts[k:end, i], observed=observed[k:end, i])[0]
        assert_close(output[k:end, i], episode)
        if k:
            first = rnn(x[:k, i], h_0[i], given[: k + edges, i], observed=observed[:k, i])[0]
            assert_close(output[:k, i], first)


@pytest.mark.parametrize("gradient", [None, Adjoint()])
def test_ode_rnn_is_the_algorithm_of_the_paper_solved_by_torchdiffeq(gradient):
    rnn, x, ts = (
        ode_rnn(2, 3, units=4, gradient=gradient, **TIGHT),
        torch.randn(TIME, BATCH, 2),
        torch.tensor([0.0, 0.3, 1.1, 1.2, 2.0]),
    )
    observed = torch.rand(TIME, BATCH, 2) < 0.7
    observed[..., 0] = True
    cell, h = ctrnn.to_torch(rnn.jump.cell.field), torch.zeros(BATCH, 3)
    states = []
    for k in range(TIME):
        if k:
            h = odeint(lambda t, h: rnn.field.net(h), h, ts[k - 1 : k + 1], **TIGHT)[-1]
        h = cell(torch.cat([torch.where(observed[k], x[k], 0.0), observed[k].to(x)], -1), h)
        states.append(h)
    output = rnn(x, ts=ts, observed=observed)[0]
    assert_close(output, torch.stack(states), **NEAR)
    weights = [*rnn.field.net.parameters()]
    for a, b in zip(*(torch.autograd.grad(s.sum(), weights) for s in (output, torch.stack(states))), strict=True):
        assert_close(a, b, rtol=0, atol=1e-6)


def test_gru_bayes_is_the_formula_of_the_paper_value_by_value():
    jump, x, h, observed = GRUBayes(2, 3, prep=2, observer=4), torch.randn(BATCH, 2), torch.randn(BATCH, 3), torch.ones(BATCH, 2)
    observed[1, 0] = 0
    mean, log_variance = jump.f_obs(h)[:, :2], jump.f_obs(h)[:, 2:]
    read = []
    for d in range(2):
        q = torch.stack([x[:, d], mean[:, d], log_variance[:, d], (x[:, d] - mean[:, d]) / (log_variance[:, d] / 2).exp()], 1)
        read.append(torch.relu(q @ jump.weight[d] + jump.bias[d]) * observed[:, d : d + 1])
    assert_close(jump(x, observed, h), jump.cell(torch.cat(read, 1), h))
    expected = jump.expected(h)
    assert_close(expected.mean, mean)
    assert_close(expected.variance, log_variance.exp())


def test_gru_bayes_starts_as_its_authors_do():
    jump = GRUBayes(40, 3, prep=50)
    assert bool((jump.bias == 0.1).all())
    outputs, inputs = 40 * 50, 4 * 50  # as torch counts them of a tensor (40, 4, 50)
    assert_close(jump.weight.std().item(), (2 / (inputs + outputs)) ** 0.5, rtol=0.05, atol=0)


def test_values_are_observed_to_a_hundredth_where_nothing_is_said():
    before, after = (Normal(torch.randn(BATCH, 2), 0.5 + torch.rand(BATCH, 2)) for _ in range(2))
    x, observed = torch.randn(BATCH, 2), torch.ones(BATCH, 2, dtype=torch.bool)
    assert_close(bayes_divergence(before, after, x, observed), bayes_divergence(before, after, x, observed, 0.01))


def test_what_was_seen_has_its_likelihood_and_what_was_not_none():
    rnn, x = gru_ode_bayes(2, 3), torch.randn(TIME, BATCH, 2)
    observed = torch.rand(TIME, BATCH, 2) < 0.5
    missing = torch.where(observed, x, torch.nan)
    before = rnn.jumps(missing, ts=stamps(), observed=observed).before
    found = observed_log_prob(rnn.jump.expected(before), missing, observed)
    expected = rnn.jump.expected(before)
    by_hand = -((x - expected.mean) ** 2) / (2 * expected.variance) - expected.stddev.log() - math.log(2 * math.pi) / 2
    assert_close(found, torch.where(observed, by_hand, 0.0))
    found.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in rnn.parameters())
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    kept = torch.tensor([True, False, True, True])
    assert_close(
        observed_log_prob(Categorical(logits=logits), labels, kept),
        torch.where(kept, logits.log_softmax(-1)[range(4), labels], 0.0),
    )


def test_a_jump_is_measured_by_the_rule_of_bayes_as_integrals_have_it():
    before, after = (Normal(torch.randn(BATCH, 2), 0.5 + torch.rand(BATCH, 2)) for _ in range(2))
    x, observed, deviation = torch.randn(BATCH, 2), torch.tensor([[True, True], [True, False], [False, True]]), 0.3
    z = torch.linspace(-12, 12, 20001, dtype=torch.float64)[:, None, None]  # a trapezoid of what vanishes at both ends
    joint = (before.log_prob(z) + Normal(x, deviation).log_prob(z)).exp()
    updated = joint / torch.trapezoid(joint, z, dim=0)
    assert_close(bayes_update(before, x, deviation).log_prob(z).exp(), updated, rtol=0, atol=1e-10)
    logs = torch.where(updated > 0, updated.log() - after.log_prob(z), 0.0)
    expected = torch.where(observed, torch.trapezoid(updated * logs, z, dim=0), 0.0)
    missing = torch.where(observed, x, torch.nan)
    assert_close(bayes_divergence(before, after, missing, observed, deviation), expected, rtol=0, atol=1e-10)
    perfect = bayes_update(before, x, deviation)
    assert_close(bayes_divergence(before, perfect, x, observed, deviation), torch.zeros(BATCH, 2), rtol=0, atol=1e-14)
    a, b = perfect.variance, after.variance  # the closed form, written out
    by_hand = (b / a).log() / 2 + (a + (perfect.mean - after.mean) ** 2) / (2 * b) - 0.5
    assert_close(by_hand[observed], expected[observed], rtol=0, atol=1e-10)


def test_the_whole_loss_of_gru_ode_bayes_has_gradients_where_values_are_missing():
    rnn, x, observed = gru_ode_bayes(2, 3), torch.randn(TIME, BATCH, 2), torch.rand(TIME, BATCH, 2) < 0.5
    missing = torch.where(observed, x, torch.nan)
    before, after = map(rnn.jump.expected, rnn.jumps(missing, ts=stamps(), observed=observed))
    loss = 1e-2 * bayes_divergence(before, after, missing, observed) - observed_log_prob(before, missing, observed)
    loss.sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in rnn.jump.parameters())


def test_a_jump_that_gives_another_state_is_refused():
    class Half(Added):
        def forward(self, x, observed, h):
            return h[:, :1]

    with pytest.raises(ValueError, match=r"The jump gives \(3, 1\) for a state of shape \(3, 2\)"):
        JumpRNN(ctrnn.NetworkField(Forgetting(), 2), Half(2))(torch.zeros(4, 3, 2))


def test_gru_d_is_the_recursion_of_the_paper_with_its_own_intervals():
    rnn, x, ts, mean = (
        gru_d(2, 3, mean=torch.tensor([0.3, -0.4])),
        torch.randn(TIME, BATCH, 2),
        stamps(),
        torch.tensor([0.3, -0.4]),
    )
    jump, observed = rnn.jump, torch.rand(TIME, BATCH, 2) < 0.5
    observed[..., 0] |= ~observed.any(-1)
    with torch.no_grad():
        jump.fade_x.uniform_(-1, 1)
    m, h, last = observed.to(x), torch.zeros(BATCH, 3), mean.expand(BATCH, 2)
    since = torch.zeros(BATCH, 2)
    for k in range(TIME):
        if k:  # eq. (2) of the paper
            since = (ts[k] - ts[k - 1])[:, None] + torch.where(observed[k - 1], 0.0, since)
        fade_x = torch.exp(-(jump.fade_x[0] * since + jump.fade_x[1]).clamp(min=0))
        fade_h = torch.exp(-(since @ jump.fade_h.weight.T + jump.fade_h.bias).clamp(min=0))
        filled = torch.where(observed[k], x[k], fade_x * last + (1 - fade_x) * mean)
        h, last = jump.cell(torch.cat([filled, m[k]], 1), fade_h * h), torch.where(observed[k], x[k], last)
        output = rnn(x[: k + 1], ts=ts[: k + 1], observed=observed[: k + 1])[0]
        assert output.shape == (k + 1, BATCH, 3)
        assert_close(output[-1], h)


def test_what_gru_d_has_never_seen_is_its_mean_and_not_zero():
    mean, x, observed = torch.tensor([37.0, 120.0]), torch.randn(1, 1, 2), torch.tensor([[[True, False]]])
    rnn = gru_d(2, 3, mean)
    output = rnn(x, observed=observed)[0]
    read = torch.stack([x[0, 0, 0], mean[1]])
    assert_close(output[0], rnn.jump.cell(torch.cat([read, torch.tensor([1.0, 0.0])])[None]))


def test_the_input_decay_of_gru_d_starts_at_the_pace_of_the_gaps_that_are_given():
    torch.manual_seed(3)
    starts = {gap: gru_d(200, 3, gap=gap).jump.fade_x.detach() for gap in (1.0, 50.0)}
    for gap, (w, b) in starts.items():
        assert 0 < w.min() < 0.05 / gap < 0.95 / gap < w.max() <= 1 / gap
        assert not b.any()


WRONG = {
    "another width": (lambda: JumpRNN(ctrnn.gru(0, 3), GRUBayes(2, 4)), ValueError, "`jump` maps 4 units, `field` keeps 3"),
    "a driven field": (lambda: JumpRNN(ctrnn.gru(2, 3), Added(3)), ValueError, "`field` has 2 inputs, and nothing to read"),
    "no jump": (lambda: JumpRNN(ctrnn.gru(0, 3), nn.GRUCell(2, 3)), TypeError, "a discretize.jumps.Jump, got GRUCell; `CellJump"),
    "no cell": (lambda: CellJump(ctrnn.gru(2, 3)), TypeError, "must be a discretize.DiscreteCell, got Relaxation"),
    "an odd cell": (lambda: CellJump(DiscreteCell(ctrnn.gru(3, 3))), ValueError, "two for each value"),
    "too many values": (lambda: impulses()(torch.zeros(4, 1, 3)), ValueError, "the jump reads 2 values"),
    "a mask of numbers": (
        lambda: impulses()(torch.zeros(4, 1, 2), observed=torch.ones(4, 1, 2)), ValueError, "`observed` must hold booleans",
    ),
    "half seen": (lambda: impulses()(torch.full((4, 1, 4), 0.5)), ValueError, "the last 2 say what was seen: 1, or"),
    "a pack": (lambda: impulses()(pack_sequence([torch.zeros(4, 2)])), TypeError, "give the padded batch and its `lengths`"),
    "no noise": (
        lambda: bayes_update(Normal(torch.zeros(2), 1.0), torch.zeros(2), 0.0), ValueError, "`deviation` must be",
    ),
    "a misspelt setting": (
        lambda: gru_ode_bayes(2, 3, observr=4), TypeError, "`gru_ode_bayes` takes no `observr`; did you mean `observer`",
    ),
    "a dtype": (
        lambda: gru_ode_bayes(2, 3, dtype=torch.float64), TypeError,
        "`gru_ode_bayes` takes no `dtype`; it takes input_size, hidden_size, prep, observer, method, .* convert those",
    ),
    "a mean that is none": (lambda: gru_d(2, 3, torch.tensor([0.0, torch.nan])), ValueError, "`mean` must be finite, got nan"),
    "a gap of nothing": (lambda: gru_d(2, 3, gap=0.0), ValueError, "`gap` must be positive, got 0"),
    "weights of whole numbers": (lambda: GRUBayes(2, 3, dtype=torch.int64), TypeError, "`dtype` must be a floating-point dtype"),
    "two dtypes": (
        lambda: JumpRNN(ctrnn.gru(0, 3), GRUBayes(2, 3, dtype=torch.float32)), TypeError, "`jump` has parameters of torch.float3",
    ),
    "a misspelt start": (
        lambda: impulses().jumps(torch.zeros(4, 1, 2), h0=torch.zeros(1, 2)), TypeError, "takes no `h0`; did you mean `h_0`",
    ),
    "nan that was seen": (lambda: impulses()(torch.full((4, 1, 2), torch.nan)), ValueError, "nan"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_in_words(name):
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()
