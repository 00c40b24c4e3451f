"""All candidates for solves: this project's, and those of installed peers, which are imported on demand."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.options import absent
from experiments.bench.parts.noise import NoisyCandidate, Weights, torch_loop
from experiments.bench.parts.solves import SolveCandidate, ours
from experiments.bench.session import Session

__all__ = ["OURS", "delay_candidates", "named", "noisy_peers", "of_peer", "solver_candidates"]

OURS = "ours"
SOLVERS = ("torchdiffeq", "torchode", "diffrax")  # the peers that solve


def solver_candidates(session: Session, methods: Sequence[str], kind: str = "held") -> list[SolveCandidate]:
    """Ours by these methods, then those of the peers for this kind; peers that are not installed are skipped."""
    found = [ours(method, fused) for method in methods for fused in (True, False)]
    for peer in SOLVERS:
        if peer in session.peers:
            if why := absent(peer):
                session.skip(peer, why)
            else:
                found += of_peer(peer, kind)
    return found


def of_peer(peer: str, kind: str = "held") -> list[SolveCandidate]:
    """A peer's candidates for "held" inputs; for "stiff" ones those that can take enough steps, and its stiff method if it has
    one; for many "starts" without input."""
    if peer == "torchdiffeq":
        from experiments.bench.peers import torchdiffeq  # noqa: PLC0415

        return torchdiffeq.start_candidates() if kind == "starts" else torchdiffeq.torchdiffeq_candidates()
    if peer == "torchode":
        from experiments.bench.peers import torchode  # noqa: PLC0415

        return torchode.start_candidates() if kind == "starts" else torchode.torchode_candidates()
    from experiments.bench.peers import diffrax  # noqa: PLC0415

    made = {"held": diffrax.diffrax_candidates, "stiff": diffrax.stiff_candidates, "starts": diffrax.start_candidates}
    return made[kind]()


def delay_candidates(session: Session) -> list[SolveCandidate]:
    """Ours, step by step, and a peer's, for a network with a delay."""
    found = [ours(method, False) for method in ("dopri5", "tsit5")]
    if "torchdde" in session.peers:
        if why := absent("torchdde"):
            session.skip("torchdde", why)
        else:
            from experiments.bench.peers import torchdde  # noqa: PLC0415

            found += torchdde.delay_candidates()
    return found


def noisy_peers(session: Session, weights: Weights) -> list[NoisyCandidate]:
    """The candidates of the peers for a network with noise."""
    found: list[NoisyCandidate] = [torch_loop(weights)] if "loop" in session.peers else []
    for peer in ("torchsde", "diffrax"):
        if peer not in session.peers:
            continue
        if why := absent(peer):
            session.skip(peer, why)
        elif peer == "torchsde":
            from experiments.bench.peers import torchsde  # noqa: PLC0415

            found += torchsde.noise_candidates(weights)
        else:
            from experiments.bench.peers import diffrax_noise  # noqa: PLC0415

            found += diffrax_noise.noise_candidates(weights)
    return found


def named(candidates: Sequence[SolveCandidate], *names: str) -> list[SolveCandidate]:
    """The candidates whose names begin so."""
    return [candidate for candidate in candidates if candidate.name.startswith(names)]
