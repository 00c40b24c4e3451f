r"""Training of symbol models by turns: a step of the read-out, then one of the transitions and the start, both uphill.

    theta <- theta + rate M(theta)^-1 d log Pr/d theta          rate halved until log Pr does not fall, then times 1.1

The read-out goes first: with w_iy = 0, as at the start, both metrics of the transitions are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from discretize.kernels.eligibility import Fused, is_fused
from discretize.riemannian.directions import METRICS, READ_OUTS, read_out_direction, transition_direction
from discretize.riemannian.layers import AffineLayers
from discretize.riemannian.natural import NATURAL
from discretize.riemannian.network import Directions, network_of
from discretize.riemannian.rows import BASELINES, REDUCTIONS
from discretize.riemannian.symbols import SymbolModel, check_symbols, log_probability, mask_like
from discretize.steps.euler import Euler

__all__ = ["RiemannianAscent"]

SHARE = 0.01  # of the metric of other sequences
MOST_TRIES = 60  # halvings, after which a rate of 1 is below the rounding


class RiemannianAscent(AnsweredInit, torch.optim.Optimizer):
    r"""Maximizes the log-likelihood of symbol sequences, in metrics that do not depend on how activities are written.

    An optimizer of torch's, with two `param_groups`, read-out and transitions: each has a rate of its own, `lr`, and counts
    `accepted` and `rejected` updates. It backpropagates by itself, and needs no `backward()`.

    Args:    model: a `SymbolModel` with the unit Euler step, of `ctrnn.cells.glnn`, `ctrnn.cells.gnn` or `ctrnn.plain`, or of a
             field all of whose weights are those of `ctrnn.parts.Affine`, as of `ctrnn.gated`, `ctrnn.gru` and `ctrnn.lstm`; of
             any field by the natural metrics;
             metric: of the transitions, "rbpm" (of the first three), "ruop", or for comparison "natural" and
             "recurrent-natural", of all weights together at the cost of a cube, and "gradient", "frequency", "rms";
             reduction: "full", a matrix for each unit and symbol, at a cost quadratic in the edges of a unit; "quasi" and
             "diagonal", linear; read_out: "quasi", "diagonal", "gradient";
             lr: of both at first, 1/hidden if not given;
             dampening: added to the diagonals of the transitions' matrices, read_out_dampening: of the read-out's, times the
             symbols' frequencies. Both are 1 if not given, as in the paper, and with either the trajectory depends on how
             activities are written (docs/derivations.md, sec. 3.6, dampening); with 0 it does not;
             dampened_by: other sequences, such as `torch.randint_like(symbols, high=A)`. Their metric, times `dampening` and for
             the read-out `read_out_dampening`, then 0.01 if not given, is added in place of the diagonals: by "rbpm" and "ruop",
             full or quasi-diagonal, the trajectory is then the same however activities are written, where the matrices have an
             inverse (footnote 11), and by the natural metrics also where they have none;
             fused: take compiled kernels, for 100 symbols or more; CTRNN_FUSED=0 turns them off everywhere, and `stats` says
             after a step which "engine" ran, "compiled" or "steps", and "engine_why" nothing faster did.
    Call:    step(symbols, mask=None) makes an update of either kind, all sequences at once, and returns log Pr after it, in nats.
    Shape:   symbols, mask (time, batch); dampened_by (time, any batch).
    Raises:  TypeError, ValueError for what does not fit; ValueError at the call where log Pr is not finite before the update.
    Source:  Ollivier 2013, section 2.
    """

    model: SymbolModel
    metric: str

    def __init__(
        self,
        model: SymbolModel,
        metric: str = "rbpm",
        reduction: str = "full",
        read_out: str = "quasi",
        *,
        lr: float | None = None,
        dampening: float | None = None,
        read_out_dampening: float | None = None,
        dampened_by: Tensor | None = None,
        fused: Fused = True,
    ) -> None:
        if not isinstance(checks.instance("model", model, SymbolModel).step, Euler):
            raise ValueError(f"`model` must step by discretize.Euler(), of which the moduli are; it has {model.step!r}.")
        self.fused = is_fused("fused", fused)
        network = self.network = network_of(model.field, fused)
        self.model, self.metric = model, checks.one_of("metric", metric, METRICS)
        if metric in NATURAL:
            trained = [*model.field.parameters()]
        else:
            trained = AffineLayers(model.field).parameters if network is None else network.edges.parameters
        if network is None and metric == "rbpm":
            raise ValueError(
                '`metric` "rbpm" is for ctrnn.cells.glnn, ctrnn.cells.gnn and ctrnn.plain; of other fields take "ruop".'
            )
        self.reduction: str = checks.one_of("reduction", reduction, REDUCTIONS)
        self.read_out: str = checks.one_of("read_out", read_out, READ_OUTS)
        usual = 1.0 if dampened_by is None else SHARE
        numbers = {"dampening": dampening, "read_out_dampening": read_out_dampening}
        self.dampening, self.read_out_dampening = (
            usual if given is None else checks.non_negative_number(name, given) for name, given in numbers.items()
        )
        self.dampened_by = dampened_by
        if metric in NATURAL and reduction != "full":
            raise ValueError(f'`reduction` "{reduction}" is of a unit\'s matrix; "{metric}" has one of all weights, "full".')
        if dampened_by is not None:
            check_symbols(dampened_by, model.field.input_size, "dampened_by")
            if dampened_by.device != model.start.device:
                raise ValueError(f"`dampened_by` is on {dampened_by.device}, `model` on {model.start.device}; move one of them.")
            if metric in BASELINES:
                raise ValueError(f'`dampened_by` is of metrics, and `metric` "{metric}" is none; take "rbpm" or "ruop".')
        rate = 1 / model.field.hidden_size if lr is None else checks.positive_number("lr", lr)
        groups: list[dict[str, Any]] = [
            {"params": [*model.read_out.parameters()]},
            {"params": [*trained, model.start]},
        ]
        self.stats: dict[str, str | None] = {}
        super().__init__(groups, {"lr": rate, "accepted": 0, "rejected": 0})

    @torch.no_grad()
    def step(self, symbols: Tensor, mask: Tensor | None = None) -> float:  # type: ignore[override]
        model, (read_out, transitions) = self.model, self.param_groups
        check_symbols(symbols, model.field.input_size)
        if frozen := [name for name, p in model.named_parameters() if not p.requires_grad]:
            raise ValueError(f"`model` has frozen weights, {', '.join(frozen)}, and the ascent moves all of them; unfreeze them.")
        chi, others = mask_like(symbols, mask, model.start), self.dampened_by

        def read(activity: Tensor) -> float:
            return log_probability(model.read_out(activity), symbols, chi).item()

        def run(symbols: Tensor) -> Tensor:
            if self.network is None:
                return model.activities(symbols, fused=self.fused)
            return self.network.activities(symbols, model.start)

        activity = run(symbols)  # which the read-out does not change
        if self.network is None:
            self.stats = model.stats
        else:
            ran = self.network.engine(symbols, model.start, *model.read_out.parameters())
            self.stats = dict(zip(("engine", "engine_why"), ran, strict=True))
        reached = read(activity)
        if not math.isfinite(reached):
            raise ValueError(f"log Pr of `symbols` is {reached} before the update; start again, `model.begin(symbols)`.")
        every = symbols, chi, activity
        if others is not None:
            if len(others) != len(symbols):
                raise ValueError(f"`dampened_by` has {len(others)} times, `symbols` {len(symbols)}; they must be equal.")
            shown = torch.ones_like(others, dtype=chi.dtype)
            every = torch.cat([symbols, others], 1), torch.cat([chi, shown], 1), torch.cat([activity, run(others)], 1)
        beside = 0 if others is None else others.shape[1]
        direction = read_out_direction(model, *every, self.read_out, self.read_out_dampening, beside)
        reached = _controlled(read_out, direction, lambda: read(activity), reached)
        direction = transition_direction(model, *every, self.metric, self.reduction, self.dampening, self.fused, beside)
        return _controlled(transitions, direction, lambda: read(run(symbols)), reached)


def _controlled(group: dict[str, Any], direction: Directions, likelihood: Callable[[], float], before: float) -> float:
    """Move by the group's rate; cancel, halve and try again while log Pr falls; what it is then. Cancelled for good if it always
    falls: at a maximum, to rounding."""
    old = {parameter: parameter.clone() for parameter in direction}
    for _ in range(MOST_TRIES):
        for parameter, move in direction.items():
            parameter.copy_(old[parameter] + group["lr"] * move)
        after = likelihood()
        if before <= after < math.inf:  # which nan, of weights too large for numbers, is not
            group["accepted"] += 1
            group["lr"] *= 1.1 if after > before else 1.0
            return after
        group["rejected"] += 1
        group["lr"] /= 2
    for parameter, value in old.items():
        parameter.copy_(value)
    return before
