r"""The Jacobian J of a field as a method's `attempt` computes with it: products with a vector, and solves with a + b J.

    (1 - gamma dt J) u = right      ->  a = 1, b = -gamma dt: one factorization for each a and b
    w = (a + b J)^-T cotangent      ->  the cotangent of right is w, of J -b w u^T, of a -w . u, of b -w . J u

What is recorded is the method's own text, which knows neither the field nor its width. So J is a name there, and no tensor of
width^2 numbers, and its cotangent a sum of products of two vectors. Run on numbers, J is the diagonal matrix of its name's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from discretize.kernels.record.recording import UnknownOperation

__all__ = ["Identities", "ShiftedJacobian"]

Number: TypeAlias = "Tensor | float"
TIMES_VECTOR = re.compile(r"(\w)(?!\1)(\w)(?!\1|\2)(\w),\1\3->\1\2")  # as torch.einsum has it


class _Matrix:
    """What stands for a matrix of each sample, and answers torch's functions by rules of its own."""

    def __init__(self, jacobian: Tensor) -> None:
        self.jacobian = jacobian  # its name: (batch, state)

    @property
    def shape(self) -> torch.Size:
        return torch.Size([*self.jacobian.shape, self.jacobian.shape[-1]])

    @property
    def dtype(self) -> torch.dtype:
        return self.jacobian.dtype

    @property
    def device(self) -> torch.device:
        return self.jacobian.device

    def dim(self) -> int:
        return 3

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    @classmethod
    def __torch_function__(cls, function: Any, types: object, given: Any = (), settings: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        rule = RULES.get(name.strip("_").removeprefix("linalg_"))
        try:
            result = NotImplemented if rule is None else rule(*given, **(settings or {}))
        except TypeError:  # arguments that it is not for
            result = NotImplemented
        if result is NotImplemented:
            raise _unknown(name)
        return result

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(name)


class ShiftedJacobian(_Matrix):
    """a + b J of each sample; a and b are numbers or (batch, 1), `jacobian` the name of J.

    Raises:  UnknownOperation for whatever is no sum, no multiple, no product with a vector and no solve.
    """

    def __init__(self, jacobian: Tensor, a: Number = 0.0, b: Number = 1.0) -> None:
        super().__init__(jacobian)
        self.a, self.b = a, b

    def detach(self) -> ShiftedJacobian:
        return ShiftedJacobian(self.jacobian.detach(), self.a, self.b)

    def to(self, *_: object, **__: object) -> ShiftedJacobian:
        return self

    expand = unsqueeze = type_as = expand_as = clone = contiguous = to

    def __getitem__(self, place: object) -> ShiftedJacobian:
        places = place if isinstance(place, tuple) else (place,)
        if not all(each is None or each is ... or each == slice(None) for each in places):
            raise _unknown("an index")
        return self

    def __add__(self, other: object) -> ShiftedJacobian:
        if not isinstance(other, ShiftedJacobian):
            raise _unknown("a sum with another tensor")
        names = [each.jacobian for each in (self, other) if not _is_zero(each.b)] or [self.jacobian]
        if len({name.requires_grad for name in names}) > 1:
            raise _unknown("a sum with what is detached of it")
        return ShiftedJacobian(names[0], self.a + other.a, self.b + other.b)

    def __mul__(self, other: object) -> ShiftedJacobian:
        by = _scale(other)
        return self._by(lambda each: each * by)

    def __truediv__(self, other: object) -> ShiftedJacobian:
        by = _scale(other)
        return self._by(lambda each: each / by)

    def __neg__(self) -> ShiftedJacobian:
        return self._by(lambda each: -each)

    def __sub__(self, other: ShiftedJacobian) -> ShiftedJacobian:
        return self + -other

    def __rsub__(self, other: ShiftedJacobian) -> ShiftedJacobian:
        return other + -self

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, vectors: Tensor) -> Tensor:
        return _by_columns(self.product, vectors)

    def transpose(self, one: int, other: int) -> _Transpose:
        if {one % 3, other % 3} != {1, 2}:
            raise _unknown("a transpose over samples")
        return _Transpose(self)

    def product(self, v: Tensor) -> Tensor:
        """a v + b J v: (batch, state) -> (batch, state)."""
        if _is_zero(self.b):
            return self.a * v
        product: Any = _JacobianProduct.apply(self.jacobian, v)
        moved = product if _is_one(self.b) else self.b * product
        return moved if _is_zero(self.a) else self.a * v + moved

    def solve(self, right: Tensor) -> Tensor:
        """(a + b J)^-1 right: (batch, state) -> (batch, state)."""
        if _is_zero(self.b):
            return right / self.a
        a, b = (each if isinstance(each, Tensor) else torch.full_like(right[:, :1], each) for each in (self.a, self.b))
        solution: Tensor = _JacobianSolve.apply(self.jacobian, a, b, right)
        return solution

    def _by(self, scaled: Callable[[Number], Number]) -> ShiftedJacobian:
        a, b = (each if _is_zero(each) else scaled(each) for each in (self.a, self.b))
        return ShiftedJacobian(self.jacobian, a, b)


