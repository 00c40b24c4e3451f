"""torch's own inputs for the tests of nn.RNN, GRU and LSTM, given to the modules that these convert to."""

import pytest
import torch
from cases import each
from torch import nn
from torch.utils import _pytree as pytree

from discretize import from_torch

pytest.importorskip("expecttest", reason="torch's own tests need it")
pytestmark = pytest.mark.slow  # loads all of torch's module tests


def inputs_of(kind):
    from torch.testing._internal.common_modules import module_db  # noqa: PLC0415 - takes seconds

    info = next(info for info in module_db if info.module_cls is kind)
    for training in (False, True):
        yield from info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)


@each("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchs_own_inputs_give_its_outputs_and_gradients(kind):
    tried = 0
    for given in inputs_of(kind):
        theirs = kind(*given.constructor_input.args, **given.constructor_input.kwargs).double()
        settings = given.constructor_input.kwargs
        if settings.get("nonlinearity") == "relu" or settings.get("proj_size"):  # refused, in words of `from_torch`'s own tests
            continue
        ours, call = from_torch(theirs), given.forward_input
        outputs = [pytree.tree_leaves(module(*call.args, **call.kwargs)) for module in (theirs, ours)]
        leaves = [leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor)]
        gradients = [torch.autograd.grad(sum(o.cos().sum() for o in found), leaves) for found in outputs]
        for found, expected in zip([*outputs[1], *gradients[1]], [*outputs[0], *gradients[0]], strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        tried += 1
    assert tried >= 16
