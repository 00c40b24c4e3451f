"""`ctrnn prove PAPER.md`: a ledger of one's own, with exit code 0 if all is proved, 1 if not, 2 for wrong usage."""

import json
import re
from pathlib import Path

import pytest

from derivations.claim import Entry
from derivations.papers.report import decided_within
from derivations.prover.verdict import UNDECIDED
from experiments.__main__ import main

pytestmark = pytest.mark.usefixtures("few_settings")
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "continuous_gru.md"
FRONT = "---\nx, w: real\nh, u: function of t\ntau: nonzero\nsigma: sigmoid\n{}---\n"
CELL = """
import torch

class Unit(torch.nn.Module):
    input_size, hidden_size = 1, 1

    def __init__(self):
        super().__init__()
        self.tau, self.w = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))

    def forward(self, x, h):
        return (torch.tanh(self.w * x) - h) / self.tau

class Sized(torch.nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size

    def forward(self, x, h):
        return x[..., :1] - h

class Lateral(Sized):
    def forward(self, x, h):
        return x[..., :1] - h - (h.sum(-1, keepdim=True) - h)

class Summed(Sized):
    def forward(self, x, h):
        return x[..., :1] - h.cumsum(-1)

class Step(Unit):
    def forward(self, x, h):
        return h + torch.tanh(self.w * x)

def number():
    return 3
"""


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """Write a paper, and return its name."""
    monkeypatch.chdir(tmp_path)
    Path("cell.py").write_text(CELL)

    def write(text, front="", name="note.md"):
        Path(name).write_text(FRONT.format(front) + text)
        return name

    return write


def test_the_exit_code_is_0_only_where_there_are_claims_and_all_are_proved(paper, capsys):
    assert main(["prove", paper(r"$$ \sigma(x) + \sigma(-x) = 1 $$")]) == 0
    assert "1 claim: 1 holds.\nExit status 0" in capsys.readouterr().out
    assert main(["prove", paper(r"$$ \sigma(x) = 1 + \sigma(-x) $$")]) == 1
    shown = capsys.readouterr().out
    assert "NOT SO" in shown
    assert re.search(r"at +x = \S+\n +left side +\S+\n +right side +\S+\n", shown)
    assert main(["prove", paper(r"$$ \sin x w = 1 $$")]) == 1
    assert re.search(r"not read\n +because +line 7, column 11", capsys.readouterr().out)
    assert main(["prove", paper("$$ x + w $$")]) == 1


def test_what_is_only_defined_is_never_said_to_hold(paper, capsys):
    assert main(["prove", paper(r"$$ s := \sigma(x) $$ $$ \tau \dot h = u - h \label{ode} $$")]) == 1
    shown = capsys.readouterr().out
    assert "hold" not in shown
    assert re.search(r"line 7\n.*\n  defined +s = 1/\(1 \+ exp\(-x\)\)\n", shown)
    assert re.search(r"line 7, ode\n.*\n  supposed +h'\(t\) = \(-h\(t\) \+ u\(t\)\)/tau\n", shown)
    assert "Exit status 1: nothing is proved." in shown


def test_what_is_proved_is_accepted_by_the_check_and_what_is_changed_is_not(paper, capsys):
    name = paper("$$ x^2 - w^2 = (x - w)(x + w) $$\n$$ x^2 + w^2 = (x + w)^2 $$\n$$ w \\sin x x = 1 $$")
    assert main(["prove", name, "--out", "out.json"]) == 1
    assert main(["derive", "--check", "out.json"]) == 0
    claims = json.loads(Path("out.json").read_text())
    claims[1]["verdict"] = "holds"
    Path("out.json").write_text(json.dumps(claims))
    capsys.readouterr()
    assert main(["derive", "--check", "out.json"]) == 1


@pytest.mark.parametrize("form", ["txt", "json", "html", "tex", "md"])
def test_every_form_has_the_claims_and_what_was_defined(paper, form):
    name = paper("$$ s := x^2 \\label{square} $$\n$$ s = x w \\label{wrong} $$\n$$ s \\ge 0 \\label{right} $$")
    assert main(["prove", name, "--out", f"out.{form}"]) == 1
    text = Path(f"out.{form}").read_text()
    assert "wrong" in text
    assert "right" in text
    if form != "json":
        assert "square" in text
        assert ("by definition, nothing proved" if form == "tex" else "defined") in text


def test_code_beside_the_paper_is_its_equation_or_is_refuted(paper, capsys):
    code = "code: ode is cell.py:Unit, h is h_1, u is x_1, tau is tau[0], w is w[0]\n"
    assert main(["prove", paper(r"$$ \tau \dot h = \tanh(w u) - h \label{ode} $$", code), "--code", "--out", "out.json"]) == 0
    (claim,) = json.loads(Path("out.json").read_text())
    assert claim["verdict"] == "holds under the stated assumptions"  # where tau is not 0
    assert main(["derive", "--check", "out.json"]) == 0
    assert main(["prove", paper(r"$$ \tau \dot h = \tanh(w u) + h \label{ode} $$", code), "--code"]) == 1
    assert "NOT SO" in capsys.readouterr().out


def test_the_code_of_a_step_is_the_definition_of_the_next_state(paper):
    code = "v: real\ncode: step is cell.py:Step, z is h_1, x is h_1, v is x_1, w is w[0]\n"
    name = paper(r"$$ z := x + \tanh(w \cdot v) \label{step} $$", code)
    assert main(["prove", name, "--code"]) == 0


