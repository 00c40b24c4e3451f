r"""Hands out runs to a Ray cluster: the same folders, by workers wherever the cluster has them.

    waiting  ->  at most `size` tasks at a time  ->  done, busy elsewhere, or failed
                      |
                      its worker dies: Ray starts it once more, and it goes on from its last checkpoint; then it has failed

A run that raises is no death: it is told, and not tried again. The cluster's machines see the same folder, and have ctrnn
installed. Without an address Ray is started on this machine, and ends with the command.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ctrnn.extras import needed_by
from derivations.processes.interruption import checkpoint
from derivations.processes.pool import GRACE, TRIES, End, Work, ended
from experiments.usage import UsageError

__all__ = ["RayPool", "connected"]

SENT = ("CTRNN_DATA",)  # environment variables that a cluster's processes are given: `--data DIR`
ANSWERS, STARTS = 30.0, 90.0  # seconds within which a cluster answers, and Ray starts on a busy machine


def connected(address: str | None, threads: int) -> int:
    """Start Ray here or connect to an address; return how many runs of so many threads it holds at a time. Raises: UsageError."""
    _show_token()
    with needed_by("--on ray"):
        import ray  # noqa: PLC0415
    asked, limit = ("--on ray", STARTS) if address is None else (f"--on ray:{address}", ANSWERS)
    print("Starting Ray." if address is None else f"Asking Ray at {address}.", file=sys.stderr, flush=True)
    deadline, start = time.monotonic() + limit, _Start(address)
    start.join(limit)
    _hear_signals()
    if start.error is not None:
        words = next(iter(str(start.error).strip().splitlines()), type(start.error).__name__)
        raise UsageError(f"{asked}: Ray does not start ({type(start.error).__name__}: {words}).")
    while start.is_up and not (cores := int(ray.cluster_resources().get("CPU", 0))) and time.monotonic() < deadline:
        time.sleep(0.2)
    if not start.is_up or not cores:
        what = "no node with a processor is in it" if start.is_up else "nobody answers" if address else "it does not come up"
        raise UsageError(f"{asked}: {what} after {limit:.0f} s; `ray status` tells more.")
    return max(1, cores // threads)


def _show_token() -> None:
    """Have Ray show the token that is here, before it is imported: to an address that is named it shows none by itself, and
    `ray start` asks for it where there is one. A cluster that asks for none takes it, too."""
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (Path.home() / ".ray" / "auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _hear_signals() -> None:
    """Set Python's handlers of signals again: for SIGTERM Ray sets one that aborts the process before anything is saved."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if (handler := signal.getsignal(number)) is not None:
                signal.signal(number, handler)


class _Start:
    """Starts Ray in a thread of its own, which Ray's processes end with, and which lives as long as this process."""

    def __init__(self, address: str | None) -> None:
        self.address, self.is_up, self._known = address, False, threading.Event()
        self.error: Exception | None = None
        threading.Thread(target=self._start, daemon=True).start()

    def join(self, limit: float) -> None:
        self._known.wait(limit)

    def _start(self) -> None:
        import ray  # noqa: PLC0415

        try:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False, logging_level="error")
            self.is_up = True
        except Exception as error:
            self.error = error
        self._known.set()
        threading.Event().wait()


@dataclass
class RayPool:
    """Hands out work as `WorkerPool` does, on Ray."""

    size: int
    work: Work
    tick: Callable[[list[Any]], None] = lambda keys: None
    every: float | None = None

    def carry_out(self, keys: Sequence[object]) -> Generator[End, None, None]:
        """Yield how each ends, as it is known. However this is left, no task is."""
        import ray  # noqa: PLC0415

        task = ray.remote(num_cpus=self.work.threads, max_retries=TRIES - 1, retry_exceptions=False)(_carried_out)
        waiting, at_work = deque(keys), dict[Any, Any]()
        here = {name: os.environ[name] for name in SENT if name in os.environ}
        try:
            while waiting or at_work:
                while waiting and len(at_work) < self.size:
                    key = waiting.popleft()
                    at_work[task.remote(self.work, key, os.getcwd(), here)] = key
                self.tick(list(at_work.values()))
                for reference in ray.wait(list(at_work), timeout=self.every)[0]:
                    key = at_work.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield End(key, lost=f"its worker was lost, {TRIES} times: {str(error).strip().splitlines()[0]}")
        except SystemError:
            checkpoint()  # what a signal raises within a call of Ray comes out as this
            raise
        finally:
            for reference in at_work:
                ray.cancel(reference, force=False)  # acts as Ctrl-C does: a training saves and ends
            if at_work:
                ray.wait(list(at_work), num_returns=len(at_work), timeout=GRACE)
            ray.shutdown()


def _carried_out(work: Work, key: object, folder: str, settings: Mapping[str, str]) -> End:
    import torch  # noqa: PLC0415

    with suppress(OSError):
        os.chdir(folder)  # which names that were typed are relative to
    os.environ.update(settings)
    torch.set_num_threads(work.threads)

    def do(key: object) -> Any:
        return _begun(work)(key)  # within `ended`, so that an error of a plugin is told, and is no lost worker

    return ended(do, key)


@cache
def _begun(work: Work) -> Callable[[Any], Any]:
    """Begin the work once in a worker, which takes many runs."""
    return work.begun()
