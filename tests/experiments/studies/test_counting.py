"""What a network that has learned a^n b^n computes, asked of machines that are built to count in one way or another."""

import pandas as pd
import pytest
import torch
from fake_studies import records_of, tables_of

import ctrnn
from discretize import DiscreteCell
from experiments.studies.claims.counting import (
    DIGITS,
    FIRST,
    LATER,
    LINES,
    OTHERWISE,
    RAMPS,
    RECURRENT,
    UNKNOWN,
    Lengths,
    Reader,
    how_it_keeps,
    measured,
)
from experiments.studies.registry import study_named
from experiments.studies.results import Results

LEAST, MOST = 8, 15


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


def effects(rows, numbers, column="effect"):
    return rows[(rows["what"] == "effect") & (rows["numbers"] == numbers)].set_index("line")[column].to_dict()


def test_a_counter_is_found_and_is_told_from_digits_from_a_memory_that_fades_and_from_no_memory():
    for twins, read in ((False, lambda h: h[..., 0:1]), (True, lambda h: h[..., ::2].amin(-1, keepdim=True))):
        rows = frame(reader(Counter(twins=twins), lambda h, read=read: below_zero(read(h))))
        ends = rows[rows["what"] == "end"]
        assert (ends["end"] == ends["n"]).all()
        assert len(ends) == 20
        for column, value in (("effect", 1), ("late", 1), ("count", 1 + twins), ("activity", MOST - LEAST)):
            assert effects(rows, RAMPS, column) == dict.fromkeys(LINES, value)
        assert how_it_keeps(rows, LEAST, MOST) == RAMPS

    powers = 2.0 ** torch.arange(7, dtype=torch.float64)
    rows = frame(reader(Binary(), lambda h: below_zero((h[..., :7] * powers).sum(-1, keepdim=True))))
    ends = rows[rows["what"] == "end"]
    assert (ends["end"] == ends["n"]).all()
    assert effects(rows, DIGITS) == {FIRST: 1, LATER: 1}
    assert effects(rows, RAMPS) == {FIRST: 0, LATER: 0}
    assert how_it_keeps(rows, LEAST, MOST) == DIGITS

    # c = (1 - k^n) / (1 - k) rises ever more slowly: it is no ramp.
    fading = frame(reader(Counter(kept=0.95), lambda h: below_zero(h[..., :1] + 0.5)))
    assert effects(fading, RAMPS, "count") == {FIRST: 0, LATER: 0}
    assert how_it_keeps(fading, LEAST, MOST) not in (RAMPS, DIGITS)

    assert how_it_keeps(frame(reader(Counter(), lambda h: below_zero(h - 40))), LEAST, MOST) == UNKNOWN


def test_what_is_so_in_the_first_line_alone_does_not_count():
    rows = frame(reader(Counter(), below_zero))
    later, ramps = rows["line"] == LATER, rows["numbers"] == RAMPS
    assert how_it_keeps(rows.assign(effect=rows["effect"].where(~(later & ramps), 0.5)), LEAST, MOST) == OTHERWISE
    assert how_it_keeps(rows.assign(end=rows["end"].where(~later, 10.0)), LEAST, MOST) == UNKNOWN


@pytest.fixture
def study():
    return study_named("ollivier-counting")


def found(counts):
    """Rows of runs of which those of `counts` keep n in ramps, all others otherwise, and do not count on."""

    def measured(run):
        given, counting = run.configuration, counts(run.point)
        rows = []
        for line in LINES:
            lengths = Lengths(given.least, given.most)
            rows += [{"line": line, "what": "end", "n": n, "end": n if counting else min(n, given.most)} for n in lengths.asked]
            for numbers, effect in ((RAMPS, float(counting)), (DIGITS, 0.0)):
                row = {"line": line, "what": "effect", "numbers": numbers, "count": 2, "effect": effect, "late": 0.5}
                rows.append(row | {"activity": 1e-6})
        return {"regret": 10.0 if counting else 30.0}, rows

    return measured


def test_the_verdict_says_where_n_is_kept_by_how_many_runs_keep_it_there(study):
    records = records_of(study, "small", found(lambda point: point["seed"] < 8))
    verdict = study.verdict(Results(records))
    assert [part.answer for part in verdict.parts] == ["no", "no", "yes", "yes"]
    assert "32 of the 40 that know n, 20 of the 20 of them with the fewest bits" in verdict.parts[2].evidence
    assert verdict.parts[3].evidence == "32 of 40"
    tables = tables_of(study, Results(records))
    assert "| GLNN, QDH, RUOP | 16 of 20 | 0 of 20 | 4 of 20 | 0 of 20 | 10 (10–10) | 30 (30–30) | – |" in tables
    assert "| GLNN, QDH, RUOP | 2 (2–2) | 1 (1–1) | 0.500 (0.500–0.500) |" in tables


def test_the_verdict_on_counting_is_of_most_runs_that_know_n(study):
    def of_two_sizes(counts):
        of = found(counts)
        return records_of(study, "small", lambda run: of(run) if run.point["method"] == RECURRENT[0] else None)

    few = study.verdict(Results(of_two_sizes(lambda point: point["seed"] < 2)))
    assert [part.answer for part in few.parts] == ["no", "yes", "no", "no"]
    records = of_two_sizes(lambda point: point["seed"] < 8)
    for one in records:
        for row in one["rows"]:
            if row["what"] == "effect":
                row["effect"] = float(row["numbers"] == DIGITS)
    assert [part.answer for part in study.verdict(Results(records)).parts] == ["yes", "no", "no", "yes"]
