r"""The contents of the ledger: its sources, in the order of reading, the files of `derivations/texts` they are in, its claims.

A claim is known by a digest of what is displayed of it and of what its statements say to the checker: a ledger in a file is ours
if all of its claims are there as they are known here. `derivations.records` writes the digests, with the verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = ["RECORDS", "SOURCES", "digest", "digests", "recorded"]

RECORDS = Path(__file__).with_name("records.json")

OWN = "this project"
SOURCES: dict[str, tuple[str, ...]] = {
    "tallec-ollivier-2018": ("tallec_ollivier", "tallec_ollivier_gates", "tallec_ollivier_tasks"),
    "tallec-ollivier-2018-summary": ("tallec_ollivier_summary",),
    "huth-2020-lecture-slides": ("lecture",),
    "ohno-kumagai-2021": ("ohno_kumagai", "ohno_kumagai_jacobians", "ohno_kumagai_slow", "ohno_kumagai_experiments"),
    "ollivier-2013-riemannian-metrics-ii": (
        "ollivier_introduction",
        "ollivier_networks",
        "ollivier_algorithm",
        "ollivier_linearized",
        "ollivier_metrics",
        "ollivier_invariance",
        "ollivier_writing_weights",
        "ollivier_unfolded",
        "ollivier_outer_products",
        "ollivier_experiments",
        "ollivier_results",
        "ollivier_sizes_and_times",
        "ollivier_backpropagation",
    ),
    OWN: (
        "own_identities",
        "own_steps",
        "own_step_errors",
        "own_power_steps",
        "own_maps",
        "own_noise",
        "own_slow_directions",
        "own_unit_maps",
        "own_decay",
        "own_networks",
        "own_memory",
        "own_rhythms",
        "own_code",
    ),
}


def digests() -> dict[str, dict[str, str]]:
    """Return the digests of the ledger's claims, by source and label."""
    return {source: {label: known for label, (known, _) in claims.items()} for source, claims in recorded()["claims"].items()}


def recorded() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the records: "claims", pairs of a digest and a verdict by source and label; "made of", digests by chapter."""
    records: dict[str, dict[str, dict[str, Any]]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return records


def digest(claim: Mapping[str, Any]) -> str:
    """Digest a claim as it is in a file of JSON, without the seconds it took and the steps of its proofs, which are checked."""
    said = [{key: part for key, part in statement.items() if key != "steps"} for statement in claim["certificate"]]
    displayed = {key: part for key, part in claim.items() if key != "seconds" and (part or key != "prior_work")}
    kept = {**displayed, "certificate": said}
    return sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:20]
