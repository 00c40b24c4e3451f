"""Tests on a GPU, where CTRNN_TEST_DEVICE names one: `CTRNN_TEST_DEVICE=cuda pytest tests/discretize/kernels`.

What tests make is made there. What the CPU's generators draw is drawn on the CPU and copied, so that tests have the same
numbers on both; NumPy is given copies.
"""

import functools
import os

import pytest
import torch

__all__ = ["DEVICE", "ON_GPU", "needs_triton", "put_on_gpu"]

DEVICE = torch.device(os.environ.get("CTRNN_TEST_DEVICE", "cpu"))
ON_GPU = DEVICE.type != "cpu"
DRAWN = ("bernoulli", "normal", "rand", "randint", "randn", "randperm")
DRAWN_IN_PLACE = ("bernoulli_", "exponential_", "normal_", "random_", "uniform_")


def put_on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the monkeypatch lasts."""
    torch.utils._device._device_constructors()  # torch keeps what it finds at the first call: not what is put in their place
    monkeypatch.setattr(torch.Tensor, "numpy", lambda x, numpy=torch.Tensor.numpy, **how: numpy(x.cpu(), **how))
    for name in DRAWN:
        monkeypatch.setattr(torch, name, _drawn(getattr(torch, name)))
    for name in DRAWN_IN_PLACE:
        monkeypatch.setattr(torch.Tensor, name, _drawn_in_place(getattr(torch.Tensor, name)))
    torch.set_default_device(DEVICE)


def _by_cpu(how):
    return how.get("device") is None and getattr(how.get("generator"), "device", DEVICE).type == "cpu"


def _drawn(draw):
    @functools.wraps(draw)
    def drawn(*given, **how):
        if not _by_cpu(how):
            return draw(*given, **how)
        learned = how.pop("requires_grad", False)
        return draw(*given, **how, device="cpu").to(DEVICE).requires_grad_(learned)

    return drawn


def _drawn_in_place(draw):
    @functools.wraps(draw)
    def drawn(x, *given, **how):
        if not _by_cpu(how) or x.device.type == "cpu":
            return draw(x, *given, **how)
        return x.copy_(draw(torch.empty_like(x, device="cpu"), *given, **how))

    return drawn


def needs_triton() -> None:
    """Skip a test of kernels in Triton where there are none."""
    pytest.importorskip("triton")
    if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("triton's interpreter is asked for by TRITON_INTERPRET=1 before Python starts")
