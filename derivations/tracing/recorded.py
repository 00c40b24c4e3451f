r"""Record a module's code with weights of unknown sizes, and compare runs at many sizes with the record.

torch's own recurrent cells are one operation each, which is written out here as torch's documentation has it: at the sizes of
a module torch's own parts of it are read and compared with the same equations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from sympy import Expr, MatrixSymbol, Symbol
from torch import Tensor, nn
from torch.nn.functional import linear

from ctrnn.rewriting import Rewritten
from derivations.tracing.operations import has_reading
from derivations.tracing.running import same_numbers
from derivations.tracing.sizes import INPUT_WIDTHS, STATE_WIDTHS
from discretize.kernels.record.copies import as_function
from discretize.kernels.record.recording import ModuleRecord, UnknownSizes, decompositions, record

__all__ = ["check_widths", "record_wide"]

# Where torch looks at a size at all it looks at these: no two are equal, nor small multiples or sums of others.
HINTS = (11, 17, 29, 41, 59, 83, 113)
# While a size is unknown it is no `int`, which code may ask for before it looks at the size: so it is also run at these.
WIDTHS = (*range(2, 10), 16, 32, 33, 64)
SAMPLES = 3
Lengths = Mapping[Symbol, int] | Mapping[Symbol, torch.SymInt]  # of the free sizes, numbers or symbols of torch


def record_wide(
    module: nn.Module, letters: Mapping[str, MatrixSymbol], inputs: tuple[Any, ...]
) -> tuple[ModuleRecord, dict[Any, Expr]]:
    r"""Record a program at unknown sizes; return it, and which symbol of torch's is which size.

    Args:    letters: of the parameters, by name, with their shapes; inputs: of the arguments, columns, the state's second.
    Raises:  ValueError where torch asks something of the sizes, for parameters without a letter, and for buffers.
    """
    if list(module.buffers()):
        raise ValueError("the module has buffers, whose numbers are of one size")
    names = [name for name, _ in module.named_parameters()]
    if missing := [name for name in names if name not in letters]:
        raise ValueError(f"no matrix in the equations is called {missing[0]}")
    shapes, columns, free = _lengths(module, letters, inputs)
    sizes = UnknownSizes(dict(zip(["batch", *free], HINTS, strict=False)))
    own = sizes.by_name
    weights = {name: [_evaluated(n, own) for n in shape] for name, shape in zip(names, shapes, strict=True)}
    widths = {
        str(k): tuple(_evaluated(m.shape[0], own) for m in part) if isinstance(part, tuple) else _evaluated(part.shape[0], own)
        for k, part in enumerate(inputs)
    }
    unknown = _resized(module, columns, own)
    called = as_function(unknown, {id(value): value for value in vars(unknown).values() if isinstance(value, torch.SymInt)})

    def written_out(weights: Any, arguments: tuple[Any, ...]) -> Any:
        with Rewritten(CELLS):
            return called(weights, arguments)

    program = record(decompositions(has_reading), written_out, weights, widths, sizes, torch.get_default_dtype())
    if program.constants:
        raise ValueError("the code keeps or makes tensors of one size")
    if program.asked:
        raise ValueError(f"torch takes it for certain sizes only{program.asked_at}: it asks whether {program.asked}")
    placed = [name for placeholders in program.inputs.values() for name in placeholders]
    named = {**program.parameters, **dict(zip(placed, (m.name for m in columns), strict=True))}
    program = replace(program.next_state(), name=type(module).__name__, parameters=named)
    return program, {symbol: sympy.S.One if n == "batch" else n for symbol, n in sizes.symbols.items()}


def check_widths(module: nn.Module, letters: Mapping[str, MatrixSymbol], inputs: tuple[Any, ...], program: ModuleRecord) -> None:
    r"""Compare runs of a module with its record at unknown sizes.

    Args:    letters, inputs: as for `record_wide`; program: what that found.
    Raises:  ValueError where the code does otherwise at some width.
    """
    shapes, columns, free = _lengths(module, letters, inputs)
    dice = torch.Generator().manual_seed(0)
    for width in WIDTHS:
        for sizes in (dict.fromkeys(free, width), {n: width + k for k, n in enumerate(free)}):
            of_weights = [[_evaluated(n, sizes) for n in shape] for shape in shapes]
            of_samples = [[SAMPLES, _evaluated(column.shape[0], sizes)] for column in columns]
            drawn = [2 * torch.rand(shape, generator=dice, dtype=torch.float64) - 1 for shape in (*of_weights, *of_samples)]
            tensors = dict(zip(program.placeholders, drawn, strict=True))
            with torch.no_grad():
                answer = as_function(_resized(module, columns, sizes))(drawn[: len(shapes)], tuple(program.packed(tensors)))
            if not same_numbers(program.state_of(answer), program, tensors):
                raise ValueError(f"with {', '.join(f'{n} = {size}' for n, size in sizes.items())} the code does otherwise")


def _lengths(
    module: nn.Module, letters: Mapping[str, MatrixSymbol], inputs: tuple[Any, ...]
) -> tuple[list[tuple[Expr, ...]], list[MatrixSymbol], list[Symbol]]:
    """Return the parameters' shapes in letters, the columns that the arguments are, and the sizes that are free in them."""
    columns = [m for part in inputs for m in (part if isinstance(part, tuple) else (part,))]
    shapes = [tuple(letters[name].shape[: parameter.dim()]) for name, parameter in module.named_parameters()]
    free = set().union(*(sympy.sympify(n).free_symbols for shape in [*shapes, *(m.shape for m in columns)] for n in shape))
    return shapes, columns, sorted(free, key=str)


