r"""An LSTM with recurrent batch normalization: a module of torch beside the fields, for it is none.

    i, f, g, o = N_h(Wh h) + N_x(Wx x) + b        c' = sigma(f) c + sigma(i) tanh(g)        h' = sigma(o) tanh(N_c(c') + b_c)

    N(a) = gamma (a - mean)/sqrt(variance + 1e-5)        gamma = 0.1 at the start

Mean and variance are those of a unit over the sequences of a batch, at each time step its own; so the state of a sequence hangs
on the others, and there is no dh/dt = field(x, h): nothing is solved, refined or proved of it. What is evaluated is told the
moving means of the training at the same step, those of the last one beyond. Sequences that have ended count in no mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from experiments.models.fields import FieldSettings, built_field
from experiments.seeds import drawing, generator

__all__ = ["BatchNormLSTM", "BatchNormModel"]

EPSILON = 1e-5
GAMMA = 0.1
NEW = 0.05  # the share of a batch in the moving means

Moments = tuple[Tensor, Tensor]


class StepNorm(nn.Module):
    r"""Normalizes each unit over a batch, and keeps its mean and variance at each time step for what is evaluated.

    Those kept are means over the first batches, then moving ones.

    Shape:   means, variances (steps, units), counts (steps,): as many steps as the longest batch had.
    """

    means: Tensor
    variances: Tensor
    counts: Tensor

    def __init__(self, units: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((units,), GAMMA, dtype=torch.float32))
        self.register_buffer("means", torch.zeros(0, units, dtype=torch.float32))
        self.register_buffer("variances", torch.ones(0, units, dtype=torch.float32))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.float32))

    def all_steps(self, a: Tensor, live: Tensor | None) -> Tensor:
        """Normalize all steps of a batch at once, (steps, batch, units); live (steps, batch, 1): which sequences go on."""
        if self.training:
            seen = moments(a, live)
            self.note(*(each.detach().squeeze(-2) for each in seen))
            return _scaled(a, seen, self.gamma)
        return _scaled(a, self.known(len(a)), self.gamma)

    def by_step(self, steps: int, live: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Return a function that is called with (batch, units) of one step after the other, so many times."""
        if not self.training:
            known = zip(*self.known(steps), strict=True)
            return lambda a: _scaled(a, next(known), self.gamma)
        seen = list[Moments]()

        def normalize(a: Tensor) -> Tensor:
            of = moments(a, None if live is None else live[len(seen)])
            seen.append((of[0].detach()[0], of[1].detach()[0]))
            if len(seen) == steps:
                self.note(*map(torch.stack, zip(*seen, strict=True)))
            return _scaled(a, of, self.gamma)

        return normalize

    @torch.no_grad()
    def note(self, means: Tensor, variances: Tensor) -> None:
        """Take in the moments of a batch, (steps, units) each."""
        new = len(means) - len(self.means)
        if new > 0:
            self.means = torch.cat([self.means, means[-new:]])
            self.variances = torch.cat([self.variances, variances[-new:]])
            self.counts = torch.cat([self.counts, self.counts.new_zeros(new)])
        steps = slice(len(means))
        self.counts[steps] += 1
        share = (1 / self.counts[steps]).clamp(min=NEW)[:, None]
        self.means[steps] += share * (means - self.means[steps])
        self.variances[steps] += share * (variances - self.variances[steps])

    def known(self, steps: int) -> Moments:
        """Return what is kept of so many steps, (steps, 1, units) each, beyond the last that of the last; 0 and 1 at first."""
        if not len(self.means):
            means = self.means.new_zeros(steps, 1, self.means.shape[1])
            return means, torch.ones_like(means)
        at = torch.arange(steps, device=self.means.device).clamp(max=len(self.means) - 1)
        return self.means[at, None], self.variances[at, None]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        for name, buffer in list(self._buffers.items()):
            if buffer is not None and (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, buffer.new_zeros(saved.shape))  # of as many steps as the run had seen
        super()._load_from_state_dict(state_dict, prefix, *others)


def moments(a: Tensor, live: Tensor | None) -> Moments:
    """Compute mean and variance over the sequences that go on, (..., batch, units) -> (..., 1, units)."""
    weights = torch.ones(a.shape[-2], 1, dtype=a.dtype, device=a.device) if live is None else live.to(a)
    count = weights.sum(-2, keepdim=True)
    mean = (a * weights).sum(-2, keepdim=True) / count
    return mean, ((a - mean).square() * weights).sum(-2, keepdim=True) / count


