"""What the readers of data sets give, and that every file that is not what it should be is refused by its name."""

import gzip
import io
import itertools
import lzma
import math
import os
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import (
    OUTCOMES_HEADER,
    PATIENTS_HEADER,
    VOWELS_HEADER,
    har_arrays,
    idx_bytes,
    make_har,
    make_mnist,
    patient_text,
    vowels_line,
    write_archive,
)
from torch.testing import assert_close

from experiments.data import physionet2012
from experiments.data.japanese_vowels import read_japanese_vowels
from experiments.data.mnist import read_mnist
from experiments.data.physionet2012 import PARAMETERS, read_deaths2012, read_physionet2012
from experiments.data.uci_har import read_uci_har
from experiments.data.untrusted import number, read_bytes
from experiments.usage import UsageError

EXACT = {"rtol": 0, "atol": 0}
SERIES = ":".join(["1,2,3"] * 12)
real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")


def refused(read, *given):
    with pytest.raises(UsageError) as caught:
        read(*given)
    text = str(caught.value)
    assert text.isprintable()
    return text


def made(folder, k):
    (folder / str(k)).mkdir()
    return folder / str(k)


# files


def test_files_are_read_packed_or_not_up_to_their_bound_and_whole(tmp_path):
    data = np.random.default_rng(1).integers(0, 4, 100_000, dtype="u1").tobytes()
    for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".txt", bytes)):
        path = tmp_path / f"file{suffix}"
        path.write_bytes(pack(data))
        assert read_bytes(path, len(data)) == data
        assert "more than 99,999 bytes in it" in refused(read_bytes, path, 99_999)
        if suffix != ".txt":
            for broken in (b"", pack(data)[:-1], pack(data)[:5000], data, pack(data)[:-8] + bytes(8)):
                path.write_bytes(broken)
                found = None if not broken and suffix == ".gz" else refused(read_bytes, path, len(data))
                assert found is None or "cut off, damaged or no" in found
    (tmp_path / "bomb.xz").write_bytes(lzma.compress(bytes(1 << 24), preset=0))
    tracemalloc.start()
    assert "more than 1,048,576 bytes" in refused(read_bytes, tmp_path / "bomb.xz", 1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()


def test_readers_name_the_files_that_are_not_there_and_wait_for_no_pipe(tmp_path):
    cases = [
        (read_japanese_vowels, "JapaneseVowels_TRAIN.ts", r"JapaneseVowels_TRAIN.ts nor JapaneseVowels_TRAIN.ts.xz"),
        (read_mnist, "train-images-idx3-ubyte", "train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"),
        (read_uci_har, "uci_har_inertial_float32.npz", "uci_har_inertial_float32.npz nor UCI HAR Dataset/train/Inertial Signals"),
        (read_deaths2012, "physionet2012_set-a_set-b.tar.xz", "physionet2012_set-a_set-b.tar.xz nor a folder set-a or set-b"),
    ]
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(1, "u1")))
    for read, name, message in cases:
        assert f"{tmp_path}: holds neither {message}" in refused(read, tmp_path)
        os.mkfifo(tmp_path / name)
        assert f"{name}: cannot be read (not a file)" in refused(read, tmp_path)
        if read is not read_deaths2012:
            with pytest.raises(ValueError, match='`split` must be "train" or "test"'):
                read(tmp_path, "validation")


# JapaneseVowels


def put_vowels(folder, text, name="JapaneseVowels_TRAIN.ts"):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(lzma.compress(data) if name.endswith(".xz") else data)
    return folder


