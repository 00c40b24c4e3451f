r"""Dynamical systems: a field whose input is held, as a flow or as the map that a step makes of it, at a parameter p.

    Flow    dh/dt = F(x(p), h)             at rest where F = 0              stable where every Re lambda < 0
    Map     h <- step(F, x(p), h, dt(p))   at rest where step(h) - h = 0    stable where every |lambda| < 1

lambda are the eigenvalues of the Jacobian. The parameter is one number a sample: it moves the input, the length of the step,
or weights. Bare functions f(x, h) serve as fields, and as maps; their input is the parameter itself where nothing else is said.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctrnn import VectorField, checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.delayed import DelayedField, Settled
from ctrnn.fields.field import check_field, check_input, check_state
from ctrnn.fields.noise import check_no_noise
from discretize.sequences.cell import checked_step
from discretize.solvers.equation import Equation
from discretize.steps.step import Step, step_length
from discretize.steps.zoneout import check_drawn

__all__ = [
    "Dynamics",
    "Flow",
    "Map",
    "as_parameters",
    "at_rest",
    "check_no_noise_in",
    "check_system",
    "derivative",
    "jacobian",
    "parts_at_rest",
]

MOST_COPIED = 2**17  # numbers, a megabyte: copies of all states, one for each unit, of which a Jacobian is taken at once
Function = Callable[[Tensor, Tensor], Tensor]
Weights = Callable[[Tensor], Mapping[str, Tensor]]


class Dynamics(AnsweredInit, ABC):
    r"""A flow or a map; called as system(h, p), it gives dh/dt or the next state.

    Shape:   h (..., state); p None, a number or broadcast to (...) -> (..., state). x, where given, is the input in place of
             the system's own, (..., input).
    Raises:  TypeError, ValueError for states and inputs that do not fit the field.
    """

    field: VectorField | Function
    x: Tensor | Callable[[Tensor], Tensor] | None
    weights: Weights | None

    def __init__(
        self, field: VectorField | Function, x: Tensor | Callable[[Tensor], Tensor] | None = None, weights: Weights | None = None
    ) -> None:
        self.delayed: DelayedField | None = None  # then the field is that of a past which is as the state
        if isinstance(self, Flow) and isinstance(field, DelayedField):
            if field.of_time or weights is not None:
                raise TypeError("Points of rest of a field with delays are those of delays that are numbers, without `weights`.")
            self.delayed, field = field, Settled(field)
        if not callable(field) or isinstance(field, DelayedField):
            check_field(field)
        self.field, self.x, self.weights = field, x, weights
        if x is None and isinstance(field, VectorField) and field.input_size:
            raise ValueError(f"`x` is None, and the field has {field.input_size} inputs; give the input that is held.")
        if x is not None and not callable(x):
            checks.is_finite("x", _held_input(x, field))
        if weights is not None and not callable(weights):
            raise TypeError(f"`weights` must be a function of the parameter, p -> {{name: value}}, got {type(weights).__name__}.")
        if weights is not None and not isinstance(field, VectorField):
            raise TypeError("`weights` are those of a ctrnn.VectorField; a function has its parameter as its input.")

    def __call__(self, h: Tensor, p: Tensor | float | None = None, x: Tensor | None = None) -> Tensor:
        states, at = h.reshape(-1, h.shape[-1]), self.parameter(h, p).reshape(-1)
        given = self._input(at, states) if x is None else _held_input(x, self.field, h.shape[:-1]).reshape(len(states), -1)
        move = self._move if self.weights is None else self._move_with_weights
        return move(self._field_for(states), given, states, at).reshape(h.shape)

    def parameter(self, h: Tensor, p: Tensor | float | None) -> Tensor:
        """Return p for each sample, 0 where there is none: (...) for h (..., state)."""
        given = as_parameters(p, h)
        try:
            return given.expand(h.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"`p` must be one number, or one for each of the states {tuple(h.shape[:-1])}, got shape {tuple(given.shape)}."
            ) from error

    def residual(self, h: Tensor, p: Tensor | float | None = None) -> Tensor:
        """Return what is 0 at rest."""
        return self(h, p)

    @abstractmethod
    def growth(self, eigenvalues: Tensor) -> Tensor:
        """Return the rate at which a mode grows, below 0 where it is stable: (...) complex -> (...)."""

    @abstractmethod
    def period(self, eigenvalues: Tensor) -> Tensor:
        """Return the time of a turn of a mode, or the applications it takes, infinite where it does not turn: as `growth`."""

    @abstractmethod
    def kind(self, eigenvalue: complex) -> str:
        """Name the bifurcation of a point of rest as this eigenvalue passes into instability."""

    @abstractmethod
    def _move(self, field: VectorField, x: Tensor, h: Tensor, p: Tensor) -> Tensor: ...

    def _one_by_one(self) -> bool:
        return False

    def _field_for(self, h: Tensor) -> VectorField:
        if not isinstance(self.field, VectorField):
            return Equation(self.field, h.shape[-1], None)
        check_state(self.field, h)
        return self.field

    def _input(self, p: Tensor, h: Tensor) -> Tensor:
        if self.x is None:
            return h[..., :0] if isinstance(self.field, VectorField) else p.unsqueeze(-1)
        return _held_input(self.x(p) if callable(self.x) else self.x, self.field, h.shape[:-1])

    def _move_with_weights(self, field: VectorField, x: Tensor, h: Tensor, p: Tensor) -> Tensor:
        """Move every sample with the weights of its own parameter."""
        assert self.weights is not None
        weights, inside = self.weights, _Inside(field, self._move)

        def one(x: Tensor, h: Tensor, p: Tensor) -> Tensor:
            placed = {f"field.{name}": value for name, value in _weights_at(p, weights, field).items()}
            return functional_call(inside, placed, (x[None], h[None], p[None]))[0]

        if self._one_by_one():  # iterations inside a step end by values, which vmap hides
            return torch.stack([one(*sample) for sample in zip(x, h, p, strict=True)])
        return vmap(one)(x, h, p)


class Flow(Dynamics):
    r"""dh/dt = F(x, h), the input held.

    Args:    field: a `ctrnn.VectorField`, or a function f(x, h) -> dh/dt, or for `fixed_points` a `ctrnn.DelayedField`; x: the
             input, or a function of the parameter; not given, a function's input is the parameter; weights: p -> {name: value},
             parameters of the field that p moves.
    Shape:   x (input,), or p (n,) -> (n, input). As `Dynamics`.
    """

    def stepped(self, step: Step | str, dt: float | Callable[[Tensor], Tensor] = 1.0) -> Map:
        """Return the map that a step makes of it."""
        return Map(self.field if self.delayed is None else self.delayed, step, self.x, dt, self.weights)

    def growth(self, eigenvalues: Tensor) -> Tensor:
        return eigenvalues.real

    def period(self, eigenvalues: Tensor) -> Tensor:
        return 2 * torch.pi / eigenvalues.imag.abs()

    def kind(self, eigenvalue: complex) -> str:
        return "Hopf" if eigenvalue.imag else "fold"

    def _move(self, field: VectorField, x: Tensor, h: Tensor, p: Tensor) -> Tensor:
        return field.flow(field.project(x), h)


class Map(Dynamics):
    r"""h <- step(F, x, h, dt), the input held; or a function itself.

    Args:    as `Flow`, and step: None where the function f(x, h) is the map; dt: the length of the step, or a function of the
             parameter; iterates: how many steps are one application.
    Shape:   dt: p (n,) -> (n,). As `Dynamics`.
    """

    dt: float | Callable[[Tensor], Tensor]
    iterates: int

    def __init__(
        self,
        field: VectorField | Function,
        step: Step | str | None = None,
        x: Tensor | Callable[[Tensor], Tensor] | None = None,
        dt: float | Callable[[Tensor], Tensor] = 1.0,
        weights: Weights | None = None,
        iterates: int = 1,
    ) -> None:
        super().__init__(field, x, weights)
        if step is None and isinstance(field, VectorField):
            raise ValueError("`step` is None, and a field is no map; give a step map, such as discretize.Euler().")
        self.step: Step | None = None if step is None else checked_step(step)
        if isinstance(field, VectorField) and self.step is not None:
            check_no_noise(field, "map", "Map")
            self.step.check_noise(field)
        if not callable(dt):
            step_length(dt, dt.unsqueeze(-1) if isinstance(dt, Tensor) else torch.empty(0))
        self.dt, self.iterates = dt, checks.positive_size("iterates", iterates)

    def residual(self, h: Tensor, p: Tensor | float | None = None) -> Tensor:
        return self(h, p) - h

    def iterated(self, times: int) -> Map:
        """Return the map that makes so many applications in one."""
        twin = copy.copy(self)
        twin.iterates = self.iterates * checks.positive_size("times", times)
        return twin

    def growth(self, eigenvalues: Tensor) -> Tensor:
        """Per application."""
        return eigenvalues.abs().log()

    def period(self, eigenvalues: Tensor) -> Tensor:
        return 2 * torch.pi / eigenvalues.angle().abs()

    def kind(self, eigenvalue: complex) -> str:
        return "Neimark-Sacker" if eigenvalue.imag else "fold" if eigenvalue.real > 0 else "flip"

    def _one_by_one(self) -> bool:
        return self.step is not None and self.step.jacobians > 0

    def _move(self, field: VectorField, x: Tensor, h: Tensor, p: Tensor) -> Tensor:
        check_drawn(self.step)
        projected = field.project(x)
        if callable(self.dt):  # unchecked where each sample has weights of its own, and vmap hides values
            dt = step_length(self.dt(p), h) if self.weights is None else self.dt(p).unsqueeze(-1)
        else:
            dt = step_length(self.dt, h)
        for _ in range(self.iterates):
            h = field.flow(projected, h) if self.step is None else self.step.advance(field, projected, h, dt)
        return h


class _Inside(nn.Module):
    """A module to put weights into, for `functional_call` swaps them while it calls one."""

    def __init__(self, field: VectorField, move: Callable[..., Tensor]) -> None:
        super().__init__()
        self.field, self.move = field, move

    def forward(self, x: Tensor, h: Tensor, p: Tensor) -> Tensor:
        return self.move(self.field, x, h, p)


def derivative(f: Callable[[Tensor], Tensor], u: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return f(u) and its derivatives along directions, which are samples of one batch: one call for all.

    In reverse mode twice, v -> v J and its derivative in v: the forward mode of torch.func, whose rules for such everyday
    operations as subtraction are written in Python, takes ten times as long.

    Shape:   u (n, unknowns), directions (n, unknowns, k), f (k n, unknowns) -> (k n, values), sample by sample; returns
             (n, values) and (n, values, k).
    """
    k = directions.shape[-1]
    further = torch.is_grad_enabled() and f(u.repeat(k, 1)).requires_grad
    with torch.enable_grad():
        copies = u.repeat(k, 1) if further and u.requires_grad else u.detach().repeat(k, 1).requires_grad_()
        value = f(copies) + 0 * copies.sum(-1, keepdim=True)  # a function may not read all, or nothing, of u
        v = torch.zeros_like(value, requires_grad=True)
        (rows,) = torch.autograd.grad(value, copies, v, create_graph=True)
        along = directions.movedim(-1, 0).reshape(copies.shape)
        (moved,) = torch.autograd.grad(rows, v, along, create_graph=further)
    value = value if further else value.detach()
    return value[: len(u)], moved.reshape(k, len(u), value.shape[-1]).movedim(0, -1)


