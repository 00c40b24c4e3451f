"""Proofs run code in few settings, but for the tests of what is found by all of them."""

import pytest

ALL_SETTINGS = {"test_deceiving_code", "test_samples"}


@pytest.fixture(autouse=True)
def _few_settings(request):
    if request.path.stem not in ALL_SETTINGS:
        request.getfixturevalue("few_settings")
