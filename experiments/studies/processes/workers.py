r"""Runs handed out to worker processes: any death costs one run, which is tried once more; all others go on.

    waiting  ->  a worker that is ready  ->  done, busy elsewhere, or failed
                      |
                      dies: a new worker, and the run goes back to the front of the queue; at the second death it has failed

Processes are started afresh, not forked: a fork of a process in which torch has threads may hang.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from experiments.studies.processes.worker import FAILED, GRACE, READY, work

__all__ = ["TRIES", "RunEnd", "WorkerPool"]

TRIES = 2
STARTS = 3  # in a row that may come to nothing


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: "done", "busy" (another call is at it) or "failed", and then why."""

    what: str
    key: str
    words: str = ""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False
    key: str | None = None

    def give(self, key: str | None) -> None:
        """A run, or None: no more. A dead one is found out by its sentinel."""
        self.key = key
        with suppress(OSError):
            self.connection.send(key)


@dataclass
class WorkerPool:
    r"""At most `size` worker processes.

    Args:  arguments: of `worker.work` after the pipe;  tick: called with the runs at work about every `every` seconds, and
           whenever something happened; None for `every`: then only.
    """

    size: int
    arguments: tuple[Any, ...]
    tick: Callable[[list[str]], None] = lambda running: None
    every: float | None = None
    _workers: list[_Worker] = field(default_factory=list, init=False)

    def carry_out(self, keys: Sequence[str]) -> Generator[RunEnd, None, None]:
        """How each run ends, as it is known. However this is left, no process is."""
        waiting, died, failed_starts = deque(keys), Counter[str](), 0
        try:
            while waiting or self._at_work():
                self._assign(waiting)
                self.tick(self._at_work())
                for worker in self._with_messages():
                    message = self._message(worker)
                    if message is None:
                        words = self._remove(worker)
                        if not worker.ready:
                            failed_starts += 1
                        elif worker.key is not None:
                            died[worker.key] += 1
                            if died[worker.key] < TRIES:
                                waiting.appendleft(worker.key)
                            else:
                                yield RunEnd(FAILED, worker.key, f"its process {words}, {TRIES} times")
                        if failed_starts == STARTS:
                            yield from (RunEnd(FAILED, key, f"no worker process comes up: it {words}") for key in waiting)
                            waiting.clear()
                    elif message[0] == READY:
                        worker.ready, failed_starts = True, 0
                    else:
                        worker.key = None
                        yield RunEnd(*message)
            self._dismiss()
        finally:
            self._stop()

    def _at_work(self) -> list[str]:
        return [worker.key for worker in self._workers if worker.key is not None]

    def _assign(self, waiting: deque[str]) -> None:
        """Give runs to idle workers, and start processes for the rest, up to `size`."""
        for worker in self._workers:
            if worker.ready and worker.key is None and waiting:
                worker.give(waiting.popleft())
        coming = sum(not worker.ready for worker in self._workers)
        for _ in range(min(self.size - len(self._workers), len(waiting) - coming)):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(target=work, args=(theirs, *self.arguments))
            process.start()
            theirs.close()  # only the worker has it now, so that its end is seen here
            self._workers.append(_Worker(process, ours))

    def _with_messages(self) -> list[_Worker]:
        """Workers with a message, or that died."""
        ready = wait([worker.connection for worker in self._workers], self.every)  # at its death the pipe ends
        return [worker for worker in self._workers if worker.connection in ready]

    @staticmethod
    def _message(worker: _Worker) -> tuple[str, str, str] | None:
        """Its message; None of a dead one without any left."""
        try:
            return worker.connection.recv()
        except (EOFError, OSError):
            return None

    def _remove(self, worker: _Worker) -> str:
        """How it ended."""
        worker.process.join(GRACE)
        self._workers.remove(worker)
        worker.connection.close()
        code = worker.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return f"was killed by {name}" + (" (perhaps memory ran out)" if name == "SIGKILL" else "")
        return f"ended with exit code {code}"

    def _dismiss(self) -> None:
        """No more runs: they end by themselves."""
        for worker in self._workers:
            worker.give(None)

    def _stop(self) -> None:
        """Wait for those who end, ask the others to save and end, and end those who do not."""
        at_work = [worker for worker in self._workers if worker.key is not None or not worker.ready]
        try:
            for worker in at_work:
                worker.process.terminate()
            deadline = time.monotonic() + GRACE
            for worker in self._workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        finally:  # a second signal does not wait
            for worker in self._workers:
                if worker.process.is_alive():
                    worker.process.kill()
                worker.process.join()
                worker.connection.close()
            self._workers.clear()
