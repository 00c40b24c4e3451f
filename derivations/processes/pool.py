r"""Hands out work to worker processes: any death costs one piece of work, which is tried once more; all others go on.

    waiting  ->  a worker that is ready  ->  done, or failed
                      |
                      dies: a new worker, and the piece goes back to the front of the queue; at the second death it has failed

    parent -> worker    a key; None when there are no more
    worker -> parent    None once it is ready, then for every key how it ended

Each worker has a pipe of its own, so that one killed in the midst of a message leaves nobody else waiting for its rest.
Processes are started afresh, not forked: a fork of a process in which torch has threads may hang. Ctrl-C at the terminal is the
parent's to answer: a worker is in a session of its own and hears SIGTERM only, at which a training saves and ends. A parent that
is gone, even by SIGKILL, is answered in the same way.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pkgutil import resolve_name
from typing import Any

from derivations.processes.interruption import Interrupted, checkpoint, interruptible

__all__ = ["GRACE", "TRIES", "End", "Work", "WorkerPool", "ended", "in_order", "run_alone"]

TRIES = 2
STARTS = 3  # in a row that may come to nothing
GRACE = 30.0  # seconds to finish a step and to save


@dataclass(frozen=True)
class Work:
    """Says what a worker does.

    `begin`, module:function, is called once in each process, with `arguments`; what it returns is called with each key.
    """

    begin: str
    arguments: tuple[Hashable, ...] = ()
    threads: int = 1

    def begun(self) -> Callable[[Any], Any]:
        begin: Callable[..., Callable[[Any], Any]] = resolve_name(self.begin)
        return begin(*self.arguments)


@dataclass(frozen=True)
class End:
    """Says how the work on a key ended: what was returned, the error that was raised, or in words how its process was lost."""

    key: Any
    returned: Any = None
    error: Exception | None = None
    lost: str = ""

    @property
    def result(self) -> Any:
        """Return what was returned. Raises: the error, or RuntimeError where the process was lost."""
        if self.error is not None or self.lost:
            raise self.error or RuntimeError(self.lost)
        return self.returned


def ended(do: Callable[[Any], Any], key: object) -> End:
    """Do the work on a key, and say how it ended; an error is one that can be sent, with its traceback as a note."""
    try:
        return End(key, do(key))
    except Exception as error:
        return End(key, error=_sendable(error))


def in_order(ends: Generator[End, None, None], keys: Iterable[object]) -> Generator[Any, None, None]:
    """Yield what was returned for these keys, in this order. However it is left, `ends` is closed. Raises: as `End.result`."""
    early: dict[object, End] = {}
    with closing(ends):
        for key in keys:
            while key not in early:
                end = next(ends)
                early[end.key] = end
            yield early.pop(key).result


def run_alone(work: Work, key: object) -> End:
    """Do the work on one key in a process of its own."""
    with closing(WorkerPool(1, work).carry_out([key])) as ends:
        return next(ends)


@dataclass
class WorkerPool:
    """Runs at most `size` worker processes.

    `tick` is called with the keys at work about every `every` seconds, and whenever something happened; None: then only.
    """

    size: int
    work: Work
    tick: Callable[[list[Any]], None] = lambda keys: None
    every: float | None = None
    _workers: list[_Worker] = field(default_factory=list, init=False)
    _waiting: deque[Any] = field(default_factory=deque, init=False)
    _lost: list[Any] = field(default_factory=list, init=False)  # keys at which a worker died; they need not be hashable
    _failed_starts: int = field(default=0, init=False)  # in a row

    def carry_out(self, keys: Sequence[object]) -> Generator[End, None, None]:
        """Yield how each ends, as it is known. However this is left, no process is."""
        self._waiting, self._lost, self._failed_starts = deque(keys), [], 0
        try:
            while self._waiting or self._at_work():
                self._assign()
                self.tick(self._at_work())
                for worker in self._with_messages():
                    yield from self._heard(worker)
        finally:
            self._stop()

    def _heard(self, worker: _Worker) -> Iterator[End]:
        """Yield how a key ended, if the worker's message says that, or its death does."""
        try:
            end = worker.message()
        except (EOFError, OSError):  # a dead one, without a whole message left
            yield from self._after_death(worker)
            return
        if end is None:
            worker.ready, self._failed_starts = True, 0
        else:
            worker.key = None
            yield end

    def _after_death(self, worker: _Worker) -> Iterator[End]:
        """Put the key of a dead worker back into the queue; yield the end of a key whose worker died twice, or of all."""
        words = self._remove(worker)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                yield from (End(key, lost=f"no worker process comes up: it {words}") for key in self._waiting)
                self._waiting.clear()
        elif worker.key is not None:
            self._lost.append(worker.key)
            if sum(key is worker.key for key in self._lost) < TRIES:
                self._waiting.appendleft(worker.key)
            else:
                yield End(worker.key, lost=f"its process {words}, {TRIES} times")

    def _at_work(self) -> list[Any]:
        return [worker.key for worker in self._workers if worker.key is not None]

    def _assign(self) -> None:
        """Give keys to idle workers, and start processes for the rest, up to `size`."""
        for worker in self._workers:
            if worker.ready and worker.key is None and self._waiting:
                worker.give(self._waiting.popleft())
        coming = sum(not worker.ready for worker in self._workers)
        for _ in range(min(self.size - len(self._workers), len(self._waiting) - coming)):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(target=_live, args=(theirs, self.work))
            process.start()
            theirs.close()  # only the worker has it now, so that its end is seen here
            self._workers.append(_Worker(process, ours))

    def _with_messages(self) -> list[_Worker]:
        """Return the workers with a message, or that died: then the pipe ends."""
        ready = wait([worker.connection for worker in self._workers], self.every)
        return [worker for worker in self._workers if worker.connection in ready]

    def _remove(self, worker: _Worker) -> str:
        """Remove a dead worker; return how it ended."""
        worker.process.join(GRACE)
        self._workers.remove(worker)
        worker.connection.close()
        code = worker.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return f"was killed by {name}" + (" (perhaps memory ran out)" if name == "SIGKILL" else "")
        return f"ended with exit code {code}"

    def _stop(self) -> None:
        """Tell idle workers that there are no more keys, ask the others to save and end, and end those who do not."""
        try:
            for worker in self._workers:
                if worker.ready and worker.key is None:
                    worker.give(None)
                else:
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


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False
    key: Any = None

    def give(self, key: object) -> None:
        """Send a key, or None: no more. A dead one is found out by its pipe."""
        self.key = key
        with suppress(OSError):
            self.connection.send(key)

    def message(self) -> End | None:
        """Return how its key ended, or None: it is ready. Raises: EOFError or OSError where it is dead."""
        data = self.connection.recv_bytes()
        try:
            message: End | None = pickle.loads(data)
        except Exception as error:
            return End(self.key, error=error)
        return message


