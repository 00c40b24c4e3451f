r"""The contents of the ledger: its sources, in the order of reading, and the files of `derivations/texts` they are in."""

from __future__ import annotations

__all__ = ["SOURCES"]

OWN = "this project"
SOURCES: dict[str, tuple[str, ...]] = {
    "tallec-ollivier-2018": ("tallec_ollivier", "tallec_ollivier_gates", "tallec_ollivier_tasks"),
    "tallec-ollivier-2018-summary": ("tallec_ollivier_summary",),
    "huth-2020-lecture-slides": ("lecture",),
    "ohno-kumagai-2021": ("ohno_kumagai", "ohno_kumagai_slow"),
    "ollivier-2013-riemannian-metrics-ii": (
        "ollivier_introduction",
        "ollivier_networks",
        "ollivier_algorithm",
        "ollivier_linearized",
        "ollivier_metrics",
        "ollivier_invariance",
        "ollivier_unfolded",
        "ollivier_outer_products",
        "ollivier_experiments",
        "ollivier_results",
        "ollivier_backpropagation",
    ),
    OWN: (
        "own_identities",
        "own_steps",
        "own_power_steps",
        "own_maps",
        "own_slow_directions",
        "own_unit_maps",
        "own_decay",
        "own_networks",
        "own_memory",
        "own_rhythms",
        "own_code",
    ),
}
