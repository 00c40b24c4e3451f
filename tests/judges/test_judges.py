"""Solver tests that nobody here wrote, by their adapters, and problems of others beside CVODE."""

import importlib
import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from scipy import integrate as scipy_integrate

from ctrnn.cells.catalog import variants

HERE = Path(__file__).parent
TOLERANCES = 10


def test_functions_of_numpy_are_solved_with_their_derivatives(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    from as_scipy import solve_ivp  # noqa: PLC0415 - beside this file

    for method in ("RK45", "Radau"):
        found = solve_ivp(lambda t, y: [-(y[0] ** 2)], [0.0, 2.0], [1.0], method=method, dense_output=True, rtol=1e-6, atol=1e-6)
        assert found.y[0, -1] == pytest.approx(1 / 3, abs=1e-5)
        assert found.sol(1.0)[0] == pytest.approx(1 / 2, abs=1e-5)


def test_the_page_lists_what_does_not_apply_and_why(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    page = (HERE.parents[1] / "docs" / "judges.md").read_text(encoding="utf-8")
    written = [row for row in page.splitlines() if row.startswith(("| scipy:", "| torchdiffeq:", "| torchode:"))]
    skipped = {name: importlib.import_module(f"as_{name}").SKIPPED for name in ("scipy", "torchdiffeq", "torchode")}
    assert written == [f"| {name}: `{test}` | {why} |" for name, tests in skipped.items() for test, why in tests.items()]


def test_the_page_has_a_row_for_every_cell_beside_torchdiffeq():
    page = (HERE.parents[1] / "docs" / "judges.md").read_text(encoding="utf-8")
    rows = page.partition("## All cells")[2].partition("\n## ")[0].replace(r"\|", "|").splitlines()
    named = [row.removeprefix("| ").rsplit(" | ", 3)[0] for row in rows if row.startswith("| ")]
    assert named[1:] == [label for _, label, _ in variants()]


@pytest.mark.slow
def test_scipys_own_tests_of_solve_ivp_pass():
    file = Path(scipy_integrate.__file__).parent / "_ivp" / "tests" / "test_ivp.py"
    if not file.exists():
        pytest.skip("this SciPy was installed without its tests; fetch test_ivp.py and call tests/judges/run.py")
    done = subprocess.run([sys.executable, str(HERE / "run.py"), "scipy", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_torchdiffeqs_own_tests_pass_under_its_drop_in():
    folder = os.environ.get("CTRNN_TORCHDIFFEQ_TESTS")
    if folder is None:
        pytest.skip("CTRNN_TORCHDIFFEQ_TESTS is the folder `tests` of torchdiffeq's repository, which no package has")
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "torchdiffeq", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_problems_of_others_are_solved_as_by_cvode(monkeypatch):
    if missing := [name for name in ("sksundae", "diffeqzoo", "dysts") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed; the extra has them: pip install -c constraints.txt '.[judges]'")
    monkeypatch.syspath_prepend(str(HERE))
    import zoo  # noqa: PLC0415 - beside this file, and its packages are an extra

    torch.set_default_dtype(torch.float64)
    for problem in itertools.chain(zoo.problems(), zoo.attractors()):
        expected = zoo.reference(problem)
        bound = zoo.by_scipy(problem, 1e-6, expected).error if problem.name in zoo.FARTHER else TOLERANCES
        assert zoo.solved(problem, 1e-6, expected).error < bound, problem.name


def judged(monkeypatch, some, samples=25):
    """Cells of these labels with how far torchdiffeq's dopri8 is, in tolerances."""
    monkeypatch.syspath_prepend(str(HERE))
    import fields  # noqa: PLC0415 - beside this file

    for _, label, make in variants():
        if some(label):
            field = make(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
            yield label, fields.apart(field, fields.JUDGES[1:], samples)[0]


def test_cells_are_solved_as_by_torchdiffeq(monkeypatch):
    found = dict(judged(monkeypatch, {"leaky", "gated", "lem"}.__contains__, samples=6))
    assert len(found) == 3
    assert max(found.values()) < 1


@pytest.mark.slow
def test_every_cell_is_solved_as_by_torchdiffeq(monkeypatch):
    for label, off in judged(monkeypatch, lambda label: True):
        assert off < (200 if "relu" in label or "retanh" in label else 20), label
