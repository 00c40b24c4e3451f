"""What the readers of data sets give, and what they say of every file that is not what it should be."""

import gc
import io
import itertools
import lzma
import math
import os
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import (
    OUTCOMES_HEADER,
    PATIENTS_HEADER,
    VOWELS_HEADER,
    make_patients,
    make_vowels,
    patient_text,
    vowels_line,
    write_archive,
)
from torch.testing import assert_close

from experiments.data import physionet2012, untrusted
from experiments.data.japanese_vowels import read_japanese_vowels
from experiments.data.physionet2012 import PARAMETERS, read_deaths2012, read_physionet2012
from experiments.usage import UsageError

EXACT = {"rtol": 0, "atol": 0}
SERIES = ":".join(["1,2,3"] * 12)
real_data = pytest.mark.skipif("CTRNN_DATA" not in os.environ, reason="CTRNN_DATA names no folder of data sets")


def put_vowels(folder, text, name="JapaneseVowels_TRAIN.ts"):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(lzma.compress(data) if name.endswith(".xz") else data)
    return folder


def put_patient(folder, text, record=7, name="set-a"):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{record}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def values(patient, parameter):
    return patient.xs[:, PARAMETERS.index(parameter)].tolist()


# JapaneseVowels


def test_series_are_time_by_dimension_with_speakers_from_zero(tmp_path):
    for k, (suffix, split) in enumerate(itertools.product([".ts", ".ts.xz"], ["train", "test"])):
        folder = tmp_path / str(k)
        folder.mkdir()
        xs = [np.random.default_rng(k).normal(size=(n, 12)) for k, n in enumerate((7, 29, 1))]
        text = VOWELS_HEADER + "".join(vowels_line(x, label) for x, label in zip(xs, (1, 9, 4), strict=True))
        read = read_japanese_vowels(put_vowels(folder, text, f"JapaneseVowels_{split.upper()}{suffix}"), split)
        assert [label for _, label in read] == [0, 8, 3]
        for (found, _), x in zip(read, xs, strict=True):
            assert found.dtype == torch.float64
            assert_close(found, torch.from_numpy(x), **EXACT)


def test_a_plain_file_stands_before_a_packed_one(tmp_path):
    put_vowels(tmp_path, VOWELS_HEADER + SERIES + ":1\n", "JapaneseVowels_TRAIN.ts.xz")
    put_vowels(tmp_path, VOWELS_HEADER + SERIES + ":2\n")
    assert [label for _, label in read_japanese_vowels(str(tmp_path))] == [1]


def test_comments_blank_lines_and_windows_ends_are_passed_over(tmp_path):
    text = "\ufeff" + VOWELS_HEADER.upper().replace("JAPANESEVOWELS", "JapaneseVowels") + f"\n# one\n{SERIES}:3\n\n{SERIES}:4"
    assert [label for _, label in read_japanese_vowels(put_vowels(tmp_path, text.replace("\n", "\r\n")))] == [2, 3]


