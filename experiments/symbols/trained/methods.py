r"""The models and ways of training that are compared, by their names in Ollivier 2013, Table 1, and Adam beside them.

    DH, QDH          read-out by the diagonal inverse of the Hessian, quasi-diagonal
    FB, RMS          transitions by the gradient over the symbols' frequencies, over its root mean square
    RUOP, RBPM       by the recurrent metrics, for RNNs their quasi-diagonal reductions QDRUOP, QDRBPM
    Adam             torch's Adam at that rate, the gradient of a mean over symbols, on the gated cell or on torch's cells, as
                     they come; run by `discretize.DiscreteRNN`, which has kernels for long sequences

Of gated, GRU and LSTM each gate and candidate is a set of rows with a metric (`discretize.riemannian.layers`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

import ctrnn
import discretize
from discretize.kernels.price import kernels_at_once
from experiments.seeds import drawing
from experiments.symbols.source import SymbolSequence

__all__ = ["METHODS", "Ascending", "Learner", "Method", "Torch"]

CELLS: dict[str, Callable[..., Any]] = {
    "RNN": ctrnn.plain,
    "GNN": ctrnn.gnn,
    "GLNN": ctrnn.glnn,
    "gated": ctrnn.gated,
    "GRU": ctrnn.gru,
    "LSTM": ctrnn.lstm,
}


def _own(make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    return lambda size, units, **settings: discretize.DiscreteRNN(ctrnn.from_torch(make(size, units, **settings)))


LAYERS: dict[str, Callable[..., nn.Module]] = {
    "RNN": _own(nn.RNNCell),
    "gated": lambda *sizes, **settings: discretize.DiscreteRNN(ctrnn.gated(*sizes, **settings)),
    "GRU": _own(nn.GRUCell),
    "LSTM": _own(nn.LSTMCell),
}
RATES = (0.003, 0.01, 0.03)


class Learner(ABC):
    """A model that is being trained on one sequence."""

    @abstractmethod
    def step(self) -> None:
        """One update, of all weights. Raises: ValueError where log Pr is not finite."""

    @abstractmethod
    def logits(self, symbols: Tensor) -> Tensor:
        """Of each symbol given those before it: (time,) -> (time, A)."""


@dataclass(frozen=True)
class Method:
    """`model`: of CELLS, or of LAYERS by Adam, whose is the `rate`; the rest as `RiemannianAscent` has it."""

    model: str
    metric: str
    reduction: str = "full"
    read_out: str = "quasi"
    rate: float | None = None

    def learner(
        self, size: int, units: int, edges: int, train: SymbolSequence, generator: torch.Generator, damped: bool = True
    ) -> Learner:
        """Of an alphabet of that size; edges: into each unit of GNNs and GLNNs, others have all."""
        if self.rate is not None:
            return Torch(LAYERS[self.model], size, units, train, generator, self.rate)
        return Ascending(self, size, units, edges, train, generator, damped)


class Ascending(Learner):
    """By `discretize.sequences.RiemannianAscent`, in float64."""

    def __init__(
        self,
        method: Method,
        size: int,
        units: int,
        edges: int,
        train: SymbolSequence,
        generator: torch.Generator,
        damped: bool = True,
    ) -> None:
        gated = {"edges": min(edges, units)} if method.model in ("GNN", "GLNN") else {}
        field = CELLS[method.model](size, units, **gated, dtype=torch.float64, generator=generator)
        self.model = discretize.SymbolModel(field)
        self.symbols, self.mask = train.symbols[:, None], train.counts[:, None]
        self.model.begin(self.symbols, self.mask, generator=generator)
        settings, dampening = (method.metric, method.reduction, method.read_out), float(damped)
        self.ascent = discretize.RiemannianAscent(self.model, *settings, dampening=dampening, read_out_dampening=dampening)

    def step(self) -> None:
        self.ascent.step(self.symbols, self.mask)

    @torch.no_grad()
    def logits(self, symbols: Tensor) -> Tensor:
        outputs: Tensor = self.model(symbols[:, None])
        return outputs[:, 0]


class Torch(Learner):
    """A recurrent layer that reads the symbol before, none at first, a linear read-out, and Adam; in float32."""

    def __init__(
        self,
        make: Callable[..., nn.Module],
        size: int,
        units: int,
        train: SymbolSequence,
        generator: torch.Generator,
        rate: float,
    ) -> None:
        with drawing(generator):
            self.layer, self.read_out = make(size, units, dtype=torch.float32), nn.Linear(units, size, dtype=torch.float32)
        self.parameters = [*self.layer.parameters(), *self.read_out.parameters()]
        self.optimizer, self.train = torch.optim.Adam(self.parameters, rate), train

    def step(self) -> None:
        self.optimizer.zero_grad()
        log_probs = self.read(self.train.symbols).log_softmax(-1).gather(-1, self.train.symbols[:, None])[:, 0]
        loss = -log_probs[self.train.counts].mean()
        if not loss.isfinite():
            raise ValueError("The loss is not finite.")
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)  # without which a sequence of 30,000 symbols ends many runs
        self.optimizer.step()

    def read(self, symbols: Tensor) -> Tensor:
        xs = one_hot(symbols, self.read_out.out_features).to(torch.float32)
        before = torch.cat([torch.zeros_like(xs[:1]), xs[:-1]])
        with kernels_at_once():  # after steps by another engine all bits would be others
            logits: Tensor = self.read_out(self.layer(before[:, None])[0])
        return logits[:, 0]

    @torch.no_grad()
    def logits(self, symbols: Tensor) -> Tensor:
        return self.read(symbols).double()


METHODS: dict[str, Method] = {
    "RNN, DH, FB": Method("RNN", "frequency", read_out="diagonal"),
    "RNN, DH, RMS": Method("RNN", "rms", read_out="diagonal"),
    "GNN, DH, FB": Method("GNN", "frequency", read_out="diagonal"),
    "GLNN, DH, FB": Method("GLNN", "frequency", read_out="diagonal"),
    "GLNN, DH, gradient": Method("GLNN", "gradient", read_out="diagonal"),
    "GLNN, DH, RMS": Method("GLNN", "rms", read_out="diagonal"),
    "LSTM, gradient": Method("LSTM", "gradient", read_out="gradient"),
    "LSTM, DH, FB": Method("LSTM", "frequency", read_out="diagonal"),
    **{f"{model}, Adam {rate}": Method(model, "", rate=rate) for model in LAYERS for rate in RATES},
    "RNN, QDH, QDRUOP": Method("RNN", "ruop", "quasi"),
    "RNN, QDH, QDRBPM": Method("RNN", "rbpm", "quasi"),
    "gated, QDH, QDRUOP": Method("gated", "ruop", "quasi"),
    "gated, QDH, RUOP": Method("gated", "ruop"),
    "GRU, QDH, QDRUOP": Method("GRU", "ruop", "quasi"),
    "GRU, QDH, RUOP": Method("GRU", "ruop"),
    "LSTM, QDH, QDRUOP": Method("LSTM", "ruop", "quasi"),
    "LSTM, QDH, RUOP": Method("LSTM", "ruop"),
    "GNN, QDH, RUOP": Method("GNN", "ruop"),
    "GNN, QDH, RBPM": Method("GNN", "rbpm"),
    "GLNN, QDH, RUOP": Method("GLNN", "ruop"),
    "GLNN, QDH, RBPM": Method("GLNN", "rbpm"),
}
