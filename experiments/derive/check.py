r"""Check the certificates of a ledger that was written as JSON, without SymPy and without what decided it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from derivations.checker.quotients import NotShown
from derivations.checker.replay import from_data, replay
from experiments.usage import UsageError

__all__ = ["run"]


def run(file: Path) -> bool:
    """Whether every certificate in the file shows what it says; a line for each that does not, and the count."""
    claims = _claims(file)
    accepted = bare = 0
    refused = []
    for claim in claims:
        for statement in claim["certificate"]:
            bare += not statement["steps"]
            for step in statement["steps"]:
                try:
                    replay(from_data(step))
                    accepted += 1
                except (NotShown, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as reason:
                    refused.append(f"{claim['source']}, {claim['label']}, {statement['kind']}: {_short(reason)}")
    print(*refused, sep="\n", end="\n" if refused else "")
    print(
        f"{len(claims)} claims: {accepted} certificates accepted, {len(refused)} refused; {bare} statements have none, being "
        f"computed case by case, drawn, decided by closure or left open."
    )
    return not refused


def _claims(file: Path) -> list[dict[str, Any]]:
    try:
        claims: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        for claim in claims:
            for statement in claim["certificate"]:
                _ = claim["source"], claim["label"], statement["kind"], statement["steps"]
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"--check {file}: this is no ledger with certificates; write one with `ctrnn derive --out {file.stem}.json`."
        ) from None
    return claims


def _short(reason: Exception) -> str:
    text = f"{type(reason).__name__}: {reason}"
    return text if len(text) <= 200 else text[:200] + " ..."
