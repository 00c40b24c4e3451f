"""The ledger as a whole: every claim as recorded, every check able to fail, every text covered.

By default that is of chapters of which text, rules or reader changed since their claims were recorded, and of a short one.
"""

import ast
import os
import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path

import pytest
from sympy import Symbol

import derivations
from derivations import book, records
from derivations.argument import core
from derivations.book import chapters_of
from derivations.claim import Equal, Source, decided, flips
from derivations.contents import RECORDS, SOURCES, recorded
from derivations.prior_work import PRIOR_WORK
from derivations.processes.pool import End
from derivations.prover.cases import Measured
from derivations.prover.statements import Fails
from derivations.prover.verdict import FAILS, UNDECIDED
from derivations.report import WORDS
from derivations.rules.conclusions import concludes, is_one_as_written
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data
from derivations.texts import tallec_ollivier_summary
from experiments.derive import markdown

RUN = "run python -m experiments.derive.markdown"
FILES = sorted(Path(derivations.__file__).parent.rglob("*.py"))
CHAPTERS = [(source, chapter) for source, chapters in SOURCES.items() for chapter in chapters]


# Where only the code of cells and steps is another one, `test_agreement.py` proves the named cells every day, the slow run all.
DAILY = {"tallec_ollivier_tasks", *(chapter for chapter, parts in records.changed().items() if parts != ("code",))}


def of_every_day(names, daily):
    """All of them, those slow that are not for every day."""
    return [name if name in daily else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="module", autouse=True)
def built_once():
    """Chapters quote each other, and several start from one argument: each is built once for all tests here."""
    arguments = [(import_module(f"derivations.argument.{name}"), "identities") for name in core.CHAPTERS]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((book, "chapter"), *arguments):
            patch.setattr(module, name, once(getattr(module, name)))
        yield


def once(build):
    return cache(lambda *of: list(build(*of)))


@pytest.fixture(scope="module", params=["chapters of every day", pytest.param("all chapters", marks=pytest.mark.slow)])
def by_chapter(request):
    chapters = [chapter for _, chapter in CHAPTERS if chapter in DAILY or request.param == "all chapters"]
    return {chapter: book.chapter(chapter) for chapter in chapters}


@pytest.fixture(scope="module")
def written(by_chapter):
    return [entry for chapter in by_chapter.values() for entry in chapter]


@pytest.fixture(scope="module")
def claims():
    return derivations.ledger()


@cache
def short(source):
    return derivations.ledger(source)


def wrong(claims):
    return [f"{claim.source}, {claim.label}: {claim.verdict}; {claim.evidence}" for claim in claims if not claim.as_recorded]


@pytest.mark.parametrize("chapter", of_every_day([chapter for _, chapter in CHAPTERS], DAILY))
def test_a_chapter_of_which_something_changed_is_proved_anew(chapter):
    claims = [decided(entry) for entry in book.chapter(chapter)]
    assert not wrong(claims)
    for source, found in markdown.records_of(claims).items():
        known = recorded()["claims"][source]
        assert {label: known.get(label) for label in found} == {label: [*record] for label, record in found.items()}, RUN


PAPERS = ("tallec-ollivier-2018", "ohno-kumagai-2021", "ollivier-2013-riemannian-metrics-ii")


# The last paper's ninety-six take seconds; they are proved every day where anything that their proofs are made of has changed.
@pytest.mark.parametrize("source", of_every_day(PAPERS, PAPERS[:2]))
def test_the_displayed_equations_of_a_paper_are_proved(source):
    displayed = [entry for chapter in SOURCES[source] for entry in book.chapter(chapter) if entry.label.startswith("eq. ")]
    assert len(displayed) >= 15
    assert not wrong([decided(entry) for entry in displayed])


def test_the_page_of_texts_is_made_from_the_records():
    page = markdown.PAGE.read_text()
    assert page == markdown.indexed(page, markdown.of_records(recorded()["claims"])), RUN
    assert [*recorded()["claims"]] == [*SOURCES]
    assert {verdict for claims in recorded()["claims"].values() for _, verdict in claims.values()} <= WORDS.keys()