def test_a_broken_file_of_series_is_refused_by_line(tmp_path):
    for k, ((text, message), suffix) in enumerate(
        itertools.product(
            [
                ("", "no line @data; this is not a .ts file, or it is cut off"),
                (VOWELS_HEADER, "no series in it"),
                (VOWELS_HEADER.removesuffix("@data\n"), "no line @data"),
                (SERIES + ":1\n", "line 1: '1,2,3:1,2,3:1,2,3:1,2,3:1,2,3:1,…' stands before @data"),
                (
                    VOWELS_HEADER.replace("JapaneseVowels", "BasicMotions"),
                    "line 2: @problemName is 'BasicMotions', for these data it is",
                ),
                (VOWELS_HEADER.replace("@problemName JapaneseVowels\n", ""), "line 8: the header ends without @problemname"),
                (
                    VOWELS_HEADER.replace("dimensions 12", "dimensions 9999999999999"),
                    "line 6: @dimensions is '9999999999999', for",
                ),
                (VOWELS_HEADER.replace("dimensions 12", "dimensions"), "line 6: @dimensions is '', for these data it is '12'"),
                (VOWELS_HEADER.replace("timeStamps false", "timeStamps true"), "line 3: @timeStamps is 'true'"),
                (VOWELS_HEADER.replace(" 9\n", " 9 10\n"), "line 8: @classLabel is 'true 1 2 3 4 5 6 7 8 9 10'"),
                (VOWELS_HEADER + SERIES.replace("2", "two", 1) + ":1", "line 10, dimension 1: 'two' is not a number"),
                (VOWELS_HEADER + "?" + SERIES[1:] + ":1", "line 10, dimension 1: '?' is not a number"),
                (VOWELS_HEADER + SERIES.replace("2", "nan", 1) + ":1", "'nan' is not a number"),
                (VOWELS_HEADER + SERIES.replace("2", "1_000", 1) + ":1", "'1_000' is not a number"),
                (VOWELS_HEADER + SERIES.replace("2", "٣", 1) + ":1", "'٣' is not a number"),
                (VOWELS_HEADER + SERIES.replace("2", "__import__('os')", 1) + ":1", "is not a number"),
                (VOWELS_HEADER + SERIES.replace("2", "1e999", 1) + ":1", "'1e999' is too large a number"),
                (
                    VOWELS_HEADER + SERIES.replace("2", "9" * 5000, 1) + ":1",
                    "'99999999999999999999999999999999…' is not a number",
                ),
                (VOWELS_HEADER + SERIES.replace("1,2,3", "1,2", 1) + ":1", "line 10: 3 values in dimension 2, 2 in dimension 1"),
                (VOWELS_HEADER + SERIES.replace("1,2,3", "", 1) + ":1", "line 10, dimension 1: '' is not a number"),
                (VOWELS_HEADER + SERIES + "\n", "line 10: 11 dimensions and a label, 12 are expected"),
                (VOWELS_HEADER + SERIES + ":1:1\n", "line 10: 13 dimensions"),
                (VOWELS_HEADER + SERIES + ":1\n" + SERIES + ":10\n", "line 11: the label is '10', speakers are 1 to 9"),
                (VOWELS_HEADER + SERIES + ":\x1b[2J\n", r"line 10: the label is '\x1b[2J'"),
                (VOWELS_HEADER + "1," * 60_000 + "\n", "line 10: 120,001 characters, at most 100,000 are expected"),
                (VOWELS_HEADER + (SERIES + ":1\n") * 120_000, "more than 8,388,608 bytes in it"),
                (b"\xff\xfe\x00\x01", "is not text"),
            ],
            [".ts", ".ts.xz"],
        )
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        put_vowels(folder, text, f"JapaneseVowels_TRAIN{suffix}")
        with pytest.raises(UsageError) as caught:
            read_japanese_vowels(folder)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{folder}/JapaneseVowels_TRAIN{suffix}: ")
        assert len(str(caught.value)) < 400 + len(str(folder))
        assert str(caught.value).isprintable()


def test_a_folder_without_the_file_and_another_split_are_told(tmp_path):
    with pytest.raises(UsageError, match=r"holds neither JapaneseVowels_TEST\.ts nor JapaneseVowels_TEST\.ts\.xz"):
        read_japanese_vowels(tmp_path, "test")
    for split in ("TRAIN", "../train", None):
        with pytest.raises(ValueError, match=r'`split` must be "train" or "test"'):
            read_japanese_vowels(tmp_path, split)
    (tmp_path / "JapaneseVowels_TRAIN.ts").mkdir()
    os.mkfifo(tmp_path / "JapaneseVowels_TEST.ts")
    for split in ("train", "test"):
        with pytest.raises(UsageError, match=rf"JapaneseVowels_{split.upper()}\.ts: cannot be read \(not a file\)"):
            read_japanese_vowels(tmp_path, split)


# packed files


def test_a_packed_file_that_is_cut_off_or_damaged_is_refused(tmp_path):
    make_vowels(tmp_path)
    file = tmp_path / "JapaneseVowels_TRAIN.ts.xz"
    whole = file.read_bytes()
    for broken, message in [
        (b"", "cut off, its packed data do not end"),
        (whole[: len(whole) // 2], "cut off"),
        (whole[:-1], "cut off"),
        (whole + b"more", "something follows the end"),
        (whole[:2000] + b"\0\0\0\0" + whole[2004:], "cannot be unpacked, it is damaged or not an .xz file"),
        (VOWELS_HEADER.encode(), "cannot be unpacked"),
    ]:
        file.write_bytes(broken)
        with pytest.raises(UsageError, match=message):
            read_japanese_vowels(tmp_path)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_on_the_way(tmp_path, monkeypatch):
    unpacked = []
    real = untrusted.LimitedFile.read
    monkeypatch.setattr(untrusted.LimitedFile, "read", lambda file, size: unpacked.append(real(file, size)) or unpacked[-1])
    (tmp_path / "JapaneseVowels_TRAIN.ts.xz").write_bytes(lzma.compress(bytes(1 << 26)))
    with pytest.raises(UsageError, match="more than 8,388,608 bytes"):
        read_japanese_vowels(tmp_path)
    assert sum(map(len, unpacked)) <= 8 << 20


def test_a_packed_file_that_asks_for_much_memory_is_refused(tmp_path):
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 12}])
    data = bytearray(packer.compress(VOWELS_HEADER.encode()) + packer.flush())
    # The size of the dictionary is one byte of the block's header, which ends with its checksum.
    at = data.index(bytes([0x21, 0x01])) + 2
    data[at] = 34  # 512 MiB
    end = 12 + 4 * (data[12] + 1) - 4
    data[end : end + 4] = struct.pack("<I", zlib.crc32(bytes(data[12:end])))
    (tmp_path / "JapaneseVowels_TRAIN.ts.xz").write_bytes(data)
    with pytest.raises(UsageError, match=r"cannot be unpacked.*[Mm]emory"):
        read_japanese_vowels(tmp_path)


