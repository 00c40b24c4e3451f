r"""Reads networks of neuroscience by the names of their arrays and the numbers beside these, and compares the outputs.

rates        h <- (1 - a) h + a f(Wx x + W h + b)        a = dt/tau: Euler's step of tau dh/dt = f(...) - h
potentials   v <- (1 - a) v + a (Wx x + W r(v) + b)      of tau dv/dt = -v + Wx x + W r(v) + b, outputs r(v)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

import ctrnn
from ctrnn import checks
from ctrnn.fields.nonlinearities import Nonlinearity, function_named
from discretize.errors import warn_user
from discretize.sequences.model import SequenceModel
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.euler import Euler
from discretize.steps.stochastic import EulerMaruyama

__all__ = ["from_ctrnn"]

# The names of the input's weights and of the recurrent ones, by which each kind of network is recognized.
TUTORIAL, NN4N, PSYCHRNN = ("input2h", "h2h"), ("input_layer", "hidden_layer"), ("W_in", "W_rec")
SCALED = ("wi", "si", "wo", "so")  # of the low-rank and full-rank networks of Dubreuil et al. 2022, each with a scale
READ_OUTS = ("fc", "h2out", "h2o", "readout", "readout_layer", "output_layer", "out")
COMPARED = 1e-3  # of the largest output, over a few steps in single precision
SAME = 1e-6  # relative: of numbers that were perhaps kept in single precision
KNOWN = (
    "`input2h.weight` and `h2h.weight` (the tutorials' CTRNN, RNNNet and EIRNN), `input_layer.weight` and `hidden_layer.weight` "
    "(nn4n), `W_in` and `W_rec` (PsychRNN), or `wi`, `si`, `wo`, `so` with `m` and `n` or `wrec` (LowRankRNN, FullRankRNN)"
)


@dataclass
class _Found:
    """Holds what was read of a network: its weights, the length of its step, and the constraints on its weights."""

    weight_x: Tensor
    weight_h: Tensor
    biases: list[Tensor]
    form: str | None  # None where the arrays do not tell
    alpha: float | None = None
    tau: float = 1.0
    nonlinearity: str = "relu"
    batch_first: bool = False
    deviation: float = 0.0  # of the noise of a step
    start: Tensor | None = None
    constraints: list[nn.Module] = field(default_factory=list)
    read_out: tuple[Tensor, Tensor | None] | None = None
    unread: list[str] = field(default_factory=list)


class _Arrays(dict[str, Tensor]):
    """Arrays by name, which notes those that are taken."""

    def __init__(self, arrays: Mapping[str, Tensor]) -> None:
        super().__init__(arrays)
        self.taken: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.taken.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.taken.add(name)
        return super().get(name, default)


@torch.no_grad()
def from_ctrnn(
    network: nn.Module | Mapping[str, Any],
    *,
    alpha: float | None = None,
    form: Literal["rates", "potentials"] | None = None,
    nonlinearity: Nonlinearity | None = None,
) -> SequenceModel | DiscreteRNN:
    r"""Read a CTRNN of the tutorials (CTRNN, RNNNet, EIRNN), of nn4n, of PsychRNN, or a LowRankRNN or FullRankRNN: the same
    outputs, on a copy of the weights.

    Dale's law, masks, low rank and noise of the units come along as `ctrnn.parts.Dale`, `Mask`, `ZeroDiagonal`, `LowRank` and
    `Noise`; inputs and read-outs are free where training goes on. The step is Euler's, with
    dt = alpha tau; all others, and exact solutions, are of the same field: `model.field`.

    Args:    network: the module; or its state_dict, or arrays by their names, as `numpy.load("weights.npz")` has them; alpha:
             dt/tau, where the network does not keep it; form: "rates" or "potentials", as above, which is to be said of a
             tutorial's network without Dale's law: its arrays do not tell; nonlinearity: where it is not that which the
             network names, or else relu, or tanh of a LowRankRNN or FullRankRNN.
    Returns: a `SequenceModel`, or a `DiscreteRNN` where there is no read-out; time- or batch-first as the network is.
    Raises:  TypeError, ValueError for what is not recognized, or has no equation. Warns of a start that is not 0, which is given
             in the call, `h_0`; of arrays that were not read; and where a copy of the module, called with a few numbers, gives
             other outputs: its code is not read, so that another nonlinearity, form or order of axes shows only there. Where
             outputs cannot be compared, of arrays alone and under noise, it says so, and which way round weights were read.
    Source:  Yang and Molano-Mazon 2021, "Towards the next generation of recurrent network models for cognitive neuroscience", for
             the tutorials; Song, Yang and Wang 2016, eqs. (3) and (10); Ehrlich, Stone, Brandfonbrener, Atanasov and Murray 2021;
             Dubreuil, Valente, Beiran, Mastrogiuseppe and Ostojic 2022, and Valente, Pillow and Ostojic 2022.
    """
    weights = _found(network)
    _check_arrays(weights)
    share = checks.positive_number("alpha", _needed_alpha(alpha, weights))
    if form is None and weights.form is None:
        raise ValueError(
            "`network` has the weights of several networks; say how its `forward` steps: form='rates' for h = (1 - alpha) h + "
            "alpha relu(...), form='potentials' for v = (1 - alpha) v + alpha (...) whose output is relu(v). What has relu "
            "around all of it, relu((1 - alpha) h + alpha (...)), is no step of an equation, and cannot be read."
        )
    kind = checks.one_of("form", form or weights.form, ("rates", "potentials"))
    made = _field(weights, kind, nonlinearity or weights.nonlinearity)
    step: Any = Euler()
    if weights.deviation:
        noise = ctrnn.Noise(weights.deviation / (share * weights.tau) ** 0.5).requires_grad_(False)  # theirs is not learned
        made, step = ctrnn.Noisy(made, noise), EulerMaruyama()
    rnn = DiscreteRNN(made, step, dt=share * weights.tau, batch_first=weights.batch_first)
    if weights.start is not None and not checks.holds(weights.start == 0):
        warn_user(
            "`network` has an initial state that is not 0; give it in every call, `h_0=start.expand(batch, -1)`.",
            UserWarning,
        )
    model = rnn if weights.read_out is None else _with_read_out(rnn, *weights.read_out)
    if weights.unread:
        warn_user(
            f"`network` has arrays that were not read, {', '.join(weights.unread)}; what they do to its outputs is left out.",
            UserWarning,
        )
    _compare(network, model, weights, f"{nonlinearity or weights.nonlinearity} and the form '{kind}'")
    return model.train(network.training) if isinstance(network, nn.Module) else model


def _with_read_out(rnn: DiscreteRNN, weight: Tensor, bias: Tensor | None) -> SequenceModel:
    model = SequenceModel(rnn, len(weight))
    model.read_out.weight.zero_()[:, : weight.shape[1]] = weight  # units beyond are not read
    model.read_out.weight.requires_grad_(weight.requires_grad)
    if bias is None:
        model.read_out.register_parameter("bias", None)
    else:
        model.read_out.bias.copy_(bias).requires_grad_(bias.requires_grad)
    if weight.shape[1] < rnn.hidden_size:
        read = (torch.arange(rnn.hidden_size) < weight.shape[1]).to(weight)
        register_parametrization(model.read_out, "weight", ctrnn.Mask(read.expand(len(weight), -1)))
    return model


def _compare(network: object, model: SequenceModel | DiscreteRNN, found: _Found, taken: str) -> None:
    """Warn where a copy of the network has outputs of the model's shape and none is the model's, or where that is not known."""
    apart, why = _apart(network, model, found)
    if why:
        warn_user(
            f"`network` was read with {taken}, and its outputs could not be compared, because {why}. Recurrent weights, "
            f"{tuple(found.weight_h.shape)}, were read by rows, [i, j] to unit i from unit j, and those of the input likewise; "
            "compare a few outputs yourself.",
            UserWarning,
        )
    elif not apart < COMPARED:
        warn_user(
            f"`network` gives other outputs than what was read of it with {taken}, by {apart:.0%} of a unit's largest, for a few "
            "random numbers (time, batch, input): its `forward` computes something else. Say another `nonlinearity` or `form`; "
            "relu around all of a step is no step of an equation.",
            UserWarning,
        )


def _apart(network: object, model: SequenceModel | DiscreteRNN, found: _Found) -> tuple[float, str]:
    """Return by which share of a unit's largest output the nearest of the network's is off; or why that is not known."""
    if not isinstance(network, nn.Module):
        return 0.0, "arrays have no code to call"
    if found.deviation:
        return 0.0, "it has noise"
    xs = torch.randn(7, 3, model.field.input_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    xs = xs.to(next(model.parameters()))
    computed = {id(one): one.detach() for part in network.modules() for one in vars(part).values() if isinstance(one, Tensor)}
    try:
        theirs = copy.deepcopy(network, computed).eval()(xs)  # what they computed of weights is no leaf, and not copied
    except Exception as error:  # whatever its `forward` asks for beside samples
        return 0.0, f"its `forward` takes no samples (time, batch, input) alone ({type(error).__name__}: {str(error)[:200]})"
    sequences = xs.shape[0 if found.batch_first else 1]
    start = None if found.start is None else found.start.reshape(1, -1).expand(sequences, -1).to(xs)
    ours = model(xs, h_0=start)
    expected = ours if isinstance(ours, Tensor) else ours[0]
    outputs = theirs if isinstance(theirs, tuple | list) else (theirs,)
    alike = [output for output in outputs if isinstance(output, Tensor) and output.shape == expected.shape]
    if not alike:
        return 0.0, f"it gives nothing of the shape {tuple(expected.shape)} for samples {tuple(xs.shape)}"
    tiny = torch.finfo(expected.dtype).tiny
    sizes = [torch.maximum(output.abs(), expected.abs()).amax((0, 1)).clamp(min=tiny) for output in alike]
    off = [(output - expected).abs().amax((0, 1)) / size for output, size in zip(alike, sizes, strict=True)]
    return min(float(each.max()) for each in off), ""


def _check_arrays(found: _Found) -> None:
    units, inputs = (
        (found.weight_h.shape[0], found.weight_x.shape[-1]) if found.weight_h.dim() and found.weight_x.dim() else (0, 0)
    )
    wanted: list[tuple[str, Tensor, tuple[int, ...]]]
    wanted = [("weights of the input", found.weight_x, (units, inputs)), ("recurrent weights", found.weight_h, (units, units))]
    wanted += [("bias", bias, (units,)) for bias in found.biases]
    if found.read_out is not None:
        weight, bias = found.read_out
        wanted.append(("weights of the read-out", weight, (weight.shape[0], min(weight.shape[-1], units))))
        wanted += [] if bias is None else [("bias of the read-out", bias, (weight.shape[0],))]
    for name, array, shape in wanted:
        if tuple(array.shape) != shape:
            raise ValueError(f"`network` has {units} units, and its {name} should be {shape}, got {tuple(array.shape)}.")
        if not array.is_floating_point():
            raise TypeError(f"`network` has {name} of {array.dtype}; convert them to floating point.")
        checks.is_finite(f"network's {name}", array)


def _needed_alpha(given: float | None, found: _Found) -> float:
    if given is None and found.alpha is None:
        raise ValueError("`network` does not say how far a step goes; give `alpha`, which is dt/tau.")
    if given is not None and found.alpha is not None and not math.isclose(given, found.alpha, rel_tol=SAME):
        raise ValueError(f"`alpha` is {given:g}, and that of the network is {found.alpha:g}; leave it out.")
    return given if given is not None else found.alpha  # type: ignore[return-value]


def _field(found: _Found, form: str, nonlinearity: str) -> ctrnn.VectorField:
    settings: dict[str, Any] = {"bias": bool(found.biases), "dtype": found.weight_h.dtype, "device": found.weight_h.device}
    make = ctrnn.additive if form == "potentials" else ctrnn.leaky
    settings |= {"nonlinearity": nonlinearity, "tau": found.tau}
    made = make(found.weight_x.shape[1], len(found.weight_h), **settings)
    part: Any = made.candidate
    part.weight_x.copy_(found.weight_x).requires_grad_(found.weight_x.requires_grad)
    part.weight_h.copy_(found.weight_h).requires_grad_(found.weight_h.requires_grad)
    if found.biases:
        part.bias.copy_(sum(found.biases)).requires_grad_(any(bias.requires_grad for bias in found.biases))
    for constraint in found.constraints:
        register_parametrization(part, "weight_h", constraint)
    return made


def _found(network: object) -> _Found:
    if isinstance(network, nn.RNNBase | nn.RNNCellBase):
        raise TypeError("`network` is one of torch's own; `discretize.layers_from_torch` reads it, `ctrnn.from_torch` a cell.")
    if isinstance(network, nn.Module):
        kept = network.state_dict(keep_vars=True).items()  # with whether they learn
        arrays = _Arrays({name: tensor for name, tensor in kept if isinstance(tensor, Tensor)})
    elif isinstance(network, Mapping):
        arrays = _Arrays({name: array for name in network if (array := _as_tensor(network, name)) is not None})
    else:
        raise TypeError(f"`network` must be a torch.nn.Module, its state_dict or arrays by name, got {type(network).__name__}.")
    weights = _recognized(network if isinstance(network, nn.Module) else None, arrays)
    names = network.state_dict() if isinstance(network, nn.Module) else network
    # Without Dale's law PsychRNN saves a ratio that is no number, and signs that mean nothing.
    lawless = {"dale_ratio", "Dale_rec", "Dale_out"} if "dale_ratio" in names and "dale_ratio" not in arrays else set()
    weights.unread = [str(name) for name in names if name not in arrays.taken | lawless]
    return weights


def _recognized(module: nn.Module | None, arrays: Mapping[str, Tensor]) -> _Found:
    if all(name in arrays for name in PSYCHRNN):
        return _psychrnn(arrays)
    if all(name in arrays for name in SCALED) and ("wrec" in arrays or {"m", "n"} <= arrays.keys()):
        return _scaled(arrays, module)
    for names, read in ((TUTORIAL, _tutorial), (NN4N, _nn4n)):
        for name in arrays:
            prefix, mark, _ = name.rpartition(f"{names[1]}.weight")
            if mark and f"{prefix}{names[0]}.weight" in arrays:
                owner = None if module is None else module.get_submodule(prefix.rstrip("."))
                weights = read(arrays, prefix, owner)
                weights.read_out = _read_out(arrays, prefix, len(weights.weight_h))
                return weights
    parts = {} if module is None else dict(module.named_modules())
    if own := next((name for name, part in parts.items() if isinstance(part, nn.RNNBase | nn.RNNCellBase)), None):
        raise ValueError(
            f"`network.{own}` is one of torch's own, a {type(parts[own]).__name__}, and no CTRNN: `discretize.layers_from_torch` "
            "reads its layers, `ctrnn.from_torch` a cell or one layer; its step is Euler's of dt = tau. Copy the read-out into "
            "that of a `discretize.SequenceModel`."
        )
    raise ValueError(
        f"`network` is not recognized by the names of its tensors, {', '.join(arrays) or 'none'}; known are {KNOWN}. "
        "Give a dict under such names, or copy the arrays into `ctrnn.additive` (potentials) or `ctrnn.leaky` (rates)."
    )


def _as_tensor(arrays: Mapping[str, Any], name: str) -> Tensor | None:
    """Return an array as a tensor; None for what is none, such as a pickled function, which is not loaded."""
    try:
        value = arrays[name]
    except ValueError:  # of numpy, for objects
        return None
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    return torch.from_numpy(np.array(value)).requires_grad_(value.dtype.kind == "f") if is_numbers else None


def _tutorial(arrays: Mapping[str, Tensor], prefix: str, owner: nn.Module | None) -> _Found:
    (weight_x, bias_x), (weight_h, bias_h) = (_linear(arrays, prefix + name) for name in TUTORIAL)
    if owner is not None and "Pos" in type(owner.input2h).__name__:
        raise ValueError("`network` reads its input by weights that are kept positive; write it as `torch.nn.Linear` first.")
    weights = _Found(weight_x, weight_h, [bias for bias in (bias_x, bias_h) if bias is not None], None)
    _steps(weights, owner)
    mask = getattr(getattr(owner, "h2h", None), "mask", None)
    if isinstance(mask, Tensor):
        weights.form = "potentials"
        signs = mask.to(weight_h).sum(0).sign()
        if not torch.equal(mask.to(weight_h), signs * (1 - torch.eye(len(signs)).to(signs))):
            raise ValueError(
                "`network` has a mask that is not one sign for each column with a diagonal of 0; fold it into weights."
            )
        weights.constraints = [ctrnn.Dale(signs), ctrnn.ZeroDiagonal()]
    return weights


def _steps(found: _Found, owner: nn.Module | None) -> None:
    """Take over dt/tau, tau and the deviation of the noise of a step from a network's attributes."""
    kept = {name: getattr(owner, name, None) for name in ("alpha", "tau", "dt", "_sigma_rec", "sigma_rec")}
    alpha, tau = kept["alpha"], kept["tau"]
    if alpha is None and kept["dt"] is not None and tau is not None:
        alpha = kept["dt"] / tau
    if alpha is not None:
        found.alpha = checks.positive_number("network.alpha", alpha)
        found.tau = 1.0 if tau is None else checks.positive_number("network.tau", tau)
    found.deviation = float(kept["_sigma_rec"] or 0.0)
    if kept["sigma_rec"] and not found.deviation:
        raise ValueError("`network` has noise, `sigma_rec`, of which its arrays do not say how it enters; set it to 0.")


