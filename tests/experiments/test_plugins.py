"""Tasks, fields and studies of the user's: from a file, from an installed package, and as objects where names are."""

import json
import sys

import pytest
import torch

import ctrnn
import discretize
from experiments.__main__ import main
from experiments.models.fields import FIELDS, FieldSettings, built_field
from experiments.plugins import use
from experiments.registry import Registry
from experiments.runs.command import swept
from experiments.runs.configuration import Configuration, configuration, configuration_from_words
from experiments.runs.folder import load
from experiments.seeds import generator
from experiments.studies.registry import STUDIES
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError

FILE = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar
import torch
import ctrnn
from experiments.runs.configuration import configuration
from experiments.studies.study import SCALES, Sizes, Study, grid
from experiments.studies.verdicts import Part, Verdict
from experiments.tasks.task import Batch, ClassAtEverySample

@dataclass(frozen=True)
class OddOnes(ClassAtEverySample):
    """Whether the ones so far are even or odd."""
    length: int = 6
    input_size = 1
    output_size = 2

    def drawn(self, size, generator, split):
        bits = torch.randint(2, (self.length, size, 1), generator=generator)
        return Batch(bits.to(torch.get_default_dtype()), bits[..., 0].cumsum(0) % 2)

class Drawn(ctrnn.VectorField):
    """Takes no keywords, and draws its weights from torch's own generator."""
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.weight = torch.nn.Parameter(torch.randn(hidden_size, input_size))

    def flow(self, projected, h):
        return projected @ self.weight.T - h

class OddOnesStudy(Study):
    name, question, claim, source = "odd-ones-study", "Odd?", "It is.", "Nobody."
    minutes: ClassVar = dict.fromkeys(SCALES, 0.0)
    sizes: ClassVar = dict.fromkeys(SCALES, Sizes(steps=2, seeds=1))

    def points(self, sizes):
        return grid(field=["drawn"], seed=range(sizes.seeds))

    def configuration(self, point, sizes):
        return configuration("odd-ones", point["field"], "euler", seed=point["seed"], steps=2, evaluation=4, batch=2, hidden=2)

    def verdict(self, results):
        return Verdict([Part("it is", True)])

