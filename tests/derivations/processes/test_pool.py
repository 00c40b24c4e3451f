"""A pool of worker processes: what one of them does to itself costs its own work only; however the pool is left, none is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derivations.processes.pool import End, Work, WorkerPool, in_order, run_alone

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[3]


@pytest.fixture
def light(monkeypatch):
    """Workers that import neither pytest, as the module that started the program, nor anything else."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # a worker of pytest-xdist has none


@pytest.mark.usefixtures("light")
def test_what_happens_to_one_piece_of_work_costs_no_other(tmp_path):
    good = [f"good {number}" for number in range(9)]
    odd = ["dies", "dies-once", "memory", "error", "odd-error", "own-words", "odd-value", "no-value", "large"]
    keys = [key for pair in zip(odd, good, strict=True) for key in pair]
    ends = {end.key: end for end in WorkerPool(2, Work("pool_work:begin", (str(tmp_path),))).carry_out(keys)}
    assert ends.keys() == set(keys)
    assert [ends[key].result[0] for key in good] == list(range(9))
    assert len({ends[key].result[1] for key in good}) <= 2 + 3  # workers are used again: one more for each death
    assert ends["dies"].lost == "its process was killed by SIGKILL (perhaps memory ran out), 2 times"
    assert (ends["dies-once"].result, len(ends["large"].result)) == ("again", 1 << 22)
    for key, kind, words in (
        ("memory", MemoryError, None),
        ("error", ValueError, "invalid literal for int"),
        ("odd-error", RuntimeError, "TwoWordsError: one"),
        ("own-words", RuntimeError, r"WordsOfItsOwnError: there is no wind\."),
        ("odd-value", TypeError, "missing 1 required positional argument"),
        ("no-value", Exception, "local object"),
    ):
        with pytest.raises(kind, match=words):
            _ = ends[key].result
    assert "in work" in ends["error"].error.__notes__[0]  # the traceback of the worker


@pytest.mark.usefixtures("light")
def test_keys_need_not_be_hashable_where_a_worker_dies(tmp_path):
    keys = [("dies-once", ["seed=0"]), ("dies", ["seed=1"]), ("good 2", ["seed=2"])]
    ends = {end.key[0]: end for end in WorkerPool(1, Work("pool_work:of_pairs", (str(tmp_path),))).carry_out(keys)}
    assert (ends["dies-once"].result, ends["good 2"].result[0]) == ("again", 2)
    assert "SIGKILL" in ends["dies"].lost


@pytest.mark.usefixtures("light")
def test_what_dies_after_no_worker_comes_up_any_more_is_not_waited_for(tmp_path):
    deadline = time.monotonic() + 60

    def tick(keys):
        assert time.monotonic() < deadline

    ends = list(WorkerPool(2, Work("pool_work:beginning_once", (str(tmp_path),)), tick).carry_out(["one", "two", "three"]))
    assert sorted(end.key for end in ends) == ["one", "three", "two"]
    assert {end.lost for end in ends} == {"no worker process comes up: it ended with exit code 3"}


@pytest.mark.usefixtures("light")
def test_a_worker_that_cannot_begin_says_why():
    with pytest.raises(ValueError, match="there is no such file"):
        _ = run_alone(Work("pool_work:failing"), "key").result


@pytest.mark.usefixtures("light")
def test_a_worker_without_anything_to_do_ends_of_itself_when_the_pool_is_left(tmp_path):
    pool = WorkerPool(1, Work("pool_work:begin", (str(tmp_path),)))
    ends = pool.carry_out(["good 1"])
    assert next(ends).result[0] == 1
    (worker,) = pool._workers
    ends.close()
    assert worker.process.exitcode == 0  # and was not waited for, and killed


def test_returns_come_in_the_order_that_is_asked_for_and_the_rest_is_closed():
    def ends():
        try:
            yield from (End(key, key) for key in "bca")
            yield End("d", lost="lost")
        finally:
            closed.append(True)

    closed = []
    returned = in_order(ends(), "abcd")
    assert [next(returned) for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(RuntimeError, match=r"^lost$"):
        next(returned)
    assert closed


SCRIPT = """
import sys
from derivations.processes.pool import Work, WorkerPool
if __name__ == "__main__":
    for end in WorkerPool(2, Work("pool_work:sleeping", (sys.argv[1],))).carry_out(sys.argv[2:]):
        print(end.key, end.lost or len(end.result), flush=True)
"""


def begun(folder, *keys):
    """A program whose workers are at these keys, and their ids."""
    (folder / "script.py").write_text(SCRIPT)
    call = subprocess.Popen(
        [sys.executable, str(folder / "script.py"), str(folder), *keys], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(files := list(folder.glob("begun-*"))) < len(keys):
        assert call.poll() is None, call.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return call, [int(file.name.partition("-")[2]) for file in files]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_save_and_end_though_the_program_does_nothing_about_it(number, tmp_path):
    call, pids = begun(tmp_path, "one", "other")
    call.send_signal(number)
    call.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))
    assert len(list(tmp_path.glob("saved-*"))) == 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
def test_a_worker_killed_in_the_midst_of_a_message_is_replaced(tmp_path):
    call, (worker,) = begun(tmp_path, "large")
    call.send_signal(signal.SIGSTOP)  # so that nobody reads, and the worker stands in the midst of its message
    wait_until_blocked(worker)
    os.kill(worker, signal.SIGKILL)
    call.send_signal(signal.SIGCONT)
    assert call.communicate(timeout=60) == (f"large {1 << 24}\n", "")


def wait_until_blocked(pid):
    """Wait until it waits for a reader: it sleeps, and goes on doing so."""
    deadline, looks = time.monotonic() + 60, 0
    while looks < 5:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        looks = looks + 1 if state == "S" else 0
        assert time.monotonic() < deadline
        time.sleep(0.05)
