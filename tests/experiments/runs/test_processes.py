"""Several processes beside one: shares of a batch add up to it, and a training by two is that by one, killed or not."""

import csv
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from experiments.runs.checkpoints import NEWEST, read_state
from experiments.runs.configuration import configuration_from_words
from experiments.runs.evaluation import torch_defaults
from experiments.runs.folder import held_folder
from experiments.runs.processes import ALONE, MeanGradients, Processes, joined
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


RUNS = {  # in the first, shares have other weights than as many sequences have
    "counts": ("delayed-match", "gated", "euler", "dt=1", "accumulate=2", "optimizer=adamw", "weight_decay=0.1"),
    "noise": ("recall", "leaky", "euler-maruyama", "noise=0.3", "warp=3", "length=12"),
}
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


def in_precision(batch, dtype):
    floats = {each.name: getattr(batch, each.name) for each in fields(batch)}
    kept = {name: x.to(dtype) for name, x in floats.items() if isinstance(x, torch.Tensor) and x.is_floating_point()}
    return replace(batch, **kept)


def weights_after(name, precision, processes=ALONE, steps=10):
    task, field, integrator, *words = RUNS[name]
    chosen = configuration_from_words(task, field, integrator, [*words, "batch=7", "hidden=6", "clip=0.5", "threads=1"])
    with torch_defaults(1, PRECISIONS[precision]):
        run = Training(chosen.untrained_model().to(PRECISIONS[precision]), chosen.task, chosen.training, processes)
        draw, run.batch_at = run.batch_at, lambda k: in_precision(draw(k), PRECISIONS[precision])
        for _ in range(steps):
            run.learn()
            run.step += 1
    return [weight.detach() for weight in run.parameters]


class Odd(nn.Module):
    """One weight under two names, one that only the second process reads, one that nobody reads, and buffers of each process."""

    def __init__(self, rank):
        super().__init__()
        self.one = self.same = nn.Parameter(torch.zeros(2, 3))
        self.second, self.never = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(5))
        self.register_buffer("places", torch.tensor([rank, 7]))
        self.register_buffer("mask", torch.tensor([rank == 0, True]))
        self.register_buffer("means", torch.zeros(2 + rank))
        self._ddp_params_and_buffers_to_ignore = ["means"]


def means_of_odd(rank):
    """What two processes make of gradients 1 and 3, of one where the first has none, and of none; then of the first's alone."""
    model = Odd(rank)
    mean = MeanGradients(model)
    found = []
    for readers in ([0, 1], [0]):
        model.zero_grad()
        if rank in readers:
            model.one.grad = torch.full((2, 3), 1.0 + 2 * rank)
        if rank == 1 and rank in readers:
            model.second.grad = torch.arange(4.0)
        mean()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    return found, dict(model.named_buffers())


PROCESSES = """
import os, runpy, sys
from pathlib import Path
import torch
import torch._dynamo  # as DistributedDataParallel does: once for both
from experiments.runs.processes import connect, leave

test, folder = sys.argv[1:]
here = runpy.run_path(test)
torch.set_num_threads(1)
other = os.fork()
os.environ["RANK"] = "0" if other else "1"
meeting = {"init_method": f"file://{folder}/meeting", "rank": int(os.environ["RANK"]), "world_size": 2}
connect("gloo", **meeting)
processes = here["joined"](7)
trained = {(name, kind): here["weights_after"](name, kind, processes) for name in here["RUNS"] for kind in here["PRECISIONS"]}
torch.save((trained, here["means_of_odd"](processes.rank)), f"{folder}/{processes.rank}.pt")
leave()
threads = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").glob("*")]
assert not [name for name in threads if "gloo" in name], threads
assert not other or os.waitpid(other, 0)[1] == 0
"""


@functools.cache
def in_two_processes():
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", PROCESSES, __file__, folder]
        place = {**os.environ, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}  # no process that forks has threads
        done = subprocess.run(words, cwd=ROOT, env=place, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")  # torch warns of flags there
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(2)]


