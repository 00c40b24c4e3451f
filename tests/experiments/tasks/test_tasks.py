"""The tasks beside slow generators in plain Python, their baselines beside counts of all that can happen, losses by hand."""

import dataclasses
import hashlib
import itertools
import lzma
import math
import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import VOWELS_HEADER, folder_of, har_arrays, make_har, make_vowels, vowels_line
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from experiments.data.text import DECLARATION
from experiments.data.uci_har import ACTIVITIES
from experiments.seeds import generator
from experiments.tasks.adding import Adding
from experiments.tasks.copying import Copy, VariableCopy
from experiments.tasks.forecast import Forecast
from experiments.tasks.next_character import NextCharacter
from experiments.tasks.recorded.arrays import Arrays
from experiments.tasks.recorded.har import HAR, HELD_OUT
from experiments.tasks.recorded.pixels import Pixels
from experiments.tasks.recorded.recordings import played
from experiments.tasks.recorded.vowels import Vowels
from experiments.tasks.registry import TASKS, task_named
from experiments.tasks.task import Batch, ClassAtEverySample, ClassOfTheSequence, NumbersAtTheEnd
from experiments.tasks.tones import Tones
from experiments.tasks.two_sequence import TwoSequence
from experiments.tasks.warps.clocked import ClockedRecall
from experiments.tasks.warps.recall import Recall, RecallAtEnds
from experiments.tasks.warps.repeated_text import RepeatText
from experiments.usage import UsageError

EXACT = {"rtol": 0, "atol": 0}
SYNTHETIC = [
    Recall(warping="variable", warp=7),
    Recall(warp=5, padded=True),
    RecallAtEnds(warp=3),
    RepeatText(warp=3),
    Copy(T=20),
    VariableCopy(T=20),
    Adding(T=20),
    TwoSequence(T=20, signal=3),
    Tones(T=20),
    Forecast(length=20),
    NextCharacter(length=20),
]
real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")


