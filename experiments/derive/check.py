r"""Check a ledger that was written as JSON, without SymPy and without what decided it.

Of each statement it is found anew what its certificate shows of it, and of each claim what verdict follows. What this
package's own ledger displays must be what the package's table of contents knows, claim by claim; of another ledger the formulas
are shown that were checked, with what is assumed, for its words are its author's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from ctrnn.storage.files import read_file
from derivations.contents import digest, digests
from derivations.rules.conclusions import Conclusion, concludes, is_one_as_written
from derivations.rules.printing import condition_text, facts_text, statement_text
from derivations.rules.quotients import NotShown
from derivations.rules.replay import from_data
from experiments.files import MOST_JSON
from experiments.usage import UsageError

__all__ = ["CheckedClaim", "checked", "run"]

ALL_SIZES = "all sizes"
HOLDS, HOLDS_ASSUMING, AT_SIZES = "holds", "holds under the stated assumptions", "holds at the sizes computed"
FAILS, REINTERPRETED, UNDECIDED = "does not hold as printed", "holds after reinterpretation", "undecided"
# What a certificate that is no certificate makes the rules raise.
REFUSED = (NotShown, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
# Letters of other alphabets that are drawn as Latin ones.
LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u04cf\u0410\u0412\u0415\u041a\u041c\u041d"
    "\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u03bf\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
    "\u03a4\u03a5\u03a7",
    "aeopcyxijsdqwhlABEKMHOPCTYXIJSovABEZHIKMNOPTYX",
)
LISTS, WORDS = ("assumptions", "defined_on", "certificate"), ("source", "label", "statement", "verdict", "scope")


def run(file: Path, paper: Path | None = None) -> bool:
    """Check a ledger; print its claims if they are not this package's, a line for each thing refused, and the count.

    Args:    file; paper: that it was made of, which is read and decided again, and compared.
    """
    claims = _claims(file)
    known = digests()
    found = [checked(claim, known) for claim in claims]
    refused = [f"{_name(claim)}: {reason}" for claim, result in zip(claims, found, strict=True) for reason in result.refused]
    refused += [*_missing(claims, known), *_added(claims, known)]
    if paper is not None:
        from experiments.papers import differences  # noqa: PLC0415 - which loads SymPy and torch

        refused += differences(paper, claims)
    for claim, result in zip(claims, found, strict=True):
        if claim["source"] not in known:
            print(*_displayed(claim, result), sep="\n")
    print(*refused, sep="\n", end="\n" if refused else "")
    print(_summary(claims, found, known), f"{len(refused)} refused.")
    return not refused


@dataclass
class CheckedClaim:
    """What was found of a claim: conclusions by statement, None where nothing is claimed of it, and what is refused."""

    conclusions: list[Conclusion | None] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    steps: int = 0
    as_written: int = 0


def checked(claim: Mapping[str, Any], known: Mapping[str, Mapping[str, str]]) -> CheckedClaim:
    """Check a claim as it is in a file, against the digests of this package's ledger."""
    found = CheckedClaim()
    for statement in claim["certificate"]:
        try:
            found.conclusions.append(_conclusion(statement))
            found.steps += len(statement["steps"])
            found.as_written += statement["says"] is not None and is_one_as_written(from_data(statement["says"]))
        except REFUSED as reason:
            found.conclusions.append(None)
            found.refused.append(f"{statement['kind']}: {_short(f'{type(reason).__name__}: {reason}')}")
    for name in dict.fromkeys(_names(claim)):
        if not name.isascii() and (other := _looks_like(name)).isascii():
            found.refused.append(f"the name {name!a} is read as {other!r}, and is another one")
    if not found.refused and (follows := _verdict(claim, found.conclusions)) != claim["verdict"]:
        found.refused.append(f"{claim['verdict']!r} does not follow from its statements, but {follows!r} does")
    own = known.get(claim["source"])
    if own is not None and claim["label"] not in own:
        found.refused.append("the ledger has no such claim")
    elif own is not None and own[claim["label"]] != digest(claim):
        found.refused.append("it is not displayed as in the ledger of the installed package")
    return found


def _conclusion(statement: Mapping[str, Any]) -> Conclusion | None:
    """What the certificate shows of a statement; None if the ledger says nothing of it. Raises: NotShown for something else."""
    if statement["holds"] is None:
        return None
    if statement["says"] is None:
        raise NotShown("nothing is said to the checker")
    found = concludes(from_data(statement["says"]), from_data(statement["steps"]))
    if found.true is not statement["holds"]:
        raise NotShown(f"it is {'true' if found.true else 'false'}")
    return found


def _verdict(claim: Mapping[str, Any], conclusions: Sequence[Conclusion | None]) -> str:
    """The verdict that follows from what was found of the statements as printed, and of those that are right."""
    pairs = [(s["of"], found) for s, found in zip(claim["certificate"], conclusions, strict=True)]
    printed, right = ([found for of, found in pairs if (of == "print") is is_print] for is_print in (True, False))
    if not printed or not all(found and found.true for found in right):
        return UNDECIDED
    if any(found and not found.true for found in printed):
        return REINTERPRETED if any(of == "reading" for of, _ in pairs) else FAILS
    if None in printed:
        return UNDECIDED
    if claim["scope"] != ALL_SIZES:
        return AT_SIZES
    return HOLDS_ASSUMING if claim["assumptions"] or any(found and found.conditions for found in printed) else HOLDS


