r"""Named tensors and a text in a file of the safetensors form: nothing in it can be executed.

    8 bytes, the header's length    header, JSON    data

    header  {"__metadata__": {"ctrnn": text, "sha256": of all the rest}, name: {"dtype", "shape", "data_offsets"}, ...}

The data are what the header says, end to end without gaps, or the file is refused before any of them is read. The library of
that name reads and writes the same files; it would check less, and the text's digest would be checked by hand in any case.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ctrnn.storage.files import open_file, write_atomically

__all__ = ["TensorFile", "write_tensors"]

TORCHS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # how files of torch.save begin: a zip, or pickles
MOST_HEADER = 1 << 24  # bytes
ALIGNED = 8
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write_tensors(path: Path, tensors: dict[str, Tensor], text: str) -> None:
    r"""The file, whole, or what was there before.

    Raises:  TypeError for a dtype that has no name there; OSError.
    """
    entries, pieces, at = {}, [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES:
            raise TypeError(f"`{name}` is {tensor.dtype}, for which the file has no name; convert it.")
        piece = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        entries[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(piece)]}
        pieces.append(piece)
        at += len(piece)
    data = b"".join(pieces)
    header = json.dumps({"__metadata__": {"ctrnn": text, "sha256": _digest(text, entries, data)}, **entries}).encode()
    header += b" " * (-len(header) % ALIGNED)
    write_atomically(path, len(header).to_bytes(8, "little") + header + data)


class TensorFile:
    r"""A file of tensors, open: its `text`, and the `shapes` that its tensors have; `read` gives them.

    Raises:  OSError; ValueError for what is no such file, or not whole.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open_file(path)
        try:
            size = os.fstat(self._file.fileno()).st_size
            begin = self._file.read(8)
            if begin.startswith(TORCHS):
                raise ValueError(
                    "it is an archive or a pickle, as torch.save writes them, which may hold code. Make the model, give it the "
                    "weights, `model.load_state_dict(torch.load(path, weights_only=True))`, and write it by `ctrnn.save`"
                )
            length = int.from_bytes(begin, "little")
            if not 0 < length <= min(MOST_HEADER, size - 8):
                raise ValueError("it is no file of tensors")
            header = _parsed(self._file.read(length))
            metadata = header.pop("__metadata__", None)
            if not isinstance(metadata, dict) or not all(isinstance(metadata.get(key), str) for key in ("ctrnn", "sha256")):
                raise ValueError(
                    "it is a file of tensors, and not one that `ctrnn.save` has written: it does not say of which model. Make "
                    "that, and give it what `safetensors.torch.load_file` reads, by `load_state_dict`"
                )
            self.text, self._sha256 = metadata["ctrnn"], metadata["sha256"]
            self._entries = header
            self.shapes = _checked(header, size - 8 - length)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self) -> dict[str, Tensor]:
        """All tensors, on the CPU. Raises: ValueError for data that are damaged."""
        data = bytearray(self._file.read())
        if _digest(self.text, self._entries, data) != self._sha256:
            raise ValueError("it is damaged, its digest is another")
        return {name: _tensor(entry, data) for name, entry in self._entries.items()}


def _parsed(header: bytes) -> dict[str, Any]:
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("it is no file of tensors")
    return found


def _checked(header: dict[str, Any], size: int) -> dict[str, torch.Size]:
    """The shapes; entries follow one another and fill `size` bytes, as they were written."""
    shapes, at = {}, 0
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES or not _are_sizes(entry.get("shape")):
            raise ValueError(f"its tensor {name[:80]!r} is not described as tensors are")
        end = at + math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize
        if entry.get("data_offsets") != [at, end]:
            raise ValueError(f"its tensor {name[:80]!r} is not where the one before it ends, or not as large as its shape")
        shapes[name], at = torch.Size(entry["shape"]), end
    if at != size:
        raise ValueError(f"it is cut off or too long: {size:,} bytes of tensors, and {at:,} are described")
    return shapes


def _are_sizes(shape: object) -> bool:
    return isinstance(shape, list) and len(shape) < 16 and all(type(n) is int and 0 <= n < 2**40 for n in shape)


def _digest(text: str, entries: dict[str, Any], data: bytes | bytearray) -> str:
    found = hashlib.sha256(json.dumps([text, entries]).encode())
    found.update(data)
    return found.hexdigest()


def _tensor(entry: dict[str, Any], data: bytearray) -> Tensor:
    dtype, (begin, end) = DTYPES[entry["dtype"]], entry["data_offsets"]
    if begin == end:
        return torch.empty(entry["shape"], dtype=dtype)
    # A copy: of its own memory, and where numbers may stand.
    piece = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=begin).clone()
    return piece.view(dtype).reshape(entry["shape"])
