"""The verdict on cures of a step, on records in which all is as claimed, and in which one thing is not."""

import pytest

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.time_steps.cures import AS_TRAINED, BY_EULER, BY_EXACT, CELLS, COMMON, RATE, StepCures
from experiments.studies.results import Results

EULER, NOISY, TRAPEZOID = (cell.step for cell in CELLS)
CLAIMED = {
    (EULER, AS_TRAINED): (0.99, 0.66, 0.97),
    (EULER, BY_EXACT): (0.99, 0.99, 1.0),
    (EULER, BY_EULER): (0.99, 0.7, 0.97),
    (NOISY, AS_TRAINED): (0.99, 0.94, 0.95),
    (TRAPEZOID, AS_TRAINED): (0.99, 0.85, 1.0),
}


def records(seeds=3, without=(), rate=RATE, **changed):
    rows = {key: values for key, values in (CLAIMED | changed.get("values", {})).items() if key[0] not in without}
    return Results(
        {
            "key": f"{step}-{training}-{seed}",
            "point": {"task": "rhythm", "units": "tanh", "step": step, "dt": 0.2, "rate": rate, "seed": seed},
            "measures": {},
            "rows": [{"training": training, "own": own, "exact": exact - seed / 1000, "size": size + seed / 1000}],
        }
        for (step, training), (own, exact, size) in rows.items()
        for seed in range(seeds)
    )


def answers(results):
    return [part.answer for part in StepCures().verdict(results).parts]


def test_all_parts_hold_of_records_as_claimed():
    assert answers(records()) == ["yes"] * 5


@pytest.mark.parametrize(
    ("key", "values", "part"),
    [
        ((TRAPEZOID, AS_TRAINED), (0.99, 0.85, 0.8), 0),
        ((TRAPEZOID, AS_TRAINED), (0.99, 0.985, 1.0), 1),
        ((NOISY, AS_TRAINED), (0.99, 0.7, 0.95), 2),
        ((EULER, BY_EXACT), (0.99, 0.9, 1.0), 3),
        ((EULER, BY_EULER), (0.99, 0.99, 1.0), 4),
    ],
)
def test_each_part_can_fail(key, values, part):
    assert [k for k, answer in enumerate(answers(records(values={key: values}))) if answer == "no"] == [part]


def test_without_the_trapezoid_its_parts_are_undecided_and_the_others_are_judged():
    assert answers(records(without=(TRAPEZOID,))) == ["undecided", "undecided", "yes", "yes", "yes"]


@pytest.mark.parametrize(
    ("key", "values", "part"),
    [
        ((TRAPEZOID, AS_TRAINED), (0.99, 0.85, 0.8), 0),
        ((TRAPEZOID, AS_TRAINED), (0.99, 0.985, 1.0), 1),
        ((NOISY, AS_TRAINED), (0.99, 0.7, 0.95), 2),
        ((EULER, BY_EXACT), (0.99, 0.665, 1.0), 3),
        ((EULER, BY_EULER), (0.99, 0.99, 1.0), 4),
        (None, None, None),
    ],
)
def test_the_same_is_judged_at_the_common_rate_and_whether_exact_steps_raise_what_the_equation_gives(key, values, part):
    common = records(seeds=5, rate=COMMON, values={key: values} if key else {})
    both = Results([*records().records, *common.records])
    assert [k for k, answer in enumerate(answers(both)) if answer != "yes"] == ([] if part is None else [5 + part])
    low = {(EULER, BY_EXACT): (0.3, 0.99, 1.0)}  # Euler's step no longer follows it, and it counts all the same
    both = Results([*records().records, *records(seeds=5, rate=COMMON, values=low).records])
    assert answers(both) == ["yes"] * 10
    assert len(answers(Results([*records().records, *records(seeds=1, rate=COMMON).records]))) == 5


def test_all_seeds_of_eulers_step_come_before_those_of_the_trapezoid():
    points = [point for point in StepCures().points(StepCures.sizes["small"]) if point["rate"] == COMMON]
    assert [point["step"] for point in points] == [EULER] * 5 + [NOISY] * 5 + [TRAPEZOID] * 5


@pytest.mark.parametrize("missing", [{"seeds": 1}, {"without": (NOISY,)}, {"without": (EULER, NOISY, TRAPEZOID)}])
def test_one_seed_or_one_side_decides_nothing(missing):
    with pytest.raises(NotEnoughError, match="two seeds of Euler's step"):
        StepCures().verdict(records(**missing))