def _missing(claims: Sequence[Mapping[str, Any]], known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What is wanting of the sources that are there, and what is there twice."""
    count = Counter((claim["source"], claim["label"]) for claim in claims)
    yield from (f"{source}, {label}: it is there {n} times" for (source, label), n in count.items() if n > 1)
    for source in dict.fromkeys(claim["source"] for claim in claims):
        yield from (f"{source}, {label}: it is missing" for label in known.get(source, ()) if not count[source, label])


def _added(claims: Sequence[Mapping[str, Any]], known: Mapping[str, object]) -> Iterator[str]:
    """What stands beside this package's claims and is none of them."""
    others = [claim for claim in claims if claim["source"] not in known]
    if len(others) < len(claims):
        yield from (
            f"{_name(claim)}: {claim['source']!r} is no text of this package; it takes a file of its own" for claim in others
        )


def _names(claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names in a claim that are not words: its source, its label, letters and functions."""
    yield from (claim["source"], claim["label"])
    kept: list[Any] = [statement["says"] for statement in claim["certificate"]]
    while kept:
        part = kept.pop()
        if isinstance(part, list) and len(part) > 1 and part[0] in ("v", "call", "known") and isinstance(part[1], str):
            yield part[1]
        kept += part if isinstance(part, list) else part.values() if isinstance(part, dict) else ()


def _looks_like(name: str) -> str:
    """Write a name with the ASCII characters that its characters look like."""
    plain = (("-" if category(k) == "Pd" or k in "\u2212\u00ad" else " " if category(k) == "Zs" else k) for k in name)
    return normalize("NFKC", "".join(plain)).translate(LOOKALIKES)


def _displayed(claim: Mapping[str, Any], found: CheckedClaim) -> Iterator[str]:
    """A claim of another ledger: its words, unchecked, and its formulas as they were checked."""
    yield f"{_name(claim)}: {claim['verdict']}{', refused' if found.refused else ''}"
    yield f"    in its author's words: {_short(claim['statement'])}"
    provided = [*claim["assumptions"], *([] if claim["scope"] == ALL_SIZES else [claim["scope"]])]
    yield from [f"    provided, in words: {_short('; '.join(map(str, provided)))}"] if provided else []
    for statement, conclusion in zip(claim["certificate"], found.conclusions, strict=True):
        if conclusion is not None:
            says = from_data(statement["says"])
            where = [condition_text(*condition) for condition in conclusion.conditions]
            given = "; ".join([*facts_text(says), *(f"where {condition}" for condition in where)])
            start = {"print": "", "right": "right: ", "reading": "read as: "}.get(statement["of"], "")
            lines = "; ".join(map(_short, statement_text(says)))
            yield f"    {start}{'true' if conclusion.true else 'false'}: {lines}{f' [{given}]' if given else ''}"


def _summary(claims: Sequence[Mapping[str, Any]], found: Sequence[CheckedClaim], known: Mapping[str, object]) -> str:
    steps, statements = sum(c.steps for c in found), sum(conclusion is not None for c in found for conclusion in c.conclusions)
    alike = sum(c.as_written for c in found)
    by_definition = sum(0 < c.as_written == len(c.conclusions) for c in found)
    others = len(known.keys() - {claim["source"] for claim in claims})
    own = sum(claim["source"] in known for claim in claims)
    whose = f"{own} are this package's ledger{f' without {others} of its {len(known)} texts' if others else ', complete'}"
    return (
        f"{len(claims)} claims: {statements} statements accepted by {steps} certificates. "
        f"{whose if own else 'None of them is of this package: words and sizes are not checked'}. "
        f"In {alike} both sides are one expression as written, by definition, and {by_definition} claims consist of such alone; "
        f"what enumerations compare is the program's, and the seconds that claims took are no part of what is checked."
    )


def _claims(file: Path) -> list[dict[str, Any]]:
    try:
        claims: list[dict[str, Any]] = json.loads(read_file(file.resolve(), MOST_JSON), object_pairs_hook=_table)
        if isinstance(claims, list) and claims and all(map(_is_claim, claims)):
            return claims
    except DuplicateKeyError as key:
        raise UsageError(f"--check {file}: {key} stands twice in one place, and readers differ in which they take.") from None
    except OSError as error:
        raise UsageError(f"--check {file}: cannot be read ({error.strerror or error}).") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise UsageError(
        f"--check {file}: this is no ledger with certificates; write one with `ctrnn derive --out {file.stem}.json`."
    )


class DuplicateKeyError(ValueError):
    """Raised for a key that a table of JSON has twice, with its name."""


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        count = Counter(key for key, _ in pairs)
        raise DuplicateKeyError(ascii(next(key for key, n in count.items() if n > 1)))
    return table


def _is_claim(claim: Any) -> bool:
    statements = claim["certificate"]
    words = [*(claim[key] for key in WORDS), *claim["assumptions"], *claim["defined_on"]]
    words += [s[key] for s in statements for key in ("kind", "of")]
    return (
        all(isinstance(claim[key], list) for key in LISTS)
        and type(claim.get("seconds", 0)) in (int, float)
        and all(isinstance(word, str) and word.isprintable() for word in words)
        and all(isinstance(s["steps"], list) and isinstance(s["says"], dict | None) for s in statements)
        and all(isinstance(s["holds"], bool | None) for s in statements)
    )


def _name(claim: Mapping[str, Any]) -> str:
    return f"{claim['source']}, {claim['label']}"


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + " ..."
