"""Tests of single studies are slow where study, judge and test are as recorded; see `experiments.studies.records`."""

from pathlib import Path

import pytest

from experiments.studies.records import changed, tests_of_claims


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the others slow, but those of a file that was asked for by its name."""
    asked = {Path(argument.partition("::")[0]).name for argument in config.args}
    as_recorded = {test for test in tests_of_claims() if test.stem not in changed() and test.name not in asked}
    for item in items:
        if Path(item.path) in as_recorded:
            item.add_marker(pytest.mark.slow)
