r"""Bits and regrets of baselines on the validation sequence of a source, after its training sequence.

python -m experiments.symbols.table insertions --scale small --seed 0

A start of hidden Markov models is chosen by its likelihood on the training sequence. They are mixed with the uniform law as all
trained models are; what never gives a symbol the probability 0 is not. Compressors are left out where not all symbols count.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from experiments.seeds import generator
from experiments.symbols.chains import COMPRESSORS, chain_log_probs, compressed_bits
from experiments.symbols.context_tree import ContextTree
from experiments.symbols.hidden_markov import baum_welch, random_hidden_markov
from experiments.symbols.scores import bits
from experiments.symbols.source import Source
from experiments.symbols.sources import SCALES, source_named

__all__ = ["Row", "baseline_rows", "main", "table"]

ORDERS, DEPTH, STATES = (0, 1, 2, 3), 12, (4, 8, 16, 32)


class Row(NamedTuple):
    """A predictor, the bits that it needs for the validation sequence, and how many more these are than the true law's."""

    name: str
    bits: float
    regret: float


def baseline_rows(
    source: Source, seed: int = 0, states: Sequence[int] = STATES, starts: int = 8, steps: int = 60
) -> Iterator[Row]:
    r"""The rows one after the other, the true law first.

    Args:    states: sizes of hidden Markov models, whose states have as many edges as there are symbols; starts: of each size;
             steps: of Baum and Welch, at most.
    """
    train, (symbols, counts) = source.draw(seed).symbols, source.draw(seed, "validation")
    size, true = len(source.alphabet), float(source.bits(symbols).sum())

    def row(name: str, log_probs: Tensor, mixed: bool = False) -> Row:
        needed = float(bits(log_probs, symbols, counts, mixed=mixed).sum())
        return Row(name, needed, needed - true)

    yield Row("true law", true, 0.0)
    yield row("uniform", torch.full((len(symbols), size), -math.log(size), dtype=torch.float64))
    for order in ORDERS:
        yield row(f"chain of order {order}", chain_log_probs(train, symbols, size, order))
    for alpha, name in ((1 / 2, "1/2"), (1 / size, "1/A")):
        tree = ContextTree(size, DEPTH, alpha)
        tree.read(train)
        yield row(f"context tree, alpha {name}", tree.read(symbols))
    for hidden in states:
        models = random_hidden_markov(train, size, hidden, starts, size, generator(seed, "hidden markov", hidden))
        models, likelihoods = baum_welch(models, train, steps)
        yield row(f"hidden Markov, {hidden} states", models[int(likelihoods[-1].argmax())].log_probs(symbols)[:, 0], mixed=True)
    if bool(counts.all()):
        for name in COMPRESSORS:
            needed = compressed_bits(name, source.text(train), source.text(symbols))
            yield Row(name, needed, needed - true)


def table(rows: Sequence[Row]) -> str:
    """As a table of Markdown, in whole bits."""
    return "\n".join(
        ["| predictor | bits | regret |", "|---|---|---|", *(f"| {n} | {round(b)} | {round(r)} |" for n, b, r in rows)]
    )


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(prog="python -m experiments.symbols.table", description="Baselines of a source of symbols.")
    about.add_argument("source", choices=list(SCALES["small"]))
    about.add_argument("--scale", default="small", choices=list(SCALES))
    about.add_argument("--seed", type=int, default=0)
    about.add_argument("--states", type=int, nargs="*", default=STATES, metavar="N", help="sizes of hidden Markov models")
    given = about.parse_args(words)
    source = source_named(given.source, given.scale)
    print(source)
    print(table(list(baseline_rows(source, given.seed, given.states))))


if __name__ == "__main__":
    main()
