"""`ctrnn prove`: exit 0 if proved, 1 if not, 2 for wrong usage, in one line that says what to do."""

import pytest

from experiments.__main__ import main

pytestmark = pytest.mark.usefixtures("few_settings")
CELL = """
import torch
from sympy import symbols, tanh

class Cell(torch.nn.Module):
    input_size, hidden_size = 1, 2

    def forward(self, x, h):
        return torch.tanh(x - h)

class Sorting(Cell):
    def forward(self, x, h):
        return h * h.argsort(-1)

x, h1, h2 = symbols("x_1 h_1 h_2")
right = {h1: tanh(x - h1), h2: tanh(x - h2)}
wrong = {h1: tanh(x - h1), h2: tanh(x - h1)}
short = {h1: tanh(x - h1)}

class Sized(Cell):
    def __init__(self, size):
        super().__init__()

class Endless(Cell):
    def forward(self, x, h):
        while True:
            pass

class Leaving(Cell):
    def forward(self, x, h):
        raise SystemExit(0)

def leaving():
    raise SystemExit(0)

def failing():
    raise KeyError("gone")

def made(system):
    return [tanh(system.inputs[0] - h) for h in system.state]
"""


@pytest.fixture
def cell(tmp_path):
    (tmp_path / "cell.py").write_text(CELL)
    return str(tmp_path / "cell.py")


def test_arguments_of_a_class_are_given_or_are_sizes_that_it_needs(tmp_path, capsys):
    (tmp_path / "field.py").write_text(
        "import ctrnn, torch\n\nclass Scaled(ctrnn.VectorField):\n"
        "    def __init__(self, input_size, hidden_size, *, by, shift=False):\n"
        "        super().__init__(input_size, hidden_size)\n"
        "        self.by, self.shift = by, shift\n\n"
        "    def flow(self, projected, h):\n"
        "        return self.by * (projected.sum(-1, keepdim=True) - h) + self.shift\n\n"
        "def halves(system):\n    return [(sum(system.inputs) - h) / 2 for h in system.state]\n"
    )
    field, equations = f"{tmp_path}/field.py:Scaled", ["--equations", f"{tmp_path}/field.py:halves"]
    assert main(["prove", field, *equations, "--set", "by=0.5"]) == 0
    assert "made with input_size=2, hidden_size=3, by=0.5" in capsys.readouterr().out
    assert main(["prove", field, *equations, "--set", "by=0.5", "input_size=1", "hidden_size=1"]) == 0
    assert main(["prove", field, *equations, "--set", "by=0.25"]) == 1
    assert main(["prove", field, *equations, "--set", "by=0.5", "shift=true"]) == 1
    capsys.readouterr()
    for words, message in ((["by=0.5", "bias=1"], "takes no 'bias'"), ([], "needs by: --set by=...")):
        assert main(["prove", field, *equations, *(["--set", *words] if words else [])]) == 2
        assert message in capsys.readouterr().err


def test_a_verdict_is_written_to_a_file_as_it_is_printed(cell, tmp_path, capsys):
    (tmp_path / "field.py").write_text("import ctrnn\n\ndef plain():\n    return ctrnn.plain(1, 1)\n")
    assert main(["prove", f"{tmp_path}/field.py:plain"]) == 0
    printed = capsys.readouterr().out
    assert main(["prove", f"{tmp_path}/field.py:plain", "--out", f"{tmp_path}/verdict.txt"]) == 0
    assert (tmp_path / "verdict.txt").read_text() == printed
    assert capsys.readouterr().err == f"Exit status 0. Written to {tmp_path}/verdict.txt.\n"


def test_without_equations_a_field_is_proved_to_be_its_formula(cell, tmp_path, capsys):
    field = "import ctrnn\n\nclass Halved(ctrnn.Relaxation):\n    formula = 'dh/dt = ({candidate} - h) / 2'\n"
    (tmp_path / "field.py").write_text(
        field + "\ndef gru():\n    return ctrnn.gru(1, 2)\n\ndef halved():\n"
        "    return Halved(ctrnn.TanhCandidate(1, 1), ctrnn.FixedRate(1.0), ctrnn.LinearDecay())\n"
    )
    assert main(["prove", f"{tmp_path}/field.py:gru"]) == 0
    assert capsys.readouterr().out.startswith("holds\n")
    assert main(["prove", f"{tmp_path}/field.py:halved"]) == 1
    assert "does not hold" in capsys.readouterr().out
    assert main(["prove", f"{cell}:Cell"]) == 2
    assert "has no `formula` of its own" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("equations", ["right", "made"])
def test_what_is_proved_ends_with_0(cell, equations, capsys):
    assert main(["prove", f"{cell}:Cell", "--equations", f"{cell}:{equations}"]) == 0
    assert capsys.readouterr().out.startswith("holds\n")


def test_what_is_refuted_or_not_read_ends_with_1_and_says_where(cell, capsys):
    assert main(["prove", f"{cell}:Cell", "--equations", f"{cell}:wrong"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("does not hold")
    assert "h_2: torch" in out
    assert main(["prove", f"{cell}:Sorting", "--equations", f"{cell}:right"]) == 1
    assert "cell.py" in capsys.readouterr().out


@pytest.mark.parametrize("equations", ["right", "made"])
def test_what_takes_too_long_ends_with_1_and_is_undecided(cell, equations, capsys):
    assert main(["prove", f"{cell}:Endless", "--equations", f"{cell}:{equations}", "--seconds", "0.05"]) == 1
    assert "undecided" in (out := capsys.readouterr().out)
    assert "out of time, after 0.05 s" in out


WRONG_USAGE = {
    "no equation for h_2": ("{}:Cell", "{}:short"),
    "FILE.py:NAME": ("{}", "{}:right"),
    "did you mean 'Cell'": ("{}:Cel", "{}:right"),
    "there is no file": ("nowhere.py:Cell", "{}:right"),
    "no torch.nn.Module": ("{}:x", "{}:right"),
    "Sized needs size: --set size=...": ("{}:Sized", "{}:right"),
    "leaving ends the program": ("{}:leaving", "{}:right"),
    "Leaving ends the program": ("{}:Leaving", "{}:right"),
    "failing could not be called: KeyError": ("{}:Cell", "{}:failing"),
    "must be SymPy's": ("{}:Cell", "{}:Cell"),
}


@pytest.mark.parametrize("words", list(WRONG_USAGE))
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(cell, words, capsys):
    module, equations = (place.format(cell) for place in WRONG_USAGE[words])
    assert main(["prove", module, "--equations", equations]) == 2
    assert words in capsys.readouterr().err


FILES = {
    "ends the program": "raise SystemExit(0)",
    "could not be run: KeyError": "raise KeyError(1)",
    "SyntaxError": "def (",
    "there is Other.": "class Other: pass",
}


def test_a_file_that_does_not_run_to_its_end_proves_nothing(cell, tmp_path, capsys):
    for k, (words, text) in enumerate(FILES.items()):
        (tmp_path / f"other{k}.py").write_text(text)
        assert main(["prove", f"{tmp_path}/other{k}.py:Cell", "--equations", f"{cell}:right"]) == 2, words
        assert words in capsys.readouterr().err
