"""The script of docs/slurm.md: an array of four jobs, one of which is told that its time is up, gives what a local run gives."""

import csv
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.reports.machine import cores

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = (ROOT / "docs" / "slurm.md").read_text().partition("```bash\n")[2].partition("```")[0]
# In place of Slurm: notes what it is asked, and says what a job's state is.
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo "JobId=7 JobState=$STATE Reason=None"; else echo "$@" >> "$HERE/requeued"; fi
"""
# In place of ctrnn, for the script alone: waits for the signal that its parent is told, and ends as it does.
ENDS = """#!/bin/bash
trap 'exit 138' USR1
trap 'exit 143' TERM
echo "$@" > "$HERE/typed"
[ -z "$TOLD" ] && exit "$ENDS"
kill "-$TOLD" "$PPID"
while :; do sleep 0.01; done
"""


def executable(path, text):
    path.parent.mkdir(exist_ok=True)
    if not path.exists():  # of two jobs one may run it already, and bash reads a script as it goes
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def job(here, words, task=2, count=4, **environment):
    """The script as Slurm starts it."""
    script = executable(here / "study.sh", SCRIPT)
    executable(here / "bin" / "scontrol", SCONTROL)
    slurm = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": str(count)}
    slurm["SLURM_CPUS_PER_TASK"] = "1"
    own = {"PATH": os.pathsep.join([str(here / "bin"), os.environ["PATH"]]), "HERE": str(here), "STATE": "RUNNING"}
    return subprocess.Popen(
        ["bash", str(script), *words], env={**os.environ, **slurm, **own, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def table(file):
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def requeued(here):
    place = here / "requeued"
    return place.read_text().split("\n")[:-1] if place.exists() else []


@pytest.mark.parametrize(
    ("told", "ends", "state", "code", "again"),
    [
        ("", "0", "RUNNING", 0, []),
        ("", "1", "RUNNING", 1, []),  # a run that failed would fail once more
        ("USR1", "", "RUNNING", 138, ["requeue 7_2"]),
        ("TERM", "", "RUNNING", 143, ["requeue 7_2"]),
        ("TERM", "", "COMPLETING", 143, []),  # what Slurm ends itself: by somebody's scancel, or to requeue it
    ],
)
def test_the_script_passes_signals_on_and_requeues_what_is_not_done(tmp_path, told, ends, state, code, again):
    executable(tmp_path / "bin" / "ctrnn", ENDS)
    running = job(tmp_path, ["unwarped", "--out", "a folder"], TOLD=told, ENDS=ends, STATE=state)
    said, _ = running.communicate()
    assert (running.returncode, requeued(tmp_path)) == (code, again), said
    assert (tmp_path / "typed").read_text() == "study run unwarped --out a folder --shard 2/4\n"


def test_a_job_has_as_many_workers_as_it_asked_for_processors(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    here = cores()
    for asked, expected in [("1", 1), (str(here + 1), here), ("", here), ("0", here), ("two", here)]:
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", asked)
        assert cores() == expected


# Twelve short trainings; that of key 1 tells its job at the fifth step of twenty that the time is up, if it is the first to.
PLUGIN = """
import os, signal, threading
from experiments.runs import training
from experiments.runs.configuration import configuration
from experiments.studies.claims.unwarped import Unwarped

train = training.train

class Told(Unwarped):
    name = "told"

    def configuration(self, point, sizes):
        return configuration(task="recall", length=12, field=point["model"], integrator="euler", hidden=4, batch=4, steps=20,
                             evaluate_every=4, evaluation=8, checkpoint_every=7, seed=point["seed"], threads=1)

    def points(self, sizes):
        return [{"model": model, "seed": seed} for model in ("plain", "leaky", "gated") for seed in range(4)]

    def carry_out(self, run, folder):
        training.train = lambda *given, **kept: train(*given, **kept, progress=self.at if run.key == "plain-1" else None)
        return super().carry_out(run, folder)

    def at(self, step, loss, rate):
        script = os.environ.get("SCRIPT")
        if step != 5 or script is None or os.path.exists(os.environ["HERE"] + "/told"):
            return
        open(os.environ["HERE"] + "/told", "w").close()
        heard, before = threading.Event(), signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *given: (heard.set(), before(*given)))
        os.kill(int(script), signal.SIGUSR1)
        heard.wait()  # so that it is at this step that the training is interrupted, on any machine
        signal.signal(signal.SIGTERM, before)

STUDIES = {"told": Told}
"""


@pytest.mark.slow
def test_an_array_of_four_one_of_which_is_interrupted_and_requeued_is_the_local_run(tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    executable(tmp_path / "bin" / "ctrnn", f'#!/bin/bash\nexport SCRIPT=$PPID\nexec {sys.executable} -m experiments "$@"\n')
    words = ["told", "--scale", "smoke", "--plugin", str(tmp_path / "plugin.py"), "--out"]
    jobs = [job(tmp_path, [*words, str(tmp_path / "array")], task, PYTHONPATH=path) for task in (1, 2, 3, 4)]
    said = [each.communicate()[0] for each in jobs]
    assert [each.returncode for each in jobs] == [0, 138, 0, 0], said
    assert requeued(tmp_path) == ["requeue 7_2"]
    begun = tmp_path / "array" / "runs" / "plain-1"
    assert len(table(begun / "metrics.csv")) == 5  # saved where it was told, between two checkpoints
    assert not (begun / "rows.json").exists()
    again = job(tmp_path, [*words, str(tmp_path / "array")], 2, PYTHONPATH=path)
    assert (again.communicate(), again.returncode)[1] == 0
    assert requeued(tmp_path) == ["requeue 7_2"]
    typed = [sys.executable, "-m", "experiments", "study"]
    local = {**os.environ, "PYTHONPATH": path}
    subprocess.run([*typed, "run", *words, str(tmp_path / "local")], check=True, capture_output=True, env=local)
    for which in ("array", "local"):
        more = ["--plugin", str(tmp_path / "plugin.py"), "--out", str(tmp_path / f"{which}-tables")]
        subprocess.run([*typed, "plot", str(tmp_path / which), *more[:2]], check=True, capture_output=True, env=local)
        subprocess.run([*typed, "export", str(tmp_path / which), *more], check=True, capture_output=True, env=local)
    assert (tmp_path / "array" / "table.md").read_bytes() == (tmp_path / "local" / "table.md").read_bytes()
    ours, theirs = (table(tmp_path / f"{which}-tables" / "runs.csv") for which in ("array", "local"))
    for row in [*ours, *theirs]:
        del row["seconds"], row["processor seconds"], row["date"]
    assert len(ours) == 12
    assert ours == theirs
    ours, theirs = (sorted((tmp_path / f"{which}-tables" / "models").iterdir()) for which in ("array", "local"))
    assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in theirs]
