r"""List every private name of torch that this project uses, with its purpose: what a release of torch may break.

A name is looked up when it is first used, for some load torch's compiler, and is kept here from then on. Where one is missing,
kernels are off and "engine_why" says which; derivations raise `Missing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import torch
from torch.autograd import forward_ad

__all__ = [
    "CHECKS",
    "COMPILES_NODES",
    "EXPORTS_NOISE",
    "PRIVATE",
    "RECORDING",
    "Missing",
    "exchanged",
    "is_exporting",
    "keep_device_guard",
    "lacks_checks",
    "missing",
    "require",
    "takes_tangents",
    "told_compiling",
]

# By their names here: where they are, and what they are for.
CHECKS = {
    "transforms_are_active": ("torch._C._are_functorch_transforms_active", "tells whether a transform of torch.func is at work"),
    "transform_level": ("torch._C._functorch.maybe_current_level", "tells how many are"),
    "is_batched": ("torch._C._functorch.is_batchedtensor", "tells what torch.func.vmap maps over"),
    "batched_axis": ("torch._C._functorch.maybe_get_bdim", "tells along which axis"),
    "unbatched": ("torch._C._functorch.get_unwrapped", "gives the tensor of all networks"),
    "is_legacy_batched": ("torch._C._functorch.is_legacy_batchedtensor", "tells whether autograd maps over gradients"),
    "dispatch_modes": ("torch._C._len_torch_dispatch_stack", "tells whether a mode looks at single operations"),
    "function_modes": ("torch._C._len_torch_function_stack", "tells whether a mode looks at single functions"),
    "function_mode_stack": ("torch.overrides._get_current_function_mode_stack", "tells which modes those are"),
    "dual_level": ("torch.autograd.forward_ad._current_level", "tells whether derivatives are taken in forward mode"),
    "DeviceContext": ("torch.utils._device.DeviceContext", "is the one of torch.set_default_device, which changes nothing"),
    **{
        f"global_{when}_hooks": (f"torch.nn.modules.module._global_{when}_hooks", "keeps hooks on all modules")
        for when in ("forward", "forward_pre", "backward", "backward_pre")
    },
}
SYMBOLIC = "torch.fx.experimental.symbolic_shapes"
RECORDING = {
    # torch.export records modules, and no derivatives; make_fx records any function of tensors.
    "make_fx": ("torch.fx.experimental.proxy_tensor.make_fx", "records code as a graph of core operations"),
    "FakeTensorMode": ("torch._subclasses.fake_tensor.FakeTensorMode", "makes tensors that have shapes and no values"),
    "functorch_config": ("torch._functorch.config", "keeps code from the memory of tensors without values"),
    "ShapeEnv": (f"{SYMBOLIC}.ShapeEnv", "keeps sizes that are unknown"),
    "DimDynamic": (f"{SYMBOLIC}.DimDynamic", "makes a size unknown"),
    "StrictMinMaxConstraint": (f"{SYMBOLIC}.StrictMinMaxConstraint", "bounds an unknown size"),
    "symbolic_shapes": (SYMBOLIC, "lists its own files beside unknown sizes, for which it loads torch.export and more"),
    "ConstantSource": ("torch._dynamo.source.ConstantSource", "names an unknown size"),
    "ValueRanges": ("torch.utils._sympy.value_ranges.ValueRanges", "bounds an unknown size"),
    "int_oo": ("torch.utils._sympy.numbers.int_oo", "is above all sizes"),
    "decomposition_table": ("torch._decomp.decomposition_table", "takes operations apart"),
    "OpOverload": ("torch._ops.OpOverload", "is what an operation of a graph is"),
    "TracerBase": ("torch.fx.proxy.TracerBase", "notes lines of code beside operations"),
    "filter_of_frames": ("torch.fx.proxy.TracerBase._filter_traceback_frames", "chooses those lines"),
    "preserve_node_meta": ("torch.fx.traceback.preserve_node_meta", "keeps those lines when a graph is recorded again"),
    "TreeSpec": ("torch.utils._pytree.TreeSpec", "is the structure of what code returns"),
    "tree_flatten": ("torch.utils._pytree.tree_flatten", "takes tensors out of what code returns"),
    "tree_unflatten": ("torch.utils._pytree.tree_unflatten", "puts them back"),
}
PRIVATE = {
    **CHECKS,
    **RECORDING,
    "TensorGuards": ("torch._C._dynamo.guards.TensorGuards", "tells whether tensors look as they did, in the same modes"),
    "GlobalStateGuard": ("torch._C._dynamo.guards.GlobalStateGuard", "tells whether torch's settings are as they were"),
    "dict_version": ("torch._C._dynamo.guards.dict_version", "tells whether a dict was written into"),
    "tree_leaves": ("torch.utils._pytree.tree_leaves", "takes tensors out of what code returns"),
    "tree_map_only": ("torch.utils._pytree.tree_map_only", "does something with each tensor of an optimizer's state"),
    "tree_map": ("torch.utils._pytree.tree_map", "does the same with each tensor of what code returns"),
    # The operator itself: its wrapper compiles the loop, and takes a program made for one length for another of any.
    "scan_op": ("torch._higher_order_ops.scan.scan_op", "is a loop over time of any length, for torch.export"),
    "TorchDispatchMode": ("torch.utils._python_dispatch.TorchDispatchMode", "looks at single operations as code runs"),
    "make_device_guard": (
        "torch._C._ensureCUDADeviceGuardSet",
        "makes the guard of devices that FakeTensorMode uses without a GPU",
    ),
}
# Before torch 2.12 a function that torch.compile takes for a constant cannot be given a module.
COMPILES_NODES = torch.__version__ >= "2.12"
# Before torch 2.12 a loop of torch.export guards on sizes of what noise is drawn for, which it cannot know.
EXPORTS_NOISE = torch.__version__ >= "2.12"


class Missing(ImportError):  # noqa: N818 - an answer, and callers of kernels go on without
    """Raised where this release of torch lacks a private name that this project uses; says what it is for."""


def __getattr__(name: str) -> Any:
    if name not in PRIVATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _found(name))


def missing(names: Iterable[str]) -> str | None:
    """Which of some names this torch lacks, and what it is for; None if it has them all."""
    try:
        for name in names:
            _found(name)
    except Missing as error:
        return str(error)
    return None


@cache
def lacks_checks() -> str | None:
    """As `missing`, of `CHECKS`, which are asked for at every call."""
    return missing(CHECKS)


def require(names: Iterable[str]) -> None:
    """Raises `Missing`."""
    if why := missing(names):
        raise Missing(why)


def takes_tangents() -> bool:
    """Whether a tensor may have a tangent: a number of torch's that changes, and is read anew."""
    return forward_ad._current_level >= 0


