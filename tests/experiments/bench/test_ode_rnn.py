"""ODE-RNN beside one written with torchdiffeq: the same outputs with the same weights, and how long an epoch takes."""

import pytest
from datasets import make_patients
from torch.testing import assert_close

import ctrnn
from discretize import Euler, SequenceModel, ode_rnn
from experiments.bench.peers.ode_rnn import CLASSES, ODERNNByHand, epoch_seconds
from experiments.tasks.recorded.patients import VALUES, Patients


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    made = tmp_path_factory.mktemp("patients")
    make_patients(made, 50)
    return Patients(data=str(made), grid=4.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        ({"method": Euler()}, {"method": "euler"}, 1e-12),  # the same sums
        ({"rtol": 1e-8, "atol": 1e-8}, {"rtol": 1e-8, "atol": 1e-8}, 1e-5),  # a thousand tolerances: of up to 70 solves
    ],
)
def test_ode_rnn_written_with_torchdiffeq_gives_the_same_outputs(task, ours, theirs, tolerance):
    (batch,) = task.evaluation("validation", 4, 4, seed=0)
    own, by_hand = SequenceModel(ode_rnn(VALUES, 5, units=4, **ours), CLASSES), ODERNNByHand(VALUES, 5, units=4, **theirs)
    by_hand.net.load_state_dict(own.rnn.field.net.state_dict())
    by_hand.cell.load_state_dict(ctrnn.to_torch(own.rnn.jump.cell.field).state_dict())
    by_hand.read_out.load_state_dict(own.read_out.state_dict())
    found, expected = own(batch.xs, ts=batch.ts, lengths=batch.lengths), by_hand(batch.xs, batch.ts, batch.lengths)
    assert_close(batch.last(found), batch.last(expected), rtol=0, atol=tolerance)


def test_an_epoch_takes_time(task):
    assert min(epoch_seconds([ODERNNByHand(VALUES, 4, method="euler")], task, 8, batches=1)) > 0
