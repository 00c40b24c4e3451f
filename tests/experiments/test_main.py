"""What the command line answers, in processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


def ctrnn(*words, cwd=ROOT, **more):
    return subprocess.run(
        [sys.executable, "-m", "experiments", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, **more
    )


@pytest.fixture
def small(tmp_path):
    np.save(tmp_path / "small.npy", np.random.default_rng(0).normal(size=(24, 2)))
    return tmp_path / "small.npy"


def test_help_and_wrong_usage_answer_without_torch():
    train = ["train", "--task", "recall", "--field", "gated", "--integrator", "euler", "--out", "x"]
    commands = [
        (["--help"], 0), (["demo", "--help"], 0), (["train", "--help"], 0), (["--version"], 0), (["dmeo"], 2), (["train"], 2),
        (["study", "list"], 0),
        (["demo", "--inptu", "x"], 2), ([*train, "--task", "recal"], 2), ([*train, "--fild", "gated"], 2),
        *(([*train, "--set", word], 2) for word in ("steps=x", "steps", "rate=0", "init=chrono")),
    ]  # fmt: skip
    script = (
        f"import sys\nfrom experiments.__main__ import main\nfor words, code in {commands}:\n"
        "    assert main(words) == code, words\n"
        "    heavy = [name for name in ('torch', 'sympy', 'matplotlib', 'numpy') if name in sys.modules]\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wrong_usage_is_2_and_names_what_is_near(capsys):
    cases = [
        ([], "Expected one of {demo, derive, prove, breakdown, train, compare, bench, doctor, study, docs}"),
        (["dmeo"], "there is no command 'dmeo'; did you mean 'demo'?"),
        (
            ["qqq"],
            "there is no command 'qqq'; there is demo, derive, prove, breakdown, train, compare, bench, doctor, study, docs.",
        ),
        (["--verison"], "there is no option '--verison'; did you mean '--version'?"),
        (["demo", "--inptu", "x.csv"], "--input FILE"),
        (["demo", "extra"], "extra"),
        (["demo", "--input", "x.csv"], "--input needs --sampling-rate"),
        (["demo", "--rate", "80"], "name it with --input FILE"),
        (["demo", "--input", "x.csv", "--rate", "fast"], "a number is needed, got 'fast'"),
        (["demo", "--input", "x.csv", "--rate", "0"], "--sampling-rate must be a number of samples per second above 0, got 0."),
        (
            ["demo", "--input", "x.csv", "--rate", "-80"],
            "--sampling-rate must be a number of samples per second above 0, got -80.",
        ),
        (
            ["demo", "--input", "x.csv", "--rate", "nan"],
            "--sampling-rate must be a number of samples per second above 0, got nan.",
        ),
        (["demo", "--input", "no such.csv", "--rate", "1"], "ctrnn demo: no such.csv: cannot be read"),
        (["demo", "--input", "x.edf", "--rate", "1"], "a recording is a .npy or .csv file, not .edf"),
    ]
    for words, message in cases:
        assert main(words) == 2, words
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).replace("│", " ").split())
        assert message in said


def test_a_bad_file_and_a_folder_that_cannot_be_written_are_one_line(tmp_path, small, capsys):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,x\n")
    for path, out, words in (
        (
            tmp_path / "bad.csv",
            tmp_path / "out",
            f"ctrnn demo: {tmp_path}/bad.csv: b: row 2 has 'x', and most of",
        ),
        (small, tmp_path / "bad.csv", "cannot write to"),
    ):
        assert main(["demo", "--input", str(path), "--rate", "10", "--out", str(out)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert words in said.err
        assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_foreign_package_of_the_same_name_is_refused_and_not_imported(tmp_path):
    (tmp_path / "discretize").mkdir()
    (tmp_path / "discretize" / "__init__.py").write_text("raise RuntimeError('imported')")
    script = "import sys\nfrom experiments.__main__ import main\nsys.exit(main(['demo']))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )  # fmt: skip
    assert done.returncode == 2
    assert "another package 'discretize' first" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_finds_its_own_packages_before_folders_of_the_users(tmp_path):
    for name in ("experiments", "discretize", "ctrnn"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
    script = "import sys\nfrom ctrnn_command import main\nsys.exit(main())"  # as the installed command does
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: ctrnn" in done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [(["tr"], "train"), (["train", "--ta"], "--task"), (["study", "re"], "restore"), (["study", "run", "--sc"], "--scale")],
)
def test_a_shell_completes_commands_and_options(typed, offered, capsys):
    assert main(["--tyro-print-completion", "bash"]) == 0
    words = f"COMP_WORDS=(ctrnn {' '.join(typed)}); COMP_CWORD={len(typed)}; _tyro_ctrnn; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", capsys.readouterr().out + words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [offered]


def test_docs_opens_the_built_pages_or_says_how_to_build_them(tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("experiments.documents.ROOT", tmp_path)
    monkeypatch.setattr("experiments.__main__._refuse_foreign_packages", lambda: None)
    assert main(["docs"]) == 2
    assert capsys.readouterr().err.startswith("ctrnn docs: this package was made without the pages; run `make docs` in a copy")
    shipped = tmp_path / "experiments" / "site" / "index.html"
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    assert main(["docs"]) == 0
    assert (capsys.readouterr().out, opened.pop()) == (f"{shipped}\n", shipped.as_uri())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").touch()
    assert main(["docs"]) == 2
    assert capsys.readouterr().err == f"ctrnn docs: the pages are not built yet; run `make docs` in {tmp_path}.\n"
    page = tmp_path / "out" / "docs" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    assert main(["docs"]) == 0
    assert (capsys.readouterr().out, opened) == (f"{page}\n", [page.as_uri()])


@pytest.mark.slow  # test_interruption and the interrupted runs of test_command are the same in one process
@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_an_interrupted_run_says_so_and_leaves_the_old_page(tmp_path, small, number, code, word):
    out = tmp_path / "out"
    out.mkdir()
    (out / "index.html").write_text("the old page")
    command = [sys.executable, "-m", "experiments", "demo", "--input", str(small), "--rate", "10", "--out", str(out)]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    while "Equations" not in (line := running.stdout.readline()):
        assert line, running.communicate()[1]
    running.send_signal(number)
    _, stderr = running.communicate()
    assert running.returncode == code
    assert stderr.splitlines()[-1] == f"ctrnn demo: {word}; no file was left half written."
    assert [file.name for file in out.iterdir()] == ["index.html"]
    assert (out / "index.html").read_text() == "the old page"
