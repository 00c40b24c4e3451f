r"""UCI HAR: six activities of thirty people, a phone's accelerometer and gyroscope, windows of 128 samples at 50 Hz.

    UCI HAR Dataset/train/         the originals: a window a row
      Inertial Signals/body_acc_x_train.txt ..     128 numbers
      y_train.txt  subject_train.txt               1 .. 6, 1 .. 30

    uci_har_inertial_float32.npz   the same in one file
      signal         (9, n)        the windows overlap by half, so they are kept as continuous pieces
      start_train    (windows,)    window k is signal[:, start : start + 128]
      y_train  subject_train

The second is read by hand as far as sizes go: what an archive or an array says of its own size is compared, never believed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from experiments.data.untrusted import LimitedFile, lines, number
from experiments.usage import UsageError

__all__ = ["ACTIVITIES", "CHANNELS", "WINDOW", "Windows", "read_uci_har"]

FILE, FOLDER, SIGNALS = "uci_har_inertial_float32.npz", "UCI HAR Dataset", "Inertial Signals"
CHANNELS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
WINDOW = 128
SUBJECTS = 30
MOST_SAMPLES, MOST_WINDOWS = 1_500_000, 20_000  # 713,984 and 7352
MOST_BYTES = 64 << 20  # of a file; the archive has 23.6 MB, a channel of the originals 15
MOST_BYTES_OF_A_DIRECTORY = 1 << 16  # 814: how many members an archive lists is not known before all are listed
MOST_BYTES_OF_A_HEADER = 1 << 14
END, END64 = b"PK\x05\x06", b"PK\x06\x07"


@dataclass(frozen=True, eq=False)
class Windows:
    r"""Windows in the order of the originals' rows.

    Shape:   xs (128, n, 9) in the order of `CHANNELS`, float32, accelerations in g and angles in rad/s; labels (n,), 0 to 5 in
             the order of `ACTIVITIES`; subjects (n,), 1 to 30.
    """

    xs: Tensor
    labels: Tensor
    subjects: Tensor


def read_uci_har(folder: str | Path, split: str = "train") -> Windows:
    r"""The windows of a split.

    Args:    folder: holds uci_har_inertial_float32.npz, or else the originals' folder "UCI HAR Dataset", or is that folder;
             split: "train" or "test", whose subjects are other ones.
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  Anguita et al. 2012, "Human activity recognition on smartphones using a multiclass hardware-friendly support vector
             machine"; the arrays of the file are this project's arrangement of the originals' "Inertial Signals".
    """
    if split not in ("train", "test"):
        raise ValueError(f'`split` must be "train" or "test", got {split!r}.')
    path = Path(folder) / FILE
    if path.exists():
        return _from_archive(path, split)
    for root in (Path(folder) / FOLDER, Path(folder)):
        if (root / split / SIGNALS).is_dir():
            return _from_originals(root / split, split)
    raise UsageError(f"{folder}: holds neither {FILE} nor {FOLDER}/{split}/{SIGNALS}.")


def _from_originals(folder: Path, split: str) -> Windows:
    labels = _whole_numbers(folder / f"y_{split}.txt", (1, len(ACTIVITIES)))
    subjects = _whole_numbers(folder / f"subject_{split}.txt", (1, SUBJECTS))
    channels = [_table(folder / SIGNALS / f"{name}_{split}.txt", WINDOW) for name in CHANNELS]
    for found, name in zip([subjects, *channels], [f"subject_{split}.txt", *CHANNELS], strict=True):
        if len(found) != len(labels):
            raise UsageError(f"{folder}: {len(found):,} rows of {name}, {len(labels):,} of y_{split}.txt.")
    xs = torch.from_numpy(np.stack(channels, -1).astype(np.float32)).movedim(1, 0).contiguous()
    return Windows(xs, torch.from_numpy(labels - 1), torch.from_numpy(subjects))


def _whole_numbers(path: Path, limits: tuple[int, int]) -> NDArray[np.int64]:
    values = _table(path, 1)[:, 0]
    wrong = (values < limits[0]) | (values > limits[1]) | (values != np.floor(values))
    if wrong.any():
        k = int(wrong.argmax())
        raise UsageError(f"{path}: {values[k]:g} in row {k + 1}, a whole number from {limits[0]} to {limits[1]} is expected.")
    return values.astype(np.int64)


def _table(path: Path, width: int) -> NDArray[np.float64]:
    """Rows of so many numbers: (rows, width)."""
    with LimitedFile(path, MOST_BYTES) as file:
        data = file.whole()
    rows: list[list[float]] = []
    for where, line in lines(data, path):
        words = line.split()
        if len(words) != width or len(rows) == MOST_WINDOWS:
            raise UsageError(f"{where}: {len(words)} numbers; {width} are expected, in at most {MOST_WINDOWS:,} rows.")
        rows.append([number(word, where) for word in words])
    if not rows:
        raise UsageError(f"{path}: no rows in it.")
    return np.array(rows)


def _from_archive(path: Path, split: str) -> Windows:
    archive = _Archive(path)
    archive.words("channels", CHANNELS)
    archive.words("activities", ACTIVITIES)
    signal = archive.array("signal", "<f4", (len(CHANNELS), None), MOST_SAMPLES)
    if not np.isfinite(signal).all():
        raise UsageError(f"{path}: signal has a value that is not finite.")
    starts = archive.numbers(f"start_{split}", "<i4", (0, signal.shape[1] - WINDOW))
    labels = archive.numbers(f"y_{split}", "|u1", (1, len(ACTIVITIES)), len(starts))
    subjects = archive.numbers(f"subject_{split}", "|u1", (1, SUBJECTS), len(starts))
    xs = signal.T[np.arange(WINDOW)[:, None] + starts]
    return Windows(torch.from_numpy(xs), torch.from_numpy(labels - 1), torch.from_numpy(subjects))


class _Archive:
    """The arrays of an .npz file, each read up to the size that it may have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with LimitedFile(path, MOST_BYTES) as file:
            data = file.whole()
        # An archive lists as many entries as it likes, so the list, whose size stands at the very end, must be short.
        end = data[-22:]
        if not end.startswith(END) or int.from_bytes(end[12:16], "little") > MOST_BYTES_OF_A_DIRECTORY:
            raise self._refused("is cut off or not an .npz file; fetch it again")
        if data[-42:].startswith(END64):  # which would point to another list
            raise self._refused("is an archive of more than this file can hold")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise self._refused(f"is damaged or not an .npz file ({error}); fetch it again") from None

    def words(self, name: str, expected: Sequence[str]) -> None:
        found = self.array(name, f"<U{max(map(len, expected))}", (len(expected),), len(expected)).tolist()
        if found != list(expected):
            raise self._refused(f"{name} are not {', '.join(expected)}, in this order")

    def numbers(self, name: str, dtype: str, limits: tuple[int, int], count: int | None = None) -> NDArray[np.int64]:
        """Whole numbers (count,) within limits."""
        values = self.array(name, dtype, (count,), MOST_WINDOWS).astype(np.int64)
        wrong = (values < limits[0]) | (values > limits[1])
        if wrong.any():
            k = int(wrong.argmax())
            raise self._refused(f"{name}[{k}] is {values[k]}, from {limits[0]} to {limits[1]} is expected")
        return values

    def array(self, name: str, dtype: str, shape: tuple[int | None, ...], most: int) -> NDArray[np.generic]:
        """An array of just this dtype and shape, where None is from 1 to `most`."""
        kind = np.dtype(dtype)
        size = kind.itemsize * int(np.prod([most if n is None else n for n in shape]))
        data = io.BytesIO(self._member(name, size + MOST_BYTES_OF_A_HEADER))
        try:
            major, _ = npy.read_magic(data)
            header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
            found, by_columns, of = header(data)
        except Exception as error:  # numpy does not say what its parser raises for text that is not a header
            raise self._refused(f"{name} is not an array ({type(error).__name__})") from None
        fits = len(found) == len(shape) and all(n in (m, None) and 1 <= m <= most for n, m in zip(shape, found, strict=True))
        if of != kind or not fits:
            wanted = ", ".join(f"1 to {most:,}" if n is None else str(n) for n in shape)
            raise self._refused(f"{name} is {str(of)[:20]} {str(found)[:40]}, expected is {kind} ({wanted})")
        values = data.read()
        if len(values) != kind.itemsize * int(np.prod(found)):
            raise self._refused(f"{name} has {len(values):,} bytes, not those of {kind} {found}")
        return np.frombuffer(values, kind).reshape(found, order="F" if by_columns else "C")

    def _member(self, name: str, most: int) -> bytes:
        try:
            info = self._zip.getinfo(f"{name}.npy")
        except KeyError:
            raise self._refused(f"has no array {name}") from None
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._refused(f"{name} is packed in a way that numpy does not write")
        try:
            with self._zip.open(info) as member:
                data = member.read(most + 1)
        except Exception as error:  # zipfile's, zlib's, struct's and more, by where the damage is
            raise self._refused(f"{name} cannot be unpacked, it is damaged ({type(error).__name__})") from None
        if len(data) > most:
            raise self._refused(f"{name} has more than {most:,} bytes")
        return data

    def _refused(self, what: str) -> UsageError:
        return UsageError(f"{self.path}: {what}.")
