r"""GRU-D lets the last value seen fade to its mean, and the state fade too, by the time since each was seen.

    state  [h, away, since]        between observations  dh/dt = 0, d away/dt = 0, d since/dt = 1
    at one, with m = 1 where a value is seen:
        fade_x = exp(-max(0, w since + b))        x' = m x + (1 - m) (mean + fade_x away)
        fade_h = exp(-max(0, W since + b_h))      h <- GRU([x', m], fade_h h)        away, since <- x - mean, 0 where seen

So the field counts the time, and the jump does the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from discretize.jumps.jump import Jump
from discretize.jumps.rnn import JumpRNN
from discretize.steps.euler import Euler

__all__ = ["Elapsed", "GRUDJump", "gru_d"]


class Elapsed(VectorField):
    r"""Counts the time in the last part of the state [h, away, since]; the rest stands still.

    Args:    values: how many there are to be seen; hidden_size: units of h, which are the visible ones.
    """

    def __init__(self, values: int, hidden_size: int) -> None:
        visible, seen = checks.positive_size("hidden_size", hidden_size), checks.positive_size("values", values)
        super().__init__(0, visible, visible + 2 * seen)
        self.values = values

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(h[..., : -self.values]), torch.ones_like(h[..., -self.values :])], -1)


class GRUDJump(Jump):
    r"""Updates [h, away, since] as GRU-D does, where away is the last value seen less its mean.

    The reset is after the product, as in torch.nn.GRU; the paper's is before it. From a state of 0, what was never seen counts
    as its mean.

    w starts uniform on (0, 1/gap] and b at 0: after a gap a value has kept e^-1 or more of its distance from the mean. Where
    w since + b is not above 0, max(0, .) has no gradient, and what starts there never learns. The authors' public code does, in
    Keras and TensorFlow: all of w, b, W and b_h start at 0 (`decay_initializer='zeros'` of their `GRUDCell`). W and b_h start
    here as in `torch.nn.Linear`, so that about half of the units begin by keeping all of h.

    Args:    input_size: values; hidden_size: units of h; mean: (input,), what values fade to, of the training set say; or 0;
             gap: mean time for which a value is missing, in the units of `ts`: by default 1, a sample where there is no `ts`.
    Source:  Che, Purushotham, Cho, Sontag and Liu 2018, "Recurrent neural networks for multivariate time series with missing
             values", eqs. (10) to (17); how w and b start is this project's.
    """

    input_size: int
    hidden_size: int
    fade_h: nn.Linear
    cell: nn.GRUCell

    mean: Tensor

    def __init__(self, input_size: int, hidden_size: int, mean: Tensor | None = None, gap: float = 1.0) -> None:
        super().__init__()
        self.input_size, self.hidden_size = (
            checks.positive_size("input_size", input_size),
            checks.positive_size("hidden_size", hidden_size),
        )
        self.state_size: int = hidden_size + 2 * input_size
        self.gap: float = checks.positive_number("gap", gap)
        self.fade_h, self.cell = nn.Linear(input_size, hidden_size), nn.GRUCell(2 * input_size, hidden_size)
        w_and_b = torch.stack([(1 - torch.rand(input_size)) / gap, torch.zeros(input_size)])
        self.fade_x: nn.Parameter = nn.Parameter(w_and_b)
        given = torch.zeros(input_size) if mean is None else checks.is_tensor("mean", mean)
        if given.shape != (input_size,) or given.is_complex():
            came = f"{given.dtype} of shape {tuple(given.shape)}"
            raise ValueError(f"`mean` must be ({input_size},) numbers, one for each value, got {came}.")
        checks.is_finite("mean", given)
        self.register_buffer("mean", given.detach().to(self.fade_x, copy=True))

    def forward(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor:
        h, away, since = h.split([self.hidden_size, self.input_size, self.input_size], -1)
        kept = torch.exp(-torch.relu(self.fade_x[0] * since + self.fade_x[1]))
        faded = observed * x + (1 - observed) * (self.mean + kept * away)
        h = self.cell(torch.cat([faded, observed], -1), torch.exp(-torch.relu(self.fade_h(since))) * h)
        return torch.cat([h, torch.where(observed > 0, x - self.mean, away), torch.where(observed > 0, 0.0, since)], -1)


def gru_d(
    input_size: int,
    hidden_size: int,
    mean: Tensor | None = None,
    gap: float = 1.0,
    *,
    batch_first: bool = False,
    dt: float | None = None,
) -> JumpRNN:
    r"""Return GRU-D. Between observations only the time passes, and one Euler step is exact.

    Args:    input_size, hidden_size, mean, gap as for `GRUDJump`; batch_first, dt as for `JumpRNN`.
    Source:  Che, Purushotham, Cho, Sontag and Liu 2018.
    """
    jump = GRUDJump(input_size, hidden_size, mean, gap)
    return JumpRNN(Elapsed(input_size, hidden_size), jump, Euler(), batch_first=batch_first, dt=dt)
