import os

import pytest
from races import Watched


@pytest.fixture(autouse=True)
def races(request, monkeypatch):
    """Lines of kernels in Triton that lack a barrier before them, under its interpreter; a test that leaves some fails."""
    watched = Watched()
    if request.node.get_closest_marker("gpu") and os.environ.get("TRITON_INTERPRET") == "1":
        interpreter = pytest.importorskip("triton.runtime.interpreter")
        watched.watch(interpreter.InterpreterBuilder, monkeypatch)
    yield watched.races
    assert not watched.races
