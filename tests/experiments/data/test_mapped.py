"""Arrays on the disk: rows are those of NumPy, what is wrong is told, and memory does not grow with what was read."""

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.data import mapped
from experiments.data.mapped import MappedRows, digest_of, drawn_rows
from experiments.runs.configuration import configuration
from experiments.runs.training import train
from experiments.seeds import generator
from experiments.tasks import next_character
from experiments.tasks.next_character import NextCharacter
from experiments.tasks.recorded import arrays
from experiments.tasks.recorded.arrays import Arrays
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]


def saved(path, values):
    np.save(path, values)
    return path


@pytest.fixture
def folder(tmp_path):
    """Sequences of unlike lengths whose numbers say which they are: row + sample / 100."""
    for split, rows in (("train", 50), ("validation", 7), ("test", 9)):
        xs = np.arange(rows)[:, None, None] + np.arange(6)[None, :, None] / 100 + np.zeros(2)
        saved(tmp_path / f"{split}-xs.npy", xs.astype(np.float32))
        saved(tmp_path / f"{split}-labels.npy", (np.arange(rows) % 3).astype(np.uint8))
        saved(tmp_path / f"{split}-lengths.npy", (1 + np.arange(rows) % 6).astype(np.int16))
    return tmp_path


@pytest.mark.parametrize("kind", [">f4", "<f8", "u1", "<i2", ">u4"])
def test_rows_are_numpys_whatever_the_dtype_and_order_of_bytes(tmp_path, kind):
    values = np.arange(60).reshape(20, 3).astype(kind)
    rows = MappedRows(saved(tmp_path / "x.npy", values), 2)
    which = torch.tensor([[19, 0], [7, 7]])
    assert rows[which].numpy().tolist() == values[which.numpy()].tolist()
    assert rows[3:5].tolist() == values[3:5].tolist()
    part = rows.part(4, 9)
    assert (len(part), part[torch.tensor([0, 4])].tolist()) == (5, values[[4, 8]].tolist())
    rows[3:5][:] = 0  # a copy: the file is nobody's to write
    assert rows[3:5].tolist() == values[3:5].tolist()
    with pytest.raises(IndexError):
        part[torch.tensor([5])]


def test_bounds_are_looked_at_in_every_piece_and_numbers_as_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 4)
    whole = saved(tmp_path / "labels.npy", np.array([0, 1, 2, 1, 0, 1, 3, 1, -1]))
    with pytest.raises(UsageError, match="has 3 in row 6, counted from 0; numbers from 0 to 2 are needed"):
        MappedRows(whole, 1, "iu", 0, 2)
    with pytest.raises(UsageError, match="has -1 in row 8, counted from 0; numbers at least 0"):
        MappedRows(whole, 1, "iu", 0)
    values = np.zeros((9, 2), np.float32)
    values[5, 1] = np.nan
    rows = MappedRows(saved(tmp_path / "x.npy", values), 2)
    assert not rows[:5].any()
    with pytest.raises(UsageError, match="nan in row 5, counted from 0; fill or drop"):
        rows.part(3, 9)[torch.tensor([0, 2])]


@pytest.mark.parametrize(("count", "size", "block"), [(7, 10, 1), (12, 8, 4), (10, 9, 4), (3, 7, 5)])
def test_rows_are_drawn_evenly_one_by_one_or_in_blocks(count, size, block):
    found = [drawn_rows(count, size, generator(seed), block).tolist() for seed in range(400)]
    assert {len(rows) for rows in found} == {size}
    assert found[0] == drawn_rows(count, size, generator(0), block).tolist()
    often = Counter(row for rows in found for row in rows)
    assert set(often) == set(range(count))
    if count % block == 0:
        # Blocks of so many are drawn independently; 5 deviations of a binomial law, which one seed in a million misses.
        draws, share = 400 * size / block, block / count
        assert all(abs(n - draws * share) < 5 * (draws * share * (1 - share)) ** 0.5 for n in often.values())
    for rows in found:
        for start in range(0, size, min(block, count)):
            together = rows[start : start + min(block, count)]
            assert together == list(range(together[0], together[0] + len(together)))


