r"""What this project adds around the papers' argument: the chapters of `core`, those identities that no paper prints.

clocks compose; every named field is multiplied by c'; what the Taylor step drops; gates per unit are not one clock;
the GRU and the sigmoid; the half-life of slow forgetting
"""

from __future__ import annotations

from collections.abc import Iterator

from derivations.argument.core import core_identities
from derivations.claim import Entry, Mutation
from derivations.prover.identity import Identity
from derivations.prover.statements import Equal

__all__ = ["entries", "from_identity"]


def entries() -> Iterator[Entry]:
    return (from_identity(identity) for identity in core_identities() if identity.source == "this project")


def from_identity(identity: Identity) -> Entry:
    """The identity as an entry; its mutation doubles the right side."""
    return Entry(
        identity.source, identity.label, identity.statement, (Equal(identity.lhs, identity.rhs, identity.where),),
        identity.assumptions, Mutation("the right side doubled", Equal(identity.lhs, 2 * identity.rhs, identity.where)),
    )  # fmt: skip
