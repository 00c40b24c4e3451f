r"""The contents of the ledger: its sources, in the order of reading, and the files of `derivations/texts` they are in."""

from __future__ import annotations

__all__ = ["SOURCES"]

OWN = "this project"
SOURCES: dict[str, tuple[str, ...]] = {
    "huth-2020-lecture-slides": ("lecture",),
    OWN: (
        "own_identities",
        "own_closure",
        "own_steps",
        "own_accuracy",
        "own_power_steps",
        "own_memory",
        "own_code",
    ),
}
