r"""The contents of the ledger: its sources, in the order of reading, and the files of `derivations/texts` they are in."""

from __future__ import annotations

__all__ = ["SOURCES"]

OWN = "this project"
SOURCES: dict[str, tuple[str, ...]] = {
    "tallec-ollivier-2018": ("tallec_ollivier", "tallec_ollivier_gates", "tallec_ollivier_tasks", "tallec_ollivier_appendix"),
    "tallec-ollivier-2018-summary": ("tallec_ollivier_summary",),
    "huth-2020-lecture-slides": ("lecture",),
    "ohno-kumagai-2021": ("ohno_kumagai", "ohno_kumagai_jacobians", "ohno_kumagai_slow", "ohno_kumagai_tables"),
    "ollivier-2013-riemannian-metrics-ii": (
        "ollivier_introduction",
        "ollivier_networks",
        "ollivier_weights",
        "ollivier_algorithm",
        "ollivier_linearized",
        "ollivier_metrics",
        "ollivier_recurrent_metrics",
        "ollivier_invariance",
        "ollivier_unfolded",
        "ollivier_outer_products",
        "ollivier_reparametrization",
        "ollivier_experiments",
        "ollivier_results",
        "ollivier_backpropagation",
    ),
    OWN: (
        "own_identities",
        "own_closure",
        "own_steps",
        "own_accuracy",
        "own_power_steps",
        "own_maps",
        "own_slow_directions",
        "own_power_maps",
        "own_unit_maps",
        "own_flips",
        "own_decay",
        "own_networks",
        "own_memory",
        "own_code",
    ),
}
