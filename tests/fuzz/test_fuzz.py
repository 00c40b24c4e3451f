r"""Random cases of everything that gives numbers, each from one integer, against a second reading of the mathematics.

pytest -m slow -s tests/fuzz                                                     seeds from 0 on, for a minute, and counts by area
CTRNN_FUZZ_SEED=7000 CTRNN_FUZZ_SECONDS=3600 pytest -m slow -s tests/fuzz        from 7000 on, for an hour
CTRNN_FUZZ_SEED=7042 CTRNN_FUZZ_SECONDS=0 pytest -m slow -s tests/fuzz -k layers  one case of one area again
"""

import os
import time
from collections import Counter

import pytest
import torch
from fuzz import analyses, batches, events, noise, others, sequences, solves, storage, tables, units
from fuzz.dice import Dice, NoAnswer, compared, noisy

pytestmark = [
    pytest.mark.kernels,
    # Of torch's compiler and exporter about themselves; and warnings are looked at where they are promised.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*"),
]

# The areas, and which share of the time each has.
AREAS = {
    solves.states_of_solves: 4,
    solves.gradients_of_solves: 3,
    solves.engines_of_solves: 4,
    solves.solves_with_writes: 2,
    solves.fixed_steps: 2,
    solves.solved_sequences: 3,
    sequences.sequences_by_engines: 5,
    sequences.sequences_with_writes: 4,
    sequences.sequences_in_parallel: 2,
    sequences.implicit_steps_with_writes: 2,
    noise.noise_of_sequences: 3,
    batches.statistics_of_padded_batches: 3,
    batches.chunks_of_streams: 2,
    events.crowded_events: 2,
    analyses.points_in_other_units: 1,
    analyses.points_beside_wild_neighbours: 1,
    analyses.branches_in_other_units: 1,
    units.units: 3,
    units.neighbours: 2,
    units.drop_in: 1,
    others.half_precision: 1,
    others.ensembles: 2,
    others.layers: 2,
    others.programs_of_torch: 2,
    tables.tables: 1,
    storage.saved_models: 1,
    others.triton_kernels: 2 if os.environ.get("TRITON_INTERPRET") == "1" else 0,
}
# Cheap ones. Engines, layers, programs of torch and Triton take seconds to build.
FIXED = {
    solves.states_of_solves: (2, 5),
    solves.gradients_of_solves: (3,),
    solves.solves_with_writes: (1,),
    solves.fixed_steps: (0, 1),
    solves.solved_sequences: (1,),
    sequences.sequences_with_writes: (2,),
    sequences.sequences_in_parallel: (3,),
    sequences.implicit_steps_with_writes: (0, 1),
    noise.noise_of_sequences: (0, 1, 6),
    batches.statistics_of_padded_batches: (0, 1, 2),
    batches.chunks_of_streams: (0, 1, 2, 3),
    events.crowded_events: (7, 10),
    analyses.points_in_other_units: (0,),
    analyses.points_beside_wild_neighbours: (0,),
    units.units: (0, 2),
    units.neighbours: (0,),
    units.drop_in: (0,),
    others.half_precision: (0, 8),
    others.ensembles: (3,),
    storage.saved_models: (1, 2, 4, 6, 8, 9),
    tables.tables: (1, 2, 7, 14),
}
# One that builds kernels of its own for 2 s, by which other cases of its area go every day; and of areas with many cases some.
SLOW = {
    (solves.states_of_solves, 5),
    *((storage.saved_models, seed) for seed in (2, 4, 6, 8)),
    (tables.tables, 2),
    (tables.tables, 7),
}
SLOW |= {(batches.chunks_of_streams, 1), (batches.chunks_of_streams, 2), (batches.statistics_of_padded_batches, 1)}
MOST_TOLD = 20


def check(area, seed):
    """What a case compared; an AssertionError tells its seed and what was drawn."""
    torch.manual_seed(seed)
    dice = Dice(seed)
    try:
        found = area(dice)
    except NoAnswer:
        return []
    except Exception as error:
        error.add_note(f"{area.__name__}, CTRNN_FUZZ_SEED={seed}: {dice.words}")
        raise
    off = [f"{each.what} off by {each.off:.2g}, allowed {each.allowed:.2g}" for each in found if not each.is_small]
    assert not off, f"{area.__name__}, CTRNN_FUZZ_SEED={seed}: {dice.words}: {'; '.join(off)}"
    return found


@pytest.mark.parametrize(
    ("area", "seed"),
    [
        pytest.param(area, seed, id=f"{area.__name__}-{seed}", marks=[pytest.mark.slow] * ((area, seed) in SLOW))
        for area, seeds in FIXED.items()
        for seed in seeds
    ],
)
def test_a_fixed_case_has_no_number_that_is_off(area, seed):
    assert check(area, seed), "it compares nothing"


@pytest.mark.slow
@pytest.mark.timeout(0)  # CTRNN_FUZZ_SECONDS says how long
@pytest.mark.parametrize("area", [area for area, share in AREAS.items() if share], ids=lambda area: area.__name__)
def test_random_cases(area, capsys):
    first = seed = int(os.environ.get("CTRNN_FUZZ_SEED", "0"))
    end = time.monotonic() + float(os.environ.get("CTRNN_FUZZ_SECONDS", "60")) * AREAS[area] / sum(AREAS.values())
    counts, wrong = Counter(), []
    while seed == first or (time.monotonic() < end and len(wrong) < MOST_TOLD):
        try:
            found = check(area, seed)
            counts["cases"] += 1
            counts["numbers"] += len(found)
            counts["without an answer"] += not found
        except Exception as error:  # what a case raises is as wrong as a number, and the next may be another
            wrong.append("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]))
        seed += 1
    with capsys.disabled():
        print(f"\n{area.__name__}, seeds {first} to {seed - 1}: {dict(counts)}, {len(wrong)} wrong")
    assert not wrong, "\n\n".join(wrong)


def test_what_jumps_is_not_compared_and_what_is_steep_is():
    """A wrong number is told beside a smooth reference, however steep, and not where the reference starts on its edge."""
    start = torch.zeros(3)

    def jumps(noise):
        return {"y": (noisy(start, noise) > 0) * 1.0}

    with pytest.raises(NoAnswer, match="jumps"):
        compared({"y": torch.tensor([0.0, 0.5, 0.0])}, jumps, 1e-9)
    for slope, off, small in ((1.0, 1e-8, False), (1e4, 1e-2, False), (1e4, 1e-8, True)):
        (found,) = compared({"y": start + off}, lambda noise, slope=slope: {"y": slope * noisy(start, noise)}, 1e-9)
        assert found.is_small == small
