"""Lists the studies by name; each is imported when it is asked for."""

from __future__ import annotations

import json
from pkgutil import resolve_name

from experiments.registry import Registry
from experiments.studies.study import Study
from experiments.usage import UsageError

__all__ = ["OWN", "STUDIES", "check_name", "loaded", "study_named"]

# name: module:class, in the order of `ctrnn study list`.
OWN = {
    "unwarped": "experiments.studies.claims.unwarped:Unwarped",
    "compressed": "experiments.studies.claims.compressed:Compressed",
    "moving-symbols": "experiments.studies.claims.moving:MovingSymbols",
    "compressed-recordings": "experiments.studies.claims.compressed_recordings:CompressedRecordings",
    "gates-beyond-one": "experiments.studies.claims.beyond_one:GatesBeyondOne",
    "tallec-fig1": "experiments.studies.claims.tallec.fig1:TallecFigure1",
    "tallec-fig1-slowest": "experiments.studies.claims.tallec.fig1_slowest:TallecSlowestSymbols",
    "tallec-fig5": "experiments.studies.claims.tallec.fig5:TallecFigure5",
    "tallec-fig3": "experiments.studies.claims.tallec.fig3:TallecFigure3",
    "tallec-fig4": "experiments.studies.claims.tallec.fig4:TallecFigure4",
    "chrono-rates": "experiments.studies.claims.tallec.chrono_rates:ChronoRates",
    "tallec-fig6": "experiments.studies.claims.tallec.fig6:TallecFigure6",
    "tallec-fig7": "experiments.studies.claims.tallec.fig7:TallecFigure7",
    "unknown-times": "experiments.studies.claims.tallec.unknown_times:UnknownTimes",
    "stop-and-go": "experiments.studies.claims.stop_and_go:StopAndGoStudy",
    "learned-clocks": "experiments.studies.claims.learned_clocks:LearnedClocks",
    "warped-memory": "experiments.studies.claims.warped_memory:WarpedMemory",
    "physionet-folds": "experiments.studies.claims.physionet_folds:PhysioNetFolds",
    "physionet-set-a": "experiments.studies.claims.physionet_set_a:PhysioNetSetA",
    "clocks-of-recordings": "experiments.studies.claims.clocks_of_recordings:ClocksOfRecordings",
    "lecture-ablation": "experiments.studies.claims.lecture_ablation:LectureAblation",
    "word-ablation": "experiments.studies.claims.word_ablation:WordAblation",
    "ohno-har": "experiments.studies.claims.ohno.har:OhnoHAR",
    "ohno-har-seeds": "experiments.studies.claims.ohno.seeds:OhnoSeeds",
    "ohno-gradients": "experiments.studies.claims.ohno.gradients:OhnoGradients",
    "ohno-pixels": "experiments.studies.claims.ohno.pixels:OhnoPixels",
    "ohno-instability": "experiments.studies.claims.ohno.instability:OhnoInstability",
    "ollivier-table1": "experiments.studies.claims.ollivier_table1:OllivierTable1",
    "ollivier-counting": "experiments.studies.claims.counting:Counting",
    "ollivier-metrics": "experiments.studies.claims.metrics:Metrics",
    "slow-memory": "experiments.studies.claims.slow_memory:SlowMemory",
    "memory-steps": "experiments.studies.claims.memory.steps:MemoryAndSteps",
    "held-symbols": "experiments.studies.claims.memory.held:HeldSymbols",
    "decay-clocks": "experiments.studies.claims.memory.decay_clocks:DecayClocks",
    "sampling-rates": "experiments.studies.claims.memory.rates:SamplingRates",
    "published-steps": "experiments.studies.claims.published.study:PublishedSteps",
    "ctrnn-steps": "experiments.studies.claims.time_steps.study:TimeSteps",
    "ctrnn-steps-rates": "experiments.studies.claims.time_steps.rates:StepRates",
    "ctrnn-steps-cures": "experiments.studies.claims.time_steps.cures:StepCures",
    "ctrnn-steps-dale": "experiments.studies.claims.time_steps.dale:DaleSteps",
}
STUDIES = Registry("study", "ctrnn.studies", OWN)


def check_name(name: str) -> str:
    """Return where that study is, module:class, without importing it; of one that was added, its name. Raises: UsageError."""
    STUDIES.check(name)
    home = STUDIES[name]
    return home if isinstance(home, str) else name


def study_named(name: str) -> Study:
    """Make the study of that name. Raises: UsageError, with the nearest name."""
    return loaded(check_name(name))


def loaded(address: str) -> Study:
    """Make the study at module:class, perhaps with arguments in JSON behind it, or of that name."""
    place, _, arguments = address.partition(" ")
    study = (STUDIES.named(address) if address in STUDIES else resolve_name(place))(**json.loads(arguments or "{}"))
    if not isinstance(study, Study):
        raise TypeError(f"{address} is no Study.")
    if address in STUDIES and study.name != address:
        raise UsageError(f"the study {address} calls itself {study.name!r}; give it one name, by which its folder is known.")
    return study
