r"""Bits and regrets of baselines on the validation sequence of a source, after its training sequence.

python -m experiments.symbols.table insertions --scale small --seed 0

A start of hidden Markov models is chosen by its likelihood on the training sequence. They are mixed with the uniform law as all
trained models are; what never gives a symbol the probability 0 is not. Compressors are left out where not all symbols count.

    chain of order k    p(y | last k symbols) = (n_y + alpha)/(n + alpha A), counted on the training sequence
    compressor          compressed(training + validation) - compressed(training), 8 bits each
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from experiments.reports.spreads import markdown
from experiments.seeds import generator
from experiments.settings import check_whole
from experiments.symbols.context_tree import ContextTree
from experiments.symbols.hidden_markov import baum_welch, random_hidden_markov
from experiments.symbols.scores import bits, check_symbols
from experiments.symbols.source import SymbolSource
from experiments.symbols.sources import SCALES, source_named

__all__ = ["PredictorRow", "baseline_rows", "chain_log_probs", "compressed_bits", "main", "table"]

ORDERS, DEPTH, STATES = (0, 1, 2, 3), 12, (4, 8, 16, 32)

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "bzip2": lambda data: bz2.compress(data, 9),
    "lzma": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
    "zlib": lambda data: zlib.compress(data, 9),
}


class PredictorRow(NamedTuple):
    """A predictor, the bits that it needs for the validation sequence, and how many more these are than the true law's."""

    name: str
    bits: float
    regret: float


def baseline_rows(
    source: SymbolSource, seed: int = 0, states: Sequence[int] = STATES, starts: int = 8, steps: int = 60
) -> Iterator[PredictorRow]:
    r"""Score the predictors one after the other, the true law first.

    Args:    states: sizes of hidden Markov models, whose states have as many edges as there are symbols; starts: of each size;
             steps: of Baum and Welch, at most.
    """
    train, (symbols, counts) = source.draw(seed).symbols, source.draw(seed, "validation")
    size, true = len(source.alphabet), float(source.bits(symbols).sum())

    def row(name: str, log_probs: Tensor, mixed: bool = False) -> PredictorRow:
        needed = float(bits(log_probs, symbols, counts, mixed=mixed).sum())
        return PredictorRow(name, needed, needed - true)

    yield PredictorRow("true law", true, 0.0)
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
            yield PredictorRow(name, needed, needed - true)


def chain_log_probs(train: Tensor, symbols: Tensor, size: int, order: int, alpha: float = 0.5) -> Tensor:
    r"""Predict each symbol of a sequence by a chain that was counted on `train`.

    Args:    order: k; size: A; alpha: added to each count.
    Shape:   train, symbols (time,) int64 -> (time, A), in nats, float64. Before the first symbol stands one of its own.
    """
    check_whole("order", order, 0)
    for given in (train, symbols):
        check_symbols(given, size)
    if not alpha > 0:
        raise ValueError(f"`alpha` must be above 0, got {alpha}: else what was never seen has probability 0.")
    contexts = torch.cat([_contexts(train, size, order), _contexts(symbols, size, order)])
    rows = torch.unique(contexts, dim=0, return_inverse=True)[1] if order else torch.zeros(len(contexts), dtype=torch.int64)
    counts = torch.zeros(int(rows.max()) + 1, size, dtype=torch.float64) + alpha
    counts.index_put_((rows[: len(train)], train), torch.ones(len(train), dtype=torch.float64), accumulate=True)
    return (counts / counts.sum(-1, keepdim=True)).log()[rows[len(train) :]]


def _contexts(symbols: Tensor, size: int, order: int) -> Tensor:
    """The last symbols before each, (time, order)."""
    padded = torch.cat([symbols.new_full((order,), size), symbols])
    return padded.unfold(0, order + 1, 1)[:, :order]


def compressed_bits(name: str, train: str, validation: str) -> float:
    """Count the bits by which a file of `train` grows with `validation` behind it; text of a byte a symbol."""
    compress = COMPRESSORS[name]
    return 8.0 * (len(compress((train + validation).encode("ascii"))) - len(compress(train.encode("ascii"))))


def table(rows: Sequence[PredictorRow]) -> str:
    """Write the rows as a table of Markdown, in whole bits."""
    return markdown(["predictor", "bits", "regret"], [[row.name, round(row.bits), round(row.regret)] for row in rows])


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
