r"""Stops a computation that runs too long, wherever it is: SymPy does not ask the clock, and code of a user's neither.

    try:
        with time_limit(60):
            ...
    except OutOfTime:
        ...                 undecided

Once the time is over, the thread of the block is followed, and it raises `OutOfTime` where a function or a round of a loop
begins: there nothing has just been taken that a `try` would give back in the next line. It does not within the code of locks,
logs and imports, nor in a `finally`, an `__enter__` or an `__exit__`. What is nested ends at the nearest limit.
"""

from __future__ import annotations

import ast
import ctypes
import dis
import linecache
import math
import re
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache, partial
from operator import call
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

__all__ = ["OutOfTime", "time_limit"]

AGAIN = 0.1  # seconds until the next attempt: a bare `except:`, a destructor or a limit inside may have swallowed the first
LOOK = 0.02  # seconds that a thread is followed at a time: the rest of an import, which is not ended, would take minutes

# These take what they give back in another function of theirs, or are called where nobody takes an exception.
TAKING = (
    *("_frozen_importlib", "_frozen_importlib_external", "importlib", "logging", "threading", "queue", "concurrent", "asyncio"),
    *("multiprocessing", "subprocess", "contextlib", "weakref", "_weakrefset", "torch.utils.weak"),
)
DECORATED = "inner"  # of contextlib: runs a function within a context
JUMPS = [name for name in dis.opmap if "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name]
UNDIVIDED = re.compile(r"__a?enter__|__a?exit__|__del__|_*(acquire|release|f?lock|unlock)(_?[lL]ock|_restore|_save)?")


class OutOfTime(BaseException):
    """Raised in a block that runs longer than its limit; no Exception, for SymPy and torch catch those and go on."""


class time_limit(threading._CRLock):  # type: ignore[name-defined]  # noqa: N801  # named as a function is
    r"""Limit the seconds that the block of a `with` statement may take; in any thread.

    The lock is held while the block runs, and its `__exit__` is a C function: OutOfTime cannot come while it is left, nor
    after. A single call into C (a huge power, one product of matrices, waiting for a lock) is ended when it returns, not
    before, and so are imports and `finally`. A thread has one trace function in Python 3.11: a debugger's is gone once a limit of
    its thread is over.

    Args:    seconds: above 0; None or inf is no limit.
    Raises:  ValueError where seconds are not above 0; OutOfTime in the block.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        if not self.seconds > 0:
            raise ValueError(f"`seconds` must be above 0, got {seconds}.")

    def __enter__(self) -> Self:
        self.acquire()
        try:
            if self.seconds <= threading.TIMEOUT_MAX:
                threading.Thread(target=self._watch, args=[_block_of(sys._getframe(1))], daemon=True).start()
        except BaseException:  # Ctrl-C: then no block begins, and none is left
            self.release()
            raise
        return self

    def _watch(self, block: _Block) -> None:
        seconds = self.seconds
        while not self.acquire(timeout=seconds):
            _expired[self] = block
            _follow(self, block)
            seconds = AGAIN
        _expired.pop(self, None)
        self.release()


class _Block(NamedTuple):
    """Holds where the block of a limit runs: its thread, how many frames there are up to its own, the line that began it, and the
    thread's state in C, by which Python 3.11 has another thread trace itself."""

    thread: int
    depth: int
    line: int
    state: int


_expired: dict[time_limit, _Block] = {}  # those whose threads are followed


def _block_of(frame: FrameType) -> _Block:
    while frame.f_back is not None and frame.f_globals.get("__name__") == "contextlib":  # `enter_context` of an ExitStack
        frame = frame.f_back
    return _Block(threading.get_ident(), sum(1 for _ in _frames(frame)), frame.f_lineno, _state())


def _passes(frame: FrameType, place: int, begins: bool) -> None:
    """Raise in a thread whose limit is over, if it leaves nothing behind here; called at each of its instructions."""
    for limit, block in _of_this_thread():
        if (begins or place in _heads(frame.f_code)) and _leaves_nothing(frame, block):
            _expired.pop(limit, None)
            raise OutOfTime


def _of_this_thread() -> list[tuple[time_limit, _Block]]:
    thread = threading.get_ident()
    return [(limit, block) for limit, block in [*_expired.items()] if block.thread == thread and limit._is_owned()]


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _leaves_nothing(frame: FrameType, block: _Block) -> bool:
    """Return whether no function that the block called is in the midst of what must be ended, or undone."""
    stack = [*_frames(frame)]
    own = len(stack) - block.depth
    if any(UNDIVIDED.fullmatch(each.f_code.co_name) or _is_taking(each) for each in stack[: max(own, 0)]):
        return False
    for k, each in enumerate(stack[: own + 1]):  # after the above, for each file is read
        outside = block.line if k == own else None
        if any(each.f_lineno in lines and outside not in lines for lines in _endings(each.f_code.co_filename)):
            return False
    return own >= 0


def _is_taking(frame: FrameType) -> bool:
    module = f"{frame.f_globals.get('__name__')}."
    return frame.f_code.co_name != DECORATED and module.startswith(tuple(f"{name}." for name in TAKING))


@cache
def _endings(filename: str) -> list[range]:
    """Return the lines of `finally`, and of what is done before a bare `raise`."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return []
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try | ast.TryStar)]
    handlers = [h.body for node in tries for h in node.handlers]
    undone = [body for body in handlers if isinstance(body[-1], ast.Raise) and body[-1].exc is None]
    bodies = [*undone, *(node.finalbody for node in tries if node.finalbody)]
    return [range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1) for body in bodies]


@cache
def _heads(code: CodeType) -> frozenset[int]:
    """Return where loops begin again."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in JUMPS)


if sys.version_info >= (3, 12):
    EVENTS = sys.monitoring.events.PY_START, sys.monitoring.events.INSTRUCTION  # raised in JUMP, `with` would not be left

    def _state() -> int:
        return 0

    def _follow(limit: time_limit, block: _Block) -> None:
        """Look at each instruction of all threads for a while."""
        sys.monitoring.set_events(_tool(), sum(EVENTS))
        if limit.acquire(timeout=LOOK):
            limit.release()
        _expired.pop(limit, None)
        if not _expired:  # else those who follow others look again
            sys.monitoring.set_events(_tool(), 0)

    @cache
    def _tool() -> int:
        free = next(number for number in (4, 3, 5, 2, 1, 0) if sys.monitoring.get_tool(number) is None)
        sys.monitoring.use_tool_id(free, "time_limit")
        for event in EVENTS:
            begins = event == sys.monitoring.events.PY_START
            sys.monitoring.register_callback(free, event, lambda _, place, b=begins: _passes(sys._getframe(1), place, b))
        return free

else:
    Tracer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    _state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    _trace_there = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Tracer, ctypes.c_void_p)(
        ("_PyEval_SetTrace", ctypes.pythonapi)
    )

    _until: dict[int, float] = {}  # when a thread rests

    def _follow(limit: time_limit, block: _Block) -> None:
        """Have the thread trace itself for a while."""
        frame = sys._current_frames().get(block.thread)
        if frame is not None:
            frame.f_trace_opcodes = True  # a loop of one instruction begins no line
        # All in C, where no other thread runs: the thread does not leave the block, and end, in between.
        if any(map(call, (partial(limit.acquire, blocking=False), partial(_trace_there, block.state, _begin_to_trace, None)))):
            limit.release()

    @Tracer
    def _begin_to_trace(*_: object) -> int:
        """Begin to trace, called in the thread that is to trace itself, by the first instruction that comes."""
        _until[threading.get_ident()] = time.monotonic() + LOOK
        sys.settrace(_trace)
        frame = sys._getframe(1)
        depth = min((block.depth for _, block in _of_this_thread()), default=sys.maxsize)
        stack = [*_frames(frame)]
        for each in stack[: max(len(stack) - depth + 1, 0)]:
            each.f_trace, each.f_trace_opcodes = _trace, True
        return 0

    def _trace(frame: FrameType, event: str, _: object) -> Any:
        if not _of_this_thread() or time.monotonic() > _until.get(threading.get_ident(), 0.0):
            sys.settrace(None)
            _until.pop(threading.get_ident(), None)
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode"):
            resume = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] == bytes([dis.opmap["RESUME"], 0])
            _passes(frame, frame.f_lasti, event == "call" and resume)
        return _trace