def test_pages_and_records_have_the_same_claims():
    for source, claims in recorded()["claims"].items():
        text = markdown.file_of(source).read_text()
        assert f"**All of it.** {len(claims)} claims" in text
        assert not [label for label in claims if re.sub(r"([|*_<>\[\]])", r"\\\1", label) not in text], RUN


@pytest.mark.slow
def test_every_decision_is_as_recorded(claims):
    assert not wrong(claims)


# One statement in two places, and why.
SAME = {
    frozenset(labels): why
    for *labels, why in (
        *((there, place, "the paper's claim, summed up") for place, there, _ in tallec_ollivier_summary.AGAIN),
        ("sec. 1, sigmoid", "eq. 12", "two papers on one gate"),
        ("intro, decays", "sec. IV-B, enough", "sec. IV-B, conclude", "the introduction has it, and the section, twice"),
        ("eq. 19", "result 5, flow", "the printed flow is right and reused"),
        ("eq. 21, corrected", "result 5, derivative", "the correction is our result"),
        ("eq. 22", "eq. 81", "eq. 95", "the appendix repeats it, twice"),
        ("eq. 17", "eq. 82", "the appendix repeats it"),
        ("noise, variance of EulerMaruyama", "noise, variance of Milstein", "one step where G is constant"),
        ("code, additive", "code, additive, potentials", "what outputs are read from is no part of the equation"),
        ("eq. 25", "eq. 83", "the appendix repeats it"),
        ("eq. 47", "eq. 102", "the appendix derives it"),
        ("eq. 1", "eq. 37", "eq. 38", "the introduction has it, and section 3 begins with it, for M = 1"),
        ("eq. 15", "eq. 40", "the algorithm uses what section 3 derives"),
        ("eq. 23", "eq. 57", "the algorithm uses what section 3 derives"),
        ("eq. 42", "sec. 3.2, D_2 for D_1", "footnote 9", "the mean over sequences, and what a long one gives"),
        ("eq. 72", "eq. 31", "eq. 75", "one slope"),
        ("footnote 7", "eq. 78", "one time scale"),
        ("eq. 89", "eq. 90", "eq. 91", "eq. 93", "eq. 94", "terms of one differential"),
        ("footnote 10", "remark 10", "one matrix of rank one, and a sum of such"),
        ("eq. 20", "eq. 21", "eq. 34", "eq. 35", "one step in two equations, for two kinds of weights"),
        (
            "sec. 1, ordinary RNNs",
            "sec. 1, ordinary RNNs, warps",
            "deriving, closed",
            "closure, plain",
            "nor a warp",
        ),
        ("linear rescaling, limits", "closure, leaky", "a class of the summary and of ours"),
        ("code, leaky", "code, leaky, |h|^0 h", "a power of 0 is the linear decay, and must be traced to it"),
        ("sec. 3.2, inverse of the full matrix", "remark 7", "the remark repeats it"),
        ("intro, accuracy", "sec. VI-D, around r = 2", "one row of table II is against both"),
        ("sec. 3.5, RNNs, independence", "sec. 4, RNNs, orthogonality", "section 4 repeats it"),
        ("step maps, gate of exponential Euler", "step maps, gate of the exponential Rosenbrock step", "one gate of two steps"),
    )
}


def as_written(claim):
    """Its statements that the checker has a rule for, as they come back from a file."""
    return [statement for statement in from_data(as_data(claim.certificates)) if statement["says"]]


def accepts(says, steps):
    """Whether a certificate shows this statement, or its opposite."""
    try:
        concludes(says, steps)
        return True
    except NotShown:
        return False


def swapped(claims):
    """Labels of neighbouring claims in which a statement of one is shown by a certificate of the other."""
    for one, other in pairwise(claims):
        ours, theirs = map(as_written, (one, other))
        pairs = [*product(ours, theirs), *product(theirs, ours)]
        if any(accepts(b["says"], a["steps"]) for a, b in pairs if without_facts(a["says"]) != without_facts(b["says"])):
            yield one.label, other.label


