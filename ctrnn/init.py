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
steps the bias is that of the softplus rate, since sigma(b) = 1 - e^-softplus(b): `chrono_(ctrnn.cells.softplus_clock(field),
...)` sets it, for both readings share their weights. With inputs and states that are centred, but not zero, sigma(b) is the
median of a gate, not its mean.

`recurrent_normal_` draws recurrent weights, from a normal distribution with the standard deviation gain/sqrt(hidden);
`recurrent_balanced_` those of a network under Dale's law, whose units are excited as much as they are inhibited;
`center_crossing_` sets the biases of Beer's networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn import checks
from ctrnn.calls import answered
from ctrnn.fields.candidates import AdditiveCandidate
from ctrnn.fields.connectivity import Dale, LowRank
from ctrnn.fields.rates import SIGMOID
from ctrnn.own_code import computes_as
from ctrnn.rate_biases import check_bias, check_settable, put_values, rate_layers, set_entries

__all__ = [
    "center_crossing_",
    "chrono_",
    "gate_bias_",
    "initial_rate_",
    "inverse_gamma_",
    "recurrent_balanced_",
    "recurrent_normal_",
    "slow_decay_",
    "uniform_gates_",
]

M = TypeVar("M", bound=nn.Module | Tensor)
Draw = Callable[[int], Tensor]  # n -> n time scales, float64

# In float32 a gate below 2^-24 moves no state of size 1.
LONGEST = 2**24
# Beyond, float64 cannot tell whole numbers apart.
MOST = 2**53
# Rates of 1/T beyond are as this one: 1 - e^(-1/T) must stay below 1 in float64.
FASTEST = 30.0
BELOW_1 = math.nextafter(1.0, 0.0)
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
        check_settable(owner, name)
    for owner, name in recurrent:
        weight = getattr(owner, name)
        put_values(owner, name, torch.empty_like(weight).normal_(0.0, scale / math.sqrt(weight.shape[1]), generator=generator))
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
    candidates = [part for part in parts if computes_as(part, AdditiveCandidate) and part.nonlinearity == "sigmoid"]
    if not candidates:
        raise TypeError(f'`module` must be, or hold, a ctrnn.additive(..., "sigmoid"), got {type(module).__name__}, without.')
    if any(part.bias is None for part in candidates):
        raise ValueError("`module` has a network without a bias, which is what is set; make it with bias=True.")
    for part in candidates:
        put_values(part, "bias", -part.weight_h.sum(1) / 2)
    return module


@answered
@torch.no_grad()
def recurrent_balanced_(module: M, gain: float = 1.5, *, generator: torch.Generator | None = None) -> M:
    r"""Draw recurrent weights under Dale's law that excite each unit as much as they inhibit it, of the spectral radius gain.

    Sizes are drawn from a gamma distribution of shape 2. Where both signs reach a unit, the weights that inhibit it are scaled to
    the sum of those that excite it, which takes away the one eigenvalue that would grow with the number of units. Masks and
    diagonals of 0 are kept.

    Args:    module: a field, or what contains one, whose recurrent weights `weight_h` all are square and under a
             `ctrnn.parts.Dale`; gain: positive; generator: torch's own of the weights' device if not given.
    Returns: the module.
    Raises:  TypeError for a module without such weights, or with some of a low rank; ValueError for a gain that is none, and for
             masks that leave a matrix of which all eigenvalues are 0.
    Source:  Song, Yang and Wang 2016, "Training excitatory-inhibitory recurrent neural networks for cognitive tasks", for the
             distribution, the balance and the radius 1.5.
    """
    radius = checks.positive_number("gain", gain)
    checks.is_generator(generator)
    matrices = [(owner, name) for owner in _owners(module) for name in _recurrent_weights(owner)]
    if not matrices or not all(_is_under_dales_law(*each) for each in matrices):
        raise TypeError(
            "`module` must have square recurrent weights, all with a `ctrnn.parts.Dale(signs)` among their parametrizations and "
            f"none with a `ctrnn.parts.LowRank`; got a {type(module).__name__} without."
        )
    for owner, name in matrices:
        weight = getattr(owner, name)
        sizes = torch.stack([weight, weight]).exponential_(generator=generator).sum(0)
        put_values(owner, name, sizes)
        drawn = getattr(owner, name)
        excited, inhibited = drawn.clamp(min=0).sum(1, keepdim=True), drawn.clamp(max=0).neg().sum(1, keepdim=True)
        both = (excited > 0) & (inhibited > 0)
        sizes = torch.where(both & (drawn < 0), sizes * excited / inhibited, sizes)
        put_values(owner, name, sizes)
        largest = torch.linalg.eigvals(getattr(owner, name).double()).abs().amax()
        if not checks.holds(largest > 0):
            raise ValueError("`module` has masks under which all eigenvalues of its recurrent weights are 0; no gain fits.")
        put_values(owner, name, sizes * (radius / largest).to(sizes))
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


