r"""Computes forgetting times: how long a field without input remembers, by its biases.

    dh/dt = -rate h          falls to 1/e in 1/rate        sigmoid gate   1/sigma(b) = 1 + e^-b
                                                           the LSTM's c   1/(1 - f) = 1 + e^b_f
    dh/dt = -rate |h|^r h    falls at first as fast as the exponential with 1/(rate |h|^r), then slower: half is left after
                             (2^r - 1)/r times that, 1/e after (e^r - 1)/r times that

It is the field's time, of which the discrete cell makes a little less: a unit Euler step of the rate 1/T keeps 1 - 1/T and
falls to 1/e in 1/log(T/(T - 1)) = T - 1/2 - 1/(12 T) - ... steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.lstm import LSTMField
from ctrnn.cells.network_gate import NetworkGated
from ctrnn.cells.published.adaptive import AdaptiveField
from ctrnn.cells.stack import Stack
from ctrnn.cells.traced_leak import leak_rounding, reads_code, rest_leak
from ctrnn.fields.field import VectorField, check_field
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as

__all__ = ["timescales", "remembered"]


@torch.no_grad()
def timescales(field: VectorField) -> Tensor:
    r"""Return the forgetting time of every unit, in samples: 1/rate at zero input and zero state.

    It is the time to 1/e under dh/dt = -rate h, exactly: 1/sigma(b) for a sigmoid gate, the T of `ctrnn.init.chrono_`. Of
    the LSTM it is 1/(1 - f), that of the cell c; its h has none of its own. A rate for all units gives all the same. Under
    another decay than h it is the time scale of a state of size 1, 1/(rate leak(1)): for |h|^r h that is 1/rate, and the time
    scale of a state of size |h| is |h|^-r of it. For a field of your own it is 1/`leak` at the zero state, or, where it
    declares none, what its code says: dh/dt there less that with a state of 1, products with weights held.

    Args:    field: a `VectorField`.
    Shape:   -> (hidden,); of a `Stack` those of all layers side by side in the order of its state, the top first, whose are
             `field.visible` of them; layer by layer they are [timescales(layer) for layer in field.fields].
    Raises:  TypeError for what is no field, or one that has no leak at rest, as an oscillator's y, or units that act on one
             another by more than products with weights.
    Source:  Tallec and Ollivier 2018, footnote 3 and secs. 1 and 2; this project, results 2 and 5.
    """
    return _timescales(check_field(field))


def remembered(field: VectorField, state: Tensor) -> Tensor:
    """Return the units that `timescales` describes: (..., state) -> (..., hidden).

    Of the LSTM they are c, of adaptive units their thresholds a, of a `Stack` those of each layer.
    """
    if isinstance(field, Stack):
        layers = zip(field.fields, field.states(state), strict=True)
        return torch.cat([remembered(layer, own) for layer, own in layers][::-1], -1)  # type: ignore[arg-type]
    return state[..., field.hidden_size :] if isinstance(field, LSTMField | AdaptiveField) else state[..., : field.hidden_size]


def _timescales(field: VectorField) -> Tensor:
    if computes_as(field, Stack):
        return torch.cat([_timescales(layer) for layer in field.fields][::-1])  # type: ignore[arg-type]
    return 1 / _leak(field).expand(1, field.hidden_size)[0]


def _leak(field: VectorField) -> Tensor:
    state = field.initial_state(1)
    x, h = state.new_zeros(1, field.input_size), state[:, : field.hidden_size]
    if computes_as(field, Relaxation, NetworkGated):
        return field.rate(x, h) * field.decay.leak(torch.ones_like(h))
    if computes_as(field, LSTMField):
        state = torch.cat([h, torch.ones_like(h)], -1)
    traced = reads_code(field)
    leak = remembered(field, rest_leak(field)[None] if traced else field.leak(field.project(x), state))
    least = remembered(field, leak_rounding(field)[None]) if traced else 0.0
    if not checks.holds((leak > least).any() if traced else (leak != 0).any()):
        raise TypeError(
            f"`field` is a {type(field).__name__} whose visible units have no leak at rest, and so no forgetting time."
        )
    return leak