class _Transpose(_Matrix):
    """Stands for the transpose of a + b J, which can be factored, to solve with its adjoint."""

    def __init__(self, of: ShiftedJacobian) -> None:
        super().__init__(of.jacobian)
        self.of = of


class _Factors(_Matrix):
    """What torch returns of a factorization, of which solves alone are known; `inverse`: or the inverse, for products."""

    def __init__(self, of: ShiftedJacobian | _Transpose) -> None:
        super().__init__(of.jacobian)
        self.of = of

    def __matmul__(self, vectors: Tensor) -> Tensor:
        return self.solve(vectors)

    def solve(self, vectors: Tensor, *, adjoint: bool = False) -> Tensor:
        matrix = self.of.of if isinstance(self.of, _Transpose) else self.of
        if adjoint == (matrix is self.of):
            raise _unknown("a solve with its transpose")
        return _by_columns(matrix.solve, vectors)


class Identities(TorchFunctionMode):
    """While it is entered, torch.eye is the identity beside a Jacobian, 1 + 0 J."""

    def __init__(self, jacobian: Tensor) -> None:
        super().__init__()
        self.jacobian = jacobian

    def __torch_function__(self, function: Any, types: object, given: Any = (), settings: Any = None) -> Any:
        if function is torch.eye:
            if {*given} != {self.jacobian.shape[-1]}:
                raise _unknown("a `torch.eye` of another size")
            return ShiftedJacobian(self.jacobian, 1.0, 0.0)
        return function(*given, **(settings or {}))


def _is_zero(number: Number) -> bool:
    return isinstance(number, float) and number == 0.0


def _is_one(number: Number) -> bool:
    return isinstance(number, float) and number == 1.0


def _scale(by: Any) -> Number:
    """A number, or one of each sample."""
    if isinstance(by, int | float):
        return float(by)
    if not isinstance(by, Tensor) or (by.dim() and (by.dim() != 3 or by.shape[1:] != (1, 1))):
        raise _unknown("a product with what is no number of each sample, (batch, 1, 1)")
    return by[..., 0] if by.dim() else by.reshape(1, 1)