def is_exporting() -> bool:
    """Whether torch.export is at work. torch.compiler.is_exporting says so of torch.compile too, before torch 2.12."""
    flag = getattr(torch.compiler, "_is_exporting_flag", None)
    return torch.compiler.is_exporting() if flag is None else bool(flag)


@cache
def keep_device_guard() -> None:
    """Make torch's guard of devices in a thread that does not end, before a FakeTensorMode makes it in one that may.

    CUDA builds of torch 2.10 and 2.11 that see no GPU keep the guard in the memory of the thread that made it, and crash where it
    is used after that thread has ended. The main thread is best, for it is there in processes that fork, too.
    """
    if torch.__version__ >= "2.12" or torch.version.cuda is None or torch.cuda.is_available():
        return
    make, is_made = _found("make_device_guard"), Event()
    if current_thread() is main_thread():
        make()
        return

    def stay() -> None:
        make()
        is_made.set()
        Event().wait()

    Thread(target=stay, name="ctrnn device guard", daemon=True).start()
    is_made.wait()


@contextmanager
def exchanged(owner: object, name: str, value: object) -> Iterator[None]:
    """Exchange or add an attribute of a module or class of torch's, and restore it at the end."""
    there, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if there:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def told_compiling(answer: object) -> Iterator[None]:
    """Change the answers of torch.compiler.is_exporting and .is_compiling, where this torch keeps them in a flag."""
    with (
        exchanged(torch.compiler, "_is_exporting_flag", answer),
        exchanged(torch.compiler, "_is_compiling_flag", answer),
    ):
        yield


@cache
def _found(name: str) -> Any:
    path, purpose = PRIVATE[name]
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(parts[:end]))
            for attribute in parts[end:]:
                value = getattr(value, attribute)
        except (ImportError, AttributeError):
            continue
        return value
    raise Missing(f"torch {torch.__version__} has no `{path}`, which {purpose}")
