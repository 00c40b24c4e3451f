"""How long a sample of one stamp lasts, and sequences that are read in chunks: by edges they are the whole."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, Layers, StampWarning

TIME, BATCH = 12, 3
GENERATOR = torch.Generator().manual_seed(0)
XS = torch.randn(TIME, BATCH, 2, dtype=torch.float64, generator=GENERATOR)
OWN = 40.0 * (0.1 + torch.rand(TIME + 1, BATCH, dtype=torch.float64, generator=GENERATOR)).cumsum(0) + 1e6
SLOW = 100.0  # what units remember, in the unit of the stamps
HELD = {
    "stepped": lambda **how: DiscreteRNN(ctrnn.leaky(2, 4, tau=SLOW), **how),
    "solved": lambda **how: ContinuousRNN(ctrnn.leaky(2, 4, tau=SLOW), **how),
    "layers": lambda **how: Layers([DiscreteRNN(ctrnn.leaky(2, 4, tau=SLOW)), DiscreteRNN(ctrnn.leaky(4, 4, tau=SLOW))], **how),
    "closed form": lambda **how: discretize.cfc(2, 4, **how),
}
every_held = pytest.mark.parametrize("name", HELD)
WITHIN = {"rtol": 0, "atol": 1e-6}  # solves begin anew with each chunk, to tolerances of 1e-5 of states of 0.1
JUMPS = {"ode-rnn": discretize.ode_rnn, "gru-d": discretize.gru_d, "gru-ode-bayes": discretize.gru_ode_bayes}


@pytest.fixture(autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def in_chunks(rnn, chunks, ts, front=0, behind=0):
    """The outputs of chunks of these lengths, each with its stamps and so many more in front and behind."""
    h, outputs, start = None, [], 0
    for n in chunks:
        output, h = rnn(XS[start : start + n], h, ts=ts[max(0, start - front) : start + n + behind])
        outputs.append(output)
        h, start = h.detach(), start + n
    return torch.cat(outputs)


@pytest.mark.each_value
@every_held
@pytest.mark.parametrize("chunks", [[1] * TIME, [5, 1, 6], [4, 8]])
@pytest.mark.parametrize("shared", [True, False])
def test_chunks_with_the_stamp_of_the_next_are_the_whole(name, chunks, shared):
    ts = OWN[:, 0] if shared else OWN
    rnn = HELD[name]()
    assert_close(in_chunks(rnn, chunks, ts, behind=1), rnn(XS, ts=ts)[0], **WITHIN)


@pytest.mark.each_value
@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("chunks", [[1] * TIME, [5, 1, 6]])
def test_chunks_of_observations_with_the_stamp_of_the_last_are_the_whole(name, chunks):
    rnn, ts = JUMPS[name](2, 4), OWN[:TIME] / SLOW
    assert_close(in_chunks(rnn, chunks, ts, front=1), rnn(XS, ts=ts)[0], rtol=0, atol=1e-5)


@every_held
@pytest.mark.parametrize("shared", [True, False])
def test_one_sample_by_one_stamp_is_refused_unless_its_interval_is_said(name, shared):
    one = OWN[:1, 0] if shared else OWN[:1]
    with pytest.raises(ValueError, match=r"one stamp for one sample.* give 2 edges, .* `ts\[k : k \+ 2\]`; or `open_interval`"):
        HELD[name]()(XS[:1], ts=one)
    torch.manual_seed(1)
    forward = HELD[name](open_interval=30.0)
    expected = forward(XS[:1], ts=torch.cat([one, one + 30.0]))[0]
    assert_close(forward(XS[:1], ts=one)[0], expected, rtol=0, atol=1e-9)
    torch.manual_seed(1)
    backward = HELD[name](hold="backward", open_interval=30.0)
    assert_close(backward(XS[:1], ts=one)[0], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("ts", [[3.0], OWN[:1]])
def test_a_held_path_of_one_sample_by_one_stamp_is_refused_unless_its_interval_is_said(ts):
    with pytest.raises(ValueError, match="one stamp for one sample"):
        ctrnn.HeldPath(XS[:1], ts)
    assert_close(ctrnn.HeldPath(XS[:1], ts, open_interval=0.5).knots.diff(dim=0).unique(), torch.tensor([0.5]))


@every_held
def test_a_batch_of_single_samples_is_refused_likewise(name):
    with pytest.raises(ValueError, match="one stamp for one sample"):
        HELD[name]()(XS, ts=OWN[:TIME], lengths=[1, 1, 1])


def test_a_pack_of_single_samples_is_refused_likewise():
    packed = torch.nn.utils.rnn.pack_sequence([XS[:1, 0], XS[:1, 1]])
    with pytest.raises(ValueError, match="one stamp for one sample"):
        HELD["stepped"]()(packed, ts=OWN[:1, :2])


def test_one_observation_by_one_stamp_goes_with_no_start():
    rnn = discretize.ode_rnn(2, 4)
    with pytest.raises(ValueError, match=r"one stamp for one observation, .* give 2 times, that of `h_0` in front"):
        rnn(XS[:1], torch.zeros(BATCH, 4), ts=OWN[:1])
    at_the_observation = rnn.jump(XS[0], torch.ones_like(XS[0]), torch.zeros(BATCH, 4))
    assert_close(rnn(XS[:1], ts=OWN[:1])[0][0], at_the_observation)


@every_held
@pytest.mark.parametrize("packed", [False, True])
def test_a_single_sample_among_longer_sequences_lasts_for_their_median_interval_and_that_is_said_once(name, packed):
    if packed and name == "closed form":
        pytest.skip("models that jump read no packed sequences")
    lengths, ts = [1, 5, 3], OWN[:TIME].clone()
    known = torch.cat([ts[:5, 1].diff(), ts[:3, 2].diff()]).sort().values
    for k, n in enumerate(lengths):
        ts[n:, k] = torch.nan

    def read():
        if packed:
            x = torch.nn.utils.rnn.pack_padded_sequence(XS, lengths, enforce_sorted=False)
            return torch.nn.utils.rnn.pad_packed_sequence(rnn(x, ts=ts[:5])[0])[0]
        return rnn(XS, ts=ts, lengths=lengths)[0]

    torch.manual_seed(0)
    expected = HELD[name]()(XS[:1, 0], ts=torch.stack([ts[0, 0], ts[0, 0] + known[(len(known) - 1) // 2]]))[0]
    torch.manual_seed(0)
    rnn = HELD[name]()
    with pytest.warns(StampWarning, match="Sequence 0 has one sample by one stamp"):
        first = read()
    assert_close(first[:1, 0], expected, rtol=0, atol=1e-6)
    assert_close(read(), first)  # and no word


@every_held
def test_a_batch_in_other_units_of_time_gives_single_samples_the_same_share_of_it(name):
    # No length is in the code: times 2^30, on fields as much slower, change nothing.
    if name == "closed form":
        pytest.skip("its curves have no unit to change")
    outputs = []
    for unit in (1.0, 2.0**30, 2.0**-30):
        torch.manual_seed(0)
        rnn = HELD[name]()
        for part in rnn.modules():
            if isinstance(part, ctrnn.VectorField):
                part.rate = ctrnn.leaky(2, 4, tau=SLOW * unit).rate
        with pytest.warns(StampWarning):
            outputs.append(rnn(XS, ts=unit * (OWN[:TIME] - 1e6), lengths=[1, 5, 3])[0])
    for other in outputs[1:]:
        assert_close(other, outputs[0], rtol=1e-6, atol=1e-6)


@every_held
def test_chunks_by_stamps_that_do_not_meet_are_said_once(name):
    rnn = HELD[name]()
    with pytest.warns(StampWarning, match=r"begins at .*the last sample of a chunk .*Give the first stamp of the next") as said:
        in_chunks(rnn, [4, 4, 4], OWN)
    assert len(said) == 1
    in_chunks(rnn, [4, 4, 4], OWN)  # a warning is an error here


@every_held
@pytest.mark.parametrize("ts", [10.0 * torch.arange(TIME), 1e6 + 0.2 * torch.arange(TIME, dtype=torch.float64)])
def test_chunks_of_a_steady_clock_meet(name, ts):
    in_chunks(HELD[name](), [4, 4, 4], ts)  # a warning is an error here


def test_a_chunk_that_begins_a_tenth_of_an_interval_late_does_not_meet():
    ts = 10.0 * torch.arange(TIME)
    ts[4:] += 1.0
    with pytest.warns(StampWarning, match="at the time 40, and begins at 41"):
        in_chunks(HELD["stepped"](), [4, 8], ts)


@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sample_of_a_batch_without_a_time_axis_is_said_once_to_be_read_as_a_sequence(batch_first):
    rnn = DiscreteRNN(ctrnn.leaky(2, 4), batch_first=batch_first)
    rnn(XS[0])  # no batch before
    rnn(XS.transpose(0, 1) if batch_first else XS)
    rnn(XS[:, 0])  # as many samples as there were before, and another batch
    rnn(XS[:BATCH, 0], ts=torch.arange(BATCH + 1.0))
    with pytest.warns(UserWarning, match="one sequence of 3 samples, .* the batch before had 3 sequences") as said:
        assert len({rnn(x)[0].shape for x in XS[:2]}) == 1
    assert len(said) == 1


@every_held
def test_chunks_with_one_stamp_more_meet(name):
    in_chunks(HELD[name](), [4, 4, 4], OWN, behind=1)  # a warning is an error here


@every_held
def test_a_chunk_from_other_states_or_on_a_clock_that_begins_anew_is_another_sequence(name):
    other = HELD[name]()
    _, h = other(XS[:4], ts=OWN[:4])
    other(XS[4:8], h + 1, ts=OWN[4:8])  # a warning is an error here
    anew = HELD[name]()
    _, h = anew(XS[:4], ts=OWN[:4])
    anew(XS[4:8], h, ts=OWN[:4])


@every_held
def test_backward_chunks_that_do_not_meet_are_said_and_those_with_the_stamp_before_meet(name):
    backward = HELD[name](hold="backward", open_interval=5.0)
    with pytest.warns(StampWarning, match=r"begins at .* do not say how long ago .* Give the last time of the chunk before"):
        in_chunks(backward, [4, 8], OWN)
    in_chunks(HELD[name](hold="backward", open_interval=5.0), [4, 8], OWN, front=1)  # a warning is an error here


def test_states_that_were_written_over_are_those_of_another_sequence():
    # As where an agent begins anew: its clock goes on, and its states are set to 0 in place.
    rnn = discretize.DiscreteRNN(ctrnn.gated(2, 3))
    ts = torch.tensor([0.0, 1.0, 3.0])
    _, h = rnn(XS[:3], ts=ts)
    h = h.detach()
    h.zero_()
    rnn(XS[:3], h, ts=ts + 50.0)  # a warning is an error here


@pytest.mark.parametrize(
    ("make", "joined"),
    [
        (lambda: discretize.ode_rnn(2, 4), "Give the last time of the chunk before"),
        (lambda: ContinuousRNN(ctrnn.leaky(2, 4), path="linear"), "Begin with the last sample of the chunk before"),
    ],
    ids=["jumps", "a path"],
)
def test_chunks_of_jumps_and_of_paths_that_do_not_meet_are_said(make, joined):
    with pytest.warns(StampWarning, match=joined):
        in_chunks(make(), [4, 8], OWN[:TIME])


@pytest.mark.parametrize("hold", ["forward", "backward"])
@pytest.mark.parametrize("ts", [1.7e9 + torch.arange(3.0, dtype=torch.float64), OWN[:3] + 1.7e9])
def test_an_open_interval_that_is_lost_in_rounding_is_refused(hold, ts):
    rnn = DiscreteRNN(ctrnn.leaky(2, 4), hold=hold, open_interval=1e-9)
    with pytest.raises(ValueError, match=r"`open_interval` = 1e-09 is lost in rounding at the time 17"):
        rnn(XS[:3], ts=ts)