def _live(connection: Connection, work: Work) -> None:
    """Live the whole life of a worker process."""
    if hasattr(os, "setsid"):
        os.setsid()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(work.threads)  # torch reads them as it is imported
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    try:
        with interruptible():
            do = _begun(work)
            connection.send(None)
            while (key := connection.recv()) is not None:
                checkpoint()
                _send(connection, ended(do, key))
                checkpoint()
    except Interrupted as signal_:
        sys.exit(signal_.code)
    except (EOFError, OSError):
        sys.exit(1)  # the parent is gone: nobody to tell


def _begun(work: Work) -> Callable[[Any], Any]:
    try:
        return work.begun()
    except Exception as error:
        failure = _sendable(error)

        def fail(key: object) -> Any:
            raise failure

        return fail


def _send(connection: Connection, end: End) -> None:
    try:
        data = pickle.dumps(end)
    except Exception as error:
        data = pickle.dumps(End(end.key, error=_sendable(error)))
    connection.send_bytes(data)


def _sendable(error: Exception) -> Exception:
    """Return the error with its traceback as a note, or the traceback alone where the error is not the same once it is read."""
    words = traceback.format_exc()
    with suppress(Exception):
        error.add_note(words)
        read = pickle.loads(pickle.dumps(error))
        if (type(read), str(read)) == (type(error), str(error)):
            return error
    return RuntimeError(words)


def _end_with_the_parent() -> None:
    """Wait for the end of the parent; then save and end, whatever it is that is done."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(143)
