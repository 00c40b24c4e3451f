r"""Named tensors and a text in a safetensors file, with a digest of both: nothing in it can be executed.

    header, JSON    {"__metadata__": {"ctrnn": text, "sha256": of all the rest}, name: {"dtype", "shape", "data_offsets"}, ...}
    data            what the header says, end to end without gaps

The library of that name writes and reads the form, and refuses what is not whole; files are opened as `files.py` does, which
follows no link and waits for no pipe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ctrnn.storage.files import read_file, write_atomically

__all__ = ["check_dtypes", "read_tensors", "write_tensors"]

TORCHS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # how files of torch.save begin: a zip, or pickles


def write_tensors(path: Path, tensors: dict[str, Tensor], text: str) -> None:
    r"""Write the file whole, or leave what was there before.

    Raises:  TypeError for a dtype that has no name there; OSError.
    """
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)  # the library takes no views
        for name, tensor in tensors.items()
    }
    check_dtypes(copies)
    laid_out = save(copies)
    # The library writes metadata in another order in each process; here the same model is the same bytes.
    metadata = {"ctrnn": text, "sha256": _digest(text, laid_out)}
    header = json.dumps({"__metadata__": metadata, **_header(laid_out)}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    write_atomically(path, len(header).to_bytes(8, "little") + header + bytes(_data(laid_out)))


def check_dtypes(tensors: Mapping[str, Tensor]) -> None:
    """Refuse what the library has no name for. Raises: TypeError."""
    for dtype in {tensor.dtype for tensor in tensors.values()}:
        try:
            save({"": torch.empty(0, dtype=dtype, device="cpu")})
        except KeyError as error:
            raise TypeError(f"`model` has tensors of {dtype}, for which the file has no name; convert them.") from error


def read_tensors(path: Path) -> tuple[str, dict[str, Tensor]]:
    r"""Read the text and the tensors, on the CPU.

    Raises:  OSError; ValueError for what is no such file, or not whole.
    """
    file = read_file(path)
    try:
        tensors = load(file)
    except (SafetensorError, KeyError) as error:  # a dtype that torch has not
        if file.startswith(TORCHS):
            raise ValueError(
                "it is an archive or a pickle, as torch.save writes them, which may hold code. Make the model, give it the "
                "weights, `model.load_state_dict(torch.load(path, weights_only=True))`, and write it by `ctrnn.save`"
            ) from error
        raise ValueError(f"it is no file of tensors, or damaged ({error})") from error
    metadata = _header(file).get("__metadata__") or {}
    if not {"ctrnn", "sha256"} <= metadata.keys():
        raise ValueError(
            "it is a file of tensors, and not one that `ctrnn.save` has written: it does not say of which model. Make "
            "that, and give it what `safetensors.torch.load_file` reads, by `load_state_dict`"
        )
    if _digest(metadata["ctrnn"], file) != metadata["sha256"]:
        raise ValueError("it is damaged, its digest is another")
    return metadata["ctrnn"], tensors


def _header(file: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
    return header


def _digest(text: str, file: bytes) -> str:
    entries = {name: entry for name, entry in _header(file).items() if name != "__metadata__"}
    hashed = hashlib.sha256(json.dumps([text, entries]).encode())
    hashed.update(_data(file))
    return hashed.hexdigest()


def _data(file: bytes) -> memoryview:
    return memoryview(file)[8 + int.from_bytes(file[:8], "little") :]
