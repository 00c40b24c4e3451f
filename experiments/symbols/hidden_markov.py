r"""Hidden Markov models by the Baum-Welch algorithm, many starts at once.

    z_0 ~ initial, z_{t+1} ~ transition[z_t], x_t ~ emission[z_t]

    forward     a_t = p(z_t | x_0 .. x_t), each divided by its sum c_t = p(x_t | x_0 .. x_{t-1})
    backward    b_t = p(x_{t+1} .. | z_t), each divided by its sum; p(z_t | all of x) is a_t b_t divided by its sum
    update      each probability becomes the expected frequency of its event, given x: the likelihood never falls

Time is a loop, so a step costs little more for eight starts than for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.settings import check_whole
from experiments.symbols.scores import check_symbols

__all__ = ["HiddenMarkov", "baum_welch", "random_hidden_markov"]

UNIT = 1e-5  # by how much rows may miss a sum of 1
FLOOR = 1e-12  # share of the uniform law in predictions


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    r"""Several models of the same sizes.

    Shape:   initial (batch, states), transition (batch, states, states), from row to column, emission (batch, states, A); rows
             sum to 1.
    """

    initial: Tensor
    transition: Tensor
    emission: Tensor

    def __post_init__(self) -> None:
        batch, states = self.initial.shape
        for name, shape in (("transition", (batch, states, states)), ("emission", (batch, states, self.emission.shape[-1]))):
            if getattr(self, name).shape != shape:
                raise ValueError(f"`{name}` must be {shape}, got {tuple(getattr(self, name).shape)}.")
        for name in ("initial", "transition", "emission"):
            given = getattr(self, name)
            if not bool((given >= 0).all() & ((given.sum(-1) - 1).abs() < UNIT).all()):
                raise ValueError(f"the rows of `{name}` must be probabilities.")

    @property
    def size(self) -> int:
        """A, of the alphabet."""
        return self.emission.shape[-1]

    def __getitem__(self, k: int) -> HiddenMarkov:
        """One of them, as a batch of one."""
        return HiddenMarkov(self.initial[k][None], self.transition[k][None], self.emission[k][None])

    @torch.no_grad()
    def log_probs(self, symbols: Tensor) -> Tensor:
        """log p(x_t = y | x_0 .. x_{t-1}), in nats, at least log(1e-12/A), so that nothing is impossible: -> (time, batch, A)."""
        uniform = torch.full_like(self.emission, 1 / self.size)
        floored = HiddenMarkov(self.initial, self.transition, torch.lerp(self.emission, uniform, FLOOR))
        filtered, _ = floored._forward(check_symbols(symbols, self.size, least=1))
        predicted = torch.cat([self.initial[None], torch.einsum("tbi,bij->tbj", filtered[:-1], self.transition)])
        return torch.einsum("tbi,biy->tby", predicted, floored.emission).log()

    @torch.no_grad()
    def log_likelihood(self, symbols: Tensor) -> Tensor:
        """log p(x), in nats, -inf of what cannot be: (time,) -> (batch,)."""
        scales = self._forward(check_symbols(symbols, self.size, least=1))[1]
        return scales.nan_to_num(0.0).log().sum((0, 2))  # after a symbol of probability 0 a law is 0/0

    @torch.no_grad()
    def updated(self, symbols: Tensor) -> tuple[HiddenMarkov, Tensor]:
        """The models after one step of Baum and Welch, and log p(x) of those before it, (batch,)."""
        filtered, scales = self._forward(check_symbols(symbols, self.size, least=1))
        if not bool((scales > 0).all()):
            raise ValueError("`symbols` are impossible for some of the models, so there is nothing to learn.")
        backward, shrunk = self._backward(symbols)
        states = filtered * backward
        chance = states.sum(-1, keepdim=True)
        toward = self.emission.movedim(-1, 0)[symbols[1:]] * backward[1:] / (shrunk * chance)[:-1]
        moves = torch.einsum("tbi,tbj->bij", filtered[:-1], toward) * self.transition
        states /= chance
        printed = states.new_zeros(self.size, *self.initial.shape).index_add_(0, symbols, states).movedim(0, -1)
        updated = HiddenMarkov(states[0], _rows(moves, self.transition), _rows(printed, self.emission))
        return updated, scales.log().sum((0, 2))

    def _forward(self, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """p(z_t | x_0 .. x_t), (time, batch, states), and p(x_t | x_0 .. x_{t-1}), (time, batch, 1)."""
        moves = self._moves()
        first = self.initial * self.emission[..., symbols[0]]
        return _laws(first, [moves[x] for x in symbols[1:].tolist()])

    def _backward(self, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """p(x_{t+1} .. | z_t) divided by its sum over the states, (time, batch, states), and by what, (time, batch, 1)."""
        moves = self._moves().mT.contiguous()
        laws, sums = _laws(torch.ones_like(self.initial), [moves[x] for x in reversed(symbols[1:].tolist())])
        return laws.flip(0), sums.flip(0)

    def _moves(self) -> Tensor:
        """p(z_t, x_t | z_{t-1}), (A, batch, states, states)."""
        return self.transition * self.emission.movedim(-1, 0)[:, :, None]


def _laws(first: Tensor, moves: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The rows first, first M_1, first M_1 M_2 .., each divided by its sum before the next, (time, batch, states); the sums."""
    laws = first.new_empty(len(moves) + 1, len(first), 1, first.shape[-1])
    sums = first.new_empty(*laws.shape[:3], 1)
    laws[0] = first[:, None]
    views, totals = laws.unbind(0), sums.unbind(0)  # beforehand: what is left in the loop is three operations
    for t in range(len(views)):
        if t:
            torch.bmm(views[t - 1], moves[t - 1], out=views[t])
        torch.sum(views[t], -1, keepdim=True, out=totals[t])
        views[t].div_(totals[t])
    return laws[:, :, 0], sums[:, :, 0]


