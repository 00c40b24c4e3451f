"""What comes from somebody else, or fails under a command: files that never end, links that lead elsewhere, full devices."""

import io
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ctrnn.storage import files
from experiments.__main__ import main
from experiments.data.recording import load
from experiments.demo import recorded
from experiments.derive.page import page as ledger_page
from experiments.digests import digest
from experiments.files import read_json
from experiments.reports.svg import inline_svg
from experiments.reports.templates import ENVIRONMENT
from experiments.runs.checkpoints import Checkpoints, DamagedError, read_state
from experiments.runs.configuration import configuration_from_words
from experiments.runs.stopping import StoppedError
from experiments.runs.training import train
from experiments.studies.folder import claimed, described, kept, place_of
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[2]
TARGET = "what must stay"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its files have no such kinds")


def ctrnn(*words, **more):
    """A command in a process of its own, from here; its exit code and what it said on stderr."""
    command = [sys.executable, "-m", "experiments", *words]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, check=False, **more)
    return done.returncode, done.stderr.decode()


@pytest.fixture
def target(tmp_path):
    """A file that a link leads to, which nothing may change."""
    path = tmp_path / "target"
    path.write_text(TARGET)
    yield path
    assert path.read_text() == TARGET


# Files


def test_only_files_are_read_and_no_more_of_them_than_allowed(tmp_path, target):
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("link", "a symbolic link"), ("pipe", "a pipe"), (".", "a folder"), ("/dev/zero", "a device")):
        with pytest.raises(OSError, match=f"it is {why}, not a file"):
            files.read_file(tmp_path / name)
    with pytest.raises(OSError, match="it has 14 bytes, at most 13 are expected"):
        files.read_file(target, 13)
    assert files.read_file(target, 14) == TARGET.encode()
    with pytest.raises(FileNotFoundError):
        files.read_file(tmp_path / "lost")
    assert read_json(tmp_path / "pipe") is None


def test_a_recording_that_never_ends_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("pipe.csv", "pipe.npy"):
        with pytest.raises(UsageError, match=f"{name}: cannot be read \\(not a file\\)"):
            load(tmp_path / name, 1.0)
    (tmp_path / "line.csv").write_text("1," * 6_000)
    (tmp_path / "quoted.csv").write_text('"' + "1" * (1 << 24))
    for name, words in (
        ("line.csv", "6000 channels"),
        ("quoted.csv", "a line has more than 16,777,216"),
    ):
        with pytest.raises(UsageError, match=words):
            load(tmp_path / name, 1.0)
    (tmp_path / "cell.csv").write_text('"' + "1\n" * 400_000)  # one cell over all lines
    with pytest.raises(UsageError, match="has no names of columns, and no rows below them"):
        load(tmp_path / "cell.csv", 1.0)


def test_a_checkpoint_of_a_newer_version_is_not_damaged_and_a_pipe_is_not_waited_for(tmp_path):
    spoiled(tmp_path, format=2, more="of it")
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(StoppedError, match=r"a newer ctrnn has written it, in format 2; this one reads 1\. Nothing was changed"):
        Checkpoints(tmp_path).load()
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "checkpoint.pt")
    with pytest.raises(StoppedError, match=r"checkpoint\.pt cannot be read \(it is a pipe, not a file\); nothing was changed"):
        Checkpoints(tmp_path / "other").load()


def test_a_step_that_is_no_number_is_damage_whatever_the_digest_says(tmp_path):
    for step in ("3", 3.0, -1, True, None, [3]):
        spoiled(tmp_path, state={"step": step})
        with pytest.raises(DamagedError, match=r"its step is .*, which is no number of steps"):
            read_state(tmp_path / "checkpoint.pt")
    spoiled(tmp_path)
    assert read_state(tmp_path / "checkpoint.pt")["step"] == 3


# Checkpoints


def spoiled(folder, **changes):
    """A checkpoint with some entries changed, and a digest that fits."""
    state = {"step": 3, "model": {}, **changes.pop("state", {})}
    torch.save({"format": 1, "state": state, "sha256": digest(state), **changes}, folder / "checkpoint.pt")


# Folders of runs


def configuration():
    return configuration_from_words("recall", "gated", "euler", ["steps=1", "batch=2", "hidden=2", "evaluation=2", "length=8"])


@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "checkpoint.pt", "previous.pt", "result.json", ".lock"])
def test_a_link_in_the_folder_of_a_run_is_refused_in_words(tmp_path, target, name):
    (tmp_path / f"run of {name}").mkdir()
    (tmp_path / f"run of {name}" / name).symlink_to(target)
    with pytest.raises(UsageError, match=f"{re.escape(name)} is a symbolic link to {target}; nothing is written there"):
        train(configuration(), tmp_path / f"run of {name}", resume=True)


def test_the_folder_of_a_run_may_itself_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    assert train(configuration(), tmp_path / "run").steps == 1
    assert (tmp_path / "disk" / "result.json").exists()


