r"""Initialization: biases by which each unit forgets in T samples, T drawn at random or given, and recurrent weights.

    sigmoid gate        sigma(b) = 1/T             b = -log(T - 1)          T > 1
    forget gate         sigma(b) = 1 - 1/T         b = log(T - 1)           the LSTM's f, with b_i = -b_f; torch's z of the GRU
    softplus rate       log(1 + e^b) = 1/T         b = log(e^(1/T) - 1)     T > 0
    exponential rate    e^b = 1/T                  b = -log T
    constant rate       alpha = 1/T                                         learned, as e^a, sigma(a) or softplus(a)
    highway layers      (1 - sigma(b))^L = 1 - 1/T                          L gates, one after the other, of one bias

In all of them T is the forgetting time of the field: where input and state are zero its rate is 1/T, and without a
candidate the state falls to 1/e in T; `ctrnn.timescales` gives T back. The discrete cell with the sigmoid gate 1/T keeps
1 - 1/T at every step and falls to 1/e a little earlier, in 1/log(T/(T - 1)) = T - 1/2 - 1/(12 T) - ... steps. For exactly T
steps the bias is that of the softplus rate, since sigma(b) = 1 - e^-softplus(b): `chrono_(ctrnn.softplus_clock(field), ...)`
sets it, for both readings share their weights. With inputs and states that are centred, but not zero, sigma(b) is the
median of a gate, not its mean.

`recurrent_normal_` draws recurrent weights, from a normal distribution with the standard deviation gain/sqrt(hidden);
`recurrent_balanced_` those of a network under Dale's law, whose units are excited as much as they are inhibited;
`center_crossing_` sets the biases of Beer's networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn import checks
from ctrnn.calls import answered
from ctrnn.cells.lstm import LSTMField
from ctrnn.cells.network_gate import NetworkGated
from ctrnn.cells.published.adaptive import AdaptiveField
from ctrnn.cells.published.rhn import RHNField
from ctrnn.cells.stack import Stack
from ctrnn.cells.traced_leak import Entries, biases_of_leak
from ctrnn.fields.candidates import AdditiveCandidate
from ctrnn.fields.connectivity import Dale, LowRank
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Part
from ctrnn.fields.rates import RATES, SIGMOID, FixedRate, Gate, LearnedConstant
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as, nearest, own_code

__all__ = [
    "center_crossing_",
    "chrono_",
    "gate_bias_",
    "initial_rate_",
    "recurrent_balanced_",
    "recurrent_normal_",
    "slow_decay_",
]

M = TypeVar("M", bound=nn.Module | Tensor)
Draw = Callable[[int], Tensor]  # n -> n time scales, float64

# In float32 a gate below 2^-24 moves no state of size 1.
LONGEST = 2**24
# Beyond, float64 cannot tell whole numbers apart.
MOST = 2**53
# The largest P(T = k) log 2/(1/log k - 1/log(k + 1)), but for the constant that normalizes P, is 1.0089, at k = 15: see `_slow`.
ENVELOPE = 1.01


@answered
def chrono_(module: M, t_max: float, *, t_min: float = 2.0, generator: torch.Generator | None = None) -> M:
    r"""Set the gates' biases so that every unit forgets in a time T of its own, uniform on [t_min, t_max]; in place.

    Gates get the bias -log(T - 1); the LSTM's forget gate log(T - 1), and its input gate the negative of that, for the same T;
    rates of any size the bias at which they are 1/T; learned constants become 1/T, one for each unit or one for all. Gates of a
    highway network get the one of which L together keep 1 - 1/T; beyond the first they see what the layers before have made of
    a zero state, which moves them a little. One T is drawn where one gate serves all units. Weights stay as they are; so does
    the network of `gated(..., "network")`.

    torch's modules have two biases that add: one is set, and in the other the part of these gates is zero. torch's z of the
    GRU multiplies the old state, so that its bias is log(T - 1). All layers are set, and both directions.

    Of a field of your own, biases and constants (parameters of one axis) are found by what they do: those entries are set that
    change the leak at rest of a unit, or of all that share it, and of no other; the leak is the one that it declares, or the one
    that its code has: see `ctrnn.timescales`.

    Args:    module: a field of which every layer has a gate or a learned rate, named, published or your own, or nn.LSTM,
             nn.LSTMCell, nn.GRU, nn.GRUCell; t_min, t_max: 1 < t_min <= t_max, in samples, or 0 < t_min where no rate is a
             sigmoid: softplus and exponential ones have no bound; generator: where T comes from, torch's own of the CPU if not
             given.
    Returns: the module.
    Raises:  TypeError for other modules; ValueError for a range that is none, a module without gates or without biases.
             Nothing has been changed then.
    Source:  Tallec and Ollivier 2018, sec. 2 and eq. (16), with u + 1 = T; rates of any size: docs/derivations.md, result 2.
    """
    low, high = _range(t_min, t_max, 0.0)
    refused = f"`t_min` must be above 1, got {low:g}: a gate of 1/T = 1 or more has no finite bias where it is a sigmoid"
    return _initialize(module, _uniform(low, high, generator), 1 / low, refused)


@answered
def initial_rate_(module: M, alpha: float) -> M:
    r"""Set the gates' biases and learned constants so that every unit starts with the rate alpha; in place.

    For a sequence of T samples alpha = c/T, such as 25/T. All of a module is set that `chrono_` sets, of which this is the
    case t_min = t_max = 1/alpha.

    Args:    module: as for `chrono_`; alpha: per sample, or another unit of time, above 0; below 1 where rates are sigmoids.
    Returns: the module.
    Raises:  as `chrono_`; ValueError for an alpha that the rates cannot have.
    Source:  Ohno and Kumagai 2021, sec. VI, for the leaky cell; Tallec and Ollivier 2018, sec. 2, for gates.
    """
    rate = checks.positive_number("alpha", alpha)
    refused = f"`alpha` must be strictly between 0 and 1, got {rate:g}: rates that are sigmoids are below 1"
    return _initialize(module, lambda n: torch.full((n,), 1 / rate, dtype=torch.float64, device="cpu"), rate, refused)


@answered
@torch.no_grad()
def recurrent_normal_(module: M, gain: float = 0.1, *, generator: torch.Generator | None = None) -> M:
    r"""Draw all recurrent weights, those of h, from a normal distribution of mean 0 and standard deviation gain/sqrt(hidden).

    The eigenvalues of such a matrix lie in a disc of radius gain, so that with a small gain the state at first forgets as if
    there were no recurrence. Weights of x and biases stay as they are.

    Args:    module: a field, or what contains one, with recurrent weights `weight_h`; or a recurrent module of torch.nn;
             gain: at least 0; generator: torch's own of the weights' device if not given.
    Returns: the module.
    Raises:  TypeError for a module without recurrent weights; ValueError for a gain that is none.
    Source:  Ohno and Kumagai 2021, sec. VI, with the gain 0.1.
    """
    scale = checks.non_negative_number("gain", gain)
    checks.is_generator(generator)
    recurrent = [(owner, name) for owner in _owners(module) for name in _recurrent_weights(owner)]
    if not recurrent or any(getattr(owner, name).dim() != 2 for owner, name in recurrent):
        without = "whose units have one each" if recurrent else "without"
        raise TypeError(
            f"`module` must be a field or module with matrices of recurrent weights, got {type(module).__name__}, {without}."
        )
    for owner, name in recurrent:
        _check_settable(owner, name)
    for owner, name in recurrent:
        weight = getattr(owner, name)
        _put(owner, name, torch.empty_like(weight).normal_(0.0, scale / math.sqrt(weight.shape[1]), generator=generator))
    return module


@answered
@torch.no_grad()
def center_crossing_(module: M) -> M:
    r"""Set the biases of an additive network of sigmoids so that each unit is most sensitive where all others are at 1/2.

    b_i = -(sum of W_ij over j) / 2: of v = y + theta, Beer's theta, each unit at the middle of its range, and without input
    v = 0 is a point of rest. From there on networks oscillate, or switch, far more often than from random biases.

    Args:    module: `ctrnn.additive(..., "sigmoid")` with a bias, or what contains some.
    Returns: the module.
    Raises:  TypeError for a module without such a network; ValueError for one without biases. Nothing has been changed then.
    Source:  Beer 1995, "On the dynamics of small continuous-time recurrent neural networks", sec. 6; Mathayomchan and Beer 2002,
             "Center-crossing recurrent neural networks for the evolution of rhythmic behavior".
    """
    parts = module.modules() if isinstance(module, nn.Module) else ()
    found = [part for part in parts if computes_as(part, AdditiveCandidate) and part.nonlinearity == "sigmoid"]
    if not found:
        raise TypeError(f'`module` must be, or hold, a ctrnn.additive(..., "sigmoid"), got {type(module).__name__}, without.')
    if any(part.bias is None for part in found):
        raise ValueError("`module` has a network without a bias, which is what is set; make it with bias=True.")
    for part in found:
        _put(part, "bias", -part.weight_h.sum(1) / 2)
    return module


@answered
@torch.no_grad()
def recurrent_balanced_(module: M, gain: float = 1.5, *, generator: torch.Generator | None = None) -> M:
    r"""Draw recurrent weights under Dale's law that excite each unit as much as they inhibit it, of the spectral radius gain.

    Sizes are drawn from a gamma distribution of shape 2. Where both signs reach a unit, the weights that inhibit it are scaled to
    the sum of those that excite it, which takes away the one eigenvalue that would grow with the number of units. Masks and
    diagonals of 0 are kept.

    Args:    module: a field, or what contains one, whose recurrent weights `weight_h` all are square and under a `ctrnn.Dale`;
             gain: positive; generator: torch's own of the weights' device if not given.
    Returns: the module.
    Raises:  TypeError for a module without such weights, or with some of a low rank; ValueError for a gain that is none, and for
             masks that leave a matrix of which all eigenvalues are 0.
    Source:  Song, Yang and Wang 2016, "Training excitatory-inhibitory recurrent neural networks for cognitive tasks", for the
             distribution, the balance and the radius 1.5.
    """
    radius = checks.positive_number("gain", gain)
    checks.is_generator(generator)
    found = [(owner, name) for owner in _owners(module) for name in _recurrent_weights(owner)]
    if not found or not all(_is_under_dales_law(*each) for each in found):
        raise TypeError(
            "`module` must have square recurrent weights, all with a `ctrnn.Dale(signs)` among their parametrizations and none "
            f"with a `ctrnn.LowRank`; got a {type(module).__name__} without."
        )
    for owner, name in found:
        weight = getattr(owner, name)
        sizes = torch.stack([weight, weight]).exponential_(generator=generator).sum(0)
        _put(owner, name, sizes)
        drawn = getattr(owner, name)
        excited, inhibited = drawn.clamp(min=0).sum(1, keepdim=True), drawn.clamp(max=0).neg().sum(1, keepdim=True)
        both = (excited > 0) & (inhibited > 0)
        sizes = torch.where(both & (drawn < 0), sizes * excited / inhibited, sizes)
        _put(owner, name, sizes)
        largest = torch.linalg.eigvals(getattr(owner, name).double()).abs().amax()
        if not checks.holds(largest > 0):
            raise ValueError("`module` has masks under which all eigenvalues of its recurrent weights are 0; no gain fits.")
        _put(owner, name, sizes * (radius / largest).to(sizes))
    return module


def _is_under_dales_law(owner: nn.Module, name: str) -> bool:
    parts = owner.parametrizations[name] if parametrize.is_parametrized(owner, name) else ()  # type: ignore[index]
    kinds = {type(part) for part in parts}
    rows, columns = getattr(owner, name).shape
    return Dale in kinds and LowRank not in kinds and rows == columns


def _owners(module: object) -> Iterator[nn.Module]:
    return module.modules() if isinstance(module, nn.Module) else iter(())


def _recurrent_weights(owner: nn.Module) -> list[str]:
    """List the names of a module's own recurrent weights, those that are parametrized too."""
    names = (*owner._parameters, *getattr(owner, "parametrizations", ()))
    return [name for name in names if name == "weight_h" or name.startswith("weight_hh")]


