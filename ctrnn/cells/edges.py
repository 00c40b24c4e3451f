r"""A candidate with a weight for each edge of a graph and each symbol: s(tau_0jx + sum_i tau_ijx a_i).

x is one-hot, or any vector: the weights are then sum_x x_x tau_x. s is tanh, or an affine change of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.parts import Part, affine
from ctrnn.formulas import Published

__all__ = ["ACTIVATIONS", "GatedCandidate", "Sigmoidal"]


@dataclass(frozen=True)
class Sigmoidal:
    """s(V) = centre + size tanh(V / width), elementwise: tanh, the logistic function, and all affine changes of these."""

    width: float = 1.0
    size: float = 1.0
    centre: float = 0.0

    def __str__(self) -> str:
        return "sigma" if self == ACTIVATIONS["logistic"] else "tanh" if self == ACTIVATIONS["tanh"] else "s"

    def __call__(self, v: Tensor) -> Tensor:
        bent = torch.tanh(v if self.width == 1 else v / self.width)
        return bent if (self.size, self.centre) == (1, 0) else self.centre + self.size * bent

    def slope(self, activity: Tensor) -> Tensor:
        """s'(V), from s(V)."""
        return self.size / self.width * (1 - ((activity - self.centre) / self.size) ** 2)

    def rewritten(self, new: Sigmoidal, weight: Tensor, constant: Tensor) -> tuple[Tensor, Tensor]:
        """Return weight (..., units) and constant (...) for the new activation such that constant + weight a is unchanged."""
        ratio = self.size / new.size
        return ratio * weight, constant + (self.centre - ratio * new.centre) * weight.sum(-1)


ACTIVATIONS = {"tanh": Sigmoidal(), "logistic": Sigmoidal(width=2.0, size=0.5, centre=0.5)}


class GatedCandidate(Part):
    r"""s(sum_x x_x (tau_0jx + sum_i tau_ijx a_i)), over the edges i -> j that there are, a loop at each unit among them.

    Unit 0, always on, is the bias. Of a sparse graph every unit draws its own `edges` in-edges: where units draw out-edges,
    as the paper says, the cost is not bounded by the square of their number (docs/derivations.md, sec. 2, edges).
    Weights start as (69) has them for RNNs: loops 1 - 1/j, constants (u - mean u)/2, u uniform on [0, 1], other weights 0.

    Args:    input_size: symbols; hidden_size: units; edges: into each unit, its loop counted, all if not given;
             activation: "tanh" or "logistic"; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), a (..., hidden) -> (..., hidden). `weight` (input, hidden, edges), `bias` (input, hidden),
             `sources` (hidden, edges): the unit i at the other end of an edge.
    Raises:  ValueError for another activation, or more edges than units.
    Source:  Ollivier 2013, eqs. (10), (11), (13), sec. 2.
    """

    hidden_size: int
    squash: Sigmoidal

    sources: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        edges: int | None = None,
        activation: str = "tanh",
        *,
        bias: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        checks.can_make_weights(dtype, device, generator)
        self.input_size: int = checks.positive_size("input_size", input_size)
        self.hidden_size = n = checks.positive_size("hidden_size", hidden_size)
        self.edges: int = n if edges is None else checks.positive_size("edges", edges)
        if self.edges > n:
            raise ValueError(f"`edges` is {edges}, but a unit hears at most all {n} units, itself among them.")
        self.activation: str = checks.one_of("activation", activation, ACTIVATIONS)
        self.squash = ACTIVATIONS[self.activation]
        self.projected_size: int = (self.edges + checks.is_flag("bias", bias)) * n
        if self.edges == n:
            sources = torch.arange(n, device=device).expand(n, n).contiguous()
        else:
            first = torch.rand(n, n, device=device, generator=generator).fill_diagonal_(2.0)  # the loop is drawn first
            sources = first.topk(self.edges).indices
        self.register_buffer("sources", sources)
        self.weight: nn.Parameter = nn.Parameter(torch.empty(self.input_size, n, self.edges, dtype=dtype, device=device))
        self.bias: nn.Parameter | None = (
            nn.Parameter(torch.empty(self.input_size, n, dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters(generator=generator)

    def reset_parameters(self, frequencies: Tensor | None = None, generator: torch.Generator | None = None) -> None:
        """Initialize the weights, with the frequencies nu (input,) of the symbols in the data, all equal if not given."""
        units = torch.arange(1, self.hidden_size + 1, dtype=self.weight.dtype, device=self.weight.device)
        self.start_(1 - 1 / units, torch.zeros_like(units), torch.full_like(units, 0.5), frequencies, generator)

    @torch.no_grad()
    def start_(
        self,
        loop: Tensor,
        constant: Tensor,
        spread: Tensor,
        frequencies: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """tau_jj = loop, tau_0j = constant + spread (u - sum_y nu_y u_y) of tanh, written for this activation; others 0.

        loop, constant and spread (hidden,); frequencies nu (input,), all symbols alike if not given.
        """
        u = torch.rand(self.weight.shape[:2], dtype=loop.dtype, device=loop.device, generator=generator)
        nu = torch.full_like(u[:, 0], 1 / self.input_size) if frequencies is None else frequencies.to(u)
        weight = torch.zeros_like(self.weight) + torch.where(self.loops, loop[:, None], 0)
        bias = constant + spread * (u - nu @ u)
        self._take(ACTIVATIONS["tanh"], weight, bias)

    @torch.no_grad()
    def rewrite_(self, squash: Sigmoidal) -> None:
        """Change the activation in place, and the weights with it, so that the network computes the same function."""
        if self.bias is None:
            raise ValueError(
                "The network has no `bias`, which would take up the other centre of its activities; make it with bias=True."
            )
        old, self.squash = self.squash, squash
        self._take(old, self.weight, self.bias)

    def _take(self, old: Sigmoidal, weight: Tensor, bias: Tensor) -> None:
        weight, bias = old.rewritten(self.squash, weight, bias)
        stretch = self.squash.width / old.width
        self.weight.copy_(stretch * weight)
        if self.bias is not None:
            self.bias.copy_(stretch * bias)

    @property
    def loops(self) -> Tensor:
        """Return a mask of the edges that are loops: (hidden, edges)."""
        return self.sources == torch.arange(self.hidden_size, device=self.sources.device)[:, None]

    @affine
    def project(self, x: Tensor) -> Tensor:
        weights = x @ self.weight.flatten(1)
        return weights if self.bias is None else torch.cat([weights, x @ self.bias], -1)

    def heard(self, projected: Tensor, activity: Tensor) -> Tensor:
        """tau_0jx + sum_i tau_ijx a_i: (..., projected), (..., hidden) -> (..., hidden)."""
        n, d = self.sources.shape
        weights = projected[..., : n * d].unflatten(-1, (n, d))
        signals = activity.unsqueeze(-2) if d == n else activity[..., self.sources]
        total = (weights * signals).sum(-1)
        return total if self.bias is None else total + projected[..., n * d :]

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.squash(self.heard(projected, h))

    letters: ClassVar[dict[str, str]] = {"W": "weight", "b": "bias"}

    @property
    def formula(self) -> str:
        return f"{self.squash}({self.heard_formula('h')})"

    @property
    def published(self) -> Published:
        return Published("Euler", f"h' = h + dt ({self.formula} - h)")

    def heard_formula(self, activity: str) -> str:
        """Write what units hear of these activities, as a `formula` has it."""
        return f"W(x, {activity})" + (" + b(x)" if self.bias is not None else "")

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, edges={self.edges}, activation={self.activation!r}"
