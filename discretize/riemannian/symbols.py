r"""A model of symbol sequences: a cell that reads them one-hot, and a softmax of its units before each is read.

pi_t(y) = exp(w_0y + sum_i a_i(t) w_iy) / sum of these over y          log Pr(x) = sum_t chi_t log pi_t(x_t)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ctrnn import GLNNField, Relaxation, TanhCandidate, VectorField, checks
from ctrnn.calls import AnsweredInit
from ctrnn.cells.edges import GatedCandidate
from ctrnn.fields.field import check_field
from ctrnn.fields.noise import check_no_noise
from ctrnn.own_code import computes_as
from discretize.kernels.eligibility import Fused
from discretize.riemannian.network import network_of
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.unroll import unroll
from discretize.steps.euler import Euler
from discretize.steps.step import Step

__all__ = ["SymbolModel", "check_symbols", "log_probability", "mask_like"]

PIECE = 1024  # samples whose weights, one for each edge, are in memory at once


class SymbolModel(AnsweredInit, nn.Module):
    r"""Predicts each symbol from those before it: any field on one-hot symbols, a learned state to start from, a softmax.

    `read_out` has the writing weights w_iy, w_0y as its bias, both 0 until they are learned or `begin` sets them; `start` is
    the state before the first symbol, at first 0, or where a GLNN rests.

    Args:    field: reads as many features as there are symbols; step: by which it reads each one.
    Call:    model(symbols): the logits of pi_t, for each t of what was read before.
    Shape:   symbols (time, batch), whole numbers below `field.input_size` -> (time, batch, symbols).
             `stats`: after a call that went through the step, which "engine" ran, and "engine_why" nothing faster did.
    Raises:  TypeError, ValueError for what is no field, step, or symbol.
    Source:  Ollivier 2013, eqs. (6), (7), (14), (16).
    """

    field: VectorField
    step: Step
    cell: DiscreteCell

    def __init__(self, field: VectorField, step: Step | str = Euler()) -> None:
        super().__init__()
        self.field, self.cell = check_field(field), DiscreteCell(field, step)
        self.step = self.cell.step
        check_no_noise(field, "symbols", "SymbolModel")
        checks.positive_size("input_size", field.input_size)
        settings = {"dtype": field.dtype, "device": field.device}
        self.read_out: nn.Linear = nn.utils.skip_init(nn.Linear, field.hidden_size, field.input_size, **settings)
        for parameter in self.read_out.parameters():
            nn.init.zeros_(parameter)
        self.start: nn.Parameter = nn.Parameter(_resting(field))
        self.stats: dict[str, str | None] = {}

    def forward(self, symbols: Tensor) -> Tensor:
        logits: Tensor = self.read_out(self.activities(symbols))
        return logits

    def activities(self, symbols: Tensor, start: Tensor | None = None, fused: Fused = True) -> Tensor:
        """Return what the read-out reads before each symbol: (time, batch) -> (time, batch, hidden).

        Args:    start: (batch, state), the learned one if not given; fused: as for `unroll`.
        """
        check_symbols(symbols, self.field.input_size)
        if start is None and (found := self._by_kernel(symbols, fused)) is not None:
            return found
        h = self.start.expand(symbols.shape[1], -1) if start is None else start
        states = [h[None]]
        self.stats = {"engine": "steps", "engine_why": "before one symbol nothing is read"}
        for piece in symbols[:-1].split(PIECE) if len(symbols) > 1 else ():  # the last is predicted, and need not be read
            read = unroll(self.cell, one_hot(piece, self.field.input_size).to(h), h, fused)
            self.stats = {key: read.stats[key] for key in self.stats} if len(states) == 1 else self.stats
            states.append(read.hs[1:])
            h = read.hs[-1]
        return self.field.visible(torch.cat(states))

    def _by_kernel(self, symbols: Tensor, fused: Fused) -> Tensor | None:
        """Return the activities where no gradient is wanted, and there is a kernel for whole sequences of symbols."""
        learns = torch.is_grad_enabled() and any(p.requires_grad for p in (self.start, *self.field.parameters()))
        part = self.field.incoming if isinstance(self.field, GLNNField) else getattr(self.field, "candidate", None)
        if learns or type(self.step) is not Euler or getattr(part, "bias", None) is None:
            return None
        network = network_of(self.field, fused)
        return (
            network.activities(symbols, self.start) if network and network.engine(symbols, self.start)[0] == "compiled" else None
        )

    def log_likelihood(self, symbols: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sum chi log pi_t(x_t) over time and batch, in nats; the mask chi (time, batch) is 1 where not given."""
        return log_probability(self(symbols), symbols, mask)

    @torch.no_grad()
    def sample(
        self, length: int, batch: int = 1, generator: torch.Generator | None = None, *, after: Tensor | None = None
    ) -> Tensor:
        r"""Draw sequences from the model: each symbol by pi_t of those before it.

        Args:    length: of what is drawn; batch: sequences, independent of one another; generator: as in torch.nn; after:
                 symbols that were read before, (time, batch), none if not given.
        Shape:   -> (length, batch), whole numbers.
        Raises:  ValueError for a length below 1, and for logits that are not finite.
        """
        checks.positive_size("length", length)
        h = self.start.expand(checks.positive_size("batch", batch), -1)
        for x in () if after is None else self._checked_prompt(after, batch):
            h = self._read(x, h)
        drawn: list[Tensor] = []
        for _ in range(length):
            logits = self.read_out(self.field.visible(h))
            if not checks.holds(logits.isfinite()):
                raise ValueError("The logits of the model are not finite; start again, `model.begin(symbols)`.")
            drawn.append(logits.softmax(-1).multinomial(1, generator=generator)[:, 0])
            h = self._read(drawn[-1], h)
        return torch.stack(drawn)

    def _read(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the state after a symbol of each sequence, (batch,), was read."""
        following: Tensor = self.cell(one_hot(x, self.field.input_size).to(h), h)
        return following

    def _checked_prompt(self, after: Tensor, batch: int) -> Tensor:
        check_symbols(after, self.field.input_size)
        if after.shape[1] != batch:
            raise ValueError(f"`after` has {after.shape[1]} sequences, `batch` is {batch}; they must be equal.")
        return after

    @torch.no_grad()
    def begin(self, symbols: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> None:
        r"""Set weights as before training on these symbols: each predicted by how often it occurs, whatever came before.

        w_0y = log nu_y among those to be predicted, w_iy = 0; weights of GLNNs, GNNs and RNNs are drawn for the frequencies of
        all.

        Source:  Ollivier 2013, eqs. (30)-(33), (69).
        """
        check_symbols(symbols, self.field.input_size)
        counted = one_hot(symbols, self.field.input_size).to(self.read_out.weight)
        predicted = (counted * mask_like(symbols, mask, counted)[..., None]).sum((0, 1))
        floor = torch.finfo(counted.dtype).eps  # (30) has log 0 for symbols never predicted; docs/derivations.md, eq. 30
        self.read_out.bias.copy_((predicted / predicted.sum()).clamp_min(floor).log())
        self.read_out.weight.zero_()
        frequencies = counted.mean((0, 1))
        if computes_as(self.field, GLNNField):
            self.field.reset_parameters(frequencies, generator)
        elif computes_as(self.field, Relaxation) and computes_as(self.field.candidate, GatedCandidate):
            self.field.candidate.reset_parameters(frequencies, generator)
        elif computes_as(self.field, Relaxation) and type(self.field.candidate) is TanhCandidate:
            _begin_plain(self.field.candidate, frequencies, generator)
        self.start.copy_(_resting(self.field))


def log_probability(logits: Tensor, symbols: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum chi log pi(x): logits (time, batch, symbols), symbols (time, batch) -> ()."""
    each = logits.log_softmax(-1).gather(-1, symbols[..., None])[..., 0]
    return (each * mask_like(symbols, mask, each)).sum()


def check_symbols(symbols: Tensor, alphabet: int, name: str = "symbols") -> None:
    checks.is_tensor(name, symbols)
    if symbols.dtype != torch.int64 or symbols.dim() != 2 or not symbols.numel():
        raise ValueError(
            f"`{name}` must be whole numbers (time, batch) in torch.int64, got {symbols.dtype} of shape {tuple(symbols.shape)}; "
            f"for one sequence, `{name}[:, None]`."
        )
    if not checks.holds((symbols >= 0) & (symbols < alphabet)):
        raise ValueError(f"`{name}` must be from 0 to {alphabet - 1}, got {int(symbols.min())} to {int(symbols.max())}.")


def mask_like(symbols: Tensor, mask: Tensor | None, like: Tensor) -> Tensor:
    """Return chi as numbers: (time, batch), 1 for what is to be predicted."""
    if mask is None:
        return torch.ones(symbols.shape, dtype=like.dtype, device=like.device)
    if checks.is_tensor("mask", mask).shape != symbols.shape:
        raise ValueError(f"`mask` has shape {tuple(mask.shape)}, `symbols` {tuple(symbols.shape)}; they must be equal.")
    chi = mask.to(like)
    if not checks.holds((chi == 0) | (chi == 1)) or not checks.holds(chi.sum() > 0):
        raise ValueError("`mask` must be 1 where a symbol is to be predicted, at one at least, and 0 elsewhere.")
    return chi


def _begin_plain(part: TanhCandidate, frequencies: Tensor, generator: torch.Generator | None) -> None:
    """Eq. (69): tau_ii = 1 - 1/i, rho_jy = (u_jy - sum_y' nu_y' u_jy')/2, all others 0."""
    units = torch.arange(1, part.hidden_size + 1, device="cpu").to(part.weight_h)
    u = torch.rand(part.weight_x.shape, dtype=units.dtype, device=units.device, generator=generator)
    part.weight_h.copy_(torch.diag(1 - 1 / units))
    part.weight_x.copy_((u - (u @ frequencies)[:, None]) / 2)
    if part.bias is not None:
        part.bias.zero_()


def _resting(field: VectorField) -> Tensor:
    state = field.resting_state(1) if isinstance(field, GLNNField) else field.initial_state(1)
    return state[0].detach().clone()
