"""`ctrnn doctor`: what it says where all is well, and where packages, a compiler, a cache or names are not."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from experiments import doctor
from experiments.__main__ import main as command

ROOT = Path(__file__).resolve().parents[2]


def examined(capsys, *words, **hidden_by):
    """What it prints, the spaces of its columns aside."""
    assert doctor.main(words, hidden_by) == 0
    return " ".join(capsys.readouterr().out.split())


def test_it_names_versions_engines_and_whose_the_names_are(capsys, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "1")
    said = examined(capsys)
    for name in ("torch", "numpy", "safetensors"):
        assert f"{name} {metadata.version(name)}" in said
    assert f"in {ROOT}" in said
    assert "steps by torch, everywhere" in said
    assert re.search(r"triton (no: torch .* sees no GPU|no: triton is not installed|for tensors on)", said)
    assert "all right ctrnn, discretize, derivations, experiments are those of ctrnn-ode" in said


def test_it_says_which_extra_brings_what_is_missing_and_leaves_out_those_of_developers(capsys, monkeypatch):
    lines = [
        "torch>=2",
        "numpy>=1; extra == 'lab'",
        'no-such>=2; extra == "lab"',
        "x[y]; extra == 'lab'",
        "pytest; extra == 'test'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    said = examined(capsys)
    assert f"Extras lab numpy {metadata.version('numpy')} missing no-such: pip install -e '{ROOT}[lab]' Engines" in said


def test_it_says_why_there_are_no_kernels_or_why_none_is_kept(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CTRNN_FUSED", "1")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "compiled no: No C++ compiler: CXX names 'no-such-compiler', which is not on PATH" in examined(capsys)
    monkeypatch.setenv("CXX", sys.executable)  # which answers --version
    (tmp_path / "file").touch()
    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path / "file" / "cache"))
    assert re.search(r"compiled in C\+\+, at first use, by .*Python.* built anew in each process: ", examined(capsys))
    monkeypatch.setenv("CTRNN_FUSED", "0")
    assert "compiled no: CTRNN_FUSED=0 turns kernels off" in examined(capsys)


def test_it_says_how_engines_compare_when_asked_and_not_else(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "discretize.verify_engines", lambda field, x: asked.append((field.input_size, x.shape)) or "as they agree"
    )
    assert "as they agree" not in examined(capsys)
    assert "as they agree" in examined(capsys, "--build")
    ((inputs, shape),) = asked
    assert shape[-1] == inputs


@pytest.mark.slow  # the same by kernels, which take 5 s to build; what `verify_engines` finds has tests of its own
@pytest.mark.kernels
def test_it_builds_and_compares_when_asked(capsys):
    assert "agree" in examined(capsys, "--build")


def test_it_names_what_hides_our_packages_and_another_distribution_of_their_name(capsys, monkeypatch):
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.12" if name == "discretize" else version(name))
    said = examined(capsys, experiments=Path("/mine/experiments"))
    assert "experiments Python imports /mine/experiments first" in said
    assert "discretize the distribution discretize 0.12 of another project" in said
    assert "all right" not in said
    assert command(["derive"]) == 2  # and other commands do not run into it
    assert "ctrnn derive: the distribution discretize 0.12 of another project" in capsys.readouterr().err


def test_it_runs_at_the_prompt_without_torch_and_tyro_and_beside_a_package_that_hides_ours(tmp_path):
    (tmp_path / "discretize").mkdir()
    (tmp_path / "discretize" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "ctrnn_at_the_prompt.py").write_text(
        "import sys\nsys.modules |= {'torch': None, 'tyro': None}\nfrom ctrnn_command import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "ctrnn_at_the_prompt.py", "doctor"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Python imports {tmp_path / 'discretize'} first" in done.stdout
    assert "torch or discretize cannot be imported: ModuleNotFoundError" in done.stdout