@pytest.mark.parametrize(("name", "verdict"), [("Sized", "holds"), ("Lateral", "undecided"), ("Summed", "undecided")])
def test_code_is_made_with_several_units_and_undecided_where_one_reads_others(paper, name, verdict):
    name = paper(r"$$ \frac{dh}{dt} = u - h \label{ode} $$", f"code: ode is cell.py:{name}, h is h_1, u is x_1\n")
    main(["prove", name, "--code", "--out", "out.json"])
    (claim,) = json.loads(Path("out.json").read_text())
    assert claim["verdict"] == verdict
    assert "with 2 inputs and 3 units" in claim["statement"]


def test_a_ledger_is_compared_with_the_paper_that_it_was_made_of(paper, capsys, subtests):
    name = paper(
        "$$ x^2 - w^2 = (x - w)(x + w) $$\n$$ x^2 + w^2 = (x + w)^2 $$\n$$ \\frac{x}{x} = 1 $$\n$$ \\dot h = u $$\n$$ h' = u $$"
    )
    assert main(["prove", name, "--out", "out.json"]) == 1
    assert main(["derive", "--check", "out.json", "--paper", name]) == 0
    right = json.loads(Path("out.json").read_text())
    changes = {
        "emptied assumptions": lambda c: c[3].update(assumptions=[], verdict="holds"),
        "other words": lambda c: c[0].update(statement="x = w"),
        "another certificate": lambda c: c[0].update(certificate=c[2]["certificate"], verdict=c[2]["verdict"]),
        "a hidden refutation": lambda c: c.pop(1),
        "an undecided refutation": lambda c: c[1].update(
            verdict="undecided", certificate=[{**c[1]["certificate"][0], "holds": None}]
        ),
        "another order": lambda c: c.reverse(),
        "another paper": lambda c: [claim.update(paper="0" * 64) for claim in c],
        "another number": lambda c: c[1].update(counterexample={"x": "7"}),
    }
    for words, change in changes.items():
        with subtests.test(words=words):
            claims = json.loads(json.dumps(right))
            change(claims)
            Path("out.json").write_text(json.dumps(claims))
            assert main(["derive", "--check", "out.json", "--paper", name]) == 1
    Path("out.json").write_text(json.dumps(right))
    Path(name).write_text(Path(name).read_text().replace("x - w", "w - x"))
    assert main(["derive", "--check", "out.json", "--paper", name]) == 1
    capsys.readouterr()
    assert main(["derive", "--paper", name]) == 2


def test_code_is_run_only_when_asked_to(paper, capsys):
    Path("evil.py").write_text("open('ran', 'w')")
    assert main(["prove", paper(r"$$ \tau \dot h = u - h \label{ode} $$", "code: ode is evil.py:Unit\n")]) == 1
    assert "evil.py:Unit is run with --code only" in capsys.readouterr().out
    assert not Path("ran").exists()


def test_wrong_usage_of_code_beside_a_paper_is_one_line_that_says_what_to_do(paper, capsys):
    for words, reason in (
        (["nothing.md"], "cannot be read"),
        ([paper("$$ 1 = 1 $$"), "--equations", "cell.py:x"], "--equations and --set are for a cell"),
        ([paper("$$ 1 = 1 $$"), "--format", "word"], "there is no format 'word'"),
        ([paper("$$ 1 = 1 $$"), "--seconds", "0"], "--seconds must be above 0"),
        (["cell.py:Unit", "--format", "json"], "there is no format 'json'"),
        (["cell.py:Unit", "--out", "out.json"], "nothing here is written as .json"),
        (["cell.py:Unit", "--code"], "--code is for a paper"),
        ([paper("$$ 1 = 1 $$"), "--out", "note.md"], "is the paper itself"),
        ([paper("$$ 1 = 1"), "--out", "out.json"], "line 7, column 1: $$ has no $$"),
        ([paper("\\input{other}", name="note.tex")], "what stands in another file, or is not printed, is not read"),
    ):
        assert main(["prove", *words]) == 2
        line = capsys.readouterr().err
        assert reason in line
        assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("ode is ../cell.py:Unit", "beside the paper"),
        ("ode is /etc/cell.py:Unit", "beside the paper"),
        ("ode is cell.txt:Unit", "beside the paper"),
        ("ode is cell.py:Unti", "did you mean 'Unit'"),
        ("ode is cell.py:number", "is no torch.nn.Module"),
        ("none is cell.py:Unit", "is no label of a definition"),
        ("ode is cell.py:Unit, q is w", "is no letter of the paper"),
        ("ode is cell.py:Unit, q", "`code: LABEL is FILE.py:NAME"),
    ],
)
def test_code_that_cannot_be_had_is_wrong_usage(paper, capsys, code, reason):
    name = paper(r"$$ \tau \dot h = \tanh(w u) - h \label{ode} $$", f"code: {code}\n")
    assert main(["prove", name, "--code"]) == 2
    assert reason in capsys.readouterr().err


def test_a_claim_that_takes_too_long_is_undecided():
    class Slow:
        kind = "slow"

        def formulas(self):
            return ()

        def says(self):
            return None

        def decide(self):
            while True:
                pass

    claim = decided_within(Entry("note", "line 1", "slow", (Slow(),), recorded=UNDECIDED), 0.2)
    assert (claim.verdict, claim.evidence) == ("undecided", "slow: out of time after 0.2 s; --seconds gives it more")


def test_the_example_of_the_docs_has_two_misprints_and_no_more(tmp_path):
    assert main(["prove", str(EXAMPLE), "--code", "--out", str(tmp_path / "out.json")]) == 1
    claims = json.loads((tmp_path / "out.json").read_text())
    refuted = [claim["label"] for claim in claims if claim["verdict"] == "does not hold as printed"]
    assert refuted == ["eq:misprint", "eq:forgotten, units", "eq:forgotten"]
    assert len(claims) >= 20
    assert {claim["verdict"] for claim in claims if claim["label"] not in refuted} == {"holds"}
    assert main(["derive", "--check", str(tmp_path / "out.json")]) == 0
