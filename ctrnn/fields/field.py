r"""A recurrent cell is a vector field: dh/dt = field(x, h).

    field(x, h) = field.flow(field.project(x), h)

`project` is what can be computed for a whole input sequence at once, `flow` is the rest; `leak` is the L >= 0 in
dh/dt = N - L h, `flow_without_leak` that N, and `forget` the solution of dh/dt = -L h; `jacobian` is dF_i/dh_k, for implicit
methods. The state is one tensor, the visible units first: cat([h, rest], -1). Checks of what is passed with a field stand below.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NoReturn

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.autocast import cast_for
from ctrnn.calls import AnsweredInit, answered
from ctrnn.fields.parts import affine
from ctrnn.formulas import aligned, formula_of, in_latex
from ctrnn.forward import jacobian_of
from ctrnn.own_code import without_derived

__all__ = [
    "VectorField",
    "check_batched_state",
    "check_field",
    "check_input",
    "check_like_field",
    "check_order",
    "check_same_leading_axes",
    "check_state",
    "instead_of_field",
]


class VectorField(AnsweredInit, nn.Module, ABC):
    r"""The one interface of continuous-time cells; subclasses give `flow`, and may give the other methods.

    A class whose units read only their neighbours says so by `bandwidths`, (lower, upper): dF_i/dh_k is 0 where i - k > lower
    or k - i > upper; (0, 0) is diagonal, None full.

    Args:    input_size: features of x, 0 for a field without input; hidden_size: visible units; state_size: all units,
             `hidden_size` if not given.
    Shape:   x (..., input), h (..., state) with the same leading axes -> dh/dt (..., state), per unit of time.
             `equations` are dh/dt and the letters in it as text, which notebooks show; a class may give them, lines in one
             text, as its `formula`, h its visible units.
    Raises:  TypeError, ValueError at the call, where x and h do not fit the field or one another; and from `flow`, whoever
             calls it, where it gives no derivative for each unit, or writes into what it is given.
    Source:  the view of Tallec and Ollivier 2018, eq. (3).
    """

    bandwidths: tuple[int, int] | None = None

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if "flow" in vars(cls):
            check_order(cls)
            cls.flow = _checked(cls.flow)  # type: ignore[assignment,method-assign]
        # Of another flow all of this would be wrong: the general methods read what the class itself gives.
        without_derived(cls, VectorField, ["flow"], ["leak", "jacobian", "bandwidths"])
        without_derived(cls, VectorField, ["flow", "leak"], ["flow_and_leak", "flow_without_leak", "forget"])
        without_derived(cls, VectorField, ["diffusion"], ["diffuse"])

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None) -> None:
        super().__init__()
        self.input_size: int = checks.size("input_size", input_size)
        self.hidden_size: int = checks.positive_size("hidden_size", hidden_size)
        self.state_size: int = self.hidden_size if state_size is None else checks.positive_size("state_size", state_size)
        if self.state_size < self.hidden_size:
            raise ValueError(f"`state_size` is {state_size}, less than the {hidden_size} visible units it contains.")

    @answered
    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        _check_hooks(part for part in self.modules() if part is not self)  # its own run here
        x, h = cast_for(self, x), cast_for(self, h)
        _check_features(self, x, "x")
        check_state(self, h)
        check_same_leading_axes(x, h)
        return self.flow(self.project(x), h)

    def __prepare_scriptable__(self) -> NoReturn:
        raise TypeError(
            "torch.jit.script cannot read fields, which are made of parts and abstract classes; use torch.compile, or "
            "torch.export of the module that contains the field."
        )

    @affine
    def project(self, x: Tensor) -> Tensor:
        """Compute what depends on x alone: (..., input) -> (..., projected), one product for a whole sequence."""
        return x

    @abstractmethod
    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        """Return dh/dt from the projected input and the state: (..., projected), (..., state) -> (..., state)."""

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        """Return L >= 0, elementwise, such that dh/dt = N - L h: (..., state), per unit of time; 0 if not known."""
        return torch.zeros_like(h)

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return `flow` and `leak` in one, for fields that get them from the same gates."""
        return self.flow(projected, h), self.leak(projected, h)

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        """Return N = dh/dt + L h, what is not forgetting: (..., state), per unit of time.

        Here the sum, in which L h cancels; fields with a decay leave it out.
        """
        slope, leak = self.flow_and_leak(projected, h)
        return slope + leak * h

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        """Solve dh/dt = -L h for dt, with the gates as they are at the state `at`: (..., state) -> (..., state).

        Here with all of L as it is at `at`; fields with a decay follow that in closed form.
        """
        return h * torch.exp(-dt * self.leak(projected, at))

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        r"""Return G of dh = F dt + G dW, for fields with noise: that of each unit, (..., state), or one for all, (..., 1), by
        which each unit has a Brownian motion of its own; or a matrix (..., state, channels), of a class that says how many
        `channels` it has. By default there is none.

        Per root of the unit of time. Steps made for noise read it, see `ctrnn.Noisy`; others refuse the field.
        """
        return torch.zeros_like(h)

    def diffuse(self, projected: Tensor, h: Tensor, increment: Tensor) -> Tensor:
        """Return G dW: (..., channels) -> (..., state)."""
        g = self.diffusion(projected, h)
        return (g @ increment[..., None])[..., 0] if g.dim() > h.dim() else g * increment

    channels: int | None = None  # of a matrix: how many Brownian motions a sample has
    past_units: int = 0  # at the end of the state: they hold what others were, and noise on the state does not drive them

    @property
    def noise_channels(self) -> int:
        """How many Brownian motions drive a sample; 0 for a field without noise."""
        noisy = type(self).diffusion is not VectorField.diffusion or type(self).diffuse is not VectorField.diffuse
        return (self.channels or self.state_size) if noisy else 0

    def jacobian(self, projected: Tensor, h: Tensor) -> Tensor:
        """Return dF_i/dh_k: (..., state, state), or its diagonal (..., state) where `bandwidths` are (0, 0).

        Here by forward mode, with lower + upper + 1 directions, or one for each unit. One of your own must be exact, the
        derivative of `flow`, and autograd must go through it where gradients are asked for; what uses it compares.
        """
        return jacobian_of(lambda u: self.flow(projected, u), h, self.bandwidths)

    def visible(self, state: Tensor) -> Tensor:
        """Return the units that outputs are read from: (..., state) -> (..., hidden)."""
        return state[..., : self.hidden_size]

    def initial_state(self, batch: int) -> Tensor:
        """Return the zero state (batch, state), of the parameters' dtype and device."""
        batch = 0 if type(batch) is int and batch == 0 else checks.positive_size("batch", batch)
        return torch.zeros(batch, self.state_size, dtype=self.dtype, device=self.device)

    @property
    def dtype(self) -> torch.dtype | None:
        """The parameters' dtype; None for a field without parameters. Delays are times, and have a dtype of their own."""
        # The first of them answers, and every call of the field asks: no list, and no generator of one's own.
        for name, tensor in chain(self.named_parameters(), self.named_buffers()):
            if tensor.is_floating_point() and not checks.is_delays(name):
                return tensor.dtype
        return None

    @property
    def device(self) -> torch.device | None:
        """The parameters' device; None for a field without parameters."""
        for tensor in chain(self.parameters(), self.buffers()):
            return tensor.device
        return None

    @property
    def equations(self) -> tuple[str, ...]:
        """dh/dt, and what its letters stand for, as text: see formulas.py."""
        found, reads = formula_of(self), "x, h" if self.input_size else "h"
        return tuple(found.text.splitlines()) if found else (f"dh/dt = {type(self).__name__}({reads})",)

    def _repr_latex_(self) -> str:
        sizes = {"x": self.input_size, "h": self.hidden_size, r"\text{state}": self.state_size}
        if self.state_size == self.hidden_size:
            del sizes[r"\text{state}"]
        spaces = (rf"{name} \in \mathbb{{R}}^{{{size}}}" for name, size in sizes.items() if size)
        return aligned([*map(in_latex, self.equations), r", \quad ".join(spaces)])

    def extra_repr(self) -> str:
        return "\n".join([f"{self.input_size}, {self.hidden_size}", *(self.equations if formula_of(self) else ())])


