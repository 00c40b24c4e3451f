"""A device other than the CPU, played by the CPU: its tensors meet no others, and every wait for it is counted.

Within `FakeDevice` tensors made there or moved there have their values on the CPU, in a backend of torch's made for such. As
on a GPU, an operation on a tensor of the device and one of the CPU is an error, unless the latter is a number; and a copy
between the two waits until all work that was given to the device is done, as does a look at a value and every shape that hangs
on values. (A copy to a GPU by `non_blocking=True` does not wait.)
"""

import sys
from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

__all__ = ["DEVICE", "FakeDevice"]


class _Backend(_DummyBackendModule):
    """What torch asks of a backend. Other tests, which the device is not for, have no accelerator."""

    def is_available(self):
        return False

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


_setup_privateuseone_for_python_backend("fake", _Backend())
DEVICE = torch.device("fake", 0)
aten = torch.ops.aten
VALUES = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten._unique2, aten.unique_dim}
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}  # which take indices from the CPU


class There(torch.Tensor):
    """A tensor of the device; `here` are its values."""

    float64 = True  # whether the device has such numbers

    @staticmethod
    def __new__(cls, here):
        if here.dtype in (torch.float64, torch.complex128) and not cls.float64:
            raise TypeError(f"{here.dtype} on a device without float64")
        kept = {"strides": here.stride(), "storage_offset": here.storage_offset(), "dtype": here.dtype}
        there = cls._make_wrapper_subclass(cls, here.shape, device=DEVICE, **kept)
        there.here = here
        return there

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError(f"{function} outside of FakeDevice")

    def __repr__(self):
        return f"There({self.here})"


def _gru_cell(x_gates, h_gates, h, x_bias=None, h_bias=None):
    x_gates, h_gates = (gates if bias is None else gates + bias for gates, bias in ((x_gates, x_bias), (h_gates, h_bias)))
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = x_gates.chunk(3, 1), h_gates.chunk(3, 1)
    reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
    new = torch.tanh(x_new + reset * h_new)
    return new + update * (h - new), torch.cat([reset, update, new, h_new, h], 1)


def _gru_cell_backward(cotangent, kept, has_bias):
    reset, update, new, h_new, h = kept.chunk(5, 1)
    by_new = cotangent * (1 - update) * (1 - new**2)
    by_update, by_reset = cotangent * (h - new) * update * (1 - update), by_new * h_new * reset * (1 - reset)
    by_gates = [torch.cat([by_reset, by_update, last], 1) for last in (by_new, by_new * reset)]
    return *by_gates, cotangent * update, *(gates.sum(0) if has_bias else None for gates in by_gates)


# What torch does by a kernel of the device's own, not by its operations.
FUSED = {aten._thnn_fused_gru_cell: _gru_cell, aten._thnn_fused_gru_cell_backward: _gru_cell_backward}


class FakeDevice(TorchDispatchMode):
    """Within it the device is there; `waits` counts what waited for it, by the operation and the line that asked; `sent`, what
    was copied there, waiting or not. `float64`: whether it has such numbers."""

    def __init__(self, float64=True):
        super().__init__()
        self.float64 = float64
        self.waits, self.sent = Counter(), Counter()

    def __enter__(self):
        tensor, as_tensor, tolist = torch.tensor, torch.as_tensor, torch.Tensor.tolist

        def moved(make):
            def made(data, *, device=None, **settings):
                there = device is not None and torch.device(device).type == DEVICE.type
                return make(data, **settings).to(DEVICE) if there else make(data, device=device, **settings)

            return made

        def new_tensor(like, data, *, dtype=None, device=None):
            return torch.tensor(data, dtype=dtype or like.dtype, device=device or like.device)

        self.replaced = ExitStack()  # what torch does without an operation, or refuses for such as There
        for owner, name, function in (
            (torch, "tensor", moved(tensor)),
            (torch, "as_tensor", moved(as_tensor)),
            (torch.Tensor, "new_tensor", new_tensor),
            (torch.Tensor, "tolist", lambda x: tolist(x.detach().cpu() if isinstance(x, There) else x)),
            # A module's parameters are moved by new ones: There has its values beside what torch would write into.
            (torch.__future__, "_overwrite_module_params_on_conversion", True),
            (There, "float64", self.float64),
        ):
            self.replaced.enter_context(patch.object(owner, name, function))
        return super().__enter__()

    def __exit__(self, *raised):
        self.replaced.close()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        kind = function.overloadpacket
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        there = any(isinstance(x, There) for x in tensors)
        if kind is aten._efficientzerotensor:  # of forward mode; a tensor without memory
            function = aten.zeros.default
        if kind is aten._to_copy:
            return self._moved(args[0], kwargs)
        if kind is aten.copy_:
            if isinstance(args[0], There) != isinstance(args[1], There):
                self._wait(kind)
        elif kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]).type == DEVICE.type
            kwargs["device"] = torch.device("cpu") if there else kwargs["device"]
        elif there:
            self._check(kind, args, tensors)
        values, settings = tree_map_only(There, lambda x: x.here, (args, kwargs))
        found = FUSED.get(kind, function)(*values, **settings)
        if not there:
            return found
        given = {id(x.here): x for x in tensors if isinstance(x, There)}  # what is written in place stays itself
        return tree_map_only(torch.Tensor, lambda x: given[id(x)] if id(x) in given else There(x), found)

    def _moved(self, x, settings):
        target, there = settings.get("device"), isinstance(x, There)
        goes = there if target is None else torch.device(target).type == DEVICE.type
        if goes != there and not (goes and settings.get("non_blocking")):
            self._wait(aten._to_copy)
        if goes and not there:
            self.sent[_asked_in()] += 1
        device = {} if target is None else {"device": torch.device("cpu")}
        values = aten._to_copy.default(x.here if there else x, **settings | device)
        return There(values) if goes else values

    def _check(self, kind, args, tensors):
        elsewhere = [x for x in tensors if not isinstance(x, There)]
        if kind in INDEXED:
            by_values = any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
            if by_values or elsewhere:
                self._wait(kind)
        elif kind in VALUES:
            self._wait(kind)
        elif any(x.dim() for x in elsewhere):
            raise RuntimeError(f"Expected all tensors to be on the same device, got {tensors} in {kind}")

    def _wait(self, kind):
        self.waits[f"{kind} in {_asked_in()}"] += 1


def _asked_in():
    """The line of this project that is running."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in ("ctrnn", "discretize"):
        frame = frame.f_back
    return "the test" if frame is None else f"{frame.f_globals['__name__']}:{frame.f_lineno}"
