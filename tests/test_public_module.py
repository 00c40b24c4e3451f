"""`ctrnn_experiments`: the module from which documents import what is of the package `experiments`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ctrnn_experiments

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for pattern in ("*.md", "*/*.md", "*/*.py", "*/*.ipynb") for page in (ROOT / "docs").glob(pattern)]
PAGES = [page for page in [*PAGES, ROOT / "README.md"] if page.parent.name not in ("extensions", "api", "project")]
OF_PACKAGE = re.compile(r"(?:from|import) experiments\b")
OF_MODULE = re.compile(r"from ctrnn_experiments import ([\w, ]+)")


def test_pages_import_from_it_and_not_from_the_package():
    assert not [page.relative_to(ROOT) for page in PAGES if OF_PACKAGE.search(page.read_text())]


def test_the_page_of_names_has_each_of_its_names():
    listed = re.findall(r"`ctrnn_experiments\.(\w+)`", (ROOT / "docs" / "names.md").read_text())
    assert sorted(listed) == sorted(ctrnn_experiments.__all__)


def test_it_has_each_name_that_pages_import():
    wanted = {name for page in PAGES for names in OF_MODULE.findall(page.read_text()) for name in names.split(", ")}
    assert len(wanted) > 20
    assert not [name for name in sorted(wanted) if not hasattr(ctrnn_experiments, name)]


@pytest.mark.parametrize(
    ("before", "said"),
    [("", f"{ROOT / 'experiments'}"), ("import experiments\n", "was imported first, and a process has one package of a name")],
)
def test_a_folder_of_the_users_hides_nothing_that_pages_import_or_it_is_said(tmp_path, before, said):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("")
    script = f"{before}from ctrnn_experiments import Count\nimport experiments\nprint(experiments.__path__[0])"
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said in done.stdout + done.stderr


def test_a_name_that_is_not_there_names_the_nearest():
    with pytest.raises(AttributeError, match=r"has no attribute 'trian'; did you mean 'train'\?"):
        _ = ctrnn_experiments.trian
