"""When held samples act: forward from their stamps, backward up to them, where nothing of the future is seen."""

from functools import partial

import pytest
import torch
from cases import diagonal
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, ExponentialEuler, Layers, RungeKutta4, integrate

TIME, BATCH = 6, 3
ROUNDING = {"rtol": 0, "atol": 1e-14}
WITHIN = {"rtol": 0, "atol": 1e-11}  # the same steps of a solve, alone and in a batch
MODULES = {
    "euler": lambda field, _, **settings: DiscreteRNN(field, **settings),
    "step by step": lambda field, _, **settings: DiscreteRNN(field, RungeKutta4(), substeps=2, **settings),
    "not fused": lambda field, _, **settings: DiscreteRNN(field, ExponentialEuler(), fused=False, **settings),
    "compiled solve": lambda field, _, **settings: ContinuousRNN(field, rtol=1e-3, atol=1e-3, **settings),  # few steps
    "solve": lambda field, _, **settings: ContinuousRNN(field, rtol=1e-3, atol=1e-3, fused=False, **settings),
    "fixed steps": lambda field, _, **settings: ContinuousRNN(field, "rk4", max_step=0.5, **settings),
    "layers": lambda field, above, **settings: Layers([DiscreteRNN(field), ContinuousRNN(above)], **settings),
}
every_module = pytest.mark.parametrize("name", MODULES)


def setting(name, make=ctrnn.gated):
    """Keywords -> modules on the same weights; samples and stamps."""
    return partial(MODULES[name], make(2, 3), make(3, 3)), torch.randn(TIME, BATCH, 2), clocks()


def clocks():
    """Stamps (time, batch), other steps and another start for each."""
    return torch.cumsum(0.1 + torch.rand(TIME, BATCH), 0) + torch.randn(BATCH)


def started(ts, before=0.4):
    """Stamps with the time of the start in front: edges."""
    return torch.cat([ts[:1] - before, ts])


@pytest.mark.parametrize(
    ("name", "how"),
    diagonal(MODULES, [(ctrnn.gated, False, False, True), (ctrnn.lstm, True, False, False), (ctrnn.gated, False, True, False)]),
)
def test_backward_nothing_that_comes_later_changes_an_output(name, how):
    make, shared, edges, batch_first = how
    made, x, ts = setting(name, make)
    rnn = made(hold="backward", open_interval=0.7, batch_first=batch_first)
    ts = ts[:, 0] if shared else ts

    def output(x, ts):
        given = started(ts) if edges else ts
        if batch_first:
            x, given = x.transpose(0, 1), given if shared else given.mT
        found = rnn(x, ts=given)[0]
        return found.transpose(0, 1) if batch_first else found

    for k in (0, 3):
        later_x, later_ts = x.clone(), ts.clone()
        later_x[k + 1 :] = torch.randn_like(x[k + 1 :])
        later_ts[k + 1 :] += 0.5 * torch.rand(()) * torch.arange(1, TIME - k).reshape(-1, *[1] * (ts.dim() - 1))
        assert_close(output(later_x, later_ts)[: k + 1], output(x, ts)[: k + 1], **WITHIN)
        read, stamps = x.clone().requires_grad_(), ts.clone().requires_grad_()
        to_x, to_ts = torch.autograd.grad(output(read, stamps)[k].sum(), (read, stamps))
        assert not to_x[k + 1 :].any()
        assert not to_ts[k + 1 :].any()
        assert to_x[k].any()
        assert bool(to_ts[k].any()) == (k > 0)  # its own time is its output's; the first interval has a length of its own here


@every_module
def test_forward_an_output_depends_on_when_the_next_sample_comes(name):
    made, x, ts = setting(name)
    stamps = ts.clone().requires_grad_()
    (to_ts,) = torch.autograd.grad(made()(x, ts=stamps)[0][2].sum(), stamps)
    assert to_ts[3].all()
    assert not to_ts[4:].any()


@every_module
@pytest.mark.parametrize(("shared", "lengths"), [(True, None), (False, [6, 1, 4])])
def test_backward_stamps_are_the_edges_that_begin_with_the_start(name, shared, lengths):
    made, x, ts = setting(name)
    backward, forward = made(hold="backward", open_interval=0.4), made()
    ts = ts[:, 0] if shared else ts
    expected = forward(x, ts=started(ts), lengths=lengths)
    for given, within in ((ts, WITHIN), (started(ts), ROUNDING)):
        for ours, theirs in zip(backward(x, ts=given, lengths=lengths), expected, strict=True):
            assert_close(ours, theirs, **within)


@every_module
def test_forward_the_open_interval_is_the_last_samples_of_each_sequence(name):
    (made, x, ts), lengths = setting(name), [6, 1, 4]
    output, h_n = made(open_interval=0.9)(x, ts=ts, lengths=lengths)
    for i, n in enumerate(lengths):
        own = ts[:n, i]
        alone, last = made()(x[:n, i], ts=torch.cat([own, own[-1:] + 0.9]))
        assert_close(output[:n, i], alone, **WITHIN)
        assert_close(h_n[:, i], last, **WITHIN)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_held_path_takes_stamps_in_either_direction(direction):
    field, ts = ctrnn.gated(2, 3), clocks()[:, 0]
    x = torch.randn(TIME, BATCH, 2)
    path = ctrnn.HeldPath(x, ts, hold=direction, open_interval=0.4)
    edges = started(ts) if direction == "backward" else torch.cat([ts, ts[-1:] + 0.4])
    assert_close(path.knots, edges)
    hs = integrate(field, path, torch.zeros(BATCH, 3), edges).hs
    assert_close(hs[1:], ContinuousRNN(field, hold=direction, open_interval=0.4)(x, ts=ts)[0], **WITHIN)


def test_what_stamps_leave_open_is_asked_for():
    made, x, ts = setting("euler")
    rnn = made(hold="backward")
    with pytest.raises(ValueError, match=r"since when the first sample acts .* give 7 edges, .* or `open_interval`"):
        rnn(x, ts=ts)
    with pytest.raises(ValueError, match="since when the first sample acts"):
        ctrnn.HeldPath(x, ts[:, 0], hold="backward")
    assert_close(rnn(x, ts=started(ts))[0], made()(x, ts=started(ts))[0], **ROUNDING)
    assert_close(rnn(x)[0], made()(x)[0], **ROUNDING)  # without stamps a sample takes dt


@pytest.mark.parametrize(
    "make", [DiscreteRNN, ContinuousRNN, lambda field, **given: ctrnn.HeldPath(torch.ones(2, 1, 1), **given)]
)
@pytest.mark.parametrize(
    ("given", "words"),
    [({"hold": "left"}, r'`hold` must be "forward" or "backward", got \'left\''), ({"open_interval": 0.0}, "`open_interval`")],
)
def test_words_and_lengths_of_another_kind_are_refused(make, given, words):
    with pytest.raises(ValueError, match=words):
        make(ctrnn.gated(1, 2), **given)


def test_inside_layers_no_module_has_a_hold_of_its_own():
    with pytest.raises(ValueError, match=r"`layers\[0\]` has a `hold` or `open_interval` of its own; give them to `Layers`"):
        Layers([DiscreteRNN(ctrnn.gated(1, 2), hold="backward")])


def test_a_module_shows_when_its_samples_act():
    assert "hold='backward'" in repr(DiscreteRNN(ctrnn.gated(1, 2), hold="backward"))
