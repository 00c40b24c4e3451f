r"""Draws random numbers by name: a generator is a function of a seed and words, and of nothing that was drawn before.

    seed of the generator = the first 63 bits of sha256(repr((seed, *names)))

So the batch of step 700 is the same whether steps 0 to 699 were taken, skipped or taken by another process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["drawing", "generator"]


def generator(seed: int, *names: str | int) -> torch.Generator:
    r"""Make a generator on the CPU for what `names` say, independent of those for other names.

    Args:    seed: of the whole run; names: words and numbers, of which 7 and "7" are different.
    Raises:  TypeError for anything else: its text could change from one process to the next.
    """
    for word in (seed, *names):
        if isinstance(word, bool) or not isinstance(word, int | str):
            raise TypeError(f"a generator is named by whole numbers and words, got {word!r}.")
    digest = hashlib.sha256(repr((seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def drawing(generator: torch.Generator | None) -> Iterator[None]:
    """Make torch's own generator, from which its modules draw their weights, a function of this one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