def test_a_batch_is_what_the_files_have(folder):
    task = Arrays(str(folder), classes=3, block=2)
    batch = task.batch(8, generator(0))
    which = drawn_rows(50, 8, generator(0), 2)
    assert batch.targets.tolist() == (which % 3).tolist()
    assert batch.lengths.tolist() == (1 + which % 6).tolist()
    assert len(batch.xs) == int(batch.lengths.max())
    for k, row in enumerate(which.tolist()):
        for t in range(len(batch.xs)):
            # Written as float32, whose rounding is 2e-6 at 50.
            assert batch.xs[t, k].tolist() == pytest.approx([row + t / 100] * 2, abs=1e-5)
    read = [b.xs[0, :, 0].round().tolist() for b in task.evaluation("test", 100, 4, seed=0)]
    assert read == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert task.target_counts() == {"blind": [[17, 17, 16]]}


def test_files_that_cannot_be_rows_are_refused_in_words(tmp_path, folder):
    full = saved(tmp_path / "full.npy", np.ones((5, 2), np.float32))
    (tmp_path / "cut.npy").write_bytes(full.read_bytes()[:-1])
    (tmp_path / "text.npy").write_text("a,b\n1,2\n")
    (tmp_path / "folder.npy").mkdir()
    np.save(tmp_path / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    for path, dims, kinds, message in [
        (tmp_path / "no.npy", 2, "f", r"no.npy: cannot be read \(No such file"),
        (tmp_path / "folder.npy", 2, "f", "not a file"),
        (tmp_path / "text.npy", 2, "f", "is not a .npy file"),
        (tmp_path / "cut.npy", 2, "f", "it is empty or cut off"),
        (tmp_path / "objects.npy", 1, "f", "Python objects, not numbers"),
        (full, 1, "f", r"has shape \(5, 2\); 1 axes are needed"),
        (full, 2, "iu", "values of type float32; whole numbers"),
        (saved(tmp_path / "none.npy", np.ones((0, 2))), 2, "f", "none of them empty"),
        (saved(tmp_path / "c.npy", np.ones(3, complex)), 1, "fiu", "complex128; numbers are needed"),
        (saved(tmp_path / "f.npy", np.ones((3, 4), order="F")), 2, "f", "column by column"),
    ]:
        with pytest.raises(UsageError, match=message):
            MappedRows(path, dims, kinds)


def test_files_that_do_not_fit_each_other_are_refused(folder):
    for name, values, message in [
        ("train-labels.npy", np.arange(50) % 4, r"train-labels\.npy: has 3 in row 3, counted from 0; numbers from 0 to 2"),
        ("test-xs.npy", np.zeros((9, 6, 3)), "test-xs.npy: has 3 features a sample, and train-xs.npy has 2"),
        ("validation-lengths.npy", np.full(7, 7), "has 7 in row 0, counted from 0; numbers from 1 to 6"),
        ("train-labels.npy", np.zeros(49, int), "train-labels.npy: has 49 rows, and train-xs.npy has 50"),
    ]:
        kept = (folder / name).read_bytes()
        saved(folder / name, values)
        arrays._split.cache_clear()
        with pytest.raises(UsageError, match=message):
            Arrays(str(folder), classes=3).fingerprint()
        (folder / name).write_bytes(kept)
    arrays._split.cache_clear()


def test_a_run_on_the_disk_goes_on_to_the_same_bits_and_not_on_other_files(folder, tmp_path):
    settings = {"data": str(folder), "classes": 3, "block": 3, "hidden": 3, "batch": 4, "steps": 6, "evaluation": 5, "threads": 1}
    chosen = configuration("arrays", "gated", "euler", **settings)
    whole = train(chosen, tmp_path / "whole").model.state_dict()

    def stop(step, loss, rate):
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(configuration("arrays", "gated", "euler", **settings, checkpoint_every=3), tmp_path / "parts", progress=stop)
    parts = train(configuration("arrays", "gated", "euler", **settings, checkpoint_every=3), tmp_path / "parts")
    assert all(torch.equal(weights, whole[name]) for name, weights in parts.model.state_dict().items())
    with (folder / "train-xs.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(UsageError, match="holds a run on other data"):
        train(chosen, tmp_path / "whole")


def test_a_digest_of_a_large_file_is_of_its_size_its_ends_and_pieces_between(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 10)
    monkeypatch.setattr(mapped, "WHOLE", 50)  # five pieces
    path, found = tmp_path / "x", set()
    for size, changed in [(100, None), (101, None), (100, 0), (100, 99), (100, 95), (100, 24), (100, 50)]:
        data = bytearray(size)
        if changed is not None:
            data[changed] = 1
        path.write_bytes(data)
        mapped._digest.cache_clear()
        found.add(digest_of(path))
    assert len(found) == 7
    data[50], data[12] = 0, 1  # between the pieces from 0, 22, 45, 67 and 90 on
    path.write_bytes(data)
    mapped._digest.cache_clear()
    assert digest_of(path) in found


def test_a_text_of_numbers_on_the_disk_is_that_text(tmp_path, monkeypatch):
    drawn = torch.randint(4, (400,), generator=generator(0, "text"))
    text = "".join("abcd"[k] for k in drawn)
    (tmp_path / "text.txt").write_text(text)
    numbers = saved(tmp_path / "text.npy", drawn.numpy().astype(np.uint16))
    monkeypatch.setattr(next_character, "PIECE", 7)
    ours, theirs = NextCharacter(str(numbers), 12), NextCharacter(str(tmp_path / "text.txt"), 12)
    for split in ("train", "validation", "test"):
        one, other = (task.batch(5, generator(1), split) for task in (ours, theirs))
        assert torch.equal(one.xs, other.xs)
        assert torch.equal(one.targets, other.targets)
    train_part = text[:360]
    pairs = Counter(itertools.pairwise(train_part))
    expected = [[pairs[a, b] for b in "abcd"] for a in "abcd"]
    for task in (ours, theirs):
        assert task.target_counts() == {"memoryless": expected, "constant": [[train_part.count(a) for a in "abcd"]]}
    saved(tmp_path / "wrong.npy", np.array([0, 1, -1]))
    with pytest.raises(UsageError, match="has -1 in row 2"):
        NextCharacter(str(tmp_path / "wrong.npy"), 1).batch(1, generator(0))


FOOTPRINT = """
import sys
from pathlib import Path
from experiments.runs.configuration import configuration
from experiments.runs.training import train

def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])

seen = []
chosen = configuration("arrays", "plain", "euler", data=sys.argv[1], hidden=2, batch=2000, steps=500, evaluation=10,
                       evaluate_every=500, checkpoint_every=500, threads=1)
train(chosen, Path(sys.argv[1]) / "run", progress=lambda step, loss, rate: seen.append(resident()) if step % 25 == 0 else None)
print(max(seen) - seen[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks /proc how much memory there is in use")
def test_a_run_of_a_million_sequences_keeps_a_constant_footprint(tmp_path):
    for split, rows in (("train", 10**6), ("validation", 10), ("test", 10)):
        xs = np.lib.format.open_memmap(tmp_path / f"{split}-xs.npy", "w+", np.float32, (rows, 32, 2))
        xs[:] = 0.5
        saved(tmp_path / f"{split}-labels.npy", np.arange(rows) % 2)
        del xs
    done = subprocess.run(
        [sys.executable, "-c", FOOTPRINT, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )  # fmt: skip
    # In kB. The file has 256 MB; what is kept of it would show. A batch has half a MB, and 32 MB are room for what allocators
    # and the interpreter do meanwhile: 5 MB were measured.
    assert int(done.stdout) < 32_000