# Of a process that imports torch, and the compiler that its DistributedDataParallel loads: some three seconds.
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_have_the_weights_of_one_after_ten_steps(name, precision):
    (first, _), (second, _) = in_two_processes()
    if name == "counts":
        task = configuration_from_words(*RUNS[name][:3], RUNS[name][3:]).task
        shares = [task.part(task.batch(7, generator(0)), Processes(rank, 2).share(7)) for rank in range(2)]
        assert task.weight(shares[0]) / task.weight(shares[1]) > 1.1 * 3 / 4
    assert_close(first[name, precision], second[name, precision], rtol=0, atol=0)
    # RMSprop divides the roundings of small gradients by these: 3e-7 was the most that was seen in single precision.
    assert_close(
        first[name, precision], weights_after(name, precision), rtol=0, atol={"float32": 1e-6, "float64": 1e-13}[precision]
    )


def test_gradients_are_means_over_processes_also_of_what_is_not_used_here_and_buffers_are_the_first_ones():
    for rank, (_, (found, buffers)) in enumerate(in_two_processes()):
        together, alone = found
        kind = together["one"].dtype
        assert_close(together["one"], torch.full((2, 3), 2.0, dtype=kind))
        assert_close(together["second"], torch.arange(4, dtype=kind) / 2)
        assert together["never"] is None  # so that no optimizer touches it, as by one process
        assert_close(alone["one"], torch.full((2, 3), 0.5, dtype=kind))  # of a share in which nothing counts
        assert alone["second"] is None
        assert buffers["places"].tolist() == [0, 7]
        assert buffers["mask"].tolist() == [True, True]
        assert len(buffers["means"]) == 2 + rank


def test_a_sequence_has_the_same_noise_in_a_share_as_in_the_batch():
    settings = ["noise=0.5", "warp=3", "length=12", "hidden=5"]
    chosen = configuration_from_words("recall", "leaky", "euler-maruyama", settings)
    batch = chosen.task.batch(7, generator(0))

    def gradients(processes):
        run = Training(chosen.untrained_model(), chosen.task, chosen.training)
        run.processes = processes
        run._backward([batch])
        return torch.cat([weight.grad.flatten() for weight in run.parameters])

    shares = (gradients(Processes(0, 2)) + gradients(Processes(1, 2))) / 2
    assert_close(shares, gradients(ALONE), rtol=1e-4, atol=1e-6)  # sums in single precision


def test_a_likelihood_is_the_mean_over_all_values_that_are_seen_however_they_are_shared(monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    settings = ["hidden=3", "likelihood=0.5", "threads=1", "clip=none"]
    chosen = configuration_from_words("delayed-match", "gru-ode-bayes", "euler", settings)
    batch = chosen.task.batch(5, generator(0))
    # Less is seen of the first sequences, which count more; of the last one nothing counts, and all is seen.
    lengths = torch.tensor([5, 9, len(batch.xs), len(batch.xs), len(batch.xs)])
    counts = torch.zeros_like(batch.counts)
    counts[:5, :2], counts[:2, 2:4] = 1.0, 1.0
    batch = replace(batch, counts=counts, lengths=lengths)

    def gradients(processes, *batches):
        run = Training(chosen.untrained_model().double(), chosen.task, chosen.training)
        run.processes = processes
        run.settings = replace(run.settings, accumulate=len(batches))
        loss = run._backward([in_precision(each, torch.float64) for each in batches])
        found = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in run.parameters]
        return torch.cat([gradient.flatten() for gradient in found]), loss

    expected, loss = gradients(ALONE, batch)
    for size in (2, 5):
        parts, losses = zip(*(gradients(Processes(rank, size), batch) for rank in range(size)), strict=True)
        assert_close(sum(parts) / size, expected, rtol=1e-6, atol=1e-9)
        assert sum(losses) / size == pytest.approx(loss, rel=1e-6)
    parts, losses = gradients(ALONE, *(chosen.task.part(batch, each) for each in (slice(0, 2), slice(2, 5))))
    assert_close(parts, expected, rtol=1e-6, atol=1e-9)
    assert losses == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("likelihood", [0.0, 0.5])
