r"""The equations of three texts, typed in LaTeX as they are printed, below at most five lines of declarations.

`supposed` and `defined` prove nothing; `not an equation` is a map, a law, a string or a floor, refused with its line.
The verdicts were written down before the reader was: from the papers' own words, and this package's ledger.
"""

import re
from pathlib import Path

import pytest

from derivations.claim import decided
from derivations.papers.paper import read_paper

HERE = Path(__file__).parent
TABLES = {
    "tallec_ollivier": """
(1): not an equation
(2): holds
(3): supposed
(4): holds
(5): holds
(6): holds
(7): supposed
(8): holds
(9): defined
(10): defined
(11): defined
(12): defined
(13): defined
(14): defined
(15): defined
(16): not an equation, defined
""",
    # (10), (18) and (21) are derivatives by values of a state; (5), (6), (9) and (11) give h_t anew, and nobody says that it is
    # another one.
    "ohno_kumagai": """
(1): supposed
(2): holds
(4): defined
(3): defined
(5): undecided
(6): undecided
(7): defined
(8): defined
(9): undecided
(10): undecided
(11): undecided
(12): defined
(13): defined
(14): defined
(16): holds
(17): supposed
(18): undecided
(19): supposed
(20): holds
(21): undecided
(22): supposed
(23): holds
(24): defined
""",
    "lecture": """
rnn: holds
flow: supposed
scaled: holds
leaky: holds
warped: holds
learned: supposed
gated: holds
boxed: defined
cell: holds
gate: defined
zero: defined
inverse: holds
bias: holds, undecided
floor: not an equation
string: not an equation
""",
}
WORDS = {
    "holds": "holds",
    "holds under the stated assumptions": "holds",
    "holds at the sizes computed": "holds",
    "does not hold as printed": "NOT SO",
    "undecided": "undecided",
}


def found_in(text):
    """What is found of each label: what is supposed, what is defined, and verdicts of claims."""
    paper = read_paper(text, "paper", tex=False)
    found = {}
    for said in paper.said:
        found.setdefault(said.label, []).append("supposed" if said.supposed else "defined")
    for entry in paper.entries:
        claim = decided(entry)
        label = re.sub(r"(, (step|row) \d+)$", "", claim.label)
        word = WORDS[claim.verdict]
        if claim.evidence.startswith("not an equation"):
            assert re.match(r"not an equation: line \d+, column \d+: ", claim.evidence)
            word = "not an equation"
        found.setdefault(label, []).append(word)
    return found


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", TABLES)
def test_the_equations_of_a_text_as_printed_get_the_verdicts_that_they_have(name, subtests):
    text = (HERE / f"{name}.md").read_text()
    found = found_in(text)
    wanted = {label: words.split(", ") for label, words in (line.split(": ") for line in TABLES[name].strip().splitlines())}
    assert found.keys() == wanted.keys()
    for label, words in wanted.items():
        with subtests.test(label=label):
            assert sorted(found[label]) == sorted(words)
    assert len(text.split("---")[1].strip().splitlines()) <= 5
