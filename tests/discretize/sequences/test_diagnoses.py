"""Wrong diagnoses and tracebacks that users met, one test each."""

import pickle
import subprocess
import sys

import pytest
import torch

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Monitor, integrate


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


@pytest.mark.parametrize(
    ("name", "ours"), [("rk45", "dopri5"), ("RK45", "dopri5"), ("DOP853", "dopri8"), ("Radau", "rodas5p"), ("ode23", "bosh3")]
)
def test_methods_by_their_names_elsewhere_are_answered_by_ours(name, ours):
    with pytest.raises(ValueError, match=f"did you mean '{ours}'"):
        ContinuousRNN(ctrnn.plain(2, 3), method=name)


@pytest.mark.filterwarnings("error")
def test_forward_mode_gives_no_warning_of_torchs_own():
    """torch loads it once in a process: so in a process of its own."""
    script = """
import torch, ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Taylor2, SolverWarning
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
