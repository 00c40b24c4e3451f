"""`ctrnn breakdown --run` and `--model --data`: the page of a trained model says what `discretize.breakdown` does."""

import csv

import pages
import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

import ctrnn
import discretize
from experiments import __main__ as command_line
from experiments.breakdown import trained
from experiments.code_files import imported
from experiments.reports import svg


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """One other step is tried, and inputs are held for a shorter time."""
    monkeypatch.setattr(trained, "STEPS", ("rk4",))
    for name, samples in (("WAIT", 50), ("LOOK", 50), ("MOST", 400)):
        monkeypatch.setattr(f"discretize.analysis.refine.{name}", samples)


@pytest.fixture
def files(tmp_path):
    torch.manual_seed(0)
    model = discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.plain(2, 4)), 3)
    ctrnn.save(tmp_path / "model.safetensors", model)
    data = {"xs": torch.randn(12, 5, 2), "targets": torch.randint(0, 3, (12, 5))}
    save_file(data, tmp_path / "data.safetensors")
    return model, data


def test_the_page_of_a_saved_model_has_the_numbers_of_the_function(tmp_path, files, capsys):
    # Kernels of two steps, of one field, are compiled.
    model, data = files
    words = ["breakdown", "--model", f"{tmp_path}/model.safetensors", "--data", f"{tmp_path}/data.safetensors"]
    assert command_line.main([*words, "--out", f"{tmp_path}/out"]) == 0
    found = discretize.breakdown(model, data["xs"], data["targets"], steps=["rk4"])
    assert str(found) in capsys.readouterr().out
    with open(tmp_path / "out/steps.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], int(row["substeps"])) for row in rows] == [(other.step, other.substeps) for other in found.others]
    assert_close([float(row["share"]) for row in rows], [other.share for other in found.others], rtol=1e-5, atol=1e-9)
    with open(tmp_path / "out/sequences.csv") as file:
        rows = list(csv.DictReader(file))
    assert_close([float(row["states_apart"]) for row in rows], found.by_sequence.tolist(), rtol=1e-5, atol=1e-9)
    assert_close([float(row["score_solved"]) for row in rows], found.scores.exact.tolist())
    assert [row["held_stepped"] for row in rows] == list(found.held[0])
    page = pages.read((tmp_path / "out/index.html").read_text())
    assert any(element.text == found.verdict for element in page.elements)


def undrawn(*_):
    return "<svg></svg>"


@pytest.mark.parametrize("integrator", ["euler", "exact"])
def test_a_run_is_looked_at_on_its_test_by_the_measure_of_its_task(tmp_path, integrator, capsys, monkeypatch):
    # Two commands load what they need. The figure, half a second, is drawn of one.
    if integrator == "exact":
        monkeypatch.setattr(svg, "_draw", undrawn)
    small = ["hidden=4", "steps=1", "batch=4", "evaluation=4", "checkpoint_every=1"]
    settings = [word for pair in small for word in ("--set", pair)]
    (tmp_path / "mine.py").write_text("import ctrnn\n\nFIELDS = {'mine': ctrnn.plain}\n")
    plugin = ["--plugin", f"{tmp_path}/mine.py"]
    train = ["train", "--task", "tones", "--field", "mine", "--integrator", integrator, "--out", f"{tmp_path}/run", *plugin]
    assert command_line.main([*train, *settings]) == 0
    capsys.readouterr()
    assert command_line.main(["breakdown", "--run", f"{tmp_path}/run", "--out", f"{tmp_path}/out", *plugin]) == 0
    said = capsys.readouterr().out
    assert "The metric is" in said
    with open(tmp_path / "out/sequences.csv") as file:
        scores = [float(row["score_stepped"]) for row in csv.DictReader(file)]
    assert f"The metric is {sum(scores) / len(scores):.4g} as stepped" in said
    page = (tmp_path / "out/index.html").read_text()
    assert "accuracy" in page
    assert ("stepped by Euler here" in page) == (integrator == "exact")


def test_a_saved_model_may_have_a_class_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(svg, "_draw", undrawn)
    (tmp_path / "mine.py").write_text(OWN)
    field = vars(imported("mine.py"))["Mine"]
    ctrnn.save("model.safetensors", discretize.DiscreteRNN(field(2)), known={"Mine": field})
    save_file({"xs": torch.randn(5, 2, 2)}, "data.safetensors")
    words = ["breakdown", "--model", "model.safetensors", "--data", "data.safetensors"]
    assert command_line.main(words) == 2
    assert "it holds a 'Mine'" in capsys.readouterr().err
    assert command_line.main([*words, "--plugin", "mine.py"]) == 0


OWN = """import torch
import ctrnn

class Mine(ctrnn.VectorField):
    def __init__(self, size):
        super().__init__(size, size)
        self.size, self.weight = size, torch.nn.Parameter(torch.ones(size))

    def flow(self, projected, h):
        return self.weight * (projected - h)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "m"], "--data FILE"),
        (["--run", "r", "--model", "m", "--data", "d"], "--run RUN, or"),
        (["--run", "r", "--rate", "3"], "has its own data"),
        (["--plugin", "p.py"], "Give --run RUN"),
        (["--model", "model.safetensors", "--data", "data.safetensors", "--plugin", "p.py"], "p.py"),
        (["--run", "nowhere"], "holds no trained model"),
        (["--model", "data.safetensors", "--data", "data.safetensors"], "not one that `ctrnn.save` has written"),
        (["--model", "model.safetensors", "--data", "model.safetensors"], "must hold `xs`"),
        (["--model", "model.safetensors", "--data", "missing"], "missing"),
    ],
    ids=["no data", "both", "a rate", "a file alone", "a file and a model", "no run", "no model", "no inputs", "no file"],
)
def test_what_cannot_be_looked_at_is_wrong_usage(tmp_path, files, words, said, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["breakdown", *words]) == 2
    assert said in capsys.readouterr().err
