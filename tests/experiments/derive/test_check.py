"""`ctrnn derive --check`: a ledger in a file is accepted as it was written, and with no change of it that says something else."""

import json
from copy import deepcopy

import pytest
from sympy import Mul, Pow, Rational, Symbol, exp, log

import derivations
from derivations.claim import Correction, Entry, Less, Mutation, Tends, decided
from derivations.closure import WITHIN_UNIT, Closes
from derivations.contents import digests
from derivations.prover.cases import Every
from derivations.prover.statements import Equal, Fails, Rounds
from derivations.prover.verdict import UNDECIDED
from derivations.twins.fields import gated
from experiments import __main__
from experiments.derive.check import checked
from experiments.derive.run import as_json

SHORT, LONGER = "huth-2020-lecture-slides", "tallec-ollivier-2018-summary"
x, g = Symbol("x", real=True), Symbol("g", positive=True)
TRUE, FALSE = Equal((x + 1) ** 2, x**2 + 2 * x + 1), Equal((x + 1) ** 2, x**2 + 1)
PARTLY = Equal(Mul(x, Pow(x, -1, evaluate=False), evaluate=False), 1 + 0 * x)
WRONG = Mutation("no 2 x", FALSE)
OTHERS = [
    Entry("my paper", "eq. 1", "A square opens.", (TRUE,), mutation=WRONG),
    Entry("my paper", "eq. 2", "Provided that x is positive.", (TRUE, Fails(FALSE)), ("x > 0",), WRONG),
    Entry("my paper", "eq. 3", "It has two terms.", (FALSE,), correction=Correction("Three.", TRUE)),
    Entry("my paper", "eq. 4", "Two, if x is 0.", (FALSE,), reading=Correction("There.", TRUE)),
    Entry("my paper", "eq. 5", "It is below.", (Less(1 - g, exp(-g), True), Rounds(log(2), "0.7")), mutation=WRONG),
    Entry("my paper", "eq. 6", "It is one.", (PARTLY,), ("x is not 0",), WRONG),
    Entry("my paper", "eq. 7", "It tends to 0.", (Tends(g * log(g), g, 0, 0 * g),), mutation=WRONG),
    Entry("my paper", "eq. 8", "In all cases.", (Every("n", lambda: [({"n": 9}, (1, "<=", 9))]),), mutation=WRONG),
    Entry("my paper", "eq. 10", "It is one, of course.", (PARTLY,), mutation=WRONG),
    Entry("my paper", "eq. 9", "Nobody shows it.", (Less(x, exp(x) + log(x) + 1000),), recorded=UNDECIDED),
]  # fmt: skip
VERDICTS = ["holds", "holds under the stated assumptions", "holds at the sizes computed", "holds after reinterpretation",
            "does not hold as printed"]  # fmt: skip

NOTHING_PROVED = {"source": "anybody", "label": "theorem 1", "statement": "P = NP", "verdict": "holds", "scope": "all sizes",
                  "assumptions": [], "defined_on": [], "correction": None, "certificate": []}  # fmt: skip


def as_written(claims):
    return json.loads(json.dumps(list(map(as_json, claims))))


@pytest.fixture(scope="module")
def own():
    """The ledger of the text that is decided soonest: the other short one takes four times as long."""
    return as_written(derivations.ledger(SHORT))


@pytest.fixture(scope="module")
def others():
    return as_written(map(decided, OTHERS))


def check(tmp_path, capsys, claims):
    file = tmp_path / "ledger.json"
    file.write_text(json.dumps(claims))
    code = __main__.main(["derive", "--check", str(file)])
    return code, capsys.readouterr().out


def test_a_ledger_is_accepted_as_it_was_written(tmp_path, capsys, own):
    code, out = check(tmp_path, capsys, own)
    assert (code, out.count("\n")) == (0, 1), out
    assert f"{len(own)} are this package's ledger without 5 of its 6 texts" in out


def test_claims_of_others_are_accepted_and_shown_by_their_formulas(tmp_path, capsys, others):
    code, out = check(tmp_path, capsys, others)
    assert code == 0, out
    assert "None of them is of this package" in out
    assert "in its author's words: It is one." in out
    assert "true: x/x = 1 [x real; where x != 0]" in out
    assert "true: 1 - g < exp(-g) [g positive]" in out
    assert "read as: true: (1 + x)^2 = 1 + x^2 + 2 x" in out