# PhysioNet 2012


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


def test_of_several_values_at_one_time_the_last_is_kept(tmp_path):
    rows = [("01:00", "MAP", 70), ("01:00", "HR", 80), ("01:00", "MAP", 72), ("01:00", "HR", -1), ("02:00", "MAP", 71)]
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, rows)))
    assert values(patient, "MAP") == [72, 71]
    assert values(patient, "HR")[0] == 80  # what is missing does not take the place of what was observed


def test_a_time_at_which_all_is_missing_is_no_stamp_and_a_patient_may_have_none(tmp_path):
    (patient,) = read_physionet2012(
        put_patient(tmp_path, patient_text(7, [("01:00", "Weight", -1), ("02:00", "Weight", "-1.00")]))
    )
    assert patient.ts.shape == (0,)
    assert patient.xs.shape == (0, 37)


def test_a_weight_at_the_start_is_a_descriptor_and_an_observation(tmp_path):
    (patient,) = read_physionet2012(put_patient(tmp_path, patient_text(7, [("03:00", "Weight", 81)], weight=80.5)))
    assert patient.static["Weight"] == 80.5
    assert values(patient, "Weight") == [80.5, 81]
    assert patient.ts.tolist() == [0, 3]


def test_an_archive_and_folders_hold_the_same_patients(tmp_path):
    members = {
        f"set-{s}/{record}.txt": patient_text(record, [("01:00", "HR", record)]) for s, record in [("a", 3), ("a", 20), ("b", 5)]
    }
    for (name, text), record in zip(members.items(), (3, 20, 5), strict=True):
        put_patient(tmp_path, text, record, name[:5])
    (tmp_path / "set-a" / "index.txt").write_text("not looked at")
    loose = list(read_physionet2012(tmp_path))
    assert [patient.record for patient in loose] == [3, 20, 5]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        folder = tarfile.TarInfo("set-a")
        folder.type, folder.mtime = tarfile.DIRTYPE, 1.5 if form == tarfile.PAX_FORMAT else 1  # which needs an extended header
        write_archive(tmp_path, {"Outcomes-a.txt": "RecordID,SAPS-I\n", folder: "", **members}, format=form)
        packed = list(read_physionet2012(tmp_path))
        assert [patient.record for patient in packed] == [3, 20, 5]
        assert [values(patient, "HR") for patient in packed] == [[3], [20], [5]]


