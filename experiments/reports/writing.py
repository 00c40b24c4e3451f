"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from experiments.usage import UsageError

__all__ = ["not_writable", "ready_folder", "write_atomically"]


def ready_folder(out: Path) -> None:
    """Find out now, not after a minute of work, that the folder cannot be written. Raises: UsageError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise not_writable(out, error) from None


def not_writable(out: Path, error: OSError) -> UsageError:
    """What to say of a folder that cannot be written."""
    return UsageError(f"cannot write to {out} ({error.strerror or error}); choose another folder with --out DIR.")


def write_atomically(path: Path, text: str) -> None:
    """The whole text or none of it: whatever happens on the way, what was there before stays."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