def _nn4n(arrays: Mapping[str, Tensor], prefix: str, owner: nn.Module | None) -> _Found:
    (weight_x, bias_x), (weight_h, bias_h) = (_linear(arrays, prefix + name) for name in NN4N)
    weights = _Found(weight_x, weight_h, [bias for bias in (bias_x, bias_h) if bias is not None], "potentials")
    weights.start = arrays.get(f"{prefix}hidden_state")
    if owner is None:
        return weights
    weights.alpha, weights.nonlinearity = float(owner.alpha), str(owner.act)  # type: ignore[arg-type]
    if getattr(owner, "postact_noise", 0):
        raise ValueError("`network` has `postact_noise`, noise on its outputs that its equation does not have; set it to 0.")
    weights.deviation = weights.alpha * float(getattr(owner, "preact_noise", 0))
    layer: Any = owner.hidden_layer
    if layer.ei_mask is not None:
        signs = layer.ei_mask.to(weight_h)
        if not torch.equal(signs, signs[:1].expand_as(signs)):
            raise ValueError("`network` has an `ei_mask` that is not one sign for each unit; set it to None, or to one that is.")
        weights.constraints.append(ctrnn.Dale(signs[0], by="clip"))
    if layer.sparsity_mask is not None:
        weights.constraints.append(ctrnn.Mask(layer.sparsity_mask.to(weight_h)))
    return weights


