"""Every test starts from float64, the same seed and one thread, or as many as CTRNN_TEST_THREADS says."""

import os

import pytest
import torch
from hypothesis import settings

THREADS = int(os.environ.get("CTRNN_TEST_THREADS", "1"))
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _same_start():
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)
