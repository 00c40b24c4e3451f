"""Settings at the prompt and in files: what is read, and what is refused in which words."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Literal, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.fields import FIELDS, JUMPS, FieldSettings, built_field
from experiments.models.integrators import INTEGRATORS, IntegratorSettings
from experiments.runs.configuration import Configuration, TrainingSettings, configuration, configuration_from_words
from experiments.settings import assignments, described, setting_types, settings_from, words_of
from experiments.tasks.registry import TASKS, task_named
from experiments.usage import UsageError

KINDS = (FieldSettings, IntegratorSettings, TrainingSettings)


@dataclasses.dataclass(frozen=True)
class Sample:
    count: int = 1
    size: float = 1.0
    on: bool = False
    word: Literal["standard", "chrono"] = "standard"
    bound: float | None = None
    sizes: tuple[int, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    name: str = "x"


VALUES = {
    "count": st.integers(),
    "size": st.floats(allow_nan=False, allow_infinity=False),
    "on": st.booleans(),
    "word": st.sampled_from(["standard", "chrono"]),
    "bound": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "sizes": st.tuples() | st.lists(st.integers(), max_size=4).map(tuple),
    "pair": st.tuples(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    "name": st.text("abc-_ .", max_size=5).map(str.strip),
}


@given(st.fixed_dictionaries(VALUES))
def test_what_is_written_is_read_again_at_the_prompt_and_from_a_file(values):
    sample = Sample(**values)
    words = assignments(f"{key}={words_of(value)}" for key, value in values.items())
    assert settings_from(Sample, words, as_text=True) == sample
    assert settings_from(Sample, json.loads(json.dumps(dataclasses.asdict(sample)))) == sample


@given(st.sampled_from(sorted(VALUES)), st.text(max_size=6))
def test_any_text_is_a_value_of_the_type_or_refused_in_words(key, text):
    types = {"count": int, "size": float, "on": bool, "word": str, "bound": (float, type(None)), "sizes": tuple, "pair": tuple}
    try:
        value = getattr(settings_from(Sample, {key: text}, as_text=True), key)
    except UsageError as error:
        said = str(error)
    else:
        assert isinstance(value, types.get(key, str))
        assert not isinstance(value, float) or math.isfinite(value)
        return
    assert said.startswith(f"{key} is ")
    assert said.endswith(f"got {text!r}.")


@given(
    st.sampled_from(sorted(VALUES)), st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
)
def test_any_json_is_a_value_of_the_type_or_refused(key, value):
    try:
        sample = settings_from(Sample, {key: value})
    except UsageError:
        return
    read = getattr(sample, key)
    assert read == (tuple(value) if isinstance(value, list) else value)
    assert type(read) is not int or key == "count"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("steps", "--set takes KEY=VALUE, got 'steps'."),
        ("=5", "--set takes KEY=VALUE, got '=5'."),
        ("stepz=5", "there is no setting 'stepz'; did you mean 'steps'?"),
        ("qqq=5", "there is no setting 'qqq'; there is warping, warp, least"),
        ("steps=1.5", "steps is a whole number, got '1.5'."),
        ("rate=nan", "lr is a number, got 'nan'."),
        ("clip=big", "clip is a number or none, got 'big'."),
        ("steps=none", "steps is a whole number, got 'none'."),
        (
            "init=chron",
            "init is standard or chrono or slow-decay or inverse-gamma or uniform-gates or constant or balanced, got 'chron'.",
        ),
        ("init=chrono", "`init` is chrono, which needs `t_max`"),
        ("hidden=2 init=uniform-gates", "`init` is uniform-gates, from 1/hidden to 1 - 1/hidden, which needs 3 units, got 2."),
    ],
)
def test_wrong_settings_are_refused_in_words(assignment, message):
    with pytest.raises(UsageError) as caught:
        configuration_from_words("recall", "gated", "euler", assignment.split(" "))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recal", "plain", "euler"), "there is no task 'recal'; did you mean 'recall'?"),
        (("recall", "gatd", "euler"), "there is no field 'gatd'; did you mean 'gated'?"),
        (("recall", "gated", "zz"), "there is no integrator 'zz'; there is exact, euler"),
    ],
)
def test_wrong_names_are_refused_in_words(words, message):
    with pytest.raises(UsageError) as caught:
        configuration_from_words(*words)
    assert str(caught.value).startswith(message)


def test_a_setting_that_is_given_twice_is_refused():
    with pytest.raises(UsageError, match="steps twice"):
        assignments(["steps=5", "rate=1", "steps=6"])


@pytest.mark.parametrize(
    ("key", "words"), [("on", "true or false"), ("sizes", "a whole number or several"), ("pair", "a whole number,a number")]
)
def test_what_a_setting_takes_is_said_in_words(key, words):
    with pytest.raises(UsageError, match=words):
        settings_from(Sample, {key: "?"}, as_text=True)


NOTHING = ["steps=0", "batch=-1", "seed=-1", "lr=0", "clip=-1", "hidden=0", "alpha=1", "t_min=1", "t_max=1", "exponent=-1"]
LARGE = ["threads=1025", "hidden=1000001", "batch=1000000000000000000000", "lr=9e37", "clip=1e308", "alpha=1e-320"]
COUNTS = [f"{name}=2147483648" for name in ("steps", "batch", "batches", "evaluate_every", "checkpoint_every", "length")]


@pytest.mark.parametrize("assignment", [*NOTHING, "rtol=0", *LARGE, "alpha=0.9999999999999999", "t_max=1e308", *COUNTS])
def test_numbers_that_train_nothing_or_that_no_machine_holds_are_refused(assignment):
    with pytest.raises(UsageError, match=f"`{assignment.partition('=')[0]}` must be"):
        configuration_from_words("recall", "gated", "euler", [assignment])


def test_the_largest_numbers_are_taken():
    settings = configuration_from_words("recall", "gated", "euler", ["batch=2147483647", "hidden=1000000", "threads=1024"])
    assert [settings.named()[key] for key in ("batch", "hidden", "threads")] == [2**31 - 1, 10**6, 1024]


def test_what_the_field_itself_refuses_is_wrong_usage():
    with pytest.raises(UsageError, match="`alpha` must be strictly between 0 and 1"):
        built_field("leaky", 1, FieldSettings(hidden=2, init="chrono", t_min=1 + 1e-12, t_max=1 + 1e-12))


def test_a_configuration_goes_through_json_and_through_its_own_command(tmp_path):
    ours = configuration_from_words(
        "recall",
        "leaky",
        "exact",
        ["warp=7", "warping=variable", "padded=true", "rate=2.5e-4", "clip=1", "init=chrono", "t_max=9"],
    )
    assert Configuration.from_json(json.loads(json.dumps(ours.to_json()))) == ours
    words = ours.command(tmp_path, resume=True).split()
    assert words[:2] == ["ctrnn", "train"]
    assert words[-1] == "--resume"
    named = {words[k]: words[k + 1] for k in range(2, len(words) - 1) if words[k] in ("--task", "--field", "--integrator")}
    settings = [words[k + 1] for k, word in enumerate(words) if word == "--set"]
    assert configuration_from_words(named["--task"], named["--field"], named["--integrator"], settings) == ours


def test_keywords_and_words_give_the_same_configuration():
    words = configuration_from_words("recall", "gated", "exact", ["warp=20", "hidden=8", "steps=10", "rtol=1e-4", "threads=1"])
    assert configuration("recall", "gated", "exact", warp=20, hidden=8, steps=10, rtol=1e-4, threads=1) == words
    clocked = configuration("clocked-recall", "gated", "exact", clocks=(1, 2.0))
    assert clocked == configuration_from_words("clocked-recall", "gated", "exact", ["clocks=1,2"])
    for keywords, message in [({"warb": 3}, "did you mean 'warp'"), ({"steps": "3"}, "a whole number, got '3'")]:
        with pytest.raises(UsageError, match=message):
            configuration("recall", "gated", "exact", **keywords)


def test_a_run_whose_clock_was_told_is_read_as_one_whose_clock_is_given():
    before = configuration("clocked-recall", "gated", "euler", clock_given=False).to_json()
    before["task_settings"]["told"] = before["task_settings"].pop("clock_given")
    assert not Configuration.from_json(before).task.clock_given


def test_differences_name_the_keys():
    ours = configuration_from_words("recall", "gated", "euler", ["warp=7"])
    theirs = configuration_from_words("recall", "leaky", "euler", ["warp=8", "steps=5"])
    assert ours.differences(theirs) == ["field", "warp", "steps"]
    assert ours.differences(configuration_from_words("adding", "gated", "euler")) == ["task"]
    assert not ours.differences(configuration_from_words("recall", "gated", "euler", ["warp=7"]))


def test_what_is_no_configuration_is_refused():
    good = configuration_from_words("recall", "gated", "euler").to_json()
    wrong = [None, {}, {**good, "more": 1}, {**good, "task": 3}, {**good, "field": "x"}, {**good, "training": {"steps": "5"}}]
    for values in wrong:
        with pytest.raises(UsageError):
            Configuration.from_json(values)


def test_the_help_of_the_command_names_all_fields():
    from experiments.__main__ import train  # noqa: PLC0415

    said = " ".join(train.__doc__.replace(" or ", ", ").split())
    shown, *jumping = get_type_hints(train, include_extras=True)["field"].__metadata__[0].help.split("; ")
    assert shown == ", ".join(FIELDS.own)
    assert jumping == [f"the last {len(JUMPS)} jump at their samples"]
    assert list(FIELDS.own)[-len(JUMPS) :] == list(JUMPS)
    assert [name for name in INTEGRATORS if f" {name}," in said][:3] == ["exact", "euler", "exponential-euler"]


def test_every_setting_has_one_key_and_is_on_the_page():
    # No key belongs to two.
    for name in TASKS:
        keys = [key for kind in (task_named(name), *KINDS) for key in setting_types(kind)]
        assert sorted(keys) == sorted(set(keys))
    # The page names every setting.
    page = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text()
    keys = [key for kind in KINDS for key in setting_types(kind)]
    missing = [name for name in keys if not re.search(rf"[ ,|]{name}[ ,:;]", page)]
    assert not missing, "say in docs/training.md what these are"
    # And the help has words for every one, of tasks too.
    assert [line for kind in (*map(task_named, TASKS), *KINDS) for line in described(kind) if len(line.split()) < 2] == []


def test_a_line_of_the_help_has_the_key_the_default_and_the_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    @dataclasses.dataclass(frozen=True)
    class Base:
        """Has a size.

        Args:    size, width: in units; of
                 two axes.
        Raises:  ValueError: never.
        """

        size: int = 3
        width: float | None = None

    @dataclasses.dataclass(frozen=True)
    class Kind(Base):
        """Has more. Args:    name: of it; width: its own."""

        name: str = "a"

    assert [" ".join(line.split()) for line in described(Kind)] == [
        "size=3 in units; of two axes", "width=none its own", "name=a of it",
    ]  # fmt: skip


@pytest.mark.parametrize(("field", "bias"), [("gated-softplus", math.log(math.expm1(2.0))), ("gated-exponential", math.log(2.0))])
def test_rates_above_1_are_set_where_they_have_no_bound(field, bias):
    model = configuration_from_words("recall", field, "exact", ["init=constant", "alpha=2", "hidden=3"]).untrained_model()
    assert model.field.rate.bias.tolist() == pytest.approx([bias] * 3)
