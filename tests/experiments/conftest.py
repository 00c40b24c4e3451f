"""What a test's own file adds to a registry is gone with the test."""

import pytest


@pytest.fixture(autouse=True)
def _registries_as_before(monkeypatch):
    from experiments.plugins import REGISTRIES  # noqa: PLC0415 - as in the conftest of all tests

    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_added", {})
        monkeypatch.setattr(registry, "files", {})