def test_series_are_time_by_dimension_with_speakers_from_zero(tmp_path):
    for k, (suffix, split) in enumerate(itertools.product([".ts", ".ts.xz"], ["train", "test"])):
        xs = [np.random.default_rng(k).normal(size=(n, 12)) for k, n in enumerate((7, 29, 1))]
        text = VOWELS_HEADER + "".join(vowels_line(x, label) for x, label in zip(xs, (1, 9, 4), strict=True))
        read = read_japanese_vowels(put_vowels(made(tmp_path, k), text, f"JapaneseVowels_{split.upper()}{suffix}"), split)
        assert [label for _, label in read] == [0, 8, 3]
        for (found, _), x in zip(read, xs, strict=True):
            assert_close(found, torch.from_numpy(x), **EXACT)


def test_comments_and_blank_lines_are_passed_over_and_a_plain_file_stands_before_a_packed_one(tmp_path):
    text = "\ufeff" + VOWELS_HEADER.upper() + f"\n# one\n{SERIES}:3\n\n{SERIES}:4"
    put_vowels(tmp_path, VOWELS_HEADER + SERIES + ":1\n", "JapaneseVowels_TRAIN.ts.xz")
    assert [label for _, label in read_japanese_vowels(put_vowels(tmp_path, text.replace("\n", "\r\n")))] == [2, 3]


def test_a_broken_file_of_series_is_refused_by_line(tmp_path):
    for k, (text, message) in enumerate(
        [
            ("", "@problemname japanesevowels are expected before @data; this is another file"),
            (VOWELS_HEADER, "no series in it"),
            (VOWELS_HEADER.replace("JapaneseVowels", "BasicMotions") + SERIES + ":1", "this is another file"),
            (VOWELS_HEADER.replace(" 9\n", " 9 10\n") + SERIES + ":1", "this is another file"),
            (VOWELS_HEADER + SERIES.replace("2", "two", 1) + ":1", "line 10, dimension 1: 'two' is not a number"),
            (VOWELS_HEADER + SERIES.replace("2", "nan", 1) + ":1", "'nan' is not a number"),
            (VOWELS_HEADER + SERIES.replace("2", "1e999", 1) + ":1", "'1e999' is not a number"),
            (VOWELS_HEADER + SERIES.replace("2", "__import__('os')", 1) + ":1", "is not a number"),
            (VOWELS_HEADER + SERIES.replace("1,2,3", "1,2", 1) + ":1", "line 10: dimensions of 2, 3, 3, "),
            (VOWELS_HEADER + SERIES + ":1:1\n", "line 10: dimensions of 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1 values"),
            (VOWELS_HEADER + SERIES + ":1\n" + SERIES + ":10\n", "line 11: the label is '10', speakers are 1 to 9"),
            (VOWELS_HEADER + SERIES + ":\x1b[2J\n", r"line 10: the label is '\x1b[2J'"),
            (VOWELS_HEADER + (SERIES + ":1\n") * 120_000, "more than 8,388,608 bytes in it"),
            (b"\xff\xfe\x00\x01", "is not text"),
        ]
    ):
        folder = put_vowels(made(tmp_path, k), text)
        found = refused(read_japanese_vowels, folder)
        assert message in found
        assert found.startswith(f"{folder}/JapaneseVowels_TRAIN.ts: ")


# PhysioNet 2012


def put_patient(folder, text, record=7, name="set-a"):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{record}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def values(patient, parameter):
    return patient.xs[:, PARAMETERS.index(parameter)].tolist()


@pytest.mark.parametrize("text", ["1_000", "1,5", "inf", "nan", "", "0x10"])
def test_what_is_no_finite_number_is_refused_with_its_place(text):
    with pytest.raises(UsageError, match=r"^a file: line 3: .* is not a number"):
        number(text, "a file: line 3")


