r"""UCI HAR: six activities of thirty people, a phone's accelerometer and gyroscope, windows of 128 samples at 50 Hz.

UCI HAR Dataset/train/         the originals: a window a row
  Inertial Signals/body_acc_x_train.txt ..     128 numbers
  y_train.txt  subject_train.txt               1 .. 6, 1 .. 30

uci_har_inertial_float32.npz   the same in one file
  signal         (9, n)        the windows overlap by half, so they are kept as continuous pieces
  start_train    (windows,)    window k is signal[:, start : start + 128]
  y_train  subject_train
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.data.untrusted import check_two_splits, read_arrays, read_bytes
from experiments.usage import UsageError

__all__ = ["ACTIVITIES", "CHANNELS", "WINDOW", "Windows", "read_uci_har"]

FILE, FOLDER, SIGNALS = "uci_har_inertial_float32.npz", "UCI HAR Dataset", "Inertial Signals"
CHANNELS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
WINDOW = 128
SUBJECTS = 30
MOST_BYTES = 64 << 20  # of a file, and of the arrays in the archive: these have 23.6 MB, a channel of the originals 15


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
    r"""Read the windows of a split.

    Args:    folder: holds uci_har_inertial_float32.npz, or else the originals' folder "UCI HAR Dataset", or is that folder;
             split: "train" or "test", whose subjects are other ones.
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  Anguita et al. 2012, "Human activity recognition on smartphones using a multiclass hardware-friendly support vector
             machine"; the arrays of the file are this project's arrangement of the originals' "Inertial Signals".
    """
    check_two_splits(split)
    path = Path(folder) / FILE
    if path.exists():
        return _from_archive(path, split)
    for root in (Path(folder) / FOLDER, Path(folder)):
        if (root / split / SIGNALS).is_dir():
            return _from_originals(root / split, split)
    raise UsageError(f"{folder}: holds neither {FILE} nor {FOLDER}/{split}/{SIGNALS}.")


def _from_originals(folder: Path, split: str) -> Windows:
    labels, subjects = (_table(folder / f"{name}_{split}.txt", 1)[:, 0] for name in ("y", "subject"))
    channels = [_table(folder / SIGNALS / f"{name}_{split}.txt", WINDOW) for name in CHANNELS]
    for found, name in zip([subjects, *channels], [f"subject_{split}.txt", *CHANNELS], strict=True):
        if len(found) != len(labels):
            raise UsageError(f"{folder}: {len(found):,} rows of {name}, {len(labels):,} of y_{split}.txt.")
    return _windows(folder, np.stack(channels, -1).astype(np.float32).swapaxes(0, 1), labels, subjects)


def _table(path: Path, width: int) -> NDArray[Any]:
    """Read rows of so many numbers, (rows, width). Raises: UsageError."""
    data = read_bytes(path, MOST_BYTES)
    try:
        found = np.loadtxt(io.BytesIO(data), ndmin=2)
    except ValueError as error:  # its text names the row
        raise UsageError(f"{path}: {error}") from None
    if not len(found) or found.shape[1] != width:
        raise UsageError(f"{path}: {' x '.join(map(str, found.shape))} numbers, rows of {width} are expected.")
    return found


def _from_archive(path: Path, split: str) -> Windows:
    names = ("signal", *(f"{name}_{split}" for name in ("start", "y", "subject")))
    arrays = read_arrays(path, MOST_BYTES, names)
    signal, starts, labels, subjects = (arrays[name] for name in names)
    shapes = [array.shape for array in arrays.values()]
    if signal.dtype != np.float32 or shapes != [(len(CHANNELS), signal.size // len(CHANNELS)), *[starts.shape[:1]] * 3]:
        told = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in arrays.items())
        raise UsageError(f"{path}: {told}; float32 ({len(CHANNELS)}, n) and one number a window are expected.")
    _check_whole(path, names[1], starts, 0, signal.shape[1] - WINDOW)
    return _windows(path, signal.T[np.arange(WINDOW)[:, None] + starts.astype(np.int64)], labels, subjects)


def _windows(place: Path, xs: NDArray[Any], labels: NDArray[Any], subjects: NDArray[Any]) -> Windows:
    if not np.isfinite(xs).all():
        raise UsageError(f"{place}: the signal has a value that is not finite.")
    _check_whole(place, "labels", labels, 1, len(ACTIVITIES))
    _check_whole(place, "subjects", subjects, 1, SUBJECTS)
    whole = (torch.from_numpy(values.astype(np.int64)) for values in (labels - 1, subjects))
    return Windows(torch.from_numpy(np.ascontiguousarray(xs)), *whole)


def _check_whole(place: Path, name: str, values: NDArray[Any], least: int, most: int) -> None:
    wrong = (values < least) | (values > most) | (values != np.floor(values))
    if wrong.any():
        k = int(wrong.argmax())
        raise UsageError(f"{place}: {name} has {values[k]:g} in row {k + 1}, a whole number from {least} to {most} is expected.")
