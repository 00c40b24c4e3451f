r"""Save and load checkpoints: the newest and the one before, so that one of them is whole at any moment.

    checkpoint.pt, previous.pt      {"format", "state": {...}, "sha256"}, read by `torch.load(path, weights_only=True)`

The digest is of the state, not of the file, so a file whose damage changed none of the state is as good as new.
"""

from __future__ import annotations

import errno
import io
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from ctrnn.storage.files import read_file, write_atomically
from experiments.digests import digest
from experiments.runs.stopping import StoppedError

__all__ = ["NEWEST", "PREVIOUS", "Checkpoints", "DamagedError", "NewerError", "State", "read_state"]

NEWEST, PREVIOUS = "checkpoint.pt", "previous.pt"
FORMAT = 1

State = dict[str, Any]


class DamagedError(Exception):
    """Raised for a file that is no whole checkpoint; its text says why."""


class NewerError(OSError):
    """Raised for a checkpoint in a form that only a newer version of ctrnn reads."""


class Checkpoints:
    """Keeps the two files in a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.newest, self.previous = folder / NEWEST, folder / PREVIOUS
        self._sound = True  # a damaged newest must not take the place of a whole previous one

    def save(self, state: State) -> None:
        """Save a state. Raises: OSError, with both files as they were or one of them whole."""
        file = io.BytesIO()
        torch.save({"format": FORMAT, "state": state, "sha256": digest(state)}, file)
        write_atomically(self.newest, file.getvalue(), keep=self.previous if self._sound else None)
        self._sound = True

    def load(self) -> State | None:
        r"""Load the newest that is whole, with a line on stderr if that is the previous one; None where there is none.

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
            except NewerError as error:
                raise StoppedError(
                    f"{path}: {error.strerror}. Nothing was changed; `pip install --upgrade ctrnn-ode`.", "damaged"
                ) from error
            except OSError as error:  # perhaps it is whole, so nothing may take its place
                raise StoppedError(
                    f"{path} cannot be read ({error.strerror or error}); nothing was changed. Make it readable or move it away, "
                    "then go on with --resume.",
                    "damaged",
                ) from error
            if why:
                print(f"{why[0]}; going on from {path}.", file=sys.stderr)
            return state
        if why:
            raise StoppedError(f"{'; '.join(why)}. Nothing was deleted; begin again with another --out DIR.", "damaged")
        return None


def _is_packed(data: bytes) -> bool:
    """Return whether an archive unpacks to more bytes than it has: to what, only memory bounds."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return sum(member.file_size for member in archive.infolist()) > len(data)
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False  # no archive, which torch.load tells


def read_state(path: Path) -> State:
    r"""Read the state of a checkpoint, as it was saved.

    Raises:  FileNotFoundError; DamagedError for a file that is not whole; NewerError for one of a newer version; OSError for
             one that cannot be read.
    """
    data = read_file(path)
    if _is_packed(data):
        raise DamagedError("it is packed, which torch.save does not do")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged archive raises almost anything
        raise DamagedError("it cannot be read" if data else "it is empty") from error
    if isinstance(found, dict) and type(found.get("format")) is int and found["format"] > FORMAT:
        words = f"a newer ctrnn has written it, in format {found['format']}; this one reads {FORMAT}"
        raise NewerError(errno.EINVAL, words)
    if not isinstance(found, dict) or found.keys() != {"format", "state", "sha256"} or not isinstance(found["state"], dict):
        raise DamagedError("it is no checkpoint")
    if found["format"] != FORMAT:
        raise DamagedError(f"its format is {found['format']!r}, and this version reads {FORMAT}")
    state: State = found["state"]
    if digest(state) != found["sha256"]:
        raise DamagedError("its digest is another")
    if type(state.get("step")) is not int or state["step"] < 0:
        raise DamagedError(f"its step is {state.get('step')!r}, which is no number of steps")
    return state
