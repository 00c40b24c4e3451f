"""What a study is made of: a change of its claim or of what judges it is seen, and no other."""

import json

import pytest

import derivations.records
from experiments.studies import records
from experiments.studies.registry import OWN
from experiments.usage import UsageError

ROOT = records.ROOT


@pytest.fixture
def edit(monkeypatch):
    """Have a file be another one, without writing it; returns what changes of which studies and tests."""
    before = records.made_of()

    def edited(place):
        assert (ROOT / place).is_file()
        read = derivations.records._of_file
        monkeypatch.setattr(derivations.records, "_of_file", lambda file: "another" if file == ROOT / place else read(file))
        after = records.made_of()
        return {name: parts for name in after if (parts := records._differs(after[name], before[name]))}

    return edited


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("experiments/studies/claims/moving.py", {"moving-symbols": ("claim",), "test_compressed": ("claim",)}),
        ("experiments/studies/claims/moving.md", {"moving-symbols": ("claim",), "test_compressed": ("claim",)}),
        ("tests/experiments/studies/test_counting.py", {"test_counting": ("test",)}),
        ("ctrnn/cells/published/mgu.py", {}),
    ],
)
def test_what_changed_is_named_of_the_studies_and_tests_that_are_made_of_it(edit, place, expected):
    assert edit(place) == expected


def test_all_studies_are_made_of_what_judges_them(edit):
    found = edit("experiments/studies/verdicts.py")
    assert set(OWN) <= set(found)
    assert set(found.values()) == {("judge",)}


def test_what_was_not_recorded_is_judged_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORDS", tmp_path / "records.json")
    records.changed.cache_clear()
    assert set(records.changed()) == set(records.made_of())
    monkeypatch.setattr(records, "_judged_otherwise", lambda names: [])
    records.main()
    records.changed.cache_clear()
    assert records.changed() == {}
    assert json.loads((tmp_path / "records.json").read_text()) == records.made_of()
    records.changed.cache_clear()


def test_a_study_that_is_judged_otherwise_is_named_and_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORDS", tmp_path / "records.json")
    monkeypatch.setattr(records, "_judged_otherwise", lambda names: ["unwarped"])
    with pytest.raises(UsageError, match="tables of unwarped give another report"):
        records.main(everything=True)
    assert not (tmp_path / "records.json").exists()
