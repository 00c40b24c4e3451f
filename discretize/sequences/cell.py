"""A field and a step make a discrete cell, called like `torch.nn.RNNCell`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.calls import AnsweredInit, answered, torch_name
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField, check_steppable
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_input, check_same_leading_axes, check_state
from discretize import compat
from discretize.graphs import check_exported
from discretize.methods import checked_method
from discretize.sequences.live import cell_step
from discretize.sequences.overshoot import OvershootWatch
from discretize.solvers.by_torchdiffeq import PREFIX
from discretize.solvers.doubling import StepDoubling
from discretize.steps.euler import Euler
from discretize.steps.step import Step, step_length
from discretize.steps.stochastic import StochasticStep, check_noise

__all__ = ["DiscreteCell", "checked_step", "put_step"]


class DiscreteCell(AnsweredInit, nn.Module):
    r"""h <- step(field, x, h, dt).

        >>> cell = DiscreteCell(ctrnn.gru(2, 8))
        >>> cell(torch.randn(4, 2), torch.zeros(4, 8)).shape
        torch.Size([4, 8])

    Args:    field: a `VectorField`, shared, not copied, or for `unroll` a `DelayedField`; step: a one-step map, or its name;
             dt: > 0, in units of time; allow_overshoot: do not warn of steps that multiply what they should forget by more than
             1, as Euler's with rate times dt above 2; `cell.watch.largest` is the largest rate times dt seen, see overshoot.py
             for the calls that are looked at.
    Call:    cell(x, h=None, dt=None, w=None, z=None). With dt, a number or a length for each sample, this call takes that; w, z:
             increments of the noise, as a `StochasticStep` takes them. Masks of a `ctrnn.parts.Dropout` in the field are drawn at
             each call; `ctrnn.parts.draw_masks` keeps them over many.
    Shape:   x (batch, input) or (input,); h (batch, state) or (state,), zero if not given; dt at the call a number, (batch,)
             or (batch, 1), differentiated if it is a tensor that requires a gradient; w, z
             (batch, channels) -> as h.
    Raises:  TypeError, ValueError for what does not fit, at construction or at the call.
    Source:  Tallec and Ollivier 2018, eqs. (2), (5), (8), (10) with the Euler step and dt = 1.
    """

    field: VectorField
    step: Step
    dt: float

    def __init__(self, field: VectorField, step: Step | str = Euler(), dt: float = 1.0, allow_overshoot: bool = False) -> None:
        super().__init__()
        self.field, self.step, self.dt = check_steppable(field), checked_step(step), checks.positive_number("dt", dt)
        check_noise(field, self.step)
        self.watch: OvershootWatch = OvershootWatch(allow_overshoot)

    @answered
    def forward(
        self,
        x: Tensor,
        h: Tensor | None = None,
        dt: float | Tensor | None = None,
        w: Tensor | None = None,
        z: Tensor | None = None,
    ) -> Tensor:
        if isinstance(self.field, DelayedField):
            raise TypeError(
                "A call of a cell is given one state, and its field reads earlier ones; `discretize.unroll(cell, xs, h0)` and "
                "`DiscreteRNN` keep them."
            )
        x, h = cast_for(self.field, x), cast_for(self.field, h)
        check_input(self.field, x)
        if x.dim() not in (1, 2):
            raise ValueError(f"`x` must be (batch, input) or (input,), got shape {tuple(x.shape)}; use `unroll` for sequences.")
        checks.is_finite("x", x)
        if h is None:
            h = x.new_zeros(*x.shape[:-1], self.field.state_size)
        else:
            check_state(self.field, h)
            check_same_leading_axes(x, h)
            checks.is_finite("h", h)
        if compat.is_exporting():
            check_exported(self.step)
        field = masked(with_computed_weights(self.field), tuple(x.shape[:-1]))
        if isinstance(self.step, StochasticStep):
            field, x = self.step.with_increments(field, x, h, w, z)
        elif w is not None or z is not None:
            raise ValueError(f"`w` and `z` are increments of noise, and {self.step!r} is a step without.")
        return self.following(x, h, self.dt if dt is None else step_length(dt, h), field)

    def live_step(
        self, x: Tensor, state: Tensor | None = None, dt: float | Tensor | None = None, *, reset: Tensor | bool | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Read one sample of a stream: `output, state = cell.live_step(x, state)`, `cell(x, state)` and what is seen of it.

        Arguments are looked at in full at the first call, and whenever something about them or the cell has changed; numbers
        that are not finite then only.

        Args:    x, state, dt: as x, h and dt of a call; reset: True where a sequence begins anew, from 0.
        Shape:   x (batch, input) or (input,); state (batch, state) or (state,); reset (batch,) -> output (batch, hidden) or
                 (hidden,); state.
        Raises:  TypeError, ValueError for what does not fit.
        """
        return cell_step(self, x, state, dt, reset)

    def following(self, x: Tensor, h: Tensor, length: float | Tensor | None = None, field: VectorField | None = None) -> Tensor:
        """One step, without checking the arguments; `field`: the cell's own with its masks drawn, if they are."""
        length = self.dt if length is None else length
        field = masked(with_computed_weights(self.field), tuple(x.shape[:-1])) if field is None else field
        projected = field.project(x)
        following = self.step.advance(field, projected, h, length)
        if self.watch.due(self.step, self.field, length, following):
            self.watch.look_at(self.step, field, projected, h, length)
        return following

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(torch_name(self, name)) from None

    def extra_repr(self) -> str:
        return f"step={self.step!r}, dt={self.dt:g}"


def checked_step(step: Step | str) -> Step:
    """Return the step map that a name means, or an object is; refuse what is none."""
    why = None
    if isinstance(step, str) and step.startswith(PREFIX):
        why = "solves, and takes no single steps; take discretize.ContinuousRNN(method=)."
    method = checked_method(step, "step", why)
    if isinstance(method, StepDoubling) and isinstance(method.step, StochasticStep):
        raise TypeError(f"`step` {method!r} chooses its steps by their noise; take discretize.ContinuousRNN(method=).")
    return method


def put_step(module: nn.Module, step: Step) -> None:
    """Give a module another step: one that is a module itself, as `Zoneout` is, stands in torch's table, and others do not."""
    vars(module).pop("step", None)
    module._modules.pop("step", None)
    module.step = step  # type: ignore[assignment]
