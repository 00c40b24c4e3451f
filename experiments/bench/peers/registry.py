"""Every way to solve, by whose it is: ours, and those of the peers that are here. A peer is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.bench.peers.names import absent
from experiments.bench.solves import Candidate, ours

__all__ = ["OURS", "SOLVERS", "named", "of_peer", "solver_candidates"]

OURS = "ours"
SOLVERS = ("torchdiffeq", "torchode", "diffrax")  # the peers that solve

Skip = Callable[[str, str], None]


def solver_candidates(peers: Sequence[str], methods: Sequence[str], skip: Skip, *, stiff: bool = False) -> list[Candidate]:
    """Ours by these methods, then those of the peers; a word for peers that are not installed."""
    found = [ours(method, fused) for method in methods for fused in (True, False)]
    for peer in SOLVERS:
        if peer in peers:
            why = absent(peer)
            if why is None:
                found += of_peer(peer, stiff)
            else:
                skip(peer, why)
    return found


def of_peer(peer: str, stiff: bool = False) -> list[Candidate]:
    """All of that peer's; for stiff problems those that can take enough steps, and its stiff method if it has one."""
    if peer == "torchdiffeq":
        from experiments.bench.peers.torchdiffeq import torchdiffeq_candidates  # noqa: PLC0415

        return torchdiffeq_candidates()
    if peer == "torchode":
        from experiments.bench.peers.torchode import torchode_candidates  # noqa: PLC0415

        return torchode_candidates()
    from experiments.bench.peers.diffrax import diffrax_candidates, stiff_candidates  # noqa: PLC0415

    return stiff_candidates() if stiff else diffrax_candidates()


def named(candidates: Sequence[Candidate], *names: str) -> list[Candidate]:
    """Those whose names begin like this."""
    return [candidate for candidate in candidates if candidate.name.startswith(names)]
