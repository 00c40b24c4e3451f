"""What a network that has learned a^n b^n computes, asked of machines that are built to count in one way or another."""

import pandas as pd
import pytest
import torch
from fake_studies import records_of, tables_of

import ctrnn
from discretize import DiscreteCell
from experiments.studies.claims.counting import DIGITS, RAMP, RAMPS, UNKNOWN, Lengths, Reader, how_it_keeps, measured
from experiments.studies.registry import study_named
from experiments.studies.results import Results

LEAST, MOST = 16, 31


class Counter(ctrnn.VectorField):
    """c goes up with each a and down with each b; `kept` of it is there after a sample; another unit tells a from b."""

    def __init__(self, kept=1.0, twins=False):
        super().__init__(3, 3)
        self.kept, self.twins = kept, twins

    def flow(self, x, h):
        a, b = x[..., 0], x[..., 1]
        count, told, _ = h.unbind(-1)
        return torch.stack([a - b + (self.kept - 1) * count, b - told, self.twins * (a - b)], -1)


class Binary(ctrnn.VectorField):
    """Six bits count up with a, and down with b; so do digits that are read together."""

    def __init__(self):
        super().__init__(3, 8)

    def flow(self, x, h):
        powers = 2.0 ** torch.arange(7, dtype=h.dtype)
        count = (h[..., :7].clamp(0, 1).round() * powers).sum(-1) + x[..., 0] - x[..., 1]
        bits = (count[..., None] / powers).floor() % 2
        new = torch.cat([bits, x[..., 1:2]], -1)
        return new - h


def reader(field, read_out):
    machine = Reader.__new__(Reader)
    machine.cell, machine.start = (
        DiscreteCell(field, allow_overshoot=True),
        torch.zeros(1, field.hidden_size, dtype=torch.float64),
    )
    machine.read_out = read_out
    return machine


def below_zero(h):
    """Ends the line of b once the count is used up."""
    logits = torch.full((*h.shape[:-1], 3), -30.0, dtype=h.dtype)
    logits[..., 2] = torch.where(h[..., 0] < 0.5, 30.0, -60.0)
    return logits


def frame(machine):
    return pd.DataFrame(measured(machine, Lengths(LEAST, MOST)))


def test_a_counter_is_found_and_is_told_from_digits_from_a_memory_that_fades_and_from_no_memory():
    rows = frame(reader(Counter(), below_zero))
    ends = rows[rows["what"] == "end"].set_index("n")["end"]
    assert (ends == ends.index).all()
    units = rows[rows["what"] == "unit"].set_index("unit")
    assert units["effect"].tolist() == [1, 0, 0]
    assert (units.loc[0, ["speed", "back", "turns", "activity"]] == [1, -1, 0, 15]).all()
    assert units["ramp"].tolist() == [True, False, False]
    assert how_it_keeps(rows, LEAST, MOST) == RAMP

    powers = 2.0 ** torch.arange(7, dtype=torch.float64)
    rows = frame(reader(Binary(), lambda h: below_zero((h[..., :7] * powers).sum(-1, keepdim=True))))
    ends = rows[rows["what"] == "end"].set_index("n")["end"]
    assert (ends == ends.index).all()
    assert rows["turns"].max() > 10
    assert how_it_keeps(rows, LEAST, MOST) == DIGITS

    rows = frame(reader(Counter(twins=True), lambda h: below_zero(h[..., ::2].amax(-1, keepdim=True))))
    assert rows[rows["what"] == "unit"]["effect"].tolist() == [1, 0, 1]
    rows = frame(reader(Counter(twins=True), lambda h: below_zero(h[..., ::2].amin(-1, keepdim=True))))
    assert rows[rows["what"] == "unit"]["effect"].tolist() == [0, 0, 0]
    assert how_it_keeps(rows, LEAST, MOST) == RAMPS

    # c = (1 - k^n) / (1 - k) rises ever more slowly.
    def mirrored(h):
        return below_zero(h[..., :1] + 0.5)

    fading = frame(reader(Counter(kept=0.99), mirrored))
    assert not fading[fading["what"] == "unit"]["ramp"].any()
    assert how_it_keeps(fading, LEAST, MOST) not in (RAMP, RAMPS, DIGITS)

    assert how_it_keeps(frame(reader(Counter(), lambda h: below_zero(h - 40))), LEAST, MOST) == UNKNOWN


@pytest.fixture
def study():
    return study_named("ollivier-counting")


def found(counts):
    """Rows of runs of which those of `counts` keep n in one number, all others in two that come to rest."""

    def measured(run):
        given, one = run.configuration, counts(run.point)
        rows = [{"what": "end", "n": n, "end": n} for n in Lengths(given.least, given.most).asked]
        for unit, effect in enumerate((1.0, 0.0) if one else (0.5, 0.5)):
            rows.append({"what": "unit", "unit": unit, "effect": effect, "speed": 1.5, "back": -1.5, "activity": 0.0})
        together = ((RAMPS, float(one)), (DIGITS, 0.0))
        rows += [{"what": "together", "numbers": numbers, "effect": effect} for numbers, effect in together]
        return {"regret": 10.0 if one else 30.0}, rows

    return measured


def test_the_verdict_says_where_n_is_kept_by_how_many_runs_keep_it_there(study):
    records = records_of(study, "small", found(lambda point: point["seed"] < 8))
    verdict = study.verdict(Results(records))
    assert [part.answer for part in verdict.parts] == ["no", "yes", "yes"]
    assert "32 of the 40 that know n, 20 of the 20 of them with the fewest bits" in verdict.parts[1].evidence
    assert "32 of 32, ends at 1 of n" in verdict.parts[2].evidence
    tables = tables_of(study, Results(records))
    assert "| GLNN, QDH, RUOP | 16 of 20 | 0 of 20 | 0 of 20 | 4 of 20 | 0 of 20 | 10 (10–10) | 30 (30–30) | – |" in tables
    assert "| GLNN, QDH, RUOP | 1.50 | 1 | 0 | 1 | 1 |" in tables

    few = study.verdict(Results(records_of(study, "small", found(lambda point: point["seed"] < 2))))
    assert [part.answer for part in few.parts] == ["no", "no", "yes"]
    for one in records:
        one["rows"][-2]["effect"], one["rows"][-1]["effect"] = 0.0, 1.0
    assert [part.answer for part in study.verdict(Results(records)).parts] == ["yes", "no"]