TASKS, FIELDS, STUDIES = {"odd-ones": OddOnes}, {"drawn": Drawn}, {"odd-ones-study": OddOnesStudy}
'''
SMALL = ["--set", "steps=3", "batch=2", "evaluation=4", "hidden=2"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return str(path)


def train(file, out, *more):
    return main(["train", "--task", "odd-ones", "--field", "drawn", "--integrator", "euler", "--out", str(out), "--plugin", file,
                 *SMALL, *more])  # fmt: skip


def test_a_task_and_a_field_of_a_file_are_trained_and_gone_on_with(tmp_path, file, capsys):
    assert train(file, tmp_path / "run", "length=4") == 0
    assert "odd-ones, drawn under euler, 3 steps" in capsys.readouterr().out
    assert train(file, tmp_path / "run", "length=4", "--resume") == 0
    assert "is finished; nothing was left to do" in capsys.readouterr().out
    model, recorded = load(tmp_path / "run")
    assert (type(recorded.task).__name__, recorded.task.length) == ("OddOnes", 4)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert f"--plugin {file}" in recorded.command(tmp_path / "run")
    assert train(file, tmp_path / "other", "lenth=4") == 2
    assert "there is no setting 'lenth'; did you mean 'length'?" in capsys.readouterr().err


def test_a_run_of_a_file_is_loaded_with_it_in_another_process(tmp_path, file):
    assert train(file, tmp_path / "run") == 0
    for registry in (TASKS, FIELDS):  # as another process begins
        registry._added.clear()
    with pytest.raises(UsageError, match=r"no task 'odd-ones'.* begun with .*mine\.py: add --plugin .*mine\.py; in Python, load"):
        load(tmp_path / "run")
    model, recorded = load(str(tmp_path / "run"), plugins=[file])
    assert (type(recorded.task).__name__, type(model.field).__name__) == ("OddOnes", "Drawn")


def test_a_file_as_a_field_is_asked_which_of_its_names(tmp_path, file, capsys):
    assert main(["train", "--task", "recall", "--field", file, "--out", str(tmp_path / "run")]) == 2
    assert f"which class or function in it is the field, {file}:NAME." in capsys.readouterr().err


def test_without_the_file_its_names_are_not_known(tmp_path, file, capsys):
    assert main(["train", "--task", "odd-ones", "--field", "gated", "--integrator", "euler", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "there is no task 'odd-ones'" in said
    assert "One of your own comes with --plugin FILE.py." in said
    use([file])
    configured = configuration("odd-ones", "drawn", "heun").to_json()
    TASKS._added.clear()
    with pytest.raises(UsageError, match="there is no task 'odd-ones'"):
        Configuration.from_json(configured)


class Echo(ctrnn.DelayedField):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, [1.0])

    def flow(self, projected, h, past):
        return torch.tanh(past[0]) - h


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Echo, r"the field mine must be a ctrnn\.VectorField, .* got Echo; it reads its own past: .*DelayLine\(field, dt\)"),
        (torch.nn.RNNCell, r"got RNNCell; `ctrnn\.from_torch` makes one of a torch cell"),
        (torch.nn.Linear, r"got Linear; write dh/dt as `flow` of a ctrnn\.VectorField\. Of a cell that gives the next state"),
    ],
)
def test_what_is_no_field_says_what_makes_one_of_it(made, words):
    FIELDS.add("mine", made)
    with pytest.raises(UsageError, match=words):
        built_field("mine", 2, FieldSettings(hidden=3), generator(0))


def test_a_field_of_a_user_is_a_function_of_the_seed_and_leaves_the_generator_of_torch_alone(file):
    use([file])
    before = torch.get_rng_state()
    first, again, other = (built_field("drawn", 2, FieldSettings(hidden=3), generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    with pytest.raises(UsageError, match="the field drawn has no time scale that chrono could set"):
        built_field("drawn", 2, FieldSettings(hidden=3, init="chrono", t_max=9.0), generator(0))


def test_a_study_of_a_file_is_listed(file, capsys):
    assert main(["study", "list", "--plugin", file]) == 0
    said = capsys.readouterr().out
    assert "odd-ones-study\n  Odd?" in said
    assert "unwarped\n" in said


@pytest.mark.slow  # worker processes
def test_a_study_of_a_file_is_run_and_drawn(tmp_path, file, capsys):
    out = str(tmp_path / "study")
    assert main(["study", "run", "odd-ones-study", "--scale", "smoke", "--out", out, "--workers", "1", "--plugin", file]) == 0
    assert main(["study", "plot", out, "--plugin", file]) == 0
    assert f"--plugin {file}" in json.loads((tmp_path / "study" / "study.json").read_text())["command"]
    assert (tmp_path / "study" / "index.html").exists()
    for registry in (TASKS, FIELDS, STUDIES):
        registry._added.clear()
    assert main(["study", "plot", out]) == 2
    assert "there is no study 'odd-ones-study'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "could not be run: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "ends the program: SystemExit: 3"),
        ("x = 1", "has none of TASKS, FIELDS, STUDIES, dictionaries of what it adds, by name"),
        ("TASKS = [3]", "TASKS in FILE must be a dictionary of classes by name, got list"),
        ("TASKS = {'x': 3}", "TASKS in FILE has 'x', which is no class or function: int"),
        ("TASKS = {'recall': dict}", "there is a task 'recall' already; give yours another name"),
        ("TASKS = {'X y': dict}", "a task is named by a-z, 0-9, '.' and '-', beginning with a letter or digit; got 'X y'"),
        ("FIELDS = {'drawn': dict}", "there is no task 'odd-ones'"),  # before one adds a task of that name
        (
            "TASKS = {'odd-ones': dict}; FIELDS = {'drawn': dict}",
            "the task odd-ones is no subclass of experiments.tasks.task.Task",
        ),
    ],
)
def test_a_file_that_adds_nothing_usable_is_refused_in_words(tmp_path, text, words, capsys):
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert train(str(path), tmp_path / "run") == 2
    assert words.replace("FILE", str(path)) in capsys.readouterr().err


def test_installed_packages_offer_things_by_entry_points(tmp_path, monkeypatch):
    (tmp_path / "offers.py").write_text("class Offered:\n    pass\n")
    about = tmp_path / "offers-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[ctrnn.tasks]\noffered = offers:Offered\nlost = offers:Lost\nours = offers:Offered\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("task", "ctrnn.tasks", {"ours": "builtins:dict"})
    assert list(registry) == ["ours", "offered", "lost"]
    assert registry.named("offered") is sys.modules["offers"].Offered
    assert registry.name_of(registry.named("offered")) == "offered"
    assert registry.named("ours") is dict  # nobody takes the place of ours
    with pytest.raises(UsageError, match="the task lost, offers:Lost, could not be imported: AttributeError"):
        registry.named("lost")
    with pytest.raises(UsageError, match="did you mean 'offered'"):
        registry.named("ofered")


def test_objects_are_taken_where_names_are(file, tmp_path):
    use([file])
    parity = TASKS.named("odd-ones")
    TASKS._added.clear()
    chosen = configuration(parity(length=5), ctrnn.gru, discretize.Heun(), hidden=3, steps=2)
    assert (chosen.task_name, chosen.field, chosen.integrator, chosen.task.length) == ("odd-ones", "ctrnn.gru", "heun", 5)
    assert Configuration.from_json(chosen.to_json()) == chosen
    model = chosen.untrained_model()
    assert isinstance(model.rnn.step, discretize.Heun)
    assert model.field.hidden_size == 3
    assert configuration(parity(length=5), "gru", "heun", length=7).task.length == 7

    class MyOwnField(ctrnn.LSTMField):
        pass

    assert type(configuration(parity(), MyOwnField, "euler").untrained_model().field) is MyOwnField
    assert "my-own-field" in FIELDS


# Sweeps


def test_several_values_are_as_many_runs_every_one_with_every_other():
    assert swept("recall", ["steps=3"]) == [("", ["steps=3"])]
    runs = swept("recall", ["seed=0,1", "steps=3", "init=standard,chrono", "t_max=9"])
    assert [name for name, _ in runs] == [
        "seed-0-init-standard",
        "seed-0-init-chrono",
        "seed-1-init-standard",
        "seed-1-init-chrono",
    ]
    assert runs[1][1] == ["seed=0", "steps=3", "init=chrono", "t_max=9"]
    assert configuration_from_words("recall", "gated", "euler", runs[2][1]).training.seed == 1
    for words, why in (("seed=0,0", "each value is given once"), ("seed=0,", "none is empty"), ("stepz=1,2", "stepz")):
        with pytest.raises(UsageError, match=why):
            [configuration_from_words("recall", "gated", "euler", each) for _, each in swept("recall", [words])]
    # What is asked wrongly is refused in words.


def test_what_makes_no_field_is_refused_in_words():
    FIELDS.add("lost", lambda inputs, hidden: 3)
    FIELDS.add("broken", lambda inputs, hidden: 1 / 0)
    for name, words in (("lost", "got int"), ("broken", "could not be called: ZeroDivisionError")):
        with pytest.raises(UsageError, match=words):
            built_field(name, 2, FieldSettings(hidden=3), generator(0))


def test_what_has_no_name_is_refused_in_words():
    with pytest.raises(UsageError, match=r"field is a name, or a thing with one, such as a class; got Relaxation"):
        configuration("recall", ctrnn.gated(10, 4), "euler")
    with pytest.raises(UsageError, match="integrator is a name, or a step map of discretize"):
        configuration("recall", "gated", 3)
    with pytest.raises(UsageError, match=r"the task int is no subclass of experiments.tasks.task.Task"):
        configuration(3, "gated", "euler")


def test_more_runs_than_anybody_means_and_two_in_one_folder_are_refused():
    many = ",".join(map(str, range(1000)))
    with pytest.raises(UsageError, match=r"--set asks for 1,000,000,000,000 runs, at most 1,000 are made at once"):
        swept("recall", [f"{key}={many}" for key in ("seed", "steps", "hidden", "batch")])
    with pytest.raises(UsageError, match="two runs one folder"):
        swept("recall", ["method=a+b,a_b"])


def test_a_sweep_at_the_prompt_trains_each_in_a_folder_of_its_own(tmp_path, file, capsys):
    assert train(file, tmp_path / "runs", "seed=0,1") == 0
    said = capsys.readouterr()
    assert said.err.startswith(f"2 runs of 3 steps, one after another, in {tmp_path}/runs.")
    assert said.out.count("odd-ones, drawn under euler") == 2
    losses = [json.loads((tmp_path / "runs" / f"seed-{k}" / "result.json").read_text())["measures"]["loss"] for k in (0, 1)]
    assert losses[0] != losses[1]
    assert train(file, tmp_path / "runs", "seed=0,1,2", "--resume") == 0
    assert capsys.readouterr().out.count("nothing was left to do") == 2
    assert train(file, tmp_path / "more", "seed=0,x") == 2
    assert not (tmp_path / "more").exists()  # none begins where one cannot


def test_a_field_is_named_by_its_file_and_its_name_in_it(tmp_path, capsys):
    (tmp_path / "my cells.py").write_text("import ctrnn\ndef Gated(inputs, hidden):\n    return ctrnn.gated(inputs, hidden)\n")
    place = f"{tmp_path / 'my cells.py'}:Gated"
    words = ["train", "--task", "recall", "--field", place, "--out", str(tmp_path / "run")]
    assert main([*words, "--set", "steps=2", "hidden=3", "evaluation=4"]) == 0
    assert main([*words, "--resume", "--set", "steps=3", "hidden=3", "evaluation=4"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["configuration"]["field"] == "my-cells.gated"  # ours has the name alone
    assert list(config["code"]) == ["my cells.py"]
    assert main([*words[:4], place.replace("Gated", "Gatd"), *words[5:]]) == 2
    assert "has no class or function 'Gatd'; did you mean 'Gated'?" in capsys.readouterr().err
