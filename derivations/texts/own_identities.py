r"""What this project adds around the papers' argument: the chapters of `core`, those identities that no paper prints.

clocks compose; every named field is multiplied by c'; what the Taylor step drops; gates per unit are not one clock;
the GRU and the sigmoid; the half-life of slow forgetting
"""

from __future__ import annotations

from collections.abc import Iterator

from derivations.argument.core import core_identities
from derivations.claim import Entry, Source, changed
from derivations.prover.identity import Identity
from derivations.prover.statements import Equal

__all__ = ["entries", "from_identity"]

own = Source("this project")


def entries() -> Iterator[Entry]:
    return (from_identity(identity) for identity in core_identities() if identity.source == own.name)


def from_identity(identity: Identity) -> Entry:
    """The identity as an entry; its mutation doubles the right side."""
    return own(identity.label, given=identity.assumptions).says(
        identity.statement,
        Equal(identity.lhs, identity.rhs, identity.where),
        mutation=changed("the right side doubled", rhs=2 * identity.rhs),
    )
