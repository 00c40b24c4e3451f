r"""Run solver tests that others wrote against `discretize.integrate`. Their files are not here: fetch them, and name their place.

    python tests/judges/run.py scipy PATH/test_ivp.py              scipy/integrate/_ivp/tests; SciPy ships it
    python tests/judges/run.py torchdiffeq FOLDER                  tests/ of its repository
    python tests/judges/run.py torchode FOLDER                     tests/ of its repository

What does not apply is skipped with the reason that stands in as_scipy.py, as_torchdiffeq.py and as_torchode.py.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

import pytest

__all__ = ["Judge", "main"]

JUDGES = {
    "scipy": ["test_ivp.py"],
    "torchdiffeq": ["odeint_tests.py", "event_tests.py", "gradient_tests.py", "api_tests.py", "norm_tests.py"],
    "torchode": [
        "adjoint_test.py",
        "dtype_stability_test.py",
        "extra_args_test.py",
        "fixed_step_controller_test.py",
        "interface_test.py",
        "torch_script_test.py",
    ],
}


class Judge:
    """A plugin of pytest: names of theirs stand for ours, and tests that do not apply are skipped, with their reasons."""

    def __init__(self, name: str) -> None:
        self.adapter = importlib.import_module(f"as_{name}")
        getattr(self.adapter, "stand_in", lambda: None)()
        self.outcomes: dict[str, str] = {}

    @pytest.fixture
    def num_parallel_threads(self):
        return 1

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "fail_slow: theirs")
        config.addinivalue_line("markers", "slow: theirs")

    def pytest_collection_modifyitems(self, items):
        for item in items:
            for place, ours in self.adapter.PATCHES.items():
                file, _, name = place.rpartition(".")
                if hasattr(item.module, name) and file in ("", item.path.stem):
                    setattr(item.module, name, ours)
            places = (
                item.originalname or item.name,
                item.name,
                f"{getattr(item.cls, '__name__', '')}.{item.originalname or item.name}",
            )
            places += (item.path.name,)
            if why := next((self.adapter.SKIPPED[place] for place in places if place in self.adapter.SKIPPED), None):
                item.add_marker(pytest.mark.skip(reason=why))

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid.partition("::")[2]] = report.outcome


def main(words: list[str]) -> int:
    if len(words) < 2 or words[0] not in JUDGES:
        print(__doc__)
        return 2
    name, place = words[0], Path(words[1]).resolve()
    folder = place.parent if place.is_file() else place
    sys.path[:0] = [str(folder), str(folder.parent), str(Path(__file__).parent)]  # of torchdiffeq its own version too
    os.environ.setdefault("CTRNN_FUSED", "0")
    files = [str(place)] if place.is_file() else [str(folder / file) for file in JUDGES[name]]
    with tempfile.TemporaryDirectory() as empty:
        settings = Path(empty, "pytest.ini")
        settings.write_text("[pytest]\npython_files = *.py\n", encoding="utf-8")
        given = ["-c", str(settings), "--rootdir", str(folder), "-p", "no:cacheprovider", "-q", "-rs", "--import-mode=importlib"]
        return int(pytest.main([*given, *files, *words[2:]], plugins=[Judge(name)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
