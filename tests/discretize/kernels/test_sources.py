"""Stored programs are of the files of these packages that their making depends on, and outlive an edit of any other."""

import ast
import sys
from contextlib import contextmanager

import own_fields
import pytest
import torch
from problems import NAMED_FIELDS, PUBLISHED, thinned

import ctrnn
import discretize
from discretize.kernels.cpp.rows import written
from discretize.kernels.record import fingerprint
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.program import StateJVP, StepModule, program_of
from discretize.kernels.record.sources import PACKAGES, _files_of, _imported, files_behind, module_of
from discretize.kernels.record.stored import program_key
from discretize.kernels.registry import _is_the_same_alone

ROOT = PACKAGES["discretize"].parent
WANTED = {"x": True, "dt": True, "stored": False}


def in_tree(path):
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(autouse=True)
def looked_at(monkeypatch):
    """The files whose texts are part of a key."""
    found, text = set(), fingerprint.text_of
    monkeypatch.setattr(fingerprint, "text_of", lambda path: found.add(path) or text(path))
    forget()
    yield found
    forget()


def forget():
    fingerprint.surroundings.cache_clear()
    fingerprint._texts.cache_clear()


def key_of(module, dtype=torch.float64):
    return program_key(attributes_of(module), WANTED, dtype, written)


# The slow case has more files, of the same forms of imports: to read their syntax trees takes five seconds.
@pytest.mark.parametrize("package", ["ctrnn", pytest.param("discretize", marks=pytest.mark.slow)])
def test_imports_are_those_that_python_sees(package):
    for path in PACKAGES[package].rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {f"{alias.name}.*" for alias in node.names}
        files = {file for name in names if name.partition(".")[0] in PACKAGES for file in _files_of(name)}
        assert not {*map(in_tree, files)} - {*map(in_tree, _imported(path))}, path


def test_a_name_of_the_package_leads_to_the_file_that_it_is_in():
    found = {*map(in_tree, files_behind(["ctrnn.HermitePath"]))}
    assert "ctrnn/inputs/interpolated.py" in found
    assert "ctrnn/cells/named.py" not in found
    assert module_of(sys.modules[ctrnn.HermitePath.__module__].__file__) == "ctrnn.inputs.interpolated"
    assert module_of(torch.__file__) is None


@contextmanager
def files_that_run():
    """The files of these packages whose code runs in this thread."""
    found, before = set(), sys.getprofile()
    sys.setprofile(lambda frame, event, argument: found.add(frame.f_code.co_filename))
    try:
        yield found
    finally:
        sys.setprofile(before)
        found.intersection_update([file for file in found if module_of(file)])


FIELDS = {name: make(3, 5) for name, make in NAMED_FIELDS.items()}
FIELDS |= {name: make(3, 6) for name, make in PUBLISHED.items()}


@pytest.mark.parametrize("name", thinned(FIELDS, ["gated power 2", "gru", "lem", "unicornn", "memristive_ltc"]))
def test_code_of_these_packages_that_runs_is_in_files_that_the_key_is_of(name, looked_at):
    module = StepModule(FIELDS[name].double(), discretize.ExponentialEuler() if name == "gru" else discretize.Euler())
    assert key_of(module)
    with files_that_run() as ran:
        _is_the_same_alone(module, torch.float64)
    assert len(ran) > 2
    assert not ran - {"", *map(str, looked_at), str(ROOT / "discretize/kernels/registry.py")}


def a_step():
    return StepModule(own_fields.Normalizing().double(), discretize.Heun())


def derivatives_of_a_flow():
    return StateJVP(own_fields.Soft().double(), 5)


@pytest.mark.parametrize("make", [a_step, derivatives_of_a_flow])
def test_code_that_runs_in_a_recording_is_in_files_that_the_key_is_of(make, looked_at):
    module, wanted = make(), {"x": True, "stored": False}
    assert program_key(attributes_of(module), wanted, torch.float64, written)
    with files_that_run() as ran:
        program_of(module, wanted, torch.float64, written)
    assert len(ran) > 10
    assert not ran - {*map(str, looked_at)}


FIELD_AND_STEP = {
    "a room that nothing here reads": ("discretize/riemannian/ascent.py", False),
    "another cell": ("ctrnn/cells/published/mgu.py", False),
    "the cell's parts": ("ctrnn/fields/candidates.py", True),
    "what those import": ("ctrnn/checks.py", True),
    "its step": ("discretize/steps/euler.py", True),
    "what records": ("discretize/kernels/record/zones.py", True),
    "what writes": ("discretize/kernels/cpp/rows.py", True),
    "what is compiled with it": ("discretize/kernels/cpp/source/row_stages.h", True),
}


@pytest.mark.parametrize(("path", "matters"), FIELD_AND_STEP.values(), ids=FIELD_AND_STEP)
def test_an_edit_makes_another_key_where_the_file_is_behind_a_program(path, matters, monkeypatch):
    assert (ROOT / path).is_file()
    module, keys = StepModule(ctrnn.gated(3, 5), discretize.Euler()), []
    text = fingerprint.text_of
    for edited in (False, True):
        monkeypatch.setattr(
            fingerprint, "text_of", lambda file, edited=edited: text(file) + edited * in_tree(file).count(path) * "x"
        )
        forget()
        keys.append(key_of(module))
    assert all(keys)
    assert (keys[0] != keys[1]) == matters


def test_a_function_of_these_packages_that_a_users_code_names_brings_its_file(looked_at):
    assert fingerprint.fingerprint(attributes_of([discretize.unroll]))
    assert "discretize/sequences/unroll.py" in {*map(in_tree, looked_at)}
