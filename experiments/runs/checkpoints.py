r"""Checkpoints: the newest and the one before, so that one of them is whole at any moment.

    checkpoint.pt, previous.pt      {"format", "state": {...}, "sha256"}, read by `torch.load(path, weights_only=True)`

The digest is of the state, not of the file: key paths, types, shapes and bytes in a canonical order. So it holds what is used,
and a file whose damage changed none of that is as good as new.
"""

from __future__ import annotations

import hashlib
import io
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.runs.durability import write_durably
from experiments.runs.stopping import StoppedError

__all__ = ["NEWEST", "PREVIOUS", "Checkpoints", "DamagedError", "digest", "read_state"]

NEWEST, PREVIOUS = "checkpoint.pt", "previous.pt"
FORMAT = 1

State = dict[str, Any]


class DamagedError(Exception):
    """A file that is no whole checkpoint; its text says why."""


class Checkpoints:
    """The two files in a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.newest, self.previous = folder / NEWEST, folder / PREVIOUS
        self._sound = True  # a damaged newest must not take the place of a whole previous one

    def save(self, state: State) -> None:
        """Raises: OSError, with both files as they were or one of them whole."""
        file = io.BytesIO()
        torch.save({"format": FORMAT, "state": state, "sha256": digest(state)}, file)
        write_durably(self.newest, file.getvalue(), keep=self.previous if self._sound else None)
        self._sound = True

    def load(self) -> State | None:
        r"""The state of the newest that is whole, told on stderr if it is the previous one; None where there is none.

        Raises:  StoppedError where there are checkpoints and none is whole, or one cannot be read.
        """
        why = []
        for path in (self.newest, self.previous):
            try:
                state = read_state(path)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                why.append(f"{path} is damaged ({error})")
                self._sound = False
                continue
            except OSError as error:  # perhaps it is whole, so nothing may take its place
                raise StoppedError(
                    f"{path} cannot be read ({error.strerror or error}); nothing was changed. Make it readable or move it away, "
                    "then go on with --resume."
                ) from error
            if why:
                print(f"{why[0]}; going on from {path}.", file=sys.stderr)
            return state
        if why:
            raise StoppedError(f"{'; '.join(why)}. Nothing was deleted; begin again with another --out DIR.")
        return None


def read_state(path: Path) -> State:
    r"""The state of a checkpoint, as it was saved.

    Raises:  FileNotFoundError; DamagedError for a file that is not whole; OSError for one that cannot be read.
    """
    data = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged archive raises almost anything
        raise DamagedError("it cannot be read" if data else "it is empty") from error
    if not isinstance(found, dict) or found.keys() != {"format", "state", "sha256"} or not isinstance(found["state"], dict):
        raise DamagedError("it is no checkpoint")
    if found["format"] != FORMAT:
        raise DamagedError(f"its format is {found['format']!r}, and this version reads {FORMAT}")
    if digest(found["state"]) != found["sha256"]:
        raise DamagedError("its digest is another")
    return found["state"]


def digest(state: State) -> str:
    r"""sha256 over the state: of every leaf its path, its type and its bytes, each with its length before it.

    Raises:  TypeError for what is no tensor, number or string, or a list or dictionary of them.
    """
    found = hashlib.sha256()
    for part in _canonical("", state):
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


def _canonical(path: str, value: object) -> Iterator[bytes]:
    yield f"{path}:{type(value).__name__}".encode()
    if isinstance(value, dict):
        yield str(len(value)).encode()
        for key in sorted(value, key=repr):
            yield from _canonical(f"{path}/{key!r}", value[key])
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for k, item in enumerate(value):
            yield from _canonical(f"{path}/{k}", item)
    elif isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif value is None or isinstance(value, bool | int | float | str):
        yield repr(value).encode()
    else:
        raise TypeError(f"a checkpoint holds tensors, numbers and strings, got {type(value).__name__} at {path}.")