def test_a_limit_stops_the_reading_where_it_is(tmp_path):
    members = {f"set-a/{record}.txt": patient_text(record, []) for record in (1, 2)}
    write_archive(tmp_path, {**members, "set-a/3.txt": "broken"})
    assert [patient.record for patient in read_physionet2012(tmp_path, limit=2)] == [1, 2]
    for limit in (3, None):
        with pytest.raises(UsageError, match=r"set-a/3\.txt: line 1: 'broken' instead of 'Time,Parameter,Value'"):
            list(read_physionet2012(tmp_path, limit))
    for limit, error in [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]:
        with pytest.raises(error, match="`limit` must be"):
            read_physionet2012(tmp_path, limit)


@pytest.mark.slow
def test_a_reading_that_is_given_up_leaves_no_file_open(tmp_path, monkeypatch):
    make_patients(tmp_path)
    files, opening = [], Path.open
    monkeypatch.setattr(Path, "open", lambda *given: files.append(opening(*given)) or files[-1])
    patients = read_physionet2012(tmp_path)
    next(patients)
    del patients
    gc.collect()
    assert [file.closed for file in files] == [True]


def test_a_broken_patient_is_refused_by_line(tmp_path):
    for k, (rows, message) in enumerate(
        [
            ("00:07,HR\n", "line 8: '00:07,HR' is not time, parameter and value"),
            ("00:07,HR,73,74\n", "line 8: '00:07,HR,73,74' is not time, parameter and value"),
            ("00:07,HR,high\n", "line 8: 'high' is not a number"),
            ("00:07,HR,\n", "line 8: '' is not a number"),
            ("00:07,HR,nan\n", "line 8: 'nan' is not a number"),
            ("00:07,HR,1e400\n", "line 8: '1e400' is too large a number"),
            ("02:00,HR,73\n01:59,HR,74\n", "line 9: the time goes back to 01:59"),
            ("00:60,HR,73\n", "line 8: '00:60' is not a time HH:MM"),
            ("-1:00,HR,73\n", "line 8: '-1:00' is not a time HH:MM"),
            ("100:00,HR,73\n", "line 8: '100:00' is not a time HH:MM"),
            ("٠١:٠٠,HR,73\n", "is not a time HH:MM"),
            ("00:07,Hr,73\n", "line 8: 'Hr' is no parameter of these data"),
            ("00:07," + "x" * 10_000 + ",73\n", "is no parameter"),
            ("00:07,,73\n", "line 8: '' is no parameter"),
            ("00:07,Age,54\n", "line 8: Age at 00:07; it belongs to 00:00"),
            ("00:00,RecordID,8\n", "line 8: RecordID is '8', the file is named 7.txt"),
            ("00:07,HR,7\x003\n", "is not a number"),
            ("01:00,HR,73\n" * 100_000, "more than 1,048,576 bytes in it"),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        with pytest.raises(UsageError) as caught:
            list(read_physionet2012(put_patient(folder, patient_text(7, []) + rows)))
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{folder}/set-a/7.txt: ")
        assert len(str(caught.value)) < 300 + len(str(folder))


def test_what_does_not_begin_like_a_patient_is_refused(tmp_path):
    for k, (text, message) in enumerate(
        [
            ("", "7.txt: nothing instead of 'Time,Parameter,Value'"),
            ("Time;Parameter;Value\n", "line 1: 'Time;Parameter;Value' instead of"),
            (PATIENTS_HEADER, "no RecordID in it"),
            (PATIENTS_HEADER + "00:00,Age,54\n", "no RecordID in it"),
            (b"\xff\xfe\x00", "is not text"),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        with pytest.raises(UsageError) as caught:
            list(read_physionet2012(put_patient(folder, text)))
        assert message in str(caught.value)


def test_a_member_of_another_name_is_refused_by_it(tmp_path):
    for k, name in enumerate(
        [
            *("/etc/passwd", "/set-a/1.txt", "../set-a/1.txt", "set-a/../1.txt", "set-a/../../1.txt", "..", "set-c/1.txt"),
            *("set-a/1.txt.py", "set-a/1.txt\n", "set-a/one.txt", "set-a/١.txt", "set-a/sub/1.txt", "set-a/1234567890.txt"),
            "set-a/\x1b[2J",
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        before = set(folder.parent.rglob("*"))
        path = write_archive(folder, {"set-a/7.txt": patient_text(7, []), name: patient_text(1, [])}, format=tarfile.USTAR_FORMAT)
        patients = read_physionet2012(folder)
        assert next(patients).record == 7
        with pytest.raises(UsageError) as caught:
            next(patients)
        assert str(caught.value).startswith(f"{path}: has a member {name!r}; members are named like set-a/132539.txt")
        assert set(folder.parent.rglob("*")) - before == {path}  # nothing is written anywhere


def test_a_member_that_is_no_plain_file_is_refused(tmp_path):
    for k, kind in enumerate([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"L", b"?"]):
        folder = tmp_path / str(k)
        folder.mkdir()
        info = tarfile.TarInfo("set-a/7.txt")
        info.type, info.linkname = kind, "/etc/passwd"
        write_archive(folder, {info: ""})
        with pytest.raises(UsageError, match=r"has a member 'set-a/7\.txt'"):
            list(read_physionet2012(folder))


def test_a_member_that_claims_another_size_is_refused_before_it_is_read(tmp_path):
    for k, size in enumerate([(1 << 20) + 1, 1 << 40, -1]):
        folder = tmp_path / str(k)
        folder.mkdir()
        info = tarfile.TarInfo("set-a/7.txt")
        info.size = size
        (folder / physionet2012.ARCHIVE).write_bytes(lzma.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
        with pytest.raises(UsageError, match=rf"'set-a/7\.txt' has {size:,} bytes"):
            list(read_physionet2012(folder))


def test_an_archive_of_very_many_members_is_refused(tmp_path):
    header = tarfile.TarInfo("Outcomes-a.txt").tobuf()
    (tmp_path / physionet2012.ARCHIVE).write_bytes(lzma.compress(header * 20_001, preset=0))
    with pytest.raises(UsageError, match="more than 20,000 members"):
        list(read_physionet2012(tmp_path))


def test_a_broken_archive_is_refused_and_not_taken_for_a_short_one(tmp_path):
    texts = {f"set-a/{record}.txt": patient_text(record, [("01:00", "HR", 70)]) for record in (1, 2)}
    archive = write_archive(tmp_path, texts)
    packed, tar = archive.read_bytes(), lzma.decompress(archive.read_bytes())
    assert [patient.record for patient in read_physionet2012(tmp_path)] == [1, 2]
    assert tar[1024:1029] == b"set-a"
    for broken, message in [
        (b"", "cut off"),
        (packed[: len(packed) // 2], "cut off"),
        (packed[:-4], "cut off"),
        (tar, "cannot be unpacked"),
        (lzma.compress(b""), "cut off, 512 bytes are missing"),
        (lzma.compress(tar[:700]), "cut off, 324 bytes are missing"),
        (lzma.compress(tar[:1024]), "cut off, 512 bytes are missing"),
        (lzma.compress(tar[:1024] + b"SET" + tar[1027:]), "is damaged or not a tar archive"),
        (lzma.compress(b"PK\x03\x04" * 1000), "is damaged or not a tar archive"),
        (lzma.compress(tar[:2048] + bytes(512) + b"more"), "something follows the end of the archive"),
        (lzma.compress(bytes(10240)), "no patients in it"),
        (lzma.compress(tar[:1024] + tar), "set-a/1.txt: patient 1 is there twice"),
    ]:
        archive.write_bytes(broken)
        with pytest.raises(UsageError, match=message):
            list(read_physionet2012(tmp_path))


def test_noise_in_an_archive_or_a_file_is_refused_or_read_and_nothing_else(tmp_path):
    draw = np.random.default_rng(0)
    archive = write_archive(tmp_path, {f"set-a/{record}.txt": patient_text(record, [("01:00", "HR", 70)]) for record in (1, 2)})
    tar = lzma.decompress(archive.read_bytes())[:2560]
    series = (VOWELS_HEADER + f"{SERIES}:1\n" * 2).encode()
    refused = 0
    for _ in range(300):
        noisy = [bytearray(tar), bytearray(series)]
        for data in noisy:
            for at in draw.integers(len(data), size=draw.integers(1, 4)):
                data[at] = draw.integers(256)
        archive.write_bytes(lzma.compress(noisy[0], preset=0))
        put_vowels(tmp_path, bytes(noisy[1]))
        for read in (lambda: list(read_physionet2012(tmp_path)), lambda: read_japanese_vowels(tmp_path)):
            try:
                read()
            except UsageError:
                refused += 1
    assert refused > 300


def test_a_folder_without_patients_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"holds neither physionet2012_set-a_set-b\.tar\.xz nor a folder set-a or set-b"):
        read_physionet2012(tmp_path)
    (tmp_path / "set-b").mkdir()
    with pytest.raises(UsageError, match="no patients in it"):
        list(read_physionet2012(tmp_path))


def test_deaths_are_read_from_the_outcomes_of_both_sets_packed_or_not(tmp_path):
    texts = {"Outcomes-a.txt": "7,6,1,5,-1,0\n8,-1,8,8,3,1\n", "Outcomes-b.txt": "12,1,1,5,9,1\r\n"}
    texts = {name: OUTCOMES_HEADER + rows for name, rows in texts.items()}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    put_patient(tmp_path, patient_text(7, []))
    assert read_deaths2012(tmp_path) == {7: False, 8: True, 12: True}
    assert [patient.record for patient in read_physionet2012(tmp_path)] == [7]
    write_archive(tmp_path, {"set-a/9.txt": "not looked at", **dict(reversed(texts.items()))})
    assert read_deaths2012(tmp_path) == {7: False, 8: True, 12: True}


def test_broken_outcomes_are_refused_by_line(tmp_path):
    for k, (text, message) in enumerate(
        [
            ("", "Outcomes-a.txt: nothing instead of 'RecordID,"),
            ("RecordID,In-hospital_death\n7,1\n", "Outcomes-a.txt: line 1: 'RecordID,In-hospital_death' instead of"),
            (f"{OUTCOMES_HEADER}7,6,1,5,0\n", "line 2: '7,6,1,5,0' is not RecordID,SAPS-I"),
            (f"{OUTCOMES_HEADER}7,6,1,5,-1,nan\n", "line 2: In-hospital_death is 'nan', it is 0 or 1"),
            (f"{OUTCOMES_HEADER}7,6,1,5,-1,-1\n", "line 2: In-hospital_death is '-1', it is 0 or 1"),
            (f"{OUTCOMES_HEADER}../7,6,1,5,-1,1\n", "line 2: '../7' is no RecordID"),
            (f"{OUTCOMES_HEADER}1234567890,6,1,5,-1,1\n", "line 2: '1234567890' is no RecordID"),
            (f"{OUTCOMES_HEADER}7,6,1,5,-1,1\n7,6,1,5,-1,1\n", "line 3: patient 7 is there twice"),
            (OUTCOMES_HEADER, "holds no outcomes; they are in Outcomes-a.txt and Outcomes-b.txt"),
            (OUTCOMES_HEADER + "7,6,1,5,-1,1\n" * 100_000, "1,300,063 bytes, at most 1,048,576 are expected"),
        ]
    ):
        (tmp_path / str(k)).mkdir()
        write_archive(tmp_path / str(k), {"Outcomes-a.txt": text})
        with pytest.raises(UsageError) as caught:
            read_deaths2012(tmp_path / str(k))
        assert message in str(caught.value)
    (tmp_path / "set-a").mkdir()
    with pytest.raises(UsageError, match="holds no outcomes"):
        read_deaths2012(tmp_path)


# the real files


@real_data
def test_the_real_series_are_all_there():
    folder = os.path.join(os.environ["CTRNN_DATA"], "japanese_vowels")
    train, test = (read_japanese_vowels(folder, split) for split in ("train", "test"))
    assert (len(train), len(test)) == (270, 370)
    lengths = [len(xs) for xs, _ in train + test]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert [sum(label == k for _, label in train) for k in range(9)] == [30] * 9


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


@real_data
def test_the_real_deaths_are_all_there():
    deaths = read_deaths2012(os.path.join(os.environ["CTRNN_DATA"], "physionet2012"))
    assert (len(deaths), sum(deaths.values())) == (8000, 1122)