def _resized(module: nn.Module, columns: Sequence[MatrixSymbol], sizes: Lengths) -> nn.Module:
    """Copy the module with these widths, where they are attributes of the usual names."""
    resized = copy.copy(module)
    resized.__dict__ = dict(vars(module))
    for names, column in zip((INPUT_WIDTHS, STATE_WIDTHS), columns, strict=False):
        for name in names:
            if isinstance(vars(module).get(name), int):
                resized.__dict__[name] = _evaluated(column.shape[0], sizes)
    return resized


def _evaluated(n: Expr, sizes: Lengths) -> int | torch.SymInt:
    """Evaluate a size in torch's symbols, or in numbers."""
    n = sympy.expand(n)
    return sum((int(factor) * _monomial(rest, sizes) for rest, factor in n.as_coefficients_dict().items()), 0)


def _monomial(e: Expr, sizes: Lengths) -> int | torch.SymInt:
    if e == 1:
        return 1
    if not isinstance(e, Symbol):
        raise ValueError(f"a size {e} is no sum of sizes")
    return sizes[e]


def _preactivations(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)


def _gru(x: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
    (xr, xz, xn), (hr, hz, hn) = (part.split([h.shape[1]] * 3, 1) for part in _preactivations(x, h, *weights))
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return n + z * (h - n)


def _lstm(x: Tensor, state: tuple[Tensor, Tensor], *weights: Tensor) -> tuple[Tensor, Tensor]:
    h, c = state
    both = _preactivations(x, h, *weights)
    i, f, g, o = (both[0] + both[1]).split([h.shape[1]] * 4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# Of torch.rnn_tanh_cell and its kin the documented equations: their kernels need sizes that are numbers.
CELLS: Mapping[str, Callable[..., Any]] = {
    "rnn_tanh_cell": lambda x, h, *weights: torch.add(*_preactivations(x, h, *weights)).tanh(),
    "rnn_relu_cell": lambda x, h, *weights: torch.add(*_preactivations(x, h, *weights)).relu(),
    "gru_cell": _gru,
    "lstm_cell": _lstm,
}