def test_a_link_in_the_folder_of_a_study_is_refused_in_words(tmp_path, target):
    for k, name in enumerate(("runs", "runs/key", "runs/key/.claim")):
        link = tmp_path / str(k) / name
        link.parent.mkdir(parents=True)
        link.symlink_to(target if name.endswith("claim") else target.parent)
        with (
            pytest.raises(UsageError, match=f"{link} is a symbolic link to .*; nothing is written there"),
            claimed(place_of(tmp_path / str(k), "key")),
        ):
            pass
    with claimed(place_of(tmp_path / "plain", "key")) as mine:
        assert mine


DEEP = "[" * 100_000 + "]" * 100_000
RECORD = {
    "key": "key", "point": {"seed": 0}, "configuration": {"a": 1}, "measures": {"loss": 0.5}, "rows": [{"g": 1.0}],
    "seconds": 1.0, "diverged": None, "made": {},
}  # fmt: skip


def test_a_malformed_record_of_a_study_is_no_record(tmp_path):
    place = place_of(tmp_path, "key")
    place.mkdir(parents=True)

    def read(text):
        (place / "rows.json").write_text(text)
        return kept(tmp_path, "key", {"a": 1})

    assert read(json.dumps(RECORD)) == RECORD
    changes = [
        {"rows": ["not a row"]}, {"rows": [{"g": {}}]}, {"measures": {"loss": "0.5"}}, {"measures": {"loss": [1]}},
        {"key": "other"}, {"point": {"seed": [0]}}, {"seconds": "1"}, {"diverged": "3"}, {"made": []},
    ]  # fmt: skip
    for text in (DEEP, "[]", "null", "", "\x00", *(json.dumps({**RECORD, **change}) for change in changes)):
        assert read(text) is None, text[:80]


def test_a_malformed_file_of_a_study_is_damaged(tmp_path):
    whole = {"study": "s", "scale": "smoke", "commands": [], "runs": {"key": {}}}
    (tmp_path / "study.json").write_text(json.dumps(whole))
    assert described(tmp_path) == whole
    for text in (DEEP, json.dumps({**whole, "runs": []}), json.dumps({**whole, "runs": {"../elsewhere": {}}}), '"runs"'):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(UsageError, match=r"study\.json is damaged; delete that file"):
            described(tmp_path)


# Devices and names


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_a_device_that_is_full_is_one_line_and_an_exit_code_of_its_own(words):
    with open("/dev/full", "w") as full:
        code, said = ctrnn(*words, stdout=full)
    assert (code, said.count("\n")) == (74, 1), said
    assert said.endswith("cannot be read or written (No space left on device).\n")


@pytest.mark.slow  # test_demo and test_training are of full disks in one process
@pytest.mark.parametrize(
    "words",
    [
        ["study", "run", "unwarped", "--scale", "smoke", "--out", "study"],
        ["derive", "--source", "huth-2020-lecture-slides", "--out", "ledger.html"],
    ],
    ids=lambda words: words[0],
)
def test_a_disk_that_runs_full_is_one_line_and_leaves_what_was_there(tmp_path, words):
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    (tmp_path / "ledger.html").write_text("before")
    (tmp_path / "study").mkdir()
    code, said = ctrnn(*words[:-1], str(tmp_path / words[-1]), preexec_fn=little_room, stdout=subprocess.DEVNULL)
    assert (code, said.count("\n")) == (74, 1), said
    assert said.endswith("cannot be read or written (File too large).\n")
    assert str(tmp_path / words[-1]) in said
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["ledger.html", "study"]
    assert (tmp_path / "ledger.html").read_text() == "before"


def test_letters_that_a_terminal_lacks_are_written_by_their_numbers(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    assert main(["study", "list"]) == 0
    assert rb"\u03b1" in written.getvalue()  # an alpha


def test_a_name_that_is_not_text_is_refused_before_anything_is_done(tmp_path, capsys):
    words = [b"study", b"run", b"unwarped", b"--scale", b"smoke", b"--out", bytes(tmp_path) + b"/caf\xe9"]
    code = main([os.fsdecode(word) for word in words])  # as Python gives them to a program
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert r"caf\udce9' is not UTF-8 text" in said
    assert not list(tmp_path.iterdir())


def test_dollars_in_names_are_dollars_in_figures():
    figure = recorded.drawn(np.zeros((20, 2)), 10.0, ["price $\\frac$", "cost in $"])
    assert re.findall(r">([^<>]*\$[^<>]*)<", inline_svg(figure, "x", "title", "words")) == ["price $\\frac$", "cost in $"]


# Pages


def test_pages_load_nothing_and_run_no_script_but_their_own():
    templates = [name for name in ENVIRONMENT.list_templates() if name.endswith("page.html.jinja")]
    assert len(templates) >= 5
    for name in templates:
        text = Path(ROOT, "experiments", name).read_text()
        assert name == "reports/page.html.jinja" or '{% extends "reports/page.html.jinja" %}' in text
        assert text.count("<script") == text.count("script_hash")
    written = ledger_page([])
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', written)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")
    assert ENVIRONMENT.globals["script_hash"]("derive/page.js") in policy
    (script,) = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
    assert script == ENVIRONMENT.globals["script"]("derive/page.js")
    # What a page is given is text.
    shown = ENVIRONMENT.from_string("{{ name }}").render(name="<img src=x onerror=alert(1)>")
    assert shown == "&lt;img src=x onerror=alert(1)&gt;"
