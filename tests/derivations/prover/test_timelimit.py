import importlib
import logging
import sys
import threading
import time
from contextlib import ExitStack, suppress

import pytest
import torch
from sympy import Symbol, evaluate, sin
from sympy.core.parameters import global_parameters
from torch.fx.experimental.proxy_tensor import make_fx

from derivations.prover.timelimit import OutOfTime, time_limit

# Out of time within a destructor or a callback of the garbage collector is printed and lost: it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SHORT = 0.05


def forever(swallow=()):
    while True:
        try:
            while True:
                pass
        except swallow:
            pass


def test_an_endless_loop_ends_at_its_limit():
    with pytest.raises(OutOfTime), time_limit(SHORT):
        forever()


def test_a_handler_inside_that_swallows_the_end_is_interrupted_again():
    caught = []

    def swallows_three():
        while len(caught) < 3:
            try:
                forever()
            except BaseException as error:
                caught.append(error)
        forever()

    with pytest.raises(OutOfTime), time_limit(SHORT):
        swallows_three()
    assert len(caught) == 3


def test_a_limit_ends_the_loop_of_the_thread_that_it_was_set_in():
    ended = []

    def work():
        try:
            with time_limit(SHORT):
                forever()
        except OutOfTime:
            ended.append(threading.current_thread().name)

    worker = threading.Thread(target=work, name="worker")
    worker.start()
    worker.join()
    assert ended == ["worker"]


@pytest.mark.parametrize(("outer", "inner"), [(SHORT, 1000), (1000, SHORT), (SHORT, SHORT), (SHORT, None)])
def test_of_nested_limits_the_nearest_ends_the_loop(outer, inner):
    with pytest.raises(OutOfTime), time_limit(outer), time_limit(inner):
        forever()


def test_a_limit_that_is_over_ends_every_further_one_inside():
    def three():
        for _ in range(3):
            with suppress(OutOfTime), time_limit(1000):
                forever()

    with suppress(OutOfTime), time_limit(SHORT):  # by chance between two of them, and then it is not caught
        three()


def test_nothing_comes_after_the_end_of_a_limit():
    # Blocks that end about when their limits do: an exception that came late would leave the `try`.
    for k in range(300):
        try:
            with time_limit(1e-4 * (1 + k % 7)):
                sum(range(1000 * (k % 20)))
        except OutOfTime:
            pass
        sum(range(2000))
    for watcher in (thread for thread in threading.enumerate() if "_watch" in thread.name):
        watcher.join()


@pytest.mark.parametrize("seconds", [None, float("inf"), 1e12, 1000])
def test_far_limits_leave_results_alone(seconds):
    with time_limit(seconds):
        result = sum(range(10))
    assert result == 45


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ValueError, match="`seconds` must be above 0"):
        time_limit(seconds)


LOG, LOCK, TAKEN = logging.getLogger("of the limits"), threading.Lock(), []


def logs():
    while True:
        LOG._cache.clear()
        LOG.isEnabledFor(20)


def locks():
    while True:
        LOCK.acquire()
        try:
            sum(range(100))
        finally:
            LOCK.release()


def holds():
    with LOCK:
        while True:
            pass


class Taking:
    def __enter__(self):
        TAKEN.append(1)
        self.settle()

    def __exit__(self, *_):
        self.settle()
        TAKEN.pop()

    def settle(self):
        return [k + 1 for k in range(3)]


def takes():
    while True:
        with Taking():
            pass


def gives_back():
    def back():
        TAKEN.pop()

    while True:
        TAKEN.append(1)
        try:
            pass
        finally:
            back()


def stacks():
    while True:
        with ExitStack() as stack:
            stack.enter_context(Taking())


def evaluates():
    while True:
        with evaluate(False):
            SIN + SIN


SIN = sin(Symbol("x"))
WORK = [logs, locks, holds, takes, gives_back, stacks, evaluates]


def tried(work, seconds):
    with suppress(OutOfTime), time_limit(seconds):
        work()
    held = [LOCK.locked(), bool(logging._lock) and logging._lock._is_owned(), bool(TAKEN), not global_parameters.evaluate]
    return ["a lock", "the lock of logging", "what was entered", "SymPy's switch"][held.index(True)] if True in held else None


@pytest.mark.parametrize("work", WORK)
def test_what_was_taken_is_given_back_when_the_time_is_over(work):
    assert [tried(work, 0.003) for _ in range(15)] == [None] * 15


@pytest.mark.slow
def test_ten_thousand_limits_leave_nothing_behind_beside_threads_that_log_import_and_record(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "of_the_limits.py").write_text("import json\n")
    over, recording = threading.Event(), threading.Lock()

    def logging_too():
        LOG.isEnabledFor(20)
        LOG._cache.clear()

    def importing():
        sys.modules.pop("of_the_limits", None)
        importlib.import_module("of_the_limits")

    def record():
        with recording:
            make_fx(lambda x: torch.tanh(x) + x, tracing_mode="fake")(torch.ones(3))

    def again(work):
        while not over.is_set():
            work()
            time.sleep(1e-4)

    def records():
        while True:
            record()

    beside = [threading.Thread(target=again, args=[work]) for work in (logging_too, importing, record)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # the threads change places fifty times as often
    try:
        for thread in beside:
            thread.start()
        for k in range(10_000):
            work = [*WORK, records][k % (len(WORK) + 1)]
            assert tried(work, 0.001) is None
            assert not torch._C._len_torch_dispatch_stack()
    finally:
        over.set()
        sys.setswitchinterval(interval)
    for thread in beside:
        thread.join(60)
        assert not thread.is_alive()


def test_a_finally_runs_to_its_end():
    ended = []

    def work():
        try:
            forever()
        finally:
            for k in range(2000):
                if k % 10 == 0:
                    ended.append(k)

    with pytest.raises(OutOfTime), time_limit(SHORT):
        work()
    assert len(ended) == 200


def test_a_limit_within_a_finally_ends_its_block():
    try:
        pass
    finally:
        with pytest.raises(OutOfTime), time_limit(SHORT):
            forever()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there no thread traces itself")
def test_an_import_that_outlasts_its_limit_goes_on_untraced_in_between(tmp_path, monkeypatch):
    # It is not ended, and would take a minute instead of a second if each instruction of it were looked at.
    (tmp_path / "of_many_lines.py").write_text(
        "import sys\nbegun = over = False\n"
        "for k in range(2_000_000):\n    begun = begun or sys.gettrace() is not None\n"
        "    over = begun and sys.gettrace() is None\n    if over: break\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def imports():
        assert importlib.import_module("of_many_lines").over
        forever()

    with pytest.raises(OutOfTime), time_limit(SHORT):
        imports()
