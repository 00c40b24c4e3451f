import threading
from contextlib import suppress

import pytest
from cases import each

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


def test_an_endless_loop_ends_in_the_thread_of_its_limit():
    # An endless loop ends.
    with pytest.raises(OutOfTime), time_limit(SHORT):
        forever()
    # A handler inside that swallows it is interrupted again.
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
    # It ends the loop of the thread that it was set in.
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


@each(("outer", "inner"), [(SHORT, 1000), (1000, SHORT), (SHORT, SHORT), (SHORT, None)])
def test_of_nested_limits_the_nearest_ends_the_loop(outer, inner):
    with pytest.raises(OutOfTime), time_limit(outer), time_limit(inner):
        forever()


def test_a_limit_that_is_over_stays_over():
    # A limit that is over ends every further one inside.
    def three():
        for _ in range(3):
            with suppress(OutOfTime), time_limit(1000):
                forever()

    with suppress(OutOfTime), time_limit(SHORT):  # by chance between two of them, and then it is not caught
        three()
    # Nothing comes after the end.
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


@each("seconds", [None, float("inf"), 1e12, 1000])
def test_far_limits_leave_results_alone(seconds):
    with time_limit(seconds):
        result = sum(range(10))
    assert result == 45


@each("seconds", [0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ValueError, match="`seconds` must be above 0"):
        time_limit(seconds)
