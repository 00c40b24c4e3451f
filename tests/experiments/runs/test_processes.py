"""Several processes beside one: shares of a batch add up to it, and a training by two is that by one, killed or not."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from experiments.runs.checkpoints import NEWEST, read_state
from experiments.runs.configuration import configuration_from_words
from experiments.runs.processes import ALONE, Processes, joined
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Training
from experiments.seeds import generator
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
TASKS = (
    "recall",
    "recall-any-warp",
    "copy",
    "variable-copy",
    "adding",
    "clocked-recall",
    "two-sequence",
    "forecast",
    "repeat-text",
)
SETTINGS = ["batch=7", "hidden=6", "evaluate_every=10", "evaluation=20", "checkpoint_every=5", "schedule=plateau", "threads=1"]
STARTED = 300.0  # seconds within which a training has made some steps, on the slowest machine


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_all_sequences_once(size):
    taken = [k for rank in range(size) for k in range(7)[Processes(rank, size).share(7)]]
    assert taken == list(range(7))


@pytest.mark.parametrize("name", TASKS)
def test_losses_of_shares_add_up_to_that_of_the_batch(name):
    task = configuration_from_words(name, "gated", "euler", []).task
    batch = task.batch(7, generator(0, name))
    outputs = torch.randn(*batch.xs.shape[:2], task.output_size)
    total = 0.0
    for rank in range(3):
        taken = Processes(rank, 3).share(7)
        part = task.part(batch, taken)
        assert torch.equal(part.xs, batch.xs[:, taken])
        if batch.ts is not None and batch.ts.dim() == 2:
            assert torch.equal(part.ts, batch.ts[:, taken])
        total += float(task.loss(outputs[:, taken], part)) * task.weight(part) / task.weight(batch)
    assert total == pytest.approx(float(task.loss(outputs, batch)), rel=1e-5)  # sums in single precision


def test_gradients_and_losses_are_sums_over_processes_also_of_what_is_not_used_here(monkeypatch):
    of_the_other = torch.arange(11.0)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda values: values.add_(of_the_other))
    used, unused = torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(4))
    used.grad = torch.ones(2, 3)
    assert Processes(0, 2).sum_gradients([used, unused], torch.tensor(5.0)) == 5.0 + of_the_other[0]
    assert_close(used.grad, 1 + of_the_other[1:7].view(2, 3), rtol=0, atol=0)
    assert_close(unused.grad, of_the_other[7:], rtol=0, atol=0)


def test_a_sequence_has_the_same_noise_in_a_share_as_in_the_batch():
    settings = ["noise=0.5", "warp=3", "length=12", "hidden=5"]
    chosen = configuration_from_words("recall", "leaky", "euler-maruyama", settings)
    batch = chosen.task.batch(7, generator(0))

    def gradients(processes):
        run = Training(chosen.untrained_model(), chosen.task, chosen.training, processes)
        run._backward([batch])
        return torch.cat([weight.grad.flatten() for weight in run.parameters])

    shares = gradients(Processes(0, 2)) + gradients(Processes(1, 2))
    assert_close(shares, gradients(ALONE), rtol=1e-4, atol=1e-6)  # sums in single precision


def test_alone_nothing_is_sent_and_one_error_is_its_own(monkeypatch):
    assert joined(1) is ALONE
    waited, largest = ALONE.agree(None, time.perf_counter(), 1, 0.5)
    assert (waited.tolist(), largest) == ([0.0], 0.5)
    with pytest.raises(StoppedError, match="mine"):
        ALONE.agree(StoppedError("mine", "diverged", 1), 0.0, 1, None)
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(UsageError, match="5 processes are more than the 4 sequences of a batch"):
        joined(4)


def command(folder, processes, *words, integrator="euler"):
    run = ["-m", "experiments", "train", "--task", "recall", "--integrator", integrator, "--field", "gated", "--out", str(folder)]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    return [sys.executable, *launch, *run, "--resume", *(word for pair in [*SETTINGS, *words] for word in ("--set", pair))]


def trained(folder, processes, *words, integrator="euler"):
    done = subprocess.run(
        command(folder, processes, *words, integrator=integrator), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def rows(folder):
    """metrics.csv without its seconds."""
    with (folder / "metrics.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.slow
def test_two_and_three_processes_train_as_one_and_say_how_long_they_waited(tmp_path):
    for integrator, more in (("euler", 3), ("exact", 2)):
        found = {}
        for size in (1, more):
            folder = tmp_path / integrator / str(size)
            words = trained(folder, size, "steps=12", "length=15", integrator=integrator).stdout
            assert words.count("test loss") == 1  # the first process speaks
            state, result = read_state(folder / NEWEST), json.loads((folder / "result.json").read_text())
            assert len(result.get("waited", [])) == (size if size > 1 else 0)
            assert json.loads((folder / "config.json").read_text()).get("processes", 1) == size
            found[size] = [*state["model"].values(), torch.tensor([float(row["loss"]) for row in rows(folder)])]
        for ours, theirs in zip(found[more], found[1], strict=True):
            assert_close(ours, theirs, rtol=1e-4, atol=1e-6)  # RMSprop divides rounding by small gradients at the start
    again = trained(tmp_path / "exact" / "2", 2, "steps=12", "length=15", integrator="exact")
    assert again.stdout.count("nothing was left to do") == 1


@pytest.mark.slow
def test_killed_with_all_its_processes_it_goes_on_to_the_same_bits(tmp_path):
    words = ("steps=400", "length=60")
    trained(tmp_path / "whole", 2, *words)
    killed = subprocess.Popen(
        command(tmp_path / "killed", 2, *words),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline, metrics = time.monotonic() + STARTED, tmp_path / "killed" / "metrics.csv"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") > 20) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    reached = len(rows(tmp_path / "killed"))
    assert reached >= 20
    subprocess.run(["pkill", "-KILL", "-f", str(tmp_path / "killed")], check=False)  # workers may have sessions of their own
    trained(tmp_path / "killed", 2, *words)
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    states = [read_state(tmp_path / name / NEWEST)["model"] for name in ("killed", "whole")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


FAILING = """
import os
from experiments.tasks.warps.recall import Recall

class Failing(Recall):
    drawn_before = 0

    def drawn(self, size, generator, split):
        Failing.drawn_before += 1
        if os.environ["RANK"] == "1" and Failing.drawn_before == 8:
            raise MemoryError
        return super().drawn(size, generator, split)

TASKS = {"failing": Failing}
"""


@pytest.mark.slow
def test_an_error_of_one_process_stops_all_and_the_first_keeps_what_was_done(tmp_path):
    (tmp_path / "own.py").write_text(FAILING)
    words = command(tmp_path / "run", 2, "steps=50", "length=10")
    words[words.index("recall")] = "failing"
    words += ["--plugin", str(tmp_path / "own.py")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "step 8: there is not enough memory for it" in done.stderr  # of the second process,
    assert "step 8: another of the 2 processes stopped, and says why" in done.stderr  # and of the first
    assert len(rows(tmp_path / "run")) == read_state(tmp_path / "run" / NEWEST)["step"] == 7