def _rows(expected: Tensor, before: Tensor) -> Tensor:
    """Rows that sum to 1; those of states that are never visited stay as they were."""
    # What has died out would go on to shrink into denormal numbers, with which processors are slow.
    expected = torch.where(expected > torch.finfo(expected.dtype).tiny ** 0.5, expected, 0.0)
    total = expected.sum(-1, keepdim=True)
    return torch.where(total > 0, expected / total, before)


def random_hidden_markov(
    symbols: Tensor, size: int, states: int, starts: int = 1, edges: int | None = None, generator: torch.Generator | None = None
) -> HiddenMarkov:
    r"""Draw models from which training starts.

    Args:    symbols: of the training sequence, (time,); size: A; starts: how many models, the batch; edges: how many states may
             follow a state, itself among them and the others drawn, None for all, or where there are fewer.
    Source:  Ollivier 2013, footnote 16: Dirichlet(1/2, ..., 1/2) on the edges from a node, frequencies times uniform numbers for
             the symbols. There are as many edges as symbols. The initial law, not in print, is uniform here.
    """
    check_symbols(symbols, size, least=1)
    check_whole("states", states)
    check_whole("starts", starts)
    if edges is not None:
        check_whole("edges", edges)
    shape, kind = (starts, states, states), torch.float64  # in which the likelihood is seen to rise to the end
    # The square of a normal number is Gamma(1/2), and such numbers divided by their sum are Dirichlet.
    weights = torch.randn(shape, generator=generator, dtype=kind) ** 2
    if edges is not None and edges < states:
        order = torch.rand(shape, generator=generator, dtype=kind)
        order.diagonal(dim1=-2, dim2=-1).fill_(-1)
        weights = weights.scatter(-1, order.argsort(-1)[..., edges:], 0.0)
    frequencies = torch.bincount(symbols, minlength=size).to(kind)
    printed = frequencies * torch.rand(starts, states, size, generator=generator, dtype=kind)
    return HiddenMarkov(torch.full((starts, states), 1 / states, dtype=kind), _normed(weights), _normed(printed))


def _normed(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def baum_welch(models: HiddenMarkov, symbols: Tensor, steps: int = 100, gain: float = 0.0) -> tuple[HiddenMarkov, Tensor]:
    r"""Train all models of a batch.

    Args:    steps: at most; gain: ends when none of the models gains more than that, in nats a step.
    Shape:   symbols (time,) -> the models, and log p(x) before each step, (steps taken, batch).
    """
    check_whole("steps", steps)
    history: list[Tensor] = []
    for _ in range(steps):
        models, likelihood = models.updated(symbols)
        history.append(likelihood)
        if len(history) > 1 and bool((history[-1] - history[-2] <= gain).all()):
            break
    return models, torch.stack(history)
