"""Statistics over outputs: padded with anything, packed, and sequence by sequence the same data give the same numbers."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import ctrnn
from discretize import DiscreteRNN, Layers, Monitor, refine

LENGTHS = [3, 8, 5, 1]


@pytest.fixture(autouse=True)
def _looks_soon(request, monkeypatch):
    """What still moves is looked at after a tenth as many samples; models here move as much faster."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr("discretize.analysis.refine.WAIT", 50)
        monkeypatch.setattr("discretize.analysis.refine.LOOK", 50)


GENERATOR = torch.Generator().manual_seed(0)
XS = 2 * torch.randn(8, 4, 2, dtype=torch.float64, generator=GENERATOR)
EDGES = (0.2 + torch.rand(9, 4, dtype=torch.float64, generator=GENERATOR)).cumsum(0)


class Read(nn.Module):
    """A model that reads the same sequences in a way of its own."""

    def __init__(self, rnn, way, timed):
        super().__init__()
        self.rnn, self.way, self.ts = rnn, way, EDGES if timed else None

    def forward(self, xs):
        ts, turned = self.ts, self.rnn.batch_first
        beyond = torch.arange(len(xs))[:, None] >= torch.tensor(LENGTHS)
        if self.way == "one by one":
            for k, n in enumerate(LENGTHS):
                self.rnn(xs[:n, k], ts=None if ts is None else ts[: n + 1, k])
        elif self.way == "packed":
            self.rnn(pack_padded_sequence(xs, LENGTHS, enforce_sorted=False), ts=ts)
        else:
            xs = xs.masked_fill(beyond[..., None], self.way)
            ts = None if ts is None else torch.cat([ts[:1], ts[1:].masked_fill(beyond, self.way)])
            if turned:
                xs, ts = xs.transpose(0, 1), None if ts is None else ts.T
            self.rnn(xs, ts=ts, lengths=LENGTHS)


WAYS = ["packed", 0.0, float("nan"), 1e8]


def a_cell(batch_first=False):
    return DiscreteRNN(ctrnn.gru(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), batch_first=batch_first)


def layers(batch_first=False):
    torch.manual_seed(1)
    return Layers.of(ctrnn.gru, 2, 3, 2, bidirectional=True, batch_first=batch_first, dtype=torch.float64)


