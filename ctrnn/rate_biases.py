"""Find the biases of a field or a module of torch that set how fast its units forget, and set them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn.cells.lstm import LSTMField
from ctrnn.cells.network_gate import NetworkGated
from ctrnn.cells.published.adaptive import AdaptiveField
from ctrnn.cells.published.rhn import RHNField
from ctrnn.cells.stack import Stack
from ctrnn.cells.traced_leak import Entries, biases_of_leak
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Part
from ctrnn.fields.rates import RATES, SIGMOID, FixedRate, Gate, LearnedConstant
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as, nearest, own_code

__all__ = ["Layer", "check_bias", "check_settable", "put_values", "rate_layers", "set_entries"]


class Layer(NamedTuple):
    """A number of units with a time scale each, and the entries of biases that are set by it."""

    units: int
    biases: tuple[Entries, ...]


def rate_layers(module: object, name: str) -> list[Layer]:
    """Return the layers of a module that have time scales; `name`: what it is called in errors."""
    if computes_as(module, Stack):
        return [found for k, layer in enumerate(module.fields) for found in rate_layers(layer, f"{name}.fields[{k}]")]
    if computes_as(module, Relaxation, NetworkGated):
        return [_of_rate(module.rate, name)]
    if computes_as(module, LSTMField, RHNField):
        return [_of_highway(module) if isinstance(module, RHNField) else _of_lstm(module.gates, ("bias",), module.hidden_size)]
    if computes_as(module, AdaptiveField):  # what it remembers by is its threshold
        return [_of_rate(module.adaptation, name)]
    if (kind := nearest(module, nn.LSTM, nn.LSTMCell, nn.GRU, nn.GRUCell)) is not None:
        if own := own_code(module, kind):
            raise TypeError(
                f"`{name}` is a {type(module).__name__}, which changes what {kind.__name__} computes by {own}, so that "
                "what its biases mean is not known; fill them by `ctrnn.init.gate_bias_`."
            )
        assert isinstance(module, nn.RNNBase | nn.RNNCellBase)
        of_kind = _of_lstm if isinstance(module, nn.LSTM | nn.LSTMCell) else _of_torchs_gru
        return [of_kind(module, (f"bias_ih{s}", f"bias_hh{s}"), module.hidden_size) for s in _suffixes(module)]
    if isinstance(module, VectorField):
        return _of_leak(module, name)
    inner = getattr(module, "field", None)
    hint = f"; pass its field, `{name}.field`" if isinstance(inner, nn.Module) else ""
    raise TypeError(
        f"`{name}` must be a field with gates, as of ctrnn.gated, gru, lstm or leaky, or an nn.LSTM, LSTMCell, GRU or GRUCell; "
        f"got {type(module).__name__}{hint}."
    )


def _of_rate(rate: Part, name: str) -> Layer:
    if computes_as(rate, FixedRate):
        raise ValueError(
            f"`{name}` has the fixed rate {rate.alpha:g} and no gate whose bias sets a time scale; take ctrnn.gated, or "
            "ctrnn.leaky for a learned constant."
        )
    if not computes_as(rate, Gate, LearnedConstant):
        known = ", ".join(kind.__name__ for kinds in RATES.values() for kind in kinds)
        raise TypeError(f"`{name}` has the rate {type(rate).__name__}; how its bias sets a time scale is known for {known} only.")
    bias = getattr(rate, rate.argument)
    units = 0 if bias is None else bias.numel()
    return Layer(units, (Entries(rate, rate.argument, slice(None), rate.activation.inverse, rate.activation.bound),))


def _of_leak(field: VectorField, name: str) -> list[Layer]:
    """Take any other field: whatever biases set its leak at rest, each on its own."""
    biases = biases_of_leak(field)
    if not biases:
        raise TypeError(
            f"`{name}` is a {type(field).__name__} whose leak at rest no bias of its own sets, so that there is no time scale to "
            "draw; take a field with gates or a learned rate."
        )
    return [Layer(each.rows.numel(), (each,)) for each in biases]  # type: ignore[union-attr]


def _of_lstm(owner: nn.Module, names: tuple[str, ...], units: int) -> Layer:
    """The rows are i, f, g, o."""
    i, f = slice(0, units), slice(units, 2 * units)
    return Layer(units, (*_added(owner, names, i, SIGMOID.inverse), *_added(owner, names, f, _of_complement)))


def _of_highway(field: RHNField) -> Layer:
    """Every gate of a unit gets the same bias; the paper's signs, as printed, would have it forget at once."""
    gates, depth = slice(field.hidden_size, 2 * field.hidden_size), field.depth

    def of_rate(rate: Tensor) -> Tensor:
        log_kept = torch.log1p(-rate) / depth  # by each layer, the logarithm of 1 - t
        return torch.log(-torch.expm1(log_kept)) - log_kept

    return Layer(field.hidden_size, tuple(Entries(layer, "bias", gates, of_rate, 1.0) for layer in field.layers))


