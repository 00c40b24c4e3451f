"""The next character: pieces of a text as it stands, in parts that do not overlap, and counts by hand."""

import itertools
import math

import pytest
import torch

from experiments.data.text import DECLARATION
from experiments.seeds import generator
from experiments.tasks.next_character import NextCharacter
from experiments.usage import UsageError

TEXT = "".join(chr(97 + k * k % 26) for k in range(400))


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    return str(tmp_path / "text")


def letters(numbers, task):
    names = sorted(set(DECLARATION if task.text is None else TEXT))
    return "".join(names[k] for k in numbers)


def test_what_follows_is_said_at_every_character(text):
    for task, whole in ((NextCharacter(text, 12), TEXT), (NextCharacter(length=300), DECLARATION * 3)):
        batch = task.batch(20, generator(0))
        assert set(batch.xs.unique().tolist()) == {0.0, 1.0}
        read = {letters(column, task) for column in batch.xs.argmax(-1).T.tolist()}
        said = {letters(column, task) for column in batch.targets.T.tolist()}
        assert all(piece in whole for piece in read | said)
        assert torch.equal(batch.xs.argmax(-1)[1:], batch.targets[:-1])
        assert len(read) > 5


def test_parts_follow_one_another_and_share_nothing(text):
    task = NextCharacter(text, 10)
    parts = {split: letters(task.part_of(split).tolist(), task) for split in ("train", "validation", "test")}
    assert list(map(len, parts.values())) == [360, 20, 20]
    assert "".join(parts.values()) == TEXT
    seen = [letters(column, task) for column in task.batch(200, generator(1), "test").targets.T.tolist()]
    assert {parts["test"].index(piece) for piece in seen} == set(range(1, 11))  # every place, to the last


def test_baselines_are_counts_of_pairs_and_letters(text):
    train = TEXT[:360]
    pairs = list(itertools.pairwise(train))
    entropy = -sum(math.log(pairs.count(pair) / sum(pair[0] == a for a, _ in pairs)) for pair in pairs) / len(pairs)
    alone = -sum(math.log(train.count(letter) / 360) for letter in train) / 360
    assert NextCharacter(text).baselines() == pytest.approx({"memoryless": entropy, "constant": alone}, rel=1e-12)


def test_a_text_that_is_too_short_for_its_parts_is_refused_in_words(text):
    with pytest.raises(UsageError, match=r"its validation part has 20 characters, too few for .* smaller `length`"):
        NextCharacter(text, 20).batch(1, generator(0), "validation")
    NextCharacter(text, 19).batch(1, generator(0), "validation")