def _scaled(a: Tensor, of: Moments, gamma: Tensor) -> Tensor:
    mean, variance = of
    return (a - mean) * (gamma * torch.rsqrt(variance + EPSILON))


class BatchNormLSTM(nn.Module):
    r"""Reads sequences by an LSTM whose pre-activations and cells are normalized over the batch.

    Args:    input_size, hidden_size: as in torch.nn.
    Call:    states = module(xs, lengths=None): by the batch's own moments after `train()`, by moving ones after `eval()`. A batch
             of one sequence, after `train()`, has no variance, and all that is normalized is 0.
    Shape:   xs (time, batch, input), lengths (batch,) -> h (time, batch, hidden), 0 once all sequences have ended.
    Source:  Cooijmans, Ballas, Laurent, Gulcehre and Courville 2017, Recurrent batch normalization, sec. 3; their text8.py for
             orthogonal weights and the moving means of 0.05. States start at 0; there they are learned.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.stats: dict[str, str] = {}  # no engine of ours
        self.weight_x = nn.Parameter(torch.empty(4 * hidden_size, input_size, dtype=torch.float32))
        self.weight_h = nn.Parameter(torch.empty(4 * hidden_size, hidden_size, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(4 * hidden_size, dtype=torch.float32))
        self.bias_c = nn.Parameter(torch.zeros(hidden_size, dtype=torch.float32))
        for weight in (self.weight_x, self.weight_h):
            nn.init.orthogonal_(weight)
        self.norm_x, self.norm_h = StepNorm(4 * hidden_size), StepNorm(4 * hidden_size)
        self.norm_c = StepNorm(hidden_size)

    def forward(self, xs: Tensor, lengths: Tensor | None = None) -> Tensor:
        time, live = xs.shape[0], None
        if lengths is not None:
            live = (torch.arange(time, device=xs.device)[:, None] < lengths.to(xs.device))[..., None]
            xs, live = (each[: int(lengths.max())] for each in (xs.where(live, 0), live))
        inputs = self.norm_x.all_steps(xs @ self.weight_x.t(), live) + self.bias
        states = self._unrolled(inputs, live)
        return torch.cat([states, states.new_zeros(time - len(xs), *states.shape[1:])])

    def _unrolled(self, inputs: Tensor, live: Tensor | None) -> Tensor:
        h = c = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        norm_h, norm_c = (norm.by_step(len(inputs), live) for norm in (self.norm_h, self.norm_c))
        states = list[Tensor]()
        for of_x in inputs:
            i, f, g, o = (norm_h(h @ self.weight_h.t()) + of_x).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * torch.tanh(norm_c(c) + self.bias_c)
            states.append(h)
        return torch.stack(states)


class BatchNormModel(nn.Module):
    r"""Puts a linear read-out behind a `BatchNormLSTM`; called, trained and loaded like a `discretize.SequenceModel`.

    Args:    settings: the number of units, and how gates start, `init`, as those of the field lstm; seed: of the weights.
    Shape:   xs (time, batch, input), lengths (batch,) -> (time, batch, output_size).
    """

    rnn: Any

    def __init__(self, input_size: int, output_size: int, settings: FieldSettings, seed: int) -> None:
        super().__init__()
        weights = generator(seed, "field")
        with drawing(weights):
            self.rnn = BatchNormLSTM(input_size, settings.hidden)
        start_gates(self.rnn, settings, weights)
        with drawing(generator(seed, "read-out")):
            self.read_out = nn.Linear(settings.hidden, output_size, dtype=torch.float32)
        # Moving means have the steps of a process's own share; sent to the others, they would not fit.
        self._ddp_params_and_buffers_to_ignore = [name for name, _ in self.named_buffers()]

    def forward(self, xs: Tensor, ts: None = None, lengths: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.read_out(self.rnn(xs.to(self.read_out.weight), lengths))
        return outputs


@torch.no_grad()
def start_gates(lstm: BatchNormLSTM, settings: FieldSettings, times: torch.Generator) -> None:
    """Set the biases of input and forget gates as those of the field lstm, where normalized pre-activations have the mean 0."""
    kept = slice(0, 2 * lstm.hidden_size)  # of i and f
    if settings.init == "standard":
        lstm.bias.chunk(4)[1].fill_(1.0)
    else:
        field: Any = built_field("lstm", 1, settings, times)
        lstm.bias[kept] = field.gates.bias[kept]