Flow = Callable[[VectorField, Tensor, Tensor], Tensor]
NO_INPUT = ("h", "hidden", "state", "t", "time")  # names of what `flow` is not given first


def check_order(cls: type, given: tuple[str, ...] = ("projected", "h")) -> None:
    """Refuse `flow(self, h, x)` and `flow(self, t, h)`: with as many units as inputs they would run, on the wrong numbers."""
    names = [*inspect.signature(cls.flow).parameters][1:]  # type: ignore[attr-defined]
    if len(names) == len(given) and names[0] in NO_INPUT:
        raise TypeError(
            f"`{cls.__name__}.flow` takes ({', '.join(names)}); it is given ({', '.join(given)}), what `project` makes of the "
            "input, and then the state. Name them so; time enters as a feature of the input."
        )


def _checked(flow: Flow) -> Flow:
    """Wrap `flow` to check its contract: dh/dt has the shape of h, where torch would broadcast it, and h stays as it is."""

    @functools.wraps(flow)
    def checked(self: VectorField, projected: Tensor, h: Tensor) -> Tensor:
        before = _writes(projected, h)
        slope = flow(self, projected, h) if torch.compiler.is_compiling() else _answered(flow, self, projected, h)
        if not isinstance(slope, Tensor):
            raise TypeError(f"The field's `flow` gives {type(slope).__name__}, not a tensor; it must return dh/dt.")
        if slope.shape != h.shape:
            raise ValueError(
                f"The field's `flow` gives shape {tuple(slope.shape)} for a state of shape {tuple(h.shape)}; dh/dt must be like "
                f"h, a derivative for each unit of each sample.{_without_project(self, projected)}"
            )
        if before != _writes(projected, h):
            raise ValueError(
                "The field's `flow` writes into the state or the input that it is given; others read them too: work on a copy, "
                "`h.clone()`, or without operations in place."
            )
        return slope

    return checked


