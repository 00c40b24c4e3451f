"""`tools/setup.sh` with stand-ins for python: what it does once, not twice, and what it says where something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PRETENDS = """#!/bin/sh
# A python that makes environments of stand-ins and writes down what it is asked for.
case "$1 $2" in
    "-m venv") shift 2; for last; do :; done; mkdir -p "$last/bin"; echo "venv $*" >>"{log}"
               printf '#!/bin/sh\\necho "pip $*" >>"{log}"\\nexit {pip}\\n' >"$last/bin/python"; chmod +x "$last/bin/python" ;;
    "-c import venv, ensurepip") exit {venv} ;;
    *) exec "{python}" "$@" ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >>"{log}"
exit {pip}
"""
TOO_OLD = '#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.2"\nexit 1\n'


@pytest.fixture
def checkout(tmp_path):
    """A folder with a space in its name, as far as set-up reads it, and an otherwise empty path for python stand-ins."""
    root = tmp_path / "a checkout"
    (root / "tools").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "tools/setup.sh", "Makefile"):
        shutil.copy(ROOT / name, root / name)
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "cat", "mv", "rm", "mkdir", "chmod", "dirname", "make"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return root


def put_python(checkout: Path, text: str, name: str = "python3", **values: object) -> None:
    log = checkout.parent / "log"
    settings = {"log": log, "python": sys.executable, "venv": 0, "pip": 0} | values
    file = checkout.parent / "bin" / name
    file.write_text(text if text is TOO_OLD else text.format(**settings))
    file.chmod(0o755)


def set_up(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    path = {"PATH": str(checkout.parent / "bin"), "HOME": os.environ.get("HOME", "/")}
    command = words or ("sh", "tools/setup.sh", "test")
    return subprocess.run(command, cwd=checkout, env=path | environment, capture_output=True, text=True, timeout=60, check=False)


def log(checkout: Path) -> list[str]:
    file = checkout.parent / "log"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


@pytest.fixture
def installed(checkout):
    """A checkout that was set up for the tests, and what that did."""
    put_python(checkout, PRETENDS)
    assert set_up(checkout).returncode == 0
    return checkout, log(checkout)


def test_the_first_time_installs_and_the_second_does_nothing(installed):
    checkout, (made, added) = installed
    assert made == "venv --clear .venv"
    assert added.endswith("--constraint constraints.txt --editable .[test]")
    assert set_up(checkout).returncode == 0
    assert log(checkout) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_list_of_packages_installs_anew(installed, name):
    checkout, _ = installed
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert set_up(checkout).returncode == 0
    assert log(checkout)[0] == "venv --clear .venv"


def test_further_extras_are_added_and_serve_for_fewer(installed):
    checkout, _ = installed
    assert set_up(checkout, "sh", "tools/setup.sh", "check").returncode == 0
    (added,) = log(checkout)
    assert added.endswith(".[test,check]")
    assert set_up(checkout, "sh", "tools/setup.sh", "docs").returncode == 0
    (added,) = log(checkout)
    assert added.endswith(".[test,check,docs]")
    for fewer in ("test", "check,docs", "docs,test"):
        assert set_up(checkout, "sh", "tools/setup.sh", fewer).returncode == 0
        assert log(checkout) == [], fewer


def test_a_failed_install_says_so_and_is_tried_again(checkout):
    put_python(checkout, PRETENDS, pip=1)
    done = set_up(checkout)
    assert done.returncode == 1
    assert "installing the packages failed" in done.stderr
    put_python(checkout, PRETENDS)
    assert set_up(checkout).returncode == 0


@pytest.mark.parametrize("fails", [0, 1])
def test_uv_installs_where_it_is_there_and_pip_what_uv_cannot(checkout, fails):
    put_python(checkout, PRETENDS)
    put_python(checkout, UV, name="uv", pip=fails)
    done = set_up(checkout)
    assert done.returncode == 0
    assert ("trying pip" in done.stderr) == bool(fails)
    _, by_uv, *by_pip = log(checkout)
    assert by_uv == "uv pip install --quiet --python .venv/bin/python --constraint constraints.txt --editable .[test]"
    assert len(by_pip) == fails


def test_a_python_that_is_too_old_is_named_in_one_sentence(checkout):
    put_python(checkout, TOO_OLD)
    done = set_up(checkout)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "Python 3.11, 3.12 or 3.13 is needed" in done.stderr
    assert "Python 3.9.2" in done.stderr
    done = set_up(checkout, PYTHON=str(checkout.parent / "bin" / "python3"))
    assert "which is not a Python 3.11, 3.12 or 3.13" in done.stderr


def test_a_python_without_venv_is_named_with_the_package_that_brings_it(checkout):
    put_python(checkout, TOO_OLD)
    put_python(checkout, PRETENDS, name="python3.12", venv=1)
    done = set_up(checkout)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "has no venv module" in done.stderr
    assert "python3-venv" in done.stderr
    put_python(checkout, PRETENDS, name="python3.12")
    assert set_up(checkout).returncode == 0


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_finds_its_folder_from_anywhere(checkout):
    put_python(checkout, PRETENDS)
    done = set_up(checkout, "make", "-C", "/", "-f", str(checkout / "Makefile"), "setup")
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()
