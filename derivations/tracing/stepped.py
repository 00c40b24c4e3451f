r"""One step of a field as a module of its own, called with x and h alone, so that it is recorded as the code of a cell is.

DiscreteCell(field, step, dt)        h' = step(field, x, h, dt), the map that a paper prints: a class's `published`
"""

from __future__ import annotations

from torch import Tensor, nn

from ctrnn.fields.dropout import Dropout, masked
from ctrnn.fields.field import VectorField
from ctrnn.own_code import own_code
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep

__all__ = ["SteppedField", "as_map"]


class SteppedField(nn.Module):
    """A field's next state by a step map; with a parameter for its length, what is proved is proved of every length."""

    def __init__(self, field: VectorField, step: Step, dt: float | nn.Parameter) -> None:
        super().__init__()
        self.field, self.step, self.dt = field, step, dt
        self.input_size, self.hidden_size = field.input_size, field.state_size

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        field = masked(self.field, tuple(x.shape[:-1]))
        return self.step.advance(field, field.project(x), h, self.dt)

    def _get_name(self) -> str:
        return f"{type(self.field).__name__} by {self.step!r}"


def as_map(module: nn.Module) -> nn.Module:
    r"""Return the map of a `discretize.DiscreteCell`, without its checks of numbers; any other module as it is.

    Raises:  ValueError for a sequence module, for a cell with code of its own or with hooks, or whose field draws masks of
             dropout, and for steps that draw noise, solve for the next state, or whose code is their equation to rounding alone.
    """
    if isinstance(module, DiscreteRNN):
        raise ValueError("a DiscreteRNN takes many steps; prove one of them, `discretize.DiscreteCell(field, step, dt)`.")
    if not isinstance(module, DiscreteCell):
        return module
    if (own := own_code(module, DiscreteCell)) is not None:
        raise ValueError(f"{type(module).__name__} computes more than its step, by {own}; prove the cell without it.")
    if any(isinstance(part, Dropout) and part.training and (part.p or part.inputs) for part in module.field.modules()):
        raise ValueError("its field draws masks of dropout at each call in training; prove the cell after `cell.eval()`.")
    step, equation = module.step, getattr(module.step, "equation", "")
    why = None
    if isinstance(step, StochasticStep):
        why = "draws noise"
    elif "h'" in equation.partition(" = ")[2]:
        why = "solves for the next state by Newton's method"
    elif "phi" in equation:
        why = (
            "sums a series of (e^z - 1)/z near z = 0, so that its code is its equation to rounding and no more. Compare its "
            "numbers with those of the map; or prove of the equation's solution, in a text for `ctrnn prove`, that it is the "
            "map after the time dt"
        )
    if why is not None:
        raise ValueError(f"nothing can be proved of the code of {step!r}, which {why}.")
    stepped = SteppedField(module.field, step, module.dt)
    stepped.training = module.training  # the field keeps its own
    return stepped