def _psychrnn(arrays: Mapping[str, Tensor]) -> _Found:
    biases = [arrays["b_rec"].reshape(-1)] if "b_rec" in arrays else []
    weights = _Found(arrays["W_in"], arrays["W_rec"], biases, "potentials", batch_first=True)
    weights.start = arrays.get("init_state")
    if arrays.get("dale_ratio") is not None and "Dale_rec" in arrays:  # saved weights are those that Dale's law gives
        weights.constraints = [ctrnn.Dale(arrays["Dale_rec"].diagonal().to(weights.weight_h))]
    if "W_out" in arrays and arrays["W_out"].shape[-1:] != weights.weight_h.shape[:1]:
        raise ValueError(f"`W_out` reads {arrays['W_out'].shape[-1]} units, and the network has {len(weights.weight_h)}.")
    if "W_out" in arrays:
        weights.read_out = arrays["W_out"], arrays["b_out"].reshape(-1) if "b_out" in arrays else None
    return weights


def _scaled(arrays: Mapping[str, Tensor], owner: nn.Module | None) -> _Found:
    """Read inputs and outputs times their scales; of low rank M N^T / units, and as much of the outputs."""
    if arrays["wi"].dim() != 2:
        raise ValueError(
            f"`network.wi` has shape {tuple(arrays['wi'].shape)}, not (input, units): weights of supports, as those of a "
            "SupportLowRankRNN, are no units'."
        )
    units = arrays["wi"].shape[-1]
    rank, names = (0, ("wrec",)) if "wrec" in arrays else (arrays["m"].shape[-1], ("m", "n"))
    learns = [any(arrays[name].requires_grad for name in part) for part in (("wi", "si"), names, ("wo", "so"))]
    weight_x, read_out = (arrays["wi"].mT * arrays["si"]), (arrays["wo"] * arrays["so"]).mT / (units if rank else 1)
    weight_h = arrays["m"] @ arrays["n"].mT / units if rank else arrays["wrec"]
    weight_x, weight_h, read_out = (
        part.requires_grad_(learnt) for part, learnt in zip((weight_x, weight_h.detach(), read_out), learns, strict=True)
    )
    weights = _Found(weight_x, weight_h, [], "potentials", batch_first=True, read_out=(read_out, None))
    weights.constraints = [ctrnn.LowRank(rank)] if rank else []
    within = arrays.get("b")
    if within is not None and not checks.holds(within == 0):
        raise ValueError(
            "`network` adds `b` to its units within the recurrence and reads them out without it; no equation here does both."
        )
    words = {_word_of(getattr(owner, name, torch.tanh)) for name in ("non_linearity", "output_non_linearity")}
    word = words.pop()
    if words or word is None:
        raise ValueError(
            f"`network` has a `non_linearity` and an `output_non_linearity` that are not one of "
            f"{', '.join(get_args(Nonlinearity))}, the same for both; give its state_dict with `nonlinearity`, and compare a few "
            "outputs."
        )
    _steps(weights, owner)
    weights.deviation = float(getattr(owner, "noise_std", 0.0))
    weights.nonlinearity, weights.start = word, arrays.get("h0")
    return weights