@answered
def gate_bias_(bias: Tensor, t_min: float, t_max: float, *, generator: torch.Generator | None = None) -> Tensor:
    r"""Fill a sigmoid gate's bias with -log(T - 1), T uniform on [t_min, t_max] for each entry; in place.

    Args:    bias: of any shape, and may be a part of a larger one; t_min, t_max: 1 < t_min <= t_max, in samples; generator.
    Returns: the bias. That of a forget gate is its negative.
    Raises:  TypeError for what is no floating-point tensor, ValueError for a range that is none.
    Source:  Tallec and Ollivier 2018, sec. 2.
    """
    return _fill(bias, _uniform(*_range(t_min, t_max), generator))


@answered
def slow_decay_(module: M, *, largest: float = LONGEST, generator: torch.Generator | None = None) -> M:
    r"""Do as `chrono_` for unknown time scales: P(T = k) proportional to 1/(k log(k + 1)^2), k = 2, 3, ..., largest.

    The biases are -log(T - 1), for a forget gate log(T - 1). (The paper's log(T) would be a gate of T/(T + 1), which forgets
    at once.) T = 1 is left out: a gate of 1 has no finite bias. The tail is P(T > k) ~ 1/log k up to a constant, so slow that
    log T itself has no mean, and some largest T there must be: of the law without an end, the default leaves out the 4.6 % of
    draws beyond 2^24, whose gates would move nothing in float32.

    Args:    module: as for `chrono_`, or a bias, as for `gate_bias_`; largest: the longest T, from 2 to 2^53; generator.
    Returns: the module, or the bias.
    Raises:  as `chrono_` and `gate_bias_`.
    Source:  Tallec and Ollivier 2018, footnote 7, corrected.
    """
    longest = checks.finite_number("largest", largest)
    if not 2 <= longest <= MOST:
        raise ValueError(f"`largest` must be from 2 to 2^53, got {largest}.")
    draw = _slow(math.floor(longest), generator)
    if isinstance(module, Tensor):
        _fill(module, draw)
        return module
    return _initialize(module, draw)


