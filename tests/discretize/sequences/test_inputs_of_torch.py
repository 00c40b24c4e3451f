"""torch's own tests of nn.RNN, GRU and LSTM: the inputs of its `common_modules`, on `Layers` made of each module.

Its test files are in no wheel; what they ask of a module stands here, by the same names. What does not apply, and why:

    LSTM with proj_size                no field has a projected state: it is refused, in words
    construction errors                are torch's constructor's, which `from_torch` never sees
    check_inplace                      neither has an `inplace`
    memory_format                      is for inputs with channels
    cpu_gpu_parity, device transfer    tests here run on any machine
    factory_kwargs                     the device and dtype are the module's: see `to`
"""

import copy
import io
import os
import pickle
import sys
import types
import unittest

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_flatten, tree_map

import discretize

KINDS = [nn.RNN, nn.GRU, nn.LSTM]
ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # the same sums in another order, of inputs up to 9


@pytest.fixture(scope="module")
def torchs():
    """`common_modules`, and the process as it was before: importing it freezes torch's flags and sets a variable."""
    before, stubbed = dict(os.environ), "expecttest" not in sys.modules
    if stubbed:  # a base class of torch's test cases, which inputs do not need
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase
    try:
        yield pytest.importorskip("torch.testing._internal.common_modules", exc_type=ImportError)
    finally:
        if stubbed:
            del sys.modules["expecttest"]
        setattr(torch.backends, "__allow_nonbracketed_mutation_flag", True)
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def info_of(torchs, kind):
    return next(info for info in torchs.module_db if info.module_cls is kind)


def inputs(torchs, kind, **settings):
    """torch's module, `Layers` made of it, the arguments and the reference, for each of torch's inputs."""
    info = info_of(torchs, kind)
    settings = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": False} | settings
    for given in info.module_inputs_func(info, **settings):
        made = given.constructor_input
        theirs = kind(*made.args, **made.kwargs, dtype=settings["dtype"]).train(settings["training"])
        if theirs.proj_size:
            with pytest.raises(ValueError, match="proj_size=2; no field here has a projected state"):
                discretize.layers_from_torch(theirs)
            continue
        yield theirs, discretize.layers_from_torch(theirs), given.forward_input.args, given.reference_fn


def arguments(args):
    """Copies, which are leaves."""
    return tree_map(lambda x: x.detach().clone().requires_grad_(), args)


def sizes(args):
    """Sizes of the arguments, which tell an input from the others."""
    return [[*x.shape] for x in tensors(args)]


def tensors(*trees):
    return [leaf for leaf in tree_flatten(trees)[0] if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [False, pytest.param(True, marks=pytest.mark.slow)])  # none of them has dropout
def test_forward(torchs, kind, training, subtests):
    count = 0
    for theirs, ours, args, reference in inputs(torchs, kind, training=training):
        with subtests.test(module=str(theirs), sizes=sizes(args)):
            assert ours.training == training
            found = ours(*args)
            assert_close(found, theirs(*args), **ROUNDING)
            assert_close(found, reference(ours, *args), **ROUNDING)
        count += 1
    assert count >= 16


# The slow run adds the other kind, packed and unpacked by the same code.
@pytest.mark.parametrize(
    "kind", [pytest.param(nn.RNN, marks=pytest.mark.slow), nn.GRU]
)  # torch has no packed inputs for the LSTM; the tests of layers have
def test_forward_of_packed_sequences(torchs, kind, subtests):
    for theirs, ours, args, _ in inputs(torchs, kind, with_packed_sequence=True):
        with subtests.test(module=str(theirs), sizes=sizes(args)):
            found, wanted = ours(*args), theirs(*args)
            assert_close(tensors(found), tensors(wanted), **ROUNDING)


# The slow run adds the others, whose inputs and states are read by the same code.
@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[:2]), nn.LSTM])
def test_non_contiguous_tensors(torchs, kind, subtests):
    def scattered(x):
        wide = torch.stack([x, torch.full_like(x, torch.nan)], -1)
        return wide[..., 0]

    for theirs, ours, args, _ in inputs(torchs, kind):
        with subtests.test(module=str(theirs), sizes=sizes(args)):
            assert_close(ours(*tree_map(scattered, args)), ours(*args), **ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_grad(torchs, kind, subtests):
    for theirs, ours, args, _ in inputs(torchs, kind):
        with subtests.test(module=str(theirs), sizes=sizes(args)):
            grads = []
            for module in (theirs, ours):
                leaves = arguments(args)
                sum((k + 1) * part.sum() for k, part in enumerate(tensors(module(*leaves)))).backward()
                grads.append([leaf.grad for leaf in tensors(leaves)])
            assert_close(*grads, **ROUNDING)


@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
@pytest.mark.parametrize("kind", KINDS)
def test_grad_and_gradgrad_are_those_of_differences(torchs, kind, check):
    for _, ours, args, _ in [*inputs(torchs, kind)][:2]:  # without a start and with one; the others differ in size alone
        leaves, tree = tree_flatten(arguments(args))

        def output(*leaves, ours=ours, tree=tree):
            return tuple(tensors(ours(*tree.unflatten(list(leaves)))))

        assert check(output, leaves, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_pickle_save_load_and_copies(torchs, kind):
    for _, ours, args, _ in [*inputs(torchs, kind)][::5]:  # of every setting both
        wanted = ours(*args)
        file = io.BytesIO()
        torch.save(ours.state_dict(), file)
        file.seek(0)
        other = copy.deepcopy(ours)
        for parameter in other.parameters():
            nn.init.zeros_(parameter)
        other.load_state_dict(torch.load(file, weights_only=True))
        for same in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), other):
            assert_close(same(*args), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_repr_and_to(torchs, kind, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")  # kernels in float32 would be built for this alone; they have tests of their own
    for theirs, ours, args, _ in [*inputs(torchs, kind)][::5]:  # of every setting both
        assert f"{theirs.hidden_size}" in repr(ours)
        assert str(ours) == repr(ours)
        low = ours.to(torch.float32)
        assert low is ours
        found = low(*tree_map(lambda x: x.float(), args))
        assert all(part.dtype == torch.float32 for part in tensors(found))
        assert_close(tree_map(lambda x: x.double(), found), theirs(*args), rtol=1e-5, atol=1e-5)  # inputs are up to 9
        assert all(parameter.is_meta for parameter in ours.to("meta").parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_errors_at_the_call_are_errors_here_too(torchs, kind):
    info, count = info_of(torchs, kind), 0
    samples = info.module_error_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=False)
    for sample in samples:
        if sample.error_on is torchs.ModuleErrorEnum.FORWARD_ERROR:
            given = sample.module_error_input
            theirs = kind(*given.constructor_input.args, **given.constructor_input.kwargs)
            with pytest.raises(sample.error_type):
                theirs(*given.forward_input.args)
            with pytest.raises((TypeError, ValueError), match=r"float32, the field's parameters are torch\.float64"):
                discretize.layers_from_torch(theirs)(*given.forward_input.args)
            count += 1
    assert count
