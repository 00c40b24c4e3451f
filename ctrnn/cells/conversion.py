r"""Converts torch.nn's cells to fields and back: the same equation, with a copy of the weights.

torch keeps two biases that add, b_ih + b_hh; a field keeps their sum, the one b of its equation. The GRU's n needs both,
since its reset gate stands between them. torch's z multiplies the old state, the rate is g = 1 - z: all its signs turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn.cells import named
from ctrnn.cells.lstm import LSTMField
from ctrnn.fields.candidates import ReluCandidate, ResetCandidate, TanhCandidate
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.field import VectorField
from ctrnn.fields.noise import check_no_noise
from ctrnn.fields.parts import Affine
from ctrnn.fields.rates import FixedRate, GateRate
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as, nearest, own_code

__all__ = [
    "TorchWeights",
    "check_torchs_own",
    "from_torch",
    "has_own_sizes",
    "nonlinearity_of",
    "to_torch",
    "torch_kind",
    "torch_weights",
]

KINDS = (
    (named.plain, nn.RNNCell, nn.RNN),
    (named.gru, nn.GRUCell, nn.GRU),
    (named.lstm, nn.LSTMCell, nn.LSTM),
)


@torch.no_grad()
def from_torch(module: nn.Module) -> VectorField:
    r"""Return the field whose unit Euler step is the module, on a copy of its weights (same dtype, device, gradients required).

        >>> cell = torch.nn.GRUCell(3, 5)
        >>> field, x, h = ctrnn.from_torch(cell), torch.randn(4, 3), torch.zeros(4, 5)
        >>> cell(x, h).allclose(h + field(x, h), atol=1e-6)
        True

    Args:    module: nn.RNNCell, GRUCell or LSTMCell, or an nn.RNN, GRU or LSTM of one layer and one direction.
    Returns: a plain, gru or lstm field.
    Raises:  TypeError for other modules, subclasses of these that override `forward` or another method, and modules with hooks or
             parametrizations; ValueError for settings that the field does not have.
    Source:  torch.nn's equations; Tallec and Ollivier 2018, eqs. (2), (11)-(15).
    """
    make = next((make for make, *kinds in KINDS if isinstance(module, tuple(kinds))), None)
    if make is None:
        raise TypeError(
            f"`module` must be an RNNCell, GRUCell or LSTMCell, or a one-layer one-direction RNN, GRU or LSTM of torch.nn; "
            f"got {f'the class {module.__name__}' if isinstance(module, type) else type(module).__name__}."
        )
    check_torchs_own(module)
    _check_settings(module)
    weight_x, weight_h, *biases = weights = _parameters(module)
    like: dict[str, Any] = {"dtype": weight_x.dtype, "device": weight_x.device}
    if make is named.plain:
        like["nonlinearity"] = nonlinearity_of(module)
    field = make(module.input_size, module.hidden_size, bias=bool(biases), **like)  # type: ignore[call-overload]
    stacked = _stacked(field)
    for i, (affine, sign) in enumerate(stacked):
        own_x, own_h, *own_biases = (given.chunk(len(stacked))[i] for given in (weight_x, weight_h, *biases))
        affine.weight_x.copy_(sign * own_x)
        affine.weight_h.copy_(sign * own_h)
        if affine.bias is not None:
            inside = _bias_inside(field, affine)
            if inside is not None:
                inside.copy_(own_biases.pop())
            affine.bias.copy_(sign * sum(own_biases[1:], own_biases[0]))
    _freeze(stacked, weights, field)
    return field.train(module.training)


def check_torchs_own(module: nn.Module) -> None:
    r"""Refuse a module that does not compute what its torch class does, whose weights are computed, or whose weights are shared.

    Raises:  TypeError for overridden methods, hooks, parametrizations and shared weights.
    """
    kind: type | None = nearest(module, *(kind for _, *kinds in KINDS for kind in kinds))
    if kind is not None and (own := own_code(module, kind)):
        raise TypeError(
            f"`module` is a {type(module).__name__}, which changes what {kind.__name__} computes by {own}: code is not read, and "
            f"weights alone do not say what it computes. Remove hooks; or give an nn.{kind.__name__} with its weights, by "
            "`load_state_dict`, if that computes the same; or write its equation as a `ctrnn.VectorField`."
        )
    named = dict(module.named_parameters(remove_duplicate=False))
    twice = [name for name, weight in named.items() if sum(weight is other for other in named.values()) > 1]
    if twice:
        raise TypeError(
            f"`module` has one tensor as {' and '.join(f'`{name}`' for name in twice)}, of which copies would be several; give "
            f"each its own, `module.{twice[-1]} = torch.nn.Parameter(module.{twice[-1]}.detach().clone())`."
        )
    if parametrize.is_parametrized(module):
        names = ", ".join(f"`{name}`" for name in module.parametrizations)  # type: ignore[union-attr]
        raise TypeError(
            f"`module` computes {names} by a parametrization, of which a copy of the weights has nothing. Make it permanent, "
            "`torch.nn.utils.parametrize.remove_parametrizations`, and register it on the field."
        )


def nonlinearity_of(module: nn.Module) -> str:
    """Return that of an RNNCell or RNN; the latter computes by its `mode`, whatever its `nonlinearity` was set to later."""
    return module.mode.removeprefix("RNN_").lower() if isinstance(module, nn.RNN) else module.nonlinearity  # type: ignore[return-value]


def _freeze(stacked: list[tuple[Affine, int]], weights: list[Tensor], field: VectorField) -> None:
    """Let the weights of a field require a gradient where torch's do; a sum of two biases where one of them does."""
    of_x, of_h, *biases = (weight.requires_grad for weight in weights)
    for affine, _ in stacked:
        affine.weight_x.requires_grad_(of_x)
        affine.weight_h.requires_grad_(of_h)
        if affine.bias is not None:
            inside = _bias_inside(field, affine)
            affine.bias.requires_grad_(any(biases) if inside is None else biases[0])
            if inside is not None:
                inside.requires_grad_(biases[1])


