"""Another project that has a package of our name in the same folder: what is seen of it, and that nothing else is loaded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ctrnn.neighbours import other_projects, refuse_others

ROOT = Path(__file__).resolve().parents[2]
OURS, THEIRS = '"""Steps."""\n\nfrom ctrnn.lazy import public_names\n', '"""Meshes."""\n\nfrom .tensor_mesh import TensorMesh\n'


def site(folder: Path, first: str | None, **records: str) -> Path:
    """A folder as pip leaves it: the RECORD of distributions, by name, and the first files of packages."""
    for name, record in records.items():
        (folder / f"{name}-1.2.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.2.dist-info" / "RECORD").write_text(record)
    for name, text in (("discretize", first), ("derivations", OURS)):
        (folder / name).mkdir(parents=True)
        if text is not None:
            (folder / name / "__init__.py").write_text(text)
    return folder


MESHES = "discretize/__init__.py,sha256=a,1\ndiscretize/tensor_mesh.py,sha256=b,2\n"


@pytest.mark.parametrize(
    ("first", "records", "words"),
    [
        pytest.param(OURS, {"discretize": MESHES}, "`discretize` 1.2 of another project and ctrnn-ode", id="ours over theirs"),
        pytest.param(THEIRS, {}, "is of another project, installed over ctrnn-ode", id="theirs over ours"),
        pytest.param(None, {}, "is missing; another project's `discretize` took it along", id="theirs taken out again"),
    ],
)
def test_another_project_in_the_same_folder_is_refused_with_the_way_out(tmp_path, first, records, words):
    with pytest.raises(ImportError) as told:
        refuse_others(site(tmp_path, first, ctrnn_ode="", **records))
    assert words in str(told.value)
    assert "pip uninstall discretize ctrnn-ode, then " in str(told.value)


@pytest.mark.parametrize(
    "given",
    [
        {"ctrnn_ode": ""},
        {"ctrnn_ode": "", "discretize": "meshes/__init__.py,sha256=a,1\n"},  # a distribution of that name with another package
        {"discretize": MESHES},  # ours is a copy of the repository, theirs is installed elsewhere
        {},
    ],
)
def test_what_is_in_nobodys_way_is_not_refused(tmp_path, given):
    assert not other_projects(site(tmp_path, OURS, **given))
    assert not other_projects(tmp_path / "no such folder")


def test_nothing_is_loaded_before_it_is_refused(tmp_path):
    shutil.copytree(ROOT / "ctrnn", site(tmp_path, THEIRS, ctrnn_ode="") / "ctrnn")
    script = "import sys\ntry:\n    import ctrnn\nexcept ImportError as error:\n    print(error, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert "installed over ctrnn-ode. Take both out and put one back" in done.stdout
    assert done.stdout.endswith("'ctrnn-ode[all]' False\n")


def test_a_line_that_installs_leaves_setuptools_to_be_imported():
    # Of Python 3.11 alone setuptools gives way to pip: at the look for it.
    script = "from ctrnn.extras import install_line\ninstall_line('all')\nimport setuptools"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
