r"""The torch code of every named field, traced, is its source's equation: for all weights, inputs and states; steps for noise."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from derivations.claim import Entry
from derivations.texts.own_identities import from_identity


def traced() -> Iterator[Entry]:
    # Here and not above: this loads torch.
    return map(from_identity, import_module("derivations.agreement").agreement_identities())
