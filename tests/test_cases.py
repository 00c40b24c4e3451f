"""Tables of cases: none is left out, and what is not tried every day is tried in the slow run."""

from cases import crossed, diagonal


def test_a_diagonal_has_every_entry_of_every_table():
    assert diagonal([1, 2, 3], "ab") == [(1, "a"), (2, "b"), (3, "a")]


def test_pairs_off_the_diagonal_are_slow():
    cases = crossed([1, 2, 3], "ab")
    assert [case.values for case in cases] == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]
    assert [case.values for case in cases if not case.marks] == [(1, "a"), (2, "b"), (3, "a")]
    assert {mark.name for case in cases for mark in case.marks} == {"slow"}
