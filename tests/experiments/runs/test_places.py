"""Runs go elsewhere by one word: what does not answer is told in a line, and elsewhere's runs are those of this machine."""

import csv
import ctypes
import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace

import pytest

import discretize
from ctrnn.extras import MissingPackageError
from derivations.processes.interruption import Interrupted, interruptible
from derivations.processes.pool import End, Work, ended
from experiments.__main__ import main
from experiments.runs import on_ray
from experiments.runs.on_slurm import SlurmPool, _Job
from experiments.runs.places import WorkPlace, place
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
SWEEP = ["train", "--task", "recall", "--field", "plain", "--set", "seed=0,1", "steps=3", "hidden=4", "length=12", "threads=1"]


class OddError(Exception):
    pass


def ray_that(monkeypatch, init, processors=2):
    """A double of Ray, of which `init` is called."""
    ray = ModuleType("ray")
    ray.init = init
    ray.cluster_resources = lambda: {"CPU": processors} if processors else {}
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(on_ray, "ANSWERS", 0.3)
    monkeypatch.setattr(on_ray, "STARTS", 0.3)


def raising(**options):
    raise OddError("\nno token in ~/.ray\nTraceback\n" + "a line\n" * 30)


@pytest.mark.parametrize("more", [["--workers", "2"], ["--on", "ray"], ["--on", "slurm"]])
def test_processes_of_torchrun_hand_out_no_runs_each_of_which_would_wait_for_the_other_one(more, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert main([*SWEEP, *more, "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()  # the first process alone says how many runs there are
    assert line == "ctrnn train: torchrun's 2 processes train one run together, and --workers and --on runs apart; take one way."
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("on", ["ray", "ray:a:1"])
def test_whatever_ray_raises_is_one_line_and_no_run_is_begun(on, monkeypatch, tmp_path, capsys):
    ray_that(monkeypatch, raising)
    assert main([*SWEEP, "--on", on, "--out", str(tmp_path / "out")]) == 2
    assert (
        capsys.readouterr().err.splitlines()[-1] == f"ctrnn train: --on {on}: Ray does not start (OddError: no token in ~/.ray)."
    )
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    ("where", "mode"), [("file", "token"), ("RAY_AUTH_TOKEN_PATH", "token"), (None, None), ("off", "disabled")]
)
def test_ray_shows_the_token_that_is_here_to_an_address_too(where, mode, monkeypatch, tmp_path):
    ray_that(monkeypatch, lambda **options: None)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that all are as they were in the end
        monkeypatch.delenv(name)
    if where in ("file", "off"):
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a token")
    elif where:
        monkeypatch.setenv(where, "elsewhere")
    if where == "off":
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    place("ray:a:1", None, Path())
    assert os.environ.get("RAY_AUTH_MODE") == mode


class Clock:
    """A clock that the waits of `on_ray` move, and nothing else."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


class NeverStarted:
    """A start of Ray of which nothing is heard, or that is up at once."""

    is_up, error = False, None

    def __init__(self, clock, is_up):
        self.clock, self.is_up = clock, is_up

    def join(self, limit):
        self.clock.sleep(0.0 if self.is_up else limit)


@pytest.mark.parametrize("is_up", [False, True])
@pytest.mark.parametrize(("on", "most"), [("ray", 90.0), ("ray:a:1", 30.0)])
def test_ray_is_waited_for_half_a_minute_where_it_runs_and_no_longer_than_it_takes_to_start(on, most, is_up, monkeypatch):
    clock, starts = Clock(), (on_ray.ANSWERS, on_ray.STARTS)
    ray_that(monkeypatch, lambda **options: None, 0)  # a cluster without a node, where it is up
    for name, value in zip(("ANSWERS", "STARTS"), starts, strict=True):
        monkeypatch.setattr(on_ray, name, value)
    monkeypatch.setattr(on_ray, "time", clock)
    monkeypatch.setattr(on_ray, "_Start", lambda address: NeverStarted(clock, is_up))
    with pytest.raises(UsageError, match=f"after {most:.0f} s"):
        place(on, None, Path())
    assert most <= clock.seconds < most + 1


@pytest.mark.parametrize(("on", "words"), [("ray", "it does not come up"), ("ray:a:1", "nobody answers")])
def test_a_cluster_that_does_not_answer_is_told_after_a_while(on, words, monkeypatch):
    never = Event()
    ray_that(monkeypatch, lambda **options: never.wait(5))
    with pytest.raises(UsageError, match=f"--on {on}: {words} after"):
        place(on, None, Path())
    never.set()


def test_a_cluster_without_a_node_is_told_and_one_with_nodes_bounds_how_many_are_at_work(monkeypatch, capsys):
    ray_that(monkeypatch, lambda **options: None, 0)
    with pytest.raises(UsageError, match="no node with a processor is in it"):
        place("ray:a:1", None, Path())
    ray_that(monkeypatch, lambda **options: None, 7)
    assert [place("ray", workers, Path()).size for workers in (None, 3, 9)] == [7, 3, 7]
    assert capsys.readouterr().err.splitlines()[-1] == "Starting Ray."


def terminated_on_ray():
    place("ray", None, Path())
    os.kill(os.getpid(), signal.SIGTERM)
    Event().wait(5)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a batch system")
def test_a_signal_is_heard_though_ray_sets_a_handler_of_its_own(monkeypatch):
    ray_that(monkeypatch, lambda **options: ctypes.CDLL(None).signal(int(signal.SIGTERM), 1))  # 1: SIG_IGN
    with pytest.raises(Interrupted), interruptible():
        terminated_on_ray()


def terminated_in_a_call(tasks, timeout, num_returns=0):
    if num_returns:
        return  # waits for those that were cancelled
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        Event().wait(5)
    except Interrupted as error:
        raise SystemError("returned a result with an exception set") from error


def work_on_ray():
    list(on_ray.RayPool(1, Work("test_places:begin", (10,))).carry_out(["key"]))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a batch system")
def test_a_signal_within_a_call_of_ray_ends_as_one_and_cancels_what_is_at_work(monkeypatch):
    ray_that(monkeypatch, lambda **options: None)
    cancelled = []
    task = SimpleNamespace(remote=lambda *given: "task")
    sys.modules["ray"].remote = lambda **options: {on_ray._carried_out: task}.get
    sys.modules["ray"].wait = terminated_in_a_call
    sys.modules["ray"].cancel = lambda task, force: cancelled.append(task)
    sys.modules["ray"].shutdown = lambda: None
    with pytest.raises(Interrupted), interruptible():
        work_on_ray()
    assert cancelled == ["task"]


@pytest.mark.parametrize("missing", ["ray", "submitit"])
def test_a_package_that_is_missing_is_named(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingPackageError, match=r"needs (Ray|submitit): pip install .*cluster"):
        place({"submitit": "slurm"}.get(missing, missing), None, Path())


def test_slurm_is_asked_for_where_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(SlurmExecutor=SimpleNamespace(affinity=lambda: -1)))
    with pytest.raises(UsageError, match="hands jobs to sbatch, which is not here"):
        place("slurm", None, Path())


def begin(offset):
    def work(key):
        name, number = key
        if name == "bad":
            raise UsageError("a bad one")
        if name == "dies":
            os._exit(3)
        return number + offset

    return work


def failing():
    raise UsageError("the plugin is not here")


def test_what_cannot_begin_in_a_worker_of_a_cluster_is_told_and_not_taken_for_a_lost_worker(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/experiments/runs"))
    on_ray._begun.cache_clear()
    assert str(on_ray._carried_out(Work("test_places:failing", ()), "key", ".", {}).error) == "the plugin is not here"
    assert str(_Job(Work("test_places:failing", ()), "key")().error) == "the plugin is not here"


def from_environment():
    return lambda key: os.environ["CTRNN_DATA"]


def test_a_worker_of_a_cluster_has_the_folder_of_data_of_the_command(monkeypatch):
    monkeypatch.setenv("CTRNN_DATA", "that of the node")
    monkeypatch.syspath_prepend(str(ROOT / "tests/experiments/runs"))
    end = on_ray._carried_out(Work("test_places:from_environment", ()), "key", ".", {"CTRNN_DATA": "that of --data"})
    assert end.result == "that of --data"


@dataclass
class Ended:
    """A pool whose workers do not come up."""

    size: int
    work: Work

    def carry_out(self, keys):
        yield from (ended(lambda key: self.work.begun()(key), key) for key in keys)  # noqa: PLW0108


@dataclass
class Unseen:
    """A pool whose workers print where nobody sees it."""

    size: int
    work: Work

    def carry_out(self, keys):
        for key in keys:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                end = End(key, self.work.begun()(key))
            yield end


def test_what_a_run_elsewhere_says_is_printed_here_and_why_it_stopped(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("experiments.runs.places.place", lambda *of: WorkPlace(Unseen, 1, 1))
    words = ["train", "--task", "recall", "--field", "gated-exponential", "--integrator", "euler", "--out", str(tmp_path)]
    settings = ["length=20", "hidden=12", "batch=8", "evaluation=16", "threads=1", "optimizer=adam", "lr=0.02", "clip=1"]
    with pytest.warns(discretize.StepWarning):
        assert main([*words, "--on", "ray", "--set", *settings, "steps=1,200"]) == 1
    printed = capsys.readouterr()
    assert "steps-1: recall, gated-exponential under euler, 1 steps" in printed.out
    assert "1 of 2 runs are not finished" in printed.out
    assert "ctrnn train: steps-200: " in printed.err


def test_a_sweep_of_which_no_run_begins_elsewhere_is_told_as_that(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("experiments.runs.command.begin", lambda *given: failing())
    monkeypatch.setattr("experiments.runs.places.place", lambda *of: WorkPlace(Ended, 1, 1))
    assert main([*SWEEP, "--on", "ray", "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert "ctrnn train: seed-0: the plugin is not here" in printed.err
    assert "2 of 2 runs are not finished" in printed.out


@pytest.mark.slow
def test_jobs_return_what_processes_return_and_a_lost_one_is_told(tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="pip install -c constraints.txt '.[cluster]'")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests/experiments/runs'}")
    monkeypatch.syspath_prepend(str(ROOT / "tests/experiments/runs"))
    keys = [("one", 1), ("bad", 2), ("three", 3), ("dies", 4)]
    pool = SlurmPool(2, Work("test_places:begin", (10,)), every=0.1, folder=tmp_path, cluster="local")
    ends = {end.key[0]: end for end in pool.carry_out(keys)}
    assert (ends["one"].result, ends["three"].result) == (11, 13)
    with pytest.raises(UsageError, match="a bad one"):
        _ = ends["bad"].result
    assert "was lost" in ends["dies"].lost


DYING = """
import os, signal
from experiments.tasks.warps.recall import Recall

class Dying(Recall):
    drawn_before = 0

    def drawn(self, size, generator, split):
        Dying.drawn_before += 1
        if Dying.drawn_before == 20 and "DYING" in os.environ:
            try:
                os.close(os.open(os.environ["DYING"], os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return super().drawn(size, generator, split)

TASKS = {"dying": Dying}
"""


def table_of(folder):
    """runs.csv without its seconds."""
    with (folder / "runs.csv").open() as file:
        return [{key: value for key, value in row.items() if "second" not in key} for row in csv.DictReader(file)]


@pytest.mark.slow
def test_a_sweep_of_twelve_on_two_ray_workers_one_of_which_is_killed_is_the_sweep_here(tmp_path):
    pytest.importorskip("ray", reason="pip install -c constraints.txt '.[cluster]'")
    (tmp_path / "own.py").write_text(DYING)
    words = [*SWEEP, "hidden=4,5", "batch=4,6,8", "steps=12", "checkpoint_every=5", "--plugin", str(tmp_path / "own.py")]
    words = ["dying" if word == "recall" else word for word in words if word not in ("hidden=4", "steps=3")]
    marker = tmp_path / "was killed"
    for name, more in (("here", []), ("ray", ["--on", "ray", "--workers", "2"])):
        environment = {**os.environ, **({"DYING": str(marker)} if more else {})}
        command = [sys.executable, "-m", "experiments", *words, "--out", str(tmp_path / name), *more]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert marker.exists()
    assert len(table_of(tmp_path / "here")) == 12
    assert table_of(tmp_path / "ray") == table_of(tmp_path / "here")