def without_facts(says):
    """A statement alone: of letters that stand elsewhere in its claim, other facts may be written down."""
    return {key: without_facts(part) if key == "of" else part for key, part in says.items() if key != "facts"}


@pytest.mark.parametrize("source", of_every_day(SOURCES, {"huth-2020-lecture-slides"}))
def test_no_certificate_shows_the_statement_of_a_neighbouring_claim(source):
    claims = short(source)
    assert all(accepts(s["says"], s["steps"]) for claim in claims for s in as_written(claim))
    assert {frozenset(labels) for labels in swapped(claims)} <= SAME.keys()


@pytest.mark.slow
def test_the_tables_of_the_docs_are_what_sympy_finds(claims):
    page = markdown.PAGE.read_text()
    assert page == markdown.indexed(page, markdown.of_records(markdown.records_of(claims))), RUN
    assert {path: path.read_text() for path in (markdown.PAGE.parent / "derivations").glob("*.md")} == markdown.papers(claims)
    assert records.written(markdown.records_of(claims)) == RECORDS.read_text(), RUN


TEXTS = [source for source in SOURCES if source != "this project"]


@pytest.mark.skipif("CTRNN_LITERATURE" not in os.environ, reason="CTRNN_LITERATURE names no folder with the texts, not ours")
def test_every_quote_stands_in_its_text(written):
    folder = Path(os.environ["CTRNN_LITERATURE"])
    texts = {source: " ".join((folder / f"{source}.txt").read_text(encoding="utf-8").split()) for source in TEXTS}
    quoted = [entry for entry in written if entry.source in TEXTS]
    assert not [(e.source, e.label) for e in quoted if " ".join(e.quote.split()) not in texts[e.source]]


def test_every_file_of_the_texts_is_a_chapter():
    here = Path(derivations.__file__).parent / "texts"
    assert {file.stem for file in here.glob("*.py")} - {"__init__"} == {chapter for _, chapter in CHAPTERS}


def test_there_is_one_claim_a_label_and_of_the_source_of_its_chapter(by_chapter, written):
    count = Counter((entry.source, entry.label) for entry in written)
    assert not [key for key, n in count.items() if n > 1]
    for source, chapter in CHAPTERS:
        assert {entry.source for entry in by_chapter.get(chapter, [])} <= {source}, chapter


def test_every_result_of_our_own_says_who_had_it_first_and_every_line_is_of_some_result(by_chapter, written):
    assert not [entry.label for entry in written if (entry.source == "this project") != bool(entry.prior_work)]
    if len(by_chapter) == len(CHAPTERS):
        assert set(PRIOR_WORK.values()) == {entry.prior_work for entry in written} - {""}


def test_what_was_not_found_says_what_was_looked_for():
    assert not [label for label, words in PRIOR_WORK.items() if "one found" in words and "(looked for: " not in words]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("result 1", "one"),
        ("result 1, a b", "one"),
        ("result 12", "twelve"),
        ("a map of Euler", "longer"),
        ("a maple", ""),
    ],
)
def test_prior_work_is_that_of_the_longest_beginning_of_whole_words(label, words):
    source = Source("us", {"result 1": "one", "result 12": "twelve", "a map": "short", "a map of": "longer"})
    place = source(label).says("It is so.", Equal(Symbol("x"), Symbol("x")), recorded="undecided")
    assert (place.prior_work, decided(place).prior_work) == (words, words)


def test_a_source_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"`source` must be one of .*'this project', got 'tallec'"):
        chapters_of("tallec")
    with pytest.raises(ValueError, match="`workers` must be at least 1, got 0"):
        derivations.ledger(workers=0)


class InReverse:
    """In place of worker processes, which decide the chapters as they get to them."""

    def __init__(self, size, work):
        self.do = work.begun()

    def carry_out(self, chapters):
        yield from (End(name, self.do(name)) for name in reversed(chapters))


def test_chapters_that_processes_decide_come_in_the_order_of_the_texts(monkeypatch):
    entry = Source("us")("a label").says("It is so.", Equal(Symbol("x"), Symbol("x")), recorded="undecided")
    monkeypatch.setattr(book, "WorkerPool", InReverse)
    monkeypatch.setattr(book, "chapter", lambda name: [replace(entry, label=name)])
    found = derivations.ledger("tallec-ollivier-2018", workers=2)
    assert tuple(claim.label for claim in found) == SOURCES["tallec-ollivier-2018"]