@pytest.mark.by_default(4)
@pytest.mark.parametrize(
    ("make", "timed", "way"),
    [*((a_cell, False, way) for way in WAYS), (a_cell, True, 1e8), (a_cell, True, "batch first"), (layers, True, float("nan"))],
)
def test_a_refinement_is_of_the_samples_alone(make, timed, way, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")  # to compile takes longer
    how = {"halvings": 1, "rtol": 1e-6, "atol": 1e-8}
    expected = refine(Read(make(), "one by one", timed), XS, **how)
    first = way == "batch first"
    found = refine(Read(make(first), 1e8 if first else way, timed), XS, **how)
    for name in ("drift", "largest", "orders", "spread"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6), name
    assert found.verdict == expected.verdict


def test_a_refinement_says_of_padding_what_it_says_without():
    # Three samples of each sequence beside 97 of padding: 54 % off, and not by a twentieth of that.
    torch.manual_seed(0)
    rnn, xs = DiscreteRNN(ctrnn.leaky(2, 4, alpha=1.5, dtype=torch.float64)), torch.randn(100, 8, 2, dtype=torch.float64)
    lengths = [100] + [3] * 7
    found = refine(rnn, xs[:, 1:], None, None, lengths[1:], halvings=1)
    alone = refine(rnn, xs[:3, 1:], None, None, lengths[1:], halvings=1)
    assert found.share == pytest.approx(alone.share, rel=1e-6)
    assert found.share > 0.1


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_monitor_counts_the_steps_of_samples_alone(way, timed):
    records = []
    for one in ("one by one", way):
        rnn = a_cell()
        with torch.no_grad():
            rnn.field.rate.bias.fill_(3.0)
        with Monitor(model := Read(rnn, one, timed), warn="never") as monitor:
            model(XS)
        records.append(monitor.records["rnn"])
    alone, found = records
    assert found.counts.tolist() == alone.counts.tolist()
    assert found.counts.sum() == sum(LENGTHS) * 5
    assert found.histogram.tolist() == alone.histogram.tolist()
    assert found.largest.g_dt == pytest.approx(alone.largest.g_dt)
    assert (found.largest.unit, found.largest.sample) == (alone.largest.unit, alone.largest.call)  # a call was a sequence
    assert found.largest.time == pytest.approx(alone.largest.time)


def test_a_monitor_says_where_states_are_lost_and_counts_no_sequence_that_is_over():
    # |h|^2 h by unit steps: once they overshoot they are at no number in a few.
    rnn = DiscreteRNN(ctrnn.leaky(2, 3, alpha=3.0, decay=ctrnn.PowerDecay(2.0)), allow_overshoot=True)
    with Monitor(rnn, warn="never") as monitor:
        rnn(10 * torch.ones(30, 2, 2), lengths=[30, 2])
    record = monitor.records[""]
    assert record.lost is not None
    assert (record.lost.sample, record.lost.call) == (0, 0)
    assert torch.tensor(record.largest.g_dt).isfinite()
    said = str(monitor)
    assert "nan" not in said
    assert "g dt is infinite from there on" in said
    assert record.counts.sum() == 3 * 32


def test_a_step_that_diverges_has_no_rhythm():
    # dh/dt = -alpha (h - x), alpha = 2.9: Euler's R = -1.9, at infinity in 1200 samples.
    field = ctrnn.leaky(1, 1, alpha=2.9, dtype=torch.float64)
    with torch.no_grad():
        for part in field.candidate.parameters():
            part.zero_()
    rnn = DiscreteRNN(field, allow_overshoot=True)
    found = refine(rnn, torch.randn(5, 3, 1), torch.ones(1, 3, 1), halvings=1, atol=1e-13)  # below it a solve looks for a warning
    assert "leave all bounds" in found.verdict
    assert "it is the step that diverges" in found.verdict
    assert "rhythm" not in found.verdict
    assert found.held[0] == (float("inf"),) * 3
    assert max(found.held[1]) < 1e-6


@pytest.mark.slow
def test_a_step_that_diverges_slowly_has_no_rhythm_either():
    field = ctrnn.leaky(1, 1, alpha=2.001, dtype=torch.float64)  # R = -1.001: 10^7 times as far after 16,000 samples
    with torch.no_grad():
        for part in field.candidate.parameters():
            part.zero_()
    rnn = DiscreteRNN(field, allow_overshoot=True)
    found = refine(rnn, torch.randn(20, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64), halvings=1)
    assert "leave all bounds" in found.verdict
    assert "rhythm" not in found.verdict


def test_one_sequence_that_diverges_leaves_the_others_their_rhythm():
    # dh/dt = -x h by unit steps, R = 1 - x: the first goes to infinity, the second turns for ever, the third rests.
    class Forgets(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 1)

        def flow(self, projected, h):
            return -projected * h

    rnn = DiscreteRNN(Forgets(), allow_overshoot=True)
    xs = torch.tensor([5.0, 2.0, 0.5]).expand(5, 3)[..., None]  # R = -4, -1, 0.5
    found = refine(rnn, xs, torch.ones(1, 3, 1), halvings=1, atol=1e-13)
    assert found.held[0][0] == float("inf")
    assert found.held[0][1] == pytest.approx(1.0, rel=0.015)  # torch's deviation of 50 samples is sqrt(50/49)
    assert found.held[0][2] < 1e-9
    assert "1 of 3 sequences leave all bounds" in found.verdict
    assert "1 of 3 sequences go on moving; in the equation all of these come to rest" in found.verdict


def test_states_that_do_not_move_leave_no_bounds():
    field = ctrnn.leaky(1, 2, dtype=torch.float64)
    with torch.no_grad():
        for part in field.candidate.parameters():
            part.zero_()
    found = refine(DiscreteRNN(field), torch.zeros(5, 2, 1, dtype=torch.float64), None, None, [5, 5], halvings=1)
    assert found.share == 0
    assert found.verdict.startswith("Yes")
    assert not {"inf", "nan"} & set(found.verdict.replace(",", " ").split())


def test_metrics_that_are_no_numbers_are_said_in_words():
    found = refine(a_cell(), XS, None, None, LENGTHS, metric=lambda _: float("nan"), halvings=1)
    assert "the metric is not a number as stepped and not a number when solved" in found.verdict