def _word_of(function: Any) -> Nonlinearity | None:
    """Return the word of the nonlinearity that gives the same numbers: `torch.nn.functional.relu` is not `torch.relu`, nor a
    module."""
    numbers = torch.cat([torch.linspace(-3, 3, 13), torch.tensor([-1e3, -30.0, 30.0, 1e3])])
    try:
        given = function(numbers.clone()).detach()
        words: tuple[Nonlinearity, ...] = get_args(Nonlinearity)
        return next((word for word in words if torch.allclose(given, function_named(word)(numbers), atol=1e-6)), None)
    except Exception:  # the user's code
        return None


def _linear(arrays: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor | None]:
    return arrays[f"{name}.weight"], arrays.get(f"{name}.bias")


def _read_out(arrays: Mapping[str, Tensor], prefix: str, hidden: int) -> tuple[Tensor, Tensor | None] | None:
    """Return the one linear layer beside the network that reads units, all or the first ones."""
    owns = {name.removesuffix(".weight") for name in arrays if name.endswith(".weight")}
    within = {prefix + name for pair in (TUTORIAL, NN4N) for name in pair}
    others = [name for name in sorted(owns - within) if arrays[f"{name}.weight"].dim() == 2]
    if not others:
        return None
    weight, bias = _linear(arrays, others[0])
    if len(others) > 1 or others[0].rpartition(".")[2] not in READ_OUTS or weight.shape[1] > hidden:
        raise ValueError(
            f"`network` has layers that are not known, {', '.join(others)}; a read-out is one of {', '.join(READ_OUTS)}."
        )
    return weight, bias