def jacobian(system: Dynamics, h: Tensor, p: Tensor | float | None = None) -> Tensor:
    """Return the Jacobian of dh/dt or of the next state: h (..., state) -> (..., state, state)."""
    states, units = h.reshape(-1, h.shape[-1]), h.shape[-1]
    at = system.parameter(h, p).reshape(-1)
    if system._one_by_one() or len(states) * units**2 > MOST_COPIED:
        return _by_rows(lambda u: system(u, at), states).reshape(*h.shape, units)
    at = at.repeat(units)
    one = torch.eye(units, dtype=h.dtype, device=h.device).expand(len(states), units, units)
    return derivative(lambda u: system(u, at), states, one)[1].reshape(*h.shape, units)


def _by_rows(f: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """Compute a Jacobian by one call of f and a derivative backwards for each row: u (n, state) -> (n, state, state).

    Copies for each unit, which `derivative` makes, would solve equations inside f as often, and leave the cache where they are
    many: 99 states of 128 units take 7 times as long by one exponential step, and by an implicit one they do not end.
    """
    further = torch.is_grad_enabled() and f(u).requires_grad
    with torch.enable_grad():
        at = u if further and u.requires_grad else u.detach().requires_grad_()
        value = f(at) + 0 * at.sum(-1, keepdim=True)
        units = (value[:, k].sum() for k in range(value.shape[-1]))
        rows = [torch.autograd.grad(unit, at, retain_graph=True, create_graph=further)[0] for unit in units]
    return torch.stack(rows, 1)


def at_rest(system: Dynamics, h: Tensor, p: Tensor | float | None = None) -> Tensor:
    """Return the Jacobian of the residual, which is 0 at rest: h (n, state) -> (n, state, state)."""
    matrix = jacobian(system, h, p)
    return matrix - torch.eye(h.shape[-1], dtype=h.dtype, device=h.device) if isinstance(system, Map) else matrix


def as_parameters(p: object, h: Tensor) -> Tensor:
    """Return p in the dtype and on the device of the states; 0 where there is none."""
    try:
        return torch.as_tensor(0.0 if p is None else p, dtype=h.dtype, device=h.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"`p` must be a number, or a tensor of numbers, got {p!r}.") from error


def _held_input(x: object, field: object, samples: tuple[int, ...] = ()) -> Tensor:
    """Return the input of each sample, (*samples, input); a single one (input,) is that of all."""
    given = checks.is_tensor("x", x)
    if isinstance(field, VectorField):
        check_input(field, given)
    if not given.dim() or given.shape[:-1] not in ((), samples):
        whose = f", or one for each of {tuple(samples)}" if samples else "; of a parameter it is a function, p (n,) -> (n, input)"
        raise ValueError(f"`x` must be one input (input,){whose}; got shape {tuple(given.shape)}.")
    return given.expand(*samples, given.shape[-1])


def _weights_at(p: Tensor, weights: Callable[[Tensor], object], field: nn.Module) -> Mapping[str, Tensor]:
    """Check what `weights` gives at one parameter: values of parameters or buffers of the field."""
    given, known = weights(p), dict(field.named_parameters()) | dict(field.named_buffers())
    if not isinstance(given, Mapping):
        raise TypeError(f"`weights` must give a dict {{name: value}}, got {type(given).__name__}.")
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"`weights` gives {name!r}, and the field has {', '.join(known) or 'no parameters'}.")
        if checks.is_tensor(f"weights(p)[{name!r}]", value).shape != known[name].shape:
            raise ValueError(f"`weights` gives {name!r} as {tuple(value.shape)}, in the field it is {tuple(known[name].shape)}.")
    return given