class Layer(NamedTuple):
    """A number of units with a time scale each, and the entries of biases that are set by it."""

    units: int
    biases: tuple[Entries, ...]


@torch.no_grad()
def _initialize(module: M, draw: Draw, largest: float = 0.5, refused: str = "") -> M:
    """Set all biases by the times that `draw` gives; `largest`: the rate that none of them exceeds, and why it is refused."""
    layers = _layers(module, "module")
    for layer in layers:
        for bias in layer.biases:
            _check_bias(bias)
            if largest >= bias.bound:
                kind = type(bias.owner).__name__
                raise ValueError(f"{refused}, as those of `module`'s {kind}; softplus and exponential rates have no bound.")
    values = []
    for layer in layers:  # all of them before any is changed
        rates = 1 / draw(layer.units)
        values += [(bias, bias.of_rate(rates)) for bias in layer.biases]
    for bias, new in values:
        _set(bias, new)
    return module


def _layers(module: object, name: str) -> list[Layer]:
    if computes_as(module, Stack):
        return [found for k, layer in enumerate(module.fields) for found in _layers(layer, f"{name}.fields[{k}]")]
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
    found = biases_of_leak(field)
    if not found:
        raise TypeError(
            f"`{name}` is a {type(field).__name__} whose leak at rest no bias of its own sets, so that there is no time scale to "
            "draw; take a field with gates or a learned rate."
        )
    return [Layer(each.rows.numel(), (each,)) for each in found]  # type: ignore[union-attr]


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