def test_no_claim_of_anybody_is_accepted_that_its_proofs_do_not_show(others):
    for claim in others:
        assert not checked(claim, {}).refused
        for forged in of_proofs(claim):
            assert checked(forged, {}).refused, (claim["label"], forged)


def test_words_without_a_proof_are_refused(tmp_path, capsys):
    code, out = check(tmp_path, capsys, [NOTHING_PROVED])
    assert code == 1
    assert "anybody, theorem 1: 'holds' does not follow from its statements, but 'undecided' does" in out
    assert "1 refused" in out


def of_proofs(claim):
    """A claim whose proofs show something else than is said, or nothing."""
    for verdict in VERDICTS:
        if verdict != claim["verdict"]:
            yield {**claim, "verdict": verdict}
    if claim["verdict"] == "undecided":
        return
    yield {**claim, "certificate": []}
    for n, statement in enumerate(claim["certificate"]):
        for change in (
            {"says": None}, {"holds": None}, {"holds": not statement["holds"]}, {"steps": []}, {"steps": statement["steps"][:-1]},
            {"says": {**statement["says"], "kind": "rounded"}},
        ):  # fmt: skip
            copy = deepcopy(claim)
            copy["certificate"][n].update(change)
            yield copy
    if len(claim["certificate"]) > 1:
        yield {**claim, "certificate": claim["certificate"][1:]} | ({} if claim["correction"] else {"scope": "1 unit"})


def of_words(claim):
    """A claim of which something else is displayed."""
    for key in ("statement", "evidence", "quote", "mutation", "scope", "correction"):
        yield {**claim, key: f"{claim[key]} P = NP."}
    for key in ("assumptions", "defined_on", "latex"):
        yield {**claim, key: [*claim[key], "P = NP"]}
        if claim[key]:
            yield {**claim, key: claim[key][1:]}
    yield {**claim, "counterexample": {**claim["counterexample"], "P": "NP"}}
    yield {**claim, "label": "eq. 1000"}
    copy = deepcopy(claim)
    copy["certificate"][0]["kind"] = "theorem"
    yield copy


# The slow run changes every claim, and of two texts.
@pytest.mark.parametrize(
    ("source", "every"), [(SHORT, 4), *(pytest.param(source, 1, marks=pytest.mark.slow) for source in (SHORT, LONGER))]
)
def test_no_claim_of_the_ledger_is_accepted_with_a_change(own, source, every):
    own = own if source == SHORT else as_written(derivations.ledger(source))
    known, tried = digests(), 0
    for k, claim in list(enumerate(own))[::every]:
        assert not checked(claim, known).refused
        other = own[k - 1]
        swapped = {**claim, "certificate": other["certificate"]}
        for forged in (*of_proofs(claim), *of_words(claim), swapped, {**claim, "source": "this project"}):
            tried += 1
            assert checked(forged, known).refused, (claim["label"], forged)
    assert tried > 20 * len(own) // every


ALIKE = [
    "huth\u20102020\u2010lecture-slides", "huth-2020\u2212lecture-slides", "huth-2020-l\u0435cture-slides",
    "\uff48uth-2020-lecture-slides", "this\u00a0project", "\u0430", "\u03bf",
]  # fmt: skip


@pytest.mark.parametrize("name", ALIKE, ids=ascii)
@pytest.mark.parametrize("where", ["source", "label", "letter", "function"])
def test_a_name_that_is_read_as_another_one_is_refused(others, name, where):
    claim = deepcopy(others[0])
    if where in ("source", "label"):
        claim[where] = name
    else:
        claim["certificate"][0]["says"]["pairs"][0][0] = ["v", name] if where == "letter" else ["call", name, [0], ["v", "x"]]
    assert any(f"the name {name!a} is read as" in reason for reason in checked(claim, {}).refused)


@pytest.mark.parametrize("name", ["M\u00fcller 2020", "\u03b1", "\u0416", "Gau\u00df", "eq. 1"])
def test_a_name_that_is_read_as_itself_is_none_of_these(others, name):
    assert not checked({**others[0], "label": name}, {}).refused


def test_a_claim_of_somebody_else_is_refused_beside_those_of_this_package(tmp_path, capsys, own, others):
    code, out = check(tmp_path, capsys, [*own, others[0]])
    assert code == 1
    assert "my paper, eq. 1: 'my paper' is no text of this package" in out