def check_system(system: object, takes_delays: bool = False) -> None:
    if not isinstance(system, Dynamics):
        hint = "; take `discretize.Flow(field, x)`, its input held at x, or `discretize.Map(cell, x)`" if callable(system) else ""
        kinds = "a discretize.analysis.Flow or discretize.analysis.Map"
        raise TypeError(f"`system` must be {kinds}, got {type(system).__name__}{hint}.")
    if system.delayed is not None and not takes_delays:
        raise TypeError(
            "`field` must be a ctrnn.VectorField: of one that reads its own past the state is a history, and `fixed_points` "
            "finds where it rests; in this version nothing else that takes a `Flow` takes it. `discretize.integrate` solves it, "
            "and `ctrnn.cells.DelayLine(field, dt)` is a field of its states."
        )


def parts_at_rest(system: Dynamics, h: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return how dh/dt of a field with delays reads the present, (n, state, state), and each past, (n, delays, state, state)."""
    field, units = system.delayed, h.shape[-1]
    assert field is not None
    reads = torch.cat([h] * (1 + field.count), -1)
    one = torch.eye(reads.shape[-1], dtype=h.dtype, device=h.device).expand(len(h), -1, -1)
    at = p.repeat(reads.shape[-1])

    def slope(u: Tensor) -> Tensor:
        now, *past = u.split(units, -1)
        return field.flow(field.project(system._input(at, now)), now, tuple(past))

    found = derivative(slope, reads, one)[1].unflatten(-1, (1 + field.count, units))
    return found[..., 0, :], found[..., 1:, :].transpose(1, 2)


def check_no_noise_in(system: Dynamics, what: str) -> None:
    """Refuse a system with noise where it is run in time; where it rests is that of its field without."""
    if isinstance(system.field, VectorField):
        check_no_noise(system.field, "analysis", what)
