"""A study on Ray is the study on this machine, digit for digit, also where workers are killed; a bad run is told once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
STARTED = 300.0  # seconds within which the first run is done, on the slowest machine
FILE = """
from pathlib import Path
from typing import ClassVar
from experiments.runs.configuration import configuration
from experiments.studies.specs import Table
from experiments.studies.study import SCALES, Sizes, Study, grid
from experiments.studies.verdicts import Part, Verdict

class Many(Study):
    name, question, claim, source = "many", "How many?", "Many.", "Nobody."
    resolutions = ("None.",)
    minutes: ClassVar = dict.fromkeys(SCALES, 0.1)
    sizes: ClassVar = {"smoke": Sizes(fields=["plain"], steps=2), "small": Sizes(fields=["plain", "gated"], steps=60)}
    tables = (Table("Losses.", by={"field": "field", "seed": "seed"}, columns={"loss": "loss"}),)

    def points(self, sizes):
        return grid(seed=range(4), field=sizes.fields)

    def configuration(self, point, sizes):
        return configuration(
            "recall", point["field"], "euler", seed=point["seed"], steps=sizes.steps, length=60, hidden=16, checkpoint_every=10,
            threads=1,
        )

    def measure(self, run, model, folder):
        with (folder / "tries").open("a") as file:
            file.write("x")
        if run.configuration.training.steps == 2 and run.point["seed"] == 1:
            raise ValueError("seed 1 is none of ours")
        return []

    def verdict(self, results):
        return Verdict([Part("it is", True)])

STUDIES = {"many": Many}
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "many.py").write_text(FILE)
    return str(tmp_path / "many.py")


def command(file, out, *more):
    words = ["-m", "experiments", "study", "run", "many", "--plugin", file, "--workers", "2", "--out", str(out), *more]
    return [sys.executable, *words]


def test_where_runs_go_is_asked_for_in_words(file, tmp_path, capsys):
    for wrong in ("moon", "ray:", "Ray"):
        assert main([*command(file, tmp_path / "out", "--on", wrong)[3:]]) == 2
        assert f"--on is here, ray, ray:ADDRESS or slurm; got '{wrong}'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_killed_workers_and_a_killed_driver_change_no_digit(file, tmp_path):
    pytest.importorskip("ray", reason="pip install -c constraints.txt '.[cluster]'")
    subprocess.run(command(file, tmp_path / "here"), cwd=ROOT, check=True, capture_output=True)
    driver = subprocess.Popen(
        command(file, tmp_path / "ray", "--on", "ray"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(tmp_path / "ray", 1)
    kill_a_worker()
    wait_for(tmp_path / "ray", 3)
    driver.kill()
    driver.wait()
    done = subprocess.run(
        command(file, tmp_path / "ray", "--on", "ray"), cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert "done before" in done
    assert (tmp_path / "ray" / "table.md").read_bytes() == (tmp_path / "here" / "table.md").read_bytes()


@pytest.mark.slow
def test_a_run_that_raises_is_tried_once_and_the_others_go_on(file, tmp_path):
    pytest.importorskip("ray", reason="pip install -c constraints.txt '.[cluster]'")
    done = subprocess.run(
        command(file, tmp_path / "ray", "--on", "ray", "--scale", "smoke"), cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "plain-1  FAILED: ValueError: seed 1 is none of ours" in done.stdout
    assert (tmp_path / "ray" / "runs" / "plain-1" / "tries").read_text() == "x"
    assert len(list((tmp_path / "ray" / "runs").glob("*/rows.json"))) == 3


def wait_for(folder, count):
    deadline = time.monotonic() + STARTED
    while len(list(folder.glob("runs/*/rows.json"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_a_worker():
    """One that is at work on a run, if there still is one."""
    found = subprocess.run(["pgrep", "-f", "ray::_carried_out"], capture_output=True, text=True, check=False).stdout.split()
    for number in found[:1]:
        os.kill(int(number), signal.SIGKILL)
