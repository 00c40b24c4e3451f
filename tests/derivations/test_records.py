"""What a record is made of: a change of the text, of a rule or of the code that is read is seen, and no other."""

import pytest

from derivations import records
from derivations.contents import SOURCES, digests, recorded
from derivations.records import TEXTS, changed, made_of

HERE = TEXTS.parent
CHAPTERS = [chapter for chapters in SOURCES.values() for chapter in chapters]


@pytest.fixture
def edit(monkeypatch):
    """Have a file be another one, without writing it."""

    def edited(place):
        before = records._of_file
        monkeypatch.setattr(records, "_of_file", lambda file: "another" if file == HERE.parent / place else before(file))

    return edited


@pytest.mark.parametrize(
    ("place", "part", "chapters"),
    [
        ("derivations/texts/lecture.py", "text", {"lecture"}),
        (
            "derivations/argument/gru.py",
            "text",
            {"own_code", "own_identities", "own_networks", "tallec_ollivier_gates", "tallec_ollivier_summary"},
        ),
        ("derivations/rules/signs.py", "rules", {*CHAPTERS}),
        ("derivations/finding/equality.py", "rules", {*CHAPTERS}),
        ("derivations/prover/limits.py", "rules", {*CHAPTERS}),
        ("derivations/claim.py", "reader", {*CHAPTERS}),
        ("derivations/tracing/symbolic.py", "reader", {"own_code", "own_noise"}),
        ("ctrnn/cells/published/mgu.py", "code", {"own_code", "own_noise"}),
        (  # whose class discretize has from ctrnn, by a stub
            "ctrnn/fields/delayed.py",
            "code",
            {"own_code", "own_maps", "own_noise", "own_rhythms", "own_slow_directions", "own_unit_maps"},
        ),
        ("experiments/derive/table.py", "reader", set()),
    ],
)
def test_what_changed_is_named_of_the_chapters_that_are_made_of_it(edit, place, part, chapters):
    before = {chapter: made_of(TEXTS / f"{chapter}.py") for chapter in CHAPTERS}
    edit(place)
    after = {chapter: made_of(TEXTS / f"{chapter}.py") for chapter in CHAPTERS}
    others = {chapter: [key for key in after[chapter] if after[chapter][key] != before[chapter][key]] for chapter in CHAPTERS}
    assert {chapter: parts for chapter, parts in others.items() if parts} == {chapter: [part] for chapter in chapters}


def test_a_record_of_another_text_or_without_one_is_proved_anew(monkeypatch):
    made = {chapter: made_of(TEXTS / f"{chapter}.py") for chapter in CHAPTERS}
    del made["lecture"]
    made["own_decay"] = {**made["own_decay"], "rules": "of another day"}
    monkeypatch.setattr(records, "recorded", lambda: {"made of": made})
    assert changed() == {"lecture": ("text", "rules", "reader", "code"), "own_decay": ("rules",)}


def test_a_chapter_is_made_of_the_texts_that_it_quotes():
    followed = records.followed(TEXTS / "tallec_ollivier_gates.py")
    assert TEXTS / "tallec_ollivier.py" in followed
    assert HERE / "argument" / "gated.py" in followed


@pytest.fixture
def imports(tmp_path, monkeypatch):
    """What a file of a package with a stub imports."""
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(records, "TEXTS", tmp_path / "derivations" / "texts")
    for cached in (records._imported, records._homes):
        monkeypatch.setattr(records, cached.__name__, cached.__wrapped__)
    files = {"__init__.py": "", "__init__.pyi": "from ctrnn.a import A as A", "a.py": "", "b.py": "", "c.py": ""}
    (tmp_path / "ctrnn").mkdir()
    for name, text in files.items():
        (tmp_path / "ctrnn" / name).write_text(text)

    def imported(text):
        (tmp_path / "ctrnn" / "c.py").write_text(text)
        return {file.name for file in records._imported(tmp_path / "ctrnn" / "c.py")}

    return imported


def test_a_name_of_a_package_is_followed_to_where_its_stub_says_that_it_is(imports):
    assert imports("from ctrnn import A") == {"__init__.py", "a.py"}


def test_what_stands_after_a_comment_among_imports_is_followed(imports):
    assert imports("from ctrnn import (  # two\n    a,  # b\n    b,\n)") == {"a.py", "b.py"}


def test_records_are_written_as_they_are_read():
    kept = {source: {label: tuple(record) for label, record in claims.items()} for source, claims in recorded()["claims"].items()}
    assert records.written(kept).count("\n") > sum(map(len, kept.values()))
    assert digests() == {source: {label: digest for label, (digest, _) in claims.items()} for source, claims in kept.items()}