@pytest.mark.parametrize("key", ["verdict", "kind", "says"])
def test_a_key_that_stands_twice_is_refused(tmp_path, capsys, others, key):
    text = json.dumps(others[:1])
    place = text.index(f'"{key}": ')
    file = tmp_path / "ledger.json"
    file.write_text(f'{text[:place]}"{key}": null, {text[place:]}')
    assert __main__.main(["derive", "--check", str(file)]) == 2
    assert f"'{key}' stands twice in one place" in capsys.readouterr().err


@pytest.fixture
def rounded():
    third = Entry("my paper", "eq. 1", "A third.", (Rounds(Rational(1, 3), "0.33"),), mutation=WRONG)
    tie = Entry("my paper", "eq. 2", "A tie.", (Rounds(Rational(67, 200), "0.33"),), recorded=UNDECIDED)
    return [json.loads(json.dumps(as_json(decided(entry)))) for entry in (third, tie)]


def test_a_decimal_is_refuted_at_an_end_of_its_interval_alone(rounded):
    third, tie = rounded
    assert [claim["verdict"] for claim in rounded] == ["holds", "does not hold as printed"]
    assert not any(checked(claim, {}).refused for claim in rounded)
    (statement,), value = third["certificate"], ["q", 1, 3]
    statement["says"]["beyond"], statement["holds"], third["verdict"] = value, False, "does not hold as printed"
    statement["steps"][0] |= {"low": value, "high": value}
    assert "is no end" in checked(third, {}).refused[0]
    (statement,) = tie["certificate"]
    statement["steps"][0] |= {"low": statement["says"]["low"], "high": statement["says"]["high"]}
    statement["holds"], tie["verdict"] = True, "holds"
    assert checked(tie, {}).refused


def test_a_ledger_with_a_float_is_refused_and_not_shown(tmp_path, capsys, rounded):
    rounded[0]["certificate"][0]["says"]["low"][1] = 13.0
    (tmp_path / "ledger.json").write_text(json.dumps(rounded))
    assert __main__.main(["derive", "--check", str(tmp_path / "ledger.json")]) == 1
    assert "a float is no exact number" in capsys.readouterr().out


def test_seconds_are_no_part_of_what_is_checked_but_are_a_number(tmp_path, capsys, others):
    code, out = check(tmp_path, capsys, [{**others[0], "seconds": 1e-9}])
    assert code == 0
    assert "the seconds that claims took are no part of what is checked" in out
    assert check(tmp_path, capsys, [{**others[0], "seconds": "none"}])[0] == 2


def test_a_class_that_absorbs_clocks_is_shown_by_its_letters(tmp_path, capsys):
    entry = Entry("my paper", "eq. 1", "Gates absorb warps.", (Closes(gated(), WITHIN_UNIT),), mutation=WRONG)
    code, out = check(tmp_path, capsys, as_written([decided(entry)]))
    assert code == 0, out
    assert "the class absorbs warps that keep its gates in (0, 1): some values of 'g_1*', 'g_2*'" in out


NAMES = {"x - x": "'x - x'", "2": "'2'", "pi": "'pi'", "\x1b[2J": "'\\x1b[2J'", "\u202ex": "'\\u202ex'", "W_{h,11}": "W_{h,11}"}


@pytest.mark.parametrize("name", NAMES)
def test_a_letter_is_not_displayed_as_something_else(tmp_path, capsys, name):
    says = {"kind": "equal", "pairs": [[["v", name], ["v", name]]], "where": {"pairs": []}, "facts": {"pairs": []}}
    step = {"rule": "equal", "lhs": ["v", name], "rhs": ["v", name], "facts": {"pairs": []},
            "proof": {"split": [], "cases": [{"signs": [], "generators": [["v", name]], "lines": []}]}}  # fmt: skip
    statement = {"of": "print", "kind": "identity", "holds": True, "says": says, "steps": [step]}
    code, out = check(tmp_path, capsys, [{**NOTHING_PROVED, "certificate": [statement]}])
    assert code == 0, out
    assert f"true: {NAMES[name]} = {NAMES[name]}\n" in out


@pytest.mark.parametrize("change", ["a claim missing", "a claim twice"])
def test_a_ledger_has_every_claim_of_its_texts_once(tmp_path, capsys, own, change):
    code, out = check(tmp_path, capsys, own[1:] if change == "a claim missing" else [*own, own[0]])
    assert code == 1
    assert f"{SHORT}, {own[0]['label']}: it is {'missing' if change == 'a claim missing' else 'there 2 times'}" in out
