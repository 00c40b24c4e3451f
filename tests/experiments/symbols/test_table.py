"""The table of baselines: its rows beside the same predictors scored one by one."""

import bz2

import pytest
import torch

from experiments.seeds import generator
from experiments.symbols.context_tree import ContextTree
from experiments.symbols.hidden_markov import baum_welch, random_hidden_markov
from experiments.symbols.laws.distant_xor import DistantXOR
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits
from experiments.symbols.table import PredictorRow, baseline_rows, chain_log_probs, compressed_bits, main, table

SOURCE = EqualBlocks(pairs=4, least=3, most=6)


def test_rows_are_the_predictors_scored_on_the_validation_sequence():
    rows = {row.name: row for row in baseline_rows(SOURCE, seed=5, states=(2,), starts=3, steps=4)}
    train, (symbols, counts) = SOURCE.draw(5).symbols, SOURCE.draw(5, "validation")
    tree, other = ContextTree(3, 12), ContextTree(3, 12, 1 / 3)
    for each in (tree, other):
        each.read(train)
    models, history = baum_welch(random_hidden_markov(train, 3, 2, 3, 3, generator(5, "hidden markov", 2)), train, 4)
    chosen = int(history[-1].argmax())
    for name, log_probs, mixed in (
        ("chain of order 2", chain_log_probs(train, symbols, 3, 2), False),
        ("context tree, alpha 1/2", tree.read(symbols), False),
        ("context tree, alpha 1/A", other.read(symbols), False),
        ("hidden Markov, 2 states", models.log_probs(symbols)[:, chosen], True),
    ):
        needed = float(bits(log_probs, symbols, counts, mixed=mixed).sum())
        assert rows[name].bits == pytest.approx(needed, rel=1e-12)
        assert rows[name].regret == pytest.approx(needed - 8, rel=1e-12)
    assert rows["true law"] == pytest.approx(("true law", 8.0, 0.0))
    assert rows["uniform"].bits == pytest.approx(len(symbols) * 1.584962500721156)
    texts = [SOURCE.text(train), SOURCE.text(train) + SOURCE.text(symbols)]
    assert rows["bzip2"].bits == 8 * (len(bz2.compress(texts[1].encode())) - len(bz2.compress(texts[0].encode())))


def test_compressors_compress_what_they_have_seen_and_are_left_out_where_not_all_symbols_count():
    text = SOURCE.text(torch.randint(3, (9000,)))
    for name in ("lzma", "zlib"):
        assert compressed_bits(name, text, text) < 0.1 * compressed_bits(name, "", text)
    names = [row.name for row in baseline_rows(DistantXOR(lines=20, T=5), states=())]
    assert names[0] == "true law"
    assert not {"bzip2", "lzma", "zlib"} & set(names)


def test_the_command_prints_the_table(capsys):
    main(["blocks", "--states"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "EqualBlocks(pairs=10, least=16, most=31)"
    assert printed[3] == "| true law | 40 | 0 |"
    assert len(printed) == 3 + 11
    assert table([PredictorRow("a", 1.6, -0.4)]).splitlines()[-1] == "| a | 2 | 0 |"
    with pytest.raises(SystemExit):
        main(["block"])