@torch.no_grad()
def to_torch(field: VectorField) -> nn.RNNCell | nn.GRUCell | nn.LSTMCell:
    r"""Return the torch cell that equals the field's unit Euler step, on a copy of its weights; torch's second bias is zero.

        >>> ctrnn.to_torch(ctrnn.gru(3, 5))
        GRUCell(3, 5)

    Raises:  TypeError for a field that torch has no cell for, or whose weights are computed by parametrizations; ValueError for
             one of which torch would keep in one tensor what learns and what does not.
    Source:  as `from_torch`.
    """
    if isinstance(field, VectorField):
        check_no_noise(field, "torch module", "to_torch")
    if (kind := torch_kind(field)) is None:
        came = f"this one:\n{field}" if isinstance(field, VectorField) else f"{type(field).__name__}, which is no field"
        raise TypeError(f"torch has a cell for plain, gru and lstm fields only, not for {came}")
    if computed := [name for name, part in field.named_modules() if parametrize.is_parametrized(part)]:
        raise TypeError(
            f"`field` computes weights of its `{computed[0]}` by a parametrization, which torch's cell would not have. Make it "
            "permanent, `torch.nn.utils.parametrize.remove_parametrizations`, and register it on the cell."
        )
    stacked = _stacked(field)
    inside = [_bias_inside(field, affine) for affine, _ in stacked]
    # torch's cell has all of its biases or none; those that the field has not are 0.
    has_bias = any(bias is not None for bias in (*inside, *(affine.bias for affine, _ in stacked)))
    like: dict[str, Any] = {"dtype": field.dtype, "device": field.device}
    if kind is nn.RNNCell:
        like["nonlinearity"] = "tanh" if isinstance(field.candidate, TanhCandidate) else "relu"
    cell = kind(field.input_size, field.hidden_size, has_bias, **like)
    for weight, given in zip(_parameters(cell), torch_weights(field), strict=True):
        weight.copy_(given)
    outer: list[Tensor | None] = [affine.bias for affine, _ in stacked]
    halves: list[list[Tensor | None]] = [
        [affine.weight_x for affine, _ in stacked],
        [affine.weight_h for affine, _ in stacked],
        outer,
    ]
    second: list[Tensor | None] = inside if any(bias is not None for bias in inside) else outer
    for weight, learning in zip(_parameters(cell), [*halves, second], strict=False):
        weight.requires_grad_(_learns(learning))
    return cell.train(field.training)


def torch_weights(field: VectorField) -> list[Tensor]:
    """Return weight_ih, weight_hh and, of a field that has biases, bias_ih and bias_hh, as the torch cell that `torch_kind` names
    has them, in torch's order and signs: functions of the field's own weights, which have their gradients."""
    parts = TorchWeights.of(field)
    return parts.joined(parts.has_bias)


