"""Read a text from a file of the user's as numbers of its characters, or numbers from a .npy file larger than memory."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch
from torch import Tensor

from experiments.data.mapped import MappedRows, digest_of
from experiments.data.untrusted import read_bytes
from experiments.usage import UsageError

__all__ = ["DECLARATION", "any_text", "numbered_text"]

DECLARATION = (
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act "
    "towards one another in a spirit of brotherhood. "
)
MOST_BYTES = 32 << 20
MOST_SYMBOLS = 1000  # one feature each


@functools.cache
def any_text(path: str | None) -> tuple[Tensor | MappedRows, int, str | None]:
    r"""Return the numbers of a text's symbols, how many kinds there are, and a digest of it.

    Args:    path: as for `numbered_text`; or a .npy file of whole numbers from 0 on, a symbol each, which is left on the disk.
    Raises:  UsageError, as `numbered_text`.
    """
    if path is None or Path(path).suffix != ".npy":
        numbers, characters, digest = numbered_text(path)
        return numbers, len(characters), digest
    rows = MappedRows(Path(path), 1, "iu", 0, MOST_SYMBOLS - 1)
    return rows, 1 + max(int(piece.max()) for piece in rows.pieces()), digest_of(Path(path))


@functools.cache
def numbered_text(path: str | None) -> tuple[Tensor, str, str | None]:
    r"""Return the numbers of a text's characters, from 0 on in their order, the characters, and a digest of it.

    Args:    path: a file of text in UTF-8, perhaps packed as .xz or .gz; None for `DECLARATION`, which has no digest.
    Shape:   int64 (characters,).
    Raises:  UsageError for a file that cannot be read, is no such text, or has too few characters or too many kinds.
    """
    if path is None:
        text = DECLARATION
    else:
        try:
            text = read_bytes(Path(path), MOST_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is not text in UTF-8.") from None
        if len(text) < 2:
            raise UsageError(f"{path}: has {len(text)} characters; at least 2 are needed to say the one before.")
    characters = "".join(sorted(set(text)))
    if len(characters) > MOST_SYMBOLS:
        raise UsageError(f"{path}: has {len(characters):,} different characters, at most {MOST_SYMBOLS:,} are expected.")
    number = {character: k for k, character in enumerate(characters)}
    digest = None if path is None else hashlib.sha256(text.encode()).hexdigest()
    return torch.tensor([number[character] for character in text]), characters, digest
