"""What the reader of UCI HAR gives, and what it says of every file that is not what it should be."""

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import har_arrays, make_har

from experiments.data import untrusted
from experiments.data.uci_har import read_uci_har
from experiments.usage import UsageError

real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, packed=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def as_npy(array, **given):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **given)
    return file.getvalue()


def with_header(shape, dtype="<f4", data=b""):
    """An array's file that says of itself what it likes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def refused(folder, split="train"):
    with pytest.raises(UsageError) as caught:
        read_uci_har(folder, split)
    text = str(caught.value)
    assert len(text) < 300 + len(str(folder))
    assert text.isprintable()
    return text


def test_windows_are_time_by_window_by_channel_with_labels_from_zero(tmp_path):
    for k, split in enumerate(["train", "test"]):
        folder = tmp_path / str(k)
        folder.mkdir()
        make_har(folder)
        arrays, found = har_arrays(), read_uci_har(str(folder), split)
        assert found.xs.dtype == torch.float32
        assert found.xs.shape == (128, 24, 9)
        for row, start in enumerate(arrays[f"start_{split}"].tolist()):
            for channel in range(9):
                assert found.xs[:, row, channel].tolist() == arrays["signal"][channel, start : start + 128].tolist()
        assert found.labels.tolist() == [y - 1 for y in arrays[f"y_{split}"].tolist()]
        assert found.subjects.tolist() == arrays[f"subject_{split}"].tolist()


def test_arrays_by_rows_by_columns_and_not_packed_are_the_same(tmp_path):
    path = make_har(tmp_path)
    first = read_uci_har(tmp_path).xs
    members = members_of(path)
    members["signal.npy"] = as_npy(np.asfortranarray(har_arrays()["signal"]), version=(2, 0))
    write_members(path, members, zipfile.ZIP_STORED)
    assert torch.equal(read_uci_har(tmp_path).xs, first)


def test_arrays_that_are_not_asked_for_are_not_looked_at(tmp_path):
    path = make_har(tmp_path)
    members = members_of(path)
    write_members(path, {**members, "order_uncertain_train.npy": b"broken", "readme.txt": b"hello", "y_test.npy": b""})
    assert read_uci_har(tmp_path).xs.shape == (128, 24, 9)
    assert "y_test is not an array" in refused(tmp_path, "test")


def test_a_folder_without_the_file_and_another_split_are_told(tmp_path):
    assert f"{tmp_path}: holds neither uci_har_inertial_float32.npz nor UCI HAR Dataset/train/Inertial Signals." in refused(
        tmp_path
    )
    for split in ("TRAIN", "validation", None):
        with pytest.raises(ValueError, match=r'`split` must be "train" or "test"'):
            read_uci_har(tmp_path, split)
    (tmp_path / "uci_har_inertial_float32.npz").mkdir()
    assert "cannot be read (not a file)" in refused(tmp_path)


def make_originals(root, **changed):
    """The same windows as `make_har`, in files as the originals name and write them; `changed` are texts in their place."""
    arrays = har_arrays()
    for split in ("train", "test"):
        (root / split / "Inertial Signals").mkdir(parents=True)
        for name in ("y", "subject"):
            text = "".join(f"{k}\n" for k in arrays[f"{name}_{split}"].tolist())
            (root / split / f"{name}_{split}.txt").write_text(changed.get(f"{name}_{split}", text))
        for name, signal in zip(arrays["channels"].tolist(), arrays["signal"], strict=True):
            rows = [signal[start : start + 128].tolist() for start in arrays[f"start_{split}"].tolist()]
            text = "".join("".join(f" {x: .7e}" for x in row) + "\n" for row in rows)
            (root / split / "Inertial Signals" / f"{name}_{split}.txt").write_text(changed.get(f"{name}_{split}", text))


def test_the_originals_are_read_like_the_file_made_of_them(tmp_path):
    for k, inside in enumerate(["", "UCI HAR Dataset"]):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "one").mkdir()
        make_har(folder / "one")
        make_originals(folder / "other" / inside)
        for split in ("train", "test"):
            one, other = read_uci_har(folder / "one", split), read_uci_har(folder / "other", split)
            assert one.xs.dtype == other.xs.dtype
            assert torch.allclose(one.xs, other.xs, rtol=1e-6, atol=0)  # they are written with eight digits
            assert torch.equal(one.labels, other.labels)
            assert torch.equal(one.subjects, other.subjects)


ROW = " ".join(["1"] * 128) + "\n"


def test_broken_originals_are_refused_by_file_and_row(tmp_path):
    for k, (changed, message) in enumerate(
        [
            ({"y_train": "1\n" * 23}, "train: 24 rows of subject_train.txt, 23 of y_train.txt"),
            ({"y_train": "1\n7\n"}, "y_train.txt: 7 in row 2, a whole number from 1 to 6 is expected"),
            ({"y_train": "1.5\n"}, "y_train.txt: 1.5 in row 1"),
            ({"subject_train": "0\n"}, "subject_train.txt: 0 in row 1, a whole number from 1 to 30"),
            ({"y_train": ""}, "y_train.txt: no rows in it"),
            ({"y_train": "1\n" * 20_001}, "y_train.txt: line 20001: 1 numbers; 1 are expected, in at most 20,000 rows"),
            ({"body_gyro_z_train": ROW * 23}, "train: 23 rows of body_gyro_z, 24 of y_train.txt"),
            ({"total_acc_x_train": ROW + ROW[2:]}, "total_acc_x_train.txt: line 2: 127 numbers; 128 are expected"),
            ({"total_acc_x_train": ROW.replace("1", "nan", 1)}, "total_acc_x_train.txt: line 1: 'nan' is not a number"),
            ({"total_acc_x_train": ROW.replace("1", "1_0", 1)}, "line 1: '1_0' is not a number"),
            ({"total_acc_x_train": ROW.replace("1", "1e400", 1)}, "line 1: '1e400' is too large a number"),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        make_originals(folder, **changed)
        assert message in refused(folder)
        assert read_uci_har(folder, "test").xs.shape == (128, 24, 9)


def test_an_original_that_is_missing_is_told(tmp_path):
    make_originals(tmp_path)
    (tmp_path / "train" / "Inertial Signals" / "body_acc_y_train.txt").unlink()
    assert "body_acc_y_train.txt: cannot be read (No such file or directory)" in refused(tmp_path)


A = har_arrays()


def test_other_arrays_are_refused_by_name(tmp_path):
    for k, (changed, message) in enumerate(
        [
            ({"signal": None}, "has no array signal"),
            ({"y_train": None}, "has no array y_train"),
            ({"channels": A["channels"][::-1]}, "channels are not body_acc_x, body_acc_y"),
            ({"channels": A["channels"].astype("U13")}, "channels is <U13 (9,), expected is <U11 (9)"),
            ({"activities": np.array(["WALKING"] * 6)}, "activities is <U7 (6,)"),
            ({"signal": A["signal"].astype("f8")}, "signal is float64 (9, 3136), expected is float32 (9, 1 to 1,500,000)"),
            ({"signal": A["signal"].astype(">f4")}, "signal is >f4 (9, 3136)"),
            ({"signal": A["signal"][:8]}, "signal is float32 (8, 3136)"),
            ({"signal": A["signal"].T}, "signal is float32 (3136, 9)"),
            ({"signal": A["signal"][0]}, "signal is float32 (3136,)"),
            ({"signal": np.array([[None]])}, "signal is object (1, 1)"),
            (
                {"signal": np.where(A["signal"] == A["signal"][0, 0], np.nan, A["signal"])},
                "signal has a value that is not finite",
            ),
            (
                {"signal": np.where(A["signal"] == A["signal"][3, 7], np.inf, A["signal"])},
                "signal has a value that is not finite",
            ),
            ({"signal": A["signal"][:, :1000]}, "start_train[14] is 896, from 0 to 872 is expected"),
            ({"signal": A["signal"][:, :100]}, "from 0 to -28 is expected"),
            ({"start_train": A["start_train"] - 1}, "start_train[0] is -1, from 0 to 3008 is expected"),
            ({"start_train": A["start_train"].astype("i8")}, "start_train is int64 (24,), expected is int32 (1 to 20,000)"),
            ({"start_train": np.zeros(0, "i4")}, "start_train is int32 (0,)"),
            ({"start_train": np.zeros(20_001, "i4")}, "start_train is int32 (20001,), expected is int32 (1 to 20,000)"),
            ({"y_train": A["y_train"] - 1}, "y_train[0] is 0, from 1 to 6 is expected"),
            ({"y_train": A["y_train"] + 1}, "y_train[5] is 7, from 1 to 6 is expected"),
            ({"y_train": A["y_train"][1:]}, "y_train is uint8 (23,), expected is uint8 (24)"),
            ({"subject_train": A["subject_train"] + 1}, "subject_train[21] is 31, from 1 to 30 is expected"),
            ({"subject_train": A["subject_train"].reshape(4, 6)}, "subject_train is uint8 (4, 6)"),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        narrow = {"signal": changed["signal"].astype("f4")} if message.endswith("finite") else {}
        path = make_har(folder, **{**changed, **narrow})
        text = refused(folder)
        assert message in text
        assert text.startswith(f"{path}: ")


class Tempting:
    """What would leave a file behind if it were unpickled."""

    def __reduce__(self):
        return (open, ("unpickled", "w"))


def test_nothing_in_the_file_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = make_har(tmp_path, signal=np.array([[Tempting()]]))
    assert "signal is object" in refused(tmp_path)
    members = members_of(path)
    write_members(path, {**members, "signal.npy": with_header("__import__('os').mkdir('evaluated')")})
    assert "signal is not an array" in refused(tmp_path)
    assert os.listdir(tmp_path) == [path.name]


def test_what_an_array_says_of_itself_is_not_believed(tmp_path):
    for k, (data, message) in enumerate(
        [
            (b"", "signal is not an array"),
            (b"\x93NUMPY\x01\x00\xff\xff{", "signal is not an array"),
            (b"\x93NUMPY\x09\x00" + bytes(100), "signal is not an array"),
            (with_header("(9, 'a')"), "signal is not an array"),
            (with_header("(" * 5000), "signal is not an array"),
            (with_header("(9, 1000000000000)"), "signal is float32 (9, 1000000000000)"),
            (with_header("(9, -3136)"), "signal is float32 (9, -3136)"),
            (with_header("(9, 1500000)"), "signal has 0 bytes, not those of float32 (9, 1500000)"),
            (with_header("(9, 200)", data=bytes(7196)), "signal has 7,196 bytes"),
            (with_header("(9, 200)", data=bytes(7204)), "signal has 7,204 bytes"),
            (with_header("(9, 3136)", "|O"), "signal is object (9, 3136)"),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        path = make_har(folder)
        members = members_of(path)
        write_members(path, {**members, "signal.npy": data})
        assert message in refused(folder)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_on_the_way(tmp_path, monkeypatch):
    path = make_har(tmp_path)
    members = members_of(path)
    write_members(path, {**members, "y_train.npy": bytes(64 << 20)})
    assert path.stat().st_size < 1 << 20
    asked = []
    real = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda file, size=-1: asked.append(size) or real(file, size))
    assert "y_train has more than 16,408 bytes" in refused(tmp_path)
    assert all(0 <= size < 60 << 20 for size in asked)


def test_a_size_that_an_archive_declares_is_not_believed(tmp_path):
    path = make_har(tmp_path)
    whole, first = path.read_bytes(), read_uci_har(tmp_path).xs
    entry = whole.index(b"PK\x01\x02")  # of the directory, the signal's
    assert whole[entry + 46 : entry + 56] == b"signal.npy"

    def declare(size):
        path.write_bytes(whole[: entry + 24] + struct.pack("<I", size) + whole[entry + 28 :])

    declare(10)
    assert "signal" in refused(tmp_path)
    declare(1 << 31)  # more than there is: all that there is was read, and its checksum is right
    assert torch.equal(read_uci_har(tmp_path).xs, first)


def test_a_file_that_is_cut_off_or_damaged_anywhere_is_refused(tmp_path):
    path = make_har(tmp_path)
    whole = path.read_bytes()
    for size in (0, 1, 21, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "is cut off or not an .npz file" in refused(tmp_path)
    path.write_bytes(whole + b"more")
    assert "is cut off" in refused(tmp_path)
    draw = np.random.default_rng(0)
    first = read_into(path, whole)
    for at in [*draw.integers(0, len(whole), 25).tolist(), *range(len(whole) - 40, len(whole), 2)]:
        found = read_into(path, whole[:at] + bytes([whole[at] ^ int(draw.integers(1, 256))]) + whole[at + 1 :])
        # What nobody reads may change, as dates and the arrays of the other split.
        assert found is None or torch.equal(found, first)


def read_into(path, data):
    path.write_bytes(data)
    try:
        return read_uci_har(path.parent).xs
    except UsageError:
        return None


def test_a_long_directory_is_refused_before_it_is_listed(tmp_path, monkeypatch):
    path = make_har(tmp_path)
    write_members(path, {f"{k}.npy": b"" for k in range(2000)})
    whole = path.read_bytes()
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert "is cut off or not an .npz file" in refused(tmp_path)
    # The end of an archive for large files, which says where its own list is.
    path.write_bytes(whole[:-22] + struct.pack("<IIQI", 0x07064B50, 0, 0, 1) + b"PK\x05\x06" + bytes(18))
    assert "is an archive of more than this file can hold" in refused(tmp_path)


def test_ways_to_pack_that_numpy_does_not_use_are_refused(tmp_path):
    path = make_har(tmp_path)
    write_members(path, members_of(path), zipfile.ZIP_LZMA)
    assert "channels is packed in a way that numpy does not write" in refused(tmp_path)


def test_a_large_file_is_not_read_to_its_end(tmp_path, monkeypatch):
    taken = []
    real = untrusted.LimitedFile.read
    monkeypatch.setattr(untrusted.LimitedFile, "read", lambda file, size: taken.append(len(data := real(file, size))) or data)
    with (tmp_path / "uci_har_inertial_float32.npz").open("wb") as file:
        file.truncate(1 << 40)
    assert "more than 67,108,864 bytes in it" in refused(tmp_path)
    assert sum(taken) <= 64 << 20


@real_data
def test_the_real_windows_are_those_of_the_readme():
    folder = Path(os.environ["CTRNN_DATA"]) / "uci_har"
    train, test = (read_uci_har(folder, split) for split in ("train", "test"))
    with np.load(folder / "uci_har_inertial_float32.npz", allow_pickle=False) as arrays:
        signal = arrays["signal"].T
        for found, split in ((train, "train"), (test, "test")):
            expected = signal[arrays[f"start_{split}"][:, None] + np.arange(128)]
            assert np.array_equal(found.xs.numpy(), expected.transpose(1, 0, 2))
    assert (train.xs.shape[1], test.xs.shape[1]) == (7352, 2947)
    # As they are counted in descriptions of the data set: walking, up, down, sitting, standing, laying.
    assert torch.bincount(train.labels).tolist() == [1226, 1073, 986, 1286, 1374, 1407]
    assert torch.bincount(test.labels).tolist() == [496, 471, 420, 491, 532, 537]
    assert not set(train.subjects.tolist()) & set(test.subjects.tolist())