class TorchWeights(NamedTuple):
    """Holds what torch's weight_ih, weight_hh, bias_ih and bias_hh are joined of: tensors of a field's with their signs there,
    with zeros for a bias that the field has not. has_bias: whether it has any."""

    parts: list[list[tuple[Tensor, int]]]
    has_bias: bool

    @classmethod
    def of(cls, field: VectorField) -> TorchWeights:
        stacked = _stacked(field)
        outer = [[(getattr(affine, name), sign) for affine, sign in stacked] for name in ("weight_x", "weight_h", "bias")]
        parts = [*outer, [(_bias_inside(field, affine), 1) for affine, _ in stacked]]
        like = stacked[0][0].weight_x
        with torch.inference_mode(False):  # they may be kept for other calls
            zeros = torch.zeros(like.shape[0], dtype=like.dtype, device=like.device)
        filled = [[(zeros if tensor is None else tensor, sign) for tensor, sign in part] for part in parts]
        return cls(filled, any(tensor is not None for part in parts[2:] for tensor, _ in part))

    def joined(self, bias: bool) -> list[Tensor]:
        """Compute torch's weights, with its two biases if it has any."""
        parts = self.parts if bias else self.parts[:2]
        return [
            part[0][0] if len(part) == 1 else torch.cat([tensor if sign > 0 else -tensor for tensor, sign in part])
            for part in parts
        ]


def has_own_sizes(field: VectorField) -> bool:
    """Return whether weights of a field that `torch_kind` names still have the sizes that they were made with. Torch's functions
    for sequences ask for none: they read one that was replaced by its transpose, or by a single row, as if it had them."""
    for affine, _ in _stacked(field):
        rows, inside = affine.projected_size, _bias_inside(field, affine)
        biases = [bias.shape for bias in (affine.bias, inside) if bias is not None]
        if affine.weight_x.shape != (rows, field.input_size) or affine.weight_h.shape != (rows, field.hidden_size):
            return False
        if any(shape != (rows,) for shape in biases):
            return False
    return True


def _learns(parts: list[Tensor | None]) -> bool:
    """Return whether weights learn that torch keeps in one tensor. Raises: ValueError where only some of them do."""
    learn = {part.requires_grad for part in parts if part is not None}
    if len(learn) > 1:
        raise ValueError(
            "`field` has weights that learn, and of the same kind some that do not, which torch keeps in one tensor; freeze the "
            "others too, `requires_grad_(False)`, or let all learn."
        )
    return learn != {False}


def torch_kind(field: VectorField) -> type[nn.RNNCell] | type[nn.GRUCell] | type[nn.LSTMCell] | None:
    """Return the class of torch's cell that is the unit Euler step of a field; None where torch has none."""
    if computes_as(field, LSTMField) and computes_as(field.decay, LinearDecay) and computes_as(field.gates, Affine):
        return nn.LSTMCell
    if computes_as(field, Relaxation) and computes_as(field.decay, LinearDecay):
        candidate, rate = field.candidate, field.rate
        if computes_as(candidate, TanhCandidate, ReluCandidate) and computes_as(rate, FixedRate) and rate.alpha == 1.0:
            return nn.RNNCell
        affine = (candidate.reset, candidate.pull) if computes_as(candidate, ResetCandidate) else ()
        if affine and all(computes_as(part, Affine) for part in affine) and computes_as(rate, GateRate):
            return nn.GRUCell
    return None


def _check_settings(module: nn.Module) -> None:
    layers = "Layers in torch's order, each reading the one below, are sequence modules: `discretize.layers_from_torch`."
    settings: list[tuple[str, Any, str]] = [
        ("num_layers", 1, layers), ("bidirectional", False, layers), ("proj_size", 0, "No field has a projected state."),
    ]  # fmt: skip
    for name, wanted, hint in settings:
        if getattr(module, name, wanted) != wanted:
            came = f"`module` has {name}={getattr(module, name)!r}"
            raise ValueError(f"{came}; a field can be taken from {name}={wanted!r} only. {hint}")


def _parameters(module: nn.Module) -> list[Tensor]:
    """Return weight_ih, weight_hh, and bias_ih and bias_hh if present, of a cell or of a sequence module's first layer."""
    suffix = "" if isinstance(module, nn.RNNCellBase) else "_l0"
    names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if module.bias else ()))
    return [getattr(module, name + suffix) for name in names]


def _stacked(field: VectorField) -> list[tuple[Affine, int]]:
    """Return the affine maps whose rows torch stacks into its weights, in its order, each with its sign there."""
    if isinstance(field, LSTMField):
        return [(field.gates, 1)]
    assert isinstance(field, Relaxation)
    if isinstance(field.candidate, ResetCandidate):
        assert isinstance(field.rate, Affine)
        return [(field.candidate.reset, 1), (field.rate, -1), (field.candidate.pull, 1)]
    assert isinstance(field.candidate, Affine)
    return [(field.candidate, 1)]


def _bias_inside(field: VectorField, affine: Affine) -> Tensor | None:
    """Return the GRU's bias inside the reset gate, torch's b_hn."""
    candidate = getattr(field, "candidate", None)
    return candidate.bias_h if isinstance(candidate, ResetCandidate) and affine is candidate.pull else None
