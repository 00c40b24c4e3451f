r"""Trains models on a source for equal times, and prints a table of their regrets on the validation sequence.

python -m experiments.symbols.trained.table blocks --seconds 10 --units 8 16 --seeds 0 1 --out out/blocks.jsonl
python -m experiments.symbols.trained.table --show out/blocks.jsonl
python -m experiments.symbols.trained.table blocks --methods "GLNN, QDH, RBPM" --units 23 --sample 400

Every method has the same time a run, over the same sizes and seeds; the best of all, in the row of a method, is what the paper
reports. `--sample` lets the last model speak.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.reports.spreads import markdown
from experiments.seeds import generator
from experiments.symbols.sources import SCALES, source_named
from experiments.symbols.trained.methods import METHODS, Ascending
from experiments.symbols.trained.runs import TrainedPredictor, read_runs, trained

__all__ = ["main", "table"]


def table(runs: Sequence[TrainedPredictor]) -> str:
    """As a table of Markdown, a row a method, in the order of `METHODS`; in whole bits, the best with a decimal."""
    rows = []
    for name in METHODS:
        if of_method := [run for run in runs if run.method == name]:
            best, *_ = sorted(of_method, key=lambda run: run.best)
            median, last = (statistics.median(getattr(run, word) for run in of_method) for word in ("best", "last"))
            steps = round(statistics.median(run.steps for run in of_method))
            failed = sum(run.failed for run in of_method)
            rows.append([name, f"{best.best:.1f}", best.units, f"{median:.0f}", f"{last:.0f}", steps, len(of_method), failed])
    return markdown(["method", "best", "its units", "median of best", "median at the end", "steps", "runs", "failed"], rows)


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(prog="python -m experiments.symbols.trained.table", description=__doc__)
    about.formatter_class = argparse.RawDescriptionHelpFormatter
    about.add_argument("source", nargs="?", choices=list(SCALES["small"]))
    about.add_argument("--scale", default="small", choices=list(SCALES))
    about.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="NAME")
    about.add_argument("--units", type=int, nargs="+", default=[8, 16])
    about.add_argument("--edges", type=int, nargs="+", default=[3], help="into each unit of GNNs and GLNNs")
    about.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    about.add_argument("--seconds", type=float, default=10.0, help="of processor time, for each run")
    about.add_argument("--undamped", action="store_true", help="without the paper's dampening")
    about.add_argument("--out", type=Path, help="a file to which every run is added")
    about.add_argument("--show", type=Path, help="print the table of such a file")
    about.add_argument("--sample", type=int, default=0, metavar="LENGTH", help="symbols to be drawn from the last model")
    given = about.parse_args(words)
    if given.show:
        print(table(read_runs(given.show)))
        return
    if given.source is None:
        about.error("name a source, or a file by --show")
    if given.sample and METHODS[given.methods[-1]].rate is not None:
        about.error("--sample is for discretize.sequences.SymbolModel; name another method last than one by Adam")
    source, runs = source_named(given.source, given.scale), []
    chosen = itertools.product(given.seeds, given.units, given.edges, given.methods)
    for seed, units, edges, method in chosen:
        run, learner = trained(source, method, units, edges, seed, given.seconds, not given.undamped)
        print(run, file=sys.stderr, flush=True)
        runs.append(run)
        if given.out:
            run.write(given.out)
    print(table(runs))
    if given.sample:
        assert isinstance(learner, Ascending)
        print(source.text(learner.model.sample(given.sample, generator=generator(given.seeds[-1], "sample"))[:, 0]))


if __name__ == "__main__":
    main()