@pytest.mark.slow
def test_processes_decide_as_this_one_does():
    source = "tallec-ollivier-2018"
    ours, theirs = ([(claim.label, claim.verdict) for claim in book.decide_all(source, workers=n)] for n in (1, 2))
    assert theirs == ours


def test_no_two_claims_are_decided_by_one_statement(written):
    found = defaultdict(list)
    for entry in written:
        says = [statement.says() for statement in entry.statements]
        if None not in says:
            found[repr(says)].append(entry.label)
    # Some of one statement's places may be in chapters that are left out.
    assert not [labels for labels in found.values() if len(labels) > 1 and not any(map(frozenset(labels).issubset, SAME))]


def test_no_equality_has_one_term_on_both_sides_but_where_one_of_them_is_torch_code(written):
    # A name for the right side, and that name's value on the left, says as little; `is_one_as_written` puts such names in.
    empty = []
    for entry in written:
        right = entry.right.statements if entry.right else ()
        says = [statement.says() for statement in (*entry.statements, *right)]
        equal = [inner for inner in (each and each.get("of", each) for each in says) if inner and inner["kind"] == "equal"]
        if not entry.label.startswith("code, ") and any(is_one_as_written(from_data(as_data(each))) for each in equal):
            empty.append((entry.source, entry.label))
    assert not empty


def test_no_name_in_braces_is_left_in_a_text():
    # An f too few before a string: "{power}" would be printed as it stands.
    for file in FILES:
        nodes = list(ast.walk(ast.parse(file.read_text())))
        # Not those of f-strings, nor of quotes: LaTeX is their authors'.
        apart = [node for node in nodes if isinstance(node, ast.JoinedStr) or getattr(node, "arg", "") == "quote"]
        formatted = {id(part) for node in apart for part in ast.walk(node)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in formatted:
                text = re.sub(r"\\[A-Za-z]+(?:\{[^{}]*\})*", "", node.value)  # but for commands of LaTeX and what is theirs
                assert not re.search(r"(?<!_)\{[a-z]\w+\}", text), f"{file.name}, line {node.lineno}: {node.value}"


def test_every_claim_of_a_text_is_quoted(written):
    assert not [entry.label for entry in written if entry.source in TEXTS and not entry.quote]


def test_claims_are_in_words_and_what_fails_is_corrected(written):
    for entry in written:
        assert entry.words.strip().endswith((".", "?", ")")), entry.label
        assert len(entry.words.split()) >= 4, entry.label
        assert entry.expected != FAILS or entry.correction is not None, entry.label


def test_only_statistics_are_sampled_and_say_their_size_and_level(written):
    for entry in written:
        for statement in entry.statements:
            inner = statement.statement if isinstance(statement, Fails) else statement
            if isinstance(inner, Measured):
                assert inner.n >= 1000, entry.label
                assert 0 < inner.significance <= 0.05, entry.label


@pytest.mark.slow
@pytest.mark.parametrize("chapter", [chapter for _, chapter in CHAPTERS])
def test_every_mutation_turns_its_verdict(chapter):
    stuck = [entry.label for entry in book.chapter(chapter) if not flips(entry)]
    assert not stuck


@pytest.mark.slow
def test_undecided_claims_stay_few(written):
    assert sum(entry.expected == UNDECIDED for entry in written) < len(written) / 20


def test_a_ledger_shows_its_verdicts_as_a_table():
    one = derivations.Claim("a text", "(1)", "x = x", (), "holds", None, "", 0.0)
    found = book.Ledger([one, one, replace(one, source="<b>", verdict="undecided")])
    assert str(found).splitlines() == ["        holds  undecided", "a text      2", "<b>                    1"]
    assert repr(found) == "<Ledger: 3 claims>"
    assert "<td>&lt;b&gt;</td><td></td><td>1</td>" in found._repr_html_()
    assert str(book.Ledger()) == "no claims"
