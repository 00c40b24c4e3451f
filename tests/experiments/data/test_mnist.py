"""What the readers of idx files and of MNIST give, and what they say of every file that is not what it should be."""

import gzip
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import IDX_TYPES, idx_bytes, make_mnist

from experiments.data import untrusted
from experiments.data.idx import read_idx
from experiments.data.mnist import read_mnist
from experiments.usage import UsageError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")


def put(folder, data, name="array"):
    path = folder / name
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


def refused(call, *words):
    with pytest.raises(UsageError) as caught:
        call(*words)
    text = str(caught.value)
    assert text.isprintable()
    return text


# idx


def test_arrays_of_all_six_types_are_read_plain_and_packed(tmp_path):
    draw = np.random.default_rng(0)
    for dtype in IDX_TYPES:
        array = np.trunc(200 * draw.normal(size=(5, 3, 4))).astype(dtype)
        for name in (f"{dtype}", f"{dtype}.gz"):
            found = read_idx(put(tmp_path, idx_bytes(array), name), dtype, (None, 3, 4), 9)
            assert found.dtype == np.dtype(dtype)
            assert found.dtype.isnative
            assert np.array_equal(found, array)


def test_bytes_are_those_of_the_format_as_it_is_described(tmp_path):
    path = put(tmp_path, bytes([0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 0xFF, 0xFE]))
    assert read_idx(path, "int16", (1, 2), 1).tolist() == [[258, -2]]


A = np.arange(24, dtype="u1").reshape(2, 3, 4)


def test_other_arrays_than_expected_are_refused(tmp_path):
    whole = idx_bytes(A)
    for data, message in [
        (b"", "cut off, 4 bytes are missing at its end"),
        (whole[:3], "cut off, 1 bytes are missing"),
        (whole[:10], "cut off, 6 bytes are missing"),
        (whole[:-1], "cut off, 1 bytes are missing"),
        (whole + b"\0", "goes on after the 2 x 3 x 4 numbers that it says it holds"),
        (b"\1" + whole[1:], "is no idx file, it begins with the bytes 01 00 08 03"),
        (b"P5\n2", "is no idx file, it begins with the bytes 50 35 0a 32"),
        (idx_bytes(A, kind=10), "is no idx file, it begins with the bytes 00 00 0a 03"),
        (gzip.compress(whole), "is packed; let its name end in .gz, or unpack it"),
        (idx_bytes(A.astype("f4")), "holds float32 in 3 dimensions, expected is uint8 in 3"),
        (idx_bytes(A[0]), "holds uint8 in 2 dimensions, expected is uint8 in 3; is it another file?"),
        (struct.pack(">BBBB", 0, 0, 8, 255), "holds uint8 in 255 dimensions"),
        (idx_bytes(A[:, :2]), "says that it holds 2 x 2 x 4 numbers, expected is 1 to 9 x 3 x 4"),
        (idx_bytes(A[:0]), "says that it holds 0 x 3 x 4 numbers"),
        (idx_bytes(A, sizes=(10, 3, 4)), "says that it holds 10 x 3 x 4 numbers"),
        (idx_bytes(A, sizes=(2**32 - 1, 3, 4)), "says that it holds 4294967295 x 3 x 4 numbers"),
    ]:
        for name in ("array", "array.gz"):
            if not (data[:2] == b"\x1f\x8b" and name == "array.gz"):
                path = put(tmp_path, data, name)
                text = refused(read_idx, path, "uint8", (None, 3, 4), 9)
                assert message in text
                assert text.startswith(f"{path}: ")


def test_a_packed_file_that_is_cut_off_or_damaged_is_refused(tmp_path):
    whole = gzip.compress(idx_bytes(A), mtime=0)
    path = tmp_path / "array.gz"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert "cut off" in refused(read_idx, path, "uint8", (None, 3, 4), 9)
    for data, message in [
        (whole + b"more", "something follows the end of its packed data"),
        (whole + whole, "something follows the end of its packed data"),
        (idx_bytes(A), "cannot be unpacked, it is damaged or not an .gz file"),
        (whole[:-8] + bytes(8), "cannot be unpacked"),  # checksum and size
    ]:
        path.write_bytes(data)
        assert message in refused(read_idx, path, "uint8", (None, 3, 4), 9)


