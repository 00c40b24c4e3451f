"""Exact solves compared: all to the same measured error, or not listed."""

import pytest
import torch

from experiments.bench import solves


@pytest.fixture(scope="module")
def problem():
    return solves.Problem.gated(time=4, batch=2, features=2, hidden=3)


def test_every_candidate_is_given_the_loosest_tolerance_that_meets_the_target(problem):
    candidates = [solves.ours("dopri5"), solves.piece_by_piece("dopri5"), solves.as_users_write_it("bosh3")]
    rows = solves.compare(problem, candidates, target=1e-3, repeats=1)
    assert [row["name"] for row in rows] == [candidate.name for candidate in candidates]
    for row, candidate in zip(rows, candidates, strict=True):
        assert row["error"] < 1e-3
        assert row["evaluations"] > 4
        assert min(row["forward"], row["both"]) > 0
        looser = candidate.tolerance * 10**0.5
        with torch.no_grad():
            hs, _ = candidate.solve(problem, looser)
        assert looser > 0.011 or problem.error(hs) >= 1e-3


def test_a_candidate_that_never_meets_the_target_is_left_out(problem):
    wrong = solves.Candidate("wrong", lambda problem, tolerance: (problem.exact + 1.0, 1))
    rows = solves.compare(problem, [solves.ours("dopri5"), wrong], target=1e-3, repeats=1)
    assert [row["name"] for row in rows] == ["`integrate`, dopri5"]


def test_ways_to_solve_agree(problem):
    for candidate in (solves.ours("dopri8"), solves.with_flags("dopri5", "jump_t"), solves.piece_by_piece("dopri8")):
        with torch.no_grad():
            hs, evaluations = candidate.solve(problem, 1e-9)
        assert problem.error(hs) < 1e-6, candidate.name
        assert evaluations > 0


def test_the_table_shows_ratios_to_the_first():
    rows = [
        {"name": name, "tolerance": 1e-5, "error": 2e-7, "evaluations": 7, "forward": seconds, "both": 2 * seconds}
        for name, seconds in (("a", 0.5), ("b", 2.0))
    ]
    lines = solves.table(rows).splitlines()
    assert lines[2] == "| a | 1e-05 | 2.0e-07 | 7 | 0.500 | 1.0 | 1.000 | 1.0 |"
    assert lines[3] == "| b | 1e-05 | 2.0e-07 | 7 | 2.000 | 4.0 | 4.000 | 4.0 |"
