"""Small files in the formats of the real data sets, and the real ones where CTRNN_DATA names their folder."""

import gzip
import io
import lzma
import os
import struct
import tarfile
from pathlib import Path

import numpy as np

VOWELS_HEADER = (
    "# made for a test\n@problemName JapaneseVowels\n@timeStamps false\n@missing false\n@univariate false\n@dimensions 12\n"
    "@equalLength false\n@classLabel true 1 2 3 4 5 6 7 8 9\n@data\n"
)
PATIENTS_HEADER = "Time,Parameter,Value\n"


def folder_of(name, made_in, make):
    """The real folder of a data set, or one with files made in its place."""
    if root := os.environ.get("CTRNN_DATA"):
        return Path(root) / name
    make(made_in)
    return made_in


def vowels_line(xs, label):
    """(time, 12) and a speaker 1 to 9 as a line of a .ts file."""
    return ":".join([",".join(repr(float(x)) for x in row) for row in np.asarray(xs).T] + [str(label)]) + "\n"


def make_vowels(folder, series=24):
    draw = np.random.default_rng(0)
    lines = [vowels_line(draw.normal(size=(draw.integers(7, 30), 12)), 1 + k % 9) for k in range(series)]
    (folder / "JapaneseVowels_TRAIN.ts.xz").write_bytes(lzma.compress((VOWELS_HEADER + "".join(lines)).encode()))


def har_arrays(windows=24):
    """The arrays of the file: windows that overlap by half, of all activities, the last fourth of people who are held out."""
    draw = np.random.default_rng(2)
    people = {
        "train": [*range(1, 1 + 3 * windows // 4), *(27 + np.arange(windows - 3 * windows // 4) % 4)],
        "test": [2] * windows,
    }
    arrays = {
        "signal": draw.normal(1.0, 2.0, size=(9, 64 * (2 * windows + 1))).astype("<f4"),
        "channels": np.array([f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]),
        "activities": np.array(["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"]),
    }
    for k, split in enumerate(("train", "test")):
        arrays[f"start_{split}"] = (64 * (k * windows + np.arange(windows))).astype("<i4")
        arrays[f"y_{split}"] = (1 + np.arange(windows) % 6).astype("u1")
        arrays[f"subject_{split}"] = np.array(people[split], "u1")
    return arrays


def make_har(folder, **changed):
    """The file of windows; `changed` are other arrays in place of its own, None to leave one out."""
    arrays = {**har_arrays(), **changed}
    path = folder / "uci_har_inertial_float32.npz"
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


IDX_TYPES = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


def idx_bytes(array, kind=None, sizes=None):
    """An array as an idx file has it; `kind` and `sizes` are what the file says in place of what is so."""
    sizes = array.shape if sizes is None else sizes
    kind = IDX_TYPES[array.dtype.name] if kind is None else kind
    return (
        struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes) + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def make_mnist(folder, train=24, test=10):
    """The four files, packed; image k begins with the pixels k // 256 and k % 256."""
    draw = np.random.default_rng(3)
    for name, count in (("train", train), ("t10k", test)):
        images = draw.integers(0, 256, (count, 28, 28), dtype="u1")
        images[:, 0, :2] = [divmod(k, 256) for k in range(count)]
        for kind, array in (("images-idx3", images), ("labels-idx1", draw.integers(0, 10, count, dtype="u1"))):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array), mtime=0))


def patient_text(record, rows, weight=-1):
    """Rows (time, parameter, value) below the descriptors of one patient."""
    known = {"RecordID": record, "Age": 54, "Gender": 0, "Height": -1, "ICUType": 4, "Weight": weight}
    return PATIENTS_HEADER + "".join(f"{t},{p},{v}\n" for t, p, v in [*(("00:00", p, v) for p, v in known.items()), *rows])


OUTCOMES_HEADER = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n"


def make_patients(folder, patients=10):
    """Stamps minutes to hours apart, at each of which only some are measured; every third patient died."""
    draw = np.random.default_rng(1)
    members = {}
    for record in range(132539, 132539 + patients):
        minutes = np.sort(draw.choice(np.arange(1, 2881), draw.integers(15, 70), replace=False))
        rows = [
            (f"{m // 60:02}:{m % 60:02}", name, round(draw.normal(mean, spread), 2))
            for m in minutes
            for name, mean, spread in (("HR", 80, 15), ("Temp", 37, 1), ("MAP", 75, 12), ("Urine", 100, 40))
            if draw.random() < 0.6
        ]
        members[f"set-a/{record}.txt"] = patient_text(record, rows, weight=80)
    died = "".join(f"{132539 + k},6,1,5,-1,{int(k % 3 == 0)}\n" for k in range(patients))
    write_archive(folder, {"Outcomes-a.txt": OUTCOMES_HEADER + died, **members})


def write_archive(folder, members, **given):
    """An archive of files by name, or of `tarfile.TarInfo`s with their content; `given` as for `tarfile.open`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", **given) as tar:
        for name, text in members.items():
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    path = folder / "physionet2012_set-a_set-b.tar.xz"
    path.write_bytes(lzma.compress(packed.getvalue()))
    return path