def same(one, other):
    return all(
        a is b or torch.equal(a, b)
        for a, b in ((getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(Batch))
    )


def symbols_of(xs):
    """(time, batch, symbols), of which each sample has just one, as lists of numbers, a sequence each."""
    assert set(xs.unique().tolist()) <= {0.0, 1.0}
    assert bool((xs.sum(-1) == 1).all())
    return xs.argmax(-1).T.tolist()


def runs_of(sequence):
    return [(symbol, len(list(group))) for symbol, group in itertools.groupby(sequence)]


# seeds


def test_generators_of_other_words_are_others_and_all_are_of_63_bits():
    words = [
        (0,),
        (1,),
        (0, "a"),
        (0, "a", "b"),
        (0, "ab"),
        (0, "a", 1),
        (0, "a", "1"),
        (0, "a1"),
        (-1,),
        (0, 0),
        (0, "'a', 'b'"),
    ]
    seeds = [generator(*w).initial_seed() for w in words]
    assert len(set(seeds)) == len(words)
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert any(seed >= 1 << 62 for seed in seeds)
    assert generator(7, "batch", 3).initial_seed() == 2916983932280346604  # as another process, and another year, had it
    assert seeds[3] == int.from_bytes(hashlib.sha256(b"(0, 'a', 'b')").digest()[:8], "big") // 2


@pytest.mark.parametrize("task", SYNTHETIC)
def test_the_same_generator_gives_the_same_batch_and_others_do_not(task):
    before = torch.get_rng_state()
    first = task.batch(6, generator(0, "a"))
    assert same(first, task.batch(6, generator(0, "a")))
    assert not torch.equal(first.xs, task.batch(6, generator(1, "a")).xs)
    assert not torch.equal(first.xs, task.batch(6, generator(0, "b")).xs)
    assert torch.equal(before, torch.get_rng_state())
    assert first.xs.shape == (len(first.xs), 6, task.input_size)
    assert first.size == 6


@pytest.mark.parametrize("task", SYNTHETIC)
def test_numbers_are_of_the_default_dtype_and_the_same_in_both(task):
    torch.set_default_dtype(torch.float64)
    wide = task.batch(3, generator(0))
    torch.set_default_dtype(torch.float32)
    narrow = task.batch(3, generator(0))
    for name in ("xs", "counts", "targets"):
        one, other = getattr(wide, name), getattr(narrow, name)
        if one is not None and one.is_floating_point():
            assert (one.dtype, other.dtype) == (torch.float64, torch.float32)
            assert_close(one, other.double(), rtol=0, atol=1e-7)  # a sum of two numbers is rounded in float32


def test_an_evaluation_has_so_many_sequences_and_is_the_same_every_time():
    for task in SYNTHETIC:
        batches = list(task.evaluation("test", 11, 4, seed=3))
        assert [batch.size for batch in batches] == [4, 4, 3]
        assert [batch.size for batch in task.evaluation("test", 8, 4, seed=3)] == [4, 4]
        assert all(map(same, batches, task.evaluation("test", 11, 4, seed=3)))
        assert len({tuple(batch.xs[:, :3].flatten().tolist()) for batch in batches}) == 3
        for other in (task.evaluation("validation", 11, 4, seed=3), task.evaluation("test", 11, 4, seed=4)):
            assert not torch.equal(next(other).xs, batches[0].xs)
    for call, message in (
        (lambda: task.batch(0, generator(0)), "`size` must be at least 1, got 0"),
        (lambda: task.batch(1, generator(0), "eval"), "`split` must be 'train' or 'validation' or 'test', got 'eval'"),
        (lambda: list(task.evaluation("test", 0, 1, seed=0)), "`sequences` must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# what all tasks have


def test_every_name_has_a_task_that_is_a_frozen_dataclass():
    for name in TASKS:
        kind = task_named(name)
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen
        assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
    with pytest.raises(UsageError, match="there is no task 'recal'; did you mean 'recall'"):
        task_named("recal")


def test_settings_that_make_no_task_are_refused():
    for kind, settings, message in [
        (Recall, {"warping": "both"}, "`warping` must be 'uniform' or 'variable', got 'both'"),
        (Recall, {"warp": 0}, "`warp` must be at least 1, got 0"),
        (Recall, {"alphabet": 2}, "`alphabet` must be at least 3, got 2: neighbours are to differ"),
        (Recall, {"warp": 5, "least": 2}, "`least` = 2 is for warping=variable"),
        (Recall, {"warping": "variable", "warp": 5, "least": 6}, "`least` = 6 is more than `warp` = 5"),
        (RecallAtEnds, {"padded": True}, "`padded` symbols are shown once"),
        (RecallAtEnds, {"warp": 9, "length": 9}, "`warp` = 9 must be below `length` = 9"),
        (Copy, {"letters": 1}, "`letters` must be at least 2"),
        (Adding, {"T": 1}, "`T` must be at least 2, got 1: a mark stands in each half"),
        (HAR, {}, "`data` must name the folder with the recordings, got ''. For a first try, data=stand-in is made here."),
        (Vowels, {}, "`data` must name the folder with the recordings, got ''"),
        (Pixels, {"data": "d", "order": "columns"}, "`order` must be 'rows' or 'permuted', got 'columns'"),
        (Pixels, {"data": "d", "side": 27}, "`side` must be 28, 14 or 7, got 27"),
        (Pixels, {"data": "d", "permutation": -1}, "`permutation` must be at least 0, got -1"),
        (Pixels, {"data": "d", "side": 7, "speed": 50}, "`speed` must be at most 49"),
        (TwoSequence, {"signal": 301}, "`signal` must be at most `T` = 300, got 301"),
        (TwoSequence, {"deviation": 0.0}, "`deviation` must be positive"),
        (TwoSequence, {"deviation": 1e7}, "`deviation` must be from 1e-6 to 1e6, beside a signal of 1, got 10000000.0"),
        (HAR, {"data": "d", "classes": "two"}, "`classes` must be 'six' or 'moving' or 'fastgrnn', got 'two'"),
        (HAR, {"data": "d", "kept": 0.0}, "`kept` must be a share above 0 and up to 1, got 0.0"),
        (HAR, {"data": "d", "speed": 0.0}, "`speed` must be positive"),
        (HAR, {"data": "d", "speed": 1.5}, "`speed` must be a whole number, or one over one"),
        (HAR, {"data": "d", "speed": 1 / 1001}, "`speed` must be a whole number, or one over one that is at most 1000"),
        (HAR, {"data": "d", "speed": 129.0}, "`speed` must be at most 128"),
        (Vowels, {"data": "d", "speed": 8}, "`speed` must be at most 7"),
        (Vowels, {"data": "d", "speed": 1e-320}, "`speed` must be a whole number, or one over one"),
        (Recall, {"warp": 2**31}, "`warp` must be at most 2147483647"),
        (Tones, {"periods": (10.0, 2.0)}, "`periods` must be at least two, each above 2 samples"),
        (Tones, {"speed": 49.0}, "`speed` must be a whole number up to `T` = 48"),
        (Tones, {"speed": 1e-320}, "`speed` must be a whole number up to `T` = 48, or one over one up to 1000"),
        (Tones, {"deviation": -1.0}, "`deviation` must be from 0"),
        (ClockedRecall, {"clocks": (1e-320,)}, "`clocks` must hold symbols for at most 2147483647 samples"),
        (ClockedRecall, {"clocks": (1e300,)}, "`clocks` must hold symbols for whole numbers of samples"),
        (ClockedRecall, {"tau": 1e-320}, "`tau` must be a time"),
        (ClockedRecall, {"tau": 1e308}, "`tau` must be a time"),
    ]:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (its text is looked at)
            kind(**settings)
        assert message in str(caught.value)
    for kind, settings in [
        (Recall, {"warp": 1.5}),
        (Recall, {"padded": 1}),
        (Copy, {"T": True}),
        (HAR, {"data": "d", "clock_given": 0}),
    ]:
        with pytest.raises(TypeError, match=f"`{list(settings)[-1]}` must be"):
            kind(**settings)


# losses and measures


class EverySample(ClassAtEverySample):
    input_size, output_size = 1, 3
    drawn = None


class OfTheSequence(ClassOfTheSequence):
    input_size, output_size = 1, 3
    drawn = None


class AtTheEnd(NumbersAtTheEnd):
    input_size, output_size = 1, 2
    drawn = None


def surprise(scores, target):
    """-log softmax, in plain Python."""
    return math.log(sum(math.exp(s) for s in scores)) - scores[target]


def test_a_class_at_every_sample_is_counted_where_it_counts():
    scores, targets = torch.randn(5, 4, 3), torch.randint(3, (5, 4))
    places = list(itertools.product(range(5), range(4)))
    for counts in (None, (torch.rand(5, 4) < 0.5).double(), torch.rand(5, 4) < 0.5):
        batch = Batch(torch.zeros(5, 4, 1), targets, counts)
        among = [p for p in places if counts is None or counts[p]]
        values = scores.tolist()
        each = [surprise(values[t][b], int(targets[t, b])) for t, b in among]
        hits = [max(range(3), key=values[t][b].__getitem__) == int(targets[t, b]) for t, b in among]
        found = EverySample().measures(scores, batch)
        assert found == pytest.approx({"loss": sum(each) / len(among), "accuracy": sum(hits) / len(among)}, rel=1e-12)
        assert float(EverySample().loss(scores, batch)) == found["loss"]
        assert EverySample().weight(batch) == len(among)


def test_a_class_of_the_sequence_is_read_at_its_own_last_sample():
    scores, targets, lengths = torch.randn(5, 4, 3), torch.randint(3, (4,)), [5, 1, 3, 4]
    for given_lengths, ends in ((None, [5] * 4), (torch.tensor(lengths), lengths)):
        batch = Batch(torch.zeros(5, 4, 1), targets, lengths=given_lengths)
        read = [scores[end - 1, b].tolist() for b, end in enumerate(ends)]
        each = [surprise(s, int(y)) for s, y in zip(read, targets, strict=True)]
        hits = [s.index(max(s)) == int(y) for s, y in zip(read, targets, strict=True)]
        found = OfTheSequence().measures(scores, batch)
        assert found == pytest.approx({"loss": sum(each) / 4, "accuracy": sum(hits) / 4}, rel=1e-12)
        assert OfTheSequence().weight(batch) == 4


def test_scores_that_are_no_numbers_are_right_about_no_class():
    """As of a sequence whose states left all bounds: the largest of nan is the first."""
    scores, targets = torch.tensor([2.0, 1.0, 0.0]).expand(5, 4, 3).clone(), torch.zeros(5, 4, dtype=torch.int64)
    scores[3:, 1] = math.nan
    assert EverySample().measures(scores, Batch(torch.zeros(5, 4, 1), targets))["accuracy"] == pytest.approx(18 / 20)
    assert OfTheSequence().measures(scores, Batch(torch.zeros(5, 4, 1), targets[0]))["accuracy"] == pytest.approx(3 / 4)


def test_numbers_at_the_end_are_compared_by_their_squares():
    outputs, targets = torch.randn(5, 4, 2), torch.randn(4, 2)
    batch = Batch(torch.zeros(5, 4, 1), targets, lengths=torch.tensor([5, 1, 3, 4]))
    squares = [(float(outputs[end - 1, b, k]) - float(targets[b, k])) ** 2 for b, end in enumerate([5, 1, 3, 4]) for k in (0, 1)]
    assert AtTheEnd().measures(outputs, batch) == pytest.approx({"loss": sum(squares) / 8}, rel=1e-12)
    scores = torch.randn(5, 2, 3, requires_grad=True)  # what stands after the end of a sequence changes no loss
    OfTheSequence().loss(scores, Batch(torch.zeros(5, 2, 1), torch.tensor([0, 1]), lengths=torch.tensor([2, 5]))).backward()
    assert (scores.grad.abs().sum(-1) > 0).nonzero().tolist() == [[1, 0], [4, 1]]


# recall and text


def slow_recall(characters, repeats, length, padded):
    """Input, target and whether it counts, sample by sample; characters from 1 on, as many as it takes."""
    read, said, counts, before = [], [], [], 0
    for character, n in zip(characters, repeats, strict=True):
        read += [character] + [0 if padded else character] * (n - 1)
        said += [before] + [0 if padded else before] * (n - 1)
        counts += [1] + [0 if padded else 1] * (n - 1)
        before = character
    return read[:length], said[:length], counts[:length]


warped = st.one_of(
    st.builds(dict, warping=st.just("uniform"), warp=st.integers(1, 60)),
    st.integers(1, 9).flatmap(
        lambda least: st.builds(dict, warping=st.just("variable"), least=st.just(least), warp=st.integers(least, least + 30))
    ),
)


@given(warped, st.integers(3, 12), st.integers(1, 120), st.integers(0, 1000))
def test_neighbours_differ_and_what_is_said_is_the_character_before_on_the_same_clock(clock, alphabet, length, seed):
    task = Recall(**clock, alphabet=alphabet, length=length)
    batch = task.batch(3, generator(seed))
    assert batch.counts is None
    for read, said in zip(symbols_of(batch.xs), batch.targets.T.tolist(), strict=True):
        assert len(read) == length
        assert all(1 <= symbol < alphabet for symbol in read)
        # Neighbours that were the same would make a run of more than `warp`, and of no multiple of it.
        runs = runs_of(read)
        for k, (_, n) in enumerate(runs):
            whole = k < len(runs) - 1
            least = task.warp if task.warping == "uniform" else task.least
            assert n <= task.warp
            assert n >= least or not whole
        characters, repeats = zip(*runs, strict=True)
        assert slow_recall(characters, repeats, length, False) == (read, said, [1] * length)


@given(warped, st.integers(61, 120), st.integers(0, 1000))
def test_at_ends_the_last_sample_of_each_symbol_of_recall_counts_but_for_one_that_is_cut_off(clock, length, seed):
    task, plain = (kind(**clock, length=length).batch(3, generator(seed)) for kind in (RecallAtEnds, Recall))
    assert torch.equal(task.xs, plain.xs)
    assert torch.equal(task.targets, plain.targets)
    for read, counts in zip(symbols_of(task.xs), task.counts.T.tolist(), strict=True):
        assert counts == [float(here != after) for here, after in itertools.pairwise(read)] + [0.0]


@given(warped, st.integers(1, 120), st.integers(0, 1000))
def test_a_padded_character_stands_once_and_counts_there(clock, length, seed):
    task = Recall(**clock, length=length, padded=True)
    batch = task.batch(3, generator(seed))
    columns = zip(symbols_of(batch.xs), batch.targets.T.tolist(), batch.counts.T.tolist(), strict=True)
    for read, said, counts in columns:
        starts = [t for t, symbol in enumerate(read) if symbol]
        assert starts[0] == 0
        repeats = np.diff([*starts, length]).tolist()
        least = task.warp if task.warping == "uniform" else task.least
        assert all(least <= n <= task.warp for n in repeats[:-1])
        assert repeats[-1] <= task.warp
        characters = [read[t] for t in starts]
        assert all(a != b for a, b in itertools.pairwise(characters))
        assert slow_recall(characters, repeats, length, True) == (read, said, counts)


def test_every_symbol_and_every_number_of_repeats_is_as_frequent():
    task = Recall(warping="variable", warp=8, least=3, length=400, alphabet=6)
    symbols, steps, repeats = Counter(), Counter(), Counter()
    for read in symbols_of(task.batch(300, generator(0)).xs):
        runs = runs_of(read)[:40]  # far from the end, where long ones would be cut off
        symbols[runs[0][0]] += 1
        repeats.update(n for _, n in runs)
        steps.update((b - a) % 5 for (a, _), (b, _) in itertools.pairwise(runs))
    for counted, among in ((symbols, {1, 2, 3, 4, 5}), (steps, {1, 2, 3, 4}), (repeats, {3, 4, 5, 6, 7, 8})):
        assert set(counted) == among
        expected = counted.total() / len(among)
        chi_square = sum((n - expected) ** 2 / expected for n in counted.values())
        assert chi_square < 20.5  # of at most 5 degrees of freedom: one seed in 1000 would be beyond


def test_every_letter_and_every_gap_is_as_frequent():
    task = VariableCopy(T=6)
    batch = task.batch(2000, generator(0))
    letters = torch.bincount(batch.xs[:10].argmax(-1).flatten(), minlength=10)
    gaps = torch.bincount((batch.xs.argmax(-1) == 9).int().argmax(0) - 10, minlength=8)
    assert letters[8:].tolist() == [0, 0]
    assert (gaps[0], gaps[7]) == (0, 0)
    for counted in (letters[:8].double(), gaps[1:7].double()):
        assert float(((counted - counted.mean()) ** 2 / counted.mean()).sum()) < 24.3  # 7 degrees of freedom, one in 1000


def test_every_place_of_a_half_is_marked_as_often():
    marks = Adding(T=9).batch(4000, generator(0)).xs[..., 1].sum(1)
    for half in (marks[:4], marks[4:]):
        assert float(half.sum()) == 4000
        assert float(((half - half.mean()) ** 2 / half.mean()).sum()) < 18.5  # 4 degrees of freedom, one in 1000


def test_at_another_speed_the_same_generator_plays_the_same_characters():
    slow = Recall(warp=10, length=200)
    fast = slow.with_warp(4)
    assert fast == Recall(warp=4, length=200)
    for long, short in zip(symbols_of(slow.batch(4, generator(0)).xs), symbols_of(fast.batch(4, generator(0)).xs), strict=True):
        assert [c for c, _ in runs_of(long)] == [c for c, _ in runs_of(short)][:20]
    variable = Recall(warping="variable", warp=50).with_warp(400, 100)
    assert (variable.warp, variable.least) == (400, 100)


def test_a_text_is_read_in_order_from_anywhere_and_said_one_letter_later(tmp_path):
    (tmp_path / "text").write_text("hello, thé\n")
    for task, text in ((RepeatText(warp=3, length=700), DECLARATION), (RepeatText(text=str(tmp_path / "text"), length=40, warp=2),
                                                                         "hello, thé\n")):  # fmt: skip
        batch = task.batch(5, generator(0))
        names = "\0" + task.characters
        starts = set()
        for read, said in zip(symbols_of(batch.xs), batch.targets.T.tolist(), strict=True):
            shown = "".join(names[symbol] for symbol in read[:: task.warp])
            assert shown in text * 10
            starts.add(shown[:5])
            characters = [names.index(c) for c in shown]
            assert slow_recall(characters, [task.warp] * len(characters), task.length, False)[:2] == (read, said)
        assert len(starts) > 1


# copy and adding


def slow_copy(letters, gap, length, dummy, signal):
    """`gap` dummies, the signal, the answer, and dummies to the end."""
    read = [*letters, *[dummy] * gap, signal]
    said = [*[dummy] * len(read), *letters]
    return read + [dummy] * (length - len(read)), said + [dummy] * (length - len(said))


@pytest.mark.parametrize("kind", [Copy, VariableCopy])
@given(st.integers(1, 30), st.integers(2, 9), st.integers(1, 12), st.integers(0, 1000))
def test_a_copy_is_written_after_the_signal(kind, T, letters, count, seed):
    task = kind(T=T, letters=letters, count=count)
    batch = task.batch(3, generator(seed))
    assert len(batch.xs) == task.length == T + 2 * count + (kind is VariableCopy)
    for read, said in zip(symbols_of(batch.xs), batch.targets.T.tolist(), strict=True):
        gap = read.index(letters + 1) - count
        assert gap == T - 1 if kind is Copy else 1 <= gap <= T
        assert max(read[:count]) < letters
        assert slow_copy(read[:count], gap, task.length, letters, letters + 1) == (read, said)


@given(st.integers(2, 40), st.integers(0, 1000))
def test_the_sum_is_of_one_marked_number_of_each_half(T, seed):
    batch = Adding(T=T).batch(4, generator(seed))
    assert batch.xs.shape == (T, 4, 2)
    assert batch.targets.shape == (4, 1)
    for b in range(4):
        numbers, marks = batch.xs[:, b, 0].tolist(), batch.xs[:, b, 1].tolist()
        assert all(0 <= x < 1 for x in numbers)
        assert sorted(marks) == [0.0] * (T - 2) + [1.0] * 2
        assert sum(marks[: T // 2]) == 1
        assert float(batch.targets[b]) == pytest.approx(sum(x for x, mark in zip(numbers, marks, strict=True) if mark))


# baselines


def best_guess(samples):
    """Loss and accuracy of who is told `key` and says the best for it, over all samples (key, target), each as probable."""
    told = defaultdict(Counter)
    for key, target in samples:
        told[key][target] += 1
    total = sum(counter.total() for counter in told.values())
    loss = -sum(n * math.log(n / counter.total()) for counter in told.values() for n in counter.values()) / total
    return loss, sum(max(counter.values()) for counter in told.values()) / total


def all_recalls(alphabet, repeats, length):
    for characters in itertools.product(range(1, alphabet), repeat=length):
        if all(a != b for a, b in itertools.pairwise(characters)):
            yield from ((characters, clock) for clock in itertools.product(repeats, repeat=length))


def check_memoryless(task, sequences):
    samples = []
    for characters, clock in sequences:
        read, said, counts = slow_recall(characters, clock, task.length, task.padded)
        if type(task) is RecallAtEnds:
            counts = [here != after for here, after in itertools.pairwise(read)] + [False]
        samples += [(x, y) for x, y, counted in zip(read, said, counts, strict=True) if counted]
    loss, accuracy = best_guess(samples)
    assert task.baselines() == pytest.approx({"memoryless": loss}, rel=1e-12, abs=1e-12)
    assert task.baseline_accuracies() == pytest.approx({"memoryless": accuracy}, rel=1e-12)


def test_recall_without_memory_is_a_count_over_all_sequences_on_all_clocks():
    for padded, (clock, repeats) in itertools.product(
        [False, True],
        [
            ({"warp": 1}, [1]),
            ({"warp": 2}, [2]),
            ({"warp": 3}, [3]),
            ({"warp": 9}, [9]),
            ({"warping": "variable", "warp": 3}, [1, 2, 3]),
            ({"warping": "variable", "warp": 4, "least": 2}, [2, 3, 4]),
        ],
    ):
        task = Recall(**clock, padded=padded, length=5, alphabet=4)
        check_memoryless(task, all_recalls(4, repeats, 5))
        if not padded and task.warp < 5:
            check_memoryless(RecallAtEnds(**clock, length=5, alphabet=4), all_recalls(4, repeats, 5))


@pytest.mark.parametrize(("T", "letters", "count"), [(1, 2, 2), (5, 2, 3), (4, 3, 2), (7, 2, 1)])
def test_copying_without_memory_is_a_count_over_all_words_and_gaps(T, letters, count):
    for task, gaps in ((Copy(T, letters, count), [T - 1]), (VariableCopy(T, letters, count), range(1, T + 1))):
        keys = {"memoryless": [], "one-bit": [], "counting": []}
        for word, gap in itertools.product(itertools.product(range(letters), repeat=count), gaps):
            read, said = slow_copy(word, gap, task.length, letters, letters + 1)
            signal = read.index(letters + 1)
            for t, (x, y) in enumerate(zip(read, said, strict=True)):
                keys["memoryless"].append((x, y))
                keys["one-bit"].append(((x, t > signal), y))
                keys["counting"].append(((x, t - signal), y))
        found = task.baselines(), task.baseline_accuracies()
        assert set(found[0]) == set(found[1]) == set(keys) - ({"counting"} if type(task) is Copy else set())
        for name in found[0]:
            assert (found[0][name], found[1][name]) == pytest.approx(best_guess(keys[name]), rel=1e-12)


@pytest.mark.parametrize("T", [500, 2000])
def test_the_printed_loss_of_copying_is_that_with_one_bit(T):
    found = Copy(T=T).baselines()
    assert found["one-bit"] == pytest.approx(10 * math.log(8) / (T + 20), rel=1e-12)
    blind = ((T - 1) * math.log((T + 9) / (T - 1)) + 10 * math.log(8 * (T + 9) / 10)) / (T + 20)
    assert found["memoryless"] == pytest.approx(blind, rel=1e-12)


@pytest.mark.parametrize("T", [2, 3, 8])
def test_adding_without_memory_is_the_error_of_the_best_that_is_said_of_the_last_sample(T):
    batch = Adding(T=T).batch(200_000, generator(0))
    number, mark = batch.xs[-1].unbind(-1)
    targets = batch.targets[:, 0]
    found = Adding(T=T).baselines()
    for name, said in (("constant", torch.ones_like(targets)), ("memoryless", torch.where(mark == 1, number + 0.5, 1.0))):
        squares = (said - targets) ** 2
        assert float(squares.mean()) == pytest.approx(found[name], abs=4 * float(squares.std()) / len(squares) ** 0.5)
    assert round(found["constant"], 3) == 0.167


def test_a_text_without_memory_is_a_count_over_all_entries_on_all_clocks(tmp_path):
    for k, padded in enumerate([False, True]):
        folder = tmp_path / str(k)
        folder.mkdir()
        text = "aaabcabd"  # where the most frequent letters before and after another are not as frequent
        (folder / "text").write_text(text)
        task = RepeatText(text=str(folder / "text"), warping="variable", warp=3, length=6, padded=padded)
        numbers = ["\0abcd".index(c) for c in text * 2]
        starts = [numbers[k : k + 6] for k in range(len(text))]
        check_memoryless(task, itertools.product(starts, itertools.product([1, 2, 3], repeat=6)))


# recordings


@pytest.fixture(scope="module")
def har_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("har")
    make_har(folder)
    return str(folder)


def test_windows_are_standardized_by_those_who_are_not_held_out(har_folder):
    arrays, task = har_arrays(), HAR(data=har_folder)
    signal = arrays["signal"].astype("f8").T

    def windows(split, rows):
        return signal[arrays[f"start_{split}"][rows][:, None] + np.arange(128)]

    held = np.isin(arrays["subject_train"], HELD_OUT)
    assert 0 < held.sum() < len(held)
    samples = windows("train", ~held).reshape(-1, 9)
    for split, rows in (("train", ~held), ("validation", held), ("test", np.full(24, True))):
        original = "test" if split == "test" else "train"
        (batch,) = task.evaluation(split, 1000, 1000, seed=0)
        expected = (windows(original, rows) - samples.mean(0)) / samples.std(0)
        assert_close(batch.xs, torch.from_numpy(expected.transpose(1, 0, 2).copy()), rtol=0, atol=1e-5)  # kept in float32
        assert batch.targets.tolist() == (arrays[f"y_{original}"][rows] - 1).tolist()
        assert (batch.ts, batch.lengths, batch.counts) == (None, None, None)


def test_a_recorded_split_is_gone_through_in_order_and_drawn_from(har_folder):
    task = HAR(data=har_folder)
    (whole,) = task.evaluation("test", 24, 24, seed=0)
    batches = list(task.evaluation("test", 10**6, 10, seed=5))
    assert [batch.size for batch in batches] == [10, 10, 4]
    assert torch.equal(torch.cat([batch.xs for batch in batches], 1), whole.xs)
    assert [batch.size for batch in task.evaluation("test", 13, 10, seed=5)] == [10, 3]
    drawn = task.batch(200, generator(0), "test")
    assert same(drawn, task.batch(200, generator(0), "test"))
    rows = [int((whole.xs == x[:, None]).all(-1).all(0).nonzero()) for x in drawn.xs.unbind(1)]
    assert set(rows) == set(range(24))
    assert drawn.targets.tolist() == whole.targets[rows].tolist()


def test_activities_are_six_classes_or_two(har_folder):
    for split in ("train", "validation", "test"):
        (six,) = HAR(data=har_folder).evaluation(split, 99, 99, seed=0)
        (two,) = HAR(data=har_folder, classes="moving").evaluation(split, 99, 99, seed=0)
        assert two.targets.tolist() == [int(y in (0, 1, 2)) for y in six.targets.tolist()]
        (cited,) = HAR(data=har_folder, classes="fastgrnn").evaluation(split, 99, 99, seed=0)
        first = {"STANDING", "WALKING", "WALKING_DOWNSTAIRS"}
        assert cited.targets.tolist() == [int(ACTIVITIES[y] in first) for y in six.targets.tolist()]
        assert torch.equal(cited.xs, six.xs)
    assert [HAR(data=har_folder, classes=words).output_size for words in ("six", "moving", "fastgrnn")] == [6, 2, 2]


def test_the_class_frequencies_are_what_is_known_without_looking(har_folder):
    task = HAR(data=har_folder)
    (train,) = task.evaluation("train", 99, 99, seed=0)
    frequent = torch.bincount(train.targets, minlength=6) / len(train.targets)
    outputs = frequent.log().expand(128, train.size, 6)
    assert task.baselines() == pytest.approx({"blind": float(task.loss(outputs, train))}, rel=1e-6)
    assert task.baseline_accuracies() == pytest.approx({"blind": float(frequent.max())}, rel=1e-6)


@pytest.mark.parametrize("speed", [2, 3.0, 128, 1, 0.5, 1 / 3])
def test_a_faster_window_is_of_means_and_a_slower_one_of_repeats(har_folder, speed):
    (own,) = HAR(data=har_folder).evaluation("test", 5, 5, seed=0)
    (other,) = HAR(data=har_folder, speed=speed).evaluation("test", 5, 5, seed=0)
    (told,) = HAR(data=har_folder, speed=speed, clock_given=True).evaluation("test", 5, 5, seed=0)
    x = own.xs[:, 2, 4].tolist()
    if speed > 1:
        c = round(speed)
        expected = [sum(x[k * c : (k + 1) * c]) / c for k in range(128 // c)]
    else:
        expected = [value for value in x for _ in range(round(1 / speed))]
    assert_close(other.xs[:, 2, 4], torch.tensor(expected), rtol=0, atol=1e-12)
    assert torch.equal(other.xs, told.xs)
    assert other.ts is None
    assert_close(told.ts, torch.tensor([float(speed * k) for k in range(len(expected) + 1)]), rtol=1e-14, atol=0)


@pytest.fixture(scope="module")
def vowels_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vowels")
    make_vowels(folder, series=25)
    draw = np.random.default_rng(5)
    lines = [vowels_line(draw.normal(size=(n, 12)), 9) for n in (29, 7, 12)]
    (folder / "JapaneseVowels_TEST.ts").write_text(VOWELS_HEADER + "".join(lines))
    return str(folder)


def test_vowels_are_padded_with_their_lengths_and_every_fifth_is_held_out(vowels_folder):
    task = Vowels(data=vowels_folder)
    found = {split: list(task.evaluation(split, 99, 1, seed=0)) for split in ("train", "validation", "test")}
    assert {split: len(batches) for split, batches in found.items()} == {"train": 20, "validation": 5, "test": 3}
    assert [int(batch.targets) for batch in found["validation"]] == [4, 0, 5, 1, 6]
    assert [int(batch.targets) for batch in found["train"]] == [k % 9 for k in range(25) if k % 5 != 4]
    assert [int(batch.lengths) for batch in found["test"]] == [29, 7, 12]
    assert all(len(batch.xs) == int(batch.lengths) for batches in found.values() for batch in batches)
    samples = torch.cat([batch.xs[:, 0] for batch in found["train"]])
    assert_close(samples.mean(0), torch.zeros(12), rtol=0, atol=1e-12)
    assert_close(samples.std(0, correction=0), torch.ones(12), rtol=0, atol=1e-12)
    (together,) = task.evaluation("test", 99, 99, seed=0)
    assert together.xs.shape == (29, 3, 12)
    for k, alone in enumerate(found["test"]):
        assert torch.equal(together.xs[: int(alone.lengths), k], alone.xs[:, 0])
        assert not together.xs[int(alone.lengths) :, k].any()


@pytest.mark.parametrize("speed", [2, 7, 0.25])
def test_vowels_at_another_speed_end_where_they_end(vowels_folder, speed):
    own = list(Vowels(data=vowels_folder).evaluation("test", 99, 1, seed=0))
    (batch,) = Vowels(data=vowels_folder, speed=speed, clock_given=True).evaluation("test", 99, 99, seed=0)
    assert batch.lengths.tolist() == [math.floor(n / speed) for n in (29, 7, 12)]
    assert len(batch.ts) == len(batch.xs) + 1
    for k, alone in enumerate(own):
        expected, _ = played(alone.xs, None, speed)
        assert_close(batch.xs[: len(expected), k], expected[:, 0], rtol=0, atol=1e-12)
        assert int(batch.lengths[k]) == len(expected)


def test_samples_that_are_kept_are_the_same_every_time_and_have_their_stamps(vowels_folder, har_folder):
    for kind, folder in ((Vowels, vowels_folder), (HAR, har_folder)):
        for speed in (1.0, 2.0, 0.5):
            whole, task = kind(data=folder, speed=speed), kind(data=folder, speed=speed, clock_given=True, kept=0.4)
            (full,), (batch,) = whole.evaluation("train", 20, 20, 0), task.evaluation("train", 20, 20, 0)
            lengths = [len(full.xs)] * full.size if full.lengths is None else full.lengths.tolist()
            for k, (length, alone) in enumerate(zip(lengths, task.evaluation("train", 20, 1, 1), strict=True)):
                left = int(batch.lengths[k])
                stamps = batch.ts[:left, k] / speed
                assert stamps[0] == 0
                assert bool((stamps.diff() > 0).all())
                assert stamps[-1] < length
                assert torch.equal(batch.xs[:left, k], full.xs[stamps.long(), k])
                assert torch.equal(batch.xs[:left, k], alone.xs[:, 0])  # whoever else is in the batch
                assert torch.equal(batch.ts[:left, k], alone.ts[:, 0])
            share = (float(batch.lengths.sum()) - batch.size) / (sum(lengths) - batch.size)
            assert abs(share - 0.4) < 4 * math.sqrt(0.24 / (sum(lengths) - batch.size))
            assert dataclasses.replace(task, clock_given=False).batch(3, generator(0)).ts is None
            torch.set_default_dtype(torch.float32)
            (narrow,) = task.evaluation("train", 20, 20, 0)
            torch.set_default_dtype(torch.float64)
            assert torch.equal(narrow.ts, batch.ts)  # the same ones, whatever models compute in


def test_some_of_the_sequences_of_sorted_files_are_of_all_classes_and_the_same_ones_whatever_the_batch(tmp_path):
    for split in ("train", "validation", "test"):
        np.save(tmp_path / f"{split}-xs.npy", np.arange(400, dtype=np.float32)[:, None, None])
        np.save(tmp_path / f"{split}-labels.npy", np.arange(400) // 100)
    task = Arrays(data=str(tmp_path), classes=4)
    for size in (7, 90):
        batches = list(task.evaluation("test", 90, size, seed=size))
        places = torch.cat([batch.xs[0, :, 0] for batch in batches])
        assert len(places.unique()) == len(places) == 90
        assert bool((places.diff() > 0).all())
        counts = torch.cat([batch.targets for batch in batches]).bincount(minlength=4)
        assert int(counts.max() - counts.min()) <= 2
        if size == 7:
            first = places
    assert torch.equal(places, first)
    (other,), (whole,) = task.evaluation("validation", 90, 90, seed=0), task.evaluation("test", 400, 400, seed=0)
    assert not torch.equal(other.xs[0, :, 0], places)
    assert torch.equal(whole.xs[0, :, 0], torch.arange(400.0, dtype=torch.float64))


@pytest.mark.parametrize("word", [1.0, None, True, b"a", ("a",)])
def test_a_generator_takes_no_words_whose_text_may_change(word):
    for words in ((0, word), (word, "a")):
        with pytest.raises(TypeError, match="named by whole numbers and words"):
            generator(*words)


@pytest.mark.parametrize("task", [EverySample(), OfTheSequence(), AtTheEnd()])
def test_outputs_of_another_shape_are_refused(task):
    batch = Batch(torch.zeros(5, 4, 1), torch.zeros(5, 4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"`outputs` must be \(time, batch, outputs\) = \(5, 4, \d\), got shape \(5, 4, 7\)"):
        task.loss(torch.zeros(5, 4, 7), batch)


def test_settings_of_recordings_that_do_not_do_are_refused(tmp_path):
    constant, draw = har_arrays()["signal"], np.random.default_rng(0)
    constant[4] = 2.0
    make_har(tmp_path, signal=constant)
    with pytest.raises(UsageError, match="feature 4 is the same in every sample of the training split"):
        HAR(data=str(tmp_path)).batch(1, generator(0))
    (tmp_path / "alone").mkdir()
    make_har(tmp_path / "alone", subject_train=np.ones(24, "u1"))
    with pytest.raises(UsageError, match=r"of the people \(27, 28, 29, 30\) and of others there must be windows"):
        HAR(data=str(tmp_path / "alone")).batch(1, generator(0))
    for train, message in (([7] * 5, "a series has fewer than 7 frames"), ([7] * 4, "every fifth is held out, so 5 are needed")):
        for split, lengths in (("TRAIN", train), ("TEST", [9, 6])):
            lines = [vowels_line(draw.normal(size=(n, 12)), 1) for n in lengths]
            (tmp_path / f"JapaneseVowels_{split}.ts").write_text(VOWELS_HEADER + "".join(lines))
        with pytest.raises(UsageError, match=message):
            Vowels(data=str(tmp_path)).batch(1, generator(0))
    for k, (data, message) in enumerate(
        [
            (b"\xff\xfe\x00", "is not text in UTF-8"), (b"a", "has 1 characters; at least 2"),
            ("".join(map(chr, range(0x4E00, 0x4E00 + 1001))).encode(), "has 1,001 different characters, at most 1,000"),
        ]
    ):  # fmt: skip
        (tmp_path / f"text{k}").write_bytes(data)
        with pytest.raises(UsageError, match=message):
            _ = RepeatText(text=str(tmp_path / f"text{k}")).input_size


def test_the_digest_of_recordings_is_of_what_the_files_say_and_of_nothing_else(tmp_path, har_folder, vowels_folder):
    assert HAR(data=har_folder).fingerprint() == HAR(data=har_folder, classes="moving", speed=4.0, clock_given=True).fingerprint()
    signal = har_arrays()["signal"].copy()
    signal[3, 1000] += 1e-3
    make_har(tmp_path, signal=signal)
    assert HAR(data=str(tmp_path)).fingerprint() != HAR(data=har_folder).fingerprint()
    packed = {path.name: path.read_bytes() for path in Path(vowels_folder).iterdir()}
    texts = {name.removesuffix(".xz"): lzma.decompress(data) if name.endswith(".xz") else data for name, data in packed.items()}
    found = {Vowels(data=vowels_folder, speed=7.0).fingerprint()}
    for name in ("", *texts):
        for file, text in texts.items():
            (tmp_path / f"vowels {name}").mkdir(exist_ok=True)
            # Of the last series another speaker, the first of them, says the same.
            changed = text if file != name else text.rstrip()[:-1] + b"1\n"
            (tmp_path / f"vowels {name}" / file).write_bytes(changed)
        found.add(Vowels(data=str(tmp_path / f"vowels {name}")).fingerprint())
    assert len(found) == 3  # the same twice, then other ones in training and in test
    for name, data in (("one", b"hello"), ("same", b"\xef\xbb\xbfhello")):
        (tmp_path / name).write_bytes(data)
        assert RepeatText(text=str(tmp_path / name), warp=2).fingerprint() == hashlib.sha256(b"hello").hexdigest()
    assert RepeatText().fingerprint() is None


@real_data
def test_the_real_recordings_are_as_many_as_they_are(tmp_path):
    har, vowels = (
        HAR(data=str(folder_of("uci_har", tmp_path, make_har))),
        Vowels(data=str(folder_of("japanese_vowels", tmp_path, make_vowels))),
    )
    for task, expected in ((har, (5867, 1485, 2947)), (vowels, (216, 54, 370))):
        found = [list(task.evaluation(split, 10**6, 1000, seed=0)) for split in ("train", "validation", "test")]
        assert tuple(sum(batch.size for batch in batches) for batches in found) == expected
    assert torch.bincount(vowels.recorded("validation").labels).tolist() == [6] * 9
    assert vowels.recorded("train").lengths.min() == 7
