r"""Check the certificates of a ledger that was written as JSON, without SymPy and without what decided it.

Of each statement it is found anew what its certificate shows of it, and of each claim what verdict follows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctrnn.storage.files import read_file
from derivations.rules.conclusions import concludes, is_one_as_written
from derivations.rules.quotients import NotShown
from derivations.rules.replay import from_data
from experiments.files import MOST_JSON
from experiments.usage import UsageError

__all__ = ["run"]

# The verdicts that may be given where the print is true, where it is false, and where it is not known.
IF_TRUE = ("holds", "holds under the stated assumptions", "holds at the sizes computed")
IF_FALSE = ("does not hold as printed", "holds after reinterpretation")
UNDECIDED = "undecided"


def run(file: Path) -> bool:
    """Check that every certificate in the file shows what it says; print a line for each that does not, and the count."""
    claims = _claims(file)
    without: Counter[str] = Counter()
    accepted = steps = alike = by_definition = 0
    refused = []
    for claim in claims:
        as_written = []
        for statement in claim["certificate"]:
            if statement["says"] is None:
                without[statement["kind"]] += 1
            elif reason := _refusal(statement):
                refused.append(f"{claim['source']}, {claim['label']}, {statement['kind']}: {reason}")
            else:
                accepted, steps = accepted + 1, steps + len(statement["steps"])
                as_written.append(is_one_as_written(from_data(statement["says"])))
        alike += sum(as_written)
        by_definition += sum(as_written) == len(claim["certificate"])
        if claim["verdict"] not in _verdicts(claim["certificate"]):
            refused.append(f"{claim['source']}, {claim['label']}: {claim['verdict']!r} does not follow from its statements")
    print(*refused, sep="\n", end="\n" if refused else "")
    left = "; ".join(f"{n} of kind {kind!r}" for kind, n in without.items())
    print(
        f"{len(claims)} claims: {accepted} statements accepted by {steps} certificates, {len(refused)} refused; "
        f"{without.total()} have none{f' ({left})' if left else ''}. In {alike} both sides are one expression as "
        f"written, by definition, and {by_definition} claims consist of such alone; what enumerations compare is the program's."
    )
    return not refused


def _refusal(statement: Mapping[str, object]) -> str:
    """Why the certificate does not show what is said of the statement; empty if it does, or if nothing is said."""
    if statement["holds"] is None:
        return ""
    try:
        found = concludes(from_data(statement["says"]), from_data(statement["steps"]))
    except (NotShown, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as reason:
        return _short(f"{type(reason).__name__}: {reason}")
    return "" if found.true is statement["holds"] else f"it is {'true' if found.true else 'false'}"


def _verdicts(statements: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """The verdicts that may follow from what was found of the statements as printed, and of those that are right."""
    printed, right = ([s["holds"] for s in statements if s["of"] in of] for of in (("print",), ("right", "reading")))
    if not all(right) or (False not in printed and None in printed):
        return (UNDECIDED,)
    return IF_FALSE if False in printed else IF_TRUE


def _claims(file: Path) -> list[dict[str, Any]]:
    try:
        claims: list[dict[str, Any]] = json.loads(read_file(file.resolve(), MOST_JSON))
        if isinstance(claims, list) and claims and all(map(_is_claim, claims)):
            return claims
    except OSError as error:
        raise UsageError(f"--check {file}: cannot be read ({error.strerror or error}).") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise UsageError(
        f"--check {file}: this is no ledger with certificates; write one with `ctrnn derive --out {file.stem}.json`."
    )


def _is_claim(claim: Any) -> bool:
    words = [claim["source"], claim["label"], claim["verdict"], *(s[key] for s in claim["certificate"] for key in ("kind", "of"))]
    lists = all(isinstance(s["steps"], list) and isinstance(s["says"], dict | None) for s in claim["certificate"])
    return (
        lists
        and all(isinstance(word, str) and word.isprintable() for word in words)
        and all("holds" in s for s in claim["certificate"])
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + " ..."
