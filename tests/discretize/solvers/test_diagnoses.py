"""Wrong diagnoses and tracebacks that users met, one test each."""

import pickle
import subprocess
import sys

import pytest
import torch
from cases import each

import ctrnn
from discretize import (
    ETDRK4,
    Adjoint,
    BackwardEuler,
    Checkpointed,
    ContinuousRNN,
    DiscreteCell,
    DiscreteRNN,
    Euler,
    ExponentialEuler,
    Monitor,
    integrate,
    unroll,
)


def test_a_watched_model_can_be_pickled_and_is_watched_after():
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(4, 2, 2)
    with Monitor(rnn):
        rnn(x)
        again = pickle.loads(pickle.dumps(rnn))
        assert torch.equal(again(x)[0], rnn(x)[0])
        assert int(again.step.record.counts.sum()) == int(rnn.step.record.counts.sum()) > 0


def test_times_on_the_meta_device_are_refused_in_words():
    ts, x = torch.arange(5.0, device="meta"), torch.randn(4, 2, 2)
    for call in (
        lambda: integrate(ctrnn.plain(2, 3), ctrnn.HeldPath(x), torch.zeros(2, 3), ts),
        lambda: ContinuousRNN(ctrnn.plain(2, 3))(x, ts=ts),
        lambda: DiscreteRNN(ctrnn.plain(2, 3))(x, ts=ts),
        lambda: ctrnn.HeldPath(x, ts),
    ):
        with pytest.raises(ValueError, match="`ts` is on the meta device, which keeps no values"):
            call()


@each(("name", "ours"), [("rk45", "dopri5"), ("RK45", "dopri5"), ("DOP853", "dopri8"), ("Radau", "rodas5p"), ("ode23", "bosh3")])
def test_methods_by_their_names_elsewhere_are_answered_by_ours(name, ours):
    with pytest.raises(ValueError, match=f"did you mean '{ours}'"):
        ContinuousRNN(ctrnn.plain(2, 3), method=name)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_forward_mode_gives_no_warning_of_torchs_own():
    """torch loads it once in a process: so in a process of its own."""
    script = """
import torch, ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Taylor2, SolverWarning
torch.manual_seed(0)  # a start near its target is solved in so few steps that there is nothing to hint at
try:
    ContinuousRNN(ctrnn.leaky(1, 2, alpha=2000.0))(torch.randn(3, 1, 1))
except SolverWarning as warning:
    assert "stiff" in str(warning)
else:
    raise AssertionError("no hint")
ContinuousRNN(ctrnn.plain(1, 2), "rodas5p")(torch.randn(3, 1, 1))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def nobody(field, **settings):
    """Every way to run a batch of 0, (time, 0, input): the states."""
    x, h0 = torch.randn(4, 0, 2), torch.zeros(0, field.state_size)
    for step in (Euler(), ExponentialEuler(), BackwardEuler(), ETDRK4()):
        yield DiscreteRNN(field, step)(x)[0]
        yield unroll(DiscreteCell(field, step), x).hs
        yield DiscreteCell(field, step)(x[0])
    yield DiscreteRNN(field)(x, lengths=[], ts=torch.zeros(4, 0))[0]
    for method in ("dopri5", "dopri8", "rodas5p", "rk4", Euler()):
        yield ContinuousRNN(field, method)(x)[0]
    for gradient in (Adjoint(), Checkpointed(1e6)):
        yield ContinuousRNN(field, gradient=gradient)(x, lengths=[])[0]
    for path in (ctrnn.HeldPath, ctrnn.LinearPath, ctrnn.HermitePath):
        solved = integrate(field, path(x), h0, torch.arange(3.0))
        yield solved.hs
        assert solved(torch.tensor([0.5, 1.5])).shape == (2, 0, field.state_size)
    yield integrate(field, ctrnn.FunctionPath(lambda t: torch.zeros(0, 2), (0.0, 3.0), 2), h0, torch.arange(3.0)).hs


def test_a_batch_of_nobody_has_no_states_and_gradients_of_zero_as_in_torch():
    for make in (ctrnn.gated, ctrnn.gru, ctrnn.lstm):
        field = make(2, 3)
        assert field.initial_state(0).shape == (0, field.state_size)
        for states in nobody(field):
            assert states.shape[-2] == 0
            gradients = torch.autograd.grad(states.sum(), list(field.parameters()))
            assert not any(bool(gradient.any()) for gradient in gradients)
    theirs, _ = torch.nn.RNN(2, 3)(torch.randn(4, 0, 2))
    assert theirs.shape == next(nobody(ctrnn.plain(2, 3))).shape
    with pytest.raises(ValueError, match="at least one sample and one feature"):
        DiscreteRNN(ctrnn.plain(2, 3))(torch.randn(0, 2, 2))