@answered
def inverse_gamma_(module: M, shape: float = 0.56, scale: float = 1.0, *, generator: torch.Generator | None = None) -> M:
    r"""Do as `chrono_` for times of an inverse-gamma law: what units keep on the average falls as a power of time.

        mean of e^(-n/T) = (1 + n/scale)^(-shape)

    T is the time in which the steps of a cell with sigmoid gates fall to 1/e, sigma(b_f) = e^(-1/T), which any T > 0 has; the
    rate, which `ctrnn.timescales` inverts, is 1 - e^(-1/T). T has no mean where `shape` is 1 or less.

    Args:    module: as for `chrono_`; shape, scale: of the law, above 0, the scale in samples; generator.
    Returns: the module.
    Raises:  as `chrono_`; ValueError for numbers that are not above 0.
    Source:  Mahto, Vo, Turek and Huth 2021, "Multi-timescale representation learning in LSTM language models", whose code gives
             the units of the second of three layers the quantiles of this law, shape 0.56 and scale 1, and keeps them.
    """
    alpha, beta = checks.positive_number("shape", shape), checks.positive_number("scale", scale)
    checks.is_generator(generator)
    device = "cpu" if generator is None else generator.device

    def draw(n: int) -> Tensor:
        seed = int(torch.randint(2**63 - 1, (), device=device, generator=generator))  # torch draws such laws by no generator
        rates = torch.from_numpy(np.random.default_rng(seed).gamma(alpha, 1 / beta, n)).to(device)
        return -1 / torch.expm1(-rates.clamp(max=FASTEST))

    return _initialize(module, draw)


@answered
def uniform_gates_(module: M, least: float | None = None, *, generator: torch.Generator | None = None) -> M:
    r"""Do as `chrono_` for gates that start uniform on (least, 1 - least): no time scale is expected, and none left out.

        sigma(b) = u,  b = -log(1/u - 1)          forgetting times 1/u from 1/(1 - least) to 1/least, half of them below 2

    A forget gate is 1 - u, which has the same law. The times have the density 1/T^2 but for a constant, and for a small `least`
    the mean log(1/least): of most units, short ones.

    Args:    module: as for `chrono_`, or a bias, as for `gate_bias_`; least: above 0 and below 1/2, 1/units of each layer, or
             1/entries of a bias, if not given; generator.
    Returns: the module, or the bias.
    Raises:  as `chrono_` and `gate_bias_`; ValueError for a `least` that is none, and where it is not given for layers of fewer
             than three gates, as where one serves all units.
    Source:  Gu, Gulcehre, Paine, Hoffman and Pascanu 2020, "Improving the gating mechanism of recurrent neural networks".
    """
    checks.is_generator(generator)
    smallest = None if least is None else checks.positive_number("least", least)
    if smallest is not None and smallest >= 0.5:
        raise ValueError(f"`least` must be above 0 and below 1/2, got {least:g}: gates are drawn between it and 1 - least.")

    def draw(n: int) -> Tensor:
        if smallest is None and n < 3:
            raise ValueError(
                f"`module` has {n} gate{'s' * (n != 1)} in a layer, or entries, and between 1/{n} and 1 - 1/{n} is nothing to "
                "draw from; give `least`, such as 1/units."
            )
        low = smallest or 1 / n
        return 1 / _uniform(low, 1 - low, generator)(n)

    if isinstance(module, Tensor):
        _fill(module, draw)
        return module
    return _initialize(module, draw, BELOW_1, "`uniform_gates_` sets rates up to 1, and such are not")


@torch.no_grad()
def _initialize(module: M, draw: Draw, largest: float = 0.5, refused: str = "") -> M:
    """Set all biases by the times that `draw` gives; `largest`: the rate that none of them exceeds, and why it is refused."""
    layers = rate_layers(module, "module")
    for layer in layers:
        for bias in layer.biases:
            check_bias(bias)
            if largest >= bias.bound:
                kind = type(bias.owner).__name__
                raise ValueError(f"{refused}, as those of `module`'s {kind}; softplus and exponential rates have no bound.")
    values = []
    for layer in layers:  # all of them before any is changed
        rates = 1 / draw(layer.units)
        values += [(bias, bias.of_rate(rates)) for bias in layer.biases]
    for bias, new in values:
        set_entries(bias, new)
    return module


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