def _by_columns(function: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
    """Of (batch, state, columns)."""
    if not isinstance(vectors, Tensor) or vectors.dim() != 3:
        raise _unknown("a product with what is no vector of each sample, (batch, state, 1)")
    columns = [function(vectors[..., k]) for k in range(vectors.shape[-1])]
    return columns[0][..., None] if len(columns) == 1 else torch.stack(columns, -1)


def _unknown(what: str) -> UnknownOperation:
    known = "sums a + b J, products with a vector and solves"
    return UnknownOperation(f"it makes something of the Jacobian beside {known}: {what}")


# Functions of torch


def _sum(one: Any, other: Any) -> Any:
    return one + other if isinstance(one, ShiftedJacobian) and isinstance(other, ShiftedJacobian) else NotImplemented


def _product(one: Any, other: Any) -> Any:
    matrix, by = (one, other) if isinstance(one, ShiftedJacobian) else (other, one)
    return matrix * by if isinstance(matrix, ShiftedJacobian) else NotImplemented


def _opposite(one: Any) -> Any:
    return -one if isinstance(one, ShiftedJacobian) else NotImplemented


def _quotient(one: Any, other: Any) -> Any:
    return one / other if isinstance(one, ShiftedJacobian) else NotImplemented


def _solved(matrix: ShiftedJacobian, right: Tensor) -> Tensor:
    return matrix.solve(right) if right.dim() == 2 else _by_columns(matrix.solve, right)


def _factored(
    matrix: ShiftedJacobian | _Transpose, *, pivot: bool = True, check_errors: bool = False
) -> tuple[_Factors, _Matrix, _Matrix]:
    return _Factors(matrix), _Matrix(matrix.jacobian), _Matrix(matrix.jacobian)


def _einsum(equation: str, *operands: Any) -> Tensor:
    matrix, vector = operands[0] if len(operands) == 1 else operands
    if not isinstance(matrix, ShiftedJacobian) or not TIMES_VECTOR.fullmatch(equation.replace(" ", "").replace("...", "b")):
        return NotImplemented
    return matrix.product(vector)


def _product_with(matrix: _Matrix, vectors: Tensor) -> Any:
    return matrix @ vectors if isinstance(matrix, _Factors | ShiftedJacobian) else NotImplemented


RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "radd"), _sum),
    **dict.fromkeys(("sub", "subtract"), lambda one, other: _sum(one, _opposite(other))),
    "rsub": lambda one, other: _sum(other, _opposite(one)),
    **dict.fromkeys(("mul", "rmul", "multiply"), _product),
    **dict.fromkeys(("div", "truediv", "divide", "true_divide"), _quotient),
    **dict.fromkeys(("neg", "negative"), _opposite),
    **dict.fromkeys(("matmul", "bmm"), _product_with),
    "einsum": _einsum,
    "solve": _solved,
    "solve_ex": lambda matrix, right: (_solved(matrix, right), _Matrix(matrix.jacobian)),
    "lu_factor": lambda matrix, **how: _factored(matrix, **how)[:2],
    "lu_factor_ex": _factored,
    "lu_solve": lambda factors, _, right, *, adjoint=False: factors.solve(right, adjoint=adjoint),
    "inv": _Factors,
    "inverse": _Factors,
}


# Operations of torch's library, which kernels find in what they record.


class _JacobianProduct(torch.autograd.Function):
    """J v."""

    @staticmethod
    def forward(ctx: Any, jacobian: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(jacobian, v)
        product: Tensor = torch.ops.ctrnn.jacobian_product(jacobian, v, False)
        return product

    @staticmethod
    def backward(ctx: Any, of_product: Tensor) -> Any:
        jacobian, v = ctx.saved_tensors
        of_jacobian = torch.ops.ctrnn.jacobian_outer(of_product, v) if ctx.needs_input_grad[0] else None
        return of_jacobian, torch.ops.ctrnn.jacobian_product(jacobian, of_product, True)


class _JacobianSolve(torch.autograd.Function):
    """(a + b J)^-1 right."""

    @staticmethod
    def forward(ctx: Any, jacobian: Tensor, a: Tensor, b: Tensor, right: Tensor) -> Tensor:
        u: Tensor = torch.ops.ctrnn.jacobian_solve(jacobian, a, b, right, False)
        ctx.save_for_backward(jacobian, a, b, u)
        return u

    @staticmethod
    def backward(ctx: Any, of_u: Tensor) -> Any:
        jacobian, a, b, u = ctx.saved_tensors
        w = torch.ops.ctrnn.jacobian_solve(jacobian, a, b, of_u, True)
        of_jacobian = torch.ops.ctrnn.jacobian_outer(-b * w, u) if ctx.needs_input_grad[0] else None
        of_a = -(w * u).sum(-1, keepdim=True)
        of_b = -(w * torch.ops.ctrnn.jacobian_product(jacobian, u, False)).sum(-1, keepdim=True)
        return of_jacobian, of_a, of_b, w


# name, what it is given, and what it is where J is diagonal
OPERATIONS: Sequence[tuple[str, str, Callable[..., Tensor]]] = (
    ("jacobian_product", "Tensor v, bool turned", lambda jacobian, v, turned: jacobian * v),
    (
        "jacobian_solve",
        "Tensor a, Tensor b, Tensor right, bool turned",
        lambda jacobian, a, b, right, turned: right / (a + b * jacobian),
    ),
    ("jacobian_outer", "Tensor right", lambda left, right: left * right),
)
for name, given, on_numbers in OPERATIONS:
    torch.library.define(f"ctrnn::{name}", f"(Tensor jacobian, {given}) -> Tensor")
    torch.library.impl(f"ctrnn::{name}", "CompositeExplicitAutograd")(on_numbers)
    torch.library.register_fake(f"ctrnn::{name}")(lambda jacobian, *_: torch.empty_like(jacobian))
