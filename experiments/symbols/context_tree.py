r"""Context tree weighting: the mean of all tree sources up to a depth, each learning its frequencies as it reads.

    estimate at a node    P_e: after n symbols there, n_y of them y, the next is y with (n_y + alpha)/(n + alpha A)
    weighted              P_w = P_e at the full depth, else (P_e + product of P_w of the children)/2

A node is the last symbols read, a child of it one symbol more, further back. P_w of the root is the sum over all trees that end
at the depth or before of 2^-(nodes above the full depth) times the product of P_e of their leaves. A node keeps its counts and
the logarithm of the ratio r = P_e / (product of the children): the next symbol's probability at a node is the mean of its own
estimate and its child's, with the weights r/(1 + r) and 1/(1 + r).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from experiments.settings import check_whole
from experiments.symbols.scores import check_symbols

__all__ = ["ContextTree"]


class ContextTree:
    r"""A tree that predicts each symbol and then learns it; it goes on where the last sequence ended.

    Args:    size: A, of the alphabet; depth: the longest context, in symbols; alpha: what is added to each count, 1/2 for
             Krichevsky and Trofimov's estimate. Before the first symbol stands one that is not of the alphabet.
    Raises:  ValueError if `alpha` is not above 0.
    Source:  Willems, Shtarkov and Tjalkens 1995, The context-tree weighting method: basic properties, with nodes of A + 1
             children in place of binary ones. Which variant and depth Ollivier 2013 took is not in print.
    """

    def __init__(self, size: int, depth: int = 8, alpha: float = 0.5) -> None:
        check_whole("size", size)
        check_whole("depth", depth, 0)
        if not alpha > 0:
            raise ValueError(f"`alpha` must be above 0, got {alpha}: else what was never seen has probability 0.")
        self.size, self.depth, self.alpha = size, depth, alpha
        self._past = [size] * depth  # the last first
        self._children: dict[tuple[int, int], int] = {}
        self._counts = np.zeros((8, size), dtype=np.uint32)
        self._log_ratios = np.zeros(8)
        self._nodes = 1

    def read(self, symbols: Tensor) -> Tensor:
        """Predict each symbol, then learn it: (time,) int64 -> log-probabilities (time, A), in nats, float64."""
        check_symbols(symbols, self.size)
        probabilities = np.empty((len(symbols), self.size))
        for t, x in enumerate(symbols.tolist()):
            self._step(x, probabilities[t])
        return torch.from_numpy(np.log(probabilities)).to(symbols.device)

    def _step(self, x: int, probability: np.ndarray) -> None:
        path = self._path()
        counts = self._counts[path].astype(np.float64) + self.alpha
        estimates = counts / counts.sum(-1, keepdims=True)
        log_ratios = self._log_ratios[path[:-1]].tolist()
        own, weights, left = estimates[:, x].tolist(), [], 1.0
        for log_ratio in log_ratios:
            # Both shares from exp of what is not positive: a share of 1e-300 keeps its digits, and nothing overflows.
            small = math.exp(-abs(log_ratio))
            here, deeper = (1.0, small) if log_ratio > 0 else (small, 1.0)
            weights.append((here / (1 + small), deeper / (1 + small)))
        shares = []
        for here, deeper in weights:
            shares.append(left * here)
            left *= deeper
        np.matmul(np.array([*shares, left]), estimates, out=probability)
        self._learn(x, path, own, weights)

    def _learn(self, x: int, path: list[int], own: list[float], weights: list[tuple[float, float]]) -> None:
        below = own[-1]  # P_w of x at the child
        for d in range(self.depth - 1, -1, -1):
            self._log_ratios[path[d]] += math.log(own[d] / below)
            here, deeper = weights[d]
            below = here * own[d] + deeper * below
        self._counts[path, x] += 1
        if self.depth:
            self._past = [x, *self._past[:-1]]

    def _path(self) -> list[int]:
        """The nodes of the last symbols, from the root; those that are new begin empty."""
        path = [0]
        for symbol in self._past:
            node = self._children.setdefault((path[-1], symbol), self._nodes)
            self._nodes += node == self._nodes
            path.append(node)
        if self._nodes > len(self._log_ratios):
            more = max(self._nodes, 2 * len(self._log_ratios)) - len(self._log_ratios)
            self._counts = np.pad(self._counts, ((0, more), (0, 0)))
            self._log_ratios = np.pad(self._log_ratios, (0, more))
        return path
