"""Converts the liquid time constants of ncps to fields: the same equation, with a copy of the weights.

What ncps does to inputs, a x + b, goes into the synapses that read them; its 1e-8 against division by 0 is left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ctrnn.cells.published.liquid.ltc import LTCField
from ctrnn.cells.published.liquid.synapses import Synapses, positive
from ctrnn.own_code import nearest, own_code

__all__ = ["check_ncps_own", "from_ncps", "ncps_kinds"]


@torch.no_grad()
def from_ncps(module: nn.Module) -> LTCField:
    r"""Return the field that an LTC of ncps steps, on a copy of its weights and its wiring (same dtype, device, gradients).

    With `discretize.steps.FrozenBackwardEuler`, in `ode_unfolds` steps a sample, it has the module's states; its visible units
    are the motor neurons, mapped as there.

    Args:    module: ncps.torch.LTCCell or LTC.
    Raises:  ImportError without ncps; TypeError for other modules, and subclasses that override a method; ValueError for weights
             that a constraint of theirs would take away, and for `mixed_memory`.
    Source:  Hasani et al. 2021, as ncps 1.0 has it.
    """
    kinds = ncps_kinds("LTCCell", "LTC")
    if not isinstance(module, kinds):
        hint = "; `discretize.jumps.from_ncps` reads a CfC" if "CfC" in type(module).__name__ else ""
        raise TypeError(f"`module` must be an LTCCell or LTC of ncps.torch, got {type(module).__name__}{hint}.")
    check_ncps_own(module, *kinds)
    if getattr(module, "use_mixed", False):
        raise ValueError(
            "`module` has mixed_memory=True, an LSTM before its cell; a field can be taken from its `rnn_cell` alone."
        )
    cell: Any = getattr(module, "rnn_cell", module)
    check_ncps_own(cell, *kinds)
    inputs, scale, bias = cell.sensory_sparsity_mask, getattr(cell, "input_w", None), getattr(cell, "input_b", None)
    from_inputs = _synapses(cell, "sensory_", inputs.new_ones(len(inputs)) if scale is None else scale, bias)
    field = LTCField(from_inputs, _synapses(cell, "", torch.ones_like(cell.cm), None), cell.motor_size)
    field.raw_capacitance, field.raw_leak = _raw(cell, "cm"), _raw(cell, "gleak")
    field.rest.copy_(cell.vleak).requires_grad_(cell.vleak.requires_grad)
    for own, name in ((field.gain, "output_w"), (field.shift, "output_b")):
        if hasattr(cell, name):
            own.copy_(getattr(cell, name)).requires_grad_(getattr(cell, name).requires_grad)
        else:
            own.requires_grad_(False)
    return field.train(module.training)


def check_ncps_own(module: nn.Module, *kinds: type[nn.Module]) -> None:
    """Refuse a subclass of an ncps class that overrides a method of it. Raises: TypeError."""
    kind = nearest(module, *kinds)
    if kind is not None and (own := own_code(module, kind)):
        raise TypeError(
            f"`module` has a {type(module).__name__}, which changes what ncps' {kind.__name__} computes by {own}: code is not "
            "read; give one of ncps with its weights, by `load_state_dict`, if that computes the same."
        )


def ncps_kinds(*names: str) -> tuple[type[nn.Module], ...]:
    """Import ncps.torch and return its classes."""
    try:
        import ncps.torch  # noqa: PLC0415 - not a requirement
    except ImportError as error:
        raise ImportError("`from_ncps` needs ncps, whose modules it reads: pip install ncps.") from error
    return tuple(getattr(ncps.torch, name) for name in names)


def _synapses(cell: object, kind: str, scale: Tensor, bias: Tensor | None) -> Synapses:
    """Rewrite sigma(s (a u + b - m)) as sigma((s a) u + s (b - m))."""
    mask, slope, centre, potential = (getattr(cell, kind + name) for name in ("sparsity_mask", "sigma", "mu", "erev"))
    synapses = Synapses(mask * torch.where(potential < 0, -1, 1), dtype=slope.dtype, device=slope.device)
    synapses.slope.copy_(slope * scale[:, None]).requires_grad_(slope.requires_grad or scale.requires_grad)
    synapses.offset.copy_(slope * ((0 if bias is None else bias[:, None]) - centre))
    synapses.offset.requires_grad_(any(one is not None and one.requires_grad for one in (slope, centre, bias)))
    synapses.potential.copy_(potential).requires_grad_(potential.requires_grad)
    synapses.raw_weight = _raw(cell, kind + "w", mask)
    return synapses


def _raw(cell: Any, name: str, mask: Tensor | None = None) -> nn.Parameter:
    """Return the arguments of softplus that give the cell's values: its own parameter, where it applies softplus itself."""
    values = getattr(cell, name)
    if cell._implicit_param_constraints:
        return nn.Parameter(values.detach().clone(), values.requires_grad)
    if bool(((values if mask is None else values * mask) < 0).any()) or (name == "cm" and bool((values == 0).any())):
        raise ValueError(f"`module` has a `{name}` that is not positive; call its `apply_weight_constraints()` as ncps asks.")
    raw = positive(values.detach())
    raw.requires_grad_(values.requires_grad)
    return raw
