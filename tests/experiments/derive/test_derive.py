"""`ctrnn derive`: the ledger on the terminal, as JSON, LaTeX and a page."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.dom import minidom

import pages
import pytest
from sympy import Symbol, exp, log

from derivations.claim import Correction, Entry, Mutation, decided
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal
from derivations.prover.verdict import UNDECIDED
from experiments import __main__
from experiments.derive import latex, markdown, page, run, table
from experiments.reports import marked
from experiments.reports.pages import write_pages

ROOT = Path(__file__).resolve().parents[3]
x = Symbol("x", real=True)
g = Symbol("g", positive=True)
TRUE, FALSE = Equal((x + 1) ** 2, x**2 + 2 * x + 1), Equal((x + 1) ** 2, x**2 + 1)
ENTRIES = [
    Entry("tallec-ollivier-2018", "eq. 1", "A square <opens> as it should.", (TRUE,), mutation=Mutation("no 2 x", FALSE)),
    Entry("tallec-ollivier-2018", "eq. 2", "The same & more.", (TRUE,), ("x > 0",), Mutation("no 2 x", FALSE)),
    Entry("this project", "result 1, a_b", "A square has 100 % two terms.", (FALSE,), correction=Correction("Three.", TRUE)),
    Entry("this project", "result 2", "Nobody shows it.", (Less(x, exp(x) + log(x) + 1000),), recorded=UNDECIDED),
]


@pytest.fixture(scope="module")
def claims():
    return [decided(entry) for entry in ENTRIES]


@pytest.fixture
def small(monkeypatch, claims):
    asked = []

    def decide_all(source, workers):
        asked.append((source, workers))
        return iter(claim for claim in claims if source in (None, claim.source))

    monkeypatch.setattr(run, "decide_all", decide_all)
    return asked


def test_the_table_has_a_line_a_claim_and_what_is_right(small, capsys):
    assert __main__.main(["derive"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"holds +eq\. 1 ", out)
    assert re.search(r"holds if +eq\. 2 .*\[x > 0\]", out)
    assert re.search(r"NOT SO +result 1, a_b", out)
    assert "right is: Three." in out
    assert re.search(r"because:  x = -?\d", out)
    assert max(map(len, table.lines([decided(entry) for entry in ENTRIES], 80))) <= 80
    assert "4 claims: 1 hold, 1 hold under the stated assumptions, 1 do not hold as printed, 1 undecided. All as recorded." in out


def test_json_is_alone_on_stdout_with_stable_keys(small, capsys):
    assert __main__.main(["derive", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    stable = ["source", "label", "statement", "assumptions", "verdict", "correction", "evidence", "seconds"]
    stable += ["quote", "mutation", "scope", "defined_on", "prior_work", "latex", "counterexample", "certificate"]
    assert [list(claim) for claim in found] == [stable] * len(ENTRIES)
    assert found[1]["assumptions"] == ["x > 0"]
    assert found[0]["correction"] is None
    assert found[2]["verdict"] == "does not hold as printed"
    assert __main__.main(["derive", "--source", "this project", "--format", "json"]) == 0
    assert {claim["source"] for claim in json.loads(capsys.readouterr().out)} == {"this project"}
    assert small[1][0] == "this project"


def test_a_decision_other_than_recorded_ends_with_1(monkeypatch, claims, capsys):
    monkeypatch.setattr(run, "decide_all", lambda source, workers: iter([replace(claims[0], recorded=UNDECIDED)]))
    assert __main__.main(["derive"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "NOT as recorded: tallec-ollivier-2018, eq. 1" in said
    assert "!! recorded was: undecided" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--source", "tallec-olivier-2018"], "there is no source 'tallec-olivier-2018'"),
        (["--source", "zzz"], "there is no source 'zzz'; there is"),
        (["--format", "jsn"], "there is no format 'jsn'; did you mean 'json'?"),
        (["--out", "no/such/folder/x.json"], "there is no folder"),
        (["--out", "."], "is a folder; name a file in it"),
    ],
)
def test_wrong_usage_is_told_in_one_line(small, capsys, words, message):
    assert __main__.main(["derive", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "starts"), [("x.json", "["), ("x.tex", r"\documentclass"), ("x.html", "<!doctype"), ("x.txt", "\n")]
)
def test_the_form_follows_the_files_ending(small, tmp_path, capsys, name, starts):
    assert __main__.main(["derive", "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith(starts)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("words", "code"), [(["derive", "--help"], 0), (["derive", "--source", "zzz"], 2)])
def test_help_and_wrong_usage_do_not_load_sympy(words, code):
    script = (
        f"import sys\nfrom experiments.__main__ import main\ncode = main({words})\n"
        "assert not {'torch', 'sympy'} & set(sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr


def test_the_page_is_whole_and_shows_formulas_as_mathml_and_text_as_text(claims):
    text = page.page(claims)
    articles = pages.read(text, scripts=1).all("article")
    assert [(a.attrs["data-source"], a.attrs["data-verdict"]) for a in articles] == [
        ("tallec-ollivier-2018", "holds"),
        ("tallec-ollivier-2018", "assuming"),
        ("this project", "fails"),
        ("this project", "undecided"),
    ]
    assert text.count("<math") >= 4
    for formula in re.findall(r"<math .*?</math>", text):
        minidom.parseString(formula)
    assert "A square &lt;opens&gt; as it should." in text
    assert re.search(r"Not so at x = -?\d.*Right is:", text, re.DOTALL)


@pytest.mark.parametrize(
    "write",
    [
        lambda claims: "\n".join(table.lines(claims, 120)),
        latex.document,
        page.page,
        lambda claims: markdown.paper("x", claims),
        lambda claims: claims[0]._repr_html_(),
    ],
    ids=["table", "latex", "html", "markdown", "notebook"],
)
def test_a_kinder_reading_that_saves_a_print_is_told_as_a_reading_in_every_form(write):
    saved = decided(Entry("x", "eq. 1", "Two terms.", (FALSE,), reading=Correction("As three.", TRUE)))
    text = write([saved]).lower()
    assert "read as" in text
    assert "right is" not in text


def test_the_latex_document_escapes_words(claims):
    text = latex.document(claims)
    assert r"\textless{}opens\textgreater{}" in text
    assert r"100 \%" in text
    assert r"result 1, a\_b" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert all(ord(letter) < 128 for letter in text)


def test_the_pages_of_texts_name_every_claim_and_every_error(claims, tmp_path):
    papers = markdown.papers(claims)
    assert [path.name for path in papers] == [
        f"{source.replace(' ', '-')}.md" for source in dict.fromkeys(c.source for c in claims)
    ]
    text = "".join(papers.values())
    for claim in claims:
        begin = "| {}" if claim.correction is None else "- **{}**"
        assert text.count(begin.format(claim.label.replace("_", r"\_"))) == 1
    assert re.search(r"\*\*result 1, a\\_b\*\* .*\n\n  Not so at x = .*\.\n\n  \*Right is:\* Three\.\n", text)
    pages = {tmp_path / path.name: page for path, page in papers.items()}
    assert write_pages(pages) == [*pages]
    assert write_pages(pages) == []


def test_text_goes_between_the_markers_and_nowhere_else(claims):
    before = "above\n<!-- ledger: claims -->\nold\n<!-- end -->\nbelow\n<!-- other: claims -->\nkept\n<!-- end -->\n"
    after = marked.fill(before, "ledger", {"claims": "new"})
    assert after == before.replace("old", "new")
    assert marked.fill(after, "ledger", {"claims": "new"}) == after
    assert marked.names(before, "ledger") == ["claims"]
    with pytest.raises(ValueError, match="no place for 'verdicts'"):
        marked.fill(before, "ledger", {"verdicts": "new"})


WHOLE = {"of": "print", "kind": "identity", "holds": True, "says": {}, "steps": []}
CLAIM = {
    "source": "a",
    "label": "b",
    "statement": "c",
    "verdict": "holds",
    "scope": "all sizes",
    "assumptions": [],
    "defined_on": [],
}
NO_LEDGERS = {
    "open": "{",
    "numbers": "[1]",
    "no label": '[{"source": 1}]',
    "no UTF-8 for JSON": "\u00ff",
    "empty": "",
    "no claims": "[]",
    "a table": "{}",
    "deep": "[" * 100_000 + "]" * 100_000,
    "a number of too many digits": "[" + "9" * 6000 + "]",
    "no certificates": '[{"source": "a", "label": "b", "verdict": "holds", "certificate": null}]',
    "a number for steps": {**WHOLE, "steps": 3},
    "no steps": {**WHOLE, "steps": None},
    "a word for what it says": {**WHOLE, "says": "1 = 1"},
    "a list for its kind": {**WHOLE, "kind": []},
    "a word for whether it holds": {**WHOLE, "holds": "yes"},
    "signs that steer a terminal": {**WHOLE, "kind": "\x1b[2J"},
}


@pytest.mark.parametrize("text", list(NO_LEDGERS.values()))
def test_a_file_that_is_no_ledger_is_refused_in_words(tmp_path, capsys, text):
    file = tmp_path / "other.json"
    claim = {**CLAIM, "certificate": [text]}
    file.write_text(text if isinstance(text, str) else json.dumps([claim]))
    assert __main__.main(["derive", "--check", str(file)]) == 2
    assert "this is no ledger with certificates" in capsys.readouterr().err
