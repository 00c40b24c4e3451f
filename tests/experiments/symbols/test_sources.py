"""The sources beside all lines that a small one can give, written down by loops, and beside the ledger's numbers."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from torch.testing import assert_close

from experiments.symbols.laws.copies import Copies
from experiments.symbols.laws.distant_xor import DistantXOR
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.laws.insertions import Insertions
from experiments.symbols.laws.music import Music
from experiments.symbols.sources import SCALES, source_named
from experiments.usage import UsageError

TINY = Insertions(lines=3000, letters=2, digits=2, capitals=2, run=1, inner=0.3)
SOURCES = [TINY, Music(bars=9), EqualBlocks(pairs=3, least=2, most=5), DistantXOR(lines=5, T=4), Copies(9, 3, 2, 4)]
CHORDS = ["ceg", "cfa", "ceg", "gbd", "ceg", "cfa", "gbd", "ceg"]
RHYTHMS = [["4", "4", "4"], ["2", "4"], ["4.", "8", "4"], ["2."], ["4", "4", "8", "8"]]
SIGMAS = 4.5  # of a sum of many draws, or of the worst of a hundred


def lines_with_insertions(places):
    """Every line of `TINY` with its probability: two letters, perhaps blocks of two digits, perhaps a capital after each."""
    inner = [("", 0.7), ("[A]", 0.15), ("[B]", 0.15)]
    last = inner if places == 2 else [("", 1.0)]
    blocks = [("", 0.5)] + [(f"(0{a}1{b})", 0.5 * p * q) for (a, p), (b, q) in itertools.product(inner, last)]
    return {f"a{a}b{b}\n": p * q for (a, p), (b, q) in itertools.product(blocks, repeat=2)}


def bars(chord):
    """Every bar with its probability."""
    for rhythm in RHYTHMS:
        for pitches in itertools.product(chord, repeat=len(rhythm)):
            notes = [pitch + value for pitch, value in zip(pitches, rhythm, strict=True)]
            yield " ".join(notes) + " |\n", 3.0 ** -len(rhythm) / 5


def costs(source, text):
    return float(source.bits(source.symbols(text)).sum())


@pytest.mark.parametrize("places", [None, 2, 1])
def test_lines_with_insertions_cost_what_enumeration_says(places):
    source = Insertions(letters=2, digits=2, capitals=2, run=1, inner=0.3, places=places)
    lines = lines_with_insertions(places or 2)
    assert sum(lines.values()) == pytest.approx(1, abs=1e-12)
    assert sum(2 ** -costs(source, line) for line in lines) == pytest.approx(1, abs=1e-12)  # so there are no others
    for line, probability in lines.items():
        assert costs(source, line) == pytest.approx(-math.log2(probability), abs=1e-12)
    one, other = list(lines)[5], list(lines)[-1]
    assert costs(source, one + other) == pytest.approx(costs(source, one) + costs(source, other), abs=1e-12)


def test_copies_are_words_and_again_the_words_and_only_the_first_cost():
    source = Copies(lines=2, letters=3, length=2, blanks=3)
    words = ["".join(letters) for letters in itertools.product("abc", repeat=2)]
    for word, other in itertools.product(words, repeat=2):
        text = f"{word}---={word}\n"
        assert costs(source, text + f"{other}---={other}\n") == pytest.approx(4 * math.log2(3), abs=1e-12)
        if word != other:
            with pytest.raises(ValueError, match="cannot come there"):
                costs(source, f"{word}---={other}\n")
    assert source.text(source.draw(3).symbols).count("\n") == 2


def test_bars_cost_what_enumeration_says_and_chords_follow_the_cycle():
    before = ""
    for chord in [*CHORDS, CHORDS[0]]:
        found = dict(bars(chord))
        music, first = Music(), costs(Music(), before)
        drawn = [bar for k, bar in enumerate(found) if before.count("\n") == 3 or k % 40 == 0]
        for bar in drawn:
            assert costs(music, before + bar) - first == pytest.approx(-math.log2(found[bar]), abs=1e-9)
        if len(drawn) == len(found):
            assert sum(found.values()) == pytest.approx(1, abs=1e-12)
        before += drawn[3]
    with pytest.raises(ValueError, match=r"'f' at 0 cannot come there; 'c', 'e', 'g' can"):
        costs(Music(), "f2. |\n")


def test_pairs_of_blocks_cost_the_choice_of_their_lengths():
    source = EqualBlocks(least=2, most=5)
    pairs = [f"{'a' * n}\n{'b' * n}\n" for n in range(2, 6)]
    for one, other in itertools.product(pairs, repeat=2):
        assert costs(source, one + other) == pytest.approx(4, abs=1e-12)
    for other in ("a\n", "aaaaaa", "aa\nbbb", "aa\nb\n"):
        with pytest.raises(ValueError, match="cannot come there"):
            costs(source, other)
    assert costs(EqualBlocks(least=3, most=3), "aaa\nbbb\n") == 0
    assert costs(EqualBlocks(), f"{'a' * 1500}\n{'b' * 1500}\n") == pytest.approx(10, abs=1e-9)
    assert EqualBlocks().bits(EqualBlocks().draw(3).symbols).sum() == pytest.approx(100, abs=1e-9)


def test_results_of_marked_bits_are_free_and_others_impossible():
    source = DistantXOR(T=3)
    for marks in itertools.product([0], [1]):
        for bits in itertools.product("01", repeat=3):
            line = "".join(("X" if k in marks else " ") + bit for k, bit in enumerate(bits)) + "="
            right = str(sum(int(bits[k]) for k in marks) % 2)
            before = " 1X1X0 0=1\n"  # so that marks of other lines do not enter
            symbols = source.symbols(before + line + right + "\n" + line)
            assert source.bits(symbols).tolist() == [0.0] * len(symbols)
            assert symbols[source.counted(symbols)].tolist() == [1, int(right)]
            assert costs(source, before + line + str(1 - int(right))) == math.inf
            assert_close(source.log_probs(symbols).exp().sum(-1), torch.ones(len(symbols)))
    assert costs(source, "X0X1X1 1=1\n") == 0  # the first two of three marks, as the ledger reads example 2
    with pytest.raises(ValueError, match="the result at 5 is not after two marks"):
        costs(source, "X0 1=1\n")


def test_the_true_costs_are_those_of_the_ledger():
    for places, mean in ((None, 97942), (9, 88760)):
        line, variance = mean_and_variance(Insertions(places=places))
        assert 1000 * line == pytest.approx(mean, abs=0.5)
        assert places or math.sqrt(1000 * variance) == pytest.approx(3477, abs=0.5)
    bar, variance = mean_and_variance(Music())
    assert bar == pytest.approx(math.log2(5) + 13 / 5 * math.log2(3), abs=1e-12)
    assert round(bar, 3) == 6.443
    assert math.sqrt(2700 * variance) == pytest.approx(84, abs=0.5)
    for source, mean, deviation in ((Insertions(), 97942, 3477), (Music(), 2700 * 6.4430, 84)):
        assert abs(float(source.bits(source.draw(1).symbols).sum()) - mean) < SIGMAS * deviation


def mean_and_variance(source):
    """Of what a line costs, by first step analysis: m = P m + c, and the same for the mean of squares."""
    numbers, states, arrows = {source.start: 0}, [source.start], []
    for state in states:
        for character, (p, following) in source.choices(state).items():
            if following not in numbers:
                numbers[following] = len(states)
                states.append(following)
            arrows.append((numbers[state], numbers[following], p * (character != "\n"), p, -math.log2(p)))
    rows, columns, on, p, cost = map(np.array, zip(*arrows, strict=True))
    P = scipy.sparse.csc_matrix((on, (rows, columns)), shape=(len(states), len(states)))
    rest = scipy.sparse.linalg.splu(scipy.sparse.identity(len(states), format="csc") - P)
    mean = rest.solve(np.bincount(rows, p * cost))
    square = rest.solve(np.bincount(rows, p * cost**2 + 2 * on * cost * mean[columns]))
    return mean[0], square[0] - mean[0] ** 2


def test_lines_are_drawn_as_often_as_enumeration_says():
    lines, found = lines_with_insertions(2), TINY.text(TINY.draw(7).symbols).splitlines(keepends=True)
    assert len(found) == TINY.lines
    assert set(found) <= set(lines)
    for line, p in lines.items():
        assert abs(found.count(line) - TINY.lines * p) < SIGMAS * math.sqrt(TINY.lines * p * (1 - p)), line


def test_lengths_and_marks_are_drawn_uniformly():
    lengths = [len(line) for line in _text(EqualBlocks(pairs=2000, least=3, most=10), 2).splitlines()[::2]]
    assert_uniform(lengths, range(3, 11))
    lines = _text(DistantXOR(lines=3000, T=30), 2).splitlines()
    assert_uniform([len(line) // 2 - 1 for line in lines], range(30, 34))
    for length in (30, 31, 33):  # below 3, 3.1 and 3.3, then below 15, 15.5 and 16.5
        marks = [[k // 2 for k, c in enumerate(line) if c == "X"] for line in lines if len(line) == 2 * length + 2]
        first = range(3 + (length > 30))
        assert_uniform([one for one, _ in marks], first)
        assert_uniform([two for _, two in marks], range(len(first), {30: 15, 31: 16, 33: 17}[length]))
    assert_uniform([line[-1] for line in lines], "01")


def assert_uniform(values, possible):
    count, p = len(values), 1 / len(possible)
    assert set(values) <= set(possible)
    for value in possible:
        assert abs(values.count(value) - count * p) < SIGMAS * math.sqrt(count * p * (1 - p)), value


def _text(source, seed):
    return source.text(source.draw(seed).symbols)


@pytest.mark.parametrize("source", [*SOURCES, *SCALES["small"].values()])
def test_draws_are_functions_of_seed_and_split(source):
    symbols, counts = source.draw(seed=3, split="validation")
    assert (symbols.dtype, counts.dtype, counts.shape) == (torch.int64, torch.bool, symbols.shape)
    assert torch.equal(symbols, source.draw(3, "validation").symbols)
    assert torch.equal(counts, source.counted(symbols))
    assert not any(torch.equal(symbols, source.draw(*other).symbols) for other in ((3, "train"), (3, "test"), (4, "validation")))
    assert torch.equal(source.symbols(source.text(symbols)), symbols)
    assert source.text(symbols)[-1] == "\n"
    assert_close(source.log_probs(symbols).exp().sum(-1), torch.ones(len(symbols)))
    assert len(set(source.alphabet)) == len(source.alphabet)
    part = symbols[: len(symbols) // 2]
    assert_close(source.bits(part), source.bits(symbols)[: len(part)])  # the law does not look ahead
    assert source.bits(symbols[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Insertions, {"letters": 27}, "`letters` must be at most 26"),
        (Insertions, {"inner": 1.0}, "`inner` must be between 0 and 1"),
        (Insertions, {"places": 11}, "`places` must be at most 10"),
        (Music, {"bars": 0}, "`bars` must be at least 1"),
        (EqualBlocks, {"least": 5, "most": 4}, "`most` must be at least 5"),
        (EqualBlocks, {"least": 0}, "`least` must be at least 1"),
        (DistantXOR, {"T": 2}, "`T` must be at least 3"),
        (Copies, {"letters": 27}, "letters"),
        (Copies, {"length": 0}, "length"),
        (Copies, {"blanks": 0}, "blanks"),
    ],
)
def test_settings_that_make_no_source_are_refused(kind, settings, message):
    with pytest.raises((ValueError, UsageError), match=message):
        kind(**settings)


def test_a_split_must_be_named():
    with pytest.raises(ValueError, match="`split` must be"):
        TINY.draw(0, "training")


def test_symbols_must_be_whole_numbers_of_the_alphabet():
    with pytest.raises(ValueError, match=r"int64 of shape \(time,\), got torch.float64"):
        TINY.bits(torch.zeros(3))
    with pytest.raises(ValueError, match="from 0 to 10, got 0 to 11"):
        TINY.text(torch.tensor([0, 11]))
    with pytest.raises(ValueError, match="'c' is not in the alphabet"):
        TINY.symbols("abc")


def test_a_source_is_found_by_its_name():
    assert source_named("music") == Music()
    with pytest.raises(UsageError, match="did you mean 'music'"):
        source_named("musik", "small")


def test_sizes_of_the_paper_scale_are_those_in_print():
    sizes = {name: (len(source.alphabet), getattr(source, "line_count", 10_000)) for name, source in SCALES["paper"].items()}
    assert sizes.pop("copies") == (11, 100)  # ours
    assert sizes == {"insertions": (67, 1000), "music": (14, 2700), "xor": (6, 10_000), "blocks": (3, 20)}
    assert int(DistantXOR().draw().counts.sum()) == 10_000
