r"""Record a module's code at a batch of unknown size, its parameters and buffers as arguments: none of their numbers is in it.

What torch records holds for every batch of two samples or more.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from derivations.tracing.operations import has_reading
from derivations.tracing.sizes import Widths, checked_widths
from discretize.kernels.record.copies import as_function
from discretize.kernels.record.recording import ModuleRecord, UnknownSizes, decompositions, record

__all__ = ["BATCH", "trace"]

BATCH = {"batch": 3}  # what torch sees of its size where it must see a number


def trace(module: nn.Module, widths: Widths | None = None, *, any_batch: bool = True) -> ModuleRecord:
    r"""Record a module's code.

    Args:    module: `module(x, h)`, or with more arguments; widths: of every argument, the state's second, e.g.
             {"x": 2, "h": 3}, with a tuple for a state of several tensors; read off the module where not given; any_batch: at
             a batch of unknown size, two or more, else of one sample, which torch and users may treat otherwise.
    Raises:  TypeError for what is not a module; ValueError, with the line of code, where the code branches on values, depends
             on the size of the batch, or changes its buffers or inputs.
    """
    widths = checked_widths(module, widths)
    # A tensor under two names has the first.
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    tensors, sizes = parameters | buffers, UnknownSizes(BATCH if any_batch else {})
    device = next((t.device for t in tensors.values()), None)
    try:
        program = record(decompositions(has_reading), as_function(module), tensors, widths, sizes, _dtype(module), device)
    except ValueError as error:
        *others, (h, width) = list(widths.items())[:2]
        if "to unpack" not in str(error.__cause__) or not isinstance(width, int):  # Python's words
            raise
        suggestion = ", ".join([*(f"{name!r}: {n}" for name, n in others), f"{h!r}: ({width}, {width})"])
        raise ValueError(f"{error}; if its state is of two tensors, say so: widths={{{suggestion}}}.") from error
    if any(hasattr(t, "fake_mode") for t in program.constants.values()):  # of another record
        raise ValueError("the code keeps a tensor from one call to the next, outside of the module; it must keep nothing.")
    if line := program.written_at:
        raise ValueError(f"the code changes its buffers, parameters or inputs: {line}; it must be a function of them.")
    buffer_values = {placeholder: buffers[name].detach() for placeholder, name in program.parameters.items() if name in buffers}
    letters = {placeholder: name for placeholder, name in program.parameters.items() if name in parameters}
    name = type(module).__name__
    return replace(program.next_state(), name=name, parameters=letters, constants={**program.constants, **buffer_values})


def _dtype(module: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floating, getattr(module, "dtype", None) or torch.get_default_dtype())
