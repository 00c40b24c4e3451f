"""The helper that runs one test over many cases: none is left out, and a failure names its own."""

import pytest
from cases import crossed, each


def test_a_case_that_is_skipped_hides_no_other_and_a_failure_names_its_case():
    tried = []

    @each("number", [1, 2, 3])
    @each("word", ["a", "b"])
    def test(number, word):
        tried.append((number, word))
        if number == 1:
            pytest.skip("not this one")
        assert (number, word) != (3, "b")

    with pytest.raises(AssertionError) as caught:
        test()
    assert tried == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]
    assert caught.value.__notes__ == ["case: {'word': 'b'}", "case: {'number': 3}"]

    @each("number", [1, 2])
    def test(number):
        pytest.skip("none")

    with pytest.raises(pytest.skip.Exception):
        test()


def test_tables_are_crossed_by_their_diagonal():
    seen = []

    @crossed(number=[1, 2, 3], word=["a", "b"])
    def test(number, word):
        seen.append((number, word))

    test(grid="diagonal")
    assert seen == [(1, "a"), (2, "b"), (3, "a")]
    seen.clear()
    test(grid="all")
    assert len(set(seen)) == 6
