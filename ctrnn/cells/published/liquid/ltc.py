r"""Liquid time constants: units with a capacitance and a leak, and synapses that open with what they read.

    c dv_i/dt = g (r - v_i) + sum_j w_ji s_ji(u_j) (e_ji - v_i)        s_ji(u) = sigma(a_ji u + b_ji), u all inputs and all v

An open synapse pulls its unit to a potential of its own, e, and makes it faster. c, g and w are the softplus of what is learned.
"""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.cells.published.liquid.synapses import Synapses, positive, uniform
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.rates import SOFTPLUS

__all__ = ["LTCField", "ltc"]


class LTCField(VectorField):
    r"""c dv/dt = g (r - v) + sum w s (e - v), on all units; the first ones are visible, as gain * v + shift.

    Its fused solver is `discretize.steps.FrozenBackwardEuler`, in six steps a sample.

    Args:    from_inputs, from_units: `Synapses` to the same units; hidden_size: how many are visible, all if not given;
             generator: for c, g and r.
    Shape:   x (..., input), v (..., units) -> dv/dt (..., units).
    Raises:  TypeError, ValueError for synapses that do not fit.
    Source:  Hasani et al. 2021, "Liquid time-constant networks", eqs. (1) and (2), as ncps writes and starts them.
    """

    from_inputs: Synapses
    from_units: Synapses
    gain: nn.Parameter
    shift: nn.Parameter

    def __init__(
        self,
        from_inputs: Synapses,
        from_units: Synapses,
        hidden_size: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        for name, given in (("from_inputs", from_inputs), ("from_units", from_units)):
            if not isinstance(given, Synapses):
                raise TypeError(f"`{name}` must be ctrnn.parts.Synapses, got {type(given).__name__}.")
        (inputs, reached), (sources, units) = from_inputs.wiring.shape, from_units.wiring.shape
        if not sources == units == reached:
            raise ValueError(
                f"`from_units` is wired {sources} x {units}, `from_inputs` to {reached} units; all three must be equal."
            )
        super().__init__(inputs, units if hidden_size is None else hidden_size, units)
        checks.is_generator(generator)
        checks.same_settings([("from_inputs", from_inputs), ("from_units", from_units)])
        self.from_inputs, self.from_units = from_inputs, from_units
        like = from_units.wiring[0]
        self.raw_capacitance: nn.Parameter = positive(uniform(like, 0.4, 0.6, generator))
        self.raw_leak: nn.Parameter = positive(uniform(like, 0.001, 1, generator))
        self.rest: nn.Parameter = nn.Parameter(uniform(like, -0.2, 0.2, generator))
        visible = like[: self.hidden_size]
        self.gain, self.shift = nn.Parameter(torch.ones_like(visible)), nn.Parameter(torch.zeros_like(visible))

    def project(self, x: Tensor) -> Tensor:
        return self.from_inputs(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return LTCField.flow_and_leak(self, projected, h)[0]

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return LTCField.flow_and_leak(self, projected, h)[1]

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        driven, conductance = (projected + self.from_units(h)).chunk(2, -1)
        capacitance, own = SOFTPLUS.function(self.raw_capacitance), SOFTPLUS.function(self.raw_leak)
        leak = (own + conductance) / capacitance
        return (own * self.rest + driven) / capacitance - leak * h, leak

    def visible(self, state: Tensor) -> Tensor:
        return self.gain * super().visible(state) + self.shift


@overload
def ltc(
    input_size: int,
    hidden_size: int,
    *,
    dtype: torch.dtype | None = ...,
    device: torch.device | str | None = ...,
    generator: torch.Generator | None = ...,
) -> LTCField: ...
@overload
def ltc(
    input_size: int,
    hidden_size: int,
    *,
    num_layers: int,
    dtype: torch.dtype | None = ...,
    device: torch.device | str | None = ...,
    generator: torch.Generator | None = ...,
) -> LTCField | Stack: ...
def ltc(
    input_size: int,
    hidden_size: int,
    *,
    num_layers: int = 1,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    generator: torch.Generator | None = None,
) -> LTCField | Stack:
    r"""Liquid time constants where everything is wired to everything, two synapses of three to 1 and the others to -1.

    Args:    input_size, hidden_size: features and units; num_layers: above 1, a `Stack` of so many;
             dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Source:  as `LTCField`.
    """
    checks.can_make_weights(dtype, device, generator)
    units = checks.positive_size("hidden_size", hidden_size)

    def drawn(sources: int) -> Synapses:
        wiring = 2 * torch.empty(sources, units, dtype=dtype, device=device).bernoulli_(2 / 3, generator=generator) - 1
        return Synapses(wiring, dtype=dtype, device=device, generator=generator)

    def build(read: int) -> LTCField:
        return LTCField(drawn(read), drawn(units), generator=generator)

    return layered(build, checks.size("input_size", input_size), units, num_layers)