def test_a_step_in_which_nothing_counts_has_no_loss_and_moves_no_weight(likelihood, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    chosen = configuration_from_words(
        "delayed-match", "gru-ode-bayes", "euler", ["hidden=3", f"likelihood={likelihood}", "threads=1"]
    )
    batch = chosen.task.batch(3, generator(0))
    batch = replace(batch, counts=torch.zeros_like(batch.counts), lengths=torch.zeros(3, dtype=torch.long))
    for processes in (ALONE, Processes(0, 2), Processes(1, 2)):
        run = Training(chosen.untrained_model(), chosen.task, chosen.training)
        run.processes = processes
        assert run._backward([batch]) is None
        assert all(weight.grad is None for weight in run.parameters)


def test_what_the_first_process_refuses_all_refuse_in_its_words(monkeypatch):
    def refuses():
        raise UsageError("the folder holds another run")

    sent = []
    monkeypatch.setattr(Processes, "from_first", lambda self, value: sent.append(value) or sent[0])
    for rank in range(2):
        with pytest.raises(UsageError, match="the folder holds another run"):
            Processes(rank, 2).by_first(refuses)
    assert sent == ["the folder holds another run", None]
    sent.clear()
    assert [Processes(rank, 2).by_first(lambda: "a record") for rank in range(2)] == ["a record", None]


def test_alone_nothing_is_sent_and_one_error_is_its_own(monkeypatch):
    assert joined(1) is ALONE
    with torch_defaults(1, torch.float32):  # a loss in double precision keeps its digits all the same
        waited, largest, loss = ALONE.agree(None, time.perf_counter(), 1, 0.3, 0.1)
    assert (waited.tolist(), largest, loss) == ([0.0], 0.3, 0.1)
    with pytest.raises(StoppedError, match="mine"):
        ALONE.agree(StoppedError("mine", "diverged", 1), 0.0, 1, None, 0.0)
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(UsageError, match="5 processes are more than the 4 sequences of a batch"):
        joined(4)


def test_a_world_size_that_is_not_torchruns_is_refused_in_words(monkeypatch):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UsageError, match=r"WORLD_SIZE is 2 in the environment, and MASTER_ADDR and MASTER_PORT not; start 2"):
        joined(4)


def command(folder, processes, *words, integrator="euler"):
    run = ["-m", "experiments", "train", "--task", "recall", "--integrator", integrator, "--field", "gated", "--out", str(folder)]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    settings = dict(word.split("=") for word in (*SETTINGS, *words))
    return [sys.executable, *launch, *run, "--resume", "--set", *(f"{key}={value}" for key, value in settings.items())]


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


