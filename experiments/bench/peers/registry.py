"""All candidates of the installed peers, whose modules are imported on demand, by what they can run.

Each module here has `CANDIDATES`: "held", "stiff" and "starts" are solves of held inputs, of those with many steps a sample, and
of an equation without input from many starts; "delays" those of a network with a delay; "noise" sequences of one with noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from experiments.bench.options import absent
from experiments.bench.session import Session

__all__ = ["named", "of_peers"]

SOLVERS = ("torchdiffeq", "torchode", "diffrax")
PEERS_OF = {**dict.fromkeys(("held", "stiff", "starts"), SOLVERS), "delays": ("torchdde",), "noise": ("torchsde", "diffrax")}


def of_peers(session: Session, kind: str, *given: object) -> list[Any]:
    """Make the candidates of this kind; peers that are not installed are skipped."""
    candidates: list[Any] = []
    for peer in PEERS_OF[kind]:
        if peer not in session.peers:
            continue
        if why := absent(peer):
            session.skip(peer, why)
        else:
            candidates += import_module(f"experiments.bench.peers.{peer}").CANDIDATES[kind](*given)
    return candidates


def named(candidates: Sequence[Any], *names: str) -> list[Any]:
    """Return the candidates whose names begin so."""
    return [candidate for candidate in candidates if candidate.name.startswith(names)]
