r"""A worker process: imports once, then takes run after run from its parent, until there are no more or the parent is gone.

    parent -> worker    a key; None when there are no more
    worker -> parent    (ready, "", "") once, then for every key (done | busy | failed, key, words)

Ctrl-C at the terminal is the parent's to answer: the worker is in a session of its own and hears SIGTERM only, at which a
training saves and ends. A parent that is gone, even by SIGKILL, shows as the end of the pipe, and is answered in the same way.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

from experiments.interruption import Interrupted, checkpoint, interruptible
from experiments.plugins import use
from experiments.studies.folder import PROCESSOR_SECONDS, claimed, configuration_of, fail, keep, kept, place_of
from experiments.studies.registry import loaded
from experiments.studies.study import Run, Study

__all__ = ["BUSY", "DONE", "FAILED", "GRACE", "READY", "carry_out", "work"]

READY, DONE, BUSY, FAILED = "ready", "done", "busy", "failed"
GRACE = 30.0  # seconds to finish a step and to save
Keys = SimpleQueue[str | None]


def work(
    connection: Connection,
    address: str,
    scale: str,
    folder: Path,
    made: Mapping[str, str],
    threads: int,
    plugins: Sequence[str] = (),
) -> None:
    """The whole life of a worker process."""
    if hasattr(os, "setsid"):
        os.setsid()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)  # torch reads them as it is imported
    keys: Keys = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, keys), daemon=True).start()
    try:
        with interruptible():
            use(plugins)
            study = loaded(address)
            runs = {run.key: run for run in study.runs(scale)}
            connection.send((READY, "", ""))
            while (key := keys.get()) is not None:
                checkpoint()
                connection.send(carry_out(study, runs[key], folder, made))
                checkpoint()
    except Interrupted as signal_:
        sys.exit(signal_.code)
    except OSError:
        sys.exit(1)  # the parent is gone: nobody to tell


def _listen(connection: Connection, keys: Keys) -> None:
    """Keys as they come; what comes after the last one is the end."""
    try:
        while True:
            key = connection.recv()
            keys.put(key)
            if key is None:
                return
    except (EOFError, OSError):
        keys.put(None)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(143)  # whatever it is that does not end


def carry_out(study: Study, run: Run, folder: Path, made: Mapping[str, str]) -> tuple[str, str, str]:
    """One run, unless it is done or another call is at it: what came of it, its key, and what went wrong."""
    place = place_of(folder, run.key)
    try:
        with claimed(place) as mine:
            if not mine:
                return BUSY, run.key, ""
            # Another call may have done it since this one looked.
            if kept(folder, run.key, configuration_of(run)) is None:
                begun = time.process_time()
                measured = study.carry_out(run, place)
                keep(folder, run, measured, {**made, PROCESSOR_SECONDS: f"{time.process_time() - begun:.2f}"})
        return DONE, run.key, ""
    except Exception as error:
        fail(folder, run.key, traceback.format_exc())
        return FAILED, run.key, traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