def test_packed_bytes_come_out_as_they_are_whatever_the_size_of_the_pieces(tmp_path):
    draw = np.random.default_rng(1)
    data = draw.integers(0, 4, 100_000, dtype="u1").tobytes() + bytes(200_000)
    path = put(tmp_path, data, "file.gz")
    for size in (1 << 9, (1 << 16) - 1, 1 << 20):
        with untrusted.LimitedFile(path, len(data)) as file:
            assert b"".join(iter(lambda file=file, size=size: file.read(size), b"")) == data


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_on_the_way(tmp_path, monkeypatch):
    unpacked = []
    real = untrusted.LimitedFile.read
    monkeypatch.setattr(untrusted.LimitedFile, "read", lambda file, size: unpacked.append(len(real(file, size))) or bytes(size))
    put(tmp_path, bytes(1 << 22), "array.gz")
    assert (tmp_path / "array.gz").stat().st_size < 1 << 15
    with untrusted.LimitedFile(tmp_path / "array.gz", 1 << 20) as file:
        assert "more than 1,048,576 bytes" in refused(file.whole)
    assert sum(unpacked) <= 1 << 20
    unpacked.clear()
    monkeypatch.undo()
    bomb = put(tmp_path, idx_bytes(np.zeros((9, 3, 4), "u1")) + bytes(1 << 22), "array.gz")
    assert "more than 124 bytes" in refused(read_idx, bomb, "uint8", (None, 3, 4), 9)


def test_no_memory_is_taken_for_numbers_that_are_not_there(tmp_path):
    for name in (IMAGES, f"{IMAGES}.gz"):
        path = put(tmp_path, idx_bytes(np.zeros(100, "u1"), sizes=(100_000, 28, 28)), name)
        tracemalloc.start()
        assert "cut off, 78,399,900 bytes are missing" in refused(read_idx, path, "uint8", (None, 28, 28), 100_000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


# MNIST


def test_images_are_bytes_in_the_order_of_the_file_with_labels(tmp_path):
    make_mnist(tmp_path)
    for split, name, count in (("train", "train", 24), ("test", "t10k", 10)):
        found = read_mnist(str(tmp_path), split)
        assert (found.xs.dtype, found.labels.dtype) == (torch.uint8, torch.int64)
        images = gzip.decompress((tmp_path / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((tmp_path / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        assert found.xs.tolist() == np.frombuffer(images[16:], "u1").reshape(count, 28, 28).tolist()
        assert found.labels.tolist() == list(labels[8:])


def test_a_plain_file_is_read_before_a_packed_one(tmp_path):
    make_mnist(tmp_path)
    before = read_mnist(tmp_path).labels
    plain = (9 - before).to(torch.uint8).numpy()
    put(tmp_path, idx_bytes(plain), LABELS)
    assert torch.equal(read_mnist(tmp_path).labels, 9 - before)


def test_folders_whose_files_do_not_fit_are_refused(tmp_path):
    assert f"{tmp_path}: holds neither {IMAGES} nor {IMAGES}.gz." in refused(read_mnist, tmp_path)
    for split in ("validation", "TRAIN", None):
        with pytest.raises(ValueError, match=r'`split` must be "train" or "test"'):
            read_mnist(tmp_path, split)
    images, labels = np.zeros((3, 28, 28), "u1"), np.array([0, 9, 3], "u1")
    for changed, message in [
        ({LABELS: idx_bytes(labels[:2])}, f"{IMAGES}: 3 images, and 2 labels in {LABELS}"),
        ({LABELS: idx_bytes(labels + 1)}, f"{LABELS}: label 2 is 10, from 0 to 9 is expected"),
        (
            {IMAGES: idx_bytes(labels), LABELS: idx_bytes(images)},
            f"{LABELS}: holds uint8 in 3 dimensions, expected is uint8 in 1",
        ),
        (
            {IMAGES: idx_bytes(np.zeros((3, 32, 32), "u1"))},
            "says that it holds 3 x 32 x 32 numbers, expected is 1 to 100,000 x 28",
        ),
        ({IMAGES: idx_bytes(np.zeros((3, 28, 28), "i1"))}, f"{IMAGES}: holds int8 in 3 dimensions"),
    ]:
        for name, data in {IMAGES: idx_bytes(images), LABELS: idx_bytes(labels), **changed}.items():
            put(tmp_path, data, name)
        assert message in refused(read_mnist, tmp_path)
    (tmp_path / IMAGES).unlink()
    (tmp_path / IMAGES).mkdir()
    assert "cannot be read (not a file)" in refused(read_mnist, tmp_path)


@real_data
def test_the_real_images_are_those_that_are_described():
    folder = Path(os.environ["CTRNN_DATA"]) / "mnist"
    train, test = read_mnist(folder), read_mnist(folder, "test")
    assert (train.xs.shape, test.xs.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert torch.bincount(train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    # As it is widely known: the mean of the training pixels is 0.1307 of white, their deviation 0.3081.
    pixels = train.xs.flatten().float() / 255
    assert (round(float(pixels.mean()), 4), round(float(pixels.std()), 4)) == (0.1307, 0.3081)
