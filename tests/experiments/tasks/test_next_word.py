"""The next word: pieces of articles as they stand, in three files, and a vocabulary counted by hand."""

import itertools
import lzma
import math
from collections import Counter

import pytest
import torch

from experiments.data.words import worded_text
from experiments.seeds import generator
from experiments.tasks.next_word import NextWord
from experiments.usage import UsageError

LINES = [f" w{k % 3} w{k * k % 7} rare{k} <unk> ." for k in range(30)]
FIRST = [" = One = ", *LINES[:9], " = = Part = = ", *LINES[9:12]]
SECOND = [" = Two words = ", *LINES[12:]]
TRAIN = "\n".join([" ", *FIRST, *SECOND, " = Short = ", ""])
LENGTH = 12


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "wiki.train.tokens.xz").write_bytes(lzma.compress(TRAIN.encode()))
    for name in ("valid", "test"):
        (tmp_path / f"wiki.{name}.tokens").write_text("\n".join([f" = Of {name} = ", *LINES[: 9 + len(name)], ""]))
    worded_text.cache_clear()
    return tmp_path


def test_a_file_that_is_of_two_parts_by_its_name_is_refused(tmp_path):
    for name in ("latest.train.txt", "valid.txt"):  # and no other with test in its name
        (tmp_path / name).write_text("a b c\n")
    with pytest.raises(UsageError, match=r"one file is of two parts by its name, latest.train.txt, valid.txt, latest.train.txt"):
        worded_text(str(tmp_path))


def articles(text):
    """The words of each article, by lines."""
    found = [[]]
    for line in text.removesuffix("\n").split("\n"):
        if {*found[0]} - {"<eos>"} and line.strip().startswith("= ") and not line.strip().startswith("= ="):
            found.append([])
        found[-1] += [*line.split(), "<eos>"]
    return found


def classes(text, kinds):
    counts = Counter(word for article in articles(TRAIN) for word in article if word != "<unk>")
    kept = sorted(counts, key=lambda word: (-counts[word], word))[: kinds - 1]
    return [[kept.index(word) + 1 if word in kept else 0 for word in article] for article in articles(text)]


@pytest.mark.parametrize("kinds", [5, 11, 1000])
def test_what_follows_is_said_at_every_word_of_a_piece_of_one_article(folder, kinds):
    task = NextWord(str(folder), kinds, LENGTH)
    for split, text in (("train", TRAIN), ("test", (folder / "wiki.test.tokens").read_text())):
        wanted = classes(text, kinds)
        pieces = {tuple(each[k : k + LENGTH + 1]) for each in wanted for k in range(len(each) - LENGTH)}
        batch = task.batch(400, generator(0), split)
        assert batch.xs.shape == (LENGTH, 400, min(kinds, 1 + len(worded_text(str(folder)).words)))
        assert torch.equal(batch.xs.argmax(-1)[1:], batch.targets[:-1])
        read = {(first, *rest) for first, *rest in zip(batch.xs.argmax(-1)[0].tolist(), *batch.targets.tolist(), strict=True)}
        assert read <= pieces
        assert len(read) > 0.8 * len(pieces)  # every place, but for chance
    assert task.output_names[0] == "<unk>"
    assert len(task.output_names) == task.output_size


def test_titles_begin_articles_and_headings_of_sections_do_not(folder):
    begins = worded_text(str(folder)).begins["train"].tolist()
    assert len(begins) == 4  # of three articles, and the end
    assert [b - a for a, b in itertools.pairwise(begins)] == list(map(len, articles(TRAIN)))


def test_the_baseline_is_the_entropy_of_the_words_of_the_part_that_is_trained_on(folder):
    numbers = [k for article in classes(TRAIN, 9) for k in article]
    entropy = -sum(n / len(numbers) * math.log(n / len(numbers)) for n in Counter(numbers).values())
    assert NextWord(str(folder), 9, LENGTH).baselines() == pytest.approx({"constant": entropy}, rel=1e-12)


def test_the_order_of_articles_changes_no_class_and_is_another_text(folder):
    one = worded_text(str(folder))
    turned = "\n".join([*SECOND, *FIRST, " ", " = Short = ", ""])
    (folder / "wiki.train.tokens.xz").write_bytes(lzma.compress(turned.encode()))
    worded_text.cache_clear()
    two = worded_text(str(folder))
    assert two.words == one.words
    assert two.digest != one.digest


def test_files_that_are_not_there_or_too_short_are_refused_in_words(folder, tmp_path):
    with pytest.raises(ValueError, match="`data` is the folder of the texts"):
        NextWord()
    with pytest.raises(UsageError, match=r"of its validation part no article has 900 words .* smaller `length`"):
        NextWord(str(folder), length=900).batch(1, generator(0), "validation")
    (folder / "another.test").write_text("a")
    worded_text.cache_clear()
    with pytest.raises(UsageError, match=r"needs one file with test in its name, .*; got 'another.test, wiki.test.tokens'"):
        NextWord(str(folder)).batch(1, generator(0))
    with pytest.raises(UsageError, match="is no folder of texts"):
        NextWord(str(folder / "none")).batch(1, generator(0))
