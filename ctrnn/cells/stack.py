r"""Stacks several fields into one, each driven by the visible state of the layer below.

    dh_1/dt = f_1(x, h_1)        dh_l/dt = f_l(visible(h_l-1), h_l)        state [h_top, ..., h_1]

All layers move at once. So a unit Euler step is torch's stack of layers with a sample's delay between two of them: layer l
reads what layer l - 1 was before the step, where torch reads what it has just become.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.field import VectorField
from ctrnn.fields.noise import check_no_noise
from ctrnn.fields.parts import affine

__all__ = ["Stack", "layered"]

F = TypeVar("F", bound=VectorField)


class Stack(VectorField):
    r"""Stacks fields, given from the bottom up, into one field; the visible units are those of the top.

    Args:    fields: at least one `VectorField`, the one that reads the input first; each further one reads as many features
             as the one below it has visible units.
    Shape:   x (..., input of the first), state [h_top, ..., h_1] (..., sum of states) -> (..., sum of states).
    Raises:  TypeError for what is not a field or of another dtype, ValueError for none, other devices, or sizes that do not
             chain.
    Source:  this project; torch.nn.GRU's `num_layers`, in continuous time.
    """

    def __init__(self, fields: Iterable[VectorField]) -> None:
        layers = _checked(fields)
        super().__init__(layers[0].input_size, layers[-1].hidden_size, sum(layer.state_size for layer in layers))
        self.fields: nn.ModuleList = nn.ModuleList(layers)
        self._widths = [layer.state_size for layer in reversed(layers)]

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self._layers()[0].project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return _joined([field.flow(read, own) for field, read, own in self._read(projected, h)])

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return _joined([field.leak(read, own) for field, read, own in self._read(projected, h)])

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        flows, leaks = zip(*(field.flow_and_leak(read, own) for field, read, own in self._read(projected, h)), strict=True)
        return _joined(flows), _joined(leaks)

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return _joined([field.flow_without_leak(read, own) for field, read, own in self._read(projected, h)])

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        layers = zip(self._read(projected, at), self.states(h), strict=True)
        return _joined([field.forget(read, own, own_at, dt) for (field, read, own_at), own in layers])

    def visible(self, state: Tensor) -> Tensor:
        top = self._layers()[-1]
        return top.visible(state[..., : top.state_size])

    def states(self, h: Tensor) -> tuple[Tensor, ...]:
        """Split the state into that of each layer, from the bottom up: (..., state) -> (..., state of the layer), for each."""
        return h.split(self._widths, -1)[::-1]

    def _read(self, projected: Tensor, h: Tensor) -> list[tuple[VectorField, Tensor, Tensor]]:
        """Return each field with its projected input and its state, from the bottom up."""
        fields, states, read = self._layers(), self.states(h), [projected]
        for (below, above), state in zip(pairwise(fields), states[:-1], strict=True):
            read.append(above.project(below.visible(state)))
        return list(zip(fields, read, states, strict=True))

    @property
    def formula(self) -> str:
        reads = ["x", *(f"h{number}" for number in range(1, len(self.fields)))]
        layers = (f"{{fields.{k}:{k + 1}|x={read}|h=h{k + 1}}}" for k, read in enumerate(reads))
        return "\n".join([*layers][::-1])  # as the state has them, the top first

    def _layers(self) -> list[VectorField]:
        return list(self.fields)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={len(self.fields)}"  # each says its own equations


def layered(build: Callable[[int], F], input_size: int, hidden_size: int, num_layers: int) -> F | Stack:
    """Build a field for an input size; for more than one layer, a `Stack` of them."""
    layers = checks.positive_size("num_layers", num_layers)
    if layers == 1:
        return build(input_size)
    # Copies, for a decay that was handed in has weights of its own in every layer.
    return Stack([copy.deepcopy(build(read)) for read in [input_size] + [hidden_size] * (layers - 1)])


def _joined(layers: Iterable[Tensor]) -> Tensor:
    return torch.cat([*layers][::-1], -1)


def _checked(fields: Iterable[VectorField]) -> list[VectorField]:
    if isinstance(fields, VectorField) or not isinstance(fields, Iterable):
        hint = "; put it in a list" if isinstance(fields, VectorField) else ""
        raise TypeError(f"`fields` must be a sequence of ctrnn.VectorField, got {type(fields).__name__}{hint}.")
    layers = list(fields)
    if not layers:
        raise ValueError("`fields` is empty; give at least one field, the one that reads the input first.")
    for k, field in enumerate(layers):
        if not isinstance(field, VectorField):
            raise TypeError(f"`fields[{k}]` must be a ctrnn.VectorField, got {type(field).__name__}.")
        check_no_noise(field, "layer of a stack", "Stack")
    for k, (below, above) in enumerate(pairwise(layers)):
        if above.input_size != below.hidden_size:
            raise ValueError(
                f"`fields[{k + 1}]` reads {above.input_size} features, `fields[{k}]` below it has {below.hidden_size} visible "
                f"units; make one with input_size {below.hidden_size}."
            )
    checks.same_settings((f"fields[{k}]", field) for k, field in enumerate(layers))
    return layers
