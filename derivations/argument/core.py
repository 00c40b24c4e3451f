r"""All identities, in the order of the papers' argument, and the check of each of them.

chain rule for clocks -> constant speed, leaky -> learned speed, gated -> Taylor step, GRU, LSTM -> slow forgetting
-> the torch code is those fields
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from time import perf_counter

from derivations.prover.identity import Identity, check
from derivations.prover.verdict import Verdict

__all__ = ["check_all", "core_identities"]

CHAPTERS = ("clocks", "taylor", "leaky", "gated", "gru", "lstm", "power_decay")


def core_identities() -> list[Identity]:
    r"""What the papers say and what this project adds, without the torch code.

    Returns: identities with source, label and statement, in the order of the argument.
    Source:  Tallec and Ollivier 2018, eqs. (2)-(15); Ohno and Kumagai 2021, eqs. (19)-(23); this project.
    """
    return [identity for chapter in CHAPTERS for identity in import_module(f"derivations.argument.{chapter}").identities()]


def check_all(identities: Iterable[Identity] | None = None) -> Iterator[tuple[Identity, Verdict]]:
    r"""Check identities one at a time, each handed out as soon as it is decided.

    The seconds of a verdict include what it took to write its identity down; for the first of the torch code, importing
    torch too.

    Args:    identities: the core identities and the agreement with the torch code if not given.
    Returns: an iterator of (identity, verdict).
    """
    start = perf_counter()
    for identity in _everything() if identities is None else identities:
        verdict = check(identity)
        yield identity, replace(verdict, seconds=perf_counter() - start)
        start = perf_counter()


def _everything() -> Iterator[Identity]:
    for chapter in CHAPTERS:
        yield from import_module(f"derivations.argument.{chapter}").identities()
    yield from import_module("derivations.agreement").agreement_identities()