def test_rows_of_one_time_are_one_stamp_and_what_is_not_observed_is_nan(tmp_path):
    rows = [("00:07", "HR", 73), ("00:07", "Temp", 35.1), ("00:37", "HR", "77."), ("47:59", "pH", "7.4e0"), ("48:00", "HR", 60)]
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, rows)))
    assert patient.record == 7
    assert patient.ts.dtype == patient.xs.dtype == torch.float64
    assert patient.xs.shape == (4, 37)
    assert_close(patient.ts, torch.tensor([7 / 60, 37 / 60, 47 + 59 / 60, 48.0]), rtol=0, atol=1e-15)
    for parameter, expected in [("HR", [73, 77, math.nan, 60]), ("Temp", [35.1] + 3 * [math.nan])]:
        np.testing.assert_array_equal(values(patient, parameter), expected)
    assert int((~patient.xs.isnan()).sum()) == len(rows)
    known = {"Age": 54, "Gender": 0, "Height": math.nan, "ICUType": 4, "Weight": math.nan}
    assert patient.static == pytest.approx(known, nan_ok=True)


def test_missing_values_make_no_stamp_the_last_of_several_is_kept_and_a_first_weight_is_both(tmp_path):
    rows = [("01:00", "MAP", 70), ("01:00", "HR", 80), ("01:00", "MAP", 72), ("01:00", "HR", -1), ("02:00", "MAP", "-1.00")]
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, rows)))
    assert (values(patient, "MAP"), values(patient, "HR")) == ([72], [80])
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, [("01:00", "Weight", -1)])))
    assert (patient.ts.shape, patient.xs.shape) == ((0,), (0, 37))
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, [("03:00", "Weight", 81)], weight=80.5)))
    assert (patient.static["Weight"], values(patient, "Weight"), patient.ts.tolist()) == (80.5, [80.5, 81], [0, 3])


