r"""What this project adds around the papers' argument: the identities of `core` that no paper prints, and closed classes.

clocks compose; every named field is multiplied by c'; what the Taylor step drops; gates per unit are not one clock;
the GRU and the sigmoid; the half-life of slow forgetting

And which named classes of fields contain their own warped fields:

warps         of c' that keeps the gates in (0, 1): gated, with a gate for each unit or one for all, and with |h|^r h; GRU;
              LSTM with h read out of c
rescaling     leaky, and with |h|^r h; GLNN
none          plain; LSTM as a field on [h, c]; a gate with a network of its own
"""

from __future__ import annotations

from collections.abc import Iterator

from derivations.argument.core import core_identities
from derivations.claim import Entry, Equal, Expands, changed
from derivations.closure import NONE, RESCALING, WITHIN_UNIT, Closes
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.prover.identity import Identity
from derivations.prover.statements import Statement
from derivations.twins import fields
from derivations.twins.fields import SymbolicField

__all__ = ["classes", "from_identity"]

GATES = ("c' is a function of the data so far", "a gate may be any function of the data with values in (0, 1)", "c' (rate) < 1")
CONSTANT = ("c' is a constant",)


def unprinted() -> Iterator[Entry]:
    h, t, dt = symbols.signal("h"), symbols.t, symbols.dt
    twice = Expands(h(t + dt), dt, h(t) + dt * h(t).diff(t) + dt**2 / 2 * h(t).diff(t, 2), 3)
    for identity in core_identities():
        if identity.source == own.name:
            yield from_identity(identity, *([twice] if identity.label == "below eq. 3" else []))


def from_identity(identity: Identity, *more: Statement) -> Entry:
    """The identity as an entry; its mutation doubles the right side."""
    return own(identity.label, given=identity.assumptions).says(
        identity.statement,
        Equal(identity.lhs, identity.rhs, identity.where),
        *more,
        mutation=changed("the right side doubled", rhs=2 * identity.rhs),
    )


def classes() -> Iterator[tuple[str, SymbolicField, str, str, tuple[str, ...]]]:
    """Name, field, what it absorbs, in words, under which assumptions."""
    power = fields.power_decay(symbols.r)
    gates = "contains every warped field: its gates become c' g."
    alpha = "contains the fields on clocks of constant speed, alpha becoming c' alpha, and no others."
    yield "plain", fields.plain(), NONE, "contains none of its warped fields: -h stays -h where -c' h is needed.", ()
    yield "leaky", fields.leaky(), RESCALING, alpha, CONSTANT
    yield "leaky, power decay", fields.leaky(decay=power), RESCALING, alpha, (*CONSTANT, "r > 0")
    yield "gated", fields.gated(), WITHIN_UNIT, gates, GATES
    yield "gated, global", fields.gated(gate="global"), WITHIN_UNIT, gates, GATES
    yield "gated, power decay", fields.gated(decay=power), WITHIN_UNIT, gates, (*GATES, "r > 0")
    yield "gated, network", fields.gated(gate="network"), NONE, "contains none: the gate's own network is itself ungated.", ()
    yield "gru", fields.gru(), WITHIN_UNIT, "contains every warped field: z becomes 1 - c' (1 - z).", GATES
    yield "lstm", fields.lstm(), NONE, "(the smooth lift, with rate 1 on h) contains none: -h stays -h.", ()
    yield (
        "lstm, read out",
        fields.lstm_read_out(),
        WITHIN_UNIT,
        "(with h = o tanh(c) at all times) contains every warped field: i becomes c' i and f becomes 1 - c' (1 - f).",
        (*GATES, "the output gate reads x only"),
    )
    yield (
        "glnn",
        fields.glnn(),
        RESCALING,
        "contains the fields on clocks of constant speed, its transition weights being multiplied by c'; other clocks, whatever "
        "they depend on beyond the symbol just read, it does not.",
        CONSTANT,
    )


def closed() -> Iterator[Entry]:
    for name, field, group, words, assumptions in classes():
        other = RESCALING if group == NONE else NONE
        yield own(f"closure, {name}", given=assumptions).says(
            f"The class of {name} fields {words}",
            Closes(field, group),
            mutation=changed(f"{group!r} read as {other!r}", group=other),
        )
