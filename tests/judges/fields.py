r"""Every cell of the library and each of its variants, solved by `discretize.integrate` and by torchdiffeq at a tight tolerance.

python tests/judges/fields.py            the rows of docs/judges.md, half a minute
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

import ctrnn
import discretize
from ctrnn.cells.catalog import variants

__all__ = ["JUDGES", "TOLERANCE", "apart"]

TOLERANCE = 1e-8
JUDGES = ("torchdiffeq:dopri5", "torchdiffeq:dopri8")


@torch.no_grad()
def apart(field: ctrnn.VectorField, judges: Sequence[str] = JUDGES, samples: int = 25) -> list[float]:
    """Return how far the states of dopri5 here are from those of each judge: the largest of |h - theirs| / (tolerance (1 + |h|))
    at samples that are held, of four sequences."""
    xs = torch.randn(samples, 4, field.input_size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    path, tight = ctrnn.HeldPath(xs), {"rtol": TOLERANCE, "atol": TOLERANCE}
    call = field, path, field.initial_state(4), path.knots
    h = discretize.integrate(*call, **tight).hs
    judged = (discretize.integrate(*call, method=judge, **tight).hs for judge in judges)
    return [float(((h - theirs).abs() / (TOLERANCE * (1 + h.abs()))).max()) for theirs in judged]


def main() -> None:
    for _, label, make in variants():
        field = make(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        cells = " | ".join(f"{off:.2g}" for off in apart(field))
        print(f"| {label} | {field.state_size} | {cells} |".replace("|h|", r"\|h\|"), flush=True)


if __name__ == "__main__":
    main()
