r"""A module run at many widths beside what was recorded of it at unknown ones.

While a size is unknown it is no `int`, and code may ask for that before it looks at the size. So the module is run with weights
of the widths from 2 to 9 and of some larger ones, equal and not, and its numbers are compared with those of the record. Numbers
only refute: code that asks so and does otherwise at another width is not found out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sympy import MatrixSymbol
from torch import nn

from derivations.tracing.program import Program, next_state
from derivations.tracing.running import packed, same_numbers
from derivations.tracing.widths.recorded import evaluated, lengths, resized
from discretize import compat
from discretize.kernels.record.recording import as_function

__all__ = ["check_widths"]

WIDTHS = (*range(2, 10), 16, 32, 33, 64)
SAMPLES = 3


def check_widths(module: nn.Module, letters: Mapping[str, MatrixSymbol], inputs: tuple[Any, ...], program: Program) -> None:
    r"""Compare runs of a module with its record at unknown sizes.

    Args:    letters, inputs: as for `record_wide`; program: what that found.
    Raises:  ValueError where the code does otherwise at some width.
    """
    shapes, columns, free = lengths(module, letters, inputs)
    names = [node.name for node in program.graph.find_nodes(op="placeholder")]
    dice = torch.Generator().manual_seed(0)
    for width in WIDTHS:
        for sizes in (dict.fromkeys(free, width), {n: width + k for k, n in enumerate(free)}):
            of_weights = [[evaluated(n, sizes) for n in shape] for shape in shapes]
            of_samples = [[SAMPLES, evaluated(column.shape[0], sizes)] for column in columns]
            drawn = [2 * torch.rand(shape, generator=dice, dtype=torch.float64) - 1 for shape in (*of_weights, *of_samples)]
            given = dict(zip(names, drawn, strict=True))
            with torch.no_grad():
                answer = as_function(resized(module, columns, sizes))(drawn[: len(shapes)], tuple(packed(program, given)))
            leaves, structure = compat.tree_flatten(answer)
            theirs, _ = next_state(leaves, structure, len(program.inputs[program.state]))
            if not same_numbers(theirs, program, given):
                raise ValueError(f"with {', '.join(f'{n} = {size}' for n, size in sizes.items())} the code does otherwise")
