"""The posterior of docs/fitting.md by NUTS of Pyro: `pip install ".[bayes]"`."""

import pages
import pytest
import torch

pytest.importorskip("pyro", reason="pip install '.[bayes]'")
pytestmark = [pytest.mark.slow, pytest.mark.kernels]  # by steps it takes a quarter of an hour


def test_the_posterior_on_the_page_is_as_wide_as_the_standard_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the page draws
    blocks = pages.code_of("fitting.md", end="\n## Through jumps\n")
    assert blocks[-1][0] == "py"
    torch.set_default_dtype(torch.float32)
    namespace = {"__name__": "__main__"}
    for _, code in blocks:
        exec(code, namespace)
    samples = namespace["sampler"].get_samples()["z"]
    assert samples.shape == (100, 6)
    assert (samples.mean(0).abs() < 1).all()  # of standard errors
    assert ((samples.std(0) > 0.5) & (samples.std(0) < 1.6)).all()