def test_an_archive_and_folders_hold_the_same_patients_and_deaths(tmp_path):
    records = {"set-a/3.txt": 3, "set-a/20.txt": 20, "set-b/5.txt": 5}
    texts = {name: patient_text(record, [("01:00", "HR", record)]) for name, record in records.items()}
    for (name, text), record in zip(texts.items(), records.values(), strict=True):
        put_patient(tmp_path, text, record, name[:5])
    outcomes = {"Outcomes-a.txt": "3,6,1,5,-1,0\n20,-1,8,8,3,1\n", "Outcomes-b.txt": "5,1,1,5,9,1\r\n"}
    for name, rows in outcomes.items():
        (tmp_path / name).write_text(OUTCOMES_HEADER + rows)
    (tmp_path / "set-a" / "index.txt").write_text("not looked at")
    for form in (None, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        if form is not None:
            folder = tarfile.TarInfo("set-a")
            folder.type, folder.mtime = tarfile.DIRTYPE, 1.5 if form == tarfile.PAX_FORMAT else 1  # an extended header
            packed = {name: OUTCOMES_HEADER + rows for name, rows in outcomes.items()}
            write_archive(tmp_path, {folder: "", "readme": "not looked at", **packed, **texts}, format=form)
        found = list(read_physionet2012(tmp_path))
        assert [patient.record for patient in found] == [3, 20, 5]
        assert [values(patient, "HR") for patient in found] == [[3], [20], [5]]
        assert [patient.record for patient in read_physionet2012(tmp_path, limit=2)] == [3, 20]
        assert read_deaths2012(tmp_path) == {3: False, 20: True, 5: True}
    for limit, error in [(0, ValueError), (1.5, TypeError)]:
        with pytest.raises(error, match="`limit` must be"):
            read_physionet2012(tmp_path, limit)


def test_a_broken_patient_is_refused_by_line(tmp_path):
    begin = patient_text(7, [])
    for k, (text, message) in enumerate(
        [
            (begin + "00:07,HR,73,74\n", "line 8: '00:07,HR,73,74' is not Time,Parameter,Value"),
            (begin + "00:07,HR,high\n", "line 8: 'high' is not a number"),
            (begin + "00:07,HR,nan\n", "line 8: 'nan' is not a number"),
            (begin + "02:00,HR,73\n01:59,HR,74\n", "line 9: '01:59' is not a time HH:MM, or goes back"),
            (begin + "00:60,HR,73\n", "line 8: '00:60' is not a time HH:MM"),
            (begin + "00:07,Hr,73\n", "line 8: 'Hr' is no parameter of these data"),
            (begin + "00:07,Age,54\n", "line 8: 'Age' is no parameter of these data, or belongs to 00:00"),
            (begin + "00:00,RecordID,8\n", "line 8: RecordID is '8', the file is named 7.txt"),
            (begin + "01:00,HR,73\n" * 100_000, "more than 1,048,576 bytes in it"),
            ("", "7.txt: nothing instead of 'Time,Parameter,Value'"),
            ("Time;Parameter;Value\n", "line 1: 'Time;Parameter;Value' instead of"),
            (PATIENTS_HEADER + "00:00,Age,54\n", "no RecordID in it"),
            (b"\xff\xfe\x00", "is not text"),
        ]
    ):
        folder = made(tmp_path, k)
        assert message in refused(list, read_physionet2012(put_patient(folder, text)))
    (made(tmp_path, "empty") / "set-b").mkdir()
    assert "no patients in it" in refused(list, read_physionet2012(tmp_path / "empty"))


def test_broken_outcomes_are_refused_by_line(tmp_path):
    for k, (text, message) in enumerate(
        [
            ("RecordID,In-hospital_death\n7,1\n", "Outcomes-a.txt: line 1: 'RecordID,In-hospital_death' instead of"),
            (f"{OUTCOMES_HEADER}7,6,1,5,0\n", "line 2: '7,6,1,5,0' is not RecordID,SAPS-I"),
            (f"{OUTCOMES_HEADER}7,6,1,5,-1,-1\n", "line 2: '7,6,1,5,-1,-1' is no RecordID with an In-hospital_death of 0 or 1"),
            (f"{OUTCOMES_HEADER}../7,6,1,5,-1,1\n", "line 2: '../7,6,1,5,-1,1' is no RecordID"),
            (f"{OUTCOMES_HEADER}7,6,1,5,-1,1\n7,6,1,5,-1,1\n", "line 3: patient 7 is there twice"),
            (OUTCOMES_HEADER, "holds no outcomes; they are in Outcomes-a.txt and Outcomes-b.txt"),
        ]
    ):
        folder = made(tmp_path, f"outcomes {k}")
        write_archive(folder, {"Outcomes-a.txt": text})
        assert message in refused(read_deaths2012, folder)


def test_members_that_lead_elsewhere_are_not_looked_at_and_broken_archives_are_refused(tmp_path):
    texts = {f"set-a/{record}.txt": patient_text(record, [("01:00", "HR", 70)]) for record in (1, 2)}
    link = tarfile.TarInfo("set-a/9.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    strange = dict.fromkeys(("/set-a/5.txt", "../set-a/5.txt", "set-a/../5.txt", "set-c/5.txt", "set-a/5.txt.py"), "anything")
    archive = write_archive(tmp_path, {**texts, **strange, link: ""})
    assert [patient.record for patient in read_physionet2012(tmp_path)] == [1, 2]
    assert list(tmp_path.rglob("*")) == [archive]  # nothing is written anywhere
    tar = lzma.decompress(archive.read_bytes())
    for broken, message in [
        (archive.read_bytes()[:-4], "cut off, damaged or no .xz file"),
        (tar, "cut off, damaged or no .xz file"),
        (lzma.compress(tar[:700]), "is damaged or not a tar archive"),
        (lzma.compress(tar[:1024]), "is damaged or not a tar archive"),  # between two members
        (lzma.compress(tar[:1024] + b"x" * 512 + tar[1536:]), "is damaged or not a tar archive"),
        (lzma.compress(tar[:1024] + bytes(512) + tar[1536:]), "is damaged or not a tar archive"),
        (lzma.compress(b"PK\x03\x04" * 1000), "is damaged or not a tar archive"),
        (lzma.compress(bytes(10240)), "no patients in it"),
        (lzma.compress(tar[:1024] + tar), "set-a/1.txt: patient 1 is there twice"),
    ]:
        archive.write_bytes(broken)
        assert message in refused(list, read_physionet2012(tmp_path))


def test_an_archive_is_bounded_in_what_it_unpacks_to(tmp_path, monkeypatch):
    monkeypatch.setattr(physionet2012, "MOST_IN_ARCHIVE", 1 << 20)
    write_archive(tmp_path, {"set-a/1.txt": " " * (1 << 21)})
    assert "more than 1,048,576 bytes in it" in refused(list, read_physionet2012(tmp_path))


# MNIST

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def test_images_are_bytes_in_the_order_of_the_file_with_labels(tmp_path):
    make_mnist(tmp_path)
    for split, name, count in (("train", "train", 24), ("test", "t10k", 10)):
        found = read_mnist(str(tmp_path), split)
        assert (found.xs.dtype, found.labels.dtype) == (torch.uint8, torch.int64)
        images = gzip.decompress((tmp_path / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((tmp_path / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        assert found.xs.tolist() == np.frombuffer(images[16:], "u1").reshape(count, 28, 28).tolist()
        assert found.labels.tolist() == list(labels[8:])
    plain = (9 - read_mnist(tmp_path).labels).to(torch.uint8).numpy()
    (tmp_path / LABELS).write_bytes(idx_bytes(plain))  # which is read before the packed one
    assert read_mnist(tmp_path).labels.tolist() == plain.tolist()


def test_images_that_are_not_what_they_should_be_are_refused(tmp_path):
    images, labels = np.zeros((3, 28, 28), "u1"), np.array([0, 9, 3], "u1")
    whole = idx_bytes(images)
    for k, (changed, message) in enumerate(
        [
            ({LABELS: idx_bytes(labels[:2])}, f"{IMAGES}: 3 images, and 2 labels in {LABELS}"),
            ({LABELS: idx_bytes(labels + 1)}, f"{LABELS}: label 2 is 10, from 0 to 9 is expected"),
            ({LABELS: whole}, f"{LABELS}: begins with the bytes 00 00 08 03, 00 00 08 01 is expected"),
            ({IMAGES: b"P5\n2"}, f"{IMAGES}: begins with the bytes 50 35 0a 32"),
            ({IMAGES: idx_bytes(np.zeros((3, 32, 32), "u1"))}, "says that it holds 3 x 32 x 32 numbers"),
            ({IMAGES: idx_bytes(images[:0])}, "says that it holds 0 x 28 x 28 numbers"),
            ({IMAGES: whole[:-1]}, "3 x 28 x 28 numbers, and has 2,351 of them; expected is n x 28 x 28. Is it cut off?"),
            ({IMAGES: whole + b"\0"}, "and has 2,353 of them"),
            ({IMAGES: idx_bytes(images, sizes=(2**32 - 1, 28, 28))}, "says that it holds 4294967295 x 28 x 28"),
        ]
    ):
        folder = made(tmp_path, k)
        for name, data in {IMAGES: whole, LABELS: idx_bytes(labels), **changed}.items():
            (folder / name).write_bytes(data)
        assert message in refused(read_mnist, folder)


# UCI HAR

A = har_arrays()


def make_originals(root, **changed):
    """The same windows as `make_har`, in files as the originals name and write them; `changed` are texts in their place."""
    for split in ("train", "test"):
        (root / split / "Inertial Signals").mkdir(parents=True)
        for name in ("y", "subject"):
            text = "".join(f"{k}\n" for k in A[f"{name}_{split}"].tolist())
            (root / split / f"{name}_{split}.txt").write_text(changed.get(f"{name}_{split}", text))
        for name, signal in zip(A["channels"].tolist(), A["signal"], strict=True):
            rows = [signal[start : start + 128].tolist() for start in A[f"start_{split}"].tolist()]
            text = "".join("".join(f" {x: .7e}" for x in row) + "\n" for row in rows)
            (root / split / "Inertial Signals" / f"{name}_{split}.txt").write_text(changed.get(f"{name}_{split}", text))


def test_windows_are_time_by_window_by_channel_with_labels_from_zero_as_in_the_originals(tmp_path):
    make_har(made(tmp_path, "one"))
    make_originals(tmp_path / "root")
    make_originals(tmp_path / "above" / "UCI HAR Dataset")
    for split in ("train", "test"):
        found = read_uci_har(str(tmp_path / "one"), split)
        assert found.xs.dtype == torch.float32
        for row, start in enumerate(A[f"start_{split}"].tolist()):
            assert found.xs[:, row].T.tolist() == A["signal"][:, start : start + 128].tolist()
        assert found.labels.tolist() == [y - 1 for y in A[f"y_{split}"].tolist()]
        assert found.subjects.tolist() == A[f"subject_{split}"].tolist()
        for folder in ("root", "above"):
            other = read_uci_har(tmp_path / folder, split)
            assert other.xs.dtype == torch.float32
            assert torch.allclose(found.xs, other.xs, rtol=1e-6, atol=0)  # they are written with eight digits
            assert torch.equal(found.labels, other.labels)
            assert torch.equal(found.subjects, other.subjects)


ROW = " ".join(["1"] * 128) + "\n"


def test_broken_originals_are_refused_by_file_and_row(tmp_path):
    for k, (changed, message) in enumerate(
        [
            ({"y_train": "1\n" * 23}, "train: 24 rows of subject_train.txt, 23 of y_train.txt"),
            ({"y_train": "1\n7\n" + "1\n" * 22}, "labels has 7 in row 2, a whole number from 1 to 6 is expected"),
            ({"y_train": "1.5\n" * 24}, "labels has 1.5 in row 1"),
            ({"subject_train": "0\n" * 24}, "subjects has 0 in row 1, a whole number from 1 to 30"),
            ({"body_gyro_z_train": ROW * 23}, "train: 23 rows of body_gyro_z, 24 of y_train.txt"),
            (
                {"total_acc_x_train": ROW + ROW[2:]},
                "x_train.txt: the number of columns changed from 128 to 127 at row 2",
            ),
            ({"total_acc_x_train": ROW.replace("1", "x", 1)}, "total_acc_x_train.txt: could not convert string 'x'"),
            ({"total_acc_x_train": ROW.replace("1", "nan", 1) * 24}, "the signal has a value that is not finite"),
        ]
    ):
        make_originals(tmp_path / str(k), **changed)
        assert message in refused(read_uci_har, tmp_path / str(k))
    (tmp_path / "0" / "test" / "Inertial Signals" / "body_acc_y_test.txt").unlink()
    assert "body_acc_y_test.txt: cannot be read (No such file or directory)" in refused(read_uci_har, tmp_path / "0", "test")


class Tempting:
    """What would leave a file behind if it were unpickled."""

    def __reduce__(self):
        return (open, ("unpickled", "w"))


def test_other_arrays_are_refused_and_nothing_in_them_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    infinite = A["signal"].copy()
    infinite[3, 7] = np.inf
    for k, (changed, message) in enumerate(
        [
            ({"signal": None}, "is damaged, or no .npz file with signal, start_train"),
            ({"signal": np.array([[Tempting()]])}, "Object arrays cannot be loaded when allow_pickle=False"),
            ({"signal": A["signal"].astype("f8")}, "signal float64 (9, 3136)"),
            ({"signal": A["signal"].T}, "signal float32 (3136, 9)"),
            ({"signal": infinite}, "the signal has a value that is not finite"),
            ({"signal": A["signal"][:, :1000]}, "start_train has 896 in row 15, a whole number from 0 to 872 is expected"),
            ({"start_train": A["start_train"] - 1}, "start_train has -1 in row 1, a whole number from 0 to 3008"),
            ({"y_train": A["y_train"] - 1}, "labels has 0 in row 1, a whole number from 1 to 6 is expected"),
            ({"y_train": A["y_train"][1:]}, "y_train uint8 (23,)"),
            ({"subject_train": A["subject_train"] + 1}, "subjects has 31 in row 22, a whole number from 1 to 30"),
        ]
    ):
        path = make_har(made(tmp_path, k), **changed)
        text = refused(read_uci_har, path.parent)
        assert message in text
        assert text.startswith(f"{path}: ")
    assert not (tmp_path / "unpickled").exists()


def test_an_archive_of_arrays_is_bounded_and_damage_is_refused_or_changes_nothing(tmp_path):
    path = make_har(tmp_path)
    whole, first = path.read_bytes(), read_uci_har(tmp_path).xs
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, "y_train.npy": bytes((64 << 20) + 1), "more.npy": b"broken"}.items():
            archive.writestr(name, data)
    assert "an array has 67,108,865 bytes, at most 67,108,864 are expected" in refused(read_uci_har, tmp_path)
    draw = np.random.default_rng(0)
    for at in [*draw.integers(0, len(whole), 25).tolist(), *range(len(whole) - 40, len(whole), 4)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ int(draw.integers(1, 256))]) + whole[at + 1 :])
        try:  # what nobody reads may change, as dates and the arrays of the other split
            assert torch.equal(read_uci_har(tmp_path).xs, first)
        except UsageError:
            continue
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "is damaged" in refused(read_uci_har, tmp_path)


# the real files


@real_data
def test_the_real_files_have_what_is_known_of_them():
    root = Path(os.environ["CTRNN_DATA"])
    train, test = (read_japanese_vowels(root / "japanese_vowels", split) for split in ("train", "test"))
    assert (len(train), len(test)) == (270, 370)
    lengths = [len(xs) for xs, _ in train + test]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert [sum(label == k for _, label in train) for k in range(9)] == [30] * 9
    deaths = read_deaths2012(root / "physionet2012")
    assert (len(deaths), sum(deaths.values())) == (8000, 1122)
    train, test = read_mnist(root / "mnist"), read_mnist(root / "mnist", "test")
    assert torch.bincount(train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    # As it is widely known: the mean of the training pixels is 0.1307 of white, their deviation 0.3081.
    pixels = train.xs.flatten().float() / 255
    assert (round(float(pixels.mean()), 4), round(float(pixels.std()), 4)) == (0.1307, 0.3081)
    train, test = (read_uci_har(root / "uci_har", split) for split in ("train", "test"))
    # As they are counted in descriptions of the data set: walking, up, down, sitting, standing, laying.
    assert torch.bincount(train.labels).tolist() == [1226, 1073, 986, 1286, 1374, 1407]
    assert torch.bincount(test.labels).tolist() == [496, 471, 420, 491, 532, 537]
    assert not set(train.subjects.tolist()) & set(test.subjects.tolist())


@real_data
def test_the_first_real_patients_have_the_observations_of_their_files():
    folder = os.path.join(os.environ["CTRNN_DATA"], "physionet2012")
    patients = list(read_physionet2012(folder, limit=20))
    with tarfile.open(os.path.join(folder, physionet2012.ARCHIVE)) as tar:
        for patient in patients:
            file = tar.extractfile(f"set-a/{patient.record}.txt")
            rows = [line.split(",") for line in io.TextIOWrapper(file).read().split()[1:]]
            seen = {(t, p): float(v) for t, p, v in rows if p in PARAMETERS and float(v) != -1}
            assert int((~patient.xs.isnan()).sum()) == len(seen)
            assert_close(patient.xs.nansum(), torch.tensor(sum(seen.values())), rtol=1e-12, atol=0)
            assert len(patient.ts) == len({t for t, _ in seen})