def _check_bias(bias: Entries) -> None:
    owner, name, kind = bias.owner, bias.name, type(bias.owner).__name__
    if getattr(owner, name, None) is None:
        raise ValueError(f"`module` has a {kind} without a bias, and a time scale is set by one; make it with bias=True.")
    parametrized = parametrize.is_parametrized(owner, name)
    if not parametrized and name not in dict(owner.named_parameters(recurse=False)):
        raise ValueError(
            f"`module` has a {kind} whose `{name}` is no parameter but made anew at every call, as by a hook; set the time "
            "scales first, then put the hook on."
        )
    _check_settable(owner, name)


def _check_settable(owner: nn.Module, name: str) -> None:
    steps = getattr(owner.parametrizations, name) if parametrize.is_parametrized(owner, name) else ()
    if not all(hasattr(step, "right_inverse") for step in steps):
        raise ValueError(
            f"`module` has a {type(owner).__name__} whose `{name}` is parametrized without a right inverse, so that it cannot be "
            "set; set it first, then register the parametrization."
        )


def _set(bias: Entries, values: Tensor) -> None:
    new = getattr(bias.owner, bias.name).detach().clone(memory_format=torch.contiguous_format)
    new.view(-1)[bias.rows] = values.to(new)
    _put(bias.owner, bias.name, new)