def begun(folder, processes, *words, more=(), **environment):
    """A training that has made some steps, with its launcher in a session of its own."""
    run = subprocess.Popen(
        [*command(folder, processes, *words), *more],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline, metrics = time.monotonic() + STARTED, folder / "metrics.csv"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") > 20) and time.monotonic() < deadline:
        time.sleep(0.02)
    return run


def process_of(launcher, rank):
    """The number of the process of a rank, as Linux knows it."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise ProcessLookupError(rank)


def assert_same_bits(one, other):
    assert rows(one) == rows(other)
    states = [read_state(folder / NEWEST)["model"] for folder in (one, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_killed_with_all_its_processes_it_goes_on_to_the_same_bits(processes, tmp_path):
    words = ("steps=400", "length=60", "clip=0.1")
    trained(tmp_path / "whole", processes, *words)
    killed = begun(tmp_path / "killed", processes, *words)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    reached = len(rows(tmp_path / "killed"))
    assert reached >= 20
    subprocess.run(["pkill", "-KILL", "-f", str(tmp_path / "killed")], check=False)  # workers may have sessions of their own
    trained(tmp_path / "killed", processes, *words)
    assert_same_bits(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for a process in /proc")
@pytest.mark.parametrize("how", ["killed", "Ctrl-C", "SIGTERM"])
def test_where_one_process_ends_all_end_with_what_was_done_and_go_on_to_the_same_bits(how, tmp_path):
    words = ("steps=300", "length=60", "checkpoint_every=1000")
    trained(tmp_path / "whole", 2, *words)
    run = begun(tmp_path / "run", 2, *words)
    if how == "Ctrl-C":
        for process in (run.pid, process_of(run.pid, 0), process_of(run.pid, 1)):  # all that stand at the terminal
            os.kill(process, signal.SIGINT)
    else:
        os.kill(process_of(run.pid, 1), signal.SIGKILL if how == "killed" else signal.SIGTERM)
    said = run.communicate()[1]
    assert run.returncode != 0
    why = {"killed": "another process of this training is gone", "Ctrl-C": "Go on with: ", "SIGTERM": "another process was"}[how]
    assert why in said
    assert read_state(tmp_path / "run" / NEWEST)["step"] >= 20  # there is no checkpoint before the one at the end
    trained(tmp_path / "run", 2, *words)
    assert_same_bits(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_then_one_then_two_train_as_one(tmp_path):
    trained(tmp_path / "one", 1, "steps=30", "length=15", "optimizer=adam")
    for processes, steps in ((2, 10), (1, 20), (2, 30)):
        done = trained(tmp_path / "parts", processes, f"steps={steps}", "length=15", "optimizer=adam")
    assert "begun by 2 process(es), these are 1" not in done.stderr
    ours, theirs = (read_state(tmp_path / name / NEWEST)["model"] for name in ("parts", "one"))
    assert_close(ours, theirs, rtol=0, atol=1e-6)
    losses = [[float(row["loss"]) for row in rows(tmp_path / name)] for name in ("parts", "one")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["other settings", "in use"])
def test_a_folder_that_the_first_process_refuses_is_refused_by_all_and_nobody_is_gone(how, tmp_path):
    if how == "in use":
        chosen = configuration_from_words("recall", "gated", "euler", ["steps=10"])
        with held_folder(tmp_path, chosen, resume=True):
            done = subprocess.run(command(tmp_path, 2, "steps=10"), cwd=ROOT, capture_output=True, text=True, check=False)
        why = "another process trains in"
    else:
        trained(tmp_path, 1, "steps=10", "length=10")
        words = command(tmp_path, 2, "steps=10", "length=11")
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        why = "holds a run of other settings"
    assert done.returncode != 0
    assert done.stderr.count(why) == 2  # each process says why
    assert "is gone" not in done.stderr


FULL = """
import errno, os
import ctrnn

written, write = 0, os.write

def scarce(file, data):
    global written
    written += 1
    if written > 30:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write(file, data)

if os.environ.get("FULL") == os.environ["RANK"]:
    os.write = scarce

FIELDS = {"gated-here": ctrnn.gated}  # a plugin has something to add
"""


@pytest.mark.slow
def test_a_full_disk_stops_all_and_costs_nothing_that_was_saved(tmp_path):
    (tmp_path / "own.py").write_text(FULL)
    words, plugin = ("steps=50", "length=15"), ["--plugin", str(tmp_path / "own.py")]
    subprocess.run([*command(tmp_path / "whole", 2, *words), *plugin], cwd=ROOT, check=True, capture_output=True)
    run = begun(tmp_path / "run", 2, *words, more=plugin, FULL="0")
    said = run.communicate()[1]
    assert run.returncode != 0
    assert "No space left on device" in said
    subprocess.run([*command(tmp_path / "run", 2, *words), *plugin], cwd=ROOT, check=True, capture_output=True)
    assert_same_bits(tmp_path / "run", tmp_path / "whole")


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