def _answered(flow: Flow, field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    """Return dh/dt; refuse a `flow` with other arguments, or without a projection that it needs, in words."""
    try:
        return flow(field, projected, h)
    except TypeError:
        if (words := _other_arguments(flow)) is None:
            raise
    except RuntimeError as error:
        hint = _without_project(field, projected)
        if not hint or not _runs(flow, field, h.new_zeros(*projected.shape[:-1], field.state_size), h):
            raise
        raise ValueError(f"The field's `flow` fails with h of shape {tuple(h.shape)}: {str(error).rstrip('.')}.{hint}") from error
    raise TypeError(words)


@torch.no_grad()
def _runs(flow: Flow, field: VectorField, projected: Tensor, h: Tensor) -> bool:
    try:
        flow(field, projected, h)
    except Exception:
        return False
    return True


def _other_arguments(flow: Flow) -> str | None:
    signature = inspect.signature(flow)
    try:
        signature.bind(None, None, None)
    except TypeError:
        return (
            f"The field's `flow` takes ({', '.join([*signature.parameters][1:])}); it must take (projected, h), what `project` "
            "makes of the input and the state, and give dh/dt. Time enters as a feature of the input; a bare f(t, h) is solved "
            "by `discretize.integrate(f, None, h0, ts)`."
        )
    return None


def _without_project(field: VectorField, projected: Tensor) -> str:
    """Say what may be missing where the input comes as it is, of another width than the state."""
    if type(field).project is not VectorField.project or projected.shape[-1] == field.state_size:
        return ""
    return (
        f" It gets `project(x)`, here {tuple(projected.shape)}: {type(field).__name__} has no `project`, so that is x itself, "
        f"whose features are not the {field.state_size} units. Map it there, `def project(self, x): return self.weight_x(x)` "
        f"say, with `self.weight_x = torch.nn.Linear({field.input_size}, {field.state_size})`."
    )


def _writes(projected: Tensor, h: Tensor) -> int:
    """Count how often torch has written into them; 0 where it does not count."""
    if torch.compiler.is_compiling():
        return 0
    return sum(0 if tensor.is_inference() else tensor._version for tensor in (projected, h))


def check_field(value: object) -> VectorField:
    if not isinstance(value, VectorField):
        raise TypeError(f"`field` must be a ctrnn.VectorField, {instead_of_field(value)}")
    return value


def instead_of_field(value: object) -> str:
    """Say what came in place of a field, and what makes a field of it."""
    if isinstance(value, type) and issubclass(value, nn.Module):
        return f"got the class {value.__name__}; make one, `{value.__name__}(...)`."
    return f"got {type(value).__name__}; {_field_of(value)}"


def _field_of(value: object) -> str:
    if hasattr(value, "delays"):
        return (
            "it reads its own past: `discretize.integrate` and sequence modules run it, and `ctrnn.cells.DelayLine(field, "
            "dt)` is a field of its states."
        )
    if isinstance(getattr(value, "field", None), VectorField):
        return "take the field in it, `.field`."
    if isinstance(value, nn.Module) and not isinstance(value, (nn.RNNBase, nn.RNNCellBase)):
        return (
            "write dh/dt as `flow` of a ctrnn.VectorField. Of a cell that gives the next state it is `cell(x, h) - h`, whose "
            "Euler step of length 1 is the cell."
        )
    return "`ctrnn.from_torch` makes one of a torch cell, `ctrnn.gated(input_size, hidden_size)` a new one."


def _check_hooks(modules: Iterable[nn.Module]) -> None:
    for part in modules:
        for hooks in (part._forward_pre_hooks, part._forward_hooks, part._backward_hooks, part._backward_pre_hooks):
            if hooks:
                hook = next(iter(hooks.values()))
                raise TypeError(
                    f"The field's {type(part).__name__} has a hook, {getattr(hook, '__qualname__', type(hook).__name__)}; fields "
                    "are read through `project` and `flow`, where hooks do not run, and weights that one sets would be stale. In "
                    "place of weight_norm and spectral_norm take those of torch.nn.utils.parametrizations; make pruning "
                    "permanent with prune.remove; put other hooks on the module that contains the field."
                )


def check_like_field(name: str, value: Tensor, field: VectorField) -> None:
    """Check for the dtype and device of the field's parameters; a field without any takes every floating dtype."""
    if not value.is_floating_point():
        wanted = field.dtype or torch.get_default_dtype()
        raise TypeError(f"`{name}` must be floating point, got {value.dtype}; convert it with `{name}.to({wanted})`.")
    dtype, device = field.dtype, field.device
    if dtype is not None and value.dtype != dtype:
        raise TypeError(
            f"`{name}` is {value.dtype}, the field's parameters are {dtype}; "
            f"convert one of them, for instance `{name}.to({dtype})`."
        )
    if device is not None and value.device != device:
        raise ValueError(
            f"`{name}` is on {value.device}, the field's parameters are on {device}; "
            f"move one of them, for instance `{name}.to('{device}')`."
        )


def check_input(field: VectorField, x: Tensor, name: str = "x") -> None:
    """Check the input at the entrance of all that reads a field through `project` and `flow`."""
    _check_hooks(field.modules())
    _check_features(field, x, name)


def _check_features(field: VectorField, x: Tensor, name: str) -> None:
    check_like_field(name, checks.is_tensor(name, x), field)
    if x.dim() == 0 or x.shape[-1] != field.input_size:
        raise ValueError(
            f"`{name}` has shape {tuple(x.shape)}, the field reads {field.input_size} input features on the last axis."
        )


def check_state(field: VectorField, h: Tensor, name: str = "h") -> None:
    if h is None:
        raise TypeError(f"`{name}` must be a torch.Tensor, got NoneType; start from `field.initial_state(batch)`.")
    if isinstance(h, tuple | list) and any(isinstance(part, Tensor) for part in h):
        raise TypeError(f"`{name}` must be one torch.Tensor, got a {type(h).__name__}; join its parts, `torch.cat([h, c], -1)`.")
    check_like_field(name, checks.is_tensor(name, h), field)
    if h.dim() == 0 or h.shape[-1] != field.state_size:
        units = h.shape[-1] if h.dim() else 0
        raise ValueError(
            f"`{name}` has {units} units on its last axis (shape {tuple(h.shape)}), the field keeps {field.state_size}; "
            "start from `field.initial_state(batch)`."
        )


def check_same_leading_axes(x: Tensor, h: Tensor) -> None:
    if x.shape[:-1] != h.shape[:-1]:
        raise ValueError(
            f"`x` and `h` must agree on all axes but the last, got {tuple(x.shape)} and {tuple(h.shape)}; expand the smaller one."
        )


def check_batched_state(field: VectorField, h: Tensor, batch: int, name: str = "h0") -> None:
    check_state(field, h, name)
    if h.shape != (batch, field.state_size):
        raise ValueError(
            f"`{name}` must have shape (batch, state) = ({batch}, {field.state_size}), got {tuple(h.shape)}; "
            f"start from `field.initial_state({batch})`."
        )