def _of_torchs_gru(owner: nn.Module, names: tuple[str, ...], units: int) -> Layer:
    """The rows are r, z, n."""
    return Layer(units, _added(owner, names, slice(units, 2 * units), _of_complement))


def _of_complement(rate: Tensor) -> Tensor:
    """Return the bias of a sigmoid gate of 1 - rate, which multiplies what is kept."""
    return -SIGMOID.inverse(rate)


def _added(owner: nn.Module, names: tuple[str, ...], rows: slice, of_rate: Callable[[Tensor], Tensor]) -> tuple[Entries, ...]:
    """Set the first of biases that add, the others to zero."""
    return tuple(Entries(owner, name, rows, torch.zeros_like if k else of_rate, 1.0) for k, name in enumerate(names))


def _suffixes(module: nn.RNNBase | nn.RNNCellBase) -> list[str]:
    if isinstance(module, nn.RNNCellBase):
        return [""]
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [f"_l{layer}{direction}" for layer in range(module.num_layers) for direction in directions]


def check_bias(bias: Entries) -> None:
    """Refuse a bias that is not there, or cannot be set."""
    owner, name, kind = bias.owner, bias.name, type(bias.owner).__name__
    if getattr(owner, name, None) is None:
        raise ValueError(f"`module` has a {kind} without a bias, and a time scale is set by one; make it with bias=True.")
    parametrized = parametrize.is_parametrized(owner, name)
    if not parametrized and name not in dict(owner.named_parameters(recurse=False)):
        raise ValueError(
            f"`module` has a {kind} whose `{name}` is no parameter but made anew at every call, as by a hook; set the time "
            "scales first, then put the hook on."
        )
    check_settable(owner, name)


def check_settable(owner: nn.Module, name: str) -> None:
    """Refuse a parameter that is computed from others by what has no inverse."""
    steps = getattr(owner.parametrizations, name) if parametrize.is_parametrized(owner, name) else ()
    if not all(hasattr(step, "right_inverse") for step in steps):
        raise ValueError(
            f"`module` has a {type(owner).__name__} whose `{name}` is parametrized without a right inverse, so that it cannot be "
            "set; set it first, then register the parametrization."
        )


def set_entries(bias: Entries, values: Tensor) -> None:
    """Set some entries of a bias, and leave the others."""
    new = getattr(bias.owner, bias.name).detach().clone(memory_format=torch.contiguous_format)
    new.view(-1)[bias.rows] = values.to(new)
    put_values(bias.owner, bias.name, new)


def put_values(owner: nn.Module, name: str, values: Tensor) -> None:
    """Set a parameter's values, through its parametrization where it has one."""
    if parametrize.is_parametrized(owner, name):
        setattr(owner, name, values)
    else:
        getattr(owner, name).copy_(values)
