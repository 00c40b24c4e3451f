"""Read a text of words in three files, for training, validation and test: articles one after the other, words as ranks."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.data.untrusted import PACKINGS, quoted, read_bytes
from experiments.usage import UsageError

__all__ = ["END", "UNKNOWN", "WordedText", "worded_text"]

END, UNKNOWN = "<eos>", "<unk>"  # of a line; a word that the text itself does not tell
PARTS = {"train": "train", "validation": "valid", "test": "test"}  # and what the name of its file has in it
MOST_BYTES = 256 << 20
HEADING = re.compile(r"\s*= [^=\s].* =\s*")  # of an article; sections have more of the signs


@dataclass(frozen=True, eq=False)
class WordedText:
    r"""Holds the words of a text.

    Args:    words: those of the part for training but `UNKNOWN`, the most frequent first, equals in their alphabetical order;
             ranks: part -> the place of each of its words among them, their number for any other; begins: part -> where its
             articles begin, and its length; digest: of all files.
    Shape:   ranks int64 (words of the part,), begins int64 (articles + 1,).
    """

    words: tuple[str, ...]
    ranks: dict[str, Tensor]
    begins: dict[str, Tensor]
    digest: str


@functools.cache
def worded_text(folder: str) -> WordedText:
    r"""Read the words of the files in a folder, one each with train, valid and test in its name, of WikiText as it is given out.

    Words stand between spaces, and each line ends with `END`. An article begins with a heading, "= Title =" on a line, or with
    the file.

    Raises:  UsageError for files that are not there, are several, cannot be read, or have no words.
    """
    files = {part: _file(Path(folder), word) for part, word in PARTS.items()}
    if len({*files.values()}) < len(files):
        names = ", ".join(file.name for file in files.values())
        raise UsageError(f"{folder}: one file is of two parts by its name, {names}; call them train.txt, valid.txt and test.txt.")
    texts = {part: _text(file) for part, file in files.items()}
    split = {part: _words(text) for part, text in texts.items()}
    counts = Counter(split["train"][0])
    del counts[UNKNOWN]
    words = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    rank = {word: k for k, word in enumerate(words)}
    ranks = {part: torch.tensor([rank.get(word, len(words)) for word in found]) for part, (found, _) in split.items()}
    begins = {part: torch.tensor([*starts, len(found)]) for part, (found, starts) in split.items()}
    digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()
    return WordedText(words, ranks, begins, digest)


def _file(folder: Path, word: str) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder of texts.")
    found = sorted(file for file in folder.iterdir() if word in file.name and file.is_file())
    if len(found) != 1:
        there = quoted(", ".join(file.name for file in found)) if found else "none"
        raise UsageError(
            f"{folder}: needs one file with {word} in its name, perhaps packed as {', '.join(PACKINGS)}; got {there}."
        )
    return found[0]


def _text(file: Path) -> str:
    try:
        text = read_bytes(file, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: is not text in UTF-8.") from None
    if not text.split():
        raise UsageError(f"{file}: has no words.")
    return text


def _words(text: str) -> tuple[list[str], list[int]]:
    """Split a text into words, and say at which of them its articles begin."""
    words, starts, told = list[str](), [0], False
    for line in text.removesuffix("\n").split("\n"):
        if told and HEADING.fullmatch(line):
            starts.append(len(words))
        words += [*(found := line.split()), END]
        told |= bool(found)
    return words, starts