def _put(owner: nn.Module, name: str, values: Tensor) -> None:
    """Set a parameter's values, through its parametrization where it has one."""
    if parametrize.is_parametrized(owner, name):
        setattr(owner, name, values)
    else:
        getattr(owner, name).copy_(values)


@torch.no_grad()
def _fill(bias: Tensor, draw: Draw) -> Tensor:
    if not checks.is_tensor("bias", bias).is_floating_point():
        raise TypeError(f"`bias` must be floating point, got {bias.dtype}.")
    return bias.copy_(SIGMOID.inverse(1 / draw(bias.numel())).reshape(bias.shape))


def _range(t_min: float, t_max: float, least: float = 1.0) -> tuple[float, float]:
    low, high = checks.finite_number("t_min", t_min), checks.finite_number("t_max", t_max)
    if low <= least:
        why = ": a gate of 1/T = 1, which keeps nothing, has no finite bias" if least else ""
        raise ValueError(f"`t_min` must be above {least:g}, got {low:g}{why}.")
    if high < low:
        raise ValueError(f"`t_max` must be at least `t_min`, got {high:g} and {low:g}.")
    return low, high


def _uniform(low: float, high: float, generator: torch.Generator | None) -> Draw:
    """Draw on the generator's device, in float64 and never on the field's: the same seed gives the same T everywhere."""
    checks.is_generator(generator)
    device = "cpu" if generator is None else generator.device

    def draw(n: int) -> Tensor:
        return torch.empty(n, dtype=torch.float64, device=device).uniform_(low, high, generator=generator)

    return draw


def _slow(largest: int, generator: torch.Generator | None) -> Draw:
    r"""P(T = k) proportional to p(k) = 1/(k log(k + 1)^2) for k = 2, ..., largest, without a table.

    q(k) = 1/log k - 1/log(k + 1) sums to 1/log k from k on, and is drawn by inversion: floor(2^(1/u)). Of those draws
    p/(1.01 q) are kept, p/q = log k/log(k + 1)/(k log(1 + 1/k)), which is at most 1.0089 up to k = 100 and beyond at most
    1/(1 - 1/(2 k)) < 1.0051.
    """
    us, chances = _uniform(math.log(2) / math.log(largest + 1), 1.0, generator), _uniform(0.0, ENVELOPE, generator)

    def draw(n: int) -> Tensor:
        kept = [us(0)]
        while sum(map(len, kept)) < n:
            T = torch.exp2(1 / us(n)).floor().clamp(2, largest)  # the clamp is for rounding at the ends
            ratio = torch.log(T) / torch.log(T + 1) / (T * torch.log1p(1 / T))
            kept.append(T[chances(n) < ratio])
        return torch.cat(kept)[:n]

    return draw
