"""The divergence of a posterior from its prior beside torchsde's `logqp`, along a path of torchsde's."""

import importlib.util

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize


def drift():
    return ctrnn.NetworkField(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), 2)


@pytest.mark.skipif(importlib.util.find_spec("torchsde") is None, reason="torchcde brings torchsde, of the extra `test`")
@pytest.mark.parametrize("channels", [None, 3])
def test_the_divergence_is_torchsdes(channels):
    import torchsde  # noqa: PLC0415 - optional

    sigma = torch.tensor([0.4, 0.8]) if channels is None else torch.tensor([[0.4, 0.1, 0.3], [0.0, -0.5, 0.8]])
    prior = drift()
    posterior = ctrnn.Noisy(drift(), ctrnn.Noise(sigma))

    class Latent(nn.Module):
        noise_type, sde_type = "diagonal" if channels is None else "general", "ito"

        def f(self, t, h):
            return posterior.flow(h[:, :0], h)

        def h(self, t, h):
            return prior.flow(h[:, :0], h)

        def g(self, t, h):
            return posterior.diffusion(h[:, :0], h)

    ts = torch.arange(9) / 8
    # With diagonal noise torchsde has one for the divergence too, which it integrates as a state.
    motion = torchsde.BrownianInterval(0.0, 1.0, size=(5, 3), dtype=torch.float64, entropy=3)
    hs, theirs = torchsde.sdeint(Latent(), torch.randn(5, 2), ts, bm=motion, method="euler", dt=1 / 8, logqp=True)
    found = discretize.path_divergence(posterior, prior, None, hs, ts)
    assert_close(found, theirs.sum(0), rtol=1e-10, atol=1e-12)
    assert found.min() > 0.01
