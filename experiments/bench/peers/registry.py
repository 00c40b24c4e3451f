"""All candidates for solves: this project's, and those of installed peers, which are imported on demand."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.peers.names import absent
from experiments.bench.session import Session
from experiments.bench.solves import SolveCandidate, ours

__all__ = ["OURS", "named", "of_peer", "solver_candidates"]

OURS = "ours"
SOLVERS = ("torchdiffeq", "torchode", "diffrax")  # the peers that solve


def solver_candidates(session: Session, methods: Sequence[str], *, stiff: bool = False) -> list[SolveCandidate]:
    """Ours by these methods, then those of the peers; peers that are not installed are skipped."""
    found = [ours(method, fused) for method in methods for fused in (True, False)]
    for peer in SOLVERS:
        if peer in session.peers:
            if why := absent(peer):
                session.skip(peer, why)
            else:
                found += of_peer(peer, stiff)
    return found


def of_peer(peer: str, stiff: bool = False) -> list[SolveCandidate]:
    """A peer's candidates; for stiff problems those that can take enough steps, and its stiff method if it has one."""
    if peer == "torchdiffeq":
        from experiments.bench.peers.torchdiffeq import torchdiffeq_candidates  # noqa: PLC0415

        return torchdiffeq_candidates()
    if peer == "torchode":
        from experiments.bench.peers.torchode import torchode_candidates  # noqa: PLC0415

        return torchode_candidates()
    from experiments.bench.peers.diffrax import diffrax_candidates, stiff_candidates  # noqa: PLC0415

    return stiff_candidates() if stiff else diffrax_candidates()


def named(candidates: Sequence[SolveCandidate], *names: str) -> list[SolveCandidate]:
    """The candidates whose names begin so."""
    return [candidate for candidate in candidates if candidate.name.startswith(names)]
